/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-bench --tokens: a decoder whose session holds the past. The first token comes from the inputs as they are given
 * (a prompt, by --input or
 * --shape; else one token), each later one from inputs of one token. Sizes that grow with the past (a mask's) are found
 * by trying: those which the model takes for the second token. Where the session doesn't count tokens (state.md: the
 * model's own inputs say where new elements go) any size would be taken, so one grows in any case: of the latest
 * inputs' first, as those that say which tokens are new come first. Integers of such sizes are ones, for a mask.
 */
#include "tools/bench/bench_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_NAMES = 16 };

struct decoding {
    const struct options *o;
    struct model *m;
    struct tcc_object **in, **out;
    int nnames;
    const char *names[MOST_NAMES]; /* symbols of the inputs' dims */
    bool grows[MOST_NAMES];
    int64_t size[MOST_NAMES]; /* at the last run */
};

/* The session's count of the tokens that it holds, or -1: it has none. */
static int64_t position(const struct decoding *d)
{
    struct tcc_tensor t;
    return tccrt_state_get(d->m->session, "position", &t) == TCC_OK ? *(const int64_t *)t.data : -1;
}

/* How many tokens the caches hold: with no count, as many as the sizes that grow had at the last run. */
static int64_t tokens_held(const struct decoding *d)
{
    int64_t most = position(d);
    for (int i = 0; i < d->nnames && most < 0; i++)
        most = d->grows[i] ? d->size[i] : most;
    return most < 0 ? 0 : most;
}

static int name_of(const struct decoding *d, const char *name)
{
    int i = 0;
    while (i < d->nnames && strcmp(d->names[i], name))
        i++;
    return i;
}

static void collect_names(struct decoding *d)
{
    for (int i = 0; i < d->m->nin; i++) {
        const struct tccrt_value_info *info = &d->m->in[i].info;
        for (int k = 0; k < info->rank; k++)
            if (info->dims[k] < 0 && info->dim_names[k] && name_of(d, info->dim_names[k]) == d->nnames &&
                d->nnames < MOST_NAMES) {
                d->names[d->nnames] = info->dim_names[k];
                d->size[d->nnames++] = d->in[i]->kind == TCC_OBJ_TENSOR ? d->in[i]->t.dims[k] : 1;
            }
    }
}

static void fill_ones(struct tcc_tensor *t)
{
    int64_t n = tcc_elements(t->rank, t->dims), bytes = tcc_dtype_bytes((enum tcc_dtype)t->dtype);
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)t->dtype);
    for (int64_t i = 0; i < n && class != TCC_CLASS_FLOAT && class != TCC_CLASS_COMPLEX; i++)
        tcc_store_i64((enum tcc_dtype)t->dtype, (char *)t->data + i * bytes, 1);
}

/* Random inputs for one token behind `held`. */
static bool make_inputs(struct decoding *d, int64_t held)
{
    objects_free(d->in, d->m->nin);
    for (int i = 0; i < d->m->nin; i++) {
        const struct tccrt_value_info *info = &d->m->in[i].info;
        int64_t dims[TCC_MAX_RANK];
        bool grown = false;
        for (int k = 0; k < info->rank; k++) {
            int name = info->dims[k] < 0 && info->dim_names[k] ? name_of(d, info->dim_names[k]) : d->nnames;
            bool grows = name < d->nnames && d->grows[name];
            dims[k] = info->dims[k] >= 0 ? info->dims[k] : grows ? held + 1 : 1;
            grown = grown || grows;
        }
        d->in[i] = value_random(info->dtype, info->rank < 0 ? 0 : info->rank, dims, 0, i);
        if (!d->in[i])
            return false;
        if (grown)
            fill_ones(&d->in[i]->t);
    }
    for (int i = 0; i < d->nnames; i++)
        d->size[i] = d->grows[i] ? held + 1 : d->size[i];
    return true;
}

