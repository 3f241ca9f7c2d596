/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of tests/dist/collectives.c on memory of a device: with COLLECTIVES_DEVICE (a device's name) set, each
 * tensor is brought to the device, the call is made in a group on it, and what it wrote is brought back. Every other
 * call has no request, and the stream is waited for. With COLLECTIVES_EXACT set, reductions are done between the hosts,
 * too, and all bits must be the same. The driver is the simulator's, or libcuda.so.1.
 */
#ifndef TEST_ON_DEVICE_H
#define TEST_ON_DEVICE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tccrt.h"

#define ON static __attribute__((unused)) /* not every program makes every call */

static const char *on_device; /* NULL: on the hosts */
static int on_exact;
static long on_calls, on_differ;
static struct { struct tccrt_comm *host, *there; } on_groups[16];
static struct {
    int (*init)(unsigned flags), (*get)(int *device, int ordinal), (*retain)(void **ctx, int device), (*set)(void *ctx);
    int (*alloc)(uint64_t *at, size_t bytes), (*free)(uint64_t at), (*in)(uint64_t to, const void *from, size_t bytes),
        (*out)(void *to, uint64_t from, size_t bytes);
    int (*sync)(void *stream), (*count)(int *n), (*state)(int device, unsigned *flags, int *active);
} on_driver;

ON void on_need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", what, tccrt_error());
    exit(9);
}

/* Devices that this process has a context on. */
ON int on_contexts(void)
{
    int n = 0, found = 0, active;
    unsigned flags;

    on_need(!on_driver.count(&n), "the devices");
    for (int k = 0; k < n; k++)
        found += !on_driver.state(k, &flags, &active) && active;
    return found;
}

/* The number that the name has for this rank: of a list its own. */
ON int on_ordinal(int rank)
{
    const char *at = strchr(on_device, ':');

    for (int k = 0; at && k < rank && strchr(at + 1, ','); k++)
        at = strchr(at + 1, ',');
    return at ? atoi(at + 1) : rank;
}

ON void on_begin(int rank)
{
    static const char *const names[] = {"cuInit",        "cuDeviceGet",  "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
        "cuMemAlloc_v2",
                                        "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
                                            "cuStreamSynchronize", "cuDeviceGetCount", "cuDevicePrimaryCtxGetState"};
    void **at = (void **)&on_driver, *ctx, *library;
    int device;

    on_device = getenv("COLLECTIVES_DEVICE");
    on_exact = getenv("COLLECTIVES_EXACT") != NULL;
    if (!on_device)
        return;
    library = dlopen(strncmp(on_device, "sim", 3) ? "libcuda.so.1" : "libtccptx.so.0", RTLD_NOW);
    on_need(library != NULL, "the driver");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        on_need((at[i] = dlsym(library, names[i])) != NULL, names[i]);
    on_need(!on_driver.init(0) && !on_driver.get(&device, on_ordinal(rank)) && !on_driver.retain(&ctx, device)
            && !on_driver.set(ctx), "the device");
}

ON struct tccrt_comm *on_group(struct tccrt_comm *c)
{
    int i = 0;

    while (on_groups[i].host && on_groups[i].host != c)
        i++;
    if (!on_groups[i].host) {
        on_groups[i].host = c;
        on_need(!tccrt_comm_device(c, on_device, NULL, &on_groups[i].there), "tccrt_comm_device");
    }
    return on_groups[i].there;
}

ON void on_leave(struct tccrt_comm *c)
{
    int i = 0;

    while (on_groups[i].host && on_groups[i].host != c)
        i++;
    if (!on_groups[i].host)
        return;
    tccrt_comm_free(on_groups[i].there);
    for (; on_groups[i].host; i++)
        on_groups[i] = on_groups[i + 1];
}

ON size_t on_bytes(const struct tcc_tensor *t)
{
    static const int sizes[] = {
#define X(id, n, name, bytes, class) [TCC_##id] = bytes,
        TCC_DTYPES(X)
#undef X
    };
    size_t n = (size_t)sizes[t->dtype];

    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return t->data ? n : 0;
}

