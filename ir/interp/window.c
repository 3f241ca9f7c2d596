/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c - convolutions and pools over any number of spatial axes.
 *
 * A table says which input position tap t of output position p reads (-1: outside). A convolution gathers the taps of
 * some hundred output positions into a matrix and multiplies; a transposed one multiplies first and adds the products
 * to the positions that the table names.
 */
#include <math.h>
#include <string.h>

#include "ir/interp/interp_int.h"

#define POSITIONS 512

struct window {
    int rank; /* spatial */
    int64_t in[TCC_MAX_RANK], out[TCC_MAX_RANK], kernel[TCC_MAX_RANK], strides[TCC_MAX_RANK], dilations[TCC_MAX_RANK];
    int64_t before[TCC_MAX_RANK], after[TCC_MAX_RANK];
    int64_t nin, nout, taps; /* elements of the planes, of the kernel */
};

static bool optional_exprs(struct it_call *c, enum ir_attr_key key, int n, int64_t *out)
{
    memset(out, 0, (size_t)n * sizeof *out);
    return !ir_attr(c->n, key) || it_exprs(c, key, n, out);
}

/* Fills in all but the kernel's and the result's dims. */
static int window_init(struct it_call *c, struct window *w)
{
    const struct ir_tensor *x = c->in[0];
    w->rank = x->rank - 2;
    if (w->rank < 1)
        return it_fail(c, TCC_EBUG, "an operand of rank %d", x->rank);
    memcpy(w->in, x->dims + 2, (size_t)w->rank * sizeof *w->in);
    it_ints(c->n, IR_ATTR_strides, w->rank, 1, w->strides);
    it_ints(c->n, IR_ATTR_dilations, w->rank, 1, w->dilations);
    optional_exprs(c, IR_ATTR_before, w->rank, w->before);
    optional_exprs(c, IR_ATTR_after, w->rank, w->after);
    return c->status;
}

static int window_out(struct it_call *c, struct window *w)
{
    for (int i = 0; i < w->rank; i++) {
        int64_t span = w->in[i] + w->before[i] + w->after[i] - (w->kernel[i] - 1) * w->dilations[i] - 1;
        if (span < 0 || w->kernel[i] < 1)
            return it_fail(c, TCC_EINPUT, "spatial axis %d: the window is larger than the padded operand", i);
        w->out[i] = span / w->strides[i] + 1;
    }
    return TCC_OK;
}

static void window_counts(struct window *w)
{
    w->nin = it_product(w->in, 0, w->rank);
    w->nout = it_product(w->out, 0, w->rank);
    w->taps = it_product(w->kernel, 0, w->rank);
}

/* Splits number i into coordinates. */
static void coordinates(int rank, const int64_t *dims, int64_t i, int64_t *at)
{
    for (int a = rank - 1; a >= 0; a--) {
        at[a] = i % dims[a];
        i /= dims[a];
    }
}

/* The position in a plane of dims `in` that tap t of position p (of a plane of dims `out`) reads; -1: outside. With
 * `padded`, positions in the padding give 0 instead. */
static int64_t tap_position(const struct window *w, const int64_t *p, const int64_t *t, const int64_t *in, bool padded)
{
    int64_t at = 0;
    for (int a = 0; a < w->rank; a++) {
        int64_t i = p[a] * w->strides[a] + t[a] * w->dilations[a] - w->before[a];
        if (padded ? i < -w->before[a] || i >= in[a] + w->after[a] : i < 0 || i >= in[a])
            return -1;
        at = at * in[a] + i;
    }
    return padded ? 0 : at;
}

/* table[t * n + i]: what tap t of position first + i reads. */
static void fill_table(const struct window *w, const int64_t *in, const int64_t *out, int64_t first, int64_t n,
                       int64_t *table)
{
    int64_t p[TCC_MAX_RANK], t[TCC_MAX_RANK];
    for (int64_t k = 0; k < w->taps; k++) {
        coordinates(w->rank, w->kernel, k, t);
        for (int64_t i = 0; i < n; i++) {
            coordinates(w->rank, out, first + i, p);
            table[k * n + i] = tap_position(w, p, t, in, false);
        }
    }
}

