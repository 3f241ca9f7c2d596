#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A bare Debian, with nothing of tccc's and no compiler: pip installs the runtime's wheel there, which runs an artifact from numpy; apt installs libtccrt0*.deb, with which the C
# samples run. Prints TAP. Run by tools/check --peers: it needs root, debootstrap, debhelper and, the first time, the network.
# usage: container.sh BUILD: BUILD/container keeps the root folder and the packages; they are made where they are missing, the packages anew for another commit.
top_srcdir=$(cd "$(dirname "$0")/.." && pwd)
top_builddir=$(cd "${1:?usage: container.sh BUILD}" && pwd)
. "$top_srcdir/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
kept=$top_builddir/container root=$tmp/root samples=$top_srcdir/samples digits=$top_srcdir/samples/digits

for need in debootstrap dh dpkg-buildpackage chroot; do
    command -v "$need" >/dev/null 2>&1 || { echo "ok 1 - a bare Debian # SKIP no $need here" && echo "1..1" && exit 0; }
done
[ "$(id -u)" -eq 0 ] || { echo "ok 1 - a bare Debian # SKIP this needs root" && echo "1..1" && exit 0; }
[ -f "$top_builddir/python/tccc/_runtime.abi3.so" ] || { echo "ok 1 - a bare Debian # SKIP built without Python.h" && echo "1..1" && exit 0; }

n=0
result() {
    n=$((n + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $n - $1"
    else
        tail -n 15 "$tmp/log" | sed 's/^/# /'
        echo "not ok $n - $1"
    fi
}
inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# The root folder: Debian's minimum, Python with pip and numpy.
mkdir -p "$kept" || exit 1
if ! [ -f "$kept/root.tar" ]; then
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    debootstrap --variant=minbase --include=python3-pip,python3-numpy "$suite" "$root" >"$tmp/log" 2>&1 && tar -C "$root" -cf "$kept/root.tar.part" . && mv "$kept/root.tar.part" "$kept/root.tar"
    result "debootstrap makes a root folder" $?
else
    mkdir "$root" && tar -C "$root" -xf "$kept/root.tar"
    result "the root folder" $?
fi
[ -x "$root/usr/bin/python3" ] || { echo "1..$n" && exit 1; }
! inside sh -c 'command -v cc || command -v tccc || ls /usr/lib/*/libtccrt*' >"$tmp/log" 2>&1
result "nothing of tccc's is there, and no compiler" $?

# What runs there, compiled here.
mkdir "$root/work" && tccc "$digits/digits.onnx" -o "$root/work/digits.so" >"$tmp/log" 2>&1 && cp "$digits"/digit-*.pgm "$digits"/*.idx*-ubyte "$root/work"
result "an artifact" $?

# The wheel.
"$TEST_PYTHON" "$top_srcdir/tools/python/wheel.py" --only=tccc_runtime --version=0.0 --licence="$top_srcdir/LICENSE" "$top_builddir/python/tccc" "$root/work/dist" >"$tmp/log" 2>&1 &&
    inside sh -c 'pip install --no-index --no-deps --break-system-packages /work/dist/tccc_runtime-*.whl' >"$tmp/log" 2>&1
result "pip install of the runtime's wheel" $?
cat >"$root/work/digits.py" <<'END'
import numpy as np
import tccc

with open("/work/pictures.idx3-ubyte", "rb") as f:
    data = np.frombuffer(f.read(), np.uint8)[16:].reshape(-1, 1, 28, 28)
with open("/work/labels.idx1-ubyte", "rb") as f:
    labels = np.frombuffer(f.read(), np.uint8)[8:]
m = tccc.load("/work/digits.so")
y = m(data.astype(np.float32) / 255)
assert y.shape == (len(labels), 10) and y.dtype == np.float32
right = int((y.argmax(1) == labels).sum())
print(f"{right} of {len(labels)}")
assert right >= 0.97 * len(labels)
try:
    tccc.compile("/work/none.onnx")
except tccc.UnavailableError as e:
    print(e)
else:
    raise SystemExit("the runtime's wheel compiles")
END
inside python3 /work/digits.py >"$tmp/log" 2>&1
status=$?
result "an artifact runs from numpy: $(head -n 1 "$tmp/log")" $status

# The Debian package.
stamp=$(git -C "$top_srcdir" rev-parse HEAD 2>/dev/null)
if ! [ -f "$kept/stamp" ] || [ "$(cat "$kept/stamp")" != "$stamp" ]; then
    rm -rf "$kept/source" "$kept"/*.deb
    mkdir "$kept/source" && git -C "$top_srcdir" archive HEAD | tar -C "$kept/source" -x &&
        (cd "$kept/source" && DEB_BUILD_OPTIONS=parallel=2 dpkg-buildpackage -b -us -uc -Ppkg.tccc.nocompiler >"$tmp/log" 2>&1) && echo "$stamp" >"$kept/stamp"
    result "dpkg-buildpackage" $?
fi
cp "$kept"/libtccrt0_*.deb "$root/work" 2>"$tmp/log" && inside sh -c 'apt-get install -y /work/libtccrt0_*.deb' >"$tmp/log" 2>&1
result "apt install ./libtccrt0*.deb" $?

# C samples with that library: built here, against the headers of this tree.
sample() {
    name=$1
    shift
    $CC -std=gnu17 -O2 -I"$top_srcdir/runtime" -I"$tmp" "$samples/$name/$name.c" "$@" -L"$top_builddir" -l:libtccrt.so.0 -lm -lpthread -o "$root/work/$name" >"$tmp/log" 2>&1
}
tccc "$digits/digits.onnx" -o "$tmp/digits.a" -H "$tmp/digits.h" >"$tmp/log" 2>&1 && tccc --name=again -O1 "$digits/digits.onnx" -o "$tmp/again.a" >"$tmp/log" 2>&1 &&
    sample image && sample dlopen && sample embed "$tmp/digits.a" && sample two-models "$tmp/digits.a" "$tmp/again.a"
result "C samples are built" $?
for d in 0 1 2 3 4 5 6 7 8 9; do
    inside /work/image /work/digits.so "/work/digit-$d.pgm" >"$tmp/log" 2>&1 && grep -q "^label: $d (" "$tmp/log" || break
done
[ "$d" = 9 ] && grep -q '^label: 9 (' "$tmp/log"
result "samples/image there" $?
inside /work/dlopen /work/digits.so >"$tmp/log" 2>&1 && grep -q '^probabilities = [0-9]' "$tmp/log"
result "samples/dlopen there" $?
inside /work/embed /work/digit-4.pgm >"$tmp/log" 2>&1 && grep -q '^label: 4$' "$tmp/log"
result "samples/embed there" $?
inside /work/two-models >"$tmp/log" 2>&1 && grep -q 'all answers equal' "$tmp/log"
result "samples/two-models there" $?
inside sh -c 'ldd /work/image | grep libtccrt' >"$tmp/log" 2>&1 && grep -q '=> /.*lib/.*libtccrt.so.0' "$tmp/log"
result "the library is the package's" $?
inside apt-get remove -y libtccrt0 >"$tmp/log" 2>&1 && ! inside /work/image /work/digits.so /work/digit-1.pgm >"$tmp/log" 2>&1
result "without the package they do not run" $?
echo "1..$n"
