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
    if (g->forced >= 0) {
        int at = g->forced;
        g->forced = -1;
        return &g->pool[at];
    }
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

enum { LISTED = 64 }; /* so many elements of constants are numbers in a program's text */

static const char *const symbols[GRAPH_SYMBOLS] = {"N", "M", "P"};

/* The dims' values in the current run; of what follows from data about the largest. */
static bool symbol_value(void *user, ir_expr sym, int64_t *out)
{
    const struct random_graph *r = user;

    for (int i = 0; i < GRAPH_SYMBOLS; i++)
        if (strcmp(sym->name, symbols[i]) == 0) {
            *out = r->sizes[r->run][i];
            return true;
        }
    for (int i = 0; i < r->nbound; i++)
        if (sym->name == r->bound[i].name) {
            *out = r->bound[i].most;
            return true;
        }
    return false;
}

bool random_size(const struct random_graph *r, ir_expr e, int64_t *out)
{
    return ir_eval(e, symbol_value, (void *)(uintptr_t)r, out);
}

bool dim_value(struct gen *g, ir_expr e, int64_t *out)
{
    return random_size(g->result, e, out);
}

ir_expr bound_symbol(struct gen *g, int64_t lo, int64_t hi, int64_t most)
{
    struct random_graph *r = g->result;
    ir_expr s = r->nbound < GRAPH_MAX_BOUND ? ir_fresh(g->ctx, "k", lo, hi) : NULL;

    if (s) {
        r->bound[r->nbound].name = s->name;
        r->bound[r->nbound++].most = most;
    }
    return s;
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

struct ir_value *filled(struct gen *g, int rank, const ir_expr *dims, double sigma)
{
    int64_t sizes[TCC_MAX_RANK];
    int64_t elements = 1;
    bool fixed = true;

    for (int i = 0; i < rank; i++) {
        fixed = ir_is_const(dims[i], &sizes[i]) && fixed;
        elements *= fixed ? sizes[i] : 1;
    }
    if (fixed && !(g->train && elements > LISTED)) /* steps.c makes the text's numbers wider, not its digits of bits */
        return constant(g, rank, sizes, sigma, false);
    struct ir_value *v = ir_constant_f(&g->b, TCC_F32, 0.25 + below(g, 8));
    for (int i = 0; i < rank && v; i++) {
        struct ir_value *at = ir_build1(&g->b, IR_iota, 0, NULL,
                                        IR_ATTRS(ir_attr_exprs(IR_ATTR_shape, rank, dims), ir_attr_i(IR_ATTR_axis, i),
                                                 ir_attr_dtype(IR_ATTR_to, TCC_F32)));
        at = at ? ir_binary(&g->b, IR_mul, at, ir_constant_f(&g->b, TCC_F32, 0.5 + below(g, 9) / 8.0)) : NULL;
        v = at ? ir_binary(&g->b, IR_add, v, at) : NULL;
    }
    return v ? ir_binary(&g->b, IR_mul, ir_unary(&g->b, IR_sin, v), ir_constant_f(&g->b, TCC_F32, 1.4 * sigma)) : NULL;
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
    {make_joined, 2},     {make_split, 2},         {make_nonzero, 1},
    {make_taken, 2},      {make_counted, 1},       {make_indexed, 1},
    {make_choice, 1},     {make_product, 1},
};

/* Makers whose result jumps by what it is computed from, has no gradient, or leaves what it read to later calls. */
static bool trains(void (*make)(struct gen *g))
{
    return make != make_state && make != make_nonzero && make != make_cast && make != make_bits && make != make_integer;
}

static ir_expr input_dim(struct gen *g, bool wide)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};

    if (below(g, 12) < (g->open ? 8 : 2))
        return ir_sym(g->ctx, symbols[below(g, g->open ? GRAPH_SYMBOLS : 2)]);
    return ir_const(g->ctx, sizes[below(g, wide ? 10 : 7)]);
}

static void make_input(struct gen *g, int i)
{
    static const enum tcc_dtype dtypes[] = {TCC_F32, TCC_F32, TCC_F32, TCC_F32, TCC_F32,  TCC_F32,  TCC_F32,
                                            TCC_F32, TCC_F32, TCC_F64, TCC_F16, TCC_BF16, TCC_BOOL, TCC_I8,
                                            TCC_I16, TCC_I32, TCC_I64, TCC_U8,  TCC_U16,  TCC_U32,  TCC_U64};
    enum tcc_dtype dtype = i == 0 ? TCC_F32 : dtypes[below(g, g->train ? 9 : (int)(sizeof dtypes / sizeof *dtypes))];
    int rank = i == 0 ? 2 + below(g, 3) : below(g, 5);
    bool narrow = dtype == TCC_F16 || dtype == TCC_BF16;
    ir_expr dims[4];
    char name[16];

    for (int k = 0; k < rank; k++)
        dims[k] = input_dim(g, rank <= 2);
    snprintf(name, sizeof name, "x%d", i);
    g->result->coarse |= narrow;
    add(g, ir_input_new(g->result->func, ir_tensor_type(g->ctx, dtype, rank, dims), ir_intern(g->ctx, name)),
        tcc_is_float(dtype) ? 3 : 8, 8, narrow ? 0 : 3);
}

