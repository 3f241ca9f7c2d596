/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emitter's ground floor: types, constants, intrinsics, loops and branches, a kernel's function, operands and
 * tiles.
 */
#include "compiler/emit/emit.h"

#include <string.h>

/* -- Types and constants -------------------------------------------------------------------- */

LLVMTypeRef em_reg_type(struct em *e, enum tcc_dtype d)
{
    switch (d) {
    case TCC_F64: return e->t_f64;
    case TCC_C128: return LLVMIntTypeInContext(e->lc, 128);
    case TCC_BOOL: return e->t_i1;
    default: return tcc_is_float(d) ? e->t_f32 : LLVMIntTypeInContext(e->lc, (unsigned)tcc_dtype_bytes(d) * 8);
    }
}

LLVMTypeRef em_mem_type(struct em *e, enum tcc_dtype d)
{
    if (d == TCC_F32)
        return e->t_f32;
    return d == TCC_F64 ? e->t_f64 : LLVMIntTypeInContext(e->lc, (unsigned)tcc_dtype_bytes(d) * 8);
}

LLVMTypeRef em_vec(LLVMTypeRef scalar, int lanes)
{
    return lanes > 1 ? LLVMVectorType(scalar, (unsigned)lanes) : scalar;
}

int em_lanes_of(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

LLVMTypeRef em_like(LLVMTypeRef scalar, LLVMValueRef shape)
{
    return em_vec(scalar, em_lanes_of(shape));
}

LLVMValueRef em_i64(struct em *e, int64_t v)
{
    return LLVMConstInt(e->t_i64, (unsigned long long)v, 1);
}

static LLVMValueRef const_splat(LLVMTypeRef t, LLVMValueRef element)
{
    LLVMValueRef all[EM_MAX_LANES];
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind)
        return element;
    unsigned n = LLVMGetVectorSize(t);
    for (unsigned i = 0; i < n; i++)
        all[i] = element;
    return LLVMConstVector(all, n);
}

static LLVMTypeRef element_type(LLVMTypeRef t)
{
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

LLVMValueRef em_int(LLVMTypeRef t, int64_t v)
{
    return const_splat(t, LLVMConstInt(element_type(t), (unsigned long long)v, 1));
}

LLVMValueRef em_fp(LLVMTypeRef t, double v)
{
    return const_splat(t, LLVMConstReal(element_type(t), v));
}

LLVMValueRef em_const(struct em *e, enum tcc_dtype d, double f, int64_t i)
{
    LLVMTypeRef t = em_reg_type(e, d);
    if (!tcc_is_float(d))
        return LLVMConstInt(t, (unsigned long long)(d == TCC_BOOL ? i != 0 : i), 1);
    if (tcc_small_float(d)) {
        uint64_t bits = 0;
        tcc_store_f64(d, &bits, f);
        f = tcc_load_f64(d, &bits);
    }
    return LLVMConstReal(t, f);
}

LLVMValueRef em_splat(struct em *e, LLVMValueRef v, int lanes)
{
    if (lanes <= 1 || em_lanes_of(v) > 1)
        return v;
    LLVMTypeRef t = em_vec(LLVMTypeOf(v), lanes);
    if (LLVMIsConstant(v))
        return const_splat(t, v);
    LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, em_i64(e, 0), "");
    return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), LLVMConstNull(em_vec(e->t_i32, lanes)), "");
}

LLVMValueRef em_shuffle(struct em *e, LLVMValueRef a, LLVMValueRef b, int n, const int *order)
{
    LLVMValueRef at[EM_MAX_LANES];
    for (int i = 0; i < n; i++)
        at[i] = LLVMConstInt(e->t_i32, (unsigned)order[i], 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(at, (unsigned)n), "");
}

