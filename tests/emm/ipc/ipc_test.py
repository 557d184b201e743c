# SPDX-License-Identifier: Apache-2.0
"""moiety.ipc across processes that were spawned: what is shared, and when it
comes back."""

import gc
import multiprocessing
import pickle
import socket
import subprocess
import sys
import threading
from pathlib import Path

import moiety
import moiety.ipc
import ipc_peer
import pytest
from moiety import _native
from moiety._ipc import exports
from ipc_peer import Array, read, write
from support import run_program, run_threads

EXAMPLE = Path(__file__).resolve().parents[3] / "emm/examples/ipc.py"
DATA = bytes(range(256)) * 16


def live_count(pool):
    return pool.stats().allocation_current


@pytest.fixture(name="pool")
def exportable_pool():
    with moiety.Pool(exportable=True) as pool:
        yield pool
        pool.release_exports()
        gc.collect()  # an exception that was caught keeps the test's variables
        assert live_count(pool) == 0


@pytest.fixture(name="peer", scope="module")
def spawned_peer():
    peer = ipc_peer.Peer()
    yield peer
    assert peer.ask(ipc_peer.drop) == 0
    peer.end()


@pytest.fixture(name="block")
def block_inside_a_segment(pool):
    before = pool.alloc(4096)
    write(before.address, bytes(4096))
    with pool.alloc(len(DATA)) as block:
        write(block.address, DATA)
        yield block
    assert read(before.address, 4096) == bytes(4096)


def test_peer_has_the_block_and_writes_it(block, peer):
    about, found = peer.ask(ipc_peer.visit, moiety.ipc.export(block), b"back")
    assert found == DATA
    assert about["shape"] == (4096,) and about["typestr"] == "|u1"
    assert read(block.address, 8) == b"back" + DATA[4:8]


@pytest.mark.parametrize("offset, shape, typestr, strides", [
    (512, (3, 5), "<f4", None),
    (513, (7,), "|u1", None),
    (1024, (4, 8), "<i8", (128, 16)),
    (0, (16, 4), "<f2", (2, 32)),
    (4095, (4096,), "|i1", (-1,)),
    (40, (3, 2), ">i2", (-16, 2)),
    (8, (), "<c8", None),
    (16, (5,), "|V7", None),
])
def test_peer_has_a_view_as_it_was(block, peer, offset, shape, typestr,
                                   strides):
    view = Array(block, offset, shape, typestr, strides, True)
    handle = moiety.ipc.export(view)
    assert (handle.shape, handle.typestr, handle.strides) == (
        shape, typestr, strides)
    about, found = peer.ask(ipc_peer.visit, handle)
    assert about == {"shape": shape, "typestr": typestr, "strides": strides,
                     "data": (about["data"][0], True), "version": 3}
    assert found == DATA[offset:][:len(found)] != b""


def test_two_arrays_of_one_segment_are_opened_once(pool, peer):
    handles = []
    for value in (b"1", b"2"):
        block = pool.alloc(4096)
        write(block.address, value)
        handles.append(moiety.ipc.export(block))
    addresses = [peer.ask(ipc_peer.keep, handle) for handle in handles]
    assert abs(addresses[1] - addresses[0]) >= 4096
    assert [peer.ask(ipc_peer.visit_kept, handle)[:1]
            for handle in handles] == [b"1", b"2"]
    assert peer.ask(ipc_peer.drop) == 0


def test_over_a_socket(block):
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("spawn").Process(
        target=ipc_peer.serve, args=(theirs,))
    process.start()
    theirs.close()
    with ours:
        handle = moiety.ipc.export(Array(block, 512, (8,), "<i4"))
        data = bytes(handle)
        ours.sendall(len(data).to_bytes(4, "little") + data)
        assert ours.recv(64, socket.MSG_WAITALL) == b"bye!" + DATA[512:544] + (
            bytes(28))
    process.join(timeout=120)
    assert process.exitcode == 0
    assert read(block.address + 512, 4) == b"bye!"


def test_the_peer_may_be_the_owner(peer):
    handle = peer.ask(ipc_peer.export_one, DATA)
    with moiety.ipc.open_handle(handle) as shared:
        assert read(shared.address, 4096) == DATA
        assert shared.nbytes == 4096 and shared.device == 0
        with pytest.raises(ValueError, match="not exported by"):
            handle.release()
    assert moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def test_no_context_is_needed_nor_left(peer):
    handle = peer.ask(ipc_peer.export_one, DATA)
    seen = []

    def work():
        with moiety.ipc.open_handle(handle) as shared:
            seen.append(ipc_peer.current_context())
            seen.append(read(shared.address, 4096) == DATA)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, True] and moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def test_a_context_can_be_named(peer):
    handle = peer.ask(ipc_peer.export_one, DATA)
    with ipc_peer.primary_context() as context:
        with moiety.ipc.open_handle(handle, context=context) as shared:
            assert read(shared.address, 4096) == DATA
        assert moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def test_this_process_gets_its_own_array(block):
    handle = moiety.ipc.export(Array(block, 512, (8,), "<i4"))
    with moiety.ipc.open_handle(pickle.loads(pickle.dumps(handle))) as shared:
        assert shared.address == block.address + 512
        assert shared.__cuda_array_interface__["shape"] == (8,)
        with pytest.raises(moiety.Error) as raised:
            handle.release()
        assert raised.value.status == "E_IN_USE"
    handle.release()


# The end of an import.