/* One run; its time, or -1. */
static double timed_run(struct decoding *d)
{
    double start = now_ms();
    int status = tccrt_run_objects(d->m->session, d->m->entry, d->m->nin, d->in, d->m->nout, d->out);
    double ms = now_ms() - start;
    objects_free(d->out, d->m->nout);
    return status == TCC_OK ? ms : -1;
}

/* A run for the second token; which sizes grow with the past: none, one, the latest first, all. */
static double second_token(struct decoding *d)
{
    char first[ERROR_SIZE] = "";
    for (int attempt = position(d) >= 0 || !d->nnames ? d->nnames : d->nnames - 1; attempt >= -1; attempt--) {
        for (int i = 0; i < d->nnames; i++)
            d->grows[i] = attempt == i || attempt == -1;
        if (!make_inputs(d, tokens_held(d))) {
            tool_error(d->o, EXIT_ENVIRONMENT, "no memory");
            return -1;
        }
        double ms = timed_run(d);
        if (ms >= 0)
            return ms;
        if (!*first)
            snprintf(first, sizeof first, "%s", tccrt_error());
    }
    tool_error(d->o, EXIT_DATA, "the second token: %s", first);
    return -1;
}

static void report(const struct decoding *d, double first, int n, double *times)
{
    struct rusage usage;
    double sum = 0;

    getrusage(RUSAGE_SELF, &usage);
    for (int i = 0; i < n; i++)
        sum += times[i];
    double median = sort_times(times, n);
    double rss = (double)usage.ru_maxrss / 1024, speed = sum > 0 ? n * 1e3 / sum : 0;
    if (option_set(d->o, OPT_json)) {
        printf("{\"compile_ms\":%.3f,\"load_ms\":%.3f,\"first_ms\":%.3f,\"p50_ms\":%.4f,\"min_ms\":%.4f,\"p90_ms\":%."
               "4f,\"p99_ms\":%.4f,"
               "\"peak_rss_mb\":%.1f,\"tokens\":%d,\"tokens_per_s\":%.2f",
               d->m->compile_ms, d->m->load_ms, first, median, times[0], times[n * 9 / 10], times[n * 99 / 100], rss,
               n + 1, speed);
        model_put_device(d->m);
        puts("}");
    } else {
        printf("compile %10.1f ms\nload    %10.3f ms\nfirst   %10.3f ms (the first token)\nmedian  %10.4f ms of %d "
               "later tokens\n"
               "minimum %10.4f ms\nmemory  %10.1f MB at most\nspeed   %10.2f tokens a second\n",
               d->m->compile_ms, d->m->load_ms, first, median, n, times[0], rss, speed);
    }
    fflush(stdout);
}

static int decode(struct decoding *d, int n, double *times)
{
    int code = inputs_read(d->o, d->m, true, 0, d->in);
    double first;

    if (code != EXIT_FINE)
        return code;
    collect_names(d);
    if ((first = timed_run(d)) < 0)
        return tool_error(d->o, EXIT_DATA, "%s", tccrt_error());
    for (int i = 0; i < n; i++) {
        times[i] = i == 0 ? second_token(d) : make_inputs(d, tokens_held(d)) ? timed_run(d) : -1;
        if (times[i] < 0)
            return i ? tool_error(d->o, EXIT_DATA, "token %d: %s", i + 2, tccrt_error()) : EXIT_DATA;
    }
    report(d, first, n, times);
    return EXIT_FINE;
}

int bench_tokens(const struct options *o, struct model *m, int64_t tokens)
{
    struct decoding d = {.o = o, .m = m};
    int code;

    if (!tccrt_nstates(m->artifact))
        return usage_error(o, "--tokens requires a model whose session holds the past (--state)");
    d.in = calloc((size_t)m->nin + 1, sizeof *d.in);
    d.out = calloc((size_t)m->nout + 1, sizeof *d.out);
    double *times = calloc((size_t)tokens, sizeof *times);
    code = d.in && d.out && times ? decode(&d, (int)tokens - 1, times) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    objects_drop(d.in, m->nin);
    free(d.out);
    free(times);
    return code;
}
