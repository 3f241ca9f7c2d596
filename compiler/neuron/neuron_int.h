/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neuron_int.h - private to compiler/neuron/: from one kernel to one program of a NeuronCore (runtime/neuron_isa.h).
 *
 *     machine.c  the machines and what passes ask of them       target.c   the target: an image with the programs of
 *                all kernels
 *     kernel.c   a kernel to a program: which template takes it, which dims are partitions, how much of the others is
 *                on chip at once
 *     map.c      index expressions over a tile as strides, boxes where they are none
 *     buffer.c   SBUF and PSUM, and who used which of their bytes last
 *     stream.c   instructions into streams; semaphores where engines depend on each other
 *     value.c    values on chip, operands, instructions of the lanes
 *     ops.c      scalar ops, by formulas.c's table              move.c     loads and stores by DMA
 *     tile.c     stages over a tile: bodies (tile_reduce.c: reductions, scans; along.c: what a tile is)
 *     pe.c       contractions: their forms (pe_plan.c), long sums (pe_parts.c), results in short runs (pe_rows.c)
 *     int64.c    integers of 64 bits as pairs of words          expr.c     integer expressions of the loops
 *     added.c    numbers that a product adds
 *     words.c    functions that kernels spell out
 *     pair.c     columns, two operations in one instruction     order.c    which instruction of a stage comes when
 *     attention.c                                               window.c   loads of windows
 *     attention_grad.c                                          instr.c    instructions of those two
 *     index.c    gathers and scatters                           panel.c    factors of products in rows as long as HBM
 *                has them
 *     two_cores.c          a kernel in two, for two physical cores
 *     sum_by_product.c     sums over rows as products with ones
 *     reduce_partitions.c  reductions to few results in two passes
 *     scatter.c  rows added by an index
 *     dims.c     dims in digits, ways over dims                 integers.c reductions and scans of integers
 *     cost.c     what instructions take, by cost.def (cost.h)
 *     keep.c     what stays in SBUF from tile to tile, from stage to stage
 *     roll.c     what streams repeat becomes loops            open.c     sizes that only the run knows
 *     turns.c    loops of turns of an open kernel             sizes.c    numbers that have such sizes as factors
 *     phases.c   open kernels that reduce along open dims as several    made.c     sizes that are sums or quotients of
 *     boxes.c    and those of whose loads some have no value                       others
 *
 * Instructions are made in an order in which a single engine could run them. Each says which buffers it reads and
 * writes; what it must wait for follows from that alone.
 *
 * What can't be done ends in nk_refuse(), which leaves neuron_kernel_program() with a reason; the plan then runs the
 * kernel on the host.
 */
#ifndef TCC_NEURON_INT_H
#define TCC_NEURON_INT_H

#include <setjmp.h>

#include "compiler/target.h"
#include "runtime/neuron_isa.h"

/* -- Machines (machine.c) ---------------------------------------------------------------------------------- */

/* lnc: physical cores of a logical one, 1 or 2. programs: those that were made for it (programs.c) */
struct nk_machine { struct pass_machine pass; enum neuron_core_kind core; int lnc; struct ir_map *programs; };
/* arch: a core's name, with or without NEURON_LNC1 or NEURON_LNC2 behind it. NULL after a diagnostic. */
const struct nk_machine *nk_machine_make(struct ir_ctx *ctx, const char *arch);

/* -- Buffers (buffer.c) --------------------------------------------------------------------------------------- */

/* Instructions that something waits for: of each engine the last one's number, from 1; transfers by number. */
struct nk_deps { int at[NEURON_NENGINES]; int ndma, capdma; int *dma; };

/* A tensor in HBM, or bytes of SBUF or PSUM (in all partitions). Writes of one group (not 0) touch different bytes:
 * they don't wait for each other. */
struct nk_buffer {
    uint8_t space;
    uint16_t tensor;
    int64_t offset, bytes, number;            /* number: of those that were taken, from 1 */
    bool live, stays;                         /* stays: only who made it so gives it back */
    int group;
    struct nk_deps before, writes, reads;     /* before: what the writes of the group had to wait for */
};
struct nk_segment { int64_t lo, hi; struct nk_buffer *owner; };
struct nk_place { int64_t bytes, offset; };

/* -- A kernel under construction --------------------------------------------------------------------------------- */

enum {
    NK_AXES = 16, NK_QUEUE_IN = 0, NK_QUEUE_OUT = 1, NK_MOST_INSTRUCTIONS = 60000, NK_MOST_BOXES = 2048,
    NK_ROOM = 4096, NK_TOGETHER = 3,
    /* more are tried with loops; before what repeats becomes these; tiles after which a steady kernel begins anew, at
     * first and at most */
    NK_SHORT = 600, NK_MOST_UNROLLED = 1000000, NK_STEADY = 2, NK_MOST_STEADY = 4
};

/* Keys that rows of attention look at: all; or some: none, before all others, which sets what rows have of keys to what
 * adds nothing; others than those at the rows' places; and those, last, where results are made. Rows of such a turn at
 * most; what a row has besides its means. */
enum nk_keys { NK_KEYS_ALL, NK_KEYS_NONE, NK_KEYS_OTHER, NK_KEYS_OWN };
enum { NK_ROWS = 1024, NK_STATE_COLUMNS = 2 };

