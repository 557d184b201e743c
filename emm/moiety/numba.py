# SPDX-License-Identifier: Apache-2.0
"""numba on the pool.

    NUMBA_CUDA_MEMORY_MANAGER=moiety.numba python program.py

or, before numba's first use of a device:

    import moiety.numba
    moiety.numba.enable()

From then on numba's device arrays come from a moiety.Pool for each device,
pinned and mapped arrays from a moiety.HostArena on the NUMA node next to it.
docs/guides/numba-cupy.md has the whole: when memory serves again, what can go wrong, and
what numba allocates elsewhere.

Sizes are in bytes. All functions may be called by any thread; those without a
word on it mean the current context of numba, which they make if there is none.
"""

import sys

try:
    from numba import cuda

    from moiety import _native
    from moiety._capture import hook as _capture_hook
    from moiety._numba.family import driver as _driver
    from moiety._numba.family import numba_driver as _numba_driver
    from moiety._numba.manager import Manager, OutOfMemoryError
    from moiety._pools.pools import check_source
except Exception as error:
    # numba says no more than "Failed to use memory manager", so this is said
    # where it is seen.
    print(f"moiety.numba cannot be used: {type(error).__name__}: {error}",
          file=sys.stderr)
    raise

__all__ = ["Manager", "OutOfMemoryError", "arena", "enable", "pool",
           "release_exports", "trim"]

# What numba looks for in the module that NUMBA_CUDA_MEMORY_MANAGER names.
_numba_memory_manager = Manager

# PyTorch, CuPy and cuda.core may capture graphs beside numba.
_capture_hook.HOOK.install()


def enable(pools=None, **pool_options):
    """Makes this numba's memory manager, with options of moiety.Pool for the
    pool of each device, such as limit_bytes. MOIETY_CONF goes over them.

    pools   a moiety.Pools or moiety.Pool to take device memory from, instead of
            options, which other frameworks use too. A reset of numba's context
            leaves it as it is, with the arrays that are still referred to.
            numba's IPC wants exportable=True of it.

    RuntimeError when numba has a context already, which would keep its manager:
    call numba.cuda.close() first. TypeError for an option that moiety.Pool does
    not know; moiety.Error for a value that it does not take.
    """
    if pools is not None and pool_options:
        raise TypeError("options are for pools of numba's own: give them to "
                        "the pools that you name")
    if isinstance(pools, _native.Tenant):
        raise TypeError("numba takes a moiety.Pools or moiety.Pool, no Tenant")
    for name in ("device", "context", "exportable"):
        if name in pool_options:
            raise TypeError(f"{name} is no option of moiety.numba.enable(): "
                            f"each pool is of a context of numba's, and "
                            f"exportable")
    _native._check_options(exportable=True, **pool_options)
    check_source(pools)
    if any(device.primary_context is not None
           for device in _driver.devices.values()):
        raise RuntimeError(
            "numba has a context already, which keeps its memory manager: call "
            "moiety.numba.enable() earlier, or numba.cuda.close() before it")
    Manager.pool_options, Manager.source = pool_options, pools
    cuda.set_memory_manager(Manager)


def _manager():
    # A context that is made for the question would keep the manager that it
    # finds, and enable() would be too late.
    _numba_driver._ensure_memory_manager()
    kind = _numba_driver._memory_manager
    if issubclass(kind, Manager):
        manager = cuda.current_context().memory_manager
        if isinstance(manager, Manager):
            return manager
        kind = type(manager)
    raise RuntimeError(
        f"numba's memory manager is {kind.__name__}, not that of "
        f"moiety.numba: set NUMBA_CUDA_MEMORY_MANAGER=moiety.numba, or "
        f"call moiety.numba.enable() before numba's first use of a device")


def pool():
    """The moiety.Pool that device arrays come from, for its statistics and
    snapshots. Another one after the context was reset."""
    return _manager().generation.pool()


def arena(write_combined=False):
    """The moiety.HostArena that pinned arrays come from: its report() says on
    which NUMA node they are, and why."""
    return _manager().generation.arena(bool(write_combined))


def trim(keep_bytes=0):
    """Gives memory that no array uses back to the driver, so that at most
    keep_bytes of device memory stay reserved where that is possible. Returns
    the bytes given back; 0 inside numba.cuda.defer_cleanup(), which puts it
    off. It may wait for all work of the process."""
    return _manager().trim(keep_bytes)


def release_exports():
    """Says that no other process has an array of this context open any more:
    what was exported and freed serves again, and handles made before are
    stale."""
    pool().release_exports(0)
