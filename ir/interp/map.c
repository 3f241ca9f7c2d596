/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - the MAP ops: scalar bodies over broadcast operands.
 *
 * A body runs on CHUNK elements at a time, a buffer per body node. f32 and smaller floats are held as f32 between the
 * primitives (each computed in f64 and rounded once, which for + - * / sqrt is the f32 result exactly), f64 as f64,
 * integers and bools in 64 bits and wrapped after each primitive. words_int.h has the primitives' meaning.
 */
#include <string.h>

#include "ir/interp/interp_int.h"
#include "ir/scalar_int.h"
#include "ir/interp/words_int.h"
#include "base/mutant.h"

#define CHUNK 512

union run {
    float f[CHUNK];
    double d[CHUNK];
    int64_t i[CHUNK];
};
typedef void (*word_fn)(int n, enum tcc_dtype dtype, union run *r, const union run *a, const union run *b,
                        const union run *c);

/* -- Floats (words_int.h): results are rounded to the type that is computed in. */

#define FLOAT_WORD(name, expr, member, type, suffix, result, rtype)                                                \
    static void name##_##suffix(int n, enum tcc_dtype dtype, union run *r, const union run *a, const union run *b, \
                                const union run *c)                                                                \
    {                                                                                                              \
        (void)dtype, (void)c;                                                                                      \
        for (int i = 0; i < n; i++) {                                                                              \
            double x = (double)a->member[i], y = (double)b->member[i];                                             \
            (void)x, (void)y;                                                                                      \
            r->result[i] = (rtype)(expr);                                                                          \
        }                                                                                                          \
    }
#define W32(name, expr) FLOAT_WORD(name, expr, f, float, f32, f, float)
#define W64(name, expr) FLOAT_WORD(name, expr, d, double, f64, d, double)
#define T32(name, expr) FLOAT_WORD(name, expr, f, float, f32, i, int64_t)
#define T64(name, expr) FLOAT_WORD(name, expr, d, double, f64, i, int64_t)
IR_FLOAT_WORDS(W32)
IR_FLOAT_WORDS(W64)
IR_FLOAT_TESTS(T32)
IR_FLOAT_TESTS(T64)

/* -- Integers */

#define INT_WORD(name, expr, type, suffix, finish)                                                                 \
    static void name##_##suffix(int n, enum tcc_dtype dtype, union run *r, const union run *a, const union run *b, \
                                const union run *c)                                                                \
    {                                                                                                              \
        int w = ir_width_of(dtype);                                                                                \
        (void)w;                                                                                                   \
        for (int i = 0; i < n; i++) {                                                                              \
            type x = (type)a->i[i], y = (type)b->i[i], z = (type)c->i[i];                                          \
            (void)x, (void)y, (void)z;                                                                             \
            r->i[i] = finish;                                                                                      \
        }                                                                                                          \
    }
#define WS(name, expr) INT_WORD(name, expr, int64_t, int, ir_wrap(dtype, (uint64_t)(expr)))
#define WU(name, expr) INT_WORD(name, expr, uint64_t, u64, (int64_t)(expr))
#define TS(name, expr) INT_WORD(name, expr, int64_t, int, (expr))
#define TU(name, expr) INT_WORD(name, expr, uint64_t, u64, (expr))
IR_SIGNED_WORDS(WS)
IR_UNSIGNED_WORDS(WU)
IR_INT_TESTS(TS)
IR_INT_TESTS(TU)

#define SELECT(suffix, member)                                                                                     \
    static void select_##suffix(int n, enum tcc_dtype dtype, union run *r, const union run *a, const union run *b, \
                                const union run *c)                                                                \
    {                                                                                                              \
        (void)dtype;                                                                                               \
        for (int i = 0; i < n; i++)                                                                                \
            r->member[i] = MUTANT(79, a->i[i], !a->i[i]) ? b->member[i] : c->member[i];                            \
    }
SELECT(f32, f)
SELECT(f64, d)
SELECT(int, i)
#define select_u64 select_int

