/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-plan --measure: the step of one process, compiled and timed on this machine, with one thread and with all, for
 * the batch and an eighth of it. Against the prediction, that gives a factor for computation, a time a microbatch that
 * no figure explains, and a factor for the update. The same step with microbatches then shows what a stage does for
 * each of them besides. Where the device is simulated (--device=sim, --sim) its modelled times are taken, not this
 * machine's; and a step in parts of tensors is measured as well, for each number of parts, by as many processes: its
 * kernels are smaller, which no factor of whole ones tells.
 */
#include "tools/plan/plan_tool_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MICROS 4
#define MOST_PARTS 8 /* that are measured */

struct timed {
    struct model m;
    const char *entry;
    int nin, nout;
    struct tcc_tensor *in, *out;
};

static bool run_entry(void *arg)
{
    struct timed *t = arg;
    memset(t->out, 0, (size_t)t->nout * sizeof *t->out);
    return tccrt_run(t->m.session, t->entry, t->nin, t->in, t->nout, t->out) == TCC_OK;
}

/* Zeros for whole numbers (ids, labels), something that varies for floats. */
static bool fill(struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims);
    if (n < 0)
        return false;
    t->data = calloc((size_t)n + 1, (size_t)tcc_dtype_bytes((enum tcc_dtype)t->dtype));
    for (int64_t i = 0; t->data && t->dtype == TCC_F32 && i < n; i++)
        ((float *)t->data)[i] = (float)(i * 7 % 101) / 101;
    return t->data != NULL;
}

static bool set_inputs(struct timed *t, const char *entry, int64_t batch)
{
    t->entry = entry;
    t->nin = tccrt_ninputs(t->m.artifact, entry);
    t->nout = tccrt_noutputs(t->m.artifact, entry);
    if (t->nin < 0 || t->nout < 0)
        return false;
    t->in = calloc((size_t)t->nin + 1, sizeof *t->in);
    t->out = calloc((size_t)t->nout + 1, sizeof *t->out);
    for (int i = 0; t->in && t->out && i < t->nin; i++) {
        struct tccrt_value_info v;
        if (tccrt_input(t->m.artifact, entry, i, &v) || v.rank < 0)
            return false;
        t->in[i] = (struct tcc_tensor){NULL, v.dtype, v.rank, {0}};
        for (int d = 0; d < v.rank; d++)
            t->in[i].dims[d] = v.dims[d] >= 0 ? v.dims[d] : d == 0 ? batch : PLAN_GUESS;
        if (!fill(&t->in[i]))
            return false;
    }
    return t->in && t->out;
}

static void free_inputs(struct timed *t)
{
    for (int i = 0; t->in && i < t->nin; i++)
        free(t->in[i].data);
    free(t->in);
    free(t->out);
    t->in = t->out = NULL;
}

/* On a device that models time: that of the second run, which is like all others; `otherwise` where it models none. */
static double modelled(struct timed *t, double (*otherwise)(void *arg, bool (*run)(void *arg)))
{
    struct tccrt_sim before, after;

    if (tccrt_simulated(t->m.session, &before) != TCC_OK)
        return otherwise(t, run_entry);
    if (!run_entry(t) || tccrt_simulated(t->m.session, &before) != TCC_OK || !run_entry(t) ||
        tccrt_simulated(t->m.session, &after) != TCC_OK)
        return -1;
    return after.seconds - before.seconds;
}

/* Seconds of an entry point; < 0 after a message. */
static double time_entry(const struct options *o, struct timed *t, const char *entry, int64_t batch)
{
    double seconds = set_inputs(t, entry, batch) ? modelled(t, plan_time) : -1;
    if (seconds < 0)
        tool_error(o, EXIT_DATA, "--measure: '%s' of a batch of %lld: %s", entry, (long long)batch, tccrt_error());
    free_inputs(t);
    return seconds;
}

/* The prediction for a rank that has `devices` devices, of as many as there are parts. */
static bool predict(const struct planner *p, const struct plan_layout *of, int devices, int64_t batch,
                    struct plan_prediction *out)
{
    struct plan_cluster c = p->cluster;
    struct plan_layout l = *of;
    const char *why;
    l.partitions = l.copies = l.chunks = 1;
    l.kind = PIPELINE_INTERLEAVED;
    l.batch = batch;
    if (devices == 1)
        c.node_bandwidth = 0;
    c.nodes = 1;
    c.devices = devices * l.parts;
    return plan_predict(p->plan, &c, &l, out, &why);
}

