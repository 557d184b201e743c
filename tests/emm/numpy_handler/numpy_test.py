# SPDX-License-Identifier: Apache-2.0
"""NumPy in pinned memory: which arrays are, for how long, and on whose
threads."""

import asyncio
import contextvars
import gc
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import moiety
import moiety.numpy
from support import run_program, run_threads

multiarray = (np._core if hasattr(np, "_core") else np.core).multiarray

PAGE = moiety.numpy.PINNED_BYTES_MIN


@pytest.fixture
def tight():
    size = 4 << 20
    host = moiety.HostArena(0, limit=size, first_segment_bytes=size,
                            largest_segment_bytes=size, wait_ms=0)
    yield host
    gc.collect()
    assert host.close() == 0, "blocks that nobody freed"


def is_pinned(host, array):
    return host.owns(array.__array_interface__["data"][0])


def name_of(*arrays):
    return multiarray.get_handler_name(*arrays)


def test_arrays_from_a_page_up_are_pinned(arena):
    with moiety.numpy.use(arena):
        small, large = np.empty(PAGE - 1, "u1"), np.empty(PAGE, "u1")
    assert not is_pinned(arena, small)
    assert is_pinned(arena, large)


def test_numpy_tells_the_handlers_name_and_version(arena):
    before = name_of()
    with moiety.numpy.use(arena):
        assert name_of() == "moiety:device0"
        array = np.zeros(3)
    assert name_of() == before != "moiety:device0"
    assert name_of(array) == "moiety:device0"
    assert multiarray.get_handler_version(array) == 1
    assert name_of(array[1:]) is None


def test_the_name_says_which_node():
    with moiety.numpy.pinned(place=0) as host:
        assert name_of() == "moiety:device0:0"
        assert host is moiety.numpy.arena(place=[0])
    with moiety.numpy.pinned(place="caller"):
        assert name_of() == "moiety:device0:caller"


def test_a_place_has_one_arena():
    host = moiety.numpy.arena()
    assert moiety.numpy.arena(0) is host
    assert moiety.numpy.arena(place="nearest") is host
    assert moiety.numpy.arena(place=0) is not host


def test_a_place_that_was_closed_is_made_again():
    host = moiety.numpy.arena(0, place=0)
    host.close()
    with moiety.numpy.pinned(0, place=0) as other:
        assert other is not host and other.is_open
        assert is_pinned(other, np.ones(PAGE))


def test_arrays_are_near_to_what_is_on_a_device():
    class OnDevice:
        def __dlpack_device__(self):
            return (2, 0)

    class Device:
        device_id = 0

    assert moiety.numpy.arena(OnDevice()) is moiety.numpy.arena(0)
    assert moiety.numpy.arena(Device()) is moiety.numpy.arena(0)


def test_places_that_are_none_are_refused():
    with pytest.raises(ValueError, match="not on a GPU"):
        moiety.numpy.arena(np.zeros(1))
    with pytest.raises(TypeError, match="object does not tell"):
        moiety.numpy.arena(object())
    with pytest.raises(ValueError, match="no NUMA node"):
        moiety.numpy.arena(place=[])
    with pytest.raises(ValueError, match="place is 'best'"):
        moiety.numpy.arena(place="best")
    with pytest.raises(TypeError):
        moiety.numpy.arena(place=1.5)
    with pytest.raises(moiety.Error):
        moiety.numpy.arena(device=999)


def test_blocks_nest_and_restore(arena, tight):
    get = moiety._nep49.get_handler
    before = get()
    with moiety.numpy.use(arena):
        first = get()
        with moiety.numpy.use(tight):
            second = get()
            with moiety.numpy.use(None):
                assert name_of() == "default_allocator"
            assert get() is second
        assert get() is first
        assert is_pinned(arena, np.empty(PAGE))
    assert get() is before


def test_a_block_restores_after_an_error(arena):
    before = name_of()
    with pytest.raises(ZeroDivisionError), moiety.numpy.use(arena):
        1 / 0
    assert name_of() == before


def test_use_holds_until_it_is_restored(arena):
    before = name_of()
    used = moiety.numpy.use(arena)
    assert name_of() == "moiety:device0"
    used.restore()
    assert name_of() == before
    used.restore()
    assert name_of() == before


def test_an_async_function_that_is_decorated_is_pinned_until_its_end():
    @moiety.numpy.pinned(device=0)
    async def make():
        first = np.empty(PAGE)
        await asyncio.sleep(0)
        return first, np.empty(PAGE)

    async def several():
        made = await asyncio.gather(make(), make())
        return *sum(made, ()), np.empty(PAGE)

    *pinned, outside = asyncio.run(several())
    host = moiety.numpy.arena(0)
    assert asyncio.iscoroutinefunction(make) and len(pinned) == 4
    assert all(is_pinned(host, array) for array in pinned)
    assert not is_pinned(host, outside)


