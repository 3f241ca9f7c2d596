/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs: a pool of values, and a table of makers that each add a node or a small pattern to it. A maker that
 * cannot use the value it drew does nothing, and another one is drawn.
 */
#include "tests/fuzz/random_graph.h"

#include <math.h>
#include <string.h>

#include "tests/fuzz/random_graph_int.h"

uint64_t rnd(struct gen *g)
{
    /* splitmix64 */
    uint64_t z = g->rng += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int below(struct gen *g, int n)
{
    return (int)(rnd(g) % (uint64_t)n);
}

struct item *pick(struct gen *g)
{
    /* the newer half more often, so that programs grow deep */
    int at = below(g, 2) ? g->npool - 1 - below(g, (g->npool + 1) / 2) : below(g, g->npool);
    return &g->pool[at];
}

struct item *pick_float(struct gen *g)
{
    for (int i = 0; i < 8; i++) {
        struct item *x = pick(g);
        if (x->v->type->dtype == TCC_F32 || (tcc_is_float(x->v->type->dtype) && below(g, 3) == 0))
            return x;
    }
    return NULL;
}

/* The dims' values in the runs to come, where they do not follow from data. */
static bool symbol_value(void *user, ir_expr sym, int64_t *out)
{
    const struct random_graph *r = user;

    *out = strcmp(sym->name, "N") == 0 ? r->n : r->m;
    return strcmp(sym->name, "N") == 0 || strcmp(sym->name, "M") == 0;
}

bool dim_value(struct gen *g, ir_expr e, int64_t *out)
{
    return ir_eval(e, symbol_value, g->result, out);
}

void add(struct gen *g, struct ir_value *v, double mag, double scale, int exact)
{
    double elements = 1;
    int64_t d;

    if (!v) {
        g->failed = true;
        return;
    }
    for (int i = 0; i < v->type->rank; i++)
        elements *= dim_value(g, v->type->dim[i], &d) ? (double)d : 1e9;
    if (elements > 20000 || v->type->rank > 5 || g->npool == MAX_POOL)
        return;
    if (mag > 1e3 && tcc_is_float(v->type->dtype)) {
        v = ir_unary(&g->b, IR_tanh, v);
        scale = fmax(scale, mag) > 1e5 ? 1 : fmax(scale, mag);
        mag = 1;
        exact = 0;
    }
    g->pool[g->npool++] = (struct item){v, mag, fmax(scale, mag), exact < 0 ? 0 : exact};
}

/* A constant of normal numbers, or on the inputs' grid. */
struct ir_value *constant(struct gen *g, int rank, const int64_t *dims, double sigma, bool grid)
{
    struct ir_tensor *t = ir_tensor_new(TCC_F32, rank, dims);

    if (!t)
        return NULL;
    for (int64_t i = 0; i < t->nelems; i++) {
        double u = ((double)below(g, 1000) + below(g, 1000) + below(g, 1000) - 1498.5) / 500;
        ((float *)(uintptr_t)t->data)[i] = (float)(grid ? rint(u * 8) / 8 : u * sigma);
    }
    return ir_constant(&g->b, t);
}

struct maker {
    void (*make)(struct gen *g);
    int weight;
};
static const struct maker makers[] = {
    {make_unary, 6},      {make_binary, 6},        {make_broadcast, 4},
    {make_select, 2},     {make_cast, 2},          {make_integer, 2},
    {make_reduce, 4},     {make_softmax, 2},       {make_layernorm, 2},
    {make_matmul, 4},     {make_self_matmul, 1},   {make_conv, 3},
    {make_pool, 2},       {make_transpose, 3},     {make_reshape, 3},
    {make_slice, 3},      {make_concat, 2},        {make_pad, 2},
    {make_expand, 1},     {make_gather, 2},        {make_cumsum, 1},
    {make_sort, 2},       {make_attention, 1},     {make_gather_elements, 1},
    {make_gather_nd, 1},  {make_scatter, 1},       {make_conv_transpose, 1},
    {make_symbolic, 2},   {make_counting, 1},      {make_bits, 1},
    {make_if, 1},         {make_loop, 1},          {make_residual, 1},
    {make_interleave, 2}, {make_conv_gradient, 1}, {make_state, 4},
};

static void make_inputs(struct gen *g)
{
    static const enum tcc_dtype dtypes[] = {TCC_F32, TCC_F32, TCC_F32, TCC_F32, TCC_F32,  TCC_F32,  TCC_F32,
                                            TCC_F32, TCC_F32, TCC_F64, TCC_F16, TCC_BF16, TCC_BOOL, TCC_I8,
                                            TCC_I16, TCC_I32, TCC_I64, TCC_U8,  TCC_U16,  TCC_U32,  TCC_U64};
    int n = 1 + below(g, 3);

    for (int i = 0; i < n; i++) {
        enum tcc_dtype dtype = i == 0 ? TCC_F32 : dtypes[below(g, (int)(sizeof dtypes / sizeof *dtypes))];
        int rank = i == 0 ? 2 + below(g, 3) : below(g, 5);
        ir_expr dims[4];
        char name[16];
        for (int k = 0; k < rank; k++) {
            static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
            int what = below(g, 12);
            dims[k] = what == 0   ? ir_sym(g->ctx, "N")
                      : what == 1 ? ir_sym(g->ctx, "M")
                                  : ir_const(g->ctx, sizes[below(g, rank > 2 ? 7 : 10)]);
        }
        snprintf(name, sizeof name, "x%d", i);
        if (dtype == TCC_F16 || dtype == TCC_BF16)
            g->result->coarse = true;
        add(g, ir_input_new(g->result->func, ir_tensor_type(g->ctx, dtype, rank, dims), ir_intern(g->ctx, name)),
            tcc_is_float(dtype) ? 3 : 8, 8, dtype == TCC_F16 || dtype == TCC_BF16 ? 0 : 3);
    }
    g->result->ninputs = g->result->func->body->nparams;
}

static void make_outputs(struct gen *g)
{
    struct ir_value *out[GRAPH_MAX_OUTPUTS];
    const char *names[GRAPH_MAX_OUTPUTS];
    int n = 0;

    for (int i = g->npool - 1; i >= 0 && n < GRAPH_MAX_OUTPUTS; i--) {
        struct item *x = &g->pool[i];
        if (x->v->def && (!ir_has_uses(x->v) || n == 0 || below(g, 12) == 0)) {
            char name[16];
            snprintf(name, sizeof name, "y%d", n);
            names[n] = ir_intern(g->ctx, name);
            g->result->scale[n] = x->scale;
            out[n++] = x->v;
        }
    }
    g->result->noutputs = n;
    g->failed = g->failed || n == 0 || !ir_return(&g->b, n, out, names);
}

bool random_graph(struct ir_ctx *ctx, uint64_t seed, int nodes, struct random_graph *result)
{
    struct gen g = {.ctx = ctx, .rng = seed * UINT64_C(0x2545f4914f6cdd1d) + 1, .result = result};
    int total = 0;

    *result = (struct random_graph){.module = ir_module_new(ctx, "random.tcir")};
    result->func = ir_func_new(result->module, "main");
    g.b = (struct ir_builder){.ctx = ctx, .func = result->func, .block = result->func->body};
    result->n = 1 + below(&g, 5);
    result->m = 1 + below(&g, 9);
    make_inputs(&g);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        total += makers[i].weight;
    for (int made = g.npool, tries = 0; g.npool - made < nodes && tries < 20 * nodes && !g.failed; tries++) {
        int at = below(&g, total);
        size_t i = 0;
        while (at >= makers[i].weight)
            at -= makers[i++].weight;
        makers[i].make(&g);
    }
    if (g.npool == result->ninputs) /* nothing fitted: one node all the same */
        add(&g, ir_unary(&g.b, IR_neg, g.pool[0].v), 3, 3, 3);
    read_states(&g);
    make_outputs(&g);
    return !g.failed && ir_verify(result->module);
}

struct tcc_object *random_input(const struct random_graph *r, uint64_t seed, int i)
{
    struct gen g = {.rng = seed ^ (uint64_t)i << 32, .result = (struct random_graph *)(uintptr_t)r};
    ir_type type = r->func->body->params[i]->type;
    int64_t dims[TCC_MAX_RANK], n = 1;

    for (int k = 0; k < type->rank; k++) {
        if (!dim_value(&g, type->dim[k], &dims[k]))
            return NULL;
        n *= dims[k];
    }
    struct tcc_object *o = tccrt_object_tensor(type->dtype, type->rank, dims);
    int bytes = tcc_dtype_bytes(type->dtype);
    for (int64_t k = 0; o && k < n; k++) {
        void *at = (char *)o->t.data + k * bytes;
        if (tcc_is_float(type->dtype))
            tcc_store_f64(type->dtype, at, (below(&g, 49) - 24) / 8.0);
        else if (type->dtype == TCC_BOOL)
            tcc_store_i64(type->dtype, at, below(&g, 2));
        else
            tcc_store_i64(type->dtype, at, tcc_is_signed(type->dtype) ? below(&g, 17) - 8 : below(&g, 9));
    }
    return o;
}
