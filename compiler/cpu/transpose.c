/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transpose.c - a square of vectors transposed in registers, by shuffles that are one instruction each: pairs of
 * 32-bit, then of 64-bit elements inside 128-bit lanes, then the 128-bit lanes themselves. And register tiles whose
 * results lie so.
 */
#include "compiler/cpu/contract_emit_int.h"
#include "compiler/emit/loops.h"

static LLVMValueRef shuffle(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *index)
{
    LLVMValueRef mask[16];
    for (int i = 0; i < g->lanes; i++)
        mask[i] = LLVMConstInt(g->e->t_i32, (unsigned)index[i], 0);
    return LLVMBuildShuffleVector(g->e->b, a, b, LLVMConstVector(mask, (unsigned)g->lanes), "");
}

/* Inside each 128-bit lane: elements pick[0..3] of the eight that a's and b's lane hold. */
static LLVMValueRef in_lanes(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *pick)
{
    int index[16];
    for (int i = 0; i < g->lanes; i++)
        index[i] = i / 4 * 4 + pick[i % 4] % 4 + (pick[i % 4] >= 4 ? g->lanes : 0);
    return shuffle(g, a, b, index);
}

/* 128-bit lanes lane[..] of a's and b's. */
static LLVMValueRef lanes_of(struct cg *g, LLVMValueRef a, LLVMValueRef b, const int *lane)
{
    int index[16];
    for (int i = 0; i < g->lanes; i++)
        index[i] = lane[i / 4] * 4 + i % 4;
    return shuffle(g, a, b, index);
}

void cg_transpose(struct cg *g, LLVMValueRef *v)
{
    static const int lo32[] = {0, 4, 1, 5}, hi32[] = {2, 6, 3, 7}, lo64[] = {0, 1, 4, 5}, hi64[] = {2, 3, 6, 7};
    static const int halves[2][2] = {{0, 2}, {1, 3}}, even[] = {0, 2, 4, 6}, odd[] = {1, 3, 5, 7};
    int w = g->lanes, groups = w / 4;
    LLVMValueRef u[4][4], out[16]; /* u[group][i]: step 4 * lane + i of the group's four columns, in each lane */
    for (int q = 0; q < groups; q++) {
        LLVMValueRef *c = v + 4 * q;
        LLVMValueRef t0 = in_lanes(g, c[0], c[1], lo32), t1 = in_lanes(g, c[0], c[1], hi32);
        LLVMValueRef t2 = in_lanes(g, c[2], c[3], lo32), t3 = in_lanes(g, c[2], c[3], hi32);
        u[q][0] = in_lanes(g, t0, t2, lo64);
        u[q][1] = in_lanes(g, t0, t2, hi64);
        u[q][2] = in_lanes(g, t1, t3, lo64);
        u[q][3] = in_lanes(g, t1, t3, hi64);
    }
    for (int i = 0; i < 4; i++) {
        if (w == 4) {
            out[i] = u[0][i];
        } else if (w == 8) {
            out[i] = lanes_of(g, u[0][i], u[1][i], halves[0]);
            out[4 + i] = lanes_of(g, u[0][i], u[1][i], halves[1]);
        } else {
            LLVMValueRef e01 = lanes_of(g, u[0][i], u[1][i], even), o01 = lanes_of(g, u[0][i], u[1][i], odd);
            LLVMValueRef e23 = lanes_of(g, u[2][i], u[3][i], even), o23 = lanes_of(g, u[2][i], u[3][i], odd);
            out[i] = lanes_of(g, e01, e23, even);
            out[8 + i] = lanes_of(g, e01, e23, odd);
            out[4 + i] = lanes_of(g, o01, o23, even);
            out[12 + i] = lanes_of(g, o01, o23, odd);
        }
    }
    for (int i = 0; i < w; i++)
        v[i] = out[i];
}

/* -- Results across ------------------------------------------------------------------------------ */

