/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - runs entry points of artifacts and says how long that took, in lines of JSON. It needs the runtime's
 * archive and the C library alone, so that it can be carried to a machine where the compiler is not.
 *
 *   measure run ARTIFACT.so [KEY=VALUE]...       runs an entry point again and again, in one session
 *   measure cases FOLDER NAME... [KEY=VALUE]...  FOLDER/NAME.so once each, of the inputs FOLDER/NAME.in; outputs go to
 *   FOLDER/NAME.got: a line each
 *   measure streams ARTIFACT.so [KEY=VALUE]...   sessions of one model, first one alone, then all at the same time, a
 *   thread each; then runs without waits between measure sessions ARTIFACT.so [KEY=VALUE]...  opens a model, runs it
 *   and frees it, again and again: what memory is left behind
 *
 * KEY: device, entry, runs (100), batch (1): what dims that the artifact leaves open are, limit (50): whole numbers are
 * drawn below it, floats between -1 and 1, equal in each process; threads (of the CPU), sessions (4), walk=1: plans are
 * walked, no recorded program is replayed; output: a file for the outputs of the first run, raw, one after the other.
 *
 * "digest" is that of the outputs of the first run; a run whose outputs differ from those of the run before, for the
 * same inputs, counts in "changed" (entry points with state change theirs).
 * NAME.in holds for each input its rank and dims, int64 in the machine's order, and its elements.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/tccrt.h"

enum { MOST = 64, MOST_SESSIONS = 16, UNDER_WAY = 8 };

struct how {
    const char *device, *entry, *output;
    long runs, batch, limit, threads, sessions, walk;
};

/* A model, a session of it, and its inputs. */
struct job {
    struct tccrt_model *model;
    struct tccrt_session *session;
    int nin, nout;
    struct tcc_tensor in[MOST];
    double open_ms;
};

/* What runs of a session gave. */
struct seen {
    double first_ms, *times;
    uint64_t digest;
    long changed, settled_kb;
    bool finite;
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int failed(const char *what)
{
    fprintf(stderr, "measure: %s: %s\n", what, tccrt_error());
    return 1;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static size_t element_bytes(int dtype)
{
    static const unsigned char sizes[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = bytes,
        TCC_DTYPES(X)
#undef X
    };

    return dtype >= 0 && dtype < TCC_NDTYPES ? sizes[dtype] : 0;
}

static size_t bytes_of(const struct tcc_tensor *t)
{
    size_t n = element_bytes(t->dtype);

    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

static bool fill(struct tcc_tensor *t, uint64_t limit, uint64_t *state)
{
    size_t each = element_bytes(t->dtype), bytes = bytes_of(t);

    if (!(t->data = malloc(bytes + 1)))
        return false;
    for (size_t at = 0; at < bytes; at += each) {
        uint64_t whole = next(state) % limit;
        float real = (float)next(state) / 1073741824.0f - 1;

        if (t->dtype == TCC_F32)
            memcpy((char *)t->data + at, &real, 4);
        else
            memcpy((char *)t->data + at, &whole, each);
    }
    return true;
}

/* FNV-1a; *finite: no float is infinite or none. */
static uint64_t digest(int n, const struct tcc_tensor *out, bool *finite)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < n; i++) {
        const unsigned char *p = out[i].data;
        size_t bytes = bytes_of(&out[i]);

        for (size_t k = 0; k < bytes; k++)
            h = (h ^ p[k]) * UINT64_C(0x100000001b3);
        for (size_t k = 0; out[i].dtype == TCC_F32 && k + 4 <= bytes; k += 4) {
            float v;

            memcpy(&v, p + k, 4);
            *finite &= isfinite(v) != 0;
        }
    }
    return h;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool write_outputs(const char *path, int n, const struct tcc_tensor *out)
{
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;

    for (int i = 0; i < n && ok; i++)
        ok = fwrite(out[i].data, 1, bytes_of(&out[i]), f) == bytes_of(&out[i]);
    return f && !fclose(f) && ok;
}

/* Memory that the process has now; 0: /proc is not there. */
static long resident_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long all, resident = 0;

    if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Free memory of device 0 by the CUDA driver that the session has opened; -1: there is none. */
static int64_t device_free(void)
{
    const char *path = getenv("TCCC_CUDA_LIBRARY");
    void *driver = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver)
        return -1;
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*release)(int) = (int (*)(int))dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
    int (*current)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2");
    size_t left = 0, all;
    void *context;
    int64_t result = -1;
    if (retain && release && current && info && !retain(&context, 0)) {
        if (!current(context) && !info(&left, &all))
            result = (int64_t)left;
        release(0);
    }
    dlclose(driver);
    return result;
}

