# Sourced behind tests/setup.sh by the tests that require the emulator of AArch64: they are skipped where it or the cross compiler is missing.
triplet=aarch64-linux-gnu
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
command -v qemu-aarch64 >/dev/null 2>&1 || skip 'no qemu-aarch64 (Debian: qemu-user)'
[ -e "$top_builddir/$triplet/libtccrt.a" ] || skip "configured without --with-cross=$triplet (Debian: gcc-$triplet)"
cd "$tmp" || exit 99

# result NAME: the result of the command before.
number=0
result() {
    status=$? number=$((number + 1))
    [ "$status" -eq 0 ] && echo "ok $number - $1" && return
    sed 's/^/# /' log 2>/dev/null | tail -n 20
    echo "not ok $number - $1"
}

# here COMMAND..., there COMMAND...: on this machine, on one of AArch64.
here() {
    "$@"
}
there() {
    qemu-aarch64 -L "/usr/$triplet" "$@"
}

# program NAME SOURCE: a C program of the run-time library alone, NAME-here and NAME-there.
program() {
    # shellcheck disable=SC2086  # a compiler behind another command
    $CC -std=gnu17 -O1 -I"$top_srcdir" "$top_srcdir/$2" "$top_builddir/libtccrt.a" -lm -lpthread -ldl -o "$1-here" &&
        "$triplet-gcc" -std=gnu17 -O1 -I"$top_srcdir" "$top_srcdir/$2" "$top_builddir/$triplet/libtccrt.a" -lm -lpthread -ldl -o "$1-there"
}

# near A B [N]: lines "NUMBER VALUE" of both files say the same within 1e-5 of the value, N of them, and values vary.
near() {
    paste "$1" "$2" >both && awk -v n="${3:-20}" '
        { d = $2 - $4; if (d < 0) d = -d; size = $4 < 0 ? -$4 : $4
          if ($1 != $3 || NF != 4 || d > 1e-5 * (size > 1 ? size : 1)) { bad = 1; print "line " NR ": " $0 }
          if (NR > 1 && $2 != last) varied = 1
          last = $2 }
        END { if (NR != n) print NR " lines, not " n; exit NR != n || bad || !varied }' both >>log
}
