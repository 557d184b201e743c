#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every driver entry that a CUDA Toolkit declares.

Reads cuda*Typedefs.h (base name, version and per-thread flag of each entry)
and the dynamic symbols of the Toolkit's link-time libcuda.so, and prints
pool/standin/entries.inc. Names and versions are facts of the interface; no
text of the headers is kept.

    update_entries.py $CUDA_PATH > pool/standin/entries.inc
"""
import collections
import pathlib
import re
import subprocess
import sys

HEADER = """\
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Made by update_entries.py from the CUDA {major}.{minor} Toolkit: every driver
 * entry that it declares. ENTRY(symbol, base name, first version,
 * stream flavour): LEGACY is the plain entry, PER_THREAD the one to which the
 * null stream means the calling thread's own.
 */
"""
TYPEDEF = re.compile(r"PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(")
SYMBOL = re.compile(r"(cu[A-Z]\w*?)(?:_v(\d+))?(_ptds|_ptsz)?")


def declared_versions(toolkit):
    """(base, flavour) -> versions, oldest first."""
    text = "".join(header.read_text() for header in
                   sorted(toolkit.glob("include/cuda*Typedefs.h")))
    found = collections.defaultdict(set)
    for base, version, flavour in TYPEDEF.findall(text):
        found[base, flavour].add(int(version))
    return {key: sorted(versions) for key, versions in found.items()}


def exported_symbols(toolkit):
    """(base, flavour) -> symbols, oldest first."""
    library = toolkit / "lib64/stubs/libcuda.so"
    listing = subprocess.run(["nm", "-D", "--defined-only", library],
                             check=True, capture_output=True, text=True)
    found = collections.defaultdict(list)
    for symbol in listing.stdout.split()[2::3]:
        match = SYMBOL.fullmatch(symbol)
        if match:
            base, rank, flavour = match.groups()
            found[base, flavour or ""].append((int(rank or 1), symbol))
    return {key: [s for _, s in sorted(rows)] for key, rows in found.items()}


def graphics_symbols(base, flavour, versions):
    """EGL, GL and VDPAU entries: in the driver, not in the link-time copy."""
    return [base + (f"_v{rank}" if rank > 1 else "") + flavour
            for rank in range(1, len(versions) + 1)]


def entries(toolkit):
    """Rows (symbol, base, version, flavour); newest version, newest symbol."""
    symbols = exported_symbols(toolkit)
    for key, versions in sorted(declared_versions(toolkit).items()):
        base, flavour = key
        own = symbols.get(key) or graphics_symbols(base, flavour, versions)
        own = own[-len(versions):]
        if len(own) != len(versions):
            sys.exit(f"{base}{flavour}: versions {versions}, symbols {own}")
        for version, symbol in zip(versions, own):
            yield symbol, base, version, "PER_THREAD" if flavour else "LEGACY"


def main(toolkit):
    text = (toolkit / "include/cuda.h").read_text()
    version = int(re.search(r"#define CUDA_VERSION (\d+)", text).group(1))
    print(HEADER.format(major=version // 1000, minor=version % 1000 // 10))
    for row in entries(toolkit):
        print("ENTRY({}, {}, {}, {})".format(*row))
    print("\n#undef ENTRY")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
