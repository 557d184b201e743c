# SPDX-License-Identifier: Apache-2.0
"""Handle: an array in device memory, for another process.

As bytes it is a header, the library's own handle (moiety_ipc_handle, which has
a version and a checksum of its own) and the layout of the array as JSON.
Numbers of the header are little-endian; the library's handle is only good on
the machine that made it.
"""

import json
import operator
import struct
import zlib

from moiety import _native
from moiety._ipc import exports
from moiety._ipc import layout as layouts

VERSION = 1
MAGIC = b"MOIETYIP"
# Magic, version, bytes of it all, CRC-32 of what follows the header.
HEADER = struct.Struct("<8sIII")


# A moiety.Error as the library raises it.
refusal = _native._error_for


def _body_of(data):
    """What follows the header, as it was packed."""
    if len(data) < HEADER.size:
        raise refusal("E_INVALID", f"a handle has at least {HEADER.size} "
                                   f"bytes, this has {len(data)}")
    magic, version, size, checksum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise refusal("E_CORRUPT", "these bytes are no handle of moiety.ipc")
    if version != VERSION:
        raise refusal("E_UNSUPPORTED", f"the handle has version {version}; "
                                       f"this package reads {VERSION}")
    if size != len(data):
        raise refusal("E_INVALID", f"the handle has {size} bytes, of which "
                                   f"{len(data)} are here")
    body = data[HEADER.size:]
    if zlib.crc32(body) != checksum:
        raise refusal("E_CORRUPT", "the handle's bytes are not as they were "
                                   "made")
    return body


def check_inside(layout, first, c_bytes):
    """ValueError for elements outside of what was exported."""
    size = exports.size_bytes(c_bytes)
    low, end = layouts.extent(layout)
    if first + low < 0 or first + end > size:
        raise ValueError(f"the array has bytes {first + low} to {first + end} "
                         f"of {size} in its block")


class Handle:
    """The name of an array in device memory, for other processes of this machine. It is
    small: pickle it, or send bytes(handle). It does not keep the array.

    export() and send() make it, and from_bytes()."""

    __slots__ = ("_bytes", "_c_bytes", "_layout", "_first", "_lease")

    def __init__(self, c_bytes, layout, first, lease=None):
        """Not for programs: moiety.ipc.export() and from_bytes() make them.
        `first`: where the first element is, in bytes from what was exported."""
        self._c_bytes = c_bytes
        self._layout = layout
        self._first = first
        self._lease = lease
        body = c_bytes + json.dumps(
            [*layout, first], separators=(",", ":")).encode()
        self._bytes = HEADER.pack(MAGIC, VERSION, HEADER.size + len(body),
                                   zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data):
        """Returns the handle of these bytes.

        Raises Error by its `status`: "E_INVALID" for another length, "E_UNSUPPORTED" for
        another version, and otherwise "E_CORRUPT"."""
        body = _body_of(bytes(data))
        c_bytes = body[:exports.C_BYTES]
        try:
            *layout, first = json.loads(body[exports.C_BYTES:])
            layout = layouts.checked(*layout)
            check_inside(layout, operator.index(first), c_bytes)
        except (TypeError, ValueError, struct.error) as error:
            raise refusal("E_CORRUPT", f"the handle has no array: {error}")
        return cls(c_bytes, layout, first)

    shape = property(lambda self: self._layout.shape,
                     doc="The shape.")
    strides = property(lambda self: self._layout.strides,
                     doc="The strides, or None.")
    typestr = property(lambda self: self._layout.typestr,
                     doc="The type of the elements, as in __cuda_array_interface__.")
    nbytes = property(lambda self: layouts.nbytes(self._layout),
                      doc="The bytes of the elements.")
    device_uuid = property(
        lambda self: exports.device_uuid(self._c_bytes),
        doc="The UUID of the device, 16 bytes.")
    c_handle = property(
        lambda self: self._c_bytes,
        doc="The moiety_ipc_handle, for moiety_ipc_import() in C.")

    def release(self):
        """Declares, in the exporting process, that no other process has the array open, not
        even kept until trim(). After the last handle of a segment, its handles are stale, and
        freed memory is reused. A second call does nothing.

        Raises InUseError while this process has an import of the segment, and ValueError for a
        handle of another process."""
        if self._lease is None:
            raise ValueError("the handle was not exported by this object: who "
                             "called moiety.ipc.export() or send() can release "
                             "it")
        self._lease.release()

    def place(self, base):
        """Returns (address of the first element, layout) if the exported memory is at
        `base`. The layout is a tuple of shape, strides and typestr. It is for programs that
        import the memory with the C functions."""
        return base + self._first, self._layout

    def __bytes__(self):
        return self._bytes

    def __reduce__(self):
        return Handle.from_bytes, (self._bytes,)

    def __eq__(self, other):
        if not isinstance(other, Handle):
            return NotImplemented
        return self._bytes == other._bytes

    def __hash__(self):
        return hash(self._bytes)

    def __repr__(self):
        return (f"<moiety.ipc.Handle of shape {self.shape}, "
                f"type {self.typestr}>")