def test_a_generator_that_is_decorated_is_pinned_and_its_caller_is_not():
    @moiety.numpy.pinned(device=0)
    def make():
        try:
            got = yield np.empty(PAGE)
            try:
                yield got
            except KeyError:
                yield np.empty(PAGE)
            return np.empty(PAGE)
        finally:
            ended.append(np.empty(PAGE))

    host, ended = moiety.numpy.arena(0), []
    items = make()
    found, between = [next(items)], [np.empty(PAGE)]
    assert items.send(3) == 3
    between.append(np.empty(PAGE))
    found.append(items.throw(KeyError()))
    with pytest.raises(StopIteration) as end:
        next(items)
    found.append(end.value.value)
    left = make()
    next(left)
    left.close()
    broken = make()
    next(broken)
    with pytest.raises(ValueError):
        broken.throw(ValueError())
    found += ended
    between.append(np.empty(PAGE))
    assert [is_pinned(host, array) for array in found] == 6 * [True]
    assert not any(is_pinned(host, array) for array in between)


def test_an_async_generator_that_is_decorated_is_pinned():
    @moiety.numpy.pinned(device=0)
    async def make():
        try:
            for _ in range(3):
                await asyncio.sleep(0)
                try:
                    yield np.empty(PAGE)
                except KeyError:
                    pass
        finally:
            ended.append(np.empty(PAGE))

    async def caller():
        async for array in make():
            found.append(array)
            between.append(np.empty(PAGE))
        other = make()
        found.append(await other.asend(None))
        found.append(await other.athrow(KeyError()))
        await other.aclose()

    host, found, between, ended = moiety.numpy.arena(0), [], [], []
    asyncio.run(caller())
    assert len(found) == 5 and len(ended) == 2
    assert all(is_pinned(host, array) for array in found + ended)
    assert not any(is_pinned(host, array) for array in between)


def test_pinned_does_not_decorate_a_class():
    with pytest.raises(TypeError, match="not a function"):
        @moiety.numpy.pinned()
        class _Any:
            pass


def test_pinned_is_entered_again_only_when_it_was_left():
    block = moiety.numpy.pinned(device=0)
    with block:
        with pytest.raises(RuntimeError, match="entered already"):
            block.__enter__()
    with block as host:
        assert is_pinned(host, np.empty(PAGE))
    assert not is_pinned(host, np.empty(PAGE))


def test_pinned_works_as_a_decorator():
    @moiety.numpy.pinned(device=0)
    def make():
        return np.empty(PAGE)

    assert is_pinned(moiety.numpy.arena(0), make())
    assert is_pinned(moiety.numpy.arena(0), make())


def test_arrays_outlive_the_block(arena):
    with moiety.numpy.use(arena):
        array = np.arange(PAGE)
    array.resize(4 * PAGE)
    assert is_pinned(arena, array)
    assert (array[:PAGE] == np.arange(PAGE)).all() and not array[PAGE:].any()
    array.resize(10)
    assert not is_pinned(arena, array)
    assert (array == np.arange(10)).all()


def test_iterators_grow_arrays_in_place_or_not(arena):
    with moiety.numpy.use(arena):
        array = np.fromiter(range(50000), np.int64)
        text = np.fromstring(" ".join(map(str, range(20000))), sep=" ")
    assert is_pinned(arena, array) and is_pinned(arena, text)
    assert (array == np.arange(50000)).all()
    assert (text == np.arange(20000)).all()


def test_zeros_are_zeros_where_memory_was_used(tight):
    with moiety.numpy.use(tight):
        for _ in range(20):
            full = np.full(1 << 20, 255, "u1")
            del full
            zeros = np.zeros(1 << 20, "u1")
            assert not zeros.any()


def test_no_memory_is_a_memory_error(tight):
    with moiety.numpy.use(tight):
        held = np.empty(4 << 20, "u1")
        for make in (np.empty, np.zeros):
            with pytest.raises(MemoryError):
                make(1 << 20, "u1")
        with pytest.raises(MemoryError):
            held.resize(8 << 20)
        assert np.ones(10).sum() == 10
    with pytest.raises(MemoryError):
        moiety.numpy.empty_pinned(1 << 20, "u1", arena=tight)
    assert held.nbytes == 4 << 20


