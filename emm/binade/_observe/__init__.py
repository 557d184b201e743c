# SPDX-License-Identifier: Apache-2.0
"""A look at another process's pools: what binade.observe is made of."""