enum form { FORM_F32, FORM_F64, FORM_INT, FORM_U64, NFORMS };
static const word_fn words[NFORMS][IR_NOPS] = {
#define ROW(name, expr) [IR_##name] = name##_f32,
    [FORM_F32] = {IR_FLOAT_WORDS(ROW) IR_FLOAT_TESTS(ROW)[IR_select] = select_f32},
#undef ROW
#define ROW(name, expr) [IR_##name] = name##_f64,
    [FORM_F64] = {IR_FLOAT_WORDS(ROW) IR_FLOAT_TESTS(ROW)[IR_select] = select_f64},
#undef ROW
#define ROW(name, expr) [IR_##name] = name##_int,
    [FORM_INT] = {IR_SIGNED_WORDS(ROW) IR_INT_TESTS(ROW)[IR_select] = select_int},
#undef ROW
#define ROW(name, expr) [IR_##name] = name##_u64,
    [FORM_U64] = {IR_UNSIGNED_WORDS(ROW) IR_INT_TESTS(ROW)[IR_select] = select_u64},
#undef ROW
};

static enum form form_of(enum tcc_dtype d)
{
    return d == TCC_F64 ? FORM_F64 : tcc_is_float(d) ? FORM_F32 : d == TCC_U64 ? FORM_U64 : FORM_INT;
}

/* -- Running a body ------------------------------------------------------------------------- */

struct operand {
    const struct ir_tensor *t;
    int64_t strides[TCC_MAX_RANK];
};

struct map {
    struct ir_tensor *out;
    const struct ir_scalar_body *body;
    enum tcc_dtype dtype; /* T: what the body computes in */
    enum form form;
    int nargs, rank;
    struct operand arg[3];
    int64_t dims[TCC_MAX_RANK];
    union run *runs; /* one per body node */
};

static void load_run(enum form form, const struct ir_tensor *t, int64_t at, int64_t stride, int n, union run *to)
{
    enum tcc_dtype d = it_dtype(t);
    if (tcc_dtype_class(d) == TCC_CLASS_BOOL || form == FORM_INT || form == FORM_U64) {
        it_load_i64s(t, at, stride, n, to->i);
    } else if (form == FORM_F64) {
        it_load_f64s(t, at, stride, n, to->d);
    } else if (d == TCC_F32) {
        const float *p = (const float *)t->data + at;
        for (int i = 0; i < n; i++, p += stride)
            to->f[i] = *p;
    } else {
        const char *p = (const char *)t->data + at * tcc_dtype_bytes(d);
        for (int i = 0; i < n; i++, p += stride * tcc_dtype_bytes(d))
            to->f[i] = (float)tcc_load_f64(d, p);
    }
}

static void store_run(const struct map *m, int64_t at, int n, const union run *from)
{
    enum tcc_dtype d = it_dtype(m->out);
    char *p = (char *)m->out->data + at * tcc_dtype_bytes(d);
    if (d == TCC_F32)
        memcpy(p, from->f, (size_t)n * sizeof(float));
    else if (d == TCC_F64)
        memcpy(p, from->d, (size_t)n * sizeof(double));
    else if (tcc_is_float(d))
        for (int i = 0; i < n; i++)
            tcc_store_f64(d, p + i * tcc_dtype_bytes(d), (double)from->f[i]);
    else
        it_store_i64s(m->out, at, 1, n, from->i);
}

static void fill_constants(const struct map *m)
{
    for (int k = 0; k < m->body->nnodes; k++) {
        double v = m->body->nodes[k].value;
        for (int i = 0; m->body->nodes[k].kind == IR_S_CONST && i < CHUNK; i++) {
            if (m->form == FORM_F32)
                m->runs[k].f[i] = (float)v;
            else if (m->form == FORM_F64)
                m->runs[k].d[i] = v;
            else
                m->runs[k].i[i] = (int64_t)v;
        }
    }
}

