# SPDX-License-Identifier: Apache-2.0
"""What the checks beside this file share: the files of a tree, and how a check
runs."""

import pathlib
import subprocess
import sys


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


def run_check(name, usage, check):
    """Calls check() with the path that is the program's argument. It returns a list
    of what is wrong, and what is there if nothing is. Exits with 0, 1 or 2."""
    if len(sys.argv) != 2:
        print(usage, file=sys.stderr)
        sys.exit(2)
    wrong, summary = check(pathlib.Path(sys.argv[1]))
    for line in wrong:
        print(f"{name}: {line}", file=sys.stderr)
    if not wrong:
        print(f"{name}: {summary}")
    sys.exit(bool(wrong))
