/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps: one or several batches an execution, waited for, or, where nothing is done between two steps, the next one
 * given before the loss of the one before is read.
 */
#include "tools/train/train_int.h"

#include "passes/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const train_states[STEP_STATES] = {[STATE_LR] = "train.lr",
                                               [STATE_NORM] = "train.norm",
                                               [STATE_SCALE] = "train.scale",
                                               [STATE_SKIPPED] = "train.skipped"};

static void set_rate(struct trainer *t)
{
    double rate;
    if (t->schedule && train_schedule_rate(t->schedule, t->base_rate,
                                           (int64_t)trainer_scalar(t, "train.step", (double)t->done), t->epoch, &rate))
        trainer_set_scalar(t, "train.rate", rate);
}

/* Takes up to per_execution batches that are well; a bad one is reported when it is the first. */
static int gather_batches(struct trainer *t, struct batch **list, int *n)
{
    int64_t room = t->steps ? t->steps - t->done : t->per_execution;
    /* outputs are good for one run; ranks that die leave all others within one step */
    bool one = t->by_step || option_set(t->o, OPT_save_outputs) || t->elastic;
    int most = one ? 1 : room < t->per_execution ? (int)room : t->per_execution;

    if (t->checkpoint_every && most > t->checkpoint_every - t->done % t->checkpoint_every)
        most = (int)(t->checkpoint_every - t->done % t->checkpoint_every);
    if (t->eval_every && most > t->eval_every - t->done % t->eval_every)
        most = (int)(t->eval_every - t->done % t->eval_every);
    double start = now_ms();
    for (*n = 0; *n < most; ++*n)
        if (!(list[*n] = loader_next(t->loader)))
            break;
    t->waited = now_ms() - start;
    for (int k = 0; k < *n; k++) {
        data_bind(&t->data, list[k], t->in + k * t->step.nin);
        memset(t->out + k * t->step.nout, 0, (size_t)t->step.nout * sizeof *t->out);
        t->out[k * t->step.nout] =
            (struct tcc_tensor){.data = t->losses + 2 * k, .dtype = t->step.out[0].dtype, .rank = t->step.out[0].rank};
        for (int d = 0; d < t->step.out[0].rank; d++)
            t->out[k * t->step.nout].dims[d] = 1;
    }
    return EXIT_FINE;
}

/* With loss scaling an overflow is nothing unusual: the step has left the update out and halved the scale. */
static bool overflow(struct trainer *t, double skipped)
{
    return t->has_scale && trainer_scalar(t, "train.skipped", 0) > skipped;
}

/* Modelled time up to the end of what was given, in seconds; 0: the device models none. */
static double modelled_end(struct trainer *t)
{
    struct tccrt_sim sim;

    return tccrt_simulated(t->m.session, &sim) == TCC_OK ? sim.seconds : 0;
}

/* ... since the last step reported, in ms. */
static double modelled(struct trainer *t, double end)
{
    double before = t->simulated;

    t->simulated = end;
    return (end - before) * 1e3;
}

static int not_finite(struct trainer *t, double loss)
{
    report_clear(t);
    return tool_error(t->o, EXIT_DATA,
                      "step %" PRId64
                      ": the loss is %s: a smaller learning rate or --clip-norm may help; parameters, optimizer and "
                      "checkpoints are as before the step (--keep-going goes on)",
                      t->done, isnan(loss) ? "not a number" : "infinite");
}

static int step_failed(struct trainer *t, const struct batch *b, const int64_t *order, int status)
{
    char what[80];

    snprintf(what, sizeof what, "step %" PRId64 ", batch %" PRId64 " of the epoch", t->done + 1, b->number);
    train_blame(t, &t->data, b, order + t->batch * t->batch_size, status, what);
    return trainer_code(status);
}

/* -- Steps whose loss is read late: the device has the next batch and the next step to do while the host reads what the
 * one before has left. */

static double step_state(const struct trainer *t, const struct step_ahead *a, int state)
{
    return t->state_types[state] < 0 ? 0 : tcc_load_f64((enum tcc_dtype)t->state_types[state], &a->values[state]);
}

