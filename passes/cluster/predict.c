/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a layout takes. A rank's share of its node's devices gives the time of each node, the larger of operations over
 * speed and bytes over bandwidth; the cut gives stages and what they send; these times go into the schedule
 * (pipeline.c). One stage with whole batches averages its gradients bucket by bucket beside the backward pass, stages
 * do behind their last one, as the compiled steps do it.
 *
 * Ranks fill nodes in order, as mpirun places them.
 */
#include "passes/cluster/predict_int.h"
#include "base/mutant.h"

#include <math.h>
#include <string.h>

#define MOVED 8       /* of what lies with the host between the passes this part may be under way */
#define LOSS_PASSES 4 /* times that a loss goes over the scores, forward and backward together */

/* -- Machines ------------------------------------------------------------------------------------------------------ */

static bool place(struct sim_context *x, const char **why)
{
    const struct plan_cluster *c = x->c;
    int ranks = x->l->partitions * x->l->copies * x->l->parts;
    x->per_node = c->divided ? (ranks + c->nodes - 1) / c->nodes : ranks < c->devices ? ranks : c->devices;
    if (!c->divided && ranks > c->nodes * c->devices) {
        *why = "more ranks than devices";
        return false;
    }
    x->share = c->divided && x->per_node < c->devices ? (double)c->devices / x->per_node : 1;
    x->slow = c->divided && x->per_node > c->devices ? (double)x->per_node / c->devices : 1;
    x->cost = (struct pass_cost){.flops = c->flops * x->share,
                                 .half_flops = c->bf16_flops * x->share,
                                 .bandwidth = c->bandwidth * x->share,
                                 .cache = c->cache * x->share,
                                 .cache_bandwidth = c->cache_bandwidth * x->share,
                                 .launch = c->launch};
    double active = x->per_node < c->devices ? x->per_node : c->devices;
    if (c->node_bandwidth > 0 && x->cost.bandwidth * active > c->node_bandwidth)
        x->cost.bandwidth = c->node_bandwidth / active;
    const struct plan_measure *measure = x->part->measure ? x->part->measure : x->m->measure;
    if (measure)
        x->measure = &measure[x->share > 1.5];
    return true;
}

static int rank_of(const struct sim_context *x, int copy, int stage)
{
    return x->l->spread ? stage * x->l->copies + copy : (copy * x->l->partitions + stage) * x->l->parts;
}

int plan_node_of(const struct sim_context *x, int copy, int stage)
{
    return rank_of(x, copy, stage) / x->per_node;
}

static void count_copies(struct sim_context *x)
{
    for (int s = 0; s < x->l->partitions; s++)
        for (int d = 0; d < x->l->copies && plan_node_of(x, d, s) == plan_node_of(x, 0, s); d++)
            x->here[s]++;
}

/* Of ranks that have parts of the same tensors, which are neighbours: n exchanges of so many bytes in all. */
static double exchange_seconds(const struct sim_context *x, double bytes, int n)
{
    int t = x->l->parts, here = t < x->per_node ? t : x->per_node;
    return n ? n * plan_all_reduce(x->c, bytes / n, t, here, x->per_node) * (here < t ? 1 : x->slow) : 0;
}

/* -- Times --------------------------------------------------------------------------------------------------------- */

static double item_seconds(const struct sim_context *x, const struct plan_item *it)
{
    if (it->free)
        return 0;
    return pass_seconds(&x->cost, plan_at(it->flops, x->samples), plan_at(it->bytes, x->samples), it->half);
}

static void add_gradients(struct sim_context *x, int segment, const struct plan_item *it)
{
    /* Written; and where microbatches add theirs up, read and written once more. */
    bool sums = x->l->partitions > 1 || x->l->micros > 1;
    x->backward[segment] += pass_move_seconds(&x->cost, it->trained * (sums ? 3 : 1));
}

