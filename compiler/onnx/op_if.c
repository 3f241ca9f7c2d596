/* SPDX-License-Identifier: Apache-2.0 */
/* If: a region for each branch, or one of them alone where the condition is known. */
#include "compiler/onnx/control_int.h"
#include "base/mutant.h"

#include <string.h>

/* Of different lengths, two lists of integers may be shapes: what is made of them then has different ranks. */
static bool may_be_shape(ir_type a, ir_type b)
{
    return a->kind == IR_T_TENSOR && a->rank == 1 && b->rank == 1 && tcc_is_int((enum tcc_dtype)a->dtype) &&
           a->dim[0] != b->dim[0];
}

static bool same_ranks(size_t n, struct ir_value *const *a, struct ir_value *const *b)
{
    for (size_t k = 0; k < n; k++)
        if (a[k]->type->kind != b[k]->type->kind || a[k]->type->dtype != b[k]->type->dtype ||
            (a[k]->type->kind == IR_T_TENSOR && a[k]->type->rank != b[k]->type->rank) ||
            may_be_shape(a[k]->type, b[k]->type))
            return false;
    return true;
}

/* A condition that is known picks its branch here and now. */
static bool inline_branch(struct imp *im, const struct onnx_graph *g)
{
    struct ir_value **outs = IR_NEWN(im->ctx, g->output_count + 1, struct ir_value *);
    struct imp_scope scope;
    imp_push_scope(im, &scope);
    bool fine = imp_graph(im, g, outs);
    imp_pop_scope(im);
    if (!fine || control_poisoned(im, g->output_count, outs))
        return false;
    for (size_t k = 0; k < g->output_count; k++) {
        if (!imp_out(im, (int)k, outs[k]))
            return false;
    }
    return true;
}

struct branching {
    const struct onnx_graph *g[2];
    int n;
    struct ir_node *node;
    struct ir_value *outs[2][MAX_RESULTS];
    struct imp_attempt tried[2];
    bool wrong[2];
    uint32_t first_inside;
    ir_type branch[2][MAX_RESULTS], types[MAX_RESULTS];
};

static bool read_branches(struct imp *im, struct branching *i)
{
    i->g[0] = control_graph(im, "then_branch");
    i->g[1] = i->g[0] ? control_graph(im, "else_branch") : NULL;
    im->malformed |= !i->g[1];
    if (!i->g[1])
        return false;
    i->n = (int)i->g[0]->output_count;
    if (i->g[1]->output_count == i->g[0]->output_count && imp_nout(im) <= i->n)
        return true;
    im->malformed = true;
    return imp_bad(im, "the branches have %zu and %zu results", i->g[0]->output_count, i->g[1]->output_count);
}

/* One that is wrong where it stands has the types of the other. */
static bool import_branches(struct imp *im, struct branching *i)
{
    struct ir_builder saved;
    struct imp_scope scope;
    for (int k = 0; k < 2; k++) {
        control_open(im, i->node, &scope, &saved);
        imp_attempt_begin(im, &i->tried[k]);
        enum imp_outcome how = imp_attempt_end(im, &i->tried[k], imp_graph(im, i->g[k], i->outs[k]));
        control_close(im, &saved);
        if (how == IMP_FAILED)
            return false;
        i->wrong[k] = how == IMP_WRONG;
    }
    if (i->wrong[0] && i->wrong[1]) {
        imp_attempt_tell(im, &i->tried[0]);
        return false;
    }
    for (int k = 0; k < 2; k++) {
        if (!i->wrong[k])
            continue;
        if (control_poisoned(im, (size_t)i->n, i->outs[!k]))
            return false;
        for (int r = 0; r < i->n; r++)
            i->branch[k][r] = control_outside_type(im, i->outs[!k][r]->type, i->first_inside, r);
        if (!imp_attempt_refuse(im, &i->tried[k], i->node->regions[k], i->n, i->branch[k], i->outs[k]))
            return false;
    }
    return !control_poisoned(im, (size_t)i->n, i->outs[0]) && !control_poisoned(im, (size_t)i->n, i->outs[1]);
}

static bool agree_on_types(struct imp *im, struct branching *i)
{
    for (int k = 0; k < i->n; k++) {
        i->branch[0][k] = i->outs[0][k]->type;
        i->branch[1][k] = i->outs[1][k]->type;
        i->types[k] = control_common_type(im, i->branch[0][k], i->branch[1][k], i->first_inside, k);
        if (!i->types[k])
            return imp_unsupported(im, "result %d is %s in one branch and %s in the other", k,
                                   ir_type_text(im->ctx, i->branch[0][k]), ir_type_text(im->ctx, i->branch[1][k]));
    }
    return true;
}

