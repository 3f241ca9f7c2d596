/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree ensembles: the ranks of a chunk of rows, column by column (trees.h). A feature is compared with each split once
 * for all the nodes that have it, whatever its type is; behind that, trees see 16-bit integers only. The idea is
 * histogram-based training's, whose trees have at most 255 splits a feature (Ke et al., LightGBM, NIPS 2017).
 */
#include <string.h>

#include "runtime/libop/ml_tree_int.h"
#include "runtime/rt_int.h"
#include "runtime/trees.h"

int lib_tree_level(void)
{
    static _Atomic int known = -1;
    int level = known;

#ifdef __x86_64__
    char missing[64];

    if (level < 0)
        known = level = tcr_cpu_runs("x86-64-v4", missing, sizeof missing)   ? 2
                        : tcr_cpu_runs("x86-64-v3", missing, sizeof missing) ? 1
                                                                             : 0;
#endif
    return level < 0 ? 0 : level;
}

#define T float
#define INTEGER int32_t
#define CUTS cuts
#define FORM(name) name##_f32_any
#define VECTOR 16
#define ATTRIBUTE
#include "runtime/libop/ml_tree_rank_form.h"
#ifdef __x86_64__
#define FORM(name) name##_f32_v3
#define VECTOR 32
#define ATTRIBUTE __attribute__((target("avx2")))
#include "runtime/libop/ml_tree_rank_form.h"
#define FORM(name) name##_f32_v4
#define VECTOR 64
#define ATTRIBUTE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq")))
#include "runtime/libop/ml_tree_rank_form.h"
#else
#define ranks_f32_v3 ranks_f32_any
#define ranks_f32_v4 ranks_f32_any
#endif
#undef T
#undef INTEGER
#undef CUTS

#define T double
#define INTEGER int64_t
#define CUTS wide_cuts
#define FORM(name) name##_f64_any
#define VECTOR 16
#define ATTRIBUTE
#include "runtime/libop/ml_tree_rank_form.h"
#ifdef __x86_64__
#define FORM(name) name##_f64_v3
#define VECTOR 32
#define ATTRIBUTE __attribute__((target("avx2")))
#include "runtime/libop/ml_tree_rank_form.h"
#define FORM(name) name##_f64_v4
#define VECTOR 64
#define ATTRIBUTE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq")))
#include "runtime/libop/ml_tree_rank_form.h"
#else
#define ranks_f64_v3 ranks_f64_any
#define ranks_f64_v4 ranks_f64_any
#endif
#undef T
#undef INTEGER
#undef CUTS

typedef bool ranks_fn(const struct tree_columns *c, const void *x, int64_t rows, int64_t stride, int16_t *to);

bool lib_tree_ranks(const struct tree_columns *c, const void *x, int64_t rows, int64_t stride, int16_t *to)
{
    static ranks_fn *const forms[][2] = {
        {ranks_f32_any, ranks_f64_any}, {ranks_f32_v3, ranks_f64_v3}, {ranks_f32_v4, ranks_f64_v4}};

    return forms[lib_tree_level()][!c->cuts](c, x, rows, stride, to);
}
