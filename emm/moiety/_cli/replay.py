# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety replay."""

import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile

from moiety._cli import replay_options
from moiety._cli.command import (
    ProgramError, TerminalLine, add_command, bar, find_program)
from moiety._replay import engine, table
from moiety._trace.format import TraceError

_STEP = re.compile(r"replay: (\d+) of (\d+): (.*) on (\S+)")


class Progress:
    """`run_count` is how many times the program is started."""

    def __init__(self, run_count, stream=None):
        self._line = TerminalLine(stream)
        self._run_count = run_count
        self._done = 0
        self._all = 0
        self._what = ""

    @property
    def is_shown(self):
        return self._line.is_shown

    def take(self, run, line):
        """Whether the line only says how far the program is: in its `run`, from
        0 on, it counts from 1 on."""
        step = _STEP.fullmatch(line) if self.is_shown else None
        if step:
            number, count = int(step[1]), int(step[2])
            self._done = run * count + number - 1
            self._all = self._run_count * count
            self.say(f"{os.path.basename(step[3])} on {step[4]}")
        return bool(step)

    def say(self, what):
        self._what = what
        self.tick()

    def tick(self):
        if not self._what:
            return
        words = [self._line.elapsed(), self._what]
        if self._all:
            words = [bar(self._done, self._all),
                     f"{self._done + 1} of {self._all}", *words]
        self._line.show(*words)

    def clear(self):
        """Before something else is written."""
        self._line.clear()

    def close(self):
        self.clear()
        self._what = ""


class ReplayError(Exception):
    """What is wrong, for the user."""


def _say(message):
    print(f"moiety: {message}", file=sys.stderr)


def _check_report(path):
    """Before what takes long: nobody waits for a report that is not made."""
    from moiety import _report
    _report.libraries()
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        raise ReplayError(f"{path}: its folder cannot be written into")


def _check_arguments(program, runs):
    """The program checks a command line, and then only names its subjects."""
    for run in runs:
        ended = subprocess.run(
            [program, *run.arguments, "--list"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="backslashreplace")
        if ended.returncode == engine.WRONG_ARGUMENT:
            return ended.stderr.strip().removeprefix("replay: ")
        if ended.returncode != engine.DONE:
            raise ReplayError(f"{program}: {_ending(ended.returncode)}")
    return None


def _ending(status):
    return (f"it was ended by signal {-status}" if status < 0 else
            f"it ended with {status}")


class _Replay:
    """All runs of one command."""

    def __init__(self, program, runs, results):
        self._program = program
        self._runs = runs
        self._results = results
        self._progress = Progress(len(runs))
        self._traces = []  # (path for the program, name for the user)

    def run(self, paths, folder):
        """Whether the program did all that it was asked for. Traces are
        unpacked into the folder."""
        with contextlib.closing(self._progress):
            self._prepare(paths, folder)
            return all([self._run(number) for number in
                        range(len(self._runs))])

    def _prepare(self, paths, folder):
        for path in paths:
            self._progress.say(f"reading {path}")
            try:
                self._traces.append((engine.plain(path, folder), path))
            except TraceError as error:
                raise ReplayError(f"{path}: {error}") from None

    def _run(self, number):
        command = [self._program, *self._runs[number].arguments]
        if self._progress.is_shown:
            command.append("--progress")
        status = engine.run(
            [*command, "--", *(path for path, _ in self._traces)],
            self._take_row, functools.partial(self._take_said, number),
            self._progress.tick)
        if status in (engine.DONE, engine.NOT_ALL_RAN):
            return True
        if status != engine.WRONG_TRACE:  # which it has said itself
            self._progress.clear()
            _say(f"{self._program}: {_ending(status)}")
        return False

    def _take_row(self, line):
        self._progress.clear()
        try:
            self._results.take(line)
        except ValueError:
            raise ReplayError(f"{self._program}: it printed what is no row: "
                              f"{line[:40]!r}") from None

    def _take_said(self, number, line):
        # The longest first, as a path may begin as another one does.
        for path, name in sorted(self._traces, key=lambda one: -len(one[0])):
            line = line.replace(path, name)
        if not self._progress.take(number, line):
            self._progress.clear()
            _say(line.removeprefix("replay: "))


def _finish(options, results):
    """Of what was replayed, all or not, if anything was."""
    has_report = options.html and results.has_run
    if has_report:
        from moiety import _report
        _report.write(results.rows, options.html)
    if options.json or not results.rows:
        return
    # Names of files may have letters that a terminal has not.
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(table.text(results.rows))
    if has_report:
        print(f"The report is {options.html}")


def _replay(options, program, runs):
    """The exit code."""
    with contextlib.ExitStack() as stack:
        results = engine.Results(stack, options)
        replay = _Replay(program, runs, results)
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="moiety-replay-"))
        is_done = replay.run(options.traces, folder)
        _finish(options, results)
    if is_done and not results.has_run:
        raise ReplayError("nothing was replayed")
    return 0 if is_done and results.is_whole else 1


def _run(command, options):
    wrong = replay_options.wrong(options)
    if wrong:
        command.error(wrong)
    program = find_program("replay")
    if options.list:
        return subprocess.run([program, "--list"]).returncode
    runs = list(replay_options.runs(options))
    wrong = _check_arguments(program, runs)
    if wrong:
        command.error(wrong)
    if options.html:
        _check_report(options.html)
    return _replay(options, program, runs)


def _guarded(command, options):
    """What went wrong, as a message and an exit code."""
    try:
        return _run(command, options)
    except (ReplayError, ProgramError, ImportError,
            ValueError) as error:
        _say(error)
        return 1


def add(commands):
    """The command `replay`, for a parser's subcommands."""
    command = add_command(
        commands, "replay", "replay traces on allocators and compare them",
        replay_options.DESCRIPTION, replay_options.EPILOG)
    replay_options.add(command)
    command.set_defaults(run=functools.partial(_guarded, command))
