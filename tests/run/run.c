/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - runs .tcir programs whose inputs and expected outputs stand in their comments, in the reference interpreter
 * and compiled at several levels, and prints TAP, a line a file and mode.
 *
 *   run-tcir [--modes interp,O0,O2@x86-64-v3,O2/neuron:trn1,...] FILE...
 * A mode is `interp`, or `O` and a level, for another instruction set than this machine's with its name behind an @.
 * Code for a CPU that is more than this one is compiled (which checks its undefined symbols), not run, and SKIP is
 * printed.
 *
 *   ; CASE: name          begins a case; all cases of a file run in one session, in order, so that state is carried on
 *   ; ENTRY: name         the function that this case calls (default: main)
 *   ; IN: f32[2,3] 1 2 3 4 5 6
 *   ; OUT: f32[3] 5 7 9   nan, inf and -inf are written so; too long lines go on in lines `; + 1 2 3`
 *   ; OUT: same           compiled code must give what the interpreter gives
 *   ; TOL: 1e-5 1e-6      relative, absolute (of floats; 0 0: the same values); default 1e-5 1e-6
 *   ; FAILS: 1            the run must end with that tcc_status instead
 *   ; SAYS: words         and its message must hold these words, in every mode
 * One value for many elements fills them all; `wave S` instead of values is ((i * 37 + S) % 101 - 50) / 32, `count` is
 * 0, 1, 2... Signs of zero are compared where the tolerance is 0 0.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "ir/ir.h"
#include "passes/pass.h"
#include "runtime/tccrt.h"
#include "tools/values/values_int.h"

enum { MAX_VALUES = 64, MAX_CASES = 64, SKIPPED = 77 };

struct test_case {
    char name[64], entry[64];
    int nin, nout, status;
    char says[300]; /* part of the message of a run that fails; "": anything */
    double rtol, atol;
    struct tcc_object *in[MAX_VALUES], *out[MAX_VALUES]; /* out NULL: what the interpreter gives */
};

struct program {
    const char *path;
    char *text;
    size_t size;
    int ncases;
    struct test_case cases[MAX_CASES];
    char why[600];
    bool skipped; /* compiled for another CPU, and not run */
};

static bool fail(struct program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct program *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->why, sizeof p->why, format, args);
    va_end(args);
    return false;
}

/* -- Reading ------------------------------------------------------------------------------------ */

static bool read_file(struct program *p)
{
    FILE *f = fopen(p->path, "rb");
    FILE *to = open_memstream(&p->text, &p->size);
    char buffer[4096];
    size_t n;
    if (!f || !to)
        return fail(p, "cannot be read");
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        fwrite(buffer, 1, n, to);
    fclose(f);
    fclose(to);
    return true;
}

static void set_element(struct tcc_object *o, int64_t i, double f, int64_t k)
{
    enum tcc_dtype d = (enum tcc_dtype)o->t.dtype;
    void *p = (char *)o->t.data + i * tcc_dtype_bytes(d);
    if (tcc_is_float(d))
        tcc_cast(d, p, TCC_F64, &f, false, NULL); /* inf stays inf */
    else
        tcc_store_i64(d, p, k);
}

/* "f32[2,3] 1 2 ..." to an object; NULL: malformed. */
static struct tcc_object *read_value(const char *s)
{
    char name[32];
    int n = 0, rank = 0;
    int64_t dims[TCC_MAX_RANK], count = 1, given = 0;
    if (sscanf(s, "%31[a-z0-9]%n", name, &n) != 1 || s[n] != '[' || !tcc_dtype_by_name(name))
        return NULL;
    char *at = (char *)s + n + 1;
    while (*at && *at != ']' && rank < TCC_MAX_RANK) {
        count *= dims[rank++] = strtoll(at, &at, 10);
        at += *at == ',';
    }
    struct tcc_object *o = *at == ']' ? tccrt_object_tensor(tcc_dtype_by_name(name), rank, dims) : NULL;
    if (!o)
        return NULL;
    at += 1 + strspn(at + 1, " ");
    if (!strncmp(at, "wave", 4) || !strncmp(at, "count", 5)) {
        int64_t shift = strtoll(at + 4 + (*at == 'c'), NULL, 10);
        for (int64_t i = 0; i < count; i++) {
            int64_t k = *at == 'c' ? i : (i * 37 + shift) % 101 - 50;
            set_element(o, i, *at == 'c' ? (double)i : (double)k / 32, k);
        }
        return o;
    }
    for (char *end; given < count; given++, at = end) {
        double f = strtod(at, &end);
        if (end == at)
            break;
        set_element(o, given, f, (int64_t)strtoull(at, NULL, 10));
    }
    for (int64_t i = 1; given == 1 && i < count; i++)
        memcpy((char *)o->t.data + i * tcc_dtype_bytes((enum tcc_dtype)o->t.dtype), o->t.data,
               (size_t)tcc_dtype_bytes((enum tcc_dtype)o->t.dtype));
    if ((given != count && given != 1) || at[strspn(at, " ")]) {
        tccrt_object_unref(o);
        return NULL;
    }
    return o;
}

