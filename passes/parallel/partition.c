/* SPDX-License-Identifier: Apache-2.0 */
/* Stages and segments of a function's nodes (partition.h), and the report about them. */
#include "passes/parallel/partition.h"
#include "base/mutant.h"

#include <string.h>

#define SLACK 0.02 /* the slowest stage may be that much slower where fewer bytes cross for it */

static struct ir_where where_of(const struct partition *p, const struct ir_node *n)
{
    struct ir_where w = n ? n->where : (struct ir_where){0};
    if (!w.file)
        w.file = p->func->module->name;
    return w;
}

/* The stage's first segment from `least` on. */
static int segment_at(const struct partition *p, int stage, int least)
{
    int over = least % p->o.stages;
    return MUTANT(140, least, 0) + (stage - over + p->o.stages) % p->o.stages;
}

static int needs(const struct partition *p, const struct ir_node *n, int item)
{
    int least = 0;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_value *v = n->in[i].value;
        int from = v && v->def ? p->item_of[v->def->id] : -1;
        if (from >= 0 && from != item && p->items[from].segment > least)
            least = p->items[from].segment;
    }
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g]) {
            int s = needs(p, inner, item);
            least = s > least ? s : least;
        }
    return least;
}

/* Segments in the order of the items: behind those of all operands, and no earlier than the piece that the item was cut
 * into. */
static void number_segments(struct partition *p, const int *piece)
{
    int last = 0;
    for (int i = 0; i < p->n; i++) {
        struct partition_item *it = &p->items[i];
        int least = needs(p, it->node, i);
        if (piece && it->anchor == i && piece[i] > least)
            least = piece[i];
        it->segment = segment_at(p, it->stage, least);
        last = it->segment > last ? it->segment : last;
    }
    p->nsegments = (last / p->o.stages + 1) * p->o.stages;
}

static void place_automatically(struct partition *p)
{
    int k = p->o.stages * (p->o.chunks > 1 ? p->o.chunks : 1);
    int *first = IR_NEWN(p->ctx, k + 1, int), *piece = IR_NEWN(p->ctx, p->n + 1, int);
    partition_cut(p->ctx, p->n, p->load, p->may_cut, p->crossing, k, SLACK, first);
    for (int j = 0; j < k; j++)
        for (int i = first[j]; i < first[j + 1]; i++)
            piece[i] = j;
    for (int i = 0; i < p->n; i++) {
        int a = i;
        while (p->items[a].anchor != a)
            a = p->items[a].anchor;
        p->items[i].stage = piece[a] % p->o.stages;
    }
    number_segments(p, piece);
}

/* -- State --------------------------------------------------------------------------------------------------------- */

struct shared {
    struct partition *p;
    int *stage;                   /* by state: that uses it, -1: none yet */
    const struct ir_node **first; /* that used it */
    bool ok;
};

static void use_state(struct shared *x, const struct ir_state *s, const struct ir_node *n, int stage)
{
    if (!s || (x->p->o.shared && x->p->o.shared[s->index]))
        return;
    if (x->stage[s->index] < 0) {
        x->stage[s->index] = stage;
        x->first[s->index] = n;
        return;
    }
    if (x->stage[s->index] == stage)
        return;
    struct ir_where w = where_of(x->p, n);
    ir_error(x->p->ctx, &w,
             "'%s' would be shared by stage %d (here) and stage %d (node '%s'): place its users together", s->name,
             stage, x->stage[s->index],
             x->first[s->index]->where.node ? x->first[s->index]->where.node : "without a name");
    x->stage[s->index] = stage;
    x->ok = false;
}

static void states_of(struct shared *x, const struct ir_node *n, int stage)
{
    for (int i = 0; i < n->nin; i++)
        use_state(x, partition_state_of(n->in[i].value), n, stage);
    if (n->op == IR_state_write || (n->op == IR_state_read && n->block->parent))
        use_state(x, ir_state_of(n), n, stage);
    for (int g = 0; g < n->nregions; g++)
        IR_EACH_NODE(inner, n->regions[g])
            states_of(x, inner, stage);
}

