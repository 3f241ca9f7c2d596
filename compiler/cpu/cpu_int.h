/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_int.h - the CPU target's machine descriptions and templates.
 */
#ifndef TCC_CPU_INT_H
#define TCC_CPU_INT_H

#include "compiler/emit/emit.h"
#include "compiler/target.h"

/* CPU features that code generation asks about: features.def FEATURE(id, name, psABI level it belongs to or 0). `name`
 * is LLVM's, and what "native:" architecture strings list. */
enum cpu_feature {
#define FEATURE(id, name, level) CPU_##id,
#include "compiler/cpu/features.def"
#undef FEATURE
    CPU_NFEATURES
};

struct cpu_machine {
    struct pass_machine pass;        /* first: a pass_machine of this target is a cpu_machine */
    const char *arch;                /* "x86-64-v3" or "native:adx,aes,..." */
    int isa;                         /* psABI level that it has in full: 2, 3, 4 */
    struct em_machine emit;          /* what the emitter knows of it: vectors, fused multiply-add */
    uint64_t features;               /* bit set of enum cpu_feature */
    int registers;                   /* vector registers */
    int64_t l2;                      /* bytes of the second cache, for tiles */
    /* Whose schedules and layouts the code follows: the best of the artifact's machines, or this one. What a schedule
     * was found by (lanes, what is packed, neighbours taken together) must be found again by the same machine;
     * instructions are this one's. */
    const struct cpu_machine *planned;
};
static inline bool cpu_has(const struct cpu_machine *m, enum cpu_feature f) { return m->features >> f & 1; }
static inline int cpu_lanes(const struct cpu_machine *m, int bytes) { return m->emit.vector_bytes / bytes; }

/* VDPBF16PS, where it is faster than two multiply-adds of floats: it is on AMD's Zen 4 (twice), it is not on Intel's
 * processors with AVX512-FP16 (measured on Sapphire Rapids: a quarter of the rate of a multiply-add), which leave bf16
 * to AMX. */
static inline bool cpu_multiplies_bf16(const struct cpu_machine *m)
{
    return cpu_has(m, CPU_AVX512BF16) && !cpu_has(m, CPU_AVX512FP16);
}

/* Multiply-adds of f16, twice as many a cycle as of f32. */
static inline bool cpu_multiplies_f16(const struct cpu_machine *m)
{
    return cpu_has(m, CPU_AVX512FP16);
}

/* By how much products are faster in f16 than in f32, with the sums of contract_dot.c. */
#define CPU_F16_GAIN 1.7
/* The same of bf16 in pairs: tests/bench/peak. */
#define CPU_BF16_GAIN 2.

/* Rows and columns that an image is taken to have where they are known only at run time. */
enum { CPU_IMAGE_GUESS = 40 };

/* VPDPBUSD: products of bytes, four at a time. */
static inline bool cpu_multiplies_bytes(const struct cpu_machine *m)
{
    return cpu_has(m, CPU_AVX512VNNI) || (cpu_has(m, CPU_AVXVNNI) && m->emit.vector_bytes <= 32);
}

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
/* Can attention.c run that ATTENTION node? */
bool cpu_attention(const struct pass_machine *m, const struct ir_node *n);
/* Layout chooser for weights, activations (struct pass_machine's layout); layout.c and contract.c. */
kn_layout cpu_layout(const struct pass_machine *m, struct ir_ctx *ctx, const struct ir_node *n, int operand);
/* More answers of struct pass_machine (layout.c). */
int cpu_product_group(const struct pass_machine *m, enum tcc_dtype a, enum tcc_dtype b);
int64_t cpu_group_channels(const struct pass_machine *m, const struct ir_node *n);
bool cpu_pads(const struct pass_machine *m, const struct ir_node *n);
bool cpu_materialise(const struct pass_machine *m, const struct ir_node *n);
/* In what type that product is made (struct pass_machine's product_type). */
enum tcc_dtype cpu_product_type(const struct pass_machine *m, const struct ir_node *n, bool reduced);

#endif
