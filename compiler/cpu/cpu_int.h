/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_int.h - the CPU target's machine descriptions and templates.
 */
#ifndef TCC_CPU_INT_H
#define TCC_CPU_INT_H

#include "compiler/cpu/isa/isa_int.h"
#include "compiler/emit/emit.h"
#include "compiler/target.h"

/* What a step of a sum multiplies: A's bytes or B's may be the unsigned ones, or both are signed. */
enum cpu_product { CPU_FLOATS, CPU_BYTES_SIGNED, CPU_BYTES_A_UNSIGNED, CPU_BYTES_B_UNSIGNED, CPU_BF16, CPU_OTHERS };

struct cpu_machine {
    struct pass_machine pass;        /* first: a pass_machine of this target is a cpu_machine */
    const char *arch;                /* "x86-64-v3" or "native:adx,aes,..." */
    const struct cpu_isa *isa;
    const struct cpu_model *model;   /* the processor that --march names; NULL: none */
    int level;                       /* of the instruction set's that it has in full */
    struct em_machine emit;          /* what the emitter knows of it: vectors, fused multiply-add */
    uint64_t features;               /* bit set, in the order of isa->features */
    int registers;                   /* vector registers */
    int64_t l2;                      /* bytes of the second cache, for tiles */
    /* Has it instructions for products of four bytes and of two bf16, added to a 32-bit lane; for multiply-adds of f16,
     * twice as many a cycle as of f32; for any shuffle of a vector's bytes? */
    bool multiplies_bytes, multiplies_bf16, multiplies_f16, shuffles_bytes;
    /* Does one instruction multiply two rows of A by two columns of B in each 128 bits, 64 bits of each: eight bytes
     * of mixed signs, four bf16? Weights lie so then. */
    bool squares_bytes, squares_bf16;
    /* Multiply-adds and products of bytes read one lane of so many bytes for all, of no more than so many vectors at a
     * time; 0: they don't. */
    int lane_bytes, lane_rows;
    /* acc + the products of four unsigned bytes u by four signed bytes s in each 32-bit lane, by whatever there is */
    LLVMValueRef (*dot_bytes)(struct em *e, LLVMValueRef u, LLVMValueRef s, LLVMValueRef acc);
    /* The same of signed bytes on both sides; NULL: bytes of mixed signs have an instruction, or neither has */
    LLVMValueRef (*dot_bytes_signed)(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
    /* The same where acc has two lanes for each of a's, which join_pairs() adds; NULL: that is no faster */
    LLVMValueRef (*dot_bytes_pairs)(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
    LLVMValueRef (*join_pairs)(struct em *e, LLVMValueRef acc);
    /* acc + the products of two signed 16-bit numbers in each; NULL: no instruction for it */
    LLVMValueRef (*dot_halves)(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
    /* acc + u times s, unsigned and signed bytes, one a lane; NULL: four neighbours together take fewer instructions */
    LLVMValueRef (*multiply_bytes)(struct em *e, LLVMValueRef u, LLVMValueRef s, LLVMValueRef acc);
    /* acc + the products of two bf16 in each, lanes of any type of 32 bits; where it multiplies_bf16 */
    LLVMValueRef (*dot_bf16)(struct em *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
    /* acc + the products of b and one lane of a, which is lane_bytes long; NULL, or gives it: LLVM finds the
     * instruction for a splat of the lane, or there is none */
    LLVMValueRef (*lane_product)(struct em *e, enum cpu_product what, LLVMValueRef a, int lane, LLVMValueRef b,
                                 LLVMValueRef acc);
    /* acc + such products; a has 128 bits, two rows of A; acc's lanes are the rows' two columns, those of
     * CPU_BYTES_B_UNSIGNED the columns' two rows. NULL, or gives it: this machine has no instruction for it */
    LLVMValueRef (*square_product)(struct em *e, enum cpu_product what, LLVMValueRef a, LLVMValueRef b,
                                   LLVMValueRef acc);
    /* Whose schedules and layouts the code follows: the best of the artifact's machines, or this one. What a schedule
     * was found by (lanes, what is packed, neighbours taken together) must be found again by the same machine;
     * instructions are this one's. */
    const struct cpu_machine *planned;
};
static inline int cpu_lanes(const struct cpu_machine *m, int bytes) { return m->emit.vector_bytes / bytes; }
/* Do multiply-adds of f16 take A's values by lane of 16 bits? Where lane_product() gives instructions, loads repeat
 * pairs of them at no cost. */
static inline bool cpu_halves_by_lane(const struct cpu_machine *m) { return m->multiplies_f16 && m->lane_bytes &&
                                      !m->lane_product; }

/* By how much products are faster in f16 than in f32, with the sums of contract_dot.c. */
#define CPU_F16_GAIN 1.7
/* The same of bf16 in pairs: tests/bench/peak. */
#define CPU_BF16_GAIN 2.

/* Rows and columns that an image is taken to have where they are known only at run time. */
enum { CPU_IMAGE_GUESS = 40 };

/* machine.c. `planned`: NULL is arch, too. NULL after a diagnostic. */
const struct cpu_machine *cpu_machine_make(struct ir_ctx *ctx, const char *arch, const char *planned);
const char *cpu_resolve(struct ir_ctx *ctx, const char *arch);

/* schedule.c: by kernel structure; tries the templates in the order of the table in target.c. */
void cpu_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k);

/* -- Schedules (params.c): struct kn_schedule as this target reads it; the fields are schedules.def's. */
enum cpu_how {
#define CPU_TEMPLATE(id, name, params) CPU_##id,
#include "compiler/cpu/schedules.def"
    CPU_NTEMPLATES
};
enum { CPU_TILE_VECTORS = 12, CPU_TILE_SUMS = 64 }; /* the most of a product's register tile: vectors of a row, sums */
struct cpu_schedule {
    enum cpu_how how;
#define CPU_PARAM(field, absent, least, most) int field;
#include "compiler/cpu/schedules.def"
};
static inline struct em_nest cpu_nest(struct cpu_schedule s) { return (struct em_nest){s.vector, s.width, s.unroll,
                                      s.mr}; }
/* Sets k->schedule, all tiles 0. Fields that the template doesn't have are ignored. */
void cpu_put_schedule(struct kn_kernel *k, struct cpu_schedule s);
/* of a kernel that this target scheduled or verified */
struct cpu_schedule cpu_get_schedule(const struct kn_kernel *k);
bool cpu_verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k);

/* A way to run kernels. `schedule` fills k->schedule (and tiles, scratch) and returns true if the template takes the
 * kernel; `emit` writes its code (called only with schedules that `schedule` made). */
struct em;
struct cpu_template {
    enum cpu_how how;
    bool (*schedule)(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k);
    void (*emit)(struct em *e);
};
extern const struct cpu_template cpu_template_attention, cpu_template_winograd, cpu_template_contract,
    cpu_template_conv,
    cpu_template_depthwise, cpu_template_fold, cpu_template_pool, cpu_template_loops;
extern const struct cpu_template *const cpu_templates[];      /* tried in this order; ended by NULL; target.c */
/* Results along an axis of a tile by which winograd.c runs that conv node faster than the direct way; 0: none. */
int cpu_winograd(const struct pass_machine *m, const struct ir_node *n);
/* Of so many output channels those whose transformed weights lie together. */
int cpu_winograd_panel(const struct pass_machine *m, int64_t channels);
/* Cycles of that conv node on floats: of 3 x 3 taps one by one, by the way that is taken. */
double cpu_winograd_cycles(const struct pass_machine *m, const struct ir_node *n);
bool cpu_bytes_cost(const struct pass_machine *m, const struct ir_node *n, double *bytes, double *floats);
/* Can attention.c run that ATTENTION node? */
bool cpu_takes(const struct pass_machine *m, const struct ir_node *n, int result);
/* Layout chooser for weights, activations (struct pass_machine's layout); layout.c and contract.c. */
kn_layout cpu_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand);
/* More answers of struct pass_machine (layout.c). */
int cpu_product_group(const struct pass_machine *m, enum tcc_dtype a, enum tcc_dtype b);
int64_t cpu_window(const struct pass_machine *m, const struct ir_node *n, enum pass_window what);
bool cpu_materialise(const struct pass_machine *m, const struct ir_node *n);
/* In what type that product is made (struct pass_machine's product_type). */
enum tcc_dtype cpu_product_type(const struct pass_machine *m, const struct ir_node *n, bool reduced);

#endif
