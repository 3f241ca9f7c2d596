/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_insn.c - one instruction of a kernel at one point: indices and guards, loads and stores, scalar operations in
 * the words of words_int.h, accumulators. kernel.c walks the points.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"
#include "ir/interp/kernel_int.h"
#include "ir/interp/words_int.h"

/* tcc_is_float(), which is asked at each instruction of each point. */
static bool is_float(enum tcc_dtype d)
{
#define X(id, n, name, bytes, class) | (uint64_t)(TCC_CLASS_##class == TCC_CLASS_FLOAT) << TCC_##id
    static const uint64_t floats = 0 TCC_DTYPES(X);
#undef X
    return floats >> d & 1;
}

/* Where the symbol's value lies; NULL: it has none. */
const int64_t *ki_where(void *user, ir_expr sym)
{
    struct ki_run *r = user;
    const struct kn_kernel *k = r->k;
    for (int d = 0; d < k->ndims; d++) {
        if (k->dims[d].var == sym)
            return &r->var[d];
    }
    for (int s = 0; s < k->nsizes; s++) {
        if (k->sizes[s] == sym)
            return &r->sizes[s];
    }
    for (int i = 0; i < k->ninsns; i++) {
        if (k->insns[i].code == KN_INDEX && k->insns[i].expr == sym)
            return &r->values[i].i;
    }
    return NULL;
}

static bool symbol(void *user, ir_expr sym, int64_t *out)
{
    const int64_t *at = ki_where(user, sym);
    if (at)
        *out = *at;
    return at;
}

/* Of what is asked once. */
int64_t ki_eval(struct ki_run *r, ir_expr e)
{
    int64_t v = 0;
    if (!ir_eval(e, symbol, r, &v))
        r->status = TCC_EBUG;
    return v;
}

/* Of what is asked at each point. */
static int64_t eval_node(struct ki_run *r, const struct ir_formula *n)
{
    int64_t v = 0;
    if (!ir_eval_formula(n, &v))
        r->status = TCC_EBUG;
    return v;
}

static int64_t eval_data(struct ki_run *r, const struct ir_formula *n, ir_expr e)
{
    int64_t v = 0;
    if (!ir_eval_formula(n, &v) && !ir_eval_data(e, symbol, r, &v))
        r->status = TCC_EBUG;
    return v;
}

/* Rounds or wraps to the type, as a store and a load would. */
static void settle(enum tcc_dtype d, union ki_value *v)
{
    char raw[16];
    if (d == TCC_F64)
        return;
    if (d == TCC_F32) {
        v->f = (double)(float)v->f;
    } else if (is_float(d)) {
        tcc_store_f64(d, raw, v->f);
        v->f = tcc_load_f64(d, raw);
    } else if (d == TCC_BOOL) {
        v->i = v->i != 0;
    } else {
        v->i = ir_wrap(d, (uint64_t)v->i);
    }
}

static void load(enum tcc_dtype d, const void *p, union ki_value *out)
{
    float f;
    if (d == TCC_F32) {
        memcpy(&f, p, sizeof f);
        out->f = (double)f;
    } else if (is_float(d)) {
        out->f = tcc_load_f64(d, p);
    } else if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX) {
        memcpy(out->raw, p, (size_t)tcc_dtype_bytes(d));
    } else {
        out->i = tcc_load_i64(d, p);
    }
}

static void store(enum tcc_dtype d, void *p, const union ki_value *v)
{
    if (is_float(d))
        tcc_store_f64(d, p, v->f);
    else if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
        memcpy(p, v->raw, (size_t)tcc_dtype_bytes(d));
    else
        tcc_store_i64(d, p, v->i);
}

/* The number that v of type `from` is in type `to`. A float is held as f64, and wider types have it. */
static void convert(enum tcc_dtype to, union ki_value *v, enum tcc_dtype from)
{
    char a[16], b[16];
    if (to == from || (is_float(from) && (to == TCC_F64 || (to == TCC_F32 && from != TCC_F64))))
        return;
    store(from, a, v);
    tcc_cast(to, b, from, a, true, NULL);
    load(to, b, v);
}

/* == Words == */

