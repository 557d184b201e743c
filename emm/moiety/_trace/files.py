# SPDX-License-Identifier: Apache-2.0
"""Files as bytes and as lines, plain or compressed, in bounded memory whatever
is in them."""

import contextlib
import gzip
import importlib
import io
import os
import zipfile
import zlib

from moiety._trace.format import LINE_BYTES_MAX, TraceError

_CHUNK_BYTES = 1 << 16
_ZIP_LIST_BYTES_MAX = 1 << 20

# What files begin with that nothing here reads, and how it is called.
_UNREADABLE = {
    b"BZh": "compressed by bzip2", b"\xfd7zXZ\0": "compressed by xz",
    b"\x04\x22\x4d\x18": "compressed by LZ4",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\xff\xfe": "text in UTF-16", b"\xfe\xff": "text in UTF-16",
    b"SQLite format 3\0": "an SQLite database", b"\x7fELF": "a program",
    b"PAR1": "a Parquet file", b"\x89HDF": "an HDF5 file", b"%PDF": "a PDF",
    b"\x89PNG": "a picture", b"<": "HTML or XML", b"{": "JSON", b"[": "JSON"}
_PACKED = {b"\x1f\x8b": "compressed by gzip", b"PK\3\4": "a zip archive",
           b"\x28\xb5\x2f\xfd": "compressed by zstd"}
_TAR_PLACE = 257  # of the word "ustar"


def named(path):
    """A file's name for messages: 0 is standard input."""
    return "standard input" if path == 0 else os.fspath(path)


def name_of_format(start):
    """What a file that begins so is, where that is known and none of the
    formats of traces and logs; None: it is not known."""
    if start[_TAR_PLACE:_TAR_PLACE + 5] == b"ustar":
        return "a tar archive"
    for signature, name in (_UNREADABLE | _PACKED).items():
        if start.lstrip().startswith(signature):
            return name
    return None


class _Source(io.FileIO):
    """Fills the buffer where the file is not over, as a pipe does not do.
    `watch` hears how many bytes were read, and how many there are in all."""

    def __init__(self, path, watch):
        super().__init__(path, closefd=path != 0)
        self._path = path
        self._watch = watch
        self._size = os.fstat(self.fileno()).st_size

    def readinto(self, buffer):
        view, count = memoryview(buffer), 0
        try:
            while count < len(view) and (
                    more := super().readinto(view[count:])):
                count += more
        except OSError as error:
            error.filename = named(self._path)
            raise
        if self._watch:
            self._watch(self.tell() if self.seekable() else 0, self._size)
        return count


class _Unpacked(io.RawIOBase):
    """What a decompressor gives. TraceError where the data is damaged."""

    def __init__(self, file, *damages):
        super().__init__()
        self._file = file
        self._damages = (EOFError, zlib.error, *damages)

    def readable(self):
        return True

    def readinto(self, buffer):
        try:
            piece = self._file.read(len(buffer))
        except self._damages as error:
            raise TraceError(f"the compressed data is damaged or cut off "
                             f"({error})") from None
        buffer[:len(piece)] = piece
        return len(piece)

    def close(self):
        self._file.close()
        super().close()


class _ZipFile:
    """The archive for zipfile, which would read a list of files of any size at
    once."""

    def __init__(self, file):
        self._file = file
        self.seek, self.tell, self.seekable = (
            file.seek, file.tell, file.seekable)

    def read(self, count=-1):
        limit = _ZIP_LIST_BYTES_MAX
        data = self._file.read(min(count, limit) if count >= 0 else limit)
        if count > limit or len(data) == limit:
            raise zipfile.BadZipFile("its list of files is too long")
        return data