/* Iterations that happen at once: dim `dim` of the kernel has the value base[dim] + the sum of mult * index over its
 * axes. Axis 0 lies on partitions, the others in each of them, outermost first. */
struct nk_axis { int dim; int64_t mult, extent; };
/* nouter: those of them that belong to outer dims; they come first. */
/* quarter, where it is not 0: each quadrant of 32 partitions has 32 points of axis 0 in a row, so many points behind
 * those of the quadrant before. */
struct nk_tile { int n, nouter; int64_t quarter; struct nk_axis axis[NK_AXES]; int64_t base[KN_MAX_DIMS]; };

/* A value over a tile: one number, or elements in a buffer, with a stride for each axis but the first (0: the same
 * along it). */
struct nk_value {
    uint8_t dtype, type;                      /* tcc_dtype; neuron_type, in which it lies there */
    bool is_number, small;                    /* small: integers of a magnitude below 2^24, which float32 has */
    double number;
    struct nk_buffer *buffer;
    int64_t offset;                           /* bytes, from the buffer's first */
    int32_t stride[NK_AXES];
    /* of i64 and u64: the high words; NULL: they are the sign of the low ones */
    const struct nk_value *high;
    const struct nk_half *half;               /* not computed yet: `buffer` is half->x's (pair.c) */
};

/* Numbers that points of a turn's dims are counted from, by the symbols that stand for them. */
enum { NK_OPEN = 3 };
#define NK_WHERE_NAME "where"
struct nk_where { int n; ir_expr symbol[NK_OPEN]; };

/* An index that addresses are made of: the symbol that a stage binds, its value, where that is out of range, the dims
 * that it varies with. */
struct nk_index { ir_expr symbol; const struct nk_value *value, *wrong; uint32_t dims; };

/* What a load's windows cover, on chip, and the last tile that used it (window.c). */
enum { NK_WINDOWS = 16 };
struct nk_window {
    const struct kn_insn *load;
    struct nk_buffer *buffer;
    int64_t partitions, lo[TCC_MAX_RANK], hi[TCC_MAX_RANK], across[TCC_MAX_RANK], tile;
};

/* A wait that is resolved at the end: until instruction `number` of `engine` has ended. */
struct nk_pending { int engine, index, slot, of_engine, of_number; };
/* What an engine knew when an instruction was made: instructions of engines that have ended, and transfers of each
 * queue, which end in order, by number from 1. */
struct nk_clock { int at[NEURON_NENGINES], ended[NEURON_QUEUES]; };
/* done_engine, done_at: once its semaphore is used again, an instruction that knows of its end. */
struct nk_transfer {
    int semaphore, engine, queue, number, done_engine, done_at;
    uint32_t value;
    struct nk_deps waiters;
};

struct nk {
    struct ir_ctx *ctx;
    const struct nk_machine *machine;
    /* then: a second pass by the lanes, of the same operands; NULL: there is none */
    const struct kn_kernel *k, *then;
    struct neuron_program *p;
    jmp_buf refused;
    const char *why;
    bool full;                                /* refused since something did not fit: a smaller tile may do */
    bool large;                               /* refused since it has more than `most` instructions */
    /* not 0: what repeats is to be loops (roll.c): buffers, banks and semaphores are given out alike every so many
     * tiles */
    int steady, most;
    bool optional;                            /* made in a way that is taken with NK_ROOM only */
    bool product;                             /* to be a product, or nothing */
    bool turn;                                /* one of an open kernel's (open.c): all of it has ended at its end */
    enum nk_keys keys;                        /* of attention: which of the keys */
    bool lanes;                               /* instructions are the lanes', which take floats of any length (ops.c) */
    /* what all tiles, or later stages, use stays on chip (keep.c); a row that does is being loaded */
    bool keeps, makes_row, banks;             /* banks: of PSUM, too */
    bool pieces;                              /* the lanes have dim 0 on partitions: pieces of a reduction */
    /* tiles whose instructions take turns, up to NK_TOGETHER, of products one less: while one waits for an engine's
     * result, another has work */
    int together;
    int64_t extent[KN_MAX_DIMS];
    int tensors[NEURON_ARGUMENTS]; /* by operand: its tensor; -1: local */
    struct nk_buffer *hbm[NEURON_ARGUMENTS];
    /* what the run says: NEURON_ENV_WORDS words in a tensor behind the operands; NULL: not asked for */
    struct nk_buffer *env;
    /* where the turn is, a word for each dim whose indices are values, in a tensor behind that; NULL: none is */
    const struct nk_where *where;
    struct nk_buffer *where_words;
    struct nk_buffer *temp[2];                /* HBM that DMAs go by where partitions would be cut */
    int next_temp;

    VEC(struct nk_segment) sbuf;
    int64_t cursor, taken, began;             /* taken: so many buffers; when the tiles began anew */
    VEC(struct nk_place) places, old_places;  /* taken since then; between then and when they did before */
    struct nk_buffer *bank[8];
    int next_bank;
    VEC(struct nk_row) rows;                  /* the same in all partitions, that stay */
    int64_t row_bytes;
    /* the first NEURON_ARGUMENTS belong to operands: a kernel writes each element once */
    int groups;

