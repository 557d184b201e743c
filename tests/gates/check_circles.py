#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No circle between source files: a file that calls another is not called by it,
nor by what that one calls. Floors of folders are the build's to enforce; within a
folder, nothing else does.

    check_circles.py ARCHIVE

ARCHIVE is a static library: each object is a source file, and its undefined
symbols, as nm(1) lists them, are its calls. What goes through a pointer, a hook,
is no call. Exits with 1, and names the files and the symbols, if there is a circle.
"""

import subprocess

from tree_files import run_check


def objects(archive):
    """(name, symbols that it defines, symbols that it wants) of each object."""
    listing = subprocess.run(["nm", archive], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    found = []
    for line in listing.splitlines():
        words = line.split()
        if line.endswith(":"):
            name = line[:-1].replace(".pic.o", ".c").replace(".o", ".c")
            found.append((name, set(), set()))
        elif len(words) == 3 and words[1].isupper():
            found[-1][1].add(words[2])
        elif len(words) == 2 and words[0] == "U":
            found[-1][2].add(words[1])
    return found


def calls_of(found):
    """For each object, by index, those that it calls, each with a symbol."""
    owner = {symbol: index for index, (_, defined, _) in enumerate(found)
             for symbol in defined}
    calls = [{} for _ in found]
    for index, (_, _, wanted) in enumerate(found):
        for symbol in sorted(wanted):
            if owner.get(symbol, index) != index:
                calls[index].setdefault(owner[symbol], symbol)
    return calls


def way_back(calls, start):
    """A shortest way from an object to itself; None: there is none."""
    before = {}
    queue = [start]
    for at in queue:
        for called in calls[at]:
            if called in before:
                continue
            before[called] = at
            if called == start:
                way = [start]
                while True:
                    way.append(before[way[-1]])
                    if way[-1] == start:
                        return way[::-1]
            queue.append(called)
    return None


def check(archive):
    found = objects(archive)
    calls = calls_of(found)
    if not any(calls):
        return [f"{archive}: no object calls another"], ""
    said, circles = set(), []
    for start in range(len(found)):
        way = way_back(calls, start)
        if way is None or said & set(way):
            continue
        said |= set(way)
        circles.append("; ".join(
            f"{found[a][0]} calls {calls[a][b]} of {found[b][0]}"
            for a, b in zip(way, way[1:])))
    return circles, (f"{len(found)} files, {sum(map(len, calls))} pairs of "
                     "them, no circle")


if __name__ == "__main__":
    run_check("circles", __doc__, check)
