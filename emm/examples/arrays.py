# SPDX-License-Identifier: Apache-2.0
"""Numba's arrays on a pool with a limit.

    python emm/examples/arrays.py
"""

import numpy as np
from numba import cuda

import moiety.numba


def main():
    # Before Numba's first use of a device.
    moiety.numba.enable(limit=1 << 30, first_segment_bytes=32 << 20)

    total = 0
    for step in range(1000):
        total += int(cuda.to_device(np.full(1000, step)).copy_to_host()[0])
    print("sum", total)

    arrays = [cuda.device_array(1_000_000, np.uint8) for _ in range(20)]
    stats = moiety.numba.pool().stats()
    print(stats.allocation_current, "arrays in",
          stats.segment_current, "segment")
    del arrays

    try:
        cuda.device_array(2 << 30, np.uint8)
    except moiety.OutOfMemoryError as error:
        print("refused:", error.status)


if __name__ == "__main__":
    main()
