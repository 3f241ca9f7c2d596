/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads command lines in the GNU manner: long options with = or the next word, abbreviations are not taken; bundled
 * short ones; options and words in any order; `--` ends the options. getopt_long can't do `-MD`, nor tell a table.
 */
#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tools/options_int.h"

#include "base/format.h"
#include "base/grow.h"
#include "base/safe.h"
#include "ir/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define C (1u << TOOL_C)
#define O (1u << TOOL_O)
#define R (1u << TOOL_R)
#define B (1u << TOOL_B)
#define T (1u << TOOL_T)
#define K (1u << TOOL_K)
#define P (1u << TOOL_P)
#define S (1u << TOOL_S)
#define N (1u << TOOL_N)
#define Q (1u << TOOL_Q)
#define COMPILE (C | R | B | T)
#define TRAINS (COMPILE | P)
#define ALL (C | O | R | B | T)
const struct option_row option_table[NOPTIONS] = {
#define TCCC_OPT(id, long_name, short_name, arg, kind, tools, group, help) \
    {long_name, short_name, arg, OPTION_##kind, tools, group, help},
#include "base/options.def"
};

static const struct {
    const char *old;
    int id;
} renamed_table[] = {
#define TCCC_RENAMED(old, id) {old, OPT_##id},
#include "base/options.def"
};
#undef C
#undef O
#undef R
#undef B
#undef T
#undef K
#undef P
#undef S
#undef N
#undef Q
#undef COMPILE
#undef TRAINS
#undef ALL

const struct tool_row tool_table[NTOOLS] = {
#define TOOL(letter, name, line, usage) {name, line, usage},
#include "tools/tools.def"
};

static char last_error[400];

/* Names in it may come from files. */
static void print_shown(const char *text)
{
    char shown[8192];

    tcr_show(shown, sizeof shown, text, false);
    fprintf(stderr, "%s\n", shown);
}

int tool_error(const struct options *o, int code, const char *format, ...)
{
    FORMATTED(text, 4096, format);
    FORMAT_INTO(last_error, sizeof last_error, format);
    (void)o; /* every tool's messages begin alike, as the compiler's do */
    fputs(code == EXIT_BUG ? "internal error: " : "error: ", stderr);
    print_shown(text);
    return code;
}

const char *tool_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *tool_last_error(void)
{
    return last_error;
}

int usage_error(const struct options *o, const char *format, ...)
{
    FORMATTED(text, 4096, format);
    fputs("error: ", stderr);
    print_shown(text);
    fprintf(stderr, "Try '%s --help'\n", tool_table[o->tool].name);
    return EXIT_USAGE;
}

static bool push(const char ***list, int *n, const char *s)
{
    if (!ONE_MORE(*list, *n + 1))
        return false;
    (*list)[(*n)++] = s;
    (*list)[*n] = NULL;
    return true;
}

static int give(struct options *o, int id, const char *arg)
{
    const struct option_row *row = id < 0 ? NULL : &option_table[id];
    bool word = row && option_is_word(row);

    if (row && !*arg && !strncmp(row->arg, "FILE", 4) && (row->kind == OPTION_NEEDED || row->kind == OPTION_WORDARG))
        return usage_error(o, "%s%s: expected a file's name", *row->long_name && !word ? "--" : "-", row->long_name);
    if (id >= 0 && !option_give(o, (enum option_id)id, arg))
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    return -1;
}

/* -- Finding options. `any` also finds those of other tools (for TCCC_FLAGS). ----------------- */

static bool of_tool(const struct options *o, int id, bool any)
{
    return any || (option_table[id].tools & (1u << o->tool));
}

static int find_long(const struct options *o, const char *name, size_t length, bool word, bool any)
{
    for (int id = 0; id < NOPTIONS; id++) {
        const struct option_row *row = &option_table[id];
        if (*row->long_name && option_is_word(row) == word && of_tool(o, id, any) && strlen(row->long_name) == length &&
            strncmp(row->long_name, name, length) == 0)
            return id;
    }
    return -1;
}

/* The option that had this name once, with a warning; -1: none. */
static int find_renamed(const struct options *o, const char *name, size_t length, bool any)
{
    for (size_t i = 0; i < sizeof renamed_table / sizeof *renamed_table; i++) {
        int id = renamed_table[i].id;
        if (!of_tool(o, id, any) || strlen(renamed_table[i].old) != length ||
            strncmp(renamed_table[i].old, name, length))
            continue;
        if (of_tool(o, id, false))
            fprintf(stderr, "warning: option '--%.*s' is called '--%s' now\n", (int)length, name,
                    option_table[id].long_name);
        return id;
    }
    return -1;
}

static int find_short(const struct options *o, char c, bool any)
{
    for (int id = 0; id < NOPTIONS; id++)
        if (c && option_table[id].short_name == c && of_tool(o, id, any))
            return id;
    return -1;
}

static int unknown_option(const struct options *o, const char *name, size_t length, bool is_long)
{
    struct ir_nearest near = {.word = name, .length = length};
    const char *dashes = is_long ? "--" : "-";

    for (int id = 0; id < NOPTIONS; id++) {
        const struct option_row *row = &option_table[id];
        bool word = option_is_word(row);
        if (of_tool(o, id, false) && word != is_long)
            ir_nearest_try(&near, row->long_name);
    }
    return near.best ? usage_error(o, "unknown option '%s%.*s': did you mean '%s%s'?", dashes, (int)length, name,
                                   dashes, near.best)
                     : usage_error(o, "unknown option '%s%.*s'", dashes, (int)length, name);
}

/* Of -MDF the letter is unknown, or a word is mistyped, or a dash is missing. */
static int unknown_short(const struct options *o, const char *whole, char letter)
{
    size_t n = strcspn(whole, "=");
    int id = whole[n] ? find_long(o, whole, n, true, false) : -1;
    if (id >= 0) /* -MF=FILE, -MD=FILE */
        return usage_error(o, "option '-%.*s' takes %s", (int)n, whole,
                           option_table[id].kind == OPTION_WORD ? "no argument" : "its argument behind a space");
    if (find_long(o, whole, n, false, false) >= 0)
        return usage_error(o, "unknown option '-%s': did you mean '--%.*s'?", whole, (int)n, whole);
    return whole[1] ? unknown_option(o, whole, n, false) : usage_error(o, "unknown option '-%c'", letter);
}

/* -- Reading ---------------------------------------------------------------------------------- */

struct reader {
    struct options *o;
    int argc, at;
    char **argv;
    bool environment; /* reading TCCC_FLAGS: options of other tools are skipped */
};

/* The tool's own option if it has one of that name, else (in TCCC_FLAGS) another tool's, which is read and dropped. */
static int keep(const struct reader *r, int id, int any, bool *drop)
{
    *drop = id < 0 && any >= 0 && r->environment;
    return *drop ? any : id;
}

static int read_long(struct reader *r, const char *name)
{
    struct options *o = r->o;
    size_t n = strcspn(name, "=");
    bool drop;
    int id = keep(r, find_long(o, name, n, false, false), find_long(o, name, n, false, true), &drop);

    if (id < 0 && (id = find_renamed(o, name, n, r->environment)) >= 0)
        drop = !of_tool(o, id, false);
    if (id < 0)
        return unknown_option(o, name, n, true);
    if (name[n] == '=') {
        if (option_table[id].kind == OPTION_NONE)
            return usage_error(o, "option '--%.*s' takes no argument", (int)n, name);
        return give(o, drop ? -1 : id, name + n + 1);
    }
    if (option_table[id].kind == OPTION_NEEDED) {
        if (r->at >= r->argc)
            return usage_error(o, "option '--%s' requires an argument: --%s=%s", name, name, option_table[id].arg);
        return give(o, drop ? -1 : id, r->argv[r->at++]);
    }
    return give(o, drop ? -1 : id, "");
}

static int read_word_option(struct reader *r, int id, bool drop)
{
    const struct option_row *row = &option_table[id];
    if (row->kind == OPTION_WORD)
        return give(r->o, drop ? -1 : id, "");
    if (r->at >= r->argc)
        return usage_error(r->o, "option '-%s' requires an argument: -%s %s", row->long_name, row->long_name, row->arg);
    return give(r->o, drop ? -1 : id, r->argv[r->at++]);
}

static int read_short(struct reader *r, const char *letters)
{
    struct options *o = r->o;
    const char *whole = letters;
    bool drop;
    int word = keep(r, find_long(o, letters, strlen(letters), true, false),
                    find_long(o, letters, strlen(letters), true, true), &drop);

    if (word >= 0)
        return read_word_option(r, word, drop);
    for (; *letters; letters++) {
        int id = keep(r, find_short(o, *letters, false), find_short(o, *letters, true), &drop), code;
        if (id < 0)
            return unknown_short(o, whole, *letters);
        const struct option_row *row = &option_table[id];
        if (row->kind == OPTION_NEEDED || row->kind == OPTION_OPTIONAL) {
            const char *arg = letters + 1;
            if (!*arg && row->kind == OPTION_NEEDED) {
                if (r->at >= r->argc)
                    return usage_error(o, "option '-%c' requires an argument: -%c %s", *letters, *letters, row->arg);
                arg = r->argv[r->at++];
            }
            return give(o, drop ? -1 : id, arg);
        }
        if ((code = give(o, drop ? -1 : id, "")) >= 0)
            return code;
    }
    return -1;
}

static int read_all(struct reader *r)
{
    bool ended = false;
    int code = -1;

    while (r->at < r->argc && code < 0) {
        const char *word = r->argv[r->at++];
        if (!ended && strcmp(word, "--") == 0)
            ended = true;
        else if (!ended && word[0] == '-' && word[1] == '-')
            code = read_long(r, word + 2);
        else if (!ended && word[0] == '-' && word[1])
            code = read_short(r, word + 1);
        else if (r->environment)
            code = usage_error(r->o, "TCCC_FLAGS holds '%s', which is not an option", word);
        else if (!push(&r->o->words, &r->o->nwords, word))
            code = tool_error(r->o, EXIT_ENVIRONMENT, "no memory");
    }
    return code;
}

/* Splits TCCC_FLAGS at blanks; a backslash keeps the next character. */
static int read_environment(struct options *o)
{
    const char *text = tccrt_env_text("TCCC_FLAGS");
    const char **words = NULL;
    int n = 0, code;

    if (!text || !*text)
        return -1;
    o->environment = text;
    char *to = o->copy = malloc(strlen(text) + 2);
    bool ok = to != NULL;
    while (ok && *(text += strspn(text, " \t\n"))) {
        ok = push(&words, &n, to);
        for (; *text && !strchr(" \t\n", *text); text++) {
            if (*text == '\\' && text[1])
                text++;
            *to++ = *text;
        }
        *to++ = '\0';
    }
    struct reader r = {.o = o, .argc = n, .argv = (char **)words, .environment = true};
    code = ok ? read_all(&r) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int id = 0; id < NOPTIONS; id++)
        o->given[id].inherited = o->given[id].n;
    if (code == EXIT_USAGE)
        fprintf(stderr, "note: TCCC_FLAGS is '%s'\n", o->environment);
    free(words);
    return code;
}

