# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety stats, moiety snapshot."""

import argparse
import json
import os
import sys

from moiety._cli.command import add_command, add_json
from moiety._observe import svg, torch_pickle
from moiety._observe.client import ExposeError, ask
from moiety._observe.prometheus import exposition
from moiety._trace.writer import replaced

_EXIT_CODES = """\
exit codes:
  0  done
  1  nobody serves at the socket, the process is another user's, it did not
     answer, or the output cannot be written
  2  the command line was wrong
"""

_STATS = """\
Prints what the pools of a running process have done and hold. The process has
to ask for it: MOIETY_CONF=expose:SOCKET, moiety_expose_start(), or
moiety.observe.start(). docs/observability.md lists the numbers.
"""

_STATS_EXAMPLES = """\
examples:
  moiety stats /run/user/1000/server.sock
  moiety stats --pool=2 --json server.sock
  moiety stats --prometheus server.sock >moiety.prom

"""


def _pool_id(text):
    if not text.isdecimal() or not text.isascii() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: accepted are numbers from "
                                         f"1 on")
    return int(text)


def _text(answer):
    lines = [f"process {answer['pid']}, moiety {answer['version']}, "
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


def _guarded(run):
    """Why nothing was learned of a process, as a message and an exit code."""
    def command(options):
        try:
            run(options)
        except ExposeError as error:
            print(f"moiety: {error}", file=sys.stderr)
            return 1
        return 0
    return command


def _run_stats(options):
    answer = ask(options.socket, "stats", options.pool)
    if options.json:
        text = json.dumps(answer, indent=1) + "\n"
    else:
        text = (exposition if options.prometheus else _text)(answer)
    sys.stdout.write(text)


def _add_socket(commands, name, summary, description, epilog):
    """The parser of a command that asks a process."""
    command = add_command(commands, name, summary, description,
                          epilog + _EXIT_CODES)
    command.add_argument("socket", metavar="SOCKET",
                         help="where the process serves")
    command.add_argument("--pool", type=_pool_id, metavar="ID",
                         help="only the pool with this id")
    return command


def add_stats(commands):
    """The command `stats`, for a parser's subcommands."""
    command = _add_socket(
        commands, "stats", "print what a process's pools did and hold",
        _STATS, _STATS_EXAMPLES)
    command.set_defaults(run=_guarded(_run_stats))
    form = command.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--prometheus", action="store_true",
                      help="print Prometheus' text format")


_SNAPSHOT = """\
Writes where all memory of a running process's pools is. A .pickle is for
PyTorch's viewer, https://pytorch.org/memory_viz, which runs in the browser; an
.svg is a map for any browser; a .json is what the process answered. Pools that
were made with a history (MOIETY_CONF=history:4096) also have what was done last
in the first and the third. The pools stand still for a moment.
"""

_SNAPSHOT_EXAMPLES = """\
examples:
  moiety snapshot server.sock --out now.pickle
  moiety snapshot server.sock --pool=1 --out map.svg --json

"""


def _write_pickle(answer, file):
    torch_pickle.dump(answer, file)


def _write_svg(answer, file):
    file.write(svg.draw(answer).encode())


def _write_json(answer, file):
    file.write(json.dumps(answer).encode() + b"\n")


_WRITERS = {".pickle": _write_pickle, ".svg": _write_svg, ".json": _write_json}


def _about(answer, path):
    pools = [pool for pool in answer["pools"] if "segments" in pool]
    return {"out": path, "pid": answer["pid"], "pools": len(pools),
            "segments": sum(len(pool["segments"]) for pool in pools),
            "intervals": sum(len(pool["intervals"]) for pool in pools),
            "stopped_ns": max((pool["stopped_ns"] for pool in pools),
                              default=0),
            "unread_pools": len(answer["pools"]) - len(pools)}


def _run_snapshot(options):
    write = _WRITERS[os.path.splitext(options.out)[1]]
    request = "heap" if options.out.endswith(".svg") else "snapshot"
    answer = ask(options.socket, request, options.pool)
    with replaced(options.out) as file:
        write(answer, file)
    about = _about(answer, options.out)
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in about.items()))


def _out_path(text):
    if os.path.splitext(text)[1] not in _WRITERS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: accepted are names that end with "
            f"{', '.join(_WRITERS)}")
    return text


def add_snapshot(commands):
    """The command `snapshot`, for a parser's subcommands."""
    command = _add_socket(
        commands, "snapshot", "write where a process's memory is",
        _SNAPSHOT, _SNAPSHOT_EXAMPLES)
    command.set_defaults(run=_guarded(_run_snapshot))
    command.add_argument("--out", required=True, type=_out_path, metavar="FILE",
                         help="what to write: .pickle, .svg or .json")
    add_json(command, "print what was written as one JSON object")
