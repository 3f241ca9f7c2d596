/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queues: which steps run beside each other. Launches and copies within a device go into its compute queue, copies from
 * and to the host into queues of their own, communication into queues beside those; all else stays in the host's
 * program order. A step waits for the steps that access what it accesses, one of the two writing, where nothing else
 * orders them: of each queue the last, and no wait that another one implies.
 *
 * The host waits for what it has given to devices in front of a step whose regions use them: behind such a step it then
 * knows of all that has ended, whatever branch has run (events of a region end with it).
 *
 * A vote waits for all that may fault, and what writes state, or has regions that do, waits for the votes before it.
 *
 * Communication of the host takes the first queue whose last step the host knows to have ended, so that nothing waits
 * for another's message without need. Collectives whose memory is bounded (attribute `ahead`) begin behind the device's
 * steps in front of them, and launches behind wait for all but so many, so that the memory of those before, and what
 * computed in front of them, is free again; in their entry point copies between memories do likewise. Copies with that
 * attribute (the pass `offload`) are bounded in regions as well. Steps that write state, behind the last communication
 * that is started, wait for all of it: should it fail, the state is as it was.
 */
#include "passes/lower_int.h"

#include <string.h>

bool pass_queues_run(struct pass_run *r);

enum { MAX_COMMUNICATION = 256 }; /* queues of the host's; more wait for each other */

struct reader {
    const struct kn_moment *at;
    struct reader *next;
};

struct moments {
    const struct kn_moment **at;
    int n, cap;
};

struct queues {
    struct ir_ctx *ctx;
    struct ir_arena *scratch;
    struct kn_program *p;
    struct kn_order *order;
    VEC(struct kn_queue) table;
    VEC(struct kn_step *) step_of;  /* by moment; NULL: the end of a region */
    const struct kn_moment **write; /* by root buffer: the last */
    struct reader **reads;          /* since; of each queue the last */
    VEC(const struct kn_moment *) need;
    VEC(const struct kn_moment *) started; /* communication that the host has not waited for, of the lists around */
    struct moments latest;                 /* the last step of each queue of a device */
    struct moments faulty;                 /* what may fault: of each queue the last */
    VEC(const struct kn_moment *) votes;
    int events, communication, first_of_host;
    struct bounded {
        struct moments under_way;
        int ahead;
    } bounded[TCC_NCOLLECTIVES + 1]; /* by kind; the last: copies */
    bool is_bounded;                 /* the list has such */
};

/* -- Queues ------------------------------------------------------------------------------------------ */

/* A device has four queues, behind the host's; then come those of the host's communication. */
static int queue_of_device(int memory, enum tcc_queue_kind kind)
{
    return 1 + 4 * (memory - 1) + (int)kind - TCC_QUEUE_COMPUTE;
}

static int host_communication(struct queues *q)
{
    const int *known = kn_order_known(q->order, 0);
    int n = 0;
    for (; n < q->communication; n++) {
        int *own = kn_order_known(q->order, q->first_of_host + n);
        if (known[q->first_of_host + n] == own[q->first_of_host + n])
            return q->first_of_host + n;
    }
    if (n == MAX_COMMUNICATION)
        return q->first_of_host;
    q->communication++;
    if (q->table.n <= q->first_of_host + n)
        VEC_PUSH(q->ctx, q->table, (struct kn_queue){0, TCC_QUEUE_COMMUNICATION});
    return q->first_of_host + n;
}

static int queue_of(struct queues *q, const struct kn_step *s)
{
    int m = 0, from = s->nargs && s->args[0] >= 0 ? q->p->buffers[s->args[0]].memory : 0;
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && q->p->buffers[s->args[a]].memory > m)
            m = q->p->buffers[s->args[a]].memory;
    if (lw_communicates(s))
        return m ? queue_of_device(m, TCC_QUEUE_COMMUNICATION) : host_communication(q);
    if (m == 0)
        return 0;
    switch (s->kind) {
    case TCC_STEP_LAUNCH:
    case TCC_STEP_LIB: /* a user's device code */
    case TCC_STEP_FREE: return queue_of_device(m, TCC_QUEUE_COMPUTE);
    case TCC_STEP_COPY:
        if (from == q->p->buffers[s->args[1]].memory)
            return queue_of_device(m, TCC_QUEUE_COMPUTE);
        return queue_of_device(m, from ? TCC_QUEUE_COPY_OUT : TCC_QUEUE_COPY_IN);
    default: return 0;
    }
}

