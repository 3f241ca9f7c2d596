/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cse: a node that computes what an earlier node computes is replaced by it. Nodes in regions see those of the blocks
 * around them. Effects, regions and nodes that define symbols are left alone.
 */
#include "ir/map.h"
#include "passes/pass.h"
#include "passes/util_int.h"
#include "base/mutant.h"

bool pass_cse_run(struct pass_run *r);

/* Nodes of the same hash, the latest first; an entry leaves when its block ends. */
struct entry {
    struct ir_node *node;
    struct entry *next;
};

static uint64_t hash_node(const struct ir_node *n)
{
    uint64_t h = (uint64_t)n->op * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < n->nin; i++)
        h = (h ^ (n->in[i].value ? n->in[i].value->id + 1 : 0)) * 0xff51afd7ed558ccdu + (h >> 29);
    h += pass_hash_attrs(n);
    return h ^ (h >> 32);
}

static bool same_meaning(const struct ir_node *a, const struct ir_node *b)
{
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout)
        return false;
    for (int i = 0; i < a->nin; i++)
        if (a->in[i].value != b->in[i].value)
            return false;
    for (int i = 0; i < a->nout; i++)
        if (a->out[i]->type != b->out[i]->type)
            return false;
    return pass_equal_attrs(a, b);
}

static bool shareable(const struct ir_node *n)
{
    return n->nout > 0 && n->nregions == 0 &&
           !(ir_op_info(n->op)->flags & (IR_F_EFFECT | IR_F_DEFINES_SYMS | IR_F_TERMINATOR | IR_F_REGIONS));
}

static bool share_block(struct pass_run *r, struct ir_map *by_hash, struct ir_block *b)
{
    struct ir_ctx *ctx = pass_ctx(r);
    VEC(uint64_t) added = {0};
    bool go_on = true;

    for (struct ir_node *n = b->first, *next; n && go_on; n = next) {
        next = n->next;
        for (int i = 0; i < n->nregions && go_on; i++)
            go_on = share_block(r, by_hash, n->regions[i]);
        if (!go_on || !MUTANT(82, shareable(n), true))
            continue;
        uint64_t hash = hash_node(n);
        void **same_hash = ir_map_add(ctx, by_hash, hash);
        struct entry *earlier = *same_hash;
        while (earlier && !same_meaning(earlier->node, n))
            earlier = earlier->next;
        if (!earlier) {
            struct entry *e = IR_NEW(ctx, struct entry);
            *e = (struct entry){n, *same_hash};
            *same_hash = e;
            VEC_PUSH(ctx, added, hash);
        } else if ((go_on = pass_changed(r))) {
            for (int i = 0; i < n->nout; i++)
                ir_replace_uses(n->out[i], earlier->node->out[MUTANT(83, i, 0)]);
            ir_remove(n);
        }
    }
    for (int i = 0; i < added.n; i++) {
        void **same_hash = ir_map_find(by_hash, added.at[i]);
        *same_hash = ((struct entry *)*same_hash)->next;
    }
    return go_on;
}

bool pass_share_equal(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next) {
        struct ir_map by_hash = {0};
        if (!share_block(r, &by_hash, f->body))
            break;
    }
    return true;
}

bool pass_cse_run(struct pass_run *r)
{
    return pass_share_equal(r);
}
