/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differential fuzzer: random programs give the same results in the reference interpreter and compiled, at -O0 and -O3,
 * and the same bits with one thread and with three; they also print, parse back and print the same. Every third is also
 * compiled with its products cast to bf16 or f16, and must differ by that rounding only.
 *
 *   fuzz-diff [--seconds S] [--count N] [--seed FIRST] [--nodes N] [--keep FOLDER] [--levels both|turn] [--open]
 *
 * --levels turn: each program is compiled once, at a level, for an instruction set and with a type of products that its
 * seed says, which takes a third of the time.
 * --open: dims of inputs are symbols; each artifact runs at several sizes, 0 and 1 and sizes that do not fit among
 * them, with hostile values for what positions, sizes and trip counts are taken from. It refuses what the interpreter
 * refuses, and every other program's buffers are guarded.
 *
 * programs.c reduces one that fails. Exit status: 0 all agree, 1 some do not, 2 usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"
#include "runtime/tccrt.h"
#include "tests/fuzz/programs.h"
#include "tools/values/values_int.h"

/* One set of sizes and values: what goes in, and what the interpreter says. */
struct trial {
    struct tcc_object *in[MAX_INPUTS], *want[GRAPH_MAX_OUTPUTS];
    struct tcc_object *cast[GRAPH_MAX_OUTPUTS]; /* with products cast; NULL: not asked for yet */
    int status;
    char why[300];
};

/* The module as text, freed by the caller. */
static char *text_of(const struct ir_module *m, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);

    if (!f)
        return NULL;
    ir_print_module(f, m);
    fclose(f);
    return text;
}

/* Prints, parses, prints: the same text twice, left in `path`. */
static int round_trip(const struct job *j, const struct random_graph *g, const char *path)
{
    struct ir_ctx *ctx = ir_ctx_new();
    size_t size = 0, again_size = 0;
    char *text = text_of(g->module, &size), *again = NULL;
    struct ir_module *m = text && ctx ? ir_parse(ctx, path, text, size) : NULL;
    FILE *f = fopen(path, "w");
    int status = 0;

    if (!f || !text || fwrite(text, 1, size, f) != size)
        status = complain(j, "text", "cannot be written");
    if (f)
        fclose(f);
    if (!m)
        status =
            complain(j, "its text does not parse", ctx && ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "no message");
    else if (!ir_verify(m))
        status = complain(j, "its text does not verify", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "no message");
    else if (!(again = text_of(m, &again_size)) || again_size != size || memcmp(text, again, size) != 0)
        status = complain(j, "text", "parsed back, it prints differently");
    free(text);
    free(again);
    ir_ctx_free(ctx);
    return status;
}

