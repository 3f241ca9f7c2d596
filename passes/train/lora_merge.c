/* SPDX-License-Identifier: Apache-2.0 */
/* tccc --adapter: stored adapters become part of the weights, W + alpha / r B A (with magnitudes,
 * m times that over its norm), summed in float64 and rounded once. */
#include "passes/train/lora_int.h"

#include <math.h>
#include <string.h>

/* The layer's weight as its node reads it, with the adapter in it. */
static struct ir_tensor *merged(struct ir_ctx *ctx, const struct lora_layer *x, const struct ir_tensor *w)
{
    const struct ir_tensor *a = x->stored->a, *b = x->stored->b, *m = x->stored->magnitude;
    enum tcc_dtype type = (enum tcc_dtype)w->dtype, ta = (enum tcc_dtype)a->dtype, tb = (enum tcc_dtype)b->dtype;
    int64_t r = a->dims[0], out = x->d.out, in = out && r ? a->nelems / r : 0;
    double scale = x->stored->alpha / (double)r, *row = IR_NEWN(ctx, (size_t)in + 1, double);
    struct ir_tensor *sum = ir_tensor_new(type, w->rank, w->dims);
    if (!sum)
        ir_no_memory(ctx);
    for (int64_t o = 0; o < out; o++) {
        double norm = 0;
        memset(row, 0, (size_t)in * sizeof *row);
        for (int64_t k = 0; k < r; k++) {
            double factor = tcc_load_f64(tb, ir_tensor_at(b, o * r + k)) * scale;
            for (int64_t i = 0; i < in; i++)
                row[i] += factor * tcc_load_f64(ta, ir_tensor_at(a, k * in + i));
        }
        for (int64_t i = 0; i < in; i++) {
            row[i] += tcc_load_f64(type, ir_tensor_at(w, x->d.by_input ? i * out + o : o * in + i));
            norm += row[i] * row[i];
        }
        double by = m ? tcc_load_f64((enum tcc_dtype)m->dtype, ir_tensor_at(m, o)) / sqrt(norm) : 1;
        for (int64_t i = 0; i < in; i++)
            tcc_store_f64(
                type, (char *)(uintptr_t)sum->data + (x->d.by_input ? i * out + o : o * in + i) * tcc_dtype_bytes(type),
                row[i] * by);
    }
    return sum;
}

/* Puts v in where the node's weight is read, through transpositions that it goes through. */
static bool replace_weight(struct ir_builder *b, const struct dense *d, struct ir_value *v)
{
    struct ir_value *at = d->node->in[1].value;
    VEC(struct ir_node *) moves = {0};
    for (; at != d->weight; at = at->def->in[0].value)
        VEC_PUSH(b->ctx, moves, at->def);
    while (v && moves.n)
        v = ir_build1(b, IR_transpose, 1, &v,
                      moves.at[--moves.n]->nattrs ? IR_ATTRS(moves.at[moves.n]->attrs[0]) : NULL);
    if (v)
        ir_set_operand(d->node, 1, v);
    return v != NULL;
}

static struct ir_value *constant_named(struct ir_func *f, const char *name)
{
    IR_EACH_NODE(node, f->body) {
        bool holds = node->op == IR_constant || (node->op == IR_reshape && ir_const_of(node->in[0].value));
        if (holds && node->out[0]->name && !strcmp(node->out[0]->name, name))
            return node->out[0];
    }
    return NULL;
}

struct ir_value *lora_saved(struct ir_func *f, const char *from, const struct train_saved *saved)
{
    const struct ir_tensor *t = saved->values;
    struct ir_value *v = constant_named(f, saved->name);
    bool fits = v && v->type->rank == t->rank;
    for (int k = 0; fits && k < t->rank; k++)
        fits = ir_is_value(v->type->dim[k], t->dims[k]);
    if (!fits)
        ir_error(f->module->ctx, &(struct ir_where){.file = from},
                 "'%s' is saved beside the adapters; '%s' has no such parameter", saved->name, f->module->name);
    return fits ? v : NULL;
}

/* Parameters that are stored whole. */
static bool put_saved(struct ir_func *f, const struct train_lora *l)
{
    struct ir_ctx *ctx = f->module->ctx;
    for (int i = 0; i < l->nsaved; i++) {
        struct ir_value *v = lora_saved(f, l->from, &l->saved[i]);
        if (!v)
            return false;
        struct ir_builder b = {.ctx = ctx, .func = f, .block = v->def->block, .before = v->def};
        struct ir_value *c =
            ir_cast_to(&b, ir_constant(&b, ir_tensor_ref(l->saved[i].values)), (enum tcc_dtype)v->type->dtype);
        c->name = v->name;
        ir_replace_uses(v, c);
    }
    return true;
}

bool train_merge_lora(struct ir_module *m, const struct train_lora *l)
{
    l = lora_in_model(m, l);
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        struct lora_layers checked = {0}, found = {0};
        /* A weight may be saved whole and have an adapter: layers are found again, over what was saved. */
        if (!lora_find(f, l, &checked) || !put_saved(f, l) || !lora_find(f, l, &found))
            return false;
        for (int i = 0; i < found.list.n; i++) {
            const struct lora_layer *x = &found.list.at[i];
            struct ir_builder b = {.ctx = m->ctx, .func = f, .block = x->d.node->block, .before = x->d.node};
            struct ir_value *v = ir_constant(&b, merged(m->ctx, x, train_dense_values(&x->d)));
            v->name = x->d.weight->name;
            if (!replace_weight(&b, &x->d, v))
                return false;
        }
        train_drop_unread(m);
    }
    return true;
}
