/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_means.c - attention's means: weights turned over by the tensor engine and multiplied by v, corrected and
 * added up from step to step, stored with the rows' logarithms, or kept for other keys (phases.c).
 */
#include "compiler/neuron/attention_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Weights [rows, n] as [keys, rows], n of them up to 128 partitions each; *blocks of them lie behind each other. */
static const struct nk_value *turned(struct na_attention *a, const struct na_rows *r, const struct nk_value *weights,
                                     int64_t n)
{
    struct nk *nk = a->nk;
    int64_t whole = n / NEURON_PARTITIONS, rest = n % NEURON_PARTITIONS;
    bool small = neuron_generation(nk->machine->core) > 2 && a->type != TCC_F32;
    struct nk_tile all = nk_lanes(NEURON_PARTITIONS, (whole + (rest > 0)) * r->n);
    struct nk_value out = *nk_bank(nk);
    const struct nk_value *to = nk_new(nk, &all, a->type);
    int group = ++nk->groups;
    if (small)
        out.dtype = (uint8_t)a->type, out.type = (uint8_t)nk_type(nk, a->type);
    for (int64_t j = 0; j < whole + (rest > 0); j++) {
        int64_t keys = j < whole ? NEURON_PARTITIONS : rest;
        struct nk_tile in_tile = nk_lanes(r->n, keys), out_tile = nk_lanes(keys, r->n);
        struct nk_value in = nk_from(weights, j * NEURON_PARTITIONS), place = nk_from(&out, j * r->n);
        struct neuron_instr i = {.op = NEURON_OP_PE_TRANSPOSE, .noperands = 2};
        i.operand[0] = nk_operand(nk, &out_tile, &place, 0, NULL);
        i.operand[1] = nk_operand(nk, &in_tile, &in, 0, NULL);
        nk_emit(nk, NEURON_TENSOR, &i, 2, (struct nk_use[]){{out.buffer, true, group}, {in.buffer, false, 0}});
    }
    for (int part = 0; part < 2; part++) { /* those of 128 partitions, and the last one */
        struct nk_tile t = nk_lanes(part ? rest : NEURON_PARTITIONS, (part ? 1 : whole) * r->n);
        struct nk_value x = nk_from(&out, part * whole * r->n), y = nk_from(to, part * whole * r->n);
        struct neuron_instr i = {.op = NEURON_OP_TENSOR_COPY, .noperands = 2};
        if (!(part ? rest : whole))
            continue;
        i.operand[0] = nk_operand(nk, &t, &y, 0, NULL);
        i.operand[1] = nk_operand(nk, &t, &x, 0, NULL);
        nk_emit(nk, NEURON_SCALAR, &i, 2, (struct nk_use[]){{to->buffer, true, group}, {out.buffer, false, 0}});
    }
    nk_release(nk, out.buffer);
    nk_drop(nk, weights);
    return to;
}

/* Adds part p's weights, turned over, times values to the step's means. */
static void multiply_part(struct na_attention *a, struct na_step *s, int p, const struct nk_value *weights)
{
    struct nk *nk = a->nk;
    struct nk_tile t = nk_lanes(s->rows->n, a->width);
    struct neuron_operand to = nk_operand(nk, &t, s->mean, 0, NULL);
    for (int64_t at = 0; at < s->part[p].n; at += NEURON_PARTITIONS) {
        int64_t keys = s->part[p].n - at < NEURON_PARTITIONS ? s->part[p].n - at : NEURON_PARTITIONS;
        const struct nk_value *v = s->rows->head->values[nk_block_number(s->part[p].lo + at)];
        struct nk_value left = nk_from(weights, at / NEURON_PARTITIONS * s->rows->n);
        struct nk_tile left_tile = nk_lanes(keys, s->rows->n), right_tile = nk_lanes(keys, a->width);
        struct neuron_operand stationary = nk_operand(nk, &left_tile, &left, 0, NULL),
                              moving = nk_operand(nk, &right_tile, v, 0, NULL);
        nk_multiply(nk, &to, s->mean->buffer, &stationary, left.buffer, &moving, v->buffer, p == 0 && at == 0);
    }
    nk_drop(nk, weights);
}

void na_turn_first(struct na_attention *a, struct na_step *s)
{
    for (int p = 0; p < s->nparts && p < AHEAD && a->r.mean >= 0; p++)
        s->part[p].weights = turned(a, s->rows, s->part[p].weights, s->part[p].n);
}

