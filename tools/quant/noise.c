/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What quantised nodes do to the model's outputs. One model has each node twice, and an input says which of the two
 * counts (quant_write_switched()), so that any choice is a run, not a compilation. Noise is the sum of squares of what
 * outputs lose, beside that of the outputs themselves; of several outputs, the mean. That of many nodes is nearly the
 * sum of what each does alone, as errors of rounding are independent (Zhou et al.: Adaptive quantization for deep
 * neural networks, AAAI 2018). What floats cost is multiplications, so those nodes are left out first that make most
 * noise for each (where a mode's calibration does not count them: that make most noise).
 */
#include "tools/quant/quant_int.h"
#include "tools/run/run_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH = -1 }; /* of a batch: no other is needed */

struct noise {
    struct quant *q;
    struct model m;
    int nused, ndefaults, at; /* which of the inputs that have values are the switches */
    struct quant_node **used, **order;
    float *on; /* by used node */
    struct tcc_tensor *in, *out;
    float **plain;            /* by output: as it is, of the batch */
    double *squares, *errors; /* by output */
};

/* The batch with the switches as they are; errors and squares of outputs are added. */
static int add_errors(struct noise *x, const struct run_batch *b)
{
    const struct model *m = &x->m;

    memcpy(x->in, b->in, (size_t)m->nneeded * sizeof *x->in);
    memset(x->in + m->nneeded, 0, (size_t)x->ndefaults * sizeof *x->in);
    memset(x->out, 0, (size_t)m->nout * sizeof *x->out);
    x->in[m->nneeded + x->at] = (struct tcc_tensor){x->on, TCC_F32, 1, {x->nused}};
    if (tccrt_run(m->session, m->entry, m->nneeded + x->ndefaults, x->in, m->nout, x->out))
        return tool_error(x->q->o, EXIT_DATA, "%s", tccrt_error());
    for (int k = 0; k < m->nout; k++) {
        const float *y = x->out[k].data;
        int64_t n = x->plain[k] ? tcc_elements(x->out[k].rank, x->out[k].dims) : 0;
        for (int64_t i = 0; i < n; i++) {
            double e = (double)y[i] - x->plain[k][i];
            if (!isfinite(x->plain[k][i]) || isnan(e)) /* as of a mask */
                continue;
            x->squares[k] += (double)x->plain[k][i] * x->plain[k][i];
            x->errors[k] += e * e;
        }
    }
    return EXIT_FINE;
}

/* The outputs are those of the model as it is: of floats they are kept. */
static bool keep_plain(struct noise *x, const struct run_batch *b)
{
    for (int k = 0; k < x->m.nout; k++) {
        size_t n = (size_t)tcc_elements(b->out[k].rank, b->out[k].dims);
        free(x->plain[k]);
        x->plain[k] = NULL;
        if (b->out[k].dtype != TCC_F32)
            continue;
        if (!(x->plain[k] = malloc(n * sizeof(float) + 1)))
            return false;
        memcpy(x->plain[k], b->out[k].data, n * sizeof(float));
    }
    return true;
}

/* Beside the squares; NAN: no output of floats has other values than zeros. */
static double ratio(struct noise *x)
{
    double sum = 0;
    int n = 0;

    for (int k = 0; k < x->m.nout; k++)
        if (x->squares[k] > 0) {
            sum += x->errors[k] / x->squares[k];
            n++;
        }
    memset(x->squares, 0, (size_t)x->m.nout * sizeof *x->squares);
    memset(x->errors, 0, (size_t)x->m.nout * sizeof *x->errors);
    return n ? sum / n : NAN;
}

static int no_memory(const struct noise *x)
{
    return tool_error(x->q->o, EXIT_ENVIRONMENT, "no memory");
}

static int note_all(void *user, const struct run_batch *b)
{
    struct noise *x = user;

    return keep_plain(x, b) ? add_errors(x, b) : no_memory(x);
}

/* Of the first batch: that orders nodes, and what is left out in the end is tried with all samples. */
static int note_each(void *user, const struct run_batch *b)
{
    struct noise *x = user;
    int code = keep_plain(x, b) ? EXIT_FINE : no_memory(x);

    for (int i = 0; i < x->nused && code == EXIT_FINE; i++) {
        for (int k = 0; k < x->nused; k++)
            x->on[k] = k == i;
        code = add_errors(x, b);
        double often = quant_multiplications(x->q, (int)(x->used[i] - x->q->nodes));
        x->used[i]->noise = ratio(x) / (often > 0 ? often : 1);
    }
    return code == EXIT_FINE ? ENOUGH : code;
}

static int run_over(struct noise *x, int (*batch)(void *, const struct run_batch *))
{
    enum option_id data = option_set(x->q->o, OPT_data) ? OPT_data : OPT_eval_data;
    int code = run_data_with(x->q->o, &x->m, &(struct run_wish){.data = data, .batch = batch, .user = x});

    return code == ENOUGH ? EXIT_FINE : code;
}

/* Without the first `left` nodes of the order: q->snr. */
static int try_without(struct noise *x, int left)
{
    for (int i = 0; i < x->nused; i++)
        x->order[i]->excluded = i < left;
    for (int i = 0; i < x->nused; i++)
        x->on[i] = !x->used[i]->excluded;
    int code = run_over(x, note_all);
    x->q->snr = -10 * log10(ratio(x));
    return code;
}

static int open_noise(struct noise *x)
{
    struct quant *q = x->q;
    const char *path = ir_internf(q->ctx, "%s/switched.onnx", q->folder);
    int code = quant_write_switched(q, path);

    if (code != EXIT_FINE || (code = quant_session(q, path, &x->m)) != EXIT_FINE)
        return code;
    size_t nout = (size_t)x->m.nout + 1;
    x->used = IR_NEWN(q->ctx, (size_t)q->nnodes + 1, struct quant_node *);
    for (int i = 0; i < q->nnodes; i++)
        if (quant_used(&q->nodes[i]))
            x->used[x->nused++] = &q->nodes[i];
    x->order = IR_NEWN(q->ctx, (size_t)x->nused + 1, struct quant_node *);
    memcpy(x->order, x->used, (size_t)x->nused * sizeof *x->order);
    x->ndefaults = tccrt_ndefaults(x->m.artifact, x->m.entry);
    for (int i = 0; i < x->ndefaults; i++) {
        struct tccrt_value_info info;
        tccrt_input(x->m.artifact, x->m.entry, x->m.nneeded + i, &info);
        x->at = !strcmp(info.name, QUANT_SWITCHES) ? i : x->at;
    }
    x->on = IR_NEWN(q->ctx, (size_t)x->nused + 1, float);
    x->in = IR_NEWN(q->ctx, (size_t)(x->m.nneeded + x->ndefaults) + 1, struct tcc_tensor);
    x->out = IR_NEWN(q->ctx, nout, struct tcc_tensor);
    x->plain = IR_NEWN(q->ctx, nout, float *);
    x->squares = IR_NEWN(q->ctx, nout, double);
    x->errors = IR_NEWN(q->ctx, nout, double);
    return EXIT_FINE;
}

static void close_noise(struct noise *x)
{
    for (int k = 0; x->plain && k < x->m.nout; k++)
        free(x->plain[k]);
    model_close(&x->m);
}

static int by_noise(const void *a, const void *b)
{
    const struct quant_node *x = *(struct quant_node *const *)a, *y = *(struct quant_node *const *)b;

    return x->noise != y->noise ? (x->noise < y->noise) - (x->noise > y->noise) : (x > y) - (x < y);
}

void quant_sort(struct quant_node **list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_noise);
}

