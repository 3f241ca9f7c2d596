/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.c - convolutions by Winograd's algorithm: kernels that passes/kernel/winograd.c makes.
 *
 * A tile of the launch is some of the tiles (2 x 2 to 4 x 4 results, 2 to 7 along one axis) of one image, all their
 * channels or some blocks of output channels:
 *
 *     for tiles, input blocks:  v[tile][frequency][channel] = transform      lanes are channels
 *     for panels of 32 or 16 output channels:
 *       for 3 to 121 frequencies, blocks of mr tiles:  m[half][tile][frequency][16] = v u      register tiles, as in
 *       contract_micro.c for halves, tiles:  transform back, epilogue, store
 *
 * The stages' bodies are emitted as they stand, with their row buffers moved to the tile's place. As many tiles are
 * taken at once as pays: each pass over them reads all weights, and few of them fill no register tile. A tile of the
 * launch that has the same ones as the tile before finds v as that left it. A long filter's products sum over its short
 * ones, too, each with v of the tiles so many further on: v is there for as many tiles more.
 */
#include "compiler/cpu/emit_int.h"
#include "base/mutant.h"
#include "ir/winograd.h"

#include <string.h>

enum { BLOCK = IR_WINOGRAD_BLOCK, LINE = 16 }; /* elements */
enum { FAR = 2 << 20 };                        /* bytes; measured with second caches of 1 MB */
enum {
    REGISTER_ROWS = 14,
    MOST_TILE = 16,
    LEAST_ROWS = 2 * REGISTER_ROWS,
    MOST_ROWS = 8 * REGISTER_ROWS
}; /* of tiles, where sizes are known only at run time */

struct wg {
    struct em *e;
    const struct kn_kernel *k;
    struct kn_winograd r;
    int64_t frequencies, channels, room; /* of input; tiles that v and m have room for */
    int64_t filters, depth;              /* of a long one; products of a sum */
    int panel;                           /* output channels */
    bool from_far; /* an image's lines come from behind the second cache, so that it is read block by block */
    LLVMValueRef scratch, first, ntiles;
};

static int64_t v_step(const struct wg *g)
{
    return g->frequencies * g->channels + 16; /* not a multiple of a page: tiles would fall into one set */
}

static bool study(const struct kn_kernel *k, struct wg *g)
{
    *g = (struct wg){.k = k, .r = k->roles.winograd};
    if (k->roles.form != KN_WINOGRAD)
        return false;
    g->channels = ir_const_or(k->dims[g->r.in_block].extent, 0) * BLOCK;
    g->frequencies = ir_const_or(k->dims[g->r.frequency].extent, 0);
    g->filters = g->r.filter < 0 ? 1 : ir_const_or(k->dims[g->r.filter].extent, 0);
    g->depth = g->filters * g->channels;
    const struct kn_operand *u = &k->operands[k->insns[g->r.load_u].operand];
    g->panel = (int)ir_const_or(u->dims[u->rank - 1], 0);
    return g->frequencies > 0 && g->depth > 0 && (g->panel == BLOCK || g->panel == 2 * BLOCK);
}

/* Channels whose values are lanes of one vector, where LLVM finds no instruction that reads one for all; 1: it does. */
static int by_lane(const struct cpu_machine *m)
{
    return m->lane_product ? m->lane_bytes / 4 : 1;
}

/* -- What pays ------------------------------------------------------------------------------------------ */

/* Two blocks; one, where the last panel would be half empty. Rows of a register tile are of two vectors all the same,
 * or of one, which reads as much for half of the products: it gains with 16, 48 and 80 channels. */
int cpu_winograd_panel(const struct pass_machine *m, int64_t channels)
{
    enum { FEW = 6 };
    int64_t blocks = channels / BLOCK;
    bool two = ((const struct cpu_machine *)m)->emit.vector_bytes <= 2 * BLOCK;
    return blocks % 2 && (two || blocks < FEW) ? BLOCK : 2 * BLOCK;
}

/* What is open of a sequence's sizes: samples, of which strides leave few. */
static bool samples(void *user, ir_expr sym, int64_t *out)
{
    enum { SAMPLES = 2048 };
    (void)user;
    (void)sym;
    *out = SAMPLES;
    return true;
}

