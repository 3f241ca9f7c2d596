/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - what a training run is: the numbers of the command line, the data, batches and steps, the learning rate
 * that goes with them.
 */
#include "tools/train/train_int.h"

#include "passes/train/train.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

int trainer_read_numbers(struct trainer *t)
{
    const struct options *o = t->o;
    int64_t seed = 0, per = 1, ranks = t->ranks, rank = t->rank;

    t->global_batch = 0;
    t->outputs_every = 1;
    t->epochs = option_set(o, OPT_steps) ? INT32_MAX : 1;
    if (!option_int(o, OPT_batch_size, 1, 1 << 24, &t->global_batch) ||
        !option_int(o, OPT_epochs, 1, INT32_MAX, &t->epochs) ||
        !option_int(o, OPT_steps, 1, INT64_MAX / 2, &t->steps) || !option_int(o, OPT_seed, 0, INT64_MAX, &seed) ||
        !option_int(o, OPT_eval_every, 1, INT64_MAX / 2, &t->eval_every) ||
        !option_int(o, OPT_checkpoint_every, 1, INT64_MAX / 2, &t->checkpoint_every) ||
        !option_int(o, OPT_save_every, 1, INT64_MAX / 2, &t->outputs_every) ||
        !option_int(o, OPT_per_execution, 1, 65536, &per) || !option_int(o, OPT_ranks, 1, 1 << 20, &ranks) ||
        !option_int(o, OPT_rank, 0, ranks - 1, &rank) || !option_int(o, OPT_skip_bad, 1, INT64_MAX / 2, &t->skip_bad))
        return EXIT_USAGE;
    if (t->ranks > 1 && (option_set(o, OPT_ranks) || option_set(o, OPT_rank)))
        return usage_error(o, "--ranks and --rank are the launcher's to say");
    const char *shard = option_text(o, OPT_shard, "interleaved");
    if (strcmp(shard, "interleaved") && strcmp(shard, "contiguous"))
        return usage_error(o, "--shard=%s: expected interleaved or contiguous", shard);
    if (!option_set(o, OPT_data))
        return usage_error(o, "no data: --data FILE.npz, or --data NAME=FILE for each input of the step");
    if (option_set(o, OPT_resume) && !option_set(o, OPT_checkpoint))
        return usage_error(o, "--resume requires --checkpoint DIR");
    if (option_set(o, OPT_overwrite) && !option_set(o, OPT_checkpoint))
        return usage_error(o, "--overwrite requires --checkpoint DIR");
    if (option_set(o, OPT_overwrite) && option_set(o, OPT_resume))
        return usage_error(o, "--resume and --overwrite exclude each other");
    t->evaluates = option_set(o, OPT_eval_data) || option_set(o, OPT_split);
    if (!option_float(o, OPT_split, &t->split))
        return EXIT_USAGE;
    if (option_set(o, OPT_split) && !(t->split > 0 && t->split < 1))
        return usage_error(o, "--split=%s: expected a share between 0 and 1", option_text(o, OPT_split, ""));
    if (option_set(o, OPT_split) && option_set(o, OPT_eval_data))
        return usage_error(o, "--split and --eval-data exclude each other");
    if ((option_set(o, OPT_eval_every) || option_set(o, OPT_eval)) && !t->evaluates)
        return usage_error(o, "--eval%s requires --eval-data or --split", option_set(o, OPT_eval) ? "" : "-every");
    const char *eval = option_text(o, OPT_eval, "rank0");
    if (strcmp(eval, "rank0") && strcmp(eval, "sharded"))
        return usage_error(o, "--eval=%s: expected rank0 or sharded", eval);
    if (option_set(o, OPT_checkpoint_every) && !option_set(o, OPT_checkpoint))
        return usage_error(o, "--checkpoint-every requires --checkpoint DIR");
    if (option_set(o, OPT_save_every) && !option_set(o, OPT_save_outputs))
        return usage_error(o, "--save-outputs-every requires --save-outputs DIR");
    if (option_set(o, OPT_use_ema) && !t->evaluates)
        return usage_error(o, "--use-ema requires --eval-data or --split");
    if (option_set(o, OPT_partial) && !option_set(o, OPT_checkpoint))
        return usage_error(o, "--partial requires --checkpoint DIR");
    t->per_execution = (int)per;
    t->drop_last = option_set(o, OPT_drop_last);
    t->best_loss = INFINITY;
    t->quiet = option_set(o, OPT_quiet) && !option_set(o, OPT_json);
    t->json = option_set(o, OPT_json) || (!t->quiet && (!isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO)));
    t->sampler = (struct trace_sampler){.ranks = (int)ranks,
                                        .rank = (int)rank,
                                        .shuffle = !option_set(o, OPT_no_shuffle),
                                        .drop_last = t->drop_last,
                                        .contiguous = strcmp(shard, "contiguous") == 0,
                                        .seed = (uint64_t)seed};
    return EXIT_FINE;
}

