# SPDX-License-Identifier: Apache-2.0
"""Checks of `binade doctor`: where pinned memory lies and whether it can."""

import re

from binade._doctor_finding import LACKING, OK, SLOW, UNKNOWN, Finding

FIRST_SEGMENT_BYTES = 64 << 20
MIB = 1 << 20
# As numa/pinned/room.c counts: what the kernel drops before it gives up.
_CLEAN = r"(?:MemFree|Active\(file\)|Inactive\(file\)|SReclaimable):\s+(\d+)"


def numbers_in(text):
    """Of a list such as 0-3,8."""
    found = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.strip().isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _gpu(machine, ordinal):
    gpus = machine.topology["gpus"]
    return next((gpu for gpu in gpus if gpu["gpu"] == ordinal), None)


def _words(nodes):
    plural = "s" if len(nodes) > 1 else ""
    return f"node{plural} {', '.join(map(str, nodes))}"


def place(machine, ordinal, _about):
    check, gpu = f"memory near {ordinal}", _gpu(machine, ordinal)
    if gpu is None:
        return Finding(check, UNKNOWN, f"the topology does not have the device "
                       f"({machine.topology['source']})")
    use = gpu["use"]
    pinned = f"pinned memory for it is on {_words(use['nodes'])}: {use['why']}"
    if not machine.topology["is_this_system"]:
        return Finding(check, UNKNOWN, f"{machine.topology['source']} is not "
                       f"this machine: nothing can be bound on it",
                       "unset hwloc's variables")
    if use["is_fallback"]:
        verdict = SLOW if gpu["near"] else UNKNOWN
        return Finding(
            check, verdict, pinned, "give the process the device's node "
            "(docker --cpuset-mems, numactl)" if gpu["near"] else
            "name the nodes: BINADE_CONF=host_place:0 (docs/numa.md)")
    if gpu["driver_node"] not in (None, *(gpu["near"] or ())):
        return Finding(check, UNKNOWN, f"{pinned}; but the driver says node "
                       f"{gpu['driver_node']}", "measure both: //bench:host")
    return Finding(check, OK, pinned)


def processors(machine, ordinal, _about):
    check, gpu = f"CPUs near {ordinal}", _gpu(machine, ordinal)
    if gpu is None or not gpu["near"] or not machine.topology["is_this_system"]:
        return None
    near = set()
    for node in gpu["near"]:
        path = f"sys/devices/system/node/node{node}/cpulist"
        near |= numbers_in(machine.text(path))
    if not near:
        return Finding(check, UNKNOWN, "the kernel does not tell the CPUs of "
                       f"{_words(gpu['near'])}")
    if near & machine.cpus:
        return Finding(check, OK, f"{len(near & machine.cpus)} that this "
                       f"process may use are on {_words(gpu['near'])}")
    return Finding(
        check, SLOW, f"this process may use none on {_words(gpu['near'])}: its "
        f"threads fill and read pinned memory from another node",
        f"numactl --cpunodebind={gpu['near'][0]}, or docker --cpuset-cpus")


def binding(machine):
    calls = ("mbind", "set_mempolicy", "move_pages")
    served = {name: machine.is_served(name) for name in calls}
    refused = [name for name in calls if served[name] is False]
    if None in served.values():
        return Finding("binding", UNKNOWN, "not known on this processor")
    if not refused:
        return Finding("binding", OK, "memory can be bound to nodes, and looked "
                       "for")
    if len(machine.topology["nodes"]) < 2:
        return Finding("binding", OK, f"{' and '.join(refused)} are refused, "
                       f"which is nothing on one node; strict arenas are not "
                       f"made")
    return Finding(
        "binding", SLOW, f"{' and '.join(refused)} are refused: pinned memory "
        f"may be on any node, and strict arenas are not made",
        "docker --cap-add SYS_NICE, or a filter of system calls that lets them "
        "pass (docs/numa.md)")


def _group_folders(machine):
    """Of the process's control group and those around it."""
    found = re.search(r"^0::/(.*)$", machine.text("proc/self/cgroup") or "",
                      re.MULTILINE)
    if not found:
        return
    parts = [part for part in found[1].split("/") if part]
    for count in range(len(parts), -1, -1):
        yield "/".join(["sys/fs/cgroup", *parts[:count]])


def group_room(machine):
    """Bytes that the control groups leave; None: no bound is known."""
    rooms = []
    for folder in _group_folders(machine):
        limit = machine.number(f"{folder}/memory.max")
        used = machine.number(f"{folder}/memory.current")
        if limit is not None and used is not None:
            stat = machine.text(f"{folder}/memory.stat") or ""
            clean = sum(map(int, re.findall(r"active_file (\d+)", stat)))
            rooms.append(max(limit - max(used - clean, 0), 0))
    return min(rooms, default=None)


def node_room(machine, nodes):
    """Bytes that can be had on nodes; None: not known."""
    texts = [machine.text(f"sys/devices/system/node/node{node}/meminfo")
             for node in nodes]
    if not all(texts):
        return None
    return sum(int(kib) << 10 for text in texts
               for kib in re.findall(_CLEAN, text))


def group(machine):
    room = group_room(machine)
    if room is None:
        return Finding("control group", OK, "sets no bound for host memory")
    if room >= FIRST_SEGMENT_BYTES:
        return Finding("control group", OK, f"has room for {room // MIB} MiB of "
                       f"host memory")
    return Finding(
        "control group", LACKING, f"has room for {room // MIB} MiB: pinned "
        f"arenas, which begin with {FIRST_SEGMENT_BYTES // MIB} MiB, are "
        f"refused memory", "docker --memory, or memory.max of the group")


def room(machine, ordinal, _about):
    check, gpu = f"room near {ordinal}", _gpu(machine, ordinal)
    if gpu is None or not machine.topology["is_this_system"]:
        return None
    nodes = gpu["use"]["nodes"]
    found = node_room(machine, nodes)
    if found is None:
        return Finding(check, UNKNOWN, f"the kernel does not tell the free "
                       f"memory of {_words(nodes)}")
    what = f"{_words(nodes)}: {found // MIB} MiB can be had"
    if found >= FIRST_SEGMENT_BYTES:
        return Finding(check, OK, what)
    return Finding(check, SLOW, f"{what}: pinned memory is put on other nodes, "
                   f"or refused", "end what uses the memory there")