/* A size of a result that is not known: a sequence has as many elements as a small image, at most. */
static int64_t size_of(ir_type y, int axis)
{
    enum { SEQUENCE = 256 };
    int64_t n;
    if (y->rank != 3)
        return ir_const_or(y->dim[axis], CPU_IMAGE_GUESS);
    if (ir_is_const(y->dim[axis], &n) || (ir_eval(y->dim[axis], samples, NULL, &n) && n > 0 && n < SEQUENCE))
        return n;
    return SEQUENCE;
}

/* Of a point and a vector of channels, there and back. */
static double transform_cycles(const struct ir_winograd w[2])
{
    return w[0].points == 1 || w[1].points == 1 ? 4 : ir_winograd_points(w) > 16 ? 5.8 : 5;
}

/* Cycles of a convolution by tiles of that form, or directly (NULL): products at two vectors a cycle while weights come
 * at four bytes a cycle (a layer alone gets eight, with which densenet121 took larger tiles, a fifth more room, and was
 * no faster), and such as the second cache does not hold are waited for in part; and what the transforms of a vector of
 * a tile's channels take. Within a fifth of what was measured on layers of 64 to 512 channels, images of 7 to 224. */
static double cost(const struct pass_machine *m, const struct ir_node *n, const struct ir_winograd *w)
{
    ir_type x = n->in[0].value->type, u = n->in[1].value->type, y = n->out[0]->type;
    int64_t images = ir_const_or(x->dim[0], 1), c = ir_const_or(u->dim[1], 0), o = ir_const_or(y->dim[1], 0),
            points = w ? ir_winograd_points(w) : 1, count = images, filters = w ? ir_winograd_filters(w) : 1;
    for (int i = 2; i < y->rank; i++) {
        const struct ir_winograd *along = w ? &w[i + 2 - y->rank] : NULL;
        int64_t each = along ? along->results * along->dilation : 1;
        count *= (size_of(y, i) + each - 1) / each * (along ? along->dilation : 1);
        points *= w ? 1 : ir_const_or(u->dim[i], 1);
    }
    const struct cpu_machine *cpu = (const struct cpu_machine *)m;
    double vector = (double)cpu->emit.vector_bytes / 4, tiles = (double)count;
    int64_t panel = w ? cpu_winograd_panel(m, o) : 1, wide = (o + panel - 1) / panel * panel;
    double pairs = (double)(points * filters) * (double)c * (double)wide, products = pairs * tiles / (2 * vector),
           fetch = pairs * (double)images, waits = pairs * 4 > (double)cpu->l2 ? pairs / 4 : 0,
           transforms = w ? transform_cycles(w) * ir_winograd_points(w) : 0;
    /* Weights that change are transformed in each run: written, put into panels. */
    double weights = w && !ir_const_of(n->in[1].value) ? 3 * pairs / vector : 0;
    c *= ir_get_i(n, IR_ATTR_groups, 1);
    return (products > fetch ? products : fetch) + waits + transforms * tiles * (double)(c + o) / vector + weights;
}

/* By how much the direct way is faster on operands of that type than on floats. */
static double gain_of(const struct pass_machine *m, enum tcc_dtype d)
{
    bool pairs = d == TCC_BF16 && ((const struct cpu_machine *)m)->multiplies_bf16;
    return pairs ? CPU_BF16_GAIN : tcc_small_float(d) ? CPU_F16_GAIN : 1;
}

/*
 * A form must gain a fifth on the direct way, and two fifths by steps, whose weights take the most room: in a network
 * they come from memory in each run, which took what 3x3 by steps of 2 gained alone (resnet50). Tiles of more results
 * have the larger errors and weights: they must gain a tenth on those of 2.
 */
static double chosen(const struct pass_machine *m, const struct ir_node *n, int *results)
{
    enum { MOST_OF_TWO = 4 }; /* along either of two axes */
    struct ir_winograd w[2];
    double direct = cost(m, n, NULL) / gain_of(m, (enum tcc_dtype)n->in[0].value->type->dtype), least = direct,
           two = direct;
    *results = 0;
    for (int i = 2; i < IR_WINOGRAD_POINTS; i++) {
        if (!ir_winograd_of(n, i, w) || (i > MOST_OF_TWO && w[0].taps > 1 && w[1].taps > 1))
            continue;
        double cycles = cost(m, n, w), most = w[0].stride > 1 || w[1].stride > 1 ? 0.6 : 0.8;
        two = i == 2 ? cycles : two;
        if (cycles >= least || cycles >= most * direct || (i > 2 && cycles >= 0.9 * two))
            continue;
        *results = i;
        least = cycles;
    }
    return least;
}

