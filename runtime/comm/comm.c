/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication: the public calls on tensors. Arguments are checked and become operations (struct tcr_coll), one for
 * each run of tensors of one type in a list; a request holds them until they are waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm_int.h"

/* -- Requests ------------------------------------------------------------------------------------------- */

struct tccrt_request {
    int n, room;
    struct tcr_op **ops;
};

int tccrt_comm_test(struct tccrt_request *r, bool *done)
{
    *done = true;
    for (int i = 0; r && i < r->n; i++)
        *done &= tcr_op_done(r->ops[i]);
    return TCC_OK;
}

int tcr_request_wait(struct tccrt_request *r, double *ended)
{
    int status = TCC_OK;

    for (int i = 0; r && i < r->n; i++) {
        int one = tcr_op_finish(r->ops[i], ended);

        status = status ? status : one;
    }
    if (r)
        free(r->ops);
    free(r);
    return status;
}

int tccrt_comm_wait(struct tccrt_request *r)
{
    double ended = 0;

    return tcr_request_wait(r, &ended);
}

static int no_memory(void)
{
    return tcr_fail(TCC_EENV, "no memory for a communication request");
}

static struct tccrt_request *request_new(int room)
{
    struct tccrt_request *r = calloc(1, sizeof *r);

    if (r && !(r->ops = calloc((size_t)room + 1, sizeof *r->ops))) {
        free(r);
        r = NULL;
    }
    if (!r)
        no_memory();
    return r;
}

/* What devices do in the order of their queues is not waited for where nobody asks for it. */
static void detach(struct tccrt_request *r)
{
    for (int i = 0; i < r->n; i++)
        tcr_op_detach(r->ops[i]);
    free(r->ops);
    free(r);
}

/* Hands the request to the caller, or waits for it. */
static int settle(int status, struct tccrt_request *r, struct tccrt_request **request)
{
    if (status) { /* what was started before the failure is waited for: its memory is the caller's */
        char text[512];

        strncpy(text, tccrt_error(), sizeof text - 1);
        text[sizeof text - 1] = 0;
        tccrt_comm_wait(r);
        return tcr_fail(status, "%s", text);
    }
    if (request) {
        *request = r;
        return TCC_OK;
    }
    if (!r->n || !r->ops[0]->c.device)
        return tccrt_comm_wait(r);
    detach(r);
    return TCC_OK;
}

/* -- Arguments ------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {
    "all_reduce",           "broadcast", "reduce",       "all_gather", "reduce_scatter", "all_to_all", "barrier",
    "broadcast_from_owner", "is_owner",  "reduce_owned", "vote",       "send",           "recv",       "NCCL's start"};

const char *tcr_coll_name(int kind)
{
    return kind_names[kind];
}

/* Number of elements; -1 after a message. */
/* here: its data is needed at this rank. */
static int64_t count_some(const char *what, const struct tcc_tensor *t, bool here)
{
    int64_t n = t && t->rank >= 0 && t->rank <= TCC_MAX_RANK ? tcr_elements(t->dtype, t->rank, t->dims) : -1;

    if (n >= 0 && t->dtype != TCC_STRING && (t->data || !n || !here))
        return n;
    tcr_fail(TCC_EINPUT, "%s: a dense tensor of numbers or bools is expected", what);
    return -1;
}

static int64_t count(const char *what, const struct tcc_tensor *t)
{
    return count_some(what, t, true);
}

static int check_root(const struct tccrt_comm *c, const char *what, int root)
{
    return root >= 0 && root < c->size
               ? TCC_OK
               : tcr_fail(TCC_EUSAGE, "%s: rank %d out of range in a group of %d", what, root, c->size);
}

void tcr_coll_free(struct tcr_coll *c)
{
    free(c->in);
    free(c->out);
    free(c->in_first);
    free(c->out_first);
}

/* Starts what has its arrays. Of a group of one: does it; of ranks that are not there nothing is to be had. Without a
 * request that somebody has, what a device does is not waited for. */
