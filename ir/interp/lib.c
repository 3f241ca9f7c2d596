/* SPDX-License-Identifier: Apache-2.0 */
/* lib.c - library ops through the runtime's table, and the way between tensors and objects. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "ir/interp/interp_int.h"

struct lib_user {
    struct it_call *c;
};

static void *host_output(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    struct tcc_object *o = k >= 0 && k < call->nout ? tccrt_object_tensor(dtype, rank, dims) : NULL;
    if (!o)
        return NULL;
    if (call->out[k])
        tccrt_object_unref(call->out[k]);
    call->out[k] = o;
    return o->t.data;
}

static void host_set(struct tcc_lib_call *call, int k, struct tcc_object *object)
{
    if (k < 0 || k >= call->nout) {
        tccrt_object_unref(object);
        return;
    }
    if (call->out[k])
        tccrt_object_unref(call->out[k]);
    call->out[k] = object;
}

static int __attribute__((format(printf, 3, 4)))
host_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    FORMATTED(text, 300, format);
    return it_fail(((struct lib_user *)call->user)->c, status, "%s", text);
}

static const struct tcc_lib_host host = {host_output, host_set, host_fail, NULL};

static const struct tcc_libop *find_libop(const char *name)
{
    for (int i = 0; i < tccrt_nlibops; i++)
        if (!strcmp(tccrt_libops[i].name, name))
            return &tccrt_libops[i];
    return NULL;
}

struct it_held {
    struct tcc_tensor t;
    struct ir_tensor *dense;
};

/* A node's own attributes as the ABI has them; `held`: room for one for each, let go by the caller. How many;
 * c->status. */
static int it_lib_attrs(struct it_call *c, struct tcc_attr *to, struct it_held *held)
{
    const struct ir_node *n = c->n;
    int count = 0;
    for (int i = 0; i < n->nattrs; i++) {
        const struct ir_attr *a = &n->attrs[i];
        if (a->key != IR_ATTR_user)
            continue;
        struct tcc_attr *t = &to[count];
        *t = (struct tcc_attr){.name = a->name, .n = a->n};
        switch (a->kind) {
        case IR_A_INT: *t = (struct tcc_attr){.name = a->name, .kind = TCC_ATTR_INTS, .n = 1, .ints = &a->i}; break;
        case IR_A_FLOAT:
            *t = (struct tcc_attr){.name = a->name, .kind = TCC_ATTR_FLOATS, .n = 1, .floats = &a->f};
            break;
        case IR_A_STRING:
            *t = (struct tcc_attr){.name = a->name, .kind = TCC_ATTR_STRINGS, .n = 1, .strings = &a->s};
            break;
        case IR_A_INTS: t->kind = TCC_ATTR_INTS, t->ints = a->ints; break;
        case IR_A_FLOATS: t->kind = TCC_ATTR_FLOATS, t->floats = a->floats; break;
        case IR_A_STRINGS: t->kind = TCC_ATTR_STRINGS, t->strings = a->strings; break;
        case IR_A_TENSOR:
            t->kind = TCC_ATTR_TENSOR;
            t->n = 1;
            if (!(held[count].dense = it_dense(a->t))) {
                it_fail(c, TCC_EENV, "no memory");
                return count;
            }
            held[count].t = (struct tcc_tensor){it_data(held[count].dense), a->t->dtype, a->t->rank, {0}};
            memcpy(held[count].t.dims, a->t->dims, sizeof a->t->dims);
            t->tensor = &held[count].t;
            break;
        default: continue;
        }
        count++;
    }
    return count;
}

static int take_outputs(struct it_call *c, struct tcc_object **out)
{
    for (int k = 0; k < c->n->nout; k++) {
        struct tcc_object *o = out[k];
        out[k] = NULL;
        if (!o)
            return it_fail(c, TCC_EBUG, "the library op left result %d out", k);
        if (it_set(c->it, c->n->out[k], (struct it_value){NULL, o}))
            return TCC_EENV;
    }
    return TCC_OK;
}

int interp_lib(struct it_call *c)
{
    const struct ir_node *n = c->n;
    const char *name = ir_get_s(n, IR_ATTR_name, "");
    const struct tcc_libop *op = find_libop(name);
    const struct ir_custom *custom = ir_custom_of(n);
    if (!op && !custom)
        return ir_is_custom(name)
                   ? it_fail(c, TCC_EINPUT, "custom operator '%s' is not given: --custom-op=%s=FILE.c", name, name)
                   : it_fail(c, TCC_EBUG, "no library op '%s'", name);
    struct tcc_object **objects = calloc((size_t)(n->nin + n->nout) + 1, sizeof *objects);
    struct tcc_attr *attrs = calloc((size_t)n->nattrs + 1, sizeof *attrs);
    struct it_held *held = calloc((size_t)n->nattrs + 1, sizeof *held);
    if (!objects || !attrs || !held)
        it_fail(c, TCC_EENV, "no memory");
    for (int i = 0; i < n->nin && !c->status; i++) {
        const struct ir_value *v = n->in[i].value;
        const struct it_value *x = v ? &c->it->values[v->id] : NULL;
        if (x && (x->t || x->o) && !(objects[i] = x->t ? it_to_object(x->t) : tccrt_object_ref(x->o)))
            it_fail(c, TCC_EENV, "no memory");
    }
    int nattrs = c->status ? 0 : it_lib_attrs(c, attrs, held);
    if (!c->status) {
        struct lib_user user = {c};
        struct tcc_lib_call call = {.host = &host,
                                    .user = &user,
                                    .nin = n->nin,
                                    .nout = n->nout,
                                    .in = (const struct tcc_object *const *)objects,
                                    .out = objects + n->nin,
                                    .nattrs = nattrs,
                                    .attrs = attrs,
                                    .run = c->it->state ? (int64_t)c->it->state->step : 0};
        int status = custom ? it_custom(custom, &call) : op->fn(&call);
        if (status)
            it_fail(c, status, "%s '%s' failed", custom ? "custom operator" : "library op", name);
        else
            take_outputs(c, objects + n->nin);
    }
    for (int i = 0; objects && i < n->nin + n->nout; i++)
        if (objects[i])
            tccrt_object_unref(objects[i]);
    for (int i = 0; held && i < n->nattrs; i++)
        ir_tensor_unref(held[i].dense);
    free(objects);
    free(attrs);
    free(held);
    return c->status;
}

int interp_box(struct it_call *c)
{
    struct it_value x = it_share(c->it->values[c->n->in[0].value->id]);
    return it_set(c->it, c->n->out[0], x);
}

/* An object's value as a tensor; what does not fit the type is reported by it_match. */
int interp_unbox(struct it_call *c)
{
    struct it_value x = it_share(c->it->values[c->n->in[0].value->id]);
    if (x.o && x.o->kind != TCC_OBJ_TENSOR) {
        it_drop(&x);
        return it_fail(c, TCC_EINPUT, "expected a tensor, got a sequence or nothing");
    }
    return it_set(c->it, c->n->out[0], x);
}
