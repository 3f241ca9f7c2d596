/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_node.c - the text form's values and nodes: definitions, operands, attributes, types, regions, blocks. Types
 * after a node's colon may be left out where they follow from the operands; what is written is checked.
 */
#include <string.h>

#include "ir/text/parse_int.h"

struct named {
    const char *name;
    struct ir_value *value;
};

/* == Values == */

static struct named *find_value(struct parser *p, const char *name)
{
    uint32_t pos = UINT32_MAX;
    for (struct named *v; (v = ir_set_next(&p->values, ir_hash_mix(7, (uint64_t)(uintptr_t)name), &pos));) {
        if (v->name == name)
            return v;
    }
    return NULL;
}

/* What a definition says: %name, perhaps followed by the source's name in quotes. */
struct definition {
    const char *name, *source;
    struct token at;
};

static bool parse_definition(struct parser *p, struct definition *d)
{
    d->at = p->tok;
    if (p->tok.kind != T_VALUE)
        return parse_expected(p, "a value (%name)");
    d->name = lex_text(p, &p->tok);
    if (find_value(p, d->name))
        return parse_error(p, &p->tok, "%%%s is defined twice", d->name);
    d->source = ir_is_identifier(d->name) ? d->name : NULL;
    lex_next(p);
    return p->tok.kind != T_STRING || lex_string(p, &d->source);
}

static void define(struct parser *p, const struct definition *d, struct ir_value *v)
{
    struct named *n = IR_NEW(p->ctx, struct named);
    *n = (struct named){d->name, v};
    v->name = d->source;
    ir_set_add(p->ctx, &p->values, ir_hash_mix(7, (uint64_t)(uintptr_t)d->name), n);
}

bool parse_operand(struct parser *p, struct ir_value **out)
{
    *out = NULL;
    if (lex_take_word(p, "_"))
        return true;
    if (p->tok.kind != T_VALUE)
        return parse_expected(p, "an operand (%name, or _ for none)");
    struct named *v = find_value(p, lex_text(p, &p->tok));
    if (!v)
        return parse_error(p, &p->tok, "%%%s is not defined here", lex_text(p, &p->tok));
    *out = v->value;
    lex_next(p);
    return true;
}

/* (%a: type, ...) as parameters of a block. */
bool parse_params(struct parser *p, struct ir_block *b)
{
    struct definition d;
    ir_type type;
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        if ((b->nparams && !lex_expect(p, ',')) || !parse_definition(p, &d) || !lex_expect(p, ':') ||
            !parse_type(p, &type))
            return false;
        if (find_value(p, d.name))
            return parse_error(p, &d.at, "%%%s is defined twice", d.name);
        define(p, &d, b->parent ? ir_param_new(b, type, d.source) : ir_input_new(b->func, type, d.source));
    }
    lex_next(p);
    return true;
}

/* == Nodes == */

struct text_node {
    struct ir_where where;
    struct token at;
    enum ir_op op;
    VEC(struct definition) results;
    VEC(struct ir_value *) in;
    VEC(struct ir_attr) attrs;
    VEC(ir_type) types;
    VEC(const struct kn_layout *) layouts;
    bool has_types;
    struct ir_state *state; /* accessed in the version at this place */
    int only;               /* an older text's op of one result: 1 + which of the op's it is; 0: all are named */
};

static bool parse_results(struct parser *p, struct text_node *t)
{
    while (p->tok.kind == T_VALUE) {
        struct definition d;
        if (!parse_definition(p, &d))
            return false;
        for (int i = 0; i < t->results.n; i++) {
            if (t->results.at[i].name == d.name)
                return parse_error(p, &d.at, "%%%s is defined twice", d.name);
        }
        VEC_PUSH(p->ctx, t->results, d);
        if (!lex_take(p, ','))
            break;
    }
    return !t->results.n || lex_expect(p, '=');
}

static bool parse_operands(struct parser *p, struct text_node *t)
{
    struct ir_value *v;
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        if ((t->in.n && !lex_expect(p, ',')) || !parse_operand(p, &v))
            return false;
        VEC_PUSH(p->ctx, t->in, v);
    }
    lex_next(p);
    return true;
}

