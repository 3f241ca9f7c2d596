/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place: what lies and runs where, on a machine whose device has a memory of its own (with one memory, nothing
 * changes). Launches and communication run on the device; what the walker itself looks at (library calls, sizes,
 * conditions, objects) and the user's inputs and outputs lie with the host. Kernels of few integers that only such
 * steps read run on the host too.
 *
 * Every buffer has a home: the device for state (but for what is said to lie with the host: --offload=optimizer),
 * weights that it reads and what it writes. First values of state stay with the host: @init copies them to where the
 * session has put them already. Where a step needs it in the other memory, it gets a twin there, and a COPY where the
 * twin is not up to date; nothing is copied before it is needed, outputs at the end. Buffers that a region's border
 * joins are handed over in one memory. What a region writes is in one memory where the region begins and ends; what it
 * only reads is copied in front of it. place_where.c decides where steps run.
 */
#include "passes/plan/place_int.h"

#include <string.h>

bool pass_place_run(struct pass_run *r);

/* -- Homes ------------------------------------------------------------------------------------------------ */

static int class_of(const struct place *pl, int b)
{
    while (pl->joined[b] != b)
        b = pl->joined[b];
    return b;
}

static void join(struct place *pl, int a, int b)
{
    if (a >= 0 && b >= 0)
        pl->joined[class_of(pl, root(pl, a))] = class_of(pl, root(pl, b));
}

static void join_borders(struct place *pl, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        bool loop = s->kind == TCC_STEP_LOOP;
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            for (int k = loop; k < g->nresults; k++) {
                if (g->exits)
                    join(pl, g->results[k], g->exits[k - loop]);
                if (loop)
                    join(pl, g->results[k], g->params[k + 1]);
            }
            join_borders(pl, &g->steps);
        }
    }
}

static bool is_managed(const struct kn_buffer *b)
{
    return b->space == TCC_SPACE_ARENA || b->space == TCC_SPACE_DYNAMIC;
}

/* Joined buffers: on the device if anything there has to do with one of them; objects are the host's. */
static void choose_homes(struct place *pl)
{
    uint8_t *device = IR_NEWN(pl->ctx, pl->n + 1, uint8_t), *object = IR_NEWN(pl->ctx, pl->n + 1, uint8_t),
            *members = IR_NEWN(pl->ctx, pl->n + 1, uint8_t);
    for (int b = 0; b < pl->n; b++) {
        const struct kn_buffer *x = &pl->buffers.at[b];
        int c = class_of(pl, b);
        if (x->space == TCC_SPACE_ALIAS)
            continue;
        members[c] += members[c] < 2;
        object[c] |= x->space == TCC_SPACE_OBJECT;
        device[c] |= x->space == TCC_SPACE_STATE || ((pl->reads[b] | pl->writes[b]) & 1 << DEVICE);
    }
    for (int b = 0; b < pl->n; b++) {
        const struct kn_buffer *x = &pl->buffers.at[b];
        int c = class_of(pl, b);
        if (x->space == TCC_SPACE_STATE)
            pl->home[b] = pl->on_host[x->index] ? HOST : DEVICE;
        else if (x->space == TCC_SPACE_WEIGHT)
            pl->home[b] = pl->reads[b] >> DEVICE & 1;
        else if (is_managed(x) && members[c] > 1)
            pl->home[b] = device[c] && !object[c] ? DEVICE : HOST;
        else if (is_managed(x)) /* written by nobody but copies: where it is read */
            pl->home[b] = pl->writes[b] ? pl->writes[b] >> DEVICE & 1 : pl->reads[b] >> DEVICE & 1;
        else
            pl->home[b] = HOST;
        pl->valid[b] = 0;
    }
}

/* The memory in which a border hands the buffer over. */
static int border_memory(const struct place *pl, int b)
{
    int c = class_of(pl, root(pl, b)), memory = HOST;
    for (int i = 0; i < pl->n; i++) {
        const struct kn_buffer *x = &pl->buffers.at[i];
        if (x->space == TCC_SPACE_ALIAS || class_of(pl, i) != c)
            continue;
        if (x->space == TCC_SPACE_OBJECT)
            return HOST;
        if (pl->home[i] == DEVICE)
            memory = DEVICE;
    }
    return memory;
}

