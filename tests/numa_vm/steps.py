# SPDX-License-Identifier: Apache-2.0
"""Many commands in one boot: a script that runs them all, and what came of
each of them, from the console."""

import re
import typing

import vm


class Case(typing.NamedTuple):
    """`wants` is a pattern for the whole output of `command`, a line of shell
    that must end with `status`. Pages on one of the `nodes` are right."""

    name: str
    command: str
    wants: str
    status: int = 0
    nodes: typing.Sequence[int] = ()


class Run(typing.NamedTuple):
    """One boot of a machine."""

    machine: vm.Machine
    setup: str
    cases: typing.Sequence[Case]


class Result(typing.NamedTuple):
    output: str
    status: int


def script_of(run):
    """Puts a line before and after what each command prints."""
    lines = [run.setup]
    for index, case in enumerate(run.cases):
        lines += [f"echo case {index}", f"{{ {case.command}\n}} 2>&1"]
        lines += [f"echo ended {index} with $?"]
    return "\n".join(lines) + "\n"


def results_of(console, cases):
    results = []
    for index, case in enumerate(cases):
        found = re.search(
            rf"^case {index}\n(.*?)^ended {index} with (\d+)$",
            console,
            re.MULTILINE | re.DOTALL,
        )
        if not found:
            raise vm.VmError(f'"{case.name}" did not end', console)
        output = found.group(1).rstrip("\n")
        results.append(Result(output, int(found.group(2))))
    return results


def is_as_wanted(case, result):
    return result.status == case.status and bool(
        re.fullmatch(case.wants, result.output)
    )


def pages_of(case, result):
    """(pages asked, pages on the right nodes), or None if none were counted."""
    asked = re.search(r"^asked (\d+)", result.output, re.MULTILINE)
    if not asked:
        return None
    counts = re.findall(r", node (\d+): (\d+)", result.output)
    right = sum(int(count) for node, count in counts if int(node) in case.nodes)
    return int(asked.group(1)), right
