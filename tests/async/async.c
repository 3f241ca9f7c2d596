/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that are only given, on one device: async MODEL DEVICE. The model (tests/async.tap) is main(x: f32[N,64], i:
 * i64[N]) -> y = x[i] + s, which leaves the largest of each column of y in s; values are whole numbers, so that every
 * device has the same.
 */
#include "runtime/tccrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 48, W = 64, RUNS = 20 };
static int number, bad;
static const char *device;
static struct tccrt_model *model;

static void result(const char *what, int ok)
{
    number++;
    bad += !ok;
    printf("%s %d - %s: %s\n", ok ? "ok" : "not ok", number, device, what);
    if (!ok)
        printf("# %s\n", tccrt_error());
    fflush(stdout);
}
static int says(int status, int want, const char *text)
{
    return status == want && strstr(tccrt_error(), text) != NULL;
}

struct call {
    float x[N][W], y[N][W];
    int64_t i[N];
};
static _Alignas(64) struct call calls[RUNS];
static float wanted[RUNS][N][W], states[RUNS][W], behind[RUNS][W]; /* behind: what a session says that the state is */

static void fill(void)
{
    float s[W] = {0};

    for (int r = 0; r < RUNS; r++) {
        memset(calls[r].y, 0, sizeof calls[r].y);
        for (int n = 0; n < N; n++) {
            calls[r].i[n] = (n * 7 + r) % N;
            for (int w = 0; w < W; w++)
                calls[r].x[n][w] = (float)((n * 13 + w * 5 + r) % 11);
        }
        for (int w = 0; w < W; w++) {
            float most = -1;

            for (int n = 0; n < N; n++) {
                wanted[r][n][w] = calls[r].x[calls[r].i[n]][w] + s[w];
                most = wanted[r][n][w] > most ? wanted[r][n][w] : most;
            }
            s[w] = most;
        }
        memcpy(states[r], s, sizeof s);
    }
}

static struct tccrt_session *open_with(const struct tccrt_device_allocator *a)
{
    struct tccrt_options o = {.threads = 2, .device = device, .device_allocator = a};
    struct tccrt_session *s = NULL;

    if (tccrt_session_new(model, &o, &s)) {
        printf("Bail out! %s\n", tccrt_error());
        exit(1);
    }
    return s;
}

static int give(struct tccrt_session *s, void *x, void *i, void *y, const struct tccrt_async *how, int64_t *ticket)
{
    struct tcc_tensor in[2] = {{x, TCC_F32, 2, {N, W}}, {i, TCC_I64, 1, {N}}}, out = {y, TCC_F32, 2, {N, W}};

    return tccrt_run_async(s, NULL, 2, in, 1, &out, how, ticket);
}

static int equal(const float (*y)[W], int run)
{
    return !memcmp(y, wanted[run], sizeof wanted[run]);
}

/* Many runs under way, from and to the host. */
static void many(void)
{
    struct tccrt_session *s = open_with(NULL);
    int64_t ticket = 0;
    int ok = 1;

    for (int r = 0; r < RUNS && ok; r++)
        ok = !give(s, calls[r].x, calls[r].i, calls[r].y, NULL, &ticket) && ticket == r + 1 &&
             tccrt_under_way(s) == (strcmp(device, "cpu") ? r < 8 ? r + 1 : 8 : 0) &&
             !tccrt_state_behind(s, "s", behind[r]);
    ok = ok && !tccrt_wait(s, RUNS - 5) && equal((void *)calls[RUNS - 6].y, RUNS - 6) &&
         !memcmp(behind[RUNS - 6], states[RUNS - 6], sizeof *states) &&
         tccrt_under_way(s) == (strcmp(device, "cpu") ? 5 : 0) && !tccrt_wait(s, 0);
    for (int r = 0; r < RUNS; r++)
        ok = ok && equal((void *)calls[r].y, r);
    result("runs behind each other", ok);
    result("the state behind each", ok && !memcmp(behind, states, sizeof states));
    result("a variable that there isn't",
           says(tccrt_state_behind(s, "t", behind[0]), TCC_EUSAGE, "has no state variable 't'"));
    result("a run that was not given", says(tccrt_wait(s, RUNS + 1), TCC_EUSAGE, "has been given 20 runs"));
    tccrt_session_free(s);
}

