# SPDX-License-Identifier: Apache-2.0
"""The command on small traces, as a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

RUNFILES = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
PROGRAM = RUNFILES / "bench/replay/replay"
COMMAND = [sys.executable, "-B", "-m", "moiety", "replay"]


def environment(folder, **others):
    """Copies of traces lie in `folder`/tmp. A variable that is None is not
    set."""
    (folder / "tmp").mkdir(exist_ok=True)
    wanted = os.environ | {"MOIETY_REPLAY": str(PROGRAM),
                           "TMPDIR": str(folder / "tmp")} | others
    return {name: str(value) for name, value in wanted.items()
            if value is not None}


def run(folder, *arguments, **others):
    """What became of it, in `folder`; nothing is left in its tmp."""
    ended = subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=folder, capture_output=True,
        text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        env=environment(folder, **others))
    assert list((folder / "tmp").iterdir()) == []
    return ended


def trace(block_count=300, live_count=8):
    """Blocks of 1000 bytes and more, of which so many are live at one time."""
    lines = ["moiety-trace 1", "I source hand", "T 0 main", "S 0 legacy"]
    operations = 0
    for block in range(block_count + live_count):
        if block >= live_count:
            lines.append(f"f 10 0 {block % live_count} 0")
            operations += 1
        if block < block_count:
            lines.append(f"a 10 0 {block % live_count} {1000 + 16 * block} 0")
            operations += 1
    return "\n".join([*lines, f"E {operations}", ""]).encode()


def written(folder, data=None, name="some.mtrace"):
    path = folder / name
    path.write_bytes(trace() if data is None else data)
    return path


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def script(folder, text):
    """A program that takes the place of the one that replays. Asked whether a
    command line is right, it agrees."""
    path = folder / "program"
    path.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--list) exit 0 ;; esac\n' + text)
    path.chmod(0o755)
    return path
