/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-train: calls a compiled step in a loop. An epoch is one pass over the data in the sampler's order; the run-time
 * library runs one or several batches a call. Everything that the next step depends on (state, random key, place in the
 * data) is in a checkpoint, so a resumed run has the bits of one that was not interrupted.
 */
#include "tools/run/emulate_int.h"
#include "tools/train/predict_int.h"
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

/* The first Ctrl-C ends training after the step that runs; the second one ends the process. So does a terminal that
 * goes away, but for a run that nohup has told to live on. */
static void catch_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, had;

    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &had) == 0 && had.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &stop, NULL);
}

/* -- The artifact ----------------------------------------------------------------------------------------- */

static const char *entry_named(const struct trainer *t, const char *name)
{
    for (int i = 0; i < tccrt_nentries(t->m.artifact); i++)
        if (strcmp(tccrt_entry_name(t->m.artifact, i), name) == 0)
            return tccrt_entry_name(t->m.artifact, i);
    return NULL;
}

static int describe_entry(const struct trainer *t, const char *name, struct entry_info *e)
{
    struct tccrt_model *m = t->m.artifact;
    *e = (struct entry_info){.name = name, .nin = tccrt_ninputs(m, name), .nout = tccrt_noutputs(m, name)};
    e->in = calloc((size_t)e->nin + 1, sizeof *e->in);
    e->out = calloc((size_t)e->nout + 1, sizeof *e->out);
    if (!e->in || !e->out)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < e->nin; i++)
        tccrt_input(m, name, i, &e->in[i]);
    for (int i = 0; i < e->nout; i++)
        tccrt_output(m, name, i, &e->out[i]);
    return data_axes(t->o, m, name, e->in, e->nin, &e->axes);
}

static int describe_entries(struct trainer *t)
{
    const char *step = entry_named(t, "step"), *eval = entry_named(t, "eval");
    int code;

    if (!step)
        return tool_error(t->o, EXIT_DATA, "%s: no entry point 'step': compile it with tccc --train", t->o->words[0]);
    if ((code = describe_entry(t, step, &t->step)) != EXIT_FINE ||
        (eval && (code = describe_entry(t, eval, &t->eval)) != EXIT_FINE))
        return code;
    if (t->step.nout < 1 || t->step.out[0].rank < 0 || !tcc_is_float((enum tcc_dtype)t->step.out[0].dtype))
        return tool_error(t->o, EXIT_DATA, "%s: the first output of 'step' must be the loss", t->o->words[0]);
    return EXIT_FINE;
}

/* -- The loop --------------------------------------------------------------------------------------------- */

static int evaluate_whole(struct trainer *t)
{
    struct eval_result r;
    bool collect =
        option_set(t->o, OPT_checkpoint) || option_set(t->o, OPT_use_ema); /* for the best one; for what is evaluated */
    int code = collect ? ranks_collect(t) : EXIT_FINE;
    bool here = !t->rank || t->eval_sharded;
    if (code == EXIT_FINE)
        code = ranks_params(t);
    if (code == EXIT_FINE && here)
        code = train_evaluate(t, &r);
    if (code != EXIT_FINE)
        return code;
    if (here) {
        report_eval(t, &r);
        control_evaluated(t, r.loss);
        code = t->chief && !(r.loss >= t->best_loss) ? metrics_draw(t->metrics) : EXIT_FINE;
    }
    if (code != EXIT_FINE || (code = control_share(t)) != EXIT_FINE || !here || !(r.loss < t->best_loss))
        return code;
    t->best_loss = r.loss;
    t->best_step = t->done;
    return train_save(t, "best");
}

static int evaluate(struct trainer *t)
{
    if (!t->evaluates || t->evaluated == t->done)
        return EXIT_FINE;
    t->evaluated = t->done;
    return ranks_release(t, evaluate_whole(t));
}

static bool enough(const struct trainer *t)
{
    return t->stopped || (t->steps && t->done >= t->steps);
}

