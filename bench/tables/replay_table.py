# SPDX-License-Identifier: Apache-2.0
"""Turns rows of //bench:replay, fill and limit into Markdown.

    replay_table.py footprint [--traces=INDEX] FILE...
    replay_table.py limits [--traces=INDEX] FILE...
    replay_table.py latency [--mode=serial] FILE...
    replay_table.py lags FILE...
    replay_table.py fill FILE...
    replay_table.py limit FILE...

footprint: what each subject had reserved, and the smallest limit that would
have done where that was looked for, by what the trace had live at the most;
INDEX is bench/traces/index.json and says what the recorded program had. limits:
the smallest limits of all traces in one table. latency: ns per operation of
concurrent rows, or of serial ones, median over the repeats with the least and
the greatest. lags: what was reserved by what was live, by how far the device
lagged. fill, limit: of the programs of these names. The line
above says where that was measured; rows that differ in that are refused.
docs/dev/replay.md says what a row is.
"""

import sys

import study_tables
import table_maker
from replay_footprint_table import footprint_lines, limit_lines
from replay_lag_table import lag_lines
from replay_latency_table import latency_lines
from table_maker import Maker
from table_text import BadInput

TABLES = {
    "footprint": Maker(footprint_lines, ("traces",)),
    "limits": Maker(limit_lines, ("traces",)),
    "latency": Maker(latency_lines, ("mode",)),
    "lags": Maker(lag_lines, ()),
    "fill": Maker(study_tables.fill_lines, ()),
    "limit": Maker(study_tables.limit_lines, ()),
}


def main(arguments):
    if not arguments or arguments[0] not in TABLES:
        print(f"usage: replay_table.py {'|'.join(TABLES)} [OPTION]... FILE...",
              file=sys.stderr)
        return 2
    try:
        print("\n".join(table_maker.made(TABLES, arguments)))
    except BadInput as error:
        print(f"replay_table: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
