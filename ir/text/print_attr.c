/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_attr.c - text of attributes and constant data.
 *
 * Data is a list of numbers where each reads back to the same bits and there are few; else the raw bytes in
 * hexadecimal, or the range of the file that they lie in.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"

#define MAX_LISTED 64

/* Digits for %g that write a number below 1e15 without an exponent, which would be longer. */
static int whole_digits(double v, int digits)
{
    int whole = v != 0 ? (int)floor(log10(fabs(v))) + 1 : 1;
    return whole > digits && whole <= 15 ? whole : digits;
}

void ir_print_double(FILE *out, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        fputs(isnan(v) ? "nan" : v < 0 ? "-inf" : "inf", out);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", whole_digits(v, digits), v);
        if (strtod(text, NULL) == v)
            break;
    }
    fputs(text, out);
}

/* The shortest decimal that the element type reads back as v. */
static void print_float(FILE *out, enum tcc_dtype dtype, double v)
{
    char text[40];
    unsigned char want[16] = {0}, got[16] = {0};
    if (isnan(v) || isinf(v)) {
        ir_print_double(out, v);
        return;
    }
    tcc_store_f64(dtype, want, v);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", whole_digits(v, digits), v);
        tcc_store_f64(dtype, got, strtod(text, NULL));
        if (memcmp(want, got, sizeof want) == 0)
            break;
    }
    fputs(text, out);
}

/* Do all listed elements read back as they are? Not so NaNs with a payload. */
static bool listable(const struct ir_tensor *t)
{
    enum tcc_class class = tcc_dtype_class(t->dtype);
    int64_t n = t->splat && t->nelems ? 1 : t->nelems;
    if (class == TCC_CLASS_STRING)
        return true;
    if (class == TCC_CLASS_COMPLEX || (!t->splat && n > MAX_LISTED))
        return false;
    for (int64_t i = 0; i < n && class != TCC_CLASS_BOOL; i++) {
        unsigned char back[16] = {0};
        if (class == TCC_CLASS_FLOAT)
            tcc_store_f64(t->dtype, back, tcc_load_f64(t->dtype, ir_tensor_at(t, i)));
        else /* of fewer bits than a byte */
            tcc_store_i64(t->dtype, back, tcc_load_i64(t->dtype, ir_tensor_at(t, i)));
        if (memcmp(back, ir_tensor_at(t, i), (size_t)tcc_dtype_bytes(t->dtype)) != 0)
            return false;
    }
    for (int64_t i = 0; i < n && class == TCC_CLASS_BOOL; i++) {
        if (*(const uint8_t *)ir_tensor_at(t, i) > 1)
            return false;
    }
    return true;
}

static void print_element(FILE *out, const struct ir_tensor *t, int64_t i)
{
    const void *p = ir_tensor_at(t, i);
    switch (tcc_dtype_class(t->dtype)) {
    case TCC_CLASS_STRING: {
        const struct tcc_string *s = p;
        ir_print_bytes(out, s->data ? s->data : "", (size_t)s->size);
        break;
    }
    case TCC_CLASS_FLOAT: print_float(out, t->dtype, tcc_load_f64(t->dtype, p)); break;
    case TCC_CLASS_BOOL: fputs(*(const uint8_t *)p ? "true" : "false", out); break;
    case TCC_CLASS_UINT: fprintf(out, "%" PRIu64, (uint64_t)tcc_load_i64(t->dtype, p)); break;
    default: fprintf(out, "%" PRId64, tcc_load_i64(t->dtype, p)); break;
    }
}

static void print_hex(FILE *out, const struct ir_tensor *t)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = t->data;
    char text[4096];
    size_t n = 0;
    fputs(t->splat ? "splat hex \"" : "hex \"", out);
    for (uint64_t i = 0; i < t->bytes; i++) {
        text[n++] = digits[p[i] >> 4];
        text[n++] = digits[p[i] & 15];
        if (n == sizeof text) {
            fwrite(text, 1, n, out);
            n = 0;
        }
    }
    fwrite(text, 1, n, out);
    fputc('"', out);
}

void ir_print_tensor(FILE *out, const struct ir_tensor *t)
{
    fprintf(out, "%s[", tcc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", t->dims[i]);
    fputs("] ", out);
    uint64_t at;
    const char *beside = t->file ? NULL : ir_beside_range(t, &at);
    if (beside) {
        fputs("file(", out);
        ir_print_string(out, beside);
        fprintf(out, ", %" PRIu64 ")", at);
    } else if (t->file && !t->splat && t->nelems > MAX_LISTED && ir_file_path(t->file)) {
        fputs("file(", out);
        ir_print_string(out, ir_file_path(t->file));
        fprintf(out, ", %" PRIu64 ")", (uint64_t)((const uint8_t *)t->data - ir_file_data(t->file)));
    } else if (!listable(t)) {
        print_hex(out, t);
    } else if (t->splat && t->nelems) {
        fputs("splat(", out);
        print_element(out, t, 0);
        fputc(')', out);
    } else {
        fputc('[', out);
        for (int64_t i = 0; i < t->nelems; i++) {
            if (i)
                fputs(", ", out);
            print_element(out, t, i);
        }
        fputc(']', out);
    }
}

static void print_item(FILE *out, const struct ir_attr *a, int i)
{
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INTS: fprintf(out, "%" PRId64, a->ints[i]); break;
    case IR_A_FLOATS: ir_print_double(out, a->floats[i]); break;
    case IR_A_EXPRS: ir_print_expr(out, a->exprs[i]); break;
    case IR_A_STRINGS: ir_print_string(out, a->strings[i]); break;
    case IR_A_TYPES: ir_print_type(out, a->types[i]); break;
    default: break;
    }
}

static void print_payload(FILE *out, const struct ir_attr *a)
{
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INT: fprintf(out, "%" PRId64, a->i); break;
    case IR_A_FLOAT: ir_print_double(out, a->f); break;
    case IR_A_STRING: ir_print_string(out, a->s); break;
    case IR_A_EXPR: ir_print_expr(out, a->e); break;
    case IR_A_DTYPE: fputs(tcc_dtype_name(a->dtype), out); break;
    case IR_A_TENSOR: ir_print_tensor(out, a->t); break;
    default:
        fputc('[', out);
        for (int i = 0; i < a->n; i++) {
            if (i)
                fputs(", ", out);
            print_item(out, a, i);
        }
        fputc(']', out);
    }
}

/* A library op's own attribute is written  "name": kind = value. */
void ir_print_attr(FILE *out, const struct ir_attr *a)
{
    if (a->key == IR_ATTR_user) {
        ir_print_string(out, a->name ? a->name : "");
        fprintf(out, ": %s = ", ir_attr_kind_name(a->kind));
    } else {
        fprintf(out, "%s = ", ir_attr_name(a->key));
    }
    print_payload(out, a);
}
