# SPDX-License-Identifier: Apache-2.0
"""moiety.observe and `python -m moiety stats`: the numbers of a process that
serves, and processes that do not."""

import json
import os
import socket
import threading

import moiety
import pytest
from moiety import observe
from moiety._observe.client import ask
from expose_support import exposed, run, run_outside
from prometheus_client.parser import text_string_to_metric_families


def test_stats_are_the_pools(pool):
    with exposed() as path:
        blocks = [pool.alloc(5000 * i) for i in range(1, 9)]
        observe.stats(path)  # the thread that serves counts from here on
        answer = observe.stats(path)
        [found] = answer["pools"]
        assert found["stats"] == pool.stats().as_dict()
        assert (found["device"], found["memory"]) == (0, "device")
        assert found["source"] == "cuMemMap"
        assert found["limit_bytes"] == pool.stats().limit_bytes
        assert answer["pid"] == os.getpid()
        assert answer["version"] == moiety.version()
        assert observe.stats(path, found["id"])["pools"] == [found]
        with pytest.raises(observe.ExposeError, match="no pool of that id"):
            observe.stats(path, found["id"] + 1000)
        del blocks


def test_arenas_are_pools_too(arena):
    block = arena.alloc(5000)
    with exposed() as path:
        observe.stats(path)
        [found] = observe.stats(path)["pools"]
        assert found["memory"] == "pinned"
        stats = arena.stats().as_dict()
        del stats["host"]
        assert found["stats"] == stats
    block.free()


def test_a_process_serves_once():
    with exposed() as path:
        with pytest.raises(moiety.Error, match="exposed already") as caught:
            observe.start(path + "2")
        assert caught.value.status == "E_IN_USE"
    assert not os.path.exists(path)
    with pytest.raises(moiety.Error, match="No such file"):
        observe.start("/nowhere/at/all")
    with pytest.raises(ValueError):
        observe.start("with\0zero")
    with pytest.raises(TypeError):
        observe.start(7)


def test_prometheus_reads_it(pool, arena):
    blocks = [pool.alloc(5000), arena.alloc(70)]
    with exposed() as path:
        observe.stats(path)
        answer = observe.stats(path)
        text = observe.prometheus(answer)
        printed = run_outside("stats", "--prometheus", path)
    assert (printed.returncode, printed.stderr) == (0, "")
    families = {family.name: family
                for family in text_string_to_metric_families(text)}
    assert families.keys() == {
        family.name for family in
        text_string_to_metric_families(printed.stdout)}
    values = {}
    for family in families.values():
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            key = (sample.name, *(sample.labels.get(one) for one in (
                "pool", "step", "result", "where")))
            assert key not in values
            values[key] = sample.value
    # Every number is there, under some name.
    for one in answer["pools"]:
        number = str(one["id"])
        found = sorted(value for key, value in values.items()
                       if key[1] == number
                       and key[0] != "moiety_pool_readable")
        assert found == sorted(map(float, one["stats"].values()))
        assert values["moiety_pool_readable", number, None, None, None] == 1
        assert values["moiety_reserved_bytes", number, None, None, None] == (
            one["stats"]["reserved_bytes.all.current"])
        assert values["moiety_allocations_total", number, None, None, None] == 1
        assert values["moiety_oom_steps_total", number, "grow", None,
                      None] == one["stats"]["oom.grow"]
    del blocks


def test_prometheus_gets_names_escaped():
    name = 'a "b" \\ c\nd'
    text = observe.prometheus({
        "version": name, "pools": [
            {"id": 1, "device": 0, "memory": "device", "source": name,
             "error": {"status": "MOIETY_E_IN_USE", "message": "why"}}]})
    families = {family.name: family
                for family in text_string_to_metric_families(text)}
    assert families["moiety_info"].samples[0].labels["version"] == name
    [sample] = families["moiety_pool_readable"].samples
    assert (sample.labels["source"], sample.value) == (name, 0)


def test_command(pool):
    block = pool.alloc(5000)
    with exposed() as path:
        number = observe.stats(path)["pools"][0]["id"]
        printed = run("stats", path)
        assert (printed.returncode, printed.stderr) == (0, "")
        assert f"process {os.getpid()}, moiety {moiety.version()}, 1 pools\n" \
            in printed.stdout
        assert "  allocation.all.current: 1\n" in printed.stdout
        printed = run("stats", "--json", f"--pool={number}", path)
        assert json.loads(printed.stdout) == observe.stats(path) | {
            key: json.loads(printed.stdout)[key]
            for key in ("time_ns", "epoch_ns")}
        for arguments, words in (
                (("--pool=0", path), "accepted are numbers from 1 on"),
                (("--pool=x", path), "'x': accepted"),
                (("--json", "--prometheus", path), "not allowed with"),
                ((), "required: SOCKET")):
            printed = run("stats", *arguments)
            assert printed.returncode == 2 and words in printed.stderr
        printed = run("stats", f"--pool={number + 1}", path)
        assert printed.returncode == 1 and "no pool of that" in printed.stderr
    printed = run("stats", path)
    assert (printed.returncode, printed.stdout) == (1, "")
    assert printed.stderr == f"moiety: {path}: No such file or directory\n"
    block.free()


class Liar:
    """Serves one client with these pieces."""

    def __init__(self, folder, *pieces):
        self.path = str(folder / "liar")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._pieces = pieces
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        client, _ = self._listener.accept()
        with client:
            client.recv(100)
            for piece in self._pieces:
                if callable(piece):
                    piece()
                else:
                    client.sendall(piece)

    def end(self):
        self._thread.join()
        self._listener.close()
        os.unlink(self.path)


@pytest.mark.parametrize("piece, words", [
    (b"", "without an answer"), (b"{", "cut off"), (b"{}", "cut off"),
    (b"\xff\n", "cut off"), (b"[1]\n", "cut off"), (b"[" * 99999 + b"\n",
                                                   "cut off"),
    (b"{}\n", "format None"), (b'{"format": 2}\n', "format 2"),
    (b'{"error": {"message": "so"}}\n', "so"), (b'{"error": 1}\n', "unknown"),
])
def test_who_is_no_moiety_is_recognised(tmp_path_factory, piece, words):
    folder = tmp_path_factory.mktemp("l")
    if len(str(folder)) > 90:
        os.chdir(folder)
        folder = type(folder)(".")
    liar = Liar(folder, piece)
    with pytest.raises(observe.ExposeError, match=words):
        ask(liar.path, "stats")
    liar.end()


def test_who_says_nothing_is_not_waited_for(tmp_path):
    os.chdir(tmp_path)
    over = threading.Event()
    liar = Liar(type(tmp_path)("."), b"{", over.wait)
    with pytest.raises(observe.ExposeError, match="no answer within 0.1 s"):
        ask(liar.path, "stats", timeout_s=0.1)
    over.set()
    liar.end()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind("dead")
    with pytest.raises(observe.ExposeError, match="nobody serves there"):
        ask("dead", "stats")
