# SPDX-License-Identifier: Apache-2.0
"""Each check of moiety doctor, on machines that are made up."""

import os
import resource

import pytest

from moiety._doctor import checks
from moiety._doctor.machine import VERDICTS, Finding, Machine, worst

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path):
    """Nothing is in /proc and /sys but what a test puts there."""
    made = Machine(tmp_path)
    made.environment = {}
    return made


def put(machine, path, text):
    path = machine.root / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def expect(found, verdict, words):
    assert (found.verdict, words in found.reason) == (verdict, True), found
    assert found.advice or verdict in ("ok", "unknown"), found


@pytest.mark.parametrize("release, verdict", [
    ("6.1.0-18-amd64", "ok"), ("4.14.0", "ok"), ("4.13.9", "lacking"),
    ("3.10.0-1160.el7", "lacking"), ("strange", "unknown"), ("", "unknown")])
def test_kernel(machine, release, verdict):
    put(machine, "proc/sys/kernel/osrelease", release)
    expect(checks.kernel(machine), verdict, "")


@pytest.mark.parametrize("is_served, verdict, words", [
    (True, "ok", "no fence"), (False, "slow", "a fence"),
    (None, "unknown", "not known")])
def test_membarrier(machine, is_served, verdict, words):
    machine.is_served = lambda name: is_served
    expect(checks.membarrier(machine), verdict, words)


@pytest.mark.parametrize("mode, limit_kib, used_kib, verdict, words", [
    (0, 0, 0, "ok", "is 0"), (1, 0, 0, "ok", "is 1"),
    (2, 8 << 20, 1 << 20, "ok", "7.0 GiB are left"),
    (2, 4 << 20, 2 << 20, "broken", "2.0 GiB are left"),
    ("x", 0, 0, "unknown", "cannot be read")])
def test_overcommit(machine, mode, limit_kib, used_kib, verdict, words):
    put(machine, "proc/sys/vm/overcommit_memory", mode)
    put(machine, "proc/meminfo", f"MemFree: 1 kB\nCommitLimit:  {limit_kib} kB"
        f"\nCommitted_AS:   {used_kib} kB")
    expect(checks.overcommit(machine), verdict, words)


@pytest.mark.parametrize("modes, verdict", [
    ("[always] madvise never", "ok"), ("always [madvise] never", "ok"),
    ("always madvise [never]", "slow")])
def test_transparent_huge_pages(machine, modes, verdict):
    put(machine, "sys/kernel/mm/transparent_hugepage/enabled", modes)
    expect(checks.transparent_pages(machine), verdict, "transparent")


def test_transparent_huge_pages_that_the_kernel_does_not_have(machine):
    expect(checks.transparent_pages(machine), "slow", "there are no")


def test_locked_memory(machine):
    machine.locked_bytes = resource.RLIM_INFINITY
    expect(checks.locked_memory(machine), "ok", "unlimited")
    machine.locked_bytes = 8 * MIB
    expect(checks.locked_memory(machine), "unknown", "8388608 bytes")


def put_process(machine, namespace):
    put(machine, "proc/self/stat", "1 (python) S")
    put(machine, "proc/sys/kernel/random/boot_id", "0-0")
    (machine.root / "proc/self/ns").mkdir(exist_ok=True)
    (machine.root / "proc/self/ns/pid").symlink_to(f"pid:[{namespace}]")


def test_sharing(machine):
    expect(checks.sharing(machine), "lacking", "which process")
    put_process(machine, 4026531836)
    expect(checks.sharing(machine), "ok", "one user")


def test_sharing_in_a_container(machine):
    put_process(machine, 4026532999)
    expect(checks.sharing(machine), "unknown", "a container")


@pytest.mark.parametrize("changes, verdict, words", [
    ({}, "ok", "on node 0: near"),
    ({"use": {"nodes": [0, 1], "is_fallback": True, "why": "not allowed"}},
     "slow", "on nodes 0, 1: not allowed"),
    ({"near": None, "use": {"nodes": [0, 1], "is_fallback": True,
                            "why": "locality is not known"}},
     "unknown", "locality is not known"),
    ({"driver_node": 1}, "unknown", "the driver says node 1")])
