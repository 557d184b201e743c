# SPDX-License-Identifier: Apache-2.0
"""A small training program for PyTorch, which knows nothing of Moiety. It needs
PyTorch and a GPU.

    python -m moiety.torch emm/examples/train.py
"""

import torch


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(),
        torch.nn.Linear(4096, 1024)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(20):
        # Sizes change from step to step.
        batch = torch.randn(64 + 16 * (step % 4), 1024, device="cuda")
        loss = (model(batch) - batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("the loss fell:", losses[-1] < losses[0])
    print(f"{torch.cuda.max_memory_reserved() >> 20} MiB reserved, "
          f"{torch.cuda.max_memory_allocated() >> 20} MiB live at most")


if __name__ == "__main__":
    main()
