# SPDX-License-Identifier: Apache-2.0
"""Whether the sources of emm/torch compile against the headers of several
releases of PyTorch, without installing one, or a CUDA Toolkit.

    releases.py [RELEASE]...        # from the checkout; default: 2.9.1 2.10.0 2.11.0

Of each release's wheel the headers alone are fetched, by ranges; and once the CUDA
runtime's. Says what that took. Needs the network and a C++ compiler, which CXX
names; a release that does not compile makes the exit status 1.
"""

import concurrent.futures
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wheels

ROOT = Path(__file__).resolve().parents[2]
CUDA = "13"


def compiles(release, includes):
    """Whether all sources do, and what the compiler says of those that do
    not."""
    major, minor = release.split(".")[:2]
    words = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17",
             "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             f"-I{ROOT / 'pool/include'}", f"-DBINADE_TORCH_MAJOR={major}",
             f"-DBINADE_TORCH_MINOR={minor}",
             *(word for folder in includes
               for word in ("-isystem", str(folder)))]

    def complaints_about(source):
        done = subprocess.run([*words, str(source)], text=True,
                              capture_output=True, check=False)
        return done.stderr if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        text = "".join(threads.map(
            complaints_about, sorted((ROOT / "emm/torch").glob("*.cc"))))
    return not text, text


def main(releases):
    is_good = True
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        runtime, total_bytes = wheels.fetch_cuda(CUDA, Path(scratch) / "runtime")
        for release in releases:
            start = time.monotonic()
            folder = Path(scratch) / release
            count, remote = wheels.fetch_torch(release, folder, wheels.HEADERS)
            total_bytes += remote.fetched_bytes
            fetched = time.monotonic()
            is_well, text = compiles(release,
                                     [folder / "torch/include", *runtime])
            is_good = is_good and is_well
            print(f"{text}{release}: {'compiles' if is_well else 'FAILED'}; "
                  f"{count} headers, {remote.fetched_bytes / 1e6:.1f} MB of "
                  f"{remote.size / 1e6:.0f}, {fetched - start:.0f} s; compiled "
                  f"in {time.monotonic() - fetched:.0f} s", flush=True)
    print(f"{len(releases)} releases: {total_bytes} bytes fetched, "
          f"{time.monotonic() - began:.0f} s")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or wheels.RELEASES))
