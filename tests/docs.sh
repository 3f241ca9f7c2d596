# The documents that are made of tables are what the tables say; every tool has a man page, and completion is valid bash.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"

for doc in passes ops onnx gradients; do
    "$top_builddir/mkdoc" $doc >"$tmp/$doc.md" || fail "mkdoc $doc"
    cmp "$tmp/$doc.md" "$top_srcdir/doc/$doc.md" || fail "doc/$doc.md is stale: run 'make update-docs'"
done
for tool in tccc tccc-opt tccc-run tccc-bench tccc-train tccc-ckpt; do
    "$top_builddir/mkdoc" man $tool >"$tmp/man" || fail "no man page for $tool"
    $tool --help | sed -n 's/.*\(--[a-z-]*\).*/\1/p' | sort -u | while read -r option; do
        sed 's/\\-/-/g' "$tmp/man" | grep -q -e "$option" || fail "$option is not in the man page of $tool"
    done || exit 1
done
"$top_builddir/mkdoc" completion >"$tmp/completion" && bash -n "$tmp/completion" || fail "completion"
