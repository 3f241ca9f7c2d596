/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tools/: the command line, read by the table options.def. */
#ifndef TCCC_TOOLS_OPTIONS_INT_H
#define TCCC_TOOLS_OPTIONS_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of every tool (DESIGN, command lines). */
enum exit_code { EXIT_FINE, EXIT_DATA, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_BUG,
                 EXIT_COMPILED /* inside a tool that has compiled a model and is to run nothing: EXIT_FINE */ };

enum tool {
#define TOOL(letter, name, line, usage) TOOL_##letter,
#include "tools/tools.def"
    NTOOLS
};

enum option_id {
#define TCCC_OPT(id, long_name, short_name, arg, kind, tools, group, help) OPT_##id,
#include "base/options.def"
    NOPTIONS
};

enum option_kind { OPTION_NONE, OPTION_NEEDED, OPTION_OPTIONAL, OPTION_WORD, OPTION_WORDARG };

struct option_row {
    const char *long_name;
    char short_name;
    const char *arg;
    enum option_kind kind;
    unsigned tools;              /* bit 1 << enum tool */
    const char *group, *help;
};
extern const struct option_row option_table[NOPTIONS];

/* Written -NAME, not --NAME. */
static inline bool
option_is_word(const struct option_row *row)
{
    return row->kind == OPTION_WORD || row->kind == OPTION_WORDARG;
}

struct tool_row { const char *name, *line, *usage; };
extern const struct tool_row tool_table[NTOOLS];

/* A read command line. Lists are ended by NULL; strings point into argv or the environment's copy. */
struct options {
    enum tool tool;
    /* arguments in order ("" where none was given); the first are TCCC_FLAGS' */
    struct { int n; const char **at; int inherited; } given[NOPTIONS];
    int nwords;
    const char **words;                                      /* what is no option */
    const char *environment;                                 /* TCCC_FLAGS, or NULL */
    char *copy, *neuron;                                     /* of TCCC_FLAGS and NEURON_CC_FLAGS */
    /* NEURON_EXTRACT_GRAPHS_ONLY: a model is compiled, and not run */
    bool compiles_only;
    const char *keep;            /* what a model was compiled to goes there, once it is open; NULL: it goes */
};

/* Reads TCCC_FLAGS (options that `tool` lacks are skipped there), then argv. Prints --help and --version itself.
 * Returns -1 to go on, else the exit code; options_end() in every case. */
int options_read(struct options *o, enum tool tool, int argc, char **argv);
/* Frees them; the status of the process. */
int options_end(struct options *o, int code);
/* A tool's main(), which does `run` where the command line says no more. */
int options_run(enum tool tool, int argc, char **argv, int (*run)(struct options *o));

static inline bool
option_set(const struct options *o, enum option_id id)
{
    return o->given[id].n > 0;
}
/* As if the option stood on the command line, without an argument. False: no memory. */
bool option_give(struct options *o, enum option_id id, const char *arg);
/* The last argument given, or `otherwise`. */
const char *option_text(const struct options *o, enum option_id id, const char *otherwise);
/* Numbers: false after a message on standard error. Untouched where the option is not given. */
bool option_int(const struct options *o, enum option_id id, int64_t lo, int64_t hi, int64_t *value);
bool option_float(const struct options *o, enum option_id id, double *value);

/* "error: " ("internal error: " for EXIT_BUG) and the message on standard error; usage_error adds where help is; both
 * return the code. */
const char *tool_base_name(const char *path);        /* what stands behind its last slash */
const char *tool_last_error(void);           /* what tool_error() said last; "" */
int usage_error(const struct options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tool_error(const struct options *o, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What --auto-cast names; NULL where it is not given, and for `none`. */
const char *auto_cast_words(const struct options *o);

/* Variables of Neuron's that are set and that nothing reads: a warning each, with what does the same
 * (neuron/env.def). */
void neuron_env_warn(void);
/* The vendor's words on the command line, and variables that say how to compile for NeuronCores, as if their options
 * were given; where the target is another they say nothing. -1 to go on, else the exit code. */
int neuron_env_apply(struct options *o);
/* The target with what --lnc says, once neuron_env_apply() has allowed for it. */
const char *neuron_env_target(const struct options *o, const char *target);

/* Documents made of the tables. */
void options_man(FILE *out, enum tool tool);
void options_bash(FILE *out);
void options_zsh(FILE *out);
void options_fish(FILE *out);
/* Does the text begin as one of the option's values in help.def, up to a colon or comma? */
bool options_knows(enum option_id id, const char *text);
/* --help: the first page where `what` is "", every option where it is "all", else the groups whose names begin so.
 * False: there is none. */
bool options_help(FILE *out, enum tool tool, const char *what);
/* The commit that the tools were built from; "unknown" outside a checkout and a release. */
const char *options_commit(void);

#endif
