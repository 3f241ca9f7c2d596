# The table of mutants and the sources agree: each MUTANT(number, right, wrong) of the code stands in tests/mutants/mutants.def with its
# file, each row of the table in the code; a number once, a line of code one at most; and there are a hundred and ten at least.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || fail "no source tree"

grep -rnE '\bMUTANT\(' --include='*.[ch]' --include='*.def' base runtime sim ir passes compiler tools | grep -v '^base/mutant\.h:' >"$tmp/lines"
! grep -E 'MUTANT\(.*MUTANT\(' "$tmp/lines" || fail "two mutants in a line"
sed -n 's/^\([^:]*\):.*MUTANT(\([0-9]*\),.*/\2 \1/p' "$tmp/lines" | sort -n >"$tmp/code"
sed -n 's/^MUTANT(\([0-9]*\), "\([^"]*\)", "[^"]*", "[^"]*")$/\1 \2/p' tests/mutants/mutants.def | sort -n >"$tmp/table"
[ "$(wc -l <"$tmp/lines")" -eq "$(wc -l <"$tmp/code")" ] || fail "MUTANT( without a number: $(grep -vE 'MUTANT\([0-9]+,' "$tmp/lines")"
[ "$(grep -c '^MUTANT' tests/mutants/mutants.def)" -eq "$(wc -l <"$tmp/table")" ] || fail "rows of the table that nobody can read"
cut -d ' ' -f 1 "$tmp/table" | uniq -d >"$tmp/twice"
[ ! -s "$tmp/twice" ] || fail "numbers that are there twice: $(cat "$tmp/twice")"
diff "$tmp/code" "$tmp/table" || fail "the code (<) and the table (>) differ"
[ "$(wc -l <"$tmp/table")" -ge 110 ] || fail "only $(wc -l <"$tmp/table") mutants"
exit 0
