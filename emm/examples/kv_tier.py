# SPDX-License-Identifier: Apache-2.0
"""A tier of pinned memory for the KV cache of a PyTorch program. Blocks of 2 MiB leave
the device on one stream and come back on another, both ways at once. The tier is pinned
in a thread of the library while its first blocks are in use.

    python emm/examples/kv_tier.py [MIB]
"""

import sys

import numpy as np
import torch

import moiety

BLOCK_BYTES = 2 << 20


class Tier:
    def __init__(self, mebibytes):
        self.arena = moiety.HostArena(limit=mebibytes << 20)
        self.growth = self.arena.reserve_async(mebibytes << 20)
        self.out, self.back = torch.cuda.Stream(), torch.cuda.Stream()

    def send(self, block):
        """Returns what bring() takes. No copy is waited for."""
        self.out.wait_stream(torch.cuda.current_stream())
        memory = self.arena.alloc(BLOCK_BYTES, self.out.cuda_stream)
        with torch.cuda.stream(self.out):
            torch.from_numpy(np.asarray(memory)).copy_(block, non_blocking=True)
        block.record_stream(self.out)
        return memory, self.out.record_event()

    def bring(self, sent):
        """Returns a new block. Work of the current stream may use it."""
        memory, has_left = sent
        self.back.wait_event(has_left)
        with torch.cuda.stream(self.back):
            block = torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda")
            block.copy_(torch.from_numpy(np.asarray(memory)), non_blocking=True)
        memory.free(self.back.cuda_stream)
        torch.cuda.current_stream().wait_stream(self.back)
        block.record_stream(torch.cuda.current_stream())
        return block


def main(mebibytes=64):
    tier = Tier(mebibytes)
    away, wrong = {}, 0
    count = mebibytes * (1 << 20) // BLOCK_BYTES
    for number in range(4 * count):
        block = torch.full((BLOCK_BYTES,), number % 251, dtype=torch.uint8,
                           device="cuda")
        away[number] = tier.send(block)
        if len(away) == count:
            first = min(away)
            wrong += (tier.bring(away.pop(first)) != first % 251).any()
    print(4 * count, "blocks left,", int(wrong), "came back wrong")
    tier.growth.wait()
    print(tier.growth.ready_bytes >> 20, "MiB were pinned beside it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
