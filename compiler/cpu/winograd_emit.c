/* SPDX-License-Identifier: Apache-2.0 */
/* winograd_emit.c - the code of a kernel by Winograd's algorithm, whose loops winograd.c tells. */
#include "compiler/cpu/winograd_int.h"
#include "base/mutant.h"

enum { FAR = 2 << 20 };                        /* bytes; measured with second caches of 1 MB */

static LLVMValueRef at(struct wg *g, LLVMValueRef base, LLVMValueRef i)
{
    return LLVMBuildGEP2(g->e->b, g->e->t_f32, base, &i, 1, "");
}

static LLVMValueRef mul(struct wg *g, LLVMValueRef a, int64_t n)
{
    return LLVMBuildMul(g->e->b, a, em_i64(g->e, n), "");
}

static LLVMValueRef add(struct wg *g, LLVMValueRef a, int64_t n)
{
    return LLVMBuildAdd(g->e->b, a, em_i64(g->e, n), "");
}

static void bind_dim(struct wg *g, int dim, LLVMValueRef v)
{
    em_bind(g->e, g->k->dims[dim].var, v);
}

static void bind_tile(struct wg *g, LLVMValueRef r)
{
    bind_dim(g, g->r.tile, LLVMBuildAdd(g->e->b, g->first, r, ""));
}

/* Do all guards of a stage's accesses hold for the tile? NULL: always. */
static LLVMValueRef all_inside(struct wg *g, int stage)
{
    LLVMValueRef all = NULL;
    for (int i = g->k->stages[stage].first; i < g->k->stages[stage].last; i++) {
        const struct kn_insn *n = &g->k->insns[i];
        for (int j = 0; j < n->nguards; j++) {
            bool seen = false;
            for (int p = g->k->stages[stage].first; p < i && !seen; p++)
                for (int q = 0; q < g->k->insns[p].nguards && !seen; q++)
                    seen = !memcmp(&g->k->insns[p].guards[q], &n->guards[j], sizeof n->guards[j]);
            LLVMValueRef holds = seen ? NULL : em_guards(g->e, 1, &n->guards[j]);
            all = em_and_mask(g->e, all, holds);
        }
    }
    return all;
}

/* A stage's body in vectors of `lanes` of the 16 channels that dim runs over; its buffer lies at `buffer`. */
static void body(struct wg *g, int stage, int dim, int operand, LLVMValueRef buffer, int local_lanes)
{
    struct em *e = g->e;
    const struct kn_stage *s = &g->k->stages[stage];
    int lanes = cpu_lanes(em_cpu(e), 4);
    for (int first = 0; first < BLOCK; first += lanes) {
        em_set_lanes(e, NULL, 1, NULL);
        bind_dim(g, dim, em_i64(e, first));
        em_set_lanes(e, g->k->dims[dim].var, lanes, NULL);
        e->base[operand] = local_lanes > 1 ? at(g, buffer, em_i64(e, first)) : buffer;
        e->local_lanes = local_lanes;
        em_insns(e, s->first, s->last);
        em_forget(e, s->first, s->last);
        e->local_lanes = 1;
    }
    em_set_lanes(e, NULL, 1, NULL);
}

/* The body without guards where the tile lies inside, else with them. */
static void body_both(struct wg *g, int stage, int dim, int operand, LLVMValueRef buffer, int local_lanes)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef inside = MUTANT(167, all_inside(g, stage), NULL);
    if (inside) {
        em_if_begin(e, &f, LLVMBuildNot(e->b, inside, ""));
        body(g, stage, dim, operand, buffer, local_lanes);
        em_if_end(e, &f);
        em_if_begin(e, &f, inside);
    }
    e->unguarded = true;
    body(g, stage, dim, operand, buffer, local_lanes);
    e->unguarded = false;
    if (inside)
        em_if_end(e, &f);
}

static void transform_in(struct wg *g)
{
    struct em *e = g->e;
    struct em_loop outer, inner;
    bool far = g->from_far;
    LLVMValueRef tiles = add(g, g->ntiles, g->filters - 1);
    if (g->r.filter >= 0)
        bind_dim(g, g->r.filter, em_i64(e, 0));
    em_loop_begin(e, &outer, far ? em_points(e, g->r.in_block) : em_below(e, tiles), em_i64(e, 1), "in");
    em_loop_begin(e, &inner, far ? em_below(e, tiles) : em_points(e, g->r.in_block), em_i64(e, 1), "in");
    LLVMValueRef tile = far ? inner.iv : outer.iv;
    bind_dim(g, g->r.in_block, far ? outer.iv : inner.iv);
    bind_tile(g, tile);
    body_both(g, g->r.take, g->r.in_lane, g->r.v, at(g, g->scratch, mul(g, tile, wg_v_step(g))), 1);
    em_loop_end(e, &inner);
    em_loop_end(e, &outer);
}

