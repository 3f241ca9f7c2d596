/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary form: "NEURON" and a version, then numbers of 7 bits a byte (LEB128; signed ones folded so that small
 * magnitudes stay short) in the order of the structures. The reader takes bytes from anywhere: each number is bounded
 * by what may stand there, each count by the bytes that are left, and neuron_check() has the last word.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/grow.h"
#include "sim/neuron/isa_int.h"

static const uint8_t magic[8] = {'N', 'E', 'U', 'R', 'O', 'N', 0, 1};

/* -- Writing -- */

struct writer {
    uint8_t *at;
    size_t n, room;
    bool failed, sizes; /* sizes: the program has some */
};

static void byte(struct writer *w, uint8_t b)
{
    if (!GROWN(w->at, w->n, w->room, 4096)) {
        w->failed = true;
        return;
    }
    w->at[w->n++] = b;
}

static void number(struct writer *w, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        byte(w, (uint8_t)(v | 128));
    byte(w, (uint8_t)v);
}

static void signed_number(struct writer *w, int64_t v)
{
    number(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void bits(struct writer *w, union neuron_value v)
{
    for (int k = 0; k < 32; k += 8)
        byte(w, (uint8_t)((uint32_t)v.i >> k));
}

/* Of an offset in HBM or an integer. */
static void write_terms(struct writer *w, const struct neuron_operand *o)
{
    for (int k = 0; k < NEURON_TERMS; k++) {
        number(w, o->power[k]);
        if (o->power[k])
            signed_number(w, o->by[k]);
    }
}

static void write_operand(struct writer *w, const struct neuron_operand *o)
{
    byte(w, o->space);
    switch (o->space) {
    case NEURON_NUMBER: bits(w, (union neuron_value){.f = o->number}); return;
    case NEURON_LABEL: number(w, (uint64_t)o->offset); return;
    case NEURON_REGISTER:
        byte(w, o->reg);
        signed_number(w, o->offset);
        if (w->sizes)
            write_terms(w, o);
        return;
    case NEURON_HBM: number(w, o->tensor); break;
    default: byte(w, o->start); byte(w, o->count);
    }
    byte(w, o->type);
    byte(w, o->reg);
    number(w, (uint64_t)o->offset);
    bool sizes = w->sizes && o->space == NEURON_HBM;
    if (sizes)
        write_terms(w, o);
    byte(w, o->ndims);
    for (int k = 0; k < o->ndims; k++) {
        number(w, o->size[k]);
        signed_number(w, o->stride[k]);
        if (sizes)
            number(w, o->times[k]);
    }
}

static void write_instr(struct writer *w, const struct neuron_instr *i)
{
    const struct neuron_op_row *row = neuron_op_row((enum neuron_op)i->op);
    byte(w, i->op);
    byte(w, (uint8_t)(i->noperands | i->nwaits << 3 | i->nsignals << 6));
    for (int k = 0; k < i->noperands; k++)
        write_operand(w, &i->operand[k]);
    for (int k = 0; k < i->nwaits; k++) {
        byte(w, i->wait[k].semaphore);
        byte(w, i->wait[k].reg);
        number(w, i->wait[k].value);
    }
    for (int k = 0; k < i->nsignals; k++) {
        byte(w, i->signal[k].semaphore);
        number(w, i->signal[k].value);
    }
    for (int k = 0; k < row->nattrs; k++)
        switch (isa_attr(row->attrs[k])->kind) {
        case ATTR_none: break;
        case ATTR_float: bits(w, i->attr[k]); break;
        case ATTR_mask:
            signed_number(w, i->attr[k].i);
            for (int m = 0; m < 32; m++)
                byte(w, i->mask[m]);
            break;
        default: signed_number(w, i->attr[k].i);
        }
}

static void write_name(struct writer *w, const char *name)
{
    byte(w, (uint8_t)strlen(name));
    for (const char *c = name; *c; c++)
        byte(w, (uint8_t)*c);
}

/* over: 0, it is not made of others. */
static void write_size(struct writer *w, const struct neuron_size *s, int number_of_it)
{
    write_name(w, s->name);
    byte(w, s->reg);
    number(w, s->made ? (uint64_t)s->over : 0);
    for (int k = 0; s->made && k < number_of_it; k++)
        signed_number(w, s->by[k]);
    if (s->made)
        signed_number(w, s->plus);
}

uint8_t *neuron_encode(const struct neuron_program *p, size_t *size)
{
    struct writer w = {0};
    for (size_t k = 0; k < sizeof magic; k++)
        byte(&w, magic[k]);
    w.sizes = p->nsizes > 0;
    byte(&w, (uint8_t)(p->core | p->nsizes << 4));
    for (int k = 0; k < p->nsizes; k++) {
        write_size(&w, &p->size[k], k);
    }
    number(&w, (uint64_t)p->ntensors);
    for (int k = 0; k < p->ntensors; k++) {
        const struct neuron_tensor *t = &p->tensors[k];
        write_name(&w, t->name);
        byte(&w, (uint8_t)(t->use | t->nsizes << 4));
        for (int f = 0; f < t->nsizes; f++)
            byte(&w, t->sizes[f]);
        byte(&w, t->type);
        byte(&w, t->rank);
        for (int d = 0; d < t->rank; d++)
            number(&w, (uint64_t)t->dims[d]);
    }
    for (int e = 0; e < NEURON_NENGINES; e++) {
        number(&w, (uint64_t)p->stream[e].n);
        for (int k = 0; k < p->stream[e].n; k++)
            write_instr(&w, &p->stream[e].code[k]);
    }
    if (w.failed) {
        free(w.at);
        return NULL;
    }
    *size = w.n;
    return w.at;
}

/* -- Reading -- */

struct bytes {
    const uint8_t *from, *at, *end;
    char *error;
    jmp_buf out;
};

static _Noreturn void bad(struct bytes *b, const char *what)
{
    snprintf(b->error, NEURON_ERROR, "byte %zu: %s", (size_t)(b->at - b->from), what);
    longjmp(b->out, 1);
}

static uint8_t get(struct bytes *b, unsigned most, const char *what)
{
    if (b->at == b->end)
        bad(b, "the file ends here");
    if (*b->at > most)
        bad(b, what);
    return *b->at++;
}

static uint64_t get_number(struct bytes *b, uint64_t most, const char *what)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        uint8_t c = get(b, 255, what);
        v |= (uint64_t)(c & 127) << shift;
        if (c < 128) {
            if (v > most || (c == 0 && shift))
                bad(b, what);
            return v;
        }
    }
    bad(b, what);
}

