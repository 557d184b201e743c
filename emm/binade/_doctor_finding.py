# SPDX-License-Identifier: Apache-2.0
"""What a check of `binade doctor` finds."""

from dataclasses import dataclass

OK = "ok"
UNKNOWN = "unknown"  # it cannot be told from here
LACKING = "lacking"  # a part cannot be used; the rest can
SLOW = "slow"
UNSAFE = "unsafe"  # memory may be given to two owners, or data be lost
BROKEN = "broken"  # no pool can be made

VERDICTS = (OK, UNKNOWN, LACKING, SLOW, UNSAFE, BROKEN)  # best first
ALARMING = (UNSAFE, BROKEN)


@dataclass(frozen=True)
class Finding:
    """Of one check; `advice` is what to do, or empty."""
    check: str
    verdict: str
    reason: str
    advice: str = ""


def worst(verdicts):
    return max(verdicts, key=VERDICTS.index, default=OK)
