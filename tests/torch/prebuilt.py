# SPDX-License-Identifier: Apache-2.0
"""Makes the libraries for PyTorch that the wheels bring, one for each release,
in a package that a wheel was unpacked to.

    prebuilt.py FOLDER PACKAGE ARCHITECTURE ZIG

FOLDER keeps what is fetched: headers and libraries of each release of PyTorch and
of both CUDA runtimes, and the C++ library of Debian 12, the architecture's, which
Zig's own is not compatible with. glibc's part is Zig's, 2.28.

The libraries name libc10, libc10_cuda and libmoiety.so.0 as what they need, and
leave it to these which CUDA runtime there is. What they want of all of them is
looked up in PyTorch's own, which are x86-64's, as the names are the same: of 2.9
and 2.10 there are no CUDA wheels for aarch64 in the index. A library that would
differ between the runtimes is refused. Needs pyelftools, which auditwheel brings.
"""

import concurrent.futures
import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

import wheels

HERE = Path(__file__).resolve().parent
GCC = ("http://deb.debian.org/debian/pool/main/g/gcc-12/"
       "{}_12.2.0-14+deb12u1_{}.deb")
DEBIANS = {"x86_64": "amd64", "aarch64": "arm64"}
PACKAGES = {  # and their SHA-256
    "amd64": {
        "libstdc++-12-dev":
        "d28def6c23630432b57cb38a4c2fd67a79d4e0484027386ca6e8d6005c3d7a73",
        "libstdc++6":
        "5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d",
        "libgcc-s1":
        "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
    },
    "arm64": {
        "libstdc++-12-dev":
        "b74b18927037498c10c8c5dd7a0abe132b4d90188ca5d6e899a4f777c6d52a74",
        "libstdc++6":
        "26e138c677a985775331373828a6c286c551ff397cb735d00e2383cb273d1cb2",
        "libgcc-s1":
        "576926b283613db80168ddf76380a3bd877602778cf0d226caa7bfbfa71eacf3",
    },
}
# Libraries that are in the process, or beside the package's.
NEEDED = ["libc10.so", "libc10_cuda.so", "libmoiety.so.0"]
# Of glibc 2.32, which Zig's headers of 2.28 refuse: what it says is "perhaps".
SINGLE_THREADED = "static const char __libc_single_threaded = 0;\n"
ENABLE = """
import ctypes, sys
library = [ctypes.CDLL(path) for path in sys.argv[1:]][-1]
options = (ctypes.c_uint32 * 6)(24)  # moiety_torch_options: its size, and defaults
said = library.moiety_last_error_message
said.restype = ctypes.c_char_p
sys.exit(said().decode() if library.moiety_torch_enable(options) else 0)
"""
AR_MAGIC, AR_HEADER_BYTES = b"!<arch>\n", 60


def unpack_debian(data, folder):
    """A Debian package: an ar archive with a tar archive."""
    at = len(AR_MAGIC)
    while at < len(data):
        name = data[at:at + 16].rstrip()
        size = int(data[at + 48:at + 58])
        at += AR_HEADER_BYTES
        if name.startswith(b"data.tar"):
            with tarfile.open(fileobj=io.BytesIO(data[at:at + size])) as inside:
                inside.extractall(folder, filter="tar")
        at += size + size % 2


def fetch_cxx_library(architecture, folder):
    debian = DEBIANS[architecture]
    for name, wanted in PACKAGES[debian].items():
        url = GCC.format(name, debian)
        _, data = wheels.ask(url, {})
        if hashlib.sha256(data).hexdigest() != wanted:
            raise SystemExit(f"{url}: it is another file than before")
        unpack_debian(data, folder)


def once(folder, fetch):
    """What was fetched before is not fetched again."""
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch(folder)
        (folder / "ready").touch()
    return folder


def run(words):
    done = subprocess.run([str(word) for word in words], text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr}")


