/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX TfIdfVectorizer: counts n-grams of a pool in each row, with gaps of up to max_skip_count items between their
 * members. The pool's n-grams form a tree of items (first child, next sibling).
 */
#include "runtime/libop/libop_int.h"

struct node {
    int64_t item;
    int64_t child, next;
    int64_t gram;
}; /* item: index into the pool; gram: number of an n-gram, or -1 */

struct tfidf {
    const struct tcc_attr *ints, *texts, *starts, *columns, *weights;
    enum weighting { TF, IDF, TFIDF } weighting;
    int64_t least, most, skips, width;
    struct node *nodes;
    int64_t nnodes;
};

static bool same_item(const struct tfidf *t, int64_t item, const struct tcc_tensor *x, int64_t i)
{
    if (!t->texts)
        return t->ints->ints[item] == lib_get_int(x, i);
    struct tcc_string s = {(char *)t->texts->strings[item], (int64_t)strlen(t->texts->strings[item])};

    return lib_compare_strings(&s, (const struct tcc_string *)x->data + i) == 0;
}

static bool same_in_pool(const struct tfidf *t, int64_t a, int64_t b)
{
    return t->texts ? strcmp(t->texts->strings[a], t->texts->strings[b]) == 0 : t->ints->ints[a] == t->ints->ints[b];
}

static int64_t child_in_pool(struct tfidf *t, int64_t parent, int64_t item)
{
    int64_t k;

    for (k = t->nodes[parent].child; k >= 0; k = t->nodes[k].next)
        if (same_in_pool(t, t->nodes[k].item, item))
            return k;
    k = t->nnodes++;
    t->nodes[k] = (struct node){item, -1, t->nodes[parent].child, -1};
    t->nodes[parent].child = k;
    return k;
}

/* n-grams of size s are pool items [starts[s - 1], starts[s]); those of unwanted sizes are numbered but not kept. */
static int build(struct tcc_lib_call *call, struct tfidf *t, int64_t items)
{
    int64_t gram = 0;

    t->nodes[0] = (struct node){-1, -1, -1, -1};
    t->nnodes = 1;
    for (int s = 0; s < t->starts->n; s++) {
        int64_t first = t->starts->ints[s], end = s + 1 < t->starts->n ? t->starts->ints[s + 1] : items, size = s + 1;

        if (first < 0 || end > items || first > end || (end - first) % size)
            return LIB_FAIL(call, "ngram_counts does not divide the pool");
        for (int64_t i = first; i < end; i += size, gram++) {
            int64_t at = 0;

            if (gram >= t->columns->n)
                return LIB_FAIL(call, "ngram_indexes is shorter than the pool");
            if (size < t->least || size > t->most)
                continue;
            for (int64_t k = 0; k < size; k++)
                at = child_in_pool(t, at, i + k);
            if (t->nodes[at].gram >= 0)
                return LIB_FAIL(call, "n-gram %lld is in the pool twice", (long long)gram);
            t->nodes[at].gram = gram;
        }
    }
    return TCC_OK;
}

static int64_t find_child(const struct tfidf *t, int64_t parent, const struct tcc_tensor *x, int64_t i)
{
    for (int64_t k = t->nodes[parent].child; k >= 0; k = t->nodes[k].next)
        if (same_item(t, t->nodes[k].item, x, i))
            return k;
    return -1;
}

/* Weights belong to the pool's n-grams, of which several may share a column. IDF: that of the last one found, as ONNX
 * Runtime has it. */
static void count(const struct tfidf *t, int64_t gram, float *row)
{
    float w = t->weights ? (float)t->weights->floats[gram] : 1, *y = &row[t->columns->ints[gram]];

    *y = t->weighting == IDF ? w : *y + (t->weighting == TFIDF ? w : 1);
}

