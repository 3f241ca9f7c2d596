# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Part of tools/check --peers, sourced by it: real architectures, exported by PyTorch, through compiled artifacts; training
# steps of whole networks; then their latency beside ONNX Runtime's (printed and kept in $build/logs, never judged).
# TCCC_PEERS names an environment that tests/bench/setup-peers made; otherwise one is made in $build/peers.
peers_dir=${TCCC_PEERS:-$build/peers}
if ! "$peers_dir/bin/python" -c 'import torch, torchvision, transformers, onnxruntime, timm, monai, torchaudio' >/dev/null 2>&1; then
    step "peers (PyTorch, ONNX Runtime)" sh "$top/tests/bench/setup-peers" "$peers_dir"
fi
models=${TCCC_MODELS:-$build/models}
if ! [ -f "$models/gru/model.onnx" ]; then
    step "export the models" "$peers_dir/bin/python" "$top/tests/bench/models.py" "$models"
fi

# Custom operators' device code by NVRTC, from PyPI where the system has none.
nvrtc=$(find "$peers_dir" "$build/nvrtc" -name 'libnvrtc.so.1[23]' 2>/dev/null | head -n 1)
if [ -z "$nvrtc" ] && "$python" -m pip install --quiet --no-deps --target "$build/nvrtc" nvidia-cuda-nvrtc-cu12 >"$logs/nvrtc.log" 2>&1; then
    nvrtc=$(find "$build/nvrtc" -name 'libnvrtc.so.1[23]' | head -n 1)
fi
say "custom operators: CUDA C++ by NVRTC"
tap custom-op-cuda env TCCC_NVRTC_LIBRARY="$nvrtc" top_srcdir="$top" top_builddir="$build" TEST_PYTHON="$python" CC="${CC:-cc}" sh "$top/tests/custom-op-cuda.tap"

say "models: every architecture at -O0 and -O3, two instruction sets, 1 and 2 threads"
tap models sh "$top/tests/bench/models.sh" "$build" "$models"
plans "$models"
if [ -n "${full:-}" ]; then
    tap "each model's text at one place between the passes" env TCCC_MODELS="$models" top_srcdir="$top" top_builddir="$build" TEST_PYTHON="$python" sh "$top/tests/cuts.tap"
fi

# beside WHAT SCRIPT [OPTION...]: cases that tests/onnx/SCRIPT.py writes with another engine's answers, through artifacts at each of $levels.
levels=-O2
bad_case='^not ok |: (wrong|unsupported|crashed|not made|result .* is off)'
beside() {
    what=$1 script=$2
    shift 2
    folder=$build/beside/$script
    say "$what"
    rm -rf "$folder"
    "$peers_dir/bin/python" "$top/tests/onnx/$script.py" "$folder" "$@" >"$logs/$script.log" 2>&1 </dev/null
    for level in $levels; do
        "$build/tccc-run" --test-suite "$folder" -j "$jobs" "$level" >>"$logs/$script.log" 2>&1 </dev/null
    done
    grep -a -E "$bad_case" "$logs/$script.log"
    bad=$(grep -a -cE "$bad_case" "$logs/$script.log")
    good=$(grep -a -c ': passed$' "$logs/$script.log")
    [ "$good" -gt 0 ] || bad=$((bad + 1))
    count "$good" "$bad" "$(grep -a -c '^SKIP ' "$logs/$script.log")" "$what"
}

beside "quantised operators of ONNX Runtime, beside it" qlinear_cases
beside "operators of com.microsoft, beside ONNX Runtime" contrib_cases --runtime
beside "operators of all versions, beside ONNX Runtime" engine_cases
beside "attributes and optional operands, beside ONNX Runtime" attribute_cases --most 30
beside "random graphs, beside ONNX Runtime" random_cases --runtime --count 1000 --seed 1000000
if ! "$peers_dir/bin/python" -c 'import skl2onnx' >/dev/null 2>&1; then
    step "pip install scikit-learn skl2onnx" "$peers_dir/bin/pip" -q install scikit-learn==1.9.1 skl2onnx==1.20.0
fi
beside "models as exporters write them, beside ONNX Runtime" exports --gradients
tap "gradients of exported models" "$peers_dir/bin/python" "$top/tests/onnx/exported_gradients.py" "$build" "$build/beside/exports"

say "programs of torch.export: ATen ops and modules of many kinds, in both IRs, beside PyTorch"
for what in cases modules; do
    rm -rf "$build/beside/pt2-$what"
    "$peers_dir/bin/python" "$top/tests/pt2/$what.py" "$build/beside/pt2-$what" >"$logs/pt2-$what.log" 2>&1 </dev/null
    "$build/tccc-run" --test-suite "$build/beside/pt2-$what" -j "$jobs" -O2 >>"$logs/pt2-$what.log" 2>&1 </dev/null
    grep -a -E "$bad_case" "$logs/pt2-$what.log"
    bad=$(grep -a -cE "$bad_case" "$logs/pt2-$what.log")
    good=$(grep -a -c ': passed$' "$logs/pt2-$what.log")
    [ "$good" -gt 0 ] || bad=$((bad + 1))
    count "$good" "$bad" 0 "programs of torch.export: $what"
