/* SPDX-License-Identifier: Apache-2.0 */
/* composite.c - matches nodes with the patterns of composite.def, from a composite's last node towards its operands. */
#include "passes/composite.h"

#include <ctype.h>
#include <string.h>

static const struct row {
    enum composite what;
    const char *pattern;
} rows[] = {
#define COMPOSITE(id, pattern) {COMPOSITE_##id, pattern},
#include "passes/composite.def"
#undef COMPOSITE
};
enum { NROWS = sizeof rows / sizeof *rows };

/* The end of the pattern that begins at p. */
static const char *skip(const char *p)
{
    int depth = 0;
    for (; *p && (depth || (*p != ',' && *p != ')')); p++)
        depth += (*p == '(') - (*p == ')');
    return p;
}

static bool add_node(struct composite_match *m, struct ir_node *n)
{
    for (int i = 0; i < m->nnodes; i++)
        if (m->node[i] == n)
            return true;
    if (m->nnodes == COMPOSITE_MAX_NODES)
        return false;
    m->node[m->nnodes++] = n;
    return true;
}

static bool bind(struct composite_match *m, char letter, struct ir_value *v)
{
    struct ir_value **at = &m->value[letter - 'a'];
    if (!*at)
        *at = v;
    return *at == v;
}

static bool is_op(const char *p, enum ir_op op)
{
    const char *name = ir_op_info(op)->name;
    size_t length = strlen(name);
    for (;; p++) {
        size_t n = strcspn(p, "|(");
        if (n == length && !strncmp(p, name, n))
            return true;
        p += n;
        if (*p != '|')
            return false;
    }
}

static bool commutes(const struct ir_node *n)
{
    return n->nin == 2 && (ir_op_info(n->op)->flags & IR_F_COMMUTES);
}

static bool match(struct composite_match *m, const char *p, struct ir_value *v);

/* Operands of n in that order; p: the first one's pattern. */
static bool match_operands(struct composite_match *m, const char *p, const struct ir_node *n, bool swapped)
{
    for (int i = 0; i < n->nin; i++, p += *p == ',') {
        struct ir_value *v = n->in[swapped ? n->nin - 1 - i : i].value;
        while (*p == ' ')
            p++;
        if (*p == ')' || !v || !match(m, p, v))
            return false;
        p = skip(p);
    }
    return *p == ')';
}

static bool match_node(struct composite_match *m, const char *p, struct ir_node *n)
{
    struct composite_match before = *m;
    if (!n || !is_op(p, n->op) || !add_node(m, n))
        return false;
    p += strcspn(p, "(") + 1;
    if (match_operands(m, p, n, false))
        return true;
    if (!commutes(n))
        return false;
    *m = before;
    return add_node(m, n) && match_operands(m, p, n, true);
}

static bool match(struct composite_match *m, const char *p, struct ir_value *v)
{
    double constant;
    if (*p == '~') {
        for (p++; v->def && (v->def->op == IR_reshape || v->def->op == IR_expand); v = v->def->in[0].value)
            if (!add_node(m, v->def))
                return false;
    }
    if (*p == '_')
        return true;
    if (p[1] == '=')
        return match(m, p + 2, v) && bind(m, *p, v);
    if (isalnum((unsigned char)p[1]) || p[1] == '_' || p[1] == '|')
        return match_node(m, p, v->def);
    return *p == 'k' ? ir_splat_f(v, &constant) : bind(m, *p, v);
}

/* Are all reductions over the same axes? */
static bool same_axes(const struct composite_match *m)
{
    const struct ir_attr *first = NULL;
    for (int i = 0; i < m->nnodes; i++) {
        if (ir_op_info(m->node[i]->op)->kind != IR_K_REDUCE)
            continue;
        const struct ir_attr *a = ir_attr(m->node[i], IR_ATTR_axes);
        first = first ? first : a;
        if (!a || a->n != first->n || memcmp(a->ints, first->ints, (size_t)a->n * sizeof *a->ints))
            return false;
    }
    return true;
}

static bool matches(const struct row *r, struct ir_node *n, struct composite_match *m)
{
    *m = (struct composite_match){0};
    return match_node(m, r->pattern, n) && same_axes(m);
}

bool composite_match(struct ir_node *n, enum composite what, struct composite_match *m)
{
    for (int i = 0; i < NROWS; i++)
        if (rows[i].what == what && matches(&rows[i], n, m))
            return true;
    return false;
}

static void mark(struct ir_block *block, uint8_t *of)
{
    struct composite_match m;
    IR_EACH_NODE(n, block)
    {
        for (int i = 0; i < n->nregions; i++)
            mark(n->regions[i], of);
        for (int i = 0; i < NROWS; i++) {
            if (!matches(&rows[i], n, &m))
                continue;
            for (int j = 0; j < m.nnodes; j++)
                of[m.node[j]->id] = (uint8_t)rows[i].what;
            break;
        }
    }
}

const uint8_t *composites_of(struct ir_func *f)
{
    uint8_t *of = IR_NEWN(f->module->ctx, f->nnodes + 1, uint8_t);
    mark(f->body, of);
    return of;
}
