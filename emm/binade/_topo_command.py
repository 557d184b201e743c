# SPDX-License-Identifier: Apache-2.0
"""The command line: binade topo."""

import sys

from binade import _native
from binade._command import add_command, add_json

_DESCRIPTION = """\
Prints the machine's NUMA nodes, the distances between them, and for each GPU
which nodes are near it and where pinned memory for it is put, and why.
docs/numa.md explains each line. HWLOC_XMLFILE shows another machine.
"""

_EPILOG = """\
examples:
  binade topo
  binade topo --json
  HWLOC_XMLFILE=machine.xml BINADE_DRIVER=standin binade topo

exit codes:
  0  done, also without a device
  1  the machine cannot be read, or the output cannot be written
  2  the command line was wrong
"""


def _run(options):
    text = _native.topology(json=options.json)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def add(commands):
    """The command `topo`, for a parser's subcommands."""
    command = add_command(
        commands, "topo", "print NUMA nodes and what is near each GPU",
        _DESCRIPTION, _EPILOG)
    add_json(command)
    command.set_defaults(run=_run)
