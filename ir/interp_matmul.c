/* SPDX-License-Identifier: Apache-2.0 */
/* interp_matmul.c - matmul and attention. Operands are widened to f64 (integers to 64 bits), the sum is rounded once. */
#include <math.h>
#include <string.h>

#include "ir/interp_int.h"

typedef double f64x2 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));
#define GEMM gemm_f64
#define GEMM_T double
#define GEMM_V f64x2
static
#include "ir/interp_gemm_int.h"
#define GEMM gemm_u64
#define GEMM_T uint64_t
#define GEMM_V u64x2
    static
#include "ir/interp_gemm_int.h"

    void
    it_gemm_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
    gemm_f64(m, n, k, a, b, c);
}

void it_gemm_i64(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *c)
{
    gemm_u64(m, n, k, (const uint64_t *)a, (const uint64_t *)b, (uint64_t *)c);
}

/* A rows x columns matrix at element `at`, stored transposed or not, as row-major f64 or 64-bit integers. */
static void load_matrix(const struct ir_tensor *t, int64_t at, int64_t rows, int64_t columns, bool transposed,
                        bool is_float, void *to)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t from = at + (transposed ? r : r * columns), stride = transposed ? rows : 1;
        if (is_float)
            it_load_f64s(t, from, stride, columns, (double *)to + r * columns);
        else
            it_load_i64s(t, from, stride, columns, (int64_t *)to + r * columns);
    }
}

/* Leading dims of both, broadcast; element offsets advance by 0 along broadcast axes. */
struct batch {
    int rank;
    int64_t dims[TCC_MAX_RANK], step[2][TCC_MAX_RANK], index[TCC_MAX_RANK], at[2];
};

static int batch_init(struct it_call *c, struct batch *b)
{
    int lead[2] = {c->in[0]->rank - 2, c->in[1]->rank - 2};
    memset(b, 0, sizeof *b);
    b->rank = lead[0] > lead[1] ? lead[0] : lead[1];
    for (int i = 0; i < b->rank; i++) {
        b->dims[i] = 1;
        for (int k = 0; k < 2; k++) {
            int j = i - (b->rank - lead[k]);
            int64_t d = j < 0 ? 1 : c->in[k]->dims[j];
            if (d != 1 && b->dims[i] != 1 && d != b->dims[i])
                return it_fail(c, TCC_EINPUT, "leading axis %d: %lld and %lld", i, (long long)b->dims[i], (long long)d);
            b->dims[i] = d == 1 ? b->dims[i] : d;
            b->step[k][i] = d == 1 ? 0 : it_product(c->in[k]->dims, j + 1, c->in[k]->rank);
        }
    }
    return TCC_OK;
}

static void batch_next(struct batch *b)
{
    for (int i = b->rank - 1; i >= 0; i--) {
        for (int k = 0; k < 2; k++)
            b->at[k] += b->step[k][i];
        if (++b->index[i] < b->dims[i])
            return;
        for (int k = 0; k < 2; k++)
            b->at[k] -= b->dims[i] * b->step[k][i];
        b->index[i] = 0;
    }
}

int interp_matmul(struct it_call *c)
{
    const struct ir_tensor *a = c->in[0], *b = c->in[1];
    bool ta = ir_get_i(c->n, IR_ATTR_trans_a, 0) != 0, tb = ir_get_i(c->n, IR_ATTR_trans_b, 0) != 0;
    if (a->rank < 2 || b->rank < 2)
        return it_fail(c, TCC_EBUG, "operands of rank %d and %d", a->rank, b->rank);
    int64_t m = a->dims[a->rank - (ta ? 1 : 2)], k = a->dims[a->rank - (ta ? 2 : 1)];
    int64_t n = b->dims[b->rank - (tb ? 2 : 1)], kb = b->dims[b->rank - (tb ? 1 : 2)];
    struct batch batch;
    int64_t dims[TCC_MAX_RANK];
    if (k != kb)
        return it_fail(c, TCC_EINPUT, "%lld columns against %lld rows", (long long)k, (long long)kb);
    if (batch_init(c, &batch))
        return c->status;
    memcpy(dims, batch.dims, sizeof dims);
    dims[batch.rank] = m;
    dims[batch.rank + 1] = n;
    struct ir_tensor *t = it_out(c, 0, batch.rank + 2, dims);
    if (!t)
        return c->status;
    bool is_float = it_counts_as_float(it_dtype(t)) || it_counts_as_float(it_dtype(a));
    void *pa = it_scratch(c, m * k, 8), *pb = it_scratch(c, k * n, 8), *pc = it_scratch(c, m * n, 8);
    if (!pa || !pb || !pc)
        return c->status;
    int64_t in_b = -1;
    for (int64_t done = 0; done < t->nelems; done += m * n, batch_next(&batch)) {
        load_matrix(a, batch.at[0], m, k, ta, is_float, pa);
        if (in_b != batch.at[1])
            load_matrix(b, batch.at[1], k, n, tb, is_float, pb);
        in_b = batch.at[1];
        memset(pc, 0, (size_t)(m * n) * 8);
        if (is_float) {
            it_gemm_f64(m, n, k, pa, pb, pc);
            it_store_f64s(t, done, 1, m * n, pc);
        } else {
            it_gemm_i64(m, n, k, pa, pb, pc);
            it_store_i64s(t, done, 1, m * n, pc);
        }
    }
    return TCC_OK;
}

