/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of the CPU target: which template takes a kernel; and for LOOPS the vector dim, its width, and the parallel
 * grain.
 *
 * The vector dim is the one along which most accesses are consecutive, stores counting more; a dim shorter than a
 * vector counts by the part that it fills. A kernel is cut into sixteen tiles, but into more where they would hold more
 * than MOST_UNITS vector operations (some 10 us), and into fewer where less than LEAST_UNITS: threads share work
 * evenly, also that of a few microseconds, and a launch of a tiny kernel stays on one thread. Everything here is a
 * function of kernel and machine alone.
 */
#include "compiler/cpu/emit_int.h"
#include "compiler/emit/loops.h"

#define MOST_UNITS 24000
#define LEAST_UNITS 4000
#define SCATTER_UNROLL 8
#define UNKNOWN_EXTENT 64 /* guess for extents that depend on symbols */

struct chooser {
    struct ir_ctx *ctx;
    const struct cpu_machine *m;
    struct kn_kernel *k;
    struct cpu_schedule s;
    uint32_t *depends; /* per instruction: dims that its value depends on */
};

/* Points of a dim; of one that is cut, those of a piece. */
static int64_t extent_or(const struct kn_kernel *k, int dim, int64_t otherwise)
{
    return ir_const_or(em_is_piece(k, dim) ? k->split.step : k->dims[dim].extent, otherwise);
}

/* -- What depends on what --------------------------------------------------------------------------- */

struct sym_query {
    const struct chooser *c;
    uint32_t dims;
    int upto;
};

static void visit_sym(void *user, ir_expr sym)
{
    struct sym_query *q = user;
    const struct kn_kernel *k = q->c->k;
    for (int i = 0; i < k->ndims; i++)
        if (k->dims[i].var == sym)
            q->dims |= 1u << i;
    for (int i = 0; i < q->upto; i++)
        if (k->insns[i].code == KN_INDEX && k->insns[i].expr == sym)
            q->dims |= q->c->depends[i] | 1u << 31; /* bit 31: through a gathered index */
}

static uint32_t expr_dims(const struct chooser *c, ir_expr x, int upto)
{
    struct sym_query q = {c, 0, upto};
    ir_each_sym(x, visit_sym, &q);
    return q.dims;
}

static void find_dependences(struct chooser *c)
{
    const struct kn_kernel *k = c->k;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        uint32_t dims = 0;
        for (int j = 0; j < n->nargs; j++)
            if (n->arg[j] >= 0)
                dims |= c->depends[n->arg[j]];
        for (int j = 0; j < n->nindex; j++)
            dims |= expr_dims(c, n->index[j], i);
        for (int j = 0; j < n->nguards; j++)
            dims |=
                expr_dims(c, n->guards[j].e, i) | expr_dims(c, n->guards[j].lo, i) | expr_dims(c, n->guards[j].hi, i);
        if (n->code == KN_EXPR)
            dims |= expr_dims(c, n->expr, i);
        c->depends[i] = dims;
    }
}

/* Stride of an access between lanes along `dim`; INT64_MAX: unrelated. */
static int64_t access_stride(const struct chooser *c, int insn, int dim, int width)
{
    const struct kn_insn *n = &c->k->insns[insn];
    ir_expr offset = kn_flat_offset(c->ctx, &c->k->operands[n->operand], n->index), var = c->k->dims[dim].var;
    uint32_t dims = expr_dims(c, offset, insn);
    int64_t stride;
    if (!(dims >> dim & 1))
        return 0;
    if (dims >> 31 && !ir_uses_sym(offset, var))
        return INT64_MAX;
    if (em_lane_stride(c->ctx, offset, var, width, true, &stride))
        return stride;
    return INT64_MAX;
}

/* -- Width ------------------------------------------------------------------------------------------------ */

