/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precision.c - training in lower types, in the reference interpreter and compiled: stochastic rounding goes where
 * rounding to nearest stalls, with the same bits everywhere; the float32 copy of bf16-master; bf16 moments; an overflow
 * in fp16 skips the update and halves the scale; a small network learns as well as in float32. Prints TAP.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "passes/train/optim_int.h"
#include "runtime/tccrt.h"

enum { N = 256, MAX_OUT = 4 };

/* A module that runs: interpreted, or compiled. */
struct machine {
    bool compiled;
    struct ir_ctx *ctx;
    struct ir_protect frame;
    struct ir_module *module;
    struct ir_interp_state *state;
    struct tccrt_model *model;
    struct tccrt_session *session;
};
static int ntests, nfailed;

static void verdict(bool good, const char *what, bool compiled)
{
    printf("%sok %d - %s %s\n", good ? "" : "not ", ++ntests, what, compiled ? "O2" : "interp");
    nfailed += !good;
}

static void say(void *user, int severity, const char *text)
{
    (void)user;
    if (severity >= 2)
        printf("# %s\n", text);
}

static bool start_compiled(struct machine *m)
{
    char so[80], tcir[80];
    struct tccc_options o;
    struct tccrt_options ro = {.threads = 2};

    snprintf(so, sizeof so, "precision-%ld.so", (long)getpid());
    snprintf(tcir, sizeof tcir, "precision-%ld.tcir", (long)getpid());
    FILE *f = fopen(tcir, "w");
    if (!f)
        return false;
    ir_print_module(f, m->module);
    fclose(f);
    tccc_options_init(&o);
    o.model = tcir;
    o.output = so;
    o.name = "precision";
    o.kind = TCCC_SO;
    o.level = 2;
    o.verify = true;
    o.message = say;
    bool good = !tccc_compile(&o) && !tccrt_open(so, &m->model) && !tccrt_session_new(m->model, &ro, &m->session);
    unlink(so);
    unlink(tcir);
    return good;
}

static bool start(struct machine *m)
{
    if (!m->module || ir_nerrors(m->ctx) || !ir_verify(m->module)) {
        printf("# %s\n", ir_nmessages(m->ctx) ? ir_message(m->ctx, ir_nmessages(m->ctx) - 1)->text : "not built");
        return false;
    }
    return m->compiled ? start_compiled(m) : (m->state = ir_interp_state_new(m->module)) != NULL;
}

static void stop(struct machine *m)
{
    if (m->session)
        tccrt_session_free(m->session);
    if (m->model)
        tccrt_close(m->model);
    ir_interp_state_free(m->state);
    ir_ctx_free(m->ctx);
}

static bool call(struct machine *m, const char *entry, int nin, struct tcc_object **in, int nout,
                 struct tcc_object **out)
{
    char error[300] = "";
    int status = m->compiled ? tccrt_run_objects(m->session, entry, nin, in, nout, out)
                             : ir_interp(ir_func_by_name(m->module, entry), m->state, in, out, error, sizeof error);
    if (status)
        printf("# %s: %s\n", entry, m->compiled ? tccrt_error() : error);
    return status == 0;
}

/* -- A bowl: 256 values at 1 that gradient descent takes to 2 */

static const struct train_options sr = {.optimizer = "sgd:lr=1e-3", .precision = "bf16-sr"};

static bool build_bowl(struct machine *m, const struct train_options *o, enum tcc_dtype dtype, bool rounding)
{
    int64_t dims[] = {N};
    uint32_t one = 0;

    m->ctx = ir_ctx_new();
    if (!IR_PROTECT(m->ctx, &m->frame))
        return false;
    m->module = ir_module_new(m->ctx, "bowl");
    tcc_store_f64(dtype, &one, 1);
    struct ir_state *p = ir_state_new(m->module, "p", ir_tensor_type_i(m->ctx, dtype, 1, dims),
                                      ir_tensor_splat(dtype, 1, dims, &one), IR_STATE_PARAM);
    struct ir_func *f = ir_func_new(m->module, "step");
    struct ir_builder b = {.ctx = m->ctx, .func = f, .block = f->body};
    struct ir_value *rate, *out;
    if (!optim_states(m->module, o, 1, &p))
        return false;
    if (!rounding)
        ir_state_by_name(m->module, "train.rounding")->init = NULL;
    struct ir_value *g = ir_cast_to(&b, optim_read(&b, "p"), TCC_F32);
    g = ir_binary(&b, IR_sub, g, ir_constant_f(&b, TCC_F32, 2));
    if (!optim_update(&b, o, 1, &(struct train_param){.state = p, .grad = g}, &rate) || !ir_return(&b, 1, &rate, NULL))
        return false;
    f = ir_func_new(m->module, "read");
    b = (struct ir_builder){.ctx = m->ctx, .func = f, .block = f->body};
    out = ir_cast_to(&b, optim_read(&b, "p"), TCC_F32);
    return ir_return(&b, 1, &out, NULL) && start(m);
}

