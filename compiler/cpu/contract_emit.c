/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_emit.c - code of contractions (contract_int.h): the loops over a tile, around the register tile of
 * contract_micro.c. Where the form of A and B in memory doesn't suit that, they are packed (contract_pack.c).
 *
 * Order inside a tile: batch and extra n dims; columns; extra m dims; rows. So a panel of B stays in the nearest cache
 * while all rows of the tile pass. Rows that padding cuts are done in register tiles of their own, with constant row
 * numbers.
 */
#include "compiler/cpu/contract_emit_int.h"
#include "ir/ir.h"
#include "base/mutant.h"

/* -- Loops over the kernel's own dims ------------------------------------------------------------- */
struct dim_loops {
    struct em_loop loop[KN_MAX_DIMS];
    bool open[KN_MAX_DIMS];
};

static void dims_begin(struct cg *g, struct dim_loops *l, const struct em_tiles *t, uint32_t dims)
{
    struct em *e = g->e;
    for (int d = 0; d < g->c.k->ndims; d++) {
        l->open[d] = false;
        if (!(dims >> d & 1))
            continue;
        if (ir_is_value(g->c.k->dims[d].extent, 1) || g->c.k->schedule.tile[d] == 1) {
            em_bind(e, g->c.k->dims[d].var, t->at[d].lo);
            continue;
        }
        l->open[d] = true;
        em_loop_begin(e, &l->loop[d], t->at[d], em_i64(e, 1), "d");
        em_bind(e, g->c.k->dims[d].var, l->loop[d].iv);
    }
}

static void dims_end(struct cg *g, struct dim_loops *l)
{
    for (int d = g->c.k->ndims - 1; d >= 0; d--)
        if (l->open[d])
            em_loop_end(g->e, &l->loop[d]);
}

/* -- Rows ------------------------------------------------------------------------------------------- */

/* Rows whose number is known when compiling, some of them cut by padding. Where tiles cut the rows, whole register
 * tiles are in or out. */
static void rows_guarded(struct cg *g, LLVMValueRef x, int cv)
{
    struct em *e = g->e;
    int64_t n = g->c.nrows;
    bool tiled = g->c.k->schedule.tile[g->c.row] > 0;
    struct em_span inner = ct_interior(&g->c);
    for (int64_t r = 0; r < n;) {
        int64_t size = r + g->mr <= n ? g->mr : n - r, blocks = 0;
        while (em_span_holds(inner, r + blocks * g->mr, r + (blocks + 1) * g->mr))
            blocks++;
        if (blocks > 1) {
            struct em_loop l;
            struct em_range some = em_range(e, em_i64(e, r), em_i64(e, r + blocks * g->mr));
            em_loop_begin(e, &l, tiled ? em_cut(e, some, g->rows) : some, em_i64(e, g->mr), "rows");
            cg_micro(g, x, l.iv, g->mr, cv, CG_ALL_ROWS);
            em_loop_end(e, &l);
            r += blocks * g->mr;
        } else {
            struct em_if f;
            LLVMValueRef at = em_i64(e, r);
            if (tiled) {
                LLVMValueRef right = LLVMBuildICmp(e->b, LLVMIntSLT, at, g->rows.hi, "");
                em_if_begin(e, &f, LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSLE, g->rows.lo, at, ""), right, ""));
            }
            cg_micro(g, x, at, (int)size, cv, em_span_holds(inner, r, r + size) ? CG_ALL_ROWS : r);
            if (tiled)
                em_if_end(e, &f);
            r += size;
        }
    }
}

enum {
    MANY_ROWS = 63,
    MOST_SIZES = 8
}; /* rows that the choice of a register tile looks at; sizes that there is code for */

struct sizes {
    int n, rows[MOST_SIZES];
    uint64_t left[MOST_SIZES]; /* bit i: with i rows left a tile of so many is next; the last bit: with more, too */
};

/*
 * Register tiles for rows whose number is known only at run time, such that the cost of all is least: a few rows wait
 * for their own sums, so that 10 are 6 and 4 rather than 8 and 2, and 15 no whole tile and 1.
 */
