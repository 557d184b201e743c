# SPDX-License-Identifier: Apache-2.0
"""What the tests of binade.numba share: numba with the plugin on the stand-in
driver, and that driver's controls. To be imported before numba."""

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest

MIB = 1 << 20

os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "binade.numba"
os.environ["BINADE_STANDIN_DEVICES"] = "2"
os.environ["BINADE_STANDIN_MEMORY"] = "512MiB"

from numba import cuda  # noqa: E402, after its settings

standin = ctypes.CDLL("libcuda.so.1")
standin.binade_standin_live.restype = ctypes.c_int64
standin.binade_standin_calls.restype = ctypes.c_uint64
for name in ("hold", "release"):
    getattr(standin, "binade_standin_" + name).argtypes = (ctypes.c_void_p,)


@pytest.fixture(autouse=True)
def reset_afterwards():
    """Each test begins with an empty pool, which is none yet."""
    yield
    cuda.current_context().reset()


def address_of(array):
    return array.gpu_data.device_pointer_value


class Stream:
    """A stream that waits for no other and that nobody else's work waits for,
    and whose work can be held."""

    def __init__(self):
        cuda.current_context()
        handle = ctypes.c_void_p()
        assert standin.cuStreamCreate(ctypes.byref(handle), 1) == 0
        self.handle = handle
        self.of_numba = cuda.external_stream(handle.value)

    def hold(self):
        assert standin.binade_standin_hold(self.handle) == 0

    def release(self):
        assert standin.binade_standin_release(self.handle) == 0


def run_program(text, *arguments, **environment):
    """What became of a Python program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        env=os.environ | environment, capture_output=True, text=True,
        timeout=120, check=False)
