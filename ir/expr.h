/* SPDX-License-Identifier: Apache-2.0 */
/* expr.h - integer arithmetic over named symbols: dims, offsets, access maps. A part of ir.h, which includes it. */
#ifndef TCC_IR_EXPR_H
#define TCC_IR_EXPR_H

#include "ir/context.h"

/* Hash-consed and canonical when built (sums of products in a fixed order, constants last):
 * equal pointers are equal expressions; different pointers may still be equal. Division and
 * modulus floor; the divisor must be positive. Dims are expressions with values >= 0. Level-2
 * iteration variables are symbols with an extent: 0 <= v < extent, which lets
 * (i*8 + j) floordiv 8 become i when j's extent is 8. */
enum ir_expr_kind { IR_X_CONST, IR_X_SYM, IR_X_ADD, IR_X_MUL, IR_X_FLOORDIV, IR_X_MOD, IR_X_MIN, IR_X_MAX };

typedef const struct ir_expr_node *ir_expr;
struct ir_expr_node {
    uint8_t kind;
    uint16_t nargs;          /* ADD, MUL: 2 or more; FLOORDIV, MOD, MIN, MAX: 2 */
    uint32_t id;             /* dense in the context */
    int64_t value;           /* CONST */
    const char *name;        /* SYM */
    /* SYM: its name in a run's messages, where several symbols have one (ir_fresh_as); else NULL */
    const char *said;
    ir_expr extent;          /* SYM: iteration variable's extent, else NULL */
    int64_t lo, hi;          /* proven bounds, inclusive; INT64_MIN/MAX: none */
    ir_expr arg[];
};

ir_expr ir_const(struct ir_ctx *ctx, int64_t value);
/* same name, same symbol; bounds 0 .. 2^40 when new */
ir_expr ir_sym(struct ir_ctx *ctx, const char *name);
/* narrows the bounds of a symbol when it is made */
ir_expr ir_sym_bounded(struct ir_ctx *ctx, const char *name, int64_t lo, int64_t hi);
ir_expr ir_sym_find(struct ir_ctx *ctx, const char *name);                             /* NULL: no such symbol yet */
/* a name nobody has: prefix, number */
ir_expr ir_fresh(struct ir_ctx *ctx, const char *prefix, int64_t lo, int64_t hi);
/* A size that only the run knows, named as users know it ("scores.0", "shape[1]"); where a symbol has that name,
 * another one that is said alike. */
ir_expr ir_fresh_as(struct ir_ctx *ctx, const char *name, int64_t lo, int64_t hi);
const char *ir_sym_said(ir_expr sym);
ir_expr ir_iter(struct ir_ctx *ctx, const char *prefix, ir_expr extent);               /* a fresh iteration variable */
/* the one for a kernel's dim there; equal arguments, same variable */
ir_expr ir_iter_at(struct ir_ctx *ctx, int position, ir_expr extent);
ir_expr ir_add(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_sub(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_mul(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_floordiv(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_ceildiv(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_mod(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_min(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_max(struct ir_ctx *ctx, ir_expr a, ir_expr b);
ir_expr ir_addc(struct ir_ctx *ctx, ir_expr a, int64_t c);
ir_expr ir_mulc(struct ir_ctx *ctx, ir_expr a, int64_t c);

bool ir_is_const(ir_expr e, int64_t *value);       /* value may be NULL */
int64_t ir_const_or(ir_expr e, int64_t otherwise);
bool ir_is_value(ir_expr e, int64_t value);        /* is it that constant? */
enum ir_tri { IR_NO, IR_YES, IR_MAYBE };
enum ir_tri ir_expr_eq(struct ir_ctx *ctx, ir_expr a, ir_expr b);
/* YES: for all values of the symbols; NO: for none */
enum ir_tri ir_expr_le(struct ir_ctx *ctx, ir_expr a, ir_expr b);
/* from[i], wherever it stands in e, becomes to[i], which is left as it is. from: symbols, or expressions as they were
 * built. */
ir_expr ir_subst(struct ir_ctx *ctx, ir_expr e, int n, const ir_expr *from, const ir_expr *to);
ir_expr ir_rebuild(struct ir_ctx *ctx, ir_expr e, const ir_expr *arg);      /* the same of other operands */
/* Values of symbols by callback; false if one is unknown, or on overflow or division by zero. */
typedef bool (*ir_value_of)(void *user, ir_expr sym, int64_t *out);
bool ir_eval(ir_expr e, ir_value_of value, void *user, int64_t *out);
/* Of an element of a tensor (`dims`, KN_EXPR) rather than a size: integers wrap. */
bool ir_eval_data(ir_expr e, ir_value_of value, void *user, int64_t *out);
bool ir_uses_sym(ir_expr e, ir_expr sym);
/* Visits a symbol as often as it occurs. */
void ir_each_sym(ir_expr e, void (*visit)(void *user, ir_expr sym), void *user);
/* e = coefficient * sym + rest, neither holding sym? Coefficient may be symbolic. */
bool ir_linear_in(struct ir_ctx *ctx, ir_expr e, ir_expr sym, ir_expr *coefficient, ir_expr *rest);
void ir_print_expr(FILE *out, ir_expr e);
const char *ir_expr_text(struct ir_ctx *ctx, ir_expr e);
const char *ir_expr_said(struct ir_ctx *ctx, ir_expr e);   /* as messages of a run have it: without quotes */

#endif
