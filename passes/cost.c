/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.c - operations and bytes of nodes, and the seconds that a machine takes for them (cost.h). Dims that are symbols
 * get a guess.
 */
#include "passes/pass.h"
#include "base/mutant.h"

#define GUESS 64      /* a size that is a symbol */
#define ITERATIONS 16 /* of a loop */

/* A core of a current server. In powers of two, so that what is worth a launch (64 Ki operations, 16 KiB) is a whole
 * number. */
static const struct pass_cost plain = {.flops = 0x1p35,
                                       .bandwidth = 0x1p33,
                                       .launch = 0x1p-19,
                                       .function = 24,
                                       .piece = 8,
                                       .pieces = 64,
                                       .lanes = 64,
                                       .kernel = 400};

const struct pass_cost *pass_cost(const struct pass_machine *m)
{
    return m && m->cost ? m->cost(m) : &plain;
}

double pass_move_seconds(const struct pass_cost *c, double bytes)
{
    return bytes / (bytes <= c->cache ? c->cache_bandwidth : c->bandwidth);
}

double pass_seconds(const struct pass_cost *c, double flops, double bytes, bool half)
{
    double compute = flops / (half && c->half_flops > 0 ? c->half_flops : c->flops),
           memory = pass_move_seconds(c, bytes);
    return c->launch + MUTANT(154, compute > memory ? compute : memory, compute);
}

/* -- Operations and bytes ------------------------------------------------------------------------------------------ */

static bool guess(void *user, ir_expr sym, int64_t *out)
{
    const struct pass_sizes *z = user;
    int64_t v = z && sym == z->batch ? z->value : GUESS;
    *out = v < sym->lo ? sym->lo : v > sym->hi ? sym->hi : v;
    return true;
}

double pass_extent(const struct pass_sizes *z, ir_expr e)
{
    int64_t v;
    return ir_eval(e, guess, (void *)z, &v) && v > 0 ? (double)v : 1;
}

double pass_elements(const struct pass_sizes *z, ir_type t)
{
    double n = 1;
    if (!ir_is_tensor(t))
        return 64;
    for (int i = 0; i < t->rank; i++)
        n *= pass_extent(z, t->dim[i]);
    return n;
}

double pass_bytes(const struct pass_sizes *z, ir_type t)
{
    return pass_elements(z, t) * (ir_is_tensor(t) ? tcc_dtype_bytes((enum tcc_dtype)t->dtype) : 8);
}

double pass_flops(const struct pass_sizes *z, const struct ir_node *n, bool *contracts)
{
    double work = 0;
    enum ir_kind kind = ir_op_info(n->op)->kind;
    for (int i = 0; i < n->nout; i++)
        work += pass_elements(z, n->out[i]->type);
    if (contracts)
        *contracts = kind == IR_K_CONTRACT || n->op == IR_conv || n->op == IR_conv_transpose || kind == IR_K_ATTENTION;
    if (kind == IR_K_CONTRACT) {
        ir_type a = n->in[0].value->type;
        bool turned = ir_get_i(n, IR_ATTR_trans_a, 0) && a->rank > 1;
        return MUTANT(141, a->rank, 0) ? 2 * work * pass_extent(z, a->dim[a->rank - (turned ? 2 : 1)]) : work;
    }
    if (n->op == IR_conv || n->op == IR_conv_transpose) {
        ir_type w = n->in[1].value->type;
        for (int i = 1; i < w->rank; i++)
            work *= pass_extent(z, w->dim[i]);
        return 2 * work;
    }
    if (kind == IR_K_ATTENTION) { /* products of one size: two; by q three; by v and k four, of two results */
        bool forward = n->op == IR_attention || n->op == IR_attention_lse;
        return (n->op == IR_attention_grad_q ? 6 : 4) * (forward ? pass_elements(z, n->out[0]->type) : work) *
               pass_extent(z, n->in[n->op == IR_attention_grad_vk ? 0 : 1].value->type->dim[2]);
    }
    if (kind == IR_K_WINDOW || kind == IR_K_REDUCE || kind == IR_K_SCAN)
        for (int i = 0; i < n->nin; i++)
            work += n->in[i].value ? pass_elements(z, n->in[i].value->type) : 0;
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            work += pass_flops(z, inner, NULL) * (n->op == IR_loop ? ITERATIONS : 1);
    return kind == IR_K_MOVE ? 0 : work;
}

bool pass_is_free(const struct ir_node *n)
{
    return n->op == IR_reshape || n->op == IR_expand || n->op == IR_transpose || n->op == IR_slice;
}

double pass_node_bytes(const struct pass_sizes *z, const struct ir_node *n)
{
    double bytes = 0;
    for (int i = 0; i < n->nin; i++)
        bytes += n->in[i].value ? pass_bytes(z, n->in[i].value->type) : 0;
    for (int i = 0; i < n->nout; i++)
        bytes += pass_bytes(z, n->out[i]->type);
    return bytes;
}
