/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's words on the command line, and its environment variables. Where a tool compiles for NeuronCores, those
 * that say how become the options that say the same (env.def, and cc.def for the words of NEURON_CC_FLAGS), unless
 * these are given. Those that nothing of ours reads are answered, not ignored: a warning says what does the same.
 */
#include "runtime/neuron_isa.h"
#include "runtime/tccrt.h"
#include "tools/neuron/neuron_tool_int.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

enum answer { READ, COMPILED, ANSWERED };
static const struct {
    const char *name;
    enum answer answer;
    const char *text;
} variables[] = {
#define VARIABLE(name, answer, text) {#name, answer, text},
#include "tools/neuron/env.def"
};
enum { NVARIABLES = sizeof variables / sizeof *variables };

static const char *value(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* NEURON_RT_... that the table has not, too: a name that is spelled wrong. */
static void unknown(const char *entry)
{
    size_t n = strcspn(entry, "=");

    for (size_t k = 0; k < NVARIABLES; k++)
        if (strlen(variables[k].name) == n && !strncmp(variables[k].name, entry, n))
            return;
    if (entry[n] && entry[n + 1])
        fprintf(stderr, "warning: %.*s is not read: no variable of that name is known\n", (int)n, entry);
}

void neuron_env_warn(void)
{
    for (size_t k = 0; k < NVARIABLES; k++)
        if (variables[k].answer == ANSWERED && value(variables[k].name))
            fprintf(stderr, "warning: %s is not read: %s\n", variables[k].name, variables[k].text);
    for (char **e = environ; e && *e; e++)
        if (!strncmp(*e, "NEURON_RT_", 10))
            unknown(*e);
}

/* -- NEURON_CC_FLAGS -------------------------------------------------------------------------------------- */

enum action { PASS, OFF, SAME, NOTHING };
enum { NONE, VALUE };
enum { OPT_NONE = NOPTIONS };
static const struct flag {
    const char *name, *short_name;
    int argument;
    enum action action;
    int option;
    const char *text;
} flags[] = {
#define FLAG(name, short_name, argument, action, option, text) {name, short_name, argument, action, OPT_##option, text},
#include "tools/neuron/cc.def"
};
enum { NFLAGS = sizeof flags / sizeof *flags };

/* The flag that `word` is, and *value where its argument stands in the word; NULL: none. Short names may have theirs
 * behind them, as -O1. */
static const struct flag *find(const char *word, const char **value)
{
    size_t dashes = strspn(word, "-"), n = strcspn(word, "=");

    *value = word[n] ? word + n + 1 : NULL;
    for (const struct flag *f = flags; f < flags + NFLAGS && dashes; f++) {
        size_t length = strlen(f->short_name);

        if (dashes == 2 && n - 2 == strlen(f->name) && !strncmp(word + 2, f->name, n - 2))
            return f;
        if (dashes != 1 || !length || strncmp(word + 1, f->short_name, length))
            continue;
        if (!word[1 + length] || word[1 + length] == '=')
            return f;
        if (word[1 + length] >= '0' && word[1 + length] <= '9') {
            *value = word + 1 + length;
            return f;
        }
    }
    return NULL;
}

static bool is_same(const struct options *o, const struct flag *f, const char *value)
{
    const char *target = strchr(option_text(o, OPT_target, ""), ':');

    return f->argument == NONE || !strcmp(value, f->option == OPT_target && target ? target + 1 : f->text);
}

/* given[]: the option's argument so far, of NEURON_CC_FLAGS alone. */
static int take(const struct options *o, const struct flag *f, const char *word, const char *value, const char **given)
{
    switch (f->action) {
    case PASS: given[f->option] = value; break;
    case OFF: given[f->option] = NULL; break;
    case SAME:
        if (is_same(o, f, value))
            break;
        return f->option == OPT_target
                   ? usage_error(o, "NEURON_CC_FLAGS has '%s', the command line --target=%s", word,
                                 option_text(o, OPT_target, ""))
                   : usage_error(o, "NEURON_CC_FLAGS has '%s': the only value is %s", word, f->text);
    case NOTHING:
        if (!option_set(o, OPT_quiet))
            fprintf(stderr, "warning: NEURON_CC_FLAGS: --%s changes nothing: %s\n", f->name, f->text);
        break;
    }
    return -1;
}

/* Cuts `text` at blanks, in place; the last of several equal options wins, as there. */
static int read_flags(const struct options *o, char *text, const char **given)
{
    char *rest;
    int code = -1;

    for (char *word = strtok_r(text, " \t\n", &rest); word && code < 0; word = strtok_r(NULL, " \t\n", &rest)) {
        const char *value;
        const struct flag *f = find(word, &value);

        if (!f)
            return usage_error(o, "NEURON_CC_FLAGS holds '%s', which neuronx-cc doesn't have", word);
        if (f->argument == NONE && value)
            return usage_error(o, "NEURON_CC_FLAGS: '--%s' takes no argument", f->name);
        if (f->argument == VALUE && !value && !(value = strtok_r(NULL, " \t\n", &rest)))
            return usage_error(o, "NEURON_CC_FLAGS: '--%s' requires an argument", f->name);
        code = take(o, f, word, value, given);
    }
    return code;
}

/* -- Other variables of compilers ------------------------------------------------------------------------- */

static int cache_folder(const struct options *o, const char **given)
{
    const char *url = value("NEURON_COMPILE_CACHE_URL");

    if (!url || given[OPT_cache_dir])
        return -1;
    if (!strncmp(url, "file://", 7))
        url += 7;
    if (strstr(url, "://"))
        return usage_error(o, "NEURON_COMPILE_CACHE_URL=%s: expected a folder, or file:///FOLDER", url);
    given[OPT_cache_dir] = url;
    return -1;
}

static bool is_on(const char *name)
{
    return value(name) && strcmp(value(name), "0") != 0;
}

/* Everything in 16 bits, with stochastic rounding where a step writes its parameters. */
static void in_bf16(const struct options *o, const char *name, const char **given)
{
    bool trains = option_set(o, OPT_train) || o->tool == TOOL_T;
    enum option_id id = trains ? OPT_precision : OPT_auto_cast;

    if (!is_on(name) || given[OPT_auto_cast] || option_set(o, OPT_auto_cast) || option_set(o, OPT_precision))
        return;
    given[id] = trains ? "bf16-sr" : "all";
    if (!option_set(o, OPT_quiet))
        fprintf(stderr, "warning: %s is deprecated by the vendor: --%s=%s is what it does here\n", name,
                option_table[id].long_name, given[id]);
}

/* neuronx-cc's words on the command line. */
static int vendor_words(struct options *o)
{
    const char *type = option_text(o, OPT_model_type, "generic"), *level = option_text(o, OPT_optlevel, NULL);

    if (strcmp(type, "generic") && strcmp(type, "transformer") && strcmp(type, "unet-inference"))
        return usage_error(o, "--model-type=%s: expected generic, transformer or unet-inference", type);
    if (level && option_set(o, OPT_level))
        return usage_error(o, "-O and --optlevel are the same: one of them");
    return !level || option_give(o, OPT_level, level) ? -1 : tool_error(o, EXIT_ENVIRONMENT, "no memory");
}

const char *neuron_env_lnc(void)
{
    return tccrt_env_text("NEURON_LOGICAL_NC_CONFIG");
}

/* --lnc, given here or by NEURON_CC_FLAGS; without it the machine has its default. */
static int check_lnc(const struct options *o)
{
    const char *lnc = option_text(o, OPT_lnc, NULL), *target = option_text(o, OPT_target, "cpu");

    if (!lnc)
        return -1;
    if (strcmp(lnc, "1") && strcmp(lnc, "2"))
        return usage_error(o, "--lnc=%s: expected 1 or 2", lnc);
    if (!strcmp(lnc, "2") && strcmp(target, "neuron:trn2") && strcmp(target, "neuron:trn3"))
        return usage_error(
            o, "--lnc=2: a logical core of two physical ones is for --target=neuron:trn2 and neuron:trn3, not %s",
            target);
    return -1;
}

const char *neuron_env_target(const struct options *o, const char *target)
{
    static const char *const pairs[][3] = {{"neuron:trn2", "neuron:trn2" NEURON_LNC1, "neuron:trn2" NEURON_LNC2},
                                           {"neuron:trn3", "neuron:trn3" NEURON_LNC1, "neuron:trn3" NEURON_LNC2}};
    const char *lnc = option_text(o, OPT_lnc, NULL);

    for (size_t k = 0; lnc && k < sizeof pairs / sizeof *pairs; k++)
        if (!strcmp(target, pairs[k][0]))
            return pairs[k][*lnc - '0'];
    return target;
}

int neuron_env_apply(struct options *o)
{
    const char *text = value("NEURON_CC_FLAGS"), *given[NOPTIONS + 1] = {NULL};
    int code = vendor_words(o);

    if (code >= 0)
        return code;
    if (strncmp(option_text(o, OPT_target, ""), "neuron:", 7))
        return check_lnc(o);
    if (text && !(o->neuron = strdup(text)))
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (text && (code = read_flags(o, o->neuron, given)) >= 0)
        return code;
    if (!tccrt_env_text("TCCC_CACHE_DIR") && (code = cache_folder(o, given)) >= 0)
        return code;
    in_bf16(o, "XLA_USE_BF16", given);
    in_bf16(o, "XLA_DOWNCAST_BF16", given);
    given[OPT_bucket_cap] = value("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB");
    if (!given[OPT_bucket_cap])
        given[OPT_bucket_cap] = value("BUCKET_CAP_MB");
    if (!option_set(o, OPT_data_parallel))
        given[OPT_bucket_cap] = NULL;
    for (int id = 0; id < NOPTIONS; id++) {
        if (!given[id] || option_set(o, (enum option_id)id) || !(option_table[id].tools & (1u << o->tool)))
            continue;
        if (!option_give(o, (enum option_id)id, given[id]))
            return tool_error(o, EXIT_ENVIRONMENT, "no memory");
        o->given[id].inherited = o->given[id].n;
    }
    if ((code = check_lnc(o)) >= 0)
        return code;
    o->compiles_only = (option_table[OPT_nc_sim].tools & (1u << o->tool)) && is_on("NEURON_EXTRACT_GRAPHS_ONLY");
    if (o->compiles_only && !option_set(o, OPT_cache_dir) && !tccrt_env_text("TCCC_CACHE_DIR"))
        return usage_error(o, "NEURON_EXTRACT_GRAPHS_ONLY keeps what is compiled, and runs nothing: "
                              "--cache-dir or NEURON_COMPILE_CACHE_URL says where");
    return -1;
}
