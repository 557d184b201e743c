# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety fit."""

import dataclasses
import json
import os
import sys
import tempfile

from moiety._cli.command import (
    ProgramError, TerminalLine, add_command, add_json, find_program)
from moiety._cli.replay_options import each_once
from moiety._cli.trace import Reading
from moiety._replay import engine
from moiety._report.words import JOIN, as_bytes, as_ratio, as_time, counted
from moiety._trace import moments
from moiety._trace.format import TraceError

_SUBJECTS = {"mapped": "moiety-mapped", "fixed": "moiety"}
_OWNERS_SHOWN = 5

_DESCRIPTION = """\
Finds the smallest limit of a pool with which a trace runs, for each kind of
memory, and the moments that need most. The program of `moiety replay` runs the
trace on one thread, again and again: with less until it fails, and then with
sizes from 5 % above downwards, as it may fail with more than the least.

The limit is of this order of calls: threads that run in another one may need
more. A CUDA context, modules and graphs need memory beside it, 0.3 to 1 GiB a
process.
"""

_EPILOG = """\
examples:
  moiety fit run.mtrace.gz
  moiety fit --memory=mapped --lag=work:50 run.mtrace
  moiety fit --json a.mtrace b.mtrace

exit codes:
  0  done
  1  the program is not here or failed, a trace cannot be read or is wrong, or
     no limit was found with which it runs
  2  the command line was wrong
"""


class FitError(Exception):
    """What is wrong, for the user."""


def _rows(program, options, path):
    """Of a trace as the program reads it, by the kind of memory."""
    rows, said = [], []
    command = [program, "--fit", f"--lag={options.lag}", "--subject=" + ",".join(
        _SUBJECTS[kind] for kind in options.memory)]
    if options.driver:
        command.append(f"--driver={options.driver}")
    status = engine.run([*command, "--", path],
                        lambda line: rows.append(json.loads(line)), said.append,
                        lambda: None)
    if status not in (engine.DONE, engine.NOT_ALL_RAN) or not rows:
        raise FitError(said[-1].removeprefix("replay: ") if said else
                       f"{program}: it ended with {status}")
    return {kind: row for kind in options.memory for row in rows
            if row["subject"] == _SUBJECTS[kind]}


def _found(row):
    """What a row comes to; `refused` says why it has no limit."""
    if "refused" in row or row.get("fit_bytes") is None:
        return {"refused": row.get("refused",
                                   "no limit was found with which it runs")}
    return {"limit_bytes": row["fit_bytes"],
            "tried_to_bytes": row["fit_tried_to_bytes"],
            "step_bytes": row["fit_step_bytes"],
            "tried_count": row["fit_tried_count"]}


def _fit(program, options, path, folder):
    with Reading(path) as watch:
        plain = engine.plain(path, folder)
        highest = moments.highest(plain, watch=watch)
    line = TerminalLine(None)
    if line.is_shown:
        line.show(f"running {os.path.basename(path)} with less and less memory")
    try:
        rows = _rows(program, options, plain)
    finally:
        line.clear()
    return {"trace": path,
            "moments": [dataclasses.asdict(one) for one in highest],
            "memory": {kind: _found(row) for kind, row in rows.items()}}


def _moment_lines(moment):
    yield (f"{as_bytes(moment['live_bytes'])} in "
           f"{counted(moment['count'], 'block')} are live "
           f"{as_time(moment['since_ns'])} after the start, at operation "
           f"{moment['operation']}:")
    owners = moment["owners"]
    for owner in owners[:_OWNERS_SHOWN]:
        name = (owner["tag"] if owner["tag"] is not None else
                f"blocks of {as_bytes(owner['size_bytes'])}")
        yield (f"  {as_bytes(owner['live_bytes'])} in "
               f"{counted(owner['count'], 'block')}: {name}")
    rest = owners[_OWNERS_SHOWN:]
    if rest:
        yield (f"  {as_bytes(sum(one['live_bytes'] for one in rest))} in "
               f"{counted(sum(one['count'] for one in rest), 'block')}: others")


def _limit_line(kind, found, live_bytes):
    if "refused" in found:
        return f"{kind} memory: {found['refused']}"
    ratio = found["limit_bytes"] / live_bytes if live_bytes else None
    return (f"{kind} memory: {as_bytes(found['limit_bytes'])}, "
            f"{as_ratio(ratio)} of what is live; it runs with it and with "
            f"{counted(found['tried_count'] - 1, 'size')} above, "
            f"{as_bytes(found['step_bytes'])} apart, up to "
            f"{as_bytes(found['tried_to_bytes'])}")


def _text(result):
    lines = [result["trace"]]
    for moment in result["moments"]:
        lines += _moment_lines(moment)
    live_bytes = max((one["live_bytes"] for one in result["moments"]),
                     default=0)
    lines += [_limit_line(kind, found, live_bytes)
              for kind, found in result["memory"].items()]
    return "\n".join(lines).replace(JOIN, " ") + "\n"


def _run(options):
    results = []
    try:
        program = find_program("replay")
        with tempfile.TemporaryDirectory(prefix="moiety-fit-") as folder:
            for path in options.traces:
                results.append(_fit(program, options, path, folder))
                if not options.json:
                    sys.stdout.reconfigure(errors="backslashreplace")
                    print(_text(results[-1]), flush=True)
    except (FitError, ProgramError, TraceError, OSError) as error:
        print(f"moiety: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(results))
    return int(any("refused" in found for result in results
                   for found in result["memory"].values()))


def _kinds(text):
    return each_once(text, _SUBJECTS, "mapped and fixed")


def add(commands):
    """The command `fit`, for a parser's subcommands."""
    command = add_command(
        commands, "fit", "find the smallest limit that a trace runs with",
        _DESCRIPTION, _EPILOG)
    command.add_argument("traces", metavar="TRACE", nargs="+",
                         help="plain or compressed; - is standard input")
    command.add_argument("--memory", metavar="KIND[,KIND]", type=_kinds,
                         default=list(_SUBJECTS),
                         help="mapped, fixed or both (default)")
    command.add_argument("--lag", metavar="L", default="idle",
                         help="what the device does meanwhile, as of "
                         "`moiety replay`; idle if it is not named")
    command.add_argument("--driver", metavar="D",
                         help="auto, cuda, standin or a path with a / in it")
    add_json(command, "print one JSON array")
    command.set_defaults(run=_run)
