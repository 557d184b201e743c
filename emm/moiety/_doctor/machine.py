# SPDX-License-Identifier: Apache-2.0
"""What `moiety doctor` and `moiety info` look at: devices, topology,
environment, the kernel's files, whether it serves a system call, and what is
installed; and the Finding that a check makes of it."""

import ctypes
import errno
import json
import os
import platform
import resource
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from moiety import _native

OK = "ok"
UNKNOWN = "unknown"  # it cannot be told from here
LACKING = "lacking"  # a part cannot be used; the rest can
SLOW = "slow"
UNSAFE = "unsafe"  # memory may be given to two owners, or data be lost
BROKEN = "broken"  # no pool can be made

VERDICTS = (OK, UNKNOWN, LACKING, SLOW, UNSAFE, BROKEN)  # best first
ALARMING = (UNSAFE, BROKEN)


@dataclass(frozen=True)
class Finding:
    """Of one check; `advice` is what to do, or empty."""
    check: str
    verdict: str
    reason: str
    advice: str = ""


def worst(verdicts):
    return max(verdicts, key=VERDICTS.index, default=OK)


# The kernel's ABI.
_CALLS = {
    "x86_64": {"mbind": 237, "set_mempolicy": 238, "move_pages": 279,
               "membarrier": 324},
    "aarch64": {"mbind": 235, "set_mempolicy": 237, "move_pages": 239,
                "membarrier": 283},
}
_ALL_ZERO = (0,) * 6
# Nothing is changed by them: a range of no bytes, a policy that does not exist,
# no pages; the last is what the library itself begins with.
_HARMLESS = {
    "mbind": _ALL_ZERO,
    "set_mempolicy": (0x7FFF, *_ALL_ZERO[1:]),
    "move_pages": _ALL_ZERO,
    "membarrier": (1 << 4, *_ALL_ZERO[1:]),
}
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def is_served(name):
    """Whether this process may make a system call; None: not known."""
    number = _CALLS.get(platform.machine(), {}).get(name)
    if number is None:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(*map(ctypes.c_long, (number, *_HARMLESS[name])))
    # Of membarrier any failure means that the command is not there.
    if failed and name == "membarrier":
        return False
    return not failed or ctypes.get_errno() not in _REFUSALS


def devices():
    """Of each device what probe() tells, and why there is none."""
    try:
        found = [_native.probe()]
    except _native.Error as error:
        return [], str(error)
    found += map(_native.probe, range(1, found[0]["device_count"]))
    for one in found:
        one["uuid"] = one["uuid"].hex()
    return found, None


def installed_versions(names):
    """Of the packages that are there, by name, in the order of `names`."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def _topology():
    """As moiety_host_topology() has it; empty where it cannot be read."""
    try:
        return json.loads(_native.topology(json=True))
    except _native.Error as error:
        return {"source": str(error), "is_this_system": False, "nodes": [],
                "gpus": []}


class Machine:
    """This one; tests make others of it."""

    def __init__(self, root="/"):
        self.root = Path(root)
        self.environment = dict(os.environ)
        self.is_served = is_served
        self.cpus = os.sched_getaffinity(0)
        self.locked_bytes, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        self.devices, self.why_no_device = devices()
        self.topology = _topology()

    def text(self, path):
        """Of a file from the root; None if there is none."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path):
        """In a file; None if there is none."""
        text = self.text(path)
        return int(text) if text and text.isdecimal() else None

    @property
    def driver_version(self):
        """1000 * major + 10 * minor; None without a device."""
        return self.devices[0]["driver_version"] if self.devices else None