/* The mean after `steps`, and a digest of the bits; NAN: failed. */
static double run_bowl(const struct train_options *o, enum tcc_dtype dtype, bool rounding, bool compiled, int steps,
                       uint64_t *digest)
{
    struct machine m = {.compiled = compiled};
    struct tcc_object *out;
    double mean = 0;
    bool good = build_bowl(&m, o, dtype, rounding);

    for (int i = 0; i < steps && good; i++) {
        good = call(&m, "step", 0, NULL, 1, &out);
        if (good)
            tccrt_object_unref(out);
    }
    *digest = 14695981039346656037u;
    if (good && call(&m, "read", 0, NULL, 1, &out)) {
        for (int i = 0; i < N; i++)
            mean += ((float *)out->t.data)[i] / N;
        for (int i = 0; i < N * 4; i++)
            *digest = (*digest ^ ((uint8_t *)out->t.data)[i]) * 1099511628211u;
        tccrt_object_unref(out);
    } else {
        mean = NAN;
    }
    stop(&m);
    return mean;
}

static void test_rounding(void)
{
    uint64_t digests[2], other;

    for (int compiled = 0; compiled < 2; compiled++) {
        double mean = run_bowl(&sr, TCC_BF16, true, compiled, 4000, &digests[compiled]);
        double stalled = run_bowl(&sr, TCC_BF16, false, compiled, 4000, &other);
        printf("# after 4000 steps: stochastic %.4f, to nearest %.4f, exact %.4f\n", mean, stalled,
               2 - pow(0.999, 4000));
        verdict(fabs(mean - (2 - pow(0.999, 4000))) < 0.01, "stochastic rounding converges", compiled);
        verdict(stalled == 1, "rounding to nearest stalls", compiled);
    }
    verdict(digests[0] == digests[1], "equal bits in interpreter and", true);
}

static void test_states(void)
{
    struct train_options master = {.optimizer = "sgd:lr=1e-3", .precision = "bf16-master"};
    struct train_options moments = {.optimizer = "adam:lr=1e-3", .optimizer_state = "bf16"};
    struct train_options exact = {.optimizer = "adam:lr=1e-3"};
    uint64_t digest;

    for (int compiled = 0; compiled < 2; compiled++) {
        double mean = run_bowl(&master, TCC_BF16, true, compiled, 1000, &digest), full;
        verdict(fabs(mean - (2 - pow(0.999, 1000))) < 0.004, "a float32 copy keeps small steps", compiled);
        mean = run_bowl(&moments, TCC_F32, true, compiled, 500, &digest);
        full = run_bowl(&exact, TCC_F32, true, compiled, 500, &digest);
        printf("# adam, 500 steps: moments in bf16 %.4f, in f32 %.4f\n", mean, full);
        verdict(fabs(mean - full) < 0.01, "moments in bf16", compiled);
    }
}

/* -- A linear model in fp16 */

static const char linear_text[] = "state @w: f32[8,4] param = f32[8,4] splat(0.5)\n"
                                  "func @main(%x: f32[2,8]) -> (f32[2,4]) {\n"
                                  "  %w = state_read() {name = \"w\"} : f32[8,4]\n"
                                  "  %y = matmul(%x, %w) : f32[2,4]\n"
                                  "  return(%y)\n"
                                  "}\n";

