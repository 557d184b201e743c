# SPDX-License-Identifier: Apache-2.0
"""What the tests of moiety.numba share: numba with the plugin on the stand-in
driver or a GPU's, and the stand-in's controls. To be imported before numba."""

import ctypes
import os

import pytest
from holding import Hold

os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "moiety.numba"
os.environ["MOIETY_STANDIN_DEVICES"] = "2"
os.environ["MOIETY_STANDIN_MEMORY"] = "512MiB"

from numba import cuda  # noqa: E402, after its settings

driver = ctypes.CDLL("libcuda.so.1")
IS_STANDIN = hasattr(driver, "moiety_standin_version")


class NoStandin:
    """A GPU's driver tells nobody what was asked of it."""

    def __getattr__(self, name):
        if name.startswith("moiety_standin_"):
            pytest.skip(f"a GPU's driver has no {name}")
        raise AttributeError(name)


standin = driver if IS_STANDIN else NoStandin()
if IS_STANDIN:
    driver.moiety_standin_live.restype = ctypes.c_int64
    driver.moiety_standin_calls.restype = ctypes.c_uint64

# Where memory is 512 MiB, as above.
needs_small_memory = pytest.mark.skipif(
    not IS_STANDIN, reason="a GPU's memory has another size")
needs_two_devices = pytest.mark.skipif(
    len(cuda.gpus) < 2, reason="there is one GPU")


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
        assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
        self.handle = handle
        self._hold = None
        self.of_numba = cuda.external_stream(handle.value)

    def hold(self):
        self._hold = Hold(driver, self.handle)

    def release(self):
        self._hold.release()
