# SPDX-License-Identifier: Apache-2.0
"""pool.watch_segments(): what is told, what may be done meanwhile, what ends it."""

import functools
import gc
import sys
import threading
import time
import weakref

import moiety
import pytest
from support import MIB, run_program, run_threads

KINDS = {"driver": {"memory": "driver"}, "mapped": {"memory": "mapped"},
         "checked": {"memory": "driver", "checked": True}}


@pytest.fixture(name="pool", params=KINDS)
def pool_of_each_kind(request):
    with moiety.Pool(thread_cache_bytes=0, **KINDS[request.param]) as made:
        yield made
        gc.collect()
        if made.is_open:
            assert made.stats().allocation_current == 0


class Ledger:
    """What was told and is there, as a transport registers it."""

    def __init__(self):
        self.live = {}
        self.ended = []
        self.complaints = []
        self.is_running = False
        self.at_each = lambda: None

    def added(self, segment):
        self._tell(segment, segment["id"] not in self.live)
        self.live[segment["id"]] = segment

    def releasing(self, segment):
        self._tell(segment, segment["id"] in self.live)
        self.ended.append(self.live.pop(segment["id"], None))

    def _tell(self, segment, is_right):
        if self.is_running or not is_right:
            self.complaints.append(segment)
        self.is_running = True
        self.at_each()
        self.is_running = False

    def nbytes(self):
        return sum(segment["nbytes"] for segment in self.live.values())

    def has(self, address):
        return any(0 <= address - segment["address"] < segment["nbytes"]
                   for segment in list(self.live.values()))


def watched(pool):
    ledger = Ledger()
    return ledger, pool.watch_segments(ledger.added, ledger.releasing)


def refusal(call, *arguments):
    with pytest.raises((moiety.Error, moiety.OutOfMemoryError)) as raised:
        call(*arguments)
    return raised.value.status


def grow_and_trim(pool):
    pool.alloc(20 * MIB).free(moiety.DONE)
    pool.trim()


@pytest.fixture(name="unraisable")
def what_nobody_can_catch(monkeypatch):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: caught.append(
        (error.exc_type, str(error.exc_value))))
    return caught


# What is told.

def test_memory_is_told_before_it_is_given_out(pool):
    ledger, watch = watched(pool)
    blocks = [pool.alloc(size * MIB) for size in (1, 2, 100, 8, 30)]
    assert all(ledger.has(block.address) for block in blocks)
    assert ledger.nbytes() == pool.stats().reserved_bytes_current
    assert sorted(ledger.live.values(), key=lambda told: told["address"]
                  ) == pool.segments()
    for block in blocks:
        block.free(moiety.DONE)
    pool.trim()
    pool.trim()
    assert not ledger.live and ledger.ended and not ledger.complaints
    assert watch.is_open


def test_a_watch_begins_with_what_is_there_and_ends_without_a_word(pool):
    block = pool.alloc(20 * MIB)
    ledger = Ledger()
    with pool.watch_segments(ledger.added, ledger.releasing) as watch:
        assert ledger.has(block.address) and watch.is_open
    assert not watch.is_open
    watch.close()
    block.free(moiety.DONE)
    pool.trim()
    assert ledger.live and not ledger.ended


@pytest.mark.parametrize("name", ["added", "releasing"])
def test_one_function_alone(pool, name):
    told = []
    watch = pool.watch_segments(**{name: told.append})
    grow_and_trim(pool)
    assert told and watch.is_open


def test_two_watches_are_told_alike(pool):
    first, watch = watched(pool)
    second, _ = watched(pool)
    grow_and_trim(pool)
    assert first.ended == second.ended != []
    watch.close()
    grow_and_trim(pool)
    assert len(second.ended) > len(first.ended)


def test_memory_that_pauses_goes_and_comes():
    with moiety.Pool(memory="mapped", wait_ms=60000) as pool:
        ledger, _ = watched(pool)
        tenant = pool.tenant(pausable=True)
        block = tenant.alloc(8 * MIB)
        before = set(ledger.live)
        tenant.pause(keep_contents=True)
        assert not ledger.has(block.address)
        tenant.resume()
        assert ledger.has(block.address) and not before & set(ledger.live)
        block.free()
    assert not ledger.live and not ledger.complaints


# What ends it.

def test_the_end_of_the_pool_tells_of_all(pool):
    ledger, watch = watched(pool)
    block = pool.alloc(20 * MIB)
    assert pool.close() == 1 and not block.is_live
    assert not ledger.live and not ledger.complaints and not watch.is_open
    watch.close()


