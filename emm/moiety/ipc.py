# SPDX-License-Identifier: Apache-2.0
"""Device memory shared between processes, without a copy.

    # The owner
    pool = moiety.Pool(exportable=True)
    array = cupy.asarray(pool.alloc(1 << 20))
    handle = moiety.ipc.export(array[4096:])    # any array of the pool's
    connection.send(handle)                     # or socket.sendall(bytes(handle))

    # The other
    with moiety.ipc.open(connection.recv()) as shared:
        array = cupy.asarray(shared)            # numba, torch: the same way
        ...
    moiety.ipc.trim()                           # nothing of it is open any more
    connection.send("done")

    # The owner, when it was told
    handle.release()

There is no channel between the two but the program's own. emm/examples/ipc.py
is the whole program; docs/ipc.md has the contract.

Memory of a mapped pool travels through a Unix socket, as file descriptors, or
through TCP, also to another machine, where the devices have fabric handles.
Other memory can go the same way within a machine:

    # The owner
    pool = moiety.Pool(memory="mapped", exportable=True)
    array = cupy.asarray(pool.alloc(1 << 20))
    handle = moiety.ipc.send(array, socket)

    # The other
    with moiety.ipc.receive(socket) as shared:
        array = cupy.asarray(shared)

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
the GIL while they call the driver. Errors are moiety.Error, with .status as in
docs/ipc.md; in the child of a fork it is "E_FORKED": start processes by spawn.
"""

import functools

from moiety import _native
from moiety._ipc import channel as _channels
from moiety._ipc import exports as _exports
from moiety._ipc import layout as _layouts
from moiety._ipc.handle import Handle, check_inside, refusal

__all__ = ["Handle", "Import", "export", "open", "receive", "send", "trim",
           "wait"]


def _named(obj, name):
    """(its pool, the address of its first byte, its Handle) of an array; `name`
    is export() or ticket() of exports.py."""
    address, layout = _layouts.layout_of(obj)
    low, _ = _layouts.extent(layout)
    first = address + low
    pool = _native.pool_of(first)
    if pool is None:
        raise refusal("E_FOREIGN", f"address {first:#x} is in no moiety.Pool "
                                   f"of this process")
    c_bytes, lease = name(pool, first)
    try:
        check_inside(layout, -low, c_bytes)
    except ValueError as error:
        lease.release()
        raise refusal("E_INVALID", str(error)) from None
    return pool, first, Handle(c_bytes, layout, -low, lease)


def export(obj):
    """A Handle of an array in the memory of an exportable pool: the same array,
    with its offset, shape, strides and type, for moiety.ipc.open() elsewhere.

    obj: what has __cuda_array_interface__ or __dlpack__: a moiety.Block, an
        array of CuPy, numba or torch, a view or slice of one.

    Raises TypeError for what is no array in device memory; ValueError for one
    without elements, or that was freed; moiety.Error with the status
        E_FOREIGN      no pool of this process has it: memory of cudaMalloc(),
                       of another library's pool, or itself imported,
        E_UNSUPPORTED  its pool was not made with exportable=True; its memory is
                       mapped: send() shares that; it is of a tenant that can be
                       paused,
        E_INVALID      it reaches beyond its block, or is in none: a block that
                       was freed is noticed only where a second free would be.
    """
    return _named(obj, _exports.export)[2]


