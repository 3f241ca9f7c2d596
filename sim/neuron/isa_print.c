/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the text form: what neuron_assemble() reads back to the same program. Labels are named after the instruction
 * they stand at. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/neuron/isa_int.h"

struct out {
    char *text;
    size_t n, room;
    bool fixed, failed; /* fixed: `text` is the caller's, what does not fit is cut */
};

static void put(struct out *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!o->fixed && o->room - o->n < 256) {
        size_t room = o->room ? 2 * o->room : 4096;
        char *more = realloc(o->text, room);
        if (more) {
            o->text = more;
            o->room = room;
        } else {
            o->failed = true;
        }
    }
    if (o->n < o->room && !o->failed) {
        int n = vsnprintf(o->text + o->n, o->room - o->n, format, args);
        o->n = n < 0 ? o->n : o->n + (size_t)n < o->room ? o->n + (size_t)n : o->room - 1;
    }
    va_end(args);
}

/* So that strtof gives the same bits. */
static void real(struct out *o, float f)
{
    union neuron_value v = {.f = f};
    uint32_t bits = (uint32_t)v.i;
    if (isnan(f) && bits != 0x7fc00000)
        put(o, "bits%08" PRIx32, bits);
    else if (isnan(f))
        put(o, "nan");
    else if (isinf(f))
        put(o, f < 0 ? "-inf" : "inf");
    else
        put(o, "%.9g", (double)f);
}

static void power(struct out *o, const struct neuron_program *p, uint16_t all)
{
    for (int s = 0; s < p->nsizes; s++)
        for (int k = all >> 2 * s & NEURON_POWER; k; k--)
            put(o, "*%s", p->size[s].name);
}

static void terms(struct out *o, const struct neuron_program *p, const struct neuron_operand *a)
{
    for (int k = 0; k < NEURON_TERMS; k++)
        if (a->power[k]) {
            put(o, "+%" PRId64, a->by[k]);
            power(o, p, a->power[k]);
        }
}

static void operand(struct out *o, const struct neuron_program *p, const struct neuron_operand *a)
{
    int64_t inner = 1;
    bool implied[NEURON_DIMS];
    if (a->space == NEURON_NUMBER) {
        real(o, a->number);
        return;
    }
    if (a->space == NEURON_LABEL) {
        put(o, "L%" PRId64, a->offset);
        return;
    }
    if (a->space == NEURON_REGISTER) {
        if (a->reg == NEURON_NO_REGISTER)
            put(o, "%" PRId64, a->offset);
        else
            put(o, "r%d", a->reg);
        terms(o, p, a);
        return;
    }
    put(o, "%s.%s[",
        a->space == NEURON_SBUF        ? "sbuf"
        : a->space == NEURON_PSUM      ? "psum"
        : (int)a->tensor < p->ntensors ? p->tensors[a->tensor].name
                                       : "?",
        neuron_type_name((enum neuron_type)a->type));
    if (a->space != NEURON_HBM)
        put(o, "%d:%d, ", a->start, a->start + a->count);
    put(o, "%" PRId64, a->offset);
    terms(o, p, a);
    if (a->reg != NEURON_NO_REGISTER)
        put(o, "+r%d", a->reg);
    for (int k = a->ndims - 1; k >= 0; k--) {
        implied[k] = a->stride[k] == inner && !a->times[k];
        if (__builtin_mul_overflow((int64_t)a->size[k], llabs(a->stride[k]), &inner))
            inner = INT64_MAX;
    }
    for (int k = 0; k < a->ndims; k++) {
        put(o, ", %" PRIu32, a->size[k]);
        if (!implied[k])
            put(o, "@%" PRId64, a->stride[k]);
        power(o, p, a->times[k]);
    }
    put(o, "]");
}

static void attribute(struct out *o, const struct neuron_instr *i, int k)
{
    const struct neuron_op_row *row = neuron_op_row((enum neuron_op)i->op);
    const struct attr_row *a = isa_attr(row->attrs[k]);
    union neuron_value v = i->attr[k];
    if (v.i == 0)
        return;
    put(o, " %s", a->name);
    switch (a->kind) {
    case ATTR_alu: put(o, "=%s", neuron_alu_name((enum neuron_alu)v.i)); break;
    case ATTR_func: put(o, "=%s", neuron_func_name((enum neuron_func)v.i)); break;
    case ATTR_acc: put(o, "=%s", isa_name(ISA_ACCS, v.i)); break;
    case ATTR_int: put(o, "=%" PRId32, v.i); break;
    case ATTR_float:
        put(o, "=");
        real(o, v.f);
        break;
    case ATTR_mask:
        for (int m = 0; m < 32; m++)
            put(o, "%c%d", m ? ':' : '=', i->mask[m]);
        break;
    case ATTR_flag:
    case ATTR_none: break;
    }
}

