/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roles.h - which parts a kernel's dims, instructions and stages play. Part of the door ir.h; do not include it by
 * itself.
 *
 * A kernel that a target runs specially has a FORM, and its roles say which of its dims are rows, which instruction is
 * the sum, which stage stores the result. Who builds the kernel writes them down (the passes of passes/kernel/); dumps
 * print them; targets read them, and none finds them out again from where things stand. A form is a row of KN_FORMS,
 * its roles are a list, out of which everything that goes over roles is made: the structs below, printer, parser,
 * renumbering.
 *
 * roles/ has a file for each form, which finds the roles from the kernel's structure. The verifier compares what it
 * finds with what is written; a text that names no roles gets those that are found. So roles follow from the rest of
 * the kernel, and two kernels that are the same but for them don't exist. What no builder can know, since fusion or a
 * chain made it, the pass `recognise` finds.
 *
 * All roles are numbers of the kernel's dims, instructions, stages or operands; -1: nobody plays that part. Sets of
 * dims have a bit each.
 */
#ifndef TCC_ROLES_H
#define TCC_ROLES_H

struct kn_kernel;
struct kn_insn;

enum kn_role_kind { KN_ROLE_DIM, KN_ROLE_DIMS, KN_ROLE_INSN, KN_ROLE_STAGE, KN_ROLE_OPERAND };

/* R(kind, name, [n]): n of them, side by side; empty: one. DIMS: a bit set. */

/* A contraction: its first stage is a sum of products of two loads, and nothing else is reduced there; no later stage
 * has inner dims. */
#define KN_CONTRACTION_ROLES(R)                                                                                       \
    R(INSN, factor, [2])    /* of the product: loads, or casts of them; the first is A's, the other B's */            \
    R(INSN, load, [2])                                                                                                \
    R(INSN, mul, )                                                                                                    \
    R(INSN, reduce, )                                                                                                 \
    R(DIMS, batch, )        /* in both factors and the result */                                                      \
    R(DIMS, m, )            /* in A only */                                                                           \
    R(DIMS, n, )            /* in B only */                                                                           \
    R(DIMS, k, )            /* summed */

/* A score: what the product of a query and a key becomes, which is weighed. */
#define KN_SCORE_ROLES(R)                                                                                             \
    R(INSN, scaled, )       /* the product, times the constant `scale` if there is one */                             \
    R(INSN, scale, )                                                                                                  \
    R(INSN, unmasked, )     /* and with a mask added, if there is one */                                              \
    R(INSN, compare, )      /* of causal attention, where positions differ: query >= key, else the score is -inf */   \
    R(INSN, query, )        /* the positions that it compares, as KN_EXPR */                                          \
    R(INSN, key, )                                                                                                    \
    R(INSN, score, )        /* all of it */

/* Attention, or (no mean, no last) its rows' logarithms alone: passes/kernel/attention.c draws the kernel. */
#define KN_ATTENTION_ROLES(R)                                                                                         \
    R(DIM, row, )           /* queries; none: there is one */                                                         \
    R(DIM, t, )             /* keys */                                                                                \
    R(DIM, d, )             /* what products of q and k are summed over */                                            \
    R(DIM, e, )             /* columns of v */                                                                        \
    R(INSN, val_q, )        /* factors: the loads below, or scalar ops of one operand of them */                      \
    R(INSN, val_k, )                                                                                                  \
    R(INSN, val_v, )                                                                                                  \
    R(INSN, load_q, )                                                                                                 \
    R(INSN, load_k, )                                                                                                 \
    R(INSN, load_v, )                                                                                                 \
    R(INSN, dot, )          /* reductions: the product, the row's largest score, the sum of its weights, the mean */  \
    R(INSN, top, )                                                                                                    \
    R(INSN, sum, )                                                                                                    \
    R(INSN, mean, )                                                                                                   \
    R(INSN, clamped, )      /* the largest score, bounded away from -inf */                                           \
    R(STAGE, last, )        /* stores the means */                                                                    \
    R(STAGE, lse, )         /* stores the rows' logarithms */

