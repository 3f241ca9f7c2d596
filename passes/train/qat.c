/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --qat: a step that trains for 8 or 4 bits. Before each product and convolution stand its input and its weight as
 * bytes will hold them, round(clip(x / s)) s, whose rounding the gradient does not see (Bengio et al. 2013:
 * straight-through). Steps s are trained (Esser et al.: Learned step size quantization, ICLR 2020;
 * https://arxiv.org/abs/1902.08153): one for each output of a weight, qat.step.PARAM, and one for an input,
 * qat.input_step.PARAM, whose zero point qat.input_zero.PARAM stays what the first batch has set; PARAM:2 is the second
 * input that meets that weight, in the order of nodes. Their gradients are divided by the root of n Qp, n elements
 * sharing a step of Qp levels upwards, as the paper has it.
 *
 * Inputs have 256 levels, weights those of -127..127 or -7..7. @calibrate runs a batch through the model and leaves
 * about what tccc-quantize --method=minmax would choose from it, with a little room: what is just at the end of a range
 * counts as clipped, and would drive its step. qat.int8 or qat.int4 is 0 until then.
 */
#include "passes/train/adapt_int.h"
#include "passes/train/entry_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define STEP "qat.step."
#define INPUT_STEP "qat.input_step."
#define INPUT_ZERO "qat.input_zero."
enum { INPUT_LEVELS = 255 };
#define SLACK (1.0 / 64)

/* What stands for a value that is read by products: of a weight, the axis of its outputs besides. */
struct faked {
    struct ir_value *from, *to;
    int axis;
    const char *param;
};

struct adding {
    struct ir_ctx *ctx;
    struct ir_func *f;
    double levels; /* of weights, on either side of 0 */
    VEC(struct faked) done;
};

static double weight_levels(const struct train_options *o)
{
    return !strcmp(o->qat, "int4") ? 7 : 127;
}

/* Of the state variable that says whether steps have begun; a checkpoint of steps of other bits has another one. */
static const char *done_name(const struct training *t)
{
    return ir_internf(t->ctx, "qat.%s", t->o->qat);
}

/* -- Fake quantisation ------------------------------------------------------------------------------------------- */

static struct ir_state *own_state(struct ir_module *m, const char *name, int rank, const int64_t *dims, float first,
                                  int flags)
{
    struct ir_state *s = ir_state_by_name(m, name);
    return s ? s
             : ir_state_new(m, ir_intern(m->ctx, name), ir_tensor_type_i(m->ctx, TCC_F32, rank, dims),
                            ir_tensor_splat(TCC_F32, rank, dims, &first), flags);
}

/* The step, from `least` on; its gradient is multiplied by `factor`, and not the step itself. */
static struct ir_value *step_of(struct ir_builder *b, struct ir_state *state, double factor)
{
    struct ir_value *s = ir_formula_n(b, "max(x, a)", IR_NUMBERS(FLT_EPSILON), ir_read_state(b, state));
    return ir_formula_n(b, "y + (x - y) * a", IR_NUMBERS(factor), s, ir_unary(b, IR_stop_gradient, s));
}

/* round(clip(x / s, lo, hi)) s. Of what is within +-255, r - c and c + (r - c) are exact. */
static struct ir_value *faked(struct ir_builder *b, struct ir_value *x, struct ir_value *s, struct ir_value *lo,
                              struct ir_value *hi)
{
    struct ir_value *c = ir_formula(b, "clip(x / y, z, u)", x, s, lo, hi);
    struct ir_value *off = ir_unary(b, IR_stop_gradient, ir_formula(b, "round(x) - x", c));
    return ir_formula(b, "(x + y) * z", c, off, s);
}

static struct ir_value *done_before(struct adding *g, const struct ir_value *v, int axis, bool *other)
{
    *other = false;
    for (int i = 0; i < g->done.n; i++)
        if (g->done.at[i].from == v) {
            *other = g->done.at[i].axis != axis;
            return g->done.at[i].to;
        }
    return NULL;
}

/* How many elements of a sample share an input's step; sizes that only the run knows don't count. */
static double features(ir_type t)
{
    double n = 1;
    for (int i = 1; i < t->rank; i++)
        n *= (double)ir_const_or(t->dim[i], 1);
    return n;
}

/* What an input's step is called behind the prefix: as export finds it (tools/quant/trained.c). */
static const char *input_name(const struct adding *g, const char *param)
{
    int before = 0;
    for (int i = 0; i < g->done.n; i++)
        before += g->done.at[i].axis < 0 && g->done.at[i].param == param;
    return before ? ir_internf(g->ctx, "%s:%d", param, before + 1) : param;
}

static struct ir_value *fake_input(struct adding *g, const struct dense *d)
{
    struct ir_node *n = d->node;
    struct ir_builder b = {.ctx = g->ctx, .func = g->f, .block = n->block, .before = n, .where = n->where};
    struct ir_value *x = n->in[0].value, *to;
    bool other;
    if ((to = done_before(g, x, -1, &other)))
        return to;
    const char *name = input_name(g, d->param);
    struct ir_state *step =
                        own_state(g->f->module, ir_internf(g->ctx, INPUT_STEP "%s", name), 0, NULL, 1, IR_STATE_PARAM),
                    *zero = own_state(g->f->module, ir_internf(g->ctx, INPUT_ZERO "%s", name), 0, NULL, 128,
                                      IR_STATE_BUFFER);
    struct ir_value *z = ir_read_state(&b, zero), *s = step_of(&b, step, 1 / sqrt(features(x->type) * INPUT_LEVELS));
    struct ir_value *difference = ir_binary(&b, IR_sub, ir_constant_f(&b, TCC_F32, INPUT_LEVELS), z);
    to = faked(&b, x, s, ir_unary(&b, IR_neg, z), difference);
    VEC_PUSH(g->ctx, g->done, (struct faked){x, to, -1, d->param});
    return to;
}

/* NULL: the weight has its steps along another axis already. */
static struct ir_value *fake_weight(struct adding *g, const struct dense *d)
{
    struct ir_node *at = d->weight->def;
    struct ir_builder b = {.ctx = g->ctx, .func = g->f, .block = at->block, .before = at->next, .where = at->where};
    int64_t dims[TCC_MAX_RANK];
    double all = 1;
    bool other;
    struct ir_value *to = done_before(g, d->weight, d->by_input, &other);
    if (to)
        return other ? NULL : to;
    ir_static_dims(d->weight->type, dims);
    for (int i = 0; i < d->weight->type->rank; i++) {
        all *= (double)dims[i];
        dims[i] = i == d->by_input ? d->out : 1;
    }
    struct ir_state *step = own_state(g->f->module, ir_internf(g->ctx, STEP "%s", d->param), d->weight->type->rank,
                                      dims, 1, IR_STATE_PARAM);
    struct ir_value *s = step_of(&b, step, 1 / sqrt(all / (double)d->out * g->levels));
    struct ir_value *levels_value = ir_constant_f(&b, TCC_F32, g->levels);
    to = faked(&b, d->weight, s, ir_constant_f(&b, TCC_F32, -g->levels), levels_value);
    VEC_PUSH(g->ctx, g->done, (struct faked){d->weight, to, d->by_input, d->param});
    return to;
}

/* The node, it or a transposition before it, that reads the weight itself. */
static void put_weight(struct ir_node *n, const struct ir_value *weight, struct ir_value *to)
{
    int i = 1;
    while (n->in[i].value != weight) {
        n = n->in[i].value->def;
        i = 0;
    }
    ir_set_operand(n, i, to);
}

static bool fake_layer(struct adding *g, const struct dense *d)
{
    struct ir_value *w = fake_weight(g, d), *x = w ? fake_input(g, d) : NULL;
    if (w && x) {
        put_weight(d->node, d->weight, w);
        ir_set_operand(d->node, 0, x);
    }
    return !w || x;
}

static bool can_be(const struct dense *d)
{
    ir_type x = d->node->in[0].value->type;
    return d->state && d->weight->type->dtype == TCC_F32 && ir_is_tensor(x) && x->dtype == TCC_F32;
}

bool train_add_qat(struct training *t)
{
    int count = 0;
    for (struct ir_func *f = t->o->qat ? t->m->funcs : NULL; f; f = f->next) {
        struct adding g = {.ctx = t->ctx, .f = f, .levels = weight_levels(t->o)};
        struct dense d;
        VEC(struct dense) found = {0};
        IR_EACH_NODE(n, f->body) {
            if (train_dense_of(n, &d) && can_be(&d))
                VEC_PUSH(t->ctx, found, d);
        }
        for (int i = 0; i < found.n; i++)
            if (!fake_layer(&g, &found.at[i]))
                return false;
        count += g.done.n;
        ir_state_versions(f);
    }
    if (t->o->qat)
        ir_state_new(t->m, done_name(t), ir_scalar_type(t->ctx, TCC_I64), ir_tensor_scalar_i(TCC_I64, 0),
                     IR_STATE_BUFFER);
    return !t->o->qat || count ||
           train_complain(t, "%s", "--qat: no product or convolution of float32 has a parameter for its weight");
}

/* -- First steps ------------------------------------------------------------------------------------------------- */

static struct ir_node *read_in(struct ir_func *f, const struct ir_state *s)
{
    IR_EACH_NODE(n, f->body) {
        if (n->op == IR_state_read && ir_state_of(n) == s)
            return n;
    }
    return NULL;
}

/* What is divided by the step v. */
static struct ir_value *divided_by(const struct ir_value *v)
{
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        struct ir_node *n = u->user;
        if (n->op == IR_div)
            return n->in[1].value == v ? n->in[0].value : NULL;
        struct ir_value *x = ir_op_info(n->op)->kind == IR_K_MAP && n->op != IR_mul ? divided_by(n->out[0]) : NULL;
        if (x)
            return x;
    }
    return NULL;
}

