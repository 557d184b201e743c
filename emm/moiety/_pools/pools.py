# SPDX-License-Identifier: Apache-2.0
"""A pool for each device behind one object, and the one that the adapters of
frameworks share where the program names none."""

import operator
import threading

from moiety._native import (
    Pool, Tenant, UnsupportedError, _bytes_of, _check_options, _default_pool,
    _error_for, _note_refusal, Error, probe)


def _ordinals(devices):
    count = probe(0)["device_count"]
    if devices is None:
        return tuple(range(count))
    chosen = tuple(dict.fromkeys(map(operator.index, devices)))
    for device in chosen:
        if not 0 <= device < count:
            raise ValueError(f"devices has {device}; accepted are ordinals "
                             f"from 0 to {count - 1}")
    if not chosen:
        raise ValueError("devices is empty")
    return chosen


def _by_device(pools):
    """Pools that the program has made, one for a device."""
    by_device = {}
    for pool in pools:
        if not isinstance(pool, Pool):
            raise TypeError(f"{pool!r} is no moiety.Pool")
        if pool.device in by_device:
            raise ValueError(f"two pools are of device {pool.device}")
        by_device[pool.device] = pool
    return by_device


class Pools:
    """A Pool for each device. The first use of a device creates its pool.

    devices  the ordinals; None is all devices of the driver.
    limit    the most bytes that each pool reserves: a number, text such as
             "8GiB", or None for all that the device has.
    peers    lets each device access the mapped memory of the others, where the
             hardware allows it.
    pools    existing pools, one for a device, instead of all of the above.
             close() does not close these.
    options  other options of moiety.Pool. MOIETY_CONF overrides all of them.

    pools[device] is the Pool of a device. Threads: any.
    """

    def __init__(self, devices=None, *, limit=None, peers=True, pools=None,
                 **options):
        for name in ("device", "context"):
            if name in options:
                raise TypeError(f"{name} is no option of Pools: each pool is "
                                f"of one device's primary context")
        self._limit = _bytes_of("limit", limit)
        self._has_peers = bool(peers)
        self._options = options
        # The pools come later, when no caller looks for a typing error.
        _check_options(limit=self._limit, **options)
        self._has_made_them = pools is None
        self._pools = {} if pools is None else _by_device(pools)
        if pools is not None:
            if devices is not None or limit is not None or options:
                raise TypeError("pools are made already: name no devices, "
                                "limit or options with them")
            devices = self._pools
        self.devices = _ordinals(devices)
        # A collection of garbage while it is held may come back to it.
        self._lock = threading.RLock()
        self._is_closed = False

    def __getitem__(self, device):
        pool = self._pools.get(device)
        return self._make(operator.index(device)) if pool is None else pool

    def _make(self, device):
        with self._lock:
            if self._is_closed:
                raise closed()
            if device not in self.devices:
                raise IndexError(f"no pool for device {device}: there are "
                                 f"{', '.join(map(str, self.devices))}")
            pool = self._pools.get(device)
            if pool is None:
                pool = self._add(Pool(device, limit=self._limit,
                                      **self._options))
        return pool

    def _add(self, pool):
        if self._has_peers and pool.memory == "mapped":
            self._add_peers(pool)
        self._pools[pool.device] = pool
        return pool

    def _add_peers(self, pool):
        for device in self.devices:
            if device == pool.device:
                continue
            try:
                pool.add_peer(device)
            except UnsupportedError:
                pass
            except Error as error:
                # The pool is a pass-through one.
                if error.status != "E_INVALID":
                    raise

    def __iter__(self):
        """Iterates over the pools that exist, in the order of `devices`."""
        with self._lock:
            return iter([self._pools[device] for device in self.devices
                         if device in self._pools])

    def __len__(self):
        return len(self.devices)

    def __repr__(self):
        state = ", closed" if self._is_closed else ""
        return (f"<moiety.Pools: devices {', '.join(map(str, self.devices))}"
                f"{state}>")

    @property
    def is_open(self):
        """False after close()."""
        return not self._is_closed

    @property
    def limit(self):
        """The most bytes that each pool reserves; 0 is all that its device
        has. set_limit() changes it."""
        return self._limit

    @property
    def used_bytes(self):
        """The bytes of the blocks in use, on all devices."""
        return sum(pool.used_bytes for pool in self)

    @property
    def total_bytes(self):
        """The bytes that are reserved on all devices, in use or not."""
        return sum(pool.total_bytes for pool in self)

    def current(self):
        """Returns the Pool of the calling thread's current device.

        Raises Error if no CUDA context is current.
        """
        return self[_current_device()]

    def set_limit(self, limit):
        """Sets the most bytes that each pool reserves, also those that are
        created later: a number, text such as "8GiB", or None for all.

        Raises what Pool.set_limit() does. Pools before the one that refuses
        have the new limit then.
        """
        limit = _bytes_of("limit", limit)
        with self._lock:
            for pool in self:
                pool.set_limit(limit)
            self._limit = limit

    def stats(self):
        """Returns the PoolStats of each pool that exists, by device."""
        return {pool.device: pool.stats() for pool in self}

    def trim(self, keep_bytes=0, *, wait=False):
        """Calls Pool.trim() of each pool, and returns the sum of bytes that
        returned to the driver."""
        return sum(pool.trim(keep_bytes, wait=wait) for pool in self)

    def close(self):
        """Closes all pools, and returns the number of blocks that were in use.
        A second call returns 0.

        Raises InUseError if another thread is in a call of one pool. The others
        are closed, and another close() is for the rest.
        """
        live_count, refusal = 0, None
        with self._lock:
            self._is_closed = True
            for pool in self if self._has_made_them else ():
                try:
                    live_count += pool.close()
                except Error as error:
                    refusal = refusal or error
        if refusal:
            raise refusal
        return live_count

    def __enter__(self):
        if self._is_closed:
            raise closed()
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.close()
        except Error as refusal:
            if error is None:
                raise
            _note_refusal(error, self, refusal)


