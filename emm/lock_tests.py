# SPDX-License-Identifier: Apache-2.0
"""Pins what requirements-test.in names, and all that it needs in turn, by
version and hash, for CPython on x86-64 Linux: writes
requirements-test-cp3XX.txt.

usage: python3.XX lock_tests.py [--for=3.XX] [ARGUMENT OF PIP...]

It wants pip 23 or newer, and the version of Python that it is to pin for: what
a package needs may depend on it, and pip asks the Python it runs on. --for takes
the wheels of another version all the same, for want of that. To keep what is
pinned already: -c with the names and versions of requirements-test-cp3XX.txt
alone, as pip wants a hash of everything where it is given one.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
#
# Made by lock_tests.py from requirements-test.in, for CPython {version} on x86-64
# Linux.
--only-binary :all:
"""


def resolve(version, arguments):
    """What pip would install, as it reports it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run",
             "--ignore-installed", f"--report={report}", "--target", folder,
             f"--python-version={version}", "--implementation=cp",
             "--only-binary=:all:", "-r", HERE / "requirements-test.in",
             *arguments], check=True)
        return json.loads(report.read_text())["install"]


def pin(package):
    """The lines for a package."""
    metadata = package["metadata"]
    name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
    hash_ = package["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={metadata['version']} \\\n--hash=sha256:{hash_}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--for", dest="version",
                        default="{}.{}".format(*sys.version_info))
    arguments, of_pip = parser.parse_known_args()
    pins = sorted(map(pin, resolve(arguments.version, of_pip)))
    tag = arguments.version.replace(".", "")
    Path(HERE, f"requirements-test-cp{tag}.txt").write_text(
        HEAD.format(version=arguments.version) + "".join(pins))


if __name__ == "__main__":
    main()
