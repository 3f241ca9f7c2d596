/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - the text form's modules, functions and nodes (doc/ir.md has the grammar). The first error ends the parse.
 *
 * Types after a node's colon may be left out where they follow from the operands; what is written is checked. The
 * finished module has passed the verifier.
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
static bool parse_params(struct parser *p, struct ir_block *b)
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

static bool parse_block(struct parser *p, struct ir_block *b);

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

static bool parse_block(struct parser *p, struct ir_block *b)
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

/* == Functions and modules == */

struct results {
    VEC(const char *) names;
    VEC(ir_type) types;
    bool named;
};

static bool parse_signature(struct parser *p, struct results *r)
{
    if (!lex_expect(p, P_ARROW) || !lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        const char *name = NULL;
        ir_type type;
        if (r->types.n && !lex_expect(p, ','))
            return false;
        if (p->tok.kind == T_STRING && (!lex_string(p, &name) || !lex_expect(p, ':')))
            return false;
        if (!parse_type(p, &type))
            return false;
        r->named |= name != NULL;
        VEC_PUSH(p->ctx, r->names, name);
        VEC_PUSH(p->ctx, r->types, type);
    }
    lex_next(p);
    return true;
}

static bool check_results(struct parser *p, const struct token *at, const struct results *r)
{
    const struct ir_node *end = p->func->body->last;
    if (!end || end->op != IR_return)
        return parse_error(p, at, "@%s does not end in return", p->func->name);
    if (end->nin != r->types.n)
        return parse_error(p, at, "@%s has %d results, return gives %d", p->func->name, r->types.n, end->nin);
    for (int i = 0; i < end->nin; i++) {
        if (!end->in[i].value || end->in[i].value->type != r->types.at[i])
            return parse_error(p, at, "result %d of @%s is %s; return gives %s", i, p->func->name,
                               ir_type_text(p->ctx, r->types.at[i]),
                               end->in[i].value ? ir_type_text(p->ctx, end->in[i].value->type) : "nothing");
    }
    return true;
}

static bool parse_guard(struct parser *p, struct ir_guard *g)
{
    struct token at = p->tok;
    const char *word;
    int op = 0;
    if (!lex_ident(p, &word))
        return false;
    while (op < TCC_NGUARDS && strcmp(ir_guard_word((enum tcc_guard)op), word))
        op++;
    if (op == TCC_NGUARDS)
        return parse_error(p, &at, "expected eq, ne, le or broadcast; found '%s'", word);
    g->op = (enum tcc_guard)op;
    return lex_expect(p, '(') && parse_expr(p, &g->a) && lex_expect(p, ',') && parse_expr(p, &g->b) &&
           lex_expect(p, ')');
}

/* version @main(f32[N,8]) when eq(N, 1), ne(M, 2) */
static bool parse_version(struct parser *p)
{
    struct ir_version *v = IR_NEW(p->ctx, struct ir_version);
    VEC(ir_type) types = {0};
    VEC(struct ir_guard) guards = {0};
    struct ir_guard g;
    if (!lex_take_word(p, "version"))
        return true;
    if (!lex_global(p, &v->entry) || !lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        ir_type t;
        if ((types.n && !lex_expect(p, ',')) || !parse_type(p, &t))
            return false;
        VEC_PUSH(p->ctx, types, t);
    }
    lex_next(p);
    if (lex_take_word(p, "when")) {
        do {
            if (!parse_guard(p, &g))
                return false;
            VEC_PUSH(p->ctx, guards, g);
        } while (lex_take(p, ','));
    }
    *v = (struct ir_version){v->entry, types.n, types.at, guards.n, guards.at};
    p->func->version = v;
    return true;
}

/* advance @position = past + sequence, @other = ... */
static bool parse_advances(struct parser *p)
{
    if (!lex_take_word(p, "advance"))
        return true;
    do {
        struct token at = p->tok;
        const char *name;
        ir_expr to;
        if (!lex_global(p, &name) || !lex_expect(p, '=') || !parse_expr(p, &to))
            return false;
        struct ir_state *s = ir_state_by_name(p->module, name);
        if (!s || !s->sym)
            return parse_error(p, &at, "state variable @%s with a symbol expected", name);
        ir_advance_add(p->func, s, to);
    } while (lex_take(p, ','));
    return true;
}

