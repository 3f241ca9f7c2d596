/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy tracing, how programs run: the cache shared by processes, reports, failures, closures, autocast and the scaler,
 * several batches an execution, the environment.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "tests/unit/trace_nets.h"

/* -- The cache ----------------------------------------------------------------------------------------------------- */

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/tccc-trace-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int each_file(void (*fn)(const char *path))
{
    struct dirent *e;
    char path[400];
    int n = 0;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            fn(path);
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static void remove_file(const char *path)
{
    unlink(path);
}

static void cut_file(const char *path)
{
    ck_assert_int_eq(truncate(path, 1000), 0);
}

/* One training step in a context of its own; how many graphs were compiled. */
static int one_step(struct trace_counters *n)
{
    struct trace_ctx *c = context_with("", &(struct trace_options){.cache_dir = folder});
    struct net net;
    net_make(&net, c);
    struct trace_optimizer *o = trace_optimizer(c, "adam", 6, net.p, NULL);
    net_step(&net, o);
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    trace_count(c, n);
    trace_free(c);
    return (int)n->compiled;
}

START_TEST(many_processes)
{
    struct trace_counters n;
    pid_t pids[4];
    int compiled = 0, state;
    make_folder();
    for (int i = 0; i < 4; i++)
        if (!(pids[i] = fork())) {
            int mine = one_step(&n);
            _exit(n.executed == 1 && n.compiled + n.loaded == 1 ? mine : 9);
        }
    for (int i = 0; i < 4; i++) {
        waitpid(pids[i], &state, 0);
        ck_assert(WIFEXITED(state) && WEXITSTATUS(state) < 2);
        compiled += WEXITSTATUS(state);
    }
    ck_assert_int_eq(compiled, 1); /* the others waited for it */
    ck_assert_int_eq(one_step(&n), 0);
    ck_assert_int_eq(n.loaded, 1);
    ck_assert_int_eq(each_file(cut_file), 1); /* no lock and nothing temporary is left; a damaged one is made anew */
    ck_assert_int_eq(one_step(&n), 1);
    ck_assert_int_eq(one_step(&n), 0);
    each_file(remove_file);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* -- Reports ------------------------------------------------------------------------------------------------------- */

static char report_text[8192];

static void capture(void (*program)(struct trace_ctx *c))
{
    FILE *f = tmpfile();
    int kept = dup(2);
    ck_assert_ptr_nonnull(f);
    fflush(stderr);
    dup2(fileno(f), 2);
    struct trace_ctx *c = context("report");
    program(c);
    trace_free(c);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(f);
    size_t n = fread(report_text, 1, sizeof report_text - 1, f);
    report_text[n] = 0;
    fclose(f);
}

static void changing(struct trace_ctx *c)
{
    static const float x[64];
    T *w = trace_param(trace_ones(c, TCC_F32, DIMS(4, 4)), "weights");
    for (int i = 0; i < 6; i++) {
        T *in = floats(c, x, 2, (int64_t[]){i == 1 ? 8 : 4, 4});
        T *y = trace_mul_number(trace_linear(in, w, NULL), i == 2 ? 0.25 : 0.5);
        y = i == 3 ? trace_tanh(y) : trace_relu(y);
        y = trace_sum(y, 1, (int64_t[]){i == 4 ? 1 : 0}, false);
        (void)y;
        OK(c, trace_mark_step(c));
    }
}

START_TEST(reports)
{
    static const char *const lines[] = {
        "graph 1 of", "it is the first\n",        "graph 2 of", "input 0 is f32[8,4], not f32[4,4]\n",
        "graph 3 of", "unlike graph 1, constant", "0.25",       "0.5",
        "graph 4 of", "is tanh, not relu\n",      "graph 5 of", "axes = [1]",
        "axes = [0]"};
    const char *at = report_text;
    capture(changing);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *found = strstr(at, lines[i]);
        ck_assert_msg(found != NULL, "'%s' is not in: %s", lines[i], report_text);
        at = found + strlen(lines[i]);
    }
    ck_assert_ptr_null(strstr(report_text, "graph 6"));
}
END_TEST

/* -- Failures ------------------------------------------------------------------------------------------------------ */

static void expect(struct trace_ctx *c, int got, int status, const char *text)
{
    ck_assert_msg(got == status && strstr(trace_error(c), text), "status %d: %s", got, trace_error(c));
}

static void mistakes(const char *mode)
{
    struct trace_ctx *c = context(mode), *other = context(mode);
    T *x = trace_retain(trace_ones(c, TCC_F32, DIMS(2, 3))), *y = trace_retain(trace_ones(c, TCC_F32, DIMS(4)));
    T *i = trace_retain(trace_ones(c, TCC_I64, DIMS(2, 3)));
    ck_assert_ptr_null(trace_exp(trace_add(x, y)));
    expect(c, trace_mark_step(c), TCC_EINPUT, "add(f32[2,3], f32[4]): ");
    trace_matmul(x, x);
    expect(c, trace_mark_step(c), TCC_EINPUT, "matmul(f32[2,3], f32[2,3]): ");
    trace_add(x, i);
    expect(c, trace_mark_step(c), TCC_EINPUT, "add(f32[2,3], i64[2,3]): ");
    trace_softmax(y, 3);
    expect(c, trace_mark_step(c), TCC_EINPUT, "(f32[4]): axis 3 out of range");
    trace_cross_entropy(x, y);
    expect(c, trace_mark_step(c), TCC_EINPUT, "cross_entropy(f32[2,3], f32[4]): ");
    trace_op(c, "state_read", 0, NULL, NULL);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown op 'state_read'");
    trace_assign(x, y);
    expect(c, trace_mark_step(c), TCC_EINPUT, "the tensor is f32[2,3], the value f32[4]");
    trace_add(x, trace_ones(other, TCC_F32, DIMS(1)));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "another context");
    trace_backward(trace_sum(x, -1, NULL, false));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "not computed from a parameter");
    ck_assert_ptr_null(trace_optimizer(c, "sdg", 0, NULL, NULL));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown optimizer 'sdg'");
    ck_assert_ptr_null(trace_optimizer(c, "sgd", 1, &x, NULL));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "tensor 0 is no parameter");
    float v;
    expect(c, trace_read(x, &v, sizeof v), TCC_EUSAGE, "24 bytes, the buffer 4");
    ck_assert_int_eq(trace_read(NULL, &v, sizeof v), TCC_EUSAGE);
    /* A tensor inside a graph that has been run. */
    T *inner = trace_add(x, x), *outer = trace_sum(inner, -1, NULL, false);
    ck_assert_double_eq(item(outer), 12);
    if (!*mode) {
        trace_exp(inner);
        expect(c, trace_mark_step(c), TCC_EUSAGE, "not retained");
    }
    /* Tensors of a step that has ended. */
    OK(c, trace_mark_step(c));
    trace_add(x, outer);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "tensor f32[] is used after the end of its step");
    expect(c, trace_read(inner, &v, sizeof v), TCC_EUSAGE, "tensor f32[2,3] is used after");
    ck_assert_ptr_null(trace_retain(inner));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "is used after");
    trace_release(x);
    trace_assign(x, x);
    trace_exp(x);
    expect(c, trace_mark_step(c), TCC_EUSAGE, "is used after");
    trace_free(other);
    ck_assert_int_eq(trace_new(&(struct trace_options){.device = "tpu"}, &other), TCC_EUSAGE);
    ck_assert_ptr_null(other);
    trace_free(c);
}

