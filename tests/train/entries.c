/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries.c - what a compiled training step offers to programs: entry points and how they agree, gradients that a
 * program changes, accumulation, further outputs, parameters left out, batch sizes, and the memory that --memory-budget
 * promises. Prints TAP.
 *
 *   entries FOLDER      of mlp.onnx and gpt.onnx (tests/train/networks)
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tests/tensors.h"

enum { ROWS = 16, IN = 16, CLASSES = 10, MAX_STATES = 300 };

struct run {
    struct tccc_train train;
    struct tccrt_model *model;
    struct tccrt_session *session;
    char said[4000]; /* notes, warnings, errors */
    int warnings;
};

static const char *folder;
static int ntests, nfailed;

static void verdict(bool good, const char *what, const char *said)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++ntests, what);
    if (!good)
        printf("# %s # %s\n", tccrt_error(), said);
    fflush(stdout);
    nfailed += !good;
}

/* -- Compiling and running */

static void keep(void *user, int severity, const char *text)
{
    struct run *r = user;
    size_t n = strlen(r->said);
    snprintf(r->said + n, sizeof r->said - n, "%s|", text);
    r->warnings += severity == 1;
}

static int compile(struct run *r, const char *name, const char *const *dims)
{
    char file[] = "/tmp/tccc-entries-XXXXXX.so", path[1000];
    int fd = mkstemps(file, 3);
    struct tccc_options o;
    if (fd < 0)
        return -1;
    close(fd);
    snprintf(path, sizeof path, "%s%s", strchr(name, '/') ? "" : folder, name);
    tccc_options_init(&o);
    o.model = path;
    o.output = file;
    o.name = "entries";
    o.dims = dims;
    o.train = &r->train;
    o.verify = true;
    o.message = keep;
    o.user = r;
    r->train.loss = r->train.loss ? r->train.loss : "cross_entropy";
    int status = tccc_compile(&o);
    struct tccrt_options two = {.threads = 2};
    if (!status && (tccrt_open(file, &r->model) || tccrt_session_new(r->model, &two, &r->session)))
        status = -1;
    unlink(file);
    return status;
}

static void finish(struct run *r)
{
    tccrt_session_free(r->session);
    tccrt_close(r->model);
    *r = (struct run){0};
}

struct batch {
    float x[ROWS * IN];
    int64_t target[ROWS];
};

