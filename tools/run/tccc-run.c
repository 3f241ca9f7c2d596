/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-run: runs an artifact or a model on files or random values, or tests it on stored data. */
#include "tools/html/html_int.h"
#include "tools/bench/peak_int.h"
#include "tools/run/run_int.h"
#include "tools/run/sim_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool has_values(const struct options *o)
{
    const char *sim = option_text(o, OPT_nc_sim, getenv("TCCC_SIM"));
    return !sim || strcmp(sim, "time") != 0;
}

/* Modelled time of all runs, where --sim asks for it. */
static int show_simulated(const struct options *o, const struct model *m, const struct tccrt_sim *before, int runs)
{
    struct tccrt_sim now, run;

    if (!option_set(o, OPT_nc_sim))
        return EXIT_FINE;
    if (tccrt_simulated(m->session, &now) != TCC_OK)
        return tool_error(o, EXIT_USAGE, "--sim: %s", tccrt_error());
    run = sim_between(before, &now, runs);
    sim_print(stdout, &run);
    return EXIT_FINE;
}

/* run: its number, 0: the only one. */
static int show_outputs(const struct options *o, const struct model *m, int run, struct tcc_object **out)
{
    if (run)
        printf("run %d:\n", run);
    if (!has_values(o))
        return EXIT_FINE;
    for (int i = 0; i < m->nout; i++) {
        printf("%s: ", ir_shown(m->out[i].info.name));
        value_print(stdout, out[i]);
        putchar('\n');
    }
    if (fflush(stdout) != 0)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write standard output: %m");
    return outputs_write(o, m, run, out);
}

/* -- Profiles ------------------------------------------------------------------------------------------ */

static void print_row(const struct tccrt_profile_row *r, int runs, double total, double peak)
{
    double gflops = r->ns > 0 ? r->flops / r->ns : 0, ms = r->ns * 1e-6 / runs;
    fprintf(stderr, "%10.*f %6.1f %6" PRId64 " %9.2f %6.1f %9.2f  %s (%s)%s%s\n", ms < 0.1 ? 6 : 3, ms,
            total > 0 ? 100 * r->ns / total : 0, r->calls / runs, gflops, peak > 0 ? 100 * gflops / peak : 0,
            r->ns > 0 ? r->bytes / r->ns : 0, r->kernel ? ir_shown(r->kernel) : "", r->node ? ir_shown(r->node) : "",
            r->bound ? ", bound by " : "", r->bound ? r->bound : "");
}

/* GFLOP/s that the session's threads can do at best; 0: a device runs it. */
static double host_peak(const struct model *m)
{
    bool host = !strncmp(tccrt_device_used(m->session), "cpu", 3);
    return host ? peak_of(tccrt_isa_used(m->session), tccrt_threads(m->session)) : 0;
}

/* Rows come slowest first. Times and calls are those of one run on average; the peak is that of all threads. */
static int show_profile(const struct options *o, const struct model *m, int runs, double peak)
{
    const struct tccrt_profile_row *rows; /* a run's on average */
    const char *trace = option_text(o, OPT_profile, "");
    int n = tccrt_profile(m->session, &rows);
    const char *device = tccrt_device_used(m->session);
    bool host = !strncmp(device, "cpu", 3);
    struct tccrt_profile_row all = {.kernel = "all steps", .node = "a run"};

    if (n < 0)
        return tool_error(o, EXIT_ENVIRONMENT, "no profile: %s", tccrt_error());
    for (int i = 0; i < n; i++) {
        all.ns += strcmp(rows[i].kernel, "wait") ? rows[i].ns : 0; /* for what other rows have */
        all.flops += rows[i].flops;
        all.bytes += rows[i].bytes;
        all.calls += rows[i].calls;
    }
    const char *version = model_version(m);
    struct tccrt_sim sim;
    fprintf(stderr, "mean of %d runs", runs);
    if (host && peak > 0)
        fprintf(stderr, "; peak: %.1f GFLOP/s, %d-bit vectors", peak, peak_bits_of(tccrt_isa_used(m->session)));
    if (!host)
        fprintf(stderr, " on device '%s'%s", device, tccrt_simulated(m->session, &sim) ? "" : ", in modelled time");
    fputc('\n', stderr);
    if (version)
        fprintf(stderr, "version of '%s' for %s\n", ir_shown(m->entry), ir_shown(version));
    fprintf(stderr, "%10s %6s %6s %9s %6s %9s  %s\n", "ms", "%", "calls", "GFLOP/s", "% peak", "GB/s", "kernel (node)");
    for (int i = 0; i < n; i++)
        print_row(&rows[i], runs, all.ns, peak);
    print_row(&all, runs, all.ns, peak);
    struct tccrt_memory memory;
    if (tccrt_memory(m->session, m->entry, &memory) == TCC_OK && memory.device_peak)
        fprintf(stderr, "memory of the device: %.3f MB, at most %.3f MB, and %.3f MB of weights; it has %.0f MB\n",
                (double)memory.device / 1e6, (double)memory.device_peak / 1e6, (double)memory.device_weights / 1e6,
                (double)memory.device_bytes / 1e6);
    if (tccrt_simulated(m->session, &sim) == TCC_OK) {
        sim = sim_between(&(struct tccrt_sim){0}, &sim, runs + 1); /* and the first */
        sim_print(stderr, &sim);
    }
    if (*trace && tccrt_profile_trace(m->session, trace) != TCC_OK)
        return tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    return EXIT_FINE;
}

