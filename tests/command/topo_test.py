# SPDX-License-Identifier: Apache-2.0
"""moiety topo."""

import json

from moiety import _native
from starting import run


def without_memory(text):
    return [line for line in text.splitlines() if " GiB " not in line]


def test_text_and_json_are_the_librarys():
    ended = run("topo")
    assert (ended.returncode, ended.stderr) == (0, "")
    # A virtual machine's memory may change meanwhile.
    assert without_memory(ended.stdout) == without_memory(_native.topology())
    assert "\n  node 0 " in ended.stdout and "\n  GPU 0 " in ended.stdout
    about = json.loads(run("topo", "--json").stdout)
    wanted = json.loads(_native.topology(json=True))
    assert about["gpus"] == wanted["gpus"] != []
    assert about.keys() == wanted.keys()


def test_another_machine_can_be_looked_at():
    about = json.loads(run("topo", "--json",
                           HWLOC_SYNTHETIC="node:3 pu:2").stdout)
    assert [node["cpus"] for node in about["nodes"]] == [2, 2, 2]
    assert about["is_this_system"] is False


def test_without_a_driver_it_says_why():
    ended = run("topo", MOIETY_DRIVER="/nowhere/libcuda.so.1")
    assert ended.returncode == 0 and "node 0 " in ended.stdout
    assert "/nowhere/libcuda.so.1" in ended.stdout


def test_a_topology_that_cannot_be_read_is_one_line():
    ended = run("topo", HWLOC_XMLFILE="/nowhere.xml")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("moiety: ")
    assert ended.stderr.count("\n") == 1
