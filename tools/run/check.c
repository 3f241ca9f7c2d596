/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-run --check: the compiled model against the reference interpreter, on the same inputs. The interpreter runs the
 * model as it was read, before any pass (--interpret -O2 tests passes alone).
 */
#include "tools/run/model_int.h"

#include <stdlib.h>

struct pair {
    struct model compiled, reference;
    struct tcc_object **in, **got, **expected;
};

/* One run of both; the exit code. Where both fail nothing was compared: that is no success. */
static int run_both(const struct options *o, struct pair *p, const struct tolerance *t, int run, int given)
{
    char why[ERROR_SIZE], error[ERROR_SIZE];
    int wanted = inputs_run(o, &p->reference, given, p->in, p->expected, error);
    int status = model_run(&p->compiled, p->in, p->got, why);

    if ((wanted == TCC_OK) != (status == TCC_OK))
        return tool_error(o, EXIT_DATA, "run %d: %s failed: %s", run,
                          wanted == TCC_OK ? "the compiled model" : "the interpreter", wanted == TCC_OK ? why : error);
    if (wanted != TCC_OK)
        return tool_error(
            o, EXIT_DATA,
            "run %d: both fail, so nothing was compared: the interpreter: %.400s; the compiled model: %.400s", run,
            error, why);
    for (int i = 0; i < p->reference.nout; i++)
        if (!value_equal(p->got[i], p->expected[i], t, why))
            return tool_error(o, EXIT_DATA, "run %d: output '%s': compiled and interpreted differ: %s", run,
                              p->reference.out[i].info.name, why);
    return EXIT_FINE;
}

/* `rounds` times the runs that the command line has inputs for. */
static int check(const struct options *o, struct pair *p, int rounds)
{
    struct tolerance t;
    int given, code = tolerance_read(o, &t);

    if (code != EXIT_FINE)
        return code;
    if (p->compiled.nin != p->reference.nin || p->compiled.nout != p->reference.nout)
        return tool_error(o, EXIT_BUG, "the artifact has other inputs or outputs than the model");
    p->in = calloc((size_t)p->reference.nin + 1, sizeof *p->in);
    p->got = calloc((size_t)p->reference.nout + 1, sizeof *p->got);
    p->expected = calloc((size_t)p->reference.nout + 1, sizeof *p->expected);
    if (!p->in || !p->got || !p->expected)
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    code = inputs_runs(o, &p->reference, &given);
    for (int run = 0; code == EXIT_FINE && run / given < rounds; run++) {
        objects_free(p->in, p->reference.nin);
        code = inputs_read(o, &p->reference, false, run % given, p->in);
        if (code == EXIT_FINE)
            code = run_both(o, p, &t, run + 1, run % given);
        objects_free(p->got, p->reference.nout);
        objects_free(p->expected, p->reference.nout);
    }
    objects_free(p->in, p->reference.nin);
    return code;
}

int check_run(const struct options *o, const char *path)
{
    struct pair p = {0};
    int64_t runs = 1, threads = 0;

    if (option_set(o, OPT_interpret) || option_set(o, OPT_test_data))
        return usage_error(o, "--check excludes --interpret and --test-data");
    if (!option_int(o, OPT_threads, 1, 4096, &threads))
        return EXIT_USAGE;
    if (*option_text(o, OPT_check, "") && !option_int(o, OPT_check, 1, 1000000, &runs))
        return EXIT_USAGE;
    int code = model_open_interpreted(o, path, &p.reference);
    if (code != EXIT_FINE)
        return code;
    code = model_open(o, path, &p.compiled, NULL);
    if (code == EXIT_FINE)
        code = model_session(o, &p.compiled, (int)threads, NULL);
    if (code == EXIT_FINE)
        code = check(o, &p, (int)runs);
    if (code == EXIT_FINE)
        printf("compiled and interpreted agree\n");
    free(p.in);
    free(p.got);
    free(p.expected);
    model_close(&p.compiled);
    model_close(&p.reference);
    return code;
}
