/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain loop nests: any kernel as loops over its dims, one of them in vector lanes.
 *
 * An outer vector dim: lanes are outer points; the loop over it is the innermost of the outer loops and all stages run
 * inside it; local operands hold a row per lane. An inner vector dim: stages run one after the other for each outer
 * point, each in lanes along that dim (or along its own last dim), reductions keep a vector of partial results, and
 * long sums are taken in parts of about SUM_PART terms, so that rounding errors stay those of short ones. Without a
 * vector dim: single points, which is right for every kernel (and is what -O0 uses).
 *
 * A split kernel is two nests in one function, chosen by the tiles that it is called for. Pieces are combined in an
 * array on the stack.
 */
#include "compiler/emit/loops.h"

#include "base/mutant.h"

#define V LLVMValueRef

/* Points of an inner dim that a stage runs along, where they are known; those of a piece. */
static bool points_known(const struct em *e, int dim, int64_t *n)
{
    const struct kn_kernel *k = e->k;
    return ir_is_const(em_is_piece(k, dim) && !e->combining ? k->split.step : k->dims[dim].extent, n);
}

struct em_range loops_bounds(struct em *e, int dim)
{
    struct em_range all = em_points(e, dim);
    if (!em_is_piece(e->k, dim) || e->combining)
        return all;
    V step = em_expr(e, e->k->split.step), first = LLVMBuildNSWMul(e->b, em_expr(e, e->k->dims[0].var), step, "");
    return em_cut(e, all, em_range(e, first, LLVMBuildNSWAdd(e->b, first, step, "")));
}

/* -- Stages ------------------------------------------------------------------------------------------ */

#define MAX_REDUCTIONS 64
#define SUM_PART 256

struct stage_run {
    struct em *e;
    const struct kn_stage *s;
    int lane_dim; /* inner dim in lanes, or -1 */
    struct loops_segments segments;
    int part_dim; /* inner dim that parts of sums are cut from, or -1 */
    int64_t part; /* its points a part */
    int rows; /* points of the outer dim row_dim that run side by side, from first_row on; 1: the one that is bound */
    int row_dim;
    V first_row;
    int nreductions; /* of all rows, those of a row one after the other */
    struct loops_acc acc[MAX_REDUCTIONS][LOOPS_MAX_SEGMENTS];
};

static void bind_row(struct em *e, int dim, V first, int row)
{
    em_bind(e, e->k->dims[dim].var, row ? LLVMBuildNSWAdd(e->b, first, em_i64(e, row), "") : first);
}

/*
 * Where the rows' vectors of an operand lie behind each other, the whole is read from front to end, faster than a
 * processor fetches by itself past the end of a page: lines that come AHEAD bytes later are asked for.
 */
static void fetch_ahead(struct stage_run *r, int segment)
{
    enum { AHEAD = 4096, LINE = 64 };
    struct em *e = r->e;
    const struct kn_kernel *k = e->k;
    int64_t lanes = r->segments.at[segment].lanes;
    for (int i = r->s->first; i < r->s->last && r->lane_dim >= 0; i++) {
        const struct kn_insn *n = &k->insns[i];
        ir_expr along, beside, rest;
        if (n->code != KN_LOAD)
            continue;
        ir_expr at = em_offset(e, n->operand, n->index);
        int64_t size = tcc_dtype_bytes((enum tcc_dtype)k->operands[n->operand].dtype), bytes = r->rows * lanes * size;
        if (!ir_linear_in(e->ctx, at, k->dims[r->lane_dim].var, &along, &rest) || !ir_is_value(along, 1) ||
            !ir_linear_in(e->ctx, at, k->dims[r->row_dim].var, &beside, &rest) || ir_const_or(beside, 0) != lanes)
            continue;
        bind_row(e, r->row_dim, r->first_row, 0);
        V first = em_address(e, n->operand, em_expr(e, at));
        for (int64_t line = 0; line < bytes; line += LINE) {
            V ahead = em_i64(e, AHEAD + line);
            em_prefetch(e, LLVMBuildGEP2(e->b, e->t_i8, first, &ahead, 1, ""), 3);
        }
    }
}

