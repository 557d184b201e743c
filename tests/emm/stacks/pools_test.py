# SPDX-License-Identifier: Apache-2.0
"""moiety.Pools: of the devices that there are, and of several on the stand-in."""

import threading

import pytest

import moiety
from support import run_program

MIB = 1 << 20
DEVICES = moiety.probe()["device_count"]

settings_of_the_standin = pytest.mark.skipif(
    not moiety.probe()["is_standin"], reason="settings of the stand-in")


def run_with_devices(text, count=2, **environment):
    ended = run_program(text, MOIETY_STANDIN_DEVICES=str(count), **environment)
    assert not ended.returncode, ended.stderr
    return ended.stdout.split()


def test_a_pool_is_made_when_it_is_asked_for():
    with moiety.Pools() as pools:
        assert pools.devices == tuple(range(DEVICES))
        assert len(pools) == DEVICES
        assert list(pools) == []
        assert pools[0] is pools[0]
        assert list(pools) == [pools[0]]


def test_options_are_those_of_pools():
    with moiety.Pools(limit=64 * MIB, memory="mapped") as pools:
        assert pools[0].memory == "mapped"
        assert pools[0].limit == 64 * MIB
    with pytest.raises(TypeError, match="no option of Pools"):
        moiety.Pools(device=0)
    with pytest.raises(TypeError, match="no option of Pools"):
        moiety.Pools(context=0)


@pytest.mark.parametrize("options, kind, words", [
    ({"limit_bytes": 8 << 30}, TypeError, "limit_bytes"),
    ({"limit": "8 GiB"}, ValueError, "limit is '8 GiB'"),
    ({"no_option": 1}, TypeError, "no_option"),
    ({"memory": "x"}, ValueError, "memory is 'x'"),
    ({"limit": 1}, moiety.Error, "limit is 1"),
    ({"wait_ms": -1}, OverflowError, "-1"),
    ({"peers": 5, "first_segment_bytes": 3}, moiety.Error, "first_segment")])
def test_options_are_looked_at_at_once(options, kind, words):
    with pytest.raises(kind, match=words):
        moiety.Pools(**options)


@pytest.mark.parametrize("devices, kind", [
    ([DEVICES], ValueError), ([-1], ValueError), ([], ValueError),
    (["0"], TypeError), (0, TypeError)])
def test_devices_that_are_none(devices, kind):
    with pytest.raises(kind):
        moiety.Pools(devices)


@pytest.mark.parametrize("device, kind", [
    (DEVICES, IndexError), (-1, IndexError), ("0", TypeError),
    (None, TypeError)])
def test_a_device_without_a_pool(device, kind):
    with moiety.Pools() as pools, pytest.raises(kind):
        pools[device]


def test_a_limit_for_all_that_are_there_and_that_come():
    with moiety.Pools() as pools:
        pools.set_limit(128 * MIB)
        assert pools[0].limit == 128 * MIB
        pools.set_limit(64 * MIB)
        assert pools[0].limit == 64 * MIB
        pools.set_limit("96MiB")
        assert pools[0].limit == pools.limit == 96 * MIB
        with pytest.raises(ValueError, match="limit is '1 GiB'"):
            pools.set_limit("1 GiB")
        assert pools.limit == 96 * MIB


@pytest.mark.parametrize("options", [
    {"devices": [0]}, {"limit": 64 * MIB}, {"wait_ms": 1}])
def test_pools_that_are_there_have_their_options(options):
    with moiety.Pool() as pool:
        with pytest.raises(TypeError, match="made already"):
            moiety.Pools(pools=[pool], **options)
        with moiety.Pools(pools=[pool]) as pools:
            assert pools[0] is pool and pools.limit == 0
            assert pools.trim("1G") == 0
        assert pool.is_open


def test_sums_and_numbers_by_device():
    with moiety.Pools() as pools:
        assert pools.used_bytes == pools.total_bytes == 0
        block = pools[0].alloc(MIB)
        assert pools.used_bytes == pools[0].used_bytes >= MIB
        assert pools.stats()[0] == pools[0].stats()
        del block
        pools.trim(wait=True)
        assert pools.total_bytes == 0


def test_close():
    pools = moiety.Pools()
    block = pools[0].alloc(100)
    assert pools.is_open
    assert pools.close() == 1 and pools.close() == 0
    assert not pools.is_open and "closed" in repr(pools)
    with pytest.raises(ValueError, match="closed"):
        pools[0].alloc(100)
    with pytest.raises(ValueError, match="closed"):
        with pools:
            pass
    del block


def test_close_before_any_was_made():
    pools = moiety.Pools()
    pools.close()
    with pytest.raises(ValueError, match="closed"):
        pools[0]


