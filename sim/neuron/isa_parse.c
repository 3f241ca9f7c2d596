/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text form (doc/neuron-isa.md): a line is a directive (core, tensor, engine), a label, an instruction or
 * empty. Everything is bounded by the text's length; labels are looked up when a stream has been read.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/neuron/isa_lex_int.h"

/* -- Operands -- */

static int reg(struct isa_reader *r)
{
    const char *s;
    size_t n = isa_word(r, &s);
    char text[8] = "", *end;
    if (n < 2 || n > 3 || *s != 'r')
        isa_fail(r, "expected a register r0 to r%d", NEURON_REGISTERS - 1);
    memcpy(text, s + 1, n - 1);
    unsigned long v = strtoul(text, &end, 10);
    if (*end || v >= NEURON_REGISTERS)
        isa_fail(r, "expected a register r0 to r%d", NEURON_REGISTERS - 1);
    return (int)v;
}

static bool is_reg(struct isa_reader *r)
{
    isa_blanks(r);
    return r->end - r->c >= 2 && *r->c == 'r' && isdigit((unsigned char)r->c[1]);
}

static int named_size(struct isa_reader *r)
{
    const char *s;
    size_t n = isa_word(r, &s);
    int size = neuron_find_size(r->p, s, n);
    if (size < 0)
        isa_fail(r, "no size '%.*s'", (int)(n < MAX_WORD ? n : MAX_WORD), s);
    return size;
}

/* Sizes that a number is multiplied by: *NAME, as often as it stands there. */
static uint16_t power(struct isa_reader *r)
{
    uint16_t all = 0;
    while (isa_take(r, '*')) {
        int size = named_size(r);
        if ((all >> 2 * size & NEURON_POWER) == NEURON_POWER)
            isa_fail(r, "a size is a factor more than %d times", NEURON_POWER);
        all = (uint16_t)(all + (1 << 2 * size));
    }
    return all;
}

/* Up to two times "+NUMBER*SIZE...", and where there may be one "+rN". */
static void terms(struct isa_reader *r, struct neuron_operand *o, bool registers)
{
    int n = 0;
    while (isa_take(r, '+')) {
        if (registers && is_reg(r)) {
            o->reg = (uint8_t)reg(r);
            return;
        }
        if (n == NEURON_TERMS)
            isa_fail(r, "more than %d terms with sizes", NEURON_TERMS);
        o->by[n] = isa_integer(r, -(INT64_C(1) << 48), INT64_C(1) << 48);
        o->power[n] = power(r);
        if (!o->power[n++])
            isa_fail(r, "expected *SIZE");
    }
}

static void offset(struct isa_reader *r, struct neuron_operand *o)
{
    o->offset = isa_integer(r, 0, INT64_C(1) << 48);
    o->reg = NEURON_NO_REGISTER;
    terms(r, o, true);
}

/* size or size@stride, outermost first; without a stride an innermost dim has 1, another one what makes it
 * contiguous. */
static void dims(struct isa_reader *r, struct neuron_operand *o)
{
    bool given[NEURON_DIMS] = {false};
    int64_t inner = 1;
    while (isa_take(r, ',')) {
        if (o->ndims == NEURON_DIMS)
            isa_fail(r, "more than %d dims", NEURON_DIMS);
        o->size[o->ndims] = (uint32_t)isa_integer(r, 0, INT64_C(0xffffffff));
        given[o->ndims] = isa_take(r, '@');
        if (given[o->ndims])
            o->stride[o->ndims] = isa_integer(r, INT32_MIN, INT32_MAX);
        o->times[o->ndims] = given[o->ndims] ? power(r) : 0;
        o->ndims++;
    }
    if (!o->ndims)
        isa_fail(r, "expected the operand's dims");
    for (int k = o->ndims - 1; k >= 0; k--) {
        if (!given[k] && inner > INT32_MAX)
            isa_fail(r, "a stride beyond %d", INT32_MAX);
        if (!given[k])
            o->stride[k] = inner;
        if (__builtin_mul_overflow((int64_t)o->size[k], llabs(o->stride[k]), &inner))
            inner = INT64_MAX;
    }
}