/* state_read() {name = "w"}, state_write(%x) {name = "w"}: short for the version at this place. */
bool parse_no_state(struct parser *p, const struct token *at, const char *name)
{
    struct ir_known known = {.near.word = name};

    for (const struct ir_state *s = p->module->states; s; s = s->next)
        ir_known_add(&known, s->name);
    return parse_error(p, at, "the module has no state variable '%s'%s", name, ir_known_text(&known));
}

static bool parse_place(struct parser *p, struct text_node *t)
{
    const char *name;
    struct token at;
    lex_next(p);
    if (!lex_expect(p, '='))
        return false;
    at = p->tok;
    if (!lex_string(p, &name))
        return false;
    t->state = ir_state_by_name(p->module, name);
    if (!t->state)
        return parse_no_state(p, &at, name);
    if (t->in.n != (t->op == IR_state_write))
        return parse_error(p, &at, "a version and a name: one of them says which variable");
    return true;
}

static bool parse_attrs(struct parser *p, struct text_node *t)
{
    bool accesses = t->op == IR_state_read || t->op == IR_state_write;
    if (!lex_take(p, '{'))
        return true;
    while (!lex_is(p, '}')) {
        struct ir_attr a;
        struct token at;
        if (t->attrs.n && !lex_expect(p, ','))
            return false;
        at = p->tok;
        if (accesses && !t->state && lex_is_word(p, "name")) {
            if (!parse_place(p, t))
                return false;
            continue;
        }
        if (!parse_attr(p, t->op, &a))
            return false;
        VEC_PUSH(p->ctx, t->attrs, a);
        for (int i = 0; i + 1 < t->attrs.n; i++) {
            if (t->attrs.at[i].key == a.key && t->attrs.at[i].name == a.name)
                return parse_error(p, &at, "the attribute is given twice");
        }
    }
    lex_next(p);
    return true;
}

static bool parse_types(struct parser *p, struct text_node *t)
{
    if (!lex_take(p, ':'))
        return true;
    t->has_types = true;
    do {
        ir_type type;
        if (!parse_type(p, &type))
            return false;
        VEC_PUSH(p->ctx, t->types, type);
        const struct kn_layout *layout = NULL;
        if (lex_take_word(p, "layout") && !parse_layout(p, type, &layout))
            return false;
        VEC_PUSH(p->ctx, t->layouts, layout);
    } while (lex_take(p, ','));
    return true;
}

static bool parse_loc(struct parser *p, struct ir_where *where)
{
    int64_t opset;
    if (!lex_take_word(p, "loc"))
        return true;
    if (!lex_expect(p, '(') || (!lex_take_word(p, "_") && !lex_string(p, &where->node)) || !lex_expect(p, ',') ||
        (!lex_take_word(p, "_") && !lex_string(p, &where->op)) || !lex_expect(p, ',') ||
        !lex_small(p, 0, INT32_MAX, &opset))
        return false;
    where->opset = (int)opset;
    return lex_expect(p, ')');
}

bool parse_block(struct parser *p, struct ir_block *b);

static bool parse_regions(struct parser *p, struct ir_node *n)
{
    while (lex_is_word(p, "do")) {
        if (!(ir_op_info(n->op)->flags & IR_F_REGIONS))
            return parse_error(p, &p->tok, "%s has no regions", ir_op_info(n->op)->name);
        lex_next(p);
        struct ir_block *b = ir_region_new(p->func, n);
        if ((lex_is(p, '(') && !parse_params(p, b)) || !parse_block(p, b))
            return false;
    }
    return true;
}

/* The written types must be what inference finds. */
static bool check_types(struct parser *p, const struct text_node *t, const struct ir_node *n)
{
    int nout = t->only ? 1 : n->nout;
    if (!t->has_types)
        return true;
    if (t->types.n != nout)
        return parse_error(p, &t->at, "%s has %d outputs, %d types are written", ir_op_info(t->op)->name, nout,
                           t->types.n);
    for (int i = 0; i < nout; i++) {
        ir_type type = n->out[t->only ? t->only - 1 : i]->type;
        if (type != t->types.at[i])
            return parse_error(p, &t->at, "%s: output %d is %s; the text says %s", ir_op_info(t->op)->name, i,
                               ir_type_text(p->ctx, type), ir_type_text(p->ctx, t->types.at[i]));
    }
    return true;
}

