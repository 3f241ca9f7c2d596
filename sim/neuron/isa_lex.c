/* SPDX-License-Identifier: Apache-2.0 */
/* isa_lex.c - words, names and numbers of the text form, and the messages of its reader (isa_parse.c). */
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/isa_lex_int.h"

_Noreturn void isa_fail(struct isa_reader *r, const char *format, ...)
{
    char text[NEURON_ERROR - 32];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(r->error, NEURON_ERROR, "line %d: %s", r->line, text);
    longjmp(r->out, 1);
}

void isa_blanks(struct isa_reader *r)
{
    while (r->c < r->end && (*r->c == ' ' || *r->c == '\t' || *r->c == '\r'))
        r->c++;
    if (r->c < r->end && *r->c == '#')
        while (r->c < r->end && *r->c != '\n')
            r->c++;
}

bool isa_at_end(struct isa_reader *r)
{
    isa_blanks(r);
    return r->c == r->end || *r->c == '\n';
}

bool isa_take(struct isa_reader *r, char c)
{
    isa_blanks(r);
    if (r->c == r->end || *r->c != c)
        return false;
    r->c++;
    return true;
}

void isa_want(struct isa_reader *r, char c)
{
    if (!isa_take(r, c))
        isa_fail(r, "expected '%c'%s", c, isa_at_end(r) ? " before the end of the line" : "");
}

bool isa_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

size_t isa_word(struct isa_reader *r, const char **at)
{
    isa_blanks(r);
    *at = r->c;
    while (r->c < r->end && isa_word_char(*r->c))
        r->c++;
    return (size_t)(r->c - *at);
}

int isa_name_of(struct isa_reader *r, enum isa_names kind, const char *what)
{
    const char *s;
    size_t n = isa_word(r, &s);
    int k = n ? isa_find(kind, s, n) : -1;
    if (k < 0)
        isa_fail(r, "unknown %s '%.*s'", what, (int)(n < MAX_WORD ? n : MAX_WORD), s);
    return k;
}

/* The characters of a number, copied so that strto* stops. */
static void number_text(struct isa_reader *r, char to[MAX_WORD])
{
    size_t n = 0;
    isa_blanks(r);
    while (r->c < r->end && n < MAX_WORD - 1 &&
           (isa_word_char(*r->c) || *r->c == '.' || *r->c == '-' ||
            (*r->c == '+' && n && (to[n - 1] == 'e' || to[n - 1] == 'p'))))
        to[n++] = *r->c++;
    to[n] = 0;
}

int64_t isa_integer(struct isa_reader *r, int64_t lo, int64_t hi)
{
    char text[MAX_WORD], *end;
    size_t n = 0;
    isa_blanks(r);
    if (r->c < r->end && *r->c == '-')
        text[n++] = *r->c++;
    while (r->c < r->end && n < MAX_WORD - 1 && isa_word_char(*r->c))
        text[n++] = *r->c++;
    text[n] = 0;
    errno = 0;
    long long v = strtoll(text, &end, 0);
    if (end == text || *end || errno)
        isa_fail(r, "expected an integer, found '%s'", text);
    if (v < lo || v > hi)
        isa_fail(r, "%lld is out of range: %lld to %lld", v, (long long)lo, (long long)hi);
    return v;
}

float isa_real(struct isa_reader *r)
{
    char text[MAX_WORD], *end;
    union neuron_value v;
    number_text(r, text);
    if (strncmp(text, "bits", 4) == 0) {
        errno = 0;
        unsigned long b = strtoul(text + 4, &end, 16);
        if (end == text + 4 || *end || errno || b > 0xffffffff)
            isa_fail(r, "expected bits and eight hexadecimal digits, found '%s'", text);
        v.i = (int32_t)(uint32_t)b;
        return v.f;
    }
    v.f = strtof_l(text, &end, newlocale(LC_ALL_MASK, "C", (locale_t)0));
    if (end == text || *end)
        isa_fail(r, "expected a number, found '%s'", text);
    return v.f;
}
