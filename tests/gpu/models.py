# SPDX-License-Identifier: Apache-2.0
"""The models that tests/gpu/run measures: what each is, the options of tccc, how it is run, beside whom, and in which part."""
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
GPT = (12, 768, 12, 1024, 50257, 0)   # layers, width, heads, length, words, seed: GPT-2 124M
GPT_SMALL = (1, 16, 2, 8, 256, 0)


def case(part, name, model, flags=(), **more):
    """mode: what tests/gpu/measure.c does with it; check: outputs are compared with the CPU's; predict: the simulator says beforehand what it takes; peers: who, and words
    for peers.py; artifact: its name, which several cases may have in common; units: samples of an element of the batch; flops, bytes: of a run; elements: of the tensor that a copy moves."""
    return dict({"part": part, "name": name, "model": model, "flags": list(flags), "mode": "run", "entry": "main", "runs": 100, "batch": 1, "units": 1, "limit": 50, "threads": 0,
                 "flops": 0, "bytes": 0, "elements": 0, "peers": [], "sessions": 4, "walk": 0, "check": False, "predict": False, "target": None, "artifact": name}, **more)


def operations(small):
    """Products, attention and norms, repeated within one run."""
    runs = 1 if small else 10
    for flags, type in ((BF16, "bf16"), ([], "f32")):
        for n in ((40,) if small else (4096, 8192)):
            yield case(2, f"product-{type}-{n}", lambda n=n: products(n), flags, flops=REPEATS * 2 * n ** 3, runs=runs, predict=True, peers=[["torch", "product", type, n]])
    for b, h, t, w in ((1, 2, 20, 16),) if small else ((8, 16, 2048, 64), (8, 16, 2048, 128)):
        yield case(2, f"attention-{t}x{w}", lambda s=(b, h, t, w): attention(*s), BF16, flops=REPEATS * 4 * b * h * t * t * w, runs=runs, predict=True,
                   peers=[["torch", "attention", b, h, t, w]])
        # A step that trains q, k and v by the result: two products forward, five back.
        yield case(2, f"attention-training-{t}x{w}", lambda s=(b, h, t, w): attention(*s), [*BF16, "--train", "--optimizer=sgd:lr=1e-4", "--loss=output:mean"], entry="step",
                   flops=REPEATS * 14 * b * h * t * t * w, runs=0 if small else 10, predict=True, peers=[["torch", "attention-training", b, h, t, w]])
    rows, columns = (40, 33) if small else (16384, 8192)
    for name, model, kind, moved in (("column-means", scaling, "scaling", 12), ("layer-norms", norms, "norm", 8)):
        yield case(2, name, lambda model=model: model(rows, columns), bytes=REPEATS * moved * rows * columns, elements=rows * columns, runs=runs, predict=True,
                   peers=[["copy", "copy", rows, columns], ["torch", kind, rows, columns]])


def steps(small):
    """Training steps of GPT-2 and ResNet-50, and ResNet-50's inference."""
    gpt, batch = (GPT_SMALL, 2) if small else (GPT, 8)
    yield case(3, "gpt-training-bf16", lambda: sample("gpt").build(*gpt), TRAIN + BF16, entry="step", runs=0 if small else 10, predict=True,
               batch=batch, limit=gpt[4], units=gpt[3], peers=[["torch", "gpt-training", batch, *gpt[:-1]]])
    for n in (2,) if small else (1, 64):
        yield case(3, f"resnet-{n}-bf16", lambda n=n: network("resnet", not small, n), BF16, batch=n, limit=50 if small else 1000, runs=2 if small else 50, predict=True,
                   peers=[["torch", "resnet", n, int(not small), "bf16"]])
    batch = 2 if small else 64
    yield case(3, "resnet-50-training-bf16", lambda: network("resnet", not small, batch), TRAIN + BF16, entry="step", runs=0 if small else 20, predict=True,
               batch=batch, limit=10 if small else 1000, peers=[["torch", "resnet-training", batch, int(not small)]])


def calls(small):
    """Sessions beside each other, recorded programs, memory that is left behind."""
    runs = 2 if small else 300
    yield case(4, "streams", lambda: network("resnet", False), mode="streams", runs=runs, sessions=4)
    yield case(4, "graphs", lambda: network("bert", not small), runs=runs, limit=50)
    yield case(4, "graphs-walked", lambda: network("bert", not small), runs=runs, limit=50, walk=1, artifact="graphs")
    yield case(4, "long", lambda: network("mobilenet", False), runs=4 if small else 20000)
    yield case(4, "sessions", lambda: network("lstm", False), mode="sessions", runs=4 if small else 200)


def processors(small):
    """The CPU beside the GPU, by threads."""
    for name in ("resnet", "bert"):
        for threads in (1, 2) if small else (1, 2, 4, 8, 16):
            yield case(5, f"{name}-{threads}-threads", lambda name=name: network(name, not small), target="cpu", threads=threads, runs=3 if small else 20, limit=50 if small else 1000,
                       artifact=f"{name}-threads", peers=[["onnxruntime-cpu", name, 1, int(not small), threads]])


