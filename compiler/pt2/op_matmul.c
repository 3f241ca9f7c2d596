/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, and attention. */
#include "compiler/import/attention.h"
#include "compiler/pt2/pt2_int.h"

#include <math.h>

#define MAX_GROUPS 1024

/* mm, bmm, matmul, mv, dot: NumPy's rules. */
bool aten_matmul(struct pt2 *p)
{
    static const char *const names[] = {"mat2", "other", "vec", "tensor"};
    struct ir_value *a = pt2_need(p, "self"), *b = NULL;
    for (int k = 0; a && !b && k < 4; k++)
        b = pt2_given(p, names[k]) ? pt2_need(p, names[k]) : NULL;
    return b && pt2_out(p, 0, imp_matmul_nd(p->im, a, b, pt2_out_type(p, 0)));
}

bool aten_linear(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input"), *w = x ? pt2_need(p, "weight") : NULL,
                    *bias = w ? pt2_t(p, "bias") : NULL;
    if (!w)
        return false;
    bool vector = imp_rank(x) == 1;
    struct ir_value *matrix = imp_rank(w) == 1 ? imp_to_rank(im, w, 2) : w;
    struct ir_value *y = imp_matmul(im, vector ? imp_to_rank(im, x, 2) : x, matrix, false, true, TCC_NONE);
    int64_t front = 0, last = y ? imp_rank(y) - 1 : 0;
    if (y && imp_rank(w) == 1)
        y = imp_squeeze(im, y, 1, &last);
    if (y && vector)
        y = imp_squeeze(im, y, 1, &front);
    return pt2_out(p, 0, bias ? imp_bin(im, IR_add, y, bias) : y);
}

/* addmm, baddbmm, addmv, addbmm...: beta * self + alpha * (a b) */
bool aten_addmm(struct pt2 *p)
{
    int arg = p->row->arg;
    static const char *const names[][2] = {{"mat1", "mat2"}, {"batch1", "batch2"}, {"mat", "vec"}};
    struct imp *im = p->im;
    struct ir_value *c = pt2_need(p, "self"), *a = c ? pt2_need(p, names[arg][0]) : NULL,
                    *b = a ? pt2_need(p, names[arg][1]) : NULL;
    double beta = pt2_f(p, "beta", 1), alpha = pt2_f(p, "alpha", 1);
    struct ir_value *y = b ? imp_matmul_nd(im, a, b, TCC_NONE) : NULL;
    if (alpha != 1)
        y = imp_with(im, IR_mul, y, alpha);
    if (beta == 0)
        return pt2_out(p, 0, pt2_expand_as(p, y, y));
    if (beta != 1)
        c = imp_with(im, IR_mul, c, beta);
    return pt2_out(p, 0, imp_bin(im, IR_add, y, c));
}

bool aten_outer(struct pt2 *p)
{
    struct pt2_operands o;
    if (!pt2_pair_of(p, "self", "vec2", pt2_out_type(p, 0), &o))
        return false;
    struct ir_value *row = imp_along(p->im, o.b, 1, 2);
    return pt2_out(p, 0, pt2_bin(p, IR_mul, imp_along(p->im, o.a, 0, 2), row));
}

bool aten_einsum(struct pt2 *p)
{
    const char *equation = pt2_s(p, "equation", "");
    struct ir_value **in;
    int n = pt2_list(p, "tensors", &in);
    pt2_ignore(p, "path");
    return n > 0 && pt2_out(p, 0, imp_einsum(p->im, equation, n, in));
}

/* Rows of x in groups: rows up to ends[0], from there up to ends[1], .., and what is behind the last. Their numbers
 * become symbols when the ends are known. */
struct groups {
    int64_t n;
    ir_expr *rows; /* n + 1 */
    ir_expr end;   /* of the last group */
};

