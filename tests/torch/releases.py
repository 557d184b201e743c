# SPDX-License-Identifier: Apache-2.0
"""Whether the sources of emm/torch compile against the headers of several
releases of PyTorch, without installing one.

    releases.py [RELEASE]...        # from the checkout; default: 2.9.1 2.10.0 2.11.0

Of each release's wheel the headers alone are fetched, by ranges; and once the CUDA
runtime's. Says what that took. Needs the network and a C++ compiler, which CXX
names; a release that does not compile makes the exit status 1.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ("2.9.1", "2.10.0", "2.11.0")
WANTED = ("torch/include/c10/", "torch/include/torch/headeronly/")
RUNTIME = (("nvidia-cuda-runtime", "13.0.96"), ("nvidia-cuda-crt", "13.0.88"))
INDEX = "https://pypi.org/simple/{}/"
INDEX_FORM = "application/vnd.pypi.simple.v1+json"
CHUNK_BYTES = 1 << 18
GAP_BYTES = 1 << 16


class Remote:
    """A file of the network, read by ranges; what zipfile needs of a file."""

    def __init__(self, url, size):
        self.url, self.size, self.at = url, size, 0
        self.fetched_bytes = 0
        self.start, self.data = 0, b""

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=os.SEEK_SET):
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at,
                            os.SEEK_END: self.size}[whence]
        return self.at

    def read(self, count=-1):
        end = self.size if count < 0 else min(self.size, self.at + count)
        if self.at < self.start or end > self.start + len(self.data):
            self.load(self.at, max(end, min(self.size,
                                            self.at + CHUNK_BYTES)))
        found = self.data[self.at - self.start:end - self.start]
        self.at = end
        return found

    def load(self, start, end):
        asked = urllib.request.Request(
            self.url, headers={"Range": f"bytes={start}-{end - 1}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            if answer.status != 206:
                raise SystemExit(f"{self.url}: the server sends no ranges")
            self.start, self.data = start, answer.read()
        self.fetched_bytes += len(self.data)


def wheel_of(project, release, words):
    asked = urllib.request.Request(INDEX.format(project),
                                   headers={"Accept": INDEX_FORM})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        files = json.load(answer)["files"]
    begin = f"{project.replace('-', '_')}-{release}-"
    for one in files:
        name = one["filename"]
        if name.startswith(begin) and all(word in name for word in words):
            return Remote(one["url"], one["size"])
    raise SystemExit(f"{project} {release}: no wheel for this machine")


def fetch(remote, folder, prefixes):
    """The members with these prefixes; those that lie together in one range."""
    archive = zipfile.ZipFile(remote)
    members = sorted((one for one in archive.infolist()
                      if one.filename.startswith(prefixes) and
                      not one.is_dir()), key=lambda one: one.header_offset)
    for i, member in enumerate(members):
        if member.header_offset >= remote.start + len(remote.data):
            last = member
            for other in members[i:]:
                if other.header_offset - last.header_offset - \
                        last.compress_size > GAP_BYTES:
                    break
                last = other
            remote.load(member.header_offset, min(
                remote.size, last.header_offset + last.compress_size + 4096))
        archive.extract(member, folder)
    return len(members)


def compiles(release, includes):
    """Whether all sources do, and what the compiler says of those that do
    not."""
    major, minor = release.split(".")[:2]
    flags = [f"-DBINADE_TORCH_MAJOR={major}", f"-DBINADE_TORCH_MINOR={minor}"]
    flags += [word for folder in includes for word in ("-isystem", str(folder))]
    texts = []
    for source in sorted((ROOT / "emm/torch").glob("*.cc")):
        done = subprocess.run(
            [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17",
             "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             f"-I{ROOT / 'pool/include'}", *flags, str(source)],
            text=True, capture_output=True, check=False)
        if done.returncode:
            texts.append(done.stderr)
    return not texts, "".join(texts)


def main(releases):
    is_good = True
    with tempfile.TemporaryDirectory() as scratch:
        runtime = Path(scratch) / "runtime"
        for project, release in RUNTIME:
            fetch(wheel_of(project, release, ("manylinux", "x86_64")), runtime,
                  ("nvidia/cu13/include/",))
        for release in releases:
            began = time.monotonic()
            folder = Path(scratch) / release
            remote = wheel_of("torch", release, ("cp312-cp312-manylinux",
                                                 "x86_64"))
            count = fetch(remote, folder, WANTED)
            fetched = time.monotonic()
            is_well, text = compiles(release, (
                folder / "torch/include", runtime / "nvidia/cu13/include"))
            is_good = is_good and is_well
            print(f"{text}{release}: {'compiles' if is_well else 'FAILED'}; "
                  f"{count} headers, {remote.fetched_bytes / 1e6:.1f} MB of "
                  f"{remote.size / 1e6:.0f}, {fetched - began:.0f} s; compiled "
                  f"in {time.monotonic() - fetched:.0f} s", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or RELEASES))