static int run_epoch(struct trainer *t, struct batch **list)
{
    int64_t count;
    int64_t *order = trace_sampler_epoch(&t->sampler, t->epoch, &count);
    bool ended = false;
    int code = order ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE) {
        trainer_set_scalar(t, "train.epoch", (double)t->epoch);
        struct data_draw draw = {t->sampler.seed, t->epoch};
        struct loader_epoch e = {order, count, t->drop_last, t->batch, t->batch, &draw};
        loader_start(t->loader, &e);
    }
    while (code == EXIT_FINE && !ended && !enough(t)) {
        if ((code = ranks_keep(t)) != EXIT_FINE ||
            (code = ranks_stop(t, stop_signal || t->control.ended, &t->stopped)) != EXIT_FINE || t->stopped ||
            t->regroup)
            break;
        code = train_execute(t, list, order, &ended);
        if (code != EXIT_FINE || ended)
            break;
        if (t->nahead) /* nothing is due */
            continue;
        bool last = t->batch >= t->per_epoch;
        if (t->eval_every && t->done % t->eval_every == 0)
            code = evaluate(t);
        if (code == EXIT_FINE && t->checkpoint_every && t->done % t->checkpoint_every == 0 && !last)
            code = train_save(t, "last");
    }
    if (code == EXIT_FINE)
        code = train_read_all(t, order);
    else if (t->nahead) /* it reads a batch */
        tccrt_wait(t->m.session, 0);
    if (order)
        loader_stop(t->loader);
    free(order);
    if (code != EXIT_FINE || t->regroup)
        return code;
    report_epoch(t);
    if (t->batch >= t->per_epoch) {
        code = evaluate(t);
        t->epoch++;
        t->batch = 0;
        if (code == EXIT_FINE)
            code = train_save(t, "last");
    }
    return code;
}

/* To the end, or until the ranks have to meet anew (t->regroup). */
static int run_epochs(struct trainer *t, struct batch **list, int code)
{
    while (code == EXIT_FINE && t->epoch < t->epochs && !enough(t) && !t->regroup)
        code = run_epoch(t, list);
    report_clear(t);
    if (code == EXIT_FINE && (t->batch || t->owes) && !t->regroup) { /* in the midst of an epoch */
        if (!t->stopped)
            code = evaluate(t);
        if (code == EXIT_FINE)
            code = train_save(t, "last");
        t->owes = false;
    }
    if (code == EXIT_FINE && t->elastic && !t->regroup) { /* who has written that has not died before */
        code = ranks_stop(t, t->stopped, &t->stopped);
        t->regroup = false;
    }
    if (!ranks_lost(t, code))
        return code;
    t->regroup = true;
    return EXIT_FINE;
}

static int loop(struct trainer *t)
{
    struct batch **list = calloc((size_t)t->per_execution, sizeof(void *));
    int code = list ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");

    t->started = t->epoch_started = now_ms();
    t->done_at_start = t->done;
    t->evaluated = -1;
    if (code == EXIT_FINE && t->joins)
        code = ranks_regroup(t);
    do
        code = run_epochs(t, list, code);
    while (code == EXIT_FINE && t->regroup && (code = ranks_regroup(t)) == EXIT_FINE);
    bool says = t->stopped && code == EXIT_FINE && t->chief && !option_set(t->o, OPT_quiet);
    if (says && t->control.ended && !stop_signal)
        fprintf(stderr, "note: ended at step %" PRId64 ": the last %" PRId64 " evaluations were no better\n", t->done,
                t->control.worse);
    else if (says)
        fprintf(stderr, "note: stopped at step %" PRId64 "%s\n", t->done,
                option_set(t->o, OPT_checkpoint) ? "; --resume goes on from there" : "");
    free(list);
    return code;
}

static int make_loaders(struct trainer *t)
{
    int64_t workers = 1;

    if (!option_int(t->o, OPT_workers, 0, 256, &workers))
        return EXIT_USAGE;
    loader_free(t->loader);
    loader_free(t->eval_loader);
    t->loader = loader_new(&t->data, (int)workers, t->per_execution + TRAIN_AHEAD + 2 * (int)workers, t->batch_size,
                           t->skip_bad);
    t->eval_loader =
        t->evaluates ? loader_new(&t->eval_data, (int)workers, 2 * (int)workers + 1, t->batch_size, t->skip_bad) : NULL;
    return t->loader && (t->eval_loader || !t->evaluates) ? EXIT_FINE
                                                          : tool_error(t->o, EXIT_ENVIRONMENT, "no memory for batches");
}

