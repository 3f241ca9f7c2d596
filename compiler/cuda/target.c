/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA target: every kernel becomes a PTX function through LLVM's NVPTX back end, bodies and math from the emitter
 * that the CPU uses too. An artifact has an image for each architecture of the list, with the PTX of all its kernels
 * and how each is launched; what the plan leaves on the host is the CPU target's.
 */
#include "compiler/cuda/cuda_int.h"

#include <string.h>

static const struct pass_machine *machine(struct ir_ctx *ctx, const char *arch)
{
    const struct cuda_machine *m = cuda_machine_make(ctx, arch);
    return m ? &m->pass : NULL;
}

/* Newest first; code for one machine alone before code that later ones take. */
static int compare(const struct pass_machine *a, const struct pass_machine *b)
{
    const struct cuda_machine *x = (const struct cuda_machine *)a, *y = (const struct cuda_machine *)b;
    return x->sm != y->sm ? x->sm - y->sm : strcmp(x->name, y->name);
}

/* No device is asked: artifacts are made on machines without one. */
static const char *resolve(struct ir_ctx *ctx, const char *arch)
{
    return ir_strdup(ctx, strcmp(arch, "native") ? arch : "sm_80");
}

/* The kernel with a schedule that was asked for: the plan has those of its own machine already, not this one's. */
static struct kn_kernel *cuda_overridden(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                                         const struct pass_overrides *overrides)
{
    if (!overrides || !overrides->n)
        return k;
    struct kn_kernel *own = IR_NEW(ctx, struct kn_kernel);
    *own = *k;
    return pass_override_schedule(&m->pass, ctx, own, overrides) ? own : k;
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *plan, const struct target_options *o,
                    const char *prefix, const char *folder, struct target_code *code)
{
    size_t size;
    struct image_kernel *kernels = IR_NEWN(ctx, plan->nkernels + 1, struct image_kernel);
    const struct cuda_machine *m = cuda_machine_make(ctx, o->arch);
    struct kn_program program = *plan, *p = &program;
    if (!m)
        return false;
    p->kernels = IR_NEWN(ctx, plan->nkernels + 1, struct kn_kernel *);
    for (int i = 0; i < p->nkernels; i++)
        p->kernels[i] = plan->kernels[i]->custom
                            ? plan->kernels[i]
                            : cuda_overridden(m, ctx, cuda_kernel_for(m, ctx, plan->kernels[i]), o->overrides);
    const bool *rows = cuda_find_rows(ctx, p);
    const char *own = ir_internf(ctx, "%s%s_", prefix, o->arch), *ptx = cuda_ptx(ctx, p, rows, o, own, folder, &size);
    if (!ptx || !(ptx = cuda_add_customs(ctx, p, o->arch, own, ptx)))
        return false;
    size = strlen(ptx) + 1;
    if (o->dump && !strcmp(o->dump, "ptx"))
        fputs(ptx, o->dump_to);
    for (int i = 0; i < p->nkernels; i++)
        kernels[i] = p->kernels[i]->custom
                         ? cuda_custom_launch(ctx, p->kernels[i]->custom, ir_internf(ctx, "%sk%d", own, i))
                         : cuda_launches(ctx, p->kernels[i], ir_internf(ctx, "%sk%d", own, i), rows[i]);
    struct cuda_cubin cubin = cuda_assemble(ctx, o, ptx, own, folder);
    if (cubin.bytes)
        target_add_image(ctx, code, image_make(ctx, p, kernels, o->arch, cubin.format, cubin.bytes, cubin.size));
    target_add_image(ctx, code, image_make(ctx, p, kernels, o->arch, "ptx", ptx, size));
    return true;
}

/* Names, each with a blank before it. */
static const char machines[] =
#define MACHINE(name, sm, ptx, sms, shared, tf32, wgmma, fp8) " " name
#include "compiler/cuda/machine.def"
    ;

const struct target target_cuda = {.name = "cuda",
                                   .machines = machines + 1,
                                   .host = &target_cpu,
                                   .device = "tcr_device_cuda",
                                   .machine = machine,
                                   .compare = compare,
                                   .resolve = resolve,
                                   .refuses = em_refuses,
                                   .compile = compile};
