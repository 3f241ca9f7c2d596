/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modelled time of a session. The core has a clock, and so has the link to the host, in each direction; work begins
 * when what it runs on is free, what came before it in its queue has ended, and no earlier than the host could give it:
 * after what the host last waited for. Launches and copies within HBM stand one behind the other on the core's clock.
 * Events carry the time of their queue. So inputs that are sent ahead are under way while the core still computes. Work
 * of the host's takes no modelled time. A trace holds the events of the last run, or of those that were given one
 * behind the other: a row for each engine and DMA queue, and one for copies.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "runtime/device/neuron/neuron_int.h"
#include "base/safe.h"

#define MAX_MARKS ((size_t)1 << 20) /* of a run with many instructions only the first are kept */

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double *ready(struct tcr_neuron *n, int queue)
{
    return &n->ready[(unsigned)queue % NEURON_WAITED];
}

/* When all that was given has ended. */
static double end_of_all(const struct tcr_neuron *n)
{
    double t = later(later(n->now, n->host), later(n->link[0], n->link[1]));

    for (int q = 0; q < NEURON_WAITED; q++)
        t = later(t, n->ready[q]);
    return t;
}

static void forget(struct neuron_trace *t, size_t gone)
{
    if (gone)
        memmove(t->list, t->list + gone, (t->n - gone) * sizeof *t->list);
    t->n -= gone;
    for (int k = 0; k < TCR_RUNS; k++)
        t->starts[k] = t->starts[k] > gone ? t->starts[k] - gone : 0;
}

/* What a trace has of runs that were waited for is forgotten; copies that went ahead of this one are its. */
void neuron_model_begin(struct tcr_neuron *n, const struct tcr_control *c)
{
    struct neuron_trace *t = &n->trace;

    forget(t, !c->behind ? t->n : c->ahead ? t->starts[(t->runs - (unsigned)c->ahead) % TCR_RUNS] : t->kept);
    t->kept = 0;
    t->starts[t->runs++ % TCR_RUNS] = c->ahead ? t->n : 0;
    t->begin = t->n ? t->list[0].start : end_of_all(n);
}

int neuron_model_reserve(struct tcr_neuron *n, int queues, uint32_t events)
{
    if (queues > NEURON_WAITED)
        return tcr_fail(TCC_EENV, "device 'neuron' has %d queues, expected %d", NEURON_WAITED, queues);
    return RESERVED(n->events, n->nevents, events) ? TCC_OK : tcr_fail(TCC_EENV, "no memory for %u events", events);
}

void neuron_model_free(struct tcr_neuron *n)
{
    free(n->timed);
    free(n->trace.list);
    free(n->events);
}

int neuron_record(struct tcr_device *d, int queue, uint32_t event)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    if (event < n->nevents)
        n->events[event] = *ready(n, queue);
    return TCC_OK;
}

int neuron_wait(struct tcr_device *d, int queue, uint32_t event)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    if (event < n->nevents)
        *ready(n, queue) = later(*ready(n, queue), n->events[event]);
    return TCC_OK;
}

void neuron_model_sync(struct tcr_neuron *n, uint32_t event)
{
    n->host = later(n->host, event == TCR_ALL ? end_of_all(n) : event < n->nevents ? n->events[event] : 0);
    if (event == TCR_ALL)
        n->trace.kept = n->trace.n;
}

/* When work in the queue begins that needs what is busy until `free`. */
static double begins(struct tcr_neuron *n, int queue, double free)
{
    return later(later(free, n->host), *ready(n, queue));
}

void neuron_model_starts(struct tcr_neuron *n, int queue)
{
    n->now = begins(n, queue, n->now);
}

static double ns(const struct neuron_counters *c, uint64_t ticks)
{
    return c->ticks_in_10ns ? 10.0 * (double)ticks / (double)c->ticks_in_10ns : 0;
}

