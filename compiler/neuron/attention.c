/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention as one kernel (passes/kernel/attention.c makes it): 128 rows, one a partition, with up to
 * 2048 keys at once.
 *
 *     scores of four banks of PSUM: products of panels (panel.c) of q and k; masked by the kernel's own stage, or as
 *     they are the row's largest so far by Vector; weights exp(scale score - top) by Scalar, which sums them on the way
 *     weights are turned over by the tensor engine, 128 keys at a time, and multiplied by v: sums of a row in one bank
 *     of more keys: means and sums so far by exp(old top - top)    (Milakov and Gimelshein, "Online normalizer
 *     calculation for softmax", 2018) the kernel's last stage reads means and sums; one behind it stores the rows'
 *     logarithms, for gradients
 *
 * Instructions of steps are interleaved so that no engine waits for another: weights of one, the largest score of the
 * next, the one before it turned over, scores of those that come next, as many as banks hold (of small steps several),
 * then what was turned over is multiplied, and the sums of the one before that are added. Keys that a causal mask hides
 * from all rows are left out; where it hides some, Vector selects by the place in the row as it takes scores out of
 * PSUM, and GpSimd by a pattern where they are in SBUF already.
 *
 * On trn1 NaN spreads to other rows where weights are turned over. It becomes 1 before (GpSimd, as an integer: weights
 * are no larger); the row's sum keeps it.
 */
#include "compiler/neuron/attention_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* -- Which kernels ------------------------------------------------------------------------------------------------- */

static bool plan(struct nk *nk, struct na_attention *a)
{
    const struct kn_kernel *k = nk->k;
    ir_expr from;
    *a = (struct na_attention){.nk = nk, .r = k->roles.attention};
    if (k->roles.form != KN_ATTENTION || a->r.row < 0 || nk->room < NK_ROOM || kn_has(k, KN_BIT(KN_INDEX)))
        return false;
    enum tcc_dtype d = (enum tcc_dtype)k->insns[a->r.load_q].dtype;
    if (k->insns[a->r.load_k].dtype != d || !kn_is_cast_of(k, a->r.val_q, a->r.load_q) ||
        !kn_is_cast_of(k, a->r.val_k, a->r.load_k) || (d != TCC_F32 && d != TCC_BF16 && d != TCC_F16))
        return false;
    bool means = a->r.mean >= 0;
    bool small = means && k->insns[a->r.load_v].dtype == d && d != TCC_F32 && kn_is_cast_of(k, a->r.val_v, a->r.load_v);
    a->type = small ? d : TCC_F32;
    a->keys = nk->extent[a->r.t];
    a->width = means ? nk->extent[a->r.e] : 0;
    a->q = nk_panel_new(nk, a->r.load_q, a->r.d, a->r.row, 0, -1, nk->extent[a->r.d]);
    a->k = nk_panel_new(nk, a->r.load_k, a->r.d, a->r.t, 0, -1, nk->extent[a->r.d]);
    int64_t values = (a->keys + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS * a->width * tcc_dtype_bytes(a->type);
    if (!a->q || !a->k || a->width > MOST_WIDTH || values + nk_panel_bytes(nk, a->k, a->keys) > MOST_BYTES)
        return false;
    a->values = (struct nk_blocks){.insn = small ? a->r.load_v : a->r.val_v,
                                   .type = a->type,
                                   .dim = a->r.t,
                                   .across = a->r.e,
                                   .extent = means ? a->keys : 0,
                                   .panel = a->k};
    a->plain = kn_is_plain_score(k, &a->r.is);
    a->scale = kn_scale_of(k, &a->r.is);
    kn_visible(nk->ctx, k, &a->r.is, a->r.t, &from, &a->visible);
    a->visible = nk->keys == NK_KEYS_OTHER ? NULL : a->visible;
    a->state = nk->keys ? &k->insns[k->stages[a->r.last + 1].first] : NULL;
    return true;
}

bool nk_takes_attention(struct nk *nk)
{
    struct na_attention a;
    return plan(nk, &a);
}

/* -- Small things -------------------------------------------------------------------------------------------------- */

struct nk_tile na_tile_of(const struct na_attention *a, const struct na_rows *r, int dim, int64_t lo, int64_t n)
{
    struct nk_tile t = {.n = 1, .nouter = 1, .axis = {{a->r.row, 1, r->n}}};
    memcpy(t.base, r->base, sizeof t.base);
    if (dim < 0)
        return t;
    t.base[dim] = lo;
    t.axis[t.n++] = (struct nk_axis){dim, 1, n};
    t.nouter = t.n;
    return t;
}

/* Of each row the largest of x, to `to`; group: of that write (struct nk_use). */
static void largest(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *x,
                    int group)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_REDUCE, .noperands = 2};
    int axes;
    i.operand[0] = nk_operand(nk, &one, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, t->n - 1, &axes);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_MAX});
    neuron_set_attr(&i, NEURON_ATTR_AXES, (union neuron_value){.i = axes});
    nk_emit(nk, NEURON_VECTOR, &i, 2, (struct nk_use[]){{to->buffer, true, group}, {x->buffer, false, 0}});
}

