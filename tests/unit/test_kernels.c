/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels built by hand, compiled for every --march that can run here, at width 1 (-O0) and vectorised, run tile by
 * tile and compared with the interpreter of kernels: broadcasts, transposes, softmax, layer norm, reductions, gathers,
 * concatenation by guards, extreme positions, running sums, every element type. The same kernels as PTX, each executed
 * in the simulator with its checks on.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/kernels.h"
#include "tests/unit/suite.h"
#include "tools/prove/prove_int.h"
#include "tools/values/values_int.h"

#define C(v) ir_const(ctx, (v))

static const enum tcc_dtype numeric[] = {
    TCC_F32,      TCC_F64,        TCC_F16,    TCC_BF16,       TCC_I8,     TCC_U8,    TCC_I16, TCC_U16,
    TCC_I32,      TCC_U32,        TCC_I64,    TCC_U64,        TCC_I4,     TCC_U4,    TCC_I2,  TCC_U2,
    TCC_F8E4M3FN, TCC_F8E4M3FNUZ, TCC_F8E5M2, TCC_F8E5M2FNUZ, TCC_F4E2M1, TCC_F8E8M0};
#define NNUMERIC ((int)(sizeof numeric / sizeof *numeric))

/* -- Kernels ------------------------------------------------------------------------------------------ */

/* y[i, j] = (a[i, j] op b[j]) op s */
static struct kn_kernel *broadcast(struct ir_ctx *ctx, enum tcc_dtype d, int64_t rows, int64_t columns, enum ir_op word)
{
    struct hk b;
    hk_init(&b, ctx, "broadcast");
    ir_expr i = hk_outer(&b, C(rows)), j = hk_outer(&b, C(columns));
    int x = hk_operand(&b, KN_IN, d, 2, E(C(rows), C(columns))), v = hk_operand(&b, KN_IN, d, 1, E(C(columns)));
    int s = hk_operand(&b, KN_IN, d, 0, NULL), y = hk_operand(&b, KN_OUT, d, 2, E(C(rows), C(columns)));
    hk_stage(&b, 0);
    int t = hk_scalar(&b, word, d, hk_load(&b, x, E(i, j)), hk_load(&b, v, E(j)), -1);
    hk_store(&b, y, E(i, j), hk_scalar(&b, word, d, t, hk_load(&b, s, NULL), -1));
    return hk_finish(&b);
}

/* y[n] = cast(x[n]) */
static struct kn_kernel *cast(struct ir_ctx *ctx, enum tcc_dtype to, enum tcc_dtype from, int64_t n)
{
    struct hk b;
    hk_init(&b, ctx, ir_internf(ctx, "cast from %s", tcc_dtype_name(from)));
    ir_expr i = hk_outer(&b, C(n));
    int x = hk_operand(&b, KN_IN, from, 1, E(C(n))), y = hk_operand(&b, KN_OUT, to, 1, E(C(n)));
    hk_stage(&b, 0);
    hk_store(&b, y, E(i), hk_scalar(&b, IR_cast, to, hk_load(&b, x, E(i)), -1, -1));
    return hk_finish(&b);
}

/* y[j, i, k] = x[i, j, k] */
static struct kn_kernel *transpose(struct ir_ctx *ctx, enum tcc_dtype d, int64_t ni, int64_t nj, int64_t nk)
{
    struct hk b;
    hk_init(&b, ctx, "transpose");
    ir_expr j = hk_outer(&b, C(nj)), i = hk_outer(&b, C(ni)), k = hk_outer(&b, C(nk));
    int x = hk_operand(&b, KN_IN, d, 3, E(C(ni), C(nj), C(nk))),
        y = hk_operand(&b, KN_OUT, d, 3, E(C(nj), C(ni), C(nk)));
    hk_stage(&b, 0);
    hk_store(&b, y, E(j, i, k), hk_load(&b, x, E(i, j, k)));
    return hk_finish(&b);
}

/* y[i] = x[n - 1 - i], then every second */
static struct kn_kernel *reverse(struct ir_ctx *ctx, enum tcc_dtype d, int64_t n)
{
    struct hk b;
    hk_init(&b, ctx, "reverse");
    ir_expr i = hk_outer(&b, C(n));
    int x = hk_operand(&b, KN_IN, d, 1, E(C(2 * n))), y = hk_operand(&b, KN_OUT, d, 1, E(C(n)));
    int z = hk_operand(&b, KN_OUT, d, 1, E(C(n)));
    hk_stage(&b, 0);
    hk_store(&b, y, E(i), hk_load(&b, x, E(ir_addc(ctx, ir_mulc(ctx, i, -1), n - 1))));
    hk_store(&b, z, E(i), hk_load(&b, x, E(ir_mulc(ctx, i, 2))));
    return hk_finish(&b);
}

/* Softmax over c of x[r, c] or, when `across`, of x[c, r]; c symbolic when c < 0. */
static struct kn_kernel *softmax(struct ir_ctx *ctx, int64_t rows, int64_t columns, bool across)
{
    struct hk b;
    hk_init(&b, ctx, "softmax");
    ir_expr n = columns < 0 ? hk_size(&b, "N") : C(columns), m = C(rows), r = hk_outer(&b, m), c = hk_inner(&b, n);
    const ir_expr *dims = across ? E(n, m) : E(m, n), *at = across ? E(c, r) : E(r, c);
    int x = hk_operand(&b, KN_IN, TCC_F32, 2, dims), y = hk_operand(&b, KN_OUT, TCC_F32, 2, dims);
    int t = hk_operand(&b, KN_LOCAL, TCC_F32, 1, E(n));
    hk_stage(&b, 2);
    int max = hk_reduce(&b, KN_REDUCE, KN_MAX, TCC_F32, hk_load(&b, x, at), -1, 0);
    hk_stage(&b, 2);
    int e = hk_scalar(&b, IR_exp, TCC_F32, hk_scalar(&b, IR_sub, TCC_F32, hk_load(&b, x, at), max, -1), -1, -1);
    hk_store(&b, t, E(c), e);
    int sum = hk_reduce(&b, KN_REDUCE, KN_SUM, TCC_F32, e, -1, 0);
    hk_stage(&b, 2);
    hk_store(&b, y, at, hk_scalar(&b, IR_div, TCC_F32, hk_load(&b, t, E(c)), sum, -1));
    return hk_finish(&b);
}

