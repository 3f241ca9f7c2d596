#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks: training steps of compiled models against PyTorch's.

networks.py --write DIR      write DIR/<case>.onnx and DIR/<case>.txt: small networks and PyTorch's figures for them (tests/train/networks.c
                             compares with these; batches come of a formula that both know). --full: DIR/full/<case>.txt only, for
                             networks in the sizes that people train
networks.py --compare DIR    compile networks with DIR/tccc, run them from PyTorch's states and compare losses, gradients and curves; exit 1
                             where they differ. States are made again, by training in PyTorch, curves are those of the figures; it says
                             where PyTorch's states or gradients are not those of the figures, as on another CPU or version they may be

Figures, one a line: "loss STEP VALUE TOLERANCE" (a curve, or the steps of interest), "grad STEP TOLERANCE NAME NORM SAMPLE...",
"state STEP DIGEST": before the update of that step (0 is the first; -1: as initialised). Tolerances are absolute; for gradients those of a norm
after training that PyTorch did not share from its first step. With batch normalisation and --full gradients are those of settled().
"""
import argparse, copy, ctypes, hashlib, os, subprocess, sys, tempfile, warnings
warnings.filterwarnings("ignore")
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F

STEPS, POINTS, BATCHES, SAMPLES = 100, (0, 10, 50), 4, 4


class Mlp(nn.Module):
    def __init__(self, n=16, width=32, classes=10):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(n, width), nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.c(torch.tanh(self.b(F.relu(self.a(x)))))


class Cnn(nn.Module):
    """The network of PyTorch's MNIST example, without dropout."""

    def __init__(self, size=12, one=4, two=8, hidden=16):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, one, 3), nn.Conv2d(one, two, 3)
        self.fc1, self.fc2 = nn.Linear(two * ((size - 4) // 2) ** 2, hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Residual(nn.Module):
    def __init__(self, n, m, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m)
        self.conv2, self.bn2 = nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)
        self.down = None if n == m else nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


class Resnet(nn.Module):
    def __init__(self, widths=(4, 4, 8), per=1, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0])
        blocks, n = [], widths[0]
        for k, m in enumerate(widths[1:]):
            for i in range(per):
                blocks.append(Residual(n, m, 2 if k and not i else 1))
                n = m
        self.layers, self.fc = nn.Sequential(*blocks), nn.Linear(n, classes)

    def forward(self, x):
        return self.fc(self.layers(F.relu(self.bn1(self.conv1(x)))).mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self, n=8, width=16, classes=10):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(n, width, batch_first=True), nn.Linear(width, classes)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=48, width=16, layers=2, heads=2, length=12):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Gru(nn.Module):
    def __init__(self, n=8, width=12, classes=10):
        super().__init__()
        self.gru, self.fc = nn.GRU(n, width, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.fc(self.gru(x)[0][:, 2])


class Flow(nn.Module):
    """Scan, Loop, If and RNN of ONNX, which PyTorch does not export: parameters inside and outside of regions, two of them shared."""

    def __init__(self, n=8, classes=10):
        super().__init__()
        r = lambda *dims: nn.Parameter(torch.randn(*dims) * 0.4)
        self.w, self.u, self.v, self.fc = r(n, n), r(n, n), r(n, n), r(n, classes)
        self.rw, self.rr, self.rb = r(1, n, n), r(1, n, n), r(1, 2 * n)

    def forward(self, x):
        h = total = x[:, 0]
        for t in range(x.shape[1]):
            h = torch.tanh(x[:, t] @ self.w + h @ self.u)
            total = total + h
        v, seen = h, 0
        for _ in range(3):
            v = torch.tanh(v @ self.u) + v
            seen = seen + v
        z = (v @ self.v if x.sum() > 0 else 0.5 * (v @ self.v) + total) + seen
        s = torch.zeros_like(h)
        for t in range(x.shape[1]):
            s = torch.tanh(x[:, t] @ self.rw[0].T + s @ self.rr[0].T + self.rb[0, :8] + self.rb[0, 8:])
        return (z + s) @ self.fc

    def to_onnx(self, path):
        import onnx
        node, floats = onnx.helper.make_node, onnx.TensorProto.FLOAT
        info = lambda name, *dims: onnx.helper.make_tensor_value_info(name, floats, dims)
        ints = lambda name, v: onnx.numpy_helper.from_array(np.array(v, np.int64), name)
        graph = onnx.helper.make_graph
        scan = graph([node("MatMul", ["xt", "w"], ["xw"]), node("MatMul", ["h", "u"], ["hu"]), node("Add", ["xw", "hu"], ["sum"]),
                      node("Tanh", ["sum"], ["hn"]), node("Identity", ["hn"], ["yt"])],
                     "scan", [info("h", "batch", 8), info("xt", "batch", 8)], [info("hn", "batch", 8), info("yt", "batch", 8)])
        loop = graph([node("MatMul", ["a", "u"], ["au"]), node("Tanh", ["au"], ["at"]), node("Add", ["at", "a"], ["an"]),
                      node("Identity", ["an"], ["ao"]), node("Identity", ["c"], ["cn"])], "loop",
                     [onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []), onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
                      info("a", "batch", 8)],
                     [onnx.helper.make_tensor_value_info("cn", onnx.TensorProto.BOOL, []), info("an", "batch", 8), info("ao", "batch", 8)])
        yes = graph([node("MatMul", ["last", "v"], ["zy"])], "yes", [], [info("zy", "batch", 8)])
        no = graph([node("MatMul", ["last", "v"], ["lv"]), node("Mul", ["lv", "half"], ["lh"]), node("Add", ["lh", "total"], ["zn"])], "no", [],
                   [info("zn", "batch", 8)])
        nodes = [node("Transpose", ["x"], ["xs"], perm=[1, 0, 2]), node("Gather", ["x", "zero"], ["h0"], axis=1),
                 node("Scan", ["h0", "xs"], ["hl", "ys"], body=scan, num_scan_inputs=1), node("ReduceSum", ["ys", "zeros"], ["yt_"], keepdims=0),
                 node("Add", ["yt_", "h0"], ["total"]), node("Loop", ["three", "", "hl"], ["last", "all"], body=loop),
                 node("ReduceSum", ["all", "zeros"], ["seen"], keepdims=0), node("ReduceSum", ["x"], ["xsum"], keepdims=0),
                 node("Greater", ["xsum", "nought"], ["positive"]), node("If", ["positive"], ["z0"], then_branch=yes, else_branch=no),
                 node("Add", ["z0", "seen"], ["z"]), node("RNN", ["xs", "rw", "rr", "rb"], ["", "rh"], hidden_size=8),
                 node("Squeeze", ["rh", "zeros"], ["s"]), node("Add", ["z", "s"], ["zs"]), node("MatMul", ["zs", "fc"], ["y"])]
        constants = [ints("zero", 0), ints("zeros", [0]), ints("three", 3)]
        given = [node("Constant", [], ["half"], value=onnx.numpy_helper.from_array(np.float32(0.5))),
                 node("Constant", [], ["nought"], value=onnx.numpy_helper.from_array(np.float32(0)))]
        weights = [onnx.numpy_helper.from_array(p.detach().numpy(), k) for k, p in self.named_parameters()]
        g = graph(given + nodes, "flow", [info("x", "batch", 6, 8)], [info("y", "batch", 10)], constants + weights)
        m = onnx.helper.make_model(g, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        onnx.checker.check_model(m)
        onnx.save(m, path)


class Encoder(nn.Module):
    """Of a masked language model: embeddings with a norm, blocks that normalise last, as BERT's; a position is masked for all."""

    def __init__(self, vocabulary=40, width=24, layers=2, heads=3, length=10):
        super().__init__()
        self.embed, self.position, self.norm = nn.Embedding(vocabulary, width), nn.Embedding(length, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, F.gelu, batch_first=True) for _ in range(layers)])
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", (torch.arange(length) < length - 1).expand(length, length).clone())

    def forward(self, ids):
        x = self.norm(self.embed(ids) + self.position.weight)
        for b in self.blocks:
            n, t, c = x.shape
            h = b.self_attn.num_heads
            q, k, v = F.linear(x, b.self_attn.in_proj_weight, b.self_attn.in_proj_bias).view(n, t, 3, h, c // h).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, self.mask).transpose(1, 2).reshape(n, t, c)
            x = b.norm1(x + b.self_attn.out_proj(y))
            x = b.norm2(x + b.linear2(F.gelu(b.linear1(x))))
        return self.head(x)


class Groups(nn.Module):
    """Down and up again: a strided convolution, a grouped and a depthwise one, transposed ones (grouped, too), GroupNorm between them."""

    def __init__(self, n=8, classes=10):
        super().__init__()
        self.down, self.norm1 = nn.Conv2d(3, n, 3, 2, 1), nn.GroupNorm(2, n)
        self.grouped, self.norm2 = nn.Conv2d(n, n, 3, 1, 1, groups=2), nn.GroupNorm(4, n)
        self.depthwise, self.up = nn.Conv2d(n, n, 3, 1, 1, groups=n), nn.ConvTranspose2d(n, n, 4, 2, 1)
        self.norm3, self.shrink, self.fc = nn.GroupNorm(1, n), nn.ConvTranspose2d(n, n, 3, 1, 2, groups=4), nn.Linear(n, classes)

    def forward(self, x):
        x = F.silu(self.norm1(self.down(x)))
        x = x + torch.tanh(self.norm2(self.grouped(x)))
        x = F.silu(self.norm3(self.up(self.depthwise(x))))
        return self.fc(torch.tanh(self.shrink(x)).mean((2, 3)))


def sgd(rate):
    return lambda p: torch.optim.SGD(p, lr=rate, momentum=0.9), f"sgd:lr={rate},momentum=0.9"


def adamw(rate):
    return lambda p: torch.optim.AdamW(p, lr=rate), f"adamw:lr={rate}"


def adadelta():
    return lambda p: torch.optim.Adadelta(p, lr=1.0), "adadelta:lr=1"


# name: module, input's dims, classes of the input (0: numbers), target's dims, classes, optimizer
SMALL = {
    "mlp": (Mlp, (16, 16), 0, (16,), 10, sgd(0.1)),
    "cnn": (Cnn, (8, 1, 12, 12), 0, (8,), 10, adadelta()),
    "resnet": (Resnet, (8, 3, 8, 8), 0, (8,), 10, sgd(0.01)),
    "lstm": (Lstm, (8, 6, 8), 0, (8,), 10, adamw(0.01)),
    "gpt": (Gpt, (4, 12), 48, (4, 12), 48, adamw(0.003)),
    "gru": (Gru, (8, 6, 8), 0, (8,), 10, adamw(0.01)),
    "flow": (Flow, (8, 6, 8), 0, (8,), 10, sgd(0.01)),
    "encoder": (Encoder, (4, 10), 40, (4, 10), 40, adamw(0.003)),
    "groups": (Groups, (4, 3, 8, 8), 0, (4,), 10, sgd(0.05)),
}
FULL = {
    "mlp": (lambda: Mlp(784, 256), (64, 784), 0, (64,), 10, sgd(0.01)),
    "mnist_cnn": (lambda: Cnn(28, 32, 64, 128), (64, 1, 28, 28), 0, (64,), 10, sgd(0.01)),
    "resnet18": (lambda: Resnet((64, 64, 128, 256, 512), 2), (32, 3, 32, 32), 0, (32,), 10, sgd(0.001)),
    "resnet18_b4": (lambda: Resnet((64, 64, 128, 256, 512), 2), (4, 3, 32, 32), 0, (4,), 10, sgd(0.001)),
    "lstm": (lambda: Lstm(32, 128), (16, 24, 32), 0, (16,), 10, adamw(0.001)),
    "gpt": (lambda: Gpt(8192, 384, 6, 6, 128), (2, 128), 8192, (2, 128), 8192, adamw(0.001)),
}
BATCH_NORM = ("resnet", "resnet18", "resnet18_b4")
NO_CURVE = ("resnet18",)                  # six of them take an hour; the one of smaller batches has one
CHAOTIC = BATCH_NORM + ("mnist_cnn",)     # curves that part when one ULP differs: ReLU and max-pooling switch


def hashed(first, n):
    h = ((np.arange(n, dtype=np.uint64) + np.uint64(first)) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((15, 0x85EBCA77), (13, 0xC2B2AE3D)):
        h ^= h >> np.uint64(shift)
        h = (h * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h ^ (h >> np.uint64(16))


def values(which, dims, classes):
    h = hashed(which * 10000019, int(np.prod(dims))).reshape(dims)
    return (h % np.uint64(classes)).astype(np.int64) if classes else (h.astype(np.float64) / 2**31 - 1).astype(np.float32)


def batch(case, step):
    k = step % BATCHES
    return values(2 * k, case[1], case[2]), values(2 * k + 1, case[3], case[4])


def loss_of(model, x, y):
    out = model(torch.from_numpy(x))
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), torch.from_numpy(y).reshape(-1))


def export(case, model, path):
    import onnx     # here, so that who wants the modules only need not load it
    if hasattr(model, "to_onnx"):
        return model.to_onnx(path)
    x = torch.from_numpy(batch(case, 0)[0])
    was = model.training
    torch.onnx.export(model.eval(), (x,), dynamo=True, opset_version=20, input_names=["x"], output_names=["y"],
                      dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1024)},), optimize=False, verbose=False).save(path)
    # What the exporter says about its sources and itself is no part of the model.
    m = onnx.load(path)
    for thing in [m, m.graph, *m.graph.node, *m.graph.value_info, *m.graph.input, *m.graph.output, *m.graph.initializer, *m.functions]:
        thing.doc_string = ""
        if hasattr(thing, "metadata_props"):
            del thing.metadata_props[:]
    onnx.save(m, path)
    model.train(was)


