/* SPDX-License-Identifier: Apache-2.0 */
/*
 * added.c - a number for each own point of a product's factor as more points of the sum: what would be added to all
 * sums of a column is multiplied by ones of the other factor, so that no engine adds it. The tensor engine takes no
 * longer for it while there are partitions left.
 *
 * In 16 bits a number is three, which are what is left of it rounded in turn: all of float32's 24 bits in bf16. They
 * are made for the whole tensor at once, where a number is an element of a partition, and lie in HBM in between, from
 * where they come as rows.
 */
#include "compiler/neuron/hbm_int.h"

enum { MOST_COLUMNS = 2048 };

struct nk_added {
    const struct kn_insn *load;
    enum tcc_dtype d;
    int dim, parts;           /* own points of the factor; numbers that are one */
    int64_t n;                /* of the tensor's numbers that the kernel loads */
    struct nk_buffer *tensor; /* [parts, n] */
    const struct nk_value *ones;
};

/* Numbers from own point lo on lie side by side, from this element on; false: they don't. */
static bool place_of(struct nk *nk, const struct nk_added *a, const int64_t *base, int64_t lo, int64_t n, int64_t *at)
{
    struct nk_pieces pieces = {0};
    struct nk_tile t = {.n = 1, .nouter = 1, .axis = {{a->dim, 1, n}}};
    for (int d = 0; d < nk->k->ndims; d++)
        t.base[d] = base[d];
    t.base[a->dim] = lo;
    if (!nk_pieces_of(nk, &t, a->load, &pieces) || pieces.n != 1 || pieces.at[0].line.coef[0] != 1)
        return false;
    *at = pieces.at[0].line.base;
    return true;
}

/* How many numbers the kernel loads, side by side from the tensor's first one on; 0: otherwise. */
static int64_t all_of(struct nk *nk, const struct nk_added *a)
{
    uint32_t dims = nk_dims_of(nk, (int)(a->load - nk->k->insns));
    struct nk_pieces pieces = {0};
    struct nk_tile t = {.n = 0};
    int64_t n = 1;
    for (int d = 0; d < nk->k->ndims; d++)
        if (dims >> d & 1 && nk->extent[d] > 1)
            t.axis[t.n++] = (struct nk_axis){d, 1, nk->extent[d]};
    t.nouter = t.n;
    if (!t.n || !nk_pieces_of(nk, &t, a->load, &pieces) || pieces.n != 1 || pieces.at[0].line.base)
        return 0;
    for (int x = t.n - 1; x >= 0; n *= t.axis[x--].extent)
        if (pieces.at[0].line.coef[x] != n)
            return 0;
    return t.axis[t.n - 1].dim == a->dim ? n : 0;
}

static struct neuron_operand in_hbm(struct nk *nk, const struct nk_buffer *b, enum neuron_type type, int64_t at,
                                    int64_t rows, int64_t step, int64_t n)
{
    struct nk_pattern far = {0};
    struct neuron_operand o = {.space = NEURON_HBM,
                               .type = (uint8_t)type,
                               .reg = NEURON_NO_REGISTER,
                               .tensor = b->tensor,
                               .offset = at * neuron_type_bytes(type)};
    nk_pattern_add(&far, rows, step, true);
    nk_pattern_add(&far, n, 1, false);
    if (!nk_pattern_put(&far, &o, NEURON_DIMS))
        nk_refuse(nk, "numbers that have no pattern");
    return o;
}

static void transfer(struct nk *nk, const struct neuron_operand *to, struct nk_use written,
                     const struct neuron_operand *from, struct nk_buffer *read)
{
    bool out = to->space == NEURON_HBM;
    struct neuron_instr i = {.op = NEURON_OP_DMA, .noperands = 2, .operand = {*to, *from}};
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = out ? NK_QUEUE_OUT : NK_QUEUE_IN});
    nk_emit(nk, out ? NEURON_GPSIMD : NEURON_SYNC, &i, 2, (struct nk_use[]){written, {read, false, 0}});
}

