/* SPDX-License-Identifier: Apache-2.0 */
/* scalar_int.h - the rows of scalar.def as data. */
#ifndef TCC_SCALAR_INT_H
#define TCC_SCALAR_INT_H

#include "ir/ir.h"

/* The `types` column of scalar.def. */
enum ir_scalar_types { IR_ST_SAME, IR_ST_FLOAT, IR_ST_COMPARE, IR_ST_TEST, IR_ST_LOGIC, IR_ST_SELECT, IR_ST_CAST };

struct ir_scalar_row {
    enum ir_op op;
    const char *name;
    int nargs;
    enum ir_scalar_types types;
    const char *body;       /* "": primitive */
};

/* NULL when op is not a scalar op. */
const struct ir_scalar_row *ir_scalar_row(enum ir_op op);

#endif
