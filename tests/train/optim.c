/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optim.c - updates of two parameters against the figures of optim.txt (PyTorch's; see optim.py), in the reference
 * interpreter and compiled. Prints TAP, a line a case and mode.
 *
 *   run-optim [--target=TARGET] [--device=DEVICE] optim.txt [CASE]
 *
 * Each case becomes a module with @step(gradients) -> rate, built by optim_update(), and @read() -> every state
 * variable.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "passes/train/train_int.h"
#include "runtime/tccrt.h"
#include "tools/values/values_int.h"

enum { MAX_STATES = 16, MAX_ELEMENTS = 16, NPARAMS = 2, MAX_STEPS = 8, MAX_WANTS = 80 };

struct numbers {
    int n;
    double v[MAX_ELEMENTS];
};
/* After step `step` (or -1: the last) state `name` must be so; "rate": what the step returned. */
struct want {
    char name[64];
    int step;
    struct numbers values;
};
struct test_case {
    char name[64], optimizer[200], schedule[100], scale[100], start[64];
    double clip, start_value;
    bool bad[MAX_STEPS];
    int nwants;
    struct want wants[MAX_WANTS];
};
static struct numbers init[NPARAMS], grads[MAX_STEPS][NPARAMS];
static const char *const param_names[NPARAMS] = {"w", "b"};
static const int64_t param_dims[NPARAMS][2] = {{4, 3}, {5, 0}};
static const int param_ranks[NPARAMS] = {2, 1};
static int nsteps;

struct runner {
    const struct test_case *c;
    char why[600];
    struct ir_module *module;
    struct ir_interp_state *state; /* interpreted, or */
    struct tccrt_session *session; /* compiled */
    int nstates;
    const char *names[MAX_STATES];
};

static bool fail(struct runner *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct runner *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
    return false;
}

/* -- Reading optim.txt */

static struct numbers read_numbers(char *text)
{
    struct numbers v = {0};
    for (char *end; v.n < MAX_ELEMENTS; text = end) {
        double d = strtod(text, &end);
        if (end == text)
            break;
        v.v[v.n++] = d;
    }
    return v;
}

static int param_index(const char *name)
{
    return strcmp(name, param_names[0]) != 0;
}

static void add_want(struct test_case *c, const char *name, int step, char *values)
{
    struct want *w = &c->wants[c->nwants++];
    if (c->nwants > MAX_WANTS)
        abort();
    snprintf(w->name, sizeof w->name, "%s", name);
    w->step = step;
    w->values = read_numbers(values);
}

static void read_line(struct test_case *c, char *line)
{
    char key[32], a[200] = "", b[64] = "";
    int at = 0, at2 = 0;

    if (sscanf(line, "%31s %199s%n %63s%n", key, a, &at, b, &at2) < 2)
        return;
    if (!strcmp(key, "init")) {
        init[param_index(a)] = read_numbers(line + at);
    } else if (!strcmp(key, "grad")) {
        grads[atoi(b)][param_index(a)] = read_numbers(line + at2);
        nsteps = atoi(b) + 1;
    } else if (!strcmp(key, "optimizer")) {
        snprintf(c->optimizer, sizeof c->optimizer, "%s", a);
    } else if (!strcmp(key, "schedule")) {
        snprintf(c->schedule, sizeof c->schedule, "%.99s", a);
    } else if (!strcmp(key, "scale")) {
        snprintf(c->scale, sizeof c->scale, "%.99s", a);
    } else if (!strcmp(key, "clip")) {
        c->clip = atof(a);
    } else if (!strcmp(key, "bad")) {
        c->bad[atoi(a)] = true;
    } else if (!strcmp(key, "start")) {
        snprintf(c->start, sizeof c->start, "%.63s", a);
        c->start_value = atof(b);
    } else if (!strcmp(key, "param") || !strcmp(key, "after")) {
        add_want(c, a, atoi(b), line + at2);
    } else if (!strcmp(key, "rate")) {
        add_want(c, "rate", atoi(a), line + at);
    } else if (!strcmp(key, "state")) {
        add_want(c, a, -1, line + at);
    }
}

/* -- The module */

static bool build_step(struct ir_module *m, const struct train_options *o, struct ir_state *const *params)
{
    struct ir_func *f = ir_func_new(m, "step");
    struct ir_builder b = {.ctx = m->ctx, .func = f, .block = f->body};
    struct train_param updated[NPARAMS] = {0};
    struct ir_value *rate, *scale;

    for (int i = 0; i < NPARAMS; i++) {
        updated[i].state = params[i];
        updated[i].grad = ir_input_new(f, params[i]->type, ir_internf(m->ctx, "grad_%s", param_names[i]));
    }
    scale = optim_loss_scale(&b, o);
    for (int i = 0; i < NPARAMS && scale; i++)
        updated[i].grad = ir_binary(&b, IR_mul, updated[i].grad, scale);
    return optim_update(&b, o, NPARAMS, updated, &rate) && ir_return(&b, 1, &rate, NULL);
}

static bool build_read(struct runner *r)
{
    struct ir_module *m = r->module;
    struct ir_func *f = ir_func_new(m, "read");
    struct ir_builder b = {.ctx = m->ctx, .func = f, .block = f->body};
    struct ir_value *values[MAX_STATES];

    for (struct ir_state *s = m->states; s; s = s->next) {
        r->names[r->nstates] = s->name;
        values[r->nstates++] = ir_read_state(&b, s);
    }
    return ir_return(&b, r->nstates, values, NULL);
}

static bool build(struct runner *r, struct ir_ctx *ctx)
{
    const struct test_case *c = r->c;
    struct train_options o = {.optimizer = c->optimizer,
                              .clip_norm = c->clip,
                              .schedule = *c->schedule ? c->schedule : NULL,
                              .loss_scale = *c->scale ? c->scale : NULL};
    struct ir_state *params[NPARAMS];
    struct ir_module *m = r->module = ir_module_new(ctx, "optim");

    for (int i = 0; i < NPARAMS; i++) {
        struct ir_tensor *t = ir_tensor_new(TCC_F32, param_ranks[i], param_dims[i]);
        for (int k = 0; k < init[i].n; k++)
            ((float *)t->data)[k] = (float)init[i].v[k];
        params[i] = ir_state_new(m, param_names[i], ir_tensor_type_i(ctx, TCC_F32, param_ranks[i], param_dims[i]), t,
                                 IR_STATE_PARAM);
    }
    if (!optim_check(ctx, &o) || !optim_states(m, &o, NPARAMS, params) || !build_step(m, &o, params) ||
        !build_read(r) || !ir_verify(m))
        return fail(r, "build: %s", ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "failed");
    if (*c->start) {
        struct ir_state *s = ir_state_by_name(m, c->start);
        ir_tensor_unref(s->init);
        s->init = ir_tensor_scalar_i((enum tcc_dtype)s->type->dtype, (int64_t)c->start_value);
    }
    return true;
}

/* -- Running */

static bool call(struct runner *r, const char *entry, int nin, struct tcc_object **in, int nout,
                 struct tcc_object **out)
{
    char error[300] = "";
    if (r->session)
        return !tccrt_run_objects(r->session, entry, nin, in, nout, out) || fail(r, "%s: %s", entry, tccrt_error());
    return !ir_interp(ir_func_by_name(r->module, entry), r->state, in, out, error, sizeof error) ||
           fail(r, "%s: %s", entry, error);
}

static bool compare(struct runner *r, const char *name, int step, const struct numbers *want,
                    const struct tcc_object *got)
{
    for (int i = 0; i < want->n; i++) {
        enum tcc_dtype d = (enum tcc_dtype)got->t.dtype;
        double v = tcc_load_f64(d, (const char *)got->t.data + i * tcc_dtype_bytes(d));
        if (float_excess(v, want->v[i], 1e-6, 1e-6) > 0)
            return fail(r, "step %d: %s[%d] is %.9g, should be %.9g", step, name, i, v, want->v[i]);
    }
    return true;
}

/* All that is known of this step. */
static bool check_step(struct runner *r, int step, const struct tcc_object *rate)
{
    struct tcc_object *got[MAX_STATES] = {0};
    bool good = call(r, "read", 0, NULL, r->nstates, got);

    for (int i = 0; i < r->c->nwants && good; i++) {
        const struct want *w = &r->c->wants[i];
        const struct tcc_object *o = !strcmp(w->name, "rate") ? rate : NULL;
        if (w->step != step && !(w->step < 0 && step == nsteps - 1))
            continue;
        for (int k = 0; k < r->nstates && !o; k++)
            o = strcmp(r->names[k], w->name) ? NULL : got[k];
        good = o ? compare(r, w->name, step, &w->values, o) : fail(r, "there is no state %s", w->name);
    }
    for (int k = 0; k < r->nstates; k++)
        tccrt_object_unref(got[k]);
    return good;
}

static bool run_steps(struct runner *r)
{
    bool good = true;
    for (int step = 0; step < nsteps && good; step++) {
        struct tcc_object *in[NPARAMS], *rate = NULL;
        for (int i = 0; i < NPARAMS; i++) {
            in[i] = tccrt_object_tensor(TCC_F32, param_ranks[i], param_dims[i]);
            for (int k = 0; k < grads[step][i].n; k++)
                ((float *)in[i]->t.data)[k] = (float)grads[step][i].v[k];
        }
        if (r->c->bad[step])
            ((float *)in[0]->t.data)[5] = step % 2 ? INFINITY : NAN;
        good = call(r, "step", NPARAMS, in, 1, &rate) && check_step(r, step, rate);
        tccrt_object_unref(rate);
        for (int i = 0; i < NPARAMS; i++)
            tccrt_object_unref(in[i]);
    }
    return good;
}

static void first_message(void *user, int severity, const char *text)
{
    struct runner *r = user;
    if (severity >= 2 && !r->why[0])
        fail(r, "%s", text);
}

static const char *target, *device;

static bool run_compiled(struct runner *r)
{
    char base[64], so[80], tcir[80];
    struct tccc_options o;
    struct tccrt_model *m = NULL;
    struct tccrt_options ro = {.threads = 2, .device = device};

    snprintf(base, sizeof base, "run-optim-%ld", (long)getpid());
    snprintf(so, sizeof so, "%s.so", base);
    snprintf(tcir, sizeof tcir, "%s.tcir", base);
    FILE *f = fopen(tcir, "w");
    if (!f)
        return fail(r, "%s can't be written", tcir);
    ir_print_module(f, r->module);
    fclose(f);
    tccc_options_init(&o);
    o.model = tcir;
    o.output = so;
    o.name = "optim";
    o.target = target;
    o.kind = TCCC_SO;
    o.level = 2;
    o.verify = true;
    o.message = first_message;
    o.user = r;
    int status = tccc_compile(&o);
    bool good = status
                    ? (r->why[0] ? false : fail(r, "compile: exit %d", status))
                    : (!tccrt_open(so, &m) && !tccrt_session_new(m, &ro, &r->session)) || fail(r, "%s", tccrt_error());
    good = good && run_steps(r);
    if (r->session)
        tccrt_session_free(r->session);
    if (m)
        tccrt_close(m);
    unlink(so);
    if (!getenv("KEEP"))
        unlink(tcir);
    return good;
}

static int ntests, nfailed;

static void run_case(const struct test_case *c)
{
    for (int compiled = 0; compiled < 2; compiled++) {
        struct runner r = {.c = c};
        struct ir_ctx *ctx = ir_ctx_new();
        struct ir_protect frame;
        bool good = false;
        if (!IR_PROTECT(ctx, &frame)) {
            fail(&r, "no memory");
        } else {
            good = build(&r, ctx);
            if (good && compiled)
                good = run_compiled(&r);
            else if (good)
                good = (r.state = ir_interp_state_new(r.module)) && run_steps(&r);
        }
        printf("%sok %d - %s %s\n", good ? "" : "not ", ++ntests, c->name, compiled ? "O2" : "interp");
        if (!good)
            printf("# %s\n", r.why);
        nfailed += !good;
        ir_interp_state_free(r.state);
        ir_ctx_free(ctx);
    }
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t size = 0;
    struct test_case c = {0};
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
        if (!strncmp(argv[1], "--target=", 9))
            target = argv[1] + 9;
        else if (!strncmp(argv[1], "--device=", 9))
            device = argv[1] + 9;
        else
            return 2;
    }
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    const char *only = argc > 2 ? argv[2] : NULL;

    if (!f)
        return 2;
    while (getline(&line, &size, f) > 0) {
        if (strncmp(line, "case ", 5)) {
            read_line(&c, line);
            continue;
        }
        if (*c.name && (!only || !strcmp(only, c.name)))
            run_case(&c);
        memset(&c, 0, sizeof c);
        sscanf(line, "case %63s", c.name);
    }
    if (!only || !strcmp(only, c.name))
        run_case(&c);
    printf("1..%d\n", ntests);
    free(line);
    fclose(f);
    return nfailed != 0;
}
