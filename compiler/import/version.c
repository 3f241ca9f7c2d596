/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape versions: what a model does that depends on the sizes of its inputs.
 *
 * An If on sizes whose branches have different ranks, a Squeeze without axes, two sizes that broadcast if one of them
 * turns out to be 1: the importer asks whether a condition on the inputs' dims holds. What can't be proven becomes a
 * *fact*, first taken for true, and the function is imported anew under it; when that is done, the last fact that was
 * taken for true is taken for false, and so on until all cases are there. Each is a function with the facts as guards
 * (struct ir_version). A fact `N = 1` is also put into the inputs' types, so that everything folds that depends on it.
 *
 * A case in which the model is wrong (exporters write branches that make sense for the sizes they saw only) is left
 * out, with a warning; the entry refuses its sizes.
 */
#include "base/format.h"
#include "compiler/import/import.h"

#include <string.h>

/* -- Facts */

struct scope {
    const struct ir_block *inputs;
    bool outside;
};

static void look_up(void *user, ir_expr sym)
{
    struct scope *s = user;
    for (int i = 0; i < s->inputs->nparams; i++) {
        ir_type t = s->inputs->params[i]->type;
        for (int d = 0; t->kind == IR_T_TENSOR && d < t->rank; d++)
            if (t->dim[d] == sym)
                return;
    }
    s->outside = true;
}

bool imp_of_inputs(struct imp *im, ir_expr e)
{
    struct scope s = {im->func->body, false};
    ir_each_sym(e, look_up, &s);
    return !s.outside;
}

struct asked {
    struct imp *im;
    char text[300];
    size_t n;
    int count;
};

static void ask(void *user, ir_expr sym)
{
    struct asked *a = user;
    char option[120];
    snprintf(option, sizeof option, " --dim %.80s=N", sym->name);
    size_t n = strlen(option);
    if (!imp_of_inputs(a->im, sym) || a->n + n >= sizeof a->text || strstr(a->text, option))
        return;
    memcpy(a->text + a->n, option, n + 1);
    a->n += n;
    a->count++;
}

bool imp_open_size(struct imp *im, ir_expr a, ir_expr b, const char *format, ...)
{
    struct asked asked = {.im = im};
    FORMATTED(why, 300, format);
    if (a)
        ir_each_sym(a, ask, &asked);
    if (b)
        ir_each_sym(b, ask, &asked);
    return imp_unsupported(im, "%s%s%s%s", why, asked.n ? " (" : "", asked.text + !!asked.n,
                           asked.count > 1 ? " make them known)"
                           : asked.n       ? " makes it known)"
                                           : "");
}

static bool same_condition(struct imp *im, const struct imp_fact *f, enum tcc_guard op, ir_expr a, ir_expr b)
{
    if (f->op != op)
        return false;
    ir_expr d = ir_sub(im->ctx, a, b), e = ir_sub(im->ctx, f->a, f->b);
    return d == e || (op == TCC_GUARD_EQ && d == ir_mulc(im->ctx, e, -1));
}

/* Is a relation proven, or among the facts, and which way? */
static bool is_known(struct imp *im, enum tcc_guard op, ir_expr a, ir_expr b, bool *truth)
{
    enum ir_tri proven = op == TCC_GUARD_EQ ? ir_expr_eq(im->ctx, a, b) : ir_expr_le(im->ctx, a, b);
    if (proven != IR_MAYBE) {
        *truth = proven == IR_YES;
        return true;
    }
    for (int i = 0; i < im->facts.n; i++) {
        const struct imp_fact *f = &im->facts.at[i];
        if (f->op != TCC_GUARD_BROADCAST && same_condition(im, f, op, a, b)) {
            *truth = f->truth;
            return true;
        }
    }
    return false;
}

bool imp_holds(struct imp *im, enum tcc_guard op, ir_expr a, ir_expr b, bool ask, bool *truth)
{
    if (is_known(im, op, a, b, truth))
        return true;
    if (!ask || im->one_version || !imp_of_inputs(im, a) || !imp_of_inputs(im, b))
        return false;
    VEC_PUSH(im->ctx, im->facts, (struct imp_fact){op, a, b, true, im->b.where.node});
    im->again = true;
    return false;
}

struct sizes {
    struct imp *im;
    int n;
    ir_expr sym[8], some[8]; /* inputs' sizes that e has, and as many symbols that are at least 1 */
};

static void add_size(void *user, ir_expr sym)
{
    struct sizes *s = user;
    for (int i = 0; i < s->n; i++)
        if (s->sym[i] == sym)
            return;
    if (s->n >= 0 && s->n < 8 && sym->lo == 0) {
        s->sym[s->n] = sym;
        s->some[s->n++] = ir_fresh(s->im->ctx, "some", 1, IMP_MAX_DIM);
    } else if (sym->lo < 1) {
        s->n = -1;
    }
}

