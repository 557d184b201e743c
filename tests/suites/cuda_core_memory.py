# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for cuda.core's own tests: puts our resources in the place
of a Device's, of cuda.core's that a test makes without options, and of those
that the tests have made themselves. Leaves out what asks for how theirs work
inside."""

import functools
import os

import pytest

import memory_plugins

# By name: why a test is left out of both runs.
LEFT_OUT = {
    "test_memory.py::test_device_memory_resource_peer_accessible_by_non_owned":
        "which devices may access a pool of the driver's",
    "test_memory.py::test_dmr_mempool_get_access_self":
        "which devices may access a pool of the driver's",
    "test_memory.py::test_legacy_pinned_device_id_raises":
        "our pinned memory has the device -1, as that of their pools has",
    "test_graph_memory_resource.py::test_dmr_check_capture_state":
        "the words of their refusal of a stream that captures",
}

IS_OURS = os.environ.get("MOIETY_CUDA_CORE_MEMORY") == "ours"

arenas = {}


@functools.cache
def pools():
    import moiety

    return moiety.Pools()


def arena_of(device):
    """Of that device, or of the current one: pinned memory says whose it is."""
    from cuda.core import Device

    import moiety

    ordinal = (Device() if device is None else device).device_id
    if ordinal not in arenas:
        arenas[ordinal] = moiety.HostArena(ordinal)
    return arenas[ordinal]


@functools.cache
def resources():
    """Our resources: of device memory, pinned, and one that tells what it has
    given out. They have what tests ask of theirs besides: they say that they
    share nothing with other processes, and need no stream."""
    import moiety.cuda_core
    from cuda.core import Device

    class Lenient:
        is_ipc_enabled = False

        def allocate(self, size, *, stream=None):
            return super().allocate(size, stream=Device().default_stream
                                    if stream is None else stream)

    class DeviceMemory(Lenient, moiety.cuda_core.MemoryResource):
        def __init__(self, device=None):
            super().__init__(device, pools())

    class PinnedMemory(Lenient, moiety.cuda_core.PinnedMemoryResource):
        def __init__(self, device=None):
            super().__init__(arena_of(device))

    class TrackingMR(DeviceMemory):
        def __init__(self):
            super().__init__()
            self.active = {}

        def allocate(self, size, *, stream=None):
            buffer = super().allocate(size, stream=stream)
            self.active[int(buffer.handle)] = size
            return buffer

        def deallocate(self, ptr, size, *, stream):
            super().deallocate(ptr, size, stream=stream)
            del self.active[int(ptr)]

    return DeviceMemory, PinnedMemory, TrackingMR


def chosen(theirs, ours, argument_count):
    """A class with the name of theirs, of which a test that gives it options,
    after that many other arguments, gets theirs."""

    class Chosen(theirs):
        def __new__(cls, *arguments, **options):
            kind = (theirs if options or len(arguments) > argument_count
                    else ours)
            return kind(*arguments, **options)

    Chosen.__name__ = theirs.__name__
    return Chosen


def put_ours_in_cuda_core():
    import cuda.core
    from cuda.core import Device

    device_memory, pinned_memory, _ = resources()
    for name, ours, argument_count in (
            ("DeviceMemoryResource", device_memory, 1),
            ("PinnedMemoryResource", pinned_memory, 0),
            ("LegacyPinnedMemoryResource", pinned_memory, 0)):
        setattr(cuda.core, name, chosen(getattr(cuda.core, name), ours,
                                        argument_count))
    theirs = Device.memory_resource

    def memory_resource(self):
        if self._memory_resource is None:
            self._check_context_initialized()
            theirs.fset(self, device_memory(self))
        return self._memory_resource

    Device.memory_resource = property(memory_resource, theirs.fset)


def put_ours_in_helpers():
    """The folder of their conftest.py is where they are imported from."""
    import helpers.buffers

    device_memory, _, tracking = resources()
    helpers.buffers.TrackingMR = tracking
    put_ours_in_class(helpers.buffers.DummyDeviceMemoryResource, device_memory)


def put_ours_in_class(theirs, ours):
    """Where parameters of tests have the class already."""
    theirs.__new__ = lambda cls, *arguments: ours(*arguments)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests():
    if IS_OURS:
        put_ours_in_cuda_core()
    result = yield
    if IS_OURS:
        put_ours_in_helpers()
    return result


def pytest_configure(config):
    for name in ("agent_authored(model)", "human_reviewed", "human_authored",
                 "thread_unsafe(reason)", "parallel_threads_limit(count)"):
        config.addinivalue_line("markers", name)


def pytest_collection_modifyitems(items):
    memory_plugins.leave_out(items, LEFT_OUT)
    if IS_OURS:
        for module in {item.module for item in items}:
            if hasattr(module, "DummyPinnedMemoryResource"):
                put_ours_in_class(module.DummyPinnedMemoryResource,
                                  resources()[1])


def pytest_served():
    """How many allocations the pools and arenas have served."""
    if not IS_OURS:
        return 0
    return memory_plugins.count_served(
        [*pools().stats().values(), *(one.stats() for one in arenas.values())])