/* The body at one point (or one vector of points) of the inner dims. */
static void run_body(struct stage_run *r, int segment)
{
    struct em *e = r->e;
    int reduction = 0;
    for (int row = 0; row < r->rows; row++) {
        if (r->rows > 1)
            bind_row(e, r->row_dim, r->first_row, row);
        em_forget(e, r->s->first, r->s->last);
        for (int i = r->s->first; i < r->s->last; i++) {
            if (loops_is_reduction(&e->k->insns[i]))
                loops_acc_step(e, &r->acc[reduction++][segment]);
            else
                em_insn(e, i);
        }
    }
    if (r->rows > 1)
        fetch_ahead(r, segment);
}

static void segment_body(void *user, int segment)
{
    run_body(user, segment);
}

static void end_part(struct stage_run *r)
{
    for (int i = 0; i < r->nreductions; i++)
        for (int j = 0; j < r->segments.n; j++)
            if (r->acc[i][j].total)
                loops_acc_end_part(r->e, &r->acc[i][j]);
}

/* Calls loop(r, dim, points) for all of an inner dim; where parts are cut from it for one after the other. */
static void in_parts(struct stage_run *r, int dim, void (*loop)(struct stage_run *, int, struct em_range))
{
    struct em *e = r->e;
    struct em_loop l;
    struct em_range all = loops_bounds(e, dim);
    if (dim != r->part_dim) {
        loop(r, dim, all);
        return;
    }
    em_loop_begin(e, &l, all, em_i64(e, r->part), "part");
    loop(r, dim, em_first(e, all, l.iv, em_i64(e, r->part)));
    end_part(r);
    em_loop_end(e, &l);
}

static void run_lane_dim(struct stage_run *r, int dim, struct em_range points)
{
    loops_run_segments(r->e, &r->segments, dim, points, segment_body, r);
}

static void run_inner(struct stage_run *r, int dim);

static void run_dim(struct stage_run *r, int dim, struct em_range points)
{
    struct em_loop l;
    em_loop_begin(r->e, &l, points, em_i64(r->e, 1), "i");
    em_bind(r->e, r->e->k->dims[dim].var, l.iv);
    run_inner(r, dim + 1);
    em_loop_end(r->e, &l);
}

/* Loops over the stage's inner dims from `dim` on; the one in lanes is innermost. */
static void run_inner(struct stage_run *r, int dim)
{
    while (dim < r->e->k->ndims && (!(r->s->inner >> dim & 1) || dim == r->lane_dim))
        dim++;
    if (dim < r->e->k->ndims)
        in_parts(r, dim, run_dim);
    else if (r->lane_dim >= 0)
        in_parts(r, r->lane_dim, run_lane_dim);
    else
        run_body(r, 0);
}

/* Parts are cut from the outermost loop of which a point is no more than a part; false: sums are short. */
static bool plan_parts(struct stage_run *r)
{
    const struct kn_kernel *k = r->e->k;
    struct em_nest s = r->e->nest;
    int64_t inner = 1, n = 0;
    r->part_dim = -1;
    for (int i = -1; i < k->ndims; i++) {
        int dim = i < 0 ? r->lane_dim : k->ndims - 1 - i;
        if (dim < 0 || !(r->s->inner >> dim & 1) || (i >= 0 && dim == r->lane_dim))
            continue;
        int64_t lanes = i < 0 ? s.width * s.unroll : 1;
        bool known = points_known(r->e, dim, &n);
        n = known ? (n + lanes - 1) / lanes : INT32_MAX;
        r->part_dim = dim;
        r->part = SUM_PART / inner * lanes;
        if (inner * n > SUM_PART)
            return inner * n >= SUM_PART + SUM_PART / 2;
        inner *= MUTANT(350, n > 1 ? n : 1, n); /* of an empty axis, too: it divides */
    }
    return false;
}

/* The dim that a stage runs in lanes when the kernel's vector dim is an inner one; -1: none. */
static int loops_stage_dim(const struct kn_kernel *k, struct em_nest nest, const struct kn_stage *s)
{
    int vector = nest.vector;
    if (vector < 0 || k->dims[vector].role != KN_INNER || nest.width <= 1 || !s->inner ||
        kn_stage_has(k, s, KN_BIT(KN_SCAN)))
        return -1;
    return s->inner >> vector & 1 ? vector : 31 - __builtin_clz(s->inner);
}

