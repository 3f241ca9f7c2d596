/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - checks a program: steps name buffers that exist, reads follow writes, dynamic buffers are allocated
 * while they are used, a queue's steps access its memory, whatever two steps access (one of them writing) is ordered by
 * what happens before what (order.c), and no two arena buffers that live at once share memory (overlap.c).
 *
 * Steps are numbered in the order in which they stand. A buffer lives from its first access until all that stands
 * behind happens after its last one; what a loop reads from outside it lives to the loop's end, and so do the loop's
 * parameters; what a PARALLEL step's loops access lives as long as all of them.
 */
#include <string.h>

#include "ir/plan/verify_int.h"
#include "ir/text/kernel_words_int.h"

/* == Votes == */

static bool writes_state(const struct verifier *v, const struct kn_step *s)
{
    for (int a = 0, o = 0; a < s->nargs; a++, o++) {
        bool writes = s->kind == TCC_STEP_COPY && a == 1;
        if (s->kind == TCC_STEP_LAUNCH && s->kernel) {
            while (o < s->kernel->noperands && s->kernel->operands[o].use == KN_LOCAL)
                o++;
            writes = o < s->kernel->noperands && s->kernel->operands[o].use != KN_IN;
        }
        if (kn_communicates(s))
            writes = s->kind == TCC_STEP_RECV || (s->kind == TCC_STEP_COLLECTIVE && a >= s->nin);
        if (s->kind == TCC_STEP_LIB)
            writes = a >= s->nin;
        if (writes && s->args[a] >= 0 && s->args[a] < v->p->nbuffers &&
            v->p->buffers[verify_root(v->p, s->args[a])].space == TCC_SPACE_STATE)
            return true;
    }
    return false;
}

static bool launch_may_fault(const struct kn_step *s)
{
    for (int i = 0; s->kind == TCC_STEP_LAUNCH && s->kernel && i < s->kernel->ninsns; i++)
        if (s->kernel->insns[i].code == KN_INDEX)
            return true;
    return false;
}

static bool has_vote(const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++)
        if (kn_is_vote(&steps->at[i]) && steps->at[i].queue)
            return true;
    return false;
}

/* A vote comes behind all that may fault; what writes state comes behind a vote that knows of whatever may have
 * faulted. */
static void votes(struct verifier *v, const struct kn_step *s)
{
    const struct kn_moment *now = v->now;
    if (!v->votes || !v->ok)
        return;
    if (launch_may_fault(s))
        VEC_PUSH(v->ctx, v->faulty, now);
    for (int i = 0; kn_is_vote(s) && i < v->faulty.n; i++)
        if (!kn_before(v->faulty.at[i], now)) {
            verify_bad(v, s, "does not wait for step %d of queue %d, which may fault", v->faulty.at[i]->index,
                       v->faulty.at[i]->queue);
            return;
        }
    if (kn_is_vote(s)) {
        v->faulty.n = 0;
        VEC_PUSH(v->ctx, v->voted, now);
    }
    if (!writes_state(v, s))
        return;
    if (v->faulty.n || !v->voted.n)
        verify_bad(v, s, "writes state before the ranks have voted");
    for (int i = 0; i < v->voted.n; i++)
        if (!kn_before(v->voted.at[i], now))
            verify_bad(v, s, "writes state without waiting for the ranks' vote");
}

/* == Steps == */

static void walk(struct verifier *v, const struct kn_steps *steps);

static void launch(struct verifier *v, const struct kn_step *s)
{
    const struct kn_kernel *k = s->kernel;
    for (int pass = 0, a = 0; pass < 2; pass++, a = 0) { /* all reads first */
        for (int i = 0; i < k->noperands; i++) {
            enum kn_operand_use use = k->operands[i].use;
            if (use == KN_LOCAL)
                continue;
            if (pass == 0 && use != KN_OUT && use != KN_PARTIAL)
                verify_read(v, s, s->args[a]);
            if (pass == 1 && use != KN_IN)
                verify_write(v, s, s->args[a]);
            a++;
        }
    }
    if (s->nsizes != k->nsizes)
        verify_bad(v, s, "%d sizes for kernel %s, which has %d", s->nsizes, k->name ? k->name : "", k->nsizes);
}

