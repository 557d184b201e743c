# SPDX-License-Identifier: Apache-2.0
"""moiety.regions: memory that its makers leave behind, and what is refused. The
keeper's own rules are tested in tests/serve."""

import json
import os
import signal
import subprocess
import sys
import time

import moiety
import moiety.regions
import pytest
from keepers import LIMIT, served
from support import MIB, run_program, run_threads, status_of

READ = """
    import ctypes, sys
    import moiety.regions
    keeper = moiety.regions.connect(sys.argv[1])
    part = keeper.open(sys.argv[2]).parts[0]
    driver = ctypes.CDLL(moiety.probe(0)["library_path"])
    context = ctypes.c_void_p()
    assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not driver.cuCtxSetCurrent(context)
    seen = bytearray(part.nbytes)
    to = (ctypes.c_char * len(seen)).from_buffer(seen)
    assert not driver.cuMemcpyDtoH_v2(to, ctypes.c_uint64(part.address),
                                      ctypes.c_size_t(part.nbytes))
    print(seen[0], seen[-1], len(set(seen)), part.is_readonly)
"""

WRITE = """
    import ctypes, os, signal, sys
    import moiety.regions
    keeper = moiety.regions.connect(sys.argv[1])
    region = keeper.create(sys.argv[2], {0: 4 << 20}, handle_nbytes="2MiB")
    part = region.parts[0]
    driver = ctypes.CDLL(moiety.probe(0)["library_path"])
    context = ctypes.c_void_p()
    assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not driver.cuCtxSetCurrent(context)
    assert not driver.cuMemsetD8_v2(ctypes.c_uint64(part.address),
                                    ctypes.c_ubyte(77),
                                    ctypes.c_size_t(part.nbytes))
    assert not driver.cuCtxSynchronize()
    if sys.argv[3] == "commit":
        region.commit(b"seventy-seven")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def path():
    with served() as made:
        yield made


BOTH = """
    import ctypes, os, signal, sys
    import moiety.regions
    driver = ctypes.CDLL(moiety.probe(0)["library_path"])

    def enter(device):
        context = ctypes.c_void_p()
        assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        assert not driver.cuCtxSetCurrent(context)

    keeper = moiety.regions.connect(sys.argv[1])
    if sys.argv[2] == "write":
        region = keeper.create("both", {0: 4 << 20, 1: 6 << 20},
                               handle_nbytes="2MiB")
        for device, part in region.parts.items():
            enter(device)
            assert not driver.cuMemsetD8_v2(
                ctypes.c_uint64(part.address), ctypes.c_ubyte(70 + device),
                ctypes.c_size_t(part.nbytes))
            assert not driver.cuCtxSynchronize()
        region.commit()
        os.kill(os.getpid(), signal.SIGKILL)
    region = keeper.open("both", [int(word) for word in sys.argv[3:]])
    for device, part in region.parts.items():
        enter(device)
        seen = (ctypes.c_char * part.nbytes)()
        assert not driver.cuMemcpyDtoH_v2(seen, ctypes.c_uint64(part.address),
                                          ctypes.c_size_t(part.nbytes))
        print(device, part.nbytes >> 20, *set(seen.raw))
