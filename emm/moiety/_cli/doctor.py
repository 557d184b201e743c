# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety doctor."""

import json
import textwrap
from dataclasses import asdict

from moiety._cli.command import TerminalLine, add_json_command
from moiety._doctor.checks import findings
from moiety._doctor.machine import ALARMING, VERDICTS, Machine

_DESCRIPTION = """\
Looks at the driver, the devices, the kernel, the container and the packages
that are installed, and says what would be slow or unsafe here, why, and what to
do. Nothing is allocated on a device.
"""

_EPILOG = """\
verdicts:
  ok       as it should be
  unknown  it cannot be told from here
  lacking  a part of Moiety cannot be used; the rest can
  slow     it works, and costs time
  unsafe   memory may get two owners, or data be lost
  broken   no pool can be made

examples:
  moiety doctor
  moiety doctor --json
  docker run --gpus=all IMAGE moiety doctor

exit codes:
  0  nothing is unsafe or broken
  1  something is, or there is no device
  2  the command line was wrong
"""

_COLUMNS = 80
_INDENT = 9


def _lines(found):
    def wrapped(text, first):
        return textwrap.wrap(
            text, _COLUMNS, initial_indent=first.ljust(_INDENT),
            subsequent_indent=" " * _INDENT, break_on_hyphens=False,
            break_long_words=False)

    lines = wrapped(f"{found.check}: {found.reason}", found.verdict)
    if found.advice:
        lines += wrapped(f"-> {found.advice}", "")
    return lines


def _summary(all_found):
    counts = [(sum(found.verdict == verdict for found in all_found), verdict)
              for verdict in VERDICTS]
    return (f"{len(all_found)} checks: "
            + ", ".join(f"{count} {verdict}" for count, verdict in counts
                        if count))


def _run(options):
    # Some checks import a framework, which takes seconds.
    line = TerminalLine()
    all_found = list(findings(Machine(), lambda name: line.show(name, "...")))
    line.clear()
    is_alarming = any(found.verdict in ALARMING for found in all_found)
    if options.json:
        print(json.dumps({"is_well": not is_alarming,
                          "findings": list(map(asdict, all_found))}, indent=1))
    else:
        for found in all_found:
            print("\n".join(_lines(found)))
        print(_summary(all_found))
    return 1 if is_alarming else 0


def add(commands):
    """The command `doctor`, for a parser's subcommands."""
    add_json_command(
        commands, "doctor", "say what is slow or unsafe here, and why",
        _DESCRIPTION, _EPILOG, _run)
