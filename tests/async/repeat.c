/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeat MODEL DEVICE RUNS: a model of one float input and one float output of known sizes, RUNS times on the same
 * input. Do results stay the same to the bit, and does what is allocated on the host and the device stay as it is after
 * the first fifty runs? Says what it found; exit status 1 if not.
 */
#include "runtime/tccrt.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLED = 50, SLACK = 40000 }; /* slack: the simulator's operations that have not been timed yet */

struct held {
    long long host, device;
};

static int fail(const char *what)
{
    printf("%s: %s\n", what, tccrt_error());
    return 1;
}

/* A tensor as the signature has it; the caller frees its data. */
static struct tcc_tensor tensor(const struct tccrt_value_info *info, size_t *elements)
{
    struct tcc_tensor t = {.dtype = info->dtype, .rank = info->rank};

    *elements = 1;
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = info->dims[i];
        *elements *= (size_t)info->dims[i];
    }
    t.data = calloc(*elements, sizeof(float));
    return t;
}

static struct held held(struct tccrt_session *s)
{
    struct mallinfo2 m = mallinfo2();
    struct tccrt_memory memory = {0};

    tccrt_memory(s, NULL, &memory);
    return (struct held){(long long)(m.uordblks + m.hblkhd), (long long)memory.device};
}

static int repeat(struct tccrt_session *s, struct tcc_tensor *in, struct tcc_tensor *out, size_t bytes, int runs)
{
    void *first = malloc(bytes);
    struct held settled = {0}, end;
    int status = first ? 0 : 1;

    for (int i = 0; i < runs && !status; i++) {
        if (tccrt_run(s, NULL, 1, in, 1, out))
            status = fail("run");
        else if (!i)
            memcpy(first, out->data, bytes);
        else if (memcmp(first, out->data, bytes) != 0)
            status = !!printf("run %d: other bits\n", i);
        if (i == SETTLED)
            settled = held(s);
    }
    end = held(s);
    if (!status && (end.host > settled.host + SLACK || end.device != settled.device))
        status = !!printf("host %lld, then %lld; device %lld, then %lld bytes\n", settled.host, end.host,
                          settled.device, end.device);
    free(first);
    return status;
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct tccrt_value_info in_info, out_info;
    struct tccrt_options o = {.threads = 1, .device = argc > 2 ? argv[2] : NULL};
    size_t nin, nout;

    if (argc != 4 || tccrt_open(argv[1], &m) || tccrt_session_new(m, &o, &s) || tccrt_input(m, NULL, 0, &in_info) ||
        tccrt_output(m, NULL, 0, &out_info))
        return fail("open");
    struct tcc_tensor in = tensor(&in_info, &nin), out = tensor(&out_info, &nout);
    for (size_t i = 0; i < nin; i++)
        ((float *)in.data)[i] = (float)(i % 13) / 13;
    int status = repeat(s, &in, &out, nout * sizeof(float), atoi(argv[3]));
    free(in.data);
    free(out.data);
    tccrt_session_free(s);
    tccrt_close(m);
    if (!status)
        printf("%s runs\n", argv[3]);
    return status;
}
