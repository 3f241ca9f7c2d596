/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inline.c - builds kernels backwards: to compute value v at index idx, compute its operands at the indexes that v's
 * op asks for. Moves are index arithmetic and leave no trace but the access maps; elementwise ops leave scalar
 * instructions; a reduction opens an earlier stage. This is "inlining" in the sense of Halide (Ragan-Kelley et al.,
 * PLDI 2013, section 3), with staged reductions on top.
 *
 * A group with reductions in its middle (softmax, norms) gets as outer dims those that all its reductions depend on;
 * the remaining root dims become inner dims of its last stage. Which those are is found by building once with all dims
 * outer.
 */
#include "passes/lower_int.h"
#include "base/mutant.h"

#include <string.h>

enum scalar_types { SAME, FLOAT, COMPARE, LOGIC, SELECT, TEST, CAST };
static const uint8_t scalar_types[IR_NOPS] = {
#define SCALAR(word, nargs, types, flags, body, doc) [IR_##word] = types,
#include "ir/scalar.def"
};

enum tcc_dtype kb_acc_dtype(enum tcc_dtype d)
{
    return tcc_small_float(d) ? TCC_F32 : d;
}

/* -- Memo ------------------------------------------------------------------------------------------- */

static bool same_index(const struct kb_memo *m, const void *value, int n, const ir_expr *idx, int guards)
{
    return m->value == value && m->guards == guards && m->nidx == n && (!n || !memcmp(m->idx, idx, n * sizeof *idx));
}

static void remember(struct kb *k, int stage, const void *value, int n, const ir_expr *idx, int id)
{
    ir_expr *copy = IR_NEWN(k->ctx, n ? n : 1, ir_expr);
    for (int i = 0; i < n; i++)
        copy[i] = idx[i];
    VEC_PUSH(k->ctx, k->memo, (struct kb_memo){value, n, copy, k->guards, stage, id});
}

void kb_remember(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, int id)
{
    remember(k, stage, v, v->type->rank, idx, id);
}

bool kb_usable_from(const struct kb *k, int stage, int other, int id)
{
    const struct kb_stage *s = &k->stages.at[other];
    if (other == stage)
        return true;
    if (s->repeat && s->repeat != k->stages.at[stage].repeat)
        return false;
    uint8_t code = k->insns.at[id].insn.code;
    return s->done && (!s->inner || code == KN_REDUCE || code == KN_ARGREDUCE);
}

/* A expensive value computed in an earlier stage over the same inner dims: stored there, loaded here. -1: none. */
static int from_row_buffer(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    uint32_t inner = k->stages.at[stage].inner;
    if (!inner || k->guards || !v->def || !ir_is_expensive(v->def->op))
        return -1;
    for (int m = 0; m < k->memo.n; m++) {
        const struct kb_memo *memo = &k->memo.at[m];
        const struct kb_stage *from = &k->stages.at[memo->stage];
        if (!same_index(memo, v, v->type->rank, idx, 0) || !from->done || from->inner != inner)
            continue;
        struct kn_operand temp = {.use = KN_LOCAL, .space = KN_SCRATCH, .dtype = v->type->dtype, .name = "row"};
        ir_expr index[TCC_MAX_RANK];
        for (int d = 0; d < k->dims.n; d++)
            if (inner >> d & 1) {
                if (!ir_is_const(k->dims.at[d].extent, NULL))
                    return -1;
                index[temp.rank] = k->dims.at[d].var;
                temp.dims[temp.rank++] = k->dims.at[d].extent;
            }
        ir_expr *keep = IR_NEWN(k->ctx, temp.rank, ir_expr);
        memcpy(keep, index, temp.rank * sizeof *keep);
        VEC_PUSH(k->ctx, k->operands, temp);
        VEC_PUSH(k->ctx, k->values, NULL);
        struct kn_insn store = {.code = KN_STORE,
                                .dtype = temp.dtype,
                                .nargs = 1,
                                .arg = {memo->id, -1, -1},
                                .operand = k->operands.n - 1,
                                .nindex = temp.rank,
                                .index = keep};
        kb_insn(k, memo->stage, store);
        struct kn_insn load = {.code = KN_LOAD,
                               .dtype = temp.dtype,
                               .arg = {-1, -1, -1},
                               .operand = k->operands.n - 1,
                               .nindex = temp.rank,
                               .index = keep};
        return kb_insn(k, stage, load);
    }
    return -1;
}

