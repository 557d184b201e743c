# SPDX-License-Identifier: Apache-2.0
"""An array is dropped while another stream still reads it, and memory of its
size is asked for at once and overwritten: does the reader see its own data?

usage: safety.py [--manager=plugin|planted|immediate] [--rounds=N] [--standin]

  plugin     moiety.numba: the reader must see its own data, in every round
  planted    the same, with little memory, but the package on PYTHONPATH was
             built without the events behind freed blocks
             (//emm:site_planted): wrong data must come out, or this program
             could not see an error
  immediate  a manager that hands freed memory out again at once, for
             comparison: wrong data must come out

On a GPU the reader is a kernel that waits before it reads. On the stand-in
driver, which runs no kernels, it is a copy on a stream that is held. Neither of
the two streams waits for the other or for the legacy stream.
"""

import argparse
import ctypes
import os
import sys
import time
from dataclasses import dataclass

import numpy as np

os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

from numba import cuda  # noqa: E402, after its settings

import moiety.numba  # noqa: E402
from immediate import Immediate  # noqa: E402
from numba.cuda.cudadrv.driver import device_memset  # noqa: E402

WORDS = 4096
BLOCK = 256
OURS, THEIRS = 0x11, 0x22  # what each byte is
NON_BLOCKING = 1
# So many readers may wait behind each other: a pool looks at what is over when
# it needs memory, not at each free.
IN_FLIGHT = 250
# Of which the results take half; the blocks of one group would take all.
PLANTED_LIMIT = 8 << 20
# Of the rounds, how many must have had a reader that was not done yet when its
# array had been dropped and overwritten: the others show nothing.
LEAST_PENDING = 0.9


@cuda.jit
def copy_late(source, out):
    for _ in range(4):
        cuda.nanosleep(200_000)
    i = cuda.grid(1)
    if i < out.size:
        out[i] = source[i]


@dataclass
class Counts:
    pending: int = 0  # the reader was not done when the next had its memory
    reused: int = 0  # the next got memory that was still to be read
    wrong: int = 0  # the reader saw other data than its own


class Stream:
    """A stream that is not ordered with the legacy one."""

    def __init__(self, driver):
        handle = ctypes.c_void_p()
        status = driver.cuStreamCreate(ctypes.byref(handle), NON_BLOCKING)
        assert status == 0, f"cuStreamCreate: {status}"
        self.handle = handle
        self.of_numba = cuda.external_stream(handle.value)


class Kernels:
    """Reads late on a GPU."""

    def __init__(self, stream):
        self.stream = stream.of_numba

    def begin(self):
        pass

    def read(self, source, out):
        copy_late[WORDS // BLOCK, BLOCK, self.stream](source, out)

    def end(self):
        self.stream.synchronize()


class Held:
    """Reads late on the stand-in: at the end."""

    def __init__(self, stream, driver):
        self.stream = stream.of_numba
        self._handle, self._driver = stream.handle, driver

    def begin(self):
        assert self._driver.moiety_standin_hold(self._handle) == 0

    def read(self, source, out):
        out.copy_to_device(source, stream=self.stream)

    def end(self):
        assert self._driver.moiety_standin_release(self._handle) == 0
        self.stream.synchronize()


class Rounds:
    def __init__(self, is_standin):
        cuda.current_context()
        driver = ctypes.CDLL("libcuda.so.1")
        stream = Stream(driver)
        self._reader = Held(stream, driver) if is_standin else Kernels(stream)
        self._writer = Stream(driver).of_numba
        self._outs = cuda.device_array((IN_FLIGHT, WORDS), np.int32)
        # By the address that it has still to read, or had: a reader's event.
        self._readers = {}

    def run(self, count):
        """Runs so many rounds, a multiple of IN_FLIGHT."""
        counts = Counts()
        for _ in range(count // IN_FLIGHT):
            self._run_group(counts)
        return counts

    def _run_group(self, counts):
        self._fill(self._outs, 0)
        self._reader.begin()
        for out in self._outs:
            self._run_one(out, counts)
        self._reader.end()
        self._readers.clear()
        seen = self._outs.copy_to_host().view(np.uint8)
        counts.wrong += np.count_nonzero((seen != OURS).any(axis=1))

    def _run_one(self, out, counts):
        done = self._read_and_drop(out)
        # Two, or a pool that hands its blocks out in turn would give the memory
        # of each source to another source.
        taken = [cuda.device_array(WORDS, np.int32) for _ in range(2)]
        is_reused = any(self._is_read(address_of(one)) for one in taken)
        for one in taken:
            self._fill(one, THEIRS)
        counts.pending += not done.query()
        counts.reused += is_reused

    def _read_and_drop(self, out):
        source = cuda.device_array(WORDS, np.int32)
        self._fill(source, OURS)
        self._reader.read(source, out)
        done = cuda.event(timing=False)
        done.record(self._reader.stream)
        self._readers[address_of(source)] = done
        return done

    def _is_read(self, address):
        done = self._readers.get(address)
        return done is not None and not done.query()

    def _fill(self, array, byte):
        device_memset(array, byte, array.nbytes, stream=self._writer)
        self._writer.synchronize()


def address_of(array):
    return array.gpu_data.device_pointer_value


def use(manager):
    if manager == "planted":
        # The plug-in itself would have to wait for readers that are held.
        os.environ["MOIETY_CONF"] = f"limit:{PLANTED_LIMIT}"
    if manager == "immediate":
        cuda.set_memory_manager(Immediate)
    else:
        moiety.numba.enable()


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--manager", default="plugin",
                        choices=["plugin", "planted", "immediate"])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--standin", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < IN_FLIGHT or arguments.rounds % IN_FLIGHT:
        parser.error(f"--rounds is no multiple of {IN_FLIGHT}")
    return arguments


def main():
    arguments = parse_arguments()
    use(arguments.manager)
    start = time.monotonic()
    counts = Rounds(arguments.standin).run(arguments.rounds)
    print(f"{arguments.manager}, {cuda.get_current_device().name}: "
          f"{arguments.rounds} rounds, {counts.pending} of them with a reader "
          f"that was not done; its memory was handed out again in "
          f"{counts.reused}; it saw other data than its own in {counts.wrong}; "
          f"{time.monotonic() - start:.1f} s", flush=True)
    if counts.pending < LEAST_PENDING * arguments.rounds:
        print("FAILED: too few rounds show anything")
        return False
    if arguments.manager == "plugin":
        return counts.reused == 0 and counts.wrong == 0
    return counts.reused > 0 and counts.wrong > 0


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
