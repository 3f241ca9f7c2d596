/* SPDX-License-Identifier: Apache-2.0 */
/* parse_int.h - what the parser's files share: tokens, the parser's state, one function per notion of the text form. */
#ifndef TCC_PARSE_INT_H
#define TCC_PARSE_INT_H

#include "ir/ir_int.h"

enum token_kind { T_EOF, T_IDENT, T_NUMBER, T_STRING, T_VALUE, T_GLOBAL, T_PUNCT };

/* A token is a piece of the text; nothing is copied until its text is asked for. */
struct token {
    enum token_kind kind;
    const char *at; /* VALUE, GLOBAL: after the sigil; STRING: after the quote */
    size_t size;
    int line, col;
    int punct; /* a character, or P_ARROW, P_DOTS */
};
enum { P_ARROW = 256, P_DOTS };

struct parser {
    struct ir_ctx *ctx;
    struct ir_module *module;
    struct ir_func *func;
    const char *file;
    const char *at, *end, *line_start;
    int line;
    struct token tok;     /* the next one, not taken yet */
    struct ir_set values; /* of the function: struct named */
    VEC(struct parsed_func {
        struct ir_func *func;
        struct ir_set values;
    }) funcs;
    bool places;          /* the function accesses state variables in the version at a place */
    int depth;            /* of nested expressions, types and regions */
    struct {
        const char *name;
        ir_expr e;
    } scope[KN_MAX_DIMS]; /* dims of the kernel being read */
    int nscope;
};
#define PARSE_MAX_DEPTH 100

/* -- Tokens (lex.c). All that return bool: false after a diagnostic. -- */
void lex_next(struct parser *p);
bool parse_expected(struct parser *p, const char *what); /* "expected WHAT, found TOKEN"; returns false */
bool parse_error(struct parser *p, const struct token *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* says so, and which there are; false */
bool parse_no_state(struct parser *p, const struct token *at, const char *name);
bool lex_is(const struct parser *p, int punct);
bool lex_is_word(const struct parser *p, const char *word);
bool lex_take(struct parser *p, int punct); /* takes it if it is there */
bool lex_take_word(struct parser *p, const char *word);
bool lex_expect(struct parser *p, int punct);
bool lex_expect_word(struct parser *p, const char *word);
const char *lex_text(struct parser *p, const struct token *t); /* interned */
bool lex_ident(struct parser *p, const char **out);
bool lex_int(struct parser *p, int64_t *out); /* with an optional minus sign */
bool lex_uint(struct parser *p, uint64_t *out);
bool lex_small(struct parser *p, int64_t lo, int64_t hi, int64_t *out);
bool lex_double(struct parser *p, double *out);             /* also nan, inf, -inf */
bool lex_bytes(struct parser *p, char **out, size_t *size); /* a string, decoded, in the context */
bool lex_string(struct parser *p, const char **out);        /* the same, without zeros, interned */
bool lex_global(struct parser *p, const char **out);        /* @name or @"name" */
int lex_hex_digit(char c);                                  /* -1: it is none */
struct ir_where lex_where(const struct parser *p, const struct token *t);
bool parse_enter(struct parser *p); /* one level deeper */

/* -- Nodes (parse_node.c): ( %name : type, ... ), of a function or a region; { nodes }. -- */
bool parse_params(struct parser *p, struct ir_block *b);
bool parse_block(struct parser *p, struct ir_block *b);

/* -- Notions -- */
bool parse_expr(struct parser *p, ir_expr *out);
bool parse_exprs(struct parser *p, int close, ir_expr **out, int *n); /* up to the closing character, which is taken */
bool parse_dtype(struct parser *p, enum tcc_dtype *out);
bool parse_type(struct parser *p, ir_type *out);
bool parse_tensor(struct parser *p, struct ir_tensor **out); /* the context keeps it: *out is no reference */
bool parse_attr(struct parser *p, enum ir_op op, struct ir_attr *out);
bool parse_staged(struct parser *p);                         /* after the word `stages` */
bool parse_number(struct parser *p, int64_t least, int *out);
bool parse_numbers(struct parser *p, int **out, int *n);     /* (1, -1, 2) */
bool parse_buffer(struct parser *p, struct kn_buffer *b, int number);            /* after the word `buffer` */
bool parse_step(struct parser *p, const char *word, const struct token *at, struct kn_step *s); /* after its word */
bool parse_program(struct parser *p);                        /* level 2: at one of kernel, level, buffer, entry */
bool parse_layout(struct parser *p, ir_type type, const struct kn_layout **out); /* after the word `layout` */
bool parse_operand(struct parser *p, struct ir_value **out);                     /* %name, of p->values; NULL: _ */
bool parse_fusion(struct parser *p);                                             /* after the word `fusion` */
struct kn_kernel *parse_kernel_named(const struct parser *p, const char *name);
bool parse_kernel(struct parser *p, struct kn_kernel **out); /* after the word `kernel` */

#endif