/* -- Which variables an index depends on ---------------------------------------------------------------- */

struct deps {
    const struct kb *k;
    uint32_t dims;
    bool local; /* to a stage: an index that other stages cannot have, for it is not known before them */
};

static void note_dep(void *user, ir_expr sym)
{
    struct deps *d = user;
    for (int i = 0; i < d->k->dims.n; i++)
        if (d->k->dims.at[i].var == sym)
            d->dims |= 1u << i;
    for (int i = 0; i < d->k->locals.n; i++) {
        const struct kb_stage *from = &d->k->stages.at[d->k->locals.at[i].stage];
        if (d->k->locals.at[i].sym == sym && (from->inner || !from->done))
            d->local = true;
    }
}

static struct deps dependencies(const struct kb *k, int n, const ir_expr *idx)
{
    struct deps d = {k, 0, false};
    for (int i = 0; i < n; i++)
        ir_each_sym(idx[i], note_dep, &d);
    for (int i = 0; i < k->guard_sets.at[k->guards].n; i++)
        ir_each_sym(k->guard_sets.at[k->guards].at[i].e, note_dep, &d);
    return d;
}

/* -- Elementwise ------------------------------------------------------------------------------------------ */

void kb_broadcast_index(struct kb *k, const struct ir_value *operand, const ir_expr *idx, int rank, ir_expr *out)
{
    int r = operand->type->rank;
    for (int i = 0; i < r; i++)
        out[i] = ir_is_value(operand->type->dim[i], 1) ? ir_const(k->ctx, 0) : idx[rank - r + i];
}

static int emit_body(struct kb *k, int stage, enum ir_op op, enum tcc_dtype type, const int *args)
{
    const struct ir_scalar_body *body = ir_scalar_body(op);
    int *ids = IR_NEWN(k->ctx, body->nnodes, int);
    for (int i = 0; i < body->nnodes; i++) {
        const struct ir_scalar_node *s = &body->nodes[i];
        if (s->kind == IR_S_ARG) {
            ids[i] = args[s->arg[0]];
        } else if (s->kind == IR_S_CONST) {
            ids[i] = kb_const(k, stage, type, s->value, (int64_t)s->value);
        } else {
            int a[3], n = ir_scalar_body(s->op)->nargs;
            for (int j = 0; j < n; j++)
                a[j] = ids[s->arg[j]];
            uint8_t t = scalar_types[s->op];
            ids[i] = kb_scalar(k, stage, s->op, t == COMPARE || t == TEST ? TCC_BOOL : type, n, a);
        }
    }
    return ids[body->nnodes - 1];
}

