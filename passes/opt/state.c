/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: an input and an output of a model for inference become one state variable, which the session holds (--state).
 *
 * Where both have the same constant dims, the input is the variable's value and the output its next one. Where the
 * output is the input with new elements behind it along an axis of symbolic size (a cache of keys and values), the
 * variable has room for `capacity` of them: the symbol becomes the value of another variable, the position, which each
 * run advances (struct ir_advance); the new elements overwrite the ones at the position, and whoever read the output
 * reads the part in front of the new position. What lies behind is never read. Where the output is the input with
 * elements overwritten at indices (GroupQueryAttention), the indices tell the place: the input's symbolic size becomes
 * the capacity, and how long the model may say that the cache gets is bounded by it. Caches that are stacked in one
 * tensor are appended to as one (state_stack.c).
 */
#include "base/format.h"
#include "passes/pass.h"
#include "passes/opt/state_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool pass_state_run(struct pass_run *r);

struct pair {
    const char *spec; /* as given, for messages */
    const char *in, *out;
    int64_t axis, capacity; /* -1: not given */
};

struct maker {
    struct ir_ctx *ctx;
    struct ir_module *m;
};

static bool __attribute__((format(printf, 3, 4)))
wrong(const struct maker *k, const struct pair *p, const char *format, ...)
{
    struct ir_where where = {.file = k->m->name};
    FORMATTED(text, 800, format);
    return ir_error(k->ctx, &where, "--state=%s: %s", ir_shown(p->spec), text);
}

/* -- What is asked for ------------------------------------------------------------------------------------------ */

static int input_of(const struct ir_func *f, const char *name)
{
    for (int i = 0; i < f->body->nparams; i++)
        if (!strcmp(f->input_names[i], name))
            return i;
    return -1;
}

static int output_of(const struct ir_func *f, const char *name)
{
    for (int i = 0; i < f->body->last->nin; i++)
        if (!strcmp(ir_output_name(f, i), name))
            return i;
    return -1;
}

static bool has_both(const struct ir_module *m, const char *in, const char *out)
{
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        if (input_of(f, in) >= 0 && output_of(f, out) >= 0)
            return true;
    return false;
}

ir_expr pass_position_symbol(struct ir_ctx *ctx, ir_expr size, int64_t capacity)
{
    if (size->lo >= 0 && size->hi == capacity - 1)
        return size;
    ir_expr sym = ir_sym_bounded(ctx, ir_internf(ctx, "%s.held", size->name), 0, capacity - 1);
    return sym->hi == capacity - 1 ? sym : ir_fresh(ctx, size->name, 0, capacity - 1);
}

/* Takes ",KEY=N" off the end of the text. */
static bool take_number(char *text, const char *key, int64_t *out)
{
    char *comma = strrchr(text, ','), *end;
    size_t n = strlen(key);
    if (!comma || strncmp(comma + 1, key, n) || comma[n + 1] != '=' || !(comma[n + 2] >= '0' && comma[n + 2] <= '9'))
        return false;
    errno = 0;
    *out = strtoll(comma + n + 2, &end, 10);
    if (*end || errno)
        return false;
    *comma = 0;
    return true;
}

/* INPUT:OUTPUT[,axis=K][,capacity=N]. Names may hold colons. */
static bool read_pair(const struct maker *k, const char *spec, struct pair *p, char **names)
{
    char *text = *names = ir_strdup(k->ctx, spec);
    *p = (struct pair){.spec = spec, .axis = -1, .capacity = -1};
    while (take_number(text, "axis", &p->axis) || take_number(text, "capacity", &p->capacity))
        ;
    if (p->capacity == 0 || p->capacity > INT64_C(1) << 40 || p->axis >= TCC_MAX_RANK)
        return wrong(k, p, "an axis below %d and a capacity from 1 on expected", TCC_MAX_RANK);
    if (!strcmp(text, "auto"))
        return true;
    for (char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        *colon = 0;
        if (has_both(k->m, text, colon + 1)) {
            p->in = ir_intern(k->ctx, text);
            p->out = ir_intern(k->ctx, colon + 1);
            return true;
        }
        *colon = ':';
    }
    const char *in = "", *out = "";
    const struct ir_func *f = k->m->funcs;
    for (int i = 0; i < f->body->nparams; i++)
        in = ir_internf(k->ctx, "%s%s'%s'", in, i ? ", " : "", ir_shown(f->input_names[i]));
    for (int i = 0; i < f->body->last->nin; i++)
        out = ir_internf(k->ctx, "%s%s'%s'", out, i ? ", " : "", ir_shown(ir_output_name(f, i)));
    return wrong(k, p, "expected INPUT:OUTPUT[,axis=K][,capacity=N] or auto; the inputs are %s, the outputs %s", in,
                 out);
}