/* n elements along the last axis, operand k's first one being number at[k]. */
static void run_chunk(const struct map *m, int64_t out_at, const int64_t *at, int n)
{
    const struct ir_scalar_node *nodes = m->body->nodes;
    for (int k = 0; k < m->body->nnodes; k++) {
        union run *r = &m->runs[k];
        if (nodes[k].kind == IR_S_ARG) {
            int a = nodes[k].arg[0];
            load_run(m->form, m->arg[a].t, at[a], m->rank ? m->arg[a].strides[m->rank - 1] : 0, n, r);
        } else if (nodes[k].kind == IR_S_CALL) {
            const union run *x[3];
            for (int i = 0; i < 3; i++)
                x[i] = &m->runs[nodes[k].arg[i] >= 0 ? nodes[k].arg[i] : nodes[k].arg[0]];
            words[m->form][nodes[k].op](n, m->dtype, r, x[0], x[1], x[2]);
        }
    }
    store_run(m, out_at, n, &m->runs[m->body->nnodes - 1]);
}

/* Rows of the last axis, in order; index counts the outer axes. */
static void run_map(const struct map *m)
{
    int64_t index[TCC_MAX_RANK] = {0}, at[3] = {0};
    int64_t row = m->rank ? m->dims[m->rank - 1] : 1;
    for (int64_t out = 0; out < m->out->nelems; out += row) {
        for (int64_t j = 0; j < row; j += CHUNK) {
            int64_t here[3];
            for (int a = 0; a < m->nargs; a++)
                here[a] = at[a] + (m->rank ? j * m->arg[a].strides[m->rank - 1] : 0);
            run_chunk(m, out + j, here, (int)(row - j < CHUNK ? row - j : CHUNK));
        }
        for (int i = m->rank - 2; i >= 0; i--) {
            for (int a = 0; a < m->nargs; a++)
                at[a] += m->arg[a].strides[i];
            if (++index[i] < m->dims[i])
                break;
            for (int a = 0; a < m->nargs; a++)
                at[a] -= m->dims[i] * m->arg[a].strides[i];
            index[i] = 0;
        }
    }
}

/* -- Broadcasting ------------------------------------------------------------------------------ */

static int broadcast(struct it_call *c, struct map *m)
{
    for (int a = 0; a < m->nargs; a++)
        m->rank = c->in[a]->rank > m->rank ? c->in[a]->rank : m->rank;
    for (int i = 0; i < m->rank; i++) {
        m->dims[i] = 1;
        for (int a = 0; a < m->nargs; a++) {
            int j = i - (m->rank - c->in[a]->rank);
            int64_t d = j < 0 ? 1 : c->in[a]->dims[j];
            if (d != 1 && m->dims[i] != 1 && d != m->dims[i])
                return it_fail(c, TCC_EINPUT, "axis %d: %lld and %lld do not broadcast", i, (long long)m->dims[i],
                               (long long)d);
            if (d != 1)
                m->dims[i] = d;
        }
    }
    for (int a = 0; a < m->nargs; a++) {
        int64_t strides[TCC_MAX_RANK];
        int shift = m->rank - c->in[a]->rank;
        m->arg[a].t = c->in[a];
        it_strides(c->in[a]->rank, c->in[a]->dims, strides);
        for (int i = 0; i < m->rank; i++)
            m->arg[a].strides[i] = i < shift || c->in[a]->dims[i - shift] == 1 ? 0 : strides[i - shift];
    }
    return TCC_OK;
}

/* Joins neighbouring axes that every operand walks evenly, so that rows are long. */
static void join_axes(struct map *m)
{
    int to = 0;
    for (int i = 1; i < m->rank; i++) {
        bool joins = true;
        for (int a = 0; a < m->nargs; a++)
            joins &= m->arg[a].strides[to] == m->arg[a].strides[i] * m->dims[i];
        if (!joins)
            to++;
        m->dims[to] = joins ? m->dims[to] * m->dims[i] : m->dims[i];
        for (int a = 0; a < m->nargs; a++)
            m->arg[a].strides[to] = m->arg[a].strides[i];
    }
    if (m->rank)
        m->rank = to + 1;
}

