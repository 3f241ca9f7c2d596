/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile.c - a kernel by the lanes: points of one outer dim on partitions, others beside each other in each of them, tile
 * after tile; in a tile stage after stage. A stage's inner and repeated points are free dims too, a chunk at a time
 * where they are too many for SBUF; reductions of chunks are combined.
 *
 * Dims are cut in digits where indices divide by them (dims.c).
 */
#include "compiler/neuron/tile_int.h"

#include <string.h>

/* -- Instructions -------------------------------------------------------------------------------------------------- */

const struct nk_value *nk_body(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                               const struct nk_value *const *args)
{
    switch ((enum kn_code)n->code) {
    case KN_CONST: {
        bool f = tcc_is_float((enum tcc_dtype)n->dtype);
        if (nk_is_wide((enum tcc_dtype)n->dtype))
            return nk_wide_number(nk, (enum tcc_dtype)n->dtype, n->ivalue);
        if (!f && (n->ivalue < INT32_MIN || n->ivalue > (n->dtype == TCC_U32 ? (int64_t)UINT32_MAX : INT32_MAX)))
            nk_refuse(nk, "a number that does not fit in 32 bits");
        return nk_number(nk, (enum tcc_dtype)n->dtype, f ? n->fvalue : (double)n->ivalue);
    }
    case KN_EXPR: return nk_expr(nk, t, (enum tcc_dtype)n->dtype, n->expr);
    case KN_LOAD: return nk_load(nk, t, n, args[0]);
    case KN_STORE: nk_store(nk, t, n, args[0]); return NULL;
    case KN_SCALAR: return nk_scalar(nk, t, n, (enum tcc_dtype)args[n->op == IR_select]->dtype, args);
    case KN_INDEX: return nk_bind_index(nk, t, n, args[0]);
    case KN_ENV: return nk_environment(nk, t, n);
    default: nk_refuse(nk, "an instruction outside its stage");
    }
}

static bool lies_in(const struct nk_value *v, const struct nk_buffer *b)
{
    return v && ((!v->is_number && v->buffer == b) || lies_in(v->high, b) || (v->half && lies_in(v->half->with, b)));
}

/* Does something still need the buffer, but for instructions that are made? */
static bool needed(const struct stage *s, const struct nk_buffer *b)
{
    const struct nk *nk = s->p->nk;
    const struct kn_stage *g = &nk->k->stages[s->number];
    const struct kn_insn *insns = nk->k->insns;
    for (int j = 0; j < nk->k->ninsns; j++)
        if (lies_in(s->p->uniform[j], b) || (s->kept[j].present && lies_in(&s->kept[j].v, b)))
            return true;
    for (int j = 0; s->held && j < nk->k->ninsns; j++)
        if (lies_in(s->held[j], b))
            return true;
    for (int o = 0; o < nk->k->noperands; o++)
        if (nk->local[o] == b)
            return true;
    for (int j = g->first; j < g->last; j++) {
        if (!lies_in(s->value[j], b))
            continue;
        if (insns[j].code == KN_INDEX)
            return true;
        for (int l = g->first; l < g->last; l++) {
            if (s->made[l])
                continue;
            if (s->same[l] == j)
                return true;
            for (int a = 0; a < insns[l].nargs; a++)
                if (insns[l].arg[a] == j)
                    return true;
        }
    }
    return false;
}

/* What is read here for the last time, if it is the instruction's last argument: its result may lie there. */
static const struct nk_buffer *dies_at(const struct stage *s, int at, const struct nk_value *const *args)
{
    const struct kn_insn *n = &s->p->nk->k->insns[at];
    const struct nk_value *last = n->nargs == 3 ? args[2] : NULL;
    return last && !last->is_number && !last->high && !needed(s, last->buffer) ? last->buffer : NULL;
}

