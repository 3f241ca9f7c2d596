/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint's adapters (--lora) as Hugging Face's PEFT stores them: DIR/adapter_model.safetensors, with PEFT's
 * prefix before the names, and DIR/adapter_config.json. What else the checkpoint has of the model (a head,
 * BatchNormalization's statistics) goes there too, as modules_to_save.
 */
#include "tools/train/peft_int.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/safe.h"

#define PREFIX "base_model.model."
static const char first[] = ".lora_A.weight", second[] = ".lora_B.weight", factor[] = ".lora_alpha",
                  magnitude[] = ".lora_magnitude_vector";
/* What is the optimizer's, and not the model's. */
static const char *const others[] = {"train.", "optimizer.", "master.", "ema.", "grad."};

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end);
}

static bool is_other(const char *name)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(name, others[i], strlen(others[i])))
            return true;
    return ends_with(name, factor);
}

static bool is_adapter(const char *name)
{
    return !is_other(name) && ends_with(name, first);
}

bool peft_has_adapters(int n, const struct tccrt_named *tensors)
{
    for (int i = 0; i < n; i++)
        if (is_adapter(tensors[i].name))
            return true;
    return false;
}

/* A number as people write it: 16, not 16.0. */
static json_t *number(double v)
{
    return v == (double)(int64_t)v ? json_integer((json_int_t)v) : json_real(v);
}

/* Is the parameter of a layer that has an adapter? Then PEFT has it in there, LAYER.base_layer.NAME. */
static bool is_inner(int n, const struct tccrt_named *tensors, const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    for (int i = 0; dot && !ends_with(name, magnitude) && i < n; i++)
        if (!strncmp(tensors[i].name, name, length) && !strcmp(tensors[i].name + length, first))
            return true;
    return false;
}

/* A layer's name as the regular expression that means it alone. */
static void set_for(json_t *patterns, const char *name, size_t length, double value)
{
    char *key = malloc(2 * length + 2), *to = key;
    if (!key)
        return;
    *to++ = '^';
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '.')
            *to++ = '\\';
        *to++ = name[i];
    }
    *to = 0;
    json_object_set_new(patterns, key, number(value));
    free(key);
}

/* The layer's alpha; its rank where the checkpoint does not say. */
static double alpha_of(int n, const struct tccrt_named *tensors, const char *layer, size_t length, int64_t rank)
{
    for (int i = 0; i < n; i++)
        if (!strncmp(tensors[i].name, layer, length) && !strcmp(tensors[i].name + length, factor))
            return tcc_load_f64((enum tcc_dtype)tensors[i].t.dtype, tensors[i].t.data);
    return (double)rank;
}

static void add_once(json_t *list, const char *name, size_t length)
{
    json_t *text = json_stringn(name, length), *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (json_equal(item, text)) {
            json_decref(text);
            return;
        }
    }
    json_array_append_new(list, text);
}

/* Ranks and alphas of layers: what the first one has holds for all, others are exceptions. */
static void add_layers(json_t *root, int n, const struct tccrt_named *tensors)
{
    json_t *targets = json_array(), *saved = json_array(), *ranks = json_object(), *alphas = json_object();
    double rank = 0, alpha = 0;

    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name, *dot = strrchr(name, '.');
        size_t length = strlen(name) - (sizeof first - 1);

        if (!is_adapter(name)) {
            bool whole = !is_other(name) && !ends_with(name, second) && !ends_with(name, magnitude);
            if (whole && is_inner(n, tensors, name))
                json_object_set_new(root, "bias", json_string("lora_only"));
            else if (whole && dot)
                add_once(saved, name, (size_t)(dot - name));
            continue;
        }
        double r = (double)tensors[i].t.dims[0], a = alpha_of(n, tensors, name, length, tensors[i].t.dims[0]);
        json_array_append_new(targets, json_stringn(name, length));
        if (rank == 0) {
            rank = r;
            alpha = a;
        }
        if (r != rank)
            set_for(ranks, name, length, r);
        if (a != alpha)
            set_for(alphas, name, length, a);
    }
    json_object_set_new(root, "r", number(rank));
    json_object_set_new(root, "lora_alpha", number(alpha));
    json_object_set_new(root, "rank_pattern", ranks);
    json_object_set_new(root, "alpha_pattern", alphas);
    json_object_set_new(root, "target_modules", targets);
    json_object_set_new(root, "modules_to_save", json_array_size(saved) ? saved : json_null());
    if (!json_array_size(saved))
        json_decref(saved);
}