START_TEST(errors)
{
    mistakes("");
    mistakes("eager");
}
END_TEST

static void bad_label(const char *mode)
{
    struct trace_ctx *c = context(mode);
    struct net n;
    float before[32], after[32];
    net_make(&n, c);
    struct trace_optimizer *o = trace_optimizer(c, "adam:lr=0.1", 6, n.p, NULL);
    net_step(&n, o);
    OK(c, trace_mark_step(c));
    OK(c, trace_read(n.p[2], before, 48));
    int64_t wrong[16] = {0, 1, 9};
    T *loss = trace_retain(trace_cross_entropy(
        trace_linear(trace_layer_norm(trace_linear(trace_ones(c, TCC_F32, DIMS(16, 8)), n.p[0], n.p[1]), 1, n.p[2],
                                      n.p[3], 1e-5),
                     n.p[4], n.p[5]),
        trace_from(c, &(struct tcc_tensor){wrong, TCC_I64, 1, {16}})));
    trace_zero_grad(o);
    int status = *mode || trace_backward(loss) || trace_optimizer_step(o) ? TCC_OK : trace_mark_step(c);
    if (!status && !*mode) { /* steps that follow it before it is known */
        net_step(&n, o);
        status = trace_mark_step(c);
    }
    if (!status)
        status = trace_wait(c);
    ck_assert_int_eq(status, TCC_EINDEX);
    OK(c, trace_read(n.p[2], after, 48));
    ck_assert_mem_eq(before, after, 48); /* neither that step nor the one behind it */
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 1);
    if (!*mode) {
        double v;
        ck_assert_int_eq(trace_item(loss, &v), TCC_EUSAGE);
    }
    net_step(&n, o); /* and on it goes */
    OK(c, trace_mark_step(c));
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 2);
    trace_free(c);
}

