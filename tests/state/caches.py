# SPDX-License-Identifier: Apache-2.0
"""Decoders' caches that --state takes into the session, against NumPy and onnx's reference, which get the past as inputs.

caches.py make DIR: models and the inputs of three runs (a prompt of 3 tokens, then 1 and 2). caches.py check DIR NAME: the outputs of tccc-run
in DIR/NAME/run_I.
"""
import os
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
import contrib_refs

HEADS, GROUPS, SIZE, NEWS = 4, 2, 8, (3, 1, 2)
BATCH = {"gqa": 2, "gqa_fixed": 2, "attention": 1, "stacked": 1}
TOTAL = np.cumsum(NEWS)


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes, inputs, outputs, opset, initialisers=()):
    graph = helper.make_graph(nodes, "cache", inputs, outputs, list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def gqa(past, total):
    """Keys and values are written where each sample's old ones end: past and present may be one buffer."""
    b, inputs = BATCH["gqa"], []
    for name, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
        inputs.append(value(name, [b, "S", heads * SIZE]))
    names = ["past_key_values.0.key", "past_key_values.0.value", "present.0.key", "present.0.value"]
    inputs += [value(n, [b, GROUPS, past, SIZE]) for n in names[:2]]
    inputs += [value("seqlens_k", [b], TensorProto.INT32), value("total_sequence_length", [1], TensorProto.INT32)]
    outputs = [value("y", [b, "S", HEADS * SIZE])] + [value(n, [b, GROUPS, total, SIZE]) for n in names[2:]]
    node = helper.make_node("GroupQueryAttention", [i.name for i in inputs], [o.name for o in outputs], domain="com.microsoft",
                            num_heads=HEADS, kv_num_heads=GROUPS)
    return model([node], inputs, outputs, 17)


def attention():
    """ONNX's Attention of opset 23."""
    inputs = [value("q", [1, HEADS, "S", SIZE]), value("k", [1, GROUPS, "S", SIZE]), value("v", [1, GROUPS, "S", SIZE])]
    inputs += [value(n, [1, GROUPS, "P", SIZE]) for n in ("past_key", "past_value")]
    outputs = [value("y", [1, HEADS, "S", SIZE])] + [value(n, [1, GROUPS, "T", SIZE]) for n in ("present_key", "present_value")]
    node = helper.make_node("Attention", ["q", "k", "v", "", "past_key", "past_value"], [o.name for o in outputs], is_causal=0)
    return model([node], inputs, outputs, 23)


def stacked():
    """GPT-2 as ONNX Runtime's tools write it: keys and values of a layer in one tensor."""
    inputs = [value(n, [1, HEADS, "S", SIZE]) for n in ("q", "k", "v")] + [value("past_0", [2, 1, HEADS, "P", SIZE])]
    outputs = [value("y", [1, HEADS, "S", SIZE]), value("present_0", [2, 1, HEADS, "T", SIZE])]
    number = [onnx.numpy_helper.from_array(np.array(x, np.int64), n) for n, x in (("zero", 0), ("one", 1), ("first", [0]))]
    make = helper.make_node
    nodes = [make("Gather", ["past_0", "zero"], ["past_k"], axis=0), make("Gather", ["past_0", "one"], ["past_v"], axis=0),
             make("Concat", ["past_k", "k"], ["all_k"], axis=2), make("Transpose", ["all_k"], ["keys"], perm=[0, 1, 3, 2]),
             make("MatMul", ["q", "keys"], ["scores"]), make("Softmax", ["scores"], ["weights"], axis=-1),
             make("Concat", ["past_v", "v"], ["all_v"], axis=2), make("MatMul", ["weights", "all_v"], ["y"]),
             make("Unsqueeze", ["all_k", "first"], ["stack_k"]), make("Unsqueeze", ["all_v", "first"], ["stack_v"]),
             make("Concat", ["stack_k", "stack_v"], ["present_0"], axis=0)]
    return model(nodes, inputs, outputs, 17, number)


def inputs_of(name, run):
    random = np.random.default_rng(100 * run + len(name))
    draw = lambda heads: random.standard_normal((BATCH[name], heads, NEWS[run], SIZE)).astype(np.float32)
    own = HEADS if name == "stacked" else GROUPS
    x = {"q": draw(HEADS), "k": draw(own), "v": draw(own)}
    if name.startswith("gqa"):
        x = {n: a.transpose(0, 2, 1, 3).reshape(BATCH[name], NEWS[run], -1) for n, a in x.items()}
        x["seqlens_k"] = np.full(BATCH[name], TOTAL[run] - 1, np.int32)
        x["total_sequence_length"] = np.array([TOTAL[run]], np.int32)
    return x


MODELS = {"gqa": gqa("past_sequence_length", "total"), "gqa_fixed": gqa(16, 16), "attention": attention(), "stacked": stacked()}


def expected(name):
    """The outputs y of three runs, each with what the last one has given as the past."""
    if name.startswith("gqa"):
        past = [np.zeros((BATCH[name], GROUPS, 0, SIZE), np.float32)] * 2
        for run in range(len(NEWS)):
            x = inputs_of(name, run)
            y, *past = contrib_refs.GroupQueryAttention(x["q"], x["k"], x["v"], *past, x["seqlens_k"], x["total_sequence_length"],
                                                        num_heads=HEADS, kv_num_heads=GROUPS)[:3]
            yield y
        return
    graph, run = MODELS[name].graph, ReferenceEvaluator(MODELS[name])
    names = [i.name for i in graph.input if i.name.startswith("past")]
    past = {i.name: np.zeros([0 if isinstance(d.dim_param, str) and d.dim_param else d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
            for i in graph.input if i.name in names}
    for i in range(len(NEWS)):
        y, *present = run.run(None, {**inputs_of(name, i), **past})
        past = dict(zip(names, present))
        yield y


def main(what, folder, *only):
    for name, proto in MODELS.items():
        if what == "make":
            onnx.save(proto, f"{folder}/{name}.onnx")
            for run in range(len(NEWS)):
                for n, a in inputs_of(name, run).items():
                    np.save(f"{folder}/{name}.{n}.{run}.npy", a)
        elif name in only:
            for run, want in enumerate(expected(name), 1):
                got = np.load(f"{folder}/{name}/run_{run}/output_0.npy")
                assert got.shape == want.shape and np.abs(got - want).max() < 2e-6, (name, run, np.abs(got - want).max())


main(*sys.argv[1:])
