/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bnfold: a multiplication, division or addition by per-channel constants behind a convolution or matrix product with
 * constant weights goes into the weights and the bias. Batch normalisation reaches us as such a pair.
 *
 *   mul(conv(x, w, b), c) = conv(x, w * c[o], b * c)      div likewise, by 1/c
 *   add(conv(x, w, b), c) = conv(x, w, b + c)
 *   mul(matmul(x, w), c)  = matmul(x, w * c[column])
 *
 * Bounded: each weight is rounded once more (relative error u = 2^-24 for f32), so a result that is the sum of products
 * p_i changes by at most 2 u |c| sum |p_i|: as much as another order of summation may change it. Weights are scaled in
 * f64. Where they would leave the normal numbers of their type (a division by 0, a factor near its largest or smallest)
 * nothing is folded.
 */
#include "passes/rewrite_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mutant.h"

bool pass_bnfold_run(struct pass_run *r);

/* Which channel of the result a weight belongs to: (index / inner) % count, plus the group's offset. */
struct channels {
    int64_t count;            /* of the result */
    int64_t inner, per_group; /* weight index -> channel within its group */
    int64_t group_rows;       /* conv_transpose: elements of the weights per group; 0: one group for all */
};

static int64_t channel_of(const struct channels *c, int64_t i)
{
    int64_t within = i / c->inner % c->per_group;
    return c->group_rows ? i / c->group_rows * c->per_group + within : within;
}

static int64_t product(const int64_t *dims, int from, int rank)
{
    int64_t n = 1;
    for (int i = from; i < rank; i++)
        n *= dims[i];
    return n;
}

/* How the weights (operand 1) of a node map to channels of its result; false: not a node for this pass. `axis` gets the
 * result's channel axis. */
static bool find_channels(const struct ir_node *n, struct channels *c, int *axis)
{
    int64_t d[TCC_MAX_RANK], groups = ir_get_i(n, IR_ATTR_groups, 1);
    const struct ir_value *w = n->nin > 1 ? n->in[1].value : NULL;
    int rank = w ? w->type->rank : 0;

    if (!w || !ir_const_of(w) || !ir_is_tensor(w->type) || !ir_static_dims(w->type, d) || rank < 2)
        return false;
    *axis = 1;
    switch (n->op) {
    case IR_conv: *c = (struct channels){.count = d[0], .inner = product(d, 1, rank), .per_group = d[0]}; break;
    case IR_conv_transpose:
        *c = (struct channels){.count = d[1] * groups,
                               .inner = product(d, 2, rank),
                               .per_group = d[1],
                               .group_rows = d[0] / groups * product(d, 1, rank)};
        break;
    case IR_matmul:
        *axis = n->out[0]->type->rank - 1;
        if (rank != 2 || n->in[0].value->type->rank < 2)
            return false;
        *c = ir_get_i(n, IR_ATTR_trans_b, 0) ? (struct channels){.count = d[0], .inner = d[1], .per_group = d[0]}
                                             : (struct channels){.count = d[1], .inner = 1, .per_group = d[1]};
        break;
    default: return false;
    }
    return c->inner > 0 && c->per_group > 0 && c->count > 0;
}

/* Is a constant one value per channel (or one for all) when it broadcasts to a result of that rank? */
static bool per_channel(const struct ir_tensor *c, int rank, int axis, int64_t count)
{
    for (int i = 0; i < c->rank; i++) {
        int at = rank - c->rank + i;
        if (at < 0 || (c->dims[i] != 1 && !(MUTANT(86, at == axis, true) && c->dims[i] == count)))
            return false;
    }
    return true;
}

static double element(const struct ir_tensor *c, int64_t channel)
{
    return tcc_load_f64((enum tcc_dtype)c->dtype, ir_tensor_at(c, c->nelems == 1 ? 0 : channel));
}

/* A factor as a multiplication has it. */
static double factor(enum ir_op op, const struct ir_tensor *c, int64_t channel)
{
    return MUTANT(84, op == IR_div, false) ? 1 / element(c, channel) : element(c, channel);
}

/*
 * Does a channel whose largest weight is v keep its precision when it is scaled by f? Nothing may overflow, and what
 * falls below the normal numbers must be small beside v; a channel that is all but 0 before may stay so.
 */
static bool keeps_precision(enum tcc_dtype d, double v, double f)
{
    double least = d == TCC_F64 ? DBL_MIN * 0x1p53 : d == TCC_F16 ? 0x1p-14 : FLT_MIN * 0x1p24;
    double product = v * fabs(f);
    return isfinite(f) && product <= tcc_largest(d) && (product >= least || v < least || f == 0);
}

/* An element of a constant, which may lie anywhere in a mapped file; most are floats. */
static double load(enum tcc_dtype d, const char *at)
{
    float f;
    if (d != TCC_F32)
        return tcc_load_f64(d, at);
    memcpy(&f, at, sizeof f);
    return f;
}

/* Of n elements from i on, one channel's: the largest magnitude; `f` times those. */
static double largest_of(const struct ir_tensor *w, int64_t i, int64_t n)
{
    enum tcc_dtype d = (enum tcc_dtype)w->dtype;
    const char *from = ir_tensor_at(w, i);
    int step = w->splat ? 0 : tcc_dtype_bytes(d);
    double most = 0;
    for (int64_t j = 0; j < n; j++) {
        double v = fabs(load(d, from + j * step));
        most = v > most ? v : most;
    }
    return most;
}

