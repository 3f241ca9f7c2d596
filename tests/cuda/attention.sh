# What cuda-attention.tap and cuda-attention-wgmma.tap share: $arch is the machine, $product the tensor cores' instruction that is expected.
n=0
verdict() {
    n=$((n + 1))
    echo "$1 $n - $2"
}
TCCC_LIBDIR=$top_builddir TCCC_PTXAS=none # no cubins, which the simulator doesn't run: assembles() has ptxas take the text once
export TCCC_LIBDIR TCCC_PTXAS
: "${PTXAS:=$(command -v ptxas || :)}"

# compiled OPTION...: $tmp/a.tcir, its kernels' text in $tmp/kernels, their PTX in $tmp/a.ptx, what it says in $tmp/proof.
compiled() {
    tccc --target=cuda:$arch --dump-ir=kernels --dump-ir=ptx "$@" "$tmp/a.tcir" -o "$tmp/a.so" >"$tmp/proof" 2>"$tmp/both"
    status=$?
    sed '/^\/\/$/,$d' "$tmp/both" >"$tmp/kernels"
    sed -n '/^\/\/$/,$p' "$tmp/both" >"$tmp/a.ptx"
    return $status
}

# proves TYPE B H G S T D E [MASK [CAUSAL]]
proves() {
    cat >"$tmp/a.tcir" <<END
func @main(%q: $1[$2, $3, $5, $7], %k: $1[$2, $4, $6, $7], %v: $1[$2, $4, $6, $8]${9:+, %m: $1[$9]}) -> ($1[$2, $3, $5, $8]) {
  %y = attention(%q, %k, %v${9:+, %m}) {scale = 0.15${10:+, causal = 1}}
  return(%y)
}
END
    if compiled --prove-kernels &&
        grep -q "$arch: 1 kernels proved, 0 wrong, 0 skipped" "$tmp/proof" && grep -q "schedule attention" "$tmp/kernels"; then
        verdict ok "attention $*"
    else
        sed 's/^/# /' "$tmp/proof" "$tmp/kernels"
        verdict "not ok" "attention $*"
    fi
    assembles "attention $*"
    [ "$1" = f32 ] || verdict "$(grep -q "$product" "$tmp/a.ptx" && echo ok || echo not ok)" "attention $*: by tensor cores"
}

# assembles WHAT: ptxas takes $tmp/a.ptx without a spill or a product that it serialises.
assembles() {
    if [ -z "$PTXAS" ]; then
        verdict ok "$1: ptxas # SKIP no ptxas"
    elif "$PTXAS" -v -arch=$arch -o "$tmp/a.cubin" "$tmp/a.ptx" >"$tmp/log" 2>&1 && ! grep -E '[1-9][0-9]* bytes spill|C75' "$tmp/log"; then
        verdict ok "$1: ptxas"
    else
        sed 's/^/# /' "$tmp/log"
        verdict "not ok" "$1: ptxas"
    fi
}

# differentiates TYPE B H G S T D E [MASK [CAUSAL]]
differentiates() {
    words="{scale = 0.15${10:+, causal = 1}}"
    operands="%q, %k, %v, %d, %l, %x${9:+, %m}"
    cat >"$tmp/a.tcir" <<END
func @main(%q: $1[$2, $3, $5, $7], %k: $1[$2, $4, $6, $7], %v: $1[$2, $4, $6, $8], %d: $1[$2, $3, $5, $8]${9:+, %m: $1[$9]}) -> ($1[$2, $3, $5, $8], f32[$2, $3, $5], f32[$2, $3, $5, $7], f32[$2, $3, $6, $7], $1[$2, $3, $6, $8]) {
  %y, %l = attention_lse(%q, %k, %v${9:+, %m}) $words
  %yw = cast(%y) {to = f32}
  %dw = cast(%d) {to = f32}
  %p = mul(%yw, %dw)
  %x = reduce_sum(%p) {axes = [3], keepdims = 0}
  %gq = attention_grad_q($operands) $words
  %gv, %gk = attention_grad_vk($operands) $words
  %gc = cast(%gv) {to = $1}
  return(%y, %l, %gq, %gk, %gc)
}
END
    if compiled --prove-kernels &&
        grep -q "$arch: 4 kernels proved, 0 wrong, 0 skipped" "$tmp/proof" && [ "$(cat "$tmp/proof" "$tmp/kernels" | grep -c "schedule attention")" -eq 3 ]; then
        verdict ok "gradients $*"
    else
        sed 's/^/# /' "$tmp/proof" "$tmp/kernels"
        verdict "not ok" "gradients $*"
    fi
    assembles "gradients $*"
    # The interpreter has no weights of fewer bits.
    [ "$1" = f32 ] || return 0
    if tccc-run --target=cuda:$arch --device=sim "$tmp/a.tcir" --check --random >"$tmp/log" 2>&1; then
        verdict ok "gradients $*: as interpreted"
    else
        sed 's/^/# /' "$tmp/log"
        verdict "not ok" "gradients $*: as interpreted"
    fi
}
