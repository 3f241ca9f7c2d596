/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_int.h - private to compiler/cuda/: machines, schedules, and a device function under construction.
 *
 *     machine.c   the machines and what passes ask of them      choose.c    which template takes a kernel
 *     schedule.c  schedules as text; launches           candidates.c  those that are worth timing (tccc --tune)
 *     cubin.c     from PTX to cubins, by ptxas
 *     child.c     from kernels to PTX text, in a child          function.c  a device function: parameters, threads,
 *                 local operands
 *     contract.c  products of tiles (contract_int.h), brought by ring.c, multiplied by ffma.c, mma.c or wgmma.c
 *     layout.c    channels last, for products on tensor cores
 *     maps.c      factors that tensor copies bring (tma.c, sm_90a; mbarrier.c)
 *     transpose.c loads along one dim, stores along another
 *     scatter_owners.c  scatters, by who owns a row
 *     attention.c attention, attention_grad.c its gradients, attention_split.c keys in pieces, brought by
 *     attention_bring.c or attention_sent.c, multiplied by
 *                 attention_ffma.c, attention_mma.c or attention_wgmma.c (attention_fragments.c: what these share)
 *     loops.c     a thread a point, or a vector of them         group.c     a warp or a block a point: reductions, row
 *                 buffers; scan.c: scans
 */
#ifndef TCC_CUDA_INT_H
#define TCC_CUDA_INT_H

#include "compiler/emit/emit.h"
#include "compiler/artifact/image_int.h"
#include "compiler/target.h"

/* -- Machines (machine.c) ---------------------------------------------------------------------------------- */

struct cuda_machine {
    struct pass_machine pass;
    const char *name, *ptx;          /* "sm_80"; LLVM's feature for the PTX version */
    /* compute capability; multiprocessors; bytes of shared memory that a block may have */
    int sm, sms, shared;
    bool tf32, wgmma;                /* three products of tf32 are faster than multiply-adds; has wgmma */
    int fp8;                         /* enum cuda_how: which template multiplies 8-bit floats as such; 0: none */
};
const struct cuda_machine *cuda_machine_make(struct ir_ctx *ctx, const char *arch);     /* NULL after a diagnostic */

/* pass_machine.layout (layout.c) */
kn_layout cuda_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand);

/* -- Schedules (schedule.c) ----------------------------------------------------------------------------------- */

enum cuda_how {
#define CUDA_TEMPLATE(id, name) CUDA_##id,
#include "compiler/cuda/schedules.def"
    CUDA_NTEMPLATES
};
struct cuda_schedule {
    enum cuda_how how;
#define CUDA_PARAM(field, absent, least, most) int field;
#include "compiler/cuda/schedules.def"
};
void cuda_put_schedule(struct kn_kernel *k, struct cuda_schedule s);
/* of a kernel whose schedule has been verified */
struct cuda_schedule cuda_get_schedule(const struct kn_kernel *k);
bool cuda_verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k);
bool cuda_is_product(enum cuda_how how);                                    /* a template of products of tiles */
struct cuda_schedule cuda_plain_schedule(enum cuda_how how);                /* with all parameters absent */
/* of a split kernel's second phase: a warp a point */
struct cuda_schedule cuda_combine_schedule(void);
const char *cuda_override_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                                   const struct kn_schedule *want);
/* candidates.c */
int cuda_candidates(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k,
                    struct kn_schedule *list, int room);
/* choose.c, choose_product.c */
/* of a product with s's tile */
void cuda_choose_stages(const struct cuda_machine *m, int64_t terms, int bytes, struct cuda_schedule *s);
/* whose numbers a factor has, which may be computed in a wider one */
enum tcc_dtype cuda_factor_type(const struct kn_kernel *k, int value);
/* of a set of dims, guessed where they are not known */
int64_t cuda_points(const struct kn_kernel *k, uint32_t dims);
ir_expr cuda_owner_tiles(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s);
void cuda_choose_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k);
/* Its tiles by that schedule. */
ir_expr cuda_product_tiles(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s);
bool cuda_takes_contract(struct ir_ctx *ctx, const struct kn_kernel *k, enum cuda_how how);
bool cuda_may_group(const struct kn_kernel *k);
/* Elements along outer dim v that a thread of a kernel without inner dims should access at once; 1: they are not
 * consecutive. the largest ones by 16 bytes. align[i]: bytes of such an access where all those of operand i are at
 * multiples of that from its first byte; else 0. */
