/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to sim/ptx: modules, decoded instructions, warps. text_int.h has what reads them from text.
 *
 *     lex.c parse*.c       text -> module: symbols, functions, statements
 *     decode*.c forms.def  statement -> struct ptx_insn; operands.c: its operands
 *     flow.c               immediate post-dominators: where diverged lanes reconverge
 *     rows.c               operations on rows of 32 lanes, compiled once for each instruction set of the host
 *     exec.c               a warp's loop; access.c, reach.c, atom.c, warp_ops.c, sync.c, mma.c: what is no row
 *                          operation
 *     race.c report.c      checks;  memory.c: allocations;  launch.c: grids over threads of the host
 *
 * A register is a row: 32 lanes of its width, a predicate one word of 32 bits. Rows lie in the frame of a function's
 * activation, at offsets fixed when decoding; immediates are rows of the function's constants. Register 0 stands for
 * every constant: always defined.
 */
#ifndef TCCC_PTX_INT_H
#define TCCC_PTX_INT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "sim/ptx/ptxsim.h"

#define LANES 32
#define FULL 0xffffffffu
#define MAX_WARPS 32
#define MAX_CLUSTER 16
#define MAX_CLOCK (MAX_CLUSTER * MAX_WARPS)  /* warps of a cluster, by block and warp */
#define RANK_SHIFT 24                        /* shared::cluster addresses: rank + 1 above, 0 for the block itself */
#define MAX_BARRIERS 16

enum ptx_type {
    PT_NONE,
#define TYPE(id, text, bytes, cls) PT_##id,
#include "sim/ptx/types.def"
    PT_COUNT
};
struct ptx_type_row { const char *text; uint8_t bytes; char cls; };
extern const struct ptx_type_row ptx_types[PT_COUNT];

enum ptx_space { SP_GENERIC, SP_REG, SP_GLOBAL, SP_SHARED, SP_CONST, SP_LOCAL, SP_PARAM };

/* Generic addresses of the spaces that are no memory of the device. */
#define WINDOW_SHARED UINT64_C(0xF100000000000000)
#define WINDOW_LOCAL UINT64_C(0xF200000000000000)
#define WINDOW_PARAM UINT64_C(0xF300000000000000)
#define FUNC_LOCAL (UINT64_C(1) << 20)
#define WINDOW_MASK UINT64_C(0xFF00000000000000)

/* -- Rows (rows.c) -- */
typedef void ptx_row_fn(void *d, const void *a, const void *b, const void *c);
typedef uint32_t ptx_cmp_fn(const void *a, const void *b);
#if defined(__x86_64__)
#define PTX_ROWS_V3 1
#endif
struct ptx_rows {
    /* NULL: there is none; wide: bytes factor of d */
    ptx_row_fn *(*find)(const char *name, enum ptx_type type, int *nsrc, int *wide);
    ptx_cmp_fn *(*compare)(const char *name, enum ptx_type type);
    void (*blend)(void *d, const void *t, uint32_t mask, int bytes);    /* active lanes of t into d */
    void (*flush)(void *d, const void *a, enum ptx_type type);          /* subnormals to zeros of their sign */
    void (*saturate)(void *d, enum ptx_type type);                      /* to [0, 1], NaN to 0 */
    void (*tf32)(void *d, const void *a, bool away);                    /* f32 to f32 with 10 bits of mantissa */
    /* out: the least, the greatest and the bits of all active lanes' addresses; what is not active counts as the first
     * that is */
    void (*extent)(const uint64_t *address, uint32_t mask, uint64_t out[3]);
    /* f16, bf16, tf32, f32, 8-bit integers and floats; n: a multiple of 4 */
    void (*widen)(double *to, const void *from, int n, enum ptx_type type);
    void (*narrow)(float *to, const double *from, int n);               /* rounded to nearest; NaN: the canonical one */
    /* sum[m][n] += a[m][64] b[k][n], the terms one after the other in the order of k; n: a multiple of 8. */
    void (*product)(int m, int n, int k, const double *a, const double *b, double *sum);
};
extern const struct ptx_rows ptx_rows_base, ptx_rows_v3;
const struct ptx_rows *ptx_rows_best(void);

/* -- Decoded instructions -- */
struct ptx_warp;
struct ptx_insn;
typedef void ptx_run_fn(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask);