static void choose_sizes(const struct cg *g, int cv, struct sizes *s)
{
    static const int smaller[] = {8, 6, 5, 4, 3, 2, 1};
    double least[MANY_ROWS + 1] = {0};
    *s = (struct sizes){.n = 1, .rows = {g->mr}};
    for (int i = 0; i < (int)(sizeof smaller / sizeof *smaller); i++)
        if (smaller[i] < g->mr)
            s->rows[s->n++] = smaller[i];
    for (int left = 1; left <= MANY_ROWS; left++) {
        int best = -1;
        for (int i = 0; i < s->n; i++) {
            int rows = s->rows[i];
            double cost = rows > left ? 0 : ct_step_cost(&g->c, rows, cv) + least[left - rows];
            if (rows <= left && (best < 0 || cost < least[left])) {
                best = i;
                least[left] = cost;
            }
        }
        s->left[left < MANY_ROWS ? best : 0] |= (uint64_t)1 << left;
    }
}

/* Rows [row_lo, row_hi), their number known only at run time. */
static void unknown_rows(struct cg *g, LLVMValueRef x, int cv)
{
    struct em *e = g->e;
    struct em_loop l;
    struct em_if f;
    struct sizes sizes;
    choose_sizes(g, cv, &sizes);
    struct em_range some = MUTANT(163, g->rows, em_peel(e, g->rows, em_i64(e, 0), em_i64(e, 1)).inner);
    em_loop_begin(e, &l, some, NULL, "rows");
    LLVMValueRef left = LLVMBuildSub(e->b, g->rows.hi, l.iv, ""), one = em_i64(e, 1);
    left = em_intrinsic(e, "llvm.umin", 1, &e->t_i64, 2, (LLVMValueRef[]){left, em_i64(e, MANY_ROWS)});
    l.step = em_i64(e, g->mr);
    for (int i = 0; i < sizes.n; i++) {
        if (!sizes.left[i])
            continue;
        LLVMValueRef next = LLVMBuildLShr(e->b, em_i64(e, (int64_t)sizes.left[i]), left, "");
        next = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, next, one, ""), em_i64(e, 0), "");
        if (i)
            l.step = LLVMBuildSelect(e->b, next, em_i64(e, sizes.rows[i]), l.step, "");
        em_if_begin(e, &f, next);
        cg_micro(g, x, l.iv, sizes.rows[i], cv, CG_ALL_ROWS);
        em_if_end(e, &f);
    }
    em_loop_end(e, &l);
}

static void whole_rows(struct cg *g, LLVMValueRef x, int cv);

/*
 * Rows of a register tile at an edge: few, but so many that their sums don't wait for each other; `smaller`: half as
 * many, for images of few rows. 0: there is no such tile, or its taps are not known when compiling.
 */
static int edge_rows(const struct cg *g, int cv, bool last, bool smaller)
{
    const struct ct *c = &g->c;
    if (!c->edge_known[last] || g->packed_a)
        return 0;
    int64_t cut = ct_cut_rows(c, last, last ? c->ks[c->guards[c->edge].k].n - 1 : 0);
    int rows = (8 + cv - 1) / cv;
    rows = rows < cut ? (int)cut : rows;
    if (!cut || cut > g->mr)
        return 0;
    rows = rows < g->mr ? rows : g->mr;
    if (!smaller)
        return rows;
    return rows < 4 || rows / 2 < cut ? 0 : rows / 2;
}

/*
 * Rows at the first or last edge, which taps are missing of, and some between it and the other end of `free`, whose
 * rows have all other taps: by the largest register tile that there is room for, or else one by one, each with the taps
 * that it has. Returns where the other rows begin, or end.
 */
