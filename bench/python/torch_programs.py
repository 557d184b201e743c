# SPDX-License-Identifier: Apache-2.0
"""Device memory and time of the programs of torch_zoo.py on PyTorch's allocator,
on that with expandable segments, and on Moiety, on the driver's memory and mapped.

    torch_programs.py [--programs=NAME,...] [--allocators=NAME,...] [--turns=N]
                      [--budget=S] [--smoke] >FILE
    torch_programs.py --table FILE...

Each program runs in a process of its own for each allocator; in each turn the
allocators come in another order. While one measures, the next one imports what it
needs. No process begins that the budget would not let end. Prints one row of JSON
for each, and at the end a table, to stderr; `--table` makes it from rows. `--smoke`
tries all programs on the processor, small.

A row has the most live and the most reserved bytes as PyTorch's statistics have
them, from the model on. Live bytes differ by how allocators round: the table
divides by those of PyTorch's own allocator for all. Steps are timed one by one,
after half as many to warm up. Where TURNS names what torch_turns.cc makes, more
steps are made in which the allocator's calls are timed.

Needs the package `moiety`, PyTorch and the libraries that torch_zoo.py names.
"""

import argparse
import collections
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CONF = "PYTORCH_ALLOC_CONF"
ALLOCATORS = {  # and what enable() is told
    "native": None,
    "expandable": None,
    "moiety": "driver",
    "mapped": "mapped",
}
PROGRAMS = ("finetune", "generation", "detection", "graphs", "classification",
            "vision", "segmentation", "translation")
PROCESS_LIMIT_S = 90
TIMED = 1  # of torch_turns.cc


class Calls:
    """What calls of the allocator take, by torch_turns.cc; with none, nothing."""

    def __init__(self, torch):
        self.library = None
        if "TURNS" not in os.environ or not torch.cuda.is_available():
            return
        self.library = ctypes.CDLL(os.environ["TURNS"])
        self.library.turns_microseconds.restype = ctypes.c_double
        self.library.turns_note_native()
        self.library.turns_begin(torch.cuda.device_count())

    def microseconds(self, step, numbers):
        """For a step: in allocations, and in frees."""
        if self.library is None:
            return None
        self.library.turns_take(0, TIMED)
        for number in numbers:
            step(number)
        return [round(self.library.turns_microseconds(0, kind) / len(numbers),
                      1) for kind in range(2)]


def processor_ms():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def timed(step, numbers, wait):
    """ms of each step."""
    found = []
    for number in numbers:
        begin = time.perf_counter()
        step(number)
        wait()
        found.append(round(1e3 * (time.perf_counter() - begin), 3))
    return found


def memory_fields(torch):
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    return {"live_peak_bytes": stats["allocated_bytes.all.peak"],
            "requested_peak_bytes": stats["requested_bytes.all.peak"],
            "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
            "allocations": stats["allocation.all.allocated"],
            "retries": stats.get("num_alloc_retries", 0),
            "is_mapped": any(segment["is_expandable"] for segment in segments)}


def pool_fields(options):
    """What Moiety counts, if it is the allocator."""
    if ALLOCATORS[options.allocator] is None or options.smoke:
        return {}
    import moiety
    import torch

    pool = moiety.pool_of(torch.zeros(1, device="cuda").data_ptr())
    return {"pool": {name: value for name, value in pool.stats().as_dict().items()
                     if isinstance(value, int) and value}}


