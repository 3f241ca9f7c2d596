/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an archive of torch.export.save holds: format marks, the program, tensors.
 *
 * models/NAME.json is the program; data/weights/NAME_weights_config.json and data/constants/NAME_constants_config.json
 * say for each name in which entry its storage lies, and with which sizes, strides and offset it looks at that. A
 * contiguous tensor stays a range of the file; others are copied. Pickled values, and the formats of PyTorch up to 2.7,
 * which pickle all of them, are refused.
 */
#include "compiler/import/sniff.h"
#include "compiler/pt2/archive_int.h"

#include <string.h>

#define SCHEMA_MAJOR 8

/* -- JSON */

const char *js_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t js_int(const json_t *object, const char *key, int64_t otherwise)
{
    json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

json_t *js_object(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_object(v) ? v : NULL;
}

json_t *js_array(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_array(v) ? v : NULL;
}

const char *js_union(json_t *object, json_t **value)
{
    void *at = json_is_object(object) && json_object_size(object) == 1 ? json_object_iter(object) : NULL;
    *value = at ? json_object_iter_value(at) : NULL;
    return at ? json_object_iter_key(at) : NULL;
}

bool js_size(const json_t *size, int64_t *value)
{
    json_t *v = json_object_get(size, "as_int");
    *value = json_integer_value(v);
    return json_is_integer(v);
}

/* -- Entries */

static bool bad(struct pt2_archive *a, const char *what)
{
    return ir_error(a->ctx, &a->where, "%s", what);
}

static const struct pt2_entry *find(const struct pt2_archive *a, const char *name)
{
    int lo = 0, hi = a->n;
    while (lo < hi) {
        int middle = lo + (hi - lo) / 2, order = strcmp(name, a->entries[middle].name);
        if (!order)
            return &a->entries[middle];
        if (order < 0)
            hi = middle;
        else
            lo = middle + 1;
    }
    return NULL;
}

static const char *text_of(const struct pt2_archive *a, const struct pt2_entry *e)
{
    return (const char *)ir_file_data(a->file) + e->offset;
}

/* Does the entry hold this word, up to white space at its end? */
static bool holds(const struct pt2_archive *a, const char *name, const char *word)
{
    const struct pt2_entry *e = find(a, name);
    size_t n = strlen(word);
    if (!e || e->size < n || memcmp(text_of(a, e), word, n))
        return false;
    for (uint64_t k = n; k < e->size; k++) {
        if (!strchr(" \r\n", text_of(a, e)[k]))
            return false;
    }
    return true;
}

static json_t *read_json(struct pt2_archive *a, const struct pt2_entry *e)
{
    json_error_t error;
    json_t *root = json_loadb(text_of(a, e), e->size, JSON_REJECT_DUPLICATES, &error);
    if (!root || !json_is_object(root)) {
        ir_error(a->ctx, &a->where, "%s is not the JSON that is expected: %s", e->name,
                 root ? "no object" : error.text);
        json_decref(root);
        return NULL;
    }
    VEC_PUSH(a->ctx, a->held, root);
    return root;
}

/* The one entry FOLDER/NAME with that suffix; *several: there are more. */
static const struct pt2_entry *only(const struct pt2_archive *a, const char *folder, const char *suffix, bool *several)
{
    const struct pt2_entry *found = NULL;
    size_t n = strlen(folder), s = strlen(suffix);
    *several = false;
    for (int k = 0; k < a->n; k++) {
        const char *name = a->entries[k].name;
        size_t length = strlen(name);
        if (strncmp(name, folder, n) || length < n + s || strcmp(name + length - s, suffix))
            continue;
        *several |= found != NULL;
        found = &a->entries[k];
    }
    return found;
}

static bool read_config(struct pt2_archive *a, const char *folder, const char *suffix, json_t **config)
{
    bool several;
    const struct pt2_entry *e = only(a, folder, suffix, &several);
    if (several)
        return bad(a, "it holds several programs; archives of one are read");
    json_t *root = e ? read_json(a, e) : NULL;
    *config = root ? js_object(root, "config") : NULL;
    if (e && root && !*config)
        return bad(a, "its list of tensors has no member 'config'");
    return !e || root;
}

static bool check_marks(struct pt2_archive *a)
{
    if (find(a, "serialized_exported_program.json"))
        return bad(a, "written by PyTorch 2.7 or older, which pickles the weights: load it with torch.export.load and "
                      "save it again "
                      "with PyTorch 2.8 or later");
    if (find(a, "data.pkl") || find(a, "constants.pkl"))
        return bad(
            a,
            "a pickle of torch.save or TorchScript, which is never executed: write the model with torch.export.save");
    if (!find(a, "archive_format"))
        return bad(a, "a zip file, but no archive of torch.export.save (it has no entry archive_format)");
    if (!holds(a, "archive_format", "pt2") || !holds(a, "archive_version", "0"))
        return bad(a, "an archive of another format or version than pt2, version 0");
    if (find(a, "byteorder") && !holds(a, "byteorder", "little"))
        return bad(a, "its numbers are not little-endian");
    return true;
}

static bool check_schema(struct pt2_archive *a)
{
    int64_t major = js_int(js_object(a->program, "schema_version"), "major", -1);
    if (major == SCHEMA_MAJOR)
        return true;
    return ir_error(a->ctx, &a->where,
                    "schema version %lld; %d is supported: save the program again with PyTorch 2.8 to 2.15",
                    (long long)major, SCHEMA_MAJOR);
}

/* Names of sizes, an extra file that PyTorch's own format has no place for (tools/python: tccc.dim_names()): each of a
 * symbol of the program's, and each once. */
static bool read_dim_names(struct pt2_archive *a)
{
    const struct pt2_entry *e = find(a, "extra/dim_names");
    json_t *ranges = js_object(a->program, "range_constraints"), *taken = NULL, *name;
    const char *symbol;
    if (!e)
        return true;
    a->dim_names = read_json(a, e);
    if (!a->dim_names)
        return false;
    taken = json_object();
    VEC_PUSH(a->ctx, a->held, taken);
    json_object_foreach(a->dim_names, symbol, name)
    {
        const char *text = json_string_value(name);
        if (!text || !*text || strlen(text) > 100 || strcspn(text, " ,:;=|*'\"\\") < strlen(text) ||
            !js_object(ranges, symbol) || js_object(ranges, text) || json_object_get(taken, text))
            return bad(a, "extra/dim_names: expected {symbol: name}, each name once and none of a symbol's");
        json_object_set_new(taken, text, json_true());
    }
    return true;
}

bool pt2_open(struct pt2_archive *a, struct ir_ctx *ctx, const char *path)
{
    char error[400];
    bool several;
    *a = (struct pt2_archive){.ctx = ctx, .where = {.file = path}};
    a->file = ir_file_get(ctx, path, error, sizeof error);
    if (!a->file)
        return bad(a, error);
    const uint8_t *data = ir_file_data(a->file);
    uint64_t size = ir_file_size(a->file);
    if (size < 4 || memcmp(data, "PK", 2)) {
        const char *what = imp_sniff(data, size);
        return bad(a, what && size ? what : "not a .pt2 archive: no zip file");
    }
    a->entries = pt2_zip(ctx, &a->where, data, size, &a->n);
    if (!a->entries || !check_marks(a))
        return false;
    const struct pt2_entry *program = only(a, "models/", ".json", &several);
    if (!program || several)
        return bad(a, several ? "it holds several programs; archives of one are read"
                              : "it holds no program (models/NAME.json)");
    a->program = read_json(a, program);
    return a->program && check_schema(a) && read_dim_names(a) &&
           read_config(a, "data/weights/", "_weights_config.json", &a->weights) &&
           read_config(a, "data/constants/", "_constants_config.json", &a->constants);
}

void pt2_close(struct pt2_archive *a)
{
    for (int k = 0; k < a->held.n; k++)
        json_decref(a->held.at[k]);
    if (a->file)
        ir_file_unref(a->file);
    *a = (struct pt2_archive){0};
}

/* -- Tensors */

enum tcc_dtype pt2_dtype(int64_t code)
{
    static const uint8_t types[] = {
        [1] = TCC_U8,      [2] = TCC_I8,        [3] = TCC_I16,     [4] = TCC_I32,         [5] = TCC_I64,
        [6] = TCC_F16,     [7] = TCC_F32,       [8] = TCC_F64,     [12] = TCC_BOOL,       [13] = TCC_BF16,
        [28] = TCC_U16,    [29] = TCC_F8E4M3FN, [30] = TCC_F8E5M2, [31] = TCC_F8E4M3FNUZ, [32] = TCC_F8E5M2FNUZ,
        [33] = TCC_F8E8M0, [34] = TCC_U32,      [35] = TCC_U64};
    return code > 0 && code < (int64_t)(sizeof types) ? (enum tcc_dtype)types[code] : TCC_NONE;
}

enum tcc_dtype pt2_part_type(const json_t *meta)
{
    int64_t code = js_int(meta, "dtype", 0); /* ComplexFloat, ComplexDouble */
    return code == 10 ? TCC_F32 : code == 11 ? TCC_F64 : TCC_NONE;
}

enum tcc_dtype pt2_held_type(const json_t *meta)
{
    enum tcc_dtype part = pt2_part_type(meta);
    return part != TCC_NONE ? part : pt2_dtype(js_int(meta, "dtype", 0));
}

struct view {
    enum tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK], offset, count;
    bool contiguous;
};

