# SPDX-License-Identifier: Apache-2.0
"""Batches go to the device through a few pinned buffers on the NUMA node next
to it. Each buffer is freed as soon as its copy is queued; the arena hands it
out again when the copy is over.

    python emm/examples/loader.py
"""

import numpy as np
from numba import cuda

import moiety

BATCHES = 32
BATCH_BYTES = 1 << 20


def main():
    # Eight buffers at most; reserved now, so that no copy waits for a pin.
    arena = moiety.HostArena(device=0, limit=8 * BATCH_BYTES)
    arena.reserve(8 * BATCH_BYTES)
    stream = cuda.stream()
    arrived = []
    for number in range(BATCHES):
        buffer = arena.alloc(BATCH_BYTES)  # for the CPU: no copy uses it
        batch = np.frombuffer(buffer, np.float32)
        batch[:] = number
        on_device = cuda.device_array(batch.shape, batch.dtype)
        on_device.copy_to_device(batch, stream=stream)
        del batch
        buffer.free(stream)
        arrived.append(on_device)
    stream.synchronize()
    are_right = all((array.copy_to_host() == number).all()
                    for number, array in enumerate(arrived))
    print(len(arrived), "batches arrived" if are_right else "are wrong")
    print(arena.stats().host.pages_elsewhere, "pages on other nodes")


if __name__ == "__main__":
    main()
