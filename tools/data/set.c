/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --data FILE, --data NAME=FILE[,KEY=VALUE]...: which array feeds which input of the step, checked against its
 * signature.
 */
#include "tools/data/data_int.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mutant.h"

/* -- Reading ------------------------------------------------------------------------------------------ */

/* All of --data. */
struct data_arguments {
    int n;
    struct data_words *at;
};

/* Argument k, for input i. */
static struct data_request request_of(const struct data_set *set, const struct data_arguments *a, int k, int i,
                                      bool named, struct data_options *own)
{
    const struct data_words *w = &a->at[k];

    *own = w->o;
    own->axis = set->axes[i];
    own->table = data_table_of(set->tables, set->inputs[i].name);
    return (struct data_request){.path = w->path,
                                 .name = w->name,
                                 .o = own,
                                 .info = &set->inputs[i],
                                 .named = named,
                                 .ninputs = set->n,
                                 .inputs = set->inputs,
                                 .words = a->at,
                                 .nwords = a->n};
}

static bool has_data(const struct data_array *a)
{
    return a->file || a->source;
}

/* Argument k, NAME=FILE. */
static int read_named(const struct options *o, struct data_set *set, const struct data_arguments *all, int k,
                      const char *given)
{
    const struct data_words *w = &all->at[k];
    const struct data_options *d = &w->o;
    int i = w->input;
    char error[ERROR_SIZE];
    struct data_options own;
    bool found;

    if (has_data(&set->arrays[i]))
        return usage_error(o, "%s: input '%s' has its data already", given, set->inputs[i].name);
    if ((d->scaled || d->means.n || d->stds.n) && !tcc_is_float((enum tcc_dtype)set->inputs[i].dtype))
        return usage_error(o, "%s: scale=, mean= and std= require an input of floats; '%s' is of %s", given,
                           set->inputs[i].name, tcc_dtype_name((enum tcc_dtype)set->inputs[i].dtype));
    struct data_request q = request_of(set, all, k, i, true, &own);
    if (!own.table)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    return data_read(&q, w->reader, &set->arrays[i], &found, error) ? EXIT_FINE : tool_error(o, q.code, "%s", error);
}

/* FILE: every input that it has something for. The options are for all of them, those of floats for floats. */
static int read_archive(const struct options *o, struct data_set *set, const struct data_arguments *all, int k)
{
    const struct data_words *w = &all->at[k];
    int code = EXIT_FINE;

    for (int i = 0; i < set->n && code == EXIT_FINE; i++) {
        char error[ERROR_SIZE];
        struct data_options own;
        struct data_request q = request_of(set, all, k, i, false, &own);
        bool found;
        if (!own.table)
            return tool_error(o, EXIT_ENVIRONMENT, "no memory");
        if (!tcc_is_float((enum tcc_dtype)set->inputs[i].dtype)) {
            own.scaled = false;
            own.scale = 1;
            own.means.n = own.stds.n = 0;
        }
        if (!has_data(&set->arrays[i]) && !data_read(&q, w->reader, &set->arrays[i], &found, error) && found)
            code = tool_error(o, q.code, "%s", error);
    }
    return code;
}

static int reader_of_file(const struct options *o, const char *path, int *code)
{
    char error[ERROR_SIZE];
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return READER_folder;
    struct data_file *f = data_map(path, error);
    int reader = f ? data_reader_of(path, f, -1) : -1;
    if (!f)
        *code = tool_error(o, data_map_code(), "%s", error);
    data_unref(f);
    return reader;
}

/* The reader that a file will have; -1 after a message. */
static int find_reader(const struct options *o, const struct data_words *w, int *code)
{
    glob_t g;

    *code = EXIT_FINE;
    if (w->reader >= 0)
        return w->reader;
    if (!data_words_glob(w->path))
        return reader_of_file(o, w->path, code);
    if (glob(w->path, 0, NULL, &g) != 0) {
        *code = tool_error(o, EXIT_DATA, "%s: no file has such a name", w->path);
        return -1;
    }
    int reader = reader_of_file(o, g.gl_pathv[0], code); /* of shards the first one's */
    globfree(&g);
    return reader;
}

