/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run by all ranks of an MPI job: every collective, reduction, element type, group and uneven size against a serial
 * reference. Each rank knows what every other rank has (a function of rank and index), so each computes what it must
 * get. One line a case that fails; rank 0 prints the number of checks. Exit 0: all are right on all ranks. on_device.h:
 * on GPUs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tccrt.h"
#include "tests/dist/on_device.h"

static long checks, wrong;
static struct tccrt_comm *world;

static const struct { int dtype, bytes; const char *name; } types[] = {
#define X(id, n, name, bytes, class) {TCC_##id, bytes, name},
    TCC_DTYPES(X)
#undef X
};
static const char *const how_names[] = {"sum", "avg", "min", "max", "product", "and", "or", "xor"};
static const int64_t sizes[] = {0, 1, 7, 1000, 1025, 40003};

/* -- Numbers of each type, read and written without the library ------------------------------------------------- */

static double small_float(int dtype, unsigned bits)
{
    int e, m, s = 0, bias, mbits;

    switch (dtype) {
    case TCC_F8E4M3FN: e = bits >> 3 & 15, m = bits & 7, s = bits >> 7, bias = 7, mbits = 3; break;
    case TCC_F8E4M3FNUZ: e = bits >> 3 & 15, m = bits & 7, s = bits >> 7, bias = 8, mbits = 3; break;
    case TCC_F8E5M2: e = bits >> 2 & 31, m = bits & 3, s = bits >> 7, bias = 15, mbits = 2; break;
    case TCC_F8E5M2FNUZ: e = bits >> 2 & 31, m = bits & 3, s = bits >> 7, bias = 16, mbits = 2; break;
    case TCC_F4E2M1: e = bits >> 1 & 3, m = bits & 1, s = bits >> 3 & 1, bias = 1, mbits = 1; break;
    case TCC_F16: e = bits >> 10 & 31, m = bits & 1023, s = bits >> 15, bias = 15, mbits = 10; break;
    default: return ldexp(1, (int)bits - 127); /* f8e8m0 */
    }
    double v = e ? ldexp(1 + ldexp(m, -mbits), e - bias) : ldexp(m, 1 - bias - mbits);

    return s ? -v : v;
}

static double get(int dtype, const void *data, int64_t i)
{
    uint16_t h;
    uint32_t w;
    float f;

    switch (dtype) {
    case TCC_F32: return ((const float *)data)[i];
    case TCC_F64: return ((const double *)data)[i];
    case TCC_BF16:
        memcpy(&h, (const char *)data + 2 * i, 2);
        w = (uint32_t)h << 16;
        memcpy(&f, &w, 4);
        return f;
    case TCC_F16: memcpy(&h, (const char *)data + 2 * i, 2); return small_float(dtype, h);
    case TCC_U16: return ((const uint16_t *)data)[i];
    case TCC_I16: return ((const int16_t *)data)[i];
    case TCC_I32: return ((const int32_t *)data)[i];
    case TCC_U32: return ((const uint32_t *)data)[i];
    case TCC_I64: return (double)((const int64_t *)data)[i];
    case TCC_U64: return (double)((const uint64_t *)data)[i];
    case TCC_I8:
    case TCC_I4:
    case TCC_I2: return ((const int8_t *)data)[i];
    case TCC_U8:
    case TCC_U4:
    case TCC_U2:
    case TCC_BOOL: return ((const uint8_t *)data)[i];
    default: return small_float(dtype, ((const uint8_t *)data)[i]);
    }
}

/* How many bits of mantissa and which exponents a float type has: for the distance that rounding may make. */
static double unit_of(int dtype, double v)
{
    static const struct { int dtype, bits, least;
    } table[] = {{TCC_F32, 23, -126},  {TCC_F64, 52, -1022},     {TCC_BF16, 7, -126},
                 {TCC_F16, 10, -14},   {TCC_F8E4M3FN, 3, -6},    {TCC_F8E4M3FNUZ, 3, -7},
                 {TCC_F8E5M2, 2, -14}, {TCC_F8E5M2FNUZ, 2, -15}, {TCC_F4E2M1, 1, 0}};
    int e;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].dtype == dtype) {
            frexp(v, &e);
            return ldexp(1, (e - 1 > table[i].least ? e - 1 : table[i].least) - table[i].bits);
        }
    return 0;
}