/* Bytes of the elements that the kernel computes with: the widest float, or the widest stored type. */
static int element_bytes(const struct kn_kernel *k)
{
    int floats = 0, stored = 1;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        enum tcc_dtype d = (enum tcc_dtype)n->dtype;
        if (tcc_is_float(d) && n->code == KN_SCALAR) {
            int bytes = d == TCC_F64 ? 8 : 4;
            floats = bytes > floats ? bytes : floats;
        }
        int bytes = n->code == KN_STORE || n->code == KN_REDUCE ? tcc_dtype_bytes(d) : 1;
        if (tcc_small_float(d) && bytes > 1)
            bytes = 4;
        stored = bytes > stored ? bytes : stored;
    }
    return floats ? floats : stored > 8 ? 8 : stored;
}

/* Lanes for a dim of `extent` points: the machine's, or fewer for a short dim. */
static int fit_width(const struct cpu_machine *m, int lanes, int64_t extent)
{
    if (m->emit.masks) {
        while (lanes > 4 && lanes / 2 >= extent)
            lanes /= 2;
    } else {
        while (lanes > 1 && lanes > extent)
            lanes /= 2;
    }
    return lanes;
}

/* -- Vector dim ---------------------------------------------------------------------------------------------- */

#define TRANSPOSED_SCORE 0.5 /* of a load of blocks that are transposed in registers */

static double access_score(int64_t stride, bool store)
{
    if (stride == 1)
        return store ? 4 : 2.5;
    if (stride == 0)
        return store ? -6 : 1;
    return store ? -8 : stride == -1 ? 1 : -4;
}

/* Is the instruction in a stage that has inner dim `dim`? */
static bool in_lanes(const struct kn_kernel *k, int insn, int dim)
{
    for (int s = 0; s < k->nstages; s++)
        if (insn >= k->stages[s].first && insn < k->stages[s].last)
            return k->stages[s].inner >> dim & 1;
    return false;
}

static double dim_score(const struct chooser *c, int dim, int lanes)
{
    const struct kn_kernel *k = c->k;
    double score = 0, size = (double)extent_or(k, dim, UNKNOWN_EXTENT);
    bool inner = k->dims[dim].role == KN_INNER;
    int width = fit_width(c->m, lanes, extent_or(k, dim, UNKNOWN_EXTENT)), accesses = 0;
    if (size < 2)
        return -1000;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (inner && !in_lanes(k, i, dim))
            continue;
        bool access = n->code == KN_LOAD || n->code == KN_STORE;
        if (access && k->operands[n->operand].use == KN_PARTIAL)
            continue; /* there are few of them, in single points as well */
        if (access) {
            /* With lanes along an outer dim each local operand has a row of lanes. */
            bool row = !inner && k->operands[n->operand].use == KN_LOCAL;
            score += row ? 1
                     : loops_transposes(c->ctx, &c->m->emit, k, i, dim, width < 16 ? width : 16)
                         ? TRANSPOSED_SCORE
                         : access_score(access_stride(c, i, dim, width), n->code == KN_STORE);
            accesses++;
        }
        if (n->code == KN_SCAN && inner)
            score -= 8;
        if (loops_folds(n) && inner)
            score -= 0.25; /* folding lanes at the end costs something */
    }
    if (inner) /* instructions outside the stages that have the dim run in single points */
        for (int s = 0; s < k->nstages; s++)
            if (k->stages[s].inner && !(k->stages[s].inner >> dim & 1) && (!s || s != k->split.combine))
                score -= 0.5 * (k->stages[s].last - k->stages[s].first);
    double filled = size / (double)(((int64_t)size + width - 1) / width * width) * width / lanes;
    score += accesses ? 0 : 1;
    return score > 0 ? score * (0.25 + 0.75 * filled) : score;
}

/* Does a stage with inner dims store in the order of its points, as a scatter does: by an index that it loads? */
static bool stores_in_order(const struct chooser *c, int *store)
{
    const struct kn_kernel *k = c->k;
    for (int s = 0; s < k->nstages; s++)
        for (int i = k->stages[s].first; i < k->stages[s].last && k->stages[s].inner; i++)
            if (k->insns[i].code == KN_STORE && c->depends[i] >> 31) {
                *store = i;
                return true;
            }
    return false;
}