def _unzip(plain):
    if not plain.seekable():
        raise TraceError("a zip archive cannot be read from a pipe")
    try:
        archive = zipfile.ZipFile(_ZipFile(plain))
        # Macs add a folder of their own.
        files = [one for one in archive.infolist() if not one.is_dir()
                 and not one.filename.startswith("__MACOSX/")]
        # torch.save() puts a pickle beside files of its own.
        chosen = [one for one in files
                  if one.filename.endswith("/data.pkl")] or files
        if len(chosen) != 1:
            raise TraceError(f"the zip archive has {len(files)} files, not one")
        return _Unpacked(archive.open(chosen[0]), zipfile.BadZipFile)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise TraceError(f"the zip archive cannot be read: {error}") from None


def _unzstd(plain):
    """By what this Python has: the standard library since 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            zstd = importlib.import_module(name)
            return _Unpacked(zstd.ZstdFile(plain), zstd.ZstdError)
    with contextlib.suppress(ImportError):
        zstd = importlib.import_module("zstandard")
        return _Unpacked(
            zstd.ZstdDecompressor().stream_reader(
                plain, read_across_frames=True, closefd=False),
            zstd.ZstdError)
    raise TraceError("it is compressed by zstd: that needs Python 3.14 or the "
                     "package zstandard; `zstd -dc` decompresses it too")


def _unpacker(file):
    """What decompresses the file; None: it is plain."""
    start = file.peek(4)
    if start.startswith(b"\x1f\x8b"):
        return lambda plain: _Unpacked(
            gzip.GzipFile(fileobj=plain), gzip.BadGzipFile)
    if start.startswith(b"PK\3\4"):
        return _unzip
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd
    return None


def is_compressed(path):
    with open(path, "rb") as file:
        return _unpacker(file) is not None


@contextlib.contextmanager
def opened(path, watch=None):
    """The file as a buffered reader of what is in it, decompressed; 0 is
    standard input. `watch` is called with the bytes of the file that were read
    and those that it has."""
    with io.BufferedReader(_Source(path, watch), _CHUNK_BYTES) as plain:
        unpack = _unpacker(plain)
        if unpack:
            with io.BufferedReader(unpack(plain), _CHUNK_BYTES) as file:
                yield file
        else:
            yield plain


@contextlib.contextmanager
def placed(**place):
    """A TraceError that knows no place gets this one."""
    try:
        yield
    except TraceError as error:
        if error.line is None and error.offset is None:
            vars(error).update(place)
        raise


class Lines:
    """Iterates the lines, each with its end; .number is that of the last one
    that was read. A last line without its end is an error, or, if `has_cut`,
    .cut, and not iterated."""

    def __init__(self, file, has_cut=False):
        self._file = file
        self._has_cut = has_cut
        self.number = 0
        self.cut = b""

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        try:
            line = self._file.readline(LINE_BYTES_MAX + 1)
        except TraceError as error:
            error.line = self.number
            raise
        if not line:
            raise StopIteration
        if self._has_cut and line.endswith(b"\0") and self._is_rest_empty():
            line = line.rstrip(b"\0") or b"\0"
        if len(line) > LINE_BYTES_MAX:
            self.fail(f"is longer than {LINE_BYTES_MAX} bytes")
        if not line.endswith(b"\n") and self._has_cut:
            self.cut = line
            raise StopIteration
        if b"\0" in line:
            self.fail("has a NUL byte")
        if not line.endswith(b"\n"):
            self.fail("the last line has no end: the file is cut off")
        return line

    def _is_rest_empty(self):
        """Whether nothing follows but NUL bytes: a machine that fails can leave
        a file longer than what was written."""
        while piece := self._file.read(_CHUNK_BYTES):
            if piece.strip(b"\0"):
                self.fail("has a NUL byte")
        return True

    def fail(self, message):
        raise TraceError(message, line=self.number)

    @contextlib.contextmanager
    def numbered(self):
        """A TraceError that does not know its line gets that of the last one
        that was read."""
        try:
            yield
        except TraceError as error:
            if error.line is None:
                error.line = self.number
            raise
