# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: the library, libmoiety.so.0, beside it the two C modules,
the stand-in driver and the programs that `moiety` starts, with the compilers
that CC and CXX name or else cc and c++, in parallel.

The sources are those of the checkout that this folder is a part of, or the
copies that an sdist carries in csrc/. Which of them make what is told by where
they lie and by what is a program, so that there is no list that could lag
behind the BUILD files; tests/emm/wheel_test.py compares the outcomes.
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
VERSION_HEADER = ROOT / "pool/include/moiety/version.h"

# The floors under emm/, the driver that is a library of its own, the C modules,
# and the programs: the folder of each, and what they share.
LIBRARY_FOLDERS = ("pool", "numa", "serve/client", "serve/protocol")
STANDIN_FOLDER = "pool/standin"
MODULE_FOLDERS = {"_native": "emm/native", "_nep49": "emm/nep49"}
PROGRAM_FOLDERS = {"bench": "bench/harness", "replay": "bench/replay"}
KEEPER = "_programs/serve"
KEEPER_FOLDER = "serve/keeper"
SHARED_FOLDERS = ("bench/base", "bench/lag", "bench/subjects",
                  "bench/workloads")
ORACLE = "tests/oracle/mutex_buddy"
PLUGGABLE_FOLDER = "emm/pluggable"
# Carried as they are, and compiled where PyTorch is (moiety/_torch).
TORCH_SOURCES = ("emm/torch", "emm/torch_pinned")
PUBLIC_HEADERS = "pool/include"
SHIMS = {"bench/subjects/shims/torch_shim.cc",  # made where PyTorch is
         "bench/subjects/shims/rmm_shim.cc"}    # made where RMM is
# Tests and builds for sanitizers alone call them, and a linker of archives leaves
# them out.
VERIFIERS = {"pool/base/lock.c", "pool/heap/check.c", "pool/segment/check.c"}
CARRIED_SUFFIXES = {".c", ".cc", ".h", ".hpp", ".inc", ".map"}

LIBRARY = "libmoiety.so.0"
PLUGGABLE = "_torch/libmoiety_pluggable.so"
STANDIN = "standin/libcuda.so.1"

# A free-threaded CPython has no stable ABI: a wheel is for its version alone.
HAS_STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")

FLAGS = ["-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden",
         "-fno-omit-frame-pointer", "-ffunction-sections", "-fdata-sections"]
C_FLAGS = ["-std=c11", "-Werror=implicit-function-declaration"]
CXX_FLAGS = ["-std=c++17"]

# What a machine may lack, and the packages that have it.
COMPILER = "build-essential (Debian, Ubuntu) or gcc and gcc-c++ (Fedora)"
NEEDED = {
    "Python.h": "python3-dev (Debian, Ubuntu) or python3-devel (Fedora)",
    "hwloc.h": "libhwloc-dev (Debian, Ubuntu) or hwloc-devel (Fedora)",
}


def version():
    text = VERSION_HEADER.read_text()
    return re.search(r'MOIETY_VERSION_STRING "([^"]+)"', text).group(1)


def is_program(path):
    return re.search(r"^int main\(", path.read_text(), re.MULTILINE)


def sources_in(*folders, but=()):
    """Paths from ROOT of what is compiled and is no program, sorted."""
    found = [path.relative_to(ROOT) for folder in folders
             for path in (ROOT / folder).rglob("*.c*")
             if path.suffix in (".c", ".cc") and not is_program(path)]
    return sorted(str(path) for path in found
                  if str(path) not in {*SHIMS, *VERIFIERS} and
                  not any(path.is_relative_to(other) for other in but))


def library_sources():
    return sources_in(*LIBRARY_FOLDERS, but=(STANDIN_FOLDER,))


def program_sources(name):
    """Of the program alone: without the library and what programs share."""
    folder = PROGRAM_FOLDERS[name]
    return [f"{folder}/main.c", *sources_in(folder)]