/* -- Waits -------------------------------------------------------------------------------------------- */

static void need(struct queues *q, const struct kn_moment *m)
{
    if (m)
        VEC_PUSH(q->ctx, q->need, m);
}

static void need_buffer(struct queues *q, int buffer, bool write)
{
    if (buffer < 0)
        return;
    int b = kn_storage(q->p->buffers, buffer);
    need(q, q->write[b]);
    for (const struct reader *r = q->reads[b]; r && write; r = r->next)
        need(q, r->at);
}

static void note(struct queues *q, int buffer, bool write, const struct kn_moment *m)
{
    if (buffer < 0)
        return;
    int b = kn_storage(q->p->buffers, buffer);
    if (write) {
        q->write[b] = m;
        q->reads[b] = NULL;
        return;
    }
    struct reader *r = q->reads[b];
    while (r && r->at->queue != m->queue)
        r = r->next;
    if (!r) {
        r = ir_arena_alloc(q->scratch, sizeof *r);
        r->next = q->reads[b];
        q->reads[b] = r;
    }
    r->at = m;
}

/* Waits of s for what it needs and does not know: no two of one queue, none that another implies. */
static void add_waits(struct queues *q, struct kn_step *s)
{
    const int *known = kn_order_known(q->order, s->queue);
    VEC(const struct kn_moment *) wanted = {0};
    for (int i = 0; i < q->need.n; i++) {
        const struct kn_moment *m = q->need.at[i];
        int w = 0;
        if (known[m->queue] >= m->index || m->queue == s->queue)
            continue;
        while (w < wanted.n && wanted.at[w]->queue != m->queue)
            w++;
        if (w == wanted.n)
            VEC_PUSH(q->ctx, wanted, m);
        else if (wanted.at[w]->index < m->index)
            wanted.at[w] = m;
    }
    q->need.n = 0;
    s->nwaits = 0;
    s->waits = wanted.n ? IR_NEWN(q->ctx, wanted.n, int) : NULL;
    for (int w = 0; w < wanted.n; w++) {
        bool implied = false;
        for (int o = 0; o < wanted.n && !implied; o++)
            implied = o != w && kn_before(wanted.at[w], wanted.at[o]);
        struct kn_step *of = q->step_of.at[wanted.at[w]->number];
        if (implied || !of)
            continue;
        if (!of->event) {
            of->event = ++q->events;
            kn_order_name(q->order, of->event, wanted.at[w]);
        }
        s->waits[s->nwaits++] = of->event;
    }
}

/* What the step accesses: its own arguments, and what the walker hands over to and from its regions. */
static void each_access(struct queues *q, const struct kn_step *s, void (*visit)(struct queues *q, int b, bool write))
{
    for (int a = 0; a < s->nargs; a++)
        visit(q, s->args[a], kn_use(s, a) != KN_IN);
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        for (int i = 0; i < g->nresults; i++)
            visit(q, g->results[i], false);
        for (int i = 0; i < g->nparams; i++)
            visit(q, g->params[i], true);
        for (int i = 0; g->exits && i < g->nresults - (s->kind == TCC_STEP_LOOP); i++)
            visit(q, g->exits[i], true);
    }
}

static bool writes_state(const struct queues *q, const struct kn_step *s)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && q->p->buffers[kn_storage(q->p->buffers, s->args[a])].space == TCC_SPACE_STATE &&
            kn_use(s, a) != KN_IN)
            return true;
    return false;
}

static bool regions_write_state(const struct queues *q, const struct kn_step *s)
{
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++) {
            const struct kn_step *inner = &s->regions[r].steps.at[i];
            if (writes_state(q, inner) || regions_write_state(q, inner))
                return true;
        }
    return false;
}

static bool regions_use_devices(struct queues *q, const struct kn_step *s)
{
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < s->regions[r].steps.n; i++) {
            const struct kn_step *inner = &s->regions[r].steps.at[i];
            if (regions_use_devices(q, inner))
                return true;
            for (int a = 0; a < inner->nargs; a++)
                if (inner->args[a] >= 0 && q->p->buffers[inner->args[a]].memory)
                    return true;
        }
    return false;
}

