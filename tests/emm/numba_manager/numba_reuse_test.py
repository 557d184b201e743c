# SPDX-License-Identifier: Apache-2.0
"""When the memory of a dropped array serves again, and what happens when there
is none."""

import numpy as np
import pytest
from numba_support import (Stream, address_of, cuda, needs_small_memory,
                           reset_afterwards, standin)
from support import MIB

import moiety.numba
from moiety import _native
from moiety._numba import manager
from numba.cuda.cudadrv.driver import CudaAPIError, device_memset

__all__ = ["reset_afterwards"]

WORDS = 4096


def read_late():
    """Drops an array while held work has still to copy it, asks for memory of
    that size and overwrites it. Whether both got the same memory, and what the
    copy has."""
    reader = Stream()
    source = cuda.to_device(np.full(WORDS, 0x11, np.uint8))
    copied = cuda.device_array_like(source)
    address = address_of(source)
    reader.hold()
    copied.copy_to_device(source, stream=reader.of_numba)
    del source
    taken = cuda.to_device(np.full(WORDS, 0x22, np.uint8))
    is_same = address_of(taken) == address
    reader.release()
    reader.of_numba.synchronize()
    return is_same, set(copied.copy_to_host())


def test_pending_reader_sees_its_own_data():
    assert read_late() == (False, {0x11})


def alloc_and_free_as_done(source, size):
    block = source.alloc(size)
    block.stream = _native.DONE
    return block


def test_pool_that_is_told_that_work_is_done_gives_it_to_the_next(monkeypatch):
    # What a pool does that does not wait for the reader: so the test above
    # would see it.
    monkeypatch.setattr(manager, "alloc", alloc_and_free_as_done)
    assert read_late() == (True, {0x22})


def test_memory_serves_again_when_the_work_is_over():
    stream = Stream()
    arrays = [cuda.device_array(MIB, np.uint8) for _ in range(4)]
    for array in arrays:
        device_memset(array, 0, MIB, stream=stream.of_numba)
    seen = {address_of(array) for array in arrays}
    del array, arrays
    stream.of_numba.synchronize()
    moiety.numba.trim(keep_bytes=1 << 30)  # takes back what is done
    arrays = [cuda.device_array(MIB, np.uint8) for _ in range(4)]
    assert {address_of(array) for array in arrays} == seen


def test_memory_can_be_freed_before_its_array_goes():
    array = cuda.device_array(MIB, np.uint8)
    array.gpu_data.free()
    assert moiety.numba.pool().stats().allocation_current == 0
    with pytest.raises(RuntimeError, match="dead"):
        array.gpu_data.free()


def test_view_keeps_memory():
    array = cuda.to_device(np.arange(1000))
    view = array[100:200]
    del array
    others = [cuda.to_device(np.zeros(1000)) for _ in range(10)]
    assert moiety.numba.pool().stats().allocation_current == 11
    assert np.array_equal(view.copy_to_host(), np.arange(100, 200))
    del view, others
    assert moiety.numba.pool().stats().allocation_current == 0


def test_frees_go_to_the_pool_although_cleanup_is_deferred():
    stats = moiety.numba.pool().stats
    array = cuda.device_array(MIB, np.uint8)
    with cuda.defer_cleanup():
        with cuda.defer_cleanup():
            del array
            assert stats().allocation_current == 0


def test_trim_waits_for_the_last_deferral():
    reserved = lambda: moiety.numba.pool().stats().reserved_bytes_current
    cuda.device_array(MIB, np.uint8)
    with cuda.defer_cleanup():
        with cuda.defer_cleanup():
            assert moiety.numba.trim() == 0
        assert reserved() > 0
    assert reserved() == 0


@needs_small_memory
def test_memory_info_counts_what_the_pool_keeps():
    context = cuda.current_context()
    before = context.get_memory_info()
    cuda.device_array(MIB, np.uint8)
    after = context.get_memory_info()
    assert moiety.numba.pool().stats().reserved_bytes_current > 0
    assert after == before
    assert after.total == 512 * MIB


@needs_small_memory
@pytest.mark.parametrize("caught", [MemoryError, CudaAPIError,
                                    moiety.numba.OutOfMemoryError])
def test_out_of_memory_is_what_its_catchers_expect(caught):
    most = cuda.device_array(400 * MIB, np.uint8)
    with pytest.raises(caught) as raised:
        cuda.device_array(400 * MIB, np.uint8)
    del most
    assert raised.value.code == 2  # CUDA_ERROR_OUT_OF_MEMORY
    assert raised.value.status == "E_NO_DEVICE_MEMORY"
    assert raised.value.report is not None
    assert cuda.device_array(MIB, np.uint8).size == MIB


def test_request_beyond_the_device_is_out_of_memory_too():
    asked = standin.moiety_standin_calls(b"cuMemAlloc")
    with pytest.raises(MemoryError) as raised:
        cuda.device_array(1 << 50, np.uint8)
    assert raised.value.status == "E_TOO_LARGE"
    assert standin.moiety_standin_calls(b"cuMemAlloc") == asked