class Maker:
    def __init__(self, store, package, architecture, zig):
        self.store, self.package = store, package
        self.sources = package / "_torch/csrc"
        self.target = ("-target", f"{architecture}-linux-gnu.2.28")
        self.architecture, self.zig = architecture, zig
        self.cxx = once(store / f"cxx-{architecture}", lambda folder:
                        fetch_cxx_library(architecture, folder))
        self.cudas = {major: once(store / f"cuda-{major}", lambda folder, major
                                  =major: wheels.fetch_cuda(major, folder, True))
                      for major in recipe.CUDAS}

    def torch(self, release):
        return once(self.store / f"torch-{release}", lambda folder:
                    wheels.fetch_torch(release, folder,
                                       wheels.HEADERS + wheels.LIBRARIES))

    def include_flags(self, release, major):
        overlay = self.store / "overlay/sys/single_threaded.h"
        overlay.parent.mkdir(parents=True, exist_ok=True)
        overlay.write_text(SINGLE_THREADED)
        headers = self.cxx / "usr/include"
        # Before Zig's headers of C, for which these have #include_next.
        before = (overlay.parents[1], headers / "c++/12", headers /
                  f"{self.architecture}-linux-gnu/c++/12")
        after = (self.sources / "include", self.torch(release) /
                 "torch/include", *(self.cudas[major] / folder for folder
                                    in wheels.CUDAS[major].folders))
        return ["-nostdinc++", *(f"-I{folder}" for folder in before),
                *(word for folder in after for word in ("-isystem", folder))]

    def compile(self, release, major, folder):
        words = [self.zig, "c++", *self.target, *recipe.FLAGS, "-g0",
                 "-D_GLIBCXX_USE_CXX11_ABI=1", *recipe.macros(release),
                 *self.include_flags(release, major)]
        folder.mkdir(parents=True, exist_ok=True)

        def compile_one(source):
            target = folder / f"{source.stem}.o"
            run([*words, "-c", source, "-o", target])
            return target

        older = folder / "older_libstdcxx.o"
        run([self.zig, "cc", *self.target, "-O2", "-fPIC", "-fexceptions", "-g0",
             "-c", HERE / "older_libstdcxx.c", "-o", older])
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            return [*threads.map(compile_one, recipe.sources(self.sources)),
                    older]

    def stand_for(self, name):
        """A library to be named as what is needed, with nothing in it."""
        path = self.store / f"stand-{self.architecture}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        run([self.zig, "cc", *self.target, "-shared", f"-Wl,-soname,{name}",
             "-x", "c", "/dev/null", "-o", path])
        return path

    def link(self, objects, target):
        libraries = self.cxx / f"usr/lib/{self.architecture}-linux-gnu"
        # By cc: Zig's c++ would bring another C++ library, and an unwinder.
        run([self.zig, "cc", *self.target, "-shared", "-s", *objects,
             "-Wl,--no-as-needed", *map(self.stand_for, NEEDED[:2]),
             "-Wl,--as-needed", self.package / "libmoiety.so.0", libraries / "libstdc++.so.6",
             self.cxx / f"lib/{self.architecture}-linux-gnu/libgcc_s.so.1",
             "-Wl,--gc-sections", "-Wl,-z,nodelete",
             "-Wl,-rpath,$ORIGIN/../..", "-o", target])

    def make(self, release):
        scratch = self.store / f"made-{self.architecture}"
        made = []
        for major in recipe.CUDAS:
            made.append(scratch / f"{release}-{major}.so")
            self.link(self.compile(release, major, scratch /
                                   f"{release}-{major}"), made[-1])
        if len({path.read_bytes() for path in made}) != 1:
            raise SystemExit(f"{release}: each CUDA runtime wants a library of "
                             f"its own")
        self.check(release, made[0])
        if self.architecture == platform.machine():
            self.try_it(release, made[0])
        number = release.rpartition(".")[0]
        target = (self.package / "_torch/prebuilt" /
                  recipe.prebuilt_name(number, self.sources))
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(made[0].read_bytes())
        return target

    def try_it(self, release, library):
        """Makes it the allocator of the release's own libraries."""
        torch = self.torch(release)
        for major, folder in self.cudas.items():
            # libc10_cuda needs the runtime by the name of the release's own.
            runtime = folder / wheels.CUDAS[major].library
            if runtime.name in needed(torch / wheels.LIBRARIES[1]):
                run([sys.executable, "-c", ENABLE, self.package /
                     "libmoiety.so.0", runtime,
                     *(torch / name for name in wheels.LIBRARIES), library])

    def check(self, release, library):
        """What it wants of others without naming which is what these have."""
        if needed(library)[:len(NEEDED)] != NEEDED:
            raise SystemExit(f"{library} needs {', '.join(needed(library))}")
        torch = self.torch(release)
        for major, folder in self.cudas.items():
            there = set().union(*map(exported, (
                self.package / "libmoiety.so.0",
                *(torch / name for name in wheels.LIBRARIES),
                folder / wheels.CUDAS[major].library)))
            missing = wanted(library) - there
            if missing:
                raise SystemExit(f"{library}: nothing with CUDA {major} has "
                                 f"{', '.join(sorted(missing))}")


def symbols(library):
    with open(library, "rb") as file:
        yield from enumerate(
            ELFFile(file).get_section_by_name(".dynsym").iter_symbols())


def needed(library):
    with open(library, "rb") as file:
        tags = ELFFile(file).get_section_by_name(".dynamic").iter_tags()
        return [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]


def exported(library):
    return {one.name for _, one in symbols(library)
            if one["st_shndx"] != "SHN_UNDEF"}


def wanted(library):
    """Without those that the linker found in glibc, libstdc++ or libgcc, which
    have a version, and without those that may be missing."""
    with open(library, "rb") as file:
        versions = ELFFile(file).get_section_by_name(".gnu.version")
        numbers = [one["ndx"] for one in versions.iter_symbols()]
    return {one.name for i, one in symbols(library)
            if one["st_shndx"] == "SHN_UNDEF" and one.name and
            one["st_info"]["bind"] != "STB_WEAK" and
            numbers[i] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")}


def main(store, package, architecture, zig):
    maker = Maker(Path(store).resolve(), Path(package).resolve(), architecture,
                  zig)
    for release in wheels.RELEASES:
        made = maker.make(release)
        print(f"{made.name}: {made.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    # The recipe that the package has.
    sys.path.insert(0, str(Path(sys.argv[2]) / "_torch"))
    import recipe  # pylint: disable=wrong-import-position
    main(*sys.argv[1:])