/* No vote before all that may fault, no write of state before the votes. */
static void need_votes(struct queues *q, const struct kn_step *s)
{
    for (int i = 0; kn_is_vote(s) && i < q->faulty.n; i++)
        need(q, q->faulty.at[i]);
    if (q->votes.n && (writes_state(q, s) || regions_write_state(q, s)))
        for (int i = 0; i < q->votes.n; i++)
            need(q, q->votes.at[i]);
}

/* Of each queue the last; what runs in the host's order needs no waiting for. */
static void note_last(struct ir_ctx *ctx, struct moments *list, const struct kn_moment *m)
{
    int i = 0;
    while (i < list->n && list->at[i]->queue != m->queue)
        i++;
    if (i == list->n)
        VEC_PUSH(ctx, *list, m);
    list->at[i] = m;
}

static void note_step(struct queues *q, const struct kn_step *s, const struct kn_moment *m)
{
    if (kn_is_vote(s))
        VEC_PUSH(q->ctx, q->votes, m);
    if (m->queue && m->queue < q->first_of_host)
        note_last(q->ctx, &q->latest, m);
    if (m->queue && lw_may_fault(s))
        note_last(q->ctx, &q->faulty, m);
}

/* -- Memory that is bounded ------------------------------------------------------------------------------ */

/* How many of its kind may be under way; -1: any number. */
static int ahead_of(const struct kn_step *s)
{
    bool may = s->kind == TCC_STEP_COLLECTIVE || s->kind == TCC_STEP_COPY;
    for (int i = 0; may && i < s->nattrs; i++)
        if (!strcmp(s->attrs[i].name, "ahead") && s->attrs[i].kind == IR_A_INT)
            return (int)s->attrs[i].i;
    return -1;
}

/* Of a region, only copies are. */
static bool any_bounded(const struct kn_steps *steps, bool top)
{
    for (int i = 0; i < steps->n; i++)
        if (ahead_of(&steps->at[i]) >= 0 && (top || steps->at[i].kind == TCC_STEP_COPY))
            return true;
    return false;
}

static void need_computed(struct queues *q)
{
    for (int k = 0; k < q->latest.n; k++)
        if (q->table.at[q->latest.at[k]->queue].kind == TCC_QUEUE_COMPUTE)
            need(q, q->latest.at[k]);
}

static void need_bounds(struct queues *q, const struct kn_step *s)
{
    bool moves = s->kind == TCC_STEP_COPY && s->queue;
    /* What communication has given, as the loss's mean: a copy that knows of nothing else would keep all memory in
     * use. */
    if (moves && q->started.n && q->table.at[s->queue].kind == TCC_QUEUE_COPY_OUT)
        need_computed(q);
    if (!q->is_bounded)
        return;
    if (ahead_of(s) >= 0 || moves)
        need_computed(q);
    for (int k = 0; k <= TCC_NCOLLECTIVES && (s->kind == TCC_STEP_LAUNCH || moves); k++) {
        struct bounded *b = &q->bounded[k];
        int done = b->under_way.n - b->ahead;
        for (int i = 0; i < done; i++)
            need(q, b->under_way.at[i]);
        for (int i = 0; done > 0 && i < b->ahead; i++)
            b->under_way.at[i] = b->under_way.at[done + i];
        b->under_way.n = done > 0 ? b->ahead : b->under_way.n;
    }
}

static void note_bounded(struct queues *q, const struct kn_step *s, const struct kn_moment *m)
{
    int ahead = ahead_of(s);
    if (ahead < 0 || (s->kind == TCC_STEP_COPY && q->table.at[s->queue].kind == TCC_QUEUE_COPY_IN))
        return;
    struct bounded *b = &q->bounded[s->kind == TCC_STEP_COPY ? TCC_NCOLLECTIVES : s->what];
    VEC_PUSH(q->ctx, b->under_way, m);
    b->ahead = ahead;
}

static const struct kn_moment *moment(struct queues *q, struct kn_step *s, const struct kn_moment *m)
{
    while (q->step_of.n <= m->number)
        VEC_PUSH(q->ctx, q->step_of, NULL);
    q->step_of.at[m->number] = s;
    return m;
}

static void walk(struct queues *q, struct kn_steps *steps, bool top);