static void memory(struct isa_reader *r, struct neuron_operand *o, const char *s, size_t n)
{
    int t = -1;
    o->space = n == 4 && memcmp(s, "sbuf", 4) == 0   ? NEURON_SBUF
               : n == 4 && memcmp(s, "psum", 4) == 0 ? NEURON_PSUM
                                                     : NEURON_HBM;
    if (o->space == NEURON_HBM) {
        t = neuron_find_tensor(r->p, s, n);
        if (t < 0)
            isa_fail(r, "no tensor '%.*s'", (int)(n < MAX_WORD ? n : MAX_WORD), s);
        o->tensor = (uint16_t)t;
    }
    if (isa_take(r, '.'))
        o->type = (uint8_t)isa_name_of(r, ISA_TYPES, "type");
    else if (t >= 0)
        o->type = r->p->tensors[t].type;
    else
        isa_fail(r, "expected .TYPE");
    isa_want(r, '[');
    if (o->space != NEURON_HBM) {
        o->start = (uint8_t)isa_integer(r, 0, NEURON_PARTITIONS - 1);
        isa_want(r, ':');
        o->count = (uint8_t)(isa_integer(r, o->start + 1, NEURON_PARTITIONS) - o->start);
        isa_want(r, ',');
    }
    offset(r, o);
    dims(r, o);
    isa_want(r, ']');
}

static void use_label(struct isa_reader *r, const char *s, size_t n)
{
    if (!n || n >= MAX_WORD || r->nuses == MAX_LABELS)
        isa_fail(r, n ? "too many jumps, or a label that is too long" : "expected a label");
    struct isa_label *u = &r->uses[r->nuses];
    memcpy(u->name, s, n);
    u->name[n] = 0;
    u->engine = r->engine;
    u->at = r->p->stream[r->engine].n;
    r->nuse_lines[r->nuses++] = r->line;
}

static void operand(struct isa_reader *r, struct neuron_operand *o, char kind)
{
    const char *s;
    *o = (struct neuron_operand){.reg = NEURON_NO_REGISTER};
    isa_blanks(r);
    if (kind == 'L') {
        size_t n = isa_word(r, &s);
        o->space = NEURON_LABEL;
        use_label(r, s, n);
    } else if (kind == 'R' || kind == 'X') {
        o->space = NEURON_REGISTER;
        if (kind == 'R' || is_reg(r))
            o->reg = (uint8_t)reg(r);
        else
            o->offset = isa_integer(r, INT32_MIN, UINT32_MAX);
        if (kind == 'X' && o->reg == NEURON_NO_REGISTER)
            terms(r, o, false);
    } else if (r->c < r->end && (isdigit((unsigned char)*r->c) || *r->c == '-' || kind == 'N')) {
        o->space = NEURON_NUMBER;
        o->type = NEURON_F32;
        o->number = isa_real(r);
    } else {
        const char *from = r->c;
        size_t n = isa_word(r, &s);
        bool number = r->c == r->end || (*r->c != '.' && *r->c != '[');
        if (number && (kind == 'C' || kind == 'c')) {
            r->c = from;
            o->space = NEURON_NUMBER;
            o->type = NEURON_F32;
            o->number = isa_real(r);
        } else if (n) {
            memory(r, o, s, n);
        } else {
            isa_fail(r, "expected an operand");
        }
    }
}

/* -- Instructions -- */

