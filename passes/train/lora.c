/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-rank adapters (Hu et al.: LoRA, ICLR 2022; https://arxiv.org/abs/2106.09685): beside a layer's product x W'
 * stands alpha / r (x A') B', with A [r, inputs] and B [outputs, r]; of a convolution, A is one of r channels and
 * the layer's kernel, B one of 1x1. A has PyTorch's first values for Linear, B zeros, so that training begins with the
 * model as it is. State variables have PEFT's names (LAYER.lora_A.weight, LAYER.lora_B.weight); LAYER.lora_alpha is
 * alpha. The model's own parameters become constants: they lie, read only, in the artifact, and have neither gradients
 * nor optimizer state; checkpoints don't hold them.
 */
#include "passes/train/lora_int.h"

#include <math.h>
#include <string.h>

static bool wrong(struct ir_module *m, const char *text)
{
    return ir_error(m->ctx, &(struct ir_where){.file = m->name}, "--lora: %s", text);
}

/* -- Which layers ------------------------------------------------------------------------------------------------ */

static bool is_meant(struct ir_func *f, const struct train_lora *l, const struct dense *d, bool last_too,
                     const struct train_adapter **stored)
{
    *stored = NULL;
    for (int i = 0; i < l->n && !*stored; i++)
        *stored = !strcmp(l->at[i].module, d->module) ? &l->at[i] : NULL;
    if (l->from)
        return *stored;
    if (l->targets)
        return lora_matches(l->targets, d->module);
    return !d->conv && (last_too || !train_is_last(f, d->node));
}

static bool sizes_fit(struct ir_module *m, const struct lora_layer *x)
{
    struct lora_sizes want = lora_sizes(&x->d, x->stored ? x->stored->a->dims[0] : 1);
    const struct ir_tensor *a = x->stored ? x->stored->a : NULL, *b = x->stored ? x->stored->b : NULL;
    bool fits = !a || (a->rank == want.rank && b->rank == want.rank);
    for (int i = 0; a && fits && i < want.rank; i++)
        fits = a->dims[i] == want.a[i] && b->dims[i] == want.b[i];
    if (fits && x->stored && x->stored->magnitude)
        fits = x->stored->magnitude->nelems == x->d.out && x->stored->magnitude->rank == dora_size(&x->d).rank;
    if (!fits)
        return wrong(m, ir_internf(m->ctx,
                                   "the adapter of '%s' is of another layer: '%s' has %lld inputs and %lld "
                                   "outputs",
                                   x->stored->module, x->d.param, (long long)x->d.in, (long long)x->d.out));
    if (x->d.conv && ir_get_i(x->d.node, IR_ATTR_groups, 1) != 1)
        return wrong(m, ir_internf(m->ctx, "'%s' is a convolution in groups, which has no adapter", x->d.module));
    return true;
}

static void find_layers(struct ir_func *f, const struct train_lora *l, bool last_too, struct lora_layers *out)
{
    IR_EACH_NODE(n, f->body) {
        struct lora_layer x;
        if (train_dense_of(n, &x.d) && is_meant(f, l, &x.d, last_too, &x.stored))
            VEC_PUSH(f->module->ctx, out->list, x);
    }
}

static bool none_found(struct ir_func *f, const struct train_lora *l)
{
    struct ir_known known = {.near.word = l->targets ? l->targets : ""};
    struct dense d;
    IR_EACH_NODE(n, f->body) {
        if (train_dense_of(n, &d))
            ir_known_add(&known, d.module);
    }
    return wrong(f->module, ir_internf(f->module->ctx, "targets=%s: no layer matches%s", l->targets ? l->targets : "",
                                       ir_known_text(&known)));
}

/* Each stored adapter must have its layer. */
static bool all_used(struct ir_func *f, const struct train_lora *l, const struct lora_layers *found)
{
    struct dense d;
    for (int i = 0; i < l->n; i++) {
        bool used = false;
        for (int k = 0; k < found->list.n; k++)
            used |= found->list.at[k].stored == &l->at[i];
        if (used)
            continue;
        struct ir_known known = {.near.word = l->at[i].module};
        IR_EACH_NODE(n, f->body) {
            if (train_dense_of(n, &d))
                ir_known_add(&known, d.module);
        }
        return ir_error(f->module->ctx, &(struct ir_where){.file = l->from},
                        "an adapter is of the layer '%s', which '%s' has not%s", l->at[i].module, f->module->name,
                        ir_known_text(&known));
    }
    return true;
}

bool lora_find(struct ir_func *f, const struct train_lora *l, struct lora_layers *out)
{
    find_layers(f, l, false, out);
    if (!out->list.n && !l->from && !l->targets)
        find_layers(f, l, true, out);
    if (l->from && !all_used(f, l, out))
        return false;
    for (int i = 0; i < out->list.n; i++)
        if (!sizes_fit(f->module, &out->list.at[i]))
            return false;
    return out->list.n || l->from || none_found(f, l);
}

struct lora_sizes lora_sizes(const struct dense *d, int64_t r)
{
    struct lora_sizes s = {.rank = d->weight->type->rank, .a = {r, d->in}, .b = {d->out, r}};
    int64_t dims[TCC_MAX_RANK];
    ir_static_dims(d->weight->type, dims);
    for (int i = 2; i < s.rank; i++) {
        s.a[i] = dims[i];
        s.b[i] = 1;
    }
    return s;
}

/* -- Adapters ---------------------------------------------------------------------------------------------------- */

struct adding {
    struct ir_ctx *ctx;
    struct ir_module *m;
    const struct train_lora *l;
    struct base base;
    uint64_t seed;
    bool train; /* the function that is trained, in which dropout drops */
    int stream; /* of random numbers */
    VEC(struct ir_state *) own;
};

static struct ir_state *own_state(struct adding *g, const char *name, ir_type type, struct ir_tensor *init, int flags)
{
    struct ir_state *s = ir_state_new(g->m, ir_intern(g->ctx, name), type, init, flags);
    VEC_PUSH(g->ctx, g->own, s);
    return s;
}

static struct ir_tensor *as_f32(struct ir_ctx *ctx, const struct ir_tensor *t)
{
    struct ir_tensor *out = ir_tensor_new(TCC_F32, t->rank, t->dims);
    if (!out)
        ir_no_memory(ctx);
    for (int64_t i = 0; i < t->nelems; i++)
        ((float *)(uintptr_t)out->data)[i] = (float)tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i));
    return out;
}

