/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to compiler/: a folder of finished artifacts (--cache-dir), each under a digest of all that it was made of:
 * the compiler and the runtime that it embeds, the sources' digest, and the options that change its bytes; and of parts
 * of them that other artifacts may have as well (cubins).
 */
#ifndef TCCC_CACHE_INT_H
#define TCCC_CACHE_INT_H

#include "compiler/tccc.h"
#include "ir/ir.h"

/* What an artifact is made of, beside the options; `archs` are the resolved architectures. */
struct cache_key { const char *name, *target; int narchs; const char *const *archs; uint64_t sources; };

enum { CACHE_NAME = 48 };
/* folder -1: this compilation is not cached */
struct cache { const char *path; int folder, lock; char name[CACHE_NAME]; };

/* Opens (and makes, for its owner only) the folder; false, after a warning, where it belongs to somebody else or others
 * may write to it. */
bool cache_open_folder(struct cache *c, struct ir_ctx *ctx, const char *path);
/* The same with the artifact's name. False when this compilation is not cached: none is asked for, a dump, header or
 * dependency file is wanted, the weights lie apart; or the folder can't be used. (cache_key.c) */
bool cache_open(struct cache *c, struct ir_ctx *ctx, const struct tccc_options *o, const struct cache_key *k);
/* Ends the lock too; fine when nothing is open. */
void cache_close(struct cache *c);
/* Copies the cached file to `to`, a new file; false when it is not there, is somebody else's or is not what was stored.
 * The warnings that were given when it was made are given again; `model` is the file that they name. */
bool cache_fetch(const struct cache *c, struct ir_ctx *ctx, const char *to, const char *model);
/* Waits until no other process makes that entry, at most two minutes; to be asked for again after. */
void cache_lock(struct cache *c);
/* Puts a copy of `from` into the cache, whole or not at all, with the context's warnings from number `first` on. A
 * failure is a warning: the artifact itself is well. */
void cache_store(const struct cache *c, struct ir_ctx *ctx, const char *from, const char *model, int first);

/* An entry of the same folder beside the artifact's: what was made of those bytes, with all else that it was made of in
 * `by`. False where `of` is not open. It shares of's folder: not to be closed, nor used after that. */
bool cache_part(struct cache *part, const struct cache *of, const char *by, const void *bytes, size_t n,
                const char *suffix);

/* What names are digests of. NULL is as "". Then the name, which frees h. */
struct XXH3_state_s;
void cache_add_text(struct XXH3_state_s *h, const char *s);
void cache_name(struct XXH3_state_s *h, const char *suffix, char name[CACHE_NAME]);

#endif