/*
 * A gradient of attention, of as many rows (queries, by k: keys) as the outer dim has, over columns (keys, by k:
 * queries). Weights are made of the products of two sides of rows, q and dy, with two of columns, k and v (by k: k and
 * v with q and dy), and the columns of a side are summed by them: the first side's by ds, the second's by p.
 */
#define KN_ATTENTION_GRAD_ROLES(R)                                                                                    \
    R(DIM, row, )           /* none: there is one */                                                                  \
    R(DIM, col, )                                                                                                     \
    R(DIM, d, )             /* what the first products are summed over, */                                            \
    R(DIM, e, )             /* and the second */                                                                      \
    R(INSN, val_row, [2])   /* factors of the two products */                                                         \
    R(INSN, val_col, [2])                                                                                             \
    R(INSN, load_row, [2])                                                                                            \
    R(INSN, load_col, [2])                                                                                            \
    R(INSN, dot, [2])       /* the products */                                                                        \
    R(INSN, less, )         /* score - lse */                                                                         \
    R(INSN, lse, )                                                                                                    \
    R(INSN, delta, )        /* what is taken off the second product */                                                \
    R(INSN, weight, [2])    /* ds = p (product - delta), and p, the exponential of score - lse */                     \
    R(INSN, sum, [2])       /* by ds, by p; none: not wanted */                                                       \
    R(STAGE, last, [2])     /* that store them */

/* A convolution in tiles, by Winograd: passes/kernel/winograd.c draws the kernel. */
#define KN_WINOGRAD_ROLES(R)                                                                                          \
    R(DIM, image, )                                                                                                   \
    R(DIM, tile, )          /* of an image, row by row */                                                             \
    R(DIM, out_block, )     /* channels are block * extent of the lane + lane */                                      \
    R(DIM, out_lane, )                                                                                                \
    R(DIM, in_block, )                                                                                                \
    R(DIM, in_lane, )                                                                                                 \
    R(DIM, frequency, )                                                                                               \
    R(DIM, filter, )        /* of a long one, which reads v of the tile so many further on; none: it is one */       \
    R(OPERAND, v, )         /* row buffers: of a tile's transformed elements, and of the sums of their products */    \
    R(OPERAND, m, )                                                                                                   \
    R(INSN, load_u, )       /* the transformed weights */                                                             \
    R(INSN, sum, )                                                                                                    \
    R(STAGE, take, )        /* transforms a tile's elements */                                                        \
    R(STAGE, give, )        /* transforms the sums back, and stores the results */

/* A scatter by rows: the points of its inner dims name rows of the result, each of which is updated in their order; the
 * outer dims are a row's. */
#define KN_SCATTER_ROLES(R)                                                                                           \
    R(OPERAND, result, )                                                                                              \
    R(INSN, index, [TCC_MAX_RANK])  /* the KN_INDEX that name the row, in the order of its number's digits */         \
    R(INSN, load, )         /* what the result has there; none: it is overwritten */                                  \
    R(INSN, update, )       /* what it is combined with, */                                                           \
    R(INSN, combine, )      /* and what comes of it, in the type in which that is computed */                         \
    R(INSN, store, )

/* Reductions along all inner dims, and what becomes of their results; no contraction with dims of one factor alone. */
enum { KN_MAX_REDUCTIONS = 4 };
#define KN_REDUCTION_ROLES(R) R(INSN, reduce, [KN_MAX_REDUCTIONS])

/* A row's largest element and, in a later stage, the sum of exp(x - largest), as a softmax has them. */
#define KN_SOFTMAX_ROLES(R)                                                                                           \
    R(DIM, along, )         /* of the row */                                                                          \
    R(INSN, load, )         /* x, as it is loaded for the largest element, */                                         \
    R(INSN, cast, )         /* and as float32: the load, or a cast of it */                                           \
    R(INSN, top, )          /* reductions */                                                                          \
    R(INSN, sum, )