static int run_status(const struct options *o, int status, const char *error)
{
    return tool_error(o,
                      status == TCC_EENV   ? EXIT_ENVIRONMENT
                      : status == TCC_EBUG ? EXIT_BUG
                                           : EXIT_DATA,
                      "%s", error);
}

/* The first run, which has been, warmed up: measured are further ones, half a second long. */
static int profile(const struct options *o, struct model *m, struct tcc_object **in)
{
    struct tcc_object **out = calloc((size_t)m->nout + 1, sizeof *out);
    double start = peak_seconds();
    char error[ERROR_SIZE];
    int runs = 0, status = out ? tccrt_profile_reset(m->session) : TCC_EENV;

    for (; status == TCC_OK && runs < 100 && (!runs || peak_seconds() - start < 0.5); runs++) {
        if ((status = model_restart(m)) == TCC_OK)
            status = model_run(m, in, out, error);
        else
            snprintf(error, sizeof error, "%s", tccrt_error());
        objects_free(out, m->nout);
    }
    double ms = (peak_seconds() - start) * 1e3 / (runs ? runs : 1);
    free(out);
    if (status != TCC_OK)
        return run_status(o, status, error);
    double peak = host_peak(m);
    int code = option_set(o, OPT_profile) ? show_profile(o, m, runs, peak) : EXIT_FINE;
    return code == EXIT_FINE && option_set(o, OPT_html)
               ? html_run(o, m, &(struct html_runs){runs, runs + 1, ms, peak, NULL})
               : code;
}

/* Run number `run` (from 0) of `runs`. */
static int run_one(const struct options *o, struct model *m, int run, int runs, struct tcc_object **in,
                   struct tcc_object **out)
{
    char error[ERROR_SIZE];
    int code = inputs_read(o, m, false, run, in);

    if (code == EXIT_FINE) {
        int status = inputs_run(o, m, run, in, out, error);
        if (status != TCC_OK)
            code = run_status(o, status, error);
    }
    if (code == EXIT_FINE)
        code = show_outputs(o, m, runs > 1 ? run + 1 : 0, out);
    if (code == EXIT_FINE && (option_set(o, OPT_profile) || option_set(o, OPT_html)) && run == runs - 1)
        code = profile(o, m, in);
    return code;
}

static int run_all(const struct options *o, struct model *m)
{
    struct tcc_object **in = calloc((size_t)m->nin + 1, sizeof *in), **out = calloc((size_t)m->nout + 1, sizeof *out);
    int runs, code = in && out ? inputs_runs(o, m, &runs) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    struct tccrt_sim before = {0};

    if (code == EXIT_FINE && m->session && tccrt_simulated(m->session, &before) != TCC_OK && option_set(o, OPT_nc_sim))
        code = tool_error(o, EXIT_USAGE, "--sim: %s", tccrt_error());

    for (int run = 0; code == EXIT_FINE && run < runs; run++) {
        objects_free(in, m->nin);
        objects_free(out, m->nout);
        code = run_one(o, m, run, runs, in, out);
    }
    if (code == EXIT_FINE && !option_set(o, OPT_profile))
        code = show_simulated(o, m, &before, runs);
    objects_drop(in, m->nin);
    objects_drop(out, m->nout);
    return code;
}

