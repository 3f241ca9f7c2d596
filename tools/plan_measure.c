/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-plan --measure: the step of one process, compiled and timed on this machine, with one thread and with all, for the batch and an
 * eighth of it. Against the prediction, that gives a factor for computation, a time a microbatch that no figure explains, and a factor
 * for the update. The same step with microbatches then shows what a stage does for each of them besides.
 * Where the device is simulated (--target=neuron:...) its modelled times are taken, not this machine's.
 */
#include "tools/plan_tool_int.h"

#include <stdlib.h>
#include <string.h>

#define MICROS 4
#define GUESS 64 /* symbols that are not the batch, as the partitioner guesses them */

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
            t->in[i].dims[d] = v.dims[d] >= 0 ? v.dims[d] : d == 0 ? batch : GUESS;
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

/* The prediction for one rank that has `devices` devices. */
static bool predict(const struct planner *p, int devices, int64_t batch, int micros, struct plan_prediction *out)
{
    struct plan_cluster c = p->cluster;
    struct plan_layout l = {
        .partitions = 1, .copies = 1, .micros = micros, .kind = PIPELINE_INTERLEAVED, .chunks = 1, .batch = batch};
    const char *why;
    if (devices == 1)
        c.node_bandwidth = 0;
    c.nodes = 1;
    c.devices = devices;
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

static int measure_threads(struct planner *p, struct timed *t, int threads, int64_t batch, struct plan_measure *m)
{
    struct plan_prediction few, many;
    int64_t small = p->plan->fixed_batch > 0 || batch < 2 ? batch : batch / 8 ? batch / 8 : 1;
    int code = model_session(p->o, &t->m, threads, NULL);
    if (code != EXIT_FINE)
        return code;
    double update = time_entry(p->o, t, "apply", 1);
    double at_few = update < 0 ? -1 : time_entry(p->o, t, "step", small);
    double at_many = at_few < 0 ? -1 : small == batch ? at_few : time_entry(p->o, t, "step", batch);
    tccrt_session_free(t->m.session);
    t->m.session = NULL;
    if (at_many < 0)
        return EXIT_DATA;
    if (!predict(p, threads, small, 1, &few) || !predict(p, threads, batch, 1, &many))
        return tool_error(p->o, EXIT_BUG, "--measure: one rank cannot be planned");
    fit(m, at_few - update, at_many - update, few.pipeline, many.pipeline);
    m->update = many.update > 0 ? update / many.update : 1;
    if (!option_set(p->o, OPT_quiet))
        fprintf(
            stderr,
            "measured with %d thread%s: a step of %lld samples %.3f ms, of %lld %.3f ms, update %.3f ms; computation x "
            "%.3f, %.3f ms a microbatch, update x %.3f\n",
            threads, threads > 1 ? "s" : "", (long long)small, at_few * 1e3, (long long)batch, at_many * 1e3,
            update * 1e3, m->compute, m->call * 1e3, m->update);
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
    if (!predict(p, threads, batch, MICROS, &expected))
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

int plan_measure_step(struct planner *p, int64_t batch)
{
    static const enum option_id decided[] = {OPT_partitions, OPT_microbatches, OPT_stage_order,   OPT_active,
                                             OPT_optimize,   OPT_split_axis,   OPT_data_parallel, OPT_zero,
                                             OPT_bucket_cap, OPT_sync_bn,      OPT_placement};
    static const char *micros[] = {"4", NULL};
    struct options plain = *p->o;
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        plain.given[decided[i]].n = 0;
        plain.given[decided[i]].at = NULL;
    }
    plain.tool = TOOL_C; /* whose options --microbatches is one of */
    p->plan->measure = NULL;
    int code = measure_all(p, &plain, batch, measure_threads);
    if (code != EXIT_FINE)
        return code;
    p->plan->measure = p->measure;
    if (p->plan->micros == 1 || p->plan->fixed_batch > 0 || batch % MICROS)
        return EXIT_FINE;
    plain.given[OPT_microbatches].n = 1;
    plain.given[OPT_microbatches].at = micros;
    return measure_all(p, &plain, batch, measure_micros);
}
