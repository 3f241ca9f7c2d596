/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - checks everything that a pass may rely on:
 *   links      nodes in their block's list, operands in their value's use list and nothing else, ids in range, unique
 *   order      a value is defined before it is used, in the same block or one around it; terminators end blocks
 *   table      operands and attributes are what the op's row says
 *   types      inference finds the types that the outputs have
 *   symbols    defined before use: by a function's inputs, `bind`, and outputs of ops that define symbols
 *   regions    number, parameters and yields fit their op
 *   state      versions of a variable are overwritten in turn, and regions hand them on (state.c)
 */
#include <string.h>

#include "base/format.h"
#include "ir/ir_int.h"

#define MAX_REPORTS 20

struct verifier {
    struct ir_ctx *ctx;
    const struct ir_module *module;
    const struct ir_func *func;
    enum ir_diag_kind kind;
    int reports;
    uint32_t nvalues;
    const struct ir_value **values; /* by id: met so far */
    bool *visible;                  /* by id: may be used here */
    uint32_t *nuses;                /* by id: operands that hold it */
    VEC(ir_expr) syms;              /* defined here */
};

static bool bad(struct verifier *v, const struct ir_node *n, const char *format, ...)
{
    FORMATTED(text, 1024, format);
    if (v->reports++ >= MAX_REPORTS)
        return false;
    const char *op = n ? ir_op_info(n->op)->name : "", *func = v->func ? v->func->name : "";
    const char *line = ir_internf(v->ctx, "@%s: %s%s%s", func, op, n ? ": " : "", text);
    ir_invalid(v->ctx, n ? &n->where : &(struct ir_where){.file = v->module->name}, v->kind, line);
    return false;
}

/* == Symbols == */

static bool defined(const struct verifier *v, ir_expr sym)
{
    for (int i = v->syms.n - 1; i >= 0; i--) {
        if (v->syms.at[i] == sym)
            return true;
    }
    return false;
}

/* A dim that is a bare symbol defines it. */
static void define_dims(struct verifier *v, ir_type t)
{
    for (int i = 0; t && t->kind == IR_T_TENSOR && i < t->rank; i++) {
        if (t->dim[i]->kind == IR_X_SYM && !defined(v, t->dim[i]))
            VEC_PUSH(v->ctx, v->syms, t->dim[i]);
    }
}

static bool check_expr(struct verifier *v, const struct ir_node *n, ir_expr e)
{
    if (!e)
        return bad(v, n, "an expression is missing");
    if (e->kind == IR_X_SYM && e->extent)
        return bad(v, n, "iteration variable '%s' outside of a kernel", e->name);
    if (e->kind == IR_X_SYM && !defined(v, e))
        return bad(v, n, "symbol '%s' is not defined here", e->name);
    for (int i = 0; i < e->nargs; i++) {
        if (!check_expr(v, n, e->arg[i]))
            return false;
    }
    return true;
}

static bool check_type(struct verifier *v, const struct ir_node *n, ir_type t)
{
    if (!t)
        return bad(v, n, "a type is missing");
    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++) {
        if (!check_expr(v, n, t->dim[i]))
            return false;
    }
    const char *why = ir_type_impossible(t);
    if (why)
        return bad(v, n, "type %s: %s", ir_type_text(v->ctx, t), why);
    return t->kind == IR_T_TENSOR || !t->elem || check_type(v, n, t->elem);
}

/* What is_owner keeps holds when a call begins; a parameter that no variable goes with (sgd's) has its symbol here
 * alone. */
static void define_kept(struct verifier *v, const struct ir_attr *kept)
{
    for (int i = 0; i < kept->n; i++)
        if (kept->exprs[i] && kept->exprs[i]->kind == IR_X_SYM && !defined(v, kept->exprs[i]))
            VEC_PUSH(v->ctx, v->syms, kept->exprs[i]);
}

static bool check_attr_syms(struct verifier *v, const struct ir_node *n, const struct ir_attr *a)
{
    if (n->op == IR_is_owner && a->key == IR_ATTR_kept)
        define_kept(v, a);
    bool ok = a->kind != IR_A_EXPR || check_expr(v, n, a->e);
    for (int i = 0; ok && a->kind == IR_A_EXPRS && i < a->n; i++)
        ok = check_expr(v, n, a->exprs[i]);
    for (int i = 0; ok && a->kind == IR_A_TYPES && i < a->n; i++)
        ok = check_type(v, n, a->types[i]);
    return ok;
}

