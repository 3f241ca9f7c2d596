/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of model files have in common. */
#ifndef TCCC_FUZZ_IMPORT_H
#define TCCC_FUZZ_IMPORT_H

#include <stdint.h>

#include "ir/ir.h"

/* Reads the bytes as a file: `read` must give a module that verifies, or say why not. */
void fuzz_import(const uint8_t *data, size_t size, struct ir_module *(*read)(struct ir_ctx *ctx, const char *path));

#endif