static int inline_map(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    int args[3];
    uint8_t types = scalar_types[n->op];
    /* First what does not vary within the stage: it may open stages, whose values the other operands can then share. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n->nin; i++) {
            struct ir_value *x = n->in[i].value;
            ir_expr at[TCC_MAX_RANK];
            kb_broadcast_index(k, x, idx, v->type->rank, at);
            bool varies = dependencies(k, x->type->rank, at).dims & k->stages.at[stage].inner;
            if (varies != (pass == 1))
                continue;
            args[i] = kb_value(k, stage, x, at);
            enum tcc_dtype d = x->type->dtype;
            if (types != CAST && types != SELECT && tcc_small_float(d))
                args[i] = kb_cast(k, stage, args[i], TCC_F32);
        }
    enum tcc_dtype out = v->type->dtype;
    if (types == CAST) {
        int id = kb_scalar(k, stage, IR_cast, out, 1, args);
        const char *mode = ir_get_s(n, IR_ATTR_round_mode, "up");
        k->insns.at[id].insn.ivalue = (ir_get_i(n, IR_ATTR_saturate, 1) ? 0 : 1) + (!strcmp(mode, "down")      ? 2
                                                                                    : !strcmp(mode, "nearest") ? 4
                                                                                                               : 0);
        return id;
    }
    if (types == SELECT)
        return kb_scalar(k, stage, IR_select, out, 3, args);
    enum tcc_dtype in = n->in[0].value->type->dtype;
    enum tcc_dtype computed = types == COMPARE || types == TEST ? TCC_BOOL : tcc_small_float(in) ? TCC_F32 : in;
    int id;
    if (ir_scalar_body(n->op)->primitive)
        id = kb_scalar(k, stage, n->op, computed, n->nin, args);
    else
        id = emit_body(k, stage, n->op, computed, args);
    return kb_cast(k, stage, id, out);
}

/* -- What is where ------------------------------------------------------------------------------------------- */

bool kb_is_here(const struct kb *k, const struct ir_value *v)
{
    const struct lw_group *g = k->group;
    if (!v->def || v->def->op == IR_constant)
        return false;
    if (v == g->results[0].value && v->def == g->root)
        return true;
    for (int r = 1; r < g->nresults; r++)
        if (v == g->results[r].value)
            return true;
    return !k->lw->materialised[v->id] && (lw_is_view(v->def) || lw_in_group(k->lw, v->def, g));
}

bool kb_may_join(const struct kb *k, const struct ir_value *v)
{
    return k->sketching && !k->lw->materialised[v->id] && v->def && v->def->block == k->group->root->block &&
           lw_is_kernel_node(v->def);
}

/* -- Reductions ---------------------------------------------------------------------------------------------- */

/* Inner dims of those extents: existing ones where possible, so that stages share row buffers. */
static uint32_t inner_dims(struct kb *k, int n, const ir_expr *extents, int *dims)
{
    uint32_t set = 0;
    for (int i = 0; i < n; i++) {
        dims[i] = -1;
        for (int d = 0; d < k->dims.n && dims[i] < 0; d++)
            if (k->dims.at[d].role == KN_INNER && k->dims.at[d].extent == extents[i] && !(set >> d & 1) &&
                (!i || d > dims[i - 1]))
                dims[i] = d;
        if (dims[i] < 0)
            dims[i] = kb_dim(k, extents[i], KN_INNER);
        set |= 1u << dims[i];
    }
    return set;
}

static int inline_reduce(struct kb *k, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    struct ir_value *x = n->in[0].value;
    bool keep = ir_get_i(n, IR_ATTR_keepdims, 0), arg = n->op == IR_argmax || n->op == IR_argmin;
    const struct ir_attr *axes = ir_attr(n, arg ? IR_ATTR_axis : IR_ATTR_axes);
    struct deps deps = dependencies(k, v->type->rank, idx);
    if (deps.local)
        k->failed = "reduction behind an indirect index";
    for (int d = 0; d < k->dims.n; d++)
        if ((deps.dims >> d & 1) && k->dims.at[d].role == KN_INNER)
            k->failed = "a reduction for every tap or summand of another";
    if (!k->have_reduce) {
        k->have_reduce = true;
        k->reduce_outer = deps.dims;
    } else if (k->reduce_outer != deps.dims) {
        k->failed = "reductions over different rows";
    }
    if (k->failed)
        return 0;
    ir_expr extents[TCC_MAX_RANK], at[TCC_MAX_RANK];
    int dims[TCC_MAX_RANK], nreduced = 0, o = 0;
    bool reduced[TCC_MAX_RANK] = {false};
    for (int i = 0; i < (arg ? 1 : axes->n); i++)
        reduced[arg ? axes->i : axes->ints[i]] = true;
    for (int i = 0; i < x->type->rank; i++)
        if (reduced[i])
            extents[nreduced++] = x->type->dim[i];
    uint32_t inner = inner_dims(k, nreduced, extents, dims);
    nreduced = 0;
    for (int i = 0; i < x->type->rank; i++) {
        if (reduced[i]) {
            at[i] = k->dims.at[dims[nreduced++]].var;
            o += keep;
        } else {
            at[i] = idx[o++];
        }
    }
    int stage = kb_stage_new(k, inner);
    int id = kb_value(k, stage, x, at);
    struct kn_insn insn = {.nargs = 1, .arg = {id, -1, -1}};
    if (arg) {
        insn.code = KN_ARGREDUCE;
        insn.dtype = TCC_I64;
        insn.reducer = n->op == IR_argmax ? KN_MAX : KN_MIN;
        insn.ivalue = ir_get_i(n, IR_ATTR_last, 0);
        insn.arg[1] = kb_expr(k, stage, TCC_I64, at[axes->i]);
        insn.nargs = 2;
    } else {
        insn.code = KN_REDUCE;
        insn.dtype = kb_acc_dtype(x->type->dtype);
        insn.reducer = n->op == IR_reduce_sum    ? KN_SUM
                       : n->op == IR_reduce_prod ? KN_PROD
                       : n->op == IR_reduce_max  ? KN_MAX
                                                 : KN_MIN;
        insn.arg[0] = kb_cast(k, stage, id, insn.dtype);
    }
    id = kb_insn(k, stage, insn);
    kb_stage_end(k, stage);
    kb_remember(k, stage, v, idx, id);
    return id;
}

/* -- The recursion ---------------------------------------------------------------------------------------------- */

static bool constant_at(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, int *id)
{
    const struct ir_tensor *t = ir_const_of(v);
    if (!t || (k->operand_only && t->nelems != 1)) /* a contraction stays one, even with weights that are all equal */
        return false;
    int64_t linear = 0, at;
    if (!t->splat && t->nelems != 1) {
        if (t->nelems > 4096)
            return false;
        for (int i = 0; i < t->rank; i++) {
            if (!ir_is_const(idx[i], &at) || at < 0 || at >= t->dims[i])
                return false;
            linear = linear * t->dims[i] + at;
        }
    }
    const void *p = ir_tensor_at(t, linear);
    enum tcc_class class = tcc_dtype_class(t->dtype);
    if (class == TCC_CLASS_COMPLEX || class == TCC_CLASS_STRING)
        return false;
    double f = tcc_load_f64(t->dtype, p);
    *id = kb_const(k, stage, t->dtype, f, class == TCC_CLASS_FLOAT ? 0 : tcc_load_i64(t->dtype, p));
    return true;
}

static int inline_node(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    const struct ir_node *n = v->def;
    if (lw_is_reduce(n)) {
        int id = inline_reduce(k, v, idx);
        return k->failed ? 0 : kb_cast(k, stage, id, v->type->dtype);
    }
    enum ir_kind kind = ir_op_info(n->op)->kind;
    if (kind == IR_K_MAP) {
        /* Numbers that are made into bytes are stored as such: they are read often. */
        bool quantises = n->op == IR_cast && tcc_is_float(n->in[0].value->type->dtype) && tcc_is_int(v->type->dtype);
        if (k->operand_only && (n->op != IR_cast || quantises)) {
            k->failed = "computation in an operand of a contraction";
            return 0;
        }
        return inline_map(k, stage, v, idx);
    }
    const struct pass_machine *m = k->lw->machine;
    /* Bytes, and pairs of bf16: paddings with other values than zeros, or such that are there so that groups have no
     * guards. */
    bool grouped = tcc_dtype_bytes((enum tcc_dtype)v->type->dtype) == 1 ||
                   (v->type->dtype == TCC_BF16 && m->product_group && m->product_group(m, TCC_BF16, TCC_BF16) > 1);
    if (k->operand_only && n->op == IR_pad && grouped) {
        k->failed = "a padding of values that are multiplied in groups";
        return 0;
    }
    if (kind == IR_K_MOVE || kind == IR_K_SOURCE)
        return kb_move(k, stage, v, idx);
    k->failed = "an op that stands alone";
    return 0;
}

/* A sketch meets an epilogue's reads before those of an operand, a kernel after them: what both read may not be
 * computed there either. */
static void note_operand(struct kb *k, int memo)
{
    for (int i = 0; k->sketching && k->operand_only && i < k->reads.n; i++)
        if (MUTANT(353, k->reads.at[i].memo == memo, false))
            k->reads.at[i].operand = true;
}

int kb_value(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx)
{
    int id, rank = v->type->rank;
    if (k->failed)
        return 0;
    for (int m = 0; m < k->memo.n; m++)
        if (same_index(&k->memo.at[m], v, rank, idx, k->guards) &&
            kb_usable_from(k, stage, k->memo.at[m].stage, k->memo.at[m].id)) {
            id = k->memo.at[m].id;
            note_operand(k, m);
            /* A reduction's value has the accumulator's type until it is read. */
            return kb_cast(k, stage, id, v->type->dtype);
        }
    /* An anchor's value is the accumulator, whatever guards its reader stands behind. */
    for (int m = 0; k->group->anchor && v == lw_anchored(k->group) && m < k->memo.n; m++)
        if (same_index(&k->memo.at[m], v, rank, idx, k->memo.at[m].guards))
            return k->memo.at[m].id;
    if (constant_at(k, stage, v, idx, &id))
        return id;
    bool here = kb_is_here(k, v);
    /* What depends on outer dims only is computed once per outer point, in a stage of its own. */
    struct deps deps = dependencies(k, rank, idx);
    uint32_t inner = k->stages.at[stage].inner;
    bool hoist = here && inner && !k->operand_only && !deps.local && !(deps.dims & inner) && !lw_is_reduce(v->def) &&
                 ir_op_info(v->def->op)->kind == IR_K_MAP;
    if (hoist && !k->guards) {
        int outer = kb_stage_new(k, 0);
        id = kb_value(k, outer, v, idx);
        kb_stage_end(k, outer);
        return id;
    }
    if (!here) {
        id = kb_load(k, stage, v, idx);
    } else {
        id = from_row_buffer(k, stage, v, idx);
        if (id < 0)
            id = inline_node(k, stage, v, idx);
    }
    if (!(here && lw_is_reduce(v->def)))
        remember(k, stage, v, rank, idx, id);
    if (!here && kb_may_join(k, v))
        VEC_PUSH(k->ctx, k->reads, (struct kb_read){v, k->memo.n - 1, k->operand_only});
    return id;
}

/* -- Groups without an anchor -------------------------------------------------------------------------------------- */

/* The logical index of an element from the variables of the physical axes. */
void kb_logical_index(struct kb *k, ir_type t, kn_layout l, const ir_expr *physical, ir_expr *logical)
{
    if (!l) {
        for (int i = 0; i < t->rank; i++)
            logical[i] = physical[i];
        return;
    }
    for (int i = 0; i < t->rank; i++)
        logical[i] = ir_const(k->ctx, 0);
    for (int p = 0; p < l->naxes; p++)
        logical[l->at[p].axis] = ir_add(k->ctx, logical[l->at[p].axis], ir_mulc(k->ctx, physical[p], l->at[p].div));
}

/* Variables for the physical axes of v: outer ones where the mask says so (by physical axis), else inner. */
static uint32_t root_index(struct kb *k, struct ir_value *v, uint32_t outer, ir_expr *logical, uint32_t *axes)
{
    ir_expr dims[TCC_MAX_RANK], physical[TCC_MAX_RANK];
    kn_layout l = k->lw->layout[v->id];
    int n = kn_physical_dims(k->ctx, v->type, l, dims);
    uint32_t inner = 0;
    for (int role = KN_OUTER; role <= KN_INNER; role++)
        for (int p = 0; p < n; p++) {
            if ((role == KN_OUTER) != (outer >> p & 1))
                continue;
            if (ir_is_value(dims[p], 1)) {
                physical[p] = ir_const(k->ctx, 0);
                continue;
            }
            int d = kb_dim(k, dims[p], role);
            axes[d] = p;
            if (role == KN_INNER)
                inner |= 1u << d;
            physical[p] = k->dims.at[d].var;
        }
    kb_logical_index(k, v->type, l, physical, logical);
    return inner;
}

/* Guards that keep a padded index inside the logical dims. */
static int padding_guards(struct kb *k, struct ir_value *v, const ir_expr *idx, struct kn_guard *guards)
{
    int n = 0;
    if (!k->lw->layout[v->id])
        return 0;
    for (int i = 0; i < v->type->rank; i++)
        if (ir_expr_le(k->ctx, ir_addc(k->ctx, idx[i], 1), v->type->dim[i]) != IR_YES)
            guards[n++] = (struct kn_guard){idx[i], ir_const(k->ctx, 0), v->type->dim[i]};
    return n;
}

/* Stores v, worked out at idx, as element `at` of `to`; zeros in its padding. */
static void store_value(struct kb *k, int stage, struct ir_value *v, const ir_expr *idx, struct ir_value *to,
                        const ir_expr *at)
{
    struct kn_guard guards[TCC_MAX_RANK] = {{0}};
    int n = padding_guards(k, v, idx, guards), saved = kb_push_guards(k, n, guards);
    int id = kb_value(k, stage, v, idx);
    k->guards = saved;
    if (n) {
        int args[3] = {kb_inside(k, stage, n, guards), id, kb_const(k, stage, v->type->dtype, 0, 0)};
        id = kb_scalar(k, stage, IR_select, v->type->dtype, 3, args);
    }
    kb_store(k, stage, to, at, id);
}

/* The root's value at idx, stored: into its own buffer, or its piece of a concat; and a cast of it. */
void kb_store_root(struct kb *k, int stage, const struct lw_group *g, const ir_expr *idx)
{
    struct ir_value *v = g->results[0].value;
    ir_expr at[TCC_MAX_RANK];
    for (int i = 0; i < v->type->rank; i++)
        at[i] =
            g->results[0].into ? ir_add(k->ctx, ir_mulc(k->ctx, idx[i], g->into_step[i]), g->into_offset[i]) : idx[i];
    store_value(k, stage, v, idx, g->results[0].into ? g->results[0].into : v, at);
    for (int r = lw_nanchored(g); r < g->nresults; r++)
        store_value(k, stage, g->results[r].value, idx, g->results[r].value, idx);
}

static bool build_scan(struct kb *k, struct lw_group *g)
{
    struct ir_value *v = g->results[0].value, *x = g->root->in[0].value;
    int axis = ir_get_i(g->root, IR_ATTR_axis, 0);
    ir_expr idx[TCC_MAX_RANK];
    uint32_t axes[KN_MAX_DIMS];
    root_index(k, v, ~(1u << axis), idx, axes);
    if (ir_is_const(idx[axis], NULL)) {
        int d = kb_dim(k, v->type->dim[axis], KN_INNER);
        idx[axis] = k->dims.at[d].var;
    }
    int stage = kb_stage_new(k, 1u << (k->dims.n - 1));
    if (ir_get_i(g->root, IR_ATTR_reverse, 0))
        idx[axis] = ir_sub(k->ctx, ir_addc(k->ctx, v->type->dim[axis], -1), idx[axis]);
    int id = kb_value(k, stage, x, idx);
    bool rounded = ir_get_i(g->root, IR_ATTR_rounded, 0);
    struct kn_insn insn = {.code = KN_SCAN,
                           .dtype = rounded ? v->type->dtype : kb_acc_dtype(v->type->dtype),
                           .nargs = 1,
                           .reducer = g->root->op == IR_cumsum ? KN_SUM : KN_PROD,
                           .ivalue = ir_get_i(g->root, IR_ATTR_exclusive, 0)};
    insn.arg[0] = kb_cast(k, stage, id, insn.dtype);
    id = kb_cast(k, stage, kb_insn(k, stage, insn), v->type->dtype);
    kb_store(k, stage, v, idx, id);
    kb_stage_end(k, stage);
    return !k->failed;
}

static bool is_scan(const struct lw_group *g)
{
    return g->results[0].value->def == g->root && ir_op_info(g->root->op)->kind == IR_K_SCAN;
}

/* The kernel with outer dims for the physical axes in the mask, inner ones for the rest; axes[d]: the axis of dim d.
 * Returns how many dims the value has. */
static int inline_root(struct kb *k, struct lw_group *g, uint32_t outer, uint32_t *axes)
{
    ir_expr idx[TCC_MAX_RANK];
    uint32_t inner = root_index(k, g->results[0].value, outer, idx, axes);
    int nroot = k->dims.n, stage = kb_stage_new(k, inner);
    kb_store_root(k, stage, g, idx);
    kb_stage_end(k, stage);
    return nroot;
}

bool lw_sketch_inline(struct kb *k, struct lw_group *g)
{
    uint32_t axes[KN_MAX_DIMS] = {0};
    if (is_scan(g))
        return build_scan(k, g);
    inline_root(k, g, ~0u, axes);
    return !k->failed;
}

bool lw_build_inline(struct kb *k, struct lw_group *g)
{
    if (is_scan(g))
        return build_scan(k, g);
    uint32_t outer = ~0u;
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t axes[KN_MAX_DIMS] = {0};
        int nroot = inline_root(k, g, outer, axes);
        uint32_t all = nroot ? (uint32_t)((UINT64_C(1) << nroot) - 1) : 0;
        if (attempt || k->failed || !k->have_reduce || (k->reduce_outer & all) == all)
            return !k->failed;
        /* Again, with only the dims that the reductions depend on as outer ones. */
        uint32_t wanted = 0;
        for (int d = 0; d < nroot; d++)
            if (k->reduce_outer >> d & 1)
                wanted |= 1u << axes[d];
        outer = wanted;
        struct lw *lw = k->lw;
        kb_reset(k, lw, g);
    }
    return false;
}