bool imp_unless_empty(struct imp *im, ir_expr e)
{
    struct sizes s = {.im = im};
    ir_expr zero = ir_const(im->ctx, 0);
    bool empty;
    ir_each_sym(e, add_size, &s);
    if (s.n < 1 || !imp_of_inputs(im, e) ||
        ir_expr_le(im->ctx, zero, ir_subst(im->ctx, e, s.n, s.sym, s.some)) != IR_YES)
        return false;
    for (int i = 0; i < s.n; i++)
        if (!imp_holds(im, TCC_GUARD_EQ, s.sym[i], zero, true, &empty) || empty)
            return false;
    return true;
}

static bool compares(struct imp *im, const struct ir_node *n, bool ask, bool *truth)
{
    ir_expr a, b;
    if (imp_exprs_of(im, n->in[0].value, 1, &a) != 1 || imp_exprs_of(im, n->in[1].value, 1, &b) != 1)
        return false;
    bool swap = n->op == IR_ge || n->op == IR_lt, turn = n->op == IR_ne || n->op == IR_lt || n->op == IR_gt;
    enum tcc_guard op = n->op == IR_eq || n->op == IR_ne ? TCC_GUARD_EQ : TCC_GUARD_LE;
    bool found = imp_holds(im, op, swap ? b : a, swap ? a : b, ask, truth);
    *truth ^= turn;
    return found;
}

bool imp_condition(struct imp *im, const struct ir_value *v, bool ask, bool *truth)
{
    const struct ir_node *n = v->def;
    double value;
    bool left, right;
    if (imp_scalar_of(v, &value)) {
        *truth = value != 0;
        return true;
    }
    if (!n || n->nregions || n->nin < 1 || n->nin > 2 || !ir_is_tensor(n->in[0].value->type))
        return false;
    switch (n->op) {
    case IR_reshape: return imp_condition(im, n->in[0].value, ask, truth);
    case IR_not:
        left = imp_condition(im, n->in[0].value, ask, truth);
        *truth = !*truth;
        return left;
    case IR_and:
    case IR_or:
        *truth = n->op == IR_or; /* the value that decides alone */
        if (imp_condition(im, n->in[0].value, ask, &left)) {
            if (left == *truth)
                return true;
            return imp_condition(im, n->in[1].value, ask, truth);
        }
        return !im->again && imp_condition(im, n->in[1].value, ask, &right) && right == *truth;
    case IR_eq:
    case IR_ne:
    case IR_le:
    case IR_lt:
    case IR_ge:
    case IR_gt: return compares(im, n, ask, truth);
    case IR_cast: {
        ir_expr e;
        bool whole = imp_dtype(v) == TCC_BOOL && imp_exprs_of(im, n->in[0].value, 1, &e) == 1;
        bool found = whole && imp_holds(im, TCC_GUARD_EQ, e, ir_const(im->ctx, 0), ask, truth);
        *truth = !*truth;
        return found || (!whole && imp_dtype(v) == TCC_BOOL && imp_dtype(n->in[0].value) == TCC_BOOL &&
                         imp_condition(im, n->in[0].value, ask, truth));
    }
    default: return false;
    }
}

/* -- Facts in types */

struct unknown {
    struct ir_ctx *ctx;
    ir_expr difference, sym, value;
};

/* difference = c * sym + rest, which is 0: sym is -rest / c where that is certain. */
static void solve(void *user, ir_expr sym)
{
    struct unknown *u = user;
    ir_expr factor, rest;
    int64_t c, r;
    if (u->sym || !ir_linear_in(u->ctx, u->difference, sym, &factor, &rest) || !ir_is_const(factor, &c) || !c)
        return;
    bool constant = ir_is_const(rest, &r);
    if (constant && (r % c || -(r / c) < sym->lo || -(r / c) > sym->hi))
        return;
    if (!constant && c != 1 && c != -1)
        return;
    u->sym = sym;
    u->value = constant ? ir_const(u->ctx, -(r / c)) : ir_mulc(u->ctx, rest, -c);
}

