/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation on held-out data. It does not move the counter of random ops.
 *
 * The samples are cut into the same batches whoever runs them: --eval=rank0 runs all of them on one rank,
 * --eval=sharded every so manieth on each, and adds up. Samples that no batch holds (fewer than the microbatches that a
 * batch is split into, or than the batch that the step was compiled for) are run one by one, as a batch of copies: each
 * sample counts once.
 */
#include "tools/train/train_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Accuracy ----------------------------------------------------------------------------------------- */

/* Where the predictions are: an output of floats that has the target's shape and one axis more, the classes: the last,
 * else 1. */
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

/* Everything that is added up, in the order in which it is exchanged. */
enum { SUM_LOSS, SUM_ROWS, SUM_RIGHT, SUM_LABELS, NSUMS };

struct evaluation {
    struct trainer *t;
    struct tcc_tensor *in, *out;
    void **copies; /* by input: room for a batch of some of the rows, or of one sample's copies */
    int64_t ncopies;
    int64_t *order;
    double sums[NSUMS];
};

/* Rows of b from `first` on, or copies of that one, as a batch of their own. */
static int take_rows(struct evaluation *e, const struct batch *b, int64_t first, int64_t rows, bool repeat,
                     struct batch *own)
{
    const struct data_set *set = &e->t->eval_data;

    for (int i = 0; i < set->n; i++) {
        if (!e->copies[i] && !(e->copies[i] = aligned_alloc(64, data_batch_bytes(set, i, e->t->batch_size))))
            return tool_error(e->t->o, EXIT_ENVIRONMENT, "no memory");
        data_copy_rows(set, i, (struct data_rows){e->copies[i], rows, 0},
                       (struct data_rows){b->data[i], b->rows, first}, rows, repeat);
    }
    *own = *b;
    own->rows = rows;
    own->data = e->copies;
    return EXIT_FINE;
}

/* A batch in which each sample is there `times` times; order: their numbers. */
static int evaluate_rows(struct evaluation *e, const struct batch *b, int64_t times, const int64_t *order)
{
    struct trainer *t = e->t;
    struct classes c;
    int64_t right = 0, all = 0, rows = b->rows;

    data_bind(&t->eval_data, b, e->in);
    memset(e->out, 0, (size_t)t->eval.nout * sizeof *e->out);
    int status = tccrt_run(t->m.session, t->eval.name, t->eval.nin, e->in, t->eval.nout, e->out);
    if (status != TCC_OK) {
        train_blame(t, &t->eval_data, b, order, status, "evaluation");
        return trainer_code(status);
    }
    e->sums[SUM_LOSS] += tcc_load_f64((enum tcc_dtype)e->out[0].dtype, e->out[0].data) * (double)(rows / times);
    e->sums[SUM_ROWS] += (double)(rows / times);
    bool classes = find_classes(t, e->in, e->out, &c);
    if (classes)
        count_right(&e->out[c.output], &e->in[c.target], c.axis, &right, &all);
    e->sums[SUM_RIGHT] += (double)(right / times);
    e->sums[SUM_LABELS] += (double)(all / times);
    struct metrics_batch m = {.in = e->in, .out = e->out, .rows = rows / times, .order = order};
    if (classes) {
        m.scores = &e->out[c.output];
        m.labels = &e->in[c.target];
        m.axis = c.axis;
        m.classes = m.scores->dims[c.axis];
    }
    return metrics_add(t->metrics, &m);
}

/* n rows of b from `first` on, each `times` times. */
static int evaluate_part(struct evaluation *e, const struct batch *b, int64_t first, int64_t n, int64_t times)
{
    const struct batch *part = b;
    struct batch own;

    if (n * times != b->rows) {
        int code = take_rows(e, b, first, n * times, times > 1, &own);
        if (code != EXIT_FINE)
            return code;
        part = &own;
    }
    return evaluate_rows(e, part, times, e->order + b->number * e->t->batch_size + first);
}

static int evaluate_batches(struct evaluation *e)
{
    struct trainer *t = e->t;
    int code = EXIT_FINE;
    struct batch *b;

    while (code == EXIT_FINE && (b = loader_next(t->eval_loader))) {
        int64_t whole = b->rows - b->rows % e->ncopies; /* none, or all, of a batch of fixed size */
        if (*b->error)
            return tool_error(t->o, EXIT_DATA, "%s", b->error);
        if (whole)
            code = evaluate_part(e, b, 0, whole, 1);
        for (int64_t row = whole; row < b->rows && code == EXIT_FINE; row++)
            code = evaluate_part(e, b, row, 1, e->ncopies);
        loader_release(t->eval_loader, 1);
    }
    return code;
}

