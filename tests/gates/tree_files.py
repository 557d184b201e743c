# SPDX-License-Identifier: Apache-2.0
"""The files of a tree, for the checks beside this file."""

import subprocess


def files_of(root):
    """Paths from a pathlib root: all that git does not ignore, or all where there
    is no git."""
    done = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return sorted(name for name in set(done.stdout.split("\0"))
                      if name and (root / name).is_file())
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")
                  if path.is_file())