static void scale(const struct ir_tensor *w, int64_t i, int64_t n, double f, char *out)
{
    enum tcc_dtype d = (enum tcc_dtype)w->dtype;
    const char *from = ir_tensor_at(w, i);
    int bytes = tcc_dtype_bytes(d), step = w->splat ? 0 : bytes;
    for (int64_t j = 0; j < n; j++) {
        double v = load(d, from + j * step) * f;
        char *to = out + (i + j) * bytes;
        if (d == TCC_F32)
            memcpy(to, &(float){(float)v}, sizeof(float));
        else
            tcc_store_f64(d, to, v);
    }
}

static bool scales_well(struct ir_ctx *ctx, const struct ir_tensor *w, const struct channels *ch,
                        const struct ir_tensor *bias, enum ir_op op, const struct ir_tensor *c)
{
    enum tcc_dtype d = (enum tcc_dtype)w->dtype;
    if (op == IR_add)
        return true;
    double *largest = IR_NEWN(ctx, ch->count, double);
    for (int64_t i = 0; i < w->nelems; i += ch->inner) {
        double v = largest_of(w, i, ch->inner), *max = &largest[channel_of(ch, i)];
        *max = v > *max ? v : *max;
    }
    for (int64_t i = 0; i < ch->count; i++) {
        double b = bias ? fabs(tcc_load_f64(d, ir_tensor_at(bias, i))) : 0;
        if (!keeps_precision(d, largest[i], factor(op, c, i)) || !keeps_precision(d, b, factor(op, c, i)))
            return false;
    }
    return true;
}

static struct ir_tensor *scaled_weights(const struct ir_tensor *w, const struct channels *ch, enum ir_op op,
                                        const struct ir_tensor *c)
{
    struct ir_tensor *out = ir_tensor_new((enum tcc_dtype)w->dtype, w->rank, w->dims);

    for (int64_t i = 0; out && i < w->nelems; i += ch->inner)
        scale(w, i, ch->inner, factor(op, c, channel_of(ch, i)), (char *)(uintptr_t)out->data);
    return out;
}

/* bias * c, or bias + c; no bias is 0. */
static struct ir_tensor *changed_bias(const struct ir_tensor *bias, int64_t count, enum ir_op op,
                                      const struct ir_tensor *c)
{
    struct ir_tensor *out = ir_tensor_new((enum tcc_dtype)c->dtype, 1, &count);
    int bytes = tcc_dtype_bytes((enum tcc_dtype)c->dtype);
    char *to = out ? (char *)(uintptr_t)out->data : NULL;

    for (int64_t i = 0; out && i < count; i++) {
        double b = bias ? tcc_load_f64((enum tcc_dtype)bias->dtype, ir_tensor_at(bias, i)) : 0;
        tcc_store_f64((enum tcc_dtype)c->dtype, to + i * bytes,
                      op == IR_add ? b + element(c, i) : MUTANT(85, b * factor(op, c, i), b));
    }
    return out;
}

/* The node again, with other weights and bias. */
static struct ir_value *rebuild(struct rewrite *w, const struct ir_node *n, struct ir_value *weights,
                                struct ir_value *bias)
{
    struct ir_value *in[] = {n->in[0].value, weights, bias};
    struct ir_attr *attrs = IR_NEWN(w->b.ctx, n->nattrs + 1, struct ir_attr);

    if (!weights)
        return NULL;
    for (int i = 0; i < n->nattrs; i++)
        attrs[i] = n->attrs[i];
    w->b.where = n->where;
    return ir_build1(&w->b, n->op, bias ? 3 : 2, in, attrs);
}

static struct ir_value *new_constant(struct rewrite *w, struct ir_tensor *t)
{
    return t ? ir_constant(&w->b, t) : NULL;
}

static struct ir_value *fold_channels(struct rewrite *w, struct ir_node *n)
{
    struct channels ch;
    int axis;
    struct ir_value *x = n->in[0].value;
    const struct ir_tensor *c = ir_const_of(n->in[1].value);

    if (!c || !x->def || !ir_has_one_use(x) || !rewrite_has_result_type(n, x) || !find_channels(x->def, &ch, &axis))
        return NULL;
    struct ir_node *linear = x->def;
    const struct ir_tensor *weights = ir_const_of(linear->in[1].value);
    struct ir_value *old_bias = rewrite_operand(linear, 2);
    const struct ir_tensor *bias = old_bias ? ir_const_of(old_bias) : NULL;
    if (!tcc_is_float(rewrite_dtype_of(x)) || weights->dtype != x->type->dtype || c->dtype != x->type->dtype ||
        (old_bias && !bias) || !per_channel(c, x->type->rank, axis, ch.count) ||
        (linear->op == IR_matmul && n->op == IR_add) || !scales_well(w->b.ctx, weights, &ch, bias, n->op, c) ||
        !rewrite_go(w))
        return NULL;
    struct ir_value *new_weights = linear->in[1].value, *new_bias = old_bias;
    if (n->op != IR_add)
        new_weights = new_constant(w, scaled_weights(weights, &ch, n->op, c));
    if (n->op == IR_add || bias)
        new_bias = new_constant(w, changed_bias(bias, ch.count, n->op, c));
    return rebuild(w, linear, new_weights, new_bias);
}

RULES(bnfold, false, RULE(mul, fold_channels), RULE(div, fold_channels), RULE(add, fold_channels));

bool pass_bnfold_run(struct pass_run *r)
{
    if (pass_bounded(r))
        rewrite_module(r, &bnfold);
    return true;
}