static const struct {
    const char *in, *out;
} known[] = {
#define STATE(in, out, whose) {in, out},
#include "passes/opt/state_names.def"
#undef STATE
};

/* The output's name for an input that the pattern fits; NULL: it doesn't. */
static const char *partner(struct ir_ctx *ctx, const char *name, const char *in, const char *out)
{
    size_t head = strcspn(in, "#");
    if (!in[head])
        return strcmp(name, in) ? NULL : out;
    size_t digits = strlen(name) > head ? strspn(name + head, "0123456789") : 0, before = strcspn(out, "#");
    if (strncmp(name, in, head) || !digits || strcmp(name + head + digits, in + head + 1))
        return NULL;
    return ir_internf(ctx, "%.*s%.*s%s", (int)before, out, (int)digits, name + head, out + before + 1);
}

int64_t pass_state_capacity(struct ir_ctx *ctx, const char *spec, const char *input, int *axis)
{
    char *text = ir_strdup(ctx, spec);
    int64_t capacity = -1, along = -1;
    size_t n = strlen(input);
    while (take_number(text, "axis", &along) || take_number(text, "capacity", &capacity))
        ;
    *axis = (int)along;
    bool named = !strncmp(text, input, n) && text[n] == ':';
    for (size_t i = 0; i < sizeof known / sizeof *known && !named && !strcmp(text, "auto"); i++)
        named = partner(ctx, input, known[i].in, known[i].out) != NULL;
    return named && along < TCC_MAX_RANK ? capacity : -1;
}

static const char *known_partner(const struct maker *k, const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *out = partner(k->ctx, name, known[i].in, known[i].out);
        if (out && has_both(k->m, name, out))
            return out;
    }
    return NULL;
}

/* -- Variables -------------------------------------------------------------------------------------------------- */

/* The position that has that symbol; NULL: none yet. */
static struct ir_state *position_of(const struct ir_module *m, ir_expr sym)
{
    struct ir_state *s = m->states;
    while (s && s->sym != sym)
        s = s->next;
    return s;
}

static bool substitute_everywhere(const struct maker *k, ir_expr from, ir_expr to)
{
    for (struct ir_func *f = k->m->funcs; f; f = f->next) {
        if (!pass_substitute(f, 1, &from, &to))
            return false;
        if (!f->version)
            continue;
        struct ir_version *v = IR_NEW(k->ctx, struct ir_version);
        ir_type *inputs = IR_NEWN(k->ctx, f->version->ninputs + 1, ir_type);
        struct ir_guard *guards = IR_NEWN(k->ctx, f->version->nguards + 1, struct ir_guard);
        *v = *f->version;
        for (int i = 0; i < v->ninputs; i++)
            inputs[i] = pass_subst_type(k->ctx, v->inputs[i], 1, &from, &to);
        for (int i = 0; i < v->nguards; i++)
            guards[i] = (struct ir_guard){v->guards[i].op, ir_subst(k->ctx, v->guards[i].a, 1, &from, &to),
                                          ir_subst(k->ctx, v->guards[i].b, 1, &from, &to)};
        v->inputs = inputs;
        v->guards = guards;
        f->version = v;
    }
    return true;
}

