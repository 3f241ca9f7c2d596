/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from a language model over bytes whose keys and values of the past lie in the session (doc/state.md).
 *
 *   generate DECODER.so PROMPT [BYTES [TEMPERATURE [SEED]]]
 *
 * Prints the prompt and as many bytes more (default 200), each drawn from what the model gives at that temperature (default 0.7; 0: the likeliest), and
 * on standard error how long the first and a later byte took. When the cache is full, it begins anew with the last half of its bytes.
 *
 * A decoder that was compiled without --state gets an empty past and the whole text each time: the same text, slower.
 *
 *   tccc decoder.onnx --state=auto,capacity=64 -o decoder.so
 *   cc generate.c $(pkg-config --cflags --static --libs tccrt) -lm -o generate
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tccrt.h"

enum { WORDS = 256, MOST_INPUTS = 64, WINDOW = 64 };

struct decoder {
    struct tccrt_model *model;
    struct tccrt_session *session;
    int nin, nout;
    bool keeps;              /* the session has the past */
    int held, window;        /* bytes in the cache; what fits */
    double first_ms, later_ms;
    int later;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool open_decoder(struct decoder *d, const char *path)
{
    struct tccrt_value_info info;

    if (tccrt_open(path, &d->model) || tccrt_session_new(d->model, NULL, &d->session))
        return false;
    d->nin = tccrt_ninputs(d->model, "main");
    d->nout = tccrt_noutputs(d->model, "main");
    d->window = WINDOW;
    for (int i = 0; i < tccrt_nstates(d->model); i++)
        if (!tccrt_state_info(d->model, i, &info) && (tccrt_state_flags(d->model, i) & TCCRT_STATE_CACHE)) {
            d->keeps = true;
            d->window = (int)info.dims[2];
        }
    return d->nin >= 1 && d->nin <= MOST_INPUTS && d->nout <= MOST_INPUTS;
}

/* Runs n new bytes; the logits of what comes next, or NULL. */
static const float *feed(struct decoder *d, const unsigned char *text, int n)
{
    static float empty[1];
    int64_t ids[WINDOW];
    struct tcc_tensor in[MOST_INPUTS], out[MOST_INPUTS] = {{0}};
    double start = now_ms();

    for (int i = 0; i < n; i++)
        ids[i] = text[i];
    in[0] = (struct tcc_tensor){ids, TCC_I64, 2, {1, n}};
    for (int i = 1; i < d->nin; i++) { /* an empty past */
        struct tccrt_value_info info;
        tccrt_input(d->model, "main", i, &info);
        in[i] = (struct tcc_tensor){.data = empty, .dtype = info.dtype, .rank = info.rank};
        for (int k = 0; k < info.rank; k++)
            in[i].dims[k] = info.dims[k] < 0 ? 0 : info.dims[k];
    }
    if (tccrt_run(d->session, "main", d->nin, in, d->nout, out))
        return NULL;
    if (d->first_ms == 0) {
        d->first_ms = now_ms() - start;
    } else {
        d->later_ms += now_ms() - start;
        d->later++;
    }
    return out[0].data;
}

/* What comes behind the text's n bytes. */
static const float *next(struct decoder *d, const unsigned char *text, int n)
{
    if (d->held + 1 > d->window || !d->held) { /* the last half again, or the prompt */
        int kept = n < d->window / 2 ? n : d->window / 2;

        if (tccrt_state_reset(d->session, NULL))
            return NULL;
        d->held = kept;
        return feed(d, text + n - kept, kept);
    }
    d->held++;
    return d->keeps ? feed(d, text + n - 1, 1) : feed(d, text + n - d->held, d->held);
}

static unsigned draw(const float *logits, double temperature, unsigned long long *seed)
{
    double weights[WORDS], sum = 0;
    unsigned best = 0;

    for (unsigned i = 1; i < WORDS; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature <= 0)
        return best;
    for (unsigned i = 0; i < WORDS; i++)
        sum += weights[i] = exp((logits[i] - logits[best]) / temperature);
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    sum *= (double)(*seed >> 11) * 0x1p-53;
    for (unsigned i = 0; i < WORDS; i++)
        if ((sum -= weights[i]) < 0)
            return i;
    return best;
}

int main(int argc, char **argv)
{
    struct decoder d = {0};
    int bytes = argc > 3 ? atoi(argv[3]) : 200;
    double temperature = argc > 4 ? atof(argv[4]) : 0.7;
    unsigned long long seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    size_t n = argc > 2 ? strlen(argv[2]) : 0;

    if (argc < 3 || argc > 6 || !n || bytes < 1 || bytes > 1000000) {
        fprintf(stderr, "usage: generate DECODER.so PROMPT [BYTES [TEMPERATURE [SEED]]]\n");
        return 2;
    }
    unsigned char *text = malloc(n + (size_t)bytes + 1);
    if (!text || !open_decoder(&d, argv[1])) {
        fprintf(stderr, "%s: %s\n", argv[1], text ? tccrt_error() : "no memory");
        return 1;
    }
    memcpy(text, argv[2], n);
    for (int i = 0; i < bytes; i++) {
        const float *logits = next(&d, text, (int)n);
        if (!logits) {
            fprintf(stderr, "%s\n", tccrt_error());
            return 1;
        }
        text[n++] = (unsigned char)draw(logits, temperature, &seed);
    }
    fwrite(text, 1, n, stdout);
    putchar('\n');
    fprintf(stderr, "%s: first byte %.3f ms, each later one %.3f ms\n", d.keeps ? "with a cache" : "without a cache", d.first_ms,
            d.later ? d.later_ms / d.later : 0.0);
    free(text);
    tccrt_session_free(d.session);
    tccrt_close(d.model);
    return fflush(stdout) != 0;
}