/* Layer norm over c of bf16 or f32 x[r, c] with weights; also stores the mean. */
static struct kn_kernel *layer_norm(struct ir_ctx *ctx, enum tcc_dtype d, int64_t rows, int64_t columns)
{
    struct hk b;
    hk_init(&b, ctx, "layer_norm");
    ir_expr r = hk_outer(&b, C(rows)), c = hk_inner(&b, C(columns));
    int x = hk_operand(&b, KN_IN, d, 2, E(C(rows), C(columns))), w = hk_operand(&b, KN_IN, d, 1, E(C(columns)));
    int y = hk_operand(&b, KN_OUT, d, 2, E(C(rows), C(columns))), o = hk_operand(&b, KN_OUT, TCC_F32, 1, E(C(rows)));
    hk_stage(&b, 2);
    int v = hk_scalar(&b, IR_cast, TCC_F32, hk_load(&b, x, E(r, c)), -1, -1);
    int sum = hk_reduce(&b, KN_REDUCE, KN_SUM, TCC_F32, v, -1, 0);
    hk_stage(&b, 0);
    int mean = hk_scalar(&b, IR_mul, TCC_F32, sum, hk_const(&b, TCC_F32, 1.0 / (double)columns), -1);
    hk_store(&b, o, E(r), mean);
    hk_stage(&b, 2);
    v = hk_scalar(&b, IR_sub, TCC_F32, hk_scalar(&b, IR_cast, TCC_F32, hk_load(&b, x, E(r, c)), -1, -1), mean, -1);
    int squares = hk_reduce(&b, KN_REDUCE, KN_SUM, TCC_F32, hk_scalar(&b, IR_mul, TCC_F32, v, v, -1), -1, 0);
    hk_stage(&b, 0);
    int variance = hk_scalar(&b, IR_mul, TCC_F32, squares, hk_const(&b, TCC_F32, 1.0 / (double)columns), -1);
    int root = hk_scalar(&b, IR_sqrt, TCC_F32,
                         hk_scalar(&b, IR_add, TCC_F32, variance, hk_const(&b, TCC_F32, 1e-5), -1), -1, -1);
    hk_stage(&b, 2);
    v = hk_scalar(&b, IR_sub, TCC_F32, hk_scalar(&b, IR_cast, TCC_F32, hk_load(&b, x, E(r, c)), -1, -1), mean, -1);
    v = hk_scalar(&b, IR_div, TCC_F32, v, root, -1);
    v = hk_scalar(&b, IR_mul, TCC_F32, v, hk_scalar(&b, IR_cast, TCC_F32, hk_load(&b, w, E(c)), -1, -1), -1);
    hk_store(&b, y, E(r, c), hk_scalar(&b, IR_cast, d, v, -1, -1));
    return hk_finish(&b);
}

/* y[a, c] = reduce over b, d of x[a, b, c, d] */
static struct kn_kernel *reduce(struct ir_ctx *ctx, enum kn_reducer r, enum tcc_dtype d, const int64_t *n)
{
    struct hk b;
    hk_init(&b, ctx, "reduce");
    ir_expr a = hk_outer(&b, C(n[0])), c = hk_outer(&b, C(n[2])), i = hk_inner(&b, C(n[1])), j = hk_inner(&b, C(n[3]));
    int x = hk_operand(&b, KN_IN, d, 4, E(C(n[0]), C(n[1]), C(n[2]), C(n[3])));
    int y = hk_operand(&b, KN_OUT, d, 2, E(C(n[0]), C(n[2])));
    hk_stage(&b, 12);
    int v = hk_reduce(&b, KN_REDUCE, r, d, hk_load(&b, x, E(a, i, c, j)), -1, 0);
    hk_stage(&b, 0);
    hk_store(&b, y, E(a, c), v);
    return hk_finish(&b);
}

/* y[i, j] = x[idx[i], j], or with the lanes along the gathered axis x[j, idx[i]] */
static struct kn_kernel *gather(struct ir_ctx *ctx, enum tcc_dtype d, int64_t n, int64_t m, int64_t columns,
                                bool across)
{
    struct hk b;
    hk_init(&b, ctx, "gather");
    ir_expr i = hk_outer(&b, C(n)), j = hk_outer(&b, C(columns));
    if (across) {
        ir_expr t = i;
        b.k.ndims = 0;
        (void)t;
        j = hk_outer(&b, C(columns));
        i = hk_outer(&b, C(n));
    }
    int idx = hk_operand(&b, KN_IN, TCC_I64, 1, E(C(n)));
    int x = hk_operand(&b, KN_IN, d, 2, across ? E(C(columns), C(m)) : E(C(m), C(columns)));
    int y = hk_operand(&b, KN_OUT, d, 2, across ? E(C(columns), C(n)) : E(C(n), C(columns)));
    hk_stage(&b, 0);
    ir_expr g = hk_index(&b, hk_load(&b, idx, E(i)), C(m));
    hk_store(&b, y, across ? E(j, i) : E(i, j), hk_load(&b, x, across ? E(j, g) : E(g, j)));
    return hk_finish(&b);
}

/* Concatenation along the last axis (or the first), by guards; pads by 1 on both ends with a constant. */
static struct kn_kernel *concat(struct ir_ctx *ctx, enum tcc_dtype d, int64_t rows, int64_t p, int64_t q,
                                bool first_axis)
{
    struct hk b;
    hk_init(&b, ctx, "concat");
    int64_t n = p + q + 2;
    ir_expr i = hk_outer(&b, C(first_axis ? n : rows)), j = hk_outer(&b, C(first_axis ? rows : n)),
            v = first_axis ? i : j;
    int x = hk_operand(&b, KN_IN, d, 2, first_axis ? E(C(p), C(rows)) : E(C(rows), C(p)));
    int y = hk_operand(&b, KN_IN, d, 2, first_axis ? E(C(q), C(rows)) : E(C(rows), C(q)));
    int z = hk_operand(&b, KN_OUT, d, 2, first_axis ? E(C(n), C(rows)) : E(C(rows), C(n)));
    hk_stage(&b, 0);
    int pad = hk_const(&b, d, 3);
    ir_expr vx = ir_addc(ctx, v, -1), vy = ir_addc(ctx, v, -1 - p);
    int lx = hk_load_guarded(&b, x, first_axis ? E(vx, j) : E(i, vx), (struct kn_guard){v, C(1), C(1 + p)}, pad);
    int ly = hk_load_guarded(&b, y, first_axis ? E(vy, j) : E(i, vy), (struct kn_guard){v, C(1 + p), C(1 + p + q)}, lx);
    hk_store(&b, z, E(i, j), ly);
    return hk_finish(&b);
}

