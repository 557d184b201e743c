# SPDX-License-Identifier: Apache-2.0
"""PyTorch's interface for plug-ins, for where its allocator can be neither found
nor made: less is served, and said."""

import ctypes
import warnings

from moiety._native import Error
from moiety._torch import build

LIBRARY = build.PACKAGE / "_torch" / "libmoiety_pluggable.so"
PREFIX = "moiety_pluggable_"
# PyTorch's setters, and the functions of emm/pluggable/plugin.h without PREFIX.
HOOKS = {
    "set_init_fn": "init",
    "set_reset_fn": "reset",
    "set_memory_fraction_fn": "memory_fraction",
    "set_base_alloc_fn": "base_alloc",
    "set_record_stream_fn": "record_stream",
    "set_begin_allocate_to_pool": "begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "end_allocate_to_pool",
    "set_release_pool": "release_pool",
}
LACKS = ("statistics (torch.cuda.memory_allocated() and its kin), snapshots and "
         "histories, torch.multiprocessing, torch.cuda.MemPool, checkpoints "
         "(torch.compile(mode=\"reduce-overhead\")), observers of out of memory, "
         "cuDNN's benchmarks, and torch.cuda.OutOfMemoryError, which is a "
         "RuntimeError here. PyTorch takes a lock for each allocation and free")


def enable(torch, kind, limit_bytes, reason):
    """Makes the plug-in PyTorch's allocator, and warns of what it lacks. What must
    stay as long as the process."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        allocator = torch.cuda.memory.CUDAPluggableAllocator(
            str(LIBRARY), f"{PREFIX}alloc", f"{PREFIX}free")
        hooks = allocator.allocator()
    except (OSError, AttributeError) as error:
        raise Error(f"PyTorch takes no plug-in here: {error}") from error
    pool_flags, memory = kind
    library.moiety_pluggable_set(ctypes.c_uint32(pool_flags),
                                 ctypes.c_uint32(memory),
                                 ctypes.c_uint64(limit_bytes))
    missing = []
    for setter, name in HOOKS.items():
        set_it = getattr(hooks, setter, None)
        if set_it is None:
            missing.append(name)
        else:
            set_it(ctypes.cast(getattr(library, PREFIX + name),
                               ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(allocator)
    more = f"; this PyTorch has no hook for {', '.join(missing)}" if missing \
        else ""
    # Of the caller of moiety.torch.enable(), which checks names around itself.
    warnings.warn(f"moiety.torch: a reduced plug-in serves PyTorch, for want of "
                  f"its library: {summary(reason)}. It lacks {LACKS}{more}.",
                  RuntimeWarning, stacklevel=4)
    return library, allocator


def summary(reason):
    """What a compiler said, by its first error."""
    lines = str(reason).splitlines() or [""]
    return next((line for line in lines if "error:" in line), lines[0])
