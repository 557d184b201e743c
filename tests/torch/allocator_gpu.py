# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the pool: what programs do with memory, on a GPU.

    pytest allocator_gpu.py

Needs PyTorch with CUDA, a device and a C++ compiler. Each test that needs a
fresh process starts one.
"""

import ctypes
import gc
import importlib.util
import pathlib
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import torch

import moiety
import moiety.torch

MIB = 1 << 20


@pytest.fixture(scope="session", autouse=True)
def enabled():
    moiety.torch.enable()
    yield
    assert moiety.torch.is_enabled()


def live_bytes():
    """Without what PyTorch keeps for cuBLAS."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


@pytest.fixture(autouse=True)
def nothing_left():
    before = live_bytes()
    yield
    assert live_bytes() == before


def fresh(code, *arguments):
    """Runs a program in a process of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], text=True,
        capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tensors_are_the_pools():
    assert torch.cuda.memory.get_allocator_backend() == "moiety"
    before = torch.cuda.memory_allocated()
    tensor = torch.arange(MIB, device="cuda", dtype=torch.int32)
    assert torch.cuda.memory_allocated() == before + 4 * MIB
    assert int(tensor.sum()) == sum(range(MIB)) % (1 << 64)


def test_the_peak_of_a_step():
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")

    def step():
        torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
        return torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")

    peak = moiety.torch.peak(step)
    assert peak.result.numel() == 2 * MIB
    assert peak.before >= kept.numel()
    assert peak.most - peak.before == 8 * MIB
    assert peak.after - peak.before == 2 * MIB
    assert peak.reserved >= peak.most


def test_counts_are_exact_with_one_thread():
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    before = torch.cuda.memory_stats()
    tensor = torch.empty(1024, dtype=torch.uint8, device="cuda")
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.current"] == \
        before["active_bytes.all.current"] + 1024
    assert stats["active_bytes.all.freed"] == 0
    del tensor
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.freed"] == 1024
    assert stats["allocated_bytes.all.peak"] == \
        before["allocated_bytes.all.current"] + 1024
    assert stats["allocation.all.allocated"] == 1
    assert stats["allocated_bytes.all.current"] == \
        stats["allocated_bytes.large_pool.current"] + \
        stats["allocated_bytes.small_pool.current"]
    assert torch.accelerator.memory_reserved() == torch.cuda.memory_reserved()
    assert "CUDA OOMs" in torch.cuda.memory_summary()


def test_threads_with_streams_keep_their_bytes():
    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            live = []
            for i in range(300):
                size = 1 + (seed * 7919 + i * 104729) % (3 * MIB)
                live.append((i, torch.full((size,), (seed + i) % 251,
                                           dtype=torch.uint8, device="cuda")))
                if len(live) > 8:
                    j, tensor = live.pop((seed + i) % 8)
                    if not bool((tensor == (seed + j) % 251).all()):
                        wrong.append((seed, j))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_recorded_stream_keeps_the_block():
    side = torch.cuda.Stream()
    tensor = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        tensor.record_stream(side)
        kept = tensor.sum(dtype=torch.int64)
    del tensor
    other = [torch.full((8 * MIB,), 7, dtype=torch.uint8, device="cuda")
             for _ in range(4)]
    assert all(one.data_ptr() != address for one in other)
    side.synchronize()
    assert int(kept) == 0


def test_graphs_replay():
    weight = torch.randn(512, 512, device="cuda")
    source = torch.randn(64, 512, device="cuda")
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.relu(source @ weight) @ weight
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        result = torch.relu(source @ weight) @ weight
    for _ in range(5):
        source.copy_(torch.randn_like(source))
        # What is allocated meanwhile is not the graph's.
        noise = [torch.full_like(source, 9.0) for _ in range(16)]
        graph.replay()
        expected = torch.relu(source @ weight) @ weight
        assert torch.allclose(result, expected, rtol=1e-3, atol=1e-2)
        del noise
    graph.reset()


def test_graphs_share_a_pool():
    pool = torch.cuda.graph_pool_handle()
    source = torch.ones(4 * MIB, device="cuda")
    graphs = []
    for factor in (2.0, 3.0, 4.0):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            temporary = source * factor
            result = temporary + 1
            del temporary
        graphs.append((graph, result, factor))
    for graph, result, factor in graphs:
        graph.replay()
        assert bool((result == factor + 1).all())
    for graph, _, _ in graphs:
        graph.reset()


def test_graphed_callables_train():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(),
                                torch.nn.Linear(128, 8)).cuda()
    sample = torch.randn(32, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        loss = graphed(sample.detach().requires_grad_()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    del graphed, model, optimizer, loss, sample


def test_memory_pools():
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((MIB,), 3, dtype=torch.uint8, device="cuda")
        assert pool.use_count() == 2
    outside = torch.full((MIB,), 4, dtype=torch.uint8, device="cuda")
    owners = {tuple(segment["segment_pool_id"])
              for segment in torch.cuda.memory_snapshot()
              for _ in segment["blocks"]}
    assert pool.id in owners
    del inside
    with torch.cuda.use_mem_pool(pool):
        again = torch.full((MIB,), 5, dtype=torch.uint8, device="cuda")
    assert bool((again == 5).all()) and bool((outside == 4).all())
    del again, pool


def test_a_tenants_pool_is_paused():
    pool = moiety.torch.pausable_pool("sleeper", limit=64 * MIB)
    with torch.cuda.use_mem_pool(pool):
        inside = torch.full((8 * MIB,), 3, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    pool.pause(keep_contents=True)
    assert torch.cuda.mem_get_info()[0] >= free + 8 * MIB
    with pytest.raises(moiety.Error):
        pool.pause()
    with pytest.raises(RuntimeError), torch.cuda.use_mem_pool(pool):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
    pool.resume()
    assert bool((inside == 3).all())
    pool.pause()
    pool.resume()
    inside.fill_(4)
    assert bool((inside == 4).all())
    del inside, pool


def test_a_graph_in_a_tenants_pool_sleeps():
    pool = moiety.torch.pausable_pool("graphs")
    source = torch.ones(4 * MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        result = source * 2
    for _ in range(2):
        torch.cuda.synchronize()
        pool.pause()
        pool.resume()
        graph.replay()
        assert bool((result == 2).all())
    graph.reset()
    del result, pool


def test_fixed_pools():
    pool = moiety.torch.fixed_pool(limit=64 * MIB)
    with torch.cuda.use_mem_pool(pool):
        window = torch.full((8 * MIB,), 5, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    with pytest.raises(moiety.Error, match="no tenant"):
        pool.pause()
    assert bool((window == 5).all())
    del window, pool


def test_snapshots_and_history():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    tensor = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    del tensor
    kept = torch.empty(5 * MIB - 100, dtype=torch.uint8, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    pickle.dumps(snapshot)
    actions = [(entry["action"], entry["size"])
               for entry in snapshot["device_traces"][0]]
    assert ("alloc", 3 * MIB) in actions
    assert ("free_completed", 3 * MIB) in actions
    frames = [entry for entry in snapshot["device_traces"][0]
              if entry["action"] == "alloc"][-1]["frames"]
    assert any("allocator_gpu" in frame["filename"] for frame in frames)
    blocks = [block for segment in snapshot["segments"]
              for block in segment["blocks"]
              if block["address"] == kept.data_ptr()]
    assert len(blocks) == 1 and blocks[0]["state"] == "active_allocated"
    assert blocks[0]["requested_size"] == 5 * MIB - 100
    for segment in snapshot["segments"]:
        assert segment["total_size"] == \
            sum(block["size"] for block in segment["blocks"])


@pytest.mark.parametrize("context", ["all", "alloc"])
def test_the_history_has_segments(context):
    """Those that come and go by a call, with the stack of that; those that are
    there before are no news."""
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(context=context)
    try:
        tensor = torch.empty(900 * MIB, dtype=torch.uint8, device="cuda")
        del tensor
        torch.cuda.empty_cache()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)

    def sum_of(*actions):
        return sum(entry["size"] for entry in trace
                   if entry["action"] in actions)

    def is_within(action, function):
        return any(frame["name"] == function for entry in trace
                   if entry["action"] in action
                   for frame in entry.get("frames", ()))

    # Some of it may lie in what was there.
    came = sum_of("segment_alloc", "segment_map")
    assert 800 * MIB <= came < 2000 * MIB
    assert sum_of("segment_free", "segment_unmap") >= 800 * MIB
    name = "test_the_history_has_segments"
    assert is_within(("segment_alloc", "segment_map"), name)
    assert is_within(("segment_free", "segment_unmap"), "empty_cache") == (
        context == "all")
    tensor = torch.empty(900 * MIB, dtype=torch.uint8, device="cuda")
    assert not torch.cuda.memory._snapshot()["device_traces"][0]
    del kept, tensor
    torch.cuda.empty_cache()


def test_out_of_memory_is_pytorchs():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(
        lambda device, bytes_, total, free: seen.append((device, bytes_)))
    with pytest.raises(torch.cuda.OutOfMemoryError,
                       match="CUDA out of memory. Tried to allocate"):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="more than 1EB"):
        torch.empty(1 << 62, dtype=torch.uint8, device="cuda")
    assert (0, 1 << 50) in seen
    half = torch.cuda.get_device_properties(0).total_memory // 2
    first = torch.empty(half, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(half, dtype=torch.uint8, device="cuda")
    del first
    second = torch.empty(half, dtype=torch.uint8, device="cuda")
    del second
    torch.cuda.empty_cache()


def test_fractions_limit():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0.25
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(total // 3, dtype=torch.uint8, device="cuda")
        fits = torch.empty(total // 5, dtype=torch.uint8, device="cuda")
        del fits
        torch.cuda.set_per_process_memory_fraction(0.0)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(total // 5, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    fits = torch.empty(total // 3, dtype=torch.uint8, device="cuda")
    del fits
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < total // 5


def held(stream):
    """Keeps the stream's work back until .release(); as tests/emm/holding.py."""
    spec = importlib.util.spec_from_file_location(
        "holding", pathlib.Path(__file__).parents[1] / "emm/holding.py")
    holding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(holding)
    return holding.Hold(ctypes.CDLL("libcuda.so.1"),
                        ctypes.c_void_p(stream.cuda_stream))


