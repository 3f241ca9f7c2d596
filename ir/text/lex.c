/* SPDX-License-Identifier: Apache-2.0 */
/* lex.c - tokens of the text form. Comments go from `;` to the end of the line. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "ir/text/parse_int.h"

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static void skip_space(struct parser *p)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        } else if (*p->at == ';') {
            while (p->at + 1 < p->end && p->at[1] != '\n')
                p->at++;
        } else if (!isspace((unsigned char)*p->at)) {
            break;
        }
    }
}

/* 12, 1.5, 1e-3, 0x1.8p+3; not the dots of 1..5. */
static const char *end_of_number(const char *s, const char *end)
{
    bool hex = end - s > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    for (s += hex ? 2 : 1; s < end; s++) {
        char before = (char)tolower((unsigned char)s[-1]);
        bool sign = (*s == '+' || *s == '-') && before == (hex ? 'p' : 'e');
        if (*s == '.' && end - s > 1 && s[1] == '.')
            break;
        if (!sign && !isalnum((unsigned char)*s) && *s != '.')
            break;
    }
    return s;
}

static void lex_string_token(struct parser *p, struct token *t)
{
    const char *s = p->at + 1;
    t->kind = T_STRING;
    t->at = s;
    while (s < p->end && *s != '"' && *s != '\n')
        s += *s == '\\' && s + 1 < p->end ? 2 : 1;
    if (s > p->end)
        s = p->end;
    t->size = (size_t)(s - t->at);
    if (s == p->end || *s != '"')
        t->punct = 1; /* no closing quote: reported when it is taken */
    p->at = s < p->end && *s == '"' ? s + 1 : s;
}

void lex_next(struct parser *p)
{
    struct token *t = &p->tok;
    skip_space(p);
    *t = (struct token){.kind = T_EOF, .at = p->at, .line = p->line, .col = (int)(p->at - p->line_start) + 1};
    if (p->at == p->end)
        return;
    const char *s = p->at;
    size_t left = (size_t)(p->end - s);
    if (*s == '"') {
        lex_string_token(p, t);
        return;
    }
    if (isdigit((unsigned char)*s)) {
        t->kind = T_NUMBER;
        p->at = end_of_number(s, p->end);
    } else if (isalpha((unsigned char)*s) || *s == '_') {
        t->kind = T_IDENT;
        while (p->at < p->end && word_char(*p->at) && !(p->at + 1 < p->end && p->at[0] == '.' && p->at[1] == '.'))
            p->at++;
    } else if ((*s == '%' || *s == '@') && left > 1 && word_char(s[1])) {
        t->kind = *s == '%' ? T_VALUE : T_GLOBAL;
        t->at = ++p->at;
        while (p->at < p->end && word_char(*p->at))
            p->at++;
    } else {
        t->kind = T_PUNCT;
        bool arrow = left > 1 && s[0] == '-' && s[1] == '>', dots = left > 1 && s[0] == '.' && s[1] == '.';
        t->punct = arrow ? P_ARROW : dots ? P_DOTS : (unsigned char)*s;
        p->at += arrow || dots ? 2 : 1;
    }
    t->size = (size_t)(p->at - t->at);
}

/* == Errors == */

struct ir_where lex_where(const struct parser *p, const struct token *t)
{
    return (struct ir_where){.file = p->file, .line = t->line, .col = t->col};
}

bool parse_error(struct parser *p, const struct token *at, const char *format, ...)
{
    FORMATTED(text, 512, format);
    struct ir_where where = lex_where(p, at);
    return ir_error(p->ctx, &where, "%s", text);
}

bool parse_expected(struct parser *p, const char *what)
{
    const struct token *t = &p->tok;
    struct ir_where where = lex_where(p, t);
    char found[80], clean[64];
    size_t n = t->size < 40 ? t->size : 40;
    for (size_t i = 0; i < n; i++)
        clean[i] = isprint((unsigned char)t->at[i]) ? t->at[i] : '?';
    clean[n] = 0;
    if (t->kind == T_EOF)
        snprintf(found, sizeof found, "the end of the text");
    else if (t->kind == T_STRING)
        snprintf(found, sizeof found, "the string \"%s%s\"", clean, t->size > n ? "..." : "");
    else
        snprintf(found, sizeof found, "'%s%s%s'",
                 t->kind == T_VALUE    ? "%"
                 : t->kind == T_GLOBAL ? "@"
                                       : "",
                 clean, t->size > n ? "..." : "");
    return ir_error(p->ctx, &where, "expected %s, got %s", what, found);
}

bool parse_enter(struct parser *p)
{
    if (p->depth >= PARSE_MAX_DEPTH)
        return parse_error(p, &p->tok, "nested more than %d levels deep", PARSE_MAX_DEPTH);
    p->depth++;
    return true;
}

/* == Taking tokens == */

bool lex_is(const struct parser *p, int punct)
{
    return p->tok.kind == T_PUNCT && p->tok.punct == punct;
}

bool lex_is_word(const struct parser *p, const char *word)
{
    return p->tok.kind == T_IDENT && p->tok.size == strlen(word) && memcmp(p->tok.at, word, p->tok.size) == 0;
}

