/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_verify.c - checks a kernel: dims and operands are well-formed, stages cover the instructions, every value,
 * symbol and temporary is made before it is used and is visible there, types fit the scalar ops, accesses can stay
 * inside.
 */

#include "base/format.h"
#include "ir/roles/roles_int.h"
#include "ir/text/kernel_words_int.h"
#include "ir/scalar_int.h"

struct checker {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    int insn; /* being checked; -1: none */
    int stage;
    bool ok;
};

static bool bad(struct checker *c, const char *format, ...)
{
    FORMATTED(text, 512, format);
    const char *line = c->insn < 0
                           ? ir_internf(c->ctx, "kernel %s: %s", c->k->name ? c->k->name : "", text)
                           : ir_internf(c->ctx, "kernel %s: %%%d: %s", c->k->name ? c->k->name : "", c->insn, text);
    ir_invalid(c->ctx, NULL, c->ctx->parsing ? IR_D_ERROR : IR_D_BUG, line);
    c->ok = false;
    return false;
}

static bool second_phase(const struct kn_kernel *k, int stage)
{
    return k->split.combine && stage >= k->split.combine;
}

/* May the value of an earlier instruction be used in the stage being checked? */
static bool visible(const struct checker *c, int insn)
{
    const struct kn_insn *n = &c->k->insns[insn];
    int s = kn_stage_of(c->k, insn);
    bool folds = n->code == KN_REDUCE || n->code == KN_ARGREDUCE;
    if (s == c->stage)
        return insn < c->insn && !folds;
    if (second_phase(c->k, s) != second_phase(c->k, c->stage))
        return false;
    uint32_t repeat = c->k->stages[s].repeat;
    for (int i = s; i < c->stage && repeat; i++)
        if (c->k->stages[i + 1].repeat != repeat)
            return false;
    return s < c->stage && (folds || c->k->stages[s].inner == 0);
}

/* == Expressions == */

struct scope {
    struct checker *c;
    ir_expr unknown;
};

static void check_sym(void *user, ir_expr sym)
{
    struct scope *s = user;
    const struct kn_kernel *k = s->c->k;
    for (int d = 0; d < k->ndims; d++) {
        if (k->dims[d].var != sym)
            continue;
        int stage = s->c->stage;
        bool here =
            stage >= 0 && (k->dims[d].role == KN_OUTER || (k->dims[d].role == KN_PIECES && !second_phase(k, stage)) ||
                           ((k->stages[stage].inner | k->stages[stage].repeat) >> d & 1));
        s->unknown = here ? s->unknown : sym;
        return;
    }
    for (int i = 0; i < k->nsizes; i++) {
        if (k->sizes[i] == sym)
            return;
    }
    for (int i = 0; i < k->ninsns; i++) {
        if (k->insns[i].code == KN_INDEX && k->insns[i].expr == sym && visible(s->c, i))
            return;
    }
    s->unknown = sym;
}

static bool check_expr(struct checker *c, const char *what, ir_expr e)
{
    struct scope s = {.c = c};
    if (!e)
        return bad(c, "%s is missing", what);
    ir_each_sym(e, check_sym, &s);
    return !s.unknown || bad(c, "%s is %s: '%s' is no size, dim of this stage or index", what, ir_expr_text(c->ctx, e),
                             s.unknown->name);
}

/* == Parts == */

static bool pieces_are_fine(const struct kn_kernel *k, int d)
{
    int64_t n;
    return d == 0 && k->split.combine && ir_is_const(k->dims[d].extent, &n) && n >= 2 && n <= KN_MAX_PIECES &&
           (n & (n - 1)) == 0;
}

