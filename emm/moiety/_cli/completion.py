# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety completion. The script for bash, which zsh runs too,
and the one for fish."""

import shlex
import sys

from moiety._cli.command import add_command
from moiety._cli.tree import tree_of

_BASH = """\
# bash completion of moiety: eval "$(moiety completion bash)"
_moiety_take()
{{
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen "$@")
}}

_moiety_words()
{{
    _moiety_take -W "$1" -- "$2"
}}

_moiety_files()
{{
    compopt -o filenames 2>/dev/null # which zsh does not have
    _moiety_take -f -- "$1"
}}

# The command so far, the word before, and the one to be completed.
_moiety_reply()
{{
    case "$1 $2" in
{values}
    esac
    case "$1" in
{words}
    esac
}}

_moiety()
{{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command='' prefix='' i
    COMPREPLY=()
    # --name=value is three words in bash and one in zsh.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    elif [[ $word == --*=* ]]; then
        before=${{word%%=*}} prefix=${{word%%=*}}= word=${{word#*=}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
        {commands})
            command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
        esac
    done
    _moiety_reply "$command" "$before" "$word"
    COMPREPLY=("${{COMPREPLY[@]/#/$prefix}}")
}}

complete -F _moiety moiety
"""

_ZSH = """\
# zsh completion of moiety: eval "$(moiety completion zsh)"
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit

"""


def _place(command, word):
    return shlex.quote(f"{' '.join(command.words)} {word}")


def _reply(value):
    if value.choices:
        return f'_moiety_words {shlex.quote(" ".join(value.choices))} "$3"'
    return '_moiety_files "$3"' if value.is_file else ":"


def _values(command):
    """What follows options, a line for each."""
    for option in command.options:
        if option.value:
            places = "|".join(_place(command, name) for name in option.names)
            yield f"    {places}) {_reply(option.value)}; return ;;"


def _words(command):
    """What else may stand there: options, commands, arguments."""
    names = " ".join(name for option in command.options
                     for name in option.names)
    place = shlex.quote(" ".join(command.words))
    yield f"    {place})"
    yield '        case "$3" in'
    yield f'        -*) _moiety_words {shlex.quote(names)} "$3" ;;'
    below = " ".join(one.words[-1] for one in command.commands)
    if below:
        yield f'        *) _moiety_words {shlex.quote(below)} "$3" ;;'
    elif command.arguments:
        yield f"        *) {_reply(command.arguments[0].value)} ;;"
    yield "        esac ;;"


def bash_script(tree):
    commands = list(tree.all())
    return _BASH.format(
        commands="|".join(shlex.quote(f"{' '.join(one.words[:-1])} "
                                      f"{one.words[-1]}")
                          for one in commands if one.words),
        values="\n".join(line for one in commands for line in _values(one)),
        words="\n".join(line for one in commands for line in _words(one)))


def zsh_script(tree):
    return _ZSH + bash_script(tree)


_FISH = """\
# fish completion of moiety: moiety completion fish | source
function __moiety_command
    set -l found
    for word in (commandline -opc)[2..-1]
        switch "$found $word"
            case {commands}
                set found (string trim "$found $word")
        end
    end
    echo "$found"
end

function __moiety_is
    test (__moiety_command) = "$argv"
end

complete -c moiety -f
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
    place = ["complete", "-c", "moiety", "-n",
             quoted(" ".join(["__moiety_is", *command.words]))]
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


_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}

_DESCRIPTION = """\
Prints a script that has a shell complete moiety's commands, options and files.
"""

_EPILOG = """\
examples:
  moiety completion bash >~/.local/share/bash-completion/completions/moiety
  eval "$(moiety completion zsh)"       # in ~/.zshrc
  moiety completion fish >~/.config/fish/completions/moiety.fish

exit codes:
  0  done
  1  the output cannot be written
  2  the command line was wrong
"""


def add(commands, parser):
    """The command `completion`, for a parser's subcommands; the script is of
    all that `parser`, a function, has."""
    def run(options):
        sys.stdout.write(_SCRIPTS[options.shell](tree_of(parser())))
        return 0

    command = add_command(
        commands, "completion", "print a script that completes command lines",
        _DESCRIPTION, _EPILOG)
    command.add_argument("shell", choices=list(_SCRIPTS),
                         help="which shell's script")
    command.set_defaults(run=run)
