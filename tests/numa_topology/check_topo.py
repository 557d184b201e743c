# SPDX-License-Identifier: Apache-2.0
"""check_topo.py NAME: is the JSON on standard input what topo has to print?"""

import json
import sys


def nodes_by_number(report):
    return {node["node"]: node for node in report["nodes"]}


def this_machine(report):
    assert report["is_this_system"] is True
    assert report["source"] == "this machine"
    assert report["driver"]["is_standin"] is True
    assert report["driver_error"] is None
    assert any(node["is_allowed"] for node in report["nodes"])
    assert len(report["gpus"]) == 1
    assert report["gpus"][0]["bus_id"] == "0000:20:00.0"
    assert report["gpus"][0]["use"]["nodes"]


def dgx(report):
    nodes = nodes_by_number(report)
    assert report["is_this_system"] is False
    assert sorted(nodes) == [0, 1]
    assert nodes[0]["bytes"] == 1 << 40
    assert nodes[0]["near_gpus"] == [0, 1, 2, 3]
    assert nodes[1]["near_gpus"] == [4, 5, 6, 7]
    assert nodes[0]["distances"] == {"0": 10, "1": 21}
    assert [gpu["near"] for gpu in report["gpus"]] == [[0]] * 4 + [[1]] * 4
    assert not any(gpu["use"]["is_fallback"] for gpu in report["gpus"])


def cpuset(report):
    nodes = nodes_by_number(report)
    allowed = [node for node in nodes if nodes[node]["is_allowed"]]
    assert allowed == [1, 3]
    near, unknown = report["gpus"]
    assert near["near"] == [2]
    assert near["use"]["nodes"] == [3] and near["use"]["is_fallback"]
    assert unknown["near"] is None
    assert unknown["use"]["nodes"] == [1, 3] and unknown["use"]["is_fallback"]


def tiers(report):
    nodes = nodes_by_number(report)
    kinds = [nodes[node]["kind"] for node in sorted(nodes)]
    assert kinds == ["dram", "dram", "hbm", "slow", "cpuless", "cpuless"]
    assert nodes[2]["bandwidth_mib_s"] == 400000
    assert nodes[4]["bandwidth_mib_s"] is None
    assert nodes[3]["cpus"] == 0 and nodes[1]["cpus"] == 2


def no_driver(report):
    assert report["driver"] is None
    assert "/nowhere/libcuda.so" in report["driver_error"]
    assert report["gpus"] == []
    assert report["nodes"]


if __name__ == "__main__":
    globals()[sys.argv[1]](json.load(sys.stdin))
