#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose initialisers are inputs too, for tests/defaults.tap: FOLDER/NAME/model.onnx with data sets; set 0 gives none of them, the others some.
FOLDER/table has a line for each: NAME, how many data sets, the flags it is compiled with."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

F, L = np.float32, np.int64
folder = sys.argv[1]
rows = []


def vi(name, a, dims=None):
    return h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(np.asarray(a).dtype), np.shape(a) if dims is None else dims)


def case(name, nodes, inputs, defaults, outputs, sets, dims={}, flags="", version=8, opset=17, listed=None):
    """sets: (given, expected); inputs and defaults: values by name; dims: declared ones by name."""
    declared = {**inputs, **{k: v for k, v in defaults.items() if listed is None or k in listed}}
    graph = h.make_graph(nodes, name, [vi(k, v, dims.get(k)) for k, v in declared.items()],
                         [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), [None] * v.ndim) for k, v in outputs.items()],
                         [nh.from_array(v, k) for k, v in defaults.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=version)
    onnx.checker.check_model(model)
    os.makedirs(f"{folder}/{name}")
    onnx.save(model, f"{folder}/{name}/model.onnx")
    for i, (given, expected) in enumerate([({}, list(outputs.values()))] + sets):
        d = f"{folder}/{name}/test_data_set_{i}"
        os.makedirs(d)
        for k, (n, v) in enumerate({**inputs, **given}.items()):
            open(f"{d}/input_{k}.pb", "wb").write(nh.from_array(v, n).SerializeToString())
        for k, (n, v) in enumerate(zip(outputs, expected)):
            open(f"{d}/output_{k}.pb", "wb").write(nh.from_array(v, n).SerializeToString())
    rows.append(f"{name}\t{1 + len(sets)}\t{flags}")


x, w, b = F([[1, 2], [3, 5]]), F([[0, 1, 2], [3, 4, 5]]), F([1, 2, 3])
w2, b2 = w[::-1].copy() - 1, F([-7, 8, 9])
linear = [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Add", ["a", "b"], ["y"])]
some = [({"b": b2}, [x @ w + b2]), ({"w": w2}, [x @ w2 + b]), ({"b": b2, "w": w2}, [x @ w2 + b2])]
case("linear", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some)
case("open_batch", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some, dims={"x": ["N", 2]})
case("versions", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some, dims={"x": ["N", 2]}, flags="--dim N=1|2|*")
case("one_by_name", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some[:1], flags="--defaults=b")
case("version_3_asked", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some, flags="--defaults=all", version=3)
case("not_all_are_inputs", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, some[:1], listed=["b"])
case("before_the_input", linear, {}, {"w": w, "b": b, "x": x}, {"y": x @ w + b}, [({"x": x * 2}, [x * 2 @ w + b])])
case("other_size", [h.make_node("Mul", ["s", "s"], ["q"]), h.make_node("ReduceSum", ["q"], ["r"], keepdims=0), h.make_node("Add", ["x", "r"], ["y"])],
     {"x": x}, {"s": F([1, 2])}, {"y": x + 5}, [({"s": F([1, 2, 3])}, [x + 14]), ({"s": F([])}, [x])], dims={"s": ["S"]})
long = np.arange(10, dtype=F)
case("slice", [h.make_node("Slice", ["x", "from", "to", "axes"], ["y"])], {"x": long}, {"from": L([2]), "to": L([5]), "axes": L([0])}, {"y": long[2:5]},
     [({"to": L([7])}, [long[2:7]]), ({"from": L([-3]), "to": L([100])}, [long[-3:]])])
case("sum_over", [h.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)], {"x": x}, {"axes": L([0])}, {"y": x.sum(0, keepdims=True)},
     [({"axes": L([1])}, [x.sum(1, keepdims=True)])])
case("shape", [h.make_node("Reshape", ["x", "s"], ["y"])], {"x": long}, {"s": L([2, 5])}, {"y": long.reshape(2, 5)}, [({"s": L([5, -1])}, [long.reshape(5, 2)])])
branch = [h.make_graph([h.make_node(op, ["x", "w"], ["o"])], op, [], [h.make_tensor_value_info("o", T.FLOAT, [3])]) for op in ("Add", "Mul")]
case("in_a_branch", [h.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])], {"x": b}, {"w": b2, "c": np.bool_(True)}, {"y": b + b2},
     [({"c": np.bool_(False)}, [b * b2]), ({"w": b}, [b + b]), ({"w": b, "c": np.bool_(False)}, [b * b])])
case("types", [h.make_node("Cast", ["h"], ["a"], to=T.FLOAT), h.make_node("Cast", ["u"], ["c"], to=T.FLOAT), h.make_node("Add", ["a", "c"], ["d"]),
               h.make_node("Add", ["d", "x"], ["y"])], {"x": b}, {"h": np.float16([1, 2, 3]), "u": np.uint8([200, 7, 0])}, {"y": b + F([201, 9, 3])},
     [({"u": np.uint8([1, 1, 1])}, [b + F([2, 3, 4])])])
case("returned", [h.make_node("Identity", ["w"], ["y"]), h.make_node("Neg", ["x"], ["z"])], {"x": b}, {"w": w}, {"y": w, "z": -b}, [({"w": w2}, [w2, -b])])
case("nothing_else", [h.make_node("Exp", ["w"], ["y"])], {}, {"w": F([0])}, {"y": F([1])}, [({"w": F([np.log(2)])}, [F([2])])])
big = np.arange(600 * 600, dtype=F).reshape(600, 600) / 1e5
case("big", [h.make_node("MatMul", ["x", "w"], ["y"])], {"x": big[:2]}, {"w": big}, {"y": big[:2] @ big}, [({"w": big * 2}, [big[:2] @ big * 2])], flags="--defaults=all")
case("big_fixed", [h.make_node("MatMul", ["x", "w"], ["y"])], {"x": big[:2]}, {"w": big}, {"y": big[:2] @ big}, [])
case("version_3", linear, {"x": x}, {"w": w, "b": b}, {"y": x @ w + b}, [], version=3)
np.save(f"{folder}/w.npy", w2)
np.save(f"{folder}/b.npy", b2)
np.save(f"{folder}/x.npy", x)
np.save(f"{folder}/wrong.npy", b2[:2])
open(f"{folder}/table", "w").write("\n".join(rows) + "\n")
