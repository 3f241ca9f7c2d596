/* SPDX-License-Identifier: Apache-2.0 */
/* The door of engines of communication, with an engine of the test's own; and operations that a library of devices
 * does, which is the test's, too. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"
#include "tests/unit/suite.h"

static int given, abandoned, marks, messages;
static bool hanging; /* the device never passes what it was given */

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
    (void)net, (void)p;
}

static const struct tcr_engine fake = {.name = "fake",
                                       .title = "Fake",
                                       .launcher = TCR_LAUNCHER_VARIABLES,
                                       .open = fake_open,
                                       .close = fake_close,
                                       .send = fake_send,
                                       .recv = fake_recv,
                                       .test = fake_test,
                                       .cancel = fake_cancel};

/* -- A device ------------------------------------------------------------------------------------------------ */

static bool takes(int dtype, int how, double scale)
{
    (void)how, (void)scale;
    return dtype == TCC_F32;
}

/* All-reduces of float32: the other rank has what this one has. Gathering: twice its own. */
static int give(struct tcr_device *d, int queue, struct tcr_peers *p, const struct tcr_peer_item *items, int n)
{
    (void)d, (void)queue, (void)p;
    given++;
    for (int k = 0; k < n; k++)
        if (items[k].kind == TCR_PEER_ALL_REDUCE)
            for (int64_t j = 0; j < items[k].n; j++)
                ((float *)items[k].out)[j] = 2 * ((const float *)items[k].in)[j];
        else
            for (int r = 0; r < 2; r++)
                memcpy((double *)items[k].out + r * items[k].n, items[k].in, (size_t)items[k].n * 8);
    return TCC_OK;
}

static int mark(struct tcr_device *d, int queue, size_t bytes, struct tcr_mark **out)
{
    static char place;

    (void)d, (void)queue, (void)bytes;
    marks++;
    *out = (struct tcr_mark *)(void *)&place;
    return TCC_OK;
}

static int passed(struct tcr_mark *m, bool *is)
{
    (void)m;
    *is = !hanging;
    return TCC_OK;
}

static void unmark(struct tcr_mark *m)
{
    (void)m;
    marks--;
}

static int ready(struct tcr_peers *p, bool *is)
{
    static int asked;

    (void)p;
    *is = ++asked % 3 == 0;
    return TCC_OK;
}

static void abandon(struct tcr_peers *p)
{
    (void)p;
    abandoned++;
}

static int apply(struct tcr_device *d, int queue, const struct tcr_apply *w)
{
    (void)d, (void)queue;
    w->fn(w->arg, w->from, w->to);
    free(w->arg);
    return TCC_OK;
}

static void *get(struct tcr_device *d, int queue, size_t bytes, bool zeroed)
{
    (void)d, (void)queue, (void)zeroed;
    return malloc(bytes);
}

static void give_back(struct tcr_device *d, int queue, void *p, size_t bytes, bool zeroed)
{
    (void)d, (void)queue, (void)bytes, (void)zeroed;
    free(p);
}

static const struct tcr_peers_ops peers = {.takes = takes,
                                           .give = give,
                                           .mark = mark,
                                           .passed = passed,
                                           .unmark = unmark,
                                           .ready = ready,
                                           .abandon = abandon,
                                           .apply = apply};
static const struct tcr_device_ops device_ops = {.peers = &peers, .alloc = get, .free = give_back};

