/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-bench: how long an artifact or a model takes to compile, open, run first, and run warm. Inputs that are not
 * given are random; only the runs themselves are timed, with outputs in the session's memory.
 */
#include "base/safe.h"
#include "tools/bench/bench_int.h"
#include "tools/html/html_int.h"
#include "tools/run/sim_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MAX_RUNS 200
#define MIN_RUNS 5
#define RUN_MS 2000.0

struct bench {
    const struct options *o;
    struct model m;
    struct tcc_object **in, **out;
    struct tcc_tensor *tin, *tout;
    double first_ms, p50_ms, min_ms, gflops;
    double *times;
    int n, code;          /* of a run that has failed */
    struct tccrt_sim sim; /* a run's, where simulated */
    bool simulated;
};

/* One run; its time, or -1 after a message. */
static double try_run(struct bench *b, int *status)
{
    double start = now_ms();

    if ((*status = model_restart(&b->m)) != TCC_OK)
        return -1;
    if (b->m.tensors_only) {
        for (int i = 0; i < b->m.nout; i++)
            b->tout[i] = (struct tcc_tensor){0};
        start = now_ms();
        *status = tccrt_run(b->m.session, b->m.entry, b->m.nin, b->tin, b->m.nout, b->tout);
    } else {
        *status = tccrt_run_objects(b->m.session, b->m.entry, b->m.nin, b->in, b->m.nout, b->out);
    }
    double ms = now_ms() - start;
    if (!b->m.tensors_only)
        objects_free(b->out, b->m.nout);
    return *status == TCC_OK ? ms : -1;
}

static double failed_run(struct bench *b, int status, const char *error)
{
    b->code = tool_error(b->o, model_exit_code(status), "%s", error);
    return -1;
}

static double timed_run(struct bench *b)
{
    int status;
    double ms = try_run(b, &status);

    return status == TCC_OK ? ms : failed_run(b, status, tccrt_error());
}

static double run_of(void *user)
{
    return timed_run(user);
}

/* tccrt_run()'s view of the inputs. */
static void take_inputs(struct bench *b)
{
    for (int i = 0; b->m.tensors_only && i < b->m.nin; i++)
        b->tin[i] = b->in[i]->t;
}

/* The first run, at sizes that the model takes where nobody said them. */
static double first_run(struct bench *b)
{
    char error[ERROR_SIZE];
    int first;
    double ms = try_run(b, &first);

    if (first == TCC_OK)
        return ms;
    snprintf(error, sizeof error, "%s", tccrt_error());
    for (int status = first; status == TCC_EINPUT && inputs_resize(b->o, &b->m, true, 0, b->in);) {
        take_inputs(b);
        if ((ms = try_run(b, &status)) >= 0)
            return ms;
    }
    return failed_run(b, first, error);
}

static int measure(struct bench *b, int64_t runs)
{
    double start = now_ms();
    int most = runs > 0 ? (int)runs : MAX_RUNS;
    struct tccrt_sim before, after;
    bool simulated = tccrt_simulated(b->m.session, &before) == TCC_OK;

    b->times = malloc((size_t)most * sizeof *b->times);
    if (!b->times)
        return tool_error(b->o, EXIT_ENVIRONMENT, "no memory");
    while (b->n < most && (runs > 0 || b->n < MIN_RUNS || now_ms() - start < RUN_MS)) {
        double ms = timed_run(b);
        if (ms < 0)
            return b->code;
        b->times[b->n++] = ms;
    }
    if (simulated && tccrt_simulated(b->m.session, &after) == TCC_OK) {
        b->sim = sim_between(&before, &after, b->n);
        b->simulated = true;
    }
    b->p50_ms = sort_times(b->times, b->n);
    b->min_ms = b->times[0];
    return EXIT_FINE;
}

/* Floating-point operations of a run, by the plan's own figures: one run of a session that keeps a profile. */
static int count_flops(struct bench *b, int threads)
{
    struct tccrt_options options = {.threads = threads,
                                    .profile = true,
                                    .device = option_text(b->o, OPT_device, NULL),
                                    .sim = option_text(b->o, OPT_nc_sim, NULL),
                                    .rounding = option_text(b->o, OPT_nc_rounding, NULL)};
    const struct tccrt_profile_row *rows;
    struct tccrt_session *warm = b->m.session;
    double flops = 0;

    if (tccrt_session_new(b->m.artifact, &options, &b->m.session) != TCC_OK) {
        b->m.session = warm;
        return tool_error(b->o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    }
    double ms = timed_run(b);
    int n = ms < 0 ? 0 : tccrt_profile(b->m.session, &rows);
    for (int i = 0; i < n; i++)
        flops += rows[i].flops;
    tccrt_session_free(b->m.session);
    b->m.session = warm;
    double one = b->simulated ? b->sim.seconds * 1e3 : b->p50_ms;
    b->gflops = one > 0 ? flops / (one * 1e6) : 0;
    return ms < 0 ? b->code : EXIT_FINE;
}

static bool allocate(struct bench *b)
{
    size_t nin = (size_t)b->m.nin + 1, nout = (size_t)b->m.nout + 1;
    b->in = calloc(nin, sizeof *b->in);
    b->out = calloc(nout, sizeof *b->out);
    b->tin = calloc(nin, sizeof *b->tin);
    b->tout = calloc(nout, sizeof *b->tout);
    return b->in && b->out && b->tin && b->tout;
}

static void report(const struct bench *b)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double rss = (double)usage.ru_maxrss / 1024;
    const char *version = model_version(&b->m);

    if (option_set(b->o, OPT_json)) {
        printf("{\"compile_ms\":%.3f,\"load_ms\":%.3f,\"first_ms\":%.3f,\"p50_ms\":%.4f,\"min_ms\":%.4f,\"peak_rss_"
               "mb\":%.1f,\"gflops\":%.3f,\"version\":",
               b->m.compile_ms, b->m.load_ms, b->first_ms, b->p50_ms, b->min_ms, rss, b->gflops);
        if (version)
            tcr_print_json(stdout, version);
        fputs(version ? "" : "null", stdout);
        model_put_device(&b->m);
        if (b->simulated) {
            printf(",\"sim_ms\":%.9g,\"sim\":", b->sim.seconds * 1e3);
            sim_print_json(stdout, &b->sim);
        }
        puts("}");
    } else {
        printf(
            "compile %10.1f ms\nload    %10.3f ms\nfirst   %10.3f ms\nmedian  %10.4f ms of %d runs\nminimum %10.4f ms\n"
            "memory  %10.1f MB at most\nspeed   %10.3f GFLOP/s\n",
            b->m.compile_ms, b->m.load_ms, b->first_ms, b->p50_ms, b->n, b->min_ms, rss, b->gflops);
        if (version)
            printf("version %s\n", ir_shown(version));
        if (b->simulated)
            sim_print(stdout, &b->sim);
    }
    fflush(stdout);
}

