/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local rewriting by rules, which are found by a node's op, until none applies: the first round tries all nodes, later
 * ones those near which something has changed since they were tried, each in the order of the text.
 */
#include "passes/rewrite_int.h"
#include "base/mutant.h"

#include <math.h>

/* Rules go one way, so rounds end; this many is a bug of a rule, and stopping is safe. */
#define MAX_ROUNDS 64
/* Rules look at what computes their node's operands, at most so many nodes away, and at who else reads these. */
#define REACH 32

struct rules {
    struct rewrite w;
    const struct rewrite_table *table;
    const struct rewrite_rule **of; /* those of op k: from[k] .. from[k + 1], as they stand in the table */
    int from[IR_NOPS + 1];
    VEC(uint8_t) near;         /* by nodes' ids: to be tried, and 1 + so many nodes behind it, which read it */
    VEC(struct ir_value *) in; /* of the node that is tried, before */
};

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

/* -- Which nodes to try */

static void want(struct rules *r, const struct ir_node *n, int reach);

static void want_users(struct rules *r, const struct ir_value *v, int reach)
{
    for (const struct ir_use *u = v ? v->uses : NULL; u; u = u->next)
        want(r, u->user, reach);
}

static void want(struct rules *r, const struct ir_node *n, int reach)
{
    while ((uint32_t)r->near.n <= n->id)
        VEC_PUSH(pass_ctx(r->w.run), r->near, 0);
    if (MUTANT(406, r->near.at[n->id] > reach, true))
        return;
    r->near.at[n->id] = (uint8_t)(reach + 1);
    for (int i = 0; i < n->nout && reach; i++)
        want_users(r, n->out[i], reach - 1);
}

static bool take(struct rules *r, const struct ir_node *n)
{
    bool wanted = (uint32_t)r->near.n > n->id && r->near.at[n->id];
    if (wanted)
        r->near.at[n->id] = 0;
    return wanted;
}

/* -- Trying them */

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

/* What reads what n read and reads, what was built in front of it, and who reads `now` in its place. */
static void want_around(struct rules *r, const struct ir_node *first, const struct ir_node *n,
                        const struct ir_value *now)
{
    for (int i = 0; i < r->in.n; i++)
        want_users(r, r->in.at[i], REACH);
    for (int i = 0; i < n->nin; i++)
        want_users(r, n->in[i].value, REACH);
    for (const struct ir_node *x = first; x && x != n; x = x->next)
        want(r, x, REACH);
    want_users(r, now, REACH);
}

/* Tries one rule; true when the node is gone or changed. */
static bool apply(struct rules *r, const struct rewrite_rule *rule, struct ir_node *n, bool *gone)
{
    struct ir_node *before = n->prev;
    struct rewrite *w = &r->w;

    r->in.n = 0;
    for (int i = 0; i < n->nin; i++)
        VEC_PUSH(pass_ctx(w->run), r->in, n->in[i].value);
    w->b = (struct ir_builder){
        .ctx = pass_ctx(w->run), .func = n->block->func, .block = n->block, .before = n, .where = n->where};
    struct ir_value *v = rule->fn(w, n);
    if (!v || (v != n->out[0] && !rewrite_has_result_type(n, v))) {
        discard(before, n);
        return false;
    }
    if (v != n->out[0]) {
        if (!v->name)
            v->name = n->out[0]->name;
        ir_replace_uses(n->out[0], v);
        *gone = true;
    }
    want_around(r, before ? before->next : n->block->first, n, v);
    if (*gone)
        ir_remove(n);
    const struct rewrite_watch *watch = pass_opts(w->run)->rules;
    if (watch)
        watch->did(watch->user, r->table, rule);
    return true;
}

static bool round_of(struct rules *r, struct ir_block *b, bool all)
{
    bool changed = false;

    for (struct ir_node *n = b->first, *next; n && !r->w.stop; n = next) {
        bool gone = false;
        next = n->next;
        for (int i = 0; i < n->nregions; i++)
            changed |= round_of(r, n->regions[i], all);
        if ((!take(r, n) && !all) || n->nout != 1)
            continue;
        for (int i = r->from[n->op]; i < r->from[n->op + 1] && !gone && !r->w.stop; i++)
            changed |= apply(r, r->of[i], n, &gone);
    }
    return changed;
}

/* The rules of each op, in the table's order. */
static void sort_rules(struct rules *r)
{
    const struct rewrite_table *t = r->table;
    const struct rewrite_watch *watch = pass_opts(r->w.run)->rules;
    int n = 0, any = 0;
    for (int i = 0; i < t->n; i++)
        any += t->at[i].op == IR_OP_NONE;
    r->of = IR_NEWN(pass_ctx(r->w.run), (size_t)t->n + (size_t)any * IR_NOPS, const struct rewrite_rule *);
    for (int op = 0; op < IR_NOPS; op++) {
        r->from[op] = n;
        for (const struct rewrite_rule *x = t->at; x < t->at + t->n; x++)
            if ((x->op == (enum ir_op)op || x->op == IR_OP_NONE) && (!watch || watch->may(watch->user, t, x)))
                r->of[n++] = x;
    }
    r->from[IR_NOPS] = n;
}

void rewrite_module(struct pass_run *run, const struct rewrite_table *table)
{
    struct rules r = {.w.run = run, .table = table};

    sort_rules(&r);
    for (struct ir_func *f = pass_module(run)->funcs; f; f = f->next) {
        r.near.n = 0;
        for (int i = 0; i < MAX_ROUNDS && !r.w.stop && round_of(&r, f->body, i == 0 || table->far); i++) {
        }
    }
}
