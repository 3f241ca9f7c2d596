"""Kernels that were measured on a trn1 core, beside the modelled time of what the compiler makes of the same graphs.

Usage: measured.py FOLDER [KERNEL...]      tccc and tccc-neuron are on the PATH; a TAP line for each

The figures are those of AccelOpt's NKIBench (float32, December 2025, without the host's launch): of the kernel that its
authors began with, and of the best that their search came to. Modelled time is to lie between `LOW` and 1.0 of the first:
another schedule may well be better, but not by so much that only a model that leaves something out explains it. The least
that a machine can take stands beside it: products at 128 x 128 x 2 x 2.8 GHz / 4 operations a second, what has to be read
and written at 16 x 17 bytes a ns.

Attention has a limit of its own. The measured kernel keeps scores and weights in memory (1.05 GB of spills of the best one)
while the tensor engine waits; its counters have 418.8e9 operations for 2 x 137.4e9 of the products, the rest is transposes,
counted as float32 products are: 9.13 ms at the peak, 0.48 of what it took. A product's softmax goes by memory here as there.
"""
import re
import subprocess
import sys

NORM = """  %k = constant() {value = f32[] [0.0009765625]} : f32[]
  %s = mul(%y, %y)
  %t0 = reduce_sum(%s) {axes = [1], keepdims = 1}
  %t = mul(%t0, %k)
"""
LOW = 0.6
LIMITS = {"gqa": (0.477, 1), "bmm_softmax": (LOW, 1.01)}


