/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_attr.c - text of constant data and attributes.
 *
 *   tensor = type ( "[" element, ... "]" | "splat" "(" element ")" | ["splat"] "hex" string | "file" "(" path ","
 * offset ")" ) attr   = key "=" payload | string ":" kind "=" payload        (the second form: a library op's own)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse_int.h"
#include "base/safe.h"

static bool parse_int_element(struct parser *p, enum tcc_dtype dtype, void *out)
{
    struct token start = p->tok;
    int64_t i;
    uint64_t u;
    if (dtype == TCC_U64) {
        if (!lex_uint(p, &u))
            return false;
        i = (int64_t)u;
    } else if (!lex_int(p, &i)) {
        return false;
    }
    tcc_store_i64(dtype, out, i);
    return tcc_load_i64(dtype, out) == i ||
           parse_error(p, &start, "%lld is no %s", (long long)i, tcc_dtype_name(dtype));
}

static bool parse_element(struct parser *p, enum tcc_dtype dtype, void *out)
{
    double f;
    char *s;
    size_t size;
    switch (tcc_dtype_class(dtype)) {
    case TCC_CLASS_STRING:
        if (!lex_bytes(p, &s, &size))
            return false;
        ((struct tcc_string *)out)->data = malloc(size ? size : 1);
        if (!((struct tcc_string *)out)->data)
            ir_no_memory(p->ctx);
        memcpy(((struct tcc_string *)out)->data, s, size);
        ((struct tcc_string *)out)->size = (int64_t)size;
        return true;
    case TCC_CLASS_BOOL:
        if (!lex_is_word(p, "true") && !lex_is_word(p, "false"))
            return parse_expected(p, "true or false");
        *(uint8_t *)out = lex_is_word(p, "true");
        lex_next(p);
        return true;
    case TCC_CLASS_FLOAT:
        if (!lex_double(p, &f))
            return false;
        tcc_cast(dtype, out, TCC_F64, &f, false, NULL); /* inf stays inf in the 8-bit types that have it */
        return true;
    case TCC_CLASS_COMPLEX: return parse_expected(p, "hex data (complex numbers)");
    default: return parse_int_element(p, dtype, out);
    }
}

/* The string's hexadecimal digits as exactly `size` bytes. */
static bool parse_hex(struct parser *p, uint8_t *out, uint64_t size)
{
    const struct token t = p->tok;
    if (t.kind != T_STRING || t.punct)
        return parse_expected(p, "a string of hexadecimal digits");
    if (t.size / 2 != size || t.size % 2)
        return parse_error(p, &t, "expected %llu bytes of hexadecimal digits, got %zu digits", (unsigned long long)size,
                           t.size);
    for (uint64_t i = 0; i < size; i++) {
        int high = lex_hex_digit(t.at[2 * i]), low = lex_hex_digit(t.at[2 * i + 1]);
        if (high < 0 || low < 0)
            return parse_error(p, &t, "expected hexadecimal digits");
        out[i] = (uint8_t)(high << 4 | low);
    }
    lex_next(p);
    return true;
}

static bool parse_listed(struct parser *p, ir_type type, const int64_t *dims, int64_t n, struct ir_tensor **out)
{
    struct token start = p->tok;
    /* An element takes a character of text at least: don't allocate what the text can't fill. */
    if (n > (p->end - p->at) + (int64_t)start.size)
        return parse_error(p, &start, "expected %lld elements", (long long)n);
    struct ir_tensor *t = ir_tensor_new(type->dtype, type->rank, dims);
    if (!t)
        ir_no_memory(p->ctx);
    ir_keep_tensor(p->ctx, t);
    *out = t;
    char *data = (char *)t->data;
    int size = tcc_dtype_bytes(type->dtype);
    for (int64_t i = 0; i < n; i++) {
        if ((i && !lex_expect(p, ',')) || !parse_element(p, type->dtype, data + i * size))
            return false;
    }
    return lex_expect(p, ']');
}

static bool parse_splat(struct parser *p, ir_type type, const int64_t *dims, struct ir_tensor **out)
{
    union {
        char bytes[32];
        struct tcc_string s;
        int64_t align;
    } element = {0};
    bool ok;
    char *s = NULL;
    size_t size = 0;
    if (lex_take_word(p, "hex"))
        ok = type->dtype != TCC_STRING ? parse_hex(p, (uint8_t *)element.bytes, (uint64_t)tcc_dtype_bytes(type->dtype))
                                       : parse_expected(p, "a string in parentheses");
    else if (type->dtype == TCC_STRING)
        ok = lex_expect(p, '(') && lex_bytes(p, &s, &size) && lex_expect(p, ')');
    else
        ok = lex_expect(p, '(') && parse_element(p, type->dtype, &element) && lex_expect(p, ')');
    if (!ok)
        return false;
    if (type->dtype == TCC_STRING)
        element.s = (struct tcc_string){s, (int64_t)size}; /* the tensor copies it */
    *out = ir_tensor_splat(type->dtype, type->rank, dims, &element);
    if (!*out)
        return parse_error(p, &p->tok, "the tensor is too big");
    ir_keep_tensor(p->ctx, *out);
    return true;
}

/* The real path of a file that the text names, as seen from its folder, or from the working one, where its text was
 * printed. NULL: the error is reported. */
static const char *allowed_path(struct parser *p, const struct token *at, const char *path)
{
    const char *slash = p->file ? strrchr(p->file, '/') : NULL, *files = p->ctx->files, *kept = NULL;
    const char *own = slash ? ir_internf(p->ctx, "%.*s", (int)(slash - p->file) + 1, p->file) : "";
    const char *tries[] = {*path == '/' ? path : ir_internf(p->ctx, "%s%s", own, path), path};
    const char *why = NULL;

    if (!files) {
        parse_error(p, at, "the text reads the file '%s': that wants --allow-files", path);
        return NULL;
    }
    for (int i = 0; i < 2 && !kept; i++) {
        char *real = realpath(tries[i], NULL);

        if (!real)
            why = why ? why : strerror(errno);
        else if (tcr_is_below(real, own) || (*files && tcr_is_below(real, files)))
            kept = ir_intern(p->ctx, real);
        else
            why = "not below the text's folder; --allow-files=FOLDER names another one";
        free(real);
    }
    if (!kept)
        parse_error(p, at, "the file '%s': %s", path, why);
    return kept;
}

static bool parse_range(struct parser *p, ir_type type, const int64_t *dims, struct ir_tensor **out)
{
    struct token start = p->tok;
    const char *path;
    int64_t offset;
    char error[512];
    if (!lex_expect(p, '(') || !lex_string(p, &path) || !lex_expect(p, ',') || !lex_small(p, 0, INT64_MAX, &offset) ||
        !lex_expect(p, ')'))
        return false;
    if (type->dtype == TCC_STRING)
        return parse_error(p, &start, "strings cannot be a range of a file");
    const char *real = allowed_path(p, &start, path);
    if (!real)
        return false;
    struct ir_file *file = ir_file_get(p->ctx, real, error, sizeof error);
    if (!file)
        return parse_error(p, &start, "%s", error);
    *out = ir_tensor_file(type->dtype, type->rank, dims, file, (uint64_t)offset);
    ir_file_unref(file);
    if (*out)
        ir_keep_tensor(p->ctx, *out);
    return *out || parse_error(p, &start, "the file '%s' does not hold %s at offset %lld", path,
                               ir_type_text(p->ctx, type), (long long)offset);
}

static bool parse_data(struct parser *p, ir_type type, struct ir_tensor **out)
{
    int64_t dims[TCC_MAX_RANK];
    struct token start = p->tok;
    if (type->kind != IR_T_TENSOR || !ir_static_dims(type, dims))
        return parse_error(p, &start, "constant data needs a tensor type with constant dims, got %s",
                           ir_type_text(p->ctx, type));
    int64_t n = tcc_elements(type->rank, dims);
    if (n < 0 || n > INT64_MAX / 32)
        return parse_error(p, &start, "%s is too big", ir_type_text(p->ctx, type));
    if (lex_take(p, '['))
        return parse_listed(p, type, dims, n, out);
    if (lex_take_word(p, "splat"))
        return parse_splat(p, type, dims, out);
    if (lex_take_word(p, "file"))
        return parse_range(p, type, dims, out);
    if (type->dtype == TCC_STRING || !lex_take_word(p, "hex"))
        return parse_expected(p, "data: '[', splat, hex or file");
    if (n > (p->end - p->at) + (int64_t)p->tok.size) /* the string is read already */
        return parse_error(p, &start, "expected %lld elements", (long long)n);
    *out = ir_tensor_new(type->dtype, type->rank, dims);
    if (!*out)
        ir_no_memory(p->ctx);
    ir_keep_tensor(p->ctx, *out);
    return parse_hex(p, (uint8_t *)(*out)->data, (*out)->bytes);
}

/* The context keeps the tensor, so that nothing is lost where the parse ends early. */
bool parse_tensor(struct parser *p, struct ir_tensor **out)
{
    ir_type type;
    *out = NULL;
    return parse_type(p, &type) && parse_data(p, type, out);
}

/* == Attributes == */

/* One element of a list attribute, pushed to the vector of its kind. */
struct lists {
    VEC(int64_t) ints;
    VEC(double) floats;
    VEC(ir_expr) exprs;
    VEC(const char *) strings;
    VEC(ir_type) types;
};

static bool parse_item(struct parser *p, enum ir_attr_kind kind, struct lists *v)
{
    union {
        int64_t i;
        double f;
        ir_expr e;
        const char *s;
        ir_type t;
    } x;
    switch (kind) {
    case IR_A_INTS: return lex_int(p, &x.i) && (VEC_PUSH(p->ctx, v->ints, x.i), true);
    case IR_A_FLOATS: return lex_double(p, &x.f) && (VEC_PUSH(p->ctx, v->floats, x.f), true);
    case IR_A_EXPRS: return parse_expr(p, &x.e) && (VEC_PUSH(p->ctx, v->exprs, x.e), true);
    case IR_A_STRINGS: return lex_string(p, &x.s) && (VEC_PUSH(p->ctx, v->strings, x.s), true);
    default: return parse_type(p, &x.t) && (VEC_PUSH(p->ctx, v->types, x.t), true);
    }
}

static bool parse_list(struct parser *p, struct ir_attr *a)
{
    struct lists v = {0};
    int n = 0;
    if (!lex_expect(p, '['))
        return false;
    while (!lex_is(p, ']')) {
        if ((n++ && !lex_expect(p, ',')) || !parse_item(p, a->kind, &v))
            return false;
    }
    lex_next(p);
    a->n = n;
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INTS: a->ints = v.ints.at; break;
    case IR_A_FLOATS: a->floats = v.floats.at; break;
    case IR_A_EXPRS: a->exprs = v.exprs.at; break;
    case IR_A_STRINGS: a->strings = v.strings.at; break;
    default: a->types = v.types.at;
    }
    return true;
}