/* By tccrt_run_many(), and with calls that wait in between. */
static void mixed(void)
{
    struct tccrt_session *s = open_with(NULL);
    struct tcc_tensor in[RUNS * 2], out[RUNS], t;
    int64_t done = 0, runs;
    int ok;

    for (int r = 0; r < RUNS; r++) {
        in[2 * r] = (struct tcc_tensor){calls[r].x, TCC_F32, 2, {N, W}};
        in[2 * r + 1] = (struct tcc_tensor){calls[r].i, TCC_I64, 1, {N}};
        out[r] = (struct tcc_tensor){calls[r].y, TCC_F32, 2, {N, W}};
        memset(calls[r].y, 0, sizeof calls[r].y);
    }
    ok = !tccrt_run_many(s, NULL, 10, 2, in, 1, out, &done) && done == 10;
    ok = ok && !tccrt_run_async(s, NULL, 2, in + 20, 1, out + 10, NULL, NULL);
    ok = ok && !tccrt_state_get(s, "s", &t) && ((float *)t.data)[0] > 10;
    ok = ok && !tccrt_run_async(s, NULL, 2, in + 22, 1, out + 11, NULL, NULL);
    ok = ok && !tccrt_run(s, NULL, 2, in + 24, 1, out + 12);
    tccrt_random_get(s, NULL, &runs);
    for (int r = 0; r < 13; r++)
        ok = ok && equal((void *)calls[r].y, r);
    result("calls that wait in between", ok && runs == 13);
    in[2 * 15].dims[1] = W + 1;
    ok = says(tccrt_run_many(s, NULL, 6, 2, in + 26, 1, out + 13, &done), TCC_EINPUT, "");
    tccrt_random_get(s, NULL, &runs);
    result("runs that ended well are counted where one can't begin", ok && done == 2 && runs == 15);
    tccrt_session_free(s);
}

/* Inputs and outputs in the device's memory; where they are not aligned, by a copy. */
static void zero_copy(void)
{
    struct tccrt_session *s = open_with(NULL);
    bool in_there[2] = {true, false}, out_there = true;
    struct tccrt_async how = {.in_on_device = in_there, .out_on_device = &out_there};
    size_t bytes = sizeof calls[0].x, room = RUNS * (bytes + 64);
    char *x = tccrt_device_alloc(s, room), *y = tccrt_device_alloc(s, room);
    int ok = x && y;

    for (int r = 0; r < RUNS && ok; r++) {
        size_t at = (size_t)r * (bytes + 64) + (r % 3 == 2 ? 4 : 0);

        memset(calls[r].y, 0, bytes);
        ok = !tccrt_device_copy(s, true, x + at, false, calls[r].x, bytes) &&
             !give(s, x + at, calls[r].i, y + at, &how, NULL);
    }
    ok = ok && !tccrt_wait(s, 0);
    for (int r = 0; r < RUNS && ok; r++) {
        size_t at = (size_t)r * (bytes + 64) + (r % 3 == 2 ? 4 : 0);

        ok = !tccrt_device_copy(s, false, calls[r].y, true, y + at, bytes) && equal((void *)calls[r].y, r);
    }
    result("inputs and outputs on the device", ok);
    /* From run to run without the host: y of one is x of the next. */
    int64_t same[N];
    for (int n = 0; n < N; n++)
        same[n] = n;
    tccrt_state_reset(s, NULL);
    ok = !tccrt_device_copy(s, true, x, false, calls[0].x, bytes);
    for (int r = 0; r < 6 && ok; r++)
        ok = !give(s, r % 2 ? y : x, same, r % 2 ? x : y, &how, NULL);
    ok = ok && !tccrt_device_copy(s, false, calls[0].y, true, x, bytes);
    for (int w = 0; w < W && ok; w++) {
        float state = 0, col[N];

        for (int n = 0; n < N; n++)
            col[n] = calls[0].x[n][w];
        for (int r = 0; r < 6; r++) {
            float most = -1;

            for (int n = 0; n < N; n++) {
                col[n] += state;
                most = col[n] > most ? col[n] : most;
            }
            state = most;
        }
        for (int n = 0; n < N; n++)
            ok = ok && col[n] == calls[0].y[n][w];
    }
    result("from run to run on the device", ok);
    in_there[0] = false;
    result("memory on the device that isn't given",
           says(give(s, calls[0].x, calls[0].i, NULL, &how, NULL), TCC_EUSAGE, "its memory on the device is required"));
    tccrt_device_free(s, x, room);
    tccrt_device_free(s, y, room);
    tccrt_session_free(s);
}