LLVMValueRef em_part(struct em *e, LLVMValueRef v, int first, int n)
{
    int order[EM_MAX_LANES];
    for (int i = 0; i < n; i++)
        order[i] = first + i;
    return em_lanes_of(v) == n ? v : em_shuffle(e, v, v, n, order);
}

LLVMValueRef em_side_by_side(struct em *e, int n, const LLVMValueRef *parts)
{
    int order[EM_MAX_LANES], lanes = n * em_lanes_of(parts[0]);
    if (n == 1)
        return parts[0];
    for (int i = 0; i < lanes; i++)
        order[i] = i;
    LLVMValueRef low = em_side_by_side(e, n / 2, parts), high = em_side_by_side(e, n / 2, parts + n / 2);
    return em_shuffle(e, low, high, lanes, order);
}

LLVMValueRef em_iota(struct em *e, LLVMTypeRef elem, int lanes)
{
    LLVMValueRef all[EM_MAX_LANES];
    (void)e;
    if (lanes <= 1)
        return LLVMConstInt(elem, 0, 0);
    for (int i = 0; i < lanes; i++)
        all[i] = LLVMConstInt(elem, (unsigned long long)i, 0);
    return LLVMConstVector(all, (unsigned)lanes);
}

LLVMValueRef em_tail_mask(struct em *e, LLVMValueRef count, int lanes)
{
    if (lanes <= 1)
        return LLVMBuildICmp(e->b, LLVMIntSGT, count, em_i64(e, 0), "");
    LLVMValueRef n = em_least(e, count, em_i64(e, lanes));
    n = em_most(e, n, em_i64(e, 0));
    LLVMTypeRef elem = lanes <= 64 ? LLVMIntTypeInContext(e->lc, (unsigned)(lanes <= 16 ? 32 : 8)) : e->t_i16;
    LLVMValueRef narrow = em_splat(e, LLVMBuildTrunc(e->b, n, elem, ""), lanes);
    return LLVMBuildICmp(e->b, LLVMIntSLT, em_iota(e, elem, lanes), narrow, "tail");
}

LLVMValueRef em_and_mask(struct em *e, LLVMValueRef a, LLVMValueRef b)
{
    if (!a || !b)
        return a ? a : b;
    int lanes = em_lanes_of(a) > em_lanes_of(b) ? em_lanes_of(a) : em_lanes_of(b);
    LLVMValueRef b_lanes = em_splat(e, b, lanes);
    return LLVMBuildAnd(e->b, em_splat(e, a, lanes), b_lanes, "");
}

/* -- Intrinsics --------------------------------------------------------------------------------- */

LLVMValueRef em_intrinsic(struct em *e, const char *name, int noverloads, const LLVMTypeRef *overloads, int nargs,
                          const LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef *types = (LLVMTypeRef *)overloads;
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->mod, id, types, (size_t)noverloads);
    LLVMTypeRef t = LLVMIntrinsicGetType(e->lc, id, types, (size_t)noverloads);
    return LLVMBuildCall2(e->b, t, f, (LLVMValueRef *)args, (unsigned)nargs, "");
}

LLVMValueRef em_unary_intrinsic(struct em *e, const char *name, LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    return em_intrinsic(e, name, 1, &t, 1, &x);
}

LLVMValueRef em_fma(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (!e->m->fma)
        return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, a, b, ""), c, "");
    LLVMTypeRef t = LLVMTypeOf(a);
    return em_intrinsic(e, "llvm.fma", 1, &t, 3, (LLVMValueRef[]){a, b, c});
}

/* -- Control flow ----------------------------------------------------------------------------------- */

LLVMBasicBlockRef em_block(struct em *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->lc, e->fn, name);
}

LLVMValueRef em_alloca(struct em *e, LLVMTypeRef t, int64_t n, int align)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
    LLVMValueRef v = n == 1 ? LLVMBuildAlloca(e->b, t, "") : LLVMBuildArrayAlloca(e->b, t, em_i64(e, n), "");
    if (align)
        LLVMSetAlignment(v, (unsigned)align);
    LLVMPositionBuilderAtEnd(e->b, here);
    return v;
}

