#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the wheels of the Python package (make wheel): zip files after the binary distribution format (PEP 427), with the standard library alone.

usage: wheel.py --version=V --licence=FILE [--lld=PROGRAM] [--llvm=LIBRARY] [--libraries=DIR:...] [--level=N] [--only=NAME] PACKAGE DIST
       wheel.py --version=V --metadata=FOLDER

PACKAGE is the folder tccc that make python-package has filled. tccc-V is all of it, with the libraries that libtccc and the linker need but for those that any
Linux has (glibc, libstdc++, libgcc_s); tccc_runtime-V is what runs artifacts. Both hold the same files where they hold files of the same name.
The machine in a wheel's name is that of the files; of a cross build the libraries are looked for in --libraries, and STRIP names the program that strips.
Wheels depend on their contents only: equal input, equal bytes.
"""
import argparse
import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import zipfile

# What the manylinux policy takes for granted (PEP 600), in names without versions.
SYSTEM = re.compile(r"^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|libstdc\+\+|linux-vdso)\.so\b")
COMPILER_ONLY = ("_compiler.abi3.so", "lib/libtccc.so.0", "lib/libtccrt.a")


MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}  # e_machine by its name in tags


def machine_of(data):
    """The processor that a program or library, or its first 20 bytes, is for."""
    number, = struct.unpack_from("<H", data, 18)
    return MACHINES.get(number, f"machine {number} of ELF")


def machine(path):
    with open(path, "rb") as f:
        return machine_of(f.read(20))


def needed(path, folders=()):
    """The libraries that a program or library loads: {name: path}; those of another machine are looked for in folders."""
    if not folders:
        text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True, env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}).stdout
        return {n: p for n, p in re.findall(r"^\s*(\S+) => (/\S+)", text, re.M) if not SYSTEM.match(n)}
    found, todo = {}, [path]
    while todo:
        text = subprocess.run(["readelf", "-d", todo.pop()], capture_output=True, text=True, check=True, env={"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}).stdout
        for name in re.findall(r"\(NEEDED\).*\[(\S+)\]", text):
            if not SYSTEM.match(name) and name not in found:
                places = [os.path.join(d, name) for d in folders if os.path.exists(os.path.join(d, name))]
                if not places:
                    sys.exit(f"wheel.py: {name} is in none of {':'.join(folders)}")
                found[name] = places[0]
                todo.append(places[0])
    return found


def with_rpath(data):
    """An ELF file whose DT_RUNPATH is DT_RPATH: what it names is then looked for there too when its libraries load others."""
    if data[:4] != b"\x7fELF" or data[4] != 2:
        return data
    data = bytearray(data)
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for k in range(count):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + k * size)
        if kind == 2:                                    # PT_DYNAMIC
            for p in range(at, at + length, 16):
                if struct.unpack_from("<Q", data, p)[0] == 29:
                    struct.pack_into("<Q", data, p, 15)
    return bytes(data)


SUMMARIES = {"tccc": "An ahead-of-time compiler for neural networks", "tccc_runtime": "Runs neural networks that tccc has compiled"}


def metadata(name, version):
    """What Python knows of an installed package; torch.compile finds its backend by the entry point; the other is called by `import torch`."""
    return {"METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\nSummary: {SUMMARIES[name]}\nLicense: Apache-2.0\n"
                        "Requires-Python: >=3.11\nRequires-Dist: numpy\n\n",
            "entry_points.txt": "[torch_dynamo_backends]\ntccc = tccc.dynamo:backend\n[torch.backends]\ntccc = tccc._autoload:tell_accelerate\n"}


class Wheel:
    def __init__(self, dist, name, version, tag, level):
        self.info = f"{name}-{version}.dist-info"
        self.tag = tag
        self.path = os.path.join(dist, f"{name}-{version}-{tag}.whl")
        self.zip = zipfile.ZipFile(self.path + ".tmp", "w", zipfile.ZIP_DEFLATED, compresslevel=level)
        self.record = []
        self.name, self.version = name, version

    def add(self, name, data, mode=0o644):
        if data[:4] == b"\x7fELF" and not self.tag.endswith(f"_{machine_of(data)}"):
            sys.exit(f"wheel.py: {name} is for {machine_of(data)}, the wheel for {self.tag}: of a cross build the libraries and --lld are the other machine's")
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, licence):
        for name, text in metadata(self.name, self.version).items():
            self.add(f"{self.info}/{name}", text.encode())
        self.add(f"{self.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tccc\nRoot-Is-Purelib: false\nTag: {self.tag}\n".encode())
        self.add(f"{self.info}/LICENSE", open(licence, "rb").read())
        record = f"{self.info}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(record, (1980, 1, 1, 0, 0, 0)), "".join(line + "\n" for line in (*self.record, record + ",,")))
        self.zip.close()
        os.replace(self.path + ".tmp", self.path)
        print(f"{self.path}: {os.path.getsize(self.path) / 1e6:.1f} MB")


def stripped(path):
    """Its bytes without symbols, where a strip for its machine is there."""
    out = path + ".stripped"
    try:
        subprocess.run([os.environ.get("STRIP", "strip"), "--strip-unneeded", "-o", out, path], check=True, capture_output=True)
        with open(out, "rb") as f:
            return f.read()
    except (OSError, subprocess.CalledProcessError):
        with open(path, "rb") as f:
            return f.read()
    finally:
        if os.path.exists(out):
            os.remove(out)


def files(package):
    for folder, folders, names in sorted(os.walk(package)):
        folders[:] = sorted(d for d in folders if d != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, package), path


def contents(path, name):
    if name.endswith((".so", ".so.0")):
        return stripped(path)
    with open(path, "rb") as f:
        return f.read()


def whole(wheel, package, lld, llvm, folders):
    """What the compiler needs beside what is ours; LLVM it loads when it compiles."""
    libraries = needed(os.path.join(package, "lib/libtccc.so.0"), folders)
    if llvm:
        libraries.update({os.path.basename(llvm): llvm, **needed(llvm, folders)})
    if lld:
        lld = os.path.realpath(lld)
        libraries.update(needed(lld, folders))
        wheel.add("tccc/lld/ld.lld", with_rpath(open(lld, "rb").read()), 0o755)
    for name, path in sorted(libraries.items()):
        if not os.path.exists(os.path.join(package, "lib", name)):
            with open(path, "rb") as f:
                wheel.add(f"tccc/lib/{name}", with_rpath(f.read()), 0o755)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--version", required=True)
    p.add_argument("--licence")
    p.add_argument("--metadata", metavar="FOLDER", help="write only what an installation has beside the package")
    p.add_argument("--lld", default="")
    p.add_argument("--llvm", default="", metavar="LIBRARY")
    p.add_argument("--libraries", default="", metavar="DIR:...", help="where the libraries of another machine's wheel are")
    p.add_argument("--level", type=int, default=int(os.environ.get("WHEEL_LEVEL", "6")))
    p.add_argument("--only", choices=("tccc", "tccc_runtime"))
    p.add_argument("package", nargs="?")
    p.add_argument("dist", nargs="?")
    a = p.parse_args()
    if a.metadata:
        for name, text in metadata("tccc", a.version).items():
            with open(os.path.join(a.metadata, name), "w") as f:
                f.write(text)
        return
    if not (a.licence and a.package and a.dist):
        p.error("--licence, PACKAGE and DIST are needed")
    os.makedirs(a.dist, exist_ok=True)
    has_compiler = os.path.exists(os.path.join(a.package, "_compiler.abi3.so"))
    tag = f"cp311-abi3-linux_{machine(os.path.join(a.package, '_runtime.abi3.so'))}"
    wheels = [Wheel(a.dist, "tccc_runtime", a.version, tag, a.level)] if a.only != "tccc" else []
    if has_compiler and a.only != "tccc_runtime":
        wheels.append(Wheel(a.dist, "tccc", a.version, tag, a.level))
    for name, path in files(a.package):
        data = contents(path, name)
        for wheel in wheels:
            if wheel.name == "tccc" or name not in COMPILER_ONLY:
                wheel.add(f"tccc/{name}", data, 0o755 if name.endswith((".so", ".so.0")) else 0o644)
    for wheel in wheels:
        if wheel.name == "tccc":
            whole(wheel, a.package, a.lld, a.llvm, [d for d in a.libraries.split(":") if d])
        wheel.close(a.licence)


if __name__ == "__main__":
    sys.exit(main())