static int integer_bits(int dtype)
{
    switch (dtype) {
    case TCC_I2: case TCC_U2: return 2;
    case TCC_I4: case TCC_U4: return 4;
    case TCC_I8: case TCC_U8: return 8;
    case TCC_I16: case TCC_U16: return 16;
    case TCC_I32: case TCC_U32: return 32;
    case TCC_I64: case TCC_U64: return 64;
    default: return 0;
    }
}

static int is_signed(int dtype)
{
    return dtype == TCC_I2 || dtype == TCC_I4 || dtype == TCC_I8 || dtype == TCC_I16 || dtype == TCC_I32 ||
           dtype == TCC_I64;
}

/* What rank `rank` has at element i: random bytes, made a value of the type. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void fill(int t, int rank, int64_t n, void *data)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = mix((uint64_t)rank * 1000003 + (uint64_t)i * 7 + (uint64_t)t);
        float f = (float)((int)(r % 2001) - 1000) / 256 + 0.5f;
        double d = (double)((int)(r % 2000001) - 1000000) / 65536;
        uint32_t w;
        uint8_t b = (uint8_t)r;
        uint16_t h;

        switch (types[t].dtype) {
        case TCC_F32: memcpy((char *)data + 4 * i, &f, 4); break;
        case TCC_F64: memcpy((char *)data + 8 * i, &d, 8); break;
        case TCC_C64: memcpy((char *)data + 8 * i, (float[2]){f, f / 2 - 1}, 8); break;
        case TCC_C128: memcpy((char *)data + 16 * i, (double[2]){d / 16, d / 32 - 1}, 16); break;
        case TCC_BF16:
            memcpy(&w, &f, 4);
            h = (uint16_t)(w >> 16);
            memcpy((char *)data + 2 * i, &h, 2);
            break;
        case TCC_F16: h = (uint16_t)((r & 0x83ff) | (12 + r % 5) << 10); memcpy((char *)data + 2 * i, &h, 2); break;
        case TCC_BOOL: ((uint8_t *)data)[i] = b % 3 == 0; break;
        case TCC_F8E4M3FN:
        case TCC_F8E4M3FNUZ: ((uint8_t *)data)[i] = (uint8_t)((b & 0x87) | (4 + b % 3) << 3); break;
        case TCC_F8E5M2:
        case TCC_F8E5M2FNUZ: ((uint8_t *)data)[i] = (uint8_t)((b & 0x83) | (13 + b % 3) << 2); break;
        case TCC_F4E2M1: ((uint8_t *)data)[i] = b & 15; break;
        case TCC_F8E8M0: ((uint8_t *)data)[i] = (uint8_t)(100 + b % 50); break;
        case TCC_I4: ((int8_t *)data)[i] = (int8_t)(b % 16 - 8); break;
        case TCC_I2: ((int8_t *)data)[i] = (int8_t)(b % 4 - 2); break;
        case TCC_U4: ((uint8_t *)data)[i] = b % 16; break;
        case TCC_U2: ((uint8_t *)data)[i] = b % 4; break;
        default: memcpy((char *)data + types[t].bytes * i, &r, (size_t)types[t].bytes);
        }
    }
}

/* -- The serial reference ------------------------------------------------------------------------------------------ */

static int64_t get_int(int dtype, const void *data, int64_t i)
{
    return dtype == TCC_I64 || dtype == TCC_U64 ? ((const int64_t *)data)[i] : (int64_t)get(dtype, data, i);
}

