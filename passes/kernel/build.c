/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - the kernel builder: dims, operands, stages and instructions while a kernel is put together, and the
 * finished kernel made of them. Instructions get ids in the order in which they are made; stages end in the order in
 * which they must run, because whatever a stage needs is ended before it is.
 */
#include "passes/lower_int.h"

#include <string.h>

/* Fusion stays far below it (profit.c); what reaches it is one node, or the index arithmetic of one. */
enum { MOST_INSNS = 1 << 14 };

void kb_init(struct kb *k, struct lw *lw, const struct lw_group *group)
{
    memset(k, 0, sizeof *k);
    kb_reset(k, lw, group);
}

void kb_reset(struct kb *k, struct lw *lw, const struct lw_group *group)
{
    struct kb old = *k;
    *k = (struct kb){.lw = lw, .ctx = lw->ctx, .group = group};
#define KEEP_ROOM(list)       \
    k->list.at = old.list.at; \
    k->list.cap = old.list.cap;
    KEEP_ROOM(dims)
    KEEP_ROOM(operands)
    KEEP_ROOM(values)
    KEEP_ROOM(insns)
    KEEP_ROOM(stages)
    KEEP_ROOM(order)
    KEEP_ROOM(memo)
    KEEP_ROOM(guard_sets)
    KEEP_ROOM(locals)
    KEEP_ROOM(needs)
    KEEP_ROOM(reads)
#undef KEEP_ROOM
    VEC_PUSH(k->ctx, k->guard_sets, (__typeof__(*k->guard_sets.at)){0});
    VEC_PUSH(k->ctx, k->insns,
             (struct kb_insn){.insn = {.code = KN_CONST}}); /* what calls return once the kernel has failed */
}

/* The iteration variable for kernel dim `position` and that extent: one for all kernels, which keeps texts and digests
 * equal. */
ir_expr lw_iteration_var(struct lw *lw, int position, ir_expr extent)
{
    for (int i = 0; i < lw->vars.n; i++)
        if (lw->vars.at[i].position == position && lw->vars.at[i].extent == extent)
            return lw->vars.at[i].var;
    ir_expr var = ir_iter_at(lw->ctx, position, extent);
    VEC_PUSH(lw->ctx, lw->vars, (__typeof__(*lw->vars.at)){position, extent, var});
    return var;
}

int kb_dim(struct kb *k, ir_expr extent, enum kn_role role)
{
    if (k->dims.n == KN_MAX_DIMS) {
        k->failed = "too many dims";
        return 0;
    }
    VEC_PUSH(k->ctx, k->dims, (struct kn_dim){lw_iteration_var(k->lw, k->dims.n, extent), extent, role});
    return k->dims.n - 1;
}

int kb_stage_new(struct kb *k, uint32_t inner)
{
    struct kb_stage stage = {.inner = inner};
    if (k->stages.n < k->stages.cap) { /* of a stage of an earlier kernel; else there is none */
        stage.ids.at = k->stages.at[k->stages.n].ids.at;
        stage.ids.cap = k->stages.at[k->stages.n].ids.cap;
    }
    VEC_PUSH(k->ctx, k->stages, stage);
    return k->stages.n - 1;
}

void kb_stage_end(struct kb *k, int stage)
{
    k->stages.at[stage].done = true;
    VEC_PUSH(k->ctx, k->order, stage);
}

int kb_insn(struct kb *k, int stage, struct kn_insn insn)
{
    if (k->insns.n >= MOST_INSNS)
        k->failed = "kernel too large";
    if (k->failed)
        return 0;
    VEC_PUSH(k->ctx, k->insns, (struct kb_insn){insn, stage});
    VEC_PUSH(k->ctx, k->stages.at[stage].ids, k->insns.n - 1);
    return k->insns.n - 1;
}

int kb_index(struct kb *k, int stage, const struct ir_node *n, int id, ir_expr sym, ir_expr bound)
{
    return kb_insn(k, stage,
                   (struct kn_insn){.code = KN_INDEX,
                                    .dtype = TCC_I64,
                                    .nargs = 1,
                                    .arg = {id, -1, -1},
                                    .expr = sym,
                                    .bound = bound,
                                    .from = &n->where});
}

int kb_const(struct kb *k, int stage, enum tcc_dtype dtype, double f, int64_t i)
{
    return kb_insn(k, stage, (struct kn_insn){.code = KN_CONST, .dtype = dtype, .fvalue = f, .ivalue = i});
}