/* after the word `func` */
static bool parse_func(struct parser *p)
{
    struct token at = p->tok;
    struct results results = {0};
    const char *name;
    if (!lex_global(p, &name))
        return false;
    if (ir_func_by_name(p->module, name))
        return parse_error(p, &at, "@%s is defined twice", name);
    p->func = ir_func_new(p->module, name);
    ir_set_free(&p->values);
    if (!parse_params(p, p->func->body) || !parse_signature(p, &results) || !parse_version(p) || !parse_advances(p) ||
        !parse_block(p, p->func->body) || !check_results(p, &at, &results))
        return false;
    if (p->places)
        ir_state_versions(p->func);
    p->places = false;
    if (results.named)
        p->func->output_names = results.names.at;
    VEC_PUSH(p->ctx, p->funcs, (struct parsed_func){p->func, p->values});
    return true;
}

/* after the word `sym` */
static bool parse_sym(struct parser *p)
{
    struct token at = p->tok;
    const char *name;
    int64_t lo, hi;
    if (p->tok.kind == T_STRING ? !lex_string(p, &name) : !lex_ident(p, &name))
        return false;
    if (!lex_expect_word(p, "in") || !lex_int(p, &lo) || !lex_expect(p, P_DOTS) || !lex_int(p, &hi))
        return false;
    if (lo > hi)
        return parse_error(p, &at, "the bounds %lld..%lld are empty", (long long)lo, (long long)hi);
    ir_expr s = ir_sym_bounded(p->ctx, name, lo, hi);
    if (s->lo != lo || s->hi != hi)
        return parse_error(p, &at, "the symbol '%s' has the bounds %lld..%lld already", name, (long long)s->lo,
                           (long long)s->hi);
    return true;
}

/* "shard" AXIS "of" PARTS "in" BLOCKS ["less" PADDING] GROUP: the type becomes a part's, and *whole all parts'. */
static bool parse_shard(struct parser *p, ir_type type, struct ir_shard *shard, ir_type *whole)
{
    struct token at = p->tok;
    int64_t axis, parts, blocks, dims[TCC_MAX_RANK];
    if (!lex_take_word(p, "shard"))
        return true;
    if (!lex_small(p, 0, TCC_MAX_RANK - 1, &axis) || !lex_expect_word(p, "of") || !lex_small(p, 2, 1 << 20, &parts) ||
        !lex_expect_word(p, "in") || !lex_small(p, 1, INT32_MAX, &blocks) ||
        (lex_take_word(p, "less") && !lex_small(p, 1, INT32_MAX, &shard->padding)) || !lex_string(p, &shard->group))
        return false;
    ir_static_dims(type, dims);
    if (axis >= type->rank || dims[axis] % blocks || dims[axis] > INT64_MAX / parts)
        return parse_error(p, &at, "a part has the axis, which is a multiple of %lld", (long long)blocks);
    shard->axis = (int)axis;
    shard->parts = (int)parts;
    shard->blocks = (int)blocks;
    dims[axis] *= parts;
    if (shard->padding && (blocks > 1 || shard->padding >= dims[axis]))
        return parse_error(p, &at, "a part that is padded has one block, which is longer");
    dims[axis] -= shard->padding;
    *whole = ir_tensor_type_i(p->ctx, (enum tcc_dtype)type->dtype, type->rank, dims);
    return true;
}

static bool parse_state(struct parser *p)
{
    static const struct {
        int flag;
        const char *word;
    } words[] = {{IR_STATE_PARAM, "param"},       {IR_STATE_BUFFER, "buffer"}, {IR_STATE_OPTIMIZER, "optimizer"},
                 {IR_STATE_GRADIENT, "gradient"}, {IR_STATE_CACHE, "cache"},   {IR_STATE_LOCAL, "local"}};
    struct token at = p->tok;
    const char *name;
    ir_type type;
    int flags = 0, home = 0;
    int64_t stage;
    struct ir_tensor *init = NULL;
    ir_expr sym = NULL, owner = NULL;
    int64_t dims[TCC_MAX_RANK];
    struct ir_shard shard = {0};
    ir_type whole;
    if (!lex_global(p, &name) || !lex_expect(p, ':') || !parse_type(p, &type))
        return false;
    if (ir_state_by_name(p->module, name))
        return parse_error(p, &at, "state @%s is defined twice", name);
    if (!ir_is_tensor(type) || !ir_static_dims(type, NULL))
        return parse_error(p, &at, "state needs a tensor type with constant dims, got %s", ir_type_text(p->ctx, type));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        flags |= lex_take_word(p, words[i].word) ? words[i].flag : 0;
    if ((lex_take_word(p, "symbol") && !parse_expr(p, &sym)) || (lex_take_word(p, "owner") && !parse_expr(p, &owner)))
        return false;
    bool on_host = lex_take_word(p, "host");
    if (lex_take_word(p, "stage")) {
        if (!lex_small(p, 0, INT32_MAX - 1, &stage))
            return false;
        home = (int)stage + 1;
    }
    whole = type;
    if (!parse_shard(p, type, &shard, &whole))
        return false;
    if (lex_take(p, '=')) {
        if (!parse_tensor(p, &init))
            return false;
        ir_static_dims(whole, dims);
        bool fits = init->dtype == type->dtype && init->rank == type->rank &&
                    (type->rank == 0 || memcmp(init->dims, dims, (size_t)type->rank * sizeof *dims) == 0);
        if (!fits)
            return parse_error(p, &at, "the initial value of @%s is not of its type", name);
    }
    struct ir_state *s = ir_state_new(p->module, name, type, ir_tensor_ref(init), flags);
    s->sym = sym;
    s->owner = owner;
    s->on_host = on_host;
    s->home = home;
    s->shard = shard;
    return true;
}