/* Does an index that is loaded depend on that dim? */
static bool picks_index(const struct chooser *c, int dim)
{
    for (int i = 0; i < c->k->ninsns; i++)
        if (c->k->insns[i].code == KN_INDEX && (c->depends[i] >> dim & 1))
            return true;
    return false;
}

/* Stages that store through a gathered index, or whose lanes would store to one place, must keep their order. */
static bool may_vectorise(const struct chooser *c, int dim)
{
    const struct kn_kernel *k = c->k;
    int store;
    if (k->dims[dim].role == KN_OUTER && kn_has(k, KN_BIT(KN_SORT))) /* of one point's row */
        return false;
    if (k->dims[dim].role == KN_OUTER &&
        stores_in_order(c, &store)) /* what owners scatter to lies side by side, for all lanes by one index */
        return access_stride(c, store, dim, 1) == 1 && !picks_index(c, dim);
    if (k->dims[dim].role == KN_OUTER)
        return true;
    if (k->dims[dim].role == KN_PIECES)
        return false;
    for (int s = 0; s < k->nstages; s++) {
        if (!(k->stages[s].inner >> dim & 1))
            continue;
        for (int i = k->stages[s].first; i < k->stages[s].last; i++) {
            const struct kn_insn *n = &k->insns[i];
            if (n->code == KN_STORE && (c->depends[i] >> 31 || access_stride(c, i, dim, 1) == 0))
                return false;
        }
    }
    return true;
}

static void choose_vector_dim(struct chooser *c)
{
    struct cpu_schedule *s = &c->s;
    int lanes = c->m->emit.vector_bytes / element_bytes(c->k);
    double best = -100;
    if (lanes > 64)
        lanes = 64;
    for (int i = 0; i < c->k->ndims; i++) {
        if (!may_vectorise(c, i))
            continue;
        double score = dim_score(c, i, lanes);
        if (score < best)
            continue;
        best = score;
        s->vector = i;
        s->width = fit_width(c->m, lanes, extent_or(c->k, i, INT32_MAX));
    }
    if (s->width <= 1) {
        s->vector = -1;
        s->width = 1;
    }
}

/* Stores that alternate between the few points of the vector dim: lanes along the dim whose points they are spread
 * over, if loads are as regular along it. */
static void choose_interleaving(struct chooser *c)
{
    struct cpu_schedule *s = &c->s;
    int lanes = c->m->emit.vector_bytes / element_bytes(c->k), last = s->vector;
    for (int u = 0; u < em_nouter(c->k) && last >= 0; u++) {
        int width = fit_width(c->m, lanes < 16 ? lanes : 16, extent_or(c->k, u, INT32_MAX));
        if (u == last || loops_interleave_dim(c->ctx, c->k, u, width) != last)
            continue;
        bool regular = true;
        for (int i = 0; i < c->k->ninsns; i++) {
            int64_t stride = c->k->insns[i].code == KN_LOAD ? access_stride(c, i, u, width) : 0;
            regular = regular && (stride == 0 || stride == 1);
        }
        if (!regular)
            continue;
        s->vector = u;
        s->width = width;
        return;
    }
}

/* -- Work ----------------------------------------------------------------------------------------------------- */

/* Vector operations of one instruction. */
static double insn_units(const struct kn_insn *n)
{
    if (n->code == KN_CONST || n->code == KN_EXPR || n->code == KN_ENV)
        return 0.25;
    if (n->code == KN_INDEX)
        return 4;
    if (n->code != KN_SCALAR)
        return 1;
    switch (n->op) {
    case IR_add:
    case IR_sub:
    case IR_mul:
    case IR_min:
    case IR_max:
    case IR_neg:
    case IR_abs:
    case IR_select: return 1;
    case IR_div:
    case IR_sqrt: return 4;
    case IR_pow:
    case IR_fmod: return 60;
    default: return ir_is_vmath((enum ir_op)n->op) ? 16 : 2;
    }
}