/* As many ranks as there are now divide the batches. */
int trainer_recut(struct trainer *t)
{
    int64_t size = t->batch_size;
    int code;

    if (t->fixed_batch)
        t->global_batch = t->batch_size * t->ranks;
    t->batch_size = t->global_batch / t->ranks ? t->global_batch / t->ranks : 1;
    t->sampler.ranks = t->ranks;
    t->sampler.rank = t->rank;
    t->eval_sharded = t->ranks > 1 && !strcmp(option_text(t->o, OPT_eval, "rank0"), "sharded");
    if ((code = trainer_count_batches(t)) != EXIT_FINE)
        return code;
    return t->batch_size == size ? EXIT_FINE : make_loaders(t);
}

static int make_buffers(struct trainer *t)
{
    size_t per = (size_t)t->per_execution;

    t->in = calloc(per * (size_t)t->step.nin + 1, sizeof *t->in);
    t->out = calloc(per * (size_t)t->step.nout + 1, sizeof *t->out);
    t->losses = calloc(2 * per + 2, sizeof *t->losses);
    return t->in && t->out && t->losses ? make_loaders(t) : tool_error(t->o, EXIT_ENVIRONMENT, "no memory for batches");
}

/* First values that a model computes rather than holds (TrainingInfoProto) are there once its `init` has run. What tccc
 * --train made (it has a rate) holds them, and a session begins with them. */
static int initialise(struct trainer *t)
{
    struct tccrt_model *m = t->m.artifact;
    const char *init = entry_named(t, "init");
    struct tcc_tensor rate;

    if (!init || trainer_state_scalar(t, "train.rate", &rate) || tccrt_ninputs(m, init) || tccrt_noutputs(m, init))
        return TCC_OK;
    int status = tccrt_run(t->m.session, init, 0, NULL, 0, NULL);
    tccrt_random_set(t->m.session, t->sampler.seed, 0);
    trainer_set_scalar(t, "train.seed", (double)t->sampler.seed); /* of stochastic rounding */
    return status;
}

/* Which rounding a simulated core has: what the artifact says of its updates, --rounding and the vendor's variable of
 * all else. */
static void tell_rounding(struct trainer *t)
{
    struct tccrt_sim sim;

    if (!t->chief || option_set(t->o, OPT_quiet) || tccrt_simulated(t->m.session, &sim) != TCC_OK || !sim.rounding)
        return;
    bool nearest = !strcmp(sim.rounding, "nearest");
    fprintf(stderr, "note: NeuronCore %s: rounding %s%s\n", sim.core, nearest ? "to the nearest even" : sim.rounding,
            nearest && trainer_scalar(t, "train.seed", -1) != -1 ? ", of updated parameters stochastic" : "");
}

static int start_session(struct trainer *t)
{
    const char *load = option_text(t->o, OPT_load, NULL);
    int64_t threads = 0;

    if (!option_int(t->o, OPT_threads, 1, 4096, &threads))
        return EXIT_USAGE;
    if (t->processes > 1) {
        int share = tccrt_comm_cores(t->world);
        threads = threads ? threads : share;
    }
    t->m.stage = t->stage;
    t->m.tensor = t->tensor;
    memory_begin(t);
    int code = model_session(t->o, &t->m, (int)threads, NULL);
    if (code != EXIT_FINE || (code = ranks_agree_plan(t)) != EXIT_FINE || (code = ranks_groups(t)) != EXIT_FINE)
        return code;
    tccrt_random_set(t->m.session, t->sampler.seed, 0);
    int status = initialise(t);
    if (status != TCC_OK)
        return trainer_status(t, status);
    trainer_set_scalar(t, "train.seed", (double)t->sampler.seed); /* of stochastic rounding, where there is any */
    tell_rounding(t);
    if (option_set(t->o, OPT_use_ema) && !ema_there(&t->m))
        return tool_error(t->o, EXIT_DATA, "--use-ema: %s keeps no averages: compile it with --ema=DECAY",
                          t->o->words[0]);
    t->has_lr = trainer_scalar(t, "train.lr", -1) != -1;
    t->has_norm = trainer_scalar(t, "train.norm", -1) != -1;
    t->has_scale = trainer_scalar(t, "train.scale", -1) != -1;
    for (int k = 0; k < STEP_STATES; k++) {
        struct tcc_tensor x;
        bool wanted = k == STATE_LR ? t->has_lr : k == STATE_NORM ? t->has_norm : t->has_scale;
        t->state_types[k] = wanted && trainer_state_scalar(t, train_states[k], &x) ? x.dtype : -1;
    }
    return load && !t->rank ? train_load(t, load) : EXIT_FINE;
}