/* Tensors of a call, there. */
struct on_call { struct tcc_tensor at[24]; void *host[24]; size_t bytes[24]; int n; };

ON struct tcc_tensor *on_bring(struct on_call *k, int n, const struct tcc_tensor *list)
{
    struct tcc_tensor *first = &k->at[k->n];

    for (int i = 0; i < n; i++, k->n++) {
        size_t bytes = on_bytes(&list[i]);
        uint64_t at = 0;

        k->at[k->n] = list[i];
        k->host[k->n] = list[i].data;
        k->bytes[k->n] = bytes;
        for (int j = 0; j < k->n; j++)
            if (k->host[j] == list[i].data && k->bytes[j] == bytes)
                at = (uint64_t)(uintptr_t)k->at[j].data; /* in place */
        if (!at && list[i].data)
            on_need(!on_driver.alloc(&at, bytes + 64) && (!bytes || !on_driver.in(at, list[i].data, bytes)), "memory");
        k->at[k->n].data = (void *)(uintptr_t)at;
    }
    return first;
}

ON struct tccrt_request **on_request(struct tccrt_request **r)
{
    return on_calls++ % 2 ? r : NULL;
}

ON int on_end(struct on_call *k, int status, struct tccrt_request *r, struct tccrt_request **given)
{
    if (!status)
        status = tccrt_comm_wait(r);
    if (!status)
        on_need(!on_driver.sync(NULL), "the stream");
    for (int i = 0; i < k->n; i++) {
        if (!status && k->bytes[i])
            on_need(!on_driver.out(k->host[i], (uint64_t)(uintptr_t)k->at[i].data, k->bytes[i]), "memory");
    }
    for (int i = 0; i < k->n; i++) {
        bool again = !k->at[i].data;

        for (int j = 0; j < i; j++)
            again |= k->at[j].data == k->at[i].data;
        if (!again)
            on_driver.free((uint64_t)(uintptr_t)k->at[i].data);
    }
    if (given)
        *given = NULL;
    return status;
}

/* Are they what the hosts have made of the same input? */
ON void on_compare(int status, const struct tcc_tensor *out, const void *made)
{
    if (!status && memcmp(out->data, made, on_bytes(out)))
        on_differ++;
}

ON int on_all_reduce(struct tccrt_comm *c, int how, double scale, int n, const struct tcc_tensor *in,
                     const struct tcc_tensor *out,
                         struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    struct tcc_tensor *i, *o, host = *out;
    int status;

    if (!on_device)
        return tccrt_comm_all_reduce(c, how, scale, n, in, out, request);
    if (on_exact && n == 1 && on_bytes(out)) {
        host.data = malloc(on_bytes(out));
        tccrt_comm_all_reduce(c, how, scale, 1, in, &host, NULL);
    }
    i = on_bring(&k, n, in);
    o = on_bring(&k, n, out);
    status = tccrt_comm_all_reduce(on_group(c), how, scale, n, i, o, on_request(&r));
    status = on_end(&k, status, r, request);
    if (on_exact && n == 1 && on_bytes(out)) {
        on_compare(status, out, host.data);
        free(host.data);
    }
    return status;
}

ON int on_reduce(struct tccrt_comm *c, int how, double scale, int root, int n, const struct tcc_tensor *in,
                 const struct tcc_tensor *out,
                     struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    int status;
    struct tcc_tensor *i, *o;

    if (!on_device)
        return tccrt_comm_reduce(c, how, scale, root, n, in, out, request);
    i = on_bring(&k, n, in);
    o = on_bring(&k, n, out);
    status = tccrt_comm_reduce(on_group(c), how, scale, root, n, i, o, on_request(&r));
    return on_end(&k, status, r, request);
}

