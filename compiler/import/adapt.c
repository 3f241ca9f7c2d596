/* SPDX-License-Identifier: Apache-2.0 */
/* --new-head, --lora, --adapter, --embed-meta: from the public options to what is done to a model that was read. */
#include "compiler/import/adapter.h"
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

#include <string.h>

static bool read_lora(struct ir_ctx *ctx, const struct tccc_train *t, struct train_lora *l)
{
    return train_lora_read(ctx, t->lora, l) && train_base_read(ctx, t->base, &l->base) &&
           (!l->from || adapter_read(ctx, l->from, l));
}

const char *const *frontend_adapter_files(struct ir_ctx *ctx, const struct tccc_options *o)
{
    struct train_lora l = {0};
    VEC(const char *) files = {0};
    if (o->train && o->train->lora && !train_lora_read(ctx, o->train->lora, &l))
        return NULL;
    const char *const one[] = {l.from, NULL}, *const *folders = l.from ? one : o->adapter;
    for (; folders && *folders; folders++)
        for (const char *const *at = adapter_files(ctx, *folders); *at; at++)
            VEC_PUSH(ctx, files, *at);
    if (o->embed_meta)
        VEC_PUSH(ctx, files, o->embed_meta);
    VEC_PUSH(ctx, files, NULL);
    return files.at;
}

/* --adapter: one is merged, several are put in. */
static bool add_stored(struct ir_module *m, const char *const *folders)
{
    int n = 0;
    while (folders[n])
        n++;
    struct train_lora *l = IR_NEWN(m->ctx, n, struct train_lora);
    for (int i = 0; i < n; i++)
        if (!adapter_read(m->ctx, folders[i], &l[i]))
            return false;
    return n == 1 ? train_merge_lora(m, l) : train_choose_lora(m, n, l);
}

struct frontend_options frontend_options_of(const struct tccc_options *o)
{
    const struct tccc_train *t = o->train;
    return (struct frontend_options){.dims = o->dims,
                                     .shapes = o->shapes,
                                     .customs = o->customs,
                                     .defaults = o->defaults ? o->defaults : "auto",
                                     .states = o->states,
                                     .exact = o->exact,
                                     .allow_files = o->allow_files,
                                     .max_nodes = o->max_nodes,
                                     .training = t != NULL,
                                     .keeps_weights = o->adapter && *o->adapter,
                                     .frozen = t && t->lora,
                                     .sync_bn = t && t->sync_bn,
                                     .own_step = t && !t->loss,
                                     .one_version = t && (t->split || t->memory_budget || t->data_parallel)};
}

bool frontend_adapt(struct ir_module *m, const struct tccc_options *o)
{
    const struct tccc_train *t = o->train;
    struct train_head head = {0};
    struct train_lora l;
    if (t && t->new_head && !train_new_head(m, t->new_head, t->head_at, t->seed, &head))
        return false;
    if (o->embed_meta && !frontend_describe(m, o->embed_meta))
        return false;
    if (!t)
        return !o->adapter || !*o->adapter || add_stored(m, o->adapter);
    return !t->lora || (read_lora(m->ctx, t, &l) && train_add_lora(m, &l, &head, t->seed));
}

/* A parameter's name as a pattern of --optimizer that matches it alone. */
static const char *pattern_of(struct ir_ctx *ctx, const char *name)
{
    VEC(char) out = {0};
    for (; *name; name++) {
        bool glob = strchr("*?[", *name);
        if (glob || strchr(",:;=\\", *name))
            VEC_PUSH(ctx, out, glob ? '[' : '\\');
        VEC_PUSH(ctx, out, *name);
        if (glob)
            VEC_PUSH(ctx, out, ']');
    }
    VEC_PUSH(ctx, out, 0);
    return out.at;
}

const char *frontend_unfreeze(struct ir_module *m, const struct tccc_train *t)
{
    const char *text = t->optimizer ? t->optimizer : "sgd:lr=0.01";
    struct train_head head;
    if (!t->unfreeze_after)
        return t->optimizer;
    if (!train_find_head(m, &head))
        return NULL;
    text = ir_internf(m->ctx, "%s%sfrom=%d", text, strchr(text, ':') ? "," : ":", t->unfreeze_after);
    const char *names[] = {head.weight ? head.weight->name : NULL, head.bias ? head.bias->name : NULL};
    for (int i = 0; i < 2; i++)
        if (names[i])
            text = ir_internf(m->ctx, "%s;%s:from=0", text, pattern_of(m->ctx, names[i]));
    return text;
}