static bool check_dims(struct checker *c)
{
    const struct kn_kernel *k = c->k;
    if (k->ndims < 0 || k->ndims > KN_MAX_DIMS)
        return bad(c, "%d dims, at most %d are allowed", k->ndims, KN_MAX_DIMS);
    for (int d = 0; d < k->ndims; d++) {
        const struct kn_dim *dim = &k->dims[d];
        if (!dim->var || dim->var->kind != IR_X_SYM || !dim->extent || dim->var->extent != dim->extent)
            return bad(c, "dim %d has no iteration variable of its extent", d);
        if (d && dim->role == KN_OUTER && k->dims[d - 1].role == KN_INNER)
            return bad(c, "dim %d: outer dims come first", d);
        if (dim->role == KN_PIECES && !pieces_are_fine(k, d))
            return bad(c, "dim %d: pieces are the first dim of a split kernel, a power of two from 2 to %d", d,
                       KN_MAX_PIECES);
        for (int e = 0; e < d; e++) {
            if (k->dims[e].var == dim->var)
                return bad(c, "dims %d and %d share a variable", e, d);
        }
        if (!check_expr(c, "an extent", dim->extent))
            return false;
    }
    return true;
}

static bool check_operands(struct checker *c)
{
    const struct kn_kernel *k = c->k;
    for (int i = 0; i < k->noperands; i++) {
        const struct kn_operand *o = &k->operands[i];
        if (o->use > KN_PARTIAL || o->space > KN_SCRATCH || (o->use == KN_LOCAL) != (o->space != KN_GLOBAL) ||
            o->rank < 0 || o->rank > TCC_MAX_RANK || tcc_dtype_bytes(o->dtype) == 0 || o->dtype == TCC_STRING)
            return bad(c, "operand %d is malformed", i);
        if (o->use == KN_PARTIAL && !k->split.combine)
            return bad(c, "operand %d: only a split kernel has partial results", i);
        for (int d = 0; d < o->rank; d++) {
            if (!check_expr(c, "an operand's dim", o->dims[d]))
                return false;
        }
    }
    return true;
}

static bool check_stages(struct checker *c)
{
    const struct kn_kernel *k = c->k;
    int at = 0;
    for (int s = 0; s < k->nstages; s++) {
        const struct kn_stage *stage = &k->stages[s];
        if (stage->first != at || stage->last < at || stage->last > k->ninsns)
            return bad(c, "stage %d holds instructions %d to %d, must start at %d", s, stage->first, stage->last, at);
        at = stage->last;
        for (int d = 0; d < 32; d++) {
            bool along = (stage->inner | stage->repeat) >> d & 1;
            if (along && s == k->split.combine && s && stage->inner == 1 && !stage->repeat && k->ndims &&
                k->dims[0].role == KN_PIECES)
                continue;
            if (along && (d >= k->ndims || k->dims[d].role != KN_INNER))
                return bad(c, "stage %d runs along dim %d, which is not an inner dim", s, d);
        }
        if (stage->inner & stage->repeat)
            return bad(c, "stage %d runs along a dim twice", s);
    }
    return at == k->ninsns || bad(c, "instructions from %d on are in no stage", at);
}

static bool check_split(struct checker *c)
{
    const struct kn_kernel *k = c->k;
    const struct kn_split *s = &k->split;
    if (!s->combine)
        return !k->combining || bad(c, "it has no second phase to combine pieces in");
    if (s->combine < 1 || s->combine >= k->nstages || !k->ndims || k->dims[0].role != KN_PIECES ||
        k->stages[s->combine].inner != 1)
        return bad(c, "a split kernel has pieces, and a stage that combines them, not the first");
    if (s->dim < 0 || s->dim >= k->ndims || k->dims[s->dim].role != KN_INNER)
        return bad(c, "pieces are cut from an inner dim");
    if (!check_expr(c, "the points of a piece", s->step))
        return false;
    ir_expr covered = ir_mul(c->ctx, s->step, k->dims[0].extent);
    return (ir_expr_le(c->ctx, ir_const(c->ctx, 1), s->step) != IR_NO &&
            ir_expr_le(c->ctx, k->dims[s->dim].extent, covered) != IR_NO) ||
           bad(c, "its pieces leave points out");
}

