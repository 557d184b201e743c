# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of its core, once with its own handler and once with ours
set from the beginning to the end: what passes with the one passes with the
other. numpy_modules.txt lists the files.

The whole suite: BINADE_NUMPY_MODULES=all, as is done on a machine with a GPU.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
TESTS = Path(np._core.__file__).parent / "tests"
# With NumPy 2.4.6, 18 648 passed with either on the machine where it was counted;
# a few depend on the machine.
PASSED_MIN = 18600


def modules():
    if os.environ.get("BINADE_NUMPY_MODULES") == "all":
        return [str(TESTS)]
    lines = (HERE / "numpy_modules.txt").read_text().splitlines()
    return [str(TESTS / line) for line in lines
            if line and not line.startswith("#")]


def run(handler, folder):
    outcomes = folder / f"{handler}.json"
    environment = {
        **os.environ,
        "BINADE_NUMPY_HANDLER": handler,
        "BINADE_NUMPY_OUTCOMES": str(outcomes),
        # meson and ninja, for those that build a module.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}"
                f"{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ['PYTHONPATH']}",
    }
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-p", "numpy_plugin", "--tb=short", "-m", "not slow", *modules()],
        env=environment, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    # 1: tests failed, which is for the comparison to judge.
    assert done.returncode in (0, 1), done.stdout[-4000:]
    return json.loads(outcomes.read_text()), done.stdout


def names_of(outcomes, outcome):
    return {name for name, how in outcomes.items() if how == outcome}


def test_numpys_own_tests_pass_as_with_its_own_handler(tmp_path):
    with ThreadPoolExecutor(2) as both:
        ours = both.submit(run, "pinned", tmp_path)
        default, _ = run("default", tmp_path)
        pinned, output = ours.result()
    assert default["handler"] == "default_allocator"
    assert pinned["handler"] == "binade:device0"

    passed = names_of(default["outcomes"], "passed")
    assert len(passed) >= PASSED_MIN
    missing = passed - names_of(pinned["outcomes"], "passed")
    assert not missing, "\n".join([*sorted(missing), output[-20000:]])
    print(f"{len(passed)} passed with NumPy's handler, and with ours too")