static struct test_case *current(struct program *p)
{
    if (p->ncases == 0) {
        p->ncases = 1;
        strcpy(p->cases[0].name, "-");
    }
    return &p->cases[p->ncases - 1];
}

static bool read_directive(struct program *p, char *key, char *rest)
{
    if (!strcmp(key, "CASE")) {
        if (p->ncases == MAX_CASES)
            return fail(p, "too many cases");
        snprintf(p->cases[p->ncases++].name, sizeof p->cases->name, "%s", rest);
        return true;
    }
    struct test_case *c = current(p);
    if (!strcmp(key, "ENTRY"))
        snprintf(c->entry, sizeof c->entry, "%s", rest);
    else if (!strcmp(key, "TOL"))
        return sscanf(rest, "%lf %lf", &c->rtol, &c->atol) == 2 || fail(p, "bad TOL");
    else if (!strcmp(key, "FAILS"))
        c->status = atoi(rest);
    else if (!strcmp(key, "SAYS"))
        snprintf(c->says, sizeof c->says, "%s", rest);
    else if (!strcmp(key, "IN"))
        return (c->nin < MAX_VALUES && (c->in[c->nin++] = read_value(rest))) || fail(p, "bad IN: %s", rest);
    else if (!strcmp(key, "OUT") && !strcmp(rest, "same"))
        c->nout++;
    else if (!strcmp(key, "OUT"))
        return (c->nout < MAX_VALUES && (c->out[c->nout++] = read_value(rest))) || fail(p, "bad OUT: %s", rest);
    return true;
}

/* The directives of the text; lines `; +` are joined to the one before. */
static bool read_cases(struct program *p)
{
    char *joined = calloc(1, p->size + 2), *end = joined, *save = NULL;
    for (int i = 0; i < MAX_CASES; i++) {
        p->cases[i].rtol = 1e-5;
        p->cases[i].atol = 1e-6;
        strcpy(p->cases[i].entry, "main");
    }
    for (const char *line = p->text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t n = strcspn(line, "\n");
        bool more = !strncmp(line, "; + ", 4);
        if (end > joined && !more)
            *end++ = '\n';
        memcpy(end, line + (more ? 3 : 0), n - (more ? 3 : 0));
        end += n - (more ? 3 : 0);
    }
    bool good = true;
    for (char *line = strtok_r(joined, "\n", &save); line && good; line = strtok_r(NULL, "\n", &save)) {
        char key[16];
        int n = 0;
        if (sscanf(line, "; %15[A-Z]:%n", key, &n) == 1 && n)
            good = read_directive(p, key, line + n + strspn(line + n, " "));
    }
    free(joined);
    return good && (p->ncases || fail(p, "no cases"));
}

/* -- Comparing ------------------------------------------------------------------------------------ */

static bool compare(struct program *p, const struct test_case *c, int k, const struct tcc_object *got,
                    const struct tcc_object *expected)
{
    const struct tolerance t = {
        .rtol = c->rtol, .atol = c->atol, .absolute = true, .signed_zero = c->rtol == 0 && c->atol == 0};
    char why[ERROR_SIZE];

    return value_equal(got, expected, &t, why) || fail(p, "case %s, output %d: %s", c->name, k, why);
}

/* Compares and lets go of what a run gave. `fill`: where the text says "same", this is what others must give. */
static bool check(struct program *p, struct test_case *c, int status, const char *error, struct tcc_object **got,
                  bool fill)
{
    bool good =
        status == c->status || fail(p, "case %s: status %d, expected %d: %s", c->name, status, c->status, error);
    if (good && status && !strstr(error, c->says))
        good = fail(p, "case %s: expected '%s', got '%s'", c->name, c->says, error);
    for (int k = 0; k < c->nout && status == 0; k++) {
        if (good && c->out[k])
            good = compare(p, c, k, got[k], c->out[k]);
        else if (good && fill)
            c->out[k] = tccrt_object_ref(got[k]);
        tccrt_object_unref(got[k]);
    }
    return good;
}

/* -- Running ---------------------------------------------------------------------------------------- */

static bool run_interpreted(struct program *p)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    if (!ctx || !IR_PROTECT(ctx, &frame))
        return fail(p, "no memory");
    struct ir_module *m = ir_parse(ctx, p->path, p->text, p->size);
    struct ir_interp_state *state = m ? ir_interp_state_new(m) : NULL;
    m = m && pass_list(m, "prune", &(struct pass_options){.change_limit = -1}) ? m : NULL; /* as tccc-run --interpret */
    bool good = m || fail(p, "%s", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "does not parse");
    for (int i = 0; i < p->ncases && good; i++) {
        struct test_case *c = &p->cases[i];
        struct tcc_object *got[MAX_VALUES] = {NULL};
        char error[1024] = "";
        struct ir_func *f = ir_choose_version(m, c->entry, state, c->in, error, sizeof error);
        if (!f || f->body->nparams != c->nin || f->body->last->nin > MAX_VALUES ||
            (!c->status && f->body->last->nin != c->nout))
            good = fail(p, "case %s: function @%s has other inputs or outputs", c->name, c->entry);
        else
            good = check(p, c, ir_interp(f, state, c->in, got, error, sizeof error), error, got, true);
    }
    ir_interp_state_free(state);
    ir_ctx_free(ctx);
    return good;
}

