# SPDX-License-Identifier: Apache-2.0
"""Traces as the program in C reads them: plain. What gzip has compressed is
unpacked beside, under the same name."""

import os
import shutil
import stat
import tempfile

from binade._trace_error import TraceError
from binade._trace_lines import damage_told, is_compressed, opened


def _check(path):
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TraceError("it is no regular file")


def _unpacked(path, folder):
    """Of two traces with one name, each has a folder of its own."""
    name = os.path.basename(path)
    target = os.path.join(tempfile.mkdtemp(dir=folder),
                          name[:-3] if name.endswith(".gz") else name)
    with damage_told(), opened(path) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def plain(path, folder):
    """The absolute path of the trace, or of a copy of it in `folder`."""
    _check(path)
    if is_compressed(path):
        return _unpacked(path, folder)
    return os.path.abspath(path)
