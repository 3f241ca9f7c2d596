/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: MatMul, Gemm, Einsum, Det. */
#include "compiler/onnx/import_int.h"

#include <ctype.h>
#include <string.h>

#define UNUSED(arg) ((void)(arg))

/* Vectors are a row on the left, a column on the right; the 1 they bring is dropped from the result. */
struct ir_value *imp_matmul_nd(struct imp *im, struct ir_value *a, struct ir_value *b, enum tcc_dtype to)
{
    if (!a || !b)
        return NULL;
    if (!imp_rank(a) || !imp_rank(b))
        return imp_bad(im, "a scalar operand"), NULL;
    bool row = imp_rank(a) == 1, column = imp_rank(b) == 1;
    int64_t first = 0, second = 1;
    a = row ? imp_unsqueeze(im, a, 1, &first) : a;
    b = column ? imp_unsqueeze(im, b, 1, &second) : b;
    struct ir_value *y = imp_matmul(im, a, b, false, false, to);
    int64_t axes[2];
    int n = 0;
    if (!y)
        return NULL;
    if (row)
        axes[n++] = imp_rank(y) - 2;
    if (column)
        axes[n++] = imp_rank(y) - 1;
    return imp_squeeze(im, y, n, axes);
}

bool onnx_op_matmul(struct imp *im, int arg)
{
    UNUSED(arg);
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL;
    return b && imp_out(im, 0, imp_matmul_nd(im, a, b, imp_dtype(a)));
}

struct ir_value *imp_gemm(struct imp *im)
{
    struct ir_value *a = imp_tensor(im, 0), *b = a ? imp_tensor(im, 1) : NULL, *c = imp_in(im, 2);
    double alpha = imp_f(im, "alpha", 1), beta = imp_f(im, "beta", 1);
    if (!b)
        return NULL;
    if (imp_rank(a) != 2 || imp_rank(b) != 2)
        return imp_bad(im, "operands of %d and %d dims; matrices are expected", imp_rank(a), imp_rank(b)), NULL;
    struct ir_value *y = imp_matmul(im, a, b, imp_i(im, "transA", 0), imp_i(im, "transB", 0), imp_dtype(a));
    if (alpha != 1)
        y = imp_bin(im, IR_mul, y, imp_like(im, a, alpha));
    if (c && beta != 0)
        y = imp_bin(im, IR_add, y, beta == 1 ? c : imp_bin(im, IR_mul, c, imp_like(im, c, beta)));
    return y;
}

bool onnx_op_gemm(struct imp *im, int arg)
{
    UNUSED(arg);
    return imp_out(im, 0, imp_gemm(im));
}

/* -- Einsum: operands are contracted from left to right, each step as one batched matrix product */

#define LABELS 32

struct term {
    struct ir_value *v;
    int n;
    char label[TCC_MAX_RANK];
};

static int position(const struct term *t, char label)
{
    for (int k = 0; k < t->n; k++) {
        if (t->label[k] == label)
            return k;
    }
    return -1;
}

/* Reads one operand's labels; '...' becomes the digits that stand for the broadcast axes, right-aligned to 9. */
static const char *read_term(const char *p, int rank, struct term *t)
{
    int letters = 0;
    for (const char *q = p; *q && *q != ',' && *q != '-'; q++)
        letters += isalpha((unsigned char)*q) != 0;
    t->n = 0;
    while (*p && *p != ',' && *p != '-') {
        if (isspace((unsigned char)*p)) {
            p++;
        } else if (!strncmp(p, "...", 3)) {
            for (int k = rank - letters; k > 0 && t->n < TCC_MAX_RANK; k--)
                t->label[t->n++] = (char)('9' - k + 1);
            p += 3;
        } else if (isalpha((unsigned char)*p) && t->n < TCC_MAX_RANK) {
            t->label[t->n++] = *p++;
        } else {
            return NULL;
        }
    }
    return p;
}

/* A label twice in one operand: only the diagonal counts. */
static bool take_diagonals(struct imp *im, struct term *t)
{
    for (int k = 0; k < t->n; k++) {
        for (int j = k + 1; j < t->n; j++) {
            if (t->label[j] != t->label[k])
                continue;
            struct ir_value *i = imp_iota(im, t->n, t->v->type->dim, k, TCC_I64),
                            *l = imp_iota(im, t->n, t->v->type->dim, j, TCC_I64);
            struct ir_value *on = imp_tri(im, IR_select, imp_bin(im, IR_eq, i, l), t->v, imp_like(im, t->v, 0));
            int64_t axis = j;
            t->v = imp_reduce(im, IR_reduce_sum, on, 1, &axis, false);
            if (!t->v)
                return false;
            memmove(t->label + j, t->label + j + 1, (size_t)(t->n - j - 1));
            t->n--;
            j--;
        }
    }
    return true;
}

