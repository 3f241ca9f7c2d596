/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that an instruction keeps (doc/neuron-isa.md, "Rules"), checked before anything runs: where operands may
 * lie, partitions, patterns, bounds, shapes and types. What depends on registers is left to the simulator.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/neuron/isa_int.h"

bool isa_bad(struct checker *c, const char *format, ...)
{
    char text[NEURON_ERROR - 96], where[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->i->line)
        snprintf(where, sizeof where, "line %d", c->i->line);
    else
        snprintf(where, sizeof where, "%s %d", neuron_engine_name((enum neuron_engine)c->engine), c->at);
    snprintf(c->error, NEURON_ERROR, "%s: %s: %s", where, neuron_op_row((enum neuron_op)c->i->op)->name, text);
    return false;
}

bool isa_is_float(int type)
{
    return isa_type(type)->class == 'f';
}

int64_t isa_free_size(const struct checker *c, int k)
{
    return neuron_free_size(&c->i->operand[k]);
}

/* -- Operands -- */

/* The start partition is 0, or 64 with at most 64 partitions, or 32 or 96 with at most 32. */
static bool check_partitions(struct checker *c, int k)
{
    const struct neuron_operand *o = &c->i->operand[k];
    int unit = o->count > 64 ? 128 : o->count > 32 ? 64 : 32;
    if (!o->count || o->start + o->count > NEURON_PARTITIONS)
        return isa_bad(c, "operand %d: partitions %d to %d: there are %d", k + 1, o->start, o->start + o->count - 1,
                       NEURON_PARTITIONS);
    if (o->start % unit)
        return isa_bad(
            c,
            "operand %d: %d partitions start at %d: more than 64 start at 0, 33 to 64 at 0 or 64, fewer at 0, "
            "32, 64 or 96",
            k + 1, o->count, o->start);
    return true;
}

bool isa_extent(const struct neuron_operand *o, int64_t *lo, int64_t *hi)
{
    int64_t bytes = isa_type(o->type)->bytes;
    *lo = o->offset;
    *hi = o->offset + bytes - 1;
    for (int d = 0; d < o->ndims; d++) {
        int64_t span;
        if (__builtin_mul_overflow((int64_t)o->size[d] - 1, o->stride[d] * bytes, &span) ||
            __builtin_add_overflow(span < 0 ? *lo : *hi, span, span < 0 ? lo : hi))
            return false;
    }
    return true;
}

static bool check_pattern(struct checker *c, int k)
{
    const struct neuron_operand *o = &c->i->operand[k];
    bool chip = o->space != NEURON_HBM;
    int64_t room = o->space == NEURON_SBUF                          ? neuron_sbuf_bytes(c->p->core)
                   : o->space == NEURON_PSUM                        ? NEURON_PSUM_BYTES
                   : c->p->tensors[o->tensor].nsizes || o->power[0] ? INT64_MAX /* the run knows */
                                                                    : neuron_tensor_bytes(&c->p->tensors[o->tensor]);
    int64_t lo, hi, most = !chip ? INT64_MAX / 64 : o->space == NEURON_SBUF ? 65536 : 4096;
    const char *name = !chip ? c->p->tensors[o->tensor].name : o->space == NEURON_SBUF ? "SBUF" : "PSUM";
    if (!o->ndims || (chip && o->ndims > 4))
        return isa_bad(c, "operand %d: %d dims: 1 to %d are possible", k + 1, o->ndims, chip ? 4 : NEURON_DIMS);
    for (int d = 0; d < o->ndims; d++) {
        if (!o->size[d] || (chip && o->size[d] > UINT16_MAX))
            return isa_bad(c, "operand %d: size %" PRIu32 " of dim %d: 1 to %d are possible", k + 1, o->size[d], d,
                           chip ? UINT16_MAX : INT32_MAX);
        if (chip && (o->stride[d] < INT16_MIN || o->stride[d] > INT16_MAX) && o->size[d] > 1)
            return isa_bad(c, "operand %d: stride %" PRId64 " of dim %d: %d to %d are possible", k + 1, o->stride[d], d,
                           INT16_MIN, INT16_MAX);
    }
    if (neuron_free_size(o) > most)
        return isa_bad(c, "operand %d: %" PRId64 " elements: at most %" PRId64 " in %s", k + 1, neuron_free_size(o),
                       most, name);
    if (o->offset < 0 || o->offset % isa_type(o->type)->bytes)
        return isa_bad(c, "operand %d: byte %" PRId64 " is no multiple of the %d of a %s", k + 1, o->offset,
                       isa_type(o->type)->bytes, isa_type(o->type)->name);
    if (!isa_extent(o, &lo, &hi) || (o->reg == NEURON_NO_REGISTER && (lo < 0 || hi >= room)) || hi - lo >= room)
        return isa_bad(c, "operand %d: bytes %" PRId64 " to %" PRId64 " of %" PRId64 " in %s", k + 1, lo, hi, room,
                       name);
    return true;
}

