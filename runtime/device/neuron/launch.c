/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the program of a kernel is read from the image when it is first launched; one core runs them all, with the launch's arguments as its tensors.
 * Arguments that overlap what the program writes are copied first, as if it read all before it wrote. Whatever the simulator reports (a race, a byte
 * that nobody wrote) is an error: programs are the compiler's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/neuron/neuron_int.h"

int neuron_bad_image(const char *what)
{
    return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", what);
}

/* The bytes of a kernel's program; false: it has none. */
static bool code_of(const struct tcr_neuron *n, uint32_t kernel, const uint8_t **code, const uint64_t **at)
{
    *code = (const uint8_t *)n->image + n->image->code.first;
    *at = (const uint64_t *)(const void *)*code + 2 * (size_t)kernel;
    return kernel < n->nkernels && (*at)[1];
}

static int decode(struct tcr_neuron *n, uint32_t kernel)
{
    const uint8_t *code;
    const uint64_t *at;
    char error[NEURON_ERROR];

    code_of(n, kernel, &code, &at);
    if (at[0] > n->image->code.count || at[1] > n->image->code.count - at[0])
        return neuron_bad_image("a program");
    n->kernels[kernel].program = neuron_lib.neuron_decode(code + at[0], at[1], error);
    if (!n->kernels[kernel].program)
        return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", error);
    n->kind = n->kernels[kernel].program->core;
    n->has_kind = true;
    return TCC_OK;
}

int neuron_first_kind(struct tcr_neuron *n)
{
    const uint8_t *code;
    const uint64_t *at;

    for (uint32_t k = 0; k < n->nkernels && !n->has_kind; k++)
        if (code_of(n, k, &code, &at))
            return decode(n, k);
    return TCC_OK;
}

static int program_of(struct tcr_neuron *n, const struct tcr_kernel_launch *l, struct neuron_program **out)
{
    const uint8_t *code;
    const uint64_t *at;
    int status;

    if (!code_of(n, l->kernel, &code, &at))
        return tcr_fail(TCC_EENV, "node '%s': the artifact has no program of kernel %u for device '%s'", l->node,
                        l->kernel, n->device.name);
    if (!n->kernels[l->kernel].program && (status = decode(n, l->kernel)))
        return status;
    *out = n->kernels[l->kernel].program;
    return TCC_OK;
}

/* What a report means: an index outside its axis is the caller's fault (and no message, since it may be read much later), everything else the program's. */
static int reported(struct neuron_sim *s, const char *node, const char *error)
{
    const struct neuron_report *list;
    char text[500];
    int n = neuron_lib.neuron_sim_reports(s, &list);

    for (int k = 0; k < n; k++)
        if (list[k].check == NEURON_CHECK_INDEX)
            return TCC_EINDEX;
    if (!n)
        return tcr_fail(TCC_EBUG, "node '%s': %s", node, error);
    neuron_lib.neuron_report_text(&list[0], text, sizeof text);
    return tcr_fail(TCC_EBUG, "node '%s': %s", node, text);
}

static bool is_written(const struct neuron_tensor *t)
{
    return t->use == NEURON_OUT || t->use == NEURON_INOUT;
}

/* Does argument t share bytes with another that is written, or that is read where it is itself written? */
static bool overlaps(const struct neuron_program *p, void *const *args, int t)
{
    const char *at = args[t];
    int64_t bytes = neuron_lib.neuron_tensor_bytes(&p->tensors[t]);

    for (int k = 0; k < p->ntensors; k++) {
        const char *other = k == t || p->tensors[k].use == NEURON_TEMP ? NULL : args[k];

        if (other && (is_written(&p->tensors[k]) || is_written(&p->tensors[t])) &&
            at < other + neuron_lib.neuron_tensor_bytes(&p->tensors[k]) && other < at + bytes)
            return true;
    }
    return false;
}

/* Does the program read what the run says? */
static bool has_environment(const struct neuron_program *p, uint32_t nargs)
{
    return (uint32_t)p->ntensors > nargs && p->tensors[nargs].use == NEURON_IN &&
           !strcmp(p->tensors[nargs].name, NEURON_ENV_NAME) &&
           neuron_lib.neuron_tensor_bytes(&p->tensors[nargs]) == 4 * NEURON_ENV_WORDS;
}

