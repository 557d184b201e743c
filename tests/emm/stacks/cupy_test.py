# SPDX-License-Identifier: Apache-2.0
"""moiety.cupy, with modules of CuPy's interface (fake_frameworks.py)."""

import ctypes
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import fake_frameworks
import pytest

import moiety
from support import run_program

cupy = fake_frameworks.install_cupy()

import moiety.cupy  # noqa: E402

MIB = 1 << 20
PER_THREAD = moiety.PER_THREAD


@pytest.fixture
def where():
    """What is current in CuPy."""
    yield cupy.cuda.where
    cupy.cuda.where.__init__()


@pytest.fixture(params=["called", "filled"])
def made(pool, where, request, monkeypatch):
    """With CuPy's types in Python, whose constructors are called, and with types
    as Cython makes them."""
    is_filled = request.param == "filled"
    if is_filled:
        types = {"UnownedMemory": fake_frameworks.UnownedMemoryInC,
                 "MemoryPointer": fake_frameworks.MemoryPointerInC}
        for name, kind in types.items():
            monkeypatch.setattr(cupy.cuda.memory, name, kind)
    made = moiety.cupy.MemoryPool(pool)
    assert made.malloc.__self__.is_direct is is_filled
    return made


def test_memory_is_a_block_of_the_pool(pool, made):
    pointer = made.malloc(1000)
    assert type(pointer) is cupy.cuda.memory.MemoryPointer
    assert type(pointer.mem) is cupy.cuda.memory.UnownedMemory
    assert pointer.ptr == pointer.mem.ptr == pointer.mem._owner.address
    assert pool.owns(pointer.ptr)
    assert pointer.mem.size == 1000
    assert pointer.device_id == pointer.mem.device_id == 0
    assert pool.used_bytes >= 1000


def test_memory_goes_back_with_its_last_reference(pool, made):
    pointer = made.malloc(1000)
    view = fake_frameworks.MemoryPointer(pointer.mem, 100)
    del pointer
    assert pool.used_bytes
    del view
    assert not pool.used_bytes


def test_empty_memory_is_no_block(pool, made):
    pointer = made.malloc(0)
    assert pointer.ptr == pointer.mem.size == 0
    assert pointer.mem._owner is None
    assert pool.stats().allocation_allocated == 0


def types_that_look_filled():
    """As long as CuPy's types, with something else in them; and constructors that
    do not take what the allocator tries."""
    class Slots(fake_frameworks.BaseMemory):
        __slots__ = ("ptr", "size", "device_id", "_owner")
        __init__ = fake_frameworks.UnownedMemory.__init__

    class SlotsOfPointer:
        __slots__ = ("other", "ptr", "device_id", "mem")
        __init__ = fake_frameworks.MemoryPointer.__init__

    class Rounded(fake_frameworks.UnownedMemoryInC):
        __slots__ = ()

        def __init__(self, ptr, size, owner, device_id):
            super().__init__(ptr, size + 512, owner, device_id)

    class Marked(fake_frameworks.UnownedMemoryInC):
        __slots__ = ()

        def __init__(self, ptr, size, owner, device_id):
            super().__init__(ptr, size, owner, device_id)
            # In what is between two fields.
            ctypes.c_int.from_address(
                id(self) + object.__basicsize__ + 20).value = 1

    class Choosy(fake_frameworks.UnownedMemoryInC):
        __slots__ = ()

        def __init__(self, ptr, size, owner, device_id):
            if device_id:
                raise RuntimeError("no such device")
            super().__init__(ptr, size, owner, device_id)

    pointer = fake_frameworks.MemoryPointerInC
    return [(Slots, pointer), (Slots, SlotsOfPointer),
            (fake_frameworks.UnownedMemoryInC, SlotsOfPointer),
            (Rounded, pointer), (Marked, pointer), (Choosy, pointer)]


