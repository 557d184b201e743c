# SPDX-License-Identifier: Apache-2.0
"""Python imports this at the start of each process: those that PyTorch's tests
start have our memory too."""

import os

if os.environ.get("MOIETY_TORCH_MEMORY") == "ours":
    import moiety.torch

    moiety.torch.enable(ipc=bool(os.environ.get("MOIETY_TORCH_IPC")),
                        pinned=bool(os.environ.get("MOIETY_TORCH_PINNED")))
