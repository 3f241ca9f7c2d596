/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step on the machine that the model runs on: goes on training with that machine's own pictures, by the
 * run-time library alone. samples/arm/run.sh compiles it and the step for Arm.
 *
 *   learn STEP.so FOLDER EPOCHS CHECKPOINT      FOLDER: pictures.idx3-ubyte and labels.idx1-ubyte
 *
 * Prints each epoch's mean loss and writes the checkpoint (safetensors), which tccc-train and tccc-ckpt read on any
 * machine.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../idx.h"
#include <runtime/tccrt.h>

enum { SIZE = 28, BATCH = 50 };

/* One pass over the pictures; what is left behind the last whole batch is left out. */
static int epoch(struct tccrt_session *s, const struct idx_set *data, float *mean)
{
    static float pixels[BATCH * SIZE * SIZE];
    static int64_t labels[BATCH];
    struct tcc_tensor in[2] = {{pixels, TCC_F32, 4, {BATCH, 1, SIZE, SIZE}}, {labels, TCC_I64, 1, {BATCH}}};
    const unsigned char *grey = data->arrays[0].data, *label = data->arrays[1].data;
    int64_t batches = data->arrays[0].dims[0] / BATCH;
    float loss, sum = 0;

    for (int64_t b = 0; b < batches; b++) {
        for (int64_t i = 0; i < BATCH * SIZE * SIZE; i++)
            pixels[i] = (float)grey[b * BATCH * SIZE * SIZE + i] / 255.0f;
        for (int64_t i = 0; i < BATCH; i++)
            labels[i] = label[b * BATCH + i];
        struct tcc_tensor out = {&loss, TCC_F32, 0, {0}};
        int status = tccrt_run(s, "step", 2, in, 1, &out);
        if (status != TCC_OK)
            return status;
        sum += loss;
    }
    *mean = batches ? sum / (float)batches : 0;
    return TCC_OK;
}

int main(int argc, char **argv)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    struct idx_set data = {0};
    float mean = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: learn STEP.so FOLDER EPOCHS CHECKPOINT\n");
        return 2;
    }
    if (idx_read_set(argv[2], &data))
        return 1;
    int status = tccrt_open(argv[1], &model);
    if (status == TCC_OK)
        status = tccrt_session_new(model, NULL, &session);
    for (int e = 1; e <= atoi(argv[3]) && status == TCC_OK; e++) {
        status = epoch(session, &data, &mean);
        if (status == TCC_OK)
            printf("epoch %d: loss %.6f\n", e, (double)mean);
    }
    if (status == TCC_OK)
        status = tccrt_checkpoint_save(session, argv[4], 0, 0, NULL);
    if (status != TCC_OK)
        fprintf(stderr, "learn: %s\n", tccrt_error());
    tccrt_session_free(session);
    tccrt_close(model);
    free(data.arrays[0].data);
    free(data.arrays[1].data);
    return status != TCC_OK;
}
