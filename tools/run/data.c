/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-run --data: an entry point over all samples of a data set, in the files' order, batch by batch; the outputs'
 * rows are put together again. What is left of a last batch, where a batch has a fixed size or is split into
 * microbatches, is filled up with copies of its last row, whose results are dropped; where an output is a mean over the
 * batch (the loss of `eval`), each row left runs as a batch of copies, so that every sample counts once.
 */
#include "tools/train/ckpt_tool_int.h"
#include "tools/run/run_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct output {
    struct tccrt_value_info info;
    int axis;                /* of the samples; -1: none, a mean over them */
    double sum;              /* then: of rows times mean */
    struct tcc_object *rows; /* else: all of them */
};

struct data_run {
    const struct options *o;
    struct model *m;
    const struct run_wish *wish;
    struct data_set data;
    struct data_tables tables; /* training's, of --load's checkpoint */
    struct loader *loader;
    int nin, nout;
    struct tccrt_value_info *inputs;
    int *axes; /* of the inputs' samples; -1: none */
    struct output *outputs;
    struct tcc_tensor *in, *out;
    void **copies; /* by input: room for a batch */
    bool means;    /* some output has no rows */
    int64_t batch; /* rows of a whole batch */
    int64_t unit;  /* a run has a multiple of that many */
};

static int run_failed(const struct data_run *r, int status)
{
    return tool_error(r->o,
                      status == TCC_EENV   ? EXIT_ENVIRONMENT
                      : status == TCC_EBUG ? EXIT_BUG
                                           : EXIT_DATA,
                      "%s", tccrt_error());
}

/* -- What runs ------------------------------------------------------------------------------------------ */

static int settle_batch(struct data_run *r)
{
    int64_t fixed = -1;

    r->batch = 0;
    if (!option_int(r->o, OPT_batch_size, 1, 1 << 24, &r->batch))
        return EXIT_USAGE;
    for (int i = 0; i < r->nin; i++) {
        int axis = r->axes[i];
        int64_t n = axis >= 0 && axis < r->inputs[i].rank ? r->inputs[i].dims[axis] : -1;
        if (n < 0)
            continue;
        if ((fixed >= 0 && n != fixed) || (r->batch && n != r->batch))
            return tool_error(r->o, EXIT_DATA, "input '%s' was compiled for batches of %" PRId64 ", not %" PRId64,
                              r->inputs[i].name, n, r->batch ? r->batch : fixed);
        fixed = n;
    }
    int micros = tccrt_microbatches(r->m->artifact, r->m->entry);
    r->unit = fixed > 0 ? fixed : micros;
    if (!r->batch)
        r->batch = fixed > 0 ? fixed : 32;
    r->batch = (r->batch + r->unit - 1) / r->unit * r->unit;
    return EXIT_FINE;
}

/* The axis that goes with the samples: the first of the extent, or the symbol, of the first such axis of an input; else
 * the first. */
static int sample_axis(const struct data_run *r, const struct tccrt_value_info *out)
{
    int i = 0;

    while (i < r->nin && r->axes[i] < 0)
        i++;
    const struct tccrt_value_info *in = i < r->nin ? &r->inputs[i] : NULL;
    int axis = in ? r->axes[i] : 0;
    for (int d = 0; d < out->rank && in && axis < in->rank; d++)
        if (out->dims[d] == in->dims[axis] &&
            (in->dims[axis] >= 0 ||
             (out->dim_names[d] && in->dim_names[axis] && !strcmp(out->dim_names[d], in->dim_names[axis]))))
            return d;
    return out->rank > 0 ? 0 : -1;
}

