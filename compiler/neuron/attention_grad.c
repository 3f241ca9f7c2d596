/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_grad.c - attention's gradients as one kernel each (passes/kernel/attention.c makes them): by q, or by k and
 * v. Weights are worked out again from the rows' logarithms (Dao, "FlashAttention-2", 2023, section 3).
 *
 *     128 columns (by q: keys, by k: queries) lie on partitions, up to 512 of the kernel's rows beside each other: a
 *     bank of scores, one of dy v' p = exp(scale score - lse) by Scalar; ds = p (dy v' - delta) by Vector; what a
 *     causal mask hides becomes 0, by GpSimd p and ds are the stationary operands as they are: their products with
 *     columns add up in a bank, 128 rows beside 128 rows the kernel's last stages read these sums
 *
 * So nothing is turned over but what is loaded, and NaN stays in its row. Products take lse and delta off, where there
 * are partitions left (added.c). Else, by k, they are columns, of which Scalar makes a sum on the way; by q they are
 * rows, loaded to all partitions, and Vector takes them off.
 *
 * Scores of the next columns are multiplied before sums of the last ones; what a causal mask hides from all rows is
 * left out.
 */
#include "compiler/neuron/neuron_int.h"

#include <string.h>

enum {
    PART = NEURON_MOVING,
    BLOCK = NEURON_PARTITIONS,
    BLOCKS = PART / BLOCK,
    MOST_WIDTH = 128,
    MOST_BYTES = 64 << 10
};
enum { SCORES, BY_WEIGHTS, PRODUCTS }; /* as struct kn_attention_grad has them: q k' and dy v' */
enum { ROWS, COLUMNS, SIDES };

struct gradient {
    struct nk *nk;
    struct kn_attention_grad r;
    bool by_keys;                            /* rows are keys */
    struct nk_panel *panel[SIDES][PRODUCTS]; /* of no points yet */
    struct nk_blocks columns[PRODUCTS];      /* as they are summed */
    struct nk_added *added[PRODUCTS];        /* lse and delta, negated, where products take them off; else NULL */
    enum tcc_dtype type;                     /* in which weights and columns are multiplied */
    int delta;                               /* a load, as lse is; -1: only weights are summed */
    ir_expr from, to;                        /* columns that a row may look at; NULL: no such bound */
    bool plain;                              /* it is the product times `scale` */
    double scale;
    int64_t extent[SIDES];
    const struct nk_value *ramp;             /* `slope` times the partition; NULL: not made */
    int64_t slope;
};

/* What rows of the same outer dims share. */
struct head {
    int64_t base[KN_MAX_DIMS];
    struct nk_panel **panel[SIDES][PRODUCTS]; /* of PART points each */
    const struct nk_value **columns[PRODUCTS];
    const struct nk_value **lse, **delta; /* by k: columns by block, negated; by q: rows by part */
    int64_t panels_at[SIDES][PRODUCTS], columns_at[PRODUCTS]; /* up to where they are loaded */
};

/* Up to 512 rows. */
struct rows {
    struct head *head;
    int64_t lo, n;
    uint32_t begun; /* blocks of which there are sums */
    const struct nk_value *sum[PRODUCTS];
};

/* Columns with some of these rows. */
struct step {
    struct rows *rows;
    int64_t lo, n, first, last;               /* columns; rows, from the part's first one on */
    const struct nk_value *product[PRODUCTS]; /* of both sides, then the weights that are made of them */
    bool last_of_rows, last_of_head;
};

/* -- Which kernels ------------------------------------------------------------------------------------------------- */

