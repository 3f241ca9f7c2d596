/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --data FILE.npz, --data NAME=FILE[,KEY=VALUE]...: which array feeds which input of the step, checked against its signature.
 * An argument that names an existing file is that file; else the longest input name followed by '=' is the input that it is for.
 */
#include "tools/data_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/mutant.h"

static int input_of(const struct data_set *set, const char *text)
{
    int best = -1;
    size_t length = 0;
    for (int i = 0; i < set->n; i++) {
        size_t n = strlen(set->inputs[i].name);
        if (strncmp(text, set->inputs[i].name, n) == 0 && text[n] == '=' && (best < 0 || n > length)) {
            best = i;
            length = n;
        }
    }
    return best;
}

static void list_inputs(const struct data_set *set, char *names, size_t room)
{
    size_t used = 0;
    *names = '\0';
    for (int i = 0; i < set->n && used < room - 80; i++)
        used += (size_t)snprintf(names + used, room - used, "%s'%.60s'", i ? ", " : "", set->inputs[i].name);
}

/* -- FILE,KEY=VALUE,... ----------------------------------------------------------------------------- */

/* "0.1307", "1/255" */
static bool read_number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && *end == '/') {
        const char *below = end + 1;
        double d = strtod(below, &end);
        if (end == below || d == 0)
            return false;
        *out /= d;
    }
    return end != text && *end == '\0';
}

static bool read_option(char *text, struct data_options *o)
{
    char *value = strchr(text, '=');
    struct {
        const char *key;
        int64_t *number;
        double *real;
    } keys[] = {{"length", &o->length, NULL}, {"stride", &o->stride, NULL}, {"offset", &o->offset, NULL},
                {"limit", &o->limit, NULL},   {"scale", NULL, &o->scale},   {"mean", NULL, &o->mean},
                {"std", NULL, &o->std}};

    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(text, "dtype") == 0) {
        o->dtype = tcc_dtype_by_name(value);
        return o->dtype != TCC_NONE && o->dtype != TCC_STRING && tcc_dtype_class(o->dtype) != TCC_CLASS_COMPLEX;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double d;
        if (strcmp(text, keys[i].key) != 0)
            continue;
        double least = keys[i].number == &o->offset ? 0 : 1;
        if (!read_number(value, &d) || !isfinite(d) || (keys[i].real == &o->std && d == 0) ||
            (keys[i].number && (d < least || d > 1e15 || d != (double)(int64_t)d)))
            return false;
        if (keys[i].number)
            *keys[i].number = (int64_t)d;
        else
            *keys[i].real = d;
        o->scaled |= keys[i].real == &o->scale;
        return true;
    }
    return false;
}

/* FILE, or FILE:ARRAY with a file before some colon: where that is; NULL: no such file. */
static const char *file_end(char *text)
{
    char *colon = text + strlen(text);

    if (access(text, F_OK) == 0)
        return colon;
    while (colon > text) {
        if (*--colon != ':')
            continue;
        *colon = '\0';
        bool file = access(text, F_OK) == 0;
        *colon = ':';
        if (file)
            return colon;
    }
    return NULL;
}

/* Cuts the options off `text` (which is changed). False: a usage error, `bad` is the option. */
static bool cut_options(char *text, struct data_options *o, const char **bad)
{
    char *comma = text, *rest = NULL;
    *o = (struct data_options){.scale = 1};
    if (access(text, F_OK) == 0)
        return true;
    while ((comma = strchr(comma, ','))) { /* the longest part that is a file's name; else up to the first comma */
        *comma = '\0';
        bool file = access(text, F_OK) == 0;
        *comma = ',';
        rest = file || !rest ? comma : rest;
        comma++;
    }
    for (char *at = rest; at;) {
        *at++ = '\0';
        char *next = strchr(at, ',');
        if (next)
            *next = '\0';
        *bad = at;
        if (!read_option(at, o))
            return false;
        if (next)
            *next = ',';
        at = next;
    }
    return true;
}

/* -- Reading ------------------------------------------------------------------------------------------ */

static int bad_option(const struct options *o, const char *given, const char *bad)
{
    return usage_error(
        o,
        "%s: unknown option '%s' of a data file; expected dtype=TYPE, length=, stride=, offset=, limit=N (1 or "
        "more), scale=, mean=, std=X",
        given, bad);
}

