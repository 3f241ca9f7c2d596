/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label, or else which sample, a run failed for. `eval` runs the batch with the labels of an input that are no
 * class one by one, all others being class 0 (what a loss ignores is no class either, but is not at fault), then each
 * row of the batch as a batch of its copies. A process that holds one stage only does that in a session of its own,
 * with the first weights: what is out of range does not depend on them.
 */
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LABELS 256 /* different ones of an input that are tried */

struct blame {
    struct trainer *t;
    struct tccrt_session *session;
    const struct data_set *set;
    const struct batch *b;
    struct tcc_tensor *in, *out;
    void **data; /* by input: the batch, or one of a row's copies */
    char *row;   /* room for any input's values of a sample */
};

/* A label at fault. */
struct label {
    int input;
    int64_t row, element, value, classes;
};

static bool room(struct blame *x)
{
    const struct entry_info *e = &x->t->eval;

    x->in = calloc((size_t)e->nin + 1, sizeof *x->in);
    x->out = calloc((size_t)e->nout + 1, sizeof *x->out);
    x->data = calloc((size_t)e->nin + 1, sizeof *x->data);
    size_t most = 0;
    for (int i = 0; i < e->nin; i++)
        most = data_batch_bytes(x->set, i, 1) > most ? data_batch_bytes(x->set, i, 1) : most;
    x->row = calloc(1, most + 1);
    for (int i = 0; x->in && x->out && x->data && i < e->nin; i++)
        if (!(x->data[i] = aligned_alloc(64, data_batch_bytes(x->set, i, x->b->rows))))
            return false;
    return x->in && x->out && x->data && x->row;
}

static void leave(struct blame *x)
{
    for (int i = 0; x->data && i < x->t->eval.nin; i++)
        free(x->data[i]);
    free(x->data);
    free(x->row);
    free(x->in);
    free(x->out);
}

static void copy_row(struct blame *x, int64_t row)
{
    for (int i = 0; i < x->t->eval.nin; i++)
        data_copy_rows(x->set, i, (struct data_rows){x->data[i], x->b->rows, 0},
                       (struct data_rows){x->b->data[i], x->b->rows, row}, x->b->rows, true);
}

static bool fails(struct blame *x)
{
    struct batch copies = *x->b;

    copies.data = x->data;
    data_bind(x->set, &copies, x->in);
    memset(x->out, 0, (size_t)x->t->eval.nout * sizeof *x->out);
    return tccrt_run(x->session, x->t->eval.name, x->t->eval.nin, x->in, x->t->eval.nout, x->out) == TCC_EINDEX;
}

static int64_t guilty_row(struct blame *x)
{
    for (int64_t row = 0; row < x->b->rows; row++) {
        copy_row(x, row);
        if (fails(x))
            return row;
    }
    return -1;
}

static bool same_but_for(const struct tccrt_value_info *y, const struct tccrt_value_info *target, int axis)
{
    for (int i = 0, k = 0; i < y->rank; i++) {
        if (i == axis)
            continue;
        if (y->dims[i] >= 0 && target->dims[k] >= 0 && y->dims[i] != target->dims[k])
            return false;
        k++;
    }
    return y->dims[axis] > 1;
}

/* The classes that the labels of an input are of: the extent of the axis that an output of floats has and the input has
 * not, the last or the second; 0: not known. */
static int64_t classes_of(const struct trainer *t, int input)
{
    const struct tccrt_value_info *target = &t->eval.in[input];

    for (int k = 1; k < t->eval.nout && tcc_is_int((enum tcc_dtype)target->dtype); k++) {
        const struct tccrt_value_info *y = &t->eval.out[k];
        if (!tcc_is_float((enum tcc_dtype)y->dtype) || y->rank != target->rank + 1)
            continue;
        if (same_but_for(y, target, y->rank - 1))
            return y->dims[y->rank - 1];
        if (y->rank > 2 && same_but_for(y, target, 1))
            return y->dims[1];
    }
    return 0;
}

/* The label at `l` alone, or none: all others of its input are class 0. */
static void put_label(struct blame *x, const struct label *l, bool there)
{
    enum tcc_dtype dtype = (enum tcc_dtype)x->t->eval.in[l->input].dtype;
    size_t size = (size_t)tcc_dtype_bytes(dtype);
    int64_t n = data_row_elements(&x->set->arrays[l->input]), rows = x->b->rows;
    struct data_rows row = {x->row, 1, 0}, to = {x->data[l->input], rows, l->row};
    char label[8];

    memcpy(label, x->row + (size_t)l->element * size, size);
    memset(x->row, 0, (size_t)n * size);
    data_copy_rows(x->set, l->input, (struct data_rows){to.data, rows, 0}, row, rows, true);
    memcpy(x->row + (size_t)l->element * size, label, size);
    if (there)
        data_copy_rows(x->set, l->input, to, row, 1, false);
}