/* Panels of both factors of both products, of one type. */
static bool find_panels(struct gradient *g)
{
    struct nk *nk = g->nk;
    const struct kn_insn *insns = nk->k->insns;
    enum tcc_dtype d = (enum tcc_dtype)insns[g->r.load_row[SCORES]].dtype;
    int64_t bytes = 0;
    if (d != TCC_F32 && d != TCC_BF16 && d != TCC_F16)
        return false;
    g->type = d;
    for (int i = 0; i < PRODUCTS; i++) {
        int load[SIDES] = {g->r.load_row[i], g->r.load_col[i]}, value[SIDES] = {g->r.val_row[i], g->r.val_col[i]};
        int summed = i ? g->r.e : g->r.d;
        for (int side = 0; side < SIDES; side++) {
            int own = side == ROWS ? g->r.row : g->r.col;
            if (insns[load[side]].dtype != d || !kn_is_cast_of(nk->k, value[side], load[side]))
                return false;
            g->panel[side][i] = nk_panel_new(nk, load[side], summed, own, 0, -1, nk->extent[summed]);
            if (!g->panel[side][i])
                return false;
            bytes += nk_panel_bytes(nk, g->panel[side][i], g->extent[side]);
        }
        g->columns[i] = (struct nk_blocks){.insn = load[COLUMNS],
                                           .type = d,
                                           .dim = g->r.col,
                                           .across = summed,
                                           .extent = g->extent[COLUMNS],
                                           .panel = g->panel[COLUMNS][0]};
        bytes += (g->extent[COLUMNS] + BLOCK - 1) / BLOCK * nk->extent[summed] * tcc_dtype_bytes(d);
    }
    return bytes <= MOST_BYTES;
}

static bool plan(struct nk *nk, struct gradient *g)
{
    const struct kn_kernel *k = nk->k;
    *g = (struct gradient){.nk = nk, .r = k->roles.attention_grad};
    if (nk->room < NK_ROOM || k->roles.form != KN_ATTENTION_GRAD || g->r.row < 0 || kn_has(k, KN_BIT(KN_INDEX)))
        return false;
    if (nk->extent[g->r.d] > MOST_WIDTH || nk->extent[g->r.e] > MOST_WIDTH)
        return false;
    g->extent[ROWS] = nk->extent[g->r.row];
    g->extent[COLUMNS] = nk->extent[g->r.col];
    g->delta = g->r.sum[0] < 0 ? -1 : g->r.delta;
    if (k->insns[g->r.lse].code != KN_LOAD || (g->delta >= 0 && k->insns[g->delta].code != KN_LOAD) || !find_panels(g))
        return false;
    g->plain = kn_is_plain_score(k, &g->r.is);
    g->scale = g->plain ? kn_scale_of(k, &g->r.is) : 1;
    kn_visible(nk->ctx, k, &g->r.is, g->r.col, &g->from, &g->to);
    g->by_keys = nk_dims_of(nk, g->r.lse) >> g->r.col & 1;
    return true;
}

bool nk_takes_attention_grad(struct nk *nk)
{
    struct gradient g;
    return plan(nk, &g);
}

/* Of n points of a side from where a part or a block begins, how many are taken at once. */
static int64_t points(const struct gradient *g, int side, int64_t n, int64_t most)
{
    n = nk_panel_part(g->panel[side][0], nk_panel_part(g->panel[side][1], n, most), most);
    return n > BLOCK ? n / BLOCK * BLOCK : n;
}

/* -- What a causal mask shows -------------------------------------------------------------------------------------- */

/* Row first + j sees column lo + p where base + p channel + j step > 0. */
struct sight {
    int64_t base, channel, step;
};

