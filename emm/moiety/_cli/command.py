# SPDX-License-Identifier: Apache-2.0
"""What the commands have in common: their parsers, the programs in C that some
of them start, and the line of a terminal that says how far something is."""

import argparse
import os
import re
import shutil
import sys
import time
from pathlib import Path

from moiety._support.arguments import nearest


def question(word, accepted):
    """The question that a message ends with, if one of the accepted words is
    like this one."""
    found = nearest(word, accepted)
    return f", did you mean {found}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Refuses an unknown word itself, and names the nearest one that it accepts:
    argparse lists all commands, and leaves an option of a command to the parser
    of all commands."""
    _commands = None

    def add_subparsers(self, **options):
        self._commands = super().add_subparsers(**options)
        return self._commands

    def parse_known_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else list(args)
        if self._commands and words and not words[0].startswith("-"):
            self._check_command(words[0], self._commands.choices)
        options, unknown = super().parse_known_args(words, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            self.error(f"{word} is not accepted"
                       f"{question(word, self._option_names())}")
        return options, unknown

    def _check_command(self, word, accepted):
        if word not in accepted:
            self.error(f"there is no command {word}{question(word, accepted)}; "
                       f"accepted are {', '.join(accepted)}")

    def _option_names(self):
        # The usage is what argparse lets others see.
        return re.findall(r"(?<![\w-])--?[a-z][a-z-]*", self.format_usage())


def add_command(commands, name, summary, description, epilog, **options):
    """The parser of a new command; `summary` is its line in the list of all,
    examples and exit codes are in the epilog; `options` are the parser's."""
    return commands.add_parser(
        name, help=summary, description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def add_json(command, what="print one JSON object"):
    command.add_argument("--json", action="store_true", help=what)


def add_json_command(commands, name, summary, description, epilog, run):
    """A command that has no option but --json."""
    command = add_command(commands, name, summary, description, epilog)
    add_json(command)
    command.set_defaults(run=run)


# A folder of the package, beside this one.
BESIDE = Path(__file__).parents[1] / "_programs"


_TARGETS = {"bench": "//bench:bench", "replay": "//bench:replay",
            "serve": "//serve:moiety-serve"}


class ProgramError(Exception):
    """There is no such program, or it cannot be started."""


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find_program(name):
    """The path of `name`: what MOIETY_NAME names, else beside the package,
    else moiety-NAME on PATH."""
    variable = f"MOIETY_{name.upper()}"
    named = os.environ.get(variable)
    if named:
        # What the user named is not passed over for another one.
        if not _is_program(named):
            raise ProgramError(f"{variable}={named}: not a program")
        return os.path.abspath(named)
    beside = str(BESIDE / name)
    if _is_program(beside):
        return beside
    on_path = shutil.which(f"moiety-{name}")
    if on_path:
        return os.path.abspath(on_path)
    raise ProgramError(
        f"the program {name} is not here: build it in a checkout with "
        f"./bazelw build {_TARGETS[name]} and name it in {variable}")


_BAR_LETTERS = 20
_CLEAR = "\r\x1b[K"


class TerminalLine:
    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self.is_shown = self._stream.isatty()

    def show(self, *words):
        """Instead of what was there, as much as there is room for."""
        if self.is_shown:
            columns = os.get_terminal_size(self._stream.fileno()).columns
            self._write(_CLEAR + " ".join(words)[:max(columns - 1, 0) or None])

    def clear(self):
        """Before something else is written, and at the end."""
        if self.is_shown:
            self._write(_CLEAR)

    def elapsed(self):
        seconds = int(time.monotonic() - self._begin)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _write(self, text):
        self._stream.write(text)
        self._stream.flush()


def bar(done, of):
    filled = _BAR_LETTERS * done // of
    return f"[{'#' * filled:.<{_BAR_LETTERS}}]"
