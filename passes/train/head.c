/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --new-head: a classifier gets a last layer for other classes. The last dense layer is the only one from which the
 * scores come without another in between; its weight and bias keep their names (as torchvision's users have it:
 * model.fc = Linear(model.fc.in_features, classes)) and get the first values of PyTorch's Linear and Conv2d, uniform in
 * +-1 / sqrt(inputs). --head-at names a value instead, on which a layer `head` is built; what came behind it goes.
 */
#include "passes/train/adapt_int.h"

#include <math.h>
#include <string.h>

struct search {
    struct ir_ctx *ctx;
    bool *seen; /* by node */
    VEC(struct dense) found;
};

static void look_behind(struct search *s, struct ir_value *v)
{
    VEC(struct ir_value *) todo = {0};
    VEC_PUSH(s->ctx, todo, v);
    while (todo.n) {
        struct ir_node *n = todo.at[--todo.n]->def;
        struct dense d;
        if (!n || s->seen[n->id])
            continue;
        s->seen[n->id] = true;
        if (train_dense_of(n, &d)) {
            VEC_PUSH(s->ctx, s->found, d);
            continue;
        }
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].value)
                VEC_PUSH(s->ctx, todo, n->in[i].value);
    }
}

static struct ir_value *first_scores(const struct ir_func *f)
{
    for (int i = 0; i < f->body->last->nin; i++) {
        struct ir_value *v = f->body->last->in[i].value;
        if (ir_is_tensor(v->type) && tcc_is_float((enum tcc_dtype)v->type->dtype))
            return v;
    }
    return NULL;
}

static bool wrong(struct ir_module *m, const char *text)
{
    return ir_error(m->ctx, &(struct ir_where){.file = m->name}, "--new-head: %s", text);
}

/* The last dense layer of a function; false after a diagnostic. */
static bool find_head(struct ir_func *f, struct dense *head)
{
    struct ir_module *m = f->module;
    struct search s = {.ctx = m->ctx, .seen = IR_NEWN(m->ctx, f->nnodes + 1, bool)};
    struct ir_value *scores = first_scores(f);
    const char *names = "";
    if (!scores)
        return wrong(m, "the model has no output that is a tensor of floats");
    look_behind(&s, scores);
    for (int i = 0; i < s.found.n; i++)
        names = ir_internf(m->ctx, "%s%s'%s'", names, i ? ", " : "", s.found.at[i].param);
    if (!s.found.n)
        return wrong(m, "the scores come from no dense layer; --head-at=VALUE says on which value a new one is built");
    if (s.found.n > 1)
        return wrong(m, ir_internf(m->ctx,
                                   "the scores come from several dense layers (%s); --head-at=VALUE says on which "
                                   "value a new one is built",
                                   names));
    *head = s.found.at[0];
    return true;
}

/* The parameter of as many elements as the layer has outputs that is added to it. NULL: it has none. */
static struct ir_state *bias_of(const struct dense *d)
{
    const struct ir_node *n = d->node;
    struct ir_value *v = d->conv && n->nin > 2 ? n->in[2].value : NULL;
    for (struct ir_use *u = n->out[0]->uses; u && !v; u = u->next)
        if (u->user->op == IR_add)
            v = u->user->in[!u->index].value;
    struct ir_state *s = v && v->def && v->def->op == IR_state_read ? ir_state_of(v->def) : NULL;
    bool fits = s && s->flags & (IR_STATE_PARAM | IR_STATE_BUFFER) && s->type->rank &&
                ir_is_value(s->type->dim[s->type->rank - 1], d->out) &&
                ir_is_value(ir_num_elements(n->block->func->module->ctx, s->type), d->out);
    return fits ? s : NULL;
}

static int reads_of(const struct ir_func *f, const struct ir_state *s)
{
    int n = 0;
    IR_EACH_NODE(node, f->body) {
        if (node->op == IR_state_read && ir_state_of(node) == s)
            for (struct ir_use *u = node->out[0]->uses; u; u = u->next)
                n++;
    }
    return n;
}

/* The variable has `classes` in place of `old` elements of its axis, and first values. */
static void resize(struct ir_module *m, struct ir_state *s, int axis, int64_t classes, double bound, uint64_t seed)
{
    enum tcc_dtype type = (enum tcc_dtype)s->type->dtype;
    int64_t dims[TCC_MAX_RANK];
    int rank = s->type->rank;
    ir_static_dims(s->type, dims);
    dims[axis] = classes;
    s->type = ir_tensor_type_i(m->ctx, type, rank, dims);
    s->flags = IR_STATE_PARAM; /* exporters that froze it made it a buffer */
    if (s->init)
        ir_tensor_unref(s->init);
    s->init = train_draw_uniform(m->ctx, type, rank, dims, bound, seed, s->name);
}

static int64_t fan_in(const struct dense *d)
{
    int64_t dims[TCC_MAX_RANK], n = d->in;
    ir_static_dims(d->weight->type, dims);
    for (int i = 2; i < d->weight->type->rank; i++)
        n *= dims[i];
    return n;
}

/* Sizes that depend on the head's follow in all functions. */
static bool infer_all(struct ir_module *m)
{
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!ir_infer_func(f))
            return wrong(m, "the model holds the number of classes behind its last layer, too; --head-at=VALUE builds "
                            "a new one on a value in front of that");
    return true;
}

