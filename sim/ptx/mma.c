/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync, ldmatrix, stmatrix, movmatrix. The fragments of all shapes follow one rule (PTX ISA, "Matrix fragments"):
 * lane = 4g + t, a register holds E elements that are neighbours in k;
 *     A register r: row g + 8 (r & 1), columns E t .. + 4 E (r >> 1)      B register r: k = E t .. + 4 E r, column g
 *     C element i:  row g + 8 (i >> 1), column 2 t + (i & 1)
 * Sums are made in double and rounded once: the ISA fixes neither order nor precision of the intermediate ones.
 */
#include <stdio.h>

#include "sim/ptx/text_int.h"

static int64_t element_int(enum ptx_type t, uint64_t v)
{
    return t == PT_S8 ? (int8_t)v : (uint8_t)v;
}

static double element(enum ptx_type t, uint64_t v)
{
    uint32_t low = (uint32_t)v & 0xffffe000; /* tf32: the low 13 bits are ignored */
    float f;
    double d;
    switch (t) {
    case PT_F16: return ptx_half_to_double((uint16_t)v);
    case PT_BF16: return ptx_bf16_to_double((uint16_t)v);
    case PT_E4M3:
    case PT_E5M2: return ptx_fp8_to_double((uint8_t)v, t == PT_E5M2);
    case PT_TF32: memcpy(&f, &low, 4); return f;
    case PT_F32: memcpy(&f, &v, 4); return f;
    case PT_F64: memcpy(&d, &v, 8); return d;
    default: return (double)element_int(t, v);
    }
}

static inline int element_bytes(enum ptx_type t)
{
    return t == PT_F64 ? 8 : ptx_types[t].bytes;
}

struct shape {
    int m, n, k, na, nb, nc;
};

/* Element e of register r of a lane: A's into a[row][k], B's into b[k][column]. A row has the elements of lane 4g + t
 * side by side, four lanes' for each g. */
static void gather(enum ptx_type t, const struct ptx_warp *w, const struct ptx_op *reg, int n, bool is_b,
                   double a[32][64], double b[64][8])
{
    double v[LANES * 4];
    for (int r = 0; r < n; r++) {
        int each = 4 * (reg->bytes / element_bytes(t));
        if (t == PT_F64)
            memcpy(v, ptx_row(w, &reg[r]), LANES * sizeof *v);
        else
            w->rows->widen(v, ptx_row(w, &reg[r]), 8 * each, t);
        if (is_b)
            for (int k = 0; k < each; k++)
                for (int g = 0; g < 8; g++)
                    b[each * r + k][g] = v[each * g + k];
        else
            for (int g = 0; g < 8; g++)
                memcpy(&a[g + 8 * (r & 1)][each * (r >> 1)], v + each * g, (size_t)each * sizeof *v);
    }
}

static double accumulator(const struct ptx_warp *w, const struct ptx_op *c, enum ptx_type t, int l, int i)
{
    if (t == PT_F16)
        return ptx_half_to_double((uint16_t)(ptx_lane(w, &c[i >> 1], l) >> (16 * (i & 1))));
    uint64_t v = ptx_lane(w, &c[i], l);
    return t == PT_S32 ? (int32_t)v : element(t, v);
}

static uint64_t result(enum ptx_type t, double v, bool saturate)
{
    uint64_t r = 0;
    if (t == PT_F64) {
        memcpy(&r, &v, 8);
    } else if (t == PT_F16) {
        r = ptx_double_to_half(v, 0);
    } else if (saturate && (v > INT32_MAX || v < INT32_MIN)) {
        r = v > 0 ? INT32_MAX : (uint32_t)INT32_MIN;
    } else {
        r = (uint32_t)(int64_t)v;
    }
    return r;
}

/* Element e of a lane's accumulators. */
static inline double *at(double sum[32][8], int lane, int e)
{
    return &sum[(lane >> 2) + 8 * (e >> 1)][2 * (lane & 3) + (e & 1)];
}