static void select_bytes(const struct map *m)
{
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(m->out));
    int64_t index[TCC_MAX_RANK] = {0}, at[3] = {0};
    for (int64_t out = 0; out < m->out->nelems; out++) {
        int from = ((const uint8_t *)m->arg[0].t->data)[at[0]] ? 1 : 2;
        memcpy((char *)m->out->data + (size_t)out * size, (const char *)m->arg[from].t->data + (size_t)at[from] * size,
               size);
        for (int i = m->rank - 1; i >= 0; i--) {
            for (int a = 0; a < 3; a++)
                at[a] += m->arg[a].strides[i];
            if (++index[i] < m->dims[i])
                break;
            for (int a = 0; a < 3; a++)
                at[a] -= m->dims[i] * m->arg[a].strides[i];
            index[i] = 0;
        }
    }
}

/* Is it an integer type that all of 64 bits hold as they are? */
static bool plain_int(enum tcc_dtype d)
{
    return tcc_is_int(d) && d != TCC_U64;
}

/* The casts in which whole weights go, by runs: of integers, and of these to f32. false: another cast. */
static bool cast_runs(const struct ir_tensor *from, struct ir_tensor *to)
{
    enum tcc_dtype dt = it_dtype(to);
    int64_t part[CHUNK];
    if (!plain_int(it_dtype(from)) || (!plain_int(dt) && dt != TCC_F32))
        return false;
    for (int64_t at = 0; at < to->nelems; at += CHUNK) {
        int64_t n = to->nelems - at < CHUNK ? to->nelems - at : CHUNK;
        it_load_i64s(from, at, 1, n, part);
        if (dt != TCC_F32) {
            it_store_i64s(to, at, 1, n, part);
            continue;
        }
        float *f = (float *)it_data(to) + at;
        for (int64_t i = 0; i < n; i++)
            f[i] = (float)part[i];
    }
    return true;
}

static void cast_all(const struct ir_node *n, const struct ir_tensor *from, struct ir_tensor *to)
{
    bool saturate = ir_get_i(n, IR_ATTR_saturate, 1) != 0;
    const char *mode = ir_get_s(n, IR_ATTR_round_mode, NULL);
    enum tcc_dtype df = it_dtype(from), dt = it_dtype(to);
    if (cast_runs(from, to))
        return;
    for (int64_t i = 0; i < to->nelems; i++)
        tcc_cast(dt, (char *)it_data(to) + i * tcc_dtype_bytes(dt), df,
                 (const char *)from->data + i * tcc_dtype_bytes(df), saturate, mode);
}

int interp_map(struct it_call *c)
{
    const struct ir_scalar_row *row = ir_scalar_row(c->n->op);
    struct map m = {.body = ir_scalar_body(c->n->op), .nargs = row->nargs};
    for (int a = 0; a < m.nargs; a++)
        if (a >= c->n->nin || !c->in[a])
            return it_fail(c, TCC_EBUG, "operand %d is missing", a);
    if (broadcast(c, &m) || !(m.out = it_out(c, 0, m.rank, m.dims)))
        return c->status;
    if (row->types == IR_ST_CAST) {
        cast_all(c->n, c->in[0], m.out);
        return TCC_OK;
    }
    join_axes(&m);
    if (row->types == IR_ST_SELECT) {
        if (c->in[1]->dtype != m.out->dtype || c->in[2]->dtype != m.out->dtype || c->in[0]->dtype != TCC_BOOL)
            return it_fail(c, TCC_EBUG, "operands of different types");
        select_bytes(&m);
        return TCC_OK;
    }
    m.dtype = it_dtype(c->in[m.nargs - 1]);
    m.form = form_of(m.dtype);
    for (int a = 0; a < m.nargs; a++)
        if (c->in[a]->dtype != m.dtype)
            return it_fail(c, TCC_EBUG, "operands of different types");
    for (int k = 0; k < m.body->nnodes; k++)
        if (m.body->nodes[k].kind == IR_S_CALL && !words[m.form][m.body->nodes[k].op])
            return it_fail(c, TCC_EBUG, "not defined for %s", tcc_dtype_name(m.dtype));
    m.runs = it_scratch(c, m.body->nnodes, sizeof *m.runs);
    if (!m.runs)
        return c->status;
    fill_constants(&m);
    run_map(&m);
    return TCC_OK;
}
