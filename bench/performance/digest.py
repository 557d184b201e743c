# SPDX-License-Identifier: Apache-2.0
"""What a number depends on: a digest of the code that it measured, without
comments and spaces, so that a comment makes no number old."""

import hashlib
import pathlib
import re

CORE = tuple(f"pool/{folder}" for folder in (
    "api", "base", "cache", "core", "driver", "graph", "heap", "oom",
    "segment", "stream", "tenant"))
PARTS = {
    "core": CORE,
    "torch": CORE + ("emm/torch",),
    "python": CORE + ("emm/native",),
}
SUFFIXES = {".c", ".cc", ".h"}
# A string or a character, which may look like a comment, or a comment.
TOKEN = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
                   r"|//[^\n]*|/\*.*?\*/", re.DOTALL)


def bare(text):
    """The code alone; a space stays where it keeps two words apart."""
    text = TOKEN.sub(lambda found: found.group(1) or " ", text)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?(\W) ?", r"\1", text)


def digest_of(root, part):
    """Of the tree below `root`. ValueError: it lacks a folder."""
    found = hashlib.sha256()
    for folder in PARTS[part]:
        paths = sorted(path for path in (pathlib.Path(root) / folder).rglob("*")
                       if path.suffix in SUFFIXES)
        if not paths:
            raise ValueError(f"{folder} has no code")
        for path in paths:
            name = path.relative_to(root).as_posix()
            found.update(f"{name}\0{bare(path.read_text())}\0".encode())
    return found.hexdigest()[:16]
