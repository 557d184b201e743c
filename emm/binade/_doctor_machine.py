# SPDX-License-Identifier: Apache-2.0
"""What the checks of `binade doctor` look at: devices, topology, environment,
the kernel's files, and whether it serves a system call."""

import ctypes
import errno
import json
import os
import platform
import resource
from pathlib import Path

from binade import _info_command, _native

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


def _topology():
    """As binade_host_topology() has it; empty where it cannot be read."""
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
        self.devices, self.why_no_device = _info_command.devices()
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
