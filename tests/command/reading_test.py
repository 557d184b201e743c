# SPDX-License-Identifier: Apache-2.0
"""How far `moiety trace` is with a long file, on a terminal."""

import gzip
import re

import pytest
from moiety._trace.files import opened
from starting import run_on_terminal

OPERATIONS = 60_000


def long_trace():
    """A file that is read for longer than a moment."""
    lines = ["moiety-trace 1", "T 0 main", "S 0 legacy"]
    for _ in range(OPERATIONS // 2):
        lines += ["a 10 0 0 4096 0", "f 10 0 0 0"]
    return "\n".join([*lines, f"E {OPERATIONS}", ""]).encode()


@pytest.mark.parametrize("name", ["long.mtrace", "long.mtrace.gz"])
def test_a_terminal_sees_how_much_is_read(name, tmp_path):
    path, data = tmp_path / name, long_trace()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    for arguments in (("info", path),
                      ("convert", path, tmp_path / "out.mtrace")):
        code, out, shown = run_on_terminal("trace", *arguments)
        steps = re.findall(r"\r\x1b\[K\[([#.]{20})\] (\d+) % \d+:\d\d "
                           + re.escape(name), shown)
        parts = [int(part) for _, part in steps]
        assert code == 0 and parts and parts == sorted(parts)
        assert all(0 < int(part) <= 100 and marks.count("#") == int(part) // 5
                   for marks, part in steps)
        assert shown.endswith("\r\x1b[K") and "\n" not in shown
        assert str(OPERATIONS) in out and "\x1b" not in out


def test_what_is_wrong_has_a_line_of_its_own(tmp_path):
    path = tmp_path / "cut.mtrace"
    path.write_bytes(long_trace()[:-3])
    code, _, shown = run_on_terminal("trace", "info", path)
    assert code == 1
    assert re.search(r"\r\x1b\[Kmoiety: [^\r\n]*cut\.mtrace: ", shown)


def test_whoever_reads_is_told_of_each_byte_once(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"x" * 200_000)
    told = []
    with opened(path, lambda done, of: told.append((done, of))) as file:
        while file.read(10_000):
            pass
    dones = [done for done, _ in told]
    assert dones == sorted(dones) and dones[-1] == 200_000
    assert len(set(dones)) > 3 and {of for _, of in told} == {200_000}
