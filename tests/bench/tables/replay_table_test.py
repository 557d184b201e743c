# SPDX-License-Identifier: Apache-2.0
"""What the tables of replays show, and what is refused rather than shown."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import replay_table

GIB = 1 << 30
TRACE = {"file": "a.mtrace", "operations": 2000, "threads": 1, "streams": 1,
         "peak_live_bytes": 10 * GIB, "info": {},
         "recorded_peak_reserved_bytes": 12 * GIB}
ENTRY = {"file": "a.mtrace.gz", "operations": 2000, "peak_live_bytes": 10 * GIB,
         "recorded_with": {"allocator": "Example's", "version": "9",
                           "peak_reserved_bytes": 11 * GIB}}


def row(subject, mode, **fields):
    return {"kind": "replay", "trace": TRACE, "subject": subject, "mode": mode,
            "threads": 1, "limit_bytes": 0, "repeat": 0,
            "machine": {"cpu": "Example 8", "processors": 16},
            "driver": "libcuda.so.1, CUDA 13.0", "device": "Example 9",
            "is_standin": False, "is_simulated": False, "commit": "abc",
            "date": "2026-11-23", **fields}


def serial(subject, reserved, limit=None, **fields):
    return row(subject, "serial", **{
        "peak_live_bytes": 10 * GIB, "peak_reserved_bytes": reserved * GIB,
        "waste_internal_bytes": 0.25 * GIB, "waste_external_bytes": GIB,
        "driver_calls": 7, "ooms": 0,
        "smallest_limit_bytes": limit and limit * GIB, **fields})


def timed(subject, median, **fields):
    return row(subject, "concurrent", **{
        "ooms": 0, "latency_ns": {"all": {"median": median, "p99": 10 * median,
                                          "max": 5000, "mean": 2 * median}},
        **fields})


def refused(subject, mode):
    return row(subject, mode, driver=None, device=None, refused="no library")


def convert(arguments, rows, index=None):
    """Exit status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in rows)
        if index is not None:
            with open(f"{path}.index", "w", encoding="utf-8") as file:
                json.dump({"traces": index}, file)
            arguments = [*arguments, f"--traces={path}.index"]
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            code = replay_table.main([*arguments, path])
    return code, output.getvalue(), errors.getvalue()


class TableTest(unittest.TestCase):
    def table(self, arguments, *rows, index=None):
        code, output, errors = convert(arguments, rows, index)
        self.assertEqual((code, errors), (0, ""))
        return output

    def refuses(self, wanted, arguments, *rows, index=None):
        code, output, errors = convert(arguments, rows, index)
        self.assertEqual((code, output), (1, ""))
        self.assertIn(wanted, errors)


