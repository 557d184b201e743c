# SPDX-License-Identifier: Apache-2.0
"""A GPT that trains on batches of many lengths, for the programs beside it."""

import torch
from torch.utils.checkpoint import checkpoint

HEADS = 12
WORDS = 16384
BATCH = 8
LENGTHS = [128 + 64 * ((step * 7) % 15) for step in range(15)]


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.attend = torch.nn.Linear(width, 3 * width)
        self.project = torch.nn.Linear(width, width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
            torch.nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attend(self.norm1(x)).view(
            batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            *parts, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.feed(self.norm2(x))


class Model(torch.nn.Module):
    def __init__(self, layers, width, has_checkpoints):
        super().__init__()
        self.has_checkpoints = has_checkpoints
        self.embed = torch.nn.Embedding(WORDS, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, WORDS)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = (checkpoint(block, x, use_reentrant=False)
                 if self.has_checkpoints else block(x))
        return self.head(x)


def words(length):
    return torch.randint(0, WORDS, (BATCH, length), device="cuda")


def loss_of(model, tokens):
    with torch.autocast("cuda", torch.bfloat16):
        return torch.nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), tokens.flatten())
