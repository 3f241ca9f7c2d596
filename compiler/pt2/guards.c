/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards of the export: what PyTorch took for granted of sizes while it traced the program (`guards_code`), in Python,
 * such as math.trunc(0.3*torch.sym_float(L['x'].size()[1])) == 1. The module that torch.export.load() gives raises
 * "Guard failed" where one does not hold, since the graph is another one there; so each is a fact here, which the run
 * checks before it computes anything.
 *
 * Operators and functions are those that programs compute sizes with (aten.def): _operator.mul for *, math.trunc.
 * Truths of integers are relations a <= b or a = b, so that they are decided when compiling where sizes are known; that
 * both or either of two hold is said by the less or the greater of what they have to spare. A relation of floats is
 * computed in doubles, as Python does, and is one integer.
 */
#include "compiler/pt2/pt2_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTED 64
#define MAX_NAME 256

/* A number, or a truth: of integers `holds` (its a: not NULL), of floats a scalar of type bool. */
struct part {
    struct pt2_py number;
    struct ir_fact holds;
};

struct text {
    struct pt2 *p;
    const char *at;
    int depth;
    bool of_memory; /* it speaks of how the caller's memory lies, not of sizes */
};

static bool take(struct text *t, const char *word)
{
    return pt2_take(&t->at, word);
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* -- Truths */

static bool is_scalar(const struct part *x, bool truth)
{
    return x->number.v && (imp_dtype(x->number.v) == TCC_BOOL) == truth;
}

static bool is_truth(const struct part *x)
{
    return x->holds.a || is_scalar(x, true);
}

static bool is_number(const struct part *x)
{
    return !x->holds.a && (x->number.e || is_scalar(x, false));
}

/* A truth as a relation of integers; false after a message. */
static bool relate(struct pt2 *p, struct part *x)
{
    ir_expr e = NULL;
    if (x->holds.a)
        return true;
    if (imp_bound_exprs(p->im, imp_cast(p->im, x->number.v, TCC_I64), 1, 0, 1, &e) != 1)
        return false;
    *x = (struct part){.holds = {IR_EQ, e, ir_const(p->ctx, 1), NULL}};
    return true;
}

/* What a truth has to spare: at least 0 where it holds. */
static ir_expr spare(struct ir_ctx *ctx, const struct ir_fact *f)
{
    ir_expr more = ir_sub(ctx, f->b, f->a);
    return f->relation == IR_LE ? more : ir_min(ctx, more, ir_sub(ctx, f->a, f->b));
}

static struct ir_fact equal(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    (void)ctx;
    return (struct ir_fact){IR_EQ, a, b, NULL};
}

static struct ir_fact at_most(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    (void)ctx;
    return (struct ir_fact){IR_LE, a, b, NULL};
}

static struct ir_fact at_least(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return at_most(ctx, b, a);
}

static struct ir_fact less(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return at_most(ctx, ir_addc(ctx, a, 1), b);
}

static struct ir_fact greater(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return less(ctx, b, a);
}

static struct ir_fact different(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    ir_expr b_less = ir_sub(ctx, a, b), a_less = ir_sub(ctx, b, a);
    return at_most(ctx, ir_const(ctx, 1), ir_max(ctx, b_less, a_less));
}

/* Of two truths, by what they have to spare. */
static struct ir_fact both(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return at_most(ctx, ir_const(ctx, 0), ir_min(ctx, a, b));
}

static struct ir_fact either(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return at_most(ctx, ir_const(ctx, 0), ir_max(ctx, a, b));
}

/* -- Operators */

enum level { OR, AND, NOT, COMPARE, BIT_OR, BIT_AND, SHIFT, SUM, PRODUCT, POWER };

/* `row` is that of numbers. Of those that begin alike the longest is first. */
static const struct operator
{
    const char *text;
    enum level level;
    const char *row;
    struct ir_fact (*truth)(struct ir_ctx * ctx, ir_expr a, ir_expr b);
}
operators[] = {
    {"or ", OR, NULL, either},
    {"and ", AND, NULL, both},
    {"==", COMPARE, "_operator.eq", equal},
    {"!=", COMPARE, "_operator.ne", different},
    {"<<", SHIFT, "_operator.lshift", NULL},
    {">>", SHIFT, "_operator.rshift", NULL},
    {"<=", COMPARE, "_operator.le", at_most},
    {">=", COMPARE, "_operator.ge", at_least},
    {"<", COMPARE, "_operator.lt", less},
    {">", COMPARE, "_operator.gt", greater},
    {"|", BIT_OR, "_operator.or_", either},
    {"&", BIT_AND, "_operator.and_", both},
    {"+", SUM, "_operator.add", NULL},
    {"-", SUM, "_operator.sub", NULL},
    {"**", POWER, "_operator.pow", NULL},
    {"*", PRODUCT, "_operator.mul", NULL},
    {"//", PRODUCT, "_operator.floordiv", NULL},
    {"/", PRODUCT, "_operator.truediv", NULL},
    {"%", PRODUCT, "_operator.mod", NULL},
};

/* Integers that only scalars compute become symbols of the run. */
static bool numbered(struct pt2 *p, struct pt2_py *x)
{
    if (!x->e && x->v && tcc_is_int(imp_dtype(x->v)) &&
        imp_bound_exprs(p->im, x->v, 1, -IMP_MAX_DIM, IMP_MAX_DIM, &x->e) != 1)
        return false;
    return x->e || x->v;
}

/* Refused without a message: what the rows of numbers have one for. */
static bool fits(const struct operator* op, const struct part *x, const struct part *y)
{
    bool integers = x->number.e && y->number.e, divides = op->level == PRODUCT && *op->text != '*';
    if (!is_number(x) || !is_number(y) || !op->row)
        return false;
    if (op->level == BIT_OR || op->level == BIT_AND || op->level == SHIFT)
        return integers;
    return !(integers && divides && y->number.e->hi < 1);
}

static bool apply(struct text *t, const struct operator* op, struct part *x, struct part *y)
{
    struct ir_ctx *ctx = t->p->ctx;
    if (op->truth && op->level != COMPARE && is_truth(x) && is_truth(y)) {
        if (!relate(t->p, x) || !relate(t->p, y))
            return false;
        ir_expr a = spare(ctx, &x->holds), b = spare(ctx, &y->holds);
        *x = (struct part){.holds = op->truth(ctx, a, b)};
        return true;
    }
    if (!fits(op, x, y))
        return false;
    if (op->level == COMPARE && x->number.e && y->number.e) {
        *x = (struct part){.holds = op->truth(ctx, x->number.e, y->number.e)};
        return true;
    }
    x->number = pt2_numbers(t->p, pt2_row(op->row)->arg, &x->number, &y->number);
    return numbered(t->p, &x->number);
}

/* -- What a size is called: L['x'].size()[1], L['inputs'][0].size()[1], or L['n'], an integer */

static bool index_of(struct text *t, long *k)
{
    char *end;
    errno = 0;
    *k = strtol(t->at, &end, 10);
    bool fine = end != t->at && !errno && *k >= 0 && *end == ']';
    t->at = fine ? end + 1 : t->at;
    return fine;
}

/* The k-th of the caller's inputs. */
static const char *flat_input(struct pt2 *p, long k)
{
    json_t *signature = js_object(js_object(p->archive->program, "graph_module"), "signature"), *value,
           *specs = js_array(signature, "input_specs"), *inputs = js_array(p->at.scope->graph, "inputs");
    for (size_t i = 0; i < json_array_size(specs); i++) {
        const char *kind = js_union(json_array_get(specs, i), &value);
        bool user = kind && (!strcmp(kind, "user_input") || !strcmp(kind, "constant_input"));
        if (user && k-- == 0)
            return pt2_name_of(json_array_get(inputs, i));
    }
    return NULL;
}

/* Adds a key of the path to an input, of n bytes, to its name, as PyTorch names a graph's inputs: in small letters. */
static bool add_key(char *name, const char *key, size_t n)
{
    size_t at = strlen(name);
    if (!n || at + n + 2 > MAX_NAME)
        return false;
    if (at)
        name[at++] = '_';
    for (size_t k = 0; k < n; k++) {
        char c = key[k];
        name[at++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : in_name(c) ? c : '_');
    }
    name[at] = '\0';
    return true;
}

static bool key(struct text *t, char *name)
{
    const char *from = t->at + 1, *end;
    if (*t->at == '.') {
        for (end = from; in_name(*end); end++)
            ;
        t->at = end;
        return add_key(name, from, (size_t)(end - from));
    }
    if (!strncmp(t->at, "['", 2)) {
        end = strstr(t->at, "']");
        t->at = end ? end + 2 : t->at;
        return end && add_key(name, from + 1, (size_t)(end - from - 1));
    }
    end = strchr(from, ']');
    t->at = end ? end + 1 : t->at;
    return end && add_key(name, from, (size_t)(end - from));
}

static bool source(struct text *t, struct part *x)
{
    static const char *const memory[] = {"._base", ".stride()", ".storage_offset()"};
    char name[MAX_NAME] = "";
    const char *called = name;
    long k;
    if (take(t, "['flat_args'][")) {
        called = index_of(t, &k) ? flat_input(t->p, k) : NULL;
    } else {
        while (*t->at == '[' || (*t->at == '.' && strncmp(t->at, ".size()", 7))) {
            for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
                t->of_memory |= !strncmp(t->at, memory[m], strlen(memory[m]));
            if (t->of_memory || !key(t, name))
                return false;
        }
    }
    struct pt2_value *v = called ? pt2_lookup(t->p, called) : NULL;
    if (take(t, ".size()[")) {
        if (!v || v->number || !v->v || !index_of(t, &k) || k >= imp_rank(v->v))
            return false;
        x->number.e = imp_dim(v->v, (int)k);
    } else if (v && v->number) {
        x->number.e = v->e;
    }
    return x->number.e != NULL;
}

/* -- Expressions */

static bool expression(struct text *t, enum level level, struct part *x);

static bool literal(struct text *t, struct part *x)
{
    char *end;
    errno = 0;
    long long v = strtoll(t->at, &end, 10);
    if (*end == '.' || *end == 'e')
        x->number.v = imp_num(t->p->im, TCC_F64, strtod(t->at, &end));
    else if (!errno && v <= IMP_MAX_DIM)
        x->number.e = ir_const(t->p->ctx, v);
    t->at = end;
    return is_number(x);
}

/* max and math.trunc, as their rows are called; PyTorch writes round into guards only. */
static const struct aten_row *function(struct text *t)
{
    static const struct aten_row rounding = {"round", 0, aten_number1, IR_round};
    static const char *const spaces[] = {"", "_operator."};
    const char *from = t->at;
    if (!strncmp(from, "round(", 6)) {
        t->at += 5;
        return &rounding;
    }
    while (in_name(*t->at) || *t->at == '.')
        t->at++;
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces && t->at - from < MAX_NAME; k++) {
        const struct aten_row *row = pt2_row(ir_internf(t->p->ctx, "%s%.*s", spaces[k], (int)(t->at - from), from));
        if (row && (row->build == aten_number1 || row->build == aten_number2))
            return row;
    }
    return NULL;
}