/* What a run would give, also while others are under way. */
static void shapes(void)
{
    struct tccrt_session *s = open_with(NULL);
    struct tcc_tensor in[2] = {{calls[0].x, TCC_F32, 2, {N, W}}, {calls[0].i, TCC_I64, 1, {N}}},
                      out = {&out, 0, 0, {0}};
    int ok = !give(s, calls[0].x, calls[0].i, calls[0].y, NULL, NULL) && !tccrt_output_shapes(s, NULL, 2, in, 1, &out);

    result("a result's shape before the run",
           ok && !out.data && out.dtype == TCC_F32 && out.rank == 2 && out.dims[0] == N && out.dims[1] == W);
    in[1].dims[0] = N - 1;
    result("inputs whose sizes differ have none",
           says(tccrt_output_shapes(s, NULL, 2, in, 1, &out), TCC_EINPUT, "input 'i'"));
    result("another number of them", says(tccrt_output_shapes(s, NULL, 1, in, 1, &out), TCC_EINPUT, "has 2 inputs"));
    result("no session", says(tccrt_output_shapes(NULL, NULL, 2, in, 1, &out), TCC_EUSAGE, "a session is required"));
    result("the run that was under way", !tccrt_wait(s, 0) && equal((void *)calls[0].y, 0));
    tccrt_session_free(s);
}

/* A bad index in run 3 of 6: it comes from the wait, what is behind it does nothing, the session goes on where it
 * was. */
static void faults(void)
{
    struct tccrt_session *s = open_with(NULL);
    bool at_once = !strcmp(device, "cpu");
    int64_t good = calls[3].i[5], tickets[6] = {0}, runs = -1;
    int ok = 1, status;
    const char *bad_index = "index 48 is outside an axis of 48"; /* N of N */

    calls[3].i[5] = N;
    for (int r = 0; r < 6; r++) {
        memset(calls[r].y, 0, sizeof calls[r].y);
        status = give(s, calls[r].x, calls[r].i, calls[r].y, NULL, &tickets[r]);
        if (at_once && r == 3) {
            result("a bad index", says(status, TCC_EINDEX, bad_index));
            calls[3].i[5] = good;
            break;
        }
        ok = ok && !status;
    }
    if (!at_once) {
        ok = ok && !tccrt_wait(s, tickets[2]) && equal((void *)calls[2].y, 2);
        result("a run before the one that fails", ok);
        result("a bad index", says(tccrt_wait(s, tickets[4]), TCC_EINDEX, bad_index));
        result("it is reported once", !tccrt_wait(s, 0));
    }
    tccrt_random_get(s, NULL, &runs);
    calls[3].i[5] = good;
    if (runs != 3)
        printf("# %lld runs\n", (long long)runs);
    ok = runs == 3;
    for (int r = 3; r < 8; r++)
        ok = ok && !give(s, calls[r].x, calls[r].i, calls[r].y, NULL, NULL);
    ok = ok && !tccrt_wait(s, 0);
    for (int r = 0; r < 8; r++)
        if (!equal((void *)calls[r].y, r)) {
            printf("# run %d: %g, not %g\n", r, calls[r].y[0][0], wanted[r][0][0]);
            ok = 0;
        }
    result("state and counter as before it", ok);
    result("a shape that is wrong is told at once",
           says(tccrt_run_async(s, NULL, 1, &(struct tcc_tensor){calls[0].x, TCC_F32, 2, {N, W}}, 0, NULL, NULL, NULL),
                TCC_EINPUT, "has 2 inputs"));
    tccrt_session_free(s);
}