static int describe(struct data_run *r)
{
    struct tccrt_model *a = r->m->artifact;
    const char *entry = r->m->entry;

    r->nin = r->m->nneeded;
    r->nout = r->m->nout;
    r->inputs = calloc((size_t)r->nin + 1, sizeof *r->inputs); /* and what lies beside */
    r->outputs = calloc((size_t)r->nout + 1, sizeof *r->outputs);
    r->in = calloc((size_t)r->nin + 1, sizeof *r->in);
    r->out = calloc((size_t)r->nout + 1, sizeof *r->out);
    r->copies = calloc((size_t)r->nin + 1, sizeof *r->copies);
    if (!r->inputs || !r->outputs || !r->in || !r->out || !r->copies)
        return tool_error(r->o, EXIT_ENVIRONMENT, "out of memory");
    for (int i = 0; i < r->nin; i++)
        tccrt_input(a, entry, i, &r->inputs[i]);
    int code = data_axes(r->o, a, entry, r->inputs, r->nin, &r->axes);
    if (code != EXIT_FINE)
        return code;
    if (!r->nin || !r->m->tensors_only)
        return tool_error(r->o, EXIT_DATA,
                          "--data requires an entry point with inputs, all of them tensors of numbers");
    if (r->wish->beside)
        r->inputs[r->nin] = *r->wish->beside;
    for (int k = 0; k < r->nout; k++) {
        struct output *out = &r->outputs[k];
        tccrt_output(a, entry, k, &out->info);
        out->axis = sample_axis(r, &out->info);
        r->means |= out->axis < 0 && !r->wish->batch;
        if (out->axis < 0 && !r->wish->batch && !tcc_is_float((enum tcc_dtype)out->info.dtype))
            return tool_error(r->o, EXIT_DATA, "output '%s' has no axis of samples", out->info.name);
    }
    return settle_batch(r);
}

/* -- A run ---------------------------------------------------------------------------------------------- */

/* Rows [0, keep) of output k become those from `first` on. */
static int keep_rows(struct data_run *r, int k, int64_t first, int64_t keep, int64_t rows)
{
    struct output *out = &r->outputs[k];
    const struct tcc_tensor *t = &r->out[k];
    int64_t dims[TCC_MAX_RANK], outer = 1, inner = tcc_dtype_bytes((enum tcc_dtype)t->dtype);

    if (t->rank <= out->axis || t->dims[out->axis] != rows)
        return tool_error(r->o, EXIT_DATA, "output '%s' has %" PRId64 " rows for a batch of %" PRId64, out->info.name,
                          t->rank > out->axis ? t->dims[out->axis] : 0, rows);
    memcpy(dims, t->dims, sizeof dims);
    dims[out->axis] = r->data.samples;
    if (!out->rows && !(out->rows = tccrt_object_tensor(t->dtype, t->rank, dims)))
        return tool_error(r->o, EXIT_ENVIRONMENT, "out of memory for the rows of output '%s'", out->info.name);
    if (out->rows->t.rank != t->rank || memcmp(out->rows->t.dims, dims, (size_t)t->rank * sizeof *dims))
        return tool_error(r->o, EXIT_DATA, "output '%s' has another shape in each batch", out->info.name);
    for (int d = 0; d < t->rank; d++)
        *(d < out->axis ? &outer : &inner) *= d == out->axis ? 1 : t->dims[d];
    for (int64_t i = 0; i < outer; i++)
        memcpy((char *)out->rows->t.data + (i * r->data.samples + first) * inner,
               (const char *)t->data + i * rows * inner, (size_t)(keep * inner));
    return EXIT_FINE;
}

/* Runs a batch, the first `keep` rows of which are samples from number `first` on. Means count for `weight` samples. */
static int run_rows(struct data_run *r, const struct batch *b, int64_t first, int64_t keep, int64_t weight)
{
    data_bind(&r->data, b, r->in);
    memset(r->out, 0, (size_t)r->nout * sizeof *r->out);
    int status = tccrt_run(r->m->session, r->m->entry, r->nin, r->in, r->nout, r->out), code = EXIT_FINE;
    if (status != TCC_OK)
        return run_failed(r, status);
    if (r->wish->batch)
        return r->wish->batch(r->wish->user, &(struct run_batch){r->in, r->out, r->axes, first, keep, b->rows});
    for (int k = 0; k < r->nout && code == EXIT_FINE; k++) {
        if (r->outputs[k].axis >= 0)
            code = keep_rows(r, k, first, keep, b->rows);
        else
            r->outputs[k].sum += (double)weight * tcc_load_f64((enum tcc_dtype)r->out[k].dtype, r->out[k].data);
    }
    return code;
}

