# SPDX-License-Identifier: Apache-2.0
"""The plugin when contexts come and go, and when things go wrong."""

import gc
import itertools
import threading

import numpy as np
import pytest
from numba_support import (address_of, cuda, needs_two_devices,
                           reset_afterwards, standin)
from support import MIB, run_program, run_threads

import moiety.numba
from moiety import _native
from moiety._numba import manager

__all__ = ["reset_afterwards"]


def live_on(device):
    with cuda.gpus[device]:
        return moiety.numba.pool().stats().allocation_current


def test_numba_uses_the_plugin():
    manager = cuda.current_context().memory_manager
    assert type(manager) is moiety.numba.Manager
    assert manager.interface_version == 1


def test_reset_gives_all_device_memory_back():
    array = cuda.device_array(MIB, np.uint8)
    pool = moiety.numba.pool()
    cuda.current_context().reset()
    assert not pool.is_open
    assert moiety.numba.pool() is not pool
    del array  # a late finalizer
    assert moiety.numba.pool().stats().allocation_freed == 0


@pytest.mark.parametrize("order", [
    order for length in (1, 3)
    for order in itertools.product(("reset", "initialize", "memalloc"),
                                   repeat=length)])
def test_resets_and_initializations_come_in_any_order(order):
    context = cuda.current_context()
    manager, memory = moiety.numba.Manager(context=context), None
    for name in order:
        memory = getattr(manager, name)(*([512] if name == "memalloc" else []))
    manager.initialize()
    memory = manager.memalloc(512)
    assert memory.device_pointer_value % 512 == 0
    manager.reset()


def test_instance_without_context_is_asked_for_its_version_only():
    calls = standin.moiety_standin_calls(b"*")
    assert moiety.numba.Manager(context=None).interface_version == 1
    assert standin.moiety_standin_calls(b"*") == calls


@pytest.mark.parametrize("call, arguments", [
    ("memalloc", (10,)), ("memhostalloc", (10,)), ("memallocmanaged", (10,)),
    ("mempin", (None, 4096, 10)), ("get_memory_info", ()), ("reset", ()),
    ("get_ipc_handle", (None,)), ("trim", ())])
def test_instance_without_context_says_so(call, arguments):
    without = manager.Manager(context=None)
    without.initialize()
    with pytest.raises(RuntimeError, match="without a context"):
        getattr(without, call)(*arguments)


def test_pool_that_a_graph_capture_keeps_open_is_closed_later():
    array = cuda.device_array(MIB, np.uint8)
    pool = moiety.numba.pool()
    _native.capture_guard_begin()
    try:
        cuda.current_context().reset()
        assert pool.is_open
    finally:
        _native.capture_guard_end()
    cuda.current_context().memory_manager.initialize()
    assert not pool.is_open
    del array


@needs_two_devices
def test_each_device_has_a_pool():
    arrays = []
    for device in range(2):
        with cuda.gpus[device]:
            arrays.append(cuda.to_device(np.full(1000, device)))
            assert moiety.numba.pool().device == device
    assert (live_on(0), live_on(1)) == (1, 1)
    del arrays[1]
    assert (live_on(0), live_on(1)) == (1, 0)
    with cuda.gpus[1]:
        cuda.current_context().reset()
    assert set(arrays[0].copy_to_host()) == {0}


def test_threads_share_the_pool_and_free_for_each_other():
    arrays, start = [], threading.Barrier(8)

    def work(value):
        start.wait()
        for _ in range(50):
            arrays.append((cuda.to_device(np.full(100, value)), value))

    run_threads(8, work)
    assert len({address_of(array) for array, _ in arrays}) == 400
    assert all(set(array.copy_to_host()) == {value} for array, value in arrays)
    assert live_on(0) == 400
    arrays.clear()
    assert live_on(0) == 0


def test_finalizer_in_a_thread_without_context():
    cycle = [cuda.device_array(MIB, np.uint8), cuda.managed_array(10),
             cuda.mapped_array(10)]
    cycle.append(cycle)
    live = standin.moiety_standin_live(b"allocations")
    del cycle
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert live_on(0) == 0
    assert standin.moiety_standin_live(b"allocations") == live - 1


def test_context_that_is_made_again_gets_a_pool_of_its_own():
    done = run_program("""
        import ctypes
        import numpy as np
        from numba import cuda
        import moiety.numba

        def fill(value):
            arrays = [cuda.to_device(np.full(100, value)),
                      cuda.pinned_array(100), cuda.mapped_array(100)]
            arrays[1][:] = arrays[2][:] = value
            return arrays, np.full(100, value)

        old, _ = fill(1)
        pool = moiety.numba.pool()
        cuda.close()
        assert not pool.is_open
        # cuda.core takes the primary context that it had for alive, so that
        # numba-cuda could not make it again by itself.
        handle = ctypes.c_void_p()
        driver = ctypes.CDLL("libcuda.so.1")
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0) == 0
        new, wanted = fill(2)
        assert old[1].sum() == old[2].sum() == 100
        del old
        assert np.array_equal(new[0].copy_to_host(), wanted)
        assert moiety.numba.pool().stats().allocation_current == 1
        print("done")
    """)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_exit_with_live_arrays_is_silent():
    done = run_program("""
        import numpy as np
        from numba import cuda

        arrays = [cuda.to_device(np.ones(1000)), cuda.pinned_array(1000),
                  cuda.mapped_array(1000), cuda.managed_array(1000)]
        own = np.ones(10**6)
        pinned = cuda.current_context().mempin(own, own.ctypes.data, 4096)
        cycle = [cuda.device_array(10)]
        cycle.append(cycle)
        handle = arrays[0].get_ipc_handle()
        deferred = cuda.defer_cleanup()
        deferred.__enter__()
        print("done")
    """)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_child_of_a_fork_is_told_so():
    done = run_program("""
        import os
        from numba import cuda

        array = cuda.device_array(1000)
        manager = cuda.current_context().memory_manager
        if not os.fork():
            try:
                manager.memalloc(1000)
            except Exception as error:
                print(type(error).__name__, error.status, flush=True)
            del array
            os._exit(0)
        os.wait()
    """)
    assert (done.stdout, done.stderr) == ("ForkedError E_FORKED\n", "")