static bool sight_of(const struct gradient *g, const struct rows *r, int64_t lo, int64_t first, struct sight *s)
{
    struct nk *nk = g->nk;
    ir_expr e = g->from ? g->from : g->to;
    struct nk_tile t = {.n = 1, .nouter = 1, .axis = {{g->r.row, 1, r->n}}};
    struct nk_box b = nk_whole(&t);
    struct nk_line line;
    int axis;
    int64_t at;
    if (!e)
        return false;
    memcpy(t.base, r->head->base, sizeof t.base);
    t.base[g->r.row] = r->lo;
    if (nk_line_of(nk, &t, &b, e, &line, &axis, &at) != NK_LINEAR)
        nk_refuse(nk, "a causal mask that is not linear");
    int64_t end = line.base + first * line.coef[0];
    *s = g->from ? (struct sight){lo - end + 1, 1, -line.coef[0]} : (struct sight){end - lo, -1, line.coef[0]};
    return true;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The rows of whole blocks that see some of n columns; false: none. */
static bool find_visible(const struct gradient *g, const struct rows *r, struct step *s)
{
    struct sight see;
    s->first = 0;
    s->last = r->n;
    if (!sight_of(g, r, s->lo, 0, &see))
        return true;
    int64_t best = see.base + larger(0, see.channel * (s->n - 1)), first = -1;
    for (int64_t at = 0; at < r->n; at += BLOCK) {
        int64_t end = smaller(at + BLOCK, r->n);
        if (best + larger(see.step * at, see.step * (end - 1)) <= 0)
            continue;
        first = first < 0 ? at : first;
        s->last = end;
    }
    s->first = larger(first, 0);
    return first >= 0;
}

/* What is hidden of a block becomes 0, in place. On trn1, where Vector waits for SBUF while GpSimd is at it, by Vector,
 * which takes half the time. */
static void hide_block(struct gradient *g, const struct nk_tile *t, const struct nk_value *x, const struct sight *see)
{
    struct nk *nk = g->nk;
    if (neuron_generation(nk->machine->core) == 2 && (see->step == 1 || see->step == -1)) {
        int64_t slope = -see->step * see->channel; /* a row is seen from there on, times the partition, or before */
        if (!g->ramp || g->slope != slope)
            g->ramp = nk_ramp(nk, slope);
        g->slope = slope;
        nk_select_places(nk, t, x, x, see->step * see->base, see->step > 0 ? NEURON_ALU_GT : NEURON_ALU_LT, g->ramp, 0);
        return;
    }
    struct neuron_instr i = {.op = NEURON_OP_AFFINE_SELECT, .noperands = 2};
    i.operand[0] = i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_GT});
    neuron_set_attr(&i, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)see->base});
    neuron_set_attr(&i, NEURON_ATTR_CHANNEL, (union neuron_value){.i = (int32_t)see->channel});
    neuron_set_attr(&i, NEURON_ATTR_STEP0, (union neuron_value){.i = (int32_t)see->step});
    neuron_set_attr(&i, NEURON_ATTR_FILL, (union neuron_value){.f = 0});
    nk_emit(nk, NEURON_GPSIMD, &i, 2, (struct nk_use[]){{x->buffer, true, 0}, {x->buffer, false, 0}});
}

/* What is hidden becomes 0, block by block. */
static void hide(struct gradient *g, const struct step *s, const struct nk_value *weights)
{
    for (int64_t at = s->first; at < s->last; at += BLOCK) {
        int64_t n = smaller(s->last - at, BLOCK);
        struct nk_tile t = nk_lanes(s->n, n);
        struct nk_value part = nk_from(weights, at - s->first);
        struct sight see;
        if (sight_of(g, s->rows, s->lo, at, &see) &&
            see.base + smaller(0, see.channel * (s->n - 1)) + smaller(0, see.step * (n - 1)) <= 0)
            hide_block(g, &t, &part, &see);
    }
}

/* -- Weights ------------------------------------------------------------------------------------------------------- */

/* Columns on partitions, rows beside each other. */
static struct nk_tile tile_of(const struct gradient *g, const struct step *s)
{
    struct nk_tile t = {.n = 2, .nouter = 2, .axis = {{g->r.col, 1, s->n}, {g->r.row, 1, s->last - s->first}}};
    memcpy(t.base, s->rows->head->base, sizeof t.base);
    t.base[g->r.col] = s->lo;
    t.base[g->r.row] = s->rows->lo + s->first;
    return t;
}

static struct nk_panel *panel_at(const struct head *h, int side, int product, int64_t lo)
{
    return h->panel[side][product][lo / PART];
}

