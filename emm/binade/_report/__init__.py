# SPDX-License-Identifier: Apache-2.0
"""Pictures of a replay: one HTML file that needs nothing beside it.

usage: python -m binade._report ROWS OUT

ROWS is a file of JSON rows, as docs/replay.md describes them; OUT is the report
to write.
"""

import sys

from binade._report import rows as row_files


class MissingPlotly(ImportError):
    """Plotly, which draws the report, is not installed."""


def plotly():
    """(module of its figures, its script)"""
    try:
        import plotly.graph_objects
        import plotly.offline
    except ImportError as error:
        raise MissingPlotly(
            "the report needs Plotly: pip install binade[report] "
            f"({error})") from error
    return plotly.graph_objects, plotly.offline.get_plotlyjs()


def write(rows, path):
    """Writes a report of `rows` to `path`.

    `rows` is the path of a file with a JSON object a line, or an open file or
    other iterable of such lines, or one of dictionaries. Blank lines, and rows
    of another kind than "replay", are left out.

    Raises ValueError, with the line or the number of the row, for what is no
    row of docs/replay.md, and when there is none; OSError; and MissingPlotly,
    an ImportError. `path` is written only when all is well.
    """
    graph, script = plotly()
    found, others = row_files.read(rows)
    comparisons = row_files.compare(found)
    from binade._report import page
    made = page.render(
        graph, script, [row for _, row in found], comparisons, others)
    # A name that is no UTF-8 has surrogates, which no file can have.
    data = made.encode("utf-8", errors="replace")
    with open(path, "wb") as file:
        file.write(data)


def main(arguments):
    if len(arguments) != 2:
        sys.stderr.write(__doc__)
        return 2
    try:
        write(*arguments)
    except ValueError as error:
        sys.stderr.write(f"binade report: {arguments[0]}: {error}\n")
        return 1
    except (OSError, MissingPlotly) as error:
        sys.stderr.write(f"binade report: {error}\n")
        return 1
    return 0
