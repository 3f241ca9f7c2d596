/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c - topk and sort: the k largest or smallest along an axis; of equals the lower index, or place, first; NaN is
 * the largest. */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/ir_int.h"

struct order {
    bool is_float, u64, largest;
};

/* -1, 0, 1 for x below, equal to, above y. */
static int compare(const struct order *o, const struct ir_ranked *x, const struct ir_ranked *y)
{
    if (o->is_float) {
        bool nx = x->f != x->f, ny = y->f != y->f;
        if (nx || ny)
            return nx - ny;
        return (x->f > y->f) - (x->f < y->f);
    }
    if (o->u64)
        return ((uint64_t)x->i > (uint64_t)y->i) - ((uint64_t)x->i < (uint64_t)y->i);
    return (x->i > y->i) - (x->i < y->i);
}

static int by_rank(const void *a, const void *b, void *user)
{
    const struct order *o = user;
    const struct ir_ranked *x = a, *y = b;
    int r = compare(o, x, y);
    if (r)
        return o->largest ? -r : r;
    return (x->index > y->index) - (x->index < y->index);
}

void ir_rank(struct ir_ranked *row, int64_t n, enum tcc_dtype d, bool is_float, bool largest)
{
    struct order order = {is_float, d == TCC_U64, largest};
    qsort_r(row, (size_t)n, sizeof *row, by_rank, &order);
}

int interp_topk(struct it_call *c)
{
    const struct ir_tensor *x = c->in[0], *places = c->n->nin > 1 ? c->in[1] : NULL;
    int axis = (int)ir_get_i(c->n, IR_ATTR_axis, 0);
    enum tcc_dtype d = it_dtype(x);
    bool is_float = it_counts_as_float(d);
    int64_t k, dims[TCC_MAX_RANK];
    if (!it_exprs(c, IR_ATTR_k, 1, &k))
        return c->status;
    if (x->rank == 0 || k < 0 || k > x->dims[axis])
        return it_fail(c, TCC_EINPUT, "k is %lld, the axis has %lld elements", (long long)k,
                       x->rank ? (long long)x->dims[axis] : 0);
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == axis ? k : x->dims[i];
    struct ir_tensor *values = it_out(c, 0, x->rank, dims), *indices = it_out(c, 1, x->rank, dims);
    int64_t n = x->dims[axis], inner = it_product(x->dims, axis + 1, x->rank), size = tcc_dtype_bytes(d);
    struct ir_ranked *row = it_scratch(c, n, sizeof *row);
    if (c->status != TCC_OK || !row || !values->nelems)
        return c->status;
    for (int64_t r = 0; r < x->nelems / n; r++) {
        int64_t in_at = r / inner * n * inner + r % inner, out_at = r / inner * k * inner + r % inner;
        for (int64_t i = 0; i < n; i++) {
            const void *p = ir_tensor_at(x, in_at + i * inner);
            int64_t place = places ? tcc_load_i64(TCC_I32, ir_tensor_at(places, in_at + i * inner)) : i;
            row[i] = (struct ir_ranked){is_float ? tcc_load_f64(d, p) : 0, is_float ? 0 : tcc_load_i64(d, p), place, i};
        }
        ir_rank(row, n, d, is_float, ir_get_i(c->n, IR_ATTR_largest, 1) != 0);
        for (int64_t i = 0; i < k; i++) {
            const void *from = ir_tensor_at(x, in_at + row[i].from * inner);
            memcpy((char *)it_data(values) + (out_at + i * inner) * size, from, (size_t)size);
            ((int64_t *)it_data(indices))[out_at + i * inner] = row[i].index;
        }
    }
    return TCC_OK;
}
