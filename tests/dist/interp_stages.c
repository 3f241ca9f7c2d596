/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interp_stages ARTIFACT STAGED WHOLE: the same training step three times, for five steps: the artifact, of which this
 * process runs its stage (or all of them, where there is one process); the text with stages in the reference
 * interpreter; the text without stages in the reference interpreter. Losses agree, and so do parameters and moments at
 * the end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"
#include "runtime/tccrt.h"
#include "tests/tensors.h"

enum { MAX_INPUTS = 4, CLASSES = 10, ROWS = 8, STEPS = 5 };

static struct tccrt_comm *world, *pp;

static int failed(const char *what, const char *why)
{
    printf("rank %d: FAIL: %s: %s\n", tccrt_comm_rank(world), what, why);
    fflush(stdout);
    if (tccrt_comm_size(world) > 1)
        tccrt_comm_abort(world, "a check has failed");
    return 1;
}

/* A text, interpreted. */
struct reference {
    struct ir_ctx *ctx;
    struct ir_protect frame;
    struct ir_module *m;
    struct ir_interp_state *state;
};

static bool read_text(struct reference *r, const char *path)
{
    FILE *f = fopen(path, "r");
    size_t room = (size_t)16 << 20;
    char *text = malloc(room);
    size_t n = f && text ? fread(text, 1, room, f) : 0;
    if (f)
        fclose(f);
    r->ctx = ir_ctx_new();
    if (!n || !r->ctx || !IR_PROTECT(r->ctx, &r->frame))
        return false;
    ir_allow_files(r->ctx, "/"); /* weights stay ranges of the model's file */
    r->m = ir_parse(r->ctx, path, text, n);
    free(text);
    for (int i = 0; i < ir_nmessages(r->ctx); i++)
        ir_print_message(stdout, ir_message(r->ctx, i));
    r->state = r->m ? ir_interp_state_new(r->m) : NULL;
    return r->state != NULL;
}

/* The loss; NAN after a message. */
static double step(struct reference *r, struct tcc_object **in)
{
    struct tcc_object *out[8] = {NULL};
    char error[256];
    struct kn_staged *p = kn_staged_by_name(r->m, "step");
    int status = p ? ir_interp_staged(r->m, p, r->state, in, out, error, sizeof error)
                   : ir_interp(ir_func_by_name(r->m, "step"), r->state, in, out, error, sizeof error);
    if (status) {
        printf("step: %s\n", error);
        return NAN;
    }
    double loss = *(float *)out[0]->t.data;
    for (int i = 0; i < 8; i++)
        if (out[i])
            tccrt_object_unref(out[i]);
    return loss;
}

static void fill(struct tcc_tensor *t, unsigned seed)
{
    for (int64_t k = 0; k < elements(t); k++) {
        seed = seed * 1664525u + 1013904223u;
        if (t->dtype == TCC_I64)
            ((int64_t *)t->data)[k] = (seed >> 16) % CLASSES;
        else
            ((float *)t->data)[k] = (float)(seed >> 8) / 8388608.0f - 1;
    }
}

static bool near(const char *what, const double *x, const float *y, int64_t n)
{
    double most = 1e-3, apart = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(x[i]));
        apart = isnan(x[i]) || isnan(y[i]) ? INFINITY : fmax(apart, fabs(x[i] - (double)y[i]));
    }
    if (!(apart <= 1e-4 * most))
        printf("%s: %g apart, the largest is %g\n", what, apart, most);
    return apart <= 1e-4 * most;
}

/* Parameters and moments of the staged text against those of the whole one, and those that the session has. */
static bool same_state(const struct reference *staged, const struct reference *whole, struct tccrt_session *s,
                       int *compared)
{
    bool good = true;
    for (const struct ir_state *v = staged->m->states; v; v = v->next) {
        const struct ir_state *w = ir_state_by_name(whole->m, v->name);
        const struct ir_tensor *now = staged->state->values[v->index],
                               *then = w ? whole->state->values[w->index] : NULL;
        struct tcc_tensor here;
        if ((v->flags & IR_STATE_GRADIENT) || !now || now->dtype != TCC_F32 || now->splat)
            continue;
        double *x = malloc((size_t)now->nelems * sizeof *x + 1);
        for (int64_t i = 0; i < now->nelems; i++)
            x[i] = *(const float *)ir_tensor_at(now, i);
        if (then && !then->splat)
            good &= near(v->name, x, then->data, now->nelems), ++*compared;
        if (!tccrt_state_get(s, v->name, &here))
            good &= near(v->name, x, here.data, now->nelems), ++*compared;
        free(x);
    }
    return good;
}

static int run(struct tccrt_model *m, struct tccrt_session *s, struct reference *staged, struct reference *whole)
{
    struct tcc_tensor in[MAX_INPUTS], result;
    struct tcc_object *objects[MAX_INPUTS];
    int n = tccrt_ninputs(m, "step"), compared = 0;
    for (int i = 0; i < n; i++) {
        struct tccrt_value_info info;
        tccrt_input(m, "step", i, &info);
        info.dims[0] = ROWS;
        objects[i] = tccrt_object_tensor(info.dtype, info.rank, info.dims);
        in[i] = objects[i]->t;
    }
    for (unsigned k = 0; k < STEPS; k++) {
        float loss = NAN;
        result = (struct tcc_tensor){&loss, TCC_F32, 0, {0}};
        for (int i = 0; i < n; i++)
            fill(&in[i], k + (unsigned)i);
        if (tccrt_run(s, "step", n, in, 1, &result))
            return failed("step", tccrt_error());
        double a = step(staged, objects), b = step(whole, objects);
        printf("step %u: compiled %.7g, in stages %.7g, whole %.7g\n", k, (double)loss, a, b);
        if (!(fabs(a - b) <= 1e-5 * fabs(a)) || !(fabs(a - (double)loss) <= 1e-5 * fabs(a)))
            return failed("the loss", "differs");
    }
    for (int i = 0; i < n; i++)
        tccrt_object_unref(objects[i]);
    if (!same_state(staged, whole, s, &compared) || !compared)
        return failed("state", "differs");
    printf("%d comparisons of state\n", compared);
    return 0;
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    struct reference staged = {0}, whole = {0};
    int list[64];
    if (argc < 4 || tccrt_comm_init(NULL, &world) || tccrt_open(argv[1], &m))
        return failed("open", tccrt_error());
    int ranks = tccrt_comm_size(world), stages = tccrt_stages(m);
    struct tccrt_options one = {.threads = 1, .stage = ranks > 1 ? 1 + tccrt_comm_rank(world) : 0};
    for (int i = 0; i < stages && i < 64; i++)
        list[i] = i;
    if ((ranks != 1 && ranks != stages) || tccrt_session_new(m, &one, &s) ||
        (ranks > 1 && (tccrt_comm_group(world, stages, list, &pp) || tccrt_session_group(s, "pp", pp))))
        return failed("session", tccrt_error());
    if (!read_text(&staged, argv[2]) || !read_text(&whole, argv[3]) || !staged.m->staged || whole.m->staged)
        return failed("texts", "not a step in stages and a whole one");
    int code = run(m, s, &staged, &whole);
    ir_interp_state_free(staged.state);
    ir_interp_state_free(whole.state);
    ir_ctx_free(staged.ctx);
    ir_ctx_free(whole.ctx);
    tccrt_session_free(s);
    tccrt_close(m);
    tccrt_comm_free(pp);
    return tccrt_comm_finalize(world, NULL) || code;
}
