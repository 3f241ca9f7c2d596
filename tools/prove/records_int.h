/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records_int.h - launch records of an image (struct tcc_plaunch, runtime/abi.h) read for one launch, by who runs its
 * kernels one by one: prove.c, tune.c.
 */
#ifndef TCC_TOOLS_RECORDS_INT_H
#define TCC_TOOLS_RECORDS_INT_H

#include "runtime/abi.h"
#include "runtime/tensor_map.h"

#include <stdbool.h>
#include <stddef.h>

/* A launch's numbers. */
struct records { const struct tcc_pimage *image; int nsizes; const int64_t *sizes; int64_t tiles; };

const char *records_string(const struct tcc_pimage *m, uint32_t at);
/* The launches of kernel number `kernel`, *n of them. */
const struct tcc_plaunch *records_of(const struct tcc_pimage *m, int kernel, int *n);
/* Expression number `at` of the image; `otherwise` for none. False: there is no such number, or it divides by 0. */
bool records_value(const struct records *r, uint32_t at, int64_t otherwise, int64_t *out);
enum { RECORDS_MULTIPROCESSORS = 132 };      /* for launches of resident blocks: of an H100 */
struct records_shape { unsigned grid[3], block[3], cluster[3]; size_t shared; };
bool records_shape(const struct records *r, const struct tcc_plaunch *l, struct records_shape *to);
/* The tensor maps that a function takes, behind n parameters of 8 bytes; `wanted` false, or where one can't be made:
 * none is there. args: addresses of the kernel's operands. The bytes of all parameters. */
size_t records_maps(const struct records *r, const struct tcc_plaunch *l, bool wanted, const uint64_t *args, int nargs,
                    uint64_t *params, size_t n,
                    const struct tcc_map_driver *driver);

#endif
