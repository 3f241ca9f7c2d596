/* SPDX-License-Identifier: Apache-2.0 */
/* --new-head, --lora, --adapter: from the public options to what is done to a model once it has been read. */
#include "compiler/import/adapter.h"
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

#include <string.h>

/* The adapters of --lora or --adapter; false after a diagnostic. */
static bool read_lora(struct ir_ctx *ctx, const struct tccc_options *o, struct train_lora *l)
{
    if (o->train)
        return train_lora_read(ctx, o->train->lora, l) && train_base_read(ctx, o->train->base, &l->base) &&
               (!l->from || adapter_read(ctx, l->from, l));
    *l = (struct train_lora){0};
    return adapter_read(ctx, o->adapter, l);
}

const char *const *frontend_adapter_files(struct ir_ctx *ctx, const struct tccc_options *o)
{
    struct train_lora l = {.from = o->adapter};
    if (o->train && o->train->lora && !train_lora_read(ctx, o->train->lora, &l))
        return NULL;
    return l.from ? adapter_files(ctx, l.from) : NULL;
}

bool frontend_adapt(struct ir_module *m, const struct tccc_options *o)
{
    const struct tccc_train *t = o->train;
    struct train_head head = {0};
    struct train_lora l;
    if (t && t->new_head && !train_new_head(m, t->new_head, t->head_at, t->seed, &head))
        return false;
    if (!(t ? t->lora : o->adapter))
        return true;
    if (!read_lora(m->ctx, o, &l))
        return false;
    return t ? train_add_lora(m, &l, &head, t->seed) : train_merge_lora(m, &l);
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