static void attribute(struct isa_reader *r, struct neuron_instr *i, const char *s, size_t n)
{
    int a = isa_find(ISA_ATTRS, s, n);
    union neuron_value v = {0};
    if (a <= 0)
        isa_fail(r, "unknown attribute '%.*s'", (int)(n < MAX_WORD ? n : MAX_WORD), s);
    enum attr_kind kind = isa_attr(a)->kind;
    v.i = 1;
    if (kind != ATTR_flag)
        isa_want(r, '=');
    switch (kind) {
    case ATTR_alu: v.i = isa_name_of(r, ISA_ALUS, "operation"); break;
    case ATTR_func: v.i = isa_name_of(r, ISA_FUNCS, "function"); break;
    case ATTR_acc: v.i = isa_name_of(r, ISA_ACCS, "accumulator command"); break;
    case ATTR_int: v.i = (int32_t)isa_integer(r, INT32_MIN, INT32_MAX); break;
    case ATTR_float: v.f = isa_real(r); break;
    case ATTR_mask:
        for (int k = 0; k < 32; k++) {
            if (k)
                isa_want(r, ':');
            i->mask[k] = (uint8_t)isa_integer(r, 0, 255);
        }
        break;
    case ATTR_flag:
    case ATTR_none: break;
    }
    if (!neuron_set_attr(i, (enum neuron_attr)a, v))
        isa_fail(r, "%s has no attribute '%s'", neuron_op_row(i->op)->name, isa_attr(a)->name);
}

static uint8_t semaphore(struct isa_reader *r)
{
    if (!isa_take(r, 's'))
        isa_fail(r, "expected a semaphore s0 to s%d", NEURON_SEMAPHORES - 1);
    return (uint8_t)isa_integer(r, 0, NEURON_SEMAPHORES - 1);
}

static void wait_for(struct isa_reader *r, struct neuron_instr *i)
{
    if (i->nwaits == NEURON_WAITS)
        isa_fail(r, "more than %d waits", NEURON_WAITS);
    struct neuron_wait *w = &i->wait[i->nwaits++];
    w->semaphore = semaphore(r);
    w->reg = NEURON_NO_REGISTER;
    isa_want(r, '>');
    isa_want(r, '=');
    if (is_reg(r)) {
        w->reg = (uint8_t)reg(r);
        return;
    }
    w->value = (uint32_t)isa_integer(r, 0, UINT32_MAX);
    if (isa_take(r, '+'))
        w->reg = (uint8_t)reg(r);
}

static void give_signal(struct isa_reader *r, struct neuron_instr *i)
{
    if (i->nsignals == NEURON_SIGNALS)
        isa_fail(r, "more than %d signals", NEURON_SIGNALS);
    struct neuron_signal *s = &i->signal[i->nsignals++];
    s->semaphore = semaphore(r);
    s->value = isa_take(r, '+') ? (uint32_t)isa_integer(r, 1, INT32_MAX) : 1;
}

int isa_least_operands(const struct neuron_op_row *row)
{
    int least = (int)strlen(row->operands);
    while (least && row->operands[least - 1] == 'c')
        least--;
    return least;
}

static void operands(struct isa_reader *r, struct neuron_instr *i)
{
    const struct neuron_op_row *row = neuron_op_row(i->op);
    int most = (int)strlen(row->operands);
    for (int k = 0; k < most; k++) {
        if (k >= isa_least_operands(row) && (k ? !isa_take(r, ',') : isa_at_end(r)))
            break;
        if (k && k < isa_least_operands(row))
            isa_want(r, ',');
        operand(r, &i->operand[i->noperands], row->operands[k]);
        i->noperands++;
    }
    if (isa_take(r, ','))
        isa_fail(r, "%s takes %d operands", row->name, most);
}