int cuda_vector_width(struct ir_ctx *ctx, const struct kn_kernel *k, int v, int *align);
/* Elements of that load that a thread brings at once along dim d: `width`, if they lie together at a multiple of it;
 * else 1. */
int cuda_load_width(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int d, int width);

/* Is it a scatter whose rows blocks can own? *rows: how many there are. (scatter_owners.c) */
bool cuda_owner_rows(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr *rows);
/* Where local operands lie: in registers and memory of the thread, in shared memory, or in scratch; `bytes`: those of
 * one thread or group. */
enum cuda_locals { CUDA_NO_LOCALS, CUDA_PRIVATE, CUDA_SHARED, CUDA_SCRATCH };
enum cuda_locals cuda_locals(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s,
                             ir_expr *bytes);
/* Is that instruction a load that jumps along dim `vector`, and is consecutive along `along`? (transpose.c) */
bool cuda_is_turned(struct ir_ctx *ctx, const struct kn_kernel *k, int insn, int along, int vector);
/* Threads that run a tile together: a thread, a warp, or a block. */
int cuda_group_of(const struct cuda_schedule *s);
/* Bytes of shared memory of a block that runs a product of tiles. */
int64_t cuda_contract_shared(const struct cuda_schedule *s, int bytes);      /* bytes: of an element of the tiles */
int64_t cuda_ring_bytes(const struct cuda_schedule *s, int bytes);           /* the tiles' part */
/* threads of a product for whose factors a warpgroup of its own sends, by tensor maps */
enum { CUDA_SENDING = 384 };
static inline bool cuda_has_maps(const struct cuda_schedule *s)
{
    return (s->how == CUDA_WGMMA && s->threads == CUDA_SENDING) || (s->how == CUDA_ATTENTION && s->warpgroups
        && s->threads > 128 * s->warpgroups);
}
/* maps.c: are both factors such? */
bool cuda_may_map(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s);
void cuda_launch_maps(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s,
                      struct image_launch *l);
/* Neighbours along its last inner dim that a thread of a group runs at once in that stage: `width`, or 1 where accesses
 * don't allow it. align: sets, for operands, the bytes of which such accesses are multiples; NULL: doesn't.
 * (choose.c) */
int cuda_stage_width(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_stage *s, int width, int *align);
/* Those of them that a launch asks for, beyond what functions may declare; 0: they declare them. */
int64_t cuda_dynamic_shared(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s);
/* of an element of a product's tiles: 1, 2 or 4; but for schedules with fp8: 1 */
int cuda_product_bytes(struct ir_ctx *ctx, const struct kn_kernel *k);
/* a product of 8-bit floats that tensor cores may have */
bool cuda_may_fp8(struct ir_ctx *ctx, const struct kn_kernel *k);
/* Those of a block that runs attention; 0: the kernel is none that the template takes. (attention.c) */
int64_t cuda_attention_bytes(struct ir_ctx *ctx, const struct kn_kernel *k);
/* Are there kernels for an ATTENTION node, or (gradient) for one's gradient? */
bool cuda_takes_attention(const struct ir_node *n, bool gradient);
enum { CUDA_LEAST_ROWS = 16 };                 /* rows and columns of a product that has a template */
enum { CUDA_MOST_STATIC = 48 << 10 };        /* bytes of shared memory that a function may declare */
/* The kernel as that machine runs it: with the schedule that it has, chosen for the newest of the artifact's machines,
 * or, where this one lacks that template or has too little shared memory, with one of this machine's. */
struct kn_kernel *cuda_kernel_for(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k);
/* The launches of a kernel with its schedule; a second function is called SYMBOL_sum, that of several launches as one,
 * where `rows` asks for it, SYMBOL_rows. */
