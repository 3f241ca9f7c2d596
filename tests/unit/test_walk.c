/* SPDX-License-Identifier: Apache-2.0 */
/* The plan walker on plans built by hand: y = x * w + k with a symbolic dim, loops, objects, state, errors. */
#include <pthread.h>

#include "tests/unit/suite.h"
#include "tests/unit/walk_plans.h"

static void run_scale(struct tccrt_session *s, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x + 64);
    struct tcc_tensor in = {x, TCC_F32, 1, {n}}, out = {0};

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i;
    ck_assert_msg(tccrt_run(s, "main", 1, &in, 1, &out) == TCC_OK, "%s", tccrt_error());
    ck_assert_int_eq(out.rank, 1);
    ck_assert_int_eq(out.dims[0], n);
    for (int64_t i = 0; i < n; i++)
        ck_assert(((float *)out.data)[i] == (float)i * weights[i % 4] * weights[i % 4]);
    free(x);
}

/* Calls of the kernel that scales: one of a launch that a single thread runs, many where threads take its tiles in
 * chunks. */
static _Atomic int scaled;

static void count_scale(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                        int64_t last)
{
    scaled++;
    scale(args, sizes, scratch, env, first, last);
}

START_TEST(small_launches)
{
    static const tcc_kernel_fn counted[] = {count_scale, add_index, fault};
    static const struct tcc_version version[] = {{"x86-64", counted}};
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tcc_plan *plan;
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tcc_model d;

    scale_plan(p);
    for (int light = 0; light < 2; light++) {
        p->kernels[0].flags = light ? TCC_KERNEL_LIGHT : 0;
        plan = mp_finish(p);
        d = make_model(plan);
        d.versions = version;
        ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_OK);
        ck_assert_int_eq(tccrt_session_new(m, &(struct tccrt_options){.threads = 4}, &s), TCC_OK);
        scaled = 0;
        run_scale(s, 500);
        ck_assert_int_eq(scaled == 2, light);
        scaled = 0;
        run_scale(s, 100000);
        ck_assert_int_gt(scaled, 2);
        tccrt_session_free(s);
        tccrt_close(m);
        free(plan);
    }
    free(p);
}
END_TEST

/* The same, and main(x) in versions: for n = 3 what scale_plan() makes, for 8 <= n its first step alone, into y. */
static void version_plan(struct mini_plan *p)
{
    uint32_t three, eight, n = 0;
    struct tcc_pentry whole, half;

    scale_plan(p);
    three = mp_const(p, 3);
    eight = mp_const(p, 8);
    whole = half = p->entries[0];
    half.steps = (struct tcc_range){2, 1};
    p->steps[p->nsteps] = p->steps[0];
    p->steps[p->nsteps++].args =
        mp_list(p, 3, p->u32s[whole.input_buffers.first], 1, p->u32s[whole.output_buffers.first]);
    p->entries[0] = (struct tcc_pentry){.name = whole.name,
                                        .inputs = whole.inputs,
                                        .outputs = whole.outputs,
                                        .arena = TCC_NO,
                                        .scratch = TCC_NO,
                                        .cases = {0, 2}};
    p->entries[p->nentries++] = half;
    p->entries[p->nentries++] = whole;
    p->guards[p->nguards++] = (struct tcc_pguard){TCC_GUARD_EQ, n, three, 0};
    p->guards[p->nguards++] = (struct tcc_pguard){TCC_GUARD_LE, eight, n, 0};
    p->guards[p->nguards++] = (struct tcc_pguard){TCC_GUARD_NE, n, mp_const(p, 9), 0};
    p->cases[p->ncases++] = (struct tcc_pcase){2, mp_string(p, "n = 3"), {0, 1}};
    p->cases[p->ncases++] = (struct tcc_pcase){1, mp_string(p, "8 <= n, n != 9"), {1, 2}};
}