static bool check_syms(struct verifier *v, const struct ir_node *n)
{
    bool defines = ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS;
    const struct ir_attr *syms = ir_attr(n, IR_ATTR_syms);
    for (int i = 0; defines && syms && i < syms->n; i++) {
        if (syms->exprs[i]->kind != IR_X_SYM || defined(v, syms->exprs[i]))
            return bad(v, n, "'%s' is no new symbol", ir_expr_text(v->ctx, syms->exprs[i]));
        VEC_PUSH(v->ctx, v->syms, syms->exprs[i]);
    }
    for (int i = 0; defines && i < n->nout; i++)
        define_dims(v, n->out[i]->type);
    for (int i = 0; i < n->nattrs; i++) {
        if (!check_attr_syms(v, n, &n->attrs[i]))
            return false;
    }
    for (int i = 0; i < n->nout; i++) {
        if (!check_type(v, n, n->out[i]->type))
            return false;
    }
    return true;
}

/* == Links == */

static bool meet(struct verifier *v, const struct ir_node *n, const struct ir_value *x)
{
    if (!x)
        return bad(v, n, "a value is missing");
    if (x->id >= v->nvalues || v->values[x->id])
        return bad(v, n, "value id %u is out of range or used twice", x->id);
    v->values[x->id] = x;
    v->visible[x->id] = true;
    return true;
}

static bool check_operands(struct verifier *v, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_use *u = &n->in[i];
        if (u->user != n || u->index != i)
            return bad(v, n, "operand %d's use is not its own", i);
        if (!u->value) {
            if (!ir_operand_optional(n->op, i))
                return bad(v, n, "operand %d is missing", i);
            continue;
        }
        if (u->value->id >= v->nvalues || v->values[u->value->id] != u->value || !v->visible[u->value->id])
            return bad(v, n, "operand %d is not defined before it, in its block or one around", i);
        if (!u->prev || *u->prev != u)
            return bad(v, n, "operand %d is not in its value's use list", i);
        v->nuses[u->value->id]++;
    }
    return true;
}

static bool check_outputs(struct verifier *v, const struct ir_node *n)
{
    int nout = ir_op_info(n->op)->nout;
    if (nout >= 0 && n->nout != nout)
        return bad(v, n, "has %d outputs, must have %d", n->nout, nout);
    for (int i = 0; i < n->nout; i++) {
        if (!meet(v, n, n->out[i]))
            return false;
        if (n->out[i]->def != n || n->out[i]->index != i || n->out[i]->block != n->block)
            return bad(v, n, "output %d's definition is not its own", i);
    }
    return true;
}

/* Runs inference again and puts the types back. */
static bool check_types(struct verifier *v, const struct ir_node *n)
{
    char why[512];
    ir_type small[8], *old = n->nout <= 8 ? small : IR_NEWN(v->ctx, n->nout, ir_type);
    for (int i = 0; i < n->nout; i++) {
        old[i] = n->out[i]->type;
        if (!old[i])
            return bad(v, n, "output %d has no type", i);
    }
    ir_capture(v->ctx, why, sizeof why);
    bool ok = ir_infer_node(v->ctx, (struct ir_node *)n);
    ir_capture(v->ctx, NULL, 0);
    if (!ok)
        bad(v, n, "inference fails: %s", why);
    for (int i = 0; i < n->nout; i++) {
        ir_type now = n->out[i]->type;
        n->out[i]->type = old[i];
        if (ok && now != old[i])
            ok = bad(v, n, "output %d has type %s, inference finds %s", i, ir_type_text(v->ctx, old[i]),
                     ir_type_text(v->ctx, now));
    }
    return ok;
}

/* == Regions == */

/* May a value of type `from` become one of type `to`? Element type and rank must be equal, dims not known to differ. A
 * symbol that `to` defines is whatever comes: in a loop's parameter, of each iteration anew. */
