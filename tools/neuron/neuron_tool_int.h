/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tools/: the parts of tccc-neuron. */
#ifndef TCCC_TOOLS_NEURON_TOOL_INT_H
#define TCCC_TOOLS_NEURON_TOOL_INT_H

#include "tools/options_int.h"

int neuron_compile(const struct options *o, const char *path);
int neuron_cores(const struct options *o, const char *command);      /* ls, top, monitor */
/* What says how many physical cores a logical one has; NULL: nothing. */
const char *neuron_env_lnc(void);

#endif
