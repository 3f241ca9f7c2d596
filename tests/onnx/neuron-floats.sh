# usage: neuron-floats.sh BUILD CASES LIST: compiles cases for NeuronCores; those in LIST leave no kernel with a float operand to the host. A TAP line for each
# case of LIST that is there. With an empty LIST ("") prints the names of all cases that could stand in it.
build=$1 cases=$2 list=$3
out=$(mktemp -d "${TMPDIR:-/tmp}/tccc-neuron.XXXXXX") || exit 99
trap 'rm -rf "$out"' EXIT
: "${TCCC_LIBDIR:=$build}"
export TCCC_LIBDIR
# Kernels run on the engines at all, and none on the host has to do with floats.
says() {
    "$build/tccc" --target=neuron:trn1 --report "$cases/$1/model.onnx" -o "$out/a.so" >"$out/log" 2>&1 </dev/null &&
        grep -q "^steps of .* [1-9][0-9]* kernels on the device.*; 0 of them on floats" "$out/log" &&
        ! grep -q "; [1-9][0-9]* of them on floats" "$out/log"
}
if [ -z "$list" ]; then
    for case in "$cases"/*/; do
        case=$(basename "$case")
        says "$case" && echo "$case"
    done
    exit 0
fi
sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list" >"$out/list"
while read -r case; do
    [ -d "$cases/$case" ] || continue
    if says "$case"; then
        echo "ok - $case: floats on the engines"
    else
        grep "^steps\|error" "$out/log" | sed 's/^/# /'
        echo "not ok - $case: floats on the engines"
    fi
done <"$out/list"