void imp_pin_facts(struct imp *im, int n, ir_type *types)
{
    struct frontend_pins *p = &im->pins;
    ir_expr *from = IR_NEWN(im->ctx, p->n + im->facts.n + 1, ir_expr),
            *to = IR_NEWN(im->ctx, p->n + im->facts.n + 1, ir_expr);
    for (int i = 0; i < p->n; i++) {
        from[i] = p->from[i];
        to[i] = p->to[i];
    }
    p->from = from;
    p->to = to;
    for (int i = 0; i < im->facts.n; i++) {
        const struct imp_fact *f = &im->facts.at[i];
        struct unknown u = {.ctx = im->ctx};
        if (f->op != TCC_GUARD_EQ || !f->truth)
            continue;
        u.difference =
            ir_sub(im->ctx, ir_subst(im->ctx, f->a, p->n, from, to), ir_subst(im->ctx, f->b, p->n, from, to));
        ir_each_sym(u.difference, solve, &u);
        if (!u.sym)
            continue;
        for (int k = 0; k < p->n; k++)
            to[k] = ir_subst(im->ctx, to[k], 1, &u.sym, &u.value);
        from[p->n] = u.sym;
        to[p->n++] = u.value;
    }
    for (int i = 0; i < n; i++)
        types[i] = frontend_pinned_type(im->ctx, p, types[i]);
}

/* -- The cases */

/* Cases that are left out, since the model is wrong at their sizes. */
struct refused {
    int count;
    const char *sizes;
    struct ir_where where;
    char text[600];
};

static const char *fact_text(struct imp *im, const struct imp_fact *f)
{
    struct ir_guard g = {f->op, f->a, f->b};
    return ir_internf(im->ctx, "%s (node '%s')",
                      f->op == TCC_GUARD_BROADCAST ? "sizes that broadcast" : ir_guards_text(im->ctx, 1, &g),
                      f->node ? f->node : "");
}

static bool too_many(struct imp *im)
{
    const char *text = "";
    for (int i = 0; i < im->facts.n; i++)
        text = ir_internf(im->ctx, "%s\n  %s", text, fact_text(im, &im->facts.at[i]));
    struct ir_where w = {.file = im->path};
    return ir_error(
        im->ctx, &w,
        "more than %d versions would be needed, since ranks or shapes depend on conditions on the sizes of the "
        "inputs; --dim name=N "
        "decides some of them:%s",
        IMP_MAX_VERSIONS, text);
}

static struct ir_guard guard_of(struct imp *im, const struct imp_fact *f)
{
    if (f->truth)
        return (struct ir_guard){f->op, f->a, f->b};
    return f->op == TCC_GUARD_EQ ? (struct ir_guard){TCC_GUARD_NE, f->a, f->b}
                                 : (struct ir_guard){TCC_GUARD_LE, ir_addc(im->ctx, f->b, 1), f->a};
}

/* The function's guards: what its combination of sizes takes for granted, then the facts. */
static void set_version(struct imp *im, const char *name)
{
    VEC(struct ir_guard) guards = {0};
    for (int i = 0; i < im->pins.nguards; i++)
        VEC_PUSH(im->ctx, guards, im->pins.guards[i]);
    for (int i = 0; i < im->facts.n; i++)
        if (im->facts.at[i].op != TCC_GUARD_BROADCAST)
            VEC_PUSH(im->ctx, guards, guard_of(im, &im->facts.at[i]));
    for (int i = 0; i < im->pairs.n; i++)
        VEC_PUSH(im->ctx, guards,
                 (struct ir_guard){imp_broadcasting(im) == IMP_ANY ? TCC_GUARD_BROADCAST : TCC_GUARD_EQ,
                                   im->pairs.at[i].a, im->pairs.at[i].b});
    struct ir_version *v = IR_NEW(im->ctx, struct ir_version);
    *v = (struct ir_version){name, im->func->body->nparams, im->pins.general, guards.n, guards.at};
    im->func->version = v;
}

/* Imports one case, until it needs no more facts. Where facts hold its errors are kept in `why`, with the node: a model
 * need not make sense at all sizes. */
static bool import_case(struct imp *im, const struct frontend_options *o, const char *name, struct refused *why,
                        bool (*import)(struct imp *, const struct frontend_options *))
{
    bool fine;
    do {
        im->again = false;
        im->pairs.n = im->joined.n = im->padded.n = 0;
        im->func = ir_func_new(im->module, name);
        if (im->facts.n && why)
            ir_capture(im->ctx, why->text, sizeof why->text);
        fine = import(im, o);
        ir_capture(im->ctx, NULL, 0);
        if (im->again)
            ir_func_remove(im->func);
    } while (im->again && im->facts.n <= IMP_MAX_VERSIONS);
    return fine;
}

/* The sizes of a case whose model is wrong, and why; the first one is told. */
static void note_refused(struct imp *im, struct refused *first, const struct refused *why)
{
    if (first->count++)
        return;
    const char *text = "";
    for (int i = 0; i < im->facts.n; i++) {
        const struct imp_fact *f = &im->facts.at[i];
        bool sizes = f->op == TCC_GUARD_BROADCAST; /* of all pairs: it has no two of its own */
        struct ir_guard g = sizes ? (struct ir_guard){0} : guard_of(im, f);
        text = ir_internf(im->ctx, "%s%s%s", text, i ? ", " : "",
                          sizes ? "sizes that broadcast" : ir_guards_text(im->ctx, 1, &g));
    }
    *first = *why;
    first->count = 1;
    first->sizes = text;
    first->where = im->b.where;
}

