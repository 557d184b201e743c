# SPDX-License-Identifier: Apache-2.0
"""What numba-cuda asks cuda.core for: copies of a kernel's NumPy arguments."""

import gc

import numpy as np
import pytest
from numba_support import (Stream, address_of, cuda, needs_two_devices,
                           reset_afterwards)
from support import MIB

import moiety.numba
from numba.cuda.cudadrv import devicearray
from numba.cuda.cudadrv.driver import device_memset

__all__ = ["reset_afterwards"]


def live():
    return moiety.numba.pool().stats().allocation_current


def cores_device():
    return cuda.current_context().device._dev


@pytest.mark.filterwarnings("ignore:Host array used")
def test_copy_of_an_argument_comes_from_the_pool():
    view, _ = devicearray._to_strided_memory_view(np.arange(1000))
    assert moiety.numba.pool().owns(view.ptr)
    assert view.is_device_accessible
    assert live() == 1
    del view
    assert live() == 0


@pytest.mark.filterwarnings("ignore:Host array used")
def test_empty_argument():
    view, _ = devicearray._to_strided_memory_view(np.empty(0))
    assert view.shape == (0,)


def test_buffer_that_is_dropped_waits_for_whoever_still_uses_it():
    stream = Stream()
    buffer = cores_device().allocate(MIB, stream=stream.of_numba)
    address = int(buffer.handle)
    stream.hold()
    work = cuda.device_array(MIB, np.uint8)
    device_memset(work, 0, MIB, stream=stream.of_numba)
    del buffer
    array = cuda.device_array(MIB, np.uint8)
    assert live() == 2
    assert address_of(array) != address
    stream.release()
    stream.of_numba.synchronize()


@needs_two_devices
def test_each_device_has_its_own():
    for device in range(2):
        with cuda.gpus[device]:
            buffer = cores_device().allocate(MIB, stream=0)
            assert moiety.numba.pool().owns(int(buffer.handle))
            assert cores_device().memory_resource.device_id == device


def test_out_of_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        cores_device().allocate(1 << 50, stream=0)


def test_buffer_outlives_a_reset_as_an_object():
    buffer = cores_device().allocate(MIB, stream=0)
    cuda.current_context().reset()
    other = cores_device().allocate(MIB, stream=0)
    del buffer
    assert live() == 1
    assert moiety.numba.pool().owns(int(other.handle))


def test_context_that_is_gone_has_no_memory():
    context = cuda.current_context()
    resource = context.device._dev.memory_resource
    other = moiety.numba.Manager(context=context)
    other.initialize()
    latest = context.device._dev.memory_resource
    assert latest is not resource
    del other
    gc.collect()
    with pytest.raises(RuntimeError, match="closed"):
        latest.allocate(MIB)
    context.device._dev.memory_resource = resource
