# SPDX-License-Identifier: Apache-2.0
"""Rows of //bench:bench as the tables of a page take them: those that are
asked for, what they say of their circumstances, and single cells of them."""

import circumstances
from table_text import BadInput, number_text


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


class Run:
    """The medians of one run, by workload, size, threads and subject."""

    def __init__(self, rows):
        self.commit = circumstances.short(circumstances.one(
            "commit", found_of(rows), {}))
        self.rows = {(row["workload"], row["size_bytes"], row["threads"],
                      row["subject"]): row for row in rows}

    def median(self, cell, subject, key="ns_per_op_median"):
        """None where it was not measured."""
        return self.rows.get((*cell, subject), {}).get(key)

    def ratio(self, cell, subject, other_cell, other):
        ns = self.median(cell, subject)
        other_ns = self.median(other_cell, other)
        return ns / other_ns if ns and other_ns else None


def text(number):
    return "–" if number is None else number_text(number)


def ratio_text(ratio):
    return "–" if ratio is None else f"{ratio:.2f}"
