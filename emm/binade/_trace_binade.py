# SPDX-License-Identifier: Apache-2.0
"""Our own traces, as events: whoever records may use addresses as ids, and may
have lost what a ring lost."""

from binade._trace_clean import COUNTS, Event
from binade._trace_error import TraceError
from binade._trace_read import Reader


def _carry_info(info, cleaner, writer):
    """What was counted when the trace was made stays counted."""
    for key, text in info.items():
        if key in COUNTS:
            if not text.isdecimal() or len(text) > 20:
                raise TraceError(f"the I line for {key} has no number")
            cleaner.counts[key] += int(text)
        elif key != "source":
            writer.info(key, text)


def convert(file, cleaner, writer, _options):
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
