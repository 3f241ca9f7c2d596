/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - runs a kernel by its plain meaning (kernel.h), one point after the other: the oracle for targets.
 *
 * Floats are held as f64 and rounded to their type after each instruction (f32 at least: f16 and smaller are only where
 * an instruction says so); sums of floats run in f64 and are rounded once, those of pieces in their order too. Every
 * access is checked against the operand's dims: TCC_EBUG says that the kernel reaches outside.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"
#include "ir/interp/words_int.h"

union value {
    double f;
    int64_t i;
    char raw[16];
};

struct accumulator {
    double f;
    int64_t i, position;
};

/* What an instruction evaluates at each point. */
struct insn_exprs {
    const struct ir_formula *index;
    const struct ir_formula *guards; /* e, lo, hi of each */
    const struct ir_formula *expr, *bound;
};

struct run {
    const struct kn_kernel *k;
    const struct tcc_env *env; /* NULL: all zero */
    const int64_t *sizes;
    int64_t var[KN_MAX_DIMS], first[KN_MAX_DIMS], extent[KN_MAX_DIMS]; /* of each dim: points [first, extent) */
    struct insn_exprs *exprs;                                          /* by instruction */
    struct ir_formula *nodes;                                          /* all that these point to */
    union value *values;            /* by instruction; KN_INDEX: the symbol's value */
    bool *bad;                      /* by instruction; KN_INDEX: is the index outside its bound */
    bool any_bad;                   /* has any been so far */
    struct accumulator *acc;        /* by instruction */
    char **data;                    /* by operand */
    int64_t (*dims)[TCC_MAX_RANK];  /* by operand */
    const struct kn_sample *sample; /* NULL: all points */
    int status;
};

/* tcc_is_float(), which is asked at each instruction of each point. */
static bool is_float(enum tcc_dtype d)
{
#define X(id, n, name, bytes, class) | (uint64_t)(TCC_CLASS_##class == TCC_CLASS_FLOAT) << TCC_##id
    static const uint64_t floats = 0 TCC_DTYPES(X);
#undef X
    return floats >> d & 1;
}

/* Where the symbol's value lies; NULL: it has none. */
static const int64_t *where(void *user, ir_expr sym)
{
    struct run *r = user;
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
    const int64_t *at = where(user, sym);
    if (at)
        *out = *at;
    return at;
}

/* Of what is asked once. */
static int64_t eval(struct run *r, ir_expr e)
{
    int64_t v = 0;
    if (!ir_eval(e, symbol, r, &v))
        r->status = TCC_EBUG;
    return v;
}

/* Of what is asked at each point. */
static int64_t eval_node(struct run *r, const struct ir_formula *n)
{
    int64_t v = 0;
    if (!ir_eval_formula(n, &v))
        r->status = TCC_EBUG;
    return v;
}

static int count_nodes(const struct kn_insn *n)
{
    int count = 0;
    for (int i = 0; i < n->nindex; i++)
        count += ir_count_formula(n->index[i]);
    for (int g = 0; g < n->nguards; g++)
        count +=
            ir_count_formula(n->guards[g].e) + ir_count_formula(n->guards[g].lo) + ir_count_formula(n->guards[g].hi);
    return count + (n->expr ? ir_count_formula(n->expr) : 0) + (n->bound ? ir_count_formula(n->bound) : 0);
}

/* The instruction's expressions, side by side from `next` on, and behind them what is in them. */
static struct ir_formula *fill_nodes(struct run *r, int i, struct ir_formula *next)
{
    const struct kn_insn *n = &r->k->insns[i];
    struct ir_formula *node = next;
    next += n->nindex + 3 * n->nguards + (n->expr != NULL) + (n->bound != NULL);
    r->exprs[i].index = node;
    for (int k = 0; k < n->nindex; k++)
        next = ir_fill_formula(node++, next, n->index[k], where, r);
    r->exprs[i].guards = node;
    for (int g = 0; g < n->nguards; g++) {
        next = ir_fill_formula(node++, next, n->guards[g].e, where, r);
        next = ir_fill_formula(node++, next, n->guards[g].lo, where, r);
        next = ir_fill_formula(node++, next, n->guards[g].hi, where, r);
    }
    if (n->expr) {
        r->exprs[i].expr = node;
        next = ir_fill_formula(node++, next, n->expr, where, r);
    }
    if (n->bound) {
        r->exprs[i].bound = node;
        next = ir_fill_formula(node, next, n->bound, where, r);
    }
    return next;
}

