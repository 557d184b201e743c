# SPDX-License-Identifier: Apache-2.0
"""The completion script for fish."""

_FISH = """\
# fish completion of binade: binade completion fish | source
function __binade_command
    set -l found
    for word in (commandline -opc)[2..-1]
        switch "$found $word"
            case {commands}
                set found (string trim "$found $word")
        end
    end
    echo "$found"
end

function __binade_is
    test (__binade_command) = "$argv"
end

complete -c binade -f
{lines}
"""


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _taken(value):
    """What stands behind an option, or as an argument."""
    if value.choices:
        return ["-x", "-a", quoted(" ".join(value.choices))]
    return ["-r", "-F"] if value.is_file else ["-x"]


def _names(option):
    for name in option.names:
        if name.startswith("--"):
            yield from ("-l", name[2:])
        else:
            yield from ("-s", name[1:])


def _lines(command):
    place = ["complete", "-c", "binade", "-n",
             quoted(" ".join(["__binade_is", *command.words]))]
    for below in command.commands:
        yield [*place, "-a", below.words[-1], "-d", quoted(below.summary)]
    for option in command.options:
        taken = _taken(option.value) if option.value else []
        yield [*place, *_names(option), *taken, "-d", quoted(option.help)]
    for argument in command.arguments[:1]:
        if argument.value.choices:
            yield [*place, "-a", quoted(" ".join(argument.value.choices))]
        elif argument.value.is_file:
            yield [*place, "-F"]


def fish_script(tree):
    commands = [one for one in tree.all() if one.words]
    return _FISH.format(
        commands=" ".join(quoted(f"{' '.join(one.words[:-1])} {one.words[-1]}")
                          for one in commands),
        lines="\n".join(" ".join(line) for one in tree.all()
                        for line in _lines(one)))
