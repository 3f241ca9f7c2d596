/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roll.c - what a stream does again and again becomes a loop.
 *
 * A large kernel's tiles are made one behind the other, with buffers, banks and semaphores given out in the same order
 * every few tiles (nk_begin_tile()). In each engine's stream runs of instructions are then followed by their like: the
 * same but for offsets in HBM and the values of waits, which go on by one step from turn to turn. Such runs become a
 * loop; runs of loops too, until no more is found.
 *
 * An engine's stream is a matter of its own: with its loops it does, turn by turn, what it did unrolled, with the same
 * waits for the same values. So results, checks, and what waits for what stay as they are, whatever the other engines'
 * loops look like.
 *
 * A value that goes on is its first one and a register; those that go on by the same steps share one. Loops in one
 * another add to it what is theirs, and take it off again behind them.
 */
#include "base/grow.h"
#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_TURNS = 3, FEW = 4, MANY = 32, CANDIDATES = 8 };

/* An instruction, or a loop. value: what goes on (of a loop: of its body, in the first turn), step: by how much. */
struct node {
    uint64_t shape;
    const struct neuron_instr *i;
    struct node **body;
    int nbody, nvalues;
    int64_t count, leaves, *value, *step;
};
struct nodes {
    struct node **at;
    int n, cap;
};
/* least: instructions of a turn. */
struct roll {
    struct nk *nk;
    int engine;
    struct neuron_stream *to;
    int64_t least;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (uint64_t word = 0; n; b += sizeof word, n -= n < sizeof word ? n : sizeof word) {
        memcpy(&word, b, n < sizeof word ? n : sizeof word);
        h = mix(h, word);
    }
    return h;
}

/* The instruction without what goes on. */
static uint64_t shape_of(const struct neuron_instr *i)
{
    uint64_t h = mix(mix(mix(mix(1, i->op), i->noperands), i->nwaits), i->nsignals);
    for (int k = 0; k < i->noperands; k++) {
        const struct neuron_operand *o = &i->operand[k];
        h = mix(mix(mix(h, o->space), o->type), o->ndims);
        h = mix(mix(mix(h, o->start), o->count), o->tensor);
        h = mix(h, o->space == NEURON_HBM ? 0 : (uint64_t)o->offset);
        h = mix_bytes(h, o->size, o->ndims * sizeof *o->size);
        h = mix_bytes(h, o->stride, o->ndims * sizeof *o->stride);
        h = mix_bytes(h, o->times, sizeof o->times);
        h = mix_bytes(mix_bytes(h, o->by, sizeof o->by), o->power, sizeof o->power);
        h = mix_bytes(h, &o->number, sizeof o->number);
    }
    for (int k = 0; k < i->nwaits; k++)
        h = mix(h, i->wait[k].semaphore);
    for (int k = 0; k < i->nsignals; k++)
        h = mix(mix(h, i->signal[k].semaphore), i->signal[k].value);
    return mix_bytes(mix_bytes(h, i->attr, sizeof i->attr), i->mask, sizeof i->mask);
}

static struct node *leaf(struct nk *nk, const struct neuron_instr *i)
{
    struct node *n = IR_NEW(nk->ctx, struct node);
    *n = (struct node){.shape = shape_of(i), .i = i, .leaves = 1};
    n->value = IR_NEWN(nk->ctx, i->noperands + i->nwaits + 1, int64_t);
    for (int k = 0; k < i->noperands; k++)
        if (i->operand[k].space == NEURON_HBM)
            n->value[n->nvalues++] = i->operand[k].offset;
    for (int k = 0; k < i->nwaits; k++)
        n->value[n->nvalues++] = i->wait[k].value;
    return n;
}

/* `turns` times what stands at at[0] to at[period - 1], and goes on in what follows it. */
static struct node *loop(struct nk *nk, struct node **at, int period, int64_t turns)
{
    struct node *n = IR_NEW(nk->ctx, struct node);
    *n = (struct node){.nbody = period, .count = turns};
    n->body = IR_NEWN(nk->ctx, period, struct node *);
    memcpy(n->body, at, (size_t)period * sizeof *at);
    for (int k = 0; k < period; k++) {
        n->nvalues += at[k]->nvalues;
        n->leaves += at[k]->leaves;
    }
    n->value = IR_NEWN(nk->ctx, n->nvalues + 1, int64_t);
    n->step = IR_NEWN(nk->ctx, n->nvalues + 1, int64_t);
    n->shape = mix(2, (uint64_t)turns);
    for (int k = 0, v = 0; k < period; k++) {
        n->shape = mix(n->shape, at[k]->shape);
        for (int j = 0; j < at[k]->nvalues; j++, v++) {
            n->value[v] = at[k]->value[j];
            n->step[v] = at[k + period]->value[j] - at[k]->value[j];
            n->shape = mix(n->shape, (uint64_t)n->step[v]);
        }
    }
    return n;
}

