# SPDX-License-Identifier: Apache-2.0
"""All links of this checkout's pages lead somewhere; those that do not are
found."""

import os
import pathlib
import subprocess
import sys

import pytest

LISTED = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
sys.path.insert(0, str(LISTED / "tests" / "docs"))

import links  # noqa: E402

# Pages link to whatever there is, so the checkout itself is looked at.
CHECKOUT = (LISTED / "README.md").resolve().parent


def test_all_links_of_the_checkout_lead_somewhere():
    pages = links.pages_of(CHECKOUT)
    assert CHECKOUT / "docs" / "dev" / "design.md" in pages
    assert sum(1 for page in pages for _ in links.links(
        page.read_text(encoding="utf-8"))) > 100
    assert links.complaints(CHECKOUT, pages) == []


PAGE = """# A page

## What is done, and *how*

### `code` in it

## Twice
## Twice
"""

GOOD = """[here](#here) [there](sub/other.md) [a heading](sub/other.md#twice-1)
[another](sub/other.md#what-is-done-and-how) [code](sub/other.md#code-in-it)
[a text that
wraps](sub/other.md) [far](https://example.org/x#y) [mail](mailto:a@example.org)
[a folder](sub) ![a picture](sub/other.md "with a title") `[code](gone.md)`

```
[fenced](gone.md)
```

# Here
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/other.md").write_text(PAGE)
    return tmp_path


def complaints(root, text):
    (root / "page.md").write_text(text)
    return links.complaints(root, [root / "page.md"])


def test_good_links_are_good(root):
    assert complaints(root, GOOD) == []
    assert len(list(links.links(GOOD))) == 10


@pytest.mark.parametrize("text, words", [
    ("[x](gone.md)", "page.md:1: gone.md is not there"),
    ("a\n\n[x\ny](sub/gone.md)", "page.md:4: sub/gone.md is not there"),
    ("[x](#gone)", "page.md:1: #gone has no such heading"),
    ("[x](sub/other.md#gone)", "has no such heading"),
    ("[x](sub/other.md#twice-2)", "has no such heading"),
    ("[x](sub#twice)", "has no such heading"),
    ("[x]()", "leads nowhere"),
    ("[x](../x.md)", "leads out of the repository"),
    ("![x](gone.png)", "gone.png is not there"),
    ("```\n# Gone\n```\n[x](#gone)", "has no such heading"),
])
def test_a_broken_link_is_named(root, text, words):
    found = complaints(root, text)
    assert len(found) == 1
    assert words in found[0]


def test_the_program_fails_on_a_broken_link(root):
    program = [sys.executable, "-B", str(LISTED / "tests/docs/links.py")]

    def run():
        return subprocess.run([*program, str(root)], capture_output=True,
                              text=True, check=False)

    (root / "page.md").write_text(GOOD)
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "links: 2 pages, no link is broken\n"
    (root / "page.md").write_text("[x](gone.md)\n")
    done = run()
    assert done.returncode == 1
    assert done.stderr == "links: page.md:1: gone.md is not there\n"