/* Positions of extremes over c of x[r, c] (or x[c, r]); ties to the first or last. */
static struct kn_kernel *argmax(struct ir_ctx *ctx, enum tcc_dtype d, enum kn_reducer r, int64_t rows, int64_t columns,
                                bool across, bool last)
{
    struct hk b;
    hk_init(&b, ctx, "argmax");
    ir_expr i = hk_outer(&b, C(rows)), c = hk_inner(&b, C(columns));
    int x = hk_operand(&b, KN_IN, d, 2, across ? E(C(columns), C(rows)) : E(C(rows), C(columns)));
    int y = hk_operand(&b, KN_OUT, TCC_I64, 1, E(C(rows)));
    hk_stage(&b, 2);
    int v = hk_load(&b, x, across ? E(c, i) : E(i, c));
    int a = hk_reduce(&b, KN_ARGREDUCE, r, TCC_I64, v, hk_expr(&b, TCC_I64, c), last);
    hk_stage(&b, 0);
    hk_store(&b, y, E(i), a);
    return hk_finish(&b);
}

/* Running sums over c of x[r, c] (or x[c, r]). */
static struct kn_kernel *cumsum(struct ir_ctx *ctx, enum tcc_dtype d, int64_t rows, int64_t columns, bool across,
                                bool exclusive)
{
    struct hk b;
    hk_init(&b, ctx, "cumsum");
    ir_expr i = hk_outer(&b, C(rows)), c = hk_inner(&b, C(columns));
    const ir_expr *dims = across ? E(C(columns), C(rows)) : E(C(rows), C(columns)), *at = across ? E(c, i) : E(i, c);
    int x = hk_operand(&b, KN_IN, d, 2, dims), y = hk_operand(&b, KN_OUT, d, 2, dims);
    hk_stage(&b, 2);
    hk_store(&b, y, at, hk_reduce(&b, KN_SCAN, KN_SUM, d, hk_load(&b, x, at), -1, exclusive));
    return hk_finish(&b);
}

/* The first few of x[r, c] along c in order, and where they stood. columns < 0: symbolic. */
static struct kn_kernel *sort(struct ir_ctx *ctx, enum tcc_dtype d, enum kn_reducer r, int64_t rows, int64_t columns)
{
    struct hk b;
    hk_init(&b, ctx, "sort");
    ir_expr n = columns < 0 ? hk_size(&b, "N") : C(columns), some = ir_ceildiv(ctx, n, C(2));
    ir_expr i = hk_outer(&b, C(rows)), c = hk_inner(&b, n), p = hk_inner(&b, some);
    int x = hk_operand(&b, KN_IN, d, 2, E(C(rows), n)), y = hk_operand(&b, KN_OUT, d, 2, E(C(rows), some));
    int at = hk_operand(&b, KN_OUT, TCC_I32, 2, E(C(rows), some));
    int keys = hk_operand(&b, KN_LOCAL, d, 1, E(n)), positions = hk_operand(&b, KN_LOCAL, TCC_I32, 1, E(n));
    hk_stage(&b, 2);
    hk_store(&b, keys, E(c), hk_load(&b, x, E(i, c)));
    hk_store(&b, positions, E(c), hk_expr(&b, TCC_I32, c));
    hk_stage(&b, 0);
    hk_sort(&b, keys, positions, r);
    hk_stage(&b, 4);
    hk_store(&b, y, E(i, p), hk_load(&b, keys, E(p)));
    hk_store(&b, at, E(i, p), hk_load(&b, positions, E(p)));
    return hk_finish(&b);
}

/* Blocked to plain layout: y[p, c] (or y[c, p]) = x[c floordiv 16, p, c mod 16], or the other way. */
static struct kn_kernel *unblock(struct ir_ctx *ctx, int64_t channels, int64_t pixels, bool to_blocked,
                                 bool channels_first)
{
    struct hk b;
    hk_init(&b, ctx, "unblock");
    int64_t blocks = (channels + 15) / 16;
    ir_expr first = hk_outer(&b, C(channels_first ? channels : pixels)),
            second = hk_outer(&b, C(channels_first ? pixels : channels));
    ir_expr p = channels_first ? second : first, c = channels_first ? first : second;
    ir_expr hi = ir_floordiv(ctx, c, C(16)), lo = ir_mod(ctx, c, C(16));
    const ir_expr *blocked = E(C(blocks), C(pixels), C(16)),
                  *plain = channels_first ? E(C(channels), C(pixels)) : E(C(pixels), C(channels));
    const ir_expr *at = channels_first ? E(c, p) : E(p, c);
    int x = hk_operand(&b, KN_IN, TCC_F32, to_blocked ? 2 : 3, to_blocked ? plain : blocked);
    int y = hk_operand(&b, KN_OUT, TCC_F32, to_blocked ? 3 : 2, to_blocked ? blocked : plain);
    hk_stage(&b, 0);
    hk_store(&b, y, to_blocked ? E(hi, p, lo) : at, hk_load(&b, x, to_blocked ? at : E(hi, p, lo)));
    return hk_finish(&b);
}

/* y = select(x < z, isnan(x) ? 1 : trunc(x), ...) in f32, and truths combined; N symbolic. */
static struct kn_kernel *logic(struct ir_ctx *ctx)
{
    struct hk b;
    hk_init(&b, ctx, "logic");
    ir_expr n = hk_size(&b, "N"), i = hk_outer(&b, n);
    int x = hk_operand(&b, KN_IN, TCC_F32, 1, E(n)), z = hk_operand(&b, KN_IN, TCC_F32, 1, E(n));
    int t = hk_operand(&b, KN_IN, TCC_BOOL, 1, E(n));
    int y = hk_operand(&b, KN_OUT, TCC_F32, 1, E(n)), o = hk_operand(&b, KN_OUT, TCC_BOOL, 1, E(n));
    hk_stage(&b, 0);
    int a = hk_load(&b, x, E(i)), c = hk_load(&b, z, E(i)), s = hk_load(&b, t, E(i));
    int less = hk_scalar(&b, IR_lt, TCC_BOOL, a, c, -1), both = hk_scalar(&b, IR_and, TCC_BOOL, less, s, -1);
    int low = hk_scalar(&b, IR_min, TCC_F32, a, c, -1), high = hk_scalar(&b, IR_max, TCC_F32, a, c, -1);
    hk_store(&b, y, E(i), hk_scalar(&b, IR_select, TCC_F32, both, low, high));
    int inf = hk_scalar(&b, IR_isinf, TCC_BOOL, a, -1, -1), nan = hk_scalar(&b, IR_isnan, TCC_BOOL, c, -1, -1);
    int odd = hk_scalar(&b, IR_xor, TCC_BOOL, hk_scalar(&b, IR_or, TCC_BOOL, inf, nan, -1),
                        hk_scalar(&b, IR_not, TCC_BOOL, s, -1, -1), -1);
    hk_store(&b, o, E(i), odd);
    return hk_finish(&b);
}

