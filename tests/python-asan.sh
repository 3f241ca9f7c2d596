# The Python extension under AddressSanitizer and UBSan: tools/python/*.c is compiled anew with them, and the package's tests run on that, with Python's own
# allocations by malloc, so that reads and writes beside a Python object are seen, too. Leaks are not looked for: Python keeps much to its end.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -f "$top_builddir/python/tccc/_runtime.abi3.so" ] || skip "built without Python.h"
[ -f "$top_builddir/python/tccc/_compiler.abi3.so" ] || skip "built without the compiler"
[ -z "${INSTRUMENT:-}" ] || skip "an instrumented build, which Python is not"
needs numpy
include=$("$TEST_PYTHON" -c 'import sys, sysconfig; print(sysconfig.get_path("include") if sys.version_info >= (3, 11) else "")')
[ -f "$include/Python.h" ] || skip "no Python.h of $TEST_PYTHON, or it is older than 3.11"
asan=$($CC -print-file-name=libasan.so)
[ -f "$asan" ] || skip "$CC has no libasan.so"

mkdir "$tmp/python" && cp -r "$top_builddir/python/." "$tmp/python" && ln -sf "$top_builddir"/lib*.so.0 "$top_builddir/libtccrt.a" "$tmp/python/tccc/lib" || fail "no package"
flags="-std=gnu17 -D_GNU_SOURCE -O1 -g -fPIC -fvisibility=hidden -fsanitize=address,undefined -fno-sanitize-recover=undefined"
# shellcheck disable=SC2086  # words
for source in "$top_srcdir"/tools/python/*.c "$top_srcdir/compiler/fields.c"; do
    $CC $flags -I"$top_srcdir" -I"$top_builddir" -I"$include" -DTCCC_LIBDIR='"/usr/lib"' -DTCCC_PKGDATADIR='"/usr/share/tccc"' -c "$source" -o "$tmp/$(basename "$source" .c).o" || fail "$source"
done
runtime=$(find "$tmp" -maxdepth 1 -name '*.o' ! -name compiler.o ! -name fields.o)
# shellcheck disable=SC2086
$CC -shared -fsanitize=address,undefined -Wl,-rpath,'$ORIGIN/lib' -Wl,--exclude-libs,libtccrt.a -Wl,-u,tcr_device_cuda -Wl,-u,tcr_device_neuron $runtime \
    "$top_builddir/libtccrt.a" -lm -lpthread -ldl -o "$tmp/python/tccc/_runtime.abi3.so" || fail "the extension"
$CC -shared -fsanitize=address,undefined -Wl,--disable-new-dtags -Wl,-rpath,'$ORIGIN/lib' -Wl,--exclude-libs,libtccrt.a "$tmp/compiler.o" "$tmp/fields.o" "$top_builddir/libtccc.so.0" "$top_builddir/libtccrt.a" -lm -lpthread -ldl -o "$tmp/python/tccc/_compiler.abi3.so" || fail "the compiler's extension"

# LLVM throws: the sanitizer has to see the C++ library from the start.
run() {
    LD_PRELOAD=$asan:$($CC -print-file-name=libstdc++.so.6) ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
        PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tmp/python "$TEST_PYTHON" "$@" >"$tmp/log" 2>&1 </dev/null || { grep -v '^ok' "$tmp/log" | tail -n 60; fail "$*"; }
    ! grep -q -e 'ERROR: AddressSanitizer' -e 'runtime error:' "$tmp/log" || { grep -A 30 -e 'ERROR: AddressSanitizer' -e 'runtime error:' "$tmp/log"; fail "$*"; }
    grep -c '^ok' "$tmp/log"
}

# A test of this test: memory that is given back and read is seen, in this Python.
printf 'int use(void);\nint use(void)\n{\n    int *p = __builtin_malloc(4);\n    __builtin_free(p);\n    return *(volatile int *)p;\n}\n' >"$tmp/bad.c"
$CC -w -shared -fPIC -fsanitize=address "$tmp/bad.c" -o "$tmp/bad.so" || fail "bad.so"
! (run -c "import ctypes; ctypes.CDLL('$tmp/bad.so').use()") >"$tmp/out" 2>&1 || fail "a use after free is not seen"
grep -q 'heap-use-after-free' "$tmp/out" || fail "a use after free is not named: $(tail -n 3 "$tmp/out")"

run "$top_srcdir/tests/python/package.py" "$top_srcdir"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
run "$top_srcdir/tests/python/device_cases.py" "$top_srcdir"
