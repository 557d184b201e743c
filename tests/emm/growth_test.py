# SPDX-License-Identifier: Apache-2.0
"""Memory of host arenas that is reserved in a thread of the library."""

import asyncio
import fcntl
import os
import select
import threading

import moiety
import pytest

MIB = 1 << 20


@pytest.fixture
def turn(tmp_path, monkeypatch):
    """A function that holds all growths until it is called again."""
    monkeypatch.setenv("MOIETY_LOCK_DIR", str(tmp_path))
    path = tmp_path / f"moiety-pin.{os.geteuid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    yield lambda: fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@pytest.fixture
def patient():
    """An arena that waits long for its turn."""
    with moiety.HostArena(stall_ms=60000, limit=64 * MIB) as arena:
        yield arena


def test_all_is_reserved_at_its_end(arena):
    growth = arena.reserve_async(8 * MIB, threads=2)
    growth.wait()
    assert growth.is_over and growth.ready_bytes == 8 * MIB
    assert select.select([growth], [], [], 60)[0] == [growth]
    assert arena.stats().host.pinned_bytes == 8 * MIB
    growth.wait(0)


def test_it_goes_on_until_its_turn(patient, turn):
    growth = patient.reserve_async("8MiB")
    assert not growth.is_over and growth.ready_bytes == 0
    with pytest.raises(moiety.TimedOutError):
        growth.wait(timeout=0.02)
    assert select.select([growth], [], [], 0)[0] == []
    turn()
    growth.wait(600)
    assert patient.stats().host.pinned_bytes == 8 * MIB


def test_a_block_that_a_watcher_drops_in_the_growth_is_freed(arena):
    blocks = [arena.alloc(4096)]

    def added(_):
        if threading.current_thread() is not threading.main_thread():
            blocks.clear()

    with arena.watch_segments(added):
        arena.reserve_async(8 * MIB).wait()
    arena.stats()
    assert not blocks
    assert arena.stats().allocation_freed == 1


def test_a_watcher_in_the_growth_holds_up_no_other_call():
    for _ in range(20):
        told = []
        with moiety.HostArena(max_block_bytes=2 * MIB, stall_ms=1) as arena:
            with arena.watch_segments(lambda one: told.append(one["nbytes"])):
                growth = arena.reserve_async(16 * MIB)
                is_over = False
                while not is_over:
                    is_over = growth.is_over
                    arena.alloc(4096).free()
                    arena.stats()
                    arena.report()
                    arena.segments()
                    arena.set_limit(64 * MIB)
                growth.wait()
                assert sum(told) == arena.total_bytes >= 16 * MIB


def test_coroutines_wait_for_several(arena):
    async def grow():
        first, second = arena.reserve_async(8 * MIB), arena.reserve_async(4 * MIB)
        await asyncio.gather(wait_for(first), wait_for(second))
        await first
        return first.ready_bytes + second.ready_bytes

    async def wait_for(growth):
        assert await growth is None

    assert asyncio.run(grow()) >= 8 * MIB
    assert arena.stats().host.pinned_bytes >= 8 * MIB


def test_several_coroutines_wait_for_one(patient, turn):
    async def until(growth):
        await growth

    async def grow():
        growth = patient.reserve_async(8 * MIB)
        waiters = [asyncio.ensure_future(until(growth)) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[2].cancel()
        await asyncio.sleep(0)
        turn()
        await asyncio.gather(*waiters[:2])

    asyncio.run(asyncio.wait_for(grow(), 600))
    assert patient.stats().host.pinned_bytes == 8 * MIB


def test_a_coroutine_that_is_cancelled_leaves_the_growth(patient, turn):
    async def give_up():
        growth = patient.reserve_async(8 * MIB)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(until(growth), 0.02)
        assert not growth.is_over
        turn()
        await growth

    async def until(growth):
        await growth

    asyncio.run(give_up())
    assert patient.stats().host.pinned_bytes == 8 * MIB


def test_a_coroutine_gets_the_error(patient, turn):
    async def cancelled():
        growth = patient.reserve_async(8 * MIB)
        asyncio.get_running_loop().call_soon(growth.cancel)
        await growth

    with pytest.raises(moiety.Error, match="stopped a growth") as raised:
        asyncio.run(cancelled())
    assert raised.value.status == "E_INTERRUPTED"


def test_it_can_be_cancelled(patient, turn):
    growth = patient.reserve_async(8 * MIB)
    growth.cancel()
    for _ in range(2):
        with pytest.raises(moiety.Error, match="stopped a growth"):
            growth.wait()
    assert growth.is_over and growth.ready_bytes == 0
    turn()
    patient.reserve_async(8 * MIB).wait()


def test_a_block_ends_it(patient, turn):
    with patient.reserve_async(8 * MIB) as growth:
        assert not growth.is_over
    assert growth.is_over
    with pytest.raises(moiety.Error, match="stopped a growth"):
        growth.wait()


def test_dropping_it_ends_it(patient, turn):
    del turn
    growth = patient.reserve_async(8 * MIB)
    del growth
    assert patient.stats().host.pinned_bytes == 0


def test_closing_the_arena_ends_it(turn):
    del turn
    arena = moiety.HostArena(stall_ms=60000)
    growth = arena.reserve_async(8 * MIB)
    arena.close()
    assert growth.is_over
    with pytest.raises(moiety.Error, match="stopped a growth"):
        growth.wait()
    with pytest.raises(moiety.ClosedError):
        arena.reserve_async(8 * MIB)


def test_bad_input(patient):
    with pytest.raises(moiety.Error) as raised:
        patient.reserve_async(65 * MIB)
    assert raised.value.status == "E_TOO_LARGE"
    with pytest.raises(moiety.Error, match="threads is 65, must be 64"):
        patient.reserve_async(8 * MIB, threads=65)
    with pytest.raises(OverflowError, match="-1"):
        patient.reserve_async(-1)
    with pytest.raises(TypeError, match="progress"):
        patient.reserve_async(8 * MIB, progress=print)
    with pytest.raises(TypeError):
        moiety.Growth()
    growth = patient.reserve_async(MIB)
    with pytest.raises(ValueError, match="timeout"):
        growth.wait(-1)
    growth.wait()
    assert patient.stats().host.pinned_bytes == 2 * MIB


def test_a_child_of_a_fork_is_refused(arena):
    growth = arena.reserve_async(MIB)
    growth.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            growth.wait(0)
        except moiety.ForkedError:
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