int quant_measure(struct quant *q)
{
    struct noise x = {.q = q};
    int code = open_noise(&x);

    if (code == EXIT_FINE)
        code = run_over(&x, note_each);
    close_noise(&x);
    return code;
}

static int limit(struct noise *x)
{
    struct quant *q = x->q;
    int few = 0, enough = x->nused, code = try_without(x, 0);

    q->snr_all = q->snr;
    if (code != EXIT_FINE || isnan(q->snr) || q->snr >= q->min_snr)
        return code;
    code = run_over(x, note_each);
    quant_sort(x->order, x->nused);
    double snr = INFINITY;
    while (enough - few > 1 && code == EXIT_FINE) {
        int tried = (few + enough) / 2;
        code = try_without(x, tried);
        *(q->snr >= q->min_snr ? &enough : &few) = tried;
        snr = tried == enough ? q->snr : snr;
    }
    for (int i = 0; i < x->nused; i++)
        x->order[i]->excluded = i < enough;
    q->snr = snr;
    if (code == EXIT_FINE && enough == x->nused)
        return tool_error(q->o, EXIT_DATA,
                          "%smin-snr: no node can be quantised with %g dB; all together have %.1f, and none as a limit "
                          "takes them all",
                          quant_option(q), q->min_snr, q->snr_all);
    return code;
}

int quant_limit(struct quant *q)
{
    struct noise x = {.q = q};
    int code = open_noise(&x);

    if (code == EXIT_FINE)
        code = limit(&x);
    close_noise(&x);
    return code;
}
