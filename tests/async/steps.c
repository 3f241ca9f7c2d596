/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps MODEL ENTRY DEVICE TRACE: runs of an entry point that are only given, in the simulator of CUDA devices. Prints
 * in how many calls the host has waited while it gave four of them, and writes the trace of six that were given behind
 * each other (tccrt_run_many). Inputs are zeros, unknown dims 4.
 */
#include "runtime/tccrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 6, MOST = 16 };

static int die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tccrt_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tccrt_options o = {.profile = argc > 4 && *argv[4], .device = argc > 3 ? argv[3] : NULL};
    struct tcc_tensor in[MANY * MOST], out[MANY * MOST], one[MOST];
    uint64_t (*waits)(void) = NULL, before = 0;
    int64_t done = 0;

    if (argc != 5 || tccrt_open(argv[1], &m) || tccrt_session_new(m, &o, &s))
        return die("open");
    int nin = tccrt_ninputs(m, argv[2]), nout = tccrt_noutputs(m, argv[2]);
    if (nin < 0 || nin > MOST || nout > MOST)
        return die("entry");
    for (int k = 0; k < MANY * nin; k++) {
        struct tccrt_value_info info;
        size_t n = 8;

        tccrt_input(m, argv[2], k % nin, &info);
        in[k] = (struct tcc_tensor){.dtype = info.dtype, .rank = info.rank};
        for (int d = 0; d < info.rank; d++)
            n *= (size_t)(in[k].dims[d] = info.dims[d] < 0 ? 4 : info.dims[d]);
        in[k].data = calloc(n, 1);
    }
    for (int run = 0; run < 8; run++) {
        memset(one, 0, sizeof one);
        if (run == 4) {
            void *lib = dlopen("libtccptx.so.0", RTLD_NOW | RTLD_NOLOAD);

            if (tccrt_wait(s, 0))
                return die("wait");
            if (lib)
                *(void **)&waits = dlsym(lib, "ptx_driver_waits");
            before = waits ? waits() : 0;
        }
        if (tccrt_run_async(s, argv[2], nin, in + run % MANY * nin, nout, one, NULL, NULL))
            return die("run");
    }
    printf("waits %lld\n", waits ? (long long)(waits() - before) : -1);
    if (tccrt_wait(s, 0))
        return die("wait");
    memset(out, 0, sizeof out);
    if (*argv[4] && (tccrt_run_many(s, argv[2], MANY, nin, in, nout, out, &done) || done != MANY ||
                     tccrt_profile_trace(s, argv[4])))
        return die("many");
    tccrt_session_free(s);
    for (int k = 0; k < MANY * nin; k++)
        free(in[k].data);
    tccrt_close(m);
    return 0;
}