/* Buffers that no later instruction of the stage reads. */
static void forget(struct stage *s)
{
    const struct kn_stage *g = &s->p->nk->k->stages[s->number];
    for (int i = g->first; i < g->last; i++)
        for (const struct nk_value *v = s->value[i]; v; v = v->high)
            if (!v->is_number && !needed(s, v->buffer))
                nk_release(s->p->nk, v->buffer);
}

/* A select by an index, none of whose parts another stage takes from this one, or this one from another. */
static bool is_hot(const struct stage *s, const struct kn_stage *g, int insn, struct nk_hot *h)
{
    const struct nk_again *a = &s->p->again;
    if (!nk_is_hot(s->p->nk->k, g, insn, h))
        return false;
    const int parts[] = {insn, h->equal, h->expr};
    for (int x = 0; x < 3 && s->takes; x++)
        if (a->hold[parts[x]] || a->skip[parts[x]] || a->of[parts[x]] >= 0)
            return false;
    return true;
}

/* Is it the comparison of one, or the numbers that are compared? */
static bool is_of_hot(const struct stage *s, const struct kn_stage *g, int insn)
{
    const struct kn_insn *insns = s->p->nk->k->insns;
    struct nk_hot h;
    int reader = insns[insn].code == KN_EXPR || (insns[insn].code == KN_SCALAR && insns[insn].op == IR_eq)
                     ? nk_reader_of(s->p->nk->k, insn)
                     : -1;
    if (reader >= 0 && insns[insn].code == KN_EXPR)
        reader = nk_reader_of(s->p->nk->k, reader);
    return reader >= 0 && is_hot(s, g, reader, &h) && (h.equal == insn || h.expr == insn);
}

static const struct nk_value *select_hot(struct stage *s, int insn, const struct nk_hot *h,
                                         const struct nk_value *const *args)
{
    struct nk *nk = s->p->nk;
    const struct kn_insn *insns = nk->k->insns, *equal = &insns[h->equal];
    const struct nk_value *index = nk_computed(nk, &s->t, nk_stage_arg(s, h->index)),
                          *yes = nk_computed(nk, &s->t, args[1]),
                          *v = nk_select_hot(nk, &s->t, insns[h->expr].expr, index, yes,
                                             insns[insns[insn].arg[2]].fvalue);
    if (!v) {
        const struct nk_value *e = nk_body(nk, &s->t, &insns[h->expr], NULL), *two[2] = {e, index}, *three[3];
        if (equal->arg[0] != h->expr)
            two[0] = index, two[1] = e;
        three[0] = nk_body(nk, &s->t, equal, two);
        three[1] = yes;
        three[2] = args[2];
        v = nk_body(nk, &s->t, &insns[insn], three);
    }
    s->made[h->equal] = s->made[h->expr] = true;
    return v;
}

/* Is it read by such alone, which need no places? */
static bool are_argmax8s(const struct nk *nk, const struct kn_stage *g, int insn)
{
    bool all = true;
    for (int i = g->first; i < g->last; i++)
        for (int a = 0; a < nk->k->insns[i].nargs; a++)
            if (nk->k->insns[i].arg[a] == insn)
                all &= a == 1 && nk_is_argmax8(nk, g, i);
    return all;
}

