/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set of the NeuronCore target: programs in memory, as text and as bytes, and the rules that operands
 * keep. A leaf: it knows neither compiler nor simulator. doc/neuron-isa.md describes the text form,
 * runtime/neuron_isa.def is the table of instructions.
 *
 * A program is one core's: tensors in HBM, and a stream of instructions for each engine. Functions that fail write why
 * into `error` (NEURON_ERROR bytes), beginning with the line of the text ("line 7: ..."), for a program that was not
 * read from text with the engine and the instruction's number ("vector 12: ..."). Nothing here prints, exits or keeps
 * state: programs of different threads are independent.
 */
#ifndef TCCC_NEURON_ISA_H
#define TCCC_NEURON_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum neuron_core_kind {
#define CORE(id, ...) NEURON_##id,
#include "runtime/neuron_isa.def"
    NEURON_NCORES
};
enum neuron_type {
#define TYPE(id, ...) NEURON_##id,
#include "runtime/neuron_isa.def"
    NEURON_NTYPES
};
enum neuron_engine {
#define ENGINE(id, ...) NEURON_##id,
#include "runtime/neuron_isa.def"
    NEURON_NENGINES
};
enum neuron_alu {
#define ALU(id, ...) NEURON_ALU_##id,
#include "runtime/neuron_isa.def"
    NEURON_NALU
};
enum neuron_func {
#define FUNC(id, ...) NEURON_FUNC_##id,
#include "runtime/neuron_isa.def"
    NEURON_NFUNCS
};
enum neuron_attr {
    NEURON_ATTR_NONE,
#define ATTR(id, ...) NEURON_ATTR_##id,
#include "runtime/neuron_isa.def"
    NEURON_NATTRS
};
enum neuron_op {
#define OP(id, ...) NEURON_OP_##id,
#include "runtime/neuron_isa.def"
    NEURON_NOPS
};
enum neuron_acc { NEURON_ACC_IDLE, NEURON_ACC_RESET, NEURON_ACC_REDUCE, NEURON_ACC_RESET_REDUCE };
enum neuron_space {
    NEURON_NOWHERE, NEURON_SBUF, NEURON_PSUM, NEURON_HBM, NEURON_NUMBER, NEURON_REGISTER, NEURON_LABEL
};
enum neuron_use { NEURON_IN, NEURON_OUT, NEURON_INOUT, NEURON_TEMP, NEURON_NUSES };   /* of a tensor */

enum {
    NEURON_ERROR = 512,
    NEURON_PARTITIONS = 128, NEURON_PSUM_BYTES = 16384, NEURON_BANK_BYTES = 2048,      /* of a partition */
    NEURON_LOOPS = 8,                                                                  /* in one another */
    NEURON_SEMAPHORES = 256, NEURON_REGISTERS = 32, NEURON_QUEUES = 16, NEURON_DMA_ENGINES = 16,
    NEURON_ENV_WORDS = 10, NEURON_ENV_SIZES = 4,
    NEURON_SIZES = 6, NEURON_SIZE_NAME = 32, NEURON_TERMS = 2, NEURON_POWER = 3,
    NEURON_OPERANDS = 4, NEURON_DIMS = 5, NEURON_WAITS = 4, NEURON_SIGNALS = 2, NEURON_MAX_ATTRS = 8, NEURON_RANK = 8,
    /* the most tensors of a kernel's program, but for NEURON_ENV_NAME */
    NEURON_NO_REGISTER = 255, NEURON_ARGUMENTS = 256,
    /* largest free sizes: gemm, bn_stats */
    NEURON_MOVING = 512, NEURON_STATIONARY = 128, NEURON_BN = 512
};

/*
 * Where an operand lies. In SBUF and PSUM: `count` partitions from `start`, in each of them the same access pattern of
 * up to 4 dims from byte `offset`. In HBM: up to 5 dims from byte `offset` of a tensor. Sizes and strides in elements,
 * outermost first; the innermost dim varies fastest. A register adds its value to the offset when the instruction runs.
 * Sizes are factors of strides in HBM, and of what is added to an offset there or to an integer: a power has two bits
 * for each size of the program, how often it is a factor.
 */
struct neuron_operand {
    uint8_t space, type, ndims, reg;
    uint8_t start, count;
    uint16_t tensor;                     /* HBM */
    /* bytes; NEURON_REGISTER without a register: the integer; NEURON_LABEL: the instruction */
    int64_t offset, by[NEURON_TERMS], stride[NEURON_DIMS];
    uint32_t size[NEURON_DIMS];
    uint16_t power[NEURON_TERMS], times[NEURON_DIMS];    /* sizes that by[k] and stride[k] are multiplied by */
    float number;                        /* NEURON_NUMBER */
};
struct neuron_wait { uint8_t semaphore, reg; uint32_t value; };          /* until semaphore >= value + register */
/* on completion; of a DMA: 1 by each of its 16 engines */
struct neuron_signal { uint8_t semaphore; uint32_t value; };
union neuron_value { int32_t i; float f; };

struct neuron_instr {
    uint8_t op, noperands, nwaits, nsignals;
    int32_t line;                        /* of the text; 0: none */
    struct neuron_operand operand[NEURON_OPERANDS];
    struct neuron_wait wait[NEURON_WAITS];
    struct neuron_signal signal[NEURON_SIGNALS];
    union neuron_value attr[NEURON_MAX_ATTRS];       /* in the order of the instruction's row */
    uint8_t mask[32];
};
/* sizes: numbers of those by which dims[0] is multiplied; times: their product */
struct neuron_tensor {
    char *name;
    uint8_t use, type, rank, nsizes, sizes[NEURON_SIZES];
    int64_t dims[NEURON_RANK], times;
};
/* A size that only the run knows: every engine finds it in that register when the program begins. made: it is one of
 * those before it, the sum of by[k] times size k, and `plus`, over `over`, rounded down; 0 where that is less. */
