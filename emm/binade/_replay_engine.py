# SPDX-License-Identifier: Apache-2.0
"""The program in C that replays: started, read while it runs, and ended with
whoever waits for it."""

import os
import selectors
import subprocess

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
