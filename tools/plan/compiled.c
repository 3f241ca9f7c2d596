/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-plan's memory: that of compiled plans. Each layout that is to be listed is compiled as far as its plan
 * (--dump-ir=memory), for the batch of a copy, and the fullest stage's figures take the place of the prediction's.
 */
#include "compiler/tccc.h"
#include "tools/plan/plan_tool_int.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"simple", "interleaved", "1f1b", "1f1b-interleaved"};

/* The first error. */
static void take_error(void *user, int severity, const char *text)
{
    char *why = user;
    if (severity >= 2 && !*why)
        snprintf(why, ERROR_SIZE, "%s", text);
}

/* The layout as options of the compiler. */
static void set_layout(const struct planner *p, const struct plan_layout *l, struct tccc_train *t, struct tccc_split *s,
                       char *pipeline, size_t size)
{
    *t = *p->train;
    *s = *p->train->split;
    snprintf(pipeline, size, "%s", kinds[l->kind]);
    if (l->kind == PIPELINE_1F1B_INTERLEAVED)
        snprintf(pipeline, size, "%s:chunks=%d", kinds[l->kind], l->chunks);
    s->partitions = l->partitions;
    s->microbatches = l->micros;
    s->active = l->active;
    s->schedule_of_stages = pipeline;
    t->split = l->partitions > 1 || l->micros > 1 ? s : NULL;
    t->tensor_parallel = l->how <= TENSOR_SEQUENCE ? l->parts : 0;
    t->sequence_parallel = l->how == TENSOR_SEQUENCE;
    t->context_parallel = l->how == TENSOR_CONTEXT ? l->parts : 0;
    t->expert_parallel = l->how == TENSOR_EXPERTS ? l->parts : 0;
    t->zero = l->zero;
    t->data_parallel = l->copies > 1;
    t->bucket_cap_mb = l->copies > 1 ? t->bucket_cap_mb : 0;
    t->broadcast_buffers = l->copies > 1 ? t->broadcast_buffers : NULL;
    t->offload =
        (l->offload_activations ? TCCC_OFFLOAD_ACTIVATIONS : 0) | (l->offload_optimizer ? TCCC_OFFLOAD_OPTIMIZER : 0);
}

/* --dim for the batch of a copy, and for sizes that nobody has given. */
static const char **dims_of(const struct planner *p, int64_t batch)
{
    const struct plan_model *m = p->plan;
    int n = p->o->given[OPT_dim].n, guessed = 0;
    while (m->sizes && m->sizes[guessed])
        guessed++;
    const char **dims = IR_NEWN(p->ctx, n + guessed + 2, const char *);
    for (int i = 0; i < n; i++)
        dims[i] = p->o->given[OPT_dim].at[i];
    for (int i = 0; i < guessed; i++)
        dims[n++] = ir_internf(p->ctx, "%s=%d", m->sizes[i], PLAN_GUESS);
    if (m->batch)
        dims[n++] = ir_internf(p->ctx, "%s=%lld", m->batch, (long long)batch);
    return dims;
}

/* Lines of --dump-ir=memory: those of the stage that takes most. */
static bool read_figures(const char *text, struct plan_prediction *q)
{
    bool any = false;
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        unsigned long long f[6];
        int stage;
        if (sscanf(at, "stage %d params %llu gradients %llu optimizer %llu other %llu arena %llu slots %llu", &stage,
                   &f[0], &f[1], &f[2], &f[3], &f[4], &f[5]) != 7)
            continue;
        double all = 0;
        for (int i = 0; i < 6; i++)
            all += (double)f[i];
        if (any && all <= q->memory)
            continue;
        any = true;
        q->memory = all;
        q->weights = (double)(f[0] + f[3]);
        q->gradients = (double)f[1];
        q->state = (double)f[2];
        q->activations = (double)f[5];
        q->work = (double)f[4];
    }
    return any;
}

bool plan_compiled(const struct planner *p, struct plan_prediction *q, char *why)
{
    static const char *const dumps[] = {"memory", NULL};
    struct options plain = *p->o;
    struct tccc_options c;
    struct tccc_train t;
    struct tccc_split s;
    char pipeline[64], *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    plain.tool = TOOL_C;
    *why = 0;
    if (!to || compile_options(&plain, &c) != EXIT_FINE) {
        if (to)
            fclose(to);
        free(text);
        return false;
    }
    set_layout(p, &q->layout, &t, &s, pipeline, sizeof pipeline);
    c.model = p->model;
    c.train = &t;
    c.dims = dims_of(p, q->layout.batch / q->layout.copies);
    c.dumps = dumps;
    c.dump_to = to;
    c.copies = q->layout.copies;
    c.target = c.target ? c.target : p->cluster.host_bandwidth > 0 ? "cpu-split" : NULL;
    c.time_passes = false;
    c.report = NULL;
    c.message = take_error;
    c.progress = NULL;
    c.user = why;
    bool ok = tccc_compile(&c) == 0;
    fclose(to);
    q->compiled = ok && read_figures(text, q);
    free(text);
    if (!q->compiled && !*why)
        snprintf(why, ERROR_SIZE, "it cannot be compiled");
    return q->compiled;
}
