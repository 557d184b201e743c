# SPDX-License-Identifier: Apache-2.0
"""What a replay has found, as tables for a terminal: one for each trace and
each way in which it was replayed."""

from moiety._report.rows import compare
from moiety._report.tables import COLUMNS
from moiety._report.words import JOIN

_SHOWN = ("footprint", "smallest_limit_bytes", "driver_calls", "median_ns",
          "p99_ns", "ooms", "releases")
_STANDIN = ("The driver is the stand-in, which keeps the books as a driver "
            "does: the times are not a GPU's.")
_SIMULATED = "The times of the driver's calls are imitated."


def _columns(comparison):
    """Those in which something is known."""
    by_name = {one[0]: one for one in COLUMNS}
    return [by_name[name] for name in _SHOWN
            if any(one.values[name] for one in comparison.ran)]


def _cells(comparison):
    """Lines of cells, the headings first."""
    columns = _columns(comparison)
    yield ["subject", *(heading for _, heading, _ in columns)]
    for subject in comparison.ran:
        yield [subject.name, *(unit(subject.median(name))
                               for name, _, unit in columns)]


def _aligned(lines):
    """The first cell to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    for first, *rest in lines:
        yield "  ".join([first.ljust(widths[0]), *(
            cell.rjust(width) for cell, width in zip(rest, widths[1:]))])


def _of_one(comparison):
    yield comparison.title()
    if comparison.ran:
        yield from _aligned(list(_cells(comparison)))
    for subject in comparison.refused:
        yield f"{subject.name} did not run: {subject.refused}"
    yield ""


def text(rows):
    """Of rows as docs/dev/replay.md describes them; repeats by their median."""
    lines = []
    for comparison in compare(list(enumerate(rows))):
        lines += _of_one(comparison)
    if any(row.get("is_standin") for row in rows):
        lines.append(_STANDIN)
    if any(row.get("is_simulated") for row in rows):
        lines.append(_SIMULATED)
    # What is for programs too has no spaces but the common one.
    return "\n".join(lines).replace(JOIN, " ") + "\n"