static bool check_operand(struct checker *c, int k, char kind)
{
    static const struct {
        char kind;
        const char *spaces, *text; /* letters of spaces: s SBUF, p PSUM, h HBM, n number, r register, l label */
    } rules[] = {
        {'O', "sp", "SBUF or PSUM"},
        {'I', "sp", "SBUF or PSUM"},
        {'B', "s", "SBUF"},
        {'J', "s", "SBUF"},
        {'Q', "p", "PSUM"},
        {'C', "spn", "SBUF, PSUM or a number"},
        {'c', "spn", "SBUF, PSUM or a number"},
        {'D', "sh", "HBM or SBUF"},
        {'E', "sh", "HBM or SBUF"},
        {'R', "r", "a register"},
        {'X', "r", "a register or an integer"},
        {'H', "h", "HBM"},
        {'W', "h", "HBM"},
        {'L', "l", "a label"},
        {'N', "n", "a number"},
    };
    const struct neuron_operand *o = &c->i->operand[k];
    char space = "?sphnrl"[o->space];
    size_t r = 0;
    while (rules[r].kind != kind)
        r++;
    if (!strchr(rules[r].spaces, space))
        return isa_bad(c, "operand %d lies in the wrong place: expected %s", k + 1, rules[r].text);
    if (space == 'l')
        return o->offset >= 0 && o->offset <= c->p->stream[c->engine].n ? true : isa_bad(c, "jumps out of its stream");
    if (space == 'r')
        return kind == 'X' || o->reg != NEURON_NO_REGISTER ? true
                                                           : isa_bad(c, "operand %d: expected a register", k + 1);
    if (space == 'n')
        return true;
    if (space == 'p' && c->engine == NEURON_GPSIMD)
        return isa_bad(c, "operand %d: GpSimd does not reach PSUM", k + 1);
    if (space != 'h' && !check_partitions(c, k))
        return false;
    if (!check_pattern(c, k))
        return false;
    if ((kind == 'C' || kind == 'c') && (o->type != NEURON_F32 || neuron_free_size(o) != 1))
        return isa_bad(c, "operand %d: expected one f32 a partition", k + 1);
    if ((kind == 'H' || kind == 'W') &&
        (isa_type(o->type)->bytes != 4 || isa_is_float(o->type) || neuron_free_size(o) != 1))
        return isa_bad(c, "operand %d: expected one word of i32 or u32", k + 1);
    return true;
}

/* -- Instructions -- */

/* Sizes are factors of offsets, whose bytes are checked when the run knows them, and of integers; of strides in tensors
 * that have some. */
static bool check_sizes(struct checker *c, int k)
{
    const struct neuron_operand *o = &c->i->operand[k];
    int powers = 0, times = 0;
    for (int t = 0; t < NEURON_TERMS; t++)
        powers |= o->power[t];
    for (int d = 0; d < NEURON_DIMS; d++) {
        powers |= o->times[d];
        times |= o->times[d];
        if (o->space == NEURON_HBM && (o->stride[d] < INT32_MIN || o->stride[d] > INT32_MAX))
            return isa_bad(c, "operand %d: stride %" PRId64 " of dim %d", k + 1, o->stride[d], d);
    }
    if (!powers)
        return true;
    if (powers >> 2 * c->p->nsizes)
        return isa_bad(c, "operand %d: no such size", k + 1);
    if (o->space != NEURON_REGISTER && (o->space != NEURON_HBM || (times && !c->p->tensors[o->tensor].nsizes)))
        return isa_bad(c, "operand %d: sizes in what is no tensor of sizes", k + 1);
    return true;
}

