# SPDX-License-Identifier: Apache-2.0
"""What the plugins that put our memory behind a suite do alike."""

import pytest


def name_of(item):
    """"Case::test", or "file.py::test" of one without a class: without
    parameters, and without the number that unittest classes which are
    parametrised have behind their names."""
    test = getattr(item, "originalname", None) or item.name
    case = getattr(item, "cls", None)
    return (f"{case.__name__.partition('_')[0]}::{test}" if case
            else f"{item.path.name}::{test}")


def leave_out(items, reasons):
    """Skips, in both runs, the tests of which `reasons` has the names."""
    for item in items:
        reason = reasons.get(name_of(item))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def count_served(stats_of_all):
    """How many allocations pools and arenas with these stats() have served."""
    return sum(stats.allocation_allocated for stats in stats_of_all)
