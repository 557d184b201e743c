# SPDX-License-Identifier: Apache-2.0
"""Rows of //bench:bench as the tables of a page take them: those that are
asked for, and what they say of their circumstances."""

import circumstances
from table_text import BadInput


def asked(options, key, rows):
    """Rows whose `key` the option of that name lists, in its order."""
    if key not in options:
        return rows
    picked = []
    for name in options[key].split(","):
        named = [row for row in rows if str(row[key]) == name]
        if not named:
            raise BadInput(f"--{key}={options[key]}: there is no {name}")
        picked += named
    return picked


def found_of(rows):
    measured = [row for row in rows if row["ns_per_op_median"] is not None]
    return {
        "cpu": [circumstances.cpu_text(row["cpu"], row["processors"])
                for row in measured],
        "driver": [circumstances.driver_text(
            row["driver"], row["is_standin"], row["simulated_costs"])
            for row in measured if row["driver"] != "none"],
        "commit": [row["commit"] for row in measured],
        "repeats": [row["repeats"] for row in measured],
    }
