# SPDX-License-Identifier: Apache-2.0
"""The command line: moiety info, moiety topo."""

import json
import os
import platform
import sys

from moiety import _native
from moiety._cli.command import add_json_command
from moiety._doctor.machine import devices, installed_versions

PACKAGES = ("numpy", "numba", "numba-cuda", "cuda-bindings", "cuda-core",
            "cupy-cuda13x", "cupy-cuda12x", "torch")

_INFO = """\
Prints the versions of Moiety and of what it works with, MOIETY_CONF, the
devices and what each can do, and the machine's NUMA nodes. Without a driver it
says why there is none, and the rest.
"""

_INFO_EPILOG = """\
examples:
  moiety info
  MOIETY_DRIVER=standin moiety info --json

exit codes:
  0  done, also without a device
  1  the machine cannot be read, or the output cannot be written
  2  the command line was wrong
"""


def versions():
    """Of Moiety, Python, and what it works with where it is installed."""
    return {"moiety": _native.version(), "python": platform.python_version(),
            **installed_versions(PACKAGES)}


def collect():
    """All that is known, as a dictionary for JSON."""
    found, why_none = devices()
    return {"versions": versions(), "devices": found,
            "devices_error": why_none,
            "conf": os.environ.get("MOIETY_CONF"),
            "topology": json.loads(_native.topology(json=True))}


def _pieces(device):
    """Of what size mapped memory is, where there is any."""
    size_bytes = device["vmm_granularity_bytes"]
    return f"; mapped in pieces of {size_bytes >> 10} KiB" if size_bytes else ""


def print_text(about):
    for name, version in about["versions"].items():
        print(f"{name} {version}")
    print(f"MOIETY_CONF: {about['conf'] or 'not set'}")
    if about["devices_error"]:
        print(f"no device: {about['devices_error']}")
    for ordinal, device in enumerate(about["devices"]):
        major, minor = device["compute_capability"]
        print(f"device {ordinal}: {device['name']}, {device['bus_id']}, "
              f"compute capability {major}.{minor}, "
              f"{device['total_memory_bytes'] / 2**30:.1f} GiB, "
              f"{', '.join(device['features'])}{_pieces(device)}")
    print(_native.topology(), end="")


def _run_info(options):
    about = collect()
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print_text(about)
    return 0


def add_info(commands):
    """The command `info`, for a parser's subcommands."""
    add_json_command(
        commands, "info", "print driver, devices, NUMA nodes and versions",
        _INFO, _INFO_EPILOG, _run_info)


_TOPO = """\
Prints the machine's NUMA nodes, the distances between them, and for each GPU
which nodes are near it and where pinned memory for it is put, and why.
docs/numa.md explains each line. HWLOC_XMLFILE shows another machine.
"""

_TOPO_EPILOG = """\
examples:
  moiety topo
  moiety topo --json
  HWLOC_XMLFILE=machine.xml MOIETY_DRIVER=standin moiety topo

exit codes:
  0  done, also without a device
  1  the machine cannot be read, or the output cannot be written
  2  the command line was wrong
"""


def _run_topo(options):
    text = _native.topology(json=options.json)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


def add_topo(commands):
    """The command `topo`, for a parser's subcommands."""
    add_json_command(
        commands, "topo", "print NUMA nodes and what is near each GPU",
        _TOPO, _TOPO_EPILOG, _run_topo)