void na_average(struct na_attention *a, struct na_step *s)
{
    struct nk *nk = a->nk;
    s->mean = a->r.mean < 0 ? NULL : nk_bank(nk);
    for (int p = 0; p < s->nparts && s->mean; p++) {
        if (p + AHEAD < s->nparts)
            s->part[p + AHEAD].weights = turned(a, s->rows, s->part[p + AHEAD].weights, s->part[p + AHEAD].n);
        multiply_part(a, s, p, s->part[p].weights);
    }
    if (!s->last_of_head)
        return;
    for (int64_t lo = 0; lo < s->rows->head->keys_at; lo += PART)
        nk_panel_release(nk, s->rows->head->keys[lo / PART]);
    nk_drop_blocks(nk, &a->values, s->rows->head->values);
}

/* -- Logarithms ---------------------------------------------------------------------------------------------------- */

/* Columns whose logarithms are made at once: as many take as long as one, since instructions wait for each other. */
enum { MOST_COLUMNS = 64 };

static int64_t blocks_of(const struct na_attention *a)
{
    return a->nk->extent[a->r.row] / NEURON_PARTITIONS;
}

static bool is_whole(const struct na_attention *a, const struct na_rows *r)
{
    return r->n == NEURON_PARTITIONS && r->base[a->r.row] % NEURON_PARTITIONS == 0;
}

/* The stage that stores them, of `blocks` blocks of n rows from the `at`-th on, of so many heads from base's on. */
static void run_logarithms(struct na_attention *a, const struct na_logs *l, int64_t at, int64_t blocks, int64_t n)
{
    struct nk *nk = a->nk;
    int mark = nk_mark(nk);
    struct nk_tile t = {
        .n = 3, .nouter = 3, .axis = {{a->r.row, 1, n}, {l->dim, 1, l->heads}, {a->r.row, NEURON_PARTITIONS, blocks}}};
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
    struct nk_value *tops = IR_NEW(nk->ctx, struct nk_value), *sums = IR_NEW(nk->ctx, struct nk_value);
    memcpy(t.base, l->base, sizeof t.base);
    t.base[a->r.row] = at;
    if (l->heads == 1) {
        t.axis[1] = t.axis[2];
        t.n = t.nouter = 2;
    }
    *tops = *l->tops;
    *sums = *l->sums;
    for (int x = 1; x < t.n; x++)
        tops->stride[x] = sums->stride[x] = x == t.n - 1 ? 1 : (int32_t)blocks;
    made[a->r.clamped] = nk_new(nk, &t, TCC_F32);
    made[a->r.sum] = sums;
    nk_scale_by(nk, &t, made[a->r.clamped], tops, NEURON_ALU_MUL, nk_number(nk, TCC_F32, a->plain ? a->scale : 1),
                NEURON_ALU_MAX, nk_number(nk, TCC_F32, -FLT_MAX));
    nk_run_stage(nk, &t, &nk->k->stages[a->r.lse], made);
    nk_release_to(nk, mark, NULL, 0);
}

void na_join_logarithms(struct na_attention *a, struct na_head *h)
{
    struct nk *nk = a->nk;
    struct na_logs *l = a->logs;
    uint32_t heads = nk_outer_but(nk, a->r.row);
    int64_t blocks = blocks_of(a);
    int dim = nk->k->ndims - 1;
    if (a->r.lse < 0 || !blocks)
        return;
    while (dim > 0 && !(heads >> dim & 1))
        dim--;
    bool joins = l && dim == l->dim && (l->heads + 1) * blocks <= MOST_COLUMNS;
    for (int d = 0; d < nk->k->ndims && joins; d++)
        joins = h->base[d] - l->base[d] == (d == dim ? l->heads : 0);
    if (!joins) {
        int64_t most = blocks < MOST_COLUMNS ? MOST_COLUMNS / blocks : 1;
        struct nk_tile all = nk_lanes(NEURON_PARTITIONS, most * blocks);
        l = a->logs = IR_NEW(nk->ctx, struct na_logs);
        l->dim = dim;
        memcpy(l->base, h->base, sizeof l->base);
        l->tops = nk_new(nk, &all, TCC_F32);
        l->sums = nk_new(nk, &all, TCC_F32);
        l->tops->buffer->stays = l->sums->buffer->stays = true;
    }
    h->logs = l;
    h->number = l->heads++;
    l->last = h;
}

