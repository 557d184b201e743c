# SPDX-License-Identifier: Apache-2.0
"""moiety.cupy with CuPy on a GPU."""

import subprocess
import sys
import threading

import cupy
import cupyx
import numpy as np
import pytest
from cupy.cuda import device as cupy_device
from cupy_backends.cuda import stream as cupy_stream

import moiety
import moiety.cupy

MIB = 1 << 20
GPU_COUNT = cupy.cuda.runtime.getDeviceCount()

SPIN = cupy.RawKernel(r"""
    extern "C" __global__ void spin(long long ticks) {
        long long begun = clock64();
        while (clock64() - begun < ticks) {}
    }""", "spin")
LONG_TICKS = 400_000_000  # a fifth of a second or so


def spin():
    SPIN((1,), (1,), (LONG_TICKS,))


@pytest.fixture
def pool():
    with moiety.Pool() as made:
        yield made
        cupy.cuda.Device().synchronize()
        assert made.used_bytes == 0


@pytest.fixture
def allocator(pool):
    with cupy.cuda.using_allocator(moiety.cupy.allocator(pool)):
        yield


def test_cupy_exports_what_the_fast_way_takes():
    signatures = {
        cupy_device: ("get_device_id", "int (int __pyx_skip_dispatch)"),
        cupy_stream: ("get_current_stream_ptr", "intptr_t (void)")}
    for module, (name, signature) in signatures.items():
        assert f'"{signature}"' in repr(module.__pyx_capi__[name])


def test_cupys_objects_are_filled(allocator):
    assert cupy.cuda.get_allocator().__self__.is_direct is True


def test_arrays_are_memory_of_the_pool(pool, allocator):
    array = cupy.arange(1_000_000)
    assert pool.owns(array.data.ptr)
    assert int(array.sum()) == 499_999_500_000
    assert int(array[::-1][:10].sum()) == sum(range(999_990, 1_000_000))


def test_empty_arrays(pool, allocator):
    assert cupy.zeros(0).size == 0
    assert cupy.zeros((0, 5)).sum() == 0


def test_a_stream_serves_itself_again_while_work_is_queued(allocator):
    with cupy.cuda.Stream(non_blocking=True):
        spin()
        address = cupy.empty(1000).data.ptr
        assert cupy.empty(1000).data.ptr == address


def test_another_stream_waits(allocator):
    one = cupy.cuda.Stream(non_blocking=True)
    other = cupy.cuda.Stream(non_blocking=True)
    with one:
        spin()
        address = cupy.empty(1000).data.ptr
    with other:
        assert cupy.empty(1000).data.ptr != address
    one.synchronize()


def test_an_array_goes_back_to_its_stream_wherever_it_is_dropped(allocator):
    one = cupy.cuda.Stream(non_blocking=True)
    other = cupy.cuda.Stream(non_blocking=True)
    with one:
        spin()
        array = cupy.empty(1000)
        address = array.data.ptr
    with other:
        del array
        assert cupy.empty(1000).data.ptr != address
    with one:
        assert cupy.empty(1000).data.ptr == address
    one.synchronize()


def test_values_survive_reuse_on_several_streams(allocator):
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    kept = []
    for index in range(400):
        with streams[index % 4]:
            array = cupy.full(50_000, index, dtype=np.int64)
            twice = array * 2
            del array
            kept.append((index, twice.sum()))
            del twice
    for stream in streams:
        stream.synchronize()
    assert all(int(value) == 100_000 * index for index, value in kept)
    kept.clear()


def test_threads_with_streams_of_their_own(pool):
    malloc = moiety.cupy.allocator(pool)
    failures = []

    def work(number):
        try:
            cupy.cuda.Device(0).use()
            with cupy.cuda.using_allocator(malloc), cupy.cuda.Stream(
                    non_blocking=True) as stream:
                for index in range(200):
                    value = number * 1000 + index
                    array = cupy.full(10_000, value, dtype=np.int64)
                    total = (array + 1).sum()
                    del array
                    assert int(total) == 10_000 * (value + 1)
                stream.synchronize()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_threads_default_stream(pool, allocator):
    with cupy.cuda.Stream.ptds:
        kept = [cupy.ones(1000)]
    assert kept[0].data.mem._owner.stream == moiety.PER_THREAD
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert pool.used_bytes == 0


