# SPDX-License-Identifier: Apache-2.0
"""Arrays of mapped memory through TCP, by fabric handles, which the stand-in
has when it is asked. Other processes inherit the setting."""

import concurrent.futures
import os
import random
import socket

os.environ["MOIETY_STANDIN_FABRIC"] = "ready"

import moiety
import moiety.ipc
import ipc_peer
import pytest
from ipc_peer import Array, descriptors, read, write
from support import MIB, run_program

if not ipc_peer.IS_STANDIN:
    pytest.skip("a GPU has fabric handles or not", allow_module_level=True)


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        return ours, server.accept()[0]


@pytest.fixture(name="pool")
def mapped_pool():
    with moiety.Pool(exportable=True, memory="mapped",
                     thread_cache_bytes=0) as pool:
        yield pool
        assert pool.stats().allocation_current == 0
        pool.trim()
        assert pool.stats().reserved_bytes_current == 0


@pytest.fixture(name="peer", scope="module")
def spawned_peer():
    peer = ipc_peer.Peer()
    yield peer
    assert peer.ask(ipc_peer.drop) == 0
    peer.end()


@pytest.fixture(name="ours")
def socket_to_the_peer(peer):
    ours, theirs = tcp_pair()
    peer.ask(ipc_peer.take_socket, theirs)
    theirs.close()
    with ours:
        yield ours


def test_peer_has_all_bytes_and_writes_them(pool, peer, ours):
    data = random.Random(1).randbytes(13 * MIB)
    block = pool.alloc(len(data), moiety.LEGACY)
    write(block.address, data)
    before = descriptors()
    handle = moiety.ipc.send(Array(block, 0, (13, MIB), "|u1"), ours)
    about, found = peer.ask(ipc_peer.receive_one, data[::-1])
    assert found == data and about["shape"] == (13, MIB)
    assert read(block.address, 13 * MIB) == data[::-1]
    assert descriptors() == before
    assert peer.ask(ipc_peer.drop) == 0
    handle.release()


def test_the_peer_may_be_the_owner(peer, ours):
    data = random.Random(2).randbytes(5 * MIB)
    ours.settimeout(60)
    peer.ask(ipc_peer.send_one, data, "mapped")
    with moiety.ipc.receive(ours) as shared:
        assert read(shared.address, shared.nbytes) == data
    assert moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def outcomes_of(server):
    """Of two receives, once the owner has sent both and connects again."""
    def receive():
        try:
            moiety.ipc.receive(end).close()
        except moiety.Error as error:
            return error.status
        return "OK"

    end = server.accept()[0]
    with end, server.accept()[0], ipc_peer.primary_context():
        found = receive(), receive()
        assert moiety.ipc.trim() == 0
        end.sendall(b".")
    return found


def test_what_was_given_back_is_refused_and_the_next_is_there():
    """Fabric handles are good while the owner has the memory."""
    text = """
        import moiety.ipc, socket, sys
        here = "127.0.0.1", int(sys.argv[1])
        pool = moiety.Pool(exportable=True, memory="mapped")
        with socket.create_connection(here) as ours:
            moiety.ipc.send(pool.alloc(4096), ours).release()
            pool.close()
            pool = moiety.Pool(exportable=True, memory="mapped")
            handle = moiety.ipc.send(pool.alloc(8192), ours)
            with socket.create_connection(here):
                assert ours.recv(1) == b"."
            handle.release()
    """
    with (socket.create_server(("127.0.0.1", 0)) as server,
          concurrent.futures.ThreadPoolExecutor(1) as threads):
        found = threads.submit(outcomes_of, server)
        ended = run_program(text, str(server.getsockname()[1]))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert found.result() == ("E_STALE", "OK")


@pytest.mark.parametrize("setting, what", [
    ("none", "no fabric handles"), ("no_channel", "IMEX channel")])
def test_without_fabric_the_send_says_so(setting, what):
    ended = run_program("""
        import moiety.ipc, socket
        pool = moiety.Pool(exportable=True, memory="mapped")
        block = pool.alloc(4096)
        with (socket.create_server(("127.0.0.1", 0)) as server,
              socket.create_connection(server.getsockname()) as ours):
            try:
                moiety.ipc.send(block, ours)
            except moiety.Error as error:
                print(error.status, error)
        del block
        assert pool.stats().allocation_current == 0
    """, MOIETY_STANDIN_FABRIC=setting)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("E_UNSUPPORTED") and what in ended.stdout
