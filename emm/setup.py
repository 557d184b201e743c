# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: the library, libbinade.so.0, and beside it the two C
modules, with the C compiler that CC names or else cc, in parallel.

The C sources are those of the checkout that this folder is a part of, or the
copies that an sdist carries in csrc/. Which of them make the library is told
by where they lie and by what is no program, so that there is no list that could
lag behind the BUILD files; tests/emm/wheel_test.py compares the outcomes.
"""

import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
CARRIED = HERE / "csrc"
ROOT = CARRIED if CARRIED.is_dir() else HERE.parent
VERSION_HEADER = ROOT / "pool/include/binade/version.h"

# The floors under emm/ (the stand-in driver is a library of its own), and the
# C modules.
LIBRARY_FOLDERS = ("pool", "numa")
OTHER_LIBRARY = "pool/standin"
MODULE_FOLDERS = {"_native": "emm/native", "_nep49": "emm/nep49"}
CARRIED_SUFFIXES = {".c", ".h", ".inc", ".map"}

FLAGS = ["-std=c11", "-Werror=implicit-function-declaration", "-O2", "-DNDEBUG",
         "-fPIC", "-fvisibility=hidden", "-fno-omit-frame-pointer",
         "-ffunction-sections", "-fdata-sections"]


def version():
    text = VERSION_HEADER.read_text()
    return re.search(r'BINADE_VERSION_STRING "([^"]+)"', text).group(1)


def is_program(path):
    return re.search(r"^int main\(", path.read_text(), re.MULTILINE)


def library_sources():
    """Paths from ROOT, sorted."""
    found = [path.relative_to(ROOT) for folder in LIBRARY_FOLDERS
             for path in (ROOT / folder).rglob("*.c") if not is_program(path)]
    return sorted(str(path) for path in found
                  if not path.is_relative_to(OTHER_LIBRARY))


def carried_files():
    """What of ROOT an sdist needs."""
    folders = [*LIBRARY_FOLDERS, *MODULE_FOLDERS.values()]
    found = [path.relative_to(ROOT) for folder in folders
             for path in (ROOT / folder).rglob("*")
             if path.suffix in CARRIED_SUFFIXES]
    return sorted(str(path) for path in found
                  if not path.is_relative_to(OTHER_LIBRARY))


def compiler():
    return shlex.split(os.environ.get("CC", "cc"))


def flags_from(name):
    return shlex.split(os.environ.get(name, ""))


def run(command):
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    except OSError as error:
        raise SystemExit(f"no C compiler: {command[0]}: {error.strerror}")
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stderr}")


def include_flags(source):
    flags = ["-I.", "-Ipool/include"]
    if source.startswith("numa/"):
        flags.append("-D_GNU_SOURCE")  # which files of pool/ define themselves
    if source.startswith(MODULE_FOLDERS["_nep49"]):
        # Before Python's, where Debian has the headers of a NumPy of its own.
        import numpy
        flags += ["-isystem", numpy.get_include()]
    if source.startswith("emm/"):
        flags += ["-isystem", sysconfig.get_path("include")]
    return flags


def compile_all(sources, folder):
    """Returns the object files, in the order of the sources."""
    def compile_one(source):
        target = Path(folder).resolve() / Path(source).with_suffix(".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        run([*compiler(), *FLAGS, *include_flags(source),
             *flags_from("CFLAGS"), "-c", source, "-o", str(target)])
        return str(target)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def link(objects, target, *flags):
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    run([*compiler(), "-shared", "-Wl,--as-needed", "-Wl,--gc-sections",
         "-o", str(Path(target).resolve()), *objects, *flags,
         *flags_from("LDFLAGS")])


class BuildBinade(build_ext):
    """The library first: the modules are linked to it."""

    def library_path(self):
        folder = Path(self.get_ext_fullpath("binade._native")).parent
        return (folder / "libbinade.so.0").resolve()

    def run(self):
        script = "pool/install/libbinade.map"
        link(compile_all(library_sources(), self.build_temp),
             self.library_path(),
             # As //:libbinade.so in BUILD, which says why.
             "-Wl,-z,nodelete", "-Wl,-soname,libbinade.so.0",
             f"-Wl,--version-script={script}", "-lhwloc", "-pthread", "-ldl")
        super().run()

    def build_extension(self, extension):
        folder = MODULE_FOLDERS[extension.name.rpartition(".")[2]]
        sources = sorted(str(path.relative_to(ROOT))
                         for path in (ROOT / folder).glob("*.c"))
        link(compile_all(sources, self.build_temp),
             self.get_ext_fullpath(extension.name),
             str(self.library_path()), "-Wl,-rpath,$ORIGIN",
             # auditwheel tells by it which libc a wheel is for.
             "-Wl,--no-as-needed", "-lc")

    def get_outputs(self):
        return [*super().get_outputs(), str(self.library_path())]


class CarrySources(sdist):
    """An sdist stands alone: it carries what lies above this folder too."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in [*carried_files(), "LICENSE"]:
            target = Path(base_dir, CARRIED.name, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)


def module(name):
    # Sources are found when it is built.
    return Extension(f"binade.{name}", sources=[], py_limited_api=True)


setup(
    version=version(),
    ext_modules=[module(name) for name in MODULE_FOLDERS],
    cmdclass={"build_ext": BuildBinade, "sdist": CarrySources},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
