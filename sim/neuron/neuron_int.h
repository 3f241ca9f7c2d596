/* SPDX-License-Identifier: Apache-2.0 */
/* Private to sim/neuron: the state of a simulation and how its parts call each other. */
#ifndef TCCC_NEURON_INT_H
#define TCCC_NEURON_INT_H

#include "sim/neuron/isa_int.h"
#include "sim/neuron/neuronsim.h"

/* Loops over rows, as vectors of several widths, of which the program takes the widest that its processor has. No
 * operation is contracted, so that all give the same bits. GCC vectorises at its third level, whatever the level of the
 * rest; instrumented builds have one width: what chooses would run before they are ready. */
#if defined __GNUC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#if defined __x86_64__ && defined __GLIBC__
#define NEURON_WIDE __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define NEURON_WIDE __attribute__((optimize("O3")))
#endif
#else
#define NEURON_WIDE
#endif

/* What happens in order: the streams of the engines, then the DMA rings (a ring of a number on all 16 DMA engines). */
enum { STREAMS = NEURON_NENGINES + NEURON_QUEUES, ROW = 65536, PARTS = NEURON_DMA_ENGINES };
/* floats of the tensor engine's operands, for each number that an element holds */
enum {
    NEURON_PACKED = 4, STATIONARY_PLANE = NEURON_PARTITIONS * NEURON_STATIONARY,
    MOVING_PLANE = NEURON_PARTITIONS * NEURON_MOVING
};

/* -- Time -- */

struct timing { int ticks_in_10ns, cycle[NEURON_NENGINES], dma_rate, hbm_rate; int64_t hbm_bytes; int dge_ns; };
extern const struct timing neuron_timings[NEURON_NCORES];
enum figure {
#define FIGURE(name, number) name,
#include "sim/neuron/timing.def"
    FIGURES
};
extern const int neuron_figures[FIGURES];
/* Cycles of the engine that an instruction takes until the next may start; how long after that its result is
 * visible. */
uint64_t neuron_cycles(const struct neuron_sim *s, int engine, const struct neuron_instr *i);
uint64_t neuron_latency(const struct neuron_sim *s, int engine, const struct neuron_instr *i);
/* of Vector on v3: shares GpSimd's way to SBUF */
bool neuron_fast_mode(const struct neuron_sim *s, const struct neuron_instr *i);

/* -- Memory -- */

/* Bytes with a bit each that says whether they were written (NULL: all of them were; the caller's memory). Lanes: the
 * partitions of SBUF and PSUM; a tensor is one. high: behind the last byte of a lane that was. */
struct memory { uint8_t *data, *written; int64_t lane, high; bool bound; };

/* An operand of a running instruction: registers added. */
struct place { const struct neuron_operand *o; struct memory *m; int64_t offset; };

/* -- Order -- */

/* of each stream, the last instruction or transfer that is known to have ended */
struct clock { uint32_t at[STREAMS]; };
struct given { uint64_t before; struct clock clock; }; /* a signal: the sum of those before it, what it tells */
struct source { struct given *list; size_t n, room, dropped; uint64_t sum; int stream; };
enum { MOST_SOURCES = 1024 };                          /* whose sums loops in time look at (fold.c) */
struct semaphore {
    uint64_t value;
    /* who has signalled it, or will when what they have begun ends */
    struct source *from[STREAMS];
    uint32_t waited[NEURON_NENGINES];                  /* an engine's last wait that told it something */
    uint32_t relied[NEURON_NENGINES];                  /* of which streams its waits did: a bit each */
};

/* An access that others may still conflict with. */
struct access {
    const struct neuron_instr *i;
    int64_t lo, hi, offset;
    uint32_t epoch;
    uint8_t stream, first, last, operand;
    bool write;
};
struct bucket { struct access *list; int n, room; };
struct shadow { struct bucket *buckets; int nbuckets; int64_t granule; };

/* -- Engines -- */

struct transfer {
    const struct neuron_instr *i;
    struct transfer *next[PARTS];                      /* in the ring of each DMA engine */
    int64_t offset[3], run, rows, total;               /* elements of a row; rows; elements */
    uint32_t *index;                                   /* of gather and scatter */
    uint64_t left[PARTS], paid, began, number;         /* bytes that count, of each part that is left, of a row */
    int rate, ring, engine, parts;                     /* bytes in 10 ns; parts: not ended yet */
};
struct part_queue { struct transfer *first, *last; };
struct dma_engine { struct part_queue ring[NEURON_QUEUES]; uint64_t packet; int current; bool busy; };

