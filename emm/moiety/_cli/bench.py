# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety bench."""

import os
import sys
import textwrap

from moiety._cli.command import ProgramError, add_command, find_program

_DESCRIPTION = """\
Measures allocation and freeing beside other pools, by the benchmark program
//bench:bench, which gets all arguments as they are. It prints a JSON object a
line, and tells on standard error how far it is.

The program is the one that MOIETY_BENCH names, else the one beside the package,
else moiety-bench on PATH. ./bazelw build //bench:bench makes it.
"""

_EPILOG = """\
examples:
  moiety bench --list
  moiety bench --driver=standin --workload=pair --threads=1,4 --json=pair.jsonl
  MOIETY_BENCH=bazel-bin/bench/harness/bench moiety bench --budget=60

exit codes:
  0  done
  1  a measurement failed, or there is no such program
  2  the command line was wrong
  3  a subject that was named cannot run here
  4  interrupted
"""


def _start(program, arguments):
    """In the place of this process: signals and exit codes are the program's
    own."""
    sys.stdout.flush()
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        raise ProgramError(f"{program}: {error.strerror}") from None


def _help(command):
    command.print_help()
    try:
        program = find_program("bench")
    except ProgramError as error:
        print("\n" + textwrap.fill(
            f"The program's own help is not here: {error}", 80))
        return 0
    print("\noptions of the program:\n")
    return _start(program, ["--help"])


def _run_of(command):
    def run(options):
        try:
            if {"-h", "--help"} & set(options.arguments):
                return _help(command)
            return _start(find_program("bench"), options.arguments)
        except ProgramError as error:
            print(f"moiety: {error}", file=sys.stderr)
            return 1
    return run


def add(commands):
    """The command `bench`, for a parser's subcommands."""
    command = add_command(
        commands, "bench", "measure pools, by the benchmark program",
        _DESCRIPTION, _EPILOG, add_help=False,
        # No option is read here: all words are the program's.
        prefix_chars="\0")
    command.add_argument("arguments", metavar="ARG", nargs="*",
                         help="for the program; --help has its options")
    command.set_defaults(run=_run_of(command))