static int run_model(const struct options *o)
{
    struct model m;
    int64_t threads = 0;
    const char *load = option_text(o, OPT_load, NULL);

    if (o->nwords > 1)
        return usage_error(o, "more than one model: '%s'", o->words[1]);
    if (!option_int(o, OPT_threads, 1, 4096, &threads))
        return EXIT_USAGE;
    if (option_set(o, OPT_interpret) && option_set(o, OPT_profile))
        return usage_error(o, "--profile and --interpret exclude each other");
    if (option_set(o, OPT_html) && (option_set(o, OPT_interpret) || option_set(o, OPT_data)))
        return usage_error(o, "--html reports a profile: --%s excludes it",
                           option_set(o, OPT_data) ? "data" : "interpret");
    if (option_set(o, OPT_interpret) && load)
        return usage_error(o, "--load and --interpret exclude each other");
    if (option_set(o, OPT_use_ema) && !load)
        return usage_error(o, "--use-ema requires --load FILE");
    struct tccrt_comm *world; /* one process: the engine's name is checked, no more */
    int code = html_check(o);
    if (code == EXIT_FINE)
        code = model_world(o, true, &world);
    if (code == EXIT_FINE)
        code = model_open(o, o->words[0], &m, NULL);
    if (code != EXIT_FINE)
        return code;
    code = model_session(o, &m, (int)threads, NULL);
    if (code == EXIT_FINE && load && tccrt_checkpoint_load(m.session, load, TCCRT_CHECKPOINT_WEIGHTS) != TCC_OK)
        code = tool_error(o, EXIT_DATA, "%s", tccrt_error());
    if (code == EXIT_FINE && option_set(o, OPT_use_ema))
        code = ema_load(o, &m, load);
    if (code == EXIT_FINE)
        code = option_set(o, OPT_data) ? run_data(o, &m) : run_all(o, &m);
    model_close(&m);
    return code;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The model is the first word that is no folder; all folders are test data. */
static int run_tests(const struct options *o)
{
    const char *model = NULL;
    int ndirs = 0, code;
    const char **dirs = calloc((size_t)(o->nwords + o->given[OPT_test_data].n) + 1, sizeof *dirs);

    if (!dirs)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    for (int i = 0; i < o->given[OPT_test_data].n; i++)
        dirs[ndirs++] = o->given[OPT_test_data].at[i];
    for (int i = 0; i < o->nwords; i++) {
        if (!model && !is_folder(o->words[i]))
            model = o->words[i];
        else
            dirs[ndirs++] = o->words[i];
    }
    if (!model)
        code = usage_error(o, "no artifact or model given");
    else if (ndirs > 1 && option_set(o, OPT_output_dir))
        code = usage_error(o, "--output-dir with more than one folder of test data");
    else
        code = testdata_all(o, model, dirs, ndirs);
    free(dirs);
    return code;
}

/* --emulate runs entry points; what looks into a session has none here. */
static int emulate_check(const struct options *o)
{
    static const enum option_id others[] = {OPT_interpret, OPT_profile, OPT_html,  OPT_data,
                                            OPT_compare,   OPT_against, OPT_load,  OPT_use_ema,
                                            OPT_device,    OPT_nc_sim,  OPT_guard, OPT_trace};
    for (size_t i = 0; option_set(o, OPT_emulate) && i < sizeof others / sizeof *others; i++)
        if (option_set(o, others[i]))
            return usage_error(o, "--emulate and --%s exclude each other", option_table[others[i]].long_name);
    return EXIT_FINE;
}

static int run(struct options *o)
{
    const char *suite = option_text(o, OPT_test_suite, NULL);

    if (emulate_check(o) != EXIT_FINE)
        return EXIT_USAGE;
    if (option_set(o, OPT_html) && (suite || option_set(o, OPT_check) || option_set(o, OPT_test_data)))
        return usage_error(o, "--html reports a run, and no test");
    if (suite) {
        if (o->nwords || option_set(o, OPT_test_data) || option_set(o, OPT_output_dir))
            return usage_error(o, "--test-suite takes no model, no --test-data and no --output-dir");
        return suite_run(o, suite);
    }
    if (option_set(o, OPT_list) || option_set(o, OPT_write_list))
        return usage_error(o, "--list and --write-list belong to --test-suite");
    if (o->nwords == 0)
        return usage_error(o, "no artifact or model given");
    if (run_data_check(o) != EXIT_FINE)
        return EXIT_USAGE;
    if (option_set(o, OPT_compare))
        return o->nwords > 1 ? usage_error(o, "more than one model: '%s'", o->words[1]) : compare_run(o, o->words[0]);
    if (option_set(o, OPT_against))
        return o->nwords > 1 ? usage_error(o, "more than one model: '%s'", o->words[1]) : against_run(o, o->words[0]);
    if (option_set(o, OPT_check))
        return o->nwords > 1 ? usage_error(o, "more than one model: '%s'", o->words[1]) : check_run(o, o->words[0]);
    return option_set(o, OPT_test_data) ? run_tests(o) : run_model(o);
}

int main(int argc, char **argv)
{
    return options_run(TOOL_R, argc, argv, run);
}
