# SPDX-License-Identifier: Apache-2.0
"""What run.py calls well, and what not."""

import pathlib
import tempfile
import unittest

import run


class Verdict(unittest.TestCase):
    def test_what_passes_is_well(self):
        self.assertIsNone(run.verdict_of(0, "5 passed in 1.2s"))

    def test_a_failure_is_not(self):
        self.assertIn("status is 1", run.verdict_of(1, "1 failed in 1.2s"))

    def test_no_test_at_all_is_not(self):
        self.assertIn("status is 5", run.verdict_of(5, "no tests ran"))

    def test_a_skip_is_a_failure(self):
        self.assertIn("no CuPy", run.verdict_of(
            0, "SKIPPED [1] a_test.py:3: no CuPy\n1 skipped in 1.2s"))

    def test_but_for_want_of_a_second_gpu_or_on_purpose(self):
        self.assertIsNone(run.verdict_of(
            0, "SKIPPED [1] a_test.py:3: needs a second GPU\n"
               "SKIPPED [2] b_test.py:3: settings of the stand-in\n"
               "3 skipped in 1.2s"))


class Runs(unittest.TestCase):
    def test_the_site_comes_first(self):
        path = run.environment(pathlib.Path("/a/site"))["PYTHONPATH"]
        self.assertTrue(path.startswith("/a/site:"))

    def test_what_it_said_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            self.assertEqual(run.run(["echo", "said"], None, out),
                             (0, "said\n"))
            self.assertEqual((out / "said.log").read_text(), "said\n")


if __name__ == "__main__":
    unittest.main()
