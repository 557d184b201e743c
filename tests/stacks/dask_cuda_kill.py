#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker of dask-cuda's cluster is killed: two workers, a GPU each, exchange
arrays of CuPy before and after, and what the killed one had is made again.

usage: dask_cuda_kill.py

Prints one JSON object; the exit status is 0 when all was right. It needs two
GPUs, CuPy and dask-cuda.
"""

import json
import os
import signal
import sys
import time

from moiety.dask import MoietySetup
from dask_cuda import LocalCUDACluster
from distributed import Client, wait

ELEMENTS = 8 << 20
ROUNDS = 10
BACK_WITHIN_S = 90


def make(value):
    import cupy
    return cupy.full(ELEMENTS, value, dtype=cupy.float32)


def total(array):
    return float(array.astype("float64").sum())


def exchange(client):
    """How many sums were wrong, of arrays that went to the other worker."""
    wrong = 0
    for i in range(ROUNDS):
        workers = list(client.scheduler_info()["workers"])
        made = client.submit(make, float(i + 1), workers=[workers[i % 2]],
                             pure=False)
        summed = client.submit(total, made, workers=[workers[(i + 1) % 2]],
                               pure=False)
        wrong += summed.result() != float(i + 1) * ELEMENTS
    return wrong


def is_sum(client, array, value):
    return client.submit(total, array, pure=False).result() == value * ELEMENTS


def wait_for_another(client, pid):
    """Seconds until two workers are there, and none of them has that pid."""
    begin = time.monotonic()
    # The bound is the user's: that is what is measured.
    while time.monotonic() - begin < BACK_WITHIN_S:
        # One that ends does not answer.
        there = client.run(os.getpid, on_error="ignore")
        if len(there) == 2 and pid not in there.values():
            break
        # Until it is asked again.
        time.sleep(0.5)
    return round(time.monotonic() - begin, 1)


def main():
    row = {"kind": "dask-cuda-kill"}
    with LocalCUDACluster(n_workers=2, protocol="tcp",
                          dashboard_address=":0") as cluster, \
            Client(cluster) as client:
        client.register_plugin(MoietySetup("4GiB", libraries=["cupy"]))
        pids = client.run(os.getpid)
        victim, other = pids
        row["wrong_before"] = exchange(client)
        kept = client.submit(make, 7.0, workers=[other], pure=False)
        lost = client.submit(make, 9.0, workers=[victim],
                             allow_other_workers=True, pure=False)
        wait([kept, lost])
        os.kill(pids[victim], signal.SIGKILL)
        row["back_after_s"] = wait_for_another(client, pids[victim])
        row["kept_is_right"] = is_sum(client, kept, 7.0)
        row["lost_is_made_again"] = is_sum(client, lost, 9.0)
        row["wrong_after"] = exchange(client)
    print(json.dumps(row))
    return (not row["wrong_before"] and not row["wrong_after"] and
            row["back_after_s"] < BACK_WITHIN_S and row["kept_is_right"] and
            row["lost_is_made_again"])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