static bool resolve(struct run *r)
{
    size_t count = 1;
    for (int i = 0; i < r->k->ninsns; i++)
        count += (size_t)count_nodes(&r->k->insns[i]);
    r->nodes = malloc(count * sizeof *r->nodes);
    struct ir_formula *next = r->nodes;
    for (int i = 0; next && i < r->k->ninsns; i++)
        next = fill_nodes(r, i, next);
    return next;
}

/* Rounds or wraps to the type, as a store and a load would. */
static void settle(enum tcc_dtype d, union value *v)
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

static void load(enum tcc_dtype d, const void *p, union value *out)
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

static void store(enum tcc_dtype d, void *p, const union value *v)
{
    if (is_float(d))
        tcc_store_f64(d, p, v->f);
    else if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
        memcpy(p, v->raw, (size_t)tcc_dtype_bytes(d));
    else
        tcc_store_i64(d, p, v->i);
}

/* The number that v of type `from` is in type `to`. A float is held as f64, and wider types have it. */
static void convert(enum tcc_dtype to, union value *v, enum tcc_dtype from)
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

static union value scalar(enum ir_op op, enum tcc_dtype d, union value x, union value y, union value z)
{
    union value v = {0};
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
static bool by_bad_index(const struct run *r, const struct kn_insn *n)
{
    for (int i = 0; r->any_bad && i < r->k->ninsns; i++)
        if (r->k->insns[i].code == KN_INDEX && r->bad[i] && kn_insn_uses(n, r->k->insns[i].expr))
            return true;
    return false;
}

/* Does the access happen? */
static bool guards_hold(struct run *r, const struct kn_insn *n)
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
static char *address(struct run *r, const struct kn_insn *n)
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
static bool is_there(struct run *r, int insn)
{
    const struct kn_insn *n = &r->k->insns[insn];
    if (n->code == KN_LOAD)
        return guards_hold(r, n) || (n->nargs && n->arg[0] >= 0 && is_there(r, n->arg[0]));
    for (int i = 0; n->code == KN_SCALAR && i < n->nargs; i++)
        if (!is_there(r, n->arg[i]))
            return false;
    return true;
}

static void run_index(struct run *r, const struct kn_insn *n, union value *out)
{
    union value v = r->values[n->arg[0]];
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

static void run_scalar(struct run *r, const struct kn_insn *n, union value *out)
{
    union value x = r->values[n->arg[0]], y = n->nargs > 1 ? r->values[n->arg[1]] : x,
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
static void combine(struct run *r, int i)
{
    static const enum ir_op words[] = {[KN_SUM] = IR_add, [KN_PROD] = IR_mul, [KN_MAX] = IR_max, [KN_MIN] = IR_min};
    const struct kn_insn *n = &r->k->insns[i];
    struct accumulator *a = &r->acc[i];
    union value v = r->values[n->arg[0]], old;
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

static void run_arg(struct run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    struct accumulator *a = &r->acc[i];
    union value x = r->values[n->arg[0]], p = r->values[n->arg[1]], best;
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

static void start_accumulator(struct run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    enum tcc_dtype d = n->dtype;
    int bits = ir_width_of(d);
    bool top = n->reducer == KN_MIN;
    struct accumulator a = {.position = -1};
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
static void accumulated(struct run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    union value *v = &r->values[i];
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

static void run_load(struct run *r, const struct kn_insn *n, union value *out)
{
    *out = (union value){.raw = {0}};
    if (!guards_hold(r, n)) {
        if (n->nargs > 0 && n->arg[0] >= 0)
            *out = r->values[n->arg[0]];
        return;
    }
    const char *p = address(r, n);
    if (p)
        load(r->k->operands[n->operand].dtype, p, out);
}

static void run_sort(struct run *r, const struct kn_insn *n)
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
        union value v;
        load(d, keys + i * bytes, &v);
        row[i] = (struct ir_ranked){is_float(d) ? v.f : 0, is_float(d) ? 0 : v.i,
                                    tcc_load_i64(TCC_I32, companions + 4 * i), i};
    }
    ir_rank(row, count, d, is_float(d), n->reducer == KN_MAX);
    for (int64_t i = 0; i < count; i++) {
        union value v = {.f = row[i].f};
        if (!is_float(d))
            v.i = row[i].i;
        store(d, keys + i * bytes, &v);
        tcc_store_i64(TCC_I32, companions + 4 * i, row[i].index);
    }
    free(row);
}

static void run_insn(struct run *r, int i)
{
    const struct kn_insn *n = &r->k->insns[i];
    union value *v = &r->values[i];
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
        v->i = eval_node(r, r->exprs[i].expr);
        if (is_float(n->dtype))
            convert(n->dtype, v, TCC_I64);
        else
            settle(n->dtype, v);
        break;
    case KN_ENV: v->i = !r->env ? 0 : n->ivalue == KN_SEED ? (int64_t)r->env->seed : r->env->run; break;
    case KN_LOAD: run_load(r, n, v); break;
    case KN_STORE:
        if (guards_hold(r, n) && (p = address(r, n)))
            store(r->k->operands[n->operand].dtype, p, &r->values[n->arg[0]]);
        break;
    case KN_SCALAR: run_scalar(r, n, v); break;
    case KN_INDEX: run_index(r, n, v); break;
    case KN_REDUCE: combine(r, i); break;
    case KN_ARGREDUCE: run_arg(r, i); break;
    case KN_SCAN:
        if (n->ivalue)
            accumulated(r, i);
        combine(r, i);
        if (!n->ivalue)
            accumulated(r, i);
        break;
    case KN_SORT: run_sort(r, n); break;
    }
}

/* == Loops == */

/* Next point of the dims in the set, the last dim fastest; false after the last one. */
static bool advance(struct run *r, uint32_t set)
{
    for (int d = r->k->ndims - 1; d >= 0; d--) {
        if (!(set >> d & 1))
            continue;
        if (++r->var[d] < r->extent[d])
            return true;
        r->var[d] = r->first[d];
    }
    return false;
}

static bool empty(const struct run *r, uint32_t set)
{
    for (int d = 0; d < r->k->ndims; d++) {
        if ((set >> d & 1) && r->extent[d] <= r->first[d])
            return true;
    }
    return false;
}

static void run_stage(struct run *r, const struct kn_stage *s)
{
    for (int i = s->first; i < s->last; i++) {
        if (r->k->insns[i].code >= KN_REDUCE)
            start_accumulator(r, i);
    }
    for (int d = 0; d < r->k->ndims; d++) {
        if (s->inner >> d & 1)
            r->var[d] = r->first[d];
    }
    if (!empty(r, s->inner)) {
        do {
            for (int i = s->first; i < s->last && r->status != TCC_EBUG; i++)
                run_insn(r, i);
        } while (r->status != TCC_EBUG && advance(r, s->inner));
    }
    for (int i = s->first; i < s->last; i++) {
        if (r->k->insns[i].code == KN_REDUCE || r->k->insns[i].code == KN_ARGREDUCE)
            accumulated(r, i);
    }
}

/* A stage, or the neighbours that share a loop over their REPEAT dims; returns the stage after them. */
static int run_stages(struct run *r, int first)
{
    uint32_t repeat = r->k->stages[first].repeat;
    int last = first + 1;
    while (repeat && last < r->k->nstages && r->k->stages[last].repeat == repeat)
        last++;
    for (int d = 0; d < r->k->ndims; d++) {
        if (repeat >> d & 1)
            r->var[d] = r->first[d];
    }
    if (repeat && empty(r, repeat))
        return last;
    do {
        for (int s = first; s < last && r->status != TCC_EBUG; s++)
            run_stage(r, &r->k->stages[s]);
    } while (repeat && r->status != TCC_EBUG && advance(r, repeat));
    return last;
}

/* The first element that the point stores outside of the kernel; -1: none. */
static int64_t stored_element(struct run *r, int *arg)
{
    const struct kn_kernel *k = r->k;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code != KN_STORE || k->operands[n->operand].use == KN_LOCAL)
            continue;
        *arg = 0;
        for (int o = 0; o < n->operand; o++)
            *arg += k->operands[o].use != KN_LOCAL;
        const char *p = guards_hold(r, n) ? address(r, n) : NULL;
        return p ? (p - r->data[n->operand]) / tcc_dtype_bytes(k->operands[n->operand].dtype) : -1;
    }
    return -1;
}

/* Is the point, inner dims at their first, one that is asked for? Of a split kernel it is the same in all pieces. */
static bool is_wanted(struct run *r, uint32_t outer)
{
    int64_t number = 0;
    int arg = 0;
    if (!r->sample)
        return true;
    for (int d = r->k->split.combine ? 1 : 0; d < r->k->ndims; d++) {
        if (outer >> d & 1)
            number = number * r->extent[d] + r->var[d];
        else
            r->var[d] = r->first[d];
    }
    int64_t element = stored_element(r, &arg);
    return r->sample->wanted(r->sample->user, number, arg, element);
}

/* Stages [first, last) for each point of the dims in the set. */
static void run_phase(struct run *r, uint32_t outer, int first, int last)
{
    if (empty(r, outer))
        return;
    for (int d = 0; d < r->k->ndims; d++)
        r->var[d] = r->first[d];
    do {
        if (!is_wanted(r, outer))
            continue;
        for (int s = first; s < last && r->status != TCC_EBUG;)
            s = run_stages(r, s);
    } while (r->status != TCC_EBUG && advance(r, outer));
}

static void run_kernel(struct run *r)
{
    const struct kn_kernel *k = r->k;
    const struct kn_split *split = &k->split;
    uint32_t outer = 0;
    for (int d = 0; d < k->ndims; d++) {
        r->extent[d] = eval(r, k->dims[d].extent);
        outer |= k->dims[d].role == KN_OUTER ? 1u << d : 0;
    }
    if (r->status != TCC_OK)
        return;
    if (!split->combine) {
        run_phase(r, outer, 0, k->nstages);
        return;
    }
    int64_t all = r->extent[split->dim], pieces = r->extent[0], step = eval(r, split->step);
    if (step < 1 || step > TCC_MAX_ELEMENTS || (all + step - 1) / step > pieces)
        r->status = TCC_EBUG;
    for (int64_t p = 0; p < pieces && r->status != TCC_EBUG; p++) {
        r->first[0] = p;
        r->extent[0] = p + 1;
        r->first[split->dim] = p * step < all ? p * step : all;
        r->extent[split->dim] = (p + 1) * step < all ? (p + 1) * step : all;
        run_phase(r, outer | 1, 0, split->combine);
    }
    r->first[0] = r->first[split->dim] = 0;
    r->extent[0] = pieces;
    r->extent[split->dim] = all;
    run_phase(r, outer, split->combine, k->nstages);
}

/* Operands' dims, and memory for the temporary ones, filled with a pattern that no test expects. */
static bool bind_operands(struct run *r, void *const *args)
{
    for (int o = 0, a = 0; o < r->k->noperands; o++) {
        const struct kn_operand *op = &r->k->operands[o];
        int64_t n = tcc_dtype_bytes(op->dtype);
        for (int i = 0; i < op->rank; i++) {
            r->dims[o][i] = eval(r, op->dims[i]);
            if (__builtin_mul_overflow(n, r->dims[o][i], &n) || n < 0)
                r->status = TCC_EBUG;
        }
        if (op->use != KN_LOCAL) {
            r->data[o] = args[a++];
            continue;
        }
        if (r->status != TCC_OK)
            return true;
        r->data[o] = malloc(n ? (size_t)n : 1);
        if (!r->data[o])
            return false;
        memset(r->data[o], 0xa5, (size_t)n);
    }
    return true;
}

int kn_interp_sample(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env,
                     const struct kn_sample *s)
{
    struct run r = {.k = k, .sizes = sizes, .env = env, .sample = s, .status = TCC_OK};
    r.values = calloc((size_t)k->ninsns + 1, sizeof *r.values);
    r.bad = calloc((size_t)k->ninsns + 1, sizeof *r.bad);
    r.acc = calloc((size_t)k->ninsns + 1, sizeof *r.acc);
    r.data = calloc((size_t)k->noperands + 1, sizeof *r.data);
    r.dims = calloc((size_t)k->noperands + 1, sizeof *r.dims);
    r.exprs = calloc((size_t)k->ninsns + 1, sizeof *r.exprs);
    bool memory = r.values && r.bad && r.acc && r.data && r.dims && r.exprs && resolve(&r) && bind_operands(&r, args);
    if (memory && r.status == TCC_OK)
        run_kernel(&r);
    for (int o = 0; r.data && o < k->noperands; o++) {
        if (k->operands[o].use == KN_LOCAL)
            free(r.data[o]);
    }
    free(r.values);
    free(r.bad);
    free(r.acc);
    free(r.data);
    free(r.dims);
    free(r.exprs);
    free(r.nodes);
    return memory ? r.status : TCC_EENV;
}

int kn_interp_kernel(const struct kn_kernel *k, void *const *args, const int64_t *sizes, const struct tcc_env *env)
{
    return kn_interp_sample(k, args, sizes, env, NULL);
}
