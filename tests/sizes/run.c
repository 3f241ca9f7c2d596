/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models at many sizes: compiled once in each of several ways, each artifact gives at every data set what the reference
 * interpreter gives, or refuses what that refuses, in its words. Nothing ends in an internal error, nothing is touched
 * outside of buffers (TCCRT_GUARD).
 *
 *   sizes-run [-j N] [--known FILE] [--turn FILE] [--objects FOLDER] [--quick FOLDER] [--way 'FLAGS']... CASE...
 *   sizes-run --ops <PATHS            the ops of level 1 that the front end makes of these models, a line each
 *
 * A CASE is a folder as the official suite has it: model.onnx, test_data_set_K/input_J.pb, and `tol` ("RTOL ATOL
 * [TIES]") if wanted; outputs are not looked at. FLAGS are tccc-run's. A case runs in a process of its own; where that
 * crashes, another one goes on behind the data set. --known lists cases that are known to fail, "CASE: reason" a line:
 * one of them that is fine is a failure. --objects: where code that was made once is kept (objects.h); a way whose
 * artifact is that of one before it, but for the options that it tells, is not run again. --quick: the same, and LLVM
 * does not optimise. --turn: cases that FILE does not list run at -O0, -O2 and in one of the other ways, which their
 * name says. A TAP line a case; how much was run at the end.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "tests/sizes/objects.h"
#include "tools/run/model_int.h"

enum { MAX_WAYS = 8, MAX_SETS = 512, TIME_LIMIT = 60, HUGE_LIMIT = 5, MAX_VALUES = 64, TEXT = 1200 };

/* What a run gave. code: an exit code of tccc-run. */
struct outcome {
    int code;
    char why[ERROR_SIZE];
    struct tcc_object *out[MAX_VALUES];
};

/* Shared with the process that runs the case: how far it is, and what it has found. */
struct progress {
    int way, set, failures;
    uint64_t made[MAX_WAYS + 2]; /* of each way, what it compiled to: objects_linked() */
    bool lost[MAX_SETS];         /* the interpreter did not end with it, and is not asked again */
    bool huge;                /* the interpreter has no memory for this data set: others may take their time over it */
    bool tried[MAX_WAYS + 2]; /* such a one has been run in that way: one is enough */
    char first[TEXT];
};

struct job {
    const char *folder, *name;
    char model[900];
    int nsets;
    struct tolerance tolerance;
    int ties; /* integers may be so far apart: they were rounded, and a tie fell to the other side */
    struct progress *progress;
};

/* Each is compared with the one of the interpreter before it. --exact is another model where bytes are made at run
 * time. */
static const char *ways[MAX_WAYS + 2] = {
    "--interpret",         "-O0",         "-O2", "-O1", "-O3", "-O2 --target=cpu-split --device=cpu-split",
    "--interpret --exact", "-O2 --exact",
};
static int nways = 8;
static bool shares;      /* --objects */
static const char *turn; /* --turn */

static bool is_reference(int way)
{
    return !strncmp(ways[way], "--interpret", strlen("--interpret"));
}

/* Of all processes. */
static struct totals {
    _Atomic int runs, refused, same;
} * totals;

static void failed(struct job *j, int way, int set, const char *what, const char *why)
{
    struct progress *p = j->progress;

    if (p->failures++ == 0)
        snprintf(p->first, sizeof p->first, "%s, data set %d: %s%s%.900s", ways[way], set, what, *why ? ": " : "", why);
}

/* That much of a processor, or WAIT times as long, which a busy machine takes for it. */
static void limit(int seconds)
{
    enum { WAIT = 10 };
    struct itimerval busy = {.it_value = {.tv_sec = seconds}};

    setitimer(ITIMER_PROF, &busy, NULL);
    alarm((unsigned)(WAIT * seconds));
}

/* Sizes beyond it end quickly: of the interpreter, whose results are kept, sooner. */
static void limit_memory(bool reference)
{
    const rlim_t most = (rlim_t)2 << 30;
    struct rlimit data = {.rlim_cur = reference ? most / 2 : most, .rlim_max = most};

    setrlimit(RLIMIT_DATA, &data);
}

static void forget(struct outcome *o)
{
    for (int i = 0; i < MAX_VALUES; i++) {
        tccrt_object_unref(o->out[i]);
        o->out[i] = NULL;
    }
}

/* More than can be kept of each data set, or than a simulator computes in a few seconds. */
static bool too_much(const struct outcome *o)
{
    int64_t most = 16 << 20, bytes = 0;

    for (int i = 0; i < MAX_VALUES && bytes <= most; i++)
        if (o->out[i] && o->out[i]->kind == TCC_OBJ_TENSOR) {
            int64_t n = tcc_dtype_bytes((enum tcc_dtype)o->out[i]->t.dtype);

            for (int d = 0; d < o->out[i]->t.rank; d++)
                n *= o->out[i]->t.dims[d];
            bytes += n;
        }
    return bytes > most;
}

/* One data set. */
static void run_set(const struct job *j, struct model *m, int set, struct outcome *o)
{
    struct tcc_object *in[MAX_VALUES] = {NULL};
    char dir[960];

    snprintf(dir, sizeof dir, "%s/test_data_set_%d", j->folder, set);
    o->code = m->nin > MAX_VALUES || m->nout > MAX_VALUES ? EXIT_USAGE : testdata_inputs(m, dir, in, o->why);
    if (o->code == EXIT_FINE)
        o->code = model_exit_code(model_run(m, in, o->out, o->why));
    objects_free(in, m->nin < MAX_VALUES ? m->nin : MAX_VALUES);
}

/* tccc-run's options from words; they stay for good. */
static void read_options(const char *words, struct options *o)
{
    char *copy = strdup(words), *argv[16] = {(char *)"tccc-run"};
    int argc = 1;

    for (char *w = strtok(copy, " "); w && argc < 15; w = strtok(NULL, " "))
        argv[argc++] = w;
    if (options_read(o, TOOL_R, argc, argv) >= 0)
        _exit(EXIT_USAGE);
}

/* Opens the model in a way; where that fails, each data set is refused so. */
static int open_way(const struct job *j, int way, struct model *m, char *why)
{
    static struct options o; /* the model points into it */
    int code;

    read_options(ways[way], &o);
    if (shares)
        objects_linked();
    code = model_open(&o, j->model, m, why);
    if (shares)
        j->progress->made[way] = objects_linked();
    return code == EXIT_FINE ? model_session(&o, m, 3, why) : code;
}

/* Was it compiled to what a way before it was? (Ways with one target have one device.) */
static bool made_before(const struct job *j, int way)
{
    const uint64_t *made = j->progress->made;

    for (int w = 0; w < way; w++)
        if (made[way] && made[w] == made[way])
            return ++totals->same;
    return false;
}

/* The same of the way behind a reference, which then is for nothing. */
static bool made_no_other(const struct job *j, int reference)
{
    int way = reference + 1;
    char why[ERROR_SIZE] = "";
    struct model m;

    if (!shares || reference <= j->progress->way || way >= nways || is_reference(way))
        return false;
    j->progress->way = reference;
    j->progress->set = -1;
    limit(TIME_LIMIT);
    if (open_way(j, way, &m, why) == EXIT_FINE)
        model_close(&m);
    return made_before(j, way);
}

static bool refuses(int code)
{
    return code == EXIT_DATA;
}

/*
 * The words of a refusal: from the node on, without the file, whose place is of no matter; the list of shape versions
 * is longer than a message, and which of several bad indices is told is anybody's; NeuronCores tell none (their
 * programs have no way to hand it on).
 */
static void words(char *text, size_t size, const char *why)
{
    const char *node = strstr(why, "node '");
    char *end;

    snprintf(text, size, "%s", node ? node : why);
    text[strcspn(text, "\n")] = '\0';
    end = strstr(text, "; the sizes that it has versions for");
    if (end)
        *end = '\0';
    end = strstr(text, ": index ");
    if (end && (strstr(end, " is outside an axis of ") || !strcmp(end, ": index out of range")))
        end[strlen(": index")] = '\0';
}

static bool same_words(const char *got, const char *want, char *text, size_t size)
{
    char g[ERROR_SIZE], w[ERROR_SIZE];

    words(g, sizeof g, got);
    words(w, sizeof w, want);
    snprintf(text, size, "\"%.450s\", not \"%.450s\"", g, w);
    return !strcmp(g, w);
}

/* The distance of numbers around 0. */
static double least_step(enum tcc_dtype type)
{
    return type == TCC_F32 ? 0x1p-149 : type == TCC_F16 ? 0x1p-24 : type == TCC_BF16 ? 0x1p-133 : 0;
}

/* Whole numbers, of whatever type, that are `ties` apart at most, or floats so near 0 that each operation rounds a
 * large share of them away. */
static bool only_ties(const struct job *j, const struct tcc_object *got, const struct tcc_object *want)
{
    enum { STEPS = 8 };
    enum tcc_dtype type = (enum tcc_dtype)want->t.dtype;
    double near = STEPS * least_step(type);
    int64_t n = 1;

    if ((!j->ties && near == 0) || type == TCC_STRING || want->kind != TCC_OBJ_TENSOR ||
        got->t.dtype != want->t.dtype || got->t.rank != want->t.rank)
        return false;
    for (int i = 0; i < want->t.rank; n *= want->t.dims[i++])
        if (got->t.dims[i] != want->t.dims[i])
            return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * tcc_dtype_bytes(type);
        double a = tcc_load_f64(type, (char *)got->t.data + at), b = tcc_load_f64(type, (char *)want->t.data + at);

        bool whole = a == floor(a) && b == floor(b);

        if (!(fabs(a - b) <= (whole ? fmax(near, j->ties) : near)))
            return false;
    }
    return true;
}

