# The shared libraries export the functions that their public headers declare, and nothing else; so do the compiler's archive and a user's
# library with an artifact and the static runtime in it.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || exit 99

# check LIBRARY LIST PREFIXES HEADER...: compare the headers, the list and the library.
check() {
    library=$1 list=$2 prefixes=$3
    shift 3
    sed -nE -e "s/^[^/]*[ *](($prefixes)_[a-z0-9_]*)\\(.*/\\1/p" -e 's/^FN\((\w+),.*/\1/p' -e 's/^SCALAR\((\w+),.*/trace_\1/p' "$@" | sort -u >"$tmp/declared"
    sed -nE "s/^ *(($prefixes)_[a-z0-9_]*|cu[A-Z]\w*);/\\1/p" "$list" | sort -u >"$tmp/listed"
    [ -s "$tmp/declared" ] || fail "no functions found in $*"
    diff "$tmp/declared" "$tmp/listed" || fail "$* and $list differ"
    nm -D --defined-only "$top_builddir/$library" | awk '{ print $3 }' | sort -u >"$tmp/exported"
    diff "$tmp/listed" "$tmp/exported" || fail "$list and $library differ"
}

check libtccrt.so.0 runtime/tccrt.map tccrt runtime/tccrt.h
check libtccdata.so.0 runtime/data/tccdata.map tccdata runtime/tccdata.h
grep -o 'nccl[A-Z]\w*(' sim/nccl/nccl.h | tr -d '(' | sort -u >"$tmp/declared" # NCCL's names
nm -D --defined-only "$top_builddir/libtcccnccl.so.0" | awk '{ print $3 }' | sort -u | diff "$tmp/declared" - || fail "sim/nccl/nccl.h and libtcccnccl.so.0 differ"
check libtccptx.so.0 sim/ptx/ptxsim.map ptx sim/ptx/ptxsim.h sim/ptx/driver.h sim/ptx/driver.def
check libtccneuron.so.0 sim/neuron/neuronsim.map neuron runtime/neuron_isa.h sim/neuron/neuronsim.h
check libtccc.so.0 compiler/tccc.map 'tccc|trace' compiler/tccc.h compiler/trace.h ir/scalar.def
nm -g --defined-only "$top_builddir/libtccc.a" | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/exported"
diff "$tmp/listed" "$tmp/exported" || fail "compiler/tccc.map and libtccc.a differ"

TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
"$TEST_PYTHON" -c 'import numpy, onnx' 2>/dev/null || exit 0
"$TEST_PYTHON" - "$tmp/model.onnx" <<'END' || exit 99
import sys, onnx
from onnx import TensorProto, helper
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])
u = helper.make_tensor_value_info("u", TensorProto.FLOAT, ["M"])
r = helper.make_tensor_value_info("r", TensorProto.FLOAT, ["N", 8])
nodes = [helper.make_node("Unique", ["x"], ["u"]), helper.make_node("Tanh", ["x"], ["r"])]
onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [u, r]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
END
cat >"$tmp/user.c" <<'END'
#include "mine.h"
int user_run(const struct tcc_tensor *in, struct tcc_tensor *out) { return mine_main(in, out); }
END
# shellcheck disable=SC2086  # CC may be several words
for kind in a o; do
    tccc "$tmp/model.onnx" -o "$tmp/mine.$kind" -H "$tmp/mine.h" --name=mine || fail "not compiled"
    $CC -shared -fPIC -I"$tmp" -I"$top_srcdir/runtime" "$tmp/user.c" "$tmp/mine.$kind" "$top_builddir/libtccrt.a" -lm -lpthread -o "$tmp/libuser.so" || fail "not linked"
    nm -D --defined-only "$tmp/libuser.so" | awk '$3 !~ /^(__gcov|mangle_path)/ { print $3 }' | sort >"$tmp/exported" # but gcov's own, in its builds
    echo user_run >"$tmp/declared"
    diff "$tmp/declared" "$tmp/exported" || fail "a library with a .$kind artifact exports the artifact's names"
    tccc "$tmp/model.onnx" -o "$tmp/mine.$kind" --export-name --name=mine || fail "not compiled"
    $CC -shared -fPIC -I"$tmp" -I"$top_srcdir/runtime" "$tmp/user.c" "$tmp/mine.$kind" "$top_builddir/libtccrt.a" -lm -lpthread -o "$tmp/libuser.so" || fail "not linked"
    nm -D --defined-only "$tmp/libuser.so" | awk '$3 !~ /^(__gcov|mangle_path)/ { print $3 }' | sort >"$tmp/exported"
    printf 'mine_main\nmine_model\nuser_run\n' >"$tmp/declared"
    diff "$tmp/declared" "$tmp/exported" || fail "a library with a .$kind artifact and --export-name exports other names than its headers declare"
done
