/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - reductions, argmax and argmin, running sums and products. Floats in f64, integers in 64 bits. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp_int.h"

#include "base/mutant.h"

static enum it_combine how_of(enum ir_op op)
{
    switch (op) {
    case IR_reduce_prod:
    case IR_cumprod: return IT_MUL;
    case IR_reduce_max: return IT_MAX;
    case IR_reduce_min: return IT_MIN;
    default: return IT_ADD;
    }
}

/* The lowest and the highest value of an integer type, as held in 64 bits. */
static void int_limits(enum tcc_dtype d, int64_t *lo, int64_t *hi)
{
    int bits = d == TCC_U4 || d == TCC_I4   ? 4
               : d == TCC_U2 || d == TCC_I2 ? 2
               : d == TCC_BOOL              ? 1
                                            : 8 * tcc_dtype_bytes(d);
    bool is_signed = tcc_is_signed(d);
    *hi = is_signed    ? (int64_t)(((uint64_t)1 << (bits - 1)) - 1)
          : bits == 64 ? -1
                       : (int64_t)(((uint64_t)1 << bits) - 1);
    *lo = is_signed ? -*hi - 1 : 0;
}

/* What an empty reduction gives. */
static double empty_f64(enum it_combine how)
{
    return how == IT_ADD ? 0 : how == IT_MUL ? 1 : how == IT_MAX ? -INFINITY : INFINITY;
}

static int64_t empty_i64(enum it_combine how, enum tcc_dtype d)
{
    int64_t lo, hi;
    int_limits(d, &lo, &hi);
    return how == IT_ADD ? 0 : how == IT_MUL ? 1 : how == IT_MAX ? lo : hi;
}

static inline double step_f64(enum it_combine how, double a, double x)
{
    switch (how) {
    case IT_ADD: return a + x;
    case IT_MUL: return a * x;
    case IT_MAX: return x > a || MUTANT(77, x != x, false) ? x : a;
    default: return x < a || x != x ? x : a;
    }
}

static inline int64_t step_i64(enum it_combine how, bool u64, int64_t a, int64_t x)
{
    bool less = u64 ? (uint64_t)a < (uint64_t)x : a < x;
    switch (how) {
    case IT_ADD: return (int64_t)((uint64_t)a + (uint64_t)x);
    case IT_MUL: return (int64_t)((uint64_t)a * (uint64_t)x);
    case IT_MAX: return less ? x : a;
    default: return less ? a : x;
    }
}

/* The axes as a bit set, and the result's dims; -1 for the rank after it_fail. */
static int reduced_dims(struct it_call *c, uint32_t *set, int64_t *dims)
{
    const struct ir_attr *a = ir_attr(c->n, IR_ATTR_axes);
    const struct ir_tensor *x = c->in[0];
    bool keep = ir_get_i(c->n, IR_ATTR_keepdims, 0) != 0;
    int rank = 0;
    *set = 0;
    for (int i = 0; a && i < a->n; i++)
        *set |= 1u << a->ints[i];
    for (int i = 0; i < x->rank; i++) {
        if (!(*set >> i & 1))
            dims[rank++] = x->dims[i];
        else if (MUTANT(78, keep, !keep))
            dims[rank++] = 1;
    }
    return rank;
}

/* Walks x in row-major order; `to` is the number of the result that an element belongs to. */
struct walk {
    const struct ir_tensor *x;
    int64_t index[TCC_MAX_RANK], step[TCC_MAX_RANK], to;
};

static void walk_init(struct walk *w, const struct ir_tensor *x, uint32_t set)
{
    int64_t s = 1;
    memset(w, 0, sizeof *w);
    w->x = x;
    for (int i = x->rank - 1; i >= 0; i--) {
        w->step[i] = set >> i & 1 ? 0 : s;
        if (!(set >> i & 1))
            s *= x->dims[i];
    }
}

/* On to the next row of the last axis. */
static void walk_next(struct walk *w)
{
    for (int i = w->x->rank - 2; i >= 0; i--) {
        w->to += w->step[i];
        if (++w->index[i] < w->x->dims[i])
            return;
        w->to -= w->x->dims[i] * w->step[i];
        w->index[i] = 0;
    }
}

#define CHUNK 1024

struct reduction {
    const struct ir_tensor *x;
    enum it_combine how;
    void *acc;
    int64_t step;
};

static void run_f64(const struct reduction *r, int64_t at, int64_t n, int64_t first)
{
    double part[CHUNK], *to = (double *)r->acc + first;
    it_load_f64s(r->x, at, 1, n, part);
    for (int64_t i = 0; i < n; i++, to += r->step)
        *to = step_f64(r->how, *to, part[i]);
}

/* Sums of weights are many, and these loops are vector code: into one element, or one by one. Integers wrap. */
static void add_run(int64_t *to, const int64_t *part, int64_t n, bool one)
{
    uint64_t sum = 0;
    if (one) {
        for (int64_t i = 0; i < n; i++)
            sum += (uint64_t)part[i];
        *to = (int64_t)((uint64_t)*to + sum);
    } else {
        for (int64_t i = 0; i < n; i++)
            to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)part[i]);
    }
}

static void run_i64(const struct reduction *r, int64_t at, int64_t n, int64_t first)
{
    int64_t part[CHUNK], *to = (int64_t *)r->acc + first;
    it_load_i64s(r->x, at, 1, n, part);
    if (r->how == IT_ADD && r->step <= 1)
        add_run(to, part, n, r->step == 0);
    else
        for (int64_t i = 0; i < n; i++, to += r->step)
            *to = step_i64(r->how, it_dtype(r->x) == TCC_U64, *to, part[i]);
}

