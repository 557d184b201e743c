# SPDX-License-Identifier: Apache-2.0
"""Work of a stream that waits until the test lets it go on, on the stand-in and
on a GPU alike: the stream waits for a word that the test writes."""

import ctypes

GEQ = 0  # CU_STREAM_WAIT_VALUE_GEQ
FLAGS = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP


class Hold:
    """Of the current context. What is put on the stream from now on waits."""

    def __init__(self, driver, stream):
        """driver: a ctypes.CDLL; stream: a CUstream, as c_void_p."""
        place, address = ctypes.c_void_p(), ctypes.c_uint64()
        self._call(driver.cuMemHostAlloc, ctypes.byref(place),
                   ctypes.c_size_t(4), FLAGS)
        self._call(driver.cuMemHostGetDevicePointer_v2, ctypes.byref(address),
                   place, 0)
        # Never freed, which would wait for the device.
        self._word = ctypes.c_uint32.from_address(place.value)
        self._word.value = 0
        self._call(driver.cuStreamWaitValue32_v2, stream, address, 1, GEQ)

    @staticmethod
    def _call(function, *arguments):
        status = function(*arguments)
        assert status == 0, (function.__name__, status)

    def release(self):
        self._word.value = 1