static bool call(struct text *t, struct part *x)
{
    const struct aten_row *row = function(t);
    if (!row || !take(t, "(") || !expression(t, OR, x) || !is_number(x))
        return false;
    if (row->build == aten_number1)
        x->number = pt2_number_of(t->p, row->arg, &x->number);
    while (row->build == aten_number2 && take(t, ",")) {
        struct part y;
        if (!expression(t, OR, &y) || !is_number(&y) || !numbered(t->p, &x->number))
            return false;
        x->number = pt2_numbers(t->p, row->arg, &x->number, &y.number);
    }
    return numbered(t->p, &x->number) && take(t, ")");
}

static bool operand(struct text *t, struct part *x)
{
    *x = (struct part){0};
    if (take(t, "("))
        return expression(t, OR, x) && take(t, ")");
    if (take(t, "not ")) {
        if (!expression(t, NOT, x) || !is_truth(x) || !relate(t->p, x))
            return false;
        x->holds = less(t->p->ctx, spare(t->p->ctx, &x->holds), ir_const(t->p->ctx, 0));
        return true;
    }
    if (take(t, "-")) {
        if (!expression(t, POWER, x) || !is_number(x))
            return false;
        x->number = pt2_number_of(t->p, IR_neg, &x->number);
        return numbered(t->p, &x->number);
    }
    if (*t->at >= '0' && *t->at <= '9')
        return literal(t, x);
    return !strncmp(t->at, "L[", 2) ? (t->at++, source(t, x)) : call(t, x);
}

