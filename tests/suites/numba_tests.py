# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for numba-cuda's own tests: what the conftest.py of its
repository has and its wheel has not, and how many device arrays our memory
manager made."""

import functools
import os

import pytest

blocks = 0


def count_blocks():
    import moiety.numba

    uncounted = moiety.numba.Manager.memalloc

    @functools.wraps(uncounted)
    def memalloc(self, size):
        global blocks
        memory = uncounted(self, size)
        blocks += 1
        return memory

    moiety.numba.Manager.memalloc = memalloc


def pytest_configure():
    if os.environ.get("NUMBA_CUDA_MEMORY_MANAGER") == "moiety.numba":
        count_blocks()


def pytest_served():
    return blocks


def pytest_addoption(parser):
    parser.addoption("--dump-failed-filechecks", action="store_true",
                     help="write down what a failed FileCheck looked at")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """What numba.cuda.testing.CUDATestCase asks for."""
    request.cls._dump_failed_filechecks = request.config.getoption(
        "--dump-failed-filechecks")
