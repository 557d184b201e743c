# SPDX-License-Identifier: Apache-2.0
"""The C reference has each function that the library exports, and is what the
headers say; it is not made if something is not documented."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
SCRIPT = ROOT / "docs/dev/reference/c_reference.py"
SMALL = """/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A small header.
 */
#ifndef MOIETY_SMALL_H_
#define MOIETY_SMALL_H_

/** A constant, */
#define MOIETY_FIRST 1
#define MOIETY_SECOND 2

/** A struct. */
typedef struct moiety_small {
    /** Two fields. */
    int first;
    int second;
} moiety_small;

/** Is called. */
typedef int (*moiety_called)(int what, void *context);

/**
 * Does something,
 * with a | in it.
 *
 * @param what  What.
 * @param how   How.
 *
 * @return MOIETY_OK  Well.
 * @return as another one
 *
 * Ownership: yours.
 * Threads, Streams: any.
 */
MOIETY_API MOIETY_MUST_USE int moiety_do(int what,
                                         int how);

#endif
"""


def run(*words):
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, words)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def root(tmp_path):
    """A checkout with one small header."""
    (tmp_path / "pool/include/moiety").mkdir(parents=True)
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "pool/include/moiety/small.h").write_text(SMALL)
    return tmp_path


def made(root, text=SMALL):
    (root / "pool/include/moiety/small.h").write_text(text)
    return run(root)


def headings(page):
    return set(re.findall(r"^### (\w+)$", page, re.MULTILINE))


def test_it_has_each_function_of_the_library():
    names = set(re.findall(
        r"^\s+(moiety_\w+);",
        (ROOT / "pool/install/libmoiety.map").read_text(), re.MULTILINE))
    page = (ROOT / "docs/reference/c-reference.md").read_text()
    assert len(names) > 50
    assert names - headings(page) == set()
    assert names - headings(page.replace("### moiety_alloc\n", "")) == {
        "moiety_alloc"}


def test_the_page_is_what_the_headers_say():
    assert run("--check", ROOT)[0] == 0


def test_a_page_changed_by_hand_is_found(root):
    assert made(root)[0] == 0
    assert run("--check", root)[0] == 0
    page = root / "docs/reference/c-reference.md"
    page.write_text(page.read_text().replace("Two fields", "Three fields"))
    code, output = run("--check", root)
    assert (code, "is not what the headers say" in output) == (1, True)


def test_a_small_header_is_made(root):
    assert made(root) == (0, "c_reference: 4 items\n")
    page = (root / "docs/reference/c-reference.md").read_text()
    assert headings(page) == {"MOIETY_FIRST", "moiety_small", "moiety_called",
                              "moiety_do"}
    for words in ("A small header.", "#define MOIETY_SECOND 2",
                  "| `int first` | Two fields. |", "| `int second` |",
                  "int moiety_do(int what, int how);",
                  "typedef int (*moiety_called)(int what, void *context);",
                  "Does something, with a | in it.", "| `how` | How. |",
                  "| `MOIETY_OK` | Well. |", "|  | as another one |",
                  "- **Ownership:** yours.", "- **Threads, Streams:** any.",
                  "| [small.h](#smallh) | [moiety_do](#moiety_do) |"):
        assert words in page, words


def test_headers_are_essential_or_advanced(root):
    headers = root / "pool/include/moiety"
    (headers / "stacks").mkdir()
    for name, guard in [("large.h", "LARGE"), ("stacks/framework.h", "FRAMEWORK")]:
        (headers / name).write_text(SMALL.replace("moiety_", f"{guard.lower()}_"))
    (headers / "moiety.h").write_text(
        '/* Of the others. */\n#include "moiety/small.h"\n')
    assert made(root)[0] == 0
    page = (root / "docs/reference/c-reference.md").read_text()
    essential, advanced = page.split("## Essential headers")[1].split(
        "## Advanced headers")
    advanced = advanced.split("\n## ")[0]
    assert "[small.h](#smallh)" in essential and "[moiety.h](#moietyh)" in essential
    assert "[large.h](#largeh)" in advanced
    assert "[stacks/framework.h](#stacksframeworkh)" in advanced
    assert "[small.h]" not in advanced and "[large.h]" not in essential
    assert "\n## stacks/framework.h\n" in page


@pytest.mark.parametrize("removed, words", [
    ("A small header.\n", "small.h does not begin with a comment"),
    ("/** A struct. */\n", "small.h: moiety_small has no comment"),
    ("/** Two fields. */\n", "the first member of moiety_small has no comment"),
    (" * @param how   How.\n", "moiety_do does not say what 'how' is"),
    (SMALL[SMALL.index("/**\n * Does"):SMALL.index("MOIETY_API")],
     "moiety_do has no comment"),
])
def test_what_is_not_documented_is_named(root, removed, words):
    assert removed in SMALL
    code, output = made(root, SMALL.replace(removed, ""))
    assert (code, words in output) == (1, True), output


def test_a_parameter_that_is_not_there_is_named(root):
    code, output = made(root, SMALL.replace("@param how ", "@param who "))
    assert code == 1
    assert "moiety_do has no parameter 'who'" in output
    assert "does not say what 'how' is" in output


def test_the_object_of_a_function_needs_no_words(root):
    for name, code in [("pool", 0), ("tenant", 0), ("pools", 1), ("count", 1)]:
        assert made(root, SMALL.replace("moiety_do(int what,", f"moiety_do(int {name},")
                    .replace(" * @param what  What.\n", ""))[0] == code, name


def test_a_folder_without_headers_is_refused(tmp_path):
    code, output = run(tmp_path)
    assert (code, "c_reference: no header in" in output) == (1, True)
