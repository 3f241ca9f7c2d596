# SPDX-License-Identifier: Apache-2.0
# What starting a tool loads: LLVM, which takes longer than all else, only where something is compiled; and what is said where it can't be.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"

# loads YES|NO COMMAND...: whether the command, which succeeds, loads LLVM.
loads() {
    expected=$1
    shift
    LD_DEBUG=files LD_DEBUG_OUTPUT="$tmp/loads" expect_status 0 "$@"
    loaded=no
    ! cat "$tmp"/loads.* | grep -q 'libLLVM.*dynamic' || loaded=yes
    rm -f "$tmp"/loads.*
    [ "$loaded" = "$expected" ] || fail "LLVM is loaded ($loaded, not $expected): $*"
}

model=$top_srcdir/samples/digits/digits.onnx
loads yes tccc "$model" -o "$tmp/digits.so"
loads yes tccc "$model" --march=x86-64-v2 -o "$tmp/digits2.so"
loads yes tccc-run "$model" --random
loads no tccc-run "$tmp/digits.so" --random
loads no tccc-run "$model" --interpret --random
loads no tccc-bench "$tmp/digits.so" --runs=1
loads no tccc --info "$model"

# A suite, whose cases are processes, once for all of them.
mkdir "$tmp/suite" && for case in a b c; do
    mkdir "$tmp/suite/$case" && cp "$model" "$tmp/suite/$case/model.onnx"
done
for flags in '-j 1' '-j 2' '--interpret'; do
    # shellcheck disable=SC2086  # words
    LD_DEBUG=files LD_DEBUG_OUTPUT="$tmp/loads" tccc-run --test-suite "$tmp/suite" $flags >"$tmp/out" 2>&1
    [ "$(grep -c '^[abc]: ' "$tmp/out")" -eq 3 ] || fail "no suite: $(cat "$tmp/out")"
    case $flags in --interpret) times=0 ;; *) times=1 ;; esac
    [ "$(cat "$tmp"/loads.* | grep -c 'libLLVM.*dynamically loaded by')" -eq $times ] || fail "a suite's cases load LLVM, not $times times: $flags"
    rm -f "$tmp"/loads.*
done
for tool in tccc tccc-run tccc-bench tccc-train tccc-ckpt tccc-quantize tccc-plan tccc-opt; do
    loads no $tool --version
done

# A library of that name without the functions.
name=$(LD_DEBUG=files tccc "$model" -o "$tmp/digits.so" 2>&1 | sed -n 's/.*file=\(libLLVM[^ ]*\) .*dynamic.*/\1/p' | head -n 1)
[ -n "$name" ] || fail "no name"
echo 'int nothing;' >"$tmp/nothing.c"
$CC -shared -fPIC "$tmp/nothing.c" -o "$tmp/$name" || fail "no library"
expect_status 3 env LD_LIBRARY_PATH="$tmp" tccc "$model" -o "$tmp/none.so"
grep -q "^error: LLVM cannot be loaded: .*$name: undefined symbol: LLVM" "$tmp/err" || fail "$(cat "$tmp/err")"
[ ! -e "$tmp/none.so" ] || fail "something was written"
