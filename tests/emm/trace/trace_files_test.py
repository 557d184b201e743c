# SPDX-License-Identifier: Apache-2.0
"""How files come: compressed, in archives, of other formats, and larger than
memory."""

import gzip
import io
import struct
import sys
import tarfile
import tracemalloc
import types
import zipfile

import pytest
from moiety._trace.convert import convert
from trace_support import (
    ENTRIES, HEADER, LOG, SMALL_TRACE, converted, refused, rmm, snapshot,
    squeezed, written)

ALLOCATE = "1,10:00:00.000001,allocate,0x7f00,1024,0x0"


def zipped(*members, **options):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return target.getvalue()


@pytest.mark.parametrize("data", [LOG, snapshot(ENTRIES), SMALL_TRACE],
                         ids=("rmm", "torch", "moiety"))
def test_what_is_packed_is_read_alike(tmp_path, data):
    expected = converted(tmp_path, data)
    half = len(data) // 2
    for packed in (
            squeezed(data), squeezed(data[:half]) + squeezed(data[half:]),
            zipped(("log", data)),
            zipped(("a/", b""), ("a/log", data), ("__MACOSX/a/._log", b"x"),
                   compression=zipfile.ZIP_DEFLATED),
            zipped(("made/data.pkl", data), ("made/version", b"3\n"),
                   ("made/byteorder", b"little"))):
        assert converted(tmp_path, packed) == expected


@pytest.mark.parametrize("data, words", [
    (zipped(("a", LOG), ("b", LOG)), "the zip archive has 2 files, not one"),
    (zipped(), "begins as none"),
    (zipped(("a", LOG))[:-30], "the zip archive cannot be read"),
    (zipped(("a", LOG)).replace(b"allocate", b"allocoto"), "damaged"),
    (zipped(*((f"{i:060000}", b"") for i in range(20))), "list of files"),
    (squeezed(squeezed(LOG)), "it is compressed by gzip"),
    (squeezed(zipped(("a", LOG))), "it is a zip archive"),
])
def test_packed_files_that_are_refused(tmp_path, data, words):
    assert words in str(refused(tmp_path, data))


def tarred(data):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        about = tarfile.TarInfo("log")
        about.size = len(data)
        archive.addfile(about, io.BytesIO(data))
    return target.getvalue()


