# SPDX-License-Identifier: Apache-2.0
"""Cleaning up that may stall the device, and so can be put off: what
numba.cuda.defer_cleanup() asks a memory manager for.

Finalizers call into this from any thread and in the middle of anything, as the
garbage collector runs them. So nothing that they use takes a lock.
"""

import collections
import contextlib
import threading


class Cleanup:
    """Calls functions at once, or when the last deferred() ends. They must not
    raise: there may be nobody to hear it."""

    def __init__(self):
        self._depth = 0
        # A collection of garbage while it is held may come back to it.
        self._depth_lock = threading.RLock()
        self._waiting = collections.deque()

    def call(self, function, *arguments):
        """Calls the function, or keeps it with its arguments for later."""
        if not self._depth:
            function(*arguments)
            return
        self._waiting.append((function, arguments))
        # Another thread may have ended the last deferred() in between, and
        # have found nothing.
        if not self._depth:
            self._drain()

    def _drain(self):
        while self._waiting:
            try:
                function, arguments = self._waiting.popleft()
            except IndexError:  # another thread took it
                return
            function(*arguments)

    @contextlib.contextmanager
    def deferred(self):
        """May be nested, and entered by several threads: all of them count."""
        with self._depth_lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._depth_lock:
                self._depth -= 1
                is_last = not self._depth
            if is_last:
                self._drain()
