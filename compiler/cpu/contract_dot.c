/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract_dot.c - contractions whose step multiplies several neighbours along the sum and adds the products to one
 * lane: two bf16 (x86's VDPBF16PS), four bytes, one side unsigned and the other signed (VPDPBUSD).
 * Each 32-bit lane holds such a group, and a step of the register tile takes a group of points of the innermost loop of
 * the sum.
 *
 * Two f16 are multiplied and added in f16 (AVX512-FP16's VFMADD231PH), each half of a lane to a sum of its own: twice
 * the products of VFMADD231PS. Such sums go on for CT_HALF_PART steps, then the two of a lane become one of f32. That
 * is for kernels whose contraction says so (kn_kernel's partial): operands are scaled so that no sum overflows
 * (passes/legalise/operands.c). Where A's values are lanes of a vector (AArch64's FMLA by element), a pair would have
 * to be repeated for each row and step, in the pipes that multiply. There B is not in pairs: a vector has twice as many
 * columns of one step, the next vector those of the next one, and sums are one a column (apart).
 *
 * B is ready where its layout has the groups innermost (weights: layout.c), else it is packed. A is read where it lies
 * if the sum's innermost loop has unit stride there; else it is packed, by rows, or by steps where rows are what is
 * consecutive in memory. A value of type bf16 is an exact float in registers, whose upper half it is.
 * Where the machine multiplies two rows by two columns in each 128 bits (AArch64's USMMLA, BFMMLA: eight bytes or four
 * bf16 of each), weights lie in groups of 64 bits, and two vectors of sums hold two rows of a vector of columns: their
 * lanes are sorted behind the sum. Many columns' rows of A are packed so that two of them are a vector.
 * Without such an instruction the same packed bytes are multiplied by others (dot.c): bytes with even numbers and those
 * with odd ones, in 16 bits each. Where many columns share A's rows, they are packed so (halves), not taken apart in
 * each step for each column tile: a step of 5 rows by 2 vectors is then 46 instructions of the vector units, one of 4
 * rows by 2 else 52. Pairs of bf16 or f16, where the schedule is of a machine that multiplies them and this one does
 * not, are multiplied by two multiply-adds of floats.
 */
#include "compiler/cpu/contract_emit_int.h"
#include "ir/ir.h"

int ct_depth(const struct cpu_machine *m, const struct ct *c)
{
    if (c->dot_a < 0 || c->dot_b < 0)
        return 1;
    int a = c->k->insns[c->dot_a].dtype, b = c->k->insns[c->dot_b].dtype;
    bool bytes = (a == TCC_U8 && b == TCC_I8) || (a == TCC_I8 && b == TCC_U8),
         both = a == TCC_I8 && b == TCC_I8 && m->multiplies_bytes && m->dot_bytes_signed;
    if (c->square)
        return c->dtype == TCC_F32 ? (a == TCC_BF16 && b == TCC_BF16 && m->squares_bf16 ? 4 : 1)
                                   : (bytes && m->squares_bytes ? 8 : 1);
    if (c->dtype == TCC_F32)
        return (a == TCC_BF16 && b == TCC_BF16 && m->multiplies_bf16) ||
                       (a == TCC_F16 && b == TCC_F16 && c->k->partial == TCC_F16 && m->multiplies_f16)
                   ? 2
                   : 1;
    return bytes || both ? 4 : 1;
}

bool ct_half(const struct ct *c)
{
    return c->depth == 2 && c->k->insns[c->dot_a].dtype == TCC_F16;
}

/* B's columns, fewer than a panel, have room up to whole vectors in front of what the next points of the sum read. */
static bool one_panel(const struct ct *c)
{
    int64_t next = c->ks[c->nks - 2].sb, vectors = (c->ncols + c->lanes - 1) / c->lanes;
    return c->ncols != CT_DYN && next != CT_DYN && vectors * c->lanes * c->depth <= next;
}

/* Can vectors of f16's columns be read where they lie, two at a time, up to the last one's end? */
static bool columns_ready(const struct ct *c)
{
    const struct kn_insn *load = &c->k->insns[c->load_b];
    const struct kn_operand *b = &c->k->operands[load->operand];
    int64_t vectors = (c->ncols + c->lanes - 1) / c->lanes, last = b->rank - 1;
    if (c->dot_b != c->load_b || load->nguards || c->vec_sb != 1 || c->ks[c->nks - 1].sb == CT_DYN)
        return false;
    if (c->panel || c->ncols == CT_DYN)
        return c->panel % (2 * c->lanes) == 0 && c->panel && c->panel_stride != CT_DYN;
    return c->ncols % c->lanes == 0 || (ir_const_or(b->dims[last], 0) >= vectors * c->lanes &&
                                        ir_expr_eq(c->ctx, load->index[last], c->k->dims[c->vec].var) == IR_YES);
}

bool ct_dot(const struct cpu_machine *m, struct ct *c)
{
    struct ir_ctx *ctx = c->ctx;
    struct ct_k *last = &c->ks[c->nks - 1];
    bool even = last->n != CT_DYN && last->n % c->depth == 0,
         a_ready = last->sa == 1 && even && !last->unroll && c->dot_a == c->load_a;
    if (c->lanes != 4 && c->lanes != 8 && c->lanes != 16)
        return false;
    for (int g = 0; g < c->nguards; g++)
        if (c->guards[g].k == c->nks - 1)
            return false;
    if (c->nks > 1 && last->n == c->depth && last->sb == 1 && c->vec_sb == c->depth &&
        (c->panel ? c->panel_stride != CT_DYN : one_panel(c)) && c->dot_b == c->load_b &&
        !c->k->insns[c->load_b].nguards && a_ready) {
        c->nks--;
        c->nk = c->nk == CT_DYN ? CT_DYN : c->nk / c->depth;
        c->ksize = ir_floordiv(ctx, c->ksize, ir_const(ctx, c->depth));
        c->pack_a = c->pack_b = false;
        return true;
    }
    if (c->square || last->scale != 1 || last->unroll)
        return false;
    c->unpaired = ct_half(c) && cpu_halves_by_lane(m);
    c->pack_b = !(c->unpaired && even && columns_ready(c));
    c->pack_a = !a_ready;
    c->a_by_k = c->pack_a && last->sa != 1 && c->row >= 0 && c->row_sa == 1 && c->nrows != 1;
    c->dot_n = even ? NULL : last->extent;
    last->step = c->depth;
    last->extent = ir_ceildiv(ctx, last->extent, ir_const(ctx, c->depth));
    last->n = ir_const_or(last->extent, CT_DYN);
    last->ea = ir_mulc(ctx, last->ea, c->depth);
    last->sa = ir_const_or(last->ea, CT_DYN);
    if (!c->pack_b) {
        last->eb = ir_mulc(ctx, last->eb, c->depth);
        last->sb = ir_const_or(last->eb, CT_DYN);
    }
    c->ksize = ir_const(ctx, 1);
    for (int i = 0; i < c->nks; i++)
        c->ksize = ir_mul(ctx, c->ksize, c->ks[i].extent);
    c->nk = ir_const_or(c->ksize, CT_DYN);
    return true;
}

/* Groups of a row that packing in halves, or for squares, takes at once. */
static int ct_pack_lanes(const struct ct *c)
{
    const struct ct_k *last = &c->ks[c->nks - 1];
    int n = c->square ? c->lanes / 2 : c->lanes;
    while (n > 1 && !c->dot_n && last->n != CT_DYN && last->n % n)
        n /= 2;
    return n;
}

/* Do so many columns share A's rows that packing them in another form pays? */
static bool pays_to_pack(const struct ct *c)
{
    enum { ROWS = 4, COLUMNS = 32, STEPS = 8, PRODUCTS = 128 };
    const struct ct_k *last = &c->ks[c->nks - 1];
    if (c->nguards || c->nrowguards || c->period || last->n == CT_DYN || c->ncols == CT_DYN)
        return false;
    /* The innermost loop, or what is left of it without the groups, walks four points of A's row at a time. */
    if (last->scale * last->step != c->depth || (last->step == 1 && last[1].dim != last->dim))
        return false;
    bool rows = c->nrows == CT_DYN || c->nrows >= ROWS, steps = c->nk == CT_DYN || c->nk >= STEPS;
    return rows && steps && c->ncols >= COLUMNS && c->ncols * ct_pack_lanes(c) >= PRODUCTS;
}

void ct_pack_bytes(const struct cpu_machine *m, struct ct *c)
{
    if (c->square)
        c->pack_a = c->a_by_k = pays_to_pack(c);
    if (c->depth != 4 || m->multiplies_bytes)
        return;
    if (m->dot_halves)
        c->halves = c->pack_a = c->pack_a || pays_to_pack(c);
    else if (m->dot_bytes_pairs && c->k->insns[c->dot_a].dtype == TCC_U8)
        c->packs_signed = c->pack_a = (c->pack_a && !c->nguards && !c->nrowguards) || pays_to_pack(c);
}

LLVMValueRef cg_dot_load(struct cg *g, LLVMValueRef p, int lanes, int operand)
{
    LLVMValueRef v = LLVMBuildLoad2(g->e->b, em_vec(g->e->t_i32, lanes), p, "");
    LLVMSetAlignment(v, operand < 0 ? 4 : (unsigned)(ct_step_bytes(&g->c) / g->c.depth));
    em_tag(g->e, v, operand);
    return v;
}

/* -- Products -------------------------------------------------------------------------------------------- */

/* Are sums in f16? Machines that don't multiply f16 follow the schedule with sums of floats. */
bool cg_half_sums(const struct cg *g)
{
    return ct_half(&g->c) && em_cpu(g->e)->multiplies_f16;
}

/* The lower (which: 0) or the upper of each lane's two values, as floats. */
static LLVMValueRef one_of_pairs(struct cg *g, LLVMValueRef pairs, int which)
{
    struct em *e = g->e;
    LLVMTypeRef bits = em_vec(e->t_i32, g->lanes);
    LLVMValueRef sixteen = em_int(bits, 16);
    if (!ct_half(&g->c)) {
        LLVMValueRef high =
            which ? LLVMBuildAnd(e->b, pairs, em_int(bits, -65536), "") : LLVMBuildShl(e->b, pairs, sixteen, "");
        return LLVMBuildBitCast(e->b, high, g->vec, "");
    }
    LLVMValueRef low = which ? LLVMBuildLShr(e->b, pairs, sixteen, "") : pairs;
    low = LLVMBuildTrunc(e->b, low, em_vec(e->t_i16, g->lanes), "");
    LLVMTypeRef half = em_vec(LLVMHalfTypeInContext(e->lc), g->lanes);
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, low, half, ""), g->vec, "");
}

