/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the instruction set's reader, writer and checker: rows of its tables, names. */
#ifndef TCCC_NEURON_ISA_INT_H
#define TCCC_NEURON_ISA_INT_H

#include "runtime/neuron_isa.h"

struct type_row { const char *name; int bytes; char class; int exponent, mantissa; };
struct alu_row { const char *name; char kind; int reduces; };
struct func_row { const char *name; float lo, hi; };
enum attr_kind { ATTR_none, ATTR_alu, ATTR_func, ATTR_acc, ATTR_int, ATTR_float, ATTR_flag, ATTR_mask };
struct attr_row { const char *name; enum attr_kind kind; };
const struct type_row *isa_type(int t);
const struct alu_row *isa_alu(int a);
const struct func_row *isa_func(int f);
const struct attr_row *isa_attr(int a);
char isa_engine_letter(enum neuron_engine e);

enum isa_names { ISA_CORES, ISA_TYPES, ISA_ENGINES, ISA_ALUS, ISA_FUNCS, ISA_ATTRS, ISA_OPS, ISA_ACCS, ISA_USES };
int isa_find(enum isa_names kind, const char *s, size_t n);
const char *isa_name(enum isa_names kind, int k);

/* The program with the values of its sizes in all operands, to be freed; NULL: no memory. */
struct neuron_program *neuron_with_sizes(const struct neuron_program *p);

/* How many operands an instruction with this row takes at least (those of kind c may be left out at the end). */
int isa_least_operands(const struct neuron_op_row *r);

/* isa_check.c: an instruction under check, of a program. */
struct checker {
    const struct neuron_program *p;
    const struct neuron_instr *i;
    const struct neuron_instr *stationary; /* what matmul multiplies by, as far as the order of the text says */
    bool unknown;                          /* a jump leads here */
    int engine, at, generation, owner[NEURON_QUEUES]; /* owner: of a queue, the engine that triggers it; -1 */
    char *error;
};
/* false, after the message, with where it is in front */
__attribute__((format(printf, 2, 3))) bool isa_bad(struct checker *c, const char *format, ...);
bool isa_check_instr(struct checker *c);
/* isa_check_shape.c, behind each operand by itself. */
bool isa_check_shape(struct checker *c);
bool isa_is_packed(int type);                                        /* four numbers of an MX format in 32 bits */
bool isa_is_float(int type);
int64_t isa_free_size(const struct checker *c, int k);               /* of operand k: elements of a partition */
/* First and last byte of a pattern, relative to its partition or tensor, without what a register adds. */
bool isa_extent(const struct neuron_operand *o, int64_t *lo, int64_t *hi);

#endif
