/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention, the logarithms of its rows' sums, and its gradients by q, k and v. Operands are widened to
 * f64, sums rounded once.
 *
 * The gradients work the weights out again from the scores and their rows' logarithms (Dao, "FlashAttention-2", 2023,
 * section 3): p = exp(scores - lse), ds = p (dy v' - delta), dq = scale ds k, dk = scale ds' q, dv = p' dy.
 */
#include <math.h>
#include <string.h>

#include "ir/interp/interp_int.h"

struct attend {
    int64_t b, h, g, s, t, d, e; /* batch, heads, heads of keys; queries, keys, their width, values' width */
    double scale;
    bool causal;
    const struct ir_tensor *mask;
    int64_t steps[4]; /* of the mask along [b, h, s, t]; 0 where it is broadcast */
};

/* What a softmax of the row takes away from each of its scores: its logarithm's sum of exp(row), at least `lowest`, of
 * finite numbers. */
static double log_sum_exp(const double *row, int64_t n, double lowest)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = row[i] > max || row[i] != row[i] ? row[i] : max;
    if (max == -INFINITY)
        return lowest;
    for (int64_t i = 0; i < n; i++)
        sum += exp(row[i] - max);
    return max + log(sum);
}

/* softmax(row) in place; a row without any visible key becomes 0, or NaN. */
static void softmax_row(double *row, int64_t n, bool nan)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = row[i] > max || row[i] != row[i] ? row[i] : max;
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++)
            row[i] = nan ? NAN : 0;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - max);
    for (int64_t i = 0; i < n; i++)
        row[i] /= sum;
}

/* The number of the head of keys that head `i` of all reads. */
static int64_t keys_of(const struct attend *x, int64_t i)
{
    return i / x->h * x->g + i % x->h / (x->h / x->g);
}

/* scores[s, t] of head `i` of all: scaled, masked. k_t: [d, t]. */
static void score_head(const struct attend *x, int64_t i, const double *q, const double *k_t, double *scores)
{
    int64_t mask_at = i / x->h * x->steps[0] + i % x->h * x->steps[1];
    memset(scores, 0, (size_t)(x->s * x->t) * sizeof *scores);
    it_gemm_f64(x->s, x->t, x->d, q, k_t, scores);
    for (int64_t r = 0; r < x->s; r++)
        for (int64_t j = 0; j < x->t; j++) {
            double *at = &scores[r * x->t + j];
            *at *= x->scale;
            if (x->mask)
                *at +=
                    tcc_load_f64(it_dtype(x->mask), ir_tensor_at(x->mask, mask_at + r * x->steps[2] + j * x->steps[3]));
            if (x->causal && j > r)
                *at = -INFINITY;
        }
}

/* Steps of the mask along [b, h, s, t]; broadcast axes stay. */
static int mask_steps(struct it_call *c, const struct ir_tensor *m, const int64_t *full, int64_t *steps)
{
    int64_t s = 1;
    memset(steps, 0, 4 * sizeof *steps);
    if (m->rank > 4)
        return it_fail(c, TCC_EBUG, "a mask of rank %d", m->rank);
    for (int i = m->rank - 1; i >= 0; i--) {
        int to = i + 4 - m->rank;
        if (m->dims[i] != 1 && m->dims[i] != full[to])
            return it_fail(c, TCC_EINPUT, "mask axis %d: %lld does not broadcast to %lld", i, (long long)m->dims[i],
                           (long long)full[to]);
        steps[to] = m->dims[i] == 1 ? 0 : s;
        s *= m->dims[i];
    }
    return TCC_OK;
}

/* Operands q, k and v; the mask is number `mask`, if it is there. */
static int attend_init(struct it_call *c, struct attend *x, int mask)
{
    const struct ir_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2];
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || (k->dims[1] ? q->dims[1] % k->dims[1] : q->dims[1]) ||
        v->dims[1] != k->dims[1] || q->dims[0] != k->dims[0] || v->dims[0] != k->dims[0] || q->dims[3] != k->dims[3] ||
        v->dims[2] != k->dims[2])
        return it_fail(c, TCC_EINPUT, "q, k and v do not fit each other");
    *x = (struct attend){.b = q->dims[0],
                         .h = q->dims[1],
                         .g = k->dims[1],
                         .s = q->dims[2],
                         .t = k->dims[2],
                         .d = q->dims[3],
                         .e = v->dims[3],
                         .scale = ir_get_f(c->n, IR_ATTR_scale, 1),
                         .causal = ir_get_i(c->n, IR_ATTR_causal, 0) != 0,
                         .mask = c->n->nin > mask ? c->in[mask] : NULL};
    int64_t full[4] = {x->b, x->h, x->s, x->t};
    return x->mask ? mask_steps(c, x->mask, full, x->steps) : TCC_OK;
}

