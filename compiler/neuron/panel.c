/* SPDX-License-Identifier: Apache-2.0 */
/*
 * panel.c - factors of products whose elements a load finds in order: panels of up to 128 partitions of the summed dim
 * and any points of the factor's own, loaded in rows as long as HBM has them.
 *
 * A factor in which the own dim lies side by side is loaded as it is. One whose summed points lie side by side has to
 * be turned over: it is loaded with own points on partitions, 32 of them in each quadrant of partitions, and Vector
 * transposes blocks of 32 x 32 within quadrants, bits as they are. For that each of Q quadrants (four, where the summed
 * dim has a multiple of 128 points) holds a Q-th of the summed dim: partition 32 q + i of the j-th product is the point
 * q K / Q + 32 j + i, in both factors alike, so that the sum is over the same points. The taps of a convolution's
 * weights, which lie within a summed point, come with them: each is turned over by itself. Where a product has all
 * summed points, which are few, a row has several own points.
 *
 * Of MX formats, four neighbours of the sum are taps, and lie side by side in an element when they are on chip; 8
 * partitions of them have a scale. Their panels are quantised as they come.
 */
#include "compiler/neuron/neuron_int.h"

enum { BLOCK = 32, ROW_BYTES = 1024, LEAST_ROW = 512, MANY = 1024, MOST_GROUPED = 32 << 10, PACKED = 4 };

struct nk_panel {
    const struct kn_insn *load;
    enum tcc_dtype d;
    int summed, own; /* dims */
    bool turned;
    int64_t first, k, k_step,
        /* points of the summed dim, from that one on; elements from one of them to the next, of the own one's */
        own_step;
    int quadrants;
    int64_t products, step, last; /* how many, those of a buffer, partitions of the last one */
    int more;                     /* partitions behind these, which somebody else fills; */
    int group;                    /* and of the writes of all of them (struct nk_use) */
    int64_t taps, tap_step[KN_MAX_DIMS];
    int64_t lo, n;     /* own points that are on chip */
    int mx;            /* neuron_type of packed numbers; -1: there are none */
    int64_t neighbour; /* elements from one of them to the next */
    struct nk_value *at[NK_PANEL_PIECES], *scale[NK_PANEL_PIECES];
    int pieces;
};

/* The line of the load from own point `lo` and summed point `k` on, both as axes. */
static bool line_at(struct nk *nk, const struct nk_panel *p, const int64_t *base, int64_t k, int64_t lo, int64_t points,
                    int64_t n, struct nk_line *line)
{
    struct nk_pieces pieces = {0};
    struct nk_tile t = {.n = 2, .nouter = 2, .axis = {{p->summed, 1, points}, {p->own, 1, n}}};
    for (int d = 0; d < nk->k->ndims; d++)
        t.base[d] = base[d];
    t.base[p->summed] = p->first + k;
    t.base[p->own] = lo;
    if (!nk_pieces_of(nk, &t, p->load, &pieces))
        return false;
    *line = pieces.at[0].line;
    return true;
}

/* How the other summed dims lie within a point of the summed one; false: otherwise than side by side. */
static bool find_taps(struct nk *nk, struct nk_panel *p, const int64_t *base, uint32_t dims)
{
    int64_t last = 0;
    p->taps = 1;
    for (int d = 0; d < nk->k->ndims; d++) {
        struct nk_panel tap = *p;
        struct nk_line line;
        if (!(dims >> d & 1) || nk->extent[d] == 1)
            continue;
        tap.summed = d;
        if (!line_at(nk, &tap, base, 0, 0, nk->extent[d], 1, &line) || line.coef[0] < 1)
            return false;
        p->tap_step[d] = p->neighbour = line.coef[0];
        p->taps *= nk->extent[d];
        last += line.coef[0] * (nk->extent[d] - 1);
    }
    return p->mx >= 0 || last == p->taps - 1;
}

