# SPDX-License-Identifier: Apache-2.0
"""PyTorch's captures: torch.cuda.graph, make_graphed_callables and
torch.compile all go through torch.cuda.CUDAGraph."""

from binade._capture_guard import Captures, replace

MODULE = "torch.cuda.graphs"


def patch(module):
    """Returns what undoes it, as a list of functions."""
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