static bool read_groups(struct pt2 *p, struct ir_value *x, struct ir_value *w, struct ir_value *ends, struct groups *g)
{
    struct imp *im = p->im;
    ir_expr zero = ir_const(p->ctx, 0), one = ir_const(p->ctx, 1);
    if (imp_rank(x) != 2 || imp_rank(w) != 3 || imp_rank(ends) != 1 || !ir_is_const(imp_dim(w, 0), &g->n) || g->n < 1 ||
        g->n > MAX_GROUPS)
        return imp_unsupported(im, "operands of %d, %d and %d dims, or more than %d groups", imp_rank(x), imp_rank(w),
                               imp_rank(ends), MAX_GROUPS);
    g->rows = IR_NEWN(p->ctx, g->n + 1, ir_expr);
    ends = imp_cast(im, ends, TCC_I64);
    struct ir_value *starts = imp_pad(im, ends, imp_int(im, TCC_I64, 0), &one, &zero, "constant");
    /* What is behind the last group is a number of rows, too: none may end beyond them. */
    ends = imp_pad(im, ends, imp_dim_value(im, imp_dim(x, 0)), &zero, &one, "constant");
    if (imp_bound_exprs(im, imp_bin(im, IR_sub, ends, starts), (int)g->n + 1, 0, INT64_C(1) << 40, g->rows) != g->n + 1)
        return false;
    g->end = zero;
    for (int64_t k = 0; k < g->n; k++)
        g->end = ir_add(p->ctx, g->end, g->rows[k]);
    return true;
}

/* Each group's rows times its matrix w[k], transposed if trans; 0 behind the last group. NULL after a message. */
static struct ir_value *grouped_product(struct pt2 *p, const struct groups *g, struct ir_value *x, struct ir_value *w,
                                        bool trans)
{
    struct imp *im = p->im;
    struct ir_value **parts = IR_NEWN(p->ctx, g->n + 1, struct ir_value *);
    ir_expr begin = ir_const(p->ctx, 0), one = ir_const(p->ctx, 1);
    int64_t first = 0;
    for (int64_t k = 0; k < g->n; k++) {
        struct ir_value *matrix = imp_squeeze(im, imp_slice1(im, w, 0, ir_const(p->ctx, k), one), 1, &first);
        parts[k] = imp_matmul(im, imp_slice1(im, x, 0, begin, g->rows[k]), matrix, false, trans, TCC_NONE);
        begin = ir_add(p->ctx, begin, g->rows[k]);
        if (!parts[k])
            return NULL;
    }
    /* One row of zeros for all those behind. */
    parts[g->n] = imp_splat(im, imp_dtype(parts[0]), 0, 2, (ir_expr[]){one, imp_dim(parts[0], 1)});
    struct ir_value *at = imp_iota(im, 1, &x->type->dim[0], 0, TCC_I64);
    at = imp_bin(im, IR_min, at, imp_dim_value(im, g->end));
    return imp_gather(im, imp_concat(im, (int)g->n + 1, parts, 0), at, 0);
}

/* _grouped_mm(self[m, k], mat2[g, k, n], offs[g]), and what transformers exports in its place (arg 1). */
bool aten_grouped_mm(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, arg ? "input" : "self"), *w = x ? pt2_need(p, arg ? "weight" : "mat2") : NULL,
                    *ends = w ? pt2_need(p, "offs") : NULL;
    struct groups g;
    pt2_ignore(p, "out_dtype");
    return ends && read_groups(p, x, w, ends, &g) && pt2_out(p, 0, grouped_product(p, &g, x, w, false));
}

/* grouped_mm_fallback_backward(input, weight, offs, grad_output): the gradients by input and weight */
bool aten_grouped_mm_backward(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "input"), *w = x ? pt2_need(p, "weight") : NULL,
                    *ends = w ? pt2_need(p, "offs") : NULL, *dy = ends ? pt2_need(p, "grad_output") : NULL;
    struct groups g;
    ir_expr begin = ir_const(p->ctx, 0);
    int64_t first = 0;
    if (!dy || !read_groups(p, x, w, ends, &g) || !pt2_out(p, 0, grouped_product(p, &g, dy, w, true)))
        return false;
    struct ir_value **parts = IR_NEWN(p->ctx, g.n, struct ir_value *);
    for (int64_t k = 0; k < g.n; k++) {
        struct ir_value *rows = imp_slice1(im, x, 0, begin, g.rows[k]), *by = imp_slice1(im, dy, 0, begin, g.rows[k]);
        parts[k] = imp_unsqueeze(im, imp_matmul(im, rows, by, true, false, TCC_NONE), 1, &first);
        begin = ir_add(p->ctx, begin, g.rows[k]);
        if (!parts[k])
            return false;
    }
    return pt2_out(p, 1, imp_concat(im, (int)g.n, parts, 0));
}

/* -- Attention */