static int right_int(int dtype, int how, int size, void **all, int64_t i, const void *got)
{
    int bits = integer_bits(dtype);
    uint64_t v = (uint64_t)get_int(dtype, all[0], i), mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;

    for (int k = 1; k < size; k++) {
        uint64_t x = (uint64_t)get_int(dtype, all[k], i);
        int less = is_signed(dtype) ? (int64_t)x < (int64_t)v : x < v;

        v = how == TCCRT_MIN       ? (less ? x : v)
            : how == TCCRT_MAX     ? (less ? v : x)
            : how == TCCRT_PRODUCT ? v * x
            : how == TCCRT_AND     ? v & x
            : how == TCCRT_OR      ? v | x
            : how == TCCRT_XOR     ? v ^ x
                                   : v + x;
    }
    if (how == TCCRT_AVG)
        v = is_signed(dtype) ? (uint64_t)((int64_t)v / size) : v / (uint64_t)size;
    return (v & mask) == ((uint64_t)get_int(dtype, got, i) & mask);
}

/* Sums of narrow floats: within half a unit of the exact result in the type, plus what float32 additions may lose. */
static int right_float(int dtype, int how, double scale, int size, void **all, int64_t i, const void *got)
{
    double v = get(dtype, all[0], i), most = fabs(v), have = get(dtype, got, i), slack;

    for (int k = 1; k < size; k++) {
        double x = get(dtype, all[k], i);

        v = how == TCCRT_MIN       ? (x < v ? x : v)
            : how == TCCRT_MAX     ? (x > v ? x : v)
            : how == TCCRT_PRODUCT ? v * x
                                   : v + x;
        most = how == TCCRT_PRODUCT ? fabs(v) : most + fabs(x);
    }
    v *= scale;
    v /= how == TCCRT_AVG ? size : 1;
    if (how == TCCRT_MIN || how == TCCRT_MAX)
        return scale == 1 ? have == v : fabs(have - v) <= unit_of(dtype, v);
    slack = size * most * (dtype == TCC_F64 ? 0x1p-52 : 0x1p-23);
    if (on_device && !on_exact && (dtype == TCC_F16 || dtype == TCC_BF16)) /* rounded at each hop, and means before */
        slack += size * unit_of(dtype, most);
    if (dtype == TCC_F4E2M1 && fabs(v) > 6)
        v = v < 0 ? -6 : 6;
    return fabs(have - v) <= 0.5001 * unit_of(dtype, v) * (dtype == TCC_F32 || dtype == TCC_F64 ? 2 : 1) + slack;
}

static int right_complex(int dtype, int how, double scale, int size, void **all, int64_t i, const void *got)
{
    double re = 0, im = 0, most = 1, have[2];

    for (int k = 0; k < size; k++) {
        double x[2];

        for (int h = 0; h < 2; h++)
            x[h] = dtype == TCC_C128 ? ((double *)all[k])[2 * i + h] : ((float *)all[k])[2 * i + h];
        if (how == TCCRT_PRODUCT && k) {
            double r = re * x[0] - im * x[1];

            im = re * x[1] + im * x[0];
            re = r;
        } else {
            re += x[0];
            im += x[1];
        }
        most = fmax(most, fabs(re) + fabs(im)) * (how == TCCRT_PRODUCT ? 2 : 1);
    }
    scale /= how == TCCRT_AVG ? size : 1;
    for (int h = 0; h < 2; h++)
        have[h] = dtype == TCC_C128 ? ((double *)got)[2 * i + h] : ((float *)got)[2 * i + h];
    return fabs(have[0] - re * scale) + fabs(have[1] - im * scale) <= most * size * (dtype == TCC_C128 ? 1e-14 : 1e-5);
}