/* -v: which program this is, what TCCC_FLAGS added, and the options in force. */
static void tell_options(const struct options *o)
{
    fprintf(stderr, "note: %s (tccc) %s\n", tool_table[o->tool].name, PACKAGE_VERSION);
    if (o->environment)
        fprintf(stderr, "note: TCCC_FLAGS adds: %s\n", o->environment);
    fputs("note: options:", stderr);
    for (int id = 0; id < NOPTIONS; id++)
        for (int k = 0; k < o->given[id].n; k++) {
            const struct option_row *row = &option_table[id];
            bool is_long = *row->long_name && !option_is_word(row);
            const char *value = o->given[id].at[k];
            fprintf(stderr, is_long ? " --%s%s%s" : " -%s%s%s",
                    *row->long_name ? row->long_name : (char[]){row->short_name, 0}, *value ? is_long ? "=" : "" : "",
                    value);
        }
    fputc('\n', stderr);
}

static pid_t guarded; /* the process; children that compile crash as they always do */

/* In guarded memory a fault is told by the run-time library's handler; behind it comes this one: the fault is ours. */
static void end_as_bug(int number)
{
    if (getpid() == guarded)
        _exit(EXIT_BUG);
    signal(number, SIG_DFL);
}

static int guard_apply(const struct options *o)
{
    const char *where = option_text(o, OPT_guard, "");
    bool begin = !strcmp(where, "begin");

    if (!begin && *where && strcmp(where, "end"))
        return usage_error(o, "--guard=%s: expected end or begin", where);
    if (option_set(o, OPT_guard))
        setenv("TCCRT_GUARD", begin ? "begin" : "end", 1);
    if (tccrt_env_text("TCCRT_GUARD") && guarded != getpid()) {
        guarded = getpid();
        signal(SIGSEGV, end_as_bug);
        signal(SIGBUS, end_as_bug);
    }
    return -1;
}