static LLVMValueRef rows_at_edge(struct cg *g, LLVMValueRef x, int cv, bool last, struct em_range edge,
                                 struct em_range free)
{
    struct em *e = g->e;
    struct em_if f;
    struct em_loop l;
    LLVMValueRef end = last ? edge.hi : edge.lo, border = last ? edge.lo : edge.hi, done = NULL;
    ir_expr of_all = last ? g->c.rows : ir_const(g->c.ctx, 0);
    LLVMValueRef here = LLVMBuildICmp(e->b, LLVMIntEQ, end, em_expr(e, of_all), "");
    for (int i = 0; i < 2; i++) {
        int n = edge_rows(g, cv, last, i);
        if (!n)
            break;
        LLVMValueRef at = last ? LLVMBuildSub(e->b, end, em_i64(e, n), "") : em_i64(e, 0);
        LLVMValueRef limit = last ? at : em_i64(e, n), room[2] = {last ? free.lo : limit, last ? limit : free.hi};
        LLVMValueRef fits = LLVMBuildAnd(e->b, here, LLVMBuildICmp(e->b, LLVMIntSLE, room[0], room[1], ""), "");
        if (done)
            fits = LLVMBuildAnd(e->b, fits, LLVMBuildNot(e->b, done, ""), "");
        em_if_begin(e, &f, fits);
        cg_micro(g, x, at, n, cv, last ? CG_LAST_ROWS : CG_FIRST_ROWS);
        em_if_end(e, &f);
        border = LLVMBuildSelect(e->b, fits, limit, border, "");
        done = done ? LLVMBuildOr(e->b, done, fits, "") : fits;
    }
    LLVMValueRef to = done ? LLVMBuildSelect(e->b, done, edge.lo, edge.hi, "") : edge.hi;
    em_loop_begin(e, &l, em_range(e, edge.lo, to), em_i64(e, 1), "edge");
    cg_micro(g, x, l.iv, 1, cv, CG_ONE_ROW);
    em_loop_end(e, &l);
    return border;
}

/* All rows, where they are so few that one register tile at the edges takes them: both edges cut it. Is that so? NULL:
 * never. */
static LLVMValueRef rows_short(struct cg *g, LLVMValueRef x, int cv)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef rows = em_expr(e, g->c.rows), done = NULL;
    LLVMValueRef right = LLVMBuildICmp(e->b, LLVMIntEQ, g->rows.hi, rows, "");
    LLVMValueRef all = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, g->rows.lo, em_i64(e, 0), ""), right, "");
    for (int i = 0; i < 2; i++) {
        int n = edge_rows(g, cv, false, i), n_last = edge_rows(g, cv, true, i);
        if (n < 2 || n_last < 2)
            break;
        n = n > n_last ? n : n_last;
        LLVMValueRef fits = LLVMBuildAnd(e->b, all, LLVMBuildICmp(e->b, LLVMIntEQ, rows, em_i64(e, n), ""), "");
        em_if_begin(e, &f, fits);
        cg_micro(g, x, em_i64(e, 0), n, cv, CG_BOTH_ROWS);
        em_if_end(e, &f);
        done = done ? LLVMBuildOr(e->b, done, fits, "") : fits;
    }
    return done;
}

/*
 * Rows of which some are cut, but which is known only at run time: those at the edges, then the ones between as usual.
 * Where a window is wider than the image both ends cut the same rows: those are no register tile's.
 */
static void rows_late(struct cg *g, LLVMValueRef x, int cv)
{
    struct em *e = g->e;
    ir_expr first, last;
    ct_late_cuts(&g->c, &first, &last);
    struct em_range mine = g->rows, all = em_below(e, em_expr(e, g->c.rows));
    LLVMValueRef none = em_i64(e, 0), lacks_first = em_expr(e, first), lacks_last = em_expr(e, last);
    struct em_edges rows = em_peel(e, all, lacks_first, lacks_last);
    struct em_range has_last = em_peel(e, all, none, lacks_last).inner,
                    has_first = em_peel(e, all, lacks_first, none).inner;
    if (g->c.k->schedule.tile[g->c.row]) { /* this tile's part of them */
        rows = em_edges_cut(e, rows, mine);
        has_last = em_cut(e, mine, has_last);
    }
    rows = em_edges_unless(e, rows_short(g, x, cv), rows);
    LLVMValueRef lo = rows_at_edge(g, x, cv, false, rows.first, has_last);
    struct em_range rest = em_range(e, em_most(e, lo, has_first.lo), mine.hi);
    LLVMValueRef hi = rows_at_edge(g, x, cv, true, rows.last, rest);
    g->rows = em_range(e, lo, hi);
    whole_rows(g, x, cv);
    g->rows = mine;
}