/* -- The caller's allocator ------------------------------------------------------------------------------------ */

struct pool {
    struct tccrt_session *from;
    int64_t calls, frees;
    size_t bytes, list[256];
    void *at[256];
    bool none;
};
static void *pool_alloc(void *user, size_t bytes, uintptr_t stream)
{
    struct pool *p = user;
    void *at = p->none ? NULL : tccrt_device_alloc(p->from, bytes);

    (void)stream;
    for (int k = 0; at && k < 256; k++)
        if (!p->at[k]) {
            p->at[k] = at;
            p->list[k] = bytes;
            break;
        }
    p->calls++;
    p->bytes += at ? bytes : 0;
    return at;
}
static void pool_free(void *user, void *at, uintptr_t stream)
{
    struct pool *p = user;

    (void)stream;
    for (int k = 0; k < 256; k++)
        if (p->at[k] == at) {
            p->at[k] = NULL;
            p->bytes -= p->list[k];
            tccrt_device_free(p->from, at, p->list[k]);
        }
    p->frees++;
}

/* Bytes of the device that are taken; -1: not known. */
static int64_t taken(void)
{
    int (*info)(size_t *, size_t *), (*current)(void *), (*get)(void **, int);
    void *lib = strcmp(device, "sim") ? NULL : dlopen("libtccptx.so.0", RTLD_NOW | RTLD_NOLOAD), *ctx = NULL;
    size_t room = 0, total = 0;

    if (!lib)
        return -1;
    *(void **)&info = dlsym(lib, "cuMemGetInfo_v2");
    *(void **)&current = dlsym(lib, "cuCtxSetCurrent");
    *(void **)&get = dlsym(lib, "cuDevicePrimaryCtxRetain");
    if (get(&ctx, 0) || current(ctx) || info(&room, &total))
        return -1;
    current(NULL);
    int (*put)(int);
    *(void **)&put = dlsym(lib, "cuDevicePrimaryCtxRelease_v2");
    put(0);
    return (int64_t)(total - room);
}

static void allocator(void)
{
    struct tccrt_session *other = open_with(NULL), *s = NULL;
    struct pool pool = {.from = other};
    struct tccrt_device_allocator a = {pool_alloc, pool_free, &pool};
    struct tccrt_options o = {.device = device, .device_allocator = &a};
    int64_t before, during;
    int ok = 1;

    if (!strcmp(device, "cpu")) {
        tccrt_session_free(other);
        return;
    }
    tccrt_device_free(other, tccrt_device_alloc(other, 64), 64);
    before = taken();
    s = open_with(&a);
    for (int r = 0; r < 8 && ok; r++) {
        memset(calls[r].y, 0, sizeof calls[r].y);
        ok = !give(s, calls[r].x, calls[r].i, calls[r].y, NULL, NULL);
    }
    ok = ok && !tccrt_wait(s, 0);
    for (int r = 0; r < 8; r++)
        ok = ok && equal((void *)calls[r].y, r);
    during = taken();
    result("runs in memory of the caller's allocator", ok && pool.calls > 3 && pool.bytes >= tccrt_arena_bytes(s) / 2);
    result("the driver gave none besides",
           before < 0 || during - before <= (int64_t)pool.bytes); /* what the pool asked for, rounded as it was */
    tccrt_session_free(s);
    result("all of it is given back", pool.bytes == 0 && pool.frees == pool.calls);
    pool.none = true;
    s = NULL;
    result("an allocator without memory",
           says(tccrt_session_new(model, &o, &s), TCC_EENV, "the caller's allocator has no memory for"));
    tccrt_session_free(s);
    tccrt_session_free(other);
}

/* -- The caller's streams (the simulator's) ---------------------------------------------------------------------- */