START_TEST(symbolic)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tcc_plan *plan;
    struct tccrt_model *m;
    struct tcc_model d;
    struct tccrt_value_info info;

    scale_plan(p);
    plan = mp_finish(p);
    for (int threads = 1; threads <= 4; threads++) {
        struct tccrt_options o = {.threads = threads, .profile = threads == 2};
        struct tccrt_session *s = open_plan(plan, &d, &m, &o);
        const struct tccrt_profile_row *rows;

        run_scale(s, 5);
        run_scale(s, 100000);
        run_scale(s, 0);
        run_scale(s, 100001);
        if (o.profile) {
            ck_assert_int_eq(tccrt_profile(s, &rows), 2);
            ck_assert_int_eq(rows[0].calls, 4);
            ck_assert(rows[0].bytes > 0);
            ck_assert_int_eq(tccrt_profile_trace(s, "trace.json"), TCC_OK);
            ck_assert_int_eq(tccrt_profile_reset(s), TCC_OK);
            ck_assert_int_eq(tccrt_profile(s, &rows), 0);
            remove("trace.json");
        }
        ck_assert_int_eq(tccrt_input(m, NULL, 0, &info), TCC_OK);
        ck_assert_str_eq(info.name, "x");
        ck_assert_int_eq(info.dims[0], -1);
        ck_assert_str_eq(info.dim_names[0], "n");
        tccrt_session_free(s);
        tccrt_close(m);
    }
    free(plan);
    free(p);
}
END_TEST

static void expect(int status, int want, const char *text)
{
    ck_assert_int_eq(status, want);
    ck_assert_msg(strstr(tccrt_error(), text), "'%s' lacks '%s'", tccrt_error(), text);
}

START_TEST(shape_versions)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    float x[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct tcc_tensor in = {x, TCC_F32, 1, {3}}, out = {0};
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tcc_plan *plan;
    struct tcc_model d;

    version_plan(p);
    plan = mp_finish(p);
    plan->nvisible = 1;
    s = open_plan(plan, &d, &m, &(struct tccrt_options){.threads = 1});
    ck_assert_int_eq(tccrt_nentries(m), 1);
    ck_assert_int_eq(tccrt_nversions(m, "main"), 2);
    ck_assert_str_eq(tccrt_version_sizes(m, NULL, 1), "8 <= n, n != 9");
    ck_assert_ptr_null(tccrt_version_sizes(m, NULL, 2));
    ck_assert_int_eq(tccrt_version_used(s), -1);
    for (int round = 0; round < 2; round++) {
        run_scale(s, 3);
        ck_assert_int_eq(tccrt_version_used(s), 0);
        in.dims[0] = 10;
        out = (struct tcc_tensor){0};
        for (int again = 0; again < 2; again++) {
            ck_assert_msg(tccrt_run(s, "main", 1, &in, 1, &out) == TCC_OK, "%s", tccrt_error());
            ck_assert_int_eq(out.dims[0], 10);
            ck_assert(((float *)out.data)[9] == weights[1]);
            ck_assert_int_eq(tccrt_version_used(s), 1);
            out.data = NULL;
        }
        in.dims[0] = 9;
        expect(
            tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT,
            "entry point 'main' was not compiled for n = 9; the sizes that it has versions for: n = 3; 8 <= n, n != 9");
        ck_assert_int_eq(tccrt_version_used(s), -1);
    }
    tccrt_session_free(s);
    tccrt_close(m);
    /* A version that is one of versions, or has other inputs, is no plan. */
    ((struct tcc_pcase *)((char *)plan + plan->cases.first))->entry = 0;
    expect(tccrt_open_linked(&d, &m), TCC_EBUG, "a version does not match its entry point");
    free(plan);
    free(p);
}
END_TEST

START_TEST(wrong_inputs)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tccrt_model *m;
    struct tcc_model d;
    float x[32] = {0}, y[8];
    struct tcc_tensor in = {x, TCC_F32, 1, {8}}, out = {0};
    struct tccrt_session *s;
    struct tcc_plan *plan;

    scale_plan(p);
    plan = mp_finish(p);
    s = open_plan(plan, &d, &m, NULL);
    in.dtype = TCC_F64;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "input 'x': expected f32, got f64");
    in.dtype = TCC_F32;
    in.rank = 2;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "expected rank 1, got 2");
    in.rank = 1;
    in.dims[0] = 1000001;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "axis 0: 'n' must be in [0, 1000000], got 1000001");
    in.dims[0] = -1;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "no tensor");
    in.dims[0] = 8;
    in.data = NULL;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "NULL");
    in.data = (char *)x + 1;
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "not aligned");
    in.data = x;
    expect(tccrt_run(s, "main", 2, &in, 1, &out), TCC_EINPUT, "1 inputs");
    expect(tccrt_run(s, "other", 1, &in, 1, &out), TCC_EUSAGE, "no entry point 'other'");
    out = (struct tcc_tensor){y, TCC_F32, 1, {7}};
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT,
           "the result is f32[8], but the memory given is for f32[7]");
    out.dims[0] = 8;
    ck_assert_int_eq(tccrt_run(s, "main", 1, &in, 1, &out), TCC_OK);
    ck_assert(out.data == y);
    ck_assert_str_eq(tccrt_error(), "");
    tccrt_session_free(s);
    tccrt_close(m);
    free(plan);
    free(p);
}
END_TEST

