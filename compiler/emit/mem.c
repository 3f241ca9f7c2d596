/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores: addresses of operand[index], contiguous vectors, strided and indexed gathers, masks.
 */
#include "compiler/emit/emit.h"
#include "base/mutant.h"

ir_expr em_offset(struct em *e, int operand, const ir_expr *index)
{
    return kn_flat_offset(e->ctx, &e->k->operands[operand], index);
}

void em_prefetch(struct em *e, LLVMValueRef p, int locality)
{
    LLVMValueRef args[4] = {p, em_int(e->t_i32, 0), em_int(e->t_i32, locality), em_int(e->t_i32, 1)};
    em_intrinsic(e, "llvm.prefetch", 1, &e->t_ptr, 4, args);
}

LLVMValueRef em_address(struct em *e, int operand, LLVMValueRef offset)
{
    LLVMTypeRef t = em_mem_type(e, e->k->operands[operand].dtype);
    return LLVMBuildInBoundsGEP2(e->b, t, e->base[operand], &offset, 1, "");
}

/* -- Consecutive elements ------------------------------------------------------------------------- */

static bool all_on(LLVMValueRef mask)
{
    return !mask || (LLVMIsConstant(mask) && em_lanes_of(mask) == 1 && LLVMIsAConstantInt(mask) &&
                     LLVMConstIntGetZExtValue(mask) == 1);
}

static unsigned alignment(const struct em *e, enum tcc_dtype d, int lanes, int operand)
{
    unsigned bytes = (unsigned)tcc_dtype_bytes(d), vectors = e->align && operand >= 0 ? (unsigned)e->align[operand] : 0;
    if (lanes > 1 && vectors > bytes)
        return vectors;
    return bytes > 8 ? 8 : bytes;
}

/*
 * Lanes of bytes or halves where no instruction loads some of a vector's (LLVM then has a branch for each): the whole
 * vector is loaded if any of it is wanted and all of it lies in one page, which is there then. args: those of
 * llvm.masked.load.
 */
static LLVMValueRef load_within_page(struct em *e, LLVMTypeRef t, unsigned bytes, LLVMValueRef *args, int operand)
{
    struct em_if within, across;
    LLVMTypeRef types[2] = {t, e->t_ptr}, word = LLVMIntTypeInContext(e->lc, LLVMGetVectorSize(t));
    LLVMValueRef any = LLVMBuildBitCast(e->b, args[2], word, ""), at = LLVMBuildPtrToInt(e->b, args[0], e->t_i64, "");
    any = LLVMBuildICmp(e->b, LLVMIntNE, any, LLVMConstNull(word), "");
    at = LLVMBuildAnd(e->b, at, em_i64(e, e->m->page - 1), "");
    LLVMValueRef inside = LLVMBuildICmp(e->b, LLVMIntULE, at, em_i64(e, e->m->page - (int)bytes), "");
    em_if_begin(e, &within, LLVMBuildAnd(e->b, any, inside, ""));
    LLVMValueRef whole = LLVMBuildLoad2(e->b, t, args[0], "");
    LLVMSetAlignment(whole, 1);
    em_tag(e, whole, operand);
    whole = em_if_end_value(e, &within, LLVMBuildSelect(e->b, args[2], whole, args[3], ""), args[3]);
    em_if_begin(e, &across, LLVMBuildAnd(e->b, any, LLVMBuildNot(e->b, inside, ""), ""));
    LLVMValueRef some = em_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
    em_tag(e, some, operand);
    return em_if_end_value(e, &across, some, whole);
}