/* No state variable is used in two stages. */
static bool check_state(struct partition *p)
{
    int n = 0;
    for (const struct ir_state *s = p->func->module->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    struct shared x = {p, IR_NEWN(p->ctx, n + 1, int), IR_NEWN(p->ctx, n + 1, const struct ir_node *), true};
    for (int i = 0; i < n; i++)
        x.stage[i] = -1;
    for (int i = 0; i < p->n; i++)
        states_of(&x, p->items[i].node, p->items[i].stage);
    return x.ok;
}

/* A value that can't be handed over, made in one segment and used in another. */
static bool check_crossing(struct partition *p)
{
    bool ok = true;
    for (int i = 0; i < p->n && ok; i++) {
        const struct ir_node *n = p->items[i].node;
        for (int k = 0; k < n->nin && ok; k++) {
            const struct ir_value *v = n->in[k].value;
            int from = v && v->def ? p->item_of[v->def->id] : -1;
            if (from < 0 || p->items[from].segment == p->items[i].segment || ir_is_tensor(v->type))
                continue;
            struct ir_where w = where_of(p, n);
            ir_error(p->ctx, &w, "it is placed in another stage than node '%s', whose result (%s) cannot cross",
                     v->def->where.node ? v->def->where.node : "", ir_type_text(p->ctx, v->type));
            ok = false;
        }
    }
    return ok;
}

void partition_number(struct partition *p)
{
    number_segments(p, NULL);
}

bool partition_place(struct partition *p)
{
    if (p->o.map) {
        if (!partition_by_map(p))
            return false;
        number_segments(p, NULL);
    } else {
        place_automatically(p);
    }
    return check_state(p) && check_crossing(p);
}

/* -- The report ---------------------------------------------------------------------------------------------------- */

/* Bytes a microbatch that go from one stage to others, each value once a stage that it goes to. */
static double leaves(const struct partition *p, int stage)
{
    double bytes = 0;
    bool *to = IR_NEWN(p->ctx, p->o.stages + 1, bool);
    for (int i = 0; i < p->n; i++) {
        const struct ir_node *n = p->items[i].node;
        for (int k = 0; k < n->nout && p->items[i].stage == stage; k++) {
            memset(to, 0, (size_t)p->o.stages * sizeof *to);
            for (const struct ir_use *u = n->out[k]->uses; u; u = u->next) {
                int at = p->item_of[u->user->id];
                if (at >= 0)
                    to[p->items[at].stage] = true;
            }
            for (int s = 0; s < p->o.stages; s++)
                bytes += to[s] && s != stage ? pass_bytes(&p->sizes, n->out[k]->type) : 0;
        }
    }
    return bytes;
}

void partition_report(const struct partition *p, const double *outputs, FILE *to)
{
    double all = 0, slowest = 0;
    fprintf(to, "%5s %6s %14s %14s %12s %7s %14s\n", "stage", "nodes", "parameters", "activations", "time (ms)", "cost",
            "bytes sent");
    for (int s = 0; s < p->o.stages; s++) {
        double params = 0, activations = 0, time = 0, cost = 0;
        int nodes = 0;
        for (int i = 0; i < p->n; i++) {
            const struct partition_item *it = &p->items[i];
            if (it->stage != s)
                continue;
            nodes++;
            params += it->params;
            activations += it->activations;
            time += it->time;
            cost += it->cost;
        }
        fprintf(to, "%5d %6d %14.0f %14.0f %12.3f %6.1f%% %14.0f\n", s, nodes, params, activations, time * 1e3,
                cost * 100, leaves(p, s) + outputs[s]);
        all += time;
        slowest = time > slowest ? time : slowest;
    }
    fprintf(to, "slowest stage: %.1f%% over the mean; activations, time and bytes sent are those of a microbatch\n",
            all > 0 ? (slowest * p->o.stages / all - 1) * 100 : 0);
}