def test_place(machine, changes, verdict, words):
    machine.topology["gpus"] = [{
        "gpu": 0, "near": [0], "driver_node": None,
        "use": {"nodes": [0], "is_fallback": False, "why": "near"}, **changes}]
    expect(checks.place(machine, 0, None), verdict, words)


def test_place_of_a_device_that_the_topology_lacks(machine):
    expect(checks.place(machine, 7, None), "unknown", "does not have")


@pytest.mark.parametrize("cpus, verdict, words", [
    ({2, 5}, "ok", "2 that this process may use"),
    ({3, 8}, "slow", "from another node")])
def test_processors(machine, cpus, verdict, words):
    put(machine, "sys/devices/system/node/node0/cpulist", "0-2,5,7")
    machine.topology["gpus"][0]["near"] = [0]
    machine.cpus = cpus
    expect(checks.processors(machine, 0, None), verdict, words)


def test_processors_that_the_kernel_does_not_tell(machine):
    machine.topology["gpus"][0]["near"] = [0]
    expect(checks.processors(machine, 0, None), "unknown", "node 0")


@pytest.mark.parametrize("node_count, served, verdict, words", [
    (2, True, "ok", "can be bound"), (2, None, "unknown", "not known"),
    (2, False, "slow", "on any node"), (1, False, "ok", "nothing on one")])
def test_binding(machine, node_count, served, verdict, words):
    machine.topology["nodes"] = machine.topology["nodes"][:1] * node_count
    machine.is_served = lambda name: name != "mbind" or served
    expect(checks.binding(machine), verdict, words)


def put_group(machine, folder, limit, used, clean):
    put(machine, f"sys/fs/cgroup/{folder}/memory.max", limit)
    put(machine, f"sys/fs/cgroup/{folder}/memory.current", used)
    put(machine, f"sys/fs/cgroup/{folder}/memory.stat",
        f"anon 5\ninactive_file {clean}\nactive_file {clean}")


def test_group(machine):
    expect(checks.group(machine), "ok", "no bound")
    put(machine, "proc/self/cgroup", "0::/outer/inner")
    put_group(machine, "outer/inner", "max", 0, 0)
    expect(checks.group(machine), "ok", "no bound")
    put_group(machine, "outer", 900 * MIB, 800 * MIB, 20 * MIB)
    expect(checks.group(machine), "ok", "room for 140 MiB")
    put_group(machine, "outer/inner", 40 * MIB, 30 * MIB, 0)
    expect(checks.group(machine), "lacking", "room for 10 MiB")


@pytest.mark.parametrize("free_kib, verdict", [(90 << 10, "ok"),
                                               (10 << 10, "slow")])
def test_room(machine, free_kib, verdict):
    put(machine, "sys/devices/system/node/node0/meminfo",
        f"Node 0 MemTotal: 99999999 kB\nNode 0 MemFree: {free_kib} kB\n"
        f"Node 0 Active(file): 1024 kB\nNode 0 Active: 9999999 kB")
    machine.topology["gpus"][0]["use"]["nodes"] = [0]
    expect(checks.room(machine, 0, None), verdict,
           f"{(free_kib >> 10) + 1} MiB can be had")