/* A layer's matrix, as a variable: made where it is met first. */
static struct ir_state *matrix_of(struct adding *g, const struct lora_layer *x, bool second)
{
    const char *name = ir_internf(g->ctx, "%s.lora_%c.weight", x->d.module, second ? 'B' : 'A');
    struct ir_state *s = ir_state_by_name(g->m, name);
    struct lora_sizes size = lora_sizes(&x->d, x->stored ? x->stored->a->dims[0] : g->l->rank);
    const int64_t *dims = second ? size.b : size.a;
    double fan_in = 1;
    if (s)
        return s;
    for (int i = 1; i < size.rank; i++)
        fan_in *= (double)size.a[i];
    struct ir_tensor *init =
        x->stored ? as_f32(g->ctx, second ? x->stored->b : x->stored->a)
        : second  ? NULL
                  : train_draw_uniform(g->ctx, TCC_F32, size.rank, dims, 1 / sqrt(fan_in), g->seed, name);
    return own_state(g, name, ir_tensor_type_i(g->ctx, TCC_F32, size.rank, dims), init, IR_STATE_PARAM);
}

static struct ir_state *alpha_of(struct adding *g, const struct lora_layer *x)
{
    const char *name = ir_internf(g->ctx, "%s.lora_alpha", x->d.module);
    struct ir_state *s = ir_state_by_name(g->m, name);
    double alpha = x->stored ? x->stored->alpha : g->l->alpha;
    return s ? s
             : own_state(g, name, ir_scalar_type(g->ctx, TCC_F32), ir_tensor_scalar_f(TCC_F32, alpha), IR_STATE_BUFFER);
}

