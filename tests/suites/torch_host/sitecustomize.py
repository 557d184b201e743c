# SPDX-License-Identifier: Apache-2.0
"""Python imports this at the start of each process: those that PyTorch's tests
start have our memory too."""

import os

if os.environ.get("BINADE_TORCH_MEMORY") == "ours":
    import binade.torch

    binade.torch.enable(ipc=bool(os.environ.get("BINADE_TORCH_IPC")))