static void make_batch(struct batch *b, unsigned seed)
{
    for (int i = 0; i < ROWS * IN; i++) {
        seed = seed * 1664525u + 1013904223u;
        b->x[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    for (int i = 0; i < ROWS; i++) {
        seed = seed * 1664525u + 1013904223u;
        b->target[i] = (seed >> 16) % CLASSES;
    }
}

/* Rows [from, from + n) of a batch; the first output is a loss. NAN: failed. */
static float call(struct run *r, const char *entry, const struct batch *b, int from, int n, int nout,
                  struct tcc_tensor *out)
{
    struct tcc_tensor in[2] = {{.data = (void *)(b->x + from * IN), .dtype = TCC_F32, .rank = 2, .dims = {n, IN}},
                               {.data = (void *)(b->target + from), .dtype = TCC_I64, .rank = 1, .dims = {n}}};
    struct tcc_tensor results[4] = {0};
    bool given = strcmp(entry, "init") && strcmp(entry, "apply");
    if (tccrt_run(r->session, entry, given ? 2 : 0, given ? in : NULL, nout, results))
        return NAN;
    for (int i = 0; out && i < nout; i++)
        out[i] = results[i];
    return nout ? *(float *)results[0].data : 0;
}

static float step(struct run *r, const struct batch *b)
{
    return call(r, "step", b, 0, ROWS, 1, NULL);
}

/* The largest difference of the state that both have and that `flags` names; INFINITY where bits must be equal and are
 * not. */
static double difference(struct run *a, struct run *b, int flags)
{
    double worst = 0;
    for (int i = 0; i < tccrt_nstates(a->model); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x, y;
        tccrt_state_info(a->model, i, &info);
        if (!(tccrt_state_flags(a->model, i) & flags) || info.dtype != TCC_F32)
            continue;
        if (tccrt_state_get(a->session, info.name, &x) || tccrt_state_get(b->session, info.name, &y))
            return INFINITY;
        for (int64_t k = 0; k < elements(&x); k++)
            worst = fmax(worst, fabs((double)((float *)x.data)[k] - (double)((float *)y.data)[k]));
    }
    return worst;
}

static double number(struct run *r, const char *state)
{
    struct tcc_tensor t;
    if (tccrt_state_get(r->session, state, &t))
        return NAN;
    return t.dtype == TCC_I64   ? (double)*(int64_t *)t.data
           : t.dtype == TCC_I32 ? (double)*(int32_t *)t.data
                                : (double)*(float *)t.data;
}

/* -- Entry points */

static void test_entries(void)
{
    struct run a = {.train.optimizer = "adamw:lr=0.01"}, b = a, fresh = a;
    struct batch batch[4];
    bool good = !compile(&a, "mlp.onnx", NULL) && !compile(&b, "mlp.onnx", NULL) && !compile(&fresh, "mlp.onnx", NULL);
    for (unsigned i = 0; i < 4; i++)
        make_batch(&batch[i], i);
    const int all = TCCRT_STATE_PARAM | TCCRT_STATE_OPTIMIZER | TCCRT_STATE_BUFFER;
    float first = NAN;
    for (int i = 0; i < 4 && good; i++) {
        float loss = step(&a, &batch[i]), same = call(&b, "grad", &batch[i], 0, ROWS, 1, NULL);
        good = loss == same && call(&b, "apply", NULL, 0, 0, 1, NULL) == 0.01f;
        first = i ? first : loss;
    }
    verdict(good && difference(&a, &b, all) == 0, "grad and apply make the bits of step", a.said);
    verdict(good && number(&a, "train.step") == 4 && difference(&a, &fresh, TCCRT_STATE_PARAM) > 0,
            "steps are counted and move parameters", a.said);

    double before = difference(&a, &fresh, all);
    struct tcc_tensor out[2];
    float loss = call(&a, "eval", &batch[0], 0, ROWS, 2, out);
    verdict(good && isfinite(loss) && out[1].rank == 2 && out[1].dims[0] == ROWS && out[1].dims[1] == CLASSES &&
                difference(&a, &fresh, all) == before && number(&a, "train.step") == 4,
            "eval gives loss and outputs and changes nothing", a.said);
    float trained = call(&a, "grad", &batch[0], 0, ROWS, 1, NULL);
    verdict(fabsf(trained - loss) <= 1e-6f * loss && difference(&a, &fresh, all) == before,
            "grad updates nothing; its loss is eval's", a.said);

    struct tcc_tensor g;
    good = !tccrt_state_get(b.session, "grad.a.weight", &g);
    for (int64_t i = 0; good && i < elements(&g); i++)
        ((float *)g.data)[i] = NAN;
    before = difference(&b, &fresh, all);
    good = good && !isnan(call(&b, "apply", NULL, 0, 0, 1, NULL));
    verdict(good && difference(&b, &fresh, all) == before && number(&b, "train.skipped") == 1,
            "a gradient that a program made NaN is not applied", b.said);

    call(&a, "init", NULL, 0, 0, 0, NULL);
    verdict(difference(&a, &fresh, all) == 0 && number(&a, "train.step") == 0 && step(&a, &batch[0]) == first,
            "init begins again", a.said);
    finish(&a);
    finish(&b);
    finish(&fresh);
}

/* A gradient that the program changes is what is applied: sgd with twice the gradient is sgd at twice the rate. */
static void test_changed_gradients(void)
{
    struct run a = {.train.optimizer = "sgd:lr=0.1"}, b = {.train.optimizer = "sgd:lr=0.2"};
    struct batch batch;
    make_batch(&batch, 7);
    bool good = !compile(&a, "mlp.onnx", NULL) && !compile(&b, "mlp.onnx", NULL);
    good = good && isfinite(step(&b, &batch)) && isfinite(call(&a, "grad", &batch, 0, ROWS, 1, NULL));
    for (int i = 0; good && i < tccrt_nstates(a.model); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor g;
        tccrt_state_info(a.model, i, &info);
        if (!(tccrt_state_flags(a.model, i) & TCCRT_STATE_GRADIENT))
            continue;
        good = !tccrt_state_get(a.session, info.name, &g);
        for (int64_t k = 0; k < elements(&g); k++)
            ((float *)g.data)[k] *= 2;
    }
    good = good && isfinite(call(&a, "apply", NULL, 0, 0, 1, NULL));
    verdict(good && difference(&a, &b, TCCRT_STATE_PARAM) < 1e-7, "gradients that a program changes are applied",
            a.said);
    finish(&a);
    finish(&b);
}

static void test_accumulate(void)
{
    struct run whole = {.train.optimizer = "sgd:lr=0.1,momentum=0.9"},
               parts = {.train = {.optimizer = "sgd:lr=0.1,momentum=0.9", .accumulate = 4}};
    struct batch batch;
    bool good = !compile(&whole, "mlp.onnx", NULL) && !compile(&parts, "mlp.onnx", NULL), still = true;
    for (unsigned i = 0; i < 3 && good; i++) {
        make_batch(&batch, 20 + i);
        for (int k = 0; k < 4; k++) {
            still &= number(&parts, "train.step") == i && number(&parts, "train.micro") == k;
            good &= isfinite(call(&parts, "step", &batch, k * ROWS / 4, ROWS / 4, 1, NULL));
        }
        good &= isfinite(step(&whole, &batch));
    }
    verdict(good && still, "with --accumulate=4 every fourth call updates", parts.said);
    double d = difference(&whole, &parts, TCCRT_STATE_PARAM | TCCRT_STATE_OPTIMIZER);
    printf("# four quarters of a batch against the batch: %.1e\n", d);
    verdict(good && d < 1e-6, "by the mean of the calls' gradients", parts.said);
    finish(&whole);
    finish(&parts);
}

static void test_batch_sizes(void)
{
    struct run r = {.train = {.optimizer = "sgd:lr=0", .step_outputs = "y"}};
    struct batch batch;
    struct tcc_tensor out[2];
    bool good = !compile(&r, "mlp.onnx", NULL);
    double sum = 0;
    make_batch(&batch, 3);
    float all = call(&r, "step", &batch, 0, ROWS, 2, out);
    verdict(good && out[1].rank == 2 && out[1].dims[0] == ROWS && out[1].dims[1] == CLASSES, "--step-outputs", r.said);
    static const int cuts[] = {0, 1, 4, 9, 16};
    for (int i = 0; i + 1 < 5; i++)
        sum += (double)call(&r, "step", &batch, cuts[i], cuts[i + 1] - cuts[i], 2, out) * (cuts[i + 1] - cuts[i]);
    verdict(good && fabs(sum / ROWS - (double)all) < 1e-6, "one artifact at batches of 1, 3, 5, 7 and 16", r.said);
    finish(&r);
}

/* -- What is trained */

static double moved(struct run *r, struct run *fresh, const char *name)
{
    struct tcc_tensor x, y;
    double worst = 0;
    if (tccrt_state_get(r->session, name, &x) || tccrt_state_get(fresh->session, name, &y))
        return NAN;
    for (int64_t k = 0; k < elements(&x); k++) {
        double d = fabs((double)((float *)x.data)[k] - (double)((float *)y.data)[k]);
        if (isnan(d))
            return NAN;
        worst = fmax(worst, d);
    }
    return worst;
}

static void test_frozen(void)
{
    static const char *const freeze[] = {"*.bias", "c.*", NULL}, *const only[] = {"b.*", NULL};
    struct batch batch;
    struct tcc_tensor t;
    make_batch(&batch, 5);
    for (int k = 0; k < 2; k++) {
        struct run r = {.train = {.optimizer = "adam:lr=0.1"}}, fresh = {.train = {.optimizer = "adam:lr=0.1"}};
        if (k)
            r.train.train_only = only;
        else
            r.train.freeze = freeze;
        bool good = !compile(&r, "mlp.onnx", NULL) && !compile(&fresh, "mlp.onnx", NULL) && isfinite(step(&r, &batch));
        verdict(good && moved(&r, &fresh, "b.weight") > 0 && (moved(&r, &fresh, "a.weight") > 0) == !k &&
                    (moved(&r, &fresh, "b.bias") > 0) == k && moved(&r, &fresh, "c.weight") == 0 &&
                    tccrt_state_get(r.session, "optimizer.exp_avg.c.weight", &t) == TCC_EUSAGE,
                k ? "--train-only" : "--freeze", r.said);
        finish(&r);
        finish(&fresh);
    }
}

/* A parameter and an input that the loss does not reach, a parameter that it reaches by a rounding only, an output that
 * it does not read, and a product used twice. */
static const char odd_text[] =
    "state @w: f32[16,10] param = f32[16,10] splat(0.5)\n"
    "state @other: f32[16,10] param = f32[16,10] splat(0.25)\n"
    "state @rounded: f32[10] param = f32[10] splat(1.5)\n"
    "func @main(%x: f32[16,16], %unused: f32[2,3]) -> (\"y\": f32[16,10], \"z\": f32[16,10]) {\n"
    "  %w = state_read() {name = \"w\"} : f32[16,10]\n"
    "  %o = state_read() {name = \"other\"} : f32[16,10]\n"
    "  %r = state_read() {name = \"rounded\"} : f32[10]\n"
    "  %whole = round(%r) : f32[10]\n"
    "  %p = matmul(%x, %w) : f32[16,10]\n"
    "  %y = add(%p, %whole) : f32[16,10]\n"
    "  %z = matmul(%x, %o) : f32[16,10]\n"
    "  return(%y, %z)\n"
    "}\n";

static void test_odd_model(void)
{
    char path[] = "/tmp/tccc-odd-XXXXXX.tcir";
    int fd = mkstemps(path, 5);
    bool good = fd >= 0 && write(fd, odd_text, sizeof odd_text - 1) == (ssize_t)(sizeof odd_text - 1);
    struct run r = {.train.optimizer = "sgd:lr=0.1"}, fresh = r;
    struct batch batch;
    float nothing[6] = {0};
    make_batch(&batch, 9);
    close(fd);
    good = good && !compile(&r, path, NULL) && !compile(&fresh, path, NULL);
    struct tcc_tensor in[3] = {{.data = batch.x, .dtype = TCC_F32, .rank = 2, .dims = {ROWS, IN}},
                               {.data = nothing, .dtype = TCC_F32, .rank = 2, .dims = {2, 3}},
                               {.data = batch.target, .dtype = TCC_I64, .rank = 1, .dims = {ROWS}}},
                      out = {0};
    good = good && !tccrt_run(r.session, "step", 3, in, 1, &out);
    verdict(good && moved(&r, &fresh, "w") > 0 && moved(&r, &fresh, "other") == 0,
            "unused inputs and outputs outside the loss are fine", r.said);
    verdict(r.warnings == 2 && strstr(r.said, "does not reach will not be trained: other") &&
                strstr(r.said, "only by what stops gradients") && strstr(r.said, ": rounded"),
            "a warning names parameters that the loss does not reach, another those behind a rounding", r.said);
    unlink(path);
    finish(&r);
    finish(&fresh);
}

/* The text as a model in a file that is compiled; false: it is not. */
static bool compile_text(struct run *r, const char *text)
{
    char path[] = "/tmp/tccc-text-XXXXXX.tcir";
    int fd = mkstemps(path, 5);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    good = good && !compile(r, path, NULL);
    unlink(path);
    return good;
}

/* Rows whose sum is more than 0, times w, added up. */
static const char chosen_text[] = "module \"chosen\"\n"
                                  "state @w : f32[2,2] param = f32[2,2] [1, 2, 3, 4]\n"
                                  "func @main(%x: f32[N,2]) -> (\"y\": f32[1,2]) {\n"
                                  "  %s = reduce_sum(%x) {axes = [1], keepdims = 0} : f32[N]\n"
                                  "  %z = constant() {value = f32[] [0]} : f32[]\n"
                                  "  %m = gt(%s, %z) : bool[N]\n"
                                  "  %i = lib(%m) {name = \"nonzero\"} : i64[1,K]\n"
                                  "  %j = reshape(%i) {shape = [K]} : i64[K]\n"
                                  "  %r = gather(%x, %j) {axis = 0} : f32[K,2]\n"
                                  "  %w = state_read() {name = \"w\"} : f32[2,2]\n"
                                  "  %q = matmul(%r, %w) : f32[K,2]\n"
                                  "  %y = reduce_sum(%q) {axes = [0], keepdims = 1} : f32[1,2]\n"
                                  "  return(%y)\n"
                                  "}\n";

static void test_sizes_of_data(void)
{
    struct run r = {.train = {.optimizer = "sgd:lr=0.1", .loss = "mse"}};
    float x[] = {1, 1, -2, 1, 2, 0}, target[] = {0, 0};
    struct tcc_tensor in[2] = {{.data = x, .dtype = TCC_F32, .rank = 2, .dims = {3, 2}},
                               {.data = target, .dtype = TCC_F32, .rank = 2, .dims = {1, 2}}},
                      y = {0}, loss = {0}, g;
    bool good = compile_text(&r, chosen_text) && !tccrt_run(r.session, "predict", 1, in, 1, &y);
    good = good && ((float *)y.data)[0] == 6 && ((float *)y.data)[1] == 10; /* [3, 1] w */
    verdict(good, "predict with sizes that data decide", r.said);
    good = good && !tccrt_run(r.session, "grad", 2, in, 1, &loss) && *(float *)loss.data == 68;
    good = good && !tccrt_state_get(r.session, "grad.w", &g);
    for (int i = 0; i < 4 && good; i++) /* [3, 1]' y */
        good = ((float *)g.data)[i] == (float[]){18, 30, 6, 10}[i];
    verdict(good, "grad with sizes that data decide", r.said);
    finish(&r);
}

/* A batch of none leaves parameters and running statistics as they were, as in PyTorch: its gradients are 0, and the
 * update is made (weights may decay, moments do). */
static void test_empty_batch(void)
{
    struct run r = {.train = {.optimizer = "sgd:lr=0.1", .loss = "cross_entropy:reduction=sum"}}, fresh = r;
    struct tcc_tensor in[2] = {{.data = &ntests, .dtype = TCC_F32, .rank = 4, .dims = {0, 3, 8, 8}},
                               {.data = &ntests, .dtype = TCC_I64, .rank = 1, .dims = {0}}},
                      loss = {0};
    struct tccrt_value_info info;
    bool good = !compile(&r, "resnet.onnx", NULL) && !compile(&fresh, "resnet.onnx", NULL);
    int compared = 0;
    good = good && !tccrt_run(r.session, "step", 2, in, 1, &loss) && *(float *)loss.data == 0;
    for (int i = 0; good && tccrt_state_info(r.model, i, &info) == TCC_OK; i++) {
        bool model = info.dtype == TCC_F32 && (strstr(info.name, "running") || strstr(info.name, "weight"));
        good = !model || moved(&r, &fresh, info.name) == 0;
        compared += model;
    }
    good = good && number(&r, "train.skipped") == 0 && number(&r, "train.step") == 1;
    verdict(good && compared > 4, "a batch of none moves no parameter and no running statistic", r.said);
    finish(&r);
    finish(&fresh);
}

/* Parameter r reaches the loss by a rounding only: in stages it is said as elsewhere. */
static const char rounded_text[] = "module \"rounded\"\n"
                                   "state @a : f32[4,4] param = f32[4,4] splat(0.5)\n"
                                   "state @b : f32[4,4] param = f32[4,4] splat(0.25)\n"
                                   "state @r : f32[4] param = f32[4] splat(0.25)\n"
                                   "func @main(%x: f32[8,4]) -> (\"y\": f32[8,4]) {\n"
                                   "  %a = state_read() {name = \"a\"} : f32[4,4]\n"
                                   "  %b = state_read() {name = \"b\"} : f32[4,4]\n"
                                   "  %r = state_read() {name = \"r\"} : f32[4]\n"
                                   "  %h = matmul(%x, %a) : f32[8,4]\n"
                                   "  %t = tanh(%h) : f32[8,4]\n"
                                   "  %q = round(%r) : f32[4]\n"
                                   "  %u = add(%t, %q) : f32[8,4]\n"
                                   "  %y = matmul(%u, %b) : f32[8,4]\n"
                                   "  return(%y)\n"
                                   "}\n";

static void test_stops_in_stages(void)
{
    struct tccc_split split = {.partitions = 2, .microbatches = 2, .default_stage = -1};
    char *report = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&report, &size);
    struct run r = {.train = {.optimizer = "sgd:lr=0.1", .loss = "mse", .split = &split, .report = f}};
    bool good = f && compile_text(&r, rounded_text);
    if (f)
        fclose(f);
    verdict(good && strstr(r.said, "only by what stops gradients") && strstr(r.said, ": r|") && report &&
                strstr(report, "r: its gradient stops at round"),
            "stages say of a parameter that its gradient stops, and the report where", r.said);
    free(report);
    finish(&r);
}

/* -- Memory */

static void fill_tokens(int64_t *t, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        t[i] = (seed >> 16) % 48;
    }
}