static void run_if(struct verifier *v, const struct kn_step *s)
{
    size_t n = (size_t)v->p->nbuffers;
    bool *before = ir_arena_alloc(v->scratch, n + 1), *after = ir_arena_alloc(v->scratch, n + 1);
    if (s->nregions != 2) {
        verify_bad(v, s, "has %d regions, must have 2", s->nregions);
        return;
    }
    int *versions = ir_arena_alloc(v->scratch, (n + 1) * sizeof *versions);
    memcpy(versions, v->version, n * sizeof *versions);
    memcpy(before, v->written, n);
    for (int r = 0; r < 2; r++) {
        memcpy(v->written, before, n);
        v->position++;
        kn_order_enter(v->order, s);
        walk(v, &s->regions[r].steps);
        v->position++;
        v->now = kn_order_leave(v->order, s, v->position);
        for (int i = 0; i < s->regions[r].nresults; i++)
            verify_read(v, s, s->regions[r].results[i]);
        v->position++;
        for (int i = 0; s->regions[r].exits && i < s->regions[r].nresults; i++)
            verify_write(v, s, s->regions[r].exits[i]);
        for (size_t b = 0; b < n; b++)
            after[b] = v->written[b] && (r == 0 || after[b]);
        verify_join_versions(v, s, versions);
        if (r == 0)
            memcpy(v->version, versions, n * sizeof *versions);
    }
    memcpy(v->written, after, n);
}

/* What lives into a loop from outside lives to its end: the next iteration reads it again. */
static void extend_over_loop(struct verifier *v, int first, int last)
{
    for (int b = 0; b < v->p->nbuffers; b++) {
        struct kn_life *l = &v->life[b];
        if (l->first >= 0 && l->first <= first && l->last > first && l->last < last)
            l->last = last;
    }
}

/* Does the kernel store to that operand by an index that it loads, as the number of an iteration, everywhere? */
static bool stores_by_index(const struct kn_kernel *k, int operand)
{
    bool found = false;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *store = &k->insns[i];
        bool indexed = false;
        if (store->code != KN_STORE || store->operand != operand)
            continue;
        for (int j = 0; j < k->ninsns && !indexed; j++)
            for (int d = 0; d < store->nindex && k->insns[j].code == KN_INDEX; d++)
                indexed = indexed || ir_uses_sym(store->index[d], k->insns[j].expr);
        if (!indexed)
            return false;
        found = true;
    }
    return found;
}

/* Steps that read some args and write the others: how many are read. */
static int number_read(const struct kn_step *s)
{
    switch ((int)s->kind) {
    case TCC_STEP_LIB:
    case KN_STEP_WAIT:
    case TCC_STEP_COLLECTIVE: return s->nin;
    case TCC_STEP_RECV: return 0;
    case TCC_STEP_BIND:
    case TCC_STEP_DIMS:
    case TCC_STEP_IF:
    case TCC_STEP_LOOP: return s->nargs;
    default: return 1;
    }
}

/* What a body writes element by element in each iteration, and what otherwise: a scatter into what it has made. */
static void mark_written(const struct verifier *v, const struct kn_steps *steps, bool always, bool *counted, bool *made)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool launch = s->kind == TCC_STEP_LAUNCH && s->kernel;
        for (int o = 0, a = 0; launch && o < s->kernel->noperands; o++)
            if (s->kernel->operands[o].use != KN_LOCAL) {
                int b = verify_root(v->p, s->args[a++]);
                if (s->kernel->operands[o].use != KN_IN)
                    (always && stores_by_index(s->kernel, o) ? counted : made)[b] = true;
            }
        for (int a = number_read(s); !launch && a < s->nargs; a++)
            if (s->args[a] >= 0)
                made[verify_root(v->p, s->args[a])] = true;
        for (int r = 0; r < s->nregions; r++)
            mark_written(v, &s->regions[r].steps, always && kn_is_bundle(s), counted, made);
    }
}

