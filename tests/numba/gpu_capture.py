# SPDX-License-Identifier: Apache-2.0
"""Graph captures of PyTorch, CuPy and cuda.core on a GPU, while another thread
frees memory of a pool with ANY: they succeed when moiety.numba holds the capture
guard for them, and break when nobody does.

usage: gpu_capture.py [--captures=N] [FRAMEWORK...]   all three unless named

Each is tried in a process of its own three times: with the plugin imported
before the framework, after it, and not at all. The last must see a capture
break, or the other two show nothing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np

LARGE = 32 << 20  # a free of so much is asked about at once
WORDS = 1 << 16
FREES = 5  # so many come during a capture
BROKEN = re.compile("captur|invalidated", re.IGNORECASE)


class Freer:
    """A thread that takes memory from a pool and frees it, with ANY."""

    def __init__(self):
        import moiety

        self.pool = moiety.Pool()
        self.frees = 0
        self.error = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        import moiety

        try:
            while True:
                self.pool.alloc(LARGE).free()
                self.frees += 1
                time.sleep(0.001)
        except moiety.Error as error:
            self.error = error

    def wait(self):
        """Until it has freed some more."""
        last = self.frees + FREES
        while self.frees < last:
            if self.error:
                raise RuntimeError(f"the thread that frees: {self.error}")
            time.sleep(0.0005)


# Each yields, capture after capture, what was captured twice comes to: an array
# of 2.


def torch(freer):
    import torch

    x = torch.zeros(WORDS, dtype=torch.int32, device="cuda")
    x += 1
    while True:
        x.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x += 1
            freer.wait()
            x += 1
        graph.replay()
        torch.cuda.synchronize()
        yield x.cpu().numpy()


def cupy(freer):
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    x = cupy.zeros(WORDS, np.int32)
    x += 1
    while True:
        x.fill(0)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            x += 1
            freer.wait()
            x += 1
            graph = stream.end_capture()
            graph.launch()
        stream.synchronize()
        yield x.get()


def cuda_core(freer):
    from cuda.core import Device, LegacyPinnedMemoryResource

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    pinned = LegacyPinnedMemoryResource().alloc_raw(WORDS)
    x = device.alloc_raw(WORDS, stream=stream)
    stream.sync()
    while True:
        builder = device.create_graph_builder().begin_building()
        x.fill(1, stream=builder)
        freer.wait()
        x.fill(2, stream=builder)
        graph = builder.end_building().complete()
        builder.close()
        graph.launch(stream)
        x.copy_to(pinned, stream=stream)
        stream.sync()
        yield np.from_dlpack(pinned).view(np.uint8).copy()


FRAMEWORKS = {"torch": torch, "cupy": cupy, "cuda_core": cuda_core}
IMPORTED = {"torch": "torch", "cupy": "cupy", "cuda_core": "cuda.core"}
PLUGIN = ("before", "after", "never")


def capture(framework, plugin, count):
    """Says as JSON what became of it."""
    if plugin == "before":
        import moiety.numba
    __import__(IMPORTED[framework])
    if plugin == "after":
        import moiety.numba  # noqa: F811
    freer = Freer()
    done, error = 0, None
    try:
        for seen in FRAMEWORKS[framework](freer):
            if (seen != 2).any():
                raise ValueError(f"wrong result: {seen}")
            done += 1
            if done == count:
                break
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    stats = freer.pool.stats()
    print(json.dumps({
        "done": done, "error": error and error.splitlines()[0],
        "frees": freer.frees, "guarded": stats.ages_guarded,
        "disturbed": stats.captures_disturbed}), flush=True)
    os._exit(0)  # what a broken capture leaves behind need not be torn down


def judge(framework, plugin, count):
    """Runs it in a process of its own, and says whether it was as expected."""
    try:
        ran = subprocess.run(
            [sys.executable, __file__, f"--captures={count}",
             f"--plugin={plugin}", framework],
            capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired as error:
        print(f"{framework}, plugin imported {plugin}: WRONG: {error}",
              flush=True)
        return False
    try:
        seen = json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{framework}, plugin imported {plugin}: WRONG: status "
              f"{ran.returncode}, and\n{ran.stdout}{ran.stderr}", flush=True)
        return False
    if plugin == "never":
        is_right = bool(seen["error"] and BROKEN.search(seen["error"]))
    else:
        is_right = (seen["error"] is None and seen["done"] == count
                    and seen["guarded"] > 0 and seen["disturbed"] == 0)
    print(f"{framework}, plugin imported {plugin}: {seen['done']} captures, "
          f"{seen['error'] or 'none broken'}; {seen['frees']} frees, "
          f"{seen['guarded']} batches waited for a guard, "
          f"{seen['disturbed']} met a capture: "
          f"{'as it should be' if is_right else 'WRONG'}", flush=True)
    return is_right


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--captures", type=int, default=20)
    parser.add_argument("--plugin", choices=PLUGIN)  # for the processes
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK",
                        help=", ".join(FRAMEWORKS))
    arguments = parser.parse_args()
    unknown = set(arguments.frameworks) - set(FRAMEWORKS)
    if unknown:
        parser.error(f"no framework: {', '.join(sorted(unknown))}")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.plugin:
        capture(arguments.frameworks[0], arguments.plugin, arguments.captures)
    return all([judge(framework, plugin, arguments.captures)
                for framework in arguments.frameworks or FRAMEWORKS
                for plugin in PLUGIN])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
