/* SPDX-License-Identifier: Apache-2.0 */
/* parse_kernel.c - text of kernels (doc/ir.md). What is read has passed kn_verify_kernel. */
#include <string.h>

#include "ir/roles/roles_int.h"
#include "ir/text/kernel_words_int.h"
#include "ir/text/parse_kernel_int.h"

#define MAX_INSNS 4000

static int find_label(const struct kernel_label *at, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (at[i].name == name)
            return at[i].number;
    }
    return -1;
}

/* == Dims and operands == */

static bool read_dim(struct kernel_reader *r, enum kn_role role)
{
    struct parser *p = r->p;
    struct token at = p->tok;
    const char *name;
    ir_expr extent;
    if (!lex_ident(p, &name) || !lex_expect(p, '<') || !parse_expr(p, &extent))
        return false;
    if (r->dims.n == KN_MAX_DIMS)
        return parse_error(p, &at, "more than %d dims", KN_MAX_DIMS);
    for (int i = 0; i < r->dims.n; i++) {
        if (p->scope[i].name == name)
            return parse_error(p, &at, "dim %s is defined twice", name);
    }
    ir_expr var = ir_sym_find(r->ctx, name);
    if (!var)
        var = ir_iter_named(r->ctx, name, extent);
    else if (var->extent != extent) /* another kernel's dim, or a size: this one gets a name of its own */
        var = ir_iter(r->ctx, name, extent);
    VEC_PUSH(r->ctx, r->dims, (struct kn_dim){var, extent, role});
    p->scope[p->nscope].name = name;
    p->scope[p->nscope++].e = var;
    return true;
}

bool parse_dim_set(struct kernel_reader *r, uint32_t *set)
{
    struct parser *p = r->p;
    *set = 0;
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        const char *name;
        struct token at = p->tok;
        int d = 0;
        if ((*set && !lex_expect(p, ',')) || !lex_ident(p, &name))
            return false;
        while (d < p->nscope && p->scope[d].name != name)
            d++;
        if (d == p->nscope)
            return parse_error(p, &at, "unknown dim %s", name);
        *set |= 1u << d;
    }
    lex_next(p);
    return true;
}

static bool read_space(struct kernel_reader *r, enum kn_operand_space *space)
{
    const char *name;
    struct token at = r->p->tok;
    if (!lex_ident(r->p, &name))
        return false;
    int word = kn_word(kn_operand_space_words, name);
    *space = (enum kn_operand_space)word;
    return word > KN_GLOBAL || parse_error(r->p, &at, "expected shared, registers or scratch, got '%s'", name);
}

static bool read_operand(struct kernel_reader *r, enum kn_operand_use use)
{
    struct parser *p = r->p;
    struct token at = p->tok;
    struct kn_operand o = {.use = use};
    const char *name;
    enum tcc_dtype dtype;
    ir_expr *dims;
    if (use == KN_LOCAL && !read_space(r, &o.space))
        return false;
    at = p->tok;
    if (!lex_ident(p, &name))
        return false;
    if (find_label(r->operand_names.at, r->operand_names.n, name) >= 0)
        return parse_error(p, &at, "operand %s is defined twice", name);
    if (p->tok.kind == T_STRING ? !lex_string(p, &o.name) : false)
        return false;
    if (!o.name && name != ir_internf(r->ctx, "o%d", r->operands.n))
        o.name = name;
    if (!lex_expect(p, ':') || !parse_dtype(p, &dtype) || !lex_expect(p, '[') || !parse_exprs(p, ']', &dims, &o.rank))
        return false;
    if (o.rank > TCC_MAX_RANK)
        return parse_error(p, &at, "operand %s has rank %d, at most %d is supported", name, o.rank, TCC_MAX_RANK);
    o.dtype = dtype;
    if (o.rank)
        memcpy(o.dims, dims, (size_t)o.rank * sizeof *dims);
    VEC_PUSH(r->ctx, r->operand_names, (struct kernel_label){name, r->operands.n});
    VEC_PUSH(r->ctx, r->operands, o);
    return true;
}

/* == Instructions == */

bool parse_insn_name(struct kernel_reader *r, int32_t *out)
{
    struct parser *p = r->p;
    if (p->tok.kind != T_VALUE)
        return parse_expected(p, "a value (%name)");
    *out = find_label(r->insn_names.at, r->insn_names.n, lex_text(p, &p->tok));
    if (*out < 0)
        return parse_error(p, &p->tok, "%%%s is not defined here", lex_text(p, &p->tok));
    lex_next(p);
    return true;
}