OTHERS = {
    "a tar archive": tarred(LOG), "compressed by xz": b"\xfd7zXZ\0\0\4",
    "compressed by bzip2": b"BZh91AY&SY", "a 7z archive": b"7z\xbc\xaf\x27\x1c",
    "compressed by LZ4": b"\x04\x22\x4d\x18", "JSON": b' {"segments": []}',
    "text in UTF-16": LOG.decode().encode("utf-16"),
    "an SQLite database": b"SQLite format 3\0", "a PDF": b"%PDF-1.4",
    "HTML or XML": b"\n<!DOCTYPE html>", "a Parquet file": b"PAR1",
    "an HDF5 file": b"\x89HDF\r\n", "a picture": b"\x89PNG", "a program":
    b"\x7fELF",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_called_by_their_names(tmp_path, name):
    assert str(refused(tmp_path, OTHERS[name])) == (
        f"offset 0: it is {name}, which cannot be converted")
    assert name in str(refused(tmp_path, squeezed(OTHERS[name])))


class Zstd(io.RawIOBase):
    """As a module for zstd has it; what is compressed here is so by gzip."""

    def __init__(self, file):
        super().__init__()
        assert file.read(4) == b"\x28\xb5\x2f\xfd"
        self._file = gzip.GzipFile(fileobj=file)

    def read(self, count=-1):
        return self._file.read(count)


@pytest.fixture(params=["compression.zstd", "backports.zstd", "zstandard"])
def one_module(request, monkeypatch):
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
        package, _, _ = name.rpartition(".")
        if package:
            monkeypatch.setitem(sys.modules, package,
                                types.ModuleType(package))
    made = types.ModuleType(request.param)
    made.ZstdError = gzip.BadGzipFile
    if request.param == "zstandard":
        made.ZstdDecompressor = lambda: types.SimpleNamespace(
            stream_reader=lambda file, read_across_frames, closefd: Zstd(file))
    else:
        made.ZstdFile = Zstd
    monkeypatch.setitem(sys.modules, request.param, made)


def test_zstd_is_read_by_the_module_that_is_here(tmp_path, one_module):
    packed = b"\x28\xb5\x2f\xfd" + squeezed(LOG)
    assert converted(tmp_path, packed) == converted(tmp_path, LOG)
    (tmp_path / "out.mtrace").unlink()
    assert "damaged" in str(refused(tmp_path, packed[:-4]))


def test_without_a_module_for_zstd_it_is_named(tmp_path, monkeypatch):
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "the package zstandard" in str(
        refused(tmp_path, b"\x28\xb5\x2f\xfd" + LOG))


def text(one):
    return b"\x8c%c%s\x94" % (len(one), one)


KEYS = (b"action", b"alloc", b"free_completed", b"addr", b"size", b"stream",
        b"time_us", b"frames", b"name", b"filename", b"line")


def large_snapshot(path, entry_count, is_shared):
    """As PyTorch's, whose frames are most of it: lists of dictionaries that are
    shared by all entries; or of an entry's own, with texts of its own, as of
    one that was JSON before. Written in pieces."""
    key = {one: b"h%c" % (i + 5) for i, one in enumerate(KEYS)}

    def frame(number):
        return (b"}\x94(" + key[b"name"] + key[b"alloc"] + key[b"filename"]
                + (key[b"action"] if is_shared else text(b"layers/linear.py"))
                + key[b"line"] + b"M" + struct.pack("<H", number) + b"u")

    def entry(number):
        if is_shared:
            frames = b"".join(b"j" + struct.pack("<I", 16 + (number + i) % 99)
                              for i in range(40))
        else:
            frames = b"".join(map(frame, range(6)))
        number, is_free = divmod(number, 2)
        return (b"}\x94(" + key[b"action"]
                + key[b"free_completed" if is_free else b"alloc"]
                + key[b"addr"] + b"\x8a\x08" + struct.pack("<Q", number + 1 << 9)
                + key[b"size"] + b"M\0\2" + key[b"stream"] + b"K\0"
                + key[b"time_us"] + b"\x8a\x08"
                + struct.pack("<Q", 1 << 40 | number)
                + key[b"frames"] + b"]\x94(" + frames + b"eu")

    with open(path, "wb") as file:
        frames = b"".join(map(frame, range(99 if is_shared else 0)))
        file.write(b"\x80\x04}\x94(" + text(b"segments") + b"]\x94"
                   + text(b"notes") + b"]\x94(" + b"".join(map(text, KEYS))
                   + frames + b"e"
                   + text(b"device_traces") + b"]\x94]\x94")
        for start in range(0, entry_count, 1000):
            file.write(b"(" + b"".join(map(entry, range(
                start, min(entry_count, start + 1000)))) + b"e")
        file.write(b"au.")


@pytest.mark.parametrize("is_shared", [True, False])
def test_memory_is_for_entries_not_for_the_snapshot(tmp_path, is_shared):
    """A snapshot may be larger than memory: what is added to it adds a part of
    its size only. As objects it would be several times its size."""
    sizes, peaks = [], []
    for entry_count in (1500, 3500):
        path = tmp_path / "in"
        large_snapshot(path, entry_count, is_shared)
        tracemalloc.start()
        try:
            done = convert(path, tmp_path / "out.mtrace")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert done["operations"] == entry_count and done["counts"] == {}
        sizes.append(path.stat().st_size)
    assert peaks[1] - peaks[0] < 0.75 * (sizes[1] - sizes[0])
