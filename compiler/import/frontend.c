/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a model file with the front end that its suffix names, and pins the dims of IR text (ONNX pins its own). */
#include "compiler/import/frontend.h"
#include "compiler/custom_int.h"
#include "passes/pass.h"

#include <string.h>

static ir_type *param_types(struct ir_ctx *ctx, const struct ir_func *f)
{
    ir_type *types = IR_NEWN(ctx, f->body->nparams, ir_type);
    for (int i = 0; i < f->body->nparams; i++)
        types[i] = f->body->params[i]->type;
    return types;
}

static bool pin_func(struct ir_ctx *ctx, const struct frontend_options *o, struct ir_func *f)
{
    struct frontend_pins pins = {0};
    int n = f->body->nparams;
    ir_type *types = param_types(ctx, f);

    if (!frontend_pin(ctx, o, n, f->input_names, types, &pins))
        return false;
    for (int i = 0; i < n; i++)
        f->body->params[i]->type = types[i];
    return pins.n ? pass_substitute(f, pins.n, pins.from, pins.to) : ir_infer_func(f);
}

/* -- Versions of functions of IR text */

struct renamed {
    struct ir_func *f;
    VEC(ir_expr) inputs, from, to; /* inputs: and symbols of state, which are the same in all functions */
};

static void is_input(void *user, ir_expr sym)
{
    struct renamed *r = user;
    VEC_PUSH(r->f->module->ctx, r->inputs, sym);
}

static void rename_sym(void *user, ir_expr sym)
{
    struct renamed *r = user;
    struct ir_ctx *ctx = r->f->module->ctx;

    for (int i = 0; i < r->inputs.n; i++)
        if (r->inputs.at[i] == sym)
            return;
    for (int i = 0; i < r->from.n; i++)
        if (r->from.at[i] == sym)
            return;
    VEC_PUSH(ctx, r->from, sym);
    VEC_PUSH(ctx, r->to, ir_fresh_as(ctx, ir_sym_said(sym), sym->lo, sym->hi));
}

static void each_sym(ir_type t, void (*visit)(void *user, ir_expr sym), struct renamed *r)
{
    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++)
        ir_each_sym(t->dim[i], visit, r);
}

static void rename_in(struct renamed *r, const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nattrs; i++)
            if (n->attrs[i].key == IR_ATTR_syms)
                for (int k = 0; k < n->attrs[i].n; k++)
                    ir_each_sym(n->attrs[i].exprs[k], rename_sym, r);
        for (int i = 0; i < n->nout; i++)
            each_sym(n->out[i]->type, rename_sym, r);
        for (int i = 0; i < n->nregions; i++) {
            for (int k = 0; k < n->regions[i]->nparams; k++)
                each_sym(n->regions[i]->params[k]->type, rename_sym, r);
            rename_in(r, n->regions[i]);
        }
    }
}

/* Sizes that only the run knows are symbols of their own in each version: one function binds a symbol. */
static bool own_symbols(struct ir_func *f)
{
    struct renamed r = {.f = f};

    for (int i = 0; i < f->body->nparams; i++)
        each_sym(f->body->params[i]->type, is_input, &r);
    for (struct ir_state *s = f->module->states; s; s = s->next)
        if (s->sym)
            is_input(&r, s->sym);
    rename_in(&r, f->body);
    return !r.from.n || pass_substitute(f, r.from.n, r.from.at, r.to.at);
}

/* Version number o->combination of f. */
static bool version_func(struct ir_ctx *ctx, const struct frontend_options *o, const struct ir_func *f)
{
    struct frontend_pins pins = {0};
    struct ir_func *g = ir_func_clone(f, ir_internf(ctx, "%s.v%d", f->name, o->combination));
    int n = f->body->nparams;
    ir_type *types = param_types(ctx, f);

    if (!g || !own_symbols(g) || !frontend_pin(ctx, o, n, f->input_names, types, &pins))
        return false;
    for (int i = 0; i < n; i++)
        g->body->params[i]->type = types[i];
    struct ir_version *v = IR_NEW(ctx, struct ir_version);
    *v = (struct ir_version){f->name, n, pins.general, pins.nguards, pins.guards};
    g->version = v;
    return !pins.n || pass_substitute(g, pins.n, pins.from, pins.to);
}

/* Has an input of f a dim that an option, which is a list, names? Others stay as they are. */
static bool has_listed_dim(struct ir_ctx *ctx, const struct frontend_options *o, const struct ir_func *f)
{
    struct frontend_pins pins;
    int n = f->body->nparams;
    ir_type *types = param_types(ctx, f);

    ir_quiet(ctx, true);
    bool has = frontend_pin(ctx, o, n, f->input_names, types, &pins);
    ir_quiet(ctx, false);
    return has;
}

