#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The decision records are short, dated, and either in force or superseded.

    check_adrs.py ROOT

1. A record in docs/dev/adr is in force: it has a title with its number, a date,
   `Status: in force`, and the sections Context and Decision.
2. One in docs/dev/adr/superseded has a date, names the record that replaced it,
   and a line that gives the reason.
3. No record has more than 45 lines, and no two have one number.
4. README.md beside them links to each.
5. A file of code that a record in force names in backticks exists.

Prints what is wrong; fails if anything is.
"""

import re

from check_readmes import Tree
from tree_files import run_check

FOLDER = "docs/dev/adr/"
MOST_LINES = 45
RECORD = re.compile(
    rf"^{FOLDER}(superseded/)?(\d{{4}})-[a-z0-9-]+\.md$")
DAY = r"20\d\d-[01]\d-[0-3]\d"
DATE = re.compile(rf"^- Date: {DAY}(, rewritten {DAY})?$", re.MULTILINE)
IN_FORCE = re.compile(r"^- Status: in force$", re.MULTILINE)
REPLACED = re.compile(
    r"^- Status: superseded by \[(\d{4})\]\(\S+\)$", re.MULTILINE)


def problems_of(text, number, is_superseded):
    """What is wrong with a record by itself."""
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{lines} lines are more than {MOST_LINES}"
    if not re.search(rf"^# {int(number)}\. \S", text, re.MULTILINE):
        yield f"has no title '# {int(number)}. …'"
    if not DATE.search(text):
        yield "has no '- Date: YYYY-MM-DD'"
    if is_superseded:
        if not REPLACED.search(text):
            yield "has no '- Status: superseded by [NNNN](…)'"
        if not re.search(r"^Reason: \S", text, re.MULTILINE):
            yield "has no 'Reason: …'"
        return
    if not IN_FORCE.search(text):
        yield "has no '- Status: in force'"
    for section in ("Context", "Decision"):
        if f"\n## {section}\n" not in text:
            yield f"has no section {section}"


def check(root):
    index = root / FOLDER / "README.md"
    links = set(re.findall(r"\]\(([^)#\s]+)\)",
                           index.read_text() if index.exists() else ""))
    tree = Tree(root)
    wrong, numbers = [], {}
    for name in tree.files:
        found = RECORD.match(name)
        if not found:
            continue
        number = found[2]
        text = (root / name).read_text()
        wrong += [f"{name}: {words}"
                  for words in problems_of(text, number, bool(found[1]))]
        if not found[1]:
            wrong += [f"{name}:{words}" for words in tree.wrong_names(text)]
        if number in numbers:
            wrong.append(f"{name}: has the number of {numbers[number]}")
        numbers[number] = name
        if name[len(FOLDER):] not in links:
            wrong.append(f"{FOLDER}README.md: does not link to {name}")
    for name in numbers.values():
        replaced = REPLACED.search((root / name).read_text())
        if replaced and not numbers.get(replaced[1]):
            wrong.append(f"{name}: there is no record {replaced[1]}")
    if not numbers:
        wrong.append(f"{FOLDER}: no record")
    return wrong, f"{len(numbers)} records are dated and short"


if __name__ == "__main__":
    run_check("adrs", __doc__, check)
