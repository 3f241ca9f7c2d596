/* SPDX-License-Identifier: Apache-2.0 */
/* sources_int.h - the files that a module's data comes from: what a dependency file names and the source digest
 * covers. */
#ifndef TCC_SOURCES_INT_H
#define TCC_SOURCES_INT_H

#include "ir/ir.h"

struct sources { int n; const char *const *paths; };

/* The model's own path first, `more` (ended by NULL; may be NULL), then every file that constants and states are ranges
 * of, in the order of their first use. To be called right after reading: passes copy and fold constants. */
struct sources sources_collect(struct ir_ctx *ctx, const struct ir_module *m, const char *model,
                               const char *const *more);
/* XXH3-64 over the contents of all. Files that can't be read any more count as empty. */
uint64_t sources_digest(struct ir_ctx *ctx, const struct sources *s);
/* Can a make rule name them all? Otherwise an error. */
bool sources_in_rule(struct ir_ctx *ctx, const struct sources *s, const char *target);
/* Writes a make rule without a recipe: `target` depends on the sources. False after a diagnostic; no file is left
 * then. */
bool sources_write_depfile(struct ir_ctx *ctx, const struct sources *s, const char *target, const char *path);

#endif
