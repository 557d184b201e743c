#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""READMEs say what is there, and lead to every folder.

    check_readmes.py ROOT

1. A file of code that a README names in backticks exists: whole, as a pattern
   (`checked_*.c`), or by its ending alone behind another (`slot.h`, `.c`). If
   the README's folder has code, bare names in the first column of a table are
   of files below it; other files may lie anywhere.
2. The links of a README lead to what is there.
3. A folder with code is named by the nearest README above it, in backticks or
   by a link, in a line that says what it is. For the folders of the root
   CONTRIBUTING.md may do that.
4. The README of a folder with code is at most a screen.

Prints what is wrong; fails if anything is.
"""

import fnmatch
import pathlib
import posixpath
import re

from tree_files import files_of, run_check

SCREEN_LINES = 60
# Words of a line that say what a folder is, beside its name.
LEAST_WORDS = 2
CODE = re.compile(r"\.(c|h|hpp|inc|cc|py|sh|bzl|pml)$")
# Headers and rules of other projects.
LEFT_OUT = re.compile(r"^third_party(/|$)")
# READMEs say that nobody needs them.
OTHERS = {"cuda.h", "hwloc.h", "nvToolsExtMem.h"}
# A file that a reader is to make, as `workloads/NAME.c`.
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")
TOKEN = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^()#\s]+)(?:#[^()\s]*)?\)")


def prose_of(text):
    """Numbered lines that are no example."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and not line.startswith("    "):
            yield number, line


def names_of(line):
    """The files of code in a line, each with whether it is in the first column."""
    last = ""
    is_table = line.startswith("|")
    first_end = line.find("|", 1) if is_table else 0
    for found in TOKEN.finditer(line):
        name = found[1]
        if re.fullmatch(r"\.\w+", name):
            name = last.rsplit(".", 1)[0] + name if last else ""
        if CODE.search(name) and re.fullmatch(r"[\w./*+-]+", name) and \
                not PLACEHOLDER.search(name):
            last = name
            yield name, found.start() < first_end


class Tree:
    """The files and folders of a root."""

    def __init__(self, root):
        self.root = root
        self.files = files_of(root)
        self.folders = {str(parent) for name in self.files
                        for parent in pathlib.PurePosixPath(name).parents}
        self.code = sorted({posixpath.dirname(name) or "." for name in self.files
                            if CODE.search(name)} - {"."})
        self.readmes = {
            posixpath.dirname(name) or ".": (root / name).read_text()
            for name in self.files if posixpath.basename(name) == "README.md"}

    def has_file(self, name, folder):
        """Whether a file below a folder has this path, or ends with it."""
        below = [file for file in self.files
                 if folder == "." or file.startswith(folder + "/")]
        return any(fnmatch.fnmatchcase("/" + file, "*/" + name)
                   for file in below)

    def wrong_names(self, text, folder="."):
        """Of a page that is about a folder, or of any."""
        own = folder if folder in self.code else "."
        for number, line in prose_of(text):
            for name, is_first in names_of(line):
                if name not in OTHERS and not self.has_file(
                        name, own if is_first and "/" not in name else "."):
                    yield f"{number}: there is no {name}"

    def wrong_links(self, folder):
        for number, line in prose_of(self.readmes[folder]):
            for target in LINK.findall(line):
                path = posixpath.normpath(posixpath.join(folder, target))
                if "://" not in target and not target.startswith("mailto:") and \
                        path not in self.folders and not (self.root / path).exists():
                    yield f"{number}: leads to {target}, which is not there"

    def guide_of(self, folder):
        """The folder of the nearest README above, and what it says."""
        above = posixpath.dirname(folder) or "."
        while above != "." and above not in self.readmes:
            above = posixpath.dirname(above) or "."
        text = self.readmes.get(above, "")
        more = self.root / "CONTRIBUTING.md"
        if above == "." and more.exists():
            text += "\n" + more.read_text()
        return above, text


def is_named(text, above, folder):
    """Whether a line has the folder's name and says what it is."""
    for _, line in prose_of(text):
        targets = [posixpath.normpath(posixpath.join(above, name)) for name in
                   TOKEN.findall(line) + LINK.findall(line)]
        if folder in targets or folder + "/README.md" in targets:
            said = LINK.sub("]", TOKEN.sub("", line))
            said = re.sub(r"\[[^]]*\]", "", said)
            if len(re.findall(r"[A-Za-z]{2,}", said)) >= LEAST_WORDS:
                return True
    return False


def check(root):
    tree = Tree(root)
    wrong = []
    for folder, text in sorted(tree.readmes.items()):
        if LEFT_OUT.search(folder):
            continue
        wrong += [f"{folder}/README.md:{words}"
                  for words in [*tree.wrong_names(text, folder),
                                *tree.wrong_links(folder)]]
        lines = text.count("\n")
        if folder in tree.code and lines > SCREEN_LINES:
            wrong.append(f"{folder}/README.md: {lines} lines are more than a "
                         "screen")
    for folder in tree.code:
        if not LEFT_OUT.search(folder):
            above, text = tree.guide_of(folder)
            if not is_named(text, above, folder):
                wrong.append(f"{above}/README.md: does not say what {folder} is")
    return wrong, (f"{len(tree.readmes)} READMEs lead to {len(tree.code)} "
                   "folders of code")


if __name__ == "__main__":
    run_check("readmes", __doc__, check)
