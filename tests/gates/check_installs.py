#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_installs.py FOLDER

Documents and messages tell nobody to install what PyPI does not hold for us: an
installer is given a path (`./emm`, a wheel) or a package of the list below. Ours
is on no index, so its bare name, or `NAME[extra]`, brings somebody else's.

Prints each other name and its place; fails if there is one.
"""

import re

from tree_files import files_of, run_check

# Packages of others that users are told to install.
DEPENDENCIES = {
    "cuda-core", "cupy-cuda12x", "cupy-cuda13x", "distributed", "jinja2",
    "numba-cuda", "numpy", "nvidia-cuda-crt", "nvidia-cuda-runtime",
    "onnxruntime-gpu", "plotly", "rmm-cu12", "rmm-cu13", "zstandard",
}
# An installer and its first argument: options, the marks that quote a word, and
# the break of a line, a comment or a string may stand between.
GAP = r"(?:[\s\\]|\"\s*\n\s*f?\"|\n\s*(?:[#*>]|//))"
INSTALLER = re.compile(
    rf"\b(?:pip[\d.]*|uv|pipx|conda|mamba){GAP}+(?:pip{GAP}+)?"
    rf"(?:install|add){GAP}+(?:-[\w-]+(?:=\S+)?{GAP}+)*"
    r"[\\\"'`]*([^\s\"'`\\,;:)(<>=!]+)")
PATH = re.compile(r"^[-./~$*{<]|/|\.whl$")
EXTRA = re.compile(r"(?<![\w./-])moiety\[[a-z]")
READ = (".md", ".py", ".pyi", ".c", ".h", ".hpp", ".cc", ".toml", ".sh",
        ".html", ".1")
# Beside others' sources and data, the tests of this check.
LEFT_OUT = re.compile(r"^(?:third_party|tests/gates|bench/results)/")


def problems_of(name, text):
    for command in INSTALLER.finditer(text):
        package = command.group(1).rstrip(".")
        if not PATH.search(command.group(1)) and \
                package.split("[")[0].lower() not in DEPENDENCIES:
            line = text.count("\n", 0, command.start()) + 1
            yield (f"{name}:{line}: {package} is neither a path nor a "
                   "dependency")
    for extra in EXTRA.finditer(text):
        line = text.count("\n", 0, extra.start()) + 1
        yield f"{name}:{line}: an extra of ours that no index holds"


def check(root):
    read = [name for name in files_of(root)
            if name.endswith(READ) and not LEFT_OUT.match(name)]
    places = [place for name in read
              for place in problems_of(name, (root / name).read_text())]
    return places, f"{len(read)} files name what can be installed"


if __name__ == "__main__":
    run_check("installs", __doc__, check)