static void compare(struct job *j, int way, int set, const struct model *m, const struct outcome *want,
                    const struct outcome *got)
{
    char why[ERROR_SIZE], text[ERROR_SIZE + 40];

    if (got->code != EXIT_FINE && !refuses(got->code))
        return failed(j, way, set, got->code == EXIT_BUG ? "internal error" : "no memory or no tools", got->why);
    totals->runs++;
    totals->refused += got->code != EXIT_FINE;
    if (got->code != want->code)
        return failed(j, way, set,
                      got->code == EXIT_FINE ? "runs, and the interpreter refuses"
                                             : "refuses what the interpreter runs",
                      got->code == EXIT_FINE ? want->why : got->why);
    if (got->code != EXIT_FINE && !same_words(got->why, want->why, text, sizeof text))
        return failed(j, way, set, "refuses in other words", text);
    for (int i = 0; got->code == EXIT_FINE && i < m->nout; i++)
        if (!value_equal(got->out[i], want->out[i], &j->tolerance, why) && !only_ties(j, got->out[i], want->out[i])) {
            snprintf(text, sizeof text, "output %d: %.900s", i, why);
            return failed(j, way, set, "wrong", text);
        }
}

/*
 * All data sets in a way, from where the progress stands; want: what the interpreter gives, which a reference fills. A
 * reference is run again, for those that come behind it, when it has been reported.
 */