bool parse_operand_name(struct kernel_reader *r, int32_t *out)
{
    const char *name;
    struct token at = r->p->tok;
    if (!lex_ident(r->p, &name))
        return false;
    *out = find_label(r->operand_names.at, r->operand_names.n, name);
    return *out >= 0 || parse_error(r->p, &at, "unknown operand %s", name);
}

static bool read_access(struct kernel_reader *r, struct kn_insn *n)
{
    ir_expr *index;
    int count;
    struct token at = r->p->tok;
    if (!parse_operand_name(r, &n->operand) || !lex_expect(r->p, '[') || !parse_exprs(r->p, ']', &index, &count))
        return false;
    if (count > TCC_MAX_RANK)
        return parse_error(r->p, &at, "%d indices", count);
    n->nindex = (uint8_t)count;
    n->index = index;
    return true;
}

static bool read_guards(struct kernel_reader *r, struct kn_insn *n)
{
    VEC(struct kn_guard) v = {0};
    struct parser *p = r->p;
    if (!lex_take_word(p, "if"))
        return true;
    do {
        struct kn_guard g;
        if (v.n == 255)
            return parse_error(p, &p->tok, "too many guards");
        if (!parse_expr(p, &g.lo) || !lex_expect(p, '<') || !lex_expect(p, '=') || !parse_expr(p, &g.e) ||
            !lex_expect(p, '<') || !parse_expr(p, &g.hi))
            return false;
        VEC_PUSH(r->ctx, v, g);
    } while (lex_take(p, ','));
    n->guards = v.at;
    n->nguards = (uint8_t)v.n;
    return true;
}

static bool read_args(struct kernel_reader *r, struct kn_insn *n)
{
    struct parser *p = r->p;
    do {
        if (n->nargs == 3)
            return parse_expected(p, "at most 3 arguments");
        if (!parse_insn_name(r, &n->arg[n->nargs++]))
            return false;
    } while (lex_take(p, ','));
    return true;
}

/* What the text says of how the access is known to stay inside, if it does. */
static void read_answer(struct kernel_reader *r, struct kn_insn *n)
{
    int answer = r->p->tok.kind == T_IDENT ? kn_word(kn_answer_words, lex_text(r->p, &r->p->tok)) : -1;
    if (answer <= KN_UNKNOWN)
        return;
    n->answer = (uint8_t)answer;
    lex_next(r->p);
}

static bool read_load(struct kernel_reader *r, struct kn_insn *n)
{
    n->arg[0] = -1;
    if (!read_access(r, n) || !read_guards(r, n))
        return false;
    if (lex_take_word(r->p, "else")) {
        n->nargs = 1;
        if (!parse_insn_name(r, &n->arg[0]))
            return false;
    }
    read_answer(r, n);
    return true;
}

static bool read_const(struct kernel_reader *r, struct kn_insn *n)
{
    if (tcc_is_float(n->dtype))
        return lex_double(r->p, &n->fvalue);
    return lex_int(r->p, &n->ivalue);
}

static bool read_env(struct kernel_reader *r, struct kn_insn *n)
{
    const char *name;
    struct token at = r->p->tok;
    if (!lex_ident(r->p, &name))
        return false;
    n->ivalue = kn_word(kn_env_words, name);
    return n->ivalue >= 0 || parse_error(r->p, &at, "expected seed or run, got '%s'", name);
}

static bool read_body(struct kernel_reader *r, struct kn_insn *n)
{
    struct parser *p = r->p;
    switch ((enum kn_code)n->code) {
    case KN_CONST: return read_const(r, n);
    case KN_EXPR: return parse_expr(p, &n->expr);
    case KN_ENV: return read_env(r, n);
    case KN_LOAD: return read_load(r, n);
    case KN_INDEX:
        return read_args(r, n) && lex_expect_word(p, "as") && parse_expr(p, &n->expr) && lex_expect(p, '<') &&
               parse_expr(p, &n->bound);
    default:
        if (!read_args(r, n))
            return false;
        n->ivalue = n->code == KN_ARGREDUCE ? lex_take_word(p, "last")
                    : n->code == KN_SCAN    ? lex_take_word(p, "exclusive")
                                            : 0;
        return true;
    }
}

