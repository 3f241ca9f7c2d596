# SPDX-License-Identifier: Apache-2.0
"""Attention operators of com.microsoft over several tokens, the past in and the present out, as ONNX Runtime gives them: figures for --state.

steps.py store FILE.tar.xz: with ONNX Runtime, each case as NAME/model.onnx, NAME/options (of --state) and, a run, NAME/I/INPUT.npy and NAME/I/output_K.npy.
A run's past is what the run before gave, so outputs are those of a session that holds it. steps.py check DIR GOT: whether GOT/run_I has what
DIR/I has. Models have an output `rows`, sums of each row of the present up to the tokens so far, so that what is in the cache is seen as well as used.
"""
import io
import os
import sys
import tarfile
import numpy as np

HEADS, GROUPS, SIZE, CAPACITY = 4, 2, 16, 16
WIDTH = HEADS * SIZE


def angles(length, part):
    a = np.arange(length)[:, None] / 10000 ** (np.arange(part // 2) * 2 / part)
    return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)


class Case:
    """What all cases share: constants, the node, the output that shows the present."""

    def __init__(self, name, batch, news, dtype=np.float32, tol=2e-5):
        from onnx import TensorProto, helper, numpy_helper
        self.h, self.numpy_helper, self.elem = helper, numpy_helper, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.name, self.batch, self.news, self.dtype, self.tol = name, batch, news, dtype, tol
        self.int32, self.int64 = TensorProto.INT32, TensorProto.INT64
        self.random = np.random.default_rng(sum(name.encode()))
        self.inputs, self.outputs, self.constants, self.nodes, self.past = [], [], [], [], {}

    def draw(self, *dims):
        return (np.round(self.random.standard_normal(dims) * 8) / 8).astype(self.dtype)  # few bits: the archive stays small

    def value(self, name, dims, elem=None):
        return self.h.make_tensor_value_info(name, elem or self.elem, dims)

    def input(self, name, dims, elem=None):
        self.inputs.append(self.value(name, dims, elem))
        return name

    def constant(self, name, array):
        self.constants.append(self.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def cache(self, past, present, dims, axis):
        """A pair; `axis` is symbolic in the past and another symbol in the present."""
        for name, symbol, values in ((past, "past_len", self.inputs), (present, "total_len", self.outputs)):
            values.append(self.value(name, [symbol if i == axis else d for i, d in enumerate(dims)]))
        self.past[past] = (present, [0 if i == axis else d for i, d in enumerate(dims)])
        return past

    def show(self, present, axis, rank, total):
        """Sums over the last dim of the first `total` rows of the present."""
        first, last = self.constant("zero1", np.array([0], np.int64)), self.constant("last", np.array([-1], np.int64))
        self.nodes.append(self.h.make_node("Cast", [total], ["total64"], to=self.int64))
        self.nodes.append(self.h.make_node("Slice", [present, first, "total64", self.constant("along", np.array([axis], np.int64))], ["used"]))
        self.nodes.append(self.h.make_node("ReduceSum", ["used", last], ["rows"], keepdims=0))
        self.outputs.append(self.value("rows", [None] * (rank - 1)))

    def model(self):
        graph = self.h.make_graph(self.nodes, self.name.replace(".", "_"), self.inputs, self.outputs, self.constants)
        return self.h.make_model(graph, opset_imports=[self.h.make_opsetid("", 17), self.h.make_opsetid("com.microsoft", 1)], ir_version=9)

    def runs(self):
        """Inputs without the past, a dict a run."""
        raise NotImplementedError

    def told(self, name, array, inputs):
        """An output with NaN where the operator says nothing."""
        return array


class GroupQuery(Case):
    """lengths: of the samples' prompts (they are padded behind); None: all alike."""

    def __init__(self, name, batch=1, news=(3, 1, 2, 1), lengths=None, rotary=None, packed=False, bias=False, sink=False, positions=False, fixed=False,
                 dtype=np.float32, tol=2e-5, **attrs):
        super().__init__("gqa_" + name, batch, news, dtype, tol)
        self.lengths, self.packed, self.bias, self.positions = lengths or [news[0]] * batch, packed, bias, positions
        own, past = GROUPS * SIZE, CAPACITY if fixed else None
        names = [self.input("q", [batch, "s", WIDTH + (2 * own if packed else 0)])]
        names += ["", ""] if packed else [self.input("k", [batch, "s", own]), self.input("v", [batch, "s", own])]
        for kind in ("key", "value"):
            names.append(self.cache(f"past_{kind}", f"present_{kind}", [batch, GROUPS, past, SIZE], 2 if not fixed else -1))
        names += [self.input("seqlens_k", [batch], self.int32), self.input("total_sequence_length", [1], self.int32)]
        if rotary:
            names += [self.constant(n, a.astype(dtype)) for n, a in zip(("cos", "sin"), angles(32, rotary))]
        else:
            names += ["", ""]
        names.append(self.input("position_ids", [batch, "s"], self.int64) if positions else "")
        names.append(self.input("bias", [1, 1, "s", "t"]) if bias else "")
        names.append(self.constant("sink", self.draw(HEADS)) if sink else "")
        while not names[-1]:
            names.pop()
        self.outputs = [self.value("y", [batch, "s", WIDTH])] + self.outputs
        self.nodes.append(self.h.make_node("GroupQueryAttention", names, ["y", "present_key", "present_value"], domain="com.microsoft", num_heads=HEADS,
                                           kv_num_heads=GROUPS, do_rotary=int(bool(rotary)), **attrs))
        self.show("present_key", 2, 4, "total_sequence_length")

    def runs(self):
        own, total, used = GROUPS * SIZE, 0, np.zeros(self.batch, np.int64)
        for i, n in enumerate(self.news):
            x = {"q": self.draw(self.batch, n, WIDTH + (2 * own if self.packed else 0))}
            if not self.packed:
                x |= {name: self.draw(self.batch, n, own) for name in ("k", "v")}
            before = used
            used = used + (self.lengths if i == 0 else n)
            total = int(used.max())
            x |= {"seqlens_k": (used - 1).astype(np.int32), "total_sequence_length": np.array([total], np.int32)}
            if self.positions:
                x["position_ids"] = before[:, None] + np.arange(n)
            if self.bias:
                x["bias"] = self.draw(1, 1, n, total)
            yield x

    def told(self, name, array, inputs):
        """Tokens that pad a sample's prompt, and what they leave in the cache."""
        array = array.copy()
        for sample, last in enumerate(inputs["seqlens_k"]):
            if name == "rows":
                array[sample, :, last + 1:] = np.nan
            elif array.shape[1] > 1:
                array[sample, last + 1 if array.shape[1] == inputs["total_sequence_length"][0] else array.shape[1]:] = np.nan
        return array


class Stacked(Case):
    """Attention: keys and values of a layer in one tensor of dims [2, batch, heads, past, size]. mask: its dims ("all": [b, total], "ends": [b])."""

    def __init__(self, name, batch=1, news=(3, 1, 2, 1), mask=None, **attrs):
        super().__init__("attention_" + name, batch, news)
        self.mask = mask
        names = [self.input("x", [batch, "s", 8]), self.constant("w", self.draw(8, 3 * WIDTH)), self.constant("b", self.draw(3 * WIDTH))]
        names.append(self.input("mask", [batch, "t"] if mask == "all" else [batch], self.int32) if mask else "")
        names.append(self.cache("past_0", "present_0", [2, batch, HEADS, None, SIZE], 3))
        self.input("total", [1], self.int64)
        self.outputs = [self.value("y", [batch, "s", WIDTH])] + self.outputs
        self.nodes.append(self.h.make_node("Attention", names, ["y", "present_0"], domain="com.microsoft", num_heads=HEADS, **attrs))
        self.show("present_0", 3, 5, "total")

    def runs(self):
        total = 0
        for n in self.news:
            total += n
            x = {"x": self.draw(self.batch, n, 8), "total": np.array([total])}
            if self.mask == "all":
                x["mask"] = np.ones((self.batch, total), np.int32)
                x["mask"][-1, 1] = 0
            elif self.mask:
                x["mask"] = np.full(self.batch, total, np.int32)
            yield x


class MultiHead(Case):
    def __init__(self, name, batch=2, news=(3, 1, 2, 1), bias=False, **attrs):
        super().__init__("multihead_" + name, batch, news)
        self.bias = bias
        names = [self.input(n, [batch, "s", WIDTH]) for n in ("q", "k", "v")] + ["", "", self.input("bias", [1, HEADS, "s", "t"]) if bias else ""]
        names += [self.cache(f"past_{kind}", f"present_{kind}", [batch, HEADS, None, SIZE], 2) for kind in ("key", "value")]
        self.input("total", [1], self.int64)
        self.outputs = [self.value("y", [batch, "s", WIDTH])] + self.outputs
        self.nodes.append(self.h.make_node("MultiHeadAttention", names, ["y", "present_key", "present_value"], domain="com.microsoft", num_heads=HEADS, **attrs))
        self.show("present_value", 2, 4, "total")

    def runs(self):
        total = 0
        for n in self.news:
            total += n
            yield {name: self.draw(self.batch, n, WIDTH) for name in ("q", "k", "v")} | {"total": np.array([total])} | \
                ({"bias": self.draw(1, HEADS, n, total)} if self.bias else {})


def cases():
    yield GroupQuery("plain")
    yield GroupQuery("batch", batch=2, news=(3, 1, 1, 1))
    yield GroupQuery("ragged", batch=3, news=(5, 1, 1, 1), lengths=[2, 5, 3])
    yield GroupQuery("rotary", rotary=SIZE)
    yield GroupQuery("rotary_ragged", batch=2, news=(4, 1, 1, 1), lengths=[4, 2], rotary=SIZE, rotary_interleaved=1)
    yield GroupQuery("rotary_positions", rotary=SIZE, positions=True)
    yield GroupQuery("packed", packed=True, rotary=SIZE)
    yield GroupQuery("window", local_window_size=3)
    yield GroupQuery("softcap", softcap=2.0)
    yield GroupQuery("smooth", smooth_softmax=1)
    yield GroupQuery("sink", sink=True)
    yield GroupQuery("bias", bias=True)
    yield GroupQuery("half", dtype=np.float16, tol=2e-3)
    yield GroupQuery("fixed", batch=2, news=(3, 1, 1, 1), fixed=True)
    yield Stacked("plain")
    yield Stacked("causal", batch=2, unidirectional=1)
    yield Stacked("mask", batch=2, mask="all", unidirectional=1)
    yield Stacked("ends", batch=2, mask="ends")
    yield MultiHead("plain")
    yield MultiHead("causal", unidirectional=1)
    yield MultiHead("bias", bias=True)


def store(path):
    import onnxruntime
    with tarfile.open(path, "w:xz") as out:
        def put(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))

        def put_array(name, array):
            data = io.BytesIO()
            np.save(data, array)
            put(name, data.getvalue())

        for case in cases():
            model = case.model()
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            names = [o.name for o in session.get_outputs()]
            past = {name: np.zeros(dims, case.dtype) for name, (_, dims) in case.past.items()}
            put(case.name + "/model.onnx", model.SerializeToString())
            put(case.name + "/tolerance", f"{case.tol}\n".encode())
            for i, x in enumerate(case.runs(), 1):
                got = dict(zip(names, session.run(None, {**x, **past})))
                past = {name: got[present] for name, (present, _) in case.past.items()}
                for name, array in x.items():
                    put_array(f"{case.name}/{i}/{name}.npy", array)
                for k, name in enumerate(n for n in names if not n.startswith("present")):
                    put_array(f"{case.name}/{i}/output_{k}.npy", case.told(name, got[name], x))


def check(folder, got):
    with open(f"{folder}/tolerance") as f:
        tol = float(f.read())
    run = 0
    while os.path.isdir(f"{folder}/{run + 1}"):
        run += 1
        for k in (0, 1):
            want, have = (np.load(f"{d}/output_{k}.npy").astype(np.float64) for d in (f"{folder}/{run}", f"{got}/run_{run}"))
            assert want.shape == have.shape, (run, k, want.shape, have.shape)
            told = ~np.isnan(want)
            apart, scale = np.abs(want - have)[told].max(), max(1, np.abs(want[told]).max())
            assert apart <= tol * scale, (run, k, apart, scale)
    assert run > 1


if __name__ == "__main__":
    {"store": store, "check": check}[sys.argv[1]](*sys.argv[2:])
