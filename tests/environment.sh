# Environment variables: each with a value that is not known, in every tool: exit status 2, and the variable is named. Warnings of a
# compilation are given again when the artifact comes from the cache.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$tmp" || fail "no folder"
: >file

# wrong VARIABLE VALUE
wrong() {
    for tool in tccc tccc-opt tccc-run tccc-bench tccc-train tccc-ckpt tccc-plan tccc-ptxsim tccc-neuron; do
        expect_status 2 env "$1=$2" $tool --version
        grep -q "^error: " err && grep -q "^\(error\|note\): .*$1" err || fail "$tool with $1=$2: $(cat err)"
        expect_status 0 env "$1=" $tool --version
    done
}
wrong TCCC_FLAGS --bogus
wrong TCCC_CACHE_DIR "$tmp/file"
wrong TCCC_LIBDIR "$tmp/none"
wrong TCCC_TRACE report,egaer
for seconds in 10s 0 -1 nan; do
    wrong TCCC_COMM_TIMEOUT $seconds
done
expect_status 0 env TCCC_TRACE=report,eager TCCC_COMM_TIMEOUT=2.5 TCCC_CACHE_DIR=new tccc --version

# Every variable of ours that the sources read stands in the table, and is documented.
(cd "$top_srcdir" && grep -rhoE '(getenv|number|tccrt_env_[a-z]*)\("TCCC_[A-Z_]*"' runtime compiler tools) | grep -o 'TCCC_[A-Z_]*' | sort -u | while read -r name; do
    grep -q "^ENV($name," "$top_srcdir/runtime/env.def" && grep -q "\`$name\`" "$top_srcdir/doc/environment.md" || fail "$name is in no table"
done || exit 1

# A parameter that the loss does not reach, the second time from the cache, under another name of the file.
cat >dead.tcir <<'END'
state @w: f32[4] param = f32[4] splat(0.5)
state @dead: f32[4] param = f32[4] splat(0.5)
func @main(%x: f32[8,4]) -> (f32[8,4]) {
  %w = state_read() {name = "w"} : f32[4]
  %y = mul(%x, %w) : f32[8,4]
  return(%y)
}
END
tccc --train --loss=mse --cache-dir=kept dead.tcir -o one.so 2>first || fail "dead.tcir: $(cat first)"
grep -q '^warning: .*dead' first || fail "no warning: $(cat first)"
mkdir other && cp dead.tcir other/dead.tcir
tccc --train --loss=mse --cache-dir=kept other/dead.tcir -o two.so 2>second || fail "$(cat second)"
sed 's|dead.tcir|other/dead.tcir|' first | cmp - second || fail "from the cache: $(cat second)"
[ "$(find kept -type f | wc -l)" -eq 1 ] || fail "more than one entry: $(ls kept)"
cmp one.so two.so || fail "the artifacts differ"