/* y[idx[i], j] = x[i, j] into an INOUT operand, rows disjoint. */
static struct kn_kernel *scatter(struct ir_ctx *ctx, int64_t n, int64_t columns)
{
    struct hk b;
    hk_init(&b, ctx, "scatter");
    ir_expr i = hk_outer(&b, C(n)), j = hk_outer(&b, C(columns));
    int idx = hk_operand(&b, KN_IN, TCC_I64, 1, E(C(n))), x = hk_operand(&b, KN_IN, TCC_F32, 2, E(C(n), C(columns)));
    int y = hk_operand(&b, KN_INOUT, TCC_F32, 2, E(C(64), C(columns)));
    hk_stage(&b, 0);
    ir_expr g = hk_index(&b, hk_load(&b, idx, E(i)), C(64));
    hk_store(&b, y, E(g, j), hk_load(&b, x, E(i, j)));
    return hk_finish(&b);
}

/* y[idx[i]] += x[i], one after the other: all points are inner. */
static struct kn_kernel *scatter_add(struct ir_ctx *ctx, int64_t n)
{
    struct hk b;
    hk_init(&b, ctx, "scatter");
    ir_expr i = hk_inner(&b, C(n));
    int idx = hk_operand(&b, KN_IN, TCC_I64, 1, E(C(n))), x = hk_operand(&b, KN_IN, TCC_F32, 1, E(C(n)));
    int y = hk_operand(&b, KN_INOUT, TCC_F32, 1, E(C(64)));
    hk_stage(&b, 1);
    ir_expr g = hk_index(&b, hk_load(&b, idx, E(i)), C(64));
    int sum = hk_scalar(&b, IR_add, TCC_F32, hk_load(&b, y, E(g)), hk_load(&b, x, E(i)), -1);
    hk_store(&b, y, E(g), sum);
    return hk_finish(&b);
}

/* -- Running and comparing ----------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t next(void)
{
    return hk_random(&state);
}

static bool multiplies(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        if ((k->insns[i].code == KN_REDUCE || k->insns[i].code == KN_SCAN) && k->insns[i].reducer == KN_PROD)
            return true;
    return false;
}

/* Small values with a few ties, near 1 or -1 where many are multiplied; indexes (i64 operand 0 of gathers) include
 * negative ones. */
static void fill(const struct kn_kernel *k, int operand, void *data, int64_t n)
{
    enum tcc_dtype d = (enum tcc_dtype)k->operands[operand].dtype;
    int bytes = tcc_dtype_bytes(d);
    bool index = d == TCC_I64 && operand == 0 && (strcmp(k->name, "gather") == 0 || strcmp(k->name, "scatter") == 0);
    for (int64_t i = 0; i < n; i++) {
        void *p = (char *)data + i * bytes;
        uint64_t r = next();
        if (index)
            tcc_store_i64(d, p, strcmp(k->name, "scatter") == 0 ? (i * 7) % 64 : (int64_t)(r % 10) - 5);
        else if (d == TCC_BOOL)
            *(uint8_t *)p = r & 1;
        else if (tcc_is_float(d) && tcc_dtype_bytes(d) > 1 && !strcmp(k->name, "sort") && r % 8 < 3)
            tcc_store_f64(d, p, r % 8 == 0 ? NAN : r % 8 == 1 ? 0.0 : -0.0);
        else if (tcc_is_float(d))
            tcc_store_f64(d, p,
                          multiplies(k) ? (r & 1 ? 1 : -1) * (0.75 + (double)(r / 2 % 501) / 1000)
                                        : (double)((int64_t)(r % 2001) - 1000) / 128);
        else
            tcc_store_i64(d, p, (int64_t)(r % 211) - (tcc_is_signed(d) ? 100 : 0));
    }
}

static void compare(const struct kn_kernel *k, int operand, const void *want, const void *got, int64_t n,
                    const char *arch)
{
    enum tcc_dtype d = (enum tcc_dtype)k->operands[operand].dtype;
    int bytes = tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++) {
        const void *a = (const char *)want + i * bytes, *b = (const char *)got + i * bytes;
        if (memcmp(a, b, (size_t)bytes) == 0)
            continue;
        double x = tcc_load_f64(d, a), y = tcc_load_f64(d, b);
        bool reduces = false;
        for (int j = 0; j < k->ninsns; j++)
            reduces = reduces || k->insns[j].code == KN_REDUCE || k->insns[j].code == KN_SCAN;
        double step = d == TCC_F64 ? 1e-12 : d == TCC_F32 ? 2e-6 : 0.03;
        bool nan = isnan(x) && isnan(y);
        bool close = tcc_is_float(d) && (nan || (reduces && float_excess(y, x, 2 * step, step * 10) == 0));
        ck_assert_msg(close, "%s (%s, operand %d %s): element %ld is %g, not %g", k->name, arch, operand,
                      tcc_dtype_name(d), (long)i, y, x);
    }
}

struct buffers {
    void *at[HK_MAX], *packed[HK_MAX];
    int64_t n[HK_MAX];
    size_t bytes[HK_MAX];
};

static void allocate(struct buffers *b, const struct kn_kernel *k, const int64_t *sizes)
{
    int packed = 0;
    for (int i = 0; i < k->noperands; i++) {
        b->n[i] = hk_elements(k, i, sizes);
        b->bytes[i] = (size_t)b->n[i] * (size_t)tcc_dtype_bytes((enum tcc_dtype)k->operands[i].dtype);
        b->at[i] = hk_alloc(b->bytes[i]);
        if (k->operands[i].use == KN_IN)
            fill(k, i, b->at[i], b->n[i]);
        if (k->operands[i].use != KN_LOCAL)
            b->packed[packed++] = b->at[i];
    }
}

static void release(struct buffers *b, const struct kn_kernel *k)
{
    for (int i = 0; i < k->noperands; i++)
        hk_free(b->at[i], b->bytes[i]);
}