static struct tcc_object *filled(int rows, int cols, float value)
{
    struct tcc_object *o = tccrt_object_tensor(TCC_F32, 2, (const int64_t[]){rows, cols});
    for (int i = 0; i < rows * cols; i++)
        ((float *)o->t.data)[i] = value;
    return o;
}

/* w's first element, the scale, the counts of updates and of skipped ones. */
static bool look(struct machine *m, double *values)
{
    struct tcc_object *out[MAX_OUT];
    if (!call(m, "look", 0, NULL, MAX_OUT, out))
        return false;
    for (int i = 0; i < MAX_OUT; i++) {
        values[i] = tcc_load_f64((enum tcc_dtype)out[i]->t.dtype, out[i]->t.data);
        tccrt_object_unref(out[i]);
    }
    return true;
}

static bool build_linear(struct machine *m)
{
    static const char *const names[MAX_OUT] = {"w", "train.scale", "train.step", "train.skipped"};
    static const struct train_options o = {
        .loss = "mse", .optimizer = "sgd:lr=0.1", .auto_cast_type = "fp16", .loss_scale = "dynamic"};
    struct ir_value *values[MAX_OUT];

    m->ctx = ir_ctx_new();
    if (!IR_PROTECT(m->ctx, &m->frame))
        return false;
    m->module = ir_parse(m->ctx, "linear", linear_text, sizeof linear_text - 1);
    if (!m->module || !train_build(m->module, &o)) {
        printf("# %s\n", ir_nmessages(m->ctx) ? ir_message(m->ctx, 0)->text : "not built");
        return false;
    }
    struct ir_func *f = ir_func_new(m->module, "look");
    struct ir_builder b = {.ctx = m->ctx, .func = f, .block = f->body};
    for (int i = 0; i < MAX_OUT; i++)
        values[i] = optim_read(&b, names[i]);
    return ir_return(&b, MAX_OUT, values, NULL) && start(m);
}

static bool step_linear(struct machine *m, float x, float *loss, double *values)
{
    struct tcc_object *in[2] = {filled(2, 8, x), filled(2, 4, 1)}, *out = NULL;
    bool good = call(m, "step", 2, in, 1, &out);
    if (good) {
        *loss = *(float *)out->t.data;
        tccrt_object_unref(out);
    }
    tccrt_object_unref(in[0]);
    tccrt_object_unref(in[1]);
    return good && look(m, values);
}

/* y = 8 x / 2, loss (y - 1)^2; the gradient of y is 2 (y - 1) / 8 x scale: beyond fp16's 65504 for x = 1000. */
static void test_overflow(void)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        struct machine m = {.compiled = compiled};
        double v[MAX_OUT], before;
        float loss;
        bool good = build_linear(&m) && step_linear(&m, 1000, &loss, v);
        verdict(good && v[0] == 0.5 && v[1] == 32768 && v[2] == 0 && v[3] == 1,
                "an overflow skips the update and halves the scale", compiled);
        before = good ? v[0] : 0;
        good = good && step_linear(&m, 0.01f, &loss, v);
        verdict(good && v[0] != before && v[1] == 32768 && v[2] == 1 && v[3] == 1, "the next step is made", compiled);
        if (good)
            printf("# w %.6f scale %g updates %g skipped %g loss %g\n", v[0], v[1], v[2], v[3], loss);
        stop(&m);
    }
}

/* -- A small network in every precision */

enum { BATCH = 32, IN = 16, HIDDEN = 32, OUT = 4, STEPS = 300 };

static const char mlp_text[] = "state @w1: f32[16,32] param\n"
                               "state @b1: f32[32] param\n"
                               "state @w2: f32[32,4] param\n"
                               "func @main(%x: f32[32,16]) -> (f32[32,4]) {\n"
                               "  %w1 = state_read() {name = \"w1\"} : f32[16,32]\n"
                               "  %b1 = state_read() {name = \"b1\"} : f32[32]\n"
                               "  %w2 = state_read() {name = \"w2\"} : f32[32,4]\n"
                               "  %h = matmul(%x, %w1) : f32[32,32]\n"
                               "  %hb = add(%h, %b1) : f32[32,32]\n"
                               "  %r = gelu(%hb) : f32[32,32]\n"
                               "  %y = matmul(%r, %w2) : f32[32,4]\n"
                               "  return(%y)\n"
                               "}\n";