static int begin(struct tcr_coll c, struct tccrt_request *r)
{
    const struct tccrt_comm *given = c.c;
    struct tcr_op *op = NULL;
    int status = TCC_OK;

    if (given->device) {
        c.c = given->base;
        c.device = given->device;
        c.peers = given->base->peers;
        c.queue = given->queue;
        c.streamed = given->streamed;
        c.stream = given->stream;
        c.node = given->node;
    }
    if (!given->net || given->size == 1) {
        if (c.device)
            status = tcr_peers_alone(&c);
        else if (given->size == 1)
            tcr_coll_alone(&c);
        tcr_coll_free(&c);
    } else if (!(status = tcr_op_start(&c, &op))) {
        r->ops[r->n++] = op;
    }
    return status;
}

/* An operation on tensors in[n] and out[n] (NULL: none), which all have one type. */
static int start(struct tcr_coll c, int n, const struct tcc_tensor *in, const struct tcc_tensor *out,
                 struct tccrt_request *r)
{
    c.npieces = n;
    c.in = calloc((size_t)n + 1, sizeof *c.in);
    c.out = calloc((size_t)n + 1, sizeof *c.out);
    if (!c.in || !c.out) {
        tcr_coll_free(&c);
        return no_memory();
    }
    for (int i = 0; i < n; i++) {
        const struct tcc_tensor *t = in ? &in[i] : &out[i];
        int64_t elements = tcr_elements(t->dtype, t->rank, t->dims);

        c.in[i] = (struct tcr_piece){in ? in[i].data : NULL, elements};
        c.out[i] = (struct tcr_piece){out ? out[i].data : NULL, elements};
        c.n += elements;
        c.dtype = t->dtype;
    }
    c.size = (size_t)tcr_dtype_bytes(c.dtype);
    return begin(c, r);
}

/* Runs of tensors of one type become operations. */
static int start_list(struct tcr_coll c, int n, const struct tcc_tensor *in, const struct tcc_tensor *out,
                      struct tccrt_request **request)
{
    struct tccrt_request *r = request_new(n);
    int status = r ? TCC_OK : TCC_EENV;

    for (int i = 0, j; !status && i < n; i = j) {
        const struct tcc_tensor *first = in ? in : out;

        for (j = i + 1; j < n && first[j].dtype == first[i].dtype; j++)
            ;
        status = start(c, j - i, in ? in + i : NULL, out ? out + i : NULL, r);
    }
    return settle(status, r, request);
}

static int check_given(const char *what, const struct tccrt_comm *c, int n, const void *in, const void *out)
{
    return c && n >= 0 && (!n || (in && out))
               ? TCC_OK
               : tcr_fail(TCC_EUSAGE, "%s: a group and lists of tensors are required, got NULL", what);
}

static int check_pair(const char *what, int i, const struct tcc_tensor *in, bool in_here, const struct tcc_tensor *out,
                      bool out_here)
{
    int64_t a = count_some(what, in, in_here), b = out ? count_some(what, out, out_here) : a;

    if (a < 0 || b < 0)
        return TCC_EINPUT;
    if (a != b || (out && in->dtype != out->dtype))
        return tcr_fail(TCC_EINPUT, "%s: tensor %d: %lld elements of %s in, %lld of %s out", what, i, (long long)a,
                        tcr_dtype_name(in->dtype), (long long)b, tcr_dtype_name(out->dtype));
    return TCC_OK;
}

static int check_pairs(const char *what, int n, const struct tcc_tensor *in, const struct tcc_tensor *out)
{
    int status = TCC_OK;

    for (int i = 0; i < n && !status; i++)
        status = check_pair(what, i, &in[i], true, out ? &out[i] : NULL, true);
    return status;
}

/* -- Lists of tensors --------------------------------------------------------------------------------------- */

static int reduce(struct tcr_coll c, int n, const struct tcc_tensor *in, const struct tcc_tensor *out,
                  struct tccrt_request **request)
{
    bool result = c.c && (c.kind != TCC_REDUCE || c.c->rank == c.root);
    int status = check_given(kind_names[c.kind], c.c, n, in, result ? out : in);

