/* SPDX-License-Identifier: Apache-2.0 */
/* A model's cuts, as partition_place() makes them, added up by segment and stage. */
#include "passes/cluster/cluster_int.h"

#include <string.h>

/* The entry of `sends` from one segment to another. */
static struct plan_send *send_between(struct plan_model *m, struct plan_cut *u, int *cap, int from, int to)
{
    for (int i = u->nsends - 1; i >= 0; i--)
        if (u->sends[i].from == from && u->sends[i].to == to)
            return &u->sends[i];
    IR_PUSH(m->ctx, u->sends, u->nsends, *cap, (struct plan_send){.from = from, .to = to});
    return &u->sends[u->nsends - 1];
}

/* A value goes once to each stage that wants it, to the first segment there that does; each segment sends its part of
 * the gradient. */
static void add_value(struct plan_model *m, struct plan_cut *u, int *cap, const struct plan_value *v)
{
    int from = u->segment[v->from], stages = u->partitions;
    for (int i = 0; i < v->nusers; i++) {
        int to = u->segment[v->users[i]];
        bool first_in_stage = to != from, first_in_segment = to != from;
        for (int k = 0; k < v->nusers; k++) {
            int other = u->segment[v->users[k]];
            first_in_stage &=
                !(other != from && other % stages == to % stages && (other < to || (other == to && k < i)));
            first_in_segment &= !(other == to && k < i);
        }
        if (first_in_stage && to % stages != from % stages)
            plan_add(&send_between(m, u, cap, from, to)->forward, v->bytes);
        else if (first_in_segment)
            send_between(m, u, cap, from, to); /* nothing to send, but something to wait for */
        if (first_in_segment && v->gradient)
            plan_add(&send_between(m, u, cap, from, to)->backward, v->bytes);
    }
}

static void sum_up(struct plan_model *m, struct plan_cut *u)
{
    const struct partition *p = m->part;
    int cap = 0;
    u->segment = IR_NEWN(m->ctx, p->n + 1, int);
    u->empty = IR_NEWN(m->ctx, u->nsegments + 1, bool);
    u->order_time = IR_NEWN(m->ctx, u->nsegments + 1, double);
    u->weights = IR_NEWN(m->ctx, u->partitions + 1, double);
    u->trained = IR_NEWN(m->ctx, u->partitions + 1, double);
    memset(u->empty, 1, (size_t)u->nsegments * sizeof *u->empty);
    for (int i = 0; i < p->n; i++) {
        const struct partition_item *it = &p->items[i];
        u->segment[i] = it->segment;
        u->empty[it->segment] = false;
        u->order_time[it->segment] += it->time;
        u->weights[it->stage] += u->part->items[i].weights;
        u->trained[it->stage] += u->part->items[i].trained;
    }
    for (int i = 0; i < m->nvalues; i++)
        add_value(m, u, &cap, &m->values[i]);
}

static bool all_work(const struct plan_cut *u)
{
    for (int s = 0; s < u->partitions; s++) {
        bool works = false;
        for (int g = s; g < u->nsegments; g += u->partitions)
            works |= !u->empty[g] && u->order_time[g] > 0;
        if (!works)
            return false;
    }
    return true;
}

const struct plan_cut *plan_cut(struct plan_model *m, const struct plan_part *part, int partitions, int chunks)
{
    for (struct plan_cut *u = m->cuts; u; u = u->next)
        if (u->partitions == partitions && u->chunks == chunks && u->part == part)
            return u;
    struct plan_cut *u = IR_NEW(m->ctx, struct plan_cut);
    *u = (struct plan_cut){.partitions = partitions, .chunks = chunks, .part = part, .next = m->cuts};
    m->cuts = u;
    m->part->o.stages = partitions;
    m->part->o.chunks = chunks;
    if (partitions * chunks > m->part->n || !partition_place(m->part))
        return u;
    u->nsegments = m->part->nsegments;
    sum_up(m, u);
    u->fits = all_work(u);
    return u;
}