def test_a_list_of_the_kernel_is_read():
    assert checks.numbers_in("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}
    assert checks.numbers_in("") == checks.numbers_in(None) == set()


@pytest.mark.parametrize("feature, words", [
    ("legacy IPC", "cannot be shared"),
    ("mapped memory (VMM)", "memory='mapped' is refused")])
def test_a_device_that_lacks_features(machine, feature, words):
    about = {**machine.devices[0]}
    expect(checks.device(machine, 0, about), "ok", about["name"])
    about["features"] = [name for name in about["features"] if name != feature]
    found = checks.device(machine, 0, about)
    assert found.verdict == "lacking" and words in found.reason


@pytest.mark.parametrize("said, failure, verdict, words", [
    ("mapped", None, "ok", "maps memory"),
    ("driver", None, "lacking", "and refuses"),
    ("", "moiety.Error: no", "unknown", "moiety.Error: no")])
def test_a_driver_that_refuses_mapped_memory(
        machine, monkeypatch, said, failure, verdict, words):
    monkeypatch.setattr(checks.packages, "in_child",
                        lambda code, *arguments: (said, failure))
    about = {"features": ["mapped memory (VMM)"]}
    expect(checks.mapping(machine, 0, about), verdict, words)
    assert checks.mapping(machine, 0, {"features": []}) is None


def test_mapped_memory_is_tried(machine, monkeypatch):
    about = machine.devices[0]
    expect(checks.mapping(machine, 0, about), "ok", "maps memory")
    monkeypatch.setenv("MOIETY_STANDIN_FAULTS", "cuMemMap:every=1:code=801")
    expect(checks.mapping(machine, 0, about), "lacking", "and refuses")


@pytest.mark.parametrize("version, verdict", [
    (11080, "unsafe"), (12000, "ok"), (13000, "ok")])
def test_contexts(machine, version, verdict):
    machine.devices[0]["driver_version"] = version
    expect(checks.contexts(machine), verdict, "number contexts"
           if verdict == "unsafe" else "numbers contexts")


@pytest.mark.parametrize("conf, verdict, words", [
    ("", "ok", "not set"),
    ("limit:1G,host_place:0", "ok", "limit:1G,host_place:0"),
    ("limits:1G", "broken", "'limits' is not known, did you mean 'limit'?"),
    ("limit:1G,limit:2G", "broken", "given twice"),
    ("host_huge:3M", "broken", "host_huge is '3M'"),
    ("watermark:8M,limit:4M", "broken", "no more than limit"),
    ("expose", "broken", "has no value"),
    ("limit:1G,checked:1", "slow", "checked:1 takes every call"),
])
def test_conf_is_read_as_pools_and_arenas_do(machine, conf, verdict, words):
    machine.environment["MOIETY_CONF"] = conf
    expect(checks.conf(machine), verdict, words)


@pytest.mark.parametrize("name, meant", [
    ("MOIETY_DRIVR", "MOIETY_DRIVER"), ("MOIETY_CONFIG", "MOIETY_CONF"),
    ("MOITY_CONF", "MOIETY_CONF"), ("MOIETY_TORCH_PREBUILD",
                                    "MOIETY_TORCH_PREBUILT")])
def test_a_misspelled_variable_is_found(machine, name, meant):
    machine.environment = {"HOME": "/", name: "1"}
    found = checks.variables(machine)
    expect(found, "lacking", f"{name} has no effect")
    assert found.advice == f"did you mean {meant}?"


@pytest.mark.parametrize("name", [
    *checks.VARIABLES, "MOIETY_STANDIN_FAULTS", "MOIETY_MINE", "CONF", "PATH"])
def test_other_variables_are_no_finding(machine, name):
    machine.environment = {name: "1"}
    assert checks.variables(machine) is None


def test_what_moiety_conf_would_begin_is_not_begun(machine, tmp_path,
                                                   monkeypatch):
    conf = f"expose:{tmp_path}/socket,trace:{tmp_path}/run.mtrace"
    machine.environment["MOIETY_CONF"] = conf
    monkeypatch.setenv("MOIETY_CONF", conf)
    expect(checks.conf(machine), "ok", conf)
    assert list(tmp_path.iterdir()) == []
    assert os.environ["MOIETY_CONF"] == conf


def test_a_check_that_fails_is_a_finding(machine, monkeypatch):
    def failing(machine):
        raise OSError("gone")

    monkeypatch.setattr(checks, "CHECKS", (failing,))
    monkeypatch.setattr(checks, "DEVICE_CHECKS", ())
    seen = []
    assert list(checks.findings(machine, seen.append)) == [
        Finding("failing", "unknown", "the check failed: OSError: gone")]
    assert seen == ["failing"]


def test_the_worst_verdict_counts():
    assert worst([]) == "ok" and worst(["slow", "lacking"]) == "slow"
    assert worst(VERDICTS) == "broken"