def keeper_sources():
    """Of a program that has neither the library nor a driver."""
    return [f"{KEEPER_FOLDER}/main.c", "serve/client/connection.c",
            *sources_in(KEEPER_FOLDER, "serve/protocol", "pool/base")]


def carried_files():
    """What of ROOT an sdist needs."""
    folders = [*LIBRARY_FOLDERS, *MODULE_FOLDERS.values(),
               *PROGRAM_FOLDERS.values(), *SHARED_FOLDERS, *TORCH_SOURCES,
               KEEPER_FOLDER, PLUGGABLE_FOLDER]
    found = {str(path.relative_to(ROOT)) for folder in folders
             for path in (ROOT / folder).rglob("*")
             if path.suffix in CARRIED_SUFFIXES}
    return sorted(found | {f"{ORACLE}.c", f"{ORACLE}.h", "LICENSE"})


def torch_sources():
    """Of what the package carries for PyTorch: its name there, and its path."""
    for folder, target in (*((one, "_torch/csrc") for one in TORCH_SOURCES),
                           (PUBLIC_HEADERS, "_torch/csrc/include")):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".hpp"):
                yield f"{target}/{path.relative_to(ROOT / folder)}", path


def words_from(name, otherwise=""):
    return shlex.split(os.environ.get(name, otherwise))


def compiler_of(source):
    """The command and the flags of the language."""
    if source.endswith(".cc"):
        return [*words_from("CXX", "c++"), *CXX_FLAGS, *FLAGS,
                *words_from("CXXFLAGS")]
    return [*words_from("CC", "cc"), *C_FLAGS, *FLAGS, *words_from("CFLAGS")]


def run(command, advice=""):
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    except OSError as error:
        raise SystemExit(f"no C compiler: {command[0]}: {error.strerror}; "
                         f"install {COMPILER}, or name one in CC and CXX")
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stderr}{advice}")


def check_machine(folder):
    """Before what takes long: what is missing is told with its package."""
    for language, header in ((".c", "stdio.h"), (".cc", "set")):
        check_compiles(folder, language, header, COMPILER)
    for header, package in NEEDED.items():
        check_compiles(folder, ".c", header, package)


def check_compiles(folder, suffix, header, package):
    source = Path(folder).resolve() / f"needed{suffix}"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f"#include <{header}>\n")
    run([*compiler_of(str(source)), *include_flags("emm/"), "-c", str(source),
         "-o", str(source.with_suffix(".o"))],
        f"\n<{header}> cannot be compiled: install {package}\n")


def include_flags(source):
    flags = ["-I.", "-Ipool/include"]
    if source.startswith(("numa/", STANDIN_FOLDER)):
        flags.append("-D_GNU_SOURCE")  # which other files define themselves
    if source.startswith(MODULE_FOLDERS["_nep49"]):
        # Before Python's, where Debian has the headers of a NumPy of its own.
        import numpy
        flags += ["-isystem", numpy.get_include()]
    if source.startswith(PLUGGABLE_FOLDER):
        flags.append("-fexceptions")  # as its BUILD file, which says why
    if source.startswith("emm/"):
        flags += ["-isystem", sysconfig.get_path("include")]
    return flags


def compile_all(sources, folder):
    """Returns the object files, in the order of the sources."""
    def compile_one(source):
        target = Path(folder).resolve() / Path(source).with_suffix(".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        run([*compiler_of(source), *include_flags(source), "-c", source, "-o",
             str(target)])
        return str(target)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def link(objects, target, *flags, compiler=("CC", "cc")):
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    run([*words_from(*compiler), "-Wl,--as-needed", "-Wl,--gc-sections",
         "-o", str(Path(target).resolve()), *objects, *flags,
         *words_from("LDFLAGS")])


