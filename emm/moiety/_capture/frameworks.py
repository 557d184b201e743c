# SPDX-License-Identifier: Apache-2.0
"""What the frameworks capture graphs with: which module has it, and what of it
is wrapped. patch() returns what undoes it, as a list of functions."""

import sys
import threading

from moiety._capture.guard import Captures, replace


class Torch:
    """torch.cuda.graph, make_graphed_callables and torch.compile all go through
    torch.cuda.CUDAGraph."""

    MODULE = "torch.cuda.graphs"

    @staticmethod
    def patch(module):
        captures, kind = Captures(), module.CUDAGraph
        undo = [
            replace(kind, "capture_begin",
                    captures.wrap_begin(kind.capture_begin)),
            replace(kind, "capture_end", captures.wrap_end(kind.capture_end)),
        ]
        # Newer ones have the end in two halves, of which this ends the capture.
        if "capture_end_pre" in vars(kind):
            undo.append(replace(kind, "capture_end_pre",
                                captures.wrap_end(kind.capture_end_pre)))
        return undo


class CuPy:
    """begin_capture() and end_capture() of its streams."""

    MODULE = "cupy.cuda.stream"
    # The handle that means another stream in each thread.
    PER_THREAD = 2

    @classmethod
    def _key_of(cls, stream):
        """The same for all objects of one stream of the driver: one may begin
        what another ends."""
        is_threads = stream.ptr == cls.PER_THREAD
        return stream.ptr, threading.get_ident() if is_threads else None

    @staticmethod
    def _is_capturing(stream):
        try:
            return bool(stream.is_capturing())
        except RuntimeError:  # the capture is broken
            return False

    @classmethod
    def _owner_of(cls, stream):
        """The object itself, if the driver's stream goes when it is dropped;
        None if it is one of many for a stream that lives on."""
        is_owner = hasattr(stream, "__del__") and (
            getattr(stream, "_foreign_stream_ref", None) is None)
        return stream if is_owner and stream.ptr != cls.PER_THREAD else None

    @classmethod
    def patch(cls, module):
        captures = Captures()
        kind = next(kind for kind in module.Stream.__mro__
                    if "begin_capture" in vars(kind))
        return [
            replace(kind, "begin_capture", captures.wrap_begin(
                kind.begin_capture, cls._key_of, cls._owner_of)),
            replace(kind, "end_capture", captures.wrap_end(
                kind.end_capture, cls._key_of, cls._is_capturing)),
        ]


class CudaCore:
    """begin_building() and end_building() of its graph builders, and close(),
    which ends what was not ended. A builder that was forked from another
    captures with that one, and one for the body of a conditional node by
    itself."""

    MODULE = "cuda.core"
    # Where it has been: the first is that of 1.0.
    HOLDERS = ("cuda.core.graph", "cuda.core", "cuda.core._graph")

    @classmethod
    def _builder(cls):
        for name in cls.HOLDERS:
            kind = getattr(sys.modules.get(name), "GraphBuilder", None)
            if kind is not None:
                return kind
        raise AttributeError(f"no GraphBuilder in {', '.join(cls.HOLDERS)}")

    @staticmethod
    def _is_building(graph_builder):
        try:
            return graph_builder.is_building
        except Exception:  # closed, or the capture is broken
            return False

    @classmethod
    def patch(cls, _module):
        captures, kind = Captures(), cls._builder()
        return [
            replace(kind, "begin_building",
                    captures.wrap_begin(kind.begin_building)),
            replace(kind, "end_building",
                    captures.wrap_end(kind.end_building,
                                      is_capturing=cls._is_building)),
            replace(kind, "close",
                    captures.wrap_end(kind.close,
                                      is_capturing=cls._is_building)),
        ]
