# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel with several NUMA nodes in software, and runs programs there.

A machine with several nodes is seldom at hand. QEMU's emulator makes one of
any shape in a few seconds, needs no KVM, and a kernel does there what it does
on the machine that it imitates: only the times mean nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import typing

QEMU = "qemu-system-x86_64"
PROGRAMS = (QEMU, "busybox", "cpio", "ldd")

# Now and then the emulated kernel stops before its first program. Such a guest
# is killed and booted again, so many times in all.
BOOTS = 3
# The first line of a guest.
STARTED = "vm: started\n"
# The last line of a guest; without it, whatever was printed proves nothing.
VERDICT = re.compile(r"^vm: exit status (\d+)$", re.MULTILINE)

INIT = """#!/bin/busybox sh
echo vm: started
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
sh /script 2>&1
echo "vm: exit status $?"
poweroff -f
"""


class Node(typing.NamedTuple):
    cpus: int
    mebibytes: int


class Machine(typing.NamedTuple):
    """`devices` holds, for each PCI device, the node that it is next to, or
    None for one on the root bus, which is next to none."""

    nodes: typing.Sequence[Node]
    devices: typing.Sequence[typing.Optional[int]] = ()

    def bus_id(self, index):
        if self.devices[index] is None:
            return f"0000:00:{0x10 + index:02x}.0"
        return f"0000:{0x20 * (index + 1) + 1:02x}:00.0"

    def options(self):
        cpus = sum(node.cpus for node in self.nodes)
        mebibytes = sum(node.mebibytes for node in self.nodes)
        options = ["-smp", str(cpus), "-m", str(mebibytes)]
        first_cpu = 0
        for index, node in enumerate(self.nodes):
            options += _node_options(index, node, first_cpu)
            first_cpu += node.cpus
        for index, node in enumerate(self.devices):
            options += _device_options(index, node)
        return options


def _node_options(index, node, first_cpu):
    numa = f"node,nodeid={index},memdev=m{index}"
    if node.cpus:
        numa += f",cpus={first_cpu}-{first_cpu + node.cpus - 1}"
    ram = f"memory-backend-ram,id=m{index},size={node.mebibytes}M"
    return ["-object", ram, "-numa", numa]


def _device_options(index, node):
    """A root bus of its own says which node the device is next to."""
    if node is None:
        return ["-device", f"edu,bus=pcie.0,addr={0x10 + index:#x}"]
    bus = 0x20 * (index + 1)
    return [
        "-device",
        f"pxb-pcie,id=bus{index},bus_nr={bus},numa_node={node},bus=pcie.0",
        "-device",
        f"pcie-root-port,id=port{index},bus=bus{index},chassis={index + 1}",
        "-device",
        f"edu,bus=port{index}",
    ]


class VmError(Exception):
    """The guest gave no verdict. The text holds all that it printed."""

    def __init__(self, what, console):
        super().__init__(f"{what}; the console:\n{console}")


def kernel():
    """Where ./bazelw puts it, in the checkout that this file belongs to, or
    what MOIETY_VM_KERNEL names."""
    folder = os.path.dirname(os.path.realpath(__file__))
    return os.environ.get("MOIETY_VM_KERNEL") or os.path.join(
        folder, "..", "..", ".kernel", "vmlinuz"
    )


def need():
    """Ends the test where no guest can be booted: nothing was checked, which
    is a failure in CI and elsewhere must be seen."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if not os.path.exists(kernel()):
        missing.append("a kernel (.kernel/vmlinuz)")
    if not missing:
        return
    what = f"{', '.join(missing)}: not here; ./bazelw test gets it"
    if os.environ.get("CI"):
        sys.exit(f"FAILED: {what}")
    print(f"SKIPPED, NOTHING WAS CHECKED: {what}", file=sys.stderr)
    sys.exit(0)


def _libraries(program):
    """What ldd names, as (path there, path in the guest); nothing if it is
    static. Its libraries come from wherever they were linked from."""
    listed = subprocess.run(
        ["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout.decode()
    if "not found" in listed:
        raise VmError(f"a library of {program} is missing", listed)
    found = re.findall(r"(\S+) => (/\S+)", listed)
    loader = re.findall(r"^\s+(/\S+) \(", listed, re.MULTILINE)
    return [(path, f"/lib/{name}") for name, path in found] + [
        (path, path) for path in loader
    ]


def _write(path, text, mode):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def _stage(root, programs, script):
    """Lays out the guest's files in the folder `root`."""
    os.makedirs(os.path.join(root, "bin"))
    for program in (shutil.which("busybox"), *programs):
        shutil.copy(program, os.path.join(root, "bin"))
        for path, target in _libraries(program):
            os.makedirs(os.path.dirname(root + target), exist_ok=True)
            shutil.copy(path, root + target)
    _write(os.path.join(root, "init"), INIT, 0o755)
    _write(os.path.join(root, "script"), script, 0o644)


def pack(folder, programs, script):
    """Writes an initramfs into `folder` and returns its path. The guest's
    /bin holds busybox and the `programs`; `script` is what its shell runs."""
    root = os.path.join(folder, "root")
    shutil.rmtree(root, ignore_errors=True)
    _stage(root, programs, script)
    names = "".join(
        os.path.relpath(os.path.join(base, name), root) + "\n"
        for base, folders, files in os.walk(root)
        for name in folders + files
    )
    path = os.path.join(folder, "initramfs")
    with open(path, "wb") as out:
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"],
            input=names.encode(),
            stdout=out,
            cwd=root,
            check=True,
        )
    return path


def boot(machine, initramfs, timeout_s, qemu=QEMU):
    """Returns (exit status of the guest's script, what was printed)."""
    command = [qemu, "-machine", "q35", "-accel", "tcg", *machine.options()]
    command += ["-nodefaults", "-no-user-config", "-no-reboot"]
    command += ["-display", "none", "-monitor", "none", "-serial", "stdio"]
    command += ["-kernel", kernel(), "-initrd", initramfs]
    # Loglevel 1: no message of the kernel in the midst of a line, but a panic.
    command += ["-append", "console=ttyS0 loglevel=1 panic=-1"]
    for _ in range(BOOTS):
        status, console = _run(command, timeout_s)
        if status is not None or STARTED in console:
            break
        print(f"vm: no guest within {timeout_s} s", file=sys.stderr)
    console = console.replace(STARTED, "", 1)
    if status is None:
        raise VmError(f"killed after {timeout_s} s", console)
    verdict = VERDICT.search(console)
    if status or not verdict:
        raise VmError(f"no last line; {qemu} exits with {status}", console)
    return int(verdict.group(1)), console[: verdict.start()]


def _run(command, timeout_s):
    """The emulator's exit status, None if it was killed, and its console."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        return None, _text(error.stdout)
    return done.returncode, _text(done.stdout)


def _text(console):
    return (console or b"").decode(errors="replace").replace("\r", "")
