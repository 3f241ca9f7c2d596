/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fact.c - the interpreter holds nodes to what they take for granted of the sizes (ir_assumptions), as artifacts do:
 * what the inputs decide before anything runs, the rest in front of the node, in the same words.
 */
#include <stdlib.h>

#include "ir/interp/interp_int.h"

/* Each fact of a function once: `next` chains those of a node. */
struct it_fact {
    struct ir_fact fact;
    struct it_fact *next;
    bool held; /* by this run's inputs */
};

/* -- Collecting ------------------------------------------------------------------------------------ */

struct collecting {
    struct it_fact **end;
    bool no_memory;
};

static void collect(void *user, const struct ir_fact *f)
{
    struct collecting *c = user;
    struct it_fact *x = malloc(sizeof *x);
    if (!x) {
        c->no_memory = true;
        return;
    }
    *x = (struct it_fact){*f, NULL, false};
    *c->end = x;
    c->end = &x->next;
}

bool it_collect_facts(struct interp *it, const struct ir_block *block)
{
    for (struct ir_node *n = block->first; n; n = n->next) {
        struct collecting c = {&it->facts[n->id], false};
        ir_assumptions(n, collect, &c);
        if (c.no_memory)
            return false;
        for (int r = 0; r < n->nregions; r++)
            if (!it_collect_facts(it, n->regions[r]))
                return false;
    }
    return true;
}

void it_free_facts(struct interp *it)
{
    for (uint32_t i = 0; it->facts && i < it->func->nnodes; i++) {
        for (struct it_fact *f = it->facts[i], *next; f; f = next) {
            next = f->next;
            free(f);
        }
    }
    free(it->facts);
}

/* -- Holding nodes to them -------------------------------------------------------------------------- */

/* The symbols of a side that is more than one, each once: as the run-time library lists them (tcr_expr_names). */
struct names {
    ir_expr at[8];
    int n, steps;
};

static void find_names(struct names *x, ir_expr e)
{
    if (e->kind == IR_X_CONST || x->n == 8 || x->steps++ > 1000)
        return;
    for (int i = 0; i < e->nargs; i++)
        find_names(x, e->arg[i]);
    if (e->kind != IR_X_SYM)
        return;
    for (int i = 0; i < x->n; i++)
        if (x->at[i] == e)
            return;
    x->at[x->n++] = e;
}

static int unrelated(struct interp *it, const struct ir_node *n, const struct ir_fact *f, int64_t a, int64_t b)
{
    struct ir_ctx *ctx = n->block->func->module->ctx;
    struct names x = {.n = 0};
    char with[512] = "", text[1024];
    size_t at = 0;
    ir_expr sides[2] = {f->a, f->b};
    for (int i = 0; i < 2; i++)
        if (sides[i]->kind != IR_X_SYM)
            find_names(&x, sides[i]);
    for (int i = 0; i < x.n && at < sizeof with; i++) {
        int64_t value = 0;
        it_eval(it, x.at[i], &value);
        at += (size_t)snprintf(with + at, sizeof with - at, "%s%s = %lld", i ? ", " : "", ir_sym_said(x.at[i]),
                               (long long)value);
    }
    tcr_relation_text(text, sizeof text, (uint32_t)f->relation, f->what, (struct tcc_side){ir_expr_said(ctx, f->a), a},
                      (struct tcc_side){ir_expr_said(ctx, f->b), b}, with);
    return it_error(it, n, TCC_EINPUT, "%s", text);
}

int it_check_facts(struct interp *it, const struct ir_node *n, bool early)
{
    for (struct it_fact *f = it->facts[n->id]; f; f = f->next) {
        int64_t a, b;
        if (f->held || !it_eval(it, f->fact.a, &a) || !it_eval(it, f->fact.b, &b))
            continue;
        if (!tcc_related((uint32_t)f->fact.relation, a, b))
            return unrelated(it, n, &f->fact, a, b);
        f->held = early;
    }
    return TCC_OK;
}

int it_check_inputs(struct interp *it)
{
    int status = TCC_OK;
    for (const struct ir_node *n = it->func->body->first; n && !status; n = n->next)
        status = it_check_facts(it, n, true);
    return status;
}