/* The symbol `size` becomes the value of a variable, at most p->capacity. */
static bool make_position(const struct maker *k, const struct pair *p, ir_expr *size)
{
    struct ir_state *s = position_of(k->m, *size);
    if (p->capacity < 0 && !s)
        return wrong(k, p, "input '%s' grows: give the room for it, as in --state=%s,capacity=1024", p->in, p->spec);
    if (s && p->capacity >= 0 && s->sym->hi + 1 != p->capacity)
        return wrong(k, p, "a capacity of %lld is given for the same size", (long long)s->sym->hi + 1);
    if (s)
        return true;
    const char *name =
        ir_state_by_name(k->m, "position") ? ir_internf(k->ctx, "position.%s", (*size)->name) : "position";
    ir_expr sym = pass_position_symbol(k->ctx, *size, p->capacity);
    s = ir_state_new(k->m, name, ir_scalar_type(k->ctx, TCC_I64), NULL, IR_STATE_BUFFER);
    s->sym = sym;
    if (sym != *size && !substitute_everywhere(k, *size, sym))
        return false;
    *size = sym;
    return true;
}

static struct ir_state *variable(const struct maker *k, const struct pair *p, ir_type t, int flags)
{
    struct ir_state *s = ir_state_by_name(k->m, p->in);
    if (!ir_static_dims(t, NULL)) {
        wrong(k, p, "input '%s' is %s: its other dims must be constant (--dim NAME=N)", p->in, ir_type_text(k->ctx, t));
        return NULL;
    }
    if (s && (s->type != t || s->flags != flags)) {
        wrong(k, p, "a state variable '%s' of another type is there already", p->in);
        return NULL;
    }
    return s ? s : ir_state_new(k->m, p->in, t, NULL, flags);
}

/* -- Functions ---------------------------------------------------------------------------------------------------- */

static void drop_input(struct ir_func *f, int i)
{
    struct ir_block *b = f->body;
    if (f->version) {
        struct ir_version *v = IR_NEW(f->module->ctx, struct ir_version);
        ir_type *inputs = IR_NEWN(f->module->ctx, b->nparams, ir_type);
        *v = *f->version;
        for (int k = 0, n = 0; k < v->ninputs; k++)
            if (k != i)
                inputs[n++] = v->inputs[k];
        v->ninputs--;
        v->inputs = inputs;
        f->version = v;
    }
    ir_drop_param(b, i);
    for (int k = i; k < b->nparams; k++)
        f->input_names[k] = f->input_names[k + 1];
}

static bool drop_output(struct ir_func *f, int i)
{
    struct ir_node *end = f->body->last;
    struct ir_builder b = {.ctx = f->module->ctx, .func = f, .block = f->body, .where = end->where};
    struct ir_value **values = IR_NEWN(b.ctx, end->nin + 1, struct ir_value *);
    const char **names = IR_NEWN(b.ctx, end->nin + 1, const char *);
    int n = 0;
    for (int k = 0; k < end->nin; k++) {
        if (k == i)
            continue;
        values[n] = end->in[k].value;
        names[n++] = ir_output_name(f, k);
    }
    ir_remove(end);
    return ir_return(&b, n, values, names) != NULL;
}

/* The axis along which an output is longer than its input; -1: none, -2: several. */
static int growing_axis(const struct pair *p, ir_type in, ir_type out)
{
    int axis = (int)p->axis;
    for (int i = 0; p->axis < 0 && i < in->rank; i++)
        if (in->dim[i] != out->dim[i])
            axis = axis < 0 ? i : -2;
    return axis;
}

struct plain_type {
    const struct ir_func *f;
    ir_expr missing;
};

/* Is the symbol a dim of an input, or a state variable's? */
static void look_up(void *user, ir_expr sym)
{
    struct plain_type *t = user;
    bool found = position_of(t->f->module, sym) != NULL;
    for (int i = 0; i < t->f->body->nparams && !found; i++)
        for (int d = 0; t->f->body->params[i]->type->kind == IR_T_TENSOR && d < t->f->body->params[i]->type->rank; d++)
            found |= t->f->body->params[i]->type->dim[d] == sym;
    if (!found)
        t->missing = sym;
}

/* The symbol in a size that only the run knows; NULL: the inputs and the state tell all. */
static ir_expr unknown_in(const struct ir_func *f, ir_expr size)
{
    struct plain_type t = {f, NULL};
    ir_each_sym(size, look_up, &t);
    return t.missing;
}

