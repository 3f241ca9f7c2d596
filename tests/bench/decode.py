#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding a token at a time: tokens a second of decoders of Llama's kind beside ONNX Runtime and llama.cpp, and beside what the memory gives.

usage: decode.py [--build DIR] [--work DIR] [--sizes 124M,1.1B] [--weights f32,w4] [--threads 1,2] [--tokens 32] [--past 16,1024] [--rounds 3] [--write]

Writes the models with random weights, as ONNX Runtime's genai builder spells them (GroupQueryAttention, MatMulNBits of 32 weights with a
scale and no zero point), and the same weights' sizes as GGUF files (F32, Q4_0); those stay in --work. tccc keeps the caches by --state=auto; ONNX
Runtime has past and present bound to one buffer (IO binding); llama.cpp is what llama-cpp-python carries, left out where that is not installed. An artifact
that is newer than the compiler and the model is taken as it is.
Each prints milliseconds a token behind a past of each length, medians of interleaved rounds, and the bytes that tccc reads a second: of weights,
and of the past's keys and values. *memory* is what passes over 1 GiB give (bandwidth.c) with as many threads right before and behind; *of it*, the
median over the rounds of the one over the other. A host that is shared may give two threads one core or two, from one second to the next: a round whose
two passes differ by more than a tenth is not counted there, and *rounds* says how many were. --write only writes the ONNX models.
"""
import argparse, importlib.util, json, math, os, statistics, subprocess, sys, time
import numpy as np, onnx, onnx.numpy_helper
from onnx import TensorProto as T, helper as h

SIZES = {  # width, layers, heads, heads of keys and values, inner width, words
    "tiny": (128, 2, 4, 2, 256, 512),
    "124M": (768, 12, 12, 12, 2048, 50257),
    "1.1B": (2048, 22, 32, 4, 5632, 32000),
}
HERE = os.path.dirname(os.path.abspath(__file__))


class Writer:
    """A model whose weights go to one file beside it as they are made."""
    def __init__(self, folder, weights):
        self.nodes, self.initializers, self.weights, self.read = [], [], weights, 0
        self.rng, self.folder, self.names = np.random.default_rng(0), folder, 0
        self.data = open(f"{folder}/model.onnx.data", "wb")

    def store(self, name, array):
        if array.nbytes < 64:  # ONNX Runtime reads axes and the like only here
            self.initializers.append(onnx.numpy_helper.from_array(array, name))
            return name
        t = T(name=name, data_type=h.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape, data_location=T.EXTERNAL)
        self.data.write(b"\0" * (-self.data.tell() % 4096))
        for key, value in (("location", "model.onnx.data"), ("offset", self.data.tell()), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.data.write(array.tobytes())
        self.initializers.append(t)
        return name

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        self.names += 1
        made = [f"{op}_{self.names}_{k}" for k in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, made, name=made[0], domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def product(self, x, name, k, n):
        """x [.., k] times random weights [k, n]."""
        if self.weights == "f32":
            w = self.rng.standard_normal((k, n), np.float32) * np.float32(k ** -0.5)
            self.read += w.nbytes
            return self.node("MatMul", [x, self.store(name, w)])
        q = self.rng.integers(0, 256, (n, k // 32, 16), np.uint8)
        s = np.full((n * k // 32,), k ** -0.5 / 4.6, np.float32)
        self.read += q.nbytes + s.nbytes
        return self.node("MatMulNBits", [x, self.store(name + "_q", q), self.store(name + "_s", s)], domain="com.microsoft", K=k, N=n, bits=4, block_size=32, accuracy_level=4)


def write(folder, size, weights):
    """The model; returns the bytes of weights that one token reads."""
    d, layers, heads, kv, ff, words = SIZES[size]
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(f"{folder}/read"):
        return int(open(f"{folder}/read").read())
    w, hd = Writer(folder, weights), d // heads
    embedding = w.store("embedding", w.rng.standard_normal((words, d), np.float32))
    angles = np.arange(2048, dtype=np.float32)[:, None] * 10000.0 ** (-np.arange(hd // 2, dtype=np.float32) / (hd // 2))
    cos, sin = w.store("cos", np.cos(angles)), w.store("sin", np.sin(angles))
    norm = lambda name: w.store(name, np.ones(d, np.float32))
    one, axis = w.store("one", np.array([1], np.int64)), w.store("axis", np.array([1], np.int64))
    sums = w.node("ReduceSum", ["attention_mask", axis], keepdims=0)
    lengths = w.node("Cast", [w.node("Sub", [sums, one])], to=T.INT32)
    total = w.node("Cast", [w.node("Gather", [w.node("Shape", ["attention_mask"]), w.store("index1", np.array(1, np.int64))], axis=0)], to=T.INT32)
    x = w.node("Gather", [embedding, "input_ids"])
    inputs = [h.make_tensor_value_info("input_ids", T.INT64, ["batch_size", "sequence_length"]),
              h.make_tensor_value_info("attention_mask", T.INT64, ["batch_size", "total_sequence_length"])]
    outputs = [h.make_tensor_value_info("logits", T.FLOAT, ["batch_size", "sequence_length", words])]
    normed = w.node("SimplifiedLayerNormalization", [x, norm("first_norm")], axis=-1, epsilon=1e-5)
    for i in range(layers):
        q, k, v = (w.product(normed, f"l{i}_{n}", d, m * hd) for n, m in (("q", heads), ("k", kv), ("v", kv)))
        past, present = [f"past_key_values.{i}.{n}" for n in ("key", "value")], [f"present.{i}.{n}" for n in ("key", "value")]
        for names, made, length in ((past, inputs, "past_sequence_length"), (present, outputs, "total_sequence_length")):
            made.extend(h.make_tensor_value_info(n, T.FLOAT, ["batch_size", kv, length, hd]) for n in names)
        w.nodes.append(h.make_node("GroupQueryAttention", [q, k, v, *past, lengths, total, cos, sin], [f"attention_{i}", *present], name=f"attention_{i}",
                                   domain="com.microsoft", num_heads=heads, kv_num_heads=kv, do_rotary=1, rotary_interleaved=0))
        x, normed = skip(w, x, w.product(f"attention_{i}", f"l{i}_o", d, d), norm(f"l{i}_norm"))
        gate, up = w.product(normed, f"l{i}_gate", d, ff), w.product(normed, f"l{i}_up", d, ff)
        inner = w.node("Mul", [w.node("Mul", [gate, w.node("Sigmoid", [gate])]), up])
        x, normed = skip(w, x, w.product(inner, f"l{i}_down", ff, d), norm(f"l{i}_norm2"))
    logits = w.product(normed, "head", d, words)
    w.nodes[-1].output[0] = "logits"
    assert logits
    graph = h.make_graph(w.nodes, "decoder", inputs, outputs, w.initializers)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=10), f"{folder}/model.onnx")
    w.data.close()
    open(f"{folder}/read", "w").write(str(w.read))
    return w.read


def skip(w, x, y, scale):
    """x + y, and its norm."""
    normed, _, _, total = w.node("SkipSimplifiedLayerNormalization", [x, y, scale], 4, domain="com.microsoft", epsilon=1e-5)
    w.nodes[-1].output[1:3] = ["", ""]
    return total, normed


def write_gguf(path, size, weights):
    """A model of the same sizes for llama.cpp, without words."""
    import gguf
    d, layers, heads, kv, ff, words = SIZES[size]
    if os.path.exists(path):
        return
    w, rng, kind = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0), gguf.GGMLQuantizationType.F32 if weights == "f32" else gguf.GGMLQuantizationType.Q4_0
    w.add_context_length(2048), w.add_embedding_length(d), w.add_block_count(layers), w.add_feed_forward_length(ff), w.add_head_count(heads)
    w.add_head_count_kv(kv), w.add_layer_norm_rms_eps(1e-5), w.add_rope_dimension_count(d // heads), w.add_vocab_size(words), w.add_tokenizer_model("no_vocab")

    def product(name, k, n):
        if weights == "f32":
            return w.add_tensor(name, rng.standard_normal((n, k), np.float32) * np.float32(k ** -0.5))
        block = rng.integers(0, 256, (n, k // 32, 18), np.uint8)  # a scale of f16, 16 bytes of weights
        block[:, :, :2] = np.frombuffer(np.float16(k ** -0.5 / 4.6).tobytes(), np.uint8)
        return w.add_tensor(name, block.reshape(n, -1), raw_dtype=kind)
    w.add_tensor("token_embd.weight", rng.standard_normal((words, d), np.float32))
    w.add_tensor("output_norm.weight", np.ones(d, np.float32))
    product("output.weight", d, words)
    for i in range(layers):
        w.add_tensor(f"blk.{i}.attn_norm.weight", np.ones(d, np.float32)), w.add_tensor(f"blk.{i}.ffn_norm.weight", np.ones(d, np.float32))
        for name, k, n in (("attn_q", d, d), ("attn_k", d, d // heads * kv), ("attn_v", d, d // heads * kv), ("attn_output", d, d), ("ffn_gate", d, ff), ("ffn_up", d, ff), ("ffn_down", ff, d)):
            product(f"blk.{i}.{name}.weight", k, n)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def step_ort(folder, size, threads):
    """step(tokens): those tokens behind what was. Past and present are one buffer."""
    import onnxruntime as ort
    d, layers, heads, kv, _, _ = SIZES[size]
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = threads, 3
    s = ort.InferenceSession(f"{folder}/model.onnx", o, providers=["CPUExecutionProvider"])
    caches = {f"{i}.{n}": ort.OrtValue.ortvalue_from_numpy(np.zeros((1, kv, 2048, d // heads), np.float32)) for i in range(layers) for n in ("key", "value")}
    at = 0

    def step(tokens):
        nonlocal at
        b = s.io_binding()
        at += len(tokens)
        b.bind_cpu_input("input_ids", np.array([tokens], np.int64))
        b.bind_cpu_input("attention_mask", np.ones((1, at), np.int64))
        for name, value in caches.items():
            b.bind_ortvalue_input(f"past_key_values.{name}", value), b.bind_ortvalue_output(f"present.{name}", value)
        b.bind_output("logits")
        s.run_with_iobinding(b)
    return step


def step_llama(path, threads):
    import ctypes, llama_cpp as l
    silent = l.llama_log_callback(lambda *a: None)
    l.llama_log_set(silent, None)
    l.llama_backend_init()
    model = l.llama_model_load_from_file(path.encode(), l.llama_model_default_params())
    p = l.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_threads, p.n_threads_batch = 2048, 2048, threads, threads
    context = l.llama_init_from_model(model, p)

    def step(tokens, keep=(silent, model)):
        words = (ctypes.c_int * len(tokens))(*tokens)
        failed = l.llama_decode(context, l.llama_batch_get_one(words, len(tokens)))
        if failed:
            raise RuntimeError(f"llama_decode: {failed}")
        l.llama_get_logits(context)
    return step


def timed(engine, folder, size, threads, past, tokens):
    """This process: median milliseconds of later tokens."""
    step = step_ort(folder, size, threads) if engine == "ort" else step_llama(folder + ".gguf", threads)
    step([1] * past)
    step([1])
    times = []
    for _ in range(tokens):
        t = time.perf_counter()
        step([1])
        times.append(1e3 * (time.perf_counter() - t))
    print(json.dumps({"median_ms": statistics.median(times)}))


def said(command):
    r = subprocess.run(command, capture_output=True, text=True)
    lines = [x for x in r.stdout.splitlines() if x.startswith("{")]
    if r.returncode or not lines:
        print(f"{command[0]}: {r.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    return json.loads(lines[-1])


def time_of(engine, a, folder, size, threads, past):
    if engine != "tccc":
        r = said([sys.executable, __file__, "--child", engine, folder, size, str(threads), str(past), str(a.tokens)])
        return r and r["median_ms"]
    np.save(f"{folder}/ids.npy", np.ones((1, past), np.int64)), np.save(f"{folder}/mask.npy", np.ones((1, past), np.int64))
    r = said([f"{a.build}/tccc-bench", f"{folder}.so", "--tokens", str(a.tokens + 1), "--threads", str(threads), "--json",
              "--input", f"input_ids={folder}/ids.npy", "--input", f"attention_mask={folder}/mask.npy"])
    return r and r["p50_ms"]


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    for name, value in (("build", "build"), ("work", "build/decode"), ("sizes", "124M,1.1B"), ("weights", "f32,w4"), ("threads", "1,2"), ("past", "16,1024")):
        p.add_argument(f"--{name}", default=value)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    for size in a.sizes.split(",") if a.write else []:
        for weights in a.weights.split(","):
            write(f"{a.work}/{size}-{weights}", size, weights)
    if a.write:
        return
    os.makedirs(a.work, exist_ok=True)
    reader = f"{a.work}/bandwidth"
    subprocess.run(["cc", "-O3", "-march=native", "-pthread", f"{HERE}/bandwidth.c", "-o", reader], check=True)
    print("| decoder | weights | threads | past | tccc ms | ORT ms | llama.cpp ms | ORT / tccc | llama.cpp / tccc | GB/s | memory GB/s | of it | rounds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for size in a.sizes.split(","):
        for weights in a.weights.split(","):
            folder = f"{a.work}/{size}-{weights}"
            read = write(folder, size, weights)
            made = f"{folder}.so"
            if not os.path.exists(made) or os.path.getmtime(made) < max(map(os.path.getmtime, (f"{a.build}/tccc", f"{folder}/read"))):
                subprocess.run([f"{a.build}/tccc", f"{folder}/model.onnx", "--dim", "batch_size=1", "--state=auto,capacity=2048", "-o", made], check=True)
            try:
                write_gguf(folder + ".gguf", size, weights)
            except ImportError:
                pass
            for threads in map(int, a.threads.split(",")):
                for past in map(int, a.past.split(",")):
                    row(a, folder, size, weights, threads, past, read, reader)


def row(a, folder, size, weights, threads, past, read, reader):
    def memory():
        return float(subprocess.run([reader, str(threads)], capture_output=True, text=True, check=True).stdout)
    width, layers, heads, kv, _, _ = SIZES[size]
    read += past * layers * 2 * kv * (width // heads) * 4
    times, gave = {"tccc": [], "ort": [], "llama": []}, []
    engines = [e for e in times if e != "llama" or importlib.util.find_spec("llama_cpp")]
    for _ in range(a.rounds):
        for engine in engines:
            found = times[engine]
            before = memory() if engine == "tccc" else 0
            ms = time_of(engine, a, folder, size, threads, past)
            found.extend([ms] if ms else [])
            if engine == "tccc" and ms:
                gave.append((before, memory(), read / ms / 1e6))
    ms = [statistics.median(t) if t else math.nan for t in times.values()]
    steady = [(2 / (1 / x + 1 / y), speed) for x, y, speed in gave if max(x, y) < 1.1 * min(x, y)]
    memory_speed, of_it = (statistics.median(v) if steady else math.nan for v in ([m for m, _ in steady], [s / m for m, s in steady]))
    cells = [size, weights, threads, past, *(f"{m:.2f}" for m in ms), f"{ms[1] / ms[0]:.2f}", f"{ms[2] / ms[0]:.2f}", f"{read / ms[0] / 1e6:.1f}",
             f"{memory_speed:.1f}", f"{100 * of_it:.0f} %", f"{len(steady)} of {len(gave)}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if sys.argv[1:2] == ["--child"]:
    timed(*sys.argv[2:5], *map(int, sys.argv[5:]))
else:
    main()
