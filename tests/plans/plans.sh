#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What models are compiled to, against the summaries here: a regression shows without a clock.
# usage: plans.sh BUILD_DIR MODELS_DIR [--write]     MODELS_DIR/NAME/model.onnx is compared with tests/plans/NAME.txt
# A line for each summary of a model in MODELS_DIR, `ok NAME` or `not ok NAME: ...`; --write makes the summaries anew (look at the
# difference before you commit it). The models are compiled for x86-64-v4 at -O2, with the options in tests/plans/NAME.flags where there is that. In a summary:
#   kernels   different ones, by the template that runs them
#   launches  of them; moves: those that only move elements; reorders: moves between layouts
#   copies, library   plan steps that copy a buffer, that call the runtime's library
#   arena     bytes of the plan's arena; live: of the largest set of buffers that live at once, its lower bound
#   code      bytes of machine code; a change of a tenth is let pass (the compiler's own version)
set -u
build=${1:?usage: plans.sh BUILD_DIR MODELS_DIR [--write]} models=${2:?} write=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tccc-plans.XXXXXX") || exit 3
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
status=0

summary() {
    # shellcheck disable=SC2046  # NAME.flags holds options
    "$build/tccc" -q --march=x86-64-v4 $(cat "$here/$name.flags" 2>/dev/null) -c --dump-ir=kernels --dump-ir=plan "$1" -o "$tmp/model.o" 2>"$tmp/dump" || return 1
    size -A "$tmp/model.o" | awk '$1 ~ /^\.text/ { n += $2 } END { print "code", n }' >"$tmp/code"
    awk '
        $1 == "kernel" { kind = $3 }
        $1 == "schedule" { kernels++; sub(/\(.*/, "", $2); how[$2]++ }
        $1 == "buffer" { layout[$2] = match($0, /layout [()0-9, ]*/) ? substr($0, RSTART, RLENGTH) : "plain" }
        $1 == "entry" { for (i = 1; i < NF; i++) { if ($i == "arena") arena = $(i + 1); if ($i == "peak") live = $(i + 1) } }
        $1 == "launch" {
            launches++
            if ($2 ~ /^@move_/) {
                moves++
                n = split(substr($0, index($0, "(") + 1, index($0, ")") - index($0, "(") - 1), args, /, */)
                reorders += layout[args[1]] != layout[args[n]]
            }
        }
        $1 == "copy" { copies++ }
        $1 == "lib" || $1 == "library" { library++ }
        END {
            printf "kernels %d\n", kernels
            for (h in how) printf "  %s %d\n", h, how[h] | "sort"
            close("sort")
            printf "launches %d\nmoves %d\nreorders %d\ncopies %d\nlibrary %d\narena %s\nlive %s\n",
                launches, moves, reorders, copies, library, arena == "" ? "bound when run" : arena, live == "" ? "bound when run" : live
        }' "$tmp/dump"
    cat "$tmp/code"
}

for folder in "$models"/*/; do
    name=$(basename "$folder")
    [ -n "$write" ] || [ -f "$here/$name.txt" ] || continue
    if ! summary "$folder/model.onnx" >"$tmp/got"; then
        echo "not ok $name: $(tail -n 1 "$tmp/dump")"
        status=1
    elif [ -n "$write" ]; then
        cp "$tmp/got" "$here/$name.txt"
    elif awk '
            FNR == NR { want[FNR] = $0; n = FNR; next }
            $1 == "code" { split(want[FNR], w); if (w[1] == "code" && $2 <= w[2] * 1.1 && $2 >= w[2] * 0.9) { same++; next } }
            $0 == want[FNR] { same++ }
            END { exit same != n || FNR != n }' "$here/$name.txt" "$tmp/got"; then
        echo "ok $name"
    else
        echo "not ok $name: $(diff "$here/$name.txt" "$tmp/got" | grep '^[<>]' | tr '\n' ' ')"
        status=1
    fi
done
exit $status
