/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/: a folder of finished artifacts (--cache-dir), each under a digest of all that it was made of: the
 * compiler and the runtime that it embeds, the sources' digest, and the options that change its bytes.
 */
#ifndef TCCC_CACHE_INT_H
#define TCCC_CACHE_INT_H

#include "compiler/tccc.h"
#include "ir/ir.h"

/* The path of the artifact in the cache; NULL when this compilation is not cached (a dump, header or dependency file is
 * wanted, or the weights lie apart). `archs` are the resolved architectures. */
const char *cache_path(struct ir_ctx *ctx, const struct tccc_options *o, const char *name, const char *target, int narchs,
                       const char *const *archs, uint64_t sources);
/* Copies the cached file to `to` (a temporary name of the caller's); false when it is not there or can't be read. */
bool cache_fetch(const char *path, const char *to);
/* Waits until no other process makes that entry, at most two minutes; to be asked for again after. Returns what cache_unlock() takes;
 * -1, which is fine there, when there is no lock. */
int cache_lock(const char *path);
void cache_unlock(int lock);
/* Puts a copy of `from` into the cache, whole or not at all. A failure is a warning: the artifact itself is well. */
void cache_store(struct ir_ctx *ctx, const char *path, const char *from);

#endif