static void instruction(struct isa_reader *r, const char *s, size_t n)
{
    struct neuron_instr i = {.line = r->line};
    int op = isa_find(ISA_OPS, s, n);
    if (op < 0)
        isa_fail(r, "unknown instruction '%.*s'", (int)(n < MAX_WORD ? n : MAX_WORD), s);
    if (r->engine < 0)
        isa_fail(r, "an instruction before the first 'engine'");
    i.op = (uint8_t)op;
    operands(r, &i);
    bool open = op != NEURON_OP_LOOP;
    while (!isa_at_end(r) && (open || !(open = isa_take(r, '{')))) {
        n = isa_word(r, &s);
        if (n == 4 && memcmp(s, "wait", 4) == 0)
            wait_for(r, &i);
        else if (n == 6 && memcmp(s, "signal", 6) == 0)
            give_signal(r, &i);
        else if (n)
            attribute(r, &i, s, n);
        else
            isa_fail(r, "unexpected '%c'", isprint((unsigned char)*r->c) ? *r->c : '?');
    }
    if (!open)
        isa_fail(r, "expected '{' at the end of the line");
    if (!neuron_add(r->p, (enum neuron_engine)r->engine, &i))
        isa_fail(r, "no memory");
}

/* -- Lines -- */

static void define_label(struct isa_reader *r, const char *s, size_t n)
{
    if (r->engine < 0 || n >= MAX_WORD || r->nlabels == MAX_LABELS)
        isa_fail(r, r->engine < 0 ? "a label before the first 'engine'" : "too many labels, or one that is too long");
    for (int k = 0; k < r->nlabels; k++)
        if (r->labels[k].engine == r->engine && strlen(r->labels[k].name) == n && memcmp(r->labels[k].name, s, n) == 0)
            isa_fail(r, "label '%s' stands twice", r->labels[k].name);
    struct isa_label *l = &r->labels[r->nlabels++];
    memcpy(l->name, s, n);
    l->name[n] = 0;
    l->engine = r->engine;
    l->at = r->p->stream[r->engine].n;
}

/* NUMBER*SIZE + ... + NUMBER / NUMBER, of sizes before it. */
static void made_size(struct isa_reader *r, int size)
{
    const int64_t MOST = INT64_C(1) << 40;
    struct neuron_size how = {.over = 1};
    do {
        int64_t v = isa_integer(r, -MOST, MOST);
        if (isa_take(r, '*'))
            how.by[named_size(r)] += v;
        else
            how.plus += v;
    } while (isa_take(r, '+'));
    if (isa_take(r, '/'))
        how.over = isa_integer(r, 1, MOST);
    if (!neuron_make_size(r->p, size, &how))
        isa_fail(r, "a size that is made of itself");
}

static void size(struct isa_reader *r)
{
    const char *s;
    size_t n = isa_word(r, &s);
    int number = neuron_add_size(r->p, s, n, (uint8_t)reg(r));
    if (number < 0)
        isa_fail(r, "more than %d sizes, or a name or a register that is taken or not possible", NEURON_SIZES);
    if (isa_take(r, '='))
        made_size(r, number);
}

/* SIZE*, in front of the first dim. */
static void tensor_sizes(struct isa_reader *r, struct neuron_tensor *t)
{
    for (isa_blanks(r); r->c < r->end && isa_word_char(*r->c) && !isdigit((unsigned char)*r->c); isa_blanks(r)) {
        const char *s;
        size_t n = isa_word(r, &s);
        int k = neuron_find_size(r->p, s, n);
        if (k < 0 || t->nsizes == NEURON_SIZES)
            isa_fail(r, k < 0 ? "no size '%.*s'" : "more sizes than a tensor can have",
                     (int)(n < MAX_WORD ? n : MAX_WORD), s);
        t->sizes[t->nsizes++] = (uint8_t)k;
        isa_want(r, '*');
    }
}

