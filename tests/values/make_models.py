# SPDX-License-Identifier: Apache-2.0
# Writes models of one node, or a few, whose sizes and values only the run knows, each with inputs that fit or don't: FOLDER/NAME/model.onnx and test_data_set_0,
# and FOLDER/table, a line a case: NAME<TAB>what the run's refusal must say, or "right". What is right stands in output_0.pb.
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

out = sys.argv[1]
table = []
MIN, MAX = -(2**63), 2**63 - 1


def ints(*v):
    return np.array(v, np.int64)


def one(v, dtype=np.int64):
    return np.array(v, dtype)


def ramp(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) - 2).reshape(shape)


def save(name, says, nodes, inputs, dims, results, want, opset=18, constant=(), domain="", kind=TensorProto.FLOAT):
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), dims.get(k, v.shape))
        for k, v in inputs.items()
        if k not in constant
    ]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info(n, kind, None) for n in results], [numpy_helper.from_array(inputs[k], k) for k in constant])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    folder = f"{out}/{name}"
    os.makedirs(f"{folder}/test_data_set_0")
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), f"{folder}/model.onnx")
    given = [k for k in inputs if k not in constant]
    for i, k in enumerate(given):
        with open(f"{folder}/test_data_set_0/input_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(inputs[k], k).SerializeToString())
    want = want if isinstance(want, tuple) else (want,)
    for i, y in enumerate(want):
        with open(f"{folder}/test_data_set_0/output_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(np.zeros(0, np.float32) if y is None else y, f"y{i}").SerializeToString())
    table.append(f"{name}\t{'right' if want[0] is not None else says}")


def case(name, says, op, inputs, dims=None, results=1, opset=18, want=None, constant=(), domain="", kind=TensorProto.FLOAT, **attrs):
    """dims: of inputs, where not those of the values; constant: inputs that are initialisers; kind: element type of the results."""
    names = [f"y{k}" for k in range(results)]
    save(name, says, [helper.make_node(op, list(inputs), names, name, domain=domain, **attrs)], inputs, dims or {}, names, want, opset, constant, domain, kind)


def chain_case(name, says, nodes, inputs, want=None):
    """Nodes (operator, operands, result, attributes), each of its result's name; names have one letter, sizes are open."""
    made = [helper.make_node(op, list(operands), [result], result, **attrs) for op, operands, result, attrs in nodes]
    save(name, says, made, inputs, {k: [f"{k}{d}" if k != "a" else n for d, n in enumerate(v.shape)] for k, v in inputs.items()}, [nodes[-1][2]], want)


x4 = ramp(4)
# -- Slices: positions of any value are right, axes and steps are not
for start, end, step in ((1, MAX, 1), (MIN, 3, 1), (MAX, MIN, -1), (2, 1, 1), (3, MIN, MIN)):
    for fixed in ((), ("t", "a")):
        case(f"slice_{start}_{end}_{step}_{len(fixed)}", "", "Slice", {"x": x4, "s": ints(start), "e": ints(end), "a": ints(0), "t": ints(step)},
             {"x": ["N"]}, constant=fixed, want=x4[slice(max(start, -(2**62)), end if step > 0 else None if end == MIN else end, max(min(step, 9), -9))])
case("slice_axis", "size 'a", "Slice", {"x": x4, "s": ints(1), "e": ints(2), "a": ints(3)})
case("slice_axis_low", "size 'a", "Slice", {"x": x4, "s": ints(1), "e": ints(2), "a": ints(-2)})
case("slice_step_0", "the step along axis 0 is 0", "Slice", {"x": x4, "s": ints(1), "e": ints(2), "a": ints(0), "t": ints(0)})
# -- Splits
case("split_beyond", "the parts do not add up to axis 0", "Split", {"x": ramp(1, 8), "s": ints(6, 1)}, {"x": ["N", 8]}, 2, constant=("s",), axis=0)
case("split_values", "the parts do not add up to axis 0", "Split", {"x": ramp(6, 2), "s": ints(1, 2, 2)}, None, 3)
case("split_num_outputs", "axis 0 of the operand is too short for the slice", "Split", {"x": ramp(1)}, {"x": ["N"]}, 4, num_outputs=4)
case("split_negative", "must be in [0", "Split", {"x": ramp(5, 2), "s": ints(6, -1)}, None, 2)
case("split_fits", "", "Split", {"x": ramp(6, 2), "s": ints(1, 5)}, {"x": ["N", 2]}, 2, want=(ramp(6, 2)[:1], ramp(6, 2)[1:]))
# -- Shapes by value
for shape in ((-2, 3), (-1, -1), (6, 1, -3), (MAX, 2), (4, -1), (5, 0)):
    case("reshape_" + "_".join(map(str, shape)), "must be", "Reshape", {"x": ramp(6), "s": ints(*shape)}, {"x": ["N"]})
for n, shape in (0, ()), (3, (2,)):
    case(f"reshape_{n}_constants", "elements, i64[", "Reshape", {"x": ints(*range(n)), "s": ints(*shape)}, constant=("x", "s"), kind=TensorProto.INT64)
case("reshape_fits", "", "Reshape", {"x": ramp(6), "s": ints(-1, 3)}, {"x": ["N"]}, want=ramp(2, 3))
case("expand_neither", "the operand cannot be expanded along axis 0", "Expand", {"x": ramp(3, 1), "s": ints(2, 4)})
case("expand_fits", "", "Expand", {"x": ramp(3, 1), "s": ints(1, 2)}, want=np.repeat(ramp(3, 1), 2, 1))
case("tile_negative", "must be in [0", "Tile", {"x": ramp(3, 1), "s": ints(2, -4)})
case("pad_takes_too_much", "dimension 0 of the result is negative", "Pad", {"x": x4, "p": ints(-5, 0)})
case("pad_axis", "size 'a", "Pad", {"x": x4, "p": ints(1, 0), "v": one(0, np.float32), "a": ints(2)})
for mode in ("edge", "reflect", "wrap"):
    case(f"pad_{mode}_of_nothing", "axis 0 is empty, nothing to pad it with", "Pad", {"x": ramp(0, 8), "p": ints(1, 0, 1, 0)}, {"x": ["N", 8]}, opset=19,
         constant=("p",), mode=mode)
# -- Axes by value
case("cumsum_axis", "size 'a", "CumSum", {"x": x4, "a": one(5)}, opset=14)
case("cumsum_axis_low", "size 'a", "CumSum", {"x": x4, "a": one(MIN)}, opset=14)
case("squeeze_axis", "size 'a", "Squeeze", {"x": ramp(1, 4), "a": ints(5)})
case("unsqueeze_axis", "size 'a", "Unsqueeze", {"x": ramp(1, 4), "a": ints(5)})
case("reduce_axis", "size 'a", "ReduceSum", {"x": ramp(2, 4), "a": ints(5)})
case("trilu_all", "", "Trilu", {"x": ramp(3, 3), "k": one(MAX)}, want=np.zeros((3, 3), np.float32))
case("trilu_none", "", "Trilu", {"x": ramp(3, 3), "k": one(MIN)}, want=ramp(3, 3))
# -- Indices into nothing, and rows that do not count from the end
nothing = {"x": ["N", 2]}
empty = "there are indices into axis 0 of the operand, which is empty"
case("gather_from_nothing", empty, "Gather", {"x": ramp(0, 2), "i": ints(0)}, nothing)
case("gather_elements_from_nothing", empty, "GatherElements", {"x": ramp(0, 2), "i": np.zeros((1, 2), np.int64)}, nothing)
case("gather_nd_from_nothing", empty, "GatherND", {"x": ramp(0, 2), "i": ints(0).reshape(1, 1)}, nothing)
case("scatter_nd_into_nothing", empty, "ScatterND", {"x": ramp(0, 2), "i": ints(0).reshape(1, 1), "u": ramp(1, 2)}, nothing)
case("scatter_elements_into_nothing", empty, "ScatterElements", {"x": ramp(0, 2), "i": np.zeros((1, 2), np.int64), "u": ramp(1, 2)}, nothing)
case("no_indices_into_nothing", "", "Gather", {"x": ramp(0, 2), "i": ints()}, {"x": ["N", 2], "i": ["K"]}, want=ramp(0, 2))
rows = {"x": np.ones((1, 1, 1, 2), np.float32), "c": ramp(3, 1), "s": ramp(3, 1)}
case("rotary_position", "index ", "RotaryEmbedding", rows | {"p": ints(-1).reshape(1, 1)}, opset=23)
case("rotary_beyond", "index ", "RotaryEmbedding", rows | {"p": ints(3).reshape(1, 1)}, opset=23)
for at in (-1, 4):
    case(f"tensor_scatter_{at}", "index ", "TensorScatter", {"c": ramp(2, 1, 4, 3), "u": ramp(2, 1, 1, 3), "w": ints(0, at)}, opset=24)
case("argmax_of_nothing", "axis 1 is empty", "ArgMax", {"x": ramp(2, 0)}, {"x": ["A", "B"]}, axis=1, kind=TensorProto.INT64)
# -- Lengths
cell = {"x": ramp(3, 2, 4) / 30, "w": ramp(1, 3, 4) / 30, "r": ramp(1, 3, 3) / 30, "b": ramp(1, 6) / 30}
case("rnn_too_long", "a length of a sequence is too large", "RNN", cell | {"l": np.array([2, 5], np.int32)}, {"x": ["T", "B", 4], "l": ["B"]}, hidden_size=3)
case("rnn_negative", "a length of a sequence is negative", "RNN", cell | {"l": np.array([2, -5], np.int32)}, {"x": ["T", "B", 4], "l": ["B"]}, hidden_size=3)
# -- Operands that are shorter than what is taken from them
case("one_hot_values", "axis 0 of the operand is too short for the slice", "OneHot", {"i": ints(0, 1), "d": one(3), "v": ramp(1)}, {"v": ["V"]}, constant=("d",))
case("blocked_scales", "axis 1 of the operand is too short for the slice", "DequantizeLinear", {"x": np.ones((4, 16), np.int8), "s": ramp(4, 3)},
     {"x": ["M", "K"], "s": ["M", "B"]}, opset=21, axis=1, block_size=4)
case("attention_bias", "too short for the slice", "MultiHeadAttention",
     {"q": ramp(2, 5, 8), "k": ramp(2, 7, 8), "v": ramp(2, 7, 8), "b": ramp(11)},
     {"q": ["B", "S", 8], "k": ["B", "T", 8], "v": ["B", "T", 8], "b": ["W"]}, domain="com.microsoft", num_heads=2)
case("embedding_positions", "axis 0 of the operand is too short for the slice", "EmbedLayerNormalization",
     {"a": np.zeros((1, 5), np.int32), "b": np.zeros((1, 5), np.int32), "w": ramp(9, 4), "p": ramp(2, 4), "t": ramp(2, 4), "g": ramp(4), "be": ramp(4)},
     {"a": ["B", "S"], "b": ["B", "S"], "p": ["P", 4]}, domain="com.microsoft")
case("kernel_shape", "the weight has the sizes of kernel_shape", "Conv", {"x": ramp(1, 1, 5, 5), "w": ramp(1, 1, 2, 3)}, {"w": [1, 1, "h", "w"]}, kernel_shape=[3, 3])
case("window", "the window reaches over more elements than spatial axis 0 has", "MaxPool", {"x": ramp(1, 2, 2, 8)}, {"x": [1, 2, "H", "W"]}, kernel_shape=[3, 3])
case("convolution", "the window reaches over more elements than spatial axis 0 has", "Conv", {"x": ramp(1, 2, 2, 8), "w": ramp(3, 2, 3, 3)},
     {"x": [1, 2, "H", "W"]}, constant=("w",))
# -- Operands that are not there
for value in 3.0, 0.0:
    case(f"nonzero_of_a_scalar_{value:.0f}", "", "NonZero", {"x": one(value, np.float32)}, want=np.zeros((0, int(value != 0)), np.int64), kind=TensorProto.INT64)
qa, qb = np.array([[1, 200, 3]], np.uint8), np.array([[5], [90], [7]], np.uint8)
case("qgemm_scale_without_zero_point", "", "QGemm", {"a": qa, "sa": one(0.1, np.float32), "za": one(2, np.uint8), "b": qb, "sb": one(0.5, np.float32), "zb": one(9, np.uint8),
     "c": np.array([4], np.int32), "sy": one(2, np.float32)}, constant=("sa", "za", "b", "sb", "zb", "c", "sy"), domain="com.microsoft",
     want=(((qa.astype(int) - 2) @ (qb.astype(int) - 9) + 4) * 0.05 / 2).astype(np.float32))
# -- Indices: which, of how many, whose. The kernel that meets one computes several nodes, two of them with indices.
pair = {"a": ramp(10, 3), "i": ints(1, 2, -10, 9), "j": ints(0, 1, 2, 1)}
chain = ("Gather", "ai", "x", {}), ("Mul", "xx", "y", {}), ("Gather", "yj", "z", {"axis": 1}), ("Relu", "z", "r", {})
chain_case("indices", "", chain, pair, want=np.maximum(pair["a"][pair["i"]] ** 2, 0)[:, pair["j"]])
for k, v in ("i", 10), ("i", -11), ("j", 3), ("j", -4), ("i", MAX), ("j", MIN):
    bad = pair | {k: np.where(np.arange(4) == 2, v, pair[k])}
    chain_case(f"index_{k}_{v}", f"node '{'x' if k == 'i' else 'z'}' (Gather): index {v} is outside an axis of {10 if k == 'i' else 3}", chain, bad)
many = np.where(np.arange(1000) == 777, 4321, np.arange(1000) % 10)
chain_case("index_among_many", "node 'x' (Gather): index 4321 is outside an axis of 10", chain[:2], {"a": ramp(10, 3), "i": many})
# ... of known sizes, so that NeuronCores run them: whole operands, columns and parts of some
x, u = ramp(10, 4), ramp(2, 4)
case("index_of_elements", "node 'index_of_elements' (GatherElements): index 66 is outside an axis of 10", "GatherElements", {"x": x, "i": np.array([[0, 1, 2, 3], [4, 5, 66, 7]], np.int32)}, axis=0)
case("index_of_tuples", "node 'index_of_tuples' (GatherND): index -5 is outside an axis of 4", "GatherND", {"x": x, "i": ints([0, 1], [2, -5], [4, 3])})
case("index_of_updates", "node 'index_of_updates' (ScatterElements): index -16 is outside an axis of 10", "ScatterElements", {"x": x, "i": ints([0, 1, 2, 3], [4, 5, -16, 7]), "u": u}, axis=0)
case("index_of_rows", "node 'index_of_rows' (ScatterND): index 10 is outside an axis of 10", "ScatterND", {"x": x, "i": ints([3], [10]), "u": u})
# ... and of an open batch
for batch in (1, 75):
    i = np.arange(2 * batch).reshape(batch, 2) % 9
    i[-1, 1] = 12
    case(f"index_of_{batch}_open", f"node 'index_of_{batch}_open' (Gather): index 12 is outside an axis of 10", "Gather", {"x": x, "i": i}, {"i": ["N", 2]})
save("index_of_a_part", "node 'g' (Gather): index 19 is outside an axis of 10",
     [helper.make_node("Slice", ["i", "a", "b", "c"], ["j"]), helper.make_node("Transpose", ["j"], ["k"]), helper.make_node("Gather", ["x", "k"], ["y"], "g")],
     {"x": x, "i": ints([99, 1, 2], [99, 19, 0]), "a": ints(1), "b": ints(3), "c": ints(1)}, {}, ["y"], (None,), constant=("a", "b", "c"))
with open(f"{out}/table", "w") as f:
    f.write("\n".join(table) + "\n")
