# SPDX-License-Identifier: Apache-2.0
"""moiety.ipc, and what it refuses: handles that are none, memory that cannot be
shared, children of a fork."""

import gc
import pickle
import struct
import sys
import zlib

import moiety
import moiety.ipc
import ipc_peer
import pytest
from ipc_peer import Array
from support import run_program, status_of

HEADER = struct.Struct("<8sIII")
C_BYTES = 176


@pytest.fixture(name="pool")
def exportable_pool():
    with moiety.Pool(exportable=True) as pool:
        yield pool
        pool.release_exports()
        gc.collect()  # an exception that was caught keeps the test's variables
        assert pool.stats().allocation_current == 0


@pytest.fixture(name="block")
def block_of_a_page(pool):
    with pool.alloc(4096) as block:
        yield block


@pytest.fixture(name="peer", scope="module")
def spawned_peer():
    peer = ipc_peer.Peer()
    yield peer
    peer.end()


def sealed(body):
    """A handle's bytes, as it makes them itself."""
    return HEADER.pack(b"MOIETYIP", 1, HEADER.size + len(body),
                       zlib.crc32(body)) + body


def with_c(data, **fields):
    """A handle's bytes, with other values in the library's own handle, and the
    checksums that belong to them."""
    c_handle = bytearray(data[HEADER.size:][:C_BYTES])
    for at, value in fields.items():
        at = int(at.lstrip("at_"))
        c_handle[at:at + len(value)] = value
    words = struct.unpack("=21Q", c_handle[:168])
    total = 0x6d6f696574790001
    for word in words:
        total = (total ^ word) * 0x9E3779B97F4A7C15 % 2**64
        total ^= total >> 32
    c_handle[168:] = total.to_bytes(8, sys.byteorder)
    return sealed(bytes(c_handle) + data[HEADER.size + C_BYTES:])


def test_a_handle_that_nothing_was_done_to_is_one(block, peer):
    """The control of the tests below."""
    data = bytes(moiety.ipc.export(block))
    assert sealed(data[HEADER.size:]) == with_c(data) == data
    assert peer.ask(ipc_peer.refusal_of, data) == ("OK", "")


@pytest.mark.parametrize("length", [0, 7, 19, 20, 100, 196, -1])
def test_truncated(block, length):
    data = bytes(moiety.ipc.export(block))
    assert status_of(moiety.ipc.open_handle, data[:length]) == "E_INVALID"
    assert status_of(moiety.ipc.Handle.from_bytes, data + b"\0") == "E_INVALID"


def test_every_changed_byte_is_noticed(block):
    data = bytes(moiety.ipc.export(block))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        assert status_of(moiety.ipc.open_handle, bytes(changed)) in (
            "E_INVALID", "E_CORRUPT", "E_UNSUPPORTED"), at


def test_a_version_of_the_future(block, peer):
    data = bytes(moiety.ipc.export(block))
    future = data[:8] + (2).to_bytes(4, "little") + data[12:] + b"more"
    assert status_of(moiety.ipc.open_handle, future) == "E_UNSUPPORTED"
    status, text = peer.ask(ipc_peer.refusal_of,
                            with_c(data, at_0=struct.pack("=I", 2)))
    assert status == "E_UNSUPPORTED" and "version 2" in text


def test_another_machine(block, peer):
    data = with_c(bytes(moiety.ipc.export(block)), at_112=bytes(16))
    for status, text in (peer.ask(ipc_peer.refusal_of, data),
                         ipc_peer.refusal_of(data)):
        assert status == "E_UNSUPPORTED" and "another machine" in text


def test_an_owner_that_has_ended(pool):
    peer = ipc_peer.Peer()
    handle = peer.ask(ipc_peer.export_one, b"1234")
    peer.end()
    assert status_of(moiety.ipc.open_handle, handle) == "E_PEER_GONE"


