/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that a program keeps beyond those of its instructions: loops and jumps, tensors, what was loaded before. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/isa_int.h"

/* Loops lie in one another and are closed; a jump stays in its loop. `inside`: of each instruction, the innermost loop
 * that it stands in, -1: none; one more for the stream's end. */
static bool check_loops(struct checker *c, int *inside)
{
    const struct neuron_stream *s = &c->p->stream[c->engine];
    int open[NEURON_LOOPS], n = 0;
    for (c->at = 0; c->at < s->n; c->at++) {
        c->i = &s->code[c->at];
        inside[c->at] = n ? open[n - 1] : -1;
        if (c->i->op == NEURON_OP_END_LOOP && !n)
            return isa_bad(c, "there is no loop to close");
        if (c->i->op == NEURON_OP_LOOP && n == NEURON_LOOPS)
            return isa_bad(c, "more than %d loops in one another", NEURON_LOOPS);
        if (c->i->op == NEURON_OP_LOOP)
            open[n++] = c->at;
        n -= c->i->op == NEURON_OP_END_LOOP;
    }
    inside[s->n] = -1;
    if (n) {
        c->i = &s->code[c->at = open[n - 1]];
        return isa_bad(c, "the loop is not closed");
    }
    for (c->at = 0; c->at < s->n; c->at++) {
        c->i = &s->code[c->at];
        const struct neuron_operand *o = c->i->operand;
        bool jump = c->i->op == NEURON_OP_JUMP && c->i->noperands && o->offset >= 0 && o->offset <= s->n;
        if (jump && inside[o->offset] != inside[c->at])
            return isa_bad(c, "jumps into a loop or out of one");
    }
    return true;
}

static bool check_instrs(struct checker *c, const bool *target)
{
    const struct neuron_stream *s = &c->p->stream[c->engine];
    c->stationary = NULL;
    c->unknown = false;
    for (c->at = 0; c->at < s->n; c->at++) {
        c->i = &s->code[c->at];
        c->unknown |= target[c->at];
        if (!isa_check_instr(c))
            return false;
        /* from the turn before, or from before a loop of no turns */
        c->unknown |= c->i->op == NEURON_OP_LOOP || c->i->op == NEURON_OP_END_LOOP;
    }
    return true;
}

static bool check_stream(struct checker *c)
{
    const struct neuron_stream *s = &c->p->stream[c->engine];
    bool *target = calloc((size_t)s->n + 1, 1), fine = true;
    int *inside = calloc((size_t)s->n + 1, sizeof *inside);
    if (!target || !inside) {
        snprintf(c->error, NEURON_ERROR, "no memory");
        fine = false;
    }
    for (int k = 0; fine && k < s->n; k++) {
        const struct neuron_instr *i = &s->code[k];
        if (i->op >= NEURON_NOPS) {
            snprintf(c->error, NEURON_ERROR, "%s %d: no such instruction",
                     neuron_engine_name((enum neuron_engine)c->engine), k);
            fine = false;
        } else if (i->op == NEURON_OP_JUMP && i->noperands && i->operand[0].offset >= 0 && i->operand[0].offset < s->n)
            target[i->operand[0].offset] = true;
    }
    fine = fine && check_loops(c, inside) && check_instrs(c, target);
    free(target);
    free(inside);
    return fine;
}

static bool check_tensor(const struct neuron_program *p, int k, char *error)
{
    const struct neuron_tensor *t = &p->tensors[k];
    bool name = t->name[0] && !isdigit((unsigned char)t->name[0]) && strcmp(t->name, "sbuf") && strcmp(t->name, "psum");
    if (!name || neuron_find_tensor(p, t->name, strlen(t->name)) != k) {
        snprintf(error, NEURON_ERROR, "tensor '%s': a name that is taken or not possible", t->name);
        return false;
    }
    for (int f = 0; f < t->nsizes; f++)
        if (t->nsizes > NEURON_SIZES || t->sizes[f] >= p->nsizes) {
            snprintf(error, NEURON_ERROR, "tensor '%s': no such size", t->name);
            return false;
        }
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d] < 1) {
            snprintf(error, NEURON_ERROR, "tensor '%s': dim %d is %" PRId64, t->name, d, t->dims[d]);
            return false;
        }
    if (!t->rank || neuron_tensor_bytes(t) > INT64_C(1) << 48) {
        snprintf(error, NEURON_ERROR, "tensor '%s': %s", t->name, t->rank ? "too large" : "no dims");
        return false;
    }
    return true;
}

bool neuron_check(const struct neuron_program *p, char *error)
{
    struct checker c = {.p = p, .error = error, .generation = neuron_generation(p->core)};
    for (int k = 0; k < NEURON_QUEUES; k++)
        c.owner[k] = -1;
    for (int k = 0; k < p->ntensors; k++)
        if (!check_tensor(p, k, error))
            return false;
    for (c.engine = 0; c.engine < NEURON_NENGINES; c.engine++)
        if (!check_stream(&c))
            return false;
    return true;
}