static bool yield_branches(struct imp *im, struct branching *i)
{
    struct ir_builder saved = im->b;
    bool fine = true;
    for (int b = 0; b < 2 && fine; b++) {
        im->b.block = i->node->regions[b];
        im->b.before = NULL;
        for (int k = 0; k < i->n; k++)
            i->outs[b][k] = control_as_type(im, i->outs[b][k], i->types[k]);
        fine = imp_yield(im, (size_t)i->n, i->outs[b]);
    }
    im->b.block = saved.block;
    im->b.before = saved.before;
    return fine;
}

/* Items that both branches' results k have, sequences of the same length of tensors; -1: they stay as they are. */
static int items_of_both(const struct imp *im, const struct ir_value *a, const struct ir_value *b)
{
    const struct imp_items *x = imp_items_of(im, a), *y = imp_items_of(im, b);
    if (!x || !y || a->type->kind != IR_T_SEQUENCE || b->type->kind != IR_T_SEQUENCE || x->n != y->n || !x->n)
        return -1;
    for (int i = 0; i < x->n; i++)
        if (!ir_is_tensor(x->at[i]->type) || !ir_is_tensor(y->at[i]->type) ||
            x->at[i]->type->rank != y->at[i]->type->rank)
            return -1;
    return x->n;
}

/* Results of known items become their items, `counts` says how many (-1: none). The number of results then. */
static size_t spread(struct imp *im, size_t n, struct ir_value *outs[2][MAX_RESULTS], int *counts)
{
    struct ir_value *from[2][MAX_RESULTS];
    size_t now = 0;
    memcpy(from, outs, sizeof from);
    for (size_t k = 0; k < n; k++) {
        counts[k] = items_of_both(im, from[0][k], from[1][k]);
        if (now + (size_t)(counts[k] > 0 ? counts[k] : 1) + n - k > MAX_RESULTS)
            counts[k] = -1;
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < (counts[k] > 0 ? counts[k] : 1); i++)
                outs[b][now + (size_t)i] = counts[k] > 0 ? imp_items_of(im, from[b][k])->at[i] : from[b][k];
        now += (size_t)(counts[k] > 0 ? counts[k] : 1);
    }
    return now;
}

/* The If's results, those that were spread as sequences again. */
static bool gather_results(struct imp *im, size_t n, const int *counts, struct ir_value **results)
{
    int at = 0;
    for (size_t k = 0; k < n; k++) {
        struct ir_value *v = counts[k] > 0 ? imp_sequence(im, counts[k], results + at) : results[at];
        at += counts[k] > 0 ? counts[k] : 1;
        ir_type t = v ? v->type : NULL;
        ir_type declared = t && t->kind == IR_T_TENSOR && t->rank < 0 && (int)k < imp_nout(im)
                               ? imp_declared(im, im->node->outputs[k])
                               : NULL;
        if (!imp_out(im, (int)k, declared ? imp_unbox(im, v, declared) : v))
            return false;
    }
    return true;
}

bool onnx_op_if(struct imp *im)
{
    struct branching *i = IR_NEW(im->ctx, struct branching);
    struct ir_value *cond = control_operand(im, 0);
    bool truth;
    if (!cond || !read_branches(im, i))
        return false;
    if (imp_dtype(cond) != TCC_BOOL)
        return imp_bad(im, "the condition is %s; a bool is expected", ir_type_text(im->ctx, cond->type));
    if (imp_condition(im, cond, false, &truth))
        return inline_branch(im, i->g[MUTANT(127, !truth, truth)]);
    for (int k = 0; k < i->n; k++)
        i->types[k] = ir_scalar_type(im->ctx, TCC_BOOL);
    i->node =
        ir_build_typed(&im->b, IR_if, 1, &cond, IR_ATTRS(ir_attr_types(IR_ATTR_types, i->n, i->types)), i->n, i->types);
    i->first_inside = control_mark(im);
    if (!i->node || !import_branches(im, i))
        return false;
    int counts[MAX_RESULTS], nresults = i->n;
    i->n = (int)spread(im, (size_t)i->n, i->outs, counts);
    while (i->node->nout < i->n)
        ir_insert_output(i->node, i->node->nout, ir_scalar_type(im->ctx, TCC_BOOL));
    /* Branches of different ranks, by a condition on sizes: a shape version each. */
    if (!same_ranks((size_t)i->n, i->outs[0], i->outs[1]) && !imp_condition(im, cond, true, &truth) && im->again)
        return false;
    if (!agree_on_types(im, i) || !yield_branches(im, i))
        return false;
    struct ir_node *node = i->node;
    ir_set_attr(node, ir_attr_types(IR_ATTR_types, i->n, i->types));
    for (int k = 0; k < i->n; k++) {
        node->out[k]->type = i->types[k];
        ir_type right = control_outside_type(im, i->branch[1][k], i->first_inside, k);
        imp_note_ranks(im, node->out[k], control_outside_type(im, i->branch[0][k], i->first_inside, k), right);
    }
    return gather_results(im, (size_t)nresults, counts, node->out);
}
