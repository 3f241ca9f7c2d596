/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_shape.c - which kernels attention's template takes, and how its tiles lie in shared memory: facts of the
 * kernel and the machine, without code. attention_int.h says how the template works.
 */
#include "compiler/cuda/attention_int.h"

#include "compiler/cuda/contract_int.h"

static int64_t pad(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int fa_sides(struct fa_shape *s, struct fa_side **side)
{
    side[0] = &s->q;
    side[1] = &s->k;
    side[2] = &s->v;
    side[3] = &s->dy;
    return s->gradient ? 4 : s->r.mean < 0 ? 2 : 3;
}

/* Means and sums on their way out. */
static int64_t out_bytes(struct fa_shape *s)
{
    int widest = s->k.part > s->v.part ? s->k.part : s->v.part;
    s->pitch_out = widest + 8;
    return (int64_t)4 * s->rows * (s->pitch_out + 2);
}

/* Results lie where q was, apart from what is sent for meanwhile. */
static void place_sent(struct fa_shape *s)
{
    int64_t out = out_bytes(s);
    s->q.rows = s->rows;
    s->k.rows = s->v.rows = s->bn;
    s->q.bytes = pad((int64_t)2 * s->q.rows * s->q.pitch, FA_ALIGN);
    s->k.bytes = pad((int64_t)2 * s->bn * s->k.pitch, FA_ALIGN);
    s->v.bytes = pad((int64_t)2 * s->bn * s->v.pitch, FA_ALIGN);
    s->q.at = 0;
    s->k.at = pad(s->q.bytes > out ? s->q.bytes : out, FA_ALIGN);
    s->v.at = s->k.at + s->ring * s->k.bytes;
    s->barriers = s->v.at + s->ring * s->v.bytes;
    s->bytes = s->barriers + fa_barrier_bytes(s);
}

static void place_sides(struct fa_shape *s)
{
    struct fa_side *side[4];
    int64_t bytes = tcc_dtype_bytes(s->dtype);
    int n = fa_sides(s, side);
    s->q.rows = s->dy.rows = s->rows;
    s->k.rows = s->v.rows = s->bn;
    s->pitch_p = s->engine->pad_p ? s->bn + s->engine->pad_p : 0;
    s->bytes = 0;
    for (int i = 0; i < n; i++) {
        bool columns = side[i] == &s->k || side[i] == &s->v;
        side[i]->at = s->bytes;
        side[i]->bytes = pad(bytes * side[i]->rows * side[i]->pitch, FA_ALIGN);
        s->bytes += (columns ? s->ring : 1) * side[i]->bytes;
    }
    for (int i = 0; i < s->nvectors; i++) {
        s->vectors[i].at = s->bytes;
        s->bytes += (int64_t)4 * s->ring * s->bn;
    }
    s->weights = s->bytes;
    s->bytes += (int64_t)4 * s->rows * s->pitch_p;
    int64_t out = out_bytes(s);
    s->bytes = s->bytes > out ? s->bytes : out;
}

static struct fa_side side_of(int value, int load, int row, int col)
{
    return (struct fa_side){.value = value, .load = load, .row = row, .col = col};
}

static bool find_sides(const struct kn_kernel *k, struct fa_shape *s)
{
    const struct kn_attention *r = &s->r;
    const struct kn_attention_grad *g = &s->g;
    s->gradient = k->roles.form == KN_ATTENTION_GRAD;
    if (k->roles.form == KN_ATTENTION) {
        s->r = k->roles.attention;
        s->is = &k->roles.attention.is;
        s->row = r->row;
        s->col = r->t;
        s->q = side_of(r->val_q, r->load_q, r->row, r->d);
        s->k = side_of(r->val_k, r->load_k, r->t, r->d);
        if (r->mean >= 0)
            s->v = side_of(r->val_v, r->load_v, r->t, r->e);
        return true;
    }
    if (!s->gradient)
        return false;
    s->g = k->roles.attention_grad;
    s->is = &k->roles.attention_grad.is;
    s->row = g->row;
    s->col = g->col;
    s->q = side_of(g->val_row[0], g->load_row[0], g->row, g->d);
    s->k = side_of(g->val_col[0], g->load_col[0], g->col, g->d);
    s->dy = side_of(g->val_row[1], g->load_row[1], g->row, g->e);
    s->v = side_of(g->val_col[1], g->load_col[1], g->col, g->e);
    return true;
}

/* A side whose columns are summed, some in each pass. Means of the forward kernel are all that it needs v for: it is
 * brought in parts, too. */
static void lay_out_summed(struct fa_shape *s, struct fa_side *side, int width, bool apart)
{
    struct fa_side part;
    s->engine->layout(&part, (width + s->passes - 1) / s->passes, true);
    s->engine->layout(side, width, true);
    side->part = part.columns;
    side->apart = apart && s->passes > 1;
    if (side->apart) {
        side->columns = part.columns;
        side->pitch = part.pitch;
    }
}

/* Where k and v are sent for: whole parts of 64 columns, two buffers of each, all the registers of a multiprocessor for
 * one block. */
static bool lay_out_sent(struct fa_shape *s, int nd, int ne, int most_keys)
{
    enum { PART = 64, KEYS = 128, MOST = 227 << 10 };
    s->sent = true;
    if (s->gradient || s->r.mean < 0 || nd % PART || ne % PART)
        return false;
    for (s->bn = KEYS; most_keys && s->bn > most_keys && s->bn > s->engine->least;)
        s->bn /= 2;
    place_sent(s);
    return s->bytes <= MOST;
}

/* All but the instructions and dims: by the widths of q and k, of v and dy, the type, the keys that a block has at
 * most, 0: as many as it likes, and its warpgroups, 0: it is not by wgmma; sent: by tensor copies. False: it takes more
 * shared memory than there is, or more registers. */
static bool lay_out(struct fa_shape *s, int nd, int ne, enum tcc_dtype type, int most_keys, int warpgroups, bool sent)
{
    bool alone = !s->gradient && s->r.mean < 0;
    int summed = s->gradient && nd > ne ? nd : ne,
        most = s->gradient ? FA_MOST_GRAD : FA_MOST_SUMMED, /* a gradient has two sums in registers */
        part = s->gradient ? FA_PART_GRAD : FA_PART;
    s->dtype = type;
    s->engine = type == TCC_F32 ? &fa_ffma : warpgroups ? &fa_wgmma : &fa_mma;
    s->rows = warpgroups > 1 ? FA_ROWS * warpgroups : FA_ROWS;
    s->threads = FA_THREADS / FA_ROWS * s->rows;
    s->ring = 2;
    if (warpgroups && (type == TCC_F32 || nd > FA_MOST_GRAD || ne > FA_MOST_GRAD))
        return false;
    s->passes = alone || summed <= most ? 1 : (summed + part - 1) / part;
    s->engine->layout(&s->q, nd, false);
    if (s->gradient)
        lay_out_summed(s, &s->k, nd, false);
    else
        s->engine->layout(&s->k, nd, false);
    if (!alone)
        lay_out_summed(s, &s->v, ne, !s->gradient);
    if (s->gradient)
        s->engine->layout(&s->dy, ne, false);
    if (sent)
        return lay_out_sent(s, nd, ne, most_keys);
    s->bn = s->engine->keys(alone ? nd : s->k.part > s->v.part ? s->k.part : s->v.part, s->gradient);
    while (most_keys && s->bn > most_keys && s->bn > s->engine->least)
        s->bn /= 2;
    bool wide = (s->k.part > s->v.part ? s->k.part : s->v.part) > s->engine->widest_ring;
    place_sides(s);
    if (wide || s->bytes > FA_MOST_BYTES)
        s->ring = 1;
    place_sides(s);
    for (; s->bytes > FA_MOST_BYTES && s->bn > s->engine->least; place_sides(s))
        s->bn /= 2;
    return s->bytes <= FA_MOST_BYTES;
}

static bool follows(const struct kn_kernel *k, const struct kn_insn *load, int dim)
{
    for (int i = 0; i < load->nindex && dim >= 0; i++)
        if (ir_uses_sym(load->index[i], k->dims[dim].var))
            return true;
    return false;
}

/* What a gradient's weights are made of besides scores: a float for each column (an lse), or for each row; not a
 * mask. */
static void find_vectors(const struct kn_kernel *k, struct fa_shape *s)
{
    const struct kn_stage *stage = &k->stages[kn_stage_of(k, s->g.less)];
    for (int i = stage->first; i < stage->last; i++) {
        const struct kn_insn *n = &k->insns[i];
        if (n->code != KN_LOAD || n->dtype != TCC_F32 || n->nguards || k->operands[n->operand].use == KN_LOCAL)
            continue;
        bool row = follows(k, n, s->row), col = follows(k, n, s->col);
        if (!col && s->nrow_vectors < FA_MAX_VECTORS)
            s->row_vectors[s->nrow_vectors++] = (struct fa_vector){.load = i};
        else if (col && !row && s->nvectors < FA_MAX_VECTORS)
            s->vectors[s->nvectors++] = (struct fa_vector){.load = i};
    }
}

bool cuda_attention_shape(struct ir_ctx *ctx, const struct kn_kernel *k, struct fa_shape *s)
{
    *s = (struct fa_shape){.dtype = TCC_F32};
    struct fa_side *side[4];
    if (!find_sides(k, s))
        return false;
    s->plain = kn_is_plain_score(k, s->is);
    s->scale = kn_scale_of(k, s->is);
    kn_visible(ctx, k, s->is, s->col, &s->from, &s->to);
    int n = fa_sides(s, side);
    int nd = (int)ir_const_or(k->dims[s->k.col].extent, 0);
    int ne = n > 2 ? (int)ir_const_or(k->dims[s->v.col].extent, 0) : nd;
    if (nd < 1 || ne < 1)
        return false;
    enum tcc_dtype type = cuda_factor_type(k, s->q.value);
    bool small = type == TCC_F16 || type == TCC_BF16;
    for (int i = 0; i < n; i++)
        small = small && cuda_factor_type(k, side[i]->value) == type;
    struct cuda_schedule by = k->schedule.how ? cuda_get_schedule(k) : cuda_plain_schedule(CUDA_ATTENTION);
    if (s->gradient)
        find_vectors(k, s);
    bool fits = lay_out(s, nd, ne, small ? type : TCC_F32, by.bn, by.warpgroups, cuda_has_maps(&by));
    for (int i = 0; i < n; i++) {
        int own = tcc_dtype_bytes((enum tcc_dtype)k->insns[side[i]->load].dtype);
        side[i]->width =
            own == tcc_dtype_bytes(s->dtype) ? cuda_load_width(ctx, k, side[i]->load, side[i]->col, 16 / own) : 1;
    }
    return fits;
}

/* As cuda_attention_shape() will have it; rows' logarithms alone: v NULL. */
static bool takes(ir_type q, ir_type v, bool gradient)
{
    enum { MOST = 4096 };
    int64_t d = ir_const_or(q->dim[3], -1), e = v ? ir_const_or(v->dim[3], -1) : d;
    struct fa_shape s = {.gradient = gradient, .r = {.mean = v ? 0 : -1}};
    return (q->dtype == TCC_F32 || q->dtype == TCC_F16 || q->dtype == TCC_BF16) && d >= 1 && d <= MOST && e >= 1 &&
           e <= MOST && lay_out(&s, (int)d, (int)e, (enum tcc_dtype)q->dtype, 0, 0, false);
}

bool cuda_takes_attention(const struct ir_node *n, bool gradient)
{
    return takes(n->in[0].value->type, n->in[2].value->type, gradient);
}

int64_t cuda_attention_bytes(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct fa_shape s;
    return cuda_attention_shape(ctx, k, &s) ? s.bytes : 0;
}
