# SPDX-License-Identifier: Apache-2.0
"""The checks of `moiety doctor`, in their order: the driver, its devices and
MOIETY_CONF; the kernel and what it keeps this process from; where pinned memory
lies and whether it can."""

import os
import re
import resource

from moiety import _native
from moiety._doctor import packages, stacks
from moiety._doctor.machine import (
    BROKEN, LACKING, OK, SLOW, UNKNOWN, UNSAFE, Finding, worst)
from moiety._support.arguments import nearest

# The driver, its devices, and MOIETY_CONF.

CONTEXT_IDS = 12000

# What is lost where a device or its driver lacks something, and what to do.
FEATURES = {
    "context events": (
        SLOW, "what is freed without a stream, as all of numba's arrays are, "
        "serves again only after a wait for the whole context",
        "update the driver to CUDA 12.5"),
    "stream ids": (
        LACKING, "checked pools do not notice that a stream was destroyed",
        "update the driver to CUDA 12.0"),
    "mapped memory (VMM)": (
        LACKING, "pools have no mapped memory: memory='mapped' is refused",
        ""),
    "legacy IPC": (
        LACKING, "blocks cannot be shared with other processes", ""),
    "host registration": (
        LACKING, "the program's own memory cannot be pinned, and the driver "
        "allocates that of arenas",
        ""),
}


def driver(machine):
    if not machine.devices:
        return Finding(
            "driver", BROKEN, machine.why_no_device,
            "install a driver, or let the container see the devices; "
            "MOIETY_DRIVER=standin does without a GPU")
    device = machine.devices[0]
    major, minor = divmod(device["driver_version"], 1000)
    what = f"{device['library_path']}, CUDA {major}.{minor // 10}"
    if device["is_standin"]:
        return Finding(
            "driver", UNKNOWN, f"the stand-in ({what}): no GPU is used, and "
            f"what a GPU would do is not known from here",
            "MOIETY_DRIVER=cuda takes the machine's driver")
    return Finding("driver", OK, what)


def contexts(machine):
    if not machine.devices:
        return None
    if machine.driver_version >= CONTEXT_IDS:
        return Finding("contexts", OK, "the driver numbers contexts: a pool "
                       "notices that its context was reset")
    return Finding(
        "contexts", UNSAFE, "drivers before CUDA 12.0 do not number contexts: "
        "a pool may take a new context for its own after a reset, and give out "
        "memory that is gone",
        "update the driver, or call moiety_pool_context_lost() before each "
        "reset (docs/process.md)")


def device(_machine, ordinal, about):
    what = (f"{about['name']}, {about['bus_id']}, "
            f"{about['total_memory_bytes'] / 2**30:.1f} GiB")
    lost = [found for name, found in FEATURES.items()
            if name not in about["features"]]
    return Finding(
        f"device {ordinal}", worst(verdict for verdict, _, _ in lost),
        "; ".join([what, *(reason for _, reason, _ in lost)]),
        next((advice for _, _, advice in lost if advice), ""))


# Prints what a pool's memory becomes that prefers mapped memory.
_MAPPED = """\
import os, sys
from moiety import _native
os.environ.pop("MOIETY_CONF", None)
with _native.Pool(int(sys.argv[1]), limit="2MiB") as pool:
    print(pool.memory, end="")
"""


def mapping(_machine, ordinal, about):
    """A driver may say that it has mapped memory, and refuse it."""
    if "mapped memory (VMM)" not in about["features"]:
        return None
    check = f"mapped memory {ordinal}"
    memory, failure = packages.in_child(_MAPPED, str(ordinal))
    if failure:
        return Finding(check, UNKNOWN, f"a pool cannot be made: {failure}")
    if memory == "mapped":
        return Finding(check, OK, "the driver maps memory")
    return Finding(
        check, LACKING, "the driver says that it maps memory, and refuses: "
        "pools that prefer mapped memory have the driver's",
        "a virtual GPU, WSL2 or a library before the driver may be why "
        "(docs/mapped.md)")


def _refusal(make):
    """Why something for a device that does not exist is not made."""
    try:
        make(device=-1)
    except _native.Error as error:
        return str(error)
    raise AssertionError("device -1 is there")


