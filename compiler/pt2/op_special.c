/* SPDX-License-Identifier: Apache-2.0 */
/* op_special.c - special functions (torch.special, lgamma and its relatives): a library op, which works them out in
 * doubles. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>

static const char *const functions[] = {
#define SPECIAL1(name, function, meaning) #name,
#define SPECIAL2(name, function, meaning) #name,
#include "runtime/libop/special.def"
};

static bool special(struct pt2 *p, const char *function, struct ir_value *x, struct ir_value *y)
{
    struct ir_value *in[] = {x, y};
    struct ir_attr name = imp_user_text(p->im, "function", function);
    struct ir_node *n = x ? imp_lib_of(p->im, "special", y ? 2 : 1, in, 1, &x->type, 1, &name) : NULL;
    return n && pt2_out(p, 0, n->out[0]);
}

/* The type in which it is computed: the result's. Whole numbers give the default float type. */
static struct ir_value *as_result(struct pt2 *p, struct ir_value *x)
{
    enum tcc_dtype d = pt2_out_type(p, 0);
    return x ? imp_cast(p->im, x, tcc_is_float(d) ? d : TCC_F32) : NULL;
}

bool aten_special(struct pt2 *p)
{
    struct ir_value *x = as_result(p, pt2_need(p, pt2_given(p, "x") ? "x" : "self"));
    return special(p, functions[p->row->arg], x, NULL);
}

/* Of two operands, which broadcast; either may be a number. */
bool aten_special_pair(struct pt2 *p)
{
    bool number;
    struct ir_value *x = as_result(p, pt2_operand(p, "self", &number)),
                    *y = as_result(p, pt2_operand(p, "other", &number)),
                    *both = x && y ? imp_bin(p->im, IR_add, x, y) : NULL;
    struct ir_value *expand_as = pt2_expand_as(p, y, both);
    return special(p, functions[p->row->arg], pt2_expand_as(p, x, both), expand_as);
}

/* special_ndtr: the normal distribution's function */
bool aten_ndtr(struct pt2 *p)
{
    struct ir_value *x = as_result(p, pt2_need(p, "self"));
    x = x ? imp_erfc(p->im, imp_with(p->im, IR_mul, imp_wide(p->im, x), -M_SQRT1_2)) : NULL;
    return pt2_out(p, 0, imp_with(p->im, IR_mul, x, 0.5));
}

/* mvlgamma(self, p): the sum of lgamma(x - j / 2), j below p, and p (p - 1) / 4 log(pi) */
bool aten_mvlgamma(struct pt2 *p)
{
    struct ir_value *x = as_result(p, pt2_need(p, "self")), *sum = NULL;
    int64_t n = pt2_i(p, "p", 1);
    if (!x || n < 1 || n > 64)
        return x && imp_unsupported(p->im, "p = %lld", (long long)n);
    struct ir_attr name = imp_user_text(p->im, "function", "lgamma");
    for (int64_t j = 0; j < n; j++) {
        struct ir_value *at = imp_with(p->im, IR_sub, x, (double)j / 2);
        struct ir_node *node = at ? imp_lib_of(p->im, "special", 1, &at, 1, &at->type, 1, &name) : NULL;
        if (!node)
            return false;
        sum = j ? imp_bin(p->im, IR_add, sum, node->out[0]) : node->out[0];
    }
    return pt2_out(p, 0, imp_with(p->im, IR_add, sum, (double)(n * (n - 1)) / 4 * log(M_PI)));
}

/* polygamma(n, x) */
bool aten_polygamma(struct pt2 *p)
{
    struct ir_value *x = as_result(p, pt2_need(p, "self"));
    return x && special(p, functions[p->row->arg],
                        imp_splat(p->im, imp_dtype(x), (double)pt2_i(p, "n", 0), imp_rank(x), x->type->dim), x);
}
