/* SPDX-License-Identifier: Apache-2.0 */
/* ir_int.h - what the files of ir/ share: the context, hash sets, the op table's extra columns. */
#ifndef TCC_IR_INT_H
#define TCC_IR_INT_H

#include "ir/ir.h"

/* A set of pointers with their hashes, open addressing. Memory is the arena's, or from malloc where that is NULL (the
 * context's own sets). */
struct ir_set {
    struct ir_arena *arena;
    void **at;
    uint64_t *hash;
    uint32_t n, cap;
};
/* First slot from *pos on whose hash is `hash`; NULL at an empty one. Start with *pos = UINT32_MAX. */
void *ir_set_next(const struct ir_set *set, uint64_t hash, uint32_t *pos);
void ir_set_add(struct ir_ctx *ctx, struct ir_set *set, uint64_t hash, void *p);
void ir_set_free(struct ir_set *set);

static inline uint64_t ir_hash_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}
uint64_t ir_hash_bytes(const void *data, size_t size);

struct ir_chunk;
struct ir_arena {
    struct ir_ctx *ctx;
    struct ir_chunk *chunks;
    struct ir_arena *next, **prev; /* the context's list */
};

struct ir_ctx {
    struct ir_arena own;
    struct ir_arena *arenas;
    struct ir_protect *protect;
    struct ir_set strings, exprs, types, layouts;
    char *pending_text; /* of ir_text_of, while it is interned */
    uint32_t nexprs, ntypes;
    uint32_t fresh;
    bool parsing;      /* level 2's verifiers report errors of the text, not bugs */
    int expr_depth;    /* how deep simplification has called itself */
    ir_expr small[64]; /* constants 0..63 */

    struct ir_message *messages;
    int nmessages, cap_messages, nerrors;
    ir_diag_handler handler;
    void *handler_user;
    void (*assume)(void *user, const struct ir_fact *f); /* of ir_assumptions, while it infers */
    void *assume_user;
    char *capture; /* where messages go instead, when set (verifier) */
    size_t capture_size;
    struct ir_attempt *attempt; /* the innermost one */
    bool quiet; /* messages are dropped */
    bool verbose; /* details are told */
    const char *files; /* folder of those that a text may name; NULL: none */
    struct ir_life *life;
    const char *hang;     /* of ir_hang */

    VEC(struct ir_module *) modules; /* whose tensors are released at the end */
    VEC(const struct ir_tensor *) kept;
    struct ir_custom *customs;
};

void ir_release_modules(struct ir_ctx *ctx); /* lets go of the tensors that its modules hold */

/* -- Expressions (expr.c, expr_div.c) -- */
struct ir_term {
    ir_expr mono;
    int64_t coef;
}; /* mono NULL: the constant term */
#define IR_MAX_TERMS 64
struct ir_poly {
    int n;
    struct ir_term at[IR_MAX_TERMS];
};

int ir_expr_cmp(ir_expr a, ir_expr b); /* structural order, the same in every context */
ir_expr ir_expr_raw(struct ir_ctx *ctx, enum ir_expr_kind kind, int n, const ir_expr *arg, int64_t lo, int64_t hi);
bool ir_poly_of(struct ir_poly *p, ir_expr e); /* false: too many terms or overflow */
ir_expr ir_poly_expr(struct ir_ctx *ctx, struct ir_poly *p);
bool ir_poly_add(struct ir_poly *p, ir_expr mono, int64_t coef);
bool ir_poly_add_scaled(struct ir_poly *p, const struct ir_poly *q, int64_t k);
/* p += k * mono * e; false: too many terms or overflow, and p is no more of use */
bool ir_poly_add_product(struct ir_ctx *ctx, struct ir_poly *p, ir_expr mono, ir_expr e, int64_t k);
ir_expr ir_poly_sum(struct ir_ctx *ctx, const struct ir_poly *p);        /* its expression; p is kept */
bool ir_poly_recompose(struct ir_ctx *ctx, struct ir_poly *p); /* one `mod` as its definition, if that is shorter */
/* The atoms of a monomial, how many: none of NULL (1). They stay as long as it and `mono` do. */
static inline int ir_mono_factors(ir_expr const *mono, const ir_expr **atoms)
{
    bool product = *mono && (*mono)->kind == IR_X_MUL;
    *atoms = product ? (*mono)->arg : mono;
    return product ? (*mono)->nargs : *mono != NULL;
}
ir_expr ir_mono_div(struct ir_ctx *ctx, ir_expr a, ir_expr b, bool *ok); /* a / b as monomials; NULL result: 1 */
void ir_poly_bounds(const struct ir_poly *p, int64_t *lo, int64_t *hi);
/* Bounds of sums and products, where INT64_MIN and INT64_MAX are -inf and +inf: of lower bounds -inf wins, of upper
 * ones (ir_sat_add_hi) +inf. */
int64_t ir_sat_add(int64_t a, int64_t b);
int64_t ir_sat_add_hi(int64_t a, int64_t b);
int64_t ir_sat_mul(int64_t a, int64_t b);
void ir_mul_bounds(int64_t *lo, int64_t *hi, int64_t blo, int64_t bhi);
/* Replaces a floordiv in a term by what it is at least, times its coefficient; false: there is none for which that can
 * be done. */
