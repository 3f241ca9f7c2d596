# The lists of cases that must pass (tests/onnx/*.list, tests/pt2/*.list) may only grow: every line of tests/onnx/lists.floor (LIST CASE) must still be in
# its list, and in a git checkout so must every case that any commit had. A case that its source has dropped or renamed goes to
# tests/onnx/lists.retired (LIST CASE REASON). usage: tests/lists.sh [--update]: take what the lists have gained into the floor.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
onnx=${onnx:-$top_srcdir/tests/onnx}

# now: LIST CASE of every list, sorted.
now() {
    for list in "$onnx"/*.list "$onnx/../pt2"/*.list; do
        [ -f "$list" ] || continue
        sed -e 's/#.*//' -e 's/[[:space:]].*$//' -e '/^$/d' -e "s|^|${list##*/} |" "$list"
    done | sort -u
}

# history: LIST CASE of every line that a commit has taken out of a list.
history() {
    git -C "$top_srcdir" log --format= -p --no-renames -- 'tests/onnx/*.list' 'tests/pt2/*.list' |
        sed -n -e 's|^--- a/.*/||p' -e 's|^-\([^- #][^ #]*\).*|-\1|p' | awk '/^-/ { print list " " substr($0, 2); next } { list = $0 }'
}

now >"$tmp/now"
[ -s "$tmp/now" ] || fail "no lists in $onnx"
cut -d ' ' -f 1,2 "$onnx/lists.retired" 2>/dev/null | sort -u >"$tmp/retired"
sort -u "$onnx/lists.floor" >"$tmp/floor"
if [ "$onnx" = "$top_srcdir/tests/onnx" ] && git -C "$top_srcdir" rev-parse --git-dir >/dev/null 2>&1; then
    history >>"$tmp/floor"
fi
sort -u "$tmp/floor" | comm -23 - "$tmp/retired" | comm -23 - "$tmp/now" >"$tmp/lost"
if [ -s "$tmp/lost" ]; then
    cat "$tmp/lost"
    fail "$(wc -l <"$tmp/lost") cases are no longer in the lists (LIST CASE above): make them pass, or name them with the reason in lists.retired"
fi
if [ "${1:-}" = --update ]; then
    sort -u "$onnx/lists.floor" "$tmp/now" | comm -23 - "$tmp/retired" >"$tmp/new" && cat "$tmp/new" >"$onnx/lists.floor"
fi

# A test of this test: a line taken out fails, one added doesn't.
[ -n "${LISTS_NESTED:-}" ] && exit 0
mkdir "$tmp/copy" "$tmp/pt2" && cp "$onnx"/*.list "$onnx/lists.floor" "$tmp/copy" && cp "$top_srcdir"/tests/pt2/*.list "$tmp/pt2" && sed '/^abs_f32$/d' "$top_srcdir/tests/pt2/cases.list" >"$tmp/pt2/cases.list"
sed -i '/^test_relu$/d' "$tmp/copy/suite.list"
echo a_new_case >>"$tmp/copy/more.list"
expect_status 1 env LISTS_NESTED=1 onnx="$tmp/copy" top_srcdir="$top_srcdir" sh "$top_srcdir/tests/lists.sh"
grep -q '^suite.list test_relu$' "$tmp/out" && grep -q '^cases.list abs_f32$' "$tmp/out" || fail "the lost lines are not named"
[ "$(grep -c '^[a-z]*.list ' "$tmp/out")" -eq 2 ] || fail "more than the lost lines is named"
cp "$onnx/suite.list" "$tmp/copy" && cp "$top_srcdir/tests/pt2/cases.list" "$tmp/pt2"
expect_status 0 env LISTS_NESTED=1 onnx="$tmp/copy" top_srcdir="$top_srcdir" sh "$top_srcdir/tests/lists.sh"