static bool read_reducer(struct kernel_reader *r, struct kn_insn *n)
{
    struct token at = r->p->tok;
    const char *name;
    if (!lex_ident(r->p, &name))
        return false;
    int number = kn_word(kn_reducer_words, name);
    if (number < 0)
        return parse_error(r->p, &at, "unknown reducer '%s'", name);
    n->reducer = (uint8_t)number;
    return true;
}

/* An instruction that has no value. */
static bool read_statement(struct kernel_reader *r, struct kn_insn *n)
{
    int32_t companions = 0;
    if (lex_take_word(r->p, "store")) {
        n->code = KN_STORE;
        n->nargs = 1;
        if (!read_access(r, n) || !lex_expect(r->p, '=') || !parse_insn_name(r, &n->arg[0]) || !read_guards(r, n))
            return false;
        read_answer(r, n);
    } else if (lex_take_word(r->p, "sort")) {
        n->code = KN_SORT;
        if (!read_reducer(r, n) || !parse_operand_name(r, &n->operand) || !parse_operand_name(r, &companions))
            return false;
        n->ivalue = companions;
    } else {
        return parse_expected(r->p, "an instruction");
    }
    n->dtype = (uint8_t)r->operands.at[n->operand].dtype;
    return true;
}

/* The word after "=": a code or a scalar op, a reducer, an element type. */
static bool read_code(struct kernel_reader *r, struct kn_insn *n)
{
    struct parser *p = r->p;
    struct token at = p->tok;
    const char *word;
    enum tcc_dtype dtype;
    if (!lex_ident(p, &word))
        return false;
    int code = kn_word(kn_code_words, word);
    if (code < 0 || code == KN_SCALAR) {
        enum ir_op op = ir_op_by_name(word);
        code = KN_SCALAR;
        n->op = (uint16_t)op;
        if (op == IR_OP_NONE || ir_op_info(op)->kind != IR_K_MAP)
            return parse_error(p, &at, "unknown instruction '%s'", word);
    } else if (code == KN_STORE || code == KN_SORT) {
        return parse_error(p, &at, "%s has no value", kn_code_words[code]);
    }
    n->code = (uint8_t)code;
    if ((code >= KN_REDUCE && !read_reducer(r, n)) || !parse_dtype(p, &dtype))
        return false;
    n->dtype = (uint8_t)dtype;
    return true;
}

static bool read_insn(struct kernel_reader *r)
{
    struct parser *p = r->p;
    struct kn_insn n = {.operand = 0};
    struct token at = p->tok;
    const char *name = NULL;
    if (r->insns.n == MAX_INSNS)
        return parse_error(p, &at, "more than %d instructions", MAX_INSNS);
    if (p->tok.kind != T_VALUE) {
        if (!read_statement(r, &n))
            return false;
    } else {
        name = lex_text(p, &p->tok);
        if (find_label(r->insn_names.at, r->insn_names.n, name) >= 0)
            return parse_error(p, &at, "%%%s is defined twice", name);
        lex_next(p);
        if (!lex_expect(p, '=') || !read_code(r, &n) || !read_body(r, &n))
            return false;
        VEC_PUSH(r->ctx, r->insn_names, (struct kernel_label){name, r->insns.n});
    }
    VEC_PUSH(r->ctx, r->insns, n);
    return true;
}

static bool read_stage(struct kernel_reader *r)
{
    struct kn_stage s = {.first = r->insns.n};
    if (!parse_dim_set(r, &s.inner) || (lex_take_word(r->p, "repeat") && !parse_dim_set(r, &s.repeat)) ||
        !lex_expect(r->p, '{'))
        return false;
    while (!lex_is(r->p, '}')) {
        if (!read_insn(r))
            return false;
    }
    lex_next(r->p);
    s.last = r->insns.n;
    VEC_PUSH(r->ctx, r->stages, s);
    return true;
}

/* == Phases == */

static bool read_combine(struct kernel_reader *r)
{
    if (r->k->split.combine)
        return parse_error(r->p, &r->p->tok, "pieces are combined twice");
    r->k->split.combine = r->stages.n;
    return read_stage(r);
}

static bool read_split(struct kernel_reader *r)
{
    struct token at = r->p->tok;
    const char *name;
    int d = 0;
    if (!lex_ident(r->p, &name) || !lex_expect_word(r->p, "step") || !parse_expr(r->p, &r->k->split.step))
        return false;
    while (d < r->p->nscope && r->p->scope[d].name != name)
        d++;
    r->k->split.dim = d;
    return d < r->p->nscope || parse_error(r->p, &at, "unknown dim %s", name);
}

