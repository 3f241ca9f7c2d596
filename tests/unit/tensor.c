/* SPDX-License-Identifier: Apache-2.0 */
/* Constant tensors and scalar bodies. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

START_TEST(sizes_that_overflow)
{
    int64_t dims[4] = {INT64_C(1) << 40, INT64_C(1) << 40, 4, 0};
    ck_assert_ptr_null(ir_tensor_new(TCC_F32, 3, dims));
    ck_assert_ptr_null(ir_tensor_new(TCC_F32, TCC_MAX_RANK + 1, dims));
    ck_assert_ptr_null(ir_tensor_new(TCC_NONE, 1, dims));
    ck_assert_ptr_null(ir_tensor_new(TCC_F32, 4, dims)); /* empty, but its other dims overflow: NumPy refuses it too */
    dims[0] = 2;
    struct ir_tensor *t = ir_tensor_new(TCC_F32, 4, dims);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->nelems, 0);
    ir_tensor_unref(t);
    dims[0] = -1;
    ck_assert_ptr_null(ir_tensor_new(TCC_F32, 1, dims));
}
END_TEST

START_TEST(splats_equal_dense)
{
    int64_t dims[2] = {2, 3};
    float one = 1;
    struct ir_tensor *a = ir_tensor_splat(TCC_F32, 2, dims, &one), *b = ir_tensor_new(TCC_F32, 2, dims);
    for (int i = 0; i < 6; i++)
        ((float *)b->data)[i] = 1;
    ck_assert(ir_tensor_equal(a, b) && ir_tensor_equal(b, a) && ir_tensor_digest(a) == ir_tensor_digest(b));
    ((float *)b->data)[5] = 2;
    ck_assert(!ir_tensor_equal(a, b) && ir_tensor_digest(a) != ir_tensor_digest(b));
    ck_assert(*(const float *)ir_tensor_at(a, 5) == 1);
    ir_tensor_unref(a);
    ir_tensor_unref(b);
}
END_TEST

START_TEST(file_ranges)
{
    char path[] = "tensor-test-XXXXXX", error[100] = "";
    uint8_t bytes[10] = {0x21, 0xf8, 3, 4, 5, 6, 7, 8, 9, 10};
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
    struct ir_file *f = ir_file_open(path, error, sizeof error);
    unlink(path);
    ck_assert_msg(f, "%s", error);
    int64_t two = 2, three = 3, four = 4;
    ck_assert_ptr_null(ir_tensor_file(TCC_F32, 1, &three, f, 0));
    ck_assert_ptr_null(ir_tensor_file(TCC_F32, 1, &two, f, UINT64_MAX));
    struct ir_tensor *t = ir_tensor_file(TCC_F32, 1, &two, f, 1), *q = ir_tensor_file(TCC_I4, 1, &four, f, 0);
    ck_assert_ptr_nonnull(t);
    ir_file_unref(f);
    ck_assert(t->data == ir_file_data(t->file) + 1);
    const int8_t expected[4] = {1, 2, -8, -1};
    ck_assert(!memcmp(q->data, expected, 4) && !q->file);
    ir_tensor_unref(t);
    ir_tensor_unref(q);
    ck_assert_ptr_null(ir_file_open("/nonexistent", error, sizeof error));
    ck_assert_str_eq(error, "No such file or directory");
    ck_assert_ptr_null(ir_file_open("/", error, sizeof error));
}
END_TEST

START_TEST(every_body_parses)
{
#define SCALAR(name, nargs_, types, flags, body_, doc)                                               \
    {                                                                                                \
        const struct ir_scalar_body *b = ir_scalar_body(IR_##name);                                  \
        ck_assert_msg(b != NULL, "scalar.def: the body of " #name " does not parse");                \
        ck_assert(b->nargs == nargs_ && b->primitive == !body_[0]);                                  \
        ck_assert_int_eq(b->nnodes > nargs_, strcmp(body_, "x") != 0); /* "x": the operand itself */ \
        for (int i = 0; i < b->nnodes; i++)                                                          \
            for (int k = 0; k < 3 && b->nodes[i].kind == IR_S_CALL && b->nodes[i].arg[k] >= 0; k++)  \
                ck_assert_int_lt(b->nodes[i].arg[k], i);                                             \
    }
#include "ir/scalar.def"
    ck_assert_ptr_null(ir_scalar_body(IR_matmul));
}
END_TEST

START_TEST(bodies_share)
{
    /* softplus: max(0, x) + log1p(exp(-abs(x))): x, 0, max, abs, neg, exp, log1p, add */
    const struct ir_scalar_body *b = ir_scalar_body(IR_softplus);
    ck_assert_int_eq(b->nnodes, 8);
    ck_assert_int_eq(b->nodes[7].op, IR_add);
    b = ir_scalar_body(IR_hardswish); /* both zeros and x are one node each */
    int constants = 0;
    for (int i = 0; i < b->nnodes; i++)
        constants += b->nodes[i].kind == IR_S_CONST;
    ck_assert_int_eq(constants, 4);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tensor");
    TCase *c = tcase_create("tensor");
    tcase_add_test(c, sizes_that_overflow);
    tcase_add_test(c, splats_equal_dense);
    tcase_add_test(c, file_ranges);
    tcase_add_test(c, every_body_parses);
    tcase_add_test(c, bodies_share);
    suite_add_tcase(s, c);
    return run_tests(s);
}
