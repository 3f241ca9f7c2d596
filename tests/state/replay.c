/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay CPU DEVICE-ARTIFACT DEVICE RUNS SIZES TOLERANCE: runs both artifacts of one model on the same random inputs,
 * RUNS times in a session each, the second on DEVICE; dims that are symbols are 1, 2, .., SIZES in turn. Prints how
 * often the device has recorded a program, and how often it has replayed one; exit 1 where an element differs by more
 * than TOLERANCE of the largest.
 */
#include "tests/tensors.h"

#include "runtime/tccrt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static unsigned long seed = 1;

static unsigned random_below(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}

static struct tcc_tensor make(const struct tccrt_value_info *info, int64_t size)
{
    struct tcc_tensor t = {.dtype = info->dtype, .rank = info->rank};
    for (int i = 0; i < info->rank; i++)
        t.dims[i] = info->dims[i] >= 0 ? info->dims[i] : size;
    t.data = calloc((size_t)elements(&t) + 1, 8);
    for (int64_t i = 0; i < elements(&t); i++)
        if (t.dtype == TCC_I64)
            ((int64_t *)t.data)[i] = random_below(40);
        else
            ((float *)t.data)[i] = (float)random_below(2000) / 1000 - 1;
    return t;
}

static bool same(const struct tcc_tensor *a, const struct tcc_tensor *b, double tolerance)
{
    double largest = 0, worst = 0;
    if (a->dtype != TCC_F32 || b->dtype != TCC_F32 || elements(a) != elements(b))
        return false;
    for (int64_t i = 0; i < elements(a); i++) {
        double x = ((float *)a->data)[i], y = ((float *)b->data)[i];
        largest = fmax(largest, fabs(x));
        worst = fabs(x - y) <= worst ? worst : fabs(x - y); /* NaN counts */
    }
    if (worst <= tolerance * largest)
        return true;
    printf("# worst difference %g of %g\n", worst, largest);
    return false;
}

static int open_session(const char *path, const char *device, struct tccrt_session **s, struct tccrt_model **m)
{
    return tccrt_open(path, m) || tccrt_session_new(*m, &(struct tccrt_options){.device = device, .seed = 3}, s);
}

int main(int argc, char **argv)
{
    struct tccrt_session *s[2];
    struct tccrt_model *m[2];
    struct tccrt_device_counts counts;
    double tolerance = argc == 7 ? atof(argv[6]) : 0;
    int bad = 0;
    if (argc != 7)
        return 2;
    if (open_session(argv[1], "cpu", &s[0], &m[0]) || open_session(argv[2], argv[3], &s[1], &m[1])) {
        printf("# %s\n", tccrt_error());
        return 3;
    }
    int nin = tccrt_ninputs(m[0], "main"), nout = tccrt_noutputs(m[0], "main"), runs = atoi(argv[4]);
    for (int run = 0; run < runs && !bad && nin <= MOST && nout <= MOST; run++) {
        struct tcc_tensor in[MOST], out[2][MOST] = {{{0}}};
        for (int i = 0; i < nin; i++) {
            struct tccrt_value_info info;
            tccrt_input(m[0], "main", i, &info);
            in[i] = make(&info, 1 + run % atoi(argv[5]));
        }
        for (int k = 0; k < 2 && !bad; k++)
            if (tccrt_run(s[k], "main", nin, in, nout, out[k]))
                bad = printf("# run %d: %s\n", run, tccrt_error());
        for (int k = 0; k < nout && !bad; k++)
            if (!same(&out[0][k], &out[1][k], tolerance))
                bad = printf("# run %d, output %d\n", run, k);
        for (int i = 0; i < nin; i++)
            free(in[i].data);
    }
    tccrt_device_counts(s[1], &counts);
    printf("programs %lld replays %lld\n", (long long)counts.programs, (long long)counts.replays);
    for (int k = 0; k < 2; k++) {
        tccrt_session_free(s[k]);
        tccrt_close(m[k]);
    }
    return bad != 0;
}
