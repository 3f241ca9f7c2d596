/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants: tensors of the file as IR tensors, and the values of constant operands.
 *
 * Elements that lie in a file as the IR wants them stay there (a range of the mapped file); 2- and 4-bit elements are
 * unpacked to one a byte, strings become struct tcc_string, small tensors are copied so that they don't keep a file
 * open.
 */
#include "compiler/onnx/import_int.h"

#include <stdlib.h>
#include <string.h>

#define COPY_BELOW 1024 /* bytes */

static struct ir_file *file_of(struct imp *im, uint32_t index)
{
    char error[400];
    if (!im->files[index]) {
        im->files[index] = ir_file_get(im->ctx, im->model->files[index].path, error, sizeof error);
        if (!im->files[index])
            imp_bad(im, "%s", error);
    }
    return im->files[index];
}

static void unpack_bits(const struct onnx_tensor *t, uint32_t bits, bool sign, uint8_t *out)
{
    uint32_t per = 8 / bits;
    uint8_t mask = (uint8_t)((1u << bits) - 1);
    for (uint64_t k = 0; k < t->count; k++) {
        uint8_t v = (uint8_t)(t->bytes[k / per] >> (k % per * bits)) & mask;
        if (sign && v >> (bits - 1))
            v |= (uint8_t)~mask;
        out[k] = v;
    }
}

static bool copy_strings(struct ir_tensor *to, const struct onnx_tensor *t)
{
    struct tcc_string *s = (struct tcc_string *)(uintptr_t)to->data;
    for (uint64_t k = 0; k < t->count; k++) {
        s[k].data = malloc(t->strings[k].size + 1);
        if (!s[k].data)
            return false;
        memcpy(s[k].data, t->strings[k].data, t->strings[k].size);
        s[k].size = (int64_t)t->strings[k].size;
    }
    return true;
}

struct ir_tensor *imp_tensor_data(struct imp *im, const struct onnx_tensor *t)
{
    if (t->rank > TCC_MAX_RANK || (int)t->dtype >= TCC_NDTYPES)
        return imp_bad(im, "tensor '%s': %s", t->name,
                       t->rank > TCC_MAX_RANK ? "more than 12 dims" : "6-bit floats are not supported"),
               NULL;
    enum tcc_dtype dtype = (enum tcc_dtype)t->dtype;
    uint32_t bits = onnx_dtype_bits(t->dtype);
    if (t->file != ONNX_NO_FILE && im->model->files[t->file].path[0] && bits >= 8 && t->byte_count >= COPY_BELOW) {
        struct ir_file *file = file_of(im, t->file);
        return file ? imp_keep(im, ir_tensor_file(dtype, (int)t->rank, t->dims, file, t->offset)) : NULL;
    }
    struct ir_tensor *to = imp_keep(im, ir_tensor_new(dtype, (int)t->rank, t->dims));
    void *data = (void *)(uintptr_t)to->data;
    if (dtype == TCC_STRING) {
        if (!copy_strings(to, t))
            ir_no_memory(im->ctx);
    } else if (bits < 8) {
        unpack_bits(t, bits, dtype == TCC_I4 || dtype == TCC_I2, data);
    } else if (t->byte_count) {
        memcpy(data, t->bytes, t->byte_count);
    }
    return to;
}

struct ir_value *imp_tensor_const(struct imp *im, const struct onnx_tensor *t)
{
    struct ir_tensor *data = imp_tensor_data(im, t);
    return data ? ir_constant(&im->b, ir_tensor_ref(data)) : NULL;
}

/* Where element k of a sparse tensor lies in the dense one; -1 after a message. */
static int64_t sparse_place(struct imp *im, const struct onnx_sparse *s, const struct ir_tensor *indices, int64_t k,
                            int64_t elements)
{
    int64_t at = 0, per = indices->rank == 2 ? (int64_t)s->rank : 1;
    for (int64_t j = 0; j < per; j++) {
        int64_t i = tcc_load_i64(TCC_I64, ir_tensor_at(indices, k * per + j));
        int64_t bound = indices->rank == 2 ? s->dims[j] : elements;
        if (i < 0 || i >= bound)
            return imp_bad(im, "a sparse tensor with index %lld of %lld", (long long)i, (long long)bound), -1;
        at = indices->rank == 2 ? at * bound + i : i;
    }
    return at;
}

static bool fill_sparse(struct imp *im, const struct onnx_sparse *s, const struct ir_tensor *values,
                        const struct ir_tensor *indices, struct ir_tensor *to)
{
    int size = tcc_dtype_bytes(values->dtype);
    bool *given = IR_NEWN(im->ctx, to->nelems + 1, bool);
    for (int64_t k = 0; k < values->nelems; k++) {
        int64_t at = sparse_place(im, s, indices, k, to->nelems);
        if (at < 0)
            return false;
        if (given[at])
            return imp_bad(im, "a sparse tensor with element %lld twice", (long long)at);
        given[at] = true;
        memcpy((char *)(uintptr_t)to->data + at * size, ir_tensor_at(values, k), (size_t)size);
    }
    return true;
}

struct ir_value *imp_sparse_const(struct imp *im, const struct onnx_sparse *s)
{
    struct ir_tensor *values = imp_tensor_data(im, s->values),
                     *indices = values ? imp_tensor_data(im, s->indices) : NULL;
    if (!indices)
        return NULL;
    bool fine = s->rank <= TCC_MAX_RANK && indices->dtype == TCC_I64 && values->dtype != TCC_STRING &&
                tcc_dtype_bytes(values->dtype) > 0 && values->rank == 1 && tcc_elements((int)s->rank, s->dims) >= 0;
    struct ir_tensor *to = fine ? imp_keep(im, ir_tensor_new(values->dtype, (int)s->rank, s->dims)) : NULL;
    if (!to)
        return imp_unsupported(im, "a sparse tensor of this form"), NULL;
    bool linear = indices->rank == 1, fits = linear || (indices->rank == 2 && indices->dims[1] == (int64_t)s->rank);
    if (!fits || indices->dims[0] != values->nelems)
        return imp_bad(im, "a sparse tensor with %lld values, %lld indices and %u dims", (long long)values->nelems,
                       (long long)indices->nelems, s->rank),
               NULL;
    return fill_sparse(im, s, values, indices, to) ? imp_const(im, ir_tensor_ref(to)) : NULL;
}
