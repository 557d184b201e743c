# SPDX-License-Identifier: Apache-2.0
"""The command line: binade replay."""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile

from binade import (
    _programs, _replay_engine, _replay_files, _replay_options, _replay_table)
from binade._command import add_command
from binade._replay_progress import Progress
from binade._replay_results import Results
from binade._trace_error import TraceError


class ReplayError(Exception):
    """What is wrong, for the user."""


def _say(message):
    print(f"binade: {message}", file=sys.stderr)


def _check_report(path):
    """Before what takes long: nobody waits for a report that is not made."""
    from binade import _report
    _report.plotly()
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        raise ReplayError(f"{path}: its folder cannot be written into")


def _check_arguments(program, runs):
    """The program checks a command line, and then only names its subjects."""
    for run in runs:
        ended = subprocess.run(
            [program, *run.arguments, "--list"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="backslashreplace")
        if ended.returncode == _replay_engine.WRONG_ARGUMENT:
            return ended.stderr.strip().removeprefix("replay: ")
        if ended.returncode != _replay_engine.DONE:
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
                self._traces.append((_replay_files.plain(path, folder), path))
            except TraceError as error:
                raise ReplayError(f"{path}: {error}") from None

    def _run(self, number):
        command = [self._program, *self._runs[number].arguments]
        if self._progress.is_shown:
            command.append("--progress")
        status = _replay_engine.run(
            [*command, "--", *(path for path, _ in self._traces)],
            self._take_row, functools.partial(self._take_said, number),
            self._progress.tick)
        if status in (_replay_engine.DONE, _replay_engine.NOT_ALL_RAN):
            return True
        if status != _replay_engine.WRONG_TRACE:  # which it has said itself
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
        from binade import _report
        _report.write(results.rows, options.html)
    if options.json or not results.rows:
        return
    # Names of files may have letters that a terminal has not.
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(_replay_table.text(results.rows))
    if has_report:
        print(f"The report is {options.html}")


def _replay(options, program, runs):
    """The exit code."""
    with contextlib.ExitStack() as stack:
        results = Results(stack, options)
        replay = _Replay(program, runs, results)
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="binade-replay-"))
        is_done = replay.run(options.traces, folder)
        _finish(options, results)
    if is_done and not results.has_run:
        raise ReplayError("nothing was replayed")
    return 0 if is_done and results.is_whole else 1


def _run(command, options):
    wrong = _replay_options.wrong(options)
    if wrong:
        command.error(wrong)
    program = _programs.find("replay")
    if options.list:
        return subprocess.run([program, "--list"]).returncode
    runs = list(_replay_options.runs(options))
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
    except (ReplayError, _programs.ProgramError, ImportError,
            ValueError) as error:
        _say(error)
        return 1


def add(commands):
    """The command `replay`, for a parser's subcommands."""
    command = add_command(
        commands, "replay", "replay traces on allocators and compare them",
        _replay_options.DESCRIPTION, _replay_options.EPILOG)
    _replay_options.add(command)
    command.set_defaults(run=functools.partial(_guarded, command))
