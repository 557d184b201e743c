# SPDX-License-Identifier: Apache-2.0
"""The tables of a report, as HTML. On a narrow screen each row of a table
becomes a list, so that a cell carries its heading."""

import html

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


def text(value):
    return html.escape(str(value), quote=True)


def cell(subject, name, heading, unit, best, with_spread=True):
    value = subject and subject.values[name]
    shown = text(unit(value and value["median"]))
    if subject is None or subject.refused is not None:
        shown = "did not run"
    if with_spread and value and value["count"] > 1 and \
            value["min"] != value["max"]:
        shown += (f'<span class="spread">{text(unit(value["min"]))} to '
                  f'{text(unit(value["max"]))}</span>')
    mark = ' class="best"' if value and value["median"] == best else ""
    return (f'<td{mark} data-field="{name}" data-label="{text(heading)}">'
            f"<span>{shown}</span></td>")


def least(comparison, name):
    ranked = comparison.ranked(name) if name in MARKED else []
    return ranked[0][0] if len(ranked) > 1 else None


def head(first, headings):
    return (f"<thead><tr><th scope=col>{first}</th>" + "".join(
        f"<th scope=col>{text(one)}</th>" for one in headings)
        + "</tr></thead>")


def known_columns(comparison):
    """A column in which nothing is known would only take room."""
    return [one for one in COLUMNS
            if (comparison.mode == "serial" and one[0] not in RARE)
            or any(subject.values[one[0]] for subject in comparison.ran)]


def rounded(comparison):
    """A row for each subject that ran, and a column for each field."""
    columns = known_columns(comparison)
    best = {one[0]: least(comparison, one[0]) for one in columns}
    yield '<table class="rounded">'
    yield head("subject", [one[1] for one in columns]) + "<tbody>"
    for subject in comparison.ran:
        yield f"<tr><th scope=row>{text(subject.name)}</th>"
        for name, heading, unit in columns:
            yield cell(subject, name, heading, unit, best[name])
        yield "</tr>"
    yield "</tbody></table>"


def exact(comparison):
    """The other way round, as numbers with all digits are wide."""
    yield '<table class="exact">'
    yield head("", [one.name for one in comparison.ran]) + "<tbody>"
    for name, heading, unit in known_columns(comparison):
        heading += {words.as_time: ", ns", words.as_bytes: ", bytes"}.get(
            unit, "")
        yield f"<tr><th scope=row>{text(heading)}</th>"
        best = least(comparison, name)
        for subject in comparison.ran:
            yield cell(subject, name, subject.name, words.as_exact, best,
                       False)
        yield "</tr>"
    yield "</tbody></table>"


def glance(comparisons, order):
    """Of what matters most a table with a row for each comparison."""
    for name, title, says, unit in GLANCE:
        known = [(number, one) for number, one in enumerate(comparisons)
                 if any(subject.values[name] for subject in one.ran)]
        if not known:
            continue
        yield f"<h3>{text(title)}</h3><p>{text(says)}</p>"
        yield f'<table class="glance">{head("trace", order)}<tbody>'
        for number, one in known:
            best = least(one, name)
            yield (f'<tr><th scope=row><a href="#c{number}">'
                   f"{text(one.title())}</a></th>")
            for subject in order:
                found = one.subjects.get(subject)
                yield cell(found, name, subject, unit, best, False)
            yield "</tr>"
        yield "</tbody></table>"