LLVMValueRef em_load(struct em *e, enum tcc_dtype d, LLVMValueRef ptr, int lanes, LLVMValueRef mask,
                     LLVMValueRef otherwise, int operand)
{
    LLVMTypeRef elem = em_mem_type(e, d), t = em_vec(elem, lanes);
    unsigned align = alignment(e, d, lanes, operand);
    if (all_on(mask)) {
        LLVMValueRef v = LLVMBuildLoad2(e->b, t, ptr, "");
        LLVMSetAlignment(v, align);
        em_tag(e, v, operand);
        return em_from_bits(e, d, v);
    }
    if (lanes == 1 || em_lanes_of(mask) == 1) {
        struct em_if f;
        LLVMValueRef none = otherwise ? otherwise : LLVMConstNull(em_vec(em_reg_type(e, d), lanes));
        none = em_splat(e, none, lanes);
        em_if_begin(e, &f, mask);
        LLVMValueRef v = em_load(e, d, ptr, lanes, NULL, NULL, operand);
        return em_if_end_value(e, &f, v, none);
    }
    LLVMTypeRef types[2] = {t, e->t_ptr};
    LLVMValueRef args[4] = {ptr, LLVMConstInt(e->t_i32, align, 0), mask, LLVMConstNull(t)};
    if (otherwise && !LLVMIsNull(otherwise))
        args[3] = em_to_bits(e, d, em_splat(e, otherwise, lanes));
    unsigned bytes = (unsigned)tcc_dtype_bytes(d);
    if (e->m->page && !e->m->masks && bytes < 4)
        return em_from_bits(e, d, load_within_page(e, t, bytes * (unsigned)lanes, args, operand));
    LLVMValueRef v = em_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
    em_tag(e, v, operand);
    return em_from_bits(e, d, v);
}

/* v of word_bytes as the first integer of two: what is no vector of the machine's would become wider lanes, and bytes
 * again. */
static LLVMValueRef as_word(struct em *e, LLVMValueRef v, int bytes)
{
    LLVMValueRef at[8];
    int lanes = em_lanes_of(v);
    if (bytes != e->m->word_bytes || lanes == 1)
        return v;
    for (int i = 0; i < 2 * lanes; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)(i % lanes), 0);
    v = LLVMBuildShuffleVector(e->b, v, LLVMGetUndef(LLVMTypeOf(v)), LLVMConstVector(at, 2 * (unsigned)lanes), "");
    v = LLVMBuildBitCast(e->b, v, em_vec(e->t_i32, 2), "");
    return LLVMBuildExtractElement(e->b, v, em_i64(e, 0), "");
}

void em_store(struct em *e, enum tcc_dtype d, LLVMValueRef ptr, LLVMValueRef value, LLVMValueRef mask, int operand)
{
    int lanes = em_lanes_of(value);
    unsigned align = alignment(e, d, lanes, operand);
    value = em_to_bits(e, d, value);
    if (all_on(mask)) {
        LLVMValueRef s = LLVMBuildStore(e->b, as_word(e, value, lanes * tcc_dtype_bytes(d)), ptr);
        LLVMSetAlignment(s, align);
        em_tag(e, s, operand);
        return;
    }
    if (lanes == 1 || em_lanes_of(mask) == 1) {
        struct em_if f;
        em_if_begin(e, &f, mask);
        LLVMValueRef s = LLVMBuildStore(e->b, value, ptr);
        LLVMSetAlignment(s, align);
        em_tag(e, s, operand);
        em_if_end(e, &f);
        return;
    }
    LLVMTypeRef types[2] = {LLVMTypeOf(value), e->t_ptr};
    LLVMValueRef args[4] = {value, ptr, LLVMConstInt(e->t_i32, align, 0), mask};
    LLVMValueRef s = em_intrinsic(e, "llvm.masked.store", 2, types, 4, args);
    em_tag(e, s, operand);
}

/* -- Scattered elements ------------------------------------------------------------------------------ */

/* Addresses of operand's elements at lane-wise offsets. */
static LLVMValueRef addresses(struct em *e, int operand, LLVMValueRef offsets)
{
    LLVMTypeRef t = em_mem_type(e, e->k->operands[operand].dtype);
    return LLVMBuildGEP2(e->b, t, e->base[operand], &offsets, 1, "");
}

