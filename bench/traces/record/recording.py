# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's allocator does, and what it says of itself."""

import contextlib
import json
import pathlib
import platform
import subprocess

# Entries that PyTorch keeps; beyond that it forgets the oldest.
ENTRIES_MAX = 1_000_000


class Missing(Exception):
    """What a recording needs is not here."""


def torch_on_gpu():
    """PyTorch with a device, or Missing."""
    try:
        import torch
    except ImportError as error:
        raise Missing(f"PyTorch is not installed: {error}") from error
    if not torch.cuda.is_available():
        raise Missing("PyTorch finds no CUDA device")
    return torch


def _gpu():
    """The lines of nvidia-smi that name the devices and the driver."""
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version",
         "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return asked.stdout.strip().splitlines()[:1]


def _own_figures(torch):
    stats = torch.cuda.memory_stats()
    return {
        "torch": torch.__version__, "cuda": torch.version.cuda,
        "python": platform.python_version(), "gpu": _gpu(),
        "peaks": {key: value for key, value in stats.items()
                  if key.endswith(".all.peak")},
        "retries": stats["num_alloc_retries"], "ooms": stats["num_ooms"]}


@contextlib.contextmanager
def recorded(out, **about):
    """Writes OUT.pickle, a snapshot with all that is allocated and freed inside
    of this, and OUT.json: PyTorch's own figures and `about`.

    Missing where there is no PyTorch or no device. Nothing is written if what
    is inside raises.
    """
    torch = torch_on_gpu()
    out = pathlib.Path(out)
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(
        enabled="all", context=None, stacks="python", max_entries=ENTRIES_MAX)
    yield
    torch.cuda.synchronize()
    about |= _own_figures(torch)
    torch.cuda.memory._dump_snapshot(str(out.with_suffix(".pickle")))
    torch.cuda.memory._record_memory_history(enabled=None)
    out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
