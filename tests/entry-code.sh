# The C functions of entry points, whose instructions the compiler writes itself: of each instruction set, in a .so, a .o and an archive, called by a program in C,
# which is linked statically too; each has its own number. (Other instruction sets where qemu-user and the runtime for them are: configure --with-cross.)
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
cd "$tmp" || fail "no folder"

for name in add sub mul; do
    printf 'func @f_%s(%%x: f32[3], %%y: f32[3]) -> ("z": f32[3]) {\n  %%z = %s(%%x, %%y)\n  return(%%z)\n}\n' $name $name
done >three.tcir
cat >main.c <<'END'
#include "three.h"
#include <stdio.h>

int main(void)
{
    int (*const f[])(const struct tcc_tensor *, struct tcc_tensor *) = {three_f_add, three_f_sub, three_f_mul};
    float x[] = {1, 2, 3}, y[] = {5, 7, 9}, z[3];
    struct tcc_tensor in[] = {{x, TCC_F32, 1, {3}}, {y, TCC_F32, 1, {3}}}, out = {z, TCC_F32, 1, {3}};
    for (int i = 0; i < 3; i++) {
        int status = f[i](in, &out);
        printf("%d: %g %g %g\n", status, z[0], z[1], z[2]);
    }
    return 0;
}
END
printf '0: 6 9 12\n0: -4 -5 -6\n0: 5 14 27\n' >right

# calls MARCH COMPILER RUNTIME [EMULATOR...]
calls() {
    march=$1 cc=$2 runtime=$3
    shift 3
    for kind in so o a; do
        tccc -q --march="$march" --name three three.tcir -H three.h -o three.$kind || fail "$march: no three.$kind"
        for static in '' -static; do
            [ "$kind$static" != so-static ] || continue
            # shellcheck disable=SC2086,SC2046  # words
            $cc -I"$top_srcdir/runtime" -I"$top_srcdir" main.c ./three.$kind $static $([ $kind = so ] || echo "$runtime") -lm -lpthread -ldl -o main >log 2>&1 &&
                "$@" ./main >said 2>&1 && cmp -s said right || fail "$march, .$kind $static: $(cat log said)"
        done
    done
}

[ -n "${INSTRUMENT:-}" ] || calls native "$CC" "$top_builddir/libtccrt.a"
for place in armv8-a:aarch64 rv64gc:riscv64; do
    isa=${place#*:} triplet=${place#*:}-linux-gnu
    if ! command -v "qemu-$isa" >/dev/null 2>&1 || ! [ -f "$top_builddir/$triplet/libtccrt.a" ]; then
        echo "note: no qemu-$isa, or no --with-cross=$triplet (Debian: qemu-user, gcc-$triplet): that part was not run"
        continue
    fi
    calls "${place%:*}" "$triplet-gcc" "$top_builddir/$triplet/libtccrt.a" "qemu-$isa" -L "/usr/$triplet"
done

# Names that are one in C, that the header makes of another one, or that are the artifact's own: each has a function of its own.
{
    for name in main:add model:sub f.a:mul f_a:sub f:add f_run:mul F:sub v0_k0:mul; do
        printf 'func @%s(%%x: f32[1], %%y: f32[1]) -> ("z": f32[1]) {\n  %%z = %s(%%x, %%y)\n  return(%%z)\n}\n' "${name%:*}" "${name#*:}"
    done
} >names.tcir
cat >names.c <<'END'
#include "names.h"
#include <stdio.h>

int main(void)
{
    int (*const f[])(const struct tcc_tensor *, struct tcc_tensor *) = {tccc_main, tccc_model_2, tccc_f_a, tccc_f_a_2, tccc_f, tccc_f_run_2, tccc_F_2, tccc_v0_k0_2};
    float x = 6, y = 7, z;
    struct tcc_tensor in[] = {{&x, TCC_F32, 1, {1}}, {&y, TCC_F32, 1, {1}}}, out = {&z, TCC_F32, 1, {1}};
    for (int i = 0; i < 8; i++) {
        int status = f[i](in, &out);
        printf("%d %g\n", status, (double)z);
    }
    return tccc_model.magic != TCC_MODEL_MAGIC || TCCC_F_A_2_INPUTS != 2;
}
END
printf '0 %d\n' 13 -1 42 -1 13 42 -1 42 >right
for kind in so o; do
    tccc -q --name tccc names.tcir -H names.h -o names.$kind || fail "no names.$kind"
    # shellcheck disable=SC2086,SC2046  # words
    [ -n "${INSTRUMENT:-}" ] ||
        { $CC -Werror -I"$top_srcdir/runtime" -I"$top_srcdir" names.c ./names.$kind $([ $kind = so ] || echo "$top_builddir/libtccrt.a") -lm -lpthread -ldl -o main >log 2>&1 &&
            ./main >said 2>&1 && cmp -s said right; } || fail "names, .$kind: $(cat log said)"
done
for name in tccrt tccdata_f; do
    ! tccc -q --name $name names.tcir -o names.so 2>log && grep -q "error: .*'$name' is a name of the runtime's functions" log || fail "--name=$name: $(cat log)"
done