int kb_expr(struct kb *k, int stage, enum tcc_dtype dtype, ir_expr e)
{
    int64_t v;
    if (ir_is_const(e, &v))
        return kb_const(k, stage, dtype, (double)v, v);
    return kb_insn(k, stage, (struct kn_insn){.code = KN_EXPR, .dtype = dtype, .expr = e});
}

int kb_env(struct kb *k, int stage, enum kn_env what)
{
    return kb_insn(k, stage,
                   (struct kn_insn){.code = KN_ENV, .dtype = what == KN_SEED ? TCC_U64 : TCC_I64, .ivalue = what});
}

int kb_scalar(struct kb *k, int stage, enum ir_op word, enum tcc_dtype dtype, int nargs, const int *args)
{
    struct kn_insn insn = {.code = KN_SCALAR, .dtype = dtype, .op = word, .nargs = nargs};
    for (int i = 0; i < nargs; i++)
        insn.arg[i] = args[i];
    return kb_insn(k, stage, insn);
}

int kb_cast(struct kb *k, int stage, int id, enum tcc_dtype to)
{
    if (k->insns.at[id].insn.dtype == to)
        return id;
    return kb_scalar(k, stage, IR_cast, to, 1, &id);
}

int kb_push_guards(struct kb *k, int n, const struct kn_guard *guards)
{
    int before = k->guards;
    __typeof__(*k->guard_sets.at) old = k->guard_sets.at[before], new = {0};
    new.at = IR_NEWN(k->ctx, old.n + n, struct kn_guard);
    for (int i = 0; i < old.n; i++)
        new.at[new.n++] = old.at[i];
    for (int i = 0; i < n; i++)
        if (ir_expr_le(k->ctx, guards[i].lo, guards[i].e) != IR_YES ||
            ir_expr_le(k->ctx, ir_addc(k->ctx, guards[i].e, 1), guards[i].hi) != IR_YES)
            new.at[new.n++] = guards[i];
    for (int s = 0; s < k->guard_sets.n; s++)
        if (k->guard_sets.at[s].n == new.n &&
            (!new.n || !memcmp(k->guard_sets.at[s].at, new.at, new.n * sizeof *new.at))) {
            k->guards = s;
            return before;
        }
    VEC_PUSH(k->ctx, k->guard_sets, new);
    k->guards = k->guard_sets.n - 1;
    return before;
}

/* 1 when a <= b, else 0, as an integer expression. */
static ir_expr less_equal(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    return ir_min(ctx, ir_const(ctx, 1), ir_max(ctx, ir_const(ctx, 0), ir_addc(ctx, ir_sub(ctx, b, a), 1)));
}

int kb_inside(struct kb *k, int stage, int nguards, const struct kn_guard *guards)
{
    ir_expr all = ir_const(k->ctx, 1);
    for (int i = 0; i < nguards; i++) {
        all = ir_mul(k->ctx, all, less_equal(k->ctx, guards[i].lo, guards[i].e));
        all = ir_mul(k->ctx, all, less_equal(k->ctx, ir_addc(k->ctx, guards[i].e, 1), guards[i].hi));
    }
    return kb_expr(k, stage, TCC_BOOL, all);
}

/* The operand for v's buffer read with the dims of type `as` (v's own, or those of a reshape of it). */
static int operand_of(struct kb *k, struct ir_value *v, ir_type as, enum kn_operand_use use)
{
    struct kn_operand operand = {.use = use, .dtype = v->type->dtype, .name = v->name};
    operand.rank = kn_physical_dims(k->ctx, as, k->lw->layout[v->id], operand.dims);
    for (int i = 0; i < k->values.n; i++) {
        struct kn_operand *o = &k->operands.at[i];
        if (k->values.at[i] != v || o->rank != operand.rank ||
            memcmp(o->dims, operand.dims, (size_t)o->rank * sizeof *o->dims))
            continue;
        if (o->use != use)
            o->use = KN_INOUT;
        return i;
    }
    VEC_PUSH(k->ctx, k->operands, operand);
    VEC_PUSH(k->ctx, k->values, v);
    return k->operands.n - 1;
}

static const ir_expr *copy_exprs(struct kb *k, int n, const ir_expr *e)
{
    ir_expr *copy = IR_NEWN(k->ctx, n ? n : 1, ir_expr);
    for (int i = 0; i < n; i++)
        copy[i] = e[i];
    return copy;
}