def train(case, model, seen, steps=STEPS):
    """Calls seen(step, loss) with each step's gradients, before its update."""
    optimizer = case[5][0](model.parameters())
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, *batch(case, step))
        loss.backward()
        seen(step, loss.item())
        optimizer.step()


def settled(model, x):
    """A copy whose biases of batch normalisation are moved (by less than 2e-3) so that no ReLU's input is near 0: each channel's goes to the
    middle of the widest gap between its values there. A gradient jumps where a ReLU switches, and among millions some always lie within
    rounding of 0; from this state the gradients of any two float32 programs ought to agree."""
    model = copy.deepcopy(model)
    buffers = {k: v.clone() for k, v in model.named_buffers()}

    def relu(bn, input):
        y = input()
        for c, v in enumerate(y.transpose(0, 1).reshape(y.shape[1], -1)):
            near, _ = torch.cat([v[v.abs() < 2e-3], torch.tensor([-2e-3, 2e-3])]).sort()
            k = near.diff().argmax()
            bn.bias[c] -= (near[k] + near[k + 1]) / 2
        return F.relu(input())
    with torch.no_grad():
        x = relu(model.bn1, lambda: model.bn1(model.conv1(x)))
        for block in model.layers:
            y = block.conv1(x)
            y = block.conv2(relu(block.bn1, lambda: block.bn1(y)))
            short = x if block.down is None else block.down(x)
            x = relu(block.bn2, lambda: block.bn2(y) + short)
        for k, v in model.named_buffers():
            v.copy_(buffers[k])
    return model


