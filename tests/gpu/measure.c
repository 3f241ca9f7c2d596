/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - runs an entry point of an artifact and says how long that took, as a line of JSON. It needs the runtime's archive and the C library alone, so
 * that it can be carried to a machine where the compiler is not.
 *
 *   measure ARTIFACT.so DEVICE ENTRY RUNS BATCH LIMIT [OUTPUT]
 *
 * Dims that the artifact leaves open are BATCH, whole numbers are drawn below LIMIT, floats between -1 and 1; equal in each process. "digest" is that of the
 * outputs of the first run; a run whose outputs differ from those of the run before, for the same inputs, counts in "changed" (entry points with state
 * change theirs). OUTPUT: the outputs of the first run, raw, one after the other.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "runtime/tccrt.h"

enum { MOST = 64 };

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

static int write_outputs(const char *path, int n, const struct tcc_tensor *out)
{
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;

    for (int i = 0; i < n && ok; i++)
        ok = fwrite(out[i].data, 1, bytes_of(&out[i]), f) == bytes_of(&out[i]);
    return f && !fclose(f) && ok ? 0 : 1;
}

static long resident_kb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    struct tcc_tensor in[MOST], out[MOST] = {{0}};
    struct tccrt_options options = {.seed = 1};
    struct tccrt_session *session;
    struct tccrt_model *model;
    uint64_t state = 12345, first = 0, before = 0;
    bool finite = true;

    if (argc < 7) {
        fprintf(stderr, "usage: measure ARTIFACT.so DEVICE ENTRY RUNS BATCH LIMIT [OUTPUT]\n");
        return 2;
    }
    int runs = atoi(argv[4]), changed = 0;
    double *times = calloc((size_t)runs + 1, sizeof *times), start = now_ms(), opened, first_ms = 0;

    options.device = argv[2];
    if (!times || tccrt_open(argv[1], &model) || tccrt_session_new(model, &options, &session))
        return failed(argv[1]);
    opened = now_ms() - start;
    int nin = tccrt_ninputs(model, argv[3]), nout = tccrt_noutputs(model, argv[3]);
    if (nin < 0 || nin > MOST || nout > MOST)
        return failed(argv[3]);
    for (int i = 0; i < nin; i++) {
        struct tccrt_value_info v;

        tccrt_input(model, argv[3], i, &v);
        in[i] = (struct tcc_tensor){.dtype = v.dtype, .rank = v.rank};
        for (int k = 0; k < v.rank; k++)
            in[i].dims[k] = v.dims[k] < 0 ? atoi(argv[5]) : v.dims[k];
        if (!fill(&in[i], strtoull(argv[6], NULL, 10), &state))
            return failed("inputs");
    }
    long settled = 0;
    for (int r = 0; r <= runs; r++) {
        for (int i = 0; i < nout; i++)
            out[i] = (struct tcc_tensor){0};
        start = now_ms();
        if (tccrt_run(session, argv[3], nin, in, nout, out))
            return failed(argv[3]);
        double ms = now_ms() - start;
        uint64_t h = digest(nout, out, &finite);
        if (!r) {
            first_ms = ms;
            first = h;
            if (argc > 7 && write_outputs(argv[7], nout, out))
                return failed(argv[7]);
        } else {
            times[r - 1] = ms;
            changed += h != before;
        }
        before = h;
        if (r == runs / 2)
            settled = resident_kb();
    }
    qsort(times, (size_t)runs, sizeof *times, ascending);
    printf("{\"open_ms\":%.3f,\"first_ms\":%.3f,\"p50_ms\":%.4f,\"min_ms\":%.4f,\"runs\":%d,\"changed\":%d,\"finite\":%s,\"digest\":\"%016" PRIx64
           "\",\"launches\":%lld,\"grown_kb\":%ld}\n",
           opened, first_ms, runs ? times[runs / 2] : first_ms, runs ? times[0] : first_ms, runs, changed, finite ? "true" : "false", first,
           (long long)tccrt_device_launches(session), resident_kb() - settled);
    tccrt_session_free(session);
    tccrt_close(model);
    for (int i = 0; i < nin; i++)
        free(in[i].data);
    free(times);
    return 0;
}
