# SPDX-License-Identifier: Apache-2.0
"""A look at another process's pools: what moiety.observe is made of."""

# The source of pools whose memory is mapped piece by piece: they have addresses
# without memory, and their pieces move.
MAPPED = "cuMemMap"
