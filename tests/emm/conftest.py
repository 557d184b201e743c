# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share."""

import contextlib
import ctypes
import gc
import os

import moiety
import pytest
from holding import Hold

# Children compare what they print. From 3.12 on Python warns who forks with
# threads, and a GPU's driver has some.
os.environ["PYTHONWARNINGS"] = "ignore:This process:DeprecationWarning"

KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture
def pool():
    """A pool that expects to be whole at its end."""
    with moiety.Pool() as made:
        yield made
        gc.collect()  # an exception that was caught keeps the test's variables
        assert made.stats().allocation_current == 0


@pytest.fixture
def arena():
    with moiety.HostArena(first_segment_bytes=4 * MIB) as made:
        yield made
        gc.collect()  # an exception that was caught keeps the test's variables
        assert made.stats().allocation_current == 0


class Driver:
    """The stand-in, or a GPU's, for what a test does beside the package."""

    def __init__(self):
        self.library = ctypes.CDLL(
            os.environ.get("MOIETY_DRIVER", "libcuda.so.1"))
        self.is_standin = hasattr(self.library, "moiety_standin_version")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, (name, status)

    def questions(self):
        """How often the stand-in was asked whether work is over."""
        return self.library.moiety_standin_calls(b"cuEventQuery")

    def stream(self):
        """A new stream that is not ordered with the legacy one."""
        handle = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(handle), 1)
        return handle

    @contextlib.contextmanager
    def held(self, stream):
        """Work that is queued on the stream meanwhile waits."""
        hold = Hold(self.library, stream)
        self.call("cuMemsetD8Async", self.scratch(), 0, 1, stream)
        try:
            yield
        finally:
            hold.release()
            self.call("cuStreamSynchronize", stream)

    def scratch(self):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(512))
        return address


@pytest.fixture
def driver():
    return Driver()
