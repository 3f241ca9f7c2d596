# tccc-neuron at the command line: values, results in files, time, traces, forms, messages and exit statuses; the library alone.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$tmp" || exit 99
cat >p.neuron <<'END'
core trn1
tensor x in f32 [2, 4]
tensor h temp bf16 [2, 4]
tensor y out f32 [2, 4]
tensor e out f8e4m3 [2, 4]
engine sync
    dma sbuf.f32[0:2, 0, 4], x[0, 2, 4] signal s0
    dma y[0, 2, 4], sbuf.f32[0:2, 64, 4] wait s1>=1
    dma e[0, 2, 4], sbuf.f32[0:2, 64, 4] queue=1
engine vector
    tensor_scalar sbuf.f32[0:2, 64, 4], sbuf.f32[0:2, 0, 4], 2, 1 op0=mul op1=add wait s0>=16 signal s1
END
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }" >x.npy
printf '\000\000\200\077\000\000\000\100\000\000\100\100\000\000\200\100\000\000\240\100\000\000\300\100\000\000\340\100\000\000\000\101' >>x.npy # 1 to 8

expect_status 0 tccc-neuron run p.neuron --input x=x.npy --output-dir results --counters
grep -q '^y: f32\[2,4\]: 3 5 7 9' out || fail "values: $(cat out)"
grep -q '^e: f32\[2,4\]: 3 5 7 9' out || fail "short floats: $(cat out)"
grep -q '^modelled on trn1: [0-9.]* us, [0-9]* ticks of 1/5.6 ns' out || fail "time: $(cat out)"
grep -q '^  vector  1 instructions, busy' out || fail "engines: $(cat out)"
grep -q '^  dma     3 transfers, 6 rows, 96 bytes, 3.1 %' out || fail "dma: $(cat out)"
cmp -s results/y.npy x.npy && fail "y.npy is x.npy"
[ "$(wc -c <results/y.npy)" -eq 160 ] || fail "y.npy"
expect_status 0 tccc-neuron run p.neuron --random=3 --seed 5
expect_status 0 tccc-neuron run p.neuron --sim=time --profile=trace.json
grep -q '"name":"tensor_scalar","ts":' trace.json || fail "trace: $(cat trace.json)"
grep -q '"name":"queue 1"' trace.json || fail "trace: $(cat trace.json)"
tail -1 trace.json | grep -q '^\]}$' || fail "trace ends: $(tail -1 trace.json)"

# The binary form runs too, and gives the text back.
expect_status 0 tccc-neuron asm p.neuron -o p.nbin
expect_status 0 tccc-neuron disasm p.nbin
cp out again.neuron
expect_status 0 tccc-neuron asm again.neuron -o again.nbin
cmp p.nbin again.nbin || fail "text -> binary -> text -> binary"
expect_status 0 tccc-neuron run p.nbin --input x=x.npy
grep -q '^y: f32\[2,4\]: 3 5 7 9' out || fail "binary: $(cat out)"
expect_status 0 tccc-neuron disasm p.nbin -o p2.neuron
cmp again.neuron p2.neuron || fail "disasm -o"

# A size that only the run knows: its value is asked for; what lies behind it is out of bounds.
cat >size.neuron <<'END'
core trn1
size N r31
tensor x in f32 [N*2, 4]
tensor y out f32 [N*2, 4]
engine sync
    set r1, 0
    loop r31 {
        dma sbuf.f32[0:2, 0, 4], x[0+r1, 2, 4] wait s1>=0+r2 signal s0
        reg_add r2, r2, 16
        dma y[0+r1, 2, 4], sbuf.f32[0:2, 0, 4] wait s0>=0+r2 signal s1
        reg_add r1, r1, 32
    }
END
expect_status 2 tccc-neuron run size.neuron --random
grep -q "no value for the size 'N' (--dim N=N)" err || fail "no size: $(cat err)"
expect_status 2 tccc-neuron run size.neuron --random --dim N=0
grep -q -e "--dim=N=0: expected NAME=N, a size of the program and a number above 0" err || fail "size 0: $(cat err)"
expect_status 0 tccc-neuron run size.neuron --input x=x.npy --dim N=1 --output-dir results
cmp results/y.npy x.npy || fail "one turn: $(cat out)"
expect_status 0 tccc-neuron run size.neuron --random --dim N=3
grep -q '^y: f32\[6,4\]' out || fail "three turns: $(cat out)"
for n in 1000 4000; do
    expect_status 0 tccc-neuron run size.neuron --sim=time --dim N=$n
    sed -n 's/^modelled.*, \([0-9]*\) ticks.*/\1/p' out >ticks.$n