struct promise {
    unsigned long long peak, tensors, state, scratch;
};

static bool read_promise(const char *said, struct promise *p)
{
    const char *at = strstr(said, "@step takes ");
    return at &&
           sscanf(at, "@step takes %llu bytes at its peak: %llu for tensors, %llu for state (and up to %llu a thread",
                  &p->peak, &p->tensors, &p->state, &p->scratch) == 4;
}

/* Losses of three steps; what the session took for a step's tensors, and for the state that a step needs. */
static bool run_gpt(struct run *r, float *losses, size_t *tensors, size_t *state)
{
    int64_t ids[4 * 12], target[4 * 12];
    size_t before = tccrt_arena_bytes(r->session);
    for (unsigned i = 0; i < 3; i++) {
        fill_tokens(ids, 48, 2 * i);
        fill_tokens(target, 48, 2 * i + 1);
        struct tcc_tensor in[2] = {{.data = ids, .dtype = TCC_I64, .rank = 2, .dims = {4, 12}},
                                   {.data = target, .dtype = TCC_I64, .rank = 2, .dims = {4, 12}}},
                          out = {.data = losses + i, .dtype = TCC_F32};
        if (tccrt_run(r->session, "step", 2, in, 1, &out))
            return false;
    }
    *tensors = tccrt_arena_bytes(r->session) - before;
    *state = 0;
    for (int i = 0; i < tccrt_nstates(r->model); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor t;
        tccrt_state_info(r->model, i, &info);
        if (!(tccrt_state_flags(r->model, i) & TCCRT_STATE_GRADIENT) && !tccrt_state_get(r->session, info.name, &t))
            *state += bytes_of(&t);
    }
    return true;
}

