# SPDX-License-Identifier: Apache-2.0
"""Two processes and one array in device memory: the second doubles a part of
what the first has written, in place.

    python emm/examples/ipc.py

The arrays are numba's; CuPy and torch take shared memory the same way, by
cupy.asarray(shared) and torch.as_tensor(shared, device="cuda").
"""

import multiprocessing

import numpy as np
from numba import cuda

import moiety
import moiety.ipc


def double(connection):
    """The other process."""
    with moiety.ipc.open_handle(connection.recv()) as shared:
        array = cuda.as_cuda_array(shared)
        array.copy_to_device(2 * array.copy_to_host())
    # Here its work on the array is over: the owner may write it again. After
    # this it may give the memory away, too.
    moiety.ipc.trim()
    connection.send("nothing of it is open any more")


def main():
    # Shared arrays are in a pool of their own: a process that gets one array can
    # reach the others.
    pool = moiety.Pool(exportable=True)
    array = cuda.as_cuda_array(pool.alloc(8 * 10)).view(np.float64)
    array.copy_to_device(np.arange(10.0))
    cuda.synchronize()  # the other process must find it written

    # A child of fork() could not use the driver.
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    other = processes.Process(target=double, args=(theirs,))
    other.start()
    handle = moiety.ipc.export(array[4:7])
    ours.send(handle)
    ours.recv()
    other.join()
    handle.release()
    print(array.copy_to_host())


if __name__ == "__main__":
    main()
