/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - level-2 layouts: physical dims and indices of a value, and constants brought into a layout. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"

static bool is_plain(int rank, int naxes, const struct kn_axis *axes)
{
    if (naxes != rank)
        return false;
    for (int i = 0; i < naxes; i++) {
        if (axes[i].axis != i || axes[i].div != 1 || axes[i].mod != 0)
            return false;
    }
    return true;
}

kn_layout kn_layout_make(struct ir_ctx *ctx, int rank, int naxes, const struct kn_axis *axes)
{
    if (is_plain(rank, naxes, axes) || naxes > TCC_MAX_RANK)
        return NULL;
    uint64_t hash = (uint64_t)rank * 31 + (uint64_t)naxes;
    for (int i = 0; i < naxes; i++)
        hash =
            ir_hash_mix(ir_hash_mix(hash, (uint64_t)axes[i].axis), (uint64_t)axes[i].div << 32 | (uint32_t)axes[i].mod);
    uint32_t pos = UINT32_MAX;
    for (struct kn_layout *l; (l = ir_set_next(&ctx->layouts, hash, &pos));) {
        bool same = l->rank == rank && l->naxes == naxes;
        for (int i = 0; same && i < naxes; i++)
            same = l->at[i].axis == axes[i].axis && l->at[i].div == axes[i].div && l->at[i].mod == axes[i].mod;
        if (same)
            return l;
    }
    struct kn_layout *l = ir_alloc(ctx, sizeof *l + (size_t)naxes * sizeof *axes);
    l->rank = (uint8_t)rank;
    l->naxes = (uint8_t)naxes;
    memcpy(l->at, axes, (size_t)naxes * sizeof *axes);
    ir_set_add(ctx, &ctx->layouts, hash, l);
    return l;
}

kn_layout kn_layout_blocked(struct ir_ctx *ctx, int rank, int axis, int block)
{
    struct kn_axis axes[TCC_MAX_RANK + 1];
    for (int i = 0; i < rank; i++)
        axes[i] = (struct kn_axis){(int16_t)i, i == axis ? block : 1, 0};
    axes[rank] = (struct kn_axis){(int16_t)axis, 1, block};
    return kn_layout_make(ctx, rank, rank + 1, axes);
}

int kn_physical_dims(struct ir_ctx *ctx, ir_type t, kn_layout l, ir_expr *dims)
{
    if (!l) {
        for (int i = 0; i < t->rank; i++)
            dims[i] = t->dim[i];
        return t->rank;
    }
    for (int i = 0; i < l->naxes; i++) {
        struct kn_axis a = l->at[i];
        dims[i] = a.mod ? ir_const(ctx, a.mod) : ir_ceildiv(ctx, t->dim[a.axis], ir_const(ctx, a.div));
    }
    return l->naxes;
}

int kn_physical_index(struct ir_ctx *ctx, kn_layout l, int rank, const ir_expr *logical, ir_expr *physical)
{
    if (!l) {
        for (int i = 0; i < rank; i++)
            physical[i] = logical[i];
        return rank;
    }
    for (int i = 0; i < l->naxes; i++) {
        struct kn_axis a = l->at[i];
        ir_expr e = ir_floordiv(ctx, logical[a.axis], ir_const(ctx, a.div));
        physical[i] = a.mod ? ir_mod(ctx, e, ir_const(ctx, a.mod)) : e;
    }
    return l->naxes;
}

/* == Constants == */

/* An element's physical place is a sum over the logical axes: offsets[axis][index]. */
struct relayout {
    const struct ir_tensor *from;
    struct ir_tensor *to;
    int64_t *offsets[TCC_MAX_RANK], strides[TCC_MAX_RANK]; /* strides: of `from` */
    size_t size;
    int last, lane; /* the axis whose elements lie side by side in `from`, and in `to` (-1: none) */
};

static bool fill_offsets(struct relayout *r, kn_layout l)
{
    int64_t stride = 1;
    for (int i = 0; i < r->from->rank; i++) {
        r->offsets[i] = calloc((size_t)r->from->dims[i] + 1, sizeof **r->offsets);
        if (!r->offsets[i])
            return false;
    }
    for (int p = l->naxes - 1; p >= 0; p--) {
        struct kn_axis a = l->at[p];
        for (int64_t i = 0; i < r->from->dims[a.axis]; i++) {
            int64_t q = i / a.div;
            r->offsets[a.axis][i] += (a.mod ? q % a.mod : q) * stride;
        }
        stride *= r->to->dims[p];
    }
    return true;
}

/* Axes of one element say nothing. */
static void find_axes(struct relayout *r)
{
    const struct ir_tensor *t = r->from;
    r->last = t->rank - 1;
    r->lane = -1;
    while (r->last > 0 && t->dims[r->last] == 1)
        r->last--;
    for (int64_t i = t->rank - 1, stride = t->splat ? 0 : 1; i >= 0; i--) {
        r->strides[i] = stride;
        stride *= t->dims[i];
        if (t->dims[i] > 1 && r->offsets[i][1] == 1)
            r->lane = (int)i;
    }
}

