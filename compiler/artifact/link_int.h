/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_int.h - makes shared objects, relocatable objects and archives from object files, by running the linker
 * (ld.lld-19, ld.lld, or cc) as a process of its own. Outputs hold no dates, paths or names of files; a failed call
 * leaves no output. Errors are diagnostics in the context; `status` gets 3 (no linker, no space) or 4 (our bug) when
 * not NULL.
 */
#ifndef TCC_LINK_INT_H
#define TCC_LINK_INT_H

#include "ir/ir.h"

/* OUTPUT.so from objects and archives (libtccrt.a), -shared, everything hidden but the symbols whose names match one of
 * `exports` (patterns as in version scripts: "tccc_model", "NAME_*"). Archive members' symbols are never exported.
 * Depends on libc, libm and libpthread only; undefined symbols are an error. */
struct cpu_isa;
bool link_shared(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output, int nobjects,
                 const char *const *objects, int narchives, const char *const *archives, int nexports,
                 const char *const *exports, int *status);
/* OUTPUT.o: the objects merged into one; symbols keep their visibility, hidden ones stay hidden. One object is
 * copied. */
bool link_object(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output, int nobjects,
                 const char *const *objects, int *status);
/* OUTPUT.a: the objects as members MEMBER0.o, MEMBER1.o... with a symbol index. */
bool link_archive(struct ir_ctx *ctx, const char *output, const char *member, int nobjects, const char *const *objects,
                  int *status);

#endif