static double stage_points(const struct kn_kernel *k, const struct kn_stage *s)
{
    double points = 1;
    for (int i = 0; i < k->ndims; i++)
        if (s->inner >> i & 1)
            points *= (double)extent_or(k, i, UNKNOWN_EXTENT);
    return points;
}

/* Vector operations per outer point (lanes count as one operation together). */
static double point_units(const struct kn_kernel *k, int width)
{
    double sum = 0;
    for (int s = 0; s < k->nstages; s++) {
        double units = 0;
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            units += insn_units(&k->insns[i]);
        sum += units * stage_points(k, &k->stages[s]);
    }
    return sum / width + 0.05;
}

static bool is_heavy(const struct kn_kernel *k)
{
    double units = 0;
    for (int i = 0; i < k->ninsns; i++)
        units += insn_units(&k->insns[i]);
    return units > 24;
}

/* Are accesses as regular in so many lanes as in one vector? (Not across the blocks of a blocked layout.) */
static bool strides_hold(const struct chooser *c, int dim, int lanes)
{
    for (int i = 0; i < c->k->ninsns; i++) {
        const struct kn_insn *n = &c->k->insns[i];
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        if (access_stride(c, i, dim, lanes) == INT64_MAX && access_stride(c, i, dim, c->s.width) != INT64_MAX)
            return false;
    }
    return true;
}

static void choose_unroll(struct chooser *c)
{
    struct cpu_schedule *s = &c->s;
    int dim = s->vector, unroll = is_heavy(c->k) ? 1 : 2;
    s->unroll = 1;
    if (dim < 0 || loops_interleave_dim(c->ctx, c->k, dim, s->width) >= 0)
        return;
    if (loops_transpose_dim(c->ctx, &c->m->emit, c->k, dim, s->width < 16 ? s->width : 16) >= 0) {
        s->width = s->width < 16 ? s->width : 16;
        return;
    }
    bool reduces = false;
    for (int i = 0; i < c->k->ninsns; i++)
        reduces = reduces || c->k->insns[i].code == KN_REDUCE;
    if (reduces && !is_heavy(c->k))
        unroll = 4;
    int store;
    if (stores_in_order(c, &store)) /* each pass over the updates jumps from row to row: few passes, long rows */
        unroll = SCATTER_UNROLL;
    int64_t extent = extent_or(c->k, dim, INT32_MAX);
    while (unroll > 1 &&
           (extent < unroll * s->width || unroll * s->width > EM_MAX_LANES || !strides_hold(c, dim, unroll * s->width)))
        unroll /= 2;
    s->unroll = unroll;
}

/*
 * Sums of which several share an operand, as of a row times the rows of a matrix: side by side they load it once, and
 * none waits for another's additions. As many as leave registers for what they sum.
 */
static void choose_rows(struct chooser *c)
{
    const struct kn_kernel *k = c->k;
    struct em_nest nest = cpu_nest(c->s);
    nest.rows = c->m->registers >= 32 ? 4 : 2;
    int dim = loops_row_dim(k, nest);
    bool shared = false, own = false;
    int64_t rows = dim < 0 ? 0 : extent_or(k, dim, 0);
    if (is_heavy(k) || (rows != nest.rows && rows < 4 * nest.rows))
        return;
    for (int i = 0; i < k->stages[0].last; i++) {
        if (k->insns[i].code != KN_LOAD || access_stride(c, i, c->s.vector, c->s.width) != 1)
            continue;
        bool by_row = c->depends[i] >> dim & 1;
        shared |= !by_row;
        own |= by_row;
    }
    if (shared && own)
        c->s.mr = nest.rows;
}

/* Units that a tile should hold, of a kernel with so many in an outer point. */
static double tile_units(const struct kn_kernel *k, double units)
{
    for (int i = 0; i < em_nouter(k); i++)
        units *= (double)extent_or(k, i, UNKNOWN_EXTENT);
    units /= 16;
    return units < LEAST_UNITS ? LEAST_UNITS : units > MOST_UNITS ? MOST_UNITS : units;
}

