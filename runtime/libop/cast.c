/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cast between strings and numbers, and between number types of tensors whose rank is not known. Numbers become the
 * shortest decimal digits that read back as the same value of their type, written as Python does; texts are read in the
 * C locale whatever the program's is.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "runtime/libop/libop_int.h"

/* Decimal digits and exponent -> "1.5", "0.001", "1e-05", "1e+16", "3.0". */
static void layout(char *to, const char *scientific, int limit)
{
    char digits[32];
    int n = 0, e = atoi(strchr(scientific, 'e') + 1);
    const char *p = scientific;

    if (*p == '-')
        *to++ = *p++;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    if (e < -4 || e >= limit) {
        sprintf(to, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1, e < 0 ? '-' : '+', abs(e));
    } else if (e < 0) {
        sprintf(to, "0.%0*d%s", -e - 1, 0, digits);
        if (e == -1)
            sprintf(to, "0.%s", digits);
    } else if (n <= e + 1) {
        sprintf(to, "%s%0*d", digits, e + 1 - n, 0);
        if (e + 1 == n)
            sprintf(to, "%s", digits);
        strcat(to, ".0");
    } else {
        sprintf(to, "%.*s.%s", e + 1, digits, digits + e + 1);
    }
}

/* Whether `text` reads back as element i of t. */
static bool reads_back(const struct tcc_tensor *t, int64_t i, const char *text, locale_t c)
{
    struct tcc_tensor one = {.dtype = t->dtype};
    double back[2] = {0};

    one.data = back;
    lib_put(back, t->dtype, 0, strtod_l(text, NULL, c));
    return lib_get(&one, 0) == lib_get(t, i);
}

static void float_text(const struct tcc_tensor *t, int64_t i, char *to, locale_t c)
{
    double v = lib_get(t, i);
    char text[64];

    if (isnan(v)) {
        strcpy(to, "nan");
        return;
    }
    if (isinf(v)) {
        strcpy(to, v < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 0; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, v);
        if (reads_back(t, i, text, c))
            break;
    }
    layout(to, text, 16);
}

/* x -> strings. Integers in decimal, bools as True and False, floats: nan, inf, -inf, or shortest digits. */
int tccrt_lib_cast_to_string(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct tcc_string *y;
    int64_t n;
    locale_t c, old;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    n = lib_count(x);
    if (!(y = lib_out(call, 0, TCC_STRING, x->rank, x->dims)))
        return TCC_EENV;
    if (!(c = newlocale(LC_ALL_MASK, "C", (locale_t)0)))
        return LIB_NO_MEMORY(call);
    old = uselocale(c);
    for (int64_t i = 0; i < n && !status; i++) {
        const struct tcc_string *s = x->data;
        char text[64];

        if (lib_class(x->dtype) == TCC_CLASS_FLOAT)
            float_text(x, i, text, c);
        else if (x->dtype == TCC_BOOL)
            strcpy(text, lib_get_int(x, i) ? "True" : "False");
        else
            snprintf(text, sizeof text, x->dtype == TCC_U64 ? "%llu" : "%lld", (long long)lib_get_int(x, i));
        if (x->dtype == TCC_STRING ? tccrt_string_set(&y[i], s[i].data, s[i].size)
                                   : tccrt_string_set(&y[i], text, (int64_t)strlen(text)))
            status = LIB_NO_MEMORY(call);
    }
    uselocale(old);
    freelocale(c);
    return status;
}

/* One text as a number; false: it is none. Surrounding white space is allowed. */
static bool read_number(const char *text, int dtype, void *to, int64_t i, locale_t c)
{
    int class = lib_class(dtype);
    char *end;

    errno = 0;
    if (class == TCC_CLASS_INT || class == TCC_CLASS_UINT) {
        int64_t v = dtype == TCC_U64 ? (int64_t)strtoull(text, &end, 10) : strtoll(text, &end, 10);

        while (*end == ' ' || (*end >= '\t' && *end <= '\r'))
            end++;
        if (end != text && !*end && !errno) {
            lib_put_int(to, dtype, i, v);
            return true;
        }
    }
    if (class == TCC_CLASS_BOOL && (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0)) {
        lib_put_int(to, dtype, i, text[0] == 't' || text[0] == 'T');
        return true;
    }
    lib_put(to, dtype, i, strtod_l(text, &end, c));
    if (end == text)
        return false;
    while (*end == ' ' || (*end >= '\t' && *end <= '\r'))
        end++;
    return !*end;
}

