# SPDX-License-Identifier: Apache-2.0
"""numba's memory manager: what binade.numba is made of."""