/* run(): n elements from number `at` on go into the results from number `first` on, r->step apart. */
static void reduce(const struct ir_tensor *x, uint32_t set, enum it_combine how, void *acc,
                   void (*run)(const struct reduction *r, int64_t at, int64_t n, int64_t first))
{
    struct walk w;
    struct reduction r = {.x = x, .how = how, .acc = acc};
    int64_t row = x->rank ? x->dims[x->rank - 1] : 1;
    walk_init(&w, x, set);
    r.step = x->rank ? w.step[x->rank - 1] : 0;
    for (int64_t at = 0; at < x->nelems; at += row, walk_next(&w))
        for (int64_t j = 0; j < row; j += CHUNK)
            run(&r, at + j, row - j < CHUNK ? row - j : CHUNK, w.to + j * r.step);
}

int interp_reduce(struct it_call *c)
{
    uint32_t set;
    int64_t dims[TCC_MAX_RANK];
    enum it_combine how = how_of(c->n->op);
    int rank = reduced_dims(c, &set, dims);
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    void *acc = t ? it_scratch(c, t->nelems, sizeof(double)) : NULL;
    if (!acc)
        return c->status;
    if (set == 0) {
        if (t->bytes)
            memcpy(it_data(t), c->in[0]->data, (size_t)t->bytes);
    } else if (it_counts_as_float(it_dtype(t))) {
        for (int64_t i = 0; i < t->nelems; i++)
            ((double *)acc)[i] = empty_f64(how);
        reduce(c->in[0], set, how, acc, run_f64);
        it_store_f64s(t, 0, 1, t->nelems, acc);
    } else {
        for (int64_t i = 0; i < t->nelems; i++)
            ((int64_t *)acc)[i] = empty_i64(how, it_dtype(t));
        reduce(c->in[0], set, how, acc, run_i64);
        it_store_i64s(t, 0, 1, t->nelems, acc);
    }
    return TCC_OK;
}

/* Does x displace the best so far? NaN is beyond everything; of equals the first stays, or the last comes. */
static bool displaces_f64(bool max, bool last, double best, double x)
{
    if (best != best)
        return last && x != x;
    if (x != x)
        return true;
    return (max ? x > best : x < best) || (last && x == best);
}

static bool displaces_i64(bool max, bool last, bool u64, int64_t best, int64_t x)
{
    if (x == best)
        return last;
    bool less = u64 ? (uint64_t)x < (uint64_t)best : x < best;
    return less != max;
}

static int64_t arg_of_row(const struct ir_tensor *x, int64_t at, int64_t stride, int64_t n, bool max, bool last)
{
    enum tcc_dtype d = it_dtype(x);
    bool is_float = it_counts_as_float(d);
    int64_t best = 0, ibest = 0;
    double fbest = 0;
    for (int64_t i = 0; i < n; i++) {
        const void *p = ir_tensor_at(x, at + i * stride);
        if (is_float) {
            double v = tcc_load_f64(d, p);
            if (i == 0 || displaces_f64(max, last, fbest, v))
                fbest = v, best = i;
        } else {
            int64_t v = tcc_load_i64(d, p);
            if (i == 0 || displaces_i64(max, last, d == TCC_U64, ibest, v))
                ibest = v, best = i;
        }
    }
    return best;
}

int interp_argreduce(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0), rank = 0;
    bool keep = ir_get_i(c->n, IR_ATTR_keepdims, 0) != 0, last = ir_get_i(c->n, IR_ATTR_last, 0) != 0;
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        if (i != axis || keep)
            dims[rank++] = i == axis ? 1 : x->dims[i];
    struct ir_tensor *t = it_out(c, 0, rank, dims);
    if (!t)
        return c->status;
    int64_t inner = it_product(x->dims, axis + 1, x->rank), n = x->dims[axis];
    if (n == 0 && t->nelems)
        return it_fail(c, TCC_EINPUT, "axis %d is empty", axis);
    for (int64_t i = 0; i < t->nelems; i++)
        ((int64_t *)it_data(t))[i] =
            arg_of_row(x, i / inner * n * inner + i % inner, inner, n, c->n->op == IR_argmax, last);
    return TCC_OK;
}

int interp_cumulate(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0];
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0);
    bool exclusive = ir_get_i(c->n, IR_ATTR_exclusive, 0) != 0, reverse = ir_get_i(c->n, IR_ATTR_reverse, 0) != 0,
         rounded = ir_get_i(c->n, IR_ATTR_rounded, 0) != 0;
    enum it_combine how = how_of(c->n->op);
    enum tcc_dtype d = it_dtype(x);
    struct ir_tensor *t = it_out(c, 0, x->rank, x->dims);
    if (!t || !x->nelems)
        return c->status;
    int64_t inner = it_product(x->dims, axis + 1, x->rank), n = x->dims[axis];
    for (int64_t r = 0; r < x->nelems / n; r++) {
        double facc = empty_f64(how);
        int64_t iacc = empty_i64(how == IT_MUL ? IT_MUL : IT_ADD, TCC_I64);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = r / inner * n * inner + (reverse ? n - 1 - i : i) * inner + r % inner;
            double f = facc;
            int64_t k = iacc;
            char raw[16];
            if (it_counts_as_float(d)) {
                facc = step_f64(how, facc, tcc_load_f64(d, ir_tensor_at(x, at)));
                if (rounded) {
                    tcc_store_f64(d, raw, facc);
                    facc = tcc_load_f64(d, raw);
                }
                tcc_store_f64(d, (void *)ir_tensor_at(t, at), exclusive ? f : facc);
            } else {
                iacc = step_i64(how, false, iacc, tcc_load_i64(d, ir_tensor_at(x, at)));
                tcc_store_i64(d, (void *)ir_tensor_at(t, at), exclusive ? k : iacc);
            }
        }
    }
    return TCC_OK;
}
