"""usage: limit.py PROGRAM.neuron TIME_US: the least time that a program's busiest resource needs, by the costs of doc/neuron.md, which are written down here a second time.

Prints how long each resource is busy (us) and, last, NAME SHARE: the busiest and its share of TIME_US in percent. Resources are the engines, memory that engines of trn1 may
not use at once (Vector and GpSimd: SBUF; Vector and Scalar: PSUM), and DMA: bytes of rows, at least 512 each, by 16 engines."""
import re
import sys

text = open(sys.argv[1]).read()
core = re.search(r'^core (\w+)', text, re.M).group(1)
clock = {'trn1': {'tensor': 2.8, 'scalar': 1.4, 'gpsimd': 1.4, 'vector': 1.12}, 'trn2': {'tensor': 2.4, 'scalar': 1.2, 'gpsimd': 1.2, 'vector': 0.96}}[core]
rate = {'trn1': 17.0, 'trn2': 23.0}[core]
size = {'u8': 1, 'i8': 1, 'u16': 2, 'i16': 2, 'bf16': 2, 'f16': 2, 'f32': 4, 'i32': 4, 'u32': 4, 'f8e5m2': 1}
types = dict(re.findall(r'^tensor (\w+) \w+ (\w+)', text, re.M))


class Operand:
    def __init__(self, word):
        place, inside = re.fullmatch(r'([\w.]+)\[(.*)\]', word).groups()
        self.space, _, self.type = place.partition('.')
        self.type = self.type or types[self.space]
        parts = inside.split(', ')
        self.parts = 1
        if self.space in ('sbuf', 'psum'):
            lo, hi = parts.pop(0).split(':')
            self.parts = int(hi) - int(lo)
        dims = [(d + '@').split('@')[:2] for d in parts[1:]]
        sizes = [int(d[0]) for d in dims]
        strides = [0] * len(dims)
        after = 1
        for k in reversed(range(len(dims))):
            strides[k] = int(dims[k][1]) if dims[k][1] else after
            after = strides[k] * sizes[k]
        self.n = 1
        self.run = 1
        for k in reversed(range(len(dims))):
            if self.run == self.n and (sizes[k] == 1 or strides[k] == self.run):
                self.run *= sizes[k]
            self.n *= sizes[k]
        steps = [s for n, s in zip(sizes, strides) if n > 1]
        self.far = bool(steps) and abs(steps[-1]) * size[self.type] >= 16
        self.bytes = size[self.type]


def cycles(engine, op, o, words, columns, stationary):
    near = [x for x in o if x.space in ('sbuf', 'psum')]
    n = max(x.n for x in near[1:] or near) * (2 if any(x.far for x in near) else 1)
    two = 2 if core == 'trn2' and all(x.bytes == 2 for x in o[:2]) else 1
    fast = 4 if two == 2 and all(x.space == 'sbuf' and x.run == x.n for x in o[:2]) else two
    psum = any(x.space == 'psum' for x in o[1:])
    if op == 'load_stationary':
        return 0                                    # behind the products
    if op == 'matmul':
        return (4 if 'f32' in (o[1].type, stationary) else 1) * max(o[1].n, min(64, columns))
    if op == 'pe_transpose':
        return (4 if o[1].type == 'f32' else 1) * max(o[1].parts, min(64, o[1].n))
    if op in ('nop', 'dma'):
        return 0
    if op in ('iota', 'affine_select'):
        return 150 + n
    if engine == 'gpsimd' and op == 'tensor_tensor':
        return 150 + 2 * n
    if op == 'tensor_tensor':
        short = all(x.type == 'bf16' for x in o) and re.search('op0=(add|sub|mul)', words)
        return max(64, n if psum or short else 2 * n)
    if op == 'scalar_tensor_tensor':
        return max(64, 2 * n)
    if op == 'tensor_copy_predicated':
        return max(64, n if psum else 2 * n)
    if op == 'reciprocal':
        return max(64, 8 * n)
    if op == 'tensor_reduce' and o[0].type == o[1].type == 'bf16':
        return max(64, n / 2)
    if op in ('tensor_copy', 'tensor_scalar') and engine == 'vector':
        return max(64, n / fast)
    return max(64, n)


busy = dict.fromkeys(clock, 0.0) | {'sbuf': 0.0, 'psum': 0.0, 'dma': 0.0}
columns, stationary, engine = 0, '', ''
held = {}                                           # by registers that loops count by
turns = [1]                                         # of the loops that a line is in, all together
for line in text.splitlines():
    if line.startswith('engine '):
        engine = line.split()[1]
    if not line.startswith('    '):
        continue
    op, _, rest = line.strip().partition(' ')
    if op == 'set':
        register, number = rest.split(', ')[:2]
        held[register] = number
    elif op == 'loop':
        count = rest.split()[0]
        turns.append(turns[-1] * int(held.get(count, count)))
    elif op == '}':
        turns.pop()
    o = [Operand(w) for w in re.findall(r'[\w.]+\[[^\]]*\]', rest)]
    if op == 'load_stationary':
        columns, stationary = o[0].n, o[0].type
    if op == 'dma':
        run = min(x.run for x in o)
        busy['dma'] += turns[-1] * max(x.n * x.parts for x in o) / run * max(512, run * max(x.bytes for x in o)) / rate / 16 / 1000
    if engine not in clock or not o:
        continue
    us = turns[-1] * cycles(engine, op, o, rest, columns, stationary) / clock[engine] / 1000
    busy[engine] += us
    spaces = {x.space for x in o} if op != 'dma' else set()
    if core == 'trn1' and engine in ('vector', 'gpsimd') and 'sbuf' in spaces:
        busy['sbuf'] += us
    if core == 'trn1' and engine in ('vector', 'scalar') and 'psum' in spaces:
        busy['psum'] += us
for name, us in busy.items():
    print(f'{name} {us:.1f} us')
most = max(busy, key=busy.get)
print(f'{most} {100 * busy[most] / float(sys.argv[2]):.1f}')
