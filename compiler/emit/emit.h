/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.h - what targets share that emit LLVM IR: a kernel's function, its operands, symbols and tiles, loops, loads and
 * stores of every element type, the instructions of kernel bodies, and plain loop nests (loops.h). Vector math is
 * vmath.h's. It knows no machine: struct em_machine says what there is.
 *
 * Values. A kernel instruction's value is an LLVM value that is either uniform (a scalar type) or lane-wise (a vector
 * of e->lanes elements): lane l belongs to point start + l of the vector dim e->vdim (an expression: the dim's
 * variable; NULL: everything is uniform). Types in registers:
 *     f32 float   f64 double   f16, bf16, f8*, f4: float, holding a value that is exact in the type
 *     bool i1     i8..u64: iN of their width; 4-bit and 2-bit integers: i8, wrapped to their width
 *     c64 i64, c128 i128 (moved only)
 * In memory an element is what abi.h says (em_mem_type). Mixing uniform and lane-wise values broadcasts the uniform one
 * (em_splat); so a template may put uniform or vector values for any instruction.
 *
 * Masks. e->mask is NULL (all lanes run) or a <lanes x i1>: loads read nothing and stores write nothing in lanes that
 * are off. Guards of instructions are added to it.
 *
 * How a template uses it:
 *     struct em e;  em_kernel_begin(&e, ...);                       function, operands, sizes; done by the target
 *     em_loops(&e, nest), or a template of the target's own:
 *         em_tiles_begin(&e, &tiles)                                loop over tiles first..last: tiles.at[d]
 *             em_loop_begin/.._end, em_bind(&e, dim var, value)     loops of its own
 *             em_set_lanes(&e, var, 16, mask); em_stage / em_insns  bodies (values preset in e->value[])
 *         em_tiles_end(&e, &tiles)
 *     em_kernel_end(&e)
 * Nothing here fails: kernels have been verified; what can't be emitted was refused before (em_refuses). Memory of the
 * compiler's own comes from the context's arena. Not thread-safe: one struct em, one thread.
 */
#ifndef TCC_EMIT_H
#define TCC_EMIT_H

#include "compiler/emit/range.h"
#include "ir/ir.h"

#define EM_MAX_LANES 256

/* What the emitter asks of a machine. Functions may be NULL; those on floats then take general instructions. */
struct em;
struct em_machine {
    const char *llvm_cpu, *llvm_features;
    const char *tune;                /* the processor that instructions are ordered for; NULL: llvm_cpu */
    int vector_bytes;                /* 16, 32, 64; 4: no vectors */
    int word_bytes;                  /* vectors of so many bytes are stored as one integer; 0: none */
    int vscale;                      /* vectors of scalable length have that many times their least; 0: unknown */
    bool fma;
    bool masks;                      /* memory accesses in some of a vector's lanes are one instruction */
    int page;                        /* memory is there, or not, in pieces of so many bytes at least; 0: unknown */
    bool gathers;                    /* loads of 4 and 8 bytes by an address a lane are one */
    /* integers of `bytes` bytes by an address a lane, where the mask, of as many lanes, or NULL, says so, else 0; NULL,
     * or gives it: not of so many lanes */
    LLVMValueRef (*gather)(struct em *e, LLVMValueRef pointers, LLVMValueRef mask, int bytes);
    bool index32;                    /* integers of 32 bits are cheaper than those of 64 */
    bool divides_lanes;              /* several doubles are divided at once, an integer by itself */
    bool converts_f16;               /* conversions between f16 and f32 are one */
    /* two f32 rounded to bf16 as the halves of an i32 */
    LLVMValueRef (*pair_bf16)(struct em *e, LLVMValueRef low, LLVMValueRef high);
    /* f32 rounded to bf16 where results below 2^-126 may become zero; NULL, or gives it: not of so many lanes */
    LLVMValueRef (*flushed_bf16)(struct em *e, LLVMValueRef v);
    /* f32 to i32, to nearest even; NULL: not of so many lanes */
    LLVMValueRef (*round_to_int)(struct em *e, LLVMValueRef v);
    /* f32 to a byte, saturated, NaN to 0: y towards 0, or (`round`) em_quantise(); NULL, or gives it: not of so many
     * lanes, or that zero */
    LLVMValueRef (*to_byte)(struct em *e, enum tcc_dtype to, LLVMValueRef y, double zero, bool round);
    bool passes_nan;                 /* minima and maxima that are NaN where one side is are one instruction */
    bool narrows_saturated;          /* lanes become narrower with saturation only; round_to_int gives -2^31 of NaN and
                                      * of what is below all i32 */
    /* p * 2^n, of 16 f32, n whole; rounds once, knows all n */
    LLVMValueRef (*scale)(struct em *e, LLVMValueRef p, LLVMValueRef n);
    /* 2^x of an f32 within 2 units in the last place, 0 below 2^-126; or NULL */
    LLVMValueRef (*power)(struct em *e, LLVMValueRef x);
    /* of `looked_up` f32, 8 or 16, those that the low bits of as many i32 say; NULL where that is 0 */
    LLVMValueRef (*look_up)(struct em *e, LLVMValueRef table, LLVMValueRef index);
    int looked_up;
};

