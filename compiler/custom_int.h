/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom_int.h - custom operators of a compilation: files of a user's (runtime/tccc_custom.h) that are compiled, loaded
 * for the types of results and the interpreter, and linked into artifacts.
 */
#ifndef TCC_CUSTOM_INT_H
#define TCC_CUSTOM_INT_H

#include "ir/ir.h"

/* "DOMAIN:NAME=FILE.c|FILE.cu", a list ended by NULL (NULL: empty): each is compiled, loaded and registered in the
 * context, its gradient too where it has one. False after a diagnostic: IR_D_USAGE for one that can't be read or is
 * given twice, IR_D_ENVIRONMENT where there is no C compiler. */
bool custom_load(struct ir_ctx *ctx, const char *const *list);

/* The files that those are made of, headers included: appended to `paths`, in the context. */
struct custom_paths { const char **at; int n, cap; };
void custom_sources(struct ir_ctx *ctx, struct custom_paths *paths);

/* Of an operator's name: the function that an artifact's plan calls. */
const char *custom_symbol(struct ir_ctx *ctx, const char *name);

/* Objects for what the programs call on the host, written to `folder`, their paths appended to `objects`; `cross`: by
 * that C compiler, for another processor than this one. False after a diagnostic. */
bool custom_objects(struct ir_ctx *ctx, int nprograms, const struct kn_program *const *programs, const char *cross,
                    const char *folder, struct custom_paths *objects);

/* The file of an operator's device code. */
const char *custom_device_file(const struct ir_custom *x);
/* Calls in queues of a device become launches of kernels with `custom`, behind the program's own (custom_launch.c).
 * False after a diagnostic. */
bool custom_launches(struct ir_ctx *ctx, struct kn_program *p);
/* The CUDA C++ of such a kernel, as the function of that name. */
const char *custom_text(struct ir_ctx *ctx, const struct kn_custom *c, const char *name);

/* The text of tccc_custom.h. */
extern const char custom_header[];

#endif
