/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.c - TCCC_FLAGS for what traced programs compile. Words are read by the tools' own table: options that bear on
 * compiling a graph are heeded, those of other tools and of other inputs are passed over, as a tool does with them;
 * unknown ones are errors.
 */
#include "compiler/tccc.h"
#include "compiler/trace/trace_int.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

enum option {
#define TCCC_OPT(id, long_name, short_name, arg, kind, tools, group, help) OPT_##id,
#include "base/options.def"
    NOPTIONS
};

enum kind { NONE, NEEDED, OPTIONAL, WORD, WORDARG };

static const struct row {
    const char *long_name;
    char short_name;
    enum kind kind;
} rows[] = {
#define TCCC_OPT(id, long_name, short_name, arg, kind, tools, group, help) {long_name, short_name, kind},
#include "base/options.def"
};

static const struct {
    const char *old;
    int option;
} renamed[] = {
#define TCCC_RENAMED(old, id) {old, OPT_##id},
#include "base/options.def"
};

struct words {
    char **at;
    int n;
    char *copy;
};

/* Splits at blanks; a backslash keeps the next character. */
static bool split(const char *text, struct words *w)
{
    size_t most = strlen(text) + 1;
    char *to = w->copy = malloc(most + 1);
    w->at = calloc(most, sizeof *w->at);
    if (!w->at || !to)
        return false;
    while (*(text += strspn(text, " \t\n"))) {
        w->at[w->n++] = to;
        for (; *text && !strchr(" \t\n", *text); text++) {
            if (*text == '\\' && text[1])
                text++;
            *to++ = *text;
        }
        *to++ = '\0';
    }
    return true;
}

/* -1: none. *arg: what stands behind the name in the word; NULL: nothing. */
static int find(const char *word, const char **arg)
{
    const char *name = word + 1 + (word[1] == '-');
    size_t n = word[1] == '-' ? strcspn(name, "=") : strlen(name);
    *arg = word[1] == '-' && name[n] ? name + n + 1 : NULL;
    for (int i = 0; i < NOPTIONS; i++) {
        bool one_dash = rows[i].kind == WORD || rows[i].kind == WORDARG;
        if (*rows[i].long_name && one_dash == (word[1] != '-') && strlen(rows[i].long_name) == n &&
            !memcmp(rows[i].long_name, name, n))
            return i;
    }
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed && word[1] == '-'; i++)
        if (strlen(renamed[i].old) == n && !memcmp(renamed[i].old, name, n))
            return renamed[i].option;
    if (word[1] == '-' || !*name)
        return -1;
    *arg = name[1] ? name + 1 : NULL;
    for (int i = 0; i < NOPTIONS; i++)
        if (rows[i].short_name == *name && (!*arg || rows[i].kind == NEEDED || rows[i].kind == OPTIONAL))
            return i;
    return -1;
}

static bool number(const char *text, int least, int most, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    bool ok = end != text && !*end && v >= least && v <= most;
    if (ok)
        *out = (int)v;
    return ok;
}

static bool set_text(char **to, const char *text)
{
    char *copy = strdup(text);
    if (copy) {
        free(*to);
        *to = copy;
    }
    return copy;
}

/* One more. Whether there is such a pass the compiler says. */
static bool add_dump(struct trace_flags *f, const char *what)
{
    static const char *const words[] = TCCC_DUMPS;
    bool known = !strncmp(what, "before:", 7) || !strncmp(what, "after:", 6);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known = known || !strcmp(words[i], what);
    if (!known)
        return false;
    if (!ONE_MORE(f->dumps, f->ndumps + 1))
        return false;
    f->dumps[f->ndumps] = strdup(what);
    f->dumps[f->ndumps + 1] = NULL;
    return f->dumps[f->ndumps++] != NULL;
}

/* False: the value is not one of the option's. */
static bool heed(struct trace_flags *f, int option, const char *arg)
{
    switch (option) {
    case OPT_level: return number(arg, 0, 3, &f->level);
    case OPT_jobs: return number(arg, 1, 4096, &f->jobs);
    case OPT_exact: return f->exact = true;
    case OPT_fast_math: return f->fast_math = true;
    case OPT_verify: return f->verify = true;
    case OPT_march: return set_text(&f->march, arg);
    case OPT_verbose: return f->verbose = true;
    case OPT_dump_ir: return add_dump(f, arg);
    case OPT_cache_dir: return set_text(&f->cache_dir, arg);
    default: return true;
    }
}

int trace_flags_read(struct trace_flags *f, char *error, size_t size)
{
    const char *text = tccrt_env_text("TCCC_FLAGS");
    struct words w = {0};
    int status = TCC_OK;
    *f = (struct trace_flags){.level = -1};
    if (!text)
        return TCC_OK;
    if (!split(text, &w)) {
        snprintf(error, size, "no memory");
        status = TCC_EENV;
    }
    for (int i = 0; i < w.n && !status; i++) {
        const char *word = w.at[i], *arg = NULL;
        int option = *word == '-' ? find(word, &arg) : -1;
        enum kind kind = option < 0 ? NONE : rows[option].kind;
        if ((kind == NEEDED || kind == WORDARG) && !arg && i + 1 < w.n)
            arg = w.at[++i];
        bool lacks = (kind == NEEDED || kind == WORDARG) && !arg, extra = arg && (kind == NONE || kind == WORD);
        if (option >= 0 && !lacks && !extra && heed(f, option, arg ? arg : ""))
            continue;
        status = TCC_EUSAGE;
        snprintf(error, size, "TCCC_FLAGS: %s '%s'", option < 0 ? "unknown option" : "wrong value for option", word);
    }
    if (!status && f->exact && f->fast_math) {
        status = TCC_EUSAGE;
        snprintf(error, size, "TCCC_FLAGS: --exact and --fast-math exclude each other");
    }
    free(w.at);
    free(w.copy);
    return status;
}

void trace_flags_free(struct trace_flags *f)
{
    free(f->march);
    free(f->cache_dir);
    for (int i = 0; i < f->ndumps; i++)
        free(f->dumps[i]);
    free(f->dumps);
}