    VEC(struct nk_clock) clocks[NEURON_NENGINES];
    VEC(struct nk_pending) pending;
    VEC(struct nk_transfer) transfers;
    struct nk_clock known[NEURON_NENGINES];
    int semaphore_user[NEURON_SEMAPHORES];    /* the transfer that used it last; -1 */
    int next_semaphore, instructions;

    int64_t room;                             /* elements of a value in a partition */
    VEC(struct nk_index) indices;
    struct nk_window window[NK_WINDOWS];
    /* tiles: how many have begun; expected: how many there will be at least; 0: that isn't known */
    int64_t window_bytes, tiles, expected;
    /* dims that the tile has one point of, while others come soon: of a product's sum */
    uint32_t taps;
    int64_t work[NEURON_NENGINES];            /* how long an engine is busy so far (nk_cycle_ticks()) */
    /* nothing reads it behind the instruction that is being made: the result may lie there */
    const struct nk_buffer *dying;
    /* symbols of indices count as 0: an address is being split into them and the rest */
    bool addressing;
    /* by operand: where a LOCAL one lies, by outer axes, then as the operand says */
    struct nk_buffer *local[NEURON_ARGUMENTS];
    int64_t local_elements[NEURON_ARGUMENTS];
    VEC(struct nk_buffer *) scope;            /* buffers made since a mark */
};

__attribute__((format(printf, 2, 3))) _Noreturn void nk_refuse(struct nk *nk, const char *why, ...);
_Noreturn void nk_full(struct nk *nk, const char *why);
/* other outer points than before: what operands they write is not what those before do */
void nk_begin_tile(struct nk *nk);

/* Kernels that do together, at the same time, what k does, by two cores of one HBM; false: it is better left whole
 * (two_cores.c). then: not NULL where the halves are of a reduction's pieces, whose partial results the first reduces
 * when both have ended. */
struct nk_halves { const struct kn_kernel *half[2], *then; };
bool nk_halves(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k, struct nk_halves *to);
/* The program of one pass of such a reduction (kernel.c); pieces: it is the halves'. */
struct neuron_program *nk_pass_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       bool pieces, const char **why);

/* What a kernel has in an image, in the binary form: a program for each core, which does its half if the kernel is cut,
 * and one for the first core when both have ended; NULL: there is none. Not fine: it has to run on the host, `why` says
 * why. */
enum { NK_CORE0, NK_CORE1, NK_THEN, NK_PROGRAMS };
struct nk_made {
    bool fine, cut;
    uint8_t *bytes[NK_PROGRAMS];
    size_t size[NK_PROGRAMS];
    const char *why;
};
/* programs.c: those of a kernel, made when first asked for */
const struct nk_made *nk_programs(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k);

/* A turn of an open kernel, all sizes known (kernel.c); the kernel (open.c). NULL, as below. keys: of attention
 * (phases.c). where: of its dims, whose indices are values. */
struct neuron_program *nk_turn_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       enum nk_keys keys, const struct nk_where *where, const char **why);
bool nk_is_where(const struct neuron_tensor *t);
struct neuron_program *nk_open_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why);
/* Attention as turns of a few heads each; NULL: it has none that are alike (open.c). */
struct neuron_program *nk_heads_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k);
/* Attention of more than so many keys, as turns of some rows and keys each; NULL: it is another kernel. */
enum { NK_MOST_KEYS = 8192 };
struct neuron_program *nk_rows_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why);

/* The program of a kernel; NULL: it has to run on the host, *why says why. The caller frees it. */
struct neuron_program *neuron_kernel_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                             const char **why);

/* buffer.c */
bool nk_deps_empty(const struct nk_deps *d);
void nk_deps_join(struct nk *nk, struct nk_deps *to, const struct nk_deps *from);
void nk_deps_dma(struct nk *nk, struct nk_deps *to, int transfer);
struct nk_buffer *nk_sbuf(struct nk *nk, int64_t bytes);                    /* of every partition */
struct nk_buffer *nk_psum(struct nk *nk);                                   /* a bank */
/* Banks behind each other, up to four in all, that stay; NULL: they are in use. */
struct nk_buffer *nk_psum_row(struct nk *nk, int64_t bytes);
void nk_release(struct nk *nk, struct nk_buffer *b);                        /* NULL and twice: nothing */
int nk_mark(struct nk *nk);                                                 /* buffers made from here on ... */
/* ... go, but for those of these values */
void nk_release_to(struct nk *nk, int mark, const struct nk_value *const *keep, int nkeep);

/* stream.c */
int nk_instructions_of(const struct neuron_program *p);
struct nk_use { struct nk_buffer *b; bool write; int group; };
/* Appends an instruction; uses: what it reads and writes. */
void nk_emit(struct nk *nk, enum neuron_engine e, struct neuron_instr *i, int n, const struct nk_use *uses);
void nk_no_more_than(struct nk *nk, int64_t instructions); /* refuses if so many are too many */
void nk_meet(struct nk *nk);      /* all that was given has ended before any engine goes on */
void nk_finish(struct nk *nk);                                              /* resolves waits */

