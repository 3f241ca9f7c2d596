# Readers and what lies behind them meet changed files: a fixed number of passes over stored files, with a cap on the time
# (TCCC_FUZZ_SECONDS; TCCC_TEST_FULL=1: many passes, ten minutes each, from a seed that changes). tests/fuzz/readers holds a small file of each format,
# tests/fuzz/text programs of kernels and plans.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
seconds=${TCCC_FUZZ_SECONDS:-6} passes=1 seed=1
[ -z "${TCCC_TEST_FULL:-}" ] || seconds=600 passes=1000 seed=0
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR

# fuzz NAME CORPUS...: run tests/fuzz/NAME on copies of the files, with the words of $dict where that is set.
fuzz() {
    name=$1
    shift
    program=$top_builddir/tests/fuzz/$name
    [ -x "$program" ] || fail "$program is not built"
    cd "$tmp" || fail "no folder"
    case " ${INSTRUMENT:-} " in
    *fuzzer-no-link*)
        rm -rf inputs && mkdir inputs || fail "no folder"
        find "$@" -type f -size -64k -exec cp {} inputs \;
        "$program" -seed=$seed -max_total_time="$seconds" -runs=$((passes * 20000)) ${dict:+-dict="$dict"} -timeout=30 -detect_leaks=0 -rss_limit_mb=4096 -max_len=65536 inputs >"$tmp/log" 2>&1
        ;;
    *)
        "$program" -passes="${rounds:-$passes}" -seconds="$seconds" ${dict:+-dict="$dict"} "$@" >"$tmp/log" 2>&1
        ;;
    esac || {
        tail -n 60 "$tmp/log"
        mkdir -p "$top_builddir/crashes" && cp crash-* timeout-* oom-* "$top_builddir/crashes" 2>/dev/null
        fail "$name: the input is in $top_builddir/crashes"
    }
    tail -n 1 "$tmp/log"
}

mkdir "$tmp/values" && for i in 1 2 3 4 5; do
    tccc-run --interpret "$top_srcdir/tests/cli/data/add.tcir" --random=$i --shape=x=${i}x2 --output-dir "$tmp/values/$i" >"$tmp/log" || fail "no values"
done
fuzz fuzz-values "$tmp/values"
dict=$top_srcdir/tests/fuzz/readers.dict rounds=$((passes * 40))
fuzz fuzz-readers "$top_srcdir/tests/fuzz/readers"
dict=$top_srcdir/tests/fuzz/text.dict rounds=
fuzz fuzz-text "$top_srcdir/tests/ir" "$top_srcdir/tests/passes" "$top_srcdir/tests/fuzz/text"

dict= rounds=$((passes * 10))
fuzz fuzz-html "$top_srcdir/tests/fuzz/html"
dict= rounds=$((passes * 200))
fuzz fuzz-neuron "$top_srcdir/tests/fuzz/neuron"
fuzz fuzz-meet "$top_srcdir/tests/fuzz/meet"
# Checkpoints, as they are written and without the digest that a change breaks, into the step that wrote them.
mkdir "$tmp/checkpoints" && printf 'state @w : f32[3,4] param\nfunc @main(%%x: f32[N,3]) -> ("scores": f32[N,4]) {\n  %%w = state_read() {name = "w"}\n  %%s = matmul(%%x, %%w)\n  return(%%s)\n}\n' >"$tmp/step.tcir" &&
    tccc -q --train --loss=cross_entropy --optimizer=adam "$tmp/step.tcir" -o "$tmp/step.so" >"$tmp/log" 2>&1 || fail "no step: $(cat "$tmp/log")"
if "$TEST_PYTHON" -c 'import numpy' 2>/dev/null; then
    "$TEST_PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.eye(3, dtype="f4")[[0, 1, 2] * 4], target=numpy.arange(12) % 4)' "$tmp/step.npz"
    tccc-train -q "$tmp/step.so" --data "$tmp/step.npz" --batch-size 4 --steps 2 --checkpoint "$tmp/step.saved" >"$tmp/log" 2>&1 || fail "no checkpoint: $(cat "$tmp/log")"
    cp "$tmp/step.saved/last.safetensors" "$tmp/checkpoints" && "$TEST_PYTHON" - "$tmp/checkpoints/last.safetensors" "$tmp/checkpoints/plain" <<'END' || fail "no seed"
