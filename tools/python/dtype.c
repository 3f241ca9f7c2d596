/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: ours, numpy's names, letters of the buffer protocol (PEP 3118), DLPack's codes (dtypes.def). */
#include "tools/python/python_int.h"

#include <string.h>

static const struct {
    const char *name, *format;
    int code, bits;
} types[TCC_NDTYPES] = {
#define X(id, name, format, code, bits) [TCC_##id] = {name, format, code, bits},
#include "tools/python/dtypes.def"
#undef X
};

static const uint8_t sizes[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = bytes,
    TCC_DTYPES(X)
#undef X
};

const char *py_dtype_name(int dtype)
{
    return dtype > 0 && dtype < TCC_NDTYPES && types[dtype].name ? types[dtype].name : "none";
}

int py_dtype_bytes(int dtype)
{
    return dtype > 0 && dtype < TCC_NDTYPES ? sizes[dtype] : 0;
}

bool py_dtype_has_format(int dtype)
{
    return dtype > 0 && dtype < TCC_NDTYPES && types[dtype].format;
}

const char *py_dtype_format(int dtype)
{
    return py_dtype_has_format(dtype) ? types[dtype].format : py_dtype_bytes(dtype) == 2 ? "H" : "B";
}

int py_dtype_of_name(const char *name)
{
    for (int i = 1; i < TCC_NDTYPES; i++)
        if (types[i].name && strcmp(types[i].name, name) == 0)
            return i;
    return TCC_NONE;
}

/* Integers go by their size: long is what int64 is here, and `l` stands for either. */
static int integer(bool sign, Py_ssize_t size)
{
    static const int by_size[2][9] = {{[1] = TCC_U8, [2] = TCC_U16, [4] = TCC_U32, [8] = TCC_U64},
                                      {[1] = TCC_I8, [2] = TCC_I16, [4] = TCC_I32, [8] = TCC_I64}};
    return size >= 0 && size <= 8 ? by_size[sign][size] : TCC_NONE;
}

int py_dtype_of_buffer(const Py_buffer *view)
{
    const char *f = view->format ? view->format : "B";
    if (*f == '@' || *f == '=' || *f == '<')
        f++;
    if (*f && !f[1] && strchr("bhilqn", *f))
        return integer(true, view->itemsize);
    if (*f && !f[1] && strchr("BHILQN", *f))
        return integer(false, view->itemsize);
    for (int i = 1; i < TCC_NDTYPES; i++)
        if (types[i].format && strcmp(types[i].format, f) == 0 && sizes[i] == view->itemsize)
            return i;
    return TCC_NONE;
}

int py_dtype_of_dlpack(struct dl_type type)
{
    for (int i = 1; i < TCC_NDTYPES; i++)
        if (types[i].name && types[i].code == type.code && types[i].bits == type.bits && type.lanes == 1)
            return i;
    return TCC_NONE;
}

bool py_dlpack_of_dtype(int dtype, struct dl_type *type)
{
    if (dtype <= 0 || dtype >= TCC_NDTYPES || !types[dtype].name || types[dtype].code < 0)
        return false;
    *type = (struct dl_type){(uint8_t)types[dtype].code, (uint8_t)types[dtype].bits, 1};
    return true;
}