/* roll.c */
void nk_roll(struct nk *nk);
/* A stream with what repeats in loops, and where it goes, in loops around it. */
struct nk_rolled;
struct nk_rolled *nk_rolled(struct nk *nk, const struct neuron_program *p, int engine);
/* of all engines together, but for what counts */
int nk_rolled_length(struct nk *nk, const struct neuron_program *p);
/* Where tensors of a turn are: by tensor, which one it is of all, and the register that its addresses begin with;
 * waits: that of what waits are for; most: registers below it are free. False: it has more loops or registers than
 * that. */
struct nk_places { const uint16_t *tensor; const uint8_t *base; uint8_t waits; int most; };
bool nk_put_rolled(struct nk *nk, int engine, const struct nk_rolled *r, int depth, const struct nk_places *places);

/* sizes.c: sizes to powers, as in an operand (runtime/neuron_isa.h) */
#define NK_FAR (INT64_C(1) << 62)
#define NK_MOST_STAND_IN (INT64_C(1) << 54)                                 /* and a turn's points times bytes */
enum { NK_CHAIN = 6 };
/* Products of sizes, each a factor of the one before it. far: of one size, which is only added */
struct nk_chain { int n; bool far; uint16_t power[NK_CHAIN]; };
int64_t nk_stand_in(uint16_t power, bool far);         /* the number that stands for a product; 0: it is too large */
bool nk_power_times(uint16_t *power, uint16_t by);      /* false: more than operands hold */
bool nk_chain_add(struct nk_chain *c, uint16_t power); /* false: it is neither a factor nor a multiple of another one */
/* A number made of stand-ins as an integer operand; such an operand times n and sizes; all operands of a program in
 * HBM, by tensor. False: they can't be. */
bool nk_take_apart(const struct nk_chain *c, int64_t v, struct neuron_operand *to);
bool nk_times(struct neuron_operand *o, int64_t n, uint16_t power);
bool nk_sizes_apart(const struct nk_chain *chains, int nchains, struct neuron_program *p);

/* A size's number, -1: it is none; e as a number times sizes, both multiplied to what is there already (sizes.c) */
int nk_size_of(const struct kn_kernel *k, ir_expr e);
bool nk_uses_size(const struct kn_kernel *k, ir_expr e);
bool nk_factors(const struct kn_kernel *k, ir_expr e, int64_t *number, uint16_t *power);
/* made.c: n kernels of the same sizes, each with a size for each dim that is a sum or a quotient of others; which those
 * are, behind their own ones. Values stay as they are. */
struct nk_made_sizes { int n; struct neuron_size how[NEURON_SIZES]; };
void nk_make_sizes(struct ir_ctx *ctx, const struct kn_kernel **k, int n, struct nk_made_sizes *made);
/* boxes.c: a kernel of whose loads some have no value at some points of open dims, as one for all points and one for
 * those inside; else the kernel. How many these are: at most NK_BOXES. */
enum { NK_BOXES = 2 };
int nk_boxes(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_kernel **to);
/* A copy whose dims, operands, instructions and stages may be changed (phases.c) */
struct kn_kernel *nk_copy_kernel(struct ir_ctx *ctx, const struct kn_kernel *from);
/* phases.c: an open kernel as kernels one behind the other, with the same operands and perhaps some more, in whose
 * loops turns can be taken. How many; 0: it is none that can be. */
enum { NK_PHASES = 8 };
/* Is it attention to some keys? A stage behind its last one stores what rows have of them, and of those before. */
bool nk_is_some_keys(const struct kn_kernel *k);
/* Does the instruction of such a kernel say what a causal mask compares, which turns know? */
bool nk_is_position(const struct kn_kernel *k, int insn);
int nk_phases(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_kernel **to);
/* Attention of known size as attention to some keys; NULL: it can't be. */
const struct kn_kernel *nk_some_keys(struct ir_ctx *ctx, const struct kn_kernel *k);

/* turns.c: an open kernel's loops of turns, in one another, each over the units of a dim: as many as sizes say (units
 * 0), or so many. Turns of many points come first. A program for each way to choose a level of each axis, the last one
 * first; NULL: there are no such turns. step: by tensor and axis, bytes by which it goes on with a unit. */
enum { NK_LEVELS = 5, NK_READ = 2, NK_TURNS = 40 };
struct nk_axis_turns { int n; int64_t points[NK_LEVELS], units; uint16_t power; };
/* An index that is read where a program begins: `words` of a tensor, times 1 or -1, plus a number; below 0, `bound` is
 * added. It counts as an axis behind the others, along which there are no turns. */
struct nk_read { uint16_t tensor; int words; int64_t times, plus; struct neuron_operand bound; };
struct nk_turns {
    int naxes, ntensors, nread;
    /* The last two axes are the rows and keys of attention, in the same places; causal: rows see the keys before them.
     * Behind the other programs are, by level, those of rows and their own keys, then one that sets what they have. */
    bool rows, causal;
    struct nk_read read[NK_READ];
    struct nk_axis_turns axis[NK_OPEN];
    struct neuron_program *program[NK_TURNS];
    struct nk_steps { struct neuron_operand by[NK_OPEN + NK_READ]; } *step;
    /* words of tensor `where` that say where a turn is: how the numbers in them go on */
    int nwhere;
    uint16_t where;
    struct nk_steps where_step[NK_OPEN];
    const uint16_t *place;                                                  /* by tensor, which one it is of all */
};
/* n of them one behind the other, into the streams of nk->p */
void nk_put_turns(struct nk *nk, const struct nk_turns *t, int n);

