# SPDX-License-Identifier: Apache-2.0
"""What the tables of targets show of runs of //bench:bench."""

import json
import os
import tempfile
import unittest

import pool_targets
from table_text import BadInput
from table_test import RESULT


def cell(workload, subject, threads, median, **fields):
    return {**RESULT, "workload": workload, "subject": subject,
            "threads": threads, "ns_per_op_median": median,
            "driver": "libcuda.so.1, CUDA 13.0", **fields}


class Targets(unittest.TestCase):
    def lines(self, make, *files):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(len(files))]
            for path, rows in zip(paths, files):
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
            return "\n".join(make({"device": "D", "date": "2026"}, paths))

    def test_shows_runs_side_by_side_and_by_mimalloc_in_each(self):
        output = self.lines(
            pool_targets.target_lines,
            [cell("pair", "moiety", 1, 20.0, commit="one"),
             cell("pair", "mimalloc", 1, 10.0, commit="one")],
            [cell("pair", "moiety", 1, 30.0, commit="two"),
             cell("pair", "mimalloc", 1, 60.0, commit="two")])
        self.assertIn("; commit one, two; ", output)
        self.assertIn("| pair, 64 KiB, 1 thread | ≤ 10 | 20 | 30 (33.3) | 60 | "
                      "– | – | 2.00 | 0.50 |", output)
        self.assertIn("| core alone, mixed, 1 thread | ≤ 50 | – | – | – | – | "
                      "– | – | – |", output)

    def test_says_whether_a_ratio_is_reached(self):
        for ns, reached in ((20.0, "yes"), (20.1, "no")):
            rows = [cell("pair", "moiety", 1, ns),
                    cell("pair", "mimalloc", 1, 10.0),
                    cell("pair", "moiety", 16, 10.0),
                    cell("pair", "mimalloc", 16, 10.0)]
            output = self.lines(pool_targets.ratio_lines, rows)
            self.assertIn(f"| 1.00 | {reached} |", output)
            self.assertIn("| mixed | ≤ 0.5 | – | – | not measured |", output)

    def test_says_whether_time_is_flat(self):
        rows = [cell("pair100", "moiety", 1, 10.0),
                cell("pair1000000", "moiety", 1, 25.0),
                cell("pair100", "moiety_sized", 1, 10.0),
                cell("pair1000000", "moiety_sized", 1, 5.0)]
        self.assertIn("| 1 | 2.50 | 0.50 | no |",
                      self.lines(pool_targets.flat_lines, rows))

    def test_refuses_a_file_of_several_commits(self):
        with self.assertRaisesRegex(BadInput, "of one table: one, two"):
            self.lines(pool_targets.target_lines,
                       [cell("pair", "moiety", 1, 1.0, commit="one"),
                        cell("pair", "core", 1, 1.0, commit="two")])

    def test_refuses_several_files_where_one_is_meant(self):
        rows = [cell("pair", "moiety", 1, 1.0)]
        with self.assertRaisesRegex(BadInput, "of one file"):
            self.lines(pool_targets.ratio_lines, rows, rows)


if __name__ == "__main__":
    unittest.main()
