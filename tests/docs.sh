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