START_TEST(operations_of_a_device)
{
    struct tccrt_comm_options options = {0};
    int ranks[] = {0, 1};
    float x[3] = {1, 2, 3};
    double y[1] = {1.5};
    struct tcc_tensor t = {x, TCC_F32, 1, {3}}, u = {y, TCC_F64, 1, {1}};
    struct tcr_device device = {.ops = &device_ops, .name = "test"};
    struct tccrt_comm world = {.size = 2, .ranks = ranks}, there;
    struct tccrt_request *one;
    struct tcr_net *net;
    bool done;

    ck_assert_int_eq(tcr_net_open(&fake, &options, 30, NULL, &net), TCC_OK);
    world.net = net;
    world.world = &world;
    there = world;
    there.base = &world;
    there.device = &device;
    ck_assert_int_eq(tccrt_comm_all_reduce(&there, TCCRT_SUM, 1, 1, &t, &t, NULL), TCC_OK);
    ck_assert(x[0] == 2 && x[1] == 4 && x[2] == 6);
    ck_assert_int_eq(given, 1);

    /* What its library does not reduce is gathered, and reduced in the order of ranks. */
    ck_assert_int_eq(tccrt_comm_all_reduce(&there, TCCRT_PRODUCT, 2, 1, &u, &u, &one), TCC_OK);
    ck_assert_int_eq(tccrt_comm_wait(one), TCC_OK);
    ck_assert_double_eq(y[0], 4.5);
    ck_assert_int_eq(given, 2);
    ck_assert_int_eq(messages, 0);
    ck_assert_int_eq(marks, 0);

    /* What the device has not passed is under way; when the net breaks it is abandoned. */
    hanging = true;
    ck_assert_int_eq(tccrt_comm_all_reduce(&there, TCCRT_SUM, 1, 1, &t, &t, NULL), TCC_OK);
    ck_assert_int_eq(tccrt_comm_all_reduce(&there, TCCRT_SUM, 1, 1, &t, &t, &one), TCC_OK);
    ck_assert_int_eq(tccrt_comm_test(one, &done), TCC_OK);
    ck_assert(!done && abandoned == 0);
    tccrt_comm_abort(&world, "enough");
    ck_assert_int_eq(abandoned, 2);
    ck_assert_int_eq(marks, 0);
    ck_assert_int_eq(tccrt_comm_wait(one), TCC_EENV);
    ck_assert_str_eq(tccrt_error(), "rank 0: enough");
    ck_assert_int_eq(tccrt_comm_all_reduce(&there, TCCRT_SUM, 1, 1, &t, &t, NULL), TCC_EENV);
    ck_assert_int_eq(tcr_net_close(net, NULL), TCC_EENV);
}
END_TEST

START_TEST(names_of_engines)
{
    static const struct {
        const char *name;
        int status;
        enum tcr_peers_use peers;
        bool exact;
    } cases[] = {{"auto", TCC_OK, TCR_PEERS_WHERE_THERE, false},
                 {"mpi", TCC_OK, TCR_PEERS_NEVER, false},
                 {"nccl", TCC_OK, TCR_PEERS_ALWAYS, false},
                 {"nccl:exact", TCC_OK, TCR_PEERS_ALWAYS, true},
                 {"ucx+nccl", TCC_OK, TCR_PEERS_ALWAYS, false},
                 {"auto+nccl:exact", TCC_OK, TCR_PEERS_ALWAYS, true},
                 {"rdma", TCC_EUSAGE, 0, false},
                 {"nccl:exactly", TCC_EUSAGE, 0, false},
                 {"ucx+", TCC_EUSAGE, 0, false},
                 {"rdma+nccl", TCC_EUSAGE, 0, false}};
    struct tccrt_comm_options options;
    struct tcr_choice choice;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options = (struct tccrt_comm_options){.engine = cases[i].name, .alone = true};
        ck_assert_msg(tcr_engine_choose(&options, &choice) == cases[i].status, "%s", cases[i].name);
        ck_assert(cases[i].status ||
                  (choice.peers == cases[i].peers && choice.exact == cases[i].exact && !choice.engine));
    }
    options = (struct tccrt_comm_options){.engine = "ucx", .adopt = &options};
    ck_assert_int_eq(tcr_engine_choose(&options, &choice), TCC_EUSAGE);
    options = (struct tccrt_comm_options){.engine = "nccl", .adopt = &options};
    ck_assert_int_eq(tcr_engine_choose(&options, &choice), TCC_OK);
    ck_assert_ptr_eq(choice.engine, &tcr_mpi);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine");
    TCase *t = tcase_create("door");

    tcase_add_test(t, operations_of_a_device);
    tcase_add_test(t, names_of_engines);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return run_tests(s);
}