    if (!status)
        status = check_pairs(kind_names[c.kind], n, in, result ? out : NULL);

    if (!status)
        status = check_root(c.c, kind_names[c.kind], c.root);
    for (int i = 0; !status && i < n; i++)
        status = tcr_reduction_check(in[i].dtype, c.how, c.scale);
    return status ? status : start_list(c, n, in, result ? out : NULL, request);
}

int tccrt_comm_all_reduce(struct tccrt_comm *c, int reduction, double scale, int n, const struct tcc_tensor *in,
                          const struct tcc_tensor *out, struct tccrt_request **request)
{
    tcr_clear_error();
    return reduce((struct tcr_coll){.kind = TCC_ALL_REDUCE, .c = c, .how = reduction, .scale = scale}, n, in, out,
                  request);
}

int tccrt_comm_reduce(struct tccrt_comm *c, int reduction, double scale, int root, int n, const struct tcc_tensor *in,
                      const struct tcc_tensor *out, struct tccrt_request **request)
{
    tcr_clear_error();
    return reduce((struct tcr_coll){.kind = TCC_REDUCE, .c = c, .how = reduction, .scale = scale, .root = root}, n, in,
                  out, request);
}

int tccrt_comm_broadcast(struct tccrt_comm *c, int root, int n, const struct tcc_tensor *tensors,
                         struct tccrt_request **request)
{
    int status;

    tcr_clear_error();
    if ((status = check_given("broadcast", c, n, tensors, tensors)) ||
        (status = check_pairs("broadcast", n, tensors, NULL)) || (status = check_root(c, "broadcast", root)))
        return status;
    return start_list((struct tcr_coll){.kind = TCC_BROADCAST, .c = c, .root = root, .scale = 1}, n, tensors, tensors,
                      request);
}

/* -- Lists that are divided among the ranks ------------------------------------------------------------------------ */

static int64_t bytes_of(const struct tcc_tensor *t)
{
    return tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype);
}

/* Gradients come about in the order from the last to the first, so that neighbours, which are reduced together, have
 * all ranks for owners. */
int tcr_owners(const struct tccrt_comm *c, int n, const int64_t *bytes, int *owners)
{
    int64_t *load = calloc((size_t)c->size, sizeof *load);

    if (!load)
        return no_memory();
    for (int i = n - 1; i >= 0; i--) {
        int least = 0;

        for (int r = 1; r < c->size; r++)
            least = load[r] < load[least] ? r : least;
        owners[i] = least;
        load[least] += bytes[i];
    }
    free(load);
    return TCC_OK;
}

static int tcr_list_owners(const struct tccrt_comm *c, int n, const struct tcc_tensor *list, int *owners)
{
    int64_t *bytes = calloc((size_t)n + 1, sizeof *bytes);
    int status = bytes ? TCC_OK : no_memory();

    for (int i = 0; i < n && bytes; i++)
        bytes[i] = bytes_of(&list[i]);
    status = status ? status : tcr_owners(c, n, bytes, owners);
    free(bytes);
    return status;
}

/* A list sorted by type, then owner. */
struct sorted {
    struct tcc_tensor *in, *out;
    int *owners;
    int n;
};

static void sorted_free(struct sorted *s)
{
    free(s->in);
    free(s->out);
    free(s->owners);
}

static int sort_list(const struct tccrt_comm *c, int n, const struct tcc_tensor *in, const struct tcc_tensor *out,
                     const int *owners, struct sorted *s)
{
    *s = (struct sorted){.in = calloc((size_t)n + 1, sizeof *in),
                         .out = calloc((size_t)n + 1, sizeof *out),
                         .owners = calloc((size_t)n + 1, sizeof *owners)};
    if (!s->in || !s->out || !s->owners) {
        sorted_free(s);
        return no_memory();
    }
    for (int type = 0; type < TCC_NDTYPES; type++)
        for (int r = 0; r < c->size; r++)
            for (int i = 0; i < n; i++)
                if (in[i].dtype == type && owners[i] == r) {
                    s->in[s->n] = in[i];
                    s->out[s->n] = out[i];
                    s->owners[s->n++] = r;
                }
    return TCC_OK;
}

