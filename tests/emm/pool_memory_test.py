# SPDX-License-Identifier: Apache-2.0
"""Which memory a pool has: what was asked for, what the device has, and what
MOIETY_CONF says."""

import moiety
import moiety.ipc
import pytest
from support import MIB, run_program

SOURCES = {"driver": "cuMemAlloc", "mapped": "cuMemMap"}
NO_MAPPED_MEMORY = "cuMemGetAllocationGranularity:every=1:code=801"
REFUSED = "cuMemSetAccess:every=1:code=801"
NO_ANSWER = "cuMemGetAllocationGranularity:every=1:code=999"


@pytest.mark.parametrize("options, memory", [
    ({}, "mapped"),
    ({"memory": "driver"}, "driver"),
    ({"memory": "mapped"}, "mapped"),
    ({"memory": "auto"}, "mapped"),
    ({"memory": "driver", "exportable": True}, "driver"),
    ({"memory": "auto", "exportable": True}, "driver"),
    ({"memory": "auto", "exportable": False}, "mapped"),
    ({"memory": "mapped", "checked": True}, "mapped"),
    ({"memory": "mapped", "exportable": True}, "mapped"),
])
def test_what_was_asked_for(options, memory):
    with moiety.Pool(**options) as pool:
        assert pool.memory == memory
        assert pool.snapshot()["source"] == SOURCES[memory]
        assert f"{memory} memory>" in repr(pool)
        with pool.alloc(3 * MIB) as block:
            assert pool.owns(block.address)
    assert pool.memory == memory
    assert f"{memory} memory, closed>" in repr(pool)


def test_a_block_goes_where_two_were():
    """No more is reserved than what is live, which driver memory cannot."""
    reserved = {}
    for memory in SOURCES:
        with moiety.Pool(memory=memory) as pool:
            blocks = [pool.alloc(size * MIB, moiety.LEGACY)
                      for size in (32, 2, 32, 2)]
            blocks[0].free()
            blocks[2].free()
            large = pool.alloc(64 * MIB, moiety.LEGACY)
            stats = pool.stats()
            reserved[memory] = stats.reserved_bytes_peak
            assert (stats.mapped_moved_bytes > 0) == (memory == "mapped")
            assert large.is_live
    assert reserved["mapped"] == 68 * MIB < reserved["driver"]


@pytest.mark.parametrize("memory", SOURCES)
def test_out_of_memory_says_which_it_is(memory):
    with moiety.Pool(memory=memory, limit=8 * MIB, wait_ms=1) as pool:
        kept = pool.alloc(8 * MIB)
        with pytest.raises(moiety.OutOfMemoryError) as raised:
            pool.alloc(MIB)
        report = raised.value.report
        assert report["source"] == SOURCES[memory]
        assert f" segments of {SOURCES[memory]}; " in report["text"]
        assert kept.is_live


@pytest.mark.parametrize("memory", SOURCES)
def test_a_leak_says_which_it_is(memory):
    ended = run_program("""
        import sys
        import moiety
        pool = moiety.Pool(memory=sys.argv[1])
        print(hex(pool.alloc_raw(4096)))
        pool.close()
    """, memory, MOIETY_CONF="report_leaks:1")
    assert ended.returncode == 0
    assert ended.stderr == (f"moiety: 1 blocks of {SOURCES[memory]}, 4096 bytes, "
                            f"were not freed: {ended.stdout}")


@pytest.mark.parametrize("memory, error", [
    ("", ValueError), ("Mapped", ValueError), ("mapped\0", ValueError),
    ("cuMemMap", ValueError), ("\udc80", ValueError), (None, TypeError),
    (True, TypeError), (1, TypeError), (b"mapped", TypeError)])
def test_what_is_not_accepted(memory, error):
    with pytest.raises(error, match="accepted are 'driver', 'mapped' and "
                                    "'auto'"):
        moiety.Pool(memory=memory)


def test_it_cannot_be_changed(pool):
    with pytest.raises(TypeError, match="called before"):
        pool.__init__(memory="driver")
    assert pool.memory == "mapped"
    with pytest.raises(AttributeError):
        pool.memory = "driver"
    with pytest.raises(AttributeError):
        del pool.memory


def test_mapped_memory_has_no_handles_of_the_driver():
    with moiety.Pool(memory="mapped", exportable=True) as pool:
        with pool.alloc(MIB) as block:
            with pytest.raises(moiety.Error, match="moiety.ipc.send") as raised:
                moiety.ipc.export(block)
    assert raised.value.status == "E_UNSUPPORTED"


MAKE = """
    import sys
    import moiety
    try:
        with moiety.Pool(memory=sys.argv[1]) as pool:
            print(pool.memory, pool.snapshot()["source"])
    except moiety.Error as error:
        print(error.status)
"""


