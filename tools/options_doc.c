/* SPDX-License-Identifier: Apache-2.0 */
/* --help, man pages and bash completion, made of options.def and tools.def. */
#include "tools/options_int.h"

#include <string.h>

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

    if (row->kind == OPTION_WORD || row->kind == OPTION_WORDARG) {
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

static void each_option(FILE *out, enum tool tool, void (*heading)(FILE *, const char *),
                        void (*row)(FILE *, const struct option_row *))
{
    for (int first = 0; first < NOPTIONS; first++) {
        if (!(option_table[first].tools & (1u << tool)) || !opens_group(tool, first))
            continue;
        heading(out, option_table[first].group);
        for (int i = first; i < NOPTIONS; i++)
            if ((option_table[i].tools & (1u << tool)) && strcmp(option_table[i].group, option_table[first].group) == 0)
                row(out, &option_table[i]);
    }
}

/* -- Help ---------------------------------------------------------------------------------------- */

static void help_heading(FILE *out, const char *group)
{
    fprintf(out, "\n%s:\n", group);
}

static void help_row(FILE *out, const struct option_row *row)
{
    char text[160];
    spelling(row, text, sizeof text);
    fprintf(out, "  %-26s", text);
    if (strlen(text) > 25)
        fprintf(out, "\n%28s", "");
    wrapped(out, row->help, 28, 28);
}

void options_help(FILE *out, enum tool tool)
{
    const char *usage = tool_table[tool].usage, *prefix = "usage: ";

    while (*usage) {
        int n = (int)strcspn(usage, "\n");
        fprintf(out, "%s%.*s\n", prefix, n, usage);
        usage += n + 1;
        prefix = "       ";
    }
    each_option(out, tool, help_heading, help_row);
    fprintf(
        out,
        "\nTCCC_FLAGS in the environment holds options that come before those of the command line.\n"
        "Exit status: 0 success; 1 wrong model, data, file or comparison; 2 usage; 3 environment; 4 internal error.\n");
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

static void man_heading(FILE *out, const char *group)
{
    fprintf(out, ".SS %s\n", group);
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
    each_option(out, tool, man_heading, man_row);
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

/* -- Completion --------------------------------------------------------------------------------------- */

void options_completion(FILE *out)
{
    fputs("# bash completion for the tccc tools; made of compiler/options.def\n"
          "_tccc() {\n    local words\n    case ${COMP_WORDS[0]##*/} in\n",
          out);
    for (int t = 0; t < NTOOLS; t++) {
        fprintf(out, "    %s) words='", tool_table[t].name);
        const char *separator = "";
        for (int i = 0; i < NOPTIONS; i++) {
            const struct option_row *row = &option_table[i];
            if (!(row->tools & (1u << t)))
                continue;
            bool word = row->kind == OPTION_WORD || row->kind == OPTION_WORDARG;
            if (*row->long_name)
                fprintf(out, "%s%s%s%s", separator, word ? "-" : "--", row->long_name,
                        row->kind == OPTION_NEEDED ? "=" : "");
            else
                fprintf(out, "%s-%c", separator, row->short_name);
            separator = " ";
        }
        fputs("' ;;\n", out);
    }
    fputs("    esac\n"
          "    if [[ $2 == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$2\"))\n"
          "        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$2\"))\n"
          "    fi\n}\n"
          "complete -o filenames -F _tccc",
          out);
    for (int t = 0; t < NTOOLS; t++)
        fprintf(out, " %s", tool_table[t].name);
    fputc('\n', out);
}