static void multiply(const struct gradient *g, struct step *s, int product)
{
    struct nk *nk = g->nk;
    const struct head *h = s->rows->head;
    struct nk_tile t = nk_lanes(s->n, s->last - s->first);
    struct nk_panel *columns = panel_at(h, COLUMNS, product, s->lo), *rows = panel_at(h, ROWS, product, s->rows->lo);
    s->product[product] = nk_bank(nk);
    struct neuron_operand to = nk_operand(nk, &t, s->product[product], 0, NULL);
    for (int64_t j = 0; j < nk_panel_products(columns); j++) {
        struct nk_buffer *left, *right;
        struct neuron_operand stationary = nk_panel_operand(nk, columns, j, s->lo, s->n, h->base, &left),
                              moving = nk_panel_operand(nk, rows, j, s->rows->lo + s->first, s->last - s->first,
                                                        h->base, &right);
        nk_multiply(nk, &to, s->product[product]->buffer, &stationary, left, &moving, right, j == 0);
    }
}

/* The scores as the kernel's own stage makes them of the products, in SBUF. */
static const struct nk_value *scores(const struct gradient *g, const struct step *s)
{
    struct nk *nk = g->nk;
    struct nk_tile t = tile_of(g, s);
    int mark = nk_mark(nk);
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *v;
    made[g->r.dot[SCORES]] = s->product[SCORES];
    v = nk_computed(nk, &t, nk_evaluate(nk, &t, made, g->r.is.unmasked));
    if (v->type != NEURON_F32 || v->is_number || v->buffer->space == NEURON_PSUM || !v->stride[1])
        v = nk_copy(nk, &t, TCC_F32, nk_solid(nk, &t, v));
    nk_release_to(nk, mark, &v, 1);
    nk_drop(nk, s->product[SCORES]);
    return v;
}

/* A row of lse or delta, from where the step's rows begin. */
static struct nk_value row_at(const struct step *s, const struct nk_value **rows)
{
    return nk_from(rows[s->rows->lo / PART], s->rows->lo % PART + s->first);
}

static const struct nk_value *weigh_scores(struct gradient *g, struct step *s)
{
    struct nk *nk = g->nk;
    const struct head *h = s->rows->head;
    struct nk_tile t = nk_lanes(s->n, s->last - s->first);
    const struct nk_value *x = g->plain ? s->product[SCORES] : scores(g, s), *bias = NULL;
    struct nk_value *p;
    if (g->by_keys && !g->added[SCORES]) {
        bias = h->lse[nk_block_number(s->lo)];
    } else if (!g->added[SCORES]) {
        struct nk_value less = row_at(s, h->lse);
        const struct nk_value *rest = nk_tt(nk, &t, TCC_F32, NEURON_ALU_SUB, x, &less);
        nk_drop(nk, x);
        x = rest;
    }
    p = nk_new(nk, &t, g->type);
    nk_activate(nk, &t, NEURON_FUNC_EXP, p, x, g->scale, bias, NEURON_ACC_IDLE);
    nk_drop(nk, x);
    hide(g, s, p);
    return p;
}

/* p (product - delta) */
static const struct nk_value *weigh_products(const struct gradient *g, struct step *s, const struct nk_value *p)
{
    struct nk *nk = g->nk;
    const struct head *h = s->rows->head;
    struct nk_tile t = nk_lanes(s->n, s->last - s->first);
    const struct nk_value *x = s->product[BY_WEIGHTS];
    struct nk_value *to;
    if (g->added[BY_WEIGHTS]) {
        to = nk_tt(nk, &t, g->type, NEURON_ALU_MUL, p, x);
        nk_drop(nk, x);
        return to;
    }
    if (g->by_keys && g->type == TCC_F32) {
        to = nk_new(nk, &t, g->type);
        nk_scale_by(nk, &t, to, x, NEURON_ALU_ADD, h->delta[nk_block_number(s->lo)], NEURON_ALU_MUL, p);
        nk_drop(nk, x);
        return to;
    }
    if (g->by_keys) {
        to = nk_new(nk, &t, g->type);
        nk_activate(nk, &t, NEURON_FUNC_COPY, to, x, 1, h->delta[nk_block_number(s->lo)], NEURON_ACC_IDLE);
    } else {
        struct nk_value less = row_at(s, h->delta);
        to = nk_tt(nk, &t, g->type, NEURON_ALU_SUB, x, &less);
    }
    nk_drop(nk, x);
    const struct nk_value *ds = nk_tt(nk, &t, g->type, NEURON_ALU_MUL, p, to);
    nk_drop(nk, to);
    return ds;
}