def test_an_arena_in_use_cannot_be_closed():
    def is_refused(host):
        with pytest.raises(moiety.Error) as refused:
            host.close()
        return refused.value.status == "E_IN_USE" and host.is_open

    host = moiety.HostArena()
    with moiety.numpy.use(host):
        assert is_refused(host)
        array = np.ones(PAGE)
    assert is_refused(host)
    part = array[1:]
    del array
    assert is_refused(host) and (part == 1).all()
    del part
    assert host.close() == 0
    with pytest.raises(ValueError, match="closed"):
        moiety.numpy.use(host)


def test_new_threads_begin_with_numpys_own(arena):
    with moiety.numpy.use(arena), ThreadPoolExecutor(1) as pool:
        assert pool.submit(name_of).result() == "default_allocator"
        run = contextvars.copy_context().run
        assert pool.submit(run, name_of).result() == "moiety:device0"


def test_tasks_keep_theirs_apart(arena):
    async def inside():
        with moiety.numpy.use(arena):
            await asyncio.sleep(0)
            return name_of()

    async def outside():
        await asyncio.sleep(0)
        return name_of()

    async def both():
        return await asyncio.gather(inside(), outside(), inside())

    assert asyncio.run(both()) == ["moiety:device0", "default_allocator",
                                   "moiety:device0"]


def test_threads_drop_each_others_arrays(arena):
    count, rounds = 16, 40
    arrays = [None] * count
    barrier = threading.Barrier(count)
    wrong = []

    def work(own):
        other = (own + 1) % count
        with moiety.numpy.use(arena):
            for step in range(rounds):
                size = PAGE // 8 * (1 + (own * step) % 9)
                arrays[own] = np.full(size, own, np.int64)
                barrier.wait()
                theirs, arrays[other] = arrays[other], None
                if not (theirs == other).all():
                    wrong.append((own, step))
                total = np.sort(np.concatenate([theirs, theirs])).sum()
                if total != 2 * other * theirs.size:
                    wrong.append((own, step))
                del theirs
                barrier.wait()

    run_threads(count, work)
    assert not wrong
    assert arrays == [None] * count


def test_numpy_agrees_that_each_array_has_an_owner(arena):
    with moiety.numpy.use(arena), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.median(np.arange(PAGE)[::-1]) == (PAGE - 1) / 2


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["u1", "f8", "c16", "S5", "M8[ns]",
                                   [("a", "i4"), ("b", "f8", (2,))], "(2,3)f4"])
@pytest.mark.parametrize("shape", [7, (3, 5), (2, 0, 3), (), (64, 3, 100)])
def test_pinned_arrays_are_as_numpys(arena, shape, dtype, order):
    made = moiety.numpy.empty_pinned(shape, dtype, order, arena=arena)
    wanted = np.empty(shape, dtype, order)
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    # What it says of an array without elements depends on who owns it.
    assert made.strides == wanted.strides or not wanted.size
    assert made.flags.c_contiguous == wanted.flags.c_contiguous
    assert made.flags.writeable and made.flags.aligned
    assert is_pinned(arena, made)
    made[...] = np.zeros((), made.dtype)


def test_the_base_of_a_pinned_array_is_its_block(arena):
    array = moiety.numpy.empty_pinned((4, 4), arena=arena)
    assert array.base.address == array.__array_interface__["data"][0]
    assert array.base.nbytes == array.nbytes
    assert not array.flags.owndata
    part = array[1:]
    block = array.base
    del array
    assert block.is_live and part.base.base is block
    part[...] = 1


def test_pinned_zeros_are_zeros(tight):
    for _ in range(8):
        full = moiety.numpy.empty_pinned(1 << 20, "u1", arena=tight)
        full.fill(255)
        del full
        zeros = moiety.numpy.zeros_pinned(1 << 20, "u1", arena=tight)
        assert not zeros.any()
        del zeros


PROTOTYPES = {
    "C": np.empty((2, 3, 4), "f4"),
    "F": np.empty((2, 3, 4), "i2", "F"),
    "permuted": np.empty((2, 3, 4)).transpose(1, 0, 2),
    "reversed": np.empty((2, 3, 4))[::-1],
    "stepped": np.empty((4, 6))[::2, ::3],
    "scalar": np.float32(1),
}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("name", PROTOTYPES)
def test_pinned_likes_are_as_numpys(arena, name, order):
    prototype = PROTOTYPES[name]
    made = moiety.numpy.empty_like_pinned(prototype, order=order, arena=arena)
    wanted = np.empty_like(prototype, order=order)
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    assert made.strides == wanted.strides
    assert is_pinned(arena, made)


def test_pinned_likes_take_another_type_and_shape(arena):
    made = moiety.numpy.empty_like_pinned(np.empty((2, 3)), "i2", shape=(5,),
                                          arena=arena)
    assert made.shape == (5,) and made.dtype == np.int16