bool lex_take(struct parser *p, int punct)
{
    if (!lex_is(p, punct))
        return false;
    lex_next(p);
    return true;
}

bool lex_take_word(struct parser *p, const char *word)
{
    if (!lex_is_word(p, word))
        return false;
    lex_next(p);
    return true;
}

bool lex_expect(struct parser *p, int punct)
{
    char what[] = "'?'";
    what[1] = (char)punct;
    return lex_take(p, punct) || parse_expected(p, punct == P_ARROW ? "'->'" : punct == P_DOTS ? "'..'" : what);
}

bool lex_expect_word(struct parser *p, const char *word)
{
    char what[64];
    snprintf(what, sizeof what, "'%s'", word);
    return lex_take_word(p, word) || parse_expected(p, what);
}

const char *lex_text(struct parser *p, const struct token *t)
{
    char small[128];
    char *s = t->size < sizeof small ? small : ir_alloc(p->ctx, t->size + 1);
    memcpy(s, t->at, t->size);
    s[t->size] = 0;
    return ir_intern(p->ctx, s);
}

bool lex_ident(struct parser *p, const char **out)
{
    if (p->tok.kind != T_IDENT)
        return parse_expected(p, "a name");
    *out = lex_text(p, &p->tok);
    lex_next(p);
    return true;
}

bool lex_uint(struct parser *p, uint64_t *out)
{
    char text[32], *end;
    if (p->tok.kind != T_NUMBER || p->tok.size >= sizeof text)
        return parse_expected(p, "an integer");
    memcpy(text, p->tok.at, p->tok.size);
    text[p->tok.size] = 0;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*end)
        return parse_expected(p, "an integer");
    if (errno)
        return parse_error(p, &p->tok, "%s does not fit in 64 bits", text);
    lex_next(p);
    return true;
}

bool lex_int(struct parser *p, int64_t *out)
{
    struct token start = p->tok;
    bool minus = lex_take(p, '-');
    uint64_t v;
    if (!lex_uint(p, &v))
        return false;
    if (v > (uint64_t)INT64_MAX + minus)
        return parse_error(p, &start, "%s%llu does not fit in 64 bits with a sign", minus ? "-" : "",
                           (unsigned long long)v);
    *out = (int64_t)(minus ? 0 - v : v);
    return true;
}

bool lex_small(struct parser *p, int64_t lo, int64_t hi, int64_t *out)
{
    struct token start = p->tok;
    if (!lex_int(p, out))
        return false;
    return (*out >= lo && *out <= hi) || parse_error(p, &start, "expected an integer in %lld..%lld, got %lld",
                                                     (long long)lo, (long long)hi, (long long)*out);
}

bool lex_double(struct parser *p, double *out)
{
    char text[64], *end;
    bool minus = lex_take(p, '-');
    if (lex_take_word(p, "inf")) {
        *out = minus ? -__builtin_inf() : __builtin_inf();
        return true;
    }
    if (lex_take_word(p, "nan")) {
        *out = __builtin_nan("");
        return true;
    }
    if (p->tok.kind != T_NUMBER || p->tok.size >= sizeof text)
        return parse_expected(p, "a number");
    memcpy(text, p->tok.at, p->tok.size);
    text[p->tok.size] = 0;
    double v = strtod(text, &end);
    if (*end)
        return parse_expected(p, "a number");
    *out = minus ? -v : v;
    lex_next(p);
    return true;
}

int lex_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool lex_bytes(struct parser *p, char **out, size_t *size)
{
    struct token t = p->tok;
    if (t.kind != T_STRING)
        return parse_expected(p, "a string");
    if (t.punct)
        return parse_error(p, &t, "the string has no closing quote on its line");
    char *s = ir_alloc(p->ctx, t.size + 1);
    size_t n = 0;
    for (size_t i = 0; i < t.size; i++) {
        char c = t.at[i];
        if (c != '\\') {
            s[n++] = c;
            continue;
        }
        c = ++i < t.size ? t.at[i] : 0;
        if (c == '"' || c == '\\') {
            s[n++] = c;
        } else if (c == 'x' && i + 2 < t.size && lex_hex_digit(t.at[i + 1]) >= 0 && lex_hex_digit(t.at[i + 2]) >= 0) {
            s[n++] = (char)(lex_hex_digit(t.at[i + 1]) * 16 + lex_hex_digit(t.at[i + 2]));
            i += 2;
        } else {
            return parse_error(p, &t, "the string has an unknown escape; \\\\, \\\" and \\xHH are known");
        }
    }
    *out = s;
    *size = n;
    lex_next(p);
    return true;
}

bool lex_string(struct parser *p, const char **out)
{
    struct token t = p->tok;
    char *s;
    size_t size;
    if (!lex_bytes(p, &s, &size))
        return false;
    if (memchr(s, 0, size))
        return parse_error(p, &t, "a zero byte is not allowed here");
    *out = ir_intern(p->ctx, s);
    return true;
}

bool lex_global(struct parser *p, const char **out)
{
    if (lex_take(p, '@'))
        return lex_string(p, out);
    if (p->tok.kind != T_GLOBAL)
        return parse_expected(p, "a name with @");
    *out = lex_text(p, &p->tok);
    lex_next(p);
    return true;
}