void em_loop_begin(struct em *e, struct em_loop *l, struct em_range r, LLVMValueRef step, const char *name)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    *l = (struct em_loop){.step = step};
    l->head = em_block(e, name);
    l->body = em_block(e, "");
    l->exit = em_block(e, "");
    LLVMBuildBr(e->b, l->head);
    LLVMPositionBuilderAtEnd(e->b, l->head);
    l->iv = LLVMBuildPhi(e->b, e->t_i64, name);
    LLVMAddIncoming(l->iv, &r.lo, &from, 1);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, l->iv, r.end, ""), l->body, l->exit);
    LLVMPositionBuilderAtEnd(e->b, l->body);
}

LLVMValueRef em_loop_carry(struct em *e, struct em_loop *l, LLVMValueRef init)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), from;
    LLVMPositionBuilderBefore(e->b, LLVMGetNextInstruction(l->iv));
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(init), "");
    LLVMPositionBuilderAtEnd(e->b, here);
    from = LLVMGetIncomingBlock(l->iv, 0);
    LLVMAddIncoming(phi, &init, &from, 1);
    l->phi[l->ncarried++] = phi;
    return phi;
}

void em_loop_next(struct em_loop *l, int i, LLVMValueRef next)
{
    l->next[i] = next;
}

void em_loop_end(struct em *e, struct em_loop *l)
{
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, l->iv, l->step, "");
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
    LLVMAddIncoming(l->iv, &next, &from, 1);
    for (int i = 0; i < l->ncarried; i++) {
        LLVMValueRef v = l->next[i] ? l->next[i] : l->phi[i];
        LLVMAddIncoming(l->phi[i], &v, &from, 1);
    }
    LLVMBuildBr(e->b, l->head);
    LLVMPositionBuilderAtEnd(e->b, l->exit);
}

void em_if_begin(struct em *e, struct em_if *f, LLVMValueRef condition)
{
    f->from = LLVMGetInsertBlock(e->b);
    f->then = em_block(e, "then");
    f->done = em_block(e, "done");
    LLVMBuildCondBr(e->b, condition, f->then, f->done);
    LLVMPositionBuilderAtEnd(e->b, f->then);
}

void em_if_end(struct em *e, struct em_if *f)
{
    LLVMBuildBr(e->b, f->done);
    LLVMPositionBuilderAtEnd(e->b, f->done);
}

LLVMValueRef em_if_end_value(struct em *e, struct em_if *f, LLVMValueRef then, LLVMValueRef otherwise)
{
    LLVMBasicBlockRef blocks[2] = {LLVMGetInsertBlock(e->b), f->from};
    LLVMValueRef values[2] = {then, otherwise};
    em_if_end(e, f);
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(then), "");
    LLVMAddIncoming(phi, values, blocks, 2);
    return phi;
}

/* -- Operands, scratch ---------------------------------------------------------------------------------- */

ir_expr em_local_scratch(struct ir_ctx *ctx, const struct kn_kernel *k, int local_lanes)
{
    ir_expr sum = ir_const(ctx, 0);
    for (int i = 0; i < k->noperands; i++) {
        const struct kn_operand *o = &k->operands[i];
        if (o->use != KN_LOCAL)
            continue;
        ir_expr n = ir_const(ctx, (int64_t)tcc_dtype_bytes(o->dtype) * local_lanes);
        for (int j = 0; j < o->rank; j++)
            n = ir_mul(ctx, n, o->dims[j]);
        sum = ir_add(ctx, sum, ir_mulc(ctx, ir_ceildiv(ctx, n, ir_const(ctx, 64)), 64));
    }
    return sum;
}

