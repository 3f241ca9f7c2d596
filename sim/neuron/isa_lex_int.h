/* SPDX-License-Identifier: Apache-2.0 */
/* isa_lex_int.h - the text form under a reader: isa_lex.c has words and numbers, isa_parse.c what they say. */
#ifndef TCCC_NEURON_ISA_LEX_INT_H
#define TCCC_NEURON_ISA_LEX_INT_H

#include <setjmp.h>

#include "sim/neuron/isa_int.h"

#define MAX_LABELS 4096
#define MAX_WORD 64

struct isa_label {
    char name[MAX_WORD];
    int engine, at;
};
struct isa_reader {
    const char *c, *end;
    int line, engine; /* -1: none yet */
    struct neuron_program *p;
    struct isa_label *labels, *uses; /* a use's `at` is the instruction that jumps */
    int nlabels, nuses, nuse_lines[MAX_LABELS];
    char *error;
    jmp_buf out; /* where isa_fail() goes */
};

/* The message with the line's number in front; the reading ends. All below do so where the text has something else. */
_Noreturn void isa_fail(struct isa_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void isa_blanks(struct isa_reader *r);                    /* goes past blanks and a comment */
bool isa_at_end(struct isa_reader *r);                    /* of the line */
bool isa_take(struct isa_reader *r, char c);              /* goes past c if it is next */
void isa_want(struct isa_reader *r, char c);
bool isa_word_char(char c);
/* A word [A-Za-z0-9_]+, *at; its length, 0 where none stands. */
size_t isa_word(struct isa_reader *r, const char **at);
int isa_name_of(struct isa_reader *r, enum isa_names kind, const char *what);
int64_t isa_integer(struct isa_reader *r, int64_t lo, int64_t hi);
/* A float as neuron_disassemble() writes it: decimal, inf, -inf, nan, or bits and eight hexadecimal digits. */
float isa_real(struct isa_reader *r);

#endif