/* main(x: f32[n]) -> object: y = keep_positive(x) into a DYNAMIC buffer, DIMS, EVAL, z = y * w, output of unknown size.
 */
static void dynamic_plan(struct mini_plan *p, bool fails)
{
    uint32_t n = mp_sym(p, "n", 0, 1000, 0), four = mp_const(p, 4), zero = mp_const(p, 0);
    uint32_t bytes = mp_expr(p, TCC_EX_MUL, n, four, 0, 0), c16 = mp_const(p, 16);
    uint32_t k = mp_sym(p, "k", 0, 1000, 1), kb = mp_expr(p, TCC_EX_MUL, k, four, 0, 1);
    struct tcc_range dims = mp_list(p, 1, n), kdims = mp_list(p, 1, k), wdims = mp_list(p, 1, four);
    uint32_t x = mp_buffer(p, TCC_SPACE_INPUT, TCC_F32, 0, TCC_NO, bytes, dims, "x");
    uint32_t w = mp_buffer(p, TCC_SPACE_WEIGHT, TCC_F32, 0, zero, c16, wdims, "w");
    uint32_t y = mp_buffer(p, TCC_SPACE_DYNAMIC, TCC_F32, 0, TCC_NO, kb, kdims, "y");
    uint32_t z = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_F32, 0, TCC_NO, kb, kdims, "z"), one = mp_const(p, 1);
    struct tcc_pstep *s;

    add_kernels(p);
    mp_signature(p, "x", TCC_F32, TCC_OBJ_TENSOR, 1, dims);
    mp_signature(p, "z", TCC_F32, TCC_OBJ_TENSOR, 1, kdims);
    s = mp_step(p, TCC_STEP_LIB, "keep", mp_list(p, 2, x, y));
    s->nin = 1;
    s = mp_step(p, TCC_STEP_DIMS, "keep", mp_list(p, 1, y));
    s->syms = mp_list(p, 1, 1);
    s = mp_step(p, TCC_STEP_EVAL, "keep", mp_list(p, 0));
    s->what = 1;
    s = mp_step(p, TCC_STEP_LAUNCH, "scale", mp_list(p, 3, y, w, z));
    s->sizes = mp_list(p, 1, k);
    s->tiles = k;
    if (fails) {
        s = mp_step(p, TCC_STEP_LAUNCH, "gather", mp_list(p, 0));
        s->what = 2;
        s->tiles = k;
    }
    mp_step(p, TCC_STEP_FREE, "keep", mp_list(p, 1, y));
    p->entries[p->nentries++] = (struct tcc_pentry){mp_string(p, "main"),
                                                    0,
                                                    {0, 1},
                                                    {1, 1},
                                                    mp_list(p, 1, x),
                                                    mp_list(p, 1, z),
                                                    {0, p->nsteps},
                                                    one,
                                                    TCC_NO,
                                                    .cases = {0, 0}};
}

