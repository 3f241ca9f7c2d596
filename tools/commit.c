/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c - which commit the tools were built from; apart, since it changes with each. */
#include "tools/options_int.h"

const char *options_commit(void)
{
    return
#include "tools/commit.inc"
        ;
}
