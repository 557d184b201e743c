# SPDX-License-Identifier: Apache-2.0
"""Pinned, mapped and managed memory through numba."""

import gc
import weakref

import numpy as np
import pytest
from numba_support import Stream, cuda, reset_afterwards, standin
from support import MIB

import moiety.numba
from moiety import _native

__all__ = ["reset_afterwards"]


def live_in_arena(**options):
    return moiety.numba.arena(**options).stats().allocation_current


def registered():
    """Registrations of the driver: calls that made less those that ended."""
    return (standin.moiety_standin_calls(b"cuMemHostRegister")
            - standin.moiety_standin_calls(b"cuMemHostUnregister"))


def test_pinned_array_is_on_the_node_next_to_the_device():
    array = cuda.pinned_array(MIB, np.uint8)
    array[:] = 7
    arena = moiety.numba.arena()
    where = arena.stats().host
    assert where.pages_asked * 4096 >= MIB
    assert where.pages_near == where.pages_asked
    assert "nearest to the device" in arena.report()
    assert live_in_arena() == 1
    del array
    assert live_in_arena() == 0


def test_device_copies_from_and_to_pinned_arrays():
    source, target = cuda.pinned_array(1000), cuda.pinned_array(1000)
    source[:] = np.arange(1000)
    stream = Stream().of_numba
    array = cuda.to_device(source, stream=stream)
    array.copy_to_host(target, stream=stream)
    stream.synchronize()
    assert np.array_equal(target, np.arange(1000))


def test_pinned_array_serves_again_only_when_its_copy_is_over():
    stream = Stream()
    source = cuda.pinned_array(MIB, np.uint8)
    source[:] = 1
    address = source.ctypes.data
    array = cuda.device_array(MIB, np.uint8)
    stream.hold()
    array.copy_to_device(source, stream=stream.of_numba)
    del source
    other = cuda.pinned_array(MIB, np.uint8)
    other[:] = 2
    assert other.ctypes.data != address
    stream.release()
    stream.of_numba.synchronize()
    assert set(array.copy_to_host()) == {1}


def test_mapped_array_is_one_memory_for_both():
    array = cuda.mapped_array(1000)
    array[:] = 3
    copy = cuda.device_array(1000)
    copy.copy_to_device(cuda.as_cuda_array(array))
    assert set(copy.copy_to_host()) == {3}
    assert live_in_arena() == 1
    del array
    assert live_in_arena() == 0


def test_write_combined_memory_has_an_arena_of_its_own():
    context = cuda.current_context()
    memory = context.memhostalloc(MIB, mapped=True, wc=True)
    assert live_in_arena(write_combined=True) == 1
    assert live_in_arena() == 0
    # Nothing but write-combined memory is the driver's own.
    kinds = [moiety.numba.arena(kind).stats().host.page_kind_bytes
             for kind in (True, False)]
    assert kinds[0]["driver"] >= MIB
    assert kinds[1]["driver"] == 0
    del memory
    assert live_in_arena(write_combined=True) == 0


def test_pinned_array_outlives_a_reset():
    array = cuda.pinned_array(1000)
    mapped = cuda.mapped_array(1000)
    array[:], mapped[:] = 4, 5
    cuda.current_context().reset()
    others = [cuda.pinned_array(1000) for _ in range(10)]
    for other in others:
        other[:] = 6
    assert (set(array), set(mapped)) == ({4}, {5})


def test_array_may_be_pinned_several_times():
    before, array = registered(), np.zeros(MIB)
    with cuda.pinned(array):
        with cuda.pinned(array, array[10:]):
            with cuda.mapped(array) as on_device:
                on_device.copy_to_host()
        assert registered() > before
    assert registered() == before


def test_neighbours_on_a_page_are_copied_and_pinned():
    memory = np.arange(10_000, dtype=np.int32)
    array, neighbour = memory[10:2010], memory[2010:9000]
    with cuda.pinned(array):
        assert np.array_equal(cuda.to_device(neighbour).copy_to_host(),
                              neighbour)
        with cuda.pinned(neighbour):
            for each in (array, neighbour):
                assert np.array_equal(cuda.to_device(each).copy_to_host(), each)


def test_unpinning_waits_for_the_end_of_deferred_cleanup():
    before, array = registered(), np.zeros(MIB)
    with cuda.defer_cleanup():
        with cuda.pinned(array):
            pass
        assert registered() > before
    assert registered() == before


def test_deferred_unpinning_keeps_the_array():
    # Its memory must not be given to others while it is still registered.
    array = np.zeros(MIB)
    owner = weakref.ref(array)
    with cuda.defer_cleanup():
        with cuda.pinned(array):
            pass
        del array
        gc.collect()
        assert owner() is not None
    gc.collect()
    assert owner() is None


def test_reset_unpins():
    before, array = registered(), np.zeros(MIB)
    memory = cuda.current_context().mempin(array, array.ctypes.data,
                                           array.nbytes)
    assert registered() > before
    cuda.current_context().reset()
    assert registered() == before
    del memory  # a late finalizer: nothing is left to do
    assert registered() == before


def test_memory_that_is_not_there_is_not_pinned():
    with pytest.raises(_native.Error) as raised:
        cuda.current_context().mempin(None, 4096, 4096)
    assert raised.value.status == "E_INVALID"


def test_managed_memory_is_freed_at_the_latest_by_a_reset():
    live = lambda: standin.moiety_standin_live(b"allocations")
    cuda.current_context()
    before = live()
    array = cuda.managed_array(1000)
    dropped = cuda.managed_array(1000)
    array[:] = 8
    assert set(array) == {8}
    assert live() == before + 2
    with cuda.defer_cleanup():
        del dropped
        assert live() == before + 2
    assert live() == before + 1
    cuda.current_context().reset()
    assert live() == before
    del array
    assert live() == before