struct turns { int head; uint32_t left; };            /* of a loop: where it begins; turns that are not done */
struct output { int64_t lo, hi; uint64_t visible; uint8_t space, first, last; };
enum { OUTPUTS = 4 };
struct engine {
    int pc;
    uint32_t regs[NEURON_REGISTERS];
    /* ticks: when it may go on; when all it did is visible; since when another holds it up; when it looks again */
    uint64_t free, visible, asked, wake, executed;
    struct turns loop[NEURON_LOOPS];
    int nloops;
    bool blocked, held;                                /* it waited for a semaphore; another holds it up */
    struct output out[OUTPUTS];                        /* results that are not visible yet */
    int nout;
    struct clock clock;
};

struct event { uint64_t time, order; int kind, a; uint32_t value; struct transfer *t; };

struct neuron_sim {
    /* p: what runs; given, as it was loaded, or `sized`, with the values of its sizes in it */
    const struct neuron_program *p, *given;
    struct neuron_program *sized;
    struct neuron_config c;
    const struct timing *t;
    const int *figures;                                /* neuron_figures, but for a test */
    int generation;
    struct memory sbuf, psum, *hbm;                    /* hbm: one a tensor */
    int ntensors;                                      /* of hbm */
    /* of PSUM, `written` of each 4 bytes: by the tensor engine, last */
    struct memory product;
    struct shadow sbuf_shadow, psum_shadow, *hbm_shadow;
    struct semaphore sem[NEURON_SEMAPHORES];
    struct source *source[MOST_SOURCES];               /* all of those of semaphores, the first ones here */
    int nsources;
    struct engine engine[NEURON_NENGINES];
    struct dma_engine dma[PARTS];
    uint32_t ring_epoch[NEURON_QUEUES];
    struct clock ring_clock[NEURON_QUEUES];
    uint64_t dge_free[NEURON_NENGINES], ring_arrival[NEURON_QUEUES];
    struct event *heap;
    int nheap, heap_room;
    uint64_t now, order, random;
    uint64_t sbuf_held[2], psum_held[NEURON_NENGINES][8]; /* until when Vector, GpSimd hold SBUF; banks of PSUM */
    uint64_t load_free, product_free;                  /* tensor engine: its background load, its products */
    float *stationary, *moving, *sums, *row[4], acc[NEURON_PARTITIONS];
    uint32_t *quadrant;                                /* 32 rows */
    int stationary_rows, stationary_columns, stationary_start, stationary_type;
    bool loaded, stopped, out_of_memory, lacks_memory, ran; /* lacks: a tensor */
    bool turned;                                       /* now a turn of a loop ended, and another begins */
    struct fold *fold;                                 /* moments at which that was so */
    struct neuron_report reports[NEURON_MAX_REPORTS];
    int nreports;
    char stop_text[NEURON_ERROR];
    struct neuron_counters n;
    neuron_event_fn trace;
    void *user;
};

/* The running instruction: where it stands, for reports and random numbers. */
struct run { struct neuron_sim *s; const struct neuron_instr *i; int engine; struct place at[NEURON_OPERANDS]; };

/* types.c */
void neuron_load_floats(int type, const uint8_t *from, int64_t stride, int64_t n, float *to);
void neuron_store_floats(int type, uint8_t *to, int64_t stride, int64_t n, const float *from);
uint32_t neuron_round_tf32(uint32_t bits);
uint32_t neuron_mx_encode(enum neuron_type t, float f);
float neuron_mx_decode(enum neuron_type t, uint32_t code);
uint32_t neuron_mx_scale(enum neuron_type t, float amax, int margin);
float neuron_mx_power(uint32_t scale);
void neuron_philox(uint64_t key, uint64_t a, uint64_t b, uint32_t out[4]);