int cpu_winograd(const struct pass_machine *m, const struct ir_node *n)
{
    enum { MOST_GROUPS = 4 }; /* kernels, for each of which threads meet */
    struct ir_winograd w[2];
    ir_type x = n->in[0].value->type, y = n->out[0]->type;
    int64_t groups = ir_get_i(n, IR_ATTR_groups, 1), each = BLOCK * groups;
    int64_t c = ir_const_or(x->dim[1], 0), o = ir_const_or(y->dim[1], 0);
    int results;
    if (!ir_winograd_of(n, 2, w) || groups > MOST_GROUPS || c < each || o < each || c % each || o % each)
        return 0;
    for (int i = 2; i < y->rank; i++)
        if (w[i + 2 - y->rank].taps > 1 && size_of(y, i) < 4)
            return 0;
    chosen(m, n, &results);
    return results;
}

double cpu_winograd_cycles(const struct pass_machine *m, const struct ir_node *n)
{
    int results;
    return cpu_winograd(m, n) ? chosen(m, n, &results) : cost(m, n, NULL);
}

/* Of a row of a register tile. */
static int vectors_of(const struct cpu_machine *m, int panel)
{
    int lanes = cpu_lanes(m, 4);
    return panel < 2 * lanes ? panel / lanes : 2;
}

/* Passes over a panel. */
static int parts_of(const struct cpu_machine *m, int panel)
{
    return panel / (vectors_of(m, panel) * cpu_lanes(m, 4));
}

/* Tiles of a register tile's rows at most. */
static int most_rows(const struct cpu_machine *m, int panel)
{
    int vectors = vectors_of(m, panel), most = (m->registers - vectors - (m->emit.fma ? 1 : 2)) / vectors;
    most = most > MOST_TILE ? MOST_TILE : most;
    return by_lane(m) > 1 && most > m->lane_rows ? m->lane_rows : most;
}

/* Cycles of a step of the sum over channels for so many tiles: blocks of rows differ by one row at most. */
static double step_cost(const struct cpu_machine *m, int panel, int64_t tiles)
{
    int most = most_rows(m, panel);
    int64_t blocks = (tiles + most - 1) / most, rows = tiles / blocks, more = tiles % blocks;
    double row = vectors_of(m, panel) / 2., few = (double)rows * row, many = (double)(rows + 1) * row;
    few = few > 4 ? few : 4; /* a sum's own latency */
    many = many > 4 ? many : 4;
    return few * (double)(blocks - more) + many * (double)more + 0.4 * (double)blocks;
}

/*
 * In how many pieces an image's tiles are cut. Each reads all weights, of which the second cache or what lies behind it
 * gives 32 bytes a cycle beside products; rows of v and m that it does not hold cost some 60 cycles each, for each
 * panel (both measured on layers of 64 to 512 channels). Two threads share the pieces.
 */
static int64_t choose_pieces(const struct cpu_machine *m, const struct wg *g, int64_t tiles, int64_t blocks)
{
    int64_t best = 1, wanted = tiles >= 48 ? 4 : 1;
    double least = 0, weights = (double)(g->frequencies * g->depth) * (double)(blocks * BLOCK) * 4,
           panels = (double)((blocks * BLOCK + g->panel - 1) / g->panel),
           steps = (double)(g->frequencies * g->depth) * panels * parts_of(m, g->panel);
    for (int64_t pieces = wanted; pieces <= tiles; pieces++) {
        int64_t each = (tiles + pieces - 1) / pieces, last = tiles - (pieces - 1) * each;
        if (last <= 0)
            continue;
        double held = (double)((each + g->filters - 1) * v_step(g) + each * 2 * g->frequencies * BLOCK) * 4;
        double cycles = steps * (step_cost(m, g->panel, each) * (double)(pieces - 1) + step_cost(m, g->panel, last)),
               fetch = (double)pieces * weights / (weights > 8. * (double)m->l2 ? 8 : 32);
        cycles = (cycles > fetch ? cycles : fetch) + (double)pieces * weights / 32;
        if (held > (double)m->l2)
            cycles += panels * (double)(tiles * g->frequencies) * 60;
        cycles *= (double)((pieces + 1) / 2 * 2) / (double)(pieces > 1 ? pieces : 2);
        if (pieces == wanted || cycles < 0.99 * least) {
            best = pieces;
            least = cycles;
        }
    }
    return best == 1 && blocks <= 2 && tiles >= 16 ? 2 : best; /* one panel: nothing else is left to share */
}