def digest(model):
    """Of the parameters: a forward pass has changed buffers when this is asked."""
    h = hashlib.sha256()
    for name, p in model.named_parameters():
        h.update(name.encode() + p.detach().contiguous().numpy().tobytes())
    return h.hexdigest()[:32]


def samples_of(n):
    return [i * (n - 1) // (SAMPLES - 1) for i in range(SAMPLES)]


def write_figures(name, case, model, path, curve, full):
    """Losses of all steps with their tolerances; gradients and digests of the states at POINTS."""
    with open(path, "w") as out:
        dims = lambda d: "x".join(map(str, d))
        print(f"case {case[5][1]} x {dims(case[1])} {case[2]} target {dims(case[3])} {case[4]}", file=out)
        if full:
            print(f"state -1 {digest(model)}", file=out)

        def print_loss(step, loss):
            if curve or step in POINTS:
                print(f"loss {step} {curve[0][step] if curve else loss:.9g} {curve[1][step] if curve else 1e-5 * loss:.2g}", file=out)

        def seen(step, loss):
            print_loss(step, loss)
            if step not in POINTS:
                return
            state = settled(model, torch.from_numpy(batch(case, step)[0])) if full and name in BATCH_NORM else model
            print(f"state {step} {digest(state)}", file=out)
            if not full and step and name in BATCH_NORM:
                return
            norms = {key: p.norm().item() for key, p in state.named_parameters()}
            for key, g in gradients(case, state, step)[1].items():
                norm = max(np.linalg.norm(g), 1e-6 * norms[key])
                print(f"grad {step} {(1e-3 if not full and step else 1e-4) * norm:.2g} {key} {np.linalg.norm(g):.9g} " +
                      " ".join(f"{g.reshape(-1)[i]:.9g}" for i in samples_of(g.size)), file=out)
        train(case, model, seen, max(POINTS) + 1)
        for step in range(max(POINTS) + 1, STEPS):
            print_loss(step, None)
    print("wrote", path, flush=True)


def write(folder, cases, full):
    for name, case in cases.items():
        torch.manual_seed(0)
        model = case[0]().train()
        if full:
            folder_of = f"{folder}/full"
            os.makedirs(folder_of, exist_ok=True)
        else:
            folder_of = folder
            export(case, model, f"{folder}/{name}.onnx")
        write_figures(name, case, model, f"{folder_of}/{name}.txt", None if full and name in NO_CURVE else tolerances(name, case, model.state_dict()), full)


# -- Running artifacts through libtccrt

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.c_int64 * 12)]


