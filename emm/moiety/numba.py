# SPDX-License-Identifier: Apache-2.0
"""numba on the pool.

    NUMBA_CUDA_MEMORY_MANAGER=moiety.numba python program.py

or, before numba's first use of a device:

    import moiety.numba
    moiety.numba.enable()

Device arrays of numba then come from a moiety.Pool for each device. Pinned and
mapped arrays come from a moiety.HostArena on the NUMA node next to it.
docs/guides/numba-cupy.md has more.

numba does not name streams, so its arrays are for ANY. Sizes are in bytes.
Threads: any. Functions apply to numba's current context, and create it if there
is none."""

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


def enable(pool=None, **options):
    """Makes Moiety numba's memory manager.

    pool     a moiety.Pool or moiety.Pools that other frameworks use too; None is
             pools of numba's own. numba's IPC requires exportable=True of it.
    options  options of moiety.Pool for pools of numba's own, such as
             limit="8GiB". MOIETY_CONF overrides them. The pools are exportable.

    A reset of numba's context leaves a named pool as it is, with its arrays.

    Raises RuntimeError if numba has a context already: call numba.cuda.close() first.
    Raises TypeError for an unknown option, and Error for a value that is not accepted."""
    if pool is not None and options:
        raise TypeError("options are for pools of numba's own: give them to "
                        "the pool that you name")
    if isinstance(pool, _native.Tenant):
        raise TypeError("numba takes a moiety.Pools or moiety.Pool, no Tenant")
    for name in ("device", "context", "exportable"):
        if name in options:
            raise TypeError(f"{name} is no option of moiety.numba.enable(): "
                            f"each pool is of a context of numba's, and "
                            f"exportable")
    _native._check_options(exportable=True, **options)
    check_source(pool)
    if any(device.primary_context is not None
           for device in _driver.devices.values()):
        raise RuntimeError(
            "numba has a context already, which keeps its memory manager: call "
            "moiety.numba.enable() earlier, or numba.cuda.close() before it")
    Manager.pool_options, Manager.source = options, pool
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
    """Returns the moiety.Pool of numba's device arrays. After a reset of the context it
    is another one."""
    return _manager().generation.pool()


def arena(write_combined=False):
    """Returns the moiety.HostArena of numba's pinned arrays. Its report() says on which
    NUMA node they are."""
    return _manager().generation.arena(bool(write_combined))


def trim(keep_bytes=0):
    """Returns unused memory to the driver, until `keep_bytes` of device memory stay
    reserved. Returns the number of bytes.

    Inside numba.cuda.defer_cleanup() the call returns 0 and trims later. It can wait
    for all work of the process."""
    return _manager().trim(keep_bytes)


def release_exports():
    """Declares that no other process has an array of this context open any more. Memory
    that was exported and freed is reused, and earlier handles become stale."""
    pool().release_exports()
