/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_words_int.h - words of level 2's text form, shared by its printer and parser. */
#ifndef TCC_KERNEL_INT_H
#define TCC_KERNEL_INT_H

#include "ir/ir_int.h"

extern const char *const kn_code_words[], *const kn_use_words[], *const kn_operand_space_words[],
    *const kn_reducer_words[], *const kn_env_words[], *const kn_answer_words[];
/* all of them end in NULL */
extern const char *const kn_space_words[], *const kn_step_words[], *const kn_queue_words[];
extern const char *const kn_result_words[]; /* these too */
int kn_word(const char *const *words, const char *name);           /* its number, or -1 */

/* Calls visit for each expression of the kernel, in the order of kn_kernel.sizes. */
void kn_each_expr(const struct kn_kernel *k, void (*visit)(void *user, ir_expr e), void *user);
void kn_collect_syms(struct ir_syms *s, const struct kn_program *p); /* all symbols of a program (print_plan.c) */
/* plan/checks.c, a part of kn_verify_program() */
bool kn_verify_checks(const struct kn_program *p, const struct kn_entry *e);
void kn_collect_staged_syms(struct ir_syms *s, const struct kn_staged *p);
void kn_print_global(FILE *out, const char *word, const char *name); /* word @name */
void kn_print_buffer(FILE *out, const struct kn_buffer *b, int i, int indent);
void kn_print_steps(FILE *out, const struct kn_steps *steps, int indent);

#endif