/*
 * In how many shares the blocks of output channels are cut, for machines of many cores: a thread that has several of a
 * piece's, which are tiles one behind the other, transforms it once (transform_once()); a share is worth some
 * microseconds.
 */
static int64_t choose_shares(const struct kn_kernel *k, const struct wg *g, int64_t pieces, int64_t each,
                             int64_t blocks)
{
    enum { TILES = 64, LEAST_WORK = 250000 };
    int64_t images = ir_const_or(k->dims[g->r.image].extent, 1), shares = TILES / (pieces * (images > 0 ? images : 1)),
            most = 2 * g->frequencies * g->depth * each * blocks * BLOCK / LEAST_WORK;
    shares = shares < most ? shares : most;
    return shares < 1 ? 1 : shares;
}

/*
 * Sizes that are known only at run time: so many tiles as leave v in the second cache, and read weights at half the
 * rate of products at least. Of weights that stay in that cache besides, as few as do: there may be no more than those
 * of a small image, for all threads.
 */
static int64_t unknown_tiles(const struct cpu_machine *m, const struct wg *g, int64_t blocks)
{
    int64_t fit = m->l2 / (v_step(g) * 4);
    if (g->frequencies * g->depth * blocks * BLOCK * 4 <= m->l2 / 4)
        return LEAST_ROWS;
    return fit < LEAST_ROWS ? LEAST_ROWS : fit > MOST_ROWS ? MOST_ROWS : fit / REGISTER_ROWS * REGISTER_ROWS;
}

/* Tiles that v and m take: register tiles reach beyond the last, long filters read further on. */
static int64_t room_of(const struct wg *g, int64_t tiles)
{
    return tiles + 16 + g->filters - 1;
}

static bool schedule_winograd(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct wg g;
    if (!study(k, &g))
        return false;
    int64_t tiles = ir_const_or(k->dims[g.r.tile].extent, 0), blocks = ir_const_or(k->dims[g.r.out_block].extent, 1);
    int64_t pieces = tiles ? choose_pieces(m, &g, tiles, blocks) : 2,
            each = tiles ? (tiles + pieces - 1) / pieces : unknown_tiles(m, &g, blocks);
    int64_t panel = g.panel / BLOCK, shares = choose_shares(k, &g, pieces, each, blocks),
            share = (blocks + shares - 1) / shares;
    cpu_put_schedule(k, (struct cpu_schedule){.how = CPU_WINOGRAD});
    k->schedule.tile[g.r.image] = 1;
    k->schedule.tile[g.r.tile] = each;
    k->schedule.tile[g.r.out_block] = (share + panel - 1) / panel * panel;
    int64_t room = room_of(&g, each);
    k->tiles = em_tile_count(ctx, k);
    k->scratch = ir_const(ctx, room * (v_step(&g) + 2 * g.frequencies * BLOCK) * 4);
    return true;
}

/* -- Code ----------------------------------------------------------------------------------------------- */

static LLVMValueRef at(struct wg *g, LLVMValueRef base, LLVMValueRef i)
{
    return LLVMBuildGEP2(g->e->b, g->e->t_f32, base, &i, 1, "");
}

static LLVMValueRef mul(struct wg *g, LLVMValueRef a, int64_t n)
{
    return LLVMBuildMul(g->e->b, a, em_i64(g->e, n), "");
}

static LLVMValueRef add(struct wg *g, LLVMValueRef a, int64_t n)
{
    return LLVMBuildAdd(g->e->b, a, em_i64(g->e, n), "");
}

static void bind_dim(struct wg *g, int dim, LLVMValueRef v)
{
    em_bind(g->e, g->k->dims[dim].var, v);
}

static void bind_tile(struct wg *g, LLVMValueRef r)
{
    bind_dim(g, g->r.tile, LLVMBuildAdd(g->e->b, g->first, r, ""));
}

