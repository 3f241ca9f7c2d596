/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the machines by name, and their answers to passes. */
#include "compiler/emit/emit.h"
#include "compiler/neuron/neuron_int.h"
#include "ir/map.h"

#include <string.h>

/* A core's products of bf16, its HBM, and what a transfer takes at least (doc/neuron.md, "Time"). Kernels are not split
 * in pieces. */
static const struct pass_cost *cost(const struct pass_machine *m)
{
    static const struct pass_cost core = {.flops = 0x1p44,
                                          .half_flops = 0x1p46,
                                          .bandwidth = 0x1p38,
                                          .launch = 0x1p-18,
                                          .function = 16,
                                          .kernel = 400,
                                          .recomputes = 8,
                                          .chain = 32 << 10,
                                          .chain_rows = NEURON_PARTITIONS};
    (void)m;
    return &core;
}

static bool lacks(const struct pass_machine *m, enum tcc_dtype d)
{
    (void)m;
    return !nk_has_type(d);
}

/* May so many rows, or keys, be known to the run alone, or be more than fit on chip? Keys are at the rows' places then
 * (phases.c); rows alone are turns, unless a causal mask compares them with keys. A cast would be the kernel's, which
 * then is none that attention.c takes. */
static bool may_be_turns(const struct ir_node *n)
{
    ir_expr rows = n->in[0].value->type->dim[2], keys = n->in[1].value->type->dim[2];
    bool causal = ir_get_i(n, IR_ATTR_causal, 0) != 0;
    for (int i = 0; i < 3; i++) {
        const struct ir_node *from = n->in[i].value->def;
        while (from && ir_op_info(from->op)->kind == IR_K_MOVE && from->nin)
            from = from->in[0].value->def;
        if (from && from->op == IR_cast)
            return false;
    }
    bool known = ir_is_const(rows, NULL), alone = !known && ir_is_const(keys, NULL) && !causal;
    return n->op == IR_attention && (known || rows->kind == IR_X_SYM) && (rows == keys || alone);
}

/* As attention.c takes it: rows, keys and values of one type; what it finds too large then is a kernel of the lanes'.
 * The batch may be open, and rows and keys. */
static bool attention(const struct ir_node *n)
{
    enum { LEAST_ROWS = 16, MOST_WIDTH = 128 };
    ir_type q = n->in[0].value->type;
    int64_t size[3][4];
    if (q->dtype != TCC_F32 && q->dtype != TCC_BF16 && q->dtype != TCC_F16)
        return false;
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 4; d++)
            if (n->in[i].value->type->dtype != q->dtype)
                return false;
            else if (!ir_is_const(n->in[i].value->type->dim[d], &size[i][d])) {
                bool open = d == 0 ? n->in[i].value->type->dim[0]->kind == IR_X_SYM : d == 2 && may_be_turns(n);
                if (!open)
                    return false;
                size[i][d] = LEAST_ROWS;
            }
    return size[0][2] >= LEAST_ROWS && size[0][3] % 32 == 0 && size[0][3] <= MOST_WIDTH && size[2][3] <= MOST_WIDTH &&
           (size[1][2] <= NK_MOST_KEYS || may_be_turns(n));
}

static bool is_forward(const struct ir_node *n)
{
    return n->op == IR_attention || n->op == IR_attention_lse;
}

/* As attention_grad.c takes them: nothing of a head is loaded twice, and a mask that says something else for each query
 * and key would be, point by point. */
static bool takes_gradient(const struct pass_machine *m, const struct ir_node *n)
{
    enum { LEAST_ROWS = 16, MOST_BYTES = 8 << 10 };
    const struct ir_value *q = n->in[0].value, *v = n->in[2].value, *mask = NULL;
    int at = is_forward(n) ? 3 : 6;
    int64_t rows, keys, width, last;
    (void)m;
    if (n->nin > at)
        mask = n->in[at].value;
    if ((q->type->dtype != TCC_F32 && q->type->dtype != TCC_BF16 && q->type->dtype != TCC_F16) ||
        v->type->dtype != q->type->dtype || !ir_is_const(q->type->dim[2], &rows) ||
        !ir_is_const(v->type->dim[2], &keys) || !ir_is_const(q->type->dim[3], &width) ||
        !ir_is_const(v->type->dim[3], &last))
        return false;
    if (mask && mask->type->rank > 1 && !ir_is_value(mask->type->dim[mask->type->rank - 1], 1) &&
        !ir_is_value(mask->type->dim[mask->type->rank - 2], 1))
        return false;
    int64_t bytes = (rows > keys ? rows : keys) * tcc_dtype_bytes(q->type->dtype);
    return rows >= LEAST_ROWS && keys >= LEAST_ROWS && bytes <= MOST_BYTES && width % 32 == 0 && last % 32 == 0 &&
           width <= NEURON_PARTITIONS && last <= NEURON_PARTITIONS;
}

/* As max8.c sorts. */
static bool sorts(const struct ir_node *n)
{
    ir_type t = n->in[0].value->type;
    int axis = (int)ir_get_i(n, IR_ATTR_axis, 0);
    int64_t length, k;
    return (t->dtype == TCC_F32 || t->dtype == TCC_F16 || t->dtype == TCC_BF16) && ir_get_i(n, IR_ATTR_largest, 1) &&
           t->rank > 0 && ir_is_const(t->dim[axis], &length) && length > 0 &&
           ir_is_const(ir_attr(n, IR_ATTR_k)->e, &k) && k > 0 && k <= NK_SORTED;
}

