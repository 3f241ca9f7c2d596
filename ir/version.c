/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c - shape versions: functions that are one entry point together, each for the sizes that its guards describe.
 * How a call finds its function, what the entry point's results are, the guards in words, and what the verifier asks of
 * them.
 */
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/ir_int.h"

const char *ir_guard_word(enum tcc_guard op)
{
    static const char *const words[TCC_NGUARDS] = {"eq", "ne", "le", "broadcast"};
    return words[op];
}

static const char *guard_text(struct ir_ctx *ctx, const struct ir_guard *g)
{
    static const char *const signs[] = {[TCC_GUARD_EQ] = "=", [TCC_GUARD_NE] = "!=", [TCC_GUARD_LE] = "<="};
    const char *a = ir_expr_text(ctx, g->a), *b = ir_expr_text(ctx, g->b);
    return g->op == TCC_GUARD_BROADCAST ? ir_internf(ctx, "%s and %s broadcast", a, b)
                                        : ir_internf(ctx, "%s %s %s", a, signs[g->op], b);
}

const char *ir_guards_text(struct ir_ctx *ctx, int n, const struct ir_guard *guards)
{
    const char *text = n ? "" : "any size";
    for (int i = 0; i < n; i++)
        text = ir_internf(ctx, "%s%s%s", text, i ? ", " : "", guard_text(ctx, &guards[i]));
    return text;
}

const char *ir_entry_name(const struct ir_func *f)
{
    return f->version ? f->version->entry : f->name;
}

struct ir_func *ir_entry_by_name(struct ir_module *m, const char *entry)
{
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!strcmp(ir_entry_name(f), entry))
            return f;
    return NULL;
}

/* == Choosing == */

struct sizes {
    VEC(struct {
        ir_expr sym;
        int64_t value;
    })
    at;
};

static bool size_of(void *user, ir_expr sym, int64_t *out)
{
    const struct sizes *s = user;
    for (int i = 0; i < s->at.n; i++) {
        if (s->at.at[i].sym == sym) {
            *out = s->at.at[i].value;
            return true;
        }
    }
    return false;
}

static void bind_dims(struct ir_ctx *ctx, struct sizes *s, ir_type t, const struct tcc_object *o)
{
    int64_t known;
    if (!o || o->kind != TCC_OBJ_TENSOR || t->kind != IR_T_TENSOR || t->rank != o->t.rank)
        return;
    for (int d = 0; d < t->rank; d++)
        if (t->dim[d]->kind == IR_X_SYM && !size_of(s, t->dim[d], &known))
            VEC_PUSH(ctx, s->at, (__typeof__(*s->at.at)){t->dim[d], o->t.dims[d]});
}

static bool holds(struct sizes *s, const struct ir_guard *g)
{
    int64_t a, b;
    return ir_eval(g->a, size_of, s, &a) && ir_eval(g->b, size_of, s, &b) && tcc_guard_holds(g->op, a, b);
}

/* The symbols that a call with these inputs binds for a version. */
static struct sizes sizes_of_call(const struct ir_func *f, const struct ir_interp_state *state,
                                  struct tcc_object *const *in)
{
    struct ir_ctx *ctx = f->module->ctx;
    struct sizes s = {0};
    for (const struct ir_state *v = f->module->states; v; v = v->next)
        if (v->sym)
            VEC_PUSH(ctx, s.at, (__typeof__(*s.at.at)){v->sym, it_position(state, v)});
    for (int i = 0; i < f->version->ninputs; i++)
        bind_dims(ctx, &s, f->version->inputs[i], in[i]);
    return s;
}

static bool covers(const struct ir_func *f, struct sizes *s)
{
    for (int i = 0; i < f->version->nguards; i++)
        if (!holds(s, &f->version->guards[i]))
            return false;
    return true;
}

struct ir_func *it_last_version(struct ir_func *f, const struct ir_interp_state *state, struct tcc_object *const *in)
{
    struct ir_func *last = f;
    for (struct ir_func *x = f; x && f->version; x = x->next) {
        if (!x->version || strcmp(x->version->entry, f->version->entry))
            continue;
        struct sizes s = sizes_of_call(x, state, in);
        last = covers(x, &s) ? x : last;
    }
    return last;
}

/* As the run-time library says it (no_version, runtime/run.c). */
static void say_no_version(struct ir_module *m, const char *entry, const struct sizes *s, char *error, size_t size)
{
    char sizes[256] = "", covered[512] = "";
    size_t n = 0;
    for (int i = 0; i < s->at.n && n < sizeof sizes; i++)
        n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%s = %lld", n ? ", " : "", s->at.at[i].sym->name,
                              (long long)s->at.at[i].value);
    n = 0;
    for (const struct ir_func *f = m->funcs; f && n < sizeof covered; f = f->next)
        if (f->version && !strcmp(f->version->entry, entry))
            n += (size_t)snprintf(covered + n, sizeof covered - n, "%s%s", n ? "; " : "",
                                  ir_guards_text(m->ctx, f->version->nguards, f->version->guards));
    snprintf(error, size, "entry point '%s' was not compiled for %s; the sizes that it has versions for: %s", entry,
             sizes, covered);
}

struct ir_func *ir_choose_version(struct ir_module *m, const char *entry, const struct ir_interp_state *state,
                                  struct tcc_object *const *in, char *error, size_t size)
{
    struct sizes s = {0};
    for (struct ir_func *f = m->funcs; f; f = f->next) {
        if (!strcmp(f->name, entry))
            return f;
        if (!f->version || strcmp(f->version->entry, entry))
            continue;
        if (!it_inputs_fit(m->ctx, f->version->ninputs, f->input_names, f->version->inputs, in, error, size))
            return NULL;
        s = sizes_of_call(f, state, in);
        if (covers(f, &s))
            return f;
    }
    say_no_version(m, entry, &s, error, size);
    return NULL;
}