/* Single items are counted once, longer n-grams for every gap. */
static void count_row(const struct tfidf *t, const struct tcc_tensor *x, int64_t base, int64_t n, float *row)
{
    int64_t least = t->least;

    for (int64_t gap = 1; gap <= t->skips + 1 && least <= t->most; gap++) {
        for (int64_t start = 0; start + gap * (least - 1) < n; start++) {
            int64_t at = 0;

            for (int64_t size = 1, i = start; size <= t->most && i < n; size++, i += gap) {
                at = find_child(t, at, x, base + i);
                if (at < 0)
                    break;
                if (size >= least && t->nodes[at].gram >= 0)
                    count(t, t->nodes[at].gram, row);
            }
        }
        least += least == 1;
    }
}

static int read_weights(struct tcc_lib_call *call, struct tfidf *t)
{
    static const char *const names[] = {[TF] = "TF", [IDF] = "IDF", [TFIDF] = "TFIDF"};
    const char *mode = lib_text(call, "mode", "TF");
    int k = 0;

    while (k <= TFIDF && strcmp(mode, names[k]))
        k++;
    if (k > TFIDF)
        return LIB_FAIL(call, "mode '%s': TF, IDF or TFIDF is expected", mode);
    t->weighting = (enum weighting)k;
    t->weights = lib_attr(call, "weights");
    if (t->weights && (t->weights->kind != TCC_ATTR_FLOATS || t->weights->n != t->columns->n))
        return LIB_FAIL(call, "weights must have a value for each of the %lld n-grams", (long long)t->columns->n);
    return TCC_OK;
}

static int read_tfidf(struct tcc_lib_call *call, struct tfidf *t)
{
    t->ints = lib_attr(call, "pool_int64s");
    t->texts = lib_attr(call, "pool_strings");
    t->texts = t->texts && t->texts->n ? t->texts : NULL;
    t->starts = lib_attr(call, "ngram_counts");
    t->columns = lib_attr(call, "ngram_indexes");
    t->least = lib_int(call, "min_gram_length", 1);
    t->most = lib_int(call, "max_gram_length", 1);
    t->skips = lib_int(call, "max_skip_count", 0);
    if ((!t->ints && !t->texts) || !t->starts || !t->columns || t->starts->kind != TCC_ATTR_INTS ||
        t->columns->kind != TCC_ATTR_INTS || t->least < 1 || t->most < t->least || t->skips < 0 || t->skips > 1 << 20)
        return LIB_FAIL(call, "a pool, ngram_counts, ngram_indexes and possible gram lengths are needed");
    for (int i = 0; i < t->columns->n; i++) {
        if (t->columns->ints[i] < 0 || t->columns->ints[i] > INT32_MAX)
            return LIB_FAIL(call, "ngram_indexes[%d] is %lld", i, (long long)t->columns->ints[i]);
        t->width = t->columns->ints[i] + 1 > t->width ? t->columns->ints[i] + 1 : t->width;
    }
    return read_weights(call, t);
}

/* x[c] or x[n, c] of i32, i64 or strings -> f32[width] or [n, width] */
int tccrt_lib_tfidfvectorizer(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct tfidf t = {0};
    int64_t dims[2], rows, items;
    float *y;
    int status;

    if ((status = lib_need(call, 0, -1, 0, &x)) || (status = read_tfidf(call, &t)))
        return status;
    if (x->rank < 1 || x->rank > 2 || (x->dtype == TCC_STRING) != (t.texts != NULL))
        return LIB_FAIL(call, "x must be [c] or [n, c], of the pool's type");
    rows = x->rank == 2 ? x->dims[0] : 1;
    dims[0] = rows;
    dims[x->rank - 1] = t.width;
    if (!(y = lib_out(call, 0, TCC_F32, x->rank, dims)))
        return TCC_EENV;
    memset(y, 0, (size_t)(rows * t.width) * sizeof *y);
    items = t.texts ? t.texts->n : t.ints->n;
    if (!(t.nodes = malloc(((size_t)items + 1) * sizeof *t.nodes)))
        return LIB_NO_MEMORY(call);
    status = build(call, &t, items);
    for (int64_t r = 0; r < rows && !status; r++)
        count_row(&t, x, r * x->dims[x->rank - 1], x->dims[x->rank - 1], y + r * t.width);
    free(t.nodes);
    return status;
}
