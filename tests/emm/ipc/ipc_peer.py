# SPDX-License-Identifier: Apache-2.0
"""What the tests of moiety.ipc share: functions for a process that was spawned,
and the driver for both sides, whichever is there."""

import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import socket

import moiety.ipc

IS_STANDIN = moiety.probe()["is_standin"]


def driver():
    return ctypes.CDLL(os.environ.get("MOIETY_DRIVER", "libcuda.so.1"))


def call(name, *arguments):
    status = getattr(driver(), name)(*arguments)
    assert status == 0, (name, status)


def current_context():
    """As a number; 0: none."""
    context = ctypes.c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(context))
    return context.value or 0


@contextlib.contextmanager
def primary_context():
    """Current in the block, and as a number."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxPushCurrent_v2", context)
    try:
        yield context.value
    finally:
        call("cuCtxPopCurrent_v2", ctypes.byref(context))
        call("cuDevicePrimaryCtxRelease_v2", 0)


@contextlib.contextmanager
def further_context():
    """A context that ends with the block; current in it, and as a number."""
    context = ctypes.c_void_p()
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    try:
        yield context.value
    finally:
        call("cuCtxDestroy_v2", context)


def read(address, nbytes):
    """The bytes that are there."""
    data = ctypes.create_string_buffer(nbytes)
    with primary_context():
        call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address),
             ctypes.c_size_t(nbytes))
    return data.raw


def write(address, data):
    with primary_context():
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data,
             ctypes.c_size_t(len(data)))


def synchronize():
    with primary_context():
        call("cuCtxSynchronize")


def allocate(nbytes):
    """Memory of the driver's, which no pool has."""
    address = ctypes.c_uint64()
    with primary_context():
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
    return address.value


def free(address):
    with primary_context():
        call("cuMemFree_v2", ctypes.c_uint64(address))


@contextlib.contextmanager
def busy_stream():
    """A stream of the current context with work that, on the stand-in, waits
    for a call of the function that comes with it."""
    stream, scratch = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuMemAlloc_v2", ctypes.byref(scratch), ctypes.c_size_t(512))
    if IS_STANDIN:
        call("moiety_standin_hold", stream)
    call("cuMemsetD8Async", scratch, 0, ctypes.c_size_t(512), stream)
    releases = ["moiety_standin_release"] if IS_STANDIN else []

    def end():
        while releases:
            call(releases.pop(), stream)

    try:
        yield stream.value, end
    finally:
        end()
        call("cuStreamDestroy_v2", stream)
        call("cuMemFree_v2", scratch)


def descriptors():
    """How many this process has; a GPU's driver opens some when it likes."""
    return len(os.listdir("/proc/self/fd")) if IS_STANDIN else 0


class Array:
    """A view of somebody else's memory, by the array interface. The owner is a
    block, or an address."""

    def __init__(self, owner, offset, shape, typestr, strides=None,
                 is_readonly=False):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "strides": strides,
            "data": (int(owner) + offset, is_readonly), "version": 3}


class Peer:
    """A process that was spawned, and calls functions of this module."""

    def __init__(self):
        self._executor = concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"))

    def ask(self, function, *arguments):
        return self._executor.submit(function, *arguments).result(timeout=120)

    def end(self):
        self._executor.shutdown()


# Between two calls.
_kept = []
_exported = []


def visit(handle, answer=b""):
    """What the array looks like here and the bytes from its first element on
    (one, where they go backwards); then `answer` is written there. At the end
    nothing is open."""
    with moiety.ipc.open_handle(handle) as shared:
        about = shared.__cuda_array_interface__
        is_backwards = min(shared.strides or (0,)) < 0
        found = read(shared.address, 1 if is_backwards else shared.nbytes)
        write(shared.address, answer)
    assert moiety.ipc.trim() == 0
    return about, found


def keep(handle):
    _kept.append(moiety.ipc.open_handle(handle))
    return _kept[-1].address


def visit_kept(handle):
    """The bytes of one that is open already."""
    with moiety.ipc.open_handle(handle) as shared:
        return read(shared.address, shared.nbytes)


def serve(connection):
    """One handle over a socket, behind its length."""
    with connection:
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "little")
        handle = moiety.ipc.Handle.from_bytes(
            connection.recv(size, socket.MSG_WAITALL))
        _, found = visit(handle, b"bye!")
        connection.sendall((b"bye!" + found).ljust(64, b"\0"))


def drop():
    """Nobody has what this process exported; how many segments of others it has
    open itself afterwards."""
    _kept.clear()
    while _exported:
        _exported.pop().release()
    return moiety.ipc.trim()


def refusal_of(handle):
    """The status and the text of the error that opening it raises."""
    try:
        moiety.ipc.open_handle(handle)
    except moiety.Error as error:
        return error.status, str(error)
    return "OK", ""


def export_one(data):
    """A pool of this process's own, and a handle of what is in it."""
    pool = moiety.Pool(exportable=True)
    block = pool.alloc(len(data))
    write(block.address, data)
    _kept.append(block)
    _exported.append(moiety.ipc.export(block))
    return _exported[-1]


# Over a socket.

_sockets = []


def take_socket(ours):
    """For the functions below."""
    while _sockets:
        _sockets.pop().close()
    _sockets.append(ours)


def receive_one(answer=b""):
    """As visit(), of what comes through the socket; it stays open."""
    with moiety.ipc.receive(_sockets[0]) as shared:
        about = shared.__cuda_array_interface__
        found = read(shared.address, shared.nbytes)
        write(shared.address, answer)
    return about, found


def send_one(data, memory):
    """As export_one(), through the socket."""
    pool = moiety.Pool(exportable=True, memory=memory)
    block = pool.alloc(len(data))
    write(block.address, data)
    _kept.append(block)
    _exported.append(moiety.ipc.send(block, _sockets[0]))


def keep_received(ours):
    """In a process of its own, which is killed: says that it has the memory."""
    shared = moiety.ipc.receive(ours)
    ours.sendall(read(shared.address, 1))
    ours.recv(1)


def send_half(ours):
    """In a process of its own: the memory, and not what it looks like."""
    pool = moiety.Pool(exportable=True, memory="mapped")
    pool.send(pool.alloc_raw(4096), ours.fileno())
    os._exit(0)