/* From complex elements to pairs of their parts. */
static bool view_pairs(struct view *v)
{
    for (int k = 0; k < v->rank; k++) {
        if (v->strides[k] > INT64_MAX / 2)
            return false;
        v->strides[k] *= 2;
    }
    if (v->rank == TCC_MAX_RANK || v->offset > INT64_MAX / 2)
        return false;
    v->offset *= 2;
    v->dims[v->rank] = 2;
    v->strides[v->rank++] = 1;
    return true;
}

/* Of tensor_meta; everything is constant and inside a storage of `bytes`. NULL, or what is wrong. */
static const char *read_view(const json_t *meta, uint64_t bytes, struct view *v)
{
    json_t *sizes = js_array(meta, "sizes"), *strides = js_array(meta, "strides");
    size_t rank = json_array_size(sizes);
    v->dtype = pt2_held_type(meta);
    if (v->dtype == TCC_NONE)
        return "its element type is not supported";
    if (!sizes || rank > TCC_MAX_RANK || json_array_size(strides) != rank || js_int(meta, "layout", 7) != 7)
        return "its layout is not supported";
    if (!js_size(json_object_get(meta, "storage_offset"), &v->offset) || v->offset < 0)
        return "its offset is no number";
    v->rank = (int)rank;
    for (size_t k = 0; k < rank; k++) {
        if (!js_size(json_array_get(sizes, k), &v->dims[k]) || !js_size(json_array_get(strides, k), &v->strides[k]) ||
            v->dims[k] < 0 || v->strides[k] < 0)
            return "its sizes are no numbers";
    }
    if (pt2_part_type(meta) != TCC_NONE && !view_pairs(v))
        return "its layout is not supported";
    v->count = tcc_elements(v->rank, v->dims);
    int64_t item = tcc_dtype_bytes(v->dtype), room = (int64_t)(bytes / (uint64_t)item), last = v->offset, step = 1;
    if (v->count < 0 || (v->count && room - 1 < last))
        return "its data is missing or cut off";
    v->contiguous = true;
    for (int k = v->rank - 1; k >= 0 && v->count; k--) {
        v->contiguous &= v->dims[k] == 1 || v->strides[k] == step;
        step *= v->dims[k];
        if (v->dims[k] > 1 && v->strides[k] > (room - 1 - last) / (v->dims[k] - 1))
            return "its data is missing or cut off";
        last += (v->dims[k] - 1) * (v->dims[k] > 1 ? v->strides[k] : 0);
    }
    return NULL;
}