/* map.c */
enum nk_linear { NK_LINEAR, NK_SPLIT, NK_UNKNOWN };
/* e over a box of the tile (from lo, n long, by axis): base + sum of coef * (index - lo). SPLIT: it would be in the two
 * boxes that *axis cut at *at gives. */
struct nk_box { int64_t lo[NK_AXES], n[NK_AXES]; };
struct nk_line { int64_t base, coef[NK_AXES]; };
enum nk_linear nk_line_of(struct nk *nk, const struct nk_tile *t, const struct nk_box *b, ir_expr e,
                          struct nk_line *to, int *axis, int64_t *at);
/* Where an access happens (a box of the tile), and which element of its operand is at the box's first point. */
struct nk_piece { struct nk_box box; struct nk_line line; };
struct nk_pieces { struct nk_piece *at; int n, cap; };
/* The boxes of the tile in which the guards of a load or store hold, each with linear addresses. True: they are the
 * whole tile. Indices that a gather reads count as 0. */
bool nk_pieces_of(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, struct nk_pieces *to);
struct nk_box nk_whole(const struct nk_tile *t);
void nk_line_range(const struct nk_line *l, const struct nk_box *b, int64_t *lo, int64_t *hi);

/* value.c */
bool nk_has_type(enum tcc_dtype d);
/* in which a type's values are computed and kept on chip */
enum neuron_type nk_type(struct nk *nk, enum tcc_dtype d);
/* elements for all axes, one behind the other */
struct nk_value *nk_new(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d);
struct nk_value *nk_number(struct nk *nk, enum tcc_dtype d, double v);
int64_t nk_free_elements(const struct nk_tile *t);
/* A value as an operand: its axes from 1 on, where the last `cut` of them are kept apart from the others; *inner: dims
 * that these became. */
struct neuron_operand nk_operand(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, int cut, int *inner);
/* The same of a box of the tile. */
struct neuron_operand nk_box_operand(struct nk *nk, const struct nk_tile *t, const struct nk_value *v,
                                     const struct nk_box *b, bool *fits);
struct neuron_operand nk_literal(double v);
static inline struct neuron_operand nk_in_register(int reg)
{
    return (struct neuron_operand){.space = NEURON_REGISTER, .reg = (uint8_t)reg};
}
static inline struct neuron_operand nk_integer(int64_t v) /* in place of a register */
{
    return (struct neuron_operand){.space = NEURON_REGISTER, .reg = NEURON_NO_REGISTER, .offset = v};
}
/* A pattern under construction: dims that lie side by side become one. */
struct nk_pattern { int n; int64_t size[NK_AXES + 1], stride[NK_AXES + 1]; };
void nk_pattern_add(struct nk_pattern *p, int64_t size, int64_t stride, bool apart);
/* false: more dims than that, or strides that don't fit */
bool nk_pattern_put(const struct nk_pattern *p, struct neuron_operand *o, int most);
/* dst = ...; values may be numbers, but not all of them; results are new values of that type */
struct nk_value *nk_tt(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                       const struct nk_value *a, const struct nk_value *b);
struct nk_value *nk_ts(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                       const struct nk_value *a, double b);
struct nk_value *nk_act(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_func f,
                        const struct nk_value *a, double scale);
/* converts as engines do */
struct nk_value *nk_copy(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, const struct nk_value *a);
void nk_copy_to(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *a);
void nk_fill(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, double v);
struct nk_value *nk_select(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, const struct nk_value *mask,
                           const struct nk_value *yes, const struct nk_value *no);
/* 1 / a, float32 */
struct nk_value *nk_inverse(struct nk *nk, const struct nk_tile *t, const struct nk_value *a);
/* in SBUF, no number */
const struct nk_value *nk_solid(struct nk *nk, const struct nk_tile *t, const struct nk_value *v);
/* The tile with one point of the axes along which all of the values stay the same, in `part`, if those are the first or
 * the last ones: then a pattern has few dims still. False: there are none. */
bool nk_distinct(const struct nk_tile *t, int n, const struct nk_value *const *values, struct nk_tile *part);
/* A value over `part` as one over t. */
const struct nk_value *nk_spread(struct nk *nk, const struct nk_tile *t, const struct nk_tile *part,
                                 const struct nk_value *v);
/* Vector or Scalar, whichever has less to do, for n elements that either can compute. */
enum neuron_engine nk_lighter(const struct nk *nk, const struct nk_tile *t);
/* to = (x op0 a) op1 b by GpSimd, of floats. */
struct nk_value *nk_powers(struct nk *nk, const struct nk_tile *t, const struct nk_value *x, enum neuron_alu op0,
                           double a, enum neuron_alu op1, double b);

