# SPDX-License-Identifier: Apache-2.0
"""moiety.cuda_core with cuda.core on a GPU: what buffers hold."""

import ctypes

import pytest
from cuda.core import Device

import moiety
import moiety.cuda_core

MIB = 1 << 20


@pytest.fixture
def device():
    made = Device(0)
    made.set_current()
    return made


def test_bytes_go_to_the_device_and_back(device):
    stream = device.create_stream()
    with moiety.Pool() as pool, moiety.HostArena() as arena:
        resource = moiety.cuda_core.MemoryResource(device, pool)
        pinned = moiety.cuda_core.PinnedMemoryResource(arena)
        source = pinned.allocate(MIB, stream=stream)
        target = pinned.allocate(MIB, stream=stream)
        buffer = resource.allocate(MIB, stream=stream)
        stream.sync()
        ctypes.memset(int(source.handle), 0x5A, MIB)
        source.copy_to(buffer, stream=stream)
        buffer.copy_to(target, stream=stream)
        stream.sync()
        assert ctypes.string_at(int(target.handle), MIB) == b"\x5a" * MIB
        for each in (source, target, buffer):
            each.close()
        assert pool.used_bytes == arena.used_bytes == 0


def test_values_survive_reuse_on_several_streams(device):
    streams = [device.create_stream() for _ in range(4)]
    with moiety.Pool() as pool, moiety.HostArena() as arena:
        resource = moiety.cuda_core.MemoryResource(device, pool)
        results = arena.alloc(400 * 1024)
        for index in range(400):
            stream = streams[index % 4]
            buffer = resource.allocate(1024, stream=stream)
            buffer.fill(index % 251, stream=stream)
            moiety.cuda_core.Buffer.from_handle(
                results.address + 1024 * index, 1024).copy_from(
                    buffer, stream=stream)
            buffer.close()
        for stream in streams:
            stream.sync()
        found = ctypes.string_at(results.address, 400 * 1024)
        assert all(found[1024 * index:1024 * (index + 1)] ==
                   bytes([index % 251]) * 1024 for index in range(400))
        del results


def test_a_graph_is_built_while_buffers_go(device):
    with moiety.Pool() as pool:
        resource = moiety.cuda_core.MemoryResource(device, pool)
        stream = device.create_stream()
        target = resource.allocate(MIB, stream=stream)
        other = resource.allocate(MIB, stream=stream)
        builder = device.create_graph_builder()
        builder.begin_building()
        target.fill(7, stream=builder)
        other.close()
        graph = builder.end_building().complete()
        graph.launch(stream)
        stream.sync()
        target.close()
        assert pool.used_bytes == 0
