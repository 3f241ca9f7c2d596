/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the names in an adapter's files mean in a model. PEFT calls a layer as its model does; a model that was exported
 * in a wrapper has longer names, and so has an adapter that was trained in one: one prefix, of all names, that either
 * the model's or the file's have in front. And exporters fold the transposition of a layer's weight into it, and rename
 * it (val_3, onnx::MatMul_12): a weight that is saved whole is found by its layer, and turned.
 */
#include "passes/train/lora_int.h"

#include <regex.h>
#include <string.h>

bool lora_matches(const char *pattern, const char *name)
{
    regmatch_t whole;
    regex_t r;
    bool found = false;
    if (regcomp(&r, pattern, REG_EXTENDED))
        return false;
    for (const char *at = name; at && !found; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
        found = !regexec(&r, at, 1, &whole, 0) && whole.rm_so == 0 && !at[whole.rm_eo];
    regfree(&r);
    return found;
}

/* What stands before a stored name in the model, or how much of a stored name is not in the model's. */
struct prefix {
    const char *more;
    size_t less;
};

static const char *in_model(struct ir_ctx *ctx, const struct prefix *p, const char *stored)
{
    return p->less ? (strlen(stored) > p->less ? stored + p->less : stored) : ir_internf(ctx, "%s%s", p->more, stored);
}

/* Is one name the other, or its end behind a dot? */
static bool prefix_between(struct ir_ctx *ctx, const char *model, const char *stored, struct prefix *p)
{
    size_t n = strlen(model), k = strlen(stored), most = n > k ? n : k, least = n > k ? k : n;
    const char *longer = n > k ? model : stored, *shorter = n > k ? stored : model;
    if (strcmp(longer + (most - least), shorter) || (most > least && longer[most - least - 1] != '.'))
        return false;
    *p = (struct prefix){ir_internf(ctx, "%.*s", n > k ? (int)(n - k) : 0, model), k > n ? k - n : 0};
    return true;
}

struct names {
    VEC(const char *) list;
};

static bool has_name(const struct names *model, const char *name)
{
    for (int i = 0; i < model->list.n; i++)
        if (!strcmp(model->list.at[i], name))
            return true;
    return false;
}

static int found_with(struct ir_ctx *ctx, const struct names *model, const struct train_lora *l, const struct prefix *p)
{
    int found = 0;
    for (int i = 0; i < l->n; i++)
        found += has_name(model, in_model(ctx, p, l->at[i].module));
    return found;
}

/* The prefix with which most layers are found; of several the shortest. */
static struct prefix prefix_of(struct ir_ctx *ctx, const struct names *model, const struct train_lora *l)
{
    struct prefix best = {.more = ""}, p;
    int most = found_with(ctx, model, l, &best);
    for (int i = 0; i < l->n && most < l->n; i++)
        for (int k = 0; k < model->list.n; k++) {
            int found = prefix_between(ctx, model->list.at[k], l->at[i].module, &p) ? found_with(ctx, model, l, &p) : 0;
            bool shorter = strlen(p.more) + p.less < strlen(best.more) + best.less;
            if (found > most || (found && found == most && shorter)) {
                most = found;
                best = p;
            }
        }
    return best;
}

static bool is_renamed(struct ir_ctx *ctx, const struct dense *d)
{
    return !d->conv && d->by_input && d->param && strcmp(d->param, ir_internf(ctx, "%s.weight", d->module)) &&
           strcmp(d->param, d->module);
}

static bool has_param(const struct ir_module *m, const char *name)
{
    for (const struct ir_state *s = m->states; s; s = s->next)
        if (!strcmp(s->name, name))
            return true;
    return false;
}

static const char *layer_of(struct ir_ctx *ctx, const char *param)
{
    const char *dot = strrchr(param, '.');
    return dot ? ir_internf(ctx, "%.*s", (int)(dot - param), param) : NULL;
}

bool lora_saves(struct ir_module *m, const char *pattern, const char *param)
{
    const char *layer = layer_of(m->ctx, param);
    if (!pattern)
        return false;
    if (lora_matches(pattern, param) || (layer && lora_matches(pattern, layer)))
        return true;
    if (!layer || has_param(m, ir_internf(m->ctx, "%s.lora_A.weight", layer)))
        return false;
    for (const struct ir_state *s = m->states; s; s = s->next) {
        const char *other = layer_of(m->ctx, s->name);
        if (other && !strcmp(other, layer) && lora_matches(pattern, s->name))
            return true;
    }
    return false;
}

/* The layer whose weight, renamed and turned, `name` is: LAYER.weight. */
static bool renamed_weight(struct ir_module *m, const char *name, struct dense *d)
{
    for (struct ir_func *f = m->funcs; f; f = f->next)
        IR_EACH_NODE(n, f->body) {
            if (train_dense_of(n, d) && is_renamed(m->ctx, d) &&
                !strcmp(name, ir_internf(m->ctx, "%s.weight", d->module)))
                return true;
        }
    return false;
}

static struct ir_tensor *turned(struct ir_ctx *ctx, const struct ir_tensor *t)
{
    int64_t dims[2] = {t->dims[1], t->dims[0]};
    struct ir_tensor *out = ir_tensor_new((enum tcc_dtype)t->dtype, 2, dims);
    size_t each = tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    if (!out)
        ir_no_memory(ctx);
    for (int64_t i = 0; i < t->nelems; i++)
        memcpy((char *)(uintptr_t)out->data + (size_t)(i % dims[0] * dims[1] + i / dims[0]) * each, ir_tensor_at(t, i),
               each);
    return out;
}

/* The parameter under PyTorch's name and as PyTorch has it, [outputs, inputs]; who read it reads it turned. */
static void turn_state(struct ir_module *m, const struct dense *d)
{
    static const int64_t perm[] = {1, 0};
    struct ir_state *old = d->state;
    int64_t dims[] = {d->out, d->in};
    struct ir_state *s = ir_state_new(m, ir_internf(m->ctx, "%s.weight", d->module),
                                      ir_tensor_type_i(m->ctx, (enum tcc_dtype)old->type->dtype, 2, dims),
                                      old->init ? turned(m->ctx, old->init) : NULL, old->flags);
    for (struct ir_func *f = m->funcs; f; f = f->next)
        for (struct ir_node *n = f->body->first, *next; n; n = next) {
            next = n->next;
            if (n->op != IR_state_read || ir_state_of(n) != old)
                continue;
            struct ir_builder b = {.ctx = m->ctx, .func = f, .block = n->block, .before = n};
            ir_replace_uses(n->out[0], ir_transpose_by(&b, ir_read_state(&b, s), perm));
            ir_remove(n);
        }
}

const struct train_lora *lora_in_model(struct ir_module *m, const struct train_lora *l)
{
    struct train_lora *out = IR_NEWN(m->ctx, 1, struct train_lora);
    struct train_adapter *at = IR_NEWN(m->ctx, l->n + 1, struct train_adapter);
    struct train_saved *saved = IR_NEWN(m->ctx, l->nsaved + 1, struct train_saved);
    struct names model = {0};
    struct dense d;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        IR_EACH_NODE(n, f->body) {
            if (train_dense_of(n, &d) && !has_name(&model, d.module))
                VEC_PUSH(m->ctx, model.list, d.module);
        }
    struct prefix p = prefix_of(m->ctx, &model, l);
    *out = *l;
    out->at = at;
    out->saved = saved;
    for (int i = 0; i < l->n; i++) {
        at[i] = l->at[i];
        at[i].module = in_model(m->ctx, &p, at[i].module);
    }
    for (int i = 0; i < l->nsaved; i++) {
        const char *name = in_model(m->ctx, &p, l->saved[i].name);
        saved[i] = (struct train_saved){name, l->saved[i].values};
        if (has_param(m, name) || saved[i].values->rank != 2 || !renamed_weight(m, name, &d))
            continue;
        if (d.state)
            turn_state(m, &d);
        else
            saved[i] = (struct train_saved){d.param, turned(m->ctx, saved[i].values)};
    }
    for (int i = 0; l->save && i < model.list.n; i++) {
        const char *name = ir_internf(m->ctx, "%s.weight", model.list.at[i]);
        if (lora_saves(m, l->save, name) && !has_param(m, name) && renamed_weight(m, name, &d) && d.state)
            turn_state(m, &d);
    }
    return out;
}
