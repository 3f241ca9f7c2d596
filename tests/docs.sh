# The documents that are made of tables are what the tables say. What
# doc/migrate.md offers (its commands, and the last column of its tables) exists: options, functions, variables, files.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"

for doc in passes ops onnx pt2 gradients environment; do
    "$top_builddir/mkdoc" $doc >"$tmp/$doc.md" || fail "mkdoc $doc"
    cmp "$tmp/$doc.md" "$top_srcdir/doc/$doc.md" || fail "doc/$doc.md is stale: run 'make update-docs'"
done
for tool in tccc tccc-run tccc-train tccc-ckpt tccc-quantize tccc-plan tccc-ptxsim tccc-neuron; do
    $tool --help=all || fail "$tool --help=all"
done >"$tmp/help"
sed -n -e '/^```sh/,/^```/p' -e 's/^|.*[^\\]| \(.*\) |$/\1/p' "$top_srcdir/doc/migrate.md" >"$tmp/offers"
[ "$(wc -l <"$tmp/offers")" -gt 90 ] || fail "doc/migrate.md has no tables"
# mpirun's, srun's and torchrun's own options
grep -o -e '--[a-z][a-z-]*' "$tmp/offers" | sort -u | grep -vx -e --hostfile -e --mpi -e --no-python -e --nnodes -e --nproc | while read -r option; do
    grep -q -e "[ ,]$option\([=, []\|\$\)" "$tmp/help" || fail "doc/migrate.md: there is no option $option"
done || exit 1
grep -o -e 'trace_[a-z_]*()' -e 'tccrt_[a-z_]*()' "$tmp/offers" | sort -u | while read -r function; do
    grep -q "[ *]${function%()}(" "$top_srcdir/compiler/trace.h" "$top_srcdir/runtime/tccrt.h" || fail "doc/migrate.md: there is no function $function"
done || exit 1
grep -o -e 'TCCC_[A-Z_]*' "$tmp/offers" | sort -u | while read -r variable; do
    grep -rq "\"$variable" "$top_srcdir/runtime" "$top_srcdir/compiler" "$top_srcdir/tools" || fail "doc/migrate.md: nothing reads $variable"
done || exit 1
grep -o -e '`samples/[a-z./-]*' -e '(\([a-z-]*\.md\))' "$top_srcdir/doc/migrate.md" | tr -d '`()' | while read -r file; do
    [ -e "$top_srcdir/$file" ] || [ -e "$top_srcdir/doc/$file" ] || fail "doc/migrate.md: there is no $file"
done || exit 1
# Figures that stand in files of the project: what README.md says is what those hold.
rows() { sed -e 's/#.*//' -e '/^ *$/d' "$top_srcdir/$1" | wc -l; }
thousands() { echo "$1" | sed 's/\([0-9]\)\([0-9][0-9][0-9]\)$/\1,\2/'; }
passes=$(rows tests/onnx/suite.list) wrong=$(rows tests/onnx/suite.wrong)
TCCC_LIBDIR=$top_builddir tccc -q --march=x86-64-v4 "$top_srcdir/samples/digits/digits.onnx" -o "$tmp/digits.so" || fail "the sample is not compiled"
megabytes=$(wc -c <"$tmp/digits.so" | awk '{ printf "%.1f", $1 / 1e6 }')
while IFS= read -r text; do
    grep -qF "$text" "$top_srcdir/README.md" || fail "README.md does not say '$text'"
done <<END
$(thousands $((passes + wrong))) cases | $(thousands "$passes") pass, $wrong listed with reasons |
END
[ -n "${INSTRUMENT:-}" ] || grep -qF "the runtime inside | $megabytes MB |" "$top_srcdir/README.md" || fail "README.md: the artifact of the digits sample has $megabytes MB"
grep -oE '[a-z]+ optimizers' "$top_srcdir/doc/status.md" | grep -qx "$(echo none one two three four five six seven eight nine ten | cut -d' ' -f$(($(grep -c '^OPTIMIZER(' "$top_srcdir/passes/train/optim.def") + 1))) optimizers" ||
    fail "doc/status.md: optim.def has another number of optimizers"
