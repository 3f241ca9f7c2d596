/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All layouts of a number of ranks. Each is bounded first, cheaply, and left out where it needs more memory than a rank
 * has. Then schedules are simulated in the order of the bounds, until no bound is left that is below the slowest of
 * those that are wanted: what is listed is what simulating all of them would list.
 */
#include "passes/cluster/cluster_int.h"
#include "base/mutant.h"

#include <stdlib.h>

#define MOST_PARTITIONS 1024
#define MOST_MICROS 65536
#define MOST_PARTS 64
#define USUAL_BATCH 32

struct finder {
    struct plan_model *m;
    const struct plan_cluster *c;
    struct plan_search *s;
    VEC(struct plan_prediction) list; /* bounds, then predictions */
};

static double per_sample(const struct plan_prediction *p)
{
    return p->step / (double)p->layout.batch;
}

static int faster(const void *a, const void *b)
{
    const struct plan_prediction *p = a, *q = b;
    double x = per_sample(p), y = per_sample(q);
    if (x != y)
        return MUTANT(156, x < y, !(x < y)) ? -1 : 1;
    if (p->memory != q->memory)
        return p->memory < q->memory ? -1 : 1;
    return p->layout.partitions != q->layout.partitions ? p->layout.partitions - q->layout.partitions
                                                        : p->layout.micros - q->layout.micros;
}

double plan_memory_of(const struct plan_cluster *c, int ranks)
{
    int per_node = (ranks + c->nodes - 1) / c->nodes;
    return c->divided ? c->memory * c->devices / per_node : c->memory;
}

static void try(struct finder *f, const struct plan_layout *l)
{
    struct plan_prediction p;
    const char *why = NULL;
    f->s->considered++;
    if (!plan_evaluate(f->m, f->c, l, false, &p, &why)) {
        f->s->impossible++;
        f->s->why = f->s->why ? f->s->why : why;
    } else if (MUTANT(155, p.memory > plan_memory_of(f->c, f->s->ranks), false)) {
        if (!f->s->too_large++ || p.memory < f->s->least_memory)
            f->s->least_memory = p.memory;
    } else {
        VEC_PUSH(f->m->ctx, f->list, p);
    }
}

/* With the host's memory where that is asked for, or the layout is too large for the device's and there is a way to the
 * host's. */
static void try_offload(struct finder *f, struct plan_layout l)
{
    int too_large = f->s->too_large, asked = f->s->offload;
    for (int what = asked > 0 ? asked : 0; what < 4; what++) {
        l.offload_activations = what & 1;
        l.offload_optimizer = what & 2;
        try(f, &l);
        if (asked >= 0 || f->c->host_bandwidth <= 0 || f->s->too_large == too_large)
            return;
        too_large = f->s->too_large;
    }
}

/* Variants that the same ranks and microbatches can run. */
static void try_schedules(struct finder *f, struct plan_layout l)
{
    struct plan_search *s = f->s;
    bool pipelined = l.partitions > 1 && l.micros > 1;
    bool several_nodes = (f->c->divided ? f->c->nodes > 1 : s->ranks > f->c->devices) && l.partitions > 1 &&
                         l.copies > 1 && l.parts == 1;
    for (int kind = PIPELINE_SIMPLE; kind <= PIPELINE_1F1B_INTERLEAVED; kind++) {
        l.kind = (enum pipeline_kind)kind;
        l.chunks = kind != PIPELINE_1F1B_INTERLEAVED ? 1 : s->chunks > 0 ? s->chunks : 2;
        if (s->kind >= 0 ? kind != s->kind : !pipelined && kind != PIPELINE_INTERLEAVED)
            continue;
        if (s->kind < 0 && kind == PIPELINE_1F1B_INTERLEAVED && l.micros % l.partitions)
            continue; /* as Megatron-LM wants it */
        int most = l.copies < 2 ? 0 : 3;
        for (l.zero = 0; l.zero <= most; l.zero++)
            for (int spread = 0; spread <= several_nodes; spread++) {
                l.spread = s->spread >= 0 ? s->spread : spread;
                if ((s->zero < 0 || l.zero == (l.copies > 1 ? s->zero : 0)) && (s->spread < 0 || !spread))
                    try_offload(f, l);
            }
    }
}

