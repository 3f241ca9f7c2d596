/* SPDX-License-Identifier: Apache-2.0 */
/* The options of --train. */
#include "compiler/frontend.h"
#include "compiler/tccc.h"
#include "tools/model_int.h"

#include <stdlib.h>
#include <string.h>

static const enum option_id texts[] = {OPT_loss,      OPT_optimizer,  OPT_optimizer_state, OPT_schedule,
                                       OPT_precision, OPT_loss_scale, OPT_clip_norm,       OPT_accumulate,
                                       OPT_freeze,    OPT_train_only, OPT_step_outputs,    OPT_memory_budget,
                                       OPT_report};

/* 1500000, 64M, 1.5G: powers of 1024. */
static int read_size(const struct options *o, const char *text, unsigned long long *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;

    if (unit)
        end++;
    for (long i = 0; unit && i <= unit - units; i++)
        v *= 1024;
    if (end == text || *end || !(v >= 1 && v < 1e18))
        return usage_error(o, "--memory-budget=%s: expected a number of bytes, or one with K, M or G", text);
    *bytes = (unsigned long long)v;
    return EXIT_FINE;
}

/* What passes/ finds wrong with the texts. */
static int check(const struct options *o, const struct tccc_train *t)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    if (ctx && IR_PROTECT(ctx, &frame)) {
        code = EXIT_FINE;
        if (!frontend_train_check(ctx, t))
            code = usage_error(o, "%s", ir_nmessages(ctx) ? ir_message(ctx, ir_nmessages(ctx) - 1)->text : "--train");
        ir_unprotect(ctx);
    }
    ir_ctx_free(ctx);
    return code == EXIT_ENVIRONMENT ? tool_error(o, code, "no memory") : code;
}

bool train_wanted(const struct options *o)
{
    return option_set(o, OPT_train) || o->tool == TOOL_T;
}

int train_flags(const struct options *o, struct tccc_train *t)
{
    int64_t accumulate = 1;
    int code = EXIT_FINE;

    *t = (struct tccc_train){0};
    if (!train_wanted(o)) {
        t->auto_cast = option_text(o, OPT_auto_cast, NULL);
        t->auto_cast_type = option_text(o, OPT_auto_cast_type, NULL);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (option_set(o, texts[i]))
                return usage_error(o, "--%s is of use with --train only", option_table[texts[i]].long_name);
        return t->auto_cast || t->auto_cast_type ? check(o, t) : EXIT_FINE;
    }
    if (!option_float(o, OPT_clip_norm, &t->clip_norm) || !option_int(o, OPT_accumulate, 1, 1 << 20, &accumulate))
        return EXIT_USAGE;
    if (option_set(o, OPT_memory_budget) &&
        (code = read_size(o, option_text(o, OPT_memory_budget, ""), &t->memory_budget)) != EXIT_FINE)
        return code;
    t->accumulate = (int)accumulate;
    t->loss = option_text(o, OPT_loss, NULL);
    t->optimizer = option_text(o, OPT_optimizer, NULL);
    t->optimizer_state = option_text(o, OPT_optimizer_state, NULL);
    t->schedule = option_text(o, OPT_schedule, NULL);
    t->precision = option_text(o, OPT_precision, NULL);
    t->auto_cast = option_text(o, OPT_auto_cast, NULL);
    t->auto_cast_type = option_text(o, OPT_auto_cast_type, NULL);
    t->loss_scale = option_text(o, OPT_loss_scale, NULL);
    t->step_outputs = option_text(o, OPT_step_outputs, NULL);
    t->freeze = o->given[OPT_freeze].at;
    t->train_only = o->given[OPT_train_only].at;
    t->report = option_set(o, OPT_report) ? stderr : NULL;
    return check(o, t);
}