@pytest.mark.parametrize("memory, pointer", types_that_look_filled())
def test_types_with_other_bytes_are_called(pool, memory, pointer):
    malloc = moiety._native._CuPyAllocator(
        lambda device: pool, print, memory, pointer, lambda: 0,
        lambda: 0).malloc
    assert malloc.__self__.is_direct is False
    made = malloc(1000)
    assert type(made) is pointer and type(made.mem) is memory
    assert made.ptr == made.mem._owner.address
    assert pool.owns(made.ptr)
    del made
    assert pool.used_bytes == 0


def test_filled_objects_leave_no_reference(made):
    """Each of them takes and gives None, and the tuple that they are made with."""
    def counts():
        return [sys.getrefcount(one) for one in (
            cupy.cuda.memory.UnownedMemory, cupy.cuda.memory.MemoryPointer,
            malloc.__self__, *(() if is_immortal else (None, ())))]

    is_immortal = sys.version_info >= (3, 12)
    malloc = made.malloc
    made.malloc(1000)
    before = counts()
    for _ in range(100):
        malloc(1000)
        malloc(0)
    assert counts() == before


def test_it_is_for_the_current_stream(made, where, driver):
    stream = driver.stream()
    where.stream = stream.value
    assert made.malloc(1000).mem._owner.stream == stream.value


def test_a_stream_serves_itself_again_while_it_is_held(made, where, driver):
    stream = driver.stream()
    where.stream = stream.value
    with driver.held(stream):
        first = made.malloc(1000).ptr
        assert made.malloc(1000).ptr == first


def test_another_stream_waits_for_what_was_freed(made, where, driver):
    one, other = driver.stream(), driver.stream()
    where.stream = one.value
    with driver.held(one):
        first = made.malloc(1000).ptr
        where.stream = other.value
        assert made.malloc(1000).ptr != first


def test_it_is_freed_for_its_own_stream_whatever_is_current(made, where,
                                                            driver):
    one, other = driver.stream(), driver.stream()
    where.stream = one.value
    pointer = made.malloc(1000)
    address = pointer.ptr
    with driver.held(one):
        where.stream = other.value
        del pointer
        assert made.malloc(1000).ptr != address
        where.stream = one.value
        assert made.malloc(1000).ptr == address


def test_a_threads_own_stream_is_not_taken_for_anothers(made, where, driver):
    """Work of this thread's stream may use the array when another drops it."""
    where.stream = PER_THREAD
    kept, found = [made.malloc(1000)], []
    address = kept[0].ptr
    assert kept[0].mem._owner.stream == PER_THREAD

    def drop_and_take():
        kept.clear()
        found.append(made.malloc(1000).ptr)

    with driver.held(ctypes.c_void_p(PER_THREAD)):
        thread = threading.Thread(target=drop_and_take)
        thread.start()
        thread.join()
    assert found and found[0] != address
    assert made.used_bytes() == 0


def test_a_threads_own_stream_serves_it_again(made, where, driver):
    where.stream = PER_THREAD
    with driver.held(ctypes.c_void_p(PER_THREAD)):
        address = made.malloc(1000).ptr
        assert made.malloc(1000).ptr == address


def test_functions_in_python_do_as_well():
    ended = run_program(f"""
        import sys
        sys.path[:0] = {sys.path!r}
        import fake_frameworks
        fake = fake_frameworks.install_cupy(has_capsules=False)
        import moiety, moiety.cupy
        fake.cuda.where.stream = moiety.LEGACY
        block = moiety.cupy.MemoryPool(moiety.Pool()).malloc(100).mem._owner
        print(block.stream)
        """)
    assert ended.stdout == "1\n", ended.stderr


def test_what_cupy_raises_is_passed_on(pool, made, monkeypatch):
    def fail():
        raise RuntimeError("no device")

    allocator = moiety._native._CuPyAllocator(
        lambda device: pool, print, fake_frameworks.UnownedMemory,
        fake_frameworks.MemoryPointer, fail, fail)
    with pytest.raises(RuntimeError, match="no device"):
        allocator.malloc(100)
    with pytest.raises(RuntimeError, match="no device"):
        allocator.malloc(0)