/* -- Pieces --------------------------------------------------------------------------------------------- */

/* What one reduction combines: an element of the array for each piece, and of another for extremes' positions. */
struct pieces {
    struct loops_acc acc;
    V array, positions;
    LLVMTypeRef type, index_type;
};

static V element(struct em *e, LLVMTypeRef type, V array, V index)
{
    return LLVMBuildInBoundsGEP2(e->b, type, array, &index, 1, "");
}

static void piece_get(struct em *e, const struct pieces *p, V index, V *value, V *position)
{
    *value = LLVMBuildLoad2(e->b, p->type, element(e, p->type, p->array, index), "");
    *position =
        p->positions ? LLVMBuildLoad2(e->b, p->index_type, element(e, p->index_type, p->positions, index), "") : NULL;
}

static void piece_set(struct em *e, const struct pieces *p, V index, V value, V position)
{
    LLVMBuildStore(e->b, value, element(e, p->type, p->array, index));
    if (position)
        LLVMBuildStore(e->b, position, element(e, p->index_type, p->positions, index));
}

static void pieces_begin(struct em *e, struct pieces *p, int insn, int64_t n)
{
    V value, position;
    loops_acc_init(e, &p->acc, insn, e->lanes);
    loops_acc_get(e, &p->acc, &value, &position);
    p->type = LLVMTypeOf(value);
    p->array = em_alloca(e, p->type, n, 64);
    p->index_type = em_vec(e->t_i64, e->lanes);
    p->positions = position ? em_alloca(e, p->index_type, n, 64) : NULL;
}

/* The current piece's value into the array. */
static void piece_step(struct em *e, const struct pieces *p, V index)
{
    const struct kn_insn *n = &e->k->insns[p->acc.insn];
    V value = e->value[n->arg[0]], position = p->positions ? e->value[n->arg[1]] : NULL;
    if (position)
        position = em_cast(e, TCC_I64, (enum tcc_dtype)e->k->insns[n->arg[1]].dtype, position);
    else
        value = em_cast(e, (enum tcc_dtype)n->dtype, (enum tcc_dtype)e->k->insns[n->arg[0]].dtype, value);
    LLVMValueRef position_lanes = position ? em_splat(e, position, e->lanes) : NULL;
    piece_set(e, p, index, em_splat(e, value, e->lanes), position_lanes);
}

static void piece_merge(struct em *e, struct pieces *p, V index, V other)
{
    V value, position;
    piece_get(e, p, index, &value, &position);
    loops_acc_set(e, &p->acc, value, position);
    piece_get(e, p, other, &value, &position);
    loops_acc_merge(e, &p->acc, value, position);
    loops_acc_get(e, &p->acc, &value, &position);
    piece_set(e, p, index, value, position);
}

/* The stage that combines pieces: each one's value into arrays, then the second half of an array into the first until
 * one is left. */
static void run_combine(struct em *e, const struct kn_stage *s)
{
    const struct kn_kernel *k = e->k;
    struct pieces p[MAX_REDUCTIONS];
    int64_t n = 0;
    int count = 0;
    ir_is_const(k->dims[0].extent, &n);
    for (int i = s->first; i < s->last; i++)
        if (loops_is_reduction(&k->insns[i]))
            pieces_begin(e, &p[count++], i, n);
    struct em_loop l;
    em_loop_begin(e, &l, em_below(e, em_i64(e, n)), em_i64(e, 1), "piece");
    em_bind(e, k->dims[0].var, l.iv);
    em_forget(e, s->first, s->last);
    for (int i = s->first, j = 0; i < s->last; i++) {
        if (loops_is_reduction(&k->insns[i]))
            piece_step(e, &p[j++], l.iv);
        else
            em_insn(e, i);
    }
    em_loop_end(e, &l);
    for (int64_t half = n / 2; half > 0; half /= 2) {
        em_loop_begin(e, &l, em_below(e, em_i64(e, half)), em_i64(e, 1), "tree");
        for (int j = 0; j < count; j++)
            piece_merge(e, &p[j], l.iv, LLVMBuildAdd(e->b, l.iv, em_i64(e, half), ""));
        em_loop_end(e, &l);
    }
    em_forget(e, s->first, s->last);
    for (int j = 0; j < count; j++) {
        V value, position;
        piece_get(e, &p[j], em_i64(e, 0), &value, &position);
        loops_acc_set(e, &p[j].acc, value, position);
        e->value[p[j].acc.insn] = loops_acc_result(e, &p[j].acc, 1, false);
    }
}