static void count_times(struct sim_context *x)
{
    const struct partition *p = x->m->part;
    int last = 0;
    for (int i = 0; i < p->n; i++) {
        const struct plan_item *it = &x->part->items[i];
        int g = x->cut->segment[i], s = g % x->l->partitions;
        double seconds = item_seconds(x, it), work = plan_at(it->work, x->samples);
        x->forward[g] += seconds;
        x->backward[g] += seconds * it->backward;
        add_gradients(x, g, it);
        for (int k = 0; k < 2; k++)
            x->exchanged[k][g] += exchange_seconds(x, plan_at(it->exchanged[k], x->samples), it->exchanges[k]);
        x->trained[g] += it->trained;
        x->saved[g] += plan_at(it->kept, x->samples);
        x->kept[s] += plan_at(it->kept, x->samples);
        x->work[s] = work > x->work[s] ? work : x->work[s];
        last = i == p->n - 1 ? g : last;
    }
    double loss = pass_move_seconds(&x->cost, x->part->scores * (x->m->loss_fixed + x->m->scores_each * x->samples));
    x->forward[last] += loss;
    x->backward[last] += (LOSS_PASSES - 1) * loss;
}

/* Figures that were measured: a factor, a time a microbatch that is spread like the computation, and one a stage. */
static void apply_measure(struct sim_context *x)
{
    double all = 0;
    if (!x->measure)
        return;
    for (int g = 0; g < x->cut->nsegments; g++)
        all += x->forward[g] + x->backward[g];
    double factor = x->measure->compute + (all > 0 ? x->measure->call / all : 0);
    for (int g = 0; g < x->cut->nsegments; g++) {
        double task = !x->cut->empty[g] && (x->l->partitions > 1 || x->l->micros > 1) ? x->measure->task : 0;
        x->forward[g] = x->forward[g] * factor + task / 3;
        x->backward[g] = x->backward[g] * factor + task * 2 / 3;
    }
}

static double overlap_of(const struct sim_context *x)
{
    return x->here[0] == x->l->copies ? x->c->local.overlap : x->c->remote.overlap;
}

/* What is sent beside a pass. */
static double beside(const struct sim_context *x, double pass, double sent)
{
    return fmax(pass + (1 - overlap_of(x)) * sent, sent);
}

static bool by_microbatch(const struct sim_context *x)
{
    return x->l->partitions > 1 || x->l->micros > 1;
}

static double reduce(const struct sim_context *x, double bytes, int stage)
{
    return plan_all_reduce(x->c, bytes, x->l->copies, x->here[stage], x->per_node) *
           (x->here[stage] < x->l->copies ? 1 : x->slow);
}

/* What no measure of one rank knows: exchanges of parts wait for each other; what owners keep goes beside the passes of
 * each microbatch, as does what lies with the host. */
static void add_exchanges(struct sim_context *x)
{
    const struct plan_layout *l = x->l;
    for (int g = 0; g < x->cut->nsegments; g++) {
        bool moves = l->copies > 1 && by_microbatch(x);
        double half = moves ? reduce(x, x->trained[g], g % l->partitions) / 2 : 0;
        double first = moves ? reduce(x, fmin(x->m->bucket_cap, x->trained[g]), g % l->partitions) / 2 : 0;
        double host = l->offload_activations && x->c->host_bandwidth > 0 ? x->saved[g] / x->c->host_bandwidth : 0;
        if (x->cut->empty[g])
            continue;
        x->forward[g] = fmax(x->forward[g] + x->exchanged[0][g], host);
        x->backward[g] = fmax(x->backward[g] + x->exchanged[1][g], host);
        if (l->zero > 2) /* the first bucket of parameters is waited for */
            x->forward[g] = first + beside(x, x->forward[g], half - first);
        if (l->zero > 1)
            x->backward[g] =
                l->zero > 2 ? first + beside(x, x->backward[g], 2 * half - first) : beside(x, x->backward[g], half);
    }
}

static void count_messages(struct sim_context *x)
{
    for (int i = 0; i < x->cut->nsends; i++) {
        const struct plan_send *d = &x->cut->sends[i];
        int from = d->from % x->l->partitions, to = d->to % x->l->partitions;
        if (from == to)
            continue;
        x->sent[0][from] += plan_at(d->forward, x->samples);
        x->sent[1][to] += plan_at(d->backward, x->samples);
        x->incoming[to] += plan_at(d->forward, x->samples);
    }
}

/* -- Averages and updates ------------------------------------------------------------------------------------------ */