static bool fits(struct verifier *v, ir_type from, ir_type to)
{
    if (from == to)
        return true;
    if (from->kind == IR_T_VERSION || from->kind != to->kind || from->dtype != to->dtype || from->rank != to->rank)
        return false;
    if (from->kind != IR_T_TENSOR)
        return !from->elem || !to->elem || fits(v, from->elem, to->elem);
    for (int i = 0; i < from->rank; i++) {
        bool defines = to->dim[i]->kind == IR_X_SYM && !defined(v, to->dim[i]);
        if (!defines && ir_expr_eq(v->ctx, from->dim[i], to->dim[i]) == IR_NO)
            return false;
    }
    return true;
}

static bool fits_operand(struct verifier *v, const struct ir_node *n, const struct ir_node *yield, int i, ir_type to)
{
    ir_type from = yield->in[i].value ? yield->in[i].value->type : NULL;
    return (from && fits(v, from, to)) || bad(v, n, "operand %d of yield is %s, must be %s", i,
                                              from ? ir_type_text(v->ctx, from) : "missing", ir_type_text(v->ctx, to));
}

static bool check_if(struct verifier *v, const struct ir_node *n)
{
    if (n->nregions != 2)
        return bad(v, n, "has %d regions, must have 2", n->nregions);
    for (int r = 0; r < 2; r++) {
        const struct ir_node *yield = n->regions[r]->last;
        if (n->regions[r]->nparams)
            return bad(v, n, "region %d has parameters", r);
        if (yield->nin != n->nout)
            return bad(v, n, "region %d yields %d values, must yield %d", r, yield->nin, n->nout);
        for (int i = 0; i < n->nout; i++) {
            if (!fits_operand(v, n, yield, i, n->out[i]->type))
                return false;
        }
    }
    return true;
}

static bool check_loop(struct verifier *v, const struct ir_node *n)
{
    int carried = n->nin - 2, nscan = n->nout - carried;
    if (n->nregions != 1)
        return bad(v, n, "has %d regions, must have 1", n->nregions);
    const struct ir_block *b = n->regions[0];
    const struct ir_node *yield = b->last;
    if (b->nparams != carried + 2 || b->params[0]->type != ir_scalar_type(v->ctx, TCC_I64) ||
        b->params[1]->type != ir_scalar_type(v->ctx, TCC_BOOL))
        return bad(v, n, "the region must have parameters i64[], bool[] and %d carried values", carried);
    if (yield->nin != 1 + carried + nscan)
        return bad(v, n, "the region yields %d values, must yield %d", yield->nin, 1 + carried + nscan);
    if (!fits_operand(v, n, yield, 0, ir_scalar_type(v->ctx, TCC_BOOL)))
        return false;
    for (int i = 0; i < carried; i++) {
        ir_type param = b->params[i + 2]->type;
        if (!n->in[i + 2].value || !fits(v, n->in[i + 2].value->type, param))
            return bad(v, n, "carried value %d does not fit its parameter, %s", i, ir_type_text(v->ctx, param));
        if (!fits_operand(v, n, yield, i + 1, param) || !fits_operand(v, n, yield, i + 1, n->out[i]->type))
            return false;
    }
    for (int i = 0; i < nscan; i++) {
        ir_type whole = n->out[carried + i]->type,
                one = yield->in[1 + carried + i].value ? yield->in[1 + carried + i].value->type : NULL;
        if (!one || one->kind != IR_T_TENSOR || whole->kind != IR_T_TENSOR || whole->dtype != one->dtype ||
            (one->rank >= 0 && whole->rank >= 0 && whole->rank != one->rank + 1))
            return bad(v, n, "output %d does not stack what operand %d of yield gives", carried + i, 1 + carried + i);
    }
    return true;
}

static bool check_block(struct verifier *v, const struct ir_block *b, const struct ir_node *parent);

static bool check_regions(struct verifier *v, const struct ir_node *n)
{
    if (!(ir_op_info(n->op)->flags & IR_F_REGIONS))
        return n->nregions == 0 || bad(v, n, "must not have regions");
    for (int i = 0; i < n->nregions; i++) {
        if (!check_block(v, n->regions[i], n))
            return false;
    }
    return n->op == IR_if ? check_if(v, n) : check_loop(v, n);
}

/* == Blocks == */