static int open_session(const struct how *how, struct job *j)
{
    struct tccrt_options options = {
        .seed = 1, .device = how->device, .threads = (int)how->threads, .profile = how->walk != 0};

    return tccrt_session_new(j->model, &options, &j->session) ? failed("a session") : 0;
}

static int open_job(const char *path, const struct how *how, struct job *j)
{
    double start = now_ms();

    *j = (struct job){0};
    if (tccrt_open(path, &j->model) || open_session(how, j))
        return failed(path);
    j->open_ms = now_ms() - start;
    j->nin = tccrt_ninputs(j->model, how->entry);
    j->nout = tccrt_noutputs(j->model, how->entry);
    return j->nin < 0 || j->nin > MOST || j->nout > MOST ? failed(how->entry) : 0;
}

static int draw_inputs(const struct how *how, struct job *j)
{
    uint64_t state = 12345;

    for (int i = 0; i < j->nin; i++) {
        struct tccrt_value_info v;

        tccrt_input(j->model, how->entry, i, &v);
        j->in[i] = (struct tcc_tensor){.dtype = v.dtype, .rank = v.rank};
        for (int k = 0; k < v.rank; k++)
            j->in[i].dims[k] = v.dims[k] < 0 ? how->batch : v.dims[k];
        if (!fill(&j->in[i], (uint64_t)how->limit, &state))
            return failed("inputs");
    }
    return 0;
}

static void close_job(struct job *j)
{
    tccrt_session_free(j->session);
    tccrt_close(j->model);
    for (int i = 0; i < j->nin; i++)
        free(j->in[i].data);
}

static int run_again(const struct how *how, struct job *j, struct seen *s)
{
    struct tcc_tensor out[MOST];
    uint64_t before = 0;

    *s = (struct seen){.finite = true, .times = calloc((size_t)how->runs + 1, sizeof *s->times)};
    for (long r = 0; s->times && r <= how->runs; r++) {
        memset(out, 0, sizeof out);
        double start = now_ms();
        if (tccrt_run(j->session, how->entry, j->nin, j->in, j->nout, out))
            return failed(how->entry);
        double ms = now_ms() - start;
        uint64_t h = digest(j->nout, out, &s->finite);
        if (!r) {
            s->first_ms = ms;
            s->digest = h;
            if (how->output && !write_outputs(how->output, j->nout, out))
                return failed(how->output);
        } else {
            s->times[r - 1] = ms;
            s->changed += h != before;
        }
        before = h;
        if (r == how->runs / 2)
            s->settled_kb = resident_kb();
    }
    if (s->times)
        qsort(s->times, (size_t)how->runs, sizeof *s->times, ascending);
    return s->times ? 0 : failed("memory");
}

static int measure_run(const struct how *how, const char *path)
{
    struct tccrt_device_counts counts;
    struct seen s = {0};
    struct job j;
    int status = open_job(path, how, &j) || draw_inputs(how, &j) || run_again(how, &j, &s);

    if (status)
        return status;
    tccrt_device_counts(j.session, &counts);
    printf("{\"open_ms\":%.3f,\"first_ms\":%.3f,\"p50_ms\":%.4f,\"min_ms\":%.4f,\"runs\":%ld,\"changed\":%ld,"
           "\"finite\":%s,\"digest\":\"%016" PRIx64 "\",\"launches\":%" PRId64 ",\"programs\":%" PRId64
           ",\"replays\":%" PRId64 ",\"grown_kb\":%ld,\"threads\":%d}\n",
           j.open_ms, s.first_ms, how->runs ? s.times[how->runs / 2] : s.first_ms, how->runs ? s.times[0] : s.first_ms,
           how->runs, s.changed, s.finite ? "true" : "false", s.digest, counts.launches, counts.programs,
           counts.replays, resident_kb() - s.settled_kb, tccrt_threads(j.session));
    close_job(&j);
    free(s.times);
    return 0;
}

