# SPDX-License-Identifier: Apache-2.0
"""Checks of `binade doctor`: the driver, its devices, and BINADE_CONF."""

import os

from binade import _native
from binade._doctor_finding import (
    BROKEN, LACKING, OK, SLOW, UNKNOWN, UNSAFE, Finding, worst)

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
    "legacy IPC": (
        LACKING, "blocks cannot be shared with other processes", ""),
    "host registration": (
        LACKING, "the program's own memory and that of arenas cannot be pinned",
        ""),
}


def driver(machine):
    if not machine.devices:
        return Finding(
            "driver", BROKEN, machine.why_no_device,
            "install a driver, or let the container see the devices; "
            "BINADE_DRIVER=standin does without a GPU")
    device = machine.devices[0]
    major, minor = divmod(device["driver_version"], 1000)
    what = f"{device['library_path']}, CUDA {major}.{minor // 10}"
    if device["is_standin"]:
        return Finding(
            "driver", UNKNOWN, f"the stand-in ({what}): no GPU is used, and "
            f"what a GPU would do is not known from here",
            "BINADE_DRIVER=cuda takes the machine's driver")
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
        "update the driver, or call binade_pool_context_lost() before each "
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


def _refusal(make):
    """Why something for a device that does not exist is not made."""
    try:
        make(device=-1)
    except _native.Error as error:
        return str(error)
    raise AssertionError("device -1 is there")


def _complaint(conf):
    """What pools or arenas say about a BINADE_CONF, or None: it is looked at
    before the device."""
    before = os.environ.pop("BINADE_CONF", None)
    try:
        for make in (_native.Pool, _native.HostArena):
            otherwise = _refusal(make)
            os.environ["BINADE_CONF"] = conf
            found = _refusal(make)
            del os.environ["BINADE_CONF"]
            if found != otherwise:
                return found
    finally:
        if before is not None:
            os.environ["BINADE_CONF"] = before
    return None


def conf(machine):
    given = machine.environment.get("BINADE_CONF")
    if not given:
        return Finding("BINADE_CONF", OK, "not set")
    # These two would begin what they name.
    entries = [entry for entry in given.split(",")
               if not entry.startswith(("expose:", "record:"))]
    complaint = _complaint(",".join(entries))
    if complaint:
        return Finding("BINADE_CONF", BROKEN,
                       complaint.removeprefix("BINADE_CONF: "),
                       "binade/pool.h and binade/host.h list the keys")
    slow = [entry for entry in entries
            if entry in ("checked:1", "pass_through:1")]
    if slow:
        return Finding("BINADE_CONF", SLOW, f"{' and '.join(slow)} takes every "
                       f"call out of the caches", "for finding mistakes only "
                       "(docs/checked-mode.md)")
    return Finding("BINADE_CONF", OK, given)