def rope(dims, angles, axis):
    """Rotary embedding: the width's two halves, along that axis, turned by angles."""
    half = [n // (1 + (d == axis)) for d, n in enumerate(dims)]
    x, h, a = (f"f32[{','.join(map(str, s))}]" for s in (dims, half, angles))
    slices = "".join(f"""  %x{k} = slice(%x) {{starts = {[k * half[d] if d == axis else 0 for d in range(3)]}, sizes = {half}, steps = [1, 1, 1]}} : {h}
""" for k in range(2))
    return f"""func @main(%x: {x}, %c: {a}, %s: {a}) -> ({x}) {{
{slices}  %a = mul(%x0, %c)
  %b = mul(%x1, %s)
  %y0 = sub(%a, %b)
  %d = mul(%x0, %s)
  %e = mul(%x1, %c)
  %y1 = add(%d, %e)
  %r = concat(%y0, %y1) {{axis = {axis}}}
  return(%r)
}}"""


# name, ms, best, operations of products, bytes read and written, graph
KERNELS = [
    ("silu", 1.333, 0.798, 0, 2 * 4096 * 7168 * 4, """func @main(%x: f32[4096,7168]) -> (f32[4096,7168]) {
  %r = silu(%x)
  return(%r)
}"""),
    ("adamw", 2.0, 1.888, 0, 5 * 10944 * 2048 * 4, """func @main(%p: f32[10944,2048], %g: f32[10944,2048], %m: f32[10944,2048], %v: f32[10944,2048]) -> (f32[10944,2048]) {
  %d = constant() {value = f32[] [0.99999]} : f32[]
  %a = constant() {value = f32[] [0.9]} : f32[]
  %b = constant() {value = f32[] [0.1]} : f32[]
  %c = constant() {value = f32[] [0.999]} : f32[]
  %e = constant() {value = f32[] [0.001]} : f32[]
  %f = constant() {value = f32[] [1000.0]} : f32[]
  %h = constant() {value = f32[] [0.01]} : f32[]
  %i = constant() {value = f32[] [0.00000001]} : f32[]
  %p2 = mul(%p, %d)
  %m1 = mul(%m, %a)
  %m2 = mul(%g, %b)
  %m3 = add(%m1, %m2)
  %v1 = mul(%v, %c)
  %v2 = mul(%g, %g)
  %v3 = mul(%v2, %e)
  %v4 = add(%v1, %v3)
  %v5 = mul(%v4, %f)
  %v6 = sqrt(%v5)
  %v7 = add(%v6, %i)
  %u1 = mul(%m3, %h)
  %u2 = div(%u1, %v7)
  %r = sub(%p2, %u2)
  return(%r)
}"""),
    ("rope", 4.333, 3.333, 0, 3 * 128 * 262144 * 4, rope([64, 4096, 128], [64, 4096, 64], 2)),
    ("rope_turned", 4.333, 3.333, 0, 2 * 128 * 262144 * 4, rope([128, 64, 4096], [64, 1, 4096], 0)),  # the width first, an angle for all heads
    ("matmul", 35.2, 35.309, 2 * 4096 * 5120 * 12288, (4096 * 5120 + 5120 * 12288 + 4096 * 12288) * 4,
     """func @main(%a: f32[4096,5120], %b: f32[5120,12288]) -> (f32[4096,12288]) {
  %r = matmul(%a, %b)
  return(%r)
}"""),
    ("transpose_matmul", 9.61, 9.356, 2 * 4096 * 2048 * 10944, (4096 * 2048 + 2048 * 10944 + 4096 * 10944) * 4,
     """func @main(%a: f32[2048,4096], %b: f32[2048,10944]) -> (f32[4096,10944]) {
  %t = transpose(%a) {perm = [1, 0]}
  %r = matmul(%t, %b)
  return(%r)
}"""),
    ("lora", 30.166, 30.166, 2 * 4096 * (5120 * 12288 + 128 * (5120 + 12288)),
     (4096 * 5120 + 5120 * 12288 + 4096 * 12288 + 128 * (5120 + 12288)) * 4,
     """func @main(%x: f32[4096,5120], %w: f32[5120,12288], %a: f32[5120,128], %b: f32[128,12288]) -> (f32[4096,12288]) {
  %m = matmul(%x, %w)
  %l = matmul(%x, %a)
  %u = matmul(%l, %b)
  %r = add(%m, %u)
  return(%r)
}"""),
    ("bmm", 4.611, 4.333, 2 * 16 * 64 * 4096 * 4096, (2 * 16 * 64 * 4096 + 16 * 4096 * 4096) * 4,
     """func @main(%a: f32[16,4096,64], %b: f32[16,64,4096]) -> (f32[16,4096,4096]) {
  %r = matmul(%a, %b)
  return(%r)
}"""),
    ("bmm_softmax", 12.0, 12.0, 2 * 16 * 64 * 4096 * 4096, (2 * 16 * 64 * 4096 + 16 * 4096 * 4096) * 4,
     """func @main(%a: f32[16,4096,64], %b: f32[16,64,4096]) -> (f32[16,4096,4096]) {
  %y = matmul(%a, %b)
  %m = reduce_max(%y) {axes = [2], keepdims = 1}
  %d = sub(%y, %m)
  %e = exp(%d)
  %s = reduce_sum(%e) {axes = [2], keepdims = 1}
  %r = div(%e, %s)
  return(%r)
}"""),
    ("gqa", 19.111, 17.273, 4 * 16 * 4096 * 4096 * 128, (2 * 16 + 2 * 8) * 4096 * 128 * 4,
     """func @main(%q: f32[1,16,4096,128], %k: f32[1,8,4096,128], %v: f32[1,8,4096,128]) -> (f32[1,16,4096,128]) {
  %r = attention(%q, %k, %v) {scale = 0.0883883, causal = 0}
  return(%r)
}"""),
    ("rmsnorm_matmul", 1.056, 1.0, 2 * 4096 * 1024 * 2048, (4096 * 1024 + 1024 * 2048 + 4096 * 2048) * 4,
     """func @main(%y: f32[4096,1024], %w: f32[1024,2048]) -> (f32[4096,2048]) {
""" + NORM + """  %u = sqrt(%t)
  %n = div(%y, %u)
  %r = matmul(%n, %w)
  return(%r)
}"""),
    ("add_rmsnorm_matmul", 1.222, 1.055, 2 * 4096 * 1024 * 2048, (2 * 4096 * 1024 + 1024 * 2048 + 4096 * 2048) * 4,
     """func @main(%x: f32[4096,1024], %z: f32[4096,1024], %g: f32[1024], %w: f32[1024,2048]) -> (f32[4096,2048]) {
  %y = add(%x, %z)
""" + NORM + """  %e = constant() {value = f32[] [0.00001]} : f32[]
  %te = add(%t, %e)
  %u = sqrt(%te)
  %n = div(%y, %u)
  %h = mul(%n, %g)
  %r = matmul(%h, %w)
  return(%r)
}"""),
    ("matmul_add_rmsnorm", 2.667, 2.666, 2 * 4096 * 2048 * 2048, (4096 * 2048 * 3 + 2048 * 2048) * 4,
     """func @main(%x: f32[4096,2048], %w: f32[2048,2048], %z: f32[4096,2048], %g: f32[2048]) -> (f32[4096,2048]) {
  %p = matmul(%x, %w)
  %y = add(%p, %z)
""" + NORM + """  %e = constant() {value = f32[] [0.00001]} : f32[]
  %te = add(%t, %e)
  %u = sqrt(%te)
  %h = mul(%y, %g)
  %r = div(%h, %u)
  return(%r)
}"""),
    ("swiglu", 4.222, 4.223, 6 * 4096 * 1024 * 3072, (2 * 4096 * 1024 + 3 * 1024 * 3072) * 4,
     """func @main(%x: f32[4096,1024], %up: f32[1024,3072], %down: f32[3072,1024], %gate: f32[1024,3072]) -> (f32[4096,1024]) {
  %u = matmul(%x, %up)
  %g = matmul(%x, %gate)
  %a = silu(%g)
  %h = mul(%a, %u)
  %r = matmul(%h, %down)
  return(%r)
}"""),
]
PEAK, CARRIED = 128 * 128 * 2 * 2.8e9 / 4, 16 * 17e9


def modelled(folder, name, graph):
    """ms of the programs of its kernels, one behind the other."""
    path = f"{folder}/{name}"
    with open(path + ".tcir", "w", encoding="ascii") as f:
        f.write(graph + "\n")
    done = subprocess.run(["tccc", "--target=neuron:trn1", "--strict-device", "--dump-ir=neuron", path + ".tcir", "-o", path + ".so"],
                          check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    total = 0
    programs = re.split(r"^# kernel .*$", done.stderr, flags=re.M)[1:]
    assert programs, done.stderr[:1000]
    for program in programs:
        with open(path + ".neuron", "w", encoding="ascii") as f:
            f.write(program)
        run = subprocess.run(["tccc-neuron", "run", path + ".neuron", "--sim=time", "--counters"], check=True, capture_output=True,
                             text=True)
        total += float(re.search(r"modelled on trn1: ([0-9.]+) us", run.stdout).group(1)) / 1e3
    return total, len(programs)


def main():
    bad = 0
    wanted = [k for k in KERNELS if len(sys.argv) < 3 or k[0] in sys.argv[2:]]
    for k, (name, ms, best, operations, moved, graph) in enumerate(wanted, 1):
        got, kernels = modelled(sys.argv[1], name, graph)
        least = 1e3 * max(operations / PEAK, moved / CARRIED)
        low, high = LIMITS.get(name, (LOW, 1))
        fine = max(low * ms, least) <= got <= high * ms
        bad += not fine
        print(f"{'ok' if fine else 'not ok'} {k} - {name}: {got:.3f} ms by {kernels} kernels, {got / ms:.2f} of the measured {ms}, "
              f"{got / best:.2f} of the best; the least {least:.3f}", flush=True)
    print(f"1..{len(wanted)}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
