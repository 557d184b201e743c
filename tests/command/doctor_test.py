# SPDX-License-Identifier: Apache-2.0
"""moiety doctor as a process, in circumstances that are made for it."""

import ctypes
import json
import platform
import struct
import subprocess
import sys

import pytest

from moiety._doctor.machine import _CALLS, is_served
from starting import COMMAND, run, run_on_terminal

# The kernel's ABI, for a filter of system calls.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # the latter with EPERM

# Where no package is, as importing them all takes seconds.
BARE = [sys.executable, "-S", *COMMAND[1:]]


def bare_doctor(**environment):
    return findings(run("doctor", "--json", command=BARE, **environment))


def doctor(**environment):
    return findings(run("doctor", "--json", **environment))


def findings(ended):
    """The exit code and the findings by their check."""
    assert ended.stderr == ""
    about = json.loads(ended.stdout)
    assert about["is_well"] == (ended.returncode == 0)
    found = {one["check"]: one for one in about["findings"]}
    assert len(found) == len(about["findings"])
    return ended.returncode, found


@pytest.fixture(scope="module")
def usual():
    return doctor(MOIETY_CONF=None, MOIETY_STANDIN_DEVICES=2)


def test_on_the_standin_all_is_well_but_no_gpu_is_there(usual):
    code, found = usual
    assert code == 0
    assert found["driver"]["verdict"] == "unknown"
    assert "the stand-in" in found["driver"]["reason"]
    for check in ("contexts", "device 0", "device 1", "MOIETY_CONF", "NumPy",
                  "numba", "cuda.core"):
        assert found[check]["verdict"] == "ok", found[check]
    assert {"memory near 0", "memory near 1", "membarrier"} <= found.keys()


def test_the_text_has_the_same_and_a_sum(usual):
    ended = run("doctor", MOIETY_CONF=None, MOIETY_STANDIN_DEVICES=2)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    for check, one in usual[1].items():
        assert any(line.startswith(f"{one['verdict']:<9}{check}: ")
                   for line in lines), check
    assert lines[-1].startswith(f"{len(usual[1])} checks: ")
    for line in lines:  # a path is not broken
        assert len(line) <= 80 or len(line.split()) == 1, line


def test_a_terminal_sees_what_is_looked_at():
    code, _, shown = run_on_terminal("doctor", command=BARE)
    assert code == 0 and "\r\x1b[Kmembarrier ..." in shown
    assert shown.endswith("\r\x1b[K")


def test_without_a_driver_it_is_broken_and_goes_on():
    code, found = doctor(MOIETY_DRIVER="/nowhere/libcuda.so.1")
    assert code == 1 and found["driver"]["verdict"] == "broken"
    assert "/nowhere/libcuda.so.1" in found["driver"]["reason"]
    assert "device 0" not in found and "kernel" in found


def test_an_old_driver_is_unsafe_and_says_why():
    code, found = bare_doctor(MOIETY_STANDIN_DRIVER_VERSION=11080)
    assert code == 1 and found["contexts"]["verdict"] == "unsafe"
    assert "before CUDA 12.0" in found["contexts"]["reason"]
    assert found["device 0"]["verdict"] == "slow"
    assert "12.5" in found["device 0"]["advice"]


def test_a_wrong_moiety_conf_is_broken():
    code, found = bare_doctor(MOIETY_CONF="limits:1G")
    assert (code, found["MOIETY_CONF"]["verdict"]) == (1, "broken")
    assert "'limits' is not known" in found["MOIETY_CONF"]["reason"]


def test_a_topology_of_another_machine_is_noticed():
    _, found = bare_doctor(HWLOC_SYNTHETIC="node:2 pu:2")
    assert found["memory near 0"]["verdict"] == "unknown"
    assert "HWLOC_SYNTHETIC" in found["memory near 0"]["reason"]
    _, found = bare_doctor(HWLOC_XMLFILE="/nowhere.xml")
    assert found["memory near 0"]["verdict"] == "unknown"
    assert "/nowhere.xml" in found["memory near 0"]["reason"]


def refuse(*names):
    """A function that has the kernel refuse system calls from now on."""
    numbers = [_CALLS[platform.machine()][name] for name in names]
    program = [struct.pack("HBBI", LOAD, 0, 0, 0)]
    for left, number in enumerate(reversed(numbers)):
        program.insert(1, struct.pack("HBBI", EQUAL, left + 1, 0, number))
    program += [struct.pack("HBBI", RETURN, 0, 0, ALLOW),
                struct.pack("HBBI", RETURN, 0, 0, REFUSE)]
    code = ctypes.create_string_buffer(b"".join(program))
    about = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)

    def refuse_now():
        if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                or libc.prctl(PR_SET_SECCOMP, 2, about, 0, 0) or not code):
            raise OSError(ctypes.get_errno(), "prctl")
    return refuse_now


def test_what_a_container_forbids_is_noticed():
    names = ("membarrier", "move_pages", "mbind")
    assert [is_served(name) for name in names] == [True] * 3
    ended = subprocess.run(
        [*BARE, "doctor", "--json"], preexec_fn=refuse(*names), text=True,
        capture_output=True, timeout=120, check=False)
    found = {one["check"]: one for one in json.loads(ended.stdout)["findings"]}
    assert found["membarrier"]["verdict"] == "slow"
    assert "pays a fence" in found["membarrier"]["reason"]
    assert "mbind and move_pages are refused" in found["binding"]["reason"]
