/* SPDX-License-Identifier: Apache-2.0 */
/* Library ops whose result's size depends on the data: nonzero, compress, unique, nonmaxsuppression. */
#include <math.h>

#include "runtime/libop/libop_int.h"

/* x of any type -> i64[rank, n]: indices of the elements that are not zero, row-major; of a scalar, therefore, 0
 * rows. */
int tccrt_lib_nonzero(struct tcc_lib_call *call)
{
    const struct tcc_tensor *t;
    int64_t n, found = 0, k = 0, index[TCC_MAX_RANK] = {0}, dims[2], *out;
    int rank, status = lib_need(call, 0, -1, LIB_NUMBER, &t);

    if (status)
        return status;
    n = lib_count(t);
    rank = t->rank;
    for (int64_t i = 0; i < n; i++)
        found += lib_get(t, i) != 0;
    dims[0] = rank;
    dims[1] = found;
    out = lib_out(call, 0, TCC_I64, 2, dims);
    if (!out)
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        if (lib_get(t, i) != 0) {
            for (int a = 0; a < rank; a++)
                out[a * found + k] = index[a];
            k++;
        }
        lib_next(rank, t->dims, index);
    }
    return TCC_OK;
}

/* (x, condition: bool[m]) attr axis (absent: x is flattened) -> the slices i < m with condition[i]. */
int tccrt_lib_compress(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *c;
    const uint8_t *keep;
    int64_t dims[TCC_MAX_RANK], outer = 1, inner = 1, length, m, n = 0, at = 0;
    int axis = 0, rank = 1, status;
    void *out;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = lib_need(call, 1, 1, TCC_BOOL, &c)))
        return status;
    keep = c->data;
    length = lib_count(x);
    dims[0] = length;
    if (lib_attr(call, "axis")) {
        rank = x->rank;
        axis = lib_axis(lib_int(call, "axis", 0), rank);
        if (axis < 0)
            return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0),
                            rank);
        memcpy(dims, x->dims, sizeof dims);
        length = dims[axis];
        outer = lib_product(axis, dims);
        inner = lib_product(rank - axis - 1, dims + axis + 1);
    }
    m = c->dims[0] < length ? c->dims[0] : length;
    for (int64_t i = 0; i < c->dims[0]; i++) {
        if (keep[i] && i >= length)
            return LIB_FAIL(call, "condition %lld holds beyond the axis' end at %lld", (long long)i, (long long)length);
        n += keep[i] != 0;
    }
    dims[axis] = n;
    out = lib_out(call, 0, x->dtype, rank, dims);
    if (!out)
        return TCC_EENV;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < m; i++) {
            if (!keep[i])
                continue;
            if (!lib_copy_n(out, at, x, (o * length + i) * inner, inner))
                return LIB_NO_MEMORY(call);
            at += inner;
        }
    }
    return TCC_OK;
}

/* -- Unique --------------------------------------------------------------------------------------------------- */

/* Slices of x along an axis: slice i holds `inner` elements `outer` times. */
struct slices {
    const struct tcc_tensor *x;
    int64_t outer, length, inner;
    bool nan_differs;
};

static int compare_elements(const struct tcc_tensor *x, int64_t a, int64_t b)
{
    double p, q;

    if (x->dtype == TCC_STRING)
        return lib_compare_strings((const struct tcc_string *)x->data + a, (const struct tcc_string *)x->data + b);
    if (lib_class(x->dtype) == TCC_CLASS_INT) {
        int64_t i = lib_get_int(x, a), j = lib_get_int(x, b);

        return (i > j) - (i < j);
    }
    if (lib_class(x->dtype) == TCC_CLASS_UINT) {
        uint64_t i = (uint64_t)lib_get_int(x, a), j = (uint64_t)lib_get_int(x, b);

        return (i > j) - (i < j);
    }
    p = lib_get(x, a);
    q = lib_get(x, b);
    if (isnan(p) || isnan(q))
        return (isnan(p) != 0) - (isnan(q) != 0);
    return (p > q) - (p < q);
}

