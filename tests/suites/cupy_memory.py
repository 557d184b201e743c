# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for CuPy's own tests: puts our memory in the place of
CuPy's pools, and leaves out what asks for how those work inside."""

import os

import memory_plugins

# By name: why a test is left out of both runs.
LEFT_OUT = {
    "TestAllocator::test_reuse_between_thread":
        "memory that a thread has freed is in that thread's cache",
    "TestAllocator::test_reuse_between_thread_same_stream":
        "memory that a thread has freed is in that thread's cache",
}

made = []


def _put_ours():
    import cupy
    from cupy.cuda import memory, pinned_memory

    import moiety
    import moiety.cupy

    theirs = memory.MemoryPool

    def make(allocator=None):
        """CuPy's where a test gives it memory to work on."""
        if allocator is not None:
            return theirs(allocator)
        made.append(moiety.cupy.MemoryPool(moiety.Pools(auto_scope=True)))
        return made[-1]

    default = make()
    memory.MemoryPool = cupy.cuda.MemoryPool = make
    memory.set_allocator(default.malloc)
    cupy.get_default_memory_pool = lambda: default
    pinned_memory.set_pinned_memory_allocator(
        moiety.cupy.pinned_allocator(moiety.HostArena()))


def pytest_configure(config):
    for name in ("slow", "multi_gpu(count)", "thread_unsafe(reason)",
                 "parallel_threads(count)", "iterations(count)"):
        config.addinivalue_line("markers", name)
    if os.environ.get("MOIETY_CUPY_MEMORY") == "ours":
        _put_ours()


def pytest_collection_modifyitems(items):
    memory_plugins.leave_out(items, LEFT_OUT)


def pytest_served():
    """How many allocations the pools have served."""
    return memory_plugins.count_served(
        stats for pool in made for stats in pool._source.stats().values())
