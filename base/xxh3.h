/* SPDX-License-Identifier: Apache-2.0 */
/* xxh3.h - XXH3-64 (seed 0, default secret): the digest of weights, plans, names. Private to the project. */
#ifndef TCC_BASE_XXH3_H
#define TCC_BASE_XXH3_H

#include <stddef.h>
#include <stdint.h>

uint64_t tcr_xxh3(const void *data, size_t size);
struct tcr_xxh3 { _Alignas(64) unsigned char state[640]; };          /* the same of bytes that come in blocks */
void tcr_xxh3_begin(struct tcr_xxh3 *x);
void tcr_xxh3_add(struct tcr_xxh3 *x, const void *data, size_t size);
uint64_t tcr_xxh3_end(const struct tcr_xxh3 *x);

#endif