struct ptx_op {
    uint32_t at;             /* bytes into the frame or the constants */
    uint32_t reg;            /* for the defined-mask; 0: a constant */
    uint8_t bytes;           /* of a lane; 0: a predicate */
    uint8_t constant, negate, sink;
};

enum ptx_kind { K_ROW, K_FLOAT, K_COMPARE, K_RUN, K_BRANCH, K_CALL, K_RETURN, K_EXIT };
enum { F_FTZ = 1, F_SAT = 2, F_GUARD = 4, F_ORDER = 8, F_UNIFORM = 16, F_CC = 32, F_CC_IN = 64, F_VOLATILE = 128 };

struct ptx_insn {
    uint8_t kind, flags, nsrc, cls;
    uint8_t type, type2;     /* of the operation; of its source where that differs */
    uint8_t round;           /* FE_* index: 0 nearest, 1 zero, 2 down, 3 up; 4.. integer roundings */
    uint8_t op, op2;         /* selects within a handler */
    uint8_t space, vec;
    int line, target, rejoin;
    struct ptx_op guard, d, d2, s[4];
    struct ptx_op *more;     /* vector operands: destinations first, then sources */
    int nmore;
    int64_t imm;             /* address offset */
    union { ptx_row_fn *row; ptx_cmp_fn *cmp; ptx_run_fn *run; } fn;
    const struct ptx_func *callee;
    const struct ptx_call *call;
    const char *text;        /* opcode, for reports */
};

/* A call's arguments: variables (.param) of the caller, or registers. */
struct ptx_arg { const struct ptx_sym *var; struct ptx_op op; bool is_op; };
struct ptx_call {
    int nargs, nrets;
    struct ptx_arg *args, *rets;
    const char *name;
    const struct ptx_sym *table;
    struct ptx_op pointer;
};

struct ptx_sym {
    struct ptx_sym *next;
    const char *name;
    enum ptx_space space;
    enum ptx_type type;
    int scope, align, reg;   /* reg: a parameter that is a register */
    size_t size;
    bool dynamic;            /* .extern .shared x[] */
    uint64_t at;             /* global, const: address; shared, local, param: offset */
    const struct ptx_func *placed;  /* shared: the function for which `at` holds */
    uint8_t *init;
};

/* count < 0: one register of that very name */
struct ptx_reg { const char *prefix; int count, scope, first; enum ptx_type type; };
struct ptx_label { const char *name; int scope, pc; };

/* Where a shared variable lies. Between two of them there is a gap of at least SHARED_GAP bytes that are nobody's, so
 * that what runs over the end of one is seen; it leaves banks and swizzles as they are, and a device's count of bytes
 * (shared_bytes) has none. */
enum { SHARED_GAP = 1024 };
struct ptx_span { const char *name; uint64_t from, to; };

/* From instruction pc on: a line of a file of the source's (.loc, .file). */
struct ptx_loc { int pc, file, line; };
struct ptx_file { struct ptx_file *next; int64_t number; const char *name; };

struct ptx_func {
    struct ptx_func *next;
    const char *name;
    struct ptx_module *m;
    bool entry, defined;
    struct ptx_insn *code;
    int ncode, room;
    struct ptx_loc *places; int nplaces, place_room;
    struct ptx_sym *syms;                /* own variables: params, returns, local, shared, .param of calls */
    struct ptx_sym **params, **rets;
    int nparams, nrets;
    size_t param_bytes;                  /* in and out, a lane (functions), or the block (entries) */
    size_t var_bytes;                    /* .param variables of the body, a lane */
    size_t local_bytes, shared_bytes;    /* local: functions' lie from FUNC_LOCAL on; shared: without gaps */
    struct ptx_span *shared; int nshared, shared_room;
    uint64_t gaps, dynamic_at;           /* bytes of gaps so far; where the launch's bytes begin */
    int maxntid[3], reqntid[3], maxnreg, cluster[3];
    int registers;                       /* of a thread: an estimate */
    uint32_t *reg_at; uint8_t *reg_type; int nregs, reg_room;
    size_t frame_bytes;
    uint8_t *constants; size_t const_bytes, const_room;
    struct { uint8_t special; uint32_t reg; } *specials; int nspecials;
};

struct ptx_kernel { struct ptx_func f; };