/* A plain loop nest: `width` lanes along dim `vector` (-1: none), `unroll` vectors at a time; of sums along an inner
 * dim `rows` points of the last outer dim side by side (0: one), so that what they have in common is loaded once. */
struct em_nest { int vector, width, unroll, rows; };

/* value: i64, or <lanes x i64> (gathered indexes). bad: of a KN_INDEX's symbol, where the index lies outside `bound`
 * (value is 0 there); else NULL. */
struct em_binding { ir_expr sym; LLVMValueRef value, bad; ir_expr bound; };

struct em {
    struct ir_ctx *ctx;
    const struct em_machine *m;
    const struct kn_kernel *k;
    int level;                       /* -O level */
    bool exact, fast_math;
    /* floats below 2^-126 may become zero when they are rounded to bf16: flushed_bf16 may be used */
    bool flush;
    LLVMContextRef lc;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry;         /* allocas and hoisted values go before its terminator: em_alloca */
    /* Parameters of tcc_kernel_fn. */
    LLVMValueRef args, sizes, scratch, env, first, last;
    LLVMValueRef tile_step;          /* from a tile to the function's next; NULL: 1 */
    LLVMValueRef *base;              /* per operand: address of its first element (local: inside scratch) */
    LLVMMetadataRef *alias_scope, *alias_others;  /* per operand: !alias.scope and !noalias lists, see em_tag */
    LLVMValueRef after_locals;        /* scratch beyond the local ones */
    LLVMValueRef *value;             /* per instruction: its current value, or NULL */
    struct em_binding *bind;
    int nbind, capbind;
    /* The vector context. */
    ir_expr vdim;                    /* variable of the dim that lanes run along, or NULL */
    int lanes;                       /* 1 when vdim is NULL */
    LLVMValueRef mask;
    bool unguarded;                  /* guards are known to hold */
    struct em_nest nest;             /* em_loops' */
    /* by operand: bytes of which addresses of its vectors are multiples; NULL: an element's */
    const int *align;
    bool combining;                  /* the second phase of a split kernel is being emitted */
    bool aligned;                    /* lane 0's value is a multiple of `lanes`: v floordiv 16 is equal in 16 lanes */
    /* local operands hold one row per outer lane: their elements have this many lanes (1: plain) */
    int local_lanes;
    /* Types used everywhere. */
    LLVMTypeRef t_void, t_i1, t_i8, t_i16, t_i32, t_i64, t_f32, t_f64, t_ptr;
};

/* -- Types and constants ------------------------------------------------------------------ */
LLVMTypeRef em_reg_type(struct em *e, enum tcc_dtype d);                   /* scalar type in registers */
/* integer or float type of an element in memory */
LLVMTypeRef em_mem_type(struct em *e, enum tcc_dtype d);
LLVMTypeRef em_vec(LLVMTypeRef scalar, int lanes);                         /* the scalar itself for 1 lane */
/* scalar or vector of as many lanes as `shape` */
LLVMTypeRef em_like(LLVMTypeRef scalar, LLVMValueRef shape);
int em_lanes_of(LLVMValueRef v);                                           /* 1: uniform */
LLVMValueRef em_i64(struct em *e, int64_t v);
/* integer (splat) constant of a scalar or vector type */
LLVMValueRef em_int(LLVMTypeRef t, int64_t v);
/* floating (splat) constant of a scalar or vector type */
LLVMValueRef em_fp(LLVMTypeRef t, double v);
/* uniform; f for float types, i for others */
LLVMValueRef em_const(struct em *e, enum tcc_dtype d, double f, int64_t i);
LLVMValueRef em_splat(struct em *e, LLVMValueRef v, int lanes);            /* uniform -> vector; vectors stay */
/* Elements of a and, counted on, of b. */
LLVMValueRef em_shuffle(struct em *e, LLVMValueRef a, LLVMValueRef b, int n, const int *order);
/* Lanes [first, first + n) of v; n vectors, a power of two, side by side. */
LLVMValueRef em_part(struct em *e, LLVMValueRef v, int first, int n);
LLVMValueRef em_side_by_side(struct em *e, int n, const LLVMValueRef *parts);
LLVMValueRef em_iota(struct em *e, LLVMTypeRef elem, int lanes);           /* <0, 1, 2, ...> */
LLVMValueRef em_tail_mask(struct em *e, LLVMValueRef count, int lanes);    /* lanes l < count (i64) on */
LLVMValueRef em_and_mask(struct em *e, LLVMValueRef a, LLVMValueRef b);    /* either may be NULL or uniform */

