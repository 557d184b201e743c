#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No test depends on how fast the machine is.

    check_clocks.py ROOT

Of C, C++, Python, shell and build files below tests, but for this check's own test:

1. No assertion bounds a duration from above: how long something may take is no
   verdict. A bound from below is one.
2. A test that sleeps, or that goes on only until a clock says so, has a comment
   that says why, in the same line or in the three before it. A sleep between two
   looks of a loop needs none.
3. No test is marked as flaky.

Exits with 1, and says where, if one is broken.
"""

import re

from tree_files import files_of, run_check

FILES = re.compile(r"^tests/(.*\.(c|cc|h|py|sh|bzl)|(.*/)?BUILD)$")
COMMENT = {"py": "#", "sh": "#", "BUILD": "#", "bzl": "#"}
CLOCK = r"(now\(\)|now_ns\(\)|monotonic(_ns)?\(\)|perf_counter(_ns)?\(\)" \
    r"|time\.time\(\)|\bclock\(\))"
ASSERTION = re.compile(
    r"\b(?:EXPECT|ASSERT)_(?:LT|LE|TRUE)\s*\([^;]*;|^\s*assert\s[^\n]*",
    re.MULTILINE)
IS_BOUND = re.compile(rf"_L[TE]\s*\([^,;]*{CLOCK}|{CLOCK}[^;\n]*[^-<]<")
SLEEP = re.compile(
    r"\b(?:sleep_for|sleep_until|usleep|nanosleep|time\.sleep|sleep)\s*\("
    r"|(?:^|;|\bdo)\s*sleep\s+[0-9.]")
NO_SLEEP = re.compile(r"asyncio\.sleep\(0\)|^\s*#|^\s*//|^\s*/?\*")
UNTIL_CLOCK = re.compile(rf"{CLOCK}\s*<")
LOOP = re.compile(r"\b(while|until|for)\b")
FLAKY = re.compile(r"\bflaky\s*=\s*(True|1)")
LINES_BEFORE = 3


def is_comment(line, kind):
    line = line.strip()
    return kind in line if kind == "#" else (
        "//" in line or line.startswith(("/*", "*")) or "/*" in line)


def is_explained(lines, at, kind):
    return any(is_comment(line, kind)
               for line in lines[max(0, at - LINES_BEFORE):at + 1])


def is_look(lines, at):
    """Whether it sleeps between two looks of a loop."""
    return any(LOOP.search(line) for line in lines[max(0, at - LINES_BEFORE):at + 1])


def breaches(name, text):
    kind = COMMENT.get(name.rsplit(".", 1)[-1].rsplit("/", 1)[-1], "//")
    lines = text.splitlines()
    for found in ASSERTION.finditer(text):
        if IS_BOUND.search(found.group()):
            yield (text.count("\n", 0, found.start()) + 1,
                   "an assertion bounds a duration from above")
    for at, line in enumerate(lines):
        if FLAKY.search(line):
            yield at + 1, "a test that is marked as flaky"
        if NO_SLEEP.search(line) or is_explained(lines, at, kind):
            continue
        if SLEEP.search(line) and not is_look(lines, at):
            yield at + 1, "a sleep without a comment that says why"
        if UNTIL_CLOCK.search(line) and LOOP.search(line):
            yield at + 1, "a loop until a clock says so, without a comment"


def check(root):
    files = [name for name in files_of(root)
             if FILES.match(name) and name != "tests/gates/source_gates_test.sh"]
    broken = [f"{name}:{line}: {what}" for name in files for line, what in
              breaches(name, (root / name).read_text(encoding="utf-8"))]
    return broken, f"{len(files)} files, no rule broken"


if __name__ == "__main__":
    run_check("clocks", __doc__, check)
