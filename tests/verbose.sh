# What -v tells, and what --report and the benchmark say of a model whose batch is a symbol.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
cd "$tmp" || exit 1
digits=$top_srcdir/samples/digits/digits.onnx

# has PATTERN: it is in what the last command wrote to standard error.
has() {
    grep -q -e "$1" "$tmp/err" || { cat "$tmp/err"; fail "not told: $1"; }
}

expect_status 0 env TCCC_FLAGS='-O1 --tokens=5' tccc -v "$digits" --march=x86-64-v2 -o d.so
has '^note: tccc (tccc) [0-9]'
has '^note: TCCC_FLAGS adds: -O1 --tokens=5$'
has '^note: options: --output=d.so -O1 --march=x86-64-v2 --verbose$'
has '^note: LLVM [0-9.]*, code for x86-64-v2, vectors of 16 bytes$'
[ "$(grep -c '^note: LLVM' "$tmp/err")" -eq 1 ] || fail "LLVM is told of twice"
has '^canonicalise  *[0-9.]* '
has '^note: kernel .*: conv, N \* [0-9]* operations$'
has '^note: link: .*-shared'
has '^linking  *[0-9.]*$'
expect_status 0 tccc "$digits" -o d.so
[ ! -s "$tmp/err" ] || fail "notes without -v"

expect_status 0 tccc --report "$digits" -o d.so
has "^memory of 'main': placed when it runs, by sizes"
has '^symbolic .*: steps [0-9]* to [0-9]*, N \* [0-9]* bytes, placed when it runs$'
expect_status 0 tccc --report --dim N=2 "$digits" -o two.so
has "^memory of 'main': [0-9]* bytes, [0-9]* of them live at once$"

# Operations are counted at the run's sizes.
expect_status 0 tccc-run d.so --random --profile=one.json
awk '$NF == "run)" && $0 ~ /all steps/ { exit !($4 > 0) }' "$tmp/err" || fail "no operations are counted"
# The peak is that of the vectors that the artifact's code may use.
peak() {
    expect_status 0 tccc -q --march="$1" "$digits" -o peak.so
    expect_status 0 tccc-run peak.so --random --profile
    has "^mean of [0-9]* runs; peak: [1-9][0-9.]* GFLOP/s, $2-bit vectors\$"
}
peak x86-64-v2 128
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    peak x86-64-v3 256
fi
expect_status 0 tccc-bench --runs=3 --json d.so
grep -q '"gflops":0\.000' "$tmp/out" && fail "GFLOP/s of a symbolic model is 0"
exit 0