/* What a bucket takes: an all-reduce, with --zero its first half: gradients go to the copy that updates their
 * parameters. */
static double gathered(const struct sim_context *x, double bytes, int stage)
{
    return reduce(x, bytes, stage) * (x->l->zero ? 0.5 : 1);
}

/* --zero=3: a pass whose parameters come from their owners, a bucket ahead of what reads them: the second half of an
 * all-reduce for all of them. The first bucket is waited for, the others go beside the pass. *all grows by what they
 * take. */
static double with_parameters(const struct sim_context *x, double pass, double *all)
{
    double trained = x->cut->trained[0], bytes = fmin(x->m->bucket_cap, trained);
    if (x->l->zero < 3 || x->l->copies < 2)
        return pass;
    double first = reduce(x, bytes, 0) / 2;
    double others = bytes < trained ? reduce(x, trained - bytes, 0) / 2 : 0;
    *all += first + others;
    return first + fmax(pass + (1 - overlap_of(x)) * others, others);
}

/* Whole batches: buckets leave while the backward pass goes on, from the last node to the first. Returns when both are
 * done. */
static double overlapped(const struct sim_context *x, struct ir_ctx *ctx, double forward, double backward, double *all)
{
    const struct partition *p = x->m->part;
    double raw = 0, held = 0, at = forward, limit = x->m->bucket_first, compute, scale;
    double *ready = IR_NEWN(ctx, p->n + 1, double), *seconds = IR_NEWN(ctx, p->n + 1, double);
    int n = 0;
    for (int i = 0; i < p->n; i++)
        raw += item_seconds(x, &x->part->items[i]) * x->part->items[i].backward;
    scale = raw > 0 ? backward / raw : 0;
    for (int i = p->n - 1; i >= 0; i--) {
        const struct plan_item *it = &x->part->items[i];
        at += item_seconds(x, it) * it->backward * scale;
        held += it->trained;
        if (held <= 0 || (held < limit && i > 0))
            continue;
        ready[n] = at;
        seconds[n] = gathered(x, held, 0);
        *all += seconds[n++];
        held = 0;
        limit = x->m->bucket_cap;
    }
    return plan_buckets(n, ready, seconds, overlap_of(x), forward + backward, &compute);
}

/* A stage's gradients, behind its last backward pass. */
static double averaged(const struct sim_context *x, int stage)
{
    double left = x->cut->trained[stage], limit = x->m->bucket_first, all = 0;
    if (x->l->copies < 2 || (x->l->zero > 1 && by_microbatch(x))) /* microbatch by microbatch */
        return 0;
    double whole = floor((left - limit) / x->m->bucket_cap), rest;
    if (left <= limit)
        return gathered(x, left, stage);
    rest = left - limit - whole * x->m->bucket_cap;
    all = gathered(x, limit, stage) + whole * gathered(x, x->m->bucket_cap, stage);
    return rest > 0 ? all + gathered(x, rest, stage) : all;
}

/* Gradients are read to be measured, and again with state and parameters, which are written. With --zero a copy does so
 * with its part, and sends it to the others, unless they get it when they read it (3): the second half of an
 * all-reduce. */
static double updated(const struct sim_context *x, int stage)
{
    double trained = x->cut->trained[stage];
    double state = x->part->trained > 0 ? x->part->state * trained / x->part->trained : 0;
    double part = x->l->zero ? 1.0 / x->l->copies : 1, bytes = part * (4 * trained + 2 * state);
    double seconds = pass_move_seconds(&x->cost, bytes) * x->slow;
    if (x->measure)
        seconds *= x->l->zero && x->measure->owned > 0 ? x->measure->owned : x->measure->update;
    if (x->l->offload_optimizer && x->c->host_bandwidth > 0)
        seconds = fmax(seconds, 2 * part * state / x->c->host_bandwidth);
    return x->l->zero == 1 || x->l->zero == 2 ? seconds + reduce(x, trained, stage) / 2 : seconds;
}

/* -- Memory and bytes ---------------------------------------------------------------------------------------------- */

/* What a copy holds of gradients, or parameters, of these bytes that owners keep: its part, and the buckets that are
 * under way. */