static void gather(const struct view *v, const uint8_t *from, uint8_t *to)
{
    int64_t at[TCC_MAX_RANK] = {0};
    size_t item = (size_t)tcc_dtype_bytes(v->dtype);
    for (int64_t i = 0; i < v->count; i++) {
        int64_t element = v->offset;
        for (int k = 0; k < v->rank; k++)
            element += at[k] * v->strides[k];
        memcpy(to + (size_t)i * item, from + (size_t)element * item, item);
        for (int k = v->rank - 1; k >= 0 && ++at[k] == v->dims[k]; k--)
            at[k] = 0;
    }
}

/* Bytes that a view may have that is more than its storage: with strides of 0, a few bytes of a hostile file would be
 * terabytes. */
#define MOST_REPEATED (UINT64_C(1) << 28)

static struct ir_tensor *refuse(struct pt2_archive *a, const char *name, const char *why)
{
    return ir_error(a->ctx, &a->where, "tensor '%s': %s", name, why), NULL;
}

struct ir_tensor *pt2_tensor(struct pt2_archive *a, const char *name, bool constant, uint64_t *storage)
{
    json_t *payload = js_object(constant ? a->constants : a->weights, name);
    const char *path = js_string(payload, "path_name");
    struct view v;
    if (!payload || !path)
        return refuse(a, name, "the archive has no data of that name");
    if (json_is_true(json_object_get(payload, "use_pickle")))
        return refuse(a, name,
                      "its data is pickled (a tensor subclass or a Python object), and pickles are never executed");
    const struct pt2_entry *e = find(a, ir_internf(a->ctx, "data/%s/%s", constant ? "constants" : "weights", path));
    if (!e)
        return refuse(a, name, ir_internf(a->ctx, "entry '%s' is missing", path));
    const char *why = read_view(js_object(payload, "tensor_meta"), e->size, &v);
    if (why)
        return refuse(a, name, why);
    uint64_t item = (uint64_t)tcc_dtype_bytes(v.dtype), first = e->offset + (uint64_t)v.offset * item;
    *storage = v.contiguous ? first : first ^ UINT64_C(1) << 63;
    struct ir_tensor *t;
    if ((uint64_t)v.count > e->size && (uint64_t)v.count > MOST_REPEATED / item)
        return refuse(a, name, "its view repeats the elements of its storage too often");
    if (v.contiguous && (uint64_t)v.count * item >= 1024) {
        t = ir_tensor_file(v.dtype, v.rank, v.dims, a->file, first);
    } else {
        t = ir_tensor_new(v.dtype, v.rank, v.dims);
        if (t && v.count)
            gather(&v, ir_file_data(a->file) + e->offset, (uint8_t *)(uintptr_t)t->data);
    }
    if (!t)
        ir_no_memory(a->ctx);
    return t;
}