ON int on_broadcast(struct tccrt_comm *c, int root, int n, const struct tcc_tensor *t, struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    int status;
    struct tcc_tensor *i;

    if (!on_device)
        return tccrt_comm_broadcast(c, root, n, t, request);
    i = on_bring(&k, n, t);
    status = tccrt_comm_broadcast(on_group(c), root, n, i, on_request(&r));
    return on_end(&k, status, r, request);
}

ON int on_all_gather(struct tccrt_comm *c, const struct tcc_tensor *in, const struct tcc_tensor *out,
                     const int64_t *counts,
                         struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    int status;
    struct tcc_tensor *i, *o;

    if (!on_device)
        return tccrt_comm_all_gather(c, in, out, counts, request);
    i = on_bring(&k, 1, in);
    o = on_bring(&k, 1, out);
    status = tccrt_comm_all_gather(on_group(c), i, o, counts, on_request(&r));
    return on_end(&k, status, r, request);
}

ON int on_reduce_scatter(struct tccrt_comm *c, int how, double scale, const struct tcc_tensor *in,
                         const struct tcc_tensor *out,
                             const int64_t *counts, struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    struct tcc_tensor *i, *o, host = *out;
    int status;

    if (!on_device)
        return tccrt_comm_reduce_scatter(c, how, scale, in, out, counts, request);
    host.data = calloc(1, on_bytes(out) + 1);
    if (on_exact)
        tccrt_comm_reduce_scatter(c, how, scale, in, &host, counts, NULL);
    i = on_bring(&k, 1, in);
    o = on_bring(&k, 1, out);
    status = tccrt_comm_reduce_scatter(on_group(c), how, scale, i, o, counts, on_request(&r));
    status = on_end(&k, status, r, request);
    if (on_exact)
        on_compare(status, out, host.data);
    free(host.data);
    return status;
}

ON int on_all_to_all(struct tccrt_comm *c, const struct tcc_tensor *in, const int64_t *in_counts,
                     const struct tcc_tensor *out,
                         const int64_t *out_counts, struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    int status;
    struct tcc_tensor *i, *o;

    if (!on_device)
        return tccrt_comm_all_to_all(c, in, in_counts, out, out_counts, request);
    i = on_bring(&k, 1, in);
    o = on_bring(&k, 1, out);
    status = tccrt_comm_all_to_all(on_group(c), i, in_counts, o, out_counts, on_request(&r));
    return on_end(&k, status, r, request);
}

ON int on_message(bool send, struct tccrt_comm *c, int peer, int tag, const struct tcc_tensor *t,
                  struct tccrt_request **request)
{
    struct on_call k = {.n = 0};
    struct tccrt_request *r = NULL;
    int status;
    struct tcc_tensor *i;

    if (!on_device)
        return (send ? tccrt_comm_send : tccrt_comm_recv)(c, peer, tag, t, request);
    i = on_bring(&k, 1, t);
    status = (send ? tccrt_comm_send : tccrt_comm_recv)(on_group(c), peer, tag, i, on_request(&r));
    return on_end(&k, status, r, request);
}

ON void on_free(struct tccrt_comm *c)
{
    on_leave(c);
    tccrt_comm_free(c);
}

ON int on_finalize(struct tccrt_comm *world, const char *why)
{
    while (on_groups[0].host)
        on_leave(on_groups[0].host);
    return tccrt_comm_finalize(world, why);
}

#define tccrt_comm_finalize on_finalize
#define tccrt_comm_all_reduce on_all_reduce
#define tccrt_comm_reduce on_reduce
#define tccrt_comm_broadcast on_broadcast
#define tccrt_comm_all_gather on_all_gather
#define tccrt_comm_reduce_scatter on_reduce_scatter
#define tccrt_comm_all_to_all on_all_to_all
#define tccrt_comm_send(...) on_message(true, __VA_ARGS__)
#define tccrt_comm_recv(...) on_message(false, __VA_ARGS__)
#define tccrt_comm_free on_free

#endif
