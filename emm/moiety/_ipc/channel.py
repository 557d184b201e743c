# SPDX-License-Identifier: Apache-2.0
"""A socket on which memory travels, with what it looks like behind it.

The library's own message moves the memory: moiety_ipc_send(). What follows it
are the bytes of the array's Handle, which begin with a word of their own and
say how many they are. So a receiver that finds them first knows that the
message before them was refused.
"""

import errno
import os
import select
import socket

from moiety import _native
from moiety._ipc.handle import HEADER, MAGIC, refusal

# Bytes of a Handle: an array of many dimensions has a few thousand.
MOST = 1 << 16
# As in the library: what is begun is waited for, but not for ever.
_STALL_S = 10

_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT,
         errno.EHOSTUNREACH, errno.ENETUNREACH)
_NO_MEMORY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


def _said(error):
    """What an OSError is called."""
    if error.errno in _GONE:
        return refusal("E_PEER_GONE", "the peer has closed its end of the "
                                      "socket, or is out of reach")
    if error.errno in _NO_MEMORY:
        return refusal("E_NO_HOST_MEMORY", f"the socket: {error}")
    return refusal("E_INVALID", f"the socket: {error}")


def _duplicate(thing):
    """The socket as a descriptor of its own: the caller's may be closed
    meanwhile, and its number be another file's."""
    number = thing if isinstance(thing, int) else thing.fileno()
    blocking = os.get_blocking(number)
    copy = os.dup(number)
    try:
        made = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    # What both share, after socket.setdefaulttimeout() has gone over it.
    made.setblocking(blocking)
    return made


class Channel:
    """A socket, or what has its fileno(), for one message. It waits for the
    peer as the caller's socket does, so with the time limit of that."""

    def __init__(self, thing):
        try:
            self._socket = _duplicate(thing)
        except OSError as error:
            raise _said(error) from None
        except AttributeError:
            raise TypeError(f"a {type(thing).__name__} is no socket: it has no "
                            f"fileno()") from None
        # Of a Python socket, whose descriptor does not block then.
        limit_s = getattr(thing, "gettimeout", lambda: None)()
        if limit_s is not None:
            self._socket.settimeout(limit_s)
        if not self._is_fit():
            self._socket.close()
            raise refusal("E_INVALID", "the descriptor is neither a connected "
                                       "socket of SOCK_STREAM nor a Unix one "
                                       "of SOCK_SEQPACKET")

    def _is_fit(self):
        return ((self._socket.type == socket.SOCK_STREAM
                 or (self._socket.family, self._socket.type)
                 == (socket.AF_UNIX, socket.SOCK_SEQPACKET))
                and not self._socket.getsockopt(socket.SOL_SOCKET,
                                                socket.SO_ACCEPTCONN))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self._socket.close()

    def fileno(self):
        return self._socket.fileno()

    def _is_ready(self, event, limit_s):
        poller = select.poll()
        poller.register(self._socket, event)
        return bool(poller.poll(None if limit_s is None else limit_s * 1000))

    def _await(self, event):
        if not self._is_ready(event, _STALL_S):
            raise refusal("E_TIMEOUT", f"the peer has stopped in the middle of "
                                       f"a message for {_STALL_S} s")

    # Before the library's message. What is wrong with the socket is the
    # library's to say.

    def await_room(self):
        """Until the socket takes something, or never will."""
        limit_s = self._socket.gettimeout()
        if limit_s != 0 and not self._is_ready(select.POLLOUT, limit_s):
            raise _late()

    def await_message(self):
        """Until a message is there, or never will be. The Handle of one that
        was refused is dropped."""
        while self._is_handle_next():
            self.receive_handle()

    def _is_handle_next(self):
        try:
            first = self._socket.recv(len(MAGIC), socket.MSG_PEEK)
        except OSError as error:
            # Python's own has no number.
            if isinstance(error, TimeoutError) and error.errno is None:
                raise _late() from None
            return False
        return bool(first) and MAGIC.startswith(first)

    # Behind it.

    def send_handle(self, data):
        rest = memoryview(data)
        while rest:
            self._await(select.POLLOUT)
            try:
                count = self._socket.send(
                    rest, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except (BlockingIOError, TimeoutError):
                continue
            except OSError as error:
                raise _said(error) from None
            rest = rest[count:]

    def receive_handle(self):
        """The bytes of a Handle: as many as they say."""
        if self._socket.type == socket.SOCK_SEQPACKET:
            data = self._receive_some(MOST)
            if len(data) < HEADER.size or _size_of(data) != len(data):
                raise _no_handle()
            return data
        head = self._receive_all(HEADER.size)
        return head + self._receive_all(_size_of(head) - HEADER.size)

    def _receive_all(self, size):
        data = b""
        while len(data) < size:
            data += self._receive_some(size - len(data))
        return data

    def _receive_some(self, size):
        self._await(select.POLLIN)
        try:
            data = self._socket.recv(size)
        except OSError as error:
            raise _said(error) from None
        if not data:
            raise refusal("E_PEER_GONE", "the peer has closed its end of the "
                                         "socket in the middle of a message")
        return data


def _late():
    return refusal("E_TIMEOUT", "the timeout of the socket is over")


def _no_handle():
    return refusal("E_CORRUPT", "no handle of moiety.ipc follows the memory: "
                                "close the socket")


def _size_of(head):
    """Bytes of the handle that begins so."""
    magic, _, size, _ = HEADER.unpack_from(head)
    if magic != MAGIC or not HEADER.size <= size <= MOST:
        raise _no_handle()
    return size
