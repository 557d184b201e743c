# SPDX-License-Identifier: Apache-2.0
"""What a parser of argparse takes, as plain data: completion scripts and the
man page are made of it, so that they have what the parsers have.

No library writes them: shtab does not complete --name=VALUE, argparse-manpage
leaves out the examples and exit codes of each command, and either would be the
first package without which the command does not run."""

import argparse
from dataclasses import dataclass

# Whose values are names of files.
_FILES = ("ARG", "FILE", "IN", "OUT", "SOCKET", "TRACE")


@dataclass(frozen=True)
class Value:
    """What stands behind an option, or by itself."""
    metavar: str
    choices: tuple = ()
    is_required: bool = True
    is_repeated: bool = False
    is_file: bool = False


@dataclass(frozen=True)
class Option:
    names: tuple
    help: str
    value: Value | None  # None: a flag


@dataclass(frozen=True)
class Argument:
    help: str
    value: Value


@dataclass(frozen=True)
class Command:
    words: tuple  # ("trace", "convert"); () for the parser of all
    summary: str
    parser: argparse.ArgumentParser
    options: tuple
    arguments: tuple
    commands: tuple

    def all(self):
        """This one and those below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def _value(action):
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices
        else action.dest.upper())
    # Whether a repeated argument is required differs between Pythons.
    return Value(metavar, tuple(map(str, action.choices or ())),
                 action.required and action.nargs not in ("?", "*"),
                 action.nargs in ("*", "+"), metavar in _FILES)


def _help(action):
    return (action.help or "") % vars(action)


def _option(action):
    return Option(tuple(action.option_strings), _help(action),
                  None if action.nargs == 0 else _value(action))


def _below(action, words):
    """The commands of a group, with their summaries."""
    summaries = {one.dest: one.help for one in action._choices_actions}
    return tuple(tree_of(parser, (*words, name), summaries.get(name) or "")
                 for name, parser in action.choices.items())


def tree_of(parser, words=(), summary=""):
    """The Command of a parser."""
    options, arguments, commands = [], [], ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = _below(action, words)
        elif action.option_strings:
            options.append(_option(action))
        else:
            arguments.append(Argument(_help(action), _value(action)))
    return Command(words, summary, parser, tuple(options), tuple(arguments),
                   commands)