class Footprint(TableTest):
    def footprint(self, *rows, index=None):
        return self.table(["footprint"], *rows, index=index)

    def test_shows_what_was_reserved_and_the_limit_by_what_was_live(self):
        self.assertIn(
            "| best-fit | 1.250 | 1.000 | 1.200 | 1.000 | 2.0 % | 8.0 % | 7 | "
            "0 |", self.footprint(serial("best-fit", 12.5, 12)))

    def test_shows_what_the_recorded_program_had(self):
        rows = [serial("best-fit", 12.5)]
        self.assertIn("| the recorded allocator (recorded) | 1.200 | – ",
                      self.footprint(*rows))
        self.assertIn("| Example's, 9 (recorded) | 1.100 | – ",
                      self.footprint(*rows, index=[ENTRY]))

    def test_marks_more_than_the_reference_and_more_than_was_recorded(self):
        output = self.footprint(serial("moiety", 11.5, 10.3),
                                serial("best-fit", 11, 10), index=[ENTRY])
        self.assertIn("| moiety | 1.150 ▲ | 1.045 ▲ | 1.030 | 1.030 ▲ |",
                      output)
        self.assertIn("▲: more than 1.02 times", output)

    def test_marks_nothing_where_nothing_is_more(self):
        output = self.footprint(serial("moiety", 11, 10.2),
                                serial("best-fit", 11.5, 10), index=[ENTRY])
        self.assertIn("| moiety | 1.100 | 0.957 | 1.020 | 1.020 |", output)
        self.assertNotIn("▲", output)

    def test_leaves_gaps_for_what_is_not_known(self):
        output = self.footprint(serial(
            "cuda-async", 12, waste_internal_bytes=None, driver_calls=None))
        self.assertIn("| cuda-async | 1.200 | – | – | – | – | 8.3 % | – | 0 |",
                      output)

    def test_shows_the_spread_of_repeats_and_who_failed(self):
        output = self.footprint(serial("torch", 12, ooms=3),
                                serial("torch", 11, repeat=1),
                                serial("torch", 13, repeat=2))
        self.assertIn("| torch | 1.200 (1.100–1.300) |", output)
        self.assertIn("| 0 (0–3) |", output)
        self.assertIn("; 3 processes each*", output)

    def test_tells_apart_what_was_under_a_limit(self):
        self.assertIn("| torch, at most 11 GiB | 1.100 |", self.footprint(
            serial("torch", 12), serial("torch", 11, limit_bytes=11 * GIB)))

    def test_says_where_it_was_measured(self):
        self.assertTrue(self.footprint(serial("torch", 12)).startswith(
            "*Example 9; 16 × Example 8; driver libcuda.so.1, CUDA 13.0; "
            "2026-11-23; commit abc; 1 process each*\n"))
        self.assertIn("stand-in, no GPU", self.footprint(
            serial("torch", 12, is_standin=True)))

    def test_says_what_the_trace_is(self):
        self.assertIn("\na.mtrace: 2 000 operations, 1 thread, 1 stream, at most "
                      "10 GiB live\n", self.footprint(serial("torch", 12)))

    def test_says_who_was_refused(self):
        output = self.footprint(serial("moiety", 11),
                                refused("torch", "serial"))
        self.assertIn("- torch was not run: no library\n", output)
        self.assertNotIn("| torch |", output)

    def test_refuses_another_trace_than_the_index_knows(self):
        for key in ("operations", "peak_live_bytes"):
            self.refuses(f"a.mtrace: {key} is", ["footprint"],
                         serial("torch", 12), index=[{**ENTRY, key: 5}])

    def test_refuses_rows_of_several_hosts_drivers_and_commits(self):
        for field, value in (("commit", "def"), ("device", "Example 7"),
                             ("driver", "another"), ("is_standin", True)):
            self.refuses("not of one table", ["footprint"],
                         serial("moiety", 11),
                         serial("best-fit", 12, **{field: value}))

    def test_refuses_rows_without_a_commit_unless_it_is_given(self):
        rows = [serial("moiety", 11, commit="unknown")]
        self.refuses("no row says the commit", ["footprint"], *rows)
        self.assertIn("; commit def; ",
                      self.table(["footprint", "--commit=def"], *rows))

    def test_refuses_the_same_row_twice_and_what_is_no_row(self):
        self.refuses("there twice", ["footprint"], serial("torch", 12),
                     serial("torch", 12))
        self.refuses("no row of a replay", ["footprint"],
                     serial("torch", 12, kind="pair"))
        self.refuses("rows:1: no trace, subject", ["footprint"],
                     {"kind": "replay"})
        self.refuses("is not as it should be", ["footprint"],
                     serial("torch", 12, machine={}))

    def test_refuses_files_without_a_serial_row(self):
        self.refuses("there is no serial row", ["footprint"],
                     timed("torch", 12))


class Limits(TableTest):
    def test_shows_traces_by_subjects(self):
        other = {**TRACE, "file": "b.mtrace",
                 "recorded_peak_reserved_bytes": None}
        output = self.table(
            ["limits"], serial("moiety", 12, 11), serial("torch", 13, 12.5),
            serial("torch", 14, 13, trace=other))
        self.assertIn("| trace | live, GiB | recorded ÷ live | moiety ÷ live | "
                      "torch ÷ live |", output)
        self.assertIn("| a.mtrace | 10.00 | 1.200 | 1.100 | 1.250 |", output)
        self.assertIn("| b.mtrace | 10.00 | – | – | 1.300 |", output)

    def test_refuses_rows_in_which_none_was_looked_for(self):
        self.refuses("has a smallest limit", ["limits"], serial("torch", 12))


