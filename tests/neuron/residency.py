"""usage: residency.py DUMP [ENTRY]: what it could bring if whole tensors stayed in SBUF between launches, and how near the launches of an entry are to their bounds.

DUMP is what `tccc --target=neuron:trn1 --dump-ir=plan --dump-ir=neuron MODEL -o MODEL.so` prints. Each program is timed by `tccc-neuron run --sim=time --counters`. A tensor of
the arena may stay from one use to the next where it and those that stay meanwhile fit in SBUF beside what each program between uses of it ("as is"), or half of SBUF at most
("half", as if programs needed no more than that): the read at the end is saved, and the write if all reads are. Those come first that save most for the room and the launches they take. A launch then takes as long
as its busiest engine, or what is left of its DMA, and whatever neither accounted for before. Layouts are taken to fit, which is too good: a product wants terms on partitions."""
import collections
import math
import re
import subprocess
import sys
import tempfile

SIZE = {'u8': 1, 'i8': 1, 'u16': 2, 'i16': 2, 'bf16': 2, 'f16': 2, 'f32': 4, 'i32': 4, 'u32': 4, 'f8e5m2': 1}
LEAST_ROW, PARTITIONS = 512, 128
RATE = {'trn1': 16 * 17e3, 'trn2': 16 * 23e3}            # bytes a us of the DMA engines
SBUF = {'trn1': 192 << 10, 'trn2': 224 << 10}            # bytes of a partition


class Operand:
    """Elements, those of a contiguous run, bytes of each; the end in a partition."""
    def __init__(self, word, types):
        place, inside = re.fullmatch(r'([\w.]+)\[(.*)\]', word).groups()
        self.space, _, kind = place.partition('.')
        self.bytes = SIZE[kind or types[self.space]]
        parts = inside.split(', ')
        self.n = self.run = 1
        if self.space in ('sbuf', 'psum'):
            lo, hi = parts.pop(0).split(':')
            self.n = int(hi) - int(lo)
        start, after, last, together = int(parts[0].split('+')[0]), 1, 0, True
        for part in reversed(parts[1:]):
            size, _, stride = part.partition('@')
            size, stride = int(size), int(stride or after)
            together = together and (size == 1 or stride == self.run)
            self.run *= size if together else 1
            after, last = size * stride, last + (size - 1) * abs(stride)
            self.n *= size
        self.end = start + (last + 1) * self.bytes