/* Waits for the oldest step under way and reports it. */
static int read_late(struct trainer *t, const int64_t *order)
{
    struct step_ahead *a = &t->ahead[t->done % TRAIN_AHEAD];
    double start = now_ms();
    int status = tccrt_under_way(t->m.session) ? tccrt_wait(t->m.session, a->ticket) : TCC_OK;
    double before = t->skipped, loss = tcc_load_f64((enum tcc_dtype)t->step.out[0].dtype, a->loss);
    struct step_result r = {.loss = loss,
                            .lr = step_state(t, a, STATE_LR),
                            .norm = step_state(t, a, STATE_NORM),
                            .scale = step_state(t, a, STATE_SCALE),
                            .ms = a->took + now_ms() - start,
                            .data_ms = a->waited,
                            .rows = a->batch->rows,
                            .has_norm = t->has_norm,
                            .has_scale = t->has_scale};

    if (status)
        return step_failed(t, a->batch, order, status);
    t->nahead--;
    t->batch++;
    t->done++;
    t->skipped = step_state(t, a, STATE_SKIPPED);
    r.sim_ms = modelled(t, a->ended);
    report_step(t, &r);
    if (!isfinite(loss) && !option_set(t->o, OPT_keep_going) && !(t->has_scale && t->skipped > before))
        return not_finite(t, loss);
    loader_release(t->loader, 1);
    return train_html_look(t);
}

int train_read_all(struct trainer *t, const int64_t *order)
{
    int code = EXIT_FINE;

    while (code == EXIT_FINE && t->nahead)
        code = read_late(t, order);
    return code;
}

/* An error that has come with another step than the one it is of. */
static int give_failed(struct trainer *t, const struct step_ahead *a, const int64_t *order, int status)
{
    int64_t runs;

    tccrt_random_get(t->m.session, NULL, &runs);
    for (; t->nahead && t->ahead[t->done % TRAIN_AHEAD].run < runs; t->nahead--) {
        t->batch++;
        t->done++;
    }
    return step_failed(t, t->nahead ? t->ahead[t->done % TRAIN_AHEAD].batch : a->batch, order, status);
}

static int give_step(struct trainer *t, const int64_t *order, struct batch *b)
{
    struct step_ahead *a = &t->ahead[(t->done + t->nahead) % TRAIN_AHEAD];
    int status;

    *a = (struct step_ahead){.batch = b, .waited = t->waited};
    double start = now_ms();
    tccrt_random_get(t->m.session, NULL, &a->run);
    t->out->data = a->loss;
    status = tccrt_run_async(t->m.session, t->step.name, t->step.nin, t->in, t->step.nout, t->out, NULL, &a->ticket);
    a->ended = status ? 0 : modelled_end(t); /* a device without modelled time has a message of its own */
    for (int k = 0; k < STEP_STATES && !status; k++)
        if (t->state_types[k] >= 0)
            status = tccrt_state_behind(t->m.session, train_states[k], &a->values[k]);
    a->took = now_ms() - start;
    if (status)
        return give_failed(t, a, order, status);
    t->nahead++;
    memory_look(t);
    return EXIT_FINE;
}

/* Something is to be done behind the next step but the one after it. */
static bool is_due(const struct trainer *t)
{
    int64_t done = t->done + t->nahead;

    return (t->steps && done >= t->steps) || (t->eval_every && done % t->eval_every == 0) ||
           (t->checkpoint_every && done % t->checkpoint_every == 0);
}

static int execute_late(struct trainer *t, struct batch **list, const int64_t *order, bool *ended)
{
    int n = 0, code = EXIT_FINE;

    gather_batches(t, list, &n);
    *ended = n == 0;
    if (n && *list[0]->error) {
        code = train_read_all(t, order);
        report_clear(t);
        return code == EXIT_FINE ? tool_error(t->o, EXIT_DATA, "%s", list[0]->error) : code;
    }
    if (n)
        code = give_step(t, order, list[0]);
    while (code == EXIT_FINE && t->nahead &&
           (*ended || is_due(t) || t->nahead >= TRAIN_AHEAD || !tccrt_under_way(t->m.session)))
        code = read_late(t, order);
    return code;
}

