/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum: operands are contracted from left to right, each step as one batched matrix product. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LABELS 80          /* letters and axes of '...' */
#define FIRST_ELLIPSIS '0' /* the axes of '...': as many characters as there may be axes, in front of all letters */
#define LAST_ELLIPSIS (FIRST_ELLIPSIS + TCC_MAX_RANK - 1)

static bool is_ellipsis(char label)
{
    return label >= FIRST_ELLIPSIS && label <= LAST_ELLIPSIS;
}

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

/* Reads one operand's labels; '...' becomes the digits (and what follows them) that stand for the broadcast axes,
 * right-aligned. */
static const char *read_term(const char *p, int rank, struct term *t)
{
    int letters = 0;
    bool ellipsis = false;
    for (const char *q = p; *q && *q != ',' && *q != '-'; q++)
        letters += isalpha((unsigned char)*q) != 0;
    t->n = 0;
    while (*p && *p != ',' && *p != '-') {
        if (isspace((unsigned char)*p)) {
            p++;
        } else if (!strncmp(p, "...", 3) && !ellipsis) {
            for (int k = rank - letters; k > 0 && t->n < TCC_MAX_RANK; k--)
                t->label[t->n++] = (char)(LAST_ELLIPSIS - k + 1);
            ellipsis = true;
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
static bool take_diagonal(struct imp *im, struct term *t, int first, int second)
{
    ir_expr dims[TCC_MAX_RANK];
    memcpy(dims, t->v->type->dim, (size_t)t->n * sizeof *dims);
    if (ir_expr_eq(im->ctx, dims[first], dims[second]) == IR_NO)
        return imp_bad(im, "label '%c' stands for axes of different sizes in an operand of %s", t->label[first],
                       ir_type_text(im->ctx, t->v->type));
    dims[second] = dims[first];
    t->v = imp_expand(im, t->v, t->n, dims);
    struct ir_value *i = imp_iota(im, t->n, dims, first, TCC_I64), *l = imp_iota(im, t->n, dims, second, TCC_I64);
    struct ir_value *zero = imp_like(im, t->v, 0);
    struct ir_value *on = imp_select(im, imp_bin(im, IR_eq, i, l), t->v, zero);
    int64_t axis = second;
    t->v = imp_reduce(im, IR_reduce_sum, on, 1, &axis, false);
    memmove(t->label + second, t->label + second + 1, (size_t)(t->n - second - 1));
    t->n--;
    return t->v != NULL;
}

static bool take_diagonals(struct imp *im, struct term *t)
{
    for (int k = 0; k < t->n; k++) {
        for (int j = k + 1; j < t->n; j++) {
            if (t->label[j] == t->label[k] && !take_diagonal(im, t, k, j--))
                return false;
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

/* Brings `t` into the order of `labels` and merges them into groups of the given sizes: [batch..., group 1, group
 * 2]. */
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

/* The size of a label: that of all operands that have it, but for 1s, which broadcast. NULL after a message. */
static ir_expr size_of(struct imp *im, const struct term *t, int n, char label)
{
    ir_expr size = ir_const(im->ctx, 1);
    for (int k = 0; k < n; k++) {
        int at = position(&t[k], label);
        if (at < 0)
            continue;
        ir_expr own = imp_dim(t[k].v, at);
        enum imp_joining how = imp_joining(im, size, own);
        size = how == IMP_EITHER ? imp_join(im, size, own) : ir_is_value(size, 1) ? own : size;
        if (!size)
            return NULL;
        if (!ir_is_value(own, 1) && ir_expr_eq(im->ctx, size, own) == IR_NO)
            return imp_bad(im, "label '%c' has the sizes %s and %s", label, ir_expr_text(im->ctx, size),
                           ir_expr_text(im->ctx, own)),
                   NULL;
    }
    return size;
}

/* Gives each axis the size of its label, and takes away those of one element where others have more: every element
 * there is the same. */
static bool fit_term(struct imp *im, struct term *all, int n, struct term *t)
{
    ir_expr dims[TCC_MAX_RANK];
    int64_t ones[TCC_MAX_RANK];
    int dropped = 0, kept = 0;
    for (int k = 0; k < t->n; k++) {
        bool either = !ir_is_value(imp_dim(t->v, k), 1) && !ir_is_const(imp_dim(t->v, k), NULL);
        if (!(dims[k] = size_of(im, all, n, t->label[k])))
            return false;
        if (either && imp_joining(im, dims[k], imp_dim(t->v, k)) == IMP_EITHER)
            t->v = imp_widen(im, t->v, k, dims[k]);
        if (!t->v)
            return false;
    }
    for (int k = 0; k < t->n; k++) {
        if (ir_is_value(imp_dim(t->v, k), 1) && !ir_is_value(dims[k], 1)) {
            ones[dropped++] = k;
            continue;
        }
        t->label[kept] = t->label[k];
        dims[kept++] = dims[k];
    }
    t->n = kept;
    t->v = imp_expand(im, imp_squeeze(im, t->v, dropped, ones), kept, dims);
    return t->v != NULL;
}

static bool contract(struct imp *im, struct term *a, struct term *b, const char *wanted, struct term *out)
{
    char both[3 * LABELS], left[LABELS] = "", right[LABELS] = "", batch[LABELS] = "", inner[LABELS] = "";
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
    struct ir_value *arrange_order_b = arrange(im, b, order_b, nb, ni);
    struct ir_value *y = imp_matmul(im, arrange(im, a, order_a, nb, nl), arrange_order_b, false, false, TCC_NONE);
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
    for (char c = FIRST_ELLIPSIS; c <= 'z'; c++) {
        int uses = 0;
        for (int k = 0; k < n; k++) {
            for (int j = 0; j < t[k].n; j++)
                uses += t[k].label[j] == c;
        }
        if ((is_ellipsis(c) ? uses > 0 : uses == 1) && out->n < TCC_MAX_RANK)
            out->label[out->n++] = c;
    }
}

/* The right-hand side behind "->": every label in an operand, none twice, and the ellipsis where an operand has one. */
static bool read_output(struct imp *im, const char *equation, const char *p, const struct term *t, int n,
                        struct term *out)
{
    int letters = 0, ellipsis = 0;
    for (int k = 0; k < n; k++) {
        int d = 0;
        for (int j = 0; j < t[k].n; j++)
            d += is_ellipsis(t[k].label[j]);
        ellipsis = d > ellipsis ? d : ellipsis;
    }
    for (const char *q = p; *q; q++)
        letters += isalpha((unsigned char)*q) != 0;
    p = read_term(p, letters + ellipsis, out);
    if (!p || *p)
        return imp_bad(im, "equation '%s': the right-hand side cannot be read", equation);
    for (int k = 0; k < out->n; k++) {
        bool known = false;
        for (int j = 0; j < n; j++)
            known |= position(&t[j], out->label[k]) >= 0;
        if (!known)
            return imp_bad(im, "equation '%s': label '%c' of the result is in no operand", equation, out->label[k]);
        if (position(out, out->label[k]) != k)
            return imp_bad(im, "equation '%s': a label twice in the result", equation);
    }
    if (out->n - letters != ellipsis)
        return imp_bad(im, "equation '%s': an operand has axes of '...', the result has none", equation);
    return true;
}

static bool read_equation(struct imp *im, const char *equation, struct term *t, int n, struct term *out)
{
    const char *p = equation;
    for (int k = 0; k < n; k++) {
        p = read_term(p, imp_rank(t[k].v), &t[k]);
        if (!p || t[k].n != imp_rank(t[k].v) || (*p == ',') != (k + 1 < n))
            return imp_bad(im, "equation '%s' does not fit operand %d, %s", equation, k,
                           ir_type_text(im->ctx, t[k].v->type));
        p += *p == ',';
    }
    if (!strncmp(p, "->", 2))
        return read_output(im, equation, p + 2, t, n, out);
    implied_output(t, n, out);
    return !*p || imp_bad(im, "equation '%s' cannot be read", equation);
}

/* Adds a term's labels to a list, once each. */
static void add_labels(char *list, const struct term *t)
{
    for (int k = 0; k < t->n; k++)
        if (!strchr(list, t->label[k]))
            strncat(list, &t->label[k], 1);
}

struct ir_value *imp_einsum(struct imp *im, const char *equation, int n, struct ir_value *const *in)
{
    struct term *t = IR_NEWN(im->ctx, n + 1, struct term), out = {0};
    for (int k = 0; k < n; k++)
        if (!(t[k].v = in[k]))
            return NULL;
    if (!read_equation(im, equation, t, n, &out))
        return NULL;
    for (int k = 0; k < n; k++)
        if (!take_diagonals(im, &t[k]))
            return NULL;
    struct term *whole = IR_NEWN(im->ctx, n, struct term);
    memcpy(whole, t, (size_t)n * sizeof *t);
    for (int k = 0; k < n; k++)
        if (!fit_term(im, whole, n, &t[k]))
            return NULL;
    char wanted[LABELS];
    for (int k = 1; k < n; k++) {
        /* What the result and the rest of the operands still want. */
        wanted[0] = 0;
        add_labels(wanted, &out);
        for (int j = k + 1; j < n; j++)
            add_labels(wanted, &t[j]);
        struct term next = {0};
        if (!contract(im, &t[0], &t[k], wanted, &next))
            return NULL;
        t[0] = next;
    }
    wanted[0] = 0;
    add_labels(wanted, &out);
    if (!sum_unwanted(im, &t[0], wanted))
        return NULL;
    int64_t perm[TCC_MAX_RANK];
    for (int k = 0; k < out.n; k++)
        perm[k] = position(&t[0], out.label[k]);
    return imp_transpose(im, t[0].v, perm);
}
