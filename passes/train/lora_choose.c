/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc --adapter=A --adapter=B: several adapters in one artifact, whose input `adapter` says which is added to the
 * weights' products in a call: 0 none, K the Kth. A layer has the matrices of all adapters one behind the other, with
 * zeros where one has none or a lower rank; alpha / r is in B. Parameters that are saved beside adapters stand so, too,
 * the model's own first.
 */
#include "passes/train/lora_int.h"

#include <string.h>

#define INPUT "adapter"

static bool cannot(struct ir_module *m, const char *from, const char *what)
{
    return ir_error(m->ctx, &(struct ir_where){.file = from}, "%s", what);
}

/* The adapters that a layer has, NULL where one has none. */
struct choice {
    struct dense d;
    const struct train_adapter **of;
};
struct choices {
    VEC(struct choice) list;
};

static struct choice *choice_of(struct ir_ctx *ctx, struct choices *c, const struct dense *d, int n)
{
    for (int i = 0; i < c->list.n; i++)
        if (c->list.at[i].d.node == d->node)
            return &c->list.at[i];
    VEC_PUSH(ctx, c->list, (struct choice){*d, IR_NEWN(ctx, n, const struct train_adapter *)});
    return &c->list.at[c->list.n - 1];
}

/* Matrices A [n + 1, rank, inputs...], or B [n + 1, outputs, rank, ...] times alpha / r. */
static struct ir_tensor *stacked(struct ir_ctx *ctx, const struct choice *c, int n, const struct lora_sizes *size,
                                 bool second)
{
    int64_t dims[TCC_MAX_RANK] = {n + 1}, each = 1, most = size->a[0];
    for (int i = 0; i < size->rank; i++)
        each *= dims[i + 1] = second ? size->b[i] : size->a[i];
    struct ir_tensor *t = ir_tensor_new(TCC_F32, size->rank + 1, dims);
    if (!t)
        ir_no_memory(ctx);
    float *to = (float *)(uintptr_t)t->data;
    memset(to, 0, t->bytes);
    for (int k = 0; k < n; k++) {
        const struct train_adapter *x = c->of[k];
        const struct ir_tensor *m = !x ? NULL : second ? x->b : x->a;
        int64_t r = x ? x->a->dims[0] : 1;
        for (int64_t i = 0; m && i < m->nelems; i++)
            to[(k + 1) * each + (second ? i / r * most + i % r : i)] =
                (float)(tcc_load_f64((enum tcc_dtype)m->dtype, ir_tensor_at(m, i)) *
                        (second ? x->alpha / (double)r : 1));
    }
    return t;
}

/* The parameters' values under v's name, the model's own where an adapter has none. */
struct whole {
    struct ir_value *v;
    const struct ir_tensor **of;
};
struct wholes {
    VEC(struct whole) list;
};

static bool find_wholes(struct ir_func *f, int n, const struct train_lora *l, struct wholes *out)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < l[k].nsaved; i++) {
            struct ir_value *v = lora_saved(f, l[k].from, &l[k].saved[i]);
            int at = 0;
            while (v && at < out->list.n && out->list.at[at].v != v)
                at++;
            if (!v)
                return false;
            if (at == out->list.n)
                VEC_PUSH(f->module->ctx, out->list,
                         (struct whole){v, IR_NEWN(f->module->ctx, n, const struct ir_tensor *)});
            out->list.at[at].of[k] = l[k].saved[i].values;
        }
    return true;
}

static struct ir_tensor *stacked_wholes(struct ir_ctx *ctx, const struct whole *w, int n)
{
    const struct ir_value *from = w->v->def->op == IR_constant ? w->v : w->v->def->in[0].value;
    const struct ir_tensor *own = ir_const_of(from);
    enum tcc_dtype type = (enum tcc_dtype)own->dtype;
    int64_t dims[TCC_MAX_RANK] = {n + 1};
    for (int i = 0; i < own->rank; i++)
        dims[i + 1] = own->dims[i];
    struct ir_tensor *t = ir_tensor_new(type, own->rank + 1, dims);
    if (!t)
        ir_no_memory(ctx);
    for (int k = 0; k <= n; k++) {
        const struct ir_tensor *x = k && w->of[k - 1] ? w->of[k - 1] : own;
        for (int64_t i = 0; i < own->nelems; i++)
            tcc_store_f64(type, (char *)(uintptr_t)t->data + (k * own->nelems + i) * tcc_dtype_bytes(type),
                          tcc_load_f64((enum tcc_dtype)x->dtype, ir_tensor_at(x, i)));
    }
    return t;
}

