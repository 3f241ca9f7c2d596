# An installation works where it was put, and moved elsewhere: an installed tccc finds the runtime and the headers; the
# rules for make and for CMake compile a model as a build step and compile it again when it has changed; for AArch64, too, where the compiler is one for that.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
model=$top_srcdir/samples/digits/digits.onnx
picture=$top_srcdir/samples/digits/digit-3.pgm

(cd "$top_builddir" && MAKEFLAGS='' make install prefix="$tmp/first") >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "make install"; }
mv "$tmp/first" "$tmp/inst" || fail "no installation"
for tool in "$tmp"/inst/bin/tccc*; do
    [ -r "$tmp/inst/share/bash-completion/completions/${tool##*/}.bash" ] || fail "bash completes no ${tool##*/}"
    [ -r "$tmp/inst/share/fish/vendor_completions.d/${tool##*/}.fish" ] || fail "fish completes no ${tool##*/}"
done
unset TCCC_LIBDIR
PATH=$tmp/inst/bin:$PATH
export PATH
cp "$top_srcdir/samples/embed/embed.c" "$tmp/app.c"

# What pkg-config says, of the moved installation.
cat >"$tmp/inst/bin/pkg-config" <<END
#!/bin/sh
PKG_CONFIG_PATH=$tmp/inst/lib/pkgconfig exec $(command -v pkg-config || echo false) --define-variable=prefix=$tmp/inst "\$@"
END
chmod +x "$tmp/inst/bin/pkg-config"

# page LANGUAGE N: the N-th block in that language of doc/build-step.md.
page() {
    awk -v fence="^\`\`\`$1\$" -v n="$2" '$0 ~ fence && ++k == n { on = 1; next } /^```$/ { on = 0 } on' "$top_srcdir/doc/build-step.md"
}

# make, with the page's rules: built, run, not built again, built again after a change of the model.
mkdir "$tmp/make" && cd "$tmp/make" || fail "no folder"
cp "$model" digits.onnx
cp "$tmp/app.c" .
{ echo 'CFLAGS = $(INSTRUMENT)' && echo 'LDFLAGS = $(INSTRUMENT)' && page make 1; } >Makefile
grep -q 'digits.a' Makefile || fail "doc/build-step.md has no rules for make"
export INSTRUMENT
MAKEFLAGS=''
export MAKEFLAGS
expect_status 0 make app digits.so
expect_status 0 ./app "$picture" # it brings the runtime with it
grep -q '^label: 3$' "$tmp/out" || fail "the program built by make: $(cat "$tmp/out")"
sleep 1
touch app.c # the default goal is the Makefile's first target, also when there are dependency files
expect_status 1 make -q
expect_status 0 make
grep -q -e '-o app' "$tmp/out" || fail "make without a goal: $(cat "$tmp/out")"
expect_status 0 make -q app digits.so
grep -q 'digits.onnx' digits.a.tccc.d || fail "the dependency file does not name the model"
sleep 1
touch digits.onnx
expect_status 1 make -q app

# The two lines that do without its rules.
page make 2 >two.mk
expect_status 0 make -f two.mk digits.so
touch digits.onnx
expect_status 1 make -q -f two.mk digits.so

# A traced program, with the compiler as a library that finds the runtime where it was put.
mkdir "$tmp/trace" && cd "$tmp/trace" || fail "no folder"
if [ -z "${INSTRUMENT:-}" ]; then
    # shellcheck disable=SC2046  # flags
    $CC -O1 "$top_srcdir/samples/trace-mnist/trace-mnist.c" $(pkg-config --cflags --libs tccc) -lm -o trace-mnist || fail "trace-mnist"
    LD_LIBRARY_PATH=$tmp/inst/lib expect_status 0 ./trace-mnist "$top_srcdir/samples/digits" "$top_srcdir/samples/digits" 1
    grep -q '^graphs: 12 traced, 2 compiled, 0 loaded, 12 executed$' "$tmp/out" || fail "$(cat "$tmp/out")"
fi

# Meson: the same.
if command -v meson >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 && [ -z "${INSTRUMENT:-}" ]; then
    mkdir "$tmp/meson" && cd "$tmp/meson" || fail "no folder"
    cp "$model" "$tmp/app.c" .
    { echo "project('app', 'c')" && page meson 1; } >meson.build
    expect_status 0 meson setup out
    expect_status 0 ninja -C out
    expect_status 0 out/app "$picture"
    grep -q '^label: 3$' "$tmp/out" || fail "the program built by Meson: $(cat "$tmp/out")"
    expect_status 0 ninja -C out
    grep -q 'no work to do' "$tmp/out" || fail "Meson compiled an unchanged model again"
    sleep 1
    touch digits.onnx
    expect_status 0 ninja -C out
    ! grep -q 'no work to do' "$tmp/out" || fail "Meson did not compile a changed model again"
