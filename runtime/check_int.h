/* SPDX-License-Identifier: Apache-2.0 */
/* check_int.h - a plan that is being checked: what check.c, check_step.c and check_staged.c share. */
#ifndef TCC_RUNTIME_CHECK_INT_H
#define TCC_RUNTIME_CHECK_INT_H

#include "runtime/rt_int.h"

struct tcr_check {
    struct tccrt_model *m;
    const struct tcc_plan *p;
    const char *what;  /* name for messages */
    const char *where; /* table and entry being checked */
    uint32_t at;
    int status;               /* of the failure */
    uint32_t inputs, outputs; /* the most of an entry point */
};

/* check.c. What contradicts itself, with the value and what it may be at most; false. */
bool tcr_bad_plan(struct tcr_check *c, const char *problem, uint64_t value, uint64_t limit);
bool tcr_check_no_memory(struct tcr_check *c);                                 /* false */
bool tcr_index_ok(struct tcr_check *c, const char *what, uint32_t i, uint32_t n);

/* Entry number c->at of its table: check_step.c and check_staged.c. */
bool tcr_check_step(struct tcr_check *c);
bool tcr_check_entry(struct tcr_check *c);
bool tcr_check_staged(struct tcr_check *c);

#endif
