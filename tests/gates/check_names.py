#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names that a search or a profile can tell apart, and folders that one can read.

    check_names.py ROOT

1. No two source files of pool, numa, serve and emm have a static function of one name.
2. No folder has more than 25 files, BUILD and README.md counted. Data and ADRs
   are not counted.
3. No name in the library has a word that docs/dev/glossary.md calls by
   another; public names keep theirs, and the stand-in has words of its own.

Exits with 1, and says where, if one is broken.
"""

import collections
import os
import re

from tree_files import files_of, run_check

STATIC = re.compile(
    r"^static (?:inline )?(?:MOIETY_\w+ )?[\w ]+?[\s*]+(\w+)\(", re.MULTILINE)
MOST_FILES = 25
DATA = ("bench/results", "bench/traces", "corpus", "docs/dev/adr")
OLD_WORDS = {
    "pool": ("climb", "climber", "ladder", "member", "members", "orphan",
             "orphans", "shelf", "slot", "slots", "spares", "stray", "wish"),
    "numa": ("crew", "making"),
}
OWN_WORDS = ("pool/include/", "pool/install/", "pool/standin/")
TOKEN = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|#include.*?$|(\w+)",
                   re.DOTALL | re.MULTILINE)


def shared_names(root, files):
    where = collections.defaultdict(list)
    for file in files:
        if file.startswith(
                ("pool/", "numa/", "serve/", "emm/")) and file.endswith(".c"):
            for name in set(STATIC.findall((root / file).read_text())):
                where[name].append(file)
    return [f"{' and '.join(found)} have a static {name}()"
            for name, found in sorted(where.items()) if len(found) > 1]


def names_in(file):
    return set(TOKEN.findall(file.read_text())) - {""}


def old_words(root, files):
    c_files = [file for file in files if file.endswith((".c", ".h"))]
    public = set().union(*(names_in(root / file) for file in c_files
                           if file.startswith("pool/include/")))
    wrong = []
    for file in c_files:
        words = OLD_WORDS.get(file.split("/")[0])
        if words and not file.startswith(OWN_WORDS):
            wrong += [f"{file}: {name} has a word that the glossary replaced"
                      for name in sorted(names_in(root / file) - public)
                      if not set(words).isdisjoint(name.lower().split("_"))]
    return wrong


def large_folders(files):
    count = collections.Counter(
        os.path.dirname(file) for file in files
        if os.path.dirname(file) and not any(part in file for part in DATA))
    wrong = []
    for folder, number in sorted(count.items()):
        if number > MOST_FILES:
            wrong.append(f"{folder} has {number} files, more than "
                         f"{MOST_FILES}")
    return wrong


def check(root):
    files = [file for file in files_of(root)
             if not os.path.basename(file).startswith(".")]
    return (shared_names(root, files) + large_folders(files) +
            old_words(root, files)), f"{len(files)} files, no rule broken"


if __name__ == "__main__":
    run_check("names", __doc__, check)