/* What a loop that counts stores element by element counts as written behind it, and lives from the loop's begin. */
static void fills(struct verifier *v, const struct kn_steps *steps, int first)
{
    size_t n = (size_t)v->p->nbuffers;
    bool *counted = ir_arena_alloc(v->scratch, n + 1), *made = ir_arena_alloc(v->scratch, n + 1);
    mark_written(v, steps, true, counted, made);
    for (size_t b = 0; b < n; b++)
        if (counted[b] && !made[b]) {
            v->written[b] = true;
            if (v->life[b].first > first)
                v->life[b].first = first;
        }
}

static void run_loop(struct verifier *v, const struct kn_step *s)
{
    size_t n = (size_t)v->p->nbuffers;
    bool *before = ir_arena_alloc(v->scratch, n + 1);
    if (s->nregions != 1 || s->regions[0].nparams < 2) {
        verify_bad(v, s, "must have one region with an iteration number and a condition");
        return;
    }
    const struct kn_region *g = &s->regions[0];
    int first = ++v->position;
    for (int i = 0; i < g->nparams; i++) {
        if (i < 2 && g->params[i] >= 0)
            verify_write(v, s, g->params[i]);
        else if (i >= 2)
            verify_read(v, s, g->params[i]);
    }
    verify_make_versions(v, s);
    int *versions = ir_arena_alloc(v->scratch, (n + 1) * sizeof *versions);
    memcpy(versions, v->version, n * sizeof *versions);
    memcpy(before, v->written, n);
    v->position++;
    kn_order_enter(v->order, s);
    walk(v, &g->steps);
    verify_join_versions(v, s, versions);
    v->position++;
    v->now = kn_order_leave(v->order, s, v->position);
    for (int i = 0; i < g->nresults; i++)
        verify_read(v, s, g->results[i]);
    v->position++;
    for (int i = 0; i < g->nparams && v->ok; i++) {
        if (g->params[i] >= 0)
            verify_live(v, verify_root(v->p, g->params[i]));
    }
    memcpy(v->written, before, n);
    if (v->ok && s->nargs && s->args[0] >= 0)
        fills(v, &g->steps, first);
    for (int i = 0; g->exits && i < g->nresults - 1; i++)
        verify_write(v, s, g->exits[i]);
    extend_over_loop(v, first, v->position);
}

static void plain_step(struct verifier *v, const struct kn_step *s)
{
    int n = number_read(s);
    bool appends = s->kind == TCC_STEP_ACCUM;
    for (int i = 0; i < s->nargs; i++) {
        if (s->args[i] < 0)
            continue;
        if (i < n || appends)
            verify_read(v, s, s->args[i]);
    }
    for (int i = n < 0 ? 0 : n; i < s->nargs; i++) {
        if (s->args[i] >= 0)
            verify_write(v, s, s->args[i]);
    }
}

static void alloc_or_free(struct verifier *v, const struct kn_step *s)
{
    for (int i = 0; i < s->nargs; i++) {
        if (!verify_in_range(v, s, s->args[i]))
            return;
        int b = verify_root(v->p, s->args[i]);
        if (s->kind == TCC_STEP_FREE)
            verify_accessed(v, s, b, true);
        v->freed[b] = s->kind == TCC_STEP_FREE;
        v->written[b] = false;
    }
}

/* What may stand in a queue that is not the host's program order. */
static bool started(const struct verifier *v, const struct kn_step *s)
{
    bool device = v->p->queues[s->queue].memory != 0;
    switch (s->kind) {
    case TCC_STEP_COLLECTIVE:
    case TCC_STEP_SEND:
    case TCC_STEP_RECV: return true;
    case TCC_STEP_LAUNCH:
    case TCC_STEP_COPY:
    case TCC_STEP_FREE:
    case TCC_STEP_LIB: /* a user's device code */
    case TCC_STEP_PROGRAM:
    case TCC_STEP_BATCH: return device;
    default: return false;
    }
}