/* Registers e and e + 1 of lanes 4g .. 4g + 3 are the eight sums of a row. */
static void take_floats(const struct ptx_warp *w, const struct ptx_op *c, int n, double sum[32][8])
{
    for (int e = 0; e < n; e += 2) {
        double v[2][LANES];
        for (int k = 0; k < 2; k++)
            w->rows->widen(v[k], ptx_row(w, &c[e + k]), LANES, PT_F32);
        double *to = &sum[0][0] + LANES * e;
        for (int l = 0; l < LANES; l++)
            for (int k = 0; k < 2; k++)
                to[2 * l + k] = v[k][l];
    }
}

static void put_floats(struct ptx_warp *w, const struct ptx_op *d, int n, double sum[32][8])
{
    for (int e = 0; e < n; e += 2) {
        float v[2 * LANES];
        w->rows->narrow(v, sum[4 * e], 2 * LANES);
        for (int k = 0; k < 2; k++) {
            const struct ptx_op *o = &d[e + k];
            if (o->sink)
                continue;
            float *row = (float *)(void *)(w->frame->rows + o->at);
            for (int l = 0; l < LANES; l++)
                row[l] = v[2 * l + k];
            w->frame->def[o->reg] = FULL;
        }
    }
}

static bool defined(struct ptx_warp *w, const struct ptx_op *list, int n)
{
    for (int k = 0; k < n; k++)
        if (w->frame->def[list[k].reg] != FULL)
            return false;
    return true;
}

static void count(struct ptx_warp *w, const struct ptx_insn *i, const struct shape *s)
{
    w->b->count.mma++;
    w->b->count.mma_flops += (uint64_t)(2 * s->m * 8 * s->k) * (unsigned)element_bytes((enum ptx_type)i->op) / 2;
}

void ptx_run_mma(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    const struct shape *s = (const struct shape *)i->call;
    const struct ptx_op *d = i->more, *a = d + s->nc, *b = a + s->na, *c = b + s->nb;
    double x[32][64], y[64][8], sum[32][8];
    if (mask != FULL || !ptx_whole_warp(w, mask)) {
        if (mask == w->live)
            ptx_report(w, PTX_CHECK_DIVERGED, __builtin_ctz(mask), 0, "'%s' requires 32 lanes", i->text);
        return;
    }
    if (w->b->d->dry) { /* nobody sees the sums */
        for (int r = 0; r < s->nc; r++)
            w->frame->def[d[r].reg] = FULL;
        count(w, i, s);
        return;
    }
    bool is_defined = defined(w, a, s->na + s->nb + s->nc);
    gather(i->op, w, a, s->na, false, x, y);
    gather(i->op2, w, b, s->nb, true, x, y);
    if (i->type2 == PT_F32)
        take_floats(w, c, s->nc, sum);
    else
        for (int l = 0; l < LANES; l++)
            for (int e = 0; e < s->m / 4; e++)
                *at(sum, l, e) = accumulator(w, c, i->type2, l, e);
    w->rows->product(s->m, 8, s->k, x[0], y[0], sum[0]);
    if (i->type == PT_F32) {
        put_floats(w, d, s->nc, sum);
    } else {
        for (int l = 0; l < LANES; l++) {
            uint64_t out[4];
            for (int e = 0; e < s->m / 4; e++)
                out[e] = result(i->type, *at(sum, l, e), i->flags & F_SAT);
            for (int r = 0; r < s->nc; r++)
                ptx_set(w, &d[r], l, i->type == PT_F16 ? out[2 * r] | out[2 * r + 1] << 16 : out[r]);
        }
    }
    for (int r = 0; r < s->nc && !is_defined; r++)
        w->frame->def[d[r].reg] = 0;
    count(w, i, s);
}

static bool supported(enum ptx_type a, enum ptx_type b, int m, int k)
{
    if (a != b && !((a == PT_S8 || a == PT_U8) && (b == PT_S8 || b == PT_U8)) &&
        !((a == PT_E4M3 || a == PT_E5M2) && (b == PT_E4M3 || b == PT_E5M2)))
        return false;
    switch (a) {
    case PT_F16:
    case PT_BF16: return m == 16 && (k == 8 || k == 16);
    case PT_TF32: return m == 16 && (k == 4 || k == 8);
    case PT_S8:
    case PT_U8: return (m == 16 && (k == 16 || k == 32)) || (m == 8 && k == 16);
    case PT_E4M3:
    case PT_E5M2: return m == 16 && (k == 16 || k == 32);
    case PT_F64: return (m == 8 && k == 4) || (m == 16 && (k == 4 || k == 8 || k == 16));
    default: return false;
    }
}