/* What `path`, a file's name with an array's where `name` says so, holds for input i. */
static int read_array(const struct options *o, struct data_set *set, int i, const char *path, const char *name,
                      const struct data_options *d)
{
    char error[ERROR_SIZE];
    const struct tccrt_value_info *info = &set->inputs[i];
    struct data_array *a = &set->arrays[i];
    struct data_file *f = data_map(path, error);
    bool found = true, zip = f && data_zip_is(f);
    struct data_options own = *d;

    if (!f)
        return tool_error(o, EXIT_DATA, "%s", error);
    if (name && !zip) {
        data_unref(f);
        return tool_error(o, EXIT_DATA, "%s:%s: only .npz files have named arrays", path, name);
    }
    own.axis = set->axes[i];
    bool ok = zip ? data_zip_array(path, f, name ? name : info->name, &own, info, a, &found, error)
                  : data_array_read(path, f, &own, info, a, error);
    if (!ok && !found && !name) /* the only one, whatever its name */
        ok = data_zip_array(path, f, NULL, &own, info, a, &found, error);
    data_unref(f);
    return ok ? EXIT_FINE : tool_error(o, EXIT_DATA, "%s", error);
}

static int read_named(const struct options *o, struct data_set *set, int i, char *path, const char *given)
{
    struct data_options d;
    const char *bad = "";

    if (!cut_options(path, &d, &bad))
        return bad_option(o, given, bad);
    if (set->arrays[i].file)
        return usage_error(o, "%s: input '%s' has its data already", given, set->inputs[i].name);
    if ((d.scaled || d.mean != 0 || d.std != 0) && !tcc_is_float((enum tcc_dtype)set->inputs[i].dtype))
        return usage_error(o, "%s: scale=, mean= and std= require an input of floats; '%s' is of %s", given,
                           set->inputs[i].name, tcc_dtype_name((enum tcc_dtype)set->inputs[i].dtype));
    char *end = (char *)(uintptr_t)file_end(path), *name = end && *end ? end + 1 : NULL;
    if (name)
        *end = '\0';
    return read_array(o, set, i, path, name, &d);
}

/* FILE.npz[,KEY=VALUE]...: every array that an input is named after. The options are for all of them, those of floats for floats. */
static int read_archive(const struct options *o, struct data_set *set, char *path, const char *given)
{
    char error[ERROR_SIZE];
    const char *bad = "";
    struct data_options d;
    if (!cut_options(path, &d, &bad))
        return bad_option(o, given, bad);
    struct data_file *f = data_map(path, error);
    int code = EXIT_FINE;

    if (!f)
        return tool_error(o, EXIT_DATA, "%s", error);
    if (!data_zip_is(f)) {
        data_unref(f);
        return tool_error(o, EXIT_DATA, "%s: not an .npz file; say which input it is for: NAME=%s", path, path);
    }
    for (int i = 0; i < set->n && code == EXIT_FINE; i++) {
        struct data_options own = d;
        bool found;
        own.axis = set->axes[i];
        if (!tcc_is_float((enum tcc_dtype)set->inputs[i].dtype)) {
            own.scaled = false;
            own.scale = 1;
            own.mean = own.std = 0;
        }
        if (!set->arrays[i].file &&
            !data_zip_array(path, f, set->inputs[i].name, &own, &set->inputs[i], &set->arrays[i], &found, error) &&
            found)
            code = tool_error(o, EXIT_DATA, "%s", error);
    }
    data_unref(f);
    return code;
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
    if (!a->file) {
        list_inputs(set, names, sizeof names);
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
                  int n, struct data_set *set)
{
    int code = EXIT_FINE;
    *set =
        (struct data_set){.n = n, .inputs = inputs, .axes = axes, .arrays = calloc((size_t)n + 1, sizeof *set->arrays)};
    if (!set->arrays)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int k = 0; k < o->given[id].n && code == EXIT_FINE; k++) {
        const char *text = o->given[id].at[k];
        bool file = access(text, F_OK) == 0;
        int i = file ? -1 : input_of(set, text);
        if (i < 0 && !file && strchr(text, '=') && strcspn(text, ",") > strcspn(text, "=")) {
            char names[512];
            list_inputs(set, names, sizeof names);
            code = usage_error(o, "%s: the step has no input of that name, and there is no such file; it reads %s",
                               text, names);
        } else {
            char *path = strdup(i < 0 ? text : text + strlen(inputs[i].name) + 1);
            code = !path   ? tool_error(o, EXIT_ENVIRONMENT, "no memory")
                   : i < 0 ? read_archive(o, set, path, text)
                           : read_named(o, set, i, path, text);
            free(path);
        }
    }
    for (int i = 0; i < n && code == EXIT_FINE; i++)
        code = check_array(o, set, i);
    return code == EXIT_FINE ? check_samples(o, set) : code;
}

void data_set_close(struct data_set *set)
{
    for (int i = 0; set->arrays && i < set->n; i++)
        data_unref(set->arrays[i].file);
    free(set->arrays);
    *set = (struct data_set){0};
}
