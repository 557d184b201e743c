# SPDX-License-Identifier: Apache-2.0
"""A pool for each device behind one object, and the one that the adapters of
frameworks share where the program names none."""

import operator
import threading

from moiety._native import (
    Error, Pool, Tenant, _check_options, _note_refusal, probe)


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


class Pools:
    """A moiety.Pool for each device, made when it is first asked for.

    devices      ordinals; None: all that the driver shows.
    limit_bytes  the most that each of the pools reserves; None: what its device
                 has.
    peers        mapped memory of each is accessible to the others' devices, as
                 far as these can access it at all. Memory of the driver is
                 reached by contexts that enable peer access.
    options      those of moiety.Pool. MOIETY_CONF goes over all.

    Threads: any.
    """

    def __init__(self, devices=None, *, limit_bytes=None, peers=True,
                 **options):
        for name in ("device", "context"):
            if name in options:
                raise TypeError(f"{name} is no option of Pools: each pool is "
                                f"of one device's primary context")
        self._limit_bytes = limit_bytes
        self._has_peers = bool(peers)
        self._options = options
        # The pools come later, when no caller looks for a typing error.
        _check_options(**self._pool_options())
        self.devices = _ordinals(devices)
        # A collection of garbage while it is held may come back to it.
        self._lock = threading.RLock()
        self._pools = {}
        self._has_made_them = True
        self._is_closed = False

    @classmethod
    def of(cls, *pools):
        """Of pools that are there already, one for a device, and that whoever
        has made them closes: close() forgets them. pool_of() finds those of
        another part of the program."""
        by_device = {}
        for pool in pools:
            if not isinstance(pool, Pool):
                raise TypeError(f"{pool!r} is no moiety.Pool")
            if pool.device in by_device:
                raise ValueError(f"two pools are of device {pool.device}")
            by_device[pool.device] = pool
        made = cls(by_device)
        made._pools, made._has_made_them = by_device, False
        return made

    def __getitem__(self, device):
        pool = self._pools.get(device)
        return self._make(operator.index(device)) if pool is None else pool

    def _make(self, device):
        with self._lock:
            if self._is_closed:
                raise ValueError("it is closed")
            if device not in self.devices:
                raise IndexError(f"no pool for device {device}: there are "
                                 f"{', '.join(map(str, self.devices))}")
            pool = self._pools.get(device)
            if pool is None:
                pool = Pool(device, **self._pool_options())
                if self._has_peers and pool.memory == "mapped":
                    self._add_peers(pool)
                self._pools[device] = pool
        return pool

    def _pool_options(self):
        options = dict(self._options)
        if self._limit_bytes is not None:
            options["limit_bytes"] = self._limit_bytes
        return options

    def _take_over(self, pools):
        """These serve their devices here from now on."""
        with self._lock:
            self._pools.update((pool.device, pool) for pool in pools)

    def _add_peers(self, pool):
        for device in self.devices:
            if device == pool.device:
                continue
            try:
                pool.add_peer(device)
            except Error as error:
                # E_INVALID: pool passes all through.
                if error.status not in ("E_UNSUPPORTED", "E_INVALID"):
                    raise

    def __iter__(self):
        """Those that are made, by their devices."""
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

    def current(self):
        """The pool of the calling thread's current device: that of its current
        context. Error, E_INVALID, where no context is current."""
        return self[_current_device()]

    def set_limit(self, limit_bytes):
        """The most that each pool reserves from now on, and those that are made
        later; 0: what its device has. Error as Pool.set_limit(): pools before
        the one that refuses have the new limit then."""
        limit_bytes = operator.index(limit_bytes)
        with self._lock:
            for pool in self:
                pool.set_limit(limit_bytes)
            self._limit_bytes = limit_bytes or None

    def used_bytes(self):
        """Bytes of blocks in use, on all devices."""
        return sum(pool.used_bytes() for pool in self)

    def total_bytes(self):
        """Bytes that are reserved on all devices, used or not."""
        return sum(pool.total_bytes() for pool in self)

    def stats(self):
        """Of each pool that is made Pool.stats(), by device."""
        return {pool.device: pool.stats() for pool in self}

    def free_all_blocks(self):
        """Gives what nobody uses back, on all devices, once queued work is
        over."""
        for pool in self:
            pool.free_all_blocks()

    def close(self):
        """Closes all, and returns how many blocks were live. Error, E_BUSY,
        when a thread is in a call of one: the others are closed, and another
        close() is for the rest. Again: 0."""
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
            raise ValueError("it is closed")
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.close()
        except Error as refusal:
            if error is None:
                raise
            _note_refusal(error, self, refusal)


def _current_device():
    import ctypes

    driver = ctypes.CDLL(probe(0)["library_path"])
    device = ctypes.c_int(-1)
    status = driver.cuCtxGetDevice(ctypes.byref(device))
    if status:
        error = Error(f"no context is current: cuCtxGetDevice() "
                              f"returned {status}")
        error.status = "E_INVALID"
        raise error
    return device.value


_default = None
_default_lock = threading.RLock()


def default_pools(limit_bytes=None):
    """The pools that the adapters take memory from where the program names
    none: one Pools of all devices in the process, made by the first call. A
    limit is set also when they are there already. When they were closed, others
    are made."""
    global _default
    with _default_lock:
        if _default is None or not _default.is_open:
            _default = Pools(limit_bytes=limit_bytes)
        elif limit_bytes is not None:
            _default.set_limit(limit_bytes)
        return _default


def replace_default_pools(pools):
    """Makes these what default_pools() gives, and returns those that it gave
    before; None: it will make some."""
    global _default
    with _default_lock:
        before, _default = _default, pools
        return before


def source_of(pool, limit):
    """What enable() of an adapter takes memory from: the pool that the program
    named, or the shared ones, of which a limit is."""
    if pool is None:
        return default_pools(limit)
    if limit is not None:
        raise TypeError("limit is for the shared pools: set the limit of the "
                        "pool that you name")
    return pool


def pool_for(source, device):
    """The Pool, or Tenant of one, that an adapter takes memory of `device`
    from. `source` is what the program named: Pools, a Pool, a Tenant, or None.
    ValueError where that is another device's."""
    if source is None:
        source = default_pools()
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


def pool_of(source):
    """The Pool of what pool_for() gave."""
    return source.pool if isinstance(source, Tenant) else source


def check_source(source):
    """TypeError for what pool_for() would not take."""
    if source is None or isinstance(source, Pools):
        return
    pool_for(source, getattr(pool_of(source), "device", None))
