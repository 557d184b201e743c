# SPDX-License-Identifier: Apache-2.0
"""What the tables of waste show."""

import json
import os
import tempfile
import unittest

import memory_tables
from table_text import BadInput

ABOUT = {"device": "D", "driver": "X", "date": "2026", "commit": "abc",
         "repeats": "1"}


def request(wanted, held, power):
    return {"what": "request", "wanted_bytes": wanted, "held_bytes": held,
            "power_of_two_bytes": power}


class Waste(unittest.TestCase):
    def lines(self, make, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            return "\n".join(make(ABOUT, [path]))

    def test_puts_requests_together_by_doublings(self):
        output = self.lines(
            memory_tables.request_lines, request(512, 999, 512),
            request(2048, 2048, 2048), request(1025, 1536, 2050),
            request(2049, 2560, 4098))
        self.assertIn("| 1.001 KiB to 2 KiB | 2 | 24.93 % | 49.85 % | 1025 | "
                      "1536 | 50.00 % |", output)
        self.assertIn("| 2.001 KiB to 2.001 KiB | 1 | 24.94 % |", output)
        self.assertNotIn("999", output)

    def test_shows_metadata_by_the_block_and_by_the_memory(self):
        self.assertIn(
            "| 2 MiB | 511 | 1073742 | 2101.26 | 0.1000 % |",
            self.lines(memory_tables.metadata_lines,
                       {"what": "metadata", "block_bytes": 2 << 20,
                        "block_count": 511, "host_bytes": 1073742}))

    def test_refuses_files_without_such_rows(self):
        with self.assertRaisesRegex(BadInput, "no row of metadata"):
            self.lines(memory_tables.metadata_lines, request(1, 2, 3))
        with self.assertRaisesRegex(BadInput, "lacks one of"):
            self.lines(memory_tables.metadata_lines, {"what": "metadata"})


if __name__ == "__main__":
    unittest.main()
