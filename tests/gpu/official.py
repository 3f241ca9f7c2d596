# SPDX-License-Identifier: Apache-2.0
"""Official cases of ONNX for a GPU: chosen and compiled on one machine, run and compared on another one, where nothing but Python is needed."""
import glob, json, math, os, struct, subprocess, sys, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CASES = os.path.join(TOP, "tests", "onnx")
# ONNX's element types that a file of plain numbers holds, as struct has them; "b2": bfloat16.
TYPES = {1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "?", 10: "e", 11: "d", 12: "I", 13: "Q", 16: "b2"}
FLOATS = "fedb2"
SIZES = {"b2": 2}


def size_of(kind):
    return SIZES.get(kind) or struct.calcsize(kind)


# -- Where the compiler is ---------------------------------------------------------------------------------------------------------------

def plain(path):
    """(type, dims, bytes) of a stored tensor, or None where it is none of plain numbers."""
    import onnx
    t = onnx.TensorProto()
    try:
        with open(path, "rb") as f:
            t.ParseFromString(f.read())
        if t.data_type not in TYPES:
            return None
        data = onnx.numpy_helper.to_array(t).tobytes()
    except Exception:   # a sequence, a map, an optional
        return None
    kind = TYPES[t.data_type]
    return (kind, list(t.dims), data) if len(data) == size_of(kind) * math.prod(t.dims) else None


def operands(folder, what):
    paths = sorted(glob.glob(os.path.join(folder, "test_data_set_0", what + "_*.pb")), key=lambda p: int(p[:-3].rsplit("_", 1)[1]))
    return [plain(p) for p in paths]


def chosen(suite, count):
    """`count` cases that pass on the CPU, of as many operators as there are: one of each, then a second of each; which ones by their names' checksums."""
    import onnx
    with open(os.path.join(CASES, "suite.list")) as f:
        passing = {line.split("#")[0].strip() for line in f} - {""}
    by_operator = {}
    for name in sorted(passing, key=lambda n: zlib.crc32(n.encode())):
        folder = os.path.join(suite, name)
        if not os.path.exists(os.path.join(folder, "model.onnx")):
            continue
        ins, outs = operands(folder, "input"), operands(folder, "output")
        if not outs or not all(ins) or not all(outs):
            continue
        nodes = onnx.load(os.path.join(folder, "model.onnx")).graph.node
        by_operator.setdefault(nodes[len(nodes) // 2].op_type if nodes else "", []).append(name)
    turns = max(map(len, by_operator.values()), default=0)
    return [names[k] for k in range(turns) for _, names in sorted(by_operator.items()) if k < len(names)][:count]


def prepare(folder, build, target, count, env):
    """Writes NAME.so, NAME.in, NAME.out and NAME.json of each; returns how many there are."""
    import tempfile
    os.makedirs(folder, exist_ok=True)
    made = 0
    with tempfile.TemporaryDirectory() as suite:
        subprocess.run([sys.executable, os.path.join(CASES, "onnx_cases.py"), suite], check=True, stdout=subprocess.DEVNULL)
        for name in chosen(suite, count + count // 10):
            case, path = os.path.join(suite, name), os.path.join(folder, name)
            r = subprocess.run([os.path.join(build, "tccc"), "-q", f"--target={target}", os.path.join(case, "model.onnx"), "-o", path + ".so"], capture_output=True, env=env)
            if r.returncode:   # of the CPU's list a few need what a GPU's artifact has not
                continue
            with open(path + ".in", "wb") as f:
                for _, dims, data in operands(case, "input"):
                    f.write(struct.pack(f"={1 + len(dims)}q", len(dims), *dims) + data)
            outs = operands(case, "output")
            with open(path + ".out", "wb") as f:
                f.writelines(data for _, _, data in outs)
            with open(os.path.join(case, "tol")) as f:
                tolerance = [float(x) for x in f.read().split()]
            with open(path + ".json", "w") as f:
                json.dump({"outputs": [[kind, dims] for kind, dims, _ in outs], "tolerance": tolerance}, f)
            made += 1
            if made == count:
                break
    return made


# -- Where the GPU is --------------------------------------------------------------------------------------------------------------------

def numbers(kind, data):
    if kind == "b2":
        return [struct.unpack("<f", b"\0\0" + data[k:k + 2])[0] for k in range(0, len(data), 2)]
    return struct.unpack(f"={len(data) // struct.calcsize(kind)}{kind}", data)


def near(x, y, rtol, atol):
    return x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= atol + rtol * abs(y)


def wrong(folder, name, dims):
    """Why the outputs are not those that are stored, or None."""
    path, at = os.path.join(folder, name), 0
    with open(path + ".json") as f:
        case = json.load(f)
    with open(path + ".got", "rb") as f:
        got = f.read()
    with open(path + ".out", "rb") as f:
        want = f.read()
    rtol, atol = case["tolerance"]
    if dims != [d for _, d in case["outputs"]]:
        return f"dims are {dims}"
    for kind, shape in case["outputs"]:
        n = size_of(kind) * math.prod(shape)
        a, b, at = numbers(kind, got[at:at + n]), numbers(kind, want[at:at + n]), at + n
        loose = (max(rtol, 1e-2), max(atol, 1e-2)) if kind == "b2" else (rtol, atol) if kind in FLOATS else (0, 0)
        off = sum(not near(x, y, *loose) for x, y in zip(a, b))
        if off or len(a) != len(b):
            return f"{off} of {len(b)} elements are off"
    return None


def run(folder, measure, device, seconds, jobs):
    """{name: None or why not} of those that the time allowed, and how many of them launched kernels. Some processes take the cases by turns; one that ends before its last case has the
    blame for the next one, and another goes on behind it."""
    import time
    end = time.monotonic() + seconds
    names = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".json"))
    rests, results, launched, running = [names[k::jobs] for k in range(jobs)], {}, 0, {}

    def start(rest):
        if rest and time.monotonic() < end:
            p = subprocess.Popen([measure, "cases", folder, *rest, f"device={device}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            running[p] = rest

    for rest in rests:
        start(rest)
    while running:
        p, rest = running.popitem()
        try:
            out, err = p.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
        said = {}
        for line in out.splitlines():
            try:
                r = json.loads(line)
            except ValueError:   # cut by the end of the time
                continue
            said[r["case"]] = r
        for name, r in said.items():
            results[name] = wrong(folder, name, r["dims"])
            launched += r["launches"] > 0
        if time.monotonic() >= end:
            continue
        errors = {n: e for e in err.splitlines() for n in rest if f"/{n}." in e}
        results.update({n: e for n, e in errors.items() if n not in results})
        left = [n for n in rest if n not in results]
        if left:
            results[left[0]] = f"the process ended with status {p.returncode}"
            start(left[1:])
    return results, launched