DTYPES = {np.dtype("float32"): 1, np.dtype("int64"): 7}


class Session:
    def __init__(self, runtime, path):
        self.rt, self.model, self.session = runtime, ctypes.c_void_p(), ctypes.c_void_p()
        runtime.tccrt_error.restype = ctypes.c_char_p
        self.check(runtime.tccrt_open(path.encode(), ctypes.byref(self.model)))
        self.check(runtime.tccrt_session_new(self.model, None, ctypes.byref(self.session)))

    def check(self, status):
        if status:
            raise RuntimeError(self.rt.tccrt_error().decode())

    def tensor(self, a):
        t = Tensor(a.ctypes.data, DTYPES[a.dtype], a.ndim)
        for i, d in enumerate(a.shape):
            t.dims[i] = d
        return t

    def run(self, entry, *inputs):
        arrays = [np.ascontiguousarray(a) for a in inputs]
        given = (Tensor * max(1, len(arrays)))(*[self.tensor(a) for a in arrays])
        out = (Tensor * 1)()
        n = self.rt.tccrt_noutputs(self.model, entry.encode())
        self.check(self.rt.tccrt_run(self.session, entry.encode(), len(arrays), given, n, out))
        return ctypes.cast(out[0].data, ctypes.POINTER(ctypes.c_float))[0] if n else None

    def get(self, name):
        t = Tensor()
        self.check(self.rt.tccrt_state_get(self.session, name.encode(), ctypes.byref(t)))
        dims = [t.dims[i] for i in range(t.rank)]
        n = int(np.prod(dims, dtype=np.int64))
        return np.ctypeslib.as_array(ctypes.cast(t.data, ctypes.POINTER(ctypes.c_float)), (n,)).reshape(dims).copy()

    def set(self, name, a):
        self.check(self.rt.tccrt_state_set(self.session, name.encode(), ctypes.byref(self.tensor(np.ascontiguousarray(a)))))

    def close(self):
        self.rt.tccrt_session_free(self.session)
        self.rt.tccrt_close(self.model)