/* The at-th instruction of the stage. */
static void run_insn(struct stage *s, const bool *later, int at)
{
    struct nk *nk = s->p->nk;
    const struct kn_stage *g = &nk->k->stages[s->number];
    int i = s->order[at - g->first];
    const struct kn_insn *n = &nk->k->insns[i];
    const struct nk_value *args[3] = {NULL, NULL, NULL};
    bool hold = s->takes && s->p->again.hold[i];
    ir_tick(nk->ctx);
    if (s->made[i]) /* as an earlier stage has it */
        return;
    s->made[i] = true;
    if (is_of_hot(s, g, i)) { /* made with the select, if at all */
        s->made[i] = false;
        return;
    }
    if (n->code == KN_EXPR && !later[i] && are_argmax8s(nk, g, i))
        return;
    if (n->code == KN_REDUCE) {
        nk_reduce(s, i);
    } else if (n->code == KN_ARGREDUCE) {
        if (!s->whole)
            nk_full(nk, "a row of an argmax that does not fit");
        nk_is_argmax8(nk, g, i) ? nk_argmax8(s, i) : nk_argreduce(s, i);
    } else if (n->code == KN_SORT) {
        nk_sort(s, i);
    } else if (n->code == KN_SCAN) {
        s->value[i] = nk_scan(s, i);
    } else {
        struct nk_hot hot = {-1, -1, -1};
        bool is = is_hot(s, g, i, &hot);
        for (int a = 0; a < n->nargs && a < 3; a++)
            args[a] = n->arg[a] >= 0 && n->arg[a] != hot.equal ? nk_stage_arg(s, n->arg[a]) : NULL;
        if (is)
            s->value[i] = select_hot(s, i, &hot, args);
        nk->dying = is ? NULL : dies_at(s, i, args);
        if (!is)
            s->value[i] = s->same[i] < i ? s->value[s->same[i]] : s->p->uniform[i];
        if (!s->value[i] && !hold)
            s->value[i] = nk_wait(nk, &s->t, i, args);
        if (!s->value[i] && !(n->code == KN_SCALAR && nk_function_and_sum(s, i, args[0])))
            s->value[i] = nk_body(nk, &s->t, n, args);
        nk->dying = NULL;
        if (hold)
            s->held[i] = s->value[i] = nk_computed(nk, &s->t, s->value[i]);
    }
    if (later[i] && s->value[i] && !s->inner && !s->kept[i].present) {
        if (s->value[i]->is_number) {
            s->kept[i].v = *s->value[i];
            s->kept[i].present = true;
        } else if (!s->repeat) {
            s->kept[i].v = *s->value[i];
            s->kept[i].present = true;
        }
    }
    if (later[i] && s->value[i] && !s->inner && s->repeat && !s->value[i]->is_number) {
        nk_make_kept(s, i, (enum tcc_dtype)n->dtype, s->value[i]->high != NULL);
        nk_copy_to(nk, &s->t, nk_kept_at(nk, &s->t, &s->kept[i]), s->value[i]);
    }
    forget(s);
}

/* The same stage of n tiles, whose instructions take turns. */
static void run_stages(struct stage *s, int n, const bool *later)
{
    struct nk *nk = s->p->nk;
    const struct kn_stage *g = &nk->k->stages[s->number];
    nk->indices.n = 0;
    for (int j = 0; j < n; j++) {
        memset(s[j].made, 0, (size_t)nk->k->ninsns * sizeof *s[j].made);
        for (int i = g->first; i < g->last && s[j].takes; i++) {
            int first = s[j].p->again.of[i];
            s[j].made[i] = s[j].p->again.skip[i] || first >= 0;
            s[j].value[i] = s[j].made[i] && first >= 0 ? s[j].held[first] : NULL;
        }
    }
    for (int at = g->first; at < g->last; at++)
        for (int j = 0; j < n; j++)
            run_insn(&s[j], later, at);
}

/* A scatter's updates happen one after the other. */
static bool is_scatter(const struct nk *nk, const struct kn_stage *g)
{
    for (int i = g->first; i < g->last; i++)
        for (int j = g->first; j < i && nk->k->insns[i].code == KN_STORE; j++)
            for (int x = 0; x < nk->k->insns[i].nindex; x++)
                if (nk->k->insns[j].code == KN_INDEX && ir_uses_sym(nk->k->insns[i].index[x], nk->k->insns[j].expr))
                    return true;
    return false;
}

/* -- Chunks of a stage --------------------------------------------------------------------------------------------- */

