/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies picture files (JPEG, PNG and others) by a network that is linked in, which sees the pixels that training
 * saw: prints each file's class, by its name where the artifact carries it, and its probability.
 *
 *   tccc net.onnx -o net.a -H net.h --image-decode=run/best.safetensors --embed-meta=run/best.safetensors
 *   cc picture.c net.a $(pkg-config --cflags --libs tccdata) -o picture
 *   ./picture cat.jpg dog.png
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "net.h"
#include <tccdata.h>

/* The network's scores of a class each, as the probability of the largest one. */
static int best(const float *scores, int64_t n, double *probability)
{
    int at = 0;
    double sum = 0;

    for (int i = 1; i < n; i++)
        at = scores[i] > scores[at] ? i : at;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)scores[i] - (double)scores[at]);
    *probability = 1 / sum;
    return at;
}

/* Returns a tcc_status. */
static int classify(const struct tccrt_model *model, struct tccrt_session *session, const char *path, void *x)
{
    const struct tccdata_picture *p = &net_main_picture[0];
    struct tcc_tensor in = {x, p->dtype, 4, {1, p->channels, p->height, p->width}}, out = {0};
    double probability;

    if (p->last) {
        in.dims[1] = p->height;
        in.dims[2] = p->width;
        in.dims[3] = p->channels;
    }
    int status = tccdata_read(p, path, x);
    if (status) {
        fprintf(stderr, "picture: %s: %s\n", path, tccdata_error());
        return status;
    }
    status = net_main_run(session, &in, &out);
    if (!status && (out.dtype != TCC_F32 || out.rank != 2)) {
        fprintf(stderr, "picture: the network is no classifier\n");
        return TCC_EUSAGE;
    }
    if (status) {
        fprintf(stderr, "picture: %s\n", tccrt_error());
        return status;
    }
    int class = best(out.data, out.dims[1], &probability);
    const char *name = tccrt_class_name(model, class);
    if (name)
        printf("%s: %s (%.1f %%)\n", path, name, 100 * probability);
    else
        printf("%s: class %d (%.1f %%)\n", path, class, 100 * probability);
    return TCC_OK;
}

int main(int argc, char **argv)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    void *x = malloc(tccdata_bytes(&net_main_picture[0]));
    int status = !x || tccrt_open_linked(&net_model, &model) || tccrt_session_new(model, NULL, &session);

    if (status)
        fprintf(stderr, "picture: %s\n", x ? tccrt_error() : "no memory, or the network takes no pictures");
    for (int i = 1; i < argc && !status; i++)
        status = classify(model, session, argv[i], x);
    tccrt_session_free(session);
    tccrt_close(model);
    free(x);
    return status != 0;
}
