/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - environment variables, by the table env.def: one parser for runtime, compiler and tools. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/env.h"
#include "base/format.h"
#include "base/numbers.h"

enum kind { WORDS, WORD, SECONDS, FOLDER, MADE, TEXT };

static const struct row {
    const char *name;
    enum kind kind;
    const char *values;
} rows[] = {
#define ENV(name, kind, values, meaning) {#name, kind, values},
#include "base/env.def"
};

static bool is_word(const char *list, const char *word, size_t n)
{
    for (const char *s = list; *s; s += strspn(s, ",")) {
        size_t length = strcspn(s, ",");

        if (length == n && !memcmp(s, word, n))
            return true;
        s += length;
    }
    return false;
}

/* Where the message about a wrong value goes. */
struct said {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool wrong(const struct said *to, const char *format, ...)
{
    FORMAT_INTO(to->text, to->size, format);
    return false;
}

static bool check_words(const struct row *r, const char *text, const struct said *to)
{
    for (const char *s = text + strspn(text, ", "); *s; s += strspn(s, ", ")) {
        size_t n = strcspn(s, ", ");

        if (!is_word(r->values, s, n))
            return wrong(to, "%s=%s: unknown value '%.*s', expected %s", r->name, text, (int)n, s, r->values);
        s += n;
    }
    return true;
}

static bool check_word(const struct row *r, const char *text, const struct said *to)
{
    return is_word(r->values, text, strlen(text)) ? true
                                                  : wrong(to, "%s=%s: expected one of %s", r->name, text, r->values);
}

static bool check_folder(const struct row *r, const char *text, const struct said *to)
{
    struct stat st;
    bool there = stat(text, &st) == 0;

    if (there ? S_ISDIR(st.st_mode) : r->kind == MADE && errno == ENOENT)
        return true;
    return wrong(to, "%s=%s: expected a folder", r->name, text);
}

static bool seconds(const char *text, double *value)
{
    char *end;

    *value = tcc_strtod(text, &end);
    return end != text && !*end && isfinite(*value) && *value > 0;
}

static bool check(const struct row *r, const struct said *to)
{
    const char *text = getenv(r->name);
    double value;

    if (!text || !*text)
        return true;
    switch (r->kind) {
    case WORDS: return check_words(r, text, to);
    case WORD: return check_word(r, text, to);
    case FOLDER:
    case MADE: return check_folder(r, text, to);
    case SECONDS:
        return seconds(text, &value) ? true : wrong(to, "%s=%s: expected a number of seconds above 0", r->name, text);
    default: return true;
    }
}

bool tcr_env_check(char *message, size_t size)
{
    const struct said to = {message, size};
    bool good = true;

    for (size_t i = 0; i < sizeof rows / sizeof *rows && good; i++)
        good = check(&rows[i], &to);
    return good;
}

const char *tcr_env_text(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

double tcr_env_seconds(const char *name, double otherwise)
{
    const char *text = tcr_env_text(name);
    double value;

    return text && seconds(text, &value) ? value : otherwise;
}

bool tcr_env_has(const char *name, const char *word)
{
    const char *text = tcr_env_text(name);
    size_t n = strlen(word);

    for (const char *s = text ? text + strspn(text, ", ") : ""; *s; s += strspn(s, ", ")) {
        size_t length = strcspn(s, ", ");

        if (length == n && !memcmp(s, word, n))
            return true;
        s += length;
    }
    return false;
}

double tcr_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
