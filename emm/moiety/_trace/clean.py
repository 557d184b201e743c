# SPDX-License-Identifier: Apache-2.0
"""Makes a trace of what a log tells by addresses. Logs of real programs are not
clean: rings lose their oldest entries, threads log each other's past."""

import collections

from moiety._trace.format import FREES, Operation, TraceError

# Threads take the time before they wait for the log, so that a line may be
# older than the one before it. What is more is another log's.
JITTER_NS = 10**9

# What convert() counts, as its I lines are called.
COUNTS = frozenset((
    "cut_lines", "dropped_frees", "dropped_uses", "hours_back", "implied_frees",
    "late_times", "null_blocks", "other_sizes", "skipped_entries",
    "skipped_lines"))

# What is told beside an address: `size_bytes` of a free is that of its block
# as the log has it, or None.
Event = collections.namedtuple(
    "Event", "kind time_ns thread address size_bytes stream tag",
    defaults=(None, None, None, None))


class Cleaner:
    """Writes events as operations: addresses become small ids, times start at
    0. What is dropped or changed is counted in .counts."""

    def __init__(self, writer):
        self._writer = writer
        self._blocks = {}  # (id, size) by address
        self._free_ids = []
        self._requested = set()  # addresses of which a free was requested
        self._start_ns = None
        self._now_ns = 0
        self.counts = collections.Counter()

    def put(self, event):
        """TraceError where the log cannot be trusted further."""
        time_ns = self._time(event.time_ns)
        if event.kind == "alloc":
            self._alloc(event, time_ns)
        elif event.address is not None:
            self._use(event, time_ns)
        else:
            self._write(event, time_ns)

    def end(self):
        """Tells in the trace what was counted."""
        for name, count in sorted(self.counts.items()):
            self._writer.info(name, count)

    def _time(self, time_ns):
        if self._start_ns is None:
            self._start_ns = time_ns
        passed_ns = time_ns - self._start_ns
        if passed_ns < self._now_ns:
            if self._now_ns - passed_ns > JITTER_NS:
                raise TraceError(f"the time goes back by "
                                 f"{self._now_ns - passed_ns} ns")
            self.counts["late_times"] += 1
        self._now_ns = max(self._now_ns, passed_ns)
        return self._now_ns

    def _write(self, event, time_ns, **fields):
        self._writer.write(Operation(
            event.kind, time_ns, event.thread,
            **{"size_bytes": event.size_bytes, "stream": event.stream,
               "tag": event.tag, **fields}))

    def _alloc(self, event, time_ns):
        if event.address == 0:
            self.counts["null_blocks"] += 1
            return
        if event.address in self._blocks:
            # It cannot be handed out twice: the log has lost the free.
            self.counts["implied_frees"] += 1
            self._write(Event("free", 0, event.thread, stream=event.stream),
                        time_ns, id=self._forget(event.address))
        block = self._free_ids.pop() if self._free_ids else len(self._blocks)
        self._write(event, time_ns, id=block)
        self._blocks[event.address] = block, event.size_bytes

    def _use(self, event, time_ns):
        is_free = event.kind in FREES
        if event.address == 0:
            self.counts["null_blocks"] += 1
        elif event.address not in self._blocks:
            self.counts["dropped_frees" if is_free else "dropped_uses"] += 1
        elif not is_free and event.address in self._requested:
            self.counts["dropped_uses"] += 1
        else:
            self._keep_use(event, time_ns, is_free)

    def _keep_use(self, event, time_ns, is_free):
        block, size_bytes = self._blocks[event.address]
        if is_free and event.size_bytes not in (None, size_bytes):
            self.counts["other_sizes"] += 1
        self._write(event, time_ns, id=block, size_bytes=None)
        if is_free:
            self._forget(event.address)
        elif event.kind == "free_requested":
            self._requested.add(event.address)

    def _forget(self, address):
        block, _ = self._blocks.pop(address)
        self._requested.discard(address)
        self._free_ids.append(block)
        return block
