/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the programs of a kernel are read from the image when it is first launched; one core runs them all, with
 * the launch's arguments as its tensors. Arguments that overlap what the program writes are copied first, as if it read
 * all before it wrote. Whatever the simulator reports (a race, a byte that nobody wrote) is an error: programs are the
 * compiler's.
 *
 * A logical core of two physical ones runs a kernel's two programs at the same time, each in its own SBUF, over the
 * same tensors; they meet where the kernel ends (core_barrier). A kernel that was not cut in two is the first core's. A
 * reduction that was has a second launch: a program of the first core, which reduces what both have left in a tensor
 * behind the arguments. Figures are those of both: bytes and instructions are added, an engine's busy time is the mean.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/neuron/neuron_int.h"

int neuron_bad_image(const char *what)
{
    return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", what);
}

enum { THEN = NEURON_PAIR }; /* in place of a physical core: the kernel's second launch */

/* The bytes of a kernel's program for a physical core; false: it has none. */
static bool code_of(const struct tcr_neuron *n, uint32_t kernel, int core, const uint8_t **code, const uint64_t **at)
{
    const struct tcc_range *launches =
        (const struct tcc_range *)(const void *)((const char *)n->image + n->image->kernels.first);
    size_t number =
        core == THEN ? (size_t)n->nkernels * (size_t)n->lnc + kernel : (size_t)kernel * (size_t)n->lnc + (size_t)core;

    if (kernel >= n->nkernels || (core == THEN ? n->lnc < 2 || launches[kernel].count < 2 : core >= n->lnc) ||
        n->image->code.count / 16 <= number)
        return false;
    *code = (const uint8_t *)n->image + n->image->code.first;
    *at = (const uint64_t *)(const void *)*code + 2 * number;
    return (*at)[1];
}

/* Temporary tensors, each core's own, stand behind the arguments. */
static bool same_arguments(const struct neuron_program *a, const struct neuron_program *b)
{
    int t = 0;

    if (a->core != b->core)
        return false;
    for (; t < a->ntensors && a->tensors[t].use != NEURON_TEMP; t++)
        if (t >= b->ntensors || a->tensors[t].use != b->tensors[t].use ||
            neuron_lib.neuron_tensor_bytes(&a->tensors[t]) != neuron_lib.neuron_tensor_bytes(&b->tensors[t]))
            return false;
    return t >= b->ntensors || b->tensors[t].use == NEURON_TEMP;
}

static int decode(struct tcr_neuron *n, uint32_t kernel)
{
    struct neuron_kernel *k = &n->kernels[kernel];
    const uint8_t *code;
    const uint64_t *at;
    char error[NEURON_ERROR];

    for (int core = 0; core <= THEN; core++) {
        struct neuron_program **p = core == THEN ? &k->then : &k->program[core];

        if (!code_of(n, kernel, core, &code, &at))
            continue;
        if (at[0] > n->image->code.count || at[1] > n->image->code.count - at[0])
            return neuron_bad_image("a program");
        *p = neuron_lib.neuron_decode(code + at[0], at[1], error);
        if (!*p)
            return tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s", error);
        if (!k->program[0] || !same_arguments(k->program[0], *p))
            return neuron_bad_image("programs of two cores");
        n->kind = (*p)->core;
        n->has_kind = true;
    }
    return TCC_OK;
}

int neuron_first_kind(struct tcr_neuron *n)
{
    const uint8_t *code;
    const uint64_t *at;

    for (uint32_t k = 0; k < n->nkernels && !n->has_kind; k++)
        if (code_of(n, k, 0, &code, &at))
            return decode(n, k);
    return TCC_OK;
}

static int kernel_of(struct tcr_neuron *n, const struct tcr_kernel_launch *l, struct neuron_kernel **out)
{
    const uint8_t *code;
    const uint64_t *at;
    int status;

    if (!code_of(n, l->kernel, 0, &code, &at))
        return tcr_fail(TCC_EENV, "node '%s': the artifact has no program of kernel %u for device '%s'", l->node,
                        l->kernel, n->device.name);
    if (!n->kernels[l->kernel].program[0] && (status = decode(n, l->kernel)))
        return status;
    *out = &n->kernels[l->kernel];
    return TCC_OK;
}

/* What a report means: an index outside its axis is the caller's fault (and no message, since it may be read much
 * later), also one that registers of a program with sizes have, which shows in where it leads; everything else is the
 * program's. */
static int reported(struct neuron_sim *s, const struct tcr_kernel_launch *l, const char *error)
{
    const struct neuron_report *list;
    char text[500];
    int n = neuron_lib.neuron_sim_reports(s, &list);

    for (int k = 0; k < n; k++)
        if (list[k].check == NEURON_CHECK_INDEX ||
            (list[k].check == NEURON_CHECK_BOUNDS && l->nsizes && l->checks && *l->checks))
            return TCC_EINDEX;
    if (!n)
        return tcr_fail(TCC_EBUG, "node '%s': %s", l->node, error);
    neuron_lib.neuron_report_text(&list[0], text, sizeof text);
    return tcr_fail(TCC_EBUG, "node '%s': %s", l->node, text);
}