static double owned(const struct sim_context *x, double bytes)
{
    double part = bytes / x->l->copies, moving = 2 * x->m->bucket_cap;
    return fmin(part + moving, bytes);
}

static void count_memory(const struct sim_context *x, const struct pipeline_result *r, struct plan_prediction *out)
{
    const struct plan_cut *u = x->cut;
    for (int s = 0; s < u->partitions; s++) {
        struct plan_prediction q = {0};
        int segments = 0;
        for (int g = s; g < u->nsegments; g += u->partitions)
            segments += !u->empty[g];
        q.weights = u->weights[s];
        q.gradients = u->trained[s];
        q.state =
            x->part->trained > 0 && !x->l->offload_optimizer ? x->part->state * u->trained[s] / x->part->trained : 0;
        q.state /= MUTANT(153, x->l->zero, 0) ? x->l->copies : 1;
        q.gradients = x->l->zero > 1 ? owned(x, q.gradients) : q.gradients;
        q.weights -= x->l->zero > 2 ? u->trained[s] - owned(x, u->trained[s]) : 0;
        q.activations = (x->kept[s] + x->incoming[s]) * r->peak[s] / (segments ? segments : 1);
        q.activations /= x->l->offload_activations ? MOVED : 1;
        q.work = x->work[s];
        q.memory = q.weights + q.gradients + q.state + q.activations + q.work;
        if (q.memory <= out->memory)
            continue;
        out->memory = q.memory;
        out->weights = q.weights;
        out->gradients = q.gradients;
        out->state = q.state;
        out->activations = q.activations;
        out->work = q.work;
    }
}

static double part_bytes(const struct sim_context *x, int stage)
{
    double all = 0, t = x->l->parts;
    for (int i = 0; i < x->m->part->n; i++)
        for (int k = 0; k < 2 && x->cut->segment[i] % x->l->partitions == stage; k++)
            all += plan_at(x->part->items[i].exchanged[k], x->samples);
    return 2 * (t - 1) / t * all * x->l->micros;
}

static void count_bytes(const struct sim_context *x, struct plan_prediction *out)
{
    double d = x->l->copies, most = -1;
    for (int s = 0; s < x->l->partitions; s++) {
        double moved = d > 1 ? (d - 1) / d * x->cut->trained[s] : 0;
        int each = x->l->zero > 1 ? x->l->micros : 1, passes = x->l->zero > 2 ? 2 * x->l->micros : 1;
        double bytes[PLAN_BYTES] = {x->sent[0][s] * x->l->micros, x->sent[1][s] * x->l->micros,
                                    (x->l->zero ? 1 : 2) * each * moved, x->l->zero ? passes * moved : 0,
                                    part_bytes(x, s)};
        double all = bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4];
        if (all > most)
            memcpy(out->bytes, bytes, sizeof bytes);
        most = all > most ? all : most;
    }
}

/* -- The whole ----------------------------------------------------------------------------------------------------- */

static void sum_up(const struct sim_context *x, struct ir_ctx *ctx, const struct pipeline_result *r, bool simulate,
                   struct plan_prediction *out)
{
    int n = x->l->partitions;
    double busy = 0, latency = 0, behind = 0, all = 0;
    for (int s = 0; s < n; s++) {
        double parts = 0;
        for (int g = s; g < x->cut->nsegments; g += n)
            parts += (x->exchanged[0][g] + x->exchanged[1][g]) * x->l->micros;
        out->parts = fmax(out->parts, parts);
    }
    for (int s = 0; s < n; s++) {
        double average = averaged(x, s), update = updated(x, s);
        busy += r->busy[s];
        out->compute = fmax(out->compute, r->busy[s]);
        out->average = fmax(out->average, average);
        behind = fmax(behind, r->end[s] + (simulate ? average : 0));
        out->update = fmax(out->update, update);
        latency = plan_node_of(x, 0, s) != plan_node_of(x, 0, 0) ? x->c->remote.latency
                  : n > 1                                        ? x->c->local.latency
                                                                 : 0;
    }
    out->pipeline = r->makespan;
    out->bubble = r->makespan > 0 ? 1 - busy / (r->makespan * n) : 0;
    out->balance = busy > 0 ? out->compute * n / busy : 1;
    out->exposed = behind - r->makespan;
    if (!by_microbatch(x) && x->l->copies > 1) {
        double forward = with_parameters(x, x->forward[0] * x->slow, &all);
        double step = overlapped(x, ctx, forward, with_parameters(x, x->backward[0] * x->slow, &all), &all);
        out->average = all;
        out->exposed = step - r->makespan;
    }
    if (out->exposed < 0)
        out->exposed = 0;
    /* All stages tell each other about their gradients before they update. */
    out->step = r->makespan + out->exposed + 2 * latency + out->update;
}

