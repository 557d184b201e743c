# SPDX-License-Identifier: Apache-2.0
"""Arrays through a socket, to processes that were spawned: of mapped memory,
and of all other."""

import gc
import multiprocessing
import os
import pickle
import random
import socket
import threading

import moiety
import moiety.ipc
import ipc_peer
import pytest
from ipc_peer import Array, descriptors, read, write
from support import MIB, run_program

DATA = bytes(range(256)) * 16
KINDS = {"stream": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET}


def live_count(pool):
    return pool.stats().allocation_current


@pytest.fixture(name="memory", params=["mapped", "driver"])
def both_kinds_of_memory(request):
    return request.param


@pytest.fixture(name="pool")
def exportable_pool(memory):
    with moiety.Pool(exportable=True, memory=memory,
                     thread_cache_bytes=0) as pool:
        yield pool
        gc.collect()  # an exception that was caught keeps the test's variables
        assert live_count(pool) == 0
        ipc_peer.synchronize()
        pool.trim()
        assert pool.stats().reserved_bytes_current == 0


@pytest.fixture(name="peer", scope="module")
def spawned_peer():
    peer = ipc_peer.Peer()
    yield peer
    assert peer.ask(ipc_peer.drop) == 0
    peer.end()


@pytest.fixture(name="ours", params=KINDS)
def socket_to_the_peer(request, peer):
    ours, theirs = socket.socketpair(socket.AF_UNIX, KINDS[request.param])
    peer.ask(ipc_peer.take_socket, theirs)
    theirs.close()
    with ours:
        yield ours


def block_with(pool, data):
    block = pool.alloc(len(data), moiety.LEGACY)
    write(block.address, data)
    return block


def test_peer_has_all_bytes_and_writes_them(pool, peer, ours):
    data = random.Random(1).randbytes(13 * MIB)
    block = block_with(pool, data)
    before = descriptors()
    handle = moiety.ipc.send(block, ours)
    about, found = peer.ask(ipc_peer.receive_one, data[::-1])
    assert found == data and about["shape"] == (13 * MIB,)
    assert read(block.address, 13 * MIB) == data[::-1]
    assert descriptors() == before
    assert peer.ask(ipc_peer.drop) == 0
    handle.release()


def test_the_peer_may_be_the_owner(memory, peer, ours):
    data = random.Random(2).randbytes(5 * MIB)
    peer.ask(ipc_peer.send_one, data, memory)
    before = descriptors()
    with moiety.ipc.receive(ours) as shared:
        assert read(shared.address, shared.nbytes) == data
        assert (shared.nbytes, shared.device) == (5 * MIB, 0)
        with pytest.raises(moiety.Error) as raised:
            moiety.ipc.send(shared, ours)
        assert raised.value.status == "E_FOREIGN"
    assert moiety.ipc.trim() == 0 and descriptors() == before
    peer.ask(ipc_peer.drop)


@pytest.mark.parametrize("offset, shape, typestr, strides", [
    (512, (3, 5), "<f4", None),
    (1024, (4, 8), "<i8", (64, 8)),
    (8, (), "<c8", None),
    (16, (5,), "|V7", None),
])
def test_peer_has_a_view_as_it_was(pool, peer, ours, offset, shape, typestr,
                                   strides):
    block = block_with(pool, DATA)
    view = Array(block, offset, shape, typestr, strides, True)
    handle = moiety.ipc.send(view, ours)
    assert (handle.shape, handle.typestr, handle.strides) == (
        shape, typestr, strides)
    about, found = peer.ask(ipc_peer.receive_one)
    assert about == {"shape": shape, "typestr": typestr, "strides": strides,
                     "data": (about["data"][0], True), "version": 3}
    assert found == DATA[offset:][:len(found)] != b""
    assert peer.ask(ipc_peer.drop) == 0
    handle.release()


