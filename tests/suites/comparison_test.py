# SPDX-License-Identifier: Apache-2.0
"""The comparison has teeth: each way to be worse than the suite's own memory is
a complaint, and to be as good is none."""

import json
import unittest

import comparison

OWN = {"m.py::a": "passed", "m.py::b": "passed", "m.py::c": "failed",
       "m.py::skip": "passed"}
OURS = OWN | {"m.py::skip": "skipped"}
ALLOWED = frozenset(["m.py::skip"])


def run(outcomes, served=0, end=1):
    lines = [json.dumps({"test": test, "outcome": outcome, "detail": ""})
             for test, outcome in outcomes.items()]
    ends = [] if end is None else [json.dumps({"end": end, "served": served})]
    return comparison.read(lines + ends)


def judge(ours, again=(), own=None, served=7, allowed=ALLOWED):
    return comparison.judge(own or run(OWN), run(ours, served),
                            [(run(first), run(second))
                             for first, second in again], allowed)


def again(own, ours):
    """Pairs of runs of the test "a", by their outcomes."""
    return [({"m.py::a": one}, {"m.py::a": other})
            for one, other in zip(own, ours)]


class Comparison(unittest.TestCase):
    def check_one(self, verdict, words):
        found = verdict.complaints()
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_as_good_is_no_complaint(self):
        self.assertEqual(judge(OURS).complaints(), [])

    def test_failure_each_time(self):
        verdict = judge(OURS | {"m.py::a": "failed"},
                        again(["passed"] * 3, ["failed"] * 3))
        self.check_one(verdict, "a: failed in 4 of 4 runs")

    def test_crash_when_run_again_is_a_failure(self):
        verdict = judge(OURS | {"m.py::a": "failed"},
                        [(OWN, {}), (OWN, {}), (OWN, {})])
        self.check_one(verdict, "a: failed in 4 of 4 runs")

    def test_failure_that_does_not_come_again_is_flaky(self):
        verdict = judge(OURS | {"m.py::a": "failed"},
                        again(["passed"] * 3, ["failed", "passed", "failed"]))
        self.assertEqual(verdict.complaints(), [])
        self.assertEqual(verdict.flaky["m.py::a"], comparison.Again(0, 3, 4))

    def test_failure_with_its_own_too_counts_for_both(self):
        verdict = judge(OURS | {"m.py::a": "failed"},
                        again(["failed"] * 3, ["failed"] * 3))
        self.assertEqual(verdict.extra["m.py::a"], comparison.Again(3, 4, 4))

    def test_skip_that_is_not_allowed(self):
        self.check_one(judge(OURS, allowed=frozenset()), "skip: skipped")
        self.check_one(judge(OURS | {"m.py::b": "skipped"}), "b: skipped")

    def test_test_that_did_not_run(self):
        less = {test: how for test, how in OURS.items() if test != "m.py::b"}
        self.check_one(judge(less), "b: did not run")

    def test_run_without_an_end(self):
        killed = comparison.judge(run(OWN), run(OURS, end=None), [], ALLOWED)
        self.assertIn("ours: the run did not come to its end",
                      killed.complaints())

    def test_memory_that_was_not_used_shows_nothing(self):
        self.check_one(judge(OURS, served=0), "served 0 blocks")
        self.check_one(judge(OURS, own=run(OWN, served=1)), "served 1 blocks")

    def test_suite_of_which_nothing_passes_shows_nothing(self):
        failed = dict.fromkeys(OWN, "failed")
        self.check_one(judge(failed, own=run(failed)), "nothing passed")

    def test_worst_report_of_a_test_counts(self):
        lines = [json.dumps({"test": "a", "outcome": how, "detail": how})
                 for how in ("passed", "failed", "skipped")]
        read = comparison.read(lines)
        self.assertEqual(read.outcomes, {"a": "failed"})


class Markdown(unittest.TestCase):
    def test_names_each_test_that_differs(self):
        verdict = judge(OURS | {"m.py::a": "failed"},
                        again(["passed"] * 3, ["failed"] * 3))
        lines = list(comparison.markdown("suite", verdict))
        self.assertIn("| its own | 3 | 1 | 0 | 0 |", lines)
        self.assertIn("| ours | 1 | 2 | 1 | 7 |", lines)
        self.assertIn("- m.py::a: with its own 0, with ours 4 of 4 runs", lines)
        self.assertIn("- m.py::skip", lines)
        self.assertIn("- m.py::c: nothing said", lines)


if __name__ == "__main__":
    unittest.main()