static int right(int t, int how, double scale, int size, void **all, int64_t i, const void *got, int64_t at)
{
    int dtype = types[t].dtype, any = 0, every = 1, odd = 0;
    const char *g = (const char *)got + types[t].bytes * (at - i);

    if (dtype == TCC_BOOL) {
        for (int k = 0; k < size; k++) {
            any |= ((uint8_t *)all[k])[i];
            every &= ((uint8_t *)all[k])[i];
            odd ^= ((uint8_t *)all[k])[i];
        }
        return ((const uint8_t *)g)[i] == (how == TCCRT_XOR                                          ? odd
                                           : how == TCCRT_SUM || how == TCCRT_MAX || how == TCCRT_OR ? any
                                                                                                     : every);
    }
    if (integer_bits(dtype))
        return right_int(dtype, how, size, all, i, g);
    return (dtype == TCC_C64 || dtype == TCC_C128 ? right_complex : right_float)(dtype, how, scale, size, all, i, g);
}

/* -- Cases --------------------------------------------------------------------------------------------------------- */

static void check(int good, const char *what, int t, int how, int64_t n, struct tccrt_comm *c)
{
    checks++;
    if (good)
        return;
    wrong++;
    if (wrong < 10)
        printf("rank %d: wrong: %s of %lld %s, %s, rank %d of %d: %s\n", tccrt_comm_rank(world), what, (long long)n,
               types[t].name, how < 0 ? "" : how_names[how], tccrt_comm_rank(c), tccrt_comm_size(c), tccrt_error());
}

static struct tcc_tensor tensor(int t, void *data, int64_t n)
{
    return (struct tcc_tensor){data, types[t].dtype, 1, {n}};
}

static int possible(int dtype, int how)
{
    if (dtype == TCC_STRING || (dtype == TCC_BOOL && how == TCCRT_AVG))
        return 0;
    if (how >= TCCRT_AND)
        return integer_bits(dtype) || dtype == TCC_BOOL;
    if (dtype == TCC_F8E8M0)
        return how == TCCRT_MIN || how == TCCRT_MAX;
    return (dtype != TCC_C64 && dtype != TCC_C128) || (how != TCCRT_MIN && how != TCCRT_MAX);
}

static int can_scale(int dtype)
{
    return !integer_bits(dtype) && dtype != TCC_BOOL && dtype != TCC_F8E8M0;
}

static void **everybody(struct tccrt_comm *c, int t, int64_t n)
{
    int size = tccrt_comm_size(c);
    void **all = calloc((size_t)size, sizeof *all);

    for (int k = 0; k < size; k++) {
        all[k] = malloc((size_t)(n * types[t].bytes) + 16);
        fill(t, tccrt_comm_world_rank(c, k), n, all[k]);
    }
    return all;
}

static void release(struct tccrt_comm *c, void **all)
{
    for (int k = 0; k < tccrt_comm_size(c); k++)
        free(all[k]);
    free(all);
}

static void reductions(struct tccrt_comm *c, int t, int how, int64_t n)
{
    int size = tccrt_comm_size(c), me = tccrt_comm_rank(c), bytes = types[t].bytes, root = size - 1, good = 1;
    double scale = can_scale(types[t].dtype) && n % 2 ? 0.5 : 1;
    void **all = everybody(c, t, n);
    char *out = malloc((size_t)(n * bytes) + 16), *mine = malloc((size_t)(n * bytes) + 16);
    struct tcc_tensor in = tensor(t, mine, n), o = tensor(t, out, n);
    int64_t *counts = calloc((size_t)size, sizeof *counts), first = 0;

    memcpy(mine, all[me], (size_t)(n * bytes));
    good = !tccrt_comm_all_reduce(c, how, scale, 1, &in, &o, NULL);
    for (int64_t i = 0; i < n && good; i++)
        good = right(t, how, scale, size, all, i, out, i);
    check(good && !memcmp(mine, all[me], (size_t)(n * bytes)), "all_reduce", t, how, n, c);

    good = !tccrt_comm_all_reduce(c, how, scale, 1, &in, &in, NULL) && !memcmp(mine, out, (size_t)(n * bytes));
    check(good, "all_reduce in place", t, how, n, c);
    memcpy(mine, all[me], (size_t)(n * bytes));

    memset(out, 77, (size_t)(n * bytes));
    good = !tccrt_comm_reduce(c, how, scale, root, 1, &in, &o, NULL);
    for (int64_t i = 0; i < n && good; i++)
        good = me == root ? right(t, how, scale, size, all, i, out, i) : out[i] == 77;
    check(good, "reduce", t, how, n, c);

    for (int k = 0; k < size; k++) /* uneven: the first rank gets nothing, the last the rest */
        counts[k] = k == size - 1 ? n : k * n / (2 * size) < n ? k * n / (2 * size) : 0, n -= counts[k];
    n = in.dims[0];
    for (int k = 0; k < me; k++)
        first += counts[k];
    o.dims[0] = counts[me];
    good = !tccrt_comm_reduce_scatter(c, how, scale, &in, &o, counts, NULL);
    for (int64_t i = 0; i < counts[me] && good; i++)
        good = right(t, how, scale, size, all, first + i, out, i);
    check(good, "reduce_scatter", t, how, n, c);
    free(out);
    free(mine);
    free(counts);
    release(c, all);
}

