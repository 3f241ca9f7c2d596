/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.c - values on chip and the instructions of the lanes. Floats are computed by Vector in float32 and rounded to
 * their type where they are stored; integers by GpSimd, exactly; functions by Scalar. A value that is the same along an
 * axis has stride 0 there.
 */
#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

/* NEURON_NTYPES: the engines have none. */
static enum neuron_type type_of(enum tcc_dtype d)
{
    switch (d) {
    case TCC_F32: return NEURON_F32;
    case TCC_F16: return NEURON_F16;
    case TCC_BF16: return NEURON_BF16;
    case TCC_F8E5M2: return NEURON_E5M2;
    case TCC_BOOL:
    case TCC_U8: return NEURON_U8;
    case TCC_I8: return NEURON_I8;
    case TCC_U16: return NEURON_U16;
    case TCC_I16: return NEURON_I16;
    case TCC_U32: return NEURON_U32;
    case TCC_I64: /* a word of them */
    case TCC_U64:
    case TCC_I32: return NEURON_I32;
    default: return NEURON_NTYPES;
    }
}

bool nk_has_type(enum tcc_dtype d)
{
    return type_of(d) != NEURON_NTYPES;
}

enum neuron_type nk_type(struct nk *nk, enum tcc_dtype d)
{
    enum neuron_type type = type_of(d);
    if (type == NEURON_NTYPES)
        nk_refuse(nk, "the engines have no type %s", tcc_dtype_name(d));
    return type;
}

static bool is_float(const struct nk_value *v)
{
    return tcc_dtype_class((enum tcc_dtype)v->dtype) == TCC_CLASS_FLOAT;
}

static bool is_exact_int(const struct nk_value *v)
{
    return !is_float(v) && v->dtype != TCC_BOOL;
}

/* -- Patterns ---------------------------------------------------------------------------------------------------- */

void nk_pattern_add(struct nk_pattern *p, int64_t size, int64_t stride, bool apart)
{
    int last = p->n - 1;
    if (size == 1 && !apart)
        return;
    if (!apart && last >= 0 && p->stride[last] == stride * size) {
        p->size[last] *= size;
        p->stride[last] = stride;
        return;
    }
    p->size[p->n] = size;
    p->stride[p->n++] = stride;
}

bool nk_pattern_put(const struct nk_pattern *p, struct neuron_operand *o, int most)
{
    bool hbm = o->space == NEURON_HBM;
    if (p->n > most)
        return false;
    o->ndims = (uint8_t)(p->n ? p->n : 1);
    o->size[0] = 1;
    o->stride[0] = 1;
    for (int d = 0; d < p->n; d++) {
        int64_t limit = hbm ? NK_FAR : INT16_MAX;
        if (p->size[d] > (hbm ? INT32_MAX : UINT16_MAX) ||
            (p->size[d] > 1 && (p->stride[d] > limit || p->stride[d] < -limit)))
            return false;
        o->size[d] = (uint32_t)p->size[d];
        o->stride[d] = p->size[d] > 1 ? p->stride[d] : 1;
    }
    return true;
}

static struct neuron_operand place(const struct nk_value *v)
{
    return (struct neuron_operand){
        .space = v->buffer->space, .type = v->type, .reg = NEURON_NO_REGISTER, .offset = v->buffer->offset + v->offset};
}

struct neuron_operand nk_operand(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, int cut, int *inner)
{
    struct neuron_operand o = place(v);
    struct nk_pattern p = {0};
    int outer = 0;
    o.count = (uint8_t)t->axis[0].extent;
    for (int a = 1; a < t->n; a++) {
        bool first = cut && a == t->n - cut;
        if (first)
            outer = p.n;
        nk_pattern_add(&p, t->axis[a].extent, v->stride[a], first);
    }
    if (inner)
        *inner = p.n - outer;
    if (!nk_pattern_put(&p, &o, 4))
        nk_refuse(nk, "an access pattern of %d dims", p.n);
    return o;
}

struct neuron_operand nk_box_operand(struct nk *nk, const struct nk_tile *t, const struct nk_value *v,
                                     const struct nk_box *b, bool *fits)
{
    struct neuron_operand o = place(v);
    struct nk_pattern p = {0};
    o.start = (uint8_t)b->lo[0];
    o.count = (uint8_t)b->n[0];
    for (int a = 1; a < t->n; a++) {
        o.offset += b->lo[a] * v->stride[a] * neuron_type_bytes((enum neuron_type)v->type);
        nk_pattern_add(&p, b->n[a], v->stride[a], false);
    }
    (void)nk;
    *fits = nk_pattern_put(&p, &o, 4);
    return o;
}

