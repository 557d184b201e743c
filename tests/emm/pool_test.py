# SPDX-License-Identifier: Apache-2.0
"""Pools and their blocks."""

import gc
import pickle
import threading
import time

import moiety
import pytest
from support import MIB, close_while_others_are_inside, run_program, run_threads


def live_count(pool):
    return pool.stats().allocation_current


def test_block_goes_with_its_last_reference(pool):
    block = pool.alloc(5000)
    assert block.is_live and block.nbytes == len(block) == 5000
    assert block.pool is pool and block.address == int(block) != 0
    assert live_count(pool) == 1
    del block
    assert live_count(pool) == 0


def test_free_is_said_once(pool):
    block = pool.alloc(4096)
    block.free()
    block.free()
    assert not block.is_live and live_count(pool) == 0
    with pytest.raises(ValueError, match="freed"):
        block.__cuda_array_interface__


def test_with_frees(pool):
    with pool.alloc(4096) as block:
        assert block.is_live
    assert not block.is_live


def test_block_keeps_its_pool():
    block = moiety.Pool().alloc(4096)
    gc.collect()
    assert block.is_live and block.pool.is_open


def test_closed_pool_takes_its_blocks_along():
    pool = moiety.Pool()
    blocks = [pool.alloc(4096) for _ in range(3)]
    bare = pool.alloc_raw(4096)
    assert pool.close() == 4
    assert not pool.is_open and pool.close() == 0
    assert not any(block.is_live for block in blocks)
    blocks[0].free()
    pool.free_raw(bare)
    assert not pool.owns(bare)
    for call in (lambda: pool.alloc(1), pool.stats, pool.trim, pool.snapshot,
                 lambda: pool.record_use(bare, 0)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_addresses_without_an_owner(pool):
    address = pool.alloc_raw(3 * MIB)
    assert pool.owns(address) and pool.owns(address + 512)
    assert not pool.owns(0x1000)
    assert pool.usable_size(address) >= 3 * MIB
    with pytest.raises(moiety.Error) as raised:
        pool.free_raw(address + 512)
    assert raised.value.status == "E_INVALID"
    pool.free_raw(address)


def test_size_zero_is_the_null_address(pool):
    assert pool.alloc_raw(0) == 0
    pool.free_raw(0)
    assert pool.alloc(0).address == 0


def test_a_named_stream_reuses_at_once(pool):
    first = pool.alloc_raw(MIB, moiety.LEGACY)
    pool.free_raw(first, moiety.LEGACY)
    assert pool.alloc_raw(MIB, 0) == first
    pool.free_raw(first, moiety.DONE)


def asked_again(pool, stream):
    """Frees a block and takes as much again and again: the addresses."""
    block = pool.alloc_raw(MIB)
    pool.free_raw(block, stream)
    taken = [pool.alloc_raw(MIB) for _ in range(200)]
    for address in taken:
        pool.free_raw(address, moiety.DONE)
    return block, taken


@pytest.mark.parametrize("freed_on, is_reused", [
    (moiety.ANY, False), (moiety.DONE, True)])
def test_any_waits_for_work_of_all_streams(pool, driver, freed_on, is_reused):
    """And what says DONE does not: the rule makes the difference."""
    with driver.held(driver.stream()):
        block, taken = asked_again(pool, freed_on)
        assert (block in taken) == is_reused


def test_a_recorded_use_is_waited_for(pool, driver):
    stream = driver.stream()
    block = pool.alloc(MIB, moiety.LEGACY)
    with driver.held(stream):
        pool.record_use(block.address, stream.value)
        address = block.address
        block.free()
        kept = [pool.alloc(MIB, moiety.LEGACY) for _ in range(200)]
        assert address not in [one.address for one in kept]


class OfCupy:
    ptr = 1


class OfTorch:
    cuda_stream = 1


class OfNumba:
    class handle:
        value = None


class OfCudaCore:
    def __cuda_stream__(self):
        return (0, 1)


@pytest.mark.parametrize("stream", [
    0, moiety.LEGACY, moiety.PER_THREAD, moiety.ANY, moiety.DONE, None,
    OfCupy(), OfTorch(), OfNumba(), OfCudaCore()])
def test_streams_of_many_kinds(pool, stream):
    pool.alloc(4096, stream).free(stream)
    pool.free_raw(pool.alloc_raw(nbytes=4096, stream=stream), stream=stream)


def test_the_stream_of_a_block_can_be_changed(pool):
    block = pool.alloc(4096)
    assert block.stream == moiety.ANY
    block.stream = OfCupy()
    assert block.stream == 1
    with pytest.raises(AttributeError):
        del block.stream


class Raises:
    @property
    def ptr(self):
        raise ZeroDivisionError


@pytest.mark.parametrize("call, error", [
    (lambda pool: pool.alloc(), TypeError),
    (lambda pool: pool.alloc("1"), TypeError),
    (lambda pool: pool.alloc(1.5), TypeError),
    (lambda pool: pool.alloc(-1), OverflowError),
    (lambda pool: pool.alloc(1 << 64), OverflowError),
    (lambda pool: pool.alloc(1, 2, 3), TypeError),
    (lambda pool: pool.alloc(1, nbytes=1), TypeError),
    (lambda pool: pool.alloc(1, size=1), TypeError),
    (lambda pool: pool.alloc(1, "0"), ValueError),
    (lambda pool: pool.alloc(1, -1), OverflowError),
    (lambda pool: pool.alloc(1, Raises()), ZeroDivisionError),
    (lambda pool: pool.trim(-1), OverflowError),
    (lambda pool: pool.__init__(), TypeError),
    (lambda pool: type(pool.alloc(1))(), TypeError),
])
def test_arguments_that_are_none(pool, call, error):
    with pytest.raises(error):
        call(pool)


@pytest.mark.parametrize("call, status", [
    (lambda pool: pool.free_raw(0x1000), "E_FOREIGN"),
    (lambda pool: pool.usable_size(0x1000), "E_FOREIGN"),
    (lambda pool: pool.record_use(0x1000, 0), "E_FOREIGN"),
    (lambda pool: pool.export(0x1000), "E_UNSUPPORTED"),
    (lambda pool: moiety.Pool(device=99), "E_INVALID"),
    (lambda pool: moiety.Pool(largest_segment_bytes=1), "E_INVALID"),
])
def test_errors_have_the_status_by_name(pool, call, status):
    with pytest.raises(moiety.Error) as raised:
        call(pool)
    assert raised.value.status == status
    assert str(raised.value)


def test_out_of_memory_has_the_report():
    with moiety.Pool(limit=64 * MIB, wait_ms=1) as pool:
        kept = pool.alloc(40 * MIB)
        with pytest.raises(MemoryError) as raised:
            pool.alloc(40 * MIB)
        error = raised.value
        assert isinstance(error, moiety.OutOfMemoryError)
        assert error.status == "E_NO_DEVICE_MEMORY"
        assert error.report["requested_bytes"] == 40 * MIB
        assert error.report["live_bytes"] == kept.nbytes
        assert error.report["limit_bytes"] == 64 * MIB
        assert error.report["steps"]["grow"]["tries"] > 0
        assert "limit" in error.report["text"]
        assert pool.last_oom() == error.report
        with pytest.raises(moiety.OutOfMemoryError) as too_large:
            pool.alloc(1 << 40)
        assert too_large.value.status == "E_TOO_LARGE"
        assert too_large.value.report is None
        kept.free()
        assert pool.alloc(40 * MIB).is_live


def test_no_report_before_a_failure(pool):
    assert pool.last_oom() is None


def test_errors_can_be_pickled():
    assert type(pickle.loads(pickle.dumps(moiety.Error("x")))) is moiety.Error


def test_stats_and_trim(pool):
    pool.alloc(MIB).free(moiety.DONE)
    stats = pool.stats()
    assert stats.reserved_bytes_current >= MIB
    assert pool.trim() == stats.reserved_bytes_current
    assert pool.stats().reserved_bytes_current == 0


def test_what_is_synchronised_is_trimmed(pool, driver):
    stream = driver.stream()
    pool.alloc(MIB, stream.value).free(stream.value)
    with driver.held(stream):
        with pytest.raises(moiety.Error) as caught:
            pool.synchronize(timeout=0.02)
        assert caught.value.status == "E_TIMEOUT"
    pool.synchronize()
    assert pool.trim() > 0 == pool.stats().reserved_bytes_current


def test_all_blocks_are_freed_behind_queued_work(pool, driver):
    """As CuPy's pools, whose cudaFree() waits."""
    stream = driver.stream()
    pool.alloc(MIB, stream.value).free(stream.value)
    thread = threading.Thread(target=pool.trim,
                              kwargs={"wait": True})
    with driver.held(stream):
        questions = driver.questions()
        thread.start()
        # More often than a thread asks that does not wait.
        while thread.is_alive() and driver.questions() < questions + 8:
            time.sleep(0.001)
        assert thread.is_alive() and pool.total_bytes > 0
    thread.join()
    assert pool.total_bytes == 0


def test_snapshot_has_the_block(pool):
    block = pool.alloc(MIB)
    snapshot = pool.snapshot()
    used = [interval for interval in snapshot["intervals"]
            if interval["kind"] == "used"]
    assert [interval["address"] for interval in used] == [block.address]
    assert snapshot["segments"][used[0]["segment"]]["size_bytes"] >= MIB


def test_array_interface_is_of_the_bytes(pool):
    block = pool.alloc(1000)
    assert block.__cuda_array_interface__ == {
        "shape": (1000,), "typestr": "|u1", "data": (block.address, False),
        "strides": None, "version": 3}


def test_dlpack_keeps_the_block(pool):
    block = pool.alloc(1000)
    assert block.__dlpack_device__() == (2, 0)
    capsule = block.__dlpack__(stream=1, max_version=(1, 0))
    del block
    assert live_count(pool) == 1
    del capsule
    assert live_count(pool) == 0


@pytest.mark.parametrize("version, name", [
    (None, '"dltensor"'), ((0, 8), '"dltensor"'),
    ((1, 0), '"dltensor_versioned"'), ((2, 3), '"dltensor_versioned"')])
def test_dlpack_has_the_version_that_is_asked_for(pool, version, name):
    capsule = pool.alloc(1000).__dlpack__(max_version=version)
    assert name in repr(capsule)
    del capsule
    assert live_count(pool) == 0


@pytest.mark.parametrize("wish, error", [
    ({"copy": True}, BufferError), ({"dl_device": (1, 0)}, BufferError),
    ({"dl_device": 5}, TypeError), ({"max_version": 1}, TypeError),
    ({"max_version": (1, 0, 0)}, TypeError)])
def test_dlpack_refuses_what_it_is_not(pool, wish, error):
    with pytest.raises(error):
        pool.alloc(1000).__dlpack__(**wish)


# --- a block where an address is asked for ---

@pytest.mark.parametrize("space", ["pool", "arena"])
def test_a_block_is_not_deallocated(request, space):
    space = request.getfixturevalue(space)
    block = space.alloc(1000, moiety.LEGACY)
    with pytest.raises(TypeError, match="frees its memory itself"):
        space.free_raw(block, moiety.LEGACY)
    assert block.is_live and live_count(space) == 1
    block.free()
    with pytest.raises(TypeError, match="frees its memory itself"):
        space.free_raw(block)


def test_a_block_that_lives_is_an_address(pool):
    block = pool.alloc(1000, moiety.LEGACY)
    assert pool.owns(block) and pool.usable_size(block) == 1024
    assert moiety.pool_of(block) is pool
    pool.record_use(block, moiety.LEGACY)
    with pool.hold(block) as held:
        assert held.is_held
    assert not held.is_held
    block.free()
    for use in (pool.owns, pool.usable_size, pool.hold, moiety.pool_of):
        with pytest.raises(ValueError, match="freed"):
            use(block)


@pytest.mark.parametrize("use", [bytes, bytearray, memoryview, bytes().join])
def test_bytes_on_the_device_are_not_the_cpus(pool, use):
    with pytest.raises(TypeError):
        use(pool.alloc(1000))


def test_a_block_is_no_size(pool):
    with pytest.raises(TypeError):
        pool.alloc(pool.alloc(1000))
    numpy = pytest.importorskip("numpy")
    for use in (numpy.asarray, numpy.array, numpy.zeros):
        with pytest.raises(TypeError):
            use(pool.alloc(1000))
    with pytest.raises(TypeError, match="copy them to the host first"):
        numpy.asarray(pool.alloc(1000))


# --- streams ---

@pytest.mark.parametrize("stream", [True, False])
def test_a_truth_value_is_no_stream(pool, stream):
    with pytest.raises(TypeError, match=f"{stream} is no stream"):
        pool.alloc(1000, stream)


def test_a_closed_stream_of_cuda_core_is_not_the_legacy_one(pool):
    def handle_of(self):
        return 0, self.handle

    kind = type("Stream", (), {"__module__": "cuda.core._stream", "handle": 0,
                               "__cuda_stream__": handle_of})
    with pytest.raises(ValueError, match="it is closed"):
        pool.alloc(1000, kind())
    live = kind()
    live.handle = 1
    assert pool.alloc(1000, live).stream == moiety.LEGACY
    kind.__module__ = "cupy.cuda.stream"
    assert pool.alloc(1000, kind()).stream == 0


def test_sixteen_threads(pool):
    failures = []

    def work(seed):
        try:
            kept = []
            for i in range(3000):
                kept.append(pool.alloc(512 << (seed * i) % 9))
                if len(kept) > 20:
                    kept.pop((seed + i) % 20).free()
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    run_threads(16, work)
    assert not failures


@pytest.mark.parametrize("kind", [moiety.Pool, moiety.HostArena])
def test_what_is_closed_is_not_entered(kind):
    with kind() as made:
        pass
    with pytest.raises(ValueError, match="closed"):
        with made:
            pytest.fail("entered")


@pytest.mark.parametrize("kind", [moiety.Pool, moiety.HostArena])
def test_no_context_is_the_primary_one(kind):
    with kind(context=None) as made:
        made.alloc(10).free()
    with pytest.raises(TypeError):
        kind(context="primary")


def test_close_while_others_are_inside():
    for _ in range(20):
        pool = moiety.Pool()
        close_while_others_are_inside(pool)
        assert not pool.is_open


@pytest.mark.parametrize("code", [
    "block = moiety.Pool().alloc(5000)",
    "pool = moiety.Pool(); pool.alloc_raw(5000)",
    "import threading; pool = moiety.Pool()\n"
    "def work():\n  while True: pool.alloc(5000)\n"
    "threading.Thread(target=work, daemon=True).start()",
    "import atexit; pool = moiety.Pool(); atexit.register(pool.alloc, 5000)",
])
def test_exit_with_live_memory_is_silent(code):
    ended = run_program("import moiety\n" + code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_child_of_a_fork_is_told(pool):
    code = """
import moiety, os
pool = moiety.Pool()
block = pool.alloc(5000)
child = os.fork()
if child == 0:
    try:
        pool.alloc(5000)
    except moiety.Error as error:
        del block
        print(error.status, flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert pool.alloc(5000).is_live
"""
    ended = run_program(code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED\n", "")


def test_probe_tells_of_the_driver(driver):
    found = moiety.probe()
    assert found["is_standin"] == driver.is_standin
    assert found["device_count"] >= 1
    assert found["driver_version"] >= 12000 and len(found["uuid"]) == 16
    assert found["features"] and found["total_memory_bytes"] > 0
    with pytest.raises(moiety.Error):
        moiety.probe(99)
