# SPDX-License-Identifier: Apache-2.0
"""Runs cases on their machines, one boot each, and prints a table of pages
asked for and pages on the right node.

    numa_vm_test.py CASES PROGRAM...

CASES is the module that holds them, the programs are what their commands call.
"""

import importlib
import os
import sys
import tempfile
import unittest

import steps
import vm

TIMEOUT_S = 120

table = []


def note(case, result):
    pages = steps.pages_of(case, result)
    asked, right = pages or ("-", "-")
    lines = [] if pages else result.output.split("\n")
    said = "; ".join(line.strip() for line in lines)
    table.append(f"{case.name:<56}{asked:>8}{right:>8}  {said}".rstrip())


def print_table():
    print(f"{'case':<56}{'pages':>8}{'right':>8}  what it says")
    print("\n".join(table))


class NumaVm(unittest.TestCase):
    def check(self, run):
        with tempfile.TemporaryDirectory() as folder:
            initramfs = vm.pack(folder, programs, steps.script_of(run))
            _, console = vm.boot(run.machine, initramfs, TIMEOUT_S)
        results = steps.results_of(console, run.cases)
        for case, result in zip(run.cases, results):
            note(case, result)
            with self.subTest(case.name):
                self.assertTrue(
                    steps.is_as_wanted(case, result),
                    f"wanted {case.wants!r}, status {case.status}; {result}",
                )

    def test_every_machine(self):
        self.assertTrue(cases.RUNS)
        for run in cases.RUNS:
            with self.subTest(run.cases[0].name):
                self.check(run)


if __name__ == "__main__":
    vm.need()
    cases = importlib.import_module(sys.argv[1])
    programs = [os.path.realpath(name) for name in sys.argv[2:]]
    outcome = unittest.main(argv=sys.argv[:1], exit=False)
    print_table()
    sys.exit(not outcome.result.wasSuccessful())
