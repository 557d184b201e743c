# SPDX-License-Identifier: Apache-2.0
"""Host arenas: real memory, also on the stand-in."""

import moiety
import pytest

from support import run_program

np = pytest.importorskip("numpy")
MIB = 1 << 20


def test_numpy_sees_the_bytes_and_keeps_the_block(arena):
    block = arena.alloc(5000)
    array = np.asarray(block)
    address = block.address
    assert array.dtype == np.uint8 and array.shape == (5000,)
    array[:] = 7
    del block
    assert arena.stats().allocation_current == 1
    assert array.sum() == 7 * 5000
    assert array.__array_interface__["data"][0] == address
    del array
    assert arena.stats().allocation_current == 0


def test_bytes_are_a_copy(arena):
    block = arena.alloc(5000)
    np.asarray(block)[:] = 7
    copy = bytes(block)
    np.asarray(block)[:] = 8
    assert copy == b"\7" * 5000
    block.free()
    with pytest.raises(ValueError, match="freed"):
        bytes(block)


def test_memory_of_a_device_has_no_bytes_here(pool):
    with pytest.raises(TypeError, match="on the device"):
        bytes(pool.alloc(1 << 20))


def test_device_address(arena):
    block = arena.alloc(5000)
    assert arena.device_address(block.address + 8) == block.device_address + 8
    with pytest.raises(moiety.Error) as raised:
        arena.device_address(0x1000)
    assert raised.value.status == "E_FOREIGN"


def test_reserve_tells_how_far_it_is(arena):
    said = []
    arena.reserve(8 * MIB, threads=2, progress=lambda *now: said.append(now))
    assert said[-1] == (said[-1][1], said[-1][1])
    stats = arena.stats()
    assert stats.reserved_bytes_current >= 8 * MIB
    host = stats.host
    assert host.pinned_bytes == stats.reserved_bytes_current
    assert host.pages_asked == host.pages_near + host.pages_elsewhere
    assert host.touch_threads >= 1 and host.nodes and host.stage_ns
    assert "node" in arena.report()


def test_what_progress_drops_is_freed(arena):
    blocks = [arena.alloc(5000), arena.alloc(5000)]

    def drop(done_bytes, total_bytes):
        if done_bytes and blocks:
            blocks.pop().free(moiety.DONE)
            blocks.clear()

    arena.reserve(8 * MIB, progress=drop)
    assert not blocks
    assert arena.stats().allocation_current == 0


def test_progress_that_raises(arena):
    def refuse(done_bytes, total_bytes):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        arena.reserve(8 * MIB, progress=refuse)


def test_progress_that_raises_ends_the_call_after_its_piece():
    with moiety.HostArena(first_segment_bytes=2 * MIB,
                          largest_segment_bytes=2 * MIB) as arena:
        def refuse(done_bytes, total_bytes):
            if done_bytes >= 4 * MIB:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            arena.reserve(32 * MIB, progress=refuse)
        assert arena.total_bytes == 4 * MIB
        arena.reserve(8 * MIB)
        assert arena.total_bytes == 8 * MIB


def test_options_of_pieces():
    with moiety.HostArena(max_block_bytes="1MiB", stall_ms=2) as arena:
        arena.reserve(6 * MIB)
        assert arena.total_bytes == 6 * MIB
    for wrong in ({"stall_ms": 99999}, {"max_block_bytes": "1GiB", "limit": "8MiB"}):
        with pytest.raises(moiety.Error, match=next(iter(wrong))):
            moiety.HostArena(**wrong)


def test_trim_and_close():
    arena = moiety.HostArena(first_segment_bytes=4 * MIB)
    block = arena.alloc(1000)
    assert arena.trim() == 0
    block.free(moiety.DONE)
    assert arena.trim() == 4 * MIB
    block = arena.alloc(1000)
    assert arena.close() == 1 and not block.is_live
    with pytest.raises(ValueError):
        np.asarray(block.__array_interface__)
    with pytest.raises(ValueError):
        block.device_address


KEEP = """
    import moiety, numpy as np
    def views():
        with moiety.HostArena() as arena:
            one = np.asarray(arena.alloc(1 << 20))
            block = arena.alloc(1 << 20)
            two = np.from_dlpack(block)
            np.asarray(block)[:] = one[:] = 3
            del block
            unseen = arena.alloc(1 << 20)
            assert arena.close() == 1
            assert not unseen.is_live and one.base.obj.is_live
        return one, two
    one, two = views()
    assert one.sum() == two.sum() == 3 << 20
    part = one[5:9]
    del one, two
    assert part.sum() == 12
    del part
    import moiety.numpy
    made = moiety.numpy.empty_pinned(1000)
    moiety.numpy.arena().close()
    made[:] = 2
    assert made.sum() == 2000
    again = moiety.numpy.empty_pinned(1000)
    assert made.sum() == 2000
    freed = moiety.HostArena()
    with freed.alloc(4096) as block:
        seen = np.asarray(block)
    freed.close()
    assert seen.nbytes == 4096 and seen.sum() is not None
    print("well")
"""