/* Is there padding along a dim that is open? The attributes are of the last axes of x. */
static bool pads_open(const struct ir_node *n)
{
    const struct ir_attr *before = ir_attr(n, IR_ATTR_before), *after = ir_attr(n, IR_ATTR_after);
    ir_type x = n->in[0].value->type;
    int64_t known;
    bool open = false;
    for (int i = 0; before && i < before->n; i++)
        open |= !ir_is_const(x->dim[x->rank - before->n + i], &known) &&
                (!ir_is_value(before->exprs[i], 0) || !ir_is_value(after->exprs[i], 0));
    return open;
}

/* Convolutions with such padding read a padded copy: where a turn's windows meet the padding would depend on where it
 * is. */
static int64_t window(const struct pass_machine *m, const struct ir_node *n, enum pass_window what)
{
    (void)m;
    return what == PASS_WINDOW_PADDED && pads_open(n);
}

static bool materialise(const struct pass_machine *m, const struct ir_node *n)
{
    (void)m;
    return n->op == IR_pad && pads_open(n);
}

/* As pe.c multiplies them; before trn3 the engines have none. */
static int takes_mx(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n)
{
    enum { ROWS = 32 }; /* of packed numbers, on partitions */
    ir_type a = n->in[0].value->type, y = n->out[0]->type;
    int64_t k;
    enum neuron_core_kind core = ((const struct nk_machine *)m)->core;
    if (neuron_generation(core) < 4)
        return ir_error(ctx, &n->where, "%s multiplies no MX formats (--auto-cast=mxfp8); trn3 does",
                        neuron_core_name(core)),
               -1;
    for (int i = 0; i < 2; i++) /* Vector quantises 16 bits; lanes multiply by a vector */
        if (tcc_dtype_bytes((enum tcc_dtype)n->in[i].value->type->dtype) != 2 ||
            ir_is_value(y->dim[y->rank - 1 - i], 1))
            return 0;
    return ir_is_const(a->dim[a->rank - (ir_get_i(n, IR_ATTR_trans_a, 0) ? 2 : 1)], &k) && k % (4 * ROWS) == 0;
}

static bool takes(const struct pass_machine *m, const struct ir_node *n, int result)
{
    if (ir_op_info(n->op)->kind == IR_K_SORT)
        return sorts(n);
    return is_forward(n) && !result ? attention(n) : takes_gradient(m, n);
}

static bool runs(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    if (k->schedule.how) /* it came with the text */
        return strcmp(k->schedule.how, "host") != 0;
    return nk_programs(ctx, (const struct nk_machine *)m, k)->fine;
}

/* "engines", or "host" where they can't run it. The host runs tiles point by point. */
static void schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    k->schedule = (struct kn_schedule){.how = runs(m, ctx, k) ? "engines" : "host"};
    for (int i = 0; i < em_nouter(k); i++)
        k->schedule.tile[i] = 1;
    k->tiles = em_tile_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, 1);
}

static bool verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    (void)m;
    if ((!strcmp(k->schedule.how, "engines") || !strcmp(k->schedule.how, "host")) && !k->schedule.nparams)
        return true;
    return ir_error(ctx, NULL, "kernel %s: unknown schedule '%s'; expected engines or host", ir_shown(k->name),
                    ir_shown(k->schedule.how));
}

const struct nk_machine *nk_machine_make(struct ir_ctx *ctx, const char *arch)
{
    static const struct pass_memory memory = {"neuron", false};
    size_t length = strcspn(arch, "-");
    const char *said = arch + length;
    for (int c = 0; c < NEURON_NCORES; c++) {
        const char *name = neuron_core_name((enum neuron_core_kind)c);
        int generation = neuron_generation((enum neuron_core_kind)c);
        if (strlen(name) != length || strncmp(name, arch, length) ||
            (*said && strcmp(said, NEURON_LNC1) && strcmp(said, NEURON_LNC2)))
            continue;
        if (!strcmp(said, NEURON_LNC2) && generation < 3)
            return ir_error(ctx, NULL, "a logical core of %s is one physical core; two are for trn2 and trn3", name),
                   NULL;
        struct nk_machine *m = IR_NEW(ctx, struct nk_machine);
        m->core = (enum neuron_core_kind)c;
        m->programs = IR_NEW(ctx, struct ir_map);
        m->lnc = !*said ? NEURON_DEFAULT_LNC(generation) : strcmp(said, NEURON_LNC2) ? 1 : 2;
        m->pass = (struct pass_machine){.name = "neuron",
                                        .memory = &memory,
                                        .silent = true,
                                        .gelu = true,
                                        .cost = cost,
                                        .lacks = lacks,
                                        .takes_mx = takes_mx,
                                        .window = window,
                                        .materialise = materialise,
                                        .takes = takes,
                                        .takes_gradient = takes_gradient,
                                        .runs = runs,
                                        .schedule = schedule,
                                        .verify_schedule = verify_schedule};
        return m;
    }
    return ir_error(ctx, NULL, "unknown target neuron:%s; expected neuron:trn1, neuron:trn2 or neuron:trn3",
                    ir_shown(arch)),
           NULL;
}
