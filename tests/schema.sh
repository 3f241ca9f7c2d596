# What the operators of ONNX have (compiler/onnx/schema.def): all that the installed onnx package knows of them is in it.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"

python=${TEST_PYTHON:-python3}
if ! "$python" -c 'import onnx' 2>"$tmp/log"; then
    echo "SKIP: needs Python with onnx: $(tail -n 1 "$tmp/log")"
    exit 77
fi
schema=$top_srcdir/compiler/onnx/schema.def
"$python" "$top_srcdir/tests/onnx/make_schema.py" --check "$schema" || fail "schema.def lacks what the onnx package has"
# It notices what is missing: the attributes of Conv.
sed '/"Conv"/s/strides//' "$schema" >"$tmp/schema.def"
! "$python" "$top_srcdir/tests/onnx/make_schema.py" --check "$tmp/schema.def" 2>"$tmp/log" || fail "a missing attribute is not noticed"
grep -q Conv "$tmp/log" || fail "the message does not name the operator"