struct ptx_module {
    struct ptx_device *d;
    struct ptx_func *funcs;              /* last first */
    struct ptx_sym *globals;
    struct ptx_block_mem *arena;
    int sm;
    struct ptx_file *files;
    size_t func_local;                   /* end of the functions' local variables */
    uint64_t *owned; int nowned;         /* allocations of its variables */
};

/* -- Memory -- */
struct ptx_alloc {
    uint64_t base, size;
    uint8_t *data, *shadow;              /* shadow: 0 never written, 1 written, a byte each; NULL: memory of the host */
    uint16_t *lines;                     /* epoch in which each line of 128 bytes was touched last */
    uint64_t *cells;                     /* who wrote and who read each word last (race.c); NULL: not checked */
    bool live, constant, borrowed;       /* borrowed: the bytes belong to somebody else */
    _Atomic bool whole;                  /* all of it is written */
    bool ranged;                         /* ranges of the next launch lie in it: others are forbidden */
    const struct ptx_device *home;       /* in whose memory the bytes lie; NULL: the host's */
    char name[64];
};
/* Launches and copies by epoch: what a cell's record names. A clock says up to which one each chain of them happened
 * before. */
#define PTX_EPOCHS 4096
struct ptx_epoch { uint64_t id; int slot; };
struct ptx_device {
    struct ptx_config config;
    struct ptx_alloc **allocs; int n, room;  /* by rising address, dead ones too */
    uint64_t reserve, reserve_size, next;    /* device addresses: a range that nobody can touch */
    pthread_mutex_t lock;
    struct ptx_report reports[PTX_MAX_REPORTS]; int nreports;
    const struct ptx_rows *rows;
    struct ptx_range *ranges; int nranges;   /* what the next launch may touch of the allocations in which they lie */
    struct ptx_epoch epochs[PTX_EPOCHS];
    unsigned epoch;
    const uint64_t *clock;                   /* PTX_SLOTS entries; NULL: all that ran before happened before */
    const char *activity;                    /* the copy that runs now, for reports */
    bool dry;                                /* kernels write none of its memory */
    struct ptx_device *peers[PTX_PEERS]; int npeers;   /* whose memory its kernels reach */
};
struct ptx_alloc *ptx_lookup(const struct ptx_device *d, uint64_t address);   /* live or dead; NULL: none */

/* -- Execution -- */
struct ptx_split { uint32_t mask; int pc, rejoin; };
struct ptx_frame {
    const struct ptx_func *f;
    uint8_t *rows;
    uint32_t *def;                       /* by register: lanes that are defined */
    uint8_t *vars, *params;              /* a lane after the other */
    int base;                            /* its first split */
    const struct ptx_insn *call;
    void *memory; size_t room;
};
enum ptx_state { W_READY, W_BARRIER, W_WAIT, W_DONE };
struct ptx_copy { uint32_t to; uint8_t lane, bytes, from_bytes; bool arrived; int group; const uint8_t *data; };

/* Cycles since the block began, for 1, 2, .. warps that share a tensor core (path.c). */
enum { PTX_SHARES = 4, PTX_GROUPS = 16 };
struct ptx_path { uint64_t at[PTX_SHARES]; };

struct ptx_warp {
    struct ptx_block *b;
    const struct ptx_rows *rows;
    int id;
    enum ptx_state state;
    uint32_t live, cc;
    struct ptx_frame *frame;             /* the innermost */
    struct ptx_frame frames[64]; int nframes;
    struct ptx_split *split; int nsplit, split_room;
    int barrier;
    struct ptx_op barrier_out;           /* bar.red: where the result goes */
    uint32_t barrier_mask;
    struct ptx_alloc *last;              /* allocation of the last access */
    const struct ptx_range *range;       /* that of the last access to an allocation with ranges */
    const struct ptx_insn *at;           /* for reports */
    int quantum;
    struct ptx_copy *copies; int ncopies, copy_room;
    int group[LANES];                    /* cp.async groups that each lane has committed */
    uint32_t clock[MAX_CLOCK];           /* era up to which accesses of each warp happened before */
    uint32_t floor;                      /* era up to which all accesses did, whoever made them */
    uint32_t proxy[LANES];               /* era of each lane's last fence.proxy.async */
    int bulk_group[LANES];               /* bulk groups committed */
    bool in_cluster; uint32_t cluster_phase; /* arrived at the cluster's barrier, in which phase */
    struct ptx_wgmma *products; int nproducts, product_room, product_group; bool product_fence;
    uint64_t tick;
    /* path.c: its clocks; where they were when it began to try a wait; of its copies and products */
    struct ptx_path now, tried, bulk_until, product_until;
    bool tries, multiplies; uint64_t counted;    /* instructions that `now` holds */
    /* when the cp.async of its last groups arrive; groups committed */
    struct ptx_path copies_at[PTX_GROUPS]; uint64_t copy_group;
};