/* Over the axes that the step does not have, of what is finite; of all ranks the mean. */
static struct ir_value *extreme(struct entry *e, struct ir_builder *b, enum ir_op op, struct ir_value *x, ir_type step)
{
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->type->rank; i++)
        if (!step->rank || ir_is_value(step->dim[i], 1))
            axes[n++] = i;
    x = ir_formula_n(b, "select(le(abs(x), a), x, 0)", IR_NUMBERS(FLT_MAX), x);
    x = ir_reduce(b, op, x, n, axes, step->rank > 0);
    return train_parallel_mean(b, e->t->o, x);
}

/* A step that makes `levels` of the range; of no range, 1. */
static struct ir_value *step_for(struct ir_builder *b, struct ir_value *range, double levels)
{
    struct ir_value *s = ir_formula_n(b, "min(x, a) / b", IR_NUMBERS(FLT_MAX, levels), range);
    return ir_formula_n(b, "select(gt(x, a), x, 1)", IR_NUMBERS(FLT_EPSILON), s);
}

static bool put_state(struct entry *e, struct ir_node *read, struct ir_value *v)
{
    struct ir_state *s = ir_state_of(read);
    ir_replace_uses(read->out[0], v);
    ir_remove(read);
    return ir_write_state(&e->b, s, v);
}