/* Do all guards of a stage's accesses hold for the tile? NULL: always. */
static LLVMValueRef all_inside(struct wg *g, int stage)
{
    LLVMValueRef all = NULL;
    for (int i = g->k->stages[stage].first; i < g->k->stages[stage].last; i++) {
        const struct kn_insn *n = &g->k->insns[i];
        for (int j = 0; j < n->nguards; j++) {
            bool seen = false;
            for (int p = g->k->stages[stage].first; p < i && !seen; p++)
                for (int q = 0; q < g->k->insns[p].nguards && !seen; q++)
                    seen = !memcmp(&g->k->insns[p].guards[q], &n->guards[j], sizeof n->guards[j]);
            LLVMValueRef holds = seen ? NULL : em_guards(g->e, 1, &n->guards[j]);
            all = em_and_mask(g->e, all, holds);
        }
    }
    return all;
}

/* A stage's body in vectors of `lanes` of the 16 channels that dim runs over; its buffer lies at `buffer`. */
static void body(struct wg *g, int stage, int dim, int operand, LLVMValueRef buffer, int local_lanes)
{
    struct em *e = g->e;
    const struct kn_stage *s = &g->k->stages[stage];
    int lanes = cpu_lanes(em_cpu(e), 4);
    for (int first = 0; first < BLOCK; first += lanes) {
        em_set_lanes(e, NULL, 1, NULL);
        bind_dim(g, dim, em_i64(e, first));
        em_set_lanes(e, g->k->dims[dim].var, lanes, NULL);
        e->base[operand] = local_lanes > 1 ? at(g, buffer, em_i64(e, first)) : buffer;
        e->local_lanes = local_lanes;
        em_insns(e, s->first, s->last);
        em_forget(e, s->first, s->last);
        e->local_lanes = 1;
    }
    em_set_lanes(e, NULL, 1, NULL);
}

/* The body without guards where the tile lies inside, else with them. */
static void body_both(struct wg *g, int stage, int dim, int operand, LLVMValueRef buffer, int local_lanes)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef inside = MUTANT(167, all_inside(g, stage), NULL);
    if (inside) {
        em_if_begin(e, &f, LLVMBuildNot(e->b, inside, ""));
        body(g, stage, dim, operand, buffer, local_lanes);
        em_if_end(e, &f);
        em_if_begin(e, &f, inside);
    }
    e->unguarded = true;
    body(g, stage, dim, operand, buffer, local_lanes);
    e->unguarded = false;
    if (inside)
        em_if_end(e, &f);
}

static void transform_in(struct wg *g)
{
    struct em *e = g->e;
    struct em_loop outer, inner;
    bool far = g->from_far;
    LLVMValueRef tiles = add(g, g->ntiles, g->filters - 1);
    if (g->r.filter >= 0)
        bind_dim(g, g->r.filter, em_i64(e, 0));
    em_loop_begin(e, &outer, far ? em_points(e, g->r.in_block) : em_below(e, tiles), em_i64(e, 1), "in");
    em_loop_begin(e, &inner, far ? em_below(e, tiles) : em_points(e, g->r.in_block), em_i64(e, 1), "in");
    LLVMValueRef tile = far ? inner.iv : outer.iv;
    bind_dim(g, g->r.in_block, far ? outer.iv : inner.iv);
    bind_tile(g, tile);
    body_both(g, g->r.take, g->r.in_lane, g->r.v, at(g, g->scratch, mul(g, tile, v_step(g))), 1);
    em_loop_end(e, &inner);
    em_loop_end(e, &outer);
}

/* Tiles of the launch go through the blocks of output channels first: v is there unless the first of them is at hand,
 * or the call begins elsewhere than this thread's last one has ended. */
static void transform_once(struct wg *g, const struct em_tiles *t)
{
    struct em *e = g->e;
    struct em_if f;
    LLVMValueRef apart = LLVMBuildNot(e->b, em_continues(e), "");
    LLVMValueRef begins = LLVMBuildICmp(e->b, LLVMIntEQ, t->loop.iv, e->first, "");
    begins = LLVMBuildAnd(e->b, begins, apart, "");
    LLVMValueRef new = LLVMBuildICmp(e->b, LLVMIntEQ, t->at[g->r.out_block].lo, em_i64(e, 0), "");
    em_if_begin(e, &f, LLVMBuildOr(e->b, begins, new, ""));
    transform_in(g);
    em_if_end(e, &f);
}

struct acc {
    LLVMValueRef at[64];
};

/* Products of mr tiles with two vectors of u, or one, `unroll` channels a time, of one filter; `lines` cache lines from
 * `next` on are fetched meanwhile. */
