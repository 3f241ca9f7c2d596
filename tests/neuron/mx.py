# SPDX-License-Identifier: Apache-2.0
"""MX formats on trn3's engines against ml_dtypes and NumPy: numbers and scales that quantize_mx gives, bit by bit, and products of them; products of
networks (mx.tcir) on the engines and by ops of floats on the CPU against the interpreter; training by --auto-cast=mxfp8 on both.

mx.py DIR            runs programs by tccc-neuron, on the numbers of mx.npz beside this file
mx.py --store        makes mx.npz, by ml_dtypes: E4M3 (finite), E5M2, E2M1 and E8M0 are its types; the rules of scaling and saturation are OCP's (MX 1.0, 6.3)"""
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, 'mx.npz')
P, N = 128, 16
LARGEST = {'f8e4m3': 448, 'f8e5m2': 57344, 'f4e2m1': 6}


def draw():
    """bf16 bits [P, N, 4]: of all sizes, with zeros, subnormals, infinities, NaN and what lies half way between codes."""
    r = np.random.default_rng(7)
    x = r.standard_normal((P, N, 4)).astype(np.float32) * 2.0 ** r.integers(-20, 20, (P, N, 4))
    x[:, 1] = 0
    x[:, 2] = r.integers(-64, 64, (P, 4)) / 8 * 2.0 ** -3
    x[:, 3] *= np.float32(2.0 ** -126)
    x[:, 4] = np.where(r.random((P, 4)) < .02, np.inf, x[:, 4])
    x[:, 5] = np.where(r.random((P, 4)) < .02, np.nan, x[:, 5])
    x[:, 6] = 3e38 * r.standard_normal((P, 4)).clip(-1, 1)
    x[:, 7] = 2.0 ** r.integers(-8, 9, (P, 4))
    x[:, 8] = 448 + r.integers(-64, 64, (P, 4))
    u = x.astype(np.float32).view(np.uint32)
    u = np.where(np.isnan(x), 0x7fc00000, u + 0x7fff + (u >> 16 & 1))
    return (u >> 16).astype(np.uint16)


