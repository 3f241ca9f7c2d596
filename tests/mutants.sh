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

# tests/mutants/run, on a table and tests of its own: what is killed, by which test; what survives, in a part whose tests are there, one whose are not, and
# none; a test that fails by itself, and one that is not there.
command -v "$TEST_PYTHON" >/dev/null 2>&1 || exit 0
mkdir -p "$tmp/tree/tests/mutants" "$tmp/built" && cp tests/mutants/run "$tmp/tree/tests/mutants" || fail "no folder"
printf 'MUTANTS = yes\nFILECHECK = none\nCC = none\n' >"$tmp/built/Makefile"
printf '[ "$TCCC_MUTANT" != 1 ] || echo not ok 1\necho ok 2\n' >"$tmp/tree/tests/first.tap"
printf '[ "$TCCC_MUTANT" != 2 ] || exit 1\necho ok 1\n' >"$tmp/tree/tests/run.tap"
echo 'echo not ok 1' >"$tmp/tree/tests/fails.tap"
echo 'exit 77' >"$tmp/tree/tests/skips.tap"
while read -r number path killer; do
    echo "MUTANT($number, \"$path\", \"wrong\", \"tap $killer\")"
done >"$tmp/tree/tests/mutants/mutants.def" <<'END'
1 ir/a.c first
2 passes/a.c first
3 passes/a.c first
4 base/a.c first
5 ir/a.c fails
6 ir/a.c absent
7 ir/a.c skips
END
env -u TCCC_MUTANT "$TEST_PYTHON" "$tmp/tree/tests/mutants/run" "$tmp/built" >"$tmp/out" 2>&1
[ $? -eq 1 ] || fail "no survivor is noticed: $(cat "$tmp/out")"
sed '/^#/d; s/, [0-9.]* s$//' "$tmp/out" >"$tmp/lines"
diff - "$tmp/lines" <<'END' || fail "tests/mutants/run says (>) $(cat "$tmp/out")"
1..7
ok 1 - ir/a.c: wrong: killed by tap first
ok 2 - passes/a.c: wrong: killed by tap run, not by tap first
not ok 3 - passes/a.c: wrong: survives tap first, lit tests/passes, tap symbolic, tap run, tap differ
not ok 4 - base/a.c: wrong: survives tap first
not ok 5 - ir/a.c: wrong: tap fails fails without it
not ok 6 - ir/a.c: wrong: tap absent fails without it
ok 7 - ir/a.c: wrong # SKIP tap skips can't run here
END
# Each test that it may run is there.
sed -n 's/^    ("[a-z/]*", \[\(.*\)\]),$/\1/p' tests/mutants/run | sed 's/, *"/\n"/g' | tr -d '"' | sort -u >"$tmp/words"
[ "$(wc -l <"$tmp/words")" -ge 30 ] || fail "few tests of parts: $(cat "$tmp/words")"
while read -r kind name more; do
    case $kind in
    unit) set -- "tests/unit/$name.c" ;;
    lit) set -- "$name" ;;
    ranks) set -- "tests/dist/$more.c" ;;
    tap) set -- "tests/$name.tap" ;;
    *) set -- "tests/$kind.tap" ;;
    esac
    [ -e "$1" ] || fail "tests/mutants/run names '$kind $name $more'; there is no $1"
done <"$tmp/words"
exit 0
