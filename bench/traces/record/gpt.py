# SPDX-License-Identifier: Apache-2.0
"""A GPT-like model and its training step, as the recordings use it."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY = 50304


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm, as in GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        seen = seen.transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(seen)
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    def __init__(self, width, layers, heads, length_max, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(length_max, width)
        self.blocks = nn.ModuleList(Block(width, heads)
                                    for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(places)
        for block in self.blocks:
            x = (checkpoint(block, x, use_reentrant=False)
                 if self.checkpointed else block(x))
        return self.head(self.norm(x))


def train(model, lengths, batch):
    """One step of AdamW for each of `lengths`, in bfloat16 autocast."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for length in lengths:
        tokens = torch.randint(VOCABULARY, (batch, length + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1),
                                            tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())
