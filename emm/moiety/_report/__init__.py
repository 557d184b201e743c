# SPDX-License-Identifier: Apache-2.0
"""Pictures of a replay: one HTML file that needs nothing beside it.

usage: python -m moiety._report ROWS OUT

ROWS is a file of JSON rows, as docs/dev/replay.md describes them; OUT is the report
to write.
"""

import collections
import sys

from moiety._report import rows as row_files


class MissingLibrary(ImportError):
    """Plotly, which draws the report, or Jinja, which writes it, is not
    installed."""


# Modules of Jinja and of Plotly's figures, and the script that draws those.
Libraries = collections.namedtuple("Libraries", "jinja graph plotly_script")


def libraries():
    try:
        import jinja2
        import plotly.graph_objects
        import plotly.offline
    except ImportError as error:
        raise MissingLibrary(
            "the report needs Plotly and Jinja: pip install plotly jinja2 "
            f"({error})") from error
    return Libraries(jinja2, plotly.graph_objects,
                     plotly.offline.get_plotlyjs())


def write(rows, path):
    """Writes the rows of a replay as one HTML file with pictures and tables.

    rows  the path of a file with a JSON object on each line, or an iterable of such
          lines, or of dictionaries. docs/dev/replay.md describes them.
    path  the file to write. It is written only if there is no error.

    A row of the kind "heading" has a title and a text for the rows that follow. Rows of
    other kinds than "replay" are left out.

    Raises ValueError, with the line, for a row that is not as described, or without rows.
    Raises ImportError without Plotly and Jinja, and OSError."""
    needed = libraries()
    found, others = row_files.read(rows)
    comparisons = row_files.compare(found)
    from moiety._report import page
    made = page.render(
        needed, [row for _, row in row_files.replays(found)], comparisons,
        others)
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
        sys.stderr.write(f"moiety report: {arguments[0]}: {error}\n")
        return 1
    except (OSError, MissingLibrary) as error:
        sys.stderr.write(f"moiety report: {error}\n")
        return 1
    return 0
