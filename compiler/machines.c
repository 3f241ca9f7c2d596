/* SPDX-License-Identifier: Apache-2.0 */
/* machines.c - what a compilation makes code for: --target and --march, each a list of one target's machines. */
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/job_int.h"

#include <string.h>

static bool wider(const struct target *t, const struct pass_machine *a, const struct pass_machine *b)
{
    return t->compare && t->compare(a, b) > 0;
}

/* The machines that a list names, best first; `option` is what it was given with. */
static bool choose_machines(struct job *j, const struct target *t, const char *text, const char *option,
                            struct versions *v)
{
    char list[2048];
    snprintf(list, sizeof list, "%s", text);
    for (char *save, *a = strtok_r(list, ",", &save); a; a = strtok_r(NULL, ",", &save)) {
        if (v->n == MAX_VERSIONS) {
            ir_error(j->ctx, NULL, "%s names more than %d architectures", option, MAX_VERSIONS);
            return false;
        }
        const char *resolved = t->resolve(j->ctx, a);
        const struct pass_machine *m = resolved ? t->machine(j->ctx, resolved) : NULL;
        if (!m)
            return false;
        /* Widest first; the runtime takes the first that the machine can run. */
        int at = v->n++;
        for (; at > 0 && wider(t, m, t->machine(j->ctx, v->archs[at - 1])); at--)
            v->archs[at] = v->archs[at - 1];
        v->archs[at] = resolved;
        if (!v->machine || wider(t, m, v->machine))
            v->machine = m;
    }
    if (!v->n)
        ir_error(j->ctx, NULL, "%s is empty", option);
    return v->n > 0;
}

/* --offload asks for something where a device has a memory of its own. */
static bool offload_ok(struct job *j)
{
    const struct tccc_train *t = j->o->train;
    const struct pass_memory *memory = j->made.machine->memory;
    if (!t || !t->offload || (memory && !memory->shared))
        return true;
    ir_error(
        j->ctx, NULL,
        "--offload: target '%s' has one memory, the host's, so nothing can leave it for another; it is for devices "
        "with a memory of their own",
        j->target->name);
    return false;
}

/* An artifact is an ELF file: of one instruction set. */
static bool one_isa(struct job *j)
{
    const struct cpu_isa *first = cpu_isa_of(j->host.archs[0]);
    for (int i = 1; i < j->host.n; i++) {
        const struct cpu_isa *other = cpu_isa_of(j->host.archs[i]);
        if (other == first)
            continue;
        ir_error(
            j->ctx, NULL,
            "--march names processors of %s and of %s: an artifact is a file for one instruction set; make one for "
            "each",
            first->name, other->name);
        return false;
    }
    return true;
}

bool job_choose_target(struct job *j)
{
    char spec[256];
    snprintf(spec, sizeof spec, "%s", j->o->target ? j->o->target : "cpu");
    char *arch = strchr(spec, ':');
    if (arch)
        *arch++ = 0;
    j->target = target_by_name(spec);
    if (!j->target) {
        ir_error(j->ctx, NULL, "target '%s' is not built in; expected cpu, cpu-split%s", spec,
                 target_by_name("cuda") ? ", cuda:sm_80,sm_90a or neuron:trn1" : "");
        j->status = strcmp(spec, "cuda") && strcmp(spec, "neuron") ? USAGE : ENVIRONMENT;
        return false;
    }
    const char *march = j->o->march ? j->o->march : "native";
    bool own = !j->target->host; /* --march is the target's */
    j->status = USAGE;
    if (!choose_machines(j, j->target, arch ? arch : own ? march : "native", own ? "--march" : "--target", &j->made))
        return false;
    if (!offload_ok(j))
        return false;
    j->host = j->made;
    if (!own) {
        j->host = (struct versions){0};
        if (!choose_machines(j, j->target->host, march, "--march", &j->host))
            return false;
    }
    if (!one_isa(j))
        return false;
    j->status = WRONG_INPUT;
    return true;
}

struct cache_key job_cache_key(struct job *j)
{
    const char **archs = IR_NEWN(j->ctx, 2 * MAX_VERSIONS, const char *);
    int n = 0;
    for (int i = 0; i < j->made.n; i++)
        archs[n++] = j->made.archs[i];
    for (int i = 0; i < j->host.n && j->target->host; i++)
        archs[n++] = j->host.archs[i];
    return (struct cache_key){j->name, j->target->name, n, archs, j->digest};
}
