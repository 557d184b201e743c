# SPDX-License-Identifier: Apache-2.0
"""What the package is, before anything is made."""

import re

import moiety
import moiety.torch
import pytest
from moiety import _native
from support import run_program


def test_version_is_that_of_the_library():
    assert re.fullmatch(r"\d+\.\d+\.\d+", moiety.__version__)


def pool_with(**options):
    return lambda: moiety.Pool(**options)


def arena_with(**options):
    return lambda: moiety.HostArena(**options)


def of(make, use):
    """What `use` does with a pool or an arena, and a block of it."""
    def call():
        with make() as space:
            use(space, space.alloc(100))
    return call


def pool(use, **options):
    return of(lambda: moiety.Pool(limit=64 << 20, **options), use)


def mapped(use):
    return pool(use, memory="mapped")


def passing(use):
    return pool(use, pass_through=True)


def arena(use):
    return of(moiety.HostArena, use)


# Each thing that the library refuses and that Python can ask for, with words of
# what it says; None: in a driver's words.
REFUSALS = [
    (pool_with(device=99), "device 99 does not exist; the machine has device"),
    (pool_with(limit=-1), "-1: accepted are whole numbers from 0"),
    (pool_with(wait_ms=1 << 40), r"1099511627776: .* 2\*\*32 - 1"),
    (pool_with(memory="fast"), "'fast'; accepted are 'driver', 'mapped'"),
    (pool_with(limit=1), "limit is 1; accepted are 0 and"),
    (pool_with(limit=1 << 62), "limit is"),
    (pool_with(cache_bytes=5, thread_cache_bytes=0),
     "^cache_bytes is 5 bytes, .* where thread_cache_bytes is 0"),
    (pool_with(cache_bytes=1 << 20),
     "^cache_bytes is .* no less than thread_cache_bytes,"),
    (pool_with(first_segment_bytes=1 << 30, largest_segment_bytes=1 << 21),
     "^first_segment_bytes is .* no more than largest_segment_bytes,"),
    (pool_with(first_segment_bytes=3), "first_segment_bytes is 3"),
    (pool_with(thread_cache_bytes=1 << 60), "thread_cache_bytes is"),
    (pool_with(watermark_bytes=1 << 31, limit=1 << 30),
     "^watermark_bytes is .* no more than limit,"),
    (pool_with(history_entries=1 << 40), "history_entries is"),
    (pool_with(quarantine_bytes=1 << 63), "quarantine_bytes is"),
    (pool_with(exportable=True, checked=True), "^exportable is True; "),
    (pool_with(peers=[0], memory="driver"), "where memory is not 'mapped'"),
    (pool_with(peers=[0], memory="mapped"), "device 0 is the pool's own"),
    (pool_with(peers=[5], memory="mapped"), "there is no device 5"),
    (pool_with(context=5), "0x5 is no CUDA context"),
    (arena_with(place="best"), "'best'; accepted are 'nearest', 'caller'"),
    (arena_with(huge="3M"), "'3M'; accepted are '', '2M' and '1G'"),
    (arena_with(place=[5000]), "place has 5000; accepted"),
    (arena_with(place=[]), "place names no NUMA node"),
    (arena_with(touch_threads=99999), "^option touch_threads"),
    (arena_with(write_combined=True, read_only=True),
     "^write_combined and read_only"),
    (pool(lambda made, block: made.export(block)),
     "made without exportable=True"),
    (pool(lambda made, block: made.ticket(block)), "exportable=True"),
    (pool(lambda made, block: made.send(block, 99)), "exportable=True"),
    (pool(lambda made, block: made.export(block), exportable=True,
          memory="mapped"), r"mapped, .*: moiety.ipc.send\(\) sends it, and "
     r"Pool.ticket\(\) names"),
    (pool(lambda made, block: made.send(block, 9999), exportable=True),
     "descriptor 9999"),
    (pool(lambda made, block: made.tenant("a", pausable=True),
          memory="driver"), "memory='mapped'"),
    (pool(lambda made, block: made.tenant("a").pause()), "the tenant was not"),
    (mapped(lambda made, block: made.tenant("a", pausable=True).resume()),
     "the tenant is not paused"),
    (pool(lambda made, block: made.tenant("x" * 100)), "31 bytes at most"),
    (pool(lambda made, block: made.tenant("x", 5).alloc(100)), "budget of 5"),
    (pool(lambda made, block: made.record_use(1, moiety.DONE)),
     "^DONE is no stream"),
    (pool(lambda made, block: made.record_use(1, 0)), "is not of this pool"),
    (pool(lambda made, block: made.free_raw(block.address + 1)),
     "no block starts at"),
    (pool(lambda made, block: made.usable_size(1)), "is not of this pool"),
    (pool(lambda made, block: made.set_limit(1)), "a limit of 1 bytes"),
    (pool(lambda made, block: made.set_limit(1 << 62)), "16 times"),
    (pool(lambda made, block: made.reserve(1 << 40)), "more than the pool"),
    (pool(lambda made, block: made.alloc(1 << 40)), "never reserves more"),
    (pool(lambda made, block: made.hold(5)), "in no segment"),
    (pool(lambda made, block: made.history()), "without history_entries"),
    (pool(lambda made, block: made.add_peer(0), memory="driver"), "peers are of a pool that"),
    (mapped(lambda made, block: made.add_peer(0)), "the pool's own"),
    (mapped(lambda made, block: made.add_peer(77)), "ordinals from 0 to 63"),
    (passing(lambda made, block: made.reserve(1 << 20)), "passes all through"),
    (passing(lambda made, block: made.watch_segments(print)),
     "passes all through"),
    (arena(lambda made, block: made.reserve(1 << 62)), "never has more than"),
    (arena(lambda made, block: made.reserve(1 << 21, threads=1000)),
     "threads is"),
    (arena(lambda made, block: made.device_address(5)), "not memory of this"),
    (lambda: _native.pin(0, 5), "address is 0"),
    (lambda: _native.pin(5, 0), "nbytes is 0"),
    (lambda: _native.unpin(4096, 4096), "not a range that was pinned"),
    (lambda: _native.ipc_wait(1 << 60), "number of no close"),
    (lambda: _native._Import(b"abc"), "a handle has"),
    (_native.capture_guard_end, "no capture guard is held"),
    (lambda: _native.expose_start(""), "the path is empty"),
    (lambda: _native.probe(99), "device 99 does not exist"),
]


