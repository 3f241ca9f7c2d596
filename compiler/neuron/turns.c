/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - the loops of an open kernel's turns (open.c). For each open dim a loop for each number of points that a
 * turn may have, most first, in one another; the counts come of the sizes, which registers hold. A turn is a program
 * whose engines all have met at its end. Around it registers go on: one for the values that waits are for, by the same
 * step each turn, and one for all tensors whose addresses go on alike.
 *
 * For that each turn of each kind counts every semaphore up by as much: what a program does less than the others,
 * instructions behind its end make up. An engine's own semaphore is its own matter, and those of transfers have no
 * waits left when engines have met.
 */
#include <string.h>

#include "compiler/neuron/neuron_int.h"

/* From the registers that launches set downwards: one to count with, where rows are, what waits are for, where
 * addresses begin. */
#define COUNT (NEURON_REGISTERS - 1 - u->nk->p->nsizes)
#define PLACE (COUNT - 1)
#define WAITS (PLACE - 1)
enum { LEAST_LEFT = 4 }; /* for turns' own loops, and what is worked out in front of them */

struct turns {
    struct nk *nk;
    const struct nk_turns *t;
    int engine, nbases;
    int64_t each; /* what a turn adds to every semaphore */
    bool used[NEURON_SEMAPHORES];
    struct nk_steps *base;  /* of each register */
    uint8_t *base_of;       /* by tensor */
    uint8_t where[NK_OPEN]; /* of Sync, which loads, and stores where turns are before they do */
    const struct nk_rolled *rolled[NK_TURNS];
};

static void put(struct turns *u, const struct neuron_instr *i)
{
    if (u->nk->p->stream[u->engine].n >= NK_MOST_INSTRUCTIONS)
        nk_refuse(u->nk, "more than %d instructions, with loops", NK_MOST_INSTRUCTIONS);
    if (!neuron_add(u->nk->p, (enum neuron_engine)u->engine, i))
        nk_refuse(u->nk, "no memory for a program");
}

static void set(struct turns *u, int reg, struct neuron_operand v)
{
    put(u, &(struct neuron_instr){.op = NEURON_OP_SET, .noperands = 2, .operand = {nk_in_register(reg), v}});
}

static void count(struct turns *u, enum neuron_op op, int reg, struct neuron_operand by)
{
    put(u, &(struct neuron_instr){
               .op = (uint8_t)op, .noperands = 3, .operand = {nk_in_register(reg), nk_in_register(reg), by}});
}

/* -- Semaphores -- */

static void count_signals(const struct neuron_program *p, int64_t *signals)
{
    memset(signals, 0, NEURON_SEMAPHORES * sizeof *signals);
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int k = 0; k < p->stream[e].n; k++) {
            const struct neuron_instr *i = &p->stream[e].code[k];
            for (int n = 0; n < i->nsignals; n++)
                signals[i->signal[n].semaphore] +=
                    (int64_t)i->signal[n].value * (neuron_is_dma((enum neuron_op)i->op) ? NEURON_DMA_ENGINES : 1);
        }
}

static int programs_of(const struct nk_turns *t)
{
    int n = 1, keys = t->axis[t->naxes - 1].n;
    for (int a = 0; a < t->naxes; a++)
        n *= t->axis[a].n;
    return t->rows ? keys * keys + keys + 1 : n;
}

static void find_signals(struct turns *u, const struct nk_turns *t)
{
    int64_t signals[NEURON_SEMAPHORES];
    for (int k = 0; k < programs_of(t); k++) {
        if (!t->program[k])
            continue;
        count_signals(t->program[k], signals);
        for (int s = 0; s < NEURON_SEMAPHORES; s++) {
            u->used[s] |= signals[s] > 0;
            u->each = signals[s] > u->each ? signals[s] : u->each;
        }
    }
}

/* Who makes up for what a semaphore counts less: transfers' ones are dealt out to those that trigger few. */
static int owner_of(int semaphore)
{
    static const int others[] = {NEURON_TENSOR, NEURON_SCALAR, NEURON_GPSIMD, NEURON_VECTOR};
    return semaphore < NEURON_NENGINES ? semaphore : others[semaphore % 4];
}

static void make_up(struct turns *u, const struct neuron_program *p)
{
    int64_t signals[NEURON_SEMAPHORES];
    struct neuron_instr nop = {.op = NEURON_OP_NOP};
    count_signals(p, signals);
    for (int s = 0; s < NEURON_SEMAPHORES; s++) {
        if (!u->used[s] || signals[s] == u->each || owner_of(s) != u->engine)
            continue;
        nop.signal[nop.nsignals++] = (struct neuron_signal){(uint8_t)s, (uint32_t)(u->each - signals[s])};
        if (nop.nsignals == NEURON_SIGNALS) {
            put(u, &nop);
            nop.nsignals = 0;
        }
    }
    if (nop.nsignals)
        put(u, &nop);
}