static int64_t get_signed(struct bytes *b, int64_t lo, int64_t hi, const char *what)
{
    uint64_t u = get_number(b, UINT64_C(1) << 62, what);
    int64_t v = (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
    if (v < lo || v > hi)
        bad(b, what);
    return v;
}

static union neuron_value get_bits(struct bytes *b)
{
    uint32_t v = 0;
    for (int k = 0; k < 32; k += 8)
        v |= (uint32_t)get(b, 255, "") << k;
    return (union neuron_value){.i = (int32_t)v};
}

static uint8_t get_register(struct bytes *b)
{
    uint8_t r = get(b, 255, "");
    if (r >= NEURON_REGISTERS && r != NEURON_NO_REGISTER)
        bad(b, "no such register");
    return r;
}

static void read_terms(struct bytes *b, struct neuron_operand *o)
{
    for (int k = 0; k < NEURON_TERMS; k++)
        if ((o->power[k] = (uint16_t)get_number(b, UINT16_MAX, "no such sizes")))
            o->by[k] = get_signed(b, -(INT64_C(1) << 48), INT64_C(1) << 48, "a number out of range");
}

static void read_operand(struct bytes *b, const struct neuron_program *p, struct neuron_operand *o)
{
    *o = (struct neuron_operand){.reg = NEURON_NO_REGISTER};
    o->space = get(b, NEURON_LABEL, "no such space");
    switch (o->space) {
    case NEURON_NOWHERE: bad(b, "no such space");
    case NEURON_NUMBER:
        o->type = NEURON_F32;
        o->number = get_bits(b).f;
        return;
    case NEURON_LABEL: o->offset = (int64_t)get_number(b, INT32_MAX, "no such instruction"); return;
    case NEURON_REGISTER:
        o->reg = get_register(b);
        o->offset = get_signed(b, INT32_MIN, UINT32_MAX, "an integer out of range");
        if (p->nsizes)
            read_terms(b, o);
        return;
    case NEURON_HBM:
        o->tensor = (uint16_t)get_number(b, 65535, "no such tensor");
        if (o->tensor >= p->ntensors)
            bad(b, "no such tensor");
        break;
    default:
        o->start = get(b, NEURON_PARTITIONS - 1, "no such partition");
        o->count = get(b, NEURON_PARTITIONS, "too many partitions");
    }
    o->type = get(b, NEURON_NTYPES - 1, "no such type");
    o->reg = get_register(b);
    o->offset = (int64_t)get_number(b, UINT64_C(1) << 48, "an offset out of range");
    bool sizes = p->nsizes && o->space == NEURON_HBM;
    if (sizes)
        read_terms(b, o);
    o->ndims = get(b, NEURON_DIMS, "too many dims");
    for (int k = 0; k < o->ndims; k++) {
        o->size[k] = (uint32_t)get_number(b, UINT32_MAX, "a size out of range");
        o->stride[k] = get_signed(b, INT32_MIN, INT32_MAX, "a stride out of range");
        if (sizes)
            o->times[k] = (uint16_t)get_number(b, UINT16_MAX, "no such sizes");
    }
}

static union neuron_value read_attr(struct bytes *b, struct neuron_instr *i, int attr)
{
    static const int most[] = {0, NEURON_NALU - 1, NEURON_NFUNCS - 1, 3, INT32_MAX, 0, 1, 1};
    enum attr_kind kind = isa_attr(attr)->kind;
    if (kind == ATTR_none)
        return (union neuron_value){0};
    if (kind == ATTR_float)
        return get_bits(b);
    union neuron_value v = {
        .i = (int32_t)get_signed(b, kind == ATTR_int ? INT32_MIN : 0, most[kind], "an attribute out of range")};
    for (int m = 0; kind == ATTR_mask && m < 32; m++)
        i->mask[m] = get(b, 255, "");
    return v;
}

static void read_instr(struct bytes *b, const struct neuron_program *p, struct neuron_instr *i)
{
    *i = (struct neuron_instr){.op = get(b, NEURON_NOPS - 1, "no such instruction")};
    const struct neuron_op_row *row = neuron_op_row((enum neuron_op)i->op);
    uint8_t counts = get(b, 255, "");
    i->noperands = counts & 7;
    i->nwaits = counts >> 3 & 7;
    i->nsignals = counts >> 6;
    if (i->noperands > NEURON_OPERANDS || i->nwaits > NEURON_WAITS || i->nsignals > NEURON_SIGNALS)
        bad(b, "too many operands, waits or signals");
    for (int k = 0; k < i->noperands; k++)
        read_operand(b, p, &i->operand[k]);
    for (int k = 0; k < i->nwaits; k++) {
        i->wait[k].semaphore = get(b, 255, "");
        i->wait[k].reg = get_register(b);
        i->wait[k].value = (uint32_t)get_number(b, UINT32_MAX, "a value out of range");
    }
    for (int k = 0; k < i->nsignals; k++) {
        i->signal[k].semaphore = get(b, 255, "");
        i->signal[k].value = (uint32_t)get_number(b, INT32_MAX, "a value out of range");
    }
    for (int k = 0; k < row->nattrs; k++)
        i->attr[k] = read_attr(b, i, row->attrs[k]);
}

/* name: of `room` bytes. */
static size_t read_name(struct bytes *b, char *name, unsigned room)
{
    size_t n = get(b, room - 1, "a name that is too long");
    if ((size_t)(b->end - b->at) < n || !n)
        bad(b, "the file ends here");
    for (size_t k = 0; k < n; k++)
        if (!isalnum(b->at[k]) && b->at[k] != '_')
            bad(b, "a name with other characters than letters, digits and _");
    memcpy(name, b->at, n);
    name[n] = 0;
    b->at += n;
    return n;
}

static void read_size(struct bytes *b, struct neuron_program *p)
{
    char name[NEURON_SIZE_NAME];
    size_t n = read_name(b, name, sizeof name);
    const int64_t MOST = INT64_C(1) << 40;
    struct neuron_size how = {0};
    int size = neuron_add_size(p, name, n, get(b, NEURON_REGISTERS - 1, "no such register"));
    if (size < 0)
        bad(b, "too many sizes, or a name or a register that is taken or not possible");
    how.over = (int64_t)get_number(b, (uint64_t)MOST, "a number out of range");
    for (int k = 0; how.over && k < size; k++)
        how.by[k] = get_signed(b, -MOST, MOST, "a number out of range");
    if (how.over)
        how.plus = get_signed(b, -MOST, MOST, "a number out of range");
    if (how.over && !neuron_make_size(p, size, &how))
        bad(b, "a size that is made of itself");
}

static void read_tensor(struct bytes *b, struct neuron_program *p)
{
    struct neuron_tensor t = {0};
    char name[64];
    read_name(b, name, sizeof name);
    t.name = name;
    uint8_t use = get(b, 255, "no such use");
    t.nsizes = use >> 4;
    t.use = use & 15;
    if (t.use >= NEURON_NUSES || t.nsizes > NEURON_SIZES)
        bad(b, "no such use, or too many sizes");
    for (int f = 0; f < t.nsizes; f++)
        if ((t.sizes[f] = get(b, NEURON_SIZES - 1, "no such size")) >= p->nsizes)
            bad(b, "no such size");
    t.type = get(b, NEURON_NTYPES - 1, "no such type");
    t.rank = get(b, NEURON_RANK, "too many dims");
    for (int d = 0; d < t.rank; d++)
        t.dims[d] = (int64_t)get_number(b, UINT64_C(1) << 40, "a dim out of range");
    if (neuron_add_tensor(p, &t) < 0)
        bad(b, "no memory, or too many tensors");
}

static void read_program(struct bytes *b, struct neuron_program *p)
{
    struct neuron_instr i;
    if (!neuron_is_binary(b->at, (size_t)(b->end - b->at)))
        bad(b, "not a program of this version");
    b->at += sizeof magic;
    uint8_t core = get(b, 255, "no such core");
    if ((core & 15) >= NEURON_NCORES)
        bad(b, "no such core");
    p->core = (enum neuron_core_kind)(core & 15);
    for (int k = 0; k < core >> 4; k++)
        read_size(b, p);
    uint64_t n = get_number(b, 65535, "too many tensors");
    for (uint64_t k = 0; k < n; k++)
        read_tensor(b, p);
    for (int e = 0; e < NEURON_NENGINES; e++) {
        n = get_number(b, (uint64_t)(b->end - b->at), "more instructions than bytes");
        for (uint64_t k = 0; k < n; k++) {
            read_instr(b, p, &i);
            if (!neuron_add(p, (enum neuron_engine)e, &i))
                bad(b, "no memory");
        }
    }
    if (b->at != b->end)
        bad(b, "something follows the program");
}

bool neuron_is_binary(const void *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

struct neuron_program *neuron_decode(const void *bytes, size_t size, char *error)
{
    struct bytes b = {.from = bytes, .at = bytes, .end = (const uint8_t *)bytes + size, .error = error};
    struct neuron_program *p = neuron_program_new(NEURON_TRN1);
    volatile bool fine = false;
    snprintf(error, NEURON_ERROR, "no memory");
    if (p && setjmp(b.out) == 0) {
        read_program(&b, p);
        fine = neuron_check(p, error);
    }
    if (fine)
        return p;
    neuron_program_free(p);
    return NULL;
}
