/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over UCX's UCP (shared memory, TCP, InfiniBand), opened at run time: neither the build nor an artifact
 * needs UCX's headers or library. What is declared here is UCP's binary interface as its header ucp/api/ucp.h has it
 * since version 1.10; structures begin with a mask of the fields that count, so that later versions know what is meant.
 * tests/dist/ucx_abi.c compares the declarations with the header where that is installed.
 *
 * Ranks find each other by rendezvous.c: a rank's card is its worker's address. Endpoints are made with the first
 * message to a rank. A message's tag is its lane, its sender and its own tag. An endpoint to another machine that fails
 * says that its rank is lost; who is to blame is for failure_detector.c to say. Calls are made under the net's lock:
 * UCS_THREAD_MODE_SERIALIZED.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm_int.h"
#include "runtime/comm/ucx_abi.h"

/* name, result, arguments; of libucp and of libucs, which libucp brings */
#define FUNCTIONS(X)                                                                                            \
    X(ucp_init_version, ucx_status, (unsigned, unsigned, const struct ucx_params *, const void *, void **))     \
    X(ucp_cleanup, void, (void *))                                                                              \
    X(ucp_config_read, ucx_status, (const char *, const char *, void **))                                       \
    X(ucp_config_release, void, (void *))                                                                       \
    X(ucp_worker_create, ucx_status, (void *, const struct ucx_worker_params *, void **))                       \
    X(ucp_worker_destroy, void, (void *))                                                                       \
    X(ucp_worker_get_address, ucx_status, (void *, void **, size_t *))                                          \
    X(ucp_worker_release_address, void, (void *, void *))                                                       \
    X(ucp_worker_progress, unsigned, (void *))                                                                  \
    X(ucp_worker_flush_nbx, void *, (void *, const struct ucx_request_param *))                                 \
    X(ucp_ep_create, ucx_status, (void *, const struct ucx_ep_params *, void **))                               \
    X(ucp_tag_send_nbx, void *, (void *, const void *, size_t, uint64_t, const struct ucx_request_param *))     \
    X(ucp_tag_recv_nbx, void *, (void *, void *, size_t, uint64_t, uint64_t, const struct ucx_request_param *)) \
    X(ucp_request_check_status, ucx_status, (void *))                                                           \
    X(ucp_request_cancel, void, (void *, void *))                                                               \
    X(ucp_request_free, void, (void *))                                                                         \
    X(ucs_status_string, const char *, (ucx_status))                                                            \
    X(ucs_global_opts_set_value, ucx_status, (const char *, const char *))                                      \
    X(ucs_debug_disable_signals, void, (void))

struct peer {
    struct tcr_net *net;
    void *endpoint; /* NULL: none yet */
    bool lost;
};

struct ucx {
    void *library, *context, *worker;
    const struct tcr_card *cards;
    struct peer *peers;
    uint64_t key; /* in each tag */
#define X(name, result, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
};

/* A rank's card: who shares a machine, and its worker's address. */
struct card {
    uint64_t machine;
};

static int failed(struct ucx *u, const char *what, int code)
{
    return tcr_fail(TCC_EENV, "UCX: %s: %s", what, u->ucs_status_string((ucx_status)code));
}

/* -- Opening ------------------------------------------------------------------------------------------------------ */