else
    echo "note: no Meson here, or an instrumented build: that part was not run"
fi

# pkg-config: a program that opens artifacts.
mkdir "$tmp/pkg" && cd "$tmp/pkg" || fail "no folder"
if [ -z "${INSTRUMENT:-}" ]; then
    tccc "$model" -o digits.so || fail "digits.so"
    # shellcheck disable=SC2046  # flags
    $CC -O1 "$top_srcdir/samples/dlopen/dlopen.c" $(pkg-config --cflags --libs tccrt) -o dlopen || fail "a program by pkg-config"
    expect_status 0 ./dlopen ./digits.so
    # shellcheck disable=SC2046  # flags
    $CC -O1 "$top_srcdir/tests/train/pictures.c" $(pkg-config --cflags --libs tccdata) -o pictures || fail "a program of pictures by pkg-config"
    expect_status 0 ./pictures "$picture" 1 28 28 0 0 f32 0 1
    # shellcheck disable=SC2046
    $CC -O1 "$top_srcdir/tests/train/pictures.c" $(pkg-config --cflags tccdata) -L"$tmp/inst/lib" -ltccdata -Wl,-rpath,"$tmp/inst/lib" -o pictures || fail "a program that shares libtccdata.so"
    expect_status 0 ./pictures "$picture" 1 28 28 0 0 f32 0 1
fi

# CMake: the same.
if command -v cmake >/dev/null 2>&1; then
    mkdir "$tmp/cmake" && cd "$tmp/cmake" || fail "no folder"
    cp "$model" "$tmp/app.c" .
    { echo 'cmake_minimum_required(VERSION 3.20)' && echo 'project(app C)' && page cmake 1; } >CMakeLists.txt
    expect_status 0 cmake -B out -G 'Unix Makefiles' -DCMAKE_PREFIX_PATH="$tmp/inst" "-DCMAKE_C_FLAGS=${INSTRUMENT:-}"
    expect_status 0 cmake --build out
    expect_status 0 out/app "$picture"
    grep -q '^label: 3$' "$tmp/out" || fail "the program built by CMake: $(cat "$tmp/out")"
    [ -f out/plugin.so ] || fail "no plugin.so"
    expect_status 0 cmake --build out
    ! grep -q 'Compiling the model' "$tmp/out" || fail "CMake compiled an unchanged model again"
    sleep 1
    touch digits.onnx
    expect_status 0 cmake --build out
    grep -q 'Compiling the model' "$tmp/out" || fail "CMake did not compile a changed model again"
else
    echo "note: no cmake here, that part was not run"
fi

# Another processor: what the compiler, a toolchain file or a cross file says is the models' processor, too.
arm=aarch64-linux-gnu
if [ -n "${INSTRUMENT:-}" ] || ! [ -e "$tmp/inst/lib/$arm/libtccrt.a" ] || ! command -v qemu-aarch64 >/dev/null 2>&1; then
    echo "note: an instrumented build, or no --with-cross=$arm or qemu-aarch64 (Debian: gcc-$arm, qemu-user): that part was not run"
    exit 0
fi
# runs PROGRAM: in the emulator.
runs() {
    expect_status 0 qemu-aarch64 -L "/usr/$arm" "$1" "$picture"
    grep -q '^label: 3$' "$tmp/out" || fail "$1: $(cat "$tmp/out")"
}
mkdir "$tmp/arm" && cd "$tmp/arm" || fail "no folder"
cp "$model" "$tmp/app.c" .
page make 1 >Makefile
expect_status 0 make app CC=$arm-gcc
runs ./app
if command -v meson >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1; then
    { echo "project('app', 'c')" && page meson 2; } >meson.build
    printf "[binaries]\nc = '%s-gcc'\n[host_machine]\nsystem = 'linux'\ncpu_family = 'aarch64'\ncpu = 'cortex-a72'\nendian = 'little'\n" $arm >cross.ini
    expect_status 0 meson setup --cross-file cross.ini meson
    expect_status 0 ninja -C meson
    runs meson/app
fi
if command -v cmake >/dev/null 2>&1; then
    { echo 'cmake_minimum_required(VERSION 3.20)' && echo 'project(app C)' && page cmake 1; } >CMakeLists.txt
    printf 'set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR aarch64)\nset(CMAKE_C_COMPILER %s-gcc)\nset(CMAKE_FIND_ROOT_PATH /usr/%s)\n' $arm $arm >toolchain.cmake
    echo 'set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)' >>toolchain.cmake
    expect_status 0 cmake -B cmake -G 'Unix Makefiles' --toolchain toolchain.cmake "-Dtccc_DIR=$tmp/inst/lib/cmake/tccc"
    expect_status 0 cmake --build cmake
    runs cmake/app
fi