static void instruction(struct out *o, const struct neuron_program *p, const struct neuron_instr *i)
{
    const struct neuron_op_row *row = neuron_op_row((enum neuron_op)i->op);
    put(o, "%s", row->name);
    for (int k = 0; k < i->noperands; k++) {
        put(o, k ? ", " : " ");
        operand(o, p, &i->operand[k]);
    }
    for (int k = 0; k < row->nattrs; k++)
        attribute(o, i, k);
}

void neuron_instr_text(const struct neuron_program *p, const struct neuron_instr *i, char *to, size_t room)
{
    struct out o = {.text = to, .room = room, .fixed = true};
    if (room)
        *to = 0;
    instruction(&o, p, i);
}

static void conditions(struct out *o, const struct neuron_instr *i)
{
    for (int k = 0; k < i->nwaits; k++) {
        const struct neuron_wait *w = &i->wait[k];
        put(o, " wait s%d>=%" PRIu32, w->semaphore, w->value);
        if (w->reg != NEURON_NO_REGISTER)
            put(o, "+r%d", w->reg);
    }
    for (int k = 0; k < i->nsignals; k++) {
        put(o, " signal s%d", i->signal[k].semaphore);
        if (i->signal[k].value != 1)
            put(o, "+%" PRIu32, i->signal[k].value);
    }
}

static void stream(struct out *o, const struct neuron_program *p, int e)
{
    const struct neuron_stream *s = &p->stream[e];
    bool *labelled = calloc((size_t)s->n + 1, 1);
    o->failed |= !labelled;
    for (int k = 0; labelled && k < s->n; k++)
        if (s->code[k].op == NEURON_OP_JUMP)
            labelled[s->code[k].operand[0].offset] = true;
    if (s->n)
        put(o, "\nengine %s\n", neuron_engine_name((enum neuron_engine)e));
    for (int k = 0, depth = 1; labelled && s->n && k <= s->n; k++) {
        if (labelled[k])
            put(o, "L%d:\n", k);
        if (k == s->n)
            break;
        depth -= s->code[k].op == NEURON_OP_END_LOOP && depth > 1;
        put(o, "%*s", 4 * depth, "");
        instruction(o, p, &s->code[k]);
        conditions(o, &s->code[k]);
        put(o, s->code[k].op == NEURON_OP_LOOP ? " {\n" : "\n");
        depth += s->code[k].op == NEURON_OP_LOOP;
    }
    free(labelled);
}

static void size(struct out *o, const struct neuron_program *p, const struct neuron_size *s)
{
    put(o, "size %s r%d", s->name, s->reg);
    if (s->made) {
        put(o, " = ");
        for (int k = 0; k < p->nsizes; k++)
            if (s->by[k])
                put(o, "%" PRId64 "*%s + ", s->by[k], p->size[k].name);
        put(o, "%" PRId64 " / %" PRId64, s->plus, s->over);
    }
    put(o, "\n");
}

char *neuron_disassemble(const struct neuron_program *p)
{
    struct out o = {0};
    put(&o, "core %s\n", neuron_core_name(p->core));
    for (int k = 0; k < p->nsizes; k++)
        size(&o, p, &p->size[k]);
    for (int k = 0; k < p->ntensors; k++) {
        const struct neuron_tensor *t = &p->tensors[k];
        put(&o, "tensor %s %s %s [", t->name, isa_name(ISA_USES, t->use), neuron_type_name((enum neuron_type)t->type));
        for (int f = 0; f < t->nsizes; f++)
            put(&o, "%s*", p->size[t->sizes[f]].name);
        for (int d = 0; d < t->rank; d++)
            put(&o, "%s%" PRId64, d ? ", " : "", t->dims[d]);
        put(&o, "]\n");
    }
    for (int e = 0; e < NEURON_NENGINES; e++)
        stream(&o, p, e);
    if (o.failed) {
        free(o.text);
        return NULL;
    }
    return o.text;
}
