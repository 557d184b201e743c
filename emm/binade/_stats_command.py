# SPDX-License-Identifier: Apache-2.0
"""The command line: binade stats."""

import argparse
import json
import sys

from binade._command import add_command, add_json
from binade._expose_client import ExposeError, ask
from binade._expose_prometheus import exposition

EXIT_CODES = """\
exit codes:
  0  done
  1  nobody serves at the socket, the process is another user's, it did not
     answer, or the output cannot be written
  2  the command line was wrong
"""

_DESCRIPTION = """\
Prints what the pools of a running process have done and hold. The process has
to ask for it: BINADE_CONF=expose:SOCKET, binade_expose_start(), or
binade.observe.start(). docs/observe.md lists the numbers.
"""

_EXAMPLES = """\
examples:
  binade stats /run/user/1000/server.sock
  binade stats --pool=2 --json server.sock
  binade stats --prometheus server.sock >binade.prom

"""


def pool_id(text):
    if not text.isdecimal() or not text.isascii() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: accepted are numbers from "
                                         f"1 on")
    return int(text)


def _text(answer):
    lines = [f"process {answer['pid']}, binade {answer['version']}, "
             f"{len(answer['pools'])} pools"]
    for pool in answer["pools"]:
        lines.append(f"pool {pool['id']}: {pool['source']}, "
                     f"device {pool['device']}")
        if "error" in pool:
            lines.append(f"  {pool['error']['status']}: "
                         f"{pool['error']['message']}")
        for key, value in pool.get("stats", {}).items():
            lines.append(f"  {key}: {value}")
    return "\n".join(lines) + "\n"


def guarded(run):
    """Why nothing was learned of a process, as a message and an exit code."""
    def command(options):
        try:
            run(options)
        except ExposeError as error:
            print(f"binade: {error}", file=sys.stderr)
            return 1
        return 0
    return command


def _run(options):
    answer = ask(options.socket, "stats", options.pool)
    if options.json:
        text = json.dumps(answer, indent=1) + "\n"
    else:
        text = (exposition if options.prometheus else _text)(answer)
    sys.stdout.write(text)


def add_socket(commands, name, summary, description, epilog):
    """The parser of a command that asks a process."""
    command = add_command(commands, name, summary, description,
                          epilog + EXIT_CODES)
    command.add_argument("socket", metavar="SOCKET",
                         help="where the process serves")
    command.add_argument("--pool", type=pool_id, metavar="ID",
                         help="only the pool with this id")
    return command


def add(commands):
    """The command `stats`, for a parser's subcommands."""
    command = add_socket(
        commands, "stats", "print what a process's pools did and hold",
        _DESCRIPTION, _EXAMPLES)
    command.set_defaults(run=guarded(_run))
    form = command.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--prometheus", action="store_true",
                      help="print Prometheus' text format")
