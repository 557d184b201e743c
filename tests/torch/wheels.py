# SPDX-License-Identifier: Apache-2.0
"""Parts of wheels, fetched by ranges: the headers and libraries of a release of
PyTorch and of the CUDA runtime, without the hundreds of MB around them."""

import json
import os
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

RELEASES = ("2.9.1", "2.10.0", "2.11.0")
HEADERS = ("torch/include/c10/", "torch/include/torch/headeronly/",
           "torch/include/ATen/core/CachingHostAllocator.h")
LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")
PLATFORM = ("manylinux", "x86_64")

INDEX = "https://pypi.org/simple/{}/"
INDEX_FORM = "application/vnd.pypi.simple.v1+json"
CHUNK_BYTES = 1 << 18
GAP_BYTES = 1 << 16
TIMEOUT_S = 60


@dataclass
class Cuda:
    """The runtime's packages, and where they have its headers and library."""
    packages: tuple
    folders: tuple
    library: str


CUDAS = {
    "12": Cuda((("nvidia-cuda-runtime-cu12", "12.8.90"),
                ("nvidia-cuda-nvcc-cu12", "12.8.93")),
               ("nvidia/cuda_runtime/include/", "nvidia/cuda_nvcc/include/"),
               "nvidia/cuda_runtime/lib/libcudart.so.12"),
    "13": Cuda((("nvidia-cuda-runtime", "13.0.96"),
                ("nvidia-cuda-crt", "13.0.88")),
               ("nvidia/cu13/include/",), "nvidia/cu13/lib/libcudart.so.13"),
}


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
        status, self.data = ask(self.url,
                                {"Range": f"bytes={start}-{end - 1}"})
        if status != 206:
            raise SystemExit(f"{self.url}: the server sends no ranges")
        self.start = start
        self.fetched_bytes += len(self.data)


class Unreachable(SystemExit):
    """The network does not answer; the text says what was asked."""


def ask(url, headers):
    try:
        with urllib.request.urlopen(
                urllib.request.Request(url, headers=headers),
                timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise Unreachable(f"{url}: {getattr(error, 'reason', error)}: this "
                          f"needs the network") from error


def wheel_of(project, release, words):
    """The first wheel of the release whose name has the words."""
    files = json.loads(ask(INDEX.format(project),
                           {"Accept": INDEX_FORM})[1])["files"]
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


def fetch_torch(release, folder, parts):
    """Of a release, into FOLDER/torch. How many files, and what was read."""
    remote = wheel_of("torch", release, ("cp312-cp312-manylinux", "x86_64"))
    return fetch(remote, folder, parts), remote


def fetch_cuda(major, folder, has_library=False):
    """Of the runtime: the folders of its headers, and the bytes fetched."""
    cuda = CUDAS[major]
    fetched_bytes = 0
    for project, release in cuda.packages:
        remote = wheel_of(project, release, PLATFORM)
        fetch(remote, folder,
              cuda.folders + ((cuda.library,) if has_library else ()))
        fetched_bytes += remote.fetched_bytes
    return [Path(folder) / one for one in cuda.folders], fetched_bytes