void neuron_count(struct neuron_counters *s, const struct neuron_counters *c)
{
    s->ticks += c->ticks;
    s->ticks_in_10ns = c->ticks_in_10ns;
    s->seconds += c->seconds;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        s->engine[e].instructions += c->engine[e].instructions;
        s->engine[e].busy += c->engine[e].busy;
        s->engine[e].waiting += c->engine[e].waiting;
    }
    s->dma_transfers += c->dma_transfers;
    s->dma_rows += c->dma_rows;
    s->dma_bytes += c->dma_bytes;
    s->dma_paid_bytes += c->dma_paid_bytes;
    s->dma_busy += c->dma_busy;
    s->hbm_read += c->hbm_read;
    s->hbm_written += c->hbm_written;
    s->flops += c->flops;
    s->peak_flops += c->peak_flops;
}

/* For a profile, where one is kept; without memory for it the piece of work has no time there. */
static void keep_time(struct tcr_neuron *n, const struct tcr_timed *t)
{
    if (n->device.timing && GROWN(n->timed, n->ntimed, n->timed_room, 64))
        n->timed[n->ntimed++] = *t;
}

int neuron_timed(struct tcr_device *d, const struct tcr_timed **list, size_t *count)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    *list = n->timed;
    *count = n->ntimed;
    n->ntimed = 0;
    tcr_times_from_first(n->timed, *count);
    return TCC_OK;
}

/* What was busy the longest: an engine, or those of DMA, whose time is counted together. */
static const char *bound_of(const struct neuron_counters *c)
{
    const char *name = "DMA";
    uint64_t most = c->dma_busy / NEURON_DMA_ENGINES;

    for (int e = 0; e < NEURON_NENGINES; e++)
        if (c->engine[e].busy > most) {
            most = c->engine[e].busy;
            name = neuron_lib.neuron_engine_name((enum neuron_engine)e);
        }
    return name;
}

void neuron_model_launch(struct tcr_neuron *n, int queue, const struct neuron_counters *c)
{
    double start = n->now;

    neuron_count(&n->sum, c);
    n->now += ns(c, c->ticks);
    keep_time(n, &(struct tcr_timed){.tag = n->device.tag,
                                     .queue = queue,
                                     .kind = TCR_TIMED_LAUNCH,
                                     .start = start,
                                     .end = n->now,
                                     .bound = bound_of(c)});
    *ready(n, queue) = n->now;
    for (int k = 0; k < n->lnc && n->record[k];
         k++) { /* of all sessions together; another thread's may be a little late */
        n->record[k]->launches++;
        n->record[k]->seconds += ns(c, c->ticks) / 1e9;
        for (int e = 0; e < NEURON_NENGINES; e++)
            n->record[k]->busy[e] += ns(c, c->engine[e].busy) / 1e9;
        n->record[k]->held = (int64_t)n->device.held;
    }
}

/* -- Trace -------------------------------------------------------------------------------------------- */

static void add_mark(struct neuron_trace *t, const struct neuron_mark *m)
{
    if (t->n < t->room || (t->room < MAX_MARKS && GROWN(t->list, t->n, t->room, 1024)))
        t->list[t->n++] = *m;
}

void neuron_model_event(void *user, const struct neuron_event *e)
{
    struct tcr_neuron *n = user;
    struct neuron_counters scale = {.ticks_in_10ns = neuron_lib.neuron_ticks_in_10ns(n->trace.program->core)};

    add_mark(&n->trace, &(struct neuron_mark){.start = n->now + ns(&scale, n->trace.behind + e->start),
                                              .end = n->now + ns(&scale, n->trace.behind + e->end),
                                              .waited = ns(&scale, e->waited),
                                              .program = n->trace.program,
                                              .instr = e->instr,
                                              .node = n->trace.node,
                                              .lane = e->lane,
                                              .core = n->trace.core});
}