/* -- Periods -- */

/* Do a, b and c, which have one shape, go on by the same steps? */
static bool goes_on(const struct node *a, const struct node *b, const struct node *c)
{
    if (a->shape != b->shape || b->shape != c->shape || a->nvalues != b->nvalues || b->nvalues != c->nvalues)
        return false;
    for (int k = 0; k < a->nvalues; k++)
        if (b->value[k] - a->value[k] != c->value[k] - b->value[k])
            return false;
    return true;
}

/* The list with loops of that period: how long it is then. to: NULL: only count. */
static int fold(struct roll *r, const struct nodes *list, int period, int *run, struct nodes *to)
{
    int made = 0;
    for (int k = list->n - 1; k >= 0; k--) /* how many from here on go on for two periods more */
        run[k] = k + 2 * period < list->n && goes_on(list->at[k], list->at[k + period], list->at[k + 2 * period])
                     ? run[k + 1] + 1
                     : 0;
    for (int k = 0; k < list->n; made++) {
        int64_t turns = run[k] / period + 2, leaves = 0;
        for (int j = 0; turns >= LEAST_TURNS && j < period && leaves < r->least; j++)
            leaves += list->at[k + j]->leaves;
        bool rolls = turns >= LEAST_TURNS && leaves >= r->least;
        if (to)
            VEC_PUSH(r->nk->ctx, *to, rolls ? loop(r->nk, &list->at[k], period, turns) : list->at[k]);
        k += rolls ? (int)turns * period : 1;
    }
    return made;
}

struct seen {
    uint64_t hash;
    int at;
};

/* How far back each place's next few nodes stood last, and how many places say so. */
static void vote(struct roll *r, const struct nodes *list, int *votes)
{
    size_t room = 64;
    int together = list->n > 64 * MANY ? MANY : FEW;
    while (room < 2 * (size_t)list->n)
        room *= 2;
    struct seen *seen = IR_NEWN(r->nk->ctx, room, struct seen);
    for (int k = 0; k + together <= list->n; k++) {
        uint64_t h = 3;
        for (int j = 0; j < together; j++)
            h = mix(h, list->at[k + j]->shape);
        size_t s = h & (room - 1);
        while (seen[s].at && seen[s].hash != h)
            s = (s + 1) & (room - 1);
        if (seen[s].at)
            votes[k + 1 - seen[s].at]++;
        seen[s] = (struct seen){h, k + 1};
    }
}

/* One round; false: no period makes the list much shorter. */
static bool shorten(struct roll *r, struct nodes *list)
{
    int *votes = IR_NEWN(r->nk->ctx, list->n + 1, int), *run = IR_NEWN(r->nk->ctx, list->n + 1, int), best = 0,
        least = list->n - list->n / 16;
    vote(r, list, votes);
    for (int c = 0; c < CANDIDATES; c++) {
        int most = 0;
        for (int k = 1; k <= list->n; k++)
            most = votes[k] > votes[most] ? k : most;
        if (!most || !votes[most])
            break;
        votes[most] = 0;
        int64_t each = 0;
        for (int k = 0; k < most; k++)
            each += list->at[list->n / 2 - most / 2 + k]->leaves;
        int period = (int)((r->least + each - 1) / each) * most;
        int n = period < list->n / 2 ? fold(r, list, period, run, NULL) : list->n;
        if (n < least) {
            least = n;
            best = period;
        }
    }
    if (!best)
        return false;
    struct nodes to = {0};
    fold(r, list, best, run, &to);
    *list = to;
    return true;
}

/* -- Instructions -- */

/* Steps of a register in the loops of a nest, by depth; from: the register that it begins with. */
struct steps {
    int64_t at[NEURON_LOOPS], from;
};
struct nest {
    struct roll *r;
    const struct nk_places *places; /* of turns of an open kernel; NULL: everything begins at 0 */
    struct steps reg[NEURON_REGISTERS];
    int nregs, most, depth;
    const struct node *open[NEURON_LOOPS];
    int value[NEURON_LOOPS]; /* of each open loop: the number of the value that comes next */
    bool fits;
};

static bool put(struct nest *n, const struct neuron_instr *i)
{
    struct neuron_stream *s = n->r->to;
    if (s->n >= NK_MOST_INSTRUCTIONS)
        nk_refuse(n->r->nk, "more than %d instructions, with loops", NK_MOST_INSTRUCTIONS);
    if (!GROWN(s->code, s->n, s->room, 64))
        nk_refuse(n->r->nk, "no memory for a program");
    s->code[s->n++] = *i;
    return true;
}