/* Without a gather instruction worth using, and with all lanes on: one scalar load per lane. */
static LLVMValueRef gather_scalars(struct em *e, enum tcc_dtype d, LLVMValueRef pointers, int operand)
{
    LLVMTypeRef elem = em_mem_type(e, d);
    LLVMValueRef v = LLVMGetPoison(em_vec(elem, e->lanes));
    for (int i = 0; i < e->lanes; i++) {
        LLVMValueRef p = LLVMBuildExtractElement(e->b, pointers, em_i64(e, i), "");
        LLVMValueRef x = LLVMBuildLoad2(e->b, elem, p, "");
        LLVMSetAlignment(x, (unsigned)tcc_dtype_bytes(d));
        em_tag(e, x, operand);
        v = LLVMBuildInsertElement(e->b, v, x, em_i64(e, i), "");
    }
    return em_from_bits(e, d, v);
}

/* NULL: the machine has nothing of its own for it. */
static LLVMValueRef gather_by_machine(struct em *e, LLVMValueRef pointers, LLVMValueRef mask, int bytes)
{
    if (!e->m->gather || bytes > 8)
        return NULL;
    return e->m->gather(e, pointers, all_on(mask) ? NULL : em_splat(e, mask, e->lanes), bytes);
}

static LLVMValueRef gather(struct em *e, int operand, LLVMValueRef offsets, LLVMValueRef mask, LLVMValueRef otherwise)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    int bytes = tcc_dtype_bytes(d);
    LLVMValueRef pointers = addresses(e, operand, offsets);
    bool hardware = e->m->gathers && (bytes == 4 || bytes == 8);
    LLVMTypeRef t = em_vec(em_mem_type(e, d), e->lanes), types[2] = {t, LLVMTypeOf(pointers)};
    LLVMValueRef own = gather_by_machine(e, pointers, mask, bytes);
    if (own) {
        own = em_from_bits(e, d, LLVMBuildBitCast(e->b, own, t, ""));
        if (!otherwise || all_on(mask))
            return own;
        LLVMValueRef on = em_splat(e, mask, e->lanes), none = em_splat(e, otherwise, e->lanes);
        return LLVMBuildSelect(e->b, on, own, none, "");
    }
    if (all_on(mask) && !hardware)
        return gather_scalars(e, d, pointers, operand);
    LLVMValueRef on = mask ? em_splat(e, mask, e->lanes) : em_int(em_vec(e->t_i1, e->lanes), 1);
    LLVMValueRef args[4] = {pointers, LLVMConstInt(e->t_i32, (unsigned)(bytes > 8 ? 8 : bytes), 0), on,
                            LLVMConstNull(t)};
    if (otherwise && !LLVMIsNull(otherwise))
        args[3] = em_to_bits(e, d, em_splat(e, otherwise, e->lanes));
    LLVMValueRef v = em_intrinsic(e, "llvm.masked.gather", 2, types, 4, args);
    em_tag(e, v, operand);
    return em_from_bits(e, d, v);
}

static void scatter(struct em *e, int operand, LLVMValueRef offsets, LLVMValueRef mask, LLVMValueRef value)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    int bytes = tcc_dtype_bytes(d);
    LLVMValueRef pointers = addresses(e, operand, offsets);
    value = em_to_bits(e, d, em_splat(e, value, e->lanes));
    LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(pointers)};
    LLVMValueRef on = mask ? em_splat(e, mask, e->lanes) : em_int(em_vec(e->t_i1, e->lanes), 1);
    LLVMValueRef args[4] = {value, pointers, LLVMConstInt(e->t_i32, (unsigned)(bytes > 8 ? 8 : bytes), 0), on};
    LLVMValueRef s = em_intrinsic(e, "llvm.masked.scatter", 2, types, 4, args);
    em_tag(e, s, operand);
}

/* -- operand[index] ------------------------------------------------------------------------------------- */

static bool is_row_temp(const struct em *e, int operand)
{
    return e->local_lanes > 1 && e->k->operands[operand].use == KN_LOCAL;
}

/* Where an access lies: a first offset and a stride between lanes, or an offset per lane. */
struct place {
    LLVMValueRef offset, offsets;
    int64_t stride;
};