def load_state(session, model):
    """PyTorch's parameters and buffers; those that the ONNX model does not have (counts of batches) are left out."""
    for name, v in model.state_dict().items():
        if v.dtype == torch.float32:
            session.set(name, v.numpy())


def read_figures(name, full):
    """What is stored: losses {step: (value, tolerance)}, digests {step: digest}, gradients {(step, parameter): (tolerance, norm and samples)}."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks", "full" if full else "", name + ".txt")
    losses, states, grads = {}, {}, {}
    if os.path.exists(path):
        with open(path) as f:
            for words in map(str.split, f):
                if words[0] == "loss":
                    losses[int(words[1])] = float(words[2]), float(words[3])
                elif words[0] == "state":
                    states[int(words[1])] = words[2]
                elif words[0] == "grad":
                    grads[int(words[1]), words[3]] = float(words[2]), np.array(words[4:], np.float64)
    return losses, states, grads


def nudged(model, seed):
    """A copy whose weights are moved by one ULP."""
    model = copy.deepcopy(model)
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.nextafter(p, torch.where(torch.rand_like(p) < 0.5, torch.full_like(p, 1e9), torch.full_like(p, -1e9))))
    return model


def gradients(case, model, step, dtype=torch.float32):
    """Loss and gradients in float64 numbers, computed in `dtype` by a copy."""
    model = copy.deepcopy(model).to(dtype)
    model.zero_grad()
    x, y = batch(case, step)
    loss = loss_of(model, x if case[2] else x.astype(np.dtype(str(dtype)[6:])), y)
    loss.backward()
    return loss.item(), {key: p.grad.numpy().astype(np.float64) for key, p in model.named_parameters()}


def distance(model, got, want):
    """The worst tensor's difference relative to its norm, and its name. A gradient that is zero but for rounding (a bias before a
    normalisation) is measured against the parameter's update."""
    floor = {key: max(1e-6 * p.detach().norm().item(), 1e-9) for key, p in model.named_parameters()}
    return max((np.linalg.norm(got[key] - want[key]) / max(np.linalg.norm(want[key]), floor[key]), key) for key in want)