static void take_batch(struct blame *x, int i)
{
    int64_t rows = x->b->rows;

    data_copy_rows(x->set, i, (struct data_rows){x->data[i], rows, 0}, (struct data_rows){x->b->data[i], rows, 0}, rows,
                   false);
}

/* Of l's input; all others have the batch's values. */
static bool guilty_label_of(struct blame *x, struct label *l)
{
    enum tcc_dtype dtype = (enum tcc_dtype)x->t->eval.in[l->input].dtype;
    size_t size = (size_t)tcc_dtype_bytes(dtype);
    int64_t n = data_row_elements(&x->set->arrays[l->input]), tried[MOST_LABELS];
    int ntried = 0, k;

    put_label(x, l, false);
    if (fails(x))
        return false; /* whatever the labels are */
    for (l->row = 0; l->row < x->b->rows; l->row++)
        for (l->element = 0; l->element < n; l->element++) {
            data_copy_rows(x->set, l->input, (struct data_rows){x->row, 1, 0},
                           (struct data_rows){x->b->data[l->input], x->b->rows, l->row}, 1, false);
            l->value = tcc_load_i64(dtype, x->row + (size_t)l->element * size);
            for (k = 0; k < ntried && tried[k] != l->value; k++)
                ;
            if ((l->value >= 0 && l->value < l->classes) || k < ntried || ntried == MOST_LABELS)
                continue;
            tried[ntried++] = l->value;
            put_label(x, l, true);
            if (fails(x))
                return true;
        }
    return false;
}

static bool guilty_label(struct blame *x, struct label *l)
{
    for (int i = 0; i < x->t->eval.nin; i++)
        take_batch(x, i);
    for (l->input = x->t->eval.nin - 1; l->input >= 0; l->input--) {
        l->row = l->element = 0;
        l->classes = classes_of(x->t, l->input);
        if (l->classes && guilty_label_of(x, l))
            return true;
        take_batch(x, l->input);
    }
    return false;
}

/* A session that can evaluate; NULL: there is none. */
static struct tccrt_session *session_of(struct trainer *t)
{
    const struct tccrt_options whole = {.threads = tccrt_threads(t->m.session),
                                        .device = tccrt_device_used(t->m.session)};
    struct tccrt_session *own;

    if (t->tensor) /* a call of all its ranks */
        return NULL;
    if (!t->stage)
        return t->m.session;
    return tccrt_session_new(t->m.artifact, &whole, &own) == TCC_OK ? own : NULL;
}

void train_blame(struct trainer *t, const struct data_set *set, const struct batch *b, const int64_t *order, int status,
                 const char *what)
{
    struct blame x = {.t = t, .set = set, .b = b};
    struct label l = {0};
    char why[ERROR_SIZE], element[40] = "";
    uint64_t seed;
    int64_t runs, row = -1;
    bool label = false;

    snprintf(why, sizeof why, "%s", tccrt_error());
    tccrt_random_get(t->m.session, &seed, &runs);
    if (t->eval.name && status == TCC_EINDEX && (x.session = session_of(t)) && room(&x)) {
        label = guilty_label(&x, &l);
        row = label ? l.row : guilty_row(&x);
    }
    tccrt_random_set(t->m.session, seed, runs);
    if (x.session != t->m.session)
        tccrt_session_free(x.session);
    leave(&x);
    report_clear(t);
    if (label && data_row_elements(&set->arrays[l.input]) > 1)
        snprintf(element, sizeof element, ", element %" PRId64, l.element);
    if (label)
        tool_error(t->o, EXIT_DATA, "%s: label %" PRId64 " at row %" PRId64 "%s of '%s', classes 0..%" PRId64, what,
                   l.value, data_set_row(set, order[row]), element, t->eval.in[l.input].name, l.classes - 1);
    else if (row >= 0)
        tool_error(t->o, EXIT_DATA, "%s, sample %" PRId64 " (row %" PRId64 " of %.80s): %s", what, row,
                   data_set_row(set, order[row]), set->arrays[set->n - 1].name, why);
    else
        tool_error(t->o, EXIT_DATA, "%s: %s", what, why);
}
