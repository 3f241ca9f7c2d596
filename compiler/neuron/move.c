/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.c - loads and stores: a DMA, or an instruction of the lanes for operands on chip, for each box in which the
 * access is linear. Where boxes cut partitions at places at which instructions can't begin, transfers go by way of a
 * temporary tensor in HBM, whose boxes are free.
 *
 * Integers of 64 bits are loaded with their words side by side, and stored a word at a time. Accesses by indices are
 * index.c's.
 */
#include "compiler/neuron/hbm_int.h"

#include <stdlib.h>

static struct neuron_instr transfer(const struct nk *nk, bool out)
{
    struct neuron_instr i = {.op = NEURON_OP_DMA, .noperands = 2};
    (void)nk;
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = out ? NK_QUEUE_OUT : NK_QUEUE_IN});
    return i;
}

/* Does an operand on chip begin at a partition where one of that many may? */
static bool begins_well(const struct nk_box *b)
{
    int64_t unit = b->n[0] > 64 ? 128 : b->n[0] > 32 ? 64 : 32;
    return b->lo[0] % unit == 0;
}

/* Elements `line` of a tensor, over a box. words: 2 where an element is an i64, of which word `word` is meant. */
static bool in_hbm(const struct nk_buffer *b, int type, int words, int word, const struct nk_line *line,
                   const struct nk_box *box, int naxes, struct neuron_operand *o)
{
    struct nk_pattern p = {0};
    *o = (struct neuron_operand){
        .space = NEURON_HBM, .type = (uint8_t)type, .reg = NEURON_NO_REGISTER, .tensor = b->tensor};
    o->offset = (line->base * words + word) * neuron_type_bytes((enum neuron_type)type);
    for (int a = 0; a < naxes; a++)
        nk_pattern_add(&p, box->n[a], line->coef[a] * words, false);
    return nk_pattern_put(&p, o, NEURON_DIMS);
}

/* Cuts a box along its shortest axis that is longer than 1, but for partitions where others are. */
static int shortest(const struct nk_box *b, int naxes)
{
    int best = -1;
    for (int a = naxes - 1; a >= 0; a--)
        if (b->n[a] > 1 && (best < 0 || (a && b->n[a] < b->n[best])))
            best = a;
    return best;
}

/* Box `b` of `v` and elements of a tensor, one way or the other. `other`: the tensor's side on chip is HBM as well, at
 * these elements. */
struct moved {
    const struct nk_tile *t;
    const struct nk_value *v; /* on chip; NULL: `hbm`, at `there` */
    struct nk_buffer *tensor, *hbm;
    struct nk_line there;
    int type, words, word;
    bool out;
    int group;
};

static void move_box(struct nk *nk, const struct moved *m, const struct nk_box *b, const struct nk_line *line)
{
    struct neuron_operand far, near;
    bool fits = in_hbm(m->tensor, m->type, m->words, m->word, line, b, m->t->n, &far), fits2;
    if (m->v) {
        near = nk_box_operand(nk, m->t, m->v, b, &fits2);
    } else {
        struct nk_line l = m->there;
        for (int a = 0; a < m->t->n; a++)
            l.base += l.coef[a] * b->lo[a];
        fits2 = in_hbm(m->hbm, m->type, 1, 0, &l, b, m->t->n, &near);
    }
    if (!fits || !fits2) {
        int a = shortest(b, m->t->n);
        if (a < 0)
            nk_refuse(nk, "an access that has no pattern");
        for (int64_t i = 0; i < b->n[a]; i++) {
            struct nk_box one = *b;
            struct nk_line l = *line;
            one.lo[a] += i;
            one.n[a] = 1;
            l.base += l.coef[a] * i;
            if (m->v && !begins_well(&one))
                nk_refuse(nk, "an access of too many dims over partitions");
            move_box(nk, m, &one, &l);
        }
        return;
    }
    struct neuron_instr i = transfer(nk, m->out);
    i.operand[m->out] = near;
    i.operand[!m->out] = far;
    struct nk_buffer *on_chip = m->v ? m->v->buffer : m->hbm;
    struct nk_use uses[2] = {{m->tensor, m->out, m->out ? m->group : 0}, {on_chip, !m->out, m->out ? 0 : m->group}};
    nk_emit(nk, m->out ? NEURON_GPSIMD : NEURON_SYNC, &i, 2, uses);
}