class BuildMoiety(build_ext):
    """The library first: the modules are linked to it."""

    def build_extensions(self):
        check_machine(self.build_temp)
        objects = self.build_library()
        self.build_standin()
        self.build_pluggable()
        self.build_programs(objects)
        self.copy_torch_sources()
        super().build_extensions()

    def path_of(self, name):
        """In the package that is built, or in the sources' for -e."""
        folder = Path(self.get_ext_fullpath("moiety._native")).parent
        return str((folder / name).resolve())

    def build_library(self):
        objects = compile_all(library_sources(), self.build_temp)
        script = "pool/install/libmoiety.map"
        link(objects, self.path_of(LIBRARY), "-shared",
             # As //:libmoiety.so in BUILD, which says why.
             "-Wl,-z,nodelete", "-Wl,-soname,libmoiety.so.0",
             f"-Wl,--version-script={script}", "-lhwloc", "-pthread", "-ldl")
        return objects

    def build_standin(self):
        script = f"{STANDIN_FOLDER}/libcuda.map"
        link(compile_all(sources_in(STANDIN_FOLDER), self.build_temp),
             self.path_of(STANDIN), "-shared",
             # As //pool/standin:libcuda.so.1, which says why.
             "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={script}",
             "-Wl,-Bsymbolic", "-Wl,-z,defs", "-ldl", "-pthread")

    def build_pluggable(self):
        link(compile_all(sources_in(PLUGGABLE_FOLDER), self.build_temp),
             self.path_of(PLUGGABLE), "-shared", self.path_of(LIBRARY),
             "-Wl,-rpath,$ORIGIN/..", "-ldl", "-pthread",
             # As build_extension().
             "-Wl,--no-as-needed", "-lc")

    def build_programs(self, library_objects):
        shared = compile_all([*sources_in(*SHARED_FOLDERS), f"{ORACLE}.c"],
                             self.build_temp)
        for name in PROGRAM_FOLDERS:
            own = compile_all(program_sources(name), self.build_temp)
            link([*own, *shared, *library_objects],
                 self.path_of(f"_programs/{name}"), "-lhwloc", "-lm", "-ldl",
                 "-pthread", compiler=("CXX", "c++"))
        link(compile_all(keeper_sources(), self.build_temp), self.path_of(KEEPER),
             "-pthread")

    def copy_torch_sources(self):
        for name, path in torch_sources():
            target = Path(self.path_of(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def build_extension(self, extension):
        folder = MODULE_FOLDERS[extension.name.rpartition(".")[2]]
        link(compile_all(sources_in(folder), self.build_temp),
             self.get_ext_fullpath(extension.name), "-shared",
             self.path_of(LIBRARY), "-Wl,-rpath,$ORIGIN",
             # auditwheel tells by it which libc a wheel is for.
             "-Wl,--no-as-needed", "-lc")

    def beside_modules(self):
        return [LIBRARY, STANDIN, PLUGGABLE, KEEPER,
                *(f"_programs/{name}" for name in PROGRAM_FOLDERS),
                *(name for name, _ in torch_sources())]

    def get_outputs(self):
        return [*super().get_outputs(),
                *(str(Path(self.build_lib, "moiety", name))
                  for name in self.beside_modules())]

    def copy_extensions_to_source(self):
        """For pip install -e."""
        super().copy_extensions_to_source()
        for name in self.beside_modules():
            target = HERE / "moiety" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(Path(self.build_lib, "moiety", name)),
                           str(target))


class CarrySources(sdist):
    """An sdist stands alone: it carries what lies above this folder too."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in carried_files():
            target = Path(base_dir, CARRIED.name, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)


def module(name):
    # Sources are found when it is built.
    return Extension(f"moiety.{name}", sources=[],
                     py_limited_api=HAS_STABLE_ABI)


setup(
    version=version(),
    ext_modules=[module(name) for name in MODULE_FOLDERS],
    cmdclass={"build_ext": BuildMoiety, "sdist": CarrySources},
    data_files=[("share/man/man1", ["moiety.1"])],
    options={"bdist_wheel": {"py_limited_api": "cp310"}
             if HAS_STABLE_ABI else {}},
)
