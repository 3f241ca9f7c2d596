/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.h - adapters in the files of Hugging Face's PEFT, read and put into a model. */
#ifndef TCC_IMPORT_ADAPTER_H
#define TCC_IMPORT_ADAPTER_H

#include "ir/ir.h"
#include "passes/train/train.h"

/* Tensors of a safetensors file, in the order of the header; they are copies, and live as long as the context. */
struct named_tensor { const char *name; struct ir_tensor *values; };
struct named_tensors { VEC(struct named_tensor) list; };
/* False after a diagnostic. */
bool safetensors_read(struct ir_ctx *ctx, const char *path, struct named_tensors *out);
/* What its metadata say of these keys, in the context's memory; NULL: nothing. False after a diagnostic. */
bool safetensors_values(struct ir_ctx *ctx, const char *path, int n, const char *const *keys, const char **texts);

/* DIR/adapter_config.json and DIR/adapter_model.safetensors into l->at, l->saved; l->from is DIR. False after a
 * diagnostic. */
bool adapter_read(struct ir_ctx *ctx, const char *folder, struct train_lora *l);
/* The two files, for dependencies and digests. */
const char *const *adapter_files(struct ir_ctx *ctx, const char *folder);

#endif