static void *numbers(struct ir_ctx *ctx, int n)
{
    return ir_alloc_n(ctx, (size_t)n + 1, sizeof(double));
}

static bool evaluate(struct sim_context *x, struct ir_ctx *ctx, bool simulate, struct plan_prediction *out,
                     const char **why)
{
    const struct plan_layout *l = x->l;
    struct pipeline_result r;
    bool extended;
    x->forward = numbers(ctx, x->cut->nsegments);
    x->backward = numbers(ctx, x->cut->nsegments);
    for (int k = 0; k < 2; k++)
        x->exchanged[k] = numbers(ctx, x->cut->nsegments);
    x->trained = numbers(ctx, x->cut->nsegments);
    x->saved = numbers(ctx, x->cut->nsegments);
    x->kept = numbers(ctx, l->partitions);
    x->work = numbers(ctx, l->partitions);
    x->incoming = numbers(ctx, l->partitions);
    x->sent[0] = numbers(ctx, l->partitions);
    x->sent[1] = numbers(ctx, l->partitions);
    x->here = numbers(ctx, l->partitions);
    count_copies(x);
    count_times(x);
    apply_measure(x);
    add_exchanges(x);
    count_messages(x);
    *out = (struct plan_prediction){.layout = *l};
    if (!plan_run_pipeline(x, ctx, simulate, &r, &extended)) {
        *why = "the microbatches don't fit the schedule";
        return false;
    }
    out->extended = simulate && extended;
    sum_up(x, ctx, &r, simulate, out);
    count_memory(x, &r, out);
    count_bytes(x, out);
    return true;
}

static bool sensible(const struct plan_layout *l, const char **why)
{
    int rounds = l->micros / l->partitions > 1 ? l->micros / l->partitions : 1;
    if (l->batch % ((int64_t)l->copies * l->micros))
        *why = "the batch doesn't divide";
    else if (l->kind == PIPELINE_1F1B_INTERLEAVED && l->micros % rounds)
        *why = "the microbatches don't fit the schedule";
    else
        return true;
    return false;
}

/* Layouts that say nothing of parts have one. */
bool plan_evaluate(struct plan_model *m, const struct plan_cluster *c, const struct plan_layout *given, bool simulate,
                   struct plan_prediction *out, const char **why)
{
    struct plan_layout whole = *given, *l = &whole;
    struct sim_context x = {.m = m, .c = c, .l = l};
    l->parts = l->parts ? l->parts : 1;
    x.part = plan_part(m, l->parts, l->how);
    *why = x.part->why;
    if (*why)
        return false;
    *why = "the model cannot be cut into that many stages";
    if (!place(&x, why) || !sensible(l, why))
        return false;
    x.cut = plan_cut(m, x.part, l->partitions, l->chunks);
    if (!x.cut->fits)
        return false;
    x.samples = (double)l->batch / l->copies / l->micros;
    /* Schedules are thrown away at once. */
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    volatile bool ok = false, memory = ctx != NULL;
    if (ctx && IR_PROTECT(ctx, &frame)) {
        ok = evaluate(&x, ctx, simulate, out, why);
        ir_unprotect(ctx);
    } else {
        memory = false;
    }
    ir_ctx_free(ctx);
    if (!memory)
        ir_no_memory(m->ctx);
    return ok;
}

bool plan_predict(struct plan_model *m, const struct plan_cluster *c, const struct plan_layout *l,
                  struct plan_prediction *out, const char **why)
{
    return plan_evaluate(m, c, l, true, out, why);
}
