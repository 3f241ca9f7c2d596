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


def norms(rows, columns):
    """Each step reads all once and writes it once."""
    def body(nodes, x, k):
        nodes.append(helper.make_node("LayerNormalization", [x, "scale", "bias"], [f"n{k}"], axis=-1))
        return f"n{k}"
    return repeated([("a", (rows, columns), 1), ("scale", (columns,), 1), ("bias", (columns,), 1)], body)


def network(name, full, *batch):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        g, result = networks.NETWORKS[name](full, *batch)
        g.write(folder, result)
        return onnx.load(os.path.join(folder, name, "model.onnx"))


BF16 = ["--auto-cast=matmul"]
TRAIN = ["--train", "--optimizer=adamw:lr=1e-4", "--loss=cross_entropy"]


def cases(small):
    """small: sizes that the simulator runs in a second. Yields dicts: flops, bytes: of a run; peers: who, and words for peers.py; units: samples of a batch's element."""
    def case(part, name, model, flags=(), **more):
        return dict({"part": part, "name": name, "model": model, "flags": list(flags), "entry": "main", "runs": 1 if small else 100, "batch": 1, "units": 1,
                     "limit": 50, "flops": 0, "bytes": 0, "elements": 0, "peers": [], "check": False}, **more)

    # 1: results and sessions. The outputs are compared with the CPU's.
    for name in networks.NETWORKS:
        yield case(1, name + "-small", lambda name=name: network(name, False), check=True, runs=2 if small else 1000)
    yield case(1, "bert-small-bf16", lambda: network("bert", False), BF16, check=True, runs=2 if small else 1000)
    # 2: products on tensor cores; 3: of float32.
    for part, flags, type in ((2, BF16, "bf16"), (3, [], "f32")):
        for n in ((40,) if small else (4096, 8192)):
            yield case(part, f"product-{type}-{n}", lambda n=n: products(n), flags, flops=REPEATS * 2 * n ** 3, runs=1 if small else 10,
                       peers=[["torch", "product", type, n]])
    # 4: attention.
    for b, h, t, w in ((1, 2, 20, 16),) if small else ((8, 16, 2048, 64), (8, 16, 2048, 128)):
        yield case(4, f"attention-{t}x{w}", lambda s=(b, h, t, w): attention(*s), BF16, flops=REPEATS * 4 * b * h * t * t * w, runs=1 if small else 10,
                   peers=[["torch", "attention", b, h, t, w]])
        # A step that trains q, k and v by the result: two products forward, five back.
        yield case(4, f"attention-training-{t}x{w}", lambda s=(b, h, t, w): attention(*s), [*BF16, "--train", "--optimizer=sgd:lr=1e-4", "--loss=output:mean"], entry="step",
                   flops=REPEATS * 14 * b * h * t * t * w, runs=0 if small else 10, peers=[["torch", "attention-training", b, h, t, w]])
    # 5: what memory bounds.
    rows, columns = (40, 33) if small else (16384, 8192)
    for name, model, kind, moved in (("column-means", scaling, "scaling", 12), ("layer-norms", norms, "norm", 8)):
        yield case(5, name, lambda model=model: model(rows, columns), bytes=REPEATS * moved * rows * columns, elements=rows * columns, runs=1 if small else 10,
                   peers=[["torch", kind, rows, columns], ["copy", "copy", rows, columns]])
    # 6, 7: inference of whole networks. 8: training of a GPT, 9: of ResNets.
    gpt = (1, 16, 2, 8, 256, 0) if small else (12, 768, 12, 1024, 50257, 0)   # layers, width, heads, length, words, seed
    short = (*gpt[:3], min(gpt[3], 128), *gpt[4:])
    for part, name in ((6, "resnet"), (6, "mobilenet"), (7, "bert"), (7, "lstm"), (7, "gpt")):
        batches = (2,) if small else (1, 8, 64) if name in ("resnet", "bert", "gpt") else (1,)
        for flags, type in ([], "f32"), (BF16, "bf16"):
            for n in batches:
                build = (lambda: sample("gpt").build(*short)) if name == "gpt" else lambda name=name, n=n: network(name, not small, n)
                words = [name, n, *short[:-1]] if name == "gpt" else [name, n, int(not small)]
                peers = [["torch", *words, type], *([["onnxruntime", *words]] if type == "f32" else [])]
                yield case(part, f"{name}-{n}-{type}", build, flags, batch=n, limit=short[4] if name == "gpt" else 50 if small else 1000, peers=peers)
    batch, length, words = 2 if small else 8, gpt[3], gpt[4]
    yield case(8, "gpt-training-bf16", lambda: sample("gpt").build(*gpt), TRAIN + BF16, entry="step", runs=0 if small else 10,
               batch=batch, limit=words, units=length, peers=[["torch", "gpt-training", batch, *gpt[:-1]]])
    yield case(9, "resnet-18-training-bf16", lambda: sample("resnet").build(4 if small else 64, 0), TRAIN + BF16, entry="step", runs=0 if small else 20,
               batch=2 if small else 128, limit=10)
    batch = 2 if small else 64
    yield case(9, "resnet-50-training-bf16", lambda: network("resnet", not small, batch), TRAIN + BF16, entry="step", runs=0 if small else 20,
               batch=batch, limit=10 if small else 1000, peers=[["torch", "resnet-training", batch, int(not small)]])


