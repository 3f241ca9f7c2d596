/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the front ends of model files (a zip file is a program of torch.export, the rest ONNX), from the bounded
 * readers to a verified module. */
#include <string.h>

#include "compiler/import/frontend.h"
#include "tests/fuzz/fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ir_module *read_program(struct ir_ctx *ctx, const char *path)
{
    return pt2_import(ctx, path, NULL);
}

static struct ir_module *read_model(struct ir_ctx *ctx, const char *path)
{
    return frontend_read(ctx, path, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_import(data, size, size > 2 && !memcmp(data, "PK", 2) ? read_program : read_model);
    return 0;
}