/* A list of tensors of several types and sizes, with a request. */
static void lists(struct tccrt_comm *c)
{
    enum { N = 10 };
    static const int dtypes[N] = {TCC_F32,  TCC_F32, TCC_F32, TCC_F32, TCC_BF16,
                                  TCC_BF16, TCC_F64, TCC_F32, TCC_F16, TCC_F16};
    /* 3 and 5000 lie in ranges of the long one */
    static const int64_t n[N] = {3, 300001, 0, 5000, 5, 70000, 11, 1, 100, 99};
    struct tcc_tensor in[N], out[N];
    struct tccrt_request *r = NULL;
    void **all[N];
    int t[N], good, size = tccrt_comm_size(c);
    bool done;

    for (int i = 0; i < N; i++) {
        for (t[i] = 0; types[t[i]].dtype != dtypes[i]; t[i]++)
            ;
        all[i] = everybody(c, t[i], n[i]);
        in[i] = tensor(t[i], all[i][tccrt_comm_rank(c)], n[i]);
        out[i] = tensor(t[i], malloc((size_t)(n[i] * types[t[i]].bytes) + 16), n[i]);
    }
    good = !tccrt_comm_all_reduce(c, TCCRT_SUM, 1.0 / size, N, in, out, &r);
    while (good && !tccrt_comm_test(r, &done) && !done)
        ;
    good = good && !tccrt_comm_wait(r);
    for (int k = 0; k < N; k++)
        for (int64_t i = 0; i < n[k] && good; i++)
            good = right(t[k], TCCRT_SUM, 1.0 / size, size, all[k], i, out[k].data, i);
    check(good, "all_reduce of a list", t[0], TCCRT_SUM, n[1], c);
    for (int i = 0; i < N; i++)
        memset(out[i].data, tccrt_comm_rank(c), (size_t)(n[i] * types[t[i]].bytes));
    good = !tccrt_comm_broadcast(c, size - 1, N, out, NULL);
    for (int k = 0; k < N; k++)
        for (int64_t i = 0; i < n[k] * types[t[k]].bytes && good; i++)
            good = ((char *)out[k].data)[i] == size - 1;
    check(good, "broadcast of a list", t[0], -1, n[1], c);
    for (int i = 0; i < N; i++) {
        release(c, all[i]);
        free(out[i].data);
    }
}