/* -- Convolution ----------------------------------------------------------------------------------- */

struct conv {
    struct window w;
    bool is_float;
    int64_t groups, ic, oc; /* channels of a group */
    int64_t *table;
    void *x, *weights, *columns, *acc; /* f64, or 64-bit integers */
};

static void load(bool is_float, const struct ir_tensor *t, int64_t at, int64_t n, void *to)
{
    if (is_float)
        it_load_f64s(t, at, 1, n, to);
    else
        it_load_i64s(t, at, 1, n, to);
}

static void multiply(bool is_float, int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c)
{
    memset(c, 0, (size_t)(m * n) * 8);
    if (is_float)
        it_gemm_f64(m, n, k, a, b, c);
    else
        it_gemm_i64(m, n, k, a, b, c);
}

static int conv_init(struct it_call *c, struct conv *v)
{
    const struct ir_tensor *x = c->in[0], *wt = c->in[1];
    v->groups = ir_get_i(c->n, IR_ATTR_groups, 1);
    if (window_init(c, &v->w))
        return c->status;
    if (wt->rank != x->rank || v->groups < 1)
        return it_fail(c, TCC_EBUG, "weights of rank %d, %lld groups", wt->rank, (long long)v->groups);
    memcpy(v->w.kernel, wt->dims + 2, (size_t)v->w.rank * sizeof *v->w.kernel);
    v->is_float = it_counts_as_float(it_dtype(x));
    return TCC_OK;
}

/* `rows` accumulators of `positions` results, from element `at` of the result on, with the bias added. */
static void store_rows(struct it_call *c, const struct conv *v, int64_t at, int64_t channel, int64_t rows, int64_t step,
                       int64_t positions)
{
    const struct ir_tensor *bias = c->n->nin > 2 ? c->in[2] : NULL;
    for (int64_t r = 0; r < rows; r++) {
        double b = bias ? tcc_load_f64(it_dtype(bias), ir_tensor_at(bias, channel + r)) : 0;
        int64_t ib = bias && !v->is_float ? tcc_load_i64(it_dtype(bias), ir_tensor_at(bias, channel + r)) : 0;
        double *f = (double *)v->acc + r * positions;
        int64_t *k = (int64_t *)v->acc + r * positions;
        for (int64_t i = 0; bias && i < positions; i++) {
            if (v->is_float)
                f[i] += b;
            else
                k[i] = (int64_t)((uint64_t)k[i] + (uint64_t)ib);
        }
        if (v->is_float)
            it_store_f64s(c->out[0], at + r * step, 1, positions, f);
        else
            it_store_i64s(c->out[0], at + r * step, 1, positions, k);
    }
}

static void gather_columns(const struct conv *v, int64_t n)
{
    const uint64_t *x = v->x;
    uint64_t *to = v->columns;
    for (int64_t c = 0; c < v->ic; c++, x += v->w.nin)
        for (int64_t i = 0; i < v->w.taps * n; i++)
            *to++ = v->table[i] < 0 ? 0 : x[v->table[i]]; /* the bits of 0.0 are 0 too */
}

