# SPDX-License-Identifier: Apache-2.0
"""moiety completion: what bash makes of the script, and that the other shells'
scripts have all that there is."""

import subprocess

import pytest

from moiety._cli.completion import bash_script, fish_script
from moiety._cli.main import parser
from moiety._cli.tree import tree_of
from starting import run

# As bash itself calls the function; a line for each word that it may be.
ASK = """
. "$1"
shift
[ "$(complete -p moiety)" = "complete -F _moiety moiety" ] || exit 9
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_moiety moiety "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""
FILES = {"a file.csv", "run.mtrace", "*"}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """What may stand at the end of a command line, in a folder with FILES."""
    folder = tmp_path_factory.mktemp("folder")
    for name in FILES:
        (folder / name).write_text("")
    script = tmp_path_factory.mktemp("script") / "moiety.bash"
    script.write_text(run("completion", "bash").stdout)

    def ask_bash(*words):
        ended = subprocess.run(
            ["bash", "--norc", "-c", ASK, "bash", script, "moiety", *words],
            cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.splitlines()
    return ask_bash


def test_bash_completes_commands(ask):
    everything = [one.words[-1] for one in tree_of(parser()).commands]
    assert ask("") == everything and "doctor" in everything
    assert ask("do") == ["doctor"] and ask("t") == ["topo", "trace"]
    assert ask("trace", "") == ["convert", "info"]
    assert ask("trace", "c") == ["convert"] and ask("nonsense", "d") == [
        "doctor"]


def test_bash_completes_options(ask):
    assert ask("--v") == ["--version"]
    assert ask("info", "--") == ["--help", "--json"]
    assert ask("stats", "--pro") == ["--prometheus"]
    assert ask("trace", "convert", "in", "--f") == ["--from"]
    assert ask("trace", "info", "--f") == []


@pytest.mark.parametrize("words", [
    ("--from", ""), ("--from", "="), ("--from", "=", "")])
def test_bash_completes_choices(ask, words):
    assert ask("trace", "convert", *words) == ["rmm", "torch", "moiety"]


def test_bash_completes_choices_as_far_as_they_are_typed(ask):
    assert ask("trace", "convert", "--from", "=", "t") == ["torch"]
    assert ask("trace", "convert", "--from=t") == ["--from=torch"]
    assert ask("completion", "") == ["bash", "zsh", "fish"]


def test_bash_completes_files_and_nothing_else_where_they_are_meant(ask):
    assert set(ask("trace", "info", "")) == FILES
    assert set(ask("snapshot", "socket", "--out", "")) == FILES
    assert ask("bench", "--json=x", "ru") == ["run.mtrace"]
    assert ask("stats", "--pool", "") == ask("doctor", "") == []


@pytest.mark.parametrize("shell, make", [
    ("bash", bash_script), ("zsh", bash_script), ("fish", fish_script)])
def test_the_script_is_made_from_the_parser(shell, make):
    made = parser()
    script = run("completion", shell).stdout
    assert script.endswith(make(tree_of(made)))
    assert "--colour" not in script and "-l colour" not in script
    made.add_argument("--colour", choices=["red", "green"], help="of the text")
    for word in ("colour", "red green"):
        assert word in make(tree_of(made))


def test_the_fish_script_has_each_option_with_its_help():
    script = run("completion", "fish").stdout
    for command in tree_of(parser()).all():
        place = " ".join(["__moiety_is", *command.words])
        lines = [line for line in script.splitlines()
                 if f"-n '{place}' " in line]
        for option in command.options:
            name = option.names[-1].lstrip("-")
            [line] = [line for line in lines if f" -l {name} " in line]
            assert option.help.replace("'", "\\'") in line
        assert sum(" -a " in line and " -d " in line and " -l " not in line
                   for line in lines) == len(command.commands)


def test_a_shell_that_is_not_known_is_refused():
    ended = run("completion", "tcsh")
    assert ended.returncode == 2 and "'tcsh'" in ended.stderr