/* Runs one kernel compiled and interpreted on the same data. */
static void check_kernel(const struct kn_kernel *original, const struct kn_kernel *k, tcc_kernel_fn fn,
                         const int64_t *sizes, const char *arch)
{
    struct buffers want, got;
    uint64_t seed = state;
    allocate(&want, original, sizes);
    state = seed;
    allocate(&got, original, sizes);
    ck_assert_int_eq(kn_interp_kernel(original, want.packed, sizes, NULL), 0);
    ck_assert_int_eq(hk_run(k, fn, got.packed, sizes, 2), 0);
    for (int i = 0; i < original->noperands; i++)
        if (original->operands[i].use == KN_OUT || original->operands[i].use == KN_INOUT)
            compare(original, i, want.at[i], got.at[i], want.n[i], arch);
    release(&want, original);
    release(&got, original);
}

static const char *const arches[] = {"x86-64-v2", "x86-64-v3",           "x86-64-v4",
                                     "native",    "x86-64-v2/x86-64-v4", "x86-64-v3/x86-64-v4"};
#define NARCHES ((int)(sizeof arches / sizeof *arches))

#define MAX_KERNELS 256
struct set {
    struct ir_ctx *ctx;
    int n;
    struct kn_kernel *at[MAX_KERNELS];
};

static void add(struct set *s, struct kn_kernel *k)
{
    s->at[s->n++] = k;
}

static void make_maps(struct set *s)
{
    static const enum ir_op words[] = {IR_add, IR_mul, IR_sub, IR_max, IR_div, IR_mod};
    for (int i = 0; i < NNUMERIC; i++) {
        bool is_float = tcc_is_float(numeric[i]);
        add(s, broadcast(s->ctx, numeric[i], 5, 37, words[i % (is_float ? 5 : 6)]));
        add(s, broadcast(s->ctx, numeric[i], 3, 100, words[(i + 1) % 4]));
    }
    add(s, transpose(s->ctx, TCC_F32, 33, 40, 1));
    add(s, transpose(s->ctx, TCC_F32, 5, 6, 35));
    add(s, transpose(s->ctx, TCC_I8, 20, 70, 1));
    add(s, transpose(s->ctx, TCC_F64, 17, 9, 2));
    add(s, reverse(s->ctx, TCC_F32, 75));
    add(s, reverse(s->ctx, TCC_I16, 90));
    for (int i = 0; i < 4; i++) {
        add(s, unblock(s->ctx, 40, 37, i & 1, i & 2));
        add(s, unblock(s->ctx, 64, 49, i & 1, i & 2));
    }
    add(s, logic(s->ctx));
    add(s, scatter(s->ctx, 9, 35));
    add(s, scatter_add(s->ctx, 60));
}

static void make_reductions(struct set *s)
{
    static const int64_t shapes[][4] = {{3, 1, 5, 67}, {2, 9, 40, 1}, {2, 3, 5, 7}, {1, 1, 1, 301}, {4, 0, 3, 5}};
    static const enum tcc_dtype types[] = {TCC_F32, TCC_F64, TCC_I32, TCC_I64, TCC_U8, TCC_F16, TCC_BOOL};
    for (int r = KN_SUM; r <= KN_MIN; r++)
        for (int i = 0; i < 7; i++)
            add(s, reduce(s->ctx, (enum kn_reducer)r, types[i], shapes[(i + r) % 5]));
    add(s, softmax(s->ctx, 7, 100, false));
    add(s, softmax(s->ctx, 70, 9, true));
    add(s, softmax(s->ctx, 5, -1, false));
    add(s, softmax(s->ctx, 35, -1, true));
    add(s, layer_norm(s->ctx, TCC_F32, 4, 77));
    add(s, layer_norm(s->ctx, TCC_BF16, 3, 64));
    add(s, layer_norm(s->ctx, TCC_F16, 3, 50));
    for (int i = 0; i < 8; i++)
        add(s, argmax(s->ctx, i & 4 ? TCC_I32 : TCC_F32, i & 1 ? KN_MAX : KN_MIN, 21, 50, i & 2, i & 4));
    for (int i = 0; i < 4; i++)
        add(s, cumsum(s->ctx, i == 3 ? TCC_I32 : TCC_F32, 19, 23, i & 1, i & 2));
    for (int i = 0; i < 8; i++) /* a warp's, a block's on devices; in order where each sum is rounded */
        add(s, cumsum(s->ctx, (enum tcc_dtype[]){TCC_F32, TCC_I64, TCC_U8, TCC_BF16}[i / 2], 3, i & 1 ? 1300 : 77,
                      false, i / 4));
}

static void make_indirect(struct set *s)
{
    static const enum tcc_dtype types[] = {TCC_F32, TCC_I8, TCC_F64, TCC_BF16, TCC_I64, TCC_BOOL};
    for (int i = 0; i < 6; i++) {
        add(s, gather(s->ctx, types[i], 11, 5, 50, false));
        add(s, gather(s->ctx, types[i], 45, 5, 4, true));
        add(s, concat(s->ctx, types[i], 4, 30, 21, false));
        add(s, concat(s->ctx, types[i], 40, 3, 5, true));
    }
}

/* Of every type; of no, one and several elements, up to powers of two and beyond, by a warp, a block, and in
 * scratch. */
static void make_sorts(struct set *s)
{
    static const int64_t lengths[] = {0, 1, 2, 31, 64, 65, 300, -1};
    for (int i = 0; i < NNUMERIC; i++)
        add(s, sort(s->ctx, numeric[i], i & 1 ? KN_MAX : KN_MIN, 3, 50));
    for (int i = 0; i < 16; i++)
        add(s, sort(s->ctx, i < 8 ? TCC_F32 : TCC_I64, i & 1 ? KN_MAX : KN_MIN, 2, lengths[i % 8]));
    add(s, sort(s->ctx, TCC_F64, KN_MAX, 1, 4100));
}

static void make_casts(struct set *s)
{
    for (int i = 0; i < NNUMERIC; i++)
        for (int j = 0; j < 6; j++) {
            enum tcc_dtype from = numeric[i], to = numeric[(i + 1 + j * 3) % NNUMERIC];
            if (s->n < MAX_KERNELS)
                add(s, cast(s->ctx, to, from, 203));
        }
    add(s, cast(s->ctx, TCC_BOOL, TCC_F32, 50));
    add(s, cast(s->ctx, TCC_F32, TCC_BOOL, 50));
}

static void (*const makers[])(struct set *) = {make_maps, make_reductions, make_indirect, make_casts, make_sorts};
#define NMAKERS 5

