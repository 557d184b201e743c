# SPDX-License-Identifier: Apache-2.0
"""Device memory shared between processes of one machine, without a copy.

    # The owner
    pool = binade.Pool(exportable=True)
    array = cupy.asarray(pool.alloc(1 << 20))
    handle = binade.ipc.export(array[4096:])    # any array of the pool's
    connection.send(handle)                     # or socket.sendall(bytes(handle))

    # The other
    with binade.ipc.open(connection.recv()) as shared:
        array = cupy.asarray(shared)            # numba, torch: the same way
        ...
    binade.ipc.trim()                           # nothing of it is open any more
    connection.send("done")

    # The owner, when it was told
    handle.release()

There is no channel between the two but the program's own. emm/examples/ipc.py
is the whole program; docs/ipc.md has the contract.

Before the owner sends. What the other shall see must be over: synchronise the
stream that writes it.

While it is shared. Both may read and write at any time, each ordering its own
work; the other side's is ordered by messages. An importer can reach the whole
segment that the array is in: share with whom you trust, from a pool of its own.

When it is over. An importer says "done" when its import is closed: then the
owner may write the array again. It says "nothing of it open" after trim(): then
the owner may call Handle.release(). Until that an exported block that is freed
does not serve again, its segment is not trimmed, and its pool stays alive, also
where the program has dropped it: peers may still be reading there. Pool.close()
does not wait for them.

Sizes are in bytes. Streams are those of the package; ANY, the default, waits for
all work of the context. All functions may be called by any thread; they release
the GIL while they call the driver. Errors are binade.Error, with .status as in
docs/ipc.md; in the child of a fork it is "E_FORKED": start processes by spawn.
"""

import functools

from binade import _native
from binade._ipc import layout as _layouts
from binade._ipc.exports import export as _export
from binade._ipc.handle import Handle, check_inside, refusal

__all__ = ["Handle", "Import", "export", "open", "trim", "wait"]


def export(obj):
    """A Handle of an array in the memory of an exportable pool: the same array,
    with its offset, shape, strides and type, for binade.ipc.open() elsewhere.

    obj: what has __cuda_array_interface__ or __dlpack__: a binade.Block, an
        array of CuPy, numba or torch, a view or slice of one.

    Raises TypeError for what is no array in device memory; ValueError for one
    without elements, or that was freed; binade.Error with the status
        E_FOREIGN      no pool of this process has it: memory of cudaMalloc(),
                       of another library's pool, or itself imported,
        E_UNSUPPORTED  its pool was not made with exportable=True,
        E_INVALID      it reaches beyond its block, or is in none: a block that
                       was freed is noticed only where a second free would be.
    """
    address, layout = _layouts.layout_of(obj)
    low, _ = _layouts.extent(layout)
    pool = _native.pool_of(address + low)
    if pool is None:
        raise refusal("E_FOREIGN", f"address {address + low:#x} is in no "
                                   f"binade.Pool of this process")
    c_bytes, lease = _export(pool, address + low)
    try:
        check_inside(layout, -low, c_bytes)
    except ValueError as error:
        lease.release()
        raise refusal("E_INVALID", str(error)) from None
    return Handle(c_bytes, layout, -low, lease)


@functools.lru_cache
def _ordinal_of(uuid):
    """Of a device that this process has."""
    for ordinal in range(_native.probe()["device_count"]):
        if _native.probe(ordinal)["uuid"] == uuid:
            return ordinal
    raise refusal("E_NO_DEVICE", "the device is not among those of this "
                                 "process")


class Import:
    """An array of another process's, as long as this object, or a DLPack
    capsule or an array made of it, is there, and until close().

    shape, strides, typestr, nbytes: of the array.
    device: ordinal of the device that has it, in this process.
    """

    __slots__ = ("_opened", "_handle", "device", "__weakref__")

    def __init__(self, handle, context=0):
        """Not for programs: binade.ipc.open()."""
        self._handle = handle
        self._opened = _native._Import(handle.c_handle, context)
        self.device = _ordinal_of(handle.device_uuid)

    shape = property(lambda self: self._handle.shape)
    strides = property(lambda self: self._handle.strides)
    typestr = property(lambda self: self._handle.typestr)
    nbytes = property(lambda self: self._handle.nbytes)
    is_open = property(lambda self: self._opened.is_open,
                       doc="False after close().")
    address = property(
        lambda self: self._handle.place(self._opened.address)[0],
        doc="Of the first element.")

    @property
    def stream(self):
        """The stream whose queued work uses the memory last, for the close:
        ANY, unless another is assigned."""
        return self._opened.stream

    @stream.setter
    def stream(self, stream):
        self._opened.stream = stream

    def close(self, stream=None, wait=True):
        """Ends the import; what arrays were made of it must not be used any
        more. A second call does nothing.

        stream: the one whose queued work uses the memory last; self.stream.
        wait: return when that work is over, so that the owner may be told.
            False: at once, with a number to give to wait().

        Raises binade.Error, E_BUSY, while the stream captures a graph or, for
        ANY, a capture guard is held; it is open then as before.
        """
        number = self._opened.close(
            self._opened.stream if stream is None else stream, wait)
        return None if wait else number

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    @property
    def __cuda_array_interface__(self):
        address, layout = self._handle.place(self._opened.address)
        return _layouts.interface_of(layout, address)

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None,
                   copy=None):
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the array is on another device")
        if copy:
            raise BufferError("an import is never copied")
        address, layout = self._handle.place(self._opened.address)
        return _layouts.capsule_of(layout, address, self.device,
                                      self._opened)

    def __repr__(self):
        return (f"<binade.ipc.Import of shape {self.shape}, type "
                f"{self.typestr}, {'open' if self.is_open else 'closed'}>")


def open(handle, context=0):
    """An Import of what another process exported. Each segment is opened once
    in a process, however many of its arrays are; that calls the driver.

    handle: a Handle, or its bytes.
    context: the CUcontext that is to use it, as a number. 0: the thread's
        current one, or else the primary context of the array's device, which
        is kept for as long as the segment is open.

    A handle that this very process exported gives the array itself; the driver
    is not asked. Raises binade.Error with the status
        E_INVALID, E_CORRUPT   bytes that are no handle: truncated, changed,
        E_UNSUPPORTED          another version; made on another machine, or
                               before the last boot; a device out of reach,
        E_NO_DEVICE            this process does not see the array's device,
        E_PEER_GONE, E_STALE   the owner has ended, or released it,
        E_FORKED               in the child of a fork.
    """
    if not isinstance(handle, Handle):
        handle = Handle.from_bytes(handle)
    return Import(handle, context)


def wait(number, timeout_ms=1000):
    """Waits until the work behind a close(wait=False) is over; binade.Error,
    E_BUSY, after `timeout_ms` milliseconds. 0 only asks."""
    _native.ipc_wait(number, timeout_ms)


def trim(keep_count=0):
    """Gives the segments back to the driver that no import uses, but for
    `keep_count`. How many this process has open afterwards: 0 means that owners
    may be told to release theirs. The driver waits for all work that is queued
    in the process."""
    return _native.ipc_trim(keep_count)