struct image_kernel cuda_launches(struct ir_ctx *ctx, const struct kn_kernel *k, const char *symbol, bool rows);
/* By kernel: do launches of it run as one (TCC_STEP_BATCH)? */
bool *cuda_find_rows(struct ir_ctx *ctx, const struct kn_program *p);

/* -- Functions (function.c) ------------------------------------------------------------------------------------- */

enum { CUDA_GENERIC = 0, CUDA_GLOBAL = 1, CUDA_SHARED_SPACE = 3 };          /* address spaces of NVPTX */

struct cuda_fn {
    struct em *e;
    const char *name;
    struct cuda_schedule s;
    LLVMValueRef thread, block, blocks;      /* i64: %tid.x, %ctaid.x, %nctaid.x */
    LLVMValueRef tiles;                      /* i64 */
    /* i64: number of this thread or group in the grid, and how many there are */
    LLVMValueRef unit, units;
    LLVMValueRef lane;                       /* i64: of the thread within its group */
    /* shared memory of a block's group, 16 bytes a warp; NULL: groups are warps or threads */
    LLVMValueRef partial;
    bool wide;                               /* of a group: vectors lie at multiples of their bytes */
    bool shared_locals;                      /* other threads see them: barriers between stages */
    int nparams;                             /* but for those of maps */
    bool has_maps;                           /* further parameters (abi.h): */
    LLVMValueRef mapped, maps[2];            /* i64: are they there? their addresses: rows', columns' */
    /* it runs several launches (TCC_LAUNCH_ROWS): block, blocks and tiles are those of one of them */
    bool rows;
    /* it does nothing behind a kernel that has met a bad index: it writes state */
    bool stops;
};
/* Makes the function, with sizes and operands bound, and leaves the builder in its body. e->combining: of a split
 * kernel's second phase. */
void cuda_begin(struct cuda_fn *f, struct em *e, const char *name);
void cuda_end(struct cuda_fn *f);
/* The body for operands that begin at multiples of 16 bytes, those whose align[i] is not 0, with e->align set; then its
 * twin for others: whichever holds is found when the kernel runs, by all threads alike. Where no operand has to, the
 * first alone. */
void cuda_twice(struct cuda_fn *f, const int *align, void (*body)(void *user, bool wide), void *user);
/* Do those operands begin at multiples of 16 bytes? i1; NULL: there are none. */
LLVMValueRef cuda_aligned(struct cuda_fn *f, const int *align);
/* em_loop_end() of a loop that neither LLVM nor ptxas shall unroll */
void cuda_loop_end(struct em *e, struct em_loop *l);
LLVMValueRef cuda_below(struct em *e, LLVMValueRef x, LLVMValueRef end);    /* the smaller of x and end - 1; i64 */
LLVMValueRef cuda_sreg(struct em *e, const char *name);                     /* special register "tid.x", i64 */
/* static shared memory of that size */
LLVMValueRef cuda_shared(struct em *e, const char *name, int64_t bytes, int align);
/* the shared memory that the launch asks for, 1024-byte aligned */
LLVMValueRef cuda_launch_shared(struct em *e);
void cuda_barrier(struct em *e);                                            /* of the block */
/* Registers of the warpgroup's threads from here on: it takes `n` (more) or leaves all but `n` to others (setmaxnreg).
 * With three warpgroups, the last of which sends: 2 x 240 + 24 = 3 x 168 of a warpgroup, as many as three have. */
enum { CUDA_MULTIPLYING_REGISTERS = 240, CUDA_SENDING_REGISTERS = 24 };
void cuda_set_registers(struct em *e, bool more, int n);
/* PTX that LLVM has no intrinsic for: convergent, with effects. Constraints as LLVM's inline assembly has them. */
LLVMValueRef cuda_asm(struct em *e, LLVMTypeRef result, const char *text, const char *constraints, int nargs,
                      const LLVMValueRef *args);
void cuda_warp_barrier(struct em *e);                                       /* of a warp whose threads are all there */
/* of lane - distance; the first ones get their own */
LLVMValueRef cuda_shuffle_up(struct em *e, LLVMValueRef v, int distance);
/* of the threads that run an outer point: warp or block */
void cuda_group_barrier(struct cuda_fn *f);
/* the value of lane ^ distance, of any scalar type */
LLVMValueRef cuda_shuffle_xor(struct em *e, LLVMValueRef v, int distance);

