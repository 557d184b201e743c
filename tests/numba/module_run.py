# SPDX-License-Identifier: Apache-2.0
"""Runs one of numba's test modules in this process and writes what became of
each test to a file, one JSON object a line, as it happens: whatever crashes,
what came before is on record, and the test that was under way has a name.

usage: module_run.py MODULE OUTCOME_FILE

MODULE is below numba.cuda.tests; numba_memory_test.py reads the file. The
memory manager is numba's own, or that of NUMBA_CUDA_MEMORY_MANAGER. numba's
tests spawn children that import this file again, as __mp_main__: they get an
old numba made ready, and all else is under the main guard.
"""

import ctypes
import functools
import importlib
import json
import os
import sys
import traceback
import unittest

try:
    from pytest import skip

    SKIPS = (unittest.SkipTest, skip.Exception)
except ImportError:  # numba 0.56 does without
    SKIPS = (unittest.SkipTest,)

PREFIX = "numba.cuda.tests."
# Bounds a hang, below the time that a whole module has.
CHILD_TIMEOUT_S = 150


class RecordingResult(unittest.TestResult):
    """Writes events; decides nothing. A sub-test's event names its test."""

    def __init__(self, out):
        super().__init__()
        self._out = out

    def write(self, event, test=None, detail=""):
        test = getattr(test, "test_case", test)
        name = test.id().removeprefix(PREFIX) if test else ""
        record = {"event": event, "test": name, "detail": detail}
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()

    def _write_exception(self, event, test, error):
        self.write(event, test, "".join(traceback.format_exception(*error)))

    def startTest(self, test):
        super().startTest(test)
        self.write("start", test)

    def addSuccess(self, test):
        self.write("pass", test)

    def addError(self, test, err):
        # pytest.importorskip() raises its own exception, which unittest does
        # not know for a skip.
        is_skip = issubclass(err[0], SKIPS)
        self._write_exception("skip" if is_skip else "fail", test, err)

    def addFailure(self, test, err):
        self._write_exception("fail", test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._write_exception("fail", test, err)

    def addSkip(self, test, reason):
        self.write("skip", test, reason)

    def addExpectedFailure(self, test, err):
        self._write_exception("expected-failure", test, err)

    def addUnexpectedSuccess(self, test):
        self.write("unexpected-success", test)


def open_standin(name="libcuda.so.1"):
    """The driver of that name, if it is the stand-in; SystemExit otherwise."""
    try:
        driver = ctypes.CDLL(name)
    except OSError as error:
        raise SystemExit(f"the driver does not load: {error}") from error
    if not hasattr(driver, "moiety_standin_version"):
        raise SystemExit(f"{name} is not the stand-in driver")
    driver.moiety_standin_calls.restype = ctypes.c_uint64
    return driver


def prepare_old_numba():
    """Lets numba 0.56 find the functions that it means: it takes NAME_v2 for
    the newest version of NAME, and since CUDA 13 there are some with other
    parameters."""
    from numba.cuda.cudadrv import driver

    if getattr(driver, "USE_NV_BINDING", True):
        return
    find = driver.Driver._find_api

    def find_first(self, name):
        if name in ("cuCtxGetDevice", "cuCtxSynchronize"):
            return getattr(self.lib, name)
        return find(self, name)

    driver.Driver._find_api = find_first


def check_numba(manager):
    """Refuses what would make numba skip or bend its tests."""
    from numba import config
    from numba.cuda.cudadrv.driver import driver

    if config.ENABLE_CUDASIM or config.CUDA_MEMORY_MANAGER != manager:
        raise SystemExit(f"numba is not on its memory manager {manager}")
    if not driver.is_available:
        raise SystemExit(f"no CUDA: {driver.initialization_error}")


def count_blocks(manager):
    """Counts the device arrays that the plugin makes, in the list's only
    element; 0 for good under numba's own manager."""
    count = [0]
    if manager == "default":
        return count
    plugin = importlib.import_module(manager).Manager
    uncounted = plugin.memalloc

    @functools.wraps(uncounted)
    def memalloc(self, size):
        memory = uncounted(self, size)
        count[0] += 1
        return memory

    plugin.memalloc = memalloc
    return count


def load(module):
    """The module's tests. test_ipc gives a child 4 seconds to start and to do
    its work, which says more about the machine than about memory."""
    imported = importlib.import_module(PREFIX + module)
    if hasattr(imported, "FUTURE_TIMEOUT"):
        imported.FUTURE_TIMEOUT = CHILD_TIMEOUT_S
    return unittest.defaultTestLoader.loadTestsFromModule(imported)


def run(module, out):
    manager = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "default")
    driver = open_standin()
    prepare_old_numba()
    check_numba(manager)
    blocks = count_blocks(manager)
    result = RecordingResult(out)
    load(module).run(result)
    calls = driver.moiety_standin_calls(b"*")
    result.write("end", detail={"driver_calls": calls, "served": blocks[0]})


if __name__ == "__mp_main__":
    prepare_old_numba()

if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as outcome_file:
        run(sys.argv[1], outcome_file)