/* What later stages need of n tiles; the rest that was made since the mark is given back. */
static void release(const struct stage *s, int n, int mark)
{
    struct nk *nk = s->p->nk;
    int each = 3 * nk->k->ninsns;
    const struct nk_value **keep = IR_NEWN(nk->ctx, n * each + 1, const struct nk_value *);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < nk->k->ninsns; i++) {
            const struct nk_value **to = keep + j * each + 3 * i;
            to[0] = s[j].kept[i].present && !s[j].kept[i].v.is_number ? &s[j].kept[i].v : NULL;
            to[1] = to[0] ? s[j].kept[i].v.high : NULL;
            to[2] = s[j].held[i];
        }
    nk_release_to(nk, mark, keep, n * each);
}

/* Where a stage of one tile is at a chunk. */
static void begin_chunk(struct stage *s, const int64_t *chunk, const int64_t *at, bool whole)
{
    struct nk *nk = s->p->nk;
    s->t = s->p->tile;
    s->first = true;
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            s->ninner = s->t.n;
        for (int d = 0; d < nk->k->ndims; d++)
            if ((pass ? s->inner : s->repeat) >> d & 1) {
                int64_t n = nk->extent[d] - at[d];
                s->t.base[d] = at[d];
                nk_add_axes(nk, &s->t, d, n < chunk[d] ? n : chunk[d], &s->p->digits[d]);
                s->first &= !pass || !at[d];
            }
    }
    s->ninner = s->t.n - s->ninner;
    s->whole = whole;
    s->takes = whole && !s->repeat;
    memset(s->value, 0, (size_t)nk->k->ninsns * sizeof *s->value);
    memset(s->summed, 0, (size_t)nk->k->ninsns * sizeof *s->summed);
}

/* A stage of n tiles; of several, all of it at once. */
static void run_chunks(struct stage *s, int n, const bool *later)
{
    struct plan *p = s->p;
    struct nk *nk = p->nk;
    int64_t chunk[KN_MAX_DIMS], at[KN_MAX_DIMS] = {0}, left = nk->room / nk_free_elements(&p->tile);
    bool whole = true;
    left = left < 1 || is_scatter(nk, &nk->k->stages[s->number]) ? 1 : left;
    for (int pass = 0; pass < 2; pass++)
        for (int d = nk->k->ndims - 1; d >= 0; d--) {
            if (!((pass ? s->repeat : s->inner) >> d & 1))
                continue;
            chunk[d] = nk->extent[d] < left ? nk->extent[d] : left;
            for (int i = p->digits[d].n - 1; i >= 0 && chunk[d] < nk->extent[d]; i--) /* whole digits */
                if (chunk[d] >= p->digits[d].period[i]) {
                    chunk[d] -= chunk[d] % p->digits[d].period[i];
                    break;
                }
            whole &= pass || chunk[d] == nk->extent[d];
            left = chunk[d] == nk->extent[d] ? left / chunk[d] : 1;
            left = left < 1 ? 1 : left;
        }
    do {
        int mark = nk_mark(nk);
        for (int j = 0; j < n; j++)
            begin_chunk(&s[j], chunk, at, whole);
        run_stages(s, n, later);
        release(s, n, mark);
    } while (nk_next(nk, s->inner, chunk, at) || nk_next(nk, s->repeat, chunk, at)); /* inner dims go round first */
}

int64_t nk_stage_points(const struct nk *nk, const struct kn_stage *s)
{
    int64_t n = 1;
    for (int d = 0; d < nk->k->ndims; d++)
        if ((s->inner | s->repeat) >> d & 1)
            n *= nk->extent[d];
    return n;
}

/* -- Tiles --------------------------------------------------------------------------------------------------------- */

/* Are all points of the stages that use a row buffer on chip at once? */
static bool at_once(const struct plan *p, int operand)
{
    const struct kn_kernel *k = p->nk->k;
    for (int s = 0; s < k->nstages; s++)
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            if (kn_accesses(&k->insns[i], operand) &&
                nk_stage_points(p->nk, &k->stages[s]) > p->nk->room / nk_free_elements(&p->tile))
                return false;
    return true;
}

