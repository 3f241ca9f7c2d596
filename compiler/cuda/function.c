/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function.c - a device function: its parameters (runtime/abi.h, "Images"), the number of its thread, local operands,
 * and what threads do together.
 *
 *     .visible .entry PREFIXk<i>(args..., sizes..., scratch, control, tiles, values[, mapped, maps...])
 *         for (t = number of the thread or group; t < tiles; t += how many there are)  tile t
 *
 * What writes state begins by testing the fault word, and ends there if a kernel before it has met a bad index.
 *
 * Addresses are of global memory. Where there are too many parameters they lie in a table; its values never change
 * while the kernel runs. Within a program that serves several sizes, `values` is where they are: sizes and tiles are
 * numbers of them then. A function of several launches as one (PREFIXk<i>_rows) has all of theirs in a table, in which
 * a block finds its own.
 */
#include "compiler/cuda/cuda_int.h"

#include <string.h>

#define V LLVMValueRef

enum { KERNEL_CONVENTION = 71 }; /* ptx_kernel */

/* -- Intrinsics ---------------------------------------------------------------------------------------------- */

V cuda_sreg(struct em *e, const char *name)
{
    V v = em_intrinsic(e, ir_internf(e->ctx, "llvm.nvvm.read.ptx.sreg.%s", name), 0, NULL, 0, NULL);
    return LLVMBuildZExt(e->b, v, e->t_i64, name);
}

void cuda_barrier(struct em *e)
{
    em_intrinsic(e, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);
}

void cuda_warp_barrier(struct em *e)
{
    V all = LLVMConstInt(e->t_i32, 0xffffffffu, 0);
    em_intrinsic(e, "llvm.nvvm.bar.warp.sync", 0, NULL, 1, &all);
}

V cuda_asm(struct em *e, LLVMTypeRef result, const char *text, const char *constraints, int nargs, const V *args)
{
    LLVMTypeRef *types = IR_NEWN(e->ctx, nargs + 1, LLVMTypeRef);
    unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
    for (int i = 0; i < nargs; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef t = LLVMFunctionType(result, types, (unsigned)nargs, 0);
    V code =
        LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    V call = LLVMBuildCall2(e->b, t, code, (V *)args, (unsigned)nargs, "");
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->lc, convergent, 0));
    return call;
}

void cuda_group_barrier(struct cuda_fn *f)
{
    if (f->s.group > 32)
        cuda_barrier(f->e);
    else
        cuda_warp_barrier(f->e);
}

static V shuffle_word(struct em *e, V v, bool up, int distance)
{
    V args[] = {LLVMConstInt(e->t_i32, 0xffffffffu, 0), v, LLVMConstInt(e->t_i32, (unsigned)distance, 0),
                LLVMConstInt(e->t_i32, up ? 0 : 31, 0)}; /* the last lane, or the first, of which there are values */
    return em_intrinsic(e, up ? "llvm.nvvm.shfl.sync.up.i32" : "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, args);
}

/* A value of any scalar type, by words. */
static V shuffle(struct em *e, V v, bool up, int distance)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    LLVMTypeKind kind = LLVMGetTypeKind(t);
    unsigned bits = kind == LLVMFloatTypeKind ? 32 : kind == LLVMDoubleTypeKind ? 64 : LLVMGetIntTypeWidth(t);
    LLVMTypeRef whole = LLVMIntTypeInContext(e->lc, bits);
    V x = LLVMBuildBitCast(e->b, v, whole, "");
    if (bits < 32) {
        x = LLVMBuildTrunc(e->b, shuffle_word(e, LLVMBuildZExt(e->b, x, e->t_i32, ""), up, distance), whole, "");
    } else if (bits == 32) {
        x = shuffle_word(e, x, up, distance);
    } else {
        V low = LLVMBuildTrunc(e->b, x, e->t_i32, ""), half = em_i64(e, 32);
        V high = LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, x, half, ""), e->t_i32, "");
        low = LLVMBuildZExt(e->b, shuffle_word(e, low, up, distance), e->t_i64, "");
        high = LLVMBuildZExt(e->b, shuffle_word(e, high, up, distance), e->t_i64, "");
        x = LLVMBuildOr(e->b, low, LLVMBuildShl(e->b, high, half, ""), "");
    }
    return LLVMBuildBitCast(e->b, x, t, "");
}