/* A straight line through two times. */
static void fit(struct plan_measure *m, double few, double many, double expected_few, double expected_many)
{
    m->compute = expected_many > expected_few ? (many - few) / (expected_many - expected_few) : 0;
    m->call = few - m->compute * expected_few;
    if (m->compute <= 0 || m->call < 0) {
        m->compute = many / expected_many;
        m->call = 0;
    }
}

/* Seconds of an update, of a step of few samples, of one of many. */
struct seconds {
    double update, few, many;
};

static int64_t few_of(const struct planner *p, int64_t batch)
{
    return p->plan->fixed_batch > 0 || batch < 2 ? batch : batch / 8 ? batch / 8 : 1;
}

static bool time_step(const struct planner *p, struct timed *t, int64_t batch, struct seconds *s)
{
    s->update = time_entry(p->o, t, "apply", 1);
    s->few = s->update < 0 ? -1 : time_entry(p->o, t, "step", few_of(p, batch));
    s->many = s->few < 0 ? -1 : few_of(p, batch) == batch ? s->few : time_entry(p->o, t, "step", batch);
    return s->many >= 0;
}

/* What parts exchange is the links', not the computation's. */
static bool fit_step(const struct planner *p, const struct plan_layout *l, int threads, int64_t batch,
                     const struct seconds *s, struct plan_measure *m)
{
    struct plan_prediction few, many;
    if (!predict(p, l, threads, few_of(p, batch), &few) || !predict(p, l, threads, batch, &many))
        return tool_error(p->o, EXIT_BUG, "--measure: one rank cannot be planned"), false;
    fit(m, s->few - s->update - few.parts, s->many - s->update - many.parts, few.pipeline - few.parts,
        many.pipeline - many.parts);
    m->update = many.update > 0 ? s->update / many.update : 1;
    return true;
}

static void tell(const struct planner *p, const char *how, int64_t batch, const struct seconds *s,
                 const struct plan_measure *m)
{
    if (!option_set(p->o, OPT_quiet))
        fprintf(stderr,
                "measured with %s: a step of %lld samples %.3f ms, of %lld %.3f ms, update %.3f ms; computation x "
                "%.3f, %.3f ms a microbatch, update x %.3f\n",
                how, (long long)few_of(p, batch), s->few * 1e3, (long long)batch, s->many * 1e3, s->update * 1e3,
                m->compute, m->call * 1e3, m->update);
}

static int measure_threads(struct planner *p, struct timed *t, int threads, int64_t batch, struct plan_measure *m)
{
    struct seconds s;
    int code = model_session(p->o, &t->m, threads, NULL);
    if (code != EXIT_FINE)
        return code;
    bool ok = time_step(p, t, batch, &s);
    tccrt_session_free(t->m.session);
    t->m.session = NULL;
    if (!ok)
        return EXIT_DATA;
    if (!fit_step(p, &(struct plan_layout){.parts = 1, .micros = 1}, threads, batch, &s, m))
        return EXIT_BUG;
    char how[32];
    snprintf(how, sizeof how, "%d thread%s", threads, threads > 1 ? "s" : "");
    tell(p, how, batch, &s, m);
    return EXIT_FINE;
}

/* A stage's work for microbatches, in one process: what is not explained by that of whole batches. */
static int measure_micros(struct planner *p, struct timed *t, int threads, int64_t batch, struct plan_measure *m)
{
    struct plan_prediction expected;
    int code = model_session(p->o, &t->m, threads, NULL);
    double seconds = code == EXIT_FINE ? time_entry(p->o, t, "step", batch) : -1;
    tccrt_session_free(t->m.session);
    t->m.session = NULL;
    if (code != EXIT_FINE || seconds < 0)
        return code != EXIT_FINE ? code : EXIT_DATA;
    p->plan->measure = p->measure;
    if (!predict(p, &(struct plan_layout){.parts = 1, .micros = MICROS}, threads, batch, &expected))
        return tool_error(p->o, EXIT_BUG, "--measure: one rank cannot be planned");
    m->task = (seconds - expected.step) / MICROS;
    m->task = m->task > 0 ? m->task : 0;
    if (!option_set(p->o, OPT_quiet))
        fprintf(stderr,
                "measured with %d thread%s: a step of %lld samples in %d microbatches %.3f ms; %.3f ms a microbatch "
                "and stage\n",
                threads, threads > 1 ? "s" : "", (long long)batch, MICROS, seconds * 1e3, m->task * 1e3);
    return EXIT_FINE;
}