/* The next case: the last fact that was taken for true becomes false, those after it are asked anew. */
static bool next_case(struct imp *im)
{
    while (im->facts.n && !im->facts.at[im->facts.n - 1].truth)
        im->facts.n--;
    if (im->facts.n)
        im->facts.at[im->facts.n - 1].truth = false;
    return im->facts.n > 0;
}

bool imp_versions(struct imp *im, const struct frontend_options *o, const char *name,
                  bool (*import)(struct imp *, const struct frontend_options *))
{
    struct frontend_options each = o ? *o : (struct frontend_options){0};
    int n = im->one_version ? 1 : frontend_combinations(im->ctx, &each), made = 0;
    struct ir_func *last = NULL;
    struct refused first = {0};
    if (n < 0)
        return false;
    for (int c = 0; c < n; c++) {
        each.combination = im->one_version ? -1 : c;
        im->joins = c == n - 1; /* what other combinations refuse comes to the last one */
        im->facts.n = 0;
        do {
            struct refused why = {0};
            const char *version = ir_internf(im->ctx, "%s.v%d", name, made);
            bool fine = import_case(im, &each, version, &why, import);
            if (!fine && !im->again && !why.text[0])
                return false;
            if (!fine && !im->again) {
                if (im->refusals.n) /* what the model says is right: tell what is not supported */
                    return ir_func_remove(im->func), import_case(im, &each, version, NULL, import);
                note_refused(im, &first, &why);
                ir_func_remove(im->func);
                continue;
            }
            if (imp_broadcasting(im) == IMP_ANY &&
                !im->pairs.n) { /* with these facts all are equal: that case is there */
                ir_func_remove(im->func);
                continue;
            }
            if (im->again || ++made > IMP_MAX_VERSIONS)
                return too_many(im);
            last = im->func;
            set_version(im, name);
        } while (next_case(im));
    }
    if (first.count)
        ir_diag(im->ctx, &first.where, made ? IR_D_WARNING : IR_D_ERROR, "sizes with %s%s: %s%s", first.sizes,
                made ? " are left out, since the model is wrong there" : "", first.text,
                first.count > 1
                    ? ir_internf(im->ctx, " (and %d more case%s)", first.count - 1, first.count == 2 ? "" : "s")
                    : "");
    if (!made)
        return false;
    if (made == 1 && !last->version->nguards) {
        last->version = NULL;
        last->name = ir_intern(im->ctx, name);
    }
    return true;
}

/* -- State variables */

struct ir_state *imp_state_of(const struct ir_value *v)
{
    bool read = v && v->def && v->def->op == IR_state_read;
    return read ? ir_state_of(v->def) : NULL;
}

/* Reads that nothing uses go; *used marks the states of the others. */
static void drop_reads(struct ir_func *f, bool *used)
{
    for (struct ir_node *n = f->body->first, *next; n; n = next) {
        next = n->next;
        struct ir_state *s = n->op == IR_state_read ? imp_state_of(n->out[0]) : NULL;
        struct ir_node *version = s ? n->in[0].value->def : NULL;
        if (s && ir_has_uses(n->out[0])) {
            used[s->index] = true;
        } else if (s) {
            ir_remove(n);
            if (version && !ir_has_uses(version->out[0]))
                ir_remove(version);
        }
    }
}

/* State variables that no function reads go. */
static void drop_unused_states(struct imp *im)
{
    int n = 0;
    for (struct ir_state *s = im->module->states; s; s = s->next)
        n++;
    bool *used = IR_NEWN(im->ctx, n + 1, bool);
    for (struct ir_func *f = im->module->funcs; f; f = f->next)
        drop_reads(f, used);
    struct ir_state *last = NULL;
    n = 0;
    for (struct ir_state **at = &im->module->states; *at;) {
        if (used[(*at)->index]) {
            last = *at;
            at = &last->next;
        } else {
            *at = (*at)->next;
        }
    }
    for (struct ir_state *s = im->module->states; s; s = s->next)
        s->index = n++;
    im->module->last_state = last;
}

bool imp_main_and_train(struct imp *im, const struct frontend_options *o,
                        bool (*import)(struct imp *, const struct frontend_options *))
{
    if (!imp_versions(im, o, "main", import))
        return false;
    if (!im->training)
        return true;
    im->train = true;
    if (!imp_versions(im, o, "train", import))
        return false;
    drop_unused_states(im);
    return true;
}