struct ptx_barrier {
    struct ptx_path now;
    unsigned expected, arrived;
    uint32_t warps, waiting;
    uint32_t clock[MAX_CLOCK];
    bool any, all;
    unsigned count;
    int op;
};
/* what arrivals of even and odd phases published */
struct ptx_mbar { struct ptx_path now[2]; uint32_t at; uint32_t clock[2][MAX_CLOCK]; };
struct ptx_cell { uint64_t write[2], read[2]; };
/* accesses of a block up to an era happened before */
struct ptx_seen { uint32_t block, era; };
struct ptx_seen_set { struct ptx_seen *at; uint32_t n, room; };      /* hashed by block; room: a power of two */

/* A bulk or tensor copy on its way (bulk.c). */
struct ptx_tensor {
    uint64_t base, dims[5], strides[5];
    uint32_t box[5], step[5];
    int rank, bytes, type, swizzle, im2col, channels, pixels, lower[3], upper[3];
    bool nan_fill;
};
struct ptx_bulk {
    bool store, landed, is_tensor;
    char reduce; uint8_t type;           /* stores: 0, or an operation on elements of a type */
    struct ptx_block *b, *bar_block;     /* whose shared memory, whose mbarrier */
    struct ptx_warp *w; int lane, group; /* who issued it */
    uint32_t at, bar, era;
    struct ptx_path done; bool again;    /* when it arrives; a further copy of a multicast */
    uint64_t global;
    size_t bytes;
    struct ptx_tensor map; int32_t coord[5]; int offset[3];
};

struct ptx_block {
    struct ptx_block *lead;              /* the cluster's first block, which the others follow */
    int rank, nblocks, nclock;           /* of the cluster; entries of clocks in use */
    uint32_t cluster_phase, cluster_clock[MAX_CLOCK];   /* lead: barrier.cluster */
    struct ptx_bulk *bulk; int nbulk, bulk_room;        /* lead: copies that have not been waited for */
    uint8_t *tags;                       /* swizzle + 1 with which a tensor copy wrote each 128 bytes */
    struct ptx_device *d;
    const struct ptx_func *f;
    const struct ptx_launch *l;
    struct ptx_grid *g;
    unsigned id[3];
    int nwarps, nthreads;
    struct ptx_warp *warps;
    uint8_t *shared, *shadow; size_t shared_bytes, shared_room;
    struct ptx_cell *cells;
    /* what a device that is dry has written instead of its memory: 32 lanes of 32 bytes */
    uint8_t sink[1024];
    uint8_t *local; size_t local_bytes;  /* a thread's */
    uint8_t *local_shadow;
    struct ptx_barrier barriers[MAX_BARRIERS];
    struct ptx_mbar *mbars; int nmbars, mbar_room;
    uint32_t era;
    uint32_t number, fenced;             /* in records, 0: too many blocks; era of the last fence */
    struct ptx_seen_set seen;
    uint64_t random, executed;
    struct ptx_path cluster_now[2];      /* lead: of the cluster's barrier, by phase */
    struct ptx_counters count;
    bool stop, ended;                    /* lead: ended: of its cluster nothing is left to run */
    int idle;                            /* lead: turns in which its warps only polled */
};

/* path.c */
void ptx_path_latest(struct ptx_path *to, const struct ptx_path *from);
void ptx_path_arrive(struct ptx_warp *w, struct ptx_path *at);       /* `at` is no earlier than the warp */
void ptx_path_tries(struct ptx_warp *w);
void ptx_path_wait(struct ptx_warp *w, const struct ptx_path *until);
struct ptx_path ptx_path_copy(struct ptx_warp *w);             /* a cp.async: when it arrives */
struct ptx_path ptx_path_bulk(struct ptx_warp *w, size_t bytes);     /* a bulk copy of so many bytes: the same */
/* products that keep the tensor core for so long: when they end */
struct ptx_path ptx_path_product(struct ptx_warp *w, uint64_t cycles);
void ptx_path_products_wait(struct ptx_warp *w, struct ptx_path until);
void ptx_path_end(struct ptx_block *b);

