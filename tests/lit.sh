# Runs the `RUN:` lines of the files in a folder and prints TAP, a line a file. Sourced by tests/lit-*.tap:
#   lit_folder DIR
# A file's lines `; RUN: COMMAND` (joined where they end in a backslash) run in order under sh, each must succeed.
# Replaced in them: %s the file, %S its folder, %t a path for temporary files, %{srcdir} and %{builddir} the trees,
# FileCheck the one that configure found. `not COMMAND` succeeds where COMMAND fails with status 1 to 4 (a crash does not).
# `; REQUIRES: VARIABLE` skips the file where that environment variable is empty.
. "$top_srcdir/tests/setup.sh"

cat >"$tmp/not" <<'NOT'
#!/bin/sh
"$@"
status=$?
[ $status -ge 1 ] && [ $status -le 4 ]
NOT
chmod +x "$tmp/not"
PATH=$tmp:$PATH

# The commands of file $1, one a line.
lit_commands() {
    t=$tmp/$(basename "$1").tmp
    sed -n 's/^[;#/ ]*RUN: *//p' "$1" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' |
        sed -e "s|%{srcdir}|$top_srcdir|g" -e "s|%{builddir}|$top_builddir|g" -e "s|%s|$1|g" \
            -e "s|%S|$(dirname "$1")|g" -e "s|%t|$t|g" -e "s#\(^\|[ |]\)FileCheck\( \|\$\)#\1$FILECHECK\2#g"
}

# Run file $1, write what it says to $tmp/log; 0 passed, 1 failed, 77 skipped.
lit_file() {
    need=$(sed -n 's/^[;#/ ]*REQUIRES: *//p' "$1")
    for name in $need; do
        eval "[ -n \"\${$name:-}\" ]" || return 77
    done
    lit_commands "$1" >"$tmp/commands"
    if ! [ -s "$tmp/commands" ]; then
        echo "no RUN line" >"$tmp/log"
        return 1
    fi
    while IFS= read -r command; do
        if ! timeout 60 bash -o pipefail -c "$command" >"$tmp/log" 2>&1 </dev/null; then
            echo "failed: $command" >>"$tmp/log"
            return 1
        fi
    done <"$tmp/commands"
}

lit_folder() {
    find "$1" -name '*.tcir' | sort >"$tmp/files"
    echo "1..$(wc -l <"$tmp/files")"
    number=0
    while IFS= read -r file; do
        number=$((number + 1))
        name=${file#"$top_srcdir"/}
        status=0
        lit_file "$file" || status=$?
        case $status in
        0) echo "ok $number - $name" ;;
        77) echo "ok $number - $name # SKIP needs $need" ;;
        *)
            sed 's/^/# /' "$tmp/log"
            echo "not ok $number - $name"
            ;;
        esac
    done <"$tmp/files"
}
