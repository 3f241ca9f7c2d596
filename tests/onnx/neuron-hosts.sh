# usage: neuron-hosts.sh BUILD CASES LIST: compiles the cases of a suite that neuron.list does not name for NeuronCores, and says for each why: what its steps
# with floats on the host are, by reason ("CASE: REASON; REASON"). A TAP line for each case of LIST that is there: its reasons are still those. With an empty
# LIST ("") prints the list, and how many cases each reason has.
build=$1 cases=$2 list=$3
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d "${TMPDIR:-/tmp}/tccc-neuron.XXXXXX") || exit 99
trap 'rm -rf "$out"' EXIT
: "${TCCC_LIBDIR:=$build}"
export TCCC_LIBDIR
# Kernels by what neuron_kernel_program() says, without numbers; library calls by name; where there are neither: that nothing is left for the engines.
why() {
    if ! "$build/tccc" --target=neuron:trn1 --report --dump-ir=neuron "$cases/$1/model.onnx" -o "$out/a.so" >"$out/log" 2>&1 </dev/null; then
        echo "does not compile"
        return
    fi
    awk '
        /^# kernel .*: on the host: / { name = $3; sub(/:$/, "", name); text = $0; sub(/^.*: on the host: /, "", text); sub(/^a program that breaks a rule:.*/, "a program that breaks a rule", text); reason[name] = text }
        /^floats on the host: / { name = $5; sub(/,$/, "", name); seen[name] = 1 }
        END {
            for (name in seen)
                why[name in reason ? reason[name] : "library call " name] = 1
            for (text in why)
                print text
        }' "$out/log" | sort >"$out/reasons"
    [ -s "$out/reasons" ] || echo "no kernels with floats" >"$out/reasons"
    sed '$!s/$/; /' "$out/reasons" | tr -d '\n'
    echo
}
sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/neuron.list" | sort >"$out/engines"
if [ -z "$list" ]; then
    for case in "$cases"/*/; do
        case=$(basename "$case")
        grep -q -x -e "$case" "$out/engines" || echo "$case: $(why "$case")"
    done >"$out/all"
    echo "# Cases of the official suite that leave floats to the host on neuron:trn1, and why (tests/onnx/neuron-hosts.sh). How many have each reason:"
    sed 's/^[^:]*: //' "$out/all" | awk -F '; ' '{ for (k = 1; k <= NF; k++) print $k }' | sort | uniq -c | sort -rn | sed 's/^/# /'
    cat "$out/all"
    exit 0
fi
sed -e '/^#/d' -e '/^[[:space:]]*$/d' "$list" >"$out/list"
while IFS= read -r line; do
    case=${line%%:*}
    [ -d "$cases/$case" ] || continue
    now="$case: $(why "$case")"
    if [ "$now" = "$line" ] || grep -q -x -e "$case" "$out/engines"; then
        echo "ok - $line"
    else
        echo "# now: $now"
        echo "not ok - $line"
    fi
done <"$out/list"
