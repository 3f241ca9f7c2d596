# The samples that train on what people have: a folder of pictures, a network that has learned them and learns others, a table, text. Each learns what it should.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
PYTHON=$TEST_PYTHON
export TCCC_LIBDIR PYTHON
samples=$top_srcdir/samples
needs numpy onnx
cd "$tmp" || exit 99

# best NAME: the largest value among the evaluations in $tmp/out.
best() {
    sed -n "s/.*\"eval_$1\":\([0-9.e+-]*\).*/\1/p" out | sort -g | tail -n 1
}
# above NAME LEAST: it is that large at least once.
above() {
    awk -v a="$(best "$1")" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 > b + 0) }' || fail "$1 is $(best "$1"), not above $2"
    echo "$1: $(best "$1")"
}

expect_status 0 sh "$samples/images/run.sh" images
above accuracy 0.9
grep -q '"eval_f1":.*"eval_confusion":\[\[' out || fail "no confusion matrix"
expect_status 0 sh "$samples/finetune/run.sh" finetune images/trained.onnx
above auc 0.95
expect_status 0 sh "$samples/table/run.sh" table
above r2 0.9
[ -s table/rents.npz ] || fail "no predictions"
WIDTH=64 expect_status 0 sh "$samples/text/run.sh" text 60
above top5 0.3
grep -q '"eval_perplexity":' out || fail "no perplexity"
