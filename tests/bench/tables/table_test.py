# SPDX-License-Identifier: Apache-2.0
"""What the tables show, and what is refused rather than shown wrongly."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import table

RESULT = {
    "workload": "pair", "subject": "core", "threads": 1, "size_bytes": 65536,
    "ns_per_op_median": 21.74, "ns_per_op_median_min": 20.0,
    "ns_per_op_mean": 33.3, "ns_per_op_p99": 40.0, "ns_per_op_p999": 50.0,
    "ns_per_call_p99": 60.0, "ns_per_call_p999": 70.0,
    "cache_hit_rate": 0.987, "failure": None,
    "ns_per_op_median_max": 1234.5, "clean": True, "driver": "none",
    "is_standin": False, "simulated_costs": False, "cpu": "Example 9",
    "processors": 16, "commit": "abc", "repeats": 5, "cell_us": 100000,
    "seed": 1, "pinned": True,
}
NOTHING = {
    "ns_per_op_median": None, "ns_per_op_median_min": None,
    "ns_per_op_median_max": None, "ns_per_op_mean": None,
    "ns_per_op_p99": None, "ns_per_op_p999": None, "ns_per_call_p99": None,
    "ns_per_call_p999": None, "cache_hit_rate": None, "repeats": 0,
    "cell_us": 0, "clean": False, "pinned": False, "driver": "unknown",
    "failure": "it took too long",
}


def run(*texts, options=(), suffix=""):
    """Exit status, output and errors for files with these texts."""
    output, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}{suffix}") for i in range(len(texts))]
        for path, text in zip(paths, texts):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            code = table.main([*options, *paths])
    return code, output.getvalue(), errors.getvalue()


def line(**changes):
    return json.dumps({**RESULT, **changes}) + "\n"


class Table(unittest.TestCase):
    def test_shows_median_and_spread(self):
        code, output, _ = run(line())
        self.assertEqual(code, 0)
        self.assertIn("| pair | 64 KiB | 1 | 21.7 (20–1 234) |", output)

    def test_marks_what_was_preempted(self):
        self.assertIn("21.7\\* (", run(line(clean=False))[1])

    def test_joins_subjects_of_several_files_in_one_row(self):
        output = run(line(), line(subject="mutex", ns_per_op_median=500))[1]
        self.assertIn("| threads | core | mutex |", output)
        self.assertIn("| 21.7 (20–1 234) | 500 (20–1 234) |", output)

    def test_leaves_a_gap_where_nothing_was_measured(self):
        output = run(line() + line(subject="mutex", workload="mixed"))[1]
        self.assertIn("| pair | 64 KiB | 1 | 21.7 (20–1 234) | – |", output)

    def test_says_what_it_was_measured_on(self):
        output = run(line() + line(subject="cuda_malloc", driver="libcuda",
                                   is_standin=True))[1]
        self.assertIn("- cpu: Example 9", output)
        self.assertIn("- driver of cuda_malloc: libcuda (stand-in, no GPU; "
                      "costs are this machine's)", output)

    def test_names_every_machine_when_there_are_two(self):
        output = run(line() + line(subject="mutex", cpu="Other"))[1]
        self.assertIn("- cpu: Example 9, Other", output)

    def test_shows_the_number_that_is_asked_for(self):
        for value, text in (("mean", "33.3"), ("median_mean", "21.7 (33.3)"),
                            ("p99", "40"),
                            ("p999", "50"), ("call_p99", "60"),
                            ("call_p999", "70"), ("hits", "98.7 %")):
            output = run(line(), options=[f"--value={value}"])[1]
            self.assertIn(f"| pair | 64 KiB | 1 | {text} |", output)

    def test_shows_a_gap_where_there_is_no_cache(self):
        output = run(line(cache_hit_rate=None), options=["--value=hits"])[1]
        self.assertIn("| pair | 64 KiB | 1 | – |", output)

    def test_says_why_a_cell_was_not_measured(self):
        output = run(line() + line(subject="mutex", **NOTHING))[1]
        self.assertIn("| 21.7 (20–1 234) | † |", output)
        self.assertIn("- † mutex, 0 processes, it took too long: "
                      "pair, 64 KiB, 1 threads\n", output)
        self.assertIn("- repeats: 5\n", output)

    def test_counts_cells_that_were_not_measured_when_they_are_many(self):
        output = run(line(**NOTHING) + "".join(
            line(threads=threads, failure="it took too long", repeats=threads)
            for threads in range(2, 7)))[1]
        self.assertIn("- † core, 0–6 processes, it took too long: 6 cells\n",
                      output)

    def test_marks_a_cell_that_some_process_did_not_measure(self):
        output = run(line(failure="it took too long", repeats=3))[1]
        self.assertIn("| 21.7† (20–1 234) |", output)

    def test_joins_the_processes_of_a_run_that_was_killed(self):
        output = run(
            line(ns_per_op_median=10) + line(ns_per_op_median=30, clean=False)
            + line(ns_per_op_median=20), suffix=".raw.jsonl")[1]
        self.assertIn("| pair | 64 KiB | 1 | 20\\* (10–30) |", output)
        self.assertIn("- repeats: 3\n", output)

    def test_shows_a_range_of_durations(self):
        output = run(line(cell_us=5000) + line(subject="mutex", cell_us=400)
                     + line(subject="malloc", cell_us=70000))[1]
        self.assertIn("- cell_us: 400–70000\n", output)

    def test_refuses_a_cell_that_was_measured_twice(self):
        code, _, errors = run(line(), line())
        self.assertEqual(code, 1)
        self.assertIn("core: measured twice", errors)

    def test_refuses_what_is_no_result(self):
        for text, why in (("{\n", "no JSON"), ("[]\n", "no cpu"),
                          ("{}\n", "no cpu"), ("", "there are no results")):
            code, output, errors = run(text)
            self.assertEqual((code, output), (1, ""))
            self.assertIn(why, errors)

    def test_refuses_a_file_that_is_not_there(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(table.main(["/no/such/file"]), 1)
            self.assertEqual(table.main([]), 2)
            self.assertEqual(table.main(["--value=best", "/dev/null"]), 2)
        self.assertIn("No such file", errors.getvalue())
        self.assertIn("usage", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