def test_arrays_keep_their_bytes_when_their_arena_is_closed():
    ended = run_program(KEEP)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "well\n", "")


def is_mapped(address):
    with open("/proc/self/maps", encoding="ascii") as lines:
        ranges = [[int(end, 16) for end in line.split()[0].split("-")]
                  for line in lines]
    return any(first <= address < end for first, end in ranges)


def test_what_was_kept_goes_with_the_last_array():
    arena = moiety.HostArena(first_segment_bytes=4 * MIB)
    arrays = [np.asarray(arena.alloc(1000)) for _ in range(3)]
    address = arrays[0].base.obj.address
    assert arena.close() == 0 and not arena.is_open
    assert arena.close() == 0
    with pytest.raises(ValueError, match="closed"):
        arena.alloc(1)
    del arrays[1:]
    assert is_mapped(address) and arrays[0].base.obj.is_live
    del arrays[:]
    assert not is_mapped(address)


def test_capsule_keeps_it_open():
    arena = moiety.HostArena()
    capsule = moiety._native._capsule_of(arena)
    with pytest.raises(moiety.Error) as raised:
        arena.close()
    assert raised.value.status == "E_IN_USE"
    del capsule
    assert arena.close() == 0


def test_dlpack_is_of_pinned_memory(arena):
    block = arena.alloc(1000)
    assert block.__dlpack_device__() == (3, 0)
    assert "dltensor" in repr(block.__dlpack__())


@pytest.mark.parametrize("options, error", [
    ({"place": "best"}, ValueError),
    ({"huge": "3M"}, ValueError),
    ({"place": (256,)}, ValueError),
    ({"place": 1.5}, TypeError), ({"place": True}, TypeError),
    ({"place": (-1,)}, OverflowError),
    ({"place": -1}, OverflowError), ({"place": []}, ValueError),
    ({"place": 255}, moiety.Error),
    ({"place": "interleave"}, ValueError), ({"place": "interleave:"}, ValueError),
    ({"place": "interleave:0+"}, ValueError),
    ({"place": "interleave:0,1"}, ValueError),
    ({"place": "interleave:256"}, ValueError),
    ({"place": "interleave:255"}, moiety.Error),
    ({"limit": "8 GiB"}, ValueError), ({"limit": 1.5}, TypeError),
    ({"write_combined": True, "read_only": True}, moiety.Error),
    ({"by_driver": True, "read_only": True}, moiety.Error),
    ({"touch_threads": 65}, moiety.Error),
    ({"device": 99}, moiety.Error),
])
def test_options_that_are_none(options, error):
    with pytest.raises(error):
        moiety.HostArena(**options)


@pytest.mark.parametrize("options", [
    {"place": "caller"}, {"place": [0]}, {"place": 0},
    {"place": "nearest"},
    {"place": "interleave:0"}, {"write_combined": True},
    {"by_driver": True},
    {"read_only": True}, {"limit": 64 * MIB},
    {"limit": "64MiB"}, {"limit": None}])
def test_options_that_work(options):
    with moiety.HostArena(**options) as arena:
        np.asarray(arena.alloc(4096))[:] = 1


def test_segments_for_a_transport(arena):
    told = []
    with arena.watch_segments(lambda one: told.append(one["id"])):
        arena.reserve(8 * MIB)
        segments = arena.segments()
        assert sorted(told) == sorted(one["id"] for one in segments)
        assert sum(one["nbytes"] for one in segments) == 8 * MIB
    block = arena.alloc(4096)
    with arena.hold(block):
        assert arena.trim() < 8 * MIB
        assert sum(one["hold_count"] for one in arena.segments()) == 1
        block.free()
        arena.trim()
        assert len(arena.segments()) == 1
    arena.trim()
    assert not arena.segments()


def test_limit_is_out_of_pinned_memory():
    with moiety.HostArena(limit=8 * MIB, wait_ms=1) as arena:
        kept = arena.alloc(6 * MIB)
        with pytest.raises(moiety.OutOfMemoryError) as raised:
            arena.alloc(6 * MIB)
        assert raised.value.status == "E_NO_PINNED_MEMORY"
        assert raised.value.report["live_count"] == 1
        del kept


def test_pinning_is_counted(pool):
    from moiety import _native
    array = np.ones(MIB, dtype=np.uint8)
    where = (array.ctypes.data, array.nbytes)
    pool.alloc(1)
    block = moiety.HostArena().alloc(1)  # its context is current in no thread
    del block
    with pytest.raises(moiety.Error) as raised:
        _native.unpin(*where)
    assert raised.value.status == "E_FOREIGN"
