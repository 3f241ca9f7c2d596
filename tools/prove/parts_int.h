/* SPDX-License-Identifier: Apache-2.0 */
/* parts_int.h - operands of a kernel, twice, and launches of them in the simulator: what prove.c puts together. */
#ifndef TCC_TOOLS_PROVE_PARTS_INT_H
#define TCC_TOOLS_PROVE_PARTS_INT_H

#include "tools/prove/prove_int.h"
#include "tools/prove/records_int.h"

enum {
    MOST_ARGS = 1024,
    MOST_SIZES = 32,
    ROWS = 3,            /* launches that run as one */
    UNTOUCHED = 0xa5     /* bytes of results that nobody has written, in a sample */
};

/* -- Operands (operands.c) */

struct prove_lookup {
    const struct kn_kernel *k;
    const int64_t *sizes;
};
/* For ir_eval(). */
bool prove_size_of(void *user, ir_expr sym, int64_t *out);

struct prove_operands {
    int n;
    void *want[MOST_ARGS], *got[MOST_ARGS];
    size_t bytes[MOST_ARGS];
    int64_t elements[MOST_ARGS];
    enum tcc_dtype dtype[MOST_ARGS];
    enum kn_operand_use uses[MOST_ARGS];
};
/* Both with the same random values. NULL: they are too many or too large, or a size is none. */
struct prove_operands *prove_allocate(const struct kn_kernel *k, const int64_t *sizes, int64_t most, int whole,
                                      uint64_t seed);
void prove_release(struct prove_operands *o);
bool prove_is_untouched(const void *p, int bytes);
/* compared: those that both have written count, and are counted; NULL: all. */
bool prove_compare(const struct kn_kernel *k, const struct prove_operands *o, const struct tcc_env *env, int status,
                   int64_t *compared, char *error);

/* -- Launches (launch.c) */

/* Launches of the sizes as one, by the function f. */
bool prove_run_rows(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *f, const struct kn_kernel *k,
                    struct prove_operands *const *o, const int64_t (*sizes)[MOST_SIZES], char *error);

#endif