def test_close_that_is_refused_can_be_tried_again():
    pools = moiety.Pools()
    refusals = []

    def added(segment):
        try:
            pools.close()
        except moiety.Error as error:
            refusals.append(error.status)

    pools[0].watch_segments(added)
    pools[0].alloc(100)
    assert refusals == ["E_IN_USE"]
    pools.close()


def test_pools_that_are_there_already(pool):
    pools = moiety.Pools(pools=[pool])
    assert pools[0] is pool and pools.devices == (0,)
    assert pools.close() == 0 and pool.is_open
    with pytest.raises(ValueError, match="two pools are of device 0"):
        moiety.Pools(pools=[pool, pool])
    with pytest.raises(ValueError, match="devices is empty"):
        moiety.Pools(pools=[])
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.Pools(pools=[5])


def test_threads_make_one_pool():
    with moiety.Pools() as pools:
        found = []
        threads = [threading.Thread(target=lambda: found.append(pools[0]))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(found) == {pools[0]}


@settings_of_the_standin
def test_a_pool_for_each_device():
    assert run_with_devices("""
        import moiety
        with moiety.Pools(limit=64 << 20) as pools:
            print(len(pools), pools[1].device, pools[0].device)
            blocks = [pool.alloc(1 << 20) for pool in pools]
            print(pools.used_bytes >> 20, sorted(pools.stats()))
            try:
                pools[1].alloc(65 << 20)
            except moiety.OutOfMemoryError as error:
                print(error.status)
        """) == ["2", "1", "0", "2", "[0,", "1]", "E_TOO_LARGE"]


@settings_of_the_standin
def test_some_of_the_devices():
    assert run_with_devices("""
        import moiety
        with moiety.Pools([2, 1, 2]) as pools:
            print(*pools.devices, pools[2].device)
            try:
                pools[0]
            except IndexError as error:
                print("none")
        """, count=3) == ["2", "1", "2", "none"]


PEERS = """
    import ctypes, os
    import moiety
    driver = ctypes.CDLL(os.environ["MOIETY_DRIVER"])

    class Location(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_int), ("id", ctypes.c_int)]

    with moiety.Pools(memory="mapped", peers={peers}) as pools:
        block = pools[0].alloc(1 << 20)
        for device in range(2):
            flags = ctypes.c_ulonglong()
            assert not driver.cuMemGetAccess(
                ctypes.byref(flags), ctypes.byref(Location(1, device)),
                ctypes.c_uint64(block.address))
            print(flags.value)
    """


@settings_of_the_standin
def test_mapped_memory_is_accessible_to_the_other_devices():
    assert run_with_devices(PEERS.format(peers=True)) == ["3", "3"]
    assert run_with_devices(PEERS.format(peers=False)) == ["3", "0"]


@settings_of_the_standin
def test_devices_that_cannot_access_each_other_have_pools_all_the_same():
    assert run_with_devices(PEERS.format(peers=True), MOIETY_STANDIN_PEERS="0"
                            ) == ["3", "0"]


@settings_of_the_standin
def test_the_current_devices_pool():
    assert run_with_devices("""
        import ctypes, os
        import moiety
        driver = ctypes.CDLL(os.environ["MOIETY_DRIVER"])
        with moiety.Pools() as pools:
            try:
                pools.current()
            except moiety.Error as error:
                print(error.status)
            context = ctypes.c_void_p()
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
            driver.cuCtxSetCurrent(context)
            print(pools.current().device)
        """) == ["E_INVALID", "1"]


def test_the_default_pools_are_the_same_for_all():
    pools = moiety.pools(limit=256 * MIB)
    assert moiety.pools() is pools
    assert pools[0].limit == 256 * MIB
    assert moiety.pools(128 * MIB) is pools
    assert pools[0].limit == 128 * MIB
    pools.set_limit(None)


def test_the_default_pools_are_not_closed():
    pools = moiety.pools()
    with pytest.raises(moiety.UnsupportedError, match="trim"):
        pools.close()
    with pytest.raises(moiety.UnsupportedError):
        with pools:
            pass
    assert pools.is_open and moiety.pools() is pools
    with pytest.raises(IndexError):
        pools[99]


def test_a_default_pool_replaces_one_whose_context_is_lost():
    assert run_with_devices("""
        import moiety
        pools = moiety.pools(limit=256 << 20)
        lost = pools[0]
        block = lost.alloc(1000)
        lost.context_lost()
        print(pools[0] is lost, pools[0].limit >> 20)
        pools[0].alloc(1000).free()
        block.free()
        """) == ["False", "256"]