static bool is_written(const struct neuron_tensor *t)
{
    return t->use == NEURON_OUT || t->use == NEURON_INOUT;
}

/* Does argument t share bytes with another that is written, or that is read where it is itself written? */
static bool overlaps(const struct neuron_program *p, void *const *args, int nargs, int t)
{
    const char *at = args[t];
    int64_t bytes = neuron_lib.neuron_tensor_bytes(&p->tensors[t]);

    for (int k = 0; k < nargs; k++) {
        const char *other = k == t ? NULL : args[k];

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
           neuron_lib.neuron_tensor_bytes(&p->tensors[nargs]) <= 4 * NEURON_ENV_WORDS;
}

/* A core, with the program on it. */
static int load(struct tcr_neuron *n, int core, const struct neuron_program *p, const char *node)
{
    char error[NEURON_ERROR] = "";
    struct neuron_sim **s = &n->core[core];

    if (!*s) {
        *s = neuron_lib.neuron_sim_new(p, &n->config, error);
        if (*s && n->traced)
            neuron_lib.neuron_sim_trace(*s, neuron_model_event, n);
    } else if (!neuron_lib.neuron_sim_load(*s, p, error)) {
        return tcr_fail(TCC_EENV, "node '%s': %s", node, error);
    }
    if (!*s)
        return tcr_fail(TCC_EENV, "node '%s': %s", node, error);
    if (n->stochastic) /* another launch draws other numbers, and so does another core */
        neuron_lib.neuron_sim_round(*s, true,
                                    n->rounding_seed +
                                        (uint64_t)n->device.counts.launches * UINT64_C(0x9e3779b97f4a7c15) +
                                        (uint64_t)core * UINT64_C(0xd1b54a32d192ed03));
    return TCC_OK;
}

/* Arguments by tensor; those that overlap what is written are copies. Behind them what the cores leave for a second
 * launch. */
struct binding {
    void *at[NEURON_ARGUMENTS + 2], *left;
    bool apart[NEURON_ARGUMENTS + 2];
    int n;
};

static void release(struct binding *b)
{
    for (int t = 0; t < b->n; t++)
        if (b->apart[t])
            free(b->at[t]);
    free(b->left);
}

static int bind(struct tcr_neuron *n, const struct neuron_kernel *kernel, const struct tcr_kernel_launch *l,
                struct binding *b)
{
    const struct neuron_program *p = kernel->program[0];

    *b = (struct binding){0};
    for (; b->n < (int)l->nargs && n->config.values; b->n++) {
        size_t bytes = (size_t)neuron_lib.neuron_tensor_bytes(&p->tensors[b->n]);

        b->at[b->n] = l->args[b->n];
        if (!overlaps(p, l->args, (int)l->nargs, b->n))
            continue;
        if (!(b->at[b->n] = malloc(bytes ? bytes : 1)))
            return tcr_fail(TCC_EENV, "node '%s': no memory for %zu bytes", l->node, bytes);
        b->apart[b->n] = true;
        memcpy(b->at[b->n], l->args[b->n], bytes);
    }
    if (kernel->then && n->config.values) {
        size_t bytes = (size_t)neuron_lib.neuron_tensor_bytes(&p->tensors[b->n]);

        if (!(b->left = malloc(bytes ? bytes : 1)))
            return tcr_fail(TCC_EENV, "node '%s': no memory for %zu bytes", l->node, bytes);
        b->at[b->n++] = b->left;
    }
    return TCC_OK;
}

static void write_back(const struct neuron_program *p, const struct tcr_kernel_launch *l, const struct binding *b)
{
    for (int t = 0; t < b->n; t++)
        if (b->apart[t] && is_written(&p->tensors[t]))
            memcpy(l->args[t], b->at[t], (size_t)neuron_lib.neuron_tensor_bytes(&p->tensors[t]));
}

static int run_core(struct tcr_neuron *n, int core, const struct neuron_program *p, const struct binding *b,
                    const struct tcr_kernel_launch *l, struct neuron_counters *counters)
{
    char error[NEURON_ERROR] = "";
    const struct neuron_report *list;
    int status = load(n, core, p, l->node);

    if (status)
        return status;
    for (int t = 0; t < b->n; t++)
        neuron_lib.neuron_sim_bind(n->core[core], t, b->at[t]);
    n->trace.program = p;
    n->trace.core = core;
    if (neuron_lib.neuron_sim_run(n->core[core], counters, error) &&
        !neuron_lib.neuron_sim_reports(n->core[core], &list))
        return TCC_OK;
    return reported(n->core[core], l, error);
}

/* Of both cores of a pair, which begin together. */
static void join(struct neuron_counters *to, const struct neuron_counters *b, bool both)
{
    uint64_t meeting = both ? (uint64_t)(neuron_lib.neuron_meet_ns() * (double)to->ticks_in_10ns / 10) : 0;
    double peak = to->seconds > 0 ? NEURON_PAIR * to->peak_flops / to->seconds : 0;

    to->ticks = (to->ticks > b->ticks ? to->ticks : b->ticks) + meeting;
    to->seconds = (double)to->ticks / (double)to->ticks_in_10ns / 1e8;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        to->engine[e].instructions += b->engine[e].instructions;
        to->engine[e].busy = (to->engine[e].busy + b->engine[e].busy) / NEURON_PAIR;
        to->engine[e].waiting = (to->engine[e].waiting + b->engine[e].waiting) / NEURON_PAIR;
    }
    to->dma_transfers += b->dma_transfers;
    to->dma_rows += b->dma_rows;
    to->dma_bytes += b->dma_bytes;
    to->dma_paid_bytes += b->dma_paid_bytes;
    to->dma_busy = (to->dma_busy + b->dma_busy) / NEURON_PAIR;
    to->hbm_read += b->hbm_read;
    to->hbm_written += b->hbm_written;
    to->flops += b->flops;
    to->peak_flops = peak * to->seconds;
}

