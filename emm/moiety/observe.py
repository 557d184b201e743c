# SPDX-License-Identifier: Apache-2.0
"""Looks at pools: at those of this process, and at those of another one that
asked to be looked at.

    moiety.observe.start("/run/user/1000/server.sock")   # in the one process

    path = "/run/user/1000/server.sock"                  # in the other
    for pool in moiety.observe.stats(path)["pools"]:
        print(pool["id"], pool["stats"]["allocated_bytes.all.current"])
    print(moiety.observe.prometheus(moiety.observe.stats(path)))
    with open("now.pickle", "wb") as file:
        moiety.observe.write_pickle(moiety.observe.snapshot(path), file)

docs/observability.md describes the requests, the pickle and the picture.
"""

import os
import time

from moiety import _native
from moiety._native import expose_start as start
from moiety._native import expose_stop as stop
from moiety._observe.client import ExposeError, ask
from moiety._observe.prometheus import exposition as prometheus
from moiety._observe.svg import draw as svg
from moiety._observe.torch_pickle import dump as write_pickle

__all__ = ["ExposeError", "prometheus", "snapshot", "start", "stats", "stop",
           "svg", "write_pickle"]


def stats(path, pool=None):
    """What the process at the socket `path` says of its pools, or of the one
    with that id: "pid", "version" and "pools", each with its "stats" or the
    "error" of why there are none. ExposeError if it does not answer."""
    return ask(path, "stats", pool)


def _history_of(pool):
    try:
        return pool.history()
    except _native.Error as error:
        if error.status != "E_UNSUPPORTED":
            raise
        return None


def _view_of(number, pool):
    heap = pool.snapshot()
    return {"id": number, "device": pool.device, "memory": "device",
            **heap, "history": _history_of(pool)}


def snapshot(source, pool=None):
    """Where all memory is, and what was done last where pools keep a history
    (history_entries): for write_pickle() and svg().

    `source` is the path of a socket, of whose process `pool` is one pool's id
    or None for all; or a Pool of this process, or a list of such.
    """
    if isinstance(source, (str, bytes, os.PathLike)):
        return ask(source, "snapshot", pool)
    pools = [source] if isinstance(source, _native.Pool) else list(source)
    views = [_view_of(i, one) for i, one in enumerate(pools, 1)]
    return {"format": 1, "version": _native.version(), "pid": os.getpid(),
            "time_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
            "epoch_ns": time.time_ns(), "request": "snapshot", "pools": views}
