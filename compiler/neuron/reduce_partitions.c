/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_partitions.c - reductions to few results, as the norm of a gradient. With a result a partition the lanes would
 * use few of the partitions, or one: instead an inner dim is cut in pieces, up to 128 of them (256 where two cores may
 * be one), which lie on partitions, and each reduces its own. What they come to goes by HBM, in rows of one result's
 * pieces, which the lanes reduce in a second pass, followed by the kernel's other stages.
 *
 * So are reductions, to however many results, of what lies rows apart in HBM, which the lanes would load few elements
 * at a time: a piece has whole rows.
 *
 * Both passes are kernels of their own, which the lanes take as any other, in one program; they share their operands,
 * the pieces' results among them.
 */
#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

#include <math.h>

/* In ns: what the way by HBM costs (two transfers' fixed times and what their engines do about them), an element of it,
 * a byte of a long row; a cycle of Vector; an element in each partition that an index chooses. */
struct rates {
    double way, element, byte, cycle, gather;
};

static struct rates rates_of(enum neuron_core_kind core)
{
    enum { TRANSFERS = 2, BETWEEN_NS = 900 };
    const struct nk_core_cost *c = &nk_costs.core[core];
    double byte = 1 / ((double)c->dma * NEURON_DMA_ENGINES);
    return (struct rates){.way = TRANSFERS * nk_costs.transfer[NK_TRANSFER_START_NS] + BETWEEN_NS,
                          .element = nk_costs.transfer[NK_TRANSFER_LEAST_ROW] * byte,
                          .byte = byte,
                          .cycle = 1e3 / c->mhz[NEURON_VECTOR],
                          .gather =
                              1e3 * nk_costs.instr[NK_COST_DMA_GATHER_ANY_always].plus / c->mhz[NEURON_GPSIMD]};
}

/* The one reduction of a first stage that reads by an index, as a loss does at its labels; -1: none is. */
static int indexed_reduction(const struct kn_kernel *k)
{
    enum { PURE = KN_BIT(KN_LOAD) | KN_BIT(KN_SCALAR) | KN_BIT(KN_CONST) | KN_BIT(KN_EXPR) };
    int reduce = k->nstages ? k->stages[0].last - 1 : -1;
    if (!kn_has(k, KN_BIT(KN_INDEX)) || k->roles.form != KN_NO_FORM || kn_has_operand(k, KN_BIT(KN_LOCAL)) ||
        k->insns[reduce].code != KN_REDUCE || !k->stages[0].inner)
        return -1;
    for (int s = 0; s < k->nstages; s++)
        if (k->stages[s].repeat || (s && k->stages[s].inner))
            return -1;
    for (int i = 0; i < k->ninsns; i++)
        if (i != reduce && !((PURE | KN_BIT(i < reduce ? KN_INDEX : KN_STORE)) >> k->insns[i].code & 1))
            return -1;
    return reduce;
}

/* The kernel's reduction, of float32 and without guards; -1: it is of another form. */
static int only_reduction(const struct kn_kernel *k)
{
    int reduce = nk_only_reduction(k);
    if (reduce < 0)
        reduce = indexed_reduction(k);
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].nguards)
            return -1;
    return reduce >= 0 && k->insns[reduce].dtype == TCC_F32 ? reduce : -1;
}

static const struct kn_stage *first_stage(const struct kn_kernel *k)
{
    return kn_has(k, KN_BIT(KN_INDEX)) ? &k->stages[0] : kn_main_stage(k);
}

/* Do points of the dim lie side by side in HBM, as the first stage loads them? */
static bool is_along_rows(const struct kn_kernel *k, int dim)
{
    for (int i = 0; i < first_stage(k)->last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code == KN_LOAD && n->nindex && ir_uses_sym(n->index[n->nindex - 1], k->dims[dim].var))
            return true;
    }
    return false;
}

/* A partition has one, of each of the cores that may be one logical core (two_cores.c): the same pieces, and the same
 * bits, whether they are or not. */
static int64_t most_pieces(enum neuron_core_kind core)
{
    return neuron_generation(core) >= 3 ? 2 * NEURON_PARTITIONS : NEURON_PARTITIONS;
}

/* The inner dim that most pieces can be cut from, of equals the outermost; *pieces: how many. Rows of DMA stay as long
 * as it counts them. */