static bool is_there(const struct tcc_object *o)
{
    return o && o->kind != TCC_OBJ_NONE;
}

const char *ir_take_defaults(struct ir_module *m, int needed, struct tcc_object **in)
{
    bool given = false;
    for (int i = 0, at = needed; i < m->ndefaults; i++)
        given |= m->defaults[i].value && is_there(in[at++]);
    for (int i = 0, at = needed - 1; i < m->ndefaults && given; i++) {
        at += m->defaults[i].value != NULL;
        if (m->defaults[i].value && !is_there(in[at]) && !(in[at] = it_to_object(m->defaults[i].value)))
            ir_no_memory(m->ctx);
    }
    return given ? IR_GIVEN : "main";
}

/* == Results == */

static bool same_entry(const struct ir_func *f, const struct ir_func *g)
{
    return g->version && !strcmp(f->version->entry, g->version->entry);
}

/* Is `general` what version f calls `own`, given its guards? */
static bool agrees(struct ir_ctx *ctx, const struct ir_func *f, ir_expr own, ir_expr general)
{
    for (int i = 0; i < f->version->nguards && own != general; i++) {
        const struct ir_guard *g = &f->version->guards[i];
        ir_expr from = g->a->kind == IR_X_SYM ? g->a : g->b, to = from == g->a ? g->b : g->a;
        if (g->op == TCC_GUARD_EQ && from->kind == IR_X_SYM && !ir_uses_sym(to, from)) {
            general = ir_subst(ctx, general, 1, &from, &to);
            own = ir_subst(ctx, own, 1, &from, &to);
        }
    }
    return own == general;
}

ir_type ir_entry_result(const struct ir_func *f, int i, ir_expr unknown)
{
    struct ir_ctx *ctx = f->module->ctx;
    ir_type t = f->body->last->in[i].value->type;
    ir_expr dims[TCC_MAX_RANK];
    if (!f->version)
        return t;
    /* The last version is the most general one. */
    for (const struct ir_func *g = f->module->funcs; g; g = g->next)
        if (same_entry(f, g))
            t = g->body->last->in[i].value->type;
    if (t->kind != IR_T_TENSOR || t->rank < 0)
        return t;
    if (t->rank)
        memcpy(dims, t->dim, (size_t)t->rank * sizeof *dims);
    for (const struct ir_func *g = f->module->funcs; g; g = g->next) {
        ir_type own = same_entry(f, g) ? g->body->last->in[i].value->type : t;
        if (own->kind != IR_T_TENSOR || own->rank != t->rank)
            return ir_unranked_type(ctx, (enum tcc_dtype)t->dtype);
        for (int d = 0; d < t->rank && own != t; d++)
            if (!agrees(ctx, g, own->dim[d], t->dim[d]))
                dims[d] = unknown;
    }
    return ir_tensor_type(ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
}

/* == What must hold == */

struct symbols {
    const struct ir_version *v;
    const struct ir_state *states;
    ir_expr missing;
};

static void look_up(void *user, ir_expr sym)
{
    struct symbols *s = user;
    for (const struct ir_state *x = s->states; x; x = x->next)
        if (x->sym == sym)
            return;
    for (int i = 0; i < s->v->ninputs; i++)
        for (int d = 0; s->v->inputs[i]->kind == IR_T_TENSOR && d < s->v->inputs[i]->rank; d++)
            if (s->v->inputs[i]->dim[d] == sym)
                return;
    s->missing = sym;
}

const char *ir_version_error(struct ir_ctx *ctx, const struct ir_func *f)
{
    const struct ir_version *v = f->version;
    struct symbols s = {v, f->module->states, NULL};
    if (v->ninputs != f->body->nparams)
        return ir_internf(ctx, "@%s has %d inputs, its version %d", v->entry, v->ninputs, f->body->nparams);
    for (const struct ir_func *g = f->module->funcs; g; g = g->next) {
        if (!strcmp(g->name, v->entry))
            return ir_internf(ctx, "@%s is a function, and cannot have versions", v->entry);
        if (!same_entry(f, g))
            continue;
        bool same = g->version->ninputs == v->ninputs && g->body->last && f->body->last &&
                    g->body->last->nin == f->body->last->nin;
        for (int i = 0; i < v->ninputs && same; i++)
            same = g->version->inputs[i] == v->inputs[i] && !strcmp(g->input_names[i], f->input_names[i]);
        if (!same)
            return ir_internf(ctx, "its inputs or results are not those of @%s, another version of @%s", g->name,
                              v->entry);
    }
    for (int i = 0; i < v->ninputs; i++) {
        ir_type t = f->body->params[i]->type;
        if (t->kind != v->inputs[i]->kind || t->dtype != v->inputs[i]->dtype || t->rank != v->inputs[i]->rank)
            return ir_internf(ctx, "input %d is %s, in @%s %s", i, ir_type_text(ctx, t), v->entry,
                              ir_type_text(ctx, v->inputs[i]));
        for (int d = 0; t->kind == IR_T_TENSOR && d < t->rank; d++)
            ir_each_sym(t->dim[d], look_up, &s);
    }
    for (int i = 0; i < v->nguards; i++) {
        ir_each_sym(v->guards[i].a, look_up, &s);
        ir_each_sym(v->guards[i].b, look_up, &s);
    }
    return s.missing ? ir_internf(ctx, "symbol '%s' is no dim of @%s's inputs", s.missing->name, v->entry) : NULL;
}