static void filter_products(struct wg *g, LLVMValueRef a, LLVMValueRef b, int mr, LLVMValueRef next, int lines,
                            struct acc *acc)
{
    struct em *e = g->e;
    struct em_loop l;
    int lanes = cpu_lanes(em_cpu(e), 4), vectors = vectors_of(em_cpu(e), g->panel), n = mr * vectors,
        by = by_lane(em_cpu(e)), unroll = by > 1 ? by : 2;
    LLVMValueRef av[64];
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->channels)), em_i64(e, unroll), "k");
    for (int i = 0; i < n; i++)
        acc->at[i] = em_loop_carry(e, &l, acc->at[i]);
    for (int i = 0; i < lines * unroll / 2; i++)
        em_prefetch(e, at(g, next, add(g, mul(g, l.iv, lines * LINE / 2), i * LINE)), 2);
    for (int u = 0; u < unroll; u++) {
        LLVMValueRef k = add(g, l.iv, MUTANT(169, u, 0)), row = at(g, b, mul(g, k, g->panel)), from = at(g, a, k),
                     bv[2];
        for (int c = 0; c < vectors; c++)
            bv[c] = em_load(e, TCC_F32, at(g, row, em_i64(e, (int64_t)c * lanes)), lanes, NULL, NULL, -1);
        for (int r = 0; r < mr; r++) {
            if (u % by == 0)
                av[r] = em_load(e, TCC_F32, at(g, from, em_i64(e, r * v_step(g))), by, NULL, NULL, -1);
            LLVMValueRef x = by > 1 ? NULL : em_splat(e, av[r], lanes);
            for (int c = 0; c < vectors; c++) {
                LLVMValueRef *sum = &acc->at[r * vectors + c];
                *sum = x ? em_fma(e, x, bv[c], *sum) : cpu_lane_fma(e, av[r], u, bv[c], *sum);
            }
        }
    }
    for (int i = 0; i < n; i++)
        em_loop_next(&l, i, acc->at[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < n; i++)
        acc->at[i] = l.phi[i];
}

/* Those of all filters: each reads the tiles that lie so many further on. */
static void products(struct wg *g, LLVMValueRef a, LLVMValueRef b, int mr, LLVMValueRef next, int lines,
                     struct acc *acc)
{
    struct em *e = g->e;
    struct em_loop l;
    int n = mr * vectors_of(em_cpu(e), g->panel);
    if (g->filters == 1) {
        filter_products(g, a, b, mr, next, lines, acc);
        return;
    }
    em_loop_begin(e, &l, em_below(e, em_i64(e, g->filters)), em_i64(e, 1), "filter");
    for (int i = 0; i < n; i++)
        acc->at[i] = em_loop_carry(e, &l, acc->at[i]);
    LLVMValueRef weights = at(g, b, mul(g, l.iv, g->channels * g->panel)), tiles = at(g, a, mul(g, l.iv, v_step(g)));
    LLVMValueRef fetched = at(g, next, mul(g, l.iv, g->channels * lines * LINE / 2));
    filter_products(g, tiles, weights, mr, fetched, lines, acc);
    for (int i = 0; i < n; i++)
        em_loop_next(&l, i, acc->at[i]);
    em_loop_end(e, &l);
    for (int i = 0; i < n; i++)
        acc->at[i] = l.phi[i];
}

static LLVMValueRef m_of(struct wg *g, int64_t half, LLVMValueRef tile)
{
    LLVMValueRef base = at(g, g->scratch, em_i64(g->e, g->room * (v_step(g) + half * g->frequencies * BLOCK)));
    return at(g, base, mul(g, tile, g->frequencies * BLOCK));
}

/* A frequency's products: weights of one panel and the next, and of the panel's columns a part of some vectors. */
struct panel {
    LLVMValueRef z, weights, next;
    int part, parts, lanes, vectors, most; /* vectors' elements; rows of a register tile */
};