/* A parameter, of a few numbers; as an input where its gradient is to be measured. */
static void make_parameter(struct gen *g, uint64_t seed, int i)
{
    struct random_graph *r = g->result;
    int rank = 1 + below(g, 3);
    int64_t dims[3];
    char name[16];

    for (int k = 0; k < rank; k++)
        dims[k] = 1 + below(g, 5);
    snprintf(name, sizeof name, "p%d", i);
    ir_type type = ir_tensor_type_i(g->ctx, TCC_F32, rank, dims);
    if (r->form == RANDOM_LOSS) {
        add(g, ir_input_new(r->func, type, ir_intern(g->ctx, name)), 3, 8, 3);
        return;
    }
    struct ir_tensor *t = ir_tensor_new(TCC_F32, rank, dims);
    for (int64_t k = 0; t && k < t->nelems; k++)
        tcc_store_f64(TCC_F32, (void *)ir_tensor_at(t, k), random_number(seed, name, k));
    add(g, ir_read_state(&g->b, ir_state_new(r->module, name, type, t, IR_STATE_PARAM)), 3, 8, 3);
}

static void make_inputs(struct gen *g, uint64_t seed)
{
    int n = 1 + below(g, 3);

    for (int i = 0; i < n; i++)
        make_input(g, i);
    for (int i = 0; i < (g->open ? 2 : 0); i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        g->hostile[g->nhostile++] =
            ir_input_new(g->result->func, ir_scalar_type(g->ctx, TCC_I64), ir_intern(g->ctx, name));
    }
    n = g->train ? 1 + below(g, 3) : 0;
    g->first_parameter = g->npool;
    for (int i = 0; i < n; i++)
        make_parameter(g, seed, i);
    g->result->ninputs = g->result->func->body->nparams;
}

/* What every program can be made to go through in front of any other op. */
static void make_front(struct gen *g)
{
    static void (*const fronts[])(struct gen * g) = {make_joined,    make_joined, make_joined, make_concat, make_split,
                                                     make_transpose, make_slice,  make_reduce, make_reshape};
    int had = g->npool;

    fronts[below(g, (int)(sizeof fronts / sizeof *fronts))](g);
    g->forced = g->npool > had ? had : -1;
}

/* The sum of what nothing reads and of parameter p0, as the only output: each weighted, and kept small. */
static void make_loss(struct gen *g)
{
    struct ir_value *loss = NULL;

    for (int i = g->npool - 1; i >= 0 && !g->failed; i--) {
        struct ir_value *v = g->pool[i].v;
        int64_t axes[TCC_MAX_RANK];
        if (v->type->dtype != TCC_F32 || (ir_has_uses(v) && i != g->first_parameter && below(g, 6)))
            continue;
        for (int k = 0; k < v->type->rank; k++)
            axes[k] = k;
        struct ir_value *w = filled(g, v->type->rank, v->type->dim, 1);
        v = ir_unary(&g->b, IR_tanh, ir_binary(&g->b, IR_mul, v, ir_constant_f(&g->b, TCC_F32, 0.25)));
        v = w ? ir_binary(&g->b, IR_mul, v, w) : NULL;
        v = v ? ir_build1(&g->b, IR_reduce_sum, 1, &v,
                          IR_ATTRS(ir_attr_ints(IR_ATTR_axes, v->type->rank, axes), ir_attr_i(IR_ATTR_keepdims, 0)))
              : NULL;
        loss = loss && v ? ir_binary(&g->b, IR_add, loss, v) : v;
        g->failed = !v;
    }
    const char *name = ir_intern(g->ctx, "loss");
    g->result->noutputs = 1;
    g->failed = g->failed || !loss || !ir_return(&g->b, 1, &loss, &name);
}