def run_program(options):
    """In a process of its own: prints its row."""
    import torch
    import torch_zoo

    if ALLOCATORS[options.allocator] and not options.smoke:
        import moiety.torch
        moiety.torch.enable(memory=ALLOCATORS[options.allocator])
    torch_zoo.make(options.run, "cpu", True)  # imports all of it
    sys.stdin.readline()
    device = "cpu" if options.smoke else "cuda"
    wait = (lambda: None) if options.smoke else torch.cuda.synchronize
    step, count = torch_zoo.make(options.run, device, options.smoke)
    for number in range(count // 2):
        step(number)
    wait()
    numbers = range(count // 2, count // 2 + count)
    begin = processor_ms()
    ms = timed(step, numbers, wait)
    taken = processor_ms() - begin
    row = {"steps": count, "ms_of_steps": ms,
           "cpu_ms_per_step": round(taken / count, 3)}
    if not options.smoke:
        row |= memory_fields(torch) | pool_fields(options)
        row["device"] = torch.cuda.get_device_name()
    result = float(step(numbers[-1]))
    row["alloc_free_us_per_step"] = Calls(torch).microseconds(
        step, numbers[count // 2:])
    wait()
    print(json.dumps(row | {"result": result, "torch": torch.__version__}),
          flush=True)


class Process:
    """One program on one allocator, which waits for start()."""

    def __init__(self, options, program, allocator, turn):
        self.about = {"kind": "torch-program", "program": program,
                      "allocator": allocator, "turn": turn,
                      "conf": os.environ.get("MOIETY_CONF", "")}
        environment = {name: value for name, value in os.environ.items()
                       if name not in (CONF, "PYTORCH_CUDA_ALLOC_CONF")}
        if allocator == "expandable":
            environment[CONF] = "expandable_segments:True"
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(
            [sys.executable, __file__, f"--run={program}",
             f"--allocators={allocator}",
             *(["--smoke"] if options.smoke else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            text=True, env=environment)

    def row(self):
        """Lets it measure, and waits for its end."""
        begin = time.monotonic()
        try:
            output, _ = self.child.communicate("\n", timeout=PROCESS_LIMIT_S)
            found = json.loads(output.splitlines()[-1])
        except subprocess.TimeoutExpired:
            self.end()
            found = {"error": f"still running after {PROCESS_LIMIT_S} s"}
        except (ValueError, IndexError):
            found = {"error": self.last_words()}
        return {**self.about, **found,
                "seconds": round(time.monotonic() - begin, 2)}

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines() or ["nothing"]
        return f"status {self.child.returncode}: {lines[-1][:300]}"

    def end(self):
        self.child.kill()
        self.child.communicate()


def plan(options):
    """Program, allocator and turn of each process."""
    names = list(options.allocators)
    for turn in range(options.turns):
        for program in options.programs:
            for allocator in names:
                yield program, allocator, turn
        names.append(names.pop(0))


def run_all(options):
    """Rows, printed as they come."""
    end = time.monotonic() + options.budget
    rows, longest, following = [], 0, None
    wanted = list(plan(options))
    for i, one in enumerate(wanted):
        begin = time.monotonic()
        if begin + longest > end:
            print(f"torch_programs: {i} of {len(wanted)} processes: the budget "
                  "is spent", file=sys.stderr)
            break
        process = following or Process(options, *one)
        following = Process(options, *wanted[i + 1]) \
            if i + 1 < len(wanted) else None
        rows.append(process.row())
        print(json.dumps(rows[-1]), flush=True)
        longest = max(longest, time.monotonic() - begin)
    if following:
        following.end()
    return rows


def groups_of(rows):
    """Rows without an error, by program and allocator."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        if "error" not in row:
            found[row["program"]][row["allocator"]][row["turn"]] = row
    return found


def ratio_text(mine, native):
    """The median over turns of the sum of the steps ÷ native's of the turn."""
    ratios = [sum(row["ms_of_steps"]) / sum(native[turn]["ms_of_steps"])
              for turn, row in mine.items() if turn in native]
    return f"{statistics.median(ratios):.3f}" if ratios else "-"


def line_of(program, allocator, mine, native):
    rows = list(mine.values())
    steps = sorted(ms for row in rows for ms in row["ms_of_steps"])
    quartiles = statistics.quantiles(steps, n=4)
    cells = [program, allocator, f"{len(rows)}",
             "/".join(f"{ms:.1f}" for ms in quartiles),
             ratio_text(mine, native),
             f"{statistics.median(row['cpu_ms_per_step'] for row in rows):.1f}"]
    calls = [sum(row["alloc_free_us_per_step"]) for row in rows
             if row["alloc_free_us_per_step"]]
    cells.append(f"{statistics.median(calls) / 1e3:.2f}" if calls else "-")
    if "live_peak_bytes" in rows[0]:
        live = statistics.median(row["live_peak_bytes"]
                                 for row in (native or mine).values())
        most = [row["reserved_peak_bytes"] for row in rows]
        cells += [f"{live / 2**30:.2f}",
                  f"{statistics.median(most) / live:.3f}",
                  "yes" if rows[0]["is_mapped"] else "no",
                  f"{rows[0]['result']:.4f}"]
    return cells


def table(rows):
    yield ("program        allocator  n  ms: q1/median/q3     / native  cpu ms  "
           "calls ms  live GiB  reserved/live  mapped  result")
    for program, allocators in groups_of(rows).items():
        native = allocators.get("native", {})
        for allocator, mine in allocators.items():
            widths = (14, 10, 2, 20, 8, 7, 9, 9, 14, 7, 8)
            yield " ".join(f"{cell:<{width}}" for cell, width in zip(
                line_of(program, allocator, mine, native), widths)).rstrip()
    for row in rows:
        if "error" in row:
            yield (f"FAILED {row['program']} {row['allocator']} "
                   f"{row['turn']}: {row['error']}")


def some_of(names):
    def chosen(text):
        words = text.split(",")
        if not set(words) <= set(names):
            raise ValueError(text)
        return words
    return chosen


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=some_of(PROGRAMS),
                        default=list(PROGRAMS))
    parser.add_argument("--allocators", type=some_of(ALLOCATORS),
                        default=list(ALLOCATORS))
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--budget", type=float, default=600)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--table", nargs="+", metavar="FILE")
    parser.add_argument("--run", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.allocator = options.allocators[0]
    return options


def main(arguments):
    options = parse(arguments)
    if options.run:
        run_program(options)
        return 0
    rows = []
    for name in options.table or []:
        with open(name, encoding="utf-8") as file:
            rows += map(json.loads, file)
    rows = rows if options.table else run_all(options)
    print(*table(rows), sep="\n",
          file=sys.stdout if options.table else sys.stderr)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
