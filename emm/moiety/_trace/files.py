# SPDX-License-Identifier: Apache-2.0
"""Files as bytes and as lines, plain or compressed by gzip, in bounded memory
whatever is in them."""

import contextlib
import gzip
import io
import os
import zlib

from moiety._trace.format import LINE_BYTES_MAX, TraceError

_GZIP = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 16


def _begins_as_gzip(file):
    return file.peek(2)[:2] == _GZIP


def is_compressed(path):
    with open(path, "rb") as file:
        return _begins_as_gzip(file)


class _Watched(io.FileIO):
    """Tells after each read how many bytes were read, and how many there are
    in all."""

    def __init__(self, path, watch):
        super().__init__(path)
        self._watch = watch
        self._size = os.fstat(self.fileno()).st_size

    def readinto(self, buffer):
        count = super().readinto(buffer)
        self._watch(self.tell() if self.seekable() else 0, self._size)
        return count


def _buffered(path, watch):
    if watch is None:
        return open(path, "rb", _CHUNK_BYTES)
    return io.BufferedReader(_Watched(path, watch), _CHUNK_BYTES)


@contextlib.contextmanager
def opened(path, watch=None):
    """The file as a buffered reader of what is in it, decompressed; `watch` is
    called with the bytes of the file that were read and those that it has."""
    with _buffered(path, watch) as plain:
        if _begins_as_gzip(plain):
            with gzip.GzipFile(fileobj=plain) as compressed, \
                    io.BufferedReader(compressed, _CHUNK_BYTES) as file:
                yield file
        else:
            yield plain


@contextlib.contextmanager
def damage_told(**place):
    """What decompressing can raise, as a TraceError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"the compressed data is damaged or cut off ({error})",
                         **place) from None


class Lines:
    """Iterates the lines, each with its end; .number is that of the last one
    that was read."""

    def __init__(self, file):
        self._file = file
        self.number = 0

    def __iter__(self):
        return self

    def _readline(self):
        try:
            return self._file.readline(LINE_BYTES_MAX + 1)
        except (EOFError, OSError, zlib.error):
            with damage_told(line=self.number):
                raise

    def __next__(self):
        self.number += 1
        line = self._readline()
        if not line:
            raise StopIteration
        if len(line) > LINE_BYTES_MAX:
            self.fail(f"is longer than {LINE_BYTES_MAX} bytes")
        if b"\0" in line:
            self.fail("has a NUL byte")
        if not line.endswith(b"\n"):
            self.fail("the last line has no end: the file is cut off")
        return line

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