def test_program_enables_it_with_options():
    done = run_program("""
        import moiety.numba
        from numba import cuda

        moiety.numba.enable(limit=64 << 20)
        print(moiety.numba.pool().stats().limit_bytes >> 20)
        try:
            cuda.device_array(65 << 20, "u1")
        except MemoryError as error:
            print(error.status)
        try:
            moiety.numba.enable()
        except RuntimeError as error:
            print(error)
    """, NUMBA_CUDA_MEMORY_MANAGER="default")
    limit, status, refusal = done.stdout.splitlines()
    assert (limit, status, done.stderr) == ("64", "E_TOO_LARGE", "")
    assert "numba.cuda.close()" in refusal


def test_option_that_the_pool_does_not_know():
    done = run_program("""
        import moiety.numba
        from numba import cuda

        for options in ({"limit_bytes": 64}, {"exportable": True}, {"memory": "x"},
                        {"limit": 1}):
            try:
                moiety.numba.enable(**options)
            except (TypeError, ValueError, moiety.Error) as error:
                print(type(error).__name__, *options)
        moiety.numba.enable(limit=64 << 20)
        cuda.device_array(10)
        print(moiety.numba.pool().limit >> 20)
    """, NUMBA_CUDA_MEMORY_MANAGER="default")
    assert done.stdout.split() == [
        "TypeError", "limit_bytes", "TypeError", "exportable", "ValueError", "memory",
        "Error", "limit", "64"]


def test_a_question_starts_nothing():
    done = run_program("""
        import moiety.numba
        from numba import cuda

        for ask in (moiety.numba.pool, moiety.numba.arena, moiety.numba.trim,
                    moiety.numba.release_exports):
            try:
                ask()
            except RuntimeError as error:
                print("NUMBA_CUDA_MEMORY_MANAGER=moiety.numba" in str(error))
        moiety.numba.enable()
        kept = cuda.device_array(10)
        print(moiety.numba.pool().used_bytes)
    """, NUMBA_CUDA_MEMORY_MANAGER="default")
    assert done.stdout.split() == ["True"] * 4 + ["512"], done.stderr


def test_memory_info_is_within_the_limit():
    done = run_program("""
        import moiety.numba
        from numba import cuda

        moiety.numba.enable(limit=64 << 20)
        info = cuda.current_context().get_memory_info()
        print(info.free >> 20, info.total > 64 << 20)
        kept = cuda.device_array(info.free // 2, "u1")
        print(cuda.current_context().get_memory_info().free >> 20)
        rest = cuda.device_array(cuda.current_context().get_memory_info().free,
                                 "u1")
        print(cuda.current_context().get_memory_info().free >> 20)
    """, NUMBA_CUDA_MEMORY_MANAGER="default")
    assert done.stdout.split() == ["64", "True", "32", "0"], done.stderr


def test_cause_of_a_failing_import_is_printed():
    done = run_program("""
        import sys
        sys.modules["moiety._numba.manager"] = None
        from numba import cuda
        try:
            cuda.device_array(10)
        except RuntimeError as error:
            print(error)
    """)
    assert done.stdout == "Failed to use memory manager from moiety.numba\n"
    assert done.stderr.startswith("moiety.numba cannot be used: ")
    assert "_numba.manager" in done.stderr


def test_numba_whose_pointers_have_no_context_is_refused():
    done = run_program("""
        from numba.cuda.cudadrv import driver

        class MemoryPointer:
            def __init__(self, pointer, size, owner=None, finalizer=None):
                pass

        driver.MemoryPointer = MemoryPointer
        import moiety.numba
    """)
    assert done.returncode == 1
    assert done.stderr.startswith("moiety.numba cannot be used: ImportError: "
                                  "numba-cuda 0.21.0 and 0.21.1")


def test_finalizers_say_nothing_when_the_library_refuses(capsys, monkeypatch):
    class Refusing:
        def free(self):
            raise _native.OutOfMemoryError()

    manager.free_block(Refusing())
    monkeypatch.setattr(_native, "unpin", lambda *_: Refusing().free())
    array = np.ones(1000)
    cuda.current_context().mempin(array, array.ctypes.data, array.nbytes)
    assert capsys.readouterr() == ("", "")
    monkeypatch.undo()
    _native.unpin(array.ctypes.data, array.nbytes)