/* NULL: the adapter has none. */
static struct ir_state *magnitude_of(struct adding *g, const struct lora_layer *x)
{
    const char *name = ir_internf(g->ctx, "%s.lora_magnitude_vector", x->d.module);
    struct ir_state *s = ir_state_by_name(g->m, name);
    struct lora_sizes size = dora_size(&x->d);
    if (s || !(x->stored ? x->stored->magnitude != NULL : g->l->dora))
        return s;
    return own_state(g, name, ir_tensor_type_i(g->ctx, TCC_F32, size.rank, size.a),
                     x->stored ? as_f32(g->ctx, x->stored->magnitude)
                               : dora_norms(g->ctx, &x->d, base_values(g->ctx, &g->base, train_dense_values(&x->d))),
                     IR_STATE_PARAM);
}

/* x, of which a share is dropped where the model is trained. */
static struct ir_value *dropped(struct adding *g, struct ir_builder *b, struct ir_value *x)
{
    double p = g->l->dropout;
    if (p == 0 || !g->train)
        return x;
    struct ir_value *r = ir_build1(b, IR_random_uniform, 0, NULL,
                                   IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, x->type->rank, x->type->dim),
                                            ir_attr_dtype(IR_ATTR_to, TCC_F32), ir_attr_i(IR_ATTR_seed, 0),
                                            ir_attr_i(IR_ATTR_stream, 0x4c6f0000 + g->stream++)));
    return ir_formula_n(b, "select(ge(y, a), x * b, 0)", IR_NUMBERS(p, 1 / (1 - p)), x, r);
}

/* The layer's convolution with another weight, and without a bias. */
static struct ir_value *convolution(struct ir_builder *b, const struct ir_node *like, struct ir_value *x,
                                    struct ir_value *w)
{
    struct ir_value *in[] = {x, w};
    int n;
    struct ir_attr *attrs = ir_attrs_without(b->ctx, like, IR_ATTR_to, &n);
    attrs[n] = ir_attr_dtype(IR_ATTR_to, TCC_F32);
    return ir_build1(b, IR_conv, 2, in, attrs);
}

/* One of 1x1. */
static struct ir_value *mix(struct ir_builder *b, struct ir_value *x, struct ir_value *w)
{
    int64_t ones[TCC_MAX_RANK];
    ir_expr zeros[TCC_MAX_RANK];
    struct ir_value *in[] = {x, w};
    int n = x->type->rank - 2;
    for (int i = 0; i < n; i++) {
        ones[i] = 1;
        zeros[i] = ir_const(b->ctx, 0);
    }
    return ir_build1(b, IR_conv, 2, in,
                     IR_ATTRS(ir_attr_ints(IR_ATTR_strides, n, ones), ir_attr_ints(IR_ATTR_dilations, n, ones),
                              ir_attr_exprs(IR_ATTR_before, n, zeros), ir_attr_exprs(IR_ATTR_after, n, zeros),
                              ir_attr_i(IR_ATTR_groups, 1), ir_attr_dtype(IR_ATTR_to, TCC_F32)));
}

/* A convolution's bias, [1, out, 1, ...]; NULL: it has none. */
static struct ir_value *bias_of(struct ir_builder *b, const struct ir_node *n)
{
    struct ir_value *bias = n->op == IR_conv && n->nin > 2 ? n->in[2].value : NULL;
    ir_expr dims[TCC_MAX_RANK];
    if (!bias)
        return NULL;
    for (int i = 0; i < n->out[0]->type->rank; i++)
        dims[i] = i == 1 ? bias->type->dim[0] : ir_const(b->ctx, 1);
    return ir_reshape_to(b, ir_cast_to(b, bias, TCC_F32), n->out[0]->type->rank, dims);
}

/* y + delta, or, where the adapter has magnitudes, what both are without the layer's bias, multiplied by a factor for
 * each output. */