/* Tiles of the launch go through the blocks of output channels first: v is there unless the first of them is at hand,
 * or the call begins elsewhere than this thread's last one has ended. */
static void transform_once(struct wg *g, const struct em_tiles *t)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef apart = LLVMBuildNot(e->b, em_continues(e), "");
    LLVMValueRef begins = LLVMBuildICmp(e->b, LLVMIntEQ, t->loop.iv, e->first, "");
    begins = LLVMBuildAnd(e->b, begins, apart, "");
    LLVMValueRef new = LLVMBuildICmp(e->b, LLVMIntEQ, t->at[g->r.out_block].lo, em_i64(e, 0), "");
    em_if_begin(e, &f, LLVMBuildOr(e->b, begins, new, ""));
    transform_in(g);
    em_if_end(e, &f);
}

struct acc {
    LLVMValueRef at[64];
};

/* Products of mr tiles with two vectors of u, or one, `unroll` channels a time, of one filter; `lines` cache lines from
 * `next` on are fetched meanwhile. */
static void filter_products(struct wg *g, LLVMValueRef a, LLVMValueRef b, int mr, LLVMValueRef next, int lines,
                            struct acc *acc)
{
    struct em *e = g->e;
    struct em_loop l;
    int lanes = cpu_lanes(em_cpu(e), 4), vectors = wg_vectors(em_cpu(e), g->panel), n = mr * vectors,
        by = wg_by_lane(em_cpu(e)), unroll = by > 1 ? by : 2;
    LLVMValueRef av[64];
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->channels)), em_i64(e, unroll), "k");
    for (int i = 0; i < n; i++)
        acc->at[i] = em_loop_carry(e, &l, acc->at[i]);
    for (int i = 0; i < lines * unroll / 2; i++)
        em_prefetch(e, at(g, next, add(g, mul(g, l.iv, lines * LINE / 2), i * LINE)), 2);
    for (int u = 0; u < unroll; u++) {
        LLVMValueRef k = add(g, l.iv, MUTANT(169, u, 0)), row = at(g, b, mul(g, k, g->panel)), from = at(g, a, k),
                     bv[2];
        for (int c = 0; c < vectors; c++)
            bv[c] = em_load(e, TCC_F32, at(g, row, em_i64(e, (int64_t)c * lanes)), lanes, NULL, NULL, -1);
        for (int r = 0; r < mr; r++) {
            if (u % by == 0)
                av[r] = em_load(e, TCC_F32, at(g, from, em_i64(e, r * wg_v_step(g))), by, NULL, NULL, -1);
            LLVMValueRef x = by > 1 ? NULL : em_splat(e, av[r], lanes);
            for (int c = 0; c < vectors; c++) {
                LLVMValueRef *sum = &acc->at[r * vectors + c];
                *sum = x ? em_fma(e, x, bv[c], *sum) : cpu_lane_fma(e, av[r], u, bv[c], *sum);
            }
        }
    }
    for (int i = 0; i < n; i++)
        em_loop_next(&l, i, acc->at[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < n; i++)
        acc->at[i] = l.phi[i];
}

/* Those of all filters: each reads the tiles that lie so many further on. */
static void products(struct wg *g, LLVMValueRef a, LLVMValueRef b, int mr, LLVMValueRef next, int lines,
                     struct acc *acc)
{
    struct em *e = g->e;
    struct em_loop l;
    int n = mr * wg_vectors(em_cpu(e), g->panel);
    if (g->filters == 1) {
        filter_products(g, a, b, mr, next, lines, acc);
        return;
    }
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->filters)), em_i64(e, 1), "filter");
    for (int i = 0; i < n; i++)
        acc->at[i] = em_loop_carry(e, &l, acc->at[i]);
    LLVMValueRef weights = at(g, b, mul(g, l.iv, g->channels * g->panel)), tiles = at(g, a, mul(g, l.iv, wg_v_step(g)));
    LLVMValueRef fetched = at(g, next, mul(g, l.iv, g->channels * lines * LINE / 2));
    filter_products(g, tiles, weights, mr, fetched, lines, acc);
    for (int i = 0; i < n; i++)
        em_loop_next(&l, i, acc->at[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < n; i++)
        acc->at[i] = l.phi[i];
}

static LLVMValueRef m_of(struct wg *g, int64_t half, LLVMValueRef tile)
{
    LLVMValueRef base = at(g, g->scratch, em_i64(g->e, g->room * (wg_v_step(g) + half * g->frequencies * BLOCK)));
    return at(g, base, mul(g, tile, g->frequencies * BLOCK));
}