static int read_words(const struct options *o, struct data_set *set, const struct data_arguments *all, int k,
                      const char *given)
{
    const struct data_words *w = &all->at[k];
    int code, reader = find_reader(o, w, &code);

    if (code == EXIT_FINE)
        code = data_words_check(o, w, reader, given);
    if (code != EXIT_FINE)
        return code;
    if (w->input < 0 && !data_reader_feeds_all(reader))
        return tool_error(o, EXIT_DATA, "%s: not an archive that may feed all inputs; say which one it is for: NAME=%s",
                          w->path, w->path);
    return w->input < 0 ? read_archive(o, set, all, k) : read_named(o, set, all, k, given);
}

/* -- Checks --------------------------------------------------------------------------------------------- */

static void shape_text(char *to, size_t room, const struct tccrt_value_info *info, int rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(to, room, "[");
    for (int i = 0; i < rank && used < room - 40; i++) {
        const char *comma = i ? ", " : "";
        if (info && dims[i] < 0)
            used += (size_t)snprintf(to + used, room - used, "%s%.30s", comma,
                                     info->dim_names[i] ? info->dim_names[i] : "?");
        else
            used += (size_t)snprintf(to + used, room - used, "%s%lld", comma, (long long)dims[i]);
    }
    snprintf(to + used, room - used, "]");
}

static bool same_row(const struct data_array *a, const struct tccrt_value_info *info, int axis)
{
    int64_t own[TCC_MAX_RANK], wanted[TCC_MAX_RANK];
    int n = data_other_dims(info->rank, info->dims, axis, wanted);

    if (a->rank != info->rank || n < 0)
        return false;
    data_other_dims(a->rank, a->dims, a->axis, own);
    for (int i = 0; i < n; i++)
        if (wanted[i] >= 0 && wanted[i] != own[i])
            return false;
    return true;
}

/* The array's rows have the input's dims then. */
static bool reshape(struct data_array *a, const struct tccrt_value_info *info, int axis)
{
    int64_t wanted[TCC_MAX_RANK];
    int n = data_other_dims(info->rank, info->dims, axis, wanted);

    if (!a->reshape || n < 0 || a->axis != 0 || tcc_elements(n, wanted) != data_row_elements(a))
        return false;
    a->rank = info->rank;
    memcpy(a->dims + 1, wanted, (size_t)n * sizeof *wanted);
    return true;
}

/* Samples that are first in the file become the input's axis. */
static void move_samples(struct data_array *a, int axis)
{
    int64_t samples = a->dims[0], row = data_row_elements(a);

    if (a->axis != 0 || axis <= 0)
        return;
    memmove(a->dims, a->dims + 1, (size_t)axis * sizeof *a->dims);
    a->dims[axis] = samples;
    a->axis = axis;
    a->outer = tcc_elements(axis, a->dims);
    a->jump = a->outer ? row / a->outer : 0;
}

static int check_array(const struct options *o, struct data_set *set, int i)
{
    const struct tccrt_value_info *info = &set->inputs[i];
    struct data_array *a = &set->arrays[i];
    char want[256], found[256], names[512], samples[40] = "no axis: samples";
    int axis = set->axes[i];

    if (info->kind != TCC_OBJ_TENSOR || info->rank < (axis >= 0) || info->dtype == TCC_STRING)
        return tool_error(o, EXIT_DATA,
                          "input '%s' is not a tensor with an axis of samples: it cannot be read from data files",
                          info->name);
    if (!has_data(a)) {
        data_list_inputs(set->inputs, set->n, names, sizeof names);
        return tool_error(o, EXIT_DATA,
                          "input '%s' has no data; the step reads %s: --data FILE.npz with arrays of these names, or "
                          "--data NAME=FILE",
                          info->name, names);
    }
    shape_text(want, sizeof want, info, info->rank, info->dims);
    shape_text(found, sizeof found, NULL, a->rank, a->dims);
    if (axis >= 0)
        snprintf(samples, sizeof samples, axis ? "axis %d: samples" : "first axis: samples", axis);
    if (!same_row(a, info, axis) && !reshape(a, info, axis))
        return tool_error(o, EXIT_DATA, "%s: input '%s': expected %s%s (%s), got %s%s", a->name, info->name,
                          tcc_dtype_name((enum tcc_dtype)info->dtype), want, samples, tcc_dtype_name(a->dtype), found);
    move_samples(a, axis);
    bool floats = tcc_is_float((enum tcc_dtype)info->dtype), complex = tcc_dtype_class(a->dtype) == TCC_CLASS_COMPLEX;
    if (!complex && (tcc_is_float(a->dtype) == floats || (floats && (a->scaled || a->reshape))))
        return EXIT_FINE;
    return tool_error(o, EXIT_DATA, "%s: input '%s': expected dtype %s, got %s%s", a->name, info->name,
                      tcc_dtype_name((enum tcc_dtype)info->dtype), tcc_dtype_name(a->dtype),
                      floats && !complex ? "; ,scale=X makes floats of integers" : "");
}

