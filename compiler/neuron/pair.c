/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.c - fewer passes over the elements of a tile. A value that is the same for all elements of a partition is an
 * operand of its own kind, a column, with which Vector takes half the time that it takes with two tensors; and an
 * operation with a number or a column waits for the one operation that reads its result, where that can be the second
 * half of the same instruction.
 */
#include "compiler/neuron/neuron_int.h"

enum { ROW = 128, ROWS = 32 }; /* elements that an instruction of its own pays for; instructions */

static bool is_f32(enum tcc_dtype d)
{
    return d == TCC_F32;
}

/* The first axis from which on the value stays the same. */
static int repeats_from(const struct nk_tile *t, const struct nk_value *v)
{
    int a = t->n;
    while (a > 1 && (t->axis[a - 1].extent == 1 || !v->stride[a - 1]))
        a--;
    return a;
}

/* Is it a float, the same for all elements of a partition, of which there are several? */
static bool nk_is_column(const struct nk_tile *t, const struct nk_value *v)
{
    return !v->is_number && tcc_is_float((enum tcc_dtype)v->dtype) && repeats_from(t, v) == 1 &&
           nk_free_elements(t) > 1;
}

/* Column operands are float32. NULL: the value has no part to convert alone. */
static const struct nk_value *as_column(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    struct nk_tile part;
    if (v->type == NEURON_F32)
        return v;
    if (!nk_distinct(t, 1, &v, &part))
        return NULL;
    return nk_spread(nk, t, &part, nk_copy(nk, &part, TCC_F32, v));
}

static struct neuron_operand column(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    return v->is_number ? nk_literal(v->number) : nk_operand(nk, &one, v, 0, NULL);
}

static struct nk_value part_of(const struct nk_value *v, const struct nk_tile *t, int axes, int64_t row)
{
    struct nk_value part = *v;
    for (int a = axes - 1; a > 0; a--) {
        part.offset += row % t->axis[a].extent * v->stride[a] * neuron_type_bytes((enum neuron_type)v->type);
        row /= t->axis[a].extent;
    }
    for (int a = axes; a < t->n; a++)
        part.stride[a - axes + 1] = v->stride[a];
    return part;
}

static bool commutes(enum neuron_alu op)
{
    return op == NEURON_ALU_ADD || op == NEURON_ALU_MUL;
}

/* to = `form` of x and what repeats along a row, one instruction for each of `rows` rows: they are tiles of `row`, t's
 * axes from `axes` on. */
static void emit_by_row(struct nk *nk, const struct nk_tile *t, const struct nk_tile *row, int axes, int64_t rows,
                        enum neuron_engine e, const struct neuron_instr *form, const struct nk_value *to,
                        const struct nk_value *x, const struct nk_value *with)
{
    int group = ++nk->groups;
    for (int64_t r = 0; r < rows; r++) {
        struct neuron_instr i = *form;
        struct nk_value to_row = part_of(to, t, axes, r), x_row = part_of(x, t, axes, r),
                        with_row = part_of(with, t, axes, r);
        i.operand[0] = nk_operand(nk, row, &to_row, 0, NULL);
        i.operand[1] = nk_operand(nk, row, &x_row, 0, NULL);
        for (int o = 2; o < form->noperands; o++)
            i.operand[o] = column(nk, t, &with_row);
        nk_emit(nk, e, &i, 3,
                (struct nk_use[]){{to->buffer, true, group}, {x->buffer, false, 0}, {with->buffer, false, 0}});
    }
}

struct nk_value *nk_by_column(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                              const struct nk_value *x, const struct nk_value *with, bool reversed)
{
    int axes = repeats_from(t, with);
    int64_t rows = 1, length = 1;
    struct nk_tile row = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    for (int a = 1; a < t->n; a++) {
        *(a < axes ? &rows : &length) *= t->axis[a].extent;
        if (a >= axes)
            row.axis[row.n++] = t->axis[a];
    }
    if (!tcc_is_float((enum tcc_dtype)with->dtype) || (!tcc_is_float((enum tcc_dtype)x->dtype) && d != TCC_BOOL) ||
        x->high || length == 1 || (rows > 1 && (length < ROW || rows > ROWS)) || repeats_from(t, x) <= axes ||
        !(with = as_column(nk, t, with)))
        return NULL;
    struct nk_value *to = nk_new(nk, t, d);
    bool adds = op == NEURON_ALU_SUB && !reversed && axes == 1; /* with the column's negative, as Scalar may */
    enum neuron_engine e = (commutes(op) || adds) && tcc_is_float(d) ? nk_lighter(nk, t) : NEURON_VECTOR;
    if (adds && e == NEURON_SCALAR) {
        struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
        with = nk_spread(nk, t, &one, nk_ts(nk, &one, TCC_F32, NEURON_ALU_MUL, with, -1));
        op = NEURON_ALU_ADD;
    }
    struct neuron_instr form = {.op = NEURON_OP_TENSOR_SCALAR, .noperands = 3};
    neuron_set_attr(&form, NEURON_ATTR_OP0, (union neuron_value){.i = op});
    neuron_set_attr(&form, NEURON_ATTR_REV0, (union neuron_value){.i = reversed && !commutes(op)});
    emit_by_row(nk, t, &row, axes, rows, e, &form, to, x, with);
    return to;
}

