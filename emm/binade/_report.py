# SPDX-License-Identifier: Apache-2.0
"""Pictures of a replay: one HTML file that needs nothing beside it."""

from binade import _report_rows


class MissingPlotly(ImportError):
    """Plotly, which draws the report, is not installed."""


def plotly():
    """(module of its figures, its script)"""
    try:
        import plotly.graph_objects
        import plotly.offline
    except ImportError as error:
        raise MissingPlotly(
            "the report needs Plotly: pip install 'binade[report]' "
            f"({error})") from error
    return plotly.graph_objects, plotly.offline.get_plotlyjs()


def write(rows, path):
    """Writes a report of `rows`, as docs/replay.md describes them, to `path`.

    Raises ValueError, with the index of the row, for what is no such row, and
    MissingPlotly, an ImportError. The file is not touched then.
    """
    rows = list(rows)
    comparisons = _report_rows.compare(rows)
    from binade import _report_page
    made = _report_page.render(*plotly(), rows, comparisons)
    # A name that is no UTF-8 has surrogates, which no file can have.
    data = made.encode("utf-8", errors="replace")
    with open(path, "wb") as file:
        file.write(data)