const struct nk_value *na_logarithm_of(struct na_attention *a, const struct na_rows *r, bool sums)
{
    struct nk_value *v = IR_NEW(a->nk->ctx, struct nk_value);
    if (!r->head->logs || !is_whole(a, r))
        return NULL;
    *v = nk_from(sums ? r->head->logs->sums : r->head->logs->tops,
                 r->head->number * blocks_of(a) + r->base[a->r.row] / NEURON_PARTITIONS);
    return v;
}

/* Those of rows that are no whole block. */
static void store_some(struct na_attention *a, const struct na_rows *r)
{
    struct na_logs some = {.heads = 1, .tops = r->top, .sums = r->sum};
    memcpy(some.base, r->base, sizeof some.base);
    run_logarithms(a, &some, r->base[a->r.row], 1, r->n);
}

/* Notes what the rows' logarithms are made of; the last of the last head's whole blocks makes those of all. */
static void store_logarithms(struct na_attention *a, struct na_rows *r)
{
    struct nk *nk = a->nk;
    struct na_logs *l = r->head->logs;
    struct nk_tile one = nk_lanes(r->n, 1);
    if (!l || !is_whole(a, r)) {
        store_some(a, r);
        return;
    }
    if (!r->noted) {
        nk_copy_to(nk, &one, na_logarithm_of(a, r, false), r->top);
        nk_copy_to(nk, &one, na_logarithm_of(a, r, true), r->sum);
    }
    if (r->head != l->last || r->base[a->r.row] / NEURON_PARTITIONS != blocks_of(a) - 1)
        return;
    run_logarithms(a, l, 0, blocks_of(a), NEURON_PARTITIONS);
    l->tops->buffer->stays = l->sums->buffer->stays = false;
    nk_drop(nk, l->tops);
    nk_drop(nk, l->sums);
}

/* What the rows of a turn have of other keys lies in HBM by partitions: in each of them, for each 128 rows, a row's
 * means, its sum of weights, its largest score. So it is one transfer of long rows for a head, there or back. */
static struct nk_tile state_tile(const struct na_attention *a)
{
    int64_t rows = a->nk->extent[a->r.row], blocks = (rows + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS;
    return (struct nk_tile){.n = 3,
                            .nouter = 3,
                            .axis = {{KN_MAX_DIMS - 1, 1, blocks > 1 ? NEURON_PARTITIONS : rows},
                                     {KN_MAX_DIMS - 1, 1, blocks},
                                     {KN_MAX_DIMS - 1, 1, a->width + NK_STATE_COLUMNS}}};
}

static void transfer_state(struct na_attention *a, const int64_t *base, const struct nk_value *v, bool store)
{
    struct nk *nk = a->nk;
    struct nk_tile t = state_tile(a), one = {.n = 1, .nouter = 1, .axis = {{KN_MAX_DIMS - 1, 1, 1}}};
    struct nk_buffer *tensor = nk->hbm[a->state->operand];
    int64_t n = t.axis[1].extent * t.axis[2].extent;
    struct nk_pieces pieces = {0};
    memcpy(one.base, base, sizeof one.base);
    if (!nk_pieces_of(nk, &one, a->state, &pieces))
        nk_refuse(nk, "rows' state that is not everywhere");
    struct neuron_operand far = {.space = NEURON_HBM,
                                 .type = NEURON_F32,
                                 .reg = NEURON_NO_REGISTER,
                                 .tensor = tensor->tensor,
                                 .offset = pieces.at[0].line.base * neuron_type_bytes(NEURON_F32),
                                 .ndims = 2,
                                 .size = {(uint16_t)t.axis[0].extent, (uint16_t)n},
                                 .stride = {(int32_t)n, 1}};
    struct neuron_instr i = {.op = NEURON_OP_DMA, .noperands = 2};
    i.operand[store] = nk_operand(nk, &t, v, 0, NULL);
    i.operand[!store] = far;
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = store ? NK_QUEUE_OUT : NK_QUEUE_IN});
    nk_emit(nk, store ? NEURON_GPSIMD : NEURON_SYNC, &i, 2,
            (struct nk_use[]){{v->buffer, !store, 0}, {tensor, store, 0}});
}