static double float_op(enum ir_op op, double x, double y)
{
    switch (op) {
#define X(name, expr) \
    case IR_##name: return (double)(expr);
        IR_FLOAT_WORDS(X)
#undef X
    default: return 0;
    }
}

static bool float_test(enum ir_op op, double x, double y, bool *out)
{
    switch (op) {
#define X(name, expr) \
    case IR_##name: *out = (expr); return true;
        IR_FLOAT_TESTS(X)
#undef X
    default: return false;
    }
}

static int64_t signed_op(enum ir_op op, int w, int64_t x, int64_t y, int64_t z)
{
    switch (op) {
#define X(name, expr) \
    case IR_##name: return (int64_t)(expr);
        IR_SIGNED_WORDS(X)
#undef X
    default: return 0;
    }
}

static int64_t unsigned_op(enum ir_op op, int w, uint64_t x, uint64_t y, uint64_t z)
{
    switch (op) {
#define X(name, expr) \
    case IR_##name: return (int64_t)(expr);
        IR_UNSIGNED_WORDS(X)
#undef X
    default: return 0;
    }
}

static bool int_test(enum ir_op op, enum tcc_dtype d, int64_t a, int64_t b, bool *out)
{
    bool big = d == TCC_U64;
    switch (op) {
#define X(name, expr)                                  \
    case IR_##name:                                    \
        if (big) {                                     \
            uint64_t x = (uint64_t)a, y = (uint64_t)b; \
            *out = (expr);                             \
        } else {                                       \
            int64_t x = a, y = b;                      \
            *out = (expr);                             \
        }                                              \
        return true;
        IR_INT_TESTS(X)
#undef X
    default: return false;
    }
}

static union ki_value scalar(enum ir_op op, enum tcc_dtype d, union ki_value x, union ki_value y, union ki_value z)
{
    union ki_value v = {0};
    bool truth;
    if (is_float(d)) {
        if (float_test(op, x.f, y.f, &truth))
            v.i = truth;
        else
            v.f = float_op(op, x.f, y.f);
    } else if (int_test(op, d, x.i, y.i, &truth)) {
        v.i = truth;
    } else if (d == TCC_U64) {
        v.i = unsigned_op(op, 64, (uint64_t)x.i, (uint64_t)y.i, (uint64_t)z.i);
    } else {
        v.i = signed_op(op, ir_width_of(d), x.i, y.i, z.i);
        if (op == IR_not && d == TCC_BOOL) /* logical */
            v.i &= 1;
    }
    return v;
}

/* == Instructions == */

/* Is an index bad that the access is by? */
static bool by_bad_index(const struct ki_run *r, const struct kn_insn *n)
{
    for (int i = 0; r->any_bad && i < r->k->ninsns; i++)
        if (r->k->insns[i].code == KN_INDEX && r->bad[i] && kn_insn_uses(n, r->k->insns[i].expr))
            return true;
    return false;
}

/* Does the access happen? */
bool ki_guards_hold(struct ki_run *r, const struct kn_insn *n)
{
    if (by_bad_index(r, n))
        return false;
    for (int g = 0; g < n->nguards; g++) {
        const struct ir_formula *guard = &r->exprs[n - r->k->insns].guards[3 * g];
        int64_t e = eval_node(r, &guard[0]);
        if (e < eval_node(r, &guard[1]) || e >= eval_node(r, &guard[2]))
            return false;
    }
    return true;
}

/* Address of operand[index], or NULL outside it. */
char *ki_address(struct ki_run *r, const struct kn_insn *n)
{
    const struct kn_operand *o = &r->k->operands[n->operand];
    int64_t at = 0;
    for (int i = 0; i < o->rank; i++) {
        int64_t index = eval_node(r, &r->exprs[n - r->k->insns].index[i]), dim = r->dims[n->operand][i];
        if (index < 0 || index >= dim) {
            r->status = TCC_EBUG;
            return NULL;
        }
        at = at * dim + index;
    }
    return r->data[n->operand] + at * tcc_dtype_bytes(o->dtype);
}