static int member_owners(const struct tccrt_comm *c, const struct tcr_members *m, int *owners)
{
    int *all = calloc((size_t)m->nall + 1, sizeof *all), status = all ? TCC_OK : no_memory();

    if (!status)
        status = tcr_owners(c, m->nall, m->bytes, all);
    for (int i = 0; i < m->n && !status; i++)
        owners[i] = all[m->at[i]];
    free(all);
    return status;
}

int tcr_comm_share(struct tccrt_comm *c, int n, const struct tcr_members *m, const struct tcc_tensor *in,
                   const struct tcc_tensor *out, struct tccrt_request **request)
{
    struct tccrt_request *r = request_new(n);
    int *owners = calloc((size_t)n + 1, sizeof *owners), status = r && owners ? TCC_OK : no_memory();
    struct sorted s = {0};

    tcr_clear_error();
    if (!status)
        status = m ? member_owners(c, m, owners) : tcr_list_owners(c, n, out, owners);
    for (int i = 0; i < n && !status; i++) /* in: the owner's alone */
        status = check_pair("broadcast_from_owner", i, &in[i], owners[i] == c->rank, &out[i], true);
    for (int i = 0; i < n && !status; i++)
        if (owners[i] == c->rank)
            status = tcr_comm_copy(c->device, c->queue, out[i].data, in[i].data, (size_t)bytes_of(&in[i]));
    status = status ? status : sort_list(c, n, in, out, owners, &s);
    for (int i = 0, j; i < s.n && !status; i = j) {
        for (j = i + 1; j < n && s.owners[j] == s.owners[i] && s.out[j].dtype == s.out[i].dtype; j++)
            ;
        status = start((struct tcr_coll){.kind = TCC_BROADCAST, .c = c, .root = s.owners[i], .scale = 1}, j - i,
                       s.out + i, s.out + i, r);
    }
    sorted_free(&s);
    free(owners);
    return settle(status, r, request);
}

/* Tensors of one type, sorted by owner: a rank's range is what it owns. */
static int reduce_sorted(struct tcr_coll k, int n, const struct tcc_tensor *in, const struct tcc_tensor *out,
                         const int *owners, struct tccrt_request *r)
{
    k.in_first = calloc((size_t)k.c->size + 1, sizeof *k.in_first);
    if (!k.in_first)
        return no_memory();
    for (int i = 0; i < n; i++)
        k.in_first[owners[i] + 1] += tcr_elements(in[i].dtype, in[i].rank, in[i].dims);
    for (int i = 0; i < k.c->size; i++)
        k.in_first[i + 1] += k.in_first[i];
    return start(k, n, in, out, r);
}

int tcr_comm_reduce_owned(struct tccrt_comm *c, int how, double scale, const struct tcr_members *m,
                          const struct tcc_tensor *in, const struct tcc_tensor *out, struct tccrt_request **request)
{
    struct tccrt_request *r = request_new(m->n);
    int *owners = calloc((size_t)m->n + 1, sizeof *owners);
    int status = r && owners ? TCC_OK : no_memory();
    struct sorted s = {0};

    tcr_clear_error();
    if (!status)
        status = member_owners(c, m, owners);
    for (int i = 0; i < m->n && !status; i++) {
        status = check_pair("reduce_owned", i, &in[i], true, &out[i], owners[i] == c->rank);
        status = status ? status : tcr_reduction_check(in[i].dtype, how, scale);
    }
    status = status ? status : sort_list(c, m->n, in, out, owners, &s);
    for (int i = 0, j; i < s.n && !status; i = j) {
        for (j = i + 1; j < s.n && s.in[j].dtype == s.in[i].dtype; j++)
            ;
        status = reduce_sorted((struct tcr_coll){.kind = TCC_REDUCE_OWNED, .c = c, .how = how, .scale = scale}, j - i,
                               s.in + i, s.out + i, s.owners + i, r);
    }
    sorted_free(&s);
    free(owners);
    return settle(status, r, request);
}

