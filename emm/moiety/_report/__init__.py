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
    """Writes a report of `rows` to `path`.

    `rows` is the path of a file with a JSON object a line, or an open file or
    other iterable of such lines, or one of dictionaries. A row of the kind
    "heading" has a title and says what the rows behind it show. Blank lines,
    and rows of another kind than these and "replay", are left out.

    Raises ValueError, with the line or the number of the row, for what is no
    row of docs/dev/replay.md, and when there is none; OSError; and MissingLibrary,
    an ImportError. `path` is written only when all is well.
    """
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