/* What is left of x when it is rounded; nothing of what isn't finite. */
static const struct nk_value *left_of(struct nk *nk, const struct nk_tile *t, const struct nk_value *x,
                                      const struct nk_value *rounded)
{
    const struct nk_value *rest = nk_tt(nk, t, TCC_F32, NEURON_ALU_SUB, x, rounded);
    struct nk_value *bad = nk_new(nk, t, TCC_BOOL), *none = nk_number(nk, TCC_F32, 0);
    nk_scale_by(nk, t, bad, x, NEURON_ALU_MUL, none, NEURON_ALU_NE, none);
    return nk_select(nk, t, TCC_F32, bad, none, rest);
}

/* All numbers of the tensor, times `by`. */
static void make_parts(struct nk *nk, const struct nk_added *a, double by)
{
    struct nk_buffer *tensor = nk->hbm[a->load->operand];
    int64_t each = a->n / NEURON_PARTITIONS;
    int group = ++nk->groups;
    for (int64_t lo = 0, n; lo < each; lo += n) {
        n = each - lo < MOST_COLUMNS ? each - lo : MOST_COLUMNS;
        struct nk_tile t = nk_lanes(NEURON_PARTITIONS, n);
        int mark = nk_mark(nk);
        const struct nk_value *x = nk_new(nk, &t, TCC_F32);
        struct neuron_operand near = nk_operand(nk, &t, x, 0, NULL),
                              far = in_hbm(nk, tensor, NEURON_F32, lo, NEURON_PARTITIONS, each, n);
        transfer(nk, &near, (struct nk_use){x->buffer, true, 0}, &far, tensor);
        x = nk_ts(nk, &t, TCC_F32, NEURON_ALU_MUL, x, by);
        for (int i = 0; i < a->parts; i++) {
            const struct nk_value *part = a->parts > 1 ? nk_copy(nk, &t, a->d, x) : x;
            near = nk_operand(nk, &t, part, 0, NULL);
            far = in_hbm(nk, a->tensor, nk_type(nk, a->d), i * a->n + lo, NEURON_PARTITIONS, each, n);
            transfer(nk, &far, (struct nk_use){a->tensor, true, group}, &near, part->buffer);
            x = i + 1 < a->parts ? left_of(nk, &t, x, part) : NULL;
        }
        nk_release_to(nk, mark, NULL, 0);
    }
}

struct nk_added *nk_added_new(struct nk *nk, int load, int dim, enum tcc_dtype d, double by, const char *name)
{
    const struct kn_insn *n = &nk->k->insns[load];
    struct nk_added *a = IR_NEW(nk->ctx, struct nk_added);
    *a = (struct nk_added){.load = n, .d = d, .dim = dim, .parts = nk_added_rows(d)};
    if (n->code != KN_LOAD || n->nguards || n->dtype != TCC_F32 || nk->k->operands[n->operand].use != KN_IN ||
        (d != TCC_F32 && d != TCC_BF16) || !(a->n = all_of(nk, a)) || a->n % NEURON_PARTITIONS)
        return NULL;
    a->tensor = nk_add_tensor(nk, name, NEURON_TEMP, nk_type(nk, d), a->parts * a->n);
    make_parts(nk, a, by);
    struct nk_tile t = nk_lanes(a->parts, NEURON_MOVING);
    struct nk_value *ones = nk_new(nk, &t, d);
    nk_fill(nk, &t, ones, 1);
    ones->buffer->stays = true;
    a->ones = ones;
    return a;
}

int nk_added_rows(enum tcc_dtype d)
{
    return d == TCC_F32 ? 1 : 3;
}

void nk_added_load(struct nk *nk, const struct nk_added *a, const struct nk_panel *p, const int64_t *base, int64_t lo,
                   int64_t n)
{
    struct nk_use to;
    int64_t at;
    if (!place_of(nk, a, base, lo, n, &at))
        nk_refuse(nk, "numbers whose addresses are not linear");
    struct neuron_operand near = nk_panel_more(nk, p, lo, n, &to),
                          far = in_hbm(nk, a->tensor, nk_type(nk, a->d), at, a->parts, a->n, n);
    transfer(nk, &near, to, &far, a->tensor);
}

void nk_added_ones(struct nk *nk, const struct nk_added *a, const struct nk_panel *p, int64_t lo, int64_t n)
{
    struct nk_tile t = nk_lanes(a->parts, n);
    struct nk_use to;
    struct neuron_operand near = nk_panel_more(nk, p, lo, n, &to), ones = nk_operand(nk, &t, a->ones, 0, NULL);
    transfer(nk, &near, to, &ones, a->ones->buffer);
}