static void set(struct nest *n, int reg, int64_t v)
{
    put(n,
        &(struct neuron_instr){.op = NEURON_OP_SET, .noperands = 2, .operand = {nk_in_register(reg), nk_integer(v)}});
}

static void count(struct nest *n, enum neuron_op op, int reg, int from, struct neuron_operand by)
{
    put(n, &(struct neuron_instr){
               .op = (uint8_t)op, .noperands = 3, .operand = {nk_in_register(reg), nk_in_register(from), by}});
}

static void add(struct nest *n, int reg, int64_t by)
{
    count(n, NEURON_OP_REG_ADD, reg, reg, nk_integer(by));
}

/* The register of the value that comes next, in the loops that are open. */
static uint8_t register_of(struct nest *n, uint8_t from)
{
    struct steps s = {{0}, from};
    bool any = false;
    for (int d = 0; d < n->depth; d++) {
        s.at[d] = n->open[d]->step[n->value[d]++];
        any |= s.at[d] != 0;
    }
    int k = 0;
    while (any && k < n->nregs && memcmp(&n->reg[k], &s, sizeof s) != 0)
        k++;
    if (any && k == n->most) {
        n->fits = false;
        return NEURON_NO_REGISTER;
    }
    if (any && k == n->nregs)
        n->reg[n->nregs++] = s;
    return any ? (uint8_t)k : from;
}

/* values: the node's, as its outermost loop has them in this round. write: else registers are found only. */
static const int64_t *emit(struct nest *n, const struct node *node, const int64_t *value, bool write);

static const int64_t *emit_instr(struct nest *n, const struct node *node, const int64_t *value, bool write)
{
    struct neuron_instr i = *node->i;
    for (int k = 0; k < i.noperands; k++)
        if (i.operand[k].space == NEURON_HBM) {
            i.operand[k].offset = *value++;
            i.operand[k].reg = register_of(n, n->places ? n->places->base[i.operand[k].tensor] : NEURON_NO_REGISTER);
            i.operand[k].tensor = n->places ? n->places->tensor[i.operand[k].tensor] : i.operand[k].tensor;
        }
    for (int k = 0; k < i.nwaits; k++) {
        i.wait[k].value = (uint32_t)*value++;
        i.wait[k].reg = register_of(n, n->places ? n->places->waits : NEURON_NO_REGISTER);
    }
    if (write)
        put(n, &i);
    return value;
}

static const int64_t *emit_loop(struct nest *n, const struct node *node, int64_t count, const int64_t *value,
                                bool write)
{
    int depth = n->depth++;
    struct neuron_instr head = {.op = NEURON_OP_LOOP, .noperands = 1, .operand = {nk_integer(count)}};
    n->open[depth] = node;
    n->value[depth] = 0;
    if (write)
        put(n, &head);
    for (int k = 0; k < node->nbody; k++)
        value = emit(n, node->body[k], value, write);
    for (int k = 0; write && k < n->nregs; k++)
        if (n->reg[k].at[depth])
            add(n, k, n->reg[k].at[depth]);
    if (write)
        put(n, &(struct neuron_instr){.op = NEURON_OP_END_LOOP});
    /* the next turn of the loop around it begins anew */
    for (int k = 0; write && (depth || n->places) && k < n->nregs; k++)
        if (n->reg[k].at[depth])
            add(n, k, -count * n->reg[k].at[depth]);
    n->depth--;
    return value;
}

static const int64_t *emit(struct nest *n, const struct node *node, const int64_t *value, bool write)
{
    return node->i ? emit_instr(n, node, value, write) : emit_loop(n, node, node->count, value, write);
}

/* May loops inside lie in so many others, and do registers stay small in them? */
static bool fits_inside(const struct node *node, int depth)
{
    bool fits = depth <= NEURON_LOOPS;
    for (int k = 0; fits && k < node->nbody; k++)
        fits = node->body[k]->i || fits_inside(node->body[k], depth + 1);
    for (int k = 0; fits && depth > 1 && k < node->nvalues; k++)
        fits = llabs(node->step[k]) < (INT32_MAX >> 4) / node->count;
    return fits;
}

/* So many turns that no register of the nest goes beyond 31 bits; 0: not even one does. */
static int64_t turns_at_once(const struct node *node)
{
    int64_t step = 1, least = node->count;
    for (int k = 0; k < node->nvalues; k++) {
        int64_t s = llabs(node->step[k]);
        step = s > step ? s : step;
    }
    int64_t most = INT32_MAX / 2 / step;
    return most < least ? most : least;
}

