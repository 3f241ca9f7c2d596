/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_import.c - bytes as a model's file: by way of a file without a name, since that is what front ends read. */
#include "tests/fuzz/fuzz_import.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_import(const uint8_t *data, size_t size, struct ir_module *(*read)(struct ir_ctx *ctx, const char *path))
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    int fd = memfd_create("fuzz", 0);
    char path[64];

    if (ctx && fd >= 0 && write(fd, data, size) == (ssize_t)size && IR_PROTECT(ctx, &frame)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        struct ir_module *m = read(ctx, path);
        if (!m && ir_nerrors(ctx) == 0)
            abort(); /* refused without a word */
        if (m && !ir_verify(m))
            abort(); /* translated to something invalid */
    }
    if (fd >= 0)
        close(fd);
    ir_ctx_free(ctx);
}
