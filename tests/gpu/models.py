# SPDX-License-Identifier: Apache-2.0
"""The models that tests/gpu/run measures. Each case: (part, name, ONNX model, options of tccc, how it is run and what for)."""
import os, sys

import numpy as np
import onnx
from onnx import TensorProto, helper

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "cuda"))
import networks  # noqa: E402


def sample(name):
    """The module samples/NAME/model.py."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("sample_" + name, os.path.join(TOP, "samples", name, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def graph(nodes, inputs, output, weights=()):
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    g = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], list(weights))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def f32(name, *dims):
    return name, TensorProto.FLOAT, list(dims)


REPEATS = 10


def repeated(weights, body):
    """A model whose input is one number and whose output is small, so that copies from and to the host take no time: body(nodes, x, k) adds step k
    of REPEATS to the first weight times that number, and gives its result's name."""
    random = np.random.default_rng(3)
    tensors = [onnx.numpy_helper.from_array((random.standard_normal(d) * s).astype(np.float32), n) for n, d, s in weights]
    nodes = [helper.make_node("Mul", [weights[0][0], "x"], ["x0"])]
    y = "x0"
    for k in range(REPEATS):
        y = body(nodes, y, k)
    axes = onnx.numpy_helper.from_array(np.arange(len(weights[0][1])), "all")
    nodes.append(helper.make_node("ReduceMean", [y, "all"], ["mean"], keepdims=0))
    return graph(nodes, [f32("x", 1)], "mean", [*tensors, axes])


def products(n):
    def body(nodes, x, k):
        nodes.append(helper.make_node("MatMul", [x, "b"], [f"c{k}"]))
        return f"c{k}"
    return repeated([("a", (n, n), 1), ("b", (n, n), n ** -0.5)], body)


def attention(batch, heads, length, width):
    def body(nodes, x, k):
        for op, inputs, more in (("MatMul", [x, "k"], {}), ("Mul", [f"s{k}", "scale"], {}), ("Softmax", [f"t{k}"], {"axis": -1}), ("MatMul", [f"p{k}", "v"], {})):
            nodes.append(helper.make_node(op, inputs, [{"Mul": "t", "Softmax": "p"}.get(op, "s" if "k" in inputs else "y") + str(k)], **more))
        return f"y{k}"
    shape = (batch, heads, length, width)
    model = repeated([("q", shape, 1), ("k", (batch, heads, width, length), 1), ("v", shape, 1)], body)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(width ** -0.5), "scale"))
    return model


def scaling(rows, columns):
    """Each step reads all twice and writes it once."""
    def body(nodes, x, k):
        nodes.append(helper.make_node("ReduceMean", [x, "rows"], [f"m{k}"], keepdims=1))
        nodes.append(helper.make_node("Add", [x, f"m{k}"], [f"r{k}"]))
        return f"r{k}"
    model = repeated([("a", (rows, columns), 1)], body)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "rows"))
    return model


def network(name, full):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        g, result = networks.NETWORKS[name](full)
        g.write(folder, result)
        return onnx.load(os.path.join(folder, name, "model.onnx"))


BF16 = ["--auto-cast=matmul"]
TRAIN = ["--train", "--optimizer=adamw:lr=1e-4", "--loss=cross_entropy"]


def cases(small):
    """small: sizes that the simulator runs in a second. Yields dicts: flops, bytes: of a run; peer: words for peers.py."""
    def case(part, name, model, flags=(), **more):
        return dict({"part": part, "name": name, "model": model, "flags": list(flags), "entry": "main", "runs": 1 if small else 100, "batch": 1,
                     "limit": 50, "flops": 0, "bytes": 0, "peer": None, "check": False}, **more)

    # 1: results and sessions. The outputs are compared with the CPU's.
    for name in networks.NETWORKS:
        yield case(1, name + "-small", lambda name=name: network(name, False), check=True, runs=2 if small else 1000)
    yield case(1, "bert-small-bf16", lambda: network("bert", False), BF16, check=True, runs=2 if small else 1000)
    # 2: products on tensor cores; 3: of float32.
    for part, flags, type in ((2, BF16, "bf16"), (3, [], "f32")):
        for n in ((40,) if small else (4096, 8192)):
            yield case(part, f"product-{type}-{n}", lambda n=n: products(n), flags, flops=REPEATS * 2 * n ** 3, runs=1 if small else 10,
                       peer=["product", type, n])
    # 4: attention.
    for b, h, t, w in ((1, 2, 20, 16),) if small else ((8, 16, 2048, 64), (8, 16, 2048, 128)):
        yield case(4, f"attention-{t}x{w}", lambda s=(b, h, t, w): attention(*s), BF16, flops=REPEATS * 4 * b * h * t * t * w, runs=1 if small else 10,
                   peer=["attention", b, h, t, w])
        # A step that trains q, k and v by the result: two products forward, five back.
        yield case(4, f"attention-training-{t}x{w}", lambda s=(b, h, t, w): attention(*s), [*BF16, "--train", "--optimizer=sgd:lr=1e-4", "--loss=output:mean"], entry="step",
                   flops=REPEATS * 14 * b * h * t * t * w, runs=0 if small else 10, peer=["attention-training", b, h, t, w])
    # 5: what memory bounds.
    rows, columns = (40, 33) if small else (16384, 8192)
    yield case(5, "column-means", lambda: scaling(rows, columns), bytes=REPEATS * 12 * rows * columns, runs=1 if small else 10, peer=["scaling", rows, columns])
    # 6, 7: inference of whole networks. 8: training of a GPT, 9: of a ResNet.
    for part, name in ((6, "resnet"), (6, "mobilenet"), (7, "bert"), (7, "lstm")):
        for flags in ([], BF16):
            yield case(part, name + ("-bf16" if flags else ""), lambda name=name: network(name, not small), flags, limit=50 if small else 1000)
    gpt = (1, 16, 2, 8, 256, 0) if small else (12, 768, 12, 1024, 256, 0)
    yield case(8, "gpt-training-bf16", lambda: sample("gpt").build(*gpt), TRAIN + BF16, entry="step", runs=0 if small else 10,
               batch=2 if small else 8, limit=256)
    yield case(9, "resnet-training-bf16", lambda: sample("resnet").build(4 if small else 64, 0), TRAIN + BF16, entry="step", runs=0 if small else 20,
               batch=2 if small else 128, limit=10)