static int execute_now(struct trainer *t, struct batch **list, const int64_t *order, bool *ended)
{
    double skipped = trainer_scalar(t, "train.skipped", 0);
    int64_t done = 0;
    int n = 0, good = 0;

    gather_batches(t, list, &n);
    *ended = n == 0;
    while (good < n && !*list[good]->error)
        good++;
    set_rate(t);
    double start = now_ms();
    int status = good
                     ? tccrt_run_many(t->m.session, t->step.name, good, t->step.nin, t->in, t->step.nout, t->out, &done)
                     : TCC_OK;
    double took = now_ms() - start;
    memory_look(t);
    double ms = took / (double)(done ? done : 1),
           lr = t->has_lr ? trainer_scalar(t, "train.lr", 0)
                          : 0, /* what failed keeps its message: nothing else fails here */
        norm = t->has_norm ? trainer_scalar(t, "train.norm", 0) : 0,
           scale = t->has_scale ? trainer_scalar(t, "train.scale", 0) : 0;
    double sim_ms = status == TCC_OK ? modelled(t, modelled_end(t)) / (double)(done ? done : 1) : 0;
    for (int k = 0; k < done; k++) {
        double loss = tcc_load_f64((enum tcc_dtype)t->step.out[0].dtype, t->losses + 2 * k);
        bool last = k + 1 == done; /* of what stands in the state now */
        t->batch++;
        t->done++;
        t->last = (struct step_result){.loss = loss,
                                       .lr = lr,
                                       .ms = ms,
                                       .data_ms = t->waited / n,
                                       .norm = norm,
                                       .scale = scale,
                                       .sim_ms = sim_ms,
                                       .rows = list[k]->rows,
                                       .has_norm = last && t->has_norm,
                                       .has_scale = last && t->has_scale,
                                       .ranks = t->ranks};
        report_step(t, &t->last);
        if (!isfinite(loss) && !option_set(t->o, OPT_keep_going) && !overflow(t, skipped))
            return not_finite(t, loss);
        if (train_outputs_wanted(t, t->done)) {
            int code = train_outputs_write(t, t->out + k * t->step.nout, list[k]->rows,
                                           order + (t->batch - 1) * t->batch_size);
            if (code != EXIT_FINE)
                return code;
        }
    }
    if (status != TCC_OK)
        return ranks_lost(t, trainer_code(status)) ? trainer_code(status) : step_failed(t, list[done], order, status);
    if (good < n) {
        report_clear(t);
        return tool_error(t->o, EXIT_DATA, "%s", list[good]->error);
    }
    loader_release(t->loader, n);
    return train_html_look(t);
}

/* -- The first batch's ranges, where a step trains for bytes (--qat) ------------------------------------------- */

/* The inputs of `calibrate` among those of the step, which the batch has. */
static int calibrate_by(struct trainer *t, const struct batch *b)
{
    struct tccrt_model *m = t->m.artifact;
    int n = tccrt_ninputs(m, "calibrate");
    struct tcc_tensor *in = calloc((size_t)n + 1, sizeof *in);

    if (!in)
        return TCC_EENV;
    data_bind(&t->data, b, t->in);
    for (int i = 0; i < n; i++) {
        struct tccrt_value_info own;
        tccrt_input(m, "calibrate", i, &own);
        for (int k = 0; k < t->step.nin; k++)
            if (!strcmp(own.name, t->step.in[k].name))
                in[i] = t->in[k];
    }
    int status = tccrt_run(t->m.session, "calibrate", n, in, 0, NULL);
    free(in);
    return status;
}

int train_calibrate(struct trainer *t)
{
    int64_t count, runs;
    uint64_t seed;
    int code = EXIT_FINE;

    if (tccrt_ninputs(t->m.artifact, "calibrate") < 0 || trainer_scalar(t, "qat.int8", 0) > 0 ||
        trainer_scalar(t, "qat.int4", 0) > 0)
        return EXIT_FINE;
    int64_t *order = trace_sampler_epoch(&t->sampler, t->epoch, &count);
    if (!order)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    struct data_draw draw = {t->sampler.seed, t->epoch};
    loader_start(t->loader, &(struct loader_epoch){order, count, t->drop_last, t->batch, t->batch, &draw});
    tccrt_random_get(t->m.session, &seed, &runs);
    struct batch *b = loader_next(t->loader);
    int status = b && !*b->error ? calibrate_by(t, b) : TCC_OK;
    tccrt_random_set(t->m.session, seed, runs);
    if (status != TCC_OK)
        code = step_failed(t, b, order, status);
    else if (b && *b->error)
        code = tool_error(t->o, EXIT_DATA, "%s", b->error);
    loader_stop(t->loader);
    free(order);
    return code;
}

int train_execute(struct trainer *t, struct batch **list, const int64_t *order, bool *ended)
{
    return (t->late ? execute_late : execute_now)(t, list, order, ended);
}

/* Whether losses are read late: not where something is done between two steps (a rate is set, outputs are written),
 * where ranks agree on each, nor where a device's times are looked at, which come when all work is done. */
bool train_reads_late(const struct trainer *t)
{
    struct tccrt_sim sim;
    bool timed = option_set(t->o, OPT_trace) || t->html;

    return t->per_execution == 1 && t->processes == 1 && !t->elastic && !train_is_folded(t) && !t->schedule &&
           !option_set(t->o, OPT_save_outputs) &&
           (!timed || (tccrt_simulated(t->m.session, &sim) == TCC_OK && *sim.core));
}