def floats(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def quantise(x, name, margin):
    """Codes of the numbers, as [P, N, 4] bytes, and of the scales, [P / 8, N]."""
    import ml_dtypes as m
    kind = {'f8e4m3': m.float8_e4m3fn, 'f8e5m2': m.float8_e5m2, 'f4e2m1': m.float4_e2m1fn}[name]
    most = float(LARGEST[name])
    amax = np.abs(x).reshape(P // 8, 8, N, 4).max((1, 3))
    with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
        e = np.floor(np.log2(amax.astype(np.float64))) - np.floor(np.log2(most)) + margin
        finite = np.isfinite(amax)
        scale = np.where(finite, 2.0 ** np.clip(np.where(finite, e, 0), -127, 127), np.nan)
        codes = scale.astype(np.float32).astype(m.float8_e8m0fnu).view(np.uint8)
        y = (x.astype(np.float64) / np.repeat(scale, 8, 0)[:, :, None]).clip(-most, most)
    return y.astype(np.float32).astype(kind).view(np.uint8), codes


def dequantise(codes, scales, name):
    import ml_dtypes as m
    kind = {'f8e4m3': m.float8_e4m3fn, 'f8e5m2': m.float8_e5m2, 'f4e2m1': m.float4_e2m1fn}[name]
    by = scales.view(m.float8_e8m0fnu).astype(np.float64)
    return codes.view(kind).astype(np.float64) * np.repeat(by, 8, 0)[:, :, None]


def store():
    bits = draw()
    out = {'x': bits}
    for name in ('f8e4m3', 'f8e5m2'):
        for margin in (0, 1):
            q, s = quantise(floats(bits), name, margin)
            out[f'{name}.{margin}.q'], out[f'{name}.{margin}.s'] = q, s
    r = np.random.default_rng(8)
    for name in LARGEST:
        q = r.integers(0, 16 if name == 'f4e2m1' else 0x78, (P, 32, 4)).astype(np.uint8)
        q |= (r.integers(0, 2, q.shape) << (3 if name == 'f4e2m1' else 7)).astype(np.uint8)
        s = r.integers(120, 134, (P // 8, 32)).astype(np.uint8)
        out[f'{name}.codes'], out[f'{name}.scales'], out[f'{name}.values'] = q, s, dequantise(q, s, name).astype(np.float32)
    np.savez_compressed(STORED, **out)


def packed(codes, name):
    """[P, n, 4] codes as elements of an x4 type."""
    bits = 4 if name == 'f4e2m1' else 8
    u = sum(codes[:, :, j].astype(np.uint32) << bits * j for j in range(4))
    return u.astype(np.uint16 if bits == 4 else np.uint32)


def spread(scales):
    """[P / 8, n] scales where the engines look for them."""
    to = np.zeros((P, scales.shape[1]), np.uint8)
    for g in range(P // 8):
        to[g // 4 * 32 + g % 4] = scales[g]
    return to


def run(directory, name, text, **inputs):
    path = os.path.join(directory, name + '.neuron')
    with open(path, 'w') as f:
        f.write(text)
    command = ['tccc-neuron', 'run', path, '--output-dir', os.path.join(directory, name)]
    for k, v in inputs.items():
        np.save(os.path.join(directory, f'{name}_{k}.npy'), v)
        command += ['--input', f'{k}={os.path.join(directory, f"{name}_{k}.npy")}']
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return {f[:-4]: np.load(os.path.join(directory, name, f)) for f in os.listdir(os.path.join(directory, name))}


def check_quantising(directory, stored, name, margin):
    got = run(directory, f'q_{name}_{margin}', f'''core trn3
tensor x in u16 [{P}, {4 * N}]
tensor q out u32 [{P}, {N}]
tensor s out u8 [{P}, {N}]
engine sync
    dma sbuf.u16[0:128, 0, {4 * N}], x[0, {P}, {4 * N}] signal s0
    dma q[0, {P}, {N}], sbuf.u32[0:128, 4096, {N}] queue=1 wait s1>=1
    dma s[0, {P}, {N}], sbuf.u8[0:128, 8192, {N}] queue=2 wait s1>=1
engine vector
    memset sbuf.u8[0:128, 8192, {N}], 0
    quantize_mx sbuf.{name}x4[0:128, 4096, {N}], sbuf.u8[0:128, 8192, {N}], sbuf.bf16[0:128, 0, {4 * N}] margin={margin} wait s0>=16 signal s1
''', x=stored['x'].reshape(P, 4 * N))
    scales, codes = stored[f'{name}.{margin}.s'], stored[f'{name}.{margin}.q']
    s = np.stack([got['s'][g // 4 * 32 + g % 4] for g in range(P // 8)])
    assert np.array_equal(s, scales), np.argwhere(s != scales)[:4]
    number = np.repeat(scales != 255, 8, 0)  # with a scale that is NaN, all are
    want, q = packed(codes, name), got['q']
    assert np.array_equal(q[number], want[number]), (q != want)[number].sum()
    assert (~number).any() and np.all((q[~number] & 0x7f7f7f7f) == (0x7f7f7f7f if name == 'f8e4m3' else 0x7e7e7e7e))
    return f'{name}: {number.sum() * 4} numbers and {scales.size} scales, margin {margin}'


def check_product(directory, stored, a, b):
    def tensors(name):
        return packed(stored[f'{name}.codes'], name), spread(stored[f'{name}.scales'])

    (x, sx), (y, sy) = tensors(a), tensors(b)
    words = {n: 'u16' if n == 'f4e2m1' else 'u32' for n in (a, b)}
    got = run(directory, f'p_{a}_{b}', f'''core trn3
tensor a in {words[a]} [{P}, 32]
tensor sa in u8 [{P}, 32]
tensor b in {words[b]} [{P}, 32]
tensor sb in u8 [{P}, 32]
tensor y out f32 [32, 32]
engine sync
    dma sbuf.{words[a]}[0:128, 0, 32], a[0, {P}, 32] signal s0
    dma sbuf.u8[0:128, 1024, 32], sa[0, {P}, 32] queue=1 signal s1
    dma sbuf.{words[b]}[0:128, 2048, 32], b[0, {P}, 32] queue=2 signal s2
    dma sbuf.u8[0:128, 3072, 32], sb[0, {P}, 32] queue=3 signal s3
    dma y[0, 32, 32], sbuf.f32[0:32, 4096, 32] wait s5>=1
engine tensor
    load_stationary_mx sbuf.{a}x4[0:128, 0, 32], sbuf.u8[0:128, 1024, 32] wait s0>=16 wait s1>=16
    matmul_mx psum.f32[0:32, 0, 32], sbuf.{b}x4[0:128, 2048, 32], sbuf.u8[0:128, 3072, 32] wait s2>=16 wait s3>=16
    matmul_mx psum.f32[0:32, 0, 32], sbuf.{b}x4[0:128, 2048, 32], sbuf.u8[0:128, 3072, 32] accumulate signal s4
engine vector
    tensor_copy sbuf.f32[0:32, 4096, 32], psum.f32[0:32, 0, 32] wait s4>=1 signal s5
''', a=x, sa=sx, b=y, sb=sy)
    u, v = stored[f'{a}.values'].astype(np.float64), stored[f'{b}.values'].astype(np.float64)
    want = 2 * np.einsum('pmj,pnj->mn', u, v)
    size = 2 * np.einsum('pmj,pnj->mn', abs(u), abs(v))
    assert np.all(abs(got['y'] - want) <= 2e-6 * size), abs(got['y'] - want).max()
    # the sums of each of the four places, from partition 0 on, then theirs
    planes = []
    for j in range(4):
        s = np.zeros((32, 32), np.float32)
        for p in range(P):
            s = s + np.float32(u[p, :, j])[:, None] * np.float32(v[p, :, j])[None, :]
        planes.append(s)
    once = ((planes[0] + planes[1]) + planes[2]) + planes[3]
    assert np.array_equal(got['y'], once + once)
    return f'{a} times {b}, 512 points'


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-300:]
    return done.stdout + done.stderr


# What trn3 leaves to ops of floats: factors of 32 bits, a vector, sums that are no multiple of 128.
LEFT = """func @main(%a: f32[40,256], %b: f32[256,24], %c: bf16[40,128], %d: bf16[128,1], %e: f16[1,640], %f: f16[24,640], %g: bf16[2,96,40], %h: bf16[2,96,24])
    -> (f32[40,24], f32[40,1], f32[1,24], f32[2,40,24]) {
  %i = matmul(%a, %b) {mx = f8e4m3fn}
  %j = matmul(%c, %d) {to = f32, mx = f8e4m3fn}
  %k = matmul(%e, %f) {trans_b = 1, to = f32, mx = f8e5m2}
  %l = matmul(%g, %h) {trans_a = 1, to = f32, mx = f8e4m3fn}
  return(%i, %j, %k, %l)
}
"""


def check_left(directory, stored, target):
    text, path = os.path.join(directory, 'left.tcir'), os.path.join(directory, 'left')
    with open(text, 'w') as f:
        f.write(LEFT)
    return f'4 products by {target}, in floats: {from_interpreter(directory, text, path, 4, [f"--target={target}"]):.1e} from the interpreter'


def from_interpreter(directory, text, path, n, options):
    tool('tccc', *options, text, '-o', path + '.so')
    results = []
    for what, run_of in (('got', path + '.so'), ('want', text)):
        to = f'{path}_{what}'
        tool('tccc-run', run_of, '--random', '--output-dir', to)
        results.append([np.load(os.path.join(to, f'output_{k}.npy')) for k in range(n)])
    worst = max(abs(got - want).max() / abs(want).max() for got, want in zip(*results))
    assert worst < 1e-6, worst
    return worst


def check_network(directory, stored, target):
    text, path = os.path.join(HERE, 'mx.tcir'), os.path.join(directory, 'mx')
    options = [f'--target={target}'] if target else []
    if target:
        program = tool('tccc', *options, '--dump-ir=neuron', text, '-o', path + '.so')
        assert ' matmul_mx ' in program and ' matmul ' not in program and ' load_stationary ' not in program
    worst = from_interpreter(directory, text, path, 10, options)
    return f'10 products by {target or "the CPU"}: {worst:.1e} from the interpreter'


def check_refused(directory, stored, target):
    done = subprocess.run(['tccc', f'--target={target}', os.path.join(HERE, 'mx.tcir'), '-o', os.path.join(directory, 'no.so')], capture_output=True, text=True)
    assert done.returncode == 1 and 'multiplies no MX formats (--auto-cast=mxfp8); trn3 does' in done.stderr, done.stderr
    return f'{target} has no MX formats, and says so'


def check_training(directory, stored):
    """Three products of a layer, each along its own sum: a small GPT's losses."""
    model, path = os.path.join(directory, 'gpt.onnx'), os.path.join(directory, 'step')
    tool(sys.executable, os.path.join(HERE, '../../samples/gpt/model.py'), model, '--layers', '1', '--width', '128', '--heads', '4', '--length', '32', '--words', '128')
    ids = np.random.default_rng(3).integers(0, 128, (16, 33))
    np.savez(os.path.join(directory, 'set.npz'), ids=ids[:, :32], target=ids[:, 1:])
    losses = {}
    for name, options in (('float32', []), ('CPU', ['--auto-cast=mxfp8']), ('trn3', ['--auto-cast=mxfp8', '--target=neuron:trn3'])):
        tool('tccc', '--train', '--loss=cross_entropy', '--optimizer=adamw:lr=3e-3', '--dim', 'N=4', *options, model, '-o', path + '.so')
        lines = tool('tccc-train', path + '.so', '--data', os.path.join(directory, 'set.npz'), '--batch-size', '4', '--steps', '4', '--json')
        losses[name] = np.array([json.loads(x)['loss'] for x in lines.splitlines() if '"loss"' in x])
    same, away = abs(losses['trn3'] - losses['CPU']).max(), abs(losses['CPU'] - losses['float32']).max()
    assert len(losses['trn3']) == 4 and same < 3e-3 and 1e-5 < away < 5e-2, losses
    return f"four steps of a small GPT: trn3's losses {same:.1e} from the CPU's, these {away:.1e} from float32's"


def main():
    if sys.argv[1] == '--store':
        return store()
    stored = np.load(STORED)
    checks = [(check_quantising, n, margin) for n in ('f8e4m3', 'f8e5m2') for margin in (0, 1)]
    checks += [(check_product, a, b) for a in LARGEST for b in LARGEST]
    checks += [(check_network, ''), (check_network, 'neuron:trn3'), (check_left, 'neuron:trn3'), (check_refused, 'neuron:trn1'), (check_refused, 'neuron:trn2'), (check_training,)]
    for n, (check, *args) in enumerate(checks):
        try:
            print(f'ok {n + 1} - {check(sys.argv[1], stored, *args)}')
        except AssertionError as e:
            print(f'not ok {n + 1} - {check.__name__} {args}: {e}'.replace('\n', ' '))
    print(f'1..{len(checks)}')


main()