START_TEST(agree)
{
    int maker = _i % NMAKERS, arch = _i / NMAKERS % NARCHES;
    bool vector = _i / NMAKERS / NARCHES;
    static const int64_t sizes[] = {131};
    struct ir_ctx *ctx = ir_ctx_new();
    if (hk_cpu_runs(ctx, arches[arch])) {
        struct set compiled = {.ctx = ctx}, original = {.ctx = ctx};
        struct hk_loaded loaded;
        makers[maker](&original);
        makers[maker](&compiled);
        for (int i = 0; i < original.n; i++)
            ck_assert_msg(kn_verify_kernel(ctx, original.at[i]), "%s does not verify", original.at[i]->name);
        hk_load_kernels(ctx, &loaded, compiled.n, compiled.at, arches[arch], vector ? 2 : 0, vector);
        for (int i = 0; i < original.n; i++) {
            state = (uint64_t)i;
            check_kernel(original.at[i], compiled.at[i], loaded.fn[i], sizes, arches[arch]);
        }
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

/* -- PTX in the simulator ------------------------------------------------------------------------------ */

/* The image of all kernels, scheduled by the machine. */
static const struct tcc_pimage *image_of(struct ir_ctx *ctx, struct set *s, const char *arch)
{
    char folder[] = "/tmp/tccc-kernels-XXXXXX";
    struct target_code code = {0};
    struct target_options o = {
        .arch = arch, .level = 2, .jobs = 1, .dump = getenv("KERNELS_DUMP") ? "ptx" : NULL, .dump_to = stderr};
    struct kn_program p = {.nkernels = s->n, .kernels = s->at};
    const struct pass_machine *m = target_cuda.machine(ctx, arch);
    for (int i = 0; i < s->n; i++) {
        m->schedule(m, ctx, s->at[i]);
        ck_assert_msg(m->verify_schedule(m, ctx, s->at[i]), "%s", ir_message(ctx, 0)->text);
        ck_assert_msg(!target_cuda.refuses(ctx, s->at[i]), "%s is refused", s->at[i]->name);
    }
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(target_cuda.compile(ctx, &p, &o, "p", folder, &code), "%s", ir_message(ctx, 0)->text);
    ck_assert_int_eq(code.nimages, 1);
    rmdir(folder);
    return (const struct tcc_pimage *)code.images[0].bytes;
}

static void check_ptx(struct prove *p, int kernel, const struct kn_kernel *original, const struct kn_kernel *k,
                      const int64_t *sizes)
{
    struct buffers want, got;
    size_t bytes[HK_MAX];
    enum kn_operand_use uses[HK_MAX];
    uint64_t seed = state;
    char error[PROVE_TEXT] = "";
    int packed = 0;
    allocate(&want, original, sizes);
    state = seed;
    allocate(&got, original, sizes);
    ck_assert_int_eq(kn_interp_kernel(original, want.packed, sizes, NULL), 0);
    for (int i = 0; i < original->noperands; i++) {
        bytes[packed] = got.bytes[i];
        uses[packed] = original->operands[i].use;
        packed += uses[packed] != KN_LOCAL;
    }
    struct prove_launch l = {.kernel = kernel,
                             .nargs = packed,
                             .nsizes = k->nsizes,
                             .args = got.packed,
                             .bytes = bytes,
                             .uses = uses,
                             .sizes = sizes,
                             .tiles = hk_value(k, k->tiles, sizes)};
    ck_assert_msg(prove_run(p, &l, error), "%s: %s", original->name, error);
    ck_assert_int_eq(l.env.fault, 0);
    for (int i = 0; i < original->noperands; i++)
        if (original->operands[i].use == KN_OUT || original->operands[i].use == KN_INOUT)
            compare(original, i, want.at[i], got.at[i], want.n[i], "PTX");
    release(&want, original);
    release(&got, original);
}

START_TEST(simulated)
{
    static const int64_t sizes[] = {131};
    struct ir_ctx *ctx = ir_ctx_new();
    struct set compiled = {.ctx = ctx}, original = {.ctx = ctx};
    char error[PROVE_TEXT] = "";
    struct prove p;
    makers[_i](&original);
    makers[_i](&compiled);
    const struct tcc_pimage *image = image_of(ctx, &compiled, _i & 1 ? "sm_90" : "sm_80");
    ck_assert_msg(prove_open(&p, image, (uint64_t)_i, error), "%s", error);
    for (int i = 0; i < original.n; i++) {
        state = (uint64_t)i;
        check_ptx(&p, i, original.at[i], compiled.at[i], sizes);
    }
    prove_close(&p);
    ir_ctx_free(ctx);
}
END_TEST

/* A device function that adds where it should subtract is found; as it was, it is right. Of a larger kernel a sample
 * shows it. */
START_TEST(sabotage)
{
    static const char *const wrong[][2] = {{"sub.rn.f32", "add.rn.f32"}, {"sub.rn.f32", "sub.rn.f32"}};
    for (int i = 0; i < 4; i++) {
        int w = i % 2, large = i / 2;
        struct ir_ctx *ctx = ir_ctx_new();
        struct set s = {.ctx = ctx};
        char error[PROVE_TEXT] = "";
        const char *skipped;
        struct prove p;
        add(&s, broadcast(ctx, TCC_F32, large ? 3000 : 3, 40, IR_sub));
        char *image = (char *)image_of(ctx, &s, "sm_80");
        const struct tcc_pimage *head = (const struct tcc_pimage *)image;
        char *at = strstr(image + head->code.first, wrong[w][0]);
        ck_assert_ptr_nonnull(at);
        for (; at; at = strstr(at + 1, wrong[w][0]))
            memcpy(at, wrong[w][1], strlen(wrong[w][1]));
        ck_assert_msg(prove_open(&p, head, 1, error), "%s", error);
        p.most = large ? 200 : PROVE_MOST;
        ck_assert_int_eq(prove_kernel(&p, 0, s.at[0], NULL, 1, &skipped, error), w);
        ck_assert_msg(!skipped && (w || strstr(error, "expected")), "%s", error);
        ck_assert(large ? p.sample.share > 1 : !p.sample.share);
        if (large && w) { /* about a 16th of what these blocks write */
            int64_t least = p.sample.results / p.sample.share / 100;
            ck_assert_msg(p.sample.compared > least && p.sample.compared < p.sample.results / 4, "%lld of %lld",
                          (long long)p.sample.compared, (long long)p.sample.results);
        }
        prove_close(&p);
        ir_ctx_free(ctx);
    }
}
END_TEST

/* What a launch of kernel i costs, on operands of zeros. */
static struct ptx_counters counters_of(struct prove *p, int i, const struct kn_kernel *k)
{
    struct buffers b;
    size_t bytes[HK_MAX];
    enum kn_operand_use uses[HK_MAX];
    char error[PROVE_TEXT] = "";
    int n = 0;
    allocate(&b, k, NULL);
    for (int j = 0; j < k->noperands; j++) {
        bytes[n] = b.bytes[j];
        uses[n] = k->operands[j].use;
        n += uses[n] != KN_LOCAL;
    }
    struct prove_launch l = {
        .kernel = i, .nargs = n, .args = b.packed, .bytes = bytes, .uses = uses, .tiles = hk_value(k, k->tiles, NULL)};
    ck_assert_msg(prove_run(p, &l, error), "%s: %s", k->name, error);
    release(&b, k);
    return l.counters;
}

/* Sums of the rows of x[rows, columns], or of its columns, in pieces. */
static struct kn_kernel *sum_in_pieces(struct ir_ctx *ctx, int64_t rows, int64_t columns, bool of_rows, int64_t pieces)
{
    struct hk b;
    hk_init(&b, ctx, of_rows ? "row_sums_in_pieces" : "column_sums_in_pieces");
    ir_expr o = hk_outer(&b, ir_const(ctx, of_rows ? rows : columns)),
            i = hk_inner(&b, ir_const(ctx, of_rows ? columns : rows)), at[2] = {of_rows ? o : i, of_rows ? i : o},
            dims[2] = {ir_const(ctx, rows), ir_const(ctx, columns)};
    int x = hk_operand(&b, KN_IN, TCC_F32, 2, dims),
        y = hk_operand(&b, KN_OUT, TCC_F32, 1, E(ir_const(ctx, of_rows ? rows : columns)));
    hk_stage(&b, 2);
    int sum = hk_reduce(&b, KN_REDUCE, KN_SUM, TCC_F32, hk_load(&b, x, at), -1, 0);
    hk_stage(&b, 0);
    hk_store(&b, y, E(o), sum);
    struct kn_kernel *k = hk_finish(&b);
    k->kind = IR_K_REDUCE;
    return pass_split_kernel(ctx, k, 1, pieces);
}

/* Elementwise kernels and rows of reductions touch no more sectors than their bytes need, and shared memory without
 * conflicts; elementwise ones by accesses of 16 bytes. */
START_TEST(counted)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct set s = {.ctx = ctx};
    char error[PROVE_TEXT] = "";
    struct prove p;
    add(&s, broadcast(ctx, TCC_F32, 64, 1024, IR_add));
    add(&s, broadcast(ctx, TCC_F16, 64, 1024, IR_mul));
    int wide = s.n;
    add(&s, broadcast(ctx, TCC_U8, 64, 1024, IR_add));
    add(&s, softmax(ctx, 33, 640, false));
    add(&s, layer_norm(ctx, TCC_F32, 20, 1536));
    add(&s, transpose(ctx, TCC_F32, 96, 128, 1));
    add(&s, transpose(ctx, TCC_F64, 64, 96, 1));
    add(&s, cumsum(ctx, TCC_F32, 5, 4096, false, true));
    add(&s, sum_in_pieces(ctx, 3, 40000, true, 16));
    add(&s, sum_in_pieces(ctx, 4096, 96, false, 32));
    ck_assert_msg(prove_open(&p, image_of(ctx, &s, "sm_80"), 1, error), "%s", error);
    for (int i = 0; i < s.n; i++) {
        struct ptx_counters c = counters_of(&p, i, s.at[i]);
        ck_assert_msg(c.global_sectors * 10 <= c.ideal_sectors * 11, "%s: %lu sectors, ideally %lu", s.at[i]->name,
                      (unsigned long)c.global_sectors, (unsigned long)c.ideal_sectors);
        ck_assert_msg((c.shared_wavefronts - c.shared_ideal) * 20 <= c.shared_ideal, "%s: %lu wavefronts, ideally %lu",
                      s.at[i]->name, (unsigned long)c.shared_wavefronts, (unsigned long)c.shared_ideal);
        if (i < wide) /* three of four are wide: 16 sectors each; s's is one */
            ck_assert_msg(c.global_sectors >= 12 * c.global_requests, "%s: %lu requests for %lu sectors", s.at[i]->name,
                          (unsigned long)c.global_requests, (unsigned long)c.global_sectors);
    }
    prove_close(&p);
    ir_ctx_free(ctx);
}
END_TEST

/* A target refuses memory that it doesn't have. */
START_TEST(memory_spaces)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct set s = {.ctx = ctx};
    makers[0](&s);
    for (int space = KN_SHARED; space <= KN_SCRATCH; space++) {
        struct kn_kernel k = *s.at[0];
        k.operands = IR_NEWN(ctx, k.noperands + 1, struct kn_operand);
        for (int i = 0; i < s.at[0]->noperands; i++)
            k.operands[i] = s.at[0]->operands[i];
        k.operands[k.noperands++] = (struct kn_operand){
            .use = KN_LOCAL, .space = (enum kn_operand_space)space, .dtype = TCC_F32, .name = "row"};
        ck_assert(kn_verify_kernel(ctx, &k));
        ck_assert_int_eq(target_cpu.refuses(ctx, &k) != NULL, space != KN_SCRATCH);
        ck_assert_int_eq(target_cuda.refuses(ctx, &k) != NULL, space != KN_SCRATCH);
    }
    ir_ctx_free(ctx);
}
END_TEST

