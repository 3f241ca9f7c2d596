/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - matmul. Operands are widened to f64 (integers to 64 bits), the sum is rounded once. */
#include <string.h>

#include "ir/interp/interp_int.h"

typedef double f64x2 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));
#define GEMM gemm_f64
#define GEMM_T double
#define GEMM_V f64x2
static
#include "ir/interp/gemm_int.h"
#define GEMM gemm_u64
#define GEMM_T uint64_t
#define GEMM_V u64x2
    static
#include "ir/interp/gemm_int.h"

    void
    it_gemm_f64(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
    gemm_f64(m, n, k, a, b, c);
}

void it_gemm_i64(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *c)
{
    gemm_u64(m, n, k, (const uint64_t *)a, (const uint64_t *)b, (uint64_t *)c);
}

void it_load_matrix(const struct ir_tensor *t, int64_t at, int64_t rows, int64_t columns, bool transposed,
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

/* Of rows x k numbers, each row's groups; step: from one of a row to the next. */
static void round_groups(const struct ir_attr *mx, double *v, int64_t rows, int64_t k, int64_t row, int64_t step)
{
    for (int64_t r = 0; mx && r < rows; r++)
        for (int64_t g = 0; g < k; g += TCC_MX_GROUP)
            tcc_mx_round(mx->dtype, v + r * row + g * step, step);
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
    const struct ir_attr *mx = ir_attr(c->n, IR_ATTR_mx);
    int64_t in_b = -1;
    for (int64_t done = 0; done < t->nelems; done += m * n, batch_next(&batch)) {
        it_load_matrix(a, batch.at[0], m, k, ta, is_float, pa);
        round_groups(mx, pa, m, k, k, 1);
        if (in_b != batch.at[1]) {
            it_load_matrix(b, batch.at[1], k, n, tb, is_float, pb);
            round_groups(mx, pb, n, k, 1, n);
        }
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
