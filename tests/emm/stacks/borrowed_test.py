# SPDX-License-Identifier: Apache-2.0
"""Pools that another part of the program has made with the same library, as
moiety.torch does: here through its C functions."""

import ctypes
import gc
from pathlib import Path

import fake_frameworks
import pytest

import moiety

cupy = fake_frameworks.install_cupy()

import moiety.cupy  # noqa: E402

MIB = 1 << 20
LIBRARY = ctypes.CDLL(str(Path(moiety.__file__).with_name("libmoiety.so.0")))
ANY = ctypes.c_void_p(moiety.ANY)


def call(name, *arguments):
    status = getattr(LIBRARY, name)(*arguments)
    assert status == 0, (name, status)


class CPool:
    """A pool, and a block of it."""

    def __init__(self):
        self.pool, self.address = ctypes.c_void_p(), ctypes.c_uint64()
        call("moiety_pool_create", None, ctypes.byref(self.pool))
        call("moiety_alloc", self.pool, ctypes.c_size_t(1000), ANY,
             ctypes.byref(self.address))

    def free(self):
        call("moiety_free", self.pool, self.address, ANY)

    def end(self):
        call("moiety_pool_destroy", self.pool, None)


@pytest.fixture
def theirs():
    made = CPool()
    yield made
    gc.collect()
    made.free()
    made.end()


@pytest.fixture
def borrowed(theirs):
    return moiety.pool_of(theirs.address.value)


def test_it_is_found_by_an_address(theirs, borrowed):
    assert isinstance(borrowed, moiety.Pool)
    assert borrowed.device == 0 and borrowed.is_open
    assert "borrowed" in repr(borrowed)
    assert moiety.pool_of(theirs.address.value) is borrowed


def test_both_sides_have_one_limit_and_the_same_numbers(theirs, borrowed):
    block = borrowed.alloc(MIB)
    assert borrowed.stats().allocation_current == 2
    assert borrowed.owns(theirs.address.value)
    assert moiety.pool_of(block.address) is borrowed
    before = borrowed.limit
    borrowed.set_limit(64 * MIB)
    with pytest.raises(moiety.OutOfMemoryError):
        borrowed.alloc(65 * MIB)
    borrowed.set_limit(before)
    del block


def test_it_is_not_pythons_to_close(borrowed):
    for close in (borrowed.close, lambda: borrowed.__exit__(None, None, None)):
        with pytest.raises(moiety.Error) as caught:
            close()
        assert caught.value.status == "E_UNSUPPORTED"
    assert borrowed.is_open


def test_it_stays_when_nobody_refers_to_it(theirs):
    moiety.pool_of(theirs.address.value).alloc(1000)
    gc.collect()
    assert moiety.pool_of(theirs.address.value).stats().allocation_current == 1


def test_what_is_told_of_its_segments_stays(theirs):
    told = []
    moiety.pool_of(theirs.address.value).watch_segments(told.append)
    gc.collect()
    assert len(told) == 1
    moiety.pool_of(theirs.address.value).alloc(64 * MIB)
    assert len(told) >= 1


def test_a_framework_takes_memory_of_it(theirs, borrowed):
    pointer = moiety.cupy.MemoryPool(borrowed).malloc(1000)
    assert borrowed.owns(pointer.ptr)
    del pointer


def test_a_pool_that_came_where_another_was():
    for _ in range(3):
        made = CPool()
        found = moiety.pool_of(made.address.value)
        assert found.stats().allocation_current == 1
        made.free()
        made.end()


def test_the_end_of_theirs_leaves_pythons_own(pool):
    block = pool.alloc(1000)
    made = CPool()
    assert moiety.pool_of(made.address.value) is not pool
    made.free()
    made.end()
    assert moiety.pool_of(block.address) is pool
    assert moiety.pool_of(12345) is None
    del block


def test_host_memory_is_of_no_pool_for_arrays(arena):
    block = arena.alloc(1000)
    assert moiety.pool_of(block.address) is None
    del block


@pytest.mark.parametrize("address", [-1, 1 << 64, "5", None, 1.5])
def test_what_is_no_address(address):
    with pytest.raises((TypeError, OverflowError)):
        moiety.pool_of(address)


def test_the_processs_own_pool_is_one_for_c_and_python():
    pool, address = ctypes.c_void_p(), ctypes.c_uint64()
    ours = moiety._native._default_pool(0)
    call("moiety_default_pool", 0, ctypes.byref(pool))
    call("moiety_alloc", pool, ctypes.c_size_t(1000), ANY,
         ctypes.byref(address))
    assert moiety.pool_of(address.value) is ours
    assert moiety._native._default_pool(0) is ours
    call("moiety_free", pool, address, ANY)
    with pytest.raises(moiety.Error) as caught:
        ours.close()
    assert caught.value.status == "E_UNSUPPORTED"
    for device in (63, 64, 1 << 31):
        with pytest.raises(moiety.Error):
            moiety._native._default_pool(device)
    with pytest.raises(OverflowError):
        moiety._native._default_pool(-1)
