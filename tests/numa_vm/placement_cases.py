# SPDX-License-Identifier: Apache-2.0
"""What the kernel and hwloc do, without the library: what the library's own
cases stand on, and where they come from."""

from machines import FOUR, FOUR_SETUP, TWO, TWO_SETUP
from steps import Case, Run

MIB = 1 << 20


def placed(name, node, pages, command):
    """Every page is on the node that was asked for."""
    wants = f"asked {pages}, node {node}: {pages}"
    return Case(name, command, wants, nodes=[node])


def placement(node, mebibytes, how):
    return f"placement bind {node} {mebibytes * MIB} {how}"


# Signals that end a program: 128 and the number of the signal.
BUS_ERROR = 128 + 7
KILLED = 128 + 9

TWO_NODES = [
    Case("two nodes", "placement nodes", "node 0: 2 CPUs, node 1: 2 CPUs"),
    placed("two nodes: node 0", 0, 2048, placement(0, 8, "strict")),
    placed("two nodes: node 1", 1, 2048, placement(1, 8, "strict")),
    # It is the binding that does it.
    Case(
        "two nodes: node 1, not bound, touched from node 0",
        f"taskset 1 {placement(1, 8, 'unbound')}",
        "asked 2048, node 0: 2048",
        nodes=[1],
    ),
]

TWO_DEVICES = [
    placed(
        "two devices: next to the one on node 0",
        0,
        2048,
        placement(TWO.bus_id(0), 8, "strict"),
    ),
    placed(
        "two devices: next to the one on node 1",
        1,
        2048,
        placement(TWO.bus_id(1), 8, "strict"),
    ),
    Case(
        "a device on the root bus",
        f"placement device {TWO.bus_id(2)}",
        "near no node",
    ),
]

HUGE_PAGES = [
    placed(
        "huge pages on node 1 only: node 1",
        1,
        2048,
        f"huge_pages 4; {placement(1, 8, 'strict huge')}",
    ),
    Case(
        "huge pages on node 1 only: node 0, preferred",
        placement(0, 8, "preferred huge"),
        "asked 2048, node 1: 2048",
        nodes=[0],
    ),
    # Nothing says no before the touch.
    Case(
        "huge pages on node 1 only: node 0, strict",
        placement(0, 8, "strict huge"),
        "Bus error",
        BUS_ERROR,
    ),
    Case("no huge pages any more", "huge_pages 0", ""),
]

RESTRICTED = [
    Case(
        "restricted to node 1: what is seen",
        "in_cpuset placement nodes",
        "node 1: 2 CPUs",
    ),
    placed(
        "restricted to node 1: node 1",
        1,
        2048,
        f"in_cpuset {placement(1, 8, 'strict')}",
    ),
    Case(
        "restricted to node 1: node 0, strict",
        f"in_cpuset {placement(0, 8, 'strict')}",
        "bind: Invalid argument",
        1,
    ),
    Case(
        "restricted to node 1: node 0, preferred",
        f"in_cpuset {placement(0, 8, 'preferred')}",
        "bind: Invalid argument",
        1,
    ),
]

# How much has to go elsewhere is the kernel's to say.
FULL = [
    Case(
        "node 1 full: preferred",
        f"fill_node_1; {placement(1, 64, 'preferred')}",
        r"asked 16384, node 0: \d{3,5}, node 1: \d+",
        nodes=[1],
    ),
    # The bind succeeds: it is the touch that the kernel answers, by killing.
    Case(
        "node 1 full: strict",
        placement(1, 64, "strict"),
        "Killed",
        KILLED,
    ),
]

FOUR_NODES = [
    Case(
        "four nodes",
        "placement nodes",
        "node 0: 1 CPUs, node 1: 2 CPUs, node 2: 1 CPUs, node 3: 0 CPUs",
    ),
    placed("four nodes: node 0", 0, 4096, placement(0, 16, "strict")),
    placed("four nodes: node 1", 1, 2048, placement(1, 8, "strict")),
    placed("four nodes: node 2", 2, 8192, placement(2, 32, "strict")),
    placed(
        "four nodes: node 3, which has no CPUs",
        3,
        16384,
        placement(3, 64, "strict"),
    ),
    placed(
        "four nodes: next to the device on node 2",
        2,
        2048,
        placement(FOUR.bus_id(1), 8, "strict"),
    ),
    # hwloc goes by CPUs: it does not find the node, and the kernel knows it.
    Case(
        "a device next to the node without CPUs",
        f"placement device {FOUR.bus_id(0)}; "
        f"cat /sys/bus/pci/devices/{FOUR.bus_id(0)}/numa_node",
        "near no node\n3",
    ),
]

RUNS = [
    Run(
        TWO, TWO_SETUP, TWO_NODES + TWO_DEVICES + HUGE_PAGES + RESTRICTED + FULL
    ),
    Run(FOUR, FOUR_SETUP, FOUR_NODES),
]
