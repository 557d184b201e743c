# SPDX-License-Identifier: Apache-2.0
"""A file of tests that pytest runs on the package as it was built here, with
the stand-in driver."""

load("@rules_shell//shell:sh_test.bzl", "sh_test")

_SITE_FILE = "//emm:site/moiety/__init__.py"
_DRIVER = "//pool/standin:libcuda.so.1"

def pytest_test(name, data = [], size = "medium", tags = []):
    """The test `name` of the file `name`.py.

    Args:
      name: without the suffix.
      data: what the file needs beside the package and the driver.
      size: as of any test.
      tags: as of any test.
    """
    sh_test(
        name = name,
        size = size,
        srcs = ["//tests/emm:run_pytest.sh"],
        args = [
            "$(location %s)" % _SITE_FILE,
            "$(location %s)" % _DRIVER,
            "$(location %s.py)" % name,
        ],
        data = data + [
            name + ".py",
            "//emm:site",
            _SITE_FILE,
            _DRIVER,
        ],
        # Python itself is not built with a sanitizer.
        tags = tags + ["no-sanitizer"],
    )

def pytest_tests(names, **kwargs):
    """A pytest_test() for each name, which have everything else in common.

    Args:
      names: of the files, without the suffix.
      **kwargs: as of pytest_test().
    """
    for name in names:
        pytest_test(name = name, **kwargs)