static void regions(struct queues *q, struct kn_step *s)
{
    for (int r = 0; r < s->nregions; r++) {
        const struct kn_region *g = &s->regions[r];
        int open = q->started.n;
        kn_order_enter(q->order, s);
        walk(q, &s->regions[r].steps, false);
        const struct kn_moment *m = moment(q, NULL, kn_order_leave(q->order, s, 0));
        q->started.n = open;
        for (int i = 0; i < g->nresults; i++)
            note(q, g->results[i], false, m);
        for (int i = 0; i < g->nparams; i++)
            note(q, g->params[i], true, m);
        for (int i = 0; g->exits && i < g->nresults - (s->kind == TCC_STEP_LOOP); i++)
            note(q, g->exits[i], true, m);
    }
}

static void walk(struct queues *q, struct kn_steps *steps, bool top)
{
    int last = steps->n - 1;
    struct bounded around[TCC_NCOLLECTIVES + 1];
    bool is_bounded = q->is_bounded;
    memcpy(around, q->bounded, sizeof around);
    memset(q->bounded, 0, sizeof q->bounded); /* where a region begins nothing is under way */
    q->is_bounded = any_bounded(steps, top);
    while (last >= 0 && !lw_communicates(&steps->at[last]))
        last--;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        s->queue = queue_of(q, s);
        each_access(q, s, need_buffer);
        for (int k = 0; top && i > last && k < q->started.n && writes_state(q, s); k++)
            need(q, q->started.at[k]);
        need_votes(q, s);
        need_bounds(q, s);
        for (int k = 0; k < q->latest.n && regions_use_devices(q, s); k++)
            need(q, q->latest.at[k]);
        add_waits(q, s);
        const struct kn_moment *m = moment(q, s, kn_order_step(q->order, s, 0));
        note_step(q, s, m);
        if (top || s->kind == TCC_STEP_COPY)
            note_bounded(q, s, m);
        for (int a = 0; a < s->nargs; a++)
            note(q, s->args[a], kn_use(s, a) != KN_IN, m);
        if (lw_communicates(s))
            VEC_PUSH(q->ctx, q->started, m);
        regions(q, s);
        s->nattrs = s->kind == TCC_STEP_COPY ? 0 : s->nattrs; /* it has been heeded */
    }
    memcpy(q->bounded, around, sizeof around);
    q->is_bounded = is_bounded;
}

/* -- The pass ------------------------------------------------------------------------------------------ */

/* Marks have done their work: what communication runs beside is decided. */
static int drop_marks(struct kn_steps *steps)
{
    int n = 0, communication = 0;
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            communication += drop_marks(&s->regions[r].steps);
        communication += lw_communicates(s);
        s->event = s->nwaits = 0;
        if (s->kind != KN_STEP_WAIT)
            steps->at[n++] = *s;
    }
    steps->n = n;
    return communication;
}

static void queues_of_devices(struct queues *q)
{
    VEC_PUSH(q->ctx, q->table, (struct kn_queue){0, TCC_QUEUE_HOST});
    for (int m = 1; m < q->p->nmemories; m++)
        for (int kind = TCC_QUEUE_COMPUTE; kind <= TCC_QUEUE_COMMUNICATION; kind++)
            VEC_PUSH(q->ctx, q->table, (struct kn_queue){m, (enum tcc_queue_kind)kind});
    q->first_of_host = q->table.n;
}

bool pass_queues_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(ctx, NULL, "queues: the module has not been lowered");
    struct queues q = {.ctx = ctx, .p = p};
    queues_of_devices(&q);
    for (int e = 0; e < p->nentries; e++) {
        struct kn_entry *entry = &p->entries[e];
        size_t n = (size_t)p->nbuffers + 1;
        lw_release_buffers(ctx, p, entry);
        int communication = drop_marks(&entry->steps);
        if (communication > MAX_COMMUNICATION)
            communication = MAX_COMMUNICATION;
        q.scratch = ir_arena_new(ctx);
        q.order =
            kn_order_new(ctx, q.scratch, p, entry, q.first_of_host + communication, kn_count_steps(&entry->steps));
        q.write = ir_arena_alloc(q.scratch, n * sizeof *q.write);
        q.reads = ir_arena_alloc(q.scratch, n * sizeof *q.reads);
        q.step_of.n = q.started.n = q.faulty.n = q.latest.n = q.votes.n = q.events = q.communication = 0;
        walk(&q, &entry->steps, true);
        ir_arena_free(q.scratch);
    }
    VEC_GIVE(q.table, p->queues, p->nqueues);
    return true;
}
