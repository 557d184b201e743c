# SPDX-License-Identifier: Apache-2.0
"""Limits, reservations and sizes of pools and arenas that live."""

import gc
import re
import weakref

import moiety
import pytest
from support import MIB


@pytest.fixture(params=["driver", "mapped", "arena"])
def space(request):
    options = {"limit": 64 * MIB, "wait_ms": 0}
    with (moiety.HostArena(touch_threads=1, **options)
          if request.param == "arena" else
          moiety.Pool(memory=request.param, **options)) as space:
        yield space


def test_limit_is_raised_and_lowered(space):
    assert space.limit == 64 * MIB
    with pytest.raises(MemoryError):
        space.alloc(100 * MIB)
    space.set_limit(256 * MIB)
    assert space.limit == 256 * MIB
    space.alloc(100 * MIB, moiety.DONE).free()
    space.set_limit(limit=32 * MIB)
    assert space.limit == 32 * MIB
    with pytest.raises(MemoryError):
        space.alloc(100 * MIB)


def test_limit_of_nothing_is_what_there_is(space):
    for nothing in (0, None, "0"):
        space.set_limit("64MiB")
        assert space.limit == 64 * MIB
        space.set_limit(nothing)
        assert space.limit > 64 * MIB


@pytest.mark.parametrize("text, nbytes", [
    ("67108864", 64 * MIB), ("65536K", 64 * MIB), ("65536KiB", 64 * MIB),
    ("64M", 64 * MIB), ("64MiB", 64 * MIB), ("1G", 1 << 30),
    ("1GiB", 1 << 30)])
def test_a_limit_is_text_as_in_the_variable(text, nbytes):
    with moiety.Pool(limit=text) as pool, moiety.HostArena(limit=text) as arena:
        assert pool.limit == arena.limit == nbytes
        tenant = pool.tenant(budget=text)
        assert tenant.budget == nbytes
        tenant.budget = "1K"
        assert tenant.budget == 1024


@pytest.mark.parametrize("limit, kind, words", [
    (1, moiety.Error, "2 MiB"), (1 << 60, moiety.Error, "16 times"),
    (-1, (ValueError, OverflowError), None), ("64 M", ValueError, "64 M"),
    ("", ValueError, "8GiB"), ("8GB", ValueError, "8GB"),
    ("-1", ValueError, "limit is '-1'"), (str(1 << 64), ValueError, "limit"),
    ("99999999999GiB", ValueError, "limit"), ("\ud800", ValueError, "limit"),
    (1.5, TypeError, "limit is 1.5"), (True, TypeError, "limit is True")])
def test_a_limit_that_cannot_be_changes_nothing(space, limit, kind, words):
    with pytest.raises(kind, match=words):
        space.set_limit(limit)
    assert space.limit == 64 * MIB


def test_sizes(space):
    assert space.used_bytes == space.total_bytes == 0
    block = space.alloc(5 * MIB)
    assert space.used_bytes >= 5 * MIB
    assert space.total_bytes >= space.used_bytes
    block.free()
    assert space.used_bytes == 0


def test_reserve(space):
    space.reserve("20MiB")
    assert space.trim("16M") <= 20 * MIB and space.total_bytes >= 16 * MIB
    space.reserve(20 * MIB)
    reserved = space.total_bytes
    assert 20 * MIB <= reserved <= 64 * MIB
    space.reserve(nbytes=20 * MIB)
    assert space.total_bytes == reserved
    assert space.trim() == reserved and space.total_bytes == 0
    with pytest.raises(MemoryError):
        space.reserve(66 * MIB)


def test_peaks_begin_anew(space):
    space.reserve(20 * MIB)
    space.trim()
    assert space.stats().reserved_bytes_peak >= 20 * MIB
    space.reset_peaks()
    assert space.stats().reserved_bytes_peak == 0


def test_closed(space):
    space.close()
    for call in (lambda: space.set_limit(0), lambda: space.reserve(1),
                 space.reset_peaks, lambda: space.used_bytes,
                 lambda: space.total_bytes, lambda: space.limit):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_unused_memory_goes_behind_queued_work(space):
    space.reserve(20 * MIB)
    reserved = space.total_bytes
    assert space.trim(wait=True) == reserved and space.total_bytes == 0


def test_each_object_says_what_it_is(space):
    block, tenant = space.alloc(5000), space.tenant("batch")
    kind = "HostBlock" if isinstance(space, moiety.HostArena) else "Block"
    said = f"<moiety.{kind} of 5000 bytes at 0x[0-9a-f]+"
    assert re.fullmatch(f"{said}>", repr(block))
    assert repr(block).endswith(f"{block.address:#x}>")
    block.free()
    assert re.fullmatch(f"{said}, freed>", repr(block))
    assert "device 0" in repr(space) and "closed" not in repr(space)
    assert repr(tenant).endswith(f" of {space!r}>")
    space.close()
    assert repr(space).endswith(", closed>")


def test_weak_references_end_with_the_object():
    told = []
    pool = moiety.Pool()
    arena = moiety.HostArena(touch_threads=1)
    objects = {"pool": pool, "arena": arena, "block": pool.alloc(512),
               "host block": arena.alloc(512), "tenant": pool.tenant("batch")}
    weak = {name: weakref.ref(one, lambda _, name=name: told.append(name))
            for name, one in objects.items()}
    assert all(weak[name]() is one for name, one in objects.items())
    for name in ("block", "host block", "tenant"):
        del objects[name]
        assert weak[name]() is None and told[-1] == name
    del objects, pool, arena
    gc.collect()
    assert sorted(told) == sorted(weak)


# A block that dies while its pool tells of a segment ends later; a weak
# reference sees it go at once.
def test_weak_references_see_what_goes_while_a_pool_tells():
    pool = moiety.Pool()
    held = [pool.alloc(512)]
    weak = weakref.ref(held[0])
    seen = []

    def added(segment):
        held.clear()
        seen.append(weak())
    with pool.watch_segments(added):
        pass
    assert seen == [None] and pool.used_bytes == 0


def test_host_blocks_are_pinned():
    with moiety.HostArena(touch_threads=1) as arena:
        assert arena.alloc(512).is_pinned is True


def test_one_class_has_all_errors(space):
    with pytest.raises(moiety.Error) as raised:
        space.alloc(100 * MIB)
    assert isinstance(raised.value, MemoryError)
    assert raised.type is moiety.OutOfMemoryError