static int run(struct tcr_neuron *n, const struct neuron_program *p, const struct tcr_kernel_launch *l,
               struct neuron_counters *counters)
{
    char error[NEURON_ERROR] = "";
    bool fine = true;
    const struct neuron_report *list;
    struct neuron_sim *s = n->core;

    for (int t = 0; t < p->ntensors && fine && n->config.values; t++) {
        if (p->tensors[t].use == NEURON_TEMP)
            continue;
        bool apart = overlaps(p, l->args, t);
        neuron_lib.neuron_sim_bind(s, t, apart ? NULL : l->args[t]);
        if (apart)
            fine =
                neuron_lib.neuron_sim_write(s, t, 0, l->args[t], neuron_lib.neuron_tensor_bytes(&p->tensors[t]), error);
    }
    fine = fine && neuron_lib.neuron_sim_run(s, counters, error) && !neuron_lib.neuron_sim_reports(s, &list);
    for (int t = 0; t < p->ntensors && fine && n->config.values; t++)
        if (is_written(&p->tensors[t]) && overlaps(p, l->args, t))
            fine =
                neuron_lib.neuron_sim_read(s, t, 0, l->args[t], neuron_lib.neuron_tensor_bytes(&p->tensors[t]), error);
    return fine ? TCC_OK : reported(s, l->node, error);
}

/* The core, with the program on it. */
static int load(struct tcr_neuron *n, struct neuron_program *p, const char *node)
{
    char error[NEURON_ERROR] = "";

    if (!n->core) {
        n->core = neuron_lib.neuron_sim_new(p, &n->config, error);
        if (n->core && n->traced)
            neuron_lib.neuron_sim_trace(n->core, neuron_model_event, n);
    } else if (!neuron_lib.neuron_sim_load(n->core, p, error)) {
        return tcr_fail(TCC_EENV, "node '%s': %s", node, error);
    }
    if (!n->core)
        return tcr_fail(TCC_EENV, "node '%s': %s", node, error);
    if (n->stochastic) /* another launch draws other numbers */
        neuron_lib.neuron_sim_round(
            n->core, true, n->rounding_seed + (uint64_t)n->device.counts.launches * UINT64_C(0x9e3779b97f4a7c15));
    return TCC_OK;
}

int neuron_launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    struct neuron_program *p = NULL;
    struct neuron_counters counters;
    struct neuron_kernel *kernel = &n->kernels[l->kernel];
    uint32_t arguments = 0;
    int status = n->fault ? TCC_OK : program_of(n, l, &p);

    if (status || n->fault)
        return status;
    for (int t = 0; t < p->ntensors; t++)
        arguments += p->tensors[t].use != NEURON_TEMP;
    struct tcr_kernel_launch with = *l;
    void *args[NEURON_MOST_ARGUMENTS + 1];
    if (l->nargs <= NEURON_MOST_ARGUMENTS && has_environment(p, l->nargs)) {
        memcpy(args, l->args, l->nargs * sizeof *args);
        args[with.nargs++] = n->env;
        with.args = args;
    }
    if (arguments != with.nargs)
        return neuron_bad_image("a program's tensors");
    d->counts.launches++;
    neuron_model_starts(n, queue);
    if (kernel->is_known && !n->traced) {
        neuron_model_launch(n, queue, &kernel->known);
        return TCC_OK;
    }
    n->trace.node = l->node;
    n->trace.program = p;
    if (!(status = load(n, p, l->node)))
        status = run(n, p, &with, &counters);
    if (status == TCC_EINDEX) { /* sync() tells */
        n->fault = l->node;
        n->faulted = n->run;
        return TCC_OK;
    }
    if (status)
        return status;
    neuron_model_launch(n, queue, &counters);
    kernel->known = counters;
    kernel->is_known = !n->config.values;
    return TCC_OK;
}

void neuron_kernels_free(struct tcr_neuron *n)
{
    if (n->core)
        neuron_lib.neuron_sim_free(n->core);
    for (uint32_t k = 0; n->kernels && k < n->nkernels; k++)
        if (n->kernels[k].program)
            neuron_lib.neuron_program_free(n->kernels[k].program);
    free(n->kernels);
}