void ptx_decode_mma(struct ptx_parse *p, struct ptx_insn *i)
{
    struct shape *s = ptx_new(p, sizeof *s);
    bool sync = ptx_take(p, "sync");
    ptx_take(p, "aligned"), ptx_take(p, "row"), ptx_take(p, "col");
    i->flags |= (uint8_t)(ptx_take(p, "satfinite") ? F_SAT : 0);
    for (int k = 0; k < p->st.nmod && !s->m; k++)
        if (sscanf(p->st.mod[k], "m%dn%dk%d", &s->m, &s->n, &s->k) == 3)
            ptx_take(p, p->st.mod[k]);
    enum ptx_type d = ptx_take_type(p), a = ptx_take_type(p), b = ptx_take_type(p), c = ptx_take_type(p);
    bool whole = a == PT_S8 || a == PT_U8;
    if (!sync || s->n != 8 || !supported(a, b, s->m, s->k) || d != c ||
        (whole         ? d != PT_S32
         : a == PT_F64 ? d != PT_F64
                       : d != PT_F32 && (d != PT_F16 || a == PT_BF16 || a == PT_TF32)))
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    int bytes = element_bytes(a), reg = a == PT_F64 ? 8 : 4;
    s->na = s->m * s->k * bytes / (LANES * reg);
    s->nb = 8 * s->k * bytes / (LANES * reg);
    s->nc = s->m * 8 / LANES / (d == PT_F16 ? 2 : 1);
    i->type = (uint8_t)d;
    i->type2 = (uint8_t)c;
    i->op = (uint8_t)a;
    i->op2 = (uint8_t)b;
    ptx_operands(p, 4);
    int want[4] = {s->nc, s->na, s->nb, s->nc}, before = 0;
    enum ptx_type in = a == PT_F64 ? PT_B64 : PT_B32, out = d == PT_F64 ? PT_B64 : PT_B32;
    for (int k = 0; k < 4; k++) {
        ptx_vector(p, i, &p->st.op[k], k == 3 ? out : in, k == 0);
        if (i->nmore - before != want[k])
            ptx_fail(p, p->st.line, "operand %d of '%s' requires %d registers, got %d", k, i->text, want[k],
                     i->nmore - before);
        before = i->nmore;
    }
    i->call = (const struct ptx_call *)s;
    i->kind = K_RUN;
    i->fn.run = ptx_run_mma;
}

/* -- Matrices between shared memory and registers -- */

/* The 16 bytes of row l & 7 of matrix l >> 3, for the lanes that give addresses. */
static bool rows_of(struct ptx_warp *w, const struct ptx_insn *i, bool write, struct ptx_place *place)
{
    int n = i->nmore * 8;
    uint32_t mask = n == LANES ? FULL : (1u << n) - 1;
    uint64_t address[LANES];
    struct ptx_reach r;
    ptx_need_defined(w, &i->s[0], mask, "the address");
    for (int l = 0; l < n; l++)
        address[l] = ptx_lane_address(w, i, 0, l);
    bool fine = ptx_reach(w, i->space, address, mask, 16, write, &r) && !r.a;
    for (int l = 0; l < n; l++) {
        if (fine) {
            place[l] = ptx_reach_place(w, &r, address[l]);
            continue;
        }
        if (!ptx_place(w, i->space, address[l], 16, l, write, &place[l]))
            return false;
        if (place[l].space != SP_SHARED)
            return ptx_report(w, PTX_CHECK_BOUNDS, l, address[l], "'%s' requires shared memory", i->text), false;
    }
    for (int m = 0; m < i->nmore; m++)
        ptx_count_shared(w, address, 255u << (8 * m), 16);
    return true;
}

/* Of 8 rows of 8 elements a lane has two neighbours, of a row or of a column. */
static void put_matrix(struct ptx_warp *w, const struct ptx_op *o, const struct ptx_place *rows, bool transposed)
{
    uint8_t *to = w->frame->rows + o->at;
    if (o->sink)
        return;
    for (int r = 0; r < 8; r++)
        if (!transposed)
            memcpy(to + 16 * r, rows[r].data, 16);
        else
            for (int c = 0; c < 8; c++) /* element (r, c) is half r & 1 of lane 4c + r / 2 */
                memcpy(to + 4 * (4 * c + r / 2) + 2 * (r & 1), rows[r].data + 2 * c, 2);
    w->frame->def[o->reg] = FULL;
}