static int dim_to_cut(const struct kn_kernel *k, const int64_t *extent, int64_t most, int64_t *pieces)
{
    enum { LEAST_ROW = 128 };
    int best = -1;
    *pieces = 1;
    for (int d = 0; d < k->ndims; d++) {
        if (!(first_stage(k)->inner >> d & 1))
            continue;
        int64_t least = is_along_rows(k, d) ? LEAST_ROW : 1;
        for (int64_t n = most; n > *pieces; n--)
            if (extent[d] % n == 0 && extent[d] / n >= least) {
                *pieces = n;
                best = d;
            }
    }
    return best;
}

struct cut {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    int reduce, dim, nouter;
    int64_t pieces, each;
    ir_expr piece, point; /* iteration variables */
    struct kn_operand *operands;
    bool by_rows;   /* what is reduced lies rows apart */
    ir_expr *index; /* of the partial results: outer dims, piece; by_rows: the piece first */
};

static struct kn_kernel *same_operands(const struct cut *c, int ndims, int ninsns, int nstages)
{
    struct kn_kernel *k = IR_NEW(c->ctx, struct kn_kernel);
    *k = *c->k;
    k->kind = IR_K_REDUCE;
    k->roles = (struct kn_roles){0};
    k->operands = c->operands;
    k->noperands = c->k->noperands + 1;
    k->ndims = ndims;
    k->ninsns = ninsns;
    k->nstages = nstages;
    k->dims = IR_NEWN(c->ctx, ndims, struct kn_dim);
    k->insns = IR_NEWN(c->ctx, ninsns, struct kn_insn);
    k->stages = IR_NEWN(c->ctx, nstages, struct kn_stage);
    return k;
}

static struct kn_insn partial(const struct cut *c, enum kn_code code, int arg)
{
    return (struct kn_insn){.code = (uint8_t)code,
                            .dtype = TCC_F32,
                            .nargs = code == KN_STORE,
                            .nindex = (uint8_t)(c->nouter + 1),
                            .operand = c->k->noperands,
                            .index = c->index,
                            .arg = {arg, -1, -1}};
}

/* The first stage, a piece being an outer point. */
static const struct kn_kernel *first_pass(const struct cut *c)
{
    const struct kn_kernel *from = c->k;
    int last = first_stage(from)->last;
    struct kn_kernel *to = same_operands(c, from->ndims + 1, last + 1, 2);
    ir_expr var = from->dims[c->dim].var, place = ir_add(c->ctx, ir_mulc(c->ctx, c->piece, c->each), c->point);
    to->dims[0] = (struct kn_dim){c->piece, ir_const(c->ctx, c->pieces), KN_OUTER};
    for (int d = 0; d < from->ndims; d++)
        to->dims[d + 1] = from->dims[d];
    to->dims[c->dim + 1].var = c->point;
    to->dims[c->dim + 1].extent = ir_const(c->ctx, c->each);
    for (int i = 0; i < last; i++) {
        struct kn_insn *n = &to->insns[i];
        *n = from->insns[i];
        ir_expr *index = IR_NEWN(c->ctx, n->nindex + 1, ir_expr);
        for (int x = 0; x < n->nindex; x++)
            index[x] = ir_subst(c->ctx, n->index[x], 1, &var, &place);
        n->index = index;
        if (n->code == KN_EXPR)
            n->expr = ir_subst(c->ctx, n->expr, 1, &var, &place);
    }
    to->insns[last] = partial(c, KN_STORE, c->reduce);
    to->stages[0] = (struct kn_stage){.inner = first_stage(from)->inner << 1, .first = 0, .last = last};
    to->stages[1] = (struct kn_stage){.first = last, .last = last + 1};
    return to;
}