struct nk_panel *nk_panel_new(struct nk *nk, int load, int summed, int own, uint32_t taps, int mx, int64_t k)
{
    static const int64_t origin[KN_MAX_DIMS];
    struct nk_panel *p = IR_NEW(nk->ctx, struct nk_panel);
    const struct kn_insn *n = &nk->k->insns[load];
    enum tcc_dtype d = (enum tcc_dtype)n->dtype;
    struct nk_line line;
    if (kn_is_cast(n) && (d == TCC_BF16 || d == TCC_F16) && /* DMA converts */
        tcc_is_float((enum tcc_dtype)nk->k->insns[n->arg[0]].dtype))
        n = &nk->k->insns[n->arg[0]];
    if (n->code != KN_LOAD || n->nguards || nk->k->operands[n->operand].use == KN_LOCAL)
        return NULL;
    *p = (struct nk_panel){.load = n, .d = d, .summed = summed, .own = own, .k = k, .mx = mx};
    for (p->quadrants = 4; p->quadrants && p->k % (p->quadrants * BLOCK);)
        p->quadrants--;
    bool whole = p->quadrants > 0;
    p->quadrants = whole ? p->quadrants : 1;
    if (!line_at(nk, p, origin, 0, 0, p->k, nk->extent[own], &line))
        return NULL;
    p->k_step = line.coef[0];
    p->own_step = line.coef[1];
    if (!find_taps(nk, p, origin, taps))
        return NULL;
    p->turned = p->k_step == p->taps && p->own_step != 1;
    if (mx >= 0 ? !whole || p->taps != PACKED : (p->taps > 1 || !whole) && !p->turned)
        return NULL;
    if (p->turned ? p->own_step < 1 : p->own_step != 1 || p->k_step < 1)
        return NULL;
    int64_t bytes = neuron_type_bytes(nk_type(nk, p->d)), products;
    products = p->products = (p->k + p->quadrants * BLOCK - 1) / (p->quadrants * BLOCK);
    p->last = whole ? p->quadrants * BLOCK : p->k - BLOCK * (products - 1);
    p->step = p->turned ? ROW_BYTES / (BLOCK * bytes * p->taps) : 4;
    if (p->step < 1 || (p->turned && nk->extent[own] > BLOCK && nk->extent[own] < MANY && nk->extent[own] % BLOCK))
        p->step = 1; /* so that points lie side by side, and an operand has all of them */
    p->step = products < p->step ? products : p->step;
    if ((products + p->step - 1) / p->step > NK_PANEL_PIECES)
        return NULL;
    return p;
}

int64_t nk_panel_bytes(struct nk *nk, const struct nk_panel *p, int64_t n)
{
    if (p->mx >= 0) /* and a byte for the scale */
        return p->products * n * (neuron_type_bytes((enum neuron_type)p->mx) + 1);
    return p->taps * p->products * n * neuron_type_bytes(nk_type(nk, p->d));
}

int64_t nk_panel_loading(struct nk *nk, const struct nk_panel *p, int64_t n)
{
    return p->turned || p->mx >= 0 ? p->taps * p->step * n * neuron_type_bytes(nk_type(nk, p->d)) : 0;
}

bool nk_panel_turned(const struct nk_panel *p)
{
    return p->turned;
}

int nk_panel_values(const struct nk_panel *p, const struct nk_value **to)
{
    for (int i = 0; i < p->pieces; i++)
        to[i] = p->at[i];
    return p->pieces;
}

int64_t nk_panel_quarter(const struct nk_panel *p)
{
    return p->quadrants > 1 ? p->k / p->quadrants : 0;
}

bool nk_panel_holds(const struct nk_panel *p, int64_t lo, int64_t n)
{
    return p->pieces && p->lo == lo && p->n == n;
}

int64_t nk_panel_rows(const struct nk_panel *p, int64_t product)
{
    return product == p->products - 1 ? p->last : p->quadrants * BLOCK;
}

int64_t nk_panel_products(const struct nk_panel *p)
{
    return p->products;
}

int64_t nk_panel_part(const struct nk_panel *p, int64_t n, int64_t most)
{
    n = n < most ? n : most;
    return p->turned && n > BLOCK && p->step > 1 ? n - n % BLOCK : n;
}