done
tap "gradients of programs of torch.export" "$peers_dir/bin/python" "$top/tests/onnx/exported_gradients.py" "$build" "$build/beside/pt2-modules"

tap "the models as programs of torch.export: both IRs, gradients, joint archives" env PYTHONPATH="$build/python" "$peers_dir/bin/python" "$top/tests/bench/pt2_models.py"

levels="-O0 -O2"
beside "networks as ONNX Runtime's optimiser and quantisers rewrite them, at -O0 and -O2" rewritten

say "modules: small networks of many kinds, by both of PyTorch's exporters, run and trained"
tap modules "$peers_dir/bin/python" "$top/tests/onnx/modules.py" "$build" "$build/modules"

say "networks of libraries, exported, small, at two sizes, beside PyTorch"
PYTHONPATH=$build/python tap "networks of libraries" "$peers_dir/bin/python" "$top/tests/python/networks.py"

say "PyTorch's operators with the arguments of its own tests, a part of them, beside PyTorch"
for way in export core compile gradients; do
    PYTHONPATH=$build/python tap "PyTorch's operators, $way" "$peers_dir/bin/python" "$top/tests/python/opinfo.py" $way --share=4 --seed=1 --samples=2
done

say "random networks: gradients and whole training steps beside PyTorch's"
tap "random gradients" "$peers_dir/bin/python" "$top/tests/train/random_gradients.py" "$build" --count 100
tap "random training steps" "$peers_dir/bin/python" "$top/tests/train/random_steps.py" "$build" --count 40

say "the Python package with PyTorch: tensors, training, torch.compile in both directions; onnx's own test runner"
PYTHONPATH=$build/python tap "Python package" "$peers_dir/bin/python" "$top/tests/python/torch_cases.py" "$top"
for part in 0 1; do
    PYTHONPATH=$build/python "$python" "$top/tests/python/backend.py" "$top" 2 $part >"$logs/backend-$part.txt" 2>&1 </dev/null
    grep '^#' "$logs/backend-$part.txt"
    good=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1/p' "$logs/backend-$part.txt") bad=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\2/p' "$logs/backend-$part.txt")
    count "${good:-0}" "${bad:-1}" 0 "onnx's BackendTest"
done

PYTHONPATH=$build/python tap "samples/python/torch_compile.py" sh -c '"$1" "$2/samples/python/torch_compile.py" >"$3" && grep -q "^as eager PyTorch: True" "$3" && echo "ok 1 - torch_compile.py"' sh "$peers_dir/bin/python" "$top" "$logs/torch_compile.txt"
for launcher in "mpirun -n 2" "mpirun -n 3" "$peers_dir/bin/python -m torch.distributed.run --nproc_per_node=2 --no-python"; do
    # shellcheck disable=SC2086  # words
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 PYTHONPATH=$build/python \
        tap "torch.distributed's backend tccc, DDP, $launcher" $launcher "$peers_dir/bin/python" "$top/tests/python/ranks.py"
done

say "a bare Debian: the runtime's wheel by pip, libtccrt0 by apt"
install_packages debootstrap debhelper
tap "a bare Debian" env TEST_PYTHON="$python" CC="${CC:-cc}" sh "$top/tests/container.sh" "$build"

say "torchrun starts tccc-train: the losses of one process"
sh "$top/tests/dist/torchrun.sh" "$build" "$peers_dir" >"$logs/torchrun.txt" 2>&1 </dev/null
grep '^not ok' "$logs/torchrun.txt"
bad=$(grep -c '^not ok' "$logs/torchrun.txt") good=$(grep -c '^ok' "$logs/torchrun.txt")
[ $((good + bad)) -gt 0 ] || bad=1
count "$good" "$bad" 0 "torchrun"

say "training: losses, gradients and curves of whole networks beside PyTorch's, small ones and in the sizes that people train"
for size in "" --full; do
    # shellcheck disable=SC2086  # none, or one
    tap "training$size" "$peers_dir/bin/python" "$top/tests/train/networks.py" --compare "$build" $size
    cat "$logs/tap.log"
done

for threads in 1 2; do
    say "latency with $threads thread(s)"
    "$peers_dir/bin/python" "$top/tests/bench/peers.py" --threads $threads \
        --cmd "$build/tccc-bench {model} --threads {threads} --json -q" "$models"/*/ >"$logs/peers-$threads.txt" 2>&1 </dev/null
    cat "$logs/peers-$threads.txt"
done