/* order.c */
/* Do they load the same elements, between which nothing is stored? */
bool nk_loads_same(const struct kn_kernel *k, int first, int second);
/* by instruction of the stage: the first that loads the same, or itself */
void nk_find_same(const struct kn_kernel *k, const struct kn_stage *g, int *same);
/* the stage's instructions as they are to be made */
void nk_order(struct nk *nk, const struct kn_stage *g, const int *same, int *order);

/* pair.c */
/* x op with, or with op x; with: a number or a column */
struct nk_half { const struct nk_value *x, *with; enum neuron_alu op; bool reversed; };
/* the only reader of an instruction's value, in its own stage; -1: there are none, or several */
int nk_reader_of(const struct kn_kernel *k, int insn);
/* x op a number or a column, one for each of the points that lie side by side at least; NULL: `with` is none of
 * these. */
struct nk_value *nk_by_column(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                              const struct nk_value *x, const struct nk_value *with, bool reversed);
/* Instruction `insn` of a stage, or NULL: where what reads it is one other of the stage that may take it along. */
const struct nk_value *nk_wait(struct nk *nk, const struct nk_tile *t, int insn, const struct nk_value *const *args);
/* v, which need not wait any more */
const struct nk_value *nk_computed(struct nk *nk, const struct nk_tile *t, const struct nk_value *v);
/* The column that a function takes along with v, which waits: as it is to be added. */
const struct nk_value *nk_bias(struct nk *nk, const struct nk_tile *t, const struct nk_value *v);
/* a op b, one of which waits. */
struct nk_value *nk_pair(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, enum neuron_alu op,
                         const struct nk_value *a, const struct nk_value *b);

/* Of an instruction that selects where a number made of the dims equals one that is given, else takes a number: the
 * comparison, and what it compares. False: it does not. */
struct nk_hot { int equal, expr, index; };
bool nk_is_hot(const struct kn_kernel *k, const struct kn_stage *g, int insn, struct nk_hot *to);
/* Its value, by the instruction that compares places in a row with a column; NULL: the numbers are not such places, or
 * too few. */
const struct nk_value *nk_select_hot(struct nk *nk, const struct nk_tile *t, ir_expr e, const struct nk_value *index,
                                     const struct nk_value *yes, double no);

/* ops.c: a scalar op of values of type `from`, whose result has type `to`. */
const struct nk_value *nk_scalar(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, enum tcc_dtype from,
                                 const struct nk_value *const *args);
/* i32 by a number above 0, rounded down; mod: what is left. */
const struct nk_value *nk_floor_divide(struct nk *nk, const struct nk_tile *t, const struct nk_value *v, double by,
                                       bool mod);
bool nk_is_function(enum ir_op op, enum neuron_func *f); /* one of Scalar's, of floats */
/* The one operation of Vector that it is for floats; NEURON_ALU_BYPASS: it is none. */
enum neuron_alu nk_alu_of(enum ir_op op);

/* expr.c */
const struct nk_value *nk_expr(struct nk *nk, const struct nk_tile *t, enum tcc_dtype d, ir_expr e);

/* int64.c */
bool nk_is_wide(enum tcc_dtype d);                                          /* i64, u64 */
/* its high words, whether it has them or not */
const struct nk_value *nk_high(struct nk *nk, const struct nk_tile *t, const struct nk_value *v);
const struct nk_value *nk_wide_number(struct nk *nk, enum tcc_dtype d, int64_t v);
/* Of any integers y: float32 has numbers below 2^24, and what it rounds equals none of them; where a high word says
 * more than the sign of the low one, y becomes a number above all of them. */
const struct nk_value *nk_index_as_float(struct nk *nk, const struct nk_tile *t, const struct nk_value *y);
/* A scalar op some of whose types are wide. */
const struct nk_value *nk_wide(struct nk *nk, const struct nk_tile *t, enum ir_op op, enum tcc_dtype from,
                               enum tcc_dtype to, const struct nk_value *const *x, int n);

/* window.c: the load as a view of what its windows cover; NULL: it is loaded better as it is. */
const struct nk_value *nk_window(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                                 const struct nk_value *otherwise);

/* index.c */
bool nk_has_index(const struct nk *nk, const struct kn_insn *n);            /* do its addresses depend on one? */
/* Those of a load into v or a store of it, in pieces. */
void nk_indexed(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_value *v,
                const struct nk_pieces *pieces, bool out);
/* Binds the symbol of a KN_INDEX for loads that come later in the stage. */
const struct nk_value *nk_bind_index(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                                     const struct nk_value *v);

/* keep.c: a load of known elements that all partitions have alike, where it stays for later tiles; NULL: it does
 * not. */
const struct nk_value *nk_row(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_line *l);

/* move.c */
const struct nk_value *nk_load(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                               const struct nk_value *otherwise);
/* the run's seed or number */
const struct nk_value *nk_environment(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n);
/* The value of a size that only the run knows, i32. */
const struct nk_value *nk_size(struct nk *nk, const struct nk_tile *t, int size);
/* A word of nk->where_words, i32. */
const struct nk_value *nk_where(struct nk *nk, const struct nk_tile *t, int word);
void nk_store(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, const struct nk_value *v);