bool nk_panel_extend(struct nk_panel *p, int rows)
{
    bool whole = p->products == 1 && p->taps == 1 && p->mx < 0 && p->k == p->quadrants * BLOCK;
    if (!whole || p->k + rows > NEURON_PARTITIONS)
        return false;
    p->more = rows;
    return true;
}

void nk_panel_at(struct nk_panel *p, int64_t first)
{
    p->first = first;
}

struct nk_panel *nk_panel_copy(struct nk *nk, const struct nk_panel *p)
{
    struct nk_panel *same = IR_NEW(nk->ctx, struct nk_panel);
    *same = *p;
    same->pieces = 0;
    return same;
}

/* Of `quadrants` quadrants of a buffer, `rows` partitions each: [rows, outer, inner] elements from the tensor, from
 * element `at` of the buffer on, where those of the inner dim are `row` apart. Several quadrants are loaded at once
 * where they are whole. */
static void load_quadrants(struct nk *nk, const struct nk_panel *p, const struct nk_value *v, int first, int quadrants,
                           int64_t at, int64_t rows, int64_t base, int64_t across, int64_t outer, int64_t outer_step,
                           int64_t inner, int64_t row, int group)
{
    if (!outer)
        return;
    struct nk_buffer *tensor = nk->hbm[p->load->operand];
    enum neuron_type type = nk_type(nk, nk->k->operands[p->load->operand].dtype);
    int64_t bytes = neuron_type_bytes((enum neuron_type)v->type);
    struct neuron_instr i = {.op = NEURON_OP_DMA, .noperands = 2};
    struct nk_pattern near = {0}, far = {0};
    neuron_set_attr(&i, NEURON_ATTR_QUEUE, (union neuron_value){.i = NK_QUEUE_IN});
    i.operand[0] = (struct neuron_operand){.space = NEURON_SBUF,
                                           .type = v->type,
                                           .reg = NEURON_NO_REGISTER,
                                           .start = (uint8_t)(BLOCK * first),
                                           .count = (uint8_t)(rows * quadrants),
                                           .offset = v->buffer->offset + at * bytes};
    i.operand[1] = (struct neuron_operand){.space = NEURON_HBM,
                                           .type = (uint8_t)type,
                                           .reg = NEURON_NO_REGISTER,
                                           .tensor = tensor->tensor,
                                           .offset = base * neuron_type_bytes(type)};
    int64_t packed = p->mx >= 0 && !p->turned ? PACKED : 1;
    nk_pattern_add(&near, outer, row * packed, false);
    nk_pattern_add(&near, packed, row, false);
    nk_pattern_add(&near, inner, 1, false);
    nk_pattern_add(&far, quadrants, p->k / p->quadrants * p->k_step, true);
    nk_pattern_add(&far, rows, across, true);
    nk_pattern_add(&far, outer, outer_step, false);
    nk_pattern_add(&far, packed, p->neighbour, false);
    nk_pattern_add(&far, inner, 1, false);
    if (!nk_pattern_put(&near, &i.operand[0], 4) || !nk_pattern_put(&far, &i.operand[1], NEURON_DIMS))
        nk_refuse(nk, "a panel that has no pattern");
    nk_emit(nk, NEURON_SYNC, &i, 2, (struct nk_use[]){{v->buffer, true, group}, {tensor, false, 0}});
}

static struct nk_value *elements(struct nk *nk, const struct nk_panel *p, int64_t n)
{
    struct nk_tile t = {.n = 2, .nouter = 2, .axis = {{p->own, 1, p->quadrants * BLOCK}, {p->own, 1, n}}};
    return nk_new(nk, &t, p->d);
}

static void clear(struct nk *nk, const struct nk_panel *p, const struct nk_value *v, int64_t n)
{
    struct nk_tile t = {.n = 2, .nouter = 2, .axis = {{p->own, 1, p->quadrants * BLOCK}, {p->own, 1, n}}};
    nk_fill(nk, &t, v, 0);
}

/* Where a product has all summed points, and own points follow each other in HBM: how many of them a row has, of n.
 * What of them a quadrant does not need is read all the same, so as not to pay for shorter rows. */
