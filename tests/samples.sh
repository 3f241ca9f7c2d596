# Every sample builds and runs, and the trained network knows its digits: the label of each picture file, and at least
# 97 % of the held-out images, at -O0 and at the default level.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
samples=$top_srcdir/samples
digits=$samples/digits
runtime=$top_builddir/libtccrt.a
[ -f "$top_builddir/libtccrt_instrumented.a" ] && runtime=$top_builddir/libtccrt_instrumented.a

# build NAME FILE...: compile samples/NAME/NAME.c with FILEs and the runtime.
build() {
    name=$1
    shift
    # shellcheck disable=SC2086  # INSTRUMENT holds flags
    $CC -std=gnu17 -Wall -Wextra -Werror -O2 ${INSTRUMENT:-} -I"$top_srcdir/runtime" -I"$tmp" "$samples/$name/$name.c" "$@" \
        "$runtime" -lm -lpthread -ldl -o "$tmp/$name" || fail "samples/$name does not build"
}

expect_status 0 tccc "$digits/digits.onnx" -o "$tmp/digits.so"
expect_status 0 tccc -O0 "$digits/digits.onnx" -o "$tmp/digits0.so"

build image
for model in digits digits0; do
    for d in 0 1 2 3 4 5 6 7 8 9; do
        expect_status 0 "$tmp/image" "$tmp/$model.so" "$digits/digit-$d.pgm"
        grep -q "^label: $d (" "$tmp/out" || fail "$model, digit-$d.pgm: $(cat "$tmp/out")"
        grep -q '^latency: [0-9.]* ms' "$tmp/out" || fail "no latency: $(cat "$tmp/out")"
    done
    expect_status 0 "$tmp/image" "$tmp/$model.so" --idx "$digits/pictures.idx3-ubyte" "$digits/labels.idx1-ubyte"
    right=$(sed -n 's/^accuracy: \([0-9]*\) of 500 .*/\1/p' "$tmp/out")
    [ "${right:-0}" -ge 485 ] || fail "$model: $(cat "$tmp/out")"
done
printf 'P5\n2 2\n255\nab' >"$tmp/short.pgm"
expect_status 1 "$tmp/image" "$tmp/digits.so" "$tmp/short.pgm"
expect_status 1 "$tmp/image" "$tmp/none.so" "$digits/digit-1.pgm"

build dlopen
expect_status 0 "$tmp/dlopen" "$tmp/digits.so"
grep -q '^entry main$' "$tmp/out" || fail "$(cat "$tmp/out")"
grep -q '^  input picture: f32 \[N, 1, 28, 28\]$' "$tmp/out" || fail "$(cat "$tmp/out")"
grep -q '^  output probabilities: f32 \[N, 10\]$' "$tmp/out" || fail "$(cat "$tmp/out")"
grep -q '^probabilities = [0-9]' "$tmp/out" || fail "$(cat "$tmp/out")"

expect_status 0 tccc "$digits/digits.onnx" -o "$tmp/digits.a" -H "$tmp/digits.h"
expect_status 0 tccc --name=again -O1 "$digits/digits.onnx" -o "$tmp/again.a"
build two-models "$tmp/digits.a" "$tmp/again.a"
expect_status 0 "$tmp/two-models"
grep -q 'all answers equal' "$tmp/out" || fail "$(cat "$tmp/out")"

build embed "$tmp/digits.a"
expect_status 0 "$tmp/embed" "$digits/digit-4.pgm"
grep -q '^label: 4$' "$tmp/out" || fail "$(cat "$tmp/out")"

# Clusters to plan for.
for cluster in "$top_srcdir"/samples/clusters/*.cluster; do
    expect_status 0 tccc-plan --loss=mse "$top_srcdir/tests/cli/data/deep.tcir" --cluster="$cluster" --batch-size=4096 --top=1
    grep -q 'mpirun -np' "$tmp/out" || fail "no layout of several ranks for $cluster"
done
