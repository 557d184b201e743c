# SPDX-License-Identifier: Apache-2.0
"""Does what a page says: its files are written, its commands run, in order
and in one shell, and what they print is compared with what the page shows.

    ```c server.c      a file of that name, in any language
    ```sh              commands, to be run as they stand
    ```output          what the commands just before print to standard output
    ```                (or another word) is not looked at
"""

import os
import pathlib
import re
import subprocess
from typing import NamedTuple

FENCE = re.compile(r"^```([^`]*)$")
TIMEOUT_S = 2400


class Block(NamedTuple):
    line: int  # of its first fence, from 1
    language: str
    name: str  # of the file; "" for none
    text: str


class Broken(Exception):
    """A page that does not do what it says."""


def blocks_of(page):
    """The fenced blocks of a page, in order."""
    found, begin, lines = [], None, []
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if begin is None and fence:
            language, _, name = fence[1].strip().partition(" ")
            begin, lines = (number, language, name), []
        elif begin is not None and line == "```":
            found.append(Block(*begin, "".join(lines)))
            begin = None
        elif begin is not None:
            lines.append(line + "\n")
    if begin is not None:
        raise Broken(f"line {begin[0]}: the block has no end")
    return found


def _script(commands):
    """One shell runs all, and keeps apart what each block prints."""
    parts = ["set -eu\n"]
    for block in commands:
        parts.append(f"echo {block.line} >.line\n"
                     f"{{\n{block.text}}} >.printed-{block.line}\n")
    return "".join(parts)


def _write_files(folder, blocks):
    for block in blocks:
        if block.name:
            path = folder / block.name
            if path.exists():
                raise Broken(f"line {block.line}: {block.name} a second time")
            path.write_text(block.text)


def _compare(folder, blocks):
    before = None
    for block in blocks:
        if block.language == "output":
            if before is None or before.language != "sh":
                raise Broken(f"line {block.line}: output of no commands")
            printed = (folder / f".printed-{before.line}").read_text()
            if printed != block.text:
                raise Broken(f"line {block.line}: the page shows\n{block.text}"
                             f"and the commands print\n{printed}")
        before = block


def _unused(blocks):
    """Files that no command names, and which nothing else includes."""
    for block in blocks:
        others = "".join(other.text for other in blocks
                         if other is not block and other.language != "output")
        if block.name and block.name not in others:
            raise Broken(f"line {block.line}: nothing uses {block.name}")


def do(page, folder, environment):
    """Does what the text of a page says in an empty folder. Returns how many
    files and how many blocks of commands there were; Broken tells the line."""
    blocks = blocks_of(page)
    commands = [block for block in blocks if block.language == "sh"]
    files = [block for block in blocks if block.name]
    for block in blocks:
        if block.language in ("c", "python") and not block.name:
            raise Broken(f"line {block.line}: a program without a name")
    _unused(blocks)
    folder = pathlib.Path(folder)
    _write_files(folder, blocks)
    done = subprocess.run(
        ["bash", "-c", _script(commands)], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        line = (folder / ".line").read_text().strip()
        raise Broken(f"line {line}: exit status {done.returncode}\n"
                     f"{done.stdout[-4000:]}")
    _compare(folder, blocks)
    return len(files), len(commands)


def clean_environment(**more):
    """That of somebody who has set nothing, and what is named here."""
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR")
            if name in os.environ}
    return kept | more
