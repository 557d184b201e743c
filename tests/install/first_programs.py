# SPDX-License-Identifier: Apache-2.0
"""Runs the Python programs of pages on the package as it is installed, and
compares what they print with the page. What needs numba is left out where that
is not installed.

usage: python first_programs.py PAGE...
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["BLOCKS_FOLDER"])

import blocks  # noqa: E402


def programs(page):
    """(name, text, output) of each program that a command runs alone."""
    found = blocks.blocks_of(page.read_text())
    texts = {block.name: block.text for block in found
             if block.language == "python"}
    for index, block in enumerate(found):
        name = block.text.strip().removeprefix("python3 ")
        if block.language != "sh" or name not in texts:
            continue
        output = found[index + 1] if index + 1 < len(found) else None
        is_shown = output is not None and output.language == "output"
        yield name, texts[name], output.text if is_shown else None


def main(paths):
    count = 0
    for path in map(pathlib.Path, paths):
        for name, text, output in programs(path):
            if "numba" in text and not importlib.util.find_spec("numba"):
                print(f"{path.name}: {name}: left out, as numba is not here")
                continue
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, name)
                file.write_text(text)
                done = subprocess.run([sys.executable, file], text=True,
                                      stdout=subprocess.PIPE, check=True)
            if output is not None and done.stdout != output:
                sys.exit(f"{path.name}: {name}: it printed\n{done.stdout}"
                         f"where the page has\n{output}")
            print(f"{path.name}: {name}: ok")
            count += 1
    print(f"{count} programs, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