struct neuron_operand nk_literal(double v)
{
    return (struct neuron_operand){.space = NEURON_NUMBER, .reg = NEURON_NO_REGISTER, .number = (float)v};
}

/* -- Values -------------------------------------------------------------------------------------------------------- */

int64_t nk_free_elements(const struct nk_tile *t)
{
    int64_t n = 1;
    for (int a = 1; a < t->n; a++)
        n *= t->axis[a].extent;
    return n;
}

struct nk_value *nk_new(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d)
{
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    int64_t n = 1;
    *v = (struct nk_value){.dtype = (uint8_t)d, .type = (uint8_t)nk_type(nk, d)};
    for (int a = t->n - 1; a > 0; a--) {
        v->stride[a] = (int32_t)n;
        n *= t->axis[a].extent;
    }
    if (n > 65535)
        nk_full(nk, "a value of more than 65,535 elements a partition");
    v->buffer = nk_sbuf(nk, n * neuron_type_bytes((enum neuron_type)v->type));
    return v;
}

struct nk_value *nk_number(struct nk *nk, enum tcc_dtype d, double number)
{
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    *v = (struct nk_value){.dtype = (uint8_t)d, .type = (uint8_t)nk_type(nk, d), .is_number = true, .number = number};
    return v;
}

bool nk_distinct(const struct nk_tile *t, int n, const struct nk_value *const *values, struct nk_tile *part)
{
    int changes = 0, last = -1, none = 0;
    *part = *t;
    for (int a = 1; a < t->n; a++) {
        int stays = 1;
        for (int k = 0; k < n; k++)
            stays &= values[k]->is_number || !values[k]->stride[a];
        if (t->axis[a].extent == 1)
            continue;
        changes += last >= 0 && stays != last;
        last = stays;
        none += stays;
        if (stays)
            part->axis[a].extent = 1;
    }
    return none && changes <= 1;
}

const struct nk_value *nk_spread(struct nk *nk, const struct nk_tile *t, const struct nk_tile *part,
                                 const struct nk_value *v)
{
    if (v->is_number)
        return v;
    struct nk_value *to = IR_NEW(nk->ctx, struct nk_value);
    *to = *v;
    for (int a = 1; a < t->n; a++)
        if (part->axis[a].extent != t->axis[a].extent)
            to->stride[a] = 0;
    if (v->high)
        to->high = nk_spread(nk, t, part, v->high);
    return to;
}

enum neuron_engine nk_lighter(const struct nk *nk, const struct nk_tile *t)
{
    enum { FEW = 256 };
    enum neuron_core_kind c = nk->machine->core;
    int64_t n = nk_free_elements(t);
    bool scalar = nk->work[NEURON_SCALAR] + nk_cycle_ticks(c, NEURON_SCALAR) * n <
                  nk->work[NEURON_VECTOR] + nk_cycle_ticks(c, NEURON_VECTOR) * n;
    return n >= FEW && scalar ? NEURON_SCALAR : NEURON_VECTOR;
}

static void run(struct nk *nk, enum neuron_engine e, struct neuron_instr *i, const struct nk_value *to,
                const struct nk_value *a, const struct nk_value *b)
{
    struct nk_use uses[3] = {{to->buffer, true, 0}};
    int n = 1;
    if (a && !a->is_number)
        uses[n++] = (struct nk_use){a->buffer, false, 0};
    if (b && !b->is_number)
        uses[n++] = (struct nk_use){b->buffer, false, 0};
    nk_emit(nk, e, i, n, uses);
}

static bool is_float_number(double v)
{
    return (double)(float)v == v || v != v;
}

void nk_fill(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, double number)
{
    struct neuron_instr i = {.op = NEURON_OP_MEMSET, .noperands = 2};
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_literal(number);
    if ((to->type == NEURON_I32 || to->type == NEURON_U32) && !is_float_number(number)) {
        i = (struct neuron_instr){.op = NEURON_OP_IOTA, .noperands = 1, .operand = {i.operand[0]}};
        i.operand[0].type = NEURON_I32;
        neuron_set_attr(&i, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)(int64_t)number});
        run(nk, NEURON_GPSIMD, &i, to, NULL, NULL);
        return;
    }
    run(nk, NEURON_VECTOR, &i, to, NULL, NULL);
}