static bool same_shape(const struct tcc_tensor *a, const struct tcc_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

static int64_t elements(const struct tcc_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* Output k of two runs: equal in dtype and shape, elements within what rounding explains; false: `why` says. */
static bool agrees(const struct random_graph *g, bool coarse, int k, const struct tcc_object *want,
                   const struct tcc_object *got, char why[ERROR_SIZE])
{
    double rtol = coarse ? 4e-2 : 1e-3;
    struct tolerance t = {.rtol = rtol, .absolute = true};

    t.atol = rtol * (0.05 * g->scale[k] + (want->kind == TCC_OBJ_TENSOR ? 0.1 * tensor_largest(&want->t) : 0));
    return value_equal(got, want, &t, why);
}

/* What the interpreter gives for the program with its products cast: where a sum cancels, their rounding alone
 * can be most of it. False: no second opinion. */
static bool interpret_cast(const struct random_graph *g, const char *cast, struct trial *t)
{
    struct ir_ctx *ctx = ir_ctx_new();
    size_t size = 0;
    char *text = text_of(g->module, &size), why[300];
    struct ir_module *m = text && ctx ? ir_parse(ctx, "cast", text, size) : NULL;
    struct pass_options options = {.level = 1, .verify = true, .change_limit = -1};
    bool given = m && frontend_autocast(m, "matmul", cast, &options);
    struct ir_interp_state *state = given ? ir_interp_state_new(m) : NULL;

    given = state && ir_interp(ir_func_by_name(m, "main"), state, t->in, t->cast, why, sizeof why) == TCC_OK;
    for (int k = 0; !given && k < g->noutputs; k++)
        t->cast[k] = NULL;
    ir_interp_state_free(state);
    ir_ctx_free(ctx);
    free(text);
    return given;
}

/* cast: NULL, or the type that products are cast to. */
static int compare(const struct job *j, const struct random_graph *g, const char *what, const char *cast, int k,
                   struct trial *t, const struct tcc_object *got)
{
    char why[ERROR_SIZE], other[ERROR_SIZE], text[ERROR_SIZE + 40];

    if (agrees(g, g->coarse || cast, k, t->want[k], got, why))
        return 0;
    if (cast && (t->cast[k] || interpret_cast(g, cast, t)) && agrees(g, true, k, t->cast[k], got, other))
        return 0;
    snprintf(text, sizeof text, "output %d: %s", k, why);
    return complain(j, what, text);
}

/* One run of an artifact, which gives values where the interpreter does; outputs are the caller's. */
static int run_artifact(const struct job *j, const char *what, struct tccrt_model *m, int threads,
                        const struct random_graph *g, struct trial *t, struct tcc_object **out)
{
    struct tccrt_options options = {.threads = threads};
    struct tccrt_session *s = NULL;
    char text[700];
    int status = tccrt_session_new(m, &options, &s);

    if (status == TCC_OK)
        status = tccrt_run_objects(s, NULL, g->ninputs, t->in, g->noutputs, out);
    snprintf(text, sizeof text, "run %d: %s%.300s", g->run, status == TCC_OK ? "runs, and the interpreter says: " : "",
             status == TCC_OK ? t->why : tccrt_error());
    tccrt_session_free(s);
    /* Of a gather that is part of a kernel, places that nothing of the result needs are not looked at. */
    bool unread = status == TCC_OK && t->status == TCC_EINDEX && strncmp(what, "-O0", 3) != 0;
    if (status == TCC_OK ? t->status == TCC_OK || unread : refuses(status) && t->status != TCC_OK) {
        count_run(j, status == TCC_OK);
        return 0;
    }
    return complain(j, what, text);
}

/* With one thread and with three: what the interpreter gives, and the same bits. */
static int run_trial(const struct job *j, const char *what, struct tccrt_model *m, const struct random_graph *g,
                     const char *cast, struct trial *t)
{
    struct tcc_object *one[GRAPH_MAX_OUTPUTS] = {NULL}, *three[GRAPH_MAX_OUTPUTS] = {NULL};
    bool both = g->run % 3 == 0; /* of many sizes not at each */
    int status = run_artifact(j, what, m, 1, g, t, one) || (both && run_artifact(j, what, m, 3, g, t, three));

    for (int k = 0; k < g->noutputs && status == 0 && t->status == TCC_OK; k++) {
        status = compare(j, g, what, cast, k, t, one[k]);
        if (status)
            break;
        size_t bytes = (size_t)elements(&one[k]->t) * (size_t)tcc_dtype_bytes((enum tcc_dtype)one[k]->t.dtype);
        if (both && (!same_shape(&one[k]->t, &three[k]->t) || memcmp(one[k]->t.data, three[k]->t.data, bytes) != 0))
            status = complain(j, what, "one thread and three give different bits");
    }
    for (int k = 0; k < g->noutputs; k++) {
        tccrt_object_unref(one[k]);
        tccrt_object_unref(three[k]);
    }
    return status;
}

/* Which code to test: this machine's mostly, lesser ones by turns. */
static const char *const marches[4] = {NULL, "x86-64-v3", NULL, "x86-64-v2"};

/* cast: NULL, or the type that products are cast to. */
static int check_level(const struct job *j, struct random_graph *g, const char *path, int level, const char *cast,
                       struct trial *trials)
{
    char artifact[300], what[60], message[300] = "no message";
    struct tccrt_model *m = NULL;
    struct tccc_options o;

    snprintf(artifact, sizeof artifact, "%s/fuzz-O%d.so", j->folder, level);
    snprintf(what, sizeof what, "-O%d%s%s", level, cast ? " with products of " : "", cast ? cast : "");
    message[0] = '\0';
    tccc_options_init(&o);
    o.model = path;
    o.output = artifact;
    o.level = level;
    o.march = __builtin_cpu_supports("avx2") ? marches[j->seed % 4] : NULL;
    o.auto_cast = cast ? "matmul" : NULL;
    o.auto_cast_type = cast;
    o.jobs = 1;
    o.verify = true;
    o.message = keep_message;
    o.user = message;
    if (tccc_compile(&o) != 0)
        return complain(j, what, message);
    int status = tccrt_open(artifact, &m) != TCC_OK ? complain(j, what, tccrt_error()) : 0;
    unlink(artifact);
    for (g->run = 0; g->run < g->nruns && status == 0; g->run++)
        status = run_trial(j, what, m, g, cast, &trials[g->run]);
    tccrt_close(m);
    return status;
}

static int check_levels(const struct job *j, struct random_graph *g, const char *path, struct trial *trials)
{
    const char *cast = j->seed % 3 ? NULL : j->seed % 2 ? "bf16" : "fp16";
    int status = 0;

    if (j->turn) { /* the instruction set goes by the seed's last two bits */
        int level = (int)(j->seed / 4 % 4);
        return check_level(j, g, path, level, level ? cast : NULL, trials);
    }
    for (int level = 0; status == 0 && level <= 3; level += 3)
        status = check_level(j, g, path, level, NULL, trials);
    return status == 0 && cast ? check_level(j, g, path, 3, cast, trials) : status;
}

/* What the interpreter says to the current run's inputs. Only sizes that the program was not made for may be
 * refused. */
static int interpret(const struct job *j, struct random_graph *g, struct trial *t)
{
    struct ir_interp_state *state = ir_interp_state_new(g->module);

    for (int i = 0; i < g->ninputs; i++)
        if (!state || !(t->in[i] = random_input(g, j->seed, i)))
            return complain(j, "fuzzer", "no memory");
    t->status = ir_interp(g->func, state, t->in, t->want, t->why, sizeof t->why);
    ir_interp_state_free(state);
    return t->status == TCC_OK || (j->form == RANDOM_OPEN && refuses(t->status)) ? 0
                                                                                 : complain(j, "interpreter", t->why);
}

/* Everything about one program; runs in a process of its own. */
static int check(const struct job *j)
{
    struct trial trials[GRAPH_RUNS] = {0};
    struct ir_ctx *ctx = ir_ctx_new();
    char path[300];
    struct ir_protect frame;
    struct random_graph g;
    int status = 0;

    snprintf(path, sizeof path, "%s/fuzz.tcir", j->folder);
    if (!ctx || !IR_PROTECT(ctx, &frame))
        return complain(j, "fuzzer", "no memory");
    if (!random_graph(ctx, j->seed, j->nodes, j->form, j->skip, &g))
        status = complain(j, "not a valid program", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "no message");
    if (status == 0)
        status = round_trip(j, &g, path);
    for (g.run = 0; status == 0 && g.run < g.nruns; g.run++)
        status = interpret(j, &g, &trials[g.run]);
    if (status == 0)
        status = check_levels(j, &g, path, trials);
    for (int k = 0; k < GRAPH_RUNS; k++) {
        for (int i = 0; i < MAX_INPUTS; i++)
            tccrt_object_unref(trials[k].in[i]);
        for (int i = 0; i < GRAPH_MAX_OUTPUTS; i++) {
            tccrt_object_unref(trials[k].want[i]);
            tccrt_object_unref(trials[k].cast[i]);
        }
    }
    ir_unprotect(ctx);
    ir_ctx_free(ctx);
    return status;
}

int main(int argc, char **argv)
{
    return programs_main(argc, argv, "fuzz-diff", RANDOM_FIXED, check);
}