static void streams(void)
{
    struct tccrt_session *s = open_with(NULL);
    bool in_there[2] = {true, false}, out_there = true;
    struct tccrt_async how = {.stream = 64, .in_on_device = in_there, .out_on_device = &out_there};
    void *lib = strcmp(device, "sim") ? NULL : dlopen("libtccptx.so.0", RTLD_NOW | RTLD_NOLOAD), *ctx = NULL;

    if (!lib) {
        result("a stream where there are none",
               says(give(s, calls[0].x, calls[0].i, calls[0].y, &how, NULL), TCC_EUSAGE, "has no streams"));
        tccrt_session_free(s);
        return;
    }
    int (*retain)(void **, int), (*current)(void *), (*create)(void **, unsigned), (*sync)(void *), (*destroy)(void *);
    int (*h2d)(uint64_t, const void *, size_t, void *), (*d2h)(void *, uint64_t, size_t, void *),
        (*host)(void **, size_t, unsigned), (*d2d)(uint64_t, uint64_t, size_t, void *);
    uint64_t (*waits)(void);
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&current = dlsym(lib, "cuCtxSetCurrent");
    *(void **)&create = dlsym(lib, "cuStreamCreate");
    *(void **)&sync = dlsym(lib, "cuStreamSynchronize");
    *(void **)&destroy = dlsym(lib, "cuStreamDestroy_v2");
    *(void **)&h2d = dlsym(lib, "cuMemcpyHtoDAsync_v2");
    *(void **)&d2h = dlsym(lib, "cuMemcpyDtoHAsync_v2");
    *(void **)&d2d = dlsym(lib, "cuMemcpyDtoDAsync_v2");
    *(void **)&host = dlsym(lib, "cuMemHostAlloc");
    *(void **)&waits = dlsym(lib, "ptx_driver_waits");
    size_t bytes = sizeof calls[0].x;
    char *x = tccrt_device_alloc(s, bytes), *y = tccrt_device_alloc(s, bytes), *z = tccrt_device_alloc(s, bytes);
    void *stream = NULL, *pinned = NULL, *back = NULL;
    int ok = x && y && z && !retain(&ctx, 0) && !current(ctx) && !create(&stream, 1) &&
             !host(&pinned, RUNS * bytes, 0) && !host(&back, RUNS * bytes, 0);
    uint64_t before = 0, after = 1;

    /* One buffer for the inputs of all runs and one for the outputs: only the order of the stream keeps them apart. */
    for (int r = 0; r < RUNS && ok; r++)
        memcpy((char *)pinned + (size_t)r * bytes, calls[r].x, bytes);
    how.stream = (uintptr_t)stream;
    for (int part = 0; part < RUNS && ok; part += 5) {
        before = part ? waits() : 0;
        for (int r = part; r < part + 5 && ok; r++) {
            ok = !h2d((uintptr_t)z, (char *)pinned + (size_t)r * bytes, bytes, stream) &&
                 !d2d((uintptr_t)x, (uintptr_t)z, bytes, stream) && !give(s, x, calls[r].i, y, &how, NULL) &&
                 !d2h((char *)back + (size_t)r * bytes, (uintptr_t)y, bytes, stream);
        }
        after = part ? waits() : 0;
        result("giving runs waits for nothing", ok && before == after);
        ok = ok && !tccrt_wait(s, 0) && !sync(stream);
    }
    for (int r = 0; r < RUNS && ok; r++)
        ok = equal((void *)((char *)back + (size_t)r * bytes), r);
    result("runs between the work of a stream", ok);
    destroy(stream);
    current(NULL);
    tccrt_device_free(s, x, bytes);
    tccrt_device_free(s, y, bytes);
    tccrt_device_free(s, z, bytes);
    tccrt_session_free(s);
}

/* -- Modelled time --------------------------------------------------------------------------------------------- */

enum { BATCHES = 8 };

static struct tccrt_sim now(struct tccrt_session *s)
{
    struct tccrt_sim sim = {0};

    tccrt_simulated(s, &sim);
    return sim;
}