/* -- Twins and copies --------------------------------------------------------------------------------------- */

static bool sized_at_entry(const struct place *pl, ir_expr bytes)
{
    for (int i = 0; i < pl->p->nsyms; i++)
        if (pl->p->sym_level[i] > 0 && ir_uses_sym(bytes, pl->p->syms[i]))
            return false;
    return true;
}

static int add_buffer(struct place *pl, struct kn_buffer b)
{
    VEC_PUSH(pl->ctx, pl->buffers, b);
    VEC_PUSH(pl->ctx, pl->twin, -1);
    return pl->buffers.n - 1;
}

/* Buffer b, of the program as it came, in memory m. */
static int in_memory(struct place *pl, int b, int m)
{
    if (b < 0 || pl->home[root(pl, b)] == m)
        return b;
    if (pl->twin.at[b] >= 0)
        return pl->twin.at[b];
    struct kn_buffer t = pl->buffers.at[b];
    if (t.space == TCC_SPACE_ALIAS) {
        t.index = in_memory(pl, t.index, m);
    } else {
        if (t.space == TCC_SPACE_OUTPUT)
            t.space = sized_at_entry(pl, t.bytes) ? TCC_SPACE_ARENA : TCC_SPACE_DYNAMIC;
        else if (t.space != TCC_SPACE_DYNAMIC)
            t.space = TCC_SPACE_ARENA;
        t.index = 0;
        t.offset = NULL;
        t.weight = NULL;
        t.digest = 0;
    }
    t.memory = m;
    int number = add_buffer(pl, t);
    pl->twin.at[b] = number;
    return number;
}

/* The buffer is to be up to date in memory m; of a state variable, in that version. */
static void ensure(struct place *pl, struct kn_steps *to, int buffer, int m, const struct kn_version *version)
{
    if (buffer < 0)
        return;
    int b = root(pl, buffer);
    if (!pl->valid[b] || pl->valid[b] >> m & 1)
        return;
    struct kn_step s = {.kind = TCC_STEP_COPY, .nargs = 2, .args = IR_NEWN(pl->ctx, 2, int)};
    s.args[0] = in_memory(pl, b, 1 - m);
    s.args[1] = in_memory(pl, b, m);
    s.node = pl->buffers.at[b].name;
    if (version && pl->buffers.at[b].space == TCC_SPACE_STATE) {
        s.nversions = 1;
        s.versions = IR_NEW(pl->ctx, struct kn_version);
        *s.versions = (struct kn_version){b, version->reads, -1};
    }
    lw_push_step(pl->ctx, to, s);
    pl->valid[b] |= (uint8_t)(1 << m);
}

static void was_written(struct place *pl, int buffer, int m)
{
    if (buffer >= 0)
        pl->valid[root(pl, buffer)] = (uint8_t)(1 << m);
}

/* -- Steps ----------------------------------------------------------------------------------------------------- */

/* Host steps look at twins of state: the copy reads the version, not they. */
static const struct kn_version *take_version(struct kn_step *s, int state)
{
    for (int i = 0; i < s->nversions; i++)
        if (s->versions[i].buffer == state) {
            struct kn_version found = s->versions[i];
            for (; i + 1 < s->nversions; i++)
                s->versions[i] = s->versions[i + 1];
            s->versions[--s->nversions] = found;
            return &s->versions[s->nversions];
        }
    return NULL;
}

static void place_copy(struct place *pl, struct kn_step *s, struct kn_steps *to)
{
    int from = root(pl, s->args[0]), dest = root(pl, s->args[1]), m = pl->home[dest];
    bool whole = s->args[1] == dest;
    int at = pl->valid[from] >> m & 1 || !pl->valid[from] ? m : 1 - m;
    if (!whole)
        ensure(pl, to, dest, m, NULL);
    s->args[0] = in_memory(pl, s->args[0], at);
    s->args[1] = in_memory(pl, s->args[1], m);
    lw_push_step(pl->ctx, to, *s);
    was_written(pl, dest, m);
}

