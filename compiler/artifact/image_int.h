/* SPDX-License-Identifier: Apache-2.0 */
/* image_int.h - the device's side of an artifact: launch records and code of a program's kernels for one machine
 * (struct tcc_pimage). */
#ifndef TCC_IMAGE_INT_H
#define TCC_IMAGE_INT_H

#include "ir/ir.h"

/* A tensor map, as struct tcc_pmap has it. */
struct image_map {
    int arg;
    enum tcc_dtype type;
    int rank;
    ir_expr first, dims[TCC_MAP_RANK], strides[TCC_MAP_RANK];
    int box[TCC_MAP_RANK];
    bool windows;
    int step[TCC_MAP_RANK], lower[TCC_MAP_SPACE], upper[TCC_MAP_SPACE];
};

/* How one function of a kernel is launched. Expressions are in the kernel's sizes and image_tiles(); NULL: 1 (grid,
 * block), none (the others). */
struct image_launch {
    const char *symbol;
    ir_expr grid[3], block[3], cluster[3];
    ir_expr shared, scratch;
    bool resident;                       /* TCC_LAUNCH_RESIDENT */
    int nmaps;
    struct image_map maps[2];
};
#define IMAGE_MAX_LAUNCHES 4
struct image_kernel {
    int nlaunches;                       /* 0: it does not run on the device */
    struct image_launch launches[IMAGE_MAX_LAUNCHES];
    struct image_launch rows;            /* of several launches as one (TCC_LAUNCH_ROWS); no symbol: there is none */
};

/* The number of tiles of a launch, in its expressions. */
ir_expr image_tiles(struct ir_ctx *ctx);

/* The block of bytes, in the context's memory. kernels: one for each of the program's. code: copied. */
struct target_image;
struct target_image image_make(struct ir_ctx *ctx, const struct kn_program *p, const struct image_kernel *kernels,
                               const char *machine,
                               const char *format, const void *code, size_t size);

#endif