static bool a_unsigned(const struct cg *g)
{
    return g->c.k->insns[g->c.dot_a].dtype == TCC_U8;
}

static bool both_signed(const struct cg *g)
{
    const struct kn_insn *insns = g->c.k->insns;
    return g->c.depth == 4 && insns[g->c.dot_a].dtype == TCC_I8 && insns[g->c.dot_b].dtype == TCC_I8;
}

/* Where another machine's schedule has products of signed bytes, by those of unsigned ones: of 128 more, which are
 * taken away. */
static LLVMValueRef signed_product(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
    if (em_cpu(e)->dot_bytes_signed)
        return cpu_dot_bytes_signed(e, a, b, acc);
    LLVMTypeRef t = LLVMTypeOf(a);
    LLVMValueRef top = em_int(t, (int)0x80808080), sum = cpu_dot_bytes(e, LLVMBuildXor(e->b, a, top, ""), b, acc);
    return LLVMBuildSub(e->b, sum, cpu_dot_bytes(e, top, b, LLVMConstNull(LLVMTypeOf(acc))), "");
}

LLVMValueRef cg_product(struct cg *g, bool shifted, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
    struct em *e = g->e;
    if (shifted)
        return em_lanes_of(acc) > em_lanes_of(b) ? em_cpu(e)->dot_bytes_pairs(e, a, b, acc)
                                                 : cpu_dot_bytes_signed(e, a, b, acc);
    if (both_signed(g))
        return signed_product(e, a, b, acc);
    if (g->c.depth > 1 && g->c.dtype == TCC_I32)
        return a_unsigned(g) ? cpu_dot_bytes(e, a, b, acc) : cpu_dot_bytes(e, b, a, acc);
    if (g->c.depth == 1)
        return tcc_is_float(g->c.dtype) ? em_fma(e, a, b, acc)
                                        : LLVMBuildAdd(e->b, acc, LLVMBuildMul(e->b, a, b, ""), "");
    if (cg_half_sums(g)) {
        LLVMTypeRef t = cg_dot_sums(g, false);
        LLVMValueRef right = LLVMBuildBitCast(e->b, b, t, "");
        return em_fma(e, LLVMBuildBitCast(e->b, a, t, ""), right, acc);
    }
    if (ct_half(&g->c) || !em_cpu(e)->multiplies_bf16) {
        for (int i = 1; i >= 0; i--) {
            LLVMValueRef second = one_of_pairs(g, b, i);
            acc = em_fma(e, one_of_pairs(g, a, i), second, acc);
        }
        return acc;
    }
    return cpu_dot_bf16(e, a, b, acc);
}