/* -- Parts -------------------------------------------------------------------------------------------------- */

/* Where each rank's part begins, in the elements of `whole`; NULL after a message. mine: this rank's part; NULL: it has
 * none of its own. */
static int64_t *parts(const struct tccrt_comm *c, const char *what, const int64_t *counts,
                      const struct tcc_tensor *whole, const struct tcc_tensor *mine)
{
    int64_t total = tcr_elements(whole->dtype, whole->rank, whole->dims),
            *first = calloc((size_t)c->size + 1, sizeof *first);
    int status = first ? TCC_OK : no_memory();

    if (!status && !counts && total % c->size)
        status = tcr_fail(TCC_EINPUT, "%s: %lld elements cannot be cut into %d equal parts", what, (long long)total,
                          c->size);
    for (int i = 0; i < c->size && !status; i++) {
        int64_t n = counts ? counts[i] : total / c->size;

        if (n < 0 || __builtin_add_overflow(first[i], n, &first[i + 1]) || first[i + 1] > total)
            status = tcr_fail(TCC_EINPUT, "%s: the parts of ranks 0 to %d don't fit %lld elements", what, i,
                              (long long)total);
    }
    if (!status && first[c->size] != total)
        status = tcr_fail(TCC_EINPUT, "%s: the parts have %lld elements, the tensor %lld", what,
                          (long long)first[c->size], (long long)total);
    if (!status && mine) {
        int64_t want = first[c->rank + 1] - first[c->rank], n = tcr_elements(mine->dtype, mine->rank, mine->dims);

        if (n != want)
            status = tcr_fail(TCC_EINPUT, "%s: rank %d's part has %lld elements, its tensor %lld", what, c->rank,
                              (long long)want, (long long)n);
    }
    if (!status)
        return first;
    free(first);
    return NULL;
}

/* One tensor in, one out, of sizes that differ. */
static int start_parts(struct tcr_coll c, const struct tcc_tensor *in, const struct tcc_tensor *out,
                       struct tccrt_request **request)
{
    struct tccrt_request *r = request_new(1);

    c.npieces = 1;
    c.in = calloc(1, sizeof *c.in);
    c.out = calloc(1, sizeof *c.out);
    if (!r || !c.in || !c.out) {
        tcr_coll_free(&c);
        return settle(no_memory(), r, request);
    }
    *c.in = (struct tcr_piece){in->data, tcr_elements(in->dtype, in->rank, in->dims)};
    *c.out = (struct tcr_piece){out->data, tcr_elements(out->dtype, out->rank, out->dims)};
    c.n = c.in->n > c.out->n ? c.in->n : c.out->n;
    c.dtype = in->dtype;
    c.size = (size_t)tcr_dtype_bytes(c.dtype);
    return settle(begin(c, r), r, request);
}

static int check_types(const char *what, const struct tcc_tensor *in, const struct tcc_tensor *out)
{
    if (count(what, in) < 0 || count(what, out) < 0)
        return TCC_EINPUT;
    return in->dtype == out->dtype
               ? TCC_OK
               : tcr_fail(TCC_EINPUT, "%s: %s in, %s out", what, tcr_dtype_name(in->dtype), tcr_dtype_name(out->dtype));
}

int tccrt_comm_all_gather(struct tccrt_comm *c, const struct tcc_tensor *in, const struct tcc_tensor *out,
                          const int64_t *counts, struct tccrt_request **request)
{
    struct tcr_coll k = {.kind = TCC_ALL_GATHER, .c = c, .scale = 1};
    int status;

    tcr_clear_error();
    if ((status = check_given("all_gather", c, 1, in, out)) || (status = check_types("all_gather", in, out)))
        return status;
    k.out_first = parts(c, "all_gather", counts, out, in);
    return k.out_first ? start_parts(k, in, out, request) : TCC_EINPUT;
}