struct attention {
    struct pt2 *p;
    struct ir_value *q, *k, *v, *mask;
    struct ir_value
        *factor; /* that q has in front of the op, where the heads' size is known only at run time; else NULL */
    double scale, dropout;
    bool causal, sums;    /* sums: the logarithms of the rows' sums are wanted, */
    struct ir_value *lse; /* which these are, once made; or NULL */
};

/* As [batch, heads, length, size]. */
static struct ir_value *rank4(struct pt2 *p, struct ir_value *x)
{
    ir_expr dims[4] = {ir_const(p->ctx, 1)};
    if (!x || imp_rank(x) <= 4)
        return x ? imp_to_rank(p->im, x, 4) : NULL;
    for (int k = 0; k < imp_rank(x) - 3; k++)
        dims[0] = ir_mul(p->ctx, dims[0], imp_dim(x, k));
    for (int k = 1; k < 4; k++)
        dims[k] = imp_dim(x, imp_rank(x) - 4 + k);
    return imp_reshape(p->im, x, 4, dims);
}

static struct ir_value *added_mask(struct pt2 *p, struct ir_value *mask, enum tcc_dtype d)
{
    if (mask && imp_dtype(mask) == TCC_BOOL) {
        struct ir_value *minus_infinity = imp_num(p->im, d, -INFINITY);
        return imp_select(p->im, mask, imp_num(p->im, d, 0), minus_infinity);
    }
    return mask ? imp_cast(p->im, mask, d) : NULL;
}

static struct ir_value *dropped(struct imp *im, struct ir_value *x, bool weights, void *context)
{
    const struct attention *a = context;
    (void)im;
    return weights ? pt2_dropout(a->p, x, a->dropout, NULL) : x;
}

/* Step by step, as training with dropout wants it. */
static struct ir_value *spelled_out(struct pt2 *p, struct attention *a)
{
    struct imp_attention whole = {.form = IMP_ATTENTION_ATEN,
                                  .q = imp_with(p->im, IR_mul, a->q, a->scale),
                                  .k = a->k,
                                  .v = a->v,
                                  .change = dropped,
                                  .context = a};
    return whole.q && imp_attention_bias(p->im, &whole, a->mask) &&
                   (!a->causal ||
                    imp_attention_reach(p->im, &whole, imp_attention_places(p->im, &whole, NULL), true, -1, -1))
               ? imp_attend(p->im, &whole)
               : NULL;
}

static struct ir_value *attention(struct pt2 *p, struct attention *a)
{
    struct ir_value *q = rank4(p, a->q), *k = rank4(p, a->k), *v = rank4(p, a->v);
    int rank = imp_rank(a->q);
    ir_expr dims[TCC_MAX_RANK];
    if (!q || !k || !v)
        return NULL;
    for (int i = 0; i < rank; i++)
        dims[i] = i == rank - 1 ? imp_dim(v, 3) : imp_dim(a->q, i);
    a->mask = added_mask(p, a->mask, imp_dtype(q));
    if (a->mask && imp_rank(a->mask) > 4 && rank > 4)
        return imp_unsupported(p->im, "a mask of more than 4 dims"), NULL;
    a->q = q;
    a->k = k;
    a->v = v;
    struct ir_value *y;
    if ((a->dropout > 0 && !p->eval) || ir_expr_eq(p->ctx, imp_dim(q, 0), imp_dim(k, 0)) == IR_NO) {
        y = spelled_out(p, a);
    } else {
        struct ir_value *in[] = {q, k, v, a->mask ? imp_to_rank(p->im, a->mask, 4) : NULL};
        struct ir_node *n = ir_build(&p->im->b, a->sums ? IR_attention_lse : IR_attention, 4, in,
                                     IR_ATTRS(ir_attr_f(IR_ATTR_scale, a->scale), ir_attr_i(IR_ATTR_causal, a->causal),
                                              ir_attr_s(IR_ATTR_mode, "zero")));
        y = n ? n->out[0] : NULL;
        a->lse = n && a->sums ? n->out[1] : NULL;
    }
    return y && rank != 4 ? imp_reshape(p->im, y, rank, dims) : y;
}

/* 1 / sqrt(size) of q, taken in front. */
static bool scale_in_front(struct pt2 *p, struct attention *a)
{
    ir_expr size = imp_dim(a->q, imp_rank(a->q) - 1);
    struct ir_value *root = imp_un(p->im, IR_sqrt, imp_cast(p->im, imp_dim_value(p->im, size), TCC_F64));
    a->factor = imp_cast(p->im, imp_bin(p->im, IR_div, imp_num(p->im, TCC_F64, 1), root), imp_dtype(a->q));
    a->q = imp_bin(p->im, IR_mul, a->q, a->factor);
    a->scale = 1;
    return a->q != NULL;
}

