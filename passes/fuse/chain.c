/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.c - launches that hand rows on become one launch of more stages, where the machine has a memory beside its
 * cores that a program chooses what to keep in (struct pass_cost's `chain`): a norm's mean, its variance, its result; a
 * cast and what sums its rows. A row of what the earlier one stores is a row buffer of the merged kernel (or a value,
 * where the row is one element), and goes to memory only if somebody else reads it. Where there is no such memory, rows
 * of one element are handed on where that pays (rows.c).
 *
 * Rows are the points of the outer dims that both kernels have in front. What the later kernel reads of a row must be
 * of the same row of what the earlier one stores, all of it: that is seen on flat offsets, so that both may have the
 * tensor in other shapes. Outer dims behind the rows become inner dims; a map over all points of a tensor is cut in
 * rows and points of a row. The later launch moves up to the earlier one, as in merge.c.
 */
#include "passes/lower_int.h"

#include <string.h>

enum { MAX_OPERANDS = 24, MAX_INSNS = 256 };

/* The merged kernel under construction. */
struct chain {
    struct lw *lw;
    struct lw_copy c;
    int nrows;    /* leading dims, */
    ir_expr row;  /* the number of a row by them, */
    int64_t rows; /* and how many rows there are */
    int *operand,
        *args; /* of a kernel's operands: that of the merged one; and buffers of the merged one's, -1: a row buffer */
};

static int outer_dims(const struct kn_kernel *k)
{
    int n = 0;
    while (n < k->ndims && k->dims[n].role == KN_OUTER)
        n++;
    return n;
}

/* Stages of sums and elementwise work over known points, on operands that are read or written. */
static const struct lw_fusable by_rows = {
    .known = true,
    .codes = KN_BIT(KN_INDEX) | KN_BIT(KN_SORT) | KN_BIT(KN_ENV) | KN_BIT(KN_SCAN),
    .uses = KN_BIT(KN_INOUT) | KN_BIT(KN_PARTIAL),
};

static int arg_of(const struct kn_step *s, int operand)
{
    const struct kn_kernel *k = s->kernel;
    return k->operands[operand].use == KN_LOCAL ? -1 : s->args[kn_argument_of(k, operand)];
}

static int64_t extent(const struct kn_kernel *k, int d)
{
    return ir_const_or(k->dims[d].extent, 0);
}

/* The rows that two kernels have in common: outer dims in front. 0: none. A map over one dim is cut in the other
 * kernel's. */
static int common_rows(const struct kn_kernel *a, const struct kn_kernel *b, const struct kn_kernel **like)
{
    int na = outer_dims(a), nb = outer_dims(b), n = na < nb ? na : nb;
    bool flat_a = kn_is_map(a) && na == 1, flat_b = kn_is_map(b) && nb == 1;
    if ((kn_is_map(a) && kn_is_map(b)) || !na || !nb || kn_is_product(b) || (kn_is_product(a) && !kn_is_map(b)))
        return 0; /* the first are merge.c's */
    *like = kn_is_map(a) ? b : a;
    if (flat_a || flat_b) {
        int64_t rows = 1, points = extent(flat_a ? a : b, 0);
        n = outer_dims(*like);
        for (int d = 0; d < n; d++)
            rows *= extent(*like, d);
        if (rows && points % rows == 0)
            return n;
        return 0;
    }
    if ((!kn_is_map(a) && na != n) || (!kn_is_map(b) && nb != n))
        return 0;
    for (int d = 0; d < n; d++)
        if (extent(a, d) != extent(b, d))
            return 0;
    return n;
}

/* The merged kernel's inner dim of that extent behind `last`; made where there is none. -1: too many dims. */
static int inner_dim(struct chain *x, ir_expr n, int last)
{
    struct kn_kernel *k = x->c.to;
    for (int d = last + 1; d < k->ndims; d++)
        if (d >= x->nrows && k->dims[d].extent == n)
            return d;
    if (k->ndims == KN_MAX_DIMS)
        return -1;
    k->dims[k->ndims] = (struct kn_dim){ir_iter_at(x->lw->ctx, k->ndims, n), n, KN_INNER};
    return k->ndims++;
}

/* What a kernel's dims are in the merged one; map[d]: an inner dim of that, *all: those that were outer ones. */
static bool place_dims(struct chain *x, const struct kn_kernel *k, int *map, uint32_t *all)
{
    struct ir_ctx *ctx = x->lw->ctx;
    int last = -1, nouter = outer_dims(k);
    bool flat = kn_is_map(k) && nouter == 1 && extent(k, 0) != x->rows;
    *all = 0;
    for (int d = 0; d < k->ndims; d++) {
        x->c.old[d] = k->dims[d].var;
        map[d] = -1;
        if (d < x->nrows && d < nouter && !flat) {
            x->c.new[d] = nouter < x->nrows ? x->row : x->c.to->dims[d].var;
            continue;
        }
        ir_expr n = flat ? ir_const(ctx, extent(k, 0) / x->rows) : k->dims[d].extent;
        if ((last = map[d] = inner_dim(x, n, last)) < 0)
            return false;
        x->c.new[d] = x->c.to->dims[last].var;
        if (flat)
            x->c.new[d] = ir_add(ctx, ir_mul(ctx, x->row, n), x->c.new[d]);
        if (d < nouter)
            *all |= 1u << last;
    }
    return true;
}

/* An access as a place within a row: its offset, and how long a row is. False: not within the row of the point that
 * accesses it. */
static bool in_row(const struct chain *x, const struct kn_operand *o, const struct kn_insn *n, ir_expr *place,
                   int64_t *length)
{
    struct ir_ctx *ctx = x->lw->ctx;
    ir_expr at = ir_const(ctx, 0);
    int64_t all = 1, size;
    for (int d = 0; d < o->rank; d++) {
        if (!ir_is_const(o->dims[d], &size))
            return false;
        all *= size;
        at = ir_add(ctx, ir_mulc(ctx, at, size), ir_subst(ctx, n->index[d], x->c.from->ndims, x->c.old, x->c.new));
    }
    if (n->nguards || all % x->rows)
        return false;
    *length = all / x->rows;
    *place = ir_sub(ctx, at, ir_mulc(ctx, x->row, *length));
    for (int d = 0; d < x->nrows; d++)
        if (ir_uses_sym(*place, x->c.to->dims[d].var))
            return false;
    return true;
}

/* The one store to an operand, of every element of a row; -1: there is none. */
static int row_store(const struct chain *x, int operand, ir_expr *place, int64_t *length)
{
    const struct kn_kernel *k = x->c.to;
    int found = kn_store_to(k, operand);
    int64_t points = 1;
    if (found < 0 || !in_row(x, &k->operands[operand], &k->insns[found], place, length))
        return -1;
    for (int s = 0; s < k->nstages; s++)
        for (int d = 0; d < k->ndims && found >= k->stages[s].first && found < k->stages[s].last; d++)
            points *= k->stages[s].inner >> d & 1 ? extent(k, d) : 1;
    return points == *length ? found : -1;
}

/* A kernel's stages behind those that are there. forward: operands_of_second()'s; NULL: all operands are the kernel's
 * own. */
static void copy_stages(struct chain *x, const struct kn_kernel *k, const int *map, uint32_t all, const int *forward)
{
    struct kn_kernel *to = x->c.to;
    for (int s = 0; s < k->nstages; s++) {
        const struct kn_stage *g = &k->stages[s];
        uint32_t inner = kn_is_map(k) ? all : 0;
        int first = to->ninsns;
        for (int d = 0; d < k->ndims; d++)
            if (g->inner >> d & 1)
                inner |= 1u << map[d];
        for (int i = g->first; i < g->last; i++) {
            const struct kn_insn *n = &k->insns[i];
            bool access = n->code == KN_LOAD || n->code == KN_STORE;
            if (access && forward && forward[n->operand] >= 0 && to->operands[x->operand[n->operand]].use != KN_LOCAL) {
                x->c.number[i] = forward[n->operand]; /* one element a row: a value */
                continue;
            }
            struct kn_insn *made = &to->insns[lw_copy_insn(&x->c, i)];
            if (!access)
                continue;
            made->operand = x->operand[n->operand];
            if (!forward || forward[n->operand] < 0)
                continue;
            ir_expr *index = IR_NEW(x->lw->ctx, ir_expr), place;
            int64_t length;
            in_row(x, &k->operands[n->operand], n, &place, &length);
            index[0] = place;
            made->index = index;
            made->nindex = 1;
        }
        lw_copy_stage(&x->c, inner, first);
    }
}

static int add_operand(struct chain *x, const struct kn_operand *o, int buffer)
{
    struct kn_kernel *k = x->c.to;
    for (int i = 0; i < k->noperands && buffer >= 0; i++)
        if (x->args[i] == buffer && k->operands[i].rank == o->rank && k->operands[i].dtype == o->dtype &&
            k->operands[i].use == o->use && !memcmp(k->operands[i].dims, o->dims, (size_t)o->rank * sizeof *o->dims))
            return i;
    x->args[k->noperands] = buffer;
    k->operands[k->noperands] = *o;
    return k->noperands++;
}

/* Is that buffer's memory named only by the two launches? */
static bool is_private(const struct lw *lw, const int *uses, int buffer)
{
    return lw->buffers.at[buffer].space == TCC_SPACE_ARENA && uses[lw_storage(lw, buffer)] == 2;
}

/* A row buffer for what instruction `store` stores, which stores it there as well; returns the operand. */
static int add_row(struct chain *x, int store, ir_expr place, int64_t length)
{
    struct kn_kernel *k = x->c.to;
    const struct kn_operand *o = &k->operands[k->insns[store].operand];
    for (int i = store + 1; i < k->ninsns && k->insns[i].code == KN_STORE; i++) /* for another reader */
        if (k->operands[k->insns[i].operand].use == KN_LOCAL && k->insns[i].arg[0] == k->insns[store].arg[0] &&
            k->insns[i].nindex == 1 && k->insns[i].index[0] == place &&
            k->operands[k->insns[i].operand].dtype == o->dtype)
            return k->insns[i].operand;
    struct kn_operand row = {.use = KN_LOCAL, .space = KN_SCRATCH, .dtype = o->dtype, .rank = 1, .name = "row"};
    row.dims[0] = ir_const(x->lw->ctx, length);
    int operand = add_operand(x, &row, -1);
    ir_expr *index = IR_NEW(x->lw->ctx, ir_expr);
    struct kn_insn n = k->insns[store];
    index[0] = place;
    n.operand = operand;
    n.index = index;
    n.nindex = 1;
    /* behind the store; nothing refers to stores */
    memmove(k->insns + store + 2, k->insns + store + 1, (size_t)(k->ninsns - store - 1) * sizeof *k->insns);
    k->insns[store + 1] = n;
    k->ninsns++;
    for (int i = store + 2; i < k->ninsns; i++)
        for (int a = 0; a < k->insns[i].nargs; a++)
            k->insns[i].arg[a] += k->insns[i].arg[a] > store;
    for (int s = 0; s < k->nstages; s++) {
        k->stages[s].first += k->stages[s].first > store;
        k->stages[s].last += k->stages[s].last > store;
    }
    return operand;
}

/* What the later launch reads of the earlier one: forward[operand of b]: 0 and up: instruction of the merged kernel
 * that gives a row's only element, or stores its elements. False: something else that both touch, or not by rows. */
static bool find_rows(struct chain *x, const struct kn_step *a, const struct kn_step *b, int *store)
{
    const struct kn_kernel *kb = b->kernel;
    bool any = false;
    for (int j = 0; j < kb->noperands; j++) {
        int buffer = arg_of(b, j);
        store[j] = -1;
        for (int i = 0; i < a->kernel->noperands && buffer >= 0; i++) {
            int other = arg_of(a, i);
            ir_expr place, mine;
            int64_t length, its;
            if (other < 0 || lw_storage(x->lw, other) != lw_storage(x->lw, buffer) ||
                (a->kernel->operands[i].use == KN_IN && kb->operands[j].use == KN_IN))
                continue;
            if (kb->operands[j].use != KN_IN || other != buffer ||
                (store[j] = row_store(x, x->operand[i], &place, &length)) < 0)
                return false;
            for (int n = 0; n < kb->ninsns; n++)
                if (kb->insns[n].code == KN_LOAD && kb->insns[n].operand == j &&
                    (!in_row(x, &kb->operands[j], &kb->insns[n], &mine, &its) || its != length))
                    return false;
            any = true;
        }
    }
    return any;
}

static struct chain open_chain(struct lw *lw, const struct kn_kernel *a, const struct kn_kernel *b,
                               const struct kn_kernel *like, int rows)
{
    struct kn_kernel *k = IR_NEW(lw->ctx, struct kn_kernel);
    int ninsns = a->ninsns + 2 * b->ninsns + 1, noperands = a->noperands + 2 * b->noperands + 1;
    struct chain x = {.lw = lw, .nrows = rows, .row = ir_const(lw->ctx, 0), .rows = 1};
    k->kind = IR_K_REDUCE;
    k->dims = IR_NEWN(lw->ctx, KN_MAX_DIMS, struct kn_dim);
    k->operands = IR_NEWN(lw->ctx, noperands, struct kn_operand);
    k->insns = IR_NEWN(lw->ctx, ninsns, struct kn_insn);
    k->stages = IR_NEWN(lw->ctx, a->nstages + b->nstages + 1, struct kn_stage);
    x.c = (struct lw_copy){.ctx = lw->ctx, .to = k, .number = IR_NEWN(lw->ctx, ninsns, int)};
    x.operand = IR_NEWN(lw->ctx, noperands, int);
    x.args = IR_NEWN(lw->ctx, noperands, int);
    for (int d = 0; d < rows; d++) {
        ir_expr n = like->dims[d].extent;
        k->dims[k->ndims++] = (struct kn_dim){ir_iter_at(lw->ctx, d, n), n, KN_OUTER};
        x.row = ir_add(lw->ctx, ir_mul(lw->ctx, x.row, n), k->dims[d].var);
        x.rows *= extent(like, d);
    }
    return x;
}

/* Bytes of a row that the merged kernel keeps. */
static int64_t row_bytes(const struct kn_kernel *k)
{
    int64_t bytes = 0;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_LOCAL)
            bytes += ir_const_or(k->operands[i].dims[0], INT32_MAX) * tcc_dtype_bytes(k->operands[i].dtype);
    return bytes;
}

