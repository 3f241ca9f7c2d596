/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layers.c - ops that are made of others: softmax, norms, dropout, losses. While one is recorded the context has the
 * name of the operator that it stands for, which stands in messages, and the composite, which decides about autocast.
 */
#include "compiler/trace/trace_int.h"

/* What was recorded before. */
struct outer {
    const char *source;
    enum composite composite;
};

static struct outer enter(struct trace_tensor *x, const char *source, enum composite composite)
{
    struct outer outer = {x->c->source, x->c->composite};
    x->c->source = source;
    x->c->composite = composite;
    return outer;
}

static struct trace_tensor *leave(struct trace_tensor *x, struct outer outer, struct trace_tensor *y)
{
    x->c->source = outer.source;
    x->c->composite = outer.composite;
    return y;
}

/* x - max x: exp of it can't overflow. */
static struct trace_tensor *shifted(struct trace_tensor *x, int64_t axis)
{
    return trace_sub(x, trace_amax(x, 1, &axis, true));
}

struct trace_tensor *trace_softmax(struct trace_tensor *x, int axis)
{
    int64_t at = axis;
    if (!x)
        return NULL;
    struct outer outer = enter(x, "Softmax", COMPOSITE_softmax);
    struct trace_tensor *e = trace_exp(shifted(x, at));
    return leave(x, outer, trace_div(e, trace_sum(e, 1, &at, true)));
}

struct trace_tensor *trace_log_softmax(struct trace_tensor *x, int axis)
{
    int64_t at = axis;
    if (!x)
        return NULL;
    struct outer outer = enter(x, "LogSoftmax", COMPOSITE_log_softmax);
    struct trace_tensor *s = shifted(x, at);
    return leave(x, outer, trace_sub(s, trace_log(trace_sum(trace_exp(s), 1, &at, true))));
}

/* -- Norms ---------------------------------------------------------------------------------------------------- */

/* Narrow floats are summed in f32. */
static struct trace_tensor *widened(struct trace_tensor *x)
{
    return x->dtype == TCC_F16 || x->dtype == TCC_BF16 ? trace_cast(x, TCC_F32) : x;
}

static struct trace_tensor *like(struct trace_tensor *t, const struct trace_tensor *x)
{
    return t ? trace_cast(t, x->dtype) : NULL;
}

struct trace_tensor *trace_layer_norm(struct trace_tensor *x, int n, struct trace_tensor *scale,
                                      struct trace_tensor *bias, double eps)
{
    int64_t axes[TCC_MAX_RANK];
    if (!x)
        return NULL;
    if (n < 1 || n > x->rank)
        return trace_fail(x->c, TCC_EUSAGE, "layer_norm: over %d axes of a tensor with %d", n, x->rank), NULL;
    for (int i = 0; i < n; i++)
        axes[i] = x->rank - n + i;
    struct outer outer = enter(x, "LayerNormalization", COMPOSITE_layer_norm);
    struct trace_tensor *wide = widened(x), *centred = wide ? trace_sub(wide, trace_mean(wide, n, axes, true)) : NULL;
    struct trace_tensor *variance = trace_mean(trace_square(centred), n, axes, true);
    struct trace_tensor *y = trace_mul(centred, trace_rsqrt(trace_add_number(variance, eps)));
    if (scale)
        y = trace_mul(y, y ? like(scale, y) : NULL);
    if (bias)
        y = trace_add(y, y ? like(bias, y) : NULL);
    if (y && x->c->autocast == TCC_NONE)
        y = like(y, x);
    return leave(x, outer, y);
}

/* [channels] as [channels, 1, ...], which broadcasts to x. */
static struct trace_tensor *along_channels(struct trace_tensor *t, const struct trace_tensor *x)
{
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < x->rank - 1; i++)
        dims[i] = i ? 1 : x->dims[1];
    return t ? trace_reshape(like(t, x), x->rank - 1, dims) : NULL;
}

static void update_running(struct trace_tensor *running, struct trace_tensor *now, double momentum, double factor)
{
    struct trace_tensor *kept = trace_mul_number(running, 1 - momentum);
    now = now ? trace_mul_number(like(now, running), momentum * factor) : NULL;
    struct trace_tensor *sum = kept && now ? trace_add(kept, now) : NULL;
    if (sum)
        trace_assign(running, trace_detach(sum));
}

