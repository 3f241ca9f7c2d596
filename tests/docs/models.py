#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write small stand-ins for what a page's reader brings (tests/doc-commands.tap): usage: models.py decoder|neuron|photos|ptx"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)


def info(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def save(path, nodes, inputs, outputs, **weights):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def floats(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32) * np.float32(0.3)


def decoder():
    """A layer of attention with its past, and a recurrent layer with its state; a prompt and what follows it."""
    node = helper.make_node
    nodes = [node("Gather", ["words", "ids"], ["x"])]
    for part in "qkv":
        nodes += [node("MatMul", ["x", "w" + part], ["m" + part]), node("Reshape", ["m" + part, "split"], ["r" + part]),
                  node("Transpose", ["r" + part], ["n" + part], perm=[0, 2, 1, 3])]
    nodes += [node("Concat", ["past_k", "nk"], ["present_k"], axis=2), node("Concat", ["past_v", "nv"], ["present_v"], axis=2),
              node("Transpose", ["present_k"], ["t"], perm=[0, 1, 3, 2]), node("MatMul", ["nq", "t"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1),
              node("MatMul", ["p", "present_v"], ["a"]), node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
              node("Reshape", ["b", "join"], ["c"]), node("MatMul", ["c", "head"], ["logits"])]
    past = ["batch_size", 2, "past", 8]
    present = ["batch_size", 2, "total", 8]
    save("decoder.onnx", nodes, [info("ids", ["batch_size", "sequence"], TensorProto.INT64), info("past_k", past), info("past_v", past)],
         [info("logits", ["batch_size", "sequence", 32]), info("present_k", present), info("present_v", present)], words=floats(32, 16),
         wq=floats(16, 16), wk=floats(16, 16), wv=floats(16, 16), head=floats(16, 32), split=np.array([0, 0, 2, 8]), join=np.array([0, 0, 16]))
    save("rnn.onnx", [node("RNN", ["x", "w", "r", "", "", "h0"], ["", "hn"], hidden_size=4)], [info("x", [3, 1, 2]), info("h0", [1, 1, 4])],
         [info("hn", [1, 1, 4])], w=floats(1, 4, 2), r=floats(1, 4, 4))
    np.save("prompt", RANDOM.integers(0, 32, (1, 5)))
    np.save("next", RANDOM.integers(0, 32, (1, 1)))


def neuron():
    """A program of one core, its tensors, and a perceptron with data."""
    with open("layer.neuron", "w") as f:
        f.write("""core trn1
tensor x in f32 [64, 32]
tensor w in f32 [64, 16]
tensor y out f32 [32, 16]
engine sync
    dma sbuf.f32[0:64, 0, 32], x[0, 64@32, 32] signal s0
    dma sbuf.f32[0:64, 512, 16], w[0, 64@16, 16] signal s0
    dma y[0, 32@16, 16], sbuf.f32[0:32, 1024, 16] wait s2>=1
engine tensor
    load_stationary sbuf.f32[0:64, 0, 32] wait s0>=32
    matmul psum.f32[0:32, 0, 16], sbuf.f32[0:64, 512, 16] signal s1
engine vector
    tensor_copy sbuf.f32[0:32, 1024, 16], psum.f32[0:32, 0, 16] wait s1>=1 signal s2
""")
    np.save("x", floats(64, 32))
    np.save("w", floats(64, 16))
    save("mlp.onnx", [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["a"]), helper.make_node("Gemm", ["a", "w2", "b2"], ["y"])],
         [info("x", ["B", 16])], [info("y", ["B", 4])], w1=floats(16, 32), b1=floats(32), w2=floats(32, 4), b2=floats(4))
    np.savez("set", x=floats(64, 16), target=RANDOM.integers(0, 4, 64))


def photos():
    """Three classes of pictures larger than what the network takes."""
    for k, name in enumerate(("cat", "dog", "owl")):
        os.makedirs("photos/" + name, exist_ok=True)
        for i in range(12):
            high, wide = 280 + 8 * i, 320 - 4 * i
            pixels = RANDOM.integers(0, 120, (high, wide, 3), np.uint8)
            pixels[..., k] += 100
            with open(f"photos/{name}/{i}.ppm", "wb") as f:
                f.write(b"P6 %d %d 255\n" % (wide, high) + pixels.tobytes())
    save("photos.onnx", [helper.make_node("GlobalAveragePool", ["picture"], ["m"]), helper.make_node("Flatten", ["m"], ["f"]),
                         helper.make_node("Gemm", ["f", "w", "b"], ["y"])],
         [info("picture", ["N", 3, 224, 224])], [info("y", ["N", 3])], w=floats(3, 3), b=floats(3))


def ptx():
    """x[i] *= k for i < n."""
    with open("kernels.ptx", "w") as f:
        f.write(""".version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 k, .param .u32 n) {
    .reg .pred %p;
    .reg .f32 %f<3>;
    .reg .b32 %r<6>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [x];
    ld.param.f32 %f1, [k];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ctaid.y;
    mov.u32 %r4, %nctaid.x;
    mad.lo.u32 %r2, %r3, %r4, %r2;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d1, %d1, %d2;
    ld.global.f32 %f2, [%d1];
    mul.f32 %f2, %f2, %f1;
    st.global.f32 [%d1], %f2;
    ret;
}
""")
    np.save("x", floats(1000))


{"decoder": decoder, "neuron": neuron, "photos": photos, "ptx": ptx}[sys.argv[1]]()
