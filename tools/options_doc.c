/* SPDX-License-Identifier: Apache-2.0 */
/* --help and man pages, made of options.def, tools.def and help.def. */
#include "tools/options_int.h"

#include <ctype.h>
#include <string.h>

static const struct {
    enum tool tool;
    enum option_id id;
    const char *text;
} usual_table[] = {
#define USUAL(tool, option, text) {TOOL_##tool, OPT_##option, text},
#include "tools/help.def"
};

static const struct {
    enum tool tool;
    const char *command, *text;
} example_table[] = {
#define EXAMPLE(tool, command, text) {TOOL_##tool, command, text},
#include "tools/help.def"
};

enum { NUSUAL = sizeof usual_table / sizeof *usual_table, NEXAMPLES = sizeof example_table / sizeof *example_table };

/* Writes text indented and wrapped at 100 columns; `column` is where the line already stands. */
static void wrapped(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column + n + 1 > 100 && column > indent) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void spelling(const struct option_row *row, char *buffer, size_t size)
{
    char shorter[64] = "", longer[96] = "";
    bool optional = row->kind == OPTION_OPTIONAL, none = row->kind == OPTION_NONE;

    if (option_is_word(row)) {
        snprintf(buffer, size, "-%s%s%s", row->long_name, row->kind == OPTION_WORD ? "" : " ", row->arg);
        return;
    }
    if (row->short_name)
        snprintf(shorter, sizeof shorter, "-%c%s%s", row->short_name, none || *row->long_name ? "" : " ",
                 *row->long_name ? "" : row->arg);
    if (*row->long_name)
        snprintf(longer, sizeof longer, optional ? "--%s[=%s]" : none ? "--%s%s" : "--%s=%s", row->long_name, row->arg);
    snprintf(buffer, size, "%s%s%s", shorter, *shorter && *longer ? ", " : "", longer);
}

/* Is this the first option of its group that the tool has? */
static bool opens_group(enum tool tool, int id)
{
    for (int i = 0; i < id; i++)
        if ((option_table[i].tools & (1u << tool)) && strcmp(option_table[i].group, option_table[id].group) == 0)
            return false;
    return true;
}

/* The rows of the group that this option opens. */
static void each_of_group(FILE *out, enum tool tool, int first, void (*row)(FILE *, const struct option_row *))
{
    for (int i = first; i < NOPTIONS; i++)
        if ((option_table[i].tools & (1u << tool)) && strcmp(option_table[i].group, option_table[first].group) == 0)
            row(out, &option_table[i]);
}

/* -- Help ---------------------------------------------------------------------------------------- */

static void help_heading(FILE *out, const char *group)
{
    fprintf(out, "\n%s:\n", group);
}

static void help_line(FILE *out, const struct option_row *row, const char *help)
{
    char text[160];
    spelling(row, text, sizeof text);
    fprintf(out, "  %-26s", text);
    if (strlen(text) > 25)
        fprintf(out, "\n%28s", "");
    wrapped(out, help, 28, 28);
}

static void help_row(FILE *out, const struct option_row *row)
{
    help_line(out, row, row->help);
}

static void help_usage(FILE *out, enum tool tool)
{
    const char *usage = tool_table[tool].usage, *prefix = "usage: ";

    while (*usage) {
        int n = (int)strcspn(usage, "\n");
        fprintf(out, "%s%.*s\n", prefix, n, usage);
        usage += n + 1;
        prefix = "       ";
    }
}

/* A group's name as --help= takes it: "training-in-stages". */
static void group_word(const char *group, char *word, size_t size)
{
    size_t n = 0;

    for (; group[n] && n + 1 < size; n++)
        word[n] = group[n] == ' ' ? '-' : (char)tolower((unsigned char)group[n]);
    word[n] = '\0';
}

static void help_end(FILE *out, enum tool tool)
{
    char word[64], text[1024];
    int n = 0, at = 0;

    for (int i = 0; i < NOPTIONS; i++)
        n += (option_table[i].tools >> tool) & 1;
    at = snprintf(text, sizeof text, "--help=all says all %d options, --help=GROUP those of", n);
    for (int i = 0; i < NOPTIONS; i++) {
        if (!(option_table[i].tools & (1u << tool)) || !opens_group(tool, i))
            continue;
        group_word(option_table[i].group, word, sizeof word);
        at += snprintf(text + at, sizeof text - (size_t)at, " %s", word);
    }
    fputc('\n', out);
    wrapped(out, text, 0, 0);
}