static void moves(struct tccrt_comm *c, int t, int64_t n)
{
    int size = tccrt_comm_size(c), me = tccrt_comm_rank(c), bytes = types[t].bytes, good = 1;
    void **all = everybody(c, t, n);
    int64_t *counts = calloc((size_t)size, sizeof *counts), *from = calloc((size_t)size, sizeof *from), total = 0,
            gone = 0;
    char *out = malloc((size_t)(n * bytes * size) + 16);
    struct tcc_tensor in = tensor(t, all[me], n), o = tensor(t, out, n);

    for (int root = 0; root < size; root++) {
        memcpy(out, all[me], (size_t)(n * bytes));
        good = !tccrt_comm_broadcast(c, root, 1, &o, NULL) && !memcmp(out, all[root], (size_t)(n * bytes));
        check(good, "broadcast", t, -1, n, c);
    }
    o.dims[0] = n * size;
    good = !tccrt_comm_all_gather(c, &in, &o, NULL, NULL);
    for (int k = 0; k < size; k++)
        good = good && !memcmp(out + k * n * bytes, all[k], (size_t)(n * bytes));
    check(good, "all_gather", t, -1, n, c);

    for (int k = 0; k < size; k++)
        total += counts[k] = n * k / size;
    in.dims[0] = counts[me];
    o.dims[0] = total;
    good = !tccrt_comm_all_gather(c, &in, &o, counts, NULL);
    for (int k = 0, at = 0; k < size; at += (int)(counts[k] * bytes), k++)
        good = good && !memcmp(out + at, all[k], (size_t)(counts[k] * bytes));
    check(good, "uneven all_gather", t, -1, n, c);

    in.dims[0] = o.dims[0] = n / size * size;
    good = !tccrt_comm_all_to_all(c, &in, NULL, &o, NULL, NULL);
    for (int k = 0; k < size; k++)
        good = good && !memcmp(out + k * (n / size) * bytes, (char *)all[k] + me * (n / size) * bytes,
                               (size_t)(n / size * bytes));
    check(good, "all_to_all", t, -1, n, c);

    /* Rank r gives rank k (r + 2 k) % 5 shares of its elements, one behind the other. */
    total = 0;
    for (int k = 0; k < size; k++) {
        counts[k] = (me + 2 * k) % 5 * (n / (5 * size));
        from[k] = (k + 2 * me) % 5 * (n / (5 * size));
        gone += counts[k];
        total += from[k];
    }
    in.dims[0] = gone;
    o.dims[0] = total;
    good = !tccrt_comm_all_to_all(c, &in, counts, &o, from, NULL);
    for (int k = 0, at = 0; k < size; at += (int)(from[k] * bytes), k++) {
        int64_t first = 0;

        for (int j = 0; j < me; j++)
            first += (k + 2 * j) % 5 * (n / (5 * size));
        good = good && !memcmp(out + at, (char *)all[k] + first * bytes, (size_t)(from[k] * bytes));
    }
    check(good, "uneven all_to_all", t, -1, n, c);
    free(out);
    free(counts);
    free(from);
    release(c, all);
}

/* A ring of messages, several under way, tags out of order. */
static void ring(struct tccrt_comm *c, int t, int64_t n)
{
    enum { M = 4 };
    int size = tccrt_comm_size(c), me = tccrt_comm_rank(c), next = (me + 1) % size, last = (me + size - 1) % size,
        good = 1;
    void **all = everybody(c, t, n);
    struct tccrt_request *send[M] = {NULL}, *recv[M] = {NULL};
    char *out = malloc((size_t)(n * types[t].bytes * M) + 16);

    if (on_device) { /* in the order of the stream: neighbours meet */
        for (int m = 0; size > 1 && m < 2 * M; m++) {
            bool sends = m % 2 == me % 2;
            struct tcc_tensor in = tensor(t, all[me], n), o = tensor(t, out + m / 2 * n * types[t].bytes, n);

            good &= !(sends ? tccrt_comm_send(c, next, 0, &in, NULL) : tccrt_comm_recv(c, last, 0, &o, NULL));
        }
    }
    for (int m = M - 1; !on_device && size > 1 && m >= 0; m--) {
        struct tcc_tensor o = tensor(t, out + m * n * types[t].bytes, n);

        good &= !tccrt_comm_recv(c, last, m, &o, &recv[m]);
    }
    for (int m = 0; !on_device && size > 1 && m < M; m++) {
        struct tcc_tensor in = tensor(t, all[me], n);

        good &= !tccrt_comm_send(c, next, m, &in, &send[m]);
    }
    for (int m = 0; size > 1 && m < M; m++) {
        good &= !tccrt_comm_wait(recv[m]) && !tccrt_comm_wait(send[m]);
        good &= !memcmp(out + m * n * types[t].bytes, all[last], (size_t)(n * types[t].bytes));
    }
    check(good, "ring", t, -1, n, c);
    free(out);
    release(c, all);
}