static void make_locals(struct plan *p)
{
    struct nk *nk = p->nk;
    for (int o = 0; o < nk->k->noperands; o++) {
        const struct kn_operand *x = &nk->k->operands[o];
        int64_t n = 1, c;
        if (x->use != KN_LOCAL || (p->again.forwarded[o] && at_once(p, o)))
            continue;
        for (int i = 0; i < x->rank; i++) {
            if (!ir_is_const(x->dims[i], &c))
                nk_refuse(nk, "a row buffer of unknown size");
            n *= c;
        }
        nk->local_elements[o] = n;
        int64_t bytes = n * nk_free_elements(&p->tile) * neuron_type_bytes(nk_type(nk, x->dtype));
        bytes *= nk_is_wide(x->dtype) ? 2 : 1;
        if (bytes > neuron_sbuf_bytes(nk->machine->core))
            nk_full(nk, "a row buffer that does not fit in SBUF");
        nk->local[o] = nk_sbuf(nk, bytes);
    }
}

/* Stage `number` of n tiles, whose plans these are. */
static void run_stage(int number, int n, struct plan *p, struct kept *const *kept, const struct nk_value **const *held)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    const struct kn_stage *g = &k->stages[number];
    struct stage s[NK_TOGETHER];
    int *same = IR_NEWN(nk->ctx, k->ninsns + 1, int), *order = IR_NEWN(nk->ctx, k->ninsns + 1, int);
    bool *later = IR_NEWN(nk->ctx, k->ninsns + 1, bool);
    nk_find_same(k, g, same);
    nk_order(nk, g, same, order);
    for (int i = g->last; i < k->ninsns; i++)
        for (int a = 0; a < k->insns[i].nargs; a++)
            if (k->insns[i].arg[a] >= 0)
                later[k->insns[i].arg[a]] = true;
    for (int j = 0; j < n; j++)
        s[j] = (struct stage){.p = &p[j],
                              .kept = kept[j],
                              .held = held[j],
                              .value = IR_NEWN(nk->ctx, k->ninsns + 1, const struct nk_value *),
                              .same = same,
                              .order = order,
                              .made = IR_NEWN(nk->ctx, k->ninsns + 1, bool),
                              .summed = IR_NEWN(nk->ctx, k->ninsns + 1, bool),
                              .inner = g->inner,
                              .repeat = g->repeat,
                              .number = number};
    run_chunks(s, n, later);
}

/* n tiles, whose plans these are. */
static void run_tiles(int n, struct plan *p)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    struct kept *kept[NK_TOGETHER];
    const struct nk_value **held[NK_TOGETHER];
    int mark = nk_mark(nk), done = -1; /* a stage that came with another */
    nk_begin_tile(nk);
    for (int j = 0; j < n; j++) {
        kept[j] = IR_NEWN(nk->ctx, k->ninsns + 1, struct kept);
        held[j] = IR_NEWN(nk->ctx, k->ninsns + 1, const struct nk_value *);
    }
    make_locals(p);
    for (int i = 0; i < k->nstages; i++)
        if (n == 1 && k->roles.form == KN_SOFTMAX && i == kn_stage_of(k, k->roles.softmax.top) &&
            nk_run_online(p, kept[0]))
            done = kn_stage_of(k, k->roles.softmax.sum);
        else if (i != done)
            run_stage(i, n, p, kept, held);
    nk_release_to(nk, mark, NULL, 0);
}

/* May instructions of tiles take turns? Those of stages that are on chip at once, without an index, whose symbol has
 * one value. A tile with one reduction behind another waits most, so that there are more of it. */
