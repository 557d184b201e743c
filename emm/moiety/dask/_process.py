# SPDX-License-Identifier: Apache-2.0
"""What the workers of this process have of the pool: the pools, which are its
default ones meanwhile, and what is put back when a worker leaves.

Usually there is one worker. LocalCluster(processes=False) has several in a
process, which share pools, limit and allocators.
"""

import contextlib
import threading
import weakref

from moiety._native import Error, probe
from moiety._pools import pools as _pools
from moiety.dask import _libraries


class _Member:
    """A worker."""

    def __init__(self, pools):
        self.pools = pools
        self.tenant = None
        self.stack = contextlib.ExitStack()

    def numbers(self, _worker=None):
        """For the scheduler."""
        found = {"used_bytes": self.pools.used_bytes,
                 "reserved_bytes": self.pools.total_bytes,
                 "limit_bytes": self.pools[0].limit}
        if self.tenant is not None:
            stats = self.tenant.stats()
            found["tenant_bytes"] = stats.live_bytes
            found["budget_bytes"] = stats.budget_bytes
        return found


def _metric(member, name):
    """One number, for the dashboard's table."""
    return lambda _worker: member.numbers()[name]


def _show_numbers(worker, member):
    metrics = {"moiety": member.numbers}
    metrics.update((f"moiety_{name}", _metric(member, name))
                   for name in member.numbers())
    worker.metrics.update(metrics)
    for name in metrics:
        member.stack.callback(worker.metrics.pop, name, None)


def _tenant_of(pool, worker, budget):
    """Named after the worker, as far as names go."""
    name = str(worker.name).encode()[:31].decode(errors="ignore")
    return pool.tenant(name, budget)


def _close(tenant):
    # With live blocks it ends with the last of them.
    with contextlib.suppress(Error):
        tenant.close()


def _check_limit(limit):
    total = probe(0)["total_memory_bytes"]
    if limit is not None and limit > total:
        raise ValueError(f"limit is {limit} bytes, and device 0 of this "
                         f"worker has {total}")


def _takes_limit(pool, limit):
    """False for one that nobody uses, and that was made for a lower limit."""
    try:
        pool.set_limit(limit)
    except Error:
        if pool.used_bytes:
            raise
        return False
    return True


class _Left:
    """Pools that the last worker has left, as far as somebody uses them."""

    def __init__(self, pools=None, options=None):
        self._options = options
        self._kept = None
        self._refs = []
        if pools is not None:
            # numba asks the object itself.
            self._kept = pools if _libraries.keeps(pools) else None
            self._refs = [weakref.ref(pool) for pool in pools]

    def pools(self, limit, options):
        """For who comes next, with a limit that holds for what is in use,
        too."""
        if self._kept is not None and _libraries.keeps(self._kept):
            if options != self._options:
                raise RuntimeError(f"numba has a context already, with pools "
                                   f"of the options {self._options}")
            self._kept.set_limit(limit)
            return self._kept
        made = _pools.Pools(limit=limit, **options)
        if options == self._options:
            _pools.take_over(made, [pool for pool in self._alive()
                                    if _takes_limit(pool, limit)])
        return made

    def _alive(self):
        pools = [ref() for ref in self._refs]
        return [pool for pool in pools if pool is not None and pool.is_open]


class _Process:
    """Threads: any."""

    def __init__(self):
        self._lock = threading.RLock()
        self._members = {}  # worker -> _Member
        self._left = _Left()
        self._pools = None
        self._options = None
        self._switched = set()
        self._stack = contextlib.ExitStack()

    def join(self, worker, settings):
        """Sets a worker up; as it was before if that fails."""
        with self._lock:
            self.leave(worker)
            _check_limit(settings.limit)
            if self._members:
                self._share(settings)
            else:
                self._begin(settings)
            member = self._members[worker] = _Member(self._pools)
            try:
                self._fill(worker, member, settings)
            except BaseException:
                self.leave(worker)
                raise

    def _begin(self, settings):
        """For the first worker."""
        self._pools = self._left.pools(settings.limit, settings.options)
        self._options, self._left = settings.options, _Left()
        before = _pools.replace_pools(self._pools)
        self._stack.callback(_pools.replace_pools, before)

    def _share(self, settings):
        """For a further worker of the process."""
        if settings.options != self._options:
            raise RuntimeError(
                f"another worker of this process has pools of the options "
                f"{self._options}: unregister_worker_plugin('moiety') first")
        self._pools.set_limit(settings.limit)

    def _fill(self, worker, member, settings):
        # Here and now: a limit that the pool refuses is told, too.
        source = pool = self._pools[0]
        if settings.budget:
            source = member.tenant = _tenant_of(pool, worker,
                                                settings.budget)
            member.stack.callback(_close, member.tenant)
        else:
            source = self._pools
        for name in settings.libraries:
            if name in _libraries.OF_WORKER:
                _libraries.OF_WORKER[name](member.stack, source, worker)
            elif len(self._members) > 1 and member.tenant is not None:
                raise RuntimeError(
                    f"{name} has one allocator for all workers of a process, "
                    f"which cannot be the tenant of each")
            elif name not in self._switched:
                _libraries.OF_PROCESS[name](self._stack, source)
                self._switched.add(name)
        _show_numbers(worker, member)

    def leave(self, worker):
        """Puts back what was before, and gives back what nobody uses."""
        with self._lock:
            member = self._members.pop(worker, None)
            if member is None:
                return
            try:
                member.stack.close()
            finally:
                if not self._members:
                    self._end()

    def _end(self):
        pools, self._pools = self._pools, None
        self._switched.clear()
        try:
            self._stack.close()
        finally:
            self._left = _Left(pools, self._options)
            # While a graph is captured the driver may not be asked: it goes with
            # the pools then. And the program may have closed them.
            with contextlib.suppress(Error):
                pools.trim(wait=True)

    def source_of(self, worker):
        """The Tenant or Pool of a worker."""
        member = self._members.get(worker)
        if member is None:
            raise RuntimeError(f"worker {worker.address} has no MoietySetup")
        return member.tenant or member.pools[0]

    def source(self):
        """That of the only worker, or else the default pool of device 0."""
        members = list(self._members.values())
        if len(members) == 1 and members[0].tenant is not None:
            return members[0].tenant
        return _pools.pools()[0]


PROCESS = _Process()
