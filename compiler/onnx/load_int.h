/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/onnx: from protobuf-c's messages to the structures of onnx_int.h. The only headers that know
 * protobuf-c. */
#ifndef TCCC_ONNX_LOAD_INT_H
#define TCCC_ONNX_LOAD_INT_H

#include "compiler/onnx/view_int.h"
#include "compiler/onnx/onnx.pb-c.h"

/* Fills r->model from `p`; what it keeps pointers to must live as long as the model. */
bool onnx_load_model(struct onnx_reader *r, const Onnx__ModelProto *p);
const struct onnx_tensor *onnx_load_tensor(struct onnx_reader *r, const Onnx__TensorProto *p);

/* Reads files[0] of `m` as a stored value of this kind, into m's arena. */
const struct onnx_value *onnx_read_value(struct onnx_model *m, enum onnx_type_kind kind, struct onnx_error *err);

/* Lets protobuf-c allocate in the arena; what it frees stays there until the model is closed. */
ProtobufCAllocator onnx_protobuf_allocator(struct onnx_arena *arena);

#endif