/* A batch of `rows` rows: those of b from `first` on, and further ones that are the last of these again. */
static int take_rows(struct data_run *r, const struct batch *b, int64_t first, int64_t n, int64_t rows,
                     struct batch *own)
{
    for (int i = 0; i < r->data.n; i++) {
        if (!r->copies[i] && !(r->copies[i] = aligned_alloc(64, data_batch_bytes(&r->data, i, r->batch))))
            return tool_error(r->o, EXIT_ENVIRONMENT, "out of memory");
        data_copy_rows(&r->data, i, (struct data_rows){r->copies[i], rows, 0},
                       (struct data_rows){b->data[i], b->rows, first}, n, false);
        data_copy_rows(&r->data, i, (struct data_rows){r->copies[i], rows, n},
                       (struct data_rows){b->data[i], b->rows, first + n - 1}, rows - n, true);
    }
    *own = (struct batch){.rows = rows, .data = r->copies};
    return EXIT_FINE;
}

/* n rows of b from `from` on, filled up to `rows`; the first of them is sample `number`. */
static int run_part(struct data_run *r, const struct batch *b, int64_t from, int64_t n, int64_t rows, int64_t number)
{
    struct batch own = *b;
    int code = n == b->rows && rows == n ? EXIT_FINE : take_rows(r, b, from, n, rows, &own);

    return code == EXIT_FINE ? run_rows(r, &own, number, n, n) : code;
}

static int run_batch(struct data_run *r, const struct batch *b, int64_t first)
{
    int64_t rest = b->rows % r->unit, whole = b->rows - rest;
    int code = EXIT_FINE;

    if (rest && !r->means)
        return run_part(r, b, 0, b->rows, whole + r->unit, first);
    if (whole)
        code = run_part(r, b, 0, whole, whole, first);
    for (int64_t row = whole; row < b->rows && code == EXIT_FINE; row++)
        code = run_part(r, b, row, 1, r->unit, first + row);
    return code;
}

static int run_all(struct data_run *r)
{
    int64_t n = r->data.samples, *order = calloc((size_t)n + 1, sizeof *order);
    int code = EXIT_FINE;
    struct batch *b;

    r->loader = order ? loader_new(&r->data, 1, 3, r->batch, 0) : NULL;
    if (!r->loader) {
        free(order);
        return tool_error(r->o, EXIT_ENVIRONMENT, "out of memory for batches");
    }
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    loader_start(r->loader, &(struct loader_epoch){.order = order, .count = n});
    while (code == EXIT_FINE && (b = loader_next(r->loader))) {
        code = *b->error ? tool_error(r->o, EXIT_DATA, "%s", b->error) : run_batch(r, b, b->number * r->batch);
        loader_release(r->loader, 1);
    }
    loader_stop(r->loader);
    loader_free(r->loader);
    free(order);
    return code;
}

/* -- Results -------------------------------------------------------------------------------------------- */

static struct tcc_object *result(const struct data_run *r, struct output *out)
{
    struct tcc_object *v = out->rows;

    if (out->axis < 0 && (v = tccrt_object_tensor(out->info.dtype, 0, NULL)))
        tcc_store_f64((enum tcc_dtype)v->t.dtype, v->t.data, out->sum / (double)r->data.samples);
    out->rows = NULL;
    if (!v || npy_can(v) || !tcc_is_float((enum tcc_dtype)v->t.dtype))
        return v;
    struct tcc_object *wide = value_widened(&v->t);
    tccrt_object_unref(v);
    return wide;
}

/* Printed, and written to -o. */
static int show(void *user, const struct run_results *r)
{
    const struct options *o = user;
    struct tccrt_named *list = calloc((size_t)r->n + 1, sizeof *list);
    const char *path = option_text(o, OPT_output, NULL);
    char error[ERROR_SIZE];
    int code = list ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "out of memory");

    for (int k = 0; k < r->n && code == EXIT_FINE; k++) {
        list[k] = (struct tccrt_named){r->names[k], r->values[k]->t};
        printf("%s: ", r->names[k]);
        value_print(stdout, r->values[k]);
        putchar('\n');
    }
    if (code == EXIT_FINE && fflush(stdout) != 0)
        code = tool_error(o, EXIT_ENVIRONMENT, "cannot write standard output: %m");
    if (code == EXIT_FINE && path && !npz_write(path, r->n, list, error))
        code = tool_error(o, EXIT_ENVIRONMENT, "%s", error);
    free(list);
    return code;
}

