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

/* What PEFT has beside W + alpha / r B A, or has done to the model's own weights: what the settings are then of. */
static const struct {
    const char *key, *what;
} variants[] = {
    {"alora_invocation_tokens", "adapters that begin behind certain tokens"},
    {"arrow_config", "adapters that are chosen for each token"},
    {"kasa_config", "adapters with a third matrix"},
    {"layer_replication", "a model some of whose layers are repeated"},
    {"monteclora_config", "adapters that are drawn at random"},
    {"target_parameters", "adapters of parameters that are no layer's weight"},
    {"trainable_token_indices", "single rows of an embedding"},
    {"use_bdlora", "adapters of blocks on a diagonal"},
    {"use_qalora", "adapters of groups of inputs"},
};
/* First values of A and B that PEFT takes out of the weights, which it then changes: the adapter goes with these. */
static const char *const changing[] = {"corda", "loftq", "lora_ga", "olora", "pissa"};

static bool is_set(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) && !(json_is_array(v) && !json_array_size(v)) &&
           !(json_is_object(v) && !json_object_size(v));
}

static bool is_plain(const struct config *c)
{
    const char *first = json_string_value(json_object_get(c->root, "init_lora_weights"));
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (is_set(json_object_get(c->root, variants[i].key)))
            return wrong(c->ctx, c->path, ir_internf(c->ctx, "%s: %s, which are not read", variants[i].key,
                                                     variants[i].what));
    for (size_t i = 0; first && i < sizeof changing / sizeof *changing; i++)
        if (!strncmp(first, changing[i], strlen(changing[i])))
            return wrong(c->ctx, c->path,
                         ir_internf(c->ctx,
                                    "init_lora_weights '%s' has changed the model's own weights: store the adapter by "
                                    "PEFT's save_pretrained(..., path_initial_model_for_weight_conversion=...), or the "
                                    "merged model (merge_and_unload())",
                                    first));
    return true;
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
    return is_plain(c);
}

/* A key of alpha_pattern, one of Python's regular expressions, as POSIX writes it. NULL: it has what POSIX has not. */
static const char *as_posix(struct ir_ctx *ctx, const char *key)
{
    static const struct {
        const char *python, *posix;
    } same[] = {{"\\d", "[0-9]"}, {"(?:", "("}, {"\\-", "-"}, {"\\_", "_"}};
    const char *text = "";
    while (*key) {
        size_t i = 0, n = sizeof same / sizeof *same, each = *key == '\\' && key[1] ? 2 : 1;
        while (i < n && strncmp(key, same[i].python, strlen(same[i].python)))
            i++;
        bool unknown = (*key == '\\' && ((key[1] | 32) >= 'a' && (key[1] | 32) <= 'z')) || !strncmp(key, "(?", 2) ||
                       (strchr("*+?}", *key) && (key[1] == '?' || key[1] == '+'));
        if (i == n && unknown)
            return NULL;
        text = i < n ? ir_internf(ctx, "%s%s", text, same[i].posix) : ir_internf(ctx, "%s%.*s", text, (int)each, key);
        key += i < n ? strlen(same[i].python) : each;
    }
    return text;
}

/* Is the layer one that the key means: its name, or the end of it behind a dot? False after a diagnostic. */
static bool key_means(const struct config *c, const char *key, const char *module, bool *means)
{
    const char *posix = as_posix(c->ctx, key);
    regex_t r;
    if (!posix || regcomp(&r, ir_internf(c->ctx, "^(.*\\.)?(%s)$", posix), REG_EXTENDED | REG_NOSUB))
        return wrong(c->ctx, c->path,
                     ir_internf(c->ctx, "alpha_pattern: '%s' is no regular expression that is read here; name layers",
                                key));
    *means = !regexec(&r, module, 0, NULL, 0);
    regfree(&r);
    return true;
}

/* As PEFT does: the first key that means the layer counts. */
static bool alpha_for(const struct config *c, const char *module, int64_t rank, double *alpha)
{
    bool means = false;
    const char *key;
    json_t *value;
    *alpha = c->alpha;
    json_object_foreach(c->patterns, key, value)
    {
        if (!json_is_number(value) || !(json_number_value(value) > 0))
            return wrong(c->ctx, c->path, ir_internf(c->ctx, "alpha_pattern: '%s': a number above 0 is expected", key));
        if (!key_means(c, key, module, &means))
            return false;
        if (means) {
            *alpha = json_number_value(value);
            break;
        }
    }
    *alpha *= c->by_root ? sqrt((double)rank) : 1;
    return true;
}

/* -- The tensors ------------------------------------------------------------------------------------------------- */

enum part { PART_NONE, PART_SAVED, PART_A, PART_B, PART_MAGNITUDE, PART_UNKNOWN };

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
    /* What PEFT wraps is inside of its own layers: the bias of one that has an adapter, and, with `bias`, what is saved
     * whole, which is there under its own name too, and what it was before. */
    static const char *const inside[] = {".base_layer.", ".modules_to_save."};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const char *at = strstr(name, inside[i]);
        if (at)
            *module = ir_internf(ctx, "%.*s%s", (int)(at - name), name, at + strlen(inside[i]) - 1);
    }
    if (strstr(name, ".original_module."))
        return PART_NONE;
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
        if (part == PART_NONE)
            continue;
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
        if (!alpha_for(c, list.at[k].module, list.at[k].a->dims[0], &list.at[k].alpha))
            return false;
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