static void run_way(struct job *j, int way, struct outcome *want)
{
    struct progress *p = j->progress;
    bool reference = is_reference(way), again = way < p->way;
    int from = way == p->way ? p->set : 0, code;
    char why[ERROR_SIZE] = "";
    struct outcome got = {0};
    struct model m;

    if (!again)
        p->way = way, p->set = -1;
    limit(TIME_LIMIT);
    limit_memory(reference);
    code = open_way(j, way, &m, why);
    for (int k = made_before(j, way) ? j->nsets : 0; k < j->nsets; k++) {
        struct outcome *o = reference ? &want[k] : &got;

        forget(o);
        if (!again)
            p->set = k;
        bool told = k < from || (reference && p->lost[k]); /* it has been reported, or crashed */
        o->code = told ? EXIT_ENVIRONMENT : code;
        if (told)
            continue;
        snprintf(o->why, sizeof o->why, "%s", why);
        p->huge = !reference && want[k].code == EXIT_ENVIRONMENT;
        if (p->huge && p->tried[way])
            continue;
        p->tried[way] |= p->huge;
        limit(p->huge ? HUGE_LIMIT : TIME_LIMIT);
        if (code == EXIT_FINE)
            run_set(j, &m, k, o);
        if (reference && too_much(o)) {
            forget(o);
            o->code = EXIT_ENVIRONMENT;
        }
        if (!reference && (want[k].code == EXIT_FINE || refuses(want[k].code)))
            compare(j, way, k, &m, &want[k], o);
        else if (reference && !again && o->code != EXIT_FINE && !refuses(o->code) && o->code != EXIT_ENVIRONMENT)
            failed(j, way, k, "internal error", o->why);
    }
    forget(&got);
    if (code == EXIT_FINE)
        model_close(&m);
}

