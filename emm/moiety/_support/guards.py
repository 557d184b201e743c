# SPDX-License-Identifier: Apache-2.0
"""With-blocks over pairs of calls: the capture guard, and pins."""

import contextlib

from moiety._native import capture_guard_begin, capture_guard_end
from moiety._native import pin as _pin
from moiety._native import unpin as _unpin


@contextlib.contextmanager
def capture_guard():
    """A with-block around the capture of a CUDA graph.

    While it is held, no pool of the process asks the driver whether all work is
    over, which would break the capture. Guards are counted, and any thread can
    hold one. CuPy, PyTorch and cuda.core need none: their captures are noticed.

    Raises ForkedError in the child of a fork.
    """
    capture_guard_begin()
    try:
        yield
    finally:
        capture_guard_end()


def _range_of(array):
    """(address, bytes) of what has its bytes in one piece on the host."""
    interface = getattr(array, "__array_interface__", None)
    if interface is not None and interface.get("strides") is None:
        nbytes = getattr(array, "nbytes", None)
        if nbytes is not None:
            return interface["data"][0], nbytes
    view = memoryview(array)
    if not view.contiguous:
        raise ValueError("the array is not contiguous")
    if view.readonly:
        raise ValueError("the buffer is read-only: a numpy array of it has an "
                         "address")
    import ctypes

    start = ctypes.c_char.from_buffer(view.cast("B")) if view.nbytes else None
    return (0 if start is None else ctypes.addressof(start)), view.nbytes


def pin(array):
    """Pins the memory of a host array in place, so that the device copies it at
    full speed. Pins are counted: call unpin() as often.

    `array` is a contiguous numpy array or another writable buffer. The memory
    must stay until unpin(). A CUDA context must be current.

    Raises OutOfMemoryError if the memory cannot be pinned, and TypeError or
    ValueError for an array without contiguous bytes.
    """
    _pin(*_range_of(array))


def unpin(array):
    """Ends one pin() of the same array. Raises Error if it is not pinned."""
    _unpin(*_range_of(array))


@contextlib.contextmanager
def pinned(array):
    """A with-block in which the memory of a host array is pinned, as by pin().
    The with-block returns the array."""
    place = _range_of(array)
    _pin(*place)
    try:
        yield array
    finally:
        _unpin(*place)
