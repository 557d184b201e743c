# SPDX-License-Identifier: Apache-2.0
"""The benchmark of Python and its table, with subjects that only count."""

import contextlib
import io
import json
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

import python_latency
import python_subjects
import python_table
import table_text
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


if __name__ == "__main__":
    unittest.main()