V cuda_shuffle_xor(struct em *e, V v, int distance)
{
    return shuffle(e, v, false, distance);
}

V cuda_shuffle_up(struct em *e, V v, int distance)
{
    return shuffle(e, v, true, distance);
}

V cuda_shared(struct em *e, const char *name, int64_t bytes, int align)
{
    V g = LLVMAddGlobalInAddressSpace(e->mod, LLVMArrayType2(e->t_i8, (uint64_t)bytes), name, CUDA_SHARED_SPACE);
    LLVMSetInitializer(g, LLVMGetUndef(LLVMArrayType2(e->t_i8, (uint64_t)bytes)));
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetAlignment(g, (unsigned)align);
    return g;
}

V cuda_launch_shared(struct em *e)
{
    static const char name[] = "cuda_launch_shared";
    V g = LLVMGetNamedGlobal(e->mod, name);
    if (!g) {
        g = LLVMAddGlobalInAddressSpace(e->mod, LLVMArrayType2(e->t_i8, 0), name, CUDA_SHARED_SPACE);
        LLVMSetLinkage(g, LLVMExternalLinkage);
        LLVMSetAlignment(g, 1024);
    }
    return g;
}

/* -- Parameters ------------------------------------------------------------------------------------------------ */

static LLVMTypeRef pointer_type(struct em *e)
{
    return LLVMPointerTypeInContext(e->lc, CUDA_GLOBAL);
}

static void annotate(struct em *e, const char *what, int value)
{
    LLVMMetadataRef parts[] = {LLVMValueAsMetadata(e->fn), LLVMMDStringInContext2(e->lc, what, strlen(what)),
                               LLVMValueAsMetadata(LLVMConstInt(e->t_i32, (unsigned)value, 0))};
    LLVMAddNamedMetadataOperand(e->mod, "nvvm.annotations",
                                LLVMMetadataAsValue(e->lc, LLVMMDNodeInContext2(e->lc, parts, 3)));
}

static void make_function(struct cuda_fn *f, const char *name, int nargs, bool table)
{
    struct em *e = f->e;
    int n = f->nparams = (table ? 1 : nargs + e->k->nsizes) + 4;
    LLVMTypeRef *types = IR_NEWN(e->ctx, n + 3, LLVMTypeRef);
    for (int i = 0; i < n; i++)
        types[i] = table || i < nargs ? pointer_type(e) : e->t_i64;
    types[n - 4] = types[n - 3] = types[n - 1] = pointer_type(e);
    types[n - 2] = e->t_i64;
    if (f->has_maps) {
        types[n] = e->t_i64;
        types[n + 1] = types[n + 2] = LLVMPointerTypeInContext(e->lc, CUDA_GENERIC);
        n += 3;
    }
    e->fn = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->t_void, types, (unsigned)n, 0));
    LLVMSetFunctionCallConv(e->fn, KERNEL_CONVENTION);
    em_function_attributes(e, e->fn);
}

/* Two maps by value, whose address in the parameters a copy takes (`grid_constant`; else they would be copied to the
 * thread's memory). */