static enum cpu_product product_of(const struct cg *g, bool shifted)
{
    if (shifted || both_signed(g))
        return CPU_BYTES_SIGNED;
    if (g->c.depth > 1 && g->c.dtype == TCC_I32)
        return a_unsigned(g) ? CPU_BYTES_A_UNSIGNED : CPU_BYTES_B_UNSIGNED;
    if (g->c.depth > 1)
        return ct_half(&g->c) ? CPU_OTHERS : CPU_BF16;
    return tcc_is_float(g->c.dtype) ? CPU_FLOATS : CPU_OTHERS;
}

LLVMValueRef cg_lane_product(struct cg *g, bool shifted, LLVMValueRef a, int lane, LLVMValueRef b, LLVMValueRef acc)
{
    struct em *e = g->e;
    const struct cpu_machine *m = em_cpu(e);
    enum cpu_product what = product_of(g, shifted);
    LLVMValueRef sum = m->lane_product ? m->lane_product(e, what, a, lane, b, acc) : NULL;
    if (sum)
        return sum;
    if (what == CPU_BF16 && m->multiplies_bf16) /* LLVM knows their lanes as floats */
        a = LLVMBuildBitCast(e->b, a, em_like(e->t_f32, a), "");
    return cg_product(g, shifted, cpu_lane(e, a, lane, g->lanes), b, acc);
}