/* memory.c: element rows of an operand, in partition `lane` of those that it has */
bool neuron_memory_new(struct memory *m, int64_t lane, int64_t lanes, bool values);
void neuron_memory_free(struct memory *m);
void neuron_memory_clear(struct memory *m, int64_t lanes);
bool neuron_written(const struct memory *m, int64_t lane, int64_t byte, int64_t n);
void neuron_mark(struct memory *m, int64_t lane, int64_t byte, int64_t n);
struct memory *neuron_memory(struct neuron_sim *s, const struct neuron_operand *o);
void neuron_get(struct run *r, int operand, int lane, float *to);
void neuron_put(struct run *r, int operand, int lane, const float *from);
void neuron_get_bits(struct run *r, int operand, int lane, uint32_t *to);       /* integers, signed ones extended */
void neuron_put_bits(struct run *r, int operand, int lane, const uint32_t *from);
/* a number, or the one of that partition */
float neuron_column(struct run *r, int operand, int lane);
/* byte within a lane of element i of its pattern */
int64_t neuron_address(const struct neuron_operand *o, int64_t offset, int64_t element);
/* hi: behind the last */
bool neuron_extent(const struct neuron_operand *o, int64_t offset, int64_t *lo, int64_t *hi);
/* elements that lie one behind the other */
int64_t neuron_run_length(const struct neuron_operand *o);

/* pe.c, multiply.c, lanes.c, select.c, function.c: what instructions do */
void neuron_pe(struct run *r);
void neuron_multiply(int rows, int columns, int n, const float *stationary, const float *moving, float *sums);
void neuron_lanes(struct run *r);
void neuron_select(struct run *r);
/* of rows; steps of 0 or 1 from one b to the next */
void neuron_powers(int64_t n, const float *a, const float *b, int64_t step, float *to);
void neuron_alu(int op, int64_t n, const float *a, const float *b, int64_t step, float *to);
void neuron_activation(struct run *r);

/* dma.c */
/* start: when the trigger and all before it have ended */
void neuron_dma_issue(struct run *r, uint64_t start);
void neuron_dma_arrive(struct neuron_sim *s, struct transfer *t);
void neuron_dma_packet(struct neuron_sim *s, int engine);
/* what has not ended when a run stops */
void neuron_dma_drop(struct neuron_sim *s);

/* order.c: who knows what of whom */
void neuron_signal_given(struct neuron_sim *s, struct run *r, int stream, int semaphore, uint64_t value,
                         const struct clock *issuer, const struct clock *tells);
void neuron_wait_done(struct neuron_sim *s, struct run *r, const struct neuron_wait *w, uint64_t value);
void neuron_access(struct run *r, int stream, uint32_t epoch, const struct clock *knows, int operand, bool write);
bool neuron_shadow_new(struct shadow *h, int64_t bytes);
bool neuron_shadow_keep(struct neuron_sim *s, struct bucket *b, const struct access *a);
void neuron_shadow_clear(struct shadow *h);
void neuron_order_clear(struct neuron_sim *s);

/* engine.c */
void neuron_event(struct neuron_sim *s, uint64_t time, int kind, int a, uint32_t value, struct transfer *t);
enum { EVENT_WAKE, EVENT_SIGNAL, EVENT_ARRIVE, EVENT_PACKET };
uint64_t neuron_duration(struct neuron_sim *s, uint64_t modelled);             /* itself, or drawn */
uint64_t neuron_ns(const struct neuron_sim *s, uint64_t ns);                   /* in ticks */

/* The value that the semaphore must have before the engine goes on */
static inline uint64_t neuron_wanted(const struct engine *e, const struct neuron_wait *w)
{
    return w->value + (uint64_t)(w->reg != NEURON_NO_REGISTER ? e->regs[w->reg] : 0);
}

/* deadlock.c: a run has ended while engines wait: tells of one and, in turn, of who could end each wait */
void neuron_deadlock(struct neuron_sim *s);

/* fold.c: turns of loops that are like those before them, at once */
void neuron_fold(struct neuron_sim *s);
void neuron_fold_clear(struct neuron_sim *s);

/* report.c */
int neuron_engine_of(const struct neuron_sim *s, const struct neuron_instr *i);
void neuron_fail(struct run *r, enum neuron_check_id c, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *neuron_line(const struct neuron_sim *s, const struct neuron_instr *i, char to[64]);

#endif
