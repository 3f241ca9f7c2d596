/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-neuron: NeuronCore programs. `run` runs one in the simulator with inputs from files and prints its results and
 * modelled time; `asm` and `disasm` turn text into the binary form and back, both checking every rule; `compile` has
 * several models compiled at once. Failed checks go to standard error.
 */
#include "sim/neuron/neuronsim.h"
#include "base/safe.h"
#include "tools/neuron/neuron_tool_int.h"
#include "tools/values/values_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct job {
    const struct options *o;
    struct neuron_program *p;
    struct neuron_sim *s;
    struct tcr_save save; /* of the trace */
    FILE *trace;
    double ticks_in_us;
    bool profiles;
    char error[ERROR_SIZE];
};

/* A core's type as ours; TCC_NONE: files hold it as f32. */
static enum tcc_dtype dtype_of(enum neuron_type t)
{
    static const enum tcc_dtype types[NEURON_NTYPES] = {
        [NEURON_U8] = TCC_U8,   [NEURON_I8] = TCC_I8,    [NEURON_U16] = TCC_U16, [NEURON_I16] = TCC_I16,
        [NEURON_U32] = TCC_U32, [NEURON_I32] = TCC_I32,  [NEURON_F16] = TCC_F16, [NEURON_BF16] = TCC_BF16,
        [NEURON_F32] = TCC_F32, [NEURON_TF32] = TCC_F32,
    };
    return types[t];
}

static bool is_binary_name(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".nbin") == 0;
}

static int load(struct job *j, const char *path)
{
    size_t size;
    unsigned char *bytes = file_read(path, &size, j->error);
    if (!bytes)
        return tool_error(j->o, EXIT_DATA, "%s", j->error);
    j->p = neuron_is_binary(bytes, size) ? neuron_decode(bytes, size, j->error)
                                         : neuron_assemble((const char *)bytes, size, j->error);
    free(bytes);
    return j->p ? EXIT_FINE : tool_error(j->o, EXIT_DATA, "%s: %s", path, j->error);
}

/* -- asm, disasm -- */

static int put_file(struct job *j, const char *path, const void *bytes, size_t size)
{
    struct tcr_save save = {.fd = -1};
    bool fine = !path || !tcr_save_open(&save, path, 0);

    if (path && fine && tcr_write_all(save.fd, bytes, size)) {
        tcr_save_drop(&save);
        fine = false;
    }
    fine = fine && (path ? !tcr_save_commit(&save) : fwrite(bytes, 1, size, stdout) == size && !fflush(stdout));
    return fine ? EXIT_FINE
                : tool_error(j->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path ? path : "standard output",
                             strerror(errno));
}

static int convert(struct job *j, bool binary)
{
    const char *path = option_text(j->o, OPT_output, NULL);
    size_t size = 0;
    if (binary && (!path || !is_binary_name(path)))
        return usage_error(j->o, "asm writes a file: -o FILE.nbin");
    int code = load(j, j->o->words[1]);
    if (code != EXIT_FINE)
        return code;
    char *out = binary ? (char *)neuron_encode(j->p, &size) : neuron_disassemble(j->p);
    if (!out)
        return tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
    code = put_file(j, path, out, binary ? size : strlen(out));
    free(out);
    return code;
}

/* -- Sizes that only the run knows -- */

static int sizes(struct job *j)
{
    bool said[NEURON_SIZES] = {false};
    for (int k = 0; k < j->o->given[OPT_dim].n; k++) {
        const char *given = j->o->given[OPT_dim].at[k], *equals = strchr(given, '=');
        int size = equals ? neuron_find_size(j->p, given, (size_t)(equals - given)) : -1;
        char *end = NULL;
        long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
        if (size < 0 || j->p->size[size].made || *end || value < 1 || value > INT32_MAX)
            return usage_error(j->o, "--dim=%s: expected NAME=N, a size of the program and a number above 0", given);
        neuron_set_size(j->p, size, value);
        said[size] = true;
    }
    for (int k = 0; k < j->p->nsizes; k++)
        if (!said[k] && !j->p->size[k].made)
            return usage_error(j->o, "no value for the size '%s' (--dim %s=N)", j->p->size[k].name, j->p->size[k].name);
    return EXIT_FINE;
}