/* -- Scores and weights -------------------------------------------------------------------------------------------- */

/* How many keys the first row sees, and what each further row sees more; false: all see all, or it is not known so. */
static bool visible(const struct na_attention *a, const struct na_rows *r, int64_t *first, int64_t *more)
{
    struct nk_tile t = na_tile_of(a, r, -1, 0, 1);
    struct nk_box b = nk_whole(&t);
    struct nk_line line;
    int axis;
    int64_t at;
    if (!a->visible || nk_line_of(a->nk, &t, &b, a->visible, &line, &axis, &at) != NK_LINEAR)
        return false;
    *first = line.base;
    *more = line.coef[0];
    return true;
}

/* What each row of 128 sees more than the first. */
static const struct nk_value *seen_more(struct na_attention *a, int64_t more)
{
    if (!a->more)
        a->more = nk_ramp(a->nk, more);
    return a->more;
}

static void select_by_pattern(struct nk *nk, const struct nk_tile *t, const struct nk_value *to,
                              const struct nk_value *x, int64_t base, int64_t more)
{
    struct neuron_instr i = {.op = NEURON_OP_AFFINE_SELECT, .noperands = 2};
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_GT});
    neuron_set_attr(&i, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)-base});
    neuron_set_attr(&i, NEURON_ATTR_CHANNEL, (union neuron_value){.i = (int32_t)more});
    neuron_set_attr(&i, NEURON_ATTR_STEP0, (union neuron_value){.i = -1});
    neuron_set_attr(&i, NEURON_ATTR_FILL, (union neuron_value){.f = -INFINITY});
    nk_emit(nk, NEURON_GPSIMD, &i, 2, (struct nk_use[]){{to->buffer, true, 0}, {x->buffer, false, 0}});
}

/* Does the causal mask hide some of n keys from `lo` on? */
static bool hides(const struct na_attention *a, const struct na_rows *r, int64_t lo, int64_t n, int64_t *first,
                  int64_t *more)
{
    if (!visible(a, r, first, more))
        nk_refuse(a->nk, "a causal mask that is not linear");
    return (*more < 0 ? *first + *more * (r->n - 1) : *first) < lo + n;
}

/* What the causal mask hides of part p becomes -inf. */
static void select_visible(struct na_attention *a, struct na_step *s, int p)
{
    struct nk *nk = a->nk;
    int64_t first, more, lo = s->part[p].lo;
    struct nk_tile t = na_tile_of(a, s->rows, a->r.t, lo, s->part[p].n);
    const struct nk_value *x = s->part[p].scores;
    if (!a->visible || !hides(a, s->rows, lo, s->part[p].n, &first, &more))
        return;
    struct nk_value *to = nk_new(nk, &t, TCC_F32);
    if (x->buffer->space == NEURON_PSUM)
        nk_select_places(nk, &t, to, x, lo - first, NEURON_ALU_LT, seen_more(a, more), -INFINITY);
    else
        select_by_pattern(nk, &t, to, x, lo - first, more);
    if (!s->part[p].beside)
        nk_drop(nk, x);
    s->part[p].scores = to;
}

