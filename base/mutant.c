/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.c - which mutant is on, in builds with --enable-mutants; empty in others. */
#include "base/mutant.h"

#ifdef TCCC_MUTANTS
#include <stdatomic.h>
#include <stdlib.h>

int tcr_mutant(void)
{
    static atomic_int number = -1;
    int n = atomic_load_explicit(&number, memory_order_relaxed);

    if (n < 0) {
        const char *text = getenv("TCCC_MUTANT");

        n = text ? abs(atoi(text)) : 0;
        atomic_store_explicit(&number, n, memory_order_relaxed);
    }
    return n;
}
#endif