const struct nk_value *nk_solid(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    if (v->is_number) {
        struct nk_value *to = nk_new(nk, t, (enum tcc_dtype)v->dtype);
        nk_fill(nk, t, to, v->number);
        if (v->high)
            to->high = nk_solid(nk, t, v->high);
        return to;
    }
    return v->buffer->space == NEURON_SBUF ? v : nk_copy(nk, t, (enum tcc_dtype)v->dtype, v);
}

/* GpSimd where integers go in and come out: exact, and modulo their width. */
static enum neuron_engine engine_for(const struct nk_value *to, const struct nk_value *a, const struct nk_value *b)
{
    bool floats = is_float(to) || is_float(a) || (b && is_float(b));
    bool exact = is_exact_int(to) || is_exact_int(a) || (b && is_exact_int(b));
    return exact && !floats ? NEURON_GPSIMD : NEURON_VECTOR;
}

struct nk_value *nk_ts(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                       const struct nk_value *a, double b)
{
    const struct nk_value *number = nk_number(nk, (enum tcc_dtype)a->dtype, b);
    return nk_tt(nk, t, d, op, a, number);
}

static struct nk_value *with_number(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                                    const struct nk_value *a, const struct nk_value *number, bool reversed)
{
    struct nk_value *to = nk_new(nk, t, d);
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_SCALAR, .noperands = 3};
    enum neuron_engine e = op == NEURON_ALU_POW ? NEURON_GPSIMD : engine_for(to, a, NULL);
    if (e == NEURON_GPSIMD)
        a = nk_solid(nk, t, a);
    if (e == NEURON_VECTOR && is_float(to) && is_float(a) && (op == NEURON_ALU_MUL || op == NEURON_ALU_ADD))
        e = nk_lighter(nk, t);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, a, 0, NULL);
    i.operand[2] = nk_literal(number->number);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op});
    neuron_set_attr(&i, NEURON_ATTR_REV0, (union neuron_value){.i = reversed});
    run(nk, e, &i, to, a, NULL);
    return to;
}

struct nk_value *nk_tt(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                       const struct nk_value *a, const struct nk_value *b)
{
    if (a->is_number && (b->is_number || !is_float_number(a->number)))
        a = nk_solid(nk, t, a);
    if (b->is_number && !is_float_number(b->number))
        b = nk_solid(nk, t, b);
    if (b->is_number)
        return with_number(nk, t, d, op, a, b, false);
    if (a->is_number)
        return with_number(nk, t, d, op, b, a, true);
    struct nk_value *to = NULL;
    if (op != NEURON_ALU_POW)
        to = nk_by_column(nk, t, d, op, a, b, false);
    if (!to && op != NEURON_ALU_POW)
        to = nk_by_column(nk, t, d, op, b, a, true);
    if (to)
        return to;
    to = nk_new(nk, t, d);
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_TENSOR, .noperands = 3};
    enum neuron_engine e = op == NEURON_ALU_POW ? NEURON_GPSIMD : engine_for(to, a, b);
    if (e == NEURON_GPSIMD || (a->buffer->space == NEURON_PSUM && b->buffer->space == NEURON_PSUM))
        a = nk_solid(nk, t, a);
    if (e == NEURON_GPSIMD)
        b = nk_solid(nk, t, b);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, a, 0, NULL);
    i.operand[2] = nk_operand(nk, t, b, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op});
    run(nk, e, &i, to, a, b);
    return to;
}

struct nk_value *nk_act(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_func f,
                        const struct nk_value *a, double scale)
{
    struct nk_value *to = nk_new(nk, t, d);
    struct neuron_instr i = {.op = NEURON_OP_ACTIVATION, .noperands = 2};
    if (a->is_number)
        a = nk_solid(nk, t, a);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, a, 0, NULL);
    if (scale != 1)
        i.operand[i.noperands++] = nk_literal(scale);
    neuron_set_attr(&i, NEURON_ATTR_FN, (union neuron_value){.i = f});
    run(nk, NEURON_SCALAR, &i, to, a, NULL);
    return to;
}

struct nk_value *nk_powers(struct nk *nk, const struct nk_tile *t, const struct nk_value *x, enum neuron_alu op0,
                           double a, enum neuron_alu op1, double b)
{
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_SCALAR, .noperands = 4};
    x = nk_solid(nk, t, x);
    struct nk_value *to = nk_new(nk, t, TCC_F32);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, x, 0, NULL);
    i.operand[2] = nk_literal(a);
    i.operand[3] = nk_literal(b);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = op0});
    neuron_set_attr(&i, NEURON_ATTR_OP1, (union neuron_value){.i = op1});
    run(nk, NEURON_GPSIMD, &i, to, x, NULL);
    return to;
}

