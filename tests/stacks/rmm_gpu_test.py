# SPDX-License-Identifier: Apache-2.0
"""moiety.rmm with RMM on a GPU."""

import subprocess
import sys
import threading

import pytest
import rmm
import rmm.mr

import moiety
import moiety.rmm

MIB = 1 << 20


@pytest.fixture
def pool():
    with moiety.Pool() as made:
        yield made
        assert made.used_bytes == 0


@pytest.fixture
def resource(pool):
    before = rmm.mr.get_per_device_resource(0)
    made = moiety.rmm.MemoryResource(pool=pool)
    rmm.mr.set_per_device_resource(0, made)
    yield made
    rmm.mr.set_per_device_resource(0, before)


def test_buffers_are_memory_of_the_pool(pool, resource):
    buffer = rmm.DeviceBuffer.to_device(bytes(range(256)) * 1000)
    assert pool.owns(buffer.ptr)
    assert buffer.tobytes() == bytes(range(256)) * 1000
    del buffer


def test_a_buffer_that_grows(resource):
    buffer = rmm.DeviceBuffer.to_device(b"abcd" * 10)
    buffer.resize(4 * MIB)
    assert buffer.tobytes()[:40] == b"abcd" * 10
    del buffer


def test_streams(pool, resource):
    one, other = rmm.pylibrmm.stream.Stream(), rmm.pylibrmm.stream.Stream()
    address = resource.allocate(1000, one)
    resource.deallocate(address, 1000, one)
    assert resource.allocate(1000, one) == address
    resource.deallocate(address, 1000, other)
    one.synchronize()
    other.synchronize()


def test_adaptors_go_on_top(pool, resource):
    counted = rmm.mr.StatisticsResourceAdaptor(resource)
    limited = rmm.mr.LimitingResourceAdaptor(counted, MIB)
    buffer = rmm.DeviceBuffer(size=1000, mr=limited)
    assert counted.allocation_counts.current_bytes == 1000
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=2 * MIB, mr=limited)
    del buffer
    assert counted.allocation_counts.current_bytes == 0


def test_out_of_memory_has_the_pools_reason():
    with moiety.Pool(limit=64 * MIB) as pool:
        resource = moiety.rmm.MemoryResource(pool=pool)
        with pytest.raises(MemoryError, match="out_of_memory"):
            rmm.DeviceBuffer(size=65 * MIB, mr=resource)
        del resource


def test_threads(pool, resource):
    failures = []

    def work(number):
        try:
            stream = rmm.pylibrmm.stream.Stream()
            for index in range(300):
                text = bytes([(number + index) % 256]) * (index * 7 + 1)
                buffer = rmm.DeviceBuffer.to_device(text, stream)
                assert buffer.tobytes(stream) == text
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_program_that_ends_with_buffers_ends_well():
    ended = subprocess.run([sys.executable, "-c", """
import rmm, moiety.rmm
moiety.rmm.enable(limit=1 << 30)
rmm.kept = rmm.DeviceBuffer(size=1000)
"""], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
