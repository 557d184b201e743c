# SPDX-License-Identifier: Apache-2.0
"""With-blocks, errors by their classes, numbers as objects, "current"."""

import ctypes
import sys
import types

import moiety
import numpy as np
import pytest
from moiety import _native
from moiety._support import streams
from support import MIB, run_program


# --- with-blocks ---

def test_a_capture_guard_is_held_in_its_block():
    with moiety.capture_guard(), moiety.capture_guard():
        pass
    with pytest.raises(moiety.Error, match="no capture guard is held"):
        _native.capture_guard_end()
    with pytest.raises(ZeroDivisionError), moiety.capture_guard():
        raise ZeroDivisionError
    with pytest.raises(moiety.Error, match="no capture guard is held"):
        _native.capture_guard_end()


@pytest.fixture
def context(driver):
    return driver


@pytest.mark.parametrize("array", [
    np.zeros(MIB, np.uint8), np.zeros((4, 1024), np.float32),
    bytearray(8192)], ids=["bytes", "matrix", "bytearray"])
def test_an_array_is_pinned_in_its_block(context, array):
    with moiety.pinned(array) as same:
        assert same is array
        moiety.pin(array)
        moiety.unpin(array)
    with pytest.raises(moiety.Error) as raised:
        moiety.unpin(array)
    assert raised.value.status == "E_FOREIGN"


@pytest.mark.parametrize("array, error", [
    (5, TypeError), (np.zeros((8, 8))[:, ::2], ValueError),
    (b"read-only", ValueError), (np.zeros(0), moiety.Error),
    (bytearray(), moiety.Error)])
def test_arrays_that_cannot_be_pinned(context, array, error):
    with pytest.raises(error):
        moiety.pin(array)
    with pytest.raises(error), moiety.pinned(array):
        pass


def test_a_hold_ends_with_its_block_or_its_pool(pool):
    block = pool.alloc(MIB)
    with pytest.raises(ZeroDivisionError):
        with pool.hold(block, MIB) as held:
            assert pool.segments()[0]["hold_count"] == 1
            raise ZeroDivisionError
    assert not held.is_held and pool.segments()[0]["hold_count"] == 0
    # It stays when the object is dropped.
    pool.hold(address=block.address, nbytes=None)
    assert pool.segments()[0]["hold_count"] == 1
    with pytest.raises(TypeError):
        moiety.Hold()
    for wrong in ((), (block, -1), (block, 1.5), ("a",)):
        with pytest.raises((TypeError, OverflowError)):
            pool.hold(*wrong)
    other = moiety.Pool()
    last = other.hold(other.alloc_raw(1))
    other.close()
    last.release()
    assert not last.is_held
    with pytest.raises(moiety.ClosedError):
        other.hold(1)
    block.free()


def test_a_scope_keeps_a_graphs_memory_until_its_release(driver):
    stream = driver.stream()
    with moiety.Pool(thread_cache_bytes=0) as pool:
        with pool.capture_scope(stream.value) as scope:
            driver.call("cuStreamBeginCapture_v2", stream, 2)
            block = pool.alloc(MIB, stream.value)
            kept = block.address
            block.free()
            graph = ctypes.c_void_p()
            driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
            assert scope.is_open
            with pytest.raises(moiety.InUseError):
                scope.release()
        assert not scope.is_open
        others = [pool.alloc(MIB, stream.value) for _ in range(8)]
        assert kept not in [one.address for one in others]
        del others
        scope.release()
        scope.release()
        scope.end()
        driver.call("cuCtxSynchronize")
        pool.trim(wait=True)
        assert pool.total_bytes == 0
    with pytest.raises(moiety.ClosedError):
        pool.capture_scope(stream.value)


