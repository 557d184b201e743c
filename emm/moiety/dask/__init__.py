# SPDX-License-Identifier: Apache-2.0
"""Dask's workers on the pool.

    import moiety.dask
    client.register_plugin(moiety.dask.MoietySetup("8GiB", libraries=["cupy"]))

or, where workers are started:

    dask worker SCHEDULER --preload moiety.dask --moiety-limit 8GiB

The device memory of each worker then comes from pools of its process, with a
limit. The scheduler shows their numbers. A task can return a moiety.Block or
HostBlock: workers send it to each other as bytes. docs/guides/libraries.md has
more.

Threads: any."""

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
    """Sets up the memory of each worker, also of later ones.

    limit      the most bytes that a worker's pool reserves on each device. It is a
               number, text such as "8GiB", or None for all that the device has.
    libraries  the libraries whose memory comes from the pool: of "cuda.core",
               "cupy", "numba", "numpy" (pinned memory), "rmm".
    budget     makes each worker a Tenant of the pool with this budget, for the
               libraries too. The forms are those of `limit`.
    options    options of moiety.Pools and moiety.Pool, such as exportable=True.

    Raises ValueError or TypeError for arguments that are not accepted. On the workers,
    and so by register_plugin(), it raises ValueError for a limit above the memory of
    device 0. It raises ImportError for a library that is missing, and moiety.Error if
    the driver or the pool refuses. RuntimeError means that numba has another manager already, or that
    another worker of the process has other options. Nothing is set up then.

    A second plugin replaces the first. Its limit also holds for memory in use.
    unregister_worker_plugin("moiety") restores the allocators of the libraries, and
    returns unused memory to the driver."""

    name = "moiety"

    def __init__(self, limit=None, *, libraries=(), budget=None, **options):
        self._settings = Settings(limit, libraries, budget, options)

    def setup(self, worker):
        """Sets up a worker. Dask calls it."""
        PROCESS.join(worker, self._settings)

    def teardown(self, worker):
        """Restores a worker. Dask calls it."""
        PROCESS.leave(worker)

    def __repr__(self):
        return f"<moiety.dask.MoietySetup: {self._settings}>"


def memory():
    """Returns the Tenant of the worker that runs the calling task. Without a budget it
    is the moiety.Pool of device 0.

    Raises RuntimeError for a worker without MoietySetup, and ValueError outside of a
    task."""
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
    """Sets up this worker. Dask calls it for --preload moiety.dask."""
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
