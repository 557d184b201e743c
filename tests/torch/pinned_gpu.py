# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pinned memory on host arenas: what programs do with it, on a GPU.

    pytest pinned_gpu.py

Needs PyTorch with CUDA, a device and a C++ compiler, as allocator_gpu.py. Each test
that needs a fresh process starts one.
"""

import gc
import os
import random
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

import moiety
import moiety.torch

from pinned_owner import is_ours

MIB = 1 << 20
# Long enough for a thread to get far: what must not happen has the time to.
BUSY_CYCLES = 200_000_000
IS_BEFORE_2_10 = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10)


@pytest.fixture(scope="session", autouse=True)
def enabled():
    moiety.torch.enable(pinned=True)
    torch.zeros(1, device="cuda")
    yield


def pinned(length, value=None):
    tensor = torch.empty(length, dtype=torch.uint8, pin_memory=True)
    return tensor if value is None else tensor.fill_(value)


def numbers():
    """Live blocks, their bytes, segments, their bytes."""
    stats = torch.cuda.host_memory_stats()
    names = ("allocation", "allocated_bytes", "segment", "reserved_bytes") \
        if IS_BEFORE_2_10 else ("active_requests", "active_bytes",
                                "allocations", "allocated_bytes")
    return [stats[f"{name}.current"] for name in names]


@pytest.fixture(autouse=True)
def nothing_left(request):
    gc.collect()
    before = numbers()[:2]
    yield
    gc.collect()
    torch.cuda.synchronize()
    # A graph keeps what it copies from.
    if "graph" not in request.node.name:
        assert numbers()[:2] == before


def fresh(code, **environment):
    """Runs a program in a process of its own; what it said on both streams."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], text=True,
        capture_output=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
             **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_pinned_tensors_are_the_arenas():
    for tensor in (pinned(1000), torch.arange(1000).pin_memory(),
                   torch.empty_like(torch.ones(10), pin_memory=True),
                   pinned(100 * MIB)):
        assert tensor.is_pinned() and is_ours(tensor)
        assert tensor[3:7].is_pinned() and tensor[-1:].is_pinned()
    assert int(torch.arange(1000).pin_memory().sum()) == 499500
    assert not torch.ones(1000).is_pinned()
    assert pinned(0).numel() == 0


def test_a_longer_storage_stays_pinned():
    tensor = pinned(1000, 7)
    tensor.resize_(5 * MIB)
    assert tensor.is_pinned() and is_ours(tensor)
    assert bool((tensor[:1000] == 7).all())


@pytest.mark.parametrize("length", [1000, 70_000, MIB, 5 * MIB])
def test_copies_to_the_device_keep_their_bytes(length):
    """Each buffer is dropped while the device is still busy."""
    torch.cuda._sleep(BUSY_CYCLES)
    copies = [pinned(length, i).to("cuda", non_blocking=True)
              for i in range(60)]
    torch.cuda.synchronize()
    for i, copy in enumerate(copies):
        assert bool((copy == i).all())