def test_a_watch_that_was_dropped_goes_on(pool):
    ledger = Ledger()
    pool.watch_segments(ledger.added, ledger.releasing)
    gc.collect()
    grow_and_trim(pool)
    assert ledger.ended and not ledger.complaints


def test_a_watch_does_not_keep_the_pool():
    pool = moiety.Pool()
    ledger, watch = watched(pool)
    pool.alloc(MIB).free()
    assert ledger.live
    del pool
    assert not ledger.live and not watch.is_open
    watch.close()


def test_functions_go_with_the_watch(pool):
    ledger, watch = watched(pool)
    alive = weakref.ref(ledger)
    del ledger
    assert alive() is not None
    watch.close()
    assert alive() is None


class Transport(Ledger):
    """Refers to what keeps it."""

    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.watch = pool.watch_segments(self.added, self.releasing)


def test_a_pool_that_its_watcher_refers_to_is_collected():
    transport = Transport(moiety.Pool())
    transport.pool.alloc(MIB).free()
    ended, alive = transport.ended, weakref.ref(transport)
    del transport
    assert alive() is not None
    gc.collect()
    assert alive() is None and len(ended) == 1


def test_a_block_that_its_watcher_has_keeps_all():
    transport = Transport(moiety.Pool())
    transport.block = transport.pool.alloc(MIB)
    alive = weakref.ref(transport)
    del transport
    gc.collect()
    assert alive().pool.close() == 1
    gc.collect()
    assert alive() is None


# What a function may not do.

def test_the_pool_refuses_calls_meanwhile(pool):
    block = pool.alloc(512)
    ledger, watch = watched(pool)
    told = []

    def work():
        for call in (functools.partial(pool.alloc, 512), pool.trim,
                     functools.partial(pool.alloc_raw, 64 * MIB),
                     functools.partial(pool.tenant, "tenant"),
                     functools.partial(pool.usable_size, block.address),
                     functools.partial(pool.hold, block.address),
                     functools.partial(pool.watch_segments, told.append),
                     pool.segments, watch.close):
            assert refusal(call) == "E_REENTRANT", call
        assert refusal(pool.close) == "E_IN_USE"
        with pytest.raises(moiety.Error, match="in the middle of a call"):
            pool.alloc(512)
        with moiety.Pool() as other:
            other.alloc(8 * MIB).free()
        told.append("all")

    ledger.at_each = work
    grow_and_trim(pool)
    assert len(told) >= 2 and set(told) == {"all"}
    assert watch.is_open and pool.is_open
    watch.close()
    block.free()


def test_the_end_of_the_pool_has_begun_meanwhile(pool):
    ledger, watch = watched(pool)
    block = pool.alloc(MIB)
    told = []

    def work():
        for call in (pool.alloc, pool.watch_segments):
            with pytest.raises(ValueError, match="closed"):
                call(told.append if call == pool.watch_segments else 512)
        assert refusal(watch.close) == "E_IN_USE"
        assert pool.close() == 0 and not block.is_live
        block.free()
        told.append("all")

    ledger.at_each = work
    assert pool.close() == 1
    assert told and not watch.is_open


# What goes while a function runs.

def leave_a_cycle(*kept):
    """Garbage that only the collector finds."""
    cycle = list(kept)
    cycle.append(cycle)


@pytest.fixture(name="by_hand")
def garbage_is_collected_by_hand():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def frees(pool):
    stats = pool.stats()
    return stats.allocation_freed, stats.allocation_current


def test_blocks_that_are_collected_meanwhile_are_freed_after(pool, by_hand):
    ledger, watch = watched(pool)
    blocks = [pool.alloc(512) for _ in range(7)]
    leave_a_cycle(*blocks[:5])
    del blocks[:5]
    freed, live = frees(pool)
    ledger.at_each = gc.collect
    kept = pool.alloc(20 * MIB)  # grows, and the collector runs there
    assert frees(pool) == (freed + 5, live - 5 + 1)
    watch.close()
    gc.collect()
    blocks.append(kept)
    for block in blocks:
        block.free(moiety.DONE)
    assert frees(pool) == (freed + 8, 0)


def test_blocks_of_other_pools_too(pool, by_hand):
    with moiety.Pool(thread_cache_bytes=0) as other:
        leave_a_cycle(other.alloc(512), pool.alloc(512))
        ledger, _ = watched(pool)
        ledger.at_each = gc.collect
        grow_and_trim(pool)
        assert frees(other)[1] == frees(pool)[1] == 0


