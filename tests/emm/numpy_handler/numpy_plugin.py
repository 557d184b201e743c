# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for NumPy's own tests: runs each with the handler that
MOIETY_NUMPY_HANDLER names, "pinned" or "default". With
tests/suites/recording.py it tells how many blocks NumPy was given."""

import os

HANDLER = os.environ["MOIETY_NUMPY_HANDLER"]


def use_handler():
    if HANDLER == "pinned":
        import moiety.numpy
        moiety.numpy.use(moiety.numpy.arena())


def pytest_configure(config):
    # Before anything is collected: parameters of tests are arrays too.
    use_handler()


def pytest_runtest_setup(item):
    # The tests of handlers set their own.
    use_handler()


def pytest_served():
    if HANDLER != "pinned":
        return 0
    import moiety.numpy
    return moiety.numpy.arena().stats().allocation_allocated