/* mr tiles from `first` on; they fetch `lines` cache lines of the next panel from `next` on, a step. */
static void row_block(struct wg *g, const struct panel *p, LLVMValueRef first, int mr, LLVMValueRef next, int lines)
{
    struct em *e = g->e;
    LLVMValueRef a = at(g, g->scratch, mul(g, first, v_step(g)));
    struct acc acc;
    for (int i = 0; i < mr * p->vectors; i++)
        acc.at[i] = LLVMConstNull(em_vec(e->t_f32, p->lanes));
    LLVMValueRef right = at(g, p->weights, em_i64(e, p->part * p->vectors * p->lanes));
    products(g, at(g, a, mul(g, p->z, g->channels)), right, mr, next, lines, &acc);
    for (int i = 0; i < mr * p->vectors; i++) {
        int column = (p->part * p->vectors + i % p->vectors) * p->lanes;
        LLVMValueRef second = mul(g, p->z, BLOCK);
        LLVMValueRef to = at(g, m_of(g, MUTANT(168, column / BLOCK, 0), first), second);
        to = at(g, to, em_i64(e, (int64_t)(i / p->vectors) * g->frequencies * BLOCK + column % BLOCK));
        em_store(e, TCC_F32, to, acc.at[i], NULL, -1);
    }
}

/* Rows [from, to) of the tiles in blocks of mr, the first of which is the panel's `block`-th. */
static void row_blocks(struct wg *g, const struct panel *p, struct em_range rows, int mr, int64_t block, int lines)
{
    struct em *e = g->e;
    struct em_loop r;
    em_loop_begin(e, &r, rows, em_i64(e, mr), "rows");
    LLVMValueRef number = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, r.iv, rows.lo, ""), em_i64(e, mr), "");
    number = mul(g, add(g, number, block), g->depth / 2 * lines * LINE);
    row_block(g, p, r.iv, mr, at(g, p->next, number), lines);
    em_loop_end(e, &r);
}

/* So many tiles: as few blocks as must be, which differ by one row at most. They fetch the next panel, as many of all
 * parts' as it takes with whole lines a step. */
static void known_rows(struct wg *g, const struct panel *p, int64_t tiles)
{
    int64_t blocks = (tiles + p->most - 1) / p->most, rows = tiles / blocks, more = tiles % blocks,
            all = blocks * p->parts, at = more * (rows + 1), first = p->part * blocks;
    int lines = (int)((g->panel * 2 / LINE + all - 1) / all);
    if (first * lines >= g->panel * 2 / LINE)
        lines = 0;
    if (more)
        row_blocks(g, p, em_below(g->e, em_i64(g->e, at)), (int)rows + 1, first, lines);
    row_blocks(g, p, em_range(g->e, em_i64(g->e, at), em_i64(g->e, tiles)), (int)rows, first + more, lines);
}

/* A piece of an image, or its last one. */
static void known_pieces(struct wg *g, const struct panel *p)
{
    struct em *e = g->e;
    int64_t tiles = ir_const_or(g->k->dims[g->r.tile].extent, 0), each = g->k->schedule.tile[g->r.tile],
            last = tiles % each;
    struct em_if f;
    if (!last) {
        known_rows(g, p, each);
        return;
    }
    LLVMValueRef whole = LLVMBuildICmp(e->b, LLVMIntEQ, g->ntiles, em_i64(e, each), "");
    if (tiles > each) {
        em_if_begin(e, &f, whole);
        known_rows(g, p, each);
        em_if_end(e, &f);
        em_if_begin(e, &f, LLVMBuildNot(e->b, whole, ""));
    }
    known_rows(g, p, last);
    if (tiles > each)
        em_if_end(e, &f);
}

/*
 * Of tiles whose number is known only at run time: as many blocks as must be, all of the least size on hand that takes
 * them in. The first one fetches all of the next panel: there may be no other.
 */
static void unknown_rows(struct wg *g, const struct panel *p)
{
    struct em *e = g->e;
    int sizes[] = {p->most / 2 + 1, p->most * 3 / 4 + 1, p->most - 1, p->most}, below = 0;
    int lines = g->panel * 2 / LINE / p->parts;
    LLVMValueRef one = em_i64(e, 1), most = em_i64(e, p->most);
    LLVMValueRef blocks = LLVMBuildUDiv(e->b, add(g, g->ntiles, p->most - 1), most, "");
    LLVMValueRef each =
        LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, LLVMBuildAdd(e->b, g->ntiles, blocks, ""), one, ""), blocks, "");
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        struct em_if f;
        if (sizes[i] <= below)
            continue;
        LLVMValueRef right = LLVMBuildICmp(e->b, LLVMIntSLE, each, em_i64(e, sizes[i]), "");
        em_if_begin(e, &f, LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, each, em_i64(e, below), ""), right, ""));
        row_blocks(g, p, em_below(e, em_i64(e, sizes[i])), sizes[i], p->part, lines);
        row_blocks(g, p, em_range(e, em_i64(e, sizes[i]), g->ntiles), sizes[i], 0, 0);
        em_if_end(e, &f);
        below = sizes[i];
    }
}

