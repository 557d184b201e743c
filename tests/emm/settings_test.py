# SPDX-License-Identifier: Apache-2.0
"""Limits, reservations and sizes of pools and arenas that live."""

import binade
import pytest
from support import MIB


@pytest.fixture(params=["driver", "mapped", "arena"])
def space(request):
    options = {"limit_bytes": 64 * MIB, "wait_ms": 0}
    with (binade.HostArena(touch_threads=1, **options)
          if request.param == "arena" else
          binade.Pool(memory=request.param, **options)) as space:
        yield space


def test_limit_is_raised_and_lowered(space):
    assert space.limit_bytes == 64 * MIB
    with pytest.raises(MemoryError):
        space.alloc(100 * MIB)
    space.set_limit(256 * MIB)
    assert space.limit_bytes == 256 * MIB
    space.alloc(100 * MIB, binade.DONE).free()
    space.set_limit(limit_bytes=32 * MIB)
    assert space.limit_bytes == 32 * MIB
    with pytest.raises(MemoryError):
        space.alloc(100 * MIB)


def test_limit_of_nothing_is_what_there_is(space):
    space.set_limit(0)
    assert space.limit_bytes > 64 * MIB


@pytest.mark.parametrize("limit, kind, words", [
    (1, binade.Error, "2 MiB"), (1 << 60, binade.Error, "16 times"),
    (-1, (ValueError, OverflowError), None), ("64M", TypeError, None),
    (None, TypeError, None)])
def test_a_limit_that_cannot_be_changes_nothing(space, limit, kind, words):
    with pytest.raises(kind, match=words):
        space.set_limit(limit)
    assert space.limit_bytes == 64 * MIB


def test_sizes(space):
    assert space.used_bytes() == space.total_bytes() == 0
    block = space.alloc(5 * MIB)
    assert space.used_bytes() >= 5 * MIB
    assert space.total_bytes() >= space.used_bytes()
    block.free()
    assert space.used_bytes() == 0


def test_reserve(space):
    space.reserve(20 * MIB)
    reserved = space.total_bytes()
    assert 20 * MIB <= reserved <= 64 * MIB
    space.reserve(nbytes=20 * MIB)
    assert space.total_bytes() == reserved
    assert space.trim() == reserved and space.total_bytes() == 0
    with pytest.raises(MemoryError):
        space.reserve(66 * MIB)


def test_peaks_begin_anew(space):
    space.reserve(20 * MIB)
    space.trim()
    assert space.stats()["reserved_bytes.all.peak"] >= 20 * MIB
    space.reset_peaks()
    assert space.stats()["reserved_bytes.all.peak"] == 0


def test_closed(space):
    space.close()
    for call in (lambda: space.set_limit(0), lambda: space.reserve(1),
                 space.reset_peaks, space.used_bytes, space.total_bytes,
                 lambda: space.limit_bytes):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_one_class_has_all_errors(space):
    with pytest.raises(binade.Error) as raised:
        space.alloc(100 * MIB)
    assert isinstance(raised.value, MemoryError)
    assert raised.type is binade.OutOfMemoryError