static struct ir_value *chosen(struct ir_builder *b, struct ir_tensor *t, struct ir_value *which)
{
    return ir_gather(b, ir_constant(b, t), which, 0);
}

static bool add_choice(struct ir_func *f, const struct choice *c, int n, struct ir_value *which)
{
    struct ir_node *node = c->d.node;
    struct ir_ctx *ctx = f->module->ctx;
    struct ir_builder b = {.ctx = ctx, .func = f, .block = node->block, .before = node->next, .where = node->where};
    int64_t rank = 1;
    for (int k = 0; k < n; k++)
        rank = c->of[k] && c->of[k]->a->dims[0] > rank ? c->of[k]->a->dims[0] : rank;
    struct lora_sizes size = lora_sizes(&c->d, rank);
    struct ir_value *y = node->out[0], *held = lora_hold(&b, y);
    struct ir_value *chosen_which = chosen(&b, stacked(ctx, c, n, &size, true), which);
    struct ir_value *first = chosen(&b, stacked(ctx, c, n, &size, false), which);
    struct ir_value *delta = lora_delta(&b, &c->d, ir_cast_to(&b, node->in[0].value, TCC_F32), first, chosen_which);
    struct ir_value *sum = delta ? ir_binary(&b, IR_add, ir_cast_to(&b, y, TCC_F32), delta) : NULL;
    return lora_release(&b, held, y, sum);
}

static bool choose_wholes(struct ir_func *f, int n, const struct train_lora *l, struct ir_value *which)
{
    struct wholes all = {0};
    if (!find_wholes(f, n, l, &all))
        return false;
    for (int i = 0; i < all.list.n; i++) {
        const struct whole *w = &all.list.at[i];
        struct ir_builder b = {.ctx = f->module->ctx, .func = f, .block = w->v->def->block, .before = w->v->def->next};
        struct ir_value *v = chosen(&b, stacked_wholes(b.ctx, w, n), which);
        ir_replace_uses(w->v, v);
    }
    return true;
}

/* The new input. Below 0 it is n + 1, which is outside of all that is chosen from: gather would count from the end. */
static struct ir_value *which_of(struct ir_func *f, int n)
{
    struct ir_ctx *ctx = f->module->ctx;
    struct ir_value *which = ir_input_new(f, ir_scalar_type(ctx, TCC_I64), INPUT);
    struct ir_builder b = {.ctx = ctx, .func = f, .block = f->body, .before = f->body->first};
    struct ir_value *below = ir_binary(&b, IR_lt, which, ir_constant_i(&b, TCC_I64, 0));
    return ir_select(&b, below, ir_constant_i(&b, TCC_I64, n + 1), which);
}

/* Each layer gets what the adapters have for it. */
static bool choose_layers(struct ir_func *f, int n, const struct train_lora *l, struct ir_value *which)
{
    struct choices all = {0};
    for (int k = 0; k < n; k++) {
        struct lora_layers found = {0};
        if (!lora_find(f, &l[k], &found))
            return false;
        for (int i = 0; i < found.list.n; i++)
            choice_of(f->module->ctx, &all, &found.list.at[i].d, n)->of[k] = found.list.at[i].stored;
    }
    for (int i = 0; i < all.list.n; i++)
        if (!add_choice(f, &all.list.at[i], n, which))
            return false;
    return true;
}

bool train_choose_lora(struct ir_module *m, int n, const struct train_lora *stored)
{
    struct train_lora *l = IR_NEWN(m->ctx, n, struct train_lora);
    for (int k = 0; k < n; k++) {
        l[k] = *lora_in_model(m, &stored[k]);
        for (int i = 0; i < l[k].n; i++)
            if (l[k].at[i].magnitude)
                return cannot(
                    m, l[k].from,
                    "an adapter with magnitudes (DoRA) can be merged (--adapter once), and not be one of several");
    }
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        for (int i = 0; i < f->body->nparams; i++)
            if (f->body->params[i]->name && !strcmp(f->body->params[i]->name, INPUT))
                return cannot(m, m->name, "several adapters are chosen by an input '" INPUT "', which the model has");
        struct ir_value *which = which_of(f, n);
        if (!choose_layers(f, n, l, which) || !choose_wholes(f, n, l, which))
            return false;
        train_drop_unread(m);
    }
    return true;
}