bool frontend_versions(struct ir_module *m, const struct frontend_options *o)
{
    struct frontend_options each = {.dims = frontend_lists(m->ctx, o)};
    int combinations = frontend_combinations(m->ctx, o), n = 0, made = 0;
    struct ir_func **funcs;
    bool versions = false;

    if (combinations <= 1)
        return combinations == 1;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        n++;
    funcs = IR_NEWN(m->ctx, n, struct ir_func *);
    n = 0;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        funcs[n++] = f;
    for (int i = 0; i < n; i++) {
        versions |= funcs[i]->version != NULL;
        if (funcs[i]->version || !has_listed_dim(m->ctx, &each, funcs[i]))
            continue;
        for (each.combination = 0; each.combination < combinations; each.combination++)
            if (!version_func(m->ctx, &each, funcs[i]))
                return false;
        each.combination = 0;
        ir_func_remove(funcs[i]);
        made++;
    }
    if (!made && !versions) /* says what there is */
        return version_func(m->ctx, &each, m->funcs);
    return true;
}

/* The symbol of the first axis of the first input that has one there, if it may be 1; else NULL. */
static ir_expr leading_symbol(const struct ir_func *f)
{
    for (int i = 0; i < f->body->nparams; i++) {
        ir_type t = f->body->params[i]->type;
        if (t->kind == IR_T_TENSOR && t->rank > 0 && t->dim[0]->kind == IR_X_SYM)
            return t->dim[0]->lo <= 1 && t->dim[0]->hi > 1 ? t->dim[0] : NULL;
    }
    return NULL;
}

static void drop_clones(struct ir_func *behind)
{
    while (behind->module->last_func != behind)
        ir_func_remove(behind->module->last_func);
}

void frontend_specialise(struct ir_module *m)
{
    VEC(struct ir_func *) funcs = {0};
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!f->version && leading_symbol(f))
            VEC_PUSH(m->ctx, funcs, f);
    for (int i = 0; i < funcs.n; i++) {
        struct ir_func *f = funcs.at[i], *last = m->last_func;
        const char *dims[] = {ir_internf(m->ctx, "%s=1|*", leading_symbol(f)->name), NULL};
        struct frontend_options each = {.dims = dims};
        /* A model that is wrong at size 1 is none at that size; the function stays for the others. */
        ir_quiet(m->ctx, true);
        bool ok = version_func(m->ctx, &each, f);
        each.combination = 1;
        ok = ok && version_func(m->ctx, &each, f);
        ir_quiet(m->ctx, false);
        if (ok)
            ir_func_remove(f);
        else
            drop_clones(last);
    }
}

static struct ir_module *read_text(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    char error[512];
    struct ir_file *file = ir_file_get(ctx, path, error, sizeof error);
    struct ir_where where = {.file = path};

    if (!file)
        return ir_error(ctx, &where, "%s", error), NULL;
    if (o && o->allow_files)
        ir_allow_files(ctx, o->allow_files);
    struct ir_module *m = ir_parse(ctx, path, (const char *)ir_file_data(file), ir_file_size(file));
    ir_file_unref(file);
    if (m && !m->funcs)
        return ir_error(ctx, &where, "it holds no function"), NULL;
    if (!m)
        return NULL;
    struct frontend_options plain = o ? *o : (struct frontend_options){0};
    plain.combination = -1;
    bool pinned = o && ((o->dims && o->dims[0]) || (o->shapes && o->shapes[0]) || o->split);
    for (struct ir_func *f = m->funcs; f && pinned; f = f->next) {
        if (f->version)
            return ir_error(ctx, &where,
                            "@%s is a shape version: --dim and --shape are for the model that it was made from",
                            f->name),
                   NULL;
        if (!pin_func(ctx, &plain, f))
            return NULL;
    }
    return !pinned || o->training || frontend_versions(m, o) ? m : NULL;
}

struct ir_module *frontend_read(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    const char *dot = strrchr(path, '.'), *suffix = dot ? dot : "";
    if (o && !custom_load(ctx, o->customs))
        return NULL;
    struct ir_module *m = strcmp(suffix, ".tcir") == 0  ? read_text(ctx, path, o)
                          : strcmp(suffix, ".pt2") == 0 ? pt2_import(ctx, path, o)
                                                        : onnx_import(ctx, path, o);
    return m && o && !pass_make_state(m, o->states) ? NULL : m;
}