def test_scopes_that_are_dropped_or_outlive_their_pool(driver):
    stream = driver.stream()
    pool = moiety.Pool()
    for nothing in (moiety.ANY, moiety.LEGACY, moiety.DONE):
        with pytest.raises(moiety.Error) as raised:
            pool.capture_scope(nothing)
        assert raised.value.status == "E_INVALID"
    pool.capture_scope(stream.value)
    scope = pool.capture_scope(stream.value)  # the one before has ended
    with pytest.raises(moiety.Error, match="open scope"):
        pool.capture_scope(stream.value)
    scope.end()
    pool.release_scopes()
    scope.release()
    left = pool.capture_scope(stream.value)
    with pytest.raises(TypeError):
        moiety.CaptureScope()
    with pytest.raises(moiety.InUseError, match="scope is open"):
        pool.close()
    left.end()
    pool.close()
    left.end()
    left.release()
    with pytest.raises(moiety.Error, match="no capture guard is held"):
        _native.capture_guard_end()


# --- errors ---

@pytest.mark.parametrize("status, kind, bases", [
    ("E_NO_DEVICE_MEMORY", moiety.OutOfMemoryError, (MemoryError,)),
    ("E_TOO_LARGE", moiety.OutOfMemoryError, (MemoryError,)),
    ("E_BUDGET", moiety.BudgetExceededError, (moiety.OutOfMemoryError,)),
    ("E_CAPTURING", moiety.CapturingError, ()),
    ("E_CLOSED", moiety.ClosedError, (ValueError,)),
    ("E_CONTEXT_DESTROYED", moiety.ContextLostError, ()),
    ("E_DESTROYED", moiety.ClosedError, (ValueError,)),
    ("E_DOUBLE_FREE", moiety.DoubleFreeError, ()),
    ("E_NO_DRIVER", moiety.DriverError, ()),
    ("E_FORKED", moiety.ForkedError, ()),
    ("E_IN_USE", moiety.InUseError, ()),
    ("E_PAUSED", moiety.PausedError, ()),
    ("E_REENTRANT", moiety.ReentrantError, ()),
    ("E_STALE", moiety.PeerGoneError, ()),
    ("E_TIMEOUT", moiety.TimedOutError, (TimeoutError,)),
    ("E_UNSUPPORTED", moiety.UnsupportedError, ()),
    ("E_WOULD_BLOCK", moiety.WouldBlockError, ()),
    ("E_INTERRUPTED", moiety.Error, ()),
    ("E_NO_ROOM", moiety.Error, ()),
    ("E_INVALID", moiety.Error, ()),
    ("E_OF_A_LATER_LIBRARY", moiety.Error, ())])
def test_a_status_has_a_class(status, kind, bases):
    error = _native._error_for(status, "words")
    assert type(error) is kind and error.status == status
    assert str(error) == "words" and error.report is None
    assert isinstance(error, (moiety.Error, RuntimeError))
    assert all(isinstance(error, base) for base in bases)


def test_calls_raise_the_class_of_their_status(pool):
    tenant = pool.tenant(budget=1)
    with pytest.raises(moiety.BudgetExceededError):
        tenant.alloc(MIB)
    with pytest.raises(moiety.UnsupportedError):
        pool.history()
    with pytest.raises(moiety.OutOfMemoryError) as raised:
        pool.alloc(1 << 62)
    assert not isinstance(raised.value, moiety.BudgetExceededError)
    address = pool.alloc_raw(4096, moiety.LEGACY)
    pool.free_raw(address, moiety.LEGACY)
    with pytest.raises(moiety.DoubleFreeError):
        pool.free_raw(address, moiety.LEGACY)
    block = pool.alloc(1)
    block.free()
    tenant.close()
    other = moiety.Pool()
    other.close()
    for call in (lambda: block.__cuda_array_interface__,
                 lambda: tenant.alloc(1), lambda: other.alloc(1)):
        with pytest.raises(moiety.ClosedError) as raised:
            call()
        assert raised.value.status == "E_CLOSED"


# --- numbers ---