static int compare_slices(const struct slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            int c = compare_elements(s->x, (o * s->length + a) * s->inner + i, (o * s->length + b) * s->inner + i);

            if (c)
                return c;
        }
    }
    return 0;
}

/* Merge sort of slice numbers: stable, so that the first of equals comes first. */
static void sort_slices(const struct slices *s, int64_t *at, int64_t *spare, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n, i = lo,
                    j = mid;

            for (int64_t k = lo; k < hi; k++)
                spare[k] = j >= hi || (i < mid && compare_slices(s, at[i], at[j]) <= 0) ? at[i++] : at[j++];
        }
        memcpy(at, spare, (size_t)n * sizeof *at);
    }
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool holds_nan(const struct slices *s, int64_t a)
{
    for (int64_t k = 0; k < s->outer * s->inner; k++)
        if (isnan(lib_get(s->x, (k / s->inner * s->length + a) * s->inner + k % s->inner)))
            return true;
    return false;
}

static bool same_slices(const struct slices *s, int64_t a, int64_t b)
{
    return !compare_slices(s, a, b) &&
           !(s->nan_differs && lib_class(s->x->dtype) == TCC_CLASS_FLOAT && holds_nan(s, a));
}

/* first[g]: the first slice of group g; group[i]: slice i's group, numbered in the order of the result. */
static int64_t group_slices(const struct slices *s, bool sorted, bool consecutive, int64_t *order, int64_t *first,
                            int64_t *group)
{
    int64_t n = 0;

    for (int64_t i = 0; i < s->length; i++)
        order[i] = i;
    if (!consecutive)
        sort_slices(s, order, first, s->length);
    for (int64_t i = 0; i < s->length; i++) {
        if (i == 0 || !same_slices(s, order[i - 1], order[i]))
            first[n++] = order[i];
        group[order[i]] = n - 1;
    }
    if (sorted)
        return n;
    /* In order of appearance: groups are renumbered by their first slice. */
    for (int64_t g = 0; g < n; g++)
        order[g] = first[g];
    qsort(order, (size_t)n, sizeof *order, by_number);
    for (int64_t i = 0; i < s->length; i++) {
        int64_t *found = bsearch(&first[group[i]], order, (size_t)n, sizeof *order, by_number);

        group[i] = found - order;
    }
    memcpy(first, order, (size_t)n * sizeof *first);
    return n;
}

static int unique_outputs(struct tcc_lib_call *call, const struct slices *s, int axis, int rank, const int64_t *first,
                          const int64_t *group, int64_t n)
{
    int64_t dims[TCC_MAX_RANK], *out;
    void *y;

    memcpy(dims, s->x->dims, sizeof dims);
    dims[axis] = n;
    y = lib_out(call, 0, s->x->dtype, rank, dims);
    if (!y)
        return TCC_EENV;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t g = 0; g < n; g++)
            if (!lib_copy_n(y, (o * n + g) * s->inner, s->x, (o * s->length + first[g]) * s->inner, s->inner))
                return LIB_NO_MEMORY(call);
    if (lib_wants(call, 1)) {
        if (!(out = lib_out(call, 1, TCC_I64, 1, &n)))
            return TCC_EENV;
        memcpy(out, first, (size_t)n * sizeof *out);
    }
    if (lib_wants(call, 2)) {
        if (!(out = lib_out(call, 2, TCC_I64, 1, &s->length)))
            return TCC_EENV;
        memcpy(out, group, (size_t)s->length * sizeof *out);
    }
    if (lib_wants(call, 3)) {
        if (!(out = lib_out(call, 3, TCC_I64, 1, &n)))
            return TCC_EENV;
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t i = 0; i < s->length; i++)
            out[group[i]]++;
    }
    return TCC_OK;
}

/* x -> unique slices along attr axis (absent: elements of the flattened x), ascending if attr sorted (default 1) else
 * in order of appearance; the index of each one's first; each slice's number; counts. */
