/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of compiled models over the data: of one that returns the values which are to be calibrated, batch by batch into
 * histograms or Hessians, so that memory does not grow with the samples; and of a model whose classes are compared.
 */
#include "tools/quant/quant_int.h"
#include "tools/run/run_int.h"

#include <stdlib.h>
#include <string.h>

struct feeding {
    struct quant *q;
    const struct model *m;
    struct quant_classes *classes;
};

static int no_memory(const struct quant *q)
{
    return tool_error(q->o, EXIT_ENVIRONMENT, "no memory");
}

int quant_session(struct quant *q, const char *path, struct model *m)
{
    int64_t threads = 0;
    int code = model_open(q->o, path, m, NULL);

    if (code == EXIT_FINE && !option_int(q->o, OPT_threads, 1, 4096, &threads))
        code = EXIT_USAGE;
    return code == EXIT_FINE ? model_session(q->o, m, (int)threads, NULL) : code;
}

/* Compiles the model and runs it over the data. */
static int feed(struct quant *q, const char *path, struct feeding *f, struct run_wish *wish)
{
    struct model m = {0};
    int code = quant_session(q, path, &m);

    f->m = &m;
    wish->user = f;
    if (code == EXIT_FINE)
        code = run_data_with(q->o, &m, wish);
    model_close(&m);
    return code;
}

/* -- Calibration ---------------------------------------------------------------------------------------------- */

/* hessian += rows' rows. */
static void add_products(double *hessian, const float *x, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, x += width)
        for (int64_t i = 0; i < width; i++)
            for (int64_t k = 0; x[i] != 0 && k <= i; k++)
                hessian[i * width + k] += (double)x[i] * x[k];
}

static int note(struct quant *q, struct quant_value *v, const struct tcc_tensor *t, const struct run_batch *b)
{
    int64_t n = tcc_elements(t->rank, t->dims);

    if (t->dtype != TCC_F32)
        return tool_error(q->o, EXIT_DATA, "'%s' is of %s: only models of float32 are calibrated", v->name,
                          tcc_dtype_name((enum tcc_dtype)t->dtype));
    v->fed |= n > 0;
    if (t->rank && t->dims[0] == b->rows)
        n = n / b->rows * b->keep; /* without the copies that fill a batch up */
    if (v->sums)
        quant_add_means(v, t->data, t->rank, t->dims,
                        t->rank && t->dims[0] == b->rows ? b->keep
                        : t->rank                        ? t->dims[0]
                                                         : 0);
    if (v->smoothed)
        quant_add_extremes(v, t, n);
    if (!v->width)
        hist_add(v->hist, t->data, n);
    else if (t->rank && t->dims[t->rank - 1] == v->width)
        add_products(v->hessian, t->data, n / v->width, v->width);
    return EXIT_FINE;
}

static int note_batch(void *user, const struct run_batch *b)
{
    struct feeding *f = user;
    int code = EXIT_FINE;

    for (int i = 0; i < f->q->nvalues && code == EXIT_FINE; i++) {
        struct quant_value *v = &f->q->values[i];
        for (int k = 0; v->wanted && k < f->m->nneeded; k++)
            if (!strcmp(f->m->in[k].info.name, v->name))
                code = note(f->q, v, &b->in[k], b);
        for (int k = 0; v->wanted && !v->input && k < f->m->nout; k++)
            if (!strcmp(f->m->out[k].info.name, v->name))
                code = note(f->q, v, &b->out[k], b);
    }
    return code;
}

/* A range of nothing would be a scale of 1, whatever the values are in use. */
static int check_ranges(const struct quant *q)
{
    for (int i = 0; i < q->nvalues; i++)
        if (q->values[i].fed && q->values[i].hist && !q->values[i].hist->count)
            return tool_error(q->o, EXIT_DATA, "%sdata: no sample has a finite value of '%s'", quant_option(q),
                              q->values[i].name);
    return EXIT_FINE;
}