/* == Instructions == */

static bool check_args(struct checker *c, const struct kn_insn *n)
{
    for (int i = 0; i < n->nargs; i++) {
        int a = n->arg[i];
        if (a < 0 && n->code == KN_LOAD)
            continue;
        if (a < 0 || a >= c->k->ninsns || !visible(c, a))
            return bad(c, "argument %%%d cannot be used here", a);
        if (c->k->insns[a].code == KN_STORE || c->k->insns[a].code == KN_SORT)
            return bad(c, "argument %%%d has no value", a);
    }
    return true;
}

static enum tcc_dtype arg_dtype(const struct checker *c, const struct kn_insn *n, int i)
{
    return c->k->insns[n->arg[i]].dtype;
}

/* Before this instruction, in the phase that the operand's use asks for. */
static bool is_written(const struct checker *c, int operand)
{
    bool second = second_phase(c->k, c->stage) && c->k->operands[operand].use != KN_PARTIAL;
    for (int i = 0; i < c->insn; i++) {
        if (c->k->insns[i].code == KN_STORE && c->k->insns[i].operand == operand &&
            second_phase(c->k, kn_stage_of(c->k, i)) == second)
            return true;
    }
    return false;
}

/* What the phases of a split kernel may do with an operand. */
static bool check_phase(struct checker *c, const struct kn_insn *n)
{
    enum kn_operand_use use = c->k->operands[n->operand].use;
    bool second = second_phase(c->k, c->stage), store = n->code == KN_STORE;
    if (!c->k->split.combine || use == KN_LOCAL)
        return true;
    if (store && (use == KN_PARTIAL) == second)
        return bad(c, "o%d: the first phase stores partial results, the second all others", n->operand);
    return store || use != KN_PARTIAL || second || bad(c, "o%d: pieces don't read partial results", n->operand);
}

/* May there be no such index, since a dim that it runs along may have the extent 0? Where there are some is
 * kernel_bounds.c's to ask. */
static bool may_be_none(const struct checker *c, ir_expr index)
{
    for (int d = 0; d < c->k->ndims; d++) {
        const struct kn_dim *dim = &c->k->dims[d];
        bool along = dim->role == KN_OUTER || (c->k->stages[c->stage].inner >> d & 1);
        if (along && (ir_is_value(dim->extent, 0) || (dim->extent->lo < 1 && ir_uses_sym(index, dim->var))))
            return true;
    }
    return false;
}

static bool check_access(struct checker *c, const struct kn_insn *n)
{
    bool store = n->code == KN_STORE;
    if (n->operand < 0 || n->operand >= c->k->noperands)
        return bad(c, "operand o%d does not exist", n->operand);
    const struct kn_operand *o = &c->k->operands[n->operand];
    if (o->use == (store ? KN_IN : KN_OUT))
        return bad(c, "o%d is only %s", n->operand, store ? "read" : "written");
    if (!check_phase(c, n))
        return false;
    if (!store && (o->use == KN_LOCAL || o->use == KN_PARTIAL) && !is_written(c, n->operand))
        return bad(c, "o%d is read before it is written", n->operand);
    if (n->nindex != o->rank)
        return bad(c, "%d indices for o%d, which has rank %d", n->nindex, n->operand, o->rank);
    if (n->dtype != o->dtype || (n->nargs && n->arg[0] >= 0 && arg_dtype(c, n, 0) != o->dtype))
        return bad(c, "o%d holds %s, the value is %s", n->operand, tcc_dtype_name(o->dtype),
                   tcc_dtype_name(n->nargs && n->arg[0] >= 0 ? arg_dtype(c, n, 0) : n->dtype));
    for (int i = 0; i < n->nindex; i++) {
        if (!check_expr(c, "an index", n->index[i]))
            return false;
        bool outside = ir_expr_le(c->ctx, ir_const(c->ctx, 0), n->index[i]) == IR_NO ||
                       ir_expr_le(c->ctx, ir_addc(c->ctx, n->index[i], 1), o->dims[i]) == IR_NO;
        if (outside && !n->nguards && o->dims[i]->lo > 0 && !may_be_none(c, n->index[i]))
            return bad(c, "index %s leaves the extent %s", ir_expr_text(c->ctx, n->index[i]),
                       ir_expr_text(c->ctx, o->dims[i]));
    }
    for (int g = 0; g < n->nguards; g++) {
        if (!check_expr(c, "a guard", n->guards[g].e) || !check_expr(c, "a guard", n->guards[g].lo) ||
            !check_expr(c, "a guard", n->guards[g].hi))
            return false;
    }
    return true;
}

