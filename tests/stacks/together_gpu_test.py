# SPDX-License-Identifier: Apache-2.0
"""CuPy, cuda.core, numba, and RMM where it is installed, in one process: one
pool, one limit."""

import cupy
import numpy as np
import pytest
from cuda.core import Device
from numba import cuda

import moiety
import moiety.cuda_core
import moiety.cupy
import moiety.numba

try:
    import rmm

    import moiety.rmm
except ImportError:
    rmm = None

MIB = 1 << 20
LIMIT = 512 * MIB


@pytest.fixture(scope="module")
def pools():
    with moiety.Pools(limit=LIMIT) as made:
        moiety.numba.enable(made)
        cuda.current_context()  # numba gives cuda.core's device its own
        moiety.cupy.enable(made)
        if rmm:
            moiety.rmm.enable(made)
        device = Device(0)
        device.set_current()
        device.memory_resource = moiety.cuda_core.MemoryResource(device, made)
        yield made
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


def takers():
    """By its name, what takes memory of each library."""
    device = Device(0)
    found = {
        "cupy": lambda nbytes: cupy.ones(nbytes, dtype=np.uint8),
        "cuda.core": lambda nbytes: device.allocate(
            nbytes, stream=device.default_stream),
        "numba": lambda nbytes: cuda.device_array(nbytes, dtype=np.uint8),
    }
    if rmm:
        found["rmm"] = lambda nbytes: rmm.DeviceBuffer(size=nbytes)
    return found


def address_of(memory):
    for name in ("handle", "ptr"):
        if hasattr(memory, name):
            return int(getattr(memory, name))
    return memory.__cuda_array_interface__["data"][0]


def test_all_are_in_one_pool(pools):
    kept = {name: take(MIB) for name, take in takers().items()}
    for name, memory in kept.items():
        assert pools[0].owns(address_of(memory)), name
    live = len(kept) * MIB
    assert live <= pools.used_bytes <= live * 1.05
    memory = None
    kept.clear()
    Device(0).sync()
    assert pools.used_bytes == 0


def test_what_one_frees_serves_the_next(pools):
    """Each takes most of the limit, in turn."""
    most = LIMIT * 3 // 4
    for _ in range(2):
        for take in takers().values():
            memory = take(most)
            for other in takers().values():
                with pytest.raises(MemoryError):
                    other(most)
            del memory
    assert pools.total_bytes <= LIMIT


def test_they_read_each_others_arrays(pools):
    array = cuda.to_device(np.arange(1000))
    assert int(cupy.asarray(array).sum()) == 499_500
    doubled = cupy.asarray(array) * 2
    assert cuda.as_cuda_array(doubled).copy_to_host()[-1] == 1998