START_TEST(data_dependent)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    float x[16] = {1, -2, 3, 4, -5, 6, 7};
    struct tcc_tensor in = {x, TCC_F32, 1, {7}}, out;
    struct tcc_object *oin, *oout;
    struct tccrt_model *m;
    struct tcc_model d;
    struct tccrt_session *s;
    struct tcc_plan *plan;

    dynamic_plan(p, true);
    plan = mp_finish(p);
    s = open_plan(plan, &d, &m, &(struct tccrt_options){.threads = 2});
    out = (struct tcc_tensor){0};
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINDEX, "node 'gather': index 3 is outside an axis of 3");
    in.dims[0] = 4; /* three are positive: tile 3 is not run */
    ck_assert_msg(tccrt_run(s, "main", 1, &in, 1, &out) == TCC_OK, "%s", tccrt_error());
    ck_assert_int_eq(out.dims[0], 3);
    ck_assert(((float *)out.data)[2] == 4 * 3);
    in.dims[0] = 13;
    out = (struct tcc_tensor){0};
    expect(tccrt_run(s, "main", 1, &in, 1, &out), TCC_EINPUT, "node 'keep': 13 is unlucky");
    in.dims[0] = 2;
    oin = tccrt_object_tensor(TCC_F32, 1, in.dims);
    memcpy(oin->t.data, x, 8);
    ck_assert_msg(tccrt_run_objects(s, "main", 1, &oin, 1, &oout) == TCC_OK, "%s", tccrt_error());
    ck_assert_int_eq(oout->t.dims[0], 1);
    tccrt_object_unref(oout);
    tccrt_object_unref(oin);
    tccrt_session_free(s);
    tccrt_close(m);
    free(plan);
    free(p);
}
END_TEST

/* main(trip: i64[]) -> a: i64[2], b: i64[2], stacked object. Body: (i, cond, a, b) -> (cond, b, a + i), collects a. */
static void loop_plan(struct mini_plan *p)
{
    uint32_t one = mp_const(p, 1), two = mp_const(p, 2), c16 = mp_const(p, 16), c8 = mp_const(p, 8);
    uint32_t offsets[6];
    struct tcc_range scalar = mp_list(p, 0), pair = mp_list(p, 1, two), both;
    uint32_t trip, i, cond, a, b, next, fa, fb, collected, stacked;
    struct tcc_pstep *s;

    for (int k = 0; k < 6; k++)
        offsets[k] = mp_const(p, 64 * k);
    trip = mp_buffer(p, TCC_SPACE_INPUT, TCC_I64, 0, TCC_NO, c8, scalar, "trip");
    i = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, offsets[0], c8, scalar, "i");
    cond = mp_buffer(p, TCC_SPACE_ARENA, TCC_BOOL, 0, offsets[1], one, scalar, "cond");
    a = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, offsets[2], c16, pair, "a");
    b = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, offsets[3], c16, pair, "b");
    next = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, offsets[4], c16, pair, "next");
    fa = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_I64, 0, TCC_NO, c16, pair, "fa");
    fb = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_I64, 1, TCC_NO, c16, pair, "fb");
    collected = mp_object(p, "collected");
    stacked = mp_object(p, "stacked");
    p->states[p->nstates++] =
        (struct tcc_pstate){mp_string(p, "start"), TCC_I64, 1, 0, pair, ~(uint64_t)0, 16, 0, 0, {0}, TCC_NO, TCC_NO};
    mp_buffer(p, TCC_SPACE_STATE, TCC_I64, 0, TCC_NO, c16, pair, "start");
    add_kernels(p);
    mp_signature(p, "trip", TCC_I64, TCC_OBJ_TENSOR, 0, scalar);
    mp_signature(p, "fa", TCC_I64, TCC_OBJ_TENSOR, 1, pair);
    mp_signature(p, "fb", TCC_I64, TCC_OBJ_TENSOR, 1, pair);
    mp_signature(p, "all", TCC_I64, TCC_OBJ_TENSOR, TCC_NO, scalar);
    /* steps 0..2: the body; the entry point's follow */
    s = mp_step(p, TCC_STEP_LAUNCH, "body", mp_list(p, 3, i, a, next));
    s->what = 1;
    s->sizes = mp_list(p, 1, two);
    s->tiles = one;
    mp_step(p, TCC_STEP_ACCUM, "body", mp_list(p, 2, a, collected));
    p->regions[p->nregions++] = (struct tcc_pregion){
        {0, 2}, mp_list(p, 4, i, cond, a, b), mp_list(p, 3, TCC_NO, b, next), mp_list(p, 2, fa, fb)};
    mp_step(p, TCC_STEP_COPY, "init", mp_list(p, 2, p->nbuffers - 1, a));
    mp_step(p, TCC_STEP_COPY, "init", mp_list(p, 2, p->nbuffers - 1, b));
    s = mp_step(p, TCC_STEP_LOOP, "loop", mp_list(p, 2, trip, TCC_NO));
    s->regions = (struct tcc_range){0, 1};
    s = mp_step(p, TCC_STEP_STACK, "stack", mp_list(p, 2, collected, stacked));
    s->what = 0;
    s->sizes = pair;
    both = mp_list(p, 3, fa, fb, stacked);
    p->entries[p->nentries++] = (struct tcc_pentry){mp_string(p, "main"),
                                                    0,
                                                    {0, 1},
                                                    {1, 3},
                                                    mp_list(p, 1, trip),
                                                    both,
                                                    {2, 4},
                                                    mp_const(p, 512),
                                                    TCC_NO,
                                                    .cases = {0, 0}};
}

