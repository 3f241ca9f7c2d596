/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of runtime/neuron_isa.def, and programs as they grow. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/grow.h"
#include "sim/neuron/isa_int.h"

static const struct {
    const char *name;
    int generation, sbuf;
} cores[] = {
#define CORE(id, name, generation, sbuf) {name, generation, sbuf},
#include "runtime/neuron_isa.def"
};

static const struct type_row types[] = {
#define TYPE(id, name, bytes, class, exponent, mantissa) {name, bytes, class, exponent, mantissa},
#include "runtime/neuron_isa.def"
};

static const struct {
    const char *name;
    char letter;
} engines[] = {
#define ENGINE(id, name, letter) {name, letter},
#include "runtime/neuron_isa.def"
};

static const struct alu_row alus[] = {
#define ALU(id, name, kind, reduces) {name, kind, reduces},
#include "runtime/neuron_isa.def"
};

static const struct func_row funcs[] = {
#define FUNC(id, name, lo, hi) {name, (float)(lo), (float)(hi)},
#include "runtime/neuron_isa.def"
};

static const struct attr_row attrs[] = {
    {"", ATTR_none},
#define ATTR(id, name, kind) {name, ATTR_##kind},
#include "runtime/neuron_isa.def"
};

#define COUNT(...) (sizeof((uint8_t[]){__VA_ARGS__}))
static const struct neuron_op_row ops[] = {
#define OP(id, name, engines, operands, generation, ...) \
    {name, engines, operands, generation, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#include "runtime/neuron_isa.def"
};

static const char *const accs[] = {"idle", "reset", "reduce", "reset_reduce"};
static const char *const uses[] = {"in", "out", "inout", "temp"};

const struct neuron_op_row *neuron_op_row(enum neuron_op op)
{
    return (unsigned)op < NEURON_NOPS ? &ops[op] : NULL;
}

const struct type_row *isa_type(int t)
{
    return &types[t];
}

const struct alu_row *isa_alu(int a)
{
    return &alus[a];
}

const struct func_row *isa_func(int f)
{
    return &funcs[f];
}

const struct attr_row *isa_attr(int a)
{
    return &attrs[a];
}

const char *neuron_core_name(enum neuron_core_kind c)
{
    return (unsigned)c < NEURON_NCORES ? cores[c].name : "";
}

int neuron_generation(enum neuron_core_kind c)
{
    return cores[c].generation;
}

int neuron_sbuf_bytes(enum neuron_core_kind c)
{
    return cores[c].sbuf;
}

const char *neuron_engine_name(enum neuron_engine e)
{
    return (unsigned)e < NEURON_NENGINES ? engines[e].name : "";
}

char isa_engine_letter(enum neuron_engine e)
{
    return engines[e].letter;
}

const char *neuron_type_name(enum neuron_type t)
{
    return (unsigned)t < NEURON_NTYPES ? types[t].name : "";
}

int neuron_type_bytes(enum neuron_type t)
{
    return (unsigned)t < NEURON_NTYPES ? types[t].bytes : 0;
}

char neuron_type_class(enum neuron_type t)
{
    return (unsigned)t < NEURON_NTYPES ? types[t].class : 0;
}

const char *neuron_alu_name(enum neuron_alu a)
{
    return (unsigned)a < NEURON_NALU ? alus[a].name : "";
}

const char *neuron_func_name(enum neuron_func f)
{
    return (unsigned)f < NEURON_NFUNCS ? funcs[f].name : "";
}

/* -- Names -- */

static bool same(const char *name, const char *s, size_t n)
{
    return strlen(name) == n && memcmp(name, s, n) == 0;
}

/* The number of a name among those of a kind; -1. */
int isa_find(enum isa_names kind, const char *s, size_t n)
{
    static const int counts[] = {NEURON_NCORES, NEURON_NTYPES, NEURON_NENGINES, NEURON_NALU,
                                 NEURON_NFUNCS, NEURON_NATTRS, NEURON_NOPS,     4,
                                 NEURON_NUSES};
    for (int k = 0; k < counts[kind]; k++)
        if (same(isa_name(kind, k), s, n))
            return k;
    return -1;
}

const char *isa_name(enum isa_names kind, int k)
{
    switch (kind) {
    case ISA_CORES: return cores[k].name;
    case ISA_TYPES: return types[k].name;
    case ISA_ENGINES: return engines[k].name;
    case ISA_ALUS: return alus[k].name;
    case ISA_FUNCS: return funcs[k].name;
    case ISA_ATTRS: return attrs[k].name;
    case ISA_OPS: return ops[k].name;
    case ISA_ACCS: return accs[k];
    case ISA_USES: return uses[k];
    }
    return "";
}

/* -- Instructions -- */

static int place(const struct neuron_instr *i, enum neuron_attr a)
{
    const struct neuron_op_row *r = &ops[i->op];
    for (int k = 0; k < r->nattrs; k++)
        if (r->attrs[k] == a)
            return k;
    return -1;
}

union neuron_value neuron_attr(const struct neuron_instr *i, enum neuron_attr a)
{
    int k = place(i, a);
    return k >= 0 ? i->attr[k] : (union neuron_value){0};
}

bool neuron_set_attr(struct neuron_instr *i, enum neuron_attr a, union neuron_value v)
{
    int k = place(i, a);
    if (k >= 0)
        i->attr[k] = v;
    return k >= 0;
}

int64_t neuron_free_size(const struct neuron_operand *o)
{
    int64_t n = 1;
    for (int k = 0; k < o->ndims; k++)
        if (__builtin_mul_overflow(n, (int64_t)o->size[k], &n))
            return INT64_MAX;
    return n;
}

int64_t neuron_tensor_bytes(const struct neuron_tensor *t)
{
    int64_t n = types[t->type].bytes;
    if (t->nsizes && __builtin_mul_overflow(n, t->times, &n))
        return INT64_MAX;
    for (int k = 0; k < t->rank; k++)
        if (__builtin_mul_overflow(n, t->dims[k], &n))
            return INT64_MAX;
    return n;
}

bool neuron_is_dma(enum neuron_op op)
{
    return op == NEURON_OP_DMA || op == NEURON_OP_DMA_TRANSPOSE || op == NEURON_OP_DMA_ADD ||
           op == NEURON_OP_DMA_GATHER || op == NEURON_OP_DMA_SCATTER;
}

bool neuron_is_load(enum neuron_op op)
{
    return op == NEURON_OP_LOAD_STATIONARY || op == NEURON_OP_LOAD_STATIONARY_MX;
}

bool neuron_is_product(enum neuron_op op)
{
    return op == NEURON_OP_MATMUL || op == NEURON_OP_MATMUL_MX;
}

int neuron_loop_end(const struct neuron_stream *s, int at)
{
    for (int depth = 0; at < s->n; at++) {
        depth += s->code[at].op == NEURON_OP_LOOP;
        depth -= s->code[at].op == NEURON_OP_END_LOOP;
        if (!depth)
            break;
    }
    return at;
}

/* -- Programs -- */

struct neuron_program *neuron_program_new(enum neuron_core_kind core)
{
    struct neuron_program *p = calloc(1, sizeof *p);
    if (p)
        p->core = core;
    return p;
}

void neuron_program_free(struct neuron_program *p)
{
    if (!p)
        return;
    for (int k = 0; k < p->ntensors; k++)
        free(p->tensors[k].name);
    for (int e = 0; e < NEURON_NENGINES; e++)
        free(p->stream[e].code);
    free(p->tensors);
    free(p);
}

int neuron_add_tensor(struct neuron_program *p, const struct neuron_tensor *t)
{
    bool room = p->ntensors < 8192 && GROWN(p->tensors, p->ntensors, p->tensor_room, 16);
    char *name = room ? strdup(t->name) : NULL;
    if (!name)
        return -1;
    p->tensors[p->ntensors] = *t;
    p->tensors[p->ntensors].name = name;
    p->tensors[p->ntensors].times = 1;
    return p->ntensors++;
}

int neuron_add_size(struct neuron_program *p, const char *name, size_t n, uint8_t reg)
{
    struct neuron_size s = {.reg = reg, .value = 1};
    bool fine = p->nsizes < NEURON_SIZES && n && n < sizeof s.name && !isdigit((unsigned char)*name) &&
                reg < NEURON_REGISTERS && neuron_find_size(p, name, n) < 0;
    for (int k = 0; k < p->nsizes; k++)
        fine &= p->size[k].reg != reg;
    if (!fine)
        return -1;
    memcpy(s.name, name, n);
    p->size[p->nsizes] = s;
    return p->nsizes++;
}

int neuron_find_size(const struct neuron_program *p, const char *name, size_t n)
{
    for (int k = 0; k < p->nsizes; k++)
        if (same(p->size[k].name, name, n))
            return k;
    return -1;
}

bool neuron_make_size(struct neuron_program *p, int size, const struct neuron_size *how)
{
    bool fine = how->over > 0;
    for (int k = size; k < NEURON_SIZES; k++)
        fine &= !how->by[k];
    if (!fine)
        return false;
    p->size[size].made = true;
    memcpy(p->size[size].by, how->by, sizeof how->by);
    p->size[size].plus = how->plus;
    p->size[size].over = how->over;
    return true;
}

/* Sizes and what makes one of them are below 2^48: tensors of larger ones are refused. */
static int64_t made_of(const struct neuron_program *p, const struct neuron_size *s)
{
    int64_t sum = s->plus, by;
    for (int k = 0; k < NEURON_SIZES; k++)
        if (s->by[k] &&
            (__builtin_mul_overflow(s->by[k], p->size[k].value, &by) || __builtin_add_overflow(sum, by, &sum)))
            return INT32_MAX;
    return sum < 0 ? 0 : sum / s->over;
}

void neuron_set_size(struct neuron_program *p, int size, int64_t value)
{
    p->size[size].value = value;
    for (int k = 0; k < p->nsizes; k++)
        if (p->size[k].made)
            p->size[k].value = made_of(p, &p->size[k]);
    for (int k = 0; k < p->ntensors; k++) {
        struct neuron_tensor *t = &p->tensors[k];
        t->times = 1;
        for (int f = 0; f < t->nsizes; f++)
            if (__builtin_mul_overflow(t->times, p->size[t->sizes[f]].value, &t->times))
                t->times = INT64_MAX;
    }
}

/* A number times sizes; INT64_MAX: more than 62 bits. */
static int64_t product(const struct neuron_program *p, int64_t number, uint16_t power)
{
    for (int s = 0; s < p->nsizes; s++)
        for (int k = power >> 2 * s & NEURON_POWER; k; k--)
            if (__builtin_mul_overflow(number, p->size[s].value, &number) || llabs(number) >> 62)
                return INT64_MAX;
    return number;
}

static void put_sizes(const struct neuron_program *p, struct neuron_operand *o)
{
    const int64_t MOST = INT64_C(1) << 48;
    for (int k = 0; k < NEURON_TERMS; k++) {
        int64_t by = o->power[k] ? product(p, o->by[k], o->power[k]) : 0;
        o->offset = llabs(by) > MOST ? MOST : o->offset + by;
        o->by[k] = o->power[k] = 0;
    }
    for (int d = 0; d < o->ndims; d++) {
        int64_t stride = o->times[d] ? product(p, o->stride[d], o->times[d]) : o->stride[d];
        o->stride[d] = llabs(stride) > INT32_MAX ? INT32_MAX : stride; /* out of bounds, then */
        o->times[d] = 0;
    }
}

struct neuron_program *neuron_with_sizes(const struct neuron_program *p)
{
    struct neuron_program *to = neuron_program_new(p->core);
    bool fine = to != NULL;
    for (int k = 0; fine && k < p->ntensors; k++)
        fine = neuron_add_tensor(to, &p->tensors[k]) == k;
    for (int k = 0; fine && k < p->nsizes; k++)
        fine = neuron_add_size(to, p->size[k].name, strlen(p->size[k].name), p->size[k].reg) == k;
    for (int k = 0; fine && k < p->nsizes; k++)
        neuron_set_size(to, k, p->size[k].value);
    for (int e = 0; fine && e < NEURON_NENGINES; e++) {
        struct neuron_stream *s = &to->stream[e];
        s->n = s->room = p->stream[e].n;
        s->code = malloc(((size_t)s->n + 1) * sizeof *s->code);
        fine = s->code != NULL;
        for (int k = 0; fine && k < s->n; k++) {
            s->code[k] = p->stream[e].code[k];
            for (int o = 0; o < s->code[k].noperands; o++)
                put_sizes(to, &s->code[k].operand[o]);
        }
    }
    if (!fine)
        neuron_program_free(to);
    return fine ? to : NULL;
}

bool neuron_add(struct neuron_program *p, enum neuron_engine e, const struct neuron_instr *i)
{
    struct neuron_stream *s = &p->stream[e];
    if (s->n >= 1 << 27 || !GROWN(s->code, s->n, s->room, 64))
        return false;
    s->code[s->n++] = *i;
    return true;
}

int neuron_find_tensor(const struct neuron_program *p, const char *name, size_t n)
{
    for (int k = 0; k < p->ntensors; k++)
        if (same(p->tensors[k].name, name, n))
            return k;
    return -1;
}