/* Sums the labels away that nobody else wants. */
static bool sum_unwanted(struct imp *im, struct term *t, const char *wanted)
{
    int64_t axes[TCC_MAX_RANK];
    int n = 0, kept = 0;
    for (int k = 0; k < t->n; k++) {
        if (strchr(wanted, t->label[k]))
            t->label[kept++] = t->label[k];
        else
            axes[n++] = k;
    }
    t->n = kept;
    t->v = imp_reduce(im, IR_reduce_sum, t->v, n, axes, false);
    return t->v != NULL;
}

/* Brings `t` into the order of `labels` and merges them into groups of the given sizes: [batch..., group 1, group 2]. */
static struct ir_value *arrange(struct imp *im, const struct term *t, const char *labels, int batch, int first)
{
    int64_t perm[TCC_MAX_RANK];
    ir_expr dims[TCC_MAX_RANK];
    int n = (int)strlen(labels);
    for (int k = 0; k < n; k++)
        perm[k] = position(t, labels[k]);
    struct ir_value *v = imp_transpose(im, t->v, perm);
    if (!v)
        return NULL;
    for (int k = 0; k < batch; k++)
        dims[k] = imp_dim(v, k);
    dims[batch] = dims[batch + 1] = ir_const(im->ctx, 1);
    for (int k = batch; k < n; k++) {
        ir_expr *d = &dims[batch + (k >= batch + first)];
        *d = ir_mul(im->ctx, *d, imp_dim(v, k));
    }
    return imp_reshape(im, v, batch + 2, dims);
}

/* An ellipsis axis of 1 or missing in one operand broadcasts: give both operands all of them. */
static bool align_ellipsis(struct imp *im, struct term *t, const struct term *other)
{
    for (int k = 0; k < other->n; k++) {
        char label = other->label[k];
        if (!isdigit((unsigned char)label))
            continue;
        int at = position(t, label);
        ir_expr dims[TCC_MAX_RANK];
        if (at < 0) {
            int64_t axis = 0;
            if (t->n == TCC_MAX_RANK)
                return imp_unsupported(im, "more than %d labels", TCC_MAX_RANK);
            t->v = imp_unsqueeze(im, t->v, 1, &axis);
            memmove(t->label + 1, t->label, (size_t)t->n);
            t->label[0] = label;
            t->n++;
            at = 0;
        }
        if (!t->v)
            return false;
        if (!ir_is_value(imp_dim(t->v, at), 1) || imp_dim(other->v, k) == imp_dim(t->v, at))
            continue;
        memcpy(dims, t->v->type->dim, (size_t)t->n * sizeof *dims);
        dims[at] = imp_dim(other->v, k);
        t->v = imp_expand(im, t->v, t->n, dims);
    }
    return t->v != NULL;
}

static bool contract(struct imp *im, struct term *a, struct term *b, const char *wanted, struct term *out)
{
    char both[20 * LABELS], left[LABELS] = "", right[LABELS] = "", batch[LABELS] = "", inner[LABELS] = "";
    if (!align_ellipsis(im, a, b) || !align_ellipsis(im, b, a))
        return false;
    snprintf(both, sizeof both, "%s%.*s", wanted, b->n, b->label);
    if (!sum_unwanted(im, a, both))
        return false;
    snprintf(both, sizeof both, "%s%.*s", wanted, a->n, a->label);
    if (!sum_unwanted(im, b, both))
        return false;
    for (int k = 0; k < a->n; k++) {
        bool shared = position(b, a->label[k]) >= 0;
        char *list = !shared ? left : strchr(wanted, a->label[k]) ? batch : inner;
        strncat(list, &a->label[k], 1);
    }
    for (int k = 0; k < b->n; k++) {
        if (position(a, b->label[k]) < 0)
            strncat(right, &b->label[k], 1);
    }
    int nb = (int)strlen(batch), nl = (int)strlen(left), nr = (int)strlen(right), ni = (int)strlen(inner);
    if (nb + nl + nr > TCC_MAX_RANK || nb + 2 > TCC_MAX_RANK)
        return imp_unsupported(im, "more than %d labels", TCC_MAX_RANK);
    char order_a[LABELS * 3 + 1], order_b[LABELS * 3 + 1];
    snprintf(order_a, sizeof order_a, "%s%s%s", batch, left, inner);
    snprintf(order_b, sizeof order_b, "%s%s%s", batch, inner, right);
    ir_expr dims[TCC_MAX_RANK];
    for (int k = 0; k < nb + nl; k++)
        dims[k] = imp_dim(a->v, position(a, order_a[k]));
    for (int k = 0; k < nr; k++)
        dims[nb + nl + k] = imp_dim(b->v, position(b, right[k]));
    struct ir_value *y =
        imp_matmul(im, arrange(im, a, order_a, nb, nl), arrange(im, b, order_b, nb, ni), false, false, TCC_NONE);
    out->v = imp_reshape(im, y, nb + nl + nr, dims);
    snprintf(both, sizeof both, "%s%s%s", batch, left, right);
    out->n = nb + nl + nr;
    memcpy(out->label, both, (size_t)out->n);
    return out->v != NULL;
}

