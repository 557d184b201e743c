# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of Python and their tables, with subjects that only count and
programs that are rows."""

import contextlib
import io
import json
import pathlib
import re
import tempfile
import threading
import unittest
from unittest import mock

import python_latency
import python_subjects
import python_table
import table_text
import torch_programs
from python_subjects import Pair


class Counter:
    """Memory that knows who took it."""

    def __init__(self, is_right=True, fails=False):
        self.right = is_right
        self.fails = fails
        self.threads = {}
        self.entered = set()

    def take(self):
        if self.fails:
            raise MemoryError("none is left")
        own = threading.get_ident()
        self.threads[own] = self.threads.get(own, 0) + 1
        return object()

    def pair(self, operation="device memory", subject="moiety"):
        return Pair(operation, subject, 1 << 16, self.take,
                    lambda _: self.right,
                    lambda: self.entered.add(threading.get_ident()))


def rows_of(make, *arguments):
    output = io.StringIO()
    with mock.patch.dict(python_subjects.KINDS, {"moiety": (make, {})}), \
            mock.patch.object(python_latency.gc, "disable"), \
            contextlib.redirect_stdout(output):
        python_latency.main(["--kind=moiety", "--process=2", "--cell-ms=1",
                             *arguments])
    return [json.loads(line) for line in output.getvalue().splitlines()]


class Latency(unittest.TestCase):
    def test_row_has_the_spread_of_its_batches(self):
        counter = Counter()
        [row] = rows_of(lambda: ("1.2", [counter.pair()]), "--threads=1")
        self.assertEqual(
            (row["what"], row["subject"], row["operation"], row["process"],
             row["threads"], row["version"], row["skipped"], row["error"]),
            ("latency", "moiety", "device memory", 2, 1, "1.2", None, None))
        self.assertTrue(0 < row["ns_least"] <= row["ns_median"]
                        <= row["ns_most"])
        self.assertGreaterEqual(sum(counter.threads.values()),
                                row["batches"] * row["turns"])
        self.assertEqual(counter.entered, {threading.get_ident()})

    def test_each_thread_makes_all_turns(self):
        counter = Counter()
        [row] = rows_of(lambda: ("1.2", [counter.pair()]), "--threads=5")
        counts = [count for thread, count in counter.threads.items()
                  if thread != threading.get_ident()]
        self.assertEqual(len(counts), 5)
        self.assertEqual(len(set(counts)), 1)
        self.assertGreaterEqual(counts[0], row["batches"] * row["turns"])
        self.assertEqual(len(counter.entered), 5)

    def test_each_thread_has_its_own_blocks_of_mixed_sizes(self):
        sizes, made = {}, []

        def alloc(size):
            sizes.setdefault(threading.get_ident(), []).append(size)
            return size

        def of_thread():
            made.append(threading.get_ident())
            return python_subjects.live(alloc, 8 << 20)

        pair = Counter().pair()._replace(of_thread=of_thread)
        [row] = rows_of(lambda: ("1.2", [pair]), "--threads=3")
        self.assertIsNone(row["error"])
        self.assertEqual(set(made), sizes.keys())
        self.assertEqual(len(made), 3)
        one, *others = sizes.values()
        self.assertEqual([one] * 2, others)
        self.assertGreater(len(set(one)), 1)
        self.assertTrue(512 <= min(one) <= max(one) <= 8 << 20)

    def test_wrong_memory_is_an_error(self):
        [row] = rows_of(lambda: ("1", [Counter(is_right=False).pair()]),
                        "--threads=1")
        self.assertIn("not what it should be", row["error"])
        self.assertNotIn("ns_median", row)

    def test_failure_costs_its_own_row_only(self):
        bad, good = Counter(fails=True).pair(), Counter().pair()
        rows = rows_of(lambda: ("1", [bad, good]), "--threads=1")
        self.assertEqual([row["error"] for row in rows],
                         ["MemoryError: none is left", None])

    def test_missing_package_is_said(self):
        def missing():
            raise python_subjects.Missing("it is not installed")

        [row] = rows_of(missing, "--threads=1")
        self.assertEqual((row["skipped"], row["error"]),
                         ("it is not installed", None))


class Rounds(unittest.TestCase):
    def started(self, seconds_each, budget):
        """Which kinds were started in which round."""
        clock = [0.0]
        started = []

        def start(_options, kind, process):
            started.append((process, kind))
            clock[0] += seconds_each

        with mock.patch.object(python_latency, "start_kind", start), \
                mock.patch.object(python_latency, "emit_about"), \
                mock.patch.object(python_latency.time, "monotonic",
                                  lambda: clock[0]), \
                contextlib.redirect_stderr(io.StringIO()):
            python_latency.main(["--processes=3", "--kinds=cupy,torch",
                                 f"--budget={budget}"])
        return started

    def test_kinds_take_turns(self):
        self.assertEqual(self.started(1, 100), [
            (process, kind) for process in range(3)
            for kind in ("cupy", "torch")])

    def test_no_round_is_begun_that_would_outlast_the_budget(self):
        self.assertEqual(len(self.started(10, 45)), 4)
        self.assertEqual(len(self.started(10, 5)), 2)

    def rows_of_process(self, script, limit_s=600):
        """What is passed on of a process that does this instead."""
        output = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text(f"#!/bin/sh\n{script}\n")
            python.chmod(0o755)
            with mock.patch.object(python_latency.sys, "executable",
                                   str(python)), \
                    mock.patch.object(python_latency, "PROCESS_LIMIT_S",
                                      limit_s), \
                    contextlib.redirect_stdout(output):
                options = python_latency.parse([])
                python_latency.start_kind(options, "torch", 4)
        return [json.loads(line) for line in output.getvalue().splitlines()]

    def test_process_that_dies_keeps_its_rows_and_is_one(self):
        kept, lost = self.rows_of_process("echo '{}'; echo gone >&2; exit 3")
        self.assertEqual(kept, {})
        self.assertEqual((lost["subject"], lost["process"], lost["error"]),
                         ("torch", 4, "status 3, gone"))

    def test_process_that_hangs_keeps_its_rows_and_is_one(self):
        kept, lost = self.rows_of_process("echo '{}'; exec sleep 600",
                                          limit_s=10)
        self.assertEqual(kept, {})
        self.assertIn("still running", lost["error"])

    def test_unknown_words_are_refused(self):
        for words in ("--kinds=rmm", "--threads=0", "--threads=a"):
            with self.subTest(words=words), self.assertRaises(SystemExit), \
                    contextlib.redirect_stderr(io.StringIO()):
                python_latency.main([words])


RUN = {"what": "run", "subject": None, "process": None, "skipped": None,
       "error": None, "cpu": "C", "processors": 2, "device": "D",
       "driver_version": 13000, "is_standin": True, "commit": "c",
       "repeats": 3, "cell_ms": 1, "moiety_conf": None,
       "versions": {"moiety": "0"}}


def row_of(subject, process, ns, operation="numba memalloc", threads=1):
    return {"what": "latency", "subject": subject, "process": process,
            "operation": operation, "threads": threads, "size_bytes": 1 << 16,
            "version": "9", "ns_median": ns, "skipped": None, "error": None}


class Table(unittest.TestCase):
    def test_says_ratio_and_target(self):
        rows = [row_of("numba", i, 8000 + i) for i in range(3)]
        rows += [row_of("moiety", i, 2000 + i) for i in range(2)]
        rows += [row_of("moiety", 0, 50000, threads=16)]
        text = python_table.markdown([RUN, *rows])
        for line in (
                "| numba memalloc | 64 KiB | 1 | numba | 8 001 (8 000–8 002) "
                "| 4 | – | – |",
                "| numba memalloc | 64 KiB | 1 | moiety | 2 000 (2 000–2 001), "
                "of 2 | – | ≤ 2 500 | 0.80 |",
                "| numba memalloc | 64 KiB | 16 | moiety | 50 000, of 1 | – "
                "| – | – |",
                "- driver: CUDA 13.0 (stand-in, no GPU)"):
            self.assertIn(line, text.splitlines())

    def test_says_what_is_missing(self):
        lost = {"what": "latency", "subject": "torch", "process": 0,
                "skipped": None, "error": "status 1"}
        text = python_table.markdown([RUN, row_of("moiety", 0, 1), lost])
        self.assertIn("- FAILED: latency, torch: status 1", text)

    def test_is_of_one_run(self):
        with self.assertRaisesRegex(table_text.BadInput, "2 rows of a run"):
            python_table.markdown([RUN, RUN])


def program_row(allocator, turn, ms, reserved, live=1 << 30):
    return {"kind": "torch-program", "program": "graphs",
            "allocator": allocator, "turn": turn, "ms_of_steps": ms,
            "cpu_ms_per_step": 2.0, "alloc_free_us_per_step": [400, 100],
            "live_peak_bytes": live, "reserved_peak_bytes": reserved,
            "is_mapped": False, "result": 0.5}


class Programs(unittest.TestCase):
    def run_with(self, row, *arguments):
        """Rows that are printed, and what is said, with processes that make
        one without a program."""
        process = mock.Mock()
        process.return_value.row.side_effect = row
        output, said = io.StringIO(), io.StringIO()
        with mock.patch.object(torch_programs, "Process", process), \
                contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(said):
            status = torch_programs.main(list(arguments))
        return (status, [json.loads(line) for line
                         in output.getvalue().splitlines()], said.getvalue(),
                [call.args[1:] for call in process.call_args_list])

    def test_allocators_take_turns(self):
        row = program_row("native", 0, [1, 2], 1)
        status, rows, _, started = self.run_with(
            lambda: row, "--programs=graphs", "--allocators=native,moiety",
            "--turns=2")
        self.assertEqual((status, rows), (0, [row] * 4))
        self.assertEqual(started, [
            ("graphs", "native", 0), ("graphs", "moiety", 0),
            ("graphs", "moiety", 1), ("graphs", "native", 1)])

    def test_no_process_begins_that_would_outlast_the_budget(self):
        clock = iter([0, 0, 4, 4, 8, 8])
        with mock.patch.object(torch_programs.time, "monotonic",
                               lambda: next(clock)):
            _, rows, said, _ = self.run_with(
                lambda: program_row("native", 0, [1, 2], 1), "--budget=11")
        self.assertEqual(len(rows), 2)
        self.assertIn("2 of 32 processes: the budget is spent", said)

    def test_table_divides_by_the_same_live_bytes(self):
        rows = [program_row("native", turn, [2, 2, 4], 3 << 30)
                for turn in (0, 1)]
        rows += [program_row("moiety", turn, [1, 1, 2], 2 << 30, 3 << 29)
                 for turn in (0, 1)]
        lines = list(torch_programs.table(rows))
        for allocator, ratio, reserved in (("native", "1.000", "3.000"),
                                           ("moiety", "0.500", "2.000")):
            [line] = [one.split() for one in lines[1:]
                      if f" {allocator} " in one]
            self.assertEqual(line[4:9], [ratio, "2.0", "0.50", "1.00",
                                         reserved])

    def test_process_that_dies_is_a_row(self):
        lost = {"program": "graphs", "allocator": "native", "turn": 0,
                "error": "status 1: gone"}
        status, rows, said, _ = self.run_with(
            lambda: lost, "--programs=graphs", "--allocators=native")
        self.assertEqual((status, rows), (1, [lost]))
        self.assertIn("FAILED graphs native 0: status 1: gone", said)

    def test_programs_are_those_of_the_zoo(self):
        zoo = pathlib.Path(torch_programs.__file__).with_name("torch_zoo.py")
        self.assertEqual(tuple(re.findall(r'^    "(\w+)": \(',
                                          zoo.read_text(), re.MULTILINE)),
                         torch_programs.PROGRAMS)

    def test_unknown_words_are_refused(self):
        for words in ("--programs=gpt", "--allocators=rmm", "--turns=a"):
            with self.subTest(words=words), self.assertRaises(SystemExit), \
                    contextlib.redirect_stderr(io.StringIO()):
                torch_programs.main([words])


if __name__ == "__main__":
    unittest.main()