/* -- Pairs --------------------------------------------------------------------------------------------------------- */

/* The only reader of an instruction's value, in its own stage; -1: there are none, or several. */
int nk_reader_of(const struct kn_kernel *k, int insn)
{
    int found = -1, stage = 0;
    for (int i = insn + 1; i < k->ninsns; i++)
        for (int a = 0; a < k->insns[i].nargs; a++)
            if (k->insns[i].arg[a] == insn) {
                if (found >= 0)
                    return -1;
                found = i;
            }
    while (insn >= k->stages[stage].last)
        stage++;
    return found < k->stages[stage].last ? found : -1;
}

static bool pairs_well(enum neuron_alu op)
{
    return op == NEURON_ALU_ADD || op == NEURON_ALU_SUB || op == NEURON_ALU_MUL || op == NEURON_ALU_MAX ||
           op == NEURON_ALU_MIN;
}

static bool fits_beside(const struct nk_tile *t, const struct nk_value *v)
{
    return v->is_number ? (double)(float)v->number == v->number || v->number != v->number
                        : nk_is_column(t, v) && v->type == NEURON_F32;
}

/* A function of Scalar may take a column along that is added or taken off. */
static bool takes_bias(const struct nk_tile *t, const struct kn_insn *reader, enum neuron_alu op,
                       const struct nk_value *with, bool reversed)
{
    enum neuron_func f;
    return reader->nargs == 1 && is_f32((enum tcc_dtype)reader->dtype) && nk_is_function((enum ir_op)reader->op, &f) &&
           !with->is_number && nk_is_column(t, with) && with->type == NEURON_F32 &&
           (op == NEURON_ALU_ADD || (op == NEURON_ALU_SUB && !reversed));
}

const struct nk_value *nk_bias(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    struct nk_tile one = {.n = 1, .nouter = 1, .axis = {t->axis[0]}};
    const struct nk_half *h = v->half;
    return h->op == NEURON_ALU_SUB ? nk_ts(nk, &one, TCC_F32, NEURON_ALU_MUL, h->with, -1) : h->with;
}

const struct nk_value *nk_wait(struct nk *nk, const struct nk_tile *t, int insn, const struct nk_value *const *args)
{
    const struct kn_kernel *k = nk->k;
    const struct kn_insn *n = &k->insns[insn];
    struct nk_tile part;
    if (n->code != KN_SCALAR || n->nargs != 2 || !is_f32((enum tcc_dtype)n->dtype) ||
        !pairs_well(nk_alu_of((enum ir_op)n->op)) || args[0]->half || args[1]->half || nk_distinct(t, 2, args, &part))
        return NULL;
    int reader = nk_reader_of(k, insn), second = fits_beside(t, args[1]);
    if (reader < 0 || k->insns[reader].code != KN_SCALAR || !(second || fits_beside(t, args[0])))
        return NULL;
    if (!takes_bias(t, &k->insns[reader], nk_alu_of((enum ir_op)n->op), args[second], !second) &&
        (k->insns[reader].nargs != 2 || nk_alu_of((enum ir_op)k->insns[reader].op) == NEURON_ALU_BYPASS ||
         nk_alu_of((enum ir_op)k->insns[reader].op) == NEURON_ALU_POW))
        return NULL;
    const struct nk_value *x = args[!second];
    if (x->is_number || nk_is_column(t, x))
        return NULL;
    struct nk_half *half = IR_NEW(nk->ctx, struct nk_half);
    struct nk_value *v = IR_NEW(nk->ctx, struct nk_value);
    *half = (struct nk_half){x, args[second], nk_alu_of((enum ir_op)n->op), !second};
    *v = *x;
    v->dtype = TCC_F32;
    v->half = half;
    return v;
}

const struct nk_value *nk_computed(struct nk *nk, const struct nk_tile *t, const struct nk_value *v)
{
    const struct nk_half *h = v->half;
    if (!h)
        return v;
    return nk_tt(nk, t, TCC_F32, h->op, h->reversed ? h->with : h->x, h->reversed ? h->x : h->with);
}

