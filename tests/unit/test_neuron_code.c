/* SPDX-License-Identifier: Apache-2.0 */
/* The NeuronCore target's tables: a row for each primitive scalar op, none for others. */
#include "ir/ir.h"
#include "tests/unit/suite.h"

#include <check.h>

static const enum ir_op rows[] = {
#define ROW(op, f, i, b) IR_##op,
#include "compiler/neuron/engine_ops.def"
};

START_TEST(test_rows)
{
    int n = 0;
    for (int op = 0; op < IR_NOPS; op++) {
        const struct ir_scalar_body *body = ir_scalar_body((enum ir_op)op);
        if (!body || !body->primitive)
            continue;
        ck_assert_msg(n < (int)(sizeof rows / sizeof *rows) && rows[n] == (enum ir_op)op, "no row for %s in its place",
                      ir_op_info((enum ir_op)op)->name);
        n++;
    }
    ck_assert_int_eq(n, sizeof rows / sizeof *rows);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_code");
    TCase *t = tcase_create("tables");
    tcase_add_test(t, test_rows);
    suite_add_tcase(s, t);
    return run_tests(s);
}
