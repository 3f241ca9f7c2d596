/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - the text form's modules and functions (doc/ir.md has the grammar). The first error ends the parse; the
 * finished module has passed the verifier.
 */
#include <string.h>

#include "ir/text/parse_int.h"

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
    int flags = 0, owner_stage = 0;
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
        owner_stage = (int)stage + 1;
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
    s->owner_stage = owner_stage;
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

/* meta "KEY" = "VALUE" */
static bool parse_meta(struct parser *p)
{
    const char *key, *value;
    if (!lex_string(p, &key) || !lex_expect(p, '=') || !lex_string(p, &value))
        return false;
    ir_meta_new(p->module, key, value);
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
            : lex_take_word(p, "meta")    ? !parse_meta(p)
            : lex_take_word(p, "func")    ? !parse_func(p)
            : lex_take_word(p, "fusion")  ? !parse_fusion(p)
            : lex_take_word(p, "stages")  ? !parse_staged(p)
            : lex_is_word(p, "kernel") || lex_is_word(p, "level") || lex_is_word(p, "memory") ||
                    lex_is_word(p, "queue") || lex_is_word(p, "buffer") || lex_is_word(p, "entry")
                ? p->module->program ? !parse_expected(p, "the end: a program is one piece") : !parse_program(p)
                : !parse_expected(
                      p, "sym, state, default, labels, meta, func, kernel, level, buffer, entry, fusion or stages"))
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
