# SPDX-License-Identifier: Apache-2.0
"""What others take for a case of tests/gpu/models.py.

usage: peers.py --serve [--autotune]   reads lines WHO KIND ARGUMENT..., answers each by {"ms": ..., "version": ...} of one run, or {"skip": why}; what is
                                       asked for a second time is measured again and not built again
       peers.py --dry                  every kind once, small and on the CPU, a line each: shows that the calls work, and measures nothing

WHO: torch: PyTorch's operations as they are (attention by cuDNN's kernels where it offers them), networks and training steps by torch.compile (--autotune: in its mode
max-autotune, which takes minutes) with channels last; onnxruntime: its CUDA provider with inputs and outputs on the device; onnxruntime-cpu: its CPU provider with the
last argument's number of threads; copy: a copy of as many bytes as the case's tensor has.
"""
import json, os, sys, time

DEVICE, RUNS, MODE = "cuda", 20, "default"
built = {}   # by words: what measures it


def timed(torch, run, runs=None):
    """The median, in ms."""
    times = []
    for _ in range(10 if DEVICE == "cuda" else 1):
        run()
    for _ in range((runs or RUNS) if DEVICE == "cuda" else 1):
        if DEVICE == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def compiled(torch, f):
    return torch.compile(f, mode=MODE) if DEVICE == "cuda" else torch.compile(f, backend="eager")


def bottlenecks(torch, full):
    """networks.resnet: ResNet-50."""
    nn, width = torch.nn, 64 if full else 8

    def conv(n, m, kernel, stride=1, act=True):
        return nn.Sequential(nn.Conv2d(n, m, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(m), *([nn.ReLU()] if act else []))

    class Block(nn.Module):
        def __init__(self, n, m, stride, first):
            super().__init__()
            self.body = nn.Sequential(conv(n, m, 1), conv(m, m, 3, stride), conv(m, 4 * m, 1, act=False))
            self.side = conv(n, 4 * m, 1, stride, False) if first else nn.Identity()

        def forward(self, x):
            return torch.relu(self.body(x) + self.side(x))

    layers, n = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)], width
    for stage, blocks in enumerate([3, 4, 6, 3] if full else [1, 2]):
        m = width << stage
        for block in range(blocks):
            layers.append(Block(n, m, 2 if stage and not block else 1, not block))
            n = 4 * m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 1000 if full else 10))