/* -- Addresses -- */

static bool is_none(const struct neuron_operand *o)
{
    return !o->offset && !o->power[0];
}

static bool is_same(const struct neuron_operand *a, const struct neuron_operand *b, int n)
{
    for (int k = 0; k < n; k++, a++, b++)
        if (a->offset != b->offset || memcmp(a->power, b->power, sizeof a->power) != 0 ||
            memcmp(a->by, b->by, sizeof a->by) != 0)
            return false;
    return true;
}

/* The register for what goes on so. */
static uint8_t base_for(struct turns *u, const struct nk_steps *step)
{
    const struct nk_turns *t = u->t;
    bool any = false;
    int b = 0;
    for (int a = 0; a < t->naxes + t->nread; a++)
        any |= !is_none(&step->by[a]);
    while (any && b < u->nbases && !is_same(u->base[b].by, step->by, t->naxes + t->nread))
        b++;
    if (any && b == u->nbases)
        u->base[u->nbases++] = *step;
    return any ? (uint8_t)(WAITS - 1 - b) : NEURON_NO_REGISTER;
}

/* A register for each way in which tensors go on, and numbers that say where a turn is. */
static void find_bases(struct turns *u)
{
    const struct nk_turns *t = u->t;
    u->nbases = 0;
    u->base = IR_NEWN(u->nk->ctx, t->ntensors + NK_OPEN, struct nk_steps);
    u->base_of = IR_NEWN(u->nk->ctx, t->ntensors + 1, uint8_t);
    for (int k = 0; k < t->ntensors; k++)
        u->base_of[k] = base_for(u, &t->step[k]);
    for (int w = 0; w < t->nwhere && u->engine == NEURON_SYNC; w++)
        u->where[w] = base_for(u, &t->where_step[w]);
    if (u->nbases > WAITS - LEAST_LEFT)
        nk_refuse(u->nk, "tensors go on in more than %d ways", WAITS - LEAST_LEFT);
}

/* All addresses go on by so many units of an axis. */
static void go_on(struct turns *u, int axis, int64_t units, uint16_t power)
{
    for (int b = 0; b < u->nbases; b++) {
        struct neuron_operand by = u->base[b].by[axis];
        if (is_none(&by))
            continue;
        if (!nk_times(&by, units, power))
            nk_refuse(u->nk, "an address that too many sizes are factors of");
        count(u, NEURON_OP_REG_ADD, WAITS - 1 - b, by);
    }
}

static struct neuron_operand word_of(int tensor, int word)
{
    return (struct neuron_operand){.space = NEURON_HBM,
                                   .type = NEURON_I32,
                                   .reg = NEURON_NO_REGISTER,
                                   .tensor = (uint16_t)tensor,
                                   .ndims = 1,
                                   .offset = 4 * word,
                                   .size = {1},
                                   .stride = {1}};
}

static void load_word(struct turns *u, int reg, const struct nk_read *from, int word)
{
    struct neuron_operand o = word_of(from->tensor, word);
    put(u, &(struct neuron_instr){.op = NEURON_OP_REG_LOAD, .noperands = 2, .operand = {nk_in_register(reg), o}});
}

static void store_word(struct turns *u, int tensor, int word, int reg)
{
    struct neuron_operand o = word_of(tensor, word);
    put(u, &(struct neuron_instr){.op = NEURON_OP_REG_STORE, .noperands = 2, .operand = {o, nk_in_register(reg)}});
}

/* Addresses begin where an index says. What 32 bits do not hold is out of every tensor's bounds: a high word that isn't
 * the low one's sign adds as many times the bound. */
static void begin_at(struct turns *u, int read)
{
    const struct nk_read *from = &u->t->read[read];
    const int sign = 0, high = 1, place = 2; /* registers of turns, which have not begun */
    load_word(u, place, from, 0);
    set(u, high, nk_integer(0));
    if (from->words > 1) {
        load_word(u, high, from, 1);
        set(u, sign, nk_in_register(place));
        count(u, NEURON_OP_REG_SHR, sign, nk_integer(31));
        count(u, NEURON_OP_REG_ADD, high, nk_in_register(sign));
    }
    count(u, NEURON_OP_REG_MUL, place, nk_integer(from->times));
    count(u, NEURON_OP_REG_ADD, place, nk_integer(from->plus));
    set(u, sign, nk_in_register(place));
    count(u, NEURON_OP_REG_SHR, sign, nk_integer(31));
    count(u, NEURON_OP_REG_ADD, high, nk_in_register(sign));
    count(u, NEURON_OP_REG_MUL, high, from->bound);
    count(u, NEURON_OP_REG_ADD, place, nk_in_register(high));
    for (int b = 0; b < u->nbases; b++) {
        if (is_none(&u->base[b].by[u->t->naxes + read]))
            continue;
        set(u, COUNT, u->base[b].by[u->t->naxes + read]);
        count(u, NEURON_OP_REG_MUL, COUNT, nk_in_register(place));
        count(u, NEURON_OP_REG_ADD, WAITS - 1 - b, nk_in_register(COUNT));
    }
}

