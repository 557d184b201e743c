# SPDX-License-Identifier: Apache-2.0
"""A pool for each device; `moiety` has what is public here."""