@pytest.fixture(name="handle")
def handle_of_the_peers(peer):
    yield peer.ask(ipc_peer.export_one, DATA)
    gc.collect()
    assert moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def test_close_is_said_once(handle):
    shared = moiety.ipc.open_handle(handle)
    other = moiety.ipc.open_handle(handle)
    shared.close()
    shared.close()
    shared.close(wait=False).wait(0)
    assert not shared.is_open and other.is_open
    for use in (lambda: shared.address, lambda: shared.__dlpack__(),
                lambda: shared.__cuda_array_interface__):
        with pytest.raises(ValueError, match="closed"):
            use()
    other.close()


def test_import_goes_with_its_last_reference(handle):
    shared = moiety.ipc.open_handle(handle)
    assert moiety.ipc.trim() == 1
    del shared
    assert moiety.ipc.trim() == 0


def test_dlpack_keeps_the_import(handle):
    shared = moiety.ipc.open_handle(handle)
    assert shared.__dlpack_device__() == (2, 0)
    capsule = shared.__dlpack__(stream=None, max_version=(1, 0))
    del shared
    assert moiety.ipc.trim() == 1
    del capsule
    assert moiety.ipc.trim() == 0


def test_close_waits_for_its_stream(handle):
    with ipc_peer.primary_context(), ipc_peer.busy_stream() as (stream, end):
        shared = moiety.ipc.open_handle(handle)
        shared.stream = stream
        closing = shared.close(wait=False)
        if ipc_peer.IS_STANDIN:  # a real one may be through already
            with pytest.raises(moiety.Error) as raised:
                closing.wait(0)
            assert raised.value.status == "E_TIMEOUT"
            assert moiety.ipc.trim() == 1
        end()
        closing.wait(60)
        closing.wait()
        assert moiety.ipc.trim() == 0


def test_what_cannot_be_closed_is_closed_later(handle):
    """ANY cannot be had under a guard, and a finalizer has nobody to tell."""
    shared = moiety.ipc.open_handle(handle)
    dropped = moiety.ipc.open_handle(handle)
    _native.capture_guard_begin()
    try:
        del dropped
        with pytest.raises(moiety.Error) as raised:
            shared.close()
        assert raised.value.status == "E_CAPTURING" and shared.is_open
        shared.close(moiety.DONE)
        assert moiety.ipc.trim() == 1
    finally:
        _native.capture_guard_end()
    assert moiety.ipc.trim() == 0


def test_a_context_takes_its_imports_along(handle):
    with ipc_peer.further_context() as context:
        shared, dropped = (moiety.ipc.open_handle(handle, context) for _ in range(2))
        assert shared.address == dropped.address
    shared.close()
    assert not shared.is_open
    del dropped


def test_sixteen_threads(handle):
    failures = []

    def work(_):
        try:
            for _ in range(30):
                shared = moiety.ipc.open_handle(handle)
                with moiety.ipc.open_handle(handle) as other:
                    assert other.address == shared.address
                del shared
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    run_threads(16, work)
    assert not failures


# The owner's side.

def test_released_blocks_serve_again(pool, peer):
    block = pool.alloc(4096)
    handle = moiety.ipc.export(block)
    peer.ask(ipc_peer.visit, handle)
    del block
    assert live_count(pool) == 1
    assert pool.trim() == 0
    handle.release()
    handle.release()
    assert live_count(pool) == 0
    ipc_peer.synchronize()
    assert pool.trim() > 0
    assert peer.ask(ipc_peer.refusal_of, handle)[0] == "E_STALE"


def test_a_segment_is_released_with_its_last_handle(pool, peer):
    blocks = [pool.alloc(4096) for _ in range(2)]
    handles = [moiety.ipc.export(block) for block in (*blocks, blocks[0])]
    blocks.clear()
    for handle in handles:
        assert live_count(pool) == 2
        peer.ask(ipc_peer.visit, handle)
        handle.release()
    assert live_count(pool) == 0


@pytest.mark.parametrize("is_old_first", [True, False])
def test_handles_from_before_a_release_do_not_count(pool, peer, is_old_first):
    block = pool.alloc(4096)
    old = moiety.ipc.export(block)
    pool.release_exports()
    new = moiety.ipc.export(block)
    del block
    if is_old_first:
        old.release()
    assert live_count(pool) == 1
    peer.ask(ipc_peer.visit, new)
    new.release()
    assert live_count(pool) == 0
    old.release()


def test_what_is_exported_keeps_its_pool(peer):
    pool = moiety.Pool(exportable=True)
    block = pool.alloc(len(DATA))
    write(block.address, DATA)
    data = bytes(moiety.ipc.export(block))
    del pool, block
    gc.collect()
    assert peer.ask(ipc_peer.visit, data)[1] == DATA
    [kept] = {segment.pool for segment in exports._segments.values()
              if segment.pool.is_open}
    kept.close()
    assert not kept.is_open


def test_handles_of_a_closed_pool_end_quietly():
    with moiety.Pool(exportable=True) as pool:
        handle = moiety.ipc.export(pool.alloc(4096))
    handle.release()


def test_the_example_runs():
    ended = subprocess.run([sys.executable, EXAMPLE], capture_output=True,
                           text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "[ 0.  1.  2.  3.  8. 10. 12.  7.  8.  9.]\n"


@pytest.mark.skipif(not ipc_peer.IS_STANDIN, reason="wants a second device")
def test_the_device_is_that_of_the_memory():
    ended = run_program("""
import moiety.ipc
pool = moiety.Pool(1, exportable=True)
with moiety.ipc.open_handle(moiety.ipc.export(pool.alloc(4096))) as shared:
    print(shared.device, shared.__dlpack_device__())
""", MOIETY_STANDIN_DEVICES="2")
    assert (ended.stdout, ended.stderr) == ("1 (2, 1)\n", "")
