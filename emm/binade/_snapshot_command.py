# SPDX-License-Identifier: Apache-2.0
"""The command line: binade snapshot."""

import argparse
import json
import os
import tempfile

from binade._command import add_json
from binade._expose_client import ask
from binade._expose_svg import draw
from binade._expose_torch import dump
from binade._stats_command import add_socket, guarded

_DESCRIPTION = """\
Writes where all memory of a running process's pools is. A .pickle is for
PyTorch's viewer, https://pytorch.org/memory_viz, which runs in the browser; an
.svg is a map for any browser; a .json is what the process answered. Pools that
were made with a history (BINADE_CONF=history:4096) also have what was done last
in the first and the third. The pools stand still for a moment.
"""

_EXAMPLES = """\
examples:
  binade snapshot server.sock --out now.pickle
  binade snapshot server.sock --pool=1 --out map.svg --json

"""


def _write_pickle(answer, file):
    dump(answer, file)


def _write_svg(answer, file):
    file.write(draw(answer).encode())


def _write_json(answer, file):
    file.write(json.dumps(answer).encode() + b"\n")


_WRITERS = {".pickle": _write_pickle, ".svg": _write_svg, ".json": _write_json}


def _written(path, write, answer):
    """All of it or nothing, whatever happens meanwhile."""
    folder = os.path.dirname(path) or "."
    handle, name = tempfile.mkstemp(dir=folder, prefix=".binade-")
    try:
        with os.fdopen(handle, "wb") as file:
            write(answer, file)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _about(answer, path):
    pools = [pool for pool in answer["pools"] if "segments" in pool]
    return {"out": path, "pid": answer["pid"], "pools": len(pools),
            "segments": sum(len(pool["segments"]) for pool in pools),
            "intervals": sum(len(pool["intervals"]) for pool in pools),
            "stopped_ns": max((pool["stopped_ns"] for pool in pools),
                              default=0),
            "unread_pools": len(answer["pools"]) - len(pools)}


def _run(options):
    write = _WRITERS[os.path.splitext(options.out)[1]]
    request = "heap" if options.out.endswith(".svg") else "snapshot"
    answer = ask(options.socket, request, options.pool)
    _written(options.out, write, answer)
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


def add(commands):
    """The command `snapshot`, for a parser's subcommands."""
    command = add_socket(
        commands, "snapshot", "write where a process's memory is",
        _DESCRIPTION, _EXAMPLES)
    command.set_defaults(run=guarded(_run))
    command.add_argument("--out", required=True, type=_out_path, metavar="FILE",
                         help="what to write: .pickle, .svg or .json")
    add_json(command, "print what was written as one JSON object")
