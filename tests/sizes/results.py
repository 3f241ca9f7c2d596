# SPDX-License-Identifier: Apache-2.0
"""A case of the official suite's layout with its results, to be changed (restated.py) and written."""
import os, shutil
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

from draw import Draws, Refused


class Case(Draws):
    """A model with the values of its first data set by name: (bytes, array or None, element type)."""

    def __init__(self, rng, folder):
        self.rng = rng
        self.m = onnx.load(os.path.join(folder, "model.onnx"))
        self.opset = max([o.version for o in self.m.opset_import if o.domain in ("", "ai.onnx")], default=17)
        if not any(o.domain in ("", "ai.onnx") for o in self.m.opset_import):
            self.m.opset_import.append(h.make_opsetid("", 17))
        self.tol = os.path.join(folder, "tol")
        data = os.path.join(folder, "test_data_set_0")
        self.inputs, self.outputs = {}, {}
        for k, i in enumerate(self.m.graph.input):
            p = os.path.join(data, f"input_{k}.pb")
            if not os.path.exists(p):
                break
            self.inputs[i.name] = self.read(p, i.type)
        for k, i in enumerate(self.m.graph.output):
            self.outputs[i.name] = self.read(os.path.join(data, f"output_{k}.pb"), i.type)
        self.n, self.did, self.external = 0, [], {}
        if self.m.ir_version < 4:
            names = {i.name for i in self.m.graph.initializer}
            if all(n in self.inputs for n in [i.name for i in self.m.graph.input]) and names & set(self.inputs):
                raise Refused
            keep = [i for i in self.m.graph.input if i.name not in names]
            del self.m.graph.input[:]
            self.m.graph.input.extend(keep)
        self.m.ir_version = max(self.m.ir_version, 10)

    @staticmethod
    def read(path, t):
        """(bytes, array or None)"""
        with open(path, "rb") as f:
            b = f.read()
        if t.HasField("tensor_type"):
            p = T()
            p.ParseFromString(b)
            a = nh.to_array(p)
            return b, a, p.data_type
        return b, None, 0

    @staticmethod
    def renamed(b, name, t):
        p = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(t.WhichOneof("value"), T)()
        p.ParseFromString(b)
        p.name = name
        return p.SerializeToString()

    def name(self, what="r"):
        self.n += 1
        return f"{what}_{self.n}_{self.below(1000)}"

    def const(self, *v, dtype=np.int64, scalar=False):
        name = self.name("c")
        a = np.array(v, dtype)
        self.m.graph.initializer.append(nh.from_array(a[0] if scalar else a, name))
        return name

    def arrays(self):
        return {k: v for k, v in self.inputs.items() if v[1] is not None}

    def empty(self):
        name = self.name("c")
        self.m.graph.initializer.append(nh.from_array(np.zeros(0, np.int64), name))
        return name

    def condition(self):
        """A constant, an input, or something that only the run knows; its value."""
        kind, value = self.below(3), bool(self.below(2))
        if kind == 0:
            return self.const(value, dtype=bool, scalar=True)
        name = self.name("cond")
        if kind == 1 or not self.arrays():
            self.add_input(name, np.array(value))
            return name
        self.add_input(name, np.array([value]))
        z = self.name()
        self.m.graph.node.insert(0, h.make_node("Squeeze", [name], [z]))
        return z

    def add_input(self, name, a):
        t = h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        p = nh.from_array(a, name)
        self.inputs[name] = (p.SerializeToString(), a, p.data_type)
        self.m.graph.input.append(t)

    # -- Writing

    def check(self):
        m = self.m
        del m.graph.value_info[:]
        if not self.external:
            onnx.checker.check_model(m, full_check=False)
            onnx.shape_inference.infer_shapes(m, check_type=True, strict_mode=True)
        return m

    def write(self, out):
        given = [i.name for i in self.m.graph.input if i.name in self.inputs]
        rest = [i for i in self.m.graph.input if i.name not in self.inputs]
        if rest:
            order = [i for i in self.m.graph.input if i.name in self.inputs] + rest
            new = []
            for x in order:
                y = onnx.ValueInfoProto()
                y.CopyFrom(x)
                new.append(y)
            del self.m.graph.input[:]
            self.m.graph.input.extend(new)
        shutil.rmtree(out, ignore_errors=True)
        data = os.path.join(out, "test_data_set_0")
        os.makedirs(data)
        for f, b in self.external.items():
            p = os.path.join(out, f)
            os.makedirs(os.path.dirname(p), exist_ok=True)
            with open(p, "wb") as w:
                w.write(b)
        with open(os.path.join(out, "model.onnx"), "wb") as f:
            f.write(self.m.SerializeToString())
        for k, n in enumerate(given):
            with open(os.path.join(data, f"input_{k}.pb"), "wb") as f:
                f.write(self.renamed(self.inputs[n][0], n, [i.type for i in self.m.graph.input if i.name == n][0]))
        for k, o in enumerate(self.m.graph.output):
            with open(os.path.join(data, f"output_{k}.pb"), "wb") as f:
                f.write(self.renamed(self.outputs[o.name][0], o.name, o.type))
        if os.path.exists(self.tol):
            shutil.copy(self.tol, os.path.join(out, "tol"))
        with open(os.path.join(out, "did"), "w") as f:
            f.write(" ".join(self.did) + "\n")