/* The accumulators of one row's reductions. */
static void begin_row(struct stage_run *r, bool parts)
{
    struct em *e = r->e;
    for (int i = r->s->first; i < r->s->last; i++) {
        const struct kn_insn *n = &e->k->insns[i];
        if (!loops_is_reduction(n))
            continue;
        for (int j = 0; j < r->segments.n; j++) {
            struct loops_acc *a = &r->acc[r->nreductions][j];
            loops_acc_init(e, a, i, r->segments.at[j].lanes);
            if (parts && loops_in_parts(n))
                loops_acc_parts(e, a);
        }
        r->nreductions++;
    }
}

/* A stage with inner dims, of r->rows rows at a time: leaves each reduction's sums in r->acc. */
static void run_reductions(struct stage_run *r)
{
    struct em *e = r->e;
    const struct kn_stage *s = r->s;
    r->lane_dim = loops_stage_dim(e->k, e->nest, s);
    r->segments.n = 1;
    r->segments.at[0].lanes = e->lanes;
    if (r->lane_dim >= 0) {
        int64_t counts[3] = {0}, extent;
        int known = points_known(e, r->lane_dim, &counts[0]);
        if (known && em_is_piece(e->k, r->lane_dim) && !e->combining) { /* the last pieces have fewer, or none */
            known = ir_is_const(e->k->dims[r->lane_dim].extent, &extent) ? 2 : 0;
            counts[1] = known && counts[0] ? extent % counts[0] : 0;
        }
        r->segments = loops_segments(e, e->nest.width, e->nest.unroll, known, counts);
    }
    bool parts = plan_parts(r), sums = false;
    for (int i = s->first; i < s->last; i++)
        sums |= loops_in_parts(&e->k->insns[i]);
    for (int row = 0; row < r->rows; row++)
        begin_row(r, parts);
    if (!parts || !sums)
        r->part_dim = -1;
    bool aligned = e->aligned;
    int64_t step;
    if (r->lane_dim >= 0 && em_is_piece(e->k, r->lane_dim) && !e->combining)
        e->aligned = ir_is_const(e->k->split.step, &step) && step % (e->nest.width * e->nest.unroll) == 0;
    run_inner(r, 0);
    e->aligned = aligned;
    em_forget(e, s->first, s->last);
}

static void take_result(struct stage_run *r, int i)
{
    V extreme = loops_acc_extreme(r->acc[0], LOOPS_MAX_SEGMENTS, i);
    r->e->value[r->acc[i][0].insn] =
        extreme ? extreme : loops_acc_result(r->e, r->acc[i], r->segments.n, r->lane_dim >= 0);
}

void loops_run_stage(struct em *e, const struct kn_stage *s)
{
    struct stage_run *r = IR_NEW(e->ctx, struct stage_run);
    if (!s->inner) {
        em_insns(e, s->first, s->last);
        return;
    }
    if (e->combining && s == &e->k->stages[e->k->split.combine]) {
        run_combine(e, s);
        return;
    }
    *r = (struct stage_run){.e = e, .s = s, .rows = 1};
    run_reductions(r);
    for (int i = 0; i < r->nreductions; i++)
        take_result(r, i);
}

