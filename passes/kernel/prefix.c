/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix.c - a kernel that runs a combination along a dim as two, each with pieces of that dim as an outer one: the
 * first reduces every piece, the second begins a piece with what those before it come to (reduce, then scan: Blelloch,
 * "Prefix sums and their applications", 1990). Points of the last pieces that lie behind the end read nothing, count
 * for nothing and store nothing. Whether it pays is the pass's matter (split.c).
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

/* Pieces begin at multiples of so many points. */
#define EVEN 64

struct scanner {
    struct lw_copy c;
    int scan;       /* from's instruction */
    ir_expr extent; /* points of its dim */
    ir_expr step;   /* of a piece */
    ir_expr point;  /* in the dim, of a kernel's piece and point */
    bool whole;     /* pieces are all of one size */
    enum tcc_dtype dtype;
    struct kn_operand sums; /* [pieces, outer dims] */
};

int lw_find_scan(const struct kn_kernel *k)
{
    int found = -1;
    int64_t n;
    if (k->nstages != 1 || k->stages[0].repeat || k->split.combine || !k->ndims || k->ndims + 2 > KN_MAX_DIMS ||
        k->ndims > TCC_MAX_RANK || k->stages[0].inner != 1u << (k->ndims - 1) ||
        !ir_is_const(k->dims[k->ndims - 1].extent, &n) || kn_has_operand(k, ~(KN_BIT(KN_IN) | KN_BIT(KN_OUT))) ||
        kn_has(k, KN_BIT(KN_REDUCE) | KN_BIT(KN_ARGREDUCE) | KN_BIT(KN_INDEX)))
        return -1;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *insn = &k->insns[i];
        enum tcc_dtype d = (enum tcc_dtype)insn->dtype;
        if (insn->code != KN_SCAN)
            continue;
        if (found >= 0 || insn->reducer > KN_PROD || tcc_small_float(d) || (!tcc_is_float(d) && !tcc_is_int(d)) ||
            k->insns[insn->arg[0]].dtype != (int)d) /* rounded in each step: in pieces it would be rounded elsewhere */
            return -1;
        found = i;
    }
    return found;
}

/* -- Parts of both kernels ------------------------------------------------------------------------------------- */

static int add_constant(struct scanner *x, double value)
{
    return lw_copy_add(&x->c, (struct kn_insn){.code = KN_CONST,
                                               .dtype = (uint8_t)x->dtype,
                                               .arg = {-1, -1, -1},
                                               .fvalue = value,
                                               .ivalue = (int64_t)value});
}

static int add_neutral(struct scanner *x)
{
    return add_constant(x, x->c.from->insns[x->scan].reducer == KN_PROD);
}

static int add_scalar(struct scanner *x, enum ir_op op, int nargs, int a, int b, int c)
{
    return lw_copy_add(&x->c, (struct kn_insn){.code = KN_SCALAR,
                                               .dtype = (uint8_t)x->dtype,
                                               .nargs = (uint8_t)nargs,
                                               .op = (uint16_t)op,
                                               .arg = {a, b, c}});
}

static int add_reduction(struct scanner *x, int value)
{
    return lw_copy_add(&x->c, (struct kn_insn){.code = KN_REDUCE,
                                               .dtype = (uint8_t)x->dtype,
                                               .reducer = x->c.from->insns[x->scan].reducer,
                                               .nargs = 1,
                                               .arg = {value, -1, -1}});
}

/* An access to the pieces' sums, that of `piece`. */
static struct kn_insn sums_access(struct scanner *x, enum kn_code code, ir_expr piece)
{
    ir_expr *index = IR_NEWN(x->c.ctx, x->sums.rank, ir_expr);
    index[0] = piece;
    for (int d = 1; d < x->sums.rank; d++)
        index[d] = x->c.to->dims[d].var;
    return (struct kn_insn){.code = (uint8_t)code,
                            .dtype = (uint8_t)x->dtype,
                            .nindex = (uint8_t)x->sums.rank,
                            .operand = x->c.to->noperands - 1,
                            .index = index,
                            .arg = {-1, -1, -1}};
}