static void errors(struct tccrt_comm *c)
{
    float f[4] = {0};
    int64_t l[4] = {0}, counts[64] = {5};
    struct tcc_tensor a = {f, TCC_F32, 1, {4}}, b = {f, TCC_F32, 1, {3}}, i = {l, TCC_I64, 1, {4}};
    struct tcc_tensor z = {l, TCC_C64, 1, {2}}, s = {l, TCC_STRING, 1, {0}};
    int size = tccrt_comm_size(c);

    check(tccrt_comm_all_reduce(c, TCCRT_SUM, 1, 1, &a, &b, NULL) == TCC_EINPUT, "sizes that differ", 0, -1, 0, c);
    check(tccrt_comm_all_reduce(c, TCCRT_SUM, 1, 1, &a, &i, NULL) == TCC_EINPUT, "types that differ", 0, -1, 0, c);
    check(tccrt_comm_all_reduce(c, TCCRT_SUM, 0.5, 1, &i, &i, NULL) == TCC_EINPUT, "scaled integers", 0, -1, 0, c);
    check(tccrt_comm_all_reduce(c, TCCRT_MIN, 1, 1, &z, &z, NULL) == TCC_EINPUT, "min of complex", 0, -1, 0, c);
    check(tccrt_comm_all_reduce(c, TCCRT_SUM, 1, 1, &s, &s, NULL) == TCC_EINPUT, "strings", 0, -1, 0, c);
    check(tccrt_comm_all_reduce(c, 17, 1, 1, &a, &a, NULL) == TCC_EUSAGE, "unknown reduction", 0, -1, 0, c);
    check(tccrt_comm_broadcast(c, size, 1, &a, NULL) == TCC_EUSAGE, "no such root", 0, -1, 0, c);
    check(tccrt_comm_send(c, tccrt_comm_rank(c), 0, &a, NULL) == TCC_EUSAGE, "a message to itself", 0, -1, 0, c);
    check(tccrt_comm_send(c, (tccrt_comm_rank(c) + 1) % size, 8192, &a, NULL) == TCC_EUSAGE, "a large tag", 0, -1, 0,
          c);
    check(tccrt_comm_all_gather(c, &a, &a, counts, NULL) == TCC_EINPUT, "counts that don't fit", 0, -1, 0, c);
    check(tccrt_comm_group(c, 2, (int[]){0, 0}, &(struct tccrt_comm *){NULL}) == TCC_EUSAGE, "a rank twice", 0, -1, 0,
          c);
    check(tccrt_comm_group(c, 1, (int[]){size}, &(struct tccrt_comm *){NULL}) == TCC_EUSAGE, "no such rank", 0, -1, 0,
          c);
    check(tccrt_comm_agree(c, "number", "7") == TCC_OK, "agreement", 0, -1, 0, c);
    check(size == 1 || tccrt_comm_agree(c, "number", tccrt_comm_rank(c) == size - 1 ? "8" : "7") == TCC_EINPUT,
          "disagreement", 0, -1, 0, c);
}

static void all_cases(struct tccrt_comm *c, int thorough)
{
    check(!tccrt_comm_barrier(c, NULL), "barrier", 0, -1, 0, c);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            if (types[t].dtype == TCC_STRING || (!thorough && k % 2) || (on_device && k != 1 && k != 4))
                continue;
            for (int how = TCCRT_SUM; how <= TCCRT_XOR; how++)
                if (possible(types[t].dtype, how))
                    reductions(c, (int)t, how, sizes[k]);
            moves(c, (int)t, sizes[k]);
            ring(c, (int)t, sizes[k]);
        }
    }
    lists(c);
    errors(c);
}