int loops_row_dim(const struct kn_kernel *k, struct em_nest nest)
{
    int dim = em_nouter(k) - 1, sums = 0;
    if (nest.rows < 2 || nest.vector < 0 || k->dims[nest.vector].role != KN_INNER || dim < 0 || k->split.combine ||
        !k->stages[0].inner || k->dims[dim].role != KN_OUTER || kn_has_operand(k, KN_BIT(KN_LOCAL)) ||
        kn_has(k, KN_BIT(KN_ARGREDUCE) | KN_BIT(KN_SCAN) | KN_BIT(KN_SORT) | KN_BIT(KN_INDEX)) ||
        kn_stage_has(k, &k->stages[0], KN_BIT(KN_STORE)))
        return -1;
    for (int s = 1; s < k->nstages; s++)
        if (k->stages[s].inner || k->stages[s].repeat)
            return -1;
    for (int i = 0; i < k->ninsns; i++)
        sums += k->insns[i].code == KN_REDUCE;
    return sums && sums * nest.rows <= MAX_REDUCTIONS ? dim : -1;
}

/* All stages at nest.rows points of an outer dim from `first` on: the sums of the first stage side by side, then what
 * becomes of each. */
static void run_rows(struct em *e, int dim, V first)
{
    struct stage_run *r = IR_NEW(e->ctx, struct stage_run);
    *r = (struct stage_run){.e = e, .s = &e->k->stages[0], .rows = e->nest.rows, .row_dim = dim, .first_row = first};
    em_forget(e, 0, e->k->ninsns);
    run_reductions(r);
    for (int row = 0, per = r->nreductions / r->rows; row < r->rows; row++) {
        bind_row(e, dim, first, row);
        em_forget(e, 0, e->k->ninsns);
        for (int i = 0; i < per; i++)
            take_result(r, row * per + i);
        for (int s = 1; s < e->k->nstages; s++)
            loops_run_stage(e, &e->k->stages[s]);
    }
}

/* Stages [first, last), which repeat along the same dims, at each of their points; those before `dim` are bound. */
static void run_repeated(struct em *e, int first, int last, int dim)
{
    const struct kn_stage *s = &e->k->stages[first];
    struct em_loop l;
    while (dim < e->k->ndims && !(s->repeat >> dim & 1))
        dim++;
    if (dim < e->k->ndims) {
        em_loop_begin(e, &l, em_points(e, dim), em_i64(e, 1), "r");
        em_bind(e, e->k->dims[dim].var, l.iv);
        run_repeated(e, first, last, dim + 1);
        em_loop_end(e, &l);
        return;
    }
    em_forget(e, s->first, e->k->stages[last - 1].last);
    for (int i = first; i < last; i++)
        loops_run_stage(e, &e->k->stages[i]);
}

/* All stages at one outer point, or one vector of them. */
static void run_point(void *user, int segment)
{
    struct em *e = user;
    const struct kn_kernel *k = e->k;
    int combine = k->split.combine, last = combine && !e->combining ? combine : k->nstages;
    (void)segment;
    em_forget(e, 0, k->ninsns);
    for (int i = e->combining ? combine : 0, next; i < last; i = next) {
        next = i + 1;
        while (k->stages[i].repeat && next < last && k->stages[next].repeat == k->stages[i].repeat)
            next++;
        run_repeated(e, i, next, 0);
    }
}

/* -- Outer dims ----------------------------------------------------------------------------------------- */

/* Possible numbers of points of an outer dim in a tile; 0: any number is possible. */
static int tile_counts(const struct kn_kernel *k, int dim, int64_t *counts)
{
    int64_t extent, tile = k->schedule.tile[dim];
    if (!ir_is_const(k->dims[dim].extent, &extent))
        return 0;
    if (tile <= 0 || tile > extent)
        tile = extent;
    counts[0] = tile;
    counts[1] = tile ? extent % tile : 0;
    return counts[1] ? 2 : 1;
}

struct outer_run {
    struct em *e;
    const struct em_tiles *t;
    int lane_dim, transpose_dim, interleave_dim, row_dim;
    struct loops_segments segments;
};

/* The points of the dim between which stores alternate, where there are no lanes. */
static void run_alternating(struct outer_run *r, int segment)
{
    struct em_loop l;
    int v = r->interleave_dim;
    em_loop_begin(r->e, &l, r->t->at[v], em_i64(r->e, 1), "o");
    em_bind(r->e, r->e->k->dims[v].var, l.iv);
    run_point(r->e, segment);
    em_loop_end(r->e, &l);
}

