# SPDX-License-Identifier: Apache-2.0
"""The pages that list keys and statuses list all of them, and no other."""

import os
import pathlib
import re

LISTED = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
# The pages and sources of the checkout, whatever is new there.
CHECKOUT = (LISTED / "README.md").resolve().parent


def first_cells(page, pattern):
    """What matches in the first column of a page's tables."""
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    return {name for row in rows
            for name in re.findall(pattern, row.split("|")[1])}


def unlike(page, pattern, names):
    """Names that only one of the two has."""
    return first_cells(page, pattern) ^ set(names)


def keys():
    options = (CHECKOUT / "pool/config/options.c").read_text()
    hosts = (CHECKOUT / "numa/arena/conf.c").read_text()
    found = re.findall(r'\.key = "(\w+)"', options)
    found += re.findall(r'{"(host_\w+)", (?:conf_)?set_', hosts)
    assert len(found) > 20
    return [*found, "trace", "expose"]


def statuses():
    header = (CHECKOUT / "pool/include/moiety/status.h").read_text()
    found = re.findall(r"^    (MOIETY_(?:OK|E_\w+)) = \d+", header, re.M)
    assert len(found) == 28
    return found


def page(name):
    return (CHECKOUT / "docs" / name).read_text()


def test_each_key_of_the_sources_is_in_the_table():
    text = page("configuration.md").split("## Environment variables")[0]
    assert unlike(text, r"`(\w+)`", keys()) == set()


def test_each_status_is_in_the_table():
    assert unlike(page("c-api.md"), r"`(\w+)`", statuses()) == set()


def test_a_key_too_few_and_one_too_many_are_found():
    text = "| `a`, `b` | x |\n| `d` | `e` |\n"
    assert unlike(text, r"`(\w+)`", ["a", "b", "c"]) == {"c", "d"}