/* What --skip-bad left out; a line, since nobody asked for each. */
static void report_bad(struct trainer *t)
{
    struct loader *loaders[] = {t->loader, t->eval_loader};

    for (int i = 0; i < 2; i++) {
        const char *first;
        int64_t n = loaders[i] ? loader_bad(loaders[i], &first) : 0;
        if (n)
            fprintf(stderr, "warning: %" PRId64 " bad sample%s of --%s %s; the first: %s\n", n, n > 1 ? "s" : "",
                    i && !(t->split > 0) ? "eval-data" : "data",
                    n > 1 ? "were replaced by others" : "was replaced by another", first);
    }
}

/* What is said of all at the end. A rank that dies meanwhile has done its work, and so have the others. */
static int report_all(struct trainer *t, int done)
{
    int code = train_html_end(t, done);

    report_bad(t);
    if (code == EXIT_FINE)
        report_end(t);
    code = code == EXIT_FINE ? report_memory(t) : code;
    if (code == EXIT_FINE)
        report_sim(t);
    code = code == EXIT_FINE ? report_trace(t) : code;
    return done == EXIT_FINE && ranks_lost(t, code) ? EXIT_FINE : code;
}

static int train(struct trainer *t, bool artifact)
{
    int code;

    if ((code = describe_entries(t)) != EXIT_FINE || (code = trainer_settle_batch_size(t)) != EXIT_FINE ||
        (code = trainer_open_data(t)) != EXIT_FINE || (code = train_check_folder(t)) != EXIT_FINE ||
        (code = train_net_save(t)) != EXIT_FINE || (code = train_outputs_check(t)) != EXIT_FINE ||
        (code = ranks_agree(t)) != EXIT_FINE || (code = start_session(t)) != EXIT_FINE ||
        (option_set(t->o, OPT_resume) && !t->rank && (code = train_resume(t)) != EXIT_FINE) ||
        (code = ranks_share(t)) != EXIT_FINE || (code = train_log_resume(t)) != EXIT_FINE ||
        (code = train_events_open(t)) != EXIT_FINE || (code = trainer_settle_rate(t, artifact)) != EXIT_FINE ||
        (code = make_buffers(t)) != EXIT_FINE || (code = train_calibrate(t)) != EXIT_FINE)
        return code;
    t->skipped = trainer_scalar(t, "train.skipped", 0);
    t->late = train_reads_late(t);
    catch_signals();
    return report_all(t, loop(t));
}

static void free_entry(struct entry_info *e)
{
    free(e->in);
    free(e->out);
    free(e->axes);
}

static void close_trainer(struct trainer *t)
{
    loader_free(t->loader);
    loader_free(t->eval_loader);
    metrics_free(t->metrics);
    train_html_free(t);
    data_set_close(&t->data);
    data_set_close(&t->eval_data);
    data_tables_free(&t->tables);
    free_entry(&t->step);
    free_entry(&t->eval);
    free(t->in);
    free(t->out);
    free(t->losses);
    if (t->ctx)
        ir_ctx_free(t->ctx);
    model_close(&t->m);
}

/* What only a compiler can heed. */
static int check_compiled_in(const struct options *o)
{
    for (int i = 0; i < NOPTIONS; i++) {
        enum option_id id = (enum option_id)i;
        bool heeded = id == OPT_train || id == OPT_schedule || id == OPT_placement || id == OPT_split_axis ||
                      (id == OPT_data_parallel && *option_text(o, id, "")); /* under another name of the group */
        if (train_option(id) && !heeded && option_set(o, id))
            return usage_error(o, "--%s is compiled into an artifact: give the model, or compile it again",
                               option_table[id].long_name);
    }
    return EXIT_FINE;
}