int tccrt_comm_reduce_scatter(struct tccrt_comm *c, int reduction, double scale, const struct tcc_tensor *in,
                              const struct tcc_tensor *out, const int64_t *counts, struct tccrt_request **request)
{
    struct tcr_coll k = {.kind = TCC_REDUCE_SCATTER, .c = c, .how = reduction, .scale = scale};
    int status;

    tcr_clear_error();
    if ((status = check_given("reduce_scatter", c, 1, in, out)) || (status = check_types("reduce_scatter", in, out)) ||
        (status = tcr_reduction_check(in->dtype, reduction, scale)))
        return status;
    k.in_first = parts(c, "reduce_scatter", counts, in, out);
    return k.in_first ? start_parts(k, in, out, request) : TCC_EINPUT;
}

int tccrt_comm_all_to_all(struct tccrt_comm *c, const struct tcc_tensor *in, const int64_t *in_counts,
                          const struct tcc_tensor *out, const int64_t *out_counts, struct tccrt_request **request)
{
    struct tcr_coll k = {.kind = TCC_ALL_TO_ALL, .c = c, .scale = 1};
    int status;

    tcr_clear_error();
    if ((status = check_given("all_to_all", c, 1, in, out)) || (status = check_types("all_to_all", in, out)))
        return status;
    k.in_first = parts(c, "all_to_all", in_counts, in, NULL);
    k.out_first = k.in_first ? parts(c, "all_to_all", out_counts, out, NULL) : NULL;
    if (!k.out_first) {
        free(k.in_first);
        return TCC_EINPUT;
    }
    if (k.in_first[c->rank + 1] - k.in_first[c->rank] != k.out_first[c->rank + 1] - k.out_first[c->rank]) {
        tcr_coll_free(&k);
        return tcr_fail(TCC_EINPUT, "all_to_all: rank %d's part for itself has different sizes in and out", c->rank);
    }
    return start_parts(k, in, out, request);
}

/* -- Messages ------------------------------------------------------------------------------------------------- */

static int message(int kind, struct tccrt_comm *c, int peer, int tag, const struct tcc_tensor *t,
                   struct tccrt_request **request)
{
    struct tcr_coll k = {.kind = kind, .c = c, .root = peer, .tag = tag, .scale = 1};
    int status = check_given(kind_names[kind], c, 1, t, t);

    if (!status)
        status = check_root(c, kind_names[kind], peer);
    if (status || count(kind_names[kind], t) < 0)
        return status ? status : TCC_EINPUT;
    if (peer == c->rank)
        return tcr_fail(TCC_EUSAGE, "%s: rank %d is this one", kind_names[kind], peer);
    if (tag < 0 || tag >= 1 << TCR_POINT_BITS)
        return tcr_fail(TCC_EUSAGE, "%s: tag %d is not in [0, %d)", kind_names[kind], tag, 1 << TCR_POINT_BITS);
    return start_list(k, 1, kind == TCR_SEND ? t : NULL, kind == TCR_SEND ? NULL : t, request);
}

int tccrt_comm_send(struct tccrt_comm *c, int to, int tag, const struct tcc_tensor *t, struct tccrt_request **request)
{
    tcr_clear_error();
    return message(TCR_SEND, c, to, tag, t, request);
}

int tccrt_comm_recv(struct tccrt_comm *c, int from, int tag, const struct tcc_tensor *t, struct tccrt_request **request)
{
    tcr_clear_error();
    return message(TCR_RECV, c, from, tag, t, request);
}

int tccrt_comm_barrier(struct tccrt_comm *c, struct tccrt_request **request)
{
    struct tcc_tensor none = {.dtype = TCC_U8, .rank = 1};

    tcr_clear_error();
    c = tcr_hosts(c);
    if (!c)
        return check_given("barrier", c, 0, NULL, NULL);
    return start_list((struct tcr_coll){.kind = TCC_BARRIER, .c = c, .scale = 1}, 1, &none, &none, request);
}