static bool advance(const struct maker *k, const struct pair *p, struct ir_func *f, ir_expr size, ir_expr to)
{
    struct ir_state *s = position_of(k->m, size);
    ir_expr unknown = unknown_in(f, to);
    if (unknown)
        return wrong(k, p, "it grows by a size that only the run knows, '%s'", unknown->name);
    for (int i = 0; i < f->nadvances; i++)
        if (f->advances[i].state == s)
            return f->advances[i].to == to || wrong(k, p, "it becomes %s long, another cache of the same size %s",
                                                    ir_expr_text(k->ctx, to), ir_expr_text(k->ctx, f->advances[i].to));
    ir_advance_add(f, s, to);
    return true;
}

/* concat(input, new...) along the axis becomes: the variable with its elements from the position on overwritten. */
static bool append(const struct maker *k, const struct pair *p, struct ir_func *f, struct ir_state *s, int axis,
                   struct ir_value *in, struct ir_value *out)
{
    struct ir_node *c = out->def;
    if (!c || c->op != IR_concat || c->block != f->body || ir_get_i(c, IR_ATTR_axis, 0) != axis || c->nin < 2 ||
        c->in[0].value != in)
        return wrong(k, p, "output '%s' is not input '%s' with new elements behind it along axis %d", p->out, p->in,
                     axis);
    struct ir_builder b = {.ctx = k->ctx, .func = f, .block = f->body, .before = f->body->first, .where = c->where};
    ir_expr zero = ir_const(k->ctx, 0), before = in->type->dim[axis], now = out->type->dim[axis];
    struct ir_value *old = ir_read_state(&b, s), *past = ir_slice_axis(&b, old, axis, zero, before),
                    *news[TCC_MAX_RANK * 2];
    struct ir_value **rest = c->nin <= TCC_MAX_RANK ? news : IR_NEWN(k->ctx, c->nin, struct ir_value *);
    for (int i = 1; i < c->nin; i++)
        rest[i - 1] = c->in[i].value;
    b.before = c;
    struct ir_attr along[] = {ir_attr_i(IR_ATTR_axis, axis), {0}};
    struct ir_value *fresh = c->nin == 2 ? rest[0] : ir_build1(&b, IR_concat, c->nin - 1, rest, along);
    struct ir_value *behind = ir_slice_axis(&b, old, axis, now, ir_sub(k->ctx, s->type->dim[axis], now));
    struct ir_value *pieces[3] = {past, fresh, behind}, *next = ir_build1(&b, IR_concat, 3, pieces, along);
    if (!next || !ir_write_state(&b, s, next))
        return false;
    struct ir_value *present = ir_slice_axis(&b, next, axis, zero, now);
    ir_replace_uses(in, past);
    ir_replace_uses(out, present);
    ir_remove(c);
    return true;
}

/* -- Elements overwritten at indices ---------------------------------------------------------------------------- */

/* Is v `in` with elements overwritten, and perhaps room behind it? */
static bool is_scattered(const struct ir_value *v, const struct ir_value *in)
{
    const struct ir_node *n = v->def;
    if (!n || (n->op != IR_scatter_elements && n->op != IR_scatter_nd))
        return false;
    v = n->in[0].value;
    return v == in || (v->def && v->def->op == IR_pad && v->def->in[0].value == in);
}

struct above {
    int64_t most;
    ir_expr sym;
};

static void find_above(void *user, ir_expr sym)
{
    struct above *a = user;
    if (sym->hi > a->most)
        a->sym = sym;
}

/* The model's input that a run gets the symbol's value from, by its name; NULL: a dim, or something computed. */
static const char *giver_of(const struct ir_module *m, ir_expr sym)
{
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        IR_EACH_NODE(n, f->body) {
            const struct ir_attr *syms = n->op == IR_bind ? ir_attr(n, IR_ATTR_syms) : NULL;
            const struct ir_value *v = syms && syms->n == 1 && syms->exprs[0] == sym ? n->in[0].value : NULL;
            while (v && v->def)
                v = v->def->nin == 1 ? v->def->in[0].value : NULL;
            if (v && v->block == f->body)
                return f->input_names[v->index];
        }
    return NULL;
}