static int together(const struct plan *p)
{
    const struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    int64_t beside = p->along < 0 ? 1 : p->each;
    int reductions = 0;
    if (kn_has(k, KN_BIT(KN_INDEX) | KN_BIT(KN_ENV)) || kn_has_operand(k, KN_BIT(KN_LOCAL)))
        return 1;
    for (int d = 0; d < k->ndims; d++)
        beside *= k->dims[d].role == KN_OUTER && d != p->along ? p->chunk[d] : 1;
    for (int i = 0; i < k->nstages; i++) {
        int64_t points = nk_stage_points(nk, &k->stages[i]);
        if (k->stages[i].repeat || (points > 1 && points > nk->room / beside))
            return 1;
        reductions += k->insns[k->stages[i].last - 1].code == KN_REDUCE;
    }
    return reductions < 2 && nk->together == NK_TOGETHER ? NK_TOGETHER - 1 : nk->together;
}

/* Points [at, at + n) of the dim on partitions: as many to each partition, what is left over in a tile of its own. */
static void run_along(struct plan *p, const int64_t *lo, int64_t each)
{
    struct nk *nk = p->nk;
    const struct kn_kernel *k = nk->k;
    int64_t n = p->along < 0 ? 1 : nk->extent[p->along];
    struct plan plans[NK_TOGETHER];
    int ntiles = 0, most = together(p);
    for (int64_t at = 0; at < n;) {
        int64_t f = each < n - at ? each : n - at, parts = (n - at) / f;
        parts = parts > NEURON_PARTITIONS ? NEURON_PARTITIONS : parts;
        p->tile = (struct nk_tile){.n = 1, .axis = {{p->along, f, parts}}};
        if (p->along < 0)
            p->tile.axis[0].dim = KN_MAX_DIMS - 1;
        for (int d = 0; d < k->ndims; d++) {
            if (k->dims[d].role != KN_OUTER)
                continue;
            p->tile.base[d] = d == p->along ? at : lo[d];
            int64_t left = nk->extent[d] - lo[d];
            nk_add_axes(nk, &p->tile, d, d == p->along ? f : left < p->chunk[d] ? left : p->chunk[d], &p->digits[d]);
        }
        p->tile.nouter = p->tile.n;
        at += parts * f;
        plans[ntiles++] = *p;
        if (ntiles < most && at < n)
            continue;
        run_tiles(ntiles, plans);
        ntiles = 0;
    }
}

/* Loads of one element are made once, for all partitions. */
static void load_uniform(struct plan *p)
{
    struct nk *nk = p->nk;
    const struct nk_tile t = {.n = 1, .nouter = 1, .axis = {{KN_MAX_DIMS - 1, 1, NEURON_PARTITIONS}}};
    p->uniform = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
    for (int i = 0; i < nk->k->ninsns; i++) {
        const struct kn_insn *n = &nk->k->insns[i];
        int64_t at;
        bool same = n->code == KN_LOAD && !n->nguards && nk->k->operands[n->operand].use == KN_IN;
        for (int x = 0; same && x < n->nindex; x++)
            same = ir_is_const(n->index[x], &at);
        for (int j = 0; same && j < i && !p->uniform[i]; j++)
            if (p->uniform[j] && nk_loads_same(nk->k, j, i))
                p->uniform[i] = p->uniform[j];
        if (same && !p->uniform[i])
            p->uniform[i] = nk_load(nk, &t, n, NULL);
    }
}

void nk_run_tiles(struct nk *nk)
{
    struct plan p = {.nk = nk};
    const struct kn_kernel *k = nk->k;
    int64_t lo[KN_MAX_DIMS] = {0};
    nk->banks = true;
    nk_find_along(&p);
    nk->expected = p.along < 0 ? 1 : (nk->extent[p.along] - 1) / (p.each * NEURON_PARTITIONS) + 1;
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER && d != p.along)
            nk->expected *= (nk->extent[d] - 1) / p.chunk[d] + 1;
    nk->expected /= together(&p);
    load_uniform(&p);
    p.again = nk_find_again(nk);
    do
        run_along(&p, lo, p.each);
    while (nk_next(nk, nk_outer_but(nk, p.along), p.chunk, lo));
}