def test_a_pool_that_is_collected_meanwhile(pool, by_hand):
    """With its own watcher, who is told within the other one's function."""
    ledger, _ = watched(pool)
    inner = Transport(moiety.Pool())
    inner.pool.alloc(MIB).free()
    ended = inner.ended
    del inner
    ledger.at_each = gc.collect
    grow_and_trim(pool)
    assert len(ended) == 1 and not ledger.complaints


@pytest.mark.parametrize("kind", [moiety.LEGACY, moiety.ANY, moiety.DONE])
def test_frees_that_are_said_wait_as_well(pool, kind):
    ledger, _ = watched(pool)
    blocks = [pool.alloc(512) for _ in range(2)]
    addresses = [pool.alloc_raw(512) for _ in range(2)]
    freed, _ = frees(pool)

    def work():
        while blocks:
            block = blocks.pop()
            block.free(kind)
            block.free(kind)
            assert not block.is_live
        while addresses:
            pool.free_raw(addresses.pop(), kind)

    ledger.at_each = work
    grow_and_trim(pool)
    assert frees(pool) == (freed + 5, 0)


def fill_with_tenants(pool):
    """As many as a process may have, with a block each."""
    made = []
    with pytest.raises(moiety.Error, match="tenants") as raised:
        while True:
            tenant = pool.tenant("one of many")
            made.append((tenant, tenant.alloc(512)))
    assert raised.value.status == "E_NO_ROOM"
    del raised  # its traceback has the tenants
    return made


def test_tenants_end_after_their_blocks(pool, by_hand):
    ledger, _ = watched(pool)
    tenants = fill_with_tenants(pool)
    count = len(tenants)
    ledger.at_each = tenants.clear
    grow_and_trim(pool)
    assert not tenants and frees(pool)[1] == 0
    assert len(fill_with_tenants(pool)) == count


def test_what_waits_is_no_leak_when_the_pool_is_closed(by_hand):
    for _ in range(2):
        pool, other = moiety.Pool(), moiety.Pool()
        left = [other.alloc(512)]
        pool.watch_segments(releasing=lambda _, left=left: left.clear())
        pool.alloc(MIB).free()
        assert pool.close() == 0 and not left
        assert other.stats().allocation_current == 0
        assert other.close() == 0


def test_a_late_free_that_fails_is_reported(pool, unraisable, request):
    address = pool.alloc_raw(512)
    ledger, _ = watched(pool)
    done = []

    def work():
        if not done:
            done.extend(pool.free_raw(address) for _ in range(2))

    ledger.at_each = work
    grow_and_trim(pool)
    # Any other pool only knows that the memory is free.
    is_known = request.node.callspec.params["pool"] == "checked"
    assert [kind for kind, _ in unraisable] == [
        moiety.DoubleFreeError if is_known else moiety.Error]


# What a function raises.

def test_what_is_raised_is_reported_and_the_pool_goes_on(pool, unraisable):
    class Reason(BaseException):
        pass

    def fail(segment):
        raise Reason(f"segment {segment['id']}")

    watch = pool.watch_segments(fail, fail)
    ledger, _ = watched(pool)
    grow_and_trim(pool)
    assert sorted(text for _, text in unraisable) == sorted(
        f"segment {segment['id']}" for segment in ledger.ended * 2)
    assert {kind for kind, _ in unraisable} == {Reason}
    assert not ledger.complaints and watch.is_open


@pytest.mark.parametrize("arguments, error", [
    ((), TypeError), ((None, None), TypeError), ((1,), TypeError),
    (("added",), TypeError), ((print, 1), TypeError),
    ((print, print, print), TypeError)])
def test_what_is_no_watcher(pool, arguments, error):
    with pytest.raises(error):
        pool.watch_segments(*arguments)
    grow_and_trim(pool)


def test_pools_that_are_not_watched():
    with moiety.Pool(pass_through=True) as pool:
        assert refusal(pool.watch_segments, print) == "E_UNSUPPORTED"
    with pytest.raises(ValueError, match="closed"):
        pool.watch_segments(print)
    with pytest.raises(TypeError):
        moiety.SegmentWatch()


# Threads.

def test_threads_grow_and_find_while_a_function_runs(pool):
    """It waits without the GIL for who waits for it."""
    ledger, _ = watched(pool)
    ledger.at_each = lambda: time.sleep(0.001)

    def work(index):
        for turn in range(20):
            block = pool.alloc((1 + (index + turn) % 30) * MIB)
            if not ledger.has(block.address):
                ledger.complaints.append(block)
            assert pool.segments()
            block.free(moiety.DONE)
            pool.trim()

    run_threads(6, work)
    pool.trim()
    pool.trim()
    assert not ledger.complaints and not ledger.live and ledger.ended


