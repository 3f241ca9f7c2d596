# Sources are at most 120 columns wide (.clang-format's limit; headers and comments are wrapped by hand), functions at most 60 lines long. Rows of tables (.def) are as long as they are. Tests take a status where it is still the one they mean.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || fail "no source tree"
find base runtime sim ir passes compiler tools -name '*.[ch]' | sort >"$tmp/files"
[ -s "$tmp/files" ] || fail "no sources found"
xargs awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; bad = 1 } END { exit bad }' <"$tmp/files" || fail "lines wider than 120 columns"
grep "\.c$" "$tmp/files" | xargs awk 'FNR == 1 || /^}/ { if (start && FNR > start + 61) { print FILENAME ":" start ": " FNR - start - 1 " lines"; bad = 1 } start = 0 }
    /^{/ { start = FNR } END { exit bad }' || fail "functions of more than 60 lines"
# A status behind a command substitution is that of the substitution under bash: a case that fails would be counted as one that passes.
! grep -rnE '^[^;&|]*[^(]\$\([^(].*"[[:space:]]+\$\?[[:space:]]*$' --include='*.tap' --include='*.sh' tests || fail "a status taken behind a command substitution"
exit 0
