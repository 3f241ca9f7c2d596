/* SPDX-License-Identifier: Apache-2.0 */
/* parse_fusion.c - text of groups of nodes that become one kernel each (doc/ir.md). What is read passes
 * kn_verify_fusion. */
#include "ir/text/parse_int.h"

/* A value, or the node that it is a result of. */
static bool parse_value(struct parser *p, struct ir_value **v)
{
    return parse_operand(p, v) && (*v || parse_expected(p, "a value (%name)"));
}

static bool parse_node_ref(struct parser *p, struct ir_node **n)
{
    struct token at = p->tok;
    struct ir_value *v;
    if (!parse_value(p, &v))
        return false;
    *n = v->def;
    return v->def || parse_error(p, &at, "expected a node's result");
}

static bool parse_nodes(struct parser *p, struct kn_group *g)
{
    do {
        struct ir_node *n;
        if (!parse_node_ref(p, &n))
            return false;
        IR_PUSH(p->ctx, g->nodes, g->nnodes, g->cap, n);
    } while (lex_take(p, ','));
    return true;
}

static bool parse_kernel_call(struct parser *p, struct kn_group *g)
{
    VEC(struct ir_value *) args = {0};
    struct token at = p->tok;
    const char *name;
    int n = 0, nargs = 0;
    if (!lex_global(p, &name))
        return false;
    g->kernel = parse_kernel_named(p, name);
    if (!g->kernel)
        return parse_error(p, &at, "unknown kernel @%s", name);
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        struct ir_value *v;
        if ((args.n && !lex_expect(p, ',')) || !parse_value(p, &v))
            return false;
        VEC_PUSH(p->ctx, args, v);
    }
    lex_next(p);
    for (int i = 0; i < g->kernel->noperands; i++)
        nargs += g->kernel->operands[i].use != KN_LOCAL;
    if (args.n != nargs)
        return parse_error(p, &at, "%d values for kernel @%s, which has %d operands", args.n, name, nargs);
    g->args = args.at;
    if (lex_take_word(p, "sizes") && (!lex_expect(p, '(') || !parse_exprs(p, ')', &g->sizes, &n)))
        return false;
    return n == g->kernel->nsizes ||
           parse_error(p, &at, "%d sizes for kernel @%s, which has %d", n, name, g->kernel->nsizes);
}

/* Of the result of a node with operands, and which of them. */
static bool parse_piece(struct parser *p, struct ir_value **of, int *number)
{
    struct token at = p->tok;
    int64_t piece;
    if (!parse_value(p, of))
        return false;
    if (!(*of)->def || !(*of)->def->nin)
        return parse_error(p, &at, "expected the result of a node with operands");
    if (!lex_small(p, 0, (*of)->def->nin - 1, &piece))
        return false;
    *number = (int)piece;
    return true;
}

static bool parse_place(struct parser *p, struct kn_fusion *f)
{
    struct kn_place q = {0};
    if (!parse_piece(p, &q.into, &q.piece))
        return false;
    q.stays = lex_take_word(p, "stays");
    VEC_PUSH(p->ctx, f->places, q);
    return true;
}

static bool parse_collected(struct parser *p, struct kn_group *g)
{
    struct token at = p->tok;
    if (!parse_value(p, &g->collects))
        return false;
    if (!g->collects->def || g->collects->def->op != IR_loop)
        return parse_error(p, &at, "expected what a loop collects");
    g->root = g->collects->def->regions[0]->last;
    return true;
}

static bool parse_result(struct parser *p, struct kn_group *g)
{
    struct token at = p->tok;
    struct kn_result r = {0};
    if (g->nresults == KN_MAX_RESULTS)
        return parse_error(p, &at, "a group has at most %d results", KN_MAX_RESULTS);
    if (!parse_value(p, &r.value) || (lex_take_word(p, "into") && !parse_piece(p, &r.into, &r.piece)))
        return false;
    g->results[g->nresults++] = r;
    return true;
}

static bool parse_group(struct parser *p, struct kn_group *g)
{
    do
        if (!parse_result(p, g))
            return false;
    while (lex_take(p, ','));
    if (lex_take_word(p, "collects") ? !parse_collected(p, g)
                                     : !lex_expect_word(p, "at") || !parse_node_ref(p, &g->root))
        return false;
    if (lex_take_word(p, "anchor") && !parse_node_ref(p, &g->anchor))
        return false;
    /* older texts have the second result, and where the first one is stored, here */
    if (lex_take_word(p, "second") && !parse_result(p, g))
        return false;
    if (lex_take_word(p, "dest") && !parse_piece(p, &g->results[0].into, &g->results[0].piece))
        return false;
    g->updates = lex_take_word(p, "updates");
    if (lex_take_word(p, "of") && !parse_nodes(p, g))
        return false;
    return !lex_take_word(p, "kernel") || parse_kernel_call(p, g);
}

bool parse_fusion(struct parser *p)
{
    struct token at = p->tok;
    struct kn_fusion *f = IR_NEW(p->ctx, struct kn_fusion);
    const char *name;
    if (!lex_global(p, &name))
        return false;
    p->func = NULL;
    for (int i = 0; i < p->funcs.n && !p->func; i++)
        if (p->funcs.at[i].func->name == name) {
            p->func = p->funcs.at[i].func;
            p->values = p->funcs.at[i].values;
        }
    if (!p->func)
        return parse_error(p, &at, "unknown function @%s", name);
    if (p->func->fusion)
        return parse_error(p, &at, "the groups of @%s are given twice", name);
    if (!lex_expect(p, '{'))
        return false;
    while (lex_take_word(p, "group")) {
        struct kn_group g = {0};
        if (!parse_group(p, &g))
            return false;
        VEC_PUSH(p->ctx, *f, g);
    }
    while (lex_take_word(p, "place"))
        if (!parse_place(p, f))
            return false;
    p->func->fusion = f;
    return lex_expect(p, '}') && kn_verify_fusion(p->func);
}
