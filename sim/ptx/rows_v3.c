/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c once more, for hosts with AVX2 and FMA (x86-64-v3); ptx_rows_best() chooses when it runs. */
#include <math.h>

#include "sim/ptx/ptx_int.h"

#ifdef PTX_ROWS_V3
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif
#define PTX_ROWS ptx_rows_v3
#include "sim/ptx/rows.c"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