def own_spread(case, model, step, want):
    """How far PyTorch's own gradients move, relative to their norms, when weights do by one ULP or the arithmetic is float64: ReLUs switch."""
    others = [gradients(case, nudged(model, seed), step)[1] for seed in range(2)] + [gradients(case, model, step, torch.float64)[1]]
    return max(distance(model, other, want)[0] for other in others)


def compare_state(case, model, session, step):
    """Our gradients and PyTorch's from this state: relative difference of the losses, worst tensor's, its name, PyTorch's gradients."""
    loss, want = gradients(case, model, step)
    load_state(session, model)
    got_loss = session.run("grad", *batch(case, step))
    return (abs(got_loss - loss) / abs(loss), *distance(model, {key: session.get("grad." + key).astype(np.float64) for key in want}, want), want)


def matches(figures, step, want):
    """Are these PyTorch's gradients of the stored figures?"""
    for key, g in want.items():
        if (step, key) in figures:
            tolerance, numbers = figures[step, key]
            if not (np.abs(np.concatenate([[np.linalg.norm(g)], g.reshape(-1)[samples_of(g.size)]]) - numbers) <= tolerance).all():
                return False
    return True


def compare_points(name, case, model, session, full):
    """Losses and gradients from PyTorch's own states; the worst of each. Networks with batch normalisation are compared from settled
    states, and from those of training within what PyTorch's own gradients move there."""
    _, digests, figures = read_figures(name, full)
    found, raw, notes = [], [], []

    def seen(step, loss):
        if step not in POINTS:
            return
        state = settled(model, torch.from_numpy(batch(case, step)[0])) if name in BATCH_NORM else model
        loss, error, key, want = compare_state(case, state, session, step)
        found.append((error, f"{key} at step {step}", loss))
        if name in BATCH_NORM:
            loss, error, key, want_raw = compare_state(case, model, session, step)
            raw.append((error, f"{key} at step {step}", loss, own_spread(case, model, step, want_raw)))
            if not full:    # figures of small networks are of the states as trained
                state, want = model, want_raw
        if digests.get(step, digest(state)) != digest(state):
            notes.append(f"PyTorch's state before step {step} is not the one of the stored figures")
        elif not matches(figures, step, want):
            notes.append(f"PyTorch's gradients at step {step} are not the stored ones")
    train(case, model, seen, max(POINTS) + 1)
    error, where, _ = max(found)
    loss = max(f[2] for f in found)
    ok = loss <= 1e-5 and error <= 1e-4
    print(f"{'ok' if ok else 'not ok'} {name}: loss {loss:.1e}, gradients {error:.1e} of the norm ({where})", flush=True)
    if raw:
        (error, where, _, _), loss, spread = max(raw), max(f[2] for f in raw), max(f[3] for f in raw)
        good = loss <= 1e-5 and error <= max(1e-4, 2 * spread)
        print(f"{'ok' if good else 'not ok'} {name}, states as trained: loss {loss:.1e}, gradients {error:.1e} ({where}); PyTorch's own move "
              f"by {spread:.1e} when weights do by one ULP or sums are float64", flush=True)
        ok = ok and good
    for note in notes:
        print(f"# {name}: {note}")
    return ok


