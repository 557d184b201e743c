# SPDX-License-Identifier: Apache-2.0
"""Moiety: a GPU memory pool that reuses memory safely for callers who cannot
name a stream, and pinned host memory on the NUMA node next to the GPU."""

from moiety._native import (
    ANY, DONE, LEGACY, PER_THREAD, Block, Error, HostArena, HostBlock,
    OutOfMemoryError, Pool, SegmentWatch, Tenant, pool_of, probe, version)
from moiety._pools.pools import Pools, default_pools

__version__ = version()
__all__ = [
    "ANY", "DONE", "LEGACY", "PER_THREAD", "Block", "Error", "HostArena",
    "HostBlock", "OutOfMemoryError", "Pool", "Pools", "SegmentWatch", "Tenant",
    "default_pools", "pool_of", "probe", "version"]
