# SPDX-License-Identifier: Apache-2.0
"""What readers of traces have to do with any bytes at all: take them, or raise
a TraceError that says in one line what is wrong and where. They never raise
anything else, and neither open a file nor import nor run anything meanwhile."""

import contextlib
import io
import os
import re
import sys

from moiety import trace
from moiety._trace.clean import Cleaner
from moiety._trace.convert import SOURCES, Options
from moiety._trace.files import opened

# How a message begins that names the place, for want of a line or an offset.
_NAMED = re.compile(r"the snapshot|the pickle has |device_traces\[|"
                    r"(segment|entry) \d+|no entry |the I line for ")
_MESSAGE_CHARACTERS_MAX = 500


class Breach(Exception):
    """A reader has done what it must not."""


def buffered(data):
    return io.BufferedReader(io.BytesIO(data))


def written(operations):
    target = io.BytesIO()
    writer = trace.Writer(target)
    for one in operations:
        writer.write(one)
    writer.end()
    return target.getvalue()


def read_back(data):
    """Of what was written here there is nothing to refuse."""
    try:
        return list(trace.Reader(buffered(data)))
    except trace.TraceError as error:
        raise Breach(f"what was written is refused: {error}") from error


def read_text(file):
    """Read, written and read again, the operations are the same."""
    operations = list(trace.Reader(file))
    if read_back(written(operations)) != operations:
        raise Breach("what is read again is not what was read")


def converting(name):
    def convert(file):
        target = io.BytesIO()
        writer = trace.Writer(target)
        cleaner = Cleaner(writer)
        SOURCES[name].convert(file, cleaner, writer, Options())
        cleaner.end()
        writer.end()
        read_back(target.getvalue())
    return convert


# What is done with a file of each kind, one after the other.
READERS = {
    "text": (read_text, converting("moiety")),
    "rmm": (converting("rmm"),),
    "torch": (converting("torch"),),
}


# What is told of and does nothing.
_HARMLESS = frozenset(("builtins.id",))


class _Watch:
    """Python cannot take an audit hook away: there is one, and it sleeps."""

    def __init__(self):
        self._is_awake = False
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        if self._is_awake and event not in _HARMLESS:
            self._is_awake = False  # what tells of the breach may import
            raise Breach(f"{event} {arguments!r}")

    @contextlib.contextmanager
    def awake(self):
        self._is_awake = True
        try:
            yield
        finally:
            self._is_awake = False


_watch = _Watch()


@contextlib.contextmanager
def opened_bytes(data):
    """The file that has them, opened as a reader's is: decompressed."""
    memory = os.memfd_create("trace")
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(data)
        with opened(f"/proc/self/fd/{memory}") as file:
            yield file
    finally:
        os.close(memory)


def _check_message(error):
    text = str(error)
    if len(text) > _MESSAGE_CHARACTERS_MAX or not text.isprintable():
        raise Breach(f"the message is no line: {text!r}") from error
    if (error.line is None and error.offset is None
            and not _NAMED.match(text)):
        raise Breach(f"the message tells no place: {text}") from error


def check(read, data):
    """Whether the reader takes the data; Breach, or whatever it raises that it
    must not."""
    with opened_bytes(data) as file:
        try:
            with _watch.awake():
                read(file)
        except trace.TraceError as error:
            _check_message(error)
            return False
    return True
