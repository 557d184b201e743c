# SPDX-License-Identifier: Apache-2.0
"""What the tables of full limits, pairs, reuse and crowds show."""

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


def reuse(subject, part, **fields):
    return row("reuse", subject, part=part, **{
        "threads": 2, "pairs": 50, "repeat": 0, "size_bytes": MIB, "blocks": 2,
        "limit_bytes": 2 * MIB, "pause_ns": 0, "work_ns": 100000.0,
        "mean_ns": 150000.0, "median_ns": 120000.0, "p99_ns": 300000.0,
        "mean_lags": 1.5, "median_lags": 1.2, "p99_lags": 3.0, "asked": 100,
        "live_bytes": 2 * MIB, "reserved_bytes": 2 * MIB, "failed": 0,
        **fields})


def crowd(subject, **fields):
    return row("crowd", subject, **{
        "threads": 64, "streams": 8, "pairs": 1, "size_bytes": 65536,
        "cache_bytes": 0, "repeat": 0, "cache_bound_bytes": 1 << 30,
        "cached_bytes": 32 * MIB, "retiring_bytes": 0, "host_bytes": 512000,
        "host_bytes_each": 1000.0, "before_ns": 60.0, "beside_ns": 70.0,
        "after_ns": 65.0, "before_hits": 0.95, "beside_hits": 0.5,
        "after_hits": 0.96, "end_ns": 2500000, "failed": 0, **fields})


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

    def test_reuse_under_a_limit(self):
        none = dict.fromkeys(("median_ns", "p99_ns", "mean_lags",
                              "median_lags", "p99_lags"))
        output = self.lines(
            "reuse", reuse("a", "wait", lag="work:100"),
            reuse("a", "wait", lag="work:100", repeat=1, mean_lags=2.5),
            reuse("b", "wait", failed=100, **none),
            reuse("a", "poll", asked=1500))
        self.assertIn("| a | work:100 | 2 | 1 MiB | 120 000 | 300 000 | "
                      "2 (1.5–2.5) | 1.2 | 3 | 1 | 0 |", output)
        self.assertIn("| b | idle | 2 | 1 MiB | – | – | – | – | – | 1 | 100 |",
                      output)
        self.assertIn("| 15 | 0 |", output)
        self.assertIn("; 2 processes each*", output)
        self.assertNotIn("without a limit", output)

    def test_reuse_without_a_limit(self):
        output = self.lines(
            "reuse", reuse("a", "unlimited", reserved_bytes=3 * MIB),
            reuse("a", "unlimited", pause_ns=50000, reserved_bytes=None))
        self.assertIn("| a | idle | 2 | 1 MiB | 0 | 2 MiB | 1.5 | 150 000 | "
                      "0 |", output)
        self.assertIn("| 50 000 | 2 MiB | – |", output)
        self.assertNotIn("full limit", output)

    def test_crowds(self):
        output = self.lines(
            "crowd", crowd("a"),
            crowd("a", repeat=1, host_bytes=None, host_bytes_each=None,
                  end_ns=3500000),
            crowd("a", cache_bytes=MIB, cache_bound_bytes=MIB))
        self.assertIn("| a | idle | 64 × 8 | 64 KiB | 1 GiB | 32 MiB | 0 B | 1 000 | "
                      "60 | 70 | 65 | 95 | 50 | 96 | 3 (2.5–3.5) | 0 |",
                      output)
        self.assertIn("| a | idle | 64 × 8 | 64 KiB | 1 MiB |", output)

    def test_who_was_refused(self):
        output = self.lines("limit", limit("a", "pair"),
                            row("limit", "b", refused="no reason"))
        self.assertIn("- b was not run: no reason", output)

    def test_other_rows_are_refused(self):
        for name, one in (("fill", limit("a", "pair")),
                          ("limit", fill("a", 512, 9, 9)),
                          ("reuse", limit("a", "pair")),
                          ("crowd", reuse("a", "wait")),
                          ("fill", row("fill", "b", refused="no reason"))):
            with self.assertRaisesRegex(BadInput, f"there is no row of {name}"):
                self.lines(name, one)
        with self.assertRaisesRegex(BadInput, "no subject"):
            self.lines("fill", {"kind": "fill"})
        with self.assertRaisesRegex(BadInput, "not as it should be"):
            self.lines("fill", row("fill", "a", size_bytes=5))


if __name__ == "__main__":
    unittest.main()
