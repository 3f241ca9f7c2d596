/* SPDX-License-Identifier: Apache-2.0 */
/* text_int.h - PTX text that is being read: tokens, statements, the parser's state, what decode functions use. */
#ifndef TCCC_PTX_TEXT_INT_H
#define TCCC_PTX_TEXT_INT_H

#include "sim/ptx/ptx_int.h"

enum ptx_token { T_END, T_WORD, T_DOT, T_INT, T_F32, T_F64, T_STRING, T_PUNCT };
struct ptx_lexer {
    const char *at, *end;
    int line;
    enum ptx_token token;
    const char *word; size_t len;        /* T_WORD (dots within), T_DOT (after the dot), T_STRING */
    uint64_t value;                      /* T_INT, or the bits of a float */
    char punct;
    bool bad;
};
void ptx_lex(struct ptx_lexer *x);           /* to the next token */

enum ptx_raw { O_REG, O_INT, O_F32, O_F64, O_SYM, O_MEM, O_VEC, O_SINK, O_LIST };
struct ptx_operand {
    enum ptx_raw kind;
    const char *name;                    /* O_REG, O_SYM; O_MEM: base, or NULL */
    uint64_t value;
    int64_t offset;
    bool negate, minus;
    struct ptx_operand *list; int n;     /* O_VEC, O_LIST; O_MEM: coordinates don't occur */
    struct ptx_operand *second;          /* d|p */
};
struct ptx_statement {
    int line;
    const char *guard; bool guard_not;
    const char *opcode;
    const char *mod[24]; int nmod;       /* modifiers not yet taken */
    struct ptx_operand op[12]; int nop;
};

struct ptx_parse {
    struct ptx_lexer x;
    struct ptx_module *m;
    struct ptx_func *f;
    const struct ptx_rows *rows;
    struct ptx_statement st;
    int scope, nscopes, scope_room, *parent;
    struct ptx_reg *regs; int nregs, reg_room;
    struct ptx_label *labels; int nlabels, label_room;
    struct ptx_fix { int pc; const char *label; int scope; } *fixes; int nfixes, fix_room;
    struct { int64_t *imm; uint32_t constant; bool is_imm; int pc; int64_t add; } *dynamic; int ndynamic, dynamic_room;
    jmp_buf out;
    char *error;
};
_Noreturn void ptx_fail(struct ptx_parse *p, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void *ptx_new(struct ptx_parse *p, size_t bytes);                    /* zeroed; lives as long as the module */
void *ptx_grow(struct ptx_parse *p, void *list, int n, int *room, size_t each);
const char *ptx_name(struct ptx_parse *p, const char *s, size_t n);
struct ptx_sym *ptx_symbol(struct ptx_parse *p, const char *name);   /* NULL: unknown */
int ptx_register(struct ptx_parse *p, const char *name, enum ptx_type *type);  /* -1: unknown */
int ptx_add_register(struct ptx_parse *p, enum ptx_type type);
struct ptx_func *ptx_function_named(struct ptx_parse *p, const char *name);    /* a new one where there is none */
void ptx_resolve_labels(struct ptx_parse *p);                        /* of p->f, whose text has been read */
void ptx_resolve_dynamic(struct ptx_parse *p);                       /* its shared memory that the launch adds */
void ptx_resolve_calls(struct ptx_parse *p);                         /* of the module */
void ptx_place_shared(struct ptx_parse *p, struct ptx_sym *s);       /* in the function that is being read */

/* lex.c, for the parser. The next token; is this one that, and if so, take it; it must be; what it is, and the next. */
void ptx_next(struct ptx_parse *p);
bool ptx_is_punct(const struct ptx_parse *p, char c);
bool ptx_is_dot(const struct ptx_parse *p, const char *text);
bool ptx_accept(struct ptx_parse *p, char c);
bool ptx_accept_dot(struct ptx_parse *p, const char *text);
void ptx_expect(struct ptx_parse *p, char c);
const char *ptx_word(struct ptx_parse *p);
uint64_t ptx_int(struct ptx_parse *p);
enum ptx_type ptx_type_token(struct ptx_parse *p);
void ptx_skip_to(struct ptx_parse *p, char c);                       /* and take it */
void ptx_skip_line(struct ptx_parse *p);

/* parse_variable.c. A declaration behind its space; where one lies behind others, whose bytes grow. */
struct ptx_sym *ptx_variable(struct ptx_parse *p, enum ptx_space space);
size_t ptx_place_variable(size_t *total, const struct ptx_sym *s);
void ptx_module_variable(struct ptx_parse *p, enum ptx_space space, bool external);
void ptx_own_variable(struct ptx_parse *p, enum ptx_space space);
/* .reg's names; `count` registers of a name, -1: that one alone. */
void ptx_read_registers(struct ptx_parse *p);
void ptx_add_range(struct ptx_parse *p, const char *name, int count, enum ptx_type type);

int ptx_registers(const struct ptx_func *f);                          /* an estimate */
void ptx_decode(struct ptx_parse *p);                                /* p->st becomes the next instruction of p->f */
void ptx_flow(struct ptx_parse *p, struct ptx_func *f);

/* What decode functions use (operands.c). */
struct ptx_op ptx_constant(struct ptx_parse *p, uint64_t value, int bytes);
struct ptx_op ptx_register_op(struct ptx_parse *p, const char *name);
/* Of at least the type's width; `exact`: of just that. */
struct ptx_op ptx_source_of(struct ptx_parse *p, const struct ptx_operand *o, enum ptx_type type, bool exact);
bool ptx_take(struct ptx_parse *p, const char *modifier);
enum ptx_type ptx_take_type(struct ptx_parse *p);
enum ptx_type ptx_type_named(const char *text, size_t n);
struct ptx_op ptx_source(struct ptx_parse *p, const struct ptx_operand *o, enum ptx_type type);
struct ptx_op ptx_dest(struct ptx_parse *p, const struct ptx_operand *o);
/* of so many bytes; 0: a predicate */
struct ptx_op ptx_dest_of(struct ptx_parse *p, const struct ptx_operand *o, int bytes);
void ptx_address(struct ptx_parse *p, struct ptx_insn *i, const struct ptx_operand *o, int s);
void ptx_operands(struct ptx_parse *p, int n);
void ptx_vector(struct ptx_parse *p, struct ptx_insn *i, const struct ptx_operand *o, enum ptx_type type, bool dest);
void ptx_run_by(struct ptx_insn *i, ptx_run_fn *fn);                  /* the whole warp at once, by that function */
int ptx_special(const char *name, enum ptx_type *type);               /* special registers; -1: not one */

#endif