/* scalar.def's types column for a word that computes. */
static bool check_scalar(struct checker *c, const struct kn_insn *n)
{
    const struct ir_scalar_body *body =
        n->op < IR_NOPS && ir_op_info(n->op)->kind == IR_K_MAP ? ir_scalar_body(n->op) : NULL;
    if (!body || !body->primitive)
        return bad(c, "scalar op %d is no primitive", n->op);
    if (n->nargs != body->nargs)
        return bad(c, "%s needs %d arguments, got %d", ir_op_info(n->op)->name, body->nargs, n->nargs);
    enum ir_scalar_types types = ir_scalar_row(n->op)->types;
    int first = types == IR_ST_SELECT;
    enum tcc_dtype d = arg_dtype(c, n, first), want = types == IR_ST_COMPARE || types == IR_ST_TEST ? TCC_BOOL : d;
    for (int i = first; i < n->nargs; i++) {
        if (arg_dtype(c, n, i) != d)
            return bad(c, "arguments of %s are %s and %s", ir_op_info(n->op)->name, tcc_dtype_name(d),
                       tcc_dtype_name(arg_dtype(c, n, i)));
    }
    if (first && arg_dtype(c, n, 0) != TCC_BOOL)
        return bad(c, "select by %s", tcc_dtype_name(arg_dtype(c, n, 0)));
    return types == IR_ST_CAST || n->dtype == want ||
           bad(c, "%s of %s is %s, must be %s", ir_op_info(n->op)->name, tcc_dtype_name(d), tcc_dtype_name(n->dtype),
               tcc_dtype_name(want));
}

static bool check_index(struct checker *c, const struct kn_insn *n)
{
    if (n->nargs != 1 || !tcc_is_int(arg_dtype(c, n, 0)))
        return bad(c, "an index must be an integer");
    if (!n->expr || n->expr->kind != IR_X_SYM || n->expr->extent)
        return bad(c, "an index binds a symbol");
    for (int i = 0; i < c->insn; i++) {
        if (c->k->insns[i].code == KN_INDEX && c->k->insns[i].expr == n->expr)
            return bad(c, "symbol '%s' is bound twice", n->expr->name);
    }
    return check_expr(c, "the bound", n->bound);
}

static bool check_reduce(struct checker *c, const struct kn_insn *n)
{
    uint32_t inner = c->k->stages[c->stage].inner;
    if (n->nargs != (n->code == KN_ARGREDUCE ? 2 : 1) || n->reducer > KN_MIN)
        return bad(c, "a reduction with %d arguments", n->nargs);
    if (c->stage && c->stage == c->k->split.combine && n->code == KN_SCAN)
        return bad(c, "pieces are combined by reductions only");
    if (n->code == KN_ARGREDUCE)
        return (n->reducer >= KN_MAX && n->dtype == TCC_I64 && tcc_is_int(arg_dtype(c, n, 1))) ||
               bad(c, "an extreme position must be i64");
    if (n->code == KN_SCAN && __builtin_popcount(inner) != 1)
        return bad(c, "a running combination needs a stage with one inner dim");
    return tcc_is_float(n->dtype) == tcc_is_float(arg_dtype(c, n, 0)) ||
           bad(c, "%s is accumulated as %s", tcc_dtype_name(arg_dtype(c, n, 0)), tcc_dtype_name(n->dtype));
}