/* Scores of rows and keys of part p. */
static void score(struct na_attention *a, struct na_step *s, int p)
{
    struct nk *nk = a->nk;
    const struct na_rows *r = s->rows;
    int64_t lo = s->part[p].lo, n = s->part[p].n;
    struct nk_tile t = na_tile_of(a, r, a->r.t, lo, n);
    struct nk_value *x = IR_NEW(nk->ctx, struct nk_value);
    struct nk_panel *k = r->head->keys[lo / PART];
    *x = s->part[p].beside ? nk_from(s->part[p - 1].scores, s->part[p - 1].n) : *nk_bank(nk);
    struct neuron_operand to = nk_operand(nk, &t, x, 0, NULL);
    for (int64_t j = 0; j < nk_panel_products(a->q); j++) {
        struct nk_buffer *left, *right;
        struct neuron_operand q = nk_panel_operand(nk, r->q, j, r->base[a->r.row], r->n, r->base, &left),
                              key = nk_panel_operand(nk, k, j, lo, n, r->base, &right);
        nk_multiply(nk, &to, x->buffer, &q, left, &key, right, j == 0);
    }
    s->part[p].scores = x;
    if (a->plain)
        return;
    int mark = nk_mark(nk);
    const struct nk_value **made = IR_NEWN(nk->ctx, nk->k->ninsns + 1, const struct nk_value *), *v;
    made[a->r.dot] = x;
    v = nk_computed(nk, &t, nk_evaluate(nk, &t, made, a->r.is.unmasked));
    if (v->type != NEURON_F32 || v->buffer->space == NEURON_PSUM || v->is_number || !v->stride[1])
        v = nk_copy(nk, &t, TCC_F32, nk_solid(nk, &t, v));
    nk_release_to(nk, mark, &v, 1);
    nk_drop(nk, x);
    s->part[p].scores = v;
    select_visible(a, s, p);
}

/* The largest score of each part, and the one so far, a column each. */
static void find_tops(struct na_attention *a, struct na_step *s)
{
    struct nk *nk = a->nk;
    struct na_rows *r = s->rows;
    int n = s->nparts + (r->top != NULL), group = n > 1 ? ++nk->groups : 0;
    struct nk_tile columns = nk_lanes(r->n, n), one = nk_lanes(r->n, 1);
    s->top = s->last_of_rows && !r->top ? na_logarithm_of(a, r, false) : NULL;
    r->noted = s->top != NULL;
    s->top = s->top ? s->top : nk_new(nk, &one, TCC_F32);
    s->tops = n > 1 ? nk_new(nk, &columns, TCC_F32) : s->top;
    for (int p = 0; p < s->nparts && a->plain; p++)
        select_visible(a, s, p);
    for (int p = 0; p < s->nparts; p++) {
        struct nk_value to = nk_from(s->tops, p);
        struct nk_tile t = nk_lanes(r->n, s->part[p].n);
        largest(nk, &t, &to, s->part[p].scores, group);
    }
    struct nk_value last = nk_from(s->tops, s->nparts);
    if (r->top)
        nk_copy_to(nk, &one, &last, r->top);
}

