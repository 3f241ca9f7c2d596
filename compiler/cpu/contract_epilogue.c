/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_epilogue.c - the kernel's later stages on the sums of a register tile, while they are in registers: one
 * vector after the other, or, where the stages have functions, several as one long vector. The code of long stages
 * stands once, in a loop over the rows; the sums go through memory then.
 */
#include "compiler/cpu/contract_emit_int.h"

/* The stages for one vector of sums, number c of the columns; with its first row what depends on the column alone. */
static void emit_epilogue(struct cg *g, LLVMValueRef x, LLVMValueRef row, int c, bool first_row, LLVMValueRef acc)
{
    struct em *e = g->e;
    const struct kn_kernel *k = g->c.k;
    int from = kn_main_stage(k)->last;
    if (first_row) {
        cg_column_lanes(g, x, c);
        em_forget(e, from, k->ninsns);
    } else {
        for (int i = from; i < k->ninsns; i++)
            if (g->by_row[i])
                em_forget(e, i, i + 1);
    }
    cg_bind_row(g, row);
    e->value[k->roles.contraction.reduce] = acc;
    em_insns(e, from, k->ninsns);
}

enum { CELLS = 4 }; /* joined */

/* One vector of sums of a register tile. */
struct cell {
    LLVMValueRef row, sum;
    int c;
};

static void bind_cell(struct cg *g, LLVMValueRef x, const struct cell *cell)
{
    cg_column_lanes(g, x, cell->c);
    cg_bind_row(g, cell->row);
}

/* What instruction i, no scalar one, gives or stores for each of n cells; values are the cells' side by side. */
static void emit_by_cell(struct cg *g, LLVMValueRef x, int i, int n, const struct cell *cells)
{
    struct em *e = g->e;
    const struct kn_insn *in = &g->c.k->insns[i];
    LLVMValueRef part[CELLS], all = in->code == KN_STORE ? e->value[in->arg[0]] : NULL;
    for (int j = 0; j < n; j++) {
        bind_cell(g, x, &cells[j]);
        if (all)
            e->value[in->arg[0]] = em_lanes_of(all) > 1 ? em_part(e, all, j * g->lanes, g->lanes) : all;
        em_insn(e, i);
        part[j] = all ? NULL : em_splat(e, e->value[i], g->lanes);
    }
    if (all)
        e->value[in->arg[0]] = all;
    else
        e->value[i] = em_side_by_side(e, n, part);
}

/*
 * The stages of n cells, a power of two, as one vector n times as long. A function such as tanh is a long chain of
 * instructions, each of which waits for the one before, and few such chains fit into what a core looks ahead; of long
 * vectors their instructions come in turns.
 */
static void emit_joined(struct cg *g, LLVMValueRef x, int n, const struct cell *cells)
{
    struct em *e = g->e;
    const struct kn_kernel *k = g->c.k;
    int from = kn_main_stage(k)->last;
    LLVMValueRef sums[CELLS];
    for (int j = 0; j < n; j++)
        sums[j] = cells[j].sum;
    em_forget(e, from, k->ninsns);
    e->value[k->roles.contraction.reduce] = em_side_by_side(e, n, sums);
    for (int i = from; i < k->ninsns; i++) {
        if (k->insns[i].code == KN_SCALAR || k->insns[i].code == KN_CONST)
            em_insn(e, i);
        else
            emit_by_cell(g, x, i, n, cells);
    }
}

static LLVMValueRef vector_at(struct cg *g, LLVMValueRef base, LLVMValueRef number)
{
    return LLVMBuildGEP2(g->e->b, g->vec, base, &number, 1, "");
}

static void emit_cells(struct cg *g, LLVMValueRef x, int n, const struct cell *cells)
{
    for (int i = 0, some; i < n; i += some) {
        for (some = g->joined ? CELLS : 1; i + some > n; some /= 2)
            ;
        if (some > 1)
            emit_joined(g, x, some, cells + i);
        else
            emit_epilogue(g, x, cells[i].row, cells[i].c, true, cells[i].sum);
    }
}

void cg_epilogue(struct cg *g, LLVMValueRef x, LLVMValueRef r0, int mr, int cv, LLVMValueRef *acc)
{
    struct em *e = g->e;
    struct cell cells[CPU_TILE_SUMS];
    if (cg_crosses(g, mr)) {
        cg_crossed_epilogue(g, x, r0, mr, acc);
    } else if ((int64_t)mr * cv * g->epilogue_cost <= 600) {
        for (int i = 0; i < mr * cv; i++)
            cells[i] = (struct cell){LLVMBuildAdd(e->b, r0, em_i64(e, i / cv), ""), acc[i], i % cv};
        if (g->joined)
            emit_cells(g, x, mr * cv, cells);
        for (int c = 0; c < cv && !g->joined; c++)
            for (int r = 0; r < mr; r++)
                emit_epilogue(g, x, LLVMBuildAdd(e->b, r0, em_i64(e, r), ""), c, r == 0, acc[r * cv + c]);
    } else {
        /* A long body would be repeated mr * cv times: rows go around a loop, through memory. */
        LLVMValueRef buffer = em_alloca(e, g->vec, (int64_t)mr * cv, 64);
        for (int i = 0; i < mr * cv; i++) {
            LLVMValueRef p = vector_at(g, buffer, em_i64(e, i));
            LLVMSetAlignment(LLVMBuildStore(e->b, acc[i], p), g->lanes * tcc_dtype_bytes(g->c.dtype));
        }
        struct em_loop l;
        int n = g->joined && mr % 2 == 0 ? 2 : 1;
        em_loop_begin(e, &l, em_below(e, em_i64(e, mr)), em_i64(e, n), "row");
        LLVMValueRef at = vector_at(g, buffer, LLVMBuildMul(e->b, l.iv, em_i64(e, cv), ""));
        for (int i = 0; i < n * cv; i++) {
            LLVMValueRef v = LLVMBuildLoad2(e->b, g->vec, vector_at(g, at, em_i64(e, i)), "");
            LLVMSetAlignment(v, g->lanes * tcc_dtype_bytes(g->c.dtype));
            LLVMValueRef row = LLVMBuildAdd(e->b, l.iv, em_i64(e, i / cv), "");
            cells[i] = (struct cell){LLVMBuildAdd(e->b, r0, row, ""), v, i % cv};
        }
        emit_cells(g, x, n * cv, cells);
        em_loop_end(e, &l);
    }
    em_forget(e, kn_main_stage(g->c.k)->last, g->c.k->ninsns);
    em_set_lanes(e, NULL, 1, NULL);
}
