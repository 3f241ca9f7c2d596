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
        if (v->n == MAX_VERSIONS)
            return ir_error(j->ctx, NULL, "%s names more than %d architectures", option, MAX_VERSIONS);
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
    return ir_error(
        j->ctx, NULL,
        "--offload: target '%s' has one memory, the host's, so nothing can leave it for another; it is for devices "
        "with a memory of their own",
        j->target->name);
}

/* An artifact is an ELF file: of one instruction set. */
static bool one_isa(struct job *j)
{
    const struct cpu_isa *first = cpu_isa_of(j->host.archs[0]);
    for (int i = 1; i < j->host.n; i++) {
        const struct cpu_isa *other = cpu_isa_of(j->host.archs[i]);
        if (other == first)
            continue;
        return ir_error(
            j->ctx, NULL,
            "--march names processors of %s and of %s: an artifact is a file for one instruction set; make one for "
            "each",
            first->name, other->name);
    }
    return true;
}

/* The target that the list begins with; NULL: there is none of that name. */
static const struct target *first_target(const char *list)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(list, ":,"), list);
    return target_by_name(name);
}

static bool has_device(const char *spec)
{
    const struct target *t = first_target(spec);
    return t && t->device;
}

/* Where the list's next target begins; NULL: nowhere. Words that name none are machines of the one before. */
static const char *next_target(const char *list)
{
    while ((list = strchr(list, ',')) && !first_target(++list))
        ;
    return list;
}

/* A job for each target of the list, those with devices first: an artifact that is told of no device runs on the first
 * that is there. */
static bool split_targets(struct job *j)
{
    VEC(const char *) specs = {0};
    for (const char *next, *list = j->o->target ? j->o->target : "cpu"; list; list = next) {
        next = next_target(list);
        const char *spec = ir_internf(j->ctx, "%.*s", next ? (int)(next - list) - 1 : (int)strlen(list), list);
        VEC_PUSH(j->ctx, specs, spec);
        for (int i = specs.n - 1; i > 0 && has_device(spec) && !has_device(specs.at[i - 1]); i--) {
            specs.at[i] = specs.at[i - 1];
            specs.at[i - 1] = spec;
        }
    }
    struct job *last = j;
    j->spec = specs.at[0];
    for (int i = 1; i < specs.n; i++, last = last->next) {
        last->next = IR_NEW(j->ctx, struct job);
        *last->next = *j;
        last->next->next = NULL;
        last->next->main = j;
        last->next->spec = specs.at[i];
    }
    if (specs.n == 1 || !j->built)
        return true;
    ir_error(j->ctx, NULL,
             "--target names several targets: only a model in a file is compiled for more than one at once");
    j->status = USAGE;
    return false;
}

/* --march where it is not given: what is left to the host of a device's program runs where that of the CPU's does. */
static const char *host_machines(const struct job *first)
{
    for (const struct job *k = first; k; k = k->next) {
        const char *list = strchr(k->spec, ':');
        if (list && !has_device(k->spec))
            return list + 1;
    }
    return "native";
}

static bool choose_target(struct job *j)
{
    char spec[256];
    snprintf(spec, sizeof spec, "%s", j->spec);
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
    const char *march = j->o->march ? j->o->march : host_machines(j->main ? j->main : j);
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
    return one_isa(j);
}

/* One that goes with those before it. */
static bool choose_another(struct job *j)
{
    if (!choose_target(j))
        return false;
    j->status = USAGE;
    for (struct job *other = j->main ? j->main : j; other != j; other = other->next)
        if (other->target == j->target || cpu_isa_of(other->host.archs[0]) != cpu_isa_of(j->host.archs[0]))
            return ir_error(
                j->ctx, NULL,
                "--target names '%s' and '%s': an artifact has each target once, with a list of its machines, "
                "and is for one instruction set",
                other->spec, j->spec);
    j->status = WRONG_INPUT;
    return true;
}

bool job_choose_target(struct job *j)
{
    return split_targets(j) && job_each_target(j, choose_another);
}

struct cache_key job_cache_key(struct job *j)
{
    int n = 0;
    for (struct job *k = j; k; k = k->next)
        n += 2 * MAX_VERSIONS + 1;
    const char **archs = IR_NEWN(j->ctx, n, const char *);
    n = 0;
    for (struct job *k = j; k; k = k->next) {
        if (k != j)
            archs[n++] = k->target->name;
        for (int i = 0; i < k->made.n; i++)
            archs[n++] = k->made.archs[i];
        for (int i = 0; i < k->host.n && k->target->host; i++)
            archs[n++] = k->host.archs[i];
    }
    return (struct cache_key){j->name, j->target->name, n, archs, j->digest};
}
