# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m binade info, python -m binade trace."""

import argparse
import json
import os
import platform
import sys
from importlib import metadata

from binade import (
    _native, _replay_command, _snapshot_command, _stats_command,
    _trace_command)

PACKAGES = ("numpy", "numba", "numba-cuda", "cuda-bindings", "cuda-core",
            "cupy-cuda13x", "cupy-cuda12x", "torch")


def versions():
    """Of Binade, Python, and what it works with where it is installed."""
    found = {"binade": _native.version(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


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


def info(options):
    about = collect()
    if options.json:
        print(json.dumps(about, indent=1))
    else:
        print_text(about)
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m binade",
                                     description="A GPU memory pool.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser(
        "info", help="print driver, devices, NUMA nodes and versions")
    command.add_argument("--json", action="store_true",
                         help="print one JSON object")
    command.set_defaults(run=info)
    _trace_command.add_to(commands)
    _stats_command.add(commands)
    _snapshot_command.add(commands)
    _replay_command.add(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except _native.Error as error:
        print(f"binade: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