void neuron_model_copy(struct tcr_neuron *n, int queue, int64_t bytes, enum tcr_copy_kind kind, const char *node)
{
    double *clock = kind == TCR_WITHIN ? &n->now : &n->link[kind == TCR_TO_HOST], start, took;

    if (!bytes || neuron_first_kind(n) || !n->has_kind)
        return;
    took = neuron_lib.neuron_copy_ns(n->kind, bytes, kind != TCR_WITHIN);
    start = begins(n, queue, *clock);
    *clock = *ready(n, queue) = start + took;
    keep_time(n, &(struct tcr_timed){.tag = n->device.tag,
                                     .queue = queue,
                                     .kind = TCR_TIMED_COPY,
                                     .bytes = (size_t)bytes,
                                     .start = start,
                                     .end = start + took});
    if (n->traced)
        add_mark(
            &n->trace,
            &(struct neuron_mark){
                .start = start, .end = start + took, .node = node ? node : "", .bytes = bytes, .lane = NEURON_COPIES});
    n->copies++;
    n->copy_bytes += bytes;
    n->copy_ns += took;
}

/* -- Communication ------------------------------------------------------------------------------------ */

double neuron_clock(struct tcr_device *d)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;

    return begins(n, 0, n->now);
}

static enum neuron_collective_kind kind_of(enum tcc_collective kind)
{
    switch (kind) {
    case TCC_ALL_GATHER:
    case TCC_BROADCAST_FROM_OWNER: return NEURON_ALL_GATHER;
    case TCC_REDUCE_SCATTER:
    case TCC_REDUCE:
    case TCC_REDUCE_OWNED: return NEURON_REDUCE_SCATTER;
    case TCC_ALL_TO_ALL: return NEURON_ALL_TO_ALL;
    case TCC_BROADCAST: return NEURON_BROADCAST;
    case TCC_BARRIER: return NEURON_BARRIER;
    default: return NEURON_ALL_REDUCE;
    }
}

/* Collectives of one queue follow each other; the chip's sequencers run them beside the engines. */
void neuron_begin_collective(struct tcr_device *d, int queue, enum tcc_collective kind, int ranks, int64_t bytes,
                             double start, const char *node)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    struct neuron_collective c = {kind_of(kind), NEURON_AUTO, ranks, bytes};
    double *end = &n->ends[queue % NEURON_WAITED], took;

    if (neuron_first_kind(n) || !n->has_kind)
        return;
    took = neuron_lib.neuron_collective_ns(n->kind, n->lnc, &c);
    start = *end > start ? *end : start;
    *end = start + took;
    n->collectives++;
    n->collective_bytes += bytes;
    n->collective_ns += took;
    if (n->traced && took > 0)
        add_mark(
            &n->trace,
            &(struct neuron_mark){
                .start = start, .end = *end, .node = node ? node : "", .bytes = bytes, .lane = NEURON_COLLECTIVES});
}

void neuron_collected(struct tcr_device *d, int queue)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    double end = n->ends[queue % NEURON_WAITED], now = begins(n, 0, n->now);

    *ready(n, queue) = later(*ready(n, queue), end);
    if (end <= now)
        return;
    n->exposed_ns += end - now;
    n->now = n->ready[0] = end;
}

/* A message takes what a broadcast among two does. What the core stands still for counts as exposed. */
void neuron_reached(struct tcr_device *d, double sent, int64_t bytes, const char *node)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    struct neuron_collective c = {NEURON_BROADCAST, NEURON_AUTO, 2, bytes};
    double now = begins(n, 0, n->now), took;

    if (neuron_first_kind(n) || !n->has_kind)
        return;
    took = bytes > 0 ? neuron_lib.neuron_collective_ns(n->kind, n->lnc, &c) : 0;
    if (bytes > 0) {
        n->collectives++;
        n->collective_bytes += bytes;
        n->collective_ns += took;
        if (n->traced)
            add_mark(&n->trace,
                     &(struct neuron_mark){
                         .start = sent, .end = sent + took, .node = node, .bytes = bytes, .lane = NEURON_COLLECTIVES});
    }
    if (sent + took > now)
        n->exposed_ns += sent + took - now;
    n->host = later(n->host, sent + took);
}