/* The largest so far, and what weights take off. */
static void find_top(struct na_attention *a, struct na_step *s)
{
    struct nk *nk = a->nk;
    struct nk_tile one = nk_lanes(s->rows->n, 1), columns = nk_lanes(s->rows->n, s->nparts + (s->rows->top != NULL));
    if (s->tops != s->top) {
        largest(nk, &columns, s->top, s->tops, 0);
        nk_drop(nk, s->tops);
    }
    s->less = nk_new(nk, &one, TCC_F32);
    /* a row that sees no key has the largest score -inf, and weights 0 */
    nk_scale_by(nk, &one, s->less, s->top, NEURON_ALU_MUL, nk_number(nk, TCC_F32, a->plain ? -a->scale : -1),
                NEURON_ALU_MIN, nk_number(nk, TCC_F32, FLT_MAX));
}

/* NaN becomes 1, so that it stays in its row. */
static void bound(struct na_attention *a, const struct nk_tile *t, const struct nk_value *weights)
{
    struct nk_value bits = *weights;
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_SCALAR, .noperands = 3};
    uint32_t one = a->type == TCC_F32 ? 0x3f800000 : a->type == TCC_BF16 ? 0x3f80 : 0x3c00;
    bits.type = a->type == TCC_F32 ? NEURON_U32 : NEURON_U16;
    i.operand[0] = i.operand[1] = nk_operand(a->nk, t, &bits, 0, NULL);
    i.operand[2] = nk_literal(one);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_MIN});
    nk_emit(a->nk, NEURON_GPSIMD, &i, 2, (struct nk_use[]){{bits.buffer, true, 0}, {bits.buffer, false, 0}});
}

static void read_sum(struct nk *nk, const struct nk_tile *one, const struct nk_value *to)
{
    struct neuron_instr read = {.op = NEURON_OP_READ_ACC, .noperands = 1};
    read.operand[0] = nk_operand(nk, one, to, 0, NULL);
    nk_emit(nk, NEURON_SCALAR, &read, 1, (struct nk_use[]){{to->buffer, true, 0}});
}

static void weigh(struct na_attention *a, struct na_step *s)
{
    struct nk *nk = a->nk;
    struct na_rows *r = s->rows;
    struct nk_tile one = nk_lanes(r->n, 1);
    double scale = a->plain ? a->scale : 1;
    if (!s->tops) {
        find_tops(a, s);
        find_top(a, s);
    }
    if (r->top) {
        s->factor = nk_new(nk, &one, TCC_F32);
        nk_activate(nk, &one, NEURON_FUNC_EXP, s->factor, r->top, scale, s->less, NEURON_ACC_IDLE);
    }
    nk_drop(nk, r->top);
    r->top = s->top;
    for (int p = 0; p < s->nparts; p++) {
        struct nk_tile t = nk_lanes(r->n, s->part[p].n);
        s->part[p].weights = nk_new(nk, &t, a->type);
        nk_activate(nk, &t, NEURON_FUNC_EXP, s->part[p].weights, s->part[p].scores, scale, s->less,
                    p ? NEURON_ACC_REDUCE : NEURON_ACC_RESET_REDUCE);
        if (s->part[p].scores->buffer->space == NEURON_SBUF || !s->part[p].beside)
            nk_drop(nk, s->part[p].scores);
        if (a->r.mean < 0)
            nk_drop(nk, s->part[p].weights);
        else if (neuron_generation(nk->machine->core) == 2)
            bound(a, &t, s->part[p].weights);
    }
    s->sum = nk_new(nk, &one, TCC_F32);
    read_sum(nk, &one, s->sum);
    if (r->noted)
        read_sum(nk, &one, na_logarithm_of(a, r, true));
    nk_drop(nk, s->less);
}

/* -- All of it ----------------------------------------------------------------------------------------------------- */

static struct na_head *new_head(struct na_attention *a, const int64_t *base)
{
    struct nk *nk = a->nk;
    struct na_head *h = IR_NEW(nk->ctx, struct na_head);
    memcpy(h->base, base, sizeof h->base);
    h->keys = IR_NEWN(nk->ctx, a->keys / PART + 1, struct nk_panel *);
    h->values = IR_NEWN(nk->ctx, a->keys / NEURON_PARTITIONS + 3, const struct nk_value *);
    na_join_logarithms(a, h);
    if (a->state)
        na_load_state(a, h);
    return h;
}

