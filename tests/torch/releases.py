# SPDX-License-Identifier: Apache-2.0
"""Whether the sources of emm/torch and emm/torch_pinned compile against the headers
of several releases of PyTorch, without installing one, or a CUDA Toolkit; and
whether they run with each release's own libc10 and libc10_cuda on the stand-in driver.

    releases.py LIBRARIES [RELEASE]...

From the checkout; default: 2.9.1 2.10.0 2.11.0. LIBRARIES has libmoiety.so and
pool/standin/libcuda.so.1, as bazel-bin has. Of each release's wheel the headers
and these two libraries alone are fetched, by ranges; and once the CUDA runtime's
headers. Says what that took. Needs the network and compilers of C and C++, which
CC and CXX name; a release that fails makes the exit status 1, a network that does
not answer 3.
"""

import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wheels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CUDA = "13"
TIMEOUT_S = 60
FOLDERS = [ROOT / folder for folder in ("emm/torch", "emm/torch_pinned")]
# Each is the only one with a main().
PROGRAMS = ("standin", "standin_pinned")

sys.path.insert(0, str(ROOT / "emm/moiety/_torch"))
import recipe  # noqa: E402


def words_from(name, otherwise):
    return shlex.split(os.environ.get(name, otherwise))


def run(words, **options):
    """What a command that fails says; "" of one that does not."""
    done = subprocess.run([str(word) for word in words], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options)
    return f"{words[0]}: {done.returncode}\n{done.stdout}" if done.returncode \
        else ""


def compile_all(release, includes, folder):
    """What the compiler says of all sources that do not compile."""
    words = [*words_from("CXX", "c++"), "-std=c++17", "-fPIC", "-Wall",
             "-Wextra", "-Werror", *recipe.macros(release), f"-I{ROOT}",
             f"-I{ROOT / 'pool/include'}",
             *(f"-I{folder}" for folder in FOLDERS),
             *(word for path in includes for word in ("-isystem", path))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return "".join(threads.map(
            lambda source: run([*words, "-c", source, "-o",
                                folder / f"{source.stem}.o"]),
            [*(source for one in FOLDERS for source in recipe.sources(one)),
             *(HERE / f"{program}.cc" for program in PROGRAMS)]))


def make_runtime(folder, library):
    """A CUDA runtime by the name that the release's library has for it."""
    name = re.search(rb"libcudart\.so\.\d+", library.read_bytes())[0].decode()
    script = folder / "cudart.map"
    script.write_text(f"{name} {{ global: *; }};\n")
    return run([*words_from("CC", "cc"), "-shared", "-fPIC",
                f"-Wl,-soname,{name}", f"-Wl,--version-script={script}",
                HERE / "fake_cudart.c", "-o", folder / name]) or folder / name


def try_it(torch, libraries, folder):
    """Links the objects in a folder, and runs them."""
    there = [torch / name for name in wheels.LIBRARIES]
    runtime = make_runtime(folder, there[1])
    if not isinstance(runtime, Path):
        return runtime
    shutil.copy(libraries / "libmoiety.so", folder / "libmoiety.so.0")
    driver = libraries / "pool/standin/libcuda.so.1"
    library = [one for one in sorted(folder.glob("*.o"))
               if one.stem not in PROGRAMS]
    return "".join(
        run([*words_from("CXX", "c++"), "-o", folder / program,
             folder / f"{program}.o", *library, "-Wl,--no-as-needed", *there,
             runtime, folder / "libmoiety.so.0", driver,
             # One finds functions of libtorch_cpu in the program.
             "-Wl,--export-dynamic",
             # A release's functions of the runtime beyond ours are never called.
             "-Wl,--unresolved-symbols=ignore-in-shared-libs",
             *(f"-Wl,-rpath,{one}" for one in (folder, there[0].parent,
                                               driver.parent))]
            ) or run([folder / program], timeout=TIMEOUT_S)
        for program in PROGRAMS)


def main(libraries, releases):
    is_good = True
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        runtime, total_bytes = wheels.fetch_cuda(CUDA, Path(scratch) / "runtime")
        for release in releases:
            start = time.monotonic()
            folder = Path(scratch) / release
            count, remote = wheels.fetch_torch(
                release, folder, wheels.HEADERS + wheels.LIBRARIES)
            total_bytes += remote.fetched_bytes
            fetched = time.monotonic()
            text = compile_all(release, [folder / "torch/include", *runtime],
                               folder) or try_it(folder, libraries, folder)
            is_good = is_good and not text
            print(f"{text}{release}: {'FAILED' if text else 'compiles and runs'}"
                  f"; {count} files, {remote.fetched_bytes / 1e6:.1f} MB of "
                  f"{remote.size / 1e6:.0f}, {fetched - start:.0f} s; the rest "
                  f"in {time.monotonic() - fetched:.0f} s", flush=True)
    print(f"{len(releases)} releases: {total_bytes} bytes fetched, "
          f"{time.monotonic() - began:.0f} s")
    return 0 if is_good else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        sys.exit(main(Path(sys.argv[1]).resolve(),
                      sys.argv[2:] or wheels.RELEASES))
    except wheels.Unreachable as unreachable:
        print(unreachable, file=sys.stderr)
        sys.exit(3)
