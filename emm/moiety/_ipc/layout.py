# SPDX-License-Identifier: Apache-2.0
"""How the elements of an array lie in device memory, whosever it is."""

import collections
import math
import operator
import re

from moiety import _native

_TYPESTR = re.compile(r"[<>|=]?([biufcmMSUV])(\d+)(\[\w+\])?")
# The kinds of a typestr that DLPack has: its type codes.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_DLPACK_CUDA = 2

# As in __cuda_array_interface__: strides in bytes, or None for what is
# contiguous in C's order.
Layout = collections.namedtuple("Layout", "shape strides typestr is_readonly")


def item_bytes(typestr):
    """Bytes of an element; ValueError for what is no typestr."""
    match = _TYPESTR.fullmatch(typestr) if isinstance(typestr, str) else None
    if not match:
        raise ValueError(f"{typestr!r} is the type of no array")
    return int(match[2]) * (4 if match[1] == "U" else 1)


def nbytes(layout):
    """Bytes of all elements."""
    return math.prod(layout.shape) * item_bytes(layout.typestr)


def checked(shape, strides, typestr, is_readonly):
    """A Layout of these; TypeError or ValueError for what is none, and for one
    without elements."""
    shape = tuple(map(operator.index, shape))
    if strides is not None:
        strides = tuple(map(operator.index, strides))
        if len(strides) != len(shape):
            raise ValueError(f"{len(strides)} strides for {len(shape)} "
                             f"dimensions")
    layout = Layout(shape, strides, typestr, bool(is_readonly))
    if min(shape, default=1) < 0:
        raise ValueError(f"the shape is {shape}")
    if nbytes(layout) == 0:
        raise ValueError("an array without elements has no memory to share")
    return layout


def extent(layout):
    """(first, end) of the bytes of all elements, from the first element's
    place: `first` is negative where strides are."""
    size = item_bytes(layout.typestr)
    if layout.strides is None:
        return 0, nbytes(layout)
    steps = [stride * (length - 1)
             for stride, length in zip(layout.strides, layout.shape)]
    return (sum(step for step in steps if step < 0),
            sum(step for step in steps if step > 0) + size)


def _of_interface(about):
    if about.get("mask") is not None:
        raise TypeError("an array with a mask cannot be exported")
    address, is_readonly = about["data"]
    return address, checked(about["shape"], about.get("strides"),
                            about["typestr"], is_readonly)


def _of_dlpack(obj):
    if obj.__dlpack_device__()[0] != _DLPACK_CUDA:
        raise TypeError(f"a {type(obj).__name__} that is not in device memory "
                        f"cannot be exported")
    # -1: the exporter orders the work by itself.
    try:
        capsule = obj.__dlpack__(stream=-1, max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0
        capsule = obj.__dlpack__(stream=-1)
    (address, _, (code, bits, lanes), shape, strides,
     is_readonly) = _native._dlpack_read(capsule)
    if code not in _KINDS or lanes != 1 or bits % 8:
        raise TypeError(f"elements of DLPack's type ({code}, {bits}, {lanes}) "
                        f"cannot be exported: export a view of them as bytes")
    typestr = f"{'|' if bits == 8 else '<'}{_KINDS[code]}{bits // 8}"
    if strides is not None:
        strides = tuple(stride * bits // 8 for stride in strides)
    # 0 dimensions may have no shape at all.
    return address, checked(shape or (), strides, typestr, is_readonly)


def layout_of(obj):
    """(address of the first element, Layout) of what has either interface;
    TypeError for what has neither."""
    about = getattr(obj, "__cuda_array_interface__", None)
    if about is not None:
        return _of_interface(about)
    if hasattr(obj, "__dlpack_device__"):
        return _of_dlpack(obj)
    raise TypeError(f"a {type(obj).__name__} has neither "
                    f"__cuda_array_interface__ nor __dlpack__")


def interface_of(layout, address):
    """__cuda_array_interface__, version 3. No "stream": nothing that the
    library knows of is pending."""
    return {"shape": layout.shape, "typestr": layout.typestr,
            "data": (address, layout.is_readonly), "strides": layout.strides,
            "version": 3}


def capsule_of(layout, address, ordinal, owner, max_version=None):
    """A DLPack capsule that keeps the owner; BufferError for what DLPack
    cannot say."""
    kind = _TYPESTR.fullmatch(layout.typestr)[1]
    size = item_bytes(layout.typestr)
    if kind not in _CODES or layout.typestr[0] == ">":
        raise BufferError(f"DLPack has no elements of {layout.typestr}")
    strides = layout.strides
    if strides is not None:
        if any(stride % size for stride in strides):
            raise BufferError("strides are not whole elements")
        strides = tuple(stride // size for stride in strides)
    return _native._dlpack_make(
        owner, address, (_DLPACK_CUDA, ordinal), (_CODES[kind], size * 8),
        layout.shape, strides, max_version, layout.is_readonly)