#define KN_ROLE_TYPE_DIM int
#define KN_ROLE_TYPE_DIMS uint32_t
#define KN_ROLE_TYPE_INSN int
#define KN_ROLE_TYPE_STAGE int
#define KN_ROLE_TYPE_OPERAND int
#define KN_ROLE_MEMBER(kind, name, n) KN_ROLE_TYPE_##kind name n;
struct kn_contraction { KN_CONTRACTION_ROLES(KN_ROLE_MEMBER) };
struct kn_score { KN_SCORE_ROLES(KN_ROLE_MEMBER) };
struct kn_attention { struct kn_score is; KN_ATTENTION_ROLES(KN_ROLE_MEMBER) };
struct kn_attention_grad { struct kn_score is; KN_ATTENTION_GRAD_ROLES(KN_ROLE_MEMBER) };
struct kn_winograd { KN_WINOGRAD_ROLES(KN_ROLE_MEMBER) };
struct kn_scatter { KN_SCATTER_ROLES(KN_ROLE_MEMBER) };
struct kn_reduction { KN_REDUCTION_ROLES(KN_ROLE_MEMBER) };
struct kn_softmax { KN_SOFTMAX_ROLES(KN_ROLE_MEMBER) };
#undef KN_ROLE_MEMBER

enum kn_form {
    KN_NO_FORM, KN_CONTRACTION, KN_ATTENTION, KN_ATTENTION_GRAD, KN_WINOGRAD, KN_SCATTER, KN_REDUCTION, KN_SOFTMAX,
    KN_NFORMS
};
struct kn_roles {
    enum kn_form form;
    union {                          /* by form */
        struct kn_contraction contraction;
        struct kn_attention attention;
        struct kn_attention_grad attention_grad;
        struct kn_winograd winograd;
        struct kn_scatter scatter;
        struct kn_reduction reduction;
        struct kn_softmax softmax;
    };
};

/* That form, nobody playing any part yet. */
struct kn_roles kn_roles_of(enum kn_form form);
/* The roles that a kernel of that form has by its structure, whatever is written down; false: it is none. */
bool kn_find_form(const struct kn_kernel *k, enum kn_form form, struct kn_roles *r);
/* The same of the first form of which it is; false: it has none. */
bool kn_find_roles(const struct kn_kernel *k, struct kn_roles *r);
/* Has the kernel no form, or the roles that are written down? */
bool kn_roles_hold(const struct kn_kernel *k);
/* After instructions, stages and operands have got other numbers: the new ones by the old. */
void kn_renumber_roles(struct kn_roles *r, const int *insn, const int *stage, const int *operand);
/* After that dim, instruction or operand has gone (KN_ROLE_DIM, _INSN, _OPERAND): those behind it count one less. */
void kn_leave_roles(struct kn_roles *r, enum kn_role_kind kind, int number);
/* Is any part of that form played by dims? */
bool kn_names_dims(enum kn_form form);

/* Is it a contraction of which results run along dims of one factor alone? */
bool kn_is_product(const struct kn_kernel *k);
/* A contraction along whose sum nothing else is stored or bound; nothing is repeated, and there are no row buffers. */
bool kn_only_multiplies(const struct kn_kernel *k);

/* The stage that an instruction stands in; -1: none. */
int kn_stage_of(const struct kn_kernel *k, int insn);
/* The stage in which a contraction or a reduction sums, and a scatter updates; what is made of it stands behind. */
const struct kn_stage *kn_main_stage(const struct kn_kernel *k);
/* Does an index of the load or store run along the variable? */
bool kn_runs_along(const struct kn_insn *n, ir_expr var);
/* The score is the product times that positive number, and nothing else but the causal mask. */
bool kn_is_plain_score(const struct kn_kernel *k, const struct kn_score *s);
double kn_scale_of(const struct kn_kernel *k, const struct kn_score *s);
/* Columns along dim `col` that a row may look at are those below *to, or from *from on; NULL: no such bound. */
void kn_visible(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_score *s, int col, ir_expr *from,
                ir_expr *to);

#endif