START_TEST(failing_step)
{
    bad_label("");
    bad_label("eager");
}
END_TEST

/* Tensors let go while steps run with them. */
START_TEST(lifetimes)
{
    struct trace_ctx *c = context("");
    T *sum = trace_retain(trace_zeros(c, TCC_F32, DIMS(1000)));
    for (int i = 0; i < 20; i++) {
        T *x = trace_retain(trace_uniform(c, TCC_F32, DIMS(1000), 0, 1)), *y = trace_retain(trace_add(sum, x));
        OK(c, trace_assign(sum, y));
        OK(c, trace_mark_step(c));
        trace_release(x);
        T *z = trace_retain(trace_add(y, y));
        trace_release(y);
        OK(c, trace_mark_step(c));
        trace_release(z);
    }
    trace_release(sum);
    trace_retain(trace_add(trace_uniform(c, TCC_F32, DIMS(3), 0, 1), trace_ones(c, TCC_F32, DIMS(1))));
    trace_free(c); /* with a graph that was not run */
}
END_TEST

/* -- Closures ------------------------------------------------------------------------------------------------------ */

struct seen {
    int n;
    double values[64];
};

static void see(void *user, int n, const struct tcc_tensor *values)
{
    struct seen *s = user;
    usleep(2000);
    ck_assert_int_eq(n, 2);
    s->values[s->n++] = (double)*(const float *)values[0].data + (double)((const float *)values[1].data)[1];
}

static void closures_in(const char *mode)
{
    struct trace_ctx *c = context(mode);
    struct seen s = {0};
    T *w = trace_retain(trace_ones(c, TCC_F32, DIMS(2)));
    for (int i = 0; i < 20; i++) {
        OK(c, trace_assign(w, trace_add(w, w)));
        T *sum = trace_sum(w, -1, NULL, false), *all[] = {sum, w};
        T *unused = trace_exp(sum);
        (void)unused;
        OK(c, trace_step_closure(c, see, &s, 2, all));
        OK(c, trace_mark_step(c));
    }
    OK(c, trace_wait(c));
    ck_assert_int_eq(s.n, 20);
    for (int i = 0; i < 20; i++) /* the values of that step, not of later ones */
        ck_assert_double_eq(s.values[i], 3 * ldexp(1, i + 1));
    OK(c, trace_step_closure(c, see, &s, 2, LIST(w, w))); /* nothing else in the step */
    OK(c, trace_mark_step(c));
    OK(c, trace_wait(c));
    ck_assert_int_eq(s.n, 21);
    OK(c, trace_step_closure(c, see, &s, 2, LIST(w, w)));
    trace_free(c); /* as it is: the step was not ended */
    ck_assert_int_eq(s.n, 21);
}

START_TEST(closures)
{
    closures_in("");
    closures_in("eager");
}
END_TEST

/* -- Mixed precision ----------------------------------------------------------------------------------------------- */