int interp_attention(struct it_call *c)
{
    struct attend x;
    if (attend_init(c, &x, 3))
        return c->status;
    bool nan = ir_get_s(c->n, IR_ATTR_mode, "zero")[0] == 'n';
    struct ir_tensor *out = it_out(c, 0, 4, (int64_t[]){x.b, x.h, x.s, x.e}),
                     *lse = c->n->nout > 1 ? it_out(c, 1, 3, (int64_t[]){x.b, x.h, x.s}) : NULL;
    double *mq = it_scratch(c, x.s * x.d, 8), *mk = it_scratch(c, x.t * x.d, 8), *mv = it_scratch(c, x.t * x.e, 8);
    double *scores = it_scratch(c, x.s * x.t, 8), *acc = it_scratch(c, x.s * x.e, 8);
    if (!out || !mq || !mk || !mv || !scores || !acc)
        return c->status;
    for (int64_t i = 0; i < x.b * x.h; i++) {
        it_load_matrix(c->in[0], i * x.s * x.d, x.s, x.d, false, true, mq);
        it_load_matrix(c->in[1], keys_of(&x, i) * x.t * x.d, x.d, x.t, true, true, mk);
        it_load_matrix(c->in[2], keys_of(&x, i) * x.t * x.e, x.t, x.e, false, true, mv);
        score_head(&x, i, mq, mk, scores);
        for (int64_t r = 0; r < x.s; r++) {
            double sum = lse ? log_sum_exp(scores + r * x.t, x.t, -tcc_largest(it_dtype(lse))) : 0;
            if (lse)
                it_store_f64s(lse, i * x.s + r, 1, 1, &sum);
            softmax_row(scores + r * x.t, x.t, nan);
        }
        memset(acc, 0, (size_t)(x.s * x.e) * sizeof *acc);
        it_gemm_f64(x.s, x.e, x.t, scores, mv, acc);
        it_store_f64s(out, i * x.s * x.e, 1, x.s * x.e, acc);
    }
    return TCC_OK;
}

/* -- Gradients ----------------------------------------------------------------------------------------------------- */

struct grads {
    double *q, *k, *k_t, *v_t, *dy, *lse, *delta; /* of a head; k_t, v_t: transposed */
    double *p, *ds, *left, *out;                  /* left: p or ds transposed */
};

static bool make_room(struct it_call *c, const struct attend *x, struct grads *m)
{
    double **const at[] = {&m->q,     &m->k, &m->k_t, &m->v_t,  &m->dy, &m->lse,
                           &m->delta, &m->p, &m->ds,  &m->left, &m->out};
    int64_t wide = x->d > x->e ? x->d : x->e, long_ = x->s > x->t ? x->s : x->t;
    const int64_t size[] = {x->s * x->d, x->t * x->d, x->t * x->d, x->t * x->e, x->s * x->e, x->s,
                            x->s,        x->s * x->t, x->s * x->t, x->s * x->t, wide * long_};
    for (int i = 0; i < 11; i++)
        if (!(*at[i] = it_scratch(c, size[i], 8)))
            return false;
    return true;
}

/* p and ds of head `i`. */
static void weigh_head(struct it_call *c, const struct attend *x, int64_t i, struct grads *m)
{
    int64_t kv = keys_of(x, i);
    it_load_matrix(c->in[0], i * x->s * x->d, x->s, x->d, false, true, m->q);
    it_load_matrix(c->in[1], kv * x->t * x->d, x->t, x->d, false, true, m->k);
    it_load_matrix(c->in[1], kv * x->t * x->d, x->d, x->t, true, true, m->k_t);
    it_load_matrix(c->in[2], kv * x->t * x->e, x->e, x->t, true, true, m->v_t);
    it_load_matrix(c->in[3], i * x->s * x->e, x->s, x->e, false, true, m->dy);
    it_load_f64s(c->in[4], i * x->s, 1, x->s, m->lse);
    it_load_f64s(c->in[5], i * x->s, 1, x->s, m->delta);
    score_head(x, i, m->q, m->k_t, m->p);
    memset(m->ds, 0, (size_t)(x->s * x->t) * sizeof *m->ds);
    it_gemm_f64(x->s, x->t, x->e, m->dy, m->v_t, m->ds);
    for (int64_t r = 0; r < x->s; r++)
        for (int64_t j = 0; j < x->t; j++) {
            int64_t at = r * x->t + j;
            m->p[at] = exp(m->p[at] - m->lse[r]);
            m->ds[at] = x->scale * m->p[at] * (m->ds[at] - m->delta[r]);
        }
}

static void transpose(const double *from, int64_t rows, int64_t columns, double *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + r] = from[r * columns + j];
}

int interp_attention_grad(struct it_call *c)
{
    struct attend x;
    struct grads m;
    if (attend_init(c, &x, 6))
        return c->status;
    bool by_q = c->n->op == IR_attention_grad_q;
    int64_t rows = by_q ? x.s : x.t, terms = by_q ? x.t : x.s, width[2] = {by_q ? x.d : x.e, x.d};
    for (int o = 0; o < c->n->nout; o++)
        it_out(c, o, 4, (int64_t[]){x.b, x.h, rows, width[o]});
    if (c->status != TCC_OK || !make_room(c, &x, &m))
        return c->status;
    for (int64_t i = 0; i < x.b * x.h; i++) {
        weigh_head(c, &x, i, &m);
        for (int o = 0; o < c->n->nout; o++) { /* by q, or by v and k */
            if (!by_q)
                transpose(o ? m.ds : m.p, x.s, x.t, m.left);
            memset(m.out, 0, (size_t)(rows * width[o]) * sizeof *m.out);
            it_gemm_f64(rows, width[o], terms, by_q ? m.ds : m.left, by_q ? m.k : o ? m.q : m.dy, m.out);
            it_store_f64s(c->out[o], i * rows * width[o], 1, rows * width[o], m.out);
        }
    }
    return TCC_OK;
}
