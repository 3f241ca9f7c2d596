/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for bash, zsh and fish, made of options.def and help.def: options, the values that they may begin with,
 * files elsewhere. Sources: bash(1) "Programmable Completion", zshcompsys(1) "_arguments", fish's complete(1).
 */
#include "tools/options_int.h"

#include <string.h>

static const struct {
    enum option_id id;
    const char *words;
} value_table[] = {
#define VALUES(option, words) {OPT_##option, words},
#include "tools/help.def"
};

/* What an option's argument may begin with, separated by blanks; NULL: nothing is known. */
static const char *values_of(int id)
{
    for (size_t i = 0; i < sizeof value_table / sizeof *value_table; i++)
        if ((int)value_table[i].id == id)
            return value_table[i].words;
    return NULL;
}

bool options_knows(enum option_id id, const char *text)
{
    const char *w = values_of((int)id);

    for (; w && *w; w += strcspn(w, " "), w += *w == ' ') {
        size_t n = strcspn(w, ": ");
        if (!strncmp(text, w, n) && (!text[n] || strchr(":,", text[n])))
            return true;
    }
    return false;
}

static bool has(int tool, int id)
{
    return option_table[id].tools >> tool & 1;
}

/* -- bash ---------------------------------------------------------------------------------------------- */

/* The options of a tool, as words; and what follows `--option=`, a case of each that has values. */
static void bash_tool(FILE *out, int tool)
{
    const char *separator = "";

    fprintf(out, "    %s)\n        words='", tool_table[tool].name);
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option_row *row = &option_table[i];
        if (!has(tool, i))
            continue;
        if (*row->long_name)
            fprintf(out, "%s%s%s%s", separator, option_is_word(row) ? "-" : "--", row->long_name,
                    row->kind == OPTION_NEEDED ? "=" : "");
        else
            fprintf(out, "%s-%c", separator, row->short_name);
        separator = " ";
    }
    fputs("'\n        case $option in\n", out);
    for (int i = 0; i < NOPTIONS; i++)
        if (has(tool, i) && *option_table[i].long_name && values_of(i))
            fprintf(out, "        --%s) values='%s' ;;\n", option_table[i].long_name, values_of(i));
    fputs("        esac ;;\n", out);
}

void options_bash(FILE *out)
{
    fputs("# bash completion for the tccc tools; made of base/options.def and tools/help.def\n"
          "_tccc() {\n"
          "    local words='' values='' option='' current=${COMP_WORDS[COMP_CWORD]}\n"
          "    # readline cuts words at =\n"
          "    if [[ $current == = ]]; then\n"
          "        option=${COMP_WORDS[COMP_CWORD-1]} current=''\n"
          "    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then\n"
          "        option=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    case ${COMP_WORDS[0]##*/} in\n",
          out);
    for (int t = 0; t < NTOOLS; t++)
        bash_tool(out, t);
    fputs("    esac\n"
          "    if [[ $values ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
          "    elif [[ $current == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
          "    fi\n"
          "    [[ ${COMPREPLY[0]} != *[=:] ]] || compopt -o nospace 2>/dev/null\n"
          "}\n"
          "complete -o filenames -F _tccc",
          out);
    for (int t = 0; t < NTOOLS; t++)
        fprintf(out, " %s", tool_table[t].name);
    fputc('\n', out);
}

/* -- zsh and fish: each option with its help ------------------------------------------------------------------ */

/* The beginning of the help, up to where it explains, within quotes; zsh reads brackets and colons. */
static void brief(FILE *out, const char *help, bool zsh)
{
    size_t n = strcspn(help, ";:(");

    while (n && help[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < n; i++) {
        if (help[i] == '\'')
            fputs(zsh ? "'\\''" : "\\'", out);
        else if (zsh && (help[i] == '[' || help[i] == ']' || help[i] == '\\'))
            fprintf(out, "\\%c", help[i]);
        else
            fputc(help[i], out);
    }
}

/* One specification of _arguments for one spelling of an option. */
static void zsh_spelling(FILE *out, int id, const char *spelling, const char *glue)
{
    const struct option_row *row = &option_table[id];
    const char *values = values_of(id);

    fprintf(out, " \\\n            '*%s%s[", spelling, glue);
    brief(out, row->help, true);
    fputc(']', out);
    if (row->kind != OPTION_NONE && row->kind != OPTION_WORD) {
        fprintf(out, "%s%s:", row->kind == OPTION_OPTIONAL ? "::" : ":", "argument");
        if (values)
            fprintf(out, "(%s)", values);
        else
            fputs("_files", out);
    }
    fputc('\'', out);
}

static void zsh_option(FILE *out, int id)
{
    const struct option_row *row = &option_table[id];
    char text[96];

    if (row->short_name) {
        snprintf(text, sizeof text, "-%c", row->short_name);
        zsh_spelling(out, id, text, row->kind == OPTION_NONE ? "" : row->kind == OPTION_OPTIONAL ? "-" : "+");
    }
    if (!*row->long_name)
        return;
    snprintf(text, sizeof text, "%s%s", option_is_word(row) ? "-" : "--", row->long_name);
    zsh_spelling(out, id, text, row->kind == OPTION_NEEDED ? "=" : row->kind == OPTION_OPTIONAL ? "=-" : "");
}

void options_zsh(FILE *out)
{
    fputs("#compdef", out);
    for (int t = 0; t < NTOOLS; t++)
        fprintf(out, " %s", tool_table[t].name);
    fputs("\n# zsh completion for the tccc tools; made of base/options.def and tools/help.def\n"
          "_tccc() {\n    case $service in\n",
          out);
    for (int t = 0; t < NTOOLS; t++) {
        fprintf(out, "    %s)\n        _arguments", tool_table[t].name);
        for (int i = 0; i < NOPTIONS; i++)
            if (has(t, i))
                zsh_option(out, i);
        fputs(" \\\n            '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n}\n_tccc \"$@\"\n", out);
}

static void fish_option(FILE *out, int tool, int id)
{
    const struct option_row *row = &option_table[id];
    const char *values = values_of(id);

    fprintf(out, "complete -c %s", tool_table[tool].name);
    if (row->short_name)
        fprintf(out, " -s %c", row->short_name);
    if (*row->long_name)
        fprintf(out, " -%c %s", option_is_word(row) ? 'o' : 'l', row->long_name);
    if (row->kind == OPTION_NEEDED || row->kind == OPTION_WORDARG)
        fputs(values ? " -x" : " -r -F", out);
    if (values)
        fprintf(out, " -a '%s'", values);
    fputs(" -d '", out);
    brief(out, row->help, false);
    fputs("'\n", out);
}

void options_fish(FILE *out)
{
    fputs("# fish completion for the tccc tools; made of base/options.def and tools/help.def\n", out);
    for (int t = 0; t < NTOOLS; t++)
        for (int i = 0; i < NOPTIONS; i++)
            if (has(t, i))
                fish_option(out, t, i);
}
