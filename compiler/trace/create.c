/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - tensors from data, constants, and random numbers. Initial values are computed when they are asked for,
 * by the interpreter: the first step of a training loop then has the same graph as the others.
 */
#include "compiler/trace/trace_int.h"

#include <math.h>
#include <string.h>

static bool check_type(struct trace_ctx *c, const char *what, int dtype, int rank, const int64_t *dims)
{
    bool ok = dtype > 0 && dtype < TCC_NDTYPES && dtype != TCC_STRING && rank >= 0 && rank <= TCC_MAX_RANK;
    for (int i = 0; ok && i < rank; i++)
        ok = dims[i] >= 0;
    if (!ok)
        trace_fail(c, TCC_EUSAGE, "%s: no such element type, rank or shape", what);
    return ok && !c->status;
}

struct trace_tensor *trace_from(struct trace_ctx *c, const struct tcc_tensor *host)
{
    if (!check_type(c, "from", host->dtype, host->rank, host->dims))
        return NULL;
    struct trace_tensor *t = trace_tensor_data(c, trace_data_new(host->dtype, host->rank, host->dims));
    if (t)
        memcpy(t->data->o->t.data, host->data, trace_bytes(t));
    return t;
}

struct trace_tensor *trace_from_number(struct trace_ctx *c, int dtype, double value)
{
    if (!check_type(c, "from_number", dtype, 0, NULL))
        return NULL;
    struct trace_tensor *t = trace_tensor_data(c, trace_data_new(dtype, 0, NULL));
    if (t)
        tcc_store_f64((enum tcc_dtype)dtype, t->data->o->t.data, value);
    return t;
}

/* -- Constants ---------------------------------------------------------------------------------------------- */

struct splat_work {
    int dtype, rank;
    const int64_t *dims;
    double value;
    struct trace_tensor *out;
};

static void build_splat(struct trace_ctx *c, void *arg)
{
    struct splat_work *w = arg;
    uint64_t element[2] = {0};
    tcc_store_f64((enum tcc_dtype)w->dtype, element, w->value);
    c->graph.b.where = (struct ir_where){0};
    w->out = trace_tensor_of(
        c, ir_constant(&c->graph.b, ir_tensor_splat((enum tcc_dtype)w->dtype, w->rank, w->dims, element)));
}

struct trace_tensor *trace_full(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double value)
{
    struct splat_work w = {dtype, rank, dims, value, NULL};
    if (!check_type(c, "full", dtype, rank, dims) || trace_do(c, build_splat, &w))
        return NULL;
    return w.out;
}

struct trace_tensor *trace_scalar(struct trace_ctx *c, int dtype, double value)
{
    return trace_full(c, dtype, 0, NULL, value);
}

struct trace_tensor *trace_zeros(struct trace_ctx *c, int dtype, int rank, const int64_t *dims)
{
    return trace_full(c, dtype, rank, dims, 0);
}

struct trace_tensor *trace_ones(struct trace_ctx *c, int dtype, int rank, const int64_t *dims)
{
    return trace_full(c, dtype, rank, dims, 1);
}

/* -- Random data ---------------------------------------------------------------------------------------------- */

#define CREATED 0x80000000u /* streams from here on are of initial values; those of graphs lie below */

/* value = offset + factor * random, in the type that has room for it */
struct random_work {
    struct trace_ctx *c;
    enum ir_op op;
    int dtype, rank;
    const int64_t *dims;
    double offset, factor;
    struct tcc_object *out;
};

static int draw(struct ir_ctx *ctx, struct random_work *w, char *error, size_t size)
{
    struct ir_module *m = ir_module_new(ctx, "random");
    struct ir_func *f = ir_func_new(m, "main");
    struct ir_builder b = {.ctx = ctx, .func = f, .block = f->body};
    ir_expr dims[TCC_MAX_RANK];
    for (int i = 0; i < w->rank; i++)
        dims[i] = ir_const(ctx, w->dims[i]);
    enum tcc_dtype wide = tcc_wide_float(w->dtype);
    struct ir_node *n = ir_build(&b, w->op, 0, NULL,
                                 IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, w->rank, dims), ir_attr_dtype(IR_ATTR_to, wide),
                                          ir_attr_i(IR_ATTR_seed, (int64_t)w->c->seed),
                                          ir_attr_i(IR_ATTR_stream, (int64_t)(CREATED | w->c->ncreated))));
    struct tcc_object *raw = NULL;
    int status = n ? trace_eager_node(n, 0, NULL, &raw, error, size) : TCC_EENV;
    if (status)
        return status;
    w->out = tccrt_object_tensor(w->dtype, w->rank, w->dims);
    int64_t count = 1;
    for (int i = 0; i < w->rank; i++)
        count *= w->dims[i];
    size_t from = (size_t)tcc_dtype_bytes(wide), to = (size_t)tcc_dtype_bytes((enum tcc_dtype)w->dtype);
    for (int64_t i = 0; w->out && i < count; i++)
        tcc_store_f64((enum tcc_dtype)w->dtype, (char *)w->out->t.data + (size_t)i * to,
                      w->offset + w->factor * tcc_load_f64(wide, (char *)raw->t.data + (size_t)i * from));
    tccrt_object_unref(raw);
    return w->out ? TCC_OK : TCC_EENV;
}

static struct trace_tensor *random_data(struct random_work *w)
{
    struct trace_ctx *c = w->c;
    struct ir_protect frame;
    char error[256] = "";
    if (!check_type(c, "random", w->dtype, w->rank, w->dims))
        return NULL;
    if (!tcc_is_float((enum tcc_dtype)w->dtype))
        return trace_fail(c, TCC_EUSAGE, "random: a float type is expected, not %s",
                          tcc_dtype_name((enum tcc_dtype)w->dtype)),
               NULL;
    struct ir_ctx *ctx = ir_ctx_new();
    volatile int status = TCC_EENV;
    if (ctx && IR_PROTECT(ctx, &frame)) {
        status = draw(ctx, w, error, sizeof error);
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
    c->ncreated++;
    if (status)
        return trace_fail(c, status, "random: %s", *error ? error : "no memory"), NULL;
    return trace_tensor_data(c, trace_data_of(w->out));
}

struct trace_tensor *trace_uniform(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double low,
                                   double high)
{
    return random_data(&(struct random_work){c, IR_random_uniform, dtype, rank, dims, low, high - low, NULL});
}

struct trace_tensor *trace_normal(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, double mean,
                                  double deviation)
{
    return random_data(&(struct random_work){c, IR_random_normal, dtype, rank, dims, mean, deviation, NULL});
}

static struct trace_tensor *fan_in_uniform(struct trace_ctx *c, int dtype, int rank, const int64_t *dims,
                                           int64_t fan_in, double gain)
{
    if (fan_in < 1)
        return trace_fail(c, TCC_EUSAGE, "an initial value needs a fan_in of at least 1, not %lld", (long long)fan_in),
               NULL;
    double bound = sqrt(gain / (double)fan_in);
    return trace_uniform(c, dtype, rank, dims, -bound, bound);
}

struct trace_tensor *trace_kaiming(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int64_t fan_in)
{
    return fan_in_uniform(c, dtype, rank, dims, fan_in, 6);
}

struct trace_tensor *trace_layer_init(struct trace_ctx *c, int dtype, int rank, const int64_t *dims, int64_t fan_in)
{
    return fan_in_uniform(c, dtype, rank, dims, fan_in, 1);
}
