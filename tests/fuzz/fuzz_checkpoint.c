/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a hostile checkpoint is loaded into a session of the artifact that FUZZ_ARTIFACT names (tests/fuzz.sh
 * makes it), in each way that there is. What is refused comes with a message and changes nothing; what is taken is
 * saved, and the saved one loads to the same state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "runtime/rt_int.h"
#include "base/safe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tccrt_model *model;
static struct tccrt_session *session;
static char path[4096], saved[4104];

static void must(int status)
{
    if (status != TCC_OK) {
        fprintf(stderr, "%s\n", tccrt_error());
        abort();
    }
}

static void leave(void)
{
    tccrt_session_free(session);
    tccrt_close(model);
    unlink(path);
    unlink(saved);
}

static void begin(void)
{
    const struct tccrt_options options = {.threads = 1};
    const char *artifact = getenv("FUZZ_ARTIFACT");

    if (!artifact) {
        fputs("FUZZ_ARTIFACT must name an artifact\n", stderr);
        exit(2);
    }
    must(tccrt_open(artifact, &model));
    must(tccrt_session_new(model, &options, &session));
    snprintf(path, sizeof path, "%s/fuzz-checkpoint-%ld", tcr_temporary(), (long)getpid());
    snprintf(saved, sizeof saved, "%s.saved", path);
    atexit(leave);
}

/* Of all state, seed and counter. */
static uint64_t state(void)
{
    struct tcr_xxh3 x;
    uint64_t seed;
    int64_t run;

    tcr_xxh3_begin(&x);
    for (int i = 0; i < tccrt_nstates(model); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor t;
        int64_t n = 1;
        must(tccrt_state_info(model, i, &info));
        must(tccrt_state_get(session, info.name, &t));
        for (int k = 0; k < t.rank; k++)
            n *= t.dims[k];
        tcr_xxh3_add(&x, t.data, (size_t)(n * tcr_dtype_bytes(t.dtype)));
    }
    tccrt_random_get(session, &seed, &run);
    tcr_xxh3_add(&x, &seed, sizeof seed);
    tcr_xxh3_add(&x, &run, sizeof run);
    return tcr_xxh3_end(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int ways[] = {0, TCCRT_CHECKPOINT_WEIGHTS, TCCRT_CHECKPOINT_PARTIAL,
                               TCCRT_CHECKPOINT_WEIGHTS | TCCRT_CHECKPOINT_PARTIAL};

    if (!session)
        begin();
    FILE *f = fopen(path, "wb");
    if (!f || (size && fwrite(data, size, 1, f) != 1) || fclose(f)) {
        perror(path);
        exit(2);
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint64_t before = state();
        int status = tccrt_checkpoint_load(session, path, ways[i]);
        if (status != TCC_OK && (!*tccrt_error() || state() != before))
            abort(); /* refused without a word, or by half */
        if (status != TCC_OK)
            continue;
        before = state();
        must(tccrt_checkpoint_save(session, saved, 0, 0, NULL));
        must(tccrt_state_reset(session, NULL));
        must(tccrt_checkpoint_load(session, saved, 0));
        if (state() != before)
            abort();
    }
    return 0;
}