/* integers.c: of the last `ninner` axes of tile t */
/* what a KN_REDUCE or KN_SCAN combines by, and what adds nothing to a float then */
enum ir_op nk_word_of(const struct kn_insn *n);
double nk_identity_of(const struct kn_insn *n);
const struct nk_value *nk_combine(struct nk *nk, const struct nk_tile *t, enum ir_op op, enum tcc_dtype d,
                                  const struct nk_value *a, const struct nk_value *b);
const struct nk_value *nk_combined(struct nk *nk, const struct nk_tile *t, int ninner, enum ir_op op, enum tcc_dtype d,
                                   const struct nk_value *v);
const struct nk_value *nk_scan_integers(struct nk *nk, const struct nk_tile *t, int ninner, const struct kn_insn *n,
                                        const struct nk_value *from);

/* instr.c: what templates say in instructions of their own */
/* so many elements beside each other in each */
struct nk_tile nk_lanes(int64_t partitions, int64_t n);
struct nk_value nk_from(const struct nk_value *v, int64_t at);              /* elements from the `at`-th on */
/* gives its buffer back; NULL, and numbers: nothing */
void nk_drop(struct nk *nk, const struct nk_value *v);
const struct nk_value *nk_bank(struct nk *nk);                              /* of PSUM, as float32 beside each other */
/* func(x scale + bias), bias NULL: none. acc: of the engine's sums. */
void nk_activate(struct nk *nk, const struct nk_tile *t, enum neuron_func f, const struct nk_value *to,
                 const struct nk_value *x, double scale, const struct nk_value *bias, enum neuron_acc acc);
/* to = (x op0 a) op1 b by Vector; a: a number or a column, b: a number or a tensor. */
void nk_scale_by(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *x,
                 enum neuron_alu op0, const struct nk_value *a, enum neuron_alu op1, const struct nk_value *b);
/* PSUM = stationary' moving, the first time, then +=; `sum`, s and m: the buffers of the three. */
void nk_multiply(struct nk *nk, const struct neuron_operand *to, struct nk_buffer *sum,
                 const struct neuron_operand *stationary, struct nk_buffer *s, const struct neuron_operand *moving,
                 struct nk_buffer *m, bool first);
/* Of each of 128 partitions its number times `step`: a column that stays. */
const struct nk_value *nk_ramp(struct nk *nk, int64_t step);
/* Elements of rows whose places, counted from base, are not on the right side of the row's column become `fill`. */
void nk_select_places(struct nk *nk, const struct nk_tile *t, const struct nk_value *to, const struct nk_value *x,
                      int64_t base, enum neuron_alu op, const struct nk_value *column, double fill);
/* An instruction and those that it needs, but for what is in `made`, by instruction, already. */
const struct nk_value *nk_evaluate(struct nk *nk, const struct nk_tile *t, const struct nk_value **made, int insn);
/* All instructions of a stage, but for what they need that is in `made` already. */
void nk_run_stage(struct nk *nk, const struct nk_tile *t, const struct kn_stage *g, const struct nk_value **made);
/* Points of a dim on partitions, up to 128 a block, points of `across` (-1: none) side by side: what instruction `insn`
 * gives, in that type. Behind the last whole block come as many as an operand of the panel can have. */
struct nk_blocks { int insn, dim, across; enum tcc_dtype type; int64_t extent; const struct nk_panel *panel; };
int64_t nk_block_number(int64_t lo);
/* Up to four blocks from `lo` on, which become to[their numbers], of one buffer; base: where the other dims are.
 * Returns how many points these are. */
int64_t nk_load_blocks(struct nk *nk, const struct nk_blocks *b, const int64_t *base, int64_t lo,
                       const struct nk_value **to);
void nk_drop_blocks(struct nk *nk, const struct nk_blocks *b, const struct nk_value **blocks);

/* dims.c */
/* Periods of a dim: what its values are divided by. Each divides the next; the first is 1. */
enum { NK_DIGITS = 6 };
struct nk_digits { int n; int64_t period[NK_DIGITS]; };
struct nk_digits nk_digits_of(struct nk *nk, int dim);
/* Axes for n points of a dim from the tile's base on, the last digit first. */
void nk_add_axes(struct nk *nk, struct nk_tile *t, int dim, int64_t n, const struct nk_digits *d);
/* outer dims, one of them left out; -1: all */
uint32_t nk_outer_but(const struct nk *nk, int but);
/* Takes `at` on by step[d] points (NULL: one), the last of the dims first. False: that was the last; the dims are at 0
 * again. */
bool nk_next(const struct nk *nk, uint32_t dims, const int64_t *step, int64_t *at);

enum { NK_SORTED = 64 };     /* of a row, as many at most are put in order (max8.c) */

/* tile.c */
/* An instruction of a body over a tile; NULL: it has no value. */
const struct nk_value *nk_body(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n,
                               const struct nk_value *const *args);
void nk_run_tiles(struct nk *nk);

/* panel.c */
/* A factor of a product that a load finds in order; NULL: it is none. summed, own: dims of the kernel, that of the sum
 * and the factor's own; taps: other summed dims. */