/* A loop of the stream's own, or an instruction. */
static void emit_top(struct roll *r, const struct node *node)
{
    struct nest n = {.r = r, .most = NEURON_REGISTERS, .fits = true};
    if (node->i) {
        emit_instr(&n, node, node->value, true);
        return;
    }
    int64_t each = turns_at_once(node), *value = IR_NEWN(r->nk->ctx, node->nvalues + 1, int64_t);
    n.fits = each && fits_inside(node, 1);
    if (n.fits)
        emit(&n, node, node->value, false);
    for (int64_t done = 0, turns; done < node->count; done += turns) {
        turns = !n.fits ? 1 : node->count - done < each ? node->count - done : each;
        for (int k = 0; k < node->nvalues; k++)
            value[k] = node->value[k] + done * node->step[k];
        const int64_t *at = value;
        if (n.fits) {
            for (int k = 0; k < n.nregs; k++)
                set(&n, k, 0);
            emit_loop(&n, node, turns, at, true);
            continue;
        }
        for (int k = 0; k < node->nbody; k++) { /* more steps than registers: loops of its parts */
            struct node *part = IR_NEW(r->nk->ctx, struct node);
            *part = *node->body[k];
            part->value = (int64_t *)at;
            emit_top(r, part);
            at += part->nvalues;
        }
    }
}

/* The stream with what repeats in loops. */
static struct nodes in_loops(struct roll *r, const struct neuron_stream *from)
{
    struct nodes list = {0};
    for (int k = 0; k < from->n; k++)
        VEC_PUSH(r->nk->ctx, list, leaf(r->nk, &from->code[k]));
    while (list.n > LEAST_TURNS && shorten(r, &list))
        ;
    return list;
}

/* So many instructions a turn that counting, a few of the sequencer's cycles, is no part of the time in which they
 * happen: a fiftieth of what the engine's share of the program's instructions takes. */
static int64_t least_of(const struct nk *nk, const struct neuron_program *p, int engine, int64_t ticks)
{
    enum { COUNTING = 4 * 8, PART = 50, MOST = 64 };
    int64_t paid = COUNTING * nk_cycle_ticks(nk->machine->core, (enum neuron_engine)engine) * PART;
    int64_t least = paid * p->stream[engine].n / (ticks + 1) + 1;
    return least < MOST ? least : MOST;
}

struct nk_rolled {
    struct nodes list;
};

struct nk_rolled *nk_rolled(struct nk *nk, const struct neuron_program *p, int engine)
{
    struct nk_rolled *to = IR_NEW(nk->ctx, struct nk_rolled);
    struct roll r = {.nk = nk, .least = least_of(nk, p, engine, nk_ticks_of(p->core, p))};
    to->list = in_loops(&r, &p->stream[engine]);
    return to;
}

static int length_of(const struct node *const *at, int n)
{
    enum { HEAD_AND_END = 2 };
    int length = 0;
    for (int k = 0; k < n; k++)
        length += at[k]->i ? 1 : HEAD_AND_END + length_of((const struct node *const *)at[k]->body, at[k]->nbody);
    return length;
}

int nk_rolled_length(struct nk *nk, const struct neuron_program *p)
{
    int length = 0;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        const struct nk_rolled *r = nk_rolled(nk, p, e);
        length += length_of((const struct node *const *)r->list.at, r->list.n);
    }
    return length;
}

bool nk_put_rolled(struct nk *nk, int engine, const struct nk_rolled *rolled, int depth, const struct nk_places *places)
{
    const struct nodes *list = &rolled->list;
    struct roll r = {.nk = nk, .engine = engine, .to = &nk->p->stream[engine]};
    struct nest n = {.r = &r, .places = places, .most = places->most, .fits = true};
    for (int k = 0; k < list->n && n.fits; k++) {
        n.fits = list->at[k]->i || fits_inside(list->at[k], depth + 1);
        if (n.fits)
            emit(&n, list->at[k], list->at[k]->value, false);
    }
    for (int k = 0; k < n.nregs && n.fits; k++)
        put(&n, &(struct neuron_instr){.op = NEURON_OP_SET,
                                       .noperands = 2,
                                       .operand = {nk_in_register(k), n.reg[k].from == NEURON_NO_REGISTER
                                                                          ? nk_integer(0)
                                                                          : nk_in_register(n.reg[k].from)}});
    for (int k = 0; k < list->n && n.fits; k++)
        emit(&n, list->at[k], list->at[k]->value, true);
    return n.fits;
}

void nk_roll(struct nk *nk)
{
    int64_t ticks = nk_ticks_of(nk->machine->core, nk->p);
    for (int e = 0; e < NEURON_NENGINES; e++) {
        struct neuron_stream *from = &nk->p->stream[e], to = {0};
        struct roll r = {nk, e, &to, least_of(nk, nk->p, e, ticks)};
        struct nodes list = in_loops(&r, from);
        for (int k = 0; k < list.n; k++)
            emit_top(&r, list.at[k]);
        free(from->code);
        *from = to;
    }
}