void data_set_notes(const struct options *o, const struct data_set *set)
{
    for (int i = 0; i < set->n && !option_set(o, OPT_quiet); i++) {
        const struct data_array *a = &set->arrays[i];
        if (a->left)
            fprintf(stderr, "note: %s: %lld picture%s left out: GIF, HEIC, AVIF and others are not read\n", a->name,
                    (long long)a->left, a->left == 1 ? " is" : "s are");
        if ((int)a->dtype != set->inputs[i].dtype && !a->scaled && !a->reshape)
            fprintf(stderr, "note: %s: %s becomes %s for input '%s'\n", a->name, tcc_dtype_name(a->dtype),
                    tcc_dtype_name((enum tcc_dtype)set->inputs[i].dtype), set->inputs[i].name);
    }
}

/* Windows of raw files may differ in number by their offsets; other arrays must have equally many samples. */
static int check_samples(const struct options *o, struct data_set *set)
{
    const struct data_array *first = NULL;
    set->samples = INT64_MAX;
    for (int i = 0; i < set->n; i++) {
        struct data_array *a = &set->arrays[i];
        int64_t samples = a->axis < 0 ? INT64_MAX : a->dims[a->axis];
        set->samples = samples < set->samples ? samples : set->samples;
        if (a->windows || a->axis < 0)
            continue;
        if (MUTANT(65, first, NULL) && first->dims[first->axis] != samples)
            return tool_error(o, EXIT_DATA, "%s has %lld samples, %s has %lld", first->name,
                              (long long)first->dims[first->axis], a->name, (long long)samples);
        first = first ? first : a;
    }
    if (set->n == 0)
        return tool_error(o, EXIT_DATA, "the step has no inputs");
    if (set->samples == INT64_MAX)
        return tool_error(o, EXIT_DATA, "no input has an axis of samples (--split-axis)");
    return set->samples > 0 ? EXIT_FINE : tool_error(o, EXIT_DATA, "%s: no samples", set->arrays[0].name);
}

int data_set_open(const struct options *o, enum option_id id, const struct tccrt_value_info *inputs, const int *axes,
                  int n, struct data_tables *tables, struct data_set *set)
{
    *set = (struct data_set){
        .n = n, .inputs = inputs, .axes = axes, .tables = tables, .arrays = calloc((size_t)n + 1, sizeof *set->arrays)};
    if (!set->arrays)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    struct data_arguments all = {.n = o->given[id].n};
    int code = data_words_all(o, id, inputs, n, &all.at);
    for (int k = 0; k < all.n && code == EXIT_FINE; k++)
        code = read_words(o, set, &all, k, o->given[id].at[k]);
    data_words_free(all.at, all.n);
    for (int i = 0; i < n && code == EXIT_FINE; i++)
        code = check_array(o, set, i);
    return code == EXIT_FINE ? check_samples(o, set) : code;
}

void data_set_close(struct data_set *set)
{
    for (int i = 0; set->arrays && i < set->n; i++)
        data_release(&set->arrays[i]);
    free(set->arrays);
    free(set->rows);
    *set = (struct data_set){0};
}
