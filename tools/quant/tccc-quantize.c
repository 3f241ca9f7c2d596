/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-quantize: the command line; quantize.c does the work. */
#include "tools/quant/quant_int.h"

static int run(struct options *o)
{
    return quant_run(o, stdout, NULL);
}

int main(int argc, char **argv)
{
    return options_run(TOOL_Q, argc, argv, run);
}