@pytest.mark.parametrize("length", [1000, 70_000, MIB, 5 * MIB])
def test_copies_to_the_host_go_nowhere_else(length):
    source = torch.full((length,), 255, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    for _ in range(20):
        torch.cuda._sleep(BUSY_CYCLES // 20)
        pinned(length).copy_(source, non_blocking=True)
        others = [pinned(length, 7) for _ in range(4)]
        torch.cuda.synchronize()
        assert all(bool((one == 7).all()) for one in others)


def test_copies_of_slices_on_side_streams():
    streams = [torch.cuda.Stream() for _ in range(3)]
    copies = []
    for i in range(60):
        host = pinned(3 * MIB, i)
        for stream in random.sample(streams, 2):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(BUSY_CYCLES // 100)
                copies.append((i, host[MIB:2 * MIB].to("cuda",
                                                       non_blocking=True)))
        # The last of its views goes at once.
        del host
    torch.cuda.synchronize()
    assert all(bool((copy == i).all()) for i, copy in copies)


def test_a_block_comes_again_when_its_copy_is_over():
    torch.cuda.synchronize()
    torch.cuda._sleep(BUSY_CYCLES)
    host = pinned(8 * MIB, 1)
    address = host.data_ptr()
    copy = host.to("cuda", non_blocking=True)
    del host
    assert all(one.data_ptr() != address for one in
               [pinned(8 * MIB) for _ in range(4)])
    torch.cuda.synchronize()
    before = numbers()[3]
    for _ in range(200):
        copy.copy_(pinned(8 * MIB, 2), non_blocking=True)
        torch.cuda.synchronize()
    assert numbers()[3] <= before + 16 * MIB
    assert bool((copy == 2).all())


def test_memory_of_others_is_copied_as_before():
    """Tensors that share ours under another owner, and that share none."""
    tensor = pinned(MIB, 5)
    shared = torch.from_numpy(tensor.numpy()[100:])
    assert shared.is_pinned()
    plain = torch.full((MIB,), 6, dtype=torch.uint8)
    assert bool((shared.to("cuda", non_blocking=True) == 5).all())
    assert bool((plain.to("cuda", non_blocking=True) == 6).all())
    torch.cuda._sleep(BUSY_CYCLES)
    copy = shared.to("cuda", non_blocking=True)
    del tensor, shared
    others = [pinned(MIB, 9) for _ in range(8)]
    torch.cuda.synchronize()
    assert bool((copy == 5).all())
    del others


def test_threads_keep_their_bytes():
    wrong = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(200):
                value = (seed + i) % 251
                host = pinned(1 + (seed * 7919 + i * 104729) % (2 * MIB), value)
                copy = host.to("cuda", non_blocking=True)
                del host
                if not bool((copy == value).all()):
                    wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_graph_keeps_what_it_copies_from():
    static = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
    host = pinned(MIB, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static.copy_(host, non_blocking=True)
    del host
    for _ in range(20):
        noise = [pinned(MIB, 9) for _ in range(40)]
        static.zero_()
        graph.replay()
        assert bool((static == 3).all())
        del noise
    graph.reset()


def test_a_graph_captures_beside_frees():
    """Buffers that were used before are dropped while a stream captures."""
    used = [pinned(MIB, i) for i in range(20)]
    copies = [one.to("cuda", non_blocking=True) for one in used]
    static = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static += 1
        used.clear()
        gc.collect()
    graph.replay()
    assert bool((static == 1).all())
    assert all(bool((copy == i).all()) for i, copy in enumerate(copies))
    graph.reset()


def test_statistics_and_an_emptied_cache():
    torch.cuda.synchronize()
    torch._C._host_emptyCache()
    blocks, bytes_, segments, reserved = numbers()
    tensor = pinned(100 * MIB)
    assert numbers()[:2] == [blocks + 1, bytes_ + 100 * MIB]
    assert numbers()[2] > segments and numbers()[3] >= reserved + 100 * MIB
    stats = torch.cuda.host_memory_stats()
    assert stats["host_alloc_time.total"] > 0
    assert stats["num_host_alloc"] > stats["num_host_free"]
    del tensor
    torch._C._host_emptyCache()
    assert numbers()[:2] == [blocks, bytes_]
    assert numbers()[2] <= segments and numbers()[3] <= reserved
    torch.cuda.reset_accumulated_host_memory_stats()
    torch.cuda.reset_peak_host_memory_stats()
    assert torch.cuda.host_memory_stats()["num_host_free"] == 0


@pytest.mark.parametrize("most, count", [(64 << 10, 2000), (4 * MIB, 300),
                                         (40 * MIB, 60)])
def test_lengths_are_exact(most, count):
    torch.cuda.synchronize()
    torch._C._host_emptyCache()
    reserved = numbers()[3]
    random.seed(7)
    tensors = [pinned(random.randint(1, most)) for _ in range(count)]
    asked = sum(one.numel() for one in tensors)
    assert numbers()[3] - reserved <= 1.1 * asked


LOADER = """
    import gc, sys, torch
    import moiety, moiety.torch
    from pinned_owner import is_ours
    from torch.utils.data import DataLoader, TensorDataset

    if __name__ == "__main__":
        moiety.torch.enable(pinned=True)
        torch.zeros(1, device="cuda")
        ballast = torch.zeros(256 << 20, dtype=torch.uint8, pin_memory=True)
        data = TensorDataset(torch.arange(4000).reshape(1000, 4),
                             torch.arange(1000))
        loader = DataLoader(data, batch_size=50, num_workers=2,
                            pin_memory=True, multiprocessing_context="{kind}")
        for epoch in range(2):
            seen = 0
            for rows, labels in loader:
                assert rows.is_pinned() and labels.is_pinned()
                assert is_ours(rows)
                on_device = rows.to("cuda", non_blocking=True)
                labels = labels.to("cuda", non_blocking=True)
                del rows
                assert bool((on_device[:, 0] == labels * 4).all())
                seen += len(labels)
            assert seen == 1000
        print("done")
"""


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_loaders_pin_their_batches(kind):
    assert "done" in fresh(LOADER.replace("{kind}", kind))


def test_blocks_from_before_go_on():
    fresh("""
        import torch
        import moiety, moiety.torch
        from pinned_owner import is_ours
        moiety.torch.enable()
        old = torch.full((1 << 20,), 4, dtype=torch.uint8).pin_memory()
        assert not is_ours(old)
        torch.zeros(1, device="cuda")
        moiety.torch._enable_pinned(moiety.torch._enabled)
        new = torch.full((1 << 20,), 5, dtype=torch.uint8).pin_memory()
        assert is_ours(new)
        assert old.is_pinned() and new.is_pinned()
        torch.cuda._sleep(200_000_000)
        copies = [one.to("cuda", non_blocking=True) for one in (old, new)]
        del old, new
        noise = [torch.full((1 << 20,), 9, dtype=torch.uint8, pin_memory=True)
                 for _ in range(10)]
        torch.cuda.synchronize()
        assert [int(copy[7]) for copy in copies] == [4, 5]
        torch._C._host_emptyCache()
        try:
            moiety.torch._enable_pinned(moiety.torch._enabled)
        except moiety.Error as error:
            assert "already" in str(error)
        else:
            raise AssertionError("a second time")
    """)


def test_without_it_pinned_memory_is_pytorchs():
    fresh("""
        import torch
        import moiety, moiety.torch
        from pinned_owner import is_ours
        moiety.torch.enable()
        tensor = torch.ones(1000).pin_memory()
        assert tensor.is_pinned() and not is_ours(tensor)
    """)


def test_what_is_refused_is_pytorchs():
    said = fresh("""
        import torch
        import moiety, moiety.torch
        from pinned_owner import is_ours
        moiety.torch.enable(pinned=True)
        for _ in range(3):
            tensor = torch.full((64 << 20,), 3, dtype=torch.uint8).pin_memory()
            assert tensor.is_pinned()
            assert not is_ours(tensor)
            assert bool((tensor.to("cuda", non_blocking=True) == 3).all())
        small = torch.ones(1000).pin_memory()
        assert is_ours(small)
    """, MOIETY_CONF="host_limit:8M")
    assert said.count("PyTorch's own allocator provides pinned memory") == 1


def test_a_child_of_a_fork_gets_none():
    fresh("""
        import os, torch
        import moiety.torch
        moiety.torch.enable(pinned=True)
        tensor = torch.full((1 << 20,), 3, dtype=torch.uint8, pin_memory=True)
        child = os.fork()
        if not child:
            del tensor
            try:
                torch.empty(1000, pin_memory=True)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert bool((tensor.to("cuda", non_blocking=True) == 3).all())
    """)


def test_tensors_outlive_the_program():
    said = fresh("""
        import torch
        import moiety.torch
        moiety.torch.enable(pinned=True)
        kept = [torch.ones(1 << 20, pin_memory=True) for _ in range(10)]
        torch.cuda._sleep(200_000_000)
        copies = [one.to("cuda", non_blocking=True) for one in kept]
        class Late:
            def __del__(self):
                kept.clear()
        late = Late()
        torch.late = late
    """)
    assert "Moiety" not in said and "CUDA" not in said