static struct place place_of(struct em *e, int operand, const ir_expr *index)
{
    struct place p = {0};
    ir_expr offset = em_offset(e, operand, index);
    if (em_stride(e, offset, &p.stride)) {
        p.offset = em_expr(e, offset);
        if (is_row_temp(e, operand)) {
            p.offset = LLVMBuildMul(e->b, p.offset, em_i64(e, e->local_lanes), "");
            p.stride = p.stride * e->local_lanes + (e->lanes > 1);
        }
    } else {
        p.offsets = em_expr_lanes(e, offset);
        if (is_row_temp(e, operand)) {
            LLVMTypeRef t = LLVMTypeOf(p.offsets);
            p.offsets = LLVMBuildMul(e->b, p.offsets, em_int(t, e->local_lanes), "");
            p.offsets = LLVMBuildAdd(e->b, p.offsets, em_iota(e, e->t_i64, e->lanes), "");
        }
    }
    return p;
}

/* Lane-wise offsets of a strided place. */
static LLVMValueRef place_offsets(struct em *e, const struct place *p)
{
    if (p->offsets)
        return p->offsets;
    LLVMTypeRef t = em_vec(e->t_i64, e->lanes);
    LLVMValueRef steps = LLVMBuildMul(e->b, em_iota(e, e->t_i64, e->lanes), em_int(t, p->stride), "");
    return LLVMBuildAdd(e->b, em_splat(e, p->offset, e->lanes), steps, "");
}

static LLVMValueRef any_lane(struct em *e, LLVMValueRef mask)
{
    return em_lanes_of(mask) > 1 ? em_unary_intrinsic(e, "llvm.vector.reduce.or", mask) : mask;
}

/* Consecutive elements in descending order. */
static LLVMValueRef load_reversed(struct em *e, int operand, LLVMValueRef offset)
{
    LLVMValueRef order[EM_MAX_LANES];
    offset = LLVMBuildSub(e->b, offset, em_i64(e, e->lanes - 1), "");
    LLVMValueRef v =
        em_load(e, e->k->operands[operand].dtype, em_address(e, operand, offset), e->lanes, NULL, NULL, operand);
    for (int i = 0; i < e->lanes; i++)
        order[i] = LLVMConstInt(e->t_i32, (unsigned)(e->lanes - 1 - i), 0);
    return LLVMBuildShuffleVector(e->b, v, v, LLVMConstVector(order, (unsigned)e->lanes), "");
}

/* The same element in all lanes, where any lane wants it. */
static LLVMValueRef load_uniform(struct em *e, int operand, LLVMValueRef offset, LLVMValueRef mask,
                                 LLVMValueRef otherwise)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    if (!mask)
        return em_load(e, d, em_address(e, operand, offset), 1, NULL, NULL, operand);
    LLVMValueRef none = otherwise ? otherwise : LLVMConstNull(em_reg_type(e, d));
    LLVMValueRef uniform_none = em_lanes_of(none) == 1 ? none : LLVMConstNull(em_reg_type(e, d));
    LLVMValueRef any_lane_mask = any_lane(e, mask);
    LLVMValueRef v = em_load(e, d, em_address(e, operand, offset), 1, any_lane_mask, uniform_none, operand);
    if (em_lanes_of(mask) == 1 && em_lanes_of(none) == 1)
        return v;
    mask = em_splat(e, mask, e->lanes);
    LLVMValueRef none_lanes = em_splat(e, none, e->lanes);
    return LLVMBuildSelect(e->b, mask, em_splat(e, v, e->lanes), none_lanes, "");
}

static LLVMValueRef load_place(struct em *e, int operand, const struct place *p, LLVMValueRef guard,
                               LLVMValueRef otherwise)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    if (p->offset && p->stride == 0)
        return load_uniform(e, operand, p->offset, guard, otherwise);
    LLVMValueRef mask = em_and_mask(e, MUTANT(341, e->mask, NULL), guard);
    if (p->offset && p->stride == 1)
        return em_load(e, d, em_address(e, operand, p->offset), e->lanes, mask, otherwise, operand);
    if (p->offset && p->stride == -1 && !mask)
        return load_reversed(e, operand, p->offset);
    return gather(e, operand, place_offsets(e, p), mask, otherwise);
}