static json_t *config(int n, const struct tccrt_named *tensors)
{
    json_t *root = json_pack("{s:s, s:n, s:n, s:s, s:f, s:b, s:b, s:b, s:b, s:b}", "peft_type", "LORA", "task_type",
                             "base_model_name_or_path", "bias", "none", "lora_dropout", 0.0, "fan_in_fan_out", 0,
                             "inference_mode", 1, "init_lora_weights", 1, "use_rslora", 0, "use_dora", 0);
    for (int i = 0; root && i < n; i++)
        if (!is_other(tensors[i].name) && ends_with(tensors[i].name, magnitude))
            json_object_set_new(root, "use_dora", json_true());
    if (root)
        add_layers(root, n, tensors);
    return root;
}

static int write_config(const struct options *o, const char *path, int n, const struct tccrt_named *tensors)
{
    struct tcr_save save;
    json_t *root = config(n, tensors);
    int code = EXIT_FINE;

    if (!root)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (tcr_save_open(&save, path, TCR_SAVE_STREAM)) {
        code = tool_error(o, EXIT_ENVIRONMENT, "%s: cannot write: %m", path);
    } else {
        json_dumpf(root, save.stream, JSON_INDENT(2) | JSON_SORT_KEYS);
        fputc('\n', save.stream);
        if (tcr_save_commit(&save))
            code = tool_error(o, EXIT_ENVIRONMENT, "%s: cannot write: %m", path);
    }
    json_decref(root);
    return code;
}

static int write_tensors(const struct options *o, const char *path, int n, const struct tccrt_named *tensors)
{
    const struct tccrt_pair meta[] = {{"format", "pt"}};
    struct tccrt_named *list = calloc((size_t)n + 1, sizeof *list);
    int kept = 0, status = list ? TCC_OK : TCC_EENV;

    for (int i = 0; list && i < n && status == TCC_OK; i++) {
        char *name = NULL;
        if (is_other(tensors[i].name))
            continue;
        const char *dot = strrchr(tensors[i].name, '.');
        int layer = is_inner(n, tensors, tensors[i].name) ? (int)(dot - tensors[i].name) : 0;
        if (asprintf(&name, PREFIX "%.*s%s%s", layer, tensors[i].name, layer ? ".base_layer" : "",
                     tensors[i].name + layer) < 0)
            status = TCC_EENV;
        else
            list[kept++] = (struct tccrt_named){name, tensors[i].t};
    }
    int code = status != TCC_OK ? tool_error(o, EXIT_ENVIRONMENT, "no memory") : EXIT_FINE;
    if (code == EXIT_FINE && (status = tccrt_tensors_write(path, kept, list, 1, meta)) != TCC_OK)
        code = tool_error(o, status == TCC_EENV ? EXIT_ENVIRONMENT : EXIT_DATA, "%s", tccrt_error());
    for (int i = 0; i < kept; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
    return code;
}

int peft_write(const struct options *o, const char *folder, int n, const struct tccrt_named *tensors)
{
    char path[PATH_MAX];
    int code;

    if (!peft_has_adapters(n, tensors))
        return tool_error(o, EXIT_DATA, "the checkpoint has no adapters (tccc-train --lora)");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make the folder '%s': %m", folder);
    if (strlen(folder) + 40 > sizeof path)
        return tool_error(o, EXIT_DATA, "the path is too long");
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    if ((code = write_tensors(o, path, n, tensors)) != EXIT_FINE)
        return code;
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    return write_config(o, path, n, tensors);
}
