/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU target's door: the table of templates, what is refused, and compile().
 *
 * Kernels are dealt into parts, whose number and members depend on the program only (not on the number of jobs:
 * artifacts must be the same on every machine). A part is compiled by a child process with an LLVM context of its own
 * (object.c), so that neither a fatal error of LLVM nor a crash takes the caller down; the child reports through a
 * pipe.
 */
#include "compiler/child_int.h"
#include "compiler/cpu/object_int.h"
#include "compiler/emit/vmath.h"

#include <stdlib.h>

const struct cpu_template *const cpu_templates[] = {
    &cpu_template_attention, &cpu_template_winograd, &cpu_template_contract,
    &cpu_template_fold,      &cpu_template_conv,     &cpu_template_depthwise,
    &cpu_template_pool,      &cpu_template_loops,    NULL};

/* -- Parts ------------------------------------------------------------------------------------------- */

#define MAX_PARTS 16

/* How long a kernel takes to compile, roughly. */
static int64_t weight(const struct kn_kernel *k)
{
    int64_t n = k->ninsns + 8 * k->ndims;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SCALAR && vm_has((enum ir_op)k->insns[i].op))
            n += 10;
    return cpu_get_schedule(k).how == CPU_LOOPS ? n : 400 + n;
}

struct weighed {
    int64_t weight;
    int kernel;
};

static int heavier_first(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : x->kernel - y->kernel;
}

/* Deals the kernels that are wanted, heaviest first, to the lightest part. part[i] gets kernel i's part, -1: none;
 * returns the number of parts. */
static int deal(struct ir_ctx *ctx, const struct kn_program *p, const bool *kernels, int *part)
{
    int64_t total = 0, load[MAX_PARTS] = {0};
    struct weighed *all = IR_NEWN(ctx, p->nkernels + 1, struct weighed);
    int nall = 0;
    for (int i = 0; i < p->nkernels; i++) {
        part[i] = -1;
        if (kernels && !kernels[i])
            continue;
        all[nall] = (struct weighed){weight(p->kernels[i]), i};
        total += all[nall++].weight;
    }
    qsort(all, (size_t)nall, sizeof *all, heavier_first);
    int64_t wanted = 1 + total / 600;
    int n = wanted > MAX_PARTS ? MAX_PARTS : (int)wanted;
    n = n > nall ? nall : n;
    for (int round = 0; round < nall; round++) {
        int lightest = 0;
        for (int j = 1; j < n; j++)
            if (load[j] < load[lightest])
                lightest = j;
        part[all[round].kernel] = lightest;
        load[lightest] += all[round].weight;
    }
    return n;
}

/* -- Compiling ------------------------------------------------------------------------------------------ */

static void run_part(void *jobs, int i, int report)
{
    object_child((struct object_job *)jobs + i, report);
}

static bool cpu_compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o,
                        const char *prefix, const char *folder, struct target_code *code)
{
    const struct cpu_machine *m = cpu_machine_make(ctx, o->arch, o->planned);
    if (!m)
        return false;
    ir_detail(ctx, "LLVM " LLVM_VERSION_STRING ", code for %s, vectors of %d bytes", o->arch, m->emit.vector_bytes);
    int *part = IR_NEWN(ctx, p->nkernels + 1, int), n = deal(ctx, p, o->wanted, part);
    struct object_job *jobs = IR_NEWN(ctx, n + 1, struct object_job);
    for (int i = 0; i < n; i++) {
        jobs[i] = (struct object_job){.ctx = ctx,
                                      .program = p,
                                      .machine = m,
                                      .options = o,
                                      .prefix = prefix,
                                      .part_of = part,
                                      .part = i,
                                      .path = ir_internf(ctx, "%s/%s%d.o", folder, prefix, i),
                                      .dump_path = ir_internf(ctx, "%s/%s%d.dump", folder, prefix, i)};
    }
    bool ok = child_run(ctx, n, o->jobs, run_part, jobs);
    for (int i = 0; i < n; i++) {
        target_add_object(ctx, code, jobs[i].path);
        if (ok && o->dump)
            child_take_dump(jobs[i].dump_path, o->dump_to);
        ok = ok && object_check(ctx, jobs[i].path);
    }
    return ok;
}

static const struct pass_machine *cpu_machine(struct ir_ctx *ctx, const char *arch)
{
    const struct cpu_machine *m = cpu_machine_make(ctx, arch, NULL);
    return m ? &m->pass : NULL;
}

/* The same, with kernels that work in a memory of their own. */
static const struct pass_machine *split_machine(struct ir_ctx *ctx, const char *arch)
{
    static const struct pass_memory memory = {"cpu-split", false};
    const struct cpu_machine *plain = cpu_machine_make(ctx, arch, NULL);
    if (!plain)
        return NULL;
    struct cpu_machine *m = IR_NEW(ctx, struct cpu_machine);
    *m = *plain;
    m->planned = m;
    m->pass.memory = &memory;
    return &m->pass;
}

/* By vectors, then by the number of features. */
static int cpu_compare(const struct pass_machine *a, const struct pass_machine *b)
{
    const struct cpu_machine *x = (const struct cpu_machine *)a, *y = (const struct cpu_machine *)b;
    int wider = x->emit.vector_bytes - y->emit.vector_bytes;
    return wider ? wider : __builtin_popcountll(x->features) - __builtin_popcountll(y->features);
}

const struct target target_cpu = {.name = "cpu",
                                  .machines = CPU_LEVELS,
                                  .machine = cpu_machine,
                                  .compare = cpu_compare,
                                  .resolve = cpu_resolve,
                                  .refuses = em_refuses,
                                  .compile = cpu_compile};

/* The same kernels, for tests: a device with a memory that the host can't touch runs them. */
const struct target target_cpu_split = {.name = "cpu-split",
                                        .machines = CPU_LEVELS,
                                        .machine = split_machine,
                                        .compare = cpu_compare,
                                        .resolve = cpu_resolve,
                                        .refuses = em_refuses,
                                        .compile = cpu_compile};