/* What the first core does behind that, while the other stands still. */
static void follow(struct neuron_counters *to, const struct neuron_counters *then)
{
    static const struct neuron_counters idle;
    struct neuron_counters both = *then;

    join(&both, &idle, false);
    neuron_count(to, &both);
}

static int run(struct tcr_neuron *n, const struct neuron_kernel *k, const struct tcr_kernel_launch *l,
               struct neuron_counters *counters)
{
    struct neuron_counters of[NEURON_PAIR] = {{0}};
    struct binding b;
    int status = bind(n, k, l, &b), last = (int)(n->config.seed & 1);

    for (int i = 0; i < n->lnc && !status; i++) {
        int core = i ^ (n->lnc > 1 ? last : 0); /* drawn orders: the second one may be first */

        if (k->program[core])
            status = run_core(n, core, k->program[core], &b, l, &of[core]);
    }
    *counters = of[0];
    if (n->lnc > 1)
        join(counters, &of[1], k->program[1] != NULL);
    if (k->then && !status) {
        struct neuron_counters then = {0};

        n->trace.behind = counters->ticks;
        status = run_core(n, 0, k->then, &b, l, &then);
        n->trace.behind = 0;
        follow(counters, &then);
    }
    if (!status)
        write_back(k->program[0], l, &b);
    release(&b);
    return status;
}

/* Without values results are zeros. Integers have to be, since the host may take them for indices, and memory has had
 * other uses. */
static void zero_integers(const struct neuron_program *p, const struct tcr_kernel_launch *l)
{
    for (int t = 0; t < p->ntensors && t < (int)l->nargs; t++)
        if (is_written(&p->tensors[t]) && (p->tensors[t].type == NEURON_I32 || p->tensors[t].type == NEURON_U32))
            memset(l->args[t], 0, (size_t)neuron_lib.neuron_tensor_bytes(&p->tensors[t]));
}

/* What the launch says of the sizes that only the run knows. Registers have 32 bits, and places in such tensors, too.
 */
static int set_sizes(struct neuron_kernel *k, const struct tcr_kernel_launch *l)
{
    struct neuron_program *p = k->program[0];
    int given = 0;
    while (given < p->nsizes && !p->size[given].made)
        given++;
    if (given != (p->nsizes ? (int)l->nsizes : 0))
        return neuron_bad_image("a program's sizes");
    for (int s = 0; s < given; s++) {
        k->is_known &= p->size[s].value == l->sizes[s];
        neuron_lib.neuron_set_size(p, s, l->sizes[s]);
    }
    for (int t = 0; t < p->ntensors; t++)
        if (p->tensors[t].nsizes && neuron_lib.neuron_tensor_bytes(&p->tensors[t]) > INT32_MAX)
            return tcr_fail(TCC_EENV,
                            "node '%s': a tensor of more than 2 GiB, of a size that was open when the model was "
                            "compiled: --dim fixes it",
                            l->node);
    return TCC_OK;
}

enum { ALONG = 48 }; /* numbers of a line of `checks` that say along what the indices lie: sizes and steps */