static int64_t group_of(struct nk *nk, const struct nk_panel *p, int64_t n)
{
    enum { HALF_RATE = 16 }; /* bytes between elements that engines take at half the rate */
    const struct kn_operand *o = &nk->k->operands[p->load->operand];
    int64_t part = p->k / p->quadrants, best = 1, least = 0, bytes = neuron_type_bytes(nk_type(nk, p->d)),
            there = neuron_type_bytes(nk_type(nk, o->dtype));
    if (!p->turned || p->products > 1 || p->taps > 1 || o->use != KN_IN || p->k % (p->quadrants * BLOCK))
        return 1;
    for (int64_t g = 1; g * bytes < HALF_RATE && n % (g * BLOCK) == 0; g *= 2) {
        int64_t row = (g - 1) * p->own_step + part, paid = row * (there > bytes ? there : bytes);
        paid = (paid > LEAST_ROW ? paid : LEAST_ROW) * n / g;
        if (row * n / g / BLOCK * bytes <= MOST_GROUPED && (g == 1 || paid < least)) {
            best = g;
            least = paid;
        }
    }
    return best;
}

/* Groups of own points, of which each partition has one in each block, turned over: so that points lie in order. */
static struct nk_value *load_groups(struct nk *nk, struct nk_panel *p, int64_t base, int64_t n, int64_t group)
{
    int64_t row = (group - 1) * p->own_step + p->k / p->quadrants, blocks = n / group / BLOCK;
    struct nk_tile t = {
        .n = 4,
        .nouter = 4,
        .axis = {{p->own, 1, p->quadrants * BLOCK}, {p->own, 1, blocks}, {p->own, 1, group}, {p->own, 1, BLOCK}}};
    struct nk_value *v = elements(nk, p, blocks * row), *to = elements(nk, p, n), x = *v, y = *to;
    struct neuron_instr i = {.op = NEURON_OP_TRANSPOSE32, .noperands = 2};
    load_quadrants(nk, p, v, 0, p->quadrants, 0, BLOCK, base, group * p->own_step, blocks, BLOCK * group * p->own_step,
                   row, row, ++nk->groups);
    x.stride[1] = (int32_t)row;
    x.stride[2] = (int32_t)p->own_step;
    x.stride[3] = 1;
    y.stride[1] = (int32_t)(group * BLOCK);
    y.stride[2] = 1;
    y.stride[3] = (int32_t)group;
    i.operand[0] = nk_operand(nk, &t, &y, 0, NULL);
    i.operand[1] = nk_operand(nk, &t, &x, 0, NULL);
    p->group = ++nk->groups;
    nk_emit(nk, NEURON_VECTOR, &i, 2, (struct nk_use[]){{to->buffer, true, p->group}, {v->buffer, false, 0}});
    nk_release(nk, v->buffer);
    return to;
}

/* n points of each tap, which in `from` is the innermost and in `to` the outermost dim, but for packed numbers. */
static void turn(struct nk *nk, struct nk_panel *p, const struct nk_value *to, const struct nk_value *from, int64_t n)
{
    struct nk_tile t = {.n = 2, .nouter = 2, .axis = {{p->own, 1, p->quadrants * BLOCK}, {p->own, 1, n}}};
    int64_t bytes = neuron_type_bytes((enum neuron_type)to->type);
    p->group = ++nk->groups;
    for (int64_t tap = 0; tap < p->taps; tap++) {
        struct neuron_instr i = {.op = NEURON_OP_TRANSPOSE32, .noperands = 2};
        struct nk_value x = *from, y = *to;
        x.stride[1] = (int32_t)p->taps;
        x.offset += tap * bytes;
        y.stride[1] = p->mx >= 0 ? PACKED : 1;
        y.offset += tap * (p->mx >= 0 ? 1 : n) * bytes;
        i.operand[0] = nk_operand(nk, &t, &y, 0, NULL);
        i.operand[1] = nk_operand(nk, &t, &x, 0, NULL);
        nk_emit(nk, NEURON_VECTOR, &i, 2, (struct nk_use[]){{to->buffer, true, p->group}, {from->buffer, false, 0}});
    }
}