/* A symbol like sym, at most `most`, with a name that says something in messages. */
static ir_expr bounded(const struct maker *k, const struct pair *p, ir_expr sym, int64_t most)
{
    const char *name = giver_of(k->m, sym);
    bool dim = false;
    for (const struct ir_func *f = k->m->funcs; f && !name; f = f->next)
        for (int i = 0; i < f->body->nparams; i++)
            for (int d = 0; f->body->params[i]->type->kind == IR_T_TENSOR && d < f->body->params[i]->type->rank; d++)
                dim |= f->body->params[i]->type->dim[d] == sym;
    if (!name)
        name = ir_internf(k->ctx, dim ? "%s.bounded" : "length of '%s'", dim ? sym->name : p->in);
    return ir_sym_find(k->ctx, name) ? ir_fresh(k->ctx, name, sym->lo, most)
                                     : ir_sym_bounded(k->ctx, name, sym->lo, most);
}

/* No symbol in the output's size along the axis is more than the capacity: a run that says otherwise is refused. */
static bool bound_size(const struct maker *k, const struct pair *p, struct ir_value *const *out, int axis,
                       int64_t capacity)
{
    for (;;) {
        struct above a = {.most = capacity};
        ir_each_sym((*out)->type->dim[axis], find_above, &a);
        if (!a.sym)
            return true;
        if (!substitute_everywhere(k, a.sym, bounded(k, p, a.sym, capacity)))
            return false;
    }
}

static bool make_indexed(const struct maker *k, const struct pair *p, struct ir_value *in, struct ir_value *out,
                         int axis)
{
    ir_expr size = in->type->dim[axis];
    int64_t capacity = p->capacity;
    if (!ir_is_const(size, &capacity) && (size->kind != IR_X_SYM || capacity < 0))
        return wrong(k, p, "input '%s' grows: give the room for it, as in --state=%s,capacity=1024", p->in, p->spec);
    if (p->capacity >= 0 && capacity != p->capacity)
        return wrong(k, p, "input '%s' has room for %lld", p->in, (long long)capacity);
    if (size->kind == IR_X_SYM && !substitute_everywhere(k, size, ir_const(k->ctx, capacity)))
        return false;
    return bound_size(k, p, &out, axis, capacity) &&
           (in->type == out->type || wrong(k, p, "input '%s' is %s, output '%s' %s", p->in,
                                           ir_type_text(k->ctx, in->type), p->out, ir_type_text(k->ctx, out->type)));
}

static bool make_in(const struct maker *k, const struct pair *p, struct ir_func *f)
{
    int i = input_of(f, p->in), o = output_of(f, p->out);
    struct ir_value *in = i < 0 ? NULL : f->body->params[i], *out = o < 0 ? NULL : f->body->last->in[o].value;
    if (!in || !out)
        return true;
    if (!ir_is_tensor(in->type) || !ir_is_tensor(out->type) || in->type->dtype != out->type->dtype ||
        in->type->rank != out->type->rank)
        return wrong(k, p, "input '%s' is %s, output '%s' %s: tensors of one type expected", p->in,
                     ir_type_text(k->ctx, in->type), p->out, ir_type_text(k->ctx, out->type));
    int axis = growing_axis(p, in->type, out->type);
    bool indexed = is_scattered(out, in);
    if (indexed && axis >= 0 && axis < in->type->rank) {
        if (!make_indexed(k, p, in, out, axis))
            return false;
        axis = -1;
    }
    if (!indexed && axis >= 0 && axis < in->type->rank)
        out = pass_unstack(f, in, out, axis);
    if (axis == -2 || axis >= in->type->rank || (axis >= 0 && in->type->dim[axis]->kind != IR_X_SYM))
        return wrong(k, p, "input '%s' is %s, output '%s' %s: equal dims, or one of symbolic size that grows, expected",
                     p->in, ir_type_text(k->ctx, in->type), p->out, ir_type_text(k->ctx, out->type));
    if (axis < 0) {
        struct ir_builder b = {.ctx = k->ctx, .func = f, .block = f->body, .before = f->body->first};
        struct ir_state *s = variable(k, p, in->type, IR_STATE_BUFFER | (indexed ? IR_STATE_CACHE : 0));
        if (!s)
            return false;
        struct ir_value *old = ir_read_state(&b, s);
        ir_replace_uses(in, old);
        b.before = f->body->last;
        if (!ir_write_state(&b, s, f->body->last->in[o].value) || !drop_output(f, o))
            return false;
        drop_input(f, i);
        return true;
    }
    ir_expr size = in->type->dim[axis], dims[TCC_MAX_RANK];
    if (!make_position(k, p, &size))
        return false;
    memcpy(dims, in->type->dim, (size_t)in->type->rank * sizeof *dims);
    dims[axis] = ir_const(k->ctx, size->hi + 1);
    struct ir_state *s = variable(k, p, ir_tensor_type(k->ctx, (enum tcc_dtype)in->type->dtype, in->type->rank, dims),
                                  IR_STATE_BUFFER | IR_STATE_CACHE);
    ir_expr to = out->type->dim[axis];
    if (!s || !append(k, p, f, s, axis, in, out) || !drop_output(f, o))
        return false;
    drop_input(f, i);
    return advance(k, p, f, size, to);
}

