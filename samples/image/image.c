/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies a picture file with a compiled network (samples/digits): prints the label and the latency.
 *
 *   image MODEL.so PICTURE.pgm             one binary PGM (P5) of any size
 *   image MODEL.so --idx PICTURES LABELS   a labelled set in the IDX layout of MNIST: prints the accuracy
 *
 * The network wants one grey channel, 0 = background. A picture of another size is scaled (bilinear), one that is dark
 * on light is inverted. Build: cc -I TOP/runtime image.c libtccrt.a -lm -lpthread -ldl (or pkg-config tccrt).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tccrt.h>

enum { RUNS = 200, BATCH = 100 };

struct picture {
    int width, height, max;
    unsigned char *pixels;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "image: %s: %s\n", what, why);
    return 1;
}

/* The next number of a PGM header; comments run from '#' to the end of the line. -1: none. */
static int header_number(FILE *f)
{
    int c = getc(f), n = 0;

    while (c == '#' || c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = getc(f);
        else
            c = getc(f);
    }
    if (c < '0' || c > '9')
        return -1;
    for (; c >= '0' && c <= '9'; c = getc(f)) {
        n = 10 * n + (c - '0');
        if (n > 65535)
            return -1;
    }
    return n; /* the one white-space character after the number has been read */
}

/* Reads a binary PGM with up to 8 bits a pixel; the caller frees p->pixels. */
static bool read_pgm(const char *path, struct picture *p)
{
    FILE *f = fopen(path, "rb");
    bool good = false;

    p->pixels = NULL;
    if (!f)
        return false;
    if (getc(f) == 'P' && getc(f) == '5') {
        p->width = header_number(f);
        p->height = header_number(f);
        p->max = header_number(f);
        if (p->width > 0 && p->height > 0 && p->max > 0 && p->max < 256) {
            size_t n = (size_t)p->width * (size_t)p->height;
            p->pixels = malloc(n);
            good = p->pixels && fread(p->pixels, 1, n, f) == n;
        }
    }
    fclose(f);
    return good;
}

/* Grey value 0..1 at (x, y) in pixels, between the middles of pixels bilinear, outside as the border. */
static float sample(const struct picture *p, float x, float y)
{
    float fx = x < 0 ? 0 : x > (float)(p->width - 1) ? (float)(p->width - 1) : x;
    float fy = y < 0 ? 0 : y > (float)(p->height - 1) ? (float)(p->height - 1) : y;
    int x0 = (int)fx, y0 = (int)fy;
    int x1 = x0 + 1 < p->width ? x0 + 1 : x0, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
    const unsigned char *r0 = p->pixels + (size_t)y0 * (size_t)p->width;
    const unsigned char *r1 = p->pixels + (size_t)y1 * (size_t)p->width;

    fx -= (float)x0;
    fy -= (float)y0;
    return ((1 - fy) * ((1 - fx) * (float)r0[x0] + fx * (float)r0[x1]) +
            fy * ((1 - fx) * (float)r1[x0] + fx * (float)r1[x1])) /
           (float)p->max;
}

/* Scales the picture to what the network wants, light on dark. */
static void to_input(const struct picture *p, float *x, int height, int width)
{
    float mean = 0;

    for (int i = 0; i < height; i++) {
        for (int j = 0; j < width; j++) {
            x[i * width + j] = sample(p, ((float)j + 0.5f) * (float)p->width / (float)width - 0.5f,
                                      ((float)i + 0.5f) * (float)p->height / (float)height - 0.5f);
            mean += x[i * width + j];
        }
    }
    if (mean > 0.5f * (float)(height * width))
        for (int i = 0; i < height * width; i++)
            x[i] = 1 - x[i];
}

