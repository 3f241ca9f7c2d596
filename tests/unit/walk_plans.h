/* SPDX-License-Identifier: Apache-2.0 */
/* walk_plans.h - kernels, a model and a plan built by hand, for the tests of the plan walker. */
#ifndef TCC_TESTS_WALK_PLANS_H
#define TCC_TESTS_WALK_PLANS_H

#include <check.h>
#undef fail /* an old name of Check's that struct tcc_lib_host uses */

#include "runtime/tccrt.h"
#include "tests/unit/mini_plan.h"

#define TILE 16

/* args: x, w, y; sizes: n. One tile is 16 elements. */
static inline void scale(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                         int64_t last)
{
    const float *x = args[0], *w = args[1];
    float *y = args[2];

    (void)scratch;
    (void)env;
    for (int64_t i = first * TILE; i < last * TILE && i < sizes[0]; i++)
        y[i] = x[i] * w[i % 4];
}

/* args: i (iteration), a, out; out = a + i */
static inline void add_index(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                             int64_t last)
{
    (void)scratch;
    (void)env;
    (void)first;
    (void)last;
    for (int64_t k = 0; k < sizes[0]; k++)
        ((int64_t *)args[2])[k] = ((int64_t *)args[1])[k] + *(int64_t *)args[0];
}

static inline void fault(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                         int64_t last)
{
    (void)args;
    (void)sizes;
    (void)scratch;
    if (first <= 3 && 3 < last) {
        env->index = env->extent = 3;
        env->fault = TCC_EINDEX;
    }
}

/* Keeps the positive elements of its f32 input: a result of unknown size. */
static inline int keep_positive(struct tcc_lib_call *call)
{
    const struct tcc_tensor *t = &call->in[0]->t;
    const float *x = t->data;
    int64_t n = 0, k = 0;
    float *y;

    for (int64_t i = 0; i < t->dims[0]; i++)
        n += x[i] > 0;
    if (t->dims[0] == 13)
        return call->host->fail(call, TCC_EINPUT, "%d is unlucky", 13);
    y = call->host->output(call, 0, TCC_F32, 1, &n);
    if (!y)
        return TCC_EENV;
    for (int64_t i = 0; i < t->dims[0]; i++)
        if (x[i] > 0)
            y[k++] = x[i];
    return TCC_OK;
}

static const tcc_kernel_fn kernels[] = {scale, add_index, fault};
static const tcc_libop_fn libops[] = {keep_positive};
static const struct tcc_version versions[] = {{"x86-64", kernels}};
static _Alignas(64) const float weights[4] = {1, 2, 3, 4};

static inline struct tcc_model make_model(const struct tcc_plan *plan)
{
    return (struct tcc_model){.magic = TCC_MODEL_MAGIC,
                              .abi_version = TCC_ABI_VERSION,
                              .nversions = 1,
                              .plan = plan,
                              .versions = versions,
                              .libops = libops,
                              .weights = (const uint8_t *)weights,
                              .weights_size = sizeof weights,
                              .name = "mini",
                              .source = ""};
}

static inline void add_kernels(struct mini_plan *p)
{
    static const char *const names[] = {"scale", "add_index", "fault"};

    for (int i = 0; i < 3; i++)
        p->kernels[p->nkernels++] = (struct tcc_pkernel){mp_string(p, names[i]), 0,
                                                         mp_list(p, i < 2 ? 3 : 0, TCC_READS, TCC_READS, TCC_WRITES)};
    p->nlibops = 1;
}

/* main(x: f32[n]) -> f32[n]: arena t = x * w; y = t * w */
static inline void scale_plan(struct mini_plan *p)
{
    uint32_t n = mp_sym(p, "n", 0, 1000000, 0), four = mp_const(p, 4), zero = mp_const(p, 0),
             sixteen = mp_const(p, TILE);
    uint32_t bytes = mp_expr(p, TCC_EX_MUL, n, four, 0, 0), c15 = mp_const(p, TILE - 1), c16 = mp_const(p, 16);
    uint32_t up = mp_expr(p, TCC_EX_ADD, n, c15, 0, 0), tiles = mp_expr(p, TCC_EX_FLOORDIV, up, sixteen, 0, 0);
    struct tcc_range dims = mp_list(p, 1, n), wdims = mp_list(p, 1, four);
    uint32_t x = mp_buffer(p, TCC_SPACE_INPUT, TCC_F32, 0, TCC_NO, bytes, dims, "x");
    uint32_t w = mp_buffer(p, TCC_SPACE_WEIGHT, TCC_F32, 0, zero, c16, wdims, "w");
    uint32_t t = mp_buffer(p, TCC_SPACE_ARENA, TCC_F32, 0, zero, bytes, dims, "t");
    uint32_t y = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_F32, 0, TCC_NO, bytes, dims, "y");
    struct tcc_pstep *s;

    add_kernels(p);
    mp_signature(p, "x", TCC_F32, TCC_OBJ_TENSOR, 1, dims);
    mp_signature(p, "y", TCC_F32, TCC_OBJ_TENSOR, 1, dims);
    for (int i = 0; i < 2; i++) {
        s = mp_step(p, TCC_STEP_LAUNCH, i ? "second" : "first", mp_list(p, 3, i ? t : x, w, i ? y : t));
        s->sizes = mp_list(p, 1, n);
        s->tiles = tiles;
        s->scratch = c16;
    }
    p->entries[p->nentries++] = (struct tcc_pentry){mp_string(p, "main"),
                                                    0,
                                                    {0, 1},
                                                    {1, 1},
                                                    mp_list(p, 1, x),
                                                    mp_list(p, 1, y),
                                                    {0, 2},
                                                    bytes,
                                                    c16,
                                                    .cases = {0, 0}};
}

static inline struct tccrt_session *open_plan(const struct tcc_plan *plan, struct tcc_model *d, struct tccrt_model **m,
                                              const struct tccrt_options *o)
{
    struct tccrt_session *s;

    *d = make_model(plan);
    ck_assert_msg(tccrt_open_linked(d, m) == TCC_OK, "%s", tccrt_error());
    ck_assert_msg(tccrt_session_new(*m, o, &s) == TCC_OK, "%s", tccrt_error());
    return s;
}

#endif