static void rows(struct cg *g, LLVMValueRef x, int cv)
{
    if (g->c.late_rows)
        rows_late(g, x, cv);
    else if (g->c.nrowguards)
        rows_guarded(g, x, cv);
    else
        whole_rows(g, x, cv);
}

/* Rows of the last tile, where tiles cut the rows. */
static int64_t last_tile_rows(const struct cg *g)
{
    const struct kn_kernel *k = g->c.k;
    int64_t tile = 0, inner = 1;
    for (int d = k->ndims - 1; d >= 0; d--)
        if (g->c.collapsed >> d & 1) {
            tile = k->schedule.tile[d] * inner;
            inner *= ir_const_or(k->dims[d].extent, 1);
        }
    return tile ? g->c.nrows - (g->c.nrows - 1) / tile * tile : g->c.nrows;
}

/* Whole blocks but for the last, which shares its rows with those that are left. */
static void rows_shared(struct cg *g, LLVMValueRef x, int cv, struct em_parts tiles)
{
    struct em *e = g->e;
    struct em_loop l;
    struct em_if f;
    int both = g->mr + (int)(g->c.nrows % g->mr), first = (both + 1) / 2;
    LLVMValueRef whole = tiles.whole.hi, ends = LLVMBuildICmp(e->b, LLVMIntSLT, tiles.rest.lo, tiles.rest.hi, "");
    LLVMValueRef till = LLVMBuildSelect(e->b, ends, LLVMBuildSub(e->b, whole, em_i64(e, g->mr), ""), whole, "");
    em_loop_begin(e, &l, em_range(e, tiles.whole.lo, till), em_i64(e, g->mr), "rows");
    cg_micro(g, x, l.iv, g->mr, cv, CG_ALL_ROWS);
    em_loop_end(e, &l);
    em_if_begin(e, &f, ends);
    cg_micro(g, x, till, first, cv, CG_ALL_ROWS);
    cg_micro(g, x, LLVMBuildAdd(e->b, till, em_i64(e, first), ""), both - first, cv, CG_ALL_ROWS);
    em_if_end(e, &f);
}

static void whole_rows(struct cg *g, LLVMValueRef x, int cv)
{
    struct em *e = g->e;
    struct em_loop l;
    struct em_if f;
    if (g->c.nrows == 1 && !g->c.late_rows) {
        cg_micro(g, x, g->rows.lo, 1, cv, CG_ALL_ROWS);
        return;
    }
    if (g->c.nrows == CT_DYN || g->c.late_rows) {
        unknown_rows(g, x, cv);
        return;
    }
    struct em_parts tiles = em_tiles(e, g->rows, g->mr);
    if (ct_shared_rest(&g->c, g->mr) && last_tile_rows(g) > g->mr) {
        rows_shared(g, x, cv, tiles);
        return;
    }
    em_loop_begin(e, &l, tiles.whole, em_i64(e, g->mr), "rows");
    cg_micro(g, x, l.iv, g->mr, cv, CG_ALL_ROWS);
    em_loop_end(e, &l);
    if (MUTANT(164, g->c.nrows % g->mr, 0)) {
        /* Tiles hold whole blocks, but for the last tile. */
        em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSLT, tiles.rest.lo, tiles.rest.hi, ""));
        cg_micro(g, x, tiles.rest.lo, (int)(g->c.nrows % g->mr), cv, CG_ALL_ROWS);
        em_if_end(e, &f);
    }
}

/* -- Columns and tiles ---------------------------------------------------------------------------------- */