/* The right-hand side when it is not written: the ellipsis, then the labels that occur once, in alphabetical order. */
static void implied_output(const struct term *t, int n, struct term *out)
{
    out->n = 0;
    for (char c = '0'; c <= 'z'; c++) {
        int uses = 0;
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < t[k].n; j++)
                uses += t[k].label[j] == c;
        }
        if ((isdigit((unsigned char)c) ? uses > 0 : uses == 1) && out->n < TCC_MAX_RANK)
            out->label[out->n++] = c;
    }
}

bool onnx_op_einsum(struct imp *im, int arg)
{
    UNUSED(arg);
    const char *equation = imp_s(im, "equation", ""), *p = equation;
    int n = imp_nin(im);
    struct term *t = IR_NEWN(im->ctx, n + 1, struct term), out = {0};
    int ellipsis = 0;
    if (n < 1)
        return imp_bad(im, "no operands");
    for (int k = 0; k < n; k++) {
        if (!(t[k].v = imp_tensor(im, k)))
            return false;
        p = read_term(p, imp_rank(t[k].v), &t[k]);
        if (!p || t[k].n != imp_rank(t[k].v) || (*p == ',') != (k + 1 < n))
            return imp_bad(im, "equation '%s' does not fit operand %d, %s", equation, k,
                           ir_type_text(im->ctx, t[k].v->type));
        p += *p == ',';
        for (int j = 0, d = 0; j < t[k].n; j++) {
            d += isdigit((unsigned char)t[k].label[j]) != 0;
            ellipsis = d > ellipsis ? d : ellipsis;
        }
        if (!take_diagonals(im, &t[k]))
            return false;
    }
    if (!strncmp(p, "->", 2)) {
        int letters = 0;
        for (const char *q = p + 2; *q; q++)
            letters += isalpha((unsigned char)*q) != 0;
        p = read_term(p + 2, letters + ellipsis, &out);
        if (!p || *p)
            return imp_bad(im, "equation '%s': the right-hand side cannot be read", equation);
    } else {
        implied_output(t, n, &out);
    }
    char wanted[2 * LABELS * 8];
    for (int k = 1; k < n; k++) {
        /* What the rest of the operands and the result still want. */
        int used = snprintf(wanted, sizeof wanted, "%.*s", out.n, out.label);
        for (int j = k + 1; j < n && used < (int)sizeof wanted - TCC_MAX_RANK; j++)
            used += snprintf(wanted + used, sizeof wanted - (size_t)used, "%.*s", t[j].n, t[j].label);
        struct term next = {0};
        if (!contract(im, &t[0], &t[k], wanted, &next))
            return false;
        t[0] = next;
    }
    snprintf(wanted, sizeof wanted, "%.*s", out.n, out.label);
    if (!sum_unwanted(im, &t[0], wanted))
        return false;
    int64_t perm[TCC_MAX_RANK];
    for (int k = 0; k < out.n; k++) {
        perm[k] = position(&t[0], out.label[k]);
        if (perm[k] < 0)
            return imp_bad(im, "equation '%s': label '%c' of the result is in no operand", equation, out.label[k]);
    }
    if (out.n != t[0].n)
        return imp_bad(im, "equation '%s': a label twice in the result", equation);
    return imp_out(im, 0, imp_transpose(im, t[0].v, perm));
}
