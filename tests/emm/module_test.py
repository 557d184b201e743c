# SPDX-License-Identifier: Apache-2.0
"""What the package is, before anything is made."""

import re

import binade


def test_version_is_that_of_the_library():
    assert re.fullmatch(r"\d+\.\d+\.\d+", binade.__version__)
