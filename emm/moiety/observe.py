# SPDX-License-Identifier: Apache-2.0
"""Looks at the pools of this process, and at those of another process that allows it.

    moiety.observe.start("/run/user/1000/server.sock")   # in one process

    path = "/run/user/1000/server.sock"                  # in the other
    for pool in moiety.observe.stats(path)["pools"]:
        print(pool["id"], pool["stats"]["allocated_bytes.all.current"])
    print(moiety.observe.prometheus(moiety.observe.stats(path)))
    with open("now.pickle", "wb") as file:
        moiety.observe.write_pickle(moiety.observe.snapshot(path), file)

docs/observability.md describes the requests, the pickle and the picture."""

import os
import time

from moiety import _native
from moiety._native import expose_start as start
from moiety._native import expose_stop as stop
from moiety._observe.client import ExposeError, ask
from moiety._observe.prometheus import exposition as prometheus
from moiety._observe.svg import draw as svg
from moiety._observe.torch_pickle import dump as write_pickle
from moiety._report import write as write_report

__all__ = ["ExposeError", "prometheus", "snapshot", "start", "stats", "stop",
           "svg", "write_pickle", "write_report"]


def stats(path, pool=None):
    """Asks the process at the socket `path` for the numbers of its pools, or of the pool
    with that id. Returns a dictionary: "pid", "version" and "pools". Each pool has its
    "stats", or the "error" instead.

    Raises ExposeError if the process does not answer."""
    return ask(path, "stats", pool)


def _history_of(pool):
    try:
        return pool.history()
    except _native.UnsupportedError:
        return None


def _view_of(number, pool):
    heap = pool.snapshot()
    return {"id": number, "device": pool.device, "memory": "device",
            **heap, "history": _history_of(pool)}


def snapshot(source, pool=None):
    """Returns a dictionary of where all memory is, for write_pickle() and svg(). It has the
    newest operations too, for pools with `history_entries`.

    source  the path of a socket; or a Pool of this process, or a list of them.
    pool    the id of one pool of the process at the socket; None is all.

    Raises ExposeError if the process does not answer."""
    if isinstance(source, (str, bytes, os.PathLike)):
        return ask(source, "snapshot", pool)
    pools = [source] if isinstance(source, _native.Pool) else list(source)
    views = [_view_of(i, one) for i, one in enumerate(pools, 1)]
    return {"format": 1, "version": _native.version(), "pid": os.getpid(),
            "time_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
            "epoch_ns": time.time_ns(), "request": "snapshot", "pools": views}
