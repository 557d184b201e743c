# SPDX-License-Identifier: Apache-2.0
"""How each library is switched to a worker's memory, and back.

A function switches one, and leaves on a contextlib.ExitStack what puts it back.
cuda.core has a resource for each thread, and NumPy a handler in each context,
so these are switched around the tasks of a worker; the others have one
allocator for a process.
"""

import concurrent.futures
import contextlib
import functools
import sys

from distributed.threadpoolexecutor import ThreadPoolExecutor


def _switch_cupy(stack, source):
    import moiety.cupy
    from cupy.cuda import memory

    stack.callback(memory.set_allocator, memory.get_allocator())
    moiety.cupy.enable(source)


def _switch_rmm(stack, source):
    import moiety.rmm
    from rmm import mr

    stack.callback(mr.set_per_device_resource, 0,
                   mr.get_per_device_resource(0))
    moiety.rmm.enable(source)


def _switch_numba(stack, source):
    import moiety.numba
    from numba.cuda.cudadrv import driver

    if keeps(source):
        return
    manager = driver._memory_manager
    moiety.numba.enable(source)

    def put_back():
        if not keeps(source):
            driver._memory_manager = manager
            moiety.numba.Manager.source = None

    stack.callback(put_back)


def keeps(pools):
    """Whether numba has a context, which takes memory from these pools as long
    as it is there."""
    if "moiety.numba" not in sys.modules:
        return False
    from moiety._numba.family import driver
    from moiety._numba.manager import Manager

    return Manager.source is pools and any(
        device.primary_context is not None
        for device in driver.devices.values())


def _held(hold, function, /, *arguments, **keywords):
    with hold():
        return function(*arguments, **keywords)


def _around_threads(worker, hold, stack):
    """Enters hold() in the worker's threads while they run something."""
    for name, executor in worker.executors.items():
        # "offload" is of the process.
        if name == "offload" or not isinstance(
                executor,
                (ThreadPoolExecutor, concurrent.futures.ThreadPoolExecutor)):
            continue

        executor.submit = functools.partial(executor.submit, _held, hold)
        stack.callback(vars(executor).pop, "submit", None)


def _switch_cuda_core(stack, source, worker):
    import moiety.cuda_core
    from cuda.core import Device

    resource = moiety.cuda_core.MemoryResource(0, source)

    @contextlib.contextmanager
    def hold():
        device = Device(0)
        before = device.memory_resource
        device.memory_resource = resource
        try:
            yield
        finally:
            device.memory_resource = before

    _around_threads(worker, hold, stack)


def _switch_numpy(stack, _source, worker):
    import moiety.numpy

    moiety.numpy.arena(0)
    # A task's thread runs in a copy of the context of this coroutine.
    worker.execute = moiety.numpy.pinned(0)(worker.execute)
    stack.callback(vars(worker).pop, "execute", None)


OF_PROCESS = {"cupy": _switch_cupy, "numba": _switch_numba,
              "rmm": _switch_rmm}
OF_WORKER = {"cuda.core": _switch_cuda_core, "numpy": _switch_numpy}
NAMES = tuple(sorted({**OF_PROCESS, **OF_WORKER}))