static struct ir_value *summed(struct adding *g, struct ir_builder *b, const struct lora_layer *x,
                               struct ir_value *delta, struct dora_parts p)
{
    struct ir_value *y = ir_cast_to(b, x->d.node->out[0], TCC_F32);
    struct ir_state *magnitude = magnitude_of(g, x);
    struct ir_value *bias = magnitude ? bias_of(b, x->d.node) : NULL;
    if (!magnitude)
        return ir_binary(b, IR_add, y, delta);
    p.magnitude = ir_read_state(b, magnitude);
    struct ir_value *factor = dora_factor(b, &x->d, &p);
    if (bias)
        y = ir_binary(b, IR_sub, y, bias);
    y = ir_binary(b, IR_mul, ir_binary(b, IR_add, y, delta), factor);
    return bias ? ir_binary(b, IR_add, y, bias) : y;
}

struct ir_value *lora_delta(struct ir_builder *b, const struct dense *d, struct ir_value *x, struct ir_value *first,
                            struct ir_value *second)
{
    struct ir_value *low = d->conv ? convolution(b, d->node, x, first)
                                   : ir_matmul(b, x, first, ir_get_i(d->node, IR_ATTR_trans_a, 0), true, TCC_F32);
    return !low ? NULL : d->conv ? mix(b, low, second) : ir_matmul(b, low, second, 0, true, TCC_F32);
}

struct ir_value *lora_hold(struct ir_builder *b, struct ir_value *y)
{
    struct ir_value *held = ir_constant_f(b, TCC_F32, 0);
    ir_replace_uses(y, held);
    return held;
}

bool lora_release(struct ir_builder *b, struct ir_value *held, struct ir_value *y, struct ir_value *sum)
{
    sum = sum ? ir_cast_to(b, sum, (enum tcc_dtype)y->type->dtype) : NULL;
    if (!sum)
        return false;
    sum->name = y->name;
    y->name = NULL;
    ir_replace_uses(held, sum);
    return true;
}

/* y + alpha / r (x A') B' takes the place of y. */
static bool add_adapter(struct adding *g, struct lora_layer *x)
{
    struct ir_node *n = x->d.node;
    struct ir_builder b = {
        .ctx = g->ctx, .func = n->block->func, .block = n->block, .before = n->next, .where = n->where};
    struct ir_state *a = matrix_of(g, x, false), *c = matrix_of(g, x, true), *alpha = alpha_of(g, x);
    struct ir_value *in = dropped(g, &b, ir_cast_to(&b, n->in[0].value, TCC_F32));
    struct ir_value *first = ir_read_state(&b, a), *second = ir_read_state(&b, c);
    struct ir_value *delta = lora_delta(&b, &x->d, in, first, second);
    struct ir_value *rank_value = ir_constant_f(&b, TCC_F32, (double)ir_const_or(a->type->dim[0], 1));
    struct ir_value *scale = ir_binary(&b, IR_div, ir_read_state(&b, alpha), rank_value);
    struct ir_value *held = lora_hold(&b, n->out[0]);
    struct ir_value *sum = summed(g, &b, x, ir_binary(&b, IR_mul, delta, scale),
                                  (struct dora_parts){.a = first, .b = second, .scale = scale});
    return lora_release(&b, held, n->out[0], sum);
}

/* -- What is not trained ----------------------------------------------------------------------------------------- */

/* Is the parameter saved beside the adapters? */
static bool is_saved(const struct adding *g, const char *param)
{
    for (int i = 0; i < g->l->nsaved; i++)
        if (!strcmp(param, g->l->saved[i].name))
            return true;
    return lora_saves(g->m, g->l->save, param);
}

static bool is_written(const struct ir_module *m, const struct ir_state *s)
{
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        IR_EACH_NODE(n, f->body) {
            if (n->op == IR_state_write && ir_state_of(n) == s)
                return true;
        }
    return false;
}

