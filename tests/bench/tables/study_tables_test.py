# SPDX-License-Identifier: Apache-2.0
"""What the tables of full limits and pairs show."""

import json
import os
import tempfile
import unittest

import replay_table
import table_maker
from table_text import BadInput

MIB = 1 << 20


def row(kind, subject, **fields):
    return {"kind": kind, "subject": subject, "lag": "idle",
            "machine": {"cpu": "C", "processors": 2}, "driver": "X",
            "device": "D", "is_standin": True, "is_simulated": False,
            "commit": "abc", "date": "2026", **fields}


def fill(subject, size, blocks, most, **fields):
    return row("fill", subject, size_bytes=size, blocks=blocks,
               most_blocks=most, limit_bytes=1 << 30, is_random=False, **fields)


def limit(subject, part, **fields):
    return row("limit", subject, part=part, **{
        "threads": 16, "pairs": 9, "repeat": 0, "failed": 0, "mean_ns": 50.0,
        "slowest_ns": 60.0, **fields})


def limits(subject, factor, **fields):
    return limit(subject, "limits", factor=factor, **{
        "limit_bytes": factor * 100, "mean_live_bytes": 100,
        "peak_live_bytes": 200, **fields})


class StudyTables(unittest.TestCase):
    def lines(self, name, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(one) + "\n" for one in rows)
            return "\n".join(table_maker.made(replay_table.TABLES,
                                              [name, path]))

    def test_sizes_by_subjects(self):
        output = self.lines(
            "fill", fill("a", 512, 50, 100), fill("a", 2 * MIB + 1, 49, 511),
            fill("b", 2 * MIB + 1, 511, 511))
        self.assertIn("| size | a | b |", output)
        self.assertIn("| 512 B | 50.0 | – |", output)
        self.assertIn("| 2 MiB + 1 | 9.6 | 100.0 |", output)
        self.assertIn("a limit of 1 GiB", output)
        self.assertNotIn("random", output)

    def test_random_sizes_come_to_one_line(self):
        output = self.lines("fill", *(
            {**fill("a", 512, blocks, 100), "is_random": True}
            for blocks in (50, 96, 97, 100)))
        self.assertIn("| a | 4 | 85.8 | 96.5 | 50.0 | 2 |", output)

    def test_what_cannot_fit_once_is_left_out(self):
        self.assertNotIn("4 GiB", self.lines(
            "fill", fill("a", 512, 9, 9), fill("a", 4 << 30, 0, 0)))

    def test_several_limits_are_refused(self):
        with self.assertRaisesRegex(BadInput, "several limits"):
            self.lines("fill", fill("a", 512, 9, 9),
                       {**fill("a", 1024, 9, 9), "limit_bytes": 5})

    def test_limits(self):
        output = self.lines(
            "limit", limits("a", 0), limits("a", 5.5, mean_ns=40.0),
            limits("a", 5.5, repeat=1, failed=3))
        self.assertIn("| a | idle | 16 | none | – | 50 | 60 | 0 |", output)
        self.assertIn("| a | idle | 16 | 5.5 | 2.75 | 45 (40–50) | 60 | "
                      "1.5 (0–3) |", output)
        self.assertIn("; 2 processes each*", output)
        self.assertNotIn("new pool", output)

    def test_new_pools_and_large_pairs(self):
        output = self.lines(
            "limit", limit("a", "first", threads=1, first_ns=400.0),
            limit("a", "pair", lag="held"), limit("a", "pair", threads=1))
        self.assertIn("| a | idle | 400 | 50 | 8 |", output)
        self.assertIn("| a | held | 16 | 50 | 60 | 0 |", output)
        self.assertIn("| a | idle | 1 | 50 | 60 | 0 |", output)

    def test_who_was_refused(self):
        output = self.lines("limit", limit("a", "pair"),
                            row("limit", "b", refused="no reason"))
        self.assertIn("- b was not run: no reason", output)

    def test_other_rows_are_refused(self):
        for name, one in (("fill", limit("a", "pair")),
                          ("limit", fill("a", 512, 9, 9)),
                          ("fill", row("fill", "b", refused="no reason"))):
            with self.assertRaisesRegex(BadInput, f"there is no row of {name}"):
                self.lines(name, one)
        with self.assertRaisesRegex(BadInput, "no subject"):
            self.lines("fill", {"kind": "fill"})
        with self.assertRaisesRegex(BadInput, "not as it should be"):
            self.lines("fill", row("fill", "a", size_bytes=5))


if __name__ == "__main__":
    unittest.main()
