/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the machines by name, and their answers to passes. */
#include "compiler/emit/emit.h"
#include "compiler/neuron/neuron_int.h"

#include <string.h>

/* A core's products of bf16, its HBM, and what a transfer takes at least (doc/neuron.md, "Time"). Kernels are not split in pieces. */
static const struct pass_cost *cost(const struct pass_machine *m)
{
    static const struct pass_cost core = {
        .flops = 0x1p44, .half_flops = 0x1p46, .bandwidth = 0x1p38, .launch = 0x1p-18, .function = 16, .kernel = 400};
    (void)m;
    return &core;
}

static bool runs(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    const char *why;
    if (k->schedule.how) /* it came with the text */
        return strcmp(k->schedule.how, "host") != 0;
    struct neuron_program *p = neuron_kernel_program(ctx, (const struct nk_machine *)m, k, &why);
    neuron_program_free(p);
    return p != NULL;
}

/* "engines", or "host" where they can't run it. The host runs tiles point by point. */
static void schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    k->schedule = (struct kn_schedule){.how = runs(m, ctx, k) ? "engines" : "host"};
    for (int i = 0; i < em_nouter(k); i++)
        k->schedule.tile[i] = 1;
    k->tiles = em_tile_count(ctx, k);
    k->scratch = em_local_scratch(ctx, k, 1);
}

static bool verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    (void)m;
    if ((!strcmp(k->schedule.how, "engines") || !strcmp(k->schedule.how, "host")) && !k->schedule.nparams)
        return true;
    ir_error(ctx, NULL, "kernel %s: unknown schedule '%s'; expected engines or host", ir_shown(k->name),
             ir_shown(k->schedule.how));
    return false;
}

const struct nk_machine *nk_machine_make(struct ir_ctx *ctx, const char *arch)
{
    static const struct pass_memory memory = {"neuron", false};
    for (int c = 0; c < NEURON_NCORES; c++) {
        if (strcmp(neuron_core_name((enum neuron_core_kind)c), arch))
            continue;
        struct nk_machine *m = IR_NEW(ctx, struct nk_machine);
        m->core = (enum neuron_core_kind)c;
        m->pass = (struct pass_machine){.name = "neuron",
                                        .memory = &memory,
                                        .cost = cost,
                                        .runs = runs,
                                        .schedule = schedule,
                                        .verify_schedule = verify_schedule};
        return m;
    }
    ir_error(ctx, NULL, "unknown target neuron:%s; expected neuron:trn1 or neuron:trn2", ir_shown(arch));
    return NULL;
}