static int bench(struct bench *b, int threads, int64_t runs)
{
    int given, code = inputs_runs(b->o, &b->m, &given);

    if (code == EXIT_FINE && given > 1)
        return usage_error(b->o, "an input is given %d times: tccc-bench has one run", given);
    if (code == EXIT_FINE)
        code = allocate(b) ? inputs_read(b->o, &b->m, true, 0, b->in) : tool_error(b->o, EXIT_ENVIRONMENT, "no memory");

    if (code == EXIT_FINE)
        take_inputs(b);
    double start = now_ms();
    if (code == EXIT_FINE)
        code = model_session(b->o, &b->m, threads, NULL);
    if (code != EXIT_FINE)
        return code;
    if (first_run(b) < 0)
        return b->code;
    b->first_ms = now_ms() - start;
    if (option_set(b->o, OPT_scaling)) {
        code = bench_scaling(b->o, &b->m, run_of, b);
        return code == EXIT_FINE ? b->code : code;
    }
    if ((code = measure(b, runs)) == EXIT_FINE && (code = count_flops(b, threads)) == EXIT_FINE)
        report(b);
    if (code == EXIT_FINE && option_set(b->o, OPT_html))
        code = bench_html(b->o, &b->m, &(struct bench_figures){b->first_ms, b->p50_ms, b->gflops, b->n, b->times});
    return code;
}

/* --what-if: the simulator models another machine. */
static bool predict(const struct options *o)
{
    const char *machine = option_text(o, OPT_what_if, NULL), *device = option_text(o, OPT_device, "sim");
    if (!machine)
        return true;
    if (strncmp(device, "sim", 3))
        return usage_error(o, "--what-if predicts by the simulator: --device=%s excludes it", device), false;
    setenv("TCCC_SIM_MACHINE", machine, 1);
    if (!option_set(o, OPT_device))
        setenv("TCCC_DEVICE", "sim", 1);
    return true;
}

static int run(struct options *o)
{
    struct bench b = {.o = o};
    int64_t threads = 0, runs = 0, tokens = 0;

    if (o->nwords == 0)
        return usage_error(o, "no artifact or model given");
    if (o->nwords > 1)
        return usage_error(o, "more than one model: '%s'", o->words[1]);
    if (!option_int(o, OPT_threads, 1, 4096, &threads) || !option_int(o, OPT_runs, 1, 10000000, &runs) ||
        !option_int(o, OPT_tokens, 2, 10000000, &tokens))
        return EXIT_USAGE;
    if (runs && tokens)
        return usage_error(o, "--runs and --tokens exclude each other");
    if (option_set(o, OPT_sweep) && (tokens || option_set(o, OPT_input)))
        return usage_error(o, "--shapes makes its own inputs: --%s excludes it", tokens ? "tokens" : "input");
    if (option_set(o, OPT_scaling) && (tokens || option_set(o, OPT_sweep) || option_set(o, OPT_html)))
        return usage_error(o, "--scaling excludes --tokens, --shapes and --html");
    if (tokens && option_set(o, OPT_html))
        return usage_error(o, "--tokens and --html exclude each other");
    if (!predict(o))
        return EXIT_USAGE;
    struct tccrt_comm *world; /* one process: the engine's name is checked, no more */
    int code = html_check(o);
    if (code == EXIT_FINE)
        code = model_world(o, true, &world);
    if (code == EXIT_FINE)
        code = model_open(o, o->words[0], &b.m, NULL);
    if (code != EXIT_FINE)
        return code;
    if (tokens && (code = model_session(o, &b.m, (int)threads, NULL)) == EXIT_FINE)
        code = bench_tokens(o, &b.m, tokens);
    else if (option_set(o, OPT_sweep))
        code = bench_shapes(o, &b.m, (int)threads, runs);
    else if (!tokens)
        code = bench(&b, (int)threads, runs);
    objects_drop(b.in, b.m.nin);
    free(b.out);
    free(b.tin);
    free(b.tout);
    free(b.times);
    model_close(&b.m);
    return code;
}

int main(int argc, char **argv)
{
    return options_run(TOOL_B, argc, argv, run);
}
