# SPDX-License-Identifier: Apache-2.0
"""Traces: what a program allocated and freed, as a file that can be replayed.

    with moiety.trace.read("serving.mtrace.gz") as operations:
        for one in operations:
            print(one.time_ns, one.thread, one.kind, one.id, one.size_bytes)

    with moiety.trace.create("made.mtrace.gz") as trace:
        trace.write(moiety.trace.Operation(
            "alloc", time_ns=0, thread="main", id=0, size_bytes=4096, stream=0))
        trace.write(moiety.trace.Operation(
            "free", time_ns=900, thread="main", id=0, stream=0))

Both handle one operation at a time, so that a file can be larger than memory.
`moiety trace --help` converts logs of other allocators, and
docs/dev/trace-format.md describes the format. Use a Reader or Writer in one thread at
a time."""

from moiety._trace.format import Operation, TraceError
from moiety._trace.reader import Reader, read
from moiety._trace.writer import Writer, create

__all__ = ["Operation", "Reader", "TraceError", "Writer", "create", "read"]
