# SPDX-License-Identifier: Apache-2.0
"""What the tables of a report have in their cells. On a narrow screen each row
of a table becomes a list, so that a cell carries its heading."""

import collections

from binade._report import words

# Field, heading, unit.
COLUMNS = (
    ("mean_ns", "mean", words.as_time),
    ("median_ns", "median", words.as_time),
    ("p99_ns", "p99", words.as_time),
    ("max_ns", "slowest", words.as_time),
    ("peak_live_bytes", "peak live", words.as_bytes),
    ("peak_reserved_bytes", "peak reserved", words.as_bytes),
    ("footprint", "peak reserved ÷ peak live", words.as_ratio),
    ("waste_internal_bytes", "internal waste", words.as_bytes),
    ("waste_external_bytes", "external waste", words.as_bytes),
    ("smallest_limit_bytes", "smallest limit", words.as_bytes),
    ("driver_calls", "driver calls", words.as_count),
    ("ooms", "out of memory", words.as_count),
    ("releases", "streams let go", words.as_count),
)
# Shown only where something is known of it.
RARE = {"releases"}
MARKED = {"mean_ns", "median_ns", "p99_ns", "footprint",
          "smallest_limit_bytes", "driver_calls"}
# What several comparisons are laid beside each other by.
GLANCE = (
    ("footprint", "Memory: peak reserved ÷ peak live",
     "1 means that no memory was held beyond what the program needed. "
     "Less is better; the least of each line is marked.", words.as_ratio),
    ("median_ns", "Time: median of an operation",
     "Less is better; the least of each line is marked.", words.as_time),
)

# `kind` is its class for the style sheet, `first` the heading of titles.
Table = collections.namedtuple("Table", "kind first headings rows")
Row = collections.namedtuple("Row", "title cells link", defaults=(None,))
Cell = collections.namedtuple("Cell", "field label text spread is_best")


def cell(subject, name, heading, unit, best, with_spread=True):
    value = subject and subject.values[name]
    text = unit(value and value["median"])
    if subject is None or subject.refused is not None:
        text = "did not run"
    spread = None
    if with_spread and value and value["count"] > 1 and \
            value["min"] != value["max"]:
        spread = f"{unit(value['min'])} to {unit(value['max'])}"
    return Cell(name, heading, text, spread,
                bool(value) and value["median"] == best)


def least(comparison, name):
    ranked = comparison.ranked(name) if name in MARKED else []
    return ranked[0][0] if len(ranked) > 1 else None


def known_columns(comparison):
    """A column in which nothing is known would only take room."""
    return [one for one in COLUMNS
            if (comparison.mode == "serial" and one[0] not in RARE)
            or any(subject.values[one[0]] for subject in comparison.ran)]


def rounded(comparison):
    """A row for each subject that ran, and a column for each field."""
    columns = known_columns(comparison)
    best = {one[0]: least(comparison, one[0]) for one in columns}
    return Table("rounded", "subject", [one[1] for one in columns], [
        Row(subject.name, [cell(subject, name, heading, unit, best[name])
                           for name, heading, unit in columns])
        for subject in comparison.ran])


def exact(comparison):
    """The other way round, as numbers with all digits are wide."""
    units = {words.as_time: ", ns", words.as_bytes: ", bytes"}
    return Table("exact", "", [one.name for one in comparison.ran], [
        Row(heading + units.get(unit, ""),
            [cell(subject, name, subject.name, words.as_exact,
                  least(comparison, name), False)
             for subject in comparison.ran])
        for name, heading, unit in known_columns(comparison)])


def glance(comparisons, order):
    """(title, words, Table with a row for each comparison) of what matters
    most."""
    for name, title, says, unit in GLANCE:
        rows = [Row(one.title(),
                    [cell(one.subjects.get(subject), name, subject, unit,
                          least(one, name), False) for subject in order],
                    f"c{number}")
                for number, one in enumerate(comparisons)
                if any(subject.values[name] for subject in one.ran)]
        if rows:
            yield title, says, Table("glance", "trace", order, rows)