static void column_tile(struct cg *g, const struct em_tiles *t, LLVMValueRef x, LLVMValueRef x_end, int cv)
{
    struct em *e = g->e;
    struct dim_loops l;
    struct em_loop groups;
    struct em_range all = g->rows;
    bool by_group = g->packed_b && g->c.period;
    if (by_group) {
        LLVMValueRef period = em_i64(e, g->c.period);
        em_loop_begin(e, &groups, all, period, "group");
        g->rows = em_first(e, all, groups.iv, period);
        cg_bind_row(g, groups.iv);
    }
    if (g->packed_b)
        cg_pack_b(g, x, x_end, cv);
    if (g->c.columns_first && em_cpu(e)->dot_bytes_signed)
        cg_column_sums(g, x, cv);
    dims_begin(g, &l, t, g->packed_a ? 0 : g->c.extra_m);
    rows(g, x, cv);
    dims_end(g, &l);
    if (by_group)
        em_loop_end(e, &groups);
    g->rows = all;
}

/* Lane masks of a column tile of `cols` columns (constant), or of hi - x columns. */
static void set_masks(struct cg *g, LLVMValueRef x, LLVMValueRef hi, int64_t cols)
{
    struct em *e = g->e;
    for (int c = 0; c < g->cv; c++) {
        int64_t left = cols - (int64_t)c * g->lanes;
        g->mask[c] = NULL;
        if (hi)
            g->mask[c] = em_tail_mask(
                e, LLVMBuildSub(e->b, hi, LLVMBuildAdd(e->b, x, em_i64(e, (int64_t)c * g->lanes), ""), ""), g->lanes);
        else if (left > 0 && left < g->lanes)
            g->mask[c] = em_tail_mask(e, em_i64(e, left), g->lanes);
    }
}

/* Range of a loop that runs over several dims as one: tiles cut the outermost of them. */
static struct em_range joined_range(struct cg *g, const struct em_tiles *t, uint32_t dims)
{
    struct em *e = g->e;
    ir_expr inner = ir_const(e->ctx, 1);
    int d = 0;
    while (!(dims >> d & 1))
        d++;
    for (int i = d + 1; i < e->k->ndims; i++)
        if (dims >> i & 1)
            inner = ir_mul(e->ctx, inner, e->k->dims[i].extent);
    return em_scale(e, t->at[d], em_expr(e, inner));
}

/* The column tile that ends with the last columns that are wanted, of `own` columns, and what pads the block behind
 * it. */
static void padded_tile(struct cg *g, const struct em_tiles *t, LLVMValueRef hi, int64_t own)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef x = em_i64(e, g->c.live - own);
    em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSLT, x, hi, ""));
    set_masks(g, NULL, NULL, (int64_t)CPU_TILE_VECTORS * g->lanes);
    g->padding = (int)((g->c.ncols - g->c.live) / g->lanes);
    column_tile(g, t, x, hi, (int)(own / g->lanes));
    g->padding = 0;
    em_if_end(e, &f);
}

static void columns(struct cg *g, const struct em_tiles *t)
{
    struct em *e = g->e;
    int64_t nr = (int64_t)g->cv * g->lanes, n = g->c.ncols;
    struct em_loop l;
    struct em_if f;
    struct em_range all =
        g->c.block >= 0 ? em_scale(e, t->at[g->c.block], em_i64(e, g->c.width)) : joined_range(g, t, g->c.columns);
    int64_t padding = n == CT_DYN ? 0 : n - g->c.live, own = g->c.live % nr ? g->c.live % nr : nr;
    int64_t vectors = (own + padding) / g->lanes;
    if (padding && vectors <= CPU_TILE_VECTORS && g->mr * vectors <= CPU_TILE_SUMS) { /* asked schedules */
        padded_tile(g, t, all.hi, own);
        n = g->c.live - own;
        all = em_cut(e, all, em_below(e, em_i64(e, n)));
    }
    struct em_parts tiles = em_tiles(e, all, nr);
    LLVMValueRef whole = tiles.rest.lo, hi = all.hi;
    if (n == CT_DYN || n >= nr) {
        em_loop_begin(e, &l, tiles.whole, em_i64(e, nr), "cols");
        set_masks(g, NULL, NULL, nr);
        column_tile(g, t, l.iv, hi, g->cv);
        em_loop_end(e, &l);
    }
    if (n != CT_DYN && n % nr == 0)
        return;
    em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSLT, whole, hi, ""));
    if (n == CT_DYN) {
        set_masks(g, whole, hi, 0);
        column_tile(g, t, whole, hi, g->cv);
    } else {
        set_masks(g, NULL, NULL, n % nr);
        column_tile(g, t, whole, hi, (int)((n % nr + g->lanes - 1) / g->lanes));
    }
    em_if_end(e, &f);
}