struct ptx_grid {
    struct ptx_device *d;
    const struct ptx_kernel *k;
    const struct ptx_launch *l;
    _Atomic uint64_t next;
    uint64_t blocks;
    unsigned cluster[3];
    _Atomic bool stop;
    pthread_mutex_t lock;
    struct ptx_counters count;
    char error[PTX_ERROR];
    _Atomic bool no_memory;
    /* by address: what was released there */
    struct ptx_flag { uint64_t address; struct ptx_seen_set seen; } *flags; int nflags, flag_room;
};

static inline int ptx_index(const struct ptx_warp *w)                 /* in clocks */
{
    return w->b->rank * MAX_WARPS + w->id;
}
static inline void *ptx_row(const struct ptx_warp *w, const struct ptx_op *o)
{
    return (o->constant ? w->frame->f->constants : w->frame->rows) + o->at;
}
static inline uint32_t ptx_pred(const struct ptx_warp *w, const struct ptx_op *o)
{
    uint32_t v;
    memcpy(&v, ptx_row(w, o), 4);
    return o->negate ? ~v : v;
}
/* Bytes of a lane: of a known number of them, so that no copy is a loop. */
static inline uint64_t ptx_get_bytes(const uint8_t *from, int bytes)
{
    uint64_t v = 0;
    switch (bytes) {
    case 1: return *from;
    case 2: memcpy(&v, from, 2); return v;
    case 4: memcpy(&v, from, 4); return v;
    default: memcpy(&v, from, 8); return v;
    }
}
static inline void ptx_put_bytes(uint8_t *to, uint64_t v, int bytes)
{
    switch (bytes) {
    case 1: *to = (uint8_t)v; break;
    case 2: memcpy(to, &v, 2); break;
    case 4: memcpy(to, &v, 4); break;
    default: memcpy(to, &v, 8);
    }
}
static inline uint64_t ptx_lane(const struct ptx_warp *w, const struct ptx_op *o, int lane)
{
    const uint8_t *row = ptx_row(w, o);
    return o->bytes ? ptx_get_bytes(row + (size_t)lane * o->bytes, o->bytes) : ptx_pred(w, o) >> lane & 1;
}
/* Sets a lane of a destination and defines it. */
static inline void ptx_set(struct ptx_warp *w, const struct ptx_op *o, int lane, uint64_t v)
{
    uint8_t *row;
    if (o->sink)
        return;
    row = w->frame->rows + o->at;
    if (!o->bytes) {
        uint32_t p;
        memcpy(&p, row, 4);
        p = (p & ~(1u << lane)) | (uint32_t)(v & 1) << lane;
        memcpy(row, &p, 4);
    } else
        ptx_put_bytes(row + (size_t)lane * o->bytes, v, o->bytes);
    w->frame->def[o->reg] |= 1u << lane;
}
static inline void ptx_set_pred(struct ptx_warp *w, const struct ptx_op *o, uint32_t mask, uint32_t v)
{
    uint32_t p;
    if (o->sink)
        return;
    memcpy(&p, w->frame->rows + o->at, 4);
    p = (p & ~mask) | (v & mask);
    memcpy(w->frame->rows + o->at, &p, 4);
    w->frame->def[o->reg] |= mask;
}
#define EACH_LANE(l, mask) \
    for (uint32_t l##_left = (mask), l; l##_left && (l = (uint32_t)__builtin_ctz(l##_left), 1); \
         l##_left &= l##_left - 1)

/* until it waits, is done, or its quantum is over */
void ptx_step_warp(struct ptx_warp *w);
void ptx_push_frame(struct ptx_warp *w, const struct ptx_func *f, uint32_t mask, const struct ptx_insn *call);
static inline uint64_t ptx_random(uint64_t *state)                    /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
void ptx_report(struct ptx_warp *w, enum ptx_check c, int lane, uint64_t address, const char *format,
                ...) __attribute__((format(printf, 5, 6)));
void ptx_report_host(struct ptx_device *d, enum ptx_check c, uint64_t address, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
void ptx_need_defined(struct ptx_warp *w, const struct ptx_op *o, uint32_t mask, const char *what);

/* A lane's access: where the bytes lie; NULL after a report. `write` marks them written. */
/* b: whose shared memory */
struct ptx_place {
    uint8_t *data, *shadow;
    enum ptx_space space;
    uint64_t offset;
    struct ptx_alloc *a;
    struct ptx_block *b;
};
bool ptx_place(struct ptx_warp *w, enum ptx_space space, uint64_t address, size_t bytes, int lane, bool write,
               struct ptx_place *to);
void ptx_check_read(struct ptx_warp *w, const struct ptx_place *p, size_t bytes, int lane, uint64_t address);
/* Are so many bytes, a power of two, written? */
static inline bool ptx_written(const uint8_t *shadow, size_t bytes)
{
    uint64_t ones = UINT64_C(0x0101010101010101), v = 0, more = ones;
    switch (bytes) {
    case 1: return *shadow == 1;
    case 2: memcpy(&v, shadow, 2); return v == (ones & 0xffff);
    case 4: memcpy(&v, shadow, 4); return v == (ones & 0xffffffff);
    default:
        for (size_t k = 0; k < bytes; k += 8) {
            memcpy(&v, shadow + k, 8);
            more = v == ones ? more : 0;
        }
        return more;
    }
}
/*
 * Where an access of all active lanes lies (reach.c): within one allocation, or one variable of the block's shared
 * memory, aligned and allowed; the bytes of address x are at data + (x - base). False: some lane may be wrong, or lies
 * elsewhere; look at each by ptx_place().
 */
/* a NULL: shared; written: no byte has to be looked at */
struct ptx_reach { uint8_t *data, *shadow; uint64_t base; struct ptx_alloc *a; bool written; };
bool ptx_reach(struct ptx_warp *w, enum ptx_space space, const uint64_t *address, uint32_t mask, size_t bytes,
               bool write, struct ptx_reach *to);
static inline struct ptx_place ptx_reach_place(struct ptx_warp *w, const struct ptx_reach *r, uint64_t address)
{
    uint64_t at = address - r->base;
    return (struct ptx_place){r->data + at, r->shadow ? r->shadow + at : NULL, r->a ? SP_GLOBAL : SP_SHARED, r->a
        ? address : at, r->a, r->a ? NULL : w->b};
}
bool ptx_run_of_lanes(struct ptx_warp *w, const struct ptx_insn *i, const uint64_t *address, uint32_t mask,
                      size_t bytes, bool write);
void ptx_mark_written(const struct ptx_place *p, size_t bytes);
uint64_t ptx_lane_address(struct ptx_warp *w, const struct ptx_insn *i, int s, int lane);
void ptx_count_global(struct ptx_warp *w, const uint64_t *address, uint32_t mask, size_t bytes);
void ptx_count_lines(struct ptx_warp *w, const struct ptx_alloc *a, uint64_t address, size_t bytes);
/* Do they lie within one variable of the block's, or within the launch's bytes? */
bool ptx_in_shared(const struct ptx_block *b, uint64_t at, uint64_t bytes);
/* The report that they don't; what: "write", "read", ... */
void ptx_beyond_shared(struct ptx_warp *w, const struct ptx_block *b, int lane, uint64_t at, uint64_t bytes,
                       const char *what);
void ptx_count_shared(struct ptx_warp *w, const uint64_t *address, uint32_t mask, size_t bytes);

enum { RACE_ATOMIC = 1, RACE_ASYNC = 2 };                             /* how: by the async proxy */
void ptx_race(struct ptx_warp *w, struct ptx_block *b, int lane, uint32_t offset, size_t bytes, bool write, int how);
/* Of all lanes of the mask, in the block's own shared memory: at address - base. */
void ptx_race_lanes(struct ptx_warp *w, const uint64_t *address, uint64_t base, uint32_t mask, size_t bytes,
                    bool write);
/* Reads of the async proxy: were the writes of threads fenced? Reports else. */
bool ptx_proxy_read(struct ptx_warp *w, struct ptx_block *b, int lane, uint32_t offset, size_t bytes);
bool ptx_by_async(const struct ptx_block *b, uint32_t offset);        /* a tensor copy wrote the word last */
void ptx_bulk_land(struct ptx_block *lead, int k);
void ptx_bulk_waited(struct ptx_block *b, uint32_t bar);
bool ptx_bulk_reads(struct ptx_block *b, uint32_t offset, size_t bytes);   /* a store is on its way from there */
void ptx_mbar_complete(struct ptx_block *b, uint32_t at, uint32_t bytes, const struct ptx_bulk *from);
void ptx_product_run(struct ptx_warp *w);                             /* the oldest product that has not run */
void ptx_product_guard(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask);
void ptx_cluster_exit(struct ptx_block *lead);
bool ptx_tensor_decode(const void *map, struct ptx_tensor *t);        /* false: 128 bytes that are no tensor map */
void ptx_join(const struct ptx_block *b, uint32_t *to, const uint32_t *from);

void ptx_race_warp(struct ptx_warp *w);                               /* bar.warp.sync */
/* Global memory (race_global.c): accesses of a lane, or by 32 lanes of neighbouring elements; fences and what
 * synchronises; copies. */
void ptx_race_global(struct ptx_warp *w, int lane, const struct ptx_place *p, size_t bytes, bool write, bool atomic);
void ptx_race_run(struct ptx_warp *w, const struct ptx_place *p, size_t bytes, bool write, bool atomic);
void ptx_race_fence(struct ptx_warp *w);
enum { SYNC_ACQUIRE = 1, SYNC_RELEASE = 2 };
void ptx_race_sync(struct ptx_warp *w, uint64_t address, int how);
void ptx_race_copy(struct ptx_device *d, const struct ptx_alloc *a, uint64_t offset, size_t bytes, bool write);
bool ptx_in_range(struct ptx_warp *w, const struct ptx_alloc *a, uint64_t address, size_t bytes, int lane, bool write);
void ptx_barrier_exit(struct ptx_block *b);
void ptx_copies_arrive(struct ptx_warp *w, int pending, uint32_t mask);   /* pending -1: all, not committed ones too */
void ptx_copies_land(struct ptx_warp *w);                             /* data come early; the wait is still due */
bool ptx_whole_warp(struct ptx_warp *w, uint32_t mask);               /* false after a report */
bool ptx_members(struct ptx_warp *w, const struct ptx_op *members, uint32_t mask);

double ptx_half_to_double(uint16_t h);
double ptx_bf16_to_double(uint16_t h);
double ptx_fp8_to_double(uint8_t v, bool e5m2);
/* round: 0 nearest even, 1 zero, 2 down, 3 up, 4 nearest away */
uint16_t ptx_double_to_half(double v, int round);
uint16_t ptx_double_to_bf16(double v, int round);
uint8_t ptx_double_to_fp8(double v, bool e5m2);                       /* satfinite */
float ptx_double_to_float(double v, int round);
float ptx_round_tf32(float v, bool away);

/* Handlers by file. */
#define RUN(name) void name(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask);
RUN(ptx_run_load) RUN(ptx_run_store) RUN(ptx_run_atom) RUN(ptx_run_cp_async) RUN(ptx_run_cp_wait)
RUN(ptx_run_cp_commit) RUN(ptx_run_ldmatrix) RUN(ptx_run_stmatrix) RUN(ptx_run_movmatrix) RUN(ptx_run_mma)
RUN(ptx_run_bar) RUN(ptx_run_bar_warp) RUN(ptx_run_mbarrier) RUN(ptx_run_cp_mbarrier) RUN(ptx_run_shfl)
RUN(ptx_run_vote) RUN(ptx_run_match) RUN(ptx_run_activemask) RUN(ptx_run_redux) RUN(ptx_run_elect) RUN(ptx_run_cvt)
RUN(ptx_run_selp) RUN(ptx_run_setp) RUN(ptx_run_set) RUN(ptx_run_slct) RUN(ptx_run_pred) RUN(ptx_run_pack)
RUN(ptx_run_unpack) RUN(ptx_run_fence) RUN(ptx_run_proxy_fence) RUN(ptx_run_mapa) RUN(ptx_run_ctarank)
RUN(ptx_run_cluster_arrive) RUN(ptx_run_cluster_wait) RUN(ptx_run_wgmma) RUN(ptx_run_wgmma_fence)
RUN(ptx_run_wgmma_commit) RUN(ptx_run_wgmma_wait) RUN(ptx_run_setmaxnreg) RUN(ptx_run_carry) RUN(ptx_run_trap)
RUN(ptx_run_nothing) RUN(ptx_run_isspace) RUN(ptx_run_cvta) RUN(ptx_run_bits) RUN(ptx_run_testp)
#undef RUN

#endif