static int hand_over(struct data_run *r)
{
    struct tcc_object **values = calloc((size_t)r->nout + 1, sizeof *values);
    const char **names = calloc((size_t)r->nout + 1, sizeof *names);
    int *axes = calloc((size_t)r->nout + 1, sizeof *axes);
    int code = values && names && axes ? EXIT_FINE : tool_error(r->o, EXIT_ENVIRONMENT, "out of memory");

    for (int k = 0; k < r->nout && code == EXIT_FINE; k++) {
        names[k] = r->outputs[k].info.name;
        axes[k] = r->outputs[k].axis;
        if (!(values[k] = result(r, &r->outputs[k])))
            code = tool_error(r->o, EXIT_ENVIRONMENT, "out of memory");
    }
    if (code == EXIT_FINE)
        code = r->wish->done(r->wish->user, &(struct run_results){r->nout, values, names, axes, &r->data, &r->tables});
    objects_drop(values, r->nout);
    free(names);
    free(axes);
    return code;
}

static void finish(struct data_run *r)
{
    for (int k = 0; r->outputs && k < r->nout; k++)
        if (r->outputs[k].rows)
            tccrt_object_unref(r->outputs[k].rows);
    for (int i = 0; r->copies && i < r->nin + 1; i++)
        free(r->copies[i]);
    data_set_close(&r->data);
    data_tables_free(&r->tables);
    free(r->copies);
    free(r->inputs);
    free(r->axes);
    free(r->outputs);
    free(r->in);
    free(r->out);
}

int run_data_with(const struct options *o, struct model *m, const struct run_wish *wish)
{
    struct data_run r = {.o = o, .m = m, .wish = wish};
    int code = describe(&r);

    r.tables.frozen = true;
    if (code == EXIT_FINE && wish->load)
        code = data_tables_load(o, wish->load, &r.tables);
    if (code == EXIT_FINE && !r.tables.n && m->artifact)
        code = data_tables_embedded(o, m->artifact, &r.tables);
    if (code == EXIT_FINE)
        code = data_set_open(o, wish->data, r.inputs, r.axes, r.nin + (wish->beside != NULL), &r.tables, &r.data);
    if (code == EXIT_FINE) {
        data_tables_notes(o, &r.tables);
        data_set_notes(o, &r.data);
        code = run_all(&r);
    }
    if (code == EXIT_FINE && wish->done)
        code = hand_over(&r);
    finish(&r);
    return code;
}

int run_data(const struct options *o, struct model *m)
{
    return run_data_with(
        o, m,
        &(struct run_wish){
            .data = OPT_data, .load = option_text(o, OPT_load, NULL), .done = show, .user = (void *)(uintptr_t)o});
}

int run_data_check(const struct options *o)
{
    static const enum option_id not_with[] = {OPT_input, OPT_random,  OPT_output_dir, OPT_interpret,
                                              OPT_check, OPT_profile, OPT_test_data};
    const char *path = option_text(o, OPT_output, ""), *dot = strrchr(path, '.');

    if (!option_set(o, OPT_data)) {
        if (option_set(o, OPT_output) || option_set(o, OPT_batch_size))
            return usage_error(o, "--%s requires --data", option_set(o, OPT_output) ? "output" : "batch-size");
        return EXIT_FINE;
    }
    for (size_t i = 0; i < sizeof not_with / sizeof *not_with; i++)
        if (option_set(o, not_with[i]))
            return usage_error(o, "--data and --%s exclude each other", option_table[not_with[i]].long_name);
    if (*path && (!dot || strcmp(dot, ".npz")))
        return usage_error(o, "--output=%s: expected a file with the suffix .npz", path);
    return EXIT_FINE;
}