/* -- Inputs -- */

static int wrong_input(struct job *j, const struct neuron_tensor *t, const char *path, const struct tcc_object *v)
{
    return tool_error(j->o, EXIT_DATA,
                      "%s: %s of %" PRId64 " elements: tensor %s takes %" PRId64 " of type %s (or f32)", path,
                      tcc_dtype_name((enum tcc_dtype)v->t.dtype), tcc_elements(v->t.rank, v->t.dims), t->name,
                      neuron_tensor_bytes(t) / neuron_type_bytes((enum neuron_type)t->type),
                      neuron_type_name((enum neuron_type)t->type));
}

/* Values of the tensor's own type, or float32, which is converted. */
static int give(struct job *j, int tensor, const char *path, const struct tcc_object *v)
{
    const struct neuron_tensor *t = &j->p->tensors[tensor];
    enum neuron_type type = (enum neuron_type)t->type;
    int bytes = neuron_type_bytes(type);
    int64_t n = neuron_tensor_bytes(t) / bytes;
    uint8_t element[4];
    bool fine = true;
    if (tcc_elements(v->t.rank, v->t.dims) != n || (v->t.dtype != (int)dtype_of(type) && v->t.dtype != TCC_F32))
        return wrong_input(j, t, path, v);
    if (v->t.dtype == (int)dtype_of(type))
        fine = neuron_sim_write(j->s, tensor, 0, v->t.data, n * bytes, j->error);
    for (int64_t k = 0; v->t.dtype != (int)dtype_of(type) && k < n && fine; k++) {
        neuron_from_float(type, ((const float *)v->t.data)[k], false, 0, element);
        fine = neuron_sim_write(j->s, tensor, k * bytes, element, bytes, j->error);
    }
    return fine ? EXIT_FINE : tool_error(j->o, EXIT_BUG, "%s", j->error);
}

static int read_input(struct job *j, const char *given)
{
    const char *equals = strchr(given, '=');
    int t = equals ? neuron_find_tensor(j->p, given, (size_t)(equals - given)) : -1;
    if (!equals)
        return usage_error(j->o, "--input=%s: expected NAME=FILE", given);
    if (t < 0)
        return usage_error(j->o, "--input=%s: the program has no tensor of that name", given);
    struct tcc_object *v = value_read(equals + 1, VALUE_TENSOR, NULL, j->error);
    if (!v)
        return tool_error(j->o, EXIT_DATA, "%s", j->error);
    int code = give(j, t, equals + 1, v);
    tccrt_object_unref(v);
    return code;
}

static int random_inputs(struct job *j, int64_t seed)
{
    for (int k = 0; k < j->p->ntensors; k++) {
        const struct neuron_tensor *t = &j->p->tensors[k];
        int bytes = neuron_type_bytes((enum neuron_type)t->type);
        int64_t n = neuron_tensor_bytes(t) / bytes;
        bool is_float = neuron_type_class((enum neuron_type)t->type) == 'f';
        if (t->use != NEURON_IN && t->use != NEURON_INOUT)
            continue;
        struct tcc_object *v =
            value_random(is_float ? TCC_F32 : (int)dtype_of((enum neuron_type)t->type), 1, &n, (uint64_t)seed, k);
        int code = v ? give(j, k, "--random", v) : tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
        tccrt_object_unref(v);
        if (code != EXIT_FINE)
            return code;
    }
    return EXIT_FINE;
}

static int inputs(struct job *j)
{
    int64_t seed = 0;
    int code = EXIT_FINE, n = j->o->given[OPT_input].n;
    if (option_set(j->o, OPT_random) && *option_text(j->o, OPT_random, "") &&
        !option_int(j->o, OPT_random, 0, INT64_MAX, &seed))
        return EXIT_USAGE;
    if (option_set(j->o, OPT_random))
        code = random_inputs(j, seed);
    for (int k = 0; k < n && code == EXIT_FINE; k++)
        code = read_input(j, j->o->given[OPT_input].at[k]);
    for (int k = 0; k < j->p->ntensors && code == EXIT_FINE; k++)
        if (j->p->tensors[k].use == NEURON_IN && !neuron_sim_initialised(j->s, k))
            code = usage_error(j->o, "no value for input '%s' (--input %s=FILE, or --random)", j->p->tensors[k].name,
                               j->p->tensors[k].name);
    return code;
}