/* data[index[i], j] += updates[i, j], of as many rows as the symbol says; guarded: where the index is not 1. */
static struct kn_kernel *scatter_rows(struct ir_ctx *ctx, enum tcc_dtype d, int64_t n, int64_t columns, bool guarded)
{
    struct hk b;
    hk_init(&b, ctx, "scatter");
    ir_expr rows = hk_size(&b, "rows"), j = hk_outer(&b, C(columns)), i = hk_inner(&b, C(n));
    int idx = hk_operand(&b, KN_IN, TCC_I64, 1, E(C(n)));
    int updates = hk_operand(&b, KN_IN, d, 2, E(C(n), C(columns)));
    int data = hk_operand(&b, KN_INOUT, d, 2, E(rows, C(columns)));
    hk_stage(&b, 1u << 1);
    ir_expr g = hk_index(&b, hk_load(&b, idx, E(i)), rows);
    int old =
        guarded ? hk_load_guarded(&b, data, E(g, j), (struct kn_guard){g, C(2), rows}, -1) : hk_load(&b, data, E(g, j));
    hk_store(&b, data, E(g, j), hk_scalar(&b, IR_add, d, old, hk_load(&b, updates, E(i, j)), -1));
    return hk_finish(&b);
}

/* The same with rows of symbolic number: result[i, j] = data[index[i], j], or 7 where the guard fails or the index is
 * bad. */