static bool check_node(struct verifier *v, const struct ir_block *b, const struct ir_node *n)
{
    bool last = !n->next, terminator = ir_op_info(n->op)->flags & IR_F_TERMINATOR;
    if (n->op <= IR_OP_NONE || n->op >= IR_NOPS)
        return bad(v, NULL, "node %u has no op", n->id);
    if (n->block != b || (last && b->last != n) || (n->next && n->next->prev != n) ||
        (n->prev ? n->prev->next != n : b->first != n))
        return bad(v, n, "is not linked into its block");
    if (terminator != last)
        return bad(v, n, last ? "ends a block, but is no terminator" : "is a terminator in the middle of a block");
    if (terminator && (n->op == IR_return) != !b->parent)
        return bad(v, n, "functions end in return, regions in yield");
    if (!check_operands(v, n))
        return false;
    /* Regions see what is defined before the node, not its own outputs. */
    return check_regions(v, n) && check_outputs(v, n) && check_types(v, n) && check_syms(v, n);
}

/* What a block defines is not visible after it. */
static void hide(struct verifier *v, const struct ir_block *b)
{
    for (int i = 0; i < b->nparams; i++)
        v->visible[b->params[i]->id] = false;
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nout; i++)
            v->visible[n->out[i]->id] = false;
    }
}

static bool check_block(struct verifier *v, const struct ir_block *b, const struct ir_node *parent)
{
    int nsyms = v->syms.n;
    if (b->func != v->func || b->parent != parent)
        return bad(v, parent, "a block's function or parent is wrong");
    if (!b->last)
        return bad(v, parent, "a block is empty, it must end in %s", parent ? "yield" : "return");
    for (int i = 0; i < b->nparams; i++) {
        const struct ir_value *x = b->params[i];
        if (!meet(v, parent, x))
            return false;
        if (x->def || x->block != b || x->index != i)
            return bad(v, parent, "parameter %d is not the block's own", i);
        define_dims(v, x->type);
    }
    for (int i = 0; i < b->nparams; i++) {
        if (!check_type(v, parent, b->params[i]->type))
            return false;
    }
    IR_EACH_NODE(n, b) {
        if (!check_node(v, b, n))
            return false;
    }
    hide(v, b);
    v->syms.n = nsyms;
    return true;
}

/* == Functions and modules == */

static bool check_uses(struct verifier *v)
{
    for (uint32_t id = 0; id < v->nvalues; id++) {
        const struct ir_value *x = v->values[id];
        uint32_t n = 0;
        for (const struct ir_use *u = x ? x->uses : NULL; u; u = u->next) {
            if (u->value != x || n++ > v->nuses[id])
                return bad(v, x->def, "the use list of value %u is broken", id);
        }
        if (x && n != v->nuses[id])
            return bad(v, x->def, "value %u has %u uses in its list, %u operands hold it", id, n, v->nuses[id]);
    }
    return true;
}

static bool check_func(struct verifier *v, const struct ir_func *f)
{
    v->func = f;
    v->nvalues = f->nvalues;
    struct ir_arena *scratch = ir_arena_new(v->ctx);
    v->values = ir_arena_alloc(scratch, (f->nvalues + 1u) * sizeof *v->values);
    v->visible = ir_arena_alloc(scratch, (f->nvalues + 1u) * sizeof *v->visible);
    v->nuses = ir_arena_alloc(scratch, (f->nvalues + 1u) * sizeof *v->nuses);
    v->syms.n = 0;
    for (const struct ir_state *s = v->module->states; s; s = s->next)
        for (int i = 0; i < 2; i++)
            if ((i ? s->owner : s->sym) && !defined(v, i ? s->owner : s->sym))
                VEC_PUSH(v->ctx, v->syms, i ? s->owner : s->sym);
    bool ok = f->module == v->module || bad(v, NULL, "belongs to another module");
    ok = ok && check_block(v, f->body, NULL) && check_uses(v);
    for (int i = 0; ok && i < f->body->nparams; i++)
        define_dims(v, f->body->params[i]->type);
    for (int i = 0; ok && i < f->nadvances; i++)
        ok = f->advances[i].state->sym
                 ? check_expr(v, NULL, f->advances[i].to)
                 : bad(v, NULL, "'%s', which advances, has no symbol", f->advances[i].state->name);
    const struct ir_node *node = NULL;
    const char *state = ok ? ir_state_error(f, &node) : NULL;
    ok = ok && (!state || bad(v, node, "%s", state));
    const char *problem = ok && f->version ? ir_version_error(v->ctx, f) : NULL;
    ok = ok && (!problem || bad(v, NULL, "%s", problem));
    ir_arena_free(scratch);
    return ok;
}

