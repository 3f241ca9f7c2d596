/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters as Hugging Face's PEFT stores them (https://huggingface.co/docs/peft): a folder with adapter_config.json
 * (what the numbers are multiplied by) and adapter_model.safetensors, whose tensors are called
 * base_model.model.LAYER.lora_A.weight and .lora_B.weight; others are parameters that were trained whole
 * (modules_to_save, bias).
 */
#include "compiler/import/adapter.h"

#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <string.h>

#define PREFIX "base_model.model."

struct config {
    struct ir_ctx *ctx;
    const char *path;
    double alpha;
    bool by_root; /* use_rslora: alpha / sqrt(r) */
    bool dora;    /* each has a magnitude for each output */
    json_t *root, *patterns;
};

static bool wrong(struct ir_ctx *ctx, const char *path, const char *what)
{
    return ir_error(ctx, &(struct ir_where){.file = path}, "%s", what);
}

const char *const *adapter_files(struct ir_ctx *ctx, const char *folder)
{
    const char **list = IR_NEWN(ctx, 3, const char *);
    list[0] = ir_internf(ctx, "%s/adapter_config.json", folder);
    list[1] = ir_internf(ctx, "%s/adapter_model.safetensors", folder);
    return list;
}

/* -- The configuration ------------------------------------------------------------------------------------------- */

static bool is_true(const json_t *root, const char *key)
{
    return json_is_true(json_object_get(root, key));
}

static bool read_config(struct config *c)
{
    const char *type = json_string_value(json_object_get(c->root, "peft_type"));
    const json_t *alpha = json_object_get(c->root, "lora_alpha");
    if (!type || strcmp(type, "LORA"))
        return wrong(c->ctx, c->path,
                     ir_internf(c->ctx, "adapters of the kind '%s'; LORA is read", type ? type : "none"));
    if (!json_is_number(alpha) || !(json_number_value(alpha) > 0))
        return wrong(c->ctx, c->path, "lora_alpha: a number above 0 is expected");
    c->alpha = json_number_value(alpha);
    c->dora = is_true(c->root, "use_dora");
    c->by_root = is_true(c->root, "use_rslora");
    c->patterns = json_object_get(c->root, "alpha_pattern");
    return true;
}

/* Is the layer one that a key of alpha_pattern means: its name, or the end of it behind a dot? */
static bool key_means(struct ir_ctx *ctx, const char *key, const char *module)
{
    regex_t r;
    if (regcomp(&r, ir_internf(ctx, "^(.*\\.)?(%s)$", key), REG_EXTENDED | REG_NOSUB))
        return false;
    bool found = !regexec(&r, module, 0, NULL, 0);
    regfree(&r);
    return found;
}

static double alpha_for(const struct config *c, const char *module, int64_t rank)
{
    double alpha = c->alpha;
    const char *key;
    json_t *value;
    json_object_foreach(c->patterns, key, value)
    {
        if (json_is_number(value) && key_means(c->ctx, key, module))
            alpha = json_number_value(value);
    }
    return c->by_root ? alpha * sqrt((double)rank) : alpha;
}

/* -- The tensors ------------------------------------------------------------------------------------------------- */

enum part { PART_SAVED, PART_A, PART_B, PART_MAGNITUDE, PART_UNKNOWN };

/* What a tensor's name says, and the layer's or parameter's name. */
static enum part part_of(struct ir_ctx *ctx, const char *name, const char **module)
{
    static const struct {
        const char *end;
        enum part part;
    } ends[] = {{".lora_A.weight", PART_A},
                {".lora_B.weight", PART_B},
                {".lora_A.default.weight", PART_A},
                {".lora_B.default.weight", PART_B},
                {".lora_magnitude_vector", PART_MAGNITUDE},
                {".lora_magnitude_vector.weight", PART_MAGNITUDE},
                {".lora_magnitude_vector.default.weight", PART_MAGNITUDE}};
    if (!strncmp(name, PREFIX, sizeof PREFIX - 1))
        name += sizeof PREFIX - 1;
    size_t n = strlen(name);
    *module = ir_intern(ctx, name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i].end);
        if (n > k && !strcmp(name + n - k, ends[i].end)) {
            *module = ir_internf(ctx, "%.*s", (int)(n - k), name);
            return ends[i].part;
        }
    }
    return strstr(name, ".lora_") ? PART_UNKNOWN : PART_SAVED;
}

