# SPDX-License-Identifier: Apache-2.0
"""Arrays for other processes: numba's IPC handles of the pool's memory."""

import concurrent.futures
import multiprocessing
import pickle

import numpy as np
import pytest
from numba_handles import SHAPES, are_opaque, use_shape
from numba_support import address_of, cuda, reset_afterwards

import moiety.ipc
import moiety.numba
from moiety._numba.family import FAMILY
from numba.cuda.cudadrv.driver import CudaAPIError, IpcHandle, driver

__all__ = ["reset_afterwards"]


def read(handle):
    """In another process: what the array has; then 0 instead of it."""
    with handle as array:
        found = array.copy_to_host()
        array.copy_to_device(np.zeros_like(found))
    return found


def read_raw(handle_bytes, offset, count):
    if not are_opaque():
        with cuda.open_ipc_array(handle_bytes, shape=count, dtype=np.int64,
                                 offset=offset) as array:
            return array.copy_to_host()
    # numba's function writes `reserved`.
    handle = IpcHandle(None, FAMILY.ipc_handle(handle_bytes), 8 * count,
                       offset=offset)
    found = handle.open_array(cuda.current_context(), count,
                              np.dtype(np.int64), (8,)).copy_to_host()
    handle.close()
    return found


def read_without_numbas_handle(handle):
    with moiety.ipc.open_handle(handle) as shared:
        return cuda.as_cuda_array(shared).copy_to_host()


@pytest.fixture(name="shape", scope="module", params=SHAPES, autouse=True)
def used_shape(request):
    """Of the handles of cuda.bindings, here and in the peer."""
    with pytest.MonkeyPatch.context() as patch:
        use_shape(request.param, patch)
        yield request.param


@pytest.fixture(name="peer", scope="module")
def started_peer(shape):
    """Calls functions in a process that was spawned."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
            1, context, use_shape, (shape,)) as executor:
        yield lambda *call: executor.submit(*call).result(timeout=120)


@pytest.fixture(name="array")
def array_inside_a_segment():
    """One that does not begin where its segment does."""
    before = cuda.to_device(np.full(1000, -1))
    array = cuda.to_device(np.arange(1000))
    yield array
    assert set(before.copy_to_host()) == {-1}


def handle_of(array):
    return cuda.current_context().get_ipc_handle(array.gpu_data)


def test_peer_has_the_array(array, peer):
    assert handle_of(array).offset > 0
    assert np.array_equal(peer(read, array.get_ipc_handle()), np.arange(1000))
    assert set(array.copy_to_host()) == {0}


@pytest.mark.parametrize("part", [slice(7, None), slice(7, 11), slice(0, 5)])
def test_peer_has_a_slice(array, peer, part):
    wanted = np.arange(1000)
    assert np.array_equal(peer(read, array[part].get_ipc_handle()),
                          wanted[part])
    wanted[part] = 0
    assert np.array_equal(array.copy_to_host(), wanted)


def test_peer_without_numbas_handle_uses_the_bytes_and_the_offset(array, peer):
    handle = handle_of(array)
    assert len(bytes(handle.handle.reserved)) == 64
    found = peer(read_raw, handle.handle.reserved, handle.offset, 1000)
    assert np.array_equal(found, np.arange(1000))


def test_two_arrays_of_one_segment_differ_by_their_offsets(peer):
    first, second = (cuda.to_device(np.full(10, value)) for value in (1, 2))
    handles = [array.get_ipc_handle() for array in (first, second)]
    assert [set(peer(read, handle)) for handle in handles] == [{1}, {2}]


class Foreign:
    """An array that numba gets by its interface alone."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "<i8", "data": (address, False),
            "version": 3}


def test_view_that_came_through_the_array_interface(array, peer):
    view = cuda.as_cuda_array(Foreign(address_of(array) + 24, 997))
    assert np.array_equal(peer(read, view.get_ipc_handle()),
                          np.arange(3, 1000))


def test_memory_of_others_is_left_to_the_driver(peer):
    cuda.device_array(10)  # there is a pool to ask
    base = driver.cuMemAlloc(16000)
    view = cuda.as_cuda_array(Foreign(int(base) + 8000, 1000))
    view.copy_to_device(np.arange(1000))
    handle = handle_of(view)
    assert handle.offset == 8000
    assert np.array_equal(
        peer(read_raw, handle.handle.reserved, handle.offset, 1000),
        np.arange(1000))
    assert np.array_equal(peer(read, view.get_ipc_handle()), np.arange(1000))
    driver.cuMemFree(base)


def test_handle_keeps_its_array(array):
    handle = array.get_ipc_handle()
    before = moiety.numba.pool().stats().allocation_current
    del array
    assert moiety.numba.pool().stats().allocation_current == before
    assert pickle.loads(pickle.dumps(handle)) is not None


def test_segment_of_an_export_is_not_trimmed():
    array = cuda.to_device(np.arange(1000))
    address = address_of(array)
    array.get_ipc_handle()
    del array
    moiety.numba.trim()
    assert moiety.numba.pool().stats().reserved_bytes_current > 0
    # Nor does it serve again, as a peer may still have it.
    others = [cuda.device_array(1000, np.int64) for _ in range(50)]
    assert address not in {address_of(other) for other in others}
    del others
    moiety.numba.release_exports()
    moiety.numba.trim()
    assert moiety.numba.pool().stats().reserved_bytes_current == 0


def test_memory_that_is_gone_has_no_handle():
    array = cuda.to_device(np.arange(1000))
    cuda.current_context().reset()
    with pytest.raises(CudaAPIError):
        handle_of(array)


@pytest.mark.parametrize("part", [slice(7, 11), slice(5, None, 3)])
def test_moiety_ipc_shares_arrays_of_numba(array, peer, part):
    handle = moiety.ipc.export(array[part])
    found = peer(read_without_numbas_handle, handle)
    assert np.array_equal(found, np.arange(1000)[part])


def test_handles_of_numba_are_not_released_by_others():
    array = cuda.to_device(np.arange(1000))
    array.get_ipc_handle()
    handle = moiety.ipc.export(array)
    del array
    handle.release()
    moiety.numba.trim()
    assert moiety.numba.pool().stats().reserved_bytes_current > 0
