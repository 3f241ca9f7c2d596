/* SPDX-License-Identifier: Apache-2.0 */
/* The door of engines of communication: an engine of the test's own takes whole collectives over, as a device's would. */
#include <check.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

static int taken, cancelled, messages;
static bool hanging; /* collectives never end */

static int fake_open(struct tcr_net *net, const struct tccrt_comm_options *options)
{
    (void)options;
    net->rank = 0;
    net->size = net->local_size = 2;
    net->threaded = true;
    return TCC_OK;
}

static void fake_close(struct tcr_net *net, bool broken)
{
    (void)net;
    (void)broken;
}

/* Nothing arrives from the other rank; what is sent to it is gone at once. at[0] says whether a message is over. */
static int fake_send(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes,
                     struct tcr_pending *p)
{
    (void)net, (void)to, (void)tag, (void)data, (void)bytes;
    messages += lane == TCR_LANE_COLLECTIVE;
    p->at[0].number = 1;
    return TCC_OK;
}

static int fake_recv(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p)
{
    (void)net, (void)from, (void)tag, (void)data, (void)bytes;
    messages += lane == TCR_LANE_COLLECTIVE;
    p->at[0].number = 0;
    return TCC_OK;
}

static int fake_test(struct tcr_net *net, struct tcr_pending *p, bool *done)
{
    (void)net;
    *done = p->at[0].number;
    return TCC_OK;
}

static void fake_cancel(struct tcr_net *net, struct tcr_pending *p)
{
    (void)net;
    cancelled += p->at[1].number;
}

/* All-reduces of float32: the other rank has what this one has. */
static int fake_collective(struct tcr_net *net, const struct tcr_coll *c, struct tcr_pending *p, bool *took)
{
    (void)net;
    *took = c->kind == TCC_ALL_REDUCE && c->dtype == TCC_F32;
    if (!*took)
        return TCC_OK;
    taken++;
    for (int i = 0; i < c->npieces; i++)
        for (int64_t j = 0; j < c->in[i].n; j++)
            ((float *)c->out[i].data)[j] = 2 * ((const float *)c->in[i].data)[j];
    p->at[0].number = !hanging;
    p->at[1].number = 1;
    return TCC_OK;
}

static const struct tcr_engine fake = {.name = "fake",
                                       .title = "Fake",
                                       .launcher = TCR_LAUNCHER_VARIABLES,
                                       .open = fake_open,
                                       .close = fake_close,
                                       .send = fake_send,
                                       .recv = fake_recv,
                                       .test = fake_test,
                                       .cancel = fake_cancel,
                                       .collective = fake_collective};

START_TEST(collectives_of_the_engine)
{
    struct tccrt_comm_options options = {0};
    int ranks[] = {0, 1};
    float x[3] = {1, 2, 3};
    double y[1] = {1};
    struct tcc_tensor t = {x, TCC_F32, 1, {3}}, u = {y, TCC_F64, 1, {1}};
    struct tccrt_comm world = {.size = 2, .ranks = ranks};
    struct tccrt_request *one, *other;
    struct tcr_net *net;
    bool done;

    ck_assert_int_eq(tcr_net_open(&fake, &options, 30, &net), TCC_OK);
    world.net = net;
    world.world = &world;
    ck_assert_int_eq(tccrt_comm_all_reduce(&world, TCCRT_SUM, 1, 1, &t, &t, NULL), TCC_OK);
    ck_assert(x[0] == 2 && x[1] == 4 && x[2] == 6);
    ck_assert_int_eq(taken, 1);
    ck_assert_int_eq(messages, 0);

    /* What it does not take goes by messages; what it takes is cancelled when the net breaks. */
    hanging = true;
    ck_assert_int_eq(tccrt_comm_all_reduce(&world, TCCRT_SUM, 1, 1, &u, &u, &one), TCC_OK);
    ck_assert_int_eq(tccrt_comm_test(one, &done), TCC_OK);
    ck_assert(!done && taken == 1);
    ck_assert_int_gt(messages, 0);
    ck_assert_int_eq(tccrt_comm_all_reduce(&world, TCCRT_SUM, 1, 1, &t, &t, &other), TCC_OK);
    ck_assert_int_eq(tccrt_comm_test(other, &done), TCC_OK);
    ck_assert(!done && taken == 2 && cancelled == 0);
    tccrt_comm_abort(&world, "enough");
    ck_assert_int_eq(cancelled, 1);
    ck_assert_int_eq(tccrt_comm_wait(other), TCC_EENV);
    ck_assert_str_eq(tccrt_error(), "rank 0: enough");
    ck_assert_int_eq(tccrt_comm_wait(one), TCC_EENV);
    ck_assert_int_eq(tcr_net_close(net, NULL), TCC_EENV);
}
END_TEST

START_TEST(names_of_engines)
{
    struct tccrt_comm_options options = {.engine = "nccl"};
    const struct tcr_engine *engine;

    ck_assert_int_eq(tcr_engine_choose(&options, &engine), TCC_EENV);
    options.engine = "rdma";
    ck_assert_int_eq(tcr_engine_choose(&options, &engine), TCC_EUSAGE);
    options = (struct tccrt_comm_options){.engine = "ucx", .adopt = &options};
    ck_assert_int_eq(tcr_engine_choose(&options, &engine), TCC_EUSAGE);
    options = (struct tccrt_comm_options){.engine = "ucx", .alone = true};
    ck_assert_int_eq(tcr_engine_choose(&options, &engine), TCC_OK);
    ck_assert_ptr_null(engine);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine");
    TCase *t = tcase_create("door");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, collectives_of_the_engine);
    tcase_add_test(t, names_of_engines);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