def test_numbers_are_attributes_and_keys(pool, arena):
    block, host = pool.alloc(5000), arena.alloc(5000)
    stats = pool.stats()
    assert stats == pool.stats() and stats != arena.stats()
    assert stats.allocation_current == 1
    assert stats.as_dict()["allocation.all.current"] == 1
    stats.as_dict().clear()
    assert stats.allocated_bytes_current == pool.used_bytes >= 5000
    assert isinstance(arena.stats(), moiety.PoolStats)
    assert arena.stats().host.pinned_bytes == arena.total_bytes
    assert arena.stats().host.nodes
    assert "allocation.all.current" in repr(stats)
    with pytest.raises(AttributeError):
        stats.allocation_current = 5
    with pytest.raises(AttributeError):
        stats.no_such_number
    block.free()
    host.free()


@pytest.mark.parametrize("kind", [
    moiety.PoolStats, moiety.ArenaStats, moiety.HostStats, moiety.TenantStats])
def test_each_number_of_the_library_has_an_attribute(kind, pool, arena):
    made = {moiety.PoolStats: pool.stats, moiety.ArenaStats: arena.stats,
            moiety.HostStats: lambda: arena.stats().host,
            moiety.TenantStats: pool.tenant().stats}[kind]()
    assert type(made) is kind
    found = [getattr(made, name) for name in dir(kind)
             if isinstance(getattr(kind, name), property)]
    numbers = set(made.as_dict())
    if hasattr(made, "oom_steps"):
        numbers -= {f"oom.{step}" for step in made.oom_steps}
        numbers.add("oom_steps")
    assert len(found) == len(numbers)
    assert all(value is not None for value in found)


# --- the current stream ---

def framework(**functions):
    return types.SimpleNamespace(cuda=types.SimpleNamespace(**{
        name: (lambda value=value: value) for name, value in functions.items()
    }))


def cupy_on(pointer):
    return framework(get_current_stream=types.SimpleNamespace(ptr=pointer))


def torch_on(handle, is_initialized=True):
    return framework(is_initialized=is_initialized,
                     current_stream=types.SimpleNamespace(cuda_stream=handle))


@pytest.mark.parametrize("cupy, torch, stream", [
    (None, None, moiety.LEGACY), (cupy_on(0), None, moiety.LEGACY),
    (cupy_on(2), None, moiety.PER_THREAD), (cupy_on(77), None, 77),
    (None, torch_on(88), 88), (None, torch_on(88, False), moiety.LEGACY),
    (cupy_on(77), torch_on(77), 77), (cupy_on(0), torch_on(1), moiety.LEGACY),
    (cupy_on(77), torch_on(88), moiety.ANY),
    (cupy_on(77), torch_on(88, False), 77)])
def test_the_current_stream(pool, monkeypatch, cupy, torch, stream):
    for name, module in (("cupy", cupy), ("torch", torch)):
        if module is None:
            monkeypatch.delitem(sys.modules, name, raising=False)
        else:
            monkeypatch.setitem(sys.modules, name, module)
    config = types.SimpleNamespace(CUDA_PER_THREAD_DEFAULT_STREAM=0)
    monkeypatch.setitem(sys.modules, "numba.core.config", config)
    assert streams.stream() == stream
    block = pool.alloc(512, moiety.DONE)
    block.stream = "current"
    assert block.stream == stream
    block.free(moiety.DONE)


def test_the_current_stream_of_numba(monkeypatch):
    for name in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    config = types.SimpleNamespace(CUDA_PER_THREAD_DEFAULT_STREAM=1)
    monkeypatch.setitem(sys.modules, "numba.core.config", config)
    assert streams.stream() == moiety.PER_THREAD


@pytest.mark.parametrize("name", ["", "Current", "legacy", "\ud800"])
def test_other_names_are_no_streams(pool, name):
    with pytest.raises(ValueError, match="accepted are 'current'"):
        pool.alloc(1, name)
    assert pool.used_bytes == 0


def test_memory_for_the_current_stream():
    done = run_program("""
        import moiety
        with moiety.Pool() as pool:
            block = pool.alloc(1000, "current")
            print(block.stream == moiety.LEGACY)
            address = pool.alloc_raw(1000, stream="current")
            pool.free_raw(address, stream="current")
    """)
    assert (done.stdout, done.stderr) == ("True\n", "")