/*
 * Operands of the later kernel in the merged one. from[operand]: as find_rows() has it; afterwards the value of a row's
 * only element, or at least 0 where rows are read from a row buffer. Returns operands that nobody needs any more.
 */
static uint64_t operands_of_second(struct chain *x, const int *uses, const struct kn_step *b, int *from)
{
    struct kn_kernel *k = x->c.to;
    const struct kn_kernel *kb = b->kernel;
    uint64_t drop = 0;
    for (int j = 0; j < kb->noperands; j++) {
        ir_expr place;
        int64_t length;
        int before = k->ninsns, store = from[j];
        if (store < 0) {
            x->operand[j] = add_operand(x, &kb->operands[j], arg_of(b, j));
            continue;
        }
        x->operand[j] = k->insns[store].operand;
        row_store(x, x->operand[j], &place, &length);
        if (is_private(x->lw, uses, arg_of(b, j)))
            drop |= UINT64_C(1) << x->operand[j];
        if (length == 1) {
            from[j] = k->insns[store].arg[0];
            continue;
        }
        x->operand[j] = add_row(x, store, place, length);
        for (int l = 0; l < kb->noperands; l++) /* one instruction more */
            from[l] += before < k->ninsns && l != j && from[l] > store;
    }
    return drop;
}

static void count(const struct lw *lw, int *uses, const struct kn_step *s, int n)
{
    for (int i = 0; i < s->nargs; i++)
        uses[lw_storage(lw, s->args[i])] += n;
}

