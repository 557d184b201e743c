# SPDX-License-Identifier: Apache-2.0
"""binade.ipc across processes that were spawned."""

import gc
import pickle
import socket

import binade
import binade.ipc
import ipc_peer
import pytest

KIB = 1 << 10
MIB = 1 << 20
DATA = bytes(range(256)) * 16


@pytest.fixture(name="pool")
def exportable_pool():
    with binade.Pool(exportable=True) as pool:
        yield pool
        pool.release_exports(0)
        gc.collect()  # an exception that was caught keeps the test's variables
        assert pool.stats()["allocation.all.current"] == 0


@pytest.fixture(name="peer", scope="module")
def spawned_peer():
    peer = ipc_peer.Peer()
    yield peer
    peer.end()


class Array:
    """A view of somebody else's memory, by the array interface."""

    def __init__(self, owner, offset, shape, typestr, strides=None,
                 is_readonly=False):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "strides": strides,
            "data": (owner.address + offset, is_readonly), "version": 3}


def block_with(pool, data):
    block = pool.alloc(len(data))
    ipc_peer.write(block.address, data)
    return block


def test_peer_has_the_block_and_writes_it(pool, peer):
    pool.alloc(4096)
    block = block_with(pool, DATA)
    about, found = peer.ask(ipc_peer.visit, binade.ipc.export(block), b"back")
    assert found == DATA
    assert about["shape"] == (4096,) and about["typestr"] == "|u1"
    assert ipc_peer.read(block.address, 8) == b"back" + DATA[4:8]


@pytest.mark.parametrize("offset, shape, typestr, strides", [
    (512, (3, 5), "<f4", None),
    (513, (7,), "|u1", None),
    (1024, (4, 8), "<i8", (128, 16)),
    (0, (16, 4), "<f2", (2, 32)),
    (255, (256,), "|i1", (-1,)),
    (8, (), "<c8", None),
    (16, (5,), "|V7", None),
])
def test_peer_has_a_view_as_it_was(pool, peer, offset, shape, typestr, strides):
    block = block_with(pool, DATA)
    view = Array(block, offset, shape, typestr, strides, True)
    handle = binade.ipc.export(view)
    about, found = peer.ask(ipc_peer.visit, handle)
    assert about["data"][1] is True
    assert (about["shape"], about["typestr"], about["strides"]) == (
        shape, typestr, strides)
    wanted = DATA[offset:offset + handle.nbytes]
    assert found == wanted
