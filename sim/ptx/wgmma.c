/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma (PTX ISA, "Asynchronous warpgroup level matrix instructions"). Each of the four warps computes its 16 rows;
 * operands in shared memory are found through descriptors: start, leading and stride offsets in units of 16 bytes,
 * swizzle mode. With T elements in 16 bytes and S bytes of swizzle span, element (row, k) of a K-major operand lies at
 *     no swizzle   row % 8 * 16 + row / 8 * stride + k / T * leading + k % T * size
 *     swizzle      row % 8 * S + row / 8 * stride + k * size
 * and element (row, k) of an MN-major one, W = T elements without swizzle and S / size with it, at
 *     no swizzle   row % T * size + row / T * stride + k % 8 * 16 + k / 8 * leading
 *     swizzle      row % W * size + row / W * leading + k % 8 * S + k / 8 * stride
 * and then the bits 4 to 6 of the whole address are swizzled. A product is noted when issued and computed at a moment
 * drawn from the seed, at the latest at the wait; until the wait its registers are not to be touched.
 */
#include <stdio.h>

#include "sim/grow.h"
#include "sim/ptx/text_int.h"
#include "sim/time.h"

struct form {
    int n, k, na, nd; /* registers of A (0: a descriptor) and D */
    enum ptx_type a, b, d;
    int scale_a, scale_b, trans_a, trans_b;
};

struct ptx_wgmma {
    const struct ptx_insn *i;
    const struct form *f;
    struct ptx_frame *frame;
    int group;
    struct ptx_path done;
    bool ran, scale, defined;
    uint64_t desc[2];
    uint32_t a[LANES][4];
};

static int size_of(enum ptx_type t)
{
    return ptx_types[t].bytes;
}

static double element(enum ptx_type t, const uint8_t *p)
{
    uint16_t h;
    uint32_t w;
    float f;
    switch (t) {
    case PT_F16: memcpy(&h, p, 2); return ptx_half_to_double(h);
    case PT_BF16: memcpy(&h, p, 2); return ptx_bf16_to_double(h);
    case PT_TF32:
        memcpy(&w, p, 4);
        w &= 0xffffe000;
        memcpy(&f, &w, 4);
        return f;
    case PT_S8: return (int8_t)*p;
    case PT_U8: return *p;
    default: return ptx_fp8_to_double(*p, t == PT_E5M2);
    }
}

/* -- Descriptors -- */

