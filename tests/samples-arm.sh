# samples/arm: the digits network inside a program and a training step, for Arm in the emulator: the label is right, the loss falls and is this
# machine's, and tccc-ckpt here reads the checkpoint.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
. "$top_srcdir/tests/arm/setup.sh"
samples=$top_srcdir/samples
TCCC_RUNTIME=$top_builddir/$triplet/libtccrt.a
export TCCC_RUNTIME
sh "$samples/arm/run.sh" "$tmp/arm" >out 2>err || fail "$(cat out err)"
grep -q '^label: 4$' out || fail "$(cat out)"
grep '^epoch' out >arm.out
tccc -q --march=x86-64-v2 --train --loss=cross_entropy --optimizer=adam:lr=1e-3 "$samples/digits/digits.onnx" -o step.so
$CC -std=gnu17 -O2 -I"$top_srcdir" "$samples/arm/learn.c" "$top_builddir/libtccrt.a" -lm -lpthread -ldl -o learn || fail "samples/arm/learn.c does not build"
./learn ./step.so "$samples/digits" 3 here.safetensors >here.out || fail "$(cat here.out)"
paste -d ' ' arm.out here.out | awk '
    { d = $4 - $8; if (d < 0) d = -d; if ($3 != "loss" || d > 1e-5) bad = 1; if (NR == 1) first = $4; last = $4 }
    END { exit NR != 3 || bad || last >= first }' || fail "$(paste arm.out here.out)"
tccc-ckpt list arm/learned.safetensors >list || fail "$(cat list)"
grep -q 'tccc.runs: 30$' list || fail "$(cat list)"