/* -- Calls of intrinsics ---------------------------------------------------------------------
 * name without overload suffix, as "llvm.fma"; overloads: its type parameters. */
LLVMValueRef em_intrinsic(struct em *e, const char *name, int noverloads, const LLVMTypeRef *overloads, int nargs,
                          const LLVMValueRef *args);
LLVMValueRef em_unary_intrinsic(struct em *e, const char *name, LLVMValueRef x);      /* overloaded on x's type */
/* a * b + c: fused where the machine has it, else two roundings */
LLVMValueRef em_fma(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/* -- Control flow ------------------------------------------------------------------------------ */
#define EM_MAX_CARRIED 160
struct em_loop {
    LLVMBasicBlockRef head, body, exit;
    LLVMValueRef iv, step;           /* iv: i64 */
    LLVMValueRef phi[EM_MAX_CARRIED], next[EM_MAX_CARRIED];
    int ncarried;
};
/* for (iv = r.lo; iv < r.hi; iv += step). Carried values: em_loop_carry() right after begin makes a phi starting at
 * `init` (its number is the order of the calls), em_loop_next() sets the value for the next iteration; after the end,
 * l->phi[i] is the final value. */
void em_loop_begin(struct em *e, struct em_loop *l, struct em_range r, LLVMValueRef step, const char *name);
LLVMValueRef em_loop_carry(struct em *e, struct em_loop *l, LLVMValueRef init);
void em_loop_next(struct em_loop *l, int i, LLVMValueRef next);
void em_loop_end(struct em *e, struct em_loop *l);

struct em_if { LLVMBasicBlockRef from, then, done; };
void em_if_begin(struct em *e, struct em_if *f, LLVMValueRef condition);
void em_if_end(struct em *e, struct em_if *f);                              /* no values leave; memory only */
LLVMValueRef em_if_end_value(struct em *e, struct em_if *f, LLVMValueRef then, LLVMValueRef otherwise);   /* phi */
LLVMBasicBlockRef em_block(struct em *e, const char *name);                 /* appended to the function */
LLVMValueRef em_alloca(struct em *e, LLVMTypeRef t, int64_t n, int align);  /* in the entry block */
/* Bytes of scratch that a template wants after the local ones (it adds as much to k->scratch in its schedule). 64-byte
 * aligned. */
LLVMValueRef em_scratch_after_locals(struct em *e);
/* bytes of the local ones */
ir_expr em_local_scratch(struct ir_ctx *ctx, const struct kn_kernel *k, int local_lanes);

/* -- Tiles ------------------------------------------------------------------------------------------
 * One tile is schedule.tile[i] points of each outer dim i (0: all). Number of tiles = product over outer dims of
 * ceil(extent / tile), the last dim fastest; em_tile_count() builds that expression for the schedule. The second phase
 * of a split kernel has tiles of the outer dims without the pieces, numbered from the first phase's number on
 * (k->tiles); em_combine_count(): how many. */
struct em_tiles { struct em_loop loop; struct em_range at[KN_MAX_DIMS]; };
/* the points (of the extent) of the outer dims */
void em_tiles_begin(struct em *e, struct em_tiles *t);
void em_tiles_end(struct em *e, struct em_tiles *t);
/* struct tcc_env's, an i1: is what the tile before the call's first one left in scratch there? */
LLVMValueRef em_continues(struct em *e);
ir_expr em_tile_count(struct ir_ctx *ctx, const struct kn_kernel *k);
ir_expr em_combine_count(struct ir_ctx *ctx, const struct kn_kernel *k);    /* NULL: the kernel has one phase */
int em_nouter(const struct kn_kernel *k);                                   /* number of outer dims, pieces included */
/* is it the inner dim that pieces are cut from? */
bool em_is_piece(const struct kn_kernel *k, int dim);

/* -- Expressions -------------------------------------------------------------------------------------
 * Symbols are bound to values: size parameters by em_kernel_begin, iteration variables by the template (rebinding
 * replaces), KN_INDEX symbols by their instruction. The vector dim's variable is bound to lane 0's value. */
void em_bind(struct em *e, ir_expr sym, LLVMValueRef value);
/* of a KN_INDEX */
void em_bind_index(struct em *e, ir_expr sym, LLVMValueRef value, LLVMValueRef bad, ir_expr bound);
LLVMValueRef em_expr(struct em *e, ir_expr x);                              /* i64, at lane 0 */
/* <lanes x i64>, or i64 when equal in all lanes */
LLVMValueRef em_expr_lanes(struct em *e, ir_expr x);
/* x(lane) = x(0) + lane * *stride for a constant stride? (0: uniform.) False: lanes are unrelated. */
bool em_stride(struct em *e, ir_expr x, int64_t *stride);
/* The same without an emitter: x between `lanes` consecutive values of `var`, from a multiple of `lanes` on if
 * aligned. */
bool em_lane_stride(struct ir_ctx *ctx, ir_expr x, ir_expr var, int lanes, bool aligned, int64_t *stride);
LLVMValueRef em_extent(struct em *e, int dim);                              /* em_expr of the dim's extent */
struct em_range em_range_of(struct em *e, ir_expr lo, ir_expr hi);          /* hi becomes lo where it is less */
struct em_range em_points(struct em *e, int dim);                           /* all points of the dim */
void em_set_lanes(struct em *e, ir_expr vdim, int lanes, LLVMValueRef mask);

/* -- Memory ----------------------------------------------------------------------------------------------
 * Linear offset (in elements) of operand[index] as one expression: kn_flat_offset(). */
ir_expr em_offset(struct em *e, int operand, const ir_expr *index);
LLVMValueRef em_address(struct em *e, int operand, LLVMValueRef offset);     /* base + offset (i64, elements) */
/* for reading; 3: into the first cache, 2: the second */
void em_prefetch(struct em *e, LLVMValueRef p, int locality);
/* Element access at consecutive addresses: `lanes` elements at ptr, converted to register types. mask: NULL, i1 or
 * <lanes x i1>; lanes that are off give `otherwise` (NULL: zero). operand: for alias tags and alignment, -1: none. */
LLVMValueRef em_load(struct em *e, enum tcc_dtype d, LLVMValueRef ptr, int lanes, LLVMValueRef mask,
                     LLVMValueRef otherwise, int operand);
void em_store(struct em *e, enum tcc_dtype d, LLVMValueRef ptr, LLVMValueRef value, LLVMValueRef mask, int operand);
/* operand[index] under e's bindings, lanes and mask, by the best of: scalar load, vector load, strided or indexed
 * gather. guard: extra condition (i1, <lanes x i1> or NULL). */
LLVMValueRef em_load_at(struct em *e, int operand, const ir_expr *index, LLVMValueRef guard, LLVMValueRef otherwise);
/* Up to 16 elements that lie side by side, 0 where not `lanes` (NULL: all) or not `there` (NULL: it is): zeros are read
 * then, since a masked load costs a processor hundreds of cycles where no page is, all lanes off or not. */
LLVMValueRef em_load_run(struct em *e, int operand, const ir_expr *index, LLVMValueRef there, LLVMValueRef lanes);
void em_store_at(struct em *e, int operand, const ir_expr *index, LLVMValueRef guard, LLVMValueRef value);
/* alias metadata: operands don't overlap */
void em_tag(struct em *e, LLVMValueRef access, int operand);
/* Register value <-> memory bits, without memory. */
LLVMValueRef em_from_bits(struct em *e, enum tcc_dtype d, LLVMValueRef bits);
LLVMValueRef em_to_bits(struct em *e, enum tcc_dtype d, LLVMValueRef value);
/* f32 -> nearest value of a small float, as f32 */
LLVMValueRef em_round_to(struct em *e, enum tcc_dtype d, LLVMValueRef value);
/* 4-bit and 2-bit integers after arithmetic */
LLVMValueRef em_wrap(struct em *e, enum tcc_dtype d, LLVMValueRef v);
LLVMValueRef em_cast(struct em *e, enum tcc_dtype to, enum tcc_dtype from, LLVMValueRef v);   /* word `cast` */
/* The same with what a cast's ivalue says: no saturation of 8-bit floats; f8e8m0 rounded down or to nearest. */
enum { EM_CAST_WRAP = 1, EM_CAST_DOWN = 2, EM_CAST_NEAREST = 4 };
LLVMValueRef em_cast_by(struct em *e, enum tcc_dtype to, enum tcc_dtype from, LLVMValueRef v, int mode);
/* f32: round(y) + zero, a whole number, cast to an integer type of 8 or 16 bits. */
LLVMValueRef em_quantise(struct em *e, enum tcc_dtype to, LLVMValueRef y, double zero);
/* f32 cast to an integer type of 8 or 16 bits, and back. whole: v has no fraction. */
LLVMValueRef em_cast_and_back(struct em *e, enum tcc_dtype by, LLVMValueRef v, bool whole);

/* -- Bodies -----------------------------------------------------------------------------------------------
 * em_insn emits instruction i (all codes but REDUCE, ARGREDUCE, SCAN, which belong to the template) from e->value[] of
 * its arguments, and sets e->value[i]. em_insns: a range; instructions whose value is already preset by `keep` are
 * skipped. */
void em_insn(struct em *e, int i);
/* Threads that run a point together: this one's number, how many there are, and where they wait for each other. */
struct em_threads { LLVMValueRef lane; int lanes; void (*meet)(void *user); void *user; };
/* a KN_SORT by those threads; NULL: by one (sort.c) */
void em_sort(struct em *e, const struct kn_insn *n, const struct em_threads *t);
LLVMValueRef em_load_insn(struct em *e, const struct kn_insn *n);      /* of a load that needn't be the kernel's */
/* instruction i after those that it is made of, where they have no value yet */
void em_insn_needed(struct em *e, int i);
/* skips reductions, and instructions with e->value[i] set */
void em_insns(struct em *e, int first, int last);
void em_forget(struct em *e, int first, int last);           /* e->value[i] = NULL: before emitting a body again */
/* NULL: none; else i1 or <lanes x i1> */
LLVMValueRef em_guards(struct em *e, int nguards, const struct kn_guard *guards);
void em_guards_split(struct em *e, int nguards, const struct kn_guard *guards, LLVMValueRef *uniform,
                     LLVMValueRef *lanes);
/* Where an access does not happen because an index in its addresses or guards is bad (kernel.h); NULL: nowhere.
 * *harmless: element 0, which is addressed there, exists. */
LLVMValueRef em_bad_index(struct em *e, const struct kn_insn *n, bool *harmless);
/* Primitive word on register values of dtype d (for compare words: the operands' dtype); small floats are not rounded
 * here. */
LLVMValueRef em_scalar(struct em *e, enum ir_op op, enum tcc_dtype d, int nargs, LLVMValueRef *args);
LLVMValueRef em_reduce_init(struct em *e, enum kn_reducer r, enum tcc_dtype d);      /* uniform neutral element */
LLVMValueRef em_reduce_step(struct em *e, enum kn_reducer r, enum tcc_dtype d, LLVMValueRef acc, LLVMValueRef x);
/* vector -> scalar, halving tree */
LLVMValueRef em_reduce_lanes(struct em *e, enum kn_reducer r, enum tcc_dtype d, LLVMValueRef v);

/* -- Kernel functions ----------------------------------------------------------------------------------------
 * em_kernel_begin makes the function NAME and leaves the builder inside it; em_kernel_end returns from it. */
void em_kernel_begin(struct em *e, const char *name, int local_lanes);
void em_kernel_end(struct em *e);
/* The same in parts, for machines whose kernels have parameters of their own: types and room; then, with e->fn made,
 * its entry block, where the caller binds sizes and sets e->base, e->env, e->first and e->last; then its body. */
void em_kernel_prepare(struct em *e, int local_lanes);
void em_kernel_enter(struct em *e, const char *name);
void em_kernel_body(struct em *e);
/* the local operand lies there; where the next one may */
LLVMValueRef em_bind_local(struct em *e, int operand, LLVMValueRef at);
void em_function_attributes(struct em *e, LLVMValueRef fn);   /* the machine's features; nothing throws */
void em_loops(struct em *e, struct em_nest nest);             /* the whole kernel, as loops over its dims */
/* of a split kernel the phase that e->combining says, of its tiles */
void em_phase(struct em *e, struct em_nest nest);
/* Why kernels can't be emitted that have such a body; NULL: they can. */
const char *em_refuses(struct ir_ctx *ctx, const struct kn_kernel *k);

/* -- Ends (child.c) -----------------------------------------------------------------------------------------
 * Code is generated in a child process (compiler/child_int.h). em_child says where messages go, for LLVM's fatal errors
 * too; em_give_up writes one and ends the process; em_verify ends it where the module is invalid. */
void em_child(int report);
_Noreturn void em_give_up(const char *what, const char *text);
void em_verify(LLVMModuleRef mod);
void em_run_passes(LLVMModuleRef mod, LLVMTargetMachineRef tm, const char *passes);

#endif