/* The inputs of a case as they were written. */
static bool read_inputs(const char *path, const struct how *how, struct job *j)
{
    FILE *f = fopen(path, "rb");
    bool ok = f != NULL;

    for (int i = 0; i < j->nin && ok; i++) {
        struct tccrt_value_info v;
        int64_t rank = 0;

        tccrt_input(j->model, how->entry, i, &v);
        j->in[i] = (struct tcc_tensor){.dtype = v.dtype};
        ok = fread(&rank, sizeof rank, 1, f) == 1 && rank >= 0 && rank <= TCC_MAX_RANK &&
             fread(j->in[i].dims, sizeof *j->in[i].dims, (size_t)rank, f) == (size_t)rank;
        j->in[i].rank = (int32_t)rank;
        ok = ok && (j->in[i].data = malloc(bytes_of(&j->in[i]) + 1)) &&
             fread(j->in[i].data, 1, bytes_of(&j->in[i]), f) == bytes_of(&j->in[i]);
    }
    if (f)
        fclose(f);
    return ok;
}

/* One case: its outputs' dims, or why there are none. */
static void measure_case(const struct how *how, const char *folder, const char *name)
{
    struct tcc_tensor out[MOST] = {{0}};
    char path[3][4096];
    struct job j;

    snprintf(path[0], sizeof path[0], "%s/%s.so", folder, name);
    snprintf(path[1], sizeof path[1], "%s/%s.in", folder, name);
    snprintf(path[2], sizeof path[2], "%s/%s.got", folder, name);
    if (open_job(path[0], how, &j))
        return;
    if (!read_inputs(path[1], how, &j))
        fprintf(stderr, "measure: %s does not hold the inputs\n", path[1]);
    else if (tccrt_run(j.session, how->entry, j.nin, j.in, j.nout, out) || !write_outputs(path[2], j.nout, out))
        failed(path[0]);
    else {
        printf("{\"case\":\"%s\",\"launches\":%" PRId64 ",\"dims\":[", name, tccrt_device_launches(j.session));
        for (int i = 0; i < j.nout; i++) {
            printf(i ? ",[" : "[");
            for (int k = 0; k < out[i].rank; k++)
                printf("%s%" PRId64, k ? "," : "", out[i].dims[k]);
            printf("]");
        }
        printf("]}\n");
        fflush(stdout);
    }
    close_job(&j);
}

struct worker {
    const struct how *how;
    struct job j;
    struct seen s;
    int status;
};

static void *work(void *p)
{
    struct worker *w = p;

    w->status = run_again(w->how, &w->j, &w->s);
    return NULL;
}

/* Runs that are given one behind the other, as many as may be under way at once: ms of one. */
static double queued(const struct how *how, struct job *j)
{
    struct tcc_tensor out[UNDER_WAY][MOST];
    int64_t ticket[UNDER_WAY] = {0};
    double start = now_ms();

    memset(out, 0, sizeof out);
    for (long r = 0; r < how->runs; r++) {
        int slot = (int)(r % UNDER_WAY);
        if (ticket[slot] && tccrt_wait(j->session, ticket[slot]))
            return -1;
        memset(out[slot], 0, sizeof out[slot]);
        if (tccrt_run_async(j->session, how->entry, j->nin, j->in, j->nout, out[slot], NULL, &ticket[slot]))
            return -1;
    }
    return tccrt_wait(j->session, 0) ? -1 : (now_ms() - start) / (double)(how->runs ? how->runs : 1);
}

