# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Shared by tools/quickstart and tools/check: installs the Debian packages that are missing, makes the Python environment
# of the tests, configures and builds. Sourced with `top` set to the source tree. Everything made is in $build, and
# everything can be run again: what is there already is kept.
#
# Environment: TCCC_BUILD  build folder (default: build in the source tree)
#              TCCC_JOBS   parallel jobs (default: one a core)
: "${top:?}"
build=${TCCC_BUILD:-$top/build}
jobs=${TCCC_JOBS:-$(nproc 2>/dev/null || echo 2)}
logs=$build/logs
started=$(date +%s)
steps=0

packages_build="gcc libc6-dev make autoconf automake pkg-config llvm-19-dev lld-19
libjansson-dev libzip-dev zlib1g-dev libxxhash-dev libzstd-dev"
packages_test="libhdf5-103-1
llvm-19-tools clang-19 libclang-rt-19-dev check python3 python3-dev python3-venv cmake binutils
openmpi-bin libucx0 zsh fish meson ninja-build libjpeg62-turbo libopenjp2-7 libpng16-16 libtiff6 libwebp7"

# say TEXT: one line of progress, with the seconds since the start.
say() {
    printf '[%4ds] %s\n' "$(($(date +%s) - started))" "$*"
}

# die TEXT: the end, with a reason.
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# step NAME COMMAND...: say NAME, run COMMAND with its output in a log; where it fails, show the log's end and stop.
step() {
    name=$1
    shift
    steps=$((steps + 1))
    mkdir -p "$logs" || die "cannot write to $build"
    log=$logs/$(printf '%02d' $steps)-$(printf '%s' "$name" | tr -cs 'A-Za-z0-9\n' '-').log
    say "$name"
    "$@" >"$log" 2>&1 </dev/null && return 0
    tail -n 40 "$log" >&2
    die "$name failed; the whole log is $log"
}

# as_root COMMAND...: run as root, by sudo where that is needed.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        die "root or sudo is needed for: $*"
    fi
}

# missing_packages NAME...: those that are not installed.
missing_packages() {
    for name in "$@"; do
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed' || printf '%s ' "$name"
    done
}

# install_packages NAME...: install what is missing, by apt.
install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        say "no apt-get here: taking for granted that these are installed: $*"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    say "installing Debian packages: $missing"
    if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null 2>&1 && ! sudo -n true 2>/dev/null; then
        sudo -v || die "sudo refused; as root: apt-get install $missing"
    fi
    step "apt-get update" as_root apt-get -q update
    # shellcheck disable=SC2086  # a list of names
    step "apt-get install" as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
}

# configure_and_build: the build tree, brought up to date.
configure_and_build() {
    mkdir -p "$build" || die "cannot make $build"
    if ! [ -x "$top/configure" ]; then
        step "autoreconf" sh -c "cd '$top' && autoreconf -fi"
    fi
    if ! [ -f "$build/Makefile" ]; then
        # What else there is a cross compiler for: the tests of other processors are skipped without.
        cross=
        for triplet in aarch64-linux-gnu riscv64-linux-gnu; do
            command -v "$triplet-gcc" >/dev/null 2>&1 && cross=${cross:---with-cross=}${cross:+,}$triplet
        done
        step "configure" sh -c "cd '$build' && '$top/configure' $cross"
    fi
    step "make (on $jobs cores)" make -C "$build" -j "$jobs"
}

# python_environment: $python is a Python with the packages of the tests, in an environment of its own.
python_environment() {
    wanted="numpy==2.4.6 onnx==1.23.2"
    python=$build/venv/bin/python
    if [ "$(cat "$build/venv/wanted" 2>/dev/null)" != "$wanted" ] || ! "$python" -c 'import onnx' >/dev/null 2>&1; then
        rm -rf "$build/venv"
        step "Python environment" python3 -m venv "$build/venv"
        # shellcheck disable=SC2086  # a list of names
        step "pip install $wanted" "$python" -m pip -q install $wanted
        echo "$wanted" >"$build/venv/wanted"
    fi
}