/* -- Results -- */

static int show(struct job *j, int tensor, const char *dir)
{
    const struct neuron_tensor *t = &j->p->tensors[tensor];
    enum neuron_type type = (enum neuron_type)t->type;
    enum tcc_dtype dtype = dtype_of(type);
    int bytes = neuron_type_bytes(type);
    int64_t n = neuron_tensor_bytes(t) / bytes, dims[NEURON_RANK];
    memcpy(dims, t->dims, sizeof dims);
    dims[0] *= t->times;
    struct tcc_object *v = tccrt_object_tensor(dtype ? (int)dtype : TCC_F32, t->rank, dims), *wide = NULL;
    int code = EXIT_FINE;
    char path[4096];
    uint8_t element[4];
    if (!v)
        return tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
    bool fine = !dtype || neuron_sim_read(j->s, tensor, 0, v->t.data, n * bytes, j->error);
    for (int64_t k = 0; !dtype && k < n && fine; k++) {
        fine = neuron_sim_read(j->s, tensor, k * bytes, element, bytes, j->error);
        ((float *)v->t.data)[k] = neuron_to_float(type, element);
    }
    if (!fine)
        code = tool_error(j->o, EXIT_BUG, "%s", j->error);
    printf("%s: ", t->name);
    value_print(stdout, v);
    putchar('\n');
    if (dir && code == EXIT_FINE) {
        snprintf(path, sizeof path, "%s/%s.npy", dir, t->name);
        wide = npy_can(v) ? NULL : value_widened(&v->t);
        if (!npy_write(path, wide ? wide : v, j->error))
            code = tool_error(j->o, EXIT_ENVIRONMENT, "%s", j->error);
    }
    tccrt_object_unref(wide);
    tccrt_object_unref(v);
    return code;
}

static int results(struct job *j)
{
    const char *dir = option_text(j->o, OPT_output_dir, NULL);
    int code = EXIT_FINE;
    if (dir && mkdir(dir, 0777) != 0 && errno != EEXIST)
        return tool_error(j->o, EXIT_ENVIRONMENT, "cannot make '%s': %s", dir, strerror(errno));
    for (int k = 0; k < j->p->ntensors && code == EXIT_FINE; k++)
        if (j->p->tensors[k].use == NEURON_OUT || j->p->tensors[k].use == NEURON_INOUT)
            code = show(j, k, dir);
    return code;
}

static void print_counters(const struct job *j, const struct neuron_counters *n)
{
    double ticks = n->ticks ? (double)n->ticks : 1, us = n->seconds * 1e6;
    double hbm = (double)(n->hbm_read + n->hbm_written);
    printf("modelled on %s: %.3f us, %" PRIu64 " ticks of 1/%.1f ns\n", neuron_core_name(j->p->core), us, n->ticks,
           (double)n->ticks_in_10ns / 10);
    for (int e = 0; e < NEURON_NENGINES; e++)
        if (n->engine[e].instructions)
            printf("  %-7s %" PRIu64 " instructions, busy %.1f %%, waiting for semaphores %.1f %%\n",
                   neuron_engine_name((enum neuron_engine)e), n->engine[e].instructions,
                   100 * (double)n->engine[e].busy / ticks, 100 * (double)n->engine[e].waiting / ticks);
    if (n->dma_transfers)
        printf("  dma     %" PRIu64 " transfers, %" PRIu64 " rows, %" PRIu64
               " bytes, %.1f %% of the bytes that rows are paid for, engines busy %.1f %%\n",
               n->dma_transfers, n->dma_rows, n->dma_bytes, 100 * (double)n->dma_bytes / (double)n->dma_paid_bytes,
               100 * (double)n->dma_busy / (ticks * NEURON_DMA_ENGINES));
    printf("  hbm     %" PRIu64 " bytes read, %" PRIu64 " written, %.1f GB/s\n", n->hbm_read, n->hbm_written,
           us > 0 ? hbm / us / 1e3 : 0);
    if (n->flops > 0)
        printf("  products %.0f FLOP, %.2f TFLOP/s, %.1f %% of the peak for 16-bit types; %.1f FLOP a byte of HBM\n",
               n->flops, n->flops / us / 1e6, 100 * n->flops / n->peak_flops, hbm > 0 ? n->flops / hbm : 0);
}