static void declare_maps(struct cuda_fn *f)
{
    struct em *e = f->e;
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5), align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMTypeRef map = LLVMArrayType2(e->t_i8, TCC_MAP_BYTES);
    LLVMMetadataRef numbers[2];
    f->mapped = LLVMGetParam(e->fn, (unsigned)f->nparams);
    for (unsigned i = 0; i < 2; i++) {
        unsigned at = (unsigned)f->nparams + 2 + i; /* counted from 1 */
        LLVMAddAttributeAtIndex(e->fn, at, LLVMCreateTypeAttribute(e->lc, byval, map));
        LLVMAddAttributeAtIndex(e->fn, at, LLVMCreateEnumAttribute(e->lc, align, 64));
        f->maps[i] = LLVMGetParam(e->fn, at - 1);
        numbers[i] = LLVMValueAsMetadata(LLVMConstInt(e->t_i32, at, 0));
    }
    LLVMMetadataRef parts[] = {LLVMValueAsMetadata(e->fn), LLVMMDStringInContext2(e->lc, "grid_constant", 13),
                               LLVMMDNodeInContext2(e->lc, numbers, 2)};
    LLVMAddNamedMetadataOperand(e->mod, "nvvm.annotations",
                                LLVMMetadataAsValue(e->lc, LLVMMDNodeInContext2(e->lc, parts, 3)));
}

/* A word of a list that nobody writes while the kernel runs. */
static V word_of(struct em *e, V list, V index, LLVMTypeRef t)
{
    V v = LLVMBuildLoad2(e->b, t, LLVMBuildInBoundsGEP2(e->b, e->t_i64, list, &index, 1, ""), "");
    LLVMSetAlignment(v, 8);
    LLVMSetMetadata(v, LLVMGetMDKindIDInContext(e->lc, "invariant.load", 14),
                    LLVMMetadataAsValue(e->lc, LLVMMDNodeInContext2(e->lc, NULL, 0)));
    return v;
}

/* Argument or size number i. */
static V parameter(struct em *e, int i, bool table, LLVMTypeRef t)
{
    return table ? word_of(e, LLVMGetParam(e->fn, 0), em_i64(e, i), t) : LLVMGetParam(e->fn, (unsigned)i);
}

/* Sizes and the number of tiles, as they are given or as the control block has them. */
static void bind_sizes(struct cuda_fn *f, int nargs, bool table)
{
    struct em *e = f->e;
    int n = e->k->nsizes;
    unsigned last = (unsigned)f->nparams - 1;
    V values = LLVMGetParam(e->fn, last), *given = IR_NEWN(e->ctx, n + 1, V), *read = IR_NEWN(e->ctx, n + 1, V);
    f->tiles = LLVMGetParam(e->fn, last - 1);
    if (!n)
        return; /* then tiles don't vary either */
    for (int i = 0; i <= n; i++)
        given[i] = i < n ? parameter(e, nargs + i, table, e->t_i64) : f->tiles;
    LLVMBasicBlockRef block[] = {LLVMGetInsertBlock(e->b), em_block(e, "control")}, sizes = em_block(e, "sizes");
    V none = LLVMBuildICmp(e->b, LLVMIntEQ, values, LLVMConstNull(LLVMTypeOf(values)), "");
    LLVMBuildCondBr(e->b, none, sizes, block[1]);
    LLVMPositionBuilderAtEnd(e->b, block[1]);
    for (int i = 0; i <= n; i++)
        read[i] = word_of(e, values, given[i], e->t_i64);
    LLVMBuildBr(e->b, sizes);
    LLVMPositionBuilderAtEnd(e->b, sizes);
    for (int i = 0; i <= n; i++) {
        V v = LLVMBuildPhi(e->b, e->t_i64, "");
        LLVMAddIncoming(v, (V[]){given[i], read[i]}, block, 2);
        if (i < n)
            em_bind(e, e->k->sizes[i], v);
        else
            f->tiles = v;
    }
}