/* The version that a host kernel made of a state variable goes where it lives. */
static void return_state(struct place *pl, struct kn_steps *to, const struct kn_version *v, int from)
{
    struct kn_step s = {.kind = TCC_STEP_COPY, .nargs = 2, .args = IR_NEWN(pl->ctx, 2, int), .nversions = 1};
    s.args[0] = in_memory(pl, v->buffer, from);
    s.args[1] = v->buffer;
    s.node = pl->buffers.at[v->buffer].name;
    s.versions = IR_NEW(pl->ctx, struct kn_version);
    *s.versions = (struct kn_version){v->buffer, -1, v->makes};
    lw_push_step(pl->ctx, to, s);
    pl->valid[v->buffer] = 1 << HOST | 1 << DEVICE;
}

static void place_plain(struct place *pl, struct kn_step *s, struct kn_steps *to, int m)
{
    int *args = IR_NEWN(pl->ctx, s->nargs + 1, int);
    VEC(const struct kn_version *) written = {0};
    for (int a = 0; a < s->nargs; a++) {
        int b = s->args[a], at = s->kind == TCC_STEP_DIMS && b >= 0 ? pl->home[root(pl, b)] : m;
        if (b >= 0 && pl->home[root(pl, b)] != at && pl->buffers.at[root(pl, b)].space == TCC_SPACE_STATE) {
            const struct kn_version *v = take_version(s, root(pl, b));
            if (!v || v->reads >= 0)
                ensure(pl, to, b, at, v);
            if (v && v->makes >= 0)
                VEC_PUSH(pl->ctx, written, v);
        } else {
            ensure(pl, to, b, at, NULL);
        }
        args[a] = in_memory(pl, b, at);
    }
    for (int a = 0; a < s->nargs; a++)
        if (kn_use(s, a) != KN_IN)
            was_written(pl, s->args[a], m);
    s->args = args;
    lw_push_step(pl->ctx, to, *s);
    for (int i = 0; i < written.n; i++) /* a kernel that the device lacks has written a twin of the state */
        return_state(pl, to, written.at[i], m);
}

/* What the steps read in each memory (bits 0 and 1), and whether they write it (bit 2), by root buffer. */
static void accesses_of(struct place *pl, const struct kn_steps *steps, uint8_t *of)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == KN_STEP_WAIT)
            continue;
        int m = place_runs_on(pl, s);
        if (place_is_dense_copy(pl, s))
            m = pl->home[root(pl, s->args[1])];
        for (int a = 0; a < s->nargs; a++)
            if (s->args[a] >= 0)
                of[root(pl, s->args[a])] |= (uint8_t)(1 << m | (kn_use(s, a) != KN_IN) << 2);
        for (int r = 0; r < s->nregions; r++) {
            const struct kn_region *g = &s->regions[r];
            for (int k = 0; k < g->nparams; k++)
                if (g->params[k] >= 0)
                    of[root(pl, g->params[k])] |= 4;
            for (int k = 0; g->exits && k < g->nresults - (s->kind == TCC_STEP_LOOP); k++)
                if (g->exits[k] >= 0)
                    of[root(pl, g->exits[k])] |= 4;
            accesses_of(pl, &g->steps, of);
        }
    }
}

static void place_list(struct place *pl, struct kn_steps *steps);

/* A list of a region's border: each in the memory in which it is handed over; `first` of them in the host's. */
static int *border(struct place *pl, int n, const int *list, int first)
{
    int *to = IR_NEWN(pl->ctx, n + 1, int);
    for (int i = 0; i < n; i++)
        to[i] = list[i] < 0 ? -1 : in_memory(pl, list[i], i < first ? HOST : border_memory(pl, list[i]));
    return to;
}

/* Where what a region writes is up to date at its borders: where all of its writers work, else, and where it is state,
 * at home. */
static int settled(const struct place *pl, int b)
{
    bool device = pl->writes[b] == 1 << DEVICE && pl->buffers.at[b].space != TCC_SPACE_STATE;
    return device ? DEVICE : pl->home[b];
}