/* Who comes from programs whose --target is a table's column is told how that is said here. */
static int check_target(const struct options *o)
{
    const char *target = option_text(o, OPT_target, "cpu");

    return options_knows(OPT_target, target)
               ? -1
               : usage_error(o,
                             "--target=%s: expected what the step is compiled for (cpu, cuda:LIST, neuron:MACHINE); "
                             "the column that is learned is --data target=FILE:%s",
                             target, target);
}

/* --emulate: the other processor's tccc-train does all of it. -1: go on here. In TCCC_FLAGS, which that one reads too,
 * it is for artifacts that need it. */
static int emulate(struct options *o, char **argv)
{
    char error[ERROR_SIZE];
    bool predicts = o->nwords > 1 && !strcmp(o->words[0], "predict");
    const char *path = o->nwords > predicts ? o->words[predicts] : "";
    bool artifact = model_is_artifact(path), inherited = o->given[OPT_emulate].n == o->given[OPT_emulate].inherited;

    if (inherited && !(artifact && emulate_foreign(path, error)))
        o->given[OPT_emulate].n = 0;
    if (!option_set(o, OPT_emulate))
        return -1;
    if (!artifact)
        return usage_error(o, "--emulate requires an artifact: tccc --train --march=... compiles one");
    int status = emulate_tool(path, tool_table[o->tool].name, option_text(o, OPT_emulate, ""), argv, error);
    return status == TCC_EUSAGE ? usage_error(o, "%s: %s", path, error)
                                : tool_error(o, trainer_code(status), "%s: %s", path, error);
}

static int run(const struct options *o, const struct train_net *net)
{
    struct trainer t = {.o = o, .net = net};
    static const enum option_id predict_options[] = {OPT_output, OPT_predict_format, OPT_predict_top};
    int code;

    if (o->nwords && !strcmp(o->words[0], "predict"))
        return predict_run(o);
    for (size_t i = 0; i < sizeof predict_options / sizeof *predict_options; i++)
        if (option_set(o, predict_options[i]))
            return usage_error(o, "--%s is for tccc-train predict", option_table[predict_options[i]].long_name);
    if (o->nwords != 1)
        return o->nwords ? usage_error(o, "more than one model: '%s'", o->words[1])
                         : usage_error(o, "no artifact or model given");
    bool artifact = model_is_artifact(o->words[0]);
    if (o->compiles_only && !artifact) /* one process of a machine, and no word to the others */
        return tccrt_env_text("LOCAL_RANK") && atoi(tccrt_env_text("LOCAL_RANK"))
                   ? EXIT_COMPILED
                   : model_open(o, o->words[0], &t.m, NULL);
    if ((code = ranks_begin(&t)) != EXIT_FINE)
        return code;
    if ((code = trainer_read_numbers(&t)) == EXIT_FINE && artifact)
        code = check_compiled_in(o);
    if (code == EXIT_FINE && (code = metrics_new(&t, &t.metrics)) == EXIT_FINE &&
        (code = control_read(&t)) == EXIT_FINE)
        code = train_log_open(&t);
    if (code == EXIT_FINE)
        code = train_serve_open(&t);
    if (code == EXIT_FINE)
        code = train_html_new(&t);
    if (code == EXIT_FINE)
        code = ranks_open(&t, artifact);
    if (code == EXIT_FINE)
        code = ranks_place(&t);
    if (code == EXIT_FINE)
        code = train(&t, artifact);
    code = ranks_end(&t, code);
    train_serve_close(&t);
    int logged = train_log_close(&t), told = train_events_close(&t);
    code = code != EXIT_FINE ? code : logged != EXIT_FINE ? logged : told;
    close_trainer(&t);
    return code;
}

int main(int argc, char **argv)
{
    struct options o;
    struct train_net net = {.scratch.alive = -1};
    int code = options_read(&o, TOOL_T, argc, argv);
    code = code < 0 ? check_target(&o) : code;
    code = code < 0 ? emulate(&o, argv) : code;
    if (code < 0 && option_set(&o, OPT_trials))
        code = train_sweep(&o, argv);
    bool made = code < 0 && option_set(&o, OPT_net);
    if (made && (code = train_net_begin(&o, &net)) == EXIT_FINE)
        code = -1;
    if (code < 0)
        code = run(&o, made ? &net : NULL);
    train_net_end(&net);
    return options_end(&o, code);
}
