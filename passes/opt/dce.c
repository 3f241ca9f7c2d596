/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dce: removes nodes whose results nobody uses, last ones first. What has an effect stays. A node that defines symbols
 * (library ops, control flow) stays as long as another node or type mentions one of them.
 */
#include "passes/pass.h"
#include "passes/util_int.h"
#include "base/mutant.h"

#include <string.h>

bool pass_dce_run(struct pass_run *r);

/* How many nodes mention each symbol, by expression id; symbols of the inputs are defined whatever happens. */
struct mentions {
    struct ir_ctx *ctx;
    int32_t *count;
    uint32_t size;
    int delta;
    bool needed; /* answer of check_symbol */
};

static int32_t *mention(struct mentions *m, ir_expr sym)
{
    if (sym->id >= m->size) {
        uint32_t size = 2 * sym->id + 64;
        int32_t *count = IR_NEWN(m->ctx, size, int32_t);
        if (m->size)
            memcpy(count, m->count, m->size * sizeof *count);
        m->count = count;
        m->size = size;
    }
    return &m->count[sym->id];
}

#define FROM_INPUT INT32_MIN

static void count_symbol(void *user, ir_expr sym)
{
    struct mentions *m = user;
    int32_t *count = mention(m, sym);
    if (*count != FROM_INPUT)
        *count += m->delta;
}

static void input_symbol(void *user, ir_expr sym)
{
    *mention(user, sym) = FROM_INPUT;
}

static void check_symbol(void *user, ir_expr sym)
{
    struct mentions *m = user;
    m->needed |= *mention(m, sym) > 0;
}

/* Adds delta to the count of all symbols that a node and its regions mention. A symbol that occurs twice in a node
 * counts twice, and is taken off twice. */
static void count_node(struct mentions *m, const struct ir_node *n, int delta)
{
    m->delta = delta;
    pass_each_symbol(n, count_symbol, m);
    for (int i = 0; i < n->nregions; i++) {
        for (int k = 0; k < n->regions[i]->nparams; k++)
            pass_each_type_symbol(n->regions[i]->params[k]->type, count_symbol, m);
        IR_EACH_NODE(inner, n->regions[i])
            count_node(m, inner, delta);
    }
}

static bool results_unused(const struct ir_node *n)
{
    for (int i = 0; i < MUTANT(81, n->nout, 1); i++)
        if (ir_has_uses(n->out[i]))
            return false;
    return true;
}

/* Would removing the node leave a symbol that it defines without a definition? Its own mentions are taken off first. */
static bool defines_needed_symbol(struct mentions *m, const struct ir_node *n)
{
    if (!(ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS))
        return false;
    count_node(m, n, -1);
    m->needed = false;
    for (int i = 0; i < n->nout; i++)
        pass_each_type_symbol(n->out[i]->type, check_symbol, m);
    count_node(m, n, 1);
    return m->needed;
}

static bool sweep(struct pass_run *r, struct mentions *m, struct ir_block *b)
{
    for (struct ir_node *n = b->last, *before; n; n = before) {
        before = n->prev;
        bool removable = !(ir_op_info(n->op)->flags & IR_F_TERMINATOR) && !MUTANT(80, pass_has_effect(n), false);
        if (removable && results_unused(n) && !defines_needed_symbol(m, n)) {
            if (!pass_changed(r))
                return false;
            count_node(m, n, -1);
            ir_remove(n);
            continue;
        }
        for (int i = 0; i < n->nregions; i++)
            if (!sweep(r, m, n->regions[i]))
                return false;
    }
    return true;
}

bool pass_remove_unneeded(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        struct mentions m = {.ctx = pass_ctx(r)};
        for (int i = 0; i < f->body->nparams; i++)
            pass_each_type_symbol(f->body->params[i]->type, input_symbol, &m);
        IR_EACH_NODE(n, f->body)
            count_node(&m, n, 1);
        if (!sweep(r, &m, f->body))
            break;
    }
    return true;
}

bool pass_dce_run(struct pass_run *r)
{
    return pass_remove_unneeded(r);
}