int interp_conv(struct it_call *c)
{
    struct conv v = {.groups = 1};
    const struct ir_tensor *x = c->in[0], *wt = c->in[1];
    int64_t dims[TCC_MAX_RANK];
    if (conv_init(c, &v) || window_out(c, &v.w))
        return c->status;
    window_counts(&v.w);
    v.ic = wt->dims[1];
    v.oc = wt->dims[0] / v.groups;
    if (x->dims[1] != v.ic * v.groups || wt->dims[0] % v.groups)
        return it_fail(c, TCC_EINPUT, "%lld channels, %lld groups, weights of %lld x %lld", (long long)x->dims[1],
                       (long long)v.groups, (long long)wt->dims[0], (long long)wt->dims[1]);
    dims[0] = x->dims[0];
    dims[1] = wt->dims[0];
    memcpy(dims + 2, v.w.out, (size_t)v.w.rank * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, x->rank, dims);
    int64_t k = v.ic * v.w.taps;
    v.table = it_scratch(c, v.w.taps * POSITIONS, 8);
    v.x = it_scratch(c, v.ic * v.w.nin, 8);
    v.weights = it_scratch(c, wt->nelems, 8);
    v.columns = it_scratch(c, k * POSITIONS, 8);
    v.acc = it_scratch(c, v.oc * POSITIONS, 8);
    if (!t || !v.table || !v.x || !v.weights || !v.columns || !v.acc)
        return c->status;
    load(v.is_float, wt, 0, wt->nelems, v.weights);
    for (int64_t i = 0; i < x->dims[0] * v.groups; i++) {
        int64_t channel = i % v.groups * v.oc;
        load(v.is_float, x, i * v.ic * v.w.nin, v.ic * v.w.nin, v.x);
        for (int64_t p = 0; p < v.w.nout; p += POSITIONS) {
            int64_t n = v.w.nout - p < POSITIONS ? v.w.nout - p : POSITIONS;
            fill_table(&v.w, v.w.in, v.w.out, p, n, v.table);
            gather_columns(&v, n);
            multiply(v.is_float, v.oc, n, k, (int64_t *)v.weights + channel * k, v.columns, v.acc);
            store_rows(c, &v, i * v.oc * v.w.nout + p, channel, v.oc, v.w.nout, n);
        }
    }
    return TCC_OK;
}

/* Adds the products (oc * taps rows of n) to the positions of the result that they belong to. */
static void scatter_columns(const struct conv *v, int64_t n)
{
    for (int64_t o = 0; o < v->oc; o++) {
        for (int64_t i = 0; i < v->w.taps * n; i++) {
            int64_t to = v->table[i];
            if (to >= 0 && v->is_float)
                ((double *)v->acc)[o * v->w.nout + to] += ((double *)v->columns)[o * v->w.taps * n + i];
            else if (to >= 0)
                ((uint64_t *)v->acc)[o * v->w.nout + to] += ((uint64_t *)v->columns)[o * v->w.taps * n + i];
        }
    }
}

/* The n columns from p on of x's rows, and the group's weights with their two outer axes swapped. */
static void take_columns(const struct conv *v, int64_t p, int64_t n, uint64_t *to)
{
    for (int64_t ch = 0; ch < v->ic; ch++)
        memcpy(to + ch * n, (uint64_t *)v->x + ch * v->w.nin + p, (size_t)n * 8);
}

static void transpose_weights(const struct conv *v, const uint64_t *from, uint64_t *to)
{
    int64_t rows = v->oc * v->w.taps;
    for (int64_t ch = 0; ch < v->ic; ch++)
        for (int64_t r = 0; r < rows; r++)
            to[r * v->ic + ch] = from[ch * rows + r];
}