static const struct operator* next_operator(struct text *t, enum level level)
{
    for (size_t k = 0; k < sizeof operators / sizeof *operators; k++) {
        const char *before = t->at;
        if (!take(t, operators[k].text))
            continue;
        if (operators[k].level >= level)
            return &operators[k];
        t->at = before;
        return NULL;
    }
    return NULL;
}

static bool expression(struct text *t, enum level level, struct part *x)
{
    const struct operator* op;
    if (++t->depth > MAX_NESTED || !operand(t, x))
        return false;
    while ((op = next_operator(t, level))) {
        struct part y;
        if (!expression(t, op->level == POWER ? POWER : op->level + 1, &y) || !apply(t, op, x, &y))
            return false;
    }
    t->depth--;
    return true;
}

bool pt2_guards(struct pt2 *p)
{
    json_t *guards = js_array(p->archive->program, "guards_code"), *item;
    const char *unread = NULL;
    size_t k;
    int more = 0;
    json_array_foreach(guards, k, item)
    {
        const char *text = json_string_value(item);
        struct text t = {.p = p, .at = text ? text : ""};
        struct part x;
        if (expression(&t, OR, &x) && take(&t, "") && !*t.at && is_truth(&x) && relate(p, &x)) {
            if (!imp_assume(p->im, x.holds.relation, x.holds.a, x.holds.b, "guard of the export: %.200s", text))
                return false;
        } else if (!t.of_memory) {
            more += unread != NULL;
            unread = unread ? unread : text ? text : "";
        }
    }
    if (unread && !p->told_guards)
        ir_diag(p->ctx, &p->archive->where, IR_D_WARNING,
                "no check of a guard of the export that can't be read%s: %.200s", more ? ", the first of several" : "",
                unread);
    p->told_guards = true;
    return true;
}