/* The last of `n` ascending words of the list that is not above `v`; the first is 0. */
static V last_below(struct em *e, V list, V n, V v)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = em_block(e, "search"), half = em_block(e, "half"),
                      done = em_block(e, "found");
    V one = em_i64(e, 1), zero = em_i64(e, 0);
    LLVMBuildBr(e->b, head);
    LLVMPositionBuilderAtEnd(e->b, head);
    V lo = LLVMBuildPhi(e->b, e->t_i64, ""), hi = LLVMBuildPhi(e->b, e->t_i64, "");
    V next = LLVMBuildNSWAdd(e->b, lo, one, "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, hi, ""), half, done);
    LLVMPositionBuilderAtEnd(e->b, half);
    V mid = LLVMBuildLShr(e->b, LLVMBuildNSWAdd(e->b, lo, hi, ""), one, "");
    V above = LLVMBuildICmp(e->b, LLVMIntSGT, word_of(e, list, mid, e->t_i64), v, "");
    V lower = LLVMBuildSelect(e->b, above, lo, mid, ""), upper = LLVMBuildSelect(e->b, above, mid, hi, "");
    LLVMBuildBr(e->b, head);
    LLVMAddIncoming(lo, (V[]){zero, lower}, (LLVMBasicBlockRef[]){before, half}, 2);
    LLVMAddIncoming(hi, (V[]){n, upper}, (LLVMBasicBlockRef[]){before, half}, 2);
    LLVMPositionBuilderAtEnd(e->b, done);
    return lo;
}

/* The launch whose blocks this one is among, and what the table has for it (abi.h, TCC_LAUNCH_ROWS). */
static void bind_row(struct cuda_fn *f, int nargs)
{
    struct em *e = f->e;
    const struct kn_kernel *k = e->k;
    V table = LLVMGetParam(e->fn, 0), rows = LLVMGetParam(e->fn, 3), block = cuda_sreg(e, "ctaid.x"),
      one = em_i64(e, 1);
    V row = last_below(e, table, rows, block), from = word_of(e, table, row, e->t_i64);
    V end = word_of(e, table, LLVMBuildNSWAdd(e->b, row, one, ""), e->t_i64);
    V at = LLVMBuildNSWMul(e->b, row, em_i64(e, nargs + k->nsizes + 1), "");
    at = LLVMBuildNSWAdd(e->b, LLVMBuildNSWAdd(e->b, at, rows, ""), one, "");
    V list = LLVMBuildInBoundsGEP2(e->b, e->t_i64, table, &at, 1, "");
    for (int i = 0, n = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL)
            e->base[i] = word_of(e, list, em_i64(e, n++), pointer_type(e));
    for (int i = 0; i < k->nsizes; i++)
        em_bind(e, k->sizes[i], word_of(e, list, em_i64(e, nargs + i), e->t_i64));
    f->tiles = word_of(e, list, em_i64(e, nargs + k->nsizes), e->t_i64);
    f->block = LLVMBuildNSWSub(e->b, block, from, "");
    f->blocks = LLVMBuildNSWSub(e->b, end, from, "");
    e->scratch = LLVMGetParam(e->fn, 1);
    e->env = LLVMGetParam(e->fn, 2);
}

static void bind_parameters(struct cuda_fn *f, int nargs, bool table)
{
    struct em *e = f->e;
    const struct kn_kernel *k = e->k;
    unsigned last = (unsigned)f->nparams - 1;
    for (int i = 0, n = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL)
            e->base[i] = parameter(e, n++, table, pointer_type(e));
    e->scratch = LLVMGetParam(e->fn, last - 3);
    e->env = LLVMGetParam(e->fn, last - 2);
    bind_sizes(f, nargs, table);
}

/* -- Threads ------------------------------------------------------------------------------------------------------ */