static void multiply(struct wg *g, LLVMValueRef u)
{
    struct em *e = g->e;
    struct em_loop z;
    struct panel p = {.lanes = cpu_lanes(em_cpu(e), 4),
                      .vectors = vectors_of(em_cpu(e), g->panel),
                      .parts = parts_of(em_cpu(e), g->panel),
                      .most = most_rows(em_cpu(e), g->panel)};
    em_loop_begin(e, &z, em_below(e, em_i64(e, g->frequencies)), em_i64(e, 1), "z");
    p.z = z.iv;
    p.weights = at(g, u, mul(g, z.iv, g->depth * g->panel));
    p.next = at(g, p.weights, em_i64(e, g->depth * g->panel));
    for (p.part = 0; p.part < p.parts; p.part++)
        (ir_const_or(g->k->dims[g->r.tile].extent, 0) ? known_pieces : unknown_rows)(g, &p);
    em_loop_end(e, &z);
}

static void transform_out(struct wg *g, LLVMValueRef ob, LLVMValueRef end)
{
    struct em *e = g->e;
    struct em_loop r;
    struct em_if f;
    for (int half = 0; half < g->panel / BLOCK; half++) {
        LLVMValueRef block = add(g, ob, half);
        if (half)
            em_if_begin(e, &f, LLVMBuildICmp(e->b, LLVMIntSLT, block, end, ""));
        em_loop_begin(e, &r, em_below(e, g->ntiles), em_i64(e, 1), "out");
        bind_dim(g, g->r.out_block, block);
        bind_tile(g, r.iv);
        body_both(g, g->r.give, g->r.out_lane, g->r.m, m_of(g, half, r.iv), BLOCK);
        em_loop_end(e, &r);
        if (half)
            em_if_end(e, &f);
    }
}

/* Of an image, as far as its sizes are known: its channels stand in blocks behind the first dim. */
static int64_t image_bytes(const struct wg *g)
{
    const struct kn_stage *s = &g->k->stages[g->r.take];
    int64_t bytes = 0;
    for (int i = s->first; i < s->last && !bytes; i++) {
        if (g->k->insns[i].code != KN_LOAD)
            continue;
        const struct kn_operand *o = &g->k->operands[g->k->insns[i].operand];
        bytes = o->use == KN_LOCAL ? 0 : 4;
        for (int d = 1; d < o->rank; d++)
            bytes *= ir_const_or(o->dims[d], 0);
    }
    return bytes;
}

static void emit_winograd(struct em *e)
{
    struct wg g;
    struct em_tiles t;
    struct em_loop p;
    if (!study(e->k, &g))
        return; /* cannot be: its schedule said that it can */
    g.e = e;
    g.room = room_of(&g, e->k->schedule.tile[g.r.tile]);
    g.from_far = image_bytes(&g) > FAR;
    g.scratch = e->scratch;
    em_tiles_begin(e, &t);
    for (int i = 0; i < em_nouter(e->k); i++)
        em_bind(e, e->k->dims[i].var, t.at[i].lo);
    g.first = t.at[g.r.tile].lo;
    g.ntiles = em_length(e, t.at[g.r.tile]);
    transform_once(&g, &t);
    em_loop_begin(e, &p, t.at[g.r.out_block], em_i64(e, g.panel / BLOCK), "panel");
    const struct kn_insn *u = &e->k->insns[g.r.load_u];
    bind_dim(&g, g.r.out_block, p.iv);
    bind_dim(&g, g.r.out_lane, em_i64(e, 0));
    for (int i = em_nouter(e->k); i < e->k->ndims; i++)
        bind_dim(&g, i, em_i64(e, 0));
    multiply(&g, em_address(e, u->operand, em_expr(e, em_offset(e, u->operand, u->index))));
    transform_out(&g, p.iv, t.at[g.r.out_block].hi);
    em_loop_end(e, &p);
    em_tiles_end(e, &t);
}

const struct cpu_template cpu_template_winograd = {CPU_WINOGRAD, schedule_winograd, emit_winograd};