/* A tensor to go by. They take turns. */
static struct nk_buffer *temporary(struct nk *nk, int64_t bytes)
{
    struct nk_buffer **b = &nk->temp[nk->next_temp];
    nk->next_temp ^= 1;
    if (!*b) {
        char name[] = "temp0";
        name[4] = (char)('0' + (b - nk->temp));
        *b = nk_add_tensor(nk, name, NEURON_TEMP, NEURON_U8, 64);
    }
    bytes = (bytes + 63) / 64 * 64;
    if (nk->p->tensors[(*b)->tensor].dims[0] < bytes)
        nk->p->tensors[(*b)->tensor].dims[0] = bytes;
    return *b;
}

/* Its elements in the order of the tile's axes. */
static struct nk_line in_order(const struct nk_tile *t)
{
    struct nk_line l = {0};
    int64_t n = 1;
    for (int a = t->n - 1; a >= 0; a--) {
        l.coef[a] = n;
        n *= t->axis[a].extent;
    }
    return l;
}

static void move_pieces(struct nk *nk, struct moved m, const struct nk_pieces *pieces, bool filled)
{
    bool direct = true;
    for (int i = 0; i < pieces->n; i++)
        direct &= begins_well(&pieces->at[i].box);
    if (direct) {
        for (int i = 0; i < pieces->n; i++)
            move_box(nk, &m, &pieces->at[i].box, &pieces->at[i].line);
        return;
    }
    /* By a temporary tensor: what fills it first, then the boxes, then all of it; or all of it, then the boxes. */
    struct nk_box all = nk_whole(m.t);
    struct nk_line order = in_order(m.t);
    int64_t elements = m.t->axis[0].extent * nk_free_elements(m.t);
    struct nk_buffer *temp = temporary(nk, elements * neuron_type_bytes((enum neuron_type)m.type));
    struct moved whole = {.t = m.t, .v = m.v, .tensor = temp, .type = m.type, .words = 1};
    struct moved boxes = m;
    boxes.v = NULL;
    boxes.hbm = temp;
    boxes.there = order;
    whole.out = true;
    if (m.out || filled)
        move_box(nk, &whole, &all, &order);
    for (int i = 0; i < pieces->n; i++)
        move_box(nk, &boxes, &pieces->at[i].box, &pieces->at[i].line);
    whole.out = false;
    if (!m.out)
        move_box(nk, &whole, &all, &order);
}

/* -- Operands on chip ---------------------------------------------------------------------------------------------- */

/* Local operand `operand` at the elements of a line: one value, of which boxes are used. */
static struct nk_value local_at(struct nk *nk, const struct nk_tile *t, int operand, const struct nk_line *l)
{
    const struct kn_operand *o = &nk->k->operands[operand];
    struct nk_value v = {
        .dtype = (uint8_t)o->dtype, .type = (uint8_t)nk_type(nk, o->dtype), .buffer = nk->local[operand]};
    int64_t n = nk->local_elements[operand];
    v.offset = l->base * neuron_type_bytes((enum neuron_type)v.type);
    if (l->coef[0])
        nk_refuse(nk, "a row buffer that partitions share");
    for (int a = t->n - 1; a > 0; a--) {
        v.stride[a] = (int32_t)l->coef[a];
        if (a < t->nouter) {
            v.stride[a] += (int32_t)n;
            n *= t->axis[a].extent;
        }
    }
    if (nk_is_wide(o->dtype)) { /* behind all low words */
        struct nk_value *high = IR_NEW(nk->ctx, struct nk_value);
        *high = v;
        high->dtype = TCC_I32;
        high->offset += n * neuron_type_bytes((enum neuron_type)v.type);
        v.high = high;
    }
    return v;
}

static void copy_box(struct nk *nk, const struct nk_tile *t, const struct nk_box *b, const struct nk_value *to,
                     const struct nk_value *from)
{
    struct nk_tile part = *t;
    struct nk_value x = *to, y = *from;
    if (b->lo[0] || b->n[0] != t->axis[0].extent)
        nk_refuse(nk, "a row buffer whose guards depend on partitions");
    for (int a = 1; a < t->n; a++) {
        part.axis[a].extent = b->n[a];
        x.offset += b->lo[a] * x.stride[a] * neuron_type_bytes((enum neuron_type)x.type);
        y.offset += b->lo[a] * y.stride[a] * neuron_type_bytes((enum neuron_type)y.type);
    }
    x.high = y.high = NULL;
    nk_copy_to(nk, &part, &x, &y);
    if (to->high)
        copy_box(nk, t, b, to->high, nk_high(nk, t, from));
}