static void first_message(void *user, int severity, const char *text)
{
    struct program *p = user;
    if (severity >= 2 && !p->why[0])
        fail(p, "%s", text);
}

static bool run_session(struct program *p, const char *so, int threads, bool foreign)
{
    struct tccrt_model *m = NULL;
    struct tccrt_session *s = NULL;
    struct tccrt_options o = {.threads = threads};
    int opened = tccrt_open(so, &m);
    if (opened == TCC_EENV && foreign && strstr(tccrt_error(), "CPU")) {
        p->skipped = true;
        return fail(p, "compiled, not run: %s", tccrt_error());
    }
    bool good = (!opened && !tccrt_session_new(m, &o, &s)) || fail(p, "open: %s", tccrt_error());
    for (int i = 0; i < p->ncases && good; i++) {
        struct test_case *c = &p->cases[i];
        struct tcc_object *got[MAX_VALUES] = {NULL};
        int nout = tccrt_noutputs(m, c->entry);
        if (nout < 0 || nout > MAX_VALUES || (!c->status && nout != c->nout))
            good = fail(p, "case %s: the artifact's entry '%s' has %d outputs", c->name, c->entry, nout);
        else
            good = check(p, c, tccrt_run_objects(s, c->entry, c->nin, c->in, nout, got), tccrt_error(), got, false);
    }
    if (s)
        tccrt_session_free(s);
    if (m)
        tccrt_close(m);
    return good;
}

static bool run_compiled(struct program *p, int level, const char *march, const char *target)
{
    struct tccc_options o;
    char so[64];
    snprintf(so, sizeof so, "run-tcir-%ld.so", (long)getpid());
    tccc_options_init(&o);
    o.model = p->path;
    o.output = so;
    o.name = "program";
    o.kind = TCCC_SO;
    o.level = level;
    o.march = march;
    o.target = target;
    o.verify = true;
    o.message = first_message;
    o.user = p;
    int status = tccc_compile(&o);
    bool good = status == 0 ? run_session(p, so, 2, march != NULL)
                : p->why[0] ? false
                            : fail(p, "compile: exit %d", status);
    unlink(so);
    return good;
}

static bool run_mode(struct program *p, const char *mode)
{
    const char *march = strchr(mode, '@'), *target = strchr(mode, '/');
    p->why[0] = 0;
    if (mode[0] == 'O')
        return run_compiled(p, atoi(mode + 1), march ? march + 1 : NULL, target ? target + 1 : NULL);
    return run_interpreted(p);
}

/* One file, all modes, as TAP lines from number `number` on. Returns how many failed. */
static int run_file(const char *path, const char *modes, int number)
{
    struct program *p = calloc(1, sizeof *p);
    char list[200], *save = NULL;
    int failed = 0;
    p->path = path;
    bool good = read_file(p) && read_cases(p);
    snprintf(list, sizeof list, "%s", modes);
    for (char *mode = strtok_r(list, ",", &save); mode; mode = strtok_r(NULL, ",", &save)) {
        fflush(stdout);
        pid_t child = fork(); /* a crash is one failure; what "same" means is found in this process */
        int status = 0;
        if (child == 0) {
            bool passed = good && run_mode(p, mode);
            if (!passed)
                printf("# %s\n", p->why);
            fflush(stdout);
            _exit(p->skipped ? SKIPPED : !passed);
        }
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("# crashed: signal %d\n", WTERMSIG(status));
        bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
        failed += status != 0 && !skipped;
        printf("%sok %d - %s %s%s\n", status && !skipped ? "not " : "", ++number,
               strrchr(path, '/') ? strrchr(path, '/') + 1 : path, mode,
               skipped ? " # SKIP this CPU cannot run it" : "");
        if (good && mode[0] == 'i')
            run_mode(p, mode); /* fills in what "same" means */
    }
    for (int k = 0; k < p->ncases * MAX_VALUES; k++) {
        struct test_case *c = &p->cases[k / MAX_VALUES];
        if (c->in[k % MAX_VALUES])
            tccrt_object_unref(c->in[k % MAX_VALUES]);
        if (c->out[k % MAX_VALUES])
            tccrt_object_unref(c->out[k % MAX_VALUES]);
    }
    free(p->text);
    free(p);
    return failed;
}

int main(int argc, char **argv)
{
    const char *modes = "interp,O0,O2";
    int first = 1, number = 0, failed = 0, nmodes = 1;
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        if (strcmp(argv[first], "--modes"))
            return 2;
        modes = argv[first + 1];
    }
    for (const char *c = modes; *c; c++)
        nmodes += *c == ',';
    tccc_prepare();
    for (int i = first; i < argc; i++, number += nmodes)
        failed += run_file(argv[i], modes, number);
    printf("1..%d\n", number);
    return failed != 0;
}
