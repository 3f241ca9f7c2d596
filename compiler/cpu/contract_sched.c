/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_sched.c - register tile, vector width, parallel grain and copies of contractions, by shape and machine.
 *
 * The model counts cycles of one step of the sum in a register tile of mr rows and cv vectors: two multiply-adds and
 * two loads a cycle, at least the latency of one multiply-add, and a little for bringing in B (more when its columns
 * don't stay in the nearest cache) and for each row. It was checked against measurements of tests/bench on AVX-512 and
 * AVX2.
 */
#include "compiler/cpu/contract_int.h"
#include "compiler/cpu/emit_int.h"

#include <limits.h>
#include <math.h>

/* -- Copies ------------------------------------------------------------------------------------- */
/*
 * Steps of A pages apart, as of a gradient by weights: a register tile of few rows takes few elements of each line that
 * it reads, and the lines of all steps fall into few sets of the caches, so that the next register tile reads them from
 * far again. Worth a copy where the tiles of work are blocks of rows with all columns, as they are where there are more
 * rows than columns (choose_grain()).
 */
static bool steps_apart(const struct cpu_machine *m, const struct ct *c)
{
    enum { PAGE = 4096, LEAST_COLUMNS = 128 };
    const struct ct_k *last = &c->ks[c->nks - 1];
    return m->registers < 32 && c->depth == 1 && c->nks == 1 && c->row >= 0 && c->row_sa == 1 && last->sa != CT_DYN &&
           last->sa * tcc_dtype_bytes(c->dtype) % PAGE == 0 && last->sa && !c->nguards && !c->nrowguards &&
           !c->period && c->nrows != CT_DYN && c->ncols != CT_DYN && c->nrows > c->ncols && c->ncols >= LEAST_COLUMNS;
}

/*
 * Steps of a plain B that share a power of two as a factor fall into few sets of the second cache, which then doesn't
 * hold a column tile of it: each block of rows reads it from far again. It is copied, once for all rows of a tile,
 * where they are so many; measured with products of 48 to 1,024 rows over 512 to 4,096 steps. 0: it isn't. Nor is it
 * where A's steps are apart, too (gradients by weights): with A as it lies, that was slower as often as faster.
 */
static int64_t rows_worth_copy(const struct cpu_machine *m, const struct ct *c)
{
    enum { WAY = 64 << 10, STEPS = 1024 }; /* bytes; of a sum whose length is not known */
    const struct ct_k *last = &c->ks[c->nks - 1];
    bool wide = m->registers >= 32; /* more products wait for a line */
    int64_t next = last->sb / c->depth, step = next * ct_step_bytes(c) / c->depth, apart = step & -step,
            least = wide ? 96 : 48;
    if ((c->depth > 1 && !c->unpaired) || c->nks > 1 || last->sa != c->depth || c->panel || c->block >= 0 ||
        last->sb == CT_DYN || next < 2 || c->period || c->k->kind == IR_K_WINDOW ||
        (c->nrows != CT_DYN && c->nrows < least))
        return 0;
    int64_t held = (int64_t)m->l2 / (apart < WAY ? apart : WAY);
    return (last->n == CT_DYN ? STEPS : last->n * c->depth) >= (wide ? 4 : 2) * held ? least : 0;
}

void ct_choose_copies(const struct cpu_machine *m, struct ct *c)
{
    c->copy_from = c->pack_b ? 0 : rows_worth_copy(m, c);
    c->pack_b |= c->copy_from > 0;
    if (!c->pack_a && steps_apart(m, c))
        c->pack_a = c->a_by_k = true;
}

/* -- Register tile ------------------------------------------------------------------------------ */

bool ct_b_in_place(const struct cpu_machine *m, const struct ct *c)
{
    return c->depth == 1 && m->emit.fma && !c->pack_b && (m->registers == 16 || m->emit.vector_bytes == 64);
}

/* Cycles of a step of one row whose B comes from the second cache, which more streams at a time keep busier; measured
 * with panels of 16 floats, 2 to 12 vectors of 8, and of 32, 4 to 24 of 16. From memory the latter gain nothing. */
static double far_row_cost(const struct cpu_machine *m, const struct ct *c, int cv)
{
    double bytes = (double)c->nk * (double)c->ncols * tcc_dtype_bytes(c->dtype);
    bool wide = m->registers > 16, known = c->nk != CT_DYN && c->ncols != CT_DYN;
    if (c->nrows != 1 || !known || !ct_b_in_place(m, c) || bytes <= 32e3 || (wide && bytes > (double)m->l2))
        return 0;
    return wide ? 5.5 + 1.03 * cv : 3.4 + 0.38 * cv;
}

double ct_step_cost(const struct ct *c, int mr, int cv)
{
    double a = c->by_lane ? (double)mr / c->by_lane : mr; /* loads of A */
    if (c->shared && cv == 1)
        a = (mr + c->shared - 1.) / c->shared;
    double fma = (mr + ct_summed_row(c)) * cv / 2.0, loads = 1.1 * (a + cv) / 2.0,
           cost = 4; /* two loads a cycle are not quite reached */
    if (c->pairs)    /* four instructions for each, two to repeat a value of A and make it signed */
        fma = 4 * fma + (c->packs_signed ? 0 : mr);
    if (c->unpaired && !ct_apart(c, cv)) /* B's are paired, A's repeated, in the pipes that multiply */
        fma += (mr + cv) / 2.0;
    if (c->square) { /* two vectors of B for each of columns */
        fma = (double)ct_held_rows(c, mr) * cv / 2;
        loads = 1.1 * ((c->pack_a ? (double)mr / 2 : mr) + 2 * cv) / 2;
    }
    double slab = (double)(c->nk == CT_DYN ? 128 : c->nk) * cv * c->lanes * ct_step_bytes(c);
    cost = fma > cost ? fma : cost;
    cost = loads > cost ? loads : cost;
    return cost + (slab > 40e3 ? 0.6 : 0.1) * cv + 0.02 * mr;
}

bool ct_rows_share(int64_t step, int64_t row, int mr, int64_t steps)
{
    if (step < 1 || row < 1 || mr == 1)
        return false;
    return row % step == 0 ? row / step < steps : step % row == 0 && step / row < mr;
}

/* Lanes of 16 bits are those of 16 registers, where the rows of two turns are. */
enum { HALF_ROWS = 8 };

static int max_rows(const struct cpu_machine *m, const struct ct *c, int cv)
{
    if (cv > 6 && c->nrows == 1 && ct_b_in_place(m, c))
        return 1;
    if (cv > 8)
        return 0;
    int spare =
        c->pack_b && cv > 2 ? 3 : 0; /* with a packed B, LLVM keeps the next step's vectors too, and would spill */
    if (c->depth == 4 && !m->multiplies_bytes) /* both operands in halves, or B alone */
        spare = cv + (c->halves ? 1 : 3);
    int free = m->registers - cv - (m->emit.fma ? 1 : 2) - spare, mr = free / cv;
    if (c->pairs) /* a value of A and products beside B and two vectors for each sum */
        mr = (m->registers - cv - 3 - ct_summed_row(c) * cv) / (2 * cv);
    if (c->by_lane) { /* a vector a row beside its sums */
        mr = ct_apart(c, cv) ? (m->registers - cv - 3) / (cv / 2 + 1)
                             : (m->registers - cv - 1 - ct_summed_row(c) * (cv + 1)) / (cv + 1);
        int most = ct_apart(c, cv) ? HALF_ROWS : m->lane_rows;
        mr = mr < most ? mr : most;
    } else if (m->lane_bytes && cv > 1 && ct_rows_share(c->ks[c->nks - 1].sa, c->row_sa, mr, 2)) {
        mr = (m->registers - cv) / (cv + 1); /* what rows share is kept, and no product reads memory */
    }
    if (c->square) /* a vector for two rows beside their sums, and two of B */
        mr = 2 * (m->registers - 4) / (2 * cv + 1) / 2 * 2;
    int most = c->period              ? 24
               : c->shared && cv == 1 ? 8
                                      : 16; /* 8: more stand alone in their loop (contract_micro.c) */
    mr = mr < most ? mr : most;
    if (c->row_sa == CT_DYN && mr > 6 && !c->pack_a)
        mr = 6; /* each row needs an address register */
    while (c->period && mr > 1 && c->period % mr)
        mr--;
    return mr;
}

static bool cv_allowed(const struct ct *c, int cv)
{
    int64_t nr = (int64_t)cv * c->lanes, unit = c->block >= 0 ? c->width : c->pack_b ? 0 : c->panel;
    if (c->block >= 0 && c->ncols == CT_DYN && nr != c->width)
        return false;
    if (c->block >= 0 && c->pack_b && nr > c->width)
        return false;
    if (c->block >= 0 && c->panel > c->width && nr % c->panel && c->panel % nr)
        return false;
    return !unit || nr % unit == 0 || unit % nr == 0;
}

/* A step of few rows waits for its own sums; with the block before them they make two of half its size. Halves of tiles
 * as 16 registers allow are worth it as well. */
bool ct_shared_rest(const struct ct *c, int mr)
{
    int least = c->lanes * tcc_dtype_bytes(c->dtype) < 64 ? 6 : 8;
    if (c->nrows == CT_DYN || c->late_rows || c->nrowguards || c->period || mr < least)
        return false;
    int64_t rest = c->nrows % mr;
    return rest && rest < 4 && c->nrows > mr;
}

/* Cost of all rows by blocks of mr; mr is evened out first. */
static double rows_cost(const struct cpu_machine *m, const struct ct *c, int cv, int *mr)
{
    double far = far_row_cost(m, c, cv);
    if (far > 0) {
        *mr = 1;
        return far;
    }
    if (c->nrows == CT_DYN)
        return ct_step_cost(c, *mr, cv) / *mr * 128;
    int64_t blocks = (c->nrows + *mr - 1) / *mr;
    if (!c->period)
        *mr = (int)ct_held_rows(c, (c->nrows + blocks - 1) / blocks);
    int64_t full = c->nrows / *mr, rem = c->nrows % *mr;
    if (ct_shared_rest(c, *mr))
        return (full - 1) * ct_step_cost(c, *mr, cv) + ct_step_cost(c, (int)(*mr + rem + 1) / 2, cv) +
               ct_step_cost(c, (int)(*mr + rem) / 2, cv);
    return full * ct_step_cost(c, *mr, cv) + (rem ? ct_step_cost(c, (int)rem, cv) : 0);
}

/* Cycles of a step of the sum for all rows and columns by tiles of mr rows, which are evened out, and cv vectors; 0:
 * there are no such tiles. */
static double tile_cost(const struct cpu_machine *m, const struct ct *c, int cv, int *mr)
{
    bool from_far = c->panel && c->nk != CT_DYN && c->ncols != CT_DYN &&
                    (double)c->nk * (double)c->ncols * ct_step_bytes(c) > (double)m->l2 / 2;
    int64_t nv = c->ncols == CT_DYN ? 64 : (c->live + c->lanes - 1) / c->lanes;
    int most = max_rows(m, c, cv);
    *mr = *mr < most ? *mr : most;
    if (*mr < 1 || (cv > nv && cv > 1) || !cv_allowed(c, cv))
        return 0;
    double cost = rows_cost(m, c, cv, mr) * (double)(nv / cv);
    if (from_far && (int64_t)cv * c->lanes % c->panel)
        cost *= 1.25; /* parts of panels are not fetched ahead */
    if (nv % cv) {
        int mr_rem = *mr;
        cost += rows_cost(m, c, (int)(nv % cv), &mr_rem);
    }
    return cost;
}

static void choose_tile(const struct cpu_machine *m, const struct ct *c, int *best_mr, int *best_cv)
{
    double best = 0;
    *best_mr = *best_cv = 0;
    for (int cv = 1; cv <= CPU_TILE_VECTORS; cv++) {
        int mr = INT_MAX;
        double cost = tile_cost(m, c, cv, &mr);
        if (cost > 0 && (!*best_cv || cost < best)) {
            best = cost;
            *best_mr = mr;
            *best_cv = cv;
        }
    }
}

/* -- Parallel grain -------------------------------------------------------------------------- */
struct grain {
    struct kn_kernel *k;
    double now, target;
    bool near; /* a short product in a loop's body */
};

/* Points of a dim that is known only at run time; floating-point operations of a tile, if there are so many, and of one
 * in a loop's body: there threads wait for each other in every iteration, and read what the others have written. */
enum { UNKNOWN = 64, LEAST_WORK = 250000, LEAST_LOOPED = 400000, SHARED = 32 };

/* Bytes that a product in a loop's body reads in about the time in which two threads meet, whatever the second
 * cache. */
#define SHORT_LOOPED 384e3

static int64_t guess(ir_expr extent, int64_t otherwise)
{
    int64_t n = ir_const_or(extent, otherwise);
    return n > 0 ? n : 1; /* others are divided by it */
}

/* Splits dim d into pieces of a multiple of `unit` points so that a tile comes near the target. */
static void split(struct grain *g, int d, int64_t unit, int64_t otherwise)
{
    int64_t n = guess(g->k->dims[d].extent, otherwise), pieces = (int64_t)(g->now / g->target);
    if (pieces < 2 || n <= unit)
        return;
    int64_t t = (n + pieces - 1) / pieces;
    t = (t + unit - 1) / unit * unit;
    if (t >= n)
        return;
    g->k->schedule.tile[d] = t;
    g->now = g->now * t / n;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/*
 * The same where the number of rows is known only at run time. Of the outermost dim of theirs, in multiples of `unit`:
 * pieces that are worth a thread's while, and of so many rows that B, which each reads, costs little (and less where it
 * is near).
 */
static void split_unknown(struct grain *g, const struct ct *c, int d, int64_t unit, int64_t least)
{
    double n = (double)guess(g->k->dims[d].extent, UNKNOWN), inner = 1;
    for (int i = d + 1; i < g->k->ndims; i++)
        if (c->collapsed >> i & 1)
            inner *= (double)guess(g->k->dims[i].extent, UNKNOWN);
    double t = (g->near ? LEAST_LOOPED : 2 * LEAST_WORK) / (g->now / n), rows = g->near ? 1 : (double)least / inner;
    g->k->schedule.tile[d] = (int64_t)((t > rows ? t : rows) / (double)unit + 1) * unit;
}

/* Does a tile have one point of these dims? */
static bool one_point(const struct kn_kernel *k, uint32_t dims)
{
    for (int d = 0; d < k->ndims; d++)
        if (dims >> d & 1 && !ir_is_value(k->dims[d].extent, 1) && k->schedule.tile[d] != 1)
            return false;
    return true;
}

/* Rows: extra m dims first, then the outermost collapsed dim in whole row blocks. */
static void split_rows(struct grain *g, const struct ct *c, int mr)
{
    for (int d = 0; d < g->k->ndims; d++)
        if (c->extra_m >> d & 1)
            split(g, d, 1, 8);
    if (c->row < 0 || (c->nrowguards && c->collapsed != 1u << c->row))
        return;
    if (c->nrows == CT_DYN && (c->period || !one_point(g->k, c->extra_m)))
        return;
    for (int d = 0; d < g->k->ndims; d++) {
        if (!(c->collapsed >> d & 1))
            continue;
        if (c->nrows == CT_DYN) {
            split_unknown(g, c, d, d == c->row ? mr : 1, 8 * mr);
            break;
        }
        int64_t inner = c->nrows / guess(g->k->dims[d].extent, 1);
        int64_t unit = c->period && c->pack_b ? c->period : mr; /* a group's B is packed once */
        split(g, d, unit / gcd(unit, inner), 1);
        break;
    }
}

static void split_columns(struct grain *g, const struct ct *c, int cv)
{
    bool open = g->k->looped && c->nrows == CT_DYN;     /* one row, maybe, which takes more vectors (contract_emit.c) */
    bool packs = c->halves || (c->square && c->pack_a); /* rows, which all columns of a tile share */
    int64_t nr = (int64_t)cv * c->lanes * (packs ? 8 : open ? 4 : 1);
    if (c->block >= 0) {
        split(g, c->block, nr > c->width ? nr / c->width : 1, 8);
        return;
    }
    for (int d = 0; d < g->k->ndims; d++) {
        if (!(c->columns >> d & 1))
            continue;
        /* The outermost of them, in whole column tiles. */
        int64_t inner = d == c->vec ? 1 : c->ncols == CT_DYN ? 0 : c->ncols / guess(g->k->dims[d].extent, 1);
        if (inner)
            split(g, d, nr / gcd(nr, inner), 512);
        break;
    }
}

/*
 * Every column tile reads all rows of a tile: more of them than the second cache holds would come from far each time. B
 * is read once for every block of rows instead, and fetched ahead. Measured where that cache is large.
 */
static bool split_far_rows(struct grain *g, const struct cpu_machine *m, const struct ct *c,
                           const struct cpu_schedule *s)
{
    double rows = (double)c->nrows * (double)c->nk * ct_step_bytes(c), most = (double)m->l2;
    if (c->nrows == CT_DYN || c->nk == CT_DYN || g->k->kind == IR_K_WINDOW || c->pack_a || c->pack_b || s->kc ||
        rows < 1.5 * most || m->l2 < 1 << 20)
        return false;
    struct grain far = {.k = g->k, .now = rows, .target = most};
    split_rows(&far, c, s->mr);
    g->now *= far.now / rows;
    return far.now < rows;
}

/* Rows that a tile packs for itself: half of what the second cache holds. */
static bool split_packed_rows(struct grain *g, const struct cpu_machine *m, const struct ct *c, int mr)
{
    if (!c->halves || c->nrows == CT_DYN || c->nk == CT_DYN)
        return false;
    double bytes = 2. * (double)c->nrows * (double)(c->nk + c->lanes) * tcc_dtype_bytes(c->dtype);
    struct grain packed = {.k = g->k, .now = bytes, .target = (double)m->l2 / 2};
    split_rows(&packed, c, mr);
    g->now *= packed.now / bytes;
    return packed.now < bytes;
}

static void choose_grain(const struct cpu_machine *m, struct kn_kernel *k, const struct ct *c,
                         const struct cpu_schedule *s)
{
    int mr = s->mr, cv = s->nr / s->width;
    double a = 1, b = 1, points = 1;
    for (int d = 0; d < k->ndims; d++) {
        uint32_t bit = 1u << d;
        double n = (double)guess(k->dims[d].extent, bit & c->batch ? 8 : UNKNOWN);
        points *= n;
        if (bit & (c->collapsed | c->extra_m | k->roles.contraction.k))
            a *= n;
        if ((bit & (c->columns | c->extra_n | k->roles.contraction.k)) || d == c->block)
            b *= n;
    }
    points /= c->depth;
    /* Work in floating-point operations; a byte that must come from far costs as much as eight, of the second cache as
     * two. */
    double stored = (a + b) * tcc_dtype_bytes(k->operands[k->insns[c->load_b].operand].dtype);
    bool near = k->looped && stored <= fmax((double)m->l2 / 2, SHORT_LOOPED);
    double work = 2 * points, far = near ? 2 * stored : 8 * (a + b) * tcc_dtype_bytes(c->dtype),
           target = near ? LEAST_LOOPED : LEAST_WORK;
    work = far > work ? far : work;
    target = work / 64 > target ? work / 64 : target;
    if (s->kc && c->nks > 1) /* the more of a tile there is, the more often a pass reads what it has in cache */
        target = work / 16 > target ? work / 16 : target;
    struct grain g = {k, work, target, near};
    for (int d = 0; d < k->ndims; d++)
        if (c->batch >> d & 1)
            split(&g, d, 1, 8);
    bool far_rows = split_packed_rows(&g, m, c, mr) || split_far_rows(&g, m, c, s);
    for (int d = 0; d < k->ndims; d++)
        if (c->extra_n >> d & 1)
            split(&g, d, 1, 8);
    /* Split along the side whose operand is larger: every tile reads all of the other one. */
    if (far_rows) {
        split_columns(&g, c, cv);
    } else if (near && c->nrows == CT_DYN) {
        split_rows(&g, c, mr);                                             /* there may be one row: it is one tile */
    } else if (a > b && c->nrows != CT_DYN && (!c->pack_b || c->a_by_k)) { /* each copies B */
        split_rows(&g, c, mr);
        split_columns(&g, c, cv);
    } else {
        split_columns(&g, c, cv);
        /* Columns are the inner loop over tiles: rows of a second tile fetch a large B from far again, ahead of its
         * use. Only as many as threads of a large machine want. */
        if (b * tcc_dtype_bytes(c->dtype) > (double)m->l2 / 2)
            g.target = work / SHARED > g.target ? work / SHARED : g.target;
        split_rows(&g, c, mr);
    }
}

/* -- Scratch ----------------------------------------------------------------------------------- */
/* Rows of a tile. */
static ir_expr tile_rows(const struct ct *c)
{
    const struct kn_kernel *k = c->k;
    ir_expr rows = ir_const(c->ctx, 1);
    for (int d = 0; d < k->ndims; d++)
        if (c->collapsed >> d & 1)
            rows =
                ir_mul(c->ctx, rows, k->schedule.tile[d] ? ir_const(c->ctx, k->schedule.tile[d]) : k->dims[d].extent);
    return rows;
}

ir_expr ct_packed_a_ld(const struct ct *c)
{
    if (c->a_by_k)
        return ir_mulc(c->ctx, ir_ceildiv(c->ctx, tile_rows(c), ir_const(c->ctx, c->lanes)), c->lanes);
    /* One cache line more than a row: rows don't fall into one set. */
    int line = c->halves ? c->lanes : 16;
    return ir_addc(c->ctx, ir_mulc(c->ctx, ir_ceildiv(c->ctx, c->ksize, ir_const(c->ctx, line)), line), line);
}

static ir_expr scratch_bytes(const struct ct *c, int cv)
{
    ir_expr bytes = ir_const(c->ctx, 0);
    int size = tcc_dtype_bytes(c->dtype);
    if (c->pack_b)
        bytes = ir_mulc(c->ctx, c->ksize, (int64_t)cv * c->lanes * size);
    bytes = ir_mulc(c->ctx, ir_ceildiv(c->ctx, bytes, ir_const(c->ctx, 64)), 64);
    if (c->pack_a) {
        ir_expr lines = c->a_by_k ? c->ksize : tile_rows(c);
        bytes =
            ir_add(c->ctx, bytes,
                   ir_mulc(c->ctx, ir_mul(c->ctx, lines, ct_packed_a_ld(c)), c->halves ? 2 * size : ct_step_bytes(c)));
    }
    return bytes;
}

/* Bytes of an operand that one point of the sum's outermost loop reads. */
static double bytes_per_point(const struct ct *c, int load)
{
    const struct kn_operand *o = &c->k->operands[c->k->insns[load].operand];
    double bytes = (double)(tcc_dtype_bytes(o->dtype) * c->ks[0].scale);
    for (int i = 0; i < o->rank; i++)
        if (!ir_uses_sym(c->k->insns[load].index[i], c->k->dims[c->ks[0].dim].var))
            bytes *= (double)ir_const_or(o->dims[i], 64);
    return bytes;
}

/*
 * Steps of A whose rows lie side by side, as of a gradient by weights: each takes a line of A and one of a plain B, and
 * all of a long sum are more than the nearest caches hold until the next register tile reads those of B again. A pass
 * takes what a part of the sum does, so that its order stays.
 */
static int32_t passes_of_lines(const struct ct *c)
{
    enum { LEAST_ROWS = 64, LEAST_COLUMNS = 128 };
    bool lines = c->k->kind != IR_K_WINDOW && c->depth == 1 && c->row >= 0 && c->row_sa == 1 && c->ks[0].sa != 1;
    bool large = tcc_is_float(c->dtype) && c->nrows >= LEAST_ROWS && c->ncols >= LEAST_COLUMNS;
    return lines && large && !c->pack_a && !c->pack_b ? (int32_t)ct_part_points(c, 0, 1) : 0;
}

/*
 * Sums over much more than a cache holds, as of gradients by weight over a batch: points of the outermost loop to take
 * at a time, so that register tiles after the first find A and B in the second cache; the sums wait in the result. 0:
 * all at once.
 */
static int32_t choose_passes(const struct cpu_machine *m, const struct ct *c)
{
    if (c->resume < 0 || c->nks < 1)
        return 0;
    if (c->nks == 1)
        return passes_of_lines(c);
    double a = c->crossed ? 0 : bytes_per_point(c, c->load_a); /* one register tile has all columns: A is read once */
    double point = a + bytes_per_point(c, c->load_b), cache = (double)m->l2 / 2;
    double n = (double)(c->ks[0].n == CT_DYN ? 64 : c->ks[0].n), fit = cache / point;
    if (point * n <= cache)
        return 0;
    return fit < 1 ? 1 : (int32_t)fit;
}

static bool too_many_edges(const struct ct *c, int mr)
{
    if (!c->nrowguards || c->late_rows)
        return false;
    int64_t edges = 0;
    struct em_span inner = ct_interior(c);
    for (int64_t r = 0; r < c->nrows; r += mr)
        edges += !em_span_holds(inner, r, r + mr < c->nrows ? r + mr : c->nrows);
    return edges > 8;
}

static void put_tile(const struct cpu_machine *m, const struct ct *c, struct kn_kernel *k, enum cpu_how how, int mr,
                     int cv)
{
    struct cpu_schedule s = {.how = how, .width = c->lanes, .mr = mr, .nr = cv * c->lanes, .kc = choose_passes(m, c)};
    cpu_put_schedule(k, s);
    choose_grain(m, k, c, &s);
    k->tiles = em_tile_count(c->ctx, k);
    k->scratch = scratch_bytes(c, cv);
}

/* Chooses register tile, vector width and grain; false when the template doesn't take the kernel. */
static bool ct_schedule(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k, enum cpu_how how)
{
    struct ct c;
    int mr, cv;
    if (!ct_analyse(m, ctx, k, &c))
        return false;
    choose_tile(m, &c, &mr, &cv);
    if (!cv || too_many_edges(&c, mr))
        return false;
    put_tile(m, &c, k, how, mr, cv);
    return true;
}

static bool schedule_contract(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    return k->kind != IR_K_WINDOW && ct_schedule(m, ctx, k, CPU_CONTRACT);
}

static bool schedule_conv(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    return k->kind == IR_K_WINDOW && ct_schedule(m, ctx, k, CPU_CONV);
}

const struct cpu_template cpu_template_contract = {CPU_CONTRACT, schedule_contract, ct_emit};
const struct cpu_template cpu_template_conv = {CPU_CONV, schedule_conv, ct_emit};