int tccrt_lib_unique(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    int axis = 0, rank = 1, status = lib_need(call, 0, -1, 0, &x);
    struct slices s = {.x = x, .outer = 1, .inner = 1, .nan_differs = lib_int(call, "nan_differs", 0)};
    int64_t *room, n;

    if (status)
        return status;
    s.length = lib_count(x);
    if (lib_attr(call, "axis")) {
        rank = x->rank;
        axis = lib_axis(lib_int(call, "axis", 0), rank);
        if (axis < 0)
            return LIB_FAIL(call, "axis %lld is outside a tensor of rank %d", (long long)lib_int(call, "axis", 0),
                            rank);
        s.length = x->dims[axis];
        s.outer = lib_product(axis, x->dims);
        s.inner = lib_product(rank - axis - 1, x->dims + axis + 1);
    }
    room = malloc(((size_t)s.length * 3 + 1) * sizeof *room);
    if (!room)
        return LIB_NO_MEMORY(call);
    n = group_slices(&s, lib_int(call, "sorted", 1) != 0, lib_int(call, "consecutive", 0) != 0, room, room + s.length,
                     room + 2 * s.length);
    status = unique_outputs(call, &s, axis, rank, room + s.length, room + 2 * s.length, n);
    free(room);
    return status;
}

#define MOST_BINS (INT64_C(1) << 40)

/* -- Counts ------------------------------------------------------------------------------------------------------- */