def curve(case, state, nudge=None):
    model = case[0]().train()
    model.load_state_dict(state)
    losses = []
    train(case, model if nudge is None else nudged(model, nudge), lambda step, loss: losses.append(loss))
    return np.array(losses)


def tolerances(name, case, state):
    """A curve of losses, and how far a step's loss may be off: 1e-4, or twice the spread of runs that began one ULP away."""
    state = {k: v.clone() for k, v in state.items()}
    want = curve(case, state)
    if name not in CHAOTIC:
        return want, 1e-4 * np.maximum(np.abs(want), 1e-3)
    runs = np.array([curve(case, state, seed) for seed in range(5)])
    return want, 2 * np.maximum.accumulate(np.abs(runs - want).max(0)) + 1e-5 * want


def compare_curve(name, case, state, session, full):
    """From the first state on, against the stored curve, or one made now."""
    model = case[0]()
    model.load_state_dict(state)
    session.run("init")
    load_state(session, model)
    losses, digests, _ = read_figures(name, full)
    stored = len(losses) == STEPS and digests.get(-1) == digest(model)
    want, bound = (np.array([losses[step] for step in range(STEPS)]).T if stored else tolerances(name, case, state))
    got = np.array([session.run("step", *batch(case, step)) for step in range(STEPS)])
    worst = (np.abs(got - want) / bound).max()
    print(f"{'ok' if worst <= 1 else 'not ok'} {name}: curve of {STEPS} steps{'' if stored else ' (made now)'}, at most {worst:.2g} of what it may be off, "
          f"{(np.abs(got - want) / np.abs(want)).max():.1e} relative, loss {want[0]:.4f} to {want[-1]:.4f}", flush=True)
    return worst <= 1


def compare(build, cases, wanted, curves, full):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        runtime = f"{folder}/libtccrt.so"
        subprocess.check_call(["cc", "-shared", "-o", runtime, "-Wl,--whole-archive", f"{build}/libtccrt.a", "-Wl,--no-whole-archive", "-lm", "-lpthread", "-ldl"])
        runtime = ctypes.CDLL(runtime)
        for name, case in cases.items():
            if wanted and name not in wanted:
                continue
            torch.manual_seed(0)
            model = case[0]().train()
            state = {k: v.clone() for k, v in model.state_dict().items()}
            export(case, model, f"{folder}/model.onnx")
            subprocess.check_call([f"{build}/tccc", "--train", "--loss=cross_entropy", f"--optimizer={case[5][1]}", f"{folder}/model.onnx",
                                   "-o", f"{folder}/{name}.so"])
            session = Session(runtime, f"{folder}/{name}.so")
            good &= compare_points(name, case, model, session, full)
            good &= not curves or (full and name in NO_CURVE) or compare_curve(name, case, state, session, full)
            session.close()
    return good


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--write", metavar="DIR")
    p.add_argument("--compare", metavar="DIR")
    p.add_argument("--full", action="store_true")
    p.add_argument("--no-curves", action="store_true")
    p.add_argument("cases", nargs="*")
    a = p.parse_args()
    torch.set_num_threads(1)     # sums, and so digests of states, depend on it
    cases = FULL if a.full else SMALL
    if a.write:
        write(a.write, {k: v for k, v in cases.items() if not a.cases or k in a.cases}, a.full)
    if a.compare and not compare(os.path.abspath(a.compare), cases, a.cases, not a.no_curves, a.full):
        sys.exit(1)
