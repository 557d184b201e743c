# SPDX-License-Identifier: Apache-2.0
"""RMM, and with it RAPIDS, on the pool.

    import moiety.rmm
    moiety.rmm.enable(limit=8 << 30)

or, for a pool of the program's own:

    pool = moiety.Pool(limit_bytes=8 << 30)
    rmm.mr.set_current_device_resource(moiety.rmm.MemoryResource(pool=pool))

Memory is allocated for and freed on the streams that RMM names. RMM calls the
pool by its CallbackMemoryResource: no Python runs in a call, but each takes the
interpreter's lock and makes a few objects, which libraries in C++ wait for.
docs/guides/libraries.md says what that costs.

Threads: any.
"""

import functools
import operator

try:
    from rmm import mr as _mr

    _CallbackMemoryResource = _mr.CallbackMemoryResource
except (ImportError, AttributeError) as error:
    raise ImportError(f"moiety.rmm needs RMM 26.06 or newer (pip install "
                      f"rmm-cu13, or rmm-cu12 for CUDA 12): {error}") from error

from moiety._pools import pools as _pools

__all__ = ["MemoryResource", "enable"]


@functools.cache
def _functions_of(source):
    """What RMM calls for it, in C. The same for good: RMM has bare pointers to
    them in copies of a resource, which adaptors and buffers keep after it."""
    return source.allocate, _pools.pool_of(source)._deallocate_for_rmm


class MemoryResource(_CallbackMemoryResource):
    """An rmm.mr.DeviceMemoryResource over a moiety.Pool. RMM's adaptors, such
    as StatisticsResourceAdaptor, go on top of it. When there is no memory, RMM
    raises MemoryError with the pool's message.

    device  an ordinal; None: the pool's, or 0. RMM uses a resource while its
            device is current.
    pool    a moiety.Pool, moiety.Pools, or Tenant of a Pool; None: the pools
            that adapters share. ValueError where it is of another device.
    """

    def __init__(self, device=None, pool=None):
        _pools.check_source(pool)
        if device is None:
            device = (0 if pool is None or isinstance(pool, _pools.Pools)
                      else _pools.pool_of(pool).device)
        source = _pools.pool_for(pool, operator.index(device))
        self.pool = _pools.pool_of(source)
        super().__init__(*_functions_of(source))


def enable(pool=None, *, limit=None, devices=0):
    """Makes this RMM's resource for a device, or for several, and returns the
    resources by device. What other resources have given out stays with them.

    pool     a moiety.Pool, moiety.Pools, or Tenant; None: the pools that
             adapters share.
    limit    the most that each device's pool reserves; not together with
             `pool`.
    devices  an ordinal or several, as of rmm.reinitialize().
    """
    pool = _pools.source_of(pool, limit)
    ordinals = [devices] if hasattr(devices, "__index__") else list(devices)
    made = {operator.index(device): MemoryResource(device, pool)
            for device in ordinals}
    for device, resource in made.items():
        _mr.set_per_device_resource(device, resource)
    return made