bool ir_settle_division(struct ir_ctx *ctx, struct ir_poly *p);
int64_t ir_lower_bound(struct ir_ctx *ctx, ir_expr e); /* also through extents of iteration variables */
/* An expression that is evaluated at every point of a loop: where its symbols' values lie is asked once.
 * ir_eval_formula() is ir_eval() of it. */
struct ir_formula {
    const int64_t *at; /* of a constant or symbol, its value; NULL: of an operation, or an unknown symbol */
    int64_t value;
    uint8_t kind;
    uint16_t nargs;
    const struct ir_formula *arg;
};
int ir_count_formula(ir_expr e);
/* Makes `node` of e, and what is in e from `next` on, ir_count_formula(e) - 1 of them; returns what is free behind
 * them. */
struct ir_formula *ir_fill_formula(struct ir_formula *node, struct ir_formula *next, ir_expr e,
                                   const int64_t *(*where)(void *user, ir_expr sym), void *user);
bool ir_eval_inner(const struct ir_formula *n, int64_t *out);
static inline bool ir_eval_formula(const struct ir_formula *n, int64_t *out)
{
    if (!n->at)
        return ir_eval_inner(n, out);
    *out = *n->at;
    return true;
}
/* a sum with iteration variables at those ends of their ranges, none of them empty, where it is least; those whose sign
 * can't be told stay */
ir_expr ir_least(struct ir_ctx *ctx, ir_expr e);
ir_expr ir_iter_named(struct ir_ctx *ctx, const char *name, ir_expr extent);

#define IR_MAX_EXPR_DEPTH 40
#define IR_SYM_HI ((int64_t)1 << 40)

/* -- Op table (op.c) -- */
bool ir_operand_optional(enum ir_op op, int i); /* may operand i be NULL? */
bool ir_attr_allowed(enum ir_op op, enum ir_attr_key key);
enum ir_attr_kind ir_attr_key_kind(enum ir_attr_key key);
const char *ir_attr_kind_name(enum ir_attr_kind kind); /* int, float, ints... */
enum ir_attr_key ir_attr_by_name(const char *name);    /* IR_ATTR_NONE: unknown */

/* -- Graph (graph.c, attr.c) -- */
static inline struct ir_ctx *ir_node_ctx(const struct ir_node *n)
{
    return n->block->func->module->ctx;
}
struct ir_attr ir_attr_copy(struct ir_ctx *ctx,
                            const struct ir_attr *a); /* payload in the context; a tensor gets a reference */
bool ir_infer_node(struct ir_ctx *ctx, struct ir_node *n); /* checks arity, then the op's hook */
void ir_assume(struct ir_ctx *ctx, const struct ir_fact *f); /* while ir_assumptions() infers: a fact of the node */

/* -- Order (interp/sort.c) -- */
/* An element of a row, as f or i, and where it stood. Sorted ascending or, if `largest`, descending; NaN is the
 * largest, of equals the lower index comes first. */
struct ir_ranked {
    double f;
    int64_t i, index, from; /* from: the caller's */
};
void ir_rank(struct ir_ranked *row, int64_t n, enum tcc_dtype d, bool is_float, bool largest);

/* -- Text (text.c) -- */
/* What print writes, interned. */
const char *ir_text_of(struct ir_ctx *ctx, void (*print)(FILE *out, const void *what), const void *what);
bool ir_is_identifier(const char *s);                       /* letter or _, then letters, digits, _ and . */
void ir_print_string(FILE *out, const char *s);             /* quoted, with escapes */
void ir_print_global(FILE *out, const char *name);         /* @name or @"name" */
void ir_print_tensor(FILE *out, const struct ir_tensor *t); /* type and data */
void ir_print_attr(FILE *out, const struct ir_attr *a);     /* key = value */
void ir_print_double(FILE *out, double v);                  /* shortest text that reads back the same */
/* Symbols met in types and attributes, each once, in order of appearance; iteration variables are left out. */
struct ir_syms {
    struct ir_ctx *ctx;
    VEC(ir_expr) v;
    struct ir_set seen;
};
/* version.c: eq, ne, le, broadcast; what is wrong with f's version, NULL: nothing. */
const char *ir_guard_word(enum tcc_guard op);
const char *ir_version_error(struct ir_ctx *ctx, const struct ir_func *f);
/* What is wrong with a function's versions of state variables (NULL: nothing), and where (NULL: in its inputs). */
const char *ir_state_error(const struct ir_func *f, const struct ir_node **node);
void ir_collect_syms(struct ir_syms *s, ir_expr e);
void ir_collect_type_syms(struct ir_syms *s, ir_type t);
void ir_print_syms(
    FILE *out,
    struct ir_syms *s); /* sorts; `sym` lines for those with other bounds than a new one's; frees its arena */

/* -- Verifier (verify.c) -- */
/* What a verifier finds is the input's fault (IR_D_ERROR) or a pass's (IR_D_BUG: "invalid IR: ..."). */
bool ir_verify_as(const struct ir_module *m, enum ir_diag_kind kind);
void ir_invalid(struct ir_ctx *ctx, const struct ir_where *where, enum ir_diag_kind kind, const char *text);

/* interp/control.c: the value that a variable of type i64[] has; state NULL: 0. */
int64_t it_position(const struct ir_interp_state *s, const struct ir_state *v);

/* beside.c: where the tensor lies in the file beside the text that is being printed, and that file's path; NULL: it
 * belongs in the text. */
const char *ir_beside_range(const struct ir_tensor *t, uint64_t *at);

#endif
