# SPDX-License-Identifier: Apache-2.0
"""The completion script for bash, which zsh runs too."""

import shlex

_BASH = """\
# bash completion of binade: eval "$(binade completion bash)"
_binade_take()
{{
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen "$@")
}}

_binade_words()
{{
    _binade_take -W "$1" -- "$2"
}}

_binade_files()
{{
    compopt -o filenames 2>/dev/null # which zsh does not have
    _binade_take -f -- "$1"
}}

# The command so far, the word before, and the one to be completed.
_binade_reply()
{{
    case "$1 $2" in
{values}
    esac
    case "$1" in
{words}
    esac
}}

_binade()
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
    _binade_reply "$command" "$before" "$word"
    COMPREPLY=("${{COMPREPLY[@]/#/$prefix}}")
}}

complete -F _binade binade
"""

_ZSH = """\
# zsh completion of binade: eval "$(binade completion zsh)"
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit

"""


def _place(command, word):
    return shlex.quote(f"{' '.join(command.words)} {word}")


def _reply(value):
    if value.choices:
        return f'_binade_words {shlex.quote(" ".join(value.choices))} "$3"'
    return '_binade_files "$3"' if value.is_file else ":"


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
    yield f'        -*) _binade_words {shlex.quote(names)} "$3" ;;'
    below = " ".join(one.words[-1] for one in command.commands)
    if below:
        yield f'        *) _binade_words {shlex.quote(below)} "$3" ;;'
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
