# SPDX-License-Identifier: Apache-2.0
"""The stream that stream="current" names. The C module calls stream()."""

import sys

from moiety._native import ANY, LEGACY, PER_THREAD


def _of_cupy():
    cupy = sys.modules.get("cupy")
    return None if cupy is None else cupy.cuda.get_current_stream().ptr


def _of_torch():
    # Before CUDA has started there is no device to ask for.
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return (cuda.current_stream().cuda_stream
            if cuda is not None and cuda.is_initialized() else None)


def _of_numba():
    """Its default stream: numba has no other one without a name."""
    config = getattr(sys.modules.get("numba.core.config"),
                     "CUDA_PER_THREAD_DEFAULT_STREAM", False)
    return PER_THREAD if config else LEGACY


def stream():
    """The current stream of CuPy and PyTorch, as a number; ANY, which is right
    for both, if theirs differ. Without them numba's, or the legacy one."""
    found = {number or LEGACY for number in (_of_cupy(), _of_torch())
             if number is not None}
    if len(found) > 1:
        return ANY
    return found.pop() if found else _of_numba()