/* One panel, or the values of as many keys; false: all are loaded. */
static bool load_some(struct na_attention *a, struct na_head *h)
{
    struct nk *nk = a->nk;
    bool values = h->values_at < a->values.extent;
    if (h->keys_at < a->keys && (!values || h->keys_at <= h->values_at)) {
        int64_t n = a->keys - h->keys_at < PART ? a->keys - h->keys_at : PART;
        h->keys[h->keys_at / PART] = nk_panel_copy(nk, a->k);
        nk_panel_load(nk, h->keys[h->keys_at / PART], h->base, h->keys_at, n);
        h->keys_at += n;
    } else if (values) {
        h->values_at += nk_load_blocks(nk, &a->values, h->base, h->values_at, h->values);
    } else {
        return false;
    }
    return true;
}

/* What a step looks at, up to key `last`, is loaded, and some of what comes next. */
static void load_for(struct na_attention *a, struct na_head *h, int64_t last)
{
    while ((h->keys_at < last || h->values_at < (last < a->values.extent ? last : a->values.extent)) && load_some(a, h))
        ;
    load_some(a, h);
}

/* The next head's base, or false. */
static bool next_head(const struct na_attention *a, int64_t *at)
{
    return nk_next(a->nk, nk_outer_but(a->nk, a->r.row), NULL, at);
}

/* Where the next step is. */
struct walk {
    int64_t base[KN_MAX_DIMS], row, lo, last; /* last: keys that some of the rows see end there */
    int64_t all; /* blocks of keys that all of the rows see end there; 0: it is not known */
    struct na_head *head,
        *ahead; /* NULL: another one begins, so do rows; the one behind, which is loaded step by step */
    struct na_rows *rows;
    bool ended;
};

static void begin_rows(struct na_attention *a, struct walk *w)
{
    struct nk *nk = a->nk;
    struct na_rows *r = w->rows = IR_NEW(nk->ctx, struct na_rows);
    int64_t first, more;
    memcpy(r->base, w->base, sizeof r->base);
    r->base[a->r.row] = w->row;
    r->n = nk_panel_part(a->q, nk->extent[a->r.row] - w->row, NEURON_PARTITIONS);
    r->q = nk_panel_copy(nk, a->q);
    nk_panel_load(nk, r->q, w->base, w->row, r->n);
    w->lo = 0;
    w->last = a->keys;
    w->all = 0;
    if (!visible(a, r, &first, &more))
        return;
    int64_t most = more > 0 ? first + more * (r->n - 1) : first;
    most = most < 1 ? 1 : most; /* the mask hides what the last block has beyond */
    most = (most + NEURON_PARTITIONS - 1) / NEURON_PARTITIONS * NEURON_PARTITIONS;
    w->last = most < w->last ? most : w->last;
    int64_t least = more < 0 ? first + more * (r->n - 1) : first;
    least = least < w->last ? least : w->last;
    w->all = least > 0 ? least / NEURON_PARTITIONS * NEURON_PARTITIONS : 0;
}

