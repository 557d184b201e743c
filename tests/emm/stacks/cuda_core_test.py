# SPDX-License-Identifier: Apache-2.0
"""moiety.cuda_core, with cuda.core itself."""

import ctypes
import threading

import pytest
from cuda.core import Buffer, Device
from cuda.core import MemoryResource as BaseResource

import moiety
import moiety.cuda_core
from support import run_program

MIB = 1 << 20


@pytest.fixture
def device():
    found = Device(0)
    found.set_current()
    before = found.memory_resource
    yield found
    found.memory_resource = before


@pytest.fixture
def resource(device, pool):
    return moiety.cuda_core.MemoryResource(pool=pool)


@pytest.fixture
def pinned(device, arena):
    return moiety.cuda_core.PinnedMemoryResource(arena)


def handle_of(stream):
    return ctypes.c_void_p(int(stream.handle))


def test_a_buffer_is_memory_of_the_pool(device, pool, resource):
    stream = device.create_stream()
    buffer = resource.allocate(1000, stream=stream)
    assert isinstance(buffer, Buffer) and buffer.size == 1000
    assert pool.owns(int(buffer.handle))
    assert buffer.memory_resource is resource
    assert buffer.device_id == 0
    assert buffer.is_device_accessible and not buffer.is_host_accessible
    buffer.close()
    assert not pool.used_bytes


def test_a_buffer_goes_back_with_its_last_reference(device, pool, resource):
    buffer = resource.allocate(1000, stream=device.create_stream())
    del buffer
    assert not pool.used_bytes


def test_it_is_a_resource_of_cuda_core(resource, pinned):
    assert isinstance(resource, BaseResource)
    assert isinstance(pinned, BaseResource)
    assert not resource.is_managed and not pinned.is_managed


def test_it_can_be_the_devices_resource(device, pool, resource):
    device.memory_resource = resource
    buffer = device.allocate(1000, stream=device.create_stream())
    assert pool.owns(int(buffer.handle))
    buffer.close()


def test_a_stream_serves_itself_again_while_it_is_held(device, resource,
                                                       driver):
    stream, other = device.create_stream(), device.create_stream()
    with driver.held(handle_of(stream)):
        buffer = resource.allocate(1000, stream=stream)
        address = int(buffer.handle)
        buffer.close()
        elsewhere = resource.allocate(1000, stream=other)
        assert int(elsewhere.handle) != address
        again = resource.allocate(1000, stream=stream)
        assert int(again.handle) == address
    again.close()
    elsewhere.close()


def test_it_goes_back_on_the_stream_that_it_is_closed_with(device, resource,
                                                           driver):
    stream, other = device.create_stream(), device.create_stream()
    with driver.held(handle_of(other)):
        buffer = resource.allocate(1000, stream=stream)
        address = int(buffer.handle)
        buffer.close(other)
        again = resource.allocate(1000, stream=other)
        assert int(again.handle) == address
        again.close()


def test_default_streams(device, pool, resource):
    resource.allocate(1000, stream=device.default_stream).close()
    assert not pool.used_bytes


def test_a_graph_builder_is_a_stream(device, pool, resource):
    builder = device.create_graph_builder()
    resource.allocate(1000, stream=builder).close()
    assert not pool.used_bytes


def test_a_buffer_that_goes_while_its_stream_captures(device, pool, resource,
                                                      capfd):
    builder = device.create_graph_builder()
    buffer = resource.allocate(1000, stream=builder)
    builder.begin_building()
    buffer.close()
    builder.end_building()
    assert not pool.used_bytes
    assert "failed" not in capfd.readouterr().err


@pytest.mark.parametrize("stream", [None, 0, 5, "stream", object()])
def test_what_is_no_stream(pool, resource, pinned, stream):
    for each in (resource, pinned):
        with pytest.raises(TypeError, match="Stream or GraphBuilder expected"):
            each.allocate(1000, stream=stream)
        with pytest.raises(TypeError, match="Stream or GraphBuilder expected"):
            each.deallocate(0, 0, stream=stream)
    assert not pool.used_bytes


def test_what_a_stream_raises_is_the_programs(pool, resource):
    class Broken:
        def __cuda_stream__(self):
            return 0, self.number

    with pytest.raises(AttributeError, match="number"):
        resource.allocate(1000, stream=Broken())
    assert not pool.used_bytes