def test_what_cannot_be_pinned_is_refused(arena):
    def refused(error, match, *arguments, **place):
        with pytest.raises(error, match=match):
            moiety.numpy.empty_pinned(*arguments, **place, arena=arena)

    refused(TypeError, "Python objects", 3, object)
    refused(TypeError, "Python objects", 3, [("a", "i4"), ("b", "O")])
    refused(TypeError, "no size", 3, "S")
    refused(ValueError, "negative", -1)
    refused(ValueError, "dimensions", (1,) * 100)
    refused(TypeError, None, None)
    refused(ValueError, "too big", (1 << 40, 1 << 40))
    refused(ValueError, "'C' or 'F'", 3, float, "K")
    refused(TypeError, "no place", 3, place=0)
    refused(TypeError, "no place", 3, device=0)
    with pytest.raises(TypeError):
        moiety.numpy.empty_pinned(3, "no such type", arena=arena)
    with pytest.raises(TypeError, match="nosuch"):
        moiety.numpy.empty_pinned(3, nosuch=1)


def test_the_module_refuses_what_is_no_capsule(arena):
    with pytest.raises(ValueError):
        moiety._nep49.handler(object(), "name")
    with pytest.raises(ValueError, match="126"):
        moiety._nep49.handler(moiety._native._capsule_of(arena), "x" * 127)
    with pytest.raises(ValueError):
        moiety._nep49.set_handler(moiety._native._capsule_of(arena))
    with moiety.numpy.use(arena):
        moiety._nep49.set_handler(
            moiety._nep49.handler(moiety._native._capsule_of(arena), "x" * 126))
        assert name_of() == "x" * 126


def test_other_packages_can_call_the_functions(arena):
    import ctypes
    functions = moiety.numpy.functions()
    context = moiety.numpy.context(arena)
    void, size = ctypes.c_void_p, ctypes.c_size_t

    def function(name, result, *arguments):
        return ctypes.CFUNCTYPE(result, *arguments)(functions[name])

    calloc = function("calloc", void, void, size, size)
    realloc = function("realloc", void, void, void, size)
    free = function("free", None, void, void, size)
    malloc = function("malloc", void, void, size)
    block = realloc(context, calloc(context, 1000, 8), 1 << 20)
    assert arena.owns(block) and ctypes.string_at(block, 8000) == bytes(8000)
    free(context, block, 0)
    assert not arena.owns(malloc(context, 10))
    library = ctypes.CDLL(moiety._nep49.__file__)
    for name, address in functions.items():
        exported = getattr(library, "moiety_nep49_" + name)
        assert ctypes.cast(exported, void).value == address


def test_the_interpreter_ends_with_live_arrays():
    done = run_program("""
import numpy as np, moiety.numpy
moiety.numpy.use(moiety.numpy.arena())
kept = [np.ones(1 << 20), moiety.numpy.zeros_pinned(10)]
kept.append(kept)
print("end")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_has_plain_memory_in_its_place():
    done = run_program("""
import os, numpy as np, moiety, moiety.numpy
moiety.numpy.use(moiety.numpy.arena())
array = np.ones(1 << 20)
child = os.fork()
if child == 0:
    print(array.sum() == 1 << 20)
    sums = [np.ones(n).sum() == n for n in (10, 511, 512, 513, 1 << 20)]
    grown = np.zeros(1000)
    grown.resize(1 << 20)
    print(all(sums), grown.sum())
    del array
    try:
        moiety.numpy.empty_pinned(10)
    except moiety.Error:
        print("Error", flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], array.sum() == 1 << 20)
""")
    assert done.stdout == "True\nTrue 0.0\nError\n0 True\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_has_no_pinned_memory_but_the_handlers():
    done = run_program("""
import os, moiety, moiety.numpy
with moiety.HostArena() as arena:
    block = arena.alloc(1 << 20)
    view = memoryview(block)
    view[0] = 7
    for use in (lambda: None, lambda: moiety.numpy.handler(arena)):
        kept = use()
        child = os.fork()
        if child == 0:
            os._exit(view[0])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    del kept, view, block
""")
    assert done.stdout == f"{-signal.SIGSEGV}\n7\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_workers_that_are_forked_inside_pinned_compute():
    done = run_program("""
import multiprocessing, numpy as np, moiety.numpy
def work(count):
    return float(np.ones(count).sum())
with moiety.numpy.pinned():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        print(workers.map(work, [10, 512, 100_000]))
""")
    assert done.stdout == "[10.0, 512.0, 100000.0]\n", done.stderr