class Lags(TableTest):
    OTHER = {**TRACE, "file": "b.mtrace"}

    def lags(self, *rows):
        return self.table(["lags"], *rows)

    def test_shows_traces_and_subjects_by_lag(self):
        output = self.lags(
            serial("moiety", 11), serial("moiety", 45, lag="held", ooms=2),
            serial("best-fit", 12, lag="idle"),
            serial("best-fit", 12, lag="held"))
        self.assertIn("| trace | subject | idle | held |", output)
        self.assertIn("| a | moiety | 1.10 | 4.50, 2 failed |", output)
        self.assertIn("| a | best-fit | 1.20 | 1.20 |", output)
        self.assertNotIn("mean", output)

    def test_compares_over_all_traces(self):
        output = self.lags(
            serial("moiety", 12, lag="held"), serial("best-fit", 10, lag="held"),
            serial("moiety", 20, lag="held", trace=self.OTHER),
            serial("best-fit", 10, lag="held", trace=self.OTHER))
        self.assertIn("| mean over 2 | moiety ÷ best-fit | 1.60 |", output)
        self.assertIn("| worst over 2 | moiety ÷ best-fit | 2.00 |", output)

    def test_leaves_gaps_and_says_who_was_refused(self):
        output = self.lags(
            serial("moiety", 12, lag="held"), serial("best-fit", 10),
            {**refused("cuda-malloc", "serial"), "lag": "held"})
        self.assertIn("| a | moiety | 1.20 | – |", output)
        self.assertIn("| a | best-fit | – | 1.00 |", output)
        self.assertIn("- cuda-malloc was not run: no library", output)

    def test_other_tables_tell_lags_apart(self):
        rows = [serial("moiety", 11, 11), serial("best-fit", 11, 11),
                serial("moiety", 22, 22, lag="held"),
                serial("best-fit", 11, 11, lag="held")]
        footprint = self.table(["footprint"], *rows)
        self.assertIn("10 GiB live, device held", footprint)
        self.assertIn("| moiety | 2.200 ▲ | 2.000 ▲ |", footprint)
        self.assertIn("| moiety | 1.100 | 1.000 |", footprint)
        self.assertIn("; 1 process each*", footprint)
        self.assertIn("| a.mtrace, device held | 10.00 | 1.200 | 2.200 ▲ |",
                      self.table(["limits"], *rows))
        self.assertIn("10 GiB live, device held; ns", self.table(
            ["latency"], timed("moiety", 1, lag="held")))


class Latency(TableTest):
    def test_shows_median_and_spread_of_repeats(self):
        output = self.table(["latency"], timed("torch", 40),
                            timed("torch", 20, repeat=1),
                            timed("torch", 30, repeat=2))
        self.assertIn("| 1 | torch | 30 (20–40) | 300 (200–400) | 5 000 | "
                      "60 (40–80) | 0 |", output)

    def test_compares_with_the_fastest_other_and_with_two_by_name(self):
        output = self.table(
            ["latency"], timed("moiety", 10), timed("best-fit", 40),
            timed("cuda-async", 20), timed("torch", 50),
            timed("moiety-nocache", 1))
        self.assertIn(
            "| 1 | the fastest other | 0.5 (cuda-async) | 0.5 (cuda-async) | "
            "1 (best-fit) | 0.5 (cuda-async) |", output)
        self.assertIn("| 1 | best-fit | 0.25 | 0.25 | 1 | 0.25 |", output)
        self.assertIn("| 1 | torch | 0.2 | 0.2 | 1 | 0.2 |", output)

    def test_does_not_compare_with_who_fails_requests(self):
        output = self.table(["latency"], timed("moiety", 10),
                            timed("mutex", 1, ooms=2), timed("torch", 50))
        self.assertIn("| the fastest other | 0.2 (torch) |", output)
        self.assertIn("| 1 | mutex | 1 | 10 | 5 000 | 2 | 2 |", output)

    def test_compares_nothing_where_moiety_is_not(self):
        self.assertNotIn("÷", self.table(["latency"], timed("torch", 12)))

    def test_puts_threads_in_their_order(self):
        output = self.table(["latency"], timed("torch", 3, threads=16),
                            timed("torch", 1, threads=1),
                            timed("torch", 2, threads=4))
        self.assertLess(output.index("| 1 | torch"), output.index("| 4 | torch"))
        self.assertLess(output.index("| 4 | torch"),
                        output.index("| 16 | torch"))

    def test_shows_serial_rows_when_they_are_asked_for(self):
        rows = [timed("torch", 12), {**timed("torch", 34), "mode": "serial"}]
        self.assertIn("| torch | 12 |", self.table(["latency"], *rows))
        self.assertIn("| torch | 34 |",
                      self.table(["latency", "--mode=serial"], *rows))


class CommandLine(TableTest):
    def test_refuses_what_it_does_not_know(self):
        self.assertEqual(convert(["colours"], [])[0], 2)
        for option in ("--colour=red", "--mode", "--traces="):
            self.refuses("is not accepted", ["latency", option],
                         timed("torch", 1))

    def test_refuses_a_file_that_is_not_there(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(replay_table.main(["latency", "/no/file"]), 1)
        self.assertIn("/no/file: No such file", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
