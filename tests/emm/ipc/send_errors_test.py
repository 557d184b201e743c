# SPDX-License-Identifier: Apache-2.0
"""Arrays through sockets that are none, are full, closed or silent, and
messages that are none: each is told, and nothing is left."""

import gc
import os
import resource
import socket
import threading
import time

import moiety
import moiety.ipc
import pytest
from moiety import _native
from moiety._ipc import channel, exports
from ipc_peer import IS_STANDIN, Array, allocate, descriptors, free
from support import MIB, run_program, status_of


@pytest.fixture(name="pool")
def mapped_pool():
    """What is left in it, exported or not, is found at the end."""
    before = descriptors()
    with moiety.Pool(exportable=True, memory="mapped",
                     thread_cache_bytes=0) as pool:
        yield pool
        gc.collect()  # an exception that was caught keeps the test's variables
        assert pool.stats().allocation_current == 0
        assert not any(segment.count for segment in exports._segments.values())
        pool.trim()
        assert pool.stats().reserved_bytes_current == 0
    assert descriptors() == before


@pytest.fixture(name="block")
def block_of_a_page(pool):
    with pool.alloc(4096, moiety.DONE) as block:
        yield block


@pytest.fixture(name="pair")
def two_ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def message_of(pool, block):
    """The bytes of the library's message of memory that is not mapped, which
    has no descriptors, and of the handle behind it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        handle = moiety.ipc.send(block, ours)
        data = theirs.recv(1 << 16)
        handle.release()
    size = len(bytes(handle))
    return data[:-size], data[-size:]


# Sockets.

@pytest.mark.parametrize("thing", [
    None, 5.5, "socket", b"1", object(), [], lambda: None])
def test_things_that_are_no_socket(block, thing):
    for call in (lambda: moiety.ipc.send(block, thing),
                 lambda: moiety.ipc.receive(thing)):
        with pytest.raises(TypeError, match="no fileno"):
            call()


def fill(end):
    """To the last byte; how many."""
    limit_s = end.gettimeout()
    end.setblocking(False)
    count = 0
    with pytest.raises(BlockingIOError):
        while True:
            count += end.send(b"x")
    end.settimeout(limit_s)
    return count


def pipe_end():
    ours, theirs = os.pipe()
    os.close(theirs)
    return os.fdopen(ours)


def closed_socket():
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.close()
    return ours


def listening_socket():
    made = socket.socket(socket.AF_UNIX)
    made.bind(b"\0")
    made.listen()
    return made


@pytest.mark.parametrize("make", [
    lambda: -1, lambda: 1 << 30, closed_socket, listening_socket,
    lambda: open(os.devnull, encoding="utf-8"),
    pipe_end,
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0],
])
def test_descriptors_of_another_kind(block, make):
    thing = make()
    assert status_of(moiety.ipc.send, block, thing) == "E_INVALID"
    assert status_of(moiety.ipc.receive, thing) == "E_INVALID"
    del thing
    gc.collect()


def test_tcp_carries_no_descriptors(block):
    """The stand-in has no fabric handles here."""
    with socket.socket(socket.AF_INET) as alone:
        assert status_of(moiety.ipc.send, block, alone) == "E_UNSUPPORTED"
        assert status_of(moiety.ipc.receive, alone) == "E_PEER_GONE"


def test_sockets_that_are_not_connected(block):
    with socket.socket(socket.AF_UNIX) as alone:
        assert status_of(moiety.ipc.send, block, alone) == "E_PEER_GONE"
        assert status_of(moiety.ipc.receive, alone) in ("E_INVALID",
                                                        "E_PEER_GONE")


def test_a_peer_that_has_closed(block, pair):
    ours, theirs = pair
    theirs.close()
    assert status_of(moiety.ipc.send, block, ours) == "E_PEER_GONE"
    assert status_of(moiety.ipc.receive, ours) == "E_PEER_GONE"


@pytest.mark.parametrize("limit_s, status", [(0, "E_WOULD_BLOCK"),
                                             (0.05, "E_TIMEOUT")])
def test_sockets_that_do_not_wait(block, pair, limit_s, status):
    ours, theirs = pair
    for end in pair:
        end.settimeout(limit_s)
    began = time.monotonic()
    assert status_of(moiety.ipc.receive, theirs) == status
    assert time.monotonic() - began >= limit_s
    handle = moiety.ipc.send(block, ours)
    moiety.ipc.receive(theirs).close()
    handle.release()
    fill(ours)
    began = time.monotonic()
    assert status_of(moiety.ipc.send, block, ours) == status
    assert time.monotonic() - began >= limit_s


def test_a_time_limit_is_not_waited_out(block, pair):
    ours, theirs = pair
    theirs.settimeout(36000)
    made = []
    thread = threading.Thread(
        target=lambda: made.append(moiety.ipc.receive(theirs)))
    thread.start()
    # Most times it waits by then.
    time.sleep(0.05)
    handle = moiety.ipc.send(block, ours)
    thread.join()
    made.pop().close()
    handle.release()


def test_others_go_on_while_one_waits(block, pair):
    """The GIL is not held, by a thread that waits for a message nor by one that
    waits for room."""
    ours, theirs = pair
    made = []
    receiver = threading.Thread(
        target=lambda: made.append(moiety.ipc.receive(theirs)))
    receiver.start()
    # Most times it waits by then.
    time.sleep(0.05)
    assert receiver.is_alive()
    first = moiety.ipc.send(block, ours)
    receiver.join()
    made.pop().close()
    filled = fill(ours)
    sender = threading.Thread(
        target=lambda: made.append(moiety.ipc.send(block, ours)))
    sender.start()
    # Most times it waits by then.
    time.sleep(0.05)
    assert sender.is_alive()
    while filled:
        filled -= len(theirs.recv(filled))
    moiety.ipc.receive(theirs).close()
    sender.join()
    made.pop().release()
    first.release()


@pytest.mark.parametrize("call", ["moiety.ipc.receive(theirs)", """\
ours.setblocking(False)
    try:
        while True:
            ours.send(b"x")
    except BlockingIOError:
        ours.setblocking(True)
    moiety.ipc.send(block, ours)"""])
def test_who_waits_is_interrupted(call):
    ended = run_program("import moiety.ipc, signal, socket\n"
                        "def stop(*_):\n"
                        "    raise KeyboardInterrupt\n"
                        "signal.signal(signal.SIGALRM, stop)\n"
                        "pool = moiety.Pool(exportable=True, memory='mapped')\n"
                        "block = pool.alloc(4096)\n"
                        "ours, theirs = socket.socketpair()\n"
                        "try:\n"
                        "    signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
                        f"    {call}\n"
                        "except KeyboardInterrupt:\n"
                        "    block.free(moiety.DONE)\n"
                        "    print(pool.stats().allocation_current)\n")
    assert (ended.stdout, ended.stderr) == ("0\n", "")


# Arrays.

@pytest.mark.parametrize("thing", [None, 5, b"bytes", object()])
def test_things_that_are_no_array(pair, thing):
    with pytest.raises(TypeError, match="neither"):
        moiety.ipc.send(thing, pair[0])


@pytest.mark.parametrize("offset, shape, strides", [
    (0, (1 << 22,), None), (4095, (2,), None), (0, (2,), (8192,)),
    (0, (1,) * 40000, None)])
def test_arrays_that_are_refused(block, pair, offset, shape, strides):
    view = Array(block, offset, shape, "|u1", strides)
    assert status_of(moiety.ipc.send, view, pair[0]) == "E_INVALID"
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pair[1].recv(1)


def test_memory_of_others(block, pair):
    address = allocate(4096)
    for owner in (address, 0x1000):
        array = Array(owner, 0, (4,), "|u1")
        assert status_of(moiety.ipc.send, array, pair[0]) == "E_FOREIGN"
    free(address)


@pytest.mark.parametrize("memory", ["mapped", "driver"])
def test_pools_that_do_not_export(pair, memory):
    with moiety.Pool(memory=memory) as pool:
        block = pool.alloc(4096)
        for call in (lambda: moiety.ipc.send(block, pair[0]),
                     lambda: moiety.ipc.export(block)):
            with pytest.raises(moiety.Error, match="not exportable") as raised:
                call()
            assert raised.value.status == "E_UNSUPPORTED"


def test_memory_that_can_be_paused(pool, pair):
    with pool.tenant(pausable=True) as tenant, tenant.alloc(4096) as block:
        assert status_of(moiety.ipc.send, block, pair[0]) == "E_UNSUPPORTED"


def test_handles_do_not_open_mapped_memory(block):
    with pytest.raises(moiety.Error, match=r"moiety\.ipc\.send\(\)") as raised:
        moiety.ipc.export(block)
    assert raised.value.status == "E_UNSUPPORTED"


def test_dead_blocks(pool, pair):
    block = pool.alloc(4096)
    block.free()
    with pytest.raises(ValueError, match="freed"):
        moiety.ipc.send(block, pair[0])


# Messages.

@pytest.fixture(name="parts")
def parts_of_a_message():
    """Of memory that is not mapped, in this process."""
    with moiety.Pool(exportable=True) as pool:
        with pool.alloc(4096) as block:
            handle = moiety.ipc.export(block)
            message, data = message_of(pool, block)
            assert data == bytes(handle)
            yield message, data
            handle.release()


def test_a_message_that_nothing_was_done_to_is_one(pair, parts):
    """The control of the tests below."""
    pair[0].sendall(b"".join(parts))
    moiety.ipc.receive(pair[1]).close()


@pytest.mark.parametrize("data", [b"x" * 300, bytes(1000), b"b", b"mtshare1"])
def test_bytes_that_are_no_message(pair, data):
    pair[0].sendall(data)
    pair[0].close()
    assert status_of(moiety.ipc.receive, pair[1]) in ("E_CORRUPT",
                                                      "E_PEER_GONE")


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("change", [
    lambda data: b"x" + data[1:], lambda data: b"x" * 20,
    lambda data: data[:12] + bytes(4) + data[16:],
    lambda data: data[:12] + b"\xff" * 4 + data[16:],
    lambda data: data[:30] + b"x" + data[31:],
    lambda data: data[:-1] + b"}",
])
def test_no_handle_behind_the_memory(parts, kind, change):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    before = descriptors()
    with ours, theirs:
        ours.send(parts[0])
        ours.send(change(parts[1]))
        assert status_of(moiety.ipc.receive, theirs) == "E_CORRUPT"
        assert moiety.ipc.trim() == 0 and descriptors() == before


def test_a_packet_that_is_too_short(parts):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(parts[0])
        ours.send(b"x")
        assert status_of(moiety.ipc.receive, theirs) == "E_CORRUPT"


def test_the_handle_of_other_memory(pair):
    with moiety.Pool(exportable=True) as pool:
        with pool.alloc(4096) as block, pool.alloc(4096) as other:
            message, _ = message_of(pool, block)
            _, data = message_of(pool, other)
            handle = moiety.ipc.export(block)
            pair[0].sendall(message + data)
            assert status_of(moiety.ipc.receive, pair[1]) in ("E_CORRUPT",
                                                              "E_STALE")
            handle.release()


@pytest.mark.parametrize("part", range(0, 500, 25))
def test_a_message_that_ends_in_the_middle(pair, parts, part):
    data = b"".join(parts)
    pair[0].sendall(data[:min(part, len(data) - 1)])
    pair[0].close()
    assert status_of(moiety.ipc.receive, pair[1]) == "E_PEER_GONE"
    assert moiety.ipc.trim() == 0


def test_a_peer_that_stops_in_the_middle(pair, parts, monkeypatch):
    monkeypatch.setattr(channel, "_STALL_S", 0.05)
    pair[0].sendall(parts[0] + parts[1][:50])
    assert status_of(moiety.ipc.receive, pair[1]) == "E_TIMEOUT"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_the_next_one_is_found_behind_one_that_is_refused(kind):
    """Its memory was released, so the library does not open it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs, moiety.Pool(exportable=True, memory="mapped") as pool:
        block = pool.alloc(4096)
        for _ in range(3):
            for _ in range(2):
                moiety.ipc.send(block, ours).release()
            handle = moiety.ipc.send(block, ours)
            assert status_of(moiety.ipc.receive, theirs) == "E_STALE"
            assert status_of(moiety.ipc.receive, theirs) == "E_STALE"
            with moiety.ipc.receive(theirs) as shared:
                assert shared.address == block.address
            handle.release()


