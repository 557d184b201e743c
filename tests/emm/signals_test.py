# SPDX-License-Identifier: Apache-2.0
"""Signals that come while a call waits: their handlers run, and what one raises
ends the wait. Each call here would wait for good."""

import contextlib
import fcntl
import os
import signal

import moiety
import moiety.ipc
import pytest
from support import MIB, run_program

LONG_MS = 1 << 30


class Raised(BaseException):
    """As KeyboardInterrupt, but nobody else's."""


@contextlib.contextmanager
def alarm(handler):
    """It comes soon, and again in case that it was too early."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(call):
    def handler(*_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Raised

    with alarm(handler), pytest.raises(Raised):
        call()


class Held:
    """A stream whose work waits until release()."""

    def __init__(self, driver):
        stream = driver.stream()
        self._hold = contextlib.ExitStack()
        self._hold.enter_context(driver.held(stream))
        self.ptr = stream.value  # as CuPy's

    def release(self):
        self._hold.close()


def test_a_reserve_of_an_arena():
    """It ends where a handler raises, in a call that then stops at its next look."""
    with moiety.HostArena(first_segment_bytes=2 * MIB,
                          largest_segment_bytes=2 * MIB) as arena:
        def handler(*_):
            raise Raised

        def soon(done_bytes, total_bytes):
            if done_bytes == 2 * MIB:
                os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with pytest.raises(Raised):
                arena.reserve(64 * MIB, progress=soon)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert 2 * MIB <= arena.total_bytes < 64 * MIB
        arena.reserve(8 * MIB)


def test_a_wait_for_a_growth(tmp_path, monkeypatch):
    monkeypatch.setenv("MOIETY_LOCK_DIR", str(tmp_path))
    with open(tmp_path / f"moiety-pin.{os.geteuid()}", "wb") as file:
        os.chmod(file.name, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        with moiety.HostArena(stall_ms=60000) as arena:
            growth = arena.reserve_async(8 * MIB)
            interrupted(growth.wait)
            assert not growth.is_over
            fcntl.flock(file, fcntl.LOCK_UN)
            growth.wait()


@pytest.fixture(name="stream")
def held_stream(driver):
    held = Held(driver)
    yield held
    held.release()


@pytest.fixture(name="full", params=["driver", "mapped", "tenant"])
def full_pool(request, stream):
    """(pool, what allocates): all of the pool waits for the stream."""
    kind = request.param
    with moiety.Pool(limit=8 * MIB, wait_ms=LONG_MS,
                     memory="mapped" if kind == "mapped" else "driver"
                     ) as pool:
        source = pool.tenant("jobs") if kind == "tenant" else pool
        blocks = [source.alloc(3 * MIB, stream) for _ in range(2)]
        for block in blocks:
            block.free(stream)
        yield pool, source
        stream.release()


@pytest.mark.parametrize("name", ["alloc", "alloc_raw"])
def test_an_allocation_that_waits(full, name):
    pool, source = full
    interrupted(lambda: getattr(source, name)(6 * MIB, moiety.LEGACY))
    assert pool.used_bytes == 0


@pytest.mark.parametrize("name", ["synchronize", "trim", "close"])
@pytest.mark.parametrize("make", [moiety.Pool, moiety.HostArena])
def test_waits_for_all_work(make, name, stream, driver):
    space = make()
    block = space.alloc(MIB, stream)
    block.free(stream)
    interrupted(lambda: getattr(space, name)(
        **({"wait": True} if name == "trim" else {})))
    assert space.is_open
    kept = space.alloc(MIB)
    assert kept.is_live
    stream.release()
    assert space.close() == 1


def test_the_end_of_a_with_block(stream):
    pool = moiety.Pool()

    def block():
        with pool:
            pool.alloc(MIB, stream).free(stream)

    interrupted(block)
    assert pool.is_open
    stream.release()
    pool.close()


def test_a_handler_that_returns_ends_no_wait(stream):
    with moiety.Pool(limit=8 * MIB, wait_ms=LONG_MS) as pool:
        kept = [pool.alloc(512, stream)]
        for block in [pool.alloc(3 * MIB, stream) for _ in range(2)]:
            block.free(stream)
        count = 0

        def handler(*_):
            nonlocal count
            kept.clear()  # a free in the middle of a call
            count += 1
            if count == 2:
                signal.setitimer(signal.ITIMER_REAL, 0)
                stream.release()

        with alarm(handler):
            block = pool.alloc(6 * MIB, moiety.LEGACY)
        assert block.is_live and count == 2
        assert pool.stats().allocation_current == 1


def test_a_wait_of_a_handler_leaves_the_outer_one_to_signals(full):
    _, source = full
    count = 0

    def handler(*_):
        nonlocal count
        count += 1
        with contextlib.suppress(moiety.Error):
            moiety._native.ipc_wait(0)
        if count > 2:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Raised

    with alarm(handler), pytest.raises(Raised):
        source.alloc(6 * MIB, moiety.LEGACY)


def test_calls_of_a_handler_are_refused_during_a_wait(full):
    pool, source = full
    seen = []

    def handler(*_):
        try:
            pool.alloc(512, moiety.LEGACY).free(moiety.LEGACY)
        except moiety.Error as error:
            seen.append(error.status)
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Raised from error
        # The wait has not begun: the next signal finds it.

    with alarm(handler), pytest.raises(Raised):
        source.alloc(6 * MIB, moiety.LEGACY)
    assert seen == ["E_REENTRANT"]
    assert pool.used_bytes == 0


IMPORT = """
    import signal, sys
    sys.path.insert(0, {here!r})
    from conftest import Driver
    from signals_test import Held, interrupted
    import moiety.ipc

    held = Held(Driver())
    shared = moiety.ipc.open_handle(bytes.fromhex({handle!r}))
    shared.stream = held
    interrupted(shared.close)
    print(shared.is_open)
    again = moiety.ipc.open_handle(bytes.fromhex({handle!r}))
    closing = again.close(held, wait=False)
    interrupted(closing.wait)
    held.release()
    closing.wait(1 << 30)
    print(moiety.ipc.trim())
"""


def test_the_close_of_an_import():
    with moiety.Pool(exportable=True) as pool:
        handle = moiety.ipc.export(pool.alloc(MIB))
        done = run_program(IMPORT.format(here=os.path.dirname(__file__),
                                         handle=bytes(handle).hex()))
        assert done.stdout.split() == ["False", "0"], done.stderr
        handle.release()
