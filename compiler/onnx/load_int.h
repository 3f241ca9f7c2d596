/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/onnx: from protobuf-c's messages to the structures of onnx_int.h. The only headers that know
 * protobuf-c. */
#ifndef TCCC_ONNX_LOAD_INT_H
#define TCCC_ONNX_LOAD_INT_H

#include "compiler/onnx/view_int.h"
#include "compiler/onnx/onnx.pb-c.h"

/* Fills r->model from `p`; what it keeps pointers to must live as long as the model. */
bool onnx_load_model(struct onnx_reader *r, const Onnx__ModelProto *p);

/* Lets protobuf-c allocate in the arena; what it frees stays there until the model is closed. */
ProtobufCAllocator onnx_protobuf_allocator(struct onnx_arena *arena);

#endif
