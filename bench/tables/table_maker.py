# SPDX-License-Identifier: Apache-2.0
"""Tables by name: what makes each of them, of which files, with which options.

A command is a name, options and files, as in

    replay-footprint --traces=bench/traces/index.json FILE...
"""

import collections

import circumstances
from table_text import BadInput

# `lines(options, paths)` yields the lines of a table; besides what is said of
# the circumstances it takes `options`.
Maker = collections.namedtuple("Maker", "lines options")


def split(words, allowed):
    """Options by name, and files."""
    options, paths = {}, []
    for word in words:
        if not word.startswith("--"):
            paths.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        if name not in allowed or not value or name in options:
            raise BadInput(f"{word} is not accepted: "
                           f"{', '.join(f'--{name}=' for name in allowed)}, "
                           "each once at most")
        options[name] = value
    if not paths:
        raise BadInput("no file is named")
    return options, paths


def made(makers, words):
    """The lines that the command `words` asks for."""
    name = words[0] if words else ""
    if name not in makers:
        raise BadInput(f"there is no table {name!r}: {', '.join(makers)}")
    maker = makers[name]
    options, paths = split(words[1:], maker.options + circumstances.OPTIONS)
    try:
        return list(maker.lines(options, paths))
    except (KeyError, TypeError) as error:
        raise BadInput(f"a row of {', '.join(paths)} is not as it should be: "
                       f"{error!r}") from error