int kb_load_as(struct kb *k, int stage, struct ir_value *v, ir_type as, const ir_expr *idx)
{
    ir_expr physical[TCC_MAX_RANK];
    int n = kn_physical_index(k->ctx, k->lw->layout[v->id], as->rank, idx, physical);
    struct kn_insn insn = {.code = KN_LOAD, .dtype = v->type->dtype, .nindex = n, .arg = {-1, -1, -1}};
    insn.operand = operand_of(k, v, as, KN_IN);
    insn.index = copy_exprs(k, n, physical);
    VEC_GIVE(k->guard_sets.at[k->guards], insn.guards, insn.nguards);
    return kb_insn(k, stage, insn);
}

int kb_load(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    return kb_load_as(k, stage, v, v->type, idx);
}

/* Stores into v's buffer. Where the layout has padding lanes they get zero: the iteration covers them, loads there must
 * be guarded by the caller's index being inside (kb_value's loads are, through the guards that inline.c pushes). */
void kb_store(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, int id)
{
    ir_expr physical[TCC_MAX_RANK];
    int n = kn_physical_index(k->ctx, k->lw->layout[v->id], v->type->rank, idx, physical);
    struct kn_insn insn = {.code = KN_STORE, .dtype = v->type->dtype, .nindex = n, .nargs = 1, .arg = {id, -1, -1}};
    insn.operand = operand_of(k, v, v->type, KN_OUT);
    insn.index = copy_exprs(k, n, physical);
    kb_insn(k, stage, insn);
}

/* -- The finished kernel ------------------------------------------------------------------------ */

/* Marks the instructions that a store needs; the rest is dropped (probing may leave some). */
static void mark(struct kb *k, bool *live, int id)
{
    if (live[id])
        return;
    live[id] = true;
    const struct kn_insn *insn = &k->insns.at[id].insn;
    for (int i = 0; i < insn->nargs; i++)
        mark(k, live, insn->arg[i]);
    for (int i = 0; i < k->needs.n; i++)
        if (k->needs.at[i].id == id)
            mark(k, live, k->needs.at[i].index);
    /* An index symbol needs the instruction that binds it. */
    for (int s = 0; s < k->locals.n; s++)
        for (int j = 0; j < k->insns.n; j++) {
            const struct kn_insn *b = &k->insns.at[j].insn;
            if (b->code == KN_INDEX && b->expr == k->locals.at[s].sym && !live[j] && kn_insn_uses(insn, b->expr))
                mark(k, live, j);
        }
}

/* The stages that have live instructions, and those; their numbers by what they were while the kernel was built. */
static void put_stages(const struct kb *k, const bool *live, struct kn_kernel *out, int *number, int *stage_number)
{
    out->insns = IR_NEWN(k->ctx, k->insns.n, struct kn_insn);
    out->stages = IR_NEWN(k->ctx, k->order.n, struct kn_stage);
    for (int s = 0; s < k->order.n; s++) {
        const struct kb_stage *stage = &k->stages.at[k->order.at[s]];
        struct kn_stage made = {stage->inner, stage->repeat, out->ninsns, 0};
        for (int i = 0; i < stage->ids.n; i++) {
            int id = stage->ids.at[i];
            if (!live[id])
                continue;
            struct kn_insn insn = k->insns.at[id].insn;
            for (int a = 0; a < insn.nargs; a++)
                insn.arg[a] = number[insn.arg[a]];
            number[id] = out->ninsns;
            out->insns[out->ninsns++] = insn;
        }
        made.last = out->ninsns;
        bool merge = out->nstages && !made.inner && !out->stages[out->nstages - 1].inner &&
                     out->stages[out->nstages - 1].repeat == made.repeat;
        if (made.first == made.last)
            continue;
        if (merge)
            out->stages[out->nstages - 1].last = made.last;
        else
            out->stages[out->nstages++] = made;
        stage_number[k->order.at[s]] = out->nstages - 1;
    }
}

/* The operands that these use: what only dropped instructions used goes too. */
static void put_operands(const struct kb *k, struct lw_group *g, struct kn_kernel *out, int *renumber)
{
    bool *used = IR_NEWN(k->ctx, k->operands.n + 1, bool);
    for (int i = 0; i < out->ninsns; i++) /* what a sort permutes is stored and loaded too */
        if (out->insns[i].code == KN_LOAD || out->insns[i].code == KN_STORE)
            used[out->insns[i].operand] = true;
    out->operands = IR_NEWN(k->ctx, k->operands.n, struct kn_operand);
    g->values = IR_NEWN(k->ctx, k->operands.n, struct ir_value *);
    for (int i = 0; i < k->operands.n; i++) {
        if (!used[i])
            continue;
        renumber[i] = out->noperands;
        g->values[out->noperands] = k->operands.at[i].use == KN_LOCAL ? NULL : k->values.at[i];
        out->operands[out->noperands++] = k->operands.at[i];
    }
    for (int i = 0; i < out->ninsns; i++) {
        struct kn_insn *insn = &out->insns[i];
        if (insn->code == KN_LOAD || insn->code == KN_STORE || insn->code == KN_SORT)
            insn->operand = renumber[insn->operand];
        if (insn->code == KN_SORT)
            insn->ivalue = renumber[insn->ivalue];
    }
}