int interp_conv_transpose(struct it_call *c)
{
    struct conv v = {.groups = 1};
    const struct ir_tensor *x = c->in[0], *wt = c->in[1];
    int64_t dims[TCC_MAX_RANK];
    if (conv_init(c, &v) || !it_exprs(c, IR_ATTR_shape, v.w.rank, v.w.out))
        return c->status;
    window_counts(&v.w);
    v.oc = wt->dims[1];
    v.ic = wt->dims[0] / v.groups;
    if (x->dims[1] != wt->dims[0] || wt->dims[0] % v.groups)
        return it_fail(c, TCC_EINPUT, "%lld channels, %lld groups, weights of %lld x %lld", (long long)x->dims[1],
                       (long long)v.groups, (long long)wt->dims[0], (long long)wt->dims[1]);
    dims[0] = x->dims[0];
    dims[1] = v.oc * v.groups;
    memcpy(dims + 2, v.w.out, (size_t)v.w.rank * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, x->rank, dims);
    int64_t rows = v.oc * v.w.taps;
    uint64_t *all = it_scratch(c, wt->nelems, 8), *piece = it_scratch(c, v.ic * POSITIONS, 8);
    v.table = it_scratch(c, v.w.taps * POSITIONS, 8);
    v.x = it_scratch(c, v.ic * v.w.nin, 8);
    v.weights = it_scratch(c, v.ic * rows, 8);
    v.columns = it_scratch(c, rows * POSITIONS, 8);
    v.acc = it_scratch(c, v.oc * v.w.nout, 8);
    if (!t || !all || !piece || !v.table || !v.x || !v.weights || !v.columns || !v.acc)
        return c->status;
    load(v.is_float, wt, 0, wt->nelems, all);
    for (int64_t i = 0; i < x->dims[0] * v.groups; i++) {
        load(v.is_float, x, i * v.ic * v.w.nin, v.ic * v.w.nin, v.x);
        transpose_weights(&v, all + i % v.groups * v.ic * rows, v.weights);
        memset(v.acc, 0, (size_t)(v.oc * v.w.nout) * 8);
        for (int64_t p = 0; p < v.w.nin; p += POSITIONS) {
            int64_t n = v.w.nin - p < POSITIONS ? v.w.nin - p : POSITIONS;
            fill_table(&v.w, v.w.out, v.w.in, p, n, v.table);
            take_columns(&v, p, n, piece);
            multiply(v.is_float, rows, n, v.ic, v.weights, piece, v.columns);
            scatter_columns(&v, n);
        }
        store_rows(c, &v, i * v.oc * v.w.nout, i % v.groups * v.oc, v.oc, v.w.nout, v.w.nout);
    }
    return TCC_OK;
}

/* -- Pools -------------------------------------------------------------------------------------------- */

enum pool_kind { POOL_MAX, POOL_INDEX, POOL_MEAN };
struct pool {
    struct window w;
    enum pool_kind kind;
    char mode;
    bool is_float, u64;
};

/* The larger of all taps inside; NaN wins; `at` gets the first position of it, -1 when there is none (no gradient goes
 * there). */
static void pool_max(const struct pool *p, const struct ir_tensor *x, int64_t plane, const int64_t *taps,
                     int64_t stride, int64_t *at)
{
    enum tcc_dtype d = it_dtype(x);
    double fbest = 0;
    int64_t ibest = 0;
    *at = -1;
    for (int64_t k = 0; k < p->w.taps; k++) {
        int64_t i = taps[k * stride];
        if (i < 0)
            continue;
        const void *e = ir_tensor_at(x, plane + i);
        if (p->is_float) {
            double v = tcc_load_f64(d, e);
            if (*at < 0 || (fbest == fbest && (v > fbest || v != v)))
                fbest = v, *at = i;
        } else {
            int64_t v = tcc_load_i64(d, e);
            if (*at < 0 || (p->u64 ? (uint64_t)v > (uint64_t)ibest : v > ibest))
                ibest = v, *at = i;
        }
    }
}

static void pool_mean(const struct pool *p, const struct ir_tensor *x, int64_t plane, const int64_t *taps,
                      int64_t stride, int64_t padded, void *to, enum tcc_dtype d)
{
    double f = 0;
    int64_t s = 0, inside = 0;
    for (int64_t k = 0; k < p->w.taps; k++) {
        int64_t i = taps[k * stride];
        if (i < 0)
            continue;
        inside++;
        if (p->is_float)
            f += tcc_load_f64(it_dtype(x), ir_tensor_at(x, plane + i));
        else
            s += tcc_load_i64(it_dtype(x), ir_tensor_at(x, plane + i));
    }
    int64_t count = p->mode == 's' ? 1 : p->mode == 'f' ? padded : inside;
    if (p->is_float)
        tcc_store_f64(d, to, f / (double)count);
    else
        tcc_store_i64(d, to, count ? s / count : 0);
}

