# SPDX-License-Identifier: Apache-2.0
"""The stand-in driver, a CUDA driver without a GPU (docs/dev/standin.md).
MOIETY_DRIVER=standin puts Moiety on it; for other libraries of the same
process, numba for one, FOLDER goes into LD_LIBRARY_PATH as well."""

from pathlib import Path

FOLDER: str = str(Path(__file__).resolve().parent)
