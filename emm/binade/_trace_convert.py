# SPDX-License-Identifier: Apache-2.0
"""Converts what others recorded into a trace."""

import collections

from binade import _trace_binade, _trace_rmm, _trace_torch
from binade._trace_clean import Cleaner
from binade._trace_error import TraceError
from binade._trace_format import SIGNATURE
from binade._trace_lines import damage_told, opened
from binade._trace_write import create

# By the name of a format, what reads it and what it begins with.
Source = collections.namedtuple("Source", "convert signature")
SOURCES = {
    "rmm": Source(_trace_rmm.convert, _trace_rmm.HEADER[:7]),
    "torch": Source(_trace_torch.convert, b"\x80"),
    "binade": Source(_trace_binade.convert, SIGNATURE),
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