/* A row that a sort permutes. */
static bool check_row(struct checker *c, int64_t operand)
{
    if (operand < 0 || operand >= c->k->noperands)
        return bad(c, "operand o%d does not exist", (int)operand);
    const struct kn_operand *o = &c->k->operands[operand];
    if (o->use != KN_LOCAL || o->rank != 1)
        return bad(c, "o%d is no local row", (int)operand);
    return is_written(c, (int)operand) || bad(c, "o%d is read before it is written", (int)operand);
}

static bool check_sort(struct checker *c, const struct kn_insn *n)
{
    const struct kn_stage *s = &c->k->stages[c->stage];
    if (n->nargs || n->reducer < KN_MAX || n->reducer > KN_MIN || s->inner || s->repeat)
        return bad(c, "a sort, max or min, stands in a stage without inner dims");
    if (!check_row(c, n->operand) || !check_row(c, n->ivalue))
        return false;
    const struct kn_operand *keys = &c->k->operands[n->operand], *companions = &c->k->operands[n->ivalue];
    return (n->operand != n->ivalue && companions->dtype == TCC_I32 && keys->dims[0] == companions->dims[0] &&
            tcc_dtype_class(keys->dtype) != TCC_CLASS_COMPLEX) ||
           bad(c, "a sort moves numbers, and an i32 row of the same extent with them");
}

static bool check_insn(struct checker *c, const struct kn_insn *n)
{
    if (n->dtype == TCC_NONE || n->dtype >= TCC_NDTYPES || n->nargs > 3 || !check_args(c, n))
        return c->ok ? bad(c, "is malformed") : false;
    switch ((enum kn_code)n->code) {
    case KN_CONST: return true;
    case KN_EXPR: return check_expr(c, "the expression", n->expr);
    case KN_ENV:
        return (n->ivalue == KN_SEED && n->dtype == TCC_U64) || (n->ivalue == KN_RUN && n->dtype == TCC_I64) ||
               bad(c, "the seed is u64, the run i64");
    case KN_LOAD: return check_access(c, n);
    case KN_STORE: return n->nargs == 1 ? check_access(c, n) : bad(c, "stores nothing");
    case KN_SCALAR: return check_scalar(c, n);
    case KN_INDEX: return check_index(c, n);
    case KN_REDUCE:
    case KN_ARGREDUCE:
    case KN_SCAN: return check_reduce(c, n);
    case KN_SORT: return check_sort(c, n);
    }
    return bad(c, "has code %d", n->code);
}

static bool check_roles(struct checker *c)
{
    return kn_roles_hold(c->k) || bad(c, "its roles are not those of its %s", kn_forms[c->k->roles.form].name);
}

bool kn_verify_kernel(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct checker c = {.ctx = ctx, .k = k, .insn = -1, .stage = -1, .ok = true};
    if (!check_dims(&c) || !check_operands(&c) || !check_stages(&c) || !check_split(&c))
        return false;
    for (int s = 0; s < k->nstages && c.ok; s++) {
        c.stage = s;
        for (c.insn = k->stages[s].first; c.insn < k->stages[s].last && c.ok; c.insn++)
            check_insn(&c, &k->insns[c.insn]);
    }
    c.insn = c.stage = -1;
    if (c.ok && k->tiles)
        check_expr(&c, "the number of tiles", k->tiles);
    if (c.ok && k->combining)
        check_expr(&c, "the number of tiles that combine", k->combining);
    if (c.ok && k->scratch)
        check_expr(&c, "the scratch size", k->scratch);
    return c.ok && check_roles(&c);
}