/* Vector takes eight cycles an element, GpSimd's power one. */
struct nk_value *nk_inverse(struct nk *nk, const struct nk_tile *t, const struct nk_value *a)
{
    enum { FEW = 16 };
    struct nk_tile part;
    if (nk_distinct(t, 1, &a, &part))
        return (struct nk_value *)nk_spread(nk, t, &part, nk_inverse(nk, &part, a));
    if (nk_free_elements(t) >= FEW)
        return nk_ts(nk, t, TCC_F32, NEURON_ALU_POW, a, -1);
    struct nk_value *to = nk_new(nk, t, TCC_F32);
    struct neuron_instr i = {.op = NEURON_OP_RECIPROCAL, .noperands = 2};
    a = nk_solid(nk, t, a);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, a, 0, NULL);
    run(nk, NEURON_VECTOR, &i, to, a, NULL);
    return to;
}

void nk_copy_to(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *a)
{
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_COPY, .noperands = 2};
    bool exact = !is_float(to) && !is_float(a) && to->type != a->type;
    if (to->high)
        nk_copy_to(nk, t, to->high, nk_high(nk, t, a));
    if (a->is_number) {
        nk_fill(nk, t, to, a->number);
        return;
    }
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, a, 0, NULL);
    run(nk, exact ? NEURON_GPSIMD : is_float(to) && is_float(a) ? nk_lighter(nk, t) : NEURON_VECTOR, &i, to, a, NULL);
}

struct nk_value *nk_copy(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, const struct nk_value *a)
{
    struct nk_value *to = nk_new(nk, t, d);
    if (a->high && nk_is_wide(d))
        to->high = nk_new(nk, t, TCC_I32);
    nk_copy_to(nk, t, to, a);
    return to;
}

/* May a result of type d lie in v's place? */
static bool takes_result(const struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, const struct nk_value *v)
{
    bool dense = !v->is_number && v->dtype == d && v->type == type_of(d) && v->buffer == nk->dying &&
                 v->buffer->space == NEURON_SBUF && !v->buffer->stays;
    for (int a = 1; dense && a < t->n; a++)
        dense = t->axis[a].extent == 1 || v->stride[a];
    return dense;
}

/* A mask that is one element a partition lies in PSUM: from there a copy takes half the time. */
static const struct nk_value *in_psum(struct nk *nk, const struct nk_tile *t, const struct nk_value *mask)
{
    enum { FEW = 256 };
    struct nk_tile part;
    if (nk_free_elements(t) < FEW || !nk_distinct(t, 1, &mask, &part) || nk_free_elements(&part) > 1 ||
        mask->buffer->space == NEURON_PSUM)
        return mask;
    struct nk_value to = {.dtype = TCC_F32, .type = NEURON_F32, .buffer = nk_psum(nk)};
    nk_copy_to(nk, &part, &to, mask);
    return nk_spread(nk, t, &part, &to);
}

/* Integers of 32 bits by arithmetic modulo 2^32, since copies by a mask go through float32. */
struct nk_value *nk_select(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, const struct nk_value *mask,
                           const struct nk_value *yes, const struct nk_value *no)
{
    if (nk_type(nk, d) == NEURON_I32 || nk_type(nk, d) == NEURON_U32) {
        const struct nk_value *difference = nk_tt(nk, t, d, NEURON_ALU_SUB, yes, no);
        difference = nk_tt(nk, t, d, NEURON_ALU_MUL, difference, mask);
        return nk_tt(nk, t, d, NEURON_ALU_ADD, difference, no);
    }
    const struct nk_value *to = takes_result(nk, t, d, no) && yes->buffer != no->buffer ? no : nk_copy(nk, t, d, no);
    struct neuron_instr i = {.op = NEURON_OP_TENSOR_COPY_PREDICATED, .noperands = 3};
    if (yes->is_number)
        yes = nk_solid(nk, t, yes);
    if (mask->is_number)
        mask = nk_solid(nk, t, mask);
    mask = in_psum(nk, t, mask);
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, yes, 0, NULL);
    i.operand[2] = nk_operand(nk, t, mask, 0, NULL);
    struct nk_use uses[] = {
        {to->buffer, true, 0}, {to->buffer, false, 0}, {yes->buffer, false, 0}, {mask->buffer, false, 0}};
    nk_emit(nk, NEURON_VECTOR, &i, 4, uses);
    if (mask->buffer->space == NEURON_PSUM)
        nk_release(nk, mask->buffer);
    return (struct nk_value *)to;
}
