/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkdoc: a program of the build. Writes what is made of tables to standard output:
 *   mkdoc man TOOL, mkdoc completion, mkdoc passes (doc/passes.md)
 */
#include "passes/pass.h"
#include "tools/options_int.h"

#include <string.h>

static void
write_passes(FILE *out)
{
    int n;
    const struct pass *passes = pass_table(&n);

    fprintf(out, "# Passes\n\nMade of `passes/*.def` by `make update-docs`; don't edit.\n\n"
                 "| pass | IR level | what it does |\n| --- | --- | --- |\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | %d | %s |\n", passes[i].name, passes[i].level, passes[i].help);
    fprintf(out, "\n## Pipelines\n\n| name | passes |\n| --- | --- |\n");
    const struct pass_pipeline_row *rows = pass_pipeline_table(&n);
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | `%s` |\n", rows[i].name, rows[i].passes);
    fprintf(out, "\n## Order\n\nWhere a pipeline holds both, the first stands before the second.\n\n"
                 "| first | then | because |\n| --- | --- | --- |\n");
    const struct pass_order_row *orders = pass_order_table(&n);
    for (int i = 0; i < n; i++)
        fprintf(out, "| `%s` | `%s` | %s |\n", orders[i].first, orders[i].then, orders[i].reason);
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "man") == 0) {
        for (int i = 0; i < NTOOLS; i++) {
            if (strcmp(argv[2], tool_table[i].name) == 0) {
                options_man(stdout, (enum tool)i);
                return 0;
            }
        }
    }
    if (argc == 2 && strcmp(argv[1], "completion") == 0) {
        options_completion(stdout);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "passes") == 0) {
        write_passes(stdout);
        return 0;
    }
    fprintf(stderr, "usage: mkdoc man TOOL | completion | passes\n");
    return 2;
}
