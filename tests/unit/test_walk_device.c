/* SPDX-License-Identifier: Apache-2.0 */
/* The plan walker on a device with memory and queues of its own: copies, waits, programs that are recorded and
 * replayed. */
#include "tests/unit/suite.h"
#include "tests/unit/walk_plans.h"

/* main(x: f32[n]) -> f32[n], on a device: x is copied in, a program computes t = x * w, x = t * w, the result is copied
 * out; three queues, two waits, of which `drop` (1, 2) is left out. */
static void placed_plan(struct mini_plan *p, int drop)
{
    uint32_t n = mp_sym(p, "n", 0, 1000000, 0), four = mp_const(p, 4), zero = mp_const(p, 0),
             half = mp_const(p, 4 << 20), all = mp_const(p, 8 << 20), sixteen = mp_const(p, TILE);
    uint32_t bytes = mp_expr(p, TCC_EX_MUL, n, four, 0, 0), c15 = mp_const(p, TILE - 1), c16 = mp_const(p, 16);
    uint32_t up = mp_expr(p, TCC_EX_ADD, n, c15, 0, 0), tiles = mp_expr(p, TCC_EX_FLOORDIV, up, sixteen, 0, 0);
    struct tcc_range dims = mp_list(p, 1, n), wdims = mp_list(p, 1, four);
    uint32_t x = mp_buffer(p, TCC_SPACE_INPUT, TCC_F32, 0, TCC_NO, bytes, dims, "x");
    uint32_t y = mp_buffer(p, TCC_SPACE_OUTPUT, TCC_F32, 0, TCC_NO, bytes, dims, "y");
    uint32_t w = mp_buffer(p, TCC_SPACE_WEIGHT, TCC_F32, 0, zero, c16, wdims, "w");
    uint32_t there = mp_buffer(p, TCC_SPACE_ARENA, TCC_F32, 0, zero, bytes, dims, "there");
    uint32_t t = mp_buffer(p, TCC_SPACE_ARENA, TCC_F32, 0, half, bytes, dims, "t");
    struct tcc_pstep *s;

    p->buffers[w].memory = p->buffers[there].memory = p->buffers[t].memory = 1;
    p->memories[0] = (struct tcc_pmemory){mp_string(p, "host"), TCC_MEMORY_SHARED_WITH_HOST};
    p->memories[1] = (struct tcc_pmemory){mp_string(p, "cpu-split"), 0};
    p->queues[0] = (struct tcc_pqueue){mp_string(p, "host"), 0, TCC_QUEUE_HOST, 0};
    p->queues[1] = (struct tcc_pqueue){mp_string(p, "in"), 1, TCC_QUEUE_COPY_IN, 0};
    p->queues[2] = (struct tcc_pqueue){mp_string(p, "compute"), 1, TCC_QUEUE_COMPUTE, 0};
    p->queues[3] = (struct tcc_pqueue){mp_string(p, "out"), 1, TCC_QUEUE_COPY_OUT, 0};
    p->nmemories = 2;
    p->nqueues = 4;
    add_kernels(p);
    mp_signature(p, "x", TCC_F32, TCC_OBJ_TENSOR, 1, dims);
    mp_signature(p, "y", TCC_F32, TCC_OBJ_TENSOR, 1, dims);
    mp_step(p, TCC_STEP_COPY, "in", mp_list(p, 2, x, there))->queue = 1;
    s = mp_step(p, TCC_STEP_PROGRAM, "both", mp_list(p, 0));
    s->queue = 2;
    s->regions = (struct tcc_range){0, 1};
    s->waits = drop == 1 ? mp_list(p, 0) : mp_list(p, 1, 0);
    s = mp_step(p, TCC_STEP_COPY, "out", mp_list(p, 2, there, y));
    s->queue = 3;
    s->waits = drop == 2 ? mp_list(p, 0) : mp_list(p, 1, 1);
    for (int i = 0; i < 2; i++) {
        s = mp_step(p, TCC_STEP_LAUNCH, i ? "second" : "first", mp_list(p, 3, i ? t : there, w, i ? there : t));
        s->queue = 2;
        s->sizes = mp_list(p, 1, n);
        s->tiles = tiles;
        s->scratch = c16;
    }
    p->regions[p->nregions++] = (struct tcc_pregion){.steps = {3, 2}};
    p->entries[p->nentries++] = (struct tcc_pentry){.name = mp_string(p, "main"),
                                                    .inputs = {0, 1},
                                                    .outputs = {1, 1},
                                                    .input_buffers = mp_list(p, 1, x),
                                                    .output_buffers = mp_list(p, 1, y),
                                                    .steps = {0, 3},
                                                    .arena = zero,
                                                    .arenas = mp_list(p, 1, all),
                                                    .scratch = c16};
}

static int run_placed(struct tccrt_session *s, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x), *y = calloc((size_t)n, sizeof *y);
    struct tcc_tensor in = {x, TCC_F32, 1, {n}}, out = {y, TCC_F32, 1, {n}};
    int status;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)i;
    status = tccrt_run(s, "main", 1, &in, 1, &out);
    for (int64_t i = 0; !status && i < n; i++)
        ck_assert_float_eq(y[i], x[i] * weights[i % 4] * weights[i % 4]);
    free(x);
    free(y);
    return status;
}

/* Whatever the order, and with programs that are recorded, compared, replayed, for two sizes; a wait that is missing is
 * always noticed. */
START_TEST(placed)
{
    for (int drop = 0; drop < 3; drop++) {
        struct mini_plan p = {0};
        struct tccrt_model *m;
        struct tccrt_session *s;
        struct tcc_model d;
        struct tcc_plan *plan;
        char seed[8];

        snprintf(seed, sizeof seed, "%d", _i);
        setenv("TCCC_ORDER_SEED", seed, 1);
        placed_plan(&p, drop);
        plan = mp_finish(&p);
        s = open_plan(plan, &d, &m, &(struct tccrt_options){.threads = 2});
        ck_assert_str_eq(tccrt_device_used(s), "cpu-split");
        for (int run = 0; run < 4 && !drop; run++) {
            ck_assert_msg(run_placed(s, 100) == TCC_OK, "%s", tccrt_error());
            ck_assert_msg(run_placed(s, 40) == TCC_OK, "%s", tccrt_error());
        }
        if (drop) {
            ck_assert_int_eq(run_placed(s, 100), TCC_EBUG);
            ck_assert_msg(strstr(tccrt_error(), "requires a wait") != NULL, "%s", tccrt_error());
        }
        ck_assert_int_ge(tccrt_device_launches(s), drop == 0 ? 8 : 0);
        tccrt_session_free(s);
        tccrt_close(m);
        free(plan);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("walk_device");
    TCase *tc = tcase_create("walk_device");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, placed, 0, 4);
    suite_add_tcase(suite, tc);
    return run_tests(suite);
}