/* Which samples this rank evaluates, batch by batch. */
static int64_t *samples_here(const struct trainer *t, int64_t *count)
{
    int64_t n = t->eval_data.samples, size = t->batch_size, ranks = t->eval_sharded ? t->ranks : 1,
            rank = t->eval_sharded ? t->rank : 0, *order = calloc((size_t)n + 1, sizeof *order);

    *count = 0;
    for (int64_t i = 0; order && i < n; i++)
        if (i / size % ranks == rank)
            order[(*count)++] = i;
    return order;
}

static int evaluate_here(struct evaluation *e)
{
    struct trainer *t = e->t;
    int64_t count;
    int64_t *order = e->order = samples_here(t, &count);
    uint64_t seed;
    int64_t runs;

    tccrt_random_get(t->m.session, &seed, &runs);
    int code = order ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE && count) {
        loader_start(t->eval_loader, &(struct loader_epoch){.order = order, .count = count});
        code = evaluate_batches(e);
        loader_stop(t->eval_loader);
    }
    tccrt_random_set(t->m.session, seed, runs);
    free(order);
    return code;
}

/* Running statistics are rank 0's while all ranks evaluate, then each rank's own again. */
static int swap_buffers(struct trainer *t, void **own, bool back)
{
    for (int i = 0; i < tccrt_nstates(t->m.artifact); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x;
        tccrt_state_info(t->m.artifact, i, &info);
        if (!(tccrt_state_flags(t->m.artifact, i) & TCCRT_STATE_BUFFER) ||
            tccrt_state_get(t->m.session, info.name, &x) != TCC_OK)
            continue;
        size_t bytes = (size_t)tcc_elements(x.rank, x.dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)x.dtype);
        if (back && own[i]) {
            x.data = own[i];
            if (tccrt_state_set(t->m.session, info.name, &x) != TCC_OK)
                return trainer_status(t, TCC_EENV);
        }
        if (back)
            continue;
        if (!(own[i] = malloc(bytes + 1)))
            return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
        memcpy(own[i], x.data, bytes);
        if (tccrt_comm_broadcast(t->dp, 0, 1, &x, NULL) != TCC_OK ||
            tccrt_state_set(t->m.session, info.name, &x) != TCC_OK)
            return trainer_status(t, TCC_EENV);
    }
    return EXIT_FINE;
}

static int evaluate_together(struct evaluation *e)
{
    struct trainer *t = e->t;
    int n = tccrt_nstates(t->m.artifact);
    struct tcc_tensor sums = {e->sums, TCC_F64, 1, {NSUMS}};
    void **own = calloc((size_t)n + 1, sizeof *own);
    int code = own ? swap_buffers(t, own, false) : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE)
        code = evaluate_here(e);
    if (own)
        swap_buffers(t, own, true);
    if (code == EXIT_FINE && tccrt_comm_all_reduce(t->dp, TCCRT_SUM, 1, 1, &sums, &sums, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    code = code == EXIT_FINE ? metrics_share(t->metrics) : code;
    for (int i = 0; own && i < n; i++)
        free(own[i]);
    free(own);
    return code;
}

int train_evaluate(struct trainer *t, struct eval_result *result)
{
    struct evaluation e = {.t = t,
                           .in = calloc((size_t)t->eval.nin + 1, sizeof *e.in),
                           .out = calloc((size_t)t->eval.nout + 1, sizeof *e.out),
                           .copies = calloc((size_t)t->eval_data.n + 1, sizeof *e.copies),
                           .ncopies = t->fixed_batch ? t->batch_size : tccrt_microbatches(t->m.artifact, t->eval.name)};
    const double *s = e.sums;
    metrics_begin(t->metrics);
    int code = e.in && e.out && e.copies ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    struct ema_kept *kept = NULL;
    if (code == EXIT_FINE && option_set(t->o, OPT_use_ema) && !ema_take(&t->m, t->eval_sharded ? t->dp : NULL, &kept))
        code = trainer_status(t, TCC_EENV);
    if (code == EXIT_FINE)
        code = t->eval_sharded ? evaluate_together(&e) : evaluate_here(&e);
    if (!ema_give_back(&t->m, kept) && code == EXIT_FINE)
        code = trainer_status(t, TCC_EENV);
    if (code == EXIT_FINE)
        *result = (struct eval_result){s[SUM_ROWS] > 0 ? s[SUM_LOSS] / s[SUM_ROWS] : NAN,
                                       s[SUM_LABELS] > 0 ? s[SUM_RIGHT] / s[SUM_LABELS] : 0, s[SUM_LABELS] > 0};
    for (int i = 0; e.copies && i < t->eval_data.n; i++)
        free(e.copies[i]);
    free(e.copies);
    free(e.in);
    free(e.out);
    return code;
}