static bool is_register(uint8_t r)
{
    return r < NEURON_REGISTERS || r == NEURON_NO_REGISTER;
}

/* What readers cannot give, but a program made in memory may have: numbers that stand in no table. */
static bool check_fields(struct checker *c)
{
    static const int most[] = {0, NEURON_NALU - 1, NEURON_NFUNCS - 1, 3, INT32_MAX, INT32_MAX, 1, 1};
    const struct neuron_instr *i = c->i;
    const struct neuron_op_row *r = neuron_op_row((enum neuron_op)i->op);
    if (i->noperands > NEURON_OPERANDS || i->nwaits > NEURON_WAITS || i->nsignals > NEURON_SIGNALS)
        return isa_bad(c, "too many operands, waits or signals");
    for (int k = 0; k < i->noperands; k++) {
        const struct neuron_operand *o = &i->operand[k];
        if (o->space == NEURON_NOWHERE || o->space > NEURON_LABEL || o->type >= NEURON_NTYPES || !is_register(o->reg) ||
            o->ndims > NEURON_DIMS || (o->space == NEURON_HBM && o->tensor >= c->p->ntensors))
            return isa_bad(c, "operand %d: no such space, type, register or tensor", k + 1);
    }
    for (int k = 0; k < i->noperands; k++)
        if (!check_sizes(c, k))
            return false;
    for (int k = 0; k < i->nwaits; k++)
        if (!is_register(i->wait[k].reg))
            return isa_bad(c, "no such register");
    if (i->nsignals == 2 && i->signal[0].semaphore == i->signal[1].semaphore)
        return isa_bad(c, "signals s%d twice", i->signal[0].semaphore);
    for (int k = 0; k < i->nsignals; k++)
        if (!i->signal[k].value || i->signal[k].value > INT32_MAX)
            return isa_bad(c, "signal +%" PRIu32 ": 1 to %d are possible", i->signal[k].value, INT32_MAX);
    for (int k = 0; k < r->nattrs; k++) {
        enum attr_kind kind = isa_attr(r->attrs[k])->kind;
        if (kind != ATTR_int && kind != ATTR_float && kind != ATTR_none &&
            (i->attr[k].i < 0 || i->attr[k].i > most[kind]))
            return isa_bad(c, "%s: no such value", isa_attr(r->attrs[k])->name);
    }
    return true;
}

bool isa_check_instr(struct checker *c)
{
    const struct neuron_op_row *r = neuron_op_row((enum neuron_op)c->i->op);
    int most = (int)strlen(r->operands);
    if (!check_fields(c))
        return false;
    if (!strchr(r->engines, isa_engine_letter((enum neuron_engine)c->engine)))
        return isa_bad(c, "the %s engine has no such instruction", neuron_engine_name((enum neuron_engine)c->engine));
    if (r->generation > c->generation)
        return isa_bad(c, "%s has no such instruction", neuron_core_name(c->p->core));
    if (c->i->noperands > most || c->i->noperands < isa_least_operands(r))
        return isa_bad(c, "%d operands: expected %d", c->i->noperands, most);
    bool mx = c->i->op == NEURON_OP_QUANTIZE_MX || c->i->op == NEURON_OP_LOAD_STATIONARY_MX ||
              c->i->op == NEURON_OP_MATMUL_MX;
    for (int k = 0; k < c->i->noperands; k++) {
        const struct neuron_operand *o = &c->i->operand[k];
        if (!check_operand(c, k, r->operands[k]))
            return false;
        if (!mx && o->space != NEURON_NUMBER && o->space != NEURON_REGISTER && o->space != NEURON_LABEL &&
            isa_is_packed(o->type))
            return isa_bad(c, "operand %d: %s is for MX instructions; others take its bytes as u32 or u16", k + 1,
                           isa_type(o->type)->name);
    }
    return isa_check_shape(c);
}
