# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for RMM's own tests: puts our resource in the place of
those that take memory from the driver, also below RMM's adaptors."""

import os

import pytest

import memory_plugins

# Some tests make RMM's pool take half of what the device has. Ours would keep
# that from the other workers.
KEPT_BYTES = 1 << 30

pools = None


def _in_place_of(theirs):
    """A class of the same name. Where a test gives it options it makes theirs:
    such a test is of how their memory works."""
    import rmm

    import moiety.rmm

    class Ours(moiety.rmm.MemoryResource):
        def __new__(cls, *arguments, **options):
            if arguments or options:
                return theirs(*arguments, **options)
            return super().__new__(cls)

        def __init__(self):
            super().__init__(rmm._cuda.gpu.getDevice(), pools)

    Ours.__name__ = theirs.__name__
    return Ours


def _initialize_with_ours(theirs):
    """What rmm.reinitialize() does, which conftest.py calls after each test."""
    from rmm import mr

    def initialize(*, pool_allocator, managed_memory, initial_pool_size,
                   maximum_pool_size, devices, logging, log_file_name):
        assert devices == 0, "no test asks for others"
        theirs(managed_memory=managed_memory)
        made = (mr.get_current_device_resource() if managed_memory
                else mr.CudaMemoryResource())
        if pool_allocator:
            made = mr.PoolMemoryResource(made, initial_pool_size,
                                         maximum_pool_size)
        if logging:
            made = mr.LoggingResourceAdaptor(made, log_file_name)
        mr.set_current_device_resource(made)

    return initialize


def _put_ours():
    global pools
    import rmm
    import rmm.rmm

    import moiety

    pools = moiety.Pools()
    for name in ("CudaMemoryResource", "CudaAsyncMemoryResource"):
        setattr(rmm.mr, name, _in_place_of(getattr(rmm.mr, name)))
    rmm.rmm._initialize = _initialize_with_ours(rmm.rmm._initialize)
    rmm.reinitialize()


def pytest_configure():
    if os.environ.get("MOIETY_RMM_MEMORY") == "ours":
        _put_ours()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    result = yield
    if pools is not None and pools.total_bytes > KEPT_BYTES:
        pools.trim(wait=True)
    return result


def pytest_served():
    """How many allocations the pools have served."""
    return 0 if pools is None else memory_plugins.count_served(
        pools.stats().values())