static int print_reports(const struct job *j)
{
    const struct neuron_report *list;
    int n = neuron_sim_reports(j->s, &list);
    char text[NEURON_ERROR];
    for (int k = 0; k < n; k++) {
        neuron_report_text(&list[k], text, sizeof text);
        tool_error(j->o, EXIT_DATA, "%s: %s", j->o->words[1], text);
    }
    return n;
}

/* -- Chrome's trace format: a track for each engine and each ring -- */

static void trace_event(void *user, const struct neuron_event *e)
{
    struct job *j = user;
    char text[256];
    neuron_instr_text(j->p, e->instr, text, sizeof text);
    fprintf(j->trace,
            ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"name\":\"%s\",\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"line\":%d,"
            "\"waited_us\":%.4f,\"text\":\"%s\"}}",
            e->lane, neuron_op_row((enum neuron_op)e->instr->op)->name, (double)e->start / j->ticks_in_us,
            (double)(e->end - e->start) / j->ticks_in_us, e->instr->line, (double)e->waited / j->ticks_in_us, text);
}

static const char *trace_path(const struct job *j)
{
    return option_text(j->o, OPT_profile, j->profiles ? option_text(j->o, OPT_output, "profile.json") : "");
}

static int start_trace(struct job *j)
{
    const char *path = trace_path(j);
    if (!*path)
        return EXIT_FINE;
    if (tcr_save_open(&j->save, path, TCR_SAVE_STREAM))
        return tool_error(j->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    j->trace = j->save.stream;
    j->ticks_in_us = neuron_ticks_in_10ns(j->p->core) * 100.0;
    fprintf(
        j->trace,
        "{\"traceEvents\":[{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"NeuronCore %s\"}}",
        neuron_core_name(j->p->core));
    for (int k = 0; k < NEURON_NENGINES + NEURON_QUEUES; k++) {
        char name[32];
        snprintf(name, sizeof name, "queue %d", k - NEURON_NENGINES);
        fprintf(j->trace, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                k, k < NEURON_NENGINES ? neuron_engine_name((enum neuron_engine)k) : name);
    }
    neuron_sim_trace(j->s, trace_event, j);
    return EXIT_FINE;
}

static int end_trace(struct job *j)
{
    if (!j->trace)
        return EXIT_FINE;
    fprintf(j->trace, "\n]}\n");
    j->trace = NULL;
    return tcr_save_commit(&j->save)
               ? tool_error(j->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", trace_path(j), strerror(errno))
               : EXIT_FINE;
}

/* -- run -- */

static bool choice(const struct options *o, enum option_id id, const char *first, const char *second, bool *is_second)
{
    const char *given = option_text(o, id, first);
    *is_second = strcmp(given, second) == 0;
    if (*is_second || strcmp(given, first) == 0)
        return true;
    return usage_error(o, "--%s=%s: expected %s or %s", option_table[id].long_name, given, first, second), false;
}

/* The variables of the vendor's runtime, where no option says otherwise. */
static int rounding(const struct options *o, struct neuron_config *c)
{
    const char *on = getenv("NEURON_RT_STOCHASTIC_ROUNDING_EN"), *seed = getenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED");
    char *end = NULL;
    if (!option_set(o, OPT_nc_rounding))
        c->stochastic = on && strcmp(on, "1") == 0;
    if (on && *on && strcmp(on, "0") != 0 && strcmp(on, "1") != 0)
        return usage_error(o, "NEURON_RT_STOCHASTIC_ROUNDING_EN=%s: expected 0 or 1", on);
    if (seed && *seed)
        c->rounding_seed = strtoull(seed, &end, 0);
    return end && (*end || end == seed)
               ? usage_error(o, "NEURON_RT_STOCHASTIC_ROUNDING_SEED=%s: expected a number", seed)
               : EXIT_FINE;
}

static int simulate(struct job *j, const struct neuron_config *c)
{
    struct neuron_counters n;
    int code = c->values ? inputs(j) : EXIT_FINE;
    if (code == EXIT_FINE)
        code = start_trace(j);
    if (code != EXIT_FINE)
        return code;
    bool ran = neuron_sim_run(j->s, &n, j->error);
    code = end_trace(j);
    int failed = print_reports(j);
    if (!ran)
        return failed ? EXIT_DATA : tool_error(j->o, EXIT_ENVIRONMENT, "%s", j->error);
    if (code == EXIT_FINE && c->values)
        code = results(j);
    if (option_set(j->o, OPT_sim_counters) || j->profiles || !c->values)
        print_counters(j, &n);
    return code == EXIT_FINE && failed ? EXIT_DATA : code;
}

/* profile: time alone unless inputs are given, with a trace and what was counted. */
static int run_program(struct job *j, bool profile)
{
    const struct options *o = j->o;
    struct neuron_config c = {0};
    int64_t seed = 0, limit = 0;
    bool time = false, unchecked = false;
    if (!choice(o, OPT_nc_sim, "full", "time", &time) || !choice(o, OPT_sim_check, "all", "none", &unchecked) ||
        !choice(o, OPT_nc_rounding, "nearest", "stochastic", &c.stochastic) ||
        !option_int(o, OPT_sim_seed, 0, INT64_MAX, &seed) || !option_int(o, OPT_sim_limit, 1, INT64_MAX, &limit))
        return EXIT_USAGE;
    if (time && (option_set(o, OPT_input) || option_set(o, OPT_random) || option_set(o, OPT_output_dir)))
        return usage_error(o, "--sim=time has no values: no --input, --random or --output-dir");
    if (profile)
        time = !option_set(o, OPT_input) && !option_set(o, OPT_random) && !option_set(o, OPT_nc_sim);
    j->profiles = profile;
    c.values = !time;
    c.checks = !unchecked;
    c.seed = (uint64_t)seed;
    c.limit = (uint64_t)limit;
    int code = rounding(o, &c);
    if (code == EXIT_FINE)
        code = load(j, o->words[1]);
    if (code == EXIT_FINE)
        code = sizes(j);
    if (code != EXIT_FINE)
        return code;
    if (!(j->s = neuron_sim_new(j->p, &c, j->error)))
        return tool_error(o, EXIT_ENVIRONMENT, "%s", j->error);
    return simulate(j, &c);
}

static int run(struct options *o)
{
    static const char *const commands[] = {"run", "asm", "disasm", "profile", "compile", "ls", "top", "monitor"};
    enum { RUN, ASM, DISASM, PROFILE, COMPILE, LS, NCOMMANDS = 8 };
    struct job j = {.o = o};
    int k = 0, code;
    while (o->nwords && k < NCOMMANDS && strcmp(o->words[0], commands[k]) != 0)
        k++;
    if (!o->nwords || k == NCOMMANDS)
        return usage_error(o,
                           o->nwords
                               ? "unknown command '%s': expected run, asm, disasm, profile, compile, ls, top or monitor"
                               : "no command given",
                           o->nwords ? o->words[0] : "");
    if (k >= LS)
        return o->nwords > 1 ? usage_error(o, "%s takes no file", commands[k]) : neuron_cores(o, commands[k]);
    if (o->nwords != 2)
        return usage_error(o, o->nwords > 2 ? "more than one file" : "no file given");
    if (k == COMPILE)
        return neuron_compile(o, o->words[1]);
    code = k == RUN || k == PROFILE ? run_program(&j, k == PROFILE) : convert(&j, k == ASM);
    neuron_sim_free(j.s);
    neuron_program_free(j.p);
    return code;
}

int main(int argc, char **argv)
{
    return options_run(TOOL_N, argc, argv, run);
}