static void test_budget(void)
{
    static const char *const dims[] = {"batch=4", NULL};
    struct run free_run = {.train = {.optimizer = "adamw:lr=0.01", .memory_budget = 1ull << 40}};
    float want[3], got[3];
    size_t tensors = 0, state = 0;
    struct promise p = {0}, least = {0};
    bool good = !compile(&free_run, "gpt.onnx", dims) && read_promise(free_run.said, &p) &&
                run_gpt(&free_run, want, &tensors, &state);
    printf("# promised %llu for tensors and %llu for state (%llu a thread), taken %zu and %zu\n", p.tensors, p.state,
           p.scratch, tensors, state);
    verdict(good && p.peak == p.tensors + p.state && state >= p.state && state < p.state + 64 && tensors >= p.tensors &&
                tensors <= p.tensors + 2 * p.scratch + 256,
            "the peak that is printed is the one that is taken", free_run.said);
    finish(&free_run);
    for (int percent = 95; percent >= 85; percent -= 5) {
        struct run r = {
            .train = {.optimizer = "adamw:lr=0.01", .memory_budget = p.state + p.tensors * (unsigned)percent / 100}};
        unsigned long long budget = r.train.memory_budget;
        char what[100];
        snprintf(what, sizeof what, "--memory-budget for %d %% of the tensors", percent);
        good = !compile(&r, "gpt.onnx", dims) && read_promise(r.said, &least) && run_gpt(&r, got, &tensors, &state);
        bool same = good && strstr(r.said, "are recomputed");
        for (int i = 0; i < 3; i++)
            same &= fabsf(got[i] - want[i]) <= 1e-6f * want[i];
        printf("# budget %llu, promised %llu, taken %zu\n", budget, least.peak, tensors + state);
        verdict(same && least.peak <= budget && tensors + state <= least.peak + 2 * least.scratch + 320, what, r.said);
        finish(&r);
    }
    struct run r = {.train = {.optimizer = "adamw:lr=0.01", .memory_budget = p.state + 1000}};
    verdict(compile(&r, "gpt.onnx", dims) == 1 && strstr(r.said, "when activations are recomputed"),
            "a budget that cannot be met is an error that says what can", r.said);
    finish(&r);
    struct run late = {.train = {.optimizer = "adamw", .memory_budget = 1ull << 30}};
    verdict(compile(&late, "gpt.onnx", NULL) == 1 && strstr(late.said, "specialise the dynamic dimensions"),
            "a budget needs sizes that are known", late.said);
    finish(&late);
}

