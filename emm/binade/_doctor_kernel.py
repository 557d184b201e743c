# SPDX-License-Identifier: Apache-2.0
"""Checks of `binade doctor`: the kernel and what it keeps this process from."""

import re
import resource

from binade._doctor_finding import (
    BROKEN, LACKING, OK, SLOW, UNKNOWN, Finding)

# Address space for the tables of a pool or an arena, of which little is used.
TABLES_BYTES = 2405 << 20
KERNEL_WITH_MARKS = (4, 14)  # MADV_WIPEONFORK
FIRST_PID_NAMESPACE = "pid:[4026531836]"
GIB = 1 << 30


def kernel(machine):
    release = machine.text("proc/sys/kernel/osrelease") or ""
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found:
        return Finding("kernel", UNKNOWN, "it does not tell its version")
    if tuple(map(int, found.groups())) >= KERNEL_WITH_MARKS:
        return Finding("kernel", OK, f"Linux {release}")
    return Finding(
        "kernel", LACKING, f"Linux {release}, before 4.14: a child that was "
        f"made without the C library's fork() is not told from its parent",
        "fork by the C library, or update the kernel")


def membarrier(machine):
    served = machine.is_served("membarrier")
    if served is None:
        return Finding("membarrier", UNKNOWN, "not known on this processor")
    if served:
        return Finding("membarrier", OK, "threads pay no fence for their "
                       "caches")
    return Finding(
        "membarrier", SLOW, "the kernel refuses membarrier(2): every "
        "allocation and free pays a fence",
        "let the container's filter of system calls pass it, or update the "
        "kernel")


def overcommit(machine):
    mode = machine.number("proc/sys/vm/overcommit_memory")
    if mode is None:
        return Finding("overcommit", UNKNOWN, "vm.overcommit_memory cannot be "
                       "read")
    if mode != 2:
        return Finding("overcommit", OK, f"vm.overcommit_memory is {mode}")
    lines = dict(re.findall(r"^(CommitLimit|Committed_AS):\s+(\d+)",
                            machine.text("proc/meminfo") or "", re.MULTILINE))
    room = (int(lines.get("CommitLimit", 0))
            - int(lines.get("Committed_AS", 0))) << 10
    reason = (f"vm.overcommit_memory is 2: the tables of each pool and arena, "
              f"{TABLES_BYTES / GIB:.1f} GiB of addresses, count as memory, of "
              f"which {room / GIB:.1f} GiB are left")
    advice = "set vm.overcommit_memory to 0, or raise vm.overcommit_ratio"
    return Finding("overcommit", OK if room >= TABLES_BYTES else BROKEN, reason,
                   "" if room >= TABLES_BYTES else advice)


def transparent_pages(machine):
    modes = machine.text("sys/kernel/mm/transparent_hugepage/enabled") or ""
    if "[always]" in modes or "[madvise]" in modes:
        return Finding("huge pages", OK, f"transparent ones: {modes}")
    return Finding(
        "huge pages", SLOW, "there are no transparent huge pages: new pinned "
        "memory is touched, registered and looked at in the smallest ones",
        "write madvise to /sys/kernel/mm/transparent_hugepage/enabled, or set "
        "pages aside and say BINADE_CONF=host_huge:2M (docs/numa.md)")


def locked_memory(machine):
    if machine.locked_bytes == resource.RLIM_INFINITY:
        return Finding("locked memory", OK, "RLIMIT_MEMLOCK is unlimited")
    return Finding(
        "locked memory", UNKNOWN, f"RLIMIT_MEMLOCK is {machine.locked_bytes} "
        f"bytes: a driver that goes by it pins no more",
        "ulimit -l unlimited, where pinned memory is refused")


def sharing(machine):
    """With other processes: both must see who the other is."""
    if not all(machine.text(path) for path in
               ("proc/self/stat", "proc/sys/kernel/random/boot_id")):
        return Finding("sharing", LACKING, "/proc does not tell which process "
                       "and machine this is: nothing can be exported or "
                       "imported", "mount /proc")
    try:
        namespace = (machine.root / "proc/self/ns/pid").readlink()
    except OSError:
        return Finding("sharing", LACKING, "/proc does not tell the process "
                       "namespace: nothing can be exported or imported",
                       "mount /proc")
    if str(namespace) == FIRST_PID_NAMESPACE:
        return Finding("sharing", OK, "between processes of one user")
    return Finding(
        "sharing", UNKNOWN, "this is a container: with processes outside, it "
        "is for the driver to allow, and the end of one is not noticed",
        "share within the container, or give both --pid=host or one pod's "
        "namespace (docs/ipc.md)")