LLVMValueRef cg_dot_half(struct cg *g, LLVMValueRef b, int which)
{
    return cpu_half_of(g->e, b, which, g->c.k->insns[g->c.dot_b].dtype == TCC_U8);
}

LLVMTypeRef cg_dot_sums(struct cg *g, bool pairs)
{
    if (pairs)
        return em_vec(g->e->t_i32, g->lanes * 2);
    return cg_half_sums(g) ? em_vec(LLVMHalfTypeInContext(g->e->lc), g->lanes * 2) : g->vec;
}

LLVMValueRef cg_dot_total(struct cg *g, LLVMValueRef sums)
{
    struct em *e = g->e;
    if (g->c.depth == 4 && em_lanes_of(sums) > g->lanes)
        return em_cpu(e)->join_pairs(e, sums);
    if (!cg_half_sums(g))
        return sums;
    LLVMTypeRef lanes = em_vec(e->t_i32, g->lanes), half = LLVMHalfTypeInContext(e->lc);
    LLVMValueRef bits = LLVMBuildBitCast(e->b, sums, lanes, ""), args[3] = {bits, bits, em_int(lanes, 16)};
    LLVMValueRef other =
        LLVMBuildBitCast(e->b, em_intrinsic(e, "llvm.fshl", 1, &lanes, 3, args), cg_dot_sums(g, false), "");
    LLVMValueRef both = LLVMBuildBitCast(e->b, LLVMBuildFAdd(e->b, sums, other, ""), lanes, "");
    LLVMValueRef low = LLVMBuildTrunc(e->b, both, em_vec(LLVMInt16TypeInContext(e->lc), g->lanes), "");
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, low, em_vec(half, g->lanes), ""), g->vec, "");
}

