/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a run: files given by --input, and random values for the others. */
#include "ir/ir.h"
#include "tools/run/model_int.h"

#include <stdlib.h>
#include <string.h>

void objects_free(struct tcc_object **list, int n)
{
    for (int i = 0; i < n; i++) {
        if (list[i])
            tccrt_object_unref(list[i]);
        list[i] = NULL;
    }
}

void objects_drop(struct tcc_object **list, int n)
{
    if (list)
        objects_free(list, n);
    free(list);
}

/* The input whose name is the longest that `text` starts with, followed by '='; -1: none. */
static int named_input(const struct model *m, const char *text)
{
    int best = -1;
    size_t length = 0;
    for (int i = 0; i < m->nin; i++) {
        size_t n = strlen(m->in[i].info.name);
        if (strncmp(text, m->in[i].info.name, n) == 0 && text[n] == '=' && (best < 0 || n > length)) {
            best = i;
            length = n;
        }
    }
    return best;
}

/* Of an input of the model whose value is compiled in. */
static const char *fixed_input(const struct model *m, int i)
{
    if (m->artifact)
        return tccrt_fixed_input(m->artifact, m->entry, i);
    for (int k = 0; k < m->module->ndefaults; k++)
        if (!m->module->defaults[k].value && !i--)
            return m->module->defaults[k].input;
    return NULL;
}

static int unknown_input(const struct options *o, const struct model *m, const char *text)
{
    struct ir_known known = {.near = {.word = text, .length = strcspn(text, "=")}};

    for (int i = 0; fixed_input(m, i); i++) {
        const char *name = fixed_input(m, i);
        size_t n = strlen(name);
        if (!strncmp(text, name, n) && text[n] == '=')
            return usage_error(o,
                               "--input=%s: the value of '%s' is compiled in; it can be given after compiling with "
                               "--defaults=all or --defaults='%s'",
                               text, name, name);
    }
    for (int i = 0; i < m->nin; i++)
        ir_known_add(&known, m->in[i].info.name);
    return usage_error(o, "--input=%s: the model has no input of that name%s", text, ir_known_text(&known));
}

/* How often the input is given on the command line. */
static int times_given(const struct options *o, const struct model *m, int input)
{
    int n = 0;
    for (int k = 0; k < o->given[OPT_input].n; k++)
        n += named_input(m, o->given[OPT_input].at[k]) == input;
    return n;
}

int inputs_runs(const struct options *o, const struct model *m, int *runs)
{
    *runs = 1;
    for (int i = 0; i < m->nin; i++) {
        int n = times_given(o, m, i);
        if (n > 1 && *runs > 1 && n != *runs)
            return usage_error(o, "input '%s' is given %d times, another one %d times", m->in[i].info.name, n, *runs);
        *runs = n > 1 ? n : *runs;
    }
    return EXIT_FINE;
}

static int read_given(const struct options *o, const struct model *m, int run, struct tcc_object **inputs)
{
    char error[ERROR_SIZE];
    int *met = calloc((size_t)m->nin + 1, sizeof *met), code = EXIT_FINE;

    if (!met)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int k = 0; k < o->given[OPT_input].n && code == EXIT_FINE; k++) {
        const char *text = o->given[OPT_input].at[k];
        int i = named_input(m, text);
        if (i < 0) {
            code = unknown_input(o, m, text);
            break;
        }
        if (met[i]++ != run && times_given(o, m, i) > 1)
            continue;
        inputs[i] = value_read(text + strlen(m->in[i].info.name) + 1, m->in[i].kind, NULL, error);
        if (!inputs[i])
            code = tool_error(o, EXIT_DATA, "%s", error);
    }
    free(met);
    return code;
}

/* "NAME=N" among the arguments of --dim. */
static bool dim_option(const struct options *o, const char *name, int64_t *value)
{
    size_t n = strlen(name);
    for (int i = 0; i < o->given[OPT_dim].n; i++) {
        const char *text = o->given[OPT_dim].at[i];
        if (strncmp(text, name, n) == 0 && text[n] == '=') {
            *value = strtoll(text + n + 1, NULL, 10);
            return *value >= 0;
        }
    }
    return false;
}

/* Size of axis `axis` in "INPUT=AxBxC" among the arguments of --shape. */
static bool shape_option(const struct options *o, const char *input, int axis, int64_t *value)
{
    size_t n = strlen(input);
    for (int i = 0; i < o->given[OPT_shape].n; i++) {
        const char *text = o->given[OPT_shape].at[i];
        if (strncmp(text, input, n) != 0 || text[n] != '=')
            continue;
        text += n + 1;
        for (int k = 0; k < axis && text; k++)
            if ((text = strchr(text, 'x')) != NULL)
                text++;
        char *end;
        *value = text ? strtoll(text, &end, 10) : -1;
        return text && end != text && *value >= 0;
    }
    return false;
}

/* The size that a dim of that name has in an input that was given. */
static bool given_dim(const struct model *m, struct tcc_object *const *inputs, const char *name, int64_t *value)
{
    for (int i = 0; i < m->nin; i++) {
        const struct tccrt_value_info *info = &m->in[i].info;
        if (!inputs[i] || inputs[i]->kind != TCC_OBJ_TENSOR || inputs[i]->t.rank != info->rank)
            continue;
        for (int k = 0; k < info->rank; k++) {
            if (info->dims[k] < 0 && info->dim_names[k] && strcmp(info->dim_names[k], name) == 0) {
                *value = inputs[i]->t.dims[k];
                return true;
            }
        }
    }
    return false;
}