def made(memory, **environment):
    ended = run_program(MAKE, memory, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("faults, memory, found", [
    (NO_MAPPED_MEMORY, "auto", "driver cuMemAlloc"),
    (NO_MAPPED_MEMORY, "driver", "driver cuMemAlloc"),
    (NO_MAPPED_MEMORY, "mapped", "E_UNSUPPORTED"),
    (NO_ANSWER, "auto", "driver cuMemAlloc"),
    (REFUSED, "auto", "driver cuMemAlloc"),
    (NO_ANSWER, "mapped", "E_DRIVER"),
    (NO_ANSWER, "driver", "driver cuMemAlloc"),
])
def test_devices_without_it(faults, memory, found):
    assert made(memory, MOIETY_STANDIN_FAULTS=faults) == found


def test_a_driver_that_refuses_later():
    ended = run_program("""
        import ctypes
        import os
        import moiety
        with moiety.Pool(memory="auto") as pool:
            kept = pool.alloc(1 << 20)
            print(pool.memory)
            driver = ctypes.CDLL(os.environ.get("MOIETY_DRIVER",
                                                "libcuda.so.1"))
            driver.moiety_standin_set_faults(b"cuMemMap:every=1:code=999")
            more = pool.alloc(8 << 20)
            print(pool.memory, pool.snapshot()["source"])
            del kept, more
    """)
    assert ended.stdout == "mapped\ndriver cuMemAlloc\n", ended.stderr
    assert "refuses mapped memory" in ended.stderr


@pytest.mark.parametrize("conf, memory, found", [
    ("memory:mapped", "driver", "mapped cuMemMap"),
    ("memory:driver", "mapped", "driver cuMemAlloc"),
    ("memory:driver", "auto", "driver cuMemAlloc"),
    ("memory:auto", "driver", "mapped cuMemMap"),
    ("exportable:1", "auto", "driver cuMemAlloc"),
    ("exportable:1,memory:driver", "auto", "driver cuMemAlloc"),
])
def test_what_moiety_conf_says_goes_over_it(conf, memory, found):
    assert made(memory, MOIETY_CONF=conf) == found


PEERS = """
    import ctypes
    import os
    import moiety

    class Location(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

    def devices(address):
        driver = ctypes.CDLL(os.environ.get("MOIETY_DRIVER", "libcuda.so.1"))
        found = []
        for ordinal in range(3):
            flags = ctypes.c_ulonglong()
            assert driver.cuMemGetAccess(
                ctypes.byref(flags), ctypes.byref(Location(1, ordinal)),
                ctypes.c_ulonglong(address)) == 0
            if flags.value == 3:
                found.append(ordinal)
        return found

    with moiety.Pool(memory="mapped", peers=[2]) as pool:
        address = pool.alloc_raw(4096)
        print(devices(address))
        pool.add_peer(1)
        print(devices(address))
        for peer in (0, 3, 2**31):
            try:
                pool.add_peer(peer)
            except moiety.Error as error:
                print(error.status)
    for options in ({"memory": "driver"}, {"memory": "mapped", "pass_through": True}):
        try:
            moiety.Pool(peers=(1,), **options)
        except moiety.Error as error:
            print(error.status)
"""


@pytest.mark.skipif(not moiety.probe()["is_standin"],
                    reason="three devices are the stand-in's")
def test_peers_have_access_too():
    ended = run_program(PEERS, MOIETY_STANDIN_DEVICES="3")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == (["[0, 2]", "[0, 1, 2]"]
                                         + ["E_INVALID"] * 5)


@pytest.mark.parametrize("peers, error", [
    (1, TypeError), (["1"], TypeError), ([64], ValueError), ([-1], OverflowError)])
def test_what_is_no_peer(peers, error):
    with pytest.raises(error):
        moiety.Pool(memory="mapped", peers=peers)


@pytest.mark.parametrize("memory", SOURCES)
def test_segments_are_found_and_held(memory):
    with moiety.Pool(memory=memory, thread_cache_bytes=0) as pool:
        assert pool.segments() == []
        block = pool.alloc(100 * MIB)
        whole = pool.hold(block.address, 100 * MIB)
        first = pool.hold(block.address)
        held = pool.segments()
        assert sum(part["nbytes"] for part in held) == pool.stats().reserved_bytes_current
        assert held == sorted(held, key=lambda part: part["address"])
        assert held[0]["hold_count"] == 2 and held[0]["device"] == 0
        assert held[0]["is_mapped"] == (memory == "mapped")
        block.free(moiety.DONE)
        pool.trim()
        assert pool.segments() == held
        whole.release()
        whole.release()
        assert (whole.is_held, first.is_held) == (False, True)
        first.release()
        pool.trim()
        assert pool.segments() == []
        with pytest.raises(moiety.Error, match="in no segment"):
            pool.hold(block.address)