/* What no output needs goes: the interpreter would refuse runs for it that artifacts have no reason to. */
static void remove_dead(struct gen *g)
{
    struct ir_node *end = g->b.block->last;

    for (struct ir_node *n = end ? end->prev : NULL, *before; n; n = before) {
        bool used = n->nout == 0 || (ir_op_info(n->op)->flags & IR_F_EFFECT);
        before = n->prev;
        for (int i = 0; i < n->nout && !used; i++)
            used = ir_has_uses(n->out[i]);
        if (!used)
            ir_remove(n);
    }
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

/* Sizes of the symbols for each run: those of the first fit what is built, the others are at and around 0, or
 * greater. */
static void make_sizes(struct gen *g)
{
    static const int first[] = {3, 4, 5, 6, 7, 8, 9, 12}, others[] = {0, 1, 1, 2, 3, 5, 7, 8, 9, 13, 16, 17};
    struct random_graph *r = g->result;

    r->nruns = g->open ? GRAPH_RUNS : 1;
    r->sizes[0][0] = 1 + below(g, 5);
    r->sizes[0][1] = 1 + below(g, 9);
    for (int run = 0; run < r->nruns; run++)
        for (int i = 0; i < GRAPH_SYMBOLS && g->open; i++)
            r->sizes[run][i] = run == 0 ? first[below(g, 8)] : below(g, 3) == 0 ? r->sizes[0][i] : others[below(g, 12)];
}

/* One step: a maker that fits, behind something that splits, joins or moves in every third. */
static void make_step(struct gen *g)
{
    int total = 0, had = g->npool;

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        total += makers[i].weight;
    for (int tries = 0; tries < 20 && g->npool == had && !g->failed; tries++) {
        int at = below(g, total);
        size_t i = 0;
        while (at >= makers[i].weight)
            at -= makers[i++].weight;
        if (g->train && !trains(makers[i].make))
            continue;
        if (tries == 0 && below(g, 3) == 0)
            make_front(g);
        makers[i].make(g);
        g->forced = -1;
    }
}

bool random_graph(struct ir_ctx *ctx, uint64_t seed, int nodes, enum random_form form, uint64_t skip,
                  struct random_graph *result)
{
    uint64_t first = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    struct gen g = {.ctx = ctx, .rng = first, .result = result, .forced = -1};

    g.open = form != RANDOM_FIXED;
    g.train = form == RANDOM_LOSS || form == RANDOM_STEP;
    *result = (struct random_graph){.module = ir_module_new(ctx, "random.tcir"), .form = form};
    result->func = ir_func_new(result->module, "main");
    g.b = (struct ir_builder){.ctx = ctx, .func = result->func, .block = result->func->body};
    make_sizes(&g);
    make_inputs(&g, seed);
    if (!g.npool) /* what the makers draw from is never empty */
        add(&g, ir_constant_f(&g.b, TCC_F32, 0.75), 3, 3, 3);
    int inputs = g.npool;
    for (int i = 0; i < nodes && !g.failed; i++) {
        g.rng =
            first ^ (uint64_t)(i + 1) * UINT64_C(0xd1342543de82ef95); /* a step draws the same whatever was skipped */
        if (i >= 64 || !(skip >> i & 1))
            make_step(&g);
    }
    if (g.npool == inputs) /* nothing fitted: one node all the same */
        add(&g, ir_unary(&g.b, IR_neg, g.pool[0].v), 3, 3, 3);
    if (g.train) {
        make_loss(&g);
    } else {
        read_states(&g);
        make_outputs(&g);
    }
    if (!g.failed)
        remove_dead(&g);
    return !g.failed && ir_verify(result->module);
}

double random_number(uint64_t seed, const char *name, int64_t k)
{
    struct gen g = {.rng = seed ^ (uint64_t)k << 24 ^ (uint64_t)name[0] << 8 ^ (uint64_t)name[1]};
    double x = 0.1 + 1.4 * (double)below(&g, 1 << 20) / (1 << 20);

    return (double)(float)(below(&g, 2) ? x : -x);
}

/* Of the first run what the program was made for; of the others whatever an integer can be. */
static int64_t hostile_number(struct gen *g, int run)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1, INT64_MAX, INT64_MAX - 1, INT64_C(1) << 32, -8};

    if (run == 0 || below(g, 3))
        return run == 0 ? 3 : below(g, 10);
    return extremes[below(g, 7)];
}

struct tcc_object *random_input(const struct random_graph *r, uint64_t seed, int i)
{
    struct gen g = {.rng = seed ^ (uint64_t)i << 32 ^ (uint64_t)r->run << 40,
                    .result = (struct random_graph *)(uintptr_t)r};
    ir_type type = r->func->body->params[i]->type;
    const char *name = r->func->input_names[i];
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
        if (*name == 'k')
            tcc_store_i64(type->dtype, at, hostile_number(&g, r->run));
        else if (tcc_is_float(type->dtype) && (r->form == RANDOM_LOSS || r->form == RANDOM_STEP))
            tcc_store_f64(type->dtype, at, random_number(seed, name, k));
        else if (tcc_is_float(type->dtype))
            tcc_store_f64(type->dtype, at, (below(&g, 49) - 24) / 8.0);
        else if (type->dtype == TCC_BOOL)
            tcc_store_i64(type->dtype, at, below(&g, 2));
        else
            tcc_store_i64(type->dtype, at, tcc_is_signed(type->dtype) ? below(&g, 17) - 8 : below(&g, 9));
    }
    return o;
}
