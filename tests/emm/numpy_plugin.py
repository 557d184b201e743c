# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for NumPy's own tests: runs each with the handler that
BINADE_NUMPY_HANDLER names, "pinned" or "default", and writes how each ended to
the file that BINADE_NUMPY_OUTCOMES names."""

import json
import os

import numpy as np

HANDLER = os.environ["BINADE_NUMPY_HANDLER"]
OUTCOMES = os.environ["BINADE_NUMPY_OUTCOMES"]

outcomes = {}


def use_handler():
    if HANDLER == "pinned":
        import binade.numpy
        binade.numpy.use(binade.numpy.arena())


def handler_name():
    return np._core.multiarray.get_handler_name()


def pytest_configure(config):
    # Before anything is collected: parameters of tests are arrays too.
    use_handler()


def pytest_runtest_setup(item):
    # The tests of handlers set their own.
    use_handler()


def pytest_runtest_logreport(report):
    if report.outcome != "passed" or report.when == "call":
        before = outcomes.get(report.nodeid, "passed")
        outcomes[report.nodeid] = max(before, report.outcome,
                                      key=["passed", "skipped",
                                           "failed"].index)


def pytest_sessionfinish(session):
    use_handler()
    with open(OUTCOMES, "w") as file:
        json.dump({"handler": handler_name(), "outcomes": outcomes}, file)