START_TEST(autocast)
{
    struct trace_ctx *c = context("");
    T *x = trace_retain(trace_normal(c, TCC_F32, DIMS(4, 6), 0, 1)),
      *w = trace_param(trace_normal(c, TCC_F32, DIMS(5, 6), 0, 1), "w");
    ck_assert_int_eq(trace_autocast(c, TCC_BF16), TCC_NONE);
    T *y = trace_linear(x, w, NULL), *p = trace_softmax(y, 1), *n = trace_layer_norm(y, 1, NULL, NULL, 1e-5),
      *r = trace_relu(y);
    ck_assert_int_eq(
        trace_dtype(trace_concat(
            2, LIST(x, trace_transpose(trace_matmul(x, trace_transpose(x, (int64_t[]){1, 0})), (int64_t[]){1, 0})), 1)),
        TCC_F32);
    ck_assert_int_eq(trace_autocast(c, TCC_NONE), TCC_BF16);
    ck_assert_int_eq(trace_dtype(y), TCC_BF16);
    ck_assert_int_eq(trace_dtype(r), TCC_BF16);
    ck_assert_int_eq(trace_dtype(p), TCC_F32);
    ck_assert_int_eq(trace_dtype(n), TCC_F32);
    ck_assert_int_eq(trace_dtype(trace_linear(x, w, NULL)), TCC_F32);
    OK(c, trace_backward(trace_sum(trace_square(trace_cast(y, TCC_F32)), -1, NULL, false)));
    ck_assert_int_eq(trace_dtype(trace_grad(w)), TCC_F32);
    ck_assert_double_ge(item(trace_amax(trace_abs(trace_grad(w)), -1, NULL, false)), 1e-3);
    trace_autocast(c, TCC_I32);
    ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    trace_free(c);
}
END_TEST

START_TEST(scaler)
{
    struct trace_ctx *c = context("");
    struct net n;
    net_make(&n, c);
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0.1", 6, n.p, NULL);
    struct trace_scaler *s = trace_scaler(c, 1024);
    float before[12], after[12];
    for (int i = 0; i < 3; i++) { /* the second one overflows */
        T *loss = trace_mul(net_loss(&n, 16, 0), trace_from_number(c, TCC_F32, i == 1 ? 1e38 : 1));
        OK(c, trace_read(n.p[1], before, sizeof before));
        loss = trace_mul(net_loss(&n, 16, 0), trace_from_number(c, TCC_F32, i == 1 ? 1e38 : 1));
        trace_zero_grad(o);
        OK(c, trace_backward(trace_scaler_scale(s, loss)));
        OK(c, trace_scaler_step(s, o));
        OK(c, trace_mark_step(c));
        ck_assert_double_eq(item(trace_scaler_value(s)), i ? 512 : 1024);
        OK(c, trace_read(n.p[1], after, sizeof after));
        ck_assert_int_eq(!memcmp(before, after, sizeof after), i == 1);
    }
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.step")), 2);
    ck_assert_double_eq(item(trace_optimizer_state(o, "train.skipped")), 1);
    trace_free(c);
}
END_TEST