/* All addresses go on, or back, by as many units of an axis as register PLACE says. */
static void go_by_place(struct turns *u, int axis, int times)
{
    for (int b = 0; b < u->nbases; b++) {
        struct neuron_operand by = u->base[b].by[axis];
        if (is_none(&by))
            continue;
        if (!nk_times(&by, times, 0))
            nk_refuse(u->nk, "an address that too many sizes are factors of");
        set(u, COUNT, by);
        count(u, NEURON_OP_REG_MUL, COUNT, nk_in_register(PLACE));
        count(u, NEURON_OP_REG_ADD, WAITS - 1 - b, nk_in_register(COUNT));
    }
}

/* -- Loops -- */

static struct neuron_operand units_of(const struct nk_axis_turns *x)
{
    struct neuron_operand units = nk_integer(x->units);
    if (!x->units) {
        units.by[0] = 1;
        units.power[0] = x->power;
    }
    return units;
}

static void divide(struct turns *u, int reg, int64_t by)
{
    if (by > 1)
        count(u, NEURON_OP_REG_SHR, reg, nk_integer(__builtin_ctzll((uint64_t)by)));
}

/* Of as many units as are counted, how many turns of a level there are. */
static void count_turns(struct turns *u, const struct nk_axis_turns *x, int level)
{
    if (level)
        count(u, NEURON_OP_REG_AND, COUNT, nk_integer(x->points[level - 1] - 1));
    divide(u, COUNT, x->points[level]);
}

static void put_turn(struct turns *u, int number)
{
    struct nk_places places = {u->t->place, u->base_of, WAITS, WAITS - u->nbases};
    for (int w = 0; w < u->t->nwhere && u->engine == NEURON_SYNC; w++)
        store_word(u, u->t->where, w, u->where[w]);
    if (!nk_put_rolled(u->nk, u->engine, u->rolled[number], u->t->naxes, &places))
        nk_refuse(u->nk, "more than %d steps in turns of a loop", places.most);
    make_up(u, u->t->program[number]);
    count(u, NEURON_OP_REG_ADD, WAITS, nk_integer(u->each));
}

static void begin_loop(struct turns *u)
{
    put(u, &(struct neuron_instr){.op = NEURON_OP_LOOP, .noperands = 1, .operand = {nk_in_register(COUNT)}});
}

static void end_loop(struct turns *u)
{
    put(u, &(struct neuron_instr){.op = NEURON_OP_END_LOOP});
}

/* -- Rows of attention -- */

/* Loops, of the first levels, over the keys before those rows, or behind them; addresses go on. */
static void put_keys(struct turns *u, int level, int levels, bool behind)
{
    int axis = u->t->naxes - 1;
    const struct nk_axis_turns *x = &u->t->axis[axis];
    for (int l = 0; l < levels; l++) {
        int number = level * x->n + l;
        if (!u->t->program[number])
            continue;
        set(u, COUNT, nk_in_register(PLACE));
        if (behind) {
            count(u, NEURON_OP_REG_ADD, COUNT, nk_integer(x->points[level]));
            count(u, NEURON_OP_REG_MUL, COUNT, nk_integer(-1));
            count(u, NEURON_OP_REG_ADD, COUNT, units_of(x));
        }
        count_turns(u, x, l);
        begin_loop(u);
        put_turn(u, number);
        go_on(u, axis, x->points[l], 0);
        end_loop(u);
    }
}

/* So many rows from PLACE on: with keys before them, behind them, and their own, which make results. even: turns of the
 * first levels, up to the rows' own, are before them. */