"""


def wait_for_none(keeper):
    """What is dropped goes when its memory is closed and its leases are over."""
    while keeper.entries():
        time.sleep(0.001)


@pytest.fixture
def keeper(path):
    with moiety.regions.connect(path) as made:
        wait_for_none(made)
        yield made
    with moiety.regions.connect(path) as after:
        for entry in after.entries():
            if entry.state == "committed":
                after.drop(entry.name)


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "moiety", *arguments],
                          capture_output=True, text=True, timeout=60, check=False)


def test_memory_outlives_its_maker(keeper, path):
    made = run_program(WRITE, path, "weights", "commit")
    assert made.returncode == -signal.SIGKILL, made.stderr
    entry, = keeper.entries()
    assert entry[:6] == ("weights", "committed", 1, 4 * MIB, 13, 1)
    for _ in range(2):
        read = run_program(READ, path, "weights")
        assert read.stdout == "77 77 1 True\n", read.stderr
    with keeper.open("weights") as region:
        assert (region.generation, region.layout) == (1, b"seventy-seven")
        assert region.parts[0].nbytes == 4 * MIB
        assert keeper.entries()[0].holders == 1


def test_a_region_of_two_devices_is_committed_and_opened_whole(keeper, path):
    def run(*words):
        return run_program(BOTH, path, *words, MOIETY_STANDIN_DEVICES="2")

    made = run("write")
    assert made.returncode == -signal.SIGKILL, made.stderr
    assert keeper.entries()[0].parts == 2
    for devices, wanted in (("01", "0 4 70\n1 6 71\n"), ("10", "1 6 71\n0 4 70\n"),
                            ("1", "1 6 71\n"), ("0", "0 4 70\n")):
        read = run("read", *devices)
        assert sorted(read.stdout.splitlines()) == sorted(wanted.splitlines()), \
            read.stderr
    refused = run("read", "2")
    assert refused.returncode and "device" in refused.stderr, refused.stderr


def test_a_writer_that_ends_too_early_leaves_nothing(keeper, path):
    made = run_program(WRITE, path, "half", "leave")
    assert made.returncode == -signal.SIGKILL, made.stderr
    wait_for_none(keeper)
    with pytest.raises(KeyError, match="half"):
        keeper.open("half")


def test_a_region_is_written_by_one_process_and_then_read(keeper):
    region = keeper.create("one", {0: "2MiB"})
    assert region.is_writer and region.generation == 0 and region.layout is None
    assert keeper.entries()[0].writer == os.getpid()
    assert keeper.entries()[0].pids == (os.getpid(),)
    assert status_of(keeper.open, "one") == "E_IN_USE"
    assert status_of(keeper.drop, "one") == "E_IN_USE"
    assert status_of(keeper.create, "one", {0: MIB}) == "E_IN_USE"
    region.commit(bytearray(b"a layout"))
    assert (region.generation, region.layout) == (1, b"a layout")
    assert not region.is_writer
    assert status_of(region.commit) == "E_INVALID"
    assert status_of(lambda: keeper.open("one", write=True)) == "E_IN_USE"
    region.close()
    region.close()
    with keeper.open("one", write=True) as again:
        assert again.is_writer
        again.commit()
        assert (again.generation, again.layout) == (2, None)


def test_a_writer_that_cannot_map_it_changes_nothing(keeper, path):
    keeper.create("stays", {0: MIB}).commit(b"once")
    keeper.close()
    # The region has no part on the second device.
    ended = run_program("""
        import sys
        import moiety.regions
        keeper = moiety.regions.connect(sys.argv[1])
        try:
            keeper.open("stays", (1,), write=True)
        except moiety.Error as error:
            print(error.status)
    """, path, MOIETY_STANDIN_DEVICES="2")
    assert ended.stdout == "E_INVALID\n", ended.stderr
    with moiety.regions.connect(path) as again:
        with again.open("stays") as region:
            assert (region.generation, region.layout) == (1, b"once")
        again.drop("stays")


def test_arrays_are_of_its_memory_until_it_is_closed(keeper):
    region = keeper.create("arrays", {0: 3 * MIB})
    part = region.parts[0]
    seen = part.__cuda_array_interface__
    assert seen["shape"] == (4 * MIB,) and seen["typestr"] == "|u1"
    assert seen["data"] == (part.address, False)
    assert part.__dlpack_device__() == (2, 0)
    read = moiety._native._dlpack_read(part.__dlpack__(max_version=(1, 0)))
    assert read[:4] == (part.address, (2, 0), (1, 8, 1), (4 * MIB,))
    with pytest.raises(BufferError):
        part.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        part.__dlpack__(dl_device=(2, 1))
    region.commit()
    # A consumer before DLPack 1.0 cannot see that it is for reading.
    with pytest.raises(BufferError):
        part.__dlpack__()
    assert part.__cuda_array_interface__["data"] == (part.address, True)
    region.close()
    assert status_of(lambda: part.__cuda_array_interface__) == "E_CLOSED"
    assert status_of(part.__dlpack__) == "E_CLOSED"
    assert status_of(region.commit) == "E_CLOSED"


def test_what_is_dropped_stays_for_who_has_it(keeper):
    keeper.create("gone", {0: 2 * MIB}).commit()
    with keeper.open("gone"):
        keeper.drop("gone")
        assert keeper.entries()[0].state == "dropped"
        with pytest.raises(KeyError, match="gone"):
            keeper.open("gone")
        with pytest.raises(KeyError, match="gone"):
            keeper.drop("gone")
        # The name is free.
        keeper.create("gone", {0: 2 * MIB}).close()


@pytest.mark.parametrize("name", ["", "a/b", "n" * 256, "n" * 10000])
def test_names_that_are_none(keeper, name):
    for call in (lambda: keeper.create(name, {0: MIB}), lambda: keeper.open(name),
                 lambda: keeper.drop(name)):
        assert status_of(call) == "E_INVALID"
    assert keeper.entries() == []


def test_bad_arguments_leave_nothing(keeper):
    with pytest.raises(ValueError, match="zero byte"):
        keeper.create("a\0b", {0: MIB})
    for sizes in ({}, {0: 0}, {0: 1 << 60}):
        assert status_of(keeper.create, "bad", sizes) in (
            "E_INVALID", "E_TOO_LARGE", "E_BUDGET")
    assert status_of(keeper.create, "bad", {0: 2 * LIMIT}) == "E_BUDGET"
    with pytest.raises(moiety.DriverError):
        keeper.create("bad", {7: MIB})
    with pytest.raises((TypeError, ValueError)):
        keeper.create("bad", {0: "much"})
    assert status_of(lambda: keeper.create(
        "bad", {0: MIB}, handle_nbytes=3)) == "E_INVALID"
    region = keeper.create("bad", {0: MIB})
    assert status_of(region.commit, bytes(MIB + 1)) == "E_INVALID"
    with pytest.raises(TypeError):
        region.commit("text")
    region.close()
    wait_for_none(keeper)


def test_no_keeper_answers(path):
    assert status_of(moiety.regions.connect, path + ".not") == "E_PEER_GONE"
    assert status_of(moiety.regions.connect, "p" * 200) == "E_INVALID"
    made = moiety.regions.connect(path)
    made.close()
    made.close()
    assert status_of(made.entries) == "E_CLOSED"
    assert status_of(made.open, "any") == "E_CLOSED"


def test_threads_take_turns(keeper):
    problems = []

    def work(number):
        try:
            for turn in range(5):
                with keeper.create(f"{number}-{turn}", {0: MIB}) as region:
                    region.commit(bytes([number]))
                with keeper.open(f"{number}-{turn}") as region:
                    assert region.layout == bytes([number])
                keeper.drop(f"{number}-{turn}")
        except BaseException as error:
            problems.append(error)

    run_threads(4, work)
    assert problems == []


def test_children_of_a_fork_are_refused(keeper):
    region = keeper.create("parent", {0: MIB})
    child = os.fork()
    if not child:
        code = 1
        try:
            region.commit()
        except moiety.ForkedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    region.commit()
    region.close()


def test_the_commands(keeper, path):
    assert command("regions", path).stdout == "no regions\n"
    keeper.create("weights", {0: 4 * MIB}).commit(b"four")
    listed = command("regions", path)
    assert listed.stdout.startswith("weights: committed, 4"), listed.stderr
    assert listed.stdout.endswith(f"lease of {os.getpid()}\n")
    said = json.loads(command("regions", "--json", path).stdout)
    assert said["regions"][0]["layout_bytes"] == 4
    refused = command("regions", "--drop=other", path)
    assert refused.returncode == 1 and "other" in refused.stderr
    dropped = command("regions", "--drop=weights", "--json", path)
    assert json.loads(dropped.stdout)["regions"][0]["state"] == "dropped"
    assert command("regions", path + ".not").returncode == 1


def test_a_second_keeper_and_a_drain(path, keeper):
    refused = command("serve", f"--socket={path}")
    assert refused.returncode == 1 and "another keeper" in refused.stderr
    keeper.create("drained", {0: MIB}).commit()
    drained = command("serve", f"--socket={path}", "--drain")
    assert drained.stdout == "1 regions dropped\n", drained.stderr
    assert command("serve", f"--socket={path}", "--limit=much").returncode == 2


def test_leases_end_while_others_wait(path):
    """Many processes come and go, and all of them read what was written."""
    with moiety.regions.connect(path) as made:
        assert run_program(WRITE, path, "many", "commit").returncode < 0
        results = []
        run_threads(4, lambda _: results.append(
            run_program(READ, path, "many").stdout))
        assert results == ["77 77 1 True\n"] * 4
        made.drop("many")
        wait_for_none(made)