LLVMValueRef em_bind_local(struct em *e, int operand, LLVMValueRef at)
{
    const struct kn_operand *o = &e->k->operands[operand];
    LLVMValueRef n = em_i64(e, (int64_t)tcc_dtype_bytes(o->dtype) * e->local_lanes);
    e->base[operand] = at;
    for (int j = 0; j < o->rank; j++)
        n = LLVMBuildMul(e->b, n, em_expr(e, o->dims[j]), "");
    n = LLVMBuildAnd(e->b, LLVMBuildAdd(e->b, n, em_i64(e, 63), ""), em_i64(e, -64), "");
    return LLVMBuildInBoundsGEP2(e->b, e->t_i8, at, &n, 1, "");
}

/* Base addresses: arguments in the kernel's order without the local ones, which lie one after the other in scratch. */
static void bind_operands(struct em *e)
{
    const struct kn_kernel *k = e->k;
    LLVMValueRef at = e->scratch;
    for (int i = 0, narg = 0; i < k->noperands; i++) {
        const struct kn_operand *o = &k->operands[i];
        if (o->use == KN_LOCAL) {
            at = em_bind_local(e, i, at);
            continue;
        }
        LLVMValueRef index = em_i64(e, narg++);
        LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->b, e->t_ptr, e->args, &index, 1, "");
        e->base[i] = LLVMBuildLoad2(e->b, e->t_ptr, slot, o->name ? o->name : "");
    }
    e->after_locals = at;
}

LLVMValueRef em_scratch_after_locals(struct em *e)
{
    return e->after_locals;
}

/* Operands of a kernel never overlap (but for an output in the place of an input that is read at the same point only),
 * which is told to LLVM as scopes: one per operand; every access belongs to its operand's and is no alias of all the
 * others. */
static void make_scopes(struct em *e, const char *name)
{
    int n = e->k->noperands;
    LLVMMetadataRef *scopes = IR_NEWN(e->ctx, n + 1, LLVMMetadataRef),
                    *others = IR_NEWN(e->ctx, n + 1, LLVMMetadataRef);
    LLVMMetadataRef title = LLVMMDStringInContext2(e->lc, name, strlen(name));
    LLVMMetadataRef domain = LLVMMDNodeInContext2(e->lc, &title, 1);
    for (int i = 0; i < n; i++) {
        const char *label = ir_internf(e->ctx, "%s.%d", name, i);
        LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(e->lc, label, strlen(label)), domain};
        scopes[i] = LLVMMDNodeInContext2(e->lc, parts, 2);
    }
    e->alias_scope = IR_NEWN(e->ctx, n, LLVMMetadataRef);
    e->alias_others = IR_NEWN(e->ctx, n, LLVMMetadataRef);
    for (int i = 0; i < n; i++) {
        int m = 0;
        for (int j = 0; j < n; j++)
            if (j != i)
                others[m++] = scopes[j];
        e->alias_scope[i] = LLVMMDNodeInContext2(e->lc, &scopes[i], 1);
        e->alias_others[i] = LLVMMDNodeInContext2(e->lc, others, (size_t)m);
    }
}

void em_tag(struct em *e, LLVMValueRef access, int operand)
{
    if (operand < 0)
        return;
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(e->lc, "alias.scope", 11),
                    LLVMMetadataAsValue(e->lc, e->alias_scope[operand]));
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(e->lc, "noalias", 7),
                    LLVMMetadataAsValue(e->lc, e->alias_others[operand]));
}

/* -- Kernel functions -------------------------------------------------------------------------------------- */

static void init_types(struct em *e)
{
    e->t_void = LLVMVoidTypeInContext(e->lc);
    e->t_i1 = LLVMInt1TypeInContext(e->lc);
    e->t_i8 = LLVMInt8TypeInContext(e->lc);
    e->t_i16 = LLVMInt16TypeInContext(e->lc);
    e->t_i32 = LLVMInt32TypeInContext(e->lc);
    e->t_i64 = LLVMInt64TypeInContext(e->lc);
    e->t_f32 = LLVMFloatTypeInContext(e->lc);
    e->t_f64 = LLVMDoubleTypeInContext(e->lc);
    e->t_ptr = LLVMPointerTypeInContext(e->lc, 0);
}

