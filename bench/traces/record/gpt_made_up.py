# SPDX-License-Identifier: Apache-2.0
"""Prints a trace (docs/dev/trace-format.md) of what PyTorch's allocator is asked for by
bench/python/torch_training.py: a GPT of 12 layers in mixed precision that trains
with AdamW, whose lengths vary from 128 to 1 024. Made up from the shapes of its
tensors, without PyTorch or a GPU; the forward pass and the optimiser are thread 0,
the backward pass is thread 1, all on one stream.

    gpt_made_up.py [STEPS]          (default: 60)
"""

import sys

WIDTH, VOCABULARY, LAYERS, HEADS, BATCH = 768, 16384, 12, 12, 8
MATRICES = (3 * WIDTH * WIDTH, WIDTH * WIDTH, 4 * WIDTH * WIDTH,
            4 * WIDTH * WIDTH)
OUTPUTS = (3 * WIDTH, WIDTH, 4 * WIDTH, WIDTH)
FORWARD, BACKWARD = 0, 1


class Memory:
    """What is live, and the lines of the trace."""

    def __init__(self):
        self.lines, self.sizes, self.count, self.thread = [], {}, 0, FORWARD

    def take(self, size):
        block, self.count = self.count, self.count + 1
        self.sizes[block] = max(512, (size + 511) // 512 * 512)
        self.lines.append(f"a 1000 {self.thread} {block} {self.sizes[block]} 0")
        return block

    def free(self, *blocks):
        for block in blocks:
            self.lines.append(f"f 1000 {self.thread} {block} 0")
            del self.sizes[block]


def cast_weight(memory, casts, matrix, output):
    casts += [memory.take(2 * matrix), memory.take(2 * output)]


def forward_norm(memory, rows):
    """Its statistics, and its output in half precision."""
    norm = memory.take(4 * rows * WIDTH)
    statistics = [memory.take(4 * rows), memory.take(4 * rows)]
    output = memory.take(2 * rows * WIDTH)
    memory.free(norm)
    return statistics, output


def forward_layer(memory, casts, x, rows, length):
    """What the layer keeps for its backward pass, and its output."""
    kept = {"x": x}
    kept["norm1"], kept["in1"] = forward_norm(memory, rows)
    cast_weight(memory, casts, MATRICES[0], OUTPUTS[0])
    kept["qkv"] = memory.take(2 * rows * 3 * WIDTH)
    kept["attention"] = [memory.take(2 * rows * WIDTH),
                         memory.take(4 * BATCH * HEADS * length),
                         memory.take(16), memory.take(16)]
    kept["mixed"] = memory.take(2 * rows * WIDTH)
    cast_weight(memory, casts, MATRICES[1], OUTPUTS[1])
    projected = memory.take(2 * rows * WIDTH)
    kept["y"] = memory.take(4 * rows * WIDTH)
    memory.free(projected)
    kept["norm2"], kept["in2"] = forward_norm(memory, rows)
    cast_weight(memory, casts, MATRICES[2], OUTPUTS[2])
    kept["hidden"] = memory.take(2 * rows * 4 * WIDTH)
    kept["gelu"] = memory.take(2 * rows * 4 * WIDTH)
    cast_weight(memory, casts, MATRICES[3], OUTPUTS[3])
    output = memory.take(2 * rows * WIDTH)
    x = memory.take(4 * rows * WIDTH)
    memory.free(output)
    return kept, x


def weight_gradients(memory, matrix, output):
    """In half precision first, then as the parameters are."""
    half = memory.take(2 * matrix)
    whole = memory.take(4 * matrix)
    memory.free(half)
    half = memory.take(2 * output)
    bias = memory.take(4 * output)
    memory.free(half)
    return [whole, bias]


def backward_norm(memory, rows, gradient, statistics):
    """From the gradient of what was put out, half precision, and of the sum."""
    inner = memory.take(4 * rows * WIDTH)
    memory.free(gradient[0])
    outer = memory.take(4 * rows * WIDTH)
    own = [memory.take(4 * WIDTH), memory.take(4 * WIDTH)]
    memory.free(inner, *statistics)
    total = memory.take(4 * rows * WIDTH)
    memory.free(outer, gradient[1])
    return total, own


def backward_layer(memory, kept, total, rows, length):
    gradients = []
    output = memory.take(2 * rows * WIDTH)
    gelu = memory.take(2 * rows * 4 * WIDTH)
    gradients += weight_gradients(memory, MATRICES[3], OUTPUTS[3])
    memory.free(output, kept["gelu"])
    hidden = memory.take(2 * rows * 4 * WIDTH)
    memory.free(gelu, kept["hidden"])
    inner = memory.take(2 * rows * WIDTH)
    gradients += weight_gradients(memory, MATRICES[2], OUTPUTS[2])
    memory.free(hidden, kept["in2"])
    total, own = backward_norm(memory, rows, (inner, total), kept["norm2"])
    gradients += own
    memory.free(kept["y"])
    projected = memory.take(2 * rows * WIDTH)
    mixed = memory.take(2 * rows * WIDTH)
    gradients += weight_gradients(memory, MATRICES[1], OUTPUTS[1])
    memory.free(projected, kept["mixed"])
    heads = [memory.take(2 * rows * WIDTH) for _ in range(3)]
    scratch = [memory.take(4 * rows * WIDTH),
               memory.take(4 * BATCH * HEADS * length)]
    memory.free(*scratch, mixed, *kept["attention"])
    qkv = memory.take(2 * rows * 3 * WIDTH)
    memory.free(*heads, kept["qkv"])
    inner = memory.take(2 * rows * WIDTH)
    gradients += weight_gradients(memory, MATRICES[0], OUTPUTS[0])
    memory.free(qkv, kept["in1"])
    total, own = backward_norm(memory, rows, (inner, total), kept["norm1"])
    memory.free(kept["x"])
    return total, gradients + own


def step(memory, length, states):
    rows, casts, layers, gradients = BATCH * length, [], [], []
    tokens = memory.take(8 * rows)
    x = memory.take(4 * rows * WIDTH)
    for _ in range(LAYERS):
        kept, x = forward_layer(memory, casts, x, rows, length)
        layers.append(kept)
    last = memory.take(2 * rows * WIDTH)
    cast_weight(memory, casts, VOCABULARY * WIDTH, VOCABULARY)
    logits = memory.take(2 * rows * VOCABULARY)
    memory.free(x)
    single = memory.take(4 * rows * VOCABULARY)
    memory.free(logits)
    softmax = memory.take(4 * rows * VOCABULARY)
    memory.free(single)
    losses = [memory.take(4), memory.take(4)]

    memory.thread = BACKWARD
    unit = memory.take(4)
    outer = memory.take(4 * rows * VOCABULARY)
    single = memory.take(4 * rows * VOCABULARY)
    memory.free(outer, softmax)
    logits = memory.take(2 * rows * VOCABULARY)
    memory.free(single)
    inner = memory.take(2 * rows * WIDTH)
    gradients += weight_gradients(memory, VOCABULARY * WIDTH, VOCABULARY)
    memory.free(logits, last)
    total = memory.take(4 * rows * WIDTH)
    memory.free(inner)
    for kept in reversed(layers):
        total, more = backward_layer(memory, kept, total, rows, length)
        gradients += more
    gradients.append(memory.take(4 * VOCABULARY * WIDTH))
    memory.free(total, *casts, unit)

    memory.thread = FORWARD
    memory.free(tokens, *losses)
    if not states:
        states += [memory.take(memory.sizes[gradient])
                   for _ in range(2) for gradient in gradients]
    temporary = [memory.take(memory.sizes[gradient]) for gradient in gradients]
    memory.free(*temporary, *gradients)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    memory, states = Memory(), []
    memory.take(4 * VOCABULARY * WIDTH)
    for _ in range(LAYERS):
        for size in (WIDTH, WIDTH, WIDTH, WIDTH, *MATRICES, *OUTPUTS):
            memory.take(4 * size)
    memory.take(4 * VOCABULARY * WIDTH)
    memory.take(4 * VOCABULARY)
    for i in range(steps):
        step(memory, 128 + 64 * (i * 7 % 15), states)
    print("moiety-trace 1\nI source made up\nI device 0\nT 0 forward\n"
          "T 1 backward\nS 0 null", *memory.lines, f"E {len(memory.lines)}",
          sep="\n")


if __name__ == "__main__":
    main()
