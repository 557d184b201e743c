# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of its core, once with its own handler and once with ours
set from the beginning to the end: what passes with the one passes with the
other. numpy_modules.txt lists the files.

tests/suites runs all of NumPy's tests, on a machine with a GPU.
"""

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SUITES = HERE.parents[1] / "suites"
TESTS = Path(np._core.__file__).parent / "tests"
# With NumPy 2.4.6, 18 648 passed with either on the machine where it was
# counted; a few depend on the machine.
PASSED_MIN = 18600
# Blocks of the arena. NumPy 2.4.6 was given 32 787 there.
SERVED_MIN = 10_000
# What a test may need: NumPy's own mark leaves out those that need more, so that
# this runs where so much is free, twice.
MEMORY = "4GB"
LEFT_OUT = "GB memory required"

sys.path.insert(0, str(SUITES))
import comparison  # noqa: E402, after its folder


def modules():
    lines = (HERE / "numpy_modules.txt").read_text().splitlines()
    return [str(TESTS / line) for line in lines
            if line and not line.startswith("#")]


def run(handler, folder):
    outcomes = folder / f"{handler}.jsonl"
    environment = {
        **os.environ,
        "MOIETY_NUMPY_HANDLER": handler,
        "MOIETY_OUTCOMES": str(outcomes),
        "NPY_AVAILABLE_MEM": MEMORY,
        # meson and ninja, for those that build a module.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}"
                f"{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}{os.pathsep}{SUITES}{os.pathsep}"
                      f"{os.environ['PYTHONPATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
         "-p", "recording", "-p", "numpy_plugin", "--tb=short",
         "-m", "not slow", *modules()],
        env=environment, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    # 1: tests failed, which is for the comparison to judge.
    assert done.returncode in (0, 1), done.stdout[-4000:]
    return comparison.read(outcomes.read_text().splitlines()), done.stdout


def test_numpys_own_tests_pass_as_with_its_own_handler(tmp_path):
    with ThreadPoolExecutor(2) as both:
        ours = both.submit(run, "pinned", tmp_path)
        default, _ = run("default", tmp_path)
        pinned, output = ours.result()
    assert default.served == 0
    assert pinned.served > SERVED_MIN

    passed = default.having("passed")
    assert len(passed) >= PASSED_MIN
    missing = passed - pinned.having("passed")
    assert not missing, "\n".join([*sorted(missing), output[-20000:]])
    left_out = [line for line in output.splitlines() if LEFT_OUT in line]
    assert left_out, "NumPy's tests do not know how much memory they may use"
    warnings.warn("\n".join([
        f"{len(passed)} passed with NumPy's handler, and with ours too; left out, "
        f"as they need more than {MEMORY}:", *left_out]))