/* -- f16 by lane ------------------------------------------------------------------------------------------- */

LLVMValueRef cg_pairs_of(struct cg *g, LLVMValueRef first, LLVMValueRef second)
{
    LLVMTypeRef half = em_vec(LLVMInt16TypeInContext(g->e->lc), g->lanes);
    int order[EM_MAX_LANES];
    for (int i = 0; i < 2 * g->lanes; i++)
        order[i] = i / 2 + i % 2 * g->lanes;
    first = LLVMBuildBitCast(g->e->b, first, half, "");
    second = LLVMBuildBitCast(g->e->b, second, half, "");
    return LLVMBuildBitCast(g->e->b, em_shuffle(g->e, first, second, 2 * g->lanes, order),
                            em_vec(g->e->t_i32, g->lanes), "");
}

LLVMValueRef cg_apart_product(struct cg *g, LLVMValueRef a, int lane, LLVMValueRef b, LLVMValueRef acc)
{
    LLVMTypeRef t = cg_dot_sums(g, false);
    a = cpu_lane(g->e, LLVMBuildBitCast(g->e->b, a, t, ""), lane, 2 * g->lanes);
    return em_fma(g->e, a, LLVMBuildBitCast(g->e->b, b, t, ""), acc);
}

LLVMValueRef cg_apart_total(struct cg *g, LLVMValueRef sums, int which)
{
    int order[EM_MAX_LANES];
    for (int i = 0; i < g->lanes; i++)
        order[i] = which * g->lanes + i;
    return LLVMBuildFPExt(g->e->b, em_shuffle(g->e, sums, sums, g->lanes, order), g->vec, "");
}

/* -- Squares ----------------------------------------------------------------------------------------------- */

/* By products of 32 bits: halves of each column's 64 bits with a row's, which are added then. */
static LLVMValueRef square_by_halves(struct cg *g, enum cpu_product what, LLVMValueRef a, LLVMValueRef b,
                                     LLVMValueRef acc)
{
    struct em *e = g->e;
    LLVMValueRef row[2], at[EM_MAX_LANES];
    int n = em_lanes_of(acc);
    bool by_columns = what == CPU_BYTES_B_UNSIGNED;
    for (int r = 0; r < 2; r++) {
        for (int j = 0; j < n; j++)
            at[j] = LLVMConstInt(e->t_i32, (unsigned)(2 * r + j % 2), 0);
        row[r] = LLVMBuildShuffleVector(e->b, a, a, LLVMConstVector(at, (unsigned)n), "");
        row[r] = cg_product(g, false, row[r], b, LLVMConstNull(LLVMTypeOf(acc)));
    }
    for (int half = 0; half < 2; half++) {
        for (int j = 0; j < n; j++) {
            int r = by_columns ? j % 2 : j % 4 / 2, column = by_columns ? j % 4 / 2 : j % 2;
            at[j] = LLVMConstInt(e->t_i32, (unsigned)(r * n + j / 4 * 4 + 2 * column + half), 0);
        }
        LLVMValueRef part = LLVMBuildShuffleVector(e->b, row[0], row[1], LLVMConstVector(at, (unsigned)n), "");
        acc = LLVMBuildBinOp(e->b, tcc_is_float(g->c.dtype) ? LLVMFAdd : LLVMAdd, acc, part, "");
    }
    return acc;
}