/* How many taps of each position lie inside x or its padding. */
static void count_padded(const struct window *w, int64_t first, int64_t n, int64_t *counts)
{
    int64_t p[TCC_MAX_RANK], t[TCC_MAX_RANK];
    for (int64_t i = 0; i < n; i++) {
        counts[i] = 0;
        coordinates(w->rank, w->out, first + i, p);
        for (int64_t k = 0; k < w->taps; k++) {
            coordinates(w->rank, w->kernel, k, t);
            counts[i] += tap_position(w, p, t, w->in, true) == 0;
        }
    }
}

static void store_max(const struct pool *p, const struct ir_tensor *x, int64_t plane, int64_t best, struct ir_tensor *t,
                      int64_t o)
{
    void *to = (void *)ir_tensor_at(t, o);
    if (p->kind == POOL_INDEX)
        tcc_store_i64(TCC_I64, to, best);
    else if (best >= 0)
        memcpy(to, ir_tensor_at(x, plane + best), (size_t)tcc_dtype_bytes(it_dtype(t)));
    else if (p->is_float)
        tcc_store_f64(it_dtype(t), to, -INFINITY);
    else
        tcc_store_f64(it_dtype(t), to, tcc_is_signed(it_dtype(t)) ? -0x1p63 : 0);
}

static int pool(struct it_call *c, enum pool_kind kind)
{
    const struct ir_tensor *x = c->in[0];
    struct pool p = {.kind = kind, .mode = ir_get_s(c->n, IR_ATTR_mode, "valid")[0]};
    int64_t dims[TCC_MAX_RANK];
    if (window_init(c, &p.w))
        return c->status;
    it_ints(c->n, IR_ATTR_kernel, p.w.rank, 1, p.w.kernel);
    if (window_out(c, &p.w))
        return c->status;
    window_counts(&p.w);
    p.is_float = it_counts_as_float(it_dtype(x));
    p.u64 = it_dtype(x) == TCC_U64;
    memcpy(dims, x->dims, 2 * sizeof *dims);
    memcpy(dims + 2, p.w.out, (size_t)p.w.rank * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, x->rank, dims);
    int64_t *table = it_scratch(c, p.w.taps * POSITIONS, 8), *padded = it_scratch(c, POSITIONS, 8);
    if (!t || !table || !padded)
        return c->status;
    for (int64_t first = 0; first < p.w.nout; first += POSITIONS) {
        int64_t n = p.w.nout - first < POSITIONS ? p.w.nout - first : POSITIONS, best;
        fill_table(&p.w, p.w.in, p.w.out, first, n, table);
        count_padded(&p.w, first, n, padded);
        for (int64_t plane = 0; plane < x->dims[0] * x->dims[1]; plane++) {
            for (int64_t i = 0; i < n; i++) {
                int64_t o = plane * p.w.nout + first + i;
                if (kind == POOL_MEAN) {
                    pool_mean(&p, x, plane * p.w.nin, table + i, n, padded[i], (void *)ir_tensor_at(t, o), it_dtype(t));
                    continue;
                }
                pool_max(&p, x, plane * p.w.nin, table + i, n, &best);
                store_max(&p, x, plane * p.w.nin, best, t, o);
            }
        }
    }
    return TCC_OK;
}

int interp_max_pool(struct it_call *c)
{
    return pool(c, POOL_MAX);
}

int interp_max_pool_index(struct it_call *c)
{
    return pool(c, POOL_INDEX);
}

int interp_avg_pool(struct it_call *c)
{
    return pool(c, POOL_MEAN);
}

/* -- Gradients ---------------------------------------------------------------------------------------- */

/* dw[o, c, t] = sum over n and positions p of dy[n, o, p] x[n, c, what tap t of p reads], in one group's rows. */
static void weight_row(const struct window *w, const struct ir_tensor *x, int64_t plane, const struct ir_tensor *dy,
                       int64_t row, const int64_t *table, double *acc)
{
    for (int64_t k = 0; k < w->taps; k++) {
        for (int64_t p = 0; p < w->nout; p++) {
            int64_t i = table[k * w->nout + p];
            if (i >= 0)
                acc[k] += tcc_load_f64(it_dtype(dy), ir_tensor_at(dy, row * w->nout + p)) *
                          tcc_load_f64(it_dtype(x), ir_tensor_at(x, plane * w->nin + i));
        }
    }
}