START_TEST(loop)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    int64_t init[2] = {10, 20};
    struct tccrt_model *m;
    struct tcc_model d;
    struct tccrt_session *s;
    struct tcc_plan *plan;

    loop_plan(p);
    plan = mp_finish(p);
    s = open_plan(plan, &d, &m, NULL);
    ck_assert_int_eq(tccrt_state_set(s, "start", &(struct tcc_tensor){init, TCC_I64, 1, {2}}), TCC_OK);
    for (int64_t trip = 0; trip < 6; trip++) {
        struct tcc_tensor in = {&trip, TCC_I64, 0, {0}}, out[3] = {0};
        int64_t a = 10, b = 10;

        ck_assert_msg(tccrt_run(s, NULL, 1, &in, 3, out) == TCC_OK, "%s", tccrt_error());
        ck_assert_int_eq(out[2].rank, 2);
        ck_assert_int_eq(out[2].dims[0], trip);
        ck_assert_int_eq(out[2].dims[1], 2);
        for (int64_t i = 0; i < trip; i++) {
            int64_t t = a + i;

            ck_assert_int_eq(((int64_t *)out[2].data)[2 * i], a);
            a = b;
            b = t;
        }
        ck_assert_int_eq(((int64_t *)out[0].data)[0], a);
        ck_assert_int_eq(((int64_t *)out[1].data)[1], b + 10);
    }
    tccrt_session_free(s);
    tccrt_close(m);
    free(plan);
    free(p);
}
END_TEST

/* -- Loops at the same time -------------------------------------------------------------------------------- */

enum { LOOPS = 3 };

/* main(trip: i64[], x: i64[2]) -> LOOPS times i64[2]: loops of which any may run at any time. Body: (i, cond, a, b)
 * -> (cond, b, a), b having become b + i: what is carried changes places; or, if not `swaps`, (i, cond, a) -> (cond,
 * a), a having become a + i. The loop number `bad` meets a fault in its first iteration. */
