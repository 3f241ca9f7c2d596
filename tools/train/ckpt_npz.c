/* SPDX-License-Identifier: Apache-2.0 */
/* .npz files as lists of named tensors: read as data files are, written by libzip, stored, so that they can be
 * mapped. */
#include "tools/train/ckpt_tool_int.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

static bool take_array(const char *path, struct tensors *t, char *error)
{
    static const struct tccrt_value_info any;
    static const struct data_options none = {.scale = 1, .axis = -1, .pad = -1};
    struct data_array *a = &t->arrays[t->n];
    bool found;

    if (!data_zip_array(path, t->zip, t->names[t->n], &none, &any, a, &found, error))
        return false;
    t->at[t->n] = (struct tccrt_named){t->names[t->n], {(void *)(uintptr_t)a->at, a->dtype, a->rank, {0}}};
    memcpy(t->at[t->n].t.dims, a->dims, sizeof a->dims);
    t->narrays = ++t->n;
    if (!a->swap)
        return true;
    return put_error(error, "%s: '%s' is big-endian", path, t->names[t->n - 1]);
}

bool npz_open(const char *path, struct tensors *t, char *error)
{
    int n;

    t->zip = data_map(path, error);
    if (!t->zip)
        return false;
    if (!data_zip_is(t->zip) || !(t->names = data_zip_names(t->zip, &n)))
        return put_error(error, "%s: not an .npz file", path);
    t->at = calloc((size_t)n + 1, sizeof *t->at);
    t->arrays = calloc((size_t)n + 1, sizeof *t->arrays);
    bool ok = t->at && t->arrays;
    if (!ok)
        snprintf(error, ERROR_SIZE, "no memory");
    while (ok && t->n < n)
        ok = take_array(path, t, error);
    for (int i = t->n; i < n; i++) { /* names beyond t->n would be nobody's */
        free(t->names[i]);
        t->names[i] = NULL;
    }
    return ok;
}

void tensors_close(struct tensors *t)
{
    for (int i = 0; t->owned && i < t->n; i++)
        free(t->owned[i]);
    for (int i = 0; t->names && i < t->narrays; i++)
        free(t->names[i]);
    for (int i = 0; t->arrays && i < t->narrays; i++)
        data_unref(t->arrays[i].file);
    free(t->owned);
    free(t->names);
    free(t->arrays);
    free(t->at);
    data_unref(t->zip);
    tccrt_tensors_close(t->file);
    *t = (struct tensors){0};
}

bool npz_is(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".npz");
}

static int open_safetensors(const struct options *o, const char *path, struct tensors *t)
{
    int status = tccrt_tensors_open(path, &t->file);
    if (status == TCC_OK && tccrt_tensors_check(t->file) != TCC_OK)
        return tool_error(o, EXIT_DATA, "%s: %s", path, tccrt_error());
    if (status != TCC_OK)
        return tool_error(o, status == TCC_EENV ? EXIT_ENVIRONMENT : EXIT_DATA, "%s", tccrt_error());
    int n = tccrt_tensors_count(t->file);
    if (!(t->at = calloc((size_t)n + 1, sizeof *t->at)))
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < n; i++)
        t->at[i] = *tccrt_tensors_at(t->file, i);
    t->n = n;
    t->meta = tccrt_tensors_meta(t->file, &t->nmeta);
    return EXIT_FINE;
}

/* --use-ema: ema.PARAM stands for PARAM, and whatever else a step keeps of it (ema., master.) is left out. */
static int take_averages(const struct options *o, const char *path, struct tensors *t)
{
    static const char *const kinds[] = {"ema.", "master."};
    int kept = 0, taken = 0;

    for (int i = 0; i < t->n; i++) {
        const char *name = t->at[i].name;
        if (strncmp(name, "ema.", 4) != 0)
            continue;
        for (int k = 0; k < t->n; k++)
            if (!strcmp(t->at[k].name, name + 4)) {
                t->at[k].t = t->at[i].t;
                taken++;
            }
    }
    for (int i = 0; i < t->n; i++) {
        bool drop = false;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            drop |= !strncmp(t->at[i].name, kinds[k], strlen(kinds[k]));
        if (!drop)
            t->at[kept++] = t->at[i];
    }
    t->n = kept;
    return taken ? EXIT_FINE
                 : tool_error(o, EXIT_DATA, "%s: it holds no averages of the parameters (tccc --ema)", path);
}

int tensors_open(const struct options *o, const char *path, struct tensors *t)
{
    char error[ERROR_SIZE];
    int code = EXIT_FINE;

    *t = (struct tensors){0};
    if (!npz_is(path))
        code = open_safetensors(o, path, t);
    else if (!npz_open(path, t, error))
        code = tool_error(o, EXIT_DATA, "%s", error);
    if (code == EXIT_FINE && option_set(o, OPT_use_ema))
        code = take_averages(o, path, t);
    if (code != EXIT_FINE)
        tensors_close(t);
    return code;
}

static bool put_array(zip_t *z, const struct tccrt_named *x)
{
    struct tcc_object o = {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = x->t};
    char *bytes = NULL, name[600];
    size_t size = 0;
    FILE *f = npy_can(&o) ? open_memstream(&bytes, &size) : NULL;

    if (!f)
        return false;
    bool ok = npy_put(f, &o);
    ok = fclose(f) == 0 && ok;
    zip_source_t *source = ok ? zip_source_buffer(z, bytes, size, 1) : NULL;
    if (!source) {
        free(bytes);
        return false;
    }
    snprintf(name, sizeof name, "%.590s.npy", x->name);
    zip_int64_t at = zip_file_add(z, name, source, ZIP_FL_ENC_UTF_8);
    if (at < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(z, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0;
}

bool npz_write(const char *path, int n, const struct tccrt_named *tensors, char *error)
{
    int why = 0;
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &why);
    bool ok = z != NULL;

    for (int i = 0; ok && i < n; i++)
        if (!put_array(z, &tensors[i])) {
            snprintf(error, ERROR_SIZE, "%s: '%s' cannot be written: its type, or no memory", path, tensors[i].name);
            zip_discard(z);
            return false;
        }
    if (ok && zip_close(z) == 0)
        return true;
    snprintf(error, ERROR_SIZE, "cannot write '%s'", path);
    if (z)
        zip_discard(z);
    return false;
}