/* A write past a limit of file sizes fails, and is told, as one to a full disk does. A standard stream that the caller
 * closed is nobody's: else the first file that is opened would get its number, and with it what is printed. */
static void guard_streams(void)
{
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

int options_read(struct options *o, enum tool tool, int argc, char **argv)
{
    struct reader r = {.o = o, .at = 1, .argc = argc, .argv = argv};

    guard_streams();
    *o = (struct options){.tool = tool};
    int code = tccrt_env_check() ? usage_error(o, "%s", tccrt_error()) : read_environment(o);
    if (code < 0)
        code = read_all(&r);
    if (code >= 0)
        return code;
    if (option_set(o, OPT_help)) {
        const char *what = option_text(o, OPT_help, "");
        return options_help(stdout, tool, what)
                   ? EXIT_FINE
                   : usage_error(o, "--help=%s: expected all or the beginning of a group's name", what);
    }
    if (option_set(o, OPT_version)) {
        printf("%s (tccc) %s, commit %s\n%s", tool_table[tool].name, tccc_version(), options_commit(), tccc_build());
        return EXIT_FINE;
    }
    if (!option_set(o, OPT_quiet))
        neuron_env_warn();
    code = guard_apply(o);
    if (code < 0)
        code = neuron_env_apply(o);
    if (code < 0 && option_set(o, OPT_verbose))
        tell_options(o);
    return code;
}

static void options_free(struct options *o)
{
    for (int i = 0; i < NOPTIONS; i++)
        free(o->given[i].at);
    free(o->words);
    free(o->copy);
    free(o->neuron);
    *o = (struct options){0};
}

int options_end(struct options *o, int code)
{
    bool lost = fflush(stdout) != 0;

    if ((lost || ferror(stdout)) && (code == EXIT_FINE || code == EXIT_COMPILED))
        code = tool_error(o, EXIT_ENVIRONMENT, "cannot write standard output%s%s", lost ? ": " : "",
                          lost ? strerror(errno) : "");
    if (code == EXIT_COMPILED && !option_set(o, OPT_quiet))
        fprintf(stderr, "note: compiled into the cache; NEURON_EXTRACT_GRAPHS_ONLY is set: nothing is run\n");
    options_free(o);
    return code == EXIT_COMPILED ? EXIT_FINE : code;
}

int options_run(enum tool tool, int argc, char **argv, int (*run)(struct options *o))
{
    struct options o;
    signal(SIGCHLD, SIG_DFL); /* who started the tool may ignore it: then no process is waited for */
    int code = options_read(&o, tool, argc, argv);
    return options_end(&o, code < 0 ? run(&o) : code);
}

bool option_give(struct options *o, enum option_id id, const char *arg)
{
    return push(&o->given[id].at, &o->given[id].n, arg);
}

/* -- Arguments -------------------------------------------------------------------------------- */

const char *option_text(const struct options *o, enum option_id id, const char *otherwise)
{
    return option_set(o, id) ? o->given[id].at[o->given[id].n - 1] : otherwise;
}

/* The option as the user writes it. */
static const char *dashed(enum option_id id, char *buffer, size_t size)
{
    const struct option_row *row = &option_table[id];
    if (*row->long_name)
        snprintf(buffer, size, "--%s=", row->long_name);
    else
        snprintf(buffer, size, "-%c", row->short_name);
    return buffer;
}

const char *auto_cast_words(const struct options *o)
{
    const char *text = option_text(o, OPT_auto_cast, NULL);

    return text && strcmp(text, "none") ? text : NULL;
}

bool option_int(const struct options *o, enum option_id id, int64_t lo, int64_t hi, int64_t *value)
{
    const char *text = option_text(o, id, NULL);
    char *end, name[64];

    if (!text)
        return true;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || v < lo || v > hi)
        return usage_error(o, "%s%s: expected a whole number from %lld to %lld", dashed(id, name, sizeof name), text,
                           (long long)lo, (long long)hi),
               false;
    *value = v;
    return true;
}

bool option_float(const struct options *o, enum option_id id, double *value)
{
    const char *text = option_text(o, id, NULL);
    char *end, name[64];

    if (!text)
        return true;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0) || isinf(v))
        return usage_error(o, "%s%s: expected a number that is not negative", dashed(id, name, sizeof name), text),
               false;
    *value = v;
    return true;
}
