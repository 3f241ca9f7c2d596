/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differential fuzzer: random programs give the same results in the reference interpreter and compiled, at -O0 and -O3,
 * and the same bits with one thread and with three; they also print, parse back and print the same. Every third is also compiled
 * with its products cast to bf16 or f16, and must differ by that rounding only.
 *
 *   fuzz-diff [--seconds S] [--count N] [--seed FIRST] [--nodes N] [--keep FOLDER] [--levels both|turn]
 *
 * --levels turn: each program is compiled once, at a level, for an instruction set and with a type of products that its seed says, which
 * takes a third of the time.
 *
 * Each program runs in a child process (60 s). One that fails is shrunk (fewer nodes of the same seed) and, with --keep,
 * written to FOLDER/SEED.tcir. Exit status: 0 all agree, 1 some do not, 2 usage.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tests/fuzz/random_graph.h"
#include "tools/values_int.h"

enum { MAX_INPUTS = 4, TIME_LIMIT = 60 };

struct job {
    uint64_t seed;
    int nodes;
    const char *folder; /* for the program's files */
    bool quiet;
    bool turn; /* one compilation, as the seed says */
};

static int complain(const struct job *j, const char *what, const char *why)
{
    if (!j->quiet)
        printf("seed %" PRIu64 ", %d nodes: %s: %s\n", j->seed, j->nodes, what, why);
    return 1;
}

static void keep_message(void *user, int severity, const char *text)
{
    if (severity >= 2 && !*(char *)user)
        snprintf(user, 300, "%s", text);
}

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

/* Output k of two runs: equal in dtype and shape, elements within what rounding explains. */
static int compare(const struct job *j, const struct random_graph *g, const char *what, bool coarse, int k,
                   const struct tcc_object *want, const struct tcc_object *got)
{
    double rtol = coarse ? 4e-2 : 1e-3;
    struct tolerance t = {.rtol = rtol, .absolute = true};
    char why[ERROR_SIZE], text[ERROR_SIZE + 40];

    t.atol = rtol * (0.05 * g->scale[k] + (want->kind == TCC_OBJ_TENSOR ? 0.1 * tensor_largest(&want->t) : 0));
    if (value_equal(got, want, &t, why))
        return 0;
    snprintf(text, sizeof text, "output %d: %s", k, why);
    return complain(j, what, text);
}

/* One run of an artifact; outputs are the caller's. */
static int run_artifact(const struct job *j, struct tccrt_model *m, int threads, const struct random_graph *g,
                        struct tcc_object **in, struct tcc_object **out)
{
    struct tccrt_options options = {.threads = threads};
    struct tccrt_session *s = NULL;
    int status = 0;

    if (tccrt_session_new(m, &options, &s) != TCC_OK ||
        tccrt_run_objects(s, NULL, g->ninputs, in, g->noutputs, out) != TCC_OK)
        status = complain(j, "run", tccrt_error());
    tccrt_session_free(s);
    return status;
}

/* Which code to test: this machine's mostly, lesser ones by turns. */
static const char *const marches[4] = {NULL, "x86-64-v3", NULL, "x86-64-v2"};

/* cast: NULL, or the type that products are cast to. */
static int check_level(const struct job *j, const struct random_graph *g, const char *path, int level, const char *cast,
                       struct tcc_object **in, struct tcc_object **want)
{
    struct tcc_object *one[GRAPH_MAX_OUTPUTS] = {NULL}, *three[GRAPH_MAX_OUTPUTS] = {NULL};
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
    if (status == 0)
        status = run_artifact(j, m, 1, g, in, one) || run_artifact(j, m, 3, g, in, three);
    for (int k = 0; k < g->noutputs && status == 0; k++) {
        status = compare(j, g, what, g->coarse || cast, k, want[k], one[k]);
        size_t bytes = (size_t)elements(&one[k]->t) * (size_t)tcc_dtype_bytes((enum tcc_dtype)one[k]->t.dtype);
        if (status == 0 &&
            (!same_shape(&one[k]->t, &three[k]->t) || memcmp(one[k]->t.data, three[k]->t.data, bytes) != 0))
            status = complain(j, what, "one thread and three give different bits");
    }
    for (int k = 0; k < g->noutputs; k++) {
        tccrt_object_unref(one[k]);
        tccrt_object_unref(three[k]);
    }
    tccrt_close(m);
    return status;
}

static int check_levels(const struct job *j, const struct random_graph *g, const char *path, struct tcc_object **in,
                        struct tcc_object **want)
{
    const char *cast = j->seed % 3 ? NULL : j->seed % 2 ? "bf16" : "fp16";
    int status = 0;