/* The pieces of a result, then the other stages. */
static const struct kn_kernel *second_pass(const struct cut *c)
{
    const struct kn_kernel *from = c->k;
    int last = first_stage(from)->last, moved = 2 - last, n = 0;
    struct kn_kernel *to = same_operands(c, c->nouter + 1, from->ninsns + moved, from->nstages);
    for (int d = 0; d < from->ndims; d++)
        if (from->dims[d].role == KN_OUTER)
            to->dims[n++] = from->dims[d];
    to->dims[n] = (struct kn_dim){c->piece, ir_const(c->ctx, c->pieces), KN_INNER};
    to->insns[0] = partial(c, KN_LOAD, -1);
    to->insns[1] = from->insns[c->reduce];
    to->insns[1].arg[0] = 0;
    for (int i = last; i < from->ninsns; i++) {
        struct kn_insn *x = &to->insns[i + moved];
        *x = from->insns[i];
        for (int a = 0; a < x->nargs; a++)
            x->arg[a] = x->arg[a] == c->reduce ? 1 : x->arg[a] >= last ? x->arg[a] + moved : x->arg[a];
    }
    to->stages[0] = (struct kn_stage){.inner = 1u << n, .first = 0, .last = 2};
    for (int s = 1; s < from->nstages; s++)
        to->stages[s] = (struct kn_stage){.first = from->stages[s].first + moved, .last = from->stages[s].last + moved};
    return to;
}

/* What DMA takes for n rows of HBM that lie beside each other over the partitions, a few numbers of each row on each of
 * them. */
static double by_rows_ns(const struct rates *r, double n, double row)
{
    double lanes = row < NEURON_PARTITIONS ? row : NEURON_PARTITIONS, one = ceil(row / lanes) * 4 * r->byte;
    return n * lanes * (one > r->element ? one : r->element);
}

static void add_piece(const struct cut *c, struct kn_operand *o)
{
    c->index[o->rank] = c->piece;
    o->dims[o->rank++] = ir_const(c->ctx, c->pieces);
}

bool nk_few(struct ir_ctx *ctx, enum neuron_core_kind core, const struct kn_kernel *k, const struct kn_kernel *pass[2])
{
    struct cut c = {.ctx = ctx, .k = k, .reduce = only_reduction(k)};
    int64_t extent[KN_MAX_DIMS], most = 1;
    double results = 1, inner = 1;
    struct rates r = rates_of(core);
    if (c.reduce < 0 || k->nstages < 2 || k->ndims + 2 > KN_MAX_DIMS || k->noperands + 1 >= NEURON_ARGUMENTS)
        return false;
    for (int d = 0; d < k->ndims; d++) {
        if (!ir_is_const(k->dims[d].extent, &extent[d]) || extent[d] < 1)
            return false;
        bool is_outer = k->dims[d].role == KN_OUTER;
        c.nouter += is_outer;
        *(is_outer ? &results : &inner) *= (double)extent[d];
        most = is_outer && extent[d] > most ? extent[d] : most;
    }
    c.dim = dim_to_cut(k, extent, most_pieces(core), &c.pieces);
    double lanes = most < NEURON_PARTITIONS ? (double)most : NEURON_PARTITIONS;
    double each = kn_has(k, KN_BIT(KN_INDEX)) ? r.gather : r.cycle;
    double saved = inner * results * each * (1 / lanes - 1 / (double)c.pieces);
    double way = r.way + results * (double)c.pieces * r.element;
    c.by_rows = !kn_has(k, KN_BIT(KN_INDEX)) && nk_is_by_rows(k);
    if (c.by_rows) {
        saved = by_rows_ns(&r, inner, results) - inner * results * 4 * r.byte;
        way = r.way + by_rows_ns(&r, (double)c.pieces, results);
    }
    if (c.dim < 0 || c.nouter + 1 > TCC_MAX_RANK || (c.pieces <= most && !c.by_rows) || saved < 2 * way)
        return false;
    c.each = extent[c.dim] / c.pieces;
    c.piece = ir_iter_at(ctx, k->ndims, ir_const(ctx, c.pieces));
    c.point = ir_iter_at(ctx, k->ndims + 1, ir_const(ctx, c.each));
    c.operands = IR_NEWN(ctx, k->noperands + 1, struct kn_operand);
    c.index = IR_NEWN(ctx, c.nouter + 1, ir_expr);
    struct kn_operand o = {.use = KN_PARTIAL, .dtype = TCC_F32, .name = "partial"};
    if (c.by_rows)
        add_piece(&c, &o);
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER) {
            c.index[o.rank] = k->dims[d].var;
            o.dims[o.rank++] = k->dims[d].extent;
        }
    if (!c.by_rows)
        add_piece(&c, &o);
    for (int i = 0; i < k->noperands; i++)
        c.operands[i] = k->operands[i];
    c.operands[k->noperands] = o;
    pass[0] = first_pass(&c);
    pass[1] = second_pass(&c);
    return true;
}