static bool parse_payload(struct parser *p, struct ir_attr *a)
{
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INT: return lex_int(p, &a->i);
    case IR_A_FLOAT: return lex_double(p, &a->f);
    case IR_A_STRING: return lex_string(p, &a->s);
    case IR_A_EXPR: return parse_expr(p, &a->e);
    case IR_A_DTYPE: return parse_dtype(p, &a->dtype);
    case IR_A_TENSOR: return parse_tensor(p, &a->t);
    default: return parse_list(p, a);
    }
}

/* A library op's own attribute: "name": kind = payload */
static bool parse_user_attr(struct parser *p, struct ir_attr *a)
{
    if (!lex_string(p, &a->name) || !lex_expect(p, ':'))
        return false;
    a->key = IR_ATTR_user;
    for (int kind = 0; kind <= IR_A_TYPES; kind++) {
        if (!lex_take_word(p, ir_attr_kind_name(kind)))
            continue;
        a->kind = (uint8_t)kind;
        return lex_expect(p, '=') && parse_payload(p, a);
    }
    return parse_expected(p, "a kind of attribute (int, floats, ...)");
}

bool parse_attr(struct parser *p, enum ir_op op, struct ir_attr *out)
{
    *out = (struct ir_attr){0};
    const char *name;
    struct token start = p->tok;
    if (p->tok.kind == T_STRING && ir_attr_allowed(op, IR_ATTR_user))
        return parse_user_attr(p, out);
    if (!lex_ident(p, &name))
        return false;
    out->key = (uint8_t)ir_attr_by_name(name);
    if (out->key == IR_ATTR_NONE || out->key == IR_ATTR_user || !ir_attr_allowed(op, out->key))
        return parse_error(p, &start, "%s has no attribute '%s'", ir_op_info(op)->name, name);
    out->kind = (uint8_t)ir_attr_key_kind(out->key);
    return lex_expect(p, '=') && parse_payload(p, out);
}