int interp_conv_grad_weight(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *dy = c->in[1];
    struct window w;
    int64_t dims[TCC_MAX_RANK], groups = ir_get_i(c->n, IR_ATTR_groups, 1);
    if (window_init(c, &w) || !it_exprs(c, IR_ATTR_shape, w.rank, w.kernel))
        return c->status;
    if (dy->rank != x->rank || dy->dims[0] != x->dims[0] || x->dims[1] % groups || dy->dims[1] % groups)
        return it_fail(c, TCC_EINPUT, "%lld channels and %lld results in %lld groups", (long long)x->dims[1],
                       (long long)dy->dims[1], (long long)groups);
    memcpy(w.out, dy->dims + 2, (size_t)w.rank * sizeof *w.out);
    window_counts(&w);
    int64_t per_in = x->dims[1] / groups, per_out = dy->dims[1] / groups;
    dims[0] = dy->dims[1];
    dims[1] = per_in;
    memcpy(dims + 2, w.kernel, (size_t)w.rank * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, x->rank, dims);
    int64_t *table = it_scratch(c, w.taps * w.nout, 8);
    double *acc = it_scratch(c, w.taps, 8);
    if (!t || !table || !acc)
        return c->status;
    fill_table(&w, w.in, w.out, 0, w.nout, table);
    for (int64_t o = 0; o < dims[0]; o++) {
        for (int64_t ch = 0; ch < per_in; ch++) {
            memset(acc, 0, (size_t)w.taps * 8);
            for (int64_t n = 0; n < x->dims[0]; n++)
                weight_row(&w, x, n * x->dims[1] + o / per_out * per_in + ch, dy, n * dims[0] + o, table, acc);
            it_store_f64s(t, (o * per_in + ch) * w.taps, 1, w.taps, acc);
        }
    }
    return TCC_OK;
}

/* dx = dy summed over windows: those that hold an element, or (index given) those whose maximum it was. */
static int pool_grad(struct it_call *c, const struct ir_tensor *index)
{
    const struct ir_tensor *dy = c->in[0];
    struct window w;
    int64_t dims[TCC_MAX_RANK];
    if (window_init(c, &w))
        return c->status;
    memcpy(w.out, w.in, sizeof w.out);
    it_ints(c->n, IR_ATTR_kernel, w.rank, 1, w.kernel);
    if (!it_exprs(c, IR_ATTR_shape, w.rank, w.in))
        return c->status;
    window_counts(&w);
    memcpy(dims, dy->dims, 2 * sizeof *dims);
    memcpy(dims + 2, w.in, (size_t)w.rank * sizeof *dims);
    struct ir_tensor *t = it_out(c, 0, dy->rank, dims);
    int64_t *table = it_scratch(c, w.taps * w.nout, 8);
    double *acc = it_scratch(c, w.nin, 8);
    if (!t || !table || !acc)
        return c->status;
    fill_table(&w, w.in, w.out, 0, w.nout, table);
    for (int64_t plane = 0; plane < dims[0] * dims[1]; plane++) {
        memset(acc, 0, (size_t)w.nin * 8);
        for (int64_t p = 0; p < w.nout; p++) {
            int64_t at = plane * w.nout + p;
            double d = tcc_load_f64(it_dtype(dy), ir_tensor_at(dy, at));
            int64_t best = index ? tcc_load_i64(TCC_I64, ir_tensor_at(index, at)) : 0;
            for (int64_t k = 0; k < w.taps; k++) {
                int64_t i = table[k * w.nout + p];
                if (i >= 0 && (!index || i == best))
                    acc[i] += d;
            }
        }
        it_store_f64s(t, plane * w.nin, 1, w.nin, acc);
    }
    return TCC_OK;
}

int interp_max_pool_grad(struct it_call *c)
{
    return pool_grad(c, c->in[1]);
}

int interp_sum_pool_grad(struct it_call *c)
{
    return pool_grad(c, NULL);
}
