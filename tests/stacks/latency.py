# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds an allocation and its free take by CuPy's pool and by ours, with
1 to 8 threads, each on a stream of its own; and by RMM's pool and ours where RMM
is there. Prints JSON: the median of repeats, and all of them. It asserts
nothing."""

import json
import statistics
import threading
import time

import cupy

import moiety
import moiety.cupy

CALLS = 50_000
REPEATS = 7
SIZES = (1000, 100_000, 4 << 20)
THREADS = (1, 2, 4, 8)


def loop_of(malloc, size, count):
    begun = time.perf_counter_ns()
    for _ in range(count):
        malloc(size)
    return (time.perf_counter_ns() - begun) / count


def run_threads(count, malloc, size):
    """Mean nanoseconds a call over all threads."""
    found, barrier = [], threading.Barrier(count)

    def work():
        cupy.cuda.Device(0).use()
        with cupy.cuda.Stream(non_blocking=True):
            loop_of(malloc, size, 100)
            barrier.wait()
            found.append(loop_of(malloc, size, CALLS // count))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.mean(found)


def subjects():
    yield "cupy", cupy.cuda.MemoryPool().malloc
    yield "moiety", moiety.cupy.allocator(moiety.Pool())
    yield "moiety, mapped", moiety.cupy.allocator(moiety.Pool(memory="mapped"))


def rmm_subjects():
    try:
        import rmm
        import rmm.mr

        import moiety.rmm
    except ImportError:
        return
    stream = rmm.pylibrmm.stream.Stream()
    for name, resource in (
            ("rmm pool", rmm.mr.PoolMemoryResource(
                rmm.mr.CudaMemoryResource(), 1 << 30)),
            ("rmm async", rmm.mr.CudaAsyncMemoryResource()),
            ("moiety.rmm", moiety.rmm.MemoryResource(pool=moiety.Pool()))):
        def malloc(size, resource=resource):
            resource.deallocate(resource.allocate(size, stream), size, stream)
        yield name, malloc


def measure():
    made = [*subjects()]
    # Repeats go around all subjects, so that a slow moment meets each.
    rows = {}
    for _ in range(REPEATS):
        for size in SIZES:
            for name, malloc in made:
                for count in THREADS:
                    rows.setdefault((name, size, count), []).append(
                        run_threads(count, malloc, size))
            for name, malloc in rmm_subjects():
                rows.setdefault((name, size, 1), []).append(
                    loop_of(malloc, size, CALLS // 5))
    for (name, size, count), values in rows.items():
        yield {"subject": name, "size_bytes": size, "threads": count,
               "median_ns": round(statistics.median(values)),
               "all_ns": [round(value) for value in values]}


if __name__ == "__main__":
    cupy.cuda.Device(0).use()
    print(json.dumps({
        "device": moiety.probe()["name"], "cupy": cupy.__version__,
        "rows": list(measure())}, indent=1))