static void parallel_plan(struct mini_plan *p, bool swaps, int bad)
{
    uint32_t one = mp_const(p, 1), two = mp_const(p, 2), c16 = mp_const(p, 16), c8 = mp_const(p, 8);
    struct tcc_range scalar = mp_list(p, 0), pair = mp_list(p, 1, two);
    uint32_t trip = mp_buffer(p, TCC_SPACE_INPUT, TCC_I64, 0, TCC_NO, c8, scalar, "trip");
    uint32_t x = mp_buffer(p, TCC_SPACE_INPUT, TCC_I64, 1, TCC_NO, c16, pair, "x"), out[LOOPS], first[LOOPS][2];
    struct tcc_pstep *s;

    add_kernels(p);
    mp_signature(p, "trip", TCC_I64, TCC_OBJ_TENSOR, 0, scalar);
    mp_signature(p, "x", TCC_I64, TCC_OBJ_TENSOR, 1, pair);
    for (int k = 0; k < LOOPS; k++) {
        uint32_t at[4], steps = p->nsteps, i, cond, a, b;

        for (int j = 0; j < 4; j++)
            at[j] = mp_const(p, 64 * (4 * k + j));
        i = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, at[0], c8, scalar, "i");
        cond = mp_buffer(p, TCC_SPACE_ARENA, TCC_BOOL, 0, at[1], one, scalar, "cond");
        first[k][0] = a = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, at[2], c16, pair, "a");
        first[k][1] = b = mp_buffer(p, TCC_SPACE_ARENA, TCC_I64, 0, at[3], c16, pair, "b");
        out[k] = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_I64, (uint32_t)k, TCC_NO, c16, pair, "out");
        mp_signature(p, "out", TCC_I64, TCC_OBJ_TENSOR, 1, pair);
        s = mp_step(p, TCC_STEP_LAUNCH, "body", mp_list(p, 3, i, swaps ? b : a, swaps ? b : a));
        s->what = 1;
        s->sizes = mp_list(p, 1, two);
        s->tiles = one;
        s->scratch = k == 1 ? mp_const(p, 4096) : TCC_NO;
        if (k == bad) {
            s = mp_step(p, TCC_STEP_LAUNCH, "bad", scalar);
            s->what = 2;
            s->tiles = mp_const(p, 4);
            p->kernels[2].flags = TCC_KERNEL_LIGHT;
        }
        p->regions[p->nregions++] =
            (struct tcc_pregion){{steps, p->nsteps - steps},
                                 swaps ? mp_list(p, 4, i, cond, a, b) : mp_list(p, 3, i, cond, a),
                                 swaps ? mp_list(p, 3, TCC_NO, b, a) : mp_list(p, 2, TCC_NO, a),
                                 swaps ? mp_list(p, 2, out[k], TCC_NO) : mp_list(p, 1, out[k])};
    }
    for (uint32_t k = 0; k < LOOPS; k++) {
        s = mp_step(p, TCC_STEP_LOOP, "loop", mp_list(p, 2, trip, TCC_NO));
        s->regions = (struct tcc_range){k, 1};
        p->regions[p->nregions++] = (struct tcc_pregion){.steps = {p->nsteps - 1, 1}};
    }
    uint32_t begin = p->nsteps;
    for (int k = 0; k < 2 * LOOPS; k++)
        mp_step(p, TCC_STEP_COPY, "init", mp_list(p, 2, x, first[k / 2][k % 2]));
    s = mp_step(p, TCC_STEP_PARALLEL, "loops", mp_list(p, 0));
    s->regions = (struct tcc_range){LOOPS, LOOPS};
    p->entries[p->nentries++] = (struct tcc_pentry){.name = mp_string(p, "main"),
                                                    .inputs = {0, 2},
                                                    .outputs = {2, LOOPS},
                                                    .input_buffers = mp_list(p, 2, trip, x),
                                                    .output_buffers = mp_list(p, 3, out[0], out[1], out[2]),
                                                    .steps = {begin, p->nsteps - begin},
                                                    .arena = mp_const(p, 64 * 4 * LOOPS),
                                                    .scratch = TCC_NO};
}

/* Runs it with so many threads; returns the status. */
static int run_parallel(bool swaps, int bad, const struct tccrt_options *o, int64_t trip)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    int64_t x[2] = {5, 7}, a = x[0], b = x[0];
    struct tcc_tensor in[2] = {{&trip, TCC_I64, 0, {0}}, {x, TCC_I64, 1, {2}}}, out[LOOPS] = {0};
    struct tccrt_model *m;
    struct tcc_model d;
    struct tcc_plan *plan;
    int status;

    parallel_plan(p, swaps, bad);
    plan = mp_finish(p);
    struct tccrt_session *s = open_plan(plan, &d, &m, o);
    for (int64_t i = 0; i < trip; i++) {
        int64_t t = (swaps ? b : a) + i;

        b = swaps ? a : b;
        a = t;
    }
    for (int again = 0; again < 3; again++) {
        status = tccrt_run(s, NULL, 2, in, LOOPS, out);
        for (int k = 0; k < LOOPS && !status; k++) {
            ck_assert_int_eq(((int64_t *)out[k].data)[0], a);
            ck_assert_int_eq(((int64_t *)out[k].data)[1], a + 2);
            memset(out[k].data, 0, 2 * sizeof(int64_t));
        }
    }
    if (status)
        ck_assert_msg(strstr(tccrt_error(), "node 'bad': index 3 is outside an axis of 3") != NULL, "%s",
                      tccrt_error());
    tccrt_session_free(s);
    tccrt_close(m);
    free(plan);
    free(p);
    return status;
}

