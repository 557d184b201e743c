# SPDX-License-Identifier: Apache-2.0
"""What the tables of a report have in their cells. On a narrow screen each row
of a table becomes a list, so that a cell carries its heading."""

import collections

from moiety._report import findings, words

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
MARKED = {"mean_ns", "median_ns", "p99_ns", "footprint",
          "smallest_limit_bytes", "driver_calls"}
# What several comparisons are laid beside each other by.
BEST = "Less is better. The least of each line is marked, with all that the " \
       "runs cannot tell from it."
GLANCE = (
    ("ooms", "Allocations that failed, for want of memory",
     "0 is what a program needs.", words.as_count),
    ("footprint", "Memory: peak reserved ÷ peak live",
     "1 means that no memory was held beyond what the program needed. "
     + BEST, words.as_ratio),
    ("mean_ns", "Time: average of an operation", BEST, words.as_time),
    ("median_ns", "Time: median of an operation",
     "Half of all operations took at most so long. " + BEST, words.as_time),
    ("p99_ns", "Time: p99 of an operation",
     "99 of 100 took at most so long. " + BEST, words.as_time),
)

# `kind` is its class for the style sheet, `first` the heading of titles.
Table = collections.namedtuple("Table", "kind first headings rows")
Row = collections.namedtuple("Row", "title cells link", defaults=(None,))
Cell = collections.namedtuple(
    "Cell", "field label text spread is_best was_tried")


def text_of(subject, value, unit):
    if subject is None:
        return "not tried"
    if subject.refused is not None:
        return "did not run"
    return unit(value and value["median"])


def ends(subject, name, unit):
    """From the least to the greatest of the repeats."""
    value = subject.values[name]
    if value and value["count"] > 1 and value["min"] != value["max"]:
        return f"{unit(value['min'])} to {unit(value['max'])}"
    return None


def failure(subject, name, _):
    return "failed" if subject.has_failed and name != "ooms" else None


def cell(subject, name, heading, unit, best, beside=None):
    """`beside` gives what stands with the number, in small letters."""
    value = subject and subject.values[name]
    is_best = bool(value and best) and not subject.has_failed \
        and findings.are_alike(best, value)
    return Cell(name, heading, text_of(subject, value, unit),
                beside(subject, name, unit) if subject and beside else None,
                is_best, subject is not None)


def least(comparison, name):
    """The best summary, if there is one to compare it with."""
    ranked = comparison.ranked(name) if name in MARKED else []
    return ranked[0][1].values[name] if len(ranked) > 1 else None


def known_columns(comparison):
    """A column in which nothing is known would only take room."""
    return [one for one in COLUMNS
            if any(subject.values[one[0]] for subject in comparison.ran)]


def named(subject):
    """One that served less may well look better."""
    return subject.name + (", failed" if subject.has_failed else "")


def table_of(comparison, kind, title, unit_of, beside=None):
    """A row for each field, so that subjects stand side by side."""
    return Table(kind, "", [named(one) for one in comparison.ran], [
        Row(title(heading, unit),
            [cell(subject, name, named(subject), unit_of(unit),
                  least(comparison, name), beside)
             for subject in comparison.ran])
        for name, heading, unit in known_columns(comparison)])


def rounded(comparison):
    return table_of(comparison, "rounded", lambda heading, _: heading,
                    lambda unit: unit, ends)


def exact(comparison):
    units = {words.as_time: ", ns", words.as_bytes: ", bytes"}
    return table_of(comparison, "exact",
                    lambda heading, unit: heading + units.get(unit, ""),
                    lambda _: words.as_exact)


def glance(comparisons, order):
    """(title, words, Table with a row for each comparison) of what matters
    most."""
    for name, title, says, unit in GLANCE:
        if name == "ooms" and not any(
                subject.has_failed for one in comparisons
                for subject in one.ran):
            continue
        rows = [Row(one.heading(),
                    [cell(one.subjects.get(subject), name, subject, unit,
                          least(one, name), failure) for subject in order],
                    f"c{number}")
                for number, one in enumerate(comparisons)
                if any(subject.values[name] for subject in one.ran)]
        if rows:
            yield title, says, Table("glance", "what was replayed", order, rows)
