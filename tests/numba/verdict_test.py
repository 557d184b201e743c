# SPDX-License-Identifier: Apache-2.0
"""The comparison has teeth: each way to differ from the lists is a complaint,
and agreement is none."""

import unittest

import verdict

ALLOWED = """
[[allowed]]
outcome = "fail"
why = "no kernels"
evidence = ["load", "NOT_SUPPORTED"]
tests = ["drv.test_a.T.test_kernel"]
[[allowed]]
outcome = "skip"
why = "Windows only"
evidence = ["Windows"]
tests = ["drv.test_b.T.test_windows"]
"""
PASSING = "# comment\ndrv.test_a.T.test_copy\n"
AS_LISTED = (
    ("drv.test_a.T.test_copy", "pass", ""),
    ("drv.test_a.T.test_kernel", "fail", "in load: NOT_SUPPORTED"),
    ("drv.test_b.T.test_windows", "skip", "Windows only"),
)


def events_of(reports):
    events = []
    for test, outcome, detail in reports:
        events.append({"event": "start", "test": test, "detail": ""})
        if outcome != "crash":
            events.append({"event": outcome, "test": test, "detail": detail})
    return events + [{"event": "end", "test": "", "detail": "1"}]


def complaints(reports):
    expected = verdict.expectations(PASSING, ALLOWED)
    outcomes = verdict.outcomes_of(events_of(reports))
    return [complaint for _, complaint in verdict.judge(expected, outcomes)]


def changed(test_end, outcome, detail=""):
    return [
        (test, outcome, detail) if test.endswith(test_end) else
        (test, as_listed, said)
        for test, as_listed, said in AS_LISTED
    ]


class Judgement(unittest.TestCase):
    def check_one(self, reports, words):
        found = complaints(reports)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_agreement_is_no_complaint(self):
        self.assertEqual(complaints(AS_LISTED), [])

    def test_failure_that_is_not_allowed(self):
        self.check_one(changed("copy", "fail", "wrong"), "expected pass")

    def test_skip_that_is_not_allowed(self):
        self.check_one(changed("copy", "skip", "no GPU"), "expected pass")

    def test_crash(self):
        self.check_one(changed("copy", "crash"), "crash")

    def test_crash_is_no_allowed_failure(self):
        self.check_one(changed("kernel", "crash"), "crash")

    def test_failure_for_another_reason(self):
        for said in ("load: INVALID_VALUE", "free: NOT_SUPPORTED", ""):
            with self.subTest(said=said):
                self.check_one(changed("kernel", "fail", said), "nothing says")

    def test_skip_for_another_reason(self):
        self.check_one(changed("windows", "skip", "no NVVM"), "nothing says")

    def test_stale_failure(self):
        self.check_one(changed("kernel", "pass"), "stale")

    def test_stale_skip(self):
        self.check_one(changed("windows", "pass"), "stale")

    def test_test_that_never_ran(self):
        self.check_one(AS_LISTED[1:], "never ran")

    def test_test_on_no_list(self):
        new = ("drv.test_a.T.test_new", "pass", "")
        self.check_one([*AS_LISTED, new], "on no list")

    def test_module_that_does_not_load(self):
        broken = ("unittest.loader._FailedTest.test_a", "fail", "ImportError")
        self.check_one([*AS_LISTED, broken], "on no list")

    def test_one_bad_sub_test_decides(self):
        events = events_of(AS_LISTED)
        worse = {"event": "fail", "test": AS_LISTED[0][0], "detail": "third"}
        outcomes = verdict.outcomes_of([*events, worse])
        self.assertEqual(outcomes[AS_LISTED[0][0]].outcome, "fail")


class Lists(unittest.TestCase):
    def test_a_test_may_be_listed_once_only(self):
        twice = PASSING + "drv.test_a.T.test_kernel\n"
        with self.assertRaisesRegex(ValueError, "listed twice"):
            verdict.expectations(twice, ALLOWED)

    def test_only_failing_and_skipping_can_be_allowed(self):
        with self.assertRaisesRegex(ValueError, "bad group"):
            verdict.read_allowed(ALLOWED.replace('"skip"', '"crash"'))


if __name__ == "__main__":
    unittest.main()