static void place_region(struct place *pl, struct kn_step *s, struct kn_region *g, const uint8_t *of)
{
    bool loop = s->kind == TCC_STEP_LOOP;
    struct kn_steps *steps = &g->steps;
    for (int i = 0; i < g->nparams; i++)
        if (g->params[i] >= 0)
            was_written(pl, g->params[i], i < 2 ? HOST : border_memory(pl, g->params[i]));
    place_list(pl, steps);
    for (int i = 0; i < g->nresults; i++)
        ensure(pl, steps, g->results[i],
               loop && i == 0      ? HOST
               : g->results[i] < 0 ? HOST
                                   : border_memory(pl, g->results[i]),
               NULL);
    for (int b = 0; b < pl->n; b++)
        if (of[b] & 4) {
            ensure(pl, steps, b, settled(pl, b), NULL);
            if (pl->valid[b])
                pl->valid[b] = (uint8_t)(1 << settled(pl, b));
        }
    int *exits = g->exits;
    int nexits = exits ? g->nresults - loop : 0;
    g->params = border(pl, g->nparams, g->params, 2);
    g->results = border(pl, g->nresults, g->results, loop);
    if (exits)
        g->exits = border(pl, nexits, exits, 0);
}

static void place_control(struct place *pl, struct kn_step *s, struct kn_steps *to)
{
    uint8_t *of = IR_NEWN(pl->ctx, pl->n + 1, uint8_t), *before = IR_NEWN(pl->ctx, pl->n + 1, uint8_t),
            *made = IR_NEWN(pl->ctx, pl->n + 1, uint8_t);
    struct kn_steps alone = {s, 1, 1};
    int launch = pl->launch;
    accesses_of(pl, &alone, of);
    pl->launch = launch;
    for (int a = 0; a < s->nargs; a++)
        ensure(pl, to, s->args[a], HOST, NULL);
    for (int r = 0; r < s->nregions; r++) /* carried values: where they are handed over */
        for (int i = 2; i < s->regions[r].nparams; i++)
            if (s->regions[r].params[i] >= 0)
                ensure(pl, to, s->regions[r].params[i], border_memory(pl, s->regions[r].params[i]), NULL);
    for (int b = 0; b < pl->n; b++) {
        for (int m = 0; m < 2 && !(of[b] & 4); m++)
            if (of[b] >> m & 1 && pl->buffers.at[b].space != TCC_SPACE_STATE)
                ensure(pl, to, b, m, NULL);
        if (of[b] & 4 && pl->valid[b]) {
            ensure(pl, to, b, settled(pl, b), NULL);
            pl->valid[b] = (uint8_t)(1 << settled(pl, b));
        }
    }
    int *exits[2] = {NULL, NULL}, nexits[2] = {0, 0};
    memcpy(before, pl->valid, (size_t)pl->n);
    for (int r = 0; r < s->nregions; r++) {
        struct kn_region *g = &s->regions[r];
        exits[r] = g->exits;
        nexits[r] = g->exits ? g->nresults - (s->kind == TCC_STEP_LOOP) : 0;
        memcpy(pl->valid, before, (size_t)pl->n);
        place_region(pl, s, g, of);
        for (int b = 0; b < pl->n; b++)
            made[b] |= of[b] & 4 ? pl->valid[b] : 0;
    }
    for (int b = 0; b < pl->n; b++)
        pl->valid[b] = of[b] & 4 ? made[b] | before[b] : before[b];
    for (int r = 0; r < s->nregions; r++)
        for (int i = 0; i < nexits[r]; i++)
            if (exits[r][i] >= 0)
                was_written(pl, exits[r][i], border_memory(pl, exits[r][i]));
    int *args = IR_NEWN(pl->ctx, s->nargs + 1, int);
    for (int a = 0; a < s->nargs; a++)
        args[a] = in_memory(pl, s->args[a], HOST);
    s->args = args;
    lw_push_step(pl->ctx, to, *s);
}

static void place_list(struct place *pl, struct kn_steps *steps)
{
    struct kn_steps to = {0};
    for (int i = 0; i < steps->n; i++) {
        struct kn_step s = steps->at[i];
        if (s.kind == KN_STEP_WAIT) /* the pass `queues` finds what waits for communication */
            continue;
        if (s.nregions)
            place_control(pl, &s, &to);
        else if (place_is_dense_copy(pl, &s))
            place_copy(pl, &s, &to);
        else
            place_plain(pl, &s, &to, place_runs_on(pl, &s));
    }
    *steps = to;
}