/* The line is at the box's first point; as of the tile's. */
static struct nk_line from_tile(const struct nk_tile *t, const struct nk_piece *p)
{
    struct nk_line l = p->line;
    for (int a = 0; a < t->n; a++)
        l.base -= l.coef[a] * p->box.lo[a];
    return l;
}

/* -- Loads and stores ---------------------------------------------------------------------------------------------- */

/* The tile with one point of the axes along which a line stays where it is (nk_distinct()). */
static bool without_repeats(const struct nk_tile *t, const struct nk_line *l, struct nk_tile *part)
{
    struct nk_value v = {0};
    for (int a = 1; a < t->n; a++)
        v.stride[a] = l->coef[a] != 0;
    return nk_distinct(t, 1, (const struct nk_value *const[]){&v}, part);
}

static bool has_repeats(const struct nk_tile *t, const struct nk_value *v)
{
    bool found = false;
    for (int a = 1; a < t->n; a++)
        found |= t->axis[a].extent > 1 && !v->stride[a];
    return found;
}

/* Elements that lie side by side in HBM as the tile's axes have them, and on chip as v has them. NULL: as one made for
 * the tile does. */
static int64_t run_length(const struct nk_tile *t, const struct nk_line *l, const struct nk_value *v)
{
    int64_t run = 1;
    for (int a = t->n - 1; a > 0; a--) {
        if (t->axis[a].extent == 1)
            continue;
        if (l->coef[a] != run || (v && v->stride[a] != run))
            break;
        run *= t->axis[a].extent;
    }
    return run;
}

/* The tile with its free axes in the order of HBM, from[]: which of t's axes each was. False: rows of DMA are long as
 * they are, or would get no longer. */
static bool in_order_of_hbm(const struct nk_tile *t, const struct nk_line *l, const struct nk_value *v, int bytes,
                            struct nk_tile *to, int *from)
{
    enum { LONG_ROW = 512 };
    struct nk_line sorted = *l;
    *to = *t;
    for (int a = 0; a < t->n; a++)
        from[a] = a;
    for (int a = 2; a < t->n; a++)
        for (int b = a; b > 1 && llabs(sorted.coef[b]) > llabs(sorted.coef[b - 1]); b--) {
            int64_t coef = sorted.coef[b];
            struct nk_axis axis = to->axis[b];
            int was = from[b];
            sorted.coef[b] = sorted.coef[b - 1];
            to->axis[b] = to->axis[b - 1];
            from[b] = from[b - 1];
            sorted.coef[b - 1] = coef;
            to->axis[b - 1] = axis;
            from[b - 1] = was;
        }
    int64_t now = run_length(t, l, v);
    return now * bytes < LONG_ROW && run_length(to, &sorted, NULL) > now;
}

/* A value over the one tile as one over the other, the same axes in another order. */
static struct nk_value *reordered(struct nk *nk, int naxes, const int *from, const struct nk_value *v, bool back)
{
    struct nk_value *to = IR_NEW(nk->ctx, struct nk_value);
    *to = *v;
    for (int a = 0; a < naxes; a++)
        to->stride[back ? from[a] : a] = v->stride[back ? a : from[a]];
    return to;
}

/* Does its pattern leave a dim for who keeps one apart from the others? */
static bool has_few_dims(const struct nk_tile *t, const struct nk_value *v)
{
    struct nk_pattern p = {0};
    for (int a = 1; a < t->n; a++)
        nk_pattern_add(&p, t->axis[a].extent, v->stride[a], false);
    return p.n < 4;
}

/* A load in the order of HBM, where that makes rows of DMA longer; NULL: it does not. */
static const struct nk_value *load_in_order(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                                            const struct nk_line *line, const struct nk_value *otherwise)
{
    enum tcc_dtype d = nk->k->operands[n->operand].dtype;
    struct nk_tile part;
    struct nk_value strides = {0};
    int from[NK_AXES];
    if (!tcc_is_float(d) || !in_order_of_hbm(t, line, NULL, neuron_type_bytes(nk_type(nk, d)), &part, from))
        return NULL;
    for (int a = part.n - 1, side = 1; a > 0; side *= (int)part.axis[a--].extent)
        strides.stride[a] = side;
    if (!has_few_dims(t, reordered(nk, t->n, from, &strides, true)))
        return NULL;
    return reordered(nk, t->n, from, nk_load(nk, &part, n, otherwise), true);
}

