# SPDX-License-Identifier: Apache-2.0
"""The files that pin the packages of the Python tests are of one mind."""

import re
import unittest
from pathlib import Path

EMM = Path("emm")
VERSIONS = [f"3{minor}" for minor in range(10, 15)]
NAME = re.compile(r"^[a-z0-9-]+", re.MULTILINE)
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
HASHED = re.compile(r"^[a-z0-9-]+==\S+ \\\n--hash=sha256:[0-9a-f]{64}$",
                    re.MULTILINE)


def lines_of(path):
    """The text without its comments and options."""
    return "".join(line for line in path.read_text().splitlines(True)
                   if not line.startswith(("#", "--only-binary")))


def pins_of(path):
    return dict(PIN.findall(lines_of(path)))


class Locks(unittest.TestCase):
    def setUp(self):
        self.locks = {version: EMM / f"requirements-test-cp{version}.txt"
                      for version in VERSIONS}

    def test_there_is_one_for_each_version_of_python_and_no_other(self):
        self.assertEqual(set(self.locks.values()),
                         set(EMM.glob("requirements-test-*.txt")))

    def test_everything_is_pinned_by_version_and_hash(self):
        for version, path in self.locks.items():
            with self.subTest(version):
                left = HASHED.sub("", lines_of(path)).strip()
                self.assertEqual(left, "")
                self.assertIn("--only-binary :all:\n", path.read_text())

    def test_each_has_all_that_is_needed(self):
        needed = NAME.findall(lines_of(EMM / "requirements-test.in"))
        self.assertGreater(len(needed), 10)
        for version, path in self.locks.items():
            with self.subTest(version):
                self.assertEqual(set(needed) - set(pins_of(path)), set())

    def test_each_has_what_the_lists_of_numbas_tests_were_made_with(self):
        wanted = pins_of(Path("tests/numba/requirements.txt"))
        self.assertIn("numba-cuda", wanted)
        for version, path in self.locks.items():
            with self.subTest(version):
                pins = pins_of(path)
                self.assertEqual({name: pins.get(name) for name in wanted},
                                 wanted)


if __name__ == "__main__":
    unittest.main()