static bool check_state(struct verifier *v, const struct ir_state *s)
{
    int64_t dims[TCC_MAX_RANK];
    if (!s->type || !ir_is_tensor(s->type) || !ir_static_dims(s->type, dims))
        return bad(v, NULL, "state variable '%s' must be a tensor with constant dims", s->name);
    if (s->shard.parts &&
        (s->shard.parts < 2 || s->shard.blocks < 1 || s->shard.axis < 0 || s->shard.axis >= s->type->rank ||
         dims[s->shard.axis] % s->shard.blocks || s->shard.padding < 0 ||
         (s->shard.padding && (s->shard.blocks > 1 || s->shard.padding >= dims[s->shard.axis] * s->shard.parts))))
        return bad(v, NULL, "state variable '%s' is a part of nothing", s->name);
    if (s->init &&
        ir_tensor_type_i(v->ctx, s->init->dtype, s->init->rank, s->init->dims) != ir_state_whole_type(v->ctx, s))
        return bad(v, NULL, "the initial value of state variable '%s' is not of its type", s->name);
    if (s->sym && (s->sym->kind != IR_X_SYM || s->sym->lo < 0 || s->type != ir_scalar_type(v->ctx, TCC_I64)))
        return bad(v, NULL, "state variable '%s': i64[] and a symbol that is not negative expected", s->name);
    if (s->owner && (s->owner->kind != IR_X_SYM || s->owner->lo < 0 || s->owner->hi > 1))
        return bad(v, NULL, "state variable '%s': the symbol that says who owns it is 0 or 1", s->name);
    for (const struct ir_state *o = s->next; o; o = o->next) {
        if (o->name == s->name)
            return bad(v, NULL, "two state variables are named '%s'", s->name);
        if (s->sym && o->sym == s->sym)
            return bad(v, NULL, "state variables '%s' and '%s' have the same symbol", s->name, o->name);
    }
    return true;
}

/* @main.given has the inputs of @main, then those that may be given. */
static bool check_defaults(struct verifier *v)
{
    const struct ir_func *main = ir_entry_by_name((struct ir_module *)v->module, "main");
    const struct ir_func *given = ir_entry_by_name((struct ir_module *)v->module, IR_GIVEN);
    int at = main ? main->body->nparams : 0, n = at;
    for (int i = 0; i < v->module->ndefaults; i++)
        n += v->module->defaults[i].value != NULL;
    v->func = given;
    if (n == at)
        return true;
    if (!main || !given || given->body->nparams != n || given->body->last->nin != main->body->last->nin)
        return bad(v, NULL, "inputs with values of their own: @" IR_GIVEN " is not @main with these as further inputs");
    for (int i = 0; i < v->module->ndefaults; i++) {
        const struct ir_default *d = &v->module->defaults[i];
        ir_type t = d->value ? given->body->params[at]->type : NULL;
        if (t && (strcmp(given->input_names[at++], d->input) || t->kind != IR_T_TENSOR || t->dtype != d->value->dtype ||
                  (t->rank >= 0 && t->rank != d->value->rank)))
            return bad(v, NULL, "input '%s' has a value of another type", d->input);
    }
    return true;
}

bool ir_verify_as(const struct ir_module *m, enum ir_diag_kind kind)
{
    struct verifier v = {.ctx = m->ctx, .module = m, .kind = kind};
    bool ok = true;
    for (const struct ir_state *s = m->states; s; s = s->next)
        ok = check_state(&v, s) && ok;
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        ok = check_func(&v, f) && ok;
    ok = ok && check_defaults(&v);
    return ok && kn_verify_staged(m, kind);
}

bool ir_verify(const struct ir_module *m)
{
    return ir_verify_as(m, IR_D_BUG);
}