static bool is_whole(const struct ir_tensor *a, const struct ir_tensor *b)
{
    return a && b && tcc_is_float((enum tcc_dtype)a->dtype) && tcc_is_float((enum tcc_dtype)b->dtype) && a->rank >= 2 &&
           b->rank == a->rank && a->dims[0] >= 1 && b->dims[1] == a->dims[0] && a->nelems && b->nelems;
}

static bool read_tensors(const struct config *c, const char *path, const struct named_tensors *t, struct train_lora *l)
{
    VEC(struct train_adapter) list = {0};
    VEC(struct train_saved) saved = {0};
    for (int i = 0; i < t->list.n; i++) {
        const struct named_tensor *x = &t->list.at[i];
        const char *module;
        enum part part = part_of(c->ctx, x->name, &module);
        int k = 0;
        if (part == PART_UNKNOWN)
            return wrong(c->ctx, path, ir_internf(c->ctx, "'%s' is no matrix of a layer's adapter", x->name));
        if (part == PART_SAVED) {
            VEC_PUSH(c->ctx, saved, (struct train_saved){module, x->values});
            continue;
        }
        while (k < list.n && strcmp(list.at[k].module, module))
            k++;
        if (k == list.n)
            VEC_PUSH(c->ctx, list, (struct train_adapter){.module = module});
        *(part == PART_A ? &list.at[k].a : part == PART_B ? &list.at[k].b : &list.at[k].magnitude) = x->values;
    }
    for (int k = 0; k < list.n; k++) {
        if (!is_whole(list.at[k].a, list.at[k].b))
            return wrong(c->ctx, path,
                         ir_internf(c->ctx,
                                    "the adapter of '%s' has not two matrices of floats, [r, inputs] and "
                                    "[outputs, r]",
                                    list.at[k].module));
        const struct ir_tensor *m = list.at[k].magnitude;
        if (c->dora != (m && tcc_is_float((enum tcc_dtype)m->dtype)))
            return wrong(c->ctx, path,
                         ir_internf(c->ctx, "the adapter of '%s' has %s, and use_dora is %s", list.at[k].module,
                                    m ? "magnitudes" : "no magnitudes", c->dora ? "true" : "false"));
        list.at[k].alpha = alpha_for(c, list.at[k].module, list.at[k].a->dims[0]);
    }
    if (!list.n)
        return wrong(c->ctx, path, "it holds no adapter");
    VEC_GIVE(list, l->at, l->n);
    VEC_GIVE(saved, l->saved, l->nsaved);
    return true;
}

bool adapter_read(struct ir_ctx *ctx, const char *folder, struct train_lora *l)
{
    const char *const *files = adapter_files(ctx, folder);
    struct config c = {.ctx = ctx, .path = files[0]};
    struct named_tensors tensors = {0};
    json_error_t error;
    char why[256];
    struct ir_file *file = ir_file_get(ctx, files[0], why, sizeof why);
    l->from = folder;
    if (!file)
        return wrong(ctx, files[0], why);
    c.root = json_loadb((const char *)ir_file_data(file), ir_file_size(file), JSON_REJECT_DUPLICATES, &error);
    ir_file_unref(file);
    bool ok = c.root || wrong(ctx, files[0], ir_internf(ctx, "no JSON: %s", error.text));
    ok = ok && read_config(&c) && safetensors_read(ctx, files[1], &tensors) && read_tensors(&c, files[1], &tensors, l);
    json_decref(c.root);
    return ok;
}