/* -- Checkpoints */

/* Noise in front of the product: each run draws other numbers. */
static const char noisy_text[] = "state @w: f32[16,10] param = f32[16,10] splat(0.5)\n"
                                 "func @main(%x: f32[16,16]) -> (\"y\": f32[16,10]) {\n"
                                 "  %w = state_read() {name = \"w\"} : f32[16,10]\n"
                                 "  %r = random_uniform() {to = f32, shape = [16,16]} : f32[16,16]\n"
                                 "  %z = mul(%x, %r) : f32[16,16]\n"
                                 "  %y = matmul(%z, %w) : f32[16,10]\n"
                                 "  return(%y)\n"
                                 "}\n";

static double largest_gradient(struct run *r)
{
    double most = -1;
    for (int i = 0; i < tccrt_nstates(r->model); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor g;
        tccrt_state_info(r->model, i, &info);
        if (!(tccrt_state_flags(r->model, i) & TCCRT_STATE_GRADIENT) || tccrt_state_get(r->session, info.name, &g))
            continue;
        for (int64_t k = 0; k < elements(&g); k++)
            most = fmax(most, fabs((double)((float *)g.data)[k]));
    }
    return most;
}

static void test_checkpoints(void)
{
    char path[] = "/tmp/tccc-noisy-XXXXXX.tcir", saved[] = "/tmp/tccc-saved-XXXXXX";
    int fd = mkstemps(path, 5), to = mkstemp(saved);
    struct run a = {.train.optimizer = "sgd:lr=0.1"}, b = a;
    struct batch batch[2];
    bool good = fd >= 0 && to >= 0 && write(fd, noisy_text, sizeof noisy_text - 1) == (ssize_t)(sizeof noisy_text - 1);
    make_batch(&batch[0], 11);
    make_batch(&batch[1], 12);
    close(fd);
    close(to);
    good = good && !compile(&a, path, NULL) && !compile(&b, path, NULL);
    float first = step(&a, &batch[0]), again = step(&b, &batch[0]);
    good = good && first == again && !tccrt_checkpoint_save(a.session, saved, 0, 0, NULL);
    float next = step(&a, &batch[1]), other = call(&b, "grad", &batch[0], 0, ROWS, 1, NULL);
    good = good && isfinite(next) && isfinite(other) && largest_gradient(&b) > 0;
    good = good && !tccrt_checkpoint_load(b.session, saved, 0);
    verdict(good && largest_gradient(&b) == 0, "gradients that a checkpoint does not hold are zero behind it", b.said);
    verdict(good && step(&b, &batch[1]) == next, "random numbers go on where the checkpoint was written", b.said);
    unlink(path);
    unlink(saved);
    finish(&a);
    finish(&b);
}

int main(int argc, char **argv)
{
    static char path[900];
    if (argc != 2) {
        fprintf(stderr, "usage: entries FOLDER\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/", argv[1]);
    folder = path;
    test_entries();
    test_changed_gradients();
    test_accumulate();
    test_batch_sizes();
    test_frozen();
    test_odd_model();
    test_sizes_of_data();
    test_empty_batch();
    test_stops_in_stages();
    test_checkpoints();
    test_budget();
    printf("1..%d\n", ntests);
    return nfailed != 0;
}
