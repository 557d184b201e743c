# SPDX-License-Identifier: Apache-2.0
"""What of a binade_ipc_handle (binade/ipc.h) is read here. The library checks
the whole of it when it is imported."""

import struct

# sizeof(binade_ipc_handle)
BYTES = 176
_SIZE = struct.Struct("=Q")
_SIZE_AT = 88
_UUID = slice(96, 112)
_IDS = struct.Struct("=QQ")
_IDS_AT = 152


def size_bytes(c_bytes):
    """Bytes from what was exported to the end of its block; struct.error for
    too few bytes."""
    return _SIZE.unpack_from(c_bytes, _SIZE_AT)[0]


def device_uuid(c_bytes):
    return c_bytes[_UUID]


def segment_and_generation(c_bytes):
    """(segment_id, generation)."""
    return _IDS.unpack_from(c_bytes, _IDS_AT)
