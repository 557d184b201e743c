# SPDX-License-Identifier: Apache-2.0
"""Numbers of a report, and what its terms mean, in words. Nothing here is
HTML."""

UNKNOWN = "unknown"
# Stands before a unit, so that no line ends between the two.
JOIN = "\u00a0"
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
TIME_UNITS = (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def plain(value):
    """Three digits that matter, or all of a small whole number."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_bytes(value):
    if value is None:
        return UNKNOWN
    power = 0
    while value >= 1024 and power < len(BYTE_UNITS) - 1:
        value /= 1024
        power += 1
    digits = 4 if power else 15
    return f"{value:.{digits}g}{JOIN}{BYTE_UNITS[power]}"


def as_time(value):
    if value is None:
        return UNKNOWN
    name, unit = [one for one in TIME_UNITS if value >= one[1]][-1] \
        if value >= 1 else TIME_UNITS[0]
    return f"{value / unit:.4g}{JOIN}{name}"


def short(said):
    """A ratio without its last zeros."""
    return said.rstrip("0").rstrip(".") if "." in said else said


def as_exact(value):
    """All digits, in the unit that the row has."""
    return UNKNOWN if value is None else f"{value:,}"


def cut(name):
    """A name that leaves room for a plot."""
    return name if len(name) <= 24 else name[:23] + "…"


def as_count(value):
    return UNKNOWN if value is None else plain(value)


def counted(value, word):
    return f"{as_count(value)}{JOIN}{word}" + ("" if value == 1 else "s")


def as_ratio(value):
    return UNKNOWN if value is None else f"{value:.3f}"


def joined(names):
    names = list(names)
    return " and ".join([", ".join(names[:-1]), names[-1]]
                        if len(names) > 1 else names)


GLOSSARY = {
    "subject": "An allocator that the trace was replayed on.",
    "trace": "Every allocation and free that a program made, in order.",
    "serial": "One thread does all operations in the order of the trace.",
    "concurrent": "As many threads as the program had. Only the order within "
                  "a thread, and a free after its allocation, are kept.",
    "live": "Bytes that the program had allocated and not yet freed, as it "
            "asked for them.",
    "handed out": "The same blocks, with what each was rounded up by.",
    "cached": "Freed, and kept in a cache for the next allocation.",
    "retiring": "Freed, but work on the device may still use it.",
    "reserved": "What the subject held of the driver. Nobody else can use it.",
    "peak reserved ÷ peak live": "What the subject held at most, by what the "
                                 "program needed at most. 1 is the best.",
    "waste": "When most was reserved: internal is what rounding added, "
             "external what was reserved and not handed out.",
    "smallest limit": "The least memory with which the whole trace still "
                      "ran.",
    "spread": "The least and the greatest of the runs. Where those of two "
              "subjects overlap, the runs show no difference between them.",
    "median, p99": "Half of all operations took at most the median, and 99 of "
                   "100 at most the p99.",
    "driver calls": "Calls that take memory of the driver or return it. They "
                    "are slow, and some wait for the device.",
    "out of memory": "Allocations that failed for want of it. A subject that "
              "failed served less, and is not ranked.",
    "device": "How far the device lagged. work:N: what takes N microseconds "
              "was queued behind each call; fill:N: each block was filled N "
              "times; sync:N: threads waited for their stream at every N-th "
              "call; held: no stream began any work. Where nothing is said, "
              "nothing was queued.",
    "streams let go": "How often streams that were held had to go on, because "
                      "an allocation failed or a call did not return.",
    "stand-in": "A driver for machines without a GPU. It keeps the books as "
                "a driver does, in the host's memory.",
}