/* A parameter's values take the place of what reads it. */
static void freeze(struct ir_func *f, const bool *kept)
{
    struct ir_ctx *ctx = f->module->ctx;
    for (struct ir_node *n = f->body->first, *next; n; n = next) {
        next = n->next;
        struct ir_state *s = n->op == IR_state_read ? ir_state_of(n) : NULL;
        int64_t dims[TCC_MAX_RANK], zero = 0;
        if (!s || kept[s->index])
            continue;
        ir_static_dims(s->type, dims);
        struct ir_builder b = {.ctx = ctx, .func = f, .block = n->block, .before = n};
        struct ir_value *v =
            ir_constant(&b, s->init ? ir_tensor_ref(s->init)
                                    : ir_tensor_splat((enum tcc_dtype)s->type->dtype, s->type->rank, dims, &zero));
        v->name = s->name;
        ir_replace_uses(n->out[0], v);
        ir_remove(n);
    }
}

/* Parameters but those of adapters, of the head and of `save` become constants. */
static void freeze_others(struct adding *g, const struct train_head *head)
{
    int n = 0;
    for (struct ir_state *s = g->m->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    bool *kept = IR_NEWN(g->ctx, n + 1, bool);
    for (struct ir_state *s = g->m->states; s; s = s->next) {
        kept[s->index] = !(s->flags & (IR_STATE_PARAM | IR_STATE_BUFFER)) || s == head->weight || s == head->bias ||
                         is_saved(g, s->name) || is_written(g->m, s);
        for (int i = 0; i < g->own.n; i++)
            kept[s->index] |= g->own.at[i] == s;
    }
    for (struct ir_func *f = g->m->funcs; f; f = f->next)
        freeze(f, kept);
    train_drop_unread(g->m);
}

static bool restore_saved(struct adding *g)
{
    for (int i = 0; i < g->l->nsaved; i++) {
        const struct train_saved *x = &g->l->saved[i];
        struct ir_state *s = g->m->states;
        while (s && strcmp(s->name, x->name))
            s = s->next;
        struct ir_type_node const *t = s ? s->type : NULL;
        bool fits = t && t->rank == x->values->rank;
        for (int d = 0; fits && d < t->rank; d++)
            fits = ir_is_value(t->dim[d], x->values->dims[d]);
        if (!fits)
            return wrong(g->m, ir_internf(g->ctx, "'%s' is saved beside the adapters; the model has no such parameter",
                                          x->name));
        if (s->init)
            ir_tensor_unref(s->init);
        s->init = s->type->dtype == x->values->dtype ? ir_tensor_ref(x->values) : as_f32(g->ctx, x->values);
    }
    return true;
}

/* Does `save` mean any parameter? */
static bool save_is_found(const struct adding *g)
{
    struct ir_known known = {.near.word = g->l->save ? g->l->save : ""};
    for (const struct ir_state *s = g->m->states; g->l->save && s; s = s->next) {
        if (s->flags & IR_STATE_PARAM && is_saved(g, s->name))
            return true;
        if (s->flags & IR_STATE_PARAM)
            ir_known_add(&known, s->name);
    }
    return !g->l->save || wrong(g->m, ir_internf(g->ctx, "save=%s: no layer or parameter matches%s", g->l->save,
                                                 ir_known_text(&known)));
}

bool train_add_lora(struct ir_module *m, const struct train_lora *l, const struct train_head *head, uint64_t seed)
{
    struct adding g = {.ctx = m->ctx, .m = m, .l = lora_in_model(m, l), .seed = seed};
    l = g.l;
    if (!restore_saved(&g) || !save_is_found(&g))
        return false;
    base_encode(m, l->base, &g.base);
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        struct lora_layers found = {0};
        g.train = !strncmp(f->name, "train", 5);
        if (!lora_find(f, l, &found))
            return false;
        for (int i = 0; i < found.list.n; i++)
            if (!add_adapter(&g, &found.list.at[i]))
                return false;
        ir_state_versions(f);
    }
    freeze_others(&g, head);
    return !l->base || base_replace(m, &g.base) ||
           wrong(m, "--base: no product but the last has a weight that is not trained");
}