def transformer(torch, layers, width, heads, length, words, causal):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = (y.view(n, t, heads, -1).transpose(1, 2) for y in self.qkv(self.a(x)).chunk(3, -1))
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(n, t, width))
            return x + self.back(F.gelu(self.wide(self.b(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(layers)]), nn.LayerNorm(width)

        def forward(self, ids):
            x = self.norm(self.blocks(self.table(ids) + self.places))
            return x @ self.table.weight.T if causal else x

    return Model()


def network(torch, kind, sizes):
    """The network, an input, and classes of its results."""
    batch, rest = sizes[0], sizes[1:]
    if kind == "gpt":
        layers, width, heads, length, words = rest
        return transformer(torch, *rest, True), torch.randint(words, (batch, length)), torch.randint(words, (batch, length))
    full = bool(rest[0])
    if kind == "bert":
        layers, width, heads, length, words = (12, 768, 12, 128, 30000) if full else (2, 40, 2, 13, 50)
        return transformer(torch, layers, width, heads, length, words, False), torch.randint(words, (batch, length)), None
    if kind == "lstm":
        length, n = (35, 650) if full else (5, 20)

        class Both(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two, self.out = torch.nn.LSTM(n, n), torch.nn.LSTM(n, n, bidirectional=True), torch.nn.Linear(2 * n, 1000)

            def forward(self, x):
                return self.out(self.two(self.one(x)[0])[0])

        return Both(), torch.randn(length, batch, n), None
    size = 224 if full else 32
    if kind == "mobilenet":
        import torchvision
        return torchvision.models.mobilenet_v3_large(), torch.randn(batch, 3, size, size), None
    return bottlenecks(torch, full), torch.randn(batch, 3, size, size), torch.randint(1000 if full else 10, (batch,))


def last(torch, x, dtype=None):
    if not x.is_floating_point():
        return x.to(DEVICE)
    x = x.to(DEVICE, dtype)
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def inference(torch, kind, sizes, dtype):
    model, x, _ = network(torch, kind, sizes)
    model, x = model.eval().to(DEVICE, dtype), last(torch, x, dtype)
    if x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    run = compiled(torch, model)

    def measure():
        with torch.inference_mode():
            return timed(torch, lambda: run(x), 50)
    return measure


def training(torch, kind, sizes):
    model, x, y = network(torch, kind, sizes)
    model, x, y = model.to(DEVICE), last(torch, x), y.to(DEVICE)
    if x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=DEVICE == "cuda")

    def forward():
        with torch.autocast(DEVICE, torch.bfloat16):
            z = model(x)
        return torch.nn.functional.cross_entropy(z.float().flatten(0, -2), y.flatten())

    loss = compiled(torch, forward)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return lambda: timed(torch, step)


def attention(torch, sizes, training):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (torch.randn(*sizes, device=DEVICE, dtype=torch.bfloat16, requires_grad=training) for _ in range(3))
    d = torch.randn_like(q)
    forward = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    run = (lambda: torch.autograd.grad(forward(), (q, k, v), d)) if training else forward
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):   # cuDNN's where it takes it, else the next
        def measure(backend=backend):
            with sdpa_kernel(backend), torch.set_grad_enabled(training):
                return timed(torch, run)
        try:
            measure()
            return measure, backend.name
        except RuntimeError:
            continue
    return None, None


def operation(torch, kind, words, sizes):
    types = {"bf16": torch.bfloat16, "f32": torch.float32}
    if kind == "product":
        a, b = (torch.randn(sizes[0], sizes[0], device=DEVICE, dtype=types[words[0]]) for _ in range(2))
        run = lambda: a @ b
    else:
        a = torch.randn(*sizes, device=DEVICE)
        b = torch.empty_like(a)
        run = {"copy": lambda: b.copy_(a), "scaling": compiled(torch, lambda: a + a.mean(0, keepdim=True)),
               "norm": compiled(torch, lambda: torch.nn.functional.layer_norm(a, a.shape[1:]))}[kind]

    def measure():
        with torch.inference_mode():
            return timed(torch, run)
    return measure


def onnxruntime(who, kind, words):
    """What measures it, or {"skip": why}."""
    try:
        import numpy, onnx, onnxruntime as ort  # noqa: F401
    except ImportError as e:
        return {"skip": f"no {e.name}"}
    device = "cpu" if who == "onnxruntime-cpu" or DEVICE == "cpu" else "cuda"
    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in ort.get_available_providers():
        return {"skip": "ONNX Runtime has no CUDA provider"}
    import models
    batch, *rest = (int(w) for w in words if w.isdigit())
    options = ort.SessionOptions()
    if who == "onnxruntime-cpu":
        options.intra_op_num_threads = rest.pop()
    model = models.sample("gpt").build(*rest, 0) if kind == "gpt" else models.network(kind, bool(rest[0]), batch)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=[provider])
    info, binding = session.get_inputs()[0], session.io_binding()
    shape = [d if isinstance(d, int) else batch for d in info.shape]
    x = numpy.random.default_rng(1).standard_normal(shape).astype(numpy.float32) if "float" in info.type else numpy.ones(shape, numpy.int64)
    value = ort.OrtValue.ortvalue_from_numpy(x, device, 0)
    binding.bind_ortvalue_input(info.name, value)
    binding.bind_output(session.get_outputs()[0].name, device)

    def measure(value=value):
        times, end = [], time.perf_counter() + 2
        for k in range(60 if device == "cuda" else 25):
            start = time.perf_counter()
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            times.append(1e3 * (time.perf_counter() - start))
            if k > 4 and time.perf_counter() > end:
                break
        warm = times[min(10, len(times) // 2):]
        return sorted(warm)[len(warm) // 2]
    return measure


def build(who, kind, words):
    """(what measures it, version), or ({"skip": why}, None)."""
    if who.startswith("onnxruntime"):
        measure = onnxruntime(who, kind, words)
        return measure, None if isinstance(measure, dict) else sys.modules["onnxruntime"].__version__
    try:
        import torch
    except ImportError:
        return {"skip": "no PyTorch"}, None
    if DEVICE == "cuda" and not torch.cuda.is_available():
        return {"skip": "PyTorch sees no GPU"}, None
    sizes, how = [int(w) for w in words if w.isdigit()], None
    if kind in ("gpt", "bert", "lstm", "resnet", "mobilenet"):
        measure = inference(torch, kind, sizes, torch.float32 if "f32" in words else torch.bfloat16)
    elif kind in ("gpt-training", "resnet-training"):
        measure = training(torch, kind[:-9], sizes)
    elif kind.startswith("attention"):
        measure, how = attention(torch, sizes, kind == "attention-training")
        if not measure:
            return {"skip": "no kernel of attention takes it"}, None
    else:
        measure = operation(torch, kind, words, sizes)
    return measure, torch.__version__ + (f", {how}" if how else "")


def measured(who, kind, *words):
    words = tuple(str(w) for w in words)
    if (who, kind, words) not in built:
        built[who, kind, words] = build(who, kind, words)
    measure, version = built[who, kind, words]
    return measure if isinstance(measure, dict) else {"ms": measure(), "version": version}


def serve():
    for line in sys.stdin:
        try:
            said = measured(*line.split())
        except Exception as e:   # of the peer: that there is no figure
            said = {"skip": f"it failed: {str(e).strip().splitlines()[-1] if str(e).strip() else type(e).__name__}"}
        print("peer " + json.dumps(said), flush=True)


def main(*words):
    global DEVICE, MODE
    if "--serve" in words:
        MODE = "max-autotune" if "--autotune" in words else MODE
        return serve()
    if words != ("--dry",):
        sys.exit(__doc__)
    DEVICE = "cpu"
    import models
    for case in models.cases(True):
        for who, *kind in case["peers"]:
            print(case["name"], who, json.dumps(measured(who, *kind)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
