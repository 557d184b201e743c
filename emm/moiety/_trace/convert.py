# SPDX-License-Identifier: Apache-2.0
"""Converts what others recorded into a trace; and our own traces, in which
whoever records may use addresses as ids, and may have lost what a ring lost."""

import collections

from moiety._trace import from_rmm, from_torch
from moiety._trace.clean import COUNTS, Cleaner, Event
from moiety._trace.files import damage_told, opened
from moiety._trace.format import SIGNATURE, TraceError
from moiety._trace.reader import Reader
from moiety._trace.writer import create


def _carry_info(info, cleaner, writer):
    """What was counted when the trace was made stays counted."""
    for key, text in info.items():
        if key in COUNTS:
            if not text.isdecimal() or len(text) > 20:
                raise TraceError(f"the I line for {key} has no number")
            cleaner.counts[key] += int(text)
        elif key != "source":
            writer.info(key, text)


def _convert_own(file, cleaner, writer, _options):
    """Puts what the file has into the cleaner; TraceError with the line."""
    reader = Reader(file, is_checked=False)
    for one in reader:
        try:
            # 0 is an id like others, but no address.
            address = None if one.id is None else one.id + 1
            cleaner.put(Event(one.kind, one.time_ns, one.thread, address,
                              one.size_bytes, one.stream, one.tag))
        except TraceError as error:
            error.line = reader.line
            raise
    _carry_info(reader.info, cleaner, writer)


# By the name of a format, what reads it and what it begins with.
Source = collections.namedtuple("Source", "convert signature")
SOURCES = {
    "rmm": Source(from_rmm.convert, from_rmm.HEADER[:7]),
    "torch": Source(from_torch.convert, b"\x80"),
    "moiety": Source(_convert_own, SIGNATURE),
}

Options = collections.namedtuple("Options", "device", defaults=(None,))


def _told(file):
    """The name of the file's format."""
    with damage_told(offset=0):
        start = file.peek(16)
    for name, source in SOURCES.items():
        if start.startswith(source.signature):
            return name
    raise TraceError("the file is empty" if not start else
                     "it begins as none of the formats does: name one with "
                     "--from", offset=0)


def convert(path, target, source_name=None, options=Options(), watch=None):
    """Writes the trace `target` of the file `path`, and returns what it came to
    as a dictionary for JSON. TraceError for what cannot be converted; then
    there is no target. `watch` as opened() calls it."""
    with opened(path, watch) as file:
        name = source_name or _told(file)
        with create(target) as writer:
            writer.info("source", name)
            cleaner = Cleaner(writer)
            SOURCES[name].convert(file, cleaner, writer, options)
            if not writer.operation_count:
                raise TraceError("there is no operation in it")
            cleaner.end()
            return {"from": name, "operations": writer.operation_count,
                    "peak_live_bytes": writer.live.peak_bytes,
                    "counts": dict(sorted(cleaner.counts.items()))}