/* Is the case in the list, "CASE: reason" or "CASE/SETS: reason" a line? */
static bool listed(const char *list, const char *name, char *reason)
{
    FILE *f = list ? fopen(list, "r") : NULL;
    size_t n = strlen(name);
    char line[TEXT];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        if (!strncmp(line, name, n) && (line[n] == ':' || line[n] == '/')) {
            snprintf(reason, TEXT, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
            found = true;
        }
    if (f)
        fclose(f);
    return found;
}

/* Ways of the default list behind -O2 go by turns; --exact is two, of which the first is its interpreter. */
static bool is_left_out(const struct job *j, int way)
{
    enum { FIRST = 3, EXACT = 6, TURNS = 4 };
    char reason[TEXT];

    if (!turn || way < FIRST || listed(turn, j->name, reason))
        return false;
    return (way < EXACT ? way : EXACT) - FIRST != (int)(tcr_xxh3(j->name, strlen(j->name)) % TURNS);
}

/* From where the progress stands to the end. */
static void run_case(struct job *j)
{
    struct outcome *want = calloc((size_t)j->nsets, sizeof *want);
    int first = j->progress->way;

    for (int w = 0; want && w < nways; w++)
        if (is_left_out(j, w))
            continue;
        else if (is_reference(w) && made_no_other(j, w))
            w++;
        else if (w >= first || is_reference(w))
            run_way(j, w, want);
}

static int count_sets(const char *folder)
{
    char path[960];
    int n = 0;

    do
        snprintf(path, sizeof path, "%s/test_data_set_%d", folder, n);
    while (n < MAX_SETS && access(path, F_OK) == 0 && ++n);
    return n;
}

static bool set_up(struct job *j, const char *folder)
{
    char path[960];
    FILE *f;

    *j = (struct job){.folder = folder, .tolerance = {.rtol = 1e-3, .atol = 1e-4}};
    j->name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    j->nsets = count_sets(folder);
    snprintf(j->model, sizeof j->model, "%s/model.onnx", folder);
    snprintf(path, sizeof path, "%s/tol", folder);
    if ((f = fopen(path, "r"))) {
        if (fscanf(f, "%lf %lf %d", &j->tolerance.rtol, &j->tolerance.atol, &j->ties) < 2)
            j->nsets = 0;
        fclose(f);
    }
    j->progress = mmap(NULL, sizeof *j->progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return j->progress != MAP_FAILED && j->nsets > 0;
}

/* What the process that crashed has said last on standard error. */
static const char *last_words(FILE *log, char *line, size_t size)
{
    char text[TEXT];

    *line = '\0';
    rewind(log);
    while (fgets(text, sizeof text, log))
        if (!strncmp(text, "guard:", 6) || !*line)
            snprintf(line, size, "%.900s", text);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void run_child(struct job *j, FILE *log)
{
    dup2(fileno(log), STDERR_FILENO);
    if (shares && !objects_begin())
        _exit(EXIT_ENVIRONMENT);
    run_case(j);
    _exit(EXIT_FINE);
}

/* The case in processes of its own: one goes on where the one before it has crashed. */
static int run_job(struct job *j)
{
    struct progress *p = j->progress;
    char line[TEXT];
    int status;

    p->way = p->set = 0;
    for (;;) {
        FILE *log = tmpfile();
        pid_t child = log ? fork() : -1;

        if (child == 0)
            run_child(j, log);
        if (child < 0 || waitpid(child, &status, 0) != child) {
            failed(j, 0, 0, "no process", "");
            return 1;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FINE) {
            fclose(log);
            return p->failures != 0;
        }
        if (!p->huge || !WIFSIGNALED(status) || (WTERMSIG(status) != SIGALRM && WTERMSIG(status) != SIGPROF))
            failed(j, p->way, p->set, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "crashed",
                   last_words(log, line, sizeof line));
        fclose(log);
        if (p->set < 0 || p->failures > 64) { /* when it was compiled: the next way */
            if (p->way + 1 >= nways)
                return 1;
            p->way++;
            p->set = 0;
        } else {
            p->lost[p->set++] |= is_reference(p->way);
        }
    }
}

/* Its line. */
static int report(struct job *j, const char *list)
{
    char reason[TEXT], line[3 * TEXT];
    bool bad = run_job(j) != 0, expected = listed(list, j->name, reason);

    if (bad && !expected)
        snprintf(line, sizeof line, "not ok - %s: %d failures; first: %s\n", j->name, j->progress->failures,
                 j->progress->first);
    else if (bad)
        snprintf(line, sizeof line, "ok - %s: fails, as is known:%s\n", j->name, reason);
    else if (expected)
        snprintf(line, sizeof line, "not ok - %s: is fine, and stands in the list of those that are known to fail\n",
                 j->name);
    else
        snprintf(line, sizeof line, "ok - %s\n", j->name);
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        return 1;
    return bad != expected;
}

static int run_jobs(char **folders, int n, int at_once, const char *list)
{
    int running = 0, bad = 0, status;

    for (int i = 0; i < n || running;) {
        if (i < n && running < at_once) {
            struct job j;
            pid_t child = fork();

            if (child == 0) {
                if (!set_up(&j, folders[i])) {
                    printf("not ok - %s: no case\n", folders[i]);
                    fflush(stdout);
                    _exit(1);
                }
                _exit(report(&j, list));
            }
            running += child > 0;
            bad += child < 0;
            i++;
            continue;
        }
        if (wait(&status) > 0)
            bad += !WIFEXITED(status) || WEXITSTATUS(status);
        running--;
    }
    return bad;
}

/* -- What there are cases of -- */

static void note_ops(const struct ir_block *b, bool *seen)
{
    for (const struct ir_node *n = b->first; n; n = n->next) {
        seen[n->op] = true;
        for (int i = 0; i < n->nregions; i++)
            note_ops(n->regions[i], seen);
    }
}

static int list_ops(void)
{
    bool seen[IR_NOPS] = {false};
    char path[1000];

    while (fgets(path, sizeof path, stdin)) {
        struct ir_ctx *ctx = ir_ctx_new();
        struct ir_module *m;

        path[strcspn(path, "\n")] = '\0';
        m = ctx ? frontend_read(ctx, path, NULL) : NULL;
        for (struct ir_func *f = m ? m->funcs : NULL; f; f = f->next)
            note_ops(f->body, seen);
        ir_ctx_free(ctx);
    }
    for (int op = IR_OP_NONE + 1; op < IR_NOPS; op++)
        if (seen[op])
            puts(ir_op_info((enum ir_op)op)->name);
    return EXIT_FINE;
}

int main(int argc, char **argv)
{
    const char *list = NULL, *objects = NULL, *why;
    int at_once = 1, i = 1, given = 0, bad;
    bool quick = false;

    if (argc == 2 && !strcmp(argv[1], "--ops"))
        return list_ops();
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2)
        if (!strcmp(argv[i], "-j"))
            at_once = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--known"))
            list = argv[i + 1];
        else if (!strcmp(argv[i], "--turn"))
            turn = argv[i + 1];
        else if (!strcmp(argv[i], "--objects") || !strcmp(argv[i], "--quick"))
            objects = argv[i + 1], quick = !strcmp(argv[i], "--quick");
        else if (!strcmp(argv[i], "--way") && given < MAX_WAYS)
            ways[++given] = argv[i + 1];
        else
            return EXIT_USAGE;
    nways = given ? given + 1 : nways;
    totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (i >= argc || totals == MAP_FAILED)
        return EXIT_USAGE;
    shares = objects != NULL;
    if (shares && (why = objects_share(objects, quick)))
        return fprintf(stderr, "sizes-run: %s\n", why), EXIT_ENVIRONMENT;
    tccc_prepare();
    printf("1..%d\n", argc - i);
    fflush(stdout);
    bad = run_jobs(argv + i, argc - i, at_once < 1 ? 1 : at_once, list);
    printf("# %d cases, %d runs compared, %d of them refused by all alike; %d ways with the code of another\n",
           argc - i, totals->runs, totals->refused, totals->same);
    return bad != 0;
}
