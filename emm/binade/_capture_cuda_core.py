# SPDX-License-Identifier: Apache-2.0
"""cuda.core's captures: begin_building() and end_building() of its graph
builders, and close(), which ends what was not ended. A builder that was forked
from another captures with that one, and one for the body of a conditional node
by itself."""

import sys

from binade._capture_guard import Captures, replace

MODULE = "cuda.core"
# Where it has been: the first is that of 1.0.
HOLDERS = ("cuda.core.graph", "cuda.core", "cuda.core._graph")


def builder():
    for name in HOLDERS:
        kind = getattr(sys.modules.get(name), "GraphBuilder", None)
        if kind is not None:
            return kind
    raise AttributeError(f"no GraphBuilder in {', '.join(HOLDERS)}")


def is_building(graph_builder):
    try:
        return graph_builder.is_building
    except Exception:  # closed, or the capture is broken
        return False


def patch(_module):
    """Returns what undoes it, as a list of functions."""
    captures, kind = Captures(), builder()
    return [
        replace(kind, "begin_building",
                captures.wrap_begin(kind.begin_building)),
        replace(kind, "end_building",
                captures.wrap_end(kind.end_building,
                                  is_capturing=is_building)),
        replace(kind, "close",
                captures.wrap_end(kind.close, is_capturing=is_building)),
    ]
