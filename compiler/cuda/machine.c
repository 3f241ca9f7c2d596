/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the machines by name (machine.def), and their answers to passes. */
#include "compiler/cuda/cuda_int.h"

#include <string.h>

static const struct cuda_machine machines[] = {
#define MACHINE(name, sm, ptx, sms, shared, tf32, wgmma, fp8) {{0}, name, ptx, sm, sms, shared, tf32, wgmma, fp8},
#include "compiler/cuda/machine.def"
};
enum { NMACHINES = sizeof machines / sizeof *machines };

/* A plain machine's, that of a block of threads; hundreds of them fill the device. Neighbouring threads run what is a
 * piece of work together; what a cut costs is another launch. */
static const struct pass_cost *cost(const struct pass_machine *m)
{
    static const struct pass_cost device = {.flops = 0x1p35,
                                            .bandwidth = 0x1p33,
                                            .launch = 0x1p-19,
                                            .function = 24,
                                            .piece = 2,
                                            .pieces = 256,
                                            .products = CUDA_LEAST_ROWS,
                                            .rows = 32,
                                            .scans = true,
                                            .recomputes = 4,
                                            .rows_merge = true,
                                            .joins = true,
                                            .lanes = 256,
                                            .kernel = 400};
    (void)m;
    return &device;
}

static bool takes(const struct pass_machine *m, const struct ir_node *n, int result)
{
    ir_type t = n->in[0].value->type;
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)t->dtype);
    (void)m;
    if (ir_op_info(n->op)->kind == IR_K_ATTENTION)
        return cuda_takes_attention(n, n->op != IR_attention && n->op != IR_attention_lse);
    (void)result;
    return t->rank > 0 && class != TCC_CLASS_STRING && class != TCC_CLASS_COMPLEX;
}

static bool takes_gradient(const struct pass_machine *m, const struct ir_node *n)
{
    (void)m;
    return cuda_takes_attention(n, true);
}

/* 8-bit floats that the tensor cores multiply as such: the product's factor is then what memory holds. */
static bool materialise(const struct pass_machine *m, const struct ir_node *n)
{
    int d = n->out[0]->type->dtype;
    return n->op == IR_cast && ((const struct cuda_machine *)m)->fp8 && (d == TCC_F8E4M3FN || d == TCC_F8E5M2);
}

/* NULL: there is none */
static const struct cuda_machine *cuda_machine_find(const char *arch)
{
    for (int i = 0; i < NMACHINES; i++)
        if (!strcmp(machines[i].name, arch))
            return &machines[i];
    return NULL;
}

const struct cuda_machine *cuda_machine_make(struct ir_ctx *ctx, const char *arch)
{
    const struct cuda_machine *found = cuda_machine_find(arch);
    if (!found) {
        const char *names = "";
        for (int i = 0; i < NMACHINES; i++)
            names = ir_internf(ctx, "%s%scuda:%s", names,
                               i == 0              ? ""
                               : i + 1 < NMACHINES ? ", "
                                                   : " or ",
                               machines[i].name);
        return ir_error(ctx, NULL, "unknown target cuda:%s; expected %s", ir_shown(arch), names), NULL;
    }
    static const struct pass_memory memory = {"cuda", false};
    struct cuda_machine *m = IR_NEW(ctx, struct cuda_machine);
    *m = *found;
    m->pass = (struct pass_machine){.name = "cuda",
                                    .memory = &memory,
                                    .customs = true,
                                    .takes = takes,
                                    .takes_gradient = takes_gradient,
                                    .materialise = materialise,
                                    .layout = cuda_layout,
                                    .cost = cost,
                                    .schedule = cuda_choose_schedule,
                                    .verify_schedule = cuda_verify_schedule,
                                    .arch = m->name,
                                    .override = cuda_override_schedule,
                                    .candidates = cuda_candidates};
    return m;
}