/* Elements of the lane's axis from i on, up to `most`, that lie side by side in `to` as well. */
static int64_t run_of(const struct relayout *r, int64_t i, int64_t most)
{
    const int64_t *offset = r->offsets[r->lane];
    int64_t n = 1;
    most = most < r->from->dims[r->lane] - i ? most : r->from->dims[r->lane] - i;
    while (n < most && offset[i + n] == offset[i] + n)
        n++;
    return n;
}

/* One row of the last axis. */
static void move_row(const struct relayout *r, const char *from, char *to)
{
    const int64_t *offset = r->offsets[r->last], step = r->strides[r->last] * (int64_t)r->size;
    int64_t n = r->from->dims[r->last], size = (int64_t)r->size;
    for (int64_t i = 0, run; i < n && r->lane == r->last && step; i += run) {
        run = run_of(r, i, n);
        memcpy(to + offset[i] * size, from + i * size, (size_t)(run * size));
    }
    if (r->lane == r->last && step)
        return;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + offset[i] * size, from + i * step, (size_t)size);
}

enum { SQUARE = 16 };

/* The same of `lanes` points of the lane's axis, in squares: each line of memory is read and written once. */
static void move_rows(const struct relayout *r, const char *from, char *to, int64_t lanes)
{
    const int64_t *offset = r->offsets[r->last], step = r->strides[r->last], next = r->strides[r->lane];
    int64_t n = r->from->dims[r->last], size = (int64_t)r->size;
    for (int64_t i0 = 0; i0 < n; i0 += SQUARE) {
        int64_t end = i0 + SQUARE < n ? i0 + SQUARE : n;
        for (int64_t j = 0; j < lanes; j++)
            for (int64_t i = i0; i < end; i++) {
                const char *x = from + (j * next + i * step) * size;
                if (size == 4)
                    memcpy(to + (offset[i] + j) * 4, x, 4);
                else
                    memcpy(to + (offset[i] + j) * size, x, (size_t)size);
            }
    }
}

/* All rows, for `lanes` points of the lane's axis from `first` on where it is not the rows' own. */
static void move_part(const struct relayout *r, int64_t first, int64_t lanes)
{
    const struct ir_tensor *t = r->from;
    int64_t index[TCC_MAX_RANK] = {0}, size = (int64_t)r->size;
    bool apart = r->lane >= 0 && r->lane != r->last;
    for (int a = 0; a >= 0;) {
        int64_t from = apart ? first * r->strides[r->lane] : 0, to = apart ? r->offsets[r->lane][first] : 0;
        for (int i = 0; i < r->last; i++) {
            from += index[i] * r->strides[i];
            to += r->offsets[i][index[i]];
        }
        const char *x = (const char *)t->data + from * size;
        char *y = (char *)r->to->data + to * size;
        if (apart)
            move_rows(r, x, y, lanes);
        else
            move_row(r, x, y);
        for (a = r->last - 1; a >= 0 && (a == r->lane || ++index[a] == t->dims[a]); a--)
            index[a] = 0;
    }
}

static void move_all(struct relayout *r)
{
    find_axes(r);
    if (r->lane < 0 || r->lane == r->last) {
        move_part(r, 0, 1);
        return;
    }
    for (int64_t i = 0, run; i < r->from->dims[r->lane]; i += run) {
        run = run_of(r, i, 4 * SQUARE);
        move_part(r, i, run);
    }
}

struct ir_tensor *kn_relayout(const struct ir_tensor *t, kn_layout l)
{
    int64_t dims[TCC_MAX_RANK];
    if (!l)
        return ir_tensor_ref(t);
    for (int i = 0; i < l->naxes; i++) {
        struct kn_axis a = l->at[i];
        dims[i] = a.mod ? a.mod : (t->dims[a.axis] + a.div - 1) / a.div;
    }
    struct relayout r = {
        .from = t, .to = ir_tensor_new(t->dtype, l->naxes, dims), .size = (size_t)tcc_dtype_bytes(t->dtype)};
    if (!r.to)
        return NULL;
    if (t->splat && r.to->nelems == t->nelems) { /* no padding: still a splat */
        ir_tensor_unref(r.to);
        return ir_tensor_splat(t->dtype, l->naxes, dims, t->data);
    }
    bool ok = fill_offsets(&r, l);
    if (ok && t->nelems)
        move_all(&r);
    for (int i = 0; i < t->rank; i++)
        free(r.offsets[i]);
    if (ok)
        return r.to;
    ir_tensor_unref(r.to);
    return NULL;
}

void kn_print_layout(FILE *out, kn_layout l)
{
    if (!l) {
        fputs("plain", out);
        return;
    }
    for (int i = 0; i < l->naxes; i++)
        fprintf(out, "%s(%d,%d,%d)", i ? " " : "", l->at[i].axis, (int)l->at[i].div, (int)l->at[i].mod);
}