static int measure_all(struct planner *p, const struct options *plain, int64_t batch,
                       int (*each)(struct planner *p, struct timed *t, int threads, int64_t batch,
                                   struct plan_measure *m))
{
    struct timed t = {0};
    int code = model_open(plain, p->model, &t.m, NULL), devices = p->cluster.devices;
    bool several = p->cluster.divided && devices > 1;
    if (code != EXIT_FINE)
        return code;
    code = each(p, &t, 1, batch, &p->measure[0]);
    if (!several)
        p->measure[1] = p->measure[0];
    else if (code == EXIT_FINE)
        code = each(p, &t, devices, batch, &p->measure[1]);
    model_close(&t.m);
    return code;
}

/* -- Parts of tensors, in the simulator ------------------------------------------------------------------------- */

/* A rank, in a process of its own; the first writes what it has measured. */
static int be_rank(const struct planner *p, struct timed *t, int rank, int64_t batch, int out)
{
    struct tccrt_comm *world = NULL;
    struct seconds s;
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    t->m.tensor = rank + 1;
    int code = model_world(p->o, false, &world);
    if (code == EXIT_FINE)
        code = model_session(p->o, &t->m, 1, NULL);
    if (code == EXIT_FINE && tccrt_session_group(t->m.session, "tp", world) != TCC_OK)
        code = tool_error(p->o, EXIT_ENVIRONMENT, "--measure: %s", tccrt_error());
    if (code == EXIT_FINE && !time_step(p, t, batch, &s))
        code = EXIT_DATA;
    if (code == EXIT_FINE && rank == 0 && write(out, &s, sizeof s) != (ssize_t)sizeof s)
        code = EXIT_ENVIRONMENT;
    tccrt_session_free(t->m.session);
    if (world)
        tccrt_comm_finalize(world, code == EXIT_FINE ? NULL : "--measure failed");
    return code;
}

static int run_ranks(const struct planner *p, struct timed *t, int parts, int64_t batch, struct seconds *s)
{
    int pipes[2], code = EXIT_FINE;
    char number[16];
    if (pipe(pipes))
        return tool_error(p->o, EXIT_ENVIRONMENT, "--measure: %m");
    snprintf(number, sizeof number, "%d", parts);
    setenv("WORLD_SIZE", number, 1);
    setenv("LOCAL_WORLD_SIZE", number, 1);
    setenv("TCCC_SIM_DEVICES", number, 1);
    setenv("TCCC_COMM", "sim+nccl", 0);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    snprintf(number, sizeof number, "%d", 20000 + (int)getpid() % 10000);
    setenv("MASTER_PORT", number, 1);
    fflush(NULL);
    for (int r = 0; r < parts; r++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_rank(p, t, r, batch, pipes[1]));
        if (child < 0)
            code = tool_error(p->o, EXIT_ENVIRONMENT, "--measure: %m");
    }
    close(pipes[1]);
    if (read(pipes[0], s, sizeof *s) != (ssize_t)sizeof *s)
        code = EXIT_ENVIRONMENT;
    close(pipes[0]);
    for (int status; wait(&status) > 0;)
        if (code == EXIT_FINE && status)
            code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BUG;
    return code;
}

/* Of one division: the step of one stage, whole batches. */
static int measure_part(struct planner *p, const struct options *plain, const struct plan_part *part, int64_t batch)
{
    struct options o = *plain;
    struct timed t = {0};
    struct seconds s;
    const char *parts[] = {ir_internf(p->ctx, "%d", part->parts), NULL}, *yes[] = {"", NULL};
    o.given[plan_divides[part->how].option].n = 1;
    o.given[plan_divides[part->how].option].at = parts;
    o.given[OPT_sequence_parallel].n = part->how == TENSOR_SEQUENCE;
    o.given[OPT_sequence_parallel].at = yes;
    int code = model_open(&o, p->model, &t.m, NULL);
    if (code == EXIT_FINE)
        code = run_ranks(p, &t, part->parts, batch, &s);
    if (code == EXIT_FINE) {
        struct plan_measure *m = IR_NEWN(p->ctx, 2, struct plan_measure);
        struct plan_layout l = {.parts = part->parts, .how = part->how, .micros = 1};
        code = fit_step(p, &l, 1, batch, &s, m) ? EXIT_FINE : EXIT_BUG;
        m[1] = m[0];
        plan_set_measure(p->plan, part->parts, part->how, m);
        tell(p, ir_internf(p->ctx, "%d parts%s", part->parts, plan_divides[part->how].told), batch, &s, m);
    }
    model_close(&t.m);
    return code;
}