struct nk_value *nk_pair(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                         const struct nk_value *a, const struct nk_value *b)
{
    bool reversed = !a->half;
    const struct nk_value *first = reversed ? b : a, *other = nk_computed(nk, t, reversed ? a : b);
    const struct nk_half *h = first->half;
    bool beside = fits_beside(t, other), scales = h->op == NEURON_ALU_MUL || h->op == NEURON_ALU_ADD;
    if (!beside && !other->is_number && other->buffer->space == NEURON_PSUM && other->buffer->stays && scales) {
        first = nk_computed(nk, t, first); /* Scalar's, and the other in half the time (keep.c) */
        return nk_tt(nk, t, d, op, reversed ? other : first, reversed ? first : other);
    }
    if (!beside && other->is_number)
        other = nk_solid(nk, t, other);
    if (!beside && other->buffer->space == NEURON_PSUM && h->x->buffer->space == NEURON_PSUM)
        other = nk_solid(nk, t, other);
    struct nk_value *to = nk_new(nk, t, d);
    struct neuron_instr i = {.op = beside ? NEURON_OP_TENSOR_SCALAR : NEURON_OP_SCALAR_TENSOR_TENSOR, .noperands = 4};
    i.operand[0] = nk_operand(nk, t, to, 0, NULL);
    i.operand[1] = nk_operand(nk, t, h->x, 0, NULL);
    i.operand[2] = column(nk, t, h->with);
    i.operand[3] = beside ? column(nk, t, other) : nk_operand(nk, t, other, 0, NULL);
    neuron_set_attr(&i, NEURON_ATTR_OP0, (union neuron_value){.i = h->op});
    neuron_set_attr(&i, NEURON_ATTR_OP1, (union neuron_value){.i = op});
    neuron_set_attr(&i, NEURON_ATTR_REV0, (union neuron_value){.i = h->reversed && !commutes(h->op)});
    neuron_set_attr(&i, NEURON_ATTR_REV1, (union neuron_value){.i = reversed && !commutes(op)});
    bool scalar = beside && h->op == NEURON_ALU_MUL && op == NEURON_ALU_ADD && tcc_is_float(d);
    struct nk_use uses[4] = {{to->buffer, true, 0}, {h->x->buffer, false, 0}};
    int n = 2;
    if (!h->with->is_number)
        uses[n++] = (struct nk_use){h->with->buffer, false, 0};
    if (!other->is_number)
        uses[n++] = (struct nk_use){other->buffer, false, 0};
    nk_emit(nk, scalar ? nk_lighter(nk, t) : NEURON_VECTOR, &i, n, uses);
    return to;
}

/* -- Selects by an index ------------------------------------------------------------------------------------------- */

bool nk_is_hot(const struct kn_kernel *k, const struct kn_stage *g, int insn, struct nk_hot *to)
{
    const struct kn_insn *n = &k->insns[insn], *equal;
    if (n->code != KN_SCALAR || n->op != IR_select || !is_f32((enum tcc_dtype)n->dtype) || n->arg[0] < g->first ||
        k->insns[n->arg[2]].code != KN_CONST)
        return false;
    equal = &k->insns[n->arg[0]];
    if (equal->code != KN_SCALAR || equal->op != IR_eq || nk_reader_of(k, n->arg[0]) != insn)
        return false;
    for (int a = 0; a < 2; a++) {
        int e = equal->arg[a];
        if (e < g->first || k->insns[e].code != KN_EXPR || nk_reader_of(k, e) != n->arg[0] || equal->arg[!a] == e ||
            tcc_is_float((enum tcc_dtype)k->insns[e].dtype))
            continue;
        *to = (struct nk_hot){n->arg[0], e, equal->arg[!a]};
        return true;
    }
    return false;
}

const struct nk_value *nk_select_hot(struct nk *nk, const struct nk_tile *t, ir_expr e, const struct nk_value *index,
                                     const struct nk_value *yes, double no)
{
    enum { MOST = 1 << 24 };
    struct nk_box all = nk_whole(t);
    struct nk_line l;
    int axis, last = t->n - 1;
    int64_t at, lo, hi, rows = 1;
    while (last > 0 && t->axis[last].extent == 1)
        last--;
    if (last < 1 || yes->is_number || yes->high || index->is_number || index->stride[last] ||
        nk_line_of(nk, t, &all, e, &l, &axis, &at) != NK_LINEAR || l.coef[last] != 1)
        return NULL;
    for (int a = 0; a < last; a++) {
        rows *= a ? t->axis[a].extent : 1;
        if (l.coef[a] && t->axis[a].extent > 1)
            return NULL;
    }
    nk_line_range(&l, &all, &lo, &hi);
    if (lo <= -MOST || hi >= MOST || t->axis[last].extent < (rows > 1 ? ROW : 1) || rows > ROWS)
        return NULL;
    struct nk_tile row = {.n = 2, .nouter = 1, .axis = {t->axis[0], t->axis[last]}};
    const struct nk_value *which = nk_index_as_float(nk, t, index);
    struct nk_value *to = nk_new(nk, t, TCC_F32);
    struct neuron_instr form = {.op = NEURON_OP_RANGE_SELECT, .noperands = 4};
    neuron_set_attr(&form, NEURON_ATTR_OP0, (union neuron_value){.i = NEURON_ALU_EQ});
    neuron_set_attr(&form, NEURON_ATTR_OP1, (union neuron_value){.i = NEURON_ALU_EQ});
    neuron_set_attr(&form, NEURON_ATTR_BASE, (union neuron_value){.i = (int32_t)l.base});
    neuron_set_attr(&form, NEURON_ATTR_FILL, (union neuron_value){.f = (float)no});
    emit_by_row(nk, t, &row, last, rows, NEURON_VECTOR, &form, to, yes, which);
    return to;
}