static void put_mark(FILE *f, const struct neuron_mark *m, double begin)
{
    char text[256];

    fprintf(f, ",\n{\"name\":");
    if (m->instr)
        tcr_print_json(f, neuron_lib.neuron_op_row((enum neuron_op)m->instr->op)->name);
    else
        fputs(m->lane == NEURON_COPIES ? "\"copy\"" : "\"collective\"", f);
    fprintf(f, ",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"node\":", 1000 + m->core,
            m->lane, (m->start - begin) / 1e3, (m->end - m->start) / 1e3);
    tcr_print_json(f, m->node);
    if (m->instr) {
        neuron_lib.neuron_instr_text(m->program, m->instr, text, sizeof text);
        fprintf(f, ",\"waited_us\":%.4f,\"text\":", m->waited / 1e3);
        tcr_print_json(f, text);
    } else {
        fprintf(f, ",\"bytes\":%lld", (long long)m->bytes);
    }
    fputs("}}", f);
}

void neuron_put_trace(struct tcr_device *d, FILE *f)
{
    const struct tcr_neuron *n = (const struct tcr_neuron *)d;

    for (int c = 0; c < n->lnc; c++) {
        char core[24] = "";

        if (n->lnc > 1)
            snprintf(core, sizeof core, ", core %d", c);
        fprintf(f,
                "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"NeuronCore %s%s, modelled "
                "time\"}}",
                c ? ",\n" : "", 1000 + c, n->has_kind ? neuron_lib.neuron_core_name(n->kind) : "", core);
        for (int k = 0; k < NEURON_LANES; k++) {
            char name[32];

            snprintf(name, sizeof name, "queue %d", k - NEURON_NENGINES);
            fprintf(f, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                    1000 + c, k,
                    k < NEURON_NENGINES       ? neuron_lib.neuron_engine_name((enum neuron_engine)k)
                    : k == NEURON_COPIES      ? "copies"
                    : k == NEURON_COLLECTIVES ? "collectives"
                                              : name);
        }
    }
    for (size_t k = 0; k < n->trace.n; k++)
        put_mark(f, &n->trace.list[k], n->trace.begin);
}

/* -- Figures ------------------------------------------------------------------------------------------ */

int neuron_simulated(struct tcr_device *d, struct tccrt_sim *out)
{
    struct tcr_neuron *n = (struct tcr_neuron *)d;
    const struct neuron_counters *c = &n->sum;

    if (n->drawn)
        return tcr_fail(TCC_EUSAGE, "TCCC_ORDER_SEED draws durations: no time is modelled");
    *out = (struct tccrt_sim){.seconds = end_of_all(n) / 1e9,
                              .copy_seconds = n->copy_ns / 1e9,
                              .launches = d->counts.launches,
                              .copies = n->copies,
                              .copy_bytes = n->copy_bytes,
                              .collectives = n->collectives,
                              .collective_bytes = n->collective_bytes,
                              .collective_seconds = n->collective_ns / 1e9,
                              .exposed_seconds = n->exposed_ns / 1e9,
                              .dma_transfers = (int64_t)c->dma_transfers,
                              .dma_bytes = (int64_t)c->dma_bytes,
                              .dma_paid_bytes = (int64_t)c->dma_paid_bytes,
                              .hbm_read = (int64_t)c->hbm_read,
                              .hbm_written = (int64_t)c->hbm_written,
                              .dma_busy = ns(c, c->dma_busy) / NEURON_DMA_ENGINES / 1e9,
                              .flops = c->flops,
                              .rounding = n->stochastic ? "stochastic" : "nearest",
                              .core = n->has_kind ? neuron_lib.neuron_core_name(n->kind) : "",
                              .physical = n->lnc,
                              .nengines = NEURON_NENGINES};
    if (n->has_kind)
        out->hbm_busy = (double)(c->hbm_read + c->hbm_written) / neuron_lib.neuron_hbm_rate(n->kind) / 1e9;
    if (c->ticks)
        out->peak_flops = c->peak_flops / c->seconds * out->seconds;
    for (int e = 0; e < NEURON_NENGINES; e++)
        out->engines[e] = (struct tccrt_sim_engine){neuron_lib.neuron_engine_name((enum neuron_engine)e),
                                                    (int64_t)c->engine[e].instructions, ns(c, c->engine[e].busy) / 1e9,
                                                    ns(c, c->engine[e].waiting) / 1e9};
    return TCC_OK;
}