def _complaint(conf):
    """What pools or arenas say about a MOIETY_CONF, or None: it is looked at
    before the device."""
    before = os.environ.pop("MOIETY_CONF", None)
    try:
        for make in (_native.Pool, _native.HostArena):
            otherwise = _refusal(make)
            os.environ["MOIETY_CONF"] = conf
            found = _refusal(make)
            del os.environ["MOIETY_CONF"]
            if found != otherwise:
                return found
    finally:
        if before is not None:
            os.environ["MOIETY_CONF"] = before
    return None


def conf(machine):
    given = machine.environment.get("MOIETY_CONF")
    if not given:
        return Finding("MOIETY_CONF", OK, "not set")
    # These two would begin what they name.
    entries = [entry for entry in given.split(",")
               if not entry.startswith(("expose:", "trace:"))]
    complaint = _complaint(",".join(entries))
    if complaint:
        return Finding("MOIETY_CONF", BROKEN,
                       complaint.removeprefix("MOIETY_CONF: "),
                       "moiety/pool.h and moiety/host.h list the keys")
    slow = [entry for entry in entries
            if entry in ("checked:1", "pass_through:1")]
    if slow:
        return Finding("MOIETY_CONF", SLOW, f"{' and '.join(slow)} takes every "
                       f"call out of the caches", "for finding mistakes only "
                       "(docs/debugging.md)")
    return Finding("MOIETY_CONF", OK, given)


# Variables that users set; docs/configuration.md describes them.
VARIABLES = ("MOIETY_BENCH", "MOIETY_CONF", "MOIETY_DRIVER", "MOIETY_REPLAY",
             "MOIETY_REQUIRE_GPU", "MOIETY_SERVE", "MOIETY_STANDIN_MEMORY",
             "MOIETY_TORCH_CACHE", "MOIETY_TORCH_PREBUILT")


def variables(machine):
    """Nothing reads a misspelled one, so nothing else refuses it."""
    for name in machine.environment:
        if name in VARIABLES or name.startswith("MOIETY_STANDIN_"):
            continue
        near = nearest(name, VARIABLES, 0.85)
        if near:
            return Finding("variables", LACKING, f"{name} has no effect",
                           f"did you mean {near}?")
    return None


# The kernel, and what it keeps this process from.

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
              f"{TABLES_BYTES / GIB:.1f} GiB of addresses where its limit is "
              f"16 GiB or more, count as memory, of "
              f"which {room / GIB:.1f} GiB are left")
    advice = ("set vm.overcommit_memory to 0, raise vm.overcommit_ratio, or "
              "give pools a smaller limit")
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
        "pages aside and say MOIETY_CONF=host_huge:2M (docs/numa.md)")


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


# Where pinned memory lies, and whether it can.

FIRST_SEGMENT_BYTES = 64 << 20
MIB = 1 << 20
# As numa/pinned/headroom.c counts: what the kernel drops before it gives up.
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
            "name the nodes: MOIETY_CONF=host_place:0 (docs/numa.md)")
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


# Each takes the machine, and says None where there is nothing to check.
CHECKS = (
    driver,
    contexts,
    conf,
    variables,
    kernel,
    membarrier,
    overcommit,
    transparent_pages,
    locked_memory,
    sharing,
    binding,
    group,
    packages.numpy,
    packages.numba,
    packages.cuda_core,
    packages.cupy,
    packages.torch,
    stacks.allocators,
)
# The machine, the device's ordinal, and what probe() tells of it.
DEVICE_CHECKS = (
    device,
    mapping,
    place,
    processors,
    room,
)


def _outcome(check, *arguments):
    """A check that fails is a finding too."""
    try:
        return check(*arguments)
    except Exception as error:
        return Finding(check.__name__, UNKNOWN,
                       f"the check failed: {type(error).__name__}: {error}")


def findings(machine, before=lambda name: None):
    """One after the other; `before` is called with the name of each check."""
    calls = [(check, machine) for check in CHECKS]
    calls[2:2] = [(check, machine, ordinal, about)
                  for ordinal, about in enumerate(machine.devices)
                  for check in DEVICE_CHECKS]
    for check, *arguments in calls:
        before(check.__name__)
        found = _outcome(check, *arguments)
        if found:
            yield found
