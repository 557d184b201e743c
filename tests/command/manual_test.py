# SPDX-License-Identifier: Apache-2.0
"""docs/moiety.1 is what the parsers say now."""

import os
import re
from pathlib import Path

import pytest

from moiety._cli import manual
from moiety._cli.main import parser
from moiety._cli.tree import tree_of

ROOT = Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
PAGE = ROOT / "docs" / "moiety.1"
# All that the page uses, with the number of words that may follow.
REQUESTS = {".TH": 5, ".SH": 1, ".SS": 3, ".PP": 0, ".TP": 0, ".RS": 0,
            ".RE": 0, ".nf": 0, ".fi": 0, ".br": 0, ".nh": 0, ".ad": 1}


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == manual.manual(), (
        "PYTHONPATH=bazel-bin/emm/site python -m moiety._cli.manual >docs/moiety.1")


def test_it_has_each_command_with_its_options():
    page = manual.manual()
    for command in tree_of(parser()).all():
        name = " ".join(["moiety", *command.words])
        assert command.commands or f"\n.SS {name}\n" in page
        section = page.split(f"\n.SS {name}\n")[-1].split("\n.S")[0]
        for option in command.options:
            assert ("--help" in option.names or not command.words
                    or manual.escaped(option.names[-1]) in section)


def test_it_is_roff_and_nothing_is_taken_for_it():
    for line in manual.manual().splitlines():
        if line.startswith('.\\"'):
            continue
        request, *words = line.split(" ")
        if line.startswith("."):
            assert request in REQUESTS, line
            assert len(words) <= REQUESTS[request] or '"' in line, line
        assert not line.startswith("'"), line
        for escape in re.findall(r"\\f.|\\.", line):
            assert escape in (r"\fB", r"\fI", r"\fR", r"\-", r"\e",
                              r"\&"), line
        assert len(re.findall(r"\\f[BI]", line)) == line.count(r"\fR"), line


def test_blocks_begin_and_end():
    page = manual.manual()
    pairs = re.findall(r"^\.(nf|fi|RS|RE)$", page, re.MULTILINE)
    assert pairs and pairs == ["RS", "nf", "fi", "RE"] * (len(pairs) // 4)


@pytest.mark.parametrize("text, wanted", [
    ("a-b", r"a\-b"), (r"C:\x", r"C:\ex"), (".br is text", r"\&.br is text"),
    ("'quoted'", r"\&'quoted'"), ("it's.", "it's.")])
def test_text_is_not_taken_for_roff(text, wanted):
    assert manual.line(text) == wanted
