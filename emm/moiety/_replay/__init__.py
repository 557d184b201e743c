# SPDX-License-Identifier: Apache-2.0
"""Replays by the program in C, for `moiety replay`."""
