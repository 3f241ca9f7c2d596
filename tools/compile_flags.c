/* SPDX-License-Identifier: Apache-2.0 */
/* The compile flags that tccc, tccc-run and tccc-bench share, and where the compiler's messages and progress go. */
#include "runtime/neuron_isa.h"
#include "runtime/tccrt.h"
#include "base/env.h"
#include "tools/run/model_int.h"

#include "compiler/tccc.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double now_ms(void)
{
    return 1e-6 * tcr_now();
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double sort_times(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, ascending);
    return n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

/* Notes and warnings go with -q; errors always show. */
static void show_message(void *user, int severity, const char *text)
{
    const struct options *o = user;
    if (severity >= IR_ERROR || !option_set(o, OPT_quiet))
        fprintf(stderr, "%s\n", text);
}

/* A line that is written over, from the second second on, on a terminal only. */
static void show_progress(void *user, const char *what, double fraction)
{
    static double start, last;
    static bool shown;
    double now = now_ms();
    (void)user;

    if (start == 0)
        start = now;
    bool ended = fraction >= 1;
    if (now - start < 1000 || (now - last < 100 && !ended))
        return;
    last = now;
    if (!ended) {
        fprintf(stderr, "\r\033[K%3.0f%% %s", 100 * fraction, what);
        shown = true;
    } else if (shown) {
        fprintf(stderr, "\r\033[K");
    }
    fflush(stderr);
}

/* --dump-ir: words, or the name of a pass; --pipeline: a pipeline or a list of passes. */
static int check_passes(const struct options *o)
{
    static const char *const words[] = TCCC_DUMPS;
    struct ir_ctx *ctx = ir_ctx_new();
    int code = EXIT_FINE;

    if (!ctx)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < o->given[OPT_dump_ir].n && code == EXIT_FINE; i++) {
        const char *what = o->given[OPT_dump_ir].at[i];
        bool known = strncmp(what, "before:", 7) == 0 || strncmp(what, "after:", 6) == 0;
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            known |= strcmp(words[k], what) == 0;
        if (!known)
            code = usage_error(
                o,
                "--dump-ir=%s: expected before:PASS, after:PASS, all, kernels, plan, memory, llvm, asm, ptx or neuron",
                what);
    }
    struct pass_options dumps = {.dump = o->given[OPT_dump_ir].at};
    if (code == EXIT_FINE && !pass_check(ctx, option_text(o, OPT_pipeline, ""), &dumps))
        code = usage_error(o, "%s", ir_message(ctx, 0)->text);
    ir_ctx_free(ctx);
    return code;
}

static int check_name(const struct options *o)
{
    const char *name = option_text(o, OPT_name, "model");
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    if (n == 0 || name[n] || (*name >= '0' && *name <= '9'))
        return usage_error(o, "--name=%s: expected a C identifier", name);
    return EXIT_FINE;
}

int compile_options(const struct options *o, struct tccc_options *c)
{
    static struct tccc_train train; /* a process has one command line */
    int code;

    tccc_options_init(c);
    if (!fields_compile(o, c))
        return EXIT_USAGE;
    if (c->exact && c->fast_math)
        return usage_error(o, "--exact and --fast-math exclude each other");
    if ((code = check_passes(o)) != EXIT_FINE || (code = check_name(o)) != EXIT_FINE)
        return code;
    if ((code = compile_heeds(o)) != EXIT_FINE || (code = train_flags(o, &train)) != EXIT_FINE)
        return code;
    c->train = train_wanted(o) ? &train : NULL;
    if (c->train && c->states)
        return usage_error(o, "--state and --train exclude each other");
    if (option_set(o, OPT_adapter) && c->train)
        return usage_error(o, "--adapter is for inference; --lora=adapter:DIR trains on from one");
    if (c->defaults && (c->train || c->states))
        return usage_error(o, "--defaults and --%s exclude each other", c->train ? "train" : "state");
    c->auto_cast = auto_cast_words(o);
    c->target = neuron_env_target(o, c->target);
    c->dump_to = stderr;
    if (!c->cache_dir)
        c->cache_dir = tccrt_env_text("TCCC_CACHE_DIR");
    if (c->cache_dir && !*c->cache_dir)
        c->cache_dir = NULL;
    c->time_passes |= c->verbose;
    if (c->strict_device) /* what is there already was not asked */
        c->cache_dir = NULL;
    c->message = show_message;
    c->progress = isatty(STDERR_FILENO) && !option_set(o, OPT_quiet) ? show_progress : NULL;
    c->user = (void *)(uintptr_t)o;
    return EXIT_FINE;
}

static void no_message(void *user, int severity, const char *text)
{
    (void)user, (void)severity, (void)text;
}

/* The compiler failed by its own fault: once more, this time with the IR written down before each pass (always doing so
 * would cost more than compiling), but for its big constants, which are written once. The file is there afterwards if a
 * pass was at fault. */
static void leave_reproducer(const struct options *o, const struct tccc_options *c)
{
    struct tccc_options again = *c;
    char path[64], weights[64];

    again.verify = true; /* it begins with the pass that is at fault, not with the one that meets what that left */
    again.reproducer = ".";
    again.message = no_message;
    again.progress = NULL;
    again.dumps = NULL;
    again.facts = NULL;
    again.time_passes = false;
    tccc_compile(&again);
    snprintf(path, sizeof path, "tccc-reproducer-%d.tcir", (int)getpid());
    snprintf(weights, sizeof weights, "tccc-reproducer-%d.weights", (int)getpid());
    bool kept = access(path, F_OK) == 0;
    if (!kept)
        unlink(weights);
    if (kept && access(weights, F_OK) == 0)
        tool_error(o, EXIT_BUG, "please report it with the files '%s' and '%s'", path, weights);
    else if (kept)
        tool_error(o, EXIT_BUG, "please report it with the file '%s'", path);
    else
        tool_error(o, EXIT_BUG, "please report it with the model");
}

int compile_model(const struct options *o, const struct tccc_options *c)
{
    int code = tccc_compile(c);
    if (code == EXIT_BUG)
        leave_reproducer(o, c);
    return code;
}