static void weigh(struct gradient *g, struct step *s)
{
    const struct nk_value *p = weigh_scores(g, s);
    s->product[0] = g->delta >= 0 ? weigh_products(g, s, p) : NULL;
    s->product[1] = p;
    if (g->r.sum[1] >= 0)
        return;
    nk_drop(g->nk, p);
    s->product[1] = NULL;
}

/* -- Sums ---------------------------------------------------------------------------------------------------------- */

static int64_t width(const struct gradient *g, int side)
{
    return g->nk->extent[g->columns[side].across];
}

/* Adds columns by their weights, block by block of rows. */
static void add_up(const struct gradient *g, struct step *s)
{
    struct nk *nk = g->nk;
    struct rows *r = s->rows;
    uint32_t begun = r->begun;
    for (int i = 0; i < PRODUCTS; i++) {
        if (g->r.sum[i] < 0)
            continue;
        const struct nk_value *weights = s->product[i], *columns = r->head->columns[i][nk_block_number(s->lo)];
        struct nk_tile right = nk_lanes(s->n, width(g, i));
        struct neuron_operand moving = nk_operand(nk, &right, columns, 0, NULL);
        if (!r->sum[i])
            r->sum[i] = nk_bank(nk);
        for (int64_t at = s->first; at < s->last; at += BLOCK) {
            int64_t n = smaller(s->last - at, BLOCK), number = at / BLOCK;
            struct nk_tile left = nk_lanes(s->n, n), sums = nk_lanes(n, width(g, i));
            struct nk_value w = nk_from(weights, at - s->first), sum = nk_from(r->sum[i], number * width(g, i));
            struct neuron_operand stationary = nk_operand(nk, &left, &w, 0, NULL),
                                  to = nk_operand(nk, &sums, &sum, 0, NULL);
            nk_multiply(nk, &to, sum.buffer, &stationary, weights->buffer, &moving, columns->buffer,
                        !(begun >> number & 1));
            r->begun |= UINT32_C(1) << number;
        }
        nk_drop(nk, weights);
    }
}

/* Sums of blocks that see no column are 0. */
static void clear(const struct gradient *g, const struct rows *r, int side)
{
    for (int64_t at = 0; at < r->n; at += BLOCK) {
        struct nk_tile t = nk_lanes(smaller(r->n - at, BLOCK), width(g, side));
        struct nk_value sum = nk_from(r->sum[side], at / BLOCK * width(g, side));
        if (!(r->begun >> (at / BLOCK) & 1))
            nk_fill(g->nk, &t, &sum, 0);
    }
}

/* The kernel's last stages at these rows. */
static void finish(const struct gradient *g, struct rows *r)
{
    struct nk *nk = g->nk;
    for (int i = 0; i < PRODUCTS; i++) {
        if (g->r.sum[i] < 0)
            continue;
        int mark = nk_mark(nk);
        struct nk_tile t = {.n = 1, .axis = {{g->r.row, 1, smaller(r->n, BLOCK)}}};
        struct nk_value sum = *r->sum[i];
        if (r->n > BLOCK)
            t.axis[t.n++] = (struct nk_axis){g->r.row, BLOCK, r->n / BLOCK};
        t.axis[t.n++] = (struct nk_axis){g->columns[i].across, 1, width(g, i)};
        t.nouter = t.n;
        memcpy(t.base, r->head->base, sizeof t.base);
        t.base[g->r.row] = r->lo;
        sum.stride[1] = (int32_t)width(g, i);
        sum.stride[t.n - 1] = 1;
        clear(g, r, i);
        nk_begin_tile(nk);
        const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
        made[g->r.sum[i]] = &sum;
        nk_run_stage(nk, &t, &nk->k->stages[g->r.last[i]], made);
        nk_release_to(nk, mark, NULL, 0);
        nk_drop(nk, r->sum[i]);
    }
}