static bool calibrate_one(struct entry *e, struct ir_node *read)
{
    struct ir_ctx *ctx = e->t->ctx;
    const struct ir_state *s = ir_state_of(read);
    struct ir_value *x = divided_by(read->out[0]), *step;
    struct ir_builder b = {.ctx = ctx, .func = e->func, .block = read->block, .before = read};
    bool input = !strncmp(s->name, INPUT_STEP, strlen(INPUT_STEP));
    struct ir_value *none = ir_constant_f(&b, TCC_F32, 0);
    while (x && x->def && x->def->op == IR_cast)
        x = x->def->in[0].value;
    if (!x)
        return true;
    x = ir_cast_to(&b, x, TCC_F32);
    if (!input) {
        step = step_for(&b, extreme(e, &b, IR_reduce_max, ir_unary(&b, IR_abs, x), s->type),
                        weight_levels(e->t->o) - SLACK);
        return put_state(e, read, step);
    }
    struct ir_state *zero = ir_state_by_name(e->t->m, ir_internf(ctx, INPUT_ZERO "%s", s->name + strlen(INPUT_STEP)));
    struct ir_node *zero_read = zero ? read_in(e->func, zero) : NULL;
    struct ir_value *lo = ir_binary(&b, IR_min, extreme(e, &b, IR_reduce_min, x, s->type), none);
    struct ir_value *hi = ir_binary(&b, IR_max, extreme(e, &b, IR_reduce_max, x, s->type), none);
    step = step_for(&b, ir_binary(&b, IR_sub, hi, lo), INPUT_LEVELS - 1);
    struct ir_value *z = ir_formula(&b, "round(0.5 - x / y)", lo, step);
    if (zero_read)
        ir_move_before(zero_read, read->next);
    return put_state(e, read, step) && (!zero_read || put_state(e, zero_read, z));
}

