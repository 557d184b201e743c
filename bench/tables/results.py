# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of pages again, of the raw rows that they are of.

    results.py [--check] [PAGE...]

Without a PAGE, all of docs that have such tables. A table stands between two
lines of its page,

    <!-- made: NAME [--OPTION=VALUE]... FILE... -->
    <!-- end -->

of which the first says how it is made: NAME is a table of results_blocks.py,
and a FILE is named from the checkout's root. With --check nothing is written:
it fails, and shows the difference, where a page is not what would be made.
"""

import difflib
import os
import pathlib
import shlex
import sys

import table_maker
from results_blocks import MAKERS
from table_text import BadInput

FOLDER = "docs"
BEGIN, CLOSE, END = "<!-- made: ", " -->", "<!-- end -->"


def command_of(line):
    """The words of a line that begins a block, or None."""
    if not line.startswith(BEGIN):
        return None
    if not line.endswith(CLOSE):
        raise BadInput(f"{line!r} does not end with {CLOSE!r}")
    try:
        return shlex.split(line[len(BEGIN):-len(CLOSE)])
    except ValueError as error:
        raise BadInput(f"{line!r}: {error}") from error


def end_of(lines, begin):
    """The index of the line that ends the block which begins at `begin`."""
    for index in range(begin + 1, len(lines)):
        if lines[index] == END:
            return index
        if lines[index].startswith(BEGIN):
            break
    raise BadInput(f"the block has no {END}")


def made_page(lines):
    """The page's lines with all blocks made again, and how many there are."""
    page, count, at = [], 0, 0
    while at < len(lines):
        try:
            if lines[at] == END:
                raise BadInput("it ends a block that has not begun")
            words = command_of(lines[at])
            page.append(lines[at])
            if words is not None:
                end = end_of(lines, at)
                page += [*table_maker.made(MAKERS, words), END]
                count += 1
                at = end
        except BadInput as error:
            raise BadInput(f"line {at + 1}: {error}") from error
        at += 1
    return page, count


def read_page(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError as error:
        raise BadInput(error.strerror) from error


def write_page(path, lines):
    """Whole, or not at all."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(new, path)


def remake(path, is_check):
    """Exit status."""
    old = read_page(path)
    new, count = made_page(old)
    if new != old and is_check:
        print("\n".join(difflib.unified_diff(
            old, new, path, "as it is made", lineterm="")))
        print(f"results: {path} is not as it is made: "
              "./bazelw run //bench:results", file=sys.stderr)
        return 1
    if new != old:
        write_page(path, new)
    print(f"results: {path}: {count} tables"
          + (", written" if new != old else ", as they are made"))
    return 0


def pages_of_docs():
    """Those that have tables to be made."""
    return [str(page) for page in sorted(pathlib.Path(FOLDER).rglob("*.md"))
            if any(line.startswith(BEGIN) for line in read_page(page))]


def checked_remake(page, is_check):
    """Exit status; says what is wrong with the page."""
    try:
        return remake(page, is_check)
    except BadInput as error:
        print(f"results: {page}: {error}", file=sys.stderr)
        return 1


def main(arguments):
    is_check = "--check" in arguments
    pages = [word for word in arguments if word != "--check"]
    if any(page.startswith("-") for page in pages):
        print("usage: results.py [--check] [PAGE...]", file=sys.stderr)
        return 2
    # Bazel runs programs in a folder of its own.
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    return max(checked_remake(page, is_check)
               for page in pages or pages_of_docs())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