/* What the forms of an attention op have in common. False after a message. */
static bool read_attention(struct pt2 *p, struct attention *a)
{
    int64_t size;
    a->q = pt2_need(p, "query");
    a->k = a->q ? pt2_need(p, "key") : NULL;
    a->v = a->k ? pt2_need(p, "value") : NULL;
    if (!a->v || imp_rank(a->q) < 2)
        return a->v && imp_bad(p->im, "queries of %d dims", imp_rank(a->q));
    bool known = ir_is_const(imp_dim(a->q, imp_rank(a->q) - 1), &size);
    a->mask = pt2_t(p, "attn_mask");
    a->dropout = pt2_f(p, "dropout_p", 0);
    a->causal = pt2_b(p, "is_causal", false);
    a->scale = pt2_f(p, "scale", known ? 1 / sqrt((double)size) : 1);
    pt2_ignore(p, "enable_gqa");
    return known || pt2_given(p, "scale") || scale_in_front(p, a);
}

static const struct ir_attr *scores_attrs(struct pt2 *p, const struct attention *a)
{
    struct ir_attr *attrs = IR_NEWN(p->ctx, 3, struct ir_attr);
    attrs[0] = ir_attr_f(IR_ATTR_scale, a->scale);
    attrs[1] = ir_attr_i(IR_ATTR_causal, a->causal);
    return attrs;
}

/* The second result of the decomposed form: the logarithm of each row's sum of exp(scores). */
static struct ir_value *row_sums(struct pt2 *p, const struct attention *a)
{
    struct ir_value *in[] = {a->q, a->k, a->v, a->mask ? imp_to_rank(p->im, a->mask, 4) : NULL};
    struct ir_node *n = ir_build(&p->im->b, IR_attention_lse, 4, in, scores_attrs(p, a));
    return n ? n->out[1] : NULL;
}

/* _scaled_dot_product_flash_attention_for_cpu_backward(grad_out, query, key, value, out, logsumexp, ...): by query,
 * key, value */
bool aten_sdpa_backward(struct pt2 *p)
{
    struct attention a = {.p = p};
    struct imp *im = p->im;
    struct ir_value *dy = pt2_need(p, "grad_out"), *y = dy ? pt2_need(p, "out") : NULL,
                    *lse = y ? pt2_need(p, "logsumexp") : NULL;
    if (!lse || !read_attention(p, &a) || imp_rank(a.q) != 4 || a.dropout > 0)
        return false;
    a.mask = added_mask(p, a.mask, imp_dtype(a.q));
    if (imp_rank(lse) !=
        3) /* PyTorch's joint programs pass the weights of a forward pass that was decomposed another way */
        lse = row_sums(p, &a);
    struct attention_parts parts = {a.q, a.k,     a.v,     a.mask ? imp_to_rank(im, a.mask, 4) : NULL, y, dy,
                                    lse, a.scale, a.causal};
    bool wanted[3] = {pt2_wants(p, 0), pt2_wants(p, 1), pt2_wants(p, 2)};
    struct ir_value *by[3] = {NULL};
    if (!attention_gradients(&im->b, &parts, wanted, by))
        return false;
    if (by[0] && a.factor)
        by[0] = imp_bin(im, IR_mul, by[0], imp_cast(im, a.factor, imp_dtype(by[0])));
    for (int k = 0; k < 3; k++)
        if (wanted[k] && !pt2_out(p, k, by[k]))
            return false;
    return true;
}

/* scaled_dot_product_attention, and the forms that decompositions make of it, which give the logarithms of the sums
 * too, for the backward pass. */
bool aten_sdpa(struct pt2 *p)
{
    struct attention a = {.p = p};
    if (!read_attention(p, &a))
        return false;
    a.sums =
        pt2_nouts(p) > 1 && pt2_wants(p, 1) && pt2_out_type(p, 1) == tcc_wide_float(imp_dtype(a.q));
    struct ir_value *y = attention(p, &a);
    if (!y || !pt2_out(p, 0, y))
        return false;
    return !a.sums || pt2_out(p, 1, a.lse ? a.lse : row_sums(p, &a));
}