static void outer_segment(void *user, int segment)
{
    struct outer_run *r = user;
    int u = r->transpose_dim;
    if (u >= 0)
        loops_run_transposed(r->e, u, r->t, r->segments.at[segment].lanes, run_point, r->e);
    else if (r->interleave_dim >= 0 && r->segments.at[segment].lanes > 1)
        loops_run_interleaved(r->e, r->interleave_dim);
    else if (r->interleave_dim >= 0)
        run_alternating(r, segment);
    else
        run_point(r->e, segment);
}

static void run_lanes(struct outer_run *r)
{
    struct em *e = r->e;
    struct em_nest s = e->nest;
    int64_t counts[2], tile = e->k->schedule.tile[r->lane_dim];
    int ncounts = tile_counts(e->k, r->lane_dim, counts);
    r->segments = loops_segments(e, s.width, s.unroll, ncounts, counts);
    e->aligned = tile <= 0 || tile % (s.width * s.unroll) == 0;
    loops_run_segments(e, &r->segments, r->lane_dim, r->t->at[r->lane_dim], outer_segment, r);
}

/* Loops over the outer dims from `dim` on; the one in lanes, and what is transposed or interleaved with it, are
 * innermost. */
static void run_outer(struct outer_run *r, int dim)
{
    struct em *e = r->e;
    while (dim < em_nouter(e->k) && (dim == r->lane_dim || dim == r->transpose_dim || dim == r->interleave_dim))
        dim++;
    if (dim >= em_nouter(e->k)) {
        if (r->lane_dim < 0)
            run_point(e, 0);
        else
            run_lanes(r);
        return;
    }
    struct em_loop l;
    struct em_range points = r->t->at[dim];
    if (dim == r->row_dim) {
        struct em_parts rows = em_tiles(e, points, e->nest.rows);
        em_loop_begin(e, &l, rows.whole, em_i64(e, e->nest.rows), "rows");
        run_rows(e, dim, l.iv);
        em_loop_end(e, &l);
        points = rows.rest;
    }
    em_loop_begin(e, &l, points, em_i64(e, 1), "o");
    em_bind(e, e->k->dims[dim].var, l.iv);
    run_outer(r, dim + 1);
    em_loop_end(e, &l);
}

void em_phase(struct em *e, struct em_nest s)
{
    struct em_tiles t;
    bool outer = s.vector >= 0 && e->k->dims[s.vector].role == KN_OUTER && s.width > 1;
    struct outer_run r = {
        .e = e, .t = &t, .lane_dim = outer ? s.vector : -1, .transpose_dim = -1, .interleave_dim = -1};
    if (outer && s.unroll == 1)
        r.transpose_dim = loops_transpose_dim(e->ctx, e->m, e->k, s.vector, s.width);
    if (r.transpose_dim >= 0 && e->k->schedule.tile[r.transpose_dim] % s.width)
        r.transpose_dim = -1;
    if (outer && s.unroll == 1 && r.transpose_dim < 0)
        r.interleave_dim = loops_interleave_dim(e->ctx, e->k, s.vector, s.width);
    if (r.interleave_dim >= 0 && e->k->schedule.tile[r.interleave_dim])
        r.interleave_dim = -1;
    e->nest = s;
    e->aligned = true;
    r.row_dim = loops_row_dim(e->k, s);
    em_tiles_begin(e, &t);
    run_outer(&r, e->combining);
    em_tiles_end(e, &t);
}

void em_loops(struct em *e, struct em_nest s)
{
    e->combining = false;
    if (!e->k->split.combine) {
        em_phase(e, s);
        return;
    }
    struct em_if f;
    V first = LLVMBuildICmp(e->b, LLVMIntSLT, e->first, em_expr(e, e->k->tiles), "");
    em_if_begin(e, &f, first);
    em_phase(e, s);
    em_if_end(e, &f);
    em_if_begin(e, &f, LLVMBuildNot(e->b, first, ""));
    e->combining = true;
    em_phase(e, s);
    e->combining = false;
    em_if_end(e, &f);
}

int loops_local_lanes(const struct kn_kernel *k, struct em_nest s)
{
    bool outer = s.vector >= 0 && k->dims[s.vector].role == KN_OUTER && s.width > 1;
    return outer ? s.width * s.unroll : 1;
}