static bool replace_head(struct ir_module *m, int64_t classes, uint64_t seed, struct train_head *head)
{
    struct dense d;
    if (!find_head(m->funcs, &d))
        return false;
    if (!d.state)
        return wrong(m, ir_internf(m->ctx, "the last dense layer's weight '%s' is a constant", d.param));
    if (reads_of(m->funcs, d.state) > 1)
        return wrong(m, ir_internf(m->ctx,
                                   "the last dense layer's weight '%s' is read elsewhere, too; --head-at=VALUE builds "
                                   "a new one",
                                   d.param));
    struct ir_state *bias = bias_of(&d);
    *head = (struct train_head){d.state, bias};
    double bound = 1 / sqrt((double)(fan_in(&d) > 0 ? fan_in(&d) : 1));
    resize(m, d.state, d.by_input ? 1 : 0, classes, bound, seed);
    if (bias)
        resize(m, bias, bias->type->rank - 1, classes, bound, seed);
    return infer_all(m);
}

/* -- On a value -------------------------------------------------------------------------------------------------- */

static struct ir_value *value_named(struct ir_func *f, const char *name)
{
    for (int i = 0; i < f->body->last->nin; i++)
        if (!strcmp(ir_output_name(f, i), name))
            return f->body->last->in[i].value;
    IR_EACH_NODE(n, f->body) {
        for (int i = 0; i < n->nout; i++)
            if (n->out[i]->name && !strcmp(n->out[i]->name, name))
                return n->out[i];
    }
    return NULL;
}

static bool no_value(struct ir_func *f, const char *name)
{
    struct ir_known known = {.near.word = name};
    IR_EACH_NODE(n, f->body) {
        for (int i = 0; i < n->nout; i++)
            ir_known_add(&known, n->op != IR_state_read && n->op != IR_constant ? n->out[i]->name : NULL);
    }
    return ir_error(f->module->ctx, &(struct ir_where){.file = f->module->name},
                    "--head-at=%s: the model has no such value%s", name, ir_known_text(&known));
}

/* Features of samples [N, F, ...]: means over what lies behind F. */
static struct ir_value *features(struct ir_builder *b, struct ir_value *x)
{
    if (x->type->rank == 2)
        return x;
    struct ir_value *sum = ir_reduce_from(b, IR_reduce_sum, x, 2);
    ir_expr n = ir_const(b->ctx, 1);
    for (int i = 2; i < x->type->rank; i++)
        n = ir_mul(b->ctx, n, x->type->dim[i]);
    struct ir_value *count = ir_dim_value(b, n);
    return ir_binary(b, IR_div, sum, count ? ir_cast_to(b, count, (enum tcc_dtype)x->type->dtype) : NULL);
}

static struct ir_state *head_state(struct ir_module *m, const char *name, int rank, const int64_t *dims,
                                   enum tcc_dtype type, int64_t in, uint64_t seed)
{
    struct ir_state *s = ir_state_by_name(m, name);
    return s ? s
             : ir_state_new(m, ir_intern(m->ctx, name), ir_tensor_type_i(m->ctx, type, rank, dims),
                            train_draw_uniform(m->ctx, type, rank, dims, 1 / sqrt((double)in), seed, name),
                            IR_STATE_PARAM);
}

static bool build_head(struct ir_func *f, const char *at, int64_t classes, uint64_t seed, struct train_head *head)
{
    struct ir_module *m = f->module;
    struct ir_value *x = value_named(f, at), *scores = first_scores(f);
    struct ir_builder b = {.ctx = m->ctx, .func = f, .block = f->body, .before = f->body->last};
    int64_t in;
    if (!x)
        return no_value(f, at);
    if (!scores)
        return wrong(m, "the model has no output that is a tensor of floats");
    if (!ir_is_tensor(x->type) || !tcc_is_float((enum tcc_dtype)x->type->dtype) || x->type->rank < 2 ||
        !ir_is_const(x->type->dim[1], &in) || in < 1)
        return ir_error(
            m->ctx, &(struct ir_where){.file = m->name},
            "--head-at=%s: expected floats [samples, features, ...] with a known number of features, got %s", at,
            ir_type_text(m->ctx, x->type));
    enum tcc_dtype type = (enum tcc_dtype)x->type->dtype;
    struct ir_state *w = head_state(m, "head.weight", 2, (int64_t[]){classes, in}, type, in, seed);
    struct ir_state *bias = head_state(m, "head.bias", 1, &classes, type, in, seed);
    struct ir_value *operands[] = {features(&b, x), ir_read_state(&b, w)};
    struct ir_value *y =
        ir_build1(&b, IR_matmul, 2, operands, IR_ATTRS(ir_attr_i(IR_ATTR_trans_b, 1), ir_attr_dtype(IR_ATTR_to, type)));
    *head = (struct train_head){w, bias};
    y = ir_binary(&b, IR_add, y, ir_read_state(&b, bias));
    for (int i = 0; y && i < f->body->last->nin; i++)
        if (f->body->last->in[i].value == scores)
            ir_set_operand(f->body->last, i, y);
    ir_state_versions(f);
    return y != NULL;
}

bool train_new_head(struct ir_module *m, int64_t classes, const char *at, uint64_t seed, struct train_head *head)
{
    *head = (struct train_head){0};
    if (!at)
        return replace_head(m, classes, seed, head);
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!build_head(f, at, classes, seed, head))
            return false;
    train_drop_unread(m);
    return true;
}

bool train_find_head(struct ir_module *m, struct train_head *head)
{
    struct dense d;
    if (!find_head(m->funcs, &d))
        return false;
    *head = (struct train_head){d.state, bias_of(&d)};
    return true;
}

bool train_is_last(struct ir_func *f, const struct ir_node *n)
{
    struct search s = {.ctx = f->module->ctx, .seen = IR_NEWN(f->module->ctx, f->nnodes + 1, bool)};
    struct ir_value *scores = first_scores(f);
    if (scores)
        look_behind(&s, scores);
    for (int i = 0; i < s.found.n; i++)
        if (s.found.at[i].node == n)
            return true;
    return false;
}