/* A frequency's products: weights of one panel and the next, and of the panel's columns a part of some vectors. */
struct panel {
    LLVMValueRef z, weights, next;
    int part, parts, lanes, vectors, most; /* vectors' elements; rows of a register tile */
};

/* mr tiles from `first` on; they fetch `lines` cache lines of the next panel from `next` on, a step. */
static void row_block(struct wg *g, const struct panel *p, LLVMValueRef first, int mr, LLVMValueRef next, int lines)
{
    struct em *e = g->e;
    LLVMValueRef a = at(g, g->scratch, mul(g, first, wg_v_step(g)));
    struct acc acc;
    for (int i = 0; i < mr * p->vectors; i++)
        acc.at[i] = LLVMConstNull(em_vec(e->t_f32, p->lanes));
    LLVMValueRef right = at(g, p->weights, em_i64(e, p->part * p->vectors * p->lanes));
    products(g, at(g, a, mul(g, p->z, g->channels)), right, mr, next, lines, &acc);
    for (int i = 0; i < mr * p->vectors; i++) {
        int column = (p->part * p->vectors + i % p->vectors) * p->lanes;
        LLVMValueRef second = mul(g, p->z, BLOCK);
        LLVMValueRef to = at(g, m_of(g, MUTANT(168, column / BLOCK, 0), first), second);
        to = at(g, to, em_i64(e, (int64_t)(i / p->vectors) * g->frequencies * BLOCK + column % BLOCK));
        em_store(e, TCC_F32, to, acc.at[i], NULL, -1);
    }
}

/* Rows [from, to) of the tiles in blocks of mr, the first of which is the panel's `block`-th. */
static void row_blocks(struct wg *g, const struct panel *p, struct em_range rows, int mr, int64_t block, int lines)
{
    struct em *e = g->e;
    struct em_loop r;
    em_loop_begin(e, &r, rows, em_i64(e, mr), "rows");
    LLVMValueRef number = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, r.iv, rows.lo, ""), em_i64(e, mr), "");
    number = mul(g, add(g, number, block), g->depth / 2 * lines * LINE);
    row_block(g, p, r.iv, mr, at(g, p->next, number), lines);
    em_loop_end(e, &r);
}

/* So many tiles: as few blocks as must be, which differ by one row at most. They fetch the next panel, as many of all
 * parts' as it takes with whole lines a step. */
static void known_rows(struct wg *g, const struct panel *p, int64_t tiles)
{
    int64_t blocks = (tiles + p->most - 1) / p->most, rows = tiles / blocks, more = tiles % blocks,
            all = blocks * p->parts, at = more * (rows + 1), first = p->part * blocks;
    int lines = (int)((g->panel * 2 / LINE + all - 1) / all);
    if (first * lines >= g->panel * 2 / LINE)
        lines = 0;
    if (more)
        row_blocks(g, p, em_below(g->e, em_i64(g->e, at)), (int)rows + 1, first, lines);
    row_blocks(g, p, em_range(g->e, em_i64(g->e, at), em_i64(g->e, tiles)), (int)rows, first + more, lines);
}

/* A piece of an image, or its last one. */
static void known_pieces(struct wg *g, const struct panel *p)
{
    struct em *e = g->e;
    int64_t tiles = ir_const_or(g->k->dims[g->r.tile].extent, 0), each = g->k->schedule.tile[g->r.tile],
            last = tiles % each;
    struct em_if f;
    if (!last) {
        known_rows(g, p, each);
        return;
    }
    LLVMValueRef whole = LLVMBuildICmp(e->b, LLVMIntEQ, g->ntiles, em_i64(e, each), "");
    if (tiles > each) {
        em_if_begin(e, &f, whole);
        known_rows(g, p, each);
        em_if_end(e, &f);
        em_if_begin(e, &f, LLVMBuildNot(e->b, whole, ""));
    }
    known_rows(g, p, last);
    if (tiles > each)
        em_if_end(e, &f);
}

/*
 * Of tiles whose number is known only at run time: as many blocks as must be, all of the least size on hand that takes
 * them in. The first one fetches all of the next panel: there may be no other.
 */
