/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation on held-out data, and the search for the sample that a step fails for. Neither moves the counter of random ops. */
#include "tools/train_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Accuracy ----------------------------------------------------------------------------------------- */

/* Where the predictions are: an output of floats that has the target's shape and one axis more, the classes: the last, else 1. */
struct classes {
    int target, output;
    int axis;
};

static bool same_dims(const struct tcc_tensor *y, const struct tcc_tensor *target, int axis)
{
    for (int i = 0, k = 0; i < y->rank; i++)
        if (i != axis && y->dims[i] != target->dims[k++])
            return false;
    return y->dims[axis] > 1;
}

static bool find_classes(const struct trainer *t, const struct tcc_tensor *in, const struct tcc_tensor *out,
                         struct classes *c)
{
    for (c->target = t->eval.nin - 1; c->target >= 0; c->target--) {
        const struct tcc_tensor *target = &in[c->target];
        if (!tcc_is_int((enum tcc_dtype)target->dtype))
            continue;
        for (c->output = 1; c->output < t->eval.nout; c->output++) {
            const struct tcc_tensor *y = &out[c->output];
            if (!tcc_is_float((enum tcc_dtype)y->dtype) || y->rank != target->rank + 1)
                continue;
            c->axis = y->rank - 1;
            if (same_dims(y, target, c->axis) || (y->rank > 2 && same_dims(y, target, c->axis = 1)))
                return true;
        }
    }
    return false;
}

/* Labels below 0 don't count (ignore_index). */
static void count_right(const struct tcc_tensor *y, const struct tcc_tensor *target, int axis, int64_t *right,
                        int64_t *all)
{
    int64_t outer = 1, inner = 1, classes = y->dims[axis];
    size_t size = (size_t)tcc_dtype_bytes((enum tcc_dtype)y->dtype),
           label_size = (size_t)tcc_dtype_bytes((enum tcc_dtype)target->dtype);

    for (int i = 0; i < y->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : y->dims[i];
    for (int64_t i = 0; i < outer * inner; i++) {
        const char *at = (const char *)y->data + (size_t)(i / inner * classes * inner + i % inner) * size;
        int64_t label =
                    tcc_load_i64((enum tcc_dtype)target->dtype, (const char *)target->data + (size_t)i * label_size),
                best = 0;
        double most = -INFINITY;
        for (int64_t c = 0; c < classes; c++) {
            double v = tcc_load_f64((enum tcc_dtype)y->dtype, at + (size_t)(c * inner) * size);
            if (v > most) {
                most = v;
                best = c;
            }
        }
        *all += label >= 0;
        *right += label >= 0 && best == label;
    }
}

/* -- Evaluation ------------------------------------------------------------------------------------------ */

static int evaluate_batches(struct trainer *t, struct tcc_tensor *in, struct tcc_tensor *out,
                            struct eval_result *result)
{
    int64_t rows = 0, right = 0, all = 0;
    double sum = 0;
    struct batch *b;
    struct classes c;

    while ((b = loader_next(t->eval_loader))) {
        if (*b->error)
            return tool_error(t->o, EXIT_DATA, "%s", b->error);
        trainer_bind(&t->eval, b, in);
        memset(out, 0, (size_t)t->eval.nout * sizeof *out);
        int status = tccrt_run(t->m.session, t->eval.name, t->eval.nin, in, t->eval.nout, out);
        if (status != TCC_OK)
            return trainer_status(t, status);
        sum += tcc_load_f64((enum tcc_dtype)out[0].dtype, out[0].data) * (double)b->rows;
        rows += b->rows;
        if (find_classes(t, in, out, &c))
            count_right(&out[c.output], &in[c.target], c.axis, &right, &all);
        loader_release(t->eval_loader, 1);
    }
    *result = (struct eval_result){rows ? sum / (double)rows : NAN, all ? (double)right / (double)all : 0, all > 0};
    return EXIT_FINE;
}

int train_evaluate(struct trainer *t, struct eval_result *result)
{
    struct tcc_tensor *in = calloc((size_t)t->eval.nin + 1, sizeof *in),
                      *out = calloc((size_t)t->eval.nout + 1, sizeof *out);
    struct sampler plain = {.samples = t->eval_data.samples, .ranks = 1};
    int64_t count;
    int64_t *order = sampler_epoch(&plain, 0, &count);
    uint64_t seed;
    int64_t runs;

    tccrt_random_get(t->m.session, &seed, &runs);
    int code = in && out && order ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE) {
        bool uneven = count % t->batch_size % tccrt_microbatches(t->m.artifact, t->eval.name);
        if (uneven && t->chief && !option_set(t->o, OPT_quiet))
            fprintf(stderr,
                    "tccc-train: the last %lld samples of --eval-data are left out: microbatches don't divide them\n",
                    (long long)(count % t->batch_size));
        loader_start(t->eval_loader, order, count, t->fixed_batch || uneven, 0, 0);
        code = evaluate_batches(t, in, out, result);
        loader_stop(t->eval_loader);
    }
    tccrt_random_set(t->m.session, seed, runs);
    free(order);
    free(in);
    free(out);
    return code;
}