/* Is the value of what is stored somewhere, or of numbers: no zero for a load that did not happen? */
static bool is_there(struct ki_run *r, int insn)
{
    const struct kn_insn *n = &r->k->insns[insn];
    if (n->code == KN_LOAD)
        return ki_guards_hold(r, n) || (n->nargs && n->arg[0] >= 0 && is_there(r, n->arg[0]));
    for (int i = 0; n->code == KN_SCALAR && i < n->nargs; i++)
        if (!is_there(r, n->arg[i]))
            return false;
    return true;
}

static void run_index(struct ki_run *r, const struct kn_insn *n, union ki_value *out)
{
    union ki_value v = r->values[n->arg[0]];
    int64_t bound = eval_node(r, r->exprs[n - r->k->insns].bound);
    bool *bad = &r->bad[n - r->k->insns];
    convert(TCC_I64, &v, r->k->insns[n->arg[0]].dtype);
    out->i = v.i < 0 ? v.i + bound : v.i;
    *bad = out->i < 0 || out->i >= bound;
    if (*bad) {
        out->i = 0;
        r->any_bad = true;
        if (r->status == TCC_OK && is_there(r, n->arg[0]))
            r->status = TCC_EINDEX;
    }
}

static void run_scalar(struct ki_run *r, const struct kn_insn *n, union ki_value *out)
{
    union ki_value x = r->values[n->arg[0]], y = n->nargs > 1 ? r->values[n->arg[1]] : x,
                   z = n->nargs > 2 ? r->values[n->arg[2]] : x;
    enum tcc_dtype from = r->k->insns[n->arg[0]].dtype;
    if (n->op == IR_select) {
        *out = r->values[n->arg[x.i ? 1 : 2]];
    } else if (n->op == IR_cast) {
        *out = x;
        convert(n->dtype, out, from);
    } else {
        *out = scalar(n->op, from, x, y, z);
        settle(n->dtype, out);
    }
}

/* One more value for an accumulator. */
static void combine(struct ki_run *r, int i)
{
    static const enum ir_op words[] = {[KN_SUM] = IR_add, [KN_PROD] = IR_mul, [KN_MAX] = IR_max, [KN_MIN] = IR_min};
    const struct kn_insn *n = &r->k->insns[i];
    struct ki_accumulator *a = &r->acc[i];
    union ki_value v = r->values[n->arg[0]], old;
    enum tcc_dtype d = n->dtype;
    convert(d, &v, r->k->insns[n->arg[0]].dtype);
    if (is_float(d)) {
        old.f = float_op(words[n->reducer], a->f, v.f);
        if (tcc_small_float(d))
            settle(d, &old);
        a->f = old.f;
        return;
    }
    old.i = a->i;
    if (d == TCC_BOOL)
        a->i = n->reducer == KN_SUM || n->reducer == KN_MAX ? old.i | v.i : old.i & v.i;
    else
        a->i = scalar(words[n->reducer], d, old, v, v).i;
    old.i = a->i;
    settle(d, &old);
    a->i = old.i;
}

static void run_arg(struct ki_run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    struct ki_accumulator *a = &r->acc[i];
    union ki_value x = r->values[n->arg[0]], p = r->values[n->arg[1]], best;
    enum tcc_dtype d = r->k->insns[n->arg[0]].dtype;
    convert(TCC_I64, &p, r->k->insns[n->arg[1]].dtype);
    best.i = a->i;
    if (is_float(d))
        best.f = a->f;
    bool take = scalar(n->reducer == KN_MAX ? IR_gt : IR_lt, d, x, best, best).i,
         same = scalar(IR_eq, d, x, best, best).i;
    if (is_float(d)) {
        take |= x.f != x.f && best.f == best.f;
        same |= x.f != x.f && best.f != best.f;
    }
    if (p.i < 0 || (a->position >= 0 && !take && !(same && (n->ivalue ? p.i > a->position : p.i < a->position))))
        return;
    a->position = p.i;
    if (is_float(d))
        a->f = x.f;
    else
        a->i = x.i;
}

