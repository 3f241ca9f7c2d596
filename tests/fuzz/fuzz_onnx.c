/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the front ends of model files (a zip file is a program of torch.export, the rest ONNX), from the bounded readers to a verified module. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_protect frame;
    int fd = memfd_create("fuzz.onnx", 0);
    char path[64];

    if (ctx && fd >= 0 && write(fd, data, size) == (ssize_t)size && IR_PROTECT(ctx, &frame)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        bool zip = size > 2 && !memcmp(data, "PK", 2);
        struct ir_module *m = zip ? pt2_import(ctx, path, NULL) : frontend_read(ctx, path, NULL);
        if (!m && ir_nerrors(ctx) == 0)
            abort(); /* refused without a word */
        if (m && !ir_verify(m))
            abort(); /* translated to something invalid */
    }
    if (fd >= 0)
        close(fd);
    ir_ctx_free(ctx);
    return 0;
}