static bool queues(struct verifier *v, const struct kn_step *s)
{
    if (s->kind == TCC_STEP_CALL || s->kind == TCC_STEP_RESULT)
        return verify_bad(v, s, "stands in stages' lists alone");
    if (s->queue < 0 || s->queue >= (v->p->nqueues ? v->p->nqueues : 1))
        return verify_bad(v, s, "queue %d does not exist", s->queue);
    if (s->queue && !started(v, s))
        return verify_bad(v, s, "does not run in queue %d", s->queue);
    if (v->bundle &&
        (s->queue != v->bundle->queue || s->nwaits || s->event || (s->nregions && s->kind != TCC_STEP_BATCH)))
        return verify_bad(v, s, "in a %s, must be a step of its queue that nobody waits for and that waits for none",
                          kn_step_words[v->bundle->kind]);
    if (kn_communicates(s) && s->kind != TCC_STEP_COLLECTIVE && (s->nargs != 1 || s->nsizes != 2))
        return verify_bad(v, s, "must have one buffer, a peer and a tag");
    if (s->kind == TCC_STEP_COLLECTIVE && (s->what == TCC_IS_OWNER ? s->nin : s->nargs != 2 * s->nin))
        return verify_bad(v, s, "%d buffers, %d of them inputs", s->nargs, s->nin);
    v->now = kn_order_step(v->order, s, v->position);
    return v->now || verify_bad(v, s, "waits for an event of no step before it");
}

/* Do its launches fit together? */
static bool batch(struct verifier *v, const struct kn_step *s)
{
    const struct kn_steps *launches = &s->regions[0].steps;
    for (int i = 1; i < launches->n; i++)
        for (int j = 0; j < i; j++)
            if (!kn_may_batch(v->p, &launches->at[j], &launches->at[i]))
                return verify_bad(v, s, "its launches %d and %d may not run as one", j, i);
    return launches->n > 1 || verify_bad(v, s, "must have two or more launches");
}

static void run_bundle(struct verifier *v, const struct kn_step *s)
{
    const struct kn_step *around = v->bundle;
    if (s->nregions != 1 || s->nargs || s->regions[0].nparams || s->regions[0].nresults || !s->queue) {
        verify_bad(v, s, "must have one region without parameters, in a queue of its device");
        return;
    }
    if (s->kind == TCC_STEP_BATCH && !batch(v, s))
        return;
    kn_order_enter(v->order, s);
    v->bundle = s;
    walk(v, &s->regions[0].steps);
    v->bundle = around;
    v->now = kn_order_leave(v->order, s, ++v->position);
}

/* What the walker itself reads lies with the host; what it hands over stays in one memory. */
static void hands_over(struct verifier *v, const struct kn_step *s)
{
    bool loop = s->kind == TCC_STEP_LOOP;
    for (int r = 0; r < s->nregions && v->ok; r++) {
        const struct kn_region *g = &s->regions[r];
        for (int i = 0; i < (loop ? 2 : s->nargs); i++) {
            int own[3] = {i < s->nargs ? s->args[i] : -1, loop && i < g->nparams ? g->params[i] : -1,
                          loop && i == 0 && g->nresults ? g->results[0] : -1};
            for (int k = 0; k < 3; k++)
                if (own[k] >= 0 && (!verify_in_range(v, s, own[k]) || v->p->buffers[own[k]].memory))
                    verify_bad(v, s, "buffer %d must lie with the host", own[k]);
        }
        for (int i = loop; i < g->nresults && v->ok; i++) {
            int to[2] = {g->exits ? g->exits[i - loop] : -1, loop && i + 1 < g->nparams ? g->params[i + 1] : -1};
            for (int k = 0; k < 2; k++)
                if (to[k] >= 0 && g->results[i] >= 0 && verify_in_range(v, s, to[k]) &&
                    verify_in_range(v, s, g->results[i]) &&
                    v->p->buffers[to[k]].memory != v->p->buffers[g->results[i]].memory)
                    verify_bad(v, s, "buffers %d and %d must lie in one memory", g->results[i], to[k]);
        }
    }
}

