/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tutorial's program (doc/tutorial.md): a compiled network reads handwritten digits, a file of pictures at a time.
 *
 *   classify PICTURES LABELS      files of the MNIST format; prints how many were read right
 *
 *   tccc digits.pt2 -o digits.a -H digits.h
 *   cc classify.c digits.a $(pkg-config --cflags --libs tccrt) -o classify
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { SIZE = 28 * 28, CLASSES = 10 };

/* The bytes of a file behind a head of `head` bytes, *n of them; NULL: it cannot be read. The caller frees them. */
static unsigned char *read_bytes(const char *path, long head, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data = NULL;

    if (f && !fseek(f, 0, SEEK_END) && ftell(f) > head) {
        *n = (size_t)(ftell(f) - head);
        data = malloc(*n);
        if (data && (fseek(f, head, SEEK_SET) || fread(data, 1, *n, f) != *n)) {
            free(data);
            data = NULL;
        }
    }
    if (f)
        fclose(f);
    if (!data)
        fprintf(stderr, "classify: cannot read '%s'\n", path);
    return data;
}

/* Runs the network once for all pictures, and prints how many of its answers are the labels. Returns a tcc_status. */
static int classify(const float *pixels, const unsigned char *labels, int64_t n)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    struct tcc_tensor in = {(void *)pixels, TCC_F32, 4, {n, 1, 28, 28}}; /* the batch is n: the model leaves it open */
    struct tcc_tensor out = {0};                                         /* no memory of ours: the session's */
    int64_t right = 0;
    int status = tccrt_open_linked(&digits_model, &model);

    if (!status)
        status = tccrt_session_new(model, NULL, &session);
    if (!status)
        status = tccrt_run(session, "main", 1, &in, 1, &out);
    for (int64_t i = 0; !status && i < n; i++) {
        const float *scores = (const float *)out.data + i * CLASSES;
        int best = 0;

        for (int c = 1; c < CLASSES; c++)
            best = scores[c] > scores[best] ? c : best;
        right += best == labels[i];
    }
    if (status)
        fprintf(stderr, "classify: %s\n", tccrt_error());
    else
        printf("%lld of %lld pictures read right\n", (long long)right, (long long)n);
    tccrt_session_free(session);
    tccrt_close(model);
    return status;
}

int main(int argc, char **argv)
{
    size_t bytes = 0, n = 0;
    unsigned char *pictures = argc == 3 ? read_bytes(argv[1], 16, &bytes) : NULL;
    unsigned char *labels = argc == 3 ? read_bytes(argv[2], 8, &n) : NULL;
    float *pixels = pictures && labels && bytes == n * SIZE ? malloc(bytes * sizeof *pixels) : NULL;
    int status = 1;

    if (argc != 3)
        fprintf(stderr, "usage: classify PICTURES LABELS\n");
    else if (!pixels)
        fprintf(stderr, "classify: expected pictures of 28 x 28 and a label for each\n");
    for (size_t i = 0; pixels && i < bytes; i++)
        pixels[i] = (float)pictures[i] / 255.0f;
    if (pixels)
        status = classify(pixels, labels, (int64_t)n);
    free(pixels);
    free(labels);
    free(pictures);
    return status;
}
