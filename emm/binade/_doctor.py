# SPDX-License-Identifier: Apache-2.0
"""The checks of `binade doctor`, in their order."""

from binade import (
    _doctor_device, _doctor_kernel, _doctor_numa, _doctor_packages)
from binade._doctor_finding import UNKNOWN, Finding

# Each takes the machine, and says None where there is nothing to check.
CHECKS = (
    _doctor_device.driver,
    _doctor_device.contexts,
    _doctor_device.conf,
    _doctor_kernel.kernel,
    _doctor_kernel.membarrier,
    _doctor_kernel.overcommit,
    _doctor_kernel.transparent_pages,
    _doctor_kernel.locked_memory,
    _doctor_kernel.sharing,
    _doctor_numa.binding,
    _doctor_numa.group,
    _doctor_packages.numpy,
    _doctor_packages.numba,
    _doctor_packages.cuda_core,
    _doctor_packages.cupy,
    _doctor_packages.torch,
)
# The machine, the device's ordinal, and what probe() tells of it.
DEVICE_CHECKS = (
    _doctor_device.device,
    _doctor_numa.place,
    _doctor_numa.processors,
    _doctor_numa.room,
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