/* The world, its halves, a group in backward order, a group of one; two groups with collectives under way at once. */
static void groups(void)
{
    int size = tccrt_comm_size(world), me = tccrt_comm_rank(world), ranks[64], n = 0;
    struct tccrt_comm *half, *back, *one;
    struct tccrt_request *r[2] = {NULL};
    float a[1000], b[1000];
    struct tcc_tensor x = {a, TCC_F32, 1, {1000}}, y = {b, TCC_F32, 1, {1000}};

    for (int i = me % 2; i < size; i += 2)
        ranks[n++] = i;
    check(!tccrt_comm_group(world, n, ranks, &half) && half, "group", 0, -1, n, world);
    for (int i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    check(!tccrt_comm_group(world, size, ranks, &back) && tccrt_comm_rank(back) == size - 1 - me, "group", 0, -1, size,
          world);
    check(!tccrt_comm_group(half, 1, (int[]){tccrt_comm_rank(half)}, &one) && tccrt_comm_size(one) == 1, "group", 0, -1,
          1, half);
    all_cases(half, 0);
    all_cases(back, 0);
    all_cases(one, 0);
    for (int i = 0; i < 1000; i++)
        a[i] = b[i] = 1;
    if (me % 2) { /* groups may be started in different orders */
        tccrt_comm_all_reduce(half, TCCRT_SUM, 1, 1, &x, &x, &r[0]);
        tccrt_comm_all_reduce(back, TCCRT_SUM, 1, 1, &y, &y, &r[1]);
    } else {
        tccrt_comm_all_reduce(back, TCCRT_SUM, 1, 1, &y, &y, &r[1]);
        tccrt_comm_all_reduce(half, TCCRT_SUM, 1, 1, &x, &x, &r[0]);
    }
    check(!tccrt_comm_wait(r[0]) && a[999] == (float)n && !tccrt_comm_wait(r[1]) && b[0] == (float)size,
          "two groups at once", 0, 0, 1000, world);
    check(!on_differ, "bits of the hosts", 0, -1, on_differ, world);
    check(tccrt_comm_finalize(world, NULL) == TCC_EUSAGE, "finalize with groups", 0, -1, 0, world);
    tccrt_comm_free(one);
    tccrt_comm_free(back);
    tccrt_comm_free(half);
}

int main(void)
{
    int64_t counted[2], total[2];
    struct tcc_tensor in = {counted, TCC_I64, 1, {2}}, out = {total, TCC_I64, 1, {2}};
    int rank, status;
    bool early = tccrt_comm_initialized();

    if (tccrt_comm_init(NULL, &world)) {
        fprintf(stderr, "%s\n", tccrt_error());
        return 3;
    }
    rank = tccrt_comm_rank(world);
    on_begin(rank);
    check(!early, "initialised before init", 0, -1, 0, world);
    check(tccrt_comm_initialized(), "initialised", 0, -1, 0, world);
    all_cases(world, 1);
    groups();
    counted[0] = checks;
    counted[1] = wrong;
    status = tccrt_comm_all_reduce(world, TCCRT_SUM, 1, 1, &in, &out, NULL);
    if (rank == 0)
        printf("%d ranks: %lld checks, %lld wrong\n", tccrt_comm_size(world), (long long)total[0], (long long)total[1]);
    if (on_device && on_contexts() != 1) {
        fprintf(stderr, "rank %d: contexts on %d devices\n", rank, on_contexts());
        status = 1;
    }
    on_leave(world);
    status = status ? status : tccrt_comm_finalize(world, NULL);
    if (!status && tccrt_comm_initialized()) {
        fprintf(stderr, "rank %d: initialised after finalize\n", rank);
        return 1;
    }
    if (status)
        fprintf(stderr, "rank %d: %s\n", rank, tccrt_error());
    return status ? 3 : total[1] != 0;
}