static void add_attribute(struct em *e, LLVMValueRef fn, const char *name, const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(e->lc, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void add_enum_attribute(struct em *e, LLVMValueRef fn, LLVMAttributeIndex at, const char *name, uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(e->lc, kind, value));
}

void em_function_attributes(struct em *e, LLVMValueRef fn)
{
    add_attribute(e, fn, "target-cpu", e->m->llvm_cpu);
    if (e->m->tune)
        add_attribute(e, fn, "tune-cpu", e->m->tune);
    add_attribute(e, fn, "target-features", e->m->llvm_features);
    add_attribute(e, fn, "prefer-vector-width", ir_internf(e->ctx, "%d", e->m->vector_bytes * 8));
    add_enum_attribute(e, fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind", 0);
    uint64_t vscale = (uint64_t)e->m->vscale;
    if (vscale) /* least and most */
        add_enum_attribute(e, fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "vscale_range",
                           vscale << 32 | vscale);
}

static void make_function(struct em *e, const char *name)
{
    LLVMTypeRef params[6] = {e->t_ptr, e->t_ptr, e->t_ptr, e->t_ptr, e->t_i64, e->t_i64};
    e->fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->t_void, params, 6, 0));
    LLVMSetVisibility(e->fn, LLVMHiddenVisibility);
    LLVMSetSection(e->fn, ir_internf(e->ctx, ".text.%s", name));
    em_function_attributes(e, e->fn);
    for (unsigned i = 1; i <= 4; i++)
        add_enum_attribute(e, e->fn, i, "noalias", 0);
    e->args = LLVMGetParam(e->fn, 0);
    e->sizes = LLVMGetParam(e->fn, 1);
    e->scratch = LLVMGetParam(e->fn, 2);
    e->env = LLVMGetParam(e->fn, 3);
    e->first = LLVMGetParam(e->fn, 4);
    e->last = LLVMGetParam(e->fn, 5);
}

void em_kernel_prepare(struct em *e, int local_lanes)
{
    const struct kn_kernel *k = e->k;
    init_types(e);
    e->local_lanes = local_lanes;
    e->base = IR_NEWN(e->ctx, k->noperands, LLVMValueRef);
    e->value = IR_NEWN(e->ctx, k->ninsns, LLVMValueRef);
    e->nbind = 0;
    e->vdim = NULL;
    e->lanes = 1;
    e->mask = NULL;
    e->tile_step = NULL;
    e->align = NULL;
}

void em_kernel_enter(struct em *e, const char *name)
{
    make_scopes(e, name);
    e->entry = LLVMAppendBasicBlockInContext(e->lc, e->fn, "entry");
    LLVMPositionBuilderAtEnd(e->b, e->entry);
}

void em_kernel_body(struct em *e)
{
    LLVMBasicBlockRef body = em_block(e, "body");
    LLVMBuildBr(e->b, body);
    LLVMPositionBuilderAtEnd(e->b, body);
}

void em_kernel_begin(struct em *e, const char *name, int local_lanes)
{
    const struct kn_kernel *k = e->k;
    em_kernel_prepare(e, local_lanes);
    make_function(e, name);
    em_kernel_enter(e, name);
    for (int i = 0; i < k->nsizes; i++) {
        LLVMValueRef index = em_i64(e, i);
        LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->b, e->t_i64, e->sizes, &index, 1, "");
        em_bind(e, k->sizes[i], LLVMBuildLoad2(e->b, e->t_i64, slot, k->sizes[i]->name ? k->sizes[i]->name : ""));
    }
    bind_operands(e);
    em_kernel_body(e);
}

void em_kernel_end(struct em *e)
{
    LLVMBuildRetVoid(e->b);
}