/* Of the run's trace: does a copy overlap something that an engine does? */
static int overlaps(struct tccrt_session *s)
{
    double copies[BATCHES * 4][2], start, length;
    int n = 0, lane, found = 0;
    static char text[1 << 22];
    char name[64];
    FILE *f = tccrt_profile_trace(s, "trace.json") ? NULL : fopen("trace.json", "r");

    if (!f)
        return 0;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    for (int pass = 0; pass < 2; pass++)
        for (const char *at = text; (at = strstr(at, "{\"name\":\"")); at++) {
            if (sscanf(at, "{\"name\":\"%63[^\"]\",\"ph\":\"X\",\"pid\":1000,\"tid\":%d,\"ts\":%lf,\"dur\":%lf", name,
                       &lane, &start, &length) != 4)
                continue;
            if (!pass && !strcmp(name, "copy") && n < BATCHES * 4) {
                copies[n][0] = start;
                copies[n++][1] = start + length;
            }
            for (int k = 0; pass && lane < 5 && k < n; k++)
                found |= start < copies[k][1] && copies[k][0] < start + length;
        }
    return found;
}

/* Eight runs: one at a time; given one behind the other, so that inputs are on their way while the run before computes;
 * by one call, whose batches go in one transfer an input. */
static void modelled(void)
{
    struct tccrt_options o = {.device = device, .profile = true};
    struct tccrt_session *s = NULL;
    struct tcc_tensor in[BATCHES * 2], out[BATCHES];
    struct tccrt_sim at[4];
    struct tccrt_memory before, after;
    int64_t done = 0;
    int ok = !tccrt_session_new(model, &o, &s) && !give(s, calls[0].x, calls[0].i, calls[0].y, NULL, NULL) &&
             !tccrt_wait(s, 0);

    at[0] = now(s);
    for (int r = 0; r < BATCHES; r++) {
        in[2 * r] = (struct tcc_tensor){calls[r].x, TCC_F32, 2, {N, W}};
        in[2 * r + 1] = (struct tcc_tensor){calls[r].i, TCC_I64, 1, {N}};
        out[r] = (struct tcc_tensor){calls[r].y, TCC_F32, 2, {N, W}};
        ok = ok && !tccrt_run(s, NULL, 2, in + 2 * r, 1, out + r);
    }
    result("a run alone: no copy beside the engines", ok && !overlaps(s));
    at[1] = now(s);
    for (int r = 0; r < BATCHES; r++)
        ok = ok && !give(s, calls[r].x, calls[r].i, calls[r].y, NULL, NULL);
    ok = ok && !tccrt_wait(s, 0);
    at[2] = now(s);
    result("the copy of the next batch overlaps the run before", ok && overlaps(s));
    ok = ok && !tccrt_memory(s, NULL, &before);
    ok = ok && !tccrt_run_many(s, NULL, BATCHES, 2, in, 1, out, &done) && done == BATCHES;
    at[3] = now(s);
    ok = ok && !tccrt_memory(s, NULL, &after);
    result("inputs in one transfer each",
           ok && at[1].copies - at[0].copies == at[2].copies - at[1].copies &&
               at[3].copies - at[2].copies == at[2].copies - at[1].copies - 2 * (BATCHES - 1));
    result("runs given ahead, and batches together, take less than one at a time",
           at[2].seconds - at[1].seconds < at[1].seconds - at[0].seconds &&
               at[3].seconds - at[2].seconds < at[1].seconds - at[0].seconds);
    result("batches count in the peak", after.device_peak - before.device == BATCHES * (int64_t)(N * W * 4 + N * 8));
    void *most = tccrt_device_alloc(s, (size_t)15 << 30), *more = tccrt_device_alloc(s, (size_t)1 << 30);
    result("HBM is what a core has of it",
           most && !more && strstr(tccrt_error(), "of the 16.000 GiB of HBM that a core of trn1 has"));
    tccrt_device_free(s, most, (size_t)15 << 30);
    tccrt_session_free(s);
}

int main(int argc, char **argv)
{
    if (argc != 3 || (device = argv[2], tccrt_open(argv[1], &model))) {
        printf("Bail out! %s\n", tccrt_error());
        return 1;
    }
    fill();
    many();
    mixed();
    shapes();
    zero_copy();
    faults();
    if (strcmp(device, "neuron")) {
        allocator();
        streams();
    } else if (!getenv("TCCC_ORDER_SEED") || !atoi(getenv("TCCC_ORDER_SEED"))) { /* else durations are drawn */
        modelled();
    }
    tccrt_close(model);
    printf("1..%d\n", number);
    return bad != 0;
}
