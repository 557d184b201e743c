# SPDX-License-Identifier: Apache-2.0
"""Converts what others recorded into a trace; and our own traces, in which
whoever records may use addresses as ids, and may have lost what a ring lost."""

import collections

from moiety._trace import from_rmm, from_torch
from moiety._trace.clean import COUNTS, Cleaner, Event
from moiety._trace.files import name_of_format, opened, placed
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


# By the name of a format: what reads it, whether it begins so, and the options
# that mean something there.
Source = collections.namedtuple("Source", "convert begins options")
SOURCES = {
    "rmm": Source(from_rmm.convert, from_rmm.begins, {"nth"}),
    "torch": Source(from_torch.convert, from_torch.begins, {"device"}),
    "moiety": Source(_convert_own, lambda start: start.startswith(SIGNATURE),
                     set()),
}

Options = collections.namedtuple("Options", "device nth",
                                 defaults=(None, None))


class OptionError(Exception):
    """An option that means nothing for such a file."""


def _told(file):
    """The name of the file's format."""
    with placed(offset=0):
        start = file.peek(1)
    if not start:
        raise TraceError("the file is empty", offset=0)
    for name, source in SOURCES.items():
        if source.begins(start):
            return name
    other = name_of_format(start)
    raise TraceError(f"it is {other}, which cannot be converted" if other else
                     "it begins as none of the formats does: name one with "
                     "--from", offset=0)


def _check_options(name, options):
    for option, value in options._asdict().items():
        if value is not None and option not in SOURCES[name].options:
            raise OptionError(f"--{option} means nothing for {name}")


def convert(path, target, source_name=None, options=Options(), watch=None):
    """Writes the trace `target` of the file `path`, and returns what it came to
    as a dictionary for JSON; 0 and 1 are standard input and output. TraceError
    for what cannot be converted; then there is no target. `watch` as opened()
    calls it."""
    with opened(path, watch) as file:
        name = source_name or _told(file)
        _check_options(name, options)
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