/* Shape versions in which the output has a size that only the run knows are left out where others remain: a cache can't
 * grow so. */
static void leave_out_versions(const struct maker *k, const struct pair *p)
{
    for (struct ir_func *f = k->m->funcs, *next; f; f = next) {
        int o = output_of(f, p->out), left = 0;
        ir_type t = o < 0 || input_of(f, p->in) < 0 ? NULL : f->body->last->in[o].value->type;
        bool unknown = false;
        next = f->next;
        for (int d = 0; t && t->kind == IR_T_TENSOR && d < t->rank; d++)
            unknown |= unknown_in(f, t->dim[d]) != NULL;
        for (const struct ir_func *g = k->m->funcs; g && f->version; g = g->next)
            left += g->version && !strcmp(g->version->entry, f->version->entry);
        if (!unknown || left < 2)
            continue;
        ir_detail(k->ctx,
                  "--state=%s: the version for %s is left out: the size of output '%s' is known only after the run",
                  ir_shown(p->spec), ir_guards_text(k->ctx, f->version->nguards, f->version->guards), ir_shown(p->out));
        ir_func_remove(f);
    }
}

static bool make(const struct maker *k, const struct pair *p)
{
    leave_out_versions(k, p);
    for (struct ir_func *f = k->m->funcs; f; f = f->next)
        if (!make_in(k, p, f))
            return false;
    return true;
}

/* All pairs whose names the table knows; what they have in common is in p. */
static bool make_known(const struct maker *k, struct pair *p)
{
    VEC(struct pair) all = {0};
    const struct ir_func *f = k->m->funcs;
    for (int i = 0; i < f->body->nparams; i++) {
        const char *out = known_partner(k, f->input_names[i]);
        if (!out)
            continue;
        struct pair one = *p;
        one.in = f->input_names[i];
        one.out = out;
        VEC_PUSH(k->ctx, all, one);
    }
    if (!all.n)
        return wrong(k, p, "no input and output have names as of the past and the present of a cache (doc/state.md)");
    for (int i = 0; i < all.n; i++)
        if (!make(k, &all.at[i]))
            return false;
    return true;
}

bool pass_make_state(struct ir_module *m, const char *const *specs)
{
    struct maker k = {m->ctx, m};
    for (int i = 0; specs && specs[i]; i++) {
        struct pair p;
        char *names;
        if (!read_pair(&k, specs[i], &p, &names) || !(p.in ? make(&k, &p) : make_known(&k, &p)))
            return false;
    }
    return true;
}

bool pass_state_run(struct pass_run *r)
{
    const char *pair = pass_param(r, "pair", "auto"), *capacity = pass_param(r, "capacity", NULL);
    const char *axis = pass_param(r, "axis", NULL), *spec = pair;
    if (axis)
        spec = ir_internf(pass_ctx(r), "%s,axis=%s", spec, axis);
    if (capacity)
        spec = ir_internf(pass_ctx(r), "%s,capacity=%s", spec, capacity);
    return pass_make_state(pass_module(r), (const char *const[]){spec, NULL});
}