static void tensor(struct isa_reader *r)
{
    struct neuron_tensor t = {0};
    char name[MAX_WORD];
    const char *s;
    size_t n = isa_word(r, &s);
    if (!n || n >= MAX_WORD || isdigit((unsigned char)*s))
        isa_fail(r, "expected a tensor's name, of at most %d characters", MAX_WORD - 1);
    memcpy(name, s, n);
    name[n] = 0;
    if (neuron_find_tensor(r->p, s, n) >= 0)
        isa_fail(r, "tensor '%s' stands twice", name);
    if (strcmp(name, "sbuf") == 0 || strcmp(name, "psum") == 0)
        isa_fail(r, "a tensor cannot be called '%s'", name);
    t.name = name;
    t.use = (uint8_t)isa_name_of(r, ISA_USES, "use of a tensor");
    t.type = (uint8_t)isa_name_of(r, ISA_TYPES, "type");
    isa_want(r, '[');
    tensor_sizes(r, &t);
    do {
        if (t.rank == NEURON_RANK)
            isa_fail(r, "more than %d dims", NEURON_RANK);
        t.dims[t.rank++] = isa_integer(r, 1, INT64_C(1) << 40);
    } while (isa_take(r, ','));
    isa_want(r, ']');
    if (neuron_add_tensor(r->p, &t) < 0)
        isa_fail(r, "no memory, or too many tensors");
}

static void line(struct isa_reader *r)
{
    const char *s;
    size_t n = isa_word(r, &s);
    if (!n && isa_at_end(r))
        return;
    if (n && isa_take(r, ':')) {
        define_label(r, s, n);
        line(r);
        return;
    }
    if (n == 4 && memcmp(s, "core", 4) == 0) {
        if (r->p->ntensors || r->engine >= 0)
            isa_fail(r, "'core' stands behind tensors or instructions");
        r->p->core = (enum neuron_core_kind)isa_name_of(r, ISA_CORES, "core");
    } else if (n == 4 && memcmp(s, "size", 4) == 0) {
        size(r);
    } else if (n == 6 && memcmp(s, "tensor", 6) == 0) {
        tensor(r);
    } else if (n == 6 && memcmp(s, "engine", 6) == 0) {
        r->engine = isa_name_of(r, ISA_ENGINES, "engine");
    } else if (n || isa_take(r, '}')) {
        instruction(r, n ? s : "}", n ? n : 1);
    } else {
        isa_fail(r, "unexpected '%c'", isprint((unsigned char)*r->c) ? *r->c : '?');
    }
    if (!isa_at_end(r))
        isa_fail(r, "unexpected '%c' at the end of the line", isprint((unsigned char)*r->c) ? *r->c : '?');
}

static void link_labels(struct isa_reader *r)
{
    for (int u = 0; u < r->nuses; u++) {
        int k = 0;
        while (k < r->nlabels &&
               (r->labels[k].engine != r->uses[u].engine || strcmp(r->labels[k].name, r->uses[u].name) != 0))
            k++;
        r->line = r->nuse_lines[u];
        if (k == r->nlabels)
            isa_fail(r, "no label '%s' in this stream", r->uses[u].name);
        r->p->stream[r->uses[u].engine].code[r->uses[u].at].operand[0].offset = r->labels[k].at;
    }
}

static void read_all(struct isa_reader *r)
{
    for (r->line = 1; r->c < r->end; r->line++) {
        line(r);
        if (r->c < r->end)
            r->c++;
    }
    link_labels(r);
}

struct neuron_program *neuron_assemble(const char *text, size_t size, char *error)
{
    struct isa_reader *r = calloc(1, sizeof *r);
    struct neuron_program *p = neuron_program_new(NEURON_TRN1);
    struct isa_label *labels = calloc(2 * MAX_LABELS, sizeof *labels);
    volatile bool fine = false;
    snprintf(error, NEURON_ERROR, "no memory");
    if (r && p && labels) {
        r->c = text;
        r->end = text + size;
        r->engine = -1;
        r->p = p;
        r->labels = labels;
        r->uses = labels + MAX_LABELS;
        r->error = error;
        if (setjmp(r->out) == 0) {
            read_all(r);
            fine = neuron_check(p, error);
        }
    }
    free(labels);
    free(r);
    if (fine)
        return p;
    neuron_program_free(p);
    return NULL;
}
