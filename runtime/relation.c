/* SPDX-License-Identifier: Apache-2.0 */
/* relation.c - what a run says where sizes are not in the relation that a node takes for granted: the walker and the
 * interpreter in the same words. */
#include <stdio.h>
#include <string.h>

#include "runtime/abi.h"

/* "N + 1 = 9", of a number only that. */
static void side(char *to, size_t size, struct tcc_side x)
{
    char number[32];

    snprintf(number, sizeof number, "%lld", (long long)x.value);
    if (!x.text || !strcmp(x.text, number))
        snprintf(to, size, "%s", number);
    else
        snprintf(to, size, "%s = %s", x.text, number);
}

void tcr_relation_text(char *to, size_t size, uint32_t relation, const char *why, struct tcc_side a, struct tcc_side b,
                       const char *with)
{
    char left[300], right[300];

    side(left, sizeof left, a);
    side(right, sizeof right, b);
    snprintf(to, size, relation == TCC_EQ ? "%s: %s and %s must be equal%s%s" : "%s: %s must be at most %s%s%s",
             why && *why ? why : "the inputs' shapes don't fit", left, right, *with ? ", with " : "", with);
}