/* -- All of it ----------------------------------------------------------------------------------------------------- */

/* lse and delta by columns, negated, in blocks: a row, which the tensor engine turns over as a product with -1. As they
 * lie, each would be a row of DMA. */
static const struct nk_value **load_columns(const struct gradient *g, const struct head *h, int load)
{
    struct nk *nk = g->nk;
    int64_t all = g->extent[COLUMNS], whole = all / BLOCK, rest = all % BLOCK;
    const struct nk_value **to = IR_NEWN(nk->ctx, all / BLOCK + 3, const struct nk_value *);
    struct nk_tile row = {.n = 2, .nouter = 2, .axis = {{KN_MAX_DIMS - 1, 1, 1}, {g->r.col, 1, all}}},
                   one = nk_lanes(1, 1), columns = nk_lanes(BLOCK, whole + (rest > 0));
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *x, *bank;
    struct nk_value *minus = nk_new(nk, &one, TCC_F32), *v = nk_new(nk, &columns, TCC_F32);
    int mark = nk_mark(nk), group = ++nk->groups;
    memcpy(row.base, h->base, sizeof row.base);
    row.base[g->r.col] = 0;
    x = nk_solid(nk, &row, nk_computed(nk, &row, nk_evaluate(nk, &row, made, load)));
    nk_fill(nk, &one, minus, -1);
    bank = nk_bank(nk);
    struct neuron_operand moving = nk_operand(nk, &one, minus, 0, NULL);
    for (int64_t k = 0; k < whole + (rest > 0); k++) {
        struct nk_tile left = nk_lanes(1, k < whole ? BLOCK : rest), out = nk_lanes(left.axis[1].extent, 1);
        struct nk_value part = nk_from(x, k * BLOCK), place = nk_from(bank, k);
        struct neuron_operand stationary = nk_operand(nk, &left, &part, 0, NULL),
                              sum = nk_operand(nk, &out, &place, 0, NULL);
        nk_multiply(nk, &sum, bank->buffer, &stationary, x->buffer, &moving, minus->buffer, true);
        struct nk_value *block = IR_NEW(nk->ctx, struct nk_value);
        *block = nk_from(v, k);
        to[k] = block;
    }
    for (int part = 0; part < 2; part++) {
        struct nk_tile t = nk_lanes(part ? rest : BLOCK, part ? 1 : whole);
        struct nk_value from = nk_from(bank, part * whole), out = nk_from(v, part * whole);
        struct neuron_instr i = {.op = NEURON_OP_TENSOR_COPY, .noperands = 2};
        if (!(part ? rest : whole))
            continue;
        i.operand[0] = nk_operand(nk, &t, &out, 0, NULL);
        i.operand[1] = nk_operand(nk, &t, &from, 0, NULL);
        nk_emit(nk, NEURON_SCALAR, &i, 2, (struct nk_use[]){{v->buffer, true, group}, {bank->buffer, false, 0}});
    }
    nk_release_to(nk, mark, NULL, 0);
    nk_drop(nk, minus);
    return to;
}

/* lse (in units of `scale`) and delta by rows, on all partitions. */
static const struct nk_value **load_rows(const struct gradient *g, const struct head *h, int load, double scale)
{
    struct nk *nk = g->nk;
    const struct nk_value **to = IR_NEWN(nk->ctx, g->extent[ROWS] / PART + 1, const struct nk_value *);
    for (int64_t lo = 0; lo < g->extent[ROWS]; lo += PART) {
        struct nk_tile t = {.n = 2,
                            .nouter = 2,
                            .axis = {{KN_MAX_DIMS - 1, 1, BLOCK}, {g->r.row, 1, smaller(g->extent[ROWS] - lo, PART)}}};
        int mark = nk_mark(nk);
        const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *v;
        memcpy(t.base, h->base, sizeof t.base);
        t.base[g->r.row] = lo;
        v = nk_solid(nk, &t, nk_computed(nk, &t, nk_evaluate(nk, &t, made, load)));
        if (scale != 1 || v->stride[1] != 1)
            v = nk_ts(nk, &t, TCC_F32, NEURON_ALU_MUL, v, 1 / scale);
        nk_release_to(nk, mark, &v, 1);
        to[lo / PART] = v;
    }
    return to;
}