/* Units are threads, warps, or blocks. */
static void number_units(struct cuda_fn *f)
{
    struct em *e = f->e;
    int group = cuda_group_of(&f->s), per_block = f->s.threads / group;
    f->thread = cuda_sreg(e, "tid.x");
    if (!f->rows) {
        f->block = cuda_sreg(e, "ctaid.x");
        f->blocks = cuda_sreg(e, "nctaid.x");
    }
    f->unit = f->block;
    f->units = f->blocks;
    f->lane = group == 1 ? em_i64(e, 0) : f->thread;
    if (per_block == 1)
        return;
    V own = f->s.group == 1 ? f->thread : LLVMBuildUDiv(e->b, f->thread, em_i64(e, f->s.group), "");
    if (f->s.group > 1)
        f->lane = LLVMBuildURem(e->b, f->thread, em_i64(e, f->s.group), "lane");
    f->unit = LLVMBuildNSWAdd(e->b, LLVMBuildNSWMul(e->b, f->block, em_i64(e, per_block), ""), own, "unit");
    f->units = LLVMBuildNSWMul(e->b, f->blocks, em_i64(e, per_block), "units");
}

/* -- Local operands ------------------------------------------------------------------------------------------------ */

/* Of the thread, made in the function's first block. */
static V private_memory(struct em *e, int64_t size)
{
    LLVMTypeRef t = LLVMArrayType2(e->t_i8, (uint64_t)size);
    if (LLVMGetInsertBlock(e->b) != e->entry)
        return em_alloca(e, t, 1, 16);
    V at = LLVMBuildAlloca(e->b, t, "");
    LLVMSetAlignment(at, 16);
    return at;
}

static void place_locals(struct cuda_fn *f, const char *name)
{
    struct em *e = f->e;
    ir_expr bytes;
    enum cuda_locals how = cuda_locals(e->ctx, e->k, &f->s, &bytes);
    int64_t size = ir_const_or(bytes, 0);
    V at = NULL, offset;
    switch (how) {
    case CUDA_NO_LOCALS: return;
    case CUDA_PRIVATE: at = private_memory(e, size); break;
    case CUDA_SHARED:
        offset = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, f->thread, em_i64(e, f->s.group), ""), em_i64(e, size), "");
        at = cuda_shared(e, ir_internf(e->ctx, "%s_rows", name), size * (f->s.threads / f->s.group), 64);
        at = LLVMBuildInBoundsGEP2(e->b, e->t_i8, at, &offset, 1, "");
        break;
    case CUDA_SCRATCH:
        offset = LLVMBuildMul(e->b, f->unit, em_expr(e, bytes), "");
        at = LLVMBuildInBoundsGEP2(e->b, e->t_i8, e->scratch, &offset, 1, "");
        break;
    }
    f->shared_locals = f->s.group > 1;
    for (int i = 0; i < e->k->noperands; i++)
        if (e->k->operands[i].use == KN_LOCAL)
            at = em_bind_local(e, i, at);
}

/* No thread goes on where the fault word is set. Whatever may set it has ended before. */
static void stop_after_fault(struct em *e)
{
    V word = LLVMBuildLoad2(e->b, e->t_i32, e->env, "fault");
    LLVMBasicBlockRef stop = em_block(e, "stop"), run = em_block(e, "run");
    LLVMSetVolatile(word, 1);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, word, LLVMConstNull(e->t_i32), ""), run, stop);
    LLVMPositionBuilderAtEnd(e->b, stop);
    LLVMBuildRetVoid(e->b);
    LLVMPositionBuilderAtEnd(e->b, run);
}

