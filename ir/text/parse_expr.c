/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_expr.c - text of expressions and types.
 *
 *   expr  = term (("+" | "-") term)*          term = factor (("*" | "floordiv" | "mod") factor)*
 *   factor = integer | symbol | "-" factor | "(" expr ")" | ("min" | "max") "(" expr "," expr ")"
 *   type  = dtype "[" (expr ("," expr)*)? "]" | dtype "[" "*" "]" | ("seq" | "optional") "<" (type | "?") ">" | "@"
 *         name
 */

#include "ir/text/parse_int.h"

static bool parse_extreme(struct parser *p, bool greater, ir_expr *out)
{
    ir_expr a, b;
    if (!lex_expect(p, '(') || !parse_expr(p, &a) || !lex_expect(p, ',') || !parse_expr(p, &b) || !lex_expect(p, ')'))
        return false;
    *out = greater ? ir_max(p->ctx, a, b) : ir_min(p->ctx, a, b);
    return true;
}

static bool next_is_digit(const struct parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

static bool parse_factor(struct parser *p, ir_expr *out)
{
    int64_t v;
    const char *name;
    if (lex_is(p, '-')) {
        if (next_is_digit(p)) { /* here, since the lowest integer is too big without its sign */
            if (!lex_int(p, &v))
                return false;
            *out = ir_const(p->ctx, v);
            return true;
        }
        lex_next(p);
        if (!parse_enter(p) || !parse_factor(p, out))
            return false;
        p->depth--;
        *out = ir_mulc(p->ctx, *out, -1);
        return true;
    }
    if (lex_take(p, '(')) {
        if (!parse_expr(p, out))
            return false;
        return lex_expect(p, ')');
    }
    if (p->tok.kind == T_NUMBER) {
        if (!lex_int(p, &v))
            return false;
        *out = ir_const(p->ctx, v);
        return true;
    }
    if (lex_take_word(p, "min"))
        return parse_extreme(p, false, out);
    if (lex_take_word(p, "max"))
        return parse_extreme(p, true, out);
    if (p->tok.kind == T_STRING  ? !lex_string(p, &name)
        : p->tok.kind == T_IDENT ? !lex_ident(p, &name)
                                 : !parse_expected(p, "an expression"))
        return false;
    for (int i = 0; i < p->nscope; i++) {
        if (p->scope[i].name == name) {
            *out = p->scope[i].e;
            return true;
        }
    }
    *out = ir_sym(p->ctx, name);
    return true;
}

static bool parse_term(struct parser *p, ir_expr *out)
{
    ir_expr b;
    if (!parse_factor(p, out))
        return false;
    for (;;) {
        if (lex_take(p, '*')) {
            if (!parse_factor(p, &b))
                return false;
            *out = ir_mul(p->ctx, *out, b);
        } else if (lex_is_word(p, "floordiv") || lex_is_word(p, "mod")) {
            bool mod = lex_is_word(p, "mod");
            lex_next(p);
            if (!parse_factor(p, &b))
                return false;
            *out = mod ? ir_mod(p->ctx, *out, b) : ir_floordiv(p->ctx, *out, b);
        } else {
            return true;
        }
    }
}

bool parse_expr(struct parser *p, ir_expr *out)
{
    ir_expr b;
    if (!parse_enter(p) || !parse_term(p, out))
        return false;
    for (;;) {
        bool minus = lex_is(p, '-');
        if (!minus && !lex_is(p, '+'))
            break;
        lex_next(p);
        if (!parse_term(p, &b))
            return false;
        *out = minus ? ir_sub(p->ctx, *out, b) : ir_add(p->ctx, *out, b);
    }
    p->depth--;
    return true;
}

bool parse_exprs(struct parser *p, int close, ir_expr **out, int *n)
{
    VEC(ir_expr) v = {0};
    while (!lex_is(p, close)) {
        ir_expr e;
        if ((v.n && !lex_expect(p, ',')) || !parse_expr(p, &e))
            return false;
        VEC_PUSH(p->ctx, v, e);
    }
    lex_next(p);
    VEC_GIVE(v, *out, *n);
    return true;
}

bool parse_dtype(struct parser *p, enum tcc_dtype *out)
{
    *out = p->tok.kind == T_IDENT ? tcc_dtype_by_name(lex_text(p, &p->tok)) : TCC_NONE;
    if (*out == TCC_NONE)
        return parse_expected(p, "an element type (f32, i64, ...)");
    lex_next(p);
    return true;
}

static bool parse_nested_type(struct parser *p, bool sequence, ir_type *out)
{
    ir_type elem = NULL;
    if (!parse_enter(p) || !lex_expect(p, '<') || (!lex_take(p, '?') && !parse_type(p, &elem)) || !lex_expect(p, '>'))
        return false;
    p->depth--;
    *out = sequence ? ir_sequence_type(p->ctx, elem) : ir_optional_type(p->ctx, elem);
    return true;
}

/* @w: a version of state variable w */
static bool parse_version_type(struct parser *p, ir_type *out)
{
    struct token at = p->tok;
    const char *name;
    if (!lex_global(p, &name))
        return false;
    struct ir_state *s = ir_state_by_name(p->module, name);
    if (!s)
        return parse_no_state(p, &at, name);
    *out = ir_version_type(p->ctx, s);
    return true;
}

bool parse_type(struct parser *p, ir_type *out)
{
    enum tcc_dtype dtype;
    struct token start = p->tok;
    if (lex_take_word(p, "seq"))
        return parse_nested_type(p, true, out);
    if (lex_take_word(p, "optional"))
        return parse_nested_type(p, false, out);
    if (p->tok.kind == T_GLOBAL || lex_is(p, '@'))
        return parse_version_type(p, out);
    if (!parse_dtype(p, &dtype) || !lex_expect(p, '['))
        return false;
    if (lex_take(p, '*')) {
        *out = ir_unranked_type(p->ctx, dtype);
        return lex_expect(p, ']');
    }
    ir_expr *dims;
    int rank;
    if (!parse_exprs(p, ']', &dims, &rank))
        return false;
    if (rank > TCC_MAX_RANK)
        return parse_error(p, &start, "a tensor of rank %d: at most %d dimensions are supported", rank, TCC_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i]->hi < 0)
            return parse_error(p, &start, "dimension %d is negative: %s", i, ir_expr_text(p->ctx, dims[i]));
    }
    *out = ir_tensor_type(p->ctx, dtype, rank, dims);
    return true;
}
