/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about nodes that several passes ask. */
#include "base/xxh3.h"
#include "passes/util_int.h"

#include <string.h>

int pass_count_nodes(const struct ir_block *b)
{
    int count = 0;
    IR_EACH_NODE(n, b) {
        count++;
        for (int i = 0; i < n->nregions; i++)
            count += pass_count_nodes(n->regions[i]);
    }
    return count;
}

static bool region_has_effect(const struct ir_block *b)
{
    IR_EACH_NODE(n, b)
        if (n->op != IR_bind && n->op != IR_check && pass_has_effect(n))
            return true;
    return false;
}

bool pass_has_effect(const struct ir_node *n)
{
    if (ir_op_info(n->op)->flags & (IR_F_EFFECT | IR_F_TERMINATOR))
        return !(ir_op_info(n->op)->flags & IR_F_TERMINATOR) || n->block->parent == NULL;
    for (int i = 0; i < n->nregions; i++)
        if (region_has_effect(n->regions[i]))
            return true;
    return false;
}

void pass_each_type_symbol(ir_type t, void (*visit)(void *user, ir_expr sym), void *user)
{
    for (; t && t->kind != IR_T_TENSOR; t = t->elem) {
    }
    for (int i = 0; t && i < t->rank; i++)
        ir_each_sym(t->dim[i], visit, user);
}

void pass_each_symbol(const struct ir_node *n, void (*visit)(void *user, ir_expr sym), void *user)
{
    for (int i = 0; i < n->nattrs; i++) {
        const struct ir_attr *a = &n->attrs[i];
        if (a->kind == IR_A_EXPR)
            ir_each_sym(a->e, visit, user);
        for (int k = 0; a->kind == IR_A_EXPRS && k < a->n; k++)
            ir_each_sym(a->exprs[k], visit, user);
        for (int k = 0; a->kind == IR_A_TYPES && k < a->n; k++)
            pass_each_type_symbol(a->types[k], visit, user);
    }
    for (int i = 0; i < n->nout; i++)
        pass_each_type_symbol(n->out[i]->type, visit, user);
}

/* -- Attributes ----------------------------------------------------------------------------- */

static bool equal_strings(const struct ir_attr *a, const struct ir_attr *b)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->strings[i], b->strings[i]) != 0)
            return false;
    return true;
}

static bool equal_attr(const struct ir_attr *a, const struct ir_attr *b)
{
    if (a->key != b->key || a->kind != b->kind || a->n != b->n || !a->name != !b->name)
        return false;
    if (a->name && strcmp(a->name, b->name) != 0)
        return false;
    size_t n = (size_t)a->n;
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INT: return a->i == b->i;
    case IR_A_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case IR_A_EXPR: return a->e == b->e;
    case IR_A_STRING: return strcmp(a->s, b->s) == 0;
    case IR_A_TENSOR: return a->t == b->t || ir_tensor_equal(a->t, b->t);
    case IR_A_DTYPE: return a->dtype == b->dtype;
    case IR_A_INTS: return n == 0 || memcmp(a->ints, b->ints, n * sizeof *a->ints) == 0;
    case IR_A_FLOATS: return n == 0 || memcmp(a->floats, b->floats, n * sizeof *a->floats) == 0;
    case IR_A_EXPRS: return n == 0 || memcmp(a->exprs, b->exprs, n * sizeof *a->exprs) == 0;
    case IR_A_TYPES: return n == 0 || memcmp(a->types, b->types, n * sizeof *a->types) == 0;
    case IR_A_STRINGS: return equal_strings(a, b);
    }
    return false;
}

bool pass_equal_attrs(const struct ir_node *a, const struct ir_node *b)
{
    if (a->nattrs != b->nattrs)
        return false;
    for (int i = 0; i < a->nattrs; i++) {
        bool found = false;
        for (int k = 0; k < b->nattrs && !found; k++)
            found = equal_attr(&a->attrs[i], &b->attrs[k]);
        if (!found)
            return false;
    }
    return true;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* Of a tensor only the shape and the first bytes: equality is checked in full, and weights are large. */
static uint64_t hash_tensor(const struct ir_tensor *t)
{
    uint64_t h = mix(t->dtype, (uint64_t)t->nelems);
    for (int i = 0; i < t->rank; i++)
        h = mix(h, (uint64_t)t->dims[i]);
    return t->dtype == TCC_STRING ? h : mix(h, tcr_xxh3(t->data, t->bytes < 256 ? (size_t)t->bytes : 256));
}

static uint64_t hash_attr(const struct ir_attr *a)
{
    uint64_t h = mix(a->key, a->kind);
    size_t n = (size_t)a->n;
    switch ((enum ir_attr_kind)a->kind) {
    case IR_A_INT: return mix(h, (uint64_t)a->i);
    case IR_A_FLOAT: return mix(h, tcr_xxh3(&a->f, sizeof a->f));
    case IR_A_EXPR: return mix(h, a->e->id);
    case IR_A_STRING: return mix(h, tcr_xxh3(a->s, strlen(a->s)));
    case IR_A_TENSOR: return mix(h, hash_tensor(a->t));
    case IR_A_DTYPE: return mix(h, a->dtype);
    case IR_A_INTS: return mix(h, tcr_xxh3(a->ints, n * sizeof *a->ints));
    case IR_A_FLOATS: return mix(h, tcr_xxh3(a->floats, n * sizeof *a->floats));
    case IR_A_EXPRS: return mix(h, tcr_xxh3(a->exprs, n * sizeof *a->exprs));
    case IR_A_TYPES: return mix(h, tcr_xxh3(a->types, n * sizeof *a->types));
    case IR_A_STRINGS: return mix(h, n);
    }
    return h;
}

uint64_t pass_hash_attrs(const struct ir_node *n)
{
    uint64_t h = 0;
    for (int i = 0; i < n->nattrs; i++)
        h += hash_attr(&n->attrs[i]);
    return h;
}

bool pass_begin_if(struct ir_builder *b, struct ir_value *condition, int n, const ir_type *types, struct pass_if *out)
{
    out->node = ir_build_typed(b, IR_if, 1, &condition, IR_ATTRS(ir_attr_types(IR_ATTR_types, n, types)), n, types);
    out->then = out->otherwise = *b;
    if (!out->node)
        return false;
    out->then.block = ir_region_new(b->func, out->node);
    out->otherwise.block = ir_region_new(b->func, out->node);
    out->then.before = out->otherwise.before = NULL;
    return true;
}

bool pass_end_if(struct pass_if *x, struct ir_value *const *results, struct ir_value *const *others)
{
    return ir_build_typed(&x->then, IR_yield, x->node->nout, results, NULL, 0, NULL) &&
           ir_build_typed(&x->otherwise, IR_yield, x->node->nout, others, NULL, 0, NULL);
}