struct nk_value *nk_quantise(struct nk *nk, const struct nk_tile *t, int mx, const struct nk_value *v,
                             struct nk_value **scale)
{
    struct nk_tile part = *t;
    part.n--;
    part.nouter--;
    struct nk_value *to = nk_new(nk, &part, TCC_F32);
    struct neuron_instr i = {.op = NEURON_OP_QUANTIZE_MX, .noperands = 3};
    *scale = nk_new(nk, &part, TCC_U8);
    to->type = (uint8_t)mx;
    i.operand[0] = nk_operand(nk, &part, to, 0, NULL);
    i.operand[1] = nk_operand(nk, &part, *scale, 0, NULL);
    i.operand[2] = nk_operand(nk, t, v, 0, NULL);
    nk_emit(nk, NEURON_VECTOR, &i, 3,
            (struct nk_use[]){{to->buffer, true, 0}, {(*scale)->buffer, true, 0}, {v->buffer, false, 0}});
    return to;
}

/* `from`, of `step` products of n own points, quantised; it is given back. */
static struct nk_value *quantise(struct nk *nk, const struct nk_panel *p, struct nk_value *from, int64_t step,
                                 int64_t n, struct nk_value **scale)
{
    struct nk_tile t = {
        .n = 4,
        .nouter = 4,
        .axis = {{p->own, 1, p->quadrants * BLOCK}, {p->own, 1, step}, {p->own, 1, n}, {p->own, 1, PACKED}}};
    struct nk_value x = *from;
    x.stride[1] = (int32_t)(PACKED * n);
    x.stride[2] = p->turned ? PACKED : 1;
    x.stride[3] = p->turned ? 1 : (int32_t)n;
    struct nk_value *to = nk_quantise(nk, &t, p->mx, &x, scale);
    nk_release(nk, from->buffer);
    return to;
}

void nk_panel_load(struct nk *nk, struct nk_panel *p, const int64_t *base, int64_t lo, int64_t n)
{
    int64_t quarter = p->k / p->quadrants, products = p->products, whole = n / BLOCK, rest = n % BLOCK;
    int64_t padded = p->turned ? (whole + (rest > 0)) * BLOCK : n, group_size = group_of(nk, p, n);
    nk_panel_release(nk, p);
    p->lo = lo;
    p->n = n;
    if (group_size > 1) {
        struct nk_line line;
        if (!line_at(nk, p, base, 0, lo, 1, 1, &line))
            nk_refuse(nk, "a panel whose addresses are not linear");
        p->at[p->pieces++] = load_groups(nk, p, line.base, n, group_size);
        return;
    }
    for (int64_t j = 0; j < products; j += p->step) {
        int64_t step = products - j < p->step ? products - j : p->step;
        struct nk_value *v = elements(nk, p, padded * step * p->taps);
        int group = p->group = ++nk->groups;
        int64_t row = BLOCK * step * p->taps, inner = row;
        if (j + step == products) /* zeros are summed, too */
            inner -= (p->quadrants * BLOCK - p->last) * p->taps;
        if (p->turned && (rest || inner < row))
            clear(nk, p, v, padded * step * p->taps);
        struct nk_line line;
        if (!line_at(nk, p, base, j * BLOCK, lo, 1, 1, &line))
            nk_refuse(nk, "a panel whose addresses are not linear");
        if (!p->turned)
            load_quadrants(nk, p, v, 0, p->quadrants, 0, BLOCK, line.base, p->k_step, step, BLOCK * p->k_step, n, n,
                           group);
        else /* own points on partitions */
            load_quadrants(nk, p, v, 0, p->quadrants, 0, BLOCK, line.base, p->own_step, whole, BLOCK * p->own_step,
                           inner, row, group);
        for (int q = 0; p->turned && rest && q < p->quadrants; q++)
            load_quadrants(nk, p, v, q, 1, whole * row, rest,
                           line.base + q * quarter * p->k_step + whole * BLOCK * p->own_step, p->own_step, 1, 0, inner,
                           row, group);
        if (p->turned) {
            struct nk_value *turned = elements(nk, p, padded * step * p->taps);
            turn(nk, p, turned, v, padded * step);
            nk_release(nk, v->buffer);
            v = turned;
        }
        if (p->mx >= 0)
            v = quantise(nk, p, v, step, padded, &p->scale[p->pieces]);
        p->at[p->pieces++] = v;
    }
}