/* The value as a store takes it, in the order of HBM over `part`: turned over on chip rather than moved element by
 * element. NULL: it lies well. */
static const struct nk_value *turned(struct nk *nk, const struct nk_tile *t, const struct nk_line *line,
                                     const struct nk_value *v, struct nk_tile *part)
{
    int from[NK_AXES];
    if (v->is_number || v->high ||
        !in_order_of_hbm(t, line, v, neuron_type_bytes((enum neuron_type)v->type), part, from))
        return NULL;
    const struct nk_value *x = reordered(nk, t->n, from, nk_computed(nk, t, v), false);
    return has_few_dims(part, x) ? nk_copy(nk, part, (enum tcc_dtype)v->dtype, x) : NULL;
}

/* Has the tile points that are in no piece? */
static bool leaves_some(const struct nk_tile *t, const struct nk_pieces *pieces)
{
    int64_t covered = 0;
    for (int i = 0; i < pieces->n; i++) {
        int64_t points = 1;
        for (int a = 0; a < t->n; a++)
            points *= pieces->at[i].box.n[a];
        covered += points;
    }
    return covered < t->axis[0].extent * nk_free_elements(t);
}

/* A new value of 64 bits whose words lie as in HBM, side by side: they come in one row of DMA. `t` and the pieces get
 * an axis for them. */
static struct nk_value *by_words(struct nk *nk, struct nk_tile *t, const struct nk_pieces *pieces, enum tcc_dtype d)
{
    struct nk_value *v, *high = IR_NEW(nk->ctx, struct nk_value);
    int last = t->n;
    if (last == NK_AXES)
        nk_refuse(nk, "integers of 64 bits over so many dims");
    for (int i = 0; i < pieces->n; i++) {
        struct nk_piece *p = &pieces->at[i];
        p->line.base *= 2;
        for (int a = 0; a < last; a++)
            p->line.coef[a] *= 2;
        p->line.coef[last] = 1;
        p->box.lo[last] = 0;
        p->box.n[last] = 2;
    }
    t->axis[t->n++] = (struct nk_axis){KN_MAX_DIMS - 1, 1, 2};
    v = nk_new(nk, t, d);
    v->stride[last] = 0;
    *high = *v;
    high->dtype = TCC_I32;
    high->offset += neuron_type_bytes((enum neuron_type)v->type);
    v->high = high;
    return v;
}

const struct nk_value *nk_load(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                               const struct nk_value *otherwise)
{
    struct nk_pieces pieces = {0};
    enum tcc_dtype d = nk->k->operands[n->operand].dtype;
    bool index = nk_has_index(nk, n), local = nk->k->operands[n->operand].use == KN_LOCAL;
    const struct nk_value *window = index || local ? NULL : nk_window(nk, t, n, otherwise);
    if (window)
        return window;
    bool whole = nk_pieces_of(nk, t, n, &pieces);
    if (index && local)
        nk_refuse(nk, "a gather from a row buffer");
    if (local && whole) {
        struct nk_value *view = IR_NEW(nk->ctx, struct nk_value);
        *view = local_at(nk, t, n->operand, &pieces.at[0].line);
        return view;
    }
    const struct nk_value *row = whole && !index ? nk_row(nk, t, n, &pieces.at[0].line) : NULL;
    if (row)
        return row;
    struct nk_tile part;
    if (whole && !index && without_repeats(t, &pieces.at[0].line, &part))
        return nk_spread(nk, t, &part, nk_load(nk, &part, n, otherwise));
    const struct nk_value *ordered = NULL;
    if (whole && !index && !local)
        ordered = load_in_order(nk, t, n, &pieces.at[0].line, otherwise);
    if (ordered)
        return ordered;
    bool wide = nk_is_wide(d), words = wide && !local && !index;
    struct nk_tile by_word = *t;
    struct nk_value *v = words ? by_words(nk, &by_word, &pieces, d) : nk_new(nk, t, d);
    if (wide && !words)
        v->high = nk_new(nk, t, TCC_I32);
    bool fill = leaves_some(t, &pieces);
    if (fill && otherwise)
        nk_copy_to(nk, t, v, otherwise);
    else if (fill)
        nk_copy_to(nk, t, v, nk_number(nk, d, 0));
    if (local) {
        for (int i = 0; i < pieces.n; i++) {
            struct nk_line l = from_tile(t, &pieces.at[i]);
            struct nk_value from = local_at(nk, t, n->operand, &l);
            copy_box(nk, t, &pieces.at[i].box, v, &from);
        }
        return v;
    }
    if (index) {
        nk_indexed(nk, t, n, v, &pieces, false);
        return v;
    }
    struct moved m = {
        .t = &by_word, .v = v, .tensor = nk->hbm[n->operand], .type = v->type, .words = 1, .group = ++nk->groups};
    struct nk_value both = *v;
    both.stride[t->n] = 1;
    m.v = &both;
    move_pieces(nk, m, &pieces, fill);
    return v;
}