/* lse and delta as numbers that products add, of all heads at once. */
static void find_added(struct gradient *g)
{
    const int load[PRODUCTS] = {g->r.lse, g->delta};
    const double by[PRODUCTS] = {-1 / g->scale, -1};
    const char *const names[PRODUCTS] = {"lse", "delta"};
    for (int i = 0; i < PRODUCTS; i++) {
        struct nk_panel **p[SIDES] = {&g->panel[ROWS][i], &g->panel[COLUMNS][i]};
        if (load[i] < 0 || (i == SCORES && !g->plain))
            continue;
        struct nk_panel *with[SIDES];
        int rows = nk_added_rows(g->type), fit = 0;
        for (int side = 0; side < SIDES; side++) {
            with[side] = nk_panel_copy(g->nk, *p[side]);
            fit += nk_panel_extend(with[side], rows);
        }
        if (fit == SIDES)
            g->added[i] = nk_added_new(g->nk, load[i], g->by_keys ? g->r.col : g->r.row, g->type, by[i], names[i]);
        for (int side = 0; side < SIDES && g->added[i]; side++)
            *p[side] = with[side];
    }
}

/* Points of a panel from lo on, with what its products add. */
static struct nk_panel *load_panel(const struct gradient *g, const struct head *h, int side, int product, int64_t lo)
{
    struct nk_panel *p = nk_panel_copy(g->nk, g->panel[side][product]);
    int64_t n = smaller(g->extent[side] - lo, PART);
    nk_panel_load(g->nk, p, h->base, lo, n);
    if (g->added[product] && side == (g->by_keys ? COLUMNS : ROWS))
        nk_added_load(g->nk, g->added[product], p, h->base, lo, n);
    else if (g->added[product])
        nk_added_ones(g->nk, g->added[product], p, lo, n);
    return p;
}

static struct head *new_head(const struct gradient *g, const int64_t *base)
{
    struct nk *nk = g->nk;
    struct head *h = IR_NEW(nk->ctx, struct head);
    memcpy(h->base, base, sizeof h->base);
    for (int i = 0; i < PRODUCTS; i++) {
        for (int side = 0; side < SIDES && (i == SCORES || g->delta >= 0); side++)
            h->panel[side][i] = IR_NEWN(nk->ctx, g->extent[side] / PART + 1, struct nk_panel *);
        if (g->r.sum[i] >= 0)
            h->columns[i] = IR_NEWN(nk->ctx, g->extent[COLUMNS] / BLOCK + 3, const struct nk_value *);
    }
    if (!g->added[SCORES])
        h->lse = g->by_keys ? load_columns(g, h, g->r.lse) : load_rows(g, h, g->r.lse, g->scale);
    if (g->delta >= 0 && !g->added[BY_WEIGHTS])
        h->delta = g->by_keys ? load_columns(g, h, g->delta) : load_rows(g, h, g->delta, 1);
    return h;
}

/* One panel, or a few blocks; false: all are loaded. */
static bool load_some(const struct gradient *g, struct head *h)
{
    for (int i = 0; i < PRODUCTS; i++) {
        for (int side = 0; side < SIDES; side++) {
            int64_t *at = &h->panels_at[side][i];
            if (!h->panel[side][i] || *at >= g->extent[side])
                continue;
            h->panel[side][i][*at / PART] = load_panel(g, h, side, i, *at);
            *at += PART;
            return true;
        }
        if (!h->columns[i] || h->columns_at[i] >= g->extent[COLUMNS])
            continue;
        h->columns_at[i] += nk_load_blocks(g->nk, &g->columns[i], h->base, h->columns_at[i], h->columns[i]);
        return true;
    }
    return false;
}

