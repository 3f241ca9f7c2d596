# Environment variables: each with a value that is not known, in every tool: exit status 2, and the variable is named. Warnings of a
# compilation are given again when the artifact comes from the cache.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$tmp" || fail "no folder"
: >file

# wrong VARIABLE VALUE
wrong() {
    for tool in tccc tccc-opt tccc-run tccc-bench tccc-train tccc-ckpt tccc-quantize tccc-plan tccc-ptxsim tccc-neuron; do
        expect_status 2 env "$1=$2" $tool --version
        grep -q "^error: " err && grep -q "^\(error\|note\): .*$1" err || fail "$tool with $1=$2: $(cat err)"
        expect_status 0 env "$1=" $tool --version
    done
}
wrong TCCC_FLAGS --bogus
wrong TCCC_CACHE_DIR "$tmp/file"
wrong TCCC_LIBDIR "$tmp/none"
wrong TCCC_MAX_CPU x86-64-v9
wrong TCCC_TRACE report,egaer
for seconds in 10s 0 -1 nan; do
    wrong TCCC_COMM_TIMEOUT $seconds
done
expect_status 0 env TCCC_TRACE=report,eager TCCC_COMM_TIMEOUT=2.5 TCCC_CACHE_DIR=new tccc --version

# Every variable that is read stands in a table, and so in the document that is made of them: in files that read any, all names in capitals that are not
# something else's.
(cd "$top_srcdir" && grep -rlE '\<(getenv|tccrt_env_[a-z]*|env_number)\(|\<environ\>' --include='*.c' --include='*.py' base runtime sim ir passes compiler tools | grep -v '^tools/python/wheel.py$' |
    xargs grep -ohE '"([A-Z][A-Z0-9_]{3,}|OMPI_MCA_[a-z_]+)"') | tr -d '"' | grep -vxE 'MPICH|MVAPICH|MPI_|NCCL|NULL|TCCC|NEURON_RT_|LOG_LEVEL|FILE' | sort -u >"$tmp/read"
[ "$(wc -l <"$tmp/read")" -gt 60 ] || fail "few variables are read: $(cat "$tmp/read")"
while read -r name; do
    grep -qE "^(ENV|THEIRS)\($name," "$top_srcdir/base/env.def" || grep -q "^VARIABLE($name," "$top_srcdir/tools/neuron/env.def" || fail "$name is in no table"
    grep -q "\`$name\`" "$top_srcdir/doc/environment.md" || fail "$name is not in doc/environment.md"
done <"$tmp/read"
sed -nE 's/^(ENV|THEIRS)\(([A-Za-z0-9_]*),.*/\2/p' "$top_srcdir/base/env.def" | while read -r name; do
    (cd "$top_srcdir" && grep -rqE "\"$name\"" --include='*.c' --include='*.h' --include='*.py' base runtime sim compiler tools) || fail "nothing reads $name"
done || exit 1

# Where temporary files go is asked in one place.
(cd "$top_srcdir" && grep -rlE 'getenv\("TMPDIR"|"/tmp' --include='*.c' base runtime sim ir passes compiler tools) >"$tmp/places"
[ "$(cat "$tmp/places")" = base/scratch.c ] || fail "TMPDIR or /tmp, in other places than base/scratch.c: $(cat "$tmp/places")"

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

# What is reported while compiling is reported again: with --report, and what else stands beside the artifact, the cache is not read.
digits=$top_srcdir/samples/digits/digits.onnx
for flags in --report "--report --train --loss=cross_entropy" \
    "--train --loss=cross_entropy --partitions=2 --microbatches=3 --partition-report --pipeline-chart=chart.svg"; do
    rm -rf kept
    for turn in 1 2; do
        rm -f chart.svg
        tccc --cache-dir=kept $flags "$digits" -o one.so >report.$turn 2>&1 || fail "$flags: $(cat report.$turn)"
        case $flags in *chart*) [ -s chart.svg ] || fail "$flags: no chart" ;; esac
    done
    [ -s report.1 ] || fail "$flags prints nothing"
    cmp report.1 report.2 || fail "$flags, again: $(diff report.1 report.2)"
    [ "$(find kept -type f | wc -l)" -eq 1 ] || fail "$flags: entries: $(ls kept)"
done

# Code for less than what this processor has, and none.
tccc --march=x86-64-v2,x86-64-v3 dead.tcir -o two.so 2>err || fail "$(cat err)"
expect_status 0 env TCCC_MAX_CPU=x86-64-v2 tccc-run two.so --random
tccc --march=x86-64-v3 dead.tcir -o v3.so 2>err || fail "$(cat err)"
expect_status 3 env TCCC_MAX_CPU=x86-64-v2 tccc-run v3.so --random
grep -q 'no code for x86-64-v2 or less, which TCCC_MAX_CPU asks for' err || fail "TCCC_MAX_CPU: $(cat err)"
