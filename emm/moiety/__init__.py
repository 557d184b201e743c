# SPDX-License-Identifier: Apache-2.0
"""Moiety is a GPU memory pool that reuses memory safely, also if no stream can be
named. It also has pinned host memory on the NUMA node next to the GPU.

Sizes are in bytes. Limits and budgets can also be text, such as "8GiB".

A stream is a number (a CUstream, or a constant below), "current", or an object of
CuPy, PyTorch, numba or cuda.core.

- ANY, the default, is safe on all streams. It is also the slowest choice. The pool
  waits for the work of all streams before it reuses the memory.
- The name "current" is the fast choice: the current stream of CuPy and PyTorch. If
  the two differ, it is ANY. Without them it is the default stream of numba, or the
  legacy default stream.

All objects can be used by any thread. Calls release the GIL before they wait or
call the driver. After fork(), calls in the child raise ForkedError.
"""

from moiety._native import (
    ANY, DONE, LEGACY, PER_THREAD, Block, BudgetExceededError, CaptureScope,
    CapturingError, ClosedError, ContextLostError, DoubleFreeError, DriverError,
    Error, ForkedError, Growth, Hold, HostArena, HostBlock, InUseError,
    OutOfMemoryError, PausedError, PeerGoneError, Pool, ReentrantError,
    SegmentWatch, Tenant, TimedOutError, UnsupportedError, WouldBlockError,
    pool_of, probe, topology, version)
from moiety._pools.pools import Pools, pools
from moiety._support.guards import capture_guard, pin, pinned, unpin
from moiety._support.stats import ArenaStats, HostStats, PoolStats, TenantStats

__version__ = version()
__all__ = [
    "ANY", "DONE", "LEGACY", "PER_THREAD", "ArenaStats", "Block",
    "BudgetExceededError", "CaptureScope", "CapturingError", "ClosedError",
    "ContextLostError", "DoubleFreeError", "DriverError", "Error",
    "ForkedError", "Growth", "Hold", "HostArena", "HostBlock", "HostStats",
    "InUseError", "OutOfMemoryError", "PausedError", "PeerGoneError", "Pool",
    "PoolStats", "Pools", "ReentrantError", "SegmentWatch", "Tenant",
    "TenantStats", "TimedOutError", "UnsupportedError", "WouldBlockError",
    "capture_guard", "pin", "pinned", "pool_of", "pools", "probe", "topology",
    "unpin", "version"]
