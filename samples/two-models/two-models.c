/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two compiled models, linked from two archives, run at once by several threads of one process; they share one runtime.
 * Every thread runs both models in sessions of its own, each time with another picture, and checks that it gets the same
 * bits as a lone thread got before.
 *
 *   tccc digits.onnx -o digits.a            tccc --name=again digits.onnx -O1 -o again.a
 *   cc -I TOP/runtime two-models.c digits.a again.a libtccrt.a -lm -lpthread -ldl -o two-models
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tccrt.h>

extern const struct tcc_model digits_model, again_model;

enum { THREADS = 4, ROUNDS = 50, PICTURES = 8, PIXELS = 28 * 28, CLASSES = 10, MODELS = 2 };

static struct tccrt_model *models[MODELS];
static float pictures[PICTURES][PIXELS];
static float expected[MODELS][PICTURES][CLASSES];

/* Bars at changing places: any picture will do, as long as answers differ. */
static void make_pictures(void)
{
    for (int k = 0; k < PICTURES; k++)
        for (int i = 0; i < PIXELS; i++)
            pictures[k][i] = (i / 28 + k) % 7 < 2 || (i % 28) / 4 == k ? 0.9f : 0.05f;
}

/* One run of session `s` on picture k; 0 or 1. */
static int answer(struct tccrt_session *s, int k, float result[CLASSES])
{
    struct tcc_tensor in = {pictures[k], TCC_F32, 4, {1, 1, 28, 28}}, out = {result, TCC_F32, 2, {1, CLASSES}};

    if (tccrt_run(s, NULL, 1, &in, 1, &out) == TCC_OK)
        return 0;
    fprintf(stderr, "two-models: %s\n", tccrt_error());
    return 1;
}

static void *work(void *arg)
{
    struct tccrt_options options = {.threads = 1 + (int)((size_t)arg % 2)};
    struct tccrt_session *s[MODELS] = {NULL};
    float result[CLASSES];
    size_t bad = 0;

    for (int m = 0; m < MODELS; m++) {
        if (tccrt_session_new(models[m], &options, &s[m]) != TCC_OK) {
            fprintf(stderr, "two-models: %s\n", tccrt_error());
            bad++;
        }
    }
    for (int i = 0; bad == 0 && i < ROUNDS * MODELS; i++) {
        int k = (i + (int)(size_t)arg) % PICTURES, m = i % MODELS;
        if (answer(s[m], k, result) || memcmp(result, expected[m][k], sizeof result) != 0)
            bad++;
    }
    for (int m = 0; m < MODELS; m++)
        tccrt_session_free(s[m]);
    return (void *)bad;
}

static int prepare(void)
{
    const struct tcc_model *linked[MODELS] = {&digits_model, &again_model};
    int status = 0;

    make_pictures();
    for (int m = 0; m < MODELS; m++) {
        struct tccrt_session *s = NULL;
        if (tccrt_open_linked(linked[m], &models[m]) != TCC_OK || tccrt_session_new(models[m], NULL, &s) != TCC_OK) {
            fprintf(stderr, "two-models: %s\n", tccrt_error());
            return 1;
        }
        for (int k = 0; k < PICTURES; k++)
            status |= answer(s, k, expected[m][k]);
        tccrt_session_free(s);
    }
    return status;
}

int main(void)
{
    pthread_t threads[THREADS];
    size_t bad = 0;
    int started = 0;

    if (prepare() != 0)
        return 1;
    while (started < THREADS && pthread_create(&threads[started], NULL, work, (void *)(size_t)started) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *result;
        pthread_join(threads[i], &result);
        bad += (size_t)result;
    }
    for (int m = 0; m < MODELS; m++)
        tccrt_close(models[m]);
    printf("%d threads, %d models (%s, %s): %s\n", started, MODELS, digits_model.name, again_model.name,
           bad || started < THREADS ? "answers differ" : "all answers equal");
    return bad || started < THREADS;
}
