/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the vendor's that nothing of ours reads are answered, not ignored: a warning says what does the same. */
#include "tools/options_int.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

enum answer { READ, ANSWERED };
static const struct {
    const char *name;
    enum answer answer;
    const char *text;
} variables[] = {
#define VARIABLE(name, answer, text) {#name, answer, text},
#include "tools/neuron_env.def"
#undef VARIABLE
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
