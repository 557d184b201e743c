# SPDX-License-Identifier: Apache-2.0
"""The options of `moiety replay`, and what they come to for the program in C,
which knows them by the same names and checks their values."""

import argparse
import dataclasses

from moiety._cli.command import add_json, question

MODES = ("serial", "concurrent")
DRIVERS = ("auto", "cuda", "standin")
DESCRIPTION = """\
Replays traces on allocators and compares what memory they took and how long
their calls took. The work is done by a program in C, which MOIETY_REPLAY names,
or which is beside the package, or moiety-replay on PATH.
"""
EPILOG = """\
examples:
  moiety replay run.mtrace.gz
  moiety replay --mode=serial,concurrent --threads=8 --repeats=5 run.mtrace.gz
  moiety replay --subject=moiety,best-fit --html=report.html a.mtrace b.mtrace
  moiety replay --driver=standin --rows=rows.jsonl run.mtrace
  moiety replay --lag=idle,work:100,held run.mtrace

The stand-in driver has as much memory as MOIETY_STANDIN_MEMORY says, or else
four times what the trace has live, 8 GiB at least. Rows are as in
docs/dev/replay.md, traces as in docs/dev/trace-format.md.

exit codes:
  0    done
  1    the program is not here or failed, a trace cannot be read or is wrong, an
       output cannot be written, a subject that --subject names was not replayed
       on, or none was
  2    the command line was wrong
  130  interrupted: --rows has the rows until then
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """How the program is started once: a mode, and options of it."""
    mode: str
    arguments: tuple


def each_once(text, accepted, what):
    """Those of a list with commas; `what` says which are accepted."""
    named = text.split(",")
    if not set(named) <= set(accepted) or len(set(named)) != len(named):
        raise argparse.ArgumentTypeError(
            f"{text!r}: accepted are {what}, each once at most")
    return named


def _modes(text):
    return each_once(text, MODES, " and ".join(MODES))


def add(command):
    """To a parser."""
    add = command.add_argument
    add("traces", metavar="TRACE", nargs="*",
        help="what to replay, plain or compressed; - is standard input")
    add("--subject", metavar="S[,S]", action="append", default=[],
        help="which allocators (default: all that --list names)")
    add("--mode", metavar="M[,M]", type=_modes, default=["serial"],
        help="serial (default): on one thread, in the order of the trace, with "
        "latency, footprint and what --bisect, --samples and --map ask for; "
        "concurrent: on a thread for each of the trace's, with latency alone; "
        "or both, one after the other")
    add("--threads", metavar="N[,N]",
        help="concurrent: deal the blocks of each of the trace's threads to "
        "several, N in all at the most; each N is a replay of its own")
    add("--limit", metavar="BYTES",
        help="memory that a subject may have of its driver")
    add("--lag", metavar="L[,L]", action="append", default=[],
        help="what the device does meanwhile; each L is a replay of its own: "
        "idle (default), nothing is queued on it; work:N, what takes N "
        "microseconds on its stream behind each call; fill:N, N fills of each "
        "block that is allocated; sync:N, a thread waits for its stream at "
        "every N-th call, and these three together as in work:50+sync:16; or "
        "held, all streams wait until an allocation fails or a call does not "
        "return")
    add("--bisect", action="store_true",
        help="serial: look for the smallest limit at which nothing fails")
    add("--samples", metavar="N",
        help="serial: memory at N moments (default: 0, and 1000 with --html)")
    add("--map", action="store_true",
        help="serial: segments and blocks at the peak; --html has it always")
    add("--repeats", metavar="N", help="rows of each, each of its own process")
    add("--driver", metavar="D",
        help="auto, cuda, standin or a path with a / in it (default: what "
        "MOIETY_DRIVER says)")
    add("--commit", metavar="ID",
        help="of what is measured (default: what git says)")
    add("--list", action="store_true", help="name the subjects")
    add("--html", metavar="FILE", help="write a report with pictures there")
    add("--rows", metavar="FILE", help="write the rows there, as they come")
    add_json(command,
             "print the rows, one JSON object a line, instead of a table")


def wrong(options):
    """What is wrong with the command line; None: nothing is."""
    if not options.traces and not options.list:
        return "no TRACE is named"
    if options.threads and "concurrent" not in options.mode:
        return "--threads is of the concurrent mode"
    if (options.bisect or options.samples or options.map) and \
            "serial" not in options.mode:
        return "--bisect, --samples and --map are of the serial mode"
    if options.driver and options.driver not in DRIVERS and \
            "/" not in options.driver:
        return (f"--driver={options.driver} is not accepted"
                f"{question(options.driver, DRIVERS)}; accepted are "
                f"{', '.join(DRIVERS)} or a path with a / in it")
    return None


def _valued(options, *names):
    return [f"--{name}={getattr(options, name)}" for name in names
            if getattr(options, name) is not None]


def _serial(options):
    found = _valued(options, "samples")
    if options.html and not found:
        found = ["--samples=1000"]
    if options.map or options.html:
        found.append("--map")
    if options.bisect:
        found.append("--bisect")
    return found


def runs(options):
    """Each Run that the options ask for."""
    common = [f"--subject={names}" for names in options.subject]
    common += [f"--lag={lags}" for lags in options.lag]
    common += _valued(options, "limit", "repeats", "driver", "commit")
    for mode in options.mode:
        if mode == "serial":
            of_mode = [_serial(options)]
        elif options.threads is None:
            of_mode = [[]]
        else:
            of_mode = [[f"--threads={count}"]
                       for count in options.threads.split(",")]
        for one in of_mode:
            yield Run(mode, (f"--mode={mode}", *common, *one))