static void put_some_rows(struct turns *u, int level, bool even)
{
    int axis = u->t->naxes - 1;
    const struct nk_axis_turns *x = &u->t->axis[axis];
    put_keys(u, level, even ? level + 1 : x->n, false);
    if (!u->t->causal) {
        go_on(u, axis, x->points[level], 0);
        put_keys(u, level, x->n, true);
        go_on(u, axis, x->units ? -x->units : -1, x->units ? 0 : x->power);
        go_by_place(u, axis, 1);
    }
    put_turn(u, x->n * x->n + level);
    go_by_place(u, axis, -1);
    go_on(u, axis - 1, x->points[level], 0);
    count(u, NEURON_OP_REG_ADD, PLACE, nk_integer(x->points[level]));
}

/* Times 1 if there are at least so many rows, else 0; or the other way round. */
static void if_at_least(struct turns *u, int64_t rows, bool otherwise)
{
    enum { SCRATCH = 0, BITS = 24 }; /* a register of turns, while none is at work */
    set(u, SCRATCH, units_of(&u->t->axis[u->t->naxes - 2]));
    divide(u, SCRATCH, rows);
    count(u, NEURON_OP_REG_ADD, SCRATCH, nk_integer((1 << BITS) - 1));
    divide(u, SCRATCH, 1 << BITS);
    if (otherwise) {
        count(u, NEURON_OP_REG_MUL, SCRATCH, nk_integer(-1));
        count(u, NEURON_OP_REG_ADD, SCRATCH, nk_integer(1));
    }
    count(u, NEURON_OP_REG_MUL, COUNT, nk_in_register(SCRATCH));
}

/*
 * Turns of the most rows; what is left, if there are enough rows for a turn of the second level at all, by that one:
 * the last turn of it begins so many rows before the end, and makes some a second time. Of fewer rows all are of the
 * first level that there are enough for, in the same way.
 */
static void put_rows(struct turns *u)
{
    int axis = u->t->naxes - 2;
    const struct nk_axis_turns *x = &u->t->axis[axis];
    set(u, PLACE, nk_integer(0));
    put_turn(u, x->n * x->n + x->n);
    for (int l = 0; l < x->n; l++) {
        set(u, COUNT, units_of(x));
        count_turns(u, x, l);
        if (l > 1)
            if_at_least(u, x->points[l - 1], true);
        begin_loop(u);
        put_some_rows(u, l, true);
        end_loop(u);
        if (!l || x->points[l] == 1)
            continue;
        set(u, COUNT, units_of(x)); /* some are left: 1, else 0 */
        count(u, NEURON_OP_REG_AND, COUNT, nk_integer(x->points[l] - 1));
        count(u, NEURON_OP_REG_ADD, COUNT, nk_integer(x->points[l] - 1));
        divide(u, COUNT, x->points[l]);
        if_at_least(u, x->points[l], false);
        if (l > 1)
            if_at_least(u, x->points[l - 1], true);
        begin_loop(u);
        go_by_place(u, axis, -1);
        set(u, PLACE, units_of(x));
        count(u, NEURON_OP_REG_ADD, PLACE, nk_integer(-x->points[l]));
        go_by_place(u, axis, 1);
        put_some_rows(u, l, false);
        end_loop(u);
    }
}

static void put_axis(struct turns *u, int axis, int number)
{
    const struct nk_axis_turns *x = &u->t->axis[axis];
    if (axis == NK_OPEN || axis == u->t->naxes) {
        put_turn(u, number);
        return;
    }
    if (u->t->rows && axis == u->t->naxes - 2) {
        put_rows(u);
    } else {
        for (int l = 0; l < x->n; l++) {
            set(u, COUNT, units_of(x));
            count_turns(u, x, l);
            begin_loop(u);
            put_axis(u, axis + 1, number * x->n + l);
            go_on(u, axis, x->points[l], 0);
            end_loop(u);
        }
    }
    if (axis) /* the next turn of the loop around it begins anew */
        go_on(u, axis, x->units ? -x->units : -1, x->units ? 0 : x->power);
}

void nk_put_turns(struct nk *nk, const struct nk_turns *t, int n)
{
    struct turns turns = {.nk = nk}, *u = &turns;
    for (int k = 0; k < n; k++)
        find_signals(u, &t[k]);
    for (u->engine = 0; u->engine < NEURON_NENGINES; u->engine++) {
        set(u, WAITS, nk_integer(0));
        for (int k = 0; k < n; k++) {
            u->t = &t[k];
            find_bases(u);
            for (int b = 0; b < u->nbases; b++)
                set(u, WAITS - 1 - b, nk_integer(0));
            for (int r = 0; r < t[k].nread; r++)
                begin_at(u, r);
            for (int p = 0; p < programs_of(u->t); p++)
                u->rolled[p] = !u->t->program[p] ? NULL : nk_rolled(nk, u->t->program[p], u->engine);
            put_axis(u, 0, 0);
        }
    }
}