    if (j->turn) { /* the instruction set goes by the seed's last two bits */
        int level = (int)(j->seed / 4 % 4);
        return check_level(j, g, path, level, level ? cast : NULL, in, want);
    }
    for (int level = 0; status == 0 && level <= 3; level += 3)
        status = check_level(j, g, path, level, NULL, in, want);
    return status == 0 && cast ? check_level(j, g, path, 3, cast, in, want) : status;
}

/* Everything about one program; runs in a process of its own. */
static int check(const struct job *j)
{
    struct tcc_object *in[MAX_INPUTS] = {NULL}, *want[GRAPH_MAX_OUTPUTS] = {NULL};
    struct ir_ctx *ctx = ir_ctx_new();
    char path[300], error[300] = "";
    struct ir_protect frame;
    struct ir_interp_state *state = NULL;
    struct random_graph g;
    int status = 0;

    snprintf(path, sizeof path, "%s/fuzz.tcir", j->folder);
    if (!ctx || !IR_PROTECT(ctx, &frame))
        return complain(j, "fuzzer", "no memory");
    if (!random_graph(ctx, j->seed, j->nodes, &g))
        status = complain(j, "not a valid program", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "no message");
    if (status == 0)
        status = round_trip(j, &g, path);
    for (int i = 0; status == 0 && i < g.ninputs; i++)
        if (!(in[i] = random_input(&g, j->seed, i)))
            status = complain(j, "fuzzer", "no memory");
    if (status == 0 && !(state = ir_interp_state_new(g.module)))
        status = complain(j, "fuzzer", "no memory");
    if (status == 0 && ir_interp(g.func, state, in, want, error, sizeof error) != TCC_OK)
        status = complain(j, "interpreter", error);
    if (status == 0)
        status = check_levels(j, &g, path, in, want);
    for (int i = 0; i < MAX_INPUTS; i++)
        tccrt_object_unref(in[i]);
    for (int i = 0; i < GRAPH_MAX_OUTPUTS; i++)
        tccrt_object_unref(want[i]);
    ir_interp_state_free(state);
    ir_unprotect(ctx);
    ir_ctx_free(ctx);
    return status;
}

/* check() in a child. 0: fine. */
static int check_in_child(const struct job *j)
{
    int status;

    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(TIME_LIMIT);
        status = check(j);
        fflush(stdout);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return complain(j, "fuzzer", "cannot start a process");
    if (WIFSIGNALED(status))
        return complain(j, WTERMSIG(status) == SIGALRM ? "takes too long" : "crashed", strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status);
}

/* The shortest beginning of a failing program that fails too: said, and its text kept. */
static void shrink(struct job j, const char *keep)
{
    int nodes = j.nodes;
    char command[700];

    j.quiet = true;
    for (j.nodes = 1; j.nodes < nodes && check_in_child(&j) == 0;)
        j.nodes++;
    j.quiet = false;
    printf("shrunk: ");
    check_in_child(&j);
    if (keep) {
        snprintf(command, sizeof command, "mkdir -p '%s' && cp '%s/fuzz.tcir' '%s/%" PRIu64 ".tcir'", keep, j.folder,
                 keep, j.seed);
        if (system(command) == 0)
            printf("program: %s/%" PRIu64 ".tcir\n", keep, j.seed);
    }
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/tccc-fuzz.XXXXXX", command[64];
    struct job j = {.seed = 1, .nodes = 14, .folder = folder};
    long seconds = 0, count = 0;
    const char *keep = NULL;
    int bad = 0, done = 0;
    time_t start = time(NULL);

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--seconds") == 0)
            seconds = atol(value);
        else if (value && strcmp(argv[i], "--count") == 0)
            count = atol(value);
        else if (value && strcmp(argv[i], "--seed") == 0)
            j.seed = strtoull(value, NULL, 10);
        else if (value && strcmp(argv[i], "--nodes") == 0)
            j.nodes = atoi(value);
        else if (value && strcmp(argv[i], "--keep") == 0)
            keep = value;
        else if (value && strcmp(argv[i], "--levels") == 0)
            j.turn = strcmp(value, "turn") == 0;
        else
            return fprintf(stderr,
                           "usage: fuzz-diff [--seconds S] [--count N] [--seed FIRST] [--nodes N] [--keep FOLDER] "
                           "[--levels both|turn]\n"),
                   2;
    }
    if (!seconds && !count)
        count = 20;
    if (!mkdtemp(folder))
        return perror(folder), 1;
    for (; (!count || done < count) && (!seconds || time(NULL) - start < seconds) && bad < 10; j.seed++, done++) {
        if (check_in_child(&j) != 0) {
            bad++;
            shrink(j, keep);
        }
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        bad++;
    printf("%d programs, %d failed\n", done, bad);
    return bad != 0;
}