struct trace_tensor *trace_batch_norm(struct trace_tensor *x, struct trace_tensor *scale, struct trace_tensor *bias,
                                      struct trace_tensor *mean, struct trace_tensor *variance, bool training,
                                      double momentum, double eps)
{
    int64_t axes[TCC_MAX_RANK], count = 1;
    int n = 0;
    if (!x || !scale || !bias || !mean || !variance)
        return NULL;
    if (x->rank < 2)
        return trace_fail(x->c, TCC_EUSAGE, "batch_norm: a tensor of rank %d has no channels", x->rank), NULL;
    for (int i = 0; i < x->rank; i++)
        if (i != 1) {
            axes[n++] = i;
            count *= x->dims[i];
        }
    struct outer outer = enter(x, "BatchNormalization", COMPOSITE_batch_norm);
    struct trace_tensor *wide = widened(x), *m = training ? trace_mean(wide, n, axes, false) : mean;
    struct trace_tensor *centred = wide ? trace_sub(wide, along_channels(m, wide)) : NULL, *v = variance;
    if (training)
        v = trace_mean(trace_square(centred), n, axes, false);
    struct trace_tensor *inverse = v ? trace_rsqrt(trace_add_number(v, eps)) : NULL;
    struct trace_tensor *y = v ? trace_mul(centred, along_channels(trace_mul(like(scale, v), inverse), x)) : NULL;
    y = y ? trace_add(y, along_channels(bias, y)) : NULL;
    if (training && y) {
        update_running(mean, m, momentum, 1);
        update_running(variance, v, momentum, (double)count / (double)(count > 1 ? count - 1 : 1));
    }
    if (y && x->c->autocast == TCC_NONE)
        y = like(y, x);
    return leave(x, outer, x->c->status ? NULL : y);
}

/* -- Dropout ---------------------------------------------------------------------------------------------------- */

struct trace_tensor *trace_dropout(struct trace_tensor *x, double probability)
{
    if (!x || probability == 0)
        return x;
    struct trace_ctx *c = x->c;
    if (!(probability > 0 && probability < 1))
        return trace_fail(c, TCC_EUSAGE, "dropout: the probability is %g; from 0 to below 1 is expected", probability),
               NULL;
    const int64_t type = TCC_F32;
    const struct tcc_attr attrs[] = {{.name = "shape", .kind = TCC_ATTR_INTS, .n = x->rank, .ints = x->dims},
                                     {.name = "to", .kind = TCC_ATTR_INTS, .n = 1, .ints = &type},
                                     {0}};
    struct trace_tensor *trace_scalar_probability = trace_scalar(c, TCC_F32, probability);
    struct trace_tensor *kept = trace_ge(trace_op(c, "random_uniform", 0, NULL, attrs), trace_scalar_probability);
    struct trace_tensor *trace_scalar_dtype = trace_scalar(c, x->dtype, 0);
    return trace_select(kept, trace_mul_number(x, 1 / (1 - probability)), trace_scalar_dtype);
}

/* -- Losses -------------------------------------------------------------------------------------------------------- */

struct loss_work {
    struct trace_tensor *scores, *target, *out;
    const char *text;
};

static void build_loss(struct trace_ctx *c, void *arg)
{
    struct loss_work *w = arg;
    struct trace_graph *g = &c->graph;
    struct ir_value *scores = trace_value(w->scores), *target = trace_value(w->target), *value;
    char a[256], b[256];
    if (!scores || !target)
        return;
    int messages = ir_nmessages(g->ctx);
    g->b.where = (struct ir_where){.op = "loss"};
    if (!train_loss_at(&g->b, w->text, scores, target, NULL, &value, NULL)) {
        const char *why = messages < ir_nmessages(g->ctx) ? ir_message(g->ctx, messages)->text : "it cannot be built";
        trace_fail(c, TCC_EINPUT, "loss %s(%s, %s): %s", w->text, trace_type_text(w->scores, a, sizeof a),
                   trace_type_text(w->target, b, sizeof b), why);
        return;
    }
    struct trace_whole whole = {value, scores, target, ir_intern(g->ctx, w->text)};
    VEC_PUSH(g->ctx, g->wholes, whole);
    w->out = trace_tensor_of(c, value);
}

struct trace_tensor *trace_loss(struct trace_tensor *scores, struct trace_tensor *target, const char *loss)
{
    struct loss_work w = {.scores = scores, .target = target, .text = loss};
    if (!scores || !target)
        return NULL;
    if (scores->c != target->c)
        return trace_fail(scores->c, TCC_EUSAGE, "loss: the target is of another context"), NULL;
    return trace_do(scores->c, build_loss, &w) ? NULL : w.out;
}

struct trace_tensor *trace_cross_entropy(struct trace_tensor *scores, struct trace_tensor *labels)
{
    return trace_loss(scores, labels, "cross_entropy");
}

struct trace_tensor *trace_nll(struct trace_tensor *logarithms, struct trace_tensor *labels)
{
    return trace_loss(logarithms, labels, "nll");
}

struct trace_tensor *trace_mse(struct trace_tensor *x, struct trace_tensor *y)
{
    return trace_loss(x, y, "mse");
}