def synchronisations():
    return torch.cuda.memory_stats()["num_sync_all_streams"]


def test_an_empty_cache_is_empty_behind_queued_work():
    """What is freed while its stream is busy goes back all the same."""
    torch.cuda.empty_cache()
    before, count = torch.cuda.memory_reserved(), synchronisations()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.ones(512 * MIB, dtype=torch.uint8, device="cuda")
        stream.synchronize()  # The kernel is loaded by now.
        hold = held(stream)
        tensor.fill_(1)
        del tensor
    thread = threading.Thread(target=torch.cuda.empty_cache)
    thread.start()
    # What must not happen is given the time to happen.
    time.sleep(0.2)
    assert thread.is_alive() and torch.cuda.memory_reserved() > before
    hold.release()
    thread.join()
    assert torch.cuda.memory_reserved() <= before
    assert synchronisations() == count + 1


def test_an_empty_cache_in_a_capture_waits_for_nothing():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor = torch.zeros(MIB, device="cuda")
        count = synchronisations()
        torch.cuda.empty_cache()
        assert synchronisations() == count
        tensor += 1
    graph.replay()
    assert tensor.sum().item() == MIB
    del tensor, graph


def test_raw_memory():
    stream = torch.cuda.Stream()
    address = torch.cuda.caching_allocator_alloc(1000, stream=stream)
    assert address % 512 == 0
    torch.cuda.caching_allocator_delete(address)