static uint32_t place(uint64_t desc, bool mn_major, int size, uint32_t row, uint32_t k)
{
    static const uint32_t spans[] = {0, 128, 64, 32}, masks[] = {0, 7, 3, 1};
    uint32_t start = (uint32_t)(desc & 0x3fff) << 4, leading = (uint32_t)(desc >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(desc >> 32 & 0x3fff) << 4, mode = (uint32_t)(desc >> 62), span = spans[mode];
    uint32_t s = (uint32_t)size, t = 16 / s, w = mode ? span / s : t, at;
    if (!mn_major)
        at = mode ? row % 8 * span + row / 8 * stride + k * s
                  : row % 8 * 16 + row / 8 * stride + k / t * leading + k % t * s;
    else
        at = mode ? row % w * s + row / w * leading + k % 8 * span + k / 8 * stride
                  : row % t * s + row / t * stride + k % 8 * 16 + k / 8 * leading;
    at += start;
    return at ^ ((at >> 7 & masks[mode]) << 4);
}

/* Bounds, initialisation, the proxy's fence and the swizzle of rows from `first` on, by 16 bytes. */
static bool check_operand(struct ptx_warp *w, uint64_t desc, bool mn_major, enum ptx_type type, int first, int rows,
                          int k)
{
    static const uint8_t tma_code[] = {0, 3, 2, 1}; /* descriptors and tensor maps number the swizzles differently */
    struct ptx_block *b = w->b;
    uint32_t s = (uint32_t)size_of(type), t = 16 / s;
    if (desc >> 49 & 7)
        return ptx_report(w, PTX_CHECK_DESCRIPTOR, 0, 0, "a descriptor with a base offset is not supported"), false;
    for (uint32_t r = 0; r < (uint32_t)rows; r += mn_major ? t : 1)
        for (uint32_t j = 0; j < (uint32_t)k; j += mn_major ? 1 : t) {
            uint32_t at = place(desc, mn_major, (int)s, (uint32_t)first + r, j);
            if (!ptx_in_shared(b, at, 16)) {
                ptx_beyond_shared(w, b, 0, at, 16, "read");
                return false;
            }
            if (!b->d->config.checks)
                continue;
            struct ptx_place p = {b->shared + at, b->shadow + at, SP_SHARED, at, NULL, b};
            if (!ptx_written(p.shadow, 16))
                ptx_check_read(w, &p, 16, 0, at);
            ptx_race(w, b, 0, at, 16, false, RACE_ASYNC);
            if (!ptx_proxy_read(w, b, 0, at, 16))
                return true;
            if (ptx_by_async(b, at) && b->tags[at / 128] && b->tags[at / 128] != tma_code[desc >> 62] + 1)
                return ptx_report(w, PTX_CHECK_DESCRIPTOR, 0, at,
                                  "the descriptor's swizzle is not the one with which a tensor copy wrote the operand"),
                       false;
        }
    return true;
}

/* -- Computing -- */

/* Rows of an operand in shared memory, 16 bytes at a time: element (row, k) to out[row * row_step + k * k_step]. */
static void rows_of(const struct ptx_warp *w, uint64_t desc, bool mn_major, enum ptx_type type, int first, int rows,
                    int k, double scale, double *out, int row_step, int k_step)
{
    int s = size_of(type), t = 16 / s, along = mn_major ? row_step : k_step;
    for (int r = 0; r < rows; r += mn_major ? t : 1)
        for (int j = 0; j < k; j += mn_major ? 1 : t) {
            double v[16], *to = out + r * row_step + j * k_step;
            w->rows->widen(v, w->b->shared + place(desc, mn_major, s, (uint32_t)(first + r), (uint32_t)j), t, type);
            for (int e = 0; e < t; e++)
                to[e * along] = v[e] * scale;
        }
}

static double in_register(const struct ptx_wgmma *m, int row, int k)
{
    const struct form *f = m->f;
    int s = size_of(f->a), each = 4 / s, unit = k / each, lane = (row & 7) * 4 + (unit & 3),
        reg = (row >> 3) + 2 * (unit >> 2);
    return element(f->a, (const uint8_t *)&m->a[lane][reg] + k % each * s);
}

static double accumulator(const struct ptx_wgmma *m, int lane, int e)
{
    uint32_t v;
    memcpy(&v, m->frame->rows + m->i->more[m->f->d == PT_F16 ? e / 2 : e].at + 4 * lane, 4);
    return m->f->d == PT_F16 ? ptx_half_to_double((uint16_t)(v >> (16 * (e & 1)))) : (int32_t)v;
}

/* Of other types than f32. */
static void put(const struct ptx_wgmma *m, int lane, int e, double v)
{
    const struct form *f = m->f;
    const struct ptx_op *o = &m->i->more[f->d == PT_F16 ? e / 2 : e];
    uint8_t *to = m->frame->rows + o->at + 4 * lane;
    if (f->d == PT_F16) {
        uint16_t h = ptx_double_to_half(v, 0);
        memcpy(to + 2 * (e & 1), &h, 2);
    } else {
        bool sat = m->i->flags & F_SAT;
        int32_t r = sat && v > INT32_MAX ? INT32_MAX : sat && v < INT32_MIN ? INT32_MIN : (int32_t)(uint32_t)(int64_t)v;
        memcpy(to, &r, 4);
    }
}

/* Element e of a lane's accumulators. */
static double *sum_of(const struct form *f, double *sum, int lane, int e)
{
    return &sum[((lane >> 2) + 8 * (e >> 1 & 1)) * f->n + 8 * (e >> 2) + 2 * (lane & 3) + (e & 1)];
}

static void take_sums(const struct ptx_warp *w, const struct ptx_wgmma *m, double *sum)
{
    const struct form *f = m->f;
    for (int e = 0; e < f->n / 2; e++) {
        double v[LANES];
        if (f->d == PT_F32)
            w->rows->widen(v, m->frame->rows + m->i->more[e].at, LANES, PT_F32);
        for (int l = 0; l < LANES; l++)
            *sum_of(f, sum, l, e) = f->d == PT_F32 ? v[l] : accumulator(m, l, e);
    }
}

static void put_sums(const struct ptx_warp *w, const struct ptx_wgmma *m, double *sum)
{
    const struct form *f = m->f;
    for (int e = 0; e < f->n / 2; e++) {
        double v[LANES];
        for (int l = 0; l < LANES; l++)
            v[l] = *sum_of(f, sum, l, e);
        if (f->d == PT_F32)
            w->rows->narrow((float *)(void *)(m->frame->rows + m->i->more[e].at), v, LANES);
        for (int l = 0; l < LANES && f->d != PT_F32; l++)
            put(m, l, e, v[l]);
    }
}

static void compute(struct ptx_warp *w, struct ptx_wgmma *m)
{
    const struct form *f = m->f;
    double a[16][64], b[64 * 256], sum[16 * 256];
    m->ran = true;
    if (w->b->d->dry) /* nobody sees the sums */
        return;
    if (!f->na)
        rows_of(w, m->desc[0], f->trans_a, f->a, 16 * (w->id & 3), 16, f->k, f->scale_a, a[0], 64, 1);
    for (int r = 0; r < 16 && f->na; r++)
        for (int k = 0; k < f->k; k++)
            a[r][k] = in_register(m, r, k) * f->scale_a;
    rows_of(w, m->desc[1], f->trans_b, f->b, 0, f->n, f->k, f->scale_b, b, 1, f->n);
    if (m->scale)
        take_sums(w, m, sum);
    else
        memset(sum, 0, sizeof *sum * 16 * (size_t)f->n);
    w->rows->product(16, f->n, f->k, a[0], b, sum);
    put_sums(w, m, sum);
}

void ptx_product_run(struct ptx_warp *w)
{
    for (int k = 0; k < w->nproducts; k++)
        if (!w->products[k].ran) {
            compute(w, &w->products[k]);
            return;
        }
}

/* -- Instructions -- */

static bool names(const struct ptx_wgmma *m, const struct ptx_op *o)
{
    for (int k = 0; k < m->f->nd && o->reg && !o->constant; k++)
        if (m->i->more[k].reg == o->reg)
            return true;
    return false;
}

/* An instruction while products are on their way: it must not touch their registers. */
void ptx_product_guard(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (i->fn.run == ptx_run_wgmma && i->kind == K_RUN)
        return;
    for (int k = 0; k < w->nproducts; k++) {
        const struct ptx_wgmma *m = &w->products[k];
        bool hit = m->frame == w->frame && (names(m, &i->d) || names(m, &i->d2) || names(m, &i->guard));
        for (int s = 0; s < 4 && m->frame == w->frame; s++)
            hit |= names(m, &i->s[s]);
        for (int s = 0; s < i->nmore && m->frame == w->frame; s++)
            hit |= names(m, &i->more[s]);
        if (hit) {
            ptx_report(w, PTX_CHECK_ASYNC, __builtin_ctz(mask), 0,
                       "'%s' uses a register of a wgmma of line %d that has not been waited for", i->text, m->i->line);
            return;
        }
    }
}

void ptx_run_wgmma(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    const struct form *f = (const struct form *)i->call;
    if (mask != FULL || !ptx_whole_warp(w, mask)) {
        if (mask == w->live)
            ptx_report(w, PTX_CHECK_DIVERGED, __builtin_ctz(mask), 0, "'%s' requires 32 lanes", i->text);
        return;
    }
    if (!w->product_fence && w->b->d->config.checks)
        ptx_report(w, PTX_CHECK_ASYNC, 0, 0, "'%s' without a wgmma.fence before it", i->text);
    w->product_fence = true; /* reported once */
    if (!GROWN(w->products, w->nproducts, w->product_room, 16)) {
        w->b->g->no_memory = true;
        w->b->stop = true;
        return;
    }
    struct ptx_wgmma *m = &w->products[w->nproducts];
    *m = (struct ptx_wgmma){.i = i, .f = f, .frame = w->frame, .group = w->product_group};
    ptx_need_defined(w, &i->s[2], mask, "scale-d");
    m->scale = ptx_pred(w, &i->s[2]) & 1;
    m->defined = true;
    for (int k = 0; k < f->nd && m->scale; k++)
        m->defined &= w->frame->def[i->more[k].reg] == FULL;
    for (int k = 0; k < w->nproducts && m->scale; k++) /* the last one on the same registers decides */
        if (names(&w->products[k], &i->more[0]))
            m->defined = w->products[k].defined;
    for (int s = 0; s < 2; s++) {
        if (s == 0 && f->na)
            continue;
        ptx_need_defined(w, &i->s[s], mask, "the descriptor");
        m->desc[s] = ptx_lane(w, &i->s[s], 0);
    }
    for (int k = 0; k < f->na; k++) {
        m->defined &= w->frame->def[i->more[f->nd + k].reg] == FULL;
        for (int l = 0; l < LANES; l++)
            m->a[l][k] = (uint32_t)ptx_lane(w, &i->more[f->nd + k], l);
    }
    bool reads = !w->b->d->dry;
    if ((reads && !f->na && !check_operand(w, m->desc[0], f->trans_a, f->a, 16 * (w->id & 3), 16, f->k)) ||
        (reads && !check_operand(w, m->desc[1], f->trans_b, f->b, 0, f->n, f->k)))
        return;
    m->done = ptx_path_product(w, (uint64_t)(2 * 16 * f->n * f->k) * (unsigned)size_of(f->a) / 2 / SIM_WGMMA_CORE);
    w->nproducts++;
    w->b->count.mma++;
    if ((w->id & 3) == 0)
        w->b->count.wgmma_flops += (uint64_t)(2 * 64 * f->n * f->k) * (unsigned)size_of(f->a) / 2;
}

void ptx_run_wgmma_fence(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    if (ptx_whole_warp(w, mask))
        w->product_fence = true;
}

void ptx_run_wgmma_commit(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    if (ptx_whole_warp(w, mask))
        w->product_group++;
}

void ptx_run_wgmma_wait(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    int n = 0;
    if (!ptx_whole_warp(w, mask))
        return;
    while (n < w->nproducts && w->products[n].group < w->product_group - (int)i->imm) {
        struct ptx_wgmma *m = &w->products[n++];
        if (!m->ran)
            compute(w, m);
        ptx_path_products_wait(w, m->done);
        for (int k = 0; k < m->f->nd; k++)
            m->frame->def[m->i->more[k].reg] = m->defined ? FULL : 0;
    }
    w->nproducts -= n;
    if (n)
        memmove(w->products, w->products + n, (size_t)w->nproducts * sizeof *w->products);
}

/* -- Decoding -- */

static bool supported(const struct form *f)
{
    bool whole = f->a == PT_S8 || f->a == PT_U8, fp8 = f->a == PT_E4M3 || f->a == PT_E5M2;
    int k = size_of(f->a) == 1 ? 32 : size_of(f->a) == 2 ? 16 : 8;
    bool types =
        f->a == f->b || (whole && (f->b == PT_S8 || f->b == PT_U8)) || (fp8 && (f->b == PT_E4M3 || f->b == PT_E5M2));
    bool known = whole || fp8 || f->a == PT_F16 || f->a == PT_BF16 || f->a == PT_TF32;
    bool d = whole ? f->d == PT_S32 : f->d == PT_F32 || (f->d == PT_F16 && (fp8 || f->a == PT_F16));
    bool n = f->n >= 8 && f->n <= 256 && f->n % 8 == 0 && (!whole || f->n <= 32 || f->n % 16 == 0);
    return known && types && d && n && f->k == k;
}

static int sign(struct ptx_parse *p, const struct ptx_operand *o)
{
    int64_t v = (int64_t)o->value;
    if (o->kind != O_INT || (v != 1 && v != -1))
        ptx_fail(p, p->st.line, "the scale of an operand of 'wgmma' must be 1 or -1");
    return (int)v;
}

static bool bit(struct ptx_parse *p, const struct ptx_operand *o)
{
    if (o->kind != O_INT || o->value > 1)
        ptx_fail(p, p->st.line, "the transposition of an operand of 'wgmma' must be 0 or 1");
    return o->value;
}

static void mma_async(struct ptx_parse *p, struct ptx_insn *i)
{
    struct form *f = ptx_new(p, sizeof *f);
    struct ptx_operand *o = p->st.op;
    int m = 0, n = 3;
    ptx_take(p, "sync"), ptx_take(p, "aligned");
    i->flags |= (uint8_t)(ptx_take(p, "satfinite") ? F_SAT : 0);
    for (int k = 0; k < p->st.nmod && !m; k++)
        if (sscanf(p->st.mod[k], "m%dn%dk%d", &m, &f->n, &f->k) == 3)
            ptx_take(p, p->st.mod[k]);
    f->d = ptx_take_type(p), f->a = ptx_take_type(p), f->b = ptx_take_type(p);
    if (m != 64 || !supported(f) || p->st.nop < 4)
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    f->nd = f->n / (f->d == PT_F16 ? 4 : 2);
    ptx_vector(p, i, &o[0], PT_B32, true);
    if (i->nmore != f->nd)
        ptx_fail(p, p->st.line, "'%s' requires %d registers of D, got %d", i->text, f->nd, i->nmore);
    if (o[1].kind == O_VEC) {
        f->na = 4;
        ptx_vector(p, i, &o[1], PT_B32, false);
        if (i->nmore != f->nd + 4)
            ptx_fail(p, p->st.line, "'%s' requires 4 registers of A", i->text);
        i->s[0] = (struct ptx_op){.constant = 1, .sink = 1};
    } else {
        i->s[0] = ptx_source(p, &o[1], PT_B64);
    }
    i->s[1] = ptx_source(p, &o[2], PT_B64);
    i->s[2] = ptx_source(p, &o[n++], PT_PRED);
    f->scale_a = f->scale_b = 1;
    if (f->d != PT_S32) {
        ptx_operands(p, 6 + (size_of(f->a) == 2 ? 2 - (f->na > 0) : 0));
        f->scale_a = sign(p, &o[n++]);
        f->scale_b = sign(p, &o[n++]);
        if (size_of(f->a) == 2 && !f->na)
            f->trans_a = bit(p, &o[n++]);
        if (size_of(f->a) == 2)
            f->trans_b = bit(p, &o[n++]);
    } else {
        ptx_operands(p, 4);
    }
    i->nsrc = 0;
    i->call = (const struct ptx_call *)f;
    ptx_run_by(i, ptx_run_wgmma);
}

void ptx_decode_wgmma(struct ptx_parse *p, struct ptx_insn *i)
{
    bool wait = ptx_take(p, "wait_group"), fence = ptx_take(p, "fence"), commit = ptx_take(p, "commit_group");
    if (ptx_take(p, "mma_async")) {
        mma_async(p, i);
        return;
    }
    if (!wait && !fence && !commit)
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    ptx_take(p, "sync"), ptx_take(p, "aligned");
    ptx_operands(p, wait);
    if (wait && p->st.op[0].kind != O_INT)
        ptx_fail(p, p->st.line, "'wgmma.wait_group' requires a number");
    i->imm = wait ? (int64_t)p->st.op[0].value : 0;
    i->cls = PTX_CLASS_SYNC;
    ptx_run_by(i, wait ? ptx_run_wgmma_wait : fence ? ptx_run_wgmma_fence : ptx_run_wgmma_commit);
}