/* A word of a tensor, the same for the whole tile; *one: a point of that in each partition. */
static struct nk_value *word_of(struct nk *nk, const struct nk_tile *t, struct nk_buffer *from, int64_t word,
                                struct nk_tile *one)
{
    *one = *t;
    for (int a = 1; a < t->n; a++)
        one->axis[a].extent = 1;
    struct nk_box box = nk_whole(one);
    struct nk_line line = {.base = word};
    struct nk_value *v = nk_new(nk, one, TCC_I32);
    struct moved m = {.t = one, .v = v, .tensor = from, .type = NEURON_I32, .words = 1, .group = ++nk->groups};
    move_box(nk, &m, &box, &line);
    return v;
}

const struct nk_value *nk_environment(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n)
{
    struct nk_tile one;
    struct nk_value *low = word_of(nk, t, nk->env, 2 * n->ivalue, &one),
                    *high = word_of(nk, t, nk->env, 2 * n->ivalue + 1, &one);
    low->dtype = n->dtype;
    low->high = high;
    return nk_spread(nk, t, &one, low);
}

const struct nk_value *nk_size(struct nk *nk, const struct nk_tile *t, int size)
{
    struct nk_tile one;
    struct nk_value *v = word_of(nk, t, nk->env, NEURON_ENV_SIZES + size, &one);
    return nk_spread(nk, t, &one, v);
}

const struct nk_value *nk_where(struct nk *nk, const struct nk_tile *t, int word)
{
    struct nk_tile one;
    struct nk_value *v = word_of(nk, t, nk->where_words, word, &one);
    return nk_spread(nk, t, &one, v);
}

void nk_store(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_value *v)
{
    struct nk_pieces pieces = {0};
    bool wide = nk_is_wide(nk->k->operands[n->operand].dtype);
    bool whole = nk_pieces_of(nk, t, n, &pieces);
    if (nk_has_index(nk, n)) {
        nk_indexed(nk, t, n, nk_solid(nk, t, v), &pieces, true);
        return;
    }
    if (nk->k->operands[n->operand].use == KN_LOCAL) {
        for (int i = 0; i < pieces.n; i++) {
            struct nk_line l = from_tile(t, &pieces.at[i]);
            struct nk_value to = local_at(nk, t, n->operand, &l);
            copy_box(nk, t, &pieces.at[i].box, &to, v);
        }
        return;
    }
    struct nk_tile part;
    const struct nk_value *ordered = whole && !wide ? turned(nk, t, &pieces.at[0].line, v, &part) : NULL;
    if (ordered) {
        nk_store(nk, &part, n, ordered);
        return;
    }
    v = nk_solid(nk, t, v);
    if (has_repeats(t, v)) /* rows of DMA are what lies side by side */
        v = nk_copy(nk, t, (enum tcc_dtype)v->dtype, v);
    struct moved m = {.t = t,
                      .v = v,
                      .tensor = nk->hbm[n->operand],
                      .type = v->type,
                      .words = wide ? 2 : 1,
                      .out = true,
                      .group = n->operand + 1}; /* a kernel writes each element once */
    move_pieces(nk, m, &pieces, false);
    if (!wide)
        return;
    m.v = nk_solid(nk, t, nk_high(nk, t, v));
    m.word = 1;
    move_pieces(nk, m, &pieces, false);
}
