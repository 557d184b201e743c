# SPDX-License-Identifier: Apache-2.0
"""Host arenas of the library, with the guest's devices as the stand-in's GPUs:
from a device to the nodes next to it, to memory that is there. //numa:topo must
say the same of these devices."""

from machines import FOUR, FOUR_SETUP, TWO, TWO_SETUP
from steps import Case, Run

MIB = 1 << 20


def arena(words, mebibytes, flags=""):
    return f"arena {words} {mebibytes * MIB} {flags}".rstrip()


def said(pages, counts, near, fell="", report=".*"):
    """The pages as the kernel counts them, then as the library does."""
    where = "".join(f", node {node}: {count}" for node, count in counts)
    return (
        f"asked {pages}{where}\n"
        f"library: asked {pages}, near {near}, elsewhere {pages - near}; "
        f"fell to:{fell}\n"
        f"library: {report}"
    )


def placed(name, node, pages, command, fell="", why=".*"):
    """Every page is on the node that was asked for, and both say so."""
    report = rf"node {node} \({why}"
    wants = said(pages, [(node, pages)], pages, fell, report)
    return Case(name, command, wants, nodes=[node])


def refused(name, command, status, words):
    return Case(name, command, f"{status}: .*{words}.*", 1)


def shown(name, command, gpus):
    """What //numa:topo says of each GPU: (near it, used for it)."""
    wants = "\n".join(
        rf"           near it: {near}\n           pinned memory for it: {used}.*"
        for near, used in gpus
    )
    return Case(name, f"{command} | grep ' it: '", wants)


TWO_NODES = [
    placed("on node 0", 0, 2048, arena("on 0", 8, "strict")),
    placed("on node 1", 1, 2048, arena("on 1", 8, "strict")),
    Case(
        "across both",
        arena("across 0,1", 8, "strict"),
        said(2048, [(0, 1024), (1, 1024)], 2048),
        nodes=[0, 1],
    ),
    placed(
        "on the node of a thread that runs on node 1",
        1,
        2048,
        f"taskset 4 {arena('caller', 8, 'strict')}",
    ),
    refused(
        "on node 5, which is not there",
        arena("on 5", 8),
        "MOIETY_E_INVALID",
        "node 5",
    ),
    refused(
        "on node 1, more than it has",
        arena("on 1", 512, "strict"),
        "MOIETY_E_TOO_LARGE",
        "node 1",
    ),
]

TWO_DEVICES = [
    shown(
        "topo: two nodes",
        "topo",
        [("0", "0, "), ("1", "1, "), ("not known", "0-1, .*not known")],
    ),
    placed("near GPU 0", 0, 2048, arena("near 0", 8, "strict")),
    placed("near GPU 1", 1, 2048, arena("near 1", 8, "strict")),
    Case(
        "near GPU 2, which is on the root bus",
        arena("near 2", 8),
        said(
            2048, [(r"\d", 2048)], 2048, " other nodes", ".*not known.*"
        ),
        nodes=[0, 1],
    ),
    placed(
        "near GPU 2, of which the driver says node 1",
        1,
        2048,
        f"MOIETY_STANDIN_HOST_NODE=1 {arena('near 2', 8, 'strict')}",
        why="the node that the driver says.*",
    ),
    placed(
        "on node 1, in a thread of the library",
        1,
        2048,
        arena("on 1", 8, "strict async"),
    ),
    # Which need not begin at 2 MiB: the arena has 2 MiB more.
    Case(
        "on node 1, allocated by the driver",
        arena("on 1", 8, "strict driver"),
        "asked 2048, node 1: 2048\n"
        r"library: asked 2560, near 2560, elsewhere 0; fell to:\nlibrary: .*",
        nodes=[1],
    ),
    refused(
        "near GPU 2, which is on the root bus, strict",
        arena("near 2", 8, "strict"),
        "MOIETY_E_UNSUPPORTED",
        "not known",
    ),
]

# What `killed` says when nothing is left of them.
KILLED = r" *%d 137\nall is back\ngrowing"

# 14 had 16 MiB each of a node of 192.
KILLED_PAGES = [
    Case("killed 19 times while they grow on node 1", "killed 14", KILLED % 19),
]

HUGE_PAGES = [
    placed(
        "huge pages on node 1 only: near GPU 1",
        1,
        2048,
        f"huge_pages 4; {arena('near 1', 8, 'strict 2MiB')}",
    ),
    # Near is worth more than huge.
    placed(
        "huge pages on node 1 only: near GPU 0",
        0,
        2048,
        arena("near 0", 8, "2MiB"),
        " transparent",
    ),
    refused(
        "huge pages on node 1 only: near GPU 0, strict",
        arena("near 0", 8, "strict 2MiB"),
        "MOIETY_E_NO_PINNED_MEMORY",
        "node 0: no free huge pages there",
    ),
    placed(
        "huge pages, too few: near GPU 1",
        1,
        4096,
        arena("near 1", 16, "2MiB"),
        " transparent",
    ),
    # 16 MiB, of which each had up to 16.
    Case(
        "huge pages on node 1 only: killed 8 times, then near GPU 1",
        "huge_pages 8; killed 3 2MiB",
        KILLED % 8,
    ),
    Case("no huge pages any more", "huge_pages 0", ""),
]