/* -- Attention ------------------------------------------------------------------------------------- */

struct attend {
    int64_t s, t, d, e; /* queries, keys, their width, values' width */
    double scale;
    bool causal, nan;
    const struct ir_tensor *mask;
    int64_t mask_at, mask_s, mask_t; /* first element, steps along s and t */
};

/* softmax(row) in place; a row without any visible key becomes 0, or NaN. */
static void softmax_row(double *row, int64_t n, bool nan)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = row[i] > max || row[i] != row[i] ? row[i] : max;
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++)
            row[i] = nan ? NAN : 0;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - max);
    for (int64_t i = 0; i < n; i++)
        row[i] /= sum;
}

static void attend_head(const struct attend *x, const double *q, const double *k_t, const double *v, double *scores,
                        double *out)
{
    memset(scores, 0, (size_t)(x->s * x->t) * sizeof *scores);
    it_gemm_f64(x->s, x->t, x->d, q, k_t, scores);
    for (int64_t i = 0; i < x->s; i++) {
        double *row = scores + i * x->t;
        for (int64_t j = 0; j < x->t; j++) {
            row[j] *= x->scale;
            if (x->mask) {
                const void *p = ir_tensor_at(x->mask, x->mask_at + i * x->mask_s + j * x->mask_t);
                row[j] += tcc_load_f64(it_dtype(x->mask), p);
            }
            if (x->causal && j > i)
                row[j] = -INFINITY;
        }
        softmax_row(row, x->t, x->nan);
    }
    memset(out, 0, (size_t)(x->s * x->e) * sizeof *out);
    it_gemm_f64(x->s, x->e, x->t, scores, v, out);
}

/* Steps of the mask along [b, h, s, t]; broadcast axes stay. */
static int mask_steps(struct it_call *c, const int64_t *full, int64_t *steps)
{
    const struct ir_tensor *m = c->in[3];
    int64_t s = 1;
    memset(steps, 0, 4 * sizeof *steps);
    if (m->rank > 4)
        return it_fail(c, TCC_EBUG, "a mask of rank %d", m->rank);
    for (int i = m->rank - 1; i >= 0; i--) {
        int to = i + 4 - m->rank;
        if (m->dims[i] != 1 && m->dims[i] != full[to])
            return it_fail(c, TCC_EINPUT, "mask axis %d: %lld does not broadcast to %lld", i, (long long)m->dims[i],
                           (long long)full[to]);
        steps[to] = m->dims[i] == 1 ? 0 : s;
        s *= m->dims[i];
    }
    return TCC_OK;
}

int interp_attention(struct it_call *c)
{
    const struct ir_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2];
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->dims[1] == 0 || q->dims[1] % k->dims[1] ||
        v->dims[1] != k->dims[1] || q->dims[0] != k->dims[0] || v->dims[0] != k->dims[0] || q->dims[3] != k->dims[3] ||
        v->dims[2] != k->dims[2])
        return it_fail(c, TCC_EINPUT, "q, k and v do not fit each other");
    int64_t b = q->dims[0], h = q->dims[1], g = k->dims[1], steps[4] = {0};
    struct attend x = {.s = q->dims[2], .t = k->dims[2], .d = q->dims[3], .e = v->dims[3]};
    x.mask = c->n->nin > 3 ? c->in[3] : NULL;
    x.causal = ir_get_i(c->n, IR_ATTR_causal, 0) != 0;
    x.nan = ir_get_s(c->n, IR_ATTR_mode, "zero")[0] == 'n';
    x.scale = ir_get_f(c->n, IR_ATTR_scale, 1);
    int64_t full[4] = {b, h, x.s, x.t}, dims[4] = {b, h, x.s, x.e};
    if (x.mask && mask_steps(c, full, steps))
        return c->status;
    x.mask_s = steps[2];
    x.mask_t = steps[3];
    struct ir_tensor *out = it_out(c, 0, 4, dims);
    double *mq = it_scratch(c, x.s * x.d, 8), *mk = it_scratch(c, x.t * x.d, 8), *mv = it_scratch(c, x.t * x.e, 8);
    double *scores = it_scratch(c, x.s * x.t, 8), *acc = it_scratch(c, x.s * x.e, 8);
    if (!out || !mq || !mk || !mv || !scores || !acc)
        return c->status;
    for (int64_t i = 0; i < b * h; i++) {
        int64_t kv = i / h * g + i % h / (h / g);
        load_matrix(q, i * x.s * x.d, x.s, x.d, false, true, mq);
        load_matrix(k, kv * x.t * x.d, x.d, x.t, true, true, mk);
        load_matrix(v, kv * x.t * x.e, x.t, x.e, false, true, mv);
        x.mask_at = i / h * steps[0] + i % h * steps[1];
        attend_head(&x, mq, mk, mv, scores, acc);
        it_store_f64s(out, i * x.s * x.e, 1, x.s * x.e, acc);
    }
    return TCC_OK;
}
