# SPDX-License-Identifier: Apache-2.0
"""RMM, and with it RAPIDS, on the pool.

    import moiety.rmm
    moiety.rmm.enable(limit="8GiB")

or, for a pool of the program's own:

    pool = moiety.Pool(limit="8GiB")
    rmm.mr.set_current_device_resource(moiety.rmm.MemoryResource(pool=pool))

Memory is allocated for and freed on the streams that RMM names. RMM calls the
pool through its CallbackMemoryResource. No Python runs in a call, but each call
takes the interpreter's lock. docs/guides/libraries.md has the cost.

Threads: any."""

import functools
import operator

try:
    from rmm import mr as _mr

    _CallbackMemoryResource = _mr.CallbackMemoryResource
except (ImportError, AttributeError) as error:
    raise ImportError(f"moiety.rmm needs RMM 26.06 or newer (pip install "
                      f"rmm-cu13, or rmm-cu12 for CUDA 12): {error}") from error

from moiety import _native
from moiety._pools import pools as _pools
from moiety._support import arguments as _arguments

__all__ = ["MemoryResource", "enable"]


@functools.cache
def _functions_of(source):
    """What RMM calls for it, in C. The same for good: RMM has bare pointers to
    them in copies of a resource, which adaptors and buffers keep after it."""
    return source.alloc_raw, functools.partial(
        _native._free_for_rmm, _pools.pool_behind(source))


class MemoryResource(_CallbackMemoryResource):
    """Device memory of a moiety.Pool, as an rmm.mr.DeviceMemoryResource.

    device  an ordinal; None is the pool's device, or otherwise 0.
    pool    a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is moiety.pools().

    RMM's adaptors work on top of it. RMM raises MemoryError with the pool's message
    if there is no memory. RMM uses a resource while its device is current.

    Raises ValueError if the pool is of another device."""

    def __init__(self, device=None, pool=None):
        _pools.check_source(pool)
        if device is None:
            device = (0 if pool is None or isinstance(pool, _pools.Pools)
                      else _pools.pool_behind(pool).device)
        source = _pools.pool_for(pool, operator.index(device))
        self.pool = _pools.pool_behind(source)
        super().__init__(*_functions_of(source))


@_arguments.named
def enable(pool=None, *, limit=None, devices=0):
    """Makes Moiety RMM's resource for a device, or for several. Returns the resources
    by device. Memory of earlier resources stays with them.

    pool     a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is moiety.pools().
    limit    the most bytes that each device's pool reserves, without `pool`: a
             number, or text such as "8GiB".
    devices  an ordinal or several, as for rmm.reinitialize()."""
    pool = _pools.source_of(pool, limit)
    ordinals = [devices] if hasattr(devices, "__index__") else list(devices)
    made = {operator.index(device): MemoryResource(device, pool)
            for device in ordinals}
    for device, resource in made.items():
        _mr.set_per_device_resource(device, resource)
    return made