static void unknown_rows(struct wg *g, const struct panel *p)
{
    struct em *e = g->e;
    int sizes[] = {p->most / 2 + 1, p->most * 3 / 4 + 1, p->most - 1, p->most}, below = 0;
    int lines = g->panel * 2 / LINE / p->parts;
    LLVMValueRef one = em_i64(e, 1), most = em_i64(e, p->most);
    LLVMValueRef blocks = LLVMBuildUDiv(e->b, add(g, g->ntiles, p->most - 1), most, "");
    LLVMValueRef each =
        LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, LLVMBuildAdd(e->b, g->ntiles, blocks, ""), one, ""), blocks, "");
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        struct em_if f;
        if (sizes[i] <= below)
            continue;
        LLVMValueRef right = LLVMBuildICmp(e->b, LLVMIntSLE, each, em_i64(e, sizes[i]), "");
        em_if_begin(e, &f, LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, each, em_i64(e, below), ""), right, ""));
        row_blocks(g, p, em_below(e, em_i64(e, sizes[i])), sizes[i], p->part, lines);
        row_blocks(g, p, em_range(e, em_i64(e, sizes[i]), g->ntiles), sizes[i], 0, 0);
        em_if_end(e, &f);
        below = sizes[i];
    }
}

static void multiply(struct wg *g, LLVMValueRef u)
{
    struct em *e = g->e;
    struct em_loop z;
    struct panel p = {.lanes = cpu_lanes(em_cpu(e), 4),
                      .vectors = wg_vectors(em_cpu(e), g->panel),
                      .parts = wg_parts(em_cpu(e), g->panel),
                      .most = wg_most_rows(em_cpu(e), g->panel)};
    em_loop_begin(e, &z, em_below(e, em_i64(e, g->frequencies)), em_i64(e, 1), "z");
    p.z = z.iv;
    p.weights = at(g, u, mul(g, z.iv, g->depth * g->panel));
    p.next = at(g, p.weights, em_i64(e, g->depth * g->panel));
    for (p.part = 0; p.part < p.parts; p.part++)
        (ir_const_or(g->k->dims[g->r.tile].extent, 0) ? known_pieces : unknown_rows)(g, &p);
    em_loop_end(e, &z);
}

static void transform_out(struct wg *g, LLVMValueRef ob, LLVMValueRef end)
{
    struct em *e = g->e;
    struct em_loop r;
    struct em_if f;
    for (int half = 0; half < g->panel / BLOCK; half++) {
        LLVMValueRef block = add(g, ob, half);
        if (half)
            em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSLT, block, end, ""));
        em_loop_begin(e, &r, em_below(e, g->ntiles), em_i64(e, 1), "out");
        bind_dim(g, g->r.out_block, block);
        bind_tile(g, r.iv);
        body_both(g, g->r.give, g->r.out_lane, g->r.m, m_of(g, half, r.iv), BLOCK);
        em_loop_end(e, &r);
        if (half)
            em_if_end(e, &f);
    }
}

/* Of an image, as far as its sizes are known: its channels stand in blocks behind the first dim. */
static int64_t image_bytes(const struct wg *g)
{
    const struct kn_stage *s = &g->k->stages[g->r.take];
    int64_t bytes = 0;
    for (int i = s->first; i < s->last && !bytes; i++) {
        if (g->k->insns[i].code != KN_LOAD)
            continue;
        const struct kn_operand *o = &g->k->operands[g->k->insns[i].operand];
        bytes = o->use == KN_LOCAL ? 0 : 4;
        for (int d = 1; d < o->rank; d++)
            bytes *= ir_const_or(o->dims[d], 0);
    }
    return bytes;
}

void wg_emit(struct em *e)
{
    struct wg g;
    struct em_tiles t;
    struct em_loop p;
    if (!wg_study(e->k, &g))
        return; /* cannot be: its schedule said that it can */
    g.e = e;
    g.room = wg_room(&g, e->k->schedule.tile[g.r.tile]);
    g.from_far = image_bytes(&g) > FAR;
    g.scratch = e->scratch;
    em_tiles_begin(e, &t);
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.at[i].lo);
    g.first = t.at[g.r.tile].lo;
    g.ntiles = em_length(e, t.at[g.r.tile]);
    transform_once(&g, &t);
    em_loop_begin(e, &p, t.at[g.r.out_block], em_i64(e, g.panel / BLOCK), "panel");
    const struct kn_insn *u = &e->k->insns[g.r.load_u];
    bind_dim(&g, g.r.out_block, p.iv);
    bind_dim(&g, g.r.out_lane, em_i64(e, 0));
    for (int i = em_nouter(e->k); i < e->k->ndims; i++)
        bind_dim(&g, i, em_i64(e, 0));
    multiply(&g, em_address(e, u->operand, em_expr(e, em_offset(e, u->operand, u->index))));
    transform_out(&g, p.iv, t.at[g.r.out_block].hi);
    em_loop_end(e, &p);
    em_tiles_end(e, &t);
}