struct cg_pair cg_load_pair(struct cg *g, LLVMValueRef first, LLVMValueRef second)
{
    struct em *e = g->e;
    LLVMValueRef p[2] = {first, second}, row[2], at[4];
    int operand = g->packed_a ? -1 : g->c.k->insns[g->c.load_a].operand;
    struct cg_pair pair = {.there = {first, second}};
    if (g->packed_a && first && second) {
        pair.rows = cg_dot_load(g, first, 4, -1);
        return pair;
    }
    for (int i = 0; i < 2; i++)
        row[i] = p[i] ? cg_dot_load(g, p[i], 2, operand) : LLVMConstNull(em_vec(e->t_i32, 2));
    for (int i = 0; i < 4; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)i, 0);
    pair.rows = LLVMBuildShuffleVector(e->b, row[0], row[1], LLVMConstVector(at, 4), "");
    return pair;
}

/* The sums of a row that takes no part stay what they were, whatever 0 times B is. */
LLVMValueRef cg_square_product(struct cg *g, const struct cg_pair *a, LLVMValueRef b, LLVMValueRef acc)
{
    struct em *e = g->e;
    const struct cpu_machine *m = em_cpu(e);
    enum cpu_product what = product_of(g, false);
    LLVMValueRef sum = m->square_product ? m->square_product(e, what, a->rows, b, acc) : NULL, at[EM_MAX_LANES];
    int n = em_lanes_of(acc);
    if (!sum)
        sum = square_by_halves(g, what, a->rows, b, acc);
    if (what != CPU_BF16 || (a->there[0] && a->there[1]))
        return sum;
    for (int j = 0; j < n; j++)
        at[j] = LLVMConstInt(e->t_i32, (unsigned)((a->there[j % 4 / 2] ? n : 0) + j), 0);
    return LLVMBuildShuffleVector(e->b, acc, sum, LLVMConstVector(at, (unsigned)n), "");
}

void cg_square_rows(struct cg *g, int mr, int cv, LLVMValueRef *acc)
{
    struct em *e = g->e;
    LLVMValueRef at[EM_MAX_LANES], row[2];
    int n = g->lanes;
    bool by_columns = product_of(g, false) == CPU_BYTES_B_UNSIGNED;
    for (int i = 0; i < mr * cv; i++) {
        if (i / cv % 2)
            continue;
        for (int r = 0; r < 2; r++) {
            for (int j = 0; j < n; j++) {
                int of = j % (n / 2), lane = by_columns ? of % 2 * 2 + r : 2 * r + of % 2;
                at[j] = LLVMConstInt(e->t_i32, (unsigned)(j / (n / 2) * n + of / 2 * 4 + lane), 0);
            }
            row[r] = LLVMBuildShuffleVector(e->b, acc[i], acc[i + cv], LLVMConstVector(at, (unsigned)n), "");
        }
        acc[i] = row[0];
        acc[i + cv] = row[1];
    }
}

/* -- Packing --------------------------------------------------------------------------------------------- */

/* Point `which` of a group; zero where the sum has no such point. */
static LLVMValueRef point_of(struct cg *g, int value, int which, const LLVMValueRef *part)
{
    struct em *e = g->e;
    struct em_if f;
    cg_bind_k(g, part, which);
    if (!g->c.dot_n || !which)
        return em_splat(e, cg_operand_value(g, value), g->lanes);
    LLVMValueRef at = LLVMBuildMul(e->b, part[g->c.nks - 1], em_i64(e, g->c.depth), "");
    LLVMValueRef right = em_expr(e, g->c.dot_n);
    LLVMValueRef exists = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildAdd(e->b, at, em_i64(e, which), ""), right, "");
    LLVMTypeRef t = em_vec(em_reg_type(e, (enum tcc_dtype)g->c.k->insns[value].dtype), g->lanes);
    em_if_begin(e, &f, exists);
    LLVMValueRef v = em_splat(e, cg_operand_value(g, value), g->lanes);
    return em_if_end_value(e, &f, v, LLVMConstNull(t));
}

