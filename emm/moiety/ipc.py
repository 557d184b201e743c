# SPDX-License-Identifier: Apache-2.0
"""Device memory shared between processes, without a copy.

    # The owner
    pool = moiety.Pool(exportable=True)
    array = cupy.asarray(pool.alloc(1 << 20))
    handle = moiety.ipc.export(array[4096:])    # any array of the pool
    connection.send(handle)                     # or socket.sendall(bytes(handle))

    # The other process
    with moiety.ipc.open_handle(connection.recv()) as shared:
        array = cupy.asarray(shared)            # numba, PyTorch: the same way
        ...
    moiety.ipc.trim()                           # nothing of it is open any more
    connection.send("done")

    # The owner, after "done"
    handle.release()

The program provides the channel between the two. emm/examples/ipc.py is the whole
program; docs/ipc.md has the contract.

Mapped memory travels through a Unix socket as file descriptors. If the devices have
fabric handles, it also travels through TCP, to other machines too. Other memory can
take the same way within a machine:

    # The owner
    pool = moiety.Pool(memory="mapped", exportable=True)
    array = cupy.asarray(pool.alloc(1 << 20))
    handle = moiety.ipc.send(array, socket)

    # The other process
    with moiety.ipc.receive(socket) as shared:
        array = cupy.asarray(shared)

**Before the owner sends.** Synchronize the stream that writes the array.

**While it is shared.** Both processes can read and write at any time. Each orders its
own work, and messages order the other's. An importer can reach the whole segment of
the array: share with processes that you trust, from a pool for that purpose.

**When it is over.** After close() of its import, an importer reports "done": the owner
can write the array again. After trim(), it reports that nothing is open: the owner
can call Handle.release(). Until then a freed block is not reused, its segment is not
trimmed, and its pool stays alive. Pool.close() does not wait for importers.

Sizes are in bytes. ANY, the default stream, waits for all work of the context.
Threads: any. In the child of a fork, all calls raise ForkedError: start processes by
spawn."""

import functools

from moiety import _native
from moiety._ipc import channel as _channels
from moiety._ipc import exports as _exports
from moiety._ipc import layout as _layouts
from moiety._ipc.handle import Handle, check_inside, refusal

__all__ = ["Closing", "Handle", "Import", "export", "open_handle", "receive",
           "send", "trim"]


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
    """Returns a Handle of an array in the memory of an exportable pool, with its shape,
    strides and type, for open_handle() in another process.

    obj  an object with __cuda_array_interface__ or __dlpack__: a moiety.Block, or an
         array, view or slice of CuPy, numba or PyTorch.

    Raises TypeError for an object that is no array in device memory. Raises ValueError
    for an array without elements, and ClosedError for freed memory. Other errors by
    their `status`:

    E_FOREIGN      the memory is of no pool of this process.
    E_UNSUPPORTED  the pool is not exportable, the memory is mapped (use send()), or
                   it is of a pausable tenant.
    E_INVALID      the array reaches beyond its block, or is in no block."""
    return _named(obj, _exports.export)[2]


def send(obj, socket):
    """Sends an array in the memory of an exportable pool to the process at the other end
    of a socket, which calls receive(). Returns its Handle, for release() after the peer
    has nothing of it open. The call waits for the peer while the socket's buffer is full.

    obj     as for export(). The memory can be mapped.
    socket  a connected Unix socket, of SOCK_STREAM or SOCK_SEQPACKET, or another of
            SOCK_STREAM, such as TCP. It is a socket.socket, a Connection of
            multiprocessing.Pipe(), another object with fileno(), or the descriptor.
            One thread at a time sends on it.

    The bytes of the Handle are valid for open_handle() in a process that has received
    the array and still has it open. If the memory is not mapped, they are valid in all
    processes of the machine.

    Raises the errors of export(), and others by their `status`:

    E_INVALID      no such socket. Nothing was sent.
    E_UNSUPPORTED  mapped memory without fabric handles on another socket than a Unix
                   one. Nothing was sent.
    E_WOULD_BLOCK  the socket does not block, and accepts nothing.
    E_TIMEOUT      the socket accepted nothing within its timeout. Or the peer stopped
                   for ten seconds in the middle.
    E_PEER_GONE    the peer has closed its end.

    After an error in the middle, close the socket. Nothing counts as exported after an
    error, except E_TIMEOUT after the peer has received the memory. In that case it
    counts until Pool.release_exports()."""
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