static void place_entry(struct place *pl, struct kn_entry *e)
{
    for (int b = 0; b < pl->n; b++) {
        enum tcc_space space = pl->buffers.at[b].space;
        bool there = space == TCC_SPACE_INPUT || space == TCC_SPACE_WEIGHT || space == TCC_SPACE_STATE;
        pl->valid[b] = there ? (uint8_t)(1 << pl->home[b]) : 0;
        pl->twin.at[b] = -1; /* what several entry points share has a twin in each: their arenas are laid out apart */
    }
    place_list(pl, &e->steps);
    int *outputs = IR_NEWN(pl->ctx, e->noutputs + 1, int);
    for (int i = 0; i < e->noutputs; i++) {
        ensure(pl, &e->steps, e->output_buffers[i], HOST, NULL);
        outputs[i] = in_memory(pl, e->output_buffers[i], HOST);
    }
    e->output_buffers = outputs;
}

/* -- The pass --------------------------------------------------------------------------------------------------- */

bool pass_place_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    struct kn_program *p = pass_module(r)->program;
    const struct pass_machine *m = pass_opts(r)->machine;
    const char *name = pass_param(r, "memory", m && m->memory ? m->memory->name : NULL);
    if (!p)
        return ir_error(ctx, NULL, "place: the module has not been lowered");
    if (!name)
        return true;
    struct place pl = {.ctx = ctx, .p = p, .n = p->nbuffers};
    size_t n = (size_t)p->nbuffers + 1;
    pl.refused = IR_NEWN(ctx, p->nkernels + 1, bool);
    for (int i = 0; i < p->nkernels && m && m->runs; i++)
        pl.refused[p->kernels[i]->id] = !m->runs(m, ctx, p->kernels[i]);
    pl.home = IR_NEWN(ctx, n, int);
    pl.joined = IR_NEWN(ctx, n, int);
    pl.valid = IR_NEWN(ctx, n, uint8_t);
    pl.reads = IR_NEWN(ctx, n, uint8_t);
    pl.writes = IR_NEWN(ctx, n, uint8_t);
    pl.first = IR_NEWN(ctx, n, bool);
    int nstates = 0;
    for (const struct ir_state *s = p->module->states; s; s = s->next)
        nstates = s->index >= nstates ? s->index + 1 : nstates;
    bool *on_host = IR_NEWN(ctx, nstates + 1, bool);
    for (const struct ir_state *s = p->module->states; s; s = s->next)
        on_host[s->index] = s->on_host;
    pl.on_host = on_host;
    for (const struct ir_state *s = p->module->states; s; s = s->next)
        for (int b = 0; s->init && b < p->nbuffers; b++)
            pl.first[b] |= p->buffers[b].space == TCC_SPACE_WEIGHT && p->buffers[b].weight == s->init;
    for (int b = 0; b < p->nbuffers; b++) {
        add_buffer(&pl, p->buffers[b]);
        pl.joined[b] = b;
    }
    pl.customs = m && m->customs && ir_customs(ctx);
    pl.measured = IR_NEWN(ctx, n, bool);
    for (int e = 0; e < p->nentries && pl.customs; e++)
        place_find_measured(&pl, &p->entries[e].steps);
    place_decide_steps(&pl);
    for (int e = 0; e < p->nentries; e++)
        place_tell_host_customs(&pl, &p->entries[e].steps);
    for (int e = 0; e < p->nentries; e++)
        join_borders(&pl, &p->entries[e].steps);
    choose_homes(&pl);
    pl.launch = 0;
    for (int e = 0; e < p->nentries; e++)
        place_entry(&pl, &p->entries[e]);
    for (int b = 0; b < pl.n; b++)
        pl.buffers.at[b].memory = pl.home[root(&pl, b)];
    VEC_GIVE(pl.buffers, p->buffers, p->nbuffers);
    p->nmemories = 2;
    p->memories = IR_NEWN(ctx, 2, struct kn_memory);
    p->memories[HOST] = (struct kn_memory){.name = "host", .shared = true};
    p->memories[DEVICE] = (struct kn_memory){.name = name, .shared = m && m->memory && m->memory->shared};
    return true;
}
