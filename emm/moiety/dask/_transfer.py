# SPDX-License-Identifier: Apache-2.0
"""Blocks as bytes: for other workers, for the client, and for the disk that a
worker spills to. Arrays of CuPy and numba are Dask's own affair.

Contents pass through pinned memory, on the NUMA node next to the device. A
block that arrives is one of the receiver's pool; without room for it there, the
task that uses it is told, as Dask waits for ever where arrival itself fails.
"""

import copyreg
import ctypes
import functools
import threading

from dask.sizeof import sizeof
from distributed.protocol import dask_deserialize, dask_serialize

from moiety import _native
from moiety._support import driver as _driver
from moiety.dask._process import PROCESS

@functools.cache
def _arena(device):
    return _native.HostArena(device)


def _view(block):
    """The bytes of a HostBlock, which keep it."""
    array = (ctypes.c_char * block.nbytes).from_address(_native._show(block))
    array.block = block
    return memoryview(array).cast("B")


def _staging(device, nbytes):
    """Bytes for a copy, pinned where that can be had."""
    try:
        return _view(_arena(device).alloc(nbytes))
    except _native.OutOfMemoryError:
        return memoryview(bytearray(nbytes))


def _address(view):
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _fill(view, frames):
    """With the bytes that came, in however many parts."""
    first = 0
    for frame in frames:
        part = memoryview(frame).cast("B")
        view[first:first + len(part)] = part
        first += len(part)
    if first != len(view):
        raise _native._error_for("E_CORRUPT", f"{first} bytes came, of a block of "
                                   f"{len(view)}")


def _dump_block(block):
    device, nbytes = block.pool.device, block.nbytes
    header = {"nbytes": nbytes}
    if not nbytes:
        return header, []
    view = _staging(device, nbytes)
    with _driver.primary_context(device):
        # Whatever stream writes it.
        _driver.call("cuCtxSynchronize")
        _driver.call("cuMemcpyDtoH_v2", _address(view), block.address, nbytes)
    return header, [view]


def _load_block(header, frames):
    source = PROCESS.source()
    nbytes = header["nbytes"]
    block = source.alloc(nbytes)
    if nbytes:
        device = block.pool.device
        view = _staging(device, nbytes)
        _fill(view, frames)
        with _driver.primary_context(device):
            _driver.call("cuMemcpyHtoD_v2", block.address, _address(view), nbytes)
            # What is not pinned may still be on its way.
            _driver.call("cuCtxSynchronize")
    return block


def _dump_host_block(block):
    header = {"nbytes": block.nbytes, "device": block.arena.device}
    if not block.nbytes:
        return header, []
    with _driver.primary_context(block.arena.device):
        _driver.call("cuCtxSynchronize")
    return header, [_view(block)]


def _load_host_block(header, frames):
    # A worker's devices may be fewer than the sender's.
    device = header["device"]
    if device >= _native.probe(0)["device_count"]:
        device = 0
    block = _arena(device).alloc(header["nbytes"])
    if header["nbytes"]:
        _fill(_view(block), frames)
    return block


class Late:
    """A block that has come, and that there was no memory for. Its first use puts
    it there, or raises what that fails with."""

    def __init__(self, load, header, frames):
        self._load = load
        self._came = header, frames
        self._lock = threading.Lock()
        self._block = None

    def _placed(self):
        with self._lock:
            if self._block is None:
                self._block = self._load(*self._came)
                self._came = None
            return self._block

    def __getattr__(self, name):
        if name.startswith("__") and name not in _INTERFACES:
            raise AttributeError(name)
        return getattr(self._placed(), name)

    def __len__(self):
        return len(self._placed())

    def __int__(self):
        return int(self._placed())

    def __index__(self):
        return int(self._placed())

    def __bytes__(self):
        return bytes(self._placed())


_INTERFACES = ("__cuda_array_interface__", "__array_interface__",
               "__dlpack__", "__dlpack_device__")


_OF_TYPE = {_native.Block: (_dump_block, _load_block),
            _native.HostBlock: (_dump_host_block, _load_host_block)}


def _dump(block):
    """(header, frames) of what _OF_TYPE has, or of a Late one."""
    if isinstance(block, Late):
        came = block._came
        if came is not None:
            return came
        block = block._placed()
    header, frames = _OF_TYPE[type(block)][0](block)
    header["kind"] = type(block).__name__
    return header, frames


def _load(header, frames):
    """At arrival, where nothing is to be raised."""
    load = _OF_TYPE[getattr(_native, header["kind"])][1]
    try:
        return load(header, frames)
    except _native.Error:
        return Late(load, header, frames)


def _reduce(block):
    """For pickle, which does not take frames: for blocks within objects."""
    header, frames = _dump(block)
    return _load, (header, [bytes(frame) for frame in frames])


def _bytes_of(block):
    """For Dask's sums. What is late has its bytes in plain memory."""
    return 0 if isinstance(block, Late) else block.nbytes


def register():
    """Tells Dask, and pickle, of blocks."""
    for kind in (*_OF_TYPE, Late):
        dask_serialize.register(kind, _dump)
        dask_deserialize.register(kind, _load)
        copyreg.pickle(kind, _reduce)
        sizeof.register(kind, _bytes_of)
