# SPDX-License-Identifier: Apache-2.0
"""The program in C that replays: traces as it reads them, its process, which is
read while it runs and ends with whoever waits for it, and its rows."""

import io
import json
import os
import selectors
import shutil
import stat
import subprocess
import sys
import tempfile

from moiety._trace.files import is_compressed, opened
from moiety._trace.format import TraceError
from moiety._trace.writer import Target


def _check(path):
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TraceError("it is no regular file")


def _unpacked(path, name, folder):
    """Of two traces with one name, each has a folder of its own."""
    target = os.path.join(tempfile.mkdtemp(dir=folder),
                          name[:-3] if name.endswith(".gz") else name)
    with opened(path) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def plain(path, folder):
    """The absolute path of the trace, or of a copy of it in `folder`; - is
    standard input."""
    if path == "-":
        return _unpacked(0, "stdin.mtrace", folder)
    _check(path)
    if is_compressed(path):
        return _unpacked(path, os.path.basename(path), folder)
    return os.path.abspath(path)


# How its process ends.
DONE, NOT_ALL_RAN, WRONG_ARGUMENT, WRONG_TRACE = range(4)
TICK_S = 0.5
_PIECE_BYTES = 1 << 16


def _environment():
    """The program takes it for what `bazel run` says, and would change its
    folder."""
    kept = dict(os.environ)
    kept.pop("BUILD_WORKING_DIRECTORY", None)
    return kept


def _take_piece(key):
    """The whole lines that a pipe has by now; None at its end."""
    piece = os.read(key.fd, _PIECE_BYTES)
    if not piece:
        return None
    key.data.extend(piece)
    if b"\n" not in piece:
        return []
    *lines, rest = bytes(key.data).split(b"\n")
    key.data[:] = rest
    return lines


def _lines(process):
    """(pipe, line) as they come; (None, None) when nothing comes for a while.
    What has no line's end is the end of a process that was killed."""
    with selectors.DefaultSelector() as pipes:
        for pipe in (process.stdout, process.stderr):
            pipes.register(pipe, selectors.EVENT_READ, bytearray())
        while pipes.get_map():
            ready = pipes.select(TICK_S)
            if not ready:
                yield None, None
            for key, _ in ready:
                lines = _take_piece(key)
                if lines is None:
                    pipes.unregister(key.fileobj)
                for line in lines or ():
                    yield key.fileobj, line


def run(command, take_row, take_said, tick):
    """Runs the command to its end and returns its exit status, below 0 for a
    signal. Its lines go to take_row(bytes) and take_said(str), those of
    standard error; tick() is called while it says nothing."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=_environment()) as process:
        try:
            for pipe, line in _lines(process):
                if pipe is process.stdout:
                    take_row(line)
                elif pipe is process.stderr:
                    take_said(line.decode(errors="backslashreplace"))
                else:
                    tick()
            return process.wait()
        finally:
            process.kill()


# As large as the trace; only pictures need them.
_OF_PICTURES = ("timeline", "map")


class Results:
    """.rows: dictionaries. Each row is written at once where `options` say, so
    that an end before the end loses none."""

    def __init__(self, stack, options):
        """What is opened here, `stack` closes."""
        self.rows = []
        self._files = []
        self._has_pictures = options.html is not None
        self._named = {name for names in options.subject
                       for name in names.split(",")}
        if options.rows is not None:
            self._files.append(stack.enter_context(
                io.BufferedWriter(Target(options.rows))))
        if options.json:
            self._files.append(sys.stdout.buffer)

    def take(self, line):
        for file in self._files:
            file.write(line + b"\n")
            file.flush()
        row = json.loads(line)
        if not self._has_pictures:
            for name in _OF_PICTURES:
                row.pop(name, None)
        self.rows.append(row)

    @property
    def has_run(self):
        """Whether any subject has."""
        return any("refused" not in row for row in self.rows)

    @property
    def is_whole(self):
        """Whether all subjects have that were asked for by name."""
        return not any("refused" in row and row["subject"] in self._named
                       for row in self.rows)