int quant_calibrate(struct quant *q)
{
    struct feeding f = {.q = q};
    struct run_wish wish = {.data = OPT_data, .batch = note_batch};
    const char *path = ir_internf(q->ctx, "%s/observed.onnx", q->folder);

    for (int i = 0; i < q->nvalues; i++) {
        struct quant_value *v = &q->values[i];
        if (v->wanted && v->width ? !(v->hessian = calloc((size_t)(v->width * v->width), sizeof *v->hessian))
                                  : v->wanted && !v->hist && !(v->hist = calloc(1, sizeof *v->hist)))
            return no_memory(q);
        if (v->wanted && v->channels && !v->sums && !(v->sums = calloc((size_t)v->channels, sizeof *v->sums)))
            return no_memory(q);
    }
    int code = quant_write_observed(q, path);
    code = code == EXIT_FINE ? feed(q, path, &f, &wish) : code;
    return code == EXIT_FINE ? check_ranges(q) : code;
}

/* -- Classes -------------------------------------------------------------------------------------------------- */

/* The largest along axis 1, for each place behind it. */
static int32_t largest(const struct tcc_tensor *t, int64_t row, int64_t inner, int64_t at)
{
    const float *x = t->data;
    int64_t n = t->dims[1], best = 0;

    x += row * n * inner + at;
    for (int64_t i = 1; i < n; i++)
        best = x[i * inner] > x[best * inner] ? i : best;
    return (int32_t)best;
}

static int note_classes(void *user, const struct run_batch *b)
{
    struct feeding *f = user;
    struct quant_classes *c = f->classes;
    const struct tcc_tensor *t = &b->out[0];
    int64_t inner = 1;

    if (t->dtype != TCC_F32 || t->rank < 2 || t->dims[0] != b->rows || t->dims[1] < 2)
        return tool_error(f->q->o, EXIT_DATA,
                          "output '%s' is not [samples, classes, ...] of float32: its classes cannot be compared",
                          f->m->out[0].info.name);
    for (int d = 2; d < t->rank; d++)
        inner *= t->dims[d];
    if (c->n + b->keep * inner > c->room) {
        int64_t room = 2 * (c->n + b->keep * inner);
        int32_t *grown = realloc(c->at, (size_t)room * sizeof *grown);
        if (!grown)
            return no_memory(f->q);
        c->at = grown;
        c->room = room;
    }
    const int64_t *target = option_set(f->q->o, OPT_eval_data) ? b->in[f->m->nneeded].data : NULL;
    for (int64_t row = 0; row < b->keep; row++)
        for (int64_t i = 0; i < inner; i++) {
            c->at[c->n++] = largest(t, row, inner, i);
            c->right += target && inner == 1 && target[row] == c->at[c->n - 1];
        }
    return EXIT_FINE;
}

int quant_classes_of(struct quant *q, const char *path, struct quant_classes *c)
{
    static const struct tccrt_value_info target = {
        .name = "target", .kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 1, .dims = {-1}};
    struct feeding f = {.q = q, .classes = c};
    bool eval = option_set(q->o, OPT_eval_data);
    struct run_wish wish = {
        .data = eval ? OPT_eval_data : OPT_data, .beside = eval ? &target : NULL, .batch = note_classes};

    c->n = c->right = 0;
    return feed(q, path, &f, &wish);
}

double quant_score(const struct quant *q, const struct quant_classes *c, const struct quant_classes *model)
{
    int64_t same = c->right;

    if (!option_set(q->o, OPT_eval_data)) {
        same = 0;
        for (int64_t i = 0; i < c->n && i < model->n; i++)
            same += c->at[i] == model->at[i];
    }
    return c->n ? (double)same / (double)c->n : 0;
}

void quant_classes_free(struct quant_classes *c)
{
    free(c->at);
    *c = (struct quant_classes){0};
}