def test_caching_can_be_off():
    torch.cuda.caching_allocator_enable(False)
    try:
        tensor = torch.ones(MIB, device="cuda")
    finally:
        torch.cuda.caching_allocator_enable(True)
    assert float(tensor.sum()) == MIB
    del tensor


def test_inductor_with_graphs():
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(),
                                torch.nn.Linear(256, 256)).cuda().eval()
    compiled = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for rows in (16, 16, 16, 32, 32, 32, 16, 32):
            source = torch.randn(rows, 256, device="cuda")
            torch.compiler.cudagraph_mark_step_begin()
            result = compiled(source).clone()
            assert torch.allclose(result, model(source), rtol=1e-3, atol=1e-3)
    torch._dynamo.reset()
    del compiled, model, result, source


def test_inductor_trees_train():
    """Several graphs in one pool, with checkpoints between them."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                torch.nn.Linear(64, 64)).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    source = torch.randn(32, 64, device="cuda")
    losses = []
    for _ in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = (compiled(source) - source).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    torch._dynamo.reset()
    del compiled, model, optimizer, loss, source


def test_other_processes_get_tensors():
    fresh("""
        import torch, torch.multiprocessing as mp
        import moiety.torch

        def child(queue, back):
            for _ in range(20):
                tensor = queue.get()
                back.put(int(tensor.sum()))
                tensor.fill_(9)
                torch.cuda.synchronize()
                back.put("done")
                del tensor

        if __name__ == "__main__":
            import sys
            moiety.torch.enable(ipc=True)
            context = mp.get_context("fork")
            queue, back = context.Queue(), context.Queue()
            process = context.Process(target=child, args=(queue, back))
            process.start()
            for i in range(20):
                tensor = torch.full((1000 * (i + 1),), i, device="cuda",
                                    dtype=torch.int64)
                torch.cuda.synchronize()
                queue.put(tensor)
                assert back.get(timeout=60) == i * 1000 * (i + 1)
                assert back.get(timeout=60) == "done"
                assert bool((tensor == 9).all())
            process.join(60)
            assert process.exitcode == 0
            del tensor
    """)


@pytest.mark.parametrize("code, words", [
    ("torch.ones(1, device='cuda'); moiety.torch.enable()",
     "CUDA has started in this process"),
    ("moiety.torch.enable(); moiety.torch.enable()", "already"),
    ("moiety.torch.enable(memory='fast')", "accepted are 'auto'"),
    ("moiety.torch.enable(ipc=True, memory='mapped')", "memory of the driver"),
    ("moiety.torch.enable(limit=-1)", "accepted are whole numbers from 0"),
    ("moiety.torch.enable(limit='8GB')", "limit is '8GB'; accepted are"),
    ("moiety.torch.enable(limit=1 << 21); "
     "torch.empty(1 << 22, dtype=torch.uint8, device='cuda')",
     "CUDA out of memory"),
])
def test_what_cannot_be_is_said(code, words):
    done = subprocess.run(
        [sys.executable, "-c", f"import torch, moiety.torch\n{code}"],
        text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 1
    assert words in done.stderr.strip().splitlines()[-1]


def test_a_program_is_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, torch\n"
                       "print(sys.argv[1:], __name__,\n"
                       "      torch.cuda.get_allocator_backend(),\n"
                       "      float(torch.ones(4, device='cuda').sum()))\n")
    done = subprocess.run(
        [sys.executable, "-m", "moiety.torch", str(program), "a", "-b"],
        text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['a', '-b'] __main__ moiety 4.0\n"


def test_errors_are_moietys():
    assert issubclass(moiety.torch.BuildError, moiety.Error)
