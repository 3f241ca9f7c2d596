/* SPDX-License-Identifier: Apache-2.0 */
/* Local rewriting by rules: sweeps over all blocks until nothing changes. */
#include "passes/rewrite_int.h"

#include <math.h>

/* Rules go one way, so sweeps end; this many is a bug of a rule, and stopping is safe. */
#define MAX_SWEEPS 64

bool rewrite_go(struct rewrite *w)
{
    if (!w->stop && pass_changed(w->run))
        return true;
    w->stop = true;
    return false;
}

struct ir_value *rewrite_operand(const struct ir_node *n, int i)
{
    return i < n->nin ? n->in[i].value : NULL;
}

struct ir_node *rewrite_operand_node(const struct ir_node *n, int i, enum ir_op op)
{
    struct ir_value *v = rewrite_operand(n, i);
    return v && v->def && v->def->op == op ? v->def : NULL;
}

bool rewrite_has_result_type(const struct ir_node *n, const struct ir_value *x)
{
    return x && x->type == n->out[0]->type;
}

bool rewrite_operand_is(const struct ir_node *n, int i, double v)
{
    double c;
    struct ir_value *x = rewrite_operand(n, i);
    return x && ir_splat_f(x, &c) && c == v && !signbit(c) == !signbit(v);
}

enum tcc_dtype rewrite_dtype_of(const struct ir_value *v)
{
    return v && v->type && v->type->kind == IR_T_TENSOR ? (enum tcc_dtype)v->type->dtype : TCC_NONE;
}

/* Removes what a rule built in vain: the unused nodes between `from` (NULL: the block's start) and n. */
static void discard(struct ir_node *from, struct ir_node *n)
{
    for (struct ir_node *dead = n->prev, *before; dead && dead != from; dead = before) {
        before = dead->prev;
        bool used = false;
        for (int i = 0; i < dead->nout; i++)
            used |= ir_has_uses(dead->out[i]);
        if (!used)
            ir_remove(dead);
    }
}

/* Tries one rule; true when the node is gone or changed. */
static bool apply(struct rewrite *w, const struct rewrite_rule *rule, struct ir_node *n, bool *gone)
{
    struct ir_node *before = n->prev;

    w->b = (struct ir_builder){
        .ctx = pass_ctx(w->run), .func = n->block->func, .block = n->block, .before = n, .where = n->where};
    struct ir_value *v = rule->fn(w, n);
    if (!v) {
        discard(before, n);
        return false;
    }
    if (v == n->out[0])
        return true;
    if (!rewrite_has_result_type(n, v)) {
        discard(before, n);
        return false;
    }
    if (!v->name)
        v->name = n->out[0]->name;
    ir_replace_uses(n->out[0], v);
    ir_remove(n);
    *gone = true;
    return true;
}

static bool sweep(struct rewrite *w, struct ir_block *b, const struct rewrite_rule *rules, int nrules)
{
    bool changed = false;

    for (struct ir_node *n = b->first, *next; n && !w->stop; n = next) {
        bool gone = false;
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            changed |= sweep(w, n->regions[i], rules, nrules);
        for (int i = 0; i < nrules && n->nout == 1 && !gone && !w->stop; i++)
            if (rules[i].op == n->op || rules[i].op == IR_OP_NONE)
                changed |= apply(w, &rules[i], n, &gone);
    }
    return changed;
}

bool rewrite_module(struct pass_run *r, const struct rewrite_rule *rules, int nrules)
{
    struct rewrite w = {.run = r};

    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        for (int i = 0; i < MAX_SWEEPS && !w.stop && sweep(&w, f->body, rules, nrules); i++) {
        }
    return true;
}
