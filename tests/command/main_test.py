# SPDX-License-Identifier: Apache-2.0
"""What holds for all commands: help, errors, exit codes, ends of pipes."""

import os
import signal
import socket
import subprocess

import pytest

import moiety
from moiety._cli.main import parser
from starting import COMMAND, run

COMMANDS = [("info",), ("doctor",), ("topo",), ("bench",), ("replay",), ("fit",),
            ("trace", "convert"), ("trace", "info"), ("stats",), ("snapshot",),
            ("completion",), ("serve",),
            ("regions",)]


def commands_of(made, words=()):
    """Each command of a parser that is no group of others."""
    groups = [action for action in made._actions if action.nargs == "A..."]
    if not groups:
        return {words}
    return set().union(*(commands_of(one, (*words, name))
                         for name, one in groups[0].choices.items()))


def test_the_list_of_commands_is_whole():
    assert commands_of(parser()) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_has_help_with_examples_and_exit_codes(command):
    ended = run(*command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: moiety {' '.join(command)} ")
    assert f"\nexamples:\n  moiety {' '.join(command)}" in ended.stdout
    assert "\nexit codes:\n  0  " in ended.stdout
    assert "--json" in ended.stdout or command in (("completion",), ("serve",))
    ours, _, _ = ended.stdout.partition("\noptions of the program:\n")
    for line in ours.splitlines():
        assert len(line) <= 80, line


def test_without_a_command_it_prints_help():
    ended = run()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == run("--help").stdout
    for line in ("  info ", "  trace ", "  stats ", "  130  interrupted"):
        assert line in ended.stderr


def test_it_tells_its_version():
    ended = run("--version")
    assert (ended.returncode, ended.stdout) == (
        0, f"moiety {moiety.__version__}\n")


@pytest.mark.parametrize("words", [
    ("inform",), ("info", "--xml"), ("trace",), ("--xml",), ("info", "more")])
def test_a_wrong_command_line_is_2(words):
    ended = run(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: moiety")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words, usage, error", [
    ("docter", "moiety", "moiety: error: there is no command docter, did you "
     "mean doctor?; accepted are info, doctor, topo,"),
    ("help", "moiety", "moiety: error: there is no command help; accepted are "),
    ("trace covert", "moiety trace", "moiety trace: error: there is no command "
     "covert, did you mean convert?; accepted are convert, info\n"),
    ("--versoin", "moiety", "moiety: error: --versoin is not accepted, did you "
     "mean --version?\n"),
    ("doctor --jsn", "moiety doctor", "moiety doctor: error: --jsn is not "
     "accepted, did you mean --json?\n"),
    ("replay --subjct=moiety a.mtrace", "moiety replay", "moiety replay: error: "
     "--subjct is not accepted, did you mean --subject?\n"),
    ("replay -x a.mtrace", "moiety replay",
     "moiety replay: error: -x is not accepted\n"),
    ("topo more", "moiety topo", "moiety topo: error: more is not accepted\n"),
    ("replay --driver=standing a.mtrace", "moiety replay", "moiety replay: "
     "error: --driver=standing is not accepted, did you mean standin?; accepted "
     "are auto, cuda, standin or a path with a / in it\n"),
])
def test_a_wrong_word_is_told_beside_the_nearest_one(words, usage, error):
    ended = run(*words.split())
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"usage: {usage} [-h]")
    assert error in ended.stderr


def start(*arguments, **options):
    return subprocess.Popen([*COMMAND, *arguments], text=True,
                            stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("words", [("info",), ("info", "--json"), ("--help",)])
def test_a_reader_that_has_gone_is_no_message(words):
    reader, writer = os.pipe()
    os.close(reader)
    ended = start(*words, stdout=writer)
    os.close(writer)
    assert ended.communicate(timeout=60)[1] == ""
    assert ended.returncode == 141


def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:
        ended = start("info", stdout=full)
    assert ended.communicate(timeout=60)[1] == (
        "moiety: No space left on device\n")
    assert ended.returncode == 1


@pytest.mark.parametrize("words", [
    ("info",), ("info", "--json"), ("doctor",), ("--help",), ("--version",)])
def test_output_that_is_closed_is_one_line(words):
    ended = start(*words, preexec_fn=lambda: os.close(1))
    assert ended.communicate(timeout=60)[1] == "moiety: Bad file descriptor\n"
    assert ended.returncode == 1


def test_messages_without_standard_error_go_nowhere():
    ended = subprocess.run([*COMMAND, "stats", "/nowhere"], check=False,
                           stdout=subprocess.PIPE, timeout=60,
                           preexec_fn=lambda: os.close(2))
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_an_interrupt_is_130_and_no_traceback(tmp_path):
    """While it waits for a process that never answers."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        ended = start("stats", path, stdout=subprocess.DEVNULL)
        with server.accept()[0] as connection:
            assert connection.recv(64) == b"stats\n"
            ended.send_signal(signal.SIGINT)
            assert ended.communicate(timeout=60)[1] == ""
    assert ended.returncode == 130