void na_load_state(struct na_attention *a, struct na_head *h)
{
    struct nk_tile t = state_tile(a);
    nk_begin_tile(a->nk);
    h->state = nk_new(a->nk, &t, TCC_F32);
    h->state->buffer->stays = true;
    transfer_state(a, h->base, h->state, false);
}

void na_store_none(struct na_attention *a, const struct na_head *h)
{
    struct nk *nk = a->nk;
    struct nk_tile t = state_tile(a), tops = t;
    if (!a->none) {
        a->none = nk_new(nk, &t, TCC_F32);
        a->none->buffer->stays = true;
        nk_fill(nk, &t, a->none, 0);
        struct nk_value top = nk_from(a->none, a->width + 1);
        tops.axis[2].extent = 1;
        nk_fill(nk, &tops, &top, -INFINITY);
    }
    transfer_state(a, h->base, a->none, true);
}

void na_begin_with_state(struct na_attention *a, struct na_rows *r)
{
    struct nk_value *of = IR_NEWN(a->nk->ctx, 3, struct nk_value);
    int64_t at = r->base[a->r.row] / NEURON_PARTITIONS * (a->width + NK_STATE_COLUMNS),
            to[] = {0, a->width, a->width + 1};
    for (int i = 0; i < 3; i++) {
        of[i] = nk_from(r->head->state, at + to[i]);
        of[i].stride[1] = 1;
    }
    r->mean = &of[0];
    r->sum = &of[1];
    r->top = r->kept = &of[2];
}

static void store_means(struct na_attention *a, struct na_rows *r)
{
    struct nk *nk = a->nk;
    int mark = nk_mark(nk);
    const struct kn_stage *g = &nk->k->stages[a->r.last];
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *);
    struct nk_tile t = na_tile_of(a, r, a->r.e, 0, a->width);
    struct nk_value *sum = IR_NEW(nk->ctx, struct nk_value);
    *sum = *r->sum; /* the same for all points of a row */
    sum->stride[1] = 0;
    made[a->r.mean] = r->mean;
    made[a->r.sum] = sum;
    nk->lanes = true; /* the quotient is rounded once, to what is stored */
    nk_run_stage(nk, &t, g, made);
    nk->lanes = false;
    nk_release_to(nk, mark, NULL, 0);
}

/* The kernel's last stages at these rows, or what they have by now. */
static void finish(struct na_attention *a, const struct na_step *s)
{
    struct nk *nk = a->nk;
    struct na_rows *r = s->rows;
    struct nk_tile one = nk_lanes(r->n, 1);
    if (!a->state)
        nk_begin_tile(nk);
    if (nk->keys == NK_KEYS_OTHER)
        nk_copy_to(nk, &one, r->kept, r->top);
    else if (a->r.mean >= 0)
        store_means(a, r);
    if (a->r.lse >= 0)
        store_logarithms(a, r);
    nk_drop(nk, r->mean);
    nk_drop(nk, r->sum);
    nk_drop(nk, r->top);
    nk_panel_release(nk, r->q);
    if (!a->state || !s->last_of_head)
        return;
    if (nk->keys == NK_KEYS_OTHER)
        transfer_state(a, r->head->base, r->head->state, true);
    else
        na_store_none(a, r->head);
    r->head->state->buffer->stays = false;
    nk_drop(nk, r->head->state);
}

void na_add_up(struct na_attention *a, struct na_step *s)
{
    struct nk *nk = a->nk;
    struct na_rows *r = s->rows;
    struct nk_tile one = nk_lanes(r->n, 1), t = nk_lanes(r->n, a->width);
    if (!r->sum) {
        r->sum = s->sum;
        r->mean = s->last_of_rows || !s->mean ? s->mean : nk_copy(nk, &t, TCC_F32, s->mean);
    } else {
        nk_scale_by(nk, &one, r->sum, r->sum, NEURON_ALU_MUL, s->factor, NEURON_ALU_ADD, s->sum);
        if (s->mean)
            nk_scale_by(nk, &t, r->mean, r->mean, NEURON_ALU_MUL, s->factor, NEURON_ALU_ADD, s->mean);
        nk_drop(nk, s->sum);
    }
    if (r->mean != s->mean)
        nk_drop(nk, s->mean);
    nk_drop(nk, s->factor);
    if (s->last_of_rows)
        finish(a, s);
}