class Program:
    """Bytes that DMA pays for, read and written by argument; SBUF in use; modelled time and its busiest engine's."""
    def __init__(self, lines):
        self.read, self.written, self.sbuf = collections.Counter(), collections.Counter(), 0
        types = dict(re.findall(r'^tensor (\w+) \w+ (\w+)', '\n'.join(lines), re.M))
        for line in lines:
            o = [Operand(w, types) for w in re.findall(r'[\w.]+\[[^\]]*\]', line)] if line.startswith('    ') else []
            self.sbuf = max([self.sbuf] + [x.end for x in o if x.space == 'sbuf'])
            if line.startswith('    dma'):
                wide = max(x.bytes for x in o[:2])
                run = math.gcd(*(x.run for x in o[:2])) if 'dma_' not in line else next(x for x in o if x.space == 'sbuf').run
                n = next(x for x in o if x.space == 'sbuf').n if 'dma_' in line else o[0].n
                for k, x in enumerate(o[:2]):
                    if x.space != 'sbuf':
                        (self.read if k else self.written)[x.space] += max(LEAST_ROW, run * wide) * (n // run)
        with tempfile.NamedTemporaryFile('w', suffix='.neuron') as file:
            file.write('\n'.join(lines) + '\n')
            file.flush()
            said = subprocess.run(['tccc-neuron', 'run', file.name, '--sim=time', '--counters'], check=True, capture_output=True, text=True).stdout
        self.us = float(re.search(r'modelled on \w+: ([0-9.]+) us', said).group(1))
        self.busy = max(float(share) for engine, share in re.findall(r'^  (\w+) .*busy ([0-9.]+) %', said, re.M) if engine != 'dma') * self.us / 100


def read_dump(path, entry):
    kinds, launches, programs, core, on, current = {}, [], {}, '', False, None
    for line in open(path):
        line = line.rstrip('\n')
        if m := re.match(r'buffer (\d+) (\w+) .* bytes (\d+)', line):
            kinds[m[1]] = (m[2], int(m[3]))
        elif m := re.match(r'entry "(\w+)"', line):
            on = entry in (None, m[1])
        elif m := re.match(r'\s+launch @(\S+) \(([^)]*)\)', line):
            launches += [(m[1], m[2].split(', '))] if on else []
        elif m := re.match(r'# kernel (\S+?)(:.*)?$', line):
            current = None if m[2] else programs.setdefault(m[1], [])
        elif current is not None:
            current.append(line)
            core = line.split()[1] if line.startswith('core ') else core
    return kinds, launches, programs, core


def main():
    kinds, launches, texts, core = read_dump(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    rate, sbuf = RATE[core], SBUF[core]
    made = {name: Program(lines) for name, lines in texts.items() if any(name == l[0] for l in launches)}
    launches = [(made[name], args) for name, args in launches if name in made]
    uses, moved = collections.defaultdict(list), collections.Counter()
    for i, (p, args) in enumerate(launches):
        for k, buffer in enumerate(args):
            for what, paid in (('read', p.read[f'a{k}']), ('write', p.written[f'a{k}'])):
                moved[kinds[buffer][0], what] += paid
                if paid:
                    uses[buffer].append((i, what, paid))
        moved['temporary', 'both'] += sum(n for at in (p.read, p.written) for name, n in at.items() if name[0] != 'a' or int(name[1:] or 0) >= len(args))
    dma = [(sum(p.read.values()) + sum(p.written.values())) / rate for p, _ in launches]
    total = sum(p.us for p, _ in launches)
    print(f'launches {len(launches)}, {total / 1e3:.3f} ms; {sum(moved.values())} bytes paid, {sum(dma) / 1e3:.3f} ms of DMA')
    for (kind, what), paid in moved.most_common():
        if paid:
            print(f'  {kind} {what}: {paid / rate / 1e3:.3f} ms')
    slack = [p.us - max(p.busy, min(d, p.us)) for (p, _), d in zip(launches, dma)]
    print(f'neither DMA nor the busiest engine of a launch is at work: {sum(slack) / 1e3:.3f} ms')
    for how, most in (('as is', sbuf), ('half', sbuf // 2)):
        room = [sbuf - min(p.sbuf, most) for p, _ in launches]
        gain, spans = [0] * len(launches), []
        left = {}
        for buffer, list_ in uses.items():
            at = sorted({u[0] for u in list_})
            if kinds[buffer][0] != 'arena' or not any(u[1] == 'write' for u in list_):
                continue
            for first, last in zip(at, at[1:]):
                saves = sum(u[2] for u in list_ if u[0] == last and u[1] == 'read')
                spans += [(saves / (kinds[buffer][1] * (last - first)), buffer, first, last, saves)] if saves else []
            left[buffer] = sum(1 for s in spans if s[1] == buffer)
        for _, buffer, first, last, saves in sorted(spans, reverse=True):
            need = -(-kinds[buffer][1] // PARTITIONS)
            if min(room[first:last + 1]) < need:
                continue
            for i in range(first, last):
                room[i] -= need
            gain[last] += saves
            left[buffer] -= 1
            for i, what, paid in uses[buffer] if not left[buffer] else []:
                gain[i] += paid if what == 'write' else 0
        after = sum(s + max(p.busy, min(d, p.us) - g / rate) for (p, _), d, s, g in zip(launches, dma, slack, gain))
        print(f'resident, {how}: {sum(gain) / rate / 1e3:.3f} ms of DMA saved, {total / 1e3:.3f} to {after / 1e3:.3f} ms')


if __name__ == '__main__':
    main()
