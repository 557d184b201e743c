# SPDX-License-Identifier: Apache-2.0
"""What the pool was to reach, beside what runs of //bench:bench show."""

import circumstances
import pool_rows
import table
from pool_rows import Run, ratio_text, text
from table_text import BadInput, table as table_lines

KIB = 1 << 10
MIB = 1 << 20
HOST = "mimalloc"
PEERS = (HOST, "torch", "cuda_async")

PAIR = ("pair", 64 * KIB)
MIXED = ("mixed", 2 * MIB)
BURST = ("burst4096", 64 * KIB)
PRODCONS = ("prodcons", 64 * KIB)

# The line's name, ns at most, workload and size, threads, subject.
TARGETS = (
    ("pair, 64 KiB, 1 thread", 10, PAIR, 1, "moiety"),
    ("the same, sized", 6, PAIR, 1, "moiety_sized"),
    ("pair, 64 KiB, 16 threads", 14, PAIR, 16, "moiety"),
    ("the same, sized", 8, PAIR, 16, "moiety_sized"),
    ("mixed 256 B–2 MiB, 1 thread", 25, MIXED, 1, "moiety"),
    ("the same, 16 threads", 35, MIXED, 16, "moiety"),
    ("burst of 4096, 64 KiB, 1 thread", 15, BURST, 1, "moiety"),
    ("the same, 16 threads", 25, BURST, 16, "moiety"),
    ("producer → consumer, one pair", 25, PRODCONS, 2, "moiety"),
    ("holes65536, 1 KiB, `moiety_nocache`", 60, ("holes65536", KIB), 1,
     "moiety_nocache"),
    ("holes65536, 16 KiB, `moiety_nocache`", 150, ("holes65536", 16 * KIB), 1,
     "moiety_nocache"),
    ("core alone, mixed, 1 thread", 50, MIXED, 1, "core"),
    ("core alone, mixed, 16 threads", 50, MIXED, 16, "core"),
)

# The line's name, times mimalloc's at most, workload and size, the smallest and
# the largest number of threads, subject.
RATIOS = (
    ("sized pair", 1.3, PAIR, (1, 16), "moiety_sized"),
    ("unsized pair", 2, PAIR, (1, 16), "moiety"),
    ("mixed", 0.5, MIXED, (1, 16), "moiety"),
    ("producer → consumer (2 threads; 16)", 0.2, PRODCONS, (2, 16), "moiety"),
)

# The line's name, and the workloads between which time is to be flat.
FLAT = (
    ("100 to 1 000 000 live blocks", "pair100", "pair1000000"),
    ("1 to 1000 streams", "streams1", "streams1000"),
)
FLAT_TARGET = 2


def runs_of(paths):
    files = [table.read(path) for path in paths]
    return [Run(rows) for rows in files], [row for rows in files
                                           for row in rows]


def reached_text(ratios, most):
    if None in ratios:
        return "not measured"
    return "yes" if max(ratios) <= most else "no"


def last_text(run, cell, subject):
    """The median, and the mean behind it."""
    mean = run.median(cell, subject, "ns_per_op_mean")
    behind = "" if mean is None else f" ({text(mean)})"
    return text(run.median(cell, subject)) + behind


def target_texts(line, runs):
    name, most, workload, threads, subject = line
    cell = (*workload, threads)
    *others, last = runs
    return [name, f"≤ {most}",
            *(text(run.median(cell, subject)) for run in others),
            last_text(last, cell, subject),
            *(text(last.median(cell, peer)) for peer in PEERS),
            *(ratio_text(run.ratio(cell, subject, cell, HOST))
              for run in runs)]


def target_lines(options, paths):
    """Runs of several commits, the last one beside its peers."""
    runs, rows = runs_of(paths)
    commits = [run.commit for run in runs]
    found = {**pool_rows.found_of(rows), "commit": [", ".join(commits)]}
    yield circumstances.line(found, options)
    yield from ["", "ns per operation: median of batches (mean). Peers are of "
                f"the run of {commits[-1]}; ÷ {HOST} is by its time in the "
                "same run.", ""]
    yield from table_lines(
        ["line", "target, ns", *commits, *PEERS,
         *(f"÷ {HOST}: {commit}" for commit in commits)],
        1 + len(PEERS) + 2 * len(runs),
        (target_texts(line, runs) for line in TARGETS))


def one_run(options, paths):
    """The line about it, and the run."""
    runs, rows = runs_of(paths)
    if len(runs) != 1:
        raise BadInput("this table is of one file")
    return circumstances.line(pool_rows.found_of(rows), options), runs[0]


def ratio_texts(line, run):
    name, most, workload, counts, subject = line
    ratios = [run.ratio((*workload, threads), subject, (*workload, threads),
                        HOST) for threads in counts]
    return [name, f"≤ {most}", *map(ratio_text, ratios),
            reached_text(ratios, most)]


def ratio_lines(options, paths):
    """The pool's medians by mimalloc's."""
    about, run = one_run(options, paths)
    yield from [about, "", f"÷ {HOST}, medians", ""]
    yield from table_lines(
        ["line", "target", "1 thread", "16 threads", "reached"], 4,
        (ratio_texts(line, run) for line in RATIOS))


def flat_texts(line, threads, run):
    name, begin, end = line
    ratios = [run.ratio((end, 64 * KIB, threads), subject,
                        (begin, 64 * KIB, threads), subject)
              for subject in ("moiety", "moiety_sized")]
    return [name, str(threads), *map(ratio_text, ratios),
            reached_text(ratios, FLAT_TARGET)]


def flat_lines(options, paths):
    """The time at one end by that at the other."""
    about, run = one_run(options, paths)
    yield from [about, "", "The last ÷ the first, medians; the target is less "
                f"than {FLAT_TARGET}", ""]
    yield from table_lines(
        ["from … to", "threads", "moiety", "moiety_sized", "reached"], 4,
        (flat_texts(line, threads, run) for line in FLAT
         for threads in (1, 16)))