def test_memory_that_cupy_does_not_take_goes_back(pool):
    def refuse(*arguments):
        raise RuntimeError("no memory object")

    allocator = moiety._native._CuPyAllocator(
        lambda device: pool, print, refuse, print, lambda: 0, lambda: 0)
    with pytest.raises(RuntimeError, match="no memory object"):
        allocator.malloc(100)
    assert not pool.used_bytes


@pytest.mark.parametrize("size, kind", [
    (-1, OverflowError), (1 << 64, OverflowError), (1.5, TypeError),
    (None, TypeError), ("5", TypeError)])
def test_sizes_that_are_none(made, size, kind):
    with pytest.raises(kind):
        made.malloc(size)


def test_out_of_memory_is_cupys_error_and_ours(where):
    with moiety.Pool(limit=64 * MIB) as pool:
        made = moiety.cupy.MemoryPool(pool)
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
            made.malloc(1 << 40)
        assert isinstance(caught.value, moiety.OutOfMemoryError)
        assert isinstance(caught.value, moiety.cupy.OutOfMemoryError)
        assert caught.value.status == "E_TOO_LARGE"
        assert str(1 << 40) in str(caught.value)
        assert isinstance(caught.value.__cause__, moiety.OutOfMemoryError)
        kept = [made.malloc(16 * MIB) for _ in range(4)]
        with pytest.raises(moiety.cupy.OutOfMemoryError) as caught:
            made.malloc(16 * MIB)
        assert caught.value.status == "E_NO_DEVICE_MEMORY"
        assert caught.value.report is not None
        del kept


def test_the_error_can_be_pickled(where):
    error = moiety.cupy.OutOfMemoryError(5, 6, 7)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is moiety.cupy.OutOfMemoryError
    assert str(copy) == str(error)


def test_a_pool_of_another_device_is_refused(made, where):
    where.device = 1
    with pytest.raises(ValueError, match="is of device 0"):
        made.malloc(100)
    with pytest.raises(ValueError, match="is of device 0"):
        made.used_bytes()


def test_a_closed_pool(where):
    pool = moiety.Pool()
    made = moiety.cupy.MemoryPool(pool)
    pointer = made.malloc(100)
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        made.malloc(100)
    del pointer  # its memory went with the pool


@pytest.mark.parametrize("source", [5, "pool", object()])
def test_what_is_no_pool(source):
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.cupy.MemoryPool(source)


def test_an_arena_is_no_pool_for_arrays(arena):
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.cupy.MemoryPool(arena)
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.cupy.MemoryPool(arena.tenant("one"))


def test_a_tenant_has_its_budget(pool, where):
    tenant = pool.tenant("arrays", budget=4 * MIB)
    made = moiety.cupy.MemoryPool(tenant)
    pointer = made.malloc(MIB)
    assert made.used_bytes() == tenant.stats().live_bytes >= MIB
    with pytest.raises(moiety.cupy.OutOfMemoryError) as caught:
        made.malloc(4 * MIB)
    assert caught.value.status == "E_BUDGET"
    made.set_limit(size=16 * MIB)
    assert made.get_limit() == tenant.budget == 16 * MIB
    made.malloc(4 * MIB)
    del pointer, made, tenant


def test_cupys_numbers(pool, made):
    pointer = made.malloc(MIB)
    assert made.used_bytes() == pool.used_bytes
    assert made.total_bytes() == pool.total_bytes
    assert made.free_bytes() == made.total_bytes() - made.used_bytes() > 0
    assert made.n_free_blocks() >= 1
    del pointer
    made.free_all_blocks()
    assert made.total_bytes() == made.n_free_blocks() == 0


def test_a_limit_by_size_and_by_fraction(pool, made):
    made.set_limit(size=256 * MIB)
    assert made.get_limit() == pool.limit == 256 * MIB
    made.set_limit(fraction=0.25)
    assert made.get_limit() == moiety.probe()["total_memory_bytes"] // 4
    made.set_limit()
    assert made.get_limit() > moiety.probe()["total_memory_bytes"] // 4


