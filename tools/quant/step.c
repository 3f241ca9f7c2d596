/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - tccc --quantize=MODE,KEY=VALUE,...: what tccc-quantize does, on the way to an artifact. Keys are its options
 * that tccc has not; of tccc's own it sees those that it has too, so that the calibration runs on this machine whatever
 * the artifact is for. The result lies in a folder that goes away, under the model's name.
 */
#include "tools/quant/quant_int.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_WORDS = 64 };

struct words {
    const struct options *o;
    int n;
    struct {
        enum option_id id;
        const char *value;
    } at[MOST_WORDS];
    const char *list[MOST_WORDS]; /* the values by option */
};

static bool is_key(const struct option_row *row)
{
    return row->tools >> TOOL_Q & 1 && !(row->tools >> TOOL_C & 1);
}

static int unknown(const struct options *o, const char *word)
{
    char known[300] = "";

    for (int i = 0; i < NOPTIONS; i++)
        if (is_key(&option_table[i]) && strlen(known) + 30 < sizeof known)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s%s", *known ? ", " : "",
                     option_table[i].long_name, option_table[i].kind == OPTION_NONE ? "" : "=");
    return usage_error(o, "--quantize: '%.60s' is no part of it; expected MODE, then of %s", word, known);
}

/* A word between commas: KEY=VALUE, or KEY alone. */
static int take_word(struct words *w, char *word)
{
    char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value - word) : strlen(word);

    if (w->n == MOST_WORDS)
        return usage_error(w->o, "--quantize: more than %d words", MOST_WORDS);
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option_row *row = &option_table[i];
        if (!is_key(row) || strlen(row->long_name) != n || memcmp(row->long_name, word, n))
            continue;
        if ((row->kind == OPTION_NONE) == (value != NULL))
            return usage_error(w->o, "--quantize: '%s' %s", row->long_name, value ? "takes no value" : "needs a value");
        w->at[w->n].id = (enum option_id)i;
        w->at[w->n++].value = value ? value + 1 : "";
        return EXIT_FINE;
    }
    return unknown(w->o, word);
}

/* MODE, then a colon or a comma, then words; a backslash takes a comma as it is. `text` is cut to pieces. */
static int take_words(struct words *w, char *text)
{
    size_t n = strcspn(text, ":,=");
    int code = EXIT_FINE;

    if (text[n] != '=') {
        w->at[w->n].id = OPT_quant_mode;
        w->at[w->n++].value = text;
        text += n;
        if (*text)
            *text++ = '\0';
    }
    while (*text && code == EXIT_FINE) {
        char *word = text, *to = text;
        for (; *text && *text != ','; text++) {
            text += *text == '\\' && text[1] == ',';
            *to++ = *text;
        }
        text += *text == ',';
        *to = '\0';
        code = take_word(w, word);
    }
    return code;
}

/* The options that tccc-quantize would have been given. */
static void set_options(struct options *own, struct words *w, const char *const *output)
{
    static const enum option_id others[] = {OPT_json, OPT_march};
    int k = 0;

    for (int i = 0; i < NOPTIONS; i++)
        if (!(option_table[i].tools >> TOOL_Q & 1) || is_key(&option_table[i]))
            own->given[i].n = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        own->given[others[i]].n = 0;
    own->given[OPT_output].at = (const char **)(uintptr_t)output;
    own->given[OPT_output].n = 1;
    for (int i = 0; i < NOPTIONS; i++) {
        const char **first = w->list + k;
        for (int j = 0; j < w->n; j++)
            if (w->at[j].id == (enum option_id)i)
                w->list[k++] = w->at[j].value;
        if (first == w->list + k)
            continue;
        own->given[i].at = first;
        own->given[i].n = (int)(w->list + k - first);
        own->given[i].inherited = 0;
    }
}

/* FOLDER/PARENT/NAME: artifacts are named after a model's file, or the folder that it lies in. */
static bool name_result(const char *folder, const char *model, char path[PATH_MAX])
{
    char full[PATH_MAX], copy[PATH_MAX];
    const char *name = strrchr(model, '/'), *parent = "model";

    name = name ? name + 1 : model;
    if (realpath(model, full)) {
        snprintf(copy, sizeof copy, "%s", full);
        parent = basename(dirname(copy));
    }
    int n = snprintf(full, sizeof full, "%s/%s", folder, strcmp(parent, "/") ? parent : "model");
    if (n >= (int)sizeof full || mkdir(full, 0700))
        return false;
    return snprintf(path, PATH_MAX, "%s/%s", full, name) < PATH_MAX;
}

int quant_step(const struct options *o, const char *folder, char *path)
{
    char *text = strdup(option_text(o, OPT_quantize, ""));
    struct options own = *o;
    struct words w = {.o = &own};
    const char *output[] = {path, NULL};

    if (!text || !name_result(folder, o->words[0], path)) {
        free(text);
        return tool_error(o, EXIT_ENVIRONMENT, "--quantize: no temporary file: %m");
    }
    int code = take_words(&w, text);
    if (code == EXIT_FINE) {
        set_options(&own, &w, output);
        code = quant_run(&own, option_set(o, OPT_quiet) ? NULL : stderr, o->words[0]);
    }
    free(text);
    return code;
}