/* The first page: what most commands are made of. */
static void help_page(FILE *out, enum tool tool)
{
    const char *line = tool_table[tool].line;

    help_usage(out, tool);
    fprintf(out, "%c%s.\n", toupper((unsigned char)*line), line + 1);
    help_heading(out, "Usual options");
    for (int i = 0; i < NUSUAL; i++)
        if (usual_table[i].tool == tool)
            help_line(out, &option_table[usual_table[i].id], usual_table[i].text);
    help_heading(out, "Examples");
    for (int i = 0; i < NEXAMPLES; i++)
        if (example_table[i].tool == tool)
            fprintf(out, "  # %s\n  %s\n", example_table[i].text, example_table[i].command);
    help_end(out, tool);
}

bool options_help(FILE *out, enum tool tool, const char *what)
{
    char word[64];
    bool all = !strcmp(what, "all"), any = false;

    if (!*what) {
        help_page(out, tool);
        return true;
    }
    for (int first = 0; first < NOPTIONS; first++) {
        if (!(option_table[first].tools & (1u << tool)) || !opens_group(tool, first))
            continue;
        group_word(option_table[first].group, word, sizeof word);
        if (!all && strncmp(word, what, strlen(what)))
            continue;
        if (!any)
            help_usage(out, tool);
        any = true;
        help_heading(out, option_table[first].group);
        each_of_group(out, tool, first, help_row);
    }
    if (any)
        fputs("\nTCCC_FLAGS in the environment holds options that come before those of the command line.\n"
              "Exit status: 0 success; 1 wrong model, data, file or comparison; 2 usage; 3 environment; 4 internal "
              "error.\n",
              out);
    return any;
}

/* -- Man pages ------------------------------------------------------------------------------------- */

/* Text for roff: hyphens and backslashes are special, and a leading dot or quote is a request. */
static void roff(FILE *out, const char *s)
{
    if (*s == '.' || *s == '\'')
        fputs("\\&", out);
    for (; *s; s++) {
        if (*s == '-')
            fputs("\\-", out);
        else if (*s == '\\')
            fputs("\\e", out);
        else
            fputc(*s, out);
    }
}

static void man_row(FILE *out, const struct option_row *row)
{
    char text[160];
    spelling(row, text, sizeof text);
    fputs(".TP\n.B ", out);
    roff(out, text);
    fputc('\n', out);
    roff(out, row->help);
    fputc('\n', out);
}

static void man_example(FILE *out, const char *command, const char *text)
{
    fputs(".TP\n.B ", out);
    roff(out, command);
    fputc('\n', out);
    roff(out, text);
    fputc('\n', out);
}

void options_man(FILE *out, enum tool tool)
{
    const struct tool_row *t = &tool_table[tool];

    fprintf(out, ".TH %s 1 \"\" \"tccc %s\"\n.SH NAME\n", t->name, PACKAGE_VERSION);
    roff(out, t->name);
    fputs(" \\- ", out);
    roff(out, t->line);
    fputs("\n.SH SYNOPSIS\n", out);
    for (const char *usage = t->usage; *usage; usage = strchr(usage, '\n') + 1) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(usage, "\n"), usage);
        roff(out, line);
        fputs("\n.br\n", out);
    }
    fputs(".SH OPTIONS\n", out);
    for (int i = 0; i < NOPTIONS; i++) {
        if (!(option_table[i].tools & (1u << tool)) || !opens_group(tool, i))
            continue;
        fprintf(out, ".SS %s\n", option_table[i].group);
        each_of_group(out, tool, i, man_row);
    }
    fputs(".SH EXAMPLES\n", out);
    for (int i = 0; i < NEXAMPLES; i++)
        if (example_table[i].tool == tool)
            man_example(out, example_table[i].command, example_table[i].text);
    fputs(".SH ENVIRONMENT\n.TP\n.B TCCC_FLAGS\nOptions, separated by blanks (a backslash keeps the next character), "
          "that come "
          "before those of the command line. Options that only another tool has are skipped.\n"
          ".SH EXIT STATUS\n0 success; 1 wrong model, data, file or comparison; 2 usage; 3 the environment (no "
          "linker, no "
          "device, no memory, no space); 4 internal error.\n.SH SEE ALSO\n",
          out);
    const char *separator = "";
    for (int i = 0; i < NTOOLS; i++) {
        if (i == (int)tool)
            continue;
        fputs(separator, out);
        roff(out, tool_table[i].name);
        fputs("(1)", out);
        separator = ", ";
    }
    fputc('\n', out);
}