def test_elements_that_go_backwards(pool):
    ours, theirs = socket.socketpair()
    with ours, theirs, block_with(pool, DATA) as block:
        view = Array(block, 4095, (4096,), "|i1", (-1,))
        handle = moiety.ipc.send(view, ours)
        with moiety.ipc.receive(theirs) as shared:
            assert shared.address == block.address + 4095
            assert shared.strides == (-1,)
        handle.release()


def test_many_in_both_directions_at_a_time(pool, memory, peer, ours):
    """A thread sends while this one receives."""
    blocks = [block_with(pool, DATA[i:] + DATA[:i]) for i in range(40)]
    handles = []
    thread = threading.Thread(target=lambda: handles.extend(
        moiety.ipc.send(block, ours) for block in blocks))
    thread.start()
    for i in range(40):
        assert peer.ask(ipc_peer.receive_one)[1] == DATA[i:] + DATA[:i]
        peer.ask(ipc_peer.send_one, DATA[i:] + DATA[:i], memory)
        with moiety.ipc.receive(ours) as shared:
            assert read(shared.address, 4096) == DATA[i:] + DATA[:i]
    thread.join()
    assert moiety.ipc.trim() == peer.ask(ipc_peer.drop) == 0
    for handle in handles:
        handle.release()


def test_connections_and_descriptors_are_sockets_too(pool):
    ours, theirs = multiprocessing.Pipe()
    block = block_with(pool, DATA)
    with ours, theirs:
        for one, other in ((ours, theirs), (theirs.fileno(), ours.fileno())):
            handle = moiety.ipc.send(block, one)
            with moiety.ipc.receive(other) as shared:
                assert shared.address == block.address
            handle.release()
        ours.send("the program's own")
        assert theirs.recv() == "the program's own"


def test_a_default_time_limit_changes_no_socket(pool):
    ours, theirs = socket.socketpair()
    block = block_with(pool, DATA)
    socket.setdefaulttimeout(5)
    try:
        with ours, theirs:
            handle = moiety.ipc.send(block, ours)
            moiety.ipc.receive(theirs).close()
            assert os.get_blocking(ours.fileno())
            assert os.get_blocking(theirs.fileno())
    finally:
        socket.setdefaulttimeout(None)
    handle.release()


def test_the_handle_opens_what_was_received(pool, memory, peer, ours):
    block = block_with(pool, DATA)
    handle = moiety.ipc.send(block, ours)
    data = bytes(handle)
    assert pickle.loads(pickle.dumps(handle)) == handle
    peer.ask(ipc_peer.receive_one)
    assert peer.ask(ipc_peer.visit_kept, data) == DATA
    assert peer.ask(ipc_peer.drop) == 0
    status, text = peer.ask(ipc_peer.refusal_of, data)
    assert status == ("E_STALE" if memory == "mapped" else "OK")
    assert memory == "driver" or "not received" in text
    assert peer.ask(ipc_peer.drop) == 0
    handle.release()


# The owner's side.

def test_released_blocks_serve_again(pool, peer, ours):
    block = block_with(pool, DATA)
    handles = [moiety.ipc.send(block, ours) for _ in range(2)]
    del block
    for handle in handles:
        assert live_count(pool) == 1
        peer.ask(ipc_peer.receive_one)
        peer.ask(ipc_peer.drop)
        handle.release()
        handle.release()
    assert live_count(pool) == 0


@pytest.mark.parametrize("memory", ["mapped"], indirect=True)
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0),
                                   (2, 0, 4, 1, 3)])