static struct kn_kernel *gather_rows(struct ir_ctx *ctx, enum tcc_dtype d, int64_t n, int64_t columns, bool guarded)
{
    struct hk b;
    hk_init(&b, ctx, "gather_rows");
    ir_expr rows = hk_size(&b, "rows"), j = hk_outer(&b, C(columns)), i = hk_outer(&b, C(n));
    int idx = hk_operand(&b, KN_IN, TCC_I64, 1, E(C(n)));
    int x = hk_operand(&b, KN_IN, d, 2, E(rows, C(columns)));
    int y = hk_operand(&b, KN_OUT, d, 2, E(C(columns), C(n)));
    hk_stage(&b, 0);
    ir_expr g = hk_index(&b, hk_load(&b, idx, E(i)), rows);
    int seven = hk_const(&b, d, 7);
    hk_store(&b, y, E(j, i),
             guarded ? hk_load_guarded(&b, x, E(g, j), (struct kn_guard){g, C(0), C(3)}, seven)
                     : hk_load(&b, x, E(g, j)));
    return hk_finish(&b);
}

/* Interpreted and compiled for `arch` with these indices: the same status, and the same bits in all that is written. */
static void check_indices(const struct kn_kernel *k, tcc_kernel_fn fn, const int64_t *sizes, int n,
                          const int64_t *indices, int status)
{
    struct buffers want, got;
    uint64_t seed = state;
    allocate(&want, k, sizes);
    state = seed;
    allocate(&got, k, sizes);
    memcpy(want.at[0], indices, (size_t)n * sizeof *indices);
    memcpy(got.at[0], indices, (size_t)n * sizeof *indices);
    ck_assert_int_eq(kn_interp_kernel(k, want.packed, sizes, NULL), status);
    ck_assert_int_eq(hk_run(k, fn, got.packed, sizes, 1), status);
    for (int i = 1; i < k->noperands; i++)
        ck_assert_mem_eq(want.at[i], got.at[i], want.bytes[i]);
    release(&want, k);
    release(&got, k);
}

/* Bad indices are reported, and their accesses don't happen: not to what is outside, and not to another element, of
 * which there may be none. */
START_TEST(bad_index)
{
    static const char *const codes[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    enum { N = 40 };
    struct ir_ctx *ctx = ir_ctx_new();
    struct kn_kernel *k[8];
    int fixed = 0, nk = 0;
    for (int across = 0; across < 2; across++)
        k[nk++] = gather(ctx, across ? TCC_F16 : TCC_F32, N, 5, 8, across);
    fixed = nk;
    for (int guarded = 0; guarded < 2; guarded++) {
        k[nk++] = scatter_rows(ctx, TCC_F32, N, 8 + guarded, guarded);
        k[nk++] = gather_rows(ctx, guarded ? TCC_I8 : TCC_F64, N, 8, guarded);
    }
    for (int a = 0; a < 3; a++) {
        struct hk_loaded loaded;
        if (!hk_cpu_runs(ctx, codes[a]))
            continue;
        hk_load_kernels(ctx, &loaded, nk, k, codes[a], 2, a > 0);
        for (int i = 0; i < nk; i++) {
            for (int64_t rows = i < fixed ? 5 : 0; rows <= 5; rows += 5) {
                static const int64_t bad[] = {5, -6, INT64_MIN, INT64_MAX, 0};
                for (int x = 0; x < 5; x++) {
                    int64_t indices[N];
                    for (int j = 0; j < N; j++)
                        indices[j] = rows ? j * 3 % 10 - 5 : j;
                    indices[33] = bad[x];
                    bool fails = rows == 0 || bad[x];
                    check_indices(k[i], loaded.fn[i], &rows, N, indices, fails ? TCC_EINDEX : TCC_OK);
                }
            }
        }
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

/* Accesses that nothing proves have a guard of their own: where it fails a load gives 0, a store stores nothing. */
START_TEST(own_guards)
{
    static const char *const codes[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    static const int64_t sizes[] = {0, 1, 2, 17, 39, 40, 41, 81};
    enum { N = 40 };
    struct ir_ctx *ctx = ir_ctx_new();
    struct hk b;
    hk_init(&b, ctx, "own_guards");
    ir_expr size = hk_size(&b, "size"), i = hk_outer(&b, C(N));
    int x = hk_operand(&b, KN_IN, TCC_F32, 1, E(size)), y = hk_operand(&b, KN_OUT, TCC_F32, 1, E(size));
    hk_stage(&b, 0);
    int v = hk_load(&b, x, E(ir_sub(ctx, i, ir_mod(ctx, i, C(4)))));
    hk_store(&b, y, E(ir_sub(ctx, ir_mulc(ctx, i, 2), ir_mod(ctx, i, C(2)))), v);
    struct kn_kernel *k = hk_finish(&b);
    ck_assert(kn_require(ctx, k) && k->nrequired == 0);
    for (int n = 0; n < k->ninsns; n++)
        ck_assert(k->insns[n].answer == KN_GUARDED && k->insns[n].nguards == 1);
    for (int a = 0; a < 3; a++) {
        struct hk_loaded loaded;
        if (!hk_cpu_runs(ctx, codes[a]))
            continue;
        hk_load_kernels(ctx, &loaded, 1, &k, codes[a], 2, a > 0);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t m = sizes[s];
            float *in = hk_alloc((size_t)m * 4), *out = hk_alloc((size_t)m * 4);
            for (int64_t p = 0; p < m; p++)
                in[p] = (float)(p + 1), out[p] = -1;
            ck_assert_int_eq(hk_run(k, loaded.fn[0], (void *[]){in, out}, &m, 1), TCC_OK);
            for (int64_t p = 0, made = 0; p < m; p++) {
                int64_t from = made - made % 4;
                bool stored = made < N && p == 2 * made - made % 2;
                ck_assert(out[p] == (stored ? from < m ? (float)(from + 1) : 0 : -1));
                made += stored;
            }
            hk_free(in, (size_t)m * 4);
            hk_free(out, (size_t)m * 4);
        }
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels");
    TCase *c = tcase_create("kernels");
    tcase_set_timeout(c, 120);
    ADD_ROUNDS(c, agree, NMAKERS * NARCHES * 2);
    tcase_add_test(c, bad_index);
    tcase_add_test(c, own_guards);
    tcase_add_test(c, memory_spaces);
    suite_add_tcase(s, c);
    c = tcase_create("simulated");
    tcase_set_timeout(c, 120);
    ADD_ROUNDS(c, simulated, NMAKERS);
    tcase_add_test(c, sabotage);
    tcase_add_test(c, counted);
    suite_add_tcase(s, c);
    return run_tests(s);
}
