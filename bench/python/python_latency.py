# SPDX-License-Identifier: Apache-2.0
"""What memory costs in Python: through numba, CuPy and cuda.core, each with its own
memory and with Moiety's, from Moiety's pools and from PyTorch's.

usage: python_latency.py [--processes=N] [--threads=N,...] [--cell-ms=MS]
                         [--budget=S] >FILE

Each round starts one process of each kind (python_subjects.py), one after the
other, so that all are measured under the same conditions; N rounds, 5 if
nothing is said. No round begins that the budget would not let end: a run that
was too slow has fewer. The rows, one JSON object a line, are for
python_table.py. A package that is missing is a row that says so.

With T threads, each of them makes its pairs between a common start and its own
end; a number is the time from the start to the last end, for each pair of a
thread. Where one thread at a time holds the GIL it is T times as long.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import python_subjects

BATCHES = 7
TURNS_MAX = 1 << 22
# A process that takes so long hangs.
PROCESS_LIMIT_S = 60

now = time.monotonic_ns


def make_pairs(take, count):
    for _ in range(count):
        take()


def take_of(pair):
    """In a thread that will make pairs."""
    pair.enter()
    return pair.of_thread() if pair.of_thread else pair.take


class Threads:
    """Runs as many pairs in each of its threads, from a common start on."""

    def __init__(self, count, pair):
        self.count = count
        self.pair = pair
        self.own = threading.local()
        self.start = threading.Barrier(count + 1)
        self.workers = ThreadPoolExecutor(count)
        # Each waits for the others, so that each gets a thread.
        self._in_all(self._enter)
        self.batch(2)

    def _enter(self):
        self.own.take = take_of(self.pair)

    def _make(self, turns):
        make_pairs(self.own.take, turns)

    def _work(self, call, *arguments):
        self.start.wait()
        call(*arguments)

    def _in_all(self, call, *arguments):
        ends = [self.workers.submit(self._work, call, *arguments)
                for _ in range(self.count)]
        begun = now()
        self.start.wait()
        for end in ends:
            end.result()
        return now() - begun

    def batch(self, turns):
        return self._in_all(self._make, turns)

    def end(self):
        self.workers.shutdown()


class OneThread:
    def __init__(self, pair):
        self.take = take_of(pair)
        make_pairs(self.take, 2)

    def batch(self, turns):
        begun = now()
        make_pairs(self.take, turns)
        return now() - begun

    def end(self):
        pass


def measure(batch, cell_ns):
    """ns for each pair in batches, and how many pairs a thread has in one."""
    turns, wanted_ns = 1, cell_ns // BATCHES
    # Twice: the first may have been slow because a pool grew.
    while turns < TURNS_MAX and min(batch(turns), batch(turns)) < wanted_ns:
        turns *= 2
    return [batch(turns) / turns for _ in range(BATCHES)], turns


def measure_pair(pair, threads, cell_ns):
    """The fields of a row."""
    if not pair.is_right(pair.take()):
        raise RuntimeError("the memory is not what it should be")
    runner = OneThread(pair) if threads == 1 else Threads(threads, pair)
    try:
        values, turns = measure(runner.batch, cell_ns)
    finally:
        runner.end()
    return {"ns_median": round(statistics.median(values), 1),
            "ns_least": round(min(values), 1), "ns_most": round(max(values), 1),
            "batches": len(values), "turns": turns}


def emit(what, subject, process=None, skipped=None, error=None, **fields):
    print(json.dumps({"what": what, "subject": subject, "process": process,
                      **fields, "skipped": skipped, "error": error},
                     separators=(",", ":")), flush=True)


def run_kind(options):
    """In a process of its own: all operations, by all numbers of threads."""
    make, _ = python_subjects.KINDS[options.kind]
    try:
        version, pairs = make()
    except python_subjects.Missing as missing:
        emit("latency", options.kind, options.process, skipped=str(missing))
        return
    gc.disable()
    for pair in pairs:
        for threads in options.threads:
            fields = {"operation": pair.operation, "threads": threads,
                      "size_bytes": pair.size_bytes, "version": version}
            try:
                fields |= measure_pair(pair, threads, options.cell_ms * 1000000)
            except Exception as error:  # whatever a package raises is a row
                emit("latency", pair.subject, options.process, **fields,
                     error=f"{type(error).__name__}: {error}")
                continue
            emit("latency", pair.subject, options.process, **fields)


def start_kind(options, kind, process):
    """Passes on the rows of a process; one that dies is a row, too."""
    command = [sys.executable, __file__, f"--kind={kind}",
               f"--process={process}", f"--cell-ms={options.cell_ms}",
               f"--threads={','.join(map(str, options.threads))}"]
    _, environment = python_subjects.KINDS[kind]
    failed = None
    try:
        ended = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True,
            timeout=PROCESS_LIMIT_S, check=False)
        output = ended.stdout
        if ended.returncode:
            last = ended.stderr.decode().strip().rpartition("\n")[2]
            failed = f"status {ended.returncode}, {last}"
    except subprocess.TimeoutExpired as timeout:
        output = timeout.stdout or b""
        failed = f"still running after {PROCESS_LIMIT_S} s"
    sys.stdout.write(output.decode())
    sys.stdout.flush()
    if failed:
        emit("latency", kind, process, error=failed)


def cpu_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    names = [line.split(": ", 1)[1] for line in lines
             if line.startswith("model name")]
    return names[0] if names else "unknown"


def commit():
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True,
        text=True, check=False, cwd=pathlib.Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def emit_about(options):
    """What was measured on what."""
    about = json.loads(subprocess.run(
        [sys.executable, "-m", "moiety", "info", "--json"], check=True,
        stdout=subprocess.PIPE).stdout)
    device = (about["devices"] or [{}])[0]
    emit("run", None, cpu=cpu_name(), processors=os.cpu_count(),
         device=device.get("name", f"none: {about['devices_error']}"),
         driver_version=device.get("driver_version", 0),
         is_standin=device.get("is_standin", False), commit=commit(),
         repeats=options.processes, cell_ms=options.cell_ms,
         moiety_conf=about["conf"], versions=about["versions"])


def run_rounds(options):
    end = time.monotonic() + options.budget
    emit_about(options)
    longest = 0
    for process in range(options.processes):
        begun = time.monotonic()
        if begun + longest > end:
            print(f"python_latency: {process} of {options.processes} rounds: "
                  f"the budget is spent", file=sys.stderr)
            return
        for kind in options.kinds:
            start_kind(options, kind, process)
        longest = max(longest, time.monotonic() - begun)


def numbers(text):
    found = [int(word) for word in text.split(",")]
    if not all(1 <= number <= 1024 for number in found):
        raise ValueError(text)
    return found


def kinds(text):
    if not set(text.split(",")) <= python_subjects.KINDS.keys():
        raise ValueError(text)
    return text.split(",")


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--threads", type=numbers, default=[1, 16])
    parser.add_argument("--cell-ms", type=int, default=60)
    parser.add_argument("--budget", type=float, default=150)
    parser.add_argument("--kinds", type=kinds,
                        default=list(python_subjects.KINDS),
                        help="these alone")
    # For the processes that it starts itself.
    parser.add_argument("--kind", choices=python_subjects.KINDS,
                        help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if options.kind:
        run_kind(options)
    else:
        run_rounds(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