RESTRICTED = [
    shown(
        "restricted to node 1: topo",
        "in_cpuset topo",
        [("0", "1, no memory near"), ("1", "1, "), ("not known", "1, ")],
    ),
    placed(
        "restricted to node 1: near GPU 1",
        1,
        2048,
        f"in_cpuset {arena('near 1', 8, 'strict')}",
    ),
    placed(
        "restricted to node 1: near GPU 0",
        1,
        2048,
        f"in_cpuset {arena('near 0', 8)}",
        " other nodes",
        why="no memory near the device .*",
    ),
    refused(
        "restricted to node 1: near GPU 0, strict",
        f"in_cpuset {arena('near 0', 8, 'strict')}",
        "MOIETY_E_UNSUPPORTED",
        "",
    ),
    refused(
        "restricted to node 1: on node 0",
        f"in_cpuset {arena('on 0', 8)}",
        "MOIETY_E_INVALID",
        "node 0",
    ),
]

# As in a container.
FORBIDDEN = [
    Case(
        "no mbind: on node 1",
        f"without mbind {arena('on 1', 8)}",
        said(2048, [(1, 2048)], 2048, " unbound", "node 1 .*mbind.*"),
        nodes=[1],
    ),
    refused(
        "no mbind: on node 1, strict",
        f"without mbind {arena('on 1', 8, 'strict')}",
        "MOIETY_E_UNSUPPORTED",
        "mbind",
    ),
    Case(
        "no move_pages: on node 1",
        f"without move_pages {arena('on 1', 8)}",
        "the kernel does not tell\n"
        "library: asked 2048, near 0, elsewhere 0; fell to: unverified\n"
        "library: node 1 .*move_pages.*",
    ),
    refused(
        "no move_pages: on node 1, strict",
        f"without move_pages {arena('on 1', 8, 'strict')}",
        "MOIETY_E_UNSUPPORTED",
        "move_pages",
    ),
    *(
        refused(
            f"control group {name}: 64 MiB on node 0",
            f"in_group {name} {arena('on 0', 64)}",
            "MOIETY_E_NO_PINNED_MEMORY",
            "control group",
        )
        for name in ("small", "small/inner", "slow")
    ),
    placed(
        "a control group of 2 huge pages",
        1,
        2048,
        f"huge_pages 4; in_group few {arena('on 1', 8, '2MiB')}",
        " transparent",
    ),
    Case("no huge pages any more, again", "huge_pages 0", ""),
]

# How much has to go elsewhere is the kernel's to say.
FULL = [
    Case(
        "node 1 full: near GPU 1",
        f"fill_node_1; {arena('near 1', 64)}",
        r"asked 16384, node 0: (\d+), node 1: (\d+)\n"
        r"library: asked 16384, near \2, elsewhere \1; fell to: elsewhere\n"
        r"library: node 1 .*\1 pages.*",
        nodes=[1],
    ),
    # Nobody is killed.
    refused(
        "node 1 full: near GPU 1, strict",
        arena("near 1", 64, "strict"),
        "MOIETY_E_NO_PINNED_MEMORY",
        "node 1",
    ),
]

FOUR_NODES = [
    refused(
        "an old control group of 32 MiB: 64 MiB on node 2",
        f"in_old_group {arena('on 2', 64)}",
        "MOIETY_E_NO_PINNED_MEMORY",
        "control group",
    ),
    placed(
        "an old control group of 32 MiB: 8 MiB on node 2",
        2,
        2048,
        f"in_old_group {arena('on 2', 8, 'strict')}",
    ),
    shown("topo: four nodes", "topo", [("3", "3, "), ("2", "2, ")]),
    *(
        placed(
            f"on node {node} of four",
            node,
            pages,
            arena(f"on {node}", pages // 256, "strict"),
        )
        for node, pages in ((0, 4096), (1, 2048), (2, 8192), (3, 16384))
    ),
    Case(
        "across all four",
        arena("across 0,1,2,3", 16, "strict"),
        said(4096, [(node, 1024) for node in range(4)], 4096),
        nodes=range(4),
    ),
    # Without CPUs, nobody's first touch would be there by itself.
    refused(
        "on node 3, bound by a liar",
        arena("on 3", 16, "strict").replace("arena", "arena_unbound"),
        "MOIETY_E_NO_PINNED_MEMORY",
        "4096 pages",
    ),
    placed(
        "near the GPU next to node 2",
        2,
        4096,
        arena("near 1", 16, "strict"),
    ),
    placed(
        "near the GPU next to node 3, which has no CPUs",
        3,
        4096,
        arena("near 0", 16, "strict"),
    ),
]

RUNS = [
    Run(
        TWO, TWO_SETUP, TWO_NODES + TWO_DEVICES + KILLED_PAGES + HUGE_PAGES + RESTRICTED + FORBIDDEN + FULL
    ),
    Run(FOUR, FOUR_SETUP, FOUR_NODES),
]