static void choose_tiles(const struct chooser *c)
{
    struct kn_kernel *k = c->k;
    const struct cpu_schedule *s = &c->s;
    double units = point_units(k, s->width), in_tile = 1, target = tile_units(k, units);
    bool open = true;
    int other = loops_transpose_dim(c->ctx, &c->m->emit, k, s->vector, s->width),
        rows = s->mr ? loops_row_dim(k, cpu_nest(*s)) : -1;
    for (int i = em_nouter(k) - 1; i >= 0; i--) {
        int64_t extent = extent_or(k, i, INT64_MAX / 4), step = i == s->vector ? s->width * s->unroll
                                                                : i == other   ? s->width
                                                                : i == rows    ? s->mr
                                                                               : 1;
        int64_t fit = open ? (int64_t)(target / (units * in_tile)) : 1;
        fit = fit < 1 ? 1 : fit > 1 << 20 ? 1 << 20 : fit;
        fit = (fit + step - 1) / step * step;
        if (fit >= extent || (step > 1 && fit * 3 / 2 >= extent)) {
            k->schedule.tile[i] = 0;
            in_tile *= (double)extent;
        } else {
            /* Even tiles: the last one should not be a sliver. */
            if (extent < INT64_MAX / 4) {
                int64_t n = (extent + fit - 1) / fit, even = (extent + n - 1) / n;
                fit = (even + step - 1) / step * step;
            }
            k->schedule.tile[i] = fit;
            in_tile *= (double)fit;
            open = false;
        }
    }
}

static ir_expr count_flops(const struct chooser *c)
{
    const struct kn_kernel *k = c->k;
    ir_expr outer = ir_const(c->ctx, 1), sum = ir_const(c->ctx, 0);
    for (int i = 0; i < em_nouter(k); i++)
        outer = ir_mul(c->ctx, outer, k->dims[i].extent);
    for (int s = 0; s < k->nstages; s++) {
        int64_t ops = 0;
        ir_expr points = outer;
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            if (tcc_is_float((enum tcc_dtype)k->insns[i].dtype) &&
                (k->insns[i].code == KN_SCALAR || k->insns[i].code == KN_REDUCE))
                ops++;
        for (int i = 0; i < k->ndims; i++)
            if (k->stages[s].inner >> i & 1)
                points = ir_mul(c->ctx, points, k->dims[i].extent);
        sum = ir_add(c->ctx, sum, ir_mulc(c->ctx, points, ops));
    }
    return sum;
}

/* -- Entry points ------------------------------------------------------------------------------------------------- */

static bool schedule_loops(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    cpu_collapse(ctx, k);
    struct chooser c = {.ctx = ctx,
                        .m = m,
                        .k = k,
                        .s = {.how = CPU_LOOPS, .vector = -1, .width = 1, .unroll = 1},
                        .depends = IR_NEWN(ctx, k->ninsns + 1, uint32_t)};
    find_dependences(&c);
    choose_vector_dim(&c);
    choose_interleaving(&c);
    choose_unroll(&c);
    choose_rows(&c);
    cpu_put_schedule(k, c.s);
    choose_tiles(&c);
    k->tiles = em_tile_count(ctx, k);
    k->combining = em_combine_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, loops_local_lanes(k, cpu_nest(cpu_get_schedule(k))));
    if (!k->flops)
        k->flops = count_flops(&c);
    return true;
}

static void emit_loops(struct em *e)
{
    em_loops(e, cpu_nest(cpu_get_schedule(e->k)));
}

const struct cpu_template cpu_template_loops = {CPU_LOOPS, schedule_loops, emit_loops};

void cpu_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    const struct cpu_machine *machine = (const struct cpu_machine *)m;
    for (int i = 0; cpu_templates[i]; i++)
        if (cpu_templates[i]->schedule(machine, ctx, k))
            return;
}
