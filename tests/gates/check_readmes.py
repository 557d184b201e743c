#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_readmes.py FOLDER

Every folder with code has a README.md of at most a screen, which names each
file that lies beside it: in backticks, whole, as a pattern (`checked_*.c`), by
its ending alone behind another (`slot.h`, `.c`), or by a link. Prints what is
missing; fails if anything is.
"""

import fnmatch
import pathlib
import re

from tree_files import files_of, run_check

SCREEN_LINES = 60
CODE = re.compile(r"\.(c|h|inc|cc|py|sh|bzl|pml)$")
# Named by nobody: what Bazel and Python want in each folder.
PLAIN = {"BUILD", "README.md", "__init__.py", "py.typed"}
# Headers and rules of other projects.
LEFT_OUT = re.compile(r"^third_party(/|$)")


def patterns_of(text):
    """What a README names, with endings put behind the name before them."""
    patterns = re.findall(r"\]\(([^()/#\s]+)\)", text)
    for token in re.findall(r"`([^`\s]+)`", text):
        if re.fullmatch(r"\.\w+", token) and patterns:
            patterns.append(patterns[-1].rsplit(".", 1)[0] + token)
        else:
            patterns.append(token)
    return patterns


def problems_of(folder, names, readme):
    """What is wrong with a folder."""
    has_code = any(CODE.search(name) for name in names)
    if not readme.exists():
        if has_code:
            yield f"{folder}: has no README.md"
        return
    text = readme.read_text()
    lines = text.count("\n")
    if has_code and lines > SCREEN_LINES:
        yield f"{folder}/README.md: {lines} lines are more than a screen"
    patterns = patterns_of(text)
    for name in names:
        if name not in PLAIN and not any(
                fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield f"{folder}/README.md: does not name {name}"


def check(root):
    folders = {}
    for name in files_of(root):
        path = pathlib.PurePosixPath(name)
        folders.setdefault(str(path.parent), []).append(path.name)
    places = [
        place for folder, names in sorted(folders.items())
        if folder != "." and not LEFT_OUT.search(folder)
        for place in problems_of(folder, names, root / folder / "README.md")]
    return places, f"the files of {len(folders)} folders are named"


if __name__ == "__main__":
    run_check("readmes", __doc__, check)
