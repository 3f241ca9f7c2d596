# tests/quant.tap's models, data and comparisons. Expected values are those of onnx's reference evaluator on the files that tccc-quantize has
# written, of GPTQ as its authors' code has it, in numpy, and ONNX Runtime's, stored: --update FOLDER writes them (it wants onnxruntime, and
# tccc-quantize in PATH).
import os
import sys

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

MODES = {"static": ["--mode=static-int8", "--method=minmax"], "mse": ["--mode=static-int8", "--method=mse"], "dynamic": ["--mode=dynamic-int8"],
         "weights8": ["--mode=weight-int8"], "weights4": ["--mode=weight-int4", "--group=16"], "gptq": ["--mode=weight-int4", "--group=16", "--method=gptq"],
         "linear4": ["--mode=weight-int4", "--group=16", "--format=qdq"]}


def weights():
    r = np.random.default_rng(5)

    def w(*shape):
        return (r.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    return {"c.w": w(8, 1, 3, 3), "c.b": w(8, 1)[:, 0], "d.w": w(8, 1, 3, 3), "p.w": w(12, 8, 1, 1), "p.b": w(12, 1)[:, 0],
            "m.w": w(48, 40), "g.w": w(24, 40), "g.b": w(24, 1)[:, 0], "h.w": w(24, 5), "flat": np.array([0, 48], np.int64)}


# A convolution with Relu, one by groups, one of 1x1, a product, Gemm with transB, a last layer; c.b is shared with nobody, unused.w with no node.
def model(path, opset=21):
    node = helper.make_node
    nodes = [node("Conv", ["x", "c.w", "c.b"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["cr"], "relu"),
             node("Conv", ["cr", "d.w"], ["d"], "depth", group=8, pads=[1, 1, 1, 1], strides=[2, 2]), node("Add", ["d", "d"], ["e"], "twice"),
             node("Conv", ["e", "p.w", "p.b"], ["p"], "point"), node("Clip", ["p"], ["pc"], "clip"), node("Reshape", ["pc", "flat"], ["f"], "flatten"),
             node("MatMul", ["f", "m.w"], ["m"], "product"), node("Tanh", ["m"], ["t"], "tanh"),
             node("Gemm", ["t", "g.w", "g.b"], ["g"], "gemm", transB=1), node("Relu", ["g"], ["gr"], "relu2"),
             node("MatMul", ["gr", "h.w"], ["y"], "last")]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["n", 1, 8, 8])], [info("y", TensorProto.FLOAT, ["n", 5])],
                              [numpy_helper.from_array(v, k) for k, v in weights().items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


def samples():
    r = np.random.default_rng(6)
    x = r.standard_normal((70, 1, 8, 8)).astype(np.float32)
    return x + r.standard_normal((70, 1, 1, 1)).astype(np.float32)


def tensors(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


# outputs of a file that the reference evaluator knows the operators of
def reference(path):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(path).run(None, {"x": samples()})[0]


# Frantar et al.'s loop over rows of w [k, n], groups of 16 rows, asymmetric 4 bits; groups have the ranges that they have where a block of 128 begins.
def gptq(w, x, group=16, most=15, block=128):
    w, h = w.astype(np.float64).copy(), x.T.astype(np.float64) @ x
    dead = np.diag(h) == 0
    h[dead, dead] = 1
    w[dead] = 0
    h += np.eye(len(h)) * 0.01 * np.diag(h).mean()
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    codes = np.zeros(w.shape, np.int64)
    for i in range(len(w)):
        if i % block == 0:
            known = w.copy()
        if i % group == 0:
            part = known[i : i + group]
            lo, hi = np.minimum(part.min(0), 0), np.maximum(part.max(0), 0)
            scale = (hi - lo) / most
            zero = np.clip(np.rint(-lo / scale), 0, most)
        codes[i] = np.clip(np.rint(w[i] / scale) + zero, 0, most)
        error = (w[i] - (codes[i] - zero) * scale) / upper[i, i]
        w[i + 1 :] -= np.outer(upper[i, i + 1 :], error)
    return codes


def nibbles(packed, n, k):
    b = packed.reshape(n, -1)
    return np.stack([b & 15, b >> 4], -1).reshape(n, -1)[:, :k].T


def update(folder):
    import subprocess

    import onnxruntime

    lines = ["# ONNX Runtime's outputs of the files that tccc-quantize writes of tests/train/quant.py's model, 4 samples each: --update"]
    model("net.onnx")
    np.savez("data.npz", x=samples())
    options = onnxruntime.SessionOptions()
    for name, mode in MODES.items():
        subprocess.run(["tccc-quantize", "net.onnx", "--data", "data.npz", "-o", "q.onnx", *mode], check=True)
        y = onnxruntime.InferenceSession("q.onnx", options, providers=["CPUExecutionProvider"]).run(None, {"x": samples()})[0]
        lines += [name + " " + " ".join(f"{v:.9g}" for v in row) for row in y[:4]]
    open(os.path.join(folder, "expected.txt"), "w").write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--update":
        update(sys.argv[2])
    elif sys.argv[1] == "modes":
        print("\n".join(name + " " + " ".join(mode) for name, mode in MODES.items()))
    elif sys.argv[1] == "model":
        model(sys.argv[2], *map(int, sys.argv[3:]))
    elif sys.argv[1] == "data":
        np.savez(sys.argv[2], x=samples())