static void try_micros(struct finder *f, struct plan_layout l)
{
    int64_t own = l.batch / l.copies;
    for (int m = 1; m <= own && m <= MOST_MICROS; m++) {
        if (own % m || (f->s->micros && m != f->s->micros) || (f->m->micros == 1 && m > 1) ||
            (l.how >= TENSOR_CONTEXT && m > 1))
            continue;
        l.micros = m;
        try_schedules(f, l);
    }
}

/* Ranks that are left over stages and parts are copies. */
static void try_copies(struct finder *f, struct plan_layout l)
{
    struct plan_search *s = f->s;
    l.batch = s->batch ? s->batch : f->m->fixed_batch > 0 ? f->m->fixed_batch * l.copies : USUAL_BATCH;
    if (l.batch % l.copies == 0 && (!f->m->fixed_batch || l.batch / l.copies == f->m->fixed_batch)) {
        try_micros(f, l);
        return;
    }
    s->considered++;
    s->impossible++;
    s->why = s->why ? s->why : "the batch doesn't divide";
}

static void try_all(struct finder *f)
{
    struct plan_search *s = f->s;
    for (int t = 1; t <= s->ranks && t <= MOST_PARTS; t++)
        for (int how = 0; how <= (t > 1 ? TENSOR_EXPERTS : 0); how++) {
            bool other = t > 1 && (s->how < 0 ? how > TENSOR_SEQUENCE : how != s->how);
            if (s->ranks % t || (s->parts && t != s->parts) || other)
                continue;
            const struct plan_part *part = plan_part(f->m, t, (enum tensor_how)how);
            if (part->why) {
                s->considered++;
                s->impossible++;
                s->why = s->why ? s->why : part->why;
                continue;
            }
            int most = how >= TENSOR_CONTEXT ? 1 : MOST_PARTITIONS; /* such steps have no stages */
            for (int p = 1; p <= s->ranks / t && p <= most; p++)
                if (s->ranks / t % p == 0 && (!s->partitions || p == s->partitions))
                    try_copies(f, (struct plan_layout){.partitions = p,
                                                       .copies = s->ranks / t / p,
                                                       .parts = t,
                                                       .how = (enum tensor_how)how,
                                                       .chunks = 1,
                                                       .active = s->active});
        }
}

/* Simulates the bounded ones in order; the number of predictions, at the list's start. */
static int simulate(struct finder *f)
{
    struct plan_search *s = f->s;
    int done = 0, n = f->list.n;
    double enough = 0;
    const char *why;
    for (int i = 0; i < n; i++) {
        struct plan_prediction p;
        if (s->top && done >= s->top && per_sample(&f->list.at[i]) > enough) {
            s->slower = n - i;
            break;
        }
        if (!plan_evaluate(f->m, f->c, &f->list.at[i].layout, true, &p, &why)) {
            s->impossible++;
            s->why = s->why ? s->why : why;
            continue;
        }
        if (p.memory > plan_memory_of(f->c, s->ranks)) {
            s->too_large++;
            continue;
        }
        f->list.at[done++] = p;
        qsort(f->list.at, (size_t)done, sizeof p, faster);
        if (s->top && done >= s->top)
            enough = per_sample(&f->list.at[s->top - 1]);
    }
    return done;
}

struct plan_prediction *plan_search(struct plan_model *m, const struct plan_cluster *c, struct plan_search *s, int *n)
{
    struct finder f = {.m = m, .c = c, .s = s};
    s->considered = s->too_large = s->impossible = s->slower = 0;
    s->least_memory = 0;
    s->why = NULL;
    try_all(&f);
    if (f.list.n)
        qsort(f.list.at, (size_t)f.list.n, sizeof *f.list.at, faster);
    *n = simulate(&f);
    return f.list.at;
}