void ptx_run_ldmatrix(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_place place[LANES];
    if (!ptx_whole_warp(w, mask) || !rows_of(w, i, false, place))
        return;
    uint64_t at[LANES];
    bool own = true;
    for (int l = 0; l < 8 * i->nmore; l++) {
        if (!ptx_written(place[l].shadow, 16))
            ptx_check_read(w, &place[l], 16, l, place[l].offset);
        at[l] = place[l].offset;
        own &= place[l].b == w->b;
    }
    if (own)
        ptx_race_lanes(w, at, 0, i->nmore == 4 ? FULL : (1u << (8 * i->nmore)) - 1, 16, false);
    for (int l = 0; l < 8 * i->nmore && !own; l++)
        ptx_race(w, place[l].b, l, (uint32_t)place[l].offset, 16, false, 0);
    for (int m = 0; m < i->nmore; m++)
        put_matrix(w, &i->more[m], place + 8 * m, i->op2);
}

void ptx_run_stmatrix(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_place place[LANES];
    if (!ptx_whole_warp(w, mask) || !rows_of(w, i, true, place))
        return;
    for (int m = 0; m < i->nmore; m++) {
        ptx_need_defined(w, &i->more[m], mask, "the stored value");
        for (int l = 0; l < LANES; l++) {
            uint32_t v = (uint32_t)ptx_lane(w, &i->more[m], l);
            for (int e = 0; e < 2; e++) {
                uint16_t h = (uint16_t)(v >> (16 * e));
                int row = l >> 2, col = 2 * (l & 3) + e;
                memcpy(place[8 * m + (i->op2 ? col : row)].data + 2 * (i->op2 ? row : col), &h, 2);
            }
        }
    }
    for (int l = 0; l < 8 * i->nmore; l++) {
        ptx_race(w, place[l].b, l, (uint32_t)place[l].offset, 16, true, 0);
        ptx_mark_written(&place[l], 16);
    }
}

void ptx_run_movmatrix(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint16_t x[8][8];
    if (!ptx_whole_warp(w, mask))
        return;
    for (int l = 0; l < LANES; l++)
        for (int e = 0; e < 2; e++)
            x[l >> 2][2 * (l & 3) + e] = (uint16_t)(ptx_lane(w, &i->s[0], l) >> (16 * e));
    for (int l = 0; l < LANES; l++)
        ptx_set(w, &i->d, l, (uint64_t)x[2 * (l & 3) + 1][l >> 2] << 16 | x[2 * (l & 3)][l >> 2]);
}

void ptx_decode_matrix(struct ptx_parse *p, struct ptx_insn *i)
{
    bool load = p->st.opcode[0] == 'l', move = p->st.opcode[0] == 'm';
    bool fine = ptx_take(p, "sync") && ptx_take(p, "aligned") && ptx_take(p, "m8n8");
    int n = ptx_take(p, "x4") ? 4 : ptx_take(p, "x2") ? 2 : (ptx_take(p, "x1"), 1);
    i->op2 = ptx_take(p, "trans");
    i->space = ptx_take(p, "shared") || ptx_take(p, "shared::cta") ? SP_SHARED : SP_GENERIC;
    if (!fine || !ptx_take(p, "b16"))
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    ptx_operands(p, 2);
    i->kind = K_RUN;
    if (move) {
        i->d = ptx_dest(p, &p->st.op[0]);
        i->s[0] = ptx_source(p, &p->st.op[1], PT_B32);
        i->nsrc = 1;
        i->fn.run = ptx_run_movmatrix;
        return;
    }
    ptx_address(p, i, &p->st.op[load ? 1 : 0], 0);
    ptx_vector(p, i, &p->st.op[load ? 0 : 1], PT_B32, load);
    if (i->nmore != n)
        ptx_fail(p, p->st.line, "'%s' requires %d registers, got %d", i->text, n, i->nmore);
    i->fn.run = load ? ptx_run_ldmatrix : ptx_run_stmatrix;
}
