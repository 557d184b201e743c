# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety serve and moiety regions."""

import json
import os
import sys

from moiety import _native, regions
from moiety._cli.command import (
    ProgramError, add_command, add_json, find_program)
from moiety._report.words import as_bytes, counted

_SERVE = """\
Keeps regions of device memory for the processes of this user, until it gets
SIGTERM or SIGINT. At SIGUSR1 it takes no new regions, drops all, and ends with
the last one. It never calls the driver. This is the program moiety-serve: the
one that MOIETY_SERVE names, else the one beside the package, else on PATH.
"""

_SERVE_EPILOG = """\
examples:
  moiety serve --socket=$XDG_RUNTIME_DIR/moiety --limit=64GiB
  moiety serve --socket=$XDG_RUNTIME_DIR/moiety --drain

exit codes:
  0  asked to end, drained, or --drain is done
  1  the socket cannot be used, or there is no such program
  2  the command line was wrong
"""

_REGIONS = """\
Lists the regions of a keeper: name, state, bytes, commits, leases of
processes, the pids of those, and the process that writes it.
"""

_REGIONS_EPILOG = """\
examples:
  moiety regions $XDG_RUNTIME_DIR/moiety
  moiety regions --drop=weights $XDG_RUNTIME_DIR/moiety

exit codes:
  0  done
  1  no keeper answers, there is no such region, or a process writes it
  2  the command line was wrong
"""


def _serve(options):
    try:
        program = find_program("serve")
        arguments = ["--socket", options.socket]
        if options.limit:
            arguments += ["--limit", options.limit]
        if options.drain:
            arguments.append("--drain")
        if options.accept_memfd:
            arguments.append("--accept-memfd")
        # In the place of this process: signals are the program's own.
        sys.stdout.flush()
        os.execv(program, [program, *arguments])
    except (ProgramError, OSError) as error:
        print(f"moiety: {error}", file=sys.stderr)
        return 1


def _line(entry):
    writer = f", written by {entry.writer}" if entry.writer else ""
    pids = f" of {', '.join(map(str, entry.pids))}" if entry.pids else ""
    return (f"{entry.name}: {entry.state}, {as_bytes(entry.nbytes)} in "
            f"{counted(entry.parts, 'part')}, {counted(entry.generation, 'commit')}"
            f", {counted(entry.holders, 'lease')}{pids}{writer}")


def _regions(options):
    try:
        with regions.connect(options.socket) as keeper:
            for name in options.drop:
                keeper.drop(name)
            entries = keeper.entries()
    except (_native.Error, KeyError, ValueError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"moiety: {text}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"regions": [entry._asdict() for entry in entries]}))
        return 0
    for entry in entries:
        print(_line(entry))
    if not entries:
        print("no regions")
    return 0


def add(commands):
    """The commands `serve` and `regions`, for a parser's subcommands."""
    command = add_command(commands, "serve", "keep device memory that outlives "
                          "processes", _SERVE, _SERVE_EPILOG)
    command.add_argument("--socket", metavar="SOCKET", required=True,
                         help="where clients connect; other users are refused")
    command.add_argument("--limit", metavar="BYTES",
                         help="bytes of all regions, such as 64GiB")
    command.add_argument("--drain", action="store_true", help="ask the keeper "
                         "there to drop all regions that no process writes")
    command.add_argument("--accept-memfd", action="store_true", help="for tests: "
                         "keep memory of the stand-in driver too")
    command.set_defaults(run=_serve)
    command = add_command(commands, "regions", "list the regions of a keeper",
                          _REGIONS, _REGIONS_EPILOG)
    command.add_argument("socket", metavar="SOCKET", help="of the keeper")
    command.add_argument("--drop", metavar="NAME", action="append", default=[],
                         help="first drop this region; may be repeated")
    add_json(command)
    command.set_defaults(run=_regions)