static uint32_t random_state;

/* About normal, by the sum of four uniform numbers. */
static float noise(void)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        sum += (random_state >> 8) / 16777216.0 - 0.5;
    }
    return (float)(sum * 1.7320508);
}

static void randomise(struct ir_module *m, const char *name, int rows, int cols)
{
    struct ir_state *s = ir_state_by_name(m, name);
    s->init = ir_tensor_new(TCC_F32, 2, (const int64_t[]){rows, cols});
    for (int i = 0; i < rows * cols; i++)
        ((float *)s->init->data)[i] = noise() / sqrtf((float)rows);
}

/* Inputs, and which of four fixed directions each of them points along most. */
static void make_batch(int step, struct tcc_object **in)
{
    float directions[OUT][IN], *x;
    in[0] = tccrt_object_tensor(TCC_F32, 2, (const int64_t[]){BATCH, IN});
    in[1] = tccrt_object_tensor(TCC_I64, 1, (const int64_t[]){BATCH});
    x = in[0]->t.data;
    random_state = 7;
    for (int i = 0; i < OUT * IN; i++)
        directions[i / IN][i % IN] = noise();
    random_state = 1000u + (uint32_t)step;
    for (int i = 0; i < BATCH * IN; i++)
        x[i] = noise();
    for (int i = 0; i < BATCH; i++) {
        double best = -INFINITY;
        for (int k = 0; k < OUT; k++) {
            double dot = 0;
            for (int j = 0; j < IN; j++)
                dot += x[i * IN + j] * directions[k][j];
            if (dot > best) {
                best = dot;
                ((int64_t *)in[1]->t.data)[i] = k;
            }
        }
    }
}

static bool build_mlp(struct machine *m, const struct train_options *o)
{
    m->ctx = ir_ctx_new();
    if (!IR_PROTECT(m->ctx, &m->frame))
        return false;
    m->module = ir_parse(m->ctx, "mlp", mlp_text, sizeof mlp_text - 1);
    if (!m->module)
        return false;
    random_state = 1;
    randomise(m->module, "w1", IN, HIDDEN);
    randomise(m->module, "w2", HIDDEN, OUT);
    return train_build(m->module, o) && start(m);
}

/* The mean loss of the last 50 steps; NAN: failed. */
static double run_mlp(const struct train_options *o)
{
    struct machine m = {.compiled = true};
    double mean = 0;
    bool good = build_mlp(&m, o);

    for (int step = 0; step < STEPS && good; step++) {
        struct tcc_object *in[2], *out = NULL;
        make_batch(step, in);
        good = call(&m, "step", 2, in, 1, &out);
        if (good && step >= STEPS - 50)
            mean += *(float *)out->t.data / 50;
        if (good)
            tccrt_object_unref(out);
        tccrt_object_unref(in[0]);
        tccrt_object_unref(in[1]);
    }
    stop(&m);
    return good ? mean : NAN;
}

/* After 300 steps the loss is within 2 % of float32's. */
static void test_mlp(void)
{
    static const struct {
        const char *name;
        struct train_options o;
    } modes[] = {
        {"float32", {.precision = "float32"}},
        {"autocast", {.precision = "autocast"}},
        {"autocast to fp16", {.auto_cast_type = "fp16", .loss_scale = "dynamic"}},
        {"autocast matmul", {.auto_cast = "matmul"}},
        {"autocast all", {.auto_cast = "all"}},
        {"bf16-sr", {.precision = "bf16-sr"}},
        {"bf16-master", {.precision = "bf16-master"}},
        {"bf16 moments", {.optimizer_state = "bf16"}},
    };
    double full = NAN;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct train_options o = modes[i].o;
        o.loss = "cross_entropy";
        o.optimizer = "adamw:lr=0.01";
        double loss = run_mlp(&o);
        full = i ? full : loss;
        printf("# %s: loss %.4f\n", modes[i].name, loss);
        verdict(fabs(loss - full) <= 0.02 * full, modes[i].name, true);
    }
}

int main(void)
{
    test_rounding();
    test_states();
    test_overflow();
    test_mlp();
    printf("1..%d\n", ntests);
    return nfailed != 0;
}