def test_out_of_memory(pool):
    made = moiety.cupy.MemoryPool(pool)
    made.set_limit(size=64 * MIB)
    with cupy.cuda.using_allocator(made.malloc):
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
            cupy.empty(128 * MIB, dtype=np.uint8)
        assert isinstance(caught.value, moiety.OutOfMemoryError)
        array = cupy.zeros(16 * MIB, dtype=np.uint8)
        assert int(array.sum()) == 0
        del array


def test_numbers_and_limits(pool):
    made = moiety.cupy.MemoryPool(pool)
    with cupy.cuda.using_allocator(made.malloc):
        array = cupy.empty(MIB, dtype=np.uint8)
        assert made.used_bytes() >= MIB
        assert made.total_bytes() >= made.used_bytes()
        assert made.free_bytes() == made.total_bytes() - made.used_bytes()
        made.set_limit(fraction=0.5)
        total = cupy.cuda.runtime.memGetInfo()[1]
        assert abs(made.get_limit() - total / 2) < 0.02 * total
        del array
    cupy.cuda.Device().synchronize()
    made.free_all_blocks()
    assert made.total_bytes() == 0


def test_graphs_capture_while_arrays_go(allocator):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        source, target = cupy.arange(1000), cupy.zeros(1000, dtype=np.int64)
        other = cupy.zeros(1000)
        cupy.add(source, 1, out=target)  # the kernel is compiled
        stream.synchronize()
        stream.begin_capture()
        cupy.add(source, 1, out=target)
        del other
        graph = stream.end_capture()
        target[:] = 0
        graph.launch(stream)
        stream.synchronize()
    assert int(target.sum()) == 500_500
    del source, target, graph


def test_enable_is_for_all_threads(pool):
    made = moiety.cupy.enable(pool)
    owned = []
    thread = threading.Thread(
        target=lambda: owned.append(pool.owns(cupy.ones(10).data.ptr)))
    thread.start()
    thread.join()
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    assert owned == [True]
    del made


def test_pinned_memory():
    arena = moiety.HostArena()
    cupy.cuda.set_pinned_memory_allocator(moiety.cupy.pinned_allocator(arena))
    try:
        host = cupyx.empty_pinned(100_000, dtype=np.int64)
        assert arena.owns(host.ctypes.data)
        host[:] = np.arange(100_000)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            device_array = cupy.empty(100_000, dtype=np.int64)
            device_array.set(host)
            back = cupyx.empty_pinned(100_000, dtype=np.int64)
            (device_array * 2).get(out=back)
            stream.synchronize()
        assert (back == 2 * np.arange(100_000)).all()
    finally:
        cupy.cuda.set_pinned_memory_allocator(
            cupy.get_default_pinned_memory_pool().malloc)


@pytest.mark.skipif(GPU_COUNT < 2, reason="needs a second GPU")
@pytest.mark.parametrize("memory", ["driver", "mapped"])
def test_two_devices(memory):
    with moiety.Pools(memory=memory) as pools:
        with cupy.cuda.using_allocator(moiety.cupy.allocator(pools)):
            arrays = []
            for device in (0, 1):
                with cupy.cuda.Device(device):
                    arrays.append(cupy.full(100_000, device + 1))
                    assert pools[device].owns(arrays[-1].data.ptr)
            with cupy.cuda.Device(1):
                copied = cupy.asarray(arrays[0])
                assert int((copied + arrays[1]).sum()) == 300_000
            del arrays, copied
        for device in (0, 1):
            cupy.cuda.Device(device).synchronize()
        assert pools.used_bytes == 0


@pytest.mark.skipif(GPU_COUNT < 2, reason="needs a second GPU")
def test_a_pool_of_another_device_is_refused(allocator):
    with cupy.cuda.Device(1), pytest.raises(ValueError, match="of device 0"):
        cupy.ones(10)


def test_a_program_that_ends_with_arrays_ends_well():
    ended = subprocess.run([sys.executable, "-c", """
import cupy, moiety.cupy
moiety.cupy.enable(pinned=True)
kept = [cupy.ones(1000), cupy.cuda.alloc_pinned_memory(1000)]
cupy.kept = kept
"""], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