struct nk_panel;
enum { NK_PANEL_PIECES = 64 };
/* mx: neuron_type of four taps in an element, quantised; -1: none. k: points of the sum that it has, */
struct nk_panel *nk_panel_new(struct nk *nk, int load, int summed, int own, uint32_t taps, int mx, int64_t k);
/* from that one on in loads to come; at first 0 */
void nk_panel_at(struct nk_panel *p, int64_t first);
struct nk_panel *nk_panel_copy(struct nk *nk, const struct nk_panel *p);    /* for other points */
int64_t nk_panel_bytes(struct nk *nk, const struct nk_panel *p, int64_t n); /* of a partition, for n own points */
/* what it takes besides while it is loaded */
int64_t nk_panel_loading(struct nk *nk, const struct nk_panel *p, int64_t n);
bool nk_panel_turned(const struct nk_panel *p);                             /* takes as much again while it is loaded */
/* the summed points of a quadrant (struct nk_tile) */
int64_t nk_panel_quarter(const struct nk_panel *p);
bool nk_panel_holds(const struct nk_panel *p, int64_t lo, int64_t n);       /* are these points on chip? */
int64_t nk_panel_products(const struct nk_panel *p);                        /* whose sum is the result */
int64_t nk_panel_rows(const struct nk_panel *p, int64_t product);           /* partitions of one of them */
/* of n points, how many an operand can have: at most that many */
int64_t nk_panel_part(const struct nk_panel *p, int64_t n, int64_t most);
/* own points [lo, lo + n); base: where the other dims are */
void nk_panel_load(struct nk *nk, struct nk_panel *p, const int64_t *base, int64_t lo, int64_t n);
/* what is on chip, at most NK_PANEL_PIECES */
int nk_panel_values(const struct nk_panel *p, const struct nk_value **to);
void nk_panel_release(struct nk *nk, struct nk_panel *p);
/* Own points [lo, lo + n) of the product-th points of the sum, up to 128 of them on as many partitions; at: the
 * taps. */
struct neuron_operand nk_panel_operand(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                       const int64_t *at, struct nk_buffer **buffer);
/* The value over a tile, whose last axis has the four numbers of an element, quantised, and its scales. */
struct nk_value *nk_quantise(struct nk *nk, const struct nk_tile *t, int mx, const struct nk_value *v,
                             struct nk_value **scale);
/* The same of n points, each so many behind the one before; lo: one of the first so many of a block of 32. */
struct neuron_operand nk_panel_every(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                     int64_t every, const int64_t *at, struct nk_buffer **buffer);
/* Operands have so many partitions more, which nk_panel_more() names and the caller fills, by a write that waits for
 * none of the panel's own; false: there are none left, or several products. */
bool nk_panel_extend(struct nk_panel *p, int rows);
struct neuron_operand nk_panel_more(struct nk *nk, const struct nk_panel *p, int64_t lo, int64_t n, struct nk_use *use);
/* their scales, of MX formats */
struct neuron_operand nk_panel_scale(struct nk *nk, const struct nk_panel *p, int64_t product, int64_t lo, int64_t n,
                                     const int64_t *at, struct nk_buffer **buffer);

/* added.c */
/* What instruction `load` loads for each point of `dim`, times `by`, to be added to a product in type d; name: of a
 * tensor. NULL: it can't be. */
struct nk_added;
struct nk_added *nk_added_new(struct nk *nk, int load, int dim, enum tcc_dtype d, double by, const char *name);
int nk_added_rows(enum tcc_dtype d);                                        /* partitions that panels need for it */
/* into those of own points [lo, lo + n); and the other factor's, by which they are multiplied */
void nk_added_load(struct nk *nk, const struct nk_added *a, const struct nk_panel *p, const int64_t *base, int64_t lo,
                   int64_t n);
void nk_added_ones(struct nk *nk, const struct nk_added *a, const struct nk_panel *p, int64_t lo, int64_t n);

/* sum_by_product.c: the kernel with a product by ones before its sum, where that saves transfers; NULL: as it is. */
/* the kernel's one reduction, where nothing is read by an index; -1: it is of another form */
int nk_only_reduction(const struct kn_kernel *k);
const struct kn_kernel *nk_with_ones(struct ir_ctx *ctx, const struct kn_kernel *k);

/* Do rows of results, and none of what the first stage reduces, lie side by side in HBM? */
bool nk_is_by_rows(const struct kn_kernel *k);

/* words.c: the kernel with Scalar's functions where it spells them out (words.def), or as it is. */
const struct kn_kernel *nk_with_words(struct ir_ctx *ctx, const struct kn_kernel *k);

/* reduce_partitions.c: a reduction to few results as one to many and one of these; false: it is better as it is. */
bool nk_few(struct ir_ctx *ctx, enum neuron_core_kind core, const struct kn_kernel *k, const struct kn_kernel *pass[2]);

/* pe.c */
/* dims that an instruction and what it is made of depend on */
uint32_t nk_dims_of(const struct nk *nk, int insn);
bool nk_takes_product(struct nk *nk);
void nk_run_product(struct nk *nk);

/* attention.c */
bool nk_takes_attention(struct nk *nk);
void nk_run_attention(struct nk *nk);

/* scatter.c */
bool nk_takes_scatter(struct nk *nk);
void nk_run_scatter(struct nk *nk);

/* attention_grad.c */
bool nk_takes_attention_grad(struct nk *nk);
void nk_run_attention_grad(struct nk *nk);

#endif
