# SPDX-License-Identifier: Apache-2.0
"""How the tables of all benchmarks read rows and write numbers."""

import json
import statistics

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class BadInput(Exception):
    """One line that says what is wrong with the files."""


def read_rows(path, keys=()):
    """The JSON objects of a file, one a line; each has all of `keys`."""
    try:
        with open(path, encoding="utf-8") as file:
            return [parse(f"{path}:{number}", line, keys)
                    for number, line in enumerate(file, 1) if line.strip()]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def parse(where, line, keys):
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where}: no JSON: {error}") from error
    missing = [key for key in keys
               if not isinstance(row, dict) or key not in row]
    if missing:
        raise BadInput(f"{where}: no {', '.join(missing)}")
    return row


def size_text(size_bytes):
    for unit, name in UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.5g} {name}"
    return f"{size_bytes} B"


def number_text(number):
    """Three digits, and what is before the point in whole."""
    if number >= 1000:
        return f"{number:,.0f}".replace(",", " ")
    return f"{number:.3g}" if number < 100 else f"{number:.0f}"


def spread_text(numbers, text=number_text):
    """"median (least–greatest)", and the median alone where all are alike."""
    median, least, greatest = (text(pick(numbers)) for pick in
                               (statistics.median, min, max))
    return median if least == greatest else f"{median} ({least}–{greatest})"


def in_order(values):
    """Each once, in the order in which they come first."""
    return list(dict.fromkeys(values))


def span(values):
    """"least–greatest", and one alone where there is no other."""
    values = sorted(values)
    least, greatest = str(values[0]), str(values[-1])
    return least if least == greatest else f"{least}–{greatest}"


def table(head, right, rows):
    """`right`: how many of the last columns hold numbers."""
    left = len(head) - right
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * left + "--:|" * right
    for row in rows:
        yield "| " + " | ".join(row) + " |"
