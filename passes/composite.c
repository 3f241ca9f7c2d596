/* SPDX-License-Identifier: Apache-2.0 */
/* composite.c - matches nodes with the patterns of composite.def, from a composite's last node towards its operands. */
#include "passes/composite.h"

#include <ctype.h>
#include <math.h>
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

/* How far it is looked for whole numbers: zero points, and what they are made of, are small. */
enum { MOST_NODES = 32, MOST_ELEMENTS = 1 << 16 };

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

static bool is_byte(const struct ir_value *v)
{
    return v->type->kind == IR_T_TENSOR && (v->type->dtype == TCC_I8 || v->type->dtype == TCC_U8);
}

static bool whole_elements(const struct ir_tensor *t)
{
    int64_t n = t->splat ? 1 : t->nelems;
    if (n > MOST_ELEMENTS)
        return false;
    for (int64_t i = 0; i < n; i++) {
        double d = tcc_load_f64((enum tcc_dtype)t->dtype, ir_tensor_at(t, i));
        if (d != floor(d))
            return false;
    }
    return true;
}

/* Are v's elements whole numbers, or infinite? By its type, or what it is made of, as far as so many nodes tell. */
static bool made_whole(const struct ir_value *v, int *nodes)
{
    const struct ir_node *n = v->def;
    if (v->type->kind != IR_T_TENSOR || --*nodes < 0)
        return false;
    if (tcc_is_int((enum tcc_dtype)v->type->dtype))
        return true;
    if (!n || !tcc_is_float((enum tcc_dtype)v->type->dtype))
        return false;
    switch (n->op) {
    case IR_constant: return whole_elements(ir_const_of(v));
    case IR_round:
    case IR_floor:
    case IR_ceil: return true;
    case IR_neg:
    case IR_abs:
    case IR_relu:
    case IR_cast:
    case IR_reshape:
    case IR_transpose:
    case IR_expand:
    case IR_slice: return made_whole(n->in[0].value, nodes);
    case IR_add:
    case IR_sub:
    case IR_mul:
    case IR_max:
    case IR_min:
    case IR_clip:
        for (int i = 0; i < n->nin; i++)
            if (!made_whole(n->in[i].value, nodes))
                return false;
        return true;
    default: return false;
    }
}

static bool is_whole(const struct ir_value *v)
{
    int nodes = MOST_NODES;
    return made_whole(v, &nodes);
}

static const struct {
    const char *word;
    bool (*fits)(const struct ir_value *v);
} words[] = {{"byte", is_byte}, {"whole", is_whole}};

/* The word behind a colon; *p: behind it. */
static bool match_word(const char **p, const struct ir_value *v)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        if (!strncmp(*p, words[i].word, length)) {
            *p += length;
            return words[i].fits(v);
        }
    }
    return false;
}

static bool match(struct composite_match *m, const char *p, struct ir_value *v)
{
    double constant;
    if (*p == '~') {
        for (p++; v->def && (v->def->op == IR_reshape || v->def->op == IR_expand); v = v->def->in[0].value)
            if (!add_node(m, v->def))
                return false;
    }
    if (p[1] == ':') {
        const char *rest = p + 2;
        if (!match_word(&rest, v) || (*rest == '=' && !match(m, rest + 1, v)))
            return false;
        return *p == '_' || bind(m, *p, v);
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
    return n->nout == 1 && match(m, r->pattern, n->out[0]) && same_axes(m);
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
    IR_EACH_NODE(n, block) {
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