/*
 * Vectors of columns that a tile takes at a time where it turns out to have one row, as batches that are left open
 * often do; 0: it goes the way of all others. A register tile of many rows has two vectors, and two sums of a single
 * row would wait for each other; multiply-adds read B where it lies, and all registers are sums.
 */
static int one_row_vectors(const struct cg *g)
{
    const struct cpu_machine *m = em_cpu(g->e);
    const struct ct *c = &g->c;
    if (!ct_b_in_place(m, c) || c->nrows != CT_DYN || c->ncols == CT_DYN || c->pack_a || c->nguards || c->nrowguards ||
        c->period || c->block >= 0 || c->columns != 1u << c->vec || c->live != c->ncols || g->by_passes)
        return 0;
    int64_t tile = c->k->schedule.tile[c->vec];
    int cv = CPU_TILE_VECTORS;
    while (cv > g->cv && (c->ncols < (int64_t)cv * g->lanes || (c->panel && (int64_t)cv * g->lanes % c->panel) ||
                          tile % ((int64_t)cv * g->lanes)))
        cv--;
    return cv > g->cv ? cv : 0;
}

/* All columns of a tile: where rows are few, by code of their own. */
static void columns_by_rows(struct cg *g, const struct em_tiles *t)
{
    struct em *e = g->e;
    struct em_if f;
    struct cg few = *g;
    int cv = one_row_vectors(g);
    bool copies = g->c.copy_from && g->c.nrows == CT_DYN;
    if (!cv && !copies) {
        columns(g, t);
        return;
    }
    if (cv) {
        few.mr = 1;
        few.cv = cv;
    }
    few.packed_b = NULL;
    LLVMValueRef most = em_i64(e, cv ? 1 : g->c.copy_from - 1);
    LLVMValueRef are = LLVMBuildICmp(e->b, LLVMIntSLE, em_length(e, g->rows), most, "");
    em_if_begin(e, &f, are);
    columns(&few, t);
    em_if_end(e, &f);
    em_if_begin(e, &f, LLVMBuildNot(e->b, are, ""));
    columns(g, t);
    em_if_end(e, &f);
}

/* Instructions after the sum whose value differs between the rows of one column, and their rough cost. */
static void study_epilogue(struct cg *g)
{
    const struct kn_kernel *k = g->c.k;
    bool functions = false, by_itself = false;
    g->by_row = IR_NEWN(g->e->ctx, k->ninsns, bool);
    for (int i = kn_main_stage(k)->last; i < k->ninsns; i++) {
        const struct kn_insn *in = &k->insns[i];
        bool by = in->code == KN_STORE || in->code == KN_INDEX;
        for (int a = 0; a < in->nargs; a++)
            by |= in->arg[a] >= 0 && (in->arg[a] == k->roles.contraction.reduce || g->by_row[in->arg[a]]);
        for (int d = 0; d < k->ndims; d++)
            by |= (g->c.collapsed >> d & 1) && kn_insn_uses(in, k->dims[d].var);
        for (int j = kn_main_stage(k)->last; j < i; j++)
            by |= g->by_row[j] && k->insns[j].code == KN_INDEX && kn_insn_uses(in, k->insns[j].expr);
        g->by_row[i] = by;
        bool function = in->code == KN_SCALAR && in->op > IR_sqrt && in->op < IR_and;
        if (by)
            g->epilogue_cost += function ? 30 : 2;
        functions |= by && function;
        by_itself |= in->code == KN_INDEX || (in->code == KN_LOAD && in->nargs);
    }
    g->joined = functions && !by_itself;
}

