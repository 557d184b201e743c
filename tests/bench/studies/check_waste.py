# SPDX-License-Identifier: Apache-2.0
"""Checks what //bench:waste wrote: check_waste.py FILE.

The bounds are those that moiety_alloc() and the README promise.
"""

import json
import sys

MIB = 1 << 20
GIB = 1 << 30


def complaints(rows):
    requests = {r["wanted_bytes"]: r for r in rows if r["what"] == "request"}
    for order in range(33):
        for wanted in ((1 << order) - 1, 1 << order, (1 << order) + 1):
            if 0 < wanted <= 4 * GIB and wanted not in requests:
                yield f"no request of {wanted} bytes"
    for wanted, row in requests.items():
        held, power = row["held_bytes"], row["power_of_two_bytes"]
        most = (wanted * 9 / 8 + 512 if wanted <= MIB
                else wanted + (32 << 10))
        if not wanted <= held <= most:
            yield f"{wanted} bytes hold {held}"
        if not (wanted <= power < max(2 * wanted, 513)
                and power & (power - 1) == 0):
            yield f"{power} is not the power of two of {wanted}"
    fresh = [r for r in rows if r["what"] == "fresh_pool"]
    if [r["wanted_bytes"] for r in fresh] != [round(2.083 * GIB)]:
        yield f"not one request of 2.083 GiB: {fresh}"
    for row in fresh:
        if not (row["wanted_bytes"] <= row["held_bytes"]
                <= row["reserved_bytes"] < 2.09 * GIB):
            yield f"the fresh pool: {row}"
    metadata = {r["block_bytes"]: r for r in rows if r["what"] == "metadata"}
    if sorted(metadata) != [512, 4096, 65536, 2 * MIB]:
        yield f"metadata of {sorted(metadata)}"
    for size, row in metadata.items():
        if not 0.99 * GIB < size * row["block_count"] < GIB:
            yield f"{row['block_count']} blocks of {size} are no GiB"
        # For each 512 a byte, and four where an extent begins or ends; a sixth
        # for what grows with the number of blocks only by pages.
        if row["host_bytes"] > 6 * GIB // 512:
            yield f"blocks of {size} need {row['host_bytes']} bytes"


def main(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    wrong = list(complaints(rows))
    for what in wrong:
        print(f"FAILED: {what}")
    print(f"{len(rows)} numbers, {len(wrong)} failures")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