def test_blocks_with_pieces_in_common_are_released_together(pool, order):
    """Pieces of 4 MiB: the first two blocks share one, and the next two."""
    pool.alloc(28 * MIB).free(moiety.DONE)
    blocks = [pool.alloc(5 * MIB, moiety.LEGACY) for _ in range(5)]
    starts = [part["address"] for part in pool.segments()]
    assert starts[:7] == [starts[0] + i * 4 * MIB for i in range(7)]
    assert [block.address for block in blocks] == [starts[0] + i * 6 * MIB
                                                   for i in range(5)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        handles = [moiety.ipc.send(block, ours) for block in blocks]
    for block in blocks:
        block.free()
    left = set(order)
    for index in order:
        handles[index].release()
        left.remove(index)
        assert live_count(pool) == sum(len(sharing)
                                       for sharing in ({0, 1}, {2, 3}, {4})
                                       if left & sharing)


@pytest.mark.parametrize("is_old_first", [True, False])
def test_handles_from_before_a_release_do_not_count(pool, peer, ours,
                                                    is_old_first):
    block = block_with(pool, DATA)
    old = moiety.ipc.send(block, ours)
    peer.ask(ipc_peer.receive_one)
    peer.ask(ipc_peer.drop)
    pool.release_exports()
    new = moiety.ipc.send(block, ours)
    del block
    if is_old_first:
        old.release()
    assert live_count(pool) == 1
    assert peer.ask(ipc_peer.receive_one)[1] == DATA
    peer.ask(ipc_peer.drop)
    new.release()
    assert live_count(pool) == 0
    old.release()


def test_this_process_gets_its_own_array(pool):
    ours, theirs = socket.socketpair()
    block = block_with(pool, DATA)
    with ours, theirs:
        handle = moiety.ipc.send(Array(block, 512, (8,), "<i4"), ours)
        with moiety.ipc.receive(theirs) as shared:
            assert shared.address == block.address + 512
            assert shared.__cuda_array_interface__["shape"] == (8,)
            with pytest.raises(moiety.Error) as raised:
                handle.release()
            assert raised.value.status == "E_IN_USE"
    handle.release()


# Processes that are killed.

def spawn(target):
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=(theirs,))
    process.start()
    theirs.close()
    return process, ours


def test_a_peer_that_is_killed_leaves_the_owners_memory(pool):
    block = block_with(pool, DATA)
    before = descriptors()
    process, ours = spawn(ipc_peer.keep_received)
    with ours:
        handle = moiety.ipc.send(block, ours)
        assert ours.recv(1) == DATA[:1]
        process.kill()
        process.join()
        with pytest.raises(moiety.Error) as raised:
            moiety.ipc.send(block, ours)
        assert raised.value.status == "E_PEER_GONE"
        with pytest.raises(moiety.Error) as raised:
            moiety.ipc.receive(ours)
        assert raised.value.status == "E_PEER_GONE"
    process.close()
    assert descriptors() == before and read(block.address, 4096) == DATA
    handle.release()


def test_an_owner_that_ends_halfway_leaves_nothing():
    process, ours = spawn(ipc_peer.send_half)
    before = descriptors()
    with ours:
        with pytest.raises(moiety.Error) as raised:
            moiety.ipc.receive(ours)
        assert raised.value.status == "E_PEER_GONE"
        assert moiety.ipc.trim() == 0 and descriptors() == before
    process.join()


def test_mapped_memory_outlives_its_owner():
    peer = ipc_peer.Peer()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer.ask(ipc_peer.take_socket, theirs)
        peer.ask(ipc_peer.send_one, DATA, "mapped")
        peer.end()
        with moiety.ipc.receive(ours) as shared:
            assert read(shared.address, 4096) == DATA
    assert moiety.ipc.trim() == 0


def test_child_of_a_fork_is_told():
    ended = run_program("""
        import moiety.ipc, os, socket
        pool = moiety.Pool(exportable=True, memory="mapped")
        block = pool.alloc(4096)
        ours, theirs = socket.socketpair()
        handle = moiety.ipc.send(block, ours)
        child = os.fork()
        if child == 0:
            for call in (lambda: moiety.ipc.send(block, ours),
                         lambda: moiety.ipc.receive(theirs)):
                try:
                    call()
                except moiety.Error as error:
                    print(error.status, flush=True)
            handle.release()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        moiety.ipc.receive(theirs).close()
        handle.release()
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED\nE_FORKED\n", "")
