/* SPDX-License-Identifier: Apache-2.0 */
/* The Scalar engine's functions, which the simulator has bodies of its own for, beside the scalar ops of the same name
 * (ir/scalar.def). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "sim/neuron/neuronsim.h"
#include "tests/unit/suite.h"

/* No library ops: the interpreter needs none of the runtime's table here. */
const struct tcc_libop tccrt_libops[] = {{NULL, NULL, NULL}};
const int tccrt_nlibops = 0;

enum { COUNT = 4001 };

static const struct {
    enum neuron_func f;
    enum ir_op op;
    double lo, hi, bound; /* bound: in ulp of f32, plus 1e-7 of the input's size where a word cancels */
} pairs[] = {
    {NEURON_FUNC_SQUARE, IR_square, -50, 50, 1},
    {NEURON_FUNC_SIGMOID, IR_sigmoid, -20, 20, 4},
    {NEURON_FUNC_RELU, IR_relu, -5, 5, 0},
    {NEURON_FUNC_GELU, IR_gelu, -6, 6, 4},
    {NEURON_FUNC_GELU_TANH, IR_gelu_tanh, -6, 6, 4},
    {NEURON_FUNC_SILU, IR_silu, -20, 20, 4},
    {NEURON_FUNC_TANH, IR_tanh, -10, 10, 2},
    {NEURON_FUNC_SOFTPLUS, IR_softplus, -20, 20, 2},
    {NEURON_FUNC_MISH, IR_mish, -20, 20, 4},
    {NEURON_FUNC_ERF, IR_erf, -4, 4, 2},
    {NEURON_FUNC_EXP, IR_exp, -80, 80, 2},
    {NEURON_FUNC_LOG, IR_log, 1e-6, 1e3, 2},
    {NEURON_FUNC_SIN, IR_sin, -3.1415926, 3.1415926, 2},
    {NEURON_FUNC_ARCTAN, IR_atan, -1.57, 1.57, 2},
    {NEURON_FUNC_SQRT, IR_sqrt, 0, 1e6, 0},
    {NEURON_FUNC_RSQRT, IR_rsqrt, 1e-6, 1e6, 2},
    {NEURON_FUNC_RECIPROCAL, IR_recip, 1e-6, 1e6, 0},
    {NEURON_FUNC_SIGN, IR_sign, -2, 2, 0},
    {NEURON_FUNC_ABS, IR_abs, -2, 2, 0},
};

START_TEST(same_meaning)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_module *m = ir_module_new(ctx, "test");
    struct ir_func *func = ir_func_new(m, "main");
    struct ir_builder b = {.ctx = ctx, .func = func, .block = func->body};
    int64_t n = COUNT;
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 1, &n), *out = NULL;
    float *x = (float *)t->data;
    for (int k = 0; k < COUNT; k++)
        x[k] = (float)(pairs[_i].lo + (pairs[_i].hi - pairs[_i].lo) * k / (COUNT - 1));
    struct ir_value *y = ir_unary(&b, pairs[_i].op, ir_constant(&b, t));
    ck_assert(ir_interp_node(y->def, &out));
    const float *want = (const float *)out->data;
    float got_of[COUNT];
    memcpy(got_of, x, sizeof got_of);
    neuron_functions(pairs[_i].f, 0, COUNT, got_of);
    for (int k = 0; k < COUNT; k++) {
        double got = (double)got_of[k], size = fabs((double)want[k]) > 1e-30 ? fabs((double)want[k]) : 1e-30;
        double error = fabs(got - (double)want[k]), allowed = pairs[_i].bound * ldexp(1, ilogb(size) - 23);
        if (pairs[_i].bound > 2) /* words that add 1 to what is near to -1 */
            allowed += 1e-7 * fabs((double)x[k]);
        ck_assert_msg(error <= allowed, "%s(%.9g): %.9g, the scalar op gives %.9g", neuron_func_name(pairs[_i].f),
                      (double)x[k], got, (double)want[k]);
    }
    ir_tensor_unref(out);
    ir_ctx_free(ctx);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("neuron_functions");
    TCase *t = tcase_create("neuron_functions");
    tcase_add_loop_test(t, same_meaning, 0, (int)(sizeof pairs / sizeof *pairs));
    suite_add_tcase(s, t);
    return run_tests(s);
}
