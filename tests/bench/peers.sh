# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Part of tools/check --peers, sourced by it: real architectures, exported by PyTorch, through compiled artifacts; training
# steps of whole networks; then their latency beside ONNX Runtime's (printed and kept in $build/logs, never judged).
# TCCC_PEERS names an environment that tests/bench/setup-peers made; otherwise one is made in $build/peers.
peers_dir=${TCCC_PEERS:-$build/peers}
if ! "$peers_dir/bin/python" -c 'import torch, torchvision, transformers, onnxruntime' >/dev/null 2>&1; then
    step "peers (PyTorch, ONNX Runtime)" sh "$top/tests/bench/setup-peers" "$peers_dir"
fi
models=${TCCC_MODELS:-$build/models}
if ! [ -f "$models/gru/model.onnx" ]; then
    step "export the models" "$peers_dir/bin/python" "$top/tests/bench/models.py" "$models"
fi

say "models: every architecture at -O0 and -O3, two instruction sets, 1 and 2 threads"
sh "$top/tests/bench/models.sh" "$build" "$models" >"$build/models.log" 2>&1 </dev/null
grep '^not ok' "$build/models.log"
bad=$(grep -c '^not ok' "$build/models.log")
good=$(grep -c '^ok' "$build/models.log")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" 0 "models"
plans "$models"

# beside WHAT SCRIPT [OPTION...]: cases that tests/onnx/SCRIPT.py writes with another engine's answers, through artifacts.
beside() {
    what=$1 script=$2
    shift 2
    folder=$build/beside/$script
    say "$what"
    rm -rf "$folder"
    "$peers_dir/bin/python" "$top/tests/onnx/$script.py" "$folder" "$@" >"$logs/$script.log" 2>&1 </dev/null
    "$build/tccc-run" --test-suite "$folder" -j "$jobs" >>"$logs/$script.log" 2>&1 </dev/null
    grep -a -E '^not ok |: (wrong|unsupported|crashed|result .* is off)' "$logs/$script.log"
    bad=$(grep -a -cE '^not ok |: (wrong|unsupported|crashed|result .* is off)' "$logs/$script.log")
    good=$(grep -a -c ': passed$' "$logs/$script.log")
    [ "$good" -gt 0 ] || bad=$((bad + 1))
    count "$good" "$bad" "$(grep -a -c '^SKIP ' "$logs/$script.log")" "$what"
}

beside "quantised operators of ONNX Runtime, beside it" qlinear_cases
beside "operators of com.microsoft, beside ONNX Runtime" contrib_cases --runtime
beside "operators of all versions, beside ONNX Runtime" engine_cases
beside "random graphs, beside ONNX Runtime" random_cases --runtime --count 1000 --seed 1000000
if ! "$peers_dir/bin/python" -c 'import skl2onnx' >/dev/null 2>&1; then
    step "pip install scikit-learn skl2onnx" "$peers_dir/bin/pip" -q install scikit-learn==1.9.1 skl2onnx==1.20.0
fi
beside "models as exporters write them, beside ONNX Runtime" exports --gradients
"$peers_dir/bin/python" "$top/tests/onnx/exported_gradients.py" "$build" "$build/beside/exports" >"$logs/exports.txt" 2>&1 </dev/null
grep '^not ok' "$logs/exports.txt"
bad=$(grep -c '^not ok' "$logs/exports.txt") good=$(grep -c '^ok' "$logs/exports.txt")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" 0 "gradients of exported models"

say "networks as ONNX Runtime's optimiser and quantisers rewrite them, at -O0 and -O2"
rm -rf "$build/rewritten"
"$peers_dir/bin/python" "$top/tests/onnx/rewritten.py" "$build/rewritten" >"$logs/rewritten.log" 2>&1 </dev/null
for level in -O0 -O2; do
    "$build/tccc-run" --test-suite "$build/rewritten" -j 2 $level >>"$logs/rewritten.log" 2>&1 </dev/null
done
grep -E ': (wrong|unsupported|crashed|not made)' "$logs/rewritten.log"
bad=$(grep -cE ': (wrong|unsupported|crashed|not made)' "$logs/rewritten.log") good=$(grep -c ': passed$' "$logs/rewritten.log")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" 0 "rewritten networks"

say "modules: small networks of many kinds, by both of PyTorch's exporters, run and trained"
"$peers_dir/bin/python" "$top/tests/onnx/modules.py" "$build" "$build/modules" >"$build/modules.log" 2>"$logs/modules.err" </dev/null
grep -E '^(not ok|skip)' "$build/modules.log"
bad=$(grep -c '^not ok' "$build/modules.log") good=$(grep -c '^ok' "$build/modules.log")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" "$(grep -c '^skip' "$build/modules.log")" "modules"

say "torchrun starts tccc-train: the losses of one process"
sh "$top/tests/dist/torchrun.sh" "$build" "$peers_dir" >"$logs/torchrun.txt" 2>&1 </dev/null
grep '^not ok' "$logs/torchrun.txt"
bad=$(grep -c '^not ok' "$logs/torchrun.txt") good=$(grep -c '^ok' "$logs/torchrun.txt")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" 0 "torchrun"

say "training: losses, gradients and curves of whole networks beside PyTorch's, small ones and in the sizes that people train"
for size in "" --full; do
    # shellcheck disable=SC2086
    "$peers_dir/bin/python" "$top/tests/train/networks.py" --compare "$build" $size >"$logs/networks$size.txt" 2>&1 </dev/null
    cat "$logs/networks$size.txt"
    bad=$(grep -c '^not ok' "$logs/networks$size.txt") good=$(grep -c '^ok' "$logs/networks$size.txt")
    [ $((good + bad)) -gt 0 ] || bad=1
    count "$good" "$bad" 0 "training$size"
done

for threads in 1 2; do
    say "latency with $threads thread(s)"
    "$peers_dir/bin/python" "$top/tests/bench/peers.py" --threads $threads \
        --cmd "$build/tccc-bench {model} --threads {threads} --json -q" "$models"/*/ >"$logs/peers-$threads.txt" 2>&1 </dev/null
    cat "$logs/peers-$threads.txt"
done