/* GradScaler's settings, and its state set into another one: what that does next is what the first one does. */
START_TEST(scaler_state)
{
    struct trace_ctx *c = context("");
    const struct trace_scaler_options options = {.init = 8, .growth = 4, .backoff = 0.25, .interval = 2};
    struct trace_scaler *s = trace_scaler_new(c, &options), *again = trace_scaler_new(c, &options);
    T *w = trace_param(trace_full(c, TCC_F32, DIMS(1), 1), "w");
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0", 1, &w, NULL);
    const double scales[] = {8, 32, 8, 8, 32}; /* the third step overflows */
    for (int i = 0; i < 5; i++) {
        struct trace_scaler *now = i < 4 ? s : again;
        T *loss = trace_sum(trace_mul(w, trace_from_number(c, TCC_F32, i == 2 ? 3e38 : 1)), -1, NULL, false);
        if (i == 4)
            for (int k = 0; k < 2; k++) {
                uint32_t bits;
                const char *name = trace_scaler_state_name(s, k);
                T *t = trace_scaler_state(s, name);
                OK(c, trace_read(t, &bits, sizeof bits));
                OK(c, trace_set(trace_scaler_state(again, name), &(struct tcc_tensor){&bits, trace_dtype(t), 0, {0}}));
            }
        loss = trace_sum(trace_mul(w, trace_from_number(c, TCC_F32, i == 2 ? 3e38 : 1)), -1, NULL, false);
        trace_zero_grad(o);
        OK(c, trace_backward(trace_scaler_scale(now, loss)));
        OK(c, trace_scaler_step(now, o));
        OK(c, trace_mark_step(c));
        ck_assert_double_eq(item(trace_scaler_value(now)), scales[i]);
    }
    ck_assert_ptr_null(trace_scaler_state_name(s, 2));
    ck_assert_ptr_null(trace_scaler_new(c, &(struct trace_scaler_options){.growth = 0.5}));
    ck_assert_int_eq(trace_mark_step(c), TCC_EUSAGE);
    trace_free(c);
}
END_TEST

/* Losses of steps with dropout; from step `from` on with the state that an earlier program left. */
static void dropout_steps(const char *mode, int from, int to, int64_t state[2], double *losses)
{
    struct trace_ctx *c = context(mode);
    T *w = trace_param(trace_full(c, TCC_F32, DIMS(64), 1), "w");
    struct trace_optimizer *o = trace_optimizer(c, "sgd:lr=0", 1, &w, NULL);
    T *random = trace_optimizer_state(o, "train.random");
    ck_assert_ptr_nonnull(random);
    if (from)
        OK(c, trace_set(random, &(struct tcc_tensor){state, TCC_I64, 1, {2}}));
    for (int i = from; i < to; i++) {
        T *loss = trace_sum(trace_mul(trace_dropout(w, 0.5), trace_iota(c, TCC_F32, DIMS(64), 0)), -1, NULL, false);
        trace_zero_grad(o);
        OK(c, trace_backward(loss));
        OK(c, trace_optimizer_step(o));
        losses[i] = item(loss);
        OK(c, trace_mark_step(c));
    }
    OK(c, trace_read(random, state, 2 * sizeof *state));
    trace_free(c);
}

START_TEST(dropout_resumes)
{
    static const char *const modes[] = {"", "eager"};
    for (int m = 0; m < 2; m++) {
        double whole[6], parts[6];
        int64_t state[2], left[2];
        dropout_steps(modes[m], 0, 6, state, whole);
        dropout_steps(modes[m], 0, 3, left, parts);
        dropout_steps(modes[m], 3, 6, left, parts);
        for (int i = 0; i < 6; i++)
            ck_assert_double_eq(parts[i], whole[i]);
        ck_assert_double_ne(whole[0], whole[1]);
        ck_assert(!memcmp(state, left, sizeof state));
    }
}
END_TEST

/* Steps that hold several batches; samples that don't divide. */
START_TEST(batches_per_execution)
{
    struct trace_ctx *c = context("");
    float x[11] = {0};
    const struct tcc_tensor array = {x, TCC_F32, 1, {11}};
    struct trace_loader *l = trace_loader(
        c, 1, &array, &(struct trace_loader_options){.batch = 2, .batches_per_execution = 2, .keep_last = true});
    T *batch, *first = NULL;
    bool more;
    int64_t count = 0;
    struct trace_counters k;
    for (; trace_loader_next(l, &batch, &more) == TCC_OK && more; count++) {
        if (count % 2) /* of the same step */
            trace_retain(trace_concat(2, LIST(first, batch), 0));
        first = batch;
    }
    ck_assert_int_eq(count, 6);
    ck_assert_int_eq(trace_loader_batches(l), 6);
    OK(c, trace_wait(c));
    trace_count(c, &k);
    ck_assert_int_eq(k.executed, 3);
    ck_assert_ptr_null(trace_loader(c, 1, &array, &(struct trace_loader_options){.batch = 2, .group = "none"}));
    expect(c, trace_mark_step(c), TCC_EUSAGE, "unknown group 'none'");
    trace_free(c);
}
END_TEST