LLVMValueRef cg_dot_of(struct cg *g, int value, const LLVMValueRef *part)
{
    struct em *e = g->e;
    LLVMTypeRef bits = em_vec(e->t_i32, g->lanes);
    LLVMValueRef group = NULL;
    for (int i = 0; i < g->c.depth; i++) {
        LLVMValueRef v = point_of(g, value, i, part);
        if (ct_half(&g->c))
            v = LLVMBuildZExt(e->b, em_to_bits(e, TCC_F16, v), bits, "");
        else if (g->c.depth == 2)
            v = LLVMBuildLShr(e->b, LLVMBuildBitCast(e->b, v, bits, ""), em_int(bits, 16), "");
        else
            v = LLVMBuildZExt(e->b, v, bits, "");
        v = LLVMBuildShl(e->b, v, em_int(bits, 32 / g->c.depth * i), "");
        group = group ? LLVMBuildOr(e->b, group, v, "") : v;
    }
    return group;
}

/* Stores A's groups in halves: of each, its even bytes, then its odd ones. All lanes: what follows in a row is written
 * later, and behind each row there is room for a vector. */
static void store_halves(struct cg *g, LLVMValueRef to, LLVMValueRef groups)
{
    struct em *e = g->e;
    bool is_unsigned = g->c.k->insns[g->c.dot_a].dtype == TCC_U8;
    LLVMValueRef at[EM_MAX_LANES], half[2];
    int n = em_lanes_of(groups);
    for (int i = 0; i < 2; i++)
        half[i] = em_splat(e, cpu_half_of(e, groups, i, is_unsigned), n > 1 ? n : 2);
    for (int i = 0; i < 2 * n; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)(i / 2 + i % 2 * em_lanes_of(half[0])), 0);
    LLVMValueRef order = LLVMConstVector(at, 2 * (unsigned)n);
    em_store(e, TCC_I32, to, LLVMBuildShuffleVector(e->b, half[0], half[1], order, ""), NULL, -1);
}

/* For each step of the sum, the tile's rows side by side. */
static void pack_by_k(struct cg *g)
{
    struct em *e = g->e;
    LLVMValueRef unit = em_i64(e, g->packed_step);
    struct em_loop l[CT_MAX_K], r;
    LLVMValueRef part[CT_MAX_K], at = cg_k_loops_begin(g, l, g->c.nks, part);
    LLVMValueRef line =
        cg_gep(g, g->packed_a, LLVMBuildMul(e->b, at, em_expr(e, ir_mulc(e->ctx, g->a_ld, g->packed_step)), ""));
    em_loop_begin(e, &r, g->rows, em_i64(e, g->lanes), "pa");
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_row(g, r.iv);
    LLVMValueRef mask = em_tail_mask(e, LLVMBuildSub(e->b, g->rows.hi, r.iv, ""), g->lanes);
    em_set_lanes(e, g->c.k->dims[g->c.row].var, g->lanes, mask);
    bool groups = g->c.depth > 1;
    if (!groups)
        cg_bind_k(g, part, 0);
    LLVMValueRef v = groups ? cg_dot_of(g, g->c.dot_a, part) : cg_operand_value(g, g->c.val_a);
    em_set_lanes(e, NULL, 1, NULL);
    LLVMValueRef to = cg_gep(g, line, LLVMBuildMul(e->b, LLVMBuildSub(e->b, r.iv, g->rows.lo, ""), unit, ""));
    if (cg_packs_signed(g))
        v = LLVMBuildXor(e->b, v, em_int(LLVMTypeOf(v), (int)0x80808080), "");
    if (g->c.halves)
        store_halves(g, to, v);
    else
        em_store(e, groups ? TCC_I32 : g->c.dtype, to, v, NULL, -1);
    em_loop_end(e, &r);
    cg_k_loops_end(g, l, g->c.nks);
}

