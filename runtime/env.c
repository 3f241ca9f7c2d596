/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - environment variables, by the table env.def: one parser for runtime, compiler and tools. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/rt_int.h"

enum kind { WORDS, WORD, SECONDS, FOLDER, MADE, TEXT };

static const struct row {
    const char *name;
    enum kind kind;
    const char *values;
} rows[] = {
#define ENV(name, kind, values, meaning) {#name, kind, values},
#include "runtime/env.def"
#undef ENV
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

static int check_words(const struct row *r, const char *text)
{
    for (const char *s = text + strspn(text, ", "); *s; s += strspn(s, ", ")) {
        size_t n = strcspn(s, ", ");

        if (!is_word(r->values, s, n))
            return tcr_fail(TCC_EUSAGE, "%s=%s: unknown value '%.*s', expected %s", r->name, text, (int)n, s,
                            r->values);
        s += n;
    }
    return TCC_OK;
}

static int check_word(const struct row *r, const char *text)
{
    return is_word(r->values, text, strlen(text))
               ? TCC_OK
               : tcr_fail(TCC_EUSAGE, "%s=%s: expected one of %s", r->name, text, r->values);
}

static int check_folder(const struct row *r, const char *text)
{
    struct stat st;
    bool there = stat(text, &st) == 0;

    if (there ? S_ISDIR(st.st_mode) : r->kind == MADE && errno == ENOENT)
        return TCC_OK;
    return tcr_fail(TCC_EUSAGE, "%s=%s: expected a folder", r->name, text);
}

static bool seconds(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value) && *value > 0;
}

static int check(const struct row *r)
{
    const char *text = getenv(r->name);
    double value;

    if (!text || !*text)
        return TCC_OK;
    switch (r->kind) {
    case WORDS: return check_words(r, text);
    case WORD: return check_word(r, text);
    case FOLDER:
    case MADE: return check_folder(r, text);
    case SECONDS:
        return seconds(text, &value)
                   ? TCC_OK
                   : tcr_fail(TCC_EUSAGE, "%s=%s: expected a number of seconds above 0", r->name, text);
    default: return TCC_OK;
    }
}

int tccrt_env_check(void)
{
    int status = TCC_OK;

    tcr_clear_error();
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        status = check(&rows[i]);
    return status;
}

const char *tccrt_env_text(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

double tccrt_env_seconds(const char *name, double otherwise)
{
    const char *text = tccrt_env_text(name);
    double value;

    return text && seconds(text, &value) ? value : otherwise;
}

bool tccrt_env_has(const char *name, const char *word)
{
    const char *text = tccrt_env_text(name);
    size_t n = strlen(word);

    for (const char *s = text ? text + strspn(text, ", ") : ""; *s; s += strspn(s, ", ")) {
        size_t length = strcspn(s, ", ");

        if (length == n && !memcmp(s, word, n))
            return true;
        s += length;
    }
    return false;
}