/* The value, or the neutral one behind the end. */
static int within(struct scanner *x, int value)
{
    struct ir_ctx *ctx = x->c.ctx;
    if (x->whole)
        return value;
    ir_expr left = ir_sub(ctx, x->extent, x->point), none = ir_const(ctx, 0), one = ir_const(ctx, 1);
    int inside = lw_copy_add(&x->c, (struct kn_insn){.code = KN_EXPR,
                                                     .dtype = TCC_BOOL,
                                                     .arg = {-1, -1, -1},
                                                     .expr = ir_min(ctx, ir_max(ctx, left, none), one)});
    return add_scalar(x, IR_select, 3, inside, value, add_neutral(x));
}

/* Accesses of instructions from `first` on, copies all of them, hold for points that are there. */
static void guard(struct scanner *x, int first)
{
    struct ir_ctx *ctx = x->c.ctx;
    for (int i = first; i < x->c.to->ninsns && !x->whole; i++) {
        struct kn_insn *n = &x->c.to->insns[i];
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        struct kn_guard *guards = IR_NEWN(ctx, n->nguards + 1, struct kn_guard);
        for (int g = 0; g < n->nguards; g++)
            guards[g] = n->guards[g];
        guards[n->nguards++] = (struct kn_guard){x->point, ir_const(ctx, 0), x->extent};
        n->guards = guards;
    }
}

/* A kernel with pieces and from's outer dims as outer ones, and these inner dims, of which the last are the points of a
 * piece. */
static void begin(struct scanner *x, enum ir_kind kind, int ninner, const ir_expr *inner)
{
    struct lw_copy *c = &x->c;
    const struct kn_kernel *from = c->from;
    int outer = from->ndims - 1;
    struct kn_kernel *k = c->to = IR_NEW(c->ctx, struct kn_kernel);
    *k = (struct kn_kernel){.kind = kind, .name = from->name, .nsizes = from->nsizes, .sizes = from->sizes};
    k->ndims = 1 + outer + ninner;
    k->dims = IR_NEWN(c->ctx, k->ndims, struct kn_dim);
    for (int d = 0; d < k->ndims; d++) {
        ir_expr extent = d == 0 ? x->sums.dims[0] : d <= outer ? from->dims[d - 1].extent : inner[d - 1 - outer];
        k->dims[d] = (struct kn_dim){ir_iter_at(c->ctx, d, extent), extent, d <= outer ? KN_OUTER : KN_INNER};
    }
    ir_expr first = ir_mul(c->ctx, k->dims[0].var, x->step);
    x->point = ir_add(c->ctx, first, k->dims[k->ndims - 1].var);
    for (int d = 0; d < from->ndims; d++) {
        c->old[d] = from->dims[d].var;
        c->new[d] = d < outer ? k->dims[d + 1].var : x->point;
    }
    k->operands = IR_NEWN(c->ctx, from->noperands + 1, struct kn_operand);
    k->insns = IR_NEWN(c->ctx, from->ninsns + 12, struct kn_insn);
    k->stages = IR_NEWN(c->ctx, 2, struct kn_stage);
    lw_copy_forget(c);
}

static void add_operands(struct scanner *x, enum kn_operand_use use)
{
    struct kn_kernel *k = x->c.to;
    for (int o = 0; o < x->c.from->noperands; o++)
        k->operands[k->noperands++] = x->c.from->operands[o];
    k->operands[k->noperands] = x->sums;
    k->operands[k->noperands++].use = use;
}

/* -- The kernels --------------------------------------------------------------------------------------------------- */

/* Takes out operands that no instruction names; returns the numbers of those that stay. */
static int *drop_operands(struct scanner *x)
{
    struct kn_kernel *k = x->c.to;
    int *kept = IR_NEWN(x->c.ctx, k->noperands + 1, int), *now = IR_NEWN(x->c.ctx, k->noperands + 1, int), n = 0;
    for (int o = 0; o < k->noperands; o++) {
        bool named = false;
        for (int i = 0; i < k->ninsns; i++)
            named |= kn_accesses(&k->insns[i], o);
        if (!named)
            continue;
        k->operands[n] = k->operands[o];
        now[o] = n;
        kept[n++] = o;
    }
    k->noperands = n;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_LOAD || k->insns[i].code == KN_STORE)
            k->insns[i].operand = now[k->insns[i].operand];
    return kept;
}