void nk_panel_release(struct nk *nk, struct nk_panel *p)
{
    for (int i = 0; i < p->pieces; i++) {
        nk_release(nk, p->at[i]->buffer);
        if (p->mx >= 0)
            nk_release(nk, p->scale[i]->buffer);
    }
    p->pieces = 0;
}

static struct neuron_operand part_of(struct nk *nk, const struct nk_panel *p, struct nk_value *const *pieces,
                                     int64_t product, int64_t lo, int64_t n, const int64_t *at,
                                     struct nk_buffer **buffer)
{
    int64_t piece = product / p->step, j = product % p->step, from = lo - p->lo, step = p->products - piece * p->step;
    step = step < p->step ? step : p->step;
    const struct nk_value *v = pieces[piece];
    struct nk_pattern pattern = {0};
    struct neuron_operand o = {.space = NEURON_SBUF,
                               .type = v->type,
                               .reg = NEURON_NO_REGISTER,
                               .count = (uint8_t)(nk_panel_rows(p, product) + p->more),
                               .offset = v->buffer->offset};
    int64_t first = p->turned ? (from / BLOCK * step + j) * BLOCK : j * p->n + from, tap = 0;
    for (int x = 0; x < nk->k->ndims; x++)
        tap += p->tap_step[x] * at[x];
    first += tap * step * ((p->n + BLOCK - 1) / BLOCK * BLOCK);
    if (p->turned && n > BLOCK && step > 1) {
        nk_pattern_add(&pattern, n / BLOCK, step * BLOCK, false);
        nk_pattern_add(&pattern, BLOCK, 1, false);
    } else {
        nk_pattern_add(&pattern, n, 1, false);
    }
    o.offset += first * neuron_type_bytes((enum neuron_type)v->type);
    if (!nk_pattern_put(&pattern, &o, 4))
        nk_refuse(nk, "a panel that has no pattern");
    *buffer = v->buffer;
    return o;
}

struct neuron_operand nk_panel_every(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                     int64_t every, const int64_t *at, struct nk_buffer **buffer)
{
    struct neuron_operand o = part_of(nk, p, p->at, product, lo, 1, at, buffer);
    int64_t step = p->products - product / p->step * p->step;
    struct nk_pattern pattern = {0};
    step = step < p->step ? step : p->step;
    if (p->turned) /* part_of() begins with a block */
        o.offset += (lo - p->lo) % BLOCK * neuron_type_bytes((enum neuron_type)o.type);
    if (p->turned && step > 1) {
        nk_pattern_add(&pattern, n * every / BLOCK, step * BLOCK, false);
        nk_pattern_add(&pattern, BLOCK / every, every, false);
    } else {
        nk_pattern_add(&pattern, n, every, false);
    }
    if (!nk_pattern_put(&pattern, &o, 4))
        nk_refuse(nk, "a panel that has no pattern");
    return o;
}

struct neuron_operand nk_panel_operand(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                       const int64_t *at, struct nk_buffer **buffer)
{
    return part_of(nk, p, p->at, product, lo, n, at, buffer);
}

struct neuron_operand nk_panel_more(struct nk *nk, const struct nk_panel *p, int64_t lo, int64_t n, struct nk_use *use)
{
    static const int64_t origin[KN_MAX_DIMS];
    struct neuron_operand o = part_of(nk, p, p->at, 0, lo, n, origin, &use->b);
    use->write = true;
    use->group = p->group;
    o.start = (uint8_t)p->k;
    o.count = (uint8_t)p->more;
    return o;
}

struct neuron_operand nk_panel_scale(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                     const int64_t *at, struct nk_buffer **buffer)
{
    return part_of(nk, p, p->scale, product, lo, n, at, buffer);
}