class Closing:
    """The work behind an Import that close(wait=False) has closed."""

    __slots__ = ("_number",)

    def __init__(self, number):
        self._number = number

    def wait(self, timeout=None):
        """Waits until the work is over. Then the owner may be notified.

        timeout  in seconds; None waits without a limit, 0 only looks.

        Raises TimedOutError after the timeout.
        """
        if self._number:
            _native.ipc_wait(self._number, timeout)
            self._number = 0


class Import:
    """An array of another process. It stays open while this object, or an array or DLPack
    capsule of it, exists, until close(). open_handle() and receive() make it.

    `device` is the ordinal of the device in this process."""

    __slots__ = ("_opened", "_handle", "device", "__weakref__")

    def __init__(self, handle, opened):
        """Not for programs: moiety.ipc.open_handle() and receive()."""
        self._handle = handle
        self._opened = opened
        self.device = _ordinal_of(handle.device_uuid)

    shape = property(lambda self: self._handle.shape,
                     doc="The shape.")
    strides = property(lambda self: self._handle.strides,
                     doc="The strides, or None.")
    typestr = property(lambda self: self._handle.typestr,
                     doc="The type of the elements, as in __cuda_array_interface__.")
    nbytes = property(lambda self: self._handle.nbytes,
                     doc="The bytes of the elements.")
    is_open = property(lambda self: self._opened.is_open,
                       doc="False after close().")
    address = property(
        lambda self: self._handle.place(self._opened.address)[0],
        doc="The address of the first element.")

    @property
    def stream(self):
        """The stream whose queued work uses the memory last, for close(): ANY unless another
        is assigned."""
        return self._opened.stream

    @stream.setter
    def stream(self, stream):
        self._opened.stream = stream

    def close(self, stream=None, wait=True):
        """Ends the import. Arrays of it must not be used any more. A second call does
        nothing.

        stream  the stream whose queued work uses the memory last; None is `stream` of
                this object.
        wait    waits until that work is over, so that the owner can be notified. False
                returns a Closing at once.

        Raises CapturingError while the stream captures a graph, or, for ANY, while a capture
        guard is held. The import stays open then."""
        number = self._opened.close(
            self._opened.stream if stream is None else stream, wait)
        return None if wait else Closing(number)

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


def open_handle(handle, context=None):
    """Returns an Import of an array that another process exported. A process opens each
    segment once, for all of its arrays.

    handle   a Handle, or its bytes.
    context  the address of the CUcontext that uses the memory. None is the thread's
             current one, or otherwise the primary context of the array's device.

    A handle of this very process returns the array itself. Raises errors by their
    `status`:

    E_INVALID, E_CORRUPT  the bytes are no handle, or were changed.
    E_UNSUPPORTED         another version, another machine, a boot since then, or a
                          device out of reach.
    E_NO_DEVICE           this process does not see the device of the array.
    E_PEER_GONE, E_STALE  the owner has ended, or released the array. Or the memory is
                          mapped, and this process has not received it."""
    if not isinstance(handle, Handle):
        handle = Handle.from_bytes(handle)
    return Import(handle, _native._Import(handle.c_handle, context))


def receive(socket, context=None):
    """Receives an array that the process at the other end sent with send(), and returns an
    Import. The call waits for it.

    socket   as for send(). One thread at a time receives on it. The program can use
             the socket between two arrays.
    context  as for open_handle().

    Raises the errors of open_handle(), after which the next array can be received, and
    these:

    E_INVALID      no such socket, or no such context.
    E_WOULD_BLOCK  the socket does not block, and nothing has arrived.
    E_TIMEOUT      nothing has arrived within the socket's timeout. Or the peer stopped
                   for ten seconds in the middle: close the socket.
    E_PEER_GONE    the peer has closed its end, or the owner has ended.
    E_CORRUPT      the message is no array: close the socket.

    Raises OutOfMemoryError if no file descriptors are available."""
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


def trim(keep_count=0):
    """Returns segments that no import uses to the driver, except `keep_count`. Returns how
    many segments this process still has open. With 0, the owners can be notified to
    release theirs. The driver waits for all queued work of the process."""
    return _native.ipc_trim(keep_count)