/* A pass over the tile with kc points of the sum's outermost loop: what they need of A and B stays in cache for it. A
 * sum over nothing takes a pass, too, which begins it. */
static void pass_begin(struct cg *g, int kc, struct em_loop *l)
{
    struct em *e = g->e;
    LLVMValueRef n = em_expr(e, g->c.ks[0].extent), step = em_i64(e, kc);
    LLVMValueRef some = em_expr(e, ir_max(e->ctx, g->c.ks[0].extent, ir_const(e->ctx, MUTANT(348, 1, 0))));
    em_loop_begin(e, l, em_below(e, some), step, "pass");
    g->sum = em_first(e, em_below(e, n), l->iv, step);
    g->by_passes = true;
    g->sum_begun = ir_fresh(g->c.ctx, "pass", 0, INT64_C(1) << 40);
    em_bind(e, g->sum_begun, l->iv);
}

/* Are lanes of columns points n * lanes ... of the vector dim? */
static bool columns_aligned(const struct ct *c)
{
    if (c->block >= 0)
        return c->width % c->lanes == 0;
    return c->columns == 1u << c->vec && c->k->schedule.tile[c->vec] % c->lanes == 0;
}

void ct_emit(struct em *e)
{
    struct cg g = {.e = e};
    struct em_tiles t;
    struct dim_loops l;
    const struct kn_kernel *k = e->k;
    if (!ct_analyse(em_cpu(e)->planned, e->ctx, k, &g.c))
        return; /* cannot be: its schedule said that it can */
    struct cpu_schedule s = cpu_get_schedule(k);
    g.lanes = g.c.lanes = s.width;
    g.mr = s.mr;
    g.cv = s.nr / g.lanes;
    g.elem = em_reg_type(e, g.c.dtype);
    g.vec = em_vec(g.elem, g.lanes);
    g.unit = g.c.depth == 1 ? g.elem : g.c.dtype == TCC_I32 ? e->t_i8 : e->t_i16;
    g.per_step = g.c.depth;
    g.packed_step = g.c.halves ? 2 * g.per_step : g.per_step;
    g.a_ld = ct_packed_a_ld(&g.c);
    e->aligned = false; /* lanes of rows and of the sum's points are not; those of columns say so (cg_column_lanes()) */
    g.aligned = columns_aligned(&g.c);
    study_epilogue(&g);
    e->flush =
        g.c.depth > 1 && g.c.dtype == TCC_F32 && !ct_half(&g.c) && e->level > 0 && !e->exact; /* as VDPBF16PS does */
    LLVMValueRef scratch = g.c.pack_a || g.c.pack_b ? em_scratch_after_locals(e) : NULL;
    if (g.c.pack_b)
        g.packed_b = scratch;
    if (g.c.pack_a) {
        ir_expr b = ir_mulc(e->ctx, g.c.ksize, g.c.pack_b ? s.nr * tcc_dtype_bytes(g.c.dtype) : 0);
        b = ir_mulc(e->ctx, ir_ceildiv(e->ctx, b, ir_const(e->ctx, 64)), 64);
        LLVMValueRef bytes = em_expr(e, b);
        g.packed_a = LLVMBuildGEP2(e->b, e->t_i8, scratch, &bytes, 1, "");
    }
    em_tiles_begin(e, &t);
    g.rows = g.c.collapsed ? joined_range(&g, &t, g.c.collapsed) : em_below(e, em_i64(e, 1));
    g.packed_row = g.rows.lo;
    struct em_loop passes;
    bool by_passes = s.kc > 0;
    if (by_passes)
        pass_begin(&g, s.kc, &passes);
    dims_begin(&g, &l, &t, g.c.batch | g.c.extra_n | (g.packed_a ? g.c.extra_m : 0));
    if (g.packed_a)
        cg_pack_a(&g);
    columns_by_rows(&g, &t);
    dims_end(&g, &l);
    if (by_passes)
        em_loop_end(e, &passes);
    em_tiles_end(e, &t);
    e->flush = false;
}