/* default "NAME" [= TENSOR] */
static bool parse_default(struct parser *p)
{
    const char *input;
    struct ir_tensor *value = NULL;
    if (!lex_string(p, &input) || (lex_take(p, '=') && !parse_tensor(p, &value)))
        return false;
    ir_default_new(p->module, input, ir_tensor_ref(value));
    return true;
}

/* labels "OUTPUT" = "WORD", ... */
static bool parse_labels(struct parser *p)
{
    struct token at = p->tok;
    VEC(const char *) words = {0};
    const char *output, *word;
    if (!lex_string(p, &output) || !lex_expect(p, '='))
        return false;
    if (ir_labels_of(p->module, output))
        return parse_error(p, &at, "output \"%s\" has labels already", output);
    do {
        if (!lex_string(p, &word))
            return false;
        VEC_PUSH(p->ctx, words, word);
    } while (lex_take(p, ','));
    ir_labels_new(p->module, output, words.n, words.at);
    return true;
}

static bool parse_module(struct parser *p)
{
    const char *name;
    if (lex_take_word(p, "module")) {
        if (!lex_string(p, &name))
            return false;
        p->module->name = name;
        p->module->text = false;
    }
    while (p->tok.kind != T_EOF) {
        if (lex_take_word(p, "sym")       ? !parse_sym(p)
            : lex_take_word(p, "state")   ? !parse_state(p)
            : lex_take_word(p, "default") ? !parse_default(p)
            : lex_take_word(p, "labels")  ? !parse_labels(p)
            : lex_take_word(p, "func")    ? !parse_func(p)
            : lex_take_word(p, "fusion")  ? !parse_fusion(p)
            : lex_take_word(p, "stages")  ? !parse_staged(p)
            : lex_is_word(p, "kernel") || lex_is_word(p, "level") || lex_is_word(p, "memory") ||
                    lex_is_word(p, "queue") || lex_is_word(p, "buffer") || lex_is_word(p, "entry")
                ? p->module->program ? !parse_expected(p, "the end: a program is one piece") : !parse_program(p)
                : !parse_expected(p,
                                  "sym, state, default, labels, func, kernel, level, buffer, entry, fusion or stages"))
            return false;
    }
    return true;
}

void ir_allow_files(struct ir_ctx *ctx, const char *folder)
{
    ctx->files = folder ? ir_intern(ctx, folder) : NULL;
}

struct ir_module *ir_parse(struct ir_ctx *ctx, const char *name, const char *text, size_t size)
{
    struct parser p = {.ctx = ctx,
                       .file = name ? ir_intern(ctx, name) : NULL,
                       .at = text,
                       .end = size ? text + size : text, /* an empty text may be NULL */
                       .line_start = text,
                       .line = 1};
    const char *slash = name ? strrchr(name, '/') : NULL;
    p.module = ir_module_new(ctx, slash ? slash + 1 : name);
    p.module->text = true;
    lex_next(&p);
    ctx->parsing = true;
    p.values.arena = ir_arena_new(ctx);
    bool ok = parse_module(&p) && ir_verify_as(p.module, IR_D_ERROR);
    ctx->parsing = false;
    ir_arena_free(p.values.arena);
    return ok ? p.module : NULL;
}