/* -- Tiles ---------------------------------------------------------------------------------------------------- */

int em_nouter(const struct kn_kernel *k)
{
    int n = 0;
    while (n < k->ndims && k->dims[n].role != KN_INNER)
        n++;
    return n;
}

bool em_is_piece(const struct kn_kernel *k, int dim)
{
    return k->split.combine && k->split.dim == dim;
}

static ir_expr count_tiles(struct ir_ctx *ctx, const struct kn_kernel *k, int first)
{
    ir_expr n = ir_const(ctx, 1);
    for (int i = first; i < em_nouter(k); i++)
        if (k->schedule.tile[i] > 0)
            n = ir_mul(ctx, n, ir_ceildiv(ctx, k->dims[i].extent, ir_const(ctx, k->schedule.tile[i])));
        else if (ir_is_value(k->dims[i].extent, 0))
            return ir_const(ctx, 0);
    return n;
}

ir_expr em_tile_count(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    return count_tiles(ctx, k, 0);
}

ir_expr em_combine_count(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    return k->split.combine ? count_tiles(ctx, k, 1) : NULL; /* pieces are the first dim */
}

LLVMValueRef em_continues(struct em *e)
{
    LLVMValueRef at = em_i64(e, offsetof(struct tcc_env, continues));
    LLVMValueRef v = LLVMBuildLoad2(e->b, e->t_i32, LLVMBuildGEP2(e->b, e->t_i8, e->env, &at, 1, ""), "continues");
    return LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(e->t_i32), "");
}

LLVMValueRef em_extent(struct em *e, int dim)
{
    return em_expr(e, e->k->dims[dim].extent);
}

struct em_range em_range_of(struct em *e, ir_expr lo, ir_expr hi)
{
    LLVMValueRef from = em_expr(e, lo);
    return em_range(e, from, em_expr(e, hi));
}

struct em_range em_points(struct em *e, int dim)
{
    return em_below(e, em_extent(e, dim));
}

/* Number of tiles along an outer dim, known when the kernel is compiled? Else -1. */
static int64_t tiles_along(const struct kn_kernel *k, int dim)
{
    int64_t extent, tile = k->schedule.tile[dim];
    if (tile <= 0)
        return 1;
    return ir_is_const(k->dims[dim].extent, &extent) ? (extent + tile - 1) / tile : -1;
}

void em_tiles_begin(struct em *e, struct em_tiles *t)
{
    const struct kn_kernel *k = e->k;
    em_loop_begin(e, &t->loop, em_range(e, e->first, e->last), e->tile_step ? e->tile_step : em_i64(e, 1), "tile");
    LLVMValueRef rest = t->loop.iv;
    int first = e->combining, first_tiled = first;
    if (e->combining)
        rest = LLVMBuildNSWSub(e->b, rest, em_expr(e, k->tiles), "");
    while (first_tiled < em_nouter(k) && tiles_along(k, first_tiled) == 1)
        first_tiled++;
    for (int i = em_nouter(k) - 1; i >= first; i--) {
        struct em_range all = em_points(e, i);
        LLVMValueRef tile = em_i64(e, k->schedule.tile[i]);
        int64_t along = tiles_along(k, i);
        if (along == 1) {
            t->at[i] = all;
            continue;
        }
        LLVMValueRef number = rest;
        if (i != first_tiled) {
            LLVMValueRef n = em_i64(e, along);
            if (along < 0)
                n = LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, all.hi, em_i64(e, k->schedule.tile[i] - 1), ""), tile, "");
            number = LLVMBuildURem(e->b, rest, n, "");
            rest = LLVMBuildUDiv(e->b, rest, n, "");
        }
        t->at[i] = em_tile(e, all, number, tile);
    }
}

void em_tiles_end(struct em *e, struct em_tiles *t)
{
    em_loop_end(e, &t->loop);
}