/* Words of older texts for one result of an op that has two. */
static const struct {
    const char *word;
    enum ir_op op;
    int result;
} old_results[] = {{"attention_grad_k", IR_attention_grad_vk, 1},
                   {"attention_grad_v", IR_attention_grad_vk, 0},
                   {"attention_lse", IR_attention_lse, 1},
                   {"topk_positions", IR_sort, 1},
                   {"topk_values", IR_sort, 0}};

static void old_op(struct text_node *t, const char *word)
{
    for (size_t i = 0; i < sizeof old_results / sizeof *old_results && t->results.n == 1; i++)
        if (!strcmp(old_results[i].word, word)) {
            t->op = old_results[i].op;
            t->only = 1 + old_results[i].result;
        }
}

/* The logarithms alone had no values among their operands, and read none: any that fit will do. */
static void old_operands(struct parser *p, struct text_node *t)
{
    if (t->op != IR_attention_lse || t->in.n < 2)
        return;
    VEC_PUSH(p->ctx, t->in, t->in.at[t->in.n - 1]);
    t->in.at[2] = t->in.at[1];
}

static bool make_node(struct parser *p, struct text_node *t, struct ir_block *b, struct ir_node **out)
{
    const struct ir_op_info *info = ir_op_info(t->op);
    struct ir_builder builder = {.ctx = p->ctx, .func = p->func, .block = b, .where = t->where};
    int nout = t->only || (t->state && !t->results.n) ? info->nout : t->results.n;
    if (t->only)
        old_operands(p, t);
    if (t->state) {
        VEC_PUSH(p->ctx, t->in, ir_state_version(&builder, t->state));
        p->places = true;
    }
    if (info->nout >= 0 && nout != info->nout)
        return parse_error(p, &t->at, "%s has %d outputs, got %d names", info->name, info->nout, nout);
    if (ir_attr_allowed(t->op, IR_ATTR_types)) {
        if (t->types.n != nout)
            return parse_error(p, &t->at, "%s: the types of all %d outputs must be written", info->name, nout);
        VEC_PUSH(p->ctx, t->attrs, ir_attr_types(IR_ATTR_types, nout, t->types.at));
    }
    VEC_PUSH(p->ctx, t->attrs, (struct ir_attr){0});
    struct ir_node *n = ir_build_typed(&builder, t->op, t->in.n, t->in.at, t->attrs.at, nout, NULL);
    t->attrs.n--;
    if (!ir_infer_node(p->ctx, n) || !check_types(p, t, n)) {
        ir_remove(n);
        return false;
    }
    for (int i = 0; i < t->results.n; i++)
        define(p, &t->results.at[i], n->out[t->only ? t->only - 1 : i]);
    for (int i = 0; i < t->layouts.n; i++)
        n->out[t->only ? t->only - 1 : i]->layout = t->layouts.at[i];
    *out = n;
    return true;
}

static bool unknown_op(struct parser *p, const char *name)
{
    struct ir_nearest near = {.word = name};

    for (int op = IR_OP_NONE + 1; op < IR_NOPS; op++)
        ir_nearest_try(&near, ir_op_info((enum ir_op)op)->name);
    return parse_error(p, &p->tok, "unknown op '%s'%s", name, ir_did_you_mean(p->ctx, &near));
}

static bool parse_op(struct parser *p, struct text_node *t)
{
    const char *name;
    t->at = p->tok;
    t->where = lex_where(p, &p->tok);
    if (p->tok.kind != T_IDENT)
        return parse_expected(p, "an op");
    name = lex_text(p, &p->tok);
    t->op = ir_op_by_name(name);
    old_op(t, name);
    if (t->op == IR_OP_NONE)
        return unknown_op(p, name);
    lex_next(p);
    return true;
}

static bool parse_node(struct parser *p, struct ir_block *b, struct ir_node **out)
{
    struct text_node t = {0};
    bool ok = parse_results(p, &t) && parse_op(p, &t) && parse_operands(p, &t) && parse_attrs(p, &t) &&
              parse_types(p, &t) && parse_loc(p, &t.where) && make_node(p, &t, b, out);
    return ok && parse_regions(p, *out);
}

bool parse_block(struct parser *p, struct ir_block *b)
{
    if (!parse_enter(p) || !lex_expect(p, '{'))
        return false;
    while (!lex_is(p, '}')) {
        struct ir_node *n = NULL;
        if (!parse_node(p, b, &n))
            return false;
    }
    lex_next(p);
    p->depth--;
    return true;
}
