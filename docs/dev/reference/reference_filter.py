# SPDX-License-Identifier: Apache-2.0
"""Prints public headers as Doxygen is to read them, line for line.

usage: reference_filter.py HEADER...

The comment at the top is the header's own page. Where several fields or
constants follow one comment, it is that of each. What is said of ownership,
threads, streams and context gets a paragraph each, and statuses a table.
"""

import re
import sys

OPENING = "/*\n * SPDX-License-Identifier: Apache-2.0\n"
FIELD = re.compile(r"^    [a-z]\w*[ *]+[\w\[\], *]+;$")
CONSTANT = re.compile(r"^#define MOIETY_\w+ ")

WORDS = "(?:Ownership|Threads|Streams|Context)"
ASPECT = re.compile(rf"^ \* ({WORDS}(?:, {WORDS})*):\s*")
STATUS = re.compile(r"^ \* @return (MOIETY_[A-Z_]+)(?=$|\s)")


def with_a_page(text):
    if not text.startswith(OPENING):
        raise ValueError("the header does not begin with a comment")
    return text.replace(OPENING, "/** @file\n *\n", 1)


def shared(lines):
    """The lines; what follows the thing that a comment is about gets a copy."""
    comment, is_open, is_used = [], False, False
    for line in lines:
        if line.lstrip().startswith("/**"):
            comment, is_open, is_used = [], True, False
        if is_open:
            comment.append(line.strip().removeprefix("* ").strip())
            is_open = not line.endswith("*/")
        elif FIELD.match(line) or CONSTANT.match(line):
            if is_used:
                line = " ".join([*comment, line.strip()])
            is_used = bool(comment)
        elif not line.startswith("        "):  # nor the rest of a definition
            comment, is_used = [], False
        yield line


def with_commands(line):
    """The line with Doxygen's commands in it; those it knows by docs/dev/reference/Doxyfile."""
    line = STATUS.sub(r" * @retval \1", line)
    return ASPECT.sub(
        lambda found: f" * @aspect{{{found[1].replace(',', chr(92) + ',')}}} ",
        line)


def main(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            lines = with_a_page(text).split("\n")
        except ValueError as error:
            print(f"reference_filter: {path}: {error}", file=sys.stderr)
            return 1
        print("\n".join(map(with_commands, shared(lines))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