/* Is one of those integers, `bytes` wide, no index of an axis? n / 2 pairs of sizes and steps. */
static bool finds_bad(const char *at, int64_t bytes, const long long *along, int n, struct tcc_env *met)
{
    int64_t place[ALONG] = {0}, i = 0;

    for (int d = 0; d < n; d += 2)
        if (!along[d])
            return false;
    for (int d = 0; d >= 0;) {
        met->index = bytes == 8 ? ((const int64_t *)(const void *)at)[i] : ((const int32_t *)(const void *)at)[i];
        if (met->index < -met->extent || met->index >= met->extent)
            return true;
        for (d = n - 2; d >= 0; d -= 2) {
            i += along[d + 1];
            if (++place[d] < along[d])
                break;
            i -= along[d + 1] * place[d];
            place[d] = 0;
        }
    }
    return false;
}

/* "8*s0*s1", of numbers and of sizes of the launch; where it ends. */
static const char *product(const struct tcr_kernel_launch *l, const char *at, long long *value)
{
    char *end;

    *value = 1;
    for (;; at = end + 1) {
        bool size = *at == 's';
        long long x = strtoll(at + size, &end, 10);

        *value *= !size ? x : x >= 0 && x < (long long)l->nsizes ? l->sizes[x] : 0;
        if (*end != '*')
            return end;
    }
}

/* What a launch met: programs say of an index only that it is bad, so it is looked for in what they read, by the lines
 * of the step's `checks` (passes/plan/lower.c). Where it is none of those, and the others are one node's, it is that
 * one's; extent -1: which index is not known. */
static struct tcc_env met_by(const struct tcr_kernel_launch *l)
{
    struct tcc_env met = {.check = 0}, other = {.check = -1, .extent = -1};
    const char *unread = NULL;
    for (const char *line = l->checks, *end; (end = strchr(line, '\n')); line = end + 1, met.check++) {
        long long number[4 + ALONG]; /* argument, bytes, extent, the first one's place */
        int n = 0;
        const char *at = memchr(line, '\t', (size_t)(end - line));
        at = at ? memchr(at + 1, '\t', (size_t)(end - at - 1)) : NULL;
        for (; at && at < end && n < 4 + ALONG; n++)
            at = product(l, at + 1, &number[n]);
        if (n < 4 || number[0] >= l->nargs) {
            bool first = !unread, same = !first && !strncmp(unread, line, (size_t)(end - line) + 1);
            unread = first ? line : unread;
            other.check = first ? met.check : same ? other.check : -1;
            continue;
        }
        met.extent = number[2];
        if (finds_bad((const char *)l->args[number[0]] + number[1] * number[3], number[1], number + 4, n - 4, &met))
            return met;
    }
    return other;
}

int neuron_launch(struct tcr_device *d, int queue, const struct tcr_kernel_launch *l)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    struct neuron_counters counters;
    struct neuron_kernel *kernel = NULL;
    uint32_t arguments = 0;
    int status = n->fault ? TCC_OK : kernel_of(n, l, &kernel);

    if (status || n->fault)
        return status;
    if ((status = set_sizes(kernel, l)))
        return status;
    const struct neuron_program *p = kernel->program[0];
    for (int t = 0; t < p->ntensors; t++)
        arguments += p->tensors[t].use != NEURON_TEMP;
    arguments -= kernel->then != NULL;
    struct tcr_kernel_launch with = *l;
    void *args[NEURON_ARGUMENTS + 1];
    if (l->nargs <= NEURON_ARGUMENTS && has_environment(p, l->nargs)) {
        if (l->nargs)
            memcpy(args, l->args, l->nargs * sizeof *args);
        args[with.nargs++] = n->env;
        for (uint32_t s = 0; s < l->nsizes && s < NEURON_ENV_WORDS - NEURON_ENV_SIZES; s++)
            n->env[NEURON_ENV_SIZES + s] = (uint32_t)l->sizes[s];
        with.args = args;
    }
    if (arguments != with.nargs || with.nargs > NEURON_ARGUMENTS + 1)
        return neuron_bad_image("a program's tensors");
    d->counts.launches++;
    neuron_model_starts(n, queue);
    if (!n->config.values)
        zero_integers(p, &with);
    if (kernel->is_known && !n->traced) {
        neuron_model_launch(n, queue, &kernel->known);
        return TCC_OK;
    }
    n->trace.node = l->node;
    status = run(n, kernel, &with, &counters);
    if (status == TCC_EINDEX) { /* sync() tells */
        n->fault = l->node;
        n->checks = l->checks;
        n->met = met_by(l);
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
    for (int core = 0; core < NEURON_PAIR; core++) {
        if (n->core[core])
            neuron_lib.neuron_sim_free(n->core[core]);
        for (uint32_t k = 0; n->kernels && k < n->nkernels; k++)
            if (n->kernels[k].program[core])
                neuron_lib.neuron_program_free(n->kernels[k].program[core]);
    }
    for (uint32_t k = 0; n->kernels && k < n->nkernels; k++)
        if (n->kernels[k].then)
            neuron_lib.neuron_program_free(n->kernels[k].then);
    free(n->kernels);
}