/* An update as it is with --zero, of all parameters: each asks who owns it. */
static int measure_owned(struct planner *p, const struct options *plain, int64_t batch)
{
    struct options o = *plain;
    struct timed t = {0};
    struct plan_prediction all;
    const char *one[] = {"1", NULL}, *yes[] = {"", NULL};
    o.given[OPT_data_parallel].n = o.given[OPT_zero].n = 1;
    o.given[OPT_data_parallel].at = yes;
    o.given[OPT_zero].at = one;
    int code = model_open(&o, p->model, &t.m, NULL);
    code = code == EXIT_FINE ? model_session(p->o, &t.m, 1, NULL) : code;
    double seconds = code == EXIT_FINE ? time_entry(p->o, &t, "apply", 1) : -1;
    model_close(&t.m);
    if (code != EXIT_FINE || seconds < 0)
        return code != EXIT_FINE ? code : EXIT_DATA;
    p->plan->measure = NULL;
    bool ok = predict(p, &(struct plan_layout){.parts = 1, .micros = 1}, 1, batch, &all) && all.update > 0;
    p->plan->measure = p->measure;
    for (struct plan_part *part = p->plan->parts; part; part = part->next) {
        struct plan_measure *m = part->measure ? part->measure : p->measure;
        for (int i = 0; i < 2 && ok; i++)
            m[i].owned = seconds / all.update * p->plan->trained / part->trained; /* as many parameters, if smaller */
    }
    if (!option_set(p->o, OPT_quiet))
        fprintf(stderr, "measured with --zero: update of all parameters %.3f ms\n", seconds * 1e3);
    return EXIT_FINE;
}

static bool is_simulated(const struct options *o)
{
    return option_set(o, OPT_nc_sim) || !strcmp(option_text(o, OPT_device, ""), "sim");
}

/* As many parts as are measured, and as the layouts of `ranks` may have. */
static int measure_parts(struct planner *p, const struct options *plain, const struct plan_search *wanted, int ranks,
                         int64_t batch)
{
    int code = EXIT_FINE;
    for (int t = 2; t <= MOST_PARTS && t <= ranks && code == EXIT_FINE; t++)
        for (int how = 0; how <= TENSOR_EXPERTS && code == EXIT_FINE; how++) {
            bool asked = ranks % t == 0 && (!wanted->parts || wanted->parts == t) &&
                         (wanted->how < 0 ? how <= TENSOR_SEQUENCE : how == wanted->how);
            const struct plan_part *part = asked ? plan_part(p->plan, t, (enum tensor_how)how) : NULL;
            if (part && !part->why && !part->measure)
                code = measure_part(p, plain, part, batch);
        }
    return code;
}

int plan_measure_step(struct planner *p, const struct plan_search *wanted, int ranks, int64_t batch)
{
    static const enum option_id decided[] = {
        OPT_partitions,        OPT_microbatches, OPT_stage_order,      OPT_active,
        OPT_optimize,          OPT_split_axis,   OPT_data_parallel,    OPT_zero,
        OPT_bucket_cap,        OPT_sync_bn,      OPT_placement,        OPT_tensor_parallel,
        OPT_sequence_parallel, OPT_offload,      OPT_context_parallel, OPT_expert_parallel};
    static const char *micros[] = {"4", NULL};
    struct options plain = *p->o;
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        plain.given[decided[i]].n = 0;
        plain.given[decided[i]].at = NULL;
    }
    plain.tool = TOOL_C; /* whose options --microbatches is one of */
    p->plan->measure = NULL;
    int code = is_simulated(p->o) ? measure_parts(p, &plain, wanted, ranks, batch) : EXIT_FINE;
    if (code == EXIT_FINE)
        code = measure_all(p, &plain, batch, measure_threads);
    if (code != EXIT_FINE)
        return code;
    p->plan->measure = p->measure;
    if (is_simulated(p->o) && ranks > 1 && wanted->zero && (code = measure_owned(p, &plain, batch)) != EXIT_FINE)
        return code;
    if (p->plan->micros == 1 || p->plan->fixed_batch > 0 || batch % MICROS)
        return EXIT_FINE;
    plain.given[OPT_microbatches].n = 1;
    plain.given[OPT_microbatches].at = micros;
    return measure_all(p, &plain, batch, measure_micros);
}