@pytest.mark.parametrize("arguments, text", [
    ({"size": -1}, "limit size out of range"),
    ({"fraction": 1.5}, "fraction out of range"),
    ({"fraction": -0.1}, "fraction out of range"),
    ({"size": 5, "fraction": 0.5}, "cannot be specified"),
])
def test_limits_that_are_none(made, arguments, text):
    with pytest.raises(ValueError, match=text):
        made.set_limit(**arguments)


def test_allocator_is_all_that_is_kept(where):
    pool = moiety.Pool()
    malloc = moiety.cupy.allocator(pool)
    reference = weakref.ref(pool)
    del pool
    assert malloc(100).ptr
    del malloc
    assert reference() is None  # without a collection of garbage


def test_enable_makes_it_the_allocator(where):
    made = moiety.cupy.enable(limit=512 * MIB)
    assert cupy.cuda.memory.get_allocator() == made.malloc
    assert made.get_limit() == 512 * MIB
    pointer = cupy.cuda.alloc(1000)
    assert moiety.pools()[0].owns(pointer.ptr)
    del pointer
    cupy.cuda.memory.set_allocator(None)
    del made
    moiety.pools().set_limit(None)


def test_enable_with_a_pool_and_pinned_memory(pool, arena, where):
    made = moiety.cupy.enable(pool, pinned=arena)
    device_pointer = cupy.cuda.alloc(100)
    pointer = cupy.cuda.pinned_memory.alloc_pinned_memory(1000)
    assert pool.owns(device_pointer.ptr) and arena.owns(pointer.ptr)
    assert pointer.size() == 1000
    cupy.cuda.memory.set_allocator(None)
    cupy.cuda.pinned_memory.set_pinned_memory_allocator(None)
    del device_pointer, pointer, made


def test_enable_refuses_a_limit_for_a_pool_that_is_named(pool):
    with pytest.raises(TypeError, match="set the limit of the pool"):
        moiety.cupy.enable(pool, limit=5)


def test_enable_within_using_allocator(pool, where):
    own = cupy.cuda.memory._thread_local
    own.allocator = print
    try:
        with pytest.raises(ValueError, match="using_allocator"):
            moiety.cupy.enable(pool)
    finally:
        own.allocator = None


def test_pinned_memory(arena):
    made = moiety.cupy.PinnedMemoryPool(arena)
    pointer = made.malloc(1000)
    assert arena.owns(pointer.ptr) and int(pointer.mem) == pointer.ptr
    assert made.used_bytes() >= 1000 and made.total_bytes() >= 4 * MIB
    del pointer
    gc.collect()
    assert made.used_bytes() == 0
    made.free_all_blocks()
    assert made.malloc(0).ptr == 0
    assert moiety.cupy.pinned_allocator(arena)(10).size() == 10
    with pytest.raises(TypeError, match="is no moiety.HostArena"):
        moiety.cupy.PinnedMemoryPool(5)


def test_pinned_memory_outlives_the_arenas_close():
    arena = moiety.HostArena()
    pointer = moiety.cupy.PinnedMemoryPool(arena).malloc(1000)
    assert arena.close() == 0
    del pointer


def test_capsules_of_another_signature_are_refused(pool):
    with pytest.raises(TypeError, match="neither callable nor a capsule"):
        moiety._native._CuPyAllocator(lambda device: pool, print, print, print,
                                      5, lambda: 0)
    with pytest.raises(TypeError):
        moiety._native._CuPyAllocator(print)


def test_without_cupy_it_says_what_to_install():
    ended = subprocess.run(
        [sys.executable, "-c", "import moiety.cupy"], capture_output=True,
        text=True, check=False)
    assert ended.returncode == 1
    assert "pip install cupy-cuda13x" in ended.stderr


def test_many_threads_allocate_and_free(pool, made):
    def work():
        kept = []
        for index in range(2000):
            kept.append(made.malloc(index % 3000 + 1))
            if len(kept) > 20:
                kept.pop(index % 20)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.used_bytes == 0