@pytest.mark.parametrize("layout", [
    b"", b"[]", b"{}", b"\xff", b"[[4],null,\"|u1\",false]",
    b"[[4097],null,\"|u1\",false,0]", b"[[4],null,\"|u1\",false,4093]",
    b"[[4],null,\"|u1\",false,-1]", b"[[2],[-1],\"|u1\",false,0]",
    b"[[2],[4096],\"|u1\",false,0]", b"[[4],[1,1],\"|u1\",false,0]",
    b"[[0],null,\"|u1\",false,0]", b"[[-1,-1],null,\"|u1\",false,0]",
    b"[[4.5],null,\"|u1\",false,0]", b"[[4],null,\"u\",false,0]",
    b"[[4],null,7,false,0]", b"[[4],null,\"|u1\",false,\"0\"]",
    b"[4,null,\"|u1\",false,0]"])
def test_layouts_that_are_none(block, layout):
    data = bytes(moiety.ipc.export(block))
    forged = sealed(data[HEADER.size:][:C_BYTES] + layout)
    assert status_of(moiety.ipc.open_handle, forged) == "E_CORRUPT"


@pytest.mark.parametrize("thing", [None, "handle", 5, object()])
def test_things_that_are_no_handle(thing):
    with pytest.raises((TypeError, moiety.Error)):
        moiety.ipc.open_handle(thing)


def test_handles_are_values(block):
    handle = moiety.ipc.export(block)
    same = pickle.loads(pickle.dumps(handle))
    other = moiety.ipc.export(Array(block, 8, (2,), "<f8"))
    assert same == handle != other and len({same, handle, other}) == 2
    assert handle != "handle" and len(pickle.dumps(handle)) < 400
    assert "shape (2,)" in repr(other)


# What is exported.

@pytest.mark.parametrize("thing", [None, 5, b"bytes", object()])
def test_things_that_are_no_array(thing):
    with pytest.raises(TypeError, match="neither"):
        moiety.ipc.export(thing)


def test_pinned_memory_is_not_shared():
    with moiety.HostArena() as arena:
        with pytest.raises(TypeError, match="HostBlock .*device memory"):
            moiety.ipc.export(arena.alloc(4096))


def test_memory_of_others(block):
    address = ipc_peer.allocate(4096)
    for owner in (address, 0x1000):
        assert status_of(moiety.ipc.export,
                         Array(owner, 0, (4,), "|u1")) == "E_FOREIGN"
    ipc_peer.free(address)


def test_what_is_imported_is_the_owners_to_export(peer):
    handle = peer.ask(ipc_peer.export_one, b"1234")
    with moiety.ipc.open_handle(handle) as shared:
        assert status_of(moiety.ipc.export, shared) == "E_FOREIGN"
    assert moiety.ipc.trim() == 0
    peer.ask(ipc_peer.drop)


def test_pools_that_do_not_export():
    with moiety.Pool() as pool:
        assert status_of(moiety.ipc.export, pool.alloc(4096)) == "E_UNSUPPORTED"


def test_dead_blocks(block):
    block.free()
    with pytest.raises(ValueError, match="freed"):
        moiety.ipc.export(block)


@pytest.mark.parametrize("offset, shape, strides", [
    (0, (1 << 20,), None), (4095, (2,), None), (0, (2,), (8192,))])
def test_arrays_beyond_their_block(pool, block, offset, shape, strides):
    view = Array(block, offset, shape, "|u1", strides)
    assert status_of(moiety.ipc.export, view) == "E_INVALID"
    # And nothing was exported.
    block.free()
    assert pool.stats().allocation_current == 0


@pytest.mark.parametrize("shape, typestr, strides", [
    ((0,), "|u1", None), ((4, 0), "<f4", None), ((4,), "|V0", None),
    ((-1,), "|u1", None), ((4,), "nonsense", None), ((4,), "|u1", (1, 1))])
def test_shapes_without_memory(block, shape, typestr, strides):
    with pytest.raises(ValueError):
        moiety.ipc.export(Array(block, 0, shape, typestr, strides))


def test_arrays_with_a_mask(block):
    array = Array(block, 0, (4,), "|u1")
    array.__cuda_array_interface__["mask"] = array
    with pytest.raises(TypeError, match="mask"):
        moiety.ipc.export(array)