static int open_library(struct ucx *u, const char *name)
{
    const char *asked = name ? name : tccrt_env_text("TCCC_UCX_LIBRARY"), *missing = NULL;

    u->library = dlopen(asked ? asked : "libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!u->library)
        return tcr_fail(TCC_EENV, "no UCX library: %s; install UCX (libucx0), or name its libucp with TCCC_UCX_LIBRARY",
                        dlerror());
#define X(name, result, arguments)                 \
    *(void **)&u->name = dlsym(u->library, #name); \
    if (!u->name)                                  \
        missing = #name;
    FUNCTIONS(X)
#undef X
    return missing ? tcr_fail(TCC_EENV, "the UCX library is too old: it has no '%s'; version 1.10 is needed", missing)
                   : TCC_OK;
}

/* The library takes signals over and writes to the terminal; both are the program's. */
static void keep_quiet(struct ucx *u)
{
    if (!getenv("UCX_ERROR_SIGNALS") && !getenv("UCX_HANDLE_ERRORS"))
        u->ucs_debug_disable_signals();
    if (!getenv("UCX_LOG_LEVEL"))
        u->ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

static int make_worker(struct ucx *u, const struct tcr_net *net)
{
    struct ucx_params p = {.field_mask = UCX_PARAM_FEATURES | UCX_PARAM_TAG_SENDER_MASK | UCX_PARAM_ESTIMATED_NUM_EPS,
                           .features = UCX_FEATURE_TAG,
                           .tag_sender_mask = (uint64_t)UCX_TAG_RANKS << UCX_TAG_RANK_AT,
                           .estimated_num_eps = (size_t)net->size};
    struct ucx_worker_params w = {.field_mask = UCX_WORKER_PARAM_THREAD_MODE,
                                  .thread_mode = UCX_THREAD_MODE_SERIALIZED};
    void *config = NULL;
    int code = u->ucp_config_read(NULL, NULL, &config);

    if (!code) {
        code = u->ucp_init_version(1, 10, &p, config, &u->context);
        u->ucp_config_release(config);
    }
    if (code)
        return failed(u, "opening", code);
    code = u->ucp_worker_create(u->context, &w, &u->worker);
    return code ? failed(u, "a worker", code) : TCC_OK;
}

/* Processes of one machine see the same boot and the same name, and their launcher gives them the same number
 * (torchrun's GROUP_RANK). */
static uint64_t this_machine(void)
{
    char host[256] = "", boot[64] = "", text[400];
    const char *group = getenv("GROUP_RANK");
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f) {
        if (!fgets(boot, sizeof boot, f))
            boot[0] = 0;
        fclose(f);
    }
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%s %s %.40s", host, boot, group ? group : "");
    return tcr_xxh3(text, strlen(text));
}

static int meet(struct ucx *u, struct tcr_net *net, struct tcr_launch *l)
{
    struct card card = {this_machine()};
    void *address = NULL;
    unsigned char *mine;
    size_t size = 0;
    int code = u->ucp_worker_get_address(u->worker, &address, &size), status;

    if (code)
        return failed(u, "the worker's address", code);
    if ((mine = malloc(sizeof card + size))) {
        memcpy(mine, &card, sizeof card);
        memcpy(mine + sizeof card, address, size);
    }
    u->ucp_worker_release_address(u->worker, address);
    if (!mine)
        return tcr_fail(TCC_EENV, "no memory for an address");
    status = tcr_net_meet(net, l, (struct tcr_card){sizeof card + size, mine}, &u->cards);
    free(mine);
    for (int r = 0; r < net->size && !status && !net->joins; r++)
        if (u->cards[r].bytes <= sizeof card)
            status = tcr_fail(TCC_EENV, "rank %d gave no address", r);
    return status;
}

static bool same_machine(const struct ucx *u, int a, int b)
{
    return !memcmp(u->cards[a].data, u->cards[b].data, sizeof(struct card));
}

/* Where the launcher does not say so: those of the same machine. */
static void find_neighbours(const struct ucx *u, struct tcr_net *net, const struct tcr_launch *l)
{
    int before = 0, here = 0;

    for (int r = 0; r < net->size; r++) {
        bool same = same_machine(u, r, net->rank);

        here += same;
        before += same && r < net->rank;
    }
    net->local_rank = l->local_rank >= 0 && !net->elastic ? l->local_rank : before;
    net->local_size = l->local_size > 0 && !net->elastic ? l->local_size : here;
}

static void ucx_free(struct ucx *u)
{
    if (u->worker)
        u->ucp_worker_destroy(u->worker);
    if (u->context)
        u->ucp_cleanup(u->context);
    free(u->peers);
    free(u);
}

/* The key's bits at their places in a tag. */
static uint64_t key_of(uint32_t bits)
{
    return (uint64_t)(bits & 0x3ff) << UCX_TAG_KEY_AT | (uint64_t)(bits >> 10 & 0xf) << UCX_TAG_KEY2_AT |
           (uint64_t)(bits >> 14 & 0x3f) << UCX_TAG_KEY3_AT;
}

static int ucx_open(struct tcr_net *net, const struct tccrt_comm_options *options)
{
    struct ucx *u = calloc(1, sizeof *u);
    struct tcr_launch l;
    int status;

    if (!u)
        return tcr_fail(TCC_EENV, "no memory for UCX");
    if (!(status = tcr_launch_read(&l)) && !(status = open_library(u, options->library))) {
        net->rank = l.rank;
        net->size = l.size;
        net->threaded = true;
        keep_quiet(u);
        status = make_worker(u, net);
    }
    status = status ? status : meet(u, net, &l);
    if (!status && !(u->peers = calloc((size_t)net->size, sizeof *u->peers)))
        status = tcr_fail(TCC_EENV, "no memory for %d ranks", net->size);
    if (status || net->joins) {
        ucx_free(u);
        return status;
    }
    find_neighbours(u, net, &l);
    u->key = key_of(tcr_meet_tag(net->meeting));
    net->data = u;
    return TCC_OK;
}

/* -- Closing ------------------------------------------------------------------------------------------------------- */

#define END_SECONDS 2 /* that others may take to come to the end, at most */

/* What was sent arrives, and nobody leaves before all have come here: a connection that ends is then nobody's death. */
static void ucx_close(struct tcr_net *net, bool broken)
{
    struct ucx *u = net->data;
    struct ucx_request_param none = {0};
    double until = tcr_seconds() + END_SECONDS;
    bool flushed = false;
    void *flush;
    int idle = 0;

    if (broken)
        return; /* others may be gone, and ending would wait for them */
    flush = u->ucp_worker_flush_nbx(u->worker, &none);
    while (tcr_seconds() < until) {
        u->ucp_worker_progress(u->worker);
        flushed = flushed || !ucx_is_request(flush) || u->ucp_request_check_status(flush) != UCX_IN_PROGRESS;
        if (flushed && tcr_meet_again(net->meeting))
            break;
        tcr_pause(&idle);
    }
    if (ucx_is_request(flush))
        u->ucp_request_free(flush);
    ucx_free(u);
}

/* -- Messages ------------------------------------------------------------------------------------------------------ */

#define LOST ((void *)1) /* in at[1]: of a message that will never be done */

static uint64_t tag_of(const struct ucx *u, int lane, int rank, int tag)
{
    return u->key | (uint64_t)lane << UCX_TAG_LANE_AT | (uint64_t)rank << UCX_TAG_RANK_AT | (uint64_t)tag;
}

static void lose(struct tcr_net *net, int rank)
{
    struct ucx *u = net->data;

    if (!u->peers[rank].lost)
        tcr_watch_lost(net, rank);
    u->peers[rank].lost = true;
}

static void endpoint_failed(void *arg, void *endpoint, ucx_status code)
{
    struct peer *p = arg;
    struct ucx *u = p->net->data;

    (void)endpoint;
    (void)code;
    lose(p->net, (int)(p - u->peers));
}

/* A failure that is not a lost rank's. */
static bool is_ours(int code)
{
    return code == UCX_ERR_TRUNCATED || code == UCX_ERR_NO_MEMORY || code == UCX_ERR_INVALID;
}

/* UCX uses shared memory only where it need not find out that the other process ended (until version 1.13 at least). Of
 * processes of this machine failure_detector.c finds that out. *endpoint is NULL where the rank is lost: its memory is
 * not there any more. */
static int endpoint_of(struct tcr_net *net, int rank, void **endpoint)
{
    struct ucx *u = net->data;
    struct peer *p = &u->peers[rank];
    struct ucx_ep_params e = {.field_mask =
                                  UCX_EP_PARAM_REMOTE_ADDRESS | UCX_EP_PARAM_ERR_MODE | UCX_EP_PARAM_ERR_HANDLER,
                              .address = u->cards[rank].data + sizeof(struct card),
                              .err_mode = same_machine(u, rank, net->rank) ? UCX_ERR_MODE_NONE : UCX_ERR_MODE_PEER,
                              .err_handler = {endpoint_failed, p}};
    int code = UCX_OK;

    if (!p->endpoint) {
        p->net = net;
        code = u->ucp_ep_create(u->worker, &e, &p->endpoint);
    }
    *endpoint = p->endpoint;
    if (code && !is_ours(code)) {
        lose(net, rank);
        *endpoint = NULL;
        return TCC_OK;
    }
    return code ? failed(u, "an endpoint", code) : TCC_OK;
}

/* What a function gave: a request, or done, or a failure. */
static int take(struct tcr_net *net, void *request, const char *what, struct tcr_pending *p)
{
    struct ucx *u = net->data;

    *p = (struct tcr_pending){.at[0].pointer = NULL};
    if (ucx_is_request(request)) {
        p->at[0].pointer = request;
        return TCC_OK;
    }
    return request ? failed(u, what, (int)(intptr_t)request) : TCC_OK;
}

static int ucx_send(struct tcr_net *net, int lane, int to, int tag, const void *data, size_t bytes,
                    struct tcr_pending *p)
{
    static const struct ucx_request_param none;
    struct ucx *u = net->data;
    void *endpoint, *request;
    int status = endpoint_of(net, to, &endpoint);

    if (status)
        return status;
    if (endpoint) {
        request = u->ucp_tag_send_nbx(endpoint, data, bytes, tag_of(u, lane, net->rank, tag), &none);
        if (!request || ucx_is_request(request) || is_ours((int)(intptr_t)request))
            return take(net, request, "send", p);
        lose(net, to); /* whoever waits for it hears so */
    }
    *p = (struct tcr_pending){.at[1].pointer = LOST};
    return TCC_OK;
}

static int ucx_recv(struct tcr_net *net, int lane, int from, int tag, void *data, size_t bytes, struct tcr_pending *p)
{
    static const struct ucx_request_param none;
    struct ucx *u = net->data;
    uint64_t mask = from < 0 ? ~((uint64_t)UCX_TAG_RANKS << UCX_TAG_RANK_AT) : ~(uint64_t)0;

    return take(net,
                u->ucp_tag_recv_nbx(u->worker, data, bytes, tag_of(u, lane, from < 0 ? 0 : from, tag), mask, &none),
                "receive", p);
}

static void ucx_progress(struct tcr_net *net)
{
    struct ucx *u = net->data;

    for (int i = 0; i < 16 && u->ucp_worker_progress(u->worker); i++)
        ;
}

/* A message that failed with its endpoint is never done; all other failures are ours. */
static int ucx_test(struct tcr_net *net, struct tcr_pending *p, bool *done)
{
    struct ucx *u = net->data;
    int code = p->at[0].pointer ? u->ucp_request_check_status(p->at[0].pointer) : UCX_OK;

    *done = code == UCX_OK && p->at[1].pointer != LOST;
    if (code == UCX_IN_PROGRESS || !p->at[0].pointer)
        return TCC_OK;
    u->ucp_request_free(p->at[0].pointer);
    p->at[0].pointer = NULL;
    if (is_ours(code))
        return failed(u, "a message", code);
    if (code)
        p->at[1].pointer = LOST;
    return TCC_OK;
}

static void ucx_cancel(struct tcr_net *net, struct tcr_pending *p)
{
    struct ucx *u = net->data;

    if (p->at[0].pointer) {
        u->ucp_request_cancel(u->worker, p->at[0].pointer);
        u->ucp_request_free(p->at[0].pointer);
    }
    *p = (struct tcr_pending){.at[0].pointer = NULL};
}

const struct tcr_engine tcr_ucx = {.name = "ucx",
                                   .title = "UCX",
                                   .launcher = TCR_LAUNCHER_VARIABLES,
                                   .open = ucx_open,
                                   .close = ucx_close,
                                   .progress = ucx_progress,
                                   .send = ucx_send,
                                   .recv = ucx_recv,
                                   .test = ucx_test,
                                   .cancel = ucx_cancel};
