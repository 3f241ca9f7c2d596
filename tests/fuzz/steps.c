/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzer of training steps: random programs that end in a loss are compiled with --train, opened and run, at several
 * sizes and with values of the run that sizes, positions and trip counts are taken from. The loss is what the
 * interpreter says in double precision, and what a step of plain gradient descent takes from each parameter is the
 * slope of the interpreter's loss, by central differences. What the interpreter refuses, the step refuses.
 *
 *   fuzz-steps [--seconds S] [--count N] [--seed FIRST] [--nodes N] [--keep FOLDER]          options as fuzz-diff's
 *
 * Differences of two widths that disagree show a corner, where there is no slope to compare with.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tests/fuzz/programs.h"

enum { MOVED = 6 };              /* elements of a parameter that are moved */
static const double RTOL = 3e-3; /* of the largest slope of a parameter: f32 against f64 */

/* The loss in double precision. Inputs are the program's and, behind them, its parameters. */
struct exact {
    struct ir_ctx *ctx;
    struct ir_func *func;
    struct random_graph graph;
    int nin;
    struct tcc_object *in[2 * MAX_INPUTS];
    char why[300];
};

static int64_t elements(const struct tcc_object *o)
{
    int64_t n = 1;

    for (int i = 0; i < o->t.rank; i++)
        n *= o->t.dims[i];
    return n;
}

/* The program's text with every f32 an f64, read again. */
static bool widen(struct exact *x)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return false;
    ir_print_module(f, x->graph.module);
    fclose(f);
    for (char *at = text; at && (at = strstr(at, "f32")); at += 3)
        memcpy(at, "f64", 3);
    struct ir_module *m = text && !strstr(text, " hex ") ? ir_parse(x->ctx, "loss.tcir", text, size) : NULL;
    x->func = m ? ir_func_by_name(m, "main") : NULL;
    free(text);
    return x->func != NULL;
}

static void drop_inputs(struct exact *x)
{
    for (int i = 0; i < x->nin; i++)
        tccrt_object_unref(x->in[i]);
    x->nin = 0;
}

static bool set_inputs(struct exact *x, uint64_t seed)
{
    drop_inputs(x);
    for (; x->nin < x->func->body->nparams; x->nin++) {
        struct tcc_object *o = random_input(&x->graph, seed, x->nin), *wide;
        if (!o || o->t.dtype != TCC_F32) {
            if (!(x->in[x->nin] = o))
                return false;
            continue;
        }
        x->in[x->nin] = wide = tccrt_object_tensor(TCC_F64, o->t.rank, o->t.dims);
        for (int64_t i = 0; wide && i < elements(o); i++)
            ((double *)wide->t.data)[i] = ((float *)o->t.data)[i];
        tccrt_object_unref(o);
        if (!wide)
            return false;
    }
    return true;
}

static int loss_of(struct exact *x, double *loss)
{
    struct tcc_object *out[1] = {NULL};
    int status = ir_interp(x->func, NULL, x->in, out, x->why, sizeof x->why);

    *loss = status == TCC_OK ? *(double *)out[0]->t.data : NAN;
    tccrt_object_unref(out[0]);
    return status;
}

/* The slope of the loss by an element; NAN: there is none. */
static double slope(struct exact *x, double *element)
{
    double at = *element, h = 1e-5 * fmax(1, fabs(at)), by[2], loss[2];

    for (int wide = 0; wide < 2; wide++) {
        for (int side = 0; side < 2; side++) {
            *element = at + (side ? -h : h) * (1 + wide);
            loss_of(x, &loss[side]);
        }
        by[wide] = (loss[0] - loss[1]) / (2 * h * (1 + wide));
    }
    *element = at;
    return fabs(by[0] - by[1]) <= 1e-5 * fmax(1, fabs(by[0])) ? by[0] : NAN;
}

/* What the step took from parameter `name`, input k of the loss, against its slopes. */
static int compare_parameter(const struct job *j, struct exact *x, int k, const char *what, struct tccrt_session *s)
{
    const char *name = x->func->input_names[k];
    struct tcc_tensor after;
    struct tcc_object *p = x->in[k];
    double largest = 1;
    char text[200];

    if (tccrt_state_get(s, name, &after) != TCC_OK)
        return complain(j, what, tccrt_error());
    for (int64_t i = 0; i < elements(p); i++)
        largest = fmax(largest, fabs(((double *)p->t.data)[i] - ((float *)after.data)[i]));
    for (int64_t i = 0; i < elements(p); i += 1 + elements(p) / MOVED) {
        double *element = &((double *)p->t.data)[i], want = slope(x, element);
        double got = *element - ((float *)after.data)[i];
        if (isnan(want) || fabs(got - want) <= RTOL * largest)
            continue;
        snprintf(text, sizeof text, "run %d: gradient of %s[%lld] is %g, not %g", x->graph.run, name, (long long)i, got,
                 want);
        return complain(j, what, text);
    }
    return 0;
}