def test_what_waits_for_no_function_that_runs(pool):
    """With the GIL held, some of it: if it waited, nothing would go on."""
    block, tenant = pool.alloc(512), pool.tenant("tenant")
    is_inside, is_done = threading.Event(), threading.Event()
    ledger, watch = watched(pool)
    ledger.at_each = lambda: (is_inside.set(), is_done.wait(60))
    thread = threading.Thread(target=pool.alloc_raw, args=(20 * MIB,))
    thread.start()
    is_inside.wait()
    assert pool.usable_size(block.address) == 512
    assert pool.owns(block.address) and watch.is_open and pool.is_open
    assert moiety._native.pool_of(block.address) is pool
    pool.hold(block.address).release()
    tenant.budget = 5
    assert pool.last_oom() is None and tenant.stats().budget_bytes == 5
    assert pool.stats().allocation_current >= 1
    with pool.tenant("other", pausable=pool.memory == "mapped") as made:
        assert not made.is_paused
    block.free(moiety.DONE)
    assert refusal(pool.close) == "E_IN_USE"
    assert thread.is_alive() and not is_done.is_set()
    is_done.set()
    thread.join()
    assert pool.close() == 1 and not ledger.complaints


def test_watches_begin_and_end_while_others_grow(pool):
    is_over = threading.Event()

    def grow():
        while not is_over.is_set():
            grow_and_trim(pool)

    thread = threading.Thread(target=grow)
    thread.start()
    for _ in range(200):
        ledger = Ledger()
        with pool.watch_segments(ledger.added, ledger.releasing):
            pass
        told = (dict(ledger.live), list(ledger.ended))
        assert not ledger.complaints
        assert told == (ledger.live, ledger.ended), "told after the watch"
    is_over.set()
    thread.join()


def test_a_watch_that_two_threads_close(pool):
    for _ in range(50):
        _, watch = watched(pool)
        run_threads(2, lambda _, watch=watch: watch.close())
        assert not watch.is_open


def test_blocks_of_many_threads_are_freed_once(pool):
    """Each function that runs collects what all threads have dropped."""
    ledger, watch = watched(pool)
    ledger.at_each = gc.collect

    def work(index):
        for turn in range(15):
            leave_a_cycle(pool.alloc(512), pool.alloc(MIB))
            pool.alloc((2 + (index + turn) % 8) * MIB).free(moiety.DONE)
            pool.trim()

    run_threads(4, work)
    watch.close()
    gc.collect()
    assert frees(pool) == (4 * 15 * 3, 0) and not ledger.complaints


# Processes.

def test_child_of_a_fork_is_told():
    ended = run_program("""
        import moiety, os
        pool = moiety.Pool()
        told = []
        watch = pool.watch_segments(told.append, told.append)
        pool.alloc(1 << 20).free()
        child = os.fork()
        if child == 0:
            for call in (watch.close, lambda: pool.watch_segments(print)):
                try:
                    call()
                except moiety.Error as error:
                    print(error.status, len(told), flush=True)
            del watch, pool
            os._exit(len(told) != 1)
        assert os.waitpid(child, 0)[1] == 0
        watch.close()
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED 1\n" * 2, "")


def test_an_interpreter_that_ends_tells_nothing():
    """Others still grow the pool then."""
    ended = run_program("""
        import atexit, moiety, threading
        pool = moiety.Pool(thread_cache_bytes=0)
        told = []
        pool.watch_segments(told.append, told.append)
        def grow():
            while True:
                pool.alloc(20 << 20).free(moiety.DONE)
                pool.trim()
        for _ in range(4):
            threading.Thread(target=grow, daemon=True).start()
        while len(told) < 10:
            pool.alloc(512).free()
        print("over")
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "over\n", "")


def test_an_interpreter_ends_with_a_pool_in_a_cycle():
    """Which the collector finds when the package's modules are gone."""
    ended = run_program("""
        import moiety
        cycle = [moiety.Pool()]
        cycle.append(cycle)
    """, PYTHONWARNINGS="")  # which keeps modules longer
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("kept", [
    "cycle.append(watched)",
    "cycle.append(watched.alloc(1 << 20))",
    "sys.kept = watched",
    "sys.modules['moiety._native'].kept = watched"])
def test_an_interpreter_ends_with_what_is_watched(kept):
    ended = run_program(f"""
        import moiety, sys
        watched = moiety.Pool()
        watched.watch_segments(lambda _: watched, lambda _: print("told"))
        watched.alloc(1 << 20).free()
        cycle = []
        cycle.append(cycle)
        {kept}
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
