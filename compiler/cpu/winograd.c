/* SPDX-License-Identifier: Apache-2.0 */
/*
 * winograd.c - convolutions by Winograd's algorithm: kernels that passes/kernel/winograd.c makes. What pays and how
 * they are cut is here; winograd_emit.c is their code.
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
#include "compiler/cpu/winograd_int.h"

#include <string.h>

enum {
    REGISTER_ROWS = 14,
    MOST_TILE = 16,
    LEAST_ROWS = 2 * REGISTER_ROWS,
    MOST_ROWS = 8 * REGISTER_ROWS
}; /* of tiles, where sizes are known only at run time */

bool wg_study(const struct kn_kernel *k, struct wg *g)
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
int wg_by_lane(const struct cpu_machine *m)
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
int wg_vectors(const struct cpu_machine *m, int panel)
{
    int lanes = cpu_lanes(m, 4);
    return panel < 2 * lanes ? panel / lanes : 2;
}

/* Passes over a panel. */
int wg_parts(const struct cpu_machine *m, int panel)
{
    return panel / (wg_vectors(m, panel) * cpu_lanes(m, 4));
}

/* Tiles of a register tile's rows at most. */
int wg_most_rows(const struct cpu_machine *m, int panel)
{
    int vectors = wg_vectors(m, panel), most = (m->registers - vectors - (m->emit.fma ? 1 : 2)) / vectors;
    most = most > MOST_TILE ? MOST_TILE : most;
    return wg_by_lane(m) > 1 && most > m->lane_rows ? m->lane_rows : most;
}

/* Cycles of a step of the sum over channels for so many tiles: blocks of rows differ by one row at most. */
static double step_cost(const struct cpu_machine *m, int panel, int64_t tiles)
{
    int most = wg_most_rows(m, panel);
    int64_t blocks = (tiles + most - 1) / most, rows = tiles / blocks, more = tiles % blocks;
    double row = wg_vectors(m, panel) / 2., few = (double)rows * row, many = (double)(rows + 1) * row;
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
           steps = (double)(g->frequencies * g->depth) * panels * wg_parts(m, g->panel);
    for (int64_t pieces = wanted; pieces <= tiles; pieces++) {
        int64_t each = (tiles + pieces - 1) / pieces, last = tiles - (pieces - 1) * each;
        if (last <= 0)
            continue;
        double held = (double)((each + g->filters - 1) * wg_v_step(g) + each * 2 * g->frequencies * BLOCK) * 4;
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
    int64_t fit = m->l2 / (wg_v_step(g) * 4);
    if (g->frequencies * g->depth * blocks * BLOCK * 4 <= m->l2 / 4)
        return LEAST_ROWS;
    return fit < LEAST_ROWS ? LEAST_ROWS : fit > MOST_ROWS ? MOST_ROWS : fit / REGISTER_ROWS * REGISTER_ROWS;
}

static bool schedule_winograd(const struct cpu_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct wg g;
    if (!wg_study(k, &g))
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
    int64_t room = wg_room(&g, each);
    k->tiles = em_tile_count(ctx, k);
    k->scratch = ir_const(ctx, room * (wg_v_step(&g) + 2 * g.frequencies * BLOCK) * 4);
    return true;
}

const struct cpu_template cpu_template_winograd = {CPU_WINOGRAD, schedule_winograd, wg_emit};