def calibration(small):
    """What single figures of the simulator's machines stand for (sim/machines.def): a launch, the host's link, memory, L2, exp, float32 lanes."""
    def elementwise(op, elements):
        def model():
            random = np.random.default_rng(3)
            a = onnx.numpy_helper.from_array(random.uniform(-1, 0, elements).astype(np.float32), "a")
            nodes = [helper.make_node("Mul", ["a", "x"], ["y0"])]
            for k in range(REPEATS):   # a sum of all stands between, so that each is a kernel of its own
                nodes += [helper.make_node("ReduceMean", [f"y{k}"], [f"m{k}"], keepdims=1), helper.make_node("Sub", [f"y{k}", f"m{k}"], [f"d{k}"]),
                          helper.make_node(op, [f"d{k}"], [f"y{k + 1}"])]
            nodes.append(helper.make_node("ReduceMean", [f"y{REPEATS}"], ["mean"], keepdims=0))
            return graph(nodes, [f32("x", 1)], "mean", [a])
        return model

    def copied(elements):
        def model():
            return graph([helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0)], [f32("x", elements)], "mean")
        return model

    big, middle = (1 << 10, 1 << 9) if small else (1 << 27, 1 << 21)
    for name, model in (("launch", elementwise("Neg", 64)), ("memory", elementwise("Neg", big)), ("L2", elementwise("Neg", middle)), ("exp", elementwise("Exp", big)), ("host-link", copied(big))):
        yield case(6, name, model, runs=1 if small else 20, predict=True)


def networks_of_all_kinds(small):
    """Longer than fifteen minutes allow: by name only."""
    short = GPT_SMALL if small else (*GPT[:3], 128, *GPT[4:])
    for name in ("resnet", "mobilenet", "bert", "lstm", "gpt"):
        for flags, type in ([], "f32"), (BF16, "bf16"):
            for n in (2,) if small else (1, 8, 64) if name in ("resnet", "bert", "gpt") else (1,):
                build = (lambda: sample("gpt").build(*short)) if name == "gpt" else lambda name=name, n=n: network(name, not small, n)
                words = [name, n, *short[:-1]] if name == "gpt" else [name, n, int(not small)]
                yield case(7, f"{name}-{n}-{type}", build, flags, batch=n, limit=short[4] if name == "gpt" else 50 if small else 1000, runs=1 if small else 100,
                           peers=[["torch", *words, type], *([["onnxruntime", *words]] if type == "f32" else [])])


def cases(small):
    """small: sizes that the simulator runs in a second."""
    for name in networks.NETWORKS:
        yield case(1, name + "-small", lambda name=name: network(name, False), check=True, runs=2 if small else 1000)
    yield case(1, "bert-small-bf16", lambda: network("bert", False), BF16, check=True, runs=2 if small else 1000)
    yield case(1, "gpt-small", lambda: sample("gpt").build(*GPT_SMALL), check=True, batch=2, runs=2 if small else 1000)
    for part in (operations, steps, calls, processors, calibration, networks_of_all_kinds):
        yield from part(small)


# What is asked of an H200: a line of the page, the cases that it is about, and what of each is at least how much: a peer's time over ours ("copy": our rate over its own), our
# tokens a second ("rate"), or half a second over the time of opening and the first run ("first"); "right": a result.
ASKED = [
    ("300 official cases", ["official"], "right", 1),
    ("1,000 runs of six networks, the CPU's results, the same bits, no memory more", [*(f"{name}-small" for name in networks.NETWORKS), "bert-small-bf16", "gpt-small"], "right", 1),
    ("compute-sanitizer finds nothing", [f"compute-sanitizer-{check}" for check in ("memcheck", "racecheck", "initcheck", "synccheck")], "right", 1),
    ("bf16 products of 4,096 and 8,192: 0.85 of cuBLASLt's rate", ["product-bf16-4096", "product-bf16-8192"], "torch", 0.85),
    ("float32 products above cuBLAS's", ["product-f32-4096", "product-f32-8192"], "torch", 1),
    ("attention: 0.8 of cuDNN's rate", ["attention-2048x64", "attention-2048x128"], "torch", 0.8),
    ("attention, forward and back: 0.6 of cuDNN's rate", ["attention-training-2048x64", "attention-training-2048x128"], "torch", 0.6),
    ("elementwise kernels and sums: 0.85 of a copy's bandwidth", ["column-means"], "copy", 0.85),
    ("norms: 0.85 of a copy's bandwidth", ["layer-norms"], "copy", 0.85),
    ("GPT-2 124M training in bf16: 450,000 tokens a second", ["gpt-training-bf16"], "rate", 450000),
    ("GPT-2 124M training ahead of torch.compile", ["gpt-training-bf16"], "torch", 1),
    ("ResNet-50 training in bf16 ahead of torch.compile with channels last", ["resnet-50-training-bf16"], "torch", 1),
    ("ResNet-50 in bf16 ahead of torch.compile, batches of 1 and 64", ["resnet-1-bf16", "resnet-64-bf16"], "torch", 1),
    ("sessions beside each other give the same bits", ["streams"], "right", 1),
    ("20,000 runs, 200 sessions: no memory is left behind", ["long", "sessions"], "right", 1),
    ("CPU, 1 to 16 threads, ahead of ONNX Runtime", [f"{n}-{t}-threads" for n in ("resnet", "bert") for t in (1, 2, 4, 8, 16)], "onnxruntime-cpu", 1),
    *((f"{title} ahead of torch.compile, batches of 1, 8, 64", [f"{name}-{n}-{t}" for n in (1, 8, 64) for t in ("f32", "bf16")], "torch", 1)
      for title, name in (("ResNet-50", "resnet"), ("BERT-base", "bert"), ("GPT-2", "gpt"))),
    *((f"{title} ahead of ONNX Runtime's CUDA provider, batches of 1, 8, 64", [f"{name}-{n}-f32" for n in (1, 8, 64)], "onnxruntime", 1)
      for title, name in (("ResNet-50", "resnet"), ("BERT-base", "bert"), ("GPT-2", "gpt"))),
    ("opened and run for the first time within 0.5 s", [f"{name}-1-f32" for name in networks.NETWORKS], "first", 1),
]
