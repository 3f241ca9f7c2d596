# The simulator's driver functions: the conformance program gives what the driver's manual says, in every order of execution, with one
# host thread and several. DRIVER=libcuda.so.1 runs it on a real driver instead.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
for seed in 0 1 2 3 4; do
    TCCC_ORDER_SEED=$seed TCCC_SIM_THREADS=$((1 + seed % 2)) "$top_builddir/tests/unit/driver_conformance" "${DRIVER:-$top_builddir/libtccptx.so.0}" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ -n "${DRIVER:-}" ] && [ $status -eq 77 ] && exit 77
    [ $status -eq 0 ] || fail "seed $seed: status $status: $(tail -1 "$tmp/out") $(cat "$tmp/err")"
    diff "$top_srcdir/tests/ptx/driver.expected" "$tmp/out" || fail "seed $seed: another transcript"
done
TCCC_SIM_MACHINE=abacus "$top_builddir/tests/unit/driver_conformance" "$top_builddir/libtccptx.so.0" | grep -q '^line .*: cuDeviceGetCount: NOT_INITIALIZED' || fail "an unknown machine"