/* How often memory is named: `uses`, by its buffer. */
static bool join(struct lw *lw, void *uses, struct kn_step *a, const struct kn_step *b)
{
    const struct pass_cost *cost = pass_cost(lw->machine);
    const struct kn_kernel *ka = a->kernel, *kb = b->kernel, *like;
    bool may = lw_may_fuse(a, &by_rows) && (cost->chain || lw_rows_pay(lw, a, b));
    int rows = may ? common_rows(ka, kb, &like) : 0, map[KN_MAX_DIMS];
    uint32_t all;
    if (!rows || ka->noperands + kb->noperands > MAX_OPERANDS || ka->ninsns + kb->ninsns > MAX_INSNS)
        return false;
    struct chain x = open_chain(lw, ka, kb, like, rows);
    struct kn_kernel *k = x.c.to;
    int *from = IR_NEWN(lw->ctx, kb->noperands + 1, int);
    if (x.rows < cost->chain_rows || !place_dims(&x, ka, map, &all))
        return false;
    for (int i = 0; i < ka->noperands; i++)
        x.operand[i] = add_operand(&x, &ka->operands[i], arg_of(a, i));
    x.c.from = ka;
    copy_stages(&x, ka, map, all, NULL);
    if (kn_is_product(ka)) { /* a map over its results' points goes on behind the sum */
        k->kind = ka->kind;
        k->roles = ka->roles;
        k->partial = ka->partial;
    }
    x.c.from = kb;
    if (!place_dims(&x, kb, map, &all) || (kn_is_product(ka) && all))
        return false;
    if (!find_rows(&x, a, b, from))
        return false;
    uint64_t drop = operands_of_second(&x, uses, b, from);
    copy_stages(&x, kb, map, all, from);
    for (int o = k->noperands - 1; o >= 0; o--)
        if (drop >> o & 1)
            lw_remove_operand(k, x.args, o);
    if (row_bytes(k) > cost->chain || (lw->machine->runs && !lw->machine->runs(lw->machine, lw->ctx, k)) ||
        !lw_may_change(lw))
        return false;
    count(lw, uses, a, -1);
    count(lw, uses, b, -1);
    a->kernel = k;
    a->args = IR_NEWN(lw->ctx, k->noperands + 1, int);
    a->nargs = 0;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL)
            a->args[a->nargs++] = x.args[i];
    count(lw, uses, a, 1);
    lw_merge_versions(lw, a, b);
    lw_add_kernel(lw, k);
    return true;
}

void lw_chain_launches(struct lw *lw, struct kn_entry *e)
{
    int *uses = IR_NEWN(lw->ctx, lw->buffers.n + 1, int);
    kn_count_uses(lw->buffers.at, &e->steps, uses);
    for (int i = 0; i < e->noutputs; i++)
        if (e->output_buffers[i] >= 0)
            uses[lw_storage(lw, e->output_buffers[i])]++;
    lw_merge_by(lw, &e->steps, &(struct lw_merger){.takes = by_rows, .join = join, .user = uses});
}