def test_the_stream_has_to_be_named(device, resource):
    with pytest.raises(TypeError):
        resource.allocate(1000)
    with pytest.raises(TypeError):
        resource.allocate(1000, device.create_stream())


@pytest.mark.parametrize("size, kind", [
    (-1, OverflowError), (1 << 64, OverflowError), (1.5, TypeError),
    (None, TypeError)])
def test_sizes_that_are_none(device, resource, size, kind):
    with pytest.raises(kind):
        resource.allocate(size, stream=device.create_stream())


def test_empty_buffers(device, pool, resource):
    resource.allocate(0, stream=device.create_stream()).close()
    assert not pool.used_bytes


def test_out_of_memory(device, resource):
    with pytest.raises(moiety.OutOfMemoryError) as caught:
        resource.allocate(1 << 44, stream=device.create_stream())
    assert isinstance(caught.value, MemoryError)
    assert caught.value.status == "E_TOO_LARGE"


def test_a_buffer_that_outlives_its_pool(device, capfd):
    pool = moiety.Pool()
    resource = moiety.cuda_core.MemoryResource(pool=pool)
    buffer = resource.allocate(1000, stream=device.create_stream())
    assert pool.close() == 1
    buffer.close()
    assert "failed" not in capfd.readouterr().err


def test_a_tenant_has_its_budget(device, pool):
    tenant = pool.tenant("buffers", budget=MIB)
    resource = moiety.cuda_core.MemoryResource(pool=tenant)
    stream = device.create_stream()
    buffer = resource.allocate(MIB // 2, stream=stream)
    with pytest.raises(moiety.OutOfMemoryError) as caught:
        resource.allocate(MIB, stream=stream)
    assert caught.value.status == "E_BUDGET"
    buffer.close()


def test_devices_by_object_and_ordinal(device, pool):
    assert moiety.cuda_core.MemoryResource(device, pool).pool is pool
    assert moiety.cuda_core.MemoryResource(0, pool).device_id == 0
    with pytest.raises(ValueError, match="is of device 0"):
        moiety.cuda_core.MemoryResource(1, pool)
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.cuda_core.MemoryResource(pool=5)
    with pytest.raises(TypeError):
        moiety.cuda_core.MemoryResource("0", pool)


def test_the_shared_pools_are_taken_where_none_is_named(device):
    resource = moiety.cuda_core.MemoryResource()
    assert resource.pool is moiety.pools()[0]
    moiety.pools().set_limit(None)


def test_pinned_buffers(device, arena, pinned):
    stream = device.create_stream()
    buffer = pinned.allocate(1000, stream=stream)
    assert arena.owns(int(buffer.handle))
    assert buffer.is_host_accessible and buffer.is_device_accessible
    assert buffer.device_id == -1 and pinned.arena is arena
    buffer.close()
    assert not arena.used_bytes
    with pytest.raises(TypeError, match="is no moiety.HostArena"):
        moiety.cuda_core.PinnedMemoryResource(5)


def test_buffers_are_copied_between_both(device, resource, pinned):
    stream = device.create_stream()
    source = pinned.allocate(4096, stream=stream)
    target = resource.allocate(4096, stream=stream)
    source.copy_to(target, stream=stream)
    stream.sync()
    source.close()
    target.close()


def test_a_default_stream_without_a_context_loses_nothing():
    ended = run_program("""
        import moiety, moiety.cuda_core
        from cuda.core import LEGACY_DEFAULT_STREAM
        pool = moiety.Pool()
        resource = moiety.cuda_core.MemoryResource(pool=pool)
        try:
            resource.allocate(100, stream=LEGACY_DEFAULT_STREAM)
        except Exception as error:
            print(type(error).__name__)
        print(pool.used_bytes)
        """)
    assert ended.stdout.splitlines()[-1] == "0", ended.stderr


def test_many_threads_allocate_and_free(device, pool, resource):
    def work():
        Device(0).set_current()
        stream = Device(0).create_stream()
        for index in range(500):
            resource.allocate(index + 1, stream=stream).close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not pool.used_bytes


def test_without_cuda_core_it_says_what_to_install():
    ended = run_program("""
        import sys
        sys.modules["cuda.core"] = None
        import moiety.cuda_core
        """)
    assert ended.returncode == 1
    assert 'pip install "cuda-core>=1.0"' in ended.stderr