int trainer_settle_batch_size(struct trainer *t)
{
    for (int i = 0; i < t->step.nin; i++) {
        int axis = t->step.axes[i];
        int64_t n = axis >= 0 && axis < t->step.in[i].rank ? t->step.in[i].dims[axis] : -1;
        if (n < 0)
            continue;
        t->fixed_batch = true;
        if (!t->global_batch || t->joins)
            t->global_batch = n * t->ranks;
        if (t->global_batch != n * t->ranks)
            return tool_error(t->o, EXIT_DATA,
                              "--batch-size %" PRId64 ": input '%s' was compiled for batches of %" PRId64 "%s",
                              t->global_batch, t->step.in[i].name, n, t->ranks > 1 ? " on each rank" : "");
    }
    if (!t->global_batch)
        t->global_batch = 32;
    t->batch_size = t->global_batch / t->ranks ? t->global_batch / t->ranks : 1;
    t->micros = tccrt_microbatches(t->m.artifact, t->step.name);
    if (t->batch_size % t->micros)
        return tool_error(t->o, EXIT_DATA,
                          "--batch-size %" PRId64 ": %" PRId64
                          " samples on a rank are no multiple of the %d microbatches",
                          t->global_batch, t->batch_size, t->micros);
    return EXIT_FINE;
}

/* --eval-data, or what --split takes out of --data. */
static int open_eval_data(struct trainer *t)
{
    if (t->evaluates && !t->eval.name)
        return tool_error(t->o, EXIT_DATA, "--%s: the artifact has no entry point 'eval'",
                          t->split > 0 ? "split" : "eval-data");
    if (t->split > 0)
        return data_set_split(t->o, &t->data, t->split, t->sampler.seed, t->eval.in, t->eval.axes, t->eval.nin,
                              &t->eval_data);
    return t->evaluates
               ? data_set_open(t->o, OPT_eval_data, t->eval.in, t->eval.axes, t->eval.nin, &t->tables, &t->eval_data)
               : EXIT_FINE;
}

int trainer_count_batches(struct trainer *t)
{
    int64_t count = trace_sampler_count(&t->sampler);
    bool says = t->chief && !option_set(t->o, OPT_quiet);

    t->drop_last = t->sampler.drop_last;
    if (t->fixed_batch && count % t->batch_size && !t->drop_last) {
        if (says)
            fprintf(stderr,
                    "note: the step was compiled for batches of %" PRId64 ": an epoch leaves out its last %" PRId64
                    " of %" PRId64 " samples\n",
                    t->batch_size, count % t->batch_size, count);
        t->drop_last = true;
    }
    if (!t->drop_last && count % t->batch_size % t->micros) {
        if (option_set(t->o, OPT_strict_batch))
            return tool_error(t->o, EXIT_DATA,
                              "--strict-batch: an epoch's last %" PRId64
                              " samples are no multiple of the %d microbatches",
                              count % t->batch_size, t->micros);
        if (says)
            fprintf(stderr,
                    "note: an epoch leaves out its last %" PRId64 " of %" PRId64
                    " samples: %d microbatches don't divide them\n",
                    count % t->batch_size, count, t->micros);
        t->drop_last = true;
    }
    t->per_epoch = t->drop_last ? count / t->batch_size : (count + t->batch_size - 1) / t->batch_size;
    return t->per_epoch ? EXIT_FINE
                        : tool_error(t->o, EXIT_DATA, "%" PRId64 " samples are less than one batch of %" PRId64, count,
                                     t->batch_size);
}

int trainer_open_data(struct trainer *t)
{
    int code = train_tables(t);

    if (code != EXIT_FINE || (code = ranks_tables(t)) != EXIT_FINE ||
        (code = data_set_open(t->o, OPT_data, t->step.in, t->step.axes, t->step.nin, &t->tables, &t->data)) !=
            EXIT_FINE)
        return code;
    if (t->chief) {
        data_set_notes(t->o, &t->data);
        data_tables_notes(t->o, &t->tables);
    }
    data_tables_close(&t->tables);
    t->tables.frozen = true;
    if ((code = open_eval_data(t)) != EXIT_FINE)
        return code;
    t->sampler.samples = t->data.samples;
    return trainer_count_batches(t);
}

int trainer_settle_rate(struct trainer *t, bool artifact)
{
    const char *text = option_text(t->o, OPT_schedule, NULL);
    double lr = trainer_scalar(t, "train.rate", 0);

    if (!option_float(t->o, OPT_lr, &lr))
        return EXIT_USAGE;
    if (option_set(t->o, OPT_lr) && !trainer_set_scalar(t, "train.rate", lr))
        return tool_error(t->o, EXIT_DATA, "--lr: the artifact has no state variable 'train.rate'");
    if (t->control.plateau && t->resumed && t->control.resumed_rate > 0) {
        lr = t->control.resumed_rate;
        if (!trainer_set_scalar(t, "train.rate", lr))
            return tool_error(t->o, EXIT_DATA, "--plateau: the artifact has no state variable 'train.rate'");
    }
    t->base_rate = lr;
    if (!text || !artifact)
        return EXIT_FINE;
    t->by_step = strstr(text, "unit=step") != NULL;
    struct ir_protect frame;
    volatile bool ok = false;
    t->ctx = ir_ctx_new();
    if (t->ctx && IR_PROTECT(t->ctx, &frame)) {
        t->schedule = train_schedule_new(t->ctx, text);
        ok = t->schedule != NULL;
        ir_unprotect(t->ctx);
    }
    if (!ok)
        return usage_error(t->o, "%s",
                           t->ctx && ir_nmessages(t->ctx) ? ir_message(t->ctx, 0)->text : "--lr-schedule: no memory");
    if (!trainer_set_scalar(t, "train.scheduled", 0))
        return tool_error(t->o, EXIT_DATA, "--lr-schedule: the artifact has no state variable 'train.scheduled'");
    return EXIT_FINE;
}
