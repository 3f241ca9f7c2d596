# How wide queries, keys and values (all alike) of attention may be for one kernel of the CUDA target: the widest in steps of 8, by bisection, in 16 bits and in float32, of the
# forward pass, then of the gradients. doc/cuda.md says these numbers (figures.list).
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export TCCC_PTXAS=none

# kernels KIND TYPE WIDTH: how many of the graph's kernels are attention.
kernels() {
    {
        x="$2[1, 1, 100, $3]" row="f32[1, 1, 100]"
        if [ "$1" = forward ]; then
            printf '%s\n' "func @main(%q: $x, %k: $x, %v: $x) -> ($x) {" "  %y = attention(%q, %k, %v) {scale = 0.15}" "  return(%y)" "}"
        else
            printf '%s\n' "func @main(%q: $x, %k: $x, %v: $x, %d: $x, %l: $row, %x: $row) -> ($(echo "$x, $x, $x" | sed "s/$2/f32/g")) {" \
                "  %gq = attention_grad_q(%q, %k, %v, %d, %l, %x) {scale = 0.15}" \
                "  %gv, %gk = attention_grad_vk(%q, %k, %v, %d, %l, %x) {scale = 0.15}" "  return(%gq, %gk, %gv)" "}"
        fi
    } >"$tmp/a.tcir"
    tccc -q --target=cuda:sm_80 --dump-ir=kernels "$tmp/a.tcir" -o "$tmp/a.so" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2 && exit 1; }
    grep -c "schedule attention" "$tmp/log"
}

for kind in forward gradient; do
    for type in f16 f32; do
        least=8 most=1024 # in between lies the widest
        while [ $((most - least)) -gt 8 ]; do
            width=$(((least + most) / 16 * 8))
            if [ "$(kernels $kind $type $width)" -eq "$([ $kind = forward ] && echo 1 || echo 2)" ]; then least=$width; else most=$width; fi
        done
        printf '%s ' $least
    done
done
echo