START_TEST(parallel)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tcc_plan *plan;
    struct tccrt_model *m;
    struct tcc_model d;

    for (int threads = 1; threads <= 4; threads++)
        for (int64_t trip = 0; trip < 400; trip = 2 * trip + 1) {
            const struct tccrt_options o = {.threads = threads}, profiled = {.threads = threads, .profile = true};

            ck_assert_int_eq(run_parallel(false, -1, &o, trip), TCC_OK);
            ck_assert_int_eq(run_parallel(true, -1, &o, trip), TCC_OK);
            ck_assert_int_eq(run_parallel(false, -1, &profiled, trip), TCC_OK);
            for (int bad = 0; bad < LOOPS; bad++)
                ck_assert_int_eq(run_parallel(false, bad, &o, trip), trip ? TCC_EINDEX : TCC_OK);
        }
    /* What isn't a loop can't run beside one. */
    parallel_plan(p, false, -1);
    p->regions[LOOPS].steps.count = 2;
    plan = mp_finish(p);
    d = make_model(plan);
    ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_EBUG);
    expect(TCC_EBUG, TCC_EBUG, "a loop that can't run beside others");
    free(plan);
    p->regions[LOOPS].steps = (struct tcc_range){p->nsteps - 2, 1}; /* a copy */
    plan = mp_finish(p);
    d = make_model(plan);
    ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_EBUG);
    expect(TCC_EBUG, TCC_EBUG, "a loop that can't run beside others");
    free(plan);
    free(p);
}
END_TEST

/* -- Threads -------------------------------------------------------------------------------------------- */

struct worker {
    struct tccrt_model *m;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tccrt_session *s;

    ck_assert_int_eq(tccrt_session_new(w->m, &(struct tccrt_options){.threads = 2}, &s), TCC_OK);
    for (int i = 0; i < 100; i++)
        run_scale(s, 100 + 37 * i);
    tccrt_session_free(s);
    return NULL;
}

/* Sessions of one model on several threads, which share one pool. */
START_TEST(many_sessions)
{
    struct mini_plan *p = calloc(1, sizeof *p);
    struct worker w[4];
    struct tccrt_model *m;
    struct tcc_model d;
    struct tcc_plan *plan;

    scale_plan(p);
    plan = mp_finish(p);
    d = make_model(plan);
    ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_OK);
    for (int i = 0; i < 4; i++) {
        w[i].m = m;
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(w[i].thread, NULL);
    tccrt_close(m);
    free(plan);
    free(p);
}
END_TEST

struct part {
    void (*fn)(void *arg, int i);
    void *arg;
    int i;
};

static void *run_part(void *arg)
{
    struct part *p = arg;

    p->fn(p->arg, p->i);
    return NULL;
}

