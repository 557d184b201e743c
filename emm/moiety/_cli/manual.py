# SPDX-License-Identifier: Apache-2.0
"""The man page of `moiety`, made of the parsers: what --help says is said
there, too.

usage: python -m moiety._cli.manual >docs/moiety.1
"""

import sys

from moiety import _native
from moiety._cli.main import parser
from moiety._cli.tree import tree_of

_VARIABLES = {
    "MOIETY_DRIVER": "The driver's library: auto (or not set), cuda, standin, "
                     "or a path with a / in it.",
    "MOIETY_REQUIRE_GPU": "1: the stand-in driver is refused.",
    "MOIETY_CONF": "Settings of pools and host arenas, key:value with commas "
                   "between them; moiety doctor says what is wrong with it.",
}
_PROGRAMS = ("bench", "replay", "serve")


def escaped(text):
    """For any place in a line."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def line(text):
    """A line of its own, which begins no request."""
    text = escaped(text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _bold(text):
    return f"\\fB{escaped(text)}\\fR"


def _italic(text):
    return f"\\fI{escaped(text)}\\fR"


def _shown(value):
    if value.choices:
        return "|".join(map(_bold, value.choices))
    return _italic(value.metavar)


def _option_words(option):
    """As on a command line: --name=VALUE."""
    name = _bold(option.names[-1])
    return f"{name}={_shown(option.value)}" if option.value else name


def _call(command):
    """The whole of a command line."""
    words = [_bold(" ".join(["moiety", *command.words]))]
    words += [f"[{_option_words(option)}]" if not (
        option.value and option.value.is_required) else _option_words(option)
        for option in command.options if "--help" not in option.names]
    for argument in command.arguments:
        shown = _shown(argument.value) + (
            " ..." if argument.value.is_repeated else "")
        words.append(shown if argument.value.is_required else f"[{shown}]")
    return " ".join(words)


def _paragraphs(text):
    """Of a description: its lines are filled."""
    for part in text.strip().split("\n\n"):
        yield ".PP"
        yield from map(line, part.splitlines())


def _blocks(epilog):
    """Of an epilog: a title with lines that stay as they are, or a text."""
    for part in epilog.strip().split("\n\n"):
        title, *lines = part.splitlines()
        if not title.endswith(":"):
            yield from _paragraphs(part)
            continue
        yield ".PP"
        yield _bold(title)
        yield ".RS"
        yield ".nf"
        yield from (line(one.removeprefix("  ")) for one in lines)
        yield ".fi"
        yield ".RE"


def _tagged(tag, text):
    yield ".TP"
    yield tag
    yield line(text)


def _options(command):
    for option in command.options:
        if "--help" not in option.names:
            yield from _tagged(_option_words(option), option.help)
    for argument in command.arguments:
        yield from _tagged(_shown(argument.value), argument.help)


def _described(command):
    yield f".SS {escaped(' '.join(['moiety', *command.words]))}"
    yield from _paragraphs(command.parser.description)
    yield from _options(command)
    yield from _blocks(command.parser.epilog)


def _environment(tree):
    variables = dict(_VARIABLES)
    for name in _PROGRAMS:
        if (name,) in [command.words for command in tree.commands]:
            variables[f"MOIETY_{name.upper()}"] = (
                f"The program that moiety {name} starts.")
    for name, text in variables.items():
        yield from _tagged(_bold(name), text)


def _lines(tree):
    leaves = [command for command in tree.all() if not command.commands]
    yield '.\\" SPDX-License-Identifier: Apache-2.0'
    yield '.\\" Made by python -m moiety._cli.manual: change the parsers instead.'
    yield f'.TH MOIETY 1 "" "Moiety {_native.version()}" "User Commands"'
    yield ".nh"  # a name is not to be taken apart
    yield ".ad l"
    yield ".SH NAME"
    yield "moiety \\- looks at a GPU memory pool and at what is under it"
    yield ".SH SYNOPSIS"
    for command in (*leaves, tree):
        yield _call(command)
        yield ".br"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(tree.parser.description)
    yield from _options(tree)
    yield from _blocks(tree.parser.epilog)
    yield ".SH COMMANDS"
    for command in leaves:
        yield from _described(command)
    yield ".SH ENVIRONMENT"
    yield from _environment(tree)


def manual():
    return "\n".join(_lines(tree_of(parser()))) + "\n"


if __name__ == "__main__":
    sys.stdout.write(manual())