void cuda_begin(struct cuda_fn *f, struct em *e, const char *name)
{
    int nargs = kn_argument_of(e->k, e->k->noperands);
    bool table = f->rows || tcc_launch_has_table((uint64_t)nargs, (uint64_t)e->k->nsizes);
    f->e = e;
    f->name = name;
    f->s = e->combining ? cuda_combine_schedule() : cuda_get_schedule(e->k);
    em_kernel_prepare(e, 1);
    make_function(f, name, nargs, table);
    if (f->has_maps)
        declare_maps(f);
    annotate(e, "maxntidx", f->s.threads);
    annotate(e, "minctasm", 1); /* else ptxas spills a few registers for more blocks at once */
    em_kernel_enter(e, name);
    if (f->rows)
        bind_row(f, nargs);
    else
        bind_parameters(f, nargs, table);
    number_units(f);
    place_locals(f, name);
    if (f->s.group > 32)
        f->partial = cuda_shared(e, ir_internf(e->ctx, "%s_partial", name), 16 * (f->s.group / 32), 16);
    e->first = f->unit;
    e->last = f->tiles;
    if (e->combining) { /* its tiles are numbered behind those of the first phase */
        e->first = LLVMBuildNSWAdd(e->b, f->unit, f->tiles, "");
        e->last = LLVMBuildNSWAdd(e->b, f->tiles, em_expr(e, e->k->combining), "");
    }
    e->tile_step = f->units;
    if (f->stops)
        stop_after_fault(e);
    em_kernel_body(e);
}

void cuda_end(struct cuda_fn *f)
{
    em_kernel_end(f->e);
}

/* -- Registers ----------------------------------------------------------------------------------------------------- */

void cuda_set_registers(struct em *e, bool more, int n)
{
    V count = LLVMConstInt(e->t_i32, (unsigned)n, 0);
    em_intrinsic(e, more ? "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32" : "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", 0,
                 NULL, 1, &count);
}

/* -- Loops --------------------------------------------------------------------------------------------------------- */

void cuda_loop_end(struct em *e, struct em_loop *l)
{
    static const char what[] = "llvm.loop.unroll.disable";
    LLVMBasicBlockRef body = LLVMGetInsertBlock(e->b);
    em_loop_end(e, l);
    LLVMMetadataRef name = LLVMMDStringInContext2(e->lc, what, sizeof what - 1);
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->lc, &name, 1);
    LLVMMetadataRef temporary = LLVMTemporaryMDNode(e->lc, NULL, 0), parts[] = {temporary, node};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(e->lc, parts, 2);
    LLVMMetadataReplaceAllUsesWith(temporary, loop);
    LLVMSetMetadata(LLVMGetBasicBlockTerminator(body), LLVMGetMDKindIDInContext(e->lc, "llvm.loop", 9),
                    LLVMMetadataAsValue(e->lc, loop));
}

/* -- What bodies share --------------------------------------------------------------------------------------------- */

V cuda_below(struct em *e, V x, V end)
{
    return em_least(e, x, LLVMBuildSub(e->b, end, em_i64(e, 1), ""));
}

static void aligned_body(struct em *e, const int *align, void (*body)(void *user, bool wide), void *user)
{
    e->align = align;
    body(user, align != NULL);
    e->align = NULL;
}

V cuda_aligned(struct cuda_fn *f, const int *align)
{
    struct em *e = f->e;
    V any = NULL;
    for (int i = 0; i < e->k->noperands; i++) {
        V base = align[i] ? LLVMBuildPtrToInt(e->b, e->base[i], e->t_i64, "") : NULL;
        any = any && base ? LLVMBuildOr(e->b, any, base, "") : base ? base : any;
    }
    any = any ? LLVMBuildAnd(e->b, any, em_i64(e, 15), "") : NULL;
    return any ? LLVMBuildICmp(e->b, LLVMIntEQ, any, em_i64(e, 0), "aligned") : NULL;
}

void cuda_twice(struct cuda_fn *f, const int *align, void (*body)(void *user, bool wide), void *user)
{
    struct em *e = f->e;
    V aligned = cuda_aligned(f, align);
    if (!aligned) {
        aligned_body(e, align, body, user);
        return;
    }
    LLVMBasicBlockRef wide = em_block(e, "wide"), narrow = em_block(e, "narrow"), done = em_block(e, "done");
    LLVMBuildCondBr(e->b, aligned, wide, narrow);
    LLVMPositionBuilderAtEnd(e->b, wide);
    aligned_body(e, align, body, user);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, narrow);
    aligned_body(e, NULL, body, user);
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
}