/* Stores a row's groups of 64 bits, `line` from each to the next: a pair of rows side by side is a vector. */
static void store_apart(struct cg *g, LLVMValueRef to, LLVMValueRef x, LLVMValueRef line)
{
    struct em *e = g->e;
    enum tcc_dtype dtype = (enum tcc_dtype)g->c.k->insns[g->c.dot_a].dtype;
    int n = em_lanes_of(x) / g->c.depth;
    LLVMTypeRef bits = em_vec(e->t_i64, n);
    x = LLVMBuildBitCast(e->b, tcc_is_float(dtype) ? em_to_bits(e, dtype, x) : x, bits, "");
    for (int i = 0; i < n; i++, to = cg_gep(g, to, line)) {
        LLVMValueRef group = n == 1 ? x : LLVMBuildExtractElement(e->b, x, em_i64(e, i), "");
        LLVMSetAlignment(LLVMBuildStore(e->b, group, to), 8);
    }
}

/* Rows one after the other, as in memory; for squares, as pack_by_k() has them. */
static void pack_by_rows(struct cg *g)
{
    struct em *e = g->e;
    LLVMValueRef depth = em_i64(e, g->c.depth), step = em_i64(e, g->packed_step);
    LLVMValueRef line = em_expr(e, ir_mulc(e->ctx, g->a_ld, g->packed_step));
    const struct ct_k *last = &g->c.ks[g->c.nks - 1];
    struct em_loop r, l[CT_MAX_K], v;
    LLVMValueRef part[CT_MAX_K];
    int lanes = g->c.halves || g->c.square ? ct_pack_lanes(&g->c) : g->lanes, w = lanes * g->c.depth;
    em_loop_begin(e, &r, g->rows, em_i64(e, 1), "pa");
    LLVMValueRef from = LLVMBuildSub(e->b, r.iv, g->rows.lo, "");
    LLVMValueRef row = cg_gep(g, g->packed_a, LLVMBuildMul(e->b, from, g->c.square ? step : line, ""));
    LLVMValueRef at = cg_k_loops_begin(g, l, g->c.nks - 1, part), n = em_expr(e, last->extent);
    em_loop_begin(e, &v, em_below(e, n), em_i64(e, lanes), "pv");
    at = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, n, ""), v.iv, "");
    LLVMValueRef to = cg_gep(g, row, LLVMBuildMul(e->b, at, g->c.square ? line : step, ""));
    part[g->c.nks - 1] = v.iv;
    em_set_lanes(e, NULL, 1, NULL);
    cg_bind_row(g, r.iv);
    cg_bind_k(g, part, 0);
    LLVMValueRef done = LLVMBuildMul(e->b, v.iv, depth, ""), room = NULL, mask = NULL;
    if (last->n == CT_DYN || last->n % lanes)
        room = em_tail_mask(e, LLVMBuildSub(e->b, LLVMBuildMul(e->b, n, depth, ""), done, ""), w);
    mask = g->c.dot_n ? em_tail_mask(e, LLVMBuildSub(e->b, em_expr(e, g->c.dot_n), done, ""), w) : room;
    em_set_lanes(e, g->c.k->dims[last->dim].var, w, mask);
    LLVMValueRef x = em_splat(e, cg_operand_value(g, g->c.dot_a), w);
    if (g->c.dot_n)
        x = LLVMBuildSelect(e->b, mask, x, LLVMConstNull(LLVMTypeOf(x)), "");
    em_set_lanes(e, NULL, 1, NULL);
    if (cg_packs_signed(g))
        x = LLVMBuildXor(e->b, x, em_int(LLVMTypeOf(x), -128), "");
    if (g->c.halves)
        store_halves(g, to, LLVMBuildBitCast(e->b, x, em_vec(e->t_i32, lanes), ""));
    else if (g->c.square)
        store_apart(g, to, x, line);
    else
        em_store(e, (enum tcc_dtype)g->c.k->insns[g->c.dot_a].dtype, to, x, room, -1);
    em_loop_end(e, &v);
    cg_k_loops_end(g, l, g->c.nks - 1);
    em_loop_end(e, &r);
}

void cg_dot_pack_a(struct cg *g)
{
    if (g->c.a_by_k && !g->c.square)
        pack_by_k(g);
    else
        pack_by_rows(g);
}
