/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to plan*.c: the tables of a plan while they are written. plan.c writes memories, buffers, entry points and
 * steps, plan_stages.c those in stages, both out of plan_tables.c's strings, lists and expressions. Indices are those
 * of runtime/abi.h.
 */
#ifndef TCCC_PLAN_INT_H
#define TCCC_PLAN_INT_H

#include "compiler/artifact/artifact_int.h"
#include "ir/map.h"

struct plan_writer {
    struct ir_ctx *ctx;
    const struct kn_program *p;
#define TCC_TABLE(member, type) VEC(type) member;
#include "runtime/plan.def"
    struct ir_map string_at; /* where each interned string is, + 1 */
    VEC(uint32_t) by_id; /* expression id -> number + 1 */
    VEC(const char *) libs;
    VEC(uint32_t) event_step; /* by event of the entry point: its step */
    ir_expr unknown;          /* a dim that depends on the shape version; NULL: none is */
    uint32_t levels;
};
/* Where a string's bytes are, each held once; NULL is "". */
uint32_t plan_string(struct plan_writer *w, const char *s);
/* Where a copy of `size` bytes is, at a multiple of 16. */
uint32_t plan_data(struct plan_writer *w, const void *p, size_t size);
/* A list of words; of ints, where a negative one is TCC_NO. */
struct tcc_range plan_list(struct plan_writer *w, int n, const uint32_t *v);
struct tcc_range plan_int_list(struct plan_writer *w, int n, const int *v);
/* The number of a symbol; -1: the program has no such. */
int plan_sym_number(const struct plan_writer *w, ir_expr sym);
/* The number of an expression, each held once, behind those that it needs; NULL is TCC_NO. */
uint32_t plan_expr(struct plan_writer *w, ir_expr e);
struct tcc_range plan_expr_list(struct plan_writer *w, int n, const ir_expr *e);
/* A value's name and type as the user sees them. */
struct tcc_psignature plan_signature(struct plan_writer *w, const char *name, ir_type t);
/* Where the variable of this index stands in the table. */
uint32_t plan_state_number(const struct plan_writer *w, int index);
struct tcc_range plan_buffers(struct plan_writer *w, int n, const struct kn_buffer *buffers);
/* A list's steps stand together; lists of nested regions stand before them. `waits` are events until the entry point is
 * whole. */
struct tcc_range plan_steps(struct plan_writer *w, const struct kn_steps *s);
/* What a list of them, or of a program (`program`), reads in the control block; their expressions have been written. */
struct tcc_range plan_control(struct plan_writer *w, const struct kn_steps *s, bool program);
/* A group of ranks by its name, which the table holds once; the elements of t, one behind the other. */
uint32_t plan_group_number(struct plan_writer *w, const char *name);
void plan_tensor_attr(struct plan_writer *w, struct tcc_pattr *x, const struct ir_tensor *t);
/* One that runs in stages, as an entry point that the user sees. */
void plan_write_staged(struct plan_writer *w, const struct kn_staged *p);

#endif