struct neuron_size {
    char name[NEURON_SIZE_NAME];
    uint8_t reg;
    bool made;
    int64_t value, by[NEURON_SIZES], plus, over;
};
struct neuron_stream { struct neuron_instr *code; int n, room; };
struct neuron_program {
    enum neuron_core_kind core;
    struct neuron_tensor *tensors;
    int ntensors, tensor_room, nsizes;
    struct neuron_size size[NEURON_SIZES];
    struct neuron_stream stream[NEURON_NENGINES];
};

/* An empty program; NULL: no memory. */
struct neuron_program *neuron_program_new(enum neuron_core_kind core);
void neuron_program_free(struct neuron_program *p);
/* Behind a core's name, in the machine of an image: a logical core is two physical ones that share their HBM, and each
 * kernel has a program for both; or it is one. A name without them has the generation's default. */
#define NEURON_LNC1 "-lnc1"
#define NEURON_LNC2 "-lnc2"
#define NEURON_DEFAULT_LNC(generation) ((generation) < 3 ? 1 : 2)
/* Programs of a kernel in an image of logical cores of so many: of each core, and of the first one when both have ended
 * (of few kernels). */
#define NEURON_PROGRAMS(lnc) ((lnc) > 1 ? (lnc) + 1 : 1)
/* A tensor of that name behind a kernel's arguments: NEURON_ENV_WORDS words, the seed of the run and its number, low
 * words first, and from NEURON_ENV_SIZES on the sizes of the launch. */
#define NEURON_ENV_NAME "env"
/* Appends a tensor (its number is returned; the name is copied) or an instruction (a copy). -1, false: no memory, or
 * too many. */
int neuron_add_tensor(struct neuron_program *p, const struct neuron_tensor *t);
bool neuron_add(struct neuron_program *p, enum neuron_engine e, const struct neuron_instr *i);
int neuron_find_tensor(const struct neuron_program *p, const char *name, size_t n);    /* -1: none */
/* Sizes are 1 until they are set, before a simulation has the program or loads it. add: its number; -1: too many, or a
 * name or a register that is taken or not possible. */
int neuron_add_size(struct neuron_program *p, const char *name, size_t n, uint8_t reg);
int neuron_find_size(const struct neuron_program *p, const char *name, size_t n);      /* -1: none */
/* A size that was added becomes one that is made so (by, plus, over); false: of itself or those behind it. Such sizes
 * get their values when the others are set. */
bool neuron_make_size(struct neuron_program *p, int size, const struct neuron_size *how);
void neuron_set_size(struct neuron_program *p, int size, int64_t value);

/* Text to a program that keeps all rules, or NULL. `text` needs no 0 at its end. */
struct neuron_program *neuron_assemble(const char *text, size_t size, char *error);
/* The text of a program, to be freed; reading it gives the program again. NULL: no memory. */
char *neuron_disassemble(const struct neuron_program *p);
/* One instruction without its waits and signals, cut to `room` bytes. */
void neuron_instr_text(const struct neuron_program *p, const struct neuron_instr *i, char *to, size_t room);
/* The bytes of a program, to be freed. NULL: no memory. */
uint8_t *neuron_encode(const struct neuron_program *p, size_t *size);
/* Bytes from anywhere to a program that keeps all rules, or NULL. */
struct neuron_program *neuron_decode(const void *bytes, size_t size, char *error);
/* Whether bytes begin as neuron_encode() writes them. */
bool neuron_is_binary(const void *bytes, size_t size);
/* Whether a program keeps all rules of its core; else the first that it breaks. */
bool neuron_check(const struct neuron_program *p, char *error);

/* Rows of the tables. */
struct neuron_op_row {
    const char *name, *engines, *operands;
    int generation, nattrs;
    uint8_t attrs[NEURON_MAX_ATTRS];
};
const struct neuron_op_row *neuron_op_row(enum neuron_op op);
const char *neuron_core_name(enum neuron_core_kind c);
int neuron_generation(enum neuron_core_kind c);                          /* 2: NeuronCore-v2, 3: v3, 4: v4 */
int neuron_sbuf_bytes(enum neuron_core_kind c);                          /* of a partition */
const char *neuron_engine_name(enum neuron_engine e);
const char *neuron_type_name(enum neuron_type t);
int neuron_type_bytes(enum neuron_type t);
char neuron_type_class(enum neuron_type t);                              /* u, i, f or x */
const char *neuron_alu_name(enum neuron_alu a);
const char *neuron_func_name(enum neuron_func f);
/* Attribute of an instruction; 0 where its row has none of that name. */
union neuron_value neuron_attr(const struct neuron_instr *i, enum neuron_attr a);
bool neuron_set_attr(struct neuron_instr *i, enum neuron_attr a, union neuron_value v);
int64_t neuron_free_size(const struct neuron_operand *o);                /* elements: product of its sizes */
int64_t neuron_tensor_bytes(const struct neuron_tensor *t);
/* The `}` of the loop that begins at instruction `at`. */
int neuron_loop_end(const struct neuron_stream *s, int at);
bool neuron_is_dma(enum neuron_op op);
bool neuron_is_load(enum neuron_op op);                                  /* of what the tensor engine keeps */
bool neuron_is_product(enum neuron_op op);

#endif