static bool build_one(struct entry *e, void *none)
{
    VEC(struct ir_node *) reads = {0};
    (void)none;
    for (int i = 0; i < e->nwrites; i++)
        ir_remove(e->writes[i]);
    e->nwrites = 0;
    IR_EACH_NODE(n, e->func->body) {
        const char *name = n->op == IR_state_read ? ir_state_of(n)->name : "";
        if (!strncmp(name, STEP, strlen(STEP)) || !strncmp(name, INPUT_STEP, strlen(INPUT_STEP)))
            VEC_PUSH(e->t->ctx, reads, n);
    }
    for (int i = 0; i < reads.n; i++)
        if (!calibrate_one(e, reads.at[i]))
            return false;
    struct ir_state *done = ir_state_by_name(e->t->m, done_name(e->t));
    return ir_write_state(&e->b, done, ir_constant_i(&e->b, TCC_I64, 1)) && train_entry_end(e, 0, NULL, NULL);
}

bool train_build_calibrate(struct training *t)
{
    struct entry *e = IR_NEWN(t->ctx, t->ntrains, struct entry);
    void **none = IR_NEWN(t->ctx, t->ntrains, void *);
    return !t->o->qat || (train_build_versions(t, "calibrate", t->ntrains, t->trains, e, build_one, none) &&
                          train_join_versions(t, "calibrate", t->ntrains, e));
}

/* -- Options ----------------------------------------------------------------------------------------------------- */

bool train_qat_check(struct ir_ctx *ctx, const struct train_options *o)
{
    const char *with = !o->qat                             ? NULL
                       : o->stages                         ? "--partitions and --microbatches"
                       : o->tensor_parallel > 1            ? "--tensor-parallel"
                       : o->context_parallel > 1           ? "--context-parallel"
                       : o->expert_parallel > 1            ? "--expert-parallel"
                       : train_zero_has(o, 3)              ? "--zero=3"
                       : !o->precision                     ? NULL
                       : !strncmp(o->precision, "bf16", 4) ? "--precision=bf16-sr and bf16-master"
                                                           : NULL;
    if (o->qat && strcmp(o->qat, "int8") && strcmp(o->qat, "int4"))
        ir_error(ctx, NULL, "--qat=%s: expected int8 or int4", o->qat);
    else if (with)
        ir_error(ctx, NULL, "--qat and %s exclude each other", with);
    else
        return true;
    return false;
}