/* x -> numbers of type attr to. Plain and scientific notation, NaN, INF, +INF, -INF in any case. */
int tccrt_lib_cast_from_string(struct tcc_lib_call *call)
{
    int to = (int)lib_int(call, "to", TCC_F32);
    const struct tcc_tensor *x;
    locale_t c;
    int64_t n;
    void *y;
    int status = lib_need(call, 0, -1, TCC_STRING, &x);

    if (status)
        return status;
    if (!lib_bytes(to) || to == TCC_STRING || lib_class(to) == TCC_CLASS_COMPLEX)
        return LIB_FAIL(call, "strings cannot be cast to type %d", to);
    n = lib_count(x);
    if (!(y = lib_out(call, 0, to, x->rank, x->dims)))
        return TCC_EENV;
    if (!(c = newlocale(LC_ALL_MASK, "C", (locale_t)0)))
        return LIB_NO_MEMORY(call);
    for (int64_t i = 0; i < n && !status; i++) {
        const struct tcc_string *s = (const struct tcc_string *)x->data + i;
        char *text = strndup(s->size ? s->data : "", (size_t)s->size);

        if (!text)
            status = LIB_NO_MEMORY(call);
        else if (!read_number(text, to, y, i, c))
            status = LIB_FAIL(call, "'%.60s' is not a number", text);
        free(text);
    }
    freelocale(c);
    return status;
}

int tccrt_lib_dyn_cast(struct tcc_lib_call *call)
{
    int to = (int)lib_int(call, "to", TCC_F32);
    bool ints, saturate = lib_int(call, "saturate", 1) != 0;
    const struct tcc_tensor *x;
    int64_t n;
    void *y;
    int status = lib_need(call, 0, -1, LIB_NUMBER, &x);

    if (status)
        return status;
    if (!lib_bytes(to) || to == TCC_STRING || x->dtype == TCC_STRING || lib_class(to) == TCC_CLASS_COMPLEX ||
        lib_class(x->dtype) == TCC_CLASS_COMPLEX)
        return LIB_FAIL(call, "a cast from type %d to type %d", x->dtype, to);
    n = lib_count(x);
    if (!(y = lib_out(call, 0, to, x->rank, x->dims)))
        return TCC_EENV;
    ints = lib_class(x->dtype) != TCC_CLASS_FLOAT && lib_class(to) != TCC_CLASS_FLOAT;
    for (int64_t i = 0; i < n; i++) {
        if (ints)
            lib_put_int(y, to, i, lib_get_int(x, i));
        else
            (saturate ? lib_put : lib_put_overflowing)(y, to, i, lib_get(x, i));
    }
    return TCC_OK;
}

int tccrt_lib_bitcast(struct tcc_lib_call *call)
{
    int to = (int)lib_int(call, "to", TCC_F32);
    const struct tcc_tensor *x;
    int64_t n, dims[TCC_MAX_RANK];
    uint8_t *y;
    int status = lib_need(call, 0, -1, 0, &x);

    if (status)
        return status;
    int from = lib_bytes(x->dtype), wide = lib_bytes(to), last = x->rank - 1;
    if (!wide || to == TCC_STRING || x->dtype == TCC_STRING || (last < 0 && from != wide))
        return LIB_FAIL(call, "the bits of type %d as type %d", x->dtype, to);
    memcpy(dims, x->dims, sizeof dims);
    if (from != wide) {
        if (dims[last] * from % wide)
            return LIB_FAIL(call, "a last size of %lld, of elements of %d bytes, for elements of %d bytes",
                            (long long)dims[last], from, wide);
        dims[last] = dims[last] * from / wide;
    }
    n = lib_product(x->rank, dims);
    if (!(y = lib_out(call, 0, to, x->rank, dims)))
        return TCC_EENV;
    if (n)
        memcpy(y, x->data, (size_t)n * (size_t)lib_bytes(to));
    /* Narrow types are held one to a byte: signed ones extended, others with zeros above. */
    int bits = to == TCC_U4 || to == TCC_I4 || to == TCC_F4E2M1 ? 4 : to == TCC_U2 || to == TCC_I2 ? 2 : 8;
    for (int64_t i = 0; i < n && bits < 8; i++) {
        int low = y[i] & ((1 << bits) - 1);
        y[i] = (uint8_t)((to == TCC_I4 || to == TCC_I2) && low >> (bits - 1) ? low - (1 << bits) : low);
    }
    return TCC_OK;
}