/* One step of a fresh session at the current sizes. */
static int check_run(const struct job *j, struct exact *x, const struct random_graph *g, const char *what,
                     struct tccrt_model *m)
{
    struct tccrt_options options = {.threads = 1 + (int)(j->seed % 3)};
    struct tccrt_session *s = NULL;
    struct tcc_object *out[1] = {NULL};
    double want;
    char text[700];
    int refused = loss_of(x, &want), status = tccrt_session_new(m, &options, &s);
    struct tcc_object *in[MAX_INPUTS] = {NULL};

    for (int i = 0; i < g->ninputs; i++)
        in[i] = random_input(g, j->seed, i);
    if (status == TCC_OK)
        status = tccrt_run_objects(s, "step", g->ninputs, in, 1, out);
    snprintf(text, sizeof text, "run %d: %s%.300s", g->run, status == TCC_OK ? "runs, and the interpreter says: " : "",
             status == TCC_OK ? x->why : tccrt_error());
    count_run(j, status == TCC_OK);
    if (status == TCC_OK ? refused && refused != TCC_EINDEX : !refuses(status) || !refused) {
        status = complain(j, what, text);
    } else if (status == TCC_OK && !refused && isfinite(want)) {
        double got = *(float *)out[0]->t.data;
        snprintf(text, sizeof text, "run %d: loss %g, not %g", g->run, got, want);
        status = fabs(got - want) <= 1e-3 * fmax(1, fabs(want)) ? 0 : complain(j, what, text);
        for (int k = g->ninputs; k < x->nin && status == 0; k++)
            status = compare_parameter(j, x, k, what, s);
    } else {
        status = 0;
    }
    for (int i = 0; i < g->ninputs; i++)
        tccrt_object_unref(in[i]);
    tccrt_object_unref(out[0]);
    tccrt_session_free(s);
    return status;
}

static int check_step(const struct job *j, struct exact *x, struct random_graph *g, const char *path)
{
    struct tccc_train train = {.loss = "output:loss", .optimizer = "sgd:lr=1"};
    char artifact[300], what[60], message[300] = "";
    struct tccrt_model *m = NULL;
    struct tccc_options o;
    FILE *f = fopen(path, "w");

    if (!f)
        return complain(j, "fuzzer", "cannot write");
    ir_print_module(f, g->module);
    fclose(f);
    snprintf(artifact, sizeof artifact, "%s/fuzz-step.so", j->folder);
    tccc_options_init(&o);
    o.model = path;
    o.output = artifact;
    o.level = (int)(j->seed / 4 % 4);
    o.jobs = 1;
    o.verify = true;
    o.train = &train;
    o.message = keep_message;
    o.user = message;
    snprintf(what, sizeof what, "--train -O%d", o.level);
    if (tccc_compile(&o) != 0)
        return complain(j, what, message);
    int status = tccrt_open(artifact, &m) != TCC_OK ? complain(j, what, tccrt_error()) : 0;
    unlink(artifact);
    for (int run = 0; run < g->nruns && status == 0; run++) {
        x->graph.run = g->run = run;
        status = set_inputs(x, j->seed) ? check_run(j, x, g, what, m) : complain(j, "fuzzer", "no memory");
    }
    tccrt_close(m);
    return status;
}

static int check(const struct job *j)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct exact x = {.ctx = ir_ctx_new()};
    struct ir_protect frame, of_loss;
    struct random_graph g;
    char path[300];
    int status = 0;

    snprintf(path, sizeof path, "%s/fuzz.tcir", j->folder);
    if (!ctx || !x.ctx || !IR_PROTECT(ctx, &frame) || !IR_PROTECT(x.ctx, &of_loss))
        return complain(j, "fuzzer", "no memory");
    if (!random_graph(ctx, j->seed, j->nodes, RANDOM_STEP, j->skip, &g) ||
        !random_graph(x.ctx, j->seed, j->nodes, RANDOM_LOSS, j->skip, &x.graph))
        status = complain(j, "not a valid program", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "no message");
    else if (widen(&x))
        status = check_step(j, &x, &g, path);
    if (x.func)
        drop_inputs(&x);
    ir_unprotect(ctx);
    ir_unprotect(x.ctx);
    ir_ctx_free(ctx);
    ir_ctx_free(x.ctx);
    return status;
}

int main(int argc, char **argv)
{
    return programs_main(argc, argv, "fuzz-steps", RANDOM_STEP, check);
}
