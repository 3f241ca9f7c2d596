/* SPDX-License-Identifier: Apache-2.0 */
/* A target that is registered: artifacts of small_target.c give what the CPU's give. */
#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tests/unit/small_target.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const programs[] = {"fused_norms", "conv",       "matmul",       "pool",  "fused_convnet",
                                       "attention",   "reduce_f32", "control_loop", "random"};
enum { PROGRAMS = sizeof programs / sizeof *programs, VALUES = 64 };

static char folder[] = "/tmp/test-target-XXXXXX";

static void message(void *user, int severity, const char *text)
{
    (void)user;
    if (severity >= 2)
        fprintf(stderr, "%s\n", text);
}

static int compile(const char *model, const char *target, const char *output)
{
    struct tccc_options o;
    tccc_options_init(&o);
    o.model = model;
    o.output = output;
    o.target = target;
    o.level = 2;
    o.time_limit = 0;
    o.message = message;
    return tccc_compile(&o);
}

/* Inputs that vary; whole numbers are counts and indexes, which must be small. */
static void fill(struct tcc_tensor *t, int input)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    t->data = calloc((size_t)n + 1, 8);
    ck_assert_ptr_nonnull(t->data);
    for (int64_t i = 0; i < n; i++) {
        double wave = sin(0.7 * (double)i + input) + 0.1 * (double)(i % 5);
        if (t->dtype == TCC_F32)
            ((float *)t->data)[i] = (float)wave;
        else if (t->dtype == TCC_F64)
            ((double *)t->data)[i] = wave;
        else if (t->dtype == TCC_I64)
            ((int64_t *)t->data)[i] = 2 + (i + input) % 2;
        else
            ((uint8_t *)t->data)[i] = i % 2;
    }
}

/* Runs the artifact; results are copied to `out`. Their number. */
static int run(const char *path, struct tcc_tensor *out)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tcc_tensor in[VALUES] = {0}, result[VALUES] = {0};
    ck_assert_msg(tccrt_open(path, &m) == 0 && tccrt_session_new(m, NULL, &s) == 0, "%s", tccrt_error());
    int nin = tccrt_ninputs(m, "main"), nout = tccrt_noutputs(m, "main");
    ck_assert(nin <= VALUES && nout <= VALUES);
    for (int i = 0; i < nin; i++) {
        struct tccrt_value_info info;
        ck_assert_int_eq(tccrt_input(m, "main", i, &info), 0);
        in[i].dtype = info.dtype;
        in[i].rank = info.rank;
        for (int d = 0; d < info.rank; d++)
            in[i].dims[d] = info.dims[d] < 0 ? 3 : info.dims[d];
        fill(&in[i], i);
    }
    ck_assert_msg(tccrt_run(s, "main", nin, in, nout, result) == 0, "%s", tccrt_error());
    for (int i = 0; i < nout; i++) {
        size_t bytes = (size_t)tcc_elements(result[i].rank, result[i].dims) *
                       (size_t)tcc_dtype_bytes((enum tcc_dtype)result[i].dtype);
        out[i] = result[i];
        out[i].data = calloc(1, bytes + 1);
        memcpy(out[i].data, result[i].data, bytes);
    }
    for (int i = 0; i < nin; i++)
        free(in[i].data);
    tccrt_session_free(s);
    tccrt_close(m);
    return nout;
}

static int64_t compare(const char *name, const struct tcc_tensor *a, const struct tcc_tensor *b)
{
    int64_t n = tcc_elements(a->rank, a->dims), varied = 0;
    ck_assert_int_eq(a->dtype, b->dtype);
    ck_assert_int_eq(n, tcc_elements(b->rank, b->dims));
    for (int64_t i = 0; i < n; i++)
        if (a->dtype == TCC_F32) {
            double x = (double)((float *)a->data)[i], y = (double)((float *)b->data)[i];
            ck_assert_msg(fabs(x - y) <= 1e-5 + 1e-5 * fabs(x) || (isnan(x) && isnan(y)) || x == y,
                          "%s: element %lld is %g, of the CPU %g", name, (long long)i, y, x);
            varied += x != (double)((float *)a->data)[0];
        }
    return varied;
}

START_TEST(like_the_cpu)
{
    char model[256], path[2][128];
    struct tcc_tensor out[2][VALUES] = {0};
    const char *source = getenv("top_srcdir");
    snprintf(model, sizeof model, "%s/tests/run/%s.tcir", source ? source : "..", programs[_i]);
    for (int k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "%s/%d-%d.so", folder, _i, k);
        ck_assert_int_eq(compile(model, k ? "small" : "cpu", path[k]), 0);
    }
    int n = run(path[0], out[0]);
    ck_assert_int_eq(run(path[1], out[1]), n);
    int64_t varied = 0;
    for (int i = 0; i < n; i++) {
        varied += compare(programs[_i], &out[0][i], &out[1][i]);
        free(out[0][i].data);
        free(out[1][i].data);
    }
    ck_assert_msg(varied, "%s: all elements are alike", programs[_i]);
    unlink(path[0]);
    unlink(path[1]);
}
END_TEST

START_TEST(registers)
{
    ck_assert_ptr_eq(target_by_name("small"), &small_target);
    ck_assert_msg(target_register(&small_target), "again is fine");
    struct target other = small_target;
    ck_assert_msg(!target_register(&other), "a name that is taken");
    other.name = "cpu";
    ck_assert(!target_register(&other));
}
END_TEST

int main(void)
{
    if (!target_register(&small_target) || !mkdtemp(folder))
        return 1;
    Suite *s = suite_create("target");
    TCase *c = tcase_create("target");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, registers);
    tcase_add_loop_test(c, like_the_cpu, 0, PROGRAMS);
    suite_add_tcase(s, c);
    int status = run_tests(s);
    rmdir(folder);
    return status;
}
