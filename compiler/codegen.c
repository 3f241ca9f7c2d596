/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codegen.c - a compilation's kernels become code: images for the machines of a target with a device, objects for those
 * of the host, which for such a target hold only what the plan leaves there.
 */
#include "compiler/custom_int.h"
#include "compiler/job_int.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

static int usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static bool refused(struct job *j)
{
    const struct kn_program *p = j->module->program;
    VEC(char) text = {0};
    int n = 0;
    for (int i = 0; i < p->nkernels && j->target->refuses; i++) {
        const char *why = p->kernels[i]->custom ? NULL : j->target->refuses(j->ctx, p->kernels[i]);
        if (!why)
            continue;
        const char *line =
            ir_internf(j->ctx, "%skernel '%s': %s", n++ ? "\n  " : "", ir_shown(p->kernels[i]->name), ir_shown(why));
        for (const char *c = line; *c; c++)
            VEC_PUSH(j->ctx, text, *c);
    }
    if (!n)
        return false;
    VEC_PUSH(j->ctx, text, 0);
    ir_diag(j->ctx, NULL, IR_D_UNSUPPORTED, "target %s cannot compile %d of %d kernels:\n  %s", j->target->name, n,
            p->nkernels, text.at);
    return true;
}

const char *job_machine_dump(const struct tccc_options *o)
{
    return job_wants(o, "llvm")     ? "llvm"
           : job_wants(o, "asm")    ? "asm"
           : job_wants(o, "ptx")    ? "ptx"
           : job_wants(o, "neuron") ? "neuron"
                                    : NULL;
}

static struct target_options target_options_of(struct job *j, const char *arch)
{
    return (struct target_options){.arch = arch,
                                   .planned = j->target->host ? NULL : j->made.machine->name,
                                   .machine = j->made.machine,
                                   .level = j->o->level,
                                   .exact = j->o->exact,
                                   .fast_math = j->o->fast_math,
                                   .jobs = j->o->jobs > 0 ? j->o->jobs : usable_cores(),
                                   .assemble = true,
                                   .cache = &j->cache,
                                   .overrides = j->overrides,
                                   .hang = j->o->hang && !strcmp(j->o->hang, "code"),
                                   .dump = job_machine_dump(j->o),
                                   .dump_to = j->o->dump_to ? j->o->dump_to : stdout};
}

static void mark_host_launches(const struct kn_program *p, const struct kn_steps *steps, bool *on_host)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_LAUNCH && !p->queues[s->queue].memory)
            on_host[s->kernel->id] = true;
        for (int r = 0; r < s->nregions; r++)
            mark_host_launches(p, &s->regions[r].steps, on_host);
    }
}

/* The program with plain schedules for the host: points one after the other, in the device's tiles. */
static struct kn_program host_program(struct job *j)
{
    struct kn_program p = *j->module->program;
    bool *on_host = IR_NEWN(j->ctx, p.nkernels + 1, bool);
    for (int e = 0; e < p.nentries && p.nqueues; e++)
        mark_host_launches(&p, &p.entries[e].steps, on_host);
    p.kernels = IR_NEWN(j->ctx, p.nkernels + 1, struct kn_kernel *);
    for (int i = 0; i < p.nkernels; i++) {
        p.kernels[i] = IR_NEW(j->ctx, struct kn_kernel);
        *p.kernels[i] = *j->module->program->kernels[i];
        p.kernels[i]->schedule.how = "loops";
        p.kernels[i]->schedule.nparams = 0;
    }
    j->on_host = on_host;
    return p;
}

static bool compile_for_host(struct job *j)
{
    struct kn_program p = j->target->host ? host_program(j) : *j->module->program;
    const struct target *t = j->target->host ? j->target->host : j->target;
    for (int v = 0; v < j->host.n; v++) {
        struct target_options o = target_options_of(j, j->host.archs[v]);
        o.wanted = j->on_host;
        if (j->target->host)
            o.dump = NULL;
        j->prefixes[v] = ir_internf(j->ctx, "%s_v%d_", j->name, v);
        if (!t->compile(j->ctx, &p, &o, j->prefixes[v], j->folder, &j->code))
            return false;
    }
    return true;
}

static bool compile_images(struct job *j)
{
    for (int v = 0; v < j->made.n && j->target->host; v++) {
        struct target_options o = target_options_of(j, j->made.archs[v]);
        if (!j->target->compile(j->ctx, j->module->program, &o, ir_internf(j->ctx, "%s_", j->name), j->folder,
                                &j->code))
            return false;
    }
    return true;
}

bool job_compile_kernels(struct job *j)
{
    if (!custom_launches(j->ctx, j->module->program) || refused(j))
        return false;
    job_write_graph(j);
    if (!compile_images(j) || ((j->o->output || !j->target->host) && !compile_for_host(j))) {
        j->status = BUG;
        for (int i = 0; i < ir_nmessages(j->ctx); i++) /* users' device code that was refused */
            if (ir_message(j->ctx, i)->kind == IR_D_UNSUPPORTED)
                j->status = WRONG_INPUT;
        if (j->graph && j->status != BUG)
            unlink(j->reproducer);
        return false;
    }
    if (j->graph)
        unlink(j->reproducer);
    return true;
}