/* The size that --shape gives to a dim of that name, in any input. */
static bool shaped_dim(const struct options *o, const struct model *m, const char *name, int64_t *value)
{
    for (int i = 0; i < m->nin; i++) {
        const struct tccrt_value_info *info = &m->in[i].info;
        for (int k = 0; k < info->rank; k++)
            if (info->dims[k] < 0 && info->dim_names[k] && strcmp(info->dim_names[k], name) == 0 &&
                shape_option(o, info->name, k, value))
                return true;
    }
    return false;
}

/*
 * Sizes that nobody says: 1, where the model's own bounds allow it, else what is next to it. What else the model asks
 * of sizes (a window that fits, a multiple) only a run knows, which is refused before it computes: then the
 * next ones are tried, one for all open axes.
 */
enum { LARGE = 1 << 24 }; /* elements of an input, which nobody tries */
static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 224, 256, 384, 512};

static int64_t chosen_size(const struct model *m, const struct model_value *v, int axis)
{
    int64_t n = sizes[m->sizes];

    if (v->most[axis] < v->least[axis])
        return n;
    return n < v->least[axis] ? v->least[axis] : n > v->most[axis] ? v->most[axis] : n;
}

/* Dims of input i: symbolic ones are what the command line or the given inputs say, else chosen. */
static void input_dims(const struct options *o, const struct model *m, struct tcc_object *const *given, int i,
                       int64_t *dims)
{
    const struct tccrt_value_info *info = &m->in[i].info;

    for (int k = 0; k < info->rank; k++) {
        const char *name = info->dim_names[k];
        dims[k] = info->dims[k];
        if (dims[k] < 0 && !shape_option(o, info->name, k, &dims[k]) &&
            !(name && given_dim(m, given, name, &dims[k])) && !(name && dim_option(o, name, &dims[k])) &&
            !(name && shaped_dim(o, m, name, &dims[k])))
            dims[k] = chosen_size(m, &m->in[i], k);
    }
}

static struct tcc_object *random_input(const struct options *o, const struct model *m, struct tcc_object *const *given,
                                       int i, uint64_t seed)
{
    const struct tccrt_value_info *info = &m->in[i].info;
    int64_t dims[TCC_MAX_RANK];

    if (m->in[i].kind == VALUE_OPTIONAL || m->in[i].kind == VALUE_DEFAULT)
        return tccrt_object_none();
    if (m->in[i].kind == VALUE_SEQUENCE)
        return tccrt_object_sequence(0);
    input_dims(o, m, given, i, dims);
    return value_random(info->dtype, info->rank < 0 ? 0 : info->rank, dims, seed, i);
}

int inputs_read(const struct options *o, const struct model *m, bool random, int run, struct tcc_object **inputs)
{
    const char *text = option_text(o, OPT_random, "");
    int64_t seed = 0;

    if (*text && !option_int(o, OPT_random, 0, INT64_MAX, &seed))
        return EXIT_USAGE;
    int code = read_given(o, m, run, inputs);
    if (code != EXIT_FINE)
        return code;
    struct tcc_object **made = calloc((size_t)m->nin + 1, sizeof *made);
    if (!made)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < m->nin && code == EXIT_FINE; i++) {
        if (inputs[i])
            continue;
        if (m->in[i].kind == VALUE_OPTIONAL || m->in[i].kind == VALUE_DEFAULT || random || option_set(o, OPT_random))
            made[i] = random_input(o, m, inputs, i, (uint64_t)seed);
        else
            code = usage_error(o, "input '%s' is not given: use --input '%s=FILE' or --random", m->in[i].info.name,
                               m->in[i].info.name);
        if (code == EXIT_FINE && !made[i])
            code = tool_error(o, EXIT_ENVIRONMENT, "no memory for input '%s'", m->in[i].info.name);
    }
    for (int i = 0; i < m->nin; i++)
        if (made[i])
            inputs[i] = made[i];
    free(made);
    return code;
}

bool inputs_resize(const struct options *o, struct model *m, bool random, int run, struct tcc_object **inputs)
{
    bool open = false, large = false;

    if (!random && !option_set(o, OPT_random))
        return false;
    m->sizes += m->sizes + 1 < (int)(sizeof sizes / sizeof *sizes) ? 1 : -m->sizes;
    for (int i = 0; i < m->nin && m->sizes; i++) {
        int64_t dims[TCC_MAX_RANK];
        double elements = 1;
        for (int k = 0; k < m->in[i].info.rank; k++)
            open |= m->in[i].info.dims[k] < 0;
        input_dims(o, m, inputs, i, dims);
        for (int k = 0; k < m->in[i].info.rank; k++)
            elements *= (double)dims[k];
        large |= elements > LARGE;
    }
    if (!open || large) {
        m->sizes = 0;
        return false;
    }
    objects_free(inputs, m->nin);
    return inputs_read(o, m, random, run, inputs) == EXIT_FINE;
}

int inputs_run(const struct options *o, struct model *m, int run, struct tcc_object **in, struct tcc_object **out,
               char *error)
{
    char others[ERROR_SIZE];
    int status = model_run(m, in, out, error);

    while (status == TCC_EINPUT && inputs_resize(o, m, false, run, in))
        status = model_run(m, in, out, others);
    return status;
}
