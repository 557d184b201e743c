# SPDX-License-Identifier: Apache-2.0
"""Where the programs in C are that the command starts: bench and replay."""

import os
import shutil
from pathlib import Path

BESIDE = Path(__file__).parent / "_programs"


class ProgramError(Exception):
    """There is no such program, or it cannot be started."""


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def find(name):
    """The path of `name`: what BINADE_NAME names, else beside the package,
    else binade-NAME on PATH."""
    variable = f"BINADE_{name.upper()}"
    named = os.environ.get(variable)
    if named:
        # What the user named is not passed over for another one.
        if not _is_program(named):
            raise ProgramError(f"{variable}={named}: not a program")
        return os.path.abspath(named)
    beside = str(BESIDE / name)
    if _is_program(beside):
        return beside
    on_path = shutil.which(f"binade-{name}")
    if on_path:
        return os.path.abspath(on_path)
    raise ProgramError(
        f"the program {name} is not here: build it in a checkout with "
        f"./bazelw build //bench:{name} and name it in {variable}")