@pytest.mark.parametrize("call, words", REFUSALS)
def test_errors_name_what_python_has(call, words):
    with pytest.raises(Exception, match=words) as raised:
        call()
    said = str(raised.value)
    assert not re.search(r"moiety_|MOIETY_|NULL|struct_size|size_bytes|"
                         r"private arena|host option|cuMem|cuCtx", said), said


UNKNOWN = [
    (lambda: moiety.Pool(limt=5), "Pool() has no argument 'limt', did you mean "
     "'limit'? Accepted are device, context, limit, "),
    (lambda: moiety.Pool(limit="64MiB", zzzz=1),
     "Pool() has no argument 'zzzz'; accepted are device, "),
    (pool(lambda made, block: made.trim(keep_byte=0)),
     "trim() has no argument 'keep_byte', did you mean 'keep_bytes'?"),
    (lambda: moiety.HostArena(places="nearest"),
     "HostArena() has no argument 'places', did you mean 'place'?"),
    (lambda: moiety.probe(devise=0), "did you mean 'device'?"),
    (pool(lambda made, block: made.alloc(1, strem=0)),
     "there is no argument 'strem'; accepted are nbytes and stream"),
    (lambda: moiety.torch.enable(limt="8GiB"),
     "enable() has no argument 'limt', did you mean 'limit'? Accepted are "
     "limit, memory, ipc, exact_peaks, reduced"),
    (lambda: moiety.torch.pausable_pool("weights", zzzz=1),
     "pausable_pool() has no argument 'zzzz'; accepted are name, limit, "
     "use_on_oom"),
    (lambda: moiety.Pool(device="cuda:0"),
     "device is 'cuda:0'; accepted are numbers of devices, as 0"),
    (lambda: moiety.Pool("8GiB"), "device is '8GiB'; accepted are numbers"),
    (lambda: moiety.HostArena(device=None), "device is None; accepted are"),
    (pool(lambda made, block: made.alloc("1MiB")),
     "'1MiB': accepted are whole numbers from 0 to 2**64 - 1"),
]


@pytest.mark.parametrize("call, words", UNKNOWN)
def test_the_nearest_argument_is_named(call, words):
    with pytest.raises(TypeError) as raised:
        call()
    assert words in str(raised.value)


def test_other_errors_of_arguments_stay_as_they_are():
    with pytest.raises(TypeError, match="at most 1 positional"):
        moiety.Pool(1, 2)
    with pytest.raises(ValueError, match="limit is '8GB'"):
        moiety.Pool(limit="8GB")
    with pytest.raises(TypeError, match="memory is 5"):
        moiety.Pool(memory=5)


def test_keys_of_the_variable_stay_as_they_are():
    for text in ("thread_cache:zz", "first_segment:5", "no_such_key:1"):
        done = run_program("""
            import moiety
            try:
                moiety.Pool()
            except moiety.Error as error:
                print(error)
        """, MOIETY_CONF=text)
        key = text.partition(":")[0]
        assert done.stdout.startswith("MOIETY_CONF: "), done.stderr
        assert f"{key} is" in done.stdout or f"'{key}' is" in done.stdout


def test_why_a_pool_exports_nothing():
    pool = moiety.Pool()
    block = pool.alloc(1)
    with pytest.raises(moiety.Error, match="made without exportable=True"):
        pool.export(block.address)


def test_what_an_exhausted_pool_says():
    with moiety.Pool(limit=4 << 20, wait_ms=0) as pool:
        kept = pool.alloc(3 << 20)
        with pytest.raises(moiety.OutOfMemoryError) as raised:
            pool.alloc(3 << 20)
        assert "moiety_" not in str(raised.value)
        assert raised.value.report["live_count"] == 1
        del kept


NO_ADDRESSES = """
    import re, resource, moiety
    def taken():
        with open("/proc/self/status") as lines:
            return int(re.search(r"VmSize:\\s+(\\d+)", lines.read())[1]) << 10
    moiety.Pool(limit=64 << 20).alloc(1)
    before = taken()
    small = moiety.Pool(limit=64 << 20)
    assert taken() - before < 32 << 20
    resource.setrlimit(resource.RLIMIT_AS, (taken() + (8 << 20),) * 2)
    try:
        moiety.Pool(limit=8 << 30, memory="driver")
    except moiety.OutOfMemoryError as error:
        print(error.status, error)
"""


def test_addresses_go_by_the_limit():
    ended = run_program(NO_ADDRESSES)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("E_NO_HOST_MEMORY no addresses for the")
    assert "ulimit -v" in ended.stdout


def test_a_node_that_is_not_there():
    with pytest.raises(moiety.Error, match=r"node 200 does not exist; the "
                       r"machine has node"):
        moiety.HostArena(place=(200,))