/* What its loops access lives as long as all of them. */
static void run_parallel(struct verifier *v, const struct kn_step *s)
{
    int first = v->position;
    bool fine = !s->nargs && s->nregions >= 2;
    for (int r = 0; r < s->nregions; r++)
        fine &= !s->regions[r].nparams && !s->regions[r].nresults && s->regions[r].steps.n == 1;
    if (!fine)
        verify_bad(v, s, "must have two or more regions of one loop each, without parameters");
    for (int r = 0; r < s->nregions && v->ok; r++) {
        const struct kn_region *g = &s->regions[r];
        for (int i = 0; i < r && v->ok; i++)
            if (!kn_parallel(v->p, s->regions[i].steps.at, g->steps.at))
                verify_bad(v, s, "its loops %d and %d may not run at the same time", i, r);
        kn_order_enter(v->order, s);
        walk(v, &g->steps);
        v->now = kn_order_leave(v->order, s, ++v->position);
    }
    for (int b = 0; b < v->p->nbuffers; b++) {
        struct kn_life *l = &v->life[b];
        if (l->first < 0 || l->last < first)
            continue;
        l->first = l->first < first ? l->first : first;
        l->last = v->position + 1;
    }
}

static void walk(struct verifier *v, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n && v->ok; i++) {
        const struct kn_step *s = &steps->at[i];
        v->position++;
        if (!queues(v, s))
            return;
        votes(v, s);
        verify_begin_versions(v, s);
        hands_over(v, s);
        if (s->kind == TCC_STEP_LAUNCH)
            launch(v, s);
        else if (s->kind == TCC_STEP_ALLOC || s->kind == TCC_STEP_FREE)
            alloc_or_free(v, s);
        else
            plain_step(v, s);
        if (s->kind == TCC_STEP_IF)
            run_if(v, s);
        else if (s->kind == TCC_STEP_LOOP)
            run_loop(v, s);
        else if (kn_is_bundle(s))
            run_bundle(v, s);
        else if (s->kind == TCC_STEP_PARALLEL)
            run_parallel(v, s);
        else
            verify_make_versions(v, s);
        v->position++;
    }
}

/* == Entries == */

static bool exist(struct verifier *v, const struct kn_step *s, int n, const int *buffers, int least)
{
    for (int i = 0; i < n; i++)
        if (buffers[i] < least || buffers[i] >= v->p->nbuffers)
            return verify_bad(v, s, "buffer %d does not exist", buffers[i]);
    return true;
}

static bool has_operands(struct verifier *v, const struct kn_step *s)
{
    const struct kn_kernel *k = s->kernel;
    int n = 0;
    for (int i = 0; k && i < k->noperands; i++)
        n += k->operands[i].use != KN_LOCAL;
    if (!k)
        return verify_bad(v, s, "has no kernel");
    return n == s->nargs ||
           verify_bad(v, s, "%d buffers for kernel %s, which has %d operands", s->nargs, k->name ? k->name : "", n);
}

/* What steps name: asked of all of them before one is walked, since some are compared with others. */
static bool check_names(struct verifier *v, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool launch = s->kind == TCC_STEP_LAUNCH, loop = s->kind == TCC_STEP_LOOP;
        if ((launch && !has_operands(v, s)) || !exist(v, s, s->nargs, s->args, launch ? 0 : -1))
            return false;
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            if (!exist(v, s, g->nparams, g->params, -1) || !exist(v, s, g->nresults, g->results, -1) ||
                !exist(v, s, g->exits ? g->nresults - loop : 0, g->exits, -1) || !check_names(v, &g->steps))
                return false;
        }
    }
    return true;
}