import json, sys
data = open(sys.argv[1], "rb").read()
n = int.from_bytes(data[:8], "little")
head = json.loads(data[8 : 8 + n])
for key in ("tccc.digest", "tccc.format"):
    head["__metadata__"].pop(key, None)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(len(text).to_bytes(8, "little") + text + data[8 + n :])
END
    FUZZ_ARTIFACT=$tmp/step.so
    export FUZZ_ARTIFACT
    dict= rounds=$((passes * 10))
    fuzz fuzz-checkpoint "$tmp/checkpoints" "$top_srcdir/tests/fuzz/readers/two.safetensors" "$top_srcdir/tests/fuzz/readers/index.safetensors"
fi
dict=$top_srcdir/tests/fuzz/ptx.dict rounds=$((passes * 40))
fuzz fuzz-ptx "$top_srcdir/tests/fuzz/ptx"
dict= rounds=

corpus=$top_srcdir/samples/digits
for suite in "$top_builddir/suite" "$top_builddir/../suite"; do      # the official cases, where tools/check wrote them
    [ -d "$suite" ] && corpus="$corpus $suite"
done
mkdir "$tmp/pt2" && tar -xf "$top_srcdir/tests/pt2/cases.tar.xz" -C "$tmp/pt2" --wildcards '*_forms/model.pt2' '*_dynamic/model.pt2' || fail "no archives"
rounds=$((passes * 10))
fuzz fuzz-quant "$top_srcdir/samples/digits/digits.onnx"
fuzz fuzz-net "$top_srcdir/tests/fuzz/net"
rounds=
# shellcheck disable=SC2086  # a list of folders
fuzz fuzz-onnx $corpus "$top_srcdir/tests/pt2/tied.pt2" "$tmp/pt2"
# Programs of torch.export, one or two of each family of ops, with words of their JSON; bad.py's archives are among them, where there is Python.
mkdir "$tmp/programs" && for family in fft_two fft_core_axes complex_moves complex_arithmetic cond while_loop scan index as_strided sdpa cat split view to_copy lstm convolution_ max_pool batch_norm grid_sampler embedding_bag resize sym_strides; do
    tar -tf "$top_srcdir/tests/pt2/cases.tar.xz" --wildcards "$family*/model.pt2" 2>/dev/null | head -n 2
done >"$tmp/families"
tar -xf "$top_srcdir/tests/pt2/cases.tar.xz" -C "$tmp/programs" -T "$tmp/families" || fail "no programs"
! command -v "$TEST_PYTHON" >/dev/null 2>&1 || NOISE=0 "$TEST_PYTHON" "$top_srcdir/tests/pt2/bad.py" "$top_srcdir/tests/pt2/tied.pt2" "$tmp/programs" || fail "bad.py"
dict=$top_srcdir/tests/fuzz/pt2.dict
fuzz fuzz-pt2 "$top_srcdir/tests/pt2/tied.pt2" "$tmp/programs"
dict=
# One op of each ATen name with one argument that is another (TCCC_TEST_FULL: several of each argument).
if command -v "$TEST_PYTHON" >/dev/null 2>&1; then
    mkdir "$tmp/cases" && tar -xf "$top_srcdir/tests/pt2/cases.tar.xz" -C "$tmp/cases" || fail "no cases"
    # shellcheck disable=SC2046  # a seed and a number
    "$TEST_PYTHON" "$top_srcdir/tests/pt2/hostile.py" "$tmp/cases" "$tmp/hostile" $([ -n "${TCCC_TEST_FULL:-}" ] && echo "$(date +%s) 2" || echo 1 0) >"$tmp/log" || fail "hostile.py"
    fuzz fuzz-pt2 "$tmp/hostile"
fi
# Behind the front ends every input may take a compilation.
dict=$top_srcdir/tests/fuzz/text.dict
fuzz fuzz-run "$top_srcdir/tests/run" "$top_srcdir/tests/cli/data" "$top_srcdir/samples/digits/digits.onnx"
