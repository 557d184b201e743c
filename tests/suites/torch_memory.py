# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for PyTorch's own tests: how many blocks our memory served.
torch_host/sitecustomize.py has put it behind PyTorch, in this process and those
that tests start."""

import os


def pytest_configure():
    import torch

    is_ours = os.environ["MOIETY_TORCH_MEMORY"] == "ours"
    assert torch.cuda.memory.get_allocator_backend() == (
        "moiety" if is_ours else "native")


def pytest_served():
    import torch

    if torch.cuda.memory.get_allocator_backend() != "moiety":
        return 0
    if os.environ.get("MOIETY_TORCH_PINNED"):
        stats = torch.cuda.host_memory_stats()
        # By the name of 2.10 and later, or of 2.9.
        return stats.get("active_requests.allocated",
                         stats.get("allocation.allocated", 0))
    return torch.cuda.memory_stats().get("allocation.all.allocated", 0)
