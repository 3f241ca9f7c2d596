/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of PTX (PTX ISA, "Lexical elements"). A word keeps its dots and double colons, since an opcode is one word
 * with its modifiers: ld.global.L2::128B.f32. A dot at the start makes a directive or a type.
 */
#include <locale.h>
#include <stdlib.h>

#include "sim/ptx/text_int.h"

static bool is_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_part(char c)
{
    return is_start(c) || is_digit(c);
}

static void skip_space(struct ptx_lexer *x)
{
    while (x->at < x->end) {
        if (*x->at == '\n')
            x->line++;
        if (*x->at == ' ' || (*x->at >= '\t' && *x->at <= '\r')) {
            x->at++;
        } else if (x->end - x->at > 1 && x->at[0] == '/' && x->at[1] == '/') {
            while (x->at < x->end && *x->at != '\n')
                x->at++;
        } else if (x->end - x->at > 1 && x->at[0] == '/' && x->at[1] == '*') {
            for (x->at += 2; x->at < x->end && !(x->at[0] == '*' && x->end - x->at > 1 && x->at[1] == '/'); x->at++)
                x->line += *x->at == '\n';
            x->at += x->at < x->end ? 2 : 0;
        } else {
            return;
        }
    }
}

static void word(struct ptx_lexer *x)
{
    const char *p = x->at;
    while (p < x->end) {
        if (is_part(*p))
            p++;
        else if (*p == '.' && p + 1 < x->end && is_part(p[1]))
            p += 2;
        else if (*p == ':' && p + 2 < x->end && p[1] == ':' && is_part(p[2]))
            p += 3;
        else
            break;
    }
    x->word = x->at;
    x->len = (size_t)(p - x->at);
    x->at = p;
}

static int digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static void digits(struct ptx_lexer *x, int base, int most)
{
    const char *from = x->at;
    x->value = 0;
    for (; x->at < x->end && digit(*x->at) < base; x->at++) {
        if (x->value > (UINT64_MAX - (uint64_t)digit(*x->at)) / (uint64_t)base)
            x->bad = true;
        x->value = x->value * (uint64_t)base + (uint64_t)digit(*x->at);
    }
    if (x->at == from || x->at - from > most)
        x->bad = true;
}

/* 8.0, 1.5e-3: not in instructions as NVRTC and LLVM write them, but legal. */
static bool decimal(struct ptx_lexer *x)
{
    char text[64], *end;
    const char *p = x->at;
    size_t n = 0;
    bool dot = false;
    for (; p < x->end && n < sizeof text - 1 &&
           (is_digit(*p) || *p == '.' || ((*p == 'e' || *p == 'E') && dot) ||
            ((*p == '-' || *p == '+') && n && (text[n - 1] | 32) == 'e'));
         p++) {
        dot |= *p == '.';
        text[n++] = *p;
    }
    if (!dot)
        return false;
    text[n] = 0;
    double v = strtod_l(text, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* with a point */
    memcpy(&x->value, &v, 8);
    x->at += end - text;
    x->token = T_F64;
    return true;
}

static void number(struct ptx_lexer *x)
{
    char second = x->end - x->at > 1 ? (char)(x->at[1] | 32) : 0;
    x->token = T_INT;
    if (*x->at == '0' && (second == 'x' || second == 'f' || second == 'd' || second == 'b')) {
        x->at += 2;
        const char *from = x->at;
        digits(x, second == 'b' ? 2 : 16, 64);
        x->token = second == 'f' ? T_F32 : second == 'd' ? T_F64 : T_INT;
        if ((second == 'f' && x->at - from != 8) || (second == 'd' && x->at - from != 16))
            x->bad = true;
    } else if (!decimal(x)) {
        digits(x, *x->at == '0' && is_digit(second) ? 8 : 10, 64);
    }
    if (x->at < x->end && (*x->at | 32) == 'u')
        x->at++;
    if (x->at < x->end && is_part(*x->at))
        x->bad = true;
}

void ptx_lex(struct ptx_lexer *x)
{
    skip_space(x);
    x->bad = false;
    if (x->at >= x->end) {
        x->token = T_END;
    } else if (is_start(*x->at)) {
        x->token = T_WORD;
        word(x);
    } else if (*x->at == '.' && x->end - x->at > 1 && is_part(x->at[1])) {
        x->token = T_DOT;
        x->at++;
        word(x);
    } else if (is_digit(*x->at)) {
        number(x);
    } else if (*x->at == '"') {
        x->token = T_STRING;
        x->word = ++x->at;
        while (x->at < x->end && *x->at != '"' && *x->at != '\n')
            x->at++;
        x->len = (size_t)(x->at - x->word);
        x->bad = x->at >= x->end || *x->at != '"';
        x->at += !x->bad;
    } else {
        x->token = T_PUNCT;
        x->punct = *x->at++;
    }
}

/* -- What the parser asks for -- */

void ptx_next(struct ptx_parse *p)
{
    ptx_lex(&p->x);
    if (p->x.bad)
        ptx_fail(p, p->x.line, "malformed number or string");
}

bool ptx_is_punct(const struct ptx_parse *p, char c)
{
    return p->x.token == T_PUNCT && p->x.punct == c;
}

bool ptx_accept(struct ptx_parse *p, char c)
{
    if (!ptx_is_punct(p, c))
        return false;
    ptx_next(p);
    return true;
}

void ptx_expect(struct ptx_parse *p, char c)
{
    if (!ptx_accept(p, c))
        ptx_fail(p, p->x.line, "expected '%c'", c);
}

bool ptx_is_dot(const struct ptx_parse *p, const char *text)
{
    return p->x.token == T_DOT && p->x.len == strlen(text) && memcmp(p->x.word, text, p->x.len) == 0;
}

bool ptx_accept_dot(struct ptx_parse *p, const char *text)
{
    if (!ptx_is_dot(p, text))
        return false;
    ptx_next(p);
    return true;
}

const char *ptx_word(struct ptx_parse *p)
{
    if (p->x.token != T_WORD)
        ptx_fail(p, p->x.line, "expected a name");
    const char *name = ptx_name(p, p->x.word, p->x.len);
    ptx_next(p);
    return name;
}

uint64_t ptx_int(struct ptx_parse *p)
{
    uint64_t v = p->x.value;
    if (p->x.token != T_INT)
        ptx_fail(p, p->x.line, "expected a number");
    ptx_next(p);
    return v;
}

void ptx_skip_to(struct ptx_parse *p, char c)
{
    while (p->x.token != T_END && !ptx_is_punct(p, c))
        ptx_next(p);
    ptx_expect(p, c);
}

void ptx_skip_line(struct ptx_parse *p)
{
    int line = p->x.line;
    while (p->x.token != T_END && p->x.line == line)
        ptx_next(p);
}

enum ptx_type ptx_type_token(struct ptx_parse *p)
{
    enum ptx_type t = p->x.token == T_DOT ? ptx_type_named(p->x.word, p->x.len) : PT_NONE;
    if (t == PT_NONE)
        ptx_fail(p, p->x.line, "expected a type");
    ptx_next(p);
    return t;
}