LLVMValueRef em_load_at(struct em *e, int operand, const ir_expr *index, LLVMValueRef guard, LLVMValueRef otherwise)
{
    struct place p = place_of(e, operand, index);
    if (!guard || em_lanes_of(guard) > 1 || (p.offset && p.stride == 0))
        return load_place(e, operand, &p, guard, otherwise);
    /* A guard that is the same in all lanes is a branch. */
    struct em_if f;
    LLVMTypeRef t = em_reg_type(e, e->k->operands[operand].dtype);
    LLVMValueRef none = em_splat(e, otherwise ? otherwise : LLVMConstNull(t), e->lanes);
    em_if_begin(e, &f, guard);
    LLVMValueRef v = load_place(e, operand, &p, NULL, none);
    return em_if_end_value(e, &f, em_splat(e, v, e->lanes), none);
}

/* A place that is there: 16 elements of any type, all of them 0. */
enum { ZERO_BYTES = 16 * 16 };
static LLVMValueRef zeros(struct em *e)
{
    LLVMTypeRef t = LLVMArrayType2(e->t_i8, ZERO_BYTES);
    LLVMValueRef v = LLVMGetNamedGlobal(e->mod, "zeros");
    if (v)
        return v;
    v = LLVMAddGlobal(e->mod, t, "zeros");
    LLVMSetInitializer(v, LLVMConstNull(t));
    LLVMSetLinkage(v, LLVMInternalLinkage);
    LLVMSetGlobalConstant(v, 1);
    LLVMSetAlignment(v, 64);
    return v;
}

LLVMValueRef em_load_run(struct em *e, int operand, const ir_expr *index, LLVMValueRef there, LLVMValueRef lanes)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    LLVMValueRef at = em_address(e, operand, em_expr(e, em_offset(e, operand, index)));
    if (there)
        at = LLVMBuildSelect(e->b, there, at, zeros(e), "");
    return em_load(e, d, at, e->lanes, lanes, NULL, operand);
}

/* The highest lane that is on (all of them without a mask): the last of stores to one place is what stays. */
static LLVMValueRef last_lane(struct em *e, LLVMValueRef value, LLVMValueRef mask)
{
    if (em_lanes_of(value) == 1)
        return value;
    if (!mask || em_lanes_of(mask) == 1)
        return LLVMBuildExtractElement(e->b, value, em_i64(e, e->lanes - 1), "");
    LLVMValueRef lane =
        LLVMBuildSelect(e->b, mask, em_iota(e, e->t_i32, e->lanes), LLVMConstNull(em_vec(e->t_i32, e->lanes)), "");
    return LLVMBuildExtractElement(e->b, value, em_unary_intrinsic(e, "llvm.vector.reduce.umax", lane), "");
}

static void store_place(struct em *e, int operand, const struct place *p, LLVMValueRef guard, LLVMValueRef value)
{
    enum tcc_dtype d = e->k->operands[operand].dtype;
    LLVMValueRef mask = em_and_mask(e, e->mask, guard);
    if (p->offset && p->stride == 0) {
        LLVMValueRef on = mask ? any_lane(e, mask) : NULL;
        LLVMValueRef last_lane_value = last_lane(e, value, mask);
        em_store(e, d, em_address(e, operand, p->offset), last_lane_value, on, operand);
        return;
    }
    if (p->offset && p->stride == 1) {
        LLVMValueRef value_lanes = em_splat(e, value, e->lanes);
        em_store(e, d, em_address(e, operand, p->offset), value_lanes, mask, operand);
        return;
    }
    scatter(e, operand, place_offsets(e, p), mask, value);
}

void em_store_at(struct em *e, int operand, const ir_expr *index, LLVMValueRef guard, LLVMValueRef value)
{
    struct place p = place_of(e, operand, index);
    if (!guard || em_lanes_of(guard) > 1) {
        store_place(e, operand, &p, guard, value);
        return;
    }
    struct em_if f;
    em_if_begin(e, &f, guard);
    store_place(e, operand, &p, NULL, value);
    em_if_end(e, &f);
}