/* cp.async (ring.c): 4, 8 or 16 bytes from global to shared memory, zeros where `ok` (i1; NULL: true) is false: nothing
 * is read then. Copies belong to the group that their thread commits next; wait: all its groups have arrived but the
 * last `pending`. */
void cuda_copy_async(struct em *e, LLVMValueRef to, LLVMValueRef from, int bytes, LLVMValueRef ok);
void cuda_copy_commit(struct em *e);
void cuda_copy_wait(struct em *e, int pending);

/* mbarrier.c. Barriers by their 32-bit addresses; arrivals: of a phase, expected bytes apart. */
LLVMValueRef cuda_shared_address(struct em *e, LLVMValueRef shared);
void cuda_mbarrier_init(struct em *e, LLVMValueRef at, int arrivals);
/* arrives, and says that so many bytes will */
void cuda_mbarrier_expect(struct em *e, LLVMValueRef at, int64_t bytes);
/* for the phase of that parity (i32) to end */
void cuda_mbarrier_wait(struct em *e, LLVMValueRef at, LLVMValueRef parity);
void cuda_mbarrier_arrive(struct em *e, LLVMValueRef at, LLVMValueRef ok);  /* where `ok` (i1) is */
/* Sends for a box: args: where it goes, its barrier, the map, coordinates; of windows then the taps' offsets, `offsets`
 * of them; room for one more. blocks: of the cluster, which get it at the same place in each. */
void cuda_send_box(struct em *e, int rank, int offsets, int blocks, LLVMValueRef *args);

/* -- Templates ----------------------------------------------------------------------------------------------------- */
void cuda_emit_points(struct cuda_fn *f);    /* loops.c */
void cuda_emit_group(struct cuda_fn *f);     /* group.c */
void cuda_emit_transpose(struct cuda_fn *f); /* transpose.c */
void cuda_emit_owners(struct cuda_fn *f);    /* scatter_owners.c */
void cuda_emit_contract(struct cuda_fn *f);  /* contract.c */
void cuda_emit_contract_sum(struct cuda_fn *f);      /* the second function of a product in pieces */

void cuda_emit_attention(struct cuda_fn *f); /* attention.c */
void cuda_emit_attention_sum(struct cuda_fn *f);     /* attention_split.c: of keys in pieces */
/* Bytes of scratch that those take; the elements of the result, by its rows. */
ir_expr cuda_attention_scratch(struct ir_ctx *ctx, const struct kn_kernel *k, int split);
ir_expr cuda_attention_results(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr rows);
/* scan.c: a stage of a group's that holds running combinations. */
void cuda_scan_stage(struct cuda_fn *f, const struct kn_stage *stage);

/* -- Children (child.c) -------------------------------------------------------------------------------------------- */
/* All kernels' PTX, read back from the file that a child wrote; NULL after a diagnostic. Zero-terminated, *size with
 * the zero. */
const char *cuda_ptx(struct ir_ctx *ctx, const struct kn_program *p, const bool *rows, const struct target_options *o,
                     const char *prefix,
                     const char *folder, size_t *size);

/* nvrtc.c. The text with that of kernels of users' device code behind it; NULL after a diagnostic. How such a kernel is
 * launched. */
const char *cuda_add_customs(struct ir_ctx *ctx, const struct kn_program *p, const char *arch, const char *prefix,
                             const char *ptx);
struct image_kernel cuda_custom_launch(struct ir_ctx *ctx, const struct kn_custom *c, const char *symbol);

/* cubin.c. The same for the machine alone, by way of files NAME.* in `folder`: an image's code and its format. NULL: it
 * is not wanted, there is no ptxas, or it failed (a warning). */
struct cuda_cubin { const char *format; const void *bytes; size_t size; };
struct cuda_cubin cuda_assemble(struct ir_ctx *ctx, const struct target_options *o, const char *ptx, const char *name,
                                const char *folder);

#endif
