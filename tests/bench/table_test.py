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
    "ns_per_op_median_max": 1234.5, "clean": True, "driver": "none",
    "is_standin": False, "simulated_costs": False, "cpu": "Example 9",
    "processors": 16, "commit": "abc", "repeats": 5, "cell_us": 100000,
    "seed": 1, "pinned": True,
}


def run(*texts):
    """Exit status, output and errors for files with these texts."""
    output, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(i)) for i in range(len(texts))]
        for path, text in zip(paths, texts):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            code = table.main(paths)
    return code, output.getvalue(), errors.getvalue()


def line(**changes):
    return json.dumps({**RESULT, **changes}) + "\n"


class Table(unittest.TestCase):
    def test_shows_median_and_spread(self):
        code, output, _ = run(line())
        self.assertEqual(code, 0)
        self.assertIn("| pair | 64 KiB | 1 | 21.7 (20.0–1234) |", output)

    def test_marks_what_was_preempted(self):
        self.assertIn("21.7\\* (", run(line(clean=False))[1])

    def test_joins_subjects_of_several_files_in_one_row(self):
        output = run(line(), line(subject="mutex", ns_per_op_median=500))[1]
        self.assertIn("| threads | core | mutex |", output)
        self.assertIn("| 21.7 (20.0–1234) | 500 (20.0–1234) |", output)

    def test_leaves_a_gap_where_nothing_was_measured(self):
        output = run(line() + line(subject="mutex", workload="mixed"))[1]
        self.assertIn("| pair | 64 KiB | 1 | 21.7 (20.0–1234) | – |", output)

    def test_says_what_it_was_measured_on(self):
        output = run(line() + line(subject="cuda_malloc", driver="libcuda",
                                   is_standin=True))[1]
        self.assertIn("- cpu: Example 9", output)
        self.assertIn("- driver of cuda_malloc: libcuda (stand-in, no GPU; "
                      "costs are this machine's)", output)

    def test_names_every_machine_when_there_are_two(self):
        output = run(line() + line(subject="mutex", cpu="Other"))[1]
        self.assertIn("- cpu: Example 9, Other", output)

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
        self.assertIn("No such file", errors.getvalue())
        self.assertIn("usage", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
