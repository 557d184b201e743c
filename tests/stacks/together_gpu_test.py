# SPDX-License-Identifier: Apache-2.0
"""CuPy, cuda.core, RMM and numba in one process: one pool, one limit."""

import cupy
import numpy as np
import pytest
import rmm
from cuda.core import Device
from numba import cuda

import binade
import binade.cuda
import binade.cupy
import binade.numba
import binade.rmm

MIB = 1 << 20
LIMIT = 512 * MIB


@pytest.fixture(scope="module")
def pools():
    with binade.Pools(limit_bytes=LIMIT) as made:
        binade.numba.enable(made)
        cuda.current_context()  # numba gives cuda.core's device its own
        binade.cupy.enable(made)
        binade.rmm.enable(made)
        device = Device(0)
        device.set_current()
        device.memory_resource = binade.cuda.MemoryResource(device, made)
        yield made
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


def take_all(nbytes):
    """A piece of memory of each library, by its name."""
    device = Device(0)
    return {
        "cupy": cupy.ones(nbytes, dtype=np.uint8),
        "cuda.core": device.allocate(nbytes, stream=device.default_stream),
        "rmm": rmm.DeviceBuffer(size=nbytes),
        "numba": cuda.to_device(np.ones(nbytes, dtype=np.uint8)),
    }


def test_all_are_in_one_pool(pools):
    kept = take_all(MIB)
    assert pools[0].owns(kept["cupy"].data.ptr)
    assert pools[0].owns(int(kept["cuda.core"].handle))
    assert pools[0].owns(kept["rmm"].ptr)
    assert pools[0].owns(
        kept["numba"].__cuda_array_interface__["data"][0])
    assert 4 * MIB <= pools.used_bytes() <= 4 * MIB * 1.05
    assert int(cupy.asarray(kept["numba"]).sum()) == MIB
    kept["cuda.core"].close()
    kept.clear()
    Device(0).sync()
    assert pools.used_bytes() == 0


def test_what_one_frees_serves_the_next(pools):
    """Each takes most of the limit, in turn."""
    most = LIMIT * 3 // 4
    for _ in range(2):
        array = cupy.zeros(most, dtype=np.uint8)
        with pytest.raises(MemoryError):
            rmm.DeviceBuffer(size=most)
        del array
        buffer = rmm.DeviceBuffer(size=most)
        with pytest.raises(MemoryError):
            cupy.zeros(most, dtype=np.uint8)
        del buffer
        array = cuda.device_array(most, dtype=np.uint8)
        with pytest.raises(MemoryError):
            Device(0).allocate(most, stream=Device(0).default_stream)
        del array
        buffer = Device(0).allocate(most, stream=Device(0).default_stream)
        buffer.close()
    assert pools.total_bytes() <= LIMIT