done
[ "$(cat ticks.4000)" -gt $((3 * $(cat ticks.1000))) ] || fail "time by turns: $(cat ticks.*)"
sed 's/set r1, 0/set r1, 32/' size.neuron >beyond.neuron
expect_status 1 tccc-neuron run beyond.neuron --random --dim N=3
grep -q 'out-of-bounds: line 8: operand 2: r1 is 96: bytes 96 to 127 of 96' err || fail "beyond: $(cat err)"
# A place that a size says in a tensor of a known size: looked at when the run says it.
cat >place.neuron <<'END'
core trn1
size N r31
tensor x in f32 [2, 4]
tensor y out f32 [4]
engine sync
    dma sbuf.f32[0:1, 0, 4], x[0+16*N, 1, 4] signal s0
    dma y[0, 1, 4], sbuf.f32[0:1, 0, 4] wait s0>=16
END
expect_status 0 tccc-neuron run place.neuron --input x=x.npy --dim N=1
grep -q '^y: f32\[4\]: 5 6 7 8' out || fail "a size's place: $(cat out)"
expect_status 1 tccc-neuron run place.neuron --input x=x.npy --dim N=2
grep -q 'out-of-bounds: line 6: operand 2: bytes 32 to 47 of 32' err || fail "a size's place beyond: $(cat err)"

# Rounding: by option, by variable.
sed -e 's/f32\[0:2, 64, 4\], sbuf.f32\[0:2, 0, 4\], 2, 1 op0=mul op1=add/bf16[0:2, 64, 4], sbuf.f32[0:2, 0, 4], 1.003 op0=mul/' -e 's/sbuf.f32\[0:2, 64, 4\]/sbuf.bf16[0:2, 64, 4]/' p.neuron >round.neuron
expect_status 0 tccc-neuron run round.neuron --input x=x.npy
cp out nearest
expect_status 0 env NEURON_RT_STOCHASTIC_ROUNDING_EN=1 NEURON_RT_STOCHASTIC_ROUNDING_SEED=2 tccc-neuron run round.neuron --input x=x.npy
cp out variable
expect_status 0 env NEURON_RT_STOCHASTIC_ROUNDING_SEED=2 tccc-neuron run round.neuron --input x=x.npy --rounding=stochastic
cmp out variable || fail "option and variable differ"
cmp -s nearest variable && fail "nothing was rounded up"
expect_status 0 env NEURON_RT_STOCHASTIC_ROUNDING_EN=1 tccc-neuron run round.neuron --input x=x.npy --rounding=nearest
cmp out nearest || fail "the option does not win"

# A failed check: what, where, exit status 1.
sed 's/ wait s1>=1//' p.neuron >race.neuron
expect_status 1 tccc-neuron run race.neuron --input x=x.npy
grep -q '^error: race.neuron: race: line 1[0-2]: operand . \(reads\|writes\) what line' err || fail "race: $(cat err)"
expect_status 0 tccc-neuron run race.neuron --input x=x.npy --check=none

# message STATUS TEXT ARGUMENT...
message() {
    status=$1 text=$2
    shift 2
    expect_status "$status" tccc-neuron "$@"
    grep -q -e "$text" err || fail "tccc-neuron $*: $(cat err)"
}
message 2 'no command given'
message 2 "unknown command 'walk'" walk p.neuron
message 2 'no file given' run
message 2 'more than one file' run p.neuron p.neuron
message 1 "cannot open 'none.neuron'" run none.neuron
message 2 "no value for input 'x'" run p.neuron
message 2 'no tensor of that name' run p.neuron --input z=x.npy
message 2 'expected NAME=FILE' run p.neuron --input x
message 2 'expected full or time' run p.neuron --sim=half
message 2 'has no values' run p.neuron --sim=time --random
message 2 'expected all or none' run p.neuron --check=some
message 2 'expected nearest or stochastic' run p.neuron --rounding=up
message 2 'asm writes a file' asm p.neuron
sed 's/\[2, 4\]/[3, 4]/' p.neuron >three.neuron
message 1 'tensor x takes 12 of type f32' run three.neuron --input x=x.npy
sed 's/op0=mul/op0=mull/' p.neuron >bad.neuron
message 1 "^error: bad.neuron: line 11: unknown operation 'mull'" run bad.neuron --random
head -c 40 p.nbin >cut.nbin
message 1 '^error: cut.nbin: byte 40: the file ends here' run cut.nbin --random
printf 'tensor x in f32 [9000000000]\n' >large.neuron
message 3 'the HBM of a core has' run large.neuron --sim=time
expect_status 2 env NEURON_RT_STOCHASTIC_ROUNDING_EN=yes tccc-neuron run p.neuron --random
grep -q 'NEURON_RT_STOCHASTIC_ROUNDING_EN=yes: expected 0 or 1' err || fail "$(cat err)"