# What is asked of an H200: a line of the page, the cases that it is about, and what of each is at least how much: a peer's time over ours ("copy": our rate over its own), our
# tokens a second ("rate"), or half a second over the time of opening and the first run ("first"); "right": a result, as one of part 1 or of compute-sanitizer.
ASKED = [
    ("bf16 products of 4,096 and 8,192: 0.85 of cuBLASLt's rate", ["product-bf16-4096", "product-bf16-8192"], "torch", 0.85),
    ("float32 products above cuBLAS's", ["product-f32-4096", "product-f32-8192"], "torch", 1),
    ("attention: 0.8 of cuDNN's rate", ["attention-2048x64", "attention-2048x128"], "torch", 0.8),
    ("attention, forward and back: 0.6 of cuDNN's rate", ["attention-training-2048x64", "attention-training-2048x128"], "torch", 0.6),
    ("elementwise kernels and sums: 0.85 of a copy's bandwidth", ["column-means"], "copy", 0.85),
    ("norms: 0.85 of a copy's bandwidth", ["layer-norms"], "copy", 0.85),
    *((f"{title} ahead of torch.compile, batches of 1, 8, 64", [f"{name}-{n}-{t}" for n in (1, 8, 64) for t in ("f32", "bf16")], "torch", 1)
      for title, name in (("ResNet-50", "resnet"), ("BERT-base", "bert"), ("GPT-2", "gpt"))),
    *((f"{title} ahead of ONNX Runtime's CUDA provider, batches of 1, 8, 64", [f"{name}-{n}-f32" for n in (1, 8, 64)], "onnxruntime", 1)
      for title, name in (("ResNet-50", "resnet"), ("BERT-base", "bert"), ("GPT-2", "gpt"))),
    ("GPT-2 124M training in bf16: 450,000 tokens a second", ["gpt-training-bf16"], "rate", 450000),
    ("GPT-2 124M training ahead of torch.compile", ["gpt-training-bf16"], "torch", 1),
    ("ResNet-50 training in bf16 ahead of torch.compile with channels last", ["resnet-50-training-bf16"], "torch", 1),
    ("opened and run for the first time within 0.5 s", [f"{name}-1-f32" for name in networks.NETWORKS], "first", 1),
    ("1,000 runs, the same bits, no memory more", [f"{name}-small" for name in networks.NETWORKS], "right", 1),
    ("compute-sanitizer finds nothing", [f"compute-sanitizer-{check}" for check in ("memcheck", "racecheck", "initcheck", "synccheck")], "right", 1),
]