static int measure_streams(const struct how *how, const char *path)
{
    struct worker w[MOST_SESSIONS] = {{0}};
    int n = (int)(how->sessions < MOST_SESSIONS ? how->sessions : MOST_SESSIONS), same = 1;
    pthread_t threads[MOST_SESSIONS];
    struct seen alone;

    if (open_job(path, how, &w[0].j) || draw_inputs(how, &w[0].j) || run_again(how, &w[0].j, &alone))
        return 1;
    for (int i = 0; i < n; i++) {
        w[i].how = how;
        if (i) {
            w[i].j = w[0].j;
            if (open_session(how, &w[i].j))
                return 1;
        }
    }
    double start = now_ms();
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, &w[i]))
            return failed("a thread");
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    double all = now_ms() - start;
    for (int i = 0; i < n; i++) {
        same &= !w[i].status && !w[i].s.changed && w[i].s.digest == alone.digest;
        free(w[i].s.times);
        if (i)
            tccrt_session_free(w[i].j.session);
    }
    double queue = queued(how, &w[0].j);
    printf(
        "{\"alone_ms\":%.4f,\"together_ms\":%.4f,\"queued_ms\":%.4f,\"sessions\":%d,\"same\":%s,\"launches\":%" PRId64
        "}\n",
        how->runs ? alone.times[how->runs / 2] : alone.first_ms, all / (double)((how->runs + 1) * n), queue, n,
        same && queue >= 0 ? "true" : "false", tccrt_device_launches(w[0].j.session));
    free(alone.times);
    close_job(&w[0].j);
    return 0;
}

/* Memory grows while allocators and drivers settle: counted from the first half's end. */
static int measure_sessions(const struct how *how, const char *path)
{
    int64_t device_settled = -1, device_now = -1;
    long settled = 0;
    double start = now_ms();

    for (long r = 0; r < how->runs; r++) {
        struct how once = *how;
        struct seen s = {0};
        struct job j;

        once.runs = 1;
        if (open_job(path, how, &j) || draw_inputs(how, &j) || run_again(&once, &j, &s))
            return 1;
        free(s.times);
        tccrt_session_free(j.session);
        device_now = device_free();
        if (r == how->runs / 2) {
            settled = resident_kb();
            device_settled = device_now;
        }
        j.session = NULL;
        close_job(&j);
    }
    printf("{\"sessions\":%ld,\"each_ms\":%.3f,\"grown_kb\":%ld,\"device_grown_kb\":%" PRId64 "}\n", how->runs,
           (now_ms() - start) / (double)how->runs, resident_kb() - settled,
           device_settled < 0 ? -1 : (device_settled - device_now) / 1024);
    return 0;
}

/* KEY=VALUE. */
static bool set(struct how *how, const char *word)
{
    const struct { const char *key; const char **text; long *number;
    } keys[] = {
        {"device", &how->device, NULL},   {"entry", &how->entry, NULL},       {"output", &how->output, NULL},
        {"runs", NULL, &how->runs},       {"batch", NULL, &how->batch},       {"limit", NULL, &how->limit},
        {"threads", NULL, &how->threads}, {"sessions", NULL, &how->sessions}, {"walk", NULL, &how->walk},
    };

    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        size_t n = strlen(keys[k].key);
        if (strncmp(word, keys[k].key, n) || word[n] != '=')
            continue;
        if (keys[k].text)
            *keys[k].text = word + n + 1;
        else
            *keys[k].number = atol(word + n + 1);
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    struct how how = {.device = "cpu", .entry = "main", .runs = 100, .batch = 1, .limit = 50, .sessions = 4};
    const char *words[1024];
    int n = 0;

    for (int i = 1; i < argc && n < (int)(sizeof words / sizeof *words); i++)
        if (!set(&how, argv[i]))
            words[n++] = argv[i];
    if (n == 2 && !strcmp(words[0], "run"))
        return measure_run(&how, words[1]);
    if (n == 2 && !strcmp(words[0], "streams") && how.sessions > 0)
        return measure_streams(&how, words[1]);
    if (n == 2 && !strcmp(words[0], "sessions") && how.runs > 0)
        return measure_sessions(&how, words[1]);
    if (n < 3 || strcmp(words[0], "cases")) {
        fprintf(stderr, "usage: measure run|streams|sessions ARTIFACT.so [KEY=VALUE]...\n       measure cases FOLDER "
                        "NAME... [KEY=VALUE]...\n");
        return 2;
    }
    for (int i = 2; i < n; i++)
        measure_case(&how, words[1], words[i]);
    return 0;
}