def closed():
    return _error_for("E_CLOSED", "it is closed")


def take_over(pools, made):
    """These serve their devices in `pools` from now on."""
    with pools._lock:
        pools._pools.update((pool.device, pool) for pool in made)


def _current_device():
    import ctypes

    driver = ctypes.CDLL(probe(0)["library_path"])
    device = ctypes.c_int(-1)
    status = driver.cuCtxGetDevice(ctypes.byref(device))
    if status:
        raise _error_for("E_INVALID", f"no context is current: "
                                      f"cuCtxGetDevice() returned {status}")
    return device.value


class _ProcessPools(Pools):
    """The pools that all of the process shares, C libraries too. They last as
    long as the process."""

    def __getitem__(self, device):
        device = operator.index(device)
        if device not in self.devices:
            return self._make(device)  # refuses it
        # The native side replaces a pool whose context is lost.
        pool = _default_pool(device)
        if pool is self._pools.get(device):
            return pool
        with self._lock:
            if self._limit:
                pool.set_limit(self._limit)
            return self._add(pool)

    def close(self):
        """Raises UnsupportedError: the pools last as long as the process.
        trim() returns their free memory to the driver."""
        raise _error_for("E_UNSUPPORTED", "the pools are the process's, and "
                                          "last as long: trim() returns their "
                                          "free memory")


_shared = None
_shared_lock = threading.RLock()


def pools(limit=None):
    """Returns the Pools that all adapters share if the program names none. It
    has the pools of moiety_default_pool(), which C libraries of the process
    use too.

    limit  as for Pools. It also changes the limit of existing pools.

    They last as long as the process: close() raises UnsupportedError, and
    trim() returns their free memory. MOIETY_CONF has their other options.
    """
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = _ProcessPools()
        if limit is not None:
            _shared.set_limit(limit)
        return _shared


def replace_pools(others):
    """Makes these what pools() gives, and returns those that it gave before;
    None: it gives the process's."""
    global _shared
    with _shared_lock:
        before, _shared = _shared, others
        return before


def source_of(pool, limit):
    """What enable() of an adapter takes memory from: the pool that the program
    named, or the shared ones, of which a limit is."""
    if pool is None:
        return pools(limit)
    if limit is not None:
        raise TypeError("limit is for the shared pools: set the limit of the "
                        "pool that you name")
    return pool


def pool_for(source, device):
    """The Pool, or Tenant of one, that an adapter takes memory of `device`
    from. `source` is what the program named: Pools, a Pool, a Tenant, or None.
    ValueError where that is another device's."""
    if source is None:
        source = pools()
    if isinstance(source, Pools):
        return source[device]
    pool = source.pool if isinstance(source, Tenant) else source
    if not isinstance(pool, Pool):
        raise TypeError(f"{source!r} is no moiety.Pool, moiety.Pools, or "
                        f"moiety.Tenant of a Pool")
    if pool.device != device:
        raise ValueError(f"the pool is of device {pool.device}, and memory of "
                         f"device {device} is asked for: name a moiety.Pools")
    return source


def pool_behind(source):
    """The Pool of what pool_for() gave."""
    return source.pool if isinstance(source, Tenant) else source


def check_source(source):
    """TypeError for what pool_for() would not take."""
    if source is None or isinstance(source, Pools):
        return
    pool_for(source, getattr(pool_behind(source), "device", None))
