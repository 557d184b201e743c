# SPDX-License-Identifier: Apache-2.0
"""The allocations that a trace has live: what its operations may name."""

from binade._trace_error import TraceError
from binade._trace_format import FREES, LIVE_BYTES_MAX, LIVE_COUNT_MAX


class Live:
    """Counts are of now; peaks of the moments at which each was highest."""

    def __init__(self):
        self._sizes = {}
        self._requested = set()  # ids of which a free was requested
        self.live_bytes = 0
        self.peak_bytes = 0
        self.peak_count = 0

    @property
    def live_count(self):
        return len(self._sizes)

    def apply(self, operation):
        """TraceError for an operation that cannot be at this place."""
        if operation.kind == "alloc":
            self._alloc(operation.id, operation.size_bytes)
        elif operation.id is not None:
            self._use(operation.kind, operation.id)

    def _alloc(self, block, size_bytes):
        if block in self._sizes:
            raise TraceError(f"{block} is allocated, but it was not freed")
        if len(self._sizes) == LIVE_COUNT_MAX:
            raise TraceError(f"more than {LIVE_COUNT_MAX} allocations are live")
        if self.live_bytes + size_bytes > LIVE_BYTES_MAX:
            raise TraceError(f"more than {LIVE_BYTES_MAX} bytes are live")
        self._sizes[block] = size_bytes
        self.live_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        self.peak_count = max(self.peak_count, len(self._sizes))

    def _use(self, kind, block):
        if block not in self._sizes:
            raise TraceError(f"{kind} of {block}, which is not allocated")
        if kind in FREES:
            self.live_bytes -= self._sizes.pop(block)
            self._requested.discard(block)
        elif block in self._requested:
            raise TraceError(f"{kind} of {block}, of which a free was "
                             f"requested before")
        elif kind == "free_requested":
            self._requested.add(block)