struct kn_kernel *kb_finish(struct kb *k, struct lw_group *g)
{
    if (k->failed)
        return NULL;
    struct kn_kernel *out = IR_NEW(k->ctx, struct kn_kernel);
    bool *live = IR_NEWN(k->ctx, k->insns.n + 1, bool);
    int *number = IR_NEWN(k->ctx, k->insns.n + 1, int), *stage = IR_NEWN(k->ctx, k->stages.n + 1, int),
        *operand = IR_NEWN(k->ctx, k->operands.n + 1, int);
    for (int i = 0; i < k->insns.n; i++)
        if (k->insns.at[i].insn.code == KN_STORE || k->insns.at[i].insn.code == KN_SORT)
            mark(k, live, i);
    put_stages(k, live, out, number, stage);
    put_operands(k, g, out, operand);
    out->ndims = k->dims.n;
    out->dims = IR_NEWN(k->ctx, k->dims.n + 1, struct kn_dim);
    for (int i = 0; i < k->dims.n; i++)
        out->dims[i] = k->dims.at[i];
    out->roles = k->roles;
    kn_renumber_roles(&out->roles, number, stage, operand);
    kn_find_sizes(k->ctx, out);
    return out;
}

/* What the builder wrote down is not so where an epilogue has brought stages of its own. */
void lw_settle_roles(struct kn_kernel *k)
{
    if (!kn_roles_hold(k))
        k->roles = (struct kn_roles){0};
}

/* The load that a value is made of by scalar ops of one operand; -1: it is made of something else. */
int kb_load_of(const struct kb *k, int id)
{
    while (k->insns.at[id].insn.code == KN_SCALAR && k->insns.at[id].insn.nargs == 1)
        id = k->insns.at[id].insn.arg[0];
    return k->insns.at[id].insn.code == KN_LOAD ? id : -1;
}

struct ir_value *lw_anchored(const struct lw_group *g)
{
    int i = 0;
    while (i < g->anchor->nout - 1 && !ir_has_uses(g->anchor->out[i]))
        i++;
    return g->anchor->out[i];
}

int lw_nanchored(const struct lw_group *g)
{
    int n = 0;
    for (int i = 0; g->anchor && i < g->anchor->nout; i++)
        n += ir_has_uses(g->anchor->out[i]);
    return n ? n : 1;
}

/* Index of a reshape's other side: of a `to` element, given the index of the `from` element. */
void lw_reshape_index(struct ir_ctx *ctx, ir_type from, ir_type to, const ir_expr *idx, ir_expr *out)
{
    int i = 0, j = 0, r = from->rank, q = to->rank;
    while (i < r || j < q) {
        int i0 = i, j0 = j;
        ir_expr a = i < r ? from->dim[i++] : ir_const(ctx, 1);
        ir_expr b = j < q ? to->dim[j++] : ir_const(ctx, 1);
        while (a != b && (i < r || j < q)) {
            int64_t av, bv;
            bool both = ir_is_const(a, &av) && ir_is_const(b, &bv);
            bool grow = i < r && (j >= q || (both ? av < bv : ir_is_const(a, NULL) || ir_expr_le(ctx, a, b) == IR_YES));
            if (grow)
                a = ir_mul(ctx, a, from->dim[i++]);
            else if (j < q)
                b = ir_mul(ctx, b, to->dim[j++]);
            else
                a = ir_mul(ctx, a, from->dim[i++]);
        }
        ir_expr linear = ir_const(ctx, 0);
        for (int p = i0; p < i; p++)
            linear = ir_add(ctx, ir_mul(ctx, linear, from->dim[p]), idx[p]);
        bool more = true;
        for (int p = j - 1; p >= j0; p--) {
            if (ir_is_value(to->dim[p], 1)) {
                out[p] = ir_const(ctx, 0);
                continue;
            }
            more = false;
            for (int o = j0; o < p; o++)
                more = more || !ir_is_value(to->dim[o], 1);
            out[p] = more ? ir_mod(ctx, linear, to->dim[p]) : linear;
            linear = ir_floordiv(ctx, linear, to->dim[p]);
        }
    }
}