def test_a_context_that_is_none_takes_the_message_along(block, pair):
    first = moiety.ipc.send(block, pair[0])
    assert status_of(moiety.ipc.receive, pair[1], 0x1000) in (
        "E_INVALID", "E_CONTEXT_DESTROYED")
    second = moiety.ipc.send(block, pair[0])
    with pytest.raises(OverflowError):
        moiety.ipc.receive(pair[1], -1)
    moiety.ipc.receive(pair[1]).close()
    first.release()
    second.release()


def test_a_failure_behind_the_memory_is_counted_by_who_has_it(
        pool, pair, monkeypatch):
    """The peer has what it looks like, if it lives."""
    def fail(status):
        def send(self, data):
            raise channel.refusal(status, "made up")
        return send

    for status, live in (("E_PEER_GONE", 0), ("E_TIMEOUT", 1)):
        block = pool.alloc(4096)
        monkeypatch.setattr(channel.Channel, "send_handle", fail(status))
        assert status_of(moiety.ipc.send, block, pair[0]) == status
        monkeypatch.undo()
        block.free(moiety.DONE)
        assert pool.stats().allocation_current == live
    pool.release_exports()
    exports._segments.clear()


def with_descriptors(count, call):
    """The status of a call that can have so many more, or None."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    # A number that is free below is one that can be had.
    fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(used)]
    while max(fillers) > used:
        os.close(fillers.pop())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1 + count, limits[1]))
    try:
        call()
    except moiety.Error as error:
        return error.status
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for filler in fillers:
            os.close(filler)
    return None


@pytest.mark.skipif(not IS_STANDIN, reason="counts the driver's descriptors")
@pytest.mark.parametrize("count", [0, 1, 2, 3, 20])
def test_no_descriptors_are_left(pool, count):
    """Of four pieces, whichever is the first that cannot be had."""
    ours, theirs = socket.socketpair()
    block = pool.alloc(30 * MIB, moiety.DONE)
    with ours, theirs:
        status = with_descriptors(
            count, lambda: moiety.ipc.send(block, ours).release())
        assert status == ("E_NO_HOST_MEMORY" if count < 20 else None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        handle = moiety.ipc.send(block, ours)
        status = with_descriptors(
            count, lambda: moiety.ipc.receive(theirs).close())
        assert status == ("E_NO_HOST_MEMORY" if count < 20 else None)
        handle.release()


def test_native_functions_check_what_they_get(pool, block):
    for call in (lambda: pool.send(block.address), lambda: pool.send("1", 2),
                 lambda: pool.send(block.address, "2"),
                 lambda: pool.ticket("1"), lambda: _native._ipc_receive(0),
                 lambda: _native._ipc_receive("0", 0)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        pool.send(-1, 0)
    assert status_of(pool.send, block.address, -1) == "E_INVALID"
    assert status_of(pool.ticket, 0x1000) == "E_FOREIGN"
    assert status_of(_native._ipc_receive, -1, 0) == "E_INVALID"
