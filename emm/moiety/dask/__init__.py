# SPDX-License-Identifier: Apache-2.0
"""Dask's workers on the pool.

    import moiety.dask
    client.register_plugin(moiety.dask.MoietySetup("8GiB", libraries=["cupy"]))

or, where workers are started:

    dask worker SCHEDULER --preload moiety.dask --moiety-limit 8GiB

Each worker's device memory comes from pools of its process then, with a limit;
the scheduler is told their numbers. A moiety.Block, or HostBlock, can be a
task's result: workers send it to each other as bytes. docs/guides/libraries.md has
the whole.

Threads: any.
"""

try:
    import click
    from distributed import Worker, WorkerPlugin, get_worker
except ImportError as error:
    raise ImportError(f"moiety.dask needs dask.distributed 2024.8 or newer (pip "
                      f"install \"distributed>=2024.8\"): {error}") from error

from moiety.dask import _transfer
from moiety.dask._process import PROCESS
from moiety.dask._settings import Settings

__all__ = ["MoietySetup", "dask_setup", "memory"]

_transfer.register()


class MoietySetup(WorkerPlugin):
    """Sets up the memory of each worker, also of those that start later.

    limit      the most that a worker's pool reserves on each device: bytes, or
               "8GiB" as in MOIETY_CONF; None: what the device has.
    libraries  whose memory comes from there: of "cuda.core", "cupy", "numba",
               "numpy" (pinned), "rmm".
    budget     each worker is a Tenant of the pool, with this budget, and the
               libraries take its memory. Bytes, as `limit`.
    options    of moiety.Pools and moiety.Pool, such as exportable=True.

    ValueError or TypeError for what is none of that. On the workers, and from there by
    register_plugin(): ValueError for a limit above what device 0 has;
    ImportError for a library that is not there; moiety.Error where the driver
    or the pool refuses; RuntimeError where numba has another manager already,
    or another worker of the process other options. Nothing is set up then.

    A second one replaces the first: its limit holds for memory that is in use
    too. unregister_worker_plugin("moiety") gives libraries back the allocators
    that they had before, and the driver what nobody uses.
    """

    name = "moiety"

    def __init__(self, limit=None, *, libraries=(), budget=None, **options):
        self._settings = Settings(limit, libraries, budget, options)

    def setup(self, worker):
        """Called by the worker."""
        PROCESS.join(worker, self._settings)

    def teardown(self, worker):
        """Called by the worker."""
        PROCESS.leave(worker)

    def __repr__(self):
        return f"<moiety.dask.MoietySetup: {self._settings}>"


def memory():
    """What the worker that runs the calling task takes memory from: its Tenant
    where it has a budget, or else the moiety.Pool of device 0. RuntimeError for
    a worker without MoietySetup, ValueError outside of a task."""
    return PROCESS.source_of(get_worker())


class _Preloaded(WorkerPlugin):
    """A MoietySetup that is made where it is to be used: what a preload raises
    is logged, and the worker runs on, without a limit; but a plugin that it is
    started with ends it."""

    name = MoietySetup.name

    def __init__(self, *arguments, **keywords):
        self._arguments, self._keywords = arguments, keywords

    def setup(self, worker):
        """Called by the worker."""
        MoietySetup(*self._arguments, **self._keywords).setup(worker)

    def teardown(self, worker):
        """Called by the worker."""
        PROCESS.leave(worker)


@click.command(name="moiety.dask")
@click.option("--moiety-limit", metavar="BYTES")
@click.option("--moiety-budget", metavar="BYTES")
@click.option("--moiety-libraries", metavar="NAME,...", default="")
async def dask_setup(worker, moiety_limit, moiety_budget, moiety_libraries):
    """Called for --preload: MoietySetup on this worker."""
    if not isinstance(worker, Worker):
        raise TypeError(f"moiety.dask is preloaded by workers, not by a "
                        f"{type(worker).__name__}")
    plugin = _Preloaded(moiety_limit, budget=moiety_budget,
                        libraries=moiety_libraries.split(",")
                        if moiety_libraries else ())
    if hasattr(worker, "_pending_plugins"):
        worker._pending_plugins = (*worker._pending_plugins, plugin)
    else:
        await worker.plugin_add(plugin, catch_errors=False)