static bool check_buffers(struct verifier *v)
{
    for (int b = 0; b < v->p->nbuffers; b++) {
        const struct kn_buffer *buffer = &v->p->buffers[b];
        bool alias = buffer->space == TCC_SPACE_ALIAS, host = buffer->memory == 0;
        if (buffer->space > TCC_SPACE_ALIAS ||
            (alias && (buffer->index < 0 || buffer->index >= v->p->nbuffers || buffer->index == b)))
            return verify_bad(v, NULL, "buffer %d is malformed", b);
        if (buffer->memory < 0 || buffer->memory >= (v->p->nmemories ? v->p->nmemories : 1) ||
            (!host && (buffer->space == TCC_SPACE_INPUT || buffer->space == TCC_SPACE_OUTPUT ||
                       buffer->space == TCC_SPACE_OBJECT)) ||
            (alias && buffer->memory != v->p->buffers[buffer->index].memory))
            return verify_bad(v, NULL, "buffer %d can't lie in memory %d", b, buffer->memory);
        if (alias && buffer->offset && buffer->bytes && v->p->buffers[buffer->index].bytes &&
            ir_expr_le(v->ctx, ir_add(v->ctx, buffer->offset, buffer->bytes), v->p->buffers[buffer->index].bytes) ==
                IR_NO)
            return verify_bad(v, NULL, "buffer %d reaches beyond what it is a part of", b);
    }
    return true;
}

static bool check_entry(struct verifier *v, const struct kn_entry *e)
{
    size_t n = (size_t)v->p->nbuffers + 1;
    v->entry = e;
    v->position = 0;
    if (!check_names(v, &e->steps))
        return false;
    v->scratch = ir_arena_new(v->ctx);
    v->life = ir_arena_alloc(v->scratch, n * sizeof *v->life);
    v->written = ir_arena_alloc(v->scratch, n);
    v->freed = ir_arena_alloc(v->scratch, n);
    v->version = ir_arena_alloc(v->scratch, n * sizeof *v->version);
    v->accesses = ir_arena_alloc(v->scratch, n * sizeof *v->accesses);
    v->order = kn_order_new(v->ctx, v->scratch, v->p, e, 0, 0);
    for (int b = 0; b < v->p->nbuffers; b++) {
        enum tcc_space space = v->p->buffers[b].space;
        v->life[b].first = v->life[b].last = -1;
        v->written[b] = space == TCC_SPACE_INPUT || space == TCC_SPACE_WEIGHT || space == TCC_SPACE_STATE;
    }
    for (int i = 0; i < e->ninputs; i++) {
        if (e->input_buffers[i] >= 0 && verify_in_range(v, NULL, e->input_buffers[i]))
            v->written[verify_root(v->p, e->input_buffers[i])] = true;
    }
    v->votes = has_vote(&e->steps);
    v->faulty.n = v->voted.n = 0;
    walk(v, &e->steps);
    v->now = NULL; /* all have ended */
    for (int i = 0; i < e->noutputs && v->ok; i++)
        verify_read(v, NULL, e->output_buffers[i]);
    for (int b = 0; b < v->p->nbuffers && v->ok; b++) {
        int last = kn_order_until(v->order, b);
        v->life[b].last = last > v->life[b].last ? last : v->life[b].last;
    }
    const char *wrong = v->ok ? kn_memory_error(v->p, e, v->life) : NULL;
    if (wrong)
        verify_bad(v, NULL, "%s", wrong);
    ir_arena_free(v->scratch);
    return v->ok;
}

bool kn_verify_program(const struct kn_program *p)
{
    struct verifier v = {.ctx = p->module->ctx, .p = p, .ok = true};
    for (int i = 0; i < p->nkernels; i++)
        v.ok = kn_verify_kernel(v.ctx, p->kernels[i]) && v.ok;
    if (!v.ok || !check_buffers(&v))
        return false;
    for (int i = 0; i < p->nentries; i++) {
        if (!check_entry(&v, &p->entries[i]) || !kn_verify_sizes(p, &p->entries[i]) ||
            !kn_verify_checks(p, &p->entries[i]))
            return false;
    }
    return true;
}