/* What the environment and the options may not say; TCCC_FLAGS. */
START_TEST(environment)
{
    static const struct {
        const char *device, *trace, *flags;
        int status;
        const char *text;
    } rows[] = {
        {"cuda:sm_90", "", "", TCC_EUSAGE, "unknown device 'cuda:sm_90'"},
        {"neuron:trn1", "", "", TCC_EUSAGE, "unknown device 'neuron:trn1'"},
        {"tpu", "", "", TCC_EUSAGE, "unknown device 'tpu'"},
        {NULL, "report,lazy", "", TCC_EUSAGE, "TCCC_TRACE=report,lazy: unknown value 'lazy'"},
        {NULL, "", "-O3 --bogus", TCC_EUSAGE, "TCCC_FLAGS: unknown option '--bogus'"},
        {NULL, "", "-O7", TCC_EUSAGE, "TCCC_FLAGS: wrong value for option '-O7'"},
        {NULL, "", "--exact --fast-math", TCC_EUSAGE, "exclude each other"},
        {NULL, "", "--dump-ir=everything", TCC_EUSAGE, "TCCC_FLAGS: wrong value for option '--dump-ir=everything'"},
        {"cuda:61", "", "", TCC_EENV, "cuda"},
        {NULL, "", "-v --threads=3 --exact -j 2 -O 1 --march x86-64-v2", TCC_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace_ctx *c;
        setenv("TCCC_TRACE", rows[i].trace, 1);
        setenv("TCCC_FLAGS", rows[i].flags, 1);
        ck_assert_int_eq(trace_new(&(struct trace_options){.device = rows[i].device}, &c), rows[i].status);
        ck_assert_msg(strstr(trace_error(c), rows[i].text) != NULL, "%s", trace_error(c));
        if (c) {
            ck_assert(c->level == 1 && c->flags.exact && c->flags.jobs == 2 && !strcmp(c->march, "x86-64-v2"));
            ck_assert_double_eq(item(trace_exp(trace_scalar(c, TCC_F32, 0))), 1);
        }
        trace_free(c);
    }
    unsetenv("TCCC_FLAGS");
}
END_TEST

/* -v and --dump-ir show the graph, also one that the cache has. */
START_TEST(dumps)
{
    static const char *const shown[] = {"total", "module \"trace\"", "@main(%in0: f32[2,3]", "exp(", "; after fuse"};
    char text[65536];
    FILE *log = tmpfile();
    int standard = dup(2);
    ck_assert(log && standard >= 0);
    int file = fileno(log);
    make_folder();
    setenv("TCCC_FLAGS", "-v --dump-ir --dump-ir=after:fuse", 1);
    for (int i = 0; i < 2; i++) {
        struct trace_ctx *c;
        OK(c, trace_new(&(struct trace_options){.cache_dir = folder, .threads = 1}, &c));
        ck_assert(!ftruncate(file, 0) && !lseek(file, 0, SEEK_SET));
        fflush(stderr);
        dup2(file, 2);
        double v = item(trace_sum(trace_exp(floats(c, (float[6]){0}, DIMS(2, 3))), -1, NULL, false));
        fflush(stderr);
        dup2(standard, 2);
        ck_assert_double_eq(v, 6);
        ssize_t n = pread(file, text, sizeof text - 1, 0);
        ck_assert_int_gt(n, 0);
        text[n] = 0;
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
            ck_assert_msg(strstr(text, shown[k]) != NULL, "%s is not in %s", shown[k], text);
        trace_free(c);
    }
    unsetenv("TCCC_FLAGS");
    fclose(log);
    close(standard);
    each_file(remove_file);
    rmdir(folder);
}
END_TEST

/* Weights, moments, a scale, counters and the seed that are set between steps: the graph is the one that there is. */
START_TEST(sets)
{
    struct trace_ctx *c = context("");
    struct trace_counters counters;
    T *w = trace_param(trace_full(c, TCC_F32, DIMS(3, 4), 0.5), "w");
    struct trace_optimizer *o = trace_optimizer(c, "adam:lr=0.1", 1, &w, NULL);
    struct trace_scaler *s = trace_scaler(c, 8);
    float x[8] = {1, -2, 3, -4, 5, 6, 7, 8}, values[12] = {0};
    const struct tcc_tensor matrix = {values, TCC_F32, 2, {3, 4}};
    for (int step = 0; step < 12; step++) {
        if (step == 2)
            OK(c, trace_set(w, &matrix));
        if (step == 4)
            OK(c, trace_set(trace_scaler_state(s, "train.scale"), &(struct tcc_tensor){(float[]){4}, TCC_F32, 0, {0}}));
        if (step == 6)
            OK(c, trace_set(trace_optimizer_state(o, "optimizer.exp_avg.w"), &matrix));
        if (step == 8)
            OK(c, trace_set(trace_optimizer_state(o, "train.random"),
                            &(struct tcc_tensor){(int64_t[]){5, 3}, TCC_I64, 1, {2}}));
        if (step == 10)
            OK(c, trace_set(trace_optimizer_state(o, "train.step"),
                            &(struct tcc_tensor){(int64_t[]){1}, TCC_I64, 0, {0}}));
        T *y = trace_linear(trace_dropout(floats(c, x, DIMS(2, 4)), 0.25), w, NULL);
        trace_zero_grad(o);
        OK(c, trace_backward(trace_scaler_scale(s, trace_mean(trace_square(y), -1, NULL, false))));
        OK(c, trace_scaler_step(s, o));
        OK(c, trace_mark_step(c));
        trace_count(c, &counters);
        ck_assert_msg(counters.compiled + counters.loaded == 1, "step %d", step);
    }
    double scale;
    OK(c, trace_item(trace_scaler_value(s), &scale));
    ck_assert_double_eq(scale, 4);
    OK(c, trace_read(w, values, sizeof values));
    ck_assert(values[0] != 0 && fabsf(values[0]) < 2);
    trace_scaler_free(s);
    trace_optimizer_free(o);
    trace_free(c);
}
END_TEST

/* The call that reads what failed has its status, and the next step is well, in both modes. */
START_TEST(recovers)
{
    static const char *const modes[] = {"", "eager"};
    for (int m = 0; m < 2; m++) {
        struct trace_ctx *c = context(modes[m]);
        float x[6] = {1, 2, 3, 4, 5, 6};
        int64_t wrong[] = {1, 7}, right[] = {1, 2};
        double v;
        T *scores = trace_retain(floats(c, x, DIMS(2, 3)));
        T *loss = trace_cross_entropy(scores, trace_from(c, &(struct tcc_tensor){wrong, TCC_I64, 1, {2}}));
        ck_assert_int_eq(trace_item(loss, &v), TCC_EINDEX);
        ck_assert(*trace_error(c));
        loss = trace_cross_entropy(scores, trace_from(c, &(struct tcc_tensor){right, TCC_I64, 1, {2}}));
        OK(c, trace_item(loss, &v));
        ck_assert_double_eq_tol(v, 0.907606, 1e-6);
        ck_assert_int_eq(trace_item(trace_add(scores, floats(c, x, DIMS(4))), &v), TCC_EINPUT);
        ck_assert_double_eq(item(trace_sum(scores, -1, NULL, false)), 21);
        trace_free(c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace_runs");
    TCase *t = tcase_create("trace_runs");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, many_processes);
    tcase_add_test(t, reports);
    tcase_add_test(t, errors);
    tcase_add_test(t, failing_step);
    tcase_add_test(t, lifetimes);
    tcase_add_test(t, closures);
    tcase_add_test(t, autocast);
    tcase_add_test(t, scaler);
    tcase_add_test(t, scaler_state);
    tcase_add_test(t, dropout_resumes);
    tcase_add_test(t, batches_per_execution);
    tcase_add_test(t, environment);
    tcase_add_test(t, dumps);
    tcase_add_test(t, sets);
    tcase_add_test(t, recovers);
    suite_add_tcase(s, t);
    return run_tests(s);
}