/* False: there are no more. */
static bool next_step(struct na_attention *a, struct walk *w, struct na_step *s)
{
    if (w->ended)
        return false;
    if (!w->rows)
        begin_rows(a, w);
    if (!w->head) {
        int64_t behind[KN_MAX_DIMS];
        memcpy(behind, w->base, sizeof behind);
        w->head = w->ahead ? w->ahead : new_head(a, w->base);
        w->ahead = next_head(a, behind) ? new_head(a, behind) : NULL;
    } else if (w->ahead) {
        load_some(a, w->ahead);
    }
    bool begins = !w->rows->head;
    w->rows->head = w->head;
    if (a->state && begins)
        na_begin_with_state(a, w->rows);
    *s = (struct na_step){.rows = w->rows};
    int64_t end = w->last < w->lo + KEYS ? w->last : w->lo + KEYS;
    load_for(a, w->head, end);
    for (int64_t n; w->lo < end && s->nparts < PARTS; w->lo += n) {
        n = nk_panel_part(a->k, end - w->lo, PART - w->lo % PART);
        n = n > NEURON_PARTITIONS ? n / NEURON_PARTITIONS * NEURON_PARTITIONS : n; /* blocks of values begin there */
        n = w->lo < w->all ? (n < w->all - w->lo ? n : w->all - w->lo) : n;
        s->part[s->nparts].beside = a->plain && s->nparts && w->lo % PART;
        s->part[s->nparts].lo = w->lo;
        s->part[s->nparts++].n = n;
    }
    s->last_of_rows = w->lo >= w->last;
    if (!s->last_of_rows)
        return true;
    w->row += w->rows->n;
    w->rows = NULL;
    s->last_of_head = w->row >= a->nk->extent[a->r.row];
    if (s->last_of_head) {
        w->head = NULL;
        w->row = 0;
        w->ended = !next_head(a, w->base);
    }
    return true;
}

/* Steps under way, those that come next among them: `made` are known of, `scored` have scores. */
enum { STEPS = 8, LOOK = PARTS };
struct steps {
    struct walk walk;
    struct na_step at[STEPS];
    int made, scored;
};

/* Banks that a step's scores take. */
static int banks_of(const struct na_step *s)
{
    int n = 0;
    for (int p = 0; p < s->nparts; p++)
        n += !s->part[p].beside;
    return n;
}

/* Scores of up to LOOK steps behind step `now`, as many as there are banks for. */
static void look_ahead(struct na_attention *a, struct steps *w, int now)
{
    int banks = 0;
    for (int i = now + 1; i < w->scored; i++)
        banks += banks_of(&w->at[i % STEPS]);
    for (; w->scored <= now + LOOK && banks < PARTS; w->scored++) {
        struct na_step *s = &w->at[w->scored % STEPS];
        if (w->made == w->scored && !next_step(a, &w->walk, s))
            return;
        w->made = w->scored + 1;
        int more = banks_of(s);
        if (banks && banks + more > PARTS)
            return;
        banks += more;
        for (int p = 0; p < s->nparts; p++)
            score(a, s, p);
    }
}

/* What rows have before any keys. */
static void begin_state(struct na_attention *a)
{
    struct na_head h = {0};
    do {
        nk_begin_tile(a->nk);
        na_store_none(a, &h);
    } while (next_head(a, h.base));
}

void nk_run_attention(struct nk *nk)
{
    struct na_attention a;
    struct steps *w = IR_NEW(nk->ctx, struct steps);
    if (!plan(nk, &a))
        nk_refuse(nk, "attention of another form");
    nk->optional = true;
    if (nk->keys == NK_KEYS_NONE) {
        begin_state(&a);
        return;
    }
    look_ahead(&a, w, -1);
    for (int i = 0; i < w->scored + 2; i++) {
        /* next: whose scores are in banks already; of large steps banks hold one, which is weighed first */
        struct na_step *next, *now = i < w->scored ? &w->at[i % STEPS] : NULL,
                       *before = i && i <= w->scored ? &w->at[(i - 1) % STEPS] : NULL;
        if (now)
            weigh(&a, now);
        next = i + 1 < w->scored ? &w->at[(i + 1) % STEPS] : NULL;
        if (next)
            find_tops(&a, next);
        else if (i > 1)
            na_add_up(&a, &w->at[(i - 2) % STEPS]);
        if (before)
            na_turn_first(&a, before);
        if (now)
            look_ahead(&a, w, i);
        if (before)
            na_average(&a, before);
        if (next && i > 1)
            na_add_up(&a, &w->at[(i - 2) % STEPS]);
        if (next)
            find_top(&a, next);
    }
}
