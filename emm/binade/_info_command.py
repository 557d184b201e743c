# SPDX-License-Identifier: Apache-2.0
"""The command line: binade info."""

import json
import os
import platform

from binade import _installed, _native
from binade._command import add_command, add_json

PACKAGES = ("numpy", "numba", "numba-cuda", "cuda-bindings", "cuda-core",
            "cupy-cuda13x", "cupy-cuda12x", "torch")

_DESCRIPTION = """\
Prints the versions of Binade and of what it works with, BINADE_CONF, the
devices and what each can do, and the machine's NUMA nodes. Without a driver it
says why there is none, and the rest.
"""

_EPILOG = """\
examples:
  binade info
  BINADE_DRIVER=standin binade info --json

exit codes:
  0  done, also without a device
  1  the machine cannot be read, or the output cannot be written
  2  the command line was wrong
"""


def versions():
    """Of Binade, Python, and what it works with where it is installed."""
    return {"binade": _native.version(), "python": platform.python_version(),
            **_installed.versions(PACKAGES)}


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


def collect():
    """All that is known, as a dictionary for JSON."""
    found, why_none = devices()
    return {"versions": versions(), "devices": found,
            "devices_error": why_none,
            "conf": os.environ.get("BINADE_CONF"),
            "topology": json.loads(_native.topology(json=True))}


def print_text(about):
    for name, version in about["versions"].items():
        print(f"{name} {version}")
    print(f"BINADE_CONF: {about['conf'] or 'not set'}")
    if about["devices_error"]:
        print(f"no device: {about['devices_error']}")
    for ordinal, device in enumerate(about["devices"]):
        major, minor = device["compute_capability"]
        print(f"device {ordinal}: {device['name']}, {device['bus_id']}, "
              f"compute capability {major}.{minor}, "
              f"{device['total_memory_bytes'] / 2**30:.1f} GiB, "
              f"{', '.join(device['features'])}")
    print(_native.topology(), end="")


def _run(options):
    about = collect()
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print_text(about)
    return 0


def add(commands):
    """The command `info`, for a parser's subcommands."""
    command = add_command(
        commands, "info", "print driver, devices, NUMA nodes and versions",
        _DESCRIPTION, _EPILOG)
    add_json(command)
    command.set_defaults(run=_run)
