# SPDX-License-Identifier: Apache-2.0
"""The command line: binade completion."""

import sys

from binade._command import add_command
from binade._command_tree import tree_of
from binade._completion_bash import bash_script, zsh_script
from binade._completion_fish import fish_script

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}

_DESCRIPTION = """\
Prints a script that has a shell complete binade's commands, options and files.
"""

_EPILOG = """\
examples:
  binade completion bash >~/.local/share/bash-completion/completions/binade
  eval "$(binade completion zsh)"       # in ~/.zshrc
  binade completion fish >~/.config/fish/completions/binade.fish

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