static void make_sums(struct scanner *x)
{
    begin(x, IR_K_REDUCE, 1, &x->step);
    add_operands(x, KN_OUT);
    int value = lw_copy_needed(&x->c, x->c.from->insns[x->scan].arg[0]);
    guard(x, 0);
    int sum = add_reduction(x, within(x, value));
    lw_copy_stage(&x->c, 1u << (x->c.to->ndims - 1), 0);
    struct kn_insn store = sums_access(x, KN_STORE, x->c.to->dims[0].var);
    store.nargs = 1;
    store.arg[0] = sum;
    int first = lw_copy_add(&x->c, store);
    lw_copy_stage(&x->c, 0, first);
}

static void make_scan(struct scanner *x)
{
    struct ir_ctx *ctx = x->c.ctx;
    const struct kn_kernel *from = x->c.from;
    const struct kn_insn *n = &from->insns[x->scan];
    begin(x, IR_K_SCAN, 2, (ir_expr[]){x->sums.dims[0], x->step});
    add_operands(x, KN_IN);
    struct kn_kernel *k = x->c.to;
    ir_expr own = k->dims[0].var, piece = k->dims[k->ndims - 2].var;
    struct kn_guard *before = IR_NEW(ctx, struct kn_guard); /* those in front of its own */
    *before =
        (struct kn_guard){ir_sub(ctx, own, piece), MUTANT(190, ir_const(ctx, 1), ir_const(ctx, 0)), x->sums.dims[0]};
    int neutral = add_neutral(x);
    struct kn_insn load = sums_access(x, KN_LOAD, piece);
    load.nargs = 1;
    load.arg[0] = neutral;
    load.nguards = 1;
    load.guards = before;
    int offset = add_reduction(x, lw_copy_add(&x->c, load));
    lw_copy_stage(&x->c, 1u << (k->ndims - 2), 0);
    int first = k->ninsns;
    for (int i = 0; i < from->ninsns; i++) {
        if (i != x->scan) {
            lw_copy_insn(&x->c, i);
            continue;
        }
        struct kn_insn scan = *n;
        scan.arg[0] = within(x, x->c.number[n->arg[0]]);
        int own_sum = lw_copy_add(&x->c, scan);
        x->c.number[i] = add_scalar(x, n->reducer == KN_PROD ? IR_mul : IR_add, 2, offset, own_sum, -1);
    }
    guard(x, first);
    lw_copy_stage(&x->c, 1u << (k->ndims - 1), first);
}

bool pass_split_scan(struct ir_ctx *ctx, const struct kn_kernel *k, int64_t pieces, struct pass_scan *s)
{
    struct scanner x = {.c = {.ctx = ctx, .from = k}, .scan = lw_find_scan(k)};
    if (x.scan < 0 || pieces < 2)
        return false;
    int64_t extent = 0;
    x.extent = k->dims[k->ndims - 1].extent;
    ir_is_const(x.extent, &extent);
    int64_t step = (extent + pieces - 1) / pieces;
    if (step >= 8 * EVEN)
        step = (step + EVEN - 1) / EVEN * EVEN;
    x.step = ir_const(ctx, step);
    x.whole = step * pieces == extent;
    x.dtype = (enum tcc_dtype)k->insns[x.scan].dtype;
    x.sums = (struct kn_operand){.dtype = x.dtype, .name = "sums", .rank = k->ndims};
    x.sums.dims[0] = ir_const(ctx, pieces);
    for (int d = 1; d < k->ndims; d++)
        x.sums.dims[d] = k->dims[d - 1].extent;
    x.c.number = IR_NEWN(ctx, k->ninsns + 1, int);
    make_sums(&x);
    s->operands = drop_operands(&x);
    s->sums = x.c.to;
    make_scan(&x);
    s->scan = x.c.to;
    return step > 0;
}