/* == Kernels == */

/* What sizes must be. Of a kernel without schedule it is found again; a schedule leaves it as it is. */
static bool read_required(struct kernel_reader *r)
{
    struct kn_requirement q = {.points = ir_const(r->ctx, 1)};
    if (!parse_expr(r->p, &q.a) || !lex_expect(r->p, '<') || !lex_expect(r->p, '=') || !parse_expr(r->p, &q.b) ||
        (lex_take_word(r->p, "if") && !parse_expr(r->p, &q.points)) || !lex_expect_word(r->p, "for") ||
        !parse_operand_name(r, &q.operand))
        return false;
    VEC_PUSH(r->ctx, r->required, q);
    return true;
}

static bool read_item(struct kernel_reader *r)
{
    struct parser *p = r->p;
    int use = p->tok.kind == T_IDENT ? kn_word(kn_use_words, lex_text(p, &p->tok)) : -1;
    if (lex_take_word(p, "outer"))
        return read_dim(r, KN_OUTER);
    if (lex_take_word(p, "inner"))
        return read_dim(r, KN_INNER);
    if (lex_take_word(p, "pieces"))
        return read_dim(r, KN_PIECES);
    if (use >= 0) {
        lex_next(p);
        return read_operand(r, (enum kn_operand_use)use);
    }
    if (lex_take_word(p, "sizes")) {
        r->sizes = true;
        return lex_expect(p, '(') && parse_exprs(p, ')', &r->k->sizes, &r->k->nsizes);
    }
    if (lex_take_word(p, "requires"))
        return read_required(r);
    if (lex_take_word(p, "stage"))
        return read_stage(r);
    if (lex_take_word(p, "combine"))
        return read_combine(r);
    if (lex_take_word(p, "split"))
        return read_split(r);
    if (lex_take_word(p, "contraction"))
        return parse_contraction(r);
    if (lex_take_word(p, "roles"))
        return parse_roles(r);
    if (lex_take_word(p, "sums"))
        return parse_dtype(p, &r->k->partial);
    if (lex_take_word(p, "mx"))
        return parse_dtype(p, &r->k->mx);
    if (lex_take_word(p, "schedule"))
        return parse_schedule(r);
    if (lex_take_word(p, "tiles"))
        return parse_expr(p, &r->k->tiles);
    if (lex_take_word(p, "combining"))
        return parse_expr(p, &r->k->combining);
    if (lex_take_word(p, "scratch"))
        return parse_expr(p, &r->k->scratch);
    if (lex_take_word(p, "flops"))
        return parse_expr(p, &r->k->flops);
    return parse_expected(p, "a part of a kernel (outer, in, stage, ...)");
}

static bool read_header(struct kernel_reader *r)
{
    struct token at;
    const char *kind;
    if (!lex_global(r->p, &r->k->name))
        return false;
    at = r->p->tok;
    if (!lex_ident(r->p, &kind))
        return false;
    for (int i = 0; i < IR_NKINDS; i++) {
        if (strcmp(ir_kind_name(i), kind) == 0) {
            r->k->kind = (enum ir_kind)i;
            return lex_expect(r->p, '{');
        }
    }
    return parse_error(r->p, &at, "unknown kind '%s'", kind);
}

bool parse_kernel(struct parser *p, struct kn_kernel **out)
{
    struct kernel_reader r = {.p = p, .ctx = p->ctx, .k = IR_NEW(p->ctx, struct kn_kernel)};
    struct kn_kernel *k = *out = r.k;
    p->nscope = 0;
    if (!read_header(&r))
        return false;
    while (!lex_is(p, '}')) {
        if (!read_item(&r))
            return false;
    }
    lex_next(p);
    p->nscope = 0;
    VEC_GIVE(r.dims, k->dims, k->ndims);
    VEC_GIVE(r.operands, k->operands, k->noperands);
    VEC_GIVE(r.insns, k->insns, k->ninsns);
    VEC_GIVE(r.stages, k->stages, k->nstages);
    VEC_GIVE(r.required, k->required, k->nrequired);
    if (!r.sizes)
        kn_find_sizes(p->ctx, k);
    if (!kn_verify_kernel(p->ctx, k))
        return false;
    if (!k->roles.form && !r.no_roles) /* of a text without them */
        kn_find_roles(k, &k->roles);
    return k->schedule.how || kn_verify_answers(p->ctx, k);
}
