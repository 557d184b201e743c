# SPDX-License-Identifier: Apache-2.0
"""Objects that many threads use at a time. On a free-threaded Python, run with
PYTHON_GIL=0, nothing else keeps the threads apart."""

import gc
import sys
import sysconfig
import threading
import time

import moiety
import pytest
from support import MIB, run_threads

THREADS = 6
SECONDS = 0.4


def contend(*works):
    """Calls each of them from THREADS threads again and again, for a while;
    what they raise is raised here."""
    raised = []
    end = time.monotonic() + SECONDS

    def repeat(index):
        work = works[index % len(works)]
        try:
            # How often they meet decides nothing.
            while time.monotonic() < end and not raised:
                work()
        except BaseException as error:  # noqa: BLE001 for the test's thread
            raised.append(error)

    run_threads(max(THREADS, len(works)), repeat)
    if raised:
        raise raised[0]


def refused(call, *kinds):
    """Calls it; closed and in use are answers too."""
    try:
        return call()
    except kinds or (ValueError,):
        return None
    except moiety.Error as error:
        if error.status != "E_IN_USE":
            raise
        return None


def test_a_free_threaded_python_stays_so():
    import moiety.numpy  # noqa: F401 the other module in C
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this Python has a GIL")
    assert not sys._is_gil_enabled()


def test_blocks_that_all_threads_free(pool):
    shared = []

    def make():
        shared.append(pool.alloc(4096))

    def free():
        for block in shared[-8:]:
            block.free()
            repr(block)
        del shared[:-8]

    contend(make, free)
    shared.clear()


def test_one_block_that_all_threads_show_and_free(arena):
    current = [arena.alloc(4096)]

    def look():
        block = current[0]
        view = refused(lambda: memoryview(block))
        if view:
            view[:8] = b"threads!"
            assert bytes(view[:8]) == b"threads!"
        refused(lambda: block.__array_interface__)
        refused(lambda: bytes(block))
        refused(block.__dlpack__)

    def free():
        current[0].free()
        current[0] = arena.alloc(4096)

    contend(look, look, free)
    del current[:]


def test_arenas_that_close_under_views():
    current = [moiety.HostArena(touch_threads=1)]

    def look():
        block = refused(lambda: current[0].alloc(70_000))
        view = block and refused(lambda: memoryview(block))
        if view:
            view[:] = b"x" * 70_000
            assert view[-1:] == b"x"

    def close():
        arena = current[0]
        current[0] = moiety.HostArena(touch_threads=1)
        while arena.is_open:
            refused(arena.close)

    contend(look, look, close)
    current[0].close()


def test_pools_that_come_and_go_are_found():
    def come_and_go():
        with moiety.Pool() as own:
            block = own.alloc(1 << 16)
            assert moiety.pool_of(block.address) is own
            del block
        dropped = moiety.Pool()
        assert moiety.pool_of(dropped.alloc_raw(512)) is dropped

    def find():
        moiety.pool_of(0x1000)

    contend(come_and_go, find)


def test_tenants_that_close_while_they_are_used(pool):
    current = [pool.tenant("first", budget=64 * MIB)]

    def use():
        tenant = current[0]
        block = refused(lambda: tenant.alloc(4096))
        refused(tenant.stats)
        if block:
            block.free()

    def close():
        tenant = current[0]
        current[0] = pool.tenant("next", budget=64 * MIB)
        while tenant.is_open:
            refused(tenant.close)

    contend(use, use, close)


def test_watches_that_all_threads_close(pool):
    current = [pool.watch_segments(lambda segment: None)]

    def close():
        refused(current[0].close)
        assert current[0].is_open in (True, False)

    def watch():
        made = refused(lambda: pool.watch_segments(added=lambda segment: None))
        if made:
            current[0] = made

    def grow():
        refused(lambda: pool.alloc(30 * MIB), MemoryError)
        refused(pool.trim)

    contend(close, watch, grow)


def test_pools_that_go_while_their_watch_is_closed():
    def work():
        own = moiety.Pool()
        watch = own.watch_segments(releasing=lambda segment: None)
        block = own.alloc(512)
        closer = threading.Thread(target=lambda: refused(watch.close))
        closer.start()
        del block, own
        closer.join()

    contend(work)
    gc.collect()


def test_streams_that_all_threads_name(pool):
    block = pool.alloc(4096)

    def name():
        block.stream = moiety.PER_THREAD
        block.stream = moiety.LEGACY
        assert block.stream in (moiety.PER_THREAD, moiety.LEGACY)

    contend(name)


def test_a_threads_own_stream_is_nobody_elses(driver):
    with moiety.Pool(limit=8 * MIB, wait_ms=0) as pool:
        block = pool.alloc(6 * MIB)

        def name():
            block.stream = moiety.PER_THREAD

        thread = threading.Thread(target=name)
        thread.start()
        thread.join()
        with driver.held(driver.stream()):
            block.free()  # behind all work, as that thread's is not known here
            with pytest.raises(MemoryError):
                pool.alloc(6 * MIB, moiety.PER_THREAD)


def test_settings_that_all_threads_change(pool):
    def change():
        refused(lambda: pool.set_limit(256 * MIB))
        refused(lambda: pool.reserve(2 * MIB))
        pool.used_bytes
        pool.total_bytes
        pool.reset_peaks()
        repr(pool)
        pool._repr_html_()
        pool.snapshot()

    contend(change)
    pool.set_limit(0)