def send(obj, socket):
    """Sends an array in the memory of an exportable pool, mapped or not, to the
    process at the other end of a socket, which takes it by receive(). Waits for
    the peer while the socket's buffer is full.

    obj: as for export().
    socket: a connected Unix socket, of SOCK_STREAM or SOCK_SEQPACKET, or
        another of SOCK_STREAM, as of TCP: a socket.socket, a multiprocessing
        Connection of a Pipe(), whatever has fileno(), or the descriptor itself.
        One thread at a time sends on it.

    Returns the Handle, as export() does: to be released when the peer has
    nothing of it open any more. Its bytes are good for open() in a process that
    has received the array and not given it back; where the memory is not
    mapped, in any process.

    First goes the message of moiety_ipc_send(), of mapped memory with a file
    descriptor of each piece that the array's block is in, or, where the socket
    is no Unix one, a fabric handle; then, on the same socket, bytes(handle), which has the offset, shape, strides and type.

    Raises what export() does, but for mapped memory; and moiety.Error with the
    status
        E_INVALID      no such socket: nothing was sent,
        E_UNSUPPORTED  mapped memory without fabric handles, and no Unix socket:
                       nothing was sent,
        E_BUSY         the socket does not block, or has a time limit, and takes
                       nothing: nothing was sent. Or the peer stopped for ten
                       seconds in the middle,
        E_PEER_GONE    the peer has closed its end,
    or another one, or moiety.OutOfMemoryError, where no descriptors are to be
    had. Where a part may have been sent, close the socket. Nothing counts as
    exported after an error, but for E_BUSY where the peer has got the memory:
    then it counts until Pool.release_exports().
    """
    with _channels.Channel(socket) as channel:
        pool, address, handle = _named(obj, _exports.ticket)
        try:
            if len(bytes(handle)) > _channels.MOST:
                raise refusal("E_INVALID", "the array has too many dimensions")
            channel.await_room()
            pool.send(address, channel.fileno())
        except BaseException:
            handle.release()
            raise
        try:
            channel.send_handle(bytes(handle))
        except _native.Error as error:
            # One that lives may have the memory.
            if error.status == "E_PEER_GONE":
                handle.release()
            raise
        return handle


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

    def __init__(self, handle, opened):
        """Not for programs: moiety.ipc.open() and receive()."""
        self._handle = handle
        self._opened = opened
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

        Raises moiety.Error, E_BUSY, while the stream captures a graph or, for
        ANY, a capture guard is held; it is open then as before.
        """
        number = self._opened.close(
            self._opened.stream if stream is None else stream, wait)
        return None if wait else number

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.close()
        except _native.Error as refusal:
            if error is None:
                raise
            _native._note_refusal(error, self, refusal)

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
                                   self._opened, max_version)

    def __repr__(self):
        return (f"<moiety.ipc.Import of shape {self.shape}, type "
                f"{self.typestr}, {'open' if self.is_open else 'closed'}>")


def open(handle, context=0):
    """An Import of what another process exported. Each segment is opened once
    in a process, however many of its arrays are; that calls the driver.

    handle: a Handle, or its bytes.
    context: the CUcontext that is to use it, as a number. 0: the thread's
        current one, or else the primary context of the array's device, which
        is kept for as long as the segment is open.

    A handle that this very process exported gives the array itself; the driver
    is not asked. Raises moiety.Error with the status
        E_INVALID, E_CORRUPT   bytes that are no handle: truncated, changed,
        E_UNSUPPORTED          another version; made on another machine, or
                               before the last boot; a device out of reach,
        E_NO_DEVICE            this process does not see the array's device,
        E_PEER_GONE, E_STALE   the owner has ended, or released it; of mapped
                               memory, this process has not received it,
        E_FORKED               in the child of a fork.
    """
    if not isinstance(handle, Handle):
        handle = Handle.from_bytes(handle)
    return Import(handle, _native._Import(handle.c_handle, context))


def receive(socket, context=0):
    """An Import of the array that the process at the other end sent by send();
    waits for it. Memory that this process has open already is not opened again,
    and all descriptors that came are closed.

    socket: as for send(). One thread at a time receives on it, and nothing but
        arrays is on its way; between two of them the program may use it.
    context: as for open().

    Raises moiety.Error with the status
        E_INVALID      no such socket; nothing was received. Or `context` is
                       none,
        E_BUSY         the socket does not block, or has a time limit, and there
                       is nothing yet. Or the peer stopped for ten seconds in
                       the middle: close the socket,
        E_PEER_GONE    the peer has closed its end, perhaps in the middle; or,
                       of memory that is not mapped, the owner has ended,
        E_CORRUPT      what came is no array: close the socket,
        or another one of open();
    moiety.OutOfMemoryError where there are no descriptors. Nothing is open
    then, and after another status of open() the next array can be received.
    """
    with _channels.Channel(socket) as channel:
        channel.await_message()
        opened, c_bytes = _native._ipc_receive(channel.fileno(), context)
        try:
            handle = Handle.from_bytes(channel.receive_handle())
            if handle.c_handle != c_bytes:
                raise refusal("E_CORRUPT", "the handle is not of the memory "
                                           "that came with it")
            return Import(handle, opened)
        except BaseException:
            opened.close(_native.DONE)
            raise


def wait(number, timeout_ms=1000):
    """Waits until the work behind a close(wait=False) is over; moiety.Error,
    E_BUSY, after `timeout_ms` milliseconds. 0 only asks."""
    _native.ipc_wait(number, timeout_ms)


def trim(keep_count=0):
    """Gives the segments back to the driver that no import uses, but for
    `keep_count`. How many this process has open afterwards: 0 means that owners
    may be told to release theirs. The driver waits for all work that is queued
    in the process."""
    return _native.ipc_trim(keep_count)