# DLPack, in and out.

class OnlyDlpack:
    def __init__(self, thing):
        self.__dlpack__ = thing.__dlpack__
        self.__dlpack_device__ = thing.__dlpack_device__


@pytest.mark.parametrize("typestr, shape, strides", [
    ("|u1", (6,), None), ("<f4", (2, 3), (24, 4)), ("<c16", (2,), (-16,)),
    ("|b1", (), None), ("<i8", (3,), None), ("<f2", (2, 2), (2, 8))])
def test_dlpack_says_the_same(block, typestr, shape, strides):
    handle = moiety.ipc.export(Array(block, 1024, shape, typestr, strides))
    with moiety.ipc.open_handle(handle) as shared:
        again = moiety.ipc.export(OnlyDlpack(shared))
        assert again == handle


@pytest.mark.parametrize("typestr, strides, is_readonly", [
    ("|V4", None, False), (">i4", None, False), ("<i4", (6,), False),
    ("<i4", None, True)])
def test_dlpack_refuses_what_it_cannot_say(block, typestr, strides,
                                           is_readonly):
    array = Array(block, 0, (4,), typestr, strides, is_readonly)
    with moiety.ipc.open_handle(moiety.ipc.export(array)) as shared:
        with pytest.raises(BufferError):
            shared.__dlpack__()


def test_dlpack_says_that_an_array_is_read_only(block):
    handle = moiety.ipc.export(Array(block, 0, (4,), "<i4", None, True))
    with moiety.ipc.open_handle(handle) as shared:
        assert moiety.ipc.export(OnlyDlpack(shared)) == handle


def test_dlpack_of_exporters_before_its_version_1(block):
    class Old(OnlyDlpack):
        def __init__(self, thing):
            super().__init__(thing)
            self.__dlpack__ = lambda *, stream: thing.__dlpack__(stream=stream)

    assert moiety.ipc.export(Old(block)) == moiety.ipc.export(block)


@pytest.mark.parametrize("wish", [{"copy": True}, {"dl_device": (1, 0)}])
def test_dlpack_refuses_what_it_is_not(block, wish):
    with moiety.ipc.open_handle(moiety.ipc.export(block)) as shared:
        with pytest.raises(BufferError):
            shared.__dlpack__(**wish)


# Forks and ends.

def test_child_of_a_fork_is_told():
    ended = run_program("""
import moiety.ipc, os
pool = moiety.Pool(exportable=True)
block = pool.alloc(4096)
handle = moiety.ipc.export(block)
child = os.fork()
if child == 0:
    for call, thing in ((moiety.ipc.export, block), (moiety.ipc.open_handle, handle)):
        try:
            call(thing)
        except moiety.Error as error:
            print(error.status, flush=True)
    handle.release()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
handle.release()
""")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED\nE_FORKED\n", "")


def test_exit_with_open_imports_is_silent(peer):
    handle = peer.ask(ipc_peer.export_one, b"1234")
    ended = run_program("""
import moiety.ipc, sys
shared = moiety.ipc.open_handle(bytes.fromhex(sys.argv[1]))
capsule = moiety.ipc.open_handle(bytes.fromhex(sys.argv[1])).__dlpack__()
""", bytes(handle).hex())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    peer.ask(ipc_peer.drop)


def test_closes_that_are_none():
    wait = moiety._native.ipc_wait
    assert status_of(wait, 1 << 60) == "E_INVALID"
    wait(0)
    wait(0, 1e30)
    for call in (wait, moiety.ipc.trim):
        with pytest.raises(OverflowError):
            call(-1)
    for timeout in (-1, float("nan")):
        with pytest.raises(ValueError, match="seconds"):
            wait(0, timeout)
    with pytest.raises(TypeError):
        wait(0, "1")


def test_guard_is_counted():
    moiety._native.capture_guard_begin()
    moiety._native.capture_guard_end()
    assert status_of(moiety._native.capture_guard_end) == "E_INVALID"