/* A thread for every part, as a caller's own pool might do. */
static void own_threads(void *user, int n, void (*fn)(void *arg, int i), void *arg)
{
    pthread_t threads[8];
    struct part parts[8];

    ++*(int *)user;
    for (int i = 0; i < n; i++) {
        parts[i] = (struct part){fn, arg, i};
        pthread_create(&threads[i], NULL, run_part, &parts[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(supplied_threads)
{
    int calls = 0;
    struct tccrt_threads pool = {3, own_threads, &calls};
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tccrt_session *s;
    struct tccrt_model *m;
    struct tcc_model d;
    struct tcc_plan *plan;

    scale_plan(p);
    plan = mp_finish(p);
    s = open_plan(plan, &d, &m, &(struct tccrt_options){.pool = &pool});
    run_scale(s, 5); /* one tile: stays here */
    ck_assert_int_eq(calls, 0);
    run_scale(s, 10000);
    ck_assert_int_eq(calls, 2);
    tccrt_session_free(s);
    tccrt_close(m);
    free(plan);
    free(p);
}
END_TEST

/* -- Failing allocations --------------------------------------------------------------------------------- */

struct failing {
    int left, live;
};

static void *failing_alloc(void *user, size_t bytes, size_t alignment)
{
    struct failing *f = user;

    if (f->left-- <= 0)
        return NULL;
    f->live++;
    return aligned_alloc(alignment, bytes);
}

static void failing_free(void *user, void *p)
{
    ((struct failing *)user)->live--;
    free(p);
}

static int try_run(struct tccrt_model *m, struct failing *f, const struct tcc_tensor *in, int nout)
{
    struct tccrt_allocator a = {failing_alloc, failing_free, f};
    struct tccrt_options o = {.threads = 2, .allocator = &a};
    struct tcc_tensor out[3] = {0};
    struct tccrt_session *s;
    int status = tccrt_session_new(m, &o, &s);

    if (!status)
        status = tccrt_run(s, NULL, 1, in, nout, out);
    tccrt_session_free(s);
    return status;
}

START_TEST(no_memory)
{
    static float x[64] = {1, 2, 3};
    static int64_t trip = 3;
    void (*const make[])(struct mini_plan *) = {scale_plan, loop_plan};

    for (int k = 0; k < 3; k++) {
        struct mini_plan *p = calloc(1, sizeof *p);
        struct tcc_tensor in = {x, TCC_F32, 1, {64}}, loop_in = {&trip, TCC_I64, 0, {0}};
        struct tccrt_model *m;
        struct tcc_model d;
        struct tcc_plan *plan;
        int status = TCC_EENV;

        if (k < 2)
            make[k](p);
        else
            dynamic_plan(p, false);
        plan = mp_finish(p);
        d = make_model(plan);
        ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_OK);
        for (int n = 0; n < 100 && status; n++) {
            struct failing f = {n, 0};

            status = try_run(m, &f, k == 1 ? &loop_in : &in, k == 1 ? 3 : 1);
            ck_assert(status == TCC_OK || status == TCC_EENV);
            ck_assert_int_eq(f.live, 0);
        }
        ck_assert_int_eq(status, TCC_OK);
        tccrt_close(m);
        free(plan);
        free(p);
    }
}
END_TEST

/* -- Bad plans --------------------------------------------------------------------------------------------- */

/* Every 32-bit word of a good plan, in turn, replaced: opening must fail cleanly or the run must (kernels are not run:
 * their arguments are not checked against what they read). */
START_TEST(damaged_plans)
{
    static const uint32_t values[] = {0, 1, 7, 0x7fffffff, 0xfffffffe, 0xffffffff};
    void (*const make[])(struct mini_plan *) = {scale_plan, loop_plan};

    for (int k = 0; k < 2; k++) {
        struct mini_plan *p = calloc(1, sizeof *p);
        struct tcc_plan *good, *plan = aligned_alloc(64, 128 << 10);

        make[k](p);
        good = mp_finish(p);
        for (size_t i = 0; i < good->size / 4; i++) {
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                struct tccrt_model *m;
                struct tcc_model d;
                int status;

                memcpy(plan, good, good->size);
                ((uint32_t *)plan)[i] = values[v];
                if (plan->size > 128 << 10)
                    continue; /* the artifact's own size of the block is trusted */
                d = make_model(plan);
                status = tccrt_open_linked(&d, &m);
                ck_assert(status == TCC_OK || status == TCC_EINPUT || status == TCC_EBUG);
                ck_assert((status == TCC_OK) == (m != NULL));
                tccrt_close(m);
            }
        }
        free(plan);
        free(good);
        free(p);
    }
}
END_TEST

START_TEST(lesser_cpu)
{
    struct tcc_version v = {"native:avx2,no-such-feature", kernels};
    struct mini_plan *p = calloc(1, sizeof *p);
    struct tccrt_model *m;
    struct tcc_plan *plan;
    struct tcc_model d;

    scale_plan(p);
    plan = mp_finish(p);
    d = make_model(plan);
    d.versions = &v;
    ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_EENV);
    ck_assert(strstr(tccrt_error(), "this CPU lacks"));
    d.versions = versions;
    d.abi_version++;
    ck_assert_int_eq(tccrt_open_linked(&d, &m), TCC_EINPUT);
    ck_assert_int_eq(tccrt_open("no-such-file.so", &m), TCC_EENV);
    ck_assert_int_eq(tccrt_open("/etc/passwd", &m), TCC_EINPUT);
    free(plan);
    free(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("walk");
    TCase *tc = tcase_create("walk");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, symbolic);
    tcase_add_test(tc, small_launches);
    tcase_add_test(tc, shape_versions);
    tcase_add_test(tc, wrong_inputs);
    tcase_add_test(tc, data_dependent);
    tcase_add_test(tc, loop);
    tcase_add_test(tc, parallel);
    tcase_add_test(tc, many_sessions);
    tcase_add_test(tc, supplied_threads);
    tcase_add_test(tc, no_memory);
    tcase_add_test(tc, damaged_plans);
    tcase_add_test(tc, lesser_cpu);
    suite_add_tcase(suite, tc);
    return run_tests(suite);
}
