/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack: weights that lie in bytes, and that `fold` has left so, are made floats in front of each product that reads
 * them, once for each: else those of all layers of a training step would lie in memory from the forward pass to the
 * backward pass, which is what the bytes were for. Exact.
 */
#include "passes/rewrite_int.h"

bool pass_unpack_run(struct pass_run *r);

enum { SMALL = 64, MOST_NODES = 64 };

/* The nodes that make a value of constants alone, in order. */
struct chain {
    struct ir_node *nodes[MOST_NODES];
    int n, depth; /* depth: of those that are being walked */
    bool bytes;   /* one of the constants is of bytes, and more than a few */
};

static bool find_chain(struct chain *c, struct ir_node *n, const struct ir_block *block)
{
    for (int i = 0; i < c->n; i++)
        if (c->nodes[i] == n)
            return true;
    enum ir_kind kind = n ? ir_op_info(n->op)->kind : IR_K_LIBRARY;
    if (n && n->op == IR_constant) {
        const struct ir_tensor *t = ir_const_of(n->out[0]);
        c->bytes |= (t->dtype == TCC_U8 || t->dtype == TCC_I8) && !t->splat && t->nelems > SMALL;
        return true;
    }
    if ((kind != IR_K_MAP && kind != IR_K_MOVE) || n->block != block || n->nout != 1 || !n->nin ||
        c->depth == MOST_NODES)
        return false;
    c->depth++;
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i].value || !find_chain(c, n->in[i].value->def, block))
            return false;
    c->depth--;
    if (c->n == MOST_NODES)
        return false;
    c->nodes[c->n++] = n;
    return true;
}

/* The chain once more, in front of `before`; its last node's value. */
static struct ir_value *made_again(struct pass_run *r, const struct chain *c, struct ir_node *before)
{
    struct ir_value *made[MOST_NODES], *in[8];
    for (int k = 0; k < c->n; k++) {
        struct ir_node *n = c->nodes[k];
        struct ir_builder b = {
            .ctx = pass_ctx(r), .func = n->block->func, .block = n->block, .before = before, .where = n->where};
        struct ir_attr *attrs = IR_NEWN(b.ctx, n->nattrs + 1, struct ir_attr);
        for (int i = 0; i < n->nattrs; i++)
            attrs[i] = n->attrs[i];
        for (int i = 0; i < n->nin && i < 8; i++) {
            in[i] = n->in[i].value;
            for (int j = 0; j < k; j++)
                in[i] = c->nodes[j]->out[0] == n->in[i].value ? made[j] : in[i];
        }
        if (n->nin > 8 || !(made[k] = ir_build1(&b, n->op, n->nin, in, attrs)))
            return NULL;
    }
    return made[c->n - 1];
}

static bool unpack_block(struct pass_run *r, struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nregions; i++)
            if (!unpack_block(r, n->regions[i]))
                return false;
        for (int i = 0; i < n->nin && ir_op_info(n->op)->kind == IR_K_CONTRACT; i++) {
            struct chain c = {.n = 0};
            struct ir_node *def = n->in[i].value ? n->in[i].value->def : NULL;
            if (!def || !find_chain(&c, def, block) || !c.bytes || !c.n)
                continue;
            if (!pass_changed(r))
                return true;
            struct ir_value *v = made_again(r, &c, n);
            if (!v)
                return false;
            v->name = def->out[0]->name;
            ir_set_operand(n, i, v);
            for (int k = c.n - 1; k >= 0; k--) /* what nobody else reads goes */
                if (!ir_has_uses(c.nodes[k]->out[0]))
                    ir_remove(c.nodes[k]);
        }
    }
    return true;
}

bool pass_unpack_run(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (!unpack_block(r, f->body))
            return false;
    return true;
}
