/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --test-data: folders with input_K.pb and output_K.pb. A file belongs to the input (output) whose name it holds, else
 * to number K.
 */
#include "tools/run/model_int.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tolerance_read(const struct options *o, struct tolerance *t)
{
    *t = (struct tolerance){.rtol = 1e-3, .atol = 1e-4};
    if (!option_float(o, OPT_rtol, &t->rtol) || !option_float(o, OPT_atol, &t->atol))
        return EXIT_USAGE;
    if (!option_set(o, OPT_atol_abs))
        return EXIT_FINE;
    if (option_set(o, OPT_atol))
        return usage_error(o, "--atol and --atol-abs exclude each other");
    t->absolute = true;
    return option_float(o, OPT_atol_abs, &t->atol) ? EXIT_FINE : EXIT_USAGE;
}

static int position(const struct model_value *values, int n, const char *name)
{
    for (int i = 0; *name && i < n; i++)
        if (strcmp(values[i].info.name, name) == 0)
            return i;
    return -1;
}

/* Reads file K and finds where it belongs. Its kind is that of value K; should the name say another value of another
 * kind, it is read once more. */
static int read_numbered(const char *path, int k, const struct model_value *values, int n, struct tcc_object **list,
                         char *why)
{
    char *name;
    enum value_kind kind = k < n ? values[k].kind : VALUE_TENSOR;
    struct tcc_object *v = value_read(path, kind, &name, why);

    int at = v ? position(values, n, name) : -1;
    if (v && at >= 0 && values[at].kind != kind) {
        tccrt_object_unref(v);
        v = value_read(path, values[at].kind, NULL, why);
    }
    free(v ? name : NULL);
    if (!v)
        return EXIT_DATA;
    if (at < 0)
        at = k;
    if (at >= n || list[at]) {
        snprintf(why, ERROR_SIZE, at >= n ? "%s: the model has only %d of these" : "%s: number %d is there twice", path,
                 at >= n ? n : at);
        tccrt_object_unref(v);
        return EXIT_DATA;
    }
    list[at] = v;
    return EXIT_FINE;
}

/* Reads all DIR/WORD_K.pb; `found` counts them. */
static int read_folder(const char *dir, const char *word, const struct model_value *values, int n,
                       struct tcc_object **list, int *found, char *why)
{
    char path[PATH_MAX];
    int code = EXIT_FINE;

    for (int k = 0; code == EXIT_FINE; k++) {
        if (snprintf(path, sizeof path, "%s/%s_%d.pb", dir, word, k) >= (int)sizeof path || access(path, F_OK) != 0)
            break;
        code = read_numbered(path, k, values, n, list, why);
        ++*found;
    }
    return code;
}

static int complete_inputs(const struct model *m, struct tcc_object **in, char *why)
{
    for (int i = 0; i < m->nin; i++) {
        if (in[i])
            continue;
        if (m->in[i].kind != VALUE_OPTIONAL && m->in[i].kind != VALUE_DEFAULT)
            return put_error(why, "no file for input '%s'", m->in[i].info.name), EXIT_DATA;
        if (!(in[i] = tccrt_object_none()))
            return EXIT_ENVIRONMENT;
    }
    return EXIT_FINE;
}

static int compare_outputs(const struct model *m, struct tcc_object **got, struct tcc_object **expected,
                           const struct tolerance *t, char *why)
{
    char inner[ERROR_SIZE];

    for (int i = 0; i < m->nout; i++) {
        if (!expected[i])
            return put_error(why, "output '%.200s': no output_K.pb to compare with", m->out[i].info.name), EXIT_DATA;
        if (!value_equal(got[i], expected[i], t, inner))
            return put_error(why, "output '%.100s': %.850s", m->out[i].info.name, inner), EXIT_DATA;
    }
    return EXIT_FINE;
}

int testdata_inputs(const struct model *m, const char *dir, struct tcc_object **in, char *why)
{
    int n = 0, code = read_folder(dir, "input", m->in, m->nin, in, &n, why);

    return code == EXIT_FINE ? complete_inputs(m, in, why) : code;
}

int testdata_run(const struct options *o, struct model *m, const char *dir, const struct tolerance *tolerance,
                 char *why)
{
    struct tcc_object **in = calloc((size_t)m->nin + 1, sizeof *in), **got = calloc((size_t)m->nout + 1, sizeof *got),
                      **expected = calloc((size_t)m->nout + 1, sizeof *expected);
    int code = EXIT_ENVIRONMENT, nout = 0;

    snprintf(why, ERROR_SIZE, "no memory");
    if (in && got && expected)
        code = testdata_inputs(m, dir, in, why);
    if (code == EXIT_FINE)
        code = read_folder(dir, "output", m->out, m->nout, expected, &nout, why);
    if (code == EXIT_FINE && nout == 0) {
        snprintf(why, ERROR_SIZE, "no output_K.pb to compare with");
        code = EXIT_DATA;
    }
    if (code == EXIT_FINE) {
        char error[ERROR_SIZE];
        int status = model_run(m, in, got, error);
        if (status != TCC_OK)
            snprintf(why, ERROR_SIZE, "the run failed: %.900s", error);
        code = status == TCC_OK     ? compare_outputs(m, got, expected, tolerance, why)
               : status == TCC_EENV ? EXIT_ENVIRONMENT
               : status == TCC_EBUG ? EXIT_BUG
                                    : EXIT_DATA;
        if (status == TCC_OK && outputs_write(o, m, 0, got) != EXIT_FINE) {
            snprintf(why, ERROR_SIZE, "the outputs cannot be written");
            code = EXIT_ENVIRONMENT;
        }
    }
    objects_drop(in, m->nin);
    objects_drop(got, m->nout);
    objects_drop(expected, m->nout);
    return code;
}

static int test_one(const struct options *o, struct model *m, const char *dir, const struct tolerance *t)
{
    char why[ERROR_SIZE];
    int code = testdata_run(o, m, dir, t, why);

    if (code == EXIT_FINE)
        printf("%s: passed\n", ir_shown(dir));
    else
        printf("%s: %s\n", ir_shown(dir), ir_shown(why));
    fflush(stdout);
    return code;
}

int testdata_all(const struct options *o, const char *path, const char *const *dirs, int ndirs)
{
    struct model m;
    struct tolerance t;
    int64_t threads = 0;
    int code = tolerance_read(o, &t), worst = EXIT_FINE;

    if (code != EXIT_FINE || !option_int(o, OPT_threads, 1, 4096, &threads))
        return EXIT_USAGE;
    for (int i = 0; i < ndirs; i++)
        if (access(dirs[i], R_OK) != 0)
            return tool_error(o, EXIT_DATA, "cannot open '%s': %m", dirs[i]);
    if ((code = model_open(o, path, &m, NULL)) != EXIT_FINE)
        return code;
    worst = model_session(o, &m, (int)threads, NULL);
    for (int i = 0; i < ndirs && (worst == EXIT_FINE || worst == EXIT_DATA); i++) {
        code = test_one(o, &m, dirs[i], &t);
        worst = code > worst ? code : worst;
    }
    model_close(&m);
    return worst;
}
