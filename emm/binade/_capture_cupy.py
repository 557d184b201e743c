# SPDX-License-Identifier: Apache-2.0
"""CuPy's captures: begin_capture() and end_capture() of its streams."""

import threading

from binade._capture_guard import Captures, replace

MODULE = "cupy.cuda.stream"
# The handle that means another stream in each thread.
PER_THREAD = 2


def key_of(stream):
    """The same for all objects of one stream of the driver: one may begin what
    another ends."""
    thread = threading.get_ident() if stream.ptr == PER_THREAD else None
    return stream.ptr, thread


def is_capturing(stream):
    try:
        return bool(stream.is_capturing())
    except RuntimeError:  # the capture is broken
        return False


def owner_of(stream):
    """The object itself, if the driver's stream goes when it is dropped; None
    if it is one of many for a stream that lives on."""
    is_owner = hasattr(stream, "__del__") and (
        getattr(stream, "_foreign_stream_ref", None) is None)
    return stream if is_owner and stream.ptr != PER_THREAD else None


def patch(module):
    """Returns what undoes it, as a list of functions."""
    captures = Captures()
    kind = next(kind for kind in module.Stream.__mro__
                if "begin_capture" in vars(kind))
    return [
        replace(kind, "begin_capture",
                captures.wrap_begin(kind.begin_capture, key_of, owner_of)),
        replace(kind, "end_capture",
                captures.wrap_end(kind.end_capture, key_of, is_capturing)),
    ]