static int best(const float *p, int64_t n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (p[i] > p[best])
            best = i;
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int classify(struct tccrt_session *s, const char *path, int height, int width)
{
    struct tcc_tensor in = {NULL, TCC_F32, 4, {1, 1, height, width}}, out;
    double ms[RUNS], first = 0;
    struct picture p;
    float *x;

    if (!read_pgm(path, &p)) {
        free(p.pixels);
        return complain(path, "not readable, or not a binary PGM (P5) of 8 bits a pixel");
    }
    in.data = x = malloc((size_t)(height * width) * sizeof *x);
    if (!x)
        return complain(path, "no memory");
    to_input(&p, x, height, width);
    free(p.pixels);
    for (int i = -1; i < RUNS; i++) {
        double t = now_ms();
        out = (struct tcc_tensor){0};
        if (tccrt_run(s, NULL, 1, &in, 1, &out) != TCC_OK)
            return free(x), complain(path, tccrt_error());
        if (i < 0)
            first = now_ms() - t;
        else
            ms[i] = now_ms() - t;
    }
    qsort(ms, RUNS, sizeof *ms, by_value);
    int label = best(out.data, out.dims[1]);
    printf("label: %d (%.1f %%)\n", label, 100.0 * (double)((const float *)out.data)[label]);
    printf("latency: %.3f ms (median of %d runs; the first took %.3f ms)\n", ms[RUNS / 2], RUNS, first);
    free(x);
    return 0;
}

/* Reads an IDX file of bytes: its dims (up to 3) and its data, which the caller frees; NULL on error. */
static unsigned char *read_idx(const char *path, int rank, int64_t dims[3])
{
    FILE *f = fopen(path, "rb");
    unsigned char head[4], d[4], *data = NULL;
    size_t n = 1;

    if (!f)
        return NULL;
    bool good = fread(head, 1, 4, f) == 4 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] == rank;
    for (int i = 0; good && i < rank; i++) {
        good = fread(d, 1, 4, f) == 4;
        dims[i] = good ? (int64_t)d[0] << 24 | (int64_t)d[1] << 16 | (int64_t)d[2] << 8 | (int64_t)d[3] : 0;
        good = good && dims[i] > 0 && (size_t)dims[i] <= ((size_t)1 << 30) / n;
        n *= good ? (size_t)dims[i] : 0;
    }
    if (good && (data = malloc(n)) && fread(data, 1, n, f) != n) {
        free(data);
        data = NULL;
    }
    fclose(f);
    return data;
}

static int accuracy(struct tccrt_session *s, const char *pictures, const char *labels, int height, int width)
{
    int64_t dims[3], count[3], right = 0;
    unsigned char *pixels = read_idx(pictures, 3, dims), *wanted = read_idx(labels, 1, count);
    size_t size = (size_t)height * (size_t)width;
    float *x = malloc(BATCH * size * sizeof *x);
    int status = 0;

    if (!pixels || !wanted || !x || dims[0] != count[0] || dims[1] != height || dims[2] != width)
        status = complain(pictures, "not a set of labelled pictures of the network's size");
    for (int64_t at = 0; status == 0 && at < dims[0]; at += BATCH) {
        int64_t n = dims[0] - at < BATCH ? dims[0] - at : BATCH;
        struct tcc_tensor in = {x, TCC_F32, 4, {n, 1, height, width}}, out = {0};
        for (size_t i = 0; i < (size_t)n * size; i++)
            x[i] = (float)pixels[(size_t)at * size + i] / 255.0f;
        if (tccrt_run(s, NULL, 1, &in, 1, &out) != TCC_OK) {
            status = complain(pictures, tccrt_error());
            break;
        }
        for (int64_t i = 0; i < n; i++)
            right += best((const float *)out.data + i * out.dims[1], out.dims[1]) == wanted[at + i];
    }
    if (status == 0)
        printf("accuracy: %" PRId64 " of %" PRId64 " (%.1f %%)\n", right, dims[0],
               100.0 * (double)right / (double)dims[0]);
    free(pixels);
    free(wanted);
    free(x);
    return status;
}

int main(int argc, char **argv)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    struct tccrt_value_info in;
    const char *entry;
    bool idx = argc == 5 && strcmp(argv[2], "--idx") == 0;
    int status;

    if (argc != 3 && !idx) {
        fprintf(stderr, "usage: image MODEL.so PICTURE.pgm\n       image MODEL.so --idx PICTURES LABELS\n");
        return 2;
    }
    if (tccrt_open(argv[1], &model) != TCC_OK)
        return complain(argv[1], tccrt_error());
    entry = tccrt_entry_name(model, 0);
    if (tccrt_ninputs(model, entry) != 1 || tccrt_input(model, entry, 0, &in) != TCC_OK || in.dtype != TCC_F32 ||
        in.rank != 4 || in.dims[1] != 1 || in.dims[2] < 1 || in.dims[3] < 1)
        status = complain(argv[1], "not a network that takes one grey picture");
    else if (tccrt_session_new(model, NULL, &session) != TCC_OK)
        status = complain(argv[1], tccrt_error());
    else if (idx)
        status = accuracy(session, argv[3], argv[4], (int)in.dims[2], (int)in.dims[3]);
    else
        status = classify(session, argv[2], (int)in.dims[2], (int)in.dims[3]);
    tccrt_session_free(session);
    tccrt_close(model);
    return status;
}