static void drop_values(const struct gradient *g, const struct nk_value **v)
{
    if (v && g->by_keys)
        nk_drop(g->nk, v[0]);
    for (int64_t lo = 0; v && !g->by_keys && lo < g->extent[ROWS]; lo += PART)
        nk_drop(g->nk, v[lo / PART]);
}

static void drop_head(const struct gradient *g, const struct head *h)
{
    struct nk *nk = g->nk;
    for (int i = 0; i < PRODUCTS; i++) {
        for (int side = 0; side < SIDES; side++)
            for (int64_t lo = 0; h->panel[side][i] && lo < g->extent[side]; lo += PART)
                nk_panel_release(nk, h->panel[side][i][lo / PART]);
        if (h->columns[i])
            nk_drop_blocks(nk, &g->columns[i], h->columns[i]);
    }
    drop_values(g, h->lse);
    drop_values(g, h->delta);
}

/* Steps that are under way: the one whose sums come next, and rows whose sums are made. */
struct pipeline {
    struct step *last;
    struct rows *ended;
    struct head *ahead; /* the head that comes next, some of which is loaded with each step; NULL: none does */
};

static void sum_last(const struct gradient *g, struct pipeline *p)
{
    if (!p->last)
        return;
    add_up(g, p->last);
    if (p->last->last_of_head)
        drop_head(g, p->last->rows->head);
}

static void run_step(struct gradient *g, struct pipeline *p, struct step *s)
{
    for (int i = 0; i < PRODUCTS; i++)
        if (i == SCORES || g->delta >= 0)
            multiply(g, s, i);
    sum_last(g, p);
    if (p->ahead)
        load_some(g, p->ahead);
    weigh(g, s);
    if (p->ended)
        finish(g, p->ended);
    p->ended = p->last && p->last->last_of_rows ? p->last->rows : NULL;
    p->last = s;
}

/* All columns that some of the rows see; the last ones, where there are none. */
static void run_rows(struct gradient *g, struct pipeline *p, struct rows *r)
{
    struct nk *nk = g->nk;
    struct step *s = NULL;
    for (int64_t lo = 0, n; lo < g->extent[COLUMNS]; lo += n) {
        struct step *t = IR_NEW(nk->ctx, struct step);
        n = points(g, COLUMNS, g->extent[COLUMNS] - lo, BLOCK);
        *t = (struct step){.rows = r, .lo = lo, .n = n};
        if (!find_visible(g, r, t) && (s || lo + n < g->extent[COLUMNS]))
            continue;
        if (s)
            run_step(g, p, s);
        s = t;
    }
    s->last_of_rows = true;
    s->last_of_head = r->lo + r->n >= g->extent[ROWS];
    run_step(g, p, s);
}

void nk_run_attention_grad(struct nk *nk)
{
    struct gradient g;
    struct pipeline p = {0};
    int64_t base[KN_MAX_DIMS] = {0};
    if (!plan(nk, &g))
        nk_refuse(nk, "attention of another form");
    nk->optional = true;
    find_added(&g);
    uint32_t heads = nk_outer_but(nk, g.r.row);
    for (struct head *h = new_head(&g, base); h; h = p.ahead) {
        while (load_some(&g, h))
            ;
        p.ahead = nk_next(nk, heads, NULL, base) ? new_head(&g, base) : NULL;
        for (int64_t lo = 0, n; lo < g.extent[ROWS]; lo += n) {
            struct rows *r = IR_NEW(nk->ctx, struct rows);
            n = points(&g, ROWS, g.extent[ROWS] - lo, PART - lo % PART);
            *r = (struct rows){.head = h, .lo = lo, .n = n};
            run_rows(&g, &p, r);
        }
    }
    sum_last(&g, &p);
    if (p.ended)
        finish(&g, p.ended);
    finish(&g, p.last->rows);
}
