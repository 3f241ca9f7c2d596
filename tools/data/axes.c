/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --split-axis=INPUT:K|none where data is fed: the axis of an input that is the samples. An entry point that is split
 * into microbatches has been compiled for its axes; of others nobody has asked before.
 */
#include "tools/data/data_int.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int wrong_text(const struct options *o, const char *text)
{
    return usage_error(o, "--split-axis=%s: expected INPUT:AXIS or INPUT:none", text);
}

/* "INPUT:K": the input's number and the axis. */
static int read_axis(const struct options *o, const char *text, const struct tccrt_value_info *inputs, int n,
                     int *input, int *axis)
{
    const char *colon = strrchr(text, ':');
    char *end;
    long k = -1;

    if (!colon || colon == text)
        return wrong_text(o, text);
    if (strcmp(colon, ":none")) {
        k = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || k < 0 || k > INT_MAX)
            return wrong_text(o, text);
    }
    *axis = (int)k;
    for (*input = 0; *input < n; ++*input)
        if (!strncmp(text, inputs[*input].name, (size_t)(colon - text)) && !inputs[*input].name[colon - text])
            break;
    if (*input == n)
        return tool_error(o, EXIT_DATA, "--split-axis=%s: unknown input", text);
    if (k >= inputs[*input].rank)
        return tool_error(o, EXIT_DATA, "--split-axis=%s: axis out of range: the input has rank %d", text,
                          inputs[*input].rank);
    return EXIT_FINE;
}

int data_axes(const struct options *o, const struct tccrt_model *m, const char *entry,
              const struct tccrt_value_info *inputs, int n, int **axes)
{
    int *list = *axes = calloc((size_t)n + 1, sizeof *list);
    int code = list ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "no memory");

    for (int i = 0; list && i < n; i++) {
        int compiled = tccrt_split_axis(m, entry, i);
        list[i] = compiled < -1 ? 0 : compiled;
    }
    for (int k = 0; k < o->given[OPT_split_axis].n && code == EXIT_FINE; k++) {
        const char *text = o->given[OPT_split_axis].at[k];
        int input = 0, axis = 0;
        code = read_axis(o, text, inputs, n, &input, &axis);
        if (code == EXIT_FINE && tccrt_split_axis(m, entry, input) >= -1 && axis != list[input])
            code = tool_error(o, EXIT_DATA, "--split-axis=%s: the artifact was compiled with another axis", text);
        if (code == EXIT_FINE)
            list[input] = axis;
    }
    return code;
}