/*
 * Few columns, of which each row's would be scattered (a plain image from blocks of channels, or one whose pixels are
 * made of channels): the sums are transposed, and the stages run on vectors of rows, as long as the machine's where it
 * has masks, else by powers of two. What is stored is taken of `crossed` columns in turns.
 */
enum { MAX_CROSSED = 4, MAX_STAGES = 32 };

static int row_lanes(const struct cg *g, int rows)
{
    int n = g->lanes;
    while (n > rows && !g->e->m->masks)
        n /= 2;
    return n;
}

bool cg_crosses(const struct cg *g, int mr)
{
    int64_t vectors = 0;
    for (int at = 0; at < mr; at += row_lanes(g, mr - at))
        vectors++;
    return g->c.crossed && !g->by_passes && mr > g->c.ncols && g->c.ncols * vectors * g->epilogue_cost <= 600 &&
           g->c.k->ninsns - kn_main_stage(g->c.k)->last <= MAX_STAGES;
}

static void bind_crossed(struct cg *g, LLVMValueRef column, LLVMValueRef row, int lanes, LLVMValueRef mask)
{
    em_set_lanes(g->e, NULL, 1, NULL);
    cg_bind_column(g, column);
    cg_bind_row(g, row);
    em_set_lanes(g->e, g->c.k->dims[g->c.row].var, lanes, mask);
    g->e->aligned = false;
}

/* The stages of `crossed` columns from x on for `rows` rows from `row` on; v: sums by column, the first row's in lane
 * `at`. */
static void emit_crossed(struct cg *g, LLVMValueRef x, LLVMValueRef row, int rows, const LLVMValueRef *v, int at)
{
    struct em *e = g->e;
    const struct kn_kernel *k = g->c.k;
    int from = kn_main_stage(k)->last, n = row_lanes(g, rows), turns = g->c.crossed;
    LLVMValueRef mask = n > rows ? em_tail_mask(e, em_i64(e, rows), n) : NULL, part[MAX_STAGES][MAX_CROSSED];
    for (int j = 0; j < turns; j++) {
        LLVMValueRef lane = em_int(e->t_i32, at), sum = n > 1 ? em_part(e, v[j], at, n) : NULL;
        sum = sum ? sum : LLVMBuildExtractElement(e->b, v[j], lane, "");
        bind_crossed(g, LLVMBuildAdd(e->b, x, em_i64(e, j), ""), row, n, mask);
        em_forget(e, from, k->ninsns);
        e->value[k->roles.contraction.reduce] = sum;
        for (int i = from; i < k->ninsns; i++)
            if (k->insns[i].code == KN_STORE)
                part[i - from][j] = em_splat(e, e->value[k->insns[i].arg[0]], n);
            else
                em_insn(e, i);
    }
    bind_crossed(g, x, row, 1, NULL);
    if (mask)
        mask = em_tail_mask(e, em_i64(e, (int64_t)rows * turns), n * turns);
    for (int i = from; i < k->ninsns; i++)
        if (k->insns[i].code == KN_STORE)
            loops_store_in_turns(e, &k->insns[i], part[i - from], turns, mask);
}

void cg_crossed_epilogue(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, const LLVMValueRef *acc)
{
    struct em *e = g->e;
    for (int first = 0; first < mr; first += g->lanes) {
        LLVMValueRef v[CPU_TILE_SUMS];
        int rows = mr - first < g->lanes ? mr - first : g->lanes;
        for (int i = 0; i < g->lanes; i++)
            v[i] = i < rows ? acc[first + i] : LLVMGetUndef(g->vec);
        cg_transpose(g, v);
        for (int at = 0; at < rows; at += row_lanes(g, rows - at))
            for (int64_t j = 0; j < g->c.ncols; j += g->c.crossed) {
                LLVMValueRef column = LLVMBuildAdd(e->b, x, em_i64(e, j), "");
                LLVMValueRef row = LLVMBuildAdd(e->b, r0, em_i64(e, first + at), "");
                emit_crossed(g, column, row, rows - at, v + j, at);
            }
    }
}