/* -- Blame ----------------------------------------------------------------------------------------------- */

/* A batch whose rows are all row `row` of b. */
static void repeat_row(const struct trainer *t, const struct batch *b, int64_t row, void **data)
{
    for (int i = 0; i < t->data.n; i++) {
        size_t bytes = (size_t)data_row_elements(&t->data.arrays[i]) *
                       (size_t)tcc_dtype_bytes((enum tcc_dtype)t->step.in[i].dtype);
        for (int64_t k = 0; k < b->rows; k++)
            memcpy((char *)data[i] + (size_t)k * bytes, (const char *)b->data[i] + (size_t)row * bytes, bytes);
    }
}

static int64_t guilty_row(struct trainer *t, const struct batch *b, struct tcc_tensor *in, struct tcc_tensor *out,
                          void **data)
{
    struct batch one = *b;
    one.data = data;
    for (int64_t row = 0; row < b->rows; row++) {
        repeat_row(t, b, row, data);
        trainer_bind(&t->eval, &one, in);
        memset(out, 0, (size_t)t->eval.nout * sizeof *out);
        if (tccrt_run(t->m.session, t->eval.name, t->eval.nin, in, t->eval.nout, out) != TCC_OK)
            return row;
    }
    return -1;
}

void train_blame(struct trainer *t, const struct batch *b, const int64_t *order, int status)
{
    char why[ERROR_SIZE], row_text[200] = "";
    struct tcc_tensor *in = calloc((size_t)t->eval.nin + 1, sizeof *in),
                      *out = calloc((size_t)t->eval.nout + 1, sizeof *out);
    void **data = calloc((size_t)t->data.n + 1, sizeof *data);
    uint64_t seed;
    int64_t runs, row = -1;
    bool ok = in && out && data && t->eval.name && status == TCC_EINDEX && !t->stage; /* one stage can't evaluate */

    snprintf(why, sizeof why, "%s", tccrt_error());
    tccrt_random_get(t->m.session, &seed, &runs);
    for (int i = 0; ok && i < t->data.n; i++)
        ok = (data[i] = aligned_alloc(64, ((size_t)data_row_elements(&t->data.arrays[i]) * (size_t)t->batch_size *
                                               (size_t)tcc_dtype_bytes((enum tcc_dtype)t->step.in[i].dtype) +
                                           127) /
                                              64 * 64)) != NULL;
    if (ok)
        row = guilty_row(t, b, in, out, data);
    tccrt_random_set(t->m.session, seed, runs);
    if (row >= 0)
        snprintf(row_text, sizeof row_text, ", sample %lld (row %lld of %.80s)", (long long)row,
                 (long long)order[t->batch * t->batch_size + row], t->data.arrays[t->data.n - 1].name);
    report_clear(t);
    tool_error(t->o, EXIT_DATA, "step %lld, batch %lld of the epoch%s: %s", (long long)t->done + 1,
               (long long)b->number, row_text, why);
    for (int i = 0; data && i < t->data.n; i++)
        free(data[i]);
    free(data);
    free(in);
    free(out);
}