void ki_start_accumulator(struct ki_run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    enum tcc_dtype d = n->dtype;
    int bits = ir_width_of(d);
    bool top = n->reducer == KN_MIN;
    struct ki_accumulator a = {.position = -1};
    if (n->code == KN_ARGREDUCE) {
        r->acc[i] = a;
        return;
    }
    if (n->reducer == KN_SUM || n->reducer == KN_PROD) {
        a.f = a.i = n->reducer == KN_PROD;
    } else if (is_float(d)) {
        a.f = top ? INFINITY : -INFINITY;
    } else if (tcc_is_signed(d)) {
        int64_t lowest = (int64_t)(~(uint64_t)0 << (bits - 1));
        a.i = top ? ~lowest : lowest;
    } else {
        a.i = top ? ir_wrap(d, ~(uint64_t)0) : 0;
    }
    r->acc[i] = a;
}

/* The accumulator's value so far, as the instruction's. */
void ki_accumulated(struct ki_run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    union ki_value *v = &r->values[i];
    if (n->code == KN_ARGREDUCE) {
        v->i = r->acc[i].position;
        return;
    }
    if (is_float(n->dtype))
        v->f = r->acc[i].f;
    else
        v->i = r->acc[i].i;
    settle(n->dtype, v);
}

static void run_load(struct ki_run *r, const struct kn_insn *n, union ki_value *out)
{
    *out = (union ki_value){.raw = {0}};
    if (!ki_guards_hold(r, n)) {
        if (n->nargs > 0 && n->arg[0] >= 0)
            *out = r->values[n->arg[0]];
        return;
    }
    const char *p = ki_address(r, n);
    if (p)
        load(r->k->operands[n->operand].dtype, p, out);
}

static void run_sort(struct ki_run *r, const struct kn_insn *n)
{
    enum tcc_dtype d = r->k->operands[n->operand].dtype;
    char *keys = r->data[n->operand], *companions = r->data[n->ivalue];
    int64_t count = r->dims[n->operand][0], bytes = tcc_dtype_bytes(d);
    struct ir_ranked *row = malloc((size_t)(count + 1) * sizeof *row);
    if (!row) {
        r->status = TCC_EENV;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        union ki_value v;
        load(d, keys + i * bytes, &v);
        row[i] = (struct ir_ranked){is_float(d) ? v.f : 0, is_float(d) ? 0 : v.i,
                                    tcc_load_i64(TCC_I32, companions + 4 * i), i};
    }
    ir_rank(row, count, d, is_float(d), n->reducer == KN_MAX);
    for (int64_t i = 0; i < count; i++) {
        union ki_value v = {.f = row[i].f};
        if (!is_float(d))
            v.i = row[i].i;
        store(d, keys + i * bytes, &v);
        tcc_store_i64(TCC_I32, companions + 4 * i, row[i].index);
    }
    free(row);
}

void ki_run_insn(struct ki_run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    union ki_value *v = &r->values[i];
    char *p;
    switch ((enum kn_code)n->code) {
    case KN_CONST:
        if (is_float(n->dtype))
            v->f = n->fvalue;
        else
            v->i = n->ivalue;
        settle(n->dtype, v);
        break;
    case KN_EXPR:
        v->i = eval_data(r, r->exprs[i].expr, n->expr);
        if (is_float(n->dtype))
            convert(n->dtype, v, TCC_I64);
        else
            settle(n->dtype, v);
        break;
    case KN_ENV: v->i = !r->env ? 0 : n->ivalue == KN_SEED ? (int64_t)r->env->seed : r->env->run; break;
    case KN_LOAD: run_load(r, n, v); break;
    case KN_STORE:
        if (ki_guards_hold(r, n) && (p = ki_address(r, n)))
            store(r->k->operands[n->operand].dtype, p, &r->values[n->arg[0]]);
        break;
    case KN_SCALAR: run_scalar(r, n, v); break;
    case KN_INDEX: run_index(r, n, v); break;
    case KN_REDUCE: combine(r, i); break;
    case KN_ARGREDUCE: run_arg(r, i); break;
    case KN_SCAN:
        if (n->ivalue)
            ki_accumulated(r, i);
        combine(r, i);
        if (!n->ivalue)
            ki_accumulated(r, i);
        break;
    case KN_SORT: run_sort(r, n); break;
    }
}