/* (x[n], weights[n]?) attr minlength -> counts, or sums of weights. */
int tccrt_lib_bincount(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x, *w = NULL;
    int64_t n, length = lib_int(call, "minlength", 0);
    int status = lib_need(call, 0, 1, LIB_NUMBER, &x);
    void *out;

    if (!status && lib_has(call, 1))
        status = lib_need(call, 1, 1, LIB_NUMBER, &w);
    if (status)
        return status;
    n = x->dims[0];
    if (w && w->dims[0] != n)
        return LIB_FAIL(call, "%lld weights for %lld numbers", (long long)w->dims[0], (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = lib_get_int(x, i);

        if (v < 0 || v >= MOST_BINS)
            return LIB_FAIL(call, "%lld can't be counted: numbers from 0 on are", (long long)v);
        length = v >= length ? v + 1 : length;
    }
    if (!(out = lib_out(call, 0, w ? w->dtype : TCC_I64, 1, &length)))
        return TCC_EENV;
    memset(out, 0, (size_t)length * (size_t)lib_bytes(w ? w->dtype : TCC_I64));
    struct tcc_tensor sums = {.data = out, .dtype = w ? w->dtype : TCC_I64};
    for (int64_t i = 0; i < n; i++) {
        int64_t v = lib_get_int(x, i);

        if (w)
            lib_put(out, w->dtype, v, lib_get(&sums, v) + lib_get(w, i));
        else
            ((int64_t *)out)[v]++;
    }
    return TCC_OK;
}

/* -- Non-maximum suppression -------------------------------------------------------------------------------------- */

struct nms {
    const struct tcc_tensor *boxes, *scores;
    bool center;
    double iou, threshold;
    int64_t most;
};

static void corners(const struct nms *s, int64_t batch, int64_t i, double *c)
{
    double v[4];

    for (int k = 0; k < 4; k++)
        v[k] = lib_get(s->boxes, (batch * s->boxes->dims[1] + i) * 4 + k);
    if (s->center) {
        c[0] = v[0] - v[2] / 2;
        c[1] = v[1] - v[3] / 2;
        c[2] = v[0] + v[2] / 2;
        c[3] = v[1] + v[3] / 2;
        return;
    }
    for (int k = 0; k < 2; k++) {
        c[k] = fmin(v[k], v[k + 2]);
        c[k + 2] = fmax(v[k], v[k + 2]);
    }
}

static bool overlaps(const struct nms *s, int64_t batch, int64_t i, int64_t j)
{
    double a[4], b[4], area, both;

    corners(s, batch, i, a);
    corners(s, batch, j, b);
    both = fmax(0, fmin(a[2], b[2]) - fmax(a[0], b[0])) * fmax(0, fmin(a[3], b[3]) - fmax(a[1], b[1]));
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
    return area > 0 && both / area > s->iou;
}

struct scored {
    double score;
    int64_t box;
};

static int better(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    return x->score > y->score ? -1 : x->score < y->score ? 1 : (x->box > y->box) - (x->box < y->box);
}

/* Boxes kept for one class of one batch entry, into `kept`. */
static int64_t suppress(const struct nms *s, int64_t batch, int64_t class, struct scored *order, int64_t *kept)
{
    int64_t boxes = s->boxes->dims[1], n = 0, nkept = 0;

    for (int64_t i = 0; i < boxes; i++) {
        double score = lib_get(s->scores, (batch * s->scores->dims[1] + class) * boxes + i);

        if (score > s->threshold)
            order[n++] = (struct scored){score, i};
    }
    qsort(order, (size_t)n, sizeof *order, better);
    for (int64_t i = 0; i < n && nkept < s->most; i++) {
        bool keep = true;

        for (int64_t k = 0; k < nkept && keep; k++)
            keep = !overlaps(s, batch, order[i].box, kept[k]);
        if (keep)
            kept[nkept++] = order[i].box;
    }
    return nkept;
}

/* (boxes f32[b, n, 4], scores f32[b, c, n], most per class? (default 0: none), iou? (0), score threshold?) attr
 * center_point_box -> i64[k, 3]: batch, class, box; by batch, then class, then falling score. */
int tccrt_lib_nonmaxsuppression(struct tcc_lib_call *call)
{
    struct nms s = {.center = lib_int(call, "center_point_box", 0) != 0, .threshold = -INFINITY};
    const struct tcc_tensor *t;
    int64_t batches, classes, boxes, limit, dims[2] = {0, 3}, *room, *kept, *found, n = 0;
    struct scored *order;
    void *out;
    int status;

    if ((status = lib_need(call, 0, 3, LIB_NUMBER, &s.boxes)) || (status = lib_need(call, 1, 3, LIB_NUMBER, &s.scores)))
        return status;
    batches = s.scores->dims[0];
    classes = s.scores->dims[1];
    boxes = s.scores->dims[2];
    if (s.boxes->dims[0] != batches || s.boxes->dims[1] != boxes || s.boxes->dims[2] != 4)
        return LIB_FAIL(call, "boxes and scores do not fit: [%lld, %lld, %lld] and [%lld, %lld, %lld]",
                        (long long)s.boxes->dims[0], (long long)s.boxes->dims[1], (long long)s.boxes->dims[2],
                        (long long)batches, (long long)classes, (long long)boxes);
    s.most = (t = lib_in(call, 2)) && lib_count(t) ? lib_get_int(t, 0) : 0;
    s.iou = (t = lib_in(call, 3)) && lib_count(t) ? lib_get(t, 0) : 0;
    if ((t = lib_in(call, 4)) && lib_count(t))
        s.threshold = lib_get(t, 0);
    limit = s.most < boxes ? s.most : boxes;
    limit = limit < 0 ? 0 : limit;
    room = malloc((size_t)(limit * batches * classes) * 3 * sizeof *room +
                  (size_t)boxes * (sizeof *kept + sizeof *order) + 1);
    if (!room)
        return LIB_NO_MEMORY(call);
    found = room;
    kept = room + limit * batches * classes * 3;
    order = (struct scored *)(kept + boxes);
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t c = 0; c < classes; c++) {
            int64_t k = suppress(&s, b, c, order, kept);

            for (int64_t i = 0; i < k; i++, n++)
                memcpy(found + 3 * n, (int64_t[3]){b, c, kept[i]}, 3 * sizeof *found);
        }
    }
    dims[0] = n;
    out = lib_out(call, 0, TCC_I64, 2, dims);
    if (out && n)
        memcpy(out, found, (size_t)n * 3 * sizeof *found);
    free(room);
    return out ? TCC_OK : TCC_EENV;
}
