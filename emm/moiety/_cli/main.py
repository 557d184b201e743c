# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety, or python -m moiety (__main__.py)."""

import argparse
import os
import signal
import sys

from moiety import _native
from moiety._cli import (
    bench, completion, doctor, fit, info, observe, replay, serve, trace)
from moiety._cli.command import Parser

_EPILOG = """\
moiety COMMAND --help tells more, with examples. MOIETY_DRIVER=standin is for
machines without a GPU.

exit codes:
  0    done
  1    something is not as it should be: each command's help says what
  2    the command line was wrong
  130  interrupted
  141  whoever read the output has gone
  143  ended by SIGTERM (129: by SIGHUP); nothing half written is left
"""


def parser():
    """Of all commands: completion and the man page are made from it too."""
    made = Parser(
        prog="moiety", description="A GPU memory pool: what it finds here, "
        "does and did.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version",
                      version=f"moiety {_native.version()}")
    commands = made.add_subparsers(metavar="COMMAND")
    info.add_info(commands)
    doctor.add(commands)
    info.add_topo(commands)
    bench.add(commands)
    replay.add(commands)
    fit.add(commands)
    trace.add(commands)
    observe.add_stats(commands)
    observe.add_snapshot(commands)
    serve.add(commands)
    completion.add(commands, parser)
    return made


def _run(arguments):
    made = parser()
    options = made.parse_args(arguments)
    if not hasattr(options, "run"):
        made.print_help(sys.stderr)
        return 2
    try:
        return options.run(options)
    except _native.Error as error:
        print(f"moiety: {error}", file=sys.stderr)
        return 1


def _forget_output():
    """What cannot be written is not tried once more at the exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_output():
    """Python has None for what the program was started without, and prints
    nothing there, or to the other one. A write to the first fails as in other
    programs; messages go nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def _end(number, _frame):
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _end_by_exceptions():
    """Otherwise a signal would leave files that are half written, and programs
    that were started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def main(arguments=None):
    """The exit code."""
    _replace_closed_output()
    if arguments is None:
        _end_by_exceptions()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _forget_output()
        return 141
    except OSError as error:
        _forget_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"moiety: {where}{error.strerror or error}", file=sys.stderr)
        return 1
