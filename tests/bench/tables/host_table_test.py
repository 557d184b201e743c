# SPDX-License-Identifier: Apache-2.0
"""What the tables of host arenas show, and what is refused."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import host_table

RUN = {"what": "run", "subject": None, "process": 0, "driver": "libcuda.so.1",
       "driver_version": 13000, "is_standin": False, "simulated_costs": False,
       "device": "Example 9", "cpu": "Example 8", "processors": 16,
       "nodes_with_memory": 2, "commit": "abc", "repeats": 3, "cell_ms": 200,
       "place": "node 1", "moiety_conf": "", "skipped": None, "error": None}


def row(what, subject, process=0, **fields):
    return {"what": what, "subject": subject, "process": process, **fields,
            "skipped": fields.get("skipped"), "error": fields.get("error")}


def staging(process, median, **fields):
    return row("staging", "arena_done", process, size_bytes=1 << 20,
               ns_median=median, ns_least=1.0, ns_most=9999.0, **fields)


def start(subject, process, ns, **fields):
    return row("start", subject, process, size_bytes=1 << 30, ns=ns, **fields)


ARENA = {"map_ns": 1000000, "bind_ns": 2000000, "stage_touch_ns": 30000000,
         "register_ns": 4000000, "read_back_ns": 5000000, "threads": 16,
         "destroy_ns": 6000000, "pages_asked": 262144, "pages_near": 262143,
         "pages_elsewhere": 1, "report": "node 1 (why)"}


def convert(*rows, text=None):
    """Exit status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text or "".join(json.dumps(r) + "\n" for r in rows))
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            code = host_table.main([path])
    return code, output.getvalue(), errors.getvalue()


class HostTable(unittest.TestCase):
    def shows(self, wanted, *rows):
        code, output, errors = convert(RUN, *rows)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn(wanted, output)

    def refuses(self, wanted, *rows, text=None):
        code, output, errors = convert(*rows, text=text)
        self.assertEqual((code, output), (1, ""))
        self.assertIn(wanted, errors)

    def test_shows_median_and_spread_of_processes(self):
        self.shows("| arena_done | 46 (45–1 049) |", staging(0, 45.0),
                   staging(1, 1049.0), staging(2, 46.0))

    def test_says_when_processes_are_missing(self):
        self.shows("| arena_done | 45, of 1 |", staging(0, 45.0))

    def test_leaves_out_a_spread_that_is_none(self):
        self.shows("| arena_done | 45 |", *(staging(i, 45.0) for i in range(3)))

    def test_shows_stages_in_their_order(self):
        self.shows("| 1 GiB | arena | 50, of 1 | 0.25 | 1, of 1 | 2, of 1 | "
                   "30, of 1 | 4, of 1 | 5, of 1 | 16 | 6, of 1 |",
                   start("arena", 0, 50000000, **ARENA),
                   start("driver", 0, 200000000, touch_ns=7000000))

    def test_shows_what_others_waited_where_that_was_measured(self):
        rows = start("arena", 0, 50, **ARENA, first_ns=3000000,
                     others_wait_ns=4000000)
        self.shows("| 1 GiB | arena | 3, of 1 | 4, of 1 |", rows)
        self.assertNotIn("others wait", convert(
            RUN, start("arena", 0, 50, **ARENA))[1])

    def test_divides_by_the_driver_of_the_same_process(self):
        self.shows("| 0.5 |", start("arena", 0, 10, **ARENA),
                   start("driver", 0, 20, touch_ns=1),
                   start("driver", 1, 40, touch_ns=1))

    def test_compares_no_start_with_the_standins(self):
        rows = [{**RUN, "is_standin": True}, start("arena", 0, 10, **ARENA),
                start("driver", 0, 20, touch_ns=1)]
        self.assertNotIn("| 0.5 |", convert(*rows)[1])

    def test_shows_what_the_driver_left_to_touch(self):
        self.shows("| afterwards 7, of 1 |",
                   start("driver", 0, 200000000, touch_ns=7000000))

    def test_shows_where_the_pages_are(self):
        self.shows("| 1 GiB | arena | 262 144, of 1 | 262 143, of 1 | 1, of 1 "
                   "| node 1 (why) |", start("arena", 0, 50, **ARENA))

    def test_shows_bandwidth(self):
        self.shows("| h2d | arena | 64 MiB | 1 | 55.5, of 1 | 0.99, of 1 |",
                   row("bandwidth", "arena", size_bytes=64 << 20, node=1,
                       direction="h2d", gb_s_median=55.5, ratio_median=0.99))

    def test_shows_the_pipeline(self):
        self.shows("| arena | no | 8 | 64 MiB | 54, of 1 | 97.5, of 1 |",
                   row("pipeline", "arena", fill=False, workers=8,
                       size_bytes=64 << 20, gb_s=54.0, percent_of_bare=97.5))

    def test_shows_waste_beside_powers_of_two(self):
        self.shows("| counted | a | 1.0000 | 1.2500 (+25.00 %) | "
                   "2.0000 (+100.00 %) |",
                   row("waste", "counted", of="a", scale=1,
                       wanted_bytes=1 << 30, reserved_bytes=5 << 28,
                       power_of_two_bytes=2 << 30))

    def test_names_what_failed_and_what_was_skipped(self):
        self.shows("- FAILED: staging, arena_done, 1 MiB: no memory (2 times)",
                   staging(0, 1.0, error="no memory"),
                   staging(1, 1.0, error="no memory"))
        self.shows("- skipped: pipeline: no room",
                   row("pipeline", None, skipped="no room"))

    def test_says_that_it_was_no_gpu(self):
        code, output, _ = convert({**RUN, "is_standin": True})
        self.assertEqual(code, 0)
        self.assertIn("stand-in, no GPU; its times are this machine's", output)

    def test_refuses_what_is_measured_twice(self):
        self.refuses("process 0: measured twice", RUN, staging(0, 1.0),
                     staging(0, 2.0))

    def test_refuses_two_runs_and_none(self):
        self.refuses("there are 2 rows of a run", RUN, RUN)
        self.refuses("there are 0 rows of a run", staging(0, 1.0))

    def test_refuses_a_run_that_failed(self):
        self.refuses("the run failed: no driver", {**RUN, "error": "no driver"})

    def test_refuses_what_is_no_row(self):
        self.refuses("rows:1: no JSON", text="nonsense\n")
        self.refuses("rows:1: no what, subject", text="[]\n")
        self.refuses("a row of staging has no 'size_bytes'", RUN,
                     row("staging", "arena_done"))


if __name__ == "__main__":
    unittest.main()
